/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h - memory that is taken piece by piece and given back at once.
 *
 * For things that live and die together, such as everything in one configuration. One thread at a
 * time. A zeroed arena is empty and ready.
 */
#ifndef EXPORTER_ARENA_H
#define EXPORTER_ARENA_H

#include <stddef.h>

struct exporter_arena_chunk;

struct exporter_arena {
    struct exporter_arena_chunk *chunks;
};

/* `count` items of `size` bytes, zeroed and aligned for anything. NULL when there is no memory;
 * what was taken before stays good. */
void *exporter_arena_take(struct exporter_arena *arena, size_t count, size_t size);

/* A copy of `length` bytes with a zero behind it; NULL when there is no memory. */
char *exporter_arena_copy(struct exporter_arena *arena, const char *bytes, size_t length);

/* Gives everything back; the arena is empty again. */
void exporter_arena_clear(struct exporter_arena *arena);

#endif
