/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grid.h - the cells of a histogram, and which of them a value belongs to.
 *
 * One grid serves the classic and the native form: its boundaries are the sorted union of the
 * classic bounds and of the native buckets' bounds. A value is counted once, in one cell, and both
 * forms and the count are sums over the same cells. They agree by construction, even while other
 * threads observe.
 *
 * Cell k holds the values in (bounds[k-1], bounds[k]]; the last bound is +Inf. NaN has a separate
 * cell after it.
 *
 * Lookup: the exponent and the first bits of the mantissa of a positive double number the slots of
 * a small table that gives the first cell a slot's values can be in; `steps` comparisons, mostly
 * one, finish it without a branch on the value. As the comparison is with the exact bounds, there
 * is no logarithm to be wrong by one at the edges. All other values (negative, zero, NaN, beyond
 * the outermost bounds) are found by bisection.
 *
 * Immutable once built; read by any thread.
 */
#ifndef METRIC_GRID_H
#define METRIC_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/metrics/cells.h"
#include "lib/metrics/metric.h"

/* In `native_index`: the cell is part of the zero bucket. */
#define METRIC_NATIVE_ZERO INT32_MIN

struct metric_grid {
    /* read by every observation */
    double *bounds;
    uint16_t *slots;
    uint64_t first_slot;
    uint64_t nslots;
    unsigned shift;
    unsigned steps;
    size_t ncells; /* the cell of NaN not counted: its index is ncells */

    /* read by scrapes */
    size_t nclassic;
    double *classic;       /* the classic bounds, without +Inf */
    uint8_t *classic_of;   /* the classic bucket of each cell; nclassic is that of +Inf */
    bool native;           /* the histogram has a native side */
    int schema;            /* of the native side */
    double zero_threshold; /* of the native side */
    int32_t *native_index; /* the native bucket of each cell */
};

/* `desc` has passed the checks of registration. NULL: no memory. */
struct metric_grid *metric_grid_new(const struct metric_desc *desc);
void metric_grid_free(struct metric_grid **grid);

size_t metric_grid_cell_slow(const struct metric_grid *grid, double value);

/* The slot of a value; beyond the table for one that needs bisection. */
static inline uint64_t metric_grid_slot(const struct metric_grid *grid, double value)
{
    return (metric_bits_of(value) >> grid->shift) - grid->first_slot;
}

/* The cell of a value whose slot is in the table. */
static inline size_t metric_grid_cell_in(const struct metric_grid *grid, uint64_t slot,
                                         double value)
{
    size_t cell = grid->slots[slot];
    cell += value > grid->bounds[cell];
    for (unsigned step = 1; __builtin_expect(step < grid->steps, 0); step++)
        cell += value > grid->bounds[cell];
    return cell;
}

static inline size_t metric_grid_cell(const struct metric_grid *grid, double value)
{
    uint64_t slot = metric_grid_slot(grid, value);
    return slot < grid->nslots ? metric_grid_cell_in(grid, slot, value)
                               : metric_grid_cell_slow(grid, value);
}

/* The upper bound of native bucket `index`: 2^(index * 2^-schema), rounded to the nearest double.
 */
double metric_native_bound(int schema, int index);

/* The bucket of +Inf: the one after that of DBL_MAX. */
int metric_native_index_of_infinity(int schema);

#endif
