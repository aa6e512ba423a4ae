/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of threads, and the memory of shards; cells.h tells the story. Any thread: slots are taken
 * and released with atomics, and a chunk is made under the lock of its family.
 *
 * The destructor of a thread's slot is code of this library. A program that links it statically
 * into a plugin may close the plugin while its threads live on, so unloading takes the destructor
 * away first. (The shared library is never unmapped; see cmake/PromInstall.cmake.)
 */
#include "lib/metrics/cells.h"

#include <pthread.h>
#include <stdlib.h>

_Thread_local unsigned metric_thread_slot = METRIC_SLOT_UNASKED;

enum { WORD_BITS = 64, WORDS = METRIC_SLOTS_MAX / WORD_BITS };

/* Slots are process-wide, so that a thread has one index for all registries. A set bit is taken. */
static _Atomic(uint64_t) slots_taken[WORDS];
static _Atomic(size_t) slots_used; /* the highest slot ever taken, plus 1 */

static pthread_once_t slot_key_once = PTHREAD_ONCE_INIT;
static pthread_key_t slot_key;
static atomic_bool slot_key_made;

static void slot_hand_back(unsigned slot)
{
    atomic_fetch_and_explicit(&slots_taken[slot / WORD_BITS], ~(UINT64_C(1) << (slot % WORD_BITS)),
                              memory_order_release);
}

/* Destructors of other keys may still observe after this one, so the thread does not become
 * "unasked" again (it would take a slot that is never released) but counts in the shared shard
 * until it ends. */
static void on_thread_end(void *value)
{
    metric_thread_slot = METRIC_SLOT_SHARED;
    slot_hand_back((unsigned)(uintptr_t)value - 1);
}

static void make_slot_key(void)
{
    atomic_store(&slot_key_made, pthread_key_create(&slot_key, on_thread_end) == 0);
}

/* Threads that observe afterwards, at the end of the program, count in the shared shard. */
__attribute__((destructor)) static void delete_slot_key(void)
{
    if (atomic_exchange(&slot_key_made, false))
        pthread_key_delete(slot_key);
}

static void note_used(size_t used)
{
    size_t before = atomic_load_explicit(&slots_used, memory_order_relaxed);
    while (before < used &&
           !atomic_compare_exchange_weak_explicit(&slots_used, &before, used, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

size_t metric_cells_slots_used(void)
{
    return atomic_load_explicit(&slots_used, memory_order_relaxed);
}

/* The lowest free slot, so that few threads use few shards. */
static unsigned slot_take(void)
{
    for (unsigned word = 0; word < WORDS; word++) {
        uint64_t taken = atomic_load_explicit(&slots_taken[word], memory_order_relaxed);
        while (~taken != 0) {
            unsigned bit = (unsigned)__builtin_ctzll(~taken);
            if (atomic_compare_exchange_weak_explicit(&slots_taken[word], &taken,
                                                      taken | (UINT64_C(1) << bit),
                                                      memory_order_acquire, memory_order_relaxed))
                return word * WORD_BITS + bit;
        }
    }
    return METRIC_SLOT_SHARED;
}

static unsigned slot_ask(void)
{
    pthread_once(&slot_key_once, make_slot_key);
    if (!atomic_load(&slot_key_made))
        return METRIC_SLOT_SHARED;
    unsigned slot = slot_take();
    if (slot == METRIC_SLOT_SHARED)
        return slot;
    /* slot + 1, because a NULL value would not call the destructor */
    if (pthread_setspecific(slot_key, (void *)(uintptr_t)(slot + 1)) != 0) {
        slot_hand_back(slot);
        return METRIC_SLOT_SHARED;
    }
    note_used((size_t)slot + 1);
    return slot;
}

size_t metric_cells_shard_slow(size_t exclusive)
{
    if (metric_thread_slot == METRIC_SLOT_UNASKED)
        metric_thread_slot = slot_ask();
    return metric_thread_slot < exclusive ? metric_thread_slot : exclusive;
}

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

struct metric_chunk *metric_chunk_new(size_t width, size_t capacity, size_t shards)
{
    struct metric_chunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk)
        return NULL;
    chunk->width = width;
    chunk->capacity = capacity;
    chunk->stride = round_up(width * capacity, METRIC_CACHE_LINE / sizeof(metric_cell));
    /* calloc, not aligned_alloc: large blocks are then untouched zero pages, and shards that no
     * thread uses cost only address space */
    chunk->memory = calloc(1, chunk->stride * shards * sizeof(metric_cell) + METRIC_CACHE_LINE);
    if (!chunk->memory) {
        metric_chunk_free(&chunk);
        return NULL;
    }
    chunk->cells = (metric_cell *)round_up((uintptr_t)chunk->memory, METRIC_CACHE_LINE);
    return chunk;
}

void metric_chunk_free(struct metric_chunk **chunk)
{
    if (!*chunk)
        return;
    free((*chunk)->memory);
    free(*chunk);
    *chunk = NULL;
}
