/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - HTTP requests to the one server of a remote spine, many at once, each bounded.
 *
 * At most so many run at a time, over connections that are kept, the rest in their order. All
 * requests of a call have one deadline, at which those that are not answered end, whatever the
 * server does; an answer has a largest size, and so have all of a call; redirects are not followed,
 * and no proxy is used.
 *
 * They run where they are asked for: a loop that has joined makes the requests for its calls
 * (lane.c), since waking another thread and being woken by it takes as long as a server nearby
 * takes to answer. All else is made by a thread of the exchange, with libcurl: conversations,
 * probes, the calls of loops that have not joined; and it reads answers that are too long for a
 * loop.
 *
 * What the sidecar itself runs out of (descriptors, ports, memory) is no failure of the server: the
 * request is made again within its time, and the circuit learns nothing of it.
 *
 * A kind of server may have to be greeted before it is asked anything (struct
 * handoff_remote_conversation). Calls wait for that within their time, and it is done again when
 * the server says that it does not know us.
 *
 * After some failed calls in a row the server is left alone: calls are refused at once, and the
 * thread itself asks it now and then whether it is back (a probe). It asks a server that nobody
 * uses, too, so that it is known when that dies.
 */
#ifndef HANDOFF_SPINE_REMOTE_EXCHANGE_H
#define HANDOFF_SPINE_REMOTE_EXCHANGE_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "client/spine/spine.h"
#include "client/transport/own_fault.h"
#include "client/transport/transport.h"
#include "lib/base/buffer.h"
#include "lib/base/loop.h"

struct curl_slist;
struct handoff_remote_exchange;
struct handoff_remote_call;

/* How far an answer that comes as a stream of events was looked at (offsets). */
struct handoff_remote_stream {
    size_t event_at, line_at, looked_at;
};

enum { HANDOFF_REMOTE_HEADERS = 2 };

struct handoff_remote_request {
    const char *method;        /* constant */
    struct base_buffer target; /* path and query, behind the base URL */
    struct base_buffer body;   /* empty: none */

    /* of a conversation: what is called, and of which tool; constant, or of the table */
    const char *rpc;
    struct base_span tool;

    /* results */
    long status;               /* 0: no whole answer */
    struct base_buffer answer; /* its body */
    const char *failure;       /* constant: why there is no answer; NULL: there is one */

    /* of a conversation, on the exchange's thread */
    int64_t number;             /* of the request that is answered */
    struct base_buffer framed;  /* what is sent in place of the body */
    struct base_buffer headers; /* sent in addition: texts, each with its NUL */
    struct base_buffer session; /* result: the header Mcp-Session-Id of the answer */
    bool streamed;              /* it is answered by events */
    bool whole;                 /* the answer is there, though the server may send more */
    struct handoff_remote_stream stream;

    /* the exchange's */
    struct handoff_remote_call *call;
    void *easy; /* on the thread */
    struct curl_slist *list;
    struct handoff_post post; /* on a lane, with what it points to */
    struct handoff_post_variant variant;
    struct base_buffer url;
    const char *sent[HANDOFF_REMOTE_HEADERS];
    int64_t whole_ns;
    unsigned generation;                        /* greetings when it was sent */
    bool resent;                                /* after another greeting */
    enum handoff_fault own;                     /* what we ran out of last; NONE: nothing */
    struct sockaddr_storage peer;               /* the last address that was tried, */
    socklen_t peer_size;                        /* 0: none */
    STAILQ_ENTRY(handoff_remote_request) entry; /* where it waits */
    TAILQ_ENTRY(handoff_remote_request) place;  /* among those that run */
};

/* Requests that are made together, and how they ended. */
struct handoff_remote_call {
    struct handoff_remote_request *requests;
    size_t count; /* at least 1 */
    /* On the thread that made them, once all have ended. It may set other requests, and returns
       true to have them made within the same time. */
    bool (*ended)(struct handoff_remote_call *call);
    struct base_mail mail; /* its `deliver` runs then, on the loop of the mailbox */
    struct base_mailbox *mailbox;
    bool failed; /* set by `ended`: the server is at fault, or its answers are not what they should
                    be */

    /* the exchange's */
    struct handoff_remote_exchange *exchange;
    int64_t deadline_ns;
    size_t open;
    size_t bytes; /* of the answers to its requests, so far */
    bool probes, greets;
    bool answered; /* all requests have ended: they wait for the thread to read the answers */
    bool gives_up; /* it has no requests: all calls with its mailbox end */
    TAILQ_ENTRY(handoff_remote_call) entry; /* of those to be taken up; of those of a lane */
};

enum handoff_remote_greeting {
    HANDOFF_REMOTE_GREETING_MORE,   /* the request is the next one to make */
    HANDOFF_REMOTE_GREETING_DONE,   /* the server can be asked */
    HANDOFF_REMOTE_GREETING_FAILED, /* request->failure says why */
};

/* What is said to a server around the requests; all on the exchange's thread. */
struct handoff_remote_conversation {
    /* The first request of a greeting, if it is empty; else what follows from its answer. */
    enum handoff_remote_greeting (*greet)(void *session, struct handoff_remote_request *request);
    /* Sets number, framed and headers. */
    void (*frame)(void *session, struct handoff_remote_request *request);
    /* More of a streamed answer came; whether it is whole. Then `answer` is the event's data. */
    bool (*is_whole)(struct handoff_remote_request *request);
    /* Whether this answer says that the server does not know us (any more). Several requests may be
       told so, also when the next greeting has begun. */
    bool (*is_forgotten)(const struct handoff_remote_request *request);
    /* The last request, before the exchange closes; false: there is none. */
    bool (*part)(const void *session, struct handoff_remote_request *request);
};

struct handoff_remote_exchange_options {
    const char *url;          /* http or https, with a host, without a trailing slash */
    const char *accept;       /* the header */
    const char *bearer_token; /* NULL: none */
    const char *ca_file, *cert_file, *key_file; /* each may be NULL */
    int64_t timeout_ms;
    unsigned connections;
    /* Makes the request by which it is asked whether it is back, on the exchange's thread. */
    void (*make_probe)(void *context, struct handoff_remote_request *request);
    bool (*is_probe_answered)(void *context, const struct handoff_remote_request *request);
    void *context;
    /* NULL: each request stands alone. */
    const struct handoff_remote_conversation *conversation;
    void *session;
    void (*greeted)(void *context); /* the greeting is done; on the exchange's thread */
    /* We ran out of that; on the thread that would have asked. may be NULL. */
    void (*on_shortage)(void *observer, enum handoff_shortage resource, const char *hindered);
    void *observer;
};

/* Texts are copied. With a conversation, it waits for the first greeting to end, within the
   timeout. invalid_request: the URL or a file; out_of_memory, also for want of a thread. */
enum handoff_code
handoff_remote_exchange_open(struct handoff_remote_exchange **exchange,
                             const struct handoff_remote_exchange_options *options,
                             struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Nothing may be pending. Takes a pointer to NULL. */
void handoff_remote_exchange_close(struct handoff_remote_exchange **exchange);

/* A loop that makes the requests of the calls with its mailbox from now on, until it leaves,
   which it does when it does not run; the thread makes what is left again, unless it is given up.
   Where it cannot be (out of memory, or too few connections for one loop more) the thread goes on
   to make them. */
void handoff_remote_exchange_join(struct handoff_remote_exchange *exchange, struct base_loop *loop);
void handoff_remote_exchange_leave(struct handoff_remote_exchange *exchange,
                                   struct base_loop *loop);

/* The calls with that mailbox end now, without an answer, as the process does; those that are
   submitted later do not. Any thread. Out of memory, they end at their deadlines. */
void handoff_remote_exchange_give_up(struct handoff_remote_exchange *exchange,
                                     struct base_mailbox *mailbox);

/* On the thread of the mailbox. false: the server is left alone for now, and nothing is done. */
bool handoff_remote_exchange_submit(struct handoff_remote_exchange *exchange,
                                    struct handoff_remote_call *call);

/* See handoff_spine_is_up. Any thread. */
bool handoff_remote_exchange_is_up(const struct handoff_remote_exchange *exchange);

void handoff_remote_request_free(struct handoff_remote_request *request);

#endif
