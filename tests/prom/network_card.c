/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As the firmware of a network card uses the interface: blocks of statistics come and go at run
 * time, each a collector whose function reads the hardware at the scrape. Removal frees.
 *
 * Commands: "attach N", "detach N" with N of 0 to 9.
 */
#include "prom.h"

#include <pthread.h>

#include "serve.h"

enum { BLOCKS = 10 };

static pthread_mutex_t card = PTHREAD_MUTEX_INITIALIZER;

static struct block { /* under the lock */
    prom_collector_t *collector;
    prom_gauge_t *packets;
    prom_counter_t *errors;
    double register_value; /* of the hardware */
} blocks[BLOCKS];

static prom_map_t *read_hardware(prom_collector_t *collector)
{
    pthread_mutex_lock(&card);
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = &blocks[i];
        if (block->collector != collector)
            continue;
        char text[8];
        snprintf(text, sizeof text, "%d", i);
        block->register_value += 10;
        prom_gauge_set(block->packets, block->register_value, (const char *[]){text});
    }
    pthread_mutex_unlock(&card);
    return NULL;
}

static void attach(int i)
{
    char name[64];
    struct block *block = &blocks[i];
    snprintf(name, sizeof name, "block_%d", i);
    block->collector = prom_collector_new(name);
    snprintf(name, sizeof name, "nic_block_%d_packets", i);
    block->packets = prom_gauge_new(name, "Packets", 1, (const char *[]){"block"});
    snprintf(name, sizeof name, "nic_block_%d_errors", i);
    block->errors = prom_counter_new(name, "Errors", 0, NULL);
    MUST(prom_collector_add_metric(block->collector, block->packets) == 0);
    MUST(prom_collector_add_metric(block->collector, block->errors) == 0);
    MUST(prom_collector_set_collect_fn(block->collector, &read_hardware) == 0);
    MUST(prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT,
                                                    block->collector) == 0);
}

static void detach(int i)
{
    struct block *block = &blocks[i];
    MUST(prom_collector_remove_metric(block->collector, block->packets) == 0);
    MUST(prom_collector_remove_metric(block->collector, block->errors) == 0);
    MUST(prom_collector_registry_unregister_collector(PROM_COLLECTOR_REGISTRY_DEFAULT,
                                                      block->collector) == 0);
    *block = (struct block){0};
}

static void command(char *line)
{
    int i;
    pthread_mutex_lock(&card);
    if (sscanf(line, "attach %d", &i) == 1)
        attach(i);
    else if (sscanf(line, "detach %d", &i) == 1)
        detach(i);
    pthread_mutex_unlock(&card);
}

int main(void)
{
    MUST(prom_collector_registry_default_init() == 0);
    struct MHD_Daemon *daemon =
        promhttp_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL);
    print_port(daemon);
    obey(command);
    MHD_stop_daemon(daemon);
    return prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
}
