/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_collector.h - metrics that belong together, and a function that sets them at a scrape.
 *
 * A collector owns its metrics; a metric in several collectors is freed with the last of them. A
 * collector belongs to the program until a registry takes it, and from then on to the registries
 * that have it: it is freed with the last of them. prom_collector_destroy frees it at any time.
 * While a scrape runs collect functions, the collectors that it began with stay valid with their
 * metrics, even if they are destroyed; but not a metric that is removed or destroyed by itself.
 *
 * All functions may be called from any thread, while scrapes run too.
 */
#ifndef PROM_COLLECTOR_H
#define PROM_COLLECTOR_H

#include "prom_map.h"
#include "prom_metric.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct prom_collector prom_collector_t;

/*
 * Runs when a scrape begins, on the thread that scrapes, before the collector's metrics are read.
 * For one collector it runs once at a time, even with several scrapes at once. It may observe, and
 * add metrics to its collector or remove them, or destroy it. It must not scrape: that fails.
 *
 * What it returns is not used: the metrics of the collector are shown. Return NULL. (In
 * prometheus-client-c it returned the collector's own map, which no public function could give it.)
 */
typedef prom_map_t *prom_collect_fn(prom_collector_t *self);

/* A collector without metrics, which belongs to the caller. The name is copied; it tells collectors
 * of a registry apart and is not shown. NULL: no name, or memory ran out. */
prom_collector_t *prom_collector_new(const char *name);

/*
 * A collector named "process" of what the kernel knows about this process, read at each scrape:
 * process_cpu_seconds_total, process_start_time_seconds (since 1970, not since boot),
 * process_resident_memory_bytes, process_virtual_memory_bytes, process_virtual_memory_max_bytes,
 * process_open_fds, process_max_fds, process_threads. All in seconds and bytes, with fractions.
 *
 * `limits_path` and `stat_path` are files to read instead of /proc/self/limits and /proc/self/stat;
 * NULL for those. They are copied. NULL: memory ran out.
 */
prom_collector_t *prom_collector_process_new(const char *limits_path, const char *stat_path);

/* Takes the collector out of its registries and frees it with the metrics that no other collector
 * has; takes NULL. Returns 0. It does not wait for a collect function that runs at that moment, so
 * a program may hold a lock that this function takes; prom_collector_set_collect_fn(self, NULL)
 * does. */
int prom_collector_destroy(prom_collector_t *self);

/* The same, as callbacks of other libraries call it. */
int prom_collector_destroy_generic(void *gen);
void prom_collector_free_generic(void *gen);

/* Adds a metric, which from now on belongs to the collector. Returns 0, or non-zero and leaves the
 * metric to the caller: one of them is NULL, the collector or one of its registries has a metric
 * whose names would clash (a second one of the same name, or a gauge x_sum beside a histogram x),
 * or memory ran out. */
int prom_collector_add_metric(prom_collector_t *self, prom_metric_t *metric);

/* Takes a metric out, and frees it if no other collector has it. Returns 0, or non-zero if the
 * collector does not have it. */
int prom_collector_remove_metric(prom_collector_t *self, prom_metric_t *metric);

/* The function that sets the collector's metrics; NULL: none. Waits for the former one, which has
 * ended when it returns and does not run again; so it must not be called with a lock that the
 * former one takes. Returns 0, or non-zero if self is NULL. */
int prom_collector_set_collect_fn(prom_collector_t *self, prom_collect_fn *fn);

#ifdef __cplusplus
}
#endif

#endif
