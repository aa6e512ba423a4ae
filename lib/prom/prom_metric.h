/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_metric.h - what counters, gauges and histograms have in common.
 *
 * A metric belongs to the program until a collector takes it (prom_collector_add_metric,
 * prom_collector_registry_register_metric), and from then on to the collectors that have it: it is
 * freed with the last of them. The functions named _destroy free it at any time, and take it out of
 * its collectors first. Whatever frees it: no thread may use the metric or one of its handles from
 * then on. A scrape that is reading it is no such user; it keeps what it needs until it ends.
 *
 * All functions may be called from any thread, observations on one metric and one series too, but
 * not from a signal handler. An observation takes no lock and allocates nothing once its series
 * exists (unless a label value is not UTF-8, which is cleaned at each look-up).
 *
 * After fork() each process has metrics of its own, and those of the child begin with the values of
 * the parent. The child of a program with several threads may observe series that exist; it may
 * make, remove and scrape nothing, since a lock may be held by a thread that it does not have.
 */
#ifndef PROM_METRIC_H
#define PROM_METRIC_H

#include "prom_metric_sample.h"
#include "prom_metric_sample_histogram.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct prom_metric prom_metric_t;

struct metric_family; /* metric.h */
struct metric_series;

/*
 * The series of a label set as a handle, created at 0 if it is new: observing by a handle saves the
 * look-up. `label_values` has one string for each label key of the metric, in their order; it is
 * only read up to there, so it need not end in NULL, and may be NULL for a metric without labels.
 * The strings are copied if the series is new. They may hold any bytes: what is not UTF-8 is shown
 * as U+FFFD.
 *
 * Returns NULL if the metric is NULL or a histogram (see prom_metric_sample_histogram_from_labels),
 * if a label value is NULL, or if memory ran out. The handle is the metric's and is freed with it.
 */
prom_metric_sample_t *prom_metric_sample_from_labels(prom_metric_t *self,
                                                     const char **label_values);

/* The same for a histogram; NULL for any other metric. */
prom_metric_sample_histogram_t *prom_metric_sample_histogram_from_labels(prom_metric_t *self,
                                                                         const char **label_values);

/*
 * An addition: a family of metric.h as a metric of prom.h, so that a program can set it with either
 * interface. The family stays where it is, and is scraped with its own registry: no collector takes
 * the metric. A counter needs METRIC_FRACTIONS for values that are not whole or not below 2^53; to
 * add one without it is a bug, and ends the process. There is no series beyond the cap of its
 * registry.
 *
 * Returns NULL if memory ran out. Free the metric with its function named _destroy, which leaves
 * the family alone, before the family's registry.
 */
prom_metric_t *prom_metric_of_family(struct metric_family *family);

/* The same for one series, which stays where it is; nothing needs to be freed. A histogram's has no
 * such handle, and must not be passed. */
prom_metric_sample_t *prom_metric_sample_of_series(struct metric_series *series);
/* And back. */
const struct metric_series *prom_metric_sample_series(prom_metric_sample_t *self);

#ifdef __cplusplus
}
#endif

#endif
