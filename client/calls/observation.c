/* SPDX-License-Identifier: Apache-2.0 */
/* Reading one observation: the table of its fields, and what no field can tell alone. Pure. */
#include "client/calls/observation.h"

#include <stddef.h>
#include <string.h>

#include "client/assemble/field.h"
#include "client/assemble/request.h"
#include "client/model/model.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

#define FIRST_OUTCOME (HANDOFF_OUTCOME_NONE + 1)
#define OUTCOME_NAMES (&handoff_outcome_names[FIRST_OUTCOME])

/* ---- checks ---------------------------------------------------------------------------------- */

static enum handoff_code check_outcome(const struct handoff_field *field, yyjson_val *value,
                                       void *at, struct handoff_error *error)
{
    int index = -1;
    enum handoff_code code = handoff_field_word(field, value, &index, error);
    *(int *)at = code == HANDOFF_OK ? index + FIRST_OUTCOME : HANDOFF_OUTCOME_NONE;
    return code;
}

static enum handoff_code check_time(const struct handoff_field *field, yyjson_val *value, void *at,
                                    struct handoff_error *error)
{
    struct base_span text = base_json_span(value);
    if (text.data && base_rfc3339_parse(text.data, text.size, at))
        return HANDOFF_OK;
    handoff_field_refuse(error, "the timestamp is not a time", field->name, value);
    handoff_error_allow(error, "RFC 3339, as 2026-01-30T00:00:00Z");
    return HANDOFF_ERR_INVALID;
}

/* W3C Trace Context: 32 digits of lower-case hexadecimal, not all of them zero. */
static enum handoff_code check_trace_id(const struct handoff_field *field, yyjson_val *value,
                                        void *at, struct handoff_error *error)
{
    enum { DIGITS = 32 };
    struct base_span text = base_json_span(value);
    if (text.size == DIGITS && strspn(text.data, "0123456789abcdef") == DIGITS &&
        strspn(text.data, "0") < DIGITS) {
        *(struct base_span *)at = text;
        return HANDOFF_OK;
    }
    handoff_field_refuse(error, "the id is not one of a trace", field->name, value);
    handoff_error_allow(error, "32 hexadecimal digits in lower case");
    return HANDOFF_ERR_INVALID;
}

/* Names the member of an object that an error is about: "attempts.ack". */
static enum handoff_code within(const char *object, enum handoff_code code,
                                struct handoff_error *error)
{
    char member[sizeof error->field];
    if (code != HANDOFF_OK && error) {
        memcpy(member, error->field, sizeof member);
        handoff_error_field(error, "%s.%s", object, member);
    }
    return code;
}

static const struct handoff_field attempt_rows[] = {
#define HANDOFF_RESULT(name, number, text, ...)                                                    \
    {text, handoff_field_whole, sizeof(int64_t) * (number), 0, HANDOFF_OBSERVATION_ATTEMPTS_MAX,   \
     NULL},
#include "client/model/handoff_model.def"
};

static const char attempt_names[] = ""
#define SEPARATOR                               ", "
#define HANDOFF_RESULT(name, number, text, ...) SEPARATOR text
#include "client/model/handoff_model.def"
    ;

static const struct handoff_fields attempt_fields = {
    attempt_rows, sizeof attempt_rows / sizeof *attempt_rows, "no attempt has this result",
    attempt_names + sizeof SEPARATOR - 1};

static enum handoff_code check_attempts(const struct handoff_field *field, yyjson_val *value,
                                        void *at, struct handoff_error *error)
{
    if (!yyjson_is_obj(value))
        return handoff_field_refuse_type(error, field->name, value,
                                         "an object: how many attempts had which result");
    return within(field->name, handoff_fields_read(&attempt_fields, value, at, error), error);
}

#define REFS(name)                                                                                 \
    {                                                                                              \
#name, handoff_field_whole, offsetof(struct handoff_observed_refs, name), 0,               \
            HANDOFF_OBSERVATION_REFS_MAX, NULL                                                     \
    }
static const struct handoff_field refs_rows[] = {
    REFS(requested),
    REFS(included),
    REFS(missing),
    REFS(trimmed),
    {"ratio", handoff_field_number, offsetof(struct handoff_observed_refs, ratio), 0, 1, NULL},
};
static const struct handoff_fields refs_fields = {refs_rows, sizeof refs_rows / sizeof *refs_rows,
                                                  "completeness has no such field",
                                                  "requested, included, missing, trimmed, ratio"};

/* Fills in what follows from the rest. What is neither included nor said to be trimmed is missing.
 * False: they do not add up. */
static bool make_whole(struct handoff_observed_refs *refs)
{
    bool rest_is_trimmed = refs->requested >= 0 && refs->missing >= 0;
    if (refs->trimmed < 0)
        refs->trimmed = rest_is_trimmed ? refs->requested - refs->included - refs->missing : 0;
    if (refs->requested < 0)
        refs->requested = refs->included + refs->trimmed + (refs->missing > 0 ? refs->missing : 0);
    if (refs->missing < 0)
        refs->missing = refs->requested - refs->included - refs->trimmed;
    refs->ratio = refs->requested > 0 ? (double)refs->included / (double)refs->requested : 1;
    return refs->missing >= 0 && refs->trimmed >= 0 &&
           refs->included + refs->missing + refs->trimmed == refs->requested;
}

static enum handoff_code check_refs(const struct handoff_field *field, yyjson_val *value, void *at,
                                    struct handoff_error *error)
{
    struct handoff_observed_refs *refs = at;
    if (!yyjson_is_obj(value))
        return handoff_field_refuse_type(error, field->name, value, "an object");
    enum handoff_code code =
        within(field->name, handoff_fields_read(&refs_fields, value, refs, error), error);
    if (code != HANDOFF_OK)
        return code;
    bool counted = refs->requested >= 0 || refs->missing >= 0 || refs->trimmed >= 0;
    if (refs->included < 0 && (counted || refs->ratio < 0)) {
        handoff_field_refuse(error, "it is not told how much was included", field->name, NULL);
        handoff_error_allow(error,
                            "included, with requested or with missing and trimmed; or ratio");
        return HANDOFF_ERR_INVALID;
    }
    if (refs->included < 0 || make_whole(refs))
        return HANDOFF_OK;
    handoff_field_refuse(error, "the numbers do not add up", field->name, NULL);
    handoff_error_seen(error, "requested %lld, included %lld, missing %lld, trimmed %lld",
                       (long long)refs->requested, (long long)refs->included,
                       (long long)refs->missing, (long long)refs->trimmed);
    handoff_error_allow(error, "requested = included + missing + trimmed");
    return HANDOFF_ERR_INVALID;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct handoff_observation, member)
static const struct handoff_field rows[] = {
    {"source_agent", handoff_field_name, AT(source_agent), 1, HANDOFF_NAME_MAX, NULL},
    {"target_agent", handoff_field_name, AT(target_agent), 1, HANDOFF_NAME_MAX, NULL},
    {"outcome", check_outcome, AT(outcome), 0, 0, OUTCOME_NAMES},
    {"pattern", handoff_field_word, AT(pattern), 0, 0, handoff_pattern_names},
    {"id", handoff_field_id, AT(id), 1, HANDOFF_OBSERVATION_ID_MAX, NULL},
    {"task_id", handoff_field_id, AT(task_id), 1, HANDOFF_ID_MAX, NULL},
    {"trace_id", check_trace_id, AT(trace_id), 0, 0, NULL},
    {"timestamp", check_time, AT(at_ms), 0, 0, NULL},
    {"latency_seconds", handoff_field_number, AT(latency_s), 0, HANDOFF_OBSERVATION_LATENCY_MAX_S,
     NULL},
    {"attempts", check_attempts, AT(attempts), 0, 0, NULL},
    {"completeness", check_refs, AT(refs), 0, 0, NULL},
    {"token_count", handoff_field_whole, AT(tokens), 0, HANDOFF_BUDGET_MAX, NULL},
    {"token_budget", handoff_field_whole, AT(budget), 1, HANDOFF_BUDGET_MAX, NULL},
    {"hop_count", handoff_field_whole, AT(hops), 1, HANDOFF_OBSERVATION_HOPS_MAX, NULL},
    {"cycle", handoff_field_bool, AT(cycle), 0, 0, NULL},
    {"task_handoffs", handoff_field_whole, AT(task_handoffs), 1, HANDOFF_OBSERVATION_TASK_MAX,
     NULL},
};
static const struct handoff_fields fields = {rows, sizeof rows / sizeof *rows,
                                             "an observation has no such field",
                                             "the fields of docs/observations.md"};

/* ---- what no field can tell alone --------------------------------------------------------------
 */

static enum handoff_code check_source(struct handoff_observation *observation,
                                      struct base_span caller, struct handoff_error *error)
{
    if (!observation->source_agent.data)
        observation->source_agent = caller;
    if (!observation->source_agent.data)
        return handoff_field_refuse(error, "the field is required", "source_agent", NULL);
    if (!caller.data || base_span_equal(caller, observation->source_agent))
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_FORBIDDEN,
                             "the caller may observe only in its own name", "source_agent",
                             observation->source_agent.data);
}

/* Counters have no past: what is told now is counted now. */
static enum handoff_code check_age(const struct handoff_observation *observation, int64_t now_ms,
                                   struct handoff_error *error)
{
    char text[BASE_RFC3339_SIZE], from[BASE_RFC3339_SIZE], until[BASE_RFC3339_SIZE];
    int64_t first = now_ms - HANDOFF_OBSERVATION_PAST_MS;
    int64_t last = now_ms + HANDOFF_OBSERVATION_FUTURE_MS;
    if (observation->at_ms == HANDOFF_OBSERVATION_NO_TIME ||
        (observation->at_ms >= first && observation->at_ms <= last))
        return HANDOFF_OK;
    base_rfc3339_format(observation->at_ms, text);
    base_rfc3339_format(first, from);
    base_rfc3339_format(last, until);
    handoff_error_set(error, HANDOFF_ERR_INVALID,
                      observation->at_ms < first ? "it is too long ago to be counted now"
                                                 : "it is in the future; check the clocks",
                      "timestamp", text);
    handoff_error_allow(error, "%s to %s", from, until);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code check_together(struct handoff_observation *observation,
                                        struct base_span caller, int64_t now_ms,
                                        struct handoff_error *error)
{
    enum handoff_code code = check_source(observation, caller, error);
    if (code == HANDOFF_OK && !observation->target_agent.data)
        code = handoff_field_refuse(error, "the field is required", "target_agent", NULL);
    if (code == HANDOFF_OK && !observation->outcome) {
        code = handoff_field_refuse(error, "the field is required", "outcome", NULL);
        handoff_field_allow_words(error, OUTCOME_NAMES);
    }
    return code == HANDOFF_OK ? check_age(observation, now_ms, error) : code;
}

enum handoff_code handoff_observation_read(yyjson_val *value, struct base_span caller,
                                           int64_t now_ms, struct handoff_observation *observation,
                                           struct handoff_error *error)
{
    const char *twice;
    *observation = (struct handoff_observation){.at_ms = HANDOFF_OBSERVATION_NO_TIME,
                                                .latency_s = -1,
                                                .tokens = -1,
                                                .refs = {-1, -1, -1, -1, -1}};
    if (!yyjson_is_obj(value))
        return handoff_field_refuse_type(error, "item", value, "an object");
    if (!base_json_keys_are_plain(value, &twice)) {
        handoff_error_set(error, HANDOFF_ERR_INVALID, "a key is there twice", twice, twice);
        handoff_error_allow(error, "each key once");
        return HANDOFF_ERR_INVALID;
    }
    enum handoff_code code = handoff_fields_read(&fields, value, observation, error);
    return code == HANDOFF_OK ? check_together(observation, caller, now_ms, error) : code;
}
