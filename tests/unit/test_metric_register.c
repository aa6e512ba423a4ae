/* SPDX-License-Identifier: Apache-2.0 */
/* Registration: every refusal with its code, and that what was given is copied. */
#include "tests/unit/metric_support.h"

#include <float.h>
#include <math.h>

static enum metric_code try(struct metric_registry *registry, const struct metric_desc *desc,
                            struct metric_error *error)
{
    memset(error, 0x55, sizeof *error);
    struct metric_family *family = metric_register(registry, desc, error);
    assert_int_equal(family == NULL, error->code != METRIC_OK);
    if (family == NULL)
        assert_true(strlen(error->message) > 10);
    return error->code;
}

static void refuse(const struct metric_desc *desc, enum metric_code code)
{
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_error error;
    enum metric_code seen = try(registry, desc, &error);
    if (seen != code)
        fail_msg("%s: code %d, expected %d", desc->name ? desc->name : "NULL", seen, code);
    assert_null(metric_register(registry, desc, NULL)); /* and without an error to fill */
    metric_registry_free(&registry);
}

static void accept_desc(const struct metric_desc *desc)
{
    struct metric_registry *registry = registry_with(1, 10);
    must_register(registry, desc);
    metric_registry_free(&registry);
}

static void refuse_counter(const char *name)
{
    refuse(&(struct metric_desc){.name = name, .type = METRIC_COUNTER, .help = "h"},
           METRIC_ERR_NAME);
}

static void refuse_gauge(const char *name)
{
    refuse(&(struct metric_desc){.name = name, .type = METRIC_GAUGE, .help = "h"}, METRIC_ERR_NAME);
}

static void test_names_are_validated(void **state)
{
    (void)state;
    static const char *const bad[] = {NULL,     "",       "1st",       "with space", "dash-ed",
                                      "col:on", "ümlaut", "new\nline", "quo\"te",    "brace{"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_gauge(bad[i]);
    char longest[257];
    memset(longest, 'a', 256);
    longest[256] = '\0';
    refuse_gauge(longest);
    longest[255] = '\0';
    accept_desc(&(struct metric_desc){.name = longest, .type = METRIC_GAUGE, .help = "h"});
    accept_desc(&(struct metric_desc){.name = "_a_Z9", .type = METRIC_GAUGE, .help = "h"});
}

static void test_suffixes_belong_to_samples(void **state)
{
    (void)state;
    refuse_counter("handoffs");
    refuse_counter("_total");
    refuse_counter("handoffs_totals");
    static const char *const bad[] = {"a_total", "a_bucket", "a_count", "a_sum", "a_created"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_gauge(bad[i]);
    refuse(&(struct metric_desc){.name = "a_count", .type = METRIC_HISTOGRAM, .help = "h"},
           METRIC_ERR_NAME);
    accept_desc(&(struct metric_desc){.name = "a_build_info", .type = METRIC_GAUGE, .help = "h"});
}

static void test_any_name_that_prometheus_allows_where_asked_for(void **state)
{
    (void)state;
    static const char *const good[] = {"requests", "a:b", ":", "a_total", "a_count", "a_created"};
    static const char *const bad[] = {"", "1a", "a-b", "a b", "a{", "\xc3\xa4"};
    struct metric_desc desc = {.type = METRIC_COUNTER, .help = "", .flags = METRIC_ANY_NAME};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        desc.name = good[i];
        desc.type = i % 2 ? METRIC_GAUGE : METRIC_COUNTER;
        accept_desc(&desc);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        desc.name = bad[i];
        refuse(&desc, METRIC_ERR_NAME);
    }
    desc.name = "a";
    desc.help = NULL;
    refuse(&desc, METRIC_ERR_HELP);
    refuse(
        &(struct metric_desc){
            .name = "g", .type = METRIC_GAUGE, .help = "h", .flags = METRIC_FRACTIONS},
        METRIC_ERR_FLAGS);
}

static void test_label_names_are_validated(void **state)
{
    (void)state;
    static const char *const bad[] = {"",         "*",   "1a",       "a b", "a-b", "a:b",
                                      "__name__", "__x", "quantile", "*le", "le",  "ä"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse(
            &(struct metric_desc){
                .name = "g", .type = METRIC_GAUGE, .help = "h", .labels = {"good", bad[i]}},
            METRIC_ERR_NAME);
}

static void test_labels_are_few_and_different(void **state)
{
    (void)state;
    struct metric_desc desc = {
        .name = "g",
        .type = METRIC_GAUGE,
        .help = "h",
        .labels = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"}};
    accept_desc(&desc);
    desc.labels[METRIC_LABELS_MAX] = "q";
    refuse(&desc, METRIC_ERR_LABELS);
    refuse(
        &(struct metric_desc){
            .name = "g", .type = METRIC_GAUGE, .help = "h", .labels = {"a", "*a"}},
        METRIC_ERR_LABELS);
}

static void test_help_is_demanded(void **state)
{
    (void)state;
    refuse(&(struct metric_desc){.name = "g", .type = METRIC_GAUGE}, METRIC_ERR_HELP);
    refuse(&(struct metric_desc){.name = "g", .type = METRIC_GAUGE, .help = ""}, METRIC_ERR_HELP);
}

static void test_unit_is_the_suffix(void **state)
{
    (void)state;
    struct metric_desc desc = {.name = "age_seconds", .type = METRIC_GAUGE, .help = "h"};
    desc.unit = "seconds";
    accept_desc(&desc);
    desc.unit = "bytes";
    refuse(&desc, METRIC_ERR_UNIT);
    desc.unit = "econds"; /* ends the name, but is not a word of it */
    refuse(&desc, METRIC_ERR_UNIT);
    desc.unit = "age_seconds";
    refuse(&desc, METRIC_ERR_UNIT);
    accept_desc(&(struct metric_desc){
        .name = "cpu_seconds_total", .type = METRIC_COUNTER, .unit = "seconds", .help = "h"});
    refuse(
        &(struct metric_desc){
            .name = "cpu_seconds_total", .type = METRIC_COUNTER, .unit = "total", .help = "h"},
        METRIC_ERR_UNIT);
}

static enum metric_code code_of_bounds(const double *bounds, size_t n, enum metric_type type)
{
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_error error;
    enum metric_code code =
        try(registry,
            &(struct metric_desc){
                .name = "h", .type = type, .help = "h", .bounds = bounds, .nbounds = n},
            &error);
    metric_registry_free(&registry);
    return code;
}

static void test_bounds_are_finite_and_ascend(void **state)
{
    (void)state;
    static const double nan_inside[] = {1, NAN, 3}, infinite[] = {1, INFINITY};
    static const double minus_infinite[] = {-INFINITY, 1}, falling[] = {2, 1}, twice[] = {1, 1};
    static const double zeros[] = {-0.0, 0.0}, good[] = {-DBL_MAX, -1, 0, DBL_MIN / 2, DBL_MAX};
    assert_int_equal(code_of_bounds(nan_inside, 3, METRIC_HISTOGRAM), METRIC_ERR_BOUNDS);
    assert_int_equal(code_of_bounds(infinite, 2, METRIC_HISTOGRAM), METRIC_ERR_BOUNDS);
    assert_int_equal(code_of_bounds(minus_infinite, 2, METRIC_HISTOGRAM), METRIC_ERR_BOUNDS);
    assert_int_equal(code_of_bounds(falling, 2, METRIC_HISTOGRAM), METRIC_ERR_BOUNDS);
    assert_int_equal(code_of_bounds(twice, 2, METRIC_HISTOGRAM), METRIC_ERR_BOUNDS);
    assert_int_equal(code_of_bounds(zeros, 2, METRIC_HISTOGRAM), METRIC_ERR_BOUNDS);
    assert_int_equal(code_of_bounds(good, 5, METRIC_GAUGE), METRIC_ERR_BOUNDS);
    assert_int_equal(code_of_bounds(good, 5, METRIC_HISTOGRAM), METRIC_OK);
    assert_int_equal(code_of_bounds(NULL, 0, METRIC_HISTOGRAM), METRIC_OK);
    double many[METRIC_BOUNDS_MAX + 1];
    for (int i = 0; i <= METRIC_BOUNDS_MAX; i++)
        many[i] = i;
    assert_int_equal(code_of_bounds(many, METRIC_BOUNDS_MAX, METRIC_HISTOGRAM), METRIC_OK);
    assert_int_equal(code_of_bounds(many, METRIC_BOUNDS_MAX + 1, METRIC_HISTOGRAM),
                     METRIC_ERR_BOUNDS);
}

static void test_native_range_is_validated(void **state)
{
    (void)state;
    static const struct metric_native bad[] = {
        {9, -1, 1},   {-5, -32, 32}, {3, 2, 2},   {3, 2, 1},   {0, -1023, 1},
        {0, 1, 1024}, {-2, -8, 6},   {-2, -6, 8}, {8, -64, 1}, {1, 0, 0}};
    struct metric_desc desc = {.name = "h", .type = METRIC_HISTOGRAM, .help = "h"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        desc.native = bad[i];
        refuse(&desc, METRIC_ERR_NATIVE);
    }
    static const struct metric_native good[] = {
        {8, -32, 32}, {-4, -16, 16}, {3, -20, 10}, {0, -1022, 1023}, {0, 0, 1}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        desc.native = good[i];
        accept_desc(&desc);
    }
    desc.type = METRIC_GAUGE;
    refuse(&desc, METRIC_ERR_NATIVE);
}

static void test_gauges_have_no_exemplars(void **state)
{
    (void)state;
    refuse(
        &(struct metric_desc){
            .name = "g", .type = METRIC_GAUGE, .help = "h", .flags = METRIC_EXEMPLARS},
        METRIC_ERR_FLAGS);
}

static enum metric_code second_code(const char *first, enum metric_type first_type,
                                    const char *second, enum metric_type second_type)
{
    struct metric_registry *registry = registry_with(1, 10);
    must_register(registry, &(struct metric_desc){.name = first, .type = first_type, .help = "h"});
    struct metric_error error;
    enum metric_code code = try(
        registry, &(struct metric_desc){.name = second, .type = second_type, .help = "h"}, &error);
    if (code != METRIC_OK)
        assert_string_equal(error.subject, second);
    metric_registry_free(&registry);
    return code;
}

static void assert_clash(const char *a, enum metric_type a_type, const char *b,
                         enum metric_type b_type, enum metric_code code)
{
    assert_int_equal(second_code(a, a_type, b, b_type), code);
    assert_int_equal(second_code(b, b_type, a, a_type), code);
}

static void test_duplicates_and_clashing_samples(void **state)
{
    (void)state;
    assert_clash("x", METRIC_GAUGE, "x", METRIC_GAUGE, METRIC_ERR_DUPLICATE);
    assert_clash("x", METRIC_GAUGE, "x", METRIC_HISTOGRAM, METRIC_ERR_DUPLICATE);
    assert_clash("x_total", METRIC_COUNTER, "x", METRIC_GAUGE, METRIC_ERR_DUPLICATE);
    assert_clash("x_total", METRIC_COUNTER, "x", METRIC_HISTOGRAM, METRIC_ERR_DUPLICATE);
    assert_clash("x", METRIC_HISTOGRAM, "x_bucket_total", METRIC_COUNTER, METRIC_ERR_DUPLICATE);
    assert_clash("x", METRIC_HISTOGRAM, "x_count_total", METRIC_COUNTER, METRIC_ERR_DUPLICATE);
    assert_clash("x", METRIC_HISTOGRAM, "x_sum_total", METRIC_COUNTER, METRIC_ERR_DUPLICATE);
    assert_clash("x", METRIC_HISTOGRAM, "x_created_total", METRIC_COUNTER, METRIC_ERR_DUPLICATE);
    assert_clash("x_total", METRIC_COUNTER, "x_created_total", METRIC_COUNTER,
                 METRIC_ERR_DUPLICATE);
    assert_clash("x_total", METRIC_COUNTER, "x_total_total", METRIC_COUNTER, METRIC_ERR_DUPLICATE);
    assert_clash("x", METRIC_GAUGE, "x_bucket_total", METRIC_COUNTER, METRIC_OK);
    assert_clash("x_total", METRIC_COUNTER, "x_count_total", METRIC_COUNTER, METRIC_OK);
    assert_clash("x", METRIC_GAUGE, "x_info", METRIC_GAUGE, METRIC_OK);
    assert_clash("x", METRIC_GAUGE, "xy", METRIC_GAUGE, METRIC_OK);
}

static void test_error_subject_is_cut(void **state)
{
    (void)state;
    char name[200];
    memset(name, '-', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_error error;
    try(registry, &(struct metric_desc){.name = name, .type = METRIC_GAUGE, .help = "h"}, &error);
    assert_int_equal(strlen(error.subject), sizeof error.subject - 1);
    metric_registry_free(&registry);
}

/* A fault of prometheus-client-c: it kept the caller's pointers. */
static void test_strings_and_bounds_are_copied(void **state)
{
    (void)state;
    char name[] = "age_seconds", help[] = "Age.", label[] = "who", unit[] = "seconds";
    char value[] = "me";
    double bounds[] = {1, 2};
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_family *family =
        must_register(registry, &(struct metric_desc){.name = name,
                                                      .type = METRIC_HISTOGRAM,
                                                      .unit = unit,
                                                      .help = help,
                                                      .labels = {label},
                                                      .bounds = bounds,
                                                      .nbounds = 2});
    struct metric_series *series = metric_resolve(family, VALUES(value));
    memset(name, 'x', strlen(name));
    memset(help, 'x', strlen(help));
    memset(label, 'x', strlen(label));
    memset(unit, 'x', strlen(unit));
    memset(value, 'x', strlen(value));
    bounds[0] = bounds[1] = 7;
    metric_observe(series, 1.5);
    struct metric_buffer out = scrape_all(registry, METRIC_OPENMETRICS);
    assert_string_equal(out.data, "# TYPE age_seconds histogram\n"
                                  "# UNIT age_seconds seconds\n"
                                  "# HELP age_seconds Age.\n"
                                  "age_seconds_bucket{who=\"me\",le=\"1.0\"} 0\n"
                                  "age_seconds_bucket{who=\"me\",le=\"2.0\"} 1\n"
                                  "age_seconds_bucket{who=\"me\",le=\"+Inf\"} 1\n"
                                  "age_seconds_count{who=\"me\"} 1\n"
                                  "age_seconds_sum{who=\"me\"} 1.5\n"
                                  "# EOF\n");
    metric_buffer_free(&out);
    metric_registry_free(&registry);
    metric_registry_free(&registry); /* NULL is taken */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_validated),
        cmocka_unit_test(test_suffixes_belong_to_samples),
        cmocka_unit_test(test_any_name_that_prometheus_allows_where_asked_for),
        cmocka_unit_test(test_label_names_are_validated),
        cmocka_unit_test(test_labels_are_few_and_different),
        cmocka_unit_test(test_help_is_demanded),
        cmocka_unit_test(test_unit_is_the_suffix),
        cmocka_unit_test(test_bounds_are_finite_and_ascend),
        cmocka_unit_test(test_native_range_is_validated),
        cmocka_unit_test(test_gauges_have_no_exemplars),
        cmocka_unit_test(test_duplicates_and_clashing_samples),
        cmocka_unit_test(test_error_subject_is_cut),
        cmocka_unit_test(test_strings_and_bounds_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
