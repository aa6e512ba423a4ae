/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memories as JSON. The spine says what a memory may be; here are the names and types of its
 * fields, one row each, and raw conversation logs without a summary are turned away.
 */
#include "client/calls/memory_json.h"

#include "client/assemble/field.h"
#include "client/assemble/request.h"
#include "client/model/model.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/nearest.h"
#include "lib/base/rfc3339.h"

/* ---- a memory as JSON ---------------------------------------------------------------------- */

static void write_text(struct base_buffer *out, const char *key, struct base_span text)
{
    base_json_write_key(out, base_span_text(key));
    base_json_write_string(out, text);
}

static void write_time(struct base_buffer *out, const char *key, int64_t wall_ms)
{
    char text[BASE_RFC3339_SIZE];
    base_rfc3339_format(wall_ms, text);
    write_text(out, key, base_span_text(text));
}

void handoff_memory_json_write(struct base_buffer *out, const struct handoff_memory *memory)
{
    base_buffer_byte(out, '{');
    write_text(out, "id", memory->id);
    write_text(out, "content", memory->content);
    if (memory->summary.data)
        write_text(out, "summary", memory->summary);
    write_text(out, "importance", base_span_text(handoff_importance_name(memory->importance)));
    base_buffer_text(out, ",\"tags\":[");
    for (size_t i = 0; i < memory->tag_count; i++) {
        base_buffer_text(out, i ? "," : "");
        base_json_write_string(out, memory->tags[i]);
    }
    base_buffer_text(out, "],\"metadata\":");
    if (memory->metadata.data)
        base_buffer_append(out, memory->metadata.data, memory->metadata.size);
    else
        base_buffer_text(out, "{}");
    base_buffer_printf(out, ",\"pinned\":%s", memory->pinned ? "true" : "false");
    write_time(out, "created_at", memory->created_ms);
    write_time(out, "updated_at", memory->updated_ms);
    base_buffer_byte(out, '}');
}

/* ---- reading a body ------------------------------------------------------------------------ */

struct reader {
    struct base_arena *arena;
    yyjson_val *root;
    struct handoff_spine_put *put;
    size_t most_bytes; /* of a content without a summary */
};

static enum handoff_code refuse_type(struct handoff_error *error, const char *field,
                                     const char *type)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, "the field has another type", field, NULL);
    handoff_error_allow(error, "%s", type);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code read_content(struct reader *reader, yyjson_val *value,
                                      struct handoff_error *error)
{
    reader->put->memory.content = base_json_span(value);
    return yyjson_is_str(value) ? HANDOFF_OK : refuse_type(error, "content", "a string");
}

static enum handoff_code read_summary(struct reader *reader, yyjson_val *value,
                                      struct handoff_error *error)
{
    if (yyjson_get_len(value) > 0) /* an empty one could not stand in for anything */
        reader->put->memory.summary = base_json_span(value);
    return yyjson_is_str(value) ? HANDOFF_OK : refuse_type(error, "summary", "a string");
}

static enum handoff_code read_importance(struct reader *reader, yyjson_val *value,
                                         struct handoff_error *error)
{
    if (yyjson_is_str(value) &&
        handoff_importance_parse(base_json_span(value), &reader->put->memory.importance))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "there is no such importance", "importance",
                      yyjson_get_str(value));
    handoff_field_allow_words(error, handoff_importance_names);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code read_tags(struct reader *reader, yyjson_val *value,
                                   struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *tag;
    struct base_span *tags =
        base_arena_calloc(reader->arena, yyjson_arr_size(value) + 1, sizeof(*tags));
    if (!tags)
        return handoff_error_no_memory(error);
    if (!yyjson_is_arr(value))
        return refuse_type(error, "tags", "an array of strings");
    yyjson_arr_foreach(value, i, n, tag)
    {
        tags[i] = base_json_span(tag);
        if (!yyjson_is_str(tag))
            return refuse_type(error, "tags", "an array of strings");
    }
    reader->put->memory.tags = tags;
    reader->put->memory.tag_count = yyjson_arr_size(value);
    return HANDOFF_OK;
}

static enum handoff_code read_metadata(struct reader *reader, yyjson_val *value,
                                       struct handoff_error *error)
{
    struct base_buffer text = {0};
    if (!yyjson_is_obj(value))
        return refuse_type(error, "metadata", "an object");
    base_json_write(&text, value);
    struct base_span *metadata = &reader->put->memory.metadata;
    metadata->size = text.size;
    metadata->data = text.failed ? NULL : base_arena_copy(reader->arena, text.data, text.size);
    base_buffer_free(&text);
    return metadata->data ? HANDOFF_OK : handoff_error_no_memory(error);
}

static enum handoff_code read_pinned(struct reader *reader, yyjson_val *value,
                                     struct handoff_error *error)
{
    reader->put->pin = yyjson_is_true(value) ? HANDOFF_PIN_YES : HANDOFF_PIN_NO;
    return yyjson_is_bool(value) ? HANDOFF_OK : refuse_type(error, "pinned", "true or false");
}

static enum handoff_code read_id(struct reader *reader, yyjson_val *value,
                                 struct handoff_error *error)
{
    if (yyjson_is_str(value) && base_span_equal(base_json_span(value), reader->put->memory.id))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "the body names another memory than the path",
                      "id", yyjson_get_str(value));
    handoff_error_allow(error, "%s", reader->put->memory.id.data);
    return HANDOFF_ERR_INVALID;
}

/* What we answered with may come back; when it was made and changed is still ours to say. */
static enum handoff_code read_nothing(struct reader *reader, yyjson_val *value,
                                      struct handoff_error *error)
{
    (void)reader;
    (void)value;
    (void)error;
    return HANDOFF_OK;
}

static const struct member {
    const char *name;
    enum handoff_code (*read)(struct reader *, yyjson_val *, struct handoff_error *);
} members[] = {
    {"content", read_content}, {"summary", read_summary},    {"importance", read_importance},
    {"tags", read_tags},       {"metadata", read_metadata},  {"pinned", read_pinned},
    {"id", read_id},           {"created_at", read_nothing}, {"updated_at", read_nothing},
};
enum { MEMBERS = sizeof(members) / sizeof(members[0]) };

static enum handoff_code refuse_unknown(const char *name, struct handoff_error *error)
{
    const char *names[MEMBERS];
    for (size_t i = 0; i < MEMBERS; i++)
        names[i] = members[i].name;
    const char *nearest = base_nearest(name, names, MEMBERS);
    handoff_error_set(error, HANDOFF_ERR_INVALID, "a memory has no such field", name, name);
    handoff_error_allow(error, "%s%s",
                        nearest ? nearest : "content, summary, importance, tags, metadata, pinned",
                        nearest ? " (the nearest name)" : "");
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code read_member(struct reader *reader, yyjson_val *key, yyjson_val *value,
                                     struct handoff_error *error)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        if (yyjson_equals_str(key, members[i].name))
            return yyjson_is_null(value) ? HANDOFF_OK : members[i].read(reader, value, error);
    }
    return refuse_unknown(yyjson_get_str(key), error);
}

/* What could only be handed on by a summary needs one from the start. */
static enum handoff_code check_raw_log(const struct reader *reader, struct handoff_error *error)
{
    const struct handoff_memory *memory = &reader->put->memory;
    if (memory->summary.data)
        return HANDOFF_OK;
    if (handoff_marks_raw_log(yyjson_obj_get(reader->root, "metadata")))
        return handoff_error_set(
            error, HANDOFF_ERR_RAW_LOG,
            "a raw conversation log is handed on by its summary: give it one, or "
            "store what it established as memories of their own",
            "summary", NULL);
    if (memory->content.size <= reader->most_bytes)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_TOO_LARGE,
                      "so large a memory is handed on by its summary: give it one", "content",
                      NULL);
    handoff_error_seen(error, "%zu bytes", memory->content.size);
    handoff_error_allow(error, "%zu bytes without a summary", reader->most_bytes);
    return HANDOFF_ERR_TOO_LARGE;
}

enum handoff_code handoff_memory_json_read(struct base_span body, size_t most_bytes,
                                           struct base_arena *arena, yyjson_doc **doc,
                                           struct handoff_spine_put *put,
                                           struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *key, *value;
    const char *bad;
    enum handoff_code code = base_json_read(body, "body", doc, error);
    if (code != HANDOFF_OK)
        return code;
    struct reader reader = {arena, yyjson_doc_get_root(*doc), put, most_bytes};
    if (!yyjson_is_obj(reader.root))
        return refuse_type(error, "body", "an object");
    if (!base_json_keys_are_plain(reader.root, &bad))
        return handoff_error_set(error, HANDOFF_ERR_INVALID,
                                 "a key is there twice, or an object has too many", bad, bad);
    yyjson_obj_foreach(reader.root, i, n, key, value)
    {
        code = read_member(&reader, key, value, error);
        if (code != HANDOFF_OK)
            return code;
    }
    return check_raw_log(&reader, error);
}
