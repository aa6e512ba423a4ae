/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_stream.h - an answer of server-sent events (text/event-stream, the HTML standard).
 *
 * Its host gives it one event at a time, and the next one when the kernel has taken that in full:
 * so a client that does not read costs one event, and is cut as any other reader is that is too
 * slow. Where there is nothing to send, the connection sleeps, and gets a comment from time to
 * time: proxies and NAT tables keep it then, and a client that has vanished without a word is found
 * out.
 *
 * On the loop of the request.
 */
#ifndef EXPORTER_HTTP_EVENT_STREAM_H
#define EXPORTER_HTTP_EVENT_STREAM_H

#include "exporter/http/http.h"
#include "lib/base/buffer.h"

#define EXPORTER_EVENT_STREAM_TYPE "text/event-stream"

struct exporter_event_stream;

struct exporter_event_stream_host {
    void (*sent)(void *arg); /* the kernel has what was given, or the opening: the next may come */
    /* Before each comment: whether it may go on; else it ends. */
    bool (*may_go_on)(void *arg);
    /* The last call. So many of the events that were given last did not reach the client's machine
     * in full. */
    void (*closed)(void *arg, unsigned lost);
    void *arg;
};

/* Answers the request; `opening` is sent first, and taken over. `*at` is set before anything is
 * called; `closed` is called also where the request cannot be answered, maybe before this returns.
 */
void exporter_event_stream_begin(struct exporter_request *request, struct base_buffer *opening,
                                 const struct exporter_event_stream_host *host,
                                 struct exporter_event_stream **at);
/* After `sent`. The bytes of one event are taken over. False: other clients take all the memory
 * there is. */
bool exporter_event_stream_give(struct exporter_event_stream *stream, struct base_buffer *event);
/* What was given is still sent. */
void exporter_event_stream_end(struct exporter_event_stream *stream);

#endif
