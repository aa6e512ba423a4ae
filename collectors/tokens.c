/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens: how large envelopes are, and how much of their budget they use.
 *
 * Utilization low for long is money for an unneeded budget; at 1 something was probably
 * left out, which handoff_memory_refs_total{outcome="trimmed"} tells.
 *
 * Any thread.
 */
#include "collectors/measures.h"
#include "collectors/rows.h"

void collectors_tokens_resolve(struct collectors *collectors, struct collectors_target *target)
{
    const char *const labels[] = {target->name};
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

void collectors_tokens_assembled(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_assembled *assembled = &event->of.assembled;
    if (event->code == HANDOFF_OK)
        observe_tokens(collectors, event->who.target_agent, assembled->tokens, assembled->budget);
}

void collectors_tokens_observed(struct collectors *collectors, const struct handoff_event *event)
{
    const struct handoff_observed *observed = &event->of.observed;
    if (observed->told & HANDOFF_TOLD_TOKENS)
        observe_tokens(collectors, event->who.target_agent, observed->tokens, observed->budget);
}
