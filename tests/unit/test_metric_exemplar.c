/* SPDX-License-Identifier: Apache-2.0 */
/* Exemplars: where they show, which are left out, and that a torn one never shows. */
#include "tests/unit/metric_support.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "lib/metrics/exemplar.h"

static struct metric_series *histogram(struct metric_registry *registry, unsigned flags)
{
    return metric_resolve(
        must_register(registry, &(struct metric_desc){.name = "h",
                                                      .type = METRIC_HISTOGRAM,
                                                      .help = "h",
                                                      .bounds = (const double[]){1, 2},
                                                      .nbounds = 2,
                                                      .flags = flags}),
        NULL);
}

static struct metric_series *counter(struct metric_registry *registry, unsigned flags)
{
    return metric_resolve(must_register(registry, &(struct metric_desc){.name = "c_total",
                                                                        .type = METRIC_COUNTER,
                                                                        .help = "h",
                                                                        .flags = flags}),
                          NULL);
}

/* The sample's text without the time at its end, which must be now. */
static void expect(struct metric_registry *registry, const char *head, const char *expected)
{
    struct metric_buffer out = scrape_all(registry, METRIC_OPENMETRICS);
    char text[1024];
    sample_text(out.data, head, text, sizeof text);
    if (strchr(text, '#') != NULL) {
        char *last = strrchr(text, ' ');
        double at = strtod(last, NULL), now = (double)time(NULL);
        assert_true(at > now - 60 && at < now + 1.5);
        *last = '\0';
    }
    assert_string_equal(text, expected);
    metric_buffer_free(&out);
}

static void test_shown_on_buckets_and_totals_only(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *h = histogram(registry, METRIC_EXEMPLARS);
    struct metric_series *c = counter(registry, METRIC_EXEMPLARS);
    const struct metric_exemplar exemplar = {2, VALUES("trace_id", "handoff_id"),
                                             VALUES("abc\"\\\n", "M\xc3\xbc\xff")};
    metric_observe_exemplar(h, 1.5, &exemplar);
    metric_add_exemplar(c, 3, &exemplar);
    static const char shown[] =
        "{trace_id=\"abc\\\"\\\\\\n\",handoff_id=\"M\xc3\xbc\xef\xbf\xbd\"}";
    char text[256];
    snprintf(text, sizeof text, "1 # %s 1.5", shown);
    expect(registry, "h_bucket{le=\"2.0\"}", text);
    expect(registry, "h_bucket{le=\"1.0\"}", "0");
    expect(registry, "h_bucket{le=\"+Inf\"}", "1");
    expect(registry, "h_count", "1");
    expect(registry, "h_sum", "1.5");
    snprintf(text, sizeof text, "3 # %s 3", shown);
    expect(registry, "c_total", text);
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    assert_null(strstr(out.data, "trace_id")); /* the old format has none */
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_the_newest_one_is_kept_for_each_bucket(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_series *h = histogram(registry, METRIC_EXEMPLARS);
    static const double values[] = {0.5, 1, 2, 3, 1.25};
    static const char *const ids[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < 5; i++)
        metric_observe_exemplar(h, values[i],
                                &(struct metric_exemplar){1, VALUES("id"), VALUES(ids[i])});
    expect(registry, "h_bucket{le=\"1.0\"}", "2 # {id=\"b\"} 1");
    expect(registry, "h_bucket{le=\"2.0\"}", "4 # {id=\"e\"} 1.25");
    expect(registry, "h_bucket{le=\"+Inf\"}", "5 # {id=\"d\"} 3");
    metric_registry_free(&registry);
}

static void test_without_the_flag_only_the_value_counts(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    const struct metric_exemplar exemplar = {1, VALUES("id"), VALUES("x")};
    metric_observe_exemplar(histogram(registry, 0), 1, &exemplar);
    metric_add_exemplar(counter(registry, 0), 1, &exemplar);
    expect(registry, "h_bucket{le=\"1.0\"}", "1");
    expect(registry, "c_total", "1");
    metric_registry_free(&registry);
}

static void refused(const struct metric_exemplar *exemplar, double value)
{
    struct metric_registry *registry = registry_with(1, 10);
    metric_observe_exemplar(histogram(registry, METRIC_EXEMPLARS), value, exemplar);
    struct metric_buffer out = scrape_all(registry, METRIC_OPENMETRICS);
    assert_null(strstr(out.data, " # {"));
    assert_has_line(out.data, "h_count 1"); /* the observation counts all the same */
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_128_code_points_at_most(void **state)
{
    (void)state;
    char value[140] = {0};
    memset(value, 'v', 126); /* with "id": 128 */
    struct metric_exemplar exemplar = {1, VALUES("id"), (const char *const[]){value}};
    struct metric_registry *registry = registry_with(1, 10);
    metric_observe_exemplar(histogram(registry, METRIC_EXEMPLARS), 3, &exemplar);
    char text[256];
    snprintf(text, sizeof text, "1 # {id=\"%s\"} 3", value);
    expect(registry, "h_bucket{le=\"+Inf\"}", text);
    metric_registry_free(&registry);
    value[126] = 'v';
    refused(&exemplar, 3);
    /* code points, not bytes: 1 + 126 of them, 10 of 2 bytes */
    for (size_t i = 0; i < 10; i++)
        memcpy(value + 2 * i, "\xc3\xbc", 2);
    memset(value + 20, 'v', 116);
    value[136] = '\0';
    registry = registry_with(1, 10);
    metric_observe_exemplar(histogram(registry, METRIC_EXEMPLARS), 3, &exemplar);
    snprintf(text, sizeof text, "1 # {id=\"%s\"} 3", value);
    expect(registry, "h_bucket{le=\"+Inf\"}", text);
    metric_registry_free(&registry);
}

static void test_what_would_spoil_the_scrape_is_left_out(void **state)
{
    (void)state;
    refused(&(struct metric_exemplar){0}, 1); /* it would lead nowhere */
    refused(&(struct metric_exemplar){1, VALUES("1d"), VALUES("x")}, 1);
    refused(&(struct metric_exemplar){1, VALUES(""), VALUES("x")}, 1);
    refused(&(struct metric_exemplar){1, VALUES("a\"b"), VALUES("x")}, 1);
    refused(&(struct metric_exemplar){2, VALUES("id", "id"), VALUES("x", "y")}, 1);
    refused(&(struct metric_exemplar){1, VALUES("id"), VALUES("x")}, NAN);
    char huge[4000];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    refused(&(struct metric_exemplar){1, VALUES("id"), VALUES(huge)}, 1);
    refused(&(struct metric_exemplar){1, VALUES(huge), VALUES("x")}, 1);
}

static void test_many_pairs(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    static const char *const values[] = {"", "", "", "", "", "", "", "", "", "z"};
    struct metric_registry *registry = registry_with(1, 10);
    metric_observe_exemplar(histogram(registry, METRIC_EXEMPLARS), 3,
                            &(struct metric_exemplar){10, names, values});
    expect(registry, "h_bucket{le=\"+Inf\"}",
           "1 # {a=\"\",b=\"\",c=\"\",d=\"\",e=\"\",f=\"\",g=\"\",h=\"\",i=\"\",j=\"z\"} 3");
    metric_registry_free(&registry);
}

static void test_infinity_is_an_exemplar_of_the_last_bucket(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    metric_observe_exemplar(histogram(registry, METRIC_EXEMPLARS), INFINITY,
                            &(struct metric_exemplar){1, VALUES("id"), VALUES("x")});
    expect(registry, "h_bucket{le=\"+Inf\"}", "1 # {id=\"x\"} +Inf");
    metric_registry_free(&registry);
}

/* Writers put exemplars whose value, name and text say the same; a reader never sees a mixture. */
static struct metric_exemplar_slot slot;
static atomic_bool stop;

static void *writer(void *arg)
{
    unsigned number = *(unsigned *)arg;
    while (!atomic_load(&stop)) {
        number = number % 90 + 10;
        char text[101] = {0};
        memset(text, (int)('0' + number % 10), number);
        metric_exemplar_store(
            &slot, number, &(struct metric_exemplar){1, VALUES("id"), (const char *const[]){text}});
        number += 7;
    }
    return NULL;
}

static void test_never_torn(void **state)
{
    (void)state;
    pthread_t threads[2];
    unsigned first[2] = {3, 50};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, writer, &first[i]), 0);
    for (size_t seen = 0; seen < 20000;) {
        struct metric_exemplar_copy copy;
        if (!metric_exemplar_load(&slot, &copy))
            continue;
        seen++;
        size_t length = (size_t)copy.value;
        assert_int_equal(copy.pairs, 1);
        assert_string_equal(copy.text, "id");
        assert_int_equal(strlen(copy.text + 3), length);
        assert_int_equal(strspn(copy.text + 3, (char[]){(char)('0' + length % 10), '\0'}), length);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shown_on_buckets_and_totals_only),
        cmocka_unit_test(test_the_newest_one_is_kept_for_each_bucket),
        cmocka_unit_test(test_without_the_flag_only_the_value_counts),
        cmocka_unit_test(test_128_code_points_at_most),
        cmocka_unit_test(test_what_would_spoil_the_scrape_is_left_out),
        cmocka_unit_test(test_many_pairs),
        cmocka_unit_test(test_infinity_is_an_exemplar_of_the_last_bucket),
        cmocka_unit_test(test_never_torn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
