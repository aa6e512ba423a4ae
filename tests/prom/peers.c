/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As programs that follow what comes and goes use the interface: a metric for each peer, registered
 * when it connects and unregistered when it leaves.
 *
 * Commands: "connect N", "leave N" with N of 0 to 9.
 */
#include "prom.h"

#include "serve.h"

static prom_counter_t *peers[10];

static void command(char *line)
{
    int i;
    char name[64];
    if (sscanf(line, "connect %d", &i) == 1) {
        snprintf(name, sizeof name, "peer_%d_connections", i);
        if (!peers[i])
            peers[i] = prom_counter_new(name, "Connections", 0, NULL);
        MUST(prom_collector_registry_must_register_metric(peers[i]) == peers[i]);
        MUST(prom_counter_inc(peers[i], NULL) == 0);
    } else if (sscanf(line, "leave %d", &i) == 1) {
        MUST(prom_collector_registry_unregister_metric(peers[i]) == 0);
        peers[i] = NULL;
    }
}

int main(void)
{
    MUST(prom_collector_registry_default_init() == 0);
    struct MHD_Daemon *daemon = promhttp_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, NULL, NULL);
    print_port(daemon);
    obey(command);
    MHD_stop_daemon(daemon);
    return prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
}
