/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events, see event_stream.h. On the loop of the request. */
#include "exporter/http/event_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "exporter/http/http_private.h"
#include "exporter/http/socket_pace.h"
#include "lib/base/check.h"
#include "lib/base/container.h"

enum {
    EVENT_STREAM_MAGIC = 0x73736521,
    COMMENT_MS = 15000,        /* proxies close what is silent for 30 s to 60 s */
    EVENTS_KEPT = 32,          /* no more are given to a client that acknowledges none */
    UNACKNOWLEDGED_MS = 60000, /* then the kernel gives a client up; it would try for 15 minutes */
};

static const char comment[] = ": keep-alive\n\n";

enum sending { SENDING_NOTHING, SENDING_COMMENT, SENDING_OPENING, SENDING_EVENT };

struct exporter_event_stream {
    unsigned magic;
    struct exporter_request *request;
    struct exporter_event_stream_host host;
    enum sending sending;
    struct base_buffer out; /* what is being sent */
    size_t sent;
    struct base_buffer event;  /* waits behind a comment; empty: none does */
    size_t held;               /* of events, in the connection's account (held.h) */
    int64_t ends[EVENTS_KEPT]; /* of the last events, in bytes of the connection; a ring */
    unsigned count;            /* of events that the kernel has */
    bool resting, is_over;
    struct base_timer timer;
};

/* ---- sending --------------------------------------------------------------------------------- */

static void begin_event(struct exporter_event_stream *stream)
{
    stream->out = stream->event;
    stream->event = (struct base_buffer){0};
    stream->sending = SENDING_EVENT;
}

/* The kernel has all of it. The host may give the next event at once. */
static void out_is_sent(struct exporter_event_stream *stream)
{
    const enum sending was = stream->sending;
    base_buffer_free(&stream->out);
    stream->sending = SENDING_NOTHING;
    stream->sent = 0;
    if (stream->event.size > 0)
        begin_event(stream);
    if (was == SENDING_EVENT) {
        stream->ends[stream->count++ % EVENTS_KEPT] =
            exporter_socket_written(stream->request->connection->fd);
        exporter_held_drop(stream->request->connection, stream->held);
        stream->held = 0;
    }
    if (was != SENDING_COMMENT && !stream->is_over)
        stream->host.sent(stream->host.arg);
}

static ssize_t read_events(void *arg, char *bytes, size_t max)
{
    struct exporter_event_stream *stream = arg;
    BASE_CHECK_MAGIC(stream, EVENT_STREAM_MAGIC);
    if (stream->sending != SENDING_NOTHING && stream->sent == stream->out.size)
        out_is_sent(stream);
    const size_t left = stream->out.size - stream->sent;
    const size_t length = left < max ? left : max;
    stream->resting = length == 0;
    if (length == 0)
        return stream->is_over ? EXPORTER_STREAM_END : EXPORTER_STREAM_WAIT;
    memcpy(bytes, stream->out.data + stream->sent, length);
    stream->sent += length;
    return (ssize_t)length;
}

static void send_out(struct exporter_event_stream *stream)
{
    if (stream->resting)
        exporter_request_wake_stream(stream->request);
}

static void start_timer(struct exporter_event_stream *stream)
{
    base_loop_start_timer(exporter_request_loop(stream->request), &stream->timer, COMMENT_MS);
}

static void comment_is_due(struct base_timer *timer)
{
    struct exporter_event_stream *stream =
        BASE_CONTAINER_OF(timer, struct exporter_event_stream, timer);
    BASE_CHECK_MAGIC(stream, EVENT_STREAM_MAGIC);
    start_timer(stream);
    if (!stream->host.may_go_on(stream->host.arg)) {
        exporter_event_stream_end(stream);
        return;
    }
    if (stream->sending == SENDING_NOTHING) {
        base_buffer_append(&stream->out, comment, sizeof comment - 1);
        stream->sending = SENDING_COMMENT;
        send_out(stream);
    }
}

/* The client cannot have read what its machine has not acknowledged. */
static unsigned count_lost(const struct exporter_event_stream *stream)
{
    const int64_t taken = exporter_socket_taken(stream->request->connection->fd);
    unsigned lost = 0;
    while (lost < EVENTS_KEPT && lost < stream->count &&
           stream->ends[(stream->count - lost - 1) % EVENTS_KEPT] > taken)
        lost++;
    return lost + (stream->sending == SENDING_EVENT || stream->event.size > 0);
}

static void close_events(void *arg)
{
    struct exporter_event_stream *stream = arg;
    BASE_CHECK_MAGIC(stream, EVENT_STREAM_MAGIC);
    const unsigned lost = count_lost(stream);
    base_timers_stop(&exporter_request_loop(stream->request)->timers, &stream->timer);
    exporter_held_drop(stream->request->connection, stream->held);
    base_buffer_free(&stream->out);
    base_buffer_free(&stream->event);
    stream->host.closed(stream->host.arg, lost);
    stream->magic = 0;
    free(stream);
}

/* ---- its life -------------------------------------------------------------------------------- */

/* One whose machine has lost its power or its network says nothing. */
static void limit_silence(const struct exporter_request *request)
{
    const unsigned limit_ms = UNACKNOWLEDGED_MS;
    setsockopt(request->connection->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

void exporter_event_stream_begin(struct exporter_request *request, struct base_buffer *opening,
                                 const struct exporter_event_stream_host *host,
                                 struct exporter_event_stream **at)
{
    static const struct exporter_reply reply = {
        .status = 200,
        .content_type = EXPORTER_EVENT_STREAM_TYPE,
        /* proxies would collect it, and caches keep it */
        .headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}}};
    struct exporter_event_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        base_buffer_free(opening);
        exporter_request_abandon(request);
        host->closed(host->arg, 0);
        return;
    }
    stream->magic = EVENT_STREAM_MAGIC;
    stream->request = request;
    stream->host = *host;
    stream->out = *opening;
    stream->sending = SENDING_OPENING;
    stream->timer = (struct base_timer){.fire = comment_is_due};
    *opening = (struct base_buffer){0};
    *at = stream;
    start_timer(stream);
    limit_silence(request);
    exporter_respond_stream(
        request, &reply,
        &(struct exporter_stream){.read = read_events, .close = close_events, .arg = stream});
}

/* A comment that is on its way goes first. */
bool exporter_event_stream_give(struct exporter_event_stream *stream, struct base_buffer *event)
{
    BASE_CHECK_MAGIC(stream, EVENT_STREAM_MAGIC);
    BASE_CHECK(stream->sending <= SENDING_COMMENT && stream->event.size == 0 && event->size > 0);
    struct exporter_connection *connection = stream->request->connection;
    if (!exporter_held_make_room(connection, event->size))
        return false;
    stream->held = event->size;
    exporter_held_add(connection, stream->held);
    stream->event = *event;
    *event = (struct base_buffer){0};
    if (stream->sending == SENDING_NOTHING)
        begin_event(stream);
    send_out(stream);
    return true;
}

void exporter_event_stream_end(struct exporter_event_stream *stream)
{
    BASE_CHECK_MAGIC(stream, EVENT_STREAM_MAGIC);
    stream->is_over = true;
    send_out(stream);
}
