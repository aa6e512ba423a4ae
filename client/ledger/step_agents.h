/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_agents.h - whose steps a hop knows.
 *
 * The fold asks of each hop with steps whether it knows a step of an agent other than its source.
 * Of many siblings none knows another, so a search through all steps would be long for each of
 * them. Instead each hop keeps what it knows in this form, joined from its parents, which is enough
 * for the answer: no agent, one, or several. Pure, any thread.
 */
#ifndef HANDOFF_LEDGER_STEP_AGENTS_H
#define HANDOFF_LEDGER_STEP_AGENTS_H

#include <stdbool.h>

#include "lib/base/span.h"

struct handoff_step_agents {
    struct base_span one; /* empty: a step named none */
    bool some, several;
};

static inline void handoff_step_agents_add(struct handoff_step_agents *agents,
                                           struct base_span agent)
{
    agents->several |= agents->some && !base_span_equal(agents->one, agent);
    agents->some = true;
    agents->one = agent;
}

static inline void handoff_step_agents_join(struct handoff_step_agents *agents,
                                            const struct handoff_step_agents *other)
{
    if (other->some)
        handoff_step_agents_add(agents, other->one);
    agents->several |= other->several;
}

static inline bool handoff_step_agents_has_other(const struct handoff_step_agents *agents,
                                                 struct base_span agent)
{
    return agents->several || (agents->some && !base_span_equal(agents->one, agent));
}

#endif
