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

static const char *settings_obstacle(const struct handoff_settings *settings,
                                     struct base_span envelope, uint64_t tokens)
{
    if (!settings)
        return "unknown_agent";
    if (tokens > settings->options.token_budget)
        return "budget_too_small";
    return handoff_fit_reads(&settings->options, envelope) ? NULL : "version";
}

const char *handoff_fit_obstacle(struct handoff_agent *agent, struct base_span envelope,
                                 uint64_t tokens, int64_t now_ms)
{
    int64_t wait_ms;
    if (!agent)
        return "unknown_agent";
    if (handoff_agent_is_open(agent, now_ms, &wait_ms))
        return "circuit_open";
    struct handoff_settings *settings = handoff_agent_settings(agent);
    const char *obstacle = settings_obstacle(settings, envelope, tokens);
    handoff_settings_release(&settings);
    return obstacle;
}
