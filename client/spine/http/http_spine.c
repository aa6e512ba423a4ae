/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP spine: which calls it has, by its table, and what its answers say. Calls come from any
 * thread; their answers are read on the exchange's thread.
 */
#include "client/spine/http/http_spine.h"

#include <stdio.h>
#include <string.h>

#include "client/spine/http/http_internal.h"
#include "lib/base/container.h"
#include "lib/base/error.h"
#include "lib/base/json.h"
#include "lib/base/memory.h"

enum { TIMEOUT_MS = 2000, CONNECTIONS = 16 };

struct handoff_http_spine *handoff_http_spine_of(struct handoff_spine *spine)
{
    return BASE_CONTAINER_OF(spine, struct handoff_http_spine, spine);
}

/* ---- requests and answers -------------------------------------------------------------------- */

void handoff_http_make_request(const struct handoff_http_spine *spine,
                               enum handoff_http_operation operation,
                               const struct handoff_http_values *values,
                               struct handoff_http_request *request)
{
    const struct handoff_http_row *row = &spine->table.rows[operation];
    *request = (struct handoff_http_request){.method = row->method};
    handoff_http_compose_path(row, values, &request->target);
    handoff_http_compose_body(row, values, &request->body);
}

enum handoff_code handoff_http_unavailable(const char *operation, const char *why,
                                           struct handoff_error *error)
{
    handoff_error_set(error, HANDOFF_ERR_SPINE_UNAVAILABLE, "the spine did not answer", "spine",
                      NULL);
    handoff_error_seen(error, "%s: %s", operation, why);
    return HANDOFF_ERR_SPINE_UNAVAILABLE;
}

yyjson_val *handoff_http_read_answer(const struct handoff_http_spine *spine,
                                     enum handoff_http_operation operation,
                                     const struct handoff_http_request *request,
                                     struct base_arena *arena, struct handoff_error *error)
{
    char why[64];
    yyjson_doc *doc;
    const char *name = handoff_http_operation_name(operation);
    const struct base_span pointer = spine->table.rows[operation].memories;
    if (request->failure || request->status < 200 || request->status > 299) {
        snprintf(why, sizeof why, "status %ld", request->status);
        handoff_http_unavailable(name, request->failure ? request->failure : why, error);
        return NULL;
    }
    if (base_json_read_in(arena, base_buffer_span(&request->answer), "answer", &doc, error) !=
        HANDOFF_OK) {
        handoff_http_unavailable(name, "its answer is not JSON", error);
        return NULL;
    }
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *found = pointer.size ? yyjson_ptr_getn(root, pointer.data, pointer.size) : root;
    if (!yyjson_is_obj(found) && !yyjson_is_arr(found)) {
        handoff_http_unavailable(name, "its answer has nothing at the pointer of the table", error);
        return NULL;
    }
    return found;
}

/* An id that no memory has: whatever the answer says, it is one. */
static void make_probe(void *context, struct handoff_http_request *request)
{
    const struct handoff_http_spine *spine = context;
    const struct base_span id = base_span_text("handoff-exporter-probe");
    const struct handoff_http_values values = {.id = id, .ids = &id, .id_count = 1};
    const bool has_get = spine->table.rows[HANDOFF_HTTP_GET].method != NULL;
    handoff_http_make_request(spine, has_get ? HANDOFF_HTTP_GET : HANDOFF_HTTP_GET_MANY, &values,
                              request);
}

static bool is_probe_readable(void *context, const struct handoff_http_request *request)
{
    const struct handoff_http_spine *spine = context;
    const bool has_get = spine->table.rows[HANDOFF_HTTP_GET].method != NULL;
    struct base_arena arena;
    struct handoff_error error;
    if (handoff_http_request_refused(request)) /* the id may not be one that the server allows */
        return true;
    base_arena_init(&arena, 0);
    const bool readable =
        handoff_http_read_answer(spine, has_get ? HANDOFF_HTTP_GET : HANDOFF_HTTP_GET_MANY, request,
                                 &arena, &error) != NULL;
    base_arena_free(&arena);
    return readable;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void free_http_spine(struct handoff_http_spine *spine)
{
    handoff_http_exchange_close(&spine->exchange);
    handoff_http_table_free(&spine->table);
    base_free(spine);
}

static void close_http(struct handoff_spine *spine)
{
    free_http_spine(handoff_http_spine_of(spine));
}

static bool is_http_up(struct handoff_spine *spine)
{
    return handoff_http_exchange_is_up(handoff_http_spine_of(spine)->exchange);
}

static const char *lacks_of_http(struct handoff_spine *spine)
{
    const struct handoff_http_spine *http = handoff_http_spine_of(spine);
    return *http->lacks ? http->lacks : NULL;
}

static void list_what_lacks(struct handoff_http_spine *spine)
{
    static const enum handoff_http_operation told[] = {HANDOFF_HTTP_SEARCH, HANDOFF_HTTP_RECENT,
                                                       HANDOFF_HTTP_PINNED, HANDOFF_HTTP_PUT,
                                                       HANDOFF_HTTP_DELETE};
    size_t used = 0;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        if (!spine->table.rows[told[i]].method)
            used += (size_t)snprintf(spine->lacks + used, sizeof spine->lacks - used, "%s%s",
                                     used ? ", " : "", handoff_http_operation_name(told[i]));
    }
}

static void fill_driver(struct handoff_http_spine *spine)
{
    struct handoff_spine_driver *driver = &spine->driver;
    *driver = (struct handoff_spine_driver){.kind = "http",
                                            .can = HANDOFF_SPINE_CAN_RESOLVE,
                                            .resolve = handoff_http_resolve,
                                            .is_up = is_http_up,
                                            .lacks = lacks_of_http,
                                            .close = close_http};
    if (spine->table.rows[HANDOFF_HTTP_PUT].method) {
        driver->can |= HANDOFF_SPINE_CAN_PUT;
        driver->put = handoff_http_put;
    }
    if (spine->table.rows[HANDOFF_HTTP_DELETE].method) {
        driver->can |= HANDOFF_SPINE_CAN_REMOVE;
        driver->remove = handoff_http_remove;
    }
    list_what_lacks(spine);
}

static enum handoff_code open_http_exchange(struct handoff_http_spine *spine,
                                            const struct handoff_spine_options *options,
                                            handoff_http_spine_ran_short *on_shortage,
                                            void *observer, struct handoff_error *error)
{
    const struct handoff_http_exchange_options exchange = {
        .url = options->url,
        .bearer_token = options->bearer_token,
        .ca_file = options->ca_file,
        .cert_file = options->cert_file,
        .key_file = options->key_file,
        .timeout_ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_MS,
        .connections = options->connections ? options->connections : CONNECTIONS,
        .make_probe = make_probe,
        .is_probe_readable = is_probe_readable,
        .context = spine,
        .on_shortage = on_shortage,
        .observer = observer};
    return handoff_http_exchange_open(&spine->exchange, &exchange, error);
}

enum handoff_code handoff_http_spine_open(struct handoff_spine **spine,
                                          const struct handoff_spine_options *options,
                                          handoff_http_spine_ran_short *on_shortage, void *observer,
                                          struct handoff_error *error)
{
    *spine = NULL;
    struct handoff_http_spine *made = base_calloc(1, sizeof *made);
    if (!made)
        return handoff_error_no_memory(error);
    enum handoff_code code = handoff_http_table_read(&made->table, options->table, error);
    if (code == HANDOFF_OK) {
        fill_driver(made);
        handoff_spine_init(&made->spine, &made->driver, (struct handoff_memory_limits){0});
        code = open_http_exchange(made, options, on_shortage, observer, error);
    }
    if (code != HANDOFF_OK)
        free_http_spine(made);
    else
        *spine = &made->spine;
    return code;
}

enum handoff_code handoff_spine_options_check(const struct handoff_spine_options *options,
                                              struct handoff_error *error)
{
    struct handoff_http_table table;
    enum handoff_code code = handoff_http_table_read(&table, options->table, error);
    handoff_http_table_free(&table);
    return code;
}
