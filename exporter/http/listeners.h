/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listeners.h - the daemon's two listeners with everything behind their sockets but the handlers:
 * the web listener on one loop, the agent API on one loop for each core.
 */
#ifndef EXPORTER_HTTP_LISTENERS_H
#define EXPORTER_HTTP_LISTENERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "exporter/error.h"
#include "exporter/http/router.h"
#include "exporter/options.h"

struct exporter_callers;
struct exporter_listeners;
struct base_loop;
struct exporter_web_config;

struct exporter_listeners_setup {
    const struct exporter_options *options;
    const struct exporter_routes *web_routes;
    const struct exporter_routes *api_routes;
    const _Atomic(uint64_t) *api_body_limit;
    struct exporter_callers *api_callers;
    struct exporter_web_config *web_config;    /* of the web listener; NULL: none */
    unsigned web_connections, api_connections; /* at most */
    bool descriptors_are_short;                /* or it would be more */
    void (*on_api_answer)(void *arg, const struct exporter_request *request,
                          const struct exporter_route *route,
                          enum handoff_code code); /* any thread; server.h */
    void *on_api_answer_arg;
    void (*on_shortage)(void *arg, int error, const char *listener); /* any thread; server.h */
    void *on_shortage_arg;
};

/* How many threads the listeners will have. */
size_t exporter_listeners_threads(void);

/* The functions below on the control thread. */

/* Opens every socket, but does not serve yet. NULL with `error` filled. The setup is lent until the
 * listeners are freed. */
struct exporter_listeners *exporter_listeners_open(const struct exporter_listeners_setup *setup,
                                                   struct exporter_error *error);
/* Starts the threads. */
bool exporter_listeners_start(struct exporter_listeners *listeners, struct exporter_error *error);

/* Whether only this machine can reach the API. */
bool exporter_listeners_api_is_local(const struct exporter_listeners *listeners);
const char *exporter_listeners_api_address(const struct exporter_listeners *listeners);

/* How many loops there are, and each of them; loop 0 is the web listener's. */
size_t exporter_listeners_loop_count(const struct exporter_listeners *listeners);
struct base_loop *exporter_listeners_loop(struct exporter_listeners *listeners, size_t i);

/* Asks for no further connections on one side; exporter_listeners_is_quiet() answers when every
 * loop has done so and nothing is in flight on either side. */
enum exporter_side { EXPORTER_SIDE_API, EXPORTER_SIDE_WEB };
void exporter_listeners_quiesce(struct exporter_listeners *listeners, enum exporter_side side);
bool exporter_listeners_is_quiet(const struct exporter_listeners *listeners);
unsigned exporter_listeners_in_flight(const struct exporter_listeners *listeners);

/* Ends the threads; their loops and servers stay, so that what they were told can be settled. */
void exporter_listeners_join(struct exporter_listeners *listeners);
void exporter_listeners_free(struct exporter_listeners **freeing);

#endif
