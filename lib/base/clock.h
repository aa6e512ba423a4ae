/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - the time, injectable.
 *
 * Deadlines and durations use the monotonic clock, rows and logs the wall clock; the two are never
 * mixed. Whoever needs the time is given a `const struct handoff_clock *`, so that tests can move
 * it.
 */
#ifndef HANDOFF_BASE_CLOCK_H
#define HANDOFF_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct handoff_clock {
    int64_t (*monotonic_ns)(const struct handoff_clock *clock);
    int64_t (*wall_ms)(const struct handoff_clock *clock); /* since 1970-01-01 UTC */
};

/* The operating system's. */
extern const struct handoff_clock handoff_clock_system;

static inline int64_t handoff_monotonic_ns(const struct handoff_clock *clock)
{
    return clock->monotonic_ns(clock);
}

static inline int64_t handoff_wall_ms(const struct handoff_clock *clock)
{
    return clock->wall_ms(clock);
}

/* One that stands still until it is moved; pass &manual.clock. Any thread may move it. */
struct handoff_manual_clock {
    struct handoff_clock clock; /* first: the functions get a pointer to it */
    atomic_int_fast64_t monotonic_ns, wall_ms;
};

void handoff_manual_clock_init(struct handoff_manual_clock *manual, int64_t wall_ms);
/* Moves both clocks forward. */
void handoff_manual_clock_advance(struct handoff_manual_clock *manual, int64_t ms);

#endif
