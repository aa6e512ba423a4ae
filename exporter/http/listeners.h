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
struct exporter_front;
struct base_loop;
struct exporter_web_config;

struct exporter_front_setup {
    const struct exporter_options *options;
    const struct exporter_routes *web_routes;
    const struct exporter_routes *api_routes;
    const _Atomic(uint64_t) *api_body_limit;
    struct exporter_callers *api_callers;
    struct exporter_web_config *web_config; /* of the web listener; NULL: none */
};

/* How many threads a front will have. */
size_t exporter_front_threads(void);

/* The functions below on the control thread. */

/* Opens every socket, but serves nobody yet. NULL with `error` filled. The setup is lent until the
 * front is freed. */
struct exporter_front *exporter_front_open(const struct exporter_front_setup *setup,
                                           struct exporter_error *error);
/* Starts the threads. */
bool exporter_front_start(struct exporter_front *front, struct exporter_error *error);

/* Whether only this machine can reach the API. */
bool exporter_front_api_is_local(const struct exporter_front *front);
const char *exporter_front_api_address(const struct exporter_front *front);

/* How many loops there are, and each of them; loop 0 is the web listener's. */
size_t exporter_front_loop_count(const struct exporter_front *front);
struct base_loop *exporter_front_loop(struct exporter_front *front, size_t i);

/* Asks for no further connections on one side; exporter_front_is_quiet() answers when every loop
 * has done so and nothing is in flight on either side. */
enum exporter_side { EXPORTER_SIDE_API, EXPORTER_SIDE_WEB };
void exporter_front_quiesce(struct exporter_front *front, enum exporter_side side);
bool exporter_front_is_quiet(const struct exporter_front *front);
unsigned exporter_front_in_flight(const struct exporter_front *front);

/* Ends the threads; their loops and servers stay, so that what they were told can be settled. */
void exporter_front_join(struct exporter_front *front);
void exporter_front_free(struct exporter_front **front);

#endif
