/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - HTTP requests to the one server of a remote spine, many at once, each bounded.
 *
 * A thread runs them with libcurl: at most so many at a time, over connections that are kept, the
 * rest in their order. All requests of a call have one deadline, at which those that are not
 * answered end, whatever the server does; an answer has a largest size; redirects are not followed,
 * and no proxy is used.
 *
 * What the sidecar itself runs out of (descriptors, ports, memory) is no failure of the server: the
 * request is made again within its time, and the circuit learns nothing of it.
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
#include "lib/base/buffer.h"

struct handoff_remote_exchange;
struct handoff_remote_call;

struct handoff_remote_request {
    const char *method;        /* constant */
    struct base_buffer target; /* path and query, behind the base URL */
    struct base_buffer body;   /* empty: none */

    /* results */
    long status;               /* 0: no whole answer */
    struct base_buffer answer; /* its body */
    const char *failure;       /* constant: why there is no answer; NULL: there is one */

    /* the exchange's */
    struct handoff_remote_call *call;
    void *easy;
    enum handoff_fault own;       /* what we ran out of last; NONE: nothing */
    struct sockaddr_storage peer; /* the last address that was tried, */
    socklen_t peer_size;          /* 0: none */
    STAILQ_ENTRY(handoff_remote_request) entry;
};

/* Requests that are made together, and how they ended. */
struct handoff_remote_call {
    struct handoff_remote_request *requests;
    size_t count; /* at least 1 */
    /* On the exchange's thread, once all have ended. It may set other requests, and returns true
       to have them made within the same time. */
    bool (*ended)(struct handoff_remote_call *call);
    void (*give)(struct handoff_remote_call *call); /* then; it may free the call */
    bool failed; /* set by `ended`: the server is at fault, or its answers are not what they should
                    be */

    /* the exchange's */
    int64_t deadline_ns;
    size_t open;
    bool probes;
    STAILQ_ENTRY(handoff_remote_call) entry;
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
    /* We ran out of that; on the exchange's thread. may be NULL. */
    void (*on_shortage)(void *observer, enum handoff_shortage resource, const char *hindered);
    void *observer;
};

/* Texts are copied. invalid_request: the URL or a file; out_of_memory, also for want of a thread.
 */
enum handoff_code
handoff_remote_exchange_open(struct handoff_remote_exchange **exchange,
                             const struct handoff_remote_exchange_options *options,
                             struct handoff_error *error) HANDOFF_MUST_CHECK;
/* Nothing may be pending. Takes a pointer to NULL. */
void handoff_remote_exchange_close(struct handoff_remote_exchange **exchange);

/* Any thread. false: the server is left alone for now, and nothing is done. */
bool handoff_remote_exchange_submit(struct handoff_remote_exchange *exchange,
                                    struct handoff_remote_call *call);

/* It answered when it was asked last. Any thread. */
bool handoff_remote_exchange_is_up(const struct handoff_remote_exchange *exchange);

void handoff_remote_request_free(struct handoff_remote_request *request);

#endif
