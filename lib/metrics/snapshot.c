/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a series: the shards are summed, cell by cell. Cells only grow, so successive scrapes
 * never see a value shrink. The sum of a histogram is a separate cell and may be one observation
 * ahead of or behind the counts; the counts always agree with each other. Any thread.
 */
#include <string.h>

#include "lib/base/check.h"
#include "lib/metrics/scrape.h"

/* The shards to read: those that threads have owned, then the shared one. */
struct shards {
    size_t owned;
    size_t shared;
};

static struct shards shards_of(const struct metric_series *series)
{
    size_t used = metric_cells_slots_used();
    return (struct shards){.owned = used < series->exclusive ? used : series->exclusive,
                           .shared = series->exclusive};
}

static uint64_t sum_cell(const struct metric_series *series, size_t index)
{
    struct shards shards = shards_of(series);
    const metric_cell *cell = series->cells + index;
    uint64_t sum =
        atomic_load_explicit(cell + shards.shared * series->stride, memory_order_relaxed);
    for (size_t shard = 0; shard < shards.owned; shard++)
        sum += atomic_load_explicit(cell + shard * series->stride, memory_order_relaxed);
    return sum;
}

/* Of cells that hold the bits of a double. */
static double sum_real_cell(const struct metric_series *series, size_t index)
{
    const struct shards shards = shards_of(series);
    const metric_cell *cell = series->cells + index;
    double sum = metric_double_of(
        atomic_load_explicit(cell + shards.shared * series->stride, memory_order_relaxed));
    for (size_t shard = 0; shard < shards.owned; shard++)
        sum += metric_double_of(
            atomic_load_explicit(cell + shard * series->stride, memory_order_relaxed));
    return sum;
}

struct metric_counter_value metric_snapshot_counter(const struct metric_series *series)
{
    uint64_t count = sum_cell(series, METRIC_ROW_WHOLE);
    double real = metric_double_of(atomic_load_explicit(&series->value, memory_order_acquire));
    if ((series->family->flags & METRIC_FRACTIONS) != 0)
        real += sum_real_cell(series, METRIC_ROW_FRACTIONS);
    return (struct metric_counter_value){
        .whole = real == 0, .count = count, .value = real + (double)count};
}

double metric_snapshot_gauge(const struct metric_series *series)
{
    return metric_double_of(atomic_load_explicit(&series->value, memory_order_relaxed));
}

/* Adds one shard's row to the snapshot. */
static void add_shard_row(struct metric_scrape *scrape, const metric_cell *row, size_t ncells)
{
    scrape->sum +=
        metric_double_of(atomic_load_explicit(&row[METRIC_ROW_SUM], memory_order_relaxed));
    for (size_t i = 0; i < ncells; i++)
        scrape->cells[i] += atomic_load_explicit(&row[METRIC_ROW_CELLS + i], memory_order_relaxed);
}

void metric_snapshot_histogram(struct metric_scrape *scrape, const struct metric_series *series)
{
    struct shards shards = shards_of(series);
    size_t ncells = series->grid->ncells + 1; /* with that of NaN */
    scrape->sum = 0;
    memset(scrape->cells, 0, ncells * sizeof *scrape->cells);
    for (size_t shard = 0; shard < shards.owned; shard++)
        add_shard_row(scrape, series->cells + shard * series->stride, ncells);
    add_shard_row(scrape, series->cells + shards.shared * series->stride, ncells);
    scrape->count = 0;
    for (size_t i = 0; i < ncells; i++)
        scrape->count += scrape->cells[i];
}

/* ---- for others than scrapes ---------------------------------------------------------------- */

uint64_t metric_read_counter(const struct metric_series *counter)
{
    BASE_CHECK(counter->magic == METRIC_SERIES_MAGIC(METRIC_COUNTER));
    return sum_cell(counter, 0);
}

void metric_read_histogram(const struct metric_series *histogram, struct metric_reading *reading)
{
    BASE_CHECK(histogram->magic == METRIC_SERIES_MAGIC(METRIC_HISTOGRAM));
    const struct metric_grid *grid = histogram->grid;
    memset(reading, 0, sizeof *reading);
    reading->sum = sum_real_cell(histogram, METRIC_ROW_SUM);
    for (size_t i = 0; i <= grid->ncells; i++) { /* the last is that of NaN, which is in +Inf */
        const uint64_t count = sum_cell(histogram, METRIC_ROW_CELLS + i);
        reading->buckets[i < grid->ncells ? grid->classic_of[i] : grid->nclassic] += count;
        reading->count += count;
    }
}
