/* SPDX-License-Identifier: Apache-2.0 */
/* The number printer, against the forms that OpenMetrics lists, what Go prints, and itself read
 * back. */
#include "tests/unit/metric_support.h"

#include <float.h>
#include <math.h>

#include "lib/metrics/number.h"

typedef char *printer(char *out, double value);

static void expect(printer *print, double value, const char *text)
{
    char out[METRIC_NUMBER_MAX + 1];
    char *end = print(out, value);
    assert_true(end - out <= METRIC_NUMBER_MAX);
    *end = '\0';
    assert_string_equal(out, text);
}

/* OpenMetrics 1.0, "Canonical Numbers" */
static void test_canonical_numbers(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } listed[] = {
        {1e-10, "1e-10"},
        {1e-9, "1e-09"},
        {1e-8, "1e-08"},
        {1e-7, "1e-07"},
        {1e-6, "1e-06"},
        {1e-5, "1e-05"},
        {1e-4, "0.0001"},
        {1e-3, "0.001"},
        {1e-2, "0.01"},
        {1e-1, "0.1"},
        {1, "1.0"},
        {10, "10.0"},
        {100, "100.0"},
        {1000, "1000.0"},
        {10000, "10000.0"},
        {100000, "100000.0"},
        {1e6, "1e+06"},
        {1e7, "1e+07"},
        {1e8, "1e+08"},
        {1e9, "1e+09"},
        {1e10, "1e+10"},
        {0, "0.0"},
        {0.002, "0.002"},
        {0.5, "0.5"},
        {9.999, "9.999"},
        {INFINITY, "+Inf"},
        {-INFINITY, "-Inf"},
        {NAN, "NaN"},
        {-1, "-1.0"},
        {2.5, "2.5"},
        {123456.5, "123456.5"},
        {-0.0, "-0.0"},
        {1234567, "1.234567e+06"},
    };
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++)
        expect(metric_number_canonical, listed[i].value, listed[i].text);
    for (int i = 0; i <= 10000; i++) { /* 0.0 to 10.0 in steps of 0.001 */
        char text[32];
        snprintf(text, sizeof text, "%d.%03d", i / 1000, i % 1000);
        char *end = text + strlen(text);
        while (end[-1] == '0' && end[-2] != '.')
            *--end = '\0';
        expect(metric_number_canonical, (double)i / 1000, text);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    expect(metric_number_bound, 1, "1");
    expect(metric_number_bound, 0.005, "0.005");
    expect(metric_number_bound, 1000000, "1e+06");
    expect(metric_number_bound, 1000001, "1.000001e+06");
    expect(metric_number_bound, 100000, "100000");
    expect(metric_number_bound, -2.5, "-2.5");
    expect(metric_number_bound, INFINITY, "+Inf");
}

static void test_values(void **state)
{
    (void)state;
    expect(metric_number_value, 0, "0");
    expect(metric_number_value, -0.0, "-0");
    expect(metric_number_value, 1000000, "1000000");
    expect(metric_number_value, -42, "-42");
    expect(metric_number_value, 9007199254740992.0, "9007199254740992");
    expect(metric_number_value, 9007199254740994.0, "9.007199254740994e+15");
    expect(metric_number_value, -9007199254740994.0, "-9.007199254740994e+15");
    expect(metric_number_value, 1e21, "1e+21");
    expect(metric_number_value, 1e300, "1e+300");
    expect(metric_number_value, 0.1, "0.1");
    expect(metric_number_value, 0.1 + 0.2, "0.30000000000000004");
    expect(metric_number_value, 12345.678, "12345.678");
    expect(metric_number_value, 1700000000.123, "1.700000000123e+09");
    expect(metric_number_value, 5e-324, "5e-324");
    expect(metric_number_value, DBL_MIN, "2.2250738585072014e-308");
    expect(metric_number_value, DBL_MAX, "1.7976931348623157e+308");
    expect(metric_number_value, -DBL_MAX, "-1.7976931348623157e+308");
    expect(metric_number_value, 2.938735877055719e-39, "2.938735877055719e-39");
    expect(metric_number_value, NAN, "NaN");
    expect(metric_number_value, -NAN, "NaN");
}

static void test_u64(void **state)
{
    (void)state;
    uint64_t value = 0;
    for (int i = 0; i < 200000; i++) {
        char out[METRIC_NUMBER_MAX + 1], expected[32];
        *metric_number_u64(out, value) = '\0';
        snprintf(expected, sizeof expected, "%llu", (unsigned long long)value);
        assert_string_equal(out, expected);
        value = i < 1001 ? value + 1 : value * 6364136223846793005u + 1442695040888963407u;
        value >>= i > 1001 ? i % 64 : 0;
    }
    char out[METRIC_NUMBER_MAX + 1];
    *metric_number_u64(out, UINT64_MAX) = '\0';
    assert_string_equal(out, "18446744073709551615");
}

static void test_seconds(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{0, "0.000"},
                 {7, "0.007"},
                 {1700000000123, "1700000000.123"},
                 {1990, "1.990"},
                 {-5, "0.000"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[METRIC_NUMBER_MAX + 1];
        *metric_number_seconds(out, cases[i].ms) = '\0';
        assert_string_equal(out, cases[i].text);
    }
}

/* Any double reads back as itself, in every form; the shortest of 17 digits or less. */
static void test_round_trip(void **state)
{
    (void)state;
    static printer *const printers[] = {metric_number_value, metric_number_bound,
                                        metric_number_canonical};
    uint64_t bits = 42;
    for (int i = 0; i < 100000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        uint64_t mixed = bits ^ bits >> 29;
        double value;
        memcpy(&value, &mixed, sizeof value);
        if (!isfinite(value))
            continue;
        for (size_t p = 0; p < 3; p++) {
            char out[METRIC_NUMBER_MAX + 1];
            char *end = printers[p](out, value);
            assert_true(end - out <= METRIC_NUMBER_MAX);
            *end = '\0';
            assert_true(strtod(out, NULL) == value);
            assert_true(end - out <= 24);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_numbers),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_u64),
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
