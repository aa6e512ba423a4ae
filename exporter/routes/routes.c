/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route tables: those of the web listener as rows here, those of the agent API from the table
 * of calls, each bound to the handler of its name (calls.h).
 *
 * Filled once, before any thread serves; constant from then on.
 */
#include "exporter/routes/routes.h"

#include <string.h>

#include "exporter/routes/calls.h"
#include "exporter/routes/lifecycle.h"
#include "exporter/routes/runbooks.h"

enum {
    RELOAD_BODY_MAX = 4096, /* nothing is expected; tools send an empty form at most */
    WORD_BODY_MAX = 4096,   /* a few short fields */
};

/* The telemetry path comes first, so that it may be any path. */
static void fill_web(struct exporter_routes_setup *setup, struct exporter_lifecycle *lifecycle,
                     const char *telemetry_path)
{
    const enum handoff_call_access all = HANDOFF_FOR_ALL; /* passwords are checked before */
    const struct exporter_route rows[] = {
        {"GET", telemetry_path, exporter_route_metrics, &setup->metrics, 0, NULL, all, false},
        {"GET", "/-/healthy", exporter_route_healthy, lifecycle, 0, NULL, all, false},
        {"GET", "/-/ready", exporter_route_ready, lifecycle, 0, NULL, all, false},
        {"POST", "/-/reload", exporter_route_reload, lifecycle, RELOAD_BODY_MAX, NULL, all, false},
        {"PUT", "/-/reload", exporter_route_reload, lifecycle, RELOAD_BODY_MAX, NULL, all, false},
        {"GET", "/", exporter_route_landing, &setup->landing, 0, NULL, all, false},
        {"GET", "/runbooks", exporter_route_runbooks, &setup->landing, 0, NULL, all, false},
        {"GET", "/runbooks/{name}", exporter_route_runbook, &setup->landing, 0, NULL, all, false},
    };
    _Static_assert(sizeof rows == sizeof setup->web_rows, "the table holds its rows");
    memcpy(setup->web_rows, rows, sizeof rows);
    setup->web = (struct exporter_routes){setup->web_rows, EXPORTER_WEB_ROUTES};
}

static size_t body_limit(const struct handoff_call *call)
{
    switch (call->body) {
    case HANDOFF_NO_BODY:
        return 0;
    case HANDOFF_BODY_EMPTY: /* so much that a field in it can be named */
    case HANDOFF_BODY_OF_WORDS:
        return WORD_BODY_MAX;
    case HANDOFF_BODY_WITH_DOCUMENT:
    case HANDOFF_DOCUMENT:
        break;
    }
    return EXPORTER_BODY_OF_LISTENER;
}

static void fill_api(struct exporter_routes_setup *setup, struct exporter_client_host *client_host)
{
    static exporter_handler *const handlers[HANDOFF_CALLS] = {
#define CALL(name, ...) exporter_call_##name,
#include "client/calls/calls.def"
#undef CALL
    };
    for (size_t i = 0; i < HANDOFF_CALLS; i++) {
        const struct handoff_call *call = &handoff_calls[i];
        setup->api_rows[i] = (struct exporter_route){.method = call->rest.method,
                                                     .pattern = call->rest.path,
                                                     .handle = handlers[i],
                                                     .context = client_host,
                                                     .body_limit = body_limit(call),
                                                     .access = call->access,
                                                     .call = call};
    }
    exporter_review_fill(&setup->review, setup->api_rows + HANDOFF_CALLS);
    setup->api = (struct exporter_routes){setup->api_rows, EXPORTER_API_ROUTES};
}

/* ---- counting ------------------------------------------------------------------------------- */

static void count_calls(struct exporter_routes_setup *setup)
{
    static const enum handoff_code no_call[] = {HANDOFF_ERR_NOT_FOUND,
                                                HANDOFF_ERR_METHOD_NOT_ALLOWED, HANDOFF_OK};
    for (size_t i = 0; i < HANDOFF_CALLS; i++)
        setup->counted[i] = (struct collectors_call){handoff_calls[i].name, handoff_calls[i].codes};
    setup->counted[HANDOFF_CALLS] = (struct collectors_call){"none", no_call};
    collectors_count_calls(setup->metrics.collectors, setup->counted, HANDOFF_CALLS + 1);
}

/* Its token's owner, as it is in the audit trail. */
static void note_rejected(struct exporter_routes_setup *setup,
                          const struct exporter_request *request, size_t call,
                          enum handoff_code code)
{
    const char *agent = exporter_request_caller(request);
    struct exporter_rejected rejected = {.call = setup->counted[call].name,
                                         .code = code,
                                         .field = exporter_request_problem_field(request),
                                         .source = exporter_request_named_source(request),
                                         .caller = agent != NULL ? agent
                                                   : exporter_request_is_operator(request)
                                                       ? "operator"
                                                       : NULL,
                                         .address = exporter_request_peer(request),
                                         .program = exporter_request_header(request, "User-Agent")};
    rejected.body = exporter_request_body(request, &rejected.size);
    exporter_rejections_note(&setup->rejections, &rejected);
}

void exporter_routes_answered(void *arg, const struct exporter_request *request,
                              const struct exporter_route *route, enum handoff_code code)
{
    struct exporter_routes_setup *setup = arg;
    if (route != NULL && route->is_page)
        return; /* a person's, and no call */
    const size_t call = route != NULL ? (size_t)(route->call - handoff_calls) : HANDOFF_CALLS;
    collectors_answered(setup->metrics.collectors, call, code);
    if (code != HANDOFF_OK)
        note_rejected(setup, request, call, code);
}

void exporter_routes_init(struct exporter_routes_setup *setup, struct exporter_lifecycle *lifecycle,
                          const struct exporter_options *options, struct collectors *collectors,
                          struct exporter_client_host *client_host,
                          struct exporter_callers *callers)
{
    setup->metrics.collectors = collectors;
    exporter_slots_init(&setup->metrics.slots);
    setup->landing.telemetry_path = options->web_telemetry_path;
    setup->landing.lifecycle = lifecycle;
    setup->landing.client_host = client_host;
    exporter_rejections_init(&setup->rejections);
    setup->landing.rejections = &setup->rejections;
    exporter_page_policy(setup->landing.policy);
    fill_web(setup, lifecycle, options->web_telemetry_path);
    exporter_review_init(&setup->review, client_host, callers);
    fill_api(setup, client_host);
    count_calls(setup);
}

void exporter_routes_apply(struct exporter_routes_setup *setup,
                           const struct exporter_config *config)
{
    atomic_store(&setup->metrics.scrapes_max, config->metrics.scrapes);
    atomic_store(&setup->metrics.created, config->metrics.created);
}
