/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent to a remote spine, and the memories of its answers, see table.h. Pure; any thread.
 */
#include <string.h>

#include "client/model/model.h"
#include "client/spine/remote/table.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

/* ---- templates ------------------------------------------------------------------------------- */

static bool is_called(struct base_span text, const char *name)
{
    return base_span_equal(text, base_span_text(name));
}

static void write_texts(struct base_buffer *out, const struct base_span *texts, size_t count)
{
    base_buffer_byte(out, '[');
    for (size_t i = 0; i < count; i++) {
        base_buffer_text(out, i > 0 ? "," : "");
        base_json_write_string(out, texts[i]);
    }
    base_buffer_byte(out, ']');
}

static void write_text_or_null(struct base_buffer *out, struct base_span text)
{
    if (text.data)
        base_json_write_string(out, text);
    else
        base_buffer_text(out, "null");
}

static void write_time(struct base_buffer *out, int64_t wall_ms)
{
    char text[BASE_RFC3339_SIZE];
    base_rfc3339_format(wall_ms, text);
    base_json_write_string(out, base_span_text(text));
}

static bool write_memory_value(struct base_buffer *out, struct base_span name,
                               const struct handoff_memory *memory)
{
    if (is_called(name, "{content}"))
        base_json_write_string(out, memory->content);
    else if (is_called(name, "{summary}"))
        write_text_or_null(out, memory->summary);
    else if (is_called(name, "{importance}"))
        base_json_write_string(out, base_span_text(handoff_importance_name(memory->importance)));
    else if (is_called(name, "{tags}"))
        write_texts(out, memory->tags, memory->tag_count);
    else if (is_called(name, "{metadata}") && memory->metadata.data)
        base_buffer_append(out, memory->metadata.data, memory->metadata.size);
    else if (is_called(name, "{metadata}"))
        base_buffer_text(out, "{}");
    else if (is_called(name, "{pinned}"))
        base_buffer_text(out, memory->pinned ? "true" : "false");
    else if (is_called(name, "{scope}"))
        base_json_write_string(out, memory->scope.data ? memory->scope : base_span("", 0));
    else if (is_called(name, "{agent}"))
        write_text_or_null(out, memory->agent);
    else if (is_called(name, "{task_id}"))
        write_text_or_null(out, memory->task_id);
    else if (is_called(name, "{created_at}"))
        write_time(out, memory->created_ms);
    else
        return false;
    return true;
}

/* A text that is a placeholder stands for a value; any other for itself. */
static void write_template_text(struct base_buffer *out, struct base_span text,
                                const struct handoff_remote_values *values)
{
    if (is_called(text, "{id}"))
        base_json_write_string(out, values->id);
    else if (is_called(text, "{ids}"))
        write_texts(out, values->ids, values->id_count);
    else if (is_called(text, "{scopes}"))
        write_texts(out, values->scopes, values->scope_count);
    else if (is_called(text, "{query}"))
        base_json_write_string(out, values->query.data ? values->query : base_span("", 0));
    else if (is_called(text, "{limit}"))
        base_buffer_number(out, (int64_t)values->limit);
    else if (!values->memory || !write_memory_value(out, text, values->memory))
        base_json_write_string(out, text);
}

/* As deep as a document may be (BASE_JSON_DEPTH_MAX). */
static void write_template_value(struct base_buffer *out, yyjson_val *value,
                                 const struct handoff_remote_values *values)
{
    size_t i, n;
    yyjson_val *key, *inner;
    if (yyjson_is_str(value)) {
        write_template_text(out, base_json_span(value), values);
    } else if (yyjson_is_obj(value)) {
        base_buffer_byte(out, '{');
        yyjson_obj_foreach(value, i, n, key, inner)
        {
            base_json_write_key(out, base_json_span(key));
            write_template_value(out, inner, values);
        }
        base_buffer_byte(out, '}');
    } else if (yyjson_is_arr(value)) {
        base_buffer_byte(out, '[');
        yyjson_arr_foreach(value, i, n, inner)
        {
            base_buffer_text(out, i > 0 ? "," : "");
            write_template_value(out, inner, values);
        }
        base_buffer_byte(out, ']');
    } else {
        base_json_write(out, value);
    }
}

void handoff_remote_compose(const struct handoff_remote_row *row,
                            const struct handoff_remote_values *values, struct base_buffer *out)
{
    if (row->template)
        write_template_value(out, row->template, values);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* As nearly all are: a name that needs no unescaping. */
static bool needs_no_unescaping(struct base_span pointer)
{
    return pointer.size > 1 && !memchr(pointer.data + 1, '/', pointer.size - 1) &&
           !memchr(pointer.data, '~', pointer.size);
}

/* NULL: the answer lacks it. */
static yyjson_val *member_value(const struct handoff_remote_table *table, yyjson_val *value,
                                enum handoff_remote_member member)
{
    const struct base_span pointer = table->members[member];
    if (!pointer.data)
        return NULL;
    if (needs_no_unescaping(pointer) && yyjson_is_obj(value))
        return yyjson_obj_getn(value, pointer.data + 1, pointer.size - 1);
    return pointer.size > 0 ? yyjson_ptr_getn(value, pointer.data, pointer.size) : value;
}

static struct base_span member_text(const struct handoff_remote_table *table, yyjson_val *value,
                                    enum handoff_remote_member member)
{
    return base_json_span(member_value(table, value, member));
}

/* RFC 3339, or seconds or milliseconds since 1970; 0: neither. */
static int64_t member_time(const struct handoff_remote_table *table, yyjson_val *value,
                           enum handoff_remote_member member)
{
    const double last_second = INT32_MAX; /* larger numbers are milliseconds */
    yyjson_val *time = member_value(table, value, member);
    double number;
    int64_t wall_ms = 0;
    if (base_json_time(time, &wall_ms))
        return wall_ms;
    if (!time || !base_json_double(time, &number) || number < 0 || number > 1e15)
        return 0;
    return (int64_t)(number <= last_second ? number * 1000 : number);
}

static bool read_tags(yyjson_val *array, struct base_arena *arena, struct handoff_memory *memory)
{
    size_t i, n;
    yyjson_val *tag;
    struct base_span *tags = base_arena_alloc(arena, (yyjson_arr_size(array) + 1) * sizeof *tags);
    if (!tags)
        return false;
    yyjson_arr_foreach(array, i, n, tag)
    {
        if (yyjson_is_str(tag) && memory->tag_count < handoff_memory_limits_default.tags)
            tags[memory->tag_count++] = base_json_span(tag);
    }
    memory->tags = tags;
    return true;
}

static bool read_metadata(yyjson_val *value, struct base_arena *arena,
                          struct handoff_memory *memory)
{
    struct base_buffer text = {.arena = arena};
    if (!yyjson_is_obj(value))
        return true;
    base_json_write(&text, value);
    memory->metadata = base_buffer_span(&text);
    return !text.failed;
}

/* FNV-1a over eight bytes at a time, and the high bits brought down, which a product leaves alone.
 */
static uint64_t mix_in(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

static uint64_t mix_in_text(uint64_t hash, struct base_span text)
{
    uint64_t word;
    size_t at = 0;
    for (; text.size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, text.data + at, sizeof word);
        hash = mix_in(hash, word);
    }
    for (; at < text.size; at++)
        hash = mix_in(hash, (unsigned char)text.data[at]);
    return mix_in(hash, text.size);
}

/* Two texts with the same number are the same text, but for chance. */
static int64_t version_of(const struct handoff_memory *memory)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    hash = mix_in_text(hash, memory->content);
    hash = mix_in_text(hash, memory->summary);
    hash = mix_in_text(hash, memory->metadata);
    return (int64_t)mix_in(hash, (uint64_t)memory->updated_ms);
}

/* One of another type is not taken for "shared". */
static bool is_scope_readable(const struct handoff_remote_table *table, yyjson_val *value)
{
    yyjson_val *scope = member_value(table, value, HANDOFF_REMOTE_SCOPE);
    return !scope || yyjson_is_null(scope) || yyjson_is_str(scope);
}

bool handoff_remote_read_memory(const struct handoff_remote_table *table, yyjson_val *value,
                                struct base_arena *arena, struct handoff_memory *memory)
{
    *memory = (struct handoff_memory){
        .id = member_text(table, value, HANDOFF_REMOTE_ID),
        .content = member_text(table, value, HANDOFF_REMOTE_CONTENT),
        .summary = member_text(table, value, HANDOFF_REMOTE_SUMMARY),
        .agent = member_text(table, value, HANDOFF_REMOTE_AGENT),
        .scope = member_text(table, value, HANDOFF_REMOTE_SCOPE),
        .task_id = member_text(table, value, HANDOFF_REMOTE_TASK_ID),
        .importance = HANDOFF_IMPORTANCE_MEDIUM,
        .pinned = yyjson_is_true(member_value(table, value, HANDOFF_REMOTE_PINNED_MEMBER)),
        .created_ms = member_time(table, value, HANDOFF_REMOTE_CREATED_AT),
        .updated_ms = member_time(table, value, HANDOFF_REMOTE_UPDATED_AT),
    };
    if (memory->summary.size == 0)
        memory->summary = base_span(NULL, 0);
    (void)handoff_importance_parse(member_text(table, value, HANDOFF_REMOTE_IMPORTANCE),
                                   &memory->importance);
    if (!read_tags(member_value(table, value, HANDOFF_REMOTE_TAGS), arena, memory) ||
        !read_metadata(member_value(table, value, HANDOFF_REMOTE_METADATA), arena, memory))
        return false;
    memory->version = version_of(memory);
    return memory->id.data && memory->content.data && is_scope_readable(table, value) &&
           handoff_memory_validate(memory, &handoff_memory_limits_default, NULL) == HANDOFF_OK;
}
