/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that was compiled against the declarations of prometheus-client-c and is only linked
 * with this library. The declarations are written out here, as facts about that interface; none of
 * our headers is included. It calls each function once and prints what it observed.
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
int prom_collector_registry_destroy(prom_collector_registry_t *self);
int prom_collector_registry_enable_process_metrics(prom_collector_registry_t *self);
int prom_collector_registry_register_metric(prom_metric_t *metric);
prom_metric_t *prom_collector_registry_must_register_metric(prom_metric_t *metric);
int prom_collector_registry_register_collector(prom_collector_registry_t *self,
                                               prom_collector_t *collector);
int prom_collector_registry_validate_metric_name(prom_collector_registry_t *self,
                                                 const char *metric_name);
prom_collector_registry_t *prom_collector_registry_new(const char *name);
const char *prom_collector_registry_bridge(prom_collector_registry_t *self);
prom_collector_t *prom_collector_new(const char *name);
prom_collector_t *prom_collector_process_new(const char *limits_path, const char *stat_path);
int prom_collector_destroy(prom_collector_t *self);
int prom_collector_destroy_generic(void *gen);
void prom_collector_free_generic(void *gen);
int prom_collector_add_metric(prom_collector_t *self, prom_metric_t *metric);
int prom_collector_set_collect_fn(prom_collector_t *self, prom_collect_fn *fn);
prom_counter_t *prom_counter_new(const char *name, const char *help, size_t label_key_count,
                                 const char **label_keys);
int prom_counter_inc(prom_counter_t *self, const char **label_values);
int prom_counter_add(prom_counter_t *self, double r_value, const char **label_values);
int prom_counter_destroy(prom_counter_t *self);
prom_gauge_t *prom_gauge_new(const char *name, const char *help, size_t label_key_count,
                             const char **label_keys);
int prom_gauge_inc(prom_gauge_t *self, const char **label_values);
int prom_gauge_dec(prom_gauge_t *self, const char **label_values);
int prom_gauge_add(prom_gauge_t *self, double r_value, const char **label_values);
int prom_gauge_sub(prom_gauge_t *self, double r_value, const char **label_values);
int prom_gauge_set(prom_gauge_t *self, double r_value, const char **label_values);
int prom_gauge_destroy(prom_gauge_t *self);
prom_histogram_t *prom_histogram_new(const char *name, const char *help,
                                     prom_histogram_buckets_t *buckets, size_t label_key_count,
                                     const char **label_keys);
int prom_histogram_observe(prom_histogram_t *self, double value, const char **label_values);
int prom_histogram_destroy(prom_histogram_t *self);
prom_histogram_buckets_t *prom_histogram_buckets_new(size_t count, double bucket, ...);
prom_histogram_buckets_t *prom_histogram_buckets_linear(double start, double width, size_t count);
prom_histogram_buckets_t *prom_histogram_buckets_exponential(double start, double factor,
                                                             size_t count);
int prom_histogram_buckets_destroy(prom_histogram_buckets_t *self);
size_t prom_histogram_buckets_count(prom_histogram_buckets_t *self);
prom_metric_sample_t *prom_metric_sample_from_labels(prom_metric_t *self,
                                                     const char **label_values);
int prom_metric_sample_add(prom_metric_sample_t *self, double r_value);
int prom_metric_sample_sub(prom_metric_sample_t *self, double r_value);
int prom_metric_sample_set(prom_metric_sample_t *self, double r_value);
prom_metric_sample_histogram_t *prom_metric_sample_histogram_from_labels(prom_metric_t *self,
                                                                         const char **label_values);
int prom_metric_sample_histogram_observe(prom_metric_sample_histogram_t *self, double value);

struct MHD_Daemon;
void promhttp_set_active_collector_registry(prom_collector_registry_t *active_registry);
struct MHD_Daemon *promhttp_start_daemon(unsigned int flags, unsigned short port,
                                         int (*apc)(void *, const void *, unsigned), void *apc_cls);
void MHD_stop_daemon(struct MHD_Daemon *daemon);

static int failures;
static prom_gauge_t *gauge;

static prom_map_t *collect(prom_collector_t *self)
{
    (void)self;
    failures += prom_gauge_set(gauge, 42, NULL);
    return NULL;
}

static void add_counters_and_gauges(void)
{
    const char *keys[] = {"a"}, *values[] = {"1"};
    prom_counter_t *counter =
        prom_collector_registry_must_register_metric(prom_counter_new("c_total", "C", 1, keys));
    failures += prom_counter_inc(counter, values);
    failures += prom_counter_add(counter, 0.5, values);
    failures += prom_metric_sample_add(prom_metric_sample_from_labels(counter, values), 2);
    prom_gauge_t *level =
        prom_collector_registry_must_register_metric(prom_gauge_new("level", "L", 1, keys));
    failures += prom_gauge_set(level, 10, values) + prom_gauge_inc(level, values);
    failures += prom_gauge_dec(level, values) + prom_gauge_dec(level, values);
    failures += prom_gauge_add(level, 5, values) + prom_gauge_sub(level, 2, values);
    prom_metric_sample_t *sample = prom_metric_sample_from_labels(level, (const char *[]){"2"});
    failures += prom_metric_sample_set(sample, 7) + prom_metric_sample_sub(sample, 1);
    failures += prom_counter_destroy(prom_counter_new("gone_total", "G", 0, NULL));
    failures += prom_gauge_destroy(prom_gauge_new("gone", "G", 0, NULL));
}

static void add_histograms(void)
{
    prom_histogram_t *histogram =
        prom_histogram_new("h", "H", prom_histogram_default_buckets, 0, NULL);
    failures += prom_collector_registry_register_metric(histogram);
    failures +=
        prom_histogram_observe(histogram, prom_histogram_default_buckets->upper_bounds[0], NULL);
    failures += prom_metric_sample_histogram_observe(
        prom_metric_sample_histogram_from_labels(histogram, NULL), 1);
    prom_histogram_buckets_t *buckets = prom_histogram_buckets_linear(1, 1, 3);
    failures += prom_histogram_buckets_count(buckets) != 3;
    failures += prom_histogram_buckets_destroy(buckets);
    failures += prom_histogram_buckets_destroy(prom_histogram_buckets_new(2, 1.0, 2.0));
    failures += prom_histogram_destroy(prom_histogram_new(
        "gone_seconds", "G", prom_histogram_buckets_exponential(1, 2, 3), 0, NULL));
}

static void add_collectors(void)
{
    gauge = prom_gauge_new("g", "G", 0, NULL);
    prom_collector_t *collector = prom_collector_new("mine");
    failures += prom_collector_add_metric(collector, gauge);
    failures += prom_collector_set_collect_fn(collector, collect);
    failures +=
        prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, collector);
    failures += prom_collector_destroy(prom_collector_process_new(NULL, NULL));
    failures += prom_collector_destroy_generic(prom_collector_new("gone"));
    prom_collector_free_generic(prom_collector_new("gone"));
}

static void use_another_registry(void)
{
    prom_collector_registry_t *other = prom_collector_registry_new("other");
    failures += prom_collector_registry_enable_process_metrics(other);
    failures += prom_collector_registry_validate_metric_name(other, "a_b:c");
    failures += prom_collector_registry_destroy(other);
    promhttp_set_active_collector_registry(NULL);
    struct MHD_Daemon *daemon = promhttp_start_daemon(8 /* a thread */, 0, NULL, NULL);
    failures += daemon == NULL;
    MHD_stop_daemon(daemon);
}

int main(void)
{
    failures += prom_collector_registry_default_init();
    add_counters_and_gauges();
    add_histograms();
    add_collectors();
    use_another_registry();
    char *text = (char *)(size_t)prom_collector_registry_bridge(PROM_COLLECTOR_REGISTRY_DEFAULT);
    fputs(text, stdout);
    free(text);
    failures += prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
    return failures;
}
