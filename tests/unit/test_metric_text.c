/* SPDX-License-Identifier: Apache-2.0 */
/* The two text formats against files written by hand from their specifications. */
#include "tests/unit/metric_support.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <unistd.h>

static char *golden(const char *name)
{
    const char *root = getenv("HANDOFF_SOURCE_DIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/metrics/%s", root ? root : ".", name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("cannot open %s", path);
    char *text = calloc(1, 65536);
    assert_non_null(text);
    size_t length = fread(text, 1, 65535, file);
    assert_true(length > 0 && length < 65535);
    fclose(file);
    return text;
}

static void gauge(struct metric_family *family, const char *of, double value)
{
    metric_gauge_set(metric_resolve(family, VALUES(of)), value);
}

static void add_counter(struct metric_registry *registry)
{
    struct metric_family *family = must_register(
        registry, &(struct metric_desc){.name = "handoff_handoffs_total",
                                        .type = METRIC_COUNTER,
                                        .help = "Handoffs, by \"outcome\".\nA path: C:\\tmp",
                                        .labels = {"*target_agent", "outcome"}});
    metric_add(metric_resolve(family, VALUES("coder", "acknowledged")), 1);
    metric_add(metric_resolve(family, VALUES("coder", "acknowledged")), 2);
    metric_add(metric_resolve(family, VALUES("1\",b=\"2", "back\\slash\nnew line")), 1000000);
    metric_add(metric_resolve(family, VALUES("M\xc3\xbcller \xc3(", "")), UINT64_MAX);
}

static void add_gauges(struct metric_registry *registry)
{
    struct metric_family *family = must_register(
        registry,
        &(struct metric_desc){
            .name = "handoff_load", .type = METRIC_GAUGE, .help = "Load.", .labels = {"of"}});
    gauge(family, "nan", NAN);
    gauge(family, "minus nan", -NAN);
    gauge(family, "infinite", INFINITY);
    gauge(family, "minus infinite", -INFINITY);
    gauge(family, "whole", -12345678);
    gauge(family, "tenth", 0.1);
    gauge(family, "tiny", 5e-324);
    gauge(family, "huge", DBL_MAX);
    gauge(family, "sum", 0.1);
    metric_gauge_add(metric_resolve(family, VALUES("sum")), 0.2);
    must_register(registry, &(struct metric_desc){.name = "handoff_in_flight",
                                                  .type = METRIC_GAUGE,
                                                  .help = "In flight."});
    must_register(registry, &(struct metric_desc){.name = "handoff_without_series",
                                                  .type = METRIC_GAUGE,
                                                  .help = "Shown nowhere.",
                                                  .labels = {"of"}});
}

static void add_histograms(struct metric_registry *registry)
{
    static const double bounds[] = {-1, 0.005, 1, 1000000, 1000001};
    struct metric_family *family =
        must_register(registry, &(struct metric_desc){.name = "handoff_duration_seconds",
                                                      .type = METRIC_HISTOGRAM,
                                                      .unit = "seconds",
                                                      .help = "Duration.",
                                                      .labels = {"target_agent"},
                                                      .bounds = bounds,
                                                      .nbounds = 5});
    static const double values[] = {-2, 0.005, 0.5, 1, 1000000, 1000001, 1000000000};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        metric_observe(metric_resolve(family, VALUES("coder")), values[i]);
    family = must_register(registry, &(struct metric_desc){.name = "handoff_hop_depth",
                                                           .type = METRIC_HISTOGRAM,
                                                           .help = "Hops.",
                                                           .bounds = (const double[]){1},
                                                           .nbounds = 1});
    metric_observe(metric_resolve(family, NULL), 2);
}

static struct metric_registry *sample_registry(void)
{
    struct metric_registry *registry = registry_with(1, 100);
    add_counter(registry);
    add_gauges(registry);
    add_histograms(registry);
    struct metric_family *family =
        must_register(registry, &(struct metric_desc){.name = "process_cpu_seconds_total",
                                                      .type = METRIC_COUNTER,
                                                      .unit = "seconds",
                                                      .help = "CPU time."});
    metric_mirror(metric_resolve(family, NULL), 12.25);
    return registry;
}

static void assert_golden(enum metric_format format, const char *name)
{
    struct metric_registry *registry = sample_registry();
    char *expected = golden(name);
    struct metric_buffer out = scrape_all(registry, format);
    assert_string_equal(out.data, expected);
    free(expected);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_text_golden(void **state)
{
    (void)state;
    assert_golden(METRIC_TEXT, "text.txt");
}

static void test_openmetrics_golden(void **state)
{
    (void)state;
    assert_golden(METRIC_OPENMETRICS, "openmetrics.txt");
}

/* Faults of prometheus-client-c, each in a line of the golden file; named here on their own. */
static void test_histogram_has_its_buckets(void **state)
{
    (void)state;
    struct metric_registry *registry = sample_registry();
    assert_true(
        scraped(registry, "handoff_duration_seconds_bucket{target_agent=\"coder\",le=\"1\"}") == 4);
    metric_registry_free(&registry);
}

static void test_a_million_and_one_is_another_bucket(void **state)
{
    (void)state;
    struct metric_registry *registry = sample_registry();
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    assert_true(sample(out.data, "handoff_duration_seconds_bucket{target_agent=\"coder\","
                                 "le=\"1e+06\"}") == 5);
    assert_true(sample(out.data, "handoff_duration_seconds_bucket{target_agent=\"coder\","
                                 "le=\"1.000001e+06\"}") == 6);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_a_label_cannot_be_forged(void **state)
{
    (void)state;
    struct metric_registry *registry = sample_registry();
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    assert_null(strstr(out.data, "b=\"2\""));
    assert_non_null(strstr(out.data, "{target_agent=\"1\\\",b=\\\"2\",outcome="));
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_nan_and_infinity_have_no_sign_or_case_of_their_own(void **state)
{
    (void)state;
    struct metric_registry *registry = sample_registry();
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    assert_null(strstr(out.data, "} nan"));
    assert_null(strstr(out.data, "} -nan"));
    assert_null(strstr(out.data, "} inf"));
    assert_null(strstr(out.data, "-NaN"));
    assert_has_line(out.data, "handoff_load{of=\"minus nan\"} NaN");
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

/* A step of any size gives the same bytes in the end. */
static void test_steps_do_not_change_the_text(void **state)
{
    (void)state;
    struct metric_registry *registry = sample_registry();
    for (int format = METRIC_TEXT; format <= METRIC_PROTOBUF; format++) {
        struct metric_scrape_options options = {.format = (enum metric_format)format};
        struct metric_buffer whole = scrape_steps(registry, &options, SIZE_MAX / 2);
        for (size_t want = 0; want < 200; want += 7) {
            struct metric_buffer parts = scrape_steps(registry, &options, want);
            assert_int_equal(parts.length, whole.length);
            assert_memory_equal(parts.data, whole.data, whole.length);
            metric_buffer_free(&parts);
        }
        metric_buffer_free(&whole);
    }
    metric_registry_free(&registry);
}

/* A reader that empties the buffer after each step gets whole lines and never much at once. */
static void test_steps_can_be_streamed(void **state)
{
    (void)state;
    struct metric_registry *registry = sample_registry();
    struct metric_buffer whole = scrape_all(registry, METRIC_OPENMETRICS);
    struct metric_scrape_options options = {.format = METRIC_OPENMETRICS};
    struct metric_scrape *scrape = metric_scrape_begin(registry, &options);
    struct metric_buffer out = {0};
    size_t at = 0, steps = 0;
    bool more;
    do {
        out.length = 0;
        more = metric_scrape_step(scrape, &out, 100);
        assert_true(out.length >= 100 || !more);
        assert_memory_equal(out.data, whole.data + at, out.length);
        assert_int_equal(out.data[out.length - 1], '\n');
        at += out.length;
        steps++;
    } while (more);
    assert_int_equal(at, whole.length);
    assert_true(steps > 5);
    metric_scrape_end(&scrape);
    metric_buffer_free(&out);
    metric_buffer_free(&whole);
    metric_registry_free(&registry);
}

static void test_filter_by_name(void **state)
{
    (void)state;
    struct metric_registry *registry = sample_registry();
    struct metric_scrape_options options = {
        .format = METRIC_TEXT, .names = VALUES("handoff_hop_depth", "no_such"), .nnames = 2};
    struct metric_buffer out = scrape_steps(registry, &options, 1000);
    assert_string_equal(out.data, "# HELP handoff_hop_depth Hops.\n"
                                  "# TYPE handoff_hop_depth histogram\n"
                                  "handoff_hop_depth_bucket{le=\"1\"} 0\n"
                                  "handoff_hop_depth_bucket{le=\"+Inf\"} 1\n"
                                  "handoff_hop_depth_sum 2\n"
                                  "handoff_hop_depth_count 1\n");
    metric_buffer_free(&out);
    options.nnames = 0;
    out = scrape_steps(registry, &options, 1000);
    assert_int_equal(out.length, 0);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_empty_registry(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 1);
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    assert_string_equal(out.data, "");
    metric_buffer_free(&out);
    out = scrape_all(registry, METRIC_OPENMETRICS);
    assert_string_equal(out.data, "# EOF\n");
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_nan_observation(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 1);
    struct metric_family *family =
        must_register(registry, &(struct metric_desc){.name = "h",
                                                      .type = METRIC_HISTOGRAM,
                                                      .help = "h",
                                                      .bounds = (const double[]){1, 2},
                                                      .nbounds = 2});
    metric_observe(metric_resolve(family, NULL), NAN);
    metric_observe(metric_resolve(family, NULL), 1.5);
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    assert_string_equal(out.data, "# HELP h h\n# TYPE h histogram\n"
                                  "h_bucket{le=\"1\"} 0\n"
                                  "h_bucket{le=\"2\"} 1\n"
                                  "h_bucket{le=\"+Inf\"} 2\n"
                                  "h_sum NaN\n"
                                  "h_count 2\n");
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_created_lines_on_demand(void **state)
{
    (void)state;
    double before = (double)time(NULL);
    struct metric_registry *registry = sample_registry();
    struct metric_scrape_options options = {.format = METRIC_OPENMETRICS, .created = true};
    struct metric_buffer out = scrape_steps(registry, &options, 1000);
    double after = (double)time(NULL) + 2; /* it is cut, and its clock may be a tick behind */
    static const char *const heads[] = {
        "handoff_handoffs_created{target_agent=\"coder\",outcome=\"acknowledged\"}",
        "handoff_duration_seconds_created{target_agent=\"coder\"}", "handoff_hop_depth_created"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        double created = sample(out.data, heads[i]);
        assert_true(created >= before && created <= after);
    }
    assert_null(strstr(out.data, "handoff_load_created"));
    assert_null(strstr(out.data, "process_cpu_seconds_created")); /* mirrored: not known */
    metric_buffer_free(&out);
    options.format = METRIC_TEXT; /* there they would be a family of their own */
    out = scrape_steps(registry, &options, 1000);
    assert_null(strstr(out.data, "_created"));
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_created_line_of_what_is_counted_elsewhere(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_family *family = must_register(
        registry, &(struct metric_desc){.name = "m_total", .type = METRIC_COUNTER, .help = "M"});
    const struct metric_scrape_options options = {.format = METRIC_OPENMETRICS, .created = true};
    metric_mirror_since(metric_resolve(family, NULL), 7, 1700000000.25);
    struct metric_buffer out = scrape_steps(registry, &options, 1000);
    assert_non_null(strstr(out.data, "m_total 7\nm_created 1700000000.25"));
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

/* Builds a locale with a decimal comma where the system has none installed. */
static bool use_comma_locale(char *directory)
{
    static const char *const installed[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    for (size_t i = 0; i < 3; i++) {
        if (setlocale(LC_ALL, installed[i]) && *localeconv()->decimal_point == ',')
            return true;
    }
    char command[512];
    assert_non_null(mkdtemp(directory));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1",
             directory);
    if (system(command) == -1)
        return false;
    setenv("LOCPATH", directory, 1);
    return setlocale(LC_ALL, "de_DE.UTF-8") && *localeconv()->decimal_point == ',';
}

static void test_locale_does_not_matter(void **state)
{
    (void)state;
    char directory[] = "/tmp/metric-locale-XXXXXX";
    bool comma = use_comma_locale(directory);
    if (comma) {
        char text[32];
        snprintf(text, sizeof text, "%.1f", 0.5);
        assert_string_equal(text, "0,5"); /* the locale is really in force */
        assert_golden(METRIC_TEXT, "text.txt");
        assert_golden(METRIC_OPENMETRICS, "openmetrics.txt");
    }
    setlocale(LC_ALL, "C");
    char command[512];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
    if (!comma) {
        print_message("SKIPPED: no locale with a decimal comma, and localedef cannot make one "
                      "(Debian package: locales)\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_golden),
        cmocka_unit_test(test_openmetrics_golden),
        cmocka_unit_test(test_histogram_has_its_buckets),
        cmocka_unit_test(test_a_million_and_one_is_another_bucket),
        cmocka_unit_test(test_a_label_cannot_be_forged),
        cmocka_unit_test(test_nan_and_infinity_have_no_sign_or_case_of_their_own),
        cmocka_unit_test(test_steps_do_not_change_the_text),
        cmocka_unit_test(test_steps_can_be_streamed),
        cmocka_unit_test(test_filter_by_name),
        cmocka_unit_test(test_empty_registry),
        cmocka_unit_test(test_nan_observation),
        cmocka_unit_test(test_created_lines_on_demand),
        cmocka_unit_test(test_created_line_of_what_is_counted_elsewhere),
        cmocka_unit_test(test_locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
