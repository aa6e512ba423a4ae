/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_private.h - what the files of the HTTP server share. No one else includes it.
 *
 *   server.c        connections and their deadlines
 *   crowd.c         which connections give way to others
 *   held.c          which give way because memory is short
 *   http.c          the life of a request
 *   http_receive.c  its path and body, coming in
 *   long_input.c    its body, read on a worker
 *   framing.c       where it ends
 *   query.c         its query, decoded
 *   http_read.c     what a handler may ask of it
 *   http_respond.c  its answer
 *   problem.c       its answer where that is an error
 *   polls.c         requests that wait for what may never come
 *   admission.c     who may come in
 */
#ifndef EXPORTER_HTTP_HTTP_PRIVATE_H
#define EXPORTER_HTTP_HTTP_PRIVATE_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/queue.h>

#include "exporter/access/callers.h"
#include "exporter/http/acceptor.h"
#include "exporter/http/disconnects.h"
#include "exporter/http/held.h"
#include "exporter/http/polls.h"
#include "exporter/http/problem.h"
#include "exporter/http/query.h"
#include "exporter/http/router.h"
#include "exporter/http/server.h"
#include "exporter/http/slots.h"

enum {
    SERVER_MAGIC = 0x5e57e75e,
    CONNECTION_MAGIC = 0xc0ec7102,
    REQUEST_MAGIC = 0x7ea0e575,
};

struct exporter_input;
struct exporter_sending;
struct exporter_tls;

/* What a connection is doing. Those that can be spared come first, in that order (crowd.h). */
enum exporter_phase {
    EXPORTER_PHASE_IDLE,      /* kept alive, and no byte of the next request was seen */
    EXPORTER_PHASE_SLOW,      /* sending to a client that hardly reads */
    EXPORTER_PHASE_RECEIVING, /* a request, or waiting for its first byte */
    EXPORTER_PHASE_SENDING,
    EXPORTER_PHASE_WAITING, /* its client, for us */
    EXPORTER_PHASE_CUT,     /* libmicrohttpd closes it when it runs next */
    EXPORTER_PHASES
};

/* How fast a client reads an answer that takes more than a moment to send, or sends a body that
 * takes much memory. */
struct exporter_pace {
    int64_t began_ms; /* of the answer or body */
    int64_t since_ms;
    int64_t moved;       /* bytes by then, of one kind; -1: not measured */
    int64_t bytes_per_s; /* between the last two measurements; INT64_MAX: not known yet */
};

struct exporter_connection {
    unsigned magic;
    struct exporter_server *server;
    int fd;
    enum exporter_phase phase; /* exporter_connection_enter() alone changes it */
    struct exporter_pace pace; /* of the answer, in SENDING and SLOW; of a large body */
    int64_t received;          /* of the body that comes in */
    size_t held;               /* bytes of its large body and answer (held.h); 0: no holder */
    TAILQ_ENTRY(exporter_connection) holder_entry;
    /* When the client is cut, on the loop's clock; INT64_MAX while it waits for us. */
    int64_t deadline_ms;
    int64_t idle_since_ms;
    struct exporter_tls *tls;         /* NULL on a plain connection */
    struct base_watch end;            /* of the socket, for nothing else */
    bool left;                        /* the client sends nothing more */
    struct exporter_request *waiting; /* its connection is suspended; NULL: none is */
    char peer[INET6_ADDRSTRLEN];
    bool is_local; /* the client is on this machine */
    bool has_ip;   /* its address can be told from others; not over a unix socket */
    TAILQ_ENTRY(exporter_connection) entry;
};

TAILQ_HEAD(exporter_connections, exporter_connection);
LIST_HEAD(exporter_requests, exporter_request);

struct exporter_body_room {
    char *bytes; /* NULL: none */
    size_t capacity;
};

struct exporter_server {
    unsigned magic;
    struct exporter_server_options options;
    struct MHD_Daemon *daemon;
    struct base_source source;
    struct exporter_acceptor acceptor;
    bool took; /* libmicrohttpd took the last client, and says when it leaves */
    bool quiesced;
    bool ending;      /* answers still go out, and no handler runs any more */
    unsigned sending; /* answers that are not sent to their end */
    struct exporter_connections connections[EXPORTER_PHASES]; /* those longest in it first */
    unsigned counts[EXPORTER_PHASES];                         /* how many each queue has */
    unsigned open;                                            /* in all */
    struct exporter_requests deferred;
    struct exporter_requests streams; /* answers that are made while they are sent */
    struct exporter_polls polls;
    struct exporter_held held;
    struct base_timer sweep;
    struct exporter_body_room spare; /* of a body that was handled, for the next one */
    /* written by the loop, read by any thread */
    atomic_uint in_flight;
};

/* ---- a request ------------------------------------------------------------------------------ */

enum exporter_request_state {
    REQUEST_RECEIVING,
    REQUEST_HANDLING, /* the handler is running */
    REQUEST_DEFERRED,
    REQUEST_ANSWERED,
    REQUEST_ABANDONED, /* no answer is possible; the connection is cut */
};

/* A string that was made for a request and goes with it. */
struct exporter_scratch {
    struct exporter_scratch *next;
    char text[];
};

struct exporter_request {
    unsigned magic;
    enum exporter_request_state state;
    struct exporter_server *server;
    struct exporter_connection *connection;
    struct MHD_Connection *mhd;
    const char *method;
    const char *raw_path;
    int64_t began_ms;
    int64_t write_ms;
    /* routing */
    struct exporter_path path;
    struct exporter_route_match match;
    struct exporter_problem refusal; /* code HANDOFF_OK: none so far */
    bool barred;                     /* refused by its headers, before anyone is asked for */
    struct exporter_caller caller;
    struct exporter_query query; /* read when the caller is admitted */
    enum handoff_code problem;   /* what it was answered with; HANDOFF_OK: none */
    char problem_field[64];      /* the field that it is about; "": none */
    const char *named_source;    /* the agent that the request named, in scratch; NULL: not known */
    /* body */
    struct exporter_body_room body;
    size_t body_length;
    size_t body_limit;
    char body_allowed[48];        /* the limit, for its refusal */
    unsigned long long announced; /* Content-Length; 0: none, or none that is a number */
    size_t discarded;
    size_t answer_size; /* as far as we hold it */
    struct exporter_scratch *scratch;
    const struct exporter_input *input; /* while the handler of a call runs */
    bool is_being_read;                 /* its body is, on a worker (long_input.h) */
    bool lenient;                       /* unknown fields are ignored */
    const char *warnings;               /* of those, in scratch; NULL: none */
    /* deferred */
    bool suspended;
    bool is_soon; /* the answer: who stops sending has not left, but waits for it */
    void (*cancelled)(void *arg);
    void *cancelled_arg;
    LIST_ENTRY(exporter_request) entry; /* deferred, or a stream */
    struct exporter_sending *sending;   /* http_respond.c; NULL: it is no stream */
    void (*end_poll)(void *arg);        /* polls.h; NULL: it is none, or was asked to end */
    bool keeps_place;                   /* of a poll, until its answer is over */
    TAILQ_ENTRY(exporter_request) poll_entry;
    /* while its answer is one of a bounded number */
    struct exporter_slots *slots; /* NULL: it is not */
    TAILQ_ENTRY(exporter_request) slot_entry;
};

/* Parses the path and looks for its route; what there is none for is refused. */
void exporter_request_route(struct exporter_request *request);
/* Whether the answer has to be given before the body was sent. */
bool exporter_request_check_length(struct exporter_request *request);
/* Takes a piece of the body. false: the client has to be cut. */
bool exporter_request_take(struct exporter_request *request, const char *bytes, size_t length);
/* The body is no longer needed. */
void exporter_request_drop_body(struct exporter_request *request);
/* The body is the caller's from now on, who frees it. */
char *exporter_request_give_body(struct exporter_request *request);
/* Its answer is over. */
void exporter_request_close_stream(struct exporter_request *request);
/* No answer is possible. */
void exporter_request_abandon(struct exporter_request *request);

/* Moves a connection to the end of the queue of another phase, unless it is cut. */
void exporter_connection_enter(struct exporter_connection *connection, enum exporter_phase phase);
/* Ends a connection whatever it is doing, unless it is cut already. `reason` is why it was evicted,
 * for the log; NULL: its time is over. */
void exporter_connection_cut(struct exporter_connection *connection, const char *reason);

/* Moves the deadline of a connection, and the sweep that enforces it. */
void exporter_connection_deadline(struct exporter_connection *connection, int64_t deadline_ms);
/* Between two requests a client may idle; from the first byte of the next one it has as long as for
 * the first. */
void exporter_connection_rest(struct exporter_connection *connection);
/* The headers of a request are there. */
void exporter_connection_wake(struct exporter_connection *connection);

/* The calls that libmicrohttpd makes for a request: *context is the request. */
enum MHD_Result exporter_request_handle(void *server_arg, struct MHD_Connection *mhd,
                                        const char *url, const char *method, const char *version,
                                        const char *upload, size_t *upload_size, void **context);
void exporter_request_completed(void *server_arg, struct MHD_Connection *mhd, void **context,
                                enum MHD_RequestTerminationCode how);

/* The request is over; `was_served`: its answer was sent to the end. */
void exporter_slots_release(struct exporter_request *request, bool was_served);

const struct exporter_server *exporter_request_server(const struct exporter_request *request);

/* What long_input.c calls when its body was read: the handler runs. */
void exporter_request_was_read(struct exporter_request *request, struct exporter_input *input);

/* What admission.c calls when a request may go on: its handler runs, or its refusal is sent. */
void exporter_request_admitted(struct exporter_request *request);

/* Cancels a deferred request and lets its connection die. */
void exporter_request_cancel(struct exporter_request *request);

#endif
