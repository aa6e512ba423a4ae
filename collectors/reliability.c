/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reliability: how handoffs end, how attempts end, and what then lies with people.
 *
 * A handoff is counted once, when it first ends, for the agent that had it then: an alternate that
 * saved it gets the acknowledgement, and the agent that failed shows in its attempts. What a replay
 * comes to is not counted as another handoff, or one that a person got through at last would have
 * failed and succeeded; if it is parked again, that is counted as a parking.
 *
 * Any thread.
 */
#include "collectors/measures.h"
#include "collectors/rows.h"
#include "lib/base/check.h"

static void resolve_handoffs(struct metric_family *family, struct collectors_target *target,
                             enum handoff_pattern pattern)
{
    for (int i = HANDOFF_OUTCOME_NONE + 1; i < HANDOFF_OUTCOME_COUNT; i++) {
        const char *outcome = handoff_outcome_name((enum handoff_outcome)i);
        target->handoffs[pattern][i] = metric_resolve(
            family, (const char *const[]){target->name, handoff_pattern_name(pattern), outcome});
    }
}

static void resolve_attempts(struct metric_family *family, struct collectors_target *target)
{
    for (int i = 0; i < HANDOFF_RESULT_COUNT; i++) {
        const char *result = handoff_result_name((enum handoff_attempt_result)i);
        target->attempts[i] = metric_resolve(family, (const char *const[]){target->name, result});
    }
}

static void resolve_parked(struct metric_family *family, struct collectors_target *target)
{
    for (int i = 0; i < HANDOFF_REASON_COUNT; i++) {
        enum handoff_reason reason = (enum handoff_reason)i;
        if (handoff_reason_parks(reason))
            target->parked[i] = metric_resolve(
                family, (const char *const[]){target->name, handoff_reason_name(reason)});
    }
}

void collectors_reliability_resolve(struct collectors *collectors, struct collectors_target *target)
{
    struct metric_family *const *families = collectors->families;
    const char *const name[] = {target->name};
    for (int p = 0; p < HANDOFF_PATTERN_COUNT; p++)
        resolve_handoffs(families[COLLECTORS_HANDOFFS], target, (enum handoff_pattern)p);
    resolve_attempts(families[COLLECTORS_ATTEMPTS], target);
    resolve_parked(families[COLLECTORS_PARKED], target);
    target->opened = metric_resolve(families[COLLECTORS_CIRCUIT_OPENED], name);
    target->replayed = metric_resolve(families[COLLECTORS_REPLAYED], name);
}

void collectors_reliability_ended(struct collectors *collectors, const struct handoff_event *event)
{
    struct collectors_mark mark;
    enum handoff_outcome end = collectors_end_of(event);
    if (end == HANDOFF_OUTCOME_NONE)
        return;
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->who.target_agent);
    struct metric_series *series = target->handoffs[event->who.pattern][end];
    if (end == HANDOFF_OUTCOME_ACKNOWLEDGED) {
        metric_add(series, 1);
        return;
    }
    collectors_mark(&mark, event);
    metric_add_exemplar(series, 1, &mark.exemplar);
}

static void count_attempt(struct collectors *collectors, const struct handoff_moved *moved)
{
    if (moved->attempted)
        metric_add(
            collectors_target(&collectors->targets, moved->attempt_target)->attempts[moved->result],
            1);
}

/* By a person: as it was, or edited, and then another handoff took its place. */
static bool is_sent_again(const struct handoff_moved *moved)
{
    return moved->from == HANDOFF_STATE_PARKED &&
           (moved->to == HANDOFF_STATE_READY || moved->replaced);
}

void collectors_reliability_moved(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_moved *moved = &event->of.moved;
    collectors_reliability_ended(collectors, event);
    count_attempt(collectors, moved);
    if (moved->to != HANDOFF_STATE_PARKED && !is_sent_again(moved))
        return;
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->who.target_agent);
    BASE_CHECK(is_sent_again(moved) || handoff_reason_parks(moved->reason));
    metric_add(is_sent_again(moved) ? target->replayed : target->parked[moved->reason], 1);
}

/* A parking at the agent that made it is not ours, so it is not counted as one. */
void collectors_reliability_observed(struct collectors *collectors,
                                     const struct handoff_event *event)
{
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->who.target_agent);
    collectors_reliability_ended(collectors, event);
    for (int i = 0; i < HANDOFF_RESULT_COUNT; i++) {
        if (event->of.observed.attempts[i] > 0)
            metric_add(target->attempts[i], event->of.observed.attempts[i]);
    }
}

void collectors_reliability_circuit(struct collectors *collectors,
                                    const struct handoff_event *event)
{
    if (event->of.circuit.opened)
        metric_add(collectors_target(&collectors->targets, event->who.target_agent)->opened, 1);
}
