/* SPDX-License-Identifier: Apache-2.0 */
/* Times as text. The examples are those of RFC 3339 section 5.8; the C library is the second judge.
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/rfc3339.h"

static int64_t parsed(const char *text)
{
    int64_t ms = -1;
    assert_true(base_rfc3339_parse(text, strlen(text), &ms));
    return ms;
}

static void test_examples_of_the_rfc(void **state)
{
    (void)state;
    assert_int_equal(parsed("1985-04-12T23:20:50.52Z"), 482196050520);
    assert_int_equal(parsed("1996-12-19T16:39:57-08:00"), parsed("1996-12-20T00:39:57Z"));
    assert_int_equal(parsed("1990-12-31T23:59:60Z"), parsed("1991-01-01T00:00:00Z"));
    assert_int_equal(parsed("1990-12-31T15:59:60-08:00"), parsed("1991-01-01T00:00:00Z"));
    assert_int_equal(parsed("1937-01-01T12:00:27.87+00:20"), parsed("1937-01-01T11:40:27.870Z"));
    assert_int_equal(parsed("1970-01-01t00:00:00.0019z"), 1);
    assert_int_equal(parsed("2024-02-29T00:00:00Z"), 1709164800000);
}

static void test_what_is_not_a_time(void **state)
{
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-01-31",
                                      "2026-01-31T12:00:00",
                                      "2026-01-31 12:00:00Z",
                                      "2026-13-01T00:00:00Z",
                                      "2026-00-01T00:00:00Z",
                                      "2026-02-29T00:00:00Z",
                                      "2026-04-31T00:00:00Z",
                                      "2026-01-00T00:00:00Z",
                                      "2026-01-01T24:00:00Z",
                                      "2026-01-01T00:60:00Z",
                                      "2026-01-01T00:00:61Z",
                                      "2026-01-01T00:00:00.Z",
                                      "2026-01-01T00:00:00+0100",
                                      "2026-01-01T00:00:00+24:00",
                                      "2026-01-01T00:00:00Zx",
                                      "+026-01-01T00:00:00Z"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ms;
        if (base_rfc3339_parse(bad[i], strlen(bad[i]), &ms))
            fail_msg("took %s", bad[i]);
    }
}

static void test_format_agrees_with_the_c_library(void **state)
{
    (void)state;
    for (int64_t second = -62000000000; second < 250000000000; second += 86400 * 13 + 3661) {
        char ours[BASE_RFC3339_SIZE], theirs[80];
        time_t time = (time_t)second;
        struct tm parts;
        base_rfc3339_format(second * 1000 + 7, ours);
        gmtime_r(&time, &parts);
        snprintf(theirs, sizeof theirs, "%04d-%02d-%02dT%02d:%02d:%02d.007Z", parts.tm_year + 1900,
                 parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
        assert_string_equal(ours, theirs);
        assert_int_equal(parsed(ours), second * 1000 + 7);
    }
}

static void test_format_at_the_ends(void **state)
{
    char text[BASE_RFC3339_SIZE];
    (void)state;
    base_rfc3339_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    base_rfc3339_format(INT64_MIN, text);
    assert_string_equal(text, "0000-01-01T00:00:00.000Z");
    base_rfc3339_format(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999Z");
}

static void test_clocks(void **state)
{
    struct base_manual_clock manual;
    (void)state;
    base_manual_clock_init(&manual, 1000);
    assert_int_equal(base_wall_ms(&manual.clock), 1000);
    base_manual_clock_advance(&manual, 250);
    assert_int_equal(base_wall_ms(&manual.clock), 1250);
    assert_int_equal(base_monotonic_ns(&manual.clock), 250000000);
    int64_t before = base_monotonic_ns(&base_clock_system);
    assert_true(base_monotonic_ns(&base_clock_system) >= before);
    assert_true(base_wall_ms(&base_clock_system) / 1000 - (int64_t)time(NULL) <= 1);
}

static void check_seconds(int64_t at_ms, const char *expected)
{
    char text[BASE_RFC3339_SIZE];
    base_rfc3339_seconds(at_ms, text);
    assert_string_equal(text, expected);
}

static void test_whole_seconds(void **state)
{
    (void)state;
    check_seconds(0, "1970-01-01T00:00:00Z");
    check_seconds(INT64_C(1772366400999), "2026-03-01T12:00:00Z");
    check_seconds(INT64_MAX, "9999-12-31T23:59:59Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples_of_the_rfc),
        cmocka_unit_test(test_what_is_not_a_time),
        cmocka_unit_test(test_format_agrees_with_the_c_library),
        cmocka_unit_test(test_format_at_the_ends),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_whole_seconds),
    };
    return RUN_TESTS(tests);
}
