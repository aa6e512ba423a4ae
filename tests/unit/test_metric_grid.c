/* SPDX-License-Identifier: Apache-2.0 */
/* Which cell a value falls into, against a plain search and against the definition of the native
 * buckets: bucket i of schema s holds (2^((i-1) * 2^-s), 2^(i * 2^-s)]. */
#include "tests/unit/metric_support.h"

#include <float.h>
#include <math.h>

#include "lib/metrics/grid.h"

static struct metric_grid *make(const double *bounds, size_t nbounds, struct metric_native native)
{
    struct metric_grid *grid = metric_grid_new(&(struct metric_desc){
        .type = METRIC_HISTOGRAM, .bounds = bounds, .nbounds = nbounds, .native = native});
    assert_non_null(grid);
    return grid;
}

/* The first bound that is not less than the value, one by one. */
static size_t plain_search(const struct metric_grid *grid, double value)
{
    size_t cell = 0;
    while (!(value <= grid->bounds[cell]))
        cell++;
    return cell;
}

static void check(const struct metric_grid *grid, double value)
{
    size_t cell = metric_grid_cell(grid, value);
    size_t expected = plain_search(grid, value);
    if (cell != expected)
        fail_msg("%.17g (%a): cell %zu, expected %zu", value, value, cell, expected);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Around every bound, the edges of doubles, and random values of all magnitudes. */
static void check_everywhere(const struct metric_grid *grid)
{
    static const double edges[] = {0.0, -0.0, 5e-324,      -5e-324,    DBL_MIN,  -DBL_MIN,
                                   1.0, -1.0, DBL_MAX,     -DBL_MAX,   INFINITY, -INFINITY,
                                   0.5, 1.5,  DBL_EPSILON, DBL_MIN / 2};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        check(grid, edges[i]);
    for (size_t i = 0; i + 1 < grid->ncells; i++) {
        check(grid, grid->bounds[i]);
        check(grid, nextafter(grid->bounds[i], INFINITY));
        check(grid, nextafter(grid->bounds[i], -INFINITY));
    }
    for (int i = 0; i < 20000; i++) {
        double value = metric_double_of(random_bits());
        if (!isnan(value))
            check(grid, value);
        size_t near = (size_t)(random_bits() % grid->ncells);
        check(grid, grid->bounds[near] * (0.5 + (double)(random_bits() % 1000) / 1000));
    }
    assert_int_equal(metric_grid_cell(grid, NAN), grid->ncells);
    assert_int_equal(metric_grid_cell(grid, -NAN), grid->ncells);
}

static const double seconds[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

static void test_classic_grids(void **state)
{
    (void)state;
    static const double one[] = {1}, close[] = {1, 1 + DBL_EPSILON, 1 + 2 * DBL_EPSILON, 1.001};
    static const double wide[] = {-DBL_MAX, -1e-300, 0, 5e-324, 1e-300, 1, 1e300, DBL_MAX};
    static const double negative[] = {-10, -5, -0.0};
    static const double million[] = {1000000, 1000001};
    const struct {
        const double *bounds;
        size_t n;
    } grids[] = {{seconds, 11}, {one, 1},     {close, 4}, {wide, 8},
                 {negative, 3}, {million, 2}, {NULL, 0}};
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        struct metric_grid *grid = make(grids[i].bounds, grids[i].n, (struct metric_native){0});
        assert_int_equal(grid->ncells, grids[i].n + 1);
        check_everywhere(grid);
        metric_grid_free(&grid);
    }
}

static struct metric_native range_of(int schema)
{
    int low = schema > 5 ? -8 : -32;
    return (struct metric_native){.schema = schema, .low = low, .high = -low};
}

static void test_mixed_grids_of_all_schemas(void **state)
{
    (void)state;
    for (int schema = -4; schema <= 8; schema++) {
        struct metric_grid *grid = make(seconds, 11, range_of(schema));
        check_everywhere(grid);
        metric_grid_free(&grid);
    }
}

static int native_index(const struct metric_grid *grid, double value)
{
    return grid->native_index[metric_grid_cell(grid, value)];
}

/* Every bound of every schema: it closes its own bucket, and the next double opens the next. */
static void test_native_bounds_are_exact(void **state)
{
    (void)state;
    for (int schema = -4; schema <= 8; schema++) {
        struct metric_native native = range_of(schema);
        struct metric_grid *grid = make(seconds, 11, native);
        int first = (int)ldexp(native.low, schema), last = (int)ldexp(native.high, schema);
        for (int i = first + 1; i <= last; i++) {
            double bound = (double)powl(2.0L, ldexpl((long double)i, -schema));
            assert_true(metric_native_bound(schema, i) == bound);
            assert_int_equal(native_index(grid, bound), i);
            if (i < last)
                assert_int_equal(native_index(grid, nextafter(bound, INFINITY)), i + 1);
            if (i > first + 1)
                assert_int_equal(native_index(grid, nextafter(bound, 0)), i);
        }
        metric_grid_free(&grid);
    }
}

/* i = ceil(log2(v) * 2^s), in long double, wherever that is not within its own error of a bound */
static void test_native_index_is_the_logarithm(void **state)
{
    (void)state;
    for (int schema = -4; schema <= 8; schema++) {
        struct metric_native native = range_of(schema);
        struct metric_grid *grid = make(seconds, 11, native);
        for (int i = 0; i < 20000; i++) {
            double exponent =
                native.low + (double)(random_bits() >> 11) * 0x1p-53 * 2 * native.high;
            double value = exp2(exponent);
            long double exact = ldexpl(log2l((long double)value), schema);
            if (fabsl(exact - roundl(exact)) < 1e-12L)
                continue;
            assert_int_equal(native_index(grid, value), (int)ceill(exact));
        }
        metric_grid_free(&grid);
    }
}

/* The example of the exposition format's reference: 0.1 at schema 3 lies in (0.0964, 0.1051]. */
static void test_reference_example(void **state)
{
    (void)state;
    struct metric_grid *grid = make(NULL, 0, (struct metric_native){3, -10, 10});
    int i = native_index(grid, 0.1);
    assert_int_equal(i, -26);
    assert_true(fabs(metric_native_bound(3, i - 1) - 0.0964) < 1e-4);
    assert_true(fabs(metric_native_bound(3, i) - 0.1051) < 1e-4);
    metric_grid_free(&grid);
}

static void test_values_out_of_range(void **state)
{
    (void)state;
    for (int schema = -4; schema <= 8; schema++) {
        struct metric_native native = range_of(schema);
        struct metric_grid *grid = make(seconds, 11, native);
        double low = ldexp(1, native.low), high = ldexp(1, native.high);
        static const double tiny[] = {0.0, -0.0, 5e-324, -1e-9, -1, -DBL_MAX, -INFINITY};
        for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++)
            assert_int_equal(native_index(grid, tiny[i]), METRIC_NATIVE_ZERO);
        assert_int_equal(native_index(grid, low), METRIC_NATIVE_ZERO);
        assert_int_not_equal(native_index(grid, nextafter(low, 1)), METRIC_NATIVE_ZERO);
        int infinity = metric_native_index_of_infinity(schema);
        assert_int_equal(infinity, (int)ceill(ldexpl(log2l(DBL_MAX), schema)) + 1);
        assert_int_equal(native_index(grid, nextafter(high, INFINITY)), infinity);
        assert_int_equal(native_index(grid, DBL_MAX), infinity);
        assert_int_equal(native_index(grid, INFINITY), infinity);
        metric_grid_free(&grid);
    }
}

/* With a bound in each slot one comparison is enough: what makes an observation cheap. */
static void test_usual_grids_need_one_comparison(void **state)
{
    (void)state;
    struct metric_grid *grid = make(seconds, 11, (struct metric_native){0});
    assert_int_equal(grid->steps, 1);
    metric_grid_free(&grid);
    for (int schema = -4; schema <= 8; schema++) {
        grid = make(NULL, 0, range_of(schema));
        assert_int_equal(grid->steps, 1);
        metric_grid_free(&grid);
    }
    grid = make(seconds, 11, (struct metric_native){3, -20, 6});
    assert_true(grid->steps <= 2);
    metric_grid_free(&grid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classic_grids),
        cmocka_unit_test(test_mixed_grids_of_all_schemas),
        cmocka_unit_test(test_native_bounds_are_exact),
        cmocka_unit_test(test_native_index_is_the_logarithm),
        cmocka_unit_test(test_reference_example),
        cmocka_unit_test(test_values_out_of_range),
        cmocka_unit_test(test_usual_grids_need_one_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
