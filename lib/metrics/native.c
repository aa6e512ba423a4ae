/* SPDX-License-Identifier: Apache-2.0 */
/* The native form of native.h. The thread that scrapes. */
#include "lib/metrics/native.h"

enum { SCHEMA_MIN = -4 };

/* Adds to the last bucket when it is the same one. */
static size_t count_into_bucket(struct metric_native_bucket *buckets, size_t n, int32_t index,
                                uint64_t count)
{
    if (n > 0 && buckets[n - 1].index == index) {
        buckets[n - 1].count += count;
        return n;
    }
    buckets[n] = (struct metric_native_bucket){.index = index, .count = count};
    return n + 1;
}

/* In place: there are never more merged buckets than buckets read so far. */
static size_t halve_resolution(struct metric_native_bucket *buckets, size_t n)
{
    size_t merged = 0;
    for (size_t i = 0; i < n; i++) {
        /* an arithmetic shift rounds down, so this is ceil(index / 2) on both sides of 0 */
        int32_t index = (buckets[i].index + 1) >> 1;
        merged = count_into_bucket(buckets, merged, index, buckets[i].count);
    }
    return merged;
}

struct metric_native_form metric_native_form(struct metric_scrape *scrape,
                                             const struct metric_grid *grid)
{
    struct metric_native_form form = {
        .schema = grid->schema, .zero_threshold = grid->zero_threshold, .buckets = scrape->natives};
    for (size_t cell = 0; cell < grid->ncells; cell++) {
        if (grid->native_index[cell] == METRIC_NATIVE_ZERO)
            form.zero_count += scrape->cells[cell];
        else if (scrape->cells[cell] > 0)
            form.nbuckets = count_into_bucket(scrape->natives, form.nbuckets,
                                              grid->native_index[cell], scrape->cells[cell]);
    }
    while (form.nbuckets > METRIC_NATIVE_BUCKETS_MAX && form.schema > SCHEMA_MIN) {
        form.nbuckets = halve_resolution(scrape->natives, form.nbuckets);
        form.schema--;
    }
    return form;
}
