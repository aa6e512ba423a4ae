/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a handler's reply to libmicrohttpd's. A request that cannot be answered is aborted: its
 * connection is closed, so that the client does not wait. On the request's loop thread.
 */
#include <stdlib.h>

#include "exporter/access/admission.h"
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
    connection->pace = (struct exporter_pace){.since_ms = now, .taken = -1};
    exporter_connection_deadline(connection, now + request->write_ms);
}

/* Takes the response over; NULL (out of memory) cuts the connection. */
static void queue_response(struct exporter_request *request, const struct exporter_reply *reply,
                           struct MHD_Response *response)
{
    if (response == NULL) {
        exporter_request_abandon(request);
        return;
    }
    add_headers(request, response, reply);
    const enum MHD_Result queued = MHD_queue_response(request->mhd, reply->status, response);
    MHD_destroy_response(response);
    if (queued != MHD_YES) {
        exporter_request_abandon(request);
        return;
    }
    forget_deferral(request);
    request->state = REQUEST_ANSWERED;
    request->server->sending++;
    begin_sending(request);
    wake_connection(request);
}

static void check_unanswered(const struct exporter_request *request)
{
    BASE_CHECK_MAGIC(request, REQUEST_MAGIC);
    BASE_CHECK(request->state != REQUEST_ANSWERED && request->state != REQUEST_ABANDONED);
}

void exporter_respond(struct exporter_request *request, const struct exporter_reply *reply)
{
    static const enum MHD_ResponseMemoryMode mode[] = {
        [EXPORTER_BODY_COPY] = MHD_RESPMEM_MUST_COPY,
        [EXPORTER_BODY_STATIC] = MHD_RESPMEM_PERSISTENT,
        [EXPORTER_BODY_GIVEN] = MHD_RESPMEM_MUST_FREE,
    };
    check_unanswered(request);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->length, (void *)(uintptr_t)reply->bytes, mode[reply->body]);
    if (response == NULL && reply->body == EXPORTER_BODY_GIVEN)
        free((void *)(uintptr_t)reply->bytes);
    queue_response(request, reply, response);
}

static ssize_t stream_read(void *arg, uint64_t position, char *bytes, size_t max)
{
    (void)position;
    struct exporter_stream *stream = arg;
    const ssize_t length = stream->read(stream->arg, bytes, max);
    if (length == EXPORTER_STREAM_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    return length > 0 ? length : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void stream_close(void *arg)
{
    struct exporter_stream *stream = arg;
    stream->close(stream->arg);
    free(stream);
}

void exporter_respond_stream(struct exporter_request *request, const struct exporter_reply *reply,
                             const struct exporter_stream *stream)
{
    check_unanswered(request);
    struct MHD_Response *response = NULL;
    struct exporter_stream *copy = malloc(sizeof *copy);
    if (copy != NULL) {
        *copy = *stream;
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read,
                                                     copy, stream_close);
    }
    if (response == NULL) {
        free(copy);
        stream->close(stream->arg);
    }
    queue_response(request, reply, response);
}

void exporter_request_limit_sending(struct exporter_request *request, int64_t delay_ms)
{
    request->write_ms = delay_ms;
}
