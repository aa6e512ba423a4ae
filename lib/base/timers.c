/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pairing heap of timers.h. A node knows what points to it (`link`), so that one in the middle
 * is taken out without a search. On the thread of the loop that owns the heap.
 */
#include "lib/base/timers.h"

#include "lib/base/check.h"

/* Of two roots the later becomes the first child of the earlier. Neither has siblings. */
static struct base_timer *meld(struct base_timer *a, struct base_timer *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->due_ms < a->due_ms) {
        struct base_timer *earlier = b;
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
static struct base_timer *meld_siblings(struct base_timer *siblings)
{
    struct base_timer *pairs = NULL;
    while (siblings) {
        struct base_timer *a = siblings, *b = a->next;
        siblings = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        struct base_timer *pair = meld(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    struct base_timer *root = NULL;
    while (pairs) {
        struct base_timer *rest = pairs->next;
        pairs->next = NULL;
        root = meld(root, pairs);
        pairs = rest;
    }
    return root;
}

static void set_root(struct base_timers *timers, struct base_timer *root)
{
    timers->first = root;
    if (root)
        root->link = &timers->first;
}

void base_timers_start(struct base_timers *timers, struct base_timer *timer, int64_t due_ms)
{
    base_timers_stop(timers, timer);
    *timer = (struct base_timer){.fire = timer->fire, .due_ms = due_ms};
    set_root(timers, meld(timers->first, timer));
}

void base_timers_stop(struct base_timers *timers, struct base_timer *timer)
{
    if (!timer->link)
        return;
    *timer->link = timer->next;
    if (timer->next)
        timer->next->link = timer->link;
    struct base_timer *orphans = meld_siblings(timer->child);
    *timer = (struct base_timer){.fire = timer->fire, .due_ms = timer->due_ms};
    set_root(timers, meld(timers->first, orphans));
}

struct base_timer *base_timers_due(struct base_timers *timers, int64_t now_ms)
{
    struct base_timer *first = timers->first;
    if (!first || first->due_ms > now_ms)
        return NULL;
    base_timers_stop(timers, first);
    return first;
}

void base_timers_run(struct base_timers *timers, int64_t now_ms)
{
    struct base_timer *due = NULL, **last = &due;
    for (struct base_timer *timer; (timer = base_timers_due(timers, now_ms)) != NULL;) {
        timer->link = last; /* counts as started, so that firing one can stop another */
        *last = timer;
        last = &timer->next;
    }
    while (due) {
        struct base_timer *timer = due;
        due = timer->next;
        if (due)
            due->link = &due;
        *timer = (struct base_timer){.fire = timer->fire, .due_ms = timer->due_ms};
        timer->fire(timer);
    }
}

int64_t base_timers_wait_ms(const struct base_timers *timers, int64_t now_ms)
{
    if (!timers->first)
        return -1;
    return timers->first->due_ms > now_ms ? timers->first->due_ms - now_ms : 0;
}
