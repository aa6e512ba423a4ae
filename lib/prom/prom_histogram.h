/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_histogram.h - how observed values are distributed.
 *
 *     prom_histogram_t *latency = prom_histogram_new(
 *         "request_seconds", "Latency.", prom_histogram_default_buckets, 0, NULL);
 *     prom_collector_registry_must_register_metric(latency);
 *     prom_histogram_observe(latency, 0.012, NULL);
 *
 * A value is counted once, in one of fine cells: the classic buckets (_bucket lines, which
 * prometheus-client-c named without _bucket, so that no histogram_quantile found them) and the
 * native ones, which Prometheus gets over protobuf, are sums over the same cells. A histogram with
 * a negative bound has classic buckets only: the native ones have none below 0.
 *
 * prom_metric.h says who owns a metric, and from which threads it may be used.
 */
#ifndef PROM_HISTOGRAM_H
#define PROM_HISTOGRAM_H

#include <stdlib.h> /* programs rely on it */

#include "prom_histogram_buckets.h"
#include "prom_metric.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef prom_metric_t prom_histogram_t;

/*
 * A new histogram, which belongs to the caller; as prom_counter_new. It takes over `buckets` (NULL:
 * the default ones) and frees them with itself; their bounds are copied, so later changes to them
 * have no effect. There may be at most 128 bounds. A last one of +Inf is left out, since that
 * bucket is always there, and of equal neighbours one counts. Bounds are told apart to the last
 * bit: prometheus-client-c printed six digits and merged 1000000 with 1000001.
 *
 * Returns NULL, too, if bounds are not finite, not ascending or not there. Then the buckets are the
 * caller's still.
 */
prom_histogram_t *prom_histogram_new(const char *name, const char *help,
                                     prom_histogram_buckets_t *buckets, size_t label_key_count,
                                     const char **label_keys);

/* Frees the histogram, which leaves its collectors first; takes NULL. Returns 0. */
int prom_histogram_destroy(prom_histogram_t *self);

/* Counts a value in the series of the label values (see prom_metric_sample_from_labels). Returns 0,
 * or non-zero if there is no such series to be had. Any value: infinity and NaN are in the bucket
 * of +Inf only. */
int prom_histogram_observe(prom_histogram_t *self, double value, const char **label_values);

#ifdef __cplusplus
}
#endif

#endif
