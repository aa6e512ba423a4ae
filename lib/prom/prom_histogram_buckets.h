/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom_histogram_buckets.h - the upper bounds of a histogram's buckets, ascending. A bucket of +Inf
 * comes on top and need not be named.
 *
 * The struct is public: a program may fill it itself, with memory of malloc for the struct and for
 * its bounds. A histogram that is made of buckets takes them over and frees them; several
 * histograms may be made of the same ones, which are freed with the last.
 */
#ifndef PROM_HISTOGRAM_BUCKETS_H
#define PROM_HISTOGRAM_BUCKETS_H

#include <stdlib.h> /* programs rely on it */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct prom_histogram_buckets {
    int count;
    const double *upper_bounds;
} prom_histogram_buckets_t;

/* 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10: for seconds. The library's; always
 * there, and never freed. */
extern prom_histogram_buckets_t *prom_histogram_default_buckets;

/* The bounds that follow `count`, which are as many: each of the type double, as in
 * prom_histogram_buckets_new(3, 0.5, 1.0, 2.0). The result belongs to the caller until a histogram
 * takes it. NULL: count is 0, or memory ran out. */
prom_histogram_buckets_t *prom_histogram_buckets_new(size_t count, double bucket, ...);

/* start, start + width, ... The result belongs to the caller as before. NULL: count is 0, width is
 * not above 0, or memory ran out. */
prom_histogram_buckets_t *prom_histogram_buckets_linear(double start, double width, size_t count);

/* start, start * factor, ... The same. NULL: count is 0, start is not above 0, factor is not above
 * 1, or memory ran out. */
prom_histogram_buckets_t *prom_histogram_buckets_exponential(double start, double factor,
                                                             size_t count);

/* Frees buckets that no histogram has taken; takes NULL. Buckets of a histogram stay as they are,
 * and the result is non-zero. */
int prom_histogram_buckets_destroy(prom_histogram_buckets_t *self);

/* How many bounds; 0 for NULL. */
size_t prom_histogram_buckets_count(prom_histogram_buckets_t *self);

#ifdef __cplusplus
}
#endif

#endif
