/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes memories as JSON. A table has each field's name and type; the spine enforces the
 * limits. Raw conversation logs without a summary are rejected.
 *
 * Pure, but for the age of a last known copy. Any thread.
 */
#include "client/calls/memory_json.h"

#include <stddef.h>

#include "client/assemble/request.h"
#include "client/model/model.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/rfc3339.h"

/* ---- a memory as JSON ---------------------------------------------------------------------- */

static void write_memory_text(struct base_buffer *out, const char *key, struct base_span text)
{
    base_json_write_key(out, base_span_text(key));
    base_json_write_string(out, text);
}

static void write_memory_time(struct base_buffer *out, const char *key, int64_t wall_ms)
{
    char text[BASE_RFC3339_SIZE];
    base_rfc3339_format(wall_ms, text);
    write_memory_text(out, key, base_span_text(text));
}

/* In thousandths: printf's own fractions have the comma of whatever locale the host has. */
static void write_share(struct base_buffer *out, const char *name, double share)
{
    const int thousandths = (int)(share * 1000 + 0.5);
    base_buffer_printf(out, "\"%s\":%d.%03d", name, thousandths / 1000, thousandths % 1000);
}

/* A last known copy says so. */
static void write_staleness(struct base_buffer *out, int64_t copied_ms)
{
    const int64_t age_ms = base_wall_ms(&base_clock_system) - copied_ms;
    base_buffer_printf(out, ",\"stale\":true,\"age_seconds\":%lld",
                       (long long)(age_ms > 0 ? age_ms / 1000 : 0));
}

static void write_memory_rows(struct base_buffer *out, const struct handoff_memory *memory)
{
    base_buffer_byte(out, '{');
    write_memory_text(out, "id", memory->id);
    write_memory_text(out, "content", memory->content);
    if (memory->summary.data)
        write_memory_text(out, "summary", memory->summary);
    write_memory_text(out, "importance",
                      base_span_text(handoff_importance_name(memory->importance)));
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
    if (memory->agent.data)
        write_memory_text(out, "agent", memory->agent);
    else
        base_buffer_text(out, ",\"agent\":null");
    write_memory_text(out, "scope", memory->scope);
    if (memory->task_id.data)
        write_memory_text(out, "task_id", memory->task_id);
    else
        base_buffer_text(out, ",\"task_id\":null");
    write_memory_time(out, "created_at", memory->created_ms);
    write_memory_time(out, "updated_at", memory->updated_ms);
    if (memory->copied_ms)
        write_staleness(out, memory->copied_ms);
}

void handoff_memory_json_write(struct base_buffer *out, const struct handoff_memory *memory)
{
    write_memory_rows(out, memory);
    base_buffer_byte(out, '}');
}

static void write_pieces(struct base_buffer *out, const char *name, const struct base_span *texts,
                         size_t count)
{
    base_buffer_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        base_buffer_text(out, i > 0 ? "," : "");
        base_json_write_string(out, texts[i]);
    }
    base_buffer_byte(out, ']');
}

void handoff_memory_json_write_found(struct base_buffer *out,
                                     const struct handoff_found_memory *found, bool with_match)
{
    write_memory_rows(out, &found->memory);
    if (with_match) {
        base_buffer_text(out, ",\"match\":{");
        write_share(out, "score", found->score);
        base_buffer_byte(out, ',');
        write_share(out, "relevance", found->relevance);
        write_pieces(out, "words", found->words, found->word_count);
        write_pieces(out, "snippet", found->snippet, found->snippet_count);
        base_buffer_printf(out, ",\"similar\":%u}", found->similar);
    }
    base_buffer_byte(out, '}');
}

/* ---- reading a body ------------------------------------------------------------------------ */

/* What a body says, before it is a memory. */
struct memory_body {
    struct base_span content, summary, id, agent, scope, task_id;
    int64_t created_ms;
    int importance; /* enum handoff_importance */
    yyjson_val *tags, *metadata;
    bool pinned, pin_is_told;
};

static enum handoff_code check_pinned(const struct handoff_field *field, yyjson_val *value,
                                      void *at, struct handoff_error *error)
{
    struct memory_body *body = at;
    body->pinned = yyjson_is_true(value);
    body->pin_is_told = true;
    return yyjson_is_bool(value)
               ? HANDOFF_OK
               : handoff_field_refuse_type(error, field->name, value, "true or false");
}

/* Read-only fields are ignored, so that a memory can be sent back as it was received. */
static enum handoff_code read_created(const struct handoff_field *field, yyjson_val *value,
                                      void *at, struct handoff_error *error)
{
    struct memory_body *body = at;
    (void)field;
    (void)error;
    if (!base_json_time(value, &body->created_ms) || body->created_ms < 0)
        body->created_ms = 0;
    return HANDOFF_OK;
}

static const struct handoff_field tag_item = {
    .name = "tags", .type = HANDOFF_FIELD_TEXT, .most = INT64_MAX};

#define AT(member) offsetof(struct memory_body, member)
static const struct handoff_field rows[] = {
    {.name = "content",
     .type = HANDOFF_FIELD_TEXT,
     .required = true,
     .offset = AT(content),
     .most = INT64_MAX, /* no limit here: the spine enforces it */
     .doc = "text of the memory; up to 256 KiB, more than 64 KiB only with a summary",
     .example = "\"The bank retries a payment three times\""},
    {.name = "summary",
     .type = HANDOFF_FIELD_TEXT,
     .offset = AT(summary),
     .most = INT64_MAX,
     .doc = "sent instead of the content if the content does not fit"},
    {.name = "importance",
     .type = HANDOFF_FIELD_WORD,
     .offset = AT(importance),
     .words = handoff_importance_names,
     .fallback = "\"medium\"",
     .doc = "more important memories are kept first",
     .example = "\"high\""},
    {.name = "tags",
     .type = HANDOFF_FIELD_ARRAY,
     .offset = AT(tags),
     .most = INT64_MAX,
     .item = &tag_item,
     .doc = "up to 32 tags of up to 64 bytes",
     .example = "[\"payments\"]"},
    {.name = "metadata",
     .type = HANDOFF_FIELD_OBJECT,
     .offset = AT(metadata),
     .doc = "additional data, up to 16 KiB"},
    {.name = "pinned",
     .type = HANDOFF_FIELD_BOOL,
     .check = check_pinned,
     .doc = "a pinned memory is in every envelope that sees its scope; if absent, unchanged"},
    {.name = "agent",
     .type = HANDOFF_FIELD_NAME,
     .offset = AT(agent),
     .least = 1,
     .most = HANDOFF_MEMORY_AGENT_MAX,
     .doc = "its owner; taken from the agent's token; unchanged if absent",
     .example = "\"analyst\""},
    {.name = "scope",
     .type = HANDOFF_FIELD_TEXT,
     .vital = true, /* misspelt, the memory would be shared */
     .offset = AT(scope),
     .most = HANDOFF_SCOPE_MAX,
     .doc = "who may see it, such as a user or a team; the empty scope is shared. If absent, "
            "unchanged, otherwise the token's scope, otherwise shared",
     .example = "\"user:alice\""},
    {.name = "task_id",
     .type = HANDOFF_FIELD_ID,
     .offset = AT(task_id),
     .most = HANDOFF_MEMORY_TASK_MAX,
     .doc = "the task that it was stored for, whose handoffs find it first; unchanged if absent",
     .example = "\"task-42\""},
    {.name = "id",
     .type = HANDOFF_FIELD_TEXT,
     .offset = AT(id),
     .most = INT64_MAX,
     .doc = "must match the id in the path"},
    /* A memory may be sent back as it was received; the spine sets these. */
    {.name = "created_at",
     .type = HANDOFF_FIELD_ANY,
     .check = read_created,
     .doc = "when it was made, from an operator who brings it from elsewhere; ignored from others"},
    {.name = "updated_at", .type = HANDOFF_FIELD_ANY, .doc = "ignored"},
    {.name = "stale", .type = HANDOFF_FIELD_ANY, .doc = "ignored"},
    {.name = "age_seconds", .type = HANDOFF_FIELD_ANY, .doc = "ignored"},
    {.name = "match", .type = HANDOFF_FIELD_ANY, .doc = "ignored"},
};
const struct handoff_fields handoff_memory_fields = {.rows = rows,
                                                     .count = HANDOFF_FIELDS_COUNT(rows),
                                                     .name = "MemoryRequest",
                                                     .doc = "A memory to store."};

static enum handoff_code take_tags(yyjson_val *list, struct base_arena *arena,
                                   struct handoff_memory *memory, struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *tag;
    struct base_span *tags = base_arena_calloc(arena, yyjson_arr_size(list) + 1, sizeof(*tags));
    if (!tags)
        return handoff_error_no_memory(error);
    yyjson_arr_foreach(list, i, n, tag)
    {
        tags[i] = base_json_span(tag);
    }
    memory->tags = tags;
    memory->tag_count = yyjson_arr_size(list);
    return HANDOFF_OK;
}

static enum handoff_code take_metadata(yyjson_val *object, struct base_arena *arena,
                                       struct handoff_memory *memory, struct handoff_error *error)
{
    struct base_buffer text = {0};
    base_json_write(&text, object);
    memory->metadata.size = text.size;
    memory->metadata.data = text.failed ? NULL : base_arena_copy(arena, text.data, text.size);
    base_buffer_free(&text);
    return memory->metadata.data ? HANDOFF_OK : handoff_error_no_memory(error);
}

static enum handoff_code check_same_id(const struct memory_body *body,
                                       const struct handoff_memory *memory,
                                       struct handoff_error *error)
{
    if (!body->id.data || base_span_equal(body->id, memory->id))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "id differs from the id in the path", "id",
                      body->id.data);
    handoff_error_allow(error, "%s", memory->id.data);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code take_agent(const struct memory_body *body, struct handoff_spine_put *put,
                                    struct handoff_error *error)
{
    const struct base_span caller = put->caller;
    put->agent = body->agent;
    if (!body->agent.data || !caller.data || base_span_equal(body->agent, caller))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_FORBIDDEN,
                      "an agent may store memories only in its own name", "agent",
                      body->agent.data);
    handoff_error_allow(error, "%.*s, or omit it", (int)caller.size, caller.data);
    return HANDOFF_ERR_FORBIDDEN;
}

static enum handoff_code take_body_fields(const struct memory_body *body, struct base_arena *arena,
                                          struct handoff_spine_put *put,
                                          struct handoff_error *error)
{
    struct handoff_memory *memory = &put->memory;
    enum handoff_code code = check_same_id(body, memory, error);
    if (code == HANDOFF_OK)
        code = take_agent(body, put, error);
    put->scope = body->scope;
    put->task_id = body->task_id;
    put->created_ms = put->caller.data ? 0 : body->created_ms;
    memory->content = body->content;
    if (body->summary.size > 0) /* an empty summary counts as none */
        memory->summary = body->summary;
    memory->importance = (enum handoff_importance)body->importance;
    if (body->pin_is_told)
        put->pin = body->pinned ? HANDOFF_PIN_YES : HANDOFF_PIN_NO;
    if (code == HANDOFF_OK && body->tags)
        code = take_tags(body->tags, arena, memory, error);
    if (code == HANDOFF_OK && body->metadata)
        code = take_metadata(body->metadata, arena, memory, error);
    return code;
}

/* A memory that can only be handed on as a summary must be stored with one. */
static enum handoff_code check_handed_on_whole(const struct memory_body *body,
                                               const struct handoff_memory *memory,
                                               size_t most_bytes, struct handoff_error *error)
{
    if (memory->summary.data)
        return HANDOFF_OK;
    if (handoff_marks_raw_log(body->metadata))
        return handoff_error_set(error, HANDOFF_ERR_RAW_LOG,
                                 "a raw conversation log needs a summary; add one or store its "
                                 "conclusions as separate memories",
                                 "summary", NULL);
    if (memory->content.size <= most_bytes)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_TOO_LARGE, "a memory this large needs a summary",
                      "content", NULL);
    handoff_error_seen(error, "%zu bytes", memory->content.size);
    handoff_error_allow(error, "%zu bytes without a summary", most_bytes);
    return HANDOFF_ERR_TOO_LARGE;
}

enum handoff_code handoff_memory_json_read(struct base_span text, size_t most_bytes,
                                           struct base_arena *arena, yyjson_doc **doc,
                                           struct handoff_secrets *secrets,
                                           struct handoff_spine_put *put,
                                           struct handoff_error *error)
{
    struct memory_body body = {.importance = (int)put->memory.importance};
    const char *bad;
    enum handoff_code code = base_json_read(text, "body", doc, error);
    if (code == HANDOFF_OK) /* before anything reads the texts */
        code = handoff_secrets_in_document(secrets, &handoff_memory_fields,
                                           HANDOFF_SECRET_PLACE_MEMORY, *doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(*doc);
    if (!yyjson_is_obj(root))
        return handoff_field_refuse_type(error, "body", root, "an object");
    if (!base_json_keys_are_plain(root, &bad))
        return handoff_error_set(error, HANDOFF_ERR_INVALID,
                                 "duplicate key, or too many keys in an object", bad, bad);
    code = handoff_fields_read(&handoff_memory_fields, root, &body, error);
    if (code == HANDOFF_OK)
        code = take_body_fields(&body, arena, put, error);
    return code == HANDOFF_OK ? check_handed_on_whole(&body, &put->memory, most_bytes, error)
                              : code;
}
