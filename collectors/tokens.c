/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens: how large envelopes are, how much of their budget they use, and what the budget costs.
 *
 * Utilization low for long is money for an unneeded budget; at 1 something was probably left out,
 * which the items say: what is present, by its id alone, or omitted. Only memories have an id, so
 * the entries of lists have no series for that. Agents that hand off by themselves do not say.
 *
 * Any thread.
 */
#include "collectors/measures.h"
#include "collectors/rows.h"

static bool can_be(enum handoff_part part, enum handoff_presence presence)
{
    return presence != HANDOFF_PRESENCE_REFERENCED || part == HANDOFF_PART_REFERENCES ||
           part == HANDOFF_PART_FOUND;
}

static void resolve_items(struct collectors *collectors, struct collectors_target *target)
{
    for (unsigned part = 0; part < HANDOFF_PART_COUNT; part++) {
        for (unsigned presence = 0; presence < HANDOFF_PRESENCE_COUNT; presence++) {
            if (can_be(part, presence))
                target->items[part][presence] =
                    metric_resolve(collectors->families[COLLECTORS_CONTEXT_ITEMS],
                                   (const char *const[]){target->name, handoff_part_name(part),
                                                         handoff_presence_name(presence)});
        }
    }
}

void collectors_tokens_resolve(struct collectors *collectors, struct collectors_target *target)
{
    const char *const labels[] = {target->name};
    resolve_items(collectors, target);
    target->utilization = metric_resolve(collectors->families[COLLECTORS_UTILIZATION], labels);
    target->tokens = metric_resolve(collectors->families[COLLECTORS_ENVELOPE_TOKENS], labels);
}

static void observe_tokens(struct collectors *collectors, const char *agent, uint64_t tokens,
                           uint64_t budget)
{
    const struct collectors_target *target = collectors_target(&collectors->targets, agent);
    metric_observe(target->tokens, (double)tokens);
    if (budget > 0)
        metric_observe(target->utilization, (double)tokens / (double)budget);
}

static void count_items(const struct collectors_target *target,
                        const struct handoff_item_counts *items)
{
    for (unsigned part = 0; part < HANDOFF_PART_COUNT; part++) {
        for (unsigned presence = 0; presence < HANDOFF_PRESENCE_COUNT; presence++) {
            if (items->of[part][presence] > 0 && target->items[part][presence])
                metric_add(target->items[part][presence], items->of[part][presence]);
        }
    }
}

void collectors_tokens_assembled(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_assembled *assembled = &event->of.assembled;
    if (event->code != HANDOFF_OK)
        return;
    observe_tokens(collectors, event->who.target_agent, assembled->tokens, assembled->budget);
    count_items(collectors_target(&collectors->targets, event->who.target_agent),
                &assembled->items);
}

void collectors_tokens_observed(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_observed *observed = &event->of.observed;
    if (observed->told & HANDOFF_TOLD_TOKENS)
        observe_tokens(collectors, event->who.target_agent, observed->tokens, observed->budget);
}
