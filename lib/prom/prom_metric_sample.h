/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_metric_sample.h - a series of a counter or gauge, found once
 * (prom_metric_sample_from_labels) and then used without a look-up: an observation is an addition
 * to a cell of the calling thread.
 *
 * The handle belongs to its metric. Each function returns 0, or non-zero and changes nothing.
 */
#ifndef PROM_METRIC_SAMPLE_H
#define PROM_METRIC_SAMPLE_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct prom_metric_sample prom_metric_sample_t;

/* Of a counter or a gauge. A counter refuses what is negative, NaN or infinite. */
int prom_metric_sample_add(prom_metric_sample_t *self, double r_value);

/* Of a gauge. */
int prom_metric_sample_sub(prom_metric_sample_t *self, double r_value);
int prom_metric_sample_set(prom_metric_sample_t *self, double r_value);

#ifdef __cplusplus
}
#endif

#endif
