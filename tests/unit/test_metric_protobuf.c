/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf form, read back by field number; and what the native histograms in it hold. */
#include "tests/unit/metric_decoder.h"

#include <float.h>
#include <math.h>

static const double bounds[] = {0.25, 1, 4};

static struct metric_family *add_histogram(struct metric_registry *registry,
                                           struct metric_native native, size_t nbounds,
                                           unsigned flags)
{
    return must_register(registry, &(struct metric_desc){.name = "h_seconds",
                                                         .type = METRIC_HISTOGRAM,
                                                         .unit = "seconds",
                                                         .help = "H\n\"\\",
                                                         .bounds = bounds,
                                                         .nbounds = nbounds,
                                                         .native = native,
                                                         .flags = flags});
}

/* The histogram message of the only series of the family h_seconds. */
static struct message histogram_in(const struct metric_buffer *out)
{
    struct message family = find_family(out, "h_seconds");
    assert_true(family.length > 0);
    return get_message(get_message(family, 4), 7);
}

static void test_counter_and_gauge(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_family *counter =
        must_register(registry, &(struct metric_desc){.name = "c_total",
                                                      .type = METRIC_COUNTER,
                                                      .help = "C \xff",
                                                      .labels = {"*who", "how"}});
    metric_add(metric_resolve(counter, VALUES("a\"\n", "")), 7);
    metric_add(metric_resolve(counter, VALUES("b", "\xc3")), UINT64_C(1) << 60);
    struct metric_family *gauge = must_register(
        registry, &(struct metric_desc){.name = "g", .type = METRIC_GAUGE, .help = "G"});
    metric_gauge_set(metric_resolve(gauge, NULL), -0.5);

    struct metric_buffer out = scrape_all(registry, METRIC_PROTOBUF);
    struct message family = find_family(&out, "c_total");
    assert_bytes(get_message(family, 2), "C \xef\xbf\xbd");
    assert_int_equal(get_field(family, 3, 0).varint, 0); /* COUNTER */
    assert_int_equal(count_fields(family, 4), 2);
    assert_int_equal(count_fields(family, 5), 0); /* no unit */
    struct message metric = nth_message(family, 4, 0);
    assert_bytes(get_message(nth_message(metric, 1, 0), 1), "who");
    assert_bytes(get_message(nth_message(metric, 1, 0), 2), "a\"\n");
    assert_bytes(get_message(nth_message(metric, 1, 1), 1), "how");
    assert_bytes(get_message(nth_message(metric, 1, 1), 2), "");
    assert_true(get_field(get_message(metric, 3), 1, 1).fixed64 == 7);
    metric = nth_message(family, 4, 1);
    assert_bytes(get_message(nth_message(metric, 1, 1), 2), "\xef\xbf\xbd");
    assert_true(get_field(get_message(metric, 3), 1, 1).fixed64 == 0x1p60);

    family = find_family(&out, "g");
    assert_int_equal(get_field(family, 3, 0).varint, 1); /* GAUGE */
    assert_true(get_field(get_message(get_message(family, 4), 2), 1, 1).fixed64 == -0.5);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void check_bucket(struct message histogram, size_t nth, uint64_t cumulative, double bound)
{
    struct message bucket = nth_message(histogram, 3, nth);
    assert_int_equal(get_field(bucket, 1, 0).varint, cumulative);
    assert_true(get_field(bucket, 2, 1).fixed64 == bound);
}

static void test_classic_histogram(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *series =
        metric_resolve(add_histogram(registry, (struct metric_native){0}, 3, 0), NULL);
    static const double values[] = {0.25, 0.5, 3, 100, 200};
    for (size_t i = 0; i < 5; i++)
        metric_observe(series, values[i]);
    struct metric_buffer out = scrape_all(registry, METRIC_PROTOBUF);
    struct message family = find_family(&out, "h_seconds");
    assert_bytes(get_message(family, 2), "H\n\"\\");
    assert_int_equal(get_field(family, 3, 0).varint, 4); /* HISTOGRAM */
    assert_bytes(get_message(family, 5), "seconds");
    struct message histogram = histogram_in(&out);
    assert_int_equal(get_field(histogram, 1, 0).varint, 5);
    assert_true(get_field(histogram, 2, 1).fixed64 == 303.75);
    check_bucket(histogram, 0, 1, 0.25);
    check_bucket(histogram, 1, 2, 1);
    check_bucket(histogram, 2, 3, 4);
    for (unsigned field = 4; field <= 16; field++)
        assert_int_equal(count_fields(histogram, field), field == 15); /* nothing native */
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static struct native native; /* too large for the stack */

static void scrape_native(struct metric_registry *registry)
{
    struct metric_buffer out = scrape_all(registry, METRIC_PROTOBUF);
    decode_native(histogram_in(&out), &native);
    metric_buffer_free(&out);
}

static void test_native_histogram(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *series =
        metric_resolve(add_histogram(registry, (struct metric_native){0, -4, 4}, 3, 0), NULL);
    /* schema 0: bucket i holds (2^(i-1), 2^i] */
    static const double values[] = {0, -3, 0.0625, 0.07, 0.125, 1, 1.5, 2, 2, 16, 17, INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        metric_observe(series, values[i]);
    scrape_native(registry);
    assert_int_equal(native.schema, 0);
    assert_true(native.zero_threshold == 0.0625);
    assert_int_equal(native.zero_count, 3);
    assert_int_equal(native.sample_count, 12);
    assert_int_equal(native.total, 12);
    /* -3: {0.07, 0.125}; -2, -1: filled; 0: {1}; 1: {1.5, 2, 2}; 2, 3: filled; 4: {16}; then far
     * away the bucket of +Inf with what lies over 2^4 */
    static const int index[] = {-3, -2, -1, 0, 1, 2, 3, 4, 1025};
    static const int64_t count[] = {2, 0, 0, 1, 3, 0, 0, 1, 2};
    assert_int_equal(native.nspans, 2);
    assert_int_equal(native.nbuckets, 9);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(native.index[i], index[i]);
        assert_int_equal(native.count[i], count[i]);
    }
    metric_registry_free(&registry);
}

static void test_gap_of_three_opens_a_span(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *series =
        metric_resolve(add_histogram(registry, (struct metric_native){0, -8, 8}, 0, 0), NULL);
    metric_observe(series, 1);  /* 0 */
    metric_observe(series, 16); /* 4: 1, 2, 3 are empty */
    scrape_native(registry);
    assert_int_equal(native.nspans, 2);
    assert_int_equal(native.nbuckets, 2);
    assert_int_equal(native.index[1], 4);
    metric_observe(series, 2); /* 1: now 2 and 3 are empty */
    scrape_native(registry);
    assert_int_equal(native.nspans, 1);
    assert_int_equal(native.nbuckets, 5);
    metric_registry_free(&registry);
}

static void test_empty_native_histogram_has_a_span_of_nothing(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    add_histogram(registry, (struct metric_native){3, -20, 6}, 3, 0);
    struct metric_buffer out = scrape_all(registry, METRIC_PROTOBUF);
    struct message histogram = histogram_in(&out);
    assert_int_equal(count_fields(histogram, 12), 1);
    assert_int_equal(get_field(get_message(histogram, 12), 1, 0).varint, 0);
    assert_int_equal(get_field(get_message(histogram, 12), 2, 0).varint, 0);
    assert_int_equal(count_fields(histogram, 13), 0);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_native_alone_has_no_classic_buckets(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    add_histogram(registry, (struct metric_native){3, -20, 6}, 0, 0);
    struct metric_buffer out = scrape_all(registry, METRIC_PROTOBUF);
    assert_int_equal(count_fields(histogram_in(&out), 3), 0);
    metric_buffer_free(&out);
    out = scrape_all(registry, METRIC_TEXT); /* text has no other form */
    assert_has_line(out.data, "h_seconds_bucket{le=\"+Inf\"} 0");
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_nan_counts_but_lies_in_no_bucket(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *series =
        metric_resolve(add_histogram(registry, (struct metric_native){3, -20, 6}, 3, 0), NULL);
    metric_observe(series, NAN);
    metric_observe(series, 1);
    scrape_native(registry);
    assert_int_equal(native.sample_count, 2);
    assert_int_equal(native.total, 1);
    assert_true(isnan(native.sample_sum)); /* what lets a scraper accept the difference */
    metric_registry_free(&registry);
}

/* Merging bucket i of a schema into ceil(i/2) of the next coarser one gives the buckets that the
 * coarser schema would have counted: compared with a registry that has it from the start. */
static void check_against_coarser(const double *values, size_t n, int from_schema, int to_schema)
{
    struct metric_registry *fine = registry_with(1, 10), *coarse = registry_with(1, 10);
    struct metric_series *a = metric_resolve(
        add_histogram(fine, (struct metric_native){from_schema, -32, 32}, 3, 0), NULL);
    struct metric_series *b = metric_resolve(
        add_histogram(coarse, (struct metric_native){to_schema, -32, 32}, 3, 0), NULL);
    for (size_t i = 0; i < n; i++) {
        metric_observe(a, values[i]);
        metric_observe(b, values[i]);
    }
    static struct native expected;
    scrape_native(coarse);
    expected = native;
    scrape_native(fine);
    assert_int_equal(native.schema, to_schema);
    assert_true(native.npopulated <= METRIC_NATIVE_BUCKETS_MAX);
    assert_int_equal(native.total, n);
    assert_int_equal(native.nbuckets, expected.nbuckets);
    assert_memory_equal(native.index, expected.index, sizeof *native.index * native.nbuckets);
    assert_memory_equal(native.count, expected.count, sizeof *native.count * native.nbuckets);
    metric_registry_free(&fine);
    metric_registry_free(&coarse);
}

static void test_more_than_160_buckets_halve_the_schema(void **state)
{
    (void)state;
    static double values[10240];
    for (int schema = 8; schema >= 2; schema--) {
        /* one value in the middle of each of 160 and of 161 neighbouring buckets */
        for (int n = 160; n <= 161; n++) {
            for (int i = 0; i < n; i++)
                values[i] = exp2(ldexp(i - 80.5, -schema));
            check_against_coarser(values, (size_t)n, schema, n == 160 ? schema : schema - 1);
        }
    }
    /* 64 octaves full: schema 5 has 2048 of them, schema 1 has 128 */
    for (int i = 0; i < 2048; i++)
        values[i] = exp2(ldexp(i - 1023.5, -5));
    check_against_coarser(values, 2048, 5, 1);
}

static void test_all_of_the_doubles_fit_into_160_buckets(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *series =
        metric_resolve(add_histogram(registry, (struct metric_native){1, -1022, 1023}, 3, 0), NULL);
    uint64_t n = 0;
    for (double exponent = -1080; exponent <= 1024; exponent += 0.25, n++)
        metric_observe(series, exp2(exponent));
    scrape_native(registry);
    assert_true(native.npopulated <= METRIC_NATIVE_BUCKETS_MAX);
    assert_int_equal(native.schema, -4);
    assert_int_equal(native.total, n);
    assert_int_equal(native.sample_count, n);
    assert_int_equal(native.index[native.nbuckets - 1], 65); /* +Inf: 1024 / 16 + 1 */
    metric_registry_free(&registry);
}

static void test_start_of_what_is_counted_here(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    add_histogram(registry, (struct metric_native){3, -20, 6}, 3, 0);
    must_register(registry,
                  &(struct metric_desc){.name = "c_total", .type = METRIC_COUNTER, .help = "C"});
    struct metric_scrape_options options = {.format = METRIC_PROTOBUF};
    struct metric_buffer out = scrape_steps(registry, &options, 1000);
    uint64_t start = get_field(get_message(histogram_in(&out), 15), 1, 0).varint;
    assert_true(start + 60 > (uint64_t)time(NULL) && start <= (uint64_t)time(NULL) + 1);
    struct message counter = get_message(get_message(find_family(&out, "c_total"), 4), 3);
    start = get_field(get_message(counter, 3), 1, 0).varint;
    assert_true(start + 60 > (uint64_t)time(NULL) && start <= (uint64_t)time(NULL) + 1);
    assert_true(get_field(get_message(counter, 3), 2, 0).varint < 1000000000);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static struct message counter_in(const struct metric_buffer *out, size_t nth)
{
    return get_message(nth_message(find_family(out, "c_total"), 4, nth), 3);
}

static void test_start_of_what_is_counted_elsewhere(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_family *family = must_register(
        registry, &(struct metric_desc){
                      .name = "c_total", .type = METRIC_COUNTER, .help = "C", .labels = {"of"}});
    metric_mirror(metric_resolve(family, VALUES("unknown")), 7);
    metric_mirror_since(metric_resolve(family, VALUES("known")), 8, 1700000000.25);
    struct metric_buffer out = scrape_all(registry, METRIC_PROTOBUF);
    assert_true(get_field(counter_in(&out, 0), 1, 1).fixed64 == 7);
    assert_int_equal(count_fields(counter_in(&out, 0), 3), 0);
    assert_true(get_field(counter_in(&out, 1), 1, 1).fixed64 == 8);
    struct message start = get_message(counter_in(&out, 1), 3);
    assert_int_equal(get_field(start, 1, 0).varint, 1700000000);
    assert_int_equal(get_field(start, 2, 0).varint, 250000000);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void check_exemplar(struct message exemplar, const char *trace, double value)
{
    struct message label = get_message(exemplar, 1);
    assert_bytes(get_message(label, 1), "trace_id");
    assert_bytes(get_message(label, 2), trace);
    assert_true(get_field(exemplar, 2, 1).fixed64 == value);
    uint64_t at = get_field(get_message(exemplar, 3), 1, 0).varint;
    assert_true(at + 60 > (uint64_t)time(NULL) && at <= (uint64_t)time(NULL) + 1);
}

static void test_exemplars_in_classic_buckets(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *series = metric_resolve(
        add_histogram(registry, (struct metric_native){3, -20, 6}, 3, METRIC_EXEMPLARS), NULL);
    metric_observe_exemplar(series, 0.5,
                            &(struct metric_exemplar){1, VALUES("trace_id"), VALUES("inside")});
    metric_observe_exemplar(series, 5,
                            &(struct metric_exemplar){1, VALUES("trace_id"), VALUES("above")});
    struct metric_buffer out = scrape_all(registry, METRIC_PROTOBUF);
    struct message histogram = histogram_in(&out);
    assert_int_equal(count_fields(histogram, 3), 4); /* with +Inf, which may carry one */
    assert_int_equal(count_fields(nth_message(histogram, 3, 0), 3), 0);
    check_exemplar(get_message(nth_message(histogram, 3, 1), 3), "inside", 0.5);
    check_exemplar(get_message(nth_message(histogram, 3, 3), 3), "above", 5);
    assert_int_equal(count_fields(histogram, 16), 0); /* Prometheus 2.51 to 2.54 misreads it */
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_exemplar_of_a_histogram_without_classic_buckets(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *series = metric_resolve(
        add_histogram(registry, (struct metric_native){3, -20, 6}, 0, METRIC_EXEMPLARS), NULL);
    metric_observe_exemplar(series, 0.5,
                            &(struct metric_exemplar){1, VALUES("trace_id"), VALUES("only")});
    struct metric_buffer out = scrape_all(registry, METRIC_PROTOBUF);
    struct message histogram = histogram_in(&out);
    assert_int_equal(count_fields(histogram, 16), 1);
    check_exemplar(nth_message(histogram, 16, 0), "only", 0.5);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

/* Lengths that take 1, 2 and 3 bytes: the message is moved by what the length needs. */
static void test_lengths_of_all_sizes(void **state)
{
    (void)state;
    for (size_t length = 1; length < 70000; length += length < 300 ? 1 : 5000) {
        struct metric_registry *registry = registry_with(1, 10);
        struct metric_family *family = must_register(
            registry,
            &(struct metric_desc){.name = "g", .type = METRIC_GAUGE, .help = "G", .labels = {"a"}});
        char *value = malloc(length + 1);
        assert_non_null(value);
        memset(value, 'v', length);
        value[length] = '\0';
        metric_gauge_set(metric_resolve(family, VALUES(value)), 3);
        struct metric_buffer out = scrape_all(registry, METRIC_PROTOBUF);
        struct message metric = get_message(find_family(&out, "g"), 4);
        assert_bytes(get_message(get_message(metric, 1), 2), value);
        assert_true(get_field(get_message(metric, 2), 1, 1).fixed64 == 3);
        metric_buffer_free(&out);
        free(value);
        metric_registry_free(&registry);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counter_and_gauge),
        cmocka_unit_test(test_classic_histogram),
        cmocka_unit_test(test_native_histogram),
        cmocka_unit_test(test_gap_of_three_opens_a_span),
        cmocka_unit_test(test_empty_native_histogram_has_a_span_of_nothing),
        cmocka_unit_test(test_native_alone_has_no_classic_buckets),
        cmocka_unit_test(test_nan_counts_but_lies_in_no_bucket),
        cmocka_unit_test(test_more_than_160_buckets_halve_the_schema),
        cmocka_unit_test(test_all_of_the_doubles_fit_into_160_buckets),
        cmocka_unit_test(test_start_of_what_is_counted_here),
        cmocka_unit_test(test_start_of_what_is_counted_elsewhere),
        cmocka_unit_test(test_exemplars_in_classic_buckets),
        cmocka_unit_test(test_exemplar_of_a_histogram_without_classic_buckets),
        cmocka_unit_test(test_lengths_of_all_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
