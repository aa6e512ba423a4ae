/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native.h - the native (exponential) form of a histogram's snapshot.
 *
 * Buckets are counted at the declared resolution, and made coarser only for a scrape in which more
 * than METRIC_NATIVE_BUCKETS_MAX of them are populated: halving the resolution merges bucket i into
 * ceil(i/2), exactly, because every bound of the coarser grid is also one of the finer. So no
 * observation pays for the limit, and full resolution returns when values concentrate.
 *
 * There are no negative buckets: values under -2^low are counted in the zero bucket. With a schema
 * reduced below 0 the first bucket may begin under the zero threshold, which the format allows.
 */
#ifndef METRIC_NATIVE_H
#define METRIC_NATIVE_H

#include "lib/metrics/scrape.h"

struct metric_native_form {
    int schema;
    double zero_threshold;
    uint64_t zero_count;
    const struct metric_native_bucket *buckets; /* populated ones, ascending */
    size_t nbuckets;
};

/* Of the snapshot in `scrape`; valid until the next one. */
struct metric_native_form metric_native_form(struct metric_scrape *scrape,
                                             const struct metric_grid *grid);

#endif
