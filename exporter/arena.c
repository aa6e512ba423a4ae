/* SPDX-License-Identifier: Apache-2.0 */
/* An arena is a list of chunks; the newest one is filled from its start. */
#include "exporter/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 4096 - 64 }; /* a page with room for malloc's own bookkeeping */

struct exporter_arena_chunk {
    struct exporter_arena_chunk *next;
    size_t used;
    size_t size;
    alignas(max_align_t) char bytes[];
};

static struct exporter_arena_chunk *chunk_for(struct exporter_arena *arena, size_t size)
{
    struct exporter_arena_chunk *chunk = arena->chunks;

    if (chunk != NULL && chunk->size - chunk->used >= size) {
        return chunk;
    }
    size_t capacity = size > CHUNK_BYTES ? size : CHUNK_BYTES;
    chunk = calloc(1, sizeof(*chunk) + capacity);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->size = capacity;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return chunk;
}

void *exporter_arena_take(struct exporter_arena *arena, size_t count, size_t size)
{
    static const size_t unit = alignof(max_align_t);
    size_t total;

    if (__builtin_mul_overflow(count, size, &total) || total > PTRDIFF_MAX - CHUNK_BYTES) {
        return NULL;
    }
    total = (total + unit - 1) / unit * unit;
    struct exporter_arena_chunk *chunk = chunk_for(arena, total);
    if (chunk == NULL) {
        return NULL;
    }
    void *taken = chunk->bytes + chunk->used;
    chunk->used += total;
    return taken;
}

char *exporter_arena_copy(struct exporter_arena *arena, const char *bytes, size_t length)
{
    char *copy = exporter_arena_take(arena, length + 1, 1);

    if (copy != NULL) {
        memcpy(copy, bytes, length);
    }
    return copy;
}

void exporter_arena_clear(struct exporter_arena *arena)
{
    while (arena->chunks != NULL) {
        struct exporter_arena_chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        free(chunk);
    }
}
