/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reliability: how handoffs end, how attempts end, and what then lies with people.
 *
 * A handoff is counted once, when it first ends, for the agent that had it then: an alternate that
 * saved it gets the acknowledgement, and the agent that failed shows in its attempts. What a replay
 * comes to is not counted as another handoff, or one that a person got through at last would have
 * failed and succeeded; if it is parked again, that is counted as a parking.
 */
#include <string.h>

#include "collectors/measures.h"
#include "collectors/rows.h"

static const char *const results[COLLECTORS_RESULTS] = {"ack",     "nack", "timeout",
                                                        "connect", "http", "protocol"};
/* why something was parked; what is not here was given up like one that is exhausted */
static const char *const reasons[COLLECTORS_REASONS] = {"exhausted", "refused", "circuit_open",
                                                        "unknown_agent", "store_corrupt"};

void collectors_reliability_resolve(struct collectors *collectors, struct collectors_target *target)
{
    struct metric_family *const *families = collectors->families;
    const char *const name[] = {target->name};
    for (int p = 0; p < COLLECTORS_PATTERNS; p++) {
        for (int e = 0; e < COLLECTORS_ENDS; e++)
            target->handoffs[p][e] = metric_resolve(
                families[COLLECTORS_HANDOFFS],
                (const char *const[]){target->name, collectors_patterns[p], collectors_ends[e]});
    }
    collectors_resolve_each(families[COLLECTORS_ATTEMPTS], target->name, results,
                            COLLECTORS_RESULTS, target->attempts);
    collectors_resolve_each(families[COLLECTORS_PARKED], target->name, reasons, COLLECTORS_REASONS,
                            target->parked);
    target->opened = metric_resolve(families[COLLECTORS_CIRCUIT_OPENED], name);
    target->replayed = metric_resolve(families[COLLECTORS_REPLAYED], name);
}

void collectors_reliability_ended(struct collectors *collectors, const struct handoff_event *event)
{
    struct collectors_mark mark;
    enum collectors_end end = collectors_end_of(event);
    if (end == COLLECTORS_ENDS)
        return;
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->target_agent);
    struct metric_series *series = target->handoffs[collectors_pattern(event)][end];
    if (end == COLLECTORS_ACKNOWLEDGED) {
        metric_add(series, 1);
        return;
    }
    collectors_mark(&mark, event);
    metric_add_exemplar(series, 1, &mark.exemplar);
}

static void count_attempt(struct collectors *collectors, const struct handoff_event *event)
{
    size_t result = collectors_index(results, COLLECTORS_RESULTS, event->result);
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->attempt_target);
    if (result < COLLECTORS_RESULTS)
        metric_add(target->attempts[result], 1);
}

static void count_parking(struct collectors *collectors, const struct handoff_event *event)
{
    size_t reason = collectors_index(reasons, COLLECTORS_REASONS, event->reason);
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->target_agent);
    metric_add(target->parked[reason < COLLECTORS_REASONS ? reason : 0], 1);
}

static bool is(const char *state, const char *wanted)
{
    return state != NULL && strcmp(state, wanted) == 0;
}

/* By a person: as it was, or edited, and then another handoff took its place. */
static bool is_sent_again(const struct handoff_event *event)
{
    static const char replaced[] = "replaced by ";
    return is(event->from, "parked") &&
           (is(event->to, "ready") || (is(event->to, "discarded") && event->reason != NULL &&
                                       strncmp(event->reason, replaced, sizeof replaced - 1) == 0));
}

void collectors_reliability_moved(struct collectors *collectors, const struct handoff_event *event)
{
    collectors_reliability_ended(collectors, event);
    count_attempt(collectors, event);
    if (is(event->to, "parked"))
        count_parking(collectors, event);
    else if (is_sent_again(event))
        metric_add(collectors_target(&collectors->targets, event->target_agent)->replayed, 1);
}

/* The parking of whoever made it is not ours, so it is not counted as one. */
void collectors_reliability_observed(struct collectors *collectors,
                                     const struct handoff_event *event)
{
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->target_agent);
    collectors_reliability_ended(collectors, event);
    for (size_t i = 0; i < event->ntallies; i++) {
        size_t result = collectors_index(results, COLLECTORS_RESULTS, event->tallies[i].result);
        if (result < COLLECTORS_RESULTS)
            metric_add(target->attempts[result], event->tallies[i].count);
    }
}

void collectors_reliability_circuit(struct collectors *collectors,
                                    const struct handoff_event *event)
{
    if (event->opened)
        metric_add(collectors_target(&collectors->targets, event->target_agent)->opened, 1);
}
