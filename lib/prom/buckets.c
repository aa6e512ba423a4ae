/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buckets of prom_histogram_buckets.h. Their struct is public and has no room for a count of the
 * histograms that took them, so that is kept in a list beside them. Any thread, under its lock.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

#include "lib/prom/internal.h"

static const double default_bounds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
static prom_histogram_buckets_t default_buckets = {
    .count = sizeof default_bounds / sizeof *default_bounds, .upper_bounds = default_bounds};
prom_histogram_buckets_t *prom_histogram_default_buckets = &default_buckets;

prom_histogram_buckets_t *prom_buckets_default(void)
{
    return prom_histogram_default_buckets ? prom_histogram_default_buckets : &default_buckets;
}

struct taken {
    struct taken *next;
    prom_histogram_buckets_t *buckets;
    size_t histograms;
};
static pthread_mutex_t taken_lock = PTHREAD_MUTEX_INITIALIZER;
static struct taken *all_taken;

/* Under the lock. */
static struct taken **find_taken(const prom_histogram_buckets_t *buckets)
{
    struct taken **at = &all_taken;
    while (*at && (*at)->buckets != buckets)
        at = &(*at)->next;
    return at;
}

bool prom_buckets_take(prom_histogram_buckets_t *buckets)
{
    if (buckets == &default_buckets)
        return true;
    struct taken *fresh = malloc(sizeof *fresh);
    if (!fresh) {
        prom_fail("out of memory (buckets)");
        return false;
    }
    *fresh = (struct taken){.buckets = buckets};
    pthread_mutex_lock(&taken_lock);
    struct taken **at = find_taken(buckets);
    if (!*at) {
        *at = fresh;
        fresh = NULL;
    }
    (*at)->histograms++;
    pthread_mutex_unlock(&taken_lock);
    free(fresh);
    return true;
}

static void free_buckets(prom_histogram_buckets_t *buckets)
{
    free((void *)buckets->upper_bounds);
    free(buckets);
}

void prom_buckets_release(prom_histogram_buckets_t *buckets)
{
    struct taken *last = NULL;
    pthread_mutex_lock(&taken_lock);
    struct taken **at = find_taken(buckets);
    if (*at && --(*at)->histograms == 0) {
        last = *at;
        *at = last->next;
    }
    pthread_mutex_unlock(&taken_lock);
    if (last)
        free_buckets(buckets);
    free(last);
}

int prom_histogram_buckets_destroy(prom_histogram_buckets_t *self)
{
    if (!self)
        return 0;
    pthread_mutex_lock(&taken_lock);
    const bool kept = self == &default_buckets || *find_taken(self);
    pthread_mutex_unlock(&taken_lock);
    if (kept)
        return prom_fail("the buckets belong to a histogram, or are the default ones");
    free_buckets(self);
    return 0;
}

size_t prom_histogram_buckets_count(prom_histogram_buckets_t *self)
{
    return self && self->count > 0 ? (size_t)self->count : 0;
}

/* ---- making them ---------------------------------------------------------------------------- */

/* Room for `count` bounds. NULL: none, too many to be of use, or no memory. */
static prom_histogram_buckets_t *room_for_buckets(size_t count, double **bounds)
{
    enum { COUNT_MAX = 1 << 20 }; /* a histogram takes fewer still, and says so */
    if (count == 0 || count > COUNT_MAX) {
        prom_fail("%zu buckets; at least 1 and at most %d are allowed", count, METRIC_BOUNDS_MAX);
        return NULL;
    }
    prom_histogram_buckets_t *buckets = malloc(sizeof *buckets);
    *bounds = malloc(count * sizeof **bounds);
    if (!buckets || !*bounds) {
        prom_fail("out of memory (buckets)");
        free(buckets);
        free(*bounds);
        return NULL;
    }
    *buckets = (prom_histogram_buckets_t){.count = (int)count, .upper_bounds = *bounds};
    return buckets;
}

prom_histogram_buckets_t *prom_histogram_buckets_new(size_t count, double bucket, ...)
{
    double *bounds;
    prom_histogram_buckets_t *buckets = room_for_buckets(count, &bounds);
    if (!buckets)
        return NULL;
    va_list rest;
    va_start(rest, bucket);
    bounds[0] = bucket;
    for (size_t i = 1; i < count; i++)
        bounds[i] = va_arg(rest, double);
    va_end(rest);
    return buckets;
}

prom_histogram_buckets_t *prom_histogram_buckets_linear(double start, double width, size_t count)
{
    double *bounds;
    if (!(width > 0)) {
        prom_fail("the width of linear buckets must be above 0");
        return NULL;
    }
    prom_histogram_buckets_t *buckets = room_for_buckets(count, &bounds);
    for (size_t i = 0; buckets && i < count; i++)
        bounds[i] = start + width * (double)i;
    return buckets;
}

prom_histogram_buckets_t *prom_histogram_buckets_exponential(double start, double factor,
                                                             size_t count)
{
    double *bounds;
    if (!(start > 0) || !(factor > 1)) {
        prom_fail("exponential buckets must start above 0 and grow by a factor above 1");
        return NULL;
    }
    prom_histogram_buckets_t *buckets = room_for_buckets(count, &bounds);
    double bound = start;
    for (size_t i = 0; buckets && i < count; i++) {
        bounds[i] = bound;
        bound *= factor;
    }
    return buckets;
}
