/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.h - how long a loop has served no one: its longest turn of late.
 *
 * A turn is what a loop does between two sleeps. What is kept is the longest of the current minute
 * and of the one before, so that no scrape misses it and it does not stay for ever; the turn in
 * progress counts by how long it has lasted, so a loop that hangs is seen while it hangs.
 *
 * Threads: the loop's writes, any reads. What a reader sees may be a turn old.
 */
#ifndef BASE_TURNS_H
#define BASE_TURNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BASE_TURNS_WINDOW_NS INT64_C(60000000000)

/* In nanoseconds of the loop's monotonic clock. */
struct base_turns {
    atomic_int_fast64_t began;                   /* the turn in progress; 0: the loop sleeps */
    atomic_int_fast64_t window_ends;             /* the current minute */
    atomic_int_fast64_t longest, longest_before; /* in it, and in the one before */
};

static inline int64_t base_turns_load(const atomic_int_fast64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static inline void base_turns_store(atomic_int_fast64_t *value, int64_t is)
{
    atomic_store_explicit(value, is, memory_order_relaxed);
}

static inline void base_turns_begin(struct base_turns *turns, int64_t now_ns)
{
    base_turns_store(&turns->began, now_ns);
}

static inline void base_turns_next_window(struct base_turns *turns, int64_t now_ns)
{
    const bool follows = now_ns < base_turns_load(&turns->window_ends) + BASE_TURNS_WINDOW_NS;
    base_turns_store(&turns->longest_before, follows ? base_turns_load(&turns->longest) : 0);
    base_turns_store(&turns->longest, 0);
    base_turns_store(&turns->window_ends, now_ns + BASE_TURNS_WINDOW_NS);
}

static inline void base_turns_end(struct base_turns *turns, int64_t now_ns)
{
    const int64_t took = now_ns - base_turns_load(&turns->began);
    if (now_ns >= base_turns_load(&turns->window_ends))
        base_turns_next_window(turns, now_ns);
    if (took > base_turns_load(&turns->longest))
        base_turns_store(&turns->longest, took);
    base_turns_store(&turns->began, 0);
}

static inline int64_t base_turns_longest(const struct base_turns *turns, int64_t now_ns)
{
    const int64_t ends = base_turns_load(&turns->window_ends);
    const int64_t began = base_turns_load(&turns->began);
    const int64_t now = began ? now_ns - began : 0;
    const int64_t last =
        now_ns < ends + BASE_TURNS_WINDOW_NS ? base_turns_load(&turns->longest) : 0;
    const int64_t before = now_ns < ends ? base_turns_load(&turns->longest_before) : 0;
    const int64_t ended = last > before ? last : before;
    return now > ended ? now : ended;
}

#endif
