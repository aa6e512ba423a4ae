/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host says of an agent: the defaults to start from, and what it cannot be. A zero is not
 * taken for a default, because no retries, or a breaker that never opens, are things to ask for.
 * The daemon's configuration file has the same defaults and narrower bounds; a test compares them.
 */
#include <string.h>

#include "client/agents/agents.h"
#include "client/assemble/request.h"
#include "lib/base/error.h"

struct handoff_agent_options handoff_agent_defaults(const char *name, const char *url)
{
    return (struct handoff_agent_options){
        .name = name,
        .url = url,
        .token_budget = 8000,
        .timeout_ms = 15000,
        .ack_timeout_ms = 300000,
        .retries = 3,
        .ack = HANDOFF_ACK_EXPLICIT,
        .accepts = HANDOFF_ACCEPTS_2,
        .emit = HANDOFF_EMIT_SINGLE,
        .breaker_failures = 3,
        .breaker_cooldown_ms = 60000,
        .backoff_base_ms = 1000,
        .backoff_max_ms = 30000,
    };
}

/* ---- checking ------------------------------------------------------------------------------- */

static enum handoff_code refuse(struct handoff_error *error, const char *message, const char *field,
                                const char *seen)
{
    return handoff_error_set(error, HANDOFF_ERR_INVALID, message, field, seen);
}

static enum handoff_code check_name(const struct handoff_agent_options *options,
                                    struct handoff_error *error)
{
    const size_t size = options->name ? strlen(options->name) : 0;
    if (size == 0 || size > HANDOFF_NAME_MAX)
        return refuse(error, "an agent needs a name of 1 to 128 bytes", "name", options->name);
    return HANDOFF_OK;
}

static enum handoff_code check_times(const struct handoff_agent_options *options,
                                     struct handoff_error *error)
{
    static const char message[] =
        "a time is missing or negative; handoff_agent_defaults fills all of them in";
    if (options->timeout_ms <= 0)
        return refuse(error, message, "timeout_ms", options->name);
    if (options->ack_timeout_ms <= 0)
        return refuse(error, message, "ack_timeout_ms", options->name);
    if (options->breaker_cooldown_ms < 0)
        return refuse(error, message, "breaker_cooldown_ms", options->name);
    if (options->backoff_base_ms < 0 || options->backoff_max_ms < 0)
        return refuse(error, message, "backoff_base_ms", options->name);
    return HANDOFF_OK;
}

static enum handoff_code check_envelopes(const struct handoff_agent_options *options,
                                         struct handoff_error *error)
{
    if (options->token_budget == 0)
        return refuse(error, "no envelope fits into a budget of 0 tokens", "token_budget",
                      options->name);
    if ((options->accepts & (HANDOFF_ACCEPTS_1 | HANDOFF_ACCEPTS_2)) == 0)
        return refuse(error, "the agent reads no version of the envelope", "accepts",
                      options->name);
    return HANDOFF_OK;
}

static enum handoff_code check_unique(const struct handoff_agent_options *options, size_t i,
                                      struct handoff_error *error)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(options[k].name, options[i].name) == 0)
            return refuse(error, "two agents have this name", "name", options[i].name);
    }
    return HANDOFF_OK;
}

enum handoff_code handoff_agent_options_check(const struct handoff_agent_options *options,
                                              size_t count, struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < count && code == HANDOFF_OK; i++) {
        code = check_name(&options[i], error);
        if (code == HANDOFF_OK)
            code = check_times(&options[i], error);
        if (code == HANDOFF_OK)
            code = check_envelopes(&options[i], error);
        if (code == HANDOFF_OK)
            code = check_unique(options, i, error);
    }
    return code;
}
