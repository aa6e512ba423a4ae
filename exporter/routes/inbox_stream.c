/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An inbox as server-sent events: one event for each handoff that is leased to the stream.
 *
 * The client asks for the next handoff when the kernel has taken the one before in full, and only
 * while the stream holds fewer leases than it may. So a client that does not read, or does not
 * acknowledge, gets no more, and others of its agent do.
 *
 * On the loop of the request; the client answers there too.
 */
#include "exporter/routes/inbox.h"

#include <stdlib.h>
#include <string.h>

#include "client/calls/call.h"
#include "exporter/access/admission.h"
#include "exporter/client_host.h"
#include "exporter/http/event_stream.h"
#include "exporter/http/pending_call.h"
#include "exporter/http/polls.h"
#include "exporter/http/problem.h"
#include "lib/base/check.h"
#include "lib/base/json.h"

enum { INBOX_STREAM_MAGIC = 0x69626f78 };

struct inbox_stream {
    unsigned magic;
    struct exporter_request *request;
    struct exporter_event_stream *events;
    struct handoff_follower *follower; /* NULL: it is over */
};

/* ---- events ---------------------------------------------------------------------------------- */

/* Where its id is not empty, it is the client's last event from then on. */
static void write_opening(struct base_buffer *out, const char *first_id)
{
    base_buffer_text(out, ": handoffs of this inbox, one event each\nretry: 1000\n");
    if (*first_id != '\0')
        base_buffer_printf(out, "id: %s\n", first_id);
    base_buffer_byte(out, '\n');
}

/* Line ends are blanks in JSON, and would end the event's data. */
static void replace_line_ends(char *text, size_t size, char end)
{
    for (char *at = memchr(text, end, size); at != NULL;
         at = memchr(at, end, size - (size_t)(at - text)))
        *at = ' ';
}

static void write_pulled_body(struct base_buffer *out, const struct handoff_pulled *got)
{
    const size_t before = out->size;
    if (got->rendering == HANDOFF_RENDER_MARKDOWN) {
        base_json_write_string(out, base_span(got->envelope, got->size));
        return;
    }
    base_buffer_append(out, got->envelope, got->size);
    if (out->failed)
        return;
    replace_line_ends(out->data + before, got->size, '\n');
    replace_line_ends(out->data + before, got->size, '\r');
}

static void write_handoff_event(struct base_buffer *out, const struct handoff_pulled *got)
{
    struct exporter_inbox_headers headers;
    exporter_inbox_write_headers(&headers, got);
    base_buffer_printf(out, "event: handoff\nid: %s\ndata: {\"headers\":{\"Content-Type\":\"%s\"",
                       got->id, headers.content_type);
    for (size_t i = 0; i < headers.count; i++) {
        base_json_write_name(out, headers.rows[i].name);
        base_json_write_string(out, base_span_text(headers.rows[i].value));
    }
    base_buffer_text(out, "},\"body\":");
    write_pulled_body(out, got);
    base_buffer_text(out, "}\n\n");
}

/* Nothing is given to a client that has just left, as it would be lost until its lease ran out, nor
 * to one whose token a reload has revoked. */
static bool send_handoff(struct inbox_stream *stream, const struct handoff_pulled *got)
{
    struct base_buffer event = {0};
    if (exporter_request_has_left(stream->request) || !exporter_admission_holds(stream->request))
        return false;
    write_handoff_event(&event, got);
    if (!event.failed && exporter_event_stream_give(stream->events, &event))
        return true;
    base_buffer_free(&event);
    return false;
}

/* ---- the client ------------------------------------------------------------------------------ */

/* Without a handoff, or where it is not taken, the follower is gone. */
static bool handoff_given_to(void *arg, const struct handoff_pulled *got)
{
    struct inbox_stream *stream = arg;
    BASE_CHECK_MAGIC(stream, INBOX_STREAM_MAGIC);
    if (got->envelope != NULL && send_handoff(stream, got))
        return true;
    stream->follower = NULL;
    exporter_event_stream_end(stream->events);
    return false;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void event_sent(void *arg)
{
    struct inbox_stream *stream = arg;
    BASE_CHECK_MAGIC(stream, INBOX_STREAM_MAGIC);
    if (stream->follower != NULL)
        handoff_follow_next(stream->follower);
}

static bool may_go_on(void *arg)
{
    const struct inbox_stream *stream = arg;
    return exporter_admission_holds(stream->request);
}

static void free_stream(struct inbox_stream *stream)
{
    exporter_polls_forget(stream->request);
    stream->magic = 0;
    free(stream);
}

static void stream_closed(void *arg, unsigned lost)
{
    struct inbox_stream *stream = arg;
    BASE_CHECK_MAGIC(stream, INBOX_STREAM_MAGIC);
    if (stream->follower != NULL)
        handoff_follow_end(stream->follower, lost);
    free_stream(stream);
}

/* Its place is for another one. */
static void give_way(void *arg)
{
    struct inbox_stream *stream = arg;
    BASE_CHECK_MAGIC(stream, INBOX_STREAM_MAGIC);
    if (stream->events != NULL)
        exporter_event_stream_end(stream->events);
}

static void answer_with_events(struct inbox_stream *stream, const char *first_id)
{
    const struct exporter_event_stream_host host = {
        .sent = event_sent, .may_go_on = may_go_on, .closed = stream_closed, .arg = stream};
    struct base_buffer opening = {0};
    write_opening(&opening, first_id);
    exporter_event_stream_begin(stream->request, &opening, &host, &stream->events);
}

void exporter_inbox_follow(struct exporter_request *request, void *context)
{
    const struct handoff_call_input *input = exporter_request_input(request);
    const struct handoff_follow_options options = {
        .agent = input->id,
        .leases = input->pull.leases > 0 ? (unsigned)input->pull.leases : 1,
        .last_event = exporter_request_header(request, "Last-Event-ID")};
    struct handoff_error error = {.code = HANDOFF_OK};
    char first_id[37];
    struct inbox_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        handoff_error_no_memory(&error);
        exporter_respond_error(request, &error);
        return;
    }
    *stream = (struct inbox_stream){.magic = INBOX_STREAM_MAGIC, .request = request};
    if (!exporter_polls_keep(request, give_way, stream)) {
        free(stream);
        return;
    }
    stream->follower =
        handoff_follow(exporter_client_host_loop(context, exporter_request_loop(request)), &options,
                       handoff_given_to, stream, first_id, &error);
    if (stream->follower != NULL) {
        answer_with_events(stream, first_id);
        return;
    }
    free_stream(stream);
    exporter_respond_error(request, &error);
}
