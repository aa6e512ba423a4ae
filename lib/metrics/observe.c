/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observations, on the thread that is being measured: no lock, no allocation, and for a thread
 * that owns its shard no atomic read-modify-write either.
 */
#include "lib/base/check.h"
#include "lib/metrics/family.h"

void metric_add(struct metric_series *counter, uint64_t n)
{
    BASE_CHECK(counter->magic == METRIC_SERIES_MAGIC(METRIC_COUNTER));
    size_t shard = metric_cells_shard(counter->exclusive);
    metric_cell *cell = counter->cells + shard * counter->stride;
    if (shard < counter->exclusive)
        metric_cell_add_own(cell, n);
    else
        metric_cell_add_shared(cell, n);
}

/* Cold beside metric_add: few programs count fractions. */
__attribute__((noinline)) static void add_fraction(struct metric_series *counter, double value)
{
    BASE_CHECK((counter->family->flags & METRIC_FRACTIONS) != 0);
    BASE_CHECK(value >= 0);
    size_t shard = metric_cells_shard(counter->exclusive);
    metric_cell *cell = counter->cells + shard * counter->stride + METRIC_ROW_FRACTIONS;
    if (shard < counter->exclusive)
        metric_cell_sum_own(cell, value);
    else
        metric_cell_sum_shared(cell, value);
}

void metric_add_real(struct metric_series *counter, double value)
{
    const double whole_below =
        9007199254740992.0; /* 2^53: up to there each whole number is exact */
    if (__builtin_expect(value >= 0 && value < whole_below, 1)) {
        uint64_t whole = (uint64_t)(int64_t)value; /* signed: one instruction on x86-64 */
        if ((double)(int64_t)whole == value) {
            metric_add(counter, whole);
            return;
        }
    }
    BASE_CHECK(counter->magic == METRIC_SERIES_MAGIC(METRIC_COUNTER));
    add_fraction(counter, value);
}

static int64_t start_ms_of(double since)
{
    const double year_10000 = 253402300800; /* protobuf has no times from then on */
    return since > 0 && since < year_10000 ? (int64_t)(since * 1000) : METRIC_START_UNKNOWN;
}

void metric_mirror_since(struct metric_series *counter, double value, double since)
{
    BASE_CHECK(counter->magic == METRIC_SERIES_MAGIC(METRIC_COUNTER));
    atomic_store_explicit(&counter->start_ms, start_ms_of(since), memory_order_relaxed);
    /* after the start: who sees the value does not see the start of something else */
    atomic_store_explicit(&counter->value, metric_bits_of(value), memory_order_release);
}

void metric_mirror(struct metric_series *counter, double value)
{
    metric_mirror_since(counter, value, METRIC_START_UNKNOWN);
}

void metric_gauge_set(struct metric_series *gauge, double value)
{
    BASE_CHECK(gauge->magic == METRIC_SERIES_MAGIC(METRIC_GAUGE));
    atomic_store_explicit(&gauge->value, metric_bits_of(value), memory_order_relaxed);
}

void metric_gauge_add(struct metric_series *gauge, double delta)
{
    BASE_CHECK(gauge->magic == METRIC_SERIES_MAGIC(METRIC_GAUGE));
    metric_cell_sum_shared(&gauge->value, delta);
}

/* Counts any value on any thread and returns its cell. */
__attribute__((noinline)) static size_t observe_any(struct metric_series *histogram, double value)
{
    BASE_CHECK(histogram->magic == METRIC_SERIES_MAGIC(METRIC_HISTOGRAM));
    size_t shard = metric_cells_shard(histogram->exclusive);
    metric_cell *row = histogram->cells + shard * histogram->stride;
    size_t cell = metric_grid_cell(histogram->grid, value);
    if (shard < histogram->exclusive) {
        metric_cell_add_own(&row[METRIC_ROW_CELLS + cell], 1);
        metric_cell_sum_own(&row[METRIC_ROW_SUM], value);
    } else {
        metric_cell_add_shared(&row[METRIC_ROW_CELLS + cell], 1);
        metric_cell_sum_shared(&row[METRIC_ROW_SUM], value);
    }
    return cell;
}

/* The usual case (a thread with its own shard, a value between the outermost bounds) calls nothing
 * and so saves no registers, which halves its time. */
void metric_observe(struct metric_series *histogram, double value)
{
    BASE_CHECK(histogram->magic == METRIC_SERIES_MAGIC(METRIC_HISTOGRAM));
    const struct metric_grid *grid = histogram->grid;
    size_t shard = metric_thread_slot;
    uint64_t slot = metric_grid_slot(grid, value);
    if (__builtin_expect(shard >= histogram->exclusive || slot >= grid->nslots, 0)) {
        observe_any(histogram, value);
        return;
    }
    metric_cell *row = histogram->cells + shard * histogram->stride;
    size_t cell = metric_grid_cell_in(grid, slot, value);
    metric_cell_add_own(&row[METRIC_ROW_CELLS + cell], 1);
    metric_cell_sum_own(&row[METRIC_ROW_SUM], value);
}

void metric_add_exemplar(struct metric_series *counter, uint64_t n,
                         const struct metric_exemplar *exemplar)
{
    metric_add(counter, n);
    if (counter->exemplars)
        metric_exemplar_store(counter->exemplars, (double)n, exemplar);
}

void metric_observe_exemplar(struct metric_series *histogram, double value,
                             const struct metric_exemplar *exemplar)
{
    size_t cell = observe_any(histogram, value);
    if (!histogram->exemplars || cell == histogram->grid->ncells)
        return; /* none are kept, or NaN, which belongs to no bucket */
    size_t bucket = histogram->grid->classic_of[cell];
    metric_exemplar_store(&histogram->exemplars[bucket], value, exemplar);
}
