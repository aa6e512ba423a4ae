/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memories as a host asks for them: JSON in, JSON out. The spine says what a memory may be; here
 * its JSON is read and written, and raw conversation logs without a summary are turned away.
 */
#include <string.h>

#include "client/assemble/json.h"
#include "client/assemble/nearest.h"
#include "client/assemble/request.h"
#include "client/base/check.h"
#include "client/base/error.h"
#include "client/base/memory.h"
#include "client/base/rfc3339.h"
#include "client/client.h"

enum {
    PUTTING_MAGIC = 0x70757474,
    TOUCHING_MAGIC = 0x746f7563,
    READING_MAGIC = 0x72656164,
    LISTING_MAGIC = 0x6c697374,
    RECENT_DEFAULT = 20,
    PAGE = 50
};

/* ---- a memory as JSON
 * ------------------------------------------------------------------------------ */

static void write_text(struct handoff_buffer *out, const char *key, struct handoff_span text)
{
    handoff_json_write_key(out, handoff_span_text(key));
    handoff_json_write_string(out, text);
}

static void write_time(struct handoff_buffer *out, const char *key, int64_t wall_ms)
{
    char text[HANDOFF_RFC3339_SIZE];
    handoff_rfc3339_format(wall_ms, text);
    write_text(out, key, handoff_span_text(text));
}

static void write_memory(struct handoff_buffer *out, const struct handoff_memory *memory)
{
    handoff_buffer_byte(out, '{');
    write_text(out, "id", memory->id);
    write_text(out, "content", memory->content);
    if (memory->summary.data)
        write_text(out, "summary", memory->summary);
    write_text(out, "importance", handoff_span_text(handoff_importance_name(memory->importance)));
    handoff_buffer_text(out, ",\"tags\":[");
    for (size_t i = 0; i < memory->tag_count; i++) {
        handoff_buffer_text(out, i ? "," : "");
        handoff_json_write_string(out, memory->tags[i]);
    }
    handoff_buffer_text(out, "],\"metadata\":");
    if (memory->metadata.data)
        handoff_buffer_append(out, memory->metadata.data, memory->metadata.size);
    else
        handoff_buffer_text(out, "{}");
    handoff_buffer_printf(out, ",\"pinned\":%s", memory->pinned ? "true" : "false");
    write_time(out, "created_at", memory->created_ms);
    write_time(out, "updated_at", memory->updated_ms);
    handoff_buffer_byte(out, '}');
}

/* ---- reading a body
 * ---------------------------------------------------------------------------------- */

/* A put on its way, with all that it lends to the spine. */
struct putting {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    int64_t began_ns;
    struct handoff_arena arena;
    yyjson_doc *doc;
    struct handoff_spine_put put;
};

static enum handoff_code refuse_type(struct handoff_error *error, const char *field,
                                     const char *type)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, "the field has another type", field, NULL);
    handoff_error_allow(error, "%s", type);
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code read_content(struct putting *putting, yyjson_val *value,
                                      struct handoff_error *error)
{
    putting->put.memory.content = handoff_json_span(value);
    return yyjson_is_str(value) ? HANDOFF_OK : refuse_type(error, "content", "a string");
}

static enum handoff_code read_summary(struct putting *putting, yyjson_val *value,
                                      struct handoff_error *error)
{
    if (yyjson_get_len(value) > 0) /* an empty one could not stand in for anything */
        putting->put.memory.summary = handoff_json_span(value);
    return yyjson_is_str(value) ? HANDOFF_OK : refuse_type(error, "summary", "a string");
}

static enum handoff_code read_importance(struct putting *putting, yyjson_val *value,
                                         struct handoff_error *error)
{
    if (yyjson_is_str(value) &&
        handoff_importance_parse(handoff_json_span(value), &putting->put.memory.importance))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "there is no such importance", "importance",
                      yyjson_get_str(value));
    handoff_error_allow(error, "low, medium, high, critical");
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code read_tags(struct putting *putting, yyjson_val *value,
                                   struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *tag;
    struct handoff_span *tags =
        handoff_arena_calloc(&putting->arena, yyjson_arr_size(value) + 1, sizeof(*tags));
    if (!tags)
        return handoff_error_no_memory(error);
    if (!yyjson_is_arr(value))
        return refuse_type(error, "tags", "an array of strings");
    yyjson_arr_foreach(value, i, n, tag)
    {
        tags[i] = handoff_json_span(tag);
        if (!yyjson_is_str(tag))
            return refuse_type(error, "tags", "an array of strings");
    }
    putting->put.memory.tags = tags;
    putting->put.memory.tag_count = yyjson_arr_size(value);
    return HANDOFF_OK;
}

static enum handoff_code read_metadata(struct putting *putting, yyjson_val *value,
                                       struct handoff_error *error)
{
    struct handoff_buffer text = {0};
    if (!yyjson_is_obj(value))
        return refuse_type(error, "metadata", "an object");
    handoff_json_write(&text, value);
    struct handoff_span *metadata = &putting->put.memory.metadata;
    metadata->size = text.size;
    metadata->data = text.failed ? NULL : handoff_arena_copy(&putting->arena, text.data, text.size);
    handoff_buffer_free(&text);
    return metadata->data ? HANDOFF_OK : handoff_error_no_memory(error);
}

static enum handoff_code read_pinned(struct putting *putting, yyjson_val *value,
                                     struct handoff_error *error)
{
    putting->put.pin = yyjson_is_true(value) ? HANDOFF_PIN_YES : HANDOFF_PIN_NO;
    return yyjson_is_bool(value) ? HANDOFF_OK : refuse_type(error, "pinned", "true or false");
}

static enum handoff_code read_id(struct putting *putting, yyjson_val *value,
                                 struct handoff_error *error)
{
    if (yyjson_is_str(value) &&
        handoff_span_equal(handoff_json_span(value), putting->put.memory.id))
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_INVALID, "the body names another memory than the path",
                      "id", yyjson_get_str(value));
    handoff_error_allow(error, "%s", putting->put.memory.id.data);
    return HANDOFF_ERR_INVALID;
}

/* What we answered with may come back; when it was made and changed is still ours to say. */
static enum handoff_code read_nothing(struct putting *putting, yyjson_val *value,
                                      struct handoff_error *error)
{
    (void)putting;
    (void)value;
    (void)error;
    return HANDOFF_OK;
}

static const struct member {
    const char *name;
    enum handoff_code (*read)(struct putting *, yyjson_val *, struct handoff_error *);
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
    const char *nearest = handoff_nearest(name, names, MEMBERS);
    handoff_error_set(error, HANDOFF_ERR_INVALID, "a memory has no such field", name, name);
    handoff_error_allow(error, "%s%s",
                        nearest ? nearest : "content, summary, importance, tags, metadata, pinned",
                        nearest ? " (the nearest name)" : "");
    return HANDOFF_ERR_INVALID;
}

static enum handoff_code read_member(struct putting *putting, yyjson_val *key, yyjson_val *value,
                                     struct handoff_error *error)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        if (yyjson_equals_str(key, members[i].name))
            return yyjson_is_null(value) ? HANDOFF_OK : members[i].read(putting, value, error);
    }
    return refuse_unknown(yyjson_get_str(key), error);
}

/* What could only be handed on by a summary needs one from the start. */
static enum handoff_code check_raw_log(const struct putting *putting, struct handoff_error *error)
{
    const struct handoff_memory *memory = &putting->put.memory;
    size_t most = putting->loop->client->assembler.memory_max_bytes;
    if (memory->summary.data)
        return HANDOFF_OK;
    if (handoff_marks_raw_log(yyjson_obj_get(yyjson_doc_get_root(putting->doc), "metadata")))
        return handoff_error_set(
            error, HANDOFF_ERR_RAW_LOG,
            "a raw conversation log is handed on by its summary: give it one, or "
            "store what it established as memories of their own",
            "summary", NULL);
    if (memory->content.size <= most)
        return HANDOFF_OK;
    handoff_error_set(error, HANDOFF_ERR_TOO_LARGE,
                      "so large a memory is handed on by its summary: give it one", "content",
                      NULL);
    handoff_error_seen(error, "%zu bytes", memory->content.size);
    handoff_error_allow(error, "%zu bytes without a summary", most);
    return HANDOFF_ERR_TOO_LARGE;
}

static enum handoff_code read_body(struct putting *putting, struct handoff_span body,
                                   struct handoff_error *error)
{
    size_t i, n;
    yyjson_val *key, *value;
    const char *bad;
    enum handoff_code code = handoff_json_read(body, "body", &putting->doc, error);
    if (code != HANDOFF_OK)
        return code;
    yyjson_val *root = yyjson_doc_get_root(putting->doc);
    if (!yyjson_is_obj(root))
        return refuse_type(error, "body", "an object");
    if (!handoff_json_keys_are_plain(root, &bad))
        return handoff_error_set(error, HANDOFF_ERR_INVALID,
                                 "a key is there twice, or an object has too many", bad, bad);
    yyjson_obj_foreach(root, i, n, key, value)
    {
        code = read_member(putting, key, value, error);
        if (code != HANDOFF_OK)
            return code;
    }
    return check_raw_log(putting, error);
}

/* ---- answering
 * ------------------------------------------------------------------------------------------ */

static void answer_memory(handoff_answered *answered, void *context, struct handoff_error *error,
                          const struct handoff_memory *memory, bool created)
{
    struct handoff_buffer out = {0};
    struct handoff_result answer = {.created = created};
    if (error->code == HANDOFF_OK && memory) {
        write_memory(&out, memory);
        answer.body = out.data;
        answer.size = out.size;
        if (out.failed)
            handoff_error_no_memory(error);
    }
    answer.error = *error;
    answered(context, &answer);
    handoff_buffer_free(&out);
}

static void answer_refusal(handoff_answered *answered, void *context, struct handoff_error error)
{
    answer_memory(answered, context, &error, NULL, false);
}

static int64_t now_ns(const struct handoff_client *client)
{
    return handoff_monotonic_ns(client->assembler.clock);
}

/* ---- put
 * ------------------------------------------------------------------------------------------------
 */

static void free_putting(struct putting *putting)
{
    yyjson_doc_free(putting->doc);
    handoff_arena_free(&putting->arena);
    putting->magic = 0;
    handoff_free(putting);
}

static void was_put(struct handoff_spine_call *call)
{
    struct putting *putting =
        (struct putting *)(void *)((char *)call - offsetof(struct putting, put.call));
    HANDOFF_CHECK_MAGIC(putting, PUTTING_MAGIC);
    struct handoff_client *client = putting->loop->client;
    putting->loop->pending--;
    handoff_client_tell_spine(client, "put", call->error.code, now_ns(client) - putting->began_ns);
    answer_memory(putting->answered, putting->context, &call->error, &putting->put.memory,
                  putting->put.created);
    free_putting(putting);
}

void handoff_memory_put(struct handoff_loop *loop, const char *id, const char *body, size_t size,
                        handoff_answered *answered, void *context)
{
    struct handoff_error error = {0};
    HANDOFF_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    struct putting *putting = handoff_calloc(1, sizeof(*putting));
    if (!putting) {
        handoff_error_no_memory(&error);
        answer_refusal(answered, context, error);
        return;
    }
    *putting = (struct putting){.magic = PUTTING_MAGIC,
                                .loop = loop,
                                .answered = answered,
                                .context = context,
                                .began_ns = now_ns(loop->client)};
    putting->put.call.mailbox = &loop->mailbox;
    putting->put.call.done = was_put;
    putting->put.memory.importance = HANDOFF_IMPORTANCE_MEDIUM;
    putting->put.memory.id.size = strlen(id);
    putting->put.memory.id.data = handoff_arena_strdup(&putting->arena, id);
    if (!putting->put.memory.id.data)
        handoff_error_no_memory(&error);
    else
        read_body(putting, handoff_span(body, size), &error);
    if (error.code != HANDOFF_OK) {
        free_putting(putting);
        answer_refusal(answered, context, error);
        return;
    }
    loop->pending++;
    if (handoff_spine_put(loop->client->spine, &putting->put) == HANDOFF_SPINE_DONE)
        was_put(&putting->put.call);
}

/* ---- pin and delete
 * ---------------------------------------------------------------------------------------- */

/* Either call, with a copy of the id. */
struct touching {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    int64_t began_ns;
    const char *operation;
    char *id;
    struct handoff_spine_call *call; /* the one of the two that is made */
    struct handoff_spine_pin pin;
    struct handoff_spine_remove remove;
};

static void end_touch(struct touching *touching)
{
    touching->magic = 0;
    handoff_free(touching->id);
    handoff_free(touching);
}

/* A pin is answered with the memory as it is now. */
static void was_touched(struct touching *touching)
{
    HANDOFF_CHECK_MAGIC(touching, TOUCHING_MAGIC);
    struct handoff_client *client = touching->loop->client;
    touching->loop->pending--;
    handoff_client_tell_spine(client, touching->operation, touching->call->error.code,
                              now_ns(client) - touching->began_ns);
    if (touching->call->error.code == HANDOFF_OK && touching->call == &touching->pin.call)
        handoff_memory_get(touching->loop, touching->id, touching->answered, touching->context);
    else
        answer_refusal(touching->answered, touching->context, touching->call->error);
    end_touch(touching);
}

static void was_pinned(struct handoff_spine_call *call)
{
    was_touched((struct touching *)(void *)((char *)call - offsetof(struct touching, pin.call)));
}

static void was_removed(struct handoff_spine_call *call)
{
    was_touched((struct touching *)(void *)((char *)call - offsetof(struct touching, remove.call)));
}

/* NULL, and the refusal is answered, where there is no memory. */
static struct touching *begin_touch(struct handoff_loop *loop, const char *id,
                                    const char *operation, handoff_answered *answered,
                                    void *context)
{
    HANDOFF_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    struct touching *touching = handoff_calloc(1, sizeof(*touching));
    char *copy = touching ? handoff_strdup(id) : NULL;
    if (!copy) {
        struct handoff_error error = {0};
        handoff_free(touching);
        handoff_error_no_memory(&error);
        answer_refusal(answered, context, error);
        return NULL;
    }
    *touching = (struct touching){.magic = TOUCHING_MAGIC,
                                  .loop = loop,
                                  .answered = answered,
                                  .context = context,
                                  .began_ns = now_ns(loop->client),
                                  .operation = operation,
                                  .id = copy};
    loop->pending++;
    return touching;
}

void handoff_memory_pin(struct handoff_loop *loop, const char *id, bool pinned,
                        handoff_answered *answered, void *context)
{
    struct touching *touching = begin_touch(loop, id, "pin", answered, context);
    if (!touching)
        return;
    touching->call = &touching->pin.call;
    touching->pin =
        (struct handoff_spine_pin){.call = {.mailbox = &loop->mailbox, .done = was_pinned},
                                   .id = handoff_span_text(touching->id),
                                   .pinned = pinned};
    if (handoff_spine_pin(loop->client->spine, &touching->pin) == HANDOFF_SPINE_DONE)
        was_touched(touching);
}

void handoff_memory_delete(struct handoff_loop *loop, const char *id, handoff_answered *answered,
                           void *context)
{
    struct touching *touching = begin_touch(loop, id, "delete", answered, context);
    if (!touching)
        return;
    touching->call = &touching->remove.call;
    touching->remove =
        (struct handoff_spine_remove){.call = {.mailbox = &loop->mailbox, .done = was_removed},
                                      .id = handoff_span_text(touching->id)};
    if (handoff_spine_remove(loop->client->spine, &touching->remove) == HANDOFF_SPINE_DONE)
        was_touched(touching);
}

/* ---- get, and the most relevant
 * ------------------------------------------------------------------------------ */

/* A resolve for one memory, or for a ranked list. */
struct reading {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    int64_t began_ns;
    struct handoff_arena arena;
    struct handoff_span id; /* absent: a list */
    struct handoff_spine_resolve resolve;
};

static void write_ranked(struct handoff_buffer *out, const struct handoff_spine_resolve *resolve)
{
    handoff_buffer_text(out, "{\"items\":[");
    for (size_t i = 0; i < resolve->found_count; i++) {
        handoff_buffer_text(out, i ? "," : "");
        write_memory(out, &resolve->found[i].memory);
    }
    handoff_buffer_text(out, "],\"next\":null}");
}

static void answer_text(handoff_answered *answered, void *context, struct handoff_buffer *out)
{
    struct handoff_result answer = {.body = out->data, .size = out->size};
    if (out->failed)
        handoff_error_no_memory(&answer.error);
    answered(context, &answer);
    handoff_buffer_free(out);
}

static void was_read(struct handoff_spine_call *call)
{
    struct reading *reading =
        (struct reading *)(void *)((char *)call - offsetof(struct reading, resolve.call));
    HANDOFF_CHECK_MAGIC(reading, READING_MAGIC);
    struct handoff_client *client = reading->loop->client;
    struct handoff_buffer out = {0};
    reading->loop->pending--;
    handoff_client_tell_spine(client, reading->id.data ? "get" : "search", call->error.code,
                              now_ns(client) - reading->began_ns);
    if (call->error.code == HANDOFF_OK && reading->id.data && reading->resolve.found_count == 0)
        handoff_error_set(&call->error, HANDOFF_ERR_NOT_FOUND, "no memory has this id", "id",
                          reading->id.data);
    if (call->error.code != HANDOFF_OK) {
        answer_refusal(reading->answered, reading->context, call->error);
    } else if (reading->id.data) {
        answer_memory(reading->answered, reading->context, &call->error,
                      &reading->resolve.found[0].memory, false);
    } else {
        write_ranked(&out, &reading->resolve);
        answer_text(reading->answered, reading->context, &out);
    }
    handoff_arena_free(&reading->arena);
    reading->magic = 0;
    handoff_free(reading);
}

/* NULL, and the refusal is answered, where there is no memory. `text` is copied. */
static struct reading *begin_reading(struct handoff_loop *loop, const char *text,
                                     struct handoff_span *copy, handoff_answered *answered,
                                     void *context)
{
    HANDOFF_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    struct reading *reading = handoff_calloc(1, sizeof(*reading));
    if (reading)
        *reading = (struct reading){.magic = READING_MAGIC,
                                    .loop = loop,
                                    .answered = answered,
                                    .context = context,
                                    .began_ns = now_ns(loop->client)};
    copy->size = strlen(text);
    copy->data = reading ? handoff_arena_strdup(&reading->arena, text) : NULL;
    if (!copy->data) {
        struct handoff_error error = {0};
        handoff_free(reading);
        handoff_error_no_memory(&error);
        answer_refusal(answered, context, error);
        return NULL;
    }
    reading->resolve.call.mailbox = &loop->mailbox;
    reading->resolve.call.done = was_read;
    reading->resolve.arena = &reading->arena;
    loop->pending++;
    return reading;
}

static void read(struct reading *reading)
{
    struct handoff_client *client = reading->loop->client;
    if (handoff_spine_resolve(client->spine, &reading->resolve) == HANDOFF_SPINE_DONE)
        was_read(&reading->resolve.call);
}

void handoff_memory_get(struct handoff_loop *loop, const char *id, handoff_answered *answered,
                        void *context)
{
    struct handoff_span copy;
    struct reading *reading = begin_reading(loop, id, &copy, answered, context);
    if (!reading)
        return;
    reading->id = copy;
    reading->resolve.ids = &reading->id;
    reading->resolve.id_count = 1;
    read(reading);
}

static void list_ranked(struct handoff_loop *loop, const struct handoff_memory_query *query,
                        handoff_answered *answered, void *context)
{
    struct handoff_span copy;
    int64_t most = query->recent > 0 ? query->recent : RECENT_DEFAULT;
    struct reading *reading =
        begin_reading(loop, query->query ? query->query : "", &copy, answered, context);
    if (!reading)
        return;
    if (query->limit > 0 && query->limit < most)
        most = query->limit;
    reading->resolve.query = copy;
    reading->resolve.recent = (size_t)most;
    read(reading);
}

/* ---- list, a page at a time
 * ----------------------------------------------------------------------------------- */

struct listing {
    unsigned magic;
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    int64_t began_ns;
    struct handoff_arena arena;
    struct handoff_spine_list list;
};

static void write_page(struct handoff_buffer *out, const struct handoff_spine_list *list)
{
    handoff_buffer_text(out, "{\"items\":[");
    for (size_t i = 0; i < list->count; i++) {
        handoff_buffer_text(out, i ? "," : "");
        write_memory(out, &list->memories[i]);
    }
    handoff_buffer_text(out, "],\"next\":");
    if (list->next.data)
        handoff_json_write_string(out, list->next);
    else
        handoff_buffer_text(out, "null");
    handoff_buffer_byte(out, '}');
}

static void was_listed(struct handoff_spine_call *call)
{
    struct listing *listing =
        (struct listing *)(void *)((char *)call - offsetof(struct listing, list.call));
    HANDOFF_CHECK_MAGIC(listing, LISTING_MAGIC);
    struct handoff_client *client = listing->loop->client;
    struct handoff_buffer out = {0};
    listing->loop->pending--;
    handoff_client_tell_spine(client, "list", call->error.code, now_ns(client) - listing->began_ns);
    if (call->error.code == HANDOFF_OK) {
        write_page(&out, &listing->list);
        answer_text(listing->answered, listing->context, &out);
    } else {
        answer_refusal(listing->answered, listing->context, call->error);
    }
    handoff_arena_free(&listing->arena);
    listing->magic = 0;
    handoff_free(listing);
}

static void list_page(struct handoff_loop *loop, const struct handoff_memory_query *query,
                      handoff_answered *answered, void *context)
{
    struct handoff_error error = {0};
    struct listing *listing = handoff_calloc(1, sizeof(*listing));
    if (!listing) {
        handoff_error_no_memory(&error);
        answer_refusal(answered, context, error);
        return;
    }
    *listing = (struct listing){.magic = LISTING_MAGIC,
                                .loop = loop,
                                .answered = answered,
                                .context = context,
                                .began_ns = now_ns(loop->client)};
    listing->list =
        (struct handoff_spine_list){.call = {.mailbox = &loop->mailbox, .done = was_listed},
                                    .arena = &listing->arena,
                                    .limit = query->limit > 0 ? (size_t)query->limit : PAGE,
                                    .cursor = handoff_span_text(query->cursor),
                                    .pinned_only = query->pinned};
    if (query->cursor) /* the host's text goes with its call */
        listing->list.cursor.data = handoff_arena_strdup(&listing->arena, query->cursor);
    if (query->cursor && !listing->list.cursor.data) {
        handoff_free(listing);
        handoff_error_no_memory(&error);
        answer_refusal(answered, context, error);
        return;
    }
    loop->pending++;
    if (handoff_spine_list(loop->client->spine, &listing->list) == HANDOFF_SPINE_DONE)
        was_listed(&listing->list.call);
}

void handoff_memory_list(struct handoff_loop *loop, const struct handoff_memory_query *query,
                         handoff_answered *answered, void *context)
{
    HANDOFF_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    if (query->query || query->recent > 0)
        list_ranked(loop, query, answered, context);
    else
        list_page(loop, query, answered, context);
}
