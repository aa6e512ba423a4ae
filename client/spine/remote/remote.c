/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remote spine: which calls it has, by its table, and what its answers say. Calls come from any
 * thread; their answers are read where they were fetched.
 */
#include "client/spine/remote/remote.h"

#include <stdio.h>
#include <string.h>

#include "client/spine/remote/remote_internal.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum { TIMEOUT_MS = 2000, CONNECTIONS = 16 };

struct handoff_remote_spine *handoff_remote_spine_of(struct handoff_spine *spine)
{
    return BASE_CONTAINER_OF(spine, struct handoff_remote_spine, spine);
}

/* ---- requests and answers -------------------------------------------------------------------- */

bool handoff_remote_has(const struct handoff_remote_spine *spine,
                        enum handoff_remote_operation operation)
{
    return spine->table.rows[operation].exists &&
           !(atomic_load(&spine->unusable) & 1u << operation);
}

enum handoff_remote_operation handoff_remote_lookup(const struct handoff_remote_spine *spine)
{
    return handoff_remote_has(spine, HANDOFF_REMOTE_GET) ? HANDOFF_REMOTE_GET
                                                         : HANDOFF_REMOTE_GET_MANY;
}

void handoff_remote_make_request(const struct handoff_remote_spine *spine,
                                 enum handoff_remote_operation operation,
                                 const struct handoff_remote_values *values,
                                 struct handoff_remote_request *request)
{
    *request = (struct handoff_remote_request){0};
    spine->wire->compose(&spine->table.rows[operation], values, request);
}

enum handoff_code handoff_remote_unavailable(const char *operation, const char *why,
                                             struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_SPINE_UNAVAILABLE, "the spine did not answer", "spine",
                      NULL);
    handoff_error_seen(error, "%s: %s", operation, why);
    return HANDOFF_ERR_SPINE_UNAVAILABLE;
}

enum handoff_spine_progress handoff_remote_cannot(const struct handoff_remote_spine *spine,
                                                  struct handoff_spine_call *call,
                                                  enum handoff_remote_operation operation)
{
    call->asked = false;
    handoff_error_set(&call->error, HANDOFF_ERR_SPINE_CANNOT,
                      "the configured spine does not support this operation", "spine", NULL);
    handoff_error_seen(&call->error, "%s spine, whose server lacks what the table has for %s",
                       spine->wire->kind, handoff_remote_operation_name(operation));
    return HANDOFF_SPINE_DONE;
}

enum handoff_spine_progress handoff_remote_left_alone(struct handoff_spine_call *call)
{
    call->asked = false;
    handoff_remote_unavailable("circuit", "it failed several times in a row and is left alone",
                               &call->error);
    return HANDOFF_SPINE_DONE;
}

static enum handoff_remote_verdict refuse_remote_change(const char *operation, const char *why,
                                                        struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_INVALID, "the spine refused the memory", "spine", NULL);
    handoff_error_seen(error, "%s: %s", operation, why);
    return HANDOFF_REMOTE_REFUSED;
}

/* Nothing at the pointer, where it leads to one memory, is that there is none. */
static enum handoff_remote_verdict find_values(const struct handoff_remote_spine *spine,
                                               enum handoff_remote_operation operation,
                                               yyjson_val *document, yyjson_val **values,
                                               struct handoff_error *error)
{
    const struct base_span pointer = spine->table.rows[operation].memories;
    *values = pointer.size ? yyjson_ptr_getn(document, pointer.data, pointer.size) : document;
    if (yyjson_is_obj(*values) || yyjson_is_arr(*values))
        return HANDOFF_REMOTE_ANSWERED;
    if (operation == HANDOFF_REMOTE_GET && yyjson_is_null(*values))
        return HANDOFF_REMOTE_ABSENT;
    handoff_remote_unavailable(handoff_remote_operation_name(operation),
                               "its answer has nothing at the pointer of the table", error);
    return HANDOFF_REMOTE_FAILED;
}

/* Anything but nothing: a cursor, true, a number of memories that are left. */
static bool says_more(const struct handoff_remote_row *row, yyjson_val *document)
{
    yyjson_val *said =
        row->more.data ? yyjson_ptr_getn(document, row->more.data, row->more.size) : NULL;
    int64_t left = 0;
    return yyjson_is_true(said) || (yyjson_is_str(said) && yyjson_get_len(said) > 0) ||
           (base_json_whole(said, &left) && left > 0);
}

enum handoff_remote_verdict handoff_remote_read_answer(const struct handoff_remote_spine *spine,
                                                       enum handoff_remote_operation operation,
                                                       const struct handoff_remote_request *request,
                                                       struct base_arena *arena,
                                                       yyjson_val **values, bool *more,
                                                       struct handoff_error *error)
{
    struct handoff_remote_answer answer = {0};
    const char *name = handoff_remote_operation_name(operation);
    const enum handoff_remote_verdict verdict =
        spine->wire->judge(&spine->table.rows[operation], operation, request, arena, &answer);
    if (more)
        *more = answer.document && says_more(&spine->table.rows[operation], answer.document);
    if (verdict == HANDOFF_REMOTE_ANSWERED && !handoff_remote_changes(operation))
        return find_values(spine, operation, answer.document, values, error);
    if (verdict == HANDOFF_REMOTE_REFUSED && handoff_remote_changes(operation))
        return refuse_remote_change(name, answer.why, error);
    if (verdict != HANDOFF_REMOTE_ANSWERED && verdict != HANDOFF_REMOTE_ABSENT)
        handoff_remote_unavailable(name, answer.why, error);
    return verdict;
}

/* An id that no memory has: whatever the answer says, it is one. */
static void make_probe(void *context, struct handoff_remote_request *request)
{
    const struct handoff_remote_spine *spine = context;
    const struct base_span id = base_span_text("handoff-exporter-probe");
    const struct handoff_remote_values values = {.id = id, .ids = &id, .id_count = 1};
    handoff_remote_make_request(spine, handoff_remote_lookup(spine), &values, request);
}

static bool is_probe_answered(void *context, const struct handoff_remote_request *request)
{
    const struct handoff_remote_spine *spine = context;
    struct base_arena arena;
    struct handoff_error error = {0};
    yyjson_val *values;
    base_arena_init(&arena, 0);
    const enum handoff_remote_verdict verdict = handoff_remote_read_answer(
        spine, handoff_remote_lookup(spine), request, &arena, &values, NULL, &error);
    base_arena_free(&arena);
    return verdict != HANDOFF_REMOTE_FAILED; /* the id may not be one that the server allows */
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void free_remote_spine(struct handoff_remote_spine *spine)
{
    handoff_remote_exchange_close(&spine->exchange);
    if (spine->session)
        spine->wire->close_session(spine->session);
    handoff_remote_table_free(&spine->table);
    base_free(spine);
}

static void close_remote(struct handoff_spine *spine)
{
    free_remote_spine(handoff_remote_spine_of(spine));
}

static bool is_remote_up(struct handoff_spine *spine)
{
    return handoff_remote_exchange_is_up(handoff_remote_spine_of(spine)->exchange);
}

static void join_remote(struct handoff_spine *spine, struct base_loop *loop)
{
    handoff_remote_exchange_join(handoff_remote_spine_of(spine)->exchange, loop);
}

static void leave_remote(struct handoff_spine *spine, struct base_loop *loop)
{
    struct handoff_remote_exchange *exchange = handoff_remote_spine_of(spine)->exchange;
    handoff_remote_exchange_leave(exchange, loop);
    handoff_remote_exchange_give_up(exchange, &loop->mailbox);
}

static const char *lacks_of_remote(struct handoff_spine *spine)
{
    const struct handoff_remote_spine *remote = handoff_remote_spine_of(spine);
    return *remote->lacks ? remote->lacks : NULL;
}

static void list_what_lacks(struct handoff_remote_spine *spine)
{
    static const enum handoff_remote_operation told[] = {
        HANDOFF_REMOTE_SEARCH, HANDOFF_REMOTE_RECENT, HANDOFF_REMOTE_PINNED, HANDOFF_REMOTE_PUT,
        HANDOFF_REMOTE_DELETE};
    size_t used = 0;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        if (!handoff_remote_has(spine, told[i]))
            used += (size_t)snprintf(spine->lacks + used, sizeof spine->lacks - used, "%s%s",
                                     used ? ", " : "", handoff_remote_operation_name(told[i]));
    }
}

static void fill_driver(struct handoff_remote_spine *spine)
{
    struct handoff_spine_driver *driver = &spine->driver;
    *driver = (struct handoff_spine_driver){.kind = spine->wire->kind,
                                            .can = HANDOFF_SPINE_CAN_RESOLVE,
                                            .resolve = handoff_remote_resolve,
                                            .is_up = is_remote_up,
                                            .lacks = lacks_of_remote,
                                            .join = join_remote,
                                            .leave = leave_remote,
                                            .close = close_remote};
    if (handoff_remote_has(spine, HANDOFF_REMOTE_PUT)) {
        driver->can |= HANDOFF_SPINE_CAN_PUT;
        driver->put = handoff_remote_put;
    }
    if (handoff_remote_has(spine, HANDOFF_REMOTE_DELETE)) {
        driver->can |= HANDOFF_SPINE_CAN_REMOVE;
        driver->remove = handoff_remote_remove;
    }
}

static void take_greeting(void *context)
{
    struct handoff_remote_spine *spine = context;
    atomic_store(&spine->unusable, spine->wire->session_lacks(spine->session));
}

static enum handoff_code open_exchange(struct handoff_remote_spine *spine,
                                       const struct handoff_spine_options *options,
                                       handoff_remote_ran_short *on_shortage, void *observer,
                                       struct handoff_error *error)
{
    if (spine->wire->open_session) {
        spine->session = spine->wire->open_session(&spine->table);
        if (!spine->session)
            return handoff_error_no_memory(error);
    }
    const struct handoff_remote_exchange_options exchange = {
        .url = options->url,
        .accept = spine->wire->accept,
        .bearer_token = options->bearer_token,
        .ca_file = options->ca_file,
        .cert_file = options->cert_file,
        .key_file = options->key_file,
        .timeout_ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_MS,
        .connections = options->connections ? options->connections : CONNECTIONS,
        .make_probe = make_probe,
        .is_probe_answered = is_probe_answered,
        .context = spine,
        .conversation = spine->wire->conversation,
        .session = spine->session,
        .greeted = take_greeting,
        .on_shortage = on_shortage,
        .observer = observer};
    return handoff_remote_exchange_open(&spine->exchange, &exchange, error);
}

enum handoff_code handoff_remote_spine_open(struct handoff_spine **spine,
                                            const struct handoff_remote_wire *wire,
                                            const struct handoff_spine_options *options,
                                            handoff_remote_ran_short *on_shortage, void *observer,
                                            struct handoff_error *error)
{
    *spine = NULL;
    struct handoff_remote_spine *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    made->wire = wire;
    atomic_init(&made->unusable, 0);
    enum handoff_code code = handoff_remote_table_read(&made->table, wire, options->table, error);
    if (code == HANDOFF_OK) {
        fill_driver(made);
        handoff_spine_init(&made->spine, &made->driver, (struct handoff_memory_limits){0});
        code = open_exchange(made, options, on_shortage, observer, error);
    }
    if (code != HANDOFF_OK) {
        free_remote_spine(made);
        return code;
    }
    list_what_lacks(made); /* now it is known what the server has */
    *spine = &made->spine;
    return HANDOFF_OK;
}
