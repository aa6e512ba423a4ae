/* SPDX-License-Identifier: Apache-2.0 */
/* Why an envelope cannot go to an agent that it was not made for, see obstacle.h. Any thread. */
#include "client/deliver/obstacle.h"

static enum handoff_obstacle settings_obstacle(const struct handoff_settings *settings,
                                               struct base_span envelope, uint64_t tokens)
{
    if (!settings)
        return HANDOFF_OBSTACLE_UNKNOWN_AGENT;
    if (tokens > settings->options.token_budget)
        return HANDOFF_OBSTACLE_BUDGET_TOO_SMALL;
    return settings->protocol->obstacle(&settings->options, envelope);
}

enum handoff_obstacle handoff_fit_obstacle(struct handoff_agent *agent, struct base_span envelope,
                                           uint64_t tokens, int64_t now_ms)
{
    int64_t wait_ms;
    if (!agent)
        return HANDOFF_OBSTACLE_UNKNOWN_AGENT;
    if (handoff_agent_is_open(agent, now_ms, &wait_ms))
        return HANDOFF_OBSTACLE_CIRCUIT_OPEN;
    struct handoff_settings *settings = handoff_agent_settings(agent);
    enum handoff_obstacle obstacle = settings_obstacle(settings, envelope, tokens);
    handoff_settings_release(&settings);
    return obstacle;
}
