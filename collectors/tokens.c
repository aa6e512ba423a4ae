/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens: how large envelopes are, and how much of their budget they use.
 *
 * Utilization low for long is money for a budget that nobody needs; at 1 something was probably
 * left out, which handoff_memory_refs_total{outcome="trimmed"} tells.
 */
#include "collectors/measures.h"
#include "collectors/rows.h"

void collectors_tokens_resolve(struct collectors *collectors, struct collectors_target *target)
{
    const char *const labels[] = {target->name};
    target->utilization = metric_resolve(collectors->families[COLLECTORS_UTILIZATION], labels);
    target->tokens = metric_resolve(collectors->families[COLLECTORS_ENVELOPE_TOKENS], labels);
}

static void observe_tokens(struct collectors *collectors, const struct handoff_event *event)
{
    const struct collectors_target *target =
        collectors_target(&collectors->targets, event->target_agent);
    metric_observe(target->tokens, (double)event->tokens);
    if (event->budget > 0)
        metric_observe(target->utilization, (double)event->tokens / (double)event->budget);
}

void collectors_tokens_assembled(struct collectors *collectors, const struct handoff_event *event)
{
    if (event->code == HANDOFF_OK)
        observe_tokens(collectors, event);
}

void collectors_tokens_observed(struct collectors *collectors, const struct handoff_event *event)
{
    if (event->told & HANDOFF_TOLD_TOKENS)
        observe_tokens(collectors, event);
}
