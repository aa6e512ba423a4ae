/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of prom_counter.h. Any thread. */
#include "lib/prom/prom_counter.h"

#include <float.h>
#include <math.h>

#include "lib/prom/internal.h"

prom_counter_t *prom_counter_new(const char *name, const char *help, size_t label_key_count,
                                 const char **label_keys)
{
    struct metric_desc desc = {
        .name = name, .help = help, .type = METRIC_COUNTER, .flags = METRIC_FRACTIONS};
    return prom_metric_make(&desc, label_key_count, label_keys);
}

int prom_counter_destroy(prom_counter_t *self)
{
    return prom_metric_destroy(self);
}

static bool takes_value(double value)
{
    if (value >= 0 && value <= DBL_MAX)
        return true;
    prom_fail("a counter takes only finite values that are not negative");
    return false;
}

int prom_counter_add_to(struct metric_series *series, double value)
{
    if (!takes_value(value))
        return 1;
    metric_add_real(series, value);
    return 0;
}

int prom_counter_inc(prom_counter_t *self, const char **label_values)
{
    struct metric_series *series = prom_metric_series(self, METRIC_COUNTER, label_values);
    if (!series)
        return 1;
    metric_add(series, 1);
    return 0;
}

int prom_counter_set_since(prom_counter_t *self, double r_value, double since,
                           const char **label_values)
{
    if (!takes_value(r_value))
        return 1;
    struct metric_series *series = prom_metric_series(self, METRIC_COUNTER, label_values);
    if (!series)
        return 1;
    metric_mirror_since(series, r_value, since);
    return 0;
}

int prom_counter_set(prom_counter_t *self, double r_value, const char **label_values)
{
    return prom_counter_set_since(self, r_value, NAN, label_values);
}

int prom_counter_clear(prom_counter_t *self)
{
    return prom_metric_clear(self, METRIC_COUNTER);
}

int prom_counter_add(prom_counter_t *self, double r_value, const char **label_values)
{
    if (!takes_value(r_value)) /* before it makes a series */
        return 1;
    struct metric_series *series = prom_metric_series(self, METRIC_COUNTER, label_values);
    if (!series)
        return 1;
    metric_add_real(series, r_value);
    return 0;
}
