/* SPDX-License-Identifier: Apache-2.0 */
/* OpenMetrics 2.0 as the specification's release candidate (2.0.0-rc0) writes it; the examples
 * follow its ABNF. The start of a series is replaced by `st@T` before the comparison. */
#include <ctype.h>
#include <math.h>

#include "tests/unit/metric_support.h"

/* In place: `st@` and digits become `st@T`; false if one is not a time of the last minute. */
static bool replace_starts(char *text)
{
    char *out = text;
    for (const char *in = text; *in != '\0';) {
        if (strncmp(in, " st@", 4) != 0) {
            *out++ = *in++;
            continue;
        }
        char *end;
        const double start = strtod(in + 4, &end);
        if (fabs(start - (double)time(NULL)) > 60)
            return false;
        memcpy(out, " st@T", 5);
        out += 5;
        in = end;
    }
    *out = '\0';
    return true;
}

static void assert_shows(struct metric_registry *registry, const char *expected)
{
    struct metric_buffer out = scrape_all(registry, METRIC_OPENMETRICS_2);
    assert_true(replace_starts(out.data));
    assert_string_equal(out.data, expected);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_names_are_what_they_are(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    metric_add(metric_resolve(must_register(registry, &(struct metric_desc){.name = "a_bytes_total",
                                                                            .unit = "bytes",
                                                                            .type = METRIC_COUNTER,
                                                                            .help = "A \"a\"."}),
                              NULL),
               3);
    struct metric_family *plain =
        must_register(registry, &(struct metric_desc){.name = "b:c",
                                                      .type = METRIC_COUNTER,
                                                      .help = "",
                                                      .labels = {"of"},
                                                      .flags = METRIC_ANY_NAME | METRIC_FRACTIONS});
    metric_add_real(metric_resolve(plain, VALUES("\"")), 0.5);
    metric_gauge_set(
        metric_resolve(
            must_register(registry,
                          &(struct metric_desc){.name = "g", .type = METRIC_GAUGE, .help = "G"}),
            NULL),
        NAN);
    assert_shows(registry, "# TYPE a_bytes_total counter\n"
                           "# UNIT a_bytes_total bytes\n"
                           "# HELP a_bytes_total A \\\"a\\\".\n"
                           "a_bytes_total 3 st@T\n"
                           "# TYPE b:c counter\n"
                           "# HELP b:c \n"
                           "b:c{of=\"\\\"\"} 0.5 st@T\n"
                           "# TYPE g gauge\n"
                           "# HELP g G\n"
                           "g NaN\n"
                           "# EOF\n");
}

/* When a mirrored counter began is not known here, unless the caller says it. */
static void test_the_start_of_what_is_counted_elsewhere(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_family *family = must_register(
        registry, &(struct metric_desc){
                      .name = "m_total", .type = METRIC_COUNTER, .help = "M", .labels = {"of"}});
    static const double unknown[] = {NAN, INFINITY, -INFINITY, 0, -1, 1e18};
    metric_mirror(metric_resolve(family, VALUES("a")), 12.5);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        metric_mirror_since(metric_resolve(family, VALUES("b")), 5, 1700000000);
        metric_mirror_since(metric_resolve(family, VALUES("b")), 6, unknown[i]);
    }
    metric_mirror_since(metric_resolve(family, VALUES("c")), 7, 1700000000.25);
    metric_resolve(family, VALUES("d"));
    struct metric_buffer out = scrape_all(registry, METRIC_OPENMETRICS_2);
    assert_non_null(strstr(out.data, "m_total{of=\"c\"} 7 st@1700000000.25"));
    metric_buffer_free(&out);
    metric_mirror(metric_resolve(family, VALUES("c")), 8); /* and it is forgotten */
    assert_shows(registry, "# TYPE m_total counter\n"
                           "# HELP m_total M\n"
                           "m_total{of=\"a\"} 12.5\n"
                           "m_total{of=\"b\"} 6\n"
                           "m_total{of=\"c\"} 8\n"
                           "m_total{of=\"d\"} 0 st@T\n"
                           "# EOF\n");
}

static struct metric_family *histogram(struct metric_registry *registry, size_t nbounds,
                                       struct metric_native native, const char *label)
{
    static const double bounds[] = {0.25, 1, 1000001};
    return must_register(registry, &(struct metric_desc){.name = "h",
                                                         .type = METRIC_HISTOGRAM,
                                                         .help = "H",
                                                         .labels = {label},
                                                         .bounds = bounds,
                                                         .nbounds = nbounds,
                                                         .native = native});
}

static void test_a_histogram_is_one_line(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *series =
        metric_resolve(histogram(registry, 3, (struct metric_native){0}, "path"), VALUES("/"));
    static const double values[] = {0.25, 0.5, 1000001, 2000000};
    for (size_t i = 0; i < 4; i++)
        metric_observe(series, values[i]);
    assert_shows(
        registry,
        "# TYPE h histogram\n"
        "# HELP h H\n"
        "h{path=\"/\"} {count:4,sum:3.00000175e+06,bucket:[0.25:1,1.0:2,1.000001e+06:3,+Inf:4]}"
        " st@T\n"
        "# EOF\n");
}

static void test_native_buckets_come_before_classic_ones(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *series =
        metric_resolve(histogram(registry, 2, (struct metric_native){0, -3, 6}, NULL), NULL);
    /* bucket i holds (2^(i-1), 2^i]: buckets -1, 0, 3 and 4; and the zero bucket */
    static const double values[] = {0.4, 0.9, 0.9, 7, 16, 16, 16, 0};
    for (size_t i = 0; i < 8; i++)
        metric_observe(series, values[i]);
    assert_shows(registry, "# TYPE h histogram\n"
                           "# HELP h H\n"
                           "h {count:8,sum:57.2,schema:0,zero_threshold:0.125,zero_count:1,"
                           "positive_spans:[-1:2,2:2],positive_buckets:[1,2,1,3],"
                           "bucket:[0.25:1,1.0:4,+Inf:8]} st@T\n"
                           "# EOF\n");
}

static void test_native_alone_and_empty(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    histogram(registry, 0, (struct metric_native){3, -3, 6}, NULL);
    assert_shows(registry, "# TYPE h histogram\n"
                           "# HELP h H\n"
                           "h {count:0,sum:0,schema:3,zero_threshold:0.125,zero_count:0} st@T\n"
                           "# EOF\n");
}

static void test_the_fullest_histogram_fits(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    double bounds[METRIC_BOUNDS_MAX];
    for (int i = 0; i < METRIC_BOUNDS_MAX; i++)
        bounds[i] = 1e-300 * (i + 1) / 3;
    struct metric_series *series =
        metric_resolve(must_register(registry, &(struct metric_desc){.name = "h",
                                                                     .type = METRIC_HISTOGRAM,
                                                                     .help = "H",
                                                                     .bounds = bounds,
                                                                     .nbounds = METRIC_BOUNDS_MAX,
                                                                     .native = {3, -500, 500},
                                                                     .flags = METRIC_EXEMPLARS}),
                       NULL);
    char quotes[150];
    memset(quotes, '"', sizeof quotes);
    quotes[100] = '\0';
    const struct metric_exemplar exemplar = {1, VALUES("trace"), (const char *const[]){quotes}};
    for (int i = -600; i < 600; i++)
        metric_observe_exemplar(series, exp2(i * 0.8), &exemplar);
    for (int i = 0; i < METRIC_BOUNDS_MAX; i++)
        metric_observe_exemplar(series, bounds[i], &exemplar);
    struct metric_buffer out = scrape_all(registry, METRIC_OPENMETRICS_2);
    assert_non_null(strstr(out.data, "+Inf:1328]} st@"));
    assert_string_equal(out.data + out.length - 7, "\n# EOF\n");
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_several_registries_as_one(void **state)
{
    (void)state;
    struct metric_registry *registries[3];
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        registries[i] = registry_with(1, 10);
        if (i != 1)
            must_register(registries[i], &(struct metric_desc){
                                             .name = names[i], .type = METRIC_GAUGE, .help = "G"});
    }
    struct metric_scrape_options options = {.format = METRIC_OPENMETRICS_2};
    struct metric_scrape *scrape = metric_scrape_begin_all(registries, 3, &options);
    struct metric_buffer out = {0};
    while (metric_scrape_step(scrape, &out, 1)) {
    }
    metric_scrape_end(&scrape);
    static const char expected[] = "# TYPE a gauge\n# HELP a G\na 0\n"
                                   "# TYPE c gauge\n# HELP c G\nc 0\n# EOF\n";
    assert_int_equal(out.length, sizeof expected - 1);
    assert_memory_equal(out.data, expected, sizeof expected - 1);
    metric_buffer_free(&out);
    for (size_t i = 0; i < 3; i++)
        metric_registry_free(&registries[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_what_they_are),
        cmocka_unit_test(test_the_start_of_what_is_counted_elsewhere),
        cmocka_unit_test(test_a_histogram_is_one_line),
        cmocka_unit_test(test_native_buckets_come_before_classic_ones),
        cmocka_unit_test(test_native_alone_and_empty),
        cmocka_unit_test(test_the_fullest_histogram_fits),
        cmocka_unit_test(test_several_registries_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
