/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h - POSTs to agents, many at once, inside somebody else's loop.
 *
 * Plain HTTP over connections that libcurl makes (plain.h), HTTPS over libcurl. A transport belongs
 * to one loop: its sockets are watched by the loop's poller, its time-outs lie in the loop's
 * timers, every answer is told on the loop's thread. Connections are kept alive and their sockets
 * stay watched between two transfers, so that a POST over a warm connection costs no epoll_ctl.
 *
 * What may never happen on the path to an agent is settled here: only http and https, no redirects,
 * no proxy from the environment, TLS verified, no `Expect`, at most 64 KiB of answer.
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
    HANDOFF_TRANSPORT_CONNECT_MS = 5000, /* at most; an agent that is up accepts at once */
};

struct handoff_transport;

struct handoff_tls {
    const char *ca_file, *cert_file, *key_file; /* each NULL where it is not given */
};

/* What one POST found beside its answer, for the attempt's record. */
struct handoff_transport_facts {
    int64_t duration_us;
    char peer[72];   /* "127.0.0.1:9001", or "" */
    char error[160]; /* what went wrong, in words, or "" */
};

/* Embedded in its owner. Everything it points to lives until `done`. */
struct handoff_post {
    const char *url;
    const char *const *headers; /* "Name: value" */
    size_t nheaders;
    const void *body;
    size_t size;
    int64_t timeout_ms;
    bool fresh;                    /* over a new connection: kept ones may be dead */
    const struct handoff_tls *tls; /* NULL: the system's authorities */
    /* Told once, on the loop; the post may be started again from there. Never after a cancel. */
    void (*done)(struct handoff_post *post, const struct handoff_answer *answer,
                 const struct handoff_transport_facts *facts);
    struct handoff_transfer *transfer; /* the transport's; NULL when idle */
};

/* The poller, the timers and the clock are lent for the transport's life. */
enum handoff_code handoff_transport_new(struct handoff_transport **transport,
                                        struct base_poller *poller, struct base_timers *timers,
                                        const struct base_clock *clock,
                                        struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Nothing may be under way. */
void handoff_transport_free(struct handoff_transport **transport);

/* OUT_OF_MEMORY and nothing started, or OK and `done` will be called (never from here). */
enum handoff_code handoff_transport_start(struct handoff_transport *transport,
                                          struct handoff_post *post) HANDOFF_MUST_CHECK;
/* Breaks it off without a word; harmless when idle. */
void handoff_transport_cancel(struct handoff_transport *transport, struct handoff_post *post);

/* Tells what has ended. Called after the poller and the timers ran. */
void handoff_transport_settle(struct handoff_transport *transport);

#endif
