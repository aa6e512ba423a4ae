/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage `validate`: a request body becomes a struct, or an error that names the field, what was
 * seen and what is allowed. Every field is a row of `fields`; a row's check both judges and stores.
 * Pure, any thread.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "client/assemble/json.h"
#include "client/assemble/nearest.h"
#include "client/assemble/request.h"
#include "client/base/rfc3339.h"
#include "client/base/uuid.h"

static const char *const strategies[] = {"priority", "full", "summary", "lazy", NULL};
static const char *const patterns[] = {"direct", "broadcast", "choreographed", NULL};

const char *handoff_strategy_name(enum handoff_strategy strategy)
{
    return strategies[strategy];
}

const char *handoff_pattern_name(enum handoff_pattern pattern)
{
    return patterns[pattern];
}

/* ---- the table ------------------------------------------------------------------------------ */

struct field {
    const char *name;
    enum handoff_code (*check)(const struct field *, yyjson_val *, void *at,
                               struct handoff_error *);
    size_t offset; /* in struct handoff_request: where the value goes */
    int64_t least, most;
    const char *const *words;
};

static enum handoff_code check_name(const struct field *, yyjson_val *, void *,
                                    struct handoff_error *);
static enum handoff_code check_id(const struct field *, yyjson_val *, void *,
                                  struct handoff_error *);
static enum handoff_code check_uuid(const struct field *, yyjson_val *, void *,
                                    struct handoff_error *);
static enum handoff_code check_text(const struct field *, yyjson_val *, void *,
                                    struct handoff_error *);
static enum handoff_code check_whole(const struct field *, yyjson_val *, void *,
                                     struct handoff_error *);
static enum handoff_code check_bool(const struct field *, yyjson_val *, void *,
                                    struct handoff_error *);
static enum handoff_code check_word(const struct field *, yyjson_val *, void *,
                                    struct handoff_error *);
static enum handoff_code check_ids(const struct field *, yyjson_val *, void *,
                                   struct handoff_error *);
static enum handoff_code check_state(const struct field *, yyjson_val *, void *,
                                     struct handoff_error *);
static enum handoff_code check_constraints(const struct field *, yyjson_val *, void *,
                                           struct handoff_error *);
static enum handoff_code check_history(const struct field *, yyjson_val *, void *,
                                       struct handoff_error *);
static enum handoff_code check_output(const struct field *, yyjson_val *, void *,
                                      struct handoff_error *);

#define AT(member) offsetof(struct handoff_request, member)
static const struct field fields[] = {
    {"source_agent", check_name, AT(source_agent), 1, HANDOFF_NAME_MAX, NULL},
    {"target_agent", check_name, AT(target_agent), 1, HANDOFF_NAME_MAX, NULL},
    {"task_id", check_id, AT(task_id), 1, HANDOFF_ID_MAX, NULL},
    {"task_summary", check_text, AT(task_summary), 1, HANDOFF_TEXT_MAX, NULL},
    {"intent", check_text, AT(intent), 1, HANDOFF_TEXT_MAX, NULL},
    {"state", check_state, AT(state), 0, 0, NULL},
    {"include_recent", check_whole, AT(include_recent), 0, HANDOFF_RECENT_MAX, NULL},
    {"include_pins", check_bool, AT(include_pins), 0, 0, NULL},
    {"memory_ids", check_ids, AT(memory_ids), 0, HANDOFF_MEMORY_IDS_MAX, NULL},
    {"constraints", check_constraints, AT(constraints), 0, 0, NULL},
    {"execution_history", check_history, AT(execution_history), 0, HANDOFF_HISTORY_MAX, NULL},
    {"expected_output", check_output, AT(expected_output), 0, 0, NULL},
    {"strategy", check_word, AT(strategy), 0, 0, strategies},
    {"previous_id", check_uuid, AT(previous_id), 0, 0, NULL},
    {"pattern", check_word, AT(pattern), 0, 0, patterns},
    {"channel", check_name, AT(channel), 1, HANDOFF_NAME_MAX, NULL},
    {"raw_log", check_bool, AT(raw_log), 0, 0, NULL},
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

/* ---- refusals ------------------------------------------------------------------------------- */

/* The value as the caller wrote it, cut to fit. */
static void show_seen(struct handoff_error *error, yyjson_val *value)
{
    if (yyjson_is_str(value))
        handoff_error_seen(error, "%s", yyjson_get_str(value));
    else if (yyjson_is_raw(value))
        handoff_error_seen(error, "%.*s",
                           yyjson_get_len(value) < 64 ? (int)yyjson_get_len(value) : 64,
                           yyjson_get_raw(value));
    else if (yyjson_is_bool(value))
        handoff_error_seen(error, "%s", yyjson_is_true(value) ? "true" : "false");
    else
        handoff_error_seen(error, "%s",
                           yyjson_is_obj(value)   ? "an object"
                           : yyjson_is_arr(value) ? "an array"
                                                  : "null");
}

static enum handoff_code refuse(struct handoff_error *error, const char *message, const char *name,
                                yyjson_val *seen)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, message, name, NULL);
    if (seen)
        show_seen(error, seen);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code refuse_type(struct handoff_error *error, const char *name,
                                     yyjson_val *seen, const char *type)
{
    refuse(error, "the field has another type", name, seen);
    handoff_error_allow(error, "%s", type);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code refuse_raw_log(struct handoff_error *error, const char *name)
{
    return handoff_error_set(error, HANDOFF_ERR_RAW_LOG,
                             "raw conversation logs are not handed on: store what they established "
                             "as memories, each with a summary, and ask for those by id",
                             name, NULL);
}

/* ---- checks of one value ------------------------------------------------------------------- */

static enum handoff_code check_length(const struct field *field, yyjson_val *value,
                                      struct handoff_error *error)
{
    if (!yyjson_is_str(value))
        return refuse_type(error, field->name, value, "a string");
    int64_t length = (int64_t)yyjson_get_len(value);
    if (length >= field->least && length <= field->most)
        return HANDOFF_OK;
    refuse(error, "the text is empty or too long", field->name, NULL);
    handoff_error_seen(error, "%lld bytes", (long long)length);
    handoff_error_allow(error, "%lld to %lld bytes", (long long)field->least,
                        (long long)field->most);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code check_text(const struct field *field, yyjson_val *value, void *at,
                                    struct handoff_error *error)
{
    enum handoff_code code = check_length(field, value, error);
    if (code == HANDOFF_OK)
        *(struct handoff_span *)at = handoff_json_span(value);
    return code;
}

static bool has_control(struct handoff_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c < 0x20 || c == 0x7f)
            return true;
    }
    return false;
}

/* Ids go into logs, headers and URLs. */
static enum handoff_code check_id(const struct field *field, yyjson_val *value, void *at,
                                  struct handoff_error *error)
{
    enum handoff_code code = check_text(field, value, at, error);
    if (code == HANDOFF_OK && has_control(handoff_json_span(value))) {
        code = refuse(error, "the text has control characters", field->name, value);
        handoff_error_allow(error, "printable characters");
    }
    return code;
}

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* The characters that the configuration allows in an agent's name. */
static enum handoff_code check_name(const struct field *field, yyjson_val *value, void *at,
                                    struct handoff_error *error)
{
    enum handoff_code code = check_text(field, value, at, error);
    struct handoff_span name = handoff_json_span(value);
    for (size_t i = 0; code == HANDOFF_OK && i < name.size; i++) {
        if (is_name_character(name.data[i]))
            continue;
        code = refuse(error, "the name has other characters", field->name, value);
        handoff_error_allow(error, "letters, digits, '.', '_' and '-'");
    }
    return code;
}

static enum handoff_code check_uuid(const struct field *field, yyjson_val *value, void *at,
                                    struct handoff_error *error)
{
    struct handoff_uuid uuid = {0};
    struct handoff_span text = handoff_json_span(value);
    if (!yyjson_is_str(value) || !handoff_uuid_parse(text.data, text.size, &uuid)) {
        refuse(error, "the id is not one of an envelope", field->name, value);
        handoff_error_allow(error, "a UUID");
        return HANDOFF_ERR_INVALID;
    }
    *(struct handoff_span *)at = text;
    return HANDOFF_OK;
}

static enum handoff_code check_whole(const struct field *field, yyjson_val *value, void *at,
                                     struct handoff_error *error)
{
    int64_t number;
    if (handoff_json_whole(value, &number) && number >= field->least && number <= field->most) {
        *(int64_t *)at = number;
        return HANDOFF_OK;
    }
    refuse(error, "the number is out of range", field->name, value);
    handoff_error_allow(error, "a whole number, %lld to %lld", (long long)field->least,
                        (long long)field->most);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code check_bool(const struct field *field, yyjson_val *value, void *at,
                                    struct handoff_error *error)
{
    if (!yyjson_is_bool(value))
        return refuse_type(error, field->name, value, "true or false");
    *(bool *)at = yyjson_is_true(value);
    return HANDOFF_OK;
}

static enum handoff_code check_word(const struct field *field, yyjson_val *value, void *at,
                                    struct handoff_error *error)
{
    for (int i = 0; field->words[i]; i++) {
        if (yyjson_equals_str(value, field->words[i])) {
            *(int *)at = i;
            return HANDOFF_OK;
        }
    }
    char allowed[96] = "";
    for (int i = 0; field->words[i]; i++)
        snprintf(allowed + strlen(allowed), sizeof(allowed) - strlen(allowed), "%s%s",
                 i ? ", " : "", field->words[i]);
    refuse(error, "the field has another value", field->name, value);
    handoff_error_allow(error, "%s", allowed);
    return HANDOFF_ERR_INVALID;
}

/* ---- checks of lists and objects ----------------------------------------------------------- */

static enum handoff_code check_list(const struct field *field, yyjson_val *value,
                                    struct handoff_error *error)
{
    if (!yyjson_is_arr(value))
        return refuse_type(error, field->name, value, "an array");
    if ((int64_t)yyjson_arr_size(value) <= field->most)
        return HANDOFF_OK;
    refuse(error, "the list is too long", field->name, NULL);
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

static enum handoff_code check_ids(const struct field *field, yyjson_val *value, void *at,
                                   struct handoff_error *error)
{
    const struct field entry = {.name = field->name, .least = 1, .most = HANDOFF_ID_MAX};
    enum handoff_code code = check_list(field, value, error);
    size_t i, n;
    yyjson_val *id;
    if (code != HANDOFF_OK)
        return code;
    yyjson_arr_foreach(value, i, n, id)
    {
        struct handoff_span text;
        code = check_id(&entry, id, &text, error);
        if (code != HANDOFF_OK)
            return in_place(code, error, "%s[%zu]%s", field->name, i, "");
    }
    *(yyjson_val **)at = value;
    return HANDOFF_OK;
}

/* The known members of an object that is otherwise the agents' own: their types. */
static enum handoff_code check_members(const struct field *field, yyjson_val *object,
                                       const char *const *arrays, struct handoff_error *error)
{
    if (!yyjson_is_obj(object))
        return refuse_type(error, field->name, object, "an object");
    for (; *arrays; arrays++) {
        yyjson_val *member = yyjson_obj_get(object, *arrays);
        if (member && !yyjson_is_arr(member)) {
            refuse_type(error, field->name, member, "an array");
            handoff_error_field(error, "%s.%s", field->name, *arrays);
            return HANDOFF_ERR_INVALID;
        }
    }
    return handoff_marks_raw_log(object) ? refuse_raw_log(error, field->name) : HANDOFF_OK;
}

static enum handoff_code check_state(const struct field *field, yyjson_val *value, void *at,
                                     struct handoff_error *error)
{
    static const char *const arrays[] = {"decisions", "unresolved", "remaining", NULL};
    *(yyjson_val **)at = value;
    return check_members(field, value, arrays, error);
}

static enum handoff_code check_output(const struct field *field, yyjson_val *value, void *at,
                                      struct handoff_error *error)
{
    static const char *const arrays[] = {"criteria", NULL};
    *(yyjson_val **)at = value;
    return check_members(field, value, arrays, error);
}

static enum handoff_code check_constraints(const struct field *field, yyjson_val *value, void *at,
                                           struct handoff_error *error)
{
    if (!yyjson_is_obj(value))
        return refuse_type(error, field->name, value, "an object");
    *(yyjson_val **)at = value;
    return handoff_constraints_check(value, error);
}

enum handoff_code handoff_constraints_check(yyjson_val *constraints, struct handoff_error *error)
{
    int64_t number;
    yyjson_val *tokens = yyjson_obj_get(constraints, "max_tokens");
    if (tokens &&
        (!handoff_json_whole(tokens, &number) || number < 1 || number > HANDOFF_BUDGET_MAX)) {
        refuse(error, "the number is out of range", "constraints.max_tokens", tokens);
        handoff_error_allow(error, "a whole number, 1 to %d", HANDOFF_BUDGET_MAX);
        return HANDOFF_ERR_INVALID;
    }
    yyjson_val *deadline = yyjson_obj_get(constraints, "deadline");
    struct handoff_span text = handoff_json_span(deadline);
    if (deadline && (!text.data || !handoff_rfc3339_parse(text.data, text.size, &number))) {
        refuse(error, "the deadline is not a time", "constraints.deadline", deadline);
        handoff_error_allow(error, "RFC 3339, as 2026-01-30T00:00:00Z");
        return HANDOFF_ERR_INVALID;
    }
    return HANDOFF_OK;
}

uint64_t handoff_constraints_max_tokens(yyjson_val *constraints)
{
    int64_t number = 0;
    yyjson_val *tokens = yyjson_obj_get(constraints, "max_tokens");
    return tokens && handoff_json_whole(tokens, &number) && number > 0 ? (uint64_t)number : 0;
}

bool handoff_marks_raw_log(yyjson_val *object)
{
    return yyjson_is_true(yyjson_obj_get(object, "raw_log")) ||
           yyjson_equals_str(yyjson_obj_get(object, "kind"), "conversation");
}

/* A step says who did what; the rest is optional text, and what is not known is carried along. */
static enum handoff_code check_step(yyjson_val *step, size_t index, struct handoff_error *error)
{
    static const struct {
        const char *name;
        bool required;
    } members[] = {{"agent", true},   {"action", true},     {"decision", false},
                   {"reason", false}, {"memory_id", false}, {"at", false}};
    static const char list[] = "execution_history";
    if (!yyjson_is_obj(step))
        return in_place(refuse_type(error, list, step, "an object"), error, "%s[%zu]%s", list,
                        index, "");
    if (handoff_marks_raw_log(step))
        return in_place(refuse_raw_log(error, list), error, "%s[%zu]%s", list, index, "");
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        yyjson_val *member = yyjson_obj_get(step, members[i].name);
        enum handoff_code code = HANDOFF_OK;
        if (yyjson_is_null(member))
            member = NULL;
        if (!member && members[i].required)
            code = refuse(error, "a step of the history says who did what", list, NULL);
        else if (member && !yyjson_is_str(member))
            code = refuse_type(error, list, member, "a string");
        if (code != HANDOFF_OK)
            return in_place(code, error, "%s[%zu].%s", list, index, members[i].name);
    }
    return HANDOFF_OK;
}

static enum handoff_code check_history(const struct field *field, yyjson_val *value, void *at,
                                       struct handoff_error *error)
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

static const struct field *find_field(yyjson_val *key)
{
    for (size_t i = 0; i < FIELDS; i++) {
        if (yyjson_equals_str(key, fields[i].name))
            return &fields[i];
    }
    return NULL;
}

static enum handoff_code refuse_unknown(yyjson_val *key, struct handoff_error *error)
{
    const char *names[FIELDS];
    for (size_t i = 0; i < FIELDS; i++)
        names[i] = fields[i].name;
    const char *nearest = handoff_nearest(yyjson_get_str(key), names, FIELDS);
    handoff_error_set(error, HANDOFF_ERR_INVALID, "a request has no such field",
                      yyjson_get_str(key), yyjson_get_str(key));
    if (nearest)
        handoff_error_allow(error, "%s (the nearest name)", nearest);
    else
        handoff_error_allow(error, "the fields of docs/envelope.md");
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code read_fields(yyjson_val *root, struct handoff_request *request,
                                     struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(root, i, n, key, value)
    {
        const struct field *field = find_field(key);
        if (!field)
            return refuse_unknown(key, error);
        if (yyjson_is_null(value))
            continue;
        enum handoff_code code = field->check(field, value, (char *)request + field->offset, error);
        if (code != HANDOFF_OK)
            return code;
    }
    return HANDOFF_OK;
}

static enum handoff_code require(struct handoff_span value, const char *name,
                                 struct handoff_error *error)
{
    return value.data ? HANDOFF_OK : refuse(error, "the field is required", name, NULL);
}

/* What no field can tell alone. */
static enum handoff_code check_together(struct handoff_request *request,
                                        struct handoff_span source_agent,
                                        struct handoff_error *error)
{
    if (request->raw_log)
        return refuse_raw_log(error, "raw_log");
    if (source_agent.data && !request->source_agent.data)
        request->source_agent = source_agent;
    if (source_agent.data && !handoff_span_equal(source_agent, request->source_agent))
        return handoff_error_set(error, HANDOFF_ERR_FORBIDDEN,
                                 "the caller may hand off only in its own name", "source_agent",
                                 request->source_agent.data);
    if (request->channel.data && request->pattern != HANDOFF_PATTERN_BROADCAST)
        return refuse(error, "only a broadcast has a channel", "channel", NULL);
    enum handoff_code code = require(request->source_agent, "source_agent", error);
    if (code == HANDOFF_OK)
        code = require(request->target_agent, "target_agent", error);
    if (code == HANDOFF_OK)
        code = require(request->task_summary, "task_summary", error);
    return code;
}

enum handoff_code handoff_request_read(struct handoff_span body, struct handoff_span source_agent,
                                       struct handoff_request *request, struct handoff_error *error)
{
    *request = (struct handoff_request){.include_pins = true};
    yyjson_doc *doc;
    enum handoff_code code = handoff_json_read(body, "body", &doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(doc);
    const char *bad;
    if (!yyjson_is_obj(root)) {
        code = refuse_type(error, "body", root, "an object");
    } else if (!handoff_json_keys_are_plain(root, &bad)) {
        code = handoff_error_set(error, HANDOFF_ERR_INVALID,
                                 "a key is there twice, or an object has too many", bad, bad);
        handoff_error_allow(error, "each key once, %d in one object", HANDOFF_JSON_KEYS_MAX);
    } else {
        code = read_fields(root, request, error);
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
