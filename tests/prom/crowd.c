/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with more to show than fits into the buffers of a connection, 10 MB, which two daemons
 * serve: so clients can be in the middle of an answer while something happens.
 *
 * Prints the port of the second daemon as the answer to "second". Commands: "destroy" destroys the
 * registry that is served, "another" makes one that is not, "stop" stops both daemons.
 */
#include "prom.h"

#include "serve.h"

enum { SERIES = 20000, LABEL_BYTES = 500 };

static prom_collector_registry_t *registry;
static struct MHD_Daemon *daemons[2];

static void fill_registry(void)
{
    char label[LABEL_BYTES + 1];
    prom_collector_t *collector = prom_collector_new("crowd");
    prom_gauge_t *gauge = prom_gauge_new("crowd", "Many", 1, (const char *[]){"who"});
    MUST(prom_collector_add_metric(collector, gauge) == 0);
    MUST(prom_collector_registry_register_collector(registry, collector) == 0);
    for (int i = 0; i < SERIES; i++) {
        snprintf(label, sizeof label, "%0*d", LABEL_BYTES, i);
        MUST(prom_gauge_set(gauge, i, (const char *[]){label}) == 0);
    }
}

static void command(char *line)
{
    if (strcmp(line, "second") == 0) {
        print_port(daemons[1]);
    } else if (strcmp(line, "destroy") == 0) {
        MUST(prom_collector_registry_destroy(registry) == 0);
        registry = NULL;
    } else if (strcmp(line, "another") == 0) {
        registry = prom_collector_registry_new("another");
        MUST(registry != NULL);
    } else if (strcmp(line, "stop") == 0) {
        for (int i = 0; i < 2; i++) {
            MHD_stop_daemon(daemons[i]);
            daemons[i] = NULL;
        }
    }
}

int main(void)
{
    registry = prom_collector_registry_new("crowd");
    fill_registry();
    promhttp_set_active_collector_registry(registry);
    daemons[0] = promhttp_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, NULL, NULL);
    daemons[1] = promhttp_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL);
    print_port(daemons[0]);
    obey(command);
    for (int i = 0; i < 2; i++) {
        if (daemons[i] != NULL)
            MHD_stop_daemon(daemons[i]);
    }
    return prom_collector_registry_destroy(registry);
}
