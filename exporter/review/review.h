/* SPDX-License-Identifier: Apache-2.0 */
/*
 * review.h - the page on which a person reads what is parked and decides about it: GET /review of
 * the agent API's listener.
 *
 * It asks the client what the agent API asks, with the same rules, and shows the answers as HTML
 * that is complete without scripts. A page is a few reads at once and then one rendering, bounded
 * by the sizes of its lists, on the loop of the request.
 */
#ifndef EXPORTER_REVIEW_REVIEW_H
#define EXPORTER_REVIEW_REVIEW_H

#include "exporter/access/callers.h"
#include "exporter/client_host.h"
#include "exporter/http/router.h"
#include "exporter/review/session.h"

enum {
#define VIEW(method, path, function, who) EXPORTER_REVIEW_ROUTE_##function,
#include "exporter/review/views.def"
#undef VIEW
    EXPORTER_REVIEW_ROUTES
};

struct exporter_review_entry {
    struct exporter_review *review;
    size_t view;
};

struct exporter_review {
    struct exporter_client_host *client_host;
    struct review_sessions sessions;
    struct exporter_review_entry entries[EXPORTER_REVIEW_ROUTES];
};

/* Both are lent, and outlive the routes. Before any thread serves. */
void exporter_review_init(struct exporter_review *review, struct exporter_client_host *client_host,
                          struct exporter_callers *callers);
/* Writes its routes; their context is the review. */
void exporter_review_fill(struct exporter_review *review,
                          struct exporter_route rows[EXPORTER_REVIEW_ROUTES]);

#endif
