/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a handler's reply to libmicrohttpd's. A request that cannot be answered is aborted: its
 * connection is closed, so that the client does not wait. On the request's loop thread.
 */
#include <stdlib.h>
#include <string.h>

#include "exporter/access/admission.h"
#include "exporter/http/crowd.h"
#include "exporter/http/http_private.h"
#include "exporter/log/log.h"
#include "lib/base/check.h"

enum { STREAM_BLOCK = 16 << 10 }; /* for HTTP/1.0 clients; the others use the header memory */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    /* libmicrohttpd refuses a value it cannot send; an answer without it is better than none. */
    if (MHD_add_response_header(response, name, value) != MHD_YES)
        log_debug("header_rejected", LOG_STR("name", name));
}

static void add_headers(struct exporter_request *request, struct MHD_Response *response,
                        const struct exporter_reply *reply)
{
    if (reply->content_type != NULL)
        add_header(response, "Content-Type", reply->content_type);
    for (size_t i = 0; i < EXPORTER_REPLY_HEADERS_MAX && reply->headers[i].name != NULL; i++)
        add_header(response, reply->headers[i].name, reply->headers[i].value);
    if (request->lenient)
        add_header(response, "Preference-Applied", "handling=lenient");
    struct exporter_header extra[EXPORTER_REPLY_HEADERS_MAX];
    const size_t count = exporter_admission_headers(request, extra, EXPORTER_REPLY_HEADERS_MAX);
    for (size_t i = 0; i < count; i++)
        add_header(response, extra[i].name, extra[i].value);
    if (request->server->quiesced || request->server->ending)
        add_header(response, "Connection", "close");
}

static void wake_connection(struct exporter_request *request)
{
    if (!request->suspended)
        return;
    request->suspended = false;
    request->connection->waiting = NULL;
    MHD_resume_connection(request->mhd);
    /* In external polling libmicrohttpd has no descriptor to report it. */
    base_source_wake(&request->server->source);
}

static void forget_deferral(struct exporter_request *request)
{
    if (!request->keeps_place)
        exporter_polls_forget(request);
    if (request->state == REQUEST_DEFERRED)
        LIST_REMOVE(request, entry);
}

void exporter_request_abandon(struct exporter_request *request)
{
    forget_deferral(request);
    request->state = REQUEST_ABANDONED;
    wake_connection(request);
}

static void begin_sending(struct exporter_request *request)
{
    struct exporter_connection *connection = request->connection;
    const int64_t now = base_monotonic_ms(&base_clock_system);
    exporter_connection_enter(connection, EXPORTER_PHASE_SENDING);
    exporter_crowd_begin_pace(connection, now);
    exporter_held_add(connection, request->answer_size);
    exporter_connection_deadline(connection, now + request->write_ms);
}

static void tell_of_answer(const struct exporter_request *request)
{
    const struct exporter_server_options *options = &request->server->options;
    if (options->on_answer != NULL)
        options->on_answer(options->on_answer_arg, request, request->match.route, request->problem);
}

/* Takes the response over; NULL (out of memory) cuts the connection. False: it was cut. */
static bool queue_response(struct exporter_request *request, const struct exporter_reply *reply,
                           struct MHD_Response *response)
{
    if (response == NULL) {
        exporter_request_abandon(request);
        return false;
    }
    add_headers(request, response, reply);
    const enum MHD_Result queued = MHD_queue_response(request->mhd, reply->status, response);
    MHD_destroy_response(response);
    if (queued != MHD_YES) {
        exporter_request_abandon(request);
        return false;
    }
    forget_deferral(request);
    request->state = REQUEST_ANSWERED;
    request->server->sending++;
    request->answer_size = reply->body != EXPORTER_BODY_STATIC ? reply->length : 0;
    tell_of_answer(request);
    begin_sending(request);
    wake_connection(request);
    return true;
}

static void check_unanswered(const struct exporter_request *request)
{
    BASE_CHECK_MAGIC(request, REQUEST_MAGIC);
    BASE_CHECK(request->state != REQUEST_ANSWERED && request->state != REQUEST_ABANDONED);
}

/* ---- warnings ------------------------------------------------------------------------------- */

/* Whether `warnings` can be one of its members. An envelope is answered byte for byte as it is
 * stored. */
static bool is_object_of_ours(const struct exporter_reply *reply)
{
    return reply->content_type != NULL && reply->length > 0 &&
           (strcmp(reply->content_type, "application/json") == 0 ||
            strcmp(reply->content_type, "application/problem+json") == 0);
}

/* The same object with one member more; NULL: out of memory. */
static char *add_member(const struct exporter_reply *reply, const char *warnings, size_t *length)
{
    static const char name[] = ",\"warnings\":";
    const char *text = reply->bytes;
    size_t end = reply->length; /* of the members: problems end in a line feed */
    while (end > 0 && text[end - 1] != '}')
        end--;
    BASE_CHECK(end > 1 && text[end - 2] != '{');
    const size_t size = strlen(warnings);
    char *longer = malloc(reply->length + sizeof name + size);
    if (longer == NULL)
        return NULL;
    char *at = mempcpy(longer, text, end - 1);
    at = mempcpy(at, name, sizeof name - 1);
    at = mempcpy(at, warnings, size);
    memcpy(at, text + end - 1, reply->length - (end - 1));
    *length = reply->length + sizeof name - 1 + size;
    return longer;
}

static bool respond_with_warnings(struct exporter_request *request,
                                  const struct exporter_reply *reply)
{
    struct exporter_reply warned = *reply;
    char *longer = NULL;
    size_t at = 0;
    if (is_object_of_ours(reply))
        longer = add_member(reply, request->warnings, &warned.length);
    while (longer == NULL && at < EXPORTER_REPLY_HEADERS_MAX - 1 && warned.headers[at].name != NULL)
        at++;
    if (longer == NULL)
        warned.headers[at] = (struct exporter_header){"Handoff-Warnings", request->warnings};
    request->warnings = NULL;
    if (longer != NULL) {
        if (reply->body == EXPORTER_BODY_GIVEN)
            free((void *)(uintptr_t)reply->bytes);
        warned.bytes = longer;
        warned.body = EXPORTER_BODY_GIVEN;
    }
    return exporter_respond(request, &warned);
}

/* Whether it can be asked for again: it tells of nothing that was done. */
static bool is_read(const struct exporter_request *request)
{
    return strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
}

/* The bytes of an answer that cannot be sent. */
static void drop_bytes(const struct exporter_reply *reply)
{
    if (reply->body == EXPORTER_BODY_GIVEN)
        free((void *)(uintptr_t)reply->bytes);
}

bool exporter_respond(struct exporter_request *request, const struct exporter_reply *reply)
{
    if (request->warnings != NULL)
        return respond_with_warnings(request, reply);
    if (!exporter_held_make_room(request->connection, reply->length) && is_read(request)) {
        drop_bytes(reply);
        exporter_respond_problem(request, &exporter_held_refusal);
        return false;
    }
    static const enum MHD_ResponseMemoryMode mode[] = {
        [EXPORTER_BODY_COPY] = MHD_RESPMEM_MUST_COPY,
        [EXPORTER_BODY_STATIC] = MHD_RESPMEM_PERSISTENT,
        [EXPORTER_BODY_GIVEN] = MHD_RESPMEM_MUST_FREE,
    };
    check_unanswered(request);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->length, (void *)(uintptr_t)reply->bytes, mode[reply->body]);
    if (response == NULL)
        drop_bytes(reply);
    return queue_response(request, reply, response);
}

/* ---- streams -------------------------------------------------------------------------------- */

/* A stream while it is sent: libmicrohttpd's, and known to its request. */
struct exporter_sending {
    struct exporter_stream stream;
    struct exporter_request *request; /* NULL: it is over */
};

/* Nothing is to be sent: the connection sleeps, and its client has all the time that we take. */
static ssize_t rest(struct exporter_request *request)
{
    struct exporter_connection *connection = request->connection;
    if (request->server->ending)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (connection->left)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    exporter_connection_enter(connection, EXPORTER_PHASE_WAITING);
    connection->deadline_ms = INT64_MAX;
    connection->waiting = request;
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
    return 0;
}

void exporter_request_wake_stream(struct exporter_request *request)
{
    BASE_CHECK_MAGIC(request, REQUEST_MAGIC);
    if (!request->suspended)
        return;
    begin_sending(request);
    wake_connection(request);
}

static ssize_t stream_read(void *arg, uint64_t position, char *bytes, size_t max)
{
    (void)position;
    struct exporter_sending *sending = arg;
    const ssize_t length = sending->stream.read(sending->stream.arg, bytes, max);
    if (length == EXPORTER_STREAM_WAIT)
        return rest(sending->request);
    if (length == EXPORTER_STREAM_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    return length >= EXPORTER_STREAM_LATER ? length : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void close_sending(struct exporter_sending *sending)
{
    if (sending->request == NULL)
        return;
    LIST_REMOVE(sending->request, entry);
    sending->request->sending = NULL;
    sending->request = NULL;
    sending->stream.close(sending->stream.arg);
}

/* Either of these comes first. */
static void free_sending(void *arg)
{
    close_sending(arg);
    free(arg);
}

void exporter_request_close_stream(struct exporter_request *request)
{
    if (request->sending != NULL)
        close_sending(request->sending);
}

/* Before it can be closed: the queue may refuse it. */
static void queue_stream(struct exporter_request *request, const struct exporter_reply *reply,
                         struct MHD_Response *response, struct exporter_sending *sending)
{
    forget_deferral(request);
    request->state = REQUEST_HANDLING;
    LIST_INSERT_HEAD(&request->server->streams, request, entry);
    request->sending = sending;
    sending->request = request;
    queue_response(request, reply, response);
}

void exporter_respond_stream(struct exporter_request *request, const struct exporter_reply *reply,
                             const struct exporter_stream *stream)
{
    check_unanswered(request);
    struct MHD_Response *response = NULL;
    struct exporter_sending *sending = malloc(sizeof *sending);
    if (sending != NULL) {
        *sending = (struct exporter_sending){.stream = *stream};
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read,
                                                     sending, free_sending);
    }
    if (response == NULL) {
        free(sending);
        stream->close(stream->arg);
        queue_response(request, reply, NULL);
        return;
    }
    queue_stream(request, reply, response, sending);
}

void exporter_request_limit_sending(struct exporter_request *request, int64_t delay_ms)
{
    request->write_ms = delay_ms;
}
