/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - the time, injectable.
 *
 * Deadlines and durations use the monotonic clock, rows and logs the wall clock; the two are never
 * mixed. Whoever needs the time is given a `const struct base_clock *`, so that tests can move
 * it.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct base_clock {
    int64_t (*monotonic_ns)(const struct base_clock *clock);
    int64_t (*wall_ms)(const struct base_clock *clock); /* since 1970-01-01 UTC */
};

/* The operating system's. */
extern const struct base_clock base_clock_system;

static inline int64_t base_monotonic_ns(const struct base_clock *clock)
{
    return clock->monotonic_ns(clock);
}

static inline int64_t base_monotonic_ms(const struct base_clock *clock)
{
    return clock->monotonic_ns(clock) / 1000000;
}

static inline int64_t base_wall_ms(const struct base_clock *clock)
{
    return clock->wall_ms(clock);
}

/* One that stands still until it is moved; pass &manual.clock. Any thread may move it. */
struct base_manual_clock {
    struct base_clock clock; /* first: the functions get a pointer to it */
    atomic_int_fast64_t monotonic_ns, wall_ms;
};

void base_manual_clock_init(struct base_manual_clock *manual, int64_t wall_ms);
/* Moves both clocks forward. */
void base_manual_clock_advance(struct base_manual_clock *manual, int64_t ms);

#endif
