/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completeness: how many of the memories that a handoff asked for its envelope carries, in any
 * form. Those that were only found were not asked for (tokens.c counts them).
 *
 * Twice, because it answers two questions. The histogram of ratios says how many envelopes were
 * poor. The counters say what share of all memories arrived, which is a sum over a sum: a mean of
 * ratios would give an envelope of one memory the weight of one of a hundred. They also say why
 * not: missing is the spine's or the sender's fault, trimmed the budget's.
 *
 * Any thread.
 */
#include "collectors/measures.h"
#include "collectors/rows.h"

static const char *const refs[COLLECTORS_REFS] = {[COLLECTORS_INCLUDED] = "included",
                                                  [COLLECTORS_MISSING] = "missing",
                                                  [COLLECTORS_TRIMMED] = "trimmed"};

void collectors_completeness_resolve(struct collectors *collectors,
                                     struct collectors_target *target)
{
    target->completeness = metric_resolve(collectors->families[COLLECTORS_COMPLETENESS],
                                          (const char *const[]){target->name});
    for (int i = 0; i < COLLECTORS_REFS; i++)
        target->refs[i] = metric_resolve(collectors->families[COLLECTORS_MEMORY_REFS],
                                         (const char *const[]){target->name, refs[i]});
    for (int i = 0; i < HANDOFF_RECOVERY_COUNT; i++) {
        const char *outcome = handoff_recovery_name((enum handoff_recovery)i);
        target->recovery[i] = metric_resolve(collectors->families[COLLECTORS_MEMORY_RECOVERY],
                                             (const char *const[]){target->name, outcome});
    }
}

/* As the envelope says it: nothing asked for is nothing left out. */
static double ratio(const struct handoff_memory_counts *counts)
{
    return counts->requested > 0 ? (double)counts->included / (double)counts->requested : 1;
}

static void add_refs(const struct collectors_target *target,
                     const struct handoff_memory_counts *counts)
{
    metric_add(target->refs[COLLECTORS_INCLUDED], counts->included);
    metric_add(target->refs[COLLECTORS_MISSING], counts->missing);
    metric_add(target->refs[COLLECTORS_TRIMMED], counts->trimmed);
}

void collectors_completeness_assembled(struct collectors *collectors,
                                       const struct handoff_event *event)
{
    if (event->code != HANDOFF_OK)
        return;
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->who.target_agent);
    metric_observe(target->completeness, ratio(&event->of.assembled.memories));
    add_refs(target, &event->of.assembled.memories);
}

/* What receivers fetched of what was missing, and what they flagged. */
void collectors_completeness_recovered(struct collectors *collectors,
                                       const struct handoff_event *event)
{
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->who.target_agent);
    for (int i = 0; i < HANDOFF_RECOVERY_COUNT; i++)
        metric_add(target->recovery[i], event->of.recovery.of[i]);
}

/* A ratio alone is known of an agent that does not count; it is in the histogram and not in the sum
 * over all memories. */
void collectors_completeness_observed(struct collectors *collectors,
                                      const struct handoff_event *event)
{
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->who.target_agent);
    const struct handoff_observed *observed = &event->of.observed;
    if (observed->told & HANDOFF_TOLD_RATIO)
        metric_observe(target->completeness, observed->ratio);
    if (observed->told & HANDOFF_TOLD_REFS)
        add_refs(target, &observed->memories);
}
