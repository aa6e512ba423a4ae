/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bump allocator, on the thread of the request that it serves. A block is a header and its
 * bytes; a request too large for the usual block gets one of its own size. When the address
 * sanitizer looks on, every allocation is followed by a poisoned gap, so that running over the end
 * of one is seen although they lie side by side.
 *
 * A few large blocks are kept when they are released, for all threads, under a lock that is held
 * for an instant: the C library would give their pages back to the kernel, and for a request of a
 * megabyte new pages cost more than all that is computed in them (bench_ledger).
 */
#include "lib/base/arena.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/memory.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
enum { GAP = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(pointer, size)   ((void)(pointer), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(pointer, size) ((void)(pointer), (void)(size))
enum { GAP = 0 };
#endif

enum {
    ALIGNMENT = _Alignof(max_align_t),
    FIRST_BLOCK = 2048, /* a waiting handoff may cost 16 KiB beyond its envelope; most need less */
    LARGEST_BLOCK = 1 << 20, /* doubling ends here; larger requests get a block of their own */
    LEAST_SPARE = 1 << 16,   /* smaller blocks do not go back to the kernel one by one */
    SPARE_SIZES = 5,         /* 64 KiB, 128 KiB ... 1 MiB */
    SPARE_BYTES = 8 << 20,   /* kept at most: what the workers and loops use at once */
};

struct base_arena_block {
    struct base_arena_block *older;
    size_t size; /* of the bytes that follow */
    _Alignas(max_align_t) char bytes[];
};

/* ---- spare blocks ---------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    struct base_arena_block *blocks[SPARE_SIZES]; /* by size; each list by `older` */
    size_t bytes;
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_spare_size(size_t size, int *place)
{
    *place = 0;
    while (*place < SPARE_SIZES && (size_t)LEAST_SPARE << *place != size)
        ++*place;
    return *place < SPARE_SIZES;
}

/* So that a large block can be kept, it is of one of those sizes. */
static size_t round_to_spare(size_t size)
{
    size_t rounded = LEAST_SPARE;
    if (size <= LEAST_SPARE / 2 || size > LARGEST_BLOCK)
        return size;
    while (rounded < size)
        rounded *= 2;
    return rounded;
}

/* NULL: there is none. */
static struct base_arena_block *take_spare_block(size_t size)
{
    int place;
    if (!is_spare_size(size, &place))
        return NULL;
    pthread_mutex_lock(&spare.lock);
    struct base_arena_block *block = spare.blocks[place];
    if (block) {
        spare.blocks[place] = block->older;
        spare.bytes -= size;
    }
    pthread_mutex_unlock(&spare.lock);
    return block;
}

/* False: it is not kept. */
static bool keep_spare_block(struct base_arena_block *block)
{
    int place;
    if (!is_spare_size(block->size, &place))
        return false;
    ASAN_POISON_MEMORY_REGION(block->bytes, block->size);
    pthread_mutex_lock(&spare.lock);
    const bool has_room = spare.bytes + block->size <= SPARE_BYTES;
    if (has_room) {
        block->older = spare.blocks[place];
        spare.blocks[place] = block;
        spare.bytes += block->size;
    }
    pthread_mutex_unlock(&spare.lock);
    return has_room;
}

/* ---- arenas ---------------------------------------------------------------------------------- */

void base_arena_init(struct base_arena *arena, size_t first_size)
{
    *arena = (struct base_arena){.block_size = first_size ? first_size : FIRST_BLOCK};
}

static int add_block(struct base_arena *arena, size_t at_least)
{
    if (arena->block_size == 0)
        arena->block_size = FIRST_BLOCK;
    size_t size = round_to_spare(arena->block_size > at_least ? arena->block_size : at_least);
    if (size > SIZE_MAX - sizeof(struct base_arena_block))
        return 0;
    struct base_arena_block *block = take_spare_block(size);
    if (!block)
        block = base_malloc(sizeof *block + size);
    if (!block)
        return 0;
    block->older = arena->blocks;
    block->size = size;
    ASAN_POISON_MEMORY_REGION(block->bytes, size);
    arena->blocks = block;
    arena->next = block->bytes;
    arena->end = block->bytes + size;
    arena->held += size;
    if (arena->block_size < LARGEST_BLOCK)
        arena->block_size *= 2;
    return 1;
}

/* What an allocation takes of its block. */
static size_t step_of(size_t size)
{
    size_t step = (size + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return step ? step : ALIGNMENT;
}

void *base_arena_alloc(struct base_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t step = step_of(size);
    if ((size_t)(arena->end - arena->next) < step && !add_block(arena, step))
        return NULL;
    char *pointer = arena->next;
    arena->next += step;
    ASAN_UNPOISON_MEMORY_REGION(pointer, size);
    return pointer;
}

void *base_arena_resize(struct base_arena *arena, void *pointer, size_t old_size, size_t size)
{
    char *old = pointer;
    if (size > SIZE_MAX / 2)
        return NULL;
    if (old && old + step_of(old_size) == arena->next &&
        step_of(size) <= (size_t)(arena->end - old)) {
        arena->next = old + step_of(size);
        ASAN_POISON_MEMORY_REGION(old, (size_t)(arena->end - old));
        ASAN_UNPOISON_MEMORY_REGION(old, size);
        return old;
    }
    char *moved = base_arena_alloc(arena, size);
    if (moved && old)
        memcpy(moved, old, old_size < size ? old_size : size);
    return moved;
}

void *base_arena_calloc(struct base_arena *arena, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    void *pointer = base_arena_alloc(arena, count * size);
    if (pointer)
        memset(pointer, 0, count * size);
    return pointer;
}

char *base_arena_copy(struct base_arena *arena, const void *data, size_t size)
{
    char *copy = size < SIZE_MAX ? base_arena_alloc(arena, size + 1) : NULL;
    if (!copy)
        return NULL;
    if (size > 0)
        memcpy(copy, data, size);
    copy[size] = '\0';
    return copy;
}

char *base_arena_strdup(struct base_arena *arena, const char *text)
{
    return base_arena_copy(arena, text, strlen(text));
}

char *base_arena_printf(struct base_arena *arena, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : base_arena_alloc(arena, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

static void release_blocks(struct base_arena_block *block)
{
    while (block) {
        struct base_arena_block *older = block->older;
        if (!keep_spare_block(block)) {
            ASAN_UNPOISON_MEMORY_REGION(block->bytes, block->size);
            base_free(block);
        }
        block = older;
    }
}

void base_arena_reset(struct base_arena *arena)
{
    struct base_arena_block *newest = arena->blocks;
    if (!newest)
        return;
    release_blocks(newest->older);
    newest->older = NULL;
    ASAN_POISON_MEMORY_REGION(newest->bytes, newest->size);
    arena->next = newest->bytes;
    arena->end = newest->bytes + newest->size;
    arena->held = newest->size;
}

void base_arena_free(struct base_arena *arena)
{
    release_blocks(arena->blocks);
    base_arena_init(arena, 0);
}
