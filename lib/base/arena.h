/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h - a bump allocator: one per request, everything released at once.
 *
 *     struct base_arena arena;
 *     base_arena_init(&arena, 0);
 *     char *copy = base_arena_copy(&arena, text, size);
 *     base_arena_free(&arena);
 *
 * Nothing is allocated before the first use. Blocks double in size, so that a small request costs
 * one block and a large one a few. Not thread-safe: an arena belongs to one request.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "lib/base/span.h"

struct base_arena_block;

struct base_arena {
    struct base_arena_block *blocks; /* newest first */
    char *next, *end;                /* what is left of the newest block */
    size_t block_size;               /* of the block to come */
    size_t held;                     /* bytes in all blocks, for accounting */
};

/* first_size: of the first block, 0 for the default of 2 KiB. */
void base_arena_init(struct base_arena *arena, size_t first_size);

/* Aligned for any type, not zeroed; NULL when there is no memory. A size of 0 gives a valid
 * pointer. */
void *base_arena_alloc(struct base_arena *arena, size_t size);
/* What was allocated last grows in place where its block has room; all else is moved, and leaves a
 * hole. The first `old_size` bytes stay; NULL as above, and then the old ones are as they were. */
void *base_arena_resize(struct base_arena *arena, void *pointer, size_t old_size, size_t size);
void *base_arena_calloc(struct base_arena *arena, size_t count, size_t size);

/* A copy, terminated with a NUL that does not count. */
char *base_arena_copy(struct base_arena *arena, const void *data, size_t size);
char *base_arena_strdup(struct base_arena *arena, const char *text);
char *base_arena_printf(struct base_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Forgets everything but keeps the newest (largest) block for the next request. */
void base_arena_reset(struct base_arena *arena);

/* Releases everything; the arena can be used again. Harmless on a zeroed one. */
void base_arena_free(struct base_arena *arena);

#endif
