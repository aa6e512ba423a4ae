/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host says of an agent: the defaults to start from, and what it cannot be. Both come from
 * handoff_agent_keys.def. A zero is not taken for a default, because no retries, or a breaker that
 * never opens, are things to ask for. The daemon's configuration file has the same defaults and
 * narrower bounds. Any thread.
 */
#include <string.h>

#include "client/agents/agents.h"
#include "client/assemble/request.h"
#include "lib/base/error.h"

#define DEFAULT_NUMBER(field, value)   .field = (value),
#define DEFAULT_DURATION(field, value) .field = (value),
#define DEFAULT_FLAG(field, value)     .field = (value),
#define DEFAULT_CHOICE(field, value)   .field = (value),
#define DEFAULT_CHOICES(field, value)  .field = (value),
#define DEFAULT_URL(field, value)
#define DEFAULT_FILE(field, value)
#define DEFAULT_NAMES(field, value)
#define DEFAULT_SENDERS(field, value)

struct handoff_agent_options handoff_agent_defaults(const char *name, const char *url)
{
    struct handoff_agent_options options = {
#define HANDOFF_AGENT_KEY(scope, field, path, kind, value, ...) DEFAULT_##kind(field, value)
#include "client/model/handoff_agent_keys.def"
    };
    options.name = name;
    options.url = url;
    return options;
}

/* ---- checking ------------------------------------------------------------------------------- */

static enum handoff_code refuse_options(struct handoff_error *error, const char *message,
                                        const char *field, const char *seen)
{
    return handoff_error_set(error, HANDOFF_ERR_INVALID, message, field, seen);
}

static enum handoff_code check_options_name(const struct handoff_agent_options *options,
                                            struct handoff_error *error)
{
    const size_t size = options->name ? strlen(options->name) : 0;
    if (size == 0 || size > HANDOFF_NAME_MAX)
        return refuse_options(error, "an agent's name must be 1 to 128 bytes long", "name",
                              options->name);
    return HANDOFF_OK;
}

/* The two kinds that have a floor, and those that have none. */
#define IS_BELOW_NUMBER(value, floor)   ((uint64_t)(value) < (uint64_t)(floor))
#define IS_BELOW_DURATION(value, floor) ((int64_t)(value) < (int64_t)(floor))
#define IS_BELOW_FLAG(value, floor)     false
#define IS_BELOW_CHOICE(value, floor)   false
#define IS_BELOW_CHOICES(value, floor)  (((value) & (HANDOFF_ACCEPTS_1 | HANDOFF_ACCEPTS_2)) == 0)
#define IS_BELOW_URL(value, floor)      false
#define IS_BELOW_FILE(value, floor)     false
#define IS_BELOW_NAMES(value, floor)    false
#define IS_BELOW_SENDERS(value, floor)  false

/* The first key that is too small, by the name of its field; NULL: none is. */
static const char *find_too_small(const struct handoff_agent_options *options, int64_t *least)
{
#define HANDOFF_AGENT_KEY(scope, field, path, kind, value, floor, ...)                             \
    *least = (floor);                                                                              \
    if (IS_BELOW_##kind(options->field, floor))                                                    \
        return #field;
#include "client/model/handoff_agent_keys.def"
    return NULL;
}

static enum handoff_code check_values(const struct handoff_agent_options *options,
                                      struct handoff_error *error)
{
    int64_t least;
    const char *field = find_too_small(options, &least);
    if (!field)
        return HANDOFF_OK;
    refuse_options(error,
                   "the value is missing or too small; handoff_agent_defaults sets every value",
                   field, options->name);
    handoff_error_allow(error, "at least %lld", (long long)least);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code check_unique(const struct handoff_agent_options *options, size_t i,
                                      struct handoff_error *error)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(options[k].name, options[i].name) == 0)
            return refuse_options(error, "duplicate agent name", "name", options[i].name);
    }
    return HANDOFF_OK;
}

enum handoff_code handoff_agent_options_check(const struct handoff_agent_options *options,
                                              size_t count, struct handoff_error *error)
{
    enum handoff_code code = HANDOFF_OK;
    for (size_t i = 0; i < count && code == HANDOFF_OK; i++) {
        code = check_options_name(&options[i], error);
        if (code == HANDOFF_OK)
            code = check_values(&options[i], error);
        if (code == HANDOFF_OK)
            code = check_unique(options, i, error);
    }
    return code;
}

/* ---- senders -------------------------------------------------------------------------------- */

bool handoff_agent_takes_from(const struct handoff_agent_options *options, struct base_span source)
{
    size_t i = 0;
    while (i < options->nfrom && !base_span_equal(base_span_text(options->from[i]), source))
        i++;
    return options->nfrom == 0 || i < options->nfrom;
}
