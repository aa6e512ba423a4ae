/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls about memories. Each call is one struct from the request to the answer, with copies of
 * what the host lent; the spine answers immediately or later, which makes no difference here.
 *
 * On the loop's thread.
 */
#include <string.h>

#include "client/assemble/costs.h"
#include "client/assemble/inherit_scopes.h"
#include "client/calls/memory_json.h"
#include "client/calls/reply.h"
#include "client/calls/warn.h"
#include "client/client.h"
#include "lib/base/check.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum {
    PUTTING_MAGIC = 0x70757474,
    TOUCHING_MAGIC = 0x746f7563,
    READING_MAGIC = 0x72656164,
    LISTING_MAGIC = 0x6c697374,
    RECENT_DEFAULT = 20,
    RECENT_MOST = 1000, /* in all pages */
    PAGE = 50
};

/* What every call keeps about its caller. */
struct asked {
    struct handoff_loop *loop;
    handoff_answered *answered;
    void *context;
    int64_t began_ns;
};

static int64_t now_ns(const struct handoff_client *client)
{
    return base_monotonic_ns(client->assembler.clock);
}

static struct asked asked(struct handoff_loop *loop, handoff_answered *answered, void *context)
{
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    return (struct asked){loop, answered, context, now_ns(loop->client)};
}

/* The spine has answered. */
static void tell_end(const struct asked *asked, enum handoff_operation operation,
                     const struct handoff_spine_call *call)
{
    struct handoff_client *client = asked->loop->client;
    handoff_client_tell_spine(client, operation, call, now_ns(client) - asked->began_ns);
}

static void note_end(const struct asked *asked, enum handoff_operation operation,
                     const struct handoff_spine_call *call)
{
    asked->loop->pending--;
    tell_end(asked, operation, call);
}

/* ---- answering ----------------------------------------------------------------------------- */

static void answer_memory(const struct asked *asked, struct handoff_error *error,
                          const struct handoff_memory *memory, bool created)
{
    struct base_buffer out = {0};
    struct handoff_result answer = {.created = created};
    if (error->code == HANDOFF_OK && memory) {
        handoff_memory_json_write(&out, memory);
        answer.body = out.data;
        answer.size = out.size;
        if (out.failed)
            handoff_error_no_memory(error);
    }
    answer.error = *error;
    asked->answered(asked->context, &answer);
    base_buffer_free(&out);
}

/* ---- put ----------------------------------------------------------------------------------- */

enum {
    READ_ON_LOOP = 16 * 1024,     /* its tokens are also counted */
    WRITTEN_ON_LOOP = 256 * 1024, /* a memory is only copied for it */
    WORKER_TIMEOUT_MS = 30 * 1000,
};

/* A put in progress, with everything that it lends to the spine. */
struct putting {
    unsigned magic;
    struct asked asked;
    struct base_span body; /* until the body was read */
    struct base_work work; /* reads a long body */
    struct base_arena arena;
    yyjson_doc *doc;
    struct handoff_secrets secrets;
    struct handoff_error error; /* what was wrong with the body */
    struct handoff_spine_put put;
};

static void end_put(struct putting *putting)
{
    putting->asked.loop->pending--;
    yyjson_doc_free(putting->doc);
    base_arena_free(&putting->arena);
    putting->magic = 0;
    base_free(putting);
}

static void was_put(struct handoff_spine_call *call)
{
    struct putting *putting = BASE_CONTAINER_OF(call, struct putting, put.call);
    BASE_CHECK_MAGIC(putting, PUTTING_MAGIC);
    tell_end(&putting->asked, HANDOFF_OPERATION_PUT, call);
    answer_memory(&putting->asked, &call->error, &putting->put.memory, putting->put.created);
    end_put(putting);
}

/* Reads the body and counts the memory's tokens. Any thread. */
static void read_put(struct putting *putting)
{
    const struct handoff_assembler *assembler = &putting->asked.loop->client->assembler;
    putting->error.code =
        handoff_memory_json_read(putting->body, assembler->memory_max_bytes, &putting->arena,
                                 &putting->doc, &putting->secrets, &putting->put, &putting->error);
    if (putting->error.code == HANDOFF_OK)
        handoff_cost_put(assembler, &putting->arena, &putting->put);
    if (putting->error.code == HANDOFF_OK)
        handoff_spine_prepare_put(putting->asked.loop->client->spine, &putting->put,
                                  &putting->arena);
}

static void read_put_on_worker(struct base_work *work)
{
    read_put(BASE_CONTAINER_OF(work, struct putting, work));
}

/* Out of memory, it is not told. */
static void warn_of_secrets(struct putting *putting)
{
    struct asked *asked = &putting->asked;
    struct handoff_warnings *warnings =
        putting->secrets.total > 0 ? handoff_warn_in_answer(&asked->answered, &asked->context)
                                   : NULL;
    if (warnings)
        handoff_secrets_warn(&putting->secrets, warnings);
}

static void put_was_read(struct putting *putting)
{
    struct asked *asked = &putting->asked;
    handoff_client_tell_secrets(asked->loop->client, &putting->secrets);
    if (putting->error.code == HANDOFF_OK)
        warn_of_secrets(putting);
    if (putting->error.code != HANDOFF_OK) {
        handoff_give_error(asked->answered, asked->context, &putting->error);
        end_put(putting);
        return;
    }
    asked->began_ns = now_ns(asked->loop->client);
    if (handoff_spine_put(asked->loop->client->spine, &putting->put) == HANDOFF_SPINE_DONE)
        was_put(&putting->put.call);
}

static void worker_read_put(struct base_op *op)
{
    struct putting *putting = BASE_CONTAINER_OF(op, struct putting, work.op);
    BASE_CHECK_MAGIC(putting, PUTTING_MAGIC);
    if (base_op_is_unwanted(op))
        handoff_refuse_long_request(&putting->error);
    put_was_read(putting);
}

/* False, with the error set: the body cannot be read later. */
static bool read_put_later(struct putting *putting)
{
    struct handoff_loop *loop = putting->asked.loop;
    putting->body.data = base_arena_copy(&putting->arena, putting->body.data, putting->body.size);
    putting->work.bytes = putting->body.size;
    if (!putting->body.data)
        handoff_error_no_memory(&putting->error);
    else if (base_workers_submit(loop->client->workers, &putting->work, loop->lane->loop,
                                 WORKER_TIMEOUT_MS, read_put_on_worker, worker_read_put))
        return true;
    else
        handoff_refuse_long_request(&putting->error);
    return false;
}

static void begin_put(struct putting *putting)
{
    const bool is_long = putting->body.size > READ_ON_LOOP;
    if (putting->error.code == HANDOFF_OK && is_long && read_put_later(putting))
        return;
    if (putting->error.code == HANDOFF_OK)
        read_put(putting);
    put_was_read(putting);
}

/* The host lends its texts for the call. An unknown caller stays absent. */
static enum handoff_code keep_caller(const struct handoff_memory_caller *caller,
                                     struct base_arena *arena, struct base_span *agent,
                                     struct handoff_scopes *scopes, struct handoff_error *error)
{
    *agent = base_span_text(caller ? caller->agent : NULL);
    if (agent->data)
        agent->data = base_arena_strdup(arena, agent->data);
    if (caller && caller->agent && !agent->data)
        return handoff_error_no_memory(error);
    return handoff_scopes_of_text(caller ? caller->scopes : NULL, "scope", arena, scopes, error);
}

void handoff_memory_put(struct handoff_loop *loop, const char *id, const char *body, size_t size,
                        const struct handoff_memory_caller *caller, handoff_answered *answered,
                        void *context)
{
    struct putting *putting = base_calloc(1, sizeof(*putting));
    if (!putting) {
        handoff_give_no_memory(answered, context);
        return;
    }
    putting->magic = PUTTING_MAGIC;
    putting->asked = asked(loop, answered, context);
    putting->body = base_span(body, size);
    putting->put.call.mailbox = loop->lane->mailbox;
    putting->put.call.done = was_put;
    putting->put.memory.importance = HANDOFF_IMPORTANCE_MEDIUM;
    putting->put.memory.id.size = strlen(id);
    putting->put.memory.id.data = base_arena_strdup(&putting->arena, id);
    putting->secrets.policy = handoff_client_secrets(loop->client);
    putting->secrets.arena = &putting->arena;
    loop->pending++;
    if (!putting->put.memory.id.data)
        handoff_error_no_memory(&putting->error);
    else
        putting->error.code = keep_caller(caller, &putting->arena, &putting->put.caller,
                                          &putting->put.scopes, &putting->error);
    if (putting->error.code == HANDOFF_OK)
        putting->error.code =
            handoff_secrets_in_id(&putting->secrets, "id", HANDOFF_SECRET_PLACE_MEMORY,
                                  putting->put.memory.id, &putting->error);
    begin_put(putting);
}

/* ---- pin and delete ------------------------------------------------------------------------ */

/* Either call, with copies of what the host lent. */
struct touching {
    unsigned magic;
    struct asked asked;
    enum handoff_operation operation;
    struct base_arena arena;
    char *id;
    struct base_span caller;
    struct handoff_memory_caller reader; /* of the memory that a pin is answered with */
    struct handoff_scopes scopes;
    struct handoff_spine_call *call; /* the call that is made: pin or remove */
    struct handoff_spine_pin pin;
    struct handoff_spine_remove remove;
};

static void end_touch(struct touching *touching)
{
    touching->magic = 0;
    base_arena_free(&touching->arena);
    base_free(touching);
}

/* A pin is answered with the memory as it is now. */
static void was_touched(struct touching *touching)
{
    BASE_CHECK_MAGIC(touching, TOUCHING_MAGIC);
    const struct asked *asked = &touching->asked;
    note_end(asked, touching->operation, touching->call);
    if (touching->call->error.code == HANDOFF_OK && touching->call == &touching->pin.call)
        handoff_memory_get(asked->loop, touching->id, &touching->reader, asked->answered,
                           asked->context);
    else
        answer_memory(asked, &touching->call->error, NULL, false);
    end_touch(touching);
}

static void was_pinned(struct handoff_spine_call *call)
{
    was_touched(BASE_CONTAINER_OF(call, struct touching, pin.call));
}

static void was_removed(struct handoff_spine_call *call)
{
    was_touched(BASE_CONTAINER_OF(call, struct touching, remove.call));
}

/* If the caller cannot be kept, answers with that and returns NULL. */
static struct touching *begin_touch(struct handoff_loop *loop, const char *id,
                                    const struct handoff_memory_caller *caller,
                                    enum handoff_operation operation, handoff_answered *answered,
                                    void *context)
{
    struct handoff_error error;
    struct touching *touching = base_calloc(1, sizeof(*touching));
    if (!touching) {
        handoff_give_no_memory(answered, context);
        return NULL;
    }
    touching->magic = TOUCHING_MAGIC;
    touching->asked = asked(loop, answered, context);
    touching->operation = operation;
    touching->id = base_arena_strdup(&touching->arena, id);
    const bool is_bound = caller && caller->scopes;
    if (is_bound)
        touching->reader.scopes = base_arena_strdup(&touching->arena, caller->scopes);
    const bool is_kept = touching->id && (touching->reader.scopes || !is_bound);
    enum handoff_code code = is_kept ? HANDOFF_OK : handoff_error_no_memory(&error);
    if (code == HANDOFF_OK)
        code = keep_caller(caller, &touching->arena, &touching->caller, &touching->scopes, &error);
    if (code != HANDOFF_OK) {
        handoff_give_error(answered, context, &error);
        end_touch(touching);
        return NULL;
    }
    loop->pending++;
    return touching;
}

void handoff_memory_pin(struct handoff_loop *loop, const char *id, bool pinned,
                        const struct handoff_memory_caller *caller, handoff_answered *answered,
                        void *context)
{
    struct touching *touching =
        begin_touch(loop, id, caller, HANDOFF_OPERATION_PIN, answered, context);
    if (!touching)
        return;
    touching->call = &touching->pin.call;
    touching->pin =
        (struct handoff_spine_pin){.call = {.mailbox = loop->lane->mailbox, .done = was_pinned},
                                   .id = base_span_text(touching->id),
                                   .scopes = touching->scopes,
                                   .caller = touching->caller,
                                   .pinned = pinned};
    if (handoff_spine_pin(loop->client->spine, &touching->pin) == HANDOFF_SPINE_DONE)
        was_touched(touching);
}

void handoff_memory_delete(struct handoff_loop *loop, const char *id,
                           const struct handoff_memory_caller *caller, handoff_answered *answered,
                           void *context)
{
    struct touching *touching =
        begin_touch(loop, id, caller, HANDOFF_OPERATION_DELETE, answered, context);
    if (!touching)
        return;
    touching->call = &touching->remove.call;
    touching->remove =
        (struct handoff_spine_remove){.call = {.mailbox = loop->lane->mailbox, .done = was_removed},
                                      .id = base_span_text(touching->id),
                                      .scopes = touching->scopes,
                                      .caller = touching->caller};
    if (handoff_spine_remove(loop->client->spine, &touching->remove) == HANDOFF_SPINE_DONE)
        was_touched(touching);
}

/* ---- get, and the most relevant ------------------------------------------------------------ */

/* A resolve for one memory, or for a ranked list. */
struct reading {
    unsigned magic;
    struct asked asked;
    struct base_arena arena;
    struct base_span id; /* absent: a list */
    size_t page;         /* of the list: how many are on it */
    struct handoff_spine_resolve resolve;
    struct base_work work; /* writes a long list */
    struct base_buffer out;
};

/* One more than the page was asked for, so that it is known whether there is another page. */
static void write_ranked(struct base_buffer *out, const struct reading *reading)
{
    const struct handoff_spine_resolve *resolve = &reading->resolve;
    base_buffer_text(out, "{\"items\":[");
    for (size_t i = 0; i < resolve->found_count && i < reading->page; i++) {
        base_buffer_text(out, i > 0 ? "," : "");
        handoff_memory_json_write_found(out, &resolve->found[i], resolve->query.size > 0);
    }
    if (resolve->found_count > reading->page)
        base_buffer_printf(out, "],\"next\":\"best-%zu\"", resolve->skip + reading->page);
    else
        base_buffer_text(out, "],\"next\":null");
    base_buffer_text(out, resolve->incomplete ? ",\"complete\":false}" : "}");
}

static void answer_text(const struct asked *asked, struct base_buffer *out)
{
    struct handoff_result answer = {.body = out->data, .size = out->size};
    if (out->failed)
        handoff_error_no_memory(&answer.error);
    asked->answered(asked->context, &answer);
    base_buffer_free(out);
}

static void end_reading(struct reading *reading)
{
    reading->asked.loop->pending--;
    base_arena_free(&reading->arena);
    reading->magic = 0;
    base_free(reading);
}

static void write_on_worker(struct base_work *work)
{
    struct reading *reading = BASE_CONTAINER_OF(work, struct reading, work);
    write_ranked(&reading->out, reading);
}

static void worker_wrote(struct base_op *op)
{
    struct reading *reading = BASE_CONTAINER_OF(op, struct reading, work.op);
    BASE_CHECK_MAGIC(reading, READING_MAGIC);
    answer_text(&reading->asked, &reading->out);
    end_reading(reading);
}

static bool is_long_list(const struct handoff_spine_resolve *resolve)
{
    size_t size = 0;
    for (size_t i = 0; i < resolve->found_count; i++)
        size += handoff_memory_bytes(&resolve->found[i].memory);
    return size > WRITTEN_ON_LOOP;
}

static void answer_ranked(struct reading *reading)
{
    struct handoff_loop *loop = reading->asked.loop;
    if (is_long_list(&reading->resolve)) {
        if (base_workers_submit(loop->client->workers, &reading->work, loop->lane->loop, 0,
                                write_on_worker, worker_wrote))
            return;
        handoff_refuse_long_request(&reading->resolve.call.error);
        answer_memory(&reading->asked, &reading->resolve.call.error, NULL, false);
    } else {
        write_ranked(&reading->out, reading);
        answer_text(&reading->asked, &reading->out);
    }
    end_reading(reading);
}

static void was_read(struct handoff_spine_call *call)
{
    struct reading *reading = BASE_CONTAINER_OF(call, struct reading, resolve.call);
    BASE_CHECK_MAGIC(reading, READING_MAGIC);
    tell_end(&reading->asked, reading->id.data ? HANDOFF_OPERATION_GET : HANDOFF_OPERATION_SEARCH,
             call);
    if (handoff_spine_is_lost(call) && reading->resolve.found_count > 0)
        handoff_error_clear(&call->error); /* what it has is better than nothing, and says so */
    if (call->error.code == HANDOFF_OK && reading->id.data && reading->resolve.found_count == 0)
        handoff_error_set(&call->error, HANDOFF_ERR_NOT_FOUND, "no memory has this id", "id",
                          reading->id.data);
    if (call->error.code == HANDOFF_OK && !reading->id.data) {
        answer_ranked(reading);
        return;
    }
    const bool found = call->error.code == HANDOFF_OK;
    answer_memory(&reading->asked, &call->error, found ? &reading->resolve.found[0].memory : NULL,
                  false);
    end_reading(reading);
}

/* If out of memory, answers with that and returns NULL. `text` is copied. */
static struct reading *begin_reading(struct handoff_loop *loop, const char *text,
                                     struct base_span *copy, handoff_answered *answered,
                                     void *context)
{
    struct reading *reading = base_calloc(1, sizeof(*reading));
    copy->size = strlen(text);
    copy->data = reading ? base_arena_strdup(&reading->arena, text) : NULL;
    if (!copy->data) {
        base_free(reading);
        handoff_give_no_memory(answered, context);
        return NULL;
    }
    reading->magic = READING_MAGIC;
    reading->asked = asked(loop, answered, context);
    reading->resolve.call.mailbox = loop->lane->mailbox;
    reading->resolve.call.done = was_read;
    reading->resolve.arena = &reading->arena;
    loop->pending++;
    return reading;
}

/* false: it was answered with why not. */
static bool settle_reading(struct reading *reading, enum handoff_code code,
                           struct handoff_error *error)
{
    if (code == HANDOFF_OK)
        return true;
    answer_memory(&reading->asked, error, NULL, false);
    end_reading(reading);
    return false;
}

static void read(struct reading *reading)
{
    struct handoff_client *client = reading->asked.loop->client;
    if (handoff_spine_resolve(client->spine, &reading->resolve) == HANDOFF_SPINE_DONE)
        was_read(&reading->resolve.call);
}

void handoff_memory_get(struct handoff_loop *loop, const char *id,
                        const struct handoff_memory_caller *caller, handoff_answered *answered,
                        void *context)
{
    struct base_span copy;
    struct handoff_error error;
    struct reading *reading = begin_reading(loop, id, &copy, answered, context);
    if (!reading)
        return;
    reading->id = copy;
    enum handoff_code code = handoff_scopes_of_text(
        caller ? caller->scopes : NULL, "scope", &reading->arena, &reading->resolve.scopes, &error);
    if (!settle_reading(reading, code, &error))
        return;
    reading->resolve.ids = &reading->id;
    reading->resolve.id_count = 1;
    read(reading);
}

/* What a list looks into: what the query names, which is within the caller's. */
static enum handoff_code scopes_of_query(const struct handoff_memory_query *query,
                                         struct base_arena *arena, struct handoff_scopes *scopes,
                                         struct handoff_error *error)
{
    struct handoff_scopes bound;
    enum handoff_code code =
        handoff_scopes_of_text(query->caller.scopes, "scope", arena, &bound, error);
    *scopes = bound;
    if (code != HANDOFF_OK || !query->scope)
        return code;
    struct handoff_scopes asked;
    code = handoff_scopes_of_text(query->scope, "scope", arena, &asked, error);
    return code == HANDOFF_OK
               ? handoff_inherit_scopes(&asked, NULL, 0, &bound, arena, scopes, error)
               : code;
}

/* A cursor of a ranked list says how many came before. */
static enum handoff_code read_place(const char *cursor, size_t *from, struct handoff_error *error)
{
    char *end = NULL;
    *from = 0;
    if (!cursor)
        return HANDOFF_OK;
    if (strncmp(cursor, "best-", 5) == 0 && cursor[5] >= '1' && cursor[5] <= '9')
        *from = strtoul(cursor + 5, &end, 10);
    if (end && *end == '\0' && *from <= RECENT_MOST)
        return HANDOFF_OK;
    return handoff_error_set(error, HANDOFF_ERR_INVALID_CURSOR,
                             "the cursor is not from this list; start again without one", "cursor",
                             NULL);
}

/* The page, and one more. */
static void set_page(struct reading *reading, const struct handoff_memory_query *query)
{
    const size_t most = query->recent > 0 ? (size_t)query->recent : RECENT_MOST;
    const size_t usual = query->recent > 0 ? most : RECENT_DEFAULT;
    reading->page = query->limit > 0 ? (size_t)query->limit : usual;
    const size_t wanted = reading->resolve.skip + reading->page + 1;
    reading->resolve.recent = wanted < most ? wanted : most;
}

static void list_ranked(struct handoff_loop *loop, const struct handoff_memory_query *query,
                        handoff_answered *answered, void *context)
{
    struct base_span copy;
    struct handoff_error error;
    struct reading *reading =
        begin_reading(loop, query->query ? query->query : "", &copy, answered, context);
    if (!reading)
        return;
    struct handoff_scopes *scopes = &reading->resolve.scopes;
    enum handoff_code code = scopes_of_query(query, &reading->arena, scopes, &error);
    scopes->all = false; /* as for a handoff of this caller */
    if (code == HANDOFF_OK)
        code = read_place(query->cursor, &reading->resolve.skip, &error);
    if (!settle_reading(reading, code, &error))
        return;
    reading->resolve.query = copy;
    reading->resolve.snippets = true;
    set_page(reading, query);
    read(reading);
}

/* ---- list, a page at a time ---------------------------------------------------------------- */

struct listing {
    unsigned magic;
    struct asked asked;
    struct base_arena arena;
    struct handoff_spine_list list;
};

static void write_page(struct base_buffer *out, const struct handoff_spine_list *list)
{
    base_buffer_text(out, "{\"items\":[");
    for (size_t i = 0; i < list->count; i++) {
        base_buffer_text(out, i ? "," : "");
        handoff_memory_json_write(out, &list->memories[i]);
    }
    base_buffer_text(out, "],\"next\":");
    if (list->next.data)
        base_json_write_string(out, list->next);
    else
        base_buffer_text(out, "null");
    base_buffer_byte(out, '}');
}

static void was_listed(struct handoff_spine_call *call)
{
    struct listing *listing = BASE_CONTAINER_OF(call, struct listing, list.call);
    BASE_CHECK_MAGIC(listing, LISTING_MAGIC);
    struct base_buffer out = {0};
    note_end(&listing->asked, HANDOFF_OPERATION_LIST, call);
    if (call->error.code == HANDOFF_OK) {
        write_page(&out, &listing->list);
        answer_text(&listing->asked, &out);
    } else {
        answer_memory(&listing->asked, &call->error, NULL, false);
    }
    base_arena_free(&listing->arena);
    listing->magic = 0;
    base_free(listing);
}

static void list_page(struct handoff_loop *loop, const struct handoff_memory_query *query,
                      handoff_answered *answered, void *context)
{
    struct listing *listing = base_calloc(1, sizeof(*listing));
    if (!listing) {
        handoff_give_no_memory(answered, context);
        return;
    }
    listing->magic = LISTING_MAGIC;
    listing->asked = asked(loop, answered, context);
    listing->list =
        (struct handoff_spine_list){.call = {.mailbox = loop->lane->mailbox, .done = was_listed},
                                    .arena = &listing->arena,
                                    .limit = query->limit > 0 ? (size_t)query->limit : PAGE,
                                    .cursor = base_span_text(query->cursor),
                                    .pinned_only = query->pinned};
    struct handoff_error error;
    enum handoff_code code = scopes_of_query(query, &listing->arena, &listing->list.scopes, &error);
    if (query->cursor) /* the host's text is lent for the call only */
        listing->list.cursor.data = base_arena_strdup(&listing->arena, query->cursor);
    if (code == HANDOFF_OK && query->cursor && !listing->list.cursor.data)
        code = handoff_error_no_memory(&error);
    if (code != HANDOFF_OK) {
        base_arena_free(&listing->arena);
        base_free(listing);
        handoff_give_error(answered, context, &error);
        return;
    }
    loop->pending++;
    if (handoff_spine_list(loop->client->spine, &listing->list) == HANDOFF_SPINE_DONE)
        was_listed(&listing->list.call);
}

void handoff_memory_list(struct handoff_loop *loop, const struct handoff_memory_query *query,
                         handoff_answered *answered, void *context)
{
    BASE_CHECK_MAGIC(loop, HANDOFF_LOOP_MAGIC);
    if (query->query || query->recent > 0)
        list_ranked(loop, query, answered, context);
    else
        list_page(loop, query, answered, context);
}
