/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prom.h from inside the project: what each function promises, and each fault of
 * prometheus-client-c. tests/scenario/test_prom.py does the same with programs that know the
 * installed library alone.
 */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/metrics/metric.h"
#include "lib/prom/prom.h"
#include "tests/support/unit.h"

#define LABELS(...) ((const char *[]){__VA_ARGS__})

/* ---- what is shown -------------------------------------------------------------------------- */

static char *bridge(prom_collector_registry_t *registry)
{
    const char *text = prom_collector_registry_bridge(registry);
    assert_non_null(text);
    return (char *)text;
}

static bool shows_in(prom_collector_registry_t *registry, const char *line)
{
    char *text = bridge(registry), *found = strstr(text, line);
    const bool shown = found && (found == text || found[-1] == '\n') && found[strlen(line)] == '\n';
    free(text);
    return shown;
}

static bool shows(const char *line)
{
    return shows_in(PROM_COLLECTOR_REGISTRY_DEFAULT, line);
}

static char *scrape_as(enum metric_format format)
{
    const struct metric_scrape_options options = {.format = format};
    prom_scrape_t *scrape = prom_scrape_begin(PROM_COLLECTOR_REGISTRY_DEFAULT, &options);
    struct metric_buffer out = {0};
    assert_non_null(scrape);
    while (metric_scrape_step(prom_scrape_reading(scrape), &out, 1)) {
    }
    prom_scrape_end(&scrape);
    assert_null(scrape);
    char *text = calloc(1, out.length + 1);
    assert_non_null(text);
    memcpy(text, out.data, out.length);
    metric_buffer_free(&out);
    return text;
}

static int begin(void **state)
{
    (void)state;
    return prom_collector_registry_default_init();
}

static int end(void **state)
{
    (void)state;
    prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
    return PROM_COLLECTOR_REGISTRY_DEFAULT != NULL;
}

static prom_counter_t *counter_of(const char *name, size_t count, const char **keys)
{
    prom_counter_t *counter =
        prom_collector_registry_must_register_metric(prom_counter_new(name, "Help.", count, keys));
    if (!counter)
        fail_msg("%s: %s", name, prom_last_error());
    return counter;
}

/* ---- counters and gauges -------------------------------------------------------------------- */

static void test_counters(void **state)
{
    (void)state;
    prom_counter_t *plain = counter_of("plain_total", 0, NULL);
    assert_true(shows("plain_total 0"));
    assert_int_equal(prom_counter_inc(plain, NULL), 0);
    assert_int_equal(prom_counter_add(plain, 2, NULL), 0);
    assert_true(shows("plain_total 3"));
    prom_counter_t *labelled = counter_of("traffic_bytes", 1, LABELS("realm", NULL));
    assert_false(shows("traffic_bytes{realm=\"a\"} 0"));
    assert_int_equal(prom_counter_add(labelled, 0, LABELS("a", NULL)), 0);
    assert_true(shows("traffic_bytes{realm=\"a\"} 0"));
    assert_int_equal(prom_counter_add(labelled, 0.25, LABELS("a")), 0);
    assert_int_equal(prom_counter_add(labelled, 9007199254740992.0, LABELS("b")), 0);
    assert_int_equal(prom_counter_add(labelled, 1e300, LABELS("c")), 0);
    assert_true(shows("traffic_bytes{realm=\"a\"} 0.25"));
    assert_true(shows("traffic_bytes{realm=\"b\"} 9007199254740992"));
    assert_true(shows("traffic_bytes{realm=\"c\"} 1e+300"));
}

static void test_a_counter_never_goes_down(void **state)
{
    static const double refused[] = {-1, -DBL_MIN, -INFINITY, INFINITY, NAN};
    (void)state;
    prom_counter_t *counter = counter_of("x_total", 1, LABELS("a"));
    prom_metric_sample_t *sample = prom_metric_sample_from_labels(counter, LABELS("1"));
    assert_int_equal(prom_metric_sample_add(sample, 1), 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_not_equal(prom_counter_add(counter, refused[i], LABELS("1")), 0);
        assert_int_not_equal(prom_counter_add(counter, refused[i], LABELS("new")), 0);
        assert_int_not_equal(prom_metric_sample_add(sample, refused[i]), 0);
    }
    assert_string_equal(prom_last_error(),
                        "a counter takes only finite values that are not negative");
    assert_int_not_equal(prom_metric_sample_sub(sample, 1), 0);
    assert_int_not_equal(prom_metric_sample_set(sample, 1), 0);
    assert_true(shows("x_total{a=\"1\"} 1"));
    assert_false(shows("x_total{a=\"new\"} 0")); /* what was refused made no series */
}

static void test_a_counter_that_is_counted_elsewhere(void **state)
{
    (void)state;
    prom_counter_t *counter = counter_of("received_bytes_total", 1, LABELS("device"));
    prom_metric_t *plain = counter_of("plain_total", 0, NULL);
    assert_int_equal(prom_counter_set(counter, 1000.5, LABELS("eth0")), 0);
    assert_int_equal(prom_counter_set(counter, 7, LABELS("eth1")), 0);
    assert_int_equal(prom_counter_set(counter, 6, LABELS("eth1")), 0); /* it was restarted */
    assert_true(shows("received_bytes_total{device=\"eth0\"} 1000.5"));
    assert_true(shows("received_bytes_total{device=\"eth1\"} 6"));
    assert_int_not_equal(prom_counter_set(counter, -1, LABELS("eth0")), 0);
    assert_int_not_equal(prom_counter_set(counter, NAN, LABELS("eth0")), 0);
    assert_int_equal(prom_counter_clear(counter), 0);
    assert_int_equal(prom_counter_set(counter, 1001, LABELS("eth0")), 0);
    assert_true(shows("received_bytes_total{device=\"eth0\"} 1001"));
    assert_false(shows("received_bytes_total{device=\"eth1\"} 6"));
    assert_int_equal(prom_counter_set(plain, 3, NULL), 0);
    assert_int_equal(prom_counter_clear(plain), 0);
    assert_true(shows("plain_total 3"));
    assert_int_not_equal(prom_gauge_clear(plain), 0);
    assert_int_not_equal(prom_counter_clear(NULL), 0);
}

/* The time of a line of OpenMetrics 2.0; 0: there is none. */
static double start_of(const char *series)
{
    char *text = scrape_as(METRIC_OPENMETRICS_2);
    const char *line = strstr(text, series);
    assert_non_null(line);
    const char *start = strstr(line, " st@");
    const double at = start && start < strchr(line + 1, '\n') ? strtod(start + 4, NULL) : 0;
    free(text);
    return at;
}

static void test_the_start_of_a_counter(void **state)
{
    (void)state;
    prom_counter_t *counter = counter_of("received_bytes_total", 1, LABELS("device"));
    assert_int_equal(prom_counter_add(counter, 1, LABELS("counted")), 0);
    assert_int_equal(prom_counter_set(counter, 1, LABELS("set")), 0);
    assert_int_equal(prom_counter_set_since(counter, 2, 1700000000, LABELS("known")), 0);
    assert_true(fabs(start_of("{device=\"counted\"}") - (double)time(NULL)) < 60);
    assert_true(start_of("{device=\"set\"}") == 0);
    assert_true(start_of("{device=\"known\"}") == 1700000000);
    assert_true(shows("received_bytes_total{device=\"known\"} 2"));
    assert_int_not_equal(prom_counter_set_since(counter, -1, 1700000000, LABELS("new")), 0);
    assert_int_not_equal(prom_counter_set_since(NULL, 1, 1700000000, NULL), 0);
    assert_int_equal(prom_counter_set_since(counter, 3, NAN, LABELS("known")), 0);
    assert_true(start_of("{device=\"known\"}") == 0);
}

static void test_clearing_gauges_and_counts(void **state)
{
    (void)state;
    prom_counter_t *counter = counter_of("x_total", 1, LABELS("a"));
    prom_gauge_t *gauge =
        prom_collector_registry_must_register_metric(prom_gauge_new("g", "Help.", 1, LABELS("a")));
    prom_metric_sample_t *sample = prom_metric_sample_from_labels(gauge, LABELS("1"));
    prom_counter_inc(counter, LABELS("1"));
    prom_metric_sample_set(sample, 5);
    assert_int_equal(prom_counter_clear(counter), 0);
    assert_int_equal(prom_gauge_clear(gauge), 0);
    assert_false(shows("x_total{a=\"1\"} 1"));
    assert_false(shows("g{a=\"1\"} 5"));
    assert_int_equal(prom_metric_sample_add(sample, 2), 0); /* into what is not shown */
    assert_int_equal(prom_gauge_clear(gauge), 0);
    assert_int_equal(prom_gauge_inc(gauge, LABELS("1")), 0);
    assert_int_equal(prom_counter_inc(counter, LABELS("1")), 0);
    assert_true(shows("g{a=\"1\"} 1"));
    assert_true(shows("x_total{a=\"1\"} 2"));
}

static void test_gauges(void **state)
{
    (void)state;
    prom_gauge_t *gauge =
        prom_collector_registry_must_register_metric(prom_gauge_new("g", "Help.", 1, LABELS("a")));
    assert_int_equal(prom_gauge_set(gauge, 1.5, LABELS("1")), 0);
    assert_int_equal(prom_gauge_inc(gauge, LABELS("1")), 0);
    assert_int_equal(prom_gauge_dec(gauge, LABELS("1")), 0);
    assert_int_equal(prom_gauge_add(gauge, 2, LABELS("1")), 0);
    assert_int_equal(prom_gauge_sub(gauge, 4.25, LABELS("1")), 0);
    assert_true(shows("g{a=\"1\"} -0.75"));
    prom_metric_sample_t *sample = prom_metric_sample_from_labels(gauge, LABELS("1"));
    assert_int_equal(prom_metric_sample_set(sample, 5), 0);
    assert_int_equal(prom_metric_sample_add(sample, 0.5), 0);
    assert_int_equal(prom_metric_sample_sub(sample, 1), 0);
    assert_true(shows("g{a=\"1\"} 4.5"));
    prom_gauge_set(gauge, NAN, LABELS("nan"));
    prom_gauge_set(gauge, -NAN, LABELS("-nan"));
    prom_gauge_set(gauge, INFINITY, LABELS("inf"));
    prom_gauge_set(gauge, -INFINITY, LABELS("-inf"));
    assert_true(shows("g{a=\"nan\"} NaN"));
    assert_true(shows("g{a=\"-nan\"} NaN"));
    assert_true(shows("g{a=\"inf\"} +Inf"));
    assert_true(shows("g{a=\"-inf\"} -Inf"));
}

/* ---- histograms ----------------------------------------------------------------------------- */

static void test_histograms_have_their_buckets(void **state)
{
    (void)state;
    prom_histogram_t *histogram = prom_collector_registry_must_register_metric(prom_histogram_new(
        "h", "Help.", prom_histogram_buckets_new(3, 1.0, 1000000.0, 1000001.0), 1, LABELS("a")));
    assert_non_null(histogram);
    static const double values[] = {1, 1000000, 1000001, 1000001.5, INFINITY};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(prom_histogram_observe(histogram, values[i], LABELS("1")), 0);
    assert_true(shows("h_bucket{a=\"1\",le=\"1\"} 1"));
    assert_true(shows("h_bucket{a=\"1\",le=\"1e+06\"} 2"));
    assert_true(shows("h_bucket{a=\"1\",le=\"1.000001e+06\"} 3"));
    assert_true(shows("h_bucket{a=\"1\",le=\"+Inf\"} 4"));
    assert_true(shows("h_count{a=\"1\"} 4"));
    assert_true(shows("h_sum{a=\"1\"} 3.0000035e+06"));
    prom_metric_sample_histogram_t *sample =
        prom_metric_sample_histogram_from_labels(histogram, LABELS("1"));
    assert_int_equal(prom_metric_sample_histogram_observe(sample, 0.5), 0);
    assert_true(shows("h_bucket{a=\"1\",le=\"1\"} 2"));
    assert_null(prom_metric_sample_from_labels(histogram, LABELS("1")));
    char *text = scrape_as(METRIC_OPENMETRICS_2);
    assert_non_null(strstr(text, "schema:")); /* and a native side, from the bounds */
    free(text);
}

static void test_buckets(void **state)
{
    (void)state;
    prom_histogram_buckets_t *linear = prom_histogram_buckets_linear(0, 0.5, 3);
    prom_histogram_buckets_t *exponential = prom_histogram_buckets_exponential(1, 10, 7);
    assert_int_equal(prom_histogram_buckets_count(linear), 3);
    assert_true(linear->upper_bounds[0] == 0 && linear->upper_bounds[2] == 1);
    assert_true(exponential->upper_bounds[6] == 1000000 && exponential->count == 7);
    assert_int_equal(prom_histogram_buckets_destroy(linear), 0);
    assert_int_equal(prom_histogram_buckets_destroy(exponential), 0);
    assert_int_equal(prom_histogram_buckets_destroy(NULL), 0);
    assert_null(prom_histogram_buckets_new(0, 1.0));
    assert_null(prom_histogram_buckets_linear(0, 0, 3));
    assert_null(prom_histogram_buckets_linear(0, NAN, 3));
    assert_null(prom_histogram_buckets_exponential(0, 2, 3));
    assert_null(prom_histogram_buckets_exponential(1, 1, 3));
    assert_null(prom_histogram_buckets_linear(0, 1, 0));
    assert_int_equal(prom_histogram_buckets_count(prom_histogram_default_buckets), 11);
    assert_int_not_equal(prom_histogram_buckets_destroy(prom_histogram_default_buckets), 0);
}

/* One may fill the struct itself; two histograms may have the same buckets. */
static void test_who_owns_buckets(void **state)
{
    (void)state;
    prom_histogram_buckets_t *buckets = prom_malloc(sizeof *buckets);
    double *bounds = prom_malloc(4 * sizeof *bounds);
    memcpy(bounds, (double[]){1, 1, 2, INFINITY}, 4 * sizeof *bounds);
    *buckets = (prom_histogram_buckets_t){.count = 4, .upper_bounds = bounds};
    prom_histogram_t *one = prom_histogram_new("one", "Help.", buckets, 0, NULL);
    prom_histogram_t *two = prom_histogram_new("two", "Help.", buckets, 0, NULL);
    assert_int_not_equal(prom_histogram_buckets_destroy(buckets), 0);
    assert_int_equal(prom_collector_registry_register_metric(one), 0);
    assert_true(shows("one_bucket{le=\"2\"} 0"));
    char *text = bridge(PROM_COLLECTOR_REGISTRY_DEFAULT);
    assert_null(strstr(strstr(text, "le=\"1\"") + 1, "le=\"1\"")); /* once, though named twice */
    free(text);
    assert_int_equal(prom_histogram_destroy(two), 0);
    assert_int_equal(prom_histogram_destroy(one), 0); /* and the buckets with it */

    prom_histogram_buckets_t *falling = prom_histogram_buckets_new(2, 2.0, 1.0);
    assert_null(prom_histogram_new("falling", "Help.", falling, 0, NULL));
    assert_int_equal(prom_histogram_buckets_destroy(falling), 0); /* ours still */
    prom_histogram_buckets_t *many = prom_histogram_buckets_linear(0, 1, METRIC_BOUNDS_MAX + 1);
    assert_null(prom_histogram_new("many", "Help.", many, 0, NULL));
    assert_string_equal(prom_last_error(), "a histogram may have at most 128 buckets");
    assert_int_equal(prom_histogram_buckets_destroy(many), 0);
}

static prom_histogram_t *histogram_of(int count, const double bounds[3])
{
    prom_histogram_buckets_t *buckets = prom_malloc(sizeof *buckets);
    double *copy = prom_malloc(3 * sizeof *copy);
    memcpy(copy, bounds, 3 * sizeof *copy);
    *buckets = (prom_histogram_buckets_t){.count = count, .upper_bounds = copy};
    prom_histogram_t *histogram = prom_histogram_new("h", "Help.", buckets, 0, NULL);
    if (!histogram)
        assert_int_equal(prom_histogram_buckets_destroy(buckets), 0); /* ours still */
    return histogram;
}

static void test_bounds_that_are_none(void **state)
{
    static const double refused[][3] = {{NAN, 1, 2},       {1, NAN, 2},      {1, 2, NAN},
                                        {-INFINITY, 1, 2}, {1, INFINITY, 2}, {3, 1, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_null(histogram_of(3, refused[i]));
    assert_null(histogram_of(-1, refused[0]));
    prom_histogram_buckets_t *empty = prom_malloc(sizeof *empty);
    *empty = (prom_histogram_buckets_t){.count = 1};
    assert_null(prom_histogram_new("h", "Help.", empty, 0, NULL));
    assert_string_equal(prom_last_error(), "the buckets have no bounds");
    assert_int_equal(prom_histogram_buckets_destroy(empty), 0);
    prom_histogram_t *zero = histogram_of(3, (double[]){-0.0, 0.0, 1});
    assert_int_equal(prom_collector_registry_register_metric(zero), 0);
    assert_true(shows("h_bucket{le=\"0\"} 0"));
}

/* Prometheus prefers the native side, in which all negative values are about 0. */
static void test_negative_bounds_have_no_native_side(void **state)
{
    (void)state;
    prom_histogram_t *histogram = prom_collector_registry_must_register_metric(
        prom_histogram_new("h", "Help.", prom_histogram_buckets_new(3, -10.0, 0.0, 10.0), 0, NULL));
    assert_int_equal(prom_histogram_observe(histogram, -15, NULL), 0);
    char *text = scrape_as(METRIC_OPENMETRICS_2);
    assert_non_null(strstr(text, "bucket:[-10.0:1,0.0:1,10.0:1,+Inf:1]"));
    assert_null(strstr(text, "schema:"));
    free(text);
}

/* As in prometheus-client-c, where it is NULL until it is needed. */
static void test_default_buckets_that_a_program_took_away(void **state)
{
    (void)state;
    prom_histogram_buckets_t *ours = prom_histogram_default_buckets;
    prom_histogram_default_buckets = NULL;
    prom_histogram_t *histogram = prom_histogram_new("h", "Help.", NULL, 0, NULL);
    prom_histogram_default_buckets = ours;
    assert_int_equal(prom_collector_registry_register_metric(histogram), 0);
    assert_true(shows("h_bucket{le=\"0.005\"} 0"));
}

static void test_native_side_of_any_bounds(void **state)
{
    static const double all[][3] = {
        {1e-300, 1, 1e300}, {DBL_MIN / 4, DBL_MIN, 1}, {-3, -2, -1},
        {-1, 0, 1},         {1e300, 1e305, DBL_MAX},   {0.001, 1e10, 1e20}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        prom_histogram_t *histogram = prom_histogram_new(
            "h", "Help.", prom_histogram_buckets_new(3, all[i][0], all[i][1], all[i][2]), 0, NULL);
        if (!histogram)
            fail_msg("bounds %zu: %s", i, prom_last_error());
        for (size_t j = 0; j < 3; j++)
            assert_int_equal(prom_histogram_observe(histogram, all[i][j], NULL), 0);
        assert_int_equal(prom_histogram_destroy(histogram), 0);
    }
}

/* ---- names, labels, texts ------------------------------------------------------------------- */

static void test_names_are_validated(void **state)
{
    static const char *const bad[] = {"", "1a", "a-b", "a b", "a\n", "a{b=\"c\"}", "\xc3\xa4"};
    static const char *const bad_labels[] = {"",   "1a", "a-b",      "a:b", "__name__",
                                             "le", "*a", "quantile", "a\"", NULL};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(prom_counter_new(bad[i], "Help.", 0, NULL));
        assert_int_not_equal(prom_collector_registry_validate_metric_name(NULL, bad[i]), 0);
    }
    assert_int_equal(prom_collector_registry_validate_metric_name(NULL, "a:b_total"), 0);
    for (size_t i = 0; i < sizeof bad_labels / sizeof *bad_labels; i++)
        assert_null(prom_gauge_new("g", "Help.", 1, LABELS(bad_labels[i])));
    assert_null(prom_gauge_new("g", "Help.", 2, LABELS("a", "a")));
    assert_null(prom_gauge_new("g", "Help.", 1, NULL));
    assert_null(prom_gauge_new("g", NULL, 0, NULL));
    assert_null(prom_gauge_new(NULL, "Help.", 0, NULL));
    assert_null(prom_collector_registry_must_register_metric(NULL));
    const char *keys[17] = {0};
    assert_null(prom_gauge_new("g", "Help.", 17, keys));
    assert_string_equal(prom_last_error(), "g has 17 labels; at most 16 are allowed");
    char name[300];
    memset(name, 'a', sizeof name);
    name[1] = '\n';
    name[sizeof name - 1] = '\0';
    assert_null(prom_gauge_new(name, "Help.", 0, NULL)); /* the reason is there, in one line */
    assert_non_null(strstr(prom_last_error(), "must not begin with a digit"));
    assert_null(strchr(prom_last_error(), '\n'));
}

static void test_texts_are_escaped(void **state)
{
    (void)state;
    prom_counter_t *counter = prom_collector_registry_must_register_metric(
        prom_counter_new("x_total", "A \\ and\na line.", 1, LABELS("a")));
    assert_int_equal(prom_counter_inc(counter, LABELS("1\",b=\"2")), 0);
    assert_int_equal(prom_counter_inc(counter, LABELS("worker[0]\\\n")), 0);
    assert_int_equal(prom_counter_inc(counter, LABELS("bad \xff")), 0);
    assert_true(shows("# HELP x_total A \\\\ and\\na line."));
    assert_true(shows("x_total{a=\"1\\\",b=\\\"2\"} 1"));
    assert_true(shows("x_total{a=\"worker[0]\\\\\\n\"} 1"));
    assert_true(shows("x_total{a=\"bad \xef\xbf\xbd\"} 1"));
}

static void test_texts_are_copied(void **state)
{
    (void)state;
    char name[] = "x_total", help[] = "Help.", key[] = "a", value[] = "1";
    prom_counter_t *counter =
        prom_collector_registry_must_register_metric(prom_counter_new(name, help, 1, LABELS(key)));
    prom_counter_inc(counter, LABELS(value));
    name[0] = help[0] = key[0] = value[0] = '?';
    assert_true(shows("# HELP x_total Help."));
    assert_true(shows("x_total{a=\"1\"} 1"));
}

static void test_numbers_are_the_same_in_every_locale(void **state)
{
    (void)state;
    const bool other = setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL; /* where it is installed */
    prom_gauge_t *gauge =
        prom_collector_registry_must_register_metric(prom_gauge_new("g", "Help.", 0, NULL));
    prom_gauge_set(gauge, 1234.5, NULL);
    assert_true(shows("g 1234.5"));
    if (other)
        setlocale(LC_NUMERIC, "C");
}

static void test_null_and_the_wrong_kind_are_refused(void **state)
{
    (void)state;
    prom_counter_t *counter = counter_of("x_total", 1, LABELS("a"));
    assert_int_not_equal(prom_counter_inc(NULL, NULL), 0);
    assert_int_not_equal(prom_counter_inc(counter, NULL), 0);
    assert_int_not_equal(prom_counter_inc(counter, LABELS(NULL)), 0);
    assert_int_not_equal(prom_gauge_set(counter, 1, LABELS("1")), 0);
    assert_int_not_equal(prom_histogram_observe(counter, 1, LABELS("1")), 0);
    assert_null(prom_metric_sample_histogram_from_labels(counter, LABELS("1")));
    assert_null(prom_metric_sample_from_labels(NULL, NULL));
    assert_int_not_equal(prom_metric_sample_add(NULL, 1), 0);
    assert_int_not_equal(prom_metric_sample_histogram_observe(NULL, 1), 0);
    assert_int_equal(prom_counter_destroy(NULL), 0);
    assert_int_equal(prom_collector_destroy(NULL), 0);
    assert_int_equal(prom_collector_registry_destroy(NULL), 0);
    assert_int_not_equal(prom_collector_add_metric(NULL, counter), 0);
    assert_int_not_equal(prom_collector_registry_register_collector(NULL, NULL), 0);
    assert_null(prom_collector_registry_bridge(NULL));
    assert_null(prom_collector_new(NULL));
    assert_null(prom_collector_registry_new(NULL));
    assert_false(shows("x_total{a=\"1\"} 0"));
}

/* ---- names in OpenMetrics 1.0 --------------------------------------------------------------- */

static void test_a_counter_has_one_name_in_every_format(void **state)
{
    (void)state;
    counter_of("requests", 0, NULL);
    counter_of("errors_total", 0, NULL);
    char *text = scrape_as(METRIC_OPENMETRICS);
    assert_non_null(strstr(text, "# TYPE requests unknown\n# HELP requests Help.\nrequests 0\n"));
    assert_non_null(strstr(text, "# TYPE errors counter\n# HELP errors Help.\nerrors_total 0\n"));
    free(text);
    assert_true(shows("# TYPE requests counter"));
}

/* ---- who owns what -------------------------------------------------------------------------- */

static void test_clashing_names_are_refused(void **state)
{
    (void)state;
    counter_of("x_total", 0, NULL);
    prom_metric_t *again = prom_counter_new("x_total", "Help.", 0, NULL);
    assert_int_not_equal(prom_collector_registry_register_metric(again), 0);
    assert_string_equal(prom_last_error(),
                        "x_total: its name is used by x_total, or by one of its samples");
    assert_null(prom_collector_registry_must_register_metric(again));
    prom_collector_t *collector = prom_collector_new("c");
    assert_int_equal(prom_collector_add_metric(collector, again), 0);
    assert_int_not_equal(
        prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, collector), 0);
    assert_int_equal(prom_collector_remove_metric(collector, again), 0);
    assert_int_equal(
        prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, collector), 0);
    again = prom_counter_new("x_total", "Help.", 0, NULL);
    assert_int_not_equal(prom_collector_add_metric(collector, again), 0); /* in the registry */
    assert_int_equal(prom_counter_destroy(again), 0);
    prom_collector_t *same_name = prom_collector_new("c");
    assert_int_not_equal(
        prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, same_name), 0);
    assert_int_equal(prom_collector_destroy(same_name), 0);
}

static void test_registering_again_is_harmless(void **state)
{
    (void)state;
    assert_int_equal(prom_collector_registry_default_init(), 0);
    assert_int_equal(
        prom_collector_registry_enable_process_metrics(PROM_COLLECTOR_REGISTRY_DEFAULT), 0);
    prom_counter_t *counter = counter_of("x_total", 0, NULL);
    assert_ptr_equal(prom_collector_registry_must_register_metric(counter), counter);
    char *text = bridge(PROM_COLLECTOR_REGISTRY_DEFAULT);
    assert_null(strstr(strstr(text, "\nx_total 0\n") + 1, "\nx_total 0\n"));
    free(text);
}

static void test_one_collector_in_several_registries(void **state)
{
    (void)state;
    prom_collector_registry_t *one = prom_collector_registry_new("one");
    prom_collector_registry_t *two = prom_collector_registry_new("two");
    prom_collector_t *collector = prom_collector_new("shared");
    prom_gauge_t *gauge = prom_gauge_new("g", "Help.", 0, NULL);
    assert_int_equal(prom_collector_add_metric(collector, gauge), 0);
    assert_int_equal(prom_collector_registry_register_collector(one, collector), 0);
    assert_int_equal(prom_collector_registry_register_collector(two, collector), 0);
    assert_int_equal(
        prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, collector), 0);
    prom_gauge_set(gauge, 7, NULL);
    assert_true(shows_in(one, "g 7") && shows_in(two, "g 7") && shows("g 7"));
    assert_int_equal(prom_collector_registry_destroy(one), 0);
    assert_true(shows_in(two, "g 7"));
    assert_int_equal(prom_collector_registry_unregister_collector(two, collector), 0);
    assert_false(shows_in(two, "g 7"));
    assert_true(shows("g 7"));
    assert_int_not_equal(prom_collector_registry_unregister_collector(two, collector), 0);
    assert_int_equal(prom_collector_registry_destroy(two), 0);
} /* the default registry has the last one: the leak checker sees that it was freed */

static void test_removing(void **state)
{
    (void)state;
    prom_counter_t *counter = counter_of("x_total", 1, LABELS("a"));
    prom_counter_inc(counter, LABELS("1"));
    assert_int_equal(prom_collector_registry_unregister_metric(counter), 0);
    assert_false(shows("x_total{a=\"1\"} 1"));
    counter = counter_of("x_total", 1, LABELS("a")); /* the name is free again */
    assert_int_equal(prom_counter_destroy(counter), 0);
    assert_false(shows("# TYPE x_total counter"));
    prom_collector_t *collector = prom_collector_new("c");
    prom_gauge_t *gauge = prom_gauge_new("g", "Help.", 0, NULL);
    assert_int_not_equal(prom_collector_remove_metric(collector, gauge), 0);
    assert_int_equal(prom_collector_add_metric(collector, gauge), 0);
    assert_int_not_equal(prom_collector_registry_unregister_metric(gauge), 0);
    assert_int_equal(
        prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, collector), 0);
    assert_true(shows("g 0"));
    assert_int_equal(prom_collector_destroy(collector), 0); /* takes its metric along */
    assert_false(shows("g 0"));
    prom_collector_t *generic = prom_collector_new("generic");
    assert_int_equal(prom_collector_destroy_generic(generic), 0);
    prom_collector_free_generic(prom_collector_new("generic"));
}

static void test_a_scrape_keeps_what_it_reads(void **state)
{
    (void)state;
    prom_collector_registry_t *registry = prom_collector_registry_new("r");
    prom_collector_t *collector = prom_collector_new("c");
    prom_collector_registry_register_collector(registry, collector);
    prom_gauge_t *gauges[3];
    for (int i = 0; i < 3; i++) {
        gauges[i] = prom_gauge_new((const char *[]){"a", "b", "c"}[i], "Help.", 0, NULL);
        prom_collector_add_metric(collector, gauges[i]);
    }
    const struct metric_scrape_options options = {.format = METRIC_TEXT};
    prom_scrape_t *scrape = prom_scrape_begin(registry, &options);
    struct metric_buffer out = {0};
    assert_true(metric_scrape_step(prom_scrape_reading(scrape), &out, 1));
    assert_int_equal(prom_gauge_destroy(gauges[1]), 0);
    assert_int_equal(prom_collector_remove_metric(collector, gauges[0]), 0);
    assert_int_equal(prom_collector_registry_destroy(registry), 0);
    while (metric_scrape_step(prom_scrape_reading(scrape), &out, 1)) {
    }
    prom_scrape_end(&scrape);
    assert_non_null(memmem(out.data, out.length, "\nc 0\n", 5));
    metric_buffer_free(&out);
    assert_null(prom_scrape_begin(registry, &options)); /* a registry that is gone */
}

/* ---- collect functions ---------------------------------------------------------------------- */

static prom_gauge_t *collected;
static prom_metric_t *added;
static atomic_int running, runs;

static prom_map_t *collect(prom_collector_t *self)
{
    assert_int_equal(atomic_fetch_add(&running, 1), 0); /* one at a time */
    atomic_fetch_add(&runs, 1);
    prom_gauge_inc(collected, NULL);
    if (!added) {
        added = prom_counter_new("added_total", "Help.", 0, NULL);
        assert_int_equal(prom_collector_add_metric(self, added), 0);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static prom_collector_t *collector_with_function(void)
{
    prom_collector_t *collector = prom_collector_new("c");
    collected = prom_gauge_new("collected", "Help.", 0, NULL);
    added = NULL;
    prom_collector_add_metric(collector, collected);
    prom_collector_set_collect_fn(collector, collect);
    prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, collector);
    return collector;
}

static void test_the_function_runs_at_the_scrape(void **state)
{
    (void)state;
    prom_collector_t *collector = collector_with_function();
    assert_true(shows("collected 1"));
    assert_true(shows("added_total 0"));
    assert_true(shows("collected 3"));
    assert_int_equal(prom_collector_set_collect_fn(collector, NULL), 0);
    assert_true(shows("collected 3"));
}

static prom_map_t *scrape_again(prom_collector_t *self)
{
    (void)self;
    atomic_fetch_add(&runs, 1);
    assert_null(prom_collector_registry_bridge(PROM_COLLECTOR_REGISTRY_DEFAULT));
    assert_string_equal(prom_last_error(), "a collect function must not scrape");
    return NULL;
}

static prom_map_t *destroy_itself(prom_collector_t *self)
{
    atomic_fetch_add(&runs, 1);
    assert_int_equal(prom_collector_destroy(self), 0);
    return NULL;
}

static prom_map_t *unregister_itself(prom_collector_t *self)
{
    atomic_fetch_add(&runs, 1);
    assert_int_equal(
        prom_collector_registry_unregister_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, self), 0);
    return NULL;
}

static prom_map_t *forget_function(prom_collector_t *self)
{
    atomic_fetch_add(&runs, 1);
    assert_int_equal(prom_collector_set_collect_fn(self, NULL), 0);
    return NULL;
}

static prom_map_t *destroy_registry(prom_collector_t *self)
{
    (void)self;
    atomic_fetch_add(&runs, 1);
    assert_int_equal(prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT), 0);
    return NULL;
}

/* A function may do to its collector what it likes; each of these runs once. */
static void test_functions_that_change_what_is_scraped(void **state)
{
    static prom_collect_fn *const functions[] = {scrape_again, destroy_itself, unregister_itself,
                                                 forget_function, destroy_registry};
    enum { COUNT = sizeof functions / sizeof *functions };
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        prom_collector_t *collector = prom_collector_new("c");
        prom_collector_add_metric(collector, prom_gauge_new("g", "Help.", 0, NULL));
        prom_collector_set_collect_fn(collector, functions[i]);
        assert_int_equal(
            prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, collector),
            0);
        atomic_store(&runs, 0);
        if (i == COUNT - 1) {
            assert_null(prom_collector_registry_bridge(PROM_COLLECTOR_REGISTRY_DEFAULT));
            assert_string_equal(prom_last_error(), "there is no such registry");
            break;
        }
        const bool shown = functions[i] == scrape_again || functions[i] == forget_function;
        assert_int_equal(shows("g 0"), shown);
        assert_int_equal(atomic_load(&runs), 1);
        if (shown)
            assert_int_equal(prom_collector_destroy(collector), 0);
    }
}

static void *scrape_often(void *arg)
{
    for (int i = 0; i < 200; i++)
        free(bridge(PROM_COLLECTOR_REGISTRY_DEFAULT));
    return arg;
}

static void test_two_scrapers_at_once(void **state)
{
    (void)state;
    collector_with_function();
    atomic_store(&runs, 0);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, scrape_often, NULL), 0);
    for (int i = 0; i < 100; i++) { /* meanwhile metrics come and go */
        prom_counter_t *counter = counter_of("coming_and_going_total", 1, LABELS("a"));
        prom_counter_inc(counter, LABELS("1"));
        assert_int_equal(prom_collector_registry_unregister_metric(counter), 0);
    }
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&runs), 400);
}

static void *scrape_until_told(void *arg)
{
    while (!atomic_load(&running))
        free(bridge(PROM_COLLECTOR_REGISTRY_DEFAULT));
    return arg;
}

/* The child has the threads' locks, perhaps, and not the threads: it may observe what exists. */
static void test_a_child_of_a_program_with_threads_observes(void **state)
{
    (void)state;
    prom_counter_t *counter = counter_of("x_total", 1, LABELS("a"));
    prom_metric_sample_t *sample = prom_metric_sample_from_labels(counter, LABELS("1"));
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, scrape_until_told, NULL), 0);
    int status = 0;
    for (int i = 0; i < 100 && status == 0; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20); /* ends it if it waits for a lock */
            int failed = 0;
            for (int j = 0; j < 1000; j++)
                failed |=
                    prom_counter_inc(counter, LABELS("1")) | prom_metric_sample_add(sample, 1);
            _exit(failed);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    atomic_store(&running, 1);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&running, 0);
    assert_int_equal(status, 0);
    assert_true(shows("x_total{a=\"1\"} 0")); /* the child's counts are the child's */
}

/* ---- what ends while its function runs ------------------------------------------------------ */

static pthread_barrier_t step; /* of the function and of what ends its collector */
static prom_gauge_t *of_another_collector, *destroyed_late;

static prom_map_t *collect_past_the_end(prom_collector_t *self)
{
    pthread_barrier_wait(&step); /* it runs */
    pthread_barrier_wait(&step); /* its collector has ended */
    assert_int_equal(prom_gauge_set(collected, 2, NULL), 0);
    assert_int_equal(prom_gauge_set(of_another_collector, 2, NULL), 0);
    assert_int_equal(prom_gauge_destroy(destroyed_late), 0);
    prom_counter_t *late = prom_counter_new("late_total", "Help.", 0, NULL);
    assert_int_equal(prom_collector_add_metric(self, late), 0);
    assert_int_equal(prom_counter_inc(late, NULL), 0);
    assert_int_not_equal(
        prom_collector_registry_register_collector(PROM_COLLECTOR_REGISTRY_DEFAULT, self), 0);
    return NULL;
}

static prom_gauge_t *gauge_in(prom_collector_t *collector, const char *name)
{
    prom_gauge_t *gauge = prom_gauge_new(name, "Help.", 0, NULL);
    assert_int_equal(prom_collector_add_metric(collector, gauge), 0);
    return gauge;
}

static prom_collector_t *collector_in(prom_collector_registry_t *registry, const char *name)
{
    prom_collector_t *collector = prom_collector_new(name);
    assert_int_equal(prom_collector_registry_register_collector(registry, collector), 0);
    return collector;
}

static int destroy_collector_of(prom_collector_registry_t *registry, prom_collector_t *collector)
{
    (void)registry;
    return prom_collector_destroy(collector);
}

static int destroy_registry_of(prom_collector_registry_t *registry, prom_collector_t *collector)
{
    (void)collector;
    return prom_collector_registry_destroy(registry);
}

static void *scrape_once(void *registry)
{
    return (char *)prom_collector_registry_bridge(registry);
}

/* What the scrape shows during which the collector ends; NULL: nothing. */
static char *end_while_the_function_runs(prom_collector_registry_t *registry,
                                         int (*finish)(prom_collector_registry_t *,
                                                       prom_collector_t *))
{
    of_another_collector = gauge_in(collector_in(registry, "first"), "other");
    prom_collector_t *collector = collector_in(registry, "second");
    collected = gauge_in(collector, "collected");
    destroyed_late = gauge_in(collector, "destroyed_late");
    prom_collector_set_collect_fn(collector, collect_past_the_end);
    pthread_t scraper;
    void *text = NULL;
    assert_int_equal(pthread_create(&scraper, NULL, scrape_once, registry), 0);
    pthread_barrier_wait(&step);
    assert_int_equal(finish(registry, collector), 0);
    pthread_barrier_wait(&step);
    pthread_join(scraper, &text);
    return text;
}

static void test_a_collector_ends_while_its_function_runs(void **state)
{
    (void)state;
    assert_int_equal(pthread_barrier_init(&step, NULL, 2), 0);
    int (*const ends_of_collectors[])(prom_collector_registry_t *, prom_collector_t *) = {
        destroy_collector_of, prom_collector_registry_unregister_collector};
    for (size_t i = 0; i < 2; i++) {
        prom_collector_registry_t *registry = prom_collector_registry_new("r");
        char *text = end_while_the_function_runs(registry, ends_of_collectors[i]);
        assert_string_equal(text, "# HELP other Help.\n# TYPE other gauge\nother 2\n");
        free(text);
        assert_int_equal(prom_collector_registry_destroy(registry), 0);
    }
    prom_collector_registry_t *registry = prom_collector_registry_new("r");
    assert_null(end_while_the_function_runs(registry, destroy_registry_of));
    pthread_barrier_destroy(&step);
}

/* The process collector reads its file until we close it. */
static void test_the_process_collector_ends_while_it_reads(void **state)
{
    char folder[] = "/tmp/prom-stat-XXXXXX", stat[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(stat, sizeof stat, "%s/stat", folder);
    assert_int_equal(mkfifo(stat, 0600), 0);
    prom_collector_registry_t *registry = prom_collector_registry_new("r");
    prom_collector_t *process = prom_collector_process_new(NULL, stat);
    assert_int_equal(prom_collector_registry_register_collector(registry, process), 0);
    pthread_t scraper;
    void *text = NULL;
    assert_int_equal(pthread_create(&scraper, NULL, scrape_once, registry), 0);
    FILE *file = fopen(stat, "w"); /* returns when the collector has opened it */
    assert_non_null(file);
    assert_int_equal(prom_collector_registry_destroy(registry), 0);
    fputs("7 (a) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 9 0 100 4096 2 0\n", file);
    fclose(file);
    pthread_join(scraper, &text);
    assert_null(text);
    remove(stat);
    remove(folder);
}

/* ---- registries ----------------------------------------------------------------------------- */

static void test_a_registry_is_known_by_its_id(void **state)
{
    (void)state;
    const struct metric_scrape_options options = {.format = METRIC_TEXT};
    const uint64_t of_default = prom_collector_registry_id(PROM_COLLECTOR_REGISTRY_DEFAULT);
    prom_collector_registry_t *first = prom_collector_registry_new("r");
    const uint64_t id = prom_collector_registry_id(first);
    assert_true(of_default != 0 && id != 0 && id != of_default);
    prom_scrape_t *scrape = prom_scrape_begin_id(id, &options);
    assert_non_null(scrape);
    prom_scrape_end(&scrape);
    prom_collector_registry_destroy(first);
    assert_null(prom_scrape_begin_id(id, &options));
    for (int i = 0; i < 100; i++) { /* malloc gives one of them its address */
        prom_collector_registry_t *next = prom_collector_registry_new("r");
        assert_true(prom_collector_registry_id(next) > id);
        assert_null(prom_scrape_begin_id(id, &options));
        prom_collector_registry_destroy(next);
    }
    assert_int_equal(prom_collector_registry_id(NULL), 0);
    assert_null(prom_scrape_begin_id(0, &options));
    assert_string_equal(prom_last_error(), "there is no such registry");
}

/* ---- the process ---------------------------------------------------------------------------- */

static double value_of(const char *name)
{
    char *text = bridge(PROM_COLLECTOR_REGISTRY_DEFAULT), line[64];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(text, line);
    const double value = at ? strtod(at + strlen(line), NULL) : NAN;
    free(text);
    return value;
}

static void test_the_process_in_true_units(void **state)
{
    (void)state;
    clock_t until = clock() + CLOCKS_PER_SEC / 50;
    while (clock() < until) { /* some CPU time, far less than a second */
    }
    const double cpu = value_of("process_cpu_seconds_total");
    assert_true(cpu >= 0.02 && cpu != floor(cpu));
    assert_true(fabs(value_of("process_start_time_seconds") - (double)time(NULL)) < 600);
    assert_true(value_of("process_open_fds") >= 3 && value_of("process_max_fds") >= 16);
    assert_true(value_of("process_resident_memory_bytes") > 100000);
    assert_true(value_of("process_virtual_memory_bytes") >
                value_of("process_resident_memory_bytes"));
    assert_true(value_of("process_virtual_memory_max_bytes") > 0);
    assert_true(value_of("process_threads") >= 1);
    assert_true(shows("# TYPE process_cpu_seconds_total counter"));
    assert_true(fabs(start_of("\nprocess_cpu_seconds_total ") -
                     value_of("process_start_time_seconds")) < 0.002);
}

static void test_the_process_from_files(void **state)
{
    char stat[] = "/tmp/prom-stat-XXXXXX", limits[] = "/tmp/prom-limits-XXXXXX";
    (void)state;
    FILE *file = fdopen(mkstemp(stat), "w");
    fputs("7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 9 0 100 4096 2 0\n", file);
    fclose(file);
    file = fdopen(mkstemp(limits), "w");
    fputs("Limit  Soft Limit Hard Limit Units\nMax open files            1024   4096   files\n"
          "Max address space         unlimited  unlimited  bytes\n",
          file);
    fclose(file);
    prom_collector_registry_t *registry = prom_collector_registry_new("r");
    prom_collector_t *process = prom_collector_process_new(limits, stat);
    assert_int_equal(prom_collector_registry_register_collector(registry, process), 0);
    char cpu[64];
    snprintf(cpu, sizeof cpu, "process_cpu_seconds_total %g", 200.0 / (double)sysconf(_SC_CLK_TCK));
    assert_true(shows_in(registry, cpu));
    assert_true(shows_in(registry, "process_threads 9"));
    assert_true(shows_in(registry, "process_virtual_memory_bytes 4096"));
    assert_true(shows_in(registry, "process_max_fds 1024"));
    assert_true(shows_in(registry, "process_virtual_memory_max_bytes 1.8446744073709552e+19"));
    prom_collector_registry_destroy(registry);
    remove(stat);
    remove(limits);
}

/* ---- beside metric.h ------------------------------------------------------------------------ */

static void test_a_family_of_the_core_as_a_metric(void **state)
{
    (void)state;
    struct metric_registry *core =
        metric_registry_new(&(struct metric_registry_options){.threads = 2, .max_series = 2});
    struct metric_family *family = metric_register(
        core,
        &(struct metric_desc){.name = "g", .type = METRIC_GAUGE, .help = "Help.", .labels = {"a"}},
        NULL);
    prom_metric_t *metric = prom_metric_of_family(family);
    assert_int_equal(prom_gauge_set(metric, 3, LABELS("1")), 0);
    assert_int_equal(prom_gauge_set(metric, 4, LABELS("2")), 0);
    assert_int_not_equal(prom_gauge_set(metric, 5, LABELS("3")), 0); /* the cap is the family's */
    assert_int_not_equal(prom_collector_registry_register_metric(metric), 0);
    assert_int_equal(prom_gauge_destroy(metric), 0);
    prom_metric_sample_t *sample =
        prom_metric_sample_of_series(metric_resolve(family, LABELS("2")));
    assert_int_equal(prom_metric_sample_add(sample, 1), 0);
    const struct metric_scrape_options options = {.format = METRIC_TEXT};
    struct metric_scrape *scrape = metric_scrape_begin(core, &options);
    struct metric_buffer out = {0};
    while (metric_scrape_step(scrape, &out, 1000)) {
    }
    metric_scrape_end(&scrape);
    static const char expected[] = "# HELP g Help.\n# TYPE g gauge\ng{a=\"1\"} 3\ng{a=\"2\"} 5\n";
    assert_int_equal(out.length, sizeof expected - 1);
    assert_memory_equal(out.data, expected, out.length);
    metric_buffer_free(&out);
    metric_registry_free(&core);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_counters),
        TEST(test_a_counter_never_goes_down),
        TEST(test_a_counter_that_is_counted_elsewhere),
        TEST(test_the_start_of_a_counter),
        TEST(test_clearing_gauges_and_counts),
        TEST(test_gauges),
        TEST(test_histograms_have_their_buckets),
        TEST(test_buckets),
        TEST(test_who_owns_buckets),
        TEST(test_bounds_that_are_none),
        TEST(test_negative_bounds_have_no_native_side),
        TEST(test_default_buckets_that_a_program_took_away),
        TEST(test_native_side_of_any_bounds),
        TEST(test_names_are_validated),
        TEST(test_texts_are_escaped),
        TEST(test_texts_are_copied),
        TEST(test_numbers_are_the_same_in_every_locale),
        TEST(test_null_and_the_wrong_kind_are_refused),
        TEST(test_a_counter_has_one_name_in_every_format),
        TEST(test_clashing_names_are_refused),
        TEST(test_registering_again_is_harmless),
        TEST(test_one_collector_in_several_registries),
        TEST(test_removing),
        TEST(test_a_scrape_keeps_what_it_reads),
        TEST(test_the_function_runs_at_the_scrape),
        TEST(test_functions_that_change_what_is_scraped),
        TEST(test_two_scrapers_at_once),
        TEST(test_a_child_of_a_program_with_threads_observes),
        TEST(test_a_collector_ends_while_its_function_runs),
        TEST(test_the_process_collector_ends_while_it_reads),
        TEST(test_a_registry_is_known_by_its_id),
        TEST(test_the_process_in_true_units),
        TEST(test_the_process_from_files),
        TEST(test_a_family_of_the_core_as_a_metric),
    };
    return RUN_TESTS(tests);
}
