/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_metric_sample_histogram.h - a series of a histogram, found once
 * (prom_metric_sample_histogram_from_labels). The handle belongs to its metric.
 */
#ifndef PROM_METRIC_SAMPLE_HISTOGRAM_H
#define PROM_METRIC_SAMPLE_HISTOGRAM_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct prom_metric_sample_histogram prom_metric_sample_histogram_t;

/* Counts any value; see prom_histogram_observe. Non-zero: self is NULL. */
int prom_metric_sample_histogram_observe(prom_metric_sample_histogram_t *self, double value);

#ifdef __cplusplus
}
#endif

#endif
