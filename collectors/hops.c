/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hops: how long the chains of tasks become, whether they come back to an agent they have been at,
 * and whether they go back and forth and gain nothing. By pattern and not by agent: depth belongs
 * to the chain, not to who is next in it.
 *
 * handoff_task_handoffs is the other end of it: all handoffs of a task, also of one that fanned
 * out, told when the task is completed.
 *
 * A handoff beyond the limit is parked, and has a depth like any other. An envelope beyond it that
 * was only to be assembled is rejected, so it is not a depth; that it turned in a circle is counted
 * all the same.
 *
 * Any thread.
 */
#include "collectors/measures.h"
#include "collectors/rows.h"

void collectors_hops_init(struct collectors *collectors)
{
    struct metric_family *family = collectors->families[COLLECTORS_HOP_DEPTH];
    for (int i = 0; i < HANDOFF_PATTERN_COUNT; i++) {
        const char *pattern = handoff_pattern_name((enum handoff_pattern)i);
        collectors->hop_depth[i] = metric_resolve(family, (const char *const[]){pattern});
    }
}

void collectors_hops_assembled(struct collectors *collectors, const struct handoff_event *event)
{
    if (event->code != HANDOFF_OK && event->code != HANDOFF_ERR_HOP_LIMIT)
        return;
    if (event->code == HANDOFF_OK)
        metric_observe(collectors->hop_depth[event->who.pattern],
                       (double)event->of.assembled.hop_count);
    if (event->of.assembled.cycle)
        metric_add(collectors->single[COLLECTORS_ROUTE_CYCLES], 1);
    if (event->of.assembled.ping_pong)
        metric_add(collectors->single[COLLECTORS_PING_PONGS], 1);
}

void collectors_hops_completed(struct collectors *collectors, const struct handoff_event *event)
{
    metric_observe(collectors->single[COLLECTORS_TASK_HANDOFFS],
                   (double)event->of.task_completed.handoffs);
}

void collectors_hops_observed(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_observed *observed = &event->of.observed;
    bool went = observed->outcome != HANDOFF_OUTCOME_HOP_LIMIT;
    if (went && (observed->told & HANDOFF_TOLD_HOPS))
        metric_observe(collectors->hop_depth[event->who.pattern], (double)observed->hop_count);
    if (observed->cycle)
        metric_add(collectors->single[COLLECTORS_ROUTE_CYCLES], 1);
}
