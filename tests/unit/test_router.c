/* SPDX-License-Identifier: Apache-2.0 */
/* Which row answers a path and a method, and what the others are told. */
#include <string.h>

#include "exporter/http/router.h"
#include "tests/support/unit.h"

static void handle(struct exporter_request *request, void *context)
{
    (void)request;
    (void)context;
}

static const struct exporter_route rows[] = {
    {"GET", "/", handle, NULL, 0, NULL, HANDOFF_FOR_ALL, false},
    {"GET", "/metrics", handle, NULL, 0, NULL, HANDOFF_FOR_ALL, false},
    {"POST", "/v1/handoffs", handle, NULL, 0, NULL, HANDOFF_FOR_ALL, false},
    {"GET", "/v1/handoffs/{id}", handle, NULL, 0, NULL, HANDOFF_FOR_ALL, false},
    {"DELETE", "/v1/handoffs/{id}", handle, NULL, 0, NULL, HANDOFF_FOR_ALL, false},
    {"GET", "/v1/tasks/{task}/of/{agent}", handle, NULL, 0, NULL, HANDOFF_FOR_ALL, false},
};
static const struct exporter_routes routes = {rows, sizeof rows / sizeof *rows};

static enum exporter_route_result find(const char *method, const char *raw,
                                       struct exporter_path *path,
                                       struct exporter_route_match *match)
{
    assert_int_equal(exporter_path_parse(path, raw), EXPORTER_PATH_OK);
    return exporter_route_find(&routes, method, path, match);
}

static void test_paths_find_their_rows(void **state)
{
    static const struct {
        const char *method;
        const char *path;
        int row; /* -1: none */
    } cases[] = {
        {"GET", "/", 0},
        {"HEAD", "/", 0},
        {"GET", "/metrics", 1},
        {"GET", "/%6detrics", 1}, /* the same path, spelt differently */
        {"GET", "/metrics/", -1},
        {"GET", "//metrics", -1},
        {"GET", "/metric", -1},
        {"GET", "/metricss", -1},
        {"GET", "/METRICS", -1},
        {"POST", "/v1/handoffs", 2},
        {"GET", "/v1/handoffs/7", 3},
        {"DELETE", "/v1/handoffs/7", 4},
        {"GET", "/v1/handoffs/", -1}, /* a parameter is never empty */
        {"GET", "/v1/handoffs/7/", -1},
        {"GET", "/v1/handoffs/7/8", -1},
        {"GET", "/v1", -1},
        {"GET", "/v1/tasks/t/of/a", 5},
        {"GET", "/v1/tasks/t/off/a", -1},
        {"GET", "/{id}", -1},
        {"GET", "/../metrics", -1}, /* nothing is normalised, so nothing can be smuggled */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exporter_path path;
        struct exporter_route_match match;
        const enum exporter_route_result result =
            find(cases[i].method, cases[i].path, &path, &match);
        const int row = result == EXPORTER_ROUTE_FOUND ? (int)(match.route - rows) : -1;
        if (row != cases[i].row)
            fail_msg("%s %s found row %d, not %d", cases[i].method, cases[i].path, row,
                     cases[i].row);
        if (row < 0)
            assert_int_equal(result, EXPORTER_ROUTE_UNKNOWN);
    }
}

static void test_parameters_are_decoded_and_keep_their_slashes(void **state)
{
    (void)state;
    struct exporter_path path;
    struct exporter_route_match match;
    assert_int_equal(find("GET", "/v1/tasks/a%2Fb%20c/of/%e2%82%ac", &path, &match),
                     EXPORTER_ROUTE_FOUND);
    assert_int_equal(match.nparams, 2);
    assert_string_equal(match.params[0], "a/b c");
    assert_string_equal(match.params[1], "\xe2\x82\xac");
}

static void test_other_methods_are_told_what_is_allowed(void **state)
{
    (void)state;
    struct exporter_path path;
    struct exporter_route_match match;
    assert_int_equal(find("PUT", "/v1/handoffs/7", &path, &match), EXPORTER_ROUTE_METHOD);
    assert_string_equal(match.allow, "GET, HEAD, DELETE, OPTIONS");
    assert_int_equal(find("HEAD", "/v1/handoffs", &path, &match), EXPORTER_ROUTE_METHOD);
    assert_string_equal(match.allow, "POST, OPTIONS");
    assert_int_equal(find("get", "/metrics", &path, &match), EXPORTER_ROUTE_METHOD);
    assert_int_equal(find("OPTIONS", "/v1/handoffs", &path, &match), EXPORTER_ROUTE_FOUND);
    assert_null(match.route);
    assert_string_equal(match.allow, "POST, OPTIONS");
    assert_int_equal(find("OPTIONS", "/nowhere", &path, &match), EXPORTER_ROUTE_UNKNOWN);
}

static void test_malformed_paths_are_refused(void **state)
{
    static const char *const malformed[] = {"",     "metrics", "*",         "/%",    "/%4",
                                            "/%4g", "/%g4",    "/a%00b",    "/%%20", "ftp://x/",
                                            "/%ff", "/%e2%82", "/%ed%a0%80"};
    (void)state;
    struct exporter_path path;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        assert_int_equal(exporter_path_parse(&path, malformed[i]), EXPORTER_PATH_MALFORMED);
    assert_int_equal(exporter_path_parse(&path, "/1/2/3/4/5/6/7/8"), EXPORTER_PATH_OK);
    assert_int_equal(exporter_path_parse(&path, "/1/2/3/4/5/6/7/8/9"), EXPORTER_PATH_TOO_LONG);
}

static void test_whole_urls_are_their_paths(void **state)
{
    static const struct {
        const char *raw, *first;
        enum exporter_path_result result;
    } cases[] = {
        {"http://host/metrics", "metrics", EXPORTER_PATH_OK},
        {"HTTPS://[::1]:9780/metrics", "metrics", EXPORTER_PATH_OK},
        {"http://host", "", EXPORTER_PATH_OK},
        {"http://host/", "", EXPORTER_PATH_OK},
        {"http://user@host/a%2fb", "a/b", EXPORTER_PATH_OK},
        {"http://", NULL, EXPORTER_PATH_MALFORMED},
        {"http:///metrics", NULL, EXPORTER_PATH_MALFORMED},
        {"ftp://host/metrics", NULL, EXPORTER_PATH_MALFORMED},
        {"host:80", NULL, EXPORTER_PATH_MALFORMED},
        {"*", NULL, EXPORTER_PATH_MALFORMED},
        {"/http://host/metrics", "http:", EXPORTER_PATH_OK},
    };
    (void)state;
    struct exporter_path path;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(exporter_path_parse(&path, cases[i].raw), cases[i].result);
        if (cases[i].first != NULL)
            assert_string_equal(path.segments[0], cases[i].first);
    }
}

static void test_long_paths_fit_to_the_last_byte(void **state)
{
    (void)state;
    struct exporter_path path;
    char raw[EXPORTER_PATH_MAX + 1];
    memset(raw, 'x', sizeof raw);
    raw[0] = '/';
    raw[EXPORTER_PATH_MAX] = '\0';
    assert_int_equal(exporter_path_parse(&path, raw), EXPORTER_PATH_TOO_LONG);
    raw[EXPORTER_PATH_MAX - 1] = '\0';
    assert_int_equal(exporter_path_parse(&path, raw), EXPORTER_PATH_OK);
    assert_int_equal(strlen(path.segments[0]), EXPORTER_PATH_MAX - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_find_their_rows),
        cmocka_unit_test(test_parameters_are_decoded_and_keep_their_slashes),
        cmocka_unit_test(test_other_methods_are_told_what_is_allowed),
        cmocka_unit_test(test_malformed_paths_are_refused),
        cmocka_unit_test(test_whole_urls_are_their_paths),
        cmocka_unit_test(test_long_paths_fit_to_the_last_byte),
    };
    return RUN_TESTS(tests);
}
