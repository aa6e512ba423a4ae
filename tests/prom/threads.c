/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four threads that observe on the same series and on their own, by labels and by handle, while
 * others scrape. What they observed is exact: each adds ROUNDS times to
 *
 *     load_total{thread="shared"}, load_total{thread=ITSELF}     1
 *     load_seconds_total                                          0.5
 *     load_gauge                                                  +2 and -1
 *     load_values (histogram), by labels and by handle             1, 1000000, 1000001 in turn
 *
 * Commands: "start" begins, "finish" waits for the end.
 */
#include "prom.h"

#include <pthread.h>

#include "serve.h"

enum { THREADS = 4, ROUNDS = 30000 };

static pthread_t threads[THREADS];
static prom_counter_t *counter, *fractions;
static prom_gauge_t *gauge;
static prom_histogram_t *histogram;

static void *observe(void *arg)
{
    static const double values[] = {1, 1000000, 1000001};
    const char *own = arg;
    prom_metric_sample_t *shared =
        prom_metric_sample_from_labels(counter, (const char *[]){"shared"});
    prom_metric_sample_histogram_t *handle =
        prom_metric_sample_histogram_from_labels(histogram, (const char *[]){"handle"});
    for (int i = 0; i < ROUNDS; i++) {
        prom_counter_inc(counter, (const char *[]){own});
        prom_metric_sample_add(shared, 1);
        prom_counter_add(fractions, 0.5, NULL);
        prom_gauge_add(gauge, 2, NULL);
        prom_gauge_dec(gauge, NULL);
        prom_histogram_observe(histogram, values[i % 3], (const char *[]){"labels"});
        prom_metric_sample_histogram_observe(handle, values[i % 3]);
    }
    return NULL;
}

static void command(char *line)
{
    static char names[THREADS][2] = {"0", "1", "2", "3"};
    for (int i = 0; i < THREADS && strcmp(line, "start") == 0; i++)
        MUST(pthread_create(&threads[i], NULL, observe, names[i]) == 0);
    for (int i = 0; i < THREADS && strcmp(line, "finish") == 0; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const char *thread[] = {"thread"}, *by[] = {"by"};
    MUST(prom_collector_registry_default_init() == 0);
    counter = prom_collector_registry_must_register_metric(
        prom_counter_new("load_total", "Observations", 1, thread));
    fractions = prom_collector_registry_must_register_metric(
        prom_counter_new("load_seconds_total", "Halves", 0, NULL));
    gauge = prom_collector_registry_must_register_metric(
        prom_gauge_new("load_gauge", "Ups and downs", 0, NULL));
    histogram = prom_collector_registry_must_register_metric(prom_histogram_new(
        "load_values", "Values", prom_histogram_buckets_new(3, 1.0, 1e6, 1000001.0), 1, by));
    struct MHD_Daemon *daemon =
        promhttp_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL);
    print_port(daemon);
    obey(command);
    MHD_stop_daemon(daemon);
    return prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
}
