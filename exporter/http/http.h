/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - a request and its answer, as handlers see them.
 *
 * A handler is called on its listener's loop with the whole request, body included. It answers at
 * once, or calls exporter_request_defer() and answers later; the connection sleeps meanwhile and
 * costs no thread. Every request is answered exactly once; after its answer a handler must not
 * touch it again.
 *
 * Threads: everything here on the loop of the request. Who finishes elsewhere posts to
 * exporter_request_loop() and answers from there.
 *
 * Strings of a request live until it is answered.
 */
#ifndef EXPORTER_HTTP_HTTP_H
#define EXPORTER_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct base_loop;
struct exporter_request;
struct handoff_call_input;

/* ---- the request ---------------------------------------------------------------------------- */

const char *exporter_request_method(const struct exporter_request *request);
/* As it was sent, without the query. */
const char *exporter_request_path(const struct exporter_request *request);
/* The value that the i-th {segment} of the route's pattern took. */
const char *exporter_request_param(const struct exporter_request *request, size_t i);
/* The first of that name, or NULL. Names of headers are compared without case. */
const char *exporter_request_header(const struct exporter_request *request, const char *name);
/* All of that name, joined by commas as RFC 9110 has it; "" where there is none. NULL: out of
 * memory.
 */
const char *exporter_request_header_list(struct exporter_request *request, const char *name);
/* Decoded; the first of that name, or NULL. */
const char *exporter_request_query(struct exporter_request *request, const char *name);
/* The name of a parameter whose value decodes to no text; NULL: there is none. Handlers see none.
 */
const char *exporter_request_query_no_text(struct exporter_request *request);
/* The name of the first parameter that is not known; NULL: all are. */
const char *exporter_request_query_unknown(struct exporter_request *request,
                                           bool (*is_known)(void *arg, const char *name),
                                           void *arg);
/* All values of one query name: fills at most `max`, answers how many there are. */
size_t exporter_request_query_all(struct exporter_request *request, const char *name,
                                  const char **values, size_t max);
/* Lent until the handler returns, unlike all else: thousands may wait for their answers. */
const char *exporter_request_body(const struct exporter_request *request, size_t *length);
/* The inputs of the call, checked. Lent until the handler returns. */
const struct handoff_call_input *exporter_request_input(const struct exporter_request *request);
/* The request that is one of the inputs, as a text; NULL: there is none. Lent likewise. */
const char *exporter_request_document(const struct exporter_request *request, size_t *length);
/* Whether unknown fields of the body are to be ignored: Prefer: handling=lenient. The answer then
 * says that this was applied. */
bool exporter_request_is_lenient(struct exporter_request *request);
/* The same body without what is ignored of it, which is no longer. */
void exporter_request_shorten_body(struct exporter_request *request, const char *bytes,
                                   size_t length);
/* What was ignored, as a JSON array in ASCII; NULL: nothing. The answer gets it as `warnings`, or,
 * if it is no JSON object of ours, in the header Handoff-Warnings. To be called before the answer.
 */
void exporter_request_warn(struct exporter_request *request, const char *warnings);
/* The agent that calls; NULL: the caller may do everything. */
const char *exporter_request_caller(const struct exporter_request *request);
/* It has the operator's token, which is more than that no agent is known. */
bool exporter_request_is_operator(const struct exporter_request *request);
/* The agent that it hands off as where it is not known to be one; NULL: each request names it. */
const char *exporter_request_sender(const struct exporter_request *request);
/* The scopes that its token is bound to, separated by commas; NULL: it is not bound to scopes. */
const char *exporter_request_scopes(const struct exporter_request *request);
/* The channels that its token may publish to, or receive from, separated by commas; NULL: it is not
 * bound in that. */
const char *exporter_request_publish_channels(const struct exporter_request *request);
const char *exporter_request_receive_channels(const struct exporter_request *request);
/* The field that the problem is about which it was answered with; "": none. */
const char *exporter_request_problem_field(const struct exporter_request *request);
/* The agent that sent a request, as the client read it; its body may be gone by then. NULL: it is
 * not known. To be set before the answer. */
void exporter_request_name_source(struct exporter_request *request, const char *source);
const char *exporter_request_named_source(const struct exporter_request *request);
/* The client's address without its port, "unix" for a unix socket. */
const char *exporter_request_peer(const struct exporter_request *request);
struct base_loop *exporter_request_loop(const struct exporter_request *request);
/* When its headers were there, on the loop's clock. */
int64_t exporter_request_began_ms(const struct exporter_request *request);
/* The client has closed, or shut down its sending side; asks the kernel. */
bool exporter_request_has_left(const struct exporter_request *request);

/* ---- deferring ------------------------------------------------------------------------------ */

/* The answer comes later. `cancelled` is called, on the loop, when it will not be needed any more
 * because the client left or the daemon stops; the request is gone after that call. */
void exporter_request_defer(struct exporter_request *request, void (*cancelled)(void *arg),
                            void *arg);

/* After a deferral, within the handler: what is waited for is no agent but ours, and comes soon. So
 * a client that closes its sending side meanwhile is not taken for one that left. */
void exporter_request_answers_soon(struct exporter_request *request);

/* ---- answering ------------------------------------------------------------------------------ */

struct exporter_header {
    const char *name;
    const char *value;
};

enum exporter_body {
    EXPORTER_BODY_COPY,   /* the bytes are copied during the call */
    EXPORTER_BODY_STATIC, /* they live for ever */
    EXPORTER_BODY_GIVEN,  /* they came from malloc and are freed after they were sent */
};

enum { EXPORTER_REPLY_HEADERS_MAX = 10 };

struct exporter_reply {
    unsigned status;
    const char *content_type;                                   /* NULL: no body */
    struct exporter_header headers[EXPORTER_REPLY_HEADERS_MAX]; /* up to the first NULL name */
    const void *bytes;
    size_t length;
    enum exporter_body body;
};

/* False: this answer is not on its way. Its request was answered that there is no room for it, or
 * its connection is cut. */
bool exporter_respond(struct exporter_request *request, const struct exporter_reply *reply);

/* A body that is made while it is sent. Its length is not known beforehand. */
enum {
    EXPORTER_STREAM_LATER = 0,
    EXPORTER_STREAM_END = -1,
    EXPORTER_STREAM_FAILED = -2,
    EXPORTER_STREAM_WAIT = -3,
};

struct exporter_stream {
    /* Fills up to `max` bytes and answers how many; LATER, if it takes longer than a turn of the
     * loop may: it is called again in the next one; WAIT, if there is nothing to send: it is called
     * again after exporter_request_wake_stream; END; or FAILED, which cuts the connection, so that
     * the client cannot take the answer for whole. Once it is called, what it filled before is with
     * the kernel. */
    ssize_t (*read)(void *arg, char *bytes, size_t max);
    /* Called once, when the answer is over or the client went away. The request is gone after that.
     */
    void (*close)(void *arg);
    void *arg;
};

/* `reply` without bytes. The stream is closed even where the request cannot be answered. */
void exporter_respond_stream(struct exporter_request *request, const struct exporter_reply *reply,
                             const struct exporter_stream *stream);

/* There is something to send, or the stream is over; until it is closed. Harmless where the stream
 * does not wait. */
void exporter_request_wake_stream(struct exporter_request *request);

/* The connection is cut `delay_ms` from now unless the answer is complete by then. Replaces the
 * listener's own limit for sending; to be called before the answer. */
void exporter_request_limit_sending(struct exporter_request *request, int64_t delay_ms);

#endif
