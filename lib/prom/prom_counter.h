/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_counter.h - a number that only grows.
 *
 *     static prom_counter_t *requests;
 *     requests = prom_collector_registry_must_register_metric(
 *         prom_counter_new("http_requests_total", "Requests.", 1, (const char *[]){"method"}));
 *     prom_counter_inc(requests, (const char *[]){"GET"});
 *
 * prom_metric.h says who owns a metric, and from which threads it may be used.
 */
#ifndef PROM_COUNTER_H
#define PROM_COUNTER_H

#include <stdlib.h> /* programs rely on it */

#include "prom_metric.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef prom_metric_t prom_counter_t;

/*
 * A new counter, which belongs to the caller. Name, help and label keys are copied. The name should
 * end in _total, and is shown as it is in every format: OpenMetrics 1.0 has no counters of other
 * names, and gets such a one as "unknown". `label_keys` has label_key_count strings, at most 16; it
 * may be NULL for a counter without labels, which is shown at 0 from the start.
 *
 * Returns NULL if the name or a label key has other characters than letters, digits and _ (in the
 * name also :), begins with a digit, or is reserved (le, quantile, __...), if a key is there twice,
 * or if memory ran out; prom_last_error() tells which. prometheus-client-c took any label key, and
 * one bad name made Prometheus reject the whole scrape.
 */
prom_counter_t *prom_counter_new(const char *name, const char *help, size_t label_key_count,
                                 const char **label_keys);

/* Frees the counter, which leaves its collectors first; takes NULL. Returns 0. */
int prom_counter_destroy(prom_counter_t *self);

/* Adds 1 to the series of the label values (see prom_metric_sample_from_labels). Returns 0, or
 * non-zero if there is no such series to be had, and then nothing has changed. */
int prom_counter_inc(prom_counter_t *self, const char **label_values);

/* Adds a value; 0 makes the series exist. Whole numbers below 2^53 are counted exactly up to a sum
 * of 2^64, as long as nothing else is added. Non-zero, too, for a negative value, NaN and infinity:
 * a counter that has shrunk reads as one that was restarted, and one that is infinite never moves
 * again. */
int prom_counter_add(prom_counter_t *self, double r_value, const char **label_values);

/*
 * Additions, for programs that show what is counted elsewhere, by the kernel for example.
 *
 * Sets the series of the label values to what the other place has counted; less than before reads
 * as a restart of that place. Non-zero as prom_counter_add. A series is either set or counted: what
 * is added to one that is set is shown on top of it. One thread at a time for each series. A scrape
 * before the first call shows a counter without labels as 0, and what it is set to later reads as
 * having been counted in between: set it before you register it, or in a collect function.
 *
 * When the counting began is not known here, so such a series is shown without a start time. If you
 * know it, pass it to prom_counter_set_since, in seconds since 1970 (NaN: not known).
 */
int prom_counter_set(prom_counter_t *self, double r_value, const char **label_values);
int prom_counter_set_since(prom_counter_t *self, double r_value, double since,
                           const char **label_values);

/* Stops showing all series of the counter, for those that are still there to be set again. Series
 * that are counted go on from their last value, since what Prometheus takes for a restart would not
 * be one. Handles and memory are as with prom_gauge_clear. A counter without labels is
 * shown as before. Returns 0, or non-zero if self is not a counter. */
int prom_counter_clear(prom_counter_t *self);

#ifdef __cplusplus
}
#endif

#endif
