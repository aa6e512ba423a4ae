/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As an agent of a node uses the interface: groups of metrics, each with functions to set it up, to
 * update it from a thread of its own, and to destroy it; and promhttp for all of them. What the
 * kernel counts is set, not added, and what has gone is not shown any more.
 *
 * Commands: "update N" updates the groups on their thread, with N devices.
 */
#include "prom.h"

#include <pthread.h>

#include "serve.h"

struct group {
    void (*set_up)(void);
    void (*update)(void);
    void (*destroy)(void);
};

static prom_gauge_t *load, *memory, *up;
static prom_counter_t *switches, *received;
static int devices;

static void cpu_set_up(void)
{
    load = prom_gauge_new("node_load", "Load", 1, (const char *[]){"of"});
    switches = prom_counter_new("node_context_switches_total", "Switches", 0, NULL);
    MUST(prom_collector_registry_register_metric(load) == 0);
    MUST(prom_collector_registry_register_metric(switches) == 0);
}

static void cpu_update(void)
{
    MUST(prom_gauge_set(load, 0.25, (const char *[]){"minute"}) == 0);
    MUST(prom_counter_add(switches, 1000, NULL) == 0);
}

static void cpu_destroy(void)
{
    MUST(prom_gauge_destroy(load) == 0); /* although it is registered */
    MUST(prom_counter_destroy(switches) == 0);
}

static void network_set_up(void)
{
    const char *keys[] = {"device"};
    received = prom_collector_registry_must_register_metric(
        prom_counter_new("node_network_receive_bytes_total", "Received", 1, keys));
    up = prom_collector_registry_must_register_metric(
        prom_gauge_new("node_network_up", "Up", 1, keys));
}

static void network_update(void)
{
    MUST(prom_counter_clear(received) == 0);
    MUST(prom_gauge_clear(up) == 0);
    for (int i = 0; i < devices; i++) {
        char name[16];
        snprintf(name, sizeof name, "eth%d", i);
        MUST(prom_counter_set(received, 1e6 * (i + 1), (const char *[]){name}) == 0);
        MUST(prom_gauge_set(up, 1, (const char *[]){name}) == 0);
    }
}

static void network_destroy(void)
{
    received = up = NULL; /* the registry frees them */
}

static void memory_set_up(void)
{
    memory = prom_collector_registry_must_register_metric(
        prom_gauge_new("node_memory_free_bytes", "Free memory", 0, NULL));
}

static void memory_update(void)
{
    MUST(prom_gauge_set(memory, 1e10, NULL) == 0);
}

static void memory_destroy(void)
{
    memory = NULL; /* the registry frees it */
}

static const struct group groups[] = {{cpu_set_up, cpu_update, cpu_destroy},
                                      {network_set_up, network_update, network_destroy},
                                      {memory_set_up, memory_update, memory_destroy}};
enum { GROUPS = sizeof groups / sizeof *groups };

static void *update_all(void *arg)
{
    for (size_t i = 0; i < GROUPS; i++)
        groups[i].update();
    return arg;
}

static void command(char *line)
{
    pthread_t thread;
    if (sscanf(line, "update %d", &devices) != 1)
        return;
    MUST(pthread_create(&thread, NULL, update_all, NULL) == 0);
    pthread_join(thread, NULL);
}

int main(void)
{
    MUST(prom_collector_registry_default_init() == 0);
    for (size_t i = 0; i < GROUPS; i++)
        groups[i].set_up();
    struct MHD_Daemon *daemon =
        promhttp_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL);
    print_port(daemon);
    obey(command);
    MHD_stop_daemon(daemon);
    for (size_t i = 0; i < GROUPS; i++)
        groups[i].destroy();
    return prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
}
