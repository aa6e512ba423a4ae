/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an envelope; see read.h. The members it needs are rows of a table. Pure, any thread. */
#include "client/envelope/read.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "lib/base/json.h"

/* An envelope carries a request's state two levels deeper, in context.task. */
enum { DEPTH_MAX = BASE_JSON_DEPTH_MAX + 2 };

enum kind {
    TEXT,
    TEXT_OPTIONAL,
    WHOLE,
    ARRAY_OF_TEXT,
    ARRAY_OF_TEXT_OPTIONAL,
    ARRAY_OF_OBJECTS,
    OBJECT
};

static const struct member {
    const char *object, *object_inside, *name; /* the path from the root; NULL: not that deep */
    enum kind kind;
    size_t offset;
} members[] = {
#define AT(member) offsetof(struct handoff_envelope, member)
    {NULL, NULL, "id", TEXT, AT(id)},
    {NULL, NULL, "digest", TEXT, AT(digest)},
    {NULL, NULL, "created_at", TEXT, AT(created_at)},
    {NULL, NULL, "task_id", TEXT, AT(task_id)},
    {NULL, NULL, "source_agent", TEXT, AT(source_agent)},
    {NULL, NULL, "target_agent", TEXT, AT(target_agent)},
    {NULL, NULL, "pattern", TEXT, AT(pattern)},
    {NULL, NULL, "scope", ARRAY_OF_TEXT_OPTIONAL, AT(scope)},
    {"hop", NULL, "count", WHOLE, AT(hop_count)},
    {"hop", NULL, "max", WHOLE, AT(hop_max)},
    {"hop", NULL, "path", ARRAY_OF_TEXT, AT(path)},
    {"trace", NULL, "traceparent", TEXT_OPTIONAL, AT(traceparent)},
    {"trace", NULL, "tracestate", TEXT_OPTIONAL, AT(tracestate)},
    {NULL, NULL, "context", OBJECT, AT(context)},
    {"context", "task", "intent", TEXT, AT(intent)},
    {"context", "task", "summary", TEXT, AT(summary)},
    {"context", "task", "state", OBJECT, AT(state)},
    {"context", NULL, "memories", ARRAY_OF_OBJECTS, AT(memories)},
    {"context", NULL, "history", ARRAY_OF_OBJECTS, AT(history)},
    {"context", NULL, "constraints", OBJECT, AT(constraints)},
    {"context", NULL, "expected_output", OBJECT, AT(expected_output)},
};

static const struct member inherited[] = {
    {NULL, NULL, "task_id", TEXT, AT(task_id)},
    {NULL, NULL, "source_agent", TEXT, AT(source_agent)},
    {NULL, NULL, "target_agent", TEXT, AT(target_agent)},
    {NULL, NULL, "pattern", TEXT, AT(pattern)},
    {NULL, NULL, "scope", ARRAY_OF_TEXT_OPTIONAL, AT(scope)},
    {"hop", NULL, "count", WHOLE, AT(hop_count)},
    {"hop", NULL, "max", WHOLE, AT(hop_max)},
    {"hop", NULL, "path", ARRAY_OF_TEXT, AT(path)},
    {"trace", NULL, "traceparent", TEXT_OPTIONAL, AT(traceparent)},
    {"trace", NULL, "tracestate", TEXT_OPTIONAL, AT(tracestate)},
    {NULL, NULL, "intent", TEXT, AT(intent)},
    {NULL, NULL, "constraints", OBJECT, AT(constraints)},
};

static enum handoff_code reject_member(struct handoff_error *error, const struct member *member)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, "not a version 2 envelope", member->name, NULL);
    if (member->object)
        handoff_error_field(error, "%s%s%s.%s", member->object, member->object_inside ? "." : "",
                            member->object_inside ? member->object_inside : "", member->name);
    return HANDOFF_ERR_INVALID;
}

static bool is_array_of(yyjson_val *array, bool (*fits)(yyjson_val *))
{
    size_t i, n;
    yyjson_val *item;
    if (!yyjson_is_arr(array))
        return false;
    yyjson_arr_foreach(array, i, n, item)
    {
        if (!fits(item))
            return false;
    }
    return true;
}

static bool is_string_value(yyjson_val *value)
{
    return yyjson_is_str(value);
}

static bool is_object_value(yyjson_val *value)
{
    return yyjson_is_obj(value);
}

static bool take_member(yyjson_val *value, enum kind kind, void *at)
{
    switch (kind) {
    case TEXT:
    case TEXT_OPTIONAL:
        *(struct base_span *)at = base_json_span(value);
        return value ? yyjson_is_str(value) : kind == TEXT_OPTIONAL;
    case WHOLE:
        return base_json_whole(value, (int64_t *)at) && *(int64_t *)at > 0;
    default:
        *(yyjson_val **)at = value;
        if (kind == ARRAY_OF_TEXT_OPTIONAL)
            return !value || is_array_of(value, is_string_value);
        return kind == OBJECT          ? is_object_value(value)
               : kind == ARRAY_OF_TEXT ? is_array_of(value, is_string_value)
                                       : is_array_of(value, is_object_value);
    }
}

static enum handoff_code read_members(yyjson_val *root, const struct member *wanted, size_t count,
                                      struct handoff_envelope *envelope,
                                      struct handoff_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const struct member *member = &wanted[i];
        yyjson_val *object = root;
        if (member->object)
            object = yyjson_obj_get(object, member->object);
        if (member->object_inside)
            object = yyjson_obj_get(object, member->object_inside);
        yyjson_val *value = yyjson_obj_get(object, member->name);
        if (!take_member(value, member->kind, (char *)envelope + member->offset))
            return reject_member(error, member);
    }
    return HANDOFF_OK;
}

static enum handoff_code check_version(yyjson_val *root, struct handoff_error *error)
{
    const char *version = yyjson_get_str(yyjson_obj_get(root, "envelope_version"));
    if (version && strncmp(version, "2.", 2) == 0)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "unsupported envelope version",
                      "envelope_version", version);
    handoff_error_allow(error, "2.x");
    return HANDOFF_ERR_INVALID;
}

enum handoff_code handoff_envelope_read_in(struct base_arena *arena, struct base_span text,
                                           struct handoff_envelope *envelope,
                                           struct handoff_error *error)
{
    *envelope = (struct handoff_envelope){0};
    if (text.size > HANDOFF_ENVELOPE_MAX) {
        handoff_error_set(error, HANDOFF_ERR_TOO_LARGE, "the envelope is too large", "envelope",
                          NULL);
        handoff_error_seen(error, "%zu bytes", text.size);
        handoff_error_allow(error, "%d bytes", HANDOFF_ENVELOPE_MAX);
        return HANDOFF_ERR_TOO_LARGE;
    }
    enum handoff_code code =
        base_json_read_deep(arena, text, "envelope", DEPTH_MAX, &envelope->doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(envelope->doc);
    code = check_version(root, error);
    if (code == HANDOFF_OK)
        code = read_members(root, members, sizeof(members) / sizeof(members[0]), envelope, error);
    if (code != HANDOFF_OK)
        handoff_envelope_free(envelope);
    return code;
}

enum handoff_code handoff_envelope_read(struct base_span text, struct handoff_envelope *envelope,
                                        struct handoff_error *error)
{
    return handoff_envelope_read_in(NULL, text, envelope, error);
}

enum handoff_code handoff_envelope_read_inheritance(struct base_arena *arena, struct base_span text,
                                                    struct handoff_envelope *envelope,
                                                    struct handoff_error *error)
{
    *envelope = (struct handoff_envelope){0};
    enum handoff_code code =
        base_json_read_deep(arena, text, "inheritance", DEPTH_MAX, &envelope->doc, error);
    if (code != HANDOFF_OK)
        return code;
    code = read_members(yyjson_doc_get_root(envelope->doc), inherited,
                        sizeof(inherited) / sizeof(inherited[0]), envelope, error);
    if (code != HANDOFF_OK)
        handoff_envelope_free(envelope);
    return code;
}

void handoff_envelope_free(struct handoff_envelope *envelope)
{
    yyjson_doc_free(envelope->doc);
    *envelope = (struct handoff_envelope){0};
}
