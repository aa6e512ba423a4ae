/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one observation: the table of its fields, and the checks across fields. Pure. */
#include "client/calls/observation.h"

#include <stddef.h>

#include "client/assemble/request.h"
#include "client/model/field.h"
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
    enum handoff_code code = handoff_field_check_word(field, value, &index, error);
    *(int *)at = code == HANDOFF_OK ? index + FIRST_OUTCOME : HANDOFF_OUTCOME_NONE;
    return code;
}

static const struct handoff_field attempt_rows[] = {
#define HANDOFF_RESULT(result, number, text, ...)                                                  \
    {.name = (text),                                                                               \
     .type = HANDOFF_FIELD_WHOLE,                                                                  \
     .offset = sizeof(int64_t) * (number),                                                         \
     .most = HANDOFF_OBSERVATION_ATTEMPTS_MAX},
#include "client/model/handoff_model.def"
};
static const struct handoff_fields attempt_fields = {.rows = attempt_rows,
                                                     .count = HANDOFF_FIELDS_COUNT(attempt_rows)};

#define REFS(member, words)                                                                        \
    {                                                                                              \
        .name = #member, .type = HANDOFF_FIELD_WHOLE,                                              \
        .offset = offsetof(struct handoff_observed_refs, member),                                  \
        .most = HANDOFF_OBSERVATION_REFS_MAX, .doc = (words)                                       \
    }
static const struct handoff_field refs_rows[] = {
    REFS(requested, "memories that were requested"),
    REFS(included, "included in full or as a summary"),
    REFS(missing, "not found or unreachable"),
    REFS(trimmed, "left out to fit the token budget"),
    {.name = "ratio",
     .type = HANDOFF_FIELD_NUMBER,
     .offset = offsetof(struct handoff_observed_refs, ratio),
     .most = 1,
     .doc = "included divided by requested, if the numbers are unknown"},
};
static const struct handoff_fields refs_fields = {.rows = refs_rows,
                                                  .count = HANDOFF_FIELDS_COUNT(refs_rows)};

/* Fills in the counts that follow from the others. A reference that is neither included nor
 * reported as trimmed is missing. False: the counts do not add up. */
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
    enum handoff_code code = handoff_field_check_object(field, value, at, error);
    if (code != HANDOFF_OK)
        return code;
    bool counted = refs->requested >= 0 || refs->missing >= 0 || refs->trimmed >= 0;
    if (refs->included < 0 && (counted || refs->ratio < 0)) {
        handoff_field_refuse(error, "not enough numbers to compute how much was included",
                             field->name, NULL);
        handoff_error_allow(error,
                            "included, with requested or with missing and trimmed; or only ratio");
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
    {.name = "source_agent",
     .type = HANDOFF_FIELD_NAME,
     .offset = AT(source_agent),
     .least = 1,
     .most = HANDOFF_NAME_MAX,
     .doc = "the sender; required unless an API token or `api.source_agent` identifies it",
     .example = "\"analyst\""},
    {.name = "target_agent",
     .type = HANDOFF_FIELD_NAME,
     .required = true,
     .offset = AT(target_agent),
     .least = 1,
     .most = HANDOFF_NAME_MAX,
     .doc = "the receiver",
     .example = "\"coder\""},
    {.name = "outcome",
     .type = HANDOFF_FIELD_WORD,
     .required = true,
     .offset = AT(outcome),
     .words = OUTCOME_NAMES,
     .check = check_outcome,
     .doc = "how it ended",
     .example = "\"acknowledged\""},
    {.name = "pattern",
     .type = HANDOFF_FIELD_WORD,
     .offset = AT(pattern),
     .words = handoff_pattern_names,
     .fallback = "\"direct\"",
     .doc = "how the target was chosen"},
    {.name = "id",
     .type = HANDOFF_FIELD_ID,
     .offset = AT(id),
     .least = 1,
     .most = HANDOFF_OBSERVATION_ID_MAX,
     .doc = "id chosen by the reporter, so that repeats count only once"},
    {.name = "task_id",
     .type = HANDOFF_FIELD_ID,
     .offset = AT(task_id),
     .least = 1,
     .most = HANDOFF_ID_MAX,
     .doc = "the task"},
    {.name = "trace_id",
     .type = HANDOFF_FIELD_TRACE_ID,
     .offset = AT(trace_id),
     .doc = "its trace id"},
    {.name = "timestamp", .type = HANDOFF_FIELD_TIME, .offset = AT(at_ms), .doc = "when it ended"},
    {.name = "latency_seconds",
     .type = HANDOFF_FIELD_NUMBER,
     .offset = AT(latency_s),
     .most = HANDOFF_OBSERVATION_LATENCY_MAX_S,
     .doc = "time from the handoff to its outcome",
     .example = "2.5"},
    {.name = "attempts",
     .type = HANDOFF_FIELD_OBJECT,
     .offset = AT(attempts),
     .members = &attempt_fields,
     .doc = "number of attempts by result"},
    {.name = "completeness",
     .type = HANDOFF_FIELD_OBJECT,
     .offset = AT(refs),
     .members = &refs_fields,
     .check = check_refs,
     .doc = "what happened to the requested memories"},
    {.name = "token_count",
     .type = HANDOFF_FIELD_WHOLE,
     .offset = AT(tokens),
     .most = HANDOFF_BUDGET_MAX,
     .doc = "tokens handed over"},
    {.name = "token_budget",
     .type = HANDOFF_FIELD_WHOLE,
     .offset = AT(budget),
     .least = 1,
     .most = HANDOFF_BUDGET_MAX,
     .doc = "token budget"},
    {.name = "hop_count",
     .type = HANDOFF_FIELD_WHOLE,
     .offset = AT(hops),
     .least = 1,
     .most = HANDOFF_OBSERVATION_HOPS_MAX,
     .doc = "position in the task's chain"},
    {.name = "cycle",
     .type = HANDOFF_FIELD_BOOL,
     .offset = AT(cycle),
     .fallback = "false",
     .doc = "whether the target was already on the path"},
    {.name = "task_handoffs",
     .type = HANDOFF_FIELD_WHOLE,
     .offset = AT(task_handoffs),
     .least = 1,
     .most = HANDOFF_OBSERVATION_TASK_MAX,
     .doc = "number of handoffs the task took, if it ended with this one"},
};
const struct handoff_fields handoff_observation_fields = {
    .rows = rows,
    .count = HANDOFF_FIELDS_COUNT(rows),
    .name = "Observation",
    .doc = "One handoff that an agent made without the sidecar.",
    .known = "the fields listed in docs/observations.md"};

/* ---- what no field can tell alone --------------------------------------------------------------
 */

static enum handoff_code check_source(struct handoff_observation *observation,
                                      struct base_span caller, struct handoff_error *error)
{
    if (!observation->source_agent.data)
        observation->source_agent = caller;
    if (!observation->source_agent.data)
        return handoff_field_refuse_missing(error, &rows[0]);
    if (!caller.data || base_span_equal(caller, observation->source_agent))
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_FORBIDDEN,
                             "an agent may report only its own handoffs", "source_agent",
                             observation->source_agent.data);
}

/* Counters have no past: what is reported now is counted now. */
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
                      observation->at_ms < first ? "timestamp is too far in the past"
                                                 : "timestamp is in the future; check the clocks",
                      "timestamp", text);
    handoff_error_allow(error, "%s to %s", from, until);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code check_observation(struct handoff_observation *observation,
                                           struct base_span caller, int64_t now_ms,
                                           struct handoff_error *error)
{
    enum handoff_code code = check_source(observation, caller, error);
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
        handoff_error_set(error, HANDOFF_ERR_INVALID, "duplicate key", twice, twice);
        handoff_error_allow(error, "each key once");
        return HANDOFF_ERR_INVALID;
    }
    enum handoff_code code =
        handoff_fields_read(&handoff_observation_fields, value, observation, error);
    return code == HANDOFF_OK ? check_observation(observation, caller, now_ms, error) : code;
}
