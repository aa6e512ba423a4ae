/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h - POSTs to agents, many at once, inside an existing event loop.
 *
 * Plain HTTP over connections that libcurl makes (plain.h), HTTPS over libcurl. A transport belongs
 * to one loop: it uses the loop's poller and timers, and reports every answer on the loop's thread.
 * Connections are kept alive and their sockets stay watched between transfers, so a POST over a
 * warm connection costs no epoll_ctl.
 *
 * The rules for every request to an agent are enforced here: only http and https, no redirects, no
 * proxy from the environment, TLS verified, no `Expect`, at most 64 KiB of answer.
 */
#ifndef HANDOFF_TRANSPORT_TRANSPORT_H
#define HANDOFF_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/handoff.h"
#include "client/protocol/handoff/verdict.h"
#include "lib/base/clock.h"
#include "lib/base/poller.h"
#include "lib/base/timers.h"

enum {
    HANDOFF_TRANSPORT_ANSWER_MAX = 64 * 1024,
    HANDOFF_TRANSPORT_HEADERS_MAX = 10,
    HANDOFF_TRANSPORT_CONNECT_MS = 5000, /* at most; a running agent accepts at once */
};

struct handoff_transport;

struct handoff_tls {
    const char *ca_file, *cert_file, *key_file; /* each NULL if not configured */
};

/* What one POST observed besides its answer, for the record of the attempt. */
struct handoff_transport_facts {
    int64_t duration_us;
    char peer[72];   /* "127.0.0.1:9001", or "" */
    char error[160]; /* the fault in words, or "" */
};

/* Embedded in its owner. Everything it points to must live until `done`. */
struct handoff_post {
    const char *url;
    const char *const *headers; /* "Name: value" */
    size_t nheaders;
    const void *body;
    size_t size;
    int64_t timeout_ms;
    bool fresh;                    /* use a new connection: kept ones may be dead */
    const struct handoff_tls *tls; /* NULL: the system's authorities */
    /* Called once, on the loop; it may start the post again. Never called after a cancel. */
    void (*done)(struct handoff_post *post, const struct handoff_answer *answer,
                 const struct handoff_transport_facts *facts);
    struct handoff_transfer *transfer; /* the transport's; NULL when idle */
};

/* The poller, the timers and the clock must outlive the transport. */
enum handoff_code handoff_transport_new(struct handoff_transport **transport,
                                        struct base_poller *poller, struct base_timers *timers,
                                        const struct base_clock *clock,
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

#endif
