/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - one HTTP server: a listening socket, driven by one loop.
 *
 * A listener of the daemon is one server (web) or several (agent API: one on each loop).
 */
#ifndef EXPORTER_HTTP_SERVER_H
#define EXPORTER_HTTP_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exporter/error.h"
#include "exporter/http/http.h"
#include "exporter/http/room.h"
#include "exporter/http/router.h"
#include "lib/base/loop.h"

struct exporter_callers;
struct exporter_server;
struct exporter_web_config;

/* What one client may take. Slow clients are cut by read_ms: a request, headers and body, has to be
 * there within it, however busily its bytes trickle. */
struct exporter_limits {
    struct exporter_room *room;  /* of all servers of the listener; others give way to further
                                    clients (crowd.h). Lent */
    unsigned connections_per_ip; /* the same for one address; 0: any */
    size_t header_bytes;         /* request line and headers; also the chunk an answer is sent in;
                                    half of it is what is read at once */
    int64_t read_ms;             /* from the first byte to the last of a request; the connection
                                    itself counts as the first one's */
    int64_t idle_ms;             /* without a byte in either direction */
    int64_t write_ms;            /* for sending an answer */
};

struct exporter_server_options {
    const char *listener; /* "web" or "api", for the log */
    struct base_loop *loop;
    const struct exporter_routes *routes;
    struct exporter_limits limits;
    const _Atomic(uint64_t) *body_limit;    /* of routes that do not set their own */
    bool refuse_browsers;                   /* 403 for what a page of another origin sends */
    bool enable_lifecycle;                  /* changes without credentials, by other machines */
    bool is_loopback;                       /* over TCP; then 403 for a Host of another machine */
    struct exporter_callers *callers;       /* NULL: callers are not told apart. Lent. */
    struct exporter_web_config *web_config; /* TLS, passwords, headers; NULL: none. Lent. */
    /* The other listener, to which a path that is unknown here may belong. NULL: there is none. */
    struct {
        const struct exporter_routes *routes;
        const char *advice;  /* the detail of the refusal */
        const char *address; /* of it; lent */
    } other;
    /* A request was answered. `route`: NULL where none was found; `code`: of the problem, or OK.
     * NULL: nobody counts. */
    void (*on_answer)(void *arg, const struct exporter_request *request,
                      const struct exporter_route *route, enum handoff_code code);
    void *on_answer_arg;
    /* Clients wait because of this errno; NULL: nobody wants to know. */
    void (*on_shortage)(void *arg, int error, const char *listener);
    void *on_shortage_arg;
};

/* Takes `fd` over, on success and on failure. NULL with `error` filled. */
struct exporter_server *exporter_server_start(int fd, const struct exporter_server_options *options,
                                              struct exporter_error *error);

/* The functions below on the server's loop, or after it has ended. */

/* No new connections; keep-alive ends with the answers that are still under way. */
void exporter_server_quiesce(struct exporter_server *server);
/* Its loop drives it no more: requests that arrive from now on are not read. What is answered is
 * sent by the stop. Once the loop has ended; harmless the second time. */
void exporter_server_unhook(struct exporter_server *server);
/* Cancels what is deferred, closes every connection, frees. */
void exporter_server_stop(struct exporter_server **server);

/* Any thread: requests that were begun and are not yet answered in full. */
unsigned exporter_server_in_flight(const struct exporter_server *server);

#endif
