/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin with metrics, which plugin_host.c loads, uses from several threads and closes. It is
 * linked with the shared library, or with the static one. No function is declared elsewhere: the
 * host finds them by name.
 */
#include "prom.h"
#include "promhttp.h"

#include <stdint.h>

int plugin_start(void);
int plugin_count(void);
int plugin_stop(void);

static prom_counter_t *counter;
static struct MHD_Daemon *daemon_of_plugin;

int plugin_start(void)
{
    if (prom_collector_registry_default_init() != 0)
        return 1;
    counter = prom_collector_registry_must_register_metric(
        prom_counter_new("plugin_total", "Counts", 1, (const char *[]){"of"}));
    daemon_of_plugin = promhttp_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL);
    return daemon_of_plugin == NULL;
}

int plugin_count(void)
{
    return prom_counter_inc(counter, (const char *[]){"plugin"});
}

int plugin_stop(void)
{
    char *text = (char *)(uintptr_t)prom_collector_registry_bridge(PROM_COLLECTOR_REGISTRY_DEFAULT);
    const int counted = text != NULL && strstr(text, "plugin_total{of=\"plugin\"} 5000\n") != NULL;
    free(text);
    MHD_stop_daemon(daemon_of_plugin);
    return prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT) != 0 || !counted;
}
