/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completeness: how many of the memories that a handoff asked for its envelope carries.
 *
 * Twice, because it answers two questions. The histogram of ratios says how many envelopes were
 * poor. The counters say what share of all memories arrived, which is a sum over a sum: a mean of
 * ratios would give an envelope of one memory the weight of one of a hundred. They also say why
 * not: missing is the spine's or the sender's fault, trimmed the budget's.
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
    collectors_resolve_each(collectors->families[COLLECTORS_MEMORY_REFS], target->name, refs,
                            COLLECTORS_REFS, target->refs);
}

/* As the envelope says it: nothing asked for is nothing left out. */
static double ratio(const struct handoff_event *event)
{
    return event->requested > 0 ? (double)event->included / (double)event->requested : 1;
}

static void add_refs(const struct collectors_target *target, const struct handoff_event *event)
{
    metric_add(target->refs[COLLECTORS_INCLUDED], event->included);
    metric_add(target->refs[COLLECTORS_MISSING], event->missing);
    metric_add(target->refs[COLLECTORS_TRIMMED], event->trimmed);
}

void collectors_completeness_assembled(struct collectors *collectors,
                                       const struct handoff_event *event)
{
    if (event->code != HANDOFF_OK)
        return;
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->target_agent);
    metric_observe(target->completeness, ratio(event));
    add_refs(target, event);
}

/* A ratio alone is known of an agent that does not count; it is in the histogram and not in the sum
 * over all memories. */
void collectors_completeness_observed(struct collectors *collectors,
                                      const struct handoff_event *event)
{
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->target_agent);
    if (event->told & HANDOFF_TOLD_RATIO)
        metric_observe(target->completeness, event->ratio);
    if (event->told & HANDOFF_TOLD_REFS)
        add_refs(target, event);
}
