/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h - requests over HTTP, many at once, inside an existing event loop: POSTs to agents,
 * and what a remote spine is asked.
 *
 * Drivers carry the posts (see the end of this file): plain HTTP by an exchange of ours (plain.h),
 * HTTPS by libcurl (curl_transfer.h), both over connections that are dialled in one way (dial.h). A
 * transport belongs to one loop: it uses the loop's poller and timers, and reports every answer on
 * the loop's thread. Connections are kept alive and their sockets stay watched between transfers,
 * so a POST over a warm connection costs no epoll_ctl.
 *
 * The rules for every request to an agent are enforced here: only http and https, no redirects, no
 * proxy from the environment, TLS verified, no `Expect`, a largest size of an answer.
 */
#ifndef HANDOFF_TRANSPORT_TRANSPORT_H
#define HANDOFF_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/handoff.h"
#include "client/transport/fault.h"
#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/poller.h"
#include "lib/base/quota.h"
#include "lib/base/timers.h"

enum {
    HANDOFF_TRANSPORT_ANSWER_MAX = 64 * 1024,
    HANDOFF_TRANSPORT_HEADERS_MAX = 10,
    HANDOFF_TRANSPORT_CONNECT_MS = 5000,      /* at most; a running agent accepts at once */
    HANDOFF_RETRY_AFTER_MAX_MS = 3600 * 1000, /* a longer one is cut to this */
};

struct handoff_transport;

struct handoff_tls {
    const char *ca_file, *cert_file, *key_file; /* each NULL if not configured */
};

/* What came back, as the transport saw it. Lends its strings for the call. */
struct handoff_answer {
    enum handoff_attempt_result
        failure;                    /* TIMEOUT, CONNECT or PROTOCOL where nothing usable came... */
    bool answered;                  /* ... which is when this is false */
    enum handoff_fault fault;       /* which fault it was; NONE: answered */
    enum handoff_shortage shortage; /* nothing came because we lacked this; NONE: see failure */
    int status;
    const char *ack_header; /* value of Handoff-Ack, or NULL */
    const char *body;
    size_t body_size;
    struct base_buffer *keep; /* the body, to be taken by who wants to keep it */
    int64_t retry_after_ms;   /* from Retry-After; 0: none */
};

/* What one POST observed besides its answer, for the record of the attempt. */
struct handoff_transport_facts {
    int64_t duration_us;
    char peer[72];   /* "127.0.0.1:9001", or "" */
    char error[160]; /* the fault in words, or "" */
};

/* What makes a request another one than a POST to an agent. */
struct handoff_post_variant {
    const char *method; /* constant */
    const char *accept; /* the header, "Accept: text/html" */
    size_t answer_max;  /* bytes of the answer's body */
};

/* Embedded in its owner. Everything it points to must live until `done`. */
struct handoff_post {
    const char *url;
    const char *const *headers; /* "Name: value" */
    size_t nheaders;
    const void *body;
    size_t size;
    int64_t timeout_ms;
    const struct handoff_post_variant *variant; /* NULL: a POST, which has a body even if it is
                                                   empty; and HANDOFF_TRANSPORT_ANSWER_MAX */
    bool fresh;                                 /* use a new connection: kept ones may be dead */
    const struct handoff_tls *tls;              /* NULL: the system's authorities */
    /* Called once, on the loop; it may start the post again. Never called after a cancel. */
    void (*done)(struct handoff_post *post, const struct handoff_answer *answer,
                 const struct handoff_transport_facts *facts);
    struct handoff_transfer *transfer; /* the driver's; NULL when idle */
};

/* The poller, the timers, the clock and the quota must outlive the transport. The quota is of
   connections; transports that share one leave descriptors for others. */
enum handoff_code handoff_transport_new(struct handoff_transport **transport,
                                        struct base_poller *poller, struct base_timers *timers,
                                        const struct base_clock *clock, struct base_quota *quota,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Nothing may be in progress. */
void handoff_transport_free(struct handoff_transport **transport);

/* OK: `done` will be called, never from here. OUT_OF_MEMORY: nothing was started. */
enum handoff_code handoff_transport_start(struct handoff_transport *transport,
                                          struct handoff_post *post) HANDOFF_MUST_CHECK;
/* Cancels the post without calling `done`; harmless when idle. */
void handoff_transport_cancel(struct handoff_transport *transport, struct handoff_post *post);

/* Calls `done` of the posts that have ended. Called after the poller and the timers ran. */
void handoff_transport_settle(struct handoff_transport *transport);

/* ---- drivers ------------------------------------------------------------------------------- */

struct handoff_curl;
struct handoff_dialer;

/* What the drivers of a transport share. It outlives them. */
struct handoff_transport_loop {
    struct base_poller *poller;
    struct base_timers *timers;
    const struct base_clock *clock;
    const struct handoff_dialer *dialer;
    struct handoff_curl *curl; /* settled before the drivers are */
};

/* A post in progress; the first member of each driver's own struct. */
struct handoff_transfer {
    const struct handoff_transport_driver *driver;
};

enum handoff_post_start {
    HANDOFF_POST_STARTED,
    HANDOFF_POST_DECLINED, /* the driver does not carry this URL; the next one is asked */
    HANDOFF_POST_NO_MEMORY,
};

/*
 * A way to carry posts. To add one: write a file with such a table and a header that declares it,
 * and name it in the list of transport.c. All functions run on the thread of the loop.
 */
struct handoff_transport_driver {
    const char *name; /* "plain" */
    /* Returns the driver's state for one transport; NULL: out of memory. The struct is lent for
       this call, what it points to until `close`. */
    void *(*open)(const struct handoff_transport_loop *loop);
    /* Sets post->transfer if it starts the post; never calls `done`. */
    enum handoff_post_start (*start)(void *state, struct handoff_post *post);
    /* Frees the transfer without calling `done`, and sets post->transfer to NULL. */
    void (*cancel)(struct handoff_transfer *transfer);
    /* Calls `done` of the posts that have ended. NULL: they end as jobs of curl (curl_loop.h). */
    void (*settle)(void *state);
    /* Nothing may be in progress. */
    void (*close)(void *state);
};

#endif
