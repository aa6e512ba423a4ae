/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `validate`: a request body becomes a struct, or an error that names the field, what was
 * seen and what is allowed. Every field is a row of the table (field.h).
 * Pure, any thread.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "client/assemble/field.h"
#include "client/assemble/request.h"
#include "client/assemble/segment.h"
#include "client/model/model.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

bool handoff_request_wants_next(const struct handoff_request *request)
{
    return base_span_equal(request->target_agent, base_span_text("next"));
}

/* ---- the table ------------------------------------------------------------------------------ */

static enum handoff_code check_ids(const struct handoff_field *, yyjson_val *, void *,
                                   struct handoff_error *);
static enum handoff_code check_state(const struct handoff_field *, yyjson_val *, void *,
                                     struct handoff_error *);
static enum handoff_code check_constraints(const struct handoff_field *, yyjson_val *, void *,
                                           struct handoff_error *);
static enum handoff_code check_history(const struct handoff_field *, yyjson_val *, void *,
                                       struct handoff_error *);
static enum handoff_code check_output(const struct handoff_field *, yyjson_val *, void *,
                                      struct handoff_error *);

#define AT(member) offsetof(struct handoff_request, member)
static const struct handoff_field rows[] = {
    {"source_agent", handoff_field_name, AT(source_agent), 1, HANDOFF_NAME_MAX, NULL},
    {"target_agent", handoff_field_name, AT(target_agent), 1, HANDOFF_NAME_MAX, NULL},
    {"task_id", handoff_field_id, AT(task_id), 1, HANDOFF_ID_MAX, NULL},
    {"task_summary", handoff_field_text, AT(task_summary), 1, HANDOFF_TEXT_MAX, NULL},
    {"intent", handoff_field_text, AT(intent), 1, HANDOFF_TEXT_MAX, NULL},
    {"state", check_state, AT(state), 0, 0, NULL},
    {"include_recent", handoff_field_whole, AT(include_recent), 0, HANDOFF_RECENT_MAX, NULL},
    {"include_pins", handoff_field_bool, AT(include_pins), 0, 0, NULL},
    {"memory_ids", check_ids, AT(memory_ids), 0, HANDOFF_MEMORY_IDS_MAX, NULL},
    {"constraints", check_constraints, AT(constraints), 0, 0, NULL},
    {"execution_history", check_history, AT(execution_history), 0, HANDOFF_HISTORY_MAX, NULL},
    {"expected_output", check_output, AT(expected_output), 0, 0, NULL},
    {"strategy", handoff_field_word, AT(strategy), 0, 0, handoff_strategy_names},
    {"previous_id", handoff_field_uuid, AT(previous_id), 0, 0, NULL},
    {"pattern", handoff_field_word, AT(pattern), 0, 0, handoff_pattern_names},
    {"channel", handoff_field_name, AT(channel), 1, HANDOFF_NAME_MAX, NULL},
    {"pipeline", handoff_field_name, AT(pipeline), 1, HANDOFF_NAME_MAX, NULL},
    {"raw_log", handoff_field_bool, AT(raw_log), 0, 0, NULL},
};
static const struct handoff_fields fields = {rows, sizeof(rows) / sizeof(rows[0]),
                                             "a request has no such field",
                                             "the fields of docs/envelope.md"};

/* ---- refusals ------------------------------------------------------------------------------- */

static enum handoff_code refuse_raw_log(struct handoff_error *error, const char *name)
{
    return handoff_error_set(error, HANDOFF_ERR_RAW_LOG,
                             "raw conversation logs are not handed on: store what they established "
                             "as memories, each with a summary, and ask for those by id",
                             name, NULL);
}

/* ---- checks of lists and objects ----------------------------------------------------------- */

static enum handoff_code check_list(const struct handoff_field *field, yyjson_val *value,
                                    struct handoff_error *error)
{
    if (!yyjson_is_arr(value))
        return handoff_field_refuse_type(error, field->name, value, "an array");
    if ((int64_t)yyjson_arr_size(value) <= field->most)
        return HANDOFF_OK;
    handoff_field_refuse(error, "the list is too long", field->name, NULL);
    handoff_error_seen(error, "%zu entries", yyjson_arr_size(value));
    handoff_error_allow(error, "%lld", (long long)field->most);
    return HANDOFF_ERR_INVALID;
}

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

static enum handoff_code check_ids(const struct handoff_field *field, yyjson_val *value, void *at,
                                   struct handoff_error *error)
{
    const struct handoff_field entry = {.name = field->name, .least = 1, .most = HANDOFF_ID_MAX};
    enum handoff_code code = check_list(field, value, error);
    size_t i, n;
    yyjson_val *id;
    if (code != HANDOFF_OK)
        return code;
    yyjson_arr_foreach(value, i, n, id)
    {
        struct base_span text;
        code = handoff_field_id(&entry, id, &text, error);
        if (code != HANDOFF_OK)
            return in_place(code, error, "%s[%zu]%s", field->name, i, "");
    }
    *(yyjson_val **)at = value;
    return HANDOFF_OK;
}

/* The known members of an object that is otherwise the agents' own: their types. */
static enum handoff_code check_members(const struct handoff_field *field, yyjson_val *object,
                                       const char *const *arrays, struct handoff_error *error)
{
    if (!yyjson_is_obj(object))
        return handoff_field_refuse_type(error, field->name, object, "an object");
    for (; *arrays; arrays++) {
        yyjson_val *member = yyjson_obj_get(object, *arrays);
        if (member && !yyjson_is_arr(member)) {
            handoff_field_refuse_type(error, field->name, member, "an array");
            handoff_error_field(error, "%s.%s", field->name, *arrays);
            return HANDOFF_ERR_INVALID;
        }
    }
    return handoff_marks_raw_log(object) ? refuse_raw_log(error, field->name) : HANDOFF_OK;
}

static enum handoff_code check_state(const struct handoff_field *field, yyjson_val *value, void *at,
                                     struct handoff_error *error)
{
    static const char *const arrays[] = {"decisions", "unresolved", "remaining", NULL};
    *(yyjson_val **)at = value;
    return check_members(field, value, arrays, error);
}

static enum handoff_code check_output(const struct handoff_field *field, yyjson_val *value,
                                      void *at, struct handoff_error *error)
{
    static const char *const arrays[] = {"criteria", NULL};
    *(yyjson_val **)at = value;
    return check_members(field, value, arrays, error);
}

static enum handoff_code check_constraints(const struct handoff_field *field, yyjson_val *value,
                                           void *at, struct handoff_error *error)
{
    if (!yyjson_is_obj(value))
        return handoff_field_refuse_type(error, field->name, value, "an object");
    *(yyjson_val **)at = value;
    return handoff_constraints_check(value, error);
}

enum handoff_code handoff_constraints_check(yyjson_val *constraints, struct handoff_error *error)
{
    int64_t number;
    yyjson_val *tokens = yyjson_obj_get(constraints, "max_tokens");
    if (tokens &&
        (!base_json_whole(tokens, &number) || number < 1 || number > HANDOFF_BUDGET_MAX)) {
        handoff_field_refuse(error, "the number is out of range", "constraints.max_tokens", tokens);
        handoff_error_allow(error, "a whole number, 1 to %d", HANDOFF_BUDGET_MAX);
        return HANDOFF_ERR_INVALID;
    }
    yyjson_val *deadline = yyjson_obj_get(constraints, "deadline");
    struct base_span text = base_json_span(deadline);
    if (deadline && (!text.data || !base_rfc3339_parse(text.data, text.size, &number))) {
        handoff_field_refuse(error, "the deadline is not a time", "constraints.deadline", deadline);
        handoff_error_allow(error, "RFC 3339, as 2026-01-30T00:00:00Z");
        return HANDOFF_ERR_INVALID;
    }
    return HANDOFF_OK;
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
    for (size_t i = 0; i < HANDOFF_STEP_MEMBERS; i++) {
        enum handoff_code code = HANDOFF_OK;
        if (!members[i] && i <= HANDOFF_STEP_ACTION)
            code =
                handoff_field_refuse(error, "a step of the history says who did what", list, NULL);
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
    enum handoff_code code = check_list(field, value, error);
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
    *(yyjson_val **)at = value;
    return HANDOFF_OK;
}

/* ---- the request --------------------------------------------------------------------------- */

static enum handoff_code require(struct base_span value, const char *name,
                                 struct handoff_error *error)
{
    return value.data ? HANDOFF_OK
                      : handoff_field_refuse(error, "the field is required", name, NULL);
}

static enum handoff_code refuse_name(struct base_span given, struct base_span caller,
                                     struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_FORBIDDEN, "the caller may hand off only in its own name",
                      "source_agent", given.data);
    handoff_error_allow(error, "%.*s, or leave it out", (int)caller.size, caller.data);
    return HANDOFF_ERR_FORBIDDEN;
}

/* What no field can tell alone. */
static enum handoff_code check_together(struct handoff_request *request,
                                        struct base_span source_agent, struct handoff_error *error)
{
    if (request->raw_log)
        return refuse_raw_log(error, "raw_log");
    if (source_agent.data && !request->source_agent.data)
        request->source_agent = source_agent;
    if (source_agent.data && !base_span_equal(source_agent, request->source_agent))
        return refuse_name(request->source_agent, source_agent, error);
    if (request->channel.data && request->pattern != HANDOFF_PATTERN_BROADCAST)
        return handoff_field_refuse(error, "only a broadcast has a channel", "channel", NULL);
    if (request->pipeline.data && !handoff_request_wants_next(request))
        return handoff_field_refuse(error, "only target_agent \"next\" has a pipeline", "pipeline",
                                    NULL);
    enum handoff_code code = require(request->source_agent, "source_agent", error);
    if (code == HANDOFF_OK)
        code = require(request->target_agent, "target_agent", error);
    if (code == HANDOFF_OK)
        code = require(request->task_summary, "task_summary", error);
    return code;
}

enum handoff_code handoff_request_read(struct base_arena *arena, struct base_span body,
                                       struct base_span source_agent,
                                       struct handoff_request *request, struct handoff_error *error)
{
    *request = (struct handoff_request){.include_pins = true};
    yyjson_doc *doc;
    enum handoff_code code = base_json_read_in(arena, body, "body", &doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(doc);
    const char *bad;
    if (!yyjson_is_obj(root)) {
        code = handoff_field_refuse_type(error, "body", root, "an object");
    } else if (!base_json_keys_are_plain(root, &bad)) {
        code = handoff_error_set(error, HANDOFF_ERR_INVALID,
                                 "a key is there twice, or an object has too many", bad, bad);
        handoff_error_allow(error, "each key once, %d in one object", BASE_JSON_KEYS_MAX);
    } else {
        code = handoff_fields_read(&fields, root, request, error);
        if (code == HANDOFF_OK)
            code = check_together(request, source_agent, error);
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
