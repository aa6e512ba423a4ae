/* SPDX-License-Identifier: Apache-2.0 */
/* The route tables: the whole surface of the daemon, at a glance. */
#include "exporter/routes/routes.h"

#include <string.h>

#include "exporter/routes/envelopes.h"
#include "exporter/routes/handoffs.h"
#include "exporter/routes/lifecycle.h"
#include "exporter/routes/memories.h"
#include "exporter/routes/observations.h"
#include "exporter/routes/replays.h"

enum {
    RELOAD_BODY_MAX = 4096, /* nothing is expected; tools send an empty form at most */
    WORD_BODY_MAX = 4096,   /* a few short fields */
};

/* The telemetry path comes first, so that it may be any path. */
static void fill_web(struct exporter_routes_setup *setup, struct exporter_lifecycle *lifecycle,
                     const char *telemetry_path)
{
    const enum exporter_access all = EXPORTER_FOR_ALL; /* passwords are checked before */
    const struct exporter_route rows[] = {
        {"GET", telemetry_path, exporter_route_metrics, &setup->metrics, 0, all},
        {"GET", "/-/healthy", exporter_route_healthy, lifecycle, 0, all},
        {"GET", "/-/ready", exporter_route_ready, lifecycle, 0, all},
        {"POST", "/-/reload", exporter_route_reload, lifecycle, RELOAD_BODY_MAX, all},
        {"PUT", "/-/reload", exporter_route_reload, lifecycle, RELOAD_BODY_MAX, all},
        {"GET", "/", exporter_route_landing, &setup->landing, 0, all},
    };
    _Static_assert(sizeof rows == sizeof setup->web_rows, "the table holds its rows");
    memcpy(setup->web_rows, rows, sizeof rows);
    setup->web = (struct exporter_routes){setup->web_rows, EXPORTER_WEB_ROUTES};
}

static void fill_api(struct exporter_routes_setup *setup, struct exporter_hosting *hosting)
{
    const size_t any = EXPORTER_BODY_OF_LISTENER;
    const enum exporter_access all = EXPORTER_FOR_ALL, named = EXPORTER_FOR_NAMED,
                               ops = EXPORTER_FOR_OPERATOR;
    const struct exporter_route rows[] = {
        {"POST", "/v1/envelopes", exporter_route_assemble, hosting, any, all},
        {"POST", "/v1/handoffs", exporter_route_send, hosting, any, all},
        {"GET", "/v1/handoffs/{id}", exporter_route_handoff, hosting, 0, all},
        {"GET", "/v1/handoffs/{id}/envelope", exporter_route_envelope, hosting, 0, all},
        {"GET", "/v1/handoffs/{id}/attempts", exporter_route_attempts, hosting, 0, all},
        {"POST", "/v1/handoffs/{id}/ack", exporter_route_ack, hosting, WORD_BODY_MAX, all},
        {"POST", "/v1/handoffs/{id}/nack", exporter_route_nack, hosting, WORD_BODY_MAX, all},
        {"POST", "/v1/handoffs/{id}/extend", exporter_route_extend, hosting, WORD_BODY_MAX, all},
        {"GET", "/v1/tasks/{task_id}", exporter_route_task, hosting, 0, all},
        {"POST", "/v1/tasks/{task_id}/complete", exporter_route_complete, hosting, WORD_BODY_MAX,
         all},
        {"POST", "/v1/observations", exporter_route_observe, hosting, any, all},
        {"GET", "/v1/parked", exporter_route_parked, hosting, 0, all},
        {"POST", "/v1/parked/replay", exporter_route_replay_many, hosting, WORD_BODY_MAX, ops},
        {"GET", "/v1/replays", exporter_route_replays, hosting, 0, ops},
        {"GET", "/v1/replays/{id}", exporter_route_replay_run, hosting, 0, ops},
        {"DELETE", "/v1/replays/{id}", exporter_route_replay_stop, hosting, 0, ops},
        {"POST", "/v1/parked/{id}/replay", exporter_route_replay, hosting, any, ops},
        {"DELETE", "/v1/parked/{id}", exporter_route_discard, hosting, 0, ops},
        {"GET", "/v1/agents", exporter_route_agents, hosting, 0, all},
        {"POST", "/v1/agents/{name}/reset", exporter_route_reset, hosting, WORD_BODY_MAX, ops},
        {"GET", "/v1/agents/{name}/inbox", exporter_route_inbox, hosting, 0, named},
        {"GET", "/v1/memories", exporter_route_memory_list, hosting, 0, all},
        {"PUT", "/v1/memories/{id}", exporter_route_memory_put, hosting, any, all},
        {"GET", "/v1/memories/{id}", exporter_route_memory_get, hosting, 0, all},
        {"DELETE", "/v1/memories/{id}", exporter_route_memory_delete, hosting, 0, all},
        {"PUT", "/v1/memories/{id}/pin", exporter_route_memory_pin, hosting, 0, all},
        {"DELETE", "/v1/memories/{id}/pin", exporter_route_memory_unpin, hosting, 0, all},
    };
    _Static_assert(sizeof rows == sizeof setup->api_rows, "the table holds its rows");
    memcpy(setup->api_rows, rows, sizeof rows);
    setup->api = (struct exporter_routes){setup->api_rows, EXPORTER_API_ROUTES};
}

void exporter_routes_init(struct exporter_routes_setup *setup, struct exporter_lifecycle *lifecycle,
                          const struct exporter_options *options, struct collectors *collectors,
                          struct exporter_hosting *hosting)
{
    setup->metrics.collectors = collectors;
    setup->landing.telemetry_path = options->web_telemetry_path;
    setup->landing.lifecycle = lifecycle;
    setup->landing.hosting = hosting;
    exporter_status_page_policy(setup->landing.policy);
    fill_web(setup, lifecycle, options->web_telemetry_path);
    fill_api(setup, hosting);
}

void exporter_routes_apply(struct exporter_routes_setup *setup,
                           const struct exporter_config *config)
{
    atomic_store(&setup->metrics.scrapes_max, config->metrics.scrapes);
    atomic_store(&setup->metrics.created, config->metrics.created);
}
