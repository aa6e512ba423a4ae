/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cells.h - where observations are counted: one row of cells per series and thread.
 *
 * A bare atomic add costs 5 ns as long as one thread does it, and 60 ns when two do. So threads do
 * not share: each takes a slot at its first observation and releases it when it ends. A registry
 * gives each of the slots 0..exclusive-1 a shard, in which the owner counts with a plain load and
 * store, without a lock prefix. All other threads share one more shard with atomic adds.
 *
 * A shard is one block of memory that begins on a cache line and holds the rows of many series, so
 * two threads never write to the same line and no row needs padding.
 *
 * Invariant: a slot has at most one owner. Returning a slot is a release store to the bitmap word
 * and taking it an acquire, so the new owner continues from the last value of the previous one.
 */
#ifndef METRIC_CELLS_H
#define METRIC_CELLS_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    METRIC_CACHE_LINE = 64,
    METRIC_SLOTS_MAX = 256, /* threads that can have a slot; the daemon runs a few per core */
};

#define METRIC_SLOT_UNASKED UINT_MAX       /* the thread has not observed anything yet */
#define METRIC_SLOT_SHARED  (UINT_MAX - 1) /* no slot was free, or the thread is ending */

typedef _Atomic(uint64_t) metric_cell;

extern _Thread_local unsigned metric_thread_slot;

/* Takes a slot if the thread has not tried yet; the shard that it then counts in. */
size_t metric_cells_shard_slow(size_t exclusive);

/* How many slots were ever taken, by any thread of the process: shards beyond that are empty. A
 * thread that learns of an observation (through a lock, or by joining a thread) also sees its slot
 * here. */
size_t metric_cells_slots_used(void);

/* The shard of this thread: below `exclusive` it is the thread's own. */
static inline size_t metric_cells_shard(size_t exclusive)
{
    size_t slot = metric_thread_slot;
    return __builtin_expect(slot < exclusive, 1) ? slot : metric_cells_shard_slow(exclusive);
}

static inline double metric_double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t metric_bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Only by the owner of the shard. */
static inline void metric_cell_add_own(metric_cell *cell, uint64_t n)
{
    uint64_t old = atomic_load_explicit(cell, memory_order_relaxed);
    atomic_store_explicit(cell, old + n, memory_order_relaxed);
}

static inline void metric_cell_add_shared(metric_cell *cell, uint64_t n)
{
    atomic_fetch_add_explicit(cell, n, memory_order_relaxed);
}

/* The same for a cell that holds the bits of a double. */
static inline void metric_cell_sum_own(metric_cell *cell, double value)
{
    double old = metric_double_of(atomic_load_explicit(cell, memory_order_relaxed));
    atomic_store_explicit(cell, metric_bits_of(old + value), memory_order_relaxed);
}

static inline void metric_cell_sum_shared(metric_cell *cell, double value)
{
    uint64_t old = atomic_load_explicit(cell, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(cell, &old,
                                                  metric_bits_of(metric_double_of(old) + value),
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Rows for up to `capacity` series: `shards` blocks, one after another. */
struct metric_chunk {
    struct metric_chunk *next;
    metric_cell *cells; /* aligned to a cache line, inside `memory` */
    void *memory;
    size_t stride; /* cells from one shard's block to the next */
    size_t width;  /* cells of one row */
    size_t capacity;
    size_t used;
};

/* NULL: no memory. */
struct metric_chunk *metric_chunk_new(size_t width, size_t capacity, size_t shards);
void metric_chunk_free(struct metric_chunk **chunk);

#endif
