/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, sizes, edit distance, listen addresses, UTF-8 and quoting: the small readers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "exporter/config/address.h"
#include "exporter/config/units.h"
#include "exporter/error.h"
#include "exporter/nearest.h"
#include "exporter/utf8.h"

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
    struct exporter_printed printed;
    uint64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(exporter_duration_parse(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
        assert_string_equal(exporter_duration_print(&printed, ms), good[i].printed);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (exporter_duration_parse(bad[i], &ms)) {
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
    struct exporter_printed printed;
    uint64_t bytes;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(exporter_size_parse(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
        assert_string_equal(exporter_size_print(&printed, bytes), good[i].printed);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (exporter_size_parse(bad[i], &bytes)) {
            fail_msg("\"%s\" was taken for a size", bad[i]);
        }
    }
}

/* What the printer writes reads back as the same number, over magnitudes. */
static void test_printed_reads_back(void **state)
{
    struct exporter_printed printed;
    uint64_t number = 1;
    uint64_t back;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        number = number * 6364136223846793005u + 1442695040888963407u;
        uint64_t value = number >> (number & 63);
        assert_true(exporter_duration_parse(exporter_duration_print(&printed, value), &back));
        assert_int_equal(back, value);
        assert_true(exporter_size_parse(exporter_size_print(&printed, value), &back));
        assert_int_equal(back, value);
    }
}

static void test_numbers(void **state)
{
    static const char *const bad[] = {"",   "-1",  "+1",  " 1",  "1 ",
                                      "01", "1e3", "0x1", "1.0", "18446744073709551616"};
    uint64_t number;

    (void)state;
    assert_true(exporter_number_parse("0", &number));
    assert_int_equal(number, 0);
    assert_true(exporter_number_parse("18446744073709551615", &number));
    assert_int_equal(number, UINT64_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(exporter_number_parse(bad[i], &number));
    }
}

static size_t distance(const char *a, const char *b)
{
    size_t there = exporter_edit_distance(a, strlen(a), b, strlen(b));

    assert_int_equal(there, exporter_edit_distance(b, strlen(b), a, strlen(a)));
    return there;
}

static void test_edit_distance(void **state)
{
    char longest[65];

    (void)state;
    assert_int_equal(distance("", ""), 0);
    assert_int_equal(distance("", "abc"), 3);
    assert_int_equal(distance("kitten", "sitting"), 3);
    assert_int_equal(distance("timeout", "timeuot"), 1);
    assert_int_equal(distance("timeout", "timout"), 1);
    assert_int_equal(distance("retries", "retires"), 1);
    assert_int_equal(distance("ca", "abc"), 3); /* optimal string alignment: nothing edited twice */
    memset(longest, 'a', sizeof(longest));
    assert_int_equal(exporter_edit_distance(longest, 63, longest, 63), 0);
    assert_int_equal(exporter_edit_distance(longest, 64, longest, 64), SIZE_MAX);
}

static const char *nearest(const char *seen)
{
    struct exporter_nearest nearest = exporter_nearest_begin(seen, strlen(seen));

    exporter_nearest_offer(&nearest, "timeout", 7);
    exporter_nearest_offer(&nearest, "ack_timeout", 11);
    exporter_nearest_offer(&nearest, "url", 3);
    return nearest.best;
}

static void test_nearest(void **state)
{
    (void)state;
    assert_string_equal(nearest("timeot"), "timeout");
    assert_string_equal(nearest("ack_timout"), "ack_timeout");
    assert_string_equal(nearest("uri"), "url");
    assert_null(nearest("tls"));
    assert_null(nearest(""));
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {"",           "9780",  ":",      ":65536", ":-1",   ":+1",
                                      ":0x1",       "a b:1", "::1:80", "[]:80",  "[::1]", "[::1:80",
                                      "http://a:1", "a/b:1", "unix:",  "a:80 "};
    struct exporter_address address;
    char path[5 + 109] = "unix:";

    (void)state;
    assert_true(exporter_address_parse(":9780", &address));
    assert_string_equal(address.host, "");
    assert_int_equal(address.port, 9780);
    assert_true(exporter_address_parse("[fe80::1%eth0]:0", &address));
    assert_string_equal(address.host, "fe80::1%eth0");
    assert_int_equal(address.port, 0);
    assert_true(exporter_address_parse("localhost:65535", &address));
    assert_int_equal(address.port, 65535);
    assert_false(address.is_unix);
    memset(path + 5, 'a', 108);
    path[5 + 107] = '\0';
    assert_true(exporter_address_parse(path, &address));
    assert_true(address.is_unix);
    assert_string_equal(address.path, path + 5);
    path[5 + 107] = 'a';
    assert_false(exporter_address_parse(path, &address));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (exporter_address_parse(bad[i], &address)) {
            fail_msg("\"%s\" was taken for an address", bad[i]);
        }
    }
}

static void assert_utf8(const char *bytes, size_t length, size_t size, uint32_t expected)
{
    uint32_t character;

    assert_int_equal(exporter_utf8_next(bytes, length, &character), size);
    assert_int_equal(character, expected);
}

static void test_utf8(void **state)
{
    (void)state;
    assert_utf8("a", 1, 1, 'a');
    assert_utf8("\0", 1, 1, 0);
    assert_utf8("\xC3\xA9", 2, 2, 0xE9);
    assert_utf8("\xE2\x82\xAC", 3, 3, 0x20AC);
    assert_utf8("\xF0\x9F\x98\x80", 4, 4, 0x1F600);
    assert_utf8("\xF4\x8F\xBF\xBF", 4, 4, 0x10FFFF);
    assert_utf8("\xF4\x90\x80\x80", 4, 1, EXPORTER_UTF8_INVALID); /* beyond Unicode */
    assert_utf8("\xC0\x80", 2, 1, EXPORTER_UTF8_INVALID);         /* overlong */
    assert_utf8("\xE0\x80\x80", 3, 1, EXPORTER_UTF8_INVALID);
    assert_utf8("\xF0\x80\x80\x80", 4, 1, EXPORTER_UTF8_INVALID);
    assert_utf8("\xED\xA0\x80", 3, 1, EXPORTER_UTF8_INVALID); /* a surrogate */
    assert_utf8("\xE2\x82", 2, 1, EXPORTER_UTF8_INVALID);     /* cut */
    assert_utf8("\x80", 1, 1, EXPORTER_UTF8_INVALID);
    assert_utf8("\xC3(", 2, 1, EXPORTER_UTF8_INVALID);
    assert_utf8("\xFF", 1, 1, EXPORTER_UTF8_INVALID);
}

static void test_quote(void **state)
{
    struct exporter_quoted quoted;
    char flood[400];

    (void)state;
    assert_string_equal(exporter_error_quote(&quoted, "15 parsecs", 10), "\"15 parsecs\"");
    assert_string_equal(exporter_error_quote(&quoted, "", 0), "\"\"");
    assert_string_equal(exporter_error_quote(&quoted, "a\n\x1B\xFF\"\\", 6),
                        "\"a\\x0A\\x1B\\xFF\\\"\\\\\"");
    assert_string_equal(exporter_error_quote(&quoted, "\xC3\xA9\xC2\x9B", 4),
                        "\"\xC3\xA9\\xC2\\x9B\"");
    /* every way to fill it stays inside and is marked as cut */
    for (size_t lead = 0; lead < 16; lead++) {
        memset(flood, 'a', lead);
        for (size_t i = lead; i < sizeof(flood); i++) {
            flood[i] = (i - lead) % 2 == 0 ? '\xC2' : '\x85';
        }
        exporter_error_quote(&quoted, flood, sizeof(flood));
        size_t length = strlen(quoted.text);
        assert_in_range(length, 100, sizeof(quoted.text) - 1);
        assert_string_equal(quoted.text + length - 4, "...\"");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_printed_reads_back),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_edit_distance),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
