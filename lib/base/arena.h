/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h - a bump allocator: one per request, everything released at once.
 *
 *     struct handoff_arena arena;
 *     handoff_arena_init(&arena, 0);
 *     char *copy = handoff_arena_copy(&arena, text, size);
 *     handoff_arena_free(&arena);
 *
 * Nothing is allocated before the first use. Blocks double in size, so that a small request costs
 * one block and a large one a few. Not thread-safe: an arena belongs to one request.
 */
#ifndef HANDOFF_BASE_ARENA_H
#define HANDOFF_BASE_ARENA_H

#include <stddef.h>

#include "lib/base/span.h"

struct handoff_arena_block;

struct handoff_arena {
    struct handoff_arena_block *blocks; /* newest first */
    char *next, *end;                   /* what is left of the newest block */
    size_t block_size;                  /* of the block to come */
    size_t held;                        /* bytes in all blocks, for accounting */
};

/* first_size: of the first block, 0 for the default of 2 KiB. */
void handoff_arena_init(struct handoff_arena *arena, size_t first_size);

/* Aligned for any type, not zeroed; NULL when there is no memory. A size of 0 gives a valid
 * pointer. */
void *handoff_arena_alloc(struct handoff_arena *arena, size_t size);
/* What was allocated last grows in place where its block has room; all else is moved, and leaves a
 * hole. The first `old_size` bytes stay; NULL as above, and then the old ones are as they were. */
void *handoff_arena_resize(struct handoff_arena *arena, void *pointer, size_t old_size,
                           size_t size);
void *handoff_arena_calloc(struct handoff_arena *arena, size_t count, size_t size);

/* A copy, terminated with a NUL that does not count. */
char *handoff_arena_copy(struct handoff_arena *arena, const void *data, size_t size);
char *handoff_arena_strdup(struct handoff_arena *arena, const char *text);
char *handoff_arena_printf(struct handoff_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Forgets everything but keeps the newest (largest) block for the next request. */
void handoff_arena_reset(struct handoff_arena *arena);

/* Releases everything; the arena can be used again. Harmless on a zeroed one. */
void handoff_arena_free(struct handoff_arena *arena);

#endif
