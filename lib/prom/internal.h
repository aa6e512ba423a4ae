/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of metrics share inside the library. Any thread. */
#ifndef PROM_METRIC_INTERNAL_H
#define PROM_METRIC_INTERNAL_H

#include "lib/prom/catalog.h"

/* A new metric of the description, to which labels and flags are added. NULL: prom_last_error()
 * says why. */
struct prom_metric *prom_metric_make(struct metric_desc *desc, size_t label_key_count,
                                     const char **label_keys);
int prom_metric_destroy(struct prom_metric *metric);

/* The series of the label values. NULL: there is none to be had, and prom_last_error() says why. */
struct metric_series *prom_metric_series(struct prom_metric *metric, enum metric_type type,
                                         const char **label_values);

/* Ends all series of a metric of that type; those that are observed again are shown again. */
int prom_metric_clear(struct prom_metric *metric, enum metric_type type);

/* Runs the collect function, once at a time. */
void prom_collector_run(struct prom_collector *collector);

/* Adds to a counter, or fails for what no counter may be given. */
int prom_counter_add_to(struct metric_series *series, double value);

/* prom_histogram_default_buckets, or ours where a program has set that to NULL. */
prom_histogram_buckets_t *prom_buckets_default(void);

/* A histogram of these buckets was made; it is one more, or one less, that has them. */
bool prom_buckets_take(prom_histogram_buckets_t *buckets);
void prom_buckets_release(prom_histogram_buckets_t *buckets);

#endif
