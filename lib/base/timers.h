/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timers.h - many deadlines, the next one first.
 *
 * An intrusive pairing heap: a timer lies in the struct it wakes, so starting and stopping one
 * allocates nothing and cannot fail; starting takes constant time, firing and stopping logarithmic
 * (amortized). One loop owns the heap and all that is in it.
 */
#ifndef BASE_TIMERS_H
#define BASE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero it and set `fire` before its first use. */
struct base_timer {
    void (*fire)(struct base_timer *timer); /* on the loop; the timer is not started any more */
    int64_t due_ms;
    struct base_timer *child, *next; /* first child; next sibling */
    struct base_timer **link;        /* what points here; NULL: not started */
};

struct base_timers {
    struct base_timer *first;
};

static inline bool base_timer_started(const struct base_timer *timer)
{
    return timer->link != NULL;
}

/* Starts it, or moves it when it was started. */
void base_timers_start(struct base_timers *timers, struct base_timer *timer, int64_t due_ms);

/* Harmless on one that is not started. */
void base_timers_stop(struct base_timers *timers, struct base_timer *timer);

/* Takes the earliest one out if it is due, else NULL. */
struct base_timer *base_timers_due(struct base_timers *timers, int64_t now_ms);

/* Fires all that are due. One that is started meanwhile waits for the next run, even when it is due
   at once, so that a run always ends. */
void base_timers_run(struct base_timers *timers, int64_t now_ms);

/* How long until the earliest one: 0 when it is due, -1 when there is none. */
int64_t base_timers_wait_ms(const struct base_timers *timers, int64_t now_ms);

#endif
