/* SPDX-License-Identifier: Apache-2.0 */
/* Moments and ages as text. */
#include "exporter/status/times.h"
#include "tests/support/unit.h"

static void check_age(int64_t age_ms, const char *expected)
{
    char text[EXPORTER_AGE_SIZE];
    exporter_age_text(text, age_ms);
    assert_string_equal(text, expected);
}

static void test_ages_have_their_two_largest_units(void **state)
{
    (void)state;
    check_age(0, "0.0 s");
    check_age(449, "0.4 s");
    check_age(9999, "9.9 s");
    check_age(10000, "10 s");
    check_age(59999, "59 s");
    check_age(60000, "1 min");
    check_age(200000, "3 min 20 s");
    check_age(3600000, "1 h");
    check_age(7500000, "2 h 5 min");
    check_age(86400000, "1 d");
    check_age(INT64_C(349200000), "4 d 1 h");
    check_age(INT64_MAX, "106751991167 d 7 h");
}

static void check_time(int64_t at_ms, const char *expected)
{
    char text[EXPORTER_TIME_SIZE];
    exporter_time_text(text, at_ms);
    assert_string_equal(text, expected);
}

static void test_moments_are_rfc_3339(void **state)
{
    (void)state;
    check_time(0, "1970-01-01T00:00:00Z");
    check_time(INT64_C(1772366400999), "2026-03-01T12:00:00Z");
    check_time(INT64_MAX, "292278994-08-17T07:12:55Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ages_have_their_two_largest_units),
        cmocka_unit_test(test_moments_are_rfc_3339),
    };
    return RUN_TESTS(tests);
}
