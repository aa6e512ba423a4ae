/* SPDX-License-Identifier: Apache-2.0 */
/* Gauges of prom_gauge.h. Any thread. */
#include "lib/prom/prom_gauge.h"

#include "lib/prom/internal.h"

prom_gauge_t *prom_gauge_new(const char *name, const char *help, size_t label_key_count,
                             const char **label_keys)
{
    struct metric_desc desc = {.name = name, .help = help, .type = METRIC_GAUGE};
    return prom_metric_make(&desc, label_key_count, label_keys);
}

int prom_gauge_destroy(prom_gauge_t *self)
{
    return prom_metric_destroy(self);
}

int prom_gauge_clear(prom_gauge_t *self)
{
    return prom_metric_clear(self, METRIC_GAUGE);
}

int prom_gauge_add(prom_gauge_t *self, double r_value, const char **label_values)
{
    struct metric_series *series = prom_metric_series(self, METRIC_GAUGE, label_values);
    if (!series)
        return 1;
    metric_gauge_add(series, r_value);
    return 0;
}

int prom_gauge_inc(prom_gauge_t *self, const char **label_values)
{
    return prom_gauge_add(self, 1, label_values);
}

int prom_gauge_dec(prom_gauge_t *self, const char **label_values)
{
    return prom_gauge_add(self, -1, label_values);
}

int prom_gauge_sub(prom_gauge_t *self, double r_value, const char **label_values)
{
    return prom_gauge_add(self, -r_value, label_values);
}

int prom_gauge_set(prom_gauge_t *self, double r_value, const char **label_values)
{
    struct metric_series *series = prom_metric_series(self, METRIC_GAUGE, label_values);
    if (!series)
        return 1;
    metric_gauge_set(series, r_value);
    return 0;
}
