/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that was compiled against the declarations of prometheus-client-c and is only linked
 * with this library. The declarations are written out here, as facts about that interface; none of
 * our headers is included. It prints what it observed.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct prom_metric prom_metric_t;
typedef prom_metric_t prom_counter_t;
typedef prom_metric_t prom_gauge_t;
typedef prom_metric_t prom_histogram_t;
typedef struct prom_metric_sample prom_metric_sample_t;
typedef struct prom_metric_sample_histogram prom_metric_sample_histogram_t;
typedef struct prom_map prom_map_t;
typedef struct prom_collector prom_collector_t;
typedef struct prom_collector_registry prom_collector_registry_t;
typedef prom_map_t *prom_collect_fn(prom_collector_t *self);
typedef struct prom_histogram_buckets {
    int count;
    const double *upper_bounds;
} prom_histogram_buckets_t;
extern prom_histogram_buckets_t *prom_histogram_default_buckets;
extern prom_collector_registry_t *PROM_COLLECTOR_REGISTRY_DEFAULT;

int prom_collector_registry_default_init(void);
int prom_collector_registry_register_metric(prom_metric_t *metric);
prom_metric_t *prom_collector_registry_must_register_metric(prom_metric_t *metric);
int prom_collector_registry_register_collector(prom_collector_registry_t *self,
                                               prom_collector_t *collector);
const char *prom_collector_registry_bridge(prom_collector_registry_t *self);
int prom_collector_registry_destroy(prom_collector_registry_t *self);
prom_collector_t *prom_collector_new(const char *name);
int prom_collector_add_metric(prom_collector_t *self, prom_metric_t *metric);
int prom_collector_set_collect_fn(prom_collector_t *self, prom_collect_fn *fn);
prom_counter_t *prom_counter_new(const char *name, const char *help, size_t label_key_count,
                                 const char **label_keys);
int prom_counter_inc(prom_counter_t *self, const char **label_values);
prom_gauge_t *prom_gauge_new(const char *name, const char *help, size_t label_key_count,
                             const char **label_keys);
int prom_gauge_set(prom_gauge_t *self, double r_value, const char **label_values);
prom_histogram_t *prom_histogram_new(const char *name, const char *help,
                                     prom_histogram_buckets_t *buckets, size_t label_key_count,
                                     const char **label_keys);
int prom_histogram_observe(prom_histogram_t *self, double value, const char **label_values);
prom_metric_sample_t *prom_metric_sample_from_labels(prom_metric_t *self,
                                                     const char **label_values);
int prom_metric_sample_add(prom_metric_sample_t *self, double r_value);

static prom_gauge_t *gauge;

static prom_map_t *collect(prom_collector_t *self)
{
    (void)self;
    prom_gauge_set(gauge, 42, NULL);
    return NULL;
}

int main(void)
{
    const char *keys[] = {"a"}, *values[] = {"1"};
    prom_collector_registry_default_init();
    prom_counter_t *counter =
        prom_collector_registry_must_register_metric(prom_counter_new("c_total", "C", 1, keys));
    prom_histogram_t *histogram =
        prom_histogram_new("h", "H", prom_histogram_default_buckets, 0, NULL);
    prom_collector_registry_register_metric(histogram);
    gauge = prom_gauge_new("g", "G", 0, NULL);
    prom_collector_t *collector = prom_collector_new("mine");
    prom_collector_add_metric(collector, gauge);
    prom_collector_set_collect_fn(collector, collect);
    prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, collector);
    prom_counter_inc(counter, values);
    prom_metric_sample_add(prom_metric_sample_from_labels(counter, values), 2);
    prom_histogram_observe(histogram, prom_histogram_default_buckets->upper_bounds[0], NULL);
    char *text = (char *)(size_t)prom_collector_registry_bridge(PROM_COLLECTOR_REGISTRY_DEFAULT);
    fputs(text, stdout);
    free(text);
    return prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
}
