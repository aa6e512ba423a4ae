/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a grid, and the lookup by bisection; grid.h tells the story. Pure once built, any
 * thread.
 */
#include "lib/metrics/grid.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/check.h"

enum {
    MANTISSA_BITS = 52,
    /* Finer slots gain nothing: 12 bits separate bounds that are 0.03 % apart. */
    SLOT_MANTISSA_BITS_MAX = 12,
    SLOTS_MAX = 16384, /* 32 KiB, the first-level cache of a core */
};

double metric_native_bound(int schema, int index)
{
    if (schema <= 0)
        return ldexp(1.0, index * (1 << -schema));
    int per_octave = 1 << schema;
    int octave = index >> schema; /* floor, also below 0 */
    int part = index & (per_octave - 1);
    double fraction = (double)exp2l((long double)part / (long double)per_octave);
    return ldexp(fraction, octave); /* exact: the range keeps clear of subnormal numbers */
}

int metric_native_index_of_infinity(int schema)
{
    enum { DBL_MAX_OCTAVE = 1024 }; /* DBL_MAX lies just under 2^1024 */
    int of_max = schema >= 0 ? DBL_MAX_OCTAVE * (1 << schema) : DBL_MAX_OCTAVE / (1 << -schema);
    return of_max + 1;
}

static int native_first(const struct metric_native *native)
{
    return native->schema >= 0 ? native->low * (1 << native->schema)
                               : native->low / (1 << -native->schema);
}

static int native_last(const struct metric_native *native)
{
    return native->schema >= 0 ? native->high * (1 << native->schema)
                               : native->high / (1 << -native->schema);
}

static bool has_native(const struct metric_native *native)
{
    return native->low < native->high;
}

/* The most cells there can be: when no two bounds of the two sides coincide. */
static size_t cells_at_most(const struct metric_desc *desc)
{
    size_t natives = 0;
    if (has_native(&desc->native))
        natives = (size_t)(native_last(&desc->native) - native_first(&desc->native)) + 1;
    return desc->nbounds + natives + 1;
}

/* Merges the two ascending lists of bounds and records the bucket of each side that each cell
 * belongs to. */
static void merge_bounds(struct metric_grid *grid, const struct metric_desc *desc)
{
    size_t classic = 0;
    int last = grid->native ? native_last(&desc->native) : 0;
    int index = grid->native ? native_first(&desc->native) : 1;
    int first = index;
    const size_t room = cells_at_most(desc);
    size_t cell = 0;
    for (;; cell++) {
        BASE_CHECK(cell < room);
        double by_classic = classic < grid->nclassic ? grid->classic[classic] : INFINITY;
        double by_native =
            grid->native && index <= last ? metric_native_bound(grid->schema, index) : INFINITY;
        double bound = by_classic < by_native ? by_classic : by_native;
        grid->bounds[cell] = bound;
        grid->classic_of[cell] = (uint8_t)classic;
        if (index == first)
            grid->native_index[cell] = METRIC_NATIVE_ZERO;
        else if (index > last)
            grid->native_index[cell] = metric_native_index_of_infinity(grid->schema);
        else
            grid->native_index[cell] = index;
        if (isinf(bound))
            break;
        classic += by_classic == bound;
        index += by_native == bound;
    }
    grid->ncells = cell + 1;
}

struct slot_plan {
    unsigned shift;
    unsigned steps;
    uint64_t first;
    uint64_t count;
};

/* The plan that slots of `bits` mantissa bits give for bounds[from..to-1]. */
static struct slot_plan plan_slots(const double *bounds, size_t from, size_t to, unsigned bits)
{
    struct slot_plan plan = {.shift = MANTISSA_BITS - bits};
    plan.first = metric_bits_of(bounds[from]) >> plan.shift;
    plan.count = (metric_bits_of(bounds[to - 1]) >> plan.shift) - plan.first + 1;
    uint64_t slot = 0;
    unsigned in_slot = 0;
    for (size_t i = from; i < to; i++) {
        uint64_t own = metric_bits_of(bounds[i]) >> plan.shift;
        in_slot = own == slot ? in_slot + 1 : 1;
        slot = own;
        if (in_slot > plan.steps)
            plan.steps = in_slot;
    }
    return plan;
}

/* The coarsest slots with the fewest comparisons. Slots cover normal positive numbers, so zero has
 * none; without such a bound there are no slots. */
static struct slot_plan best_plan(const struct metric_grid *grid)
{
    struct slot_plan best = {.shift = MANTISSA_BITS};
    size_t from = 0;
    size_t to = grid->ncells - 1; /* without +Inf */
    while (from < to && !(grid->bounds[from] >= DBL_MIN))
        from++;
    for (unsigned bits = 0; from < to && bits <= SLOT_MANTISSA_BITS_MAX; bits++) {
        struct slot_plan plan = plan_slots(grid->bounds, from, to, bits);
        if (plan.count > SLOTS_MAX)
            break;
        if (best.count == 0 || plan.steps < best.steps)
            best = plan;
        if (best.steps == 1)
            break;
    }
    return best;
}

static bool build_slots(struct metric_grid *grid)
{
    struct slot_plan plan = best_plan(grid);
    grid->slots = calloc(plan.count + 1, sizeof *grid->slots);
    if (!grid->slots)
        return false;
    grid->shift = plan.shift;
    grid->steps = plan.steps;
    grid->first_slot = plan.first;
    grid->nslots = plan.count;
    size_t cell = 0;
    for (uint64_t slot = 0; slot < plan.count; slot++) {
        double lowest = metric_double_of((plan.first + slot) << plan.shift);
        while (grid->bounds[cell] < lowest)
            cell++;
        grid->slots[slot] = (uint16_t)cell;
    }
    return true;
}

static bool allocate_cell_arrays(struct metric_grid *grid, const struct metric_desc *desc)
{
    size_t cells = cells_at_most(desc);
    grid->bounds = calloc(cells, sizeof *grid->bounds);
    grid->classic_of = calloc(cells, sizeof *grid->classic_of);
    grid->native_index = calloc(cells, sizeof *grid->native_index);
    grid->classic = calloc(desc->nbounds + 1, sizeof *grid->classic);
    return grid->bounds && grid->classic_of && grid->native_index && grid->classic;
}

struct metric_grid *metric_grid_new(const struct metric_desc *desc)
{
    struct metric_grid *grid = calloc(1, sizeof *grid);
    if (!grid || !allocate_cell_arrays(grid, desc))
        goto fail;
    grid->nclassic = desc->nbounds;
    for (size_t i = 0; i < desc->nbounds; i++)
        grid->classic[i] = desc->bounds[i];
    grid->native = has_native(&desc->native);
    if (grid->native) {
        grid->schema = desc->native.schema;
        grid->zero_threshold = ldexp(1.0, desc->native.low);
    }
    merge_bounds(grid, desc);
    if (!build_slots(grid))
        goto fail;
    return grid;
fail:
    metric_grid_free(&grid);
    return NULL;
}

void metric_grid_free(struct metric_grid **grid)
{
    if (!*grid)
        return;
    free((*grid)->bounds);
    free((*grid)->slots);
    free((*grid)->classic);
    free((*grid)->classic_of);
    free((*grid)->native_index);
    free(*grid);
    *grid = NULL;
}

size_t metric_grid_cell_slow(const struct metric_grid *grid, double value)
{
    if (isnan(value))
        return grid->ncells;
    size_t low = 0;
    size_t high = grid->ncells - 1; /* invariant: value <= bounds[high] */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (value <= grid->bounds[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
