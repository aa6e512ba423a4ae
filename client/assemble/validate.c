/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `validate`: a request body becomes a struct, or an error that names the field, what was
 * seen and what is allowed. Every field is a row of the table (field.h).
 * Pure, any thread.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "client/assemble/continued.h"
#include "client/assemble/request.h"
#include "client/assemble/segment.h"
#include "client/model/field.h"
#include "client/model/lenient.h"
#include "client/model/model.h"
#include "client/secrets/redact.h"
#include "client/spine/spine.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

bool handoff_request_is_broadcast(const struct handoff_request *request)
{
    return base_span_equal(request->target_agent,
                           base_span_text(handoff_reserved_name(HANDOFF_RESERVED_BROADCAST)));
}

bool handoff_request_wants_next(const struct handoff_request *request)
{
    return base_span_equal(request->target_agent,
                           base_span_text(handoff_reserved_name(HANDOFF_RESERVED_NEXT)));
}

/* ---- the table ------------------------------------------------------------------------------ */

static handoff_field_check check_carried, check_history, check_raw_log_flag;

/* Open objects: agents may carry whatever else they need. */
static const struct handoff_field state_rows[] = {
    {.name = "progress", .type = HANDOFF_FIELD_ANY, .doc = "progress so far"},
    {.name = "decisions",
     .type = HANDOFF_FIELD_ARRAY,
     .most = INT64_MAX,
     .doc = "decisions made so far"},
    {.name = "unresolved", .type = HANDOFF_FIELD_ARRAY, .most = INT64_MAX, .doc = "open questions"},
    {.name = "remaining", .type = HANDOFF_FIELD_ARRAY, .most = INT64_MAX, .doc = "remaining steps"},
    {.name = "resolved",
     .type = HANDOFF_FIELD_ARRAY,
     .most = INT64_MAX,
     .doc =
         "which open questions, of this and earlier hops, are answered: each by its text or `id`"},
    {.name = "done",
     .type = HANDOFF_FIELD_ARRAY,
     .most = INT64_MAX,
     .doc = "likewise, which remaining steps are done"},
};
static const struct handoff_fields state_fields = {
    .rows = state_rows, .count = HANDOFF_FIELDS_COUNT(state_rows), .open = true};

static const struct handoff_field output_rows[] = {
    {.name = "format", .type = HANDOFF_FIELD_ANY, .doc = "format of the result"},
    {.name = "length", .type = HANDOFF_FIELD_ANY, .doc = "maximum length"},
    {.name = "criteria",
     .type = HANDOFF_FIELD_ARRAY,
     .most = INT64_MAX,
     .doc = "criteria that it must meet"},
};
static const struct handoff_fields output_fields = {
    .rows = output_rows, .count = HANDOFF_FIELDS_COUNT(output_rows), .open = true};

static const struct handoff_field constraint_rows[] = {
    {.name = "max_tokens",
     .type = HANDOFF_FIELD_WHOLE,
     .least = 1,
     .most = HANDOFF_BUDGET_MAX,
     .doc = "token budget of the envelope, if smaller than the target's; inherited where absent"},
    {.name = "deadline",
     .type = HANDOFF_FIELD_TIME,
     .doc = "when the handoff expires if it is not acknowledged; in the future"},
};
static const struct handoff_fields constraint_fields = {
    .rows = constraint_rows, .count = HANDOFF_FIELDS_COUNT(constraint_rows), .open = true};

/* In the order of HANDOFF_STEP_AGENT and so on; a unit test compares the names. */
#define STEP(text, words)                                                                          \
    {                                                                                              \
        .name = (text), .type = HANDOFF_FIELD_TEXT, .most = INT64_MAX, .doc = (words)              \
    }
static const struct handoff_field step_rows[] = {
    {.name = "agent",
     .type = HANDOFF_FIELD_TEXT,
     .required = true,
     .most = INT64_MAX,
     .doc = "agent that took the step"},
    {.name = "action",
     .type = HANDOFF_FIELD_TEXT,
     .required = true,
     .most = INT64_MAX,
     .doc = "what it did"},
    STEP("decision", "decision that the step led to"),
    STEP("reason", "why"),
    STEP("memory_id", "memory that it refers to"),
    STEP("at", "when"),
};
const struct handoff_fields handoff_step_fields = {
    .rows = step_rows, .count = HANDOFF_FIELDS_COUNT(step_rows), .name = "Step", .open = true};
static const struct handoff_field step_item = {
    .name = "execution_history", .type = HANDOFF_FIELD_OBJECT, .members = &handoff_step_fields};

static enum handoff_code check_memory_id(const struct handoff_field *field, yyjson_val *value,
                                         void *at, struct handoff_error *error)
{
    (void)at;
    if (!yyjson_is_str(value))
        return handoff_field_refuse_type(error, field->name, value, "the id of a memory");
    return handoff_memory_validate_id(base_json_span(value), field->name, error);
}

static const struct handoff_field id_item = {.name = "memory_ids",
                                             .type = HANDOFF_FIELD_ID,
                                             .least = 1,
                                             .most = HANDOFF_MEMORY_ID_MAX,
                                             .check = check_memory_id};
static const struct handoff_field previous_item = {
    .name = "previous_id", .type = HANDOFF_FIELD_UUID, .doc = "the id of a handoff"};

static enum handoff_code check_scope_name(const struct handoff_field *field, yyjson_val *value,
                                          void *at, struct handoff_error *error)
{
    (void)at;
    if (!yyjson_is_str(value))
        return handoff_field_refuse_type(error, field->name, value,
                                         "a scope, or an array of scopes");
    return handoff_scope_validate(base_json_span(value), field->name, error);
}

static const struct handoff_field scope_item = {.name = "scope",
                                                .type = HANDOFF_FIELD_TEXT,
                                                .most = HANDOFF_SCOPE_MAX,
                                                .check = check_scope_name};

#define AT(member) offsetof(struct handoff_request, member)
static const struct handoff_field rows[] = {
    {.name = "source_agent",
     .type = HANDOFF_FIELD_NAME,
     .fixed = true,
     .offset = AT(source_agent),
     .least = 1,
     .most = HANDOFF_NAME_MAX,
     .doc = "the sender; required unless an API token or `api.source_agent` identifies it",
     .example = "\"analyst\""},
    {.name = "target_agent",
     .type = HANDOFF_FIELD_NAME,
     .required = true,
     .fixed = true,
     .offset = AT(target_agent),
     .least = 1,
     .most = HANDOFF_NAME_MAX,
     .doc = "the receiver; `next` is the agent after the source in its pipeline",
     .example = "\"coder\""},
    {.name = "task_id",
     .type = HANDOFF_FIELD_ID,
     .fixed = true,
     .offset = AT(task_id),
     .least = 1,
     .most = HANDOFF_ID_MAX,
     .doc = "the task; inherited, otherwise a new one",
     .example = "\"task-42\""},
    {.name = "task_summary",
     .type = HANDOFF_FIELD_TEXT,
     .required = true,
     .offset = AT(task_summary),
     .least = 1,
     .most = HANDOFF_TEXT_MAX,
     .doc = "what the receiver should do; memories are ranked by relevance to it",
     .example = "\"Write the retry logic\""},
    {.name = "intent",
     .type = HANDOFF_FIELD_TEXT,
     .fixed = true,
     .offset = AT(intent),
     .least = 1,
     .most = HANDOFF_TEXT_MAX,
     .doc = "the user's original request; inherited, otherwise the summary"},
    {.name = "state",
     .type = HANDOFF_FIELD_OBJECT,
     .offset = AT(state),
     .members = &state_fields,
     .check = check_carried,
     .doc = "state of the work; other members are passed on unchanged"},
    {.name = "scope",
     .type = HANDOFF_FIELD_ONE_OR_MANY,
     .vital = true,
     .offset = AT(scope),
     .most = HANDOFF_SCOPES_MAX,
     .item = &scope_item,
     .doc =
         "whose memories it sees besides the shared ones; inherited, and a later request may only "
         "name fewer. Otherwise the token's scopes, otherwise none",
     .example = "\"user:alice\""},
    {.name = "include_recent",
     .type = HANDOFF_FIELD_WHOLE,
     .offset = AT(include_recent),
     .most = HANDOFF_RECENT_MAX,
     .fallback = "0",
     .doc = "number of the most relevant recent memories to include"},
    {.name = "include_pins",
     .type = HANDOFF_FIELD_BOOL,
     .offset = AT(include_pins),
     .fallback = "true",
     .doc = "whether to include all pinned memories"},
    {.name = "memory_ids",
     .type = HANDOFF_FIELD_ARRAY,
     .offset = AT(memory_ids),
     .most = HANDOFF_MEMORY_IDS_MAX,
     .item = &id_item,
     .doc = "memories to include"},
    {.name = "constraints",
     .type = HANDOFF_FIELD_OBJECT,
     .vital = true,
     .offset = AT(constraints),
     .members = &constraint_fields,
     .doc = "hard requirements, added to the inherited ones, which can only be tightened. Other "
            "members "
            "are passed on unchanged"},
    {.name = "execution_history",
     .type = HANDOFF_FIELD_ARRAY,
     .offset = AT(execution_history),
     .most = HANDOFF_HISTORY_MAX,
     .item = &step_item,
     .check = check_history,
     .doc = "the steps so far, oldest first"},
    {.name = "expected_output",
     .type = HANDOFF_FIELD_OBJECT,
     .offset = AT(expected_output),
     .members = &output_fields,
     .check = check_carried,
     .doc = "what the result should look like; other members are passed on unchanged"},
    {.name = "strategy",
     .type = HANDOFF_FIELD_WORD,
     .offset = AT(strategy),
     .words = handoff_strategy_names,
     .doc = "how memories are fitted into the token budget; otherwise the target's"},
    {.name = "previous_id",
     .type = HANDOFF_FIELD_ONE_OR_MANY,
     .fixed = true,
     .offset = AT(previous_id),
     .most = HANDOFF_PARENTS_MAX,
     .item = &previous_item,
     .doc = "the handoffs that this one continues; otherwise those of the task that were handed to "
            "the source and that no handoff continues yet"},
    {.name = "new_chain",
     .type = HANDOFF_FIELD_BOOL,
     .fixed = true,
     .offset = AT(new_chain),
     .fallback = "false",
     .doc = "whether to continue nothing, although the task is known"},
    {.name = "pattern",
     .type = HANDOFF_FIELD_WORD,
     .offset = AT(pattern),
     .words = handoff_pattern_names,
     .fallback = "\"direct\"",
     .doc = "how the target was chosen"},
    {.name = "channel",
     .type = HANDOFF_FIELD_NAME,
     .offset = AT(channel),
     .least = 1,
     .most = HANDOFF_NAME_MAX,
     .doc = "channel of a broadcast"},
    {.name = "pipeline",
     .type = HANDOFF_FIELD_NAME,
     .offset = AT(pipeline),
     .least = 1,
     .most = HANDOFF_NAME_MAX,
     .doc = "with target `next`: the pipeline, if the source is in several"},
    {.name = "raw_log",
     .type = HANDOFF_FIELD_BOOL,
     .offset = AT(raw_log),
     .check = check_raw_log_flag,
     .fallback = "false",
     .doc = "true marks a raw conversation log, which is rejected"},
};
const struct handoff_fields handoff_request_fields = {.rows = rows,
                                                      .count = HANDOFF_FIELDS_COUNT(rows),
                                                      .name = "HandoffRequest",
                                                      .doc = "A request to hand off work.",
                                                      .known =
                                                          "the fields listed in docs/envelope.md"};
const struct handoff_fields handoff_edit_fields = {
    .rows = rows,
    .count = HANDOFF_FIELDS_COUNT(rows),
    .name = "HandoffEdit",
    .doc = "Request fields that replace those of the original.",
    .known = "the fields listed in docs/envelope.md",
    .edit = true};

/* ---- refusals ------------------------------------------------------------------------------- */

static enum handoff_code refuse_raw_log(struct handoff_error *error, const char *name)
{
    return handoff_error_set(error, HANDOFF_ERR_RAW_LOG,
                             "raw conversation logs cannot be handed off; store their conclusions "
                             "as memories with summaries and request those by id",
                             name, NULL);
}

/* ---- checks of lists and objects ----------------------------------------------------------- */

/* A value inside a field, named like memory_ids[3] or execution_history[0].agent. */
static enum handoff_code in_place(enum handoff_code code, struct handoff_error *error,
                                  const char *format, const char *list, size_t index,
                                  const char *member)
{
    if (code != HANDOFF_OK && error) {
        char place[sizeof(error->field)];
        snprintf(place, sizeof(place), format, list, index, member);
        handoff_error_field(error, "%s", place);
    }
    return code;
}

/* An object whose known members are checked by their rows, and the rest carried along. */
static enum handoff_code check_carried(const struct handoff_field *field, yyjson_val *value,
                                       void *at, struct handoff_error *error)
{
    enum handoff_code code = handoff_field_check_object(field, value, at, error);
    if (code == HANDOFF_OK)
        code = handoff_fields_refuse_slips(field->members, value, field->name, error);
    if (code != HANDOFF_OK)
        return code;
    return handoff_marks_raw_log(value) ? refuse_raw_log(error, field->name) : HANDOFF_OK;
}

enum handoff_code handoff_constraints_check(yyjson_val *constraints, struct handoff_error *error)
{
    return handoff_fields_check_open(&constraint_fields, constraints, "constraints", error);
}

uint64_t handoff_constraints_max_tokens(yyjson_val *constraints)
{
    int64_t number = 0;
    yyjson_val *tokens = yyjson_obj_get(constraints, "max_tokens");
    return tokens && base_json_whole(tokens, &number) && number > 0 ? (uint64_t)number : 0;
}

bool handoff_marks_raw_log(yyjson_val *object)
{
    return yyjson_is_true(yyjson_obj_get(object, "raw_log")) ||
           yyjson_equals_str(yyjson_obj_get(object, "kind"), "conversation");
}

/* A step says who did what; the rest is optional text, and what is not known is carried along. */
static enum handoff_code check_step(yyjson_val *step, size_t index, struct handoff_error *error)
{
    static const char list[] = "execution_history";
    yyjson_val *members[HANDOFF_STEP_MEMBERS];
    if (!yyjson_is_obj(step))
        return in_place(handoff_field_refuse_type(error, list, step, "an object"), error,
                        "%s[%zu]%s", list, index, "");
    const size_t others = handoff_segment_step_sort(step, members);
    if (others > 0 && handoff_marks_raw_log(step))
        return in_place(refuse_raw_log(error, list), error, "%s[%zu]%s", list, index, "");
    if (others > 0) {
        char place[sizeof error->field];
        snprintf(place, sizeof place, "%s[%zu]", list, index);
        const enum handoff_code slip =
            handoff_fields_refuse_slips(&handoff_step_fields, step, place, error);
        if (slip != HANDOFF_OK)
            return slip;
    }
    for (size_t i = 0; i < HANDOFF_STEP_MEMBERS; i++) {
        enum handoff_code code = HANDOFF_OK;
        if (!members[i] && i <= HANDOFF_STEP_ACTION)
            code = handoff_field_refuse(error, "a history step needs agent and action", list, NULL);
        else if (members[i] && !yyjson_is_str(members[i]))
            code = handoff_field_refuse_type(error, list, members[i], "a string");
        if (code != HANDOFF_OK)
            return in_place(code, error, "%s[%zu].%s", list, index,
                            handoff_segment_step_names[i].data);
    }
    return HANDOFF_OK;
}

static enum handoff_code check_history(const struct handoff_field *field, yyjson_val *value,
                                       void *at, struct handoff_error *error)
{
    enum handoff_code code = handoff_field_check_array(field, value, at, error);
    size_t i, n;
    yyjson_val *step;
    if (code != HANDOFF_OK)
        return code;
    yyjson_arr_foreach(value, i, n, step)
    {
        code = check_step(step, i, error);
        if (code != HANDOFF_OK)
            return code;
    }
    return HANDOFF_OK;
}

static enum handoff_code check_raw_log_flag(const struct handoff_field *field, yyjson_val *value,
                                            void *at, struct handoff_error *error)
{
    if (!yyjson_is_bool(value))
        return handoff_field_refuse_type(error, field->name, value, "true or false");
    *(bool *)at = yyjson_is_true(value);
    return yyjson_is_true(value) ? refuse_raw_log(error, field->name) : HANDOFF_OK;
}

/* ---- the request --------------------------------------------------------------------------- */

static enum handoff_code refuse_name(struct base_span given, struct base_span caller,
                                     struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_FORBIDDEN, "an agent may hand off only in its own name",
                      "source_agent", given.data);
    handoff_error_allow(error, "%.*s, or omit it", (int)caller.size, caller.data);
    return HANDOFF_ERR_FORBIDDEN;
}

static enum handoff_code refuse_broadcast(struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID,
                      "a broadcast needs a channel; a handoff to one agent is direct", "pattern",
                      handoff_pattern_name(HANDOFF_PATTERN_BROADCAST));
    handoff_error_allow(error, "another pattern, or none; or this one with a channel");
    return error->code;
}

/* What no field can tell alone. */
static enum handoff_code check_request(struct handoff_request *request,
                                       struct base_span source_agent, struct handoff_error *error)
{
    if (yyjson_is_arr(request->previous_id) && yyjson_arr_size(request->previous_id) == 0)
        request->previous_id = NULL; /* it names none; only new_chain continues nothing */
    if (source_agent.data && !request->source_agent.data)
        request->source_agent = source_agent;
    if (!request->source_agent.data)
        return handoff_field_refuse_missing(error, &rows[0]);
    if (source_agent.data && !base_span_equal(source_agent, request->source_agent))
        return refuse_name(request->source_agent, source_agent, error);
    if (handoff_request_is_broadcast(request))
        request->pattern = HANDOFF_PATTERN_BROADCAST;
    if (request->channel.data && request->pattern != HANDOFF_PATTERN_BROADCAST)
        return handoff_field_refuse(error, "channel is only valid with pattern broadcast",
                                    "channel", NULL);
    if (request->pattern == HANDOFF_PATTERN_BROADCAST && !request->channel.data &&
        !handoff_request_is_broadcast(request))
        return refuse_broadcast(error);
    if (request->new_chain && request->previous_id)
        return handoff_field_refuse(error, "new_chain continues nothing, and previous_id does",
                                    "new_chain", NULL);
    if (request->pipeline.data && !handoff_request_wants_next(request))
        return handoff_field_refuse(error, "pipeline is only valid with target_agent \"next\"",
                                    "pipeline", NULL);
    return HANDOFF_OK;
}

enum handoff_code handoff_request_read(struct base_arena *arena, struct base_span body,
                                       struct base_span source_agent,
                                       struct handoff_secrets *secrets,
                                       struct handoff_warnings *warnings, bool lenient,
                                       struct handoff_request *request, struct handoff_error *error)
{
    *request = (struct handoff_request){.include_pins = true, .strategy = -1};
    yyjson_doc *doc;
    enum handoff_code code = base_json_read_in(arena, body, "body", &doc, error);
    if (code != HANDOFF_OK)
        return code;
    if (secrets) /* before anything reads the texts */
        code = handoff_secrets_in_document(secrets, &handoff_request_fields,
                                           HANDOFF_SECRET_PLACE_REQUEST, doc, error);
    yyjson_val *root = yyjson_doc_get_root(doc);
    const char *bad;
    if (code != HANDOFF_OK) {
        /* it has credentials, and must not */
    } else if (!yyjson_is_obj(root)) {
        code = handoff_field_refuse_type(error, "body", root, "an object");
    } else if (!base_json_keys_are_plain(root, &bad)) {
        code = handoff_error_set(error, HANDOFF_ERR_INVALID,
                                 "duplicate key, or too many keys in an object", bad, bad);
        handoff_error_allow(error, "each key once, at most %d keys per object", BASE_JSON_KEYS_MAX);
    } else {
        if (lenient)
            code = handoff_ignore_unknown(&handoff_request_fields, false, &doc, warnings, error);
        if (code == HANDOFF_OK)
            code = handoff_fields_read(&handoff_request_fields, yyjson_doc_get_root(doc), request,
                                       error);
        if (code == HANDOFF_OK)
            code = check_request(request, source_agent, error);
    }
    request->doc = doc;
    if (code != HANDOFF_OK)
        handoff_request_free(request);
    return code;
}

void handoff_request_free(struct handoff_request *request)
{
    yyjson_doc_free(request->doc);
    *request = (struct handoff_request){0};
}
