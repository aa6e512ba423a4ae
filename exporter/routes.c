/* SPDX-License-Identifier: Apache-2.0 */
/* The route tables: the whole surface of the daemon, at a glance. */
#include "exporter/routes.h"

#include <string.h>

#include "exporter/route_lifecycle.h"

enum {
    RELOAD_BODY_MAX = 4096, /* nothing is expected; tools send an empty form at most */
    METRIC_THREADS = 16,    /* that count without sharing cells; each costs memory per series */
};

/* The telemetry path comes first, so that it may be any path. */
static void fill_web(struct exporter_routes_setup *setup, struct exporter_lifecycle *lifecycle,
                     const char *telemetry_path)
{
    const struct exporter_route rows[] = {
        {"GET", telemetry_path, exporter_route_metrics, &setup->metrics, 0},
        {"GET", "/-/healthy", exporter_route_healthy, lifecycle, 0},
        {"GET", "/-/ready", exporter_route_ready, lifecycle, 0},
        {"POST", "/-/reload", exporter_route_reload, lifecycle, RELOAD_BODY_MAX},
        {"PUT", "/-/reload", exporter_route_reload, lifecycle, RELOAD_BODY_MAX},
        {"GET", "/", exporter_route_landing, &setup->landing, 0},
    };
    _Static_assert(sizeof rows == sizeof setup->web_rows, "the table holds its rows");
    memcpy(setup->web_rows, rows, sizeof rows);
    setup->web = (struct exporter_routes){setup->web_rows, EXPORTER_WEB_ROUTES};
}

bool exporter_routes_init(struct exporter_routes_setup *setup, struct exporter_lifecycle *lifecycle,
                          const struct exporter_options *options,
                          const struct exporter_config *config, struct exporter_error *error)
{
    const struct metric_registry_options registry = {
        .threads = METRIC_THREADS, .max_series = config->metrics.max_series_per_family};
    setup->metrics.registry = metric_registry_new(&registry);
    if (setup->metrics.registry == NULL) {
        exporter_error_set(error, "there is no memory for the metrics");
        return false;
    }
    setup->landing.telemetry_path = options->web_telemetry_path;
    fill_web(setup, lifecycle, options->web_telemetry_path);
    return true;
}

void exporter_routes_apply(struct exporter_routes_setup *setup,
                           const struct exporter_config *config)
{
    atomic_store(&setup->metrics.scrapes_max, config->metrics.scrapes);
    atomic_store(&setup->metrics.created, config->metrics.created);
}

void exporter_routes_fini(struct exporter_routes_setup *setup)
{
    metric_registry_free(&setup->metrics.registry);
}
