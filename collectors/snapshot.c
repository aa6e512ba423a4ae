/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a series: the shards are summed, cell by cell. Cells only grow, so what two scrapes read
 * one after the other never shrinks. The sum of a histogram is a cell of its own and may be one
 * observation ahead of or behind the counts; the counts agree with each other always. */
#include "collectors/scrape.h"

static uint64_t sum_cell(const struct metric_series *series, size_t index)
{
    uint64_t sum = 0;
    const metric_cell *cell = series->cells + index;
    for (size_t shard = 0; shard <= series->exclusive; shard++, cell += series->stride)
        sum += atomic_load_explicit(cell, memory_order_relaxed);
    return sum;
}

struct metric_counter_value metric_snapshot_counter(const struct metric_series *series)
{
    uint64_t count = sum_cell(series, 0);
    double mirrored = metric_double_of(atomic_load_explicit(&series->value, memory_order_relaxed));
    return (struct metric_counter_value){
        .whole = mirrored == 0, .count = count, .value = mirrored + (double)count};
}

double metric_snapshot_gauge(const struct metric_series *series)
{
    return metric_double_of(atomic_load_explicit(&series->value, memory_order_relaxed));
}

void metric_snapshot_histogram(struct metric_scrape *scrape, const struct metric_series *series)
{
    size_t ncells = series->grid->ncells + 1; /* with that of NaN */
    const metric_cell *row = series->cells;
    scrape->sum = 0;
    for (size_t shard = 0; shard <= series->exclusive; shard++, row += series->stride) {
        scrape->sum +=
            metric_double_of(atomic_load_explicit(&row[METRIC_ROW_SUM], memory_order_relaxed));
        for (size_t i = 0; i < ncells; i++) {
            uint64_t count = atomic_load_explicit(&row[METRIC_ROW_CELLS + i], memory_order_relaxed);
            scrape->cells[i] = shard == 0 ? count : scrape->cells[i] + count;
        }
    }
    scrape->count = 0;
    for (size_t i = 0; i < ncells; i++)
        scrape->count += scrape->cells[i];
}
