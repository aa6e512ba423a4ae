/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: a sample is a series of the core under another name. Any thread. */
#include "lib/metrics/family.h"
#include "lib/prom/internal.h"

static struct metric_series *series_of_sample(prom_metric_sample_t *self)
{
    return (struct metric_series *)self;
}

prom_metric_sample_t *prom_metric_sample_of_series(struct metric_series *series)
{
    return (prom_metric_sample_t *)series;
}

const struct metric_series *prom_metric_sample_series(prom_metric_sample_t *self)
{
    return series_of_sample(self);
}

static bool is_gauge(prom_metric_sample_t *self)
{
    return self && series_of_sample(self)->magic == METRIC_SERIES_MAGIC(METRIC_GAUGE);
}

__attribute__((cold)) static int not_a_gauge(const prom_metric_sample_t *self)
{
    return prom_fail(self ? "only a gauge can be set or go down" : "the sample is NULL");
}

int prom_metric_sample_add(prom_metric_sample_t *self, double r_value)
{
    if (!self)
        return not_a_gauge(self);
    if (!is_gauge(self))
        return prom_counter_add_to(series_of_sample(self), r_value); /* which checks the type */
    metric_gauge_add(series_of_sample(self), r_value);
    return 0;
}

int prom_metric_sample_sub(prom_metric_sample_t *self, double r_value)
{
    if (!is_gauge(self))
        return not_a_gauge(self);
    metric_gauge_add(series_of_sample(self), -r_value);
    return 0;
}

int prom_metric_sample_set(prom_metric_sample_t *self, double r_value)
{
    if (!is_gauge(self))
        return not_a_gauge(self);
    metric_gauge_set(series_of_sample(self), r_value);
    return 0;
}

int prom_metric_sample_histogram_observe(prom_metric_sample_histogram_t *self, double value)
{
    if (!self)
        return prom_fail("the sample is NULL");
    metric_observe((struct metric_series *)self, value);
    return 0;
}
