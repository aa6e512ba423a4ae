/* SPDX-License-Identifier: Apache-2.0 */
#include "client/deliver/obstacle.h"

#include "client/envelope/read.h"

static bool is_dual(struct base_span envelope)
{
    struct handoff_envelope read;
    if (handoff_envelope_read(envelope, &read, NULL) != HANDOFF_OK)
        return false;
    bool dual = yyjson_obj_get(yyjson_doc_get_root(read.doc), "from") != NULL;
    handoff_envelope_free(&read);
    return dual;
}

bool handoff_fit_reads(const struct handoff_agent_options *options, struct base_span envelope)
{
    return options->accepts != HANDOFF_ACCEPTS_1 || options->emit != HANDOFF_EMIT_DUAL ||
           is_dual(envelope);
}

static enum handoff_obstacle settings_obstacle(const struct handoff_settings *settings,
                                               struct base_span envelope, uint64_t tokens)
{
    if (!settings)
        return HANDOFF_OBSTACLE_UNKNOWN_AGENT;
    if (tokens > settings->options.token_budget)
        return HANDOFF_OBSTACLE_BUDGET_TOO_SMALL;
    return handoff_fit_reads(&settings->options, envelope) ? HANDOFF_OBSTACLE_NONE
                                                           : HANDOFF_OBSTACLE_VERSION;
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
