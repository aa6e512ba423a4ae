/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms of prom_histogram.h. The native side comes from the classic bounds: they tell where
 * values are expected. Where these may be negative there is none, since the core would count them
 * all as about 0. Any thread.
 */
#include "lib/prom/prom_histogram.h"

#include <math.h>

#include "lib/prom/internal.h"

enum {
    SCHEMA_FINEST = 3,       /* buckets 9 % wide */
    SCHEMA_COARSEST = -4,    /* of the core */
    OCTAVES_BEYOND = 2,      /* below the first bound and above the last */
    NATIVE_CELLS_MOST = 192, /* 1.5 KiB for each series and thread */
    EXPONENT_LEAST = -1022,  /* of normal doubles */
    EXPONENT_MOST = 1023,
};

/* Bounds as the core takes them: without a last +Inf, without equal neighbours, and with 0 for -0,
 * which would be shown as another bound. */
static bool copy_bounds(const prom_histogram_buckets_t *buckets, double bounds[METRIC_BOUNDS_MAX],
                        size_t *count)
{
    *count = 0;
    if (buckets->count < 0 || (buckets->count > 0 && !buckets->upper_bounds)) {
        prom_fail("the buckets have no bounds");
        return false;
    }
    for (int i = 0; i < buckets->count; i++) {
        const double bound = buckets->upper_bounds[i] + 0.0;
        const bool last = i == buckets->count - 1;
        if ((last && isinf(bound) && bound > 0) || (*count > 0 && bound == bounds[*count - 1]))
            continue;
        if (*count == METRIC_BOUNDS_MAX) {
            prom_fail("a histogram may have at most %d buckets", METRIC_BOUNDS_MAX);
            return false;
        }
        bounds[(*count)++] = bound;
    }
    return true;
}

static bool native_fits(int schema, int octaves)
{
    return (schema >= 0 ? octaves << schema : octaves >> -schema) <= NATIVE_CELLS_MOST;
}

/* The lowest multiple of `unit`, a power of 2, that is not below `exponent`. */
static int round_up_to(int exponent, int unit)
{
    return (exponent + unit - 1) & -unit;
}

static struct metric_native native_of(const double *bounds, size_t count)
{
    size_t first = 0;
    while (first < count && !(bounds[first] > 0))
        first++;
    if (first == count || bounds[0] < 0 || !isfinite(bounds[count - 1]))
        return (struct metric_native){0};
    int low = ilogb(bounds[first]) - OCTAVES_BEYOND;
    int high = ilogb(bounds[count - 1]) + 1 + OCTAVES_BEYOND;
    low = low < EXPONENT_LEAST ? EXPONENT_LEAST : low;
    high = high > EXPONENT_MOST ? EXPONENT_MOST : high;
    if (low >= high) /* bounds that do not ascend, which are refused later */
        return (struct metric_native){0};
    int schema = SCHEMA_FINEST;
    while (schema > SCHEMA_COARSEST && !native_fits(schema, high - low))
        schema--;
    if (schema < 0) {
        const int unit = 1 << -schema;
        low = round_up_to(low, unit);
        high = round_up_to(high - unit + 1, unit);
    }
    return low < high ? (struct metric_native){.schema = schema, .low = low, .high = high}
                      : (struct metric_native){0};
}

prom_histogram_t *prom_histogram_new(const char *name, const char *help,
                                     prom_histogram_buckets_t *buckets, size_t label_key_count,
                                     const char **label_keys)
{
    double bounds[METRIC_BOUNDS_MAX];
    struct metric_desc desc = {.name = name, .help = help, .type = METRIC_HISTOGRAM};
    if (!buckets)
        buckets = prom_buckets_default();
    if (!copy_bounds(buckets, bounds, &desc.nbounds))
        return NULL;
    desc.bounds = bounds;
    desc.native = native_of(bounds, desc.nbounds);
    prom_histogram_t *histogram = prom_metric_make(&desc, label_key_count, label_keys);
    if (!histogram)
        return NULL;
    if (!prom_buckets_take(buckets)) {
        prom_metric_free(histogram);
        return NULL;
    }
    histogram->buckets = buckets;
    return histogram;
}

int prom_histogram_destroy(prom_histogram_t *self)
{
    return prom_metric_destroy(self);
}

int prom_histogram_observe(prom_histogram_t *self, double value, const char **label_values)
{
    struct metric_series *series = prom_metric_series(self, METRIC_HISTOGRAM, label_values);
    if (!series)
        return 1;
    metric_observe(series, value);
    return 0;
}
