/* SPDX-License-Identifier: Apache-2.0 */
/*
 * router.h - which handler answers a request.
 *
 * Each listener has one table of routes. A pattern is a path in which a segment in braces takes any
 * value: "/v1/handoffs/{id}". Nothing else is special; a path that no row matches is not found.
 * HEAD is answered wherever GET is, OPTIONS wherever anything is.
 */
#ifndef EXPORTER_HTTP_ROUTER_H
#define EXPORTER_HTTP_ROUTER_H

#include <stdbool.h>
#include <stddef.h>

#include "client/calls/call.h"

struct exporter_request;

/* Answers the request, or defers it (http.h). `context` is the row's. */
typedef void exporter_handler(struct exporter_request *request, void *context);

/* A body limit that stands for the listener's own, which the configuration sets. */
#define EXPORTER_BODY_OF_LISTENER ((size_t)-1)

struct exporter_route {
    const char *method;
    const char *pattern;
    exporter_handler *handle;
    void *context;
    size_t body_limit;               /* bytes; more are answered 413 */
    const struct handoff_call *call; /* of the agent API; its inputs are checked. NULL: none */
    enum handoff_call_access access;
    bool is_page; /* for a person's browser: its handler asks for a session, not for a token */
};

struct exporter_routes {
    const struct exporter_route *items;
    size_t count;
};

enum {
    EXPORTER_SEGMENTS_MAX = 8, /* the longest pattern has 5 */
    EXPORTER_PARAMS_MAX = 4,
    EXPORTER_PATH_MAX = 1024, /* longer paths name nothing of ours */
    EXPORTER_ALLOW_MAX = 64,
};

/* A path cut at its slashes, each segment percent-decoded. */
struct exporter_path {
    char text[EXPORTER_PATH_MAX];
    const char *segments[EXPORTER_SEGMENTS_MAX];
    size_t count;
};

enum exporter_path_result { EXPORTER_PATH_OK, EXPORTER_PATH_MALFORMED, EXPORTER_PATH_TOO_LONG };

/* `raw` as it was sent, still encoded: a path, or a whole URL as proxies send it (RFC 9112 3.2.2),
 * of which the host does not matter. MALFORMED: bad percent-encoding, or a zero byte. */
enum exporter_path_result exporter_path_parse(struct exporter_path *path, const char *raw);

enum exporter_route_result { EXPORTER_ROUTE_FOUND, EXPORTER_ROUTE_UNKNOWN, EXPORTER_ROUTE_METHOD };

struct exporter_route_match {
    const struct exporter_route *route;      /* where FOUND; NULL for a plain OPTIONS */
    const char *params[EXPORTER_PARAMS_MAX]; /* in the order of the pattern; point into the path */
    size_t nparams;
    char allow[EXPORTER_ALLOW_MAX]; /* the methods of this path; for METHOD and OPTIONS */
};

enum exporter_route_result exporter_route_find(const struct exporter_routes *routes,
                                               const char *method, const struct exporter_path *path,
                                               struct exporter_route_match *match);

/* Decodes %XX in place. false where the encoding is broken or hides a zero byte. */
bool exporter_percent_decode(char *text);

#endif
