/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/timers.h"

#include "lib/base/check.h"

/* Of two roots the later becomes the first child of the earlier. Neither has siblings. */
static struct handoff_timer *meld(struct handoff_timer *a, struct handoff_timer *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->due_ms < a->due_ms) {
        struct handoff_timer *earlier = b;
        b = a;
        a = earlier;
    }
    b->next = a->child;
    if (b->next)
        b->next->link = &b->next;
    b->link = &a->child;
    a->child = b;
    return a;
}

/* The siblings of a removed root become one heap: melded in pairs from left to right, then the
   pairs from right to left, which is what bounds the cost. */
static struct handoff_timer *meld_siblings(struct handoff_timer *siblings)
{
    struct handoff_timer *pairs = NULL;
    while (siblings) {
        struct handoff_timer *a = siblings, *b = a->next;
        siblings = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        struct handoff_timer *pair = meld(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    struct handoff_timer *root = NULL;
    while (pairs) {
        struct handoff_timer *rest = pairs->next;
        pairs->next = NULL;
        root = meld(root, pairs);
        pairs = rest;
    }
    return root;
}

static void set_root(struct handoff_timers *timers, struct handoff_timer *root)
{
    timers->first = root;
    if (root)
        root->link = &timers->first;
}

void handoff_timers_start(struct handoff_timers *timers, struct handoff_timer *timer,
                          int64_t due_ms)
{
    handoff_timers_stop(timers, timer);
    *timer = (struct handoff_timer){.fire = timer->fire, .due_ms = due_ms};
    set_root(timers, meld(timers->first, timer));
}

void handoff_timers_stop(struct handoff_timers *timers, struct handoff_timer *timer)
{
    if (!timer->link)
        return;
    *timer->link = timer->next;
    if (timer->next)
        timer->next->link = timer->link;
    struct handoff_timer *orphans = meld_siblings(timer->child);
    *timer = (struct handoff_timer){.fire = timer->fire, .due_ms = timer->due_ms};
    set_root(timers, meld(timers->first, orphans));
}

struct handoff_timer *handoff_timers_due(struct handoff_timers *timers, int64_t now_ms)
{
    struct handoff_timer *first = timers->first;
    if (!first || first->due_ms > now_ms)
        return NULL;
    handoff_timers_stop(timers, first);
    return first;
}

void handoff_timers_run(struct handoff_timers *timers, int64_t now_ms)
{
    struct handoff_timer *due = NULL, **last = &due;
    for (struct handoff_timer *timer; (timer = handoff_timers_due(timers, now_ms)) != NULL;) {
        timer->link = last; /* counts as started, so that firing one can stop another */
        *last = timer;
        last = &timer->next;
    }
    while (due) {
        struct handoff_timer *timer = due;
        due = timer->next;
        if (due)
            due->link = &due;
        *timer = (struct handoff_timer){.fire = timer->fire, .due_ms = timer->due_ms};
        timer->fire(timer);
    }
}

int64_t handoff_timers_wait_ms(const struct handoff_timers *timers, int64_t now_ms)
{
    if (!timers->first)
        return -1;
    return timers->first->due_ms > now_ms ? timers->first->due_ms - now_ms : 0;
}
