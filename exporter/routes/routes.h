/* SPDX-License-Identifier: Apache-2.0 */
/* routes.h - every route of both listeners, and the state their handlers share. */
#ifndef EXPORTER_ROUTES_ROUTES_H
#define EXPORTER_ROUTES_ROUTES_H

#include "client/calls/call.h"
#include "collectors/collectors.h"
#include "exporter/config/config.h"
#include "exporter/http/router.h"
#include "exporter/options.h"
#include "exporter/review/review.h"
#include "exporter/routes/landing.h"
#include "exporter/routes/metrics.h"
#include "exporter/status/rejections.h"

struct exporter_lifecycle;
struct exporter_client_host;

enum { EXPORTER_WEB_ROUTES = 8, EXPORTER_API_ROUTES = HANDOFF_CALLS + EXPORTER_REVIEW_ROUTES };

struct exporter_routes_setup {
    struct exporter_routes web;
    struct exporter_routes api;
    struct exporter_route web_rows[EXPORTER_WEB_ROUTES];
    struct exporter_route api_rows[EXPORTER_API_ROUTES]; /* the calls, then the review page */
    struct exporter_review review;
    struct exporter_landing landing;
    struct exporter_metrics_page metrics;
    struct exporter_rejections rejections;
    struct collectors_call counted[HANDOFF_CALLS + 1]; /* the last: a request for no call */
};

/* `collectors` and `callers` are lent. */
void exporter_routes_init(struct exporter_routes_setup *setup, struct exporter_lifecycle *lifecycle,
                          const struct exporter_options *options, struct collectors *collectors,
                          struct exporter_client_host *client_host,
                          struct exporter_callers *callers);
/* Counts an answer of the agent API, and remembers who was rejected; any thread. `arg` is a struct
 * exporter_routes_setup. */
void exporter_routes_answered(void *arg, const struct exporter_request *request,
                              const struct exporter_route *route, enum handoff_code code);
/* Takes over what a configuration says for routes; any thread. */
void exporter_routes_apply(struct exporter_routes_setup *setup,
                           const struct exporter_config *config);

#endif
