/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request from its first header to the end of its answer.
 *
 * libmicrohttpd calls exporter_request_handle() once when the headers are there, once for each
 * piece of the body, and once more when the body is complete; only then the handler runs. What is
 * refused (no such route, body too large) is decided at the first call, but mostly answered at the
 * last: a client that is still sending would lose an early answer to the reset of its connection.
 * Only a body too large to be read for that courtesy, or one that waits for "100 Continue", is
 * refused at once.
 *
 * Invariants: a request is answered exactly once. A deferred request has its connection suspended,
 * and libmicrohttpd never frees a suspended connection, so the request is good until it is answered
 * or cancelled, whatever the client does meanwhile.
 */
#include "exporter/http/http.h"

#include <stdlib.h>

#include "exporter/access/admission.h"
#include "exporter/http/framing.h"
#include "exporter/http/http_private.h"
#include "exporter/http/input.h"
#include "exporter/http/long_input.h"
#include "exporter/http/problem.h"
#include "lib/base/check.h"

/* ---- deferring ------------------------------------------------------------------------------ */

void exporter_request_defer(struct exporter_request *request, void (*cancelled)(void *arg),
                            void *arg)
{
    BASE_CHECK_MAGIC(request, REQUEST_MAGIC);
    BASE_CHECK(request->state == REQUEST_HANDLING || request->state == REQUEST_DEFERRED);
    if (request->state == REQUEST_HANDLING)
        LIST_INSERT_HEAD(&request->server->deferred, request, entry);
    request->state = REQUEST_DEFERRED;
    request->cancelled = cancelled;
    request->cancelled_arg = arg;
}

void exporter_request_answers_soon(struct exporter_request *request)
{
    BASE_CHECK(request->state == REQUEST_DEFERRED);
    request->is_soon = true;
}

void exporter_request_cancel(struct exporter_request *request)
{
    BASE_CHECK_MAGIC(request, REQUEST_MAGIC);
    BASE_CHECK(request->state == REQUEST_DEFERRED);
    request->cancelled(request->cancelled_arg);
    exporter_request_abandon(request);
}

/* ---- handling ------------------------------------------------------------------------------- */

static void respond_options(struct exporter_request *request)
{
    struct exporter_reply reply = {.status = 204};
    reply.headers[0] = (struct exporter_header){"Allow", request->match.allow};
    exporter_respond(request, &reply);
}

/* A filter that cannot be read is not one that is absent: the answer would be of everything. False:
 * that was answered. */
static bool decode_query(struct exporter_request *request)
{
    static const struct exporter_problem no_memory = {.code = HANDOFF_ERR_OUT_OF_MEMORY,
                                                      .detail = "out of memory (query)"};
    struct exporter_problem no_text = {.code = HANDOFF_ERR_INVALID,
                                       .detail = "query parameter is not valid UTF-8",
                                       .allowed = "UTF-8, percent-encoded, without NUL"};
    if (!exporter_query_read(&request->query, request->mhd)) {
        exporter_respond_problem(request, &no_memory);
        return false;
    }
    no_text.field = exporter_request_query_no_text(request);
    if (no_text.field == NULL)
        return true;
    exporter_respond_problem(request, &no_text);
    return false;
}

static void run_call(struct exporter_request *request, struct exporter_input *input)
{
    const struct exporter_route *route = request->match.route;
    if (!exporter_input_accept(request, input))
        return;
    request->input = input;
    route->handle(request, route->context);
    request->input = NULL;
}

static void run_handler(struct exporter_request *request)
{
    const struct exporter_route *route = request->match.route;
    struct exporter_input input;
    if (route->call == NULL) {
        route->handle(request, route->context);
        return;
    }
    if (!exporter_input_open(request, route->call, &input))
        return;
    if (exporter_input_is_long(&input)) {
        exporter_long_input_begin(request, &input);
        return;
    }
    exporter_input_read(&input);
    run_call(request, &input);
    exporter_input_close(&input);
}

void exporter_request_admitted(struct exporter_request *request)
{
    if (request->refusal.code != HANDOFF_OK)
        exporter_respond_problem(request, &request->refusal);
    else if (request->match.route == NULL)
        respond_options(request);
    else if (exporter_admission_authorize(request) && decode_query(request))
        run_handler(request);
    if (!request->is_being_read)
        exporter_request_drop_body(request);
}

/* Whether it goes on waiting; not where its client has left, before its request was read. */
static bool watch_client(struct exporter_request *request)
{
    if (request->connection->left && !request->is_soon) {
        exporter_request_cancel(request);
        return false;
    }
    request->connection->waiting = request->is_soon ? NULL : request;
    return true;
}

static void suspend(struct exporter_request *request)
{
    if (!watch_client(request))
        return;
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
}

/* What the handlers work with is gone. */
static void refuse_at_the_end(struct exporter_request *request)
{
    static const struct exporter_problem ending = {.code = HANDOFF_ERR_SHUTTING_DOWN,
                                                   .detail = "the process is shutting down"};
    exporter_respond_problem(request, &ending);
}

void exporter_request_was_read(struct exporter_request *request, struct exporter_input *input)
{
    BASE_CHECK(request->state == REQUEST_DEFERRED && request->is_being_read);
    request->is_being_read = request->is_soon = false;
    if (request->server->ending)
        refuse_at_the_end(request);
    else
        run_call(request, input);
    exporter_request_drop_body(request);
    if (request->state == REQUEST_DEFERRED)
        watch_client(request);
}

static void handle(struct exporter_request *request)
{
    request->state = REQUEST_HANDLING;
    exporter_connection_enter(request->connection, EXPORTER_PHASE_WAITING);
    request->connection->deadline_ms = INT64_MAX;
    if (request->server->ending)
        refuse_at_the_end(request);
    else if (request->barred)
        exporter_respond_problem(request, &request->refusal);
    else
        exporter_admission_authenticate(request);
    BASE_CHECK(request->state != REQUEST_HANDLING); /* a handler that forgot to answer */
    if (request->state == REQUEST_DEFERRED)
        suspend(request);
}

static struct exporter_request *request_new(struct exporter_server *server,
                                            struct MHD_Connection *mhd, const char *url,
                                            const char *method)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exporter_connection *connection = info != NULL ? info->socket_context : NULL;
    if (connection == NULL)
        return NULL; /* it was made when memory was short */
    BASE_CHECK_MAGIC(connection, CONNECTION_MAGIC);
    exporter_connection_wake(connection);
    struct exporter_request *request = calloc(1, sizeof *request);
    if (request == NULL)
        return NULL;
    request->magic = REQUEST_MAGIC;
    request->server = server;
    request->connection = connection;
    request->mhd = mhd;
    request->method = method;
    request->raw_path = url;
    request->began_ms = base_monotonic_ms(&base_clock_system);
    request->write_ms = server->options.limits.write_ms;
    atomic_fetch_add(&server->in_flight, 1);
    return request;
}

/* Whether it has to be answered before its body was sent: nobody can say where that would end, or
 * it would take too long. */
static bool is_refused_at_once(struct exporter_request *request, const char *version)
{
    if (!exporter_framing_check(request, version)) {
        request->barred = true;
        return true;
    }
    exporter_request_route(request);
    exporter_admission_check_headers(request);
    return exporter_request_check_length(request);
}

static enum MHD_Result begin_request(struct exporter_server *server, struct MHD_Connection *mhd,
                                     const char *url, const char *method, const char *version,
                                     void **context)
{
    struct exporter_request *request = request_new(server, mhd, url, method);
    if (request == NULL)
        return MHD_NO;
    *context = request;
    if (is_refused_at_once(request, version))
        handle(request);
    return request->state == REQUEST_ABANDONED ? MHD_NO : MHD_YES;
}

enum MHD_Result exporter_request_handle(void *server_arg, struct MHD_Connection *mhd,
                                        const char *url, const char *method, const char *version,
                                        const char *upload, size_t *upload_size, void **context)
{
    struct exporter_server *server = server_arg;
    BASE_CHECK_MAGIC(server, SERVER_MAGIC);
    struct exporter_request *request = *context;
    if (request == NULL)
        return begin_request(server, mhd, url, method, version, context);
    BASE_CHECK_MAGIC(request, REQUEST_MAGIC);
    if (*upload_size > 0) {
        const size_t length = *upload_size;
        *upload_size = 0;
        return exporter_request_take(request, upload, length) ? MHD_YES : MHD_NO;
    }
    if (request->state == REQUEST_RECEIVING)
        handle(request);
    return request->state == REQUEST_ABANDONED ? MHD_NO : MHD_YES;
}

static void request_free(struct exporter_request *request)
{
    while (request->scratch != NULL) {
        struct exporter_scratch *next = request->scratch->next;
        free(request->scratch);
        request->scratch = next;
    }
    exporter_query_free(&request->query);
    exporter_request_drop_body(request);
    request->magic = 0;
    free(request);
}

void exporter_request_completed(void *server_arg, struct MHD_Connection *mhd, void **context,
                                enum MHD_RequestTerminationCode how)
{
    (void)mhd;
    struct exporter_server *server = server_arg;
    struct exporter_request *request = *context;
    if (request == NULL)
        return;
    BASE_CHECK_MAGIC(request, REQUEST_MAGIC);
    BASE_CHECK(request->state != REQUEST_DEFERRED);
    *context = NULL;
    exporter_request_close_stream(request);
    if (request->state == REQUEST_ANSWERED)
        server->sending--;
    exporter_held_drop(request->connection, request->answer_size);
    exporter_slots_release(request, how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    exporter_connection_rest(request->connection);
    request_free(request);
    atomic_fetch_sub(&server->in_flight, 1);
}
