/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As a connection pooler uses the interface: general metrics and metrics by route in two
 * registries, of which one or the other is served; a collector in both and in the default one; a
 * policy that decides who may connect.
 *
 * Commands: "general", "routes" switch what is served; "clients N" sets.
 */
#include "prom.h"

#include "serve.h"

static prom_collector_registry_t *general, *routes;
static prom_gauge_t *clients, *active;

static enum MHD_Result accept_local(void *arg, const struct sockaddr *address, socklen_t length)
{
    (void)length;
    return arg == &general && address->sa_family == AF_INET ? MHD_YES : MHD_NO;
}

static void command(char *line)
{
    double value;
    if (strcmp(line, "general") == 0)
        promhttp_set_active_collector_registry(general);
    else if (strcmp(line, "routes") == 0)
        promhttp_set_active_collector_registry(routes);
    else if (sscanf(line, "clients %lf", &value) == 1) {
        MUST(prom_gauge_set(clients, value, (const char *[]){"worker[0]"}) == 0);
        MUST(prom_gauge_set(active, value / 2, (const char *[]){"db", "user"}) == 0);
    }
}

int main(void)
{
    general = prom_collector_registry_new("general");
    routes = prom_collector_registry_new("routes");
    prom_collector_t *workers = prom_collector_new("workers");
    prom_collector_t *route = prom_collector_new("route");
    clients = prom_gauge_new("clients_processed", "Number of processed clients", 1,
                             (const char *[]){"worker"});
    active = prom_gauge_new("client_pool_active", "Active clients", 2,
                            (const char *[]){"database", "user"});
    MUST(prom_collector_add_metric(workers, clients) == 0);
    MUST(prom_collector_add_metric(route, active) == 0);
    MUST(prom_collector_registry_default_init() == 0);
    MUST(prom_collector_registry_register_collector(general, workers) == 0);
    MUST(prom_collector_registry_register_collector(routes, workers) == 0);
    MUST(prom_collector_registry_register_collector(routes, route) == 0);
    MUST(prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, workers) == 0);
    promhttp_set_active_collector_registry(general);
    struct MHD_Daemon *daemon = promhttp_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD, 0, (MHD_AcceptPolicyCallback)accept_local, &general);
    print_port(daemon);
    obey(command);
    MUST(prom_collector_registry_destroy(general) == 0);
    MUST(prom_collector_registry_destroy(routes) == 0);
    MHD_stop_daemon(daemon);
    return prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
}
