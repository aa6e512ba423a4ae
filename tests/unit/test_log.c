/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines, byte for byte: both formats, escaping, cutting, limiting, and many threads at once. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <yyjson.h>
#include <cmocka.h>

#include "exporter/log/log.h"

enum { CAPTURE_MAX = 1 << 20 };

static int capture_fd;
static char captured[CAPTURE_MAX];
static uint32_t fake_second;
static int64_t fake_wall;

static int64_t wall(void)
{
    return fake_wall;
}

static uint32_t monotonic(void)
{
    return fake_second;
}

/* Starts with an empty file and a fresh second, so that no test meets another's limit. */
static void begin(enum exporter_log_format format, unsigned per_second)
{
    assert_int_equal(ftruncate(capture_fd, 0), 0);
    assert_int_equal(lseek(capture_fd, 0, SEEK_SET), 0);
    fake_wall = 1769767200125; /* 2026-01-30T10:00:00.125Z */
    fake_second += 100;
    exporter_log_setup(&(struct exporter_log_setup){.fd = capture_fd,
                                                    .level = EXPORTER_LOG_INFO,
                                                    .format = format,
                                                    .lines_per_second = per_second,
                                                    .wall_ms = wall,
                                                    .monotonic_s = monotonic});
}

static const char *lines(void)
{
    ssize_t n = pread(capture_fd, captured, sizeof(captured) - 1, 0);

    assert_true(n >= 0);
    captured[n] = '\0';
    return captured;
}

static void log_everything(void)
{
    log_warn("attempt_failed", LOG_STR("target", "coder"), LOG_INT("offset", -3),
             LOG_UINT("next_ms", UINT64_MAX), LOG_BOOL("retry", true), LOG_BYTES("peer", "a b", 3),
             LOG_ERRNO("error", ECONNREFUSED), LOG_STR("none", NULL));
}

static void test_logfmt(void **state)
{
    (void)state;
    begin(EXPORTER_LOG_LOGFMT, 0);
    log_everything();
    log_info("bare");
    assert_string_equal(lines(),
                        "ts=2026-01-30T10:00:00.125Z level=warn event=attempt_failed target=coder "
                        "offset=-3 next_ms=18446744073709551615 retry=true peer=\"a b\" "
                        "error=\"Connection refused\" none=\"\"\n"
                        "ts=2026-01-30T10:00:00.125Z level=info event=bare\n");
}

static void test_json(void **state)
{
    (void)state;
    begin(EXPORTER_LOG_JSON, 0);
    log_everything();
    assert_string_equal(lines(), "{\"ts\":\"2026-01-30T10:00:00.125Z\",\"level\":\"warn\","
                                 "\"event\":\"attempt_failed\",\"target\":\"coder\",\"offset\":-3,"
                                 "\"next_ms\":18446744073709551615,\"retry\":true,\"peer\":\"a b\","
                                 "\"error\":\"Connection refused\",\"none\":\"\"}\n");
}

/* What logfmt must quote, and what no value can do: end its line or begin a field. */
static void test_escaping(void **state)
{
    static const char nasty[] = "a\" b=\"c\\\n\r\t\b\f\x01\x7F\xC2\x85\xE2\x80\xA8\xFF\xC3\xA9";
    static const char escaped[] =
        "\"a\\\" b=\\\"c\\\\\\n\\r\\t\\b\\f\\u0001\\u007f\\u0085\\u2028\xEF\xBF\xBD\xC3\xA9\"";
    char expected[256];

    (void)state;
    begin(EXPORTER_LOG_LOGFMT, 0);
    log_info("nasty", LOG_STR("v", nasty), LOG_BYTES("zero", "a\0b", 3), LOG_STR("eq", "a=b"),
             LOG_STR("back", "a\\b"), LOG_STR("accent", "\xC3\xA9"));
    (void)snprintf(expected, sizeof(expected),
                   "ts=2026-01-30T10:00:00.125Z level=info event=nasty v=%s zero=\"a\\u0000b\" "
                   "eq=\"a=b\" back=\"a\\\\b\" accent=\"\xC3\xA9\"\n",
                   escaped);
    assert_string_equal(lines(), expected);

    begin(EXPORTER_LOG_JSON, 0);
    log_info("nasty", LOG_STR("v", nasty));
    (void)snprintf(expected, sizeof(expected),
                   "{\"ts\":\"2026-01-30T10:00:00.125Z\",\"level\":\"info\",\"event\":\"nasty\","
                   "\"v\":%s}\n",
                   escaped);
    assert_string_equal(lines(), expected);
}

/* Every byte string gives a line that a JSON reader takes. */
static void test_json_of_random_bytes(void **state)
{
    uint64_t random = 42;
    char bytes[600];

    (void)state;
    for (int round = 0; round < 2000; round++) {
        size_t length = 0;
        do {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[length++] = (char)(random >> 33);
        } while (length < sizeof(bytes) && (random >> 50 & 63) != 0);
        begin(EXPORTER_LOG_JSON, 0);
        log_info("random", LOG_BYTES("v", bytes, length));
        const char *line = lines();
        size_t size = strlen(line);
        assert_int_equal(line[size - 1], '\n');
        assert_null(memchr(line, '\n', size - 1));
        yyjson_doc *document = yyjson_read(line, size - 1, 0);
        assert_non_null(document);
        yyjson_doc_free(document);
    }
}

static void test_long_values_are_cut(void **state)
{
    static char big[8192];
    char expected[1200];

    (void)state;
    memset(big, 'x', sizeof(big));
    begin(EXPORTER_LOG_LOGFMT, 0);
    log_info("long", LOG_BYTES("v", big, sizeof(big)), LOG_UINT("after", 1));
    (void)snprintf(expected, sizeof(expected), "event=long v=\"%.1024s...\" after=1\n", big);
    assert_non_null(strstr(lines(), expected));
}

/* A line that would be longer than a pipe takes at once loses whole fields and says so. */
static void test_long_lines_are_cut(void **state)
{
    static char big[1024];

    (void)state;
    memset(big, '\x01', sizeof(big)); /* six bytes each when escaped */
    for (int format = EXPORTER_LOG_LOGFMT; format <= EXPORTER_LOG_JSON; format++) {
        begin((enum exporter_log_format)format, 0);
        log_info("long", LOG_UINT("before", 1), LOG_BYTES("v", big, sizeof(big)),
                 LOG_UINT("after", 2));
        assert_true(strlen(lines()) <= PIPE_BUF);
        assert_null(strstr(captured, "after"));
        assert_non_null(strstr(captured, format == EXPORTER_LOG_JSON
                                             ? "\"before\":1,\"truncated\":true}\n"
                                             : "before=1 truncated=true\n"));
    }
}

/* The fullest line there can be: its fields end exactly where the tail begins. */
static void test_line_of_every_length(void **state)
{
    static char big[1024];

    (void)state;
    memset(big, 'x', sizeof(big));
    for (size_t last = 700; last < 1024; last++) {
        begin(EXPORTER_LOG_JSON, 0);
        log_info("fill", LOG_BYTES("a", big, 1024), LOG_BYTES("b", big, 1024),
                 LOG_BYTES("c", big, 1024), LOG_BYTES("d", big, last));
        size_t size = strlen(lines());
        assert_true(size <= PIPE_BUF);
        yyjson_doc *document = yyjson_read(captured, size - 1, 0);
        assert_non_null(document);
        yyjson_doc_free(document);
    }
}

static void test_dates(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } dates[] = {
        {0, "ts=1970-01-01T00:00:00.000Z "},
        {-1, "ts=1970-01-01T00:00:00.000Z "},
        {951782399999, "ts=2000-02-28T23:59:59.999Z "},
        {951782400000, "ts=2000-02-29T00:00:00.000Z "},
        {951868800000, "ts=2000-03-01T00:00:00.000Z "},
        {4107542400000, "ts=2100-03-01T00:00:00.000Z "}, /* 2100 has no leap day */
        {1767225599000, "ts=2025-12-31T23:59:59.000Z "},
        {253402300799000, "ts=9999-12-31T23:59:59.000Z "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(dates) / sizeof(dates[0]); i++) {
        begin(EXPORTER_LOG_LOGFMT, 0);
        fake_wall = dates[i].ms;
        log_info("date");
        assert_memory_equal(lines(), dates[i].text, strlen(dates[i].text));
    }
}

static int evaluated;

static const char *evaluate(void)
{
    evaluated++;
    return "x";
}

static void test_level(void **state)
{
    (void)state;
    begin(EXPORTER_LOG_LOGFMT, 0);
    evaluated = 0;
    log_debug("quiet", LOG_STR("v", evaluate()));
    assert_string_equal(lines(), "");
    assert_int_equal(evaluated, 0);
    exporter_log_set_level(EXPORTER_LOG_DEBUG);
    log_debug("loud", LOG_STR("v", evaluate()));
    assert_non_null(strstr(lines(), "level=debug event=loud v=x\n"));
    exporter_log_set_level(EXPORTER_LOG_ERROR);
    log_warn("quiet_again");
    assert_null(strstr(lines(), "quiet_again"));
    assert_int_equal(exporter_log_get_level(), EXPORTER_LOG_ERROR);
}

static size_t count(const char *needle)
{
    size_t n = 0;

    for (const char *at = lines(); (at = strstr(at, needle)) != NULL; at++) {
        n++;
    }
    return n;
}

static void test_repetition_is_limited(void **state)
{
    struct exporter_log_stats before;
    struct exporter_log_stats after;

    (void)state;
    begin(EXPORTER_LOG_LOGFMT, 3);
    exporter_log_stats(&before);
    for (int i = 0; i < 10; i++) {
        log_warn("storm");
        log_info("storm"); /* another level is another event */
        log_warn("breeze", LOG_INT("i", i));
    }
    assert_int_equal(count("level=warn event=storm\n"), 3);
    assert_int_equal(count("level=info event=storm\n"), 3);
    assert_int_equal(count("event=breeze"), 3);
    assert_int_equal(count("event=log_suppressed"), 0);
    exporter_log_stats(&after);
    assert_int_equal(after.lines[EXPORTER_LOG_WARN] - before.lines[EXPORTER_LOG_WARN], 6);
    assert_int_equal(after.suppressed[EXPORTER_LOG_WARN] - before.suppressed[EXPORTER_LOG_WARN],
                     14);
    assert_int_equal(after.suppressed[EXPORTER_LOG_INFO] - before.suppressed[EXPORTER_LOG_INFO], 7);

    fake_second++;
    log_warn("storm");
    assert_non_null(strstr(lines(),
                           "level=warn event=log_suppressed suppressed_event=storm suppressed=7\n"
                           "ts=2026-01-30T10:00:00.125Z level=warn event=storm\n"));
    exporter_log_flush(); /* the two that have been silent since */
    assert_int_equal(count("event=log_suppressed"), 3);
    assert_int_equal(count("level=warn event=log_suppressed suppressed_event=breeze suppressed=7"),
                     1);
    exporter_log_flush();
    fake_second++;
    log_warn("breeze");
    assert_int_equal(count("event=log_suppressed"), 3);
}

/* Equal texts at different addresses are one event; different texts never share a slot. */
static void test_events_are_told_apart_by_text(void **state)
{
    const struct exporter_log_field none[] = {EXPORTER_LOG_LAST};
    static const char one[] = "same_text";
    static const char other[] = "same_text";
    static char names[300][12];

    (void)state;
    begin(EXPORTER_LOG_LOGFMT, 1);
    exporter_log_write(EXPORTER_LOG_INFO, one, none);
    exporter_log_write(EXPORTER_LOG_INFO, other, none);
    assert_int_equal(count("event=same_text"), 1);
    for (int i = 0; i < 300; i++) { /* more than there are slots: the rest is simply not limited */
        (void)snprintf(names[i], sizeof(names[i]), "event_%d", i);
        exporter_log_write(EXPORTER_LOG_ERROR, names[i], none);
    }
    assert_int_equal(count("event=event_"), 300);
}

static void test_failed_write_is_counted(void **state)
{
    struct exporter_log_stats before;
    struct exporter_log_stats after;

    (void)state;
    begin(EXPORTER_LOG_LOGFMT, 0);
    exporter_log_setup(&(struct exporter_log_setup){.fd = -1, .level = EXPORTER_LOG_INFO});
    exporter_log_stats(&before);
    errno = ENOENT;
    log_info("lost");
    assert_int_equal(errno, ENOENT);
    exporter_log_stats(&after);
    assert_int_equal(after.write_failures - before.write_failures, 1);
}

enum { WRITERS = 4, LINES_EACH = 500 };

static void *write_many(void *argument)
{
    for (int i = 0; i < LINES_EACH; i++) {
        log_info("many", LOG_STR("writer", argument), LOG_INT("i", i),
                 LOG_BYTES("filler", "ffffffffffffffffffffffffffffffff", 32));
        log_info("many_too");
    }
    return NULL;
}

/* No line is torn and none is lost. */
static void test_many_threads(void **state)
{
    static const char *const names[WRITERS] = {"a", "b", "c", "d"};
    struct exporter_log_stats before;
    struct exporter_log_stats after;
    pthread_t threads[WRITERS];
    size_t seen = 0;

    (void)state;
    begin(EXPORTER_LOG_LOGFMT, 1000000);
    assert_int_equal(fcntl(capture_fd, F_SETFL, O_APPEND), 0);
    exporter_log_stats(&before);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, (void *)names[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    exporter_log_stats(&after);
    for (const char *line = lines(); *line != '\0'; line = strchr(line, '\n') + 1) {
        static const char head[] = "ts=2026-01-30T10:00:00.125Z level=info event=";
        assert_memory_equal(line, head, sizeof(head) - 1);
        assert_non_null(strchr(line, '\n'));
        seen++;
    }
    assert_int_equal(seen, 2 * WRITERS * LINES_EACH);
    assert_int_equal(after.lines[EXPORTER_LOG_INFO] - before.lines[EXPORTER_LOG_INFO], seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logfmt),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_escaping),
        cmocka_unit_test(test_json_of_random_bytes),
        cmocka_unit_test(test_long_values_are_cut),
        cmocka_unit_test(test_long_lines_are_cut),
        cmocka_unit_test(test_line_of_every_length),
        cmocka_unit_test(test_dates),
        cmocka_unit_test(test_level),
        cmocka_unit_test(test_repetition_is_limited),
        cmocka_unit_test(test_events_are_told_apart_by_text),
        cmocka_unit_test(test_failed_write_is_counted),
        cmocka_unit_test(test_many_threads),
    };
    capture_fd = memfd_create("log", MFD_CLOEXEC);
    return capture_fd < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
