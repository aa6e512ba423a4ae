/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timers.h - many deadlines, the next one first.
 *
 * An intrusive pairing heap: a timer lies in the struct it wakes, so starting and stopping one
 * allocates nothing and cannot fail; starting takes constant time, firing and stopping logarithmic
 * (amortized). One loop owns the heap and all that is in it.
 */
#ifndef HANDOFF_BASE_TIMERS_H
#define HANDOFF_BASE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero it and set `fire` before its first use. */
struct handoff_timer {
    void (*fire)(struct handoff_timer *timer); /* on the loop; the timer is not started any more */
    int64_t due_ms;
    struct handoff_timer *child, *next; /* first child; next sibling */
    struct handoff_timer **link;        /* what points here; NULL: not started */
};

struct handoff_timers {
    struct handoff_timer *first;
};

static inline bool handoff_timer_started(const struct handoff_timer *timer)
{
    return timer->link != NULL;
}

/* Starts it, or moves it when it was started. */
void handoff_timers_start(struct handoff_timers *timers, struct handoff_timer *timer,
                          int64_t due_ms);

/* Harmless on one that is not started. */
void handoff_timers_stop(struct handoff_timers *timers, struct handoff_timer *timer);

/* Takes the earliest one out if it is due, else NULL. */
struct handoff_timer *handoff_timers_due(struct handoff_timers *timers, int64_t now_ms);

/* Fires all that are due. One that is started meanwhile waits for the next run, even when it is due
   at once, so that a run always ends. */
void handoff_timers_run(struct handoff_timers *timers, int64_t now_ms);

/* How long until the earliest one: 0 when it is due, -1 when there is none. */
int64_t handoff_timers_wait_ms(const struct handoff_timers *timers, int64_t now_ms);

#endif
