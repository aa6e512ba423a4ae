/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_gauge.h - a number that goes up and down.
 *
 *     prom_gauge_t *temperature = prom_collector_registry_must_register_metric(
 *         prom_gauge_new("room_temperature_celsius", "Temperature.", 1, (const char *[]){"room"}));
 *     prom_gauge_set(temperature, 21.5, (const char *[]){"kitchen"});
 *
 * prom_metric.h says who owns a metric, and from which threads it may be used.
 */
#ifndef PROM_GAUGE_H
#define PROM_GAUGE_H

#include <stdlib.h> /* programs rely on it */

#include "prom_metric.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef prom_metric_t prom_gauge_t;

/* A new gauge, which belongs to the caller; as prom_counter_new, with any legal name. */
prom_gauge_t *prom_gauge_new(const char *name, const char *help, size_t label_key_count,
                             const char **label_keys);

/* Frees the gauge, which leaves its collectors first; takes NULL. Returns 0. */
int prom_gauge_destroy(prom_gauge_t *self);

/* Each changes the series of the label values (see prom_metric_sample_from_labels) and returns 0,
 * or non-zero if there is no such series to be had. Any value, NaN and infinities too: they are
 * shown as NaN, +Inf and -Inf, where prometheus-client-c wrote "-nan" and Prometheus rejected the
 * whole scrape. */
int prom_gauge_inc(prom_gauge_t *self, const char **label_values);
int prom_gauge_dec(prom_gauge_t *self, const char **label_values);
int prom_gauge_add(prom_gauge_t *self, double r_value, const char **label_values);
int prom_gauge_sub(prom_gauge_t *self, double r_value, const char **label_values);
int prom_gauge_set(prom_gauge_t *self, double r_value, const char **label_values);

/* An addition: stops showing all series of the gauge, so that only those remain that are observed
 * again, from 0. Handles stay valid; what one sets is shown once its labels are looked up
 * again. The memory of a series is kept until the gauge is freed. A gauge without labels is shown
 * as 0. Returns 0, or non-zero if self is not a gauge. */
int prom_gauge_clear(prom_gauge_t *self);

#ifdef __cplusplus
}
#endif

#endif
