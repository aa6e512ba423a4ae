/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, sizes, numbers and ages. */
#include "lib/base/units.h"
#include "tests/support/unit.h"

#include <string.h>

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
        const char *printed;
    } good[] = {
        {"0", 0, "0s"},
        {"0s", 0, "0s"},
        {"10ms", 10, "10ms"},
        {"15s", 15000, "15s"},
        {"90s", 90000, "1m30s"},
        {"1m30s", 90000, "1m30s"},
        {"1d2h3m4s5ms", 93784005, "1d2h3m4s5ms"},
        {"24h", 86400000, "1d"},
        {"213503982334d14h25m51s615ms", UINT64_MAX, "213503982334d14h25m51s615ms"},
    };
    static const char *const bad[] = {"",
                                      "1",
                                      "s",
                                      "15 s",
                                      " 15s",
                                      "15s ",
                                      "-1s",
                                      "+1s",
                                      "1.5s",
                                      "1S",
                                      "1sec",
                                      "1us",
                                      "1s1m",
                                      "1s1s",
                                      "01s",
                                      "1m 30s",
                                      "1ms1",
                                      "0x10s",
                                      "15\xC2\xB5s",
                                      "213503982335d",
                                      "18446744073709551616ms",
                                      "213503982334d14h25m51s616ms"};
    struct base_printed printed;
    uint64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(base_duration_parse(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
        assert_string_equal(base_duration_print(&printed, ms), good[i].printed);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (base_duration_parse(bad[i], &ms)) {
            fail_msg("\"%s\" was taken for a duration", bad[i]);
        }
        assert_int_equal(ms, 0);
    }
}

static void test_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
        const char *printed;
    } good[] = {
        {"0", 0, "0B"},
        {"0B", 0, "0B"},
        {"1B", 1, "1B"},
        {"4MiB", 4194304, "4MiB"},
        {"1024KiB", 1048576, "1MiB"},
        {"1GiB", 1073741824, "1GiB"},
        {"1025B", 1025, "1025B"},
        {"17179869183GiB", UINT64_C(17179869183) << 30, "17179869183GiB"},
    };
    static const char *const bad[] = {"",    "1",      "MiB",    "1MB", "1mib",  "1 MiB",
                                      "-1B", "1.5MiB", "1MiB1B", "01B", "1GiB ", "17179869184GiB"};
    struct base_printed printed;
    uint64_t bytes;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(base_size_parse(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
        assert_string_equal(base_size_print(&printed, bytes), good[i].printed);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (base_size_parse(bad[i], &bytes)) {
            fail_msg("\"%s\" was taken for a size", bad[i]);
        }
    }
}

/* What the printer writes reads back as the same number, over magnitudes. */
static void test_printed_reads_back(void **state)
{
    struct base_printed printed;
    uint64_t number = 1;
    uint64_t back;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        number = number * 6364136223846793005u + 1442695040888963407u;
        uint64_t value = number >> (number & 63);
        assert_true(base_duration_parse(base_duration_print(&printed, value), &back));
        assert_int_equal(back, value);
        assert_true(base_size_parse(base_size_print(&printed, value), &back));
        assert_int_equal(back, value);
    }
}

static void test_numbers(void **state)
{
    static const char *const bad[] = {"",   "-1",  "+1",  " 1",  "1 ",
                                      "01", "1e3", "0x1", "1.0", "18446744073709551616"};
    uint64_t number;

    (void)state;
    assert_true(base_number_parse("0", &number));
    assert_int_equal(number, 0);
    assert_true(base_number_parse("18446744073709551615", &number));
    assert_int_equal(number, UINT64_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(base_number_parse(bad[i], &number));
    }
}

static void check_age(int64_t age_ms, const char *expected)
{
    struct base_printed printed;
    assert_string_equal(base_age_print(&printed, age_ms), expected);
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

static void test_choices_have_positions(void **unused)
{
    (void)unused;
    char text[8];
    assert_int_equal(base_choice_index("debug|info|warn", "info"), 1);
    assert_int_equal(base_choice_index("debug|info|warn", "inf"), -1);
    assert_string_equal(base_choice_copy("debug|info|warn", 0, text, sizeof text), "debug");
    assert_string_equal(base_choice_copy("debug|info|warn", 2, text, sizeof text), "warn");
    assert_string_equal(base_choice_copy("debug|info|warn", 3, text, sizeof text), "");
    assert_string_equal(base_choice_copy("critical|info", 0, text, sizeof text), "critica");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_printed_reads_back),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_ages_have_their_two_largest_units),
        cmocka_unit_test(test_choices_have_positions),
    };
    return RUN_TESTS(tests);
}
