/* SPDX-License-Identifier: Apache-2.0 */
/* From label values to series: identity, growth, the cap, folding, retiring and coming back. */
#include "tests/unit/metric_support.h"

static struct metric_family *counter(struct metric_registry *registry, const char *first,
                                     const char *second)
{
    return must_register(registry, &(struct metric_desc){.name = "c_total",
                                                         .type = METRIC_COUNTER,
                                                         .help = "h",
                                                         .labels = {first, second}});
}

static void bump(struct metric_family *family, const char *first, const char *second, uint64_t n)
{
    metric_add(metric_resolve(family, VALUES(first, second)), n);
}

static void assert_hidden(struct metric_registry *registry, const char *text)
{
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    if (strstr(out.data, text) != NULL)
        fail_msg("%s is shown in:\n%s", text, out.data);
    metric_buffer_free(&out);
}

static size_t count_lines(struct metric_registry *registry, const char *begin)
{
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    size_t count = 0;
    for (const char *at = out.data; (at = strstr(at, begin)) != NULL; at++)
        count += at == out.data || at[-1] == '\n';
    metric_buffer_free(&out);
    return count;
}

static void test_same_labels_are_the_same_series(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 100);
    struct metric_family *family = counter(registry, "a", "b");
    struct metric_series *series = metric_resolve(family, VALUES("x", "y"));
    char x[] = "x";
    assert_ptr_equal(metric_resolve(family, VALUES(x, "y")), series);
    static const char *const others[][2] = {{"y", "x"}, {"xy", ""}, {"", "xy"}, {"x", "y "},
                                            {"x", ""},  {"", "y"},  {"", ""},   {"x,", "y"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct metric_series *other = metric_resolve(family, others[i]);
        assert_ptr_not_equal(other, series);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(other, metric_resolve(family, others[j]));
    }
    metric_registry_free(&registry);
}

/* Values of every length, so that each way through the hash is taken. */
static void test_values_of_all_lengths(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 1000);
    struct metric_family *family = counter(registry, "a", "b");
    char text[200];
    memset(text, 'z', sizeof text);
    for (size_t length = 0; length < sizeof text; length++) {
        char value[200];
        memcpy(value, text, length);
        value[length] = '\0';
        bump(family, value, "1", length + 1);
    }
    assert_int_equal(count_lines(registry, "c_total{"), 200);
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    for (size_t length = 0; length < sizeof text; length++) {
        char line[300];
        snprintf(line, sizeof line, "c_total{a=\"%.*s\",b=\"1\"} %zu", (int)length, text,
                 length + 1);
        assert_has_line(out.data, line);
    }
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_growth_keeps_every_series(void **state)
{
    (void)state;
    enum { N = 5000 };
    static struct metric_series *kept[N];
    struct metric_registry *registry = registry_with(2, N);
    struct metric_family *family = counter(registry, "a", "b");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            char value[16];
            snprintf(value, sizeof value, "%d", i);
            struct metric_series *series = metric_resolve(family, VALUES("same", value));
            if (round == 0)
                kept[i] = series;
            assert_ptr_equal(series, kept[i]);
            metric_add(series, (uint64_t)i);
        }
    }
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    const char *line = strchr(strchr(out.data, '\n') + 1, '\n') + 1;
    for (int i = 0; i < N; i++) { /* in order of creation */
        char expected[64];
        int length =
            snprintf(expected, sizeof expected, "c_total{a=\"same\",b=\"%d\"} %d\n", i, 3 * i);
        assert_memory_equal(line, expected, (size_t)length);
        line += length;
    }
    assert_int_equal(metric_series_dropped(registry), 0);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

/* Invalid bytes look the same in a scrape, so they must be one series: two lines alike would make
 * Prometheus refuse the scrape. */
static void test_bytes_that_look_alike_are_one_series(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 100);
    struct metric_family *family = counter(registry, "a", "b");
    bump(family, "x\xff", "", 1);
    bump(family, "x\xfe", "", 2);
    bump(family, "x\xef\xbf\xbd", "", 4);
    assert_int_equal(count_lines(registry, "c_total{"), 1);
    assert_true(scraped(registry, "c_total{a=\"x\xef\xbf\xbd\",b=\"\"}") == 7);
    metric_registry_free(&registry);
}

static void test_open_labels_fold_and_closed_ones_stay(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 3);
    struct metric_family *family = counter(registry, "*who", "outcome");
    bump(family, "one", "ok", 1);
    bump(family, "two", "ok", 1);
    bump(family, "three", "ok", 1);
    assert_int_equal(metric_series_dropped(registry), 0);
    bump(family, "four", "ok", 10);
    bump(family, "five", "ok", 20);
    bump(family, "six", "failed", 40);
    bump(family, "one", "ok", 1); /* what is there goes on */
    assert_int_equal(metric_series_dropped(registry), 3);
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    assert_has_line(out.data, "c_total{who=\"one\",outcome=\"ok\"} 2");
    assert_has_line(out.data, "c_total{who=\"other\",outcome=\"ok\"} 30");
    assert_has_line(out.data, "c_total{who=\"other\",outcome=\"failed\"} 40");
    assert_null(strstr(out.data, "who=\"other\",outcome=\"other\""));
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_without_open_labels_all_become_other(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 1);
    struct metric_family *family = counter(registry, "who", "outcome");
    bump(family, "one", "ok", 1);
    assert_hidden(registry, "other");
    bump(family, "two", "ok", 2);
    bump(family, "three", "failed", 3);
    assert_true(scraped(registry, "c_total{who=\"other\",outcome=\"other\"}") == 5);
    assert_int_equal(count_lines(registry, "c_total{"), 2);
    assert_int_equal(metric_series_dropped(registry), 2);
    metric_registry_free(&registry);
}

/* Closed labels that are not closed after all: 2 * cap + 1 series and no more. */
static void test_folding_is_bounded_too(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 10);
    struct metric_family *family = counter(registry, "*who", "outcome");
    for (int i = 0; i < 1000; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", i);
        bump(family, value, value, 1);
    }
    assert_int_equal(count_lines(registry, "c_total{"), 21);
    assert_true(scraped(registry, "c_total{who=\"other\",outcome=\"other\"}") == 980);
    assert_int_equal(metric_series_dropped(registry), 990);
    metric_registry_free(&registry);
}

static void test_invalid_bytes_fold_too(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 1);
    struct metric_family *family = counter(registry, "*who", "outcome");
    bump(family, "one", "ok", 1);
    bump(family, "\xff", "ok", 2);
    assert_true(scraped(registry, "c_total{who=\"other\",outcome=\"ok\"}") == 2);
    metric_registry_free(&registry);
}

static void test_other_by_name_is_no_loss(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 1);
    struct metric_family *family = counter(registry, "*who", "outcome");
    bump(family, "one", "ok", 1);
    bump(family, "other", "ok", 2); /* over the cap, but what was asked for */
    assert_int_equal(metric_series_dropped(registry), 0);
    bump(family, "two", "ok", 4);
    assert_int_equal(metric_series_dropped(registry), 1);
    assert_true(scraped(registry, "c_total{who=\"other\",outcome=\"ok\"}") == 6);
    metric_registry_free(&registry);
}

static void test_a_cap_of_nothing(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 0);
    struct metric_family *family = counter(registry, "*who", "outcome");
    bump(family, "one", "ok", 1);
    assert_true(scraped(registry, "c_total{who=\"other\",outcome=\"other\"}") == 1);
    assert_int_equal(metric_series_dropped(registry), 1);
    metric_registry_free(&registry);
}

static void test_retired_series_disappear_and_come_back(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 100);
    struct metric_family *family = counter(registry, "*who", "outcome");
    struct metric_family *gauge = must_register(
        registry, &(struct metric_desc){
                      .name = "g", .type = METRIC_GAUGE, .help = "h", .labels = {"x", "who"}});
    struct metric_series *kept = metric_resolve(family, VALUES("gone", "ok"));
    metric_add(kept, 5);
    bump(family, "gone", "failed", 1);
    bump(family, "stays", "gone", 1); /* another label's value */
    metric_gauge_set(metric_resolve(gauge, VALUES("1", "gone")), 3);
    metric_retire(registry, "who", "gone");
    metric_retire(registry, "who", "gone"); /* twice is once */
    metric_retire(registry, "no_such_label", "gone");
    assert_hidden(registry, "who=\"gone\"");
    assert_hidden(registry, "# TYPE g"); /* a family without series is not shown */
    assert_int_equal(count_lines(registry, "c_total{"), 1);
    metric_add(kept, 2); /* the pointer stays good */
    assert_hidden(registry, "who=\"gone\"");
    assert_ptr_equal(metric_resolve(family, VALUES("gone", "ok")), kept);
    assert_true(scraped(registry, "c_total{who=\"gone\",outcome=\"ok\"}") == 7);
    assert_int_equal(count_lines(registry, "c_total{"), 2);
    metric_registry_free(&registry);
}

static void test_one_series_is_retired_by_all_of_its_values(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 100);
    struct metric_family *family = counter(registry, "*who", "outcome");
    bump(family, "a", "ok", 1);
    bump(family, "a", "failed", 2);
    metric_retire_exact(family, VALUES("a", "ok"));
    metric_retire_exact(family, VALUES("a", "ok"));     /* twice is once */
    metric_retire_exact(family, VALUES("never", "ok")); /* there is none, and none is made */
    assert_int_equal(count_lines(registry, "c_total{"), 1);
    assert_true(scraped(registry, "c_total{who=\"a\",outcome=\"failed\"}") == 2);
    bump(family, "a", "ok", 1);
    assert_true(scraped(registry, "c_total{who=\"a\",outcome=\"ok\"}") == 2);
    metric_registry_free(&registry);
}

static void test_many_values_are_retired_in_one_walk(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 100);
    struct metric_family *family = counter(registry, "*who", "outcome");
    for (char who[] = "a"; who[0] <= 'f'; who[0]++)
        bump(family, who, "ok", 1);
    metric_retire_all(registry, "who", (const char *const[]){"a", "c", "d", "not here"}, 4);
    assert_int_equal(count_lines(registry, "c_total{"), 3);
    assert_hidden(registry, "who=\"c\"");
    assert_true(scraped(registry, "c_total{who=\"b\",outcome=\"ok\"}") == 1);
    metric_registry_free(&registry);
}

static void test_retired_series_make_room(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 2);
    struct metric_family *family = counter(registry, "*who", "outcome");
    for (int i = 0; i < 50; i++) { /* a configuration that changes its agents again and again */
        char value[16];
        snprintf(value, sizeof value, "agent-%d", i);
        bump(family, value, "ok", 1);
        bump(family, value, "failed", 1);
        assert_int_equal(metric_series_dropped(registry), 0);
        metric_retire(registry, "who", value);
    }
    bump(family, "a", "ok", 1);
    bump(family, "b", "ok", 1);
    bump(family, "agent-7", "ok", 1); /* no room to come back */
    assert_int_equal(metric_series_dropped(registry), 1);
    assert_hidden(registry, "agent-7");
    assert_true(scraped(registry, "c_total{who=\"other\",outcome=\"ok\"}") == 1);
    metric_registry_free(&registry);
}

static void test_a_family_without_labels_is_there_from_the_start(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 0);
    struct metric_family *family = must_register(
        registry, &(struct metric_desc){.name = "c_total", .type = METRIC_COUNTER, .help = "h"});
    assert_true(scraped(registry, "c_total") == 0);
    assert_ptr_equal(metric_resolve(family, NULL), metric_resolve(family, VALUES(NULL)));
    metric_add(metric_resolve(family, NULL), 3);
    assert_true(scraped(registry, "c_total") == 3);
    assert_int_equal(metric_series_dropped(registry), 0);
    metric_registry_free(&registry);
}

static struct metric_series *hooked;
static void set_hooked(void *arg)
{
    metric_gauge_add(hooked, *(double *)arg);
}

static void test_hooks_run_before_a_scrape_reads(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(1, 1);
    hooked = metric_resolve(
        must_register(registry,
                      &(struct metric_desc){.name = "g", .type = METRIC_GAUGE, .help = "h"}),
        NULL);
    double one = 1, ten = 10;
    assert_true(metric_on_scrape(registry, set_hooked, &one));
    assert_true(metric_on_scrape(registry, set_hooked, &ten));
    assert_true(scraped(registry, "g") == 11);
    assert_true(scraped(registry, "g") == 22);
    metric_registry_free(&registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_labels_are_the_same_series),
        cmocka_unit_test(test_values_of_all_lengths),
        cmocka_unit_test(test_growth_keeps_every_series),
        cmocka_unit_test(test_bytes_that_look_alike_are_one_series),
        cmocka_unit_test(test_open_labels_fold_and_closed_ones_stay),
        cmocka_unit_test(test_without_open_labels_all_become_other),
        cmocka_unit_test(test_folding_is_bounded_too),
        cmocka_unit_test(test_invalid_bytes_fold_too),
        cmocka_unit_test(test_other_by_name_is_no_loss),
        cmocka_unit_test(test_a_cap_of_nothing),
        cmocka_unit_test(test_retired_series_disappear_and_come_back),
        cmocka_unit_test(test_one_series_is_retired_by_all_of_its_values),
        cmocka_unit_test(test_many_values_are_retired_in_one_walk),
        cmocka_unit_test(test_retired_series_make_room),
        cmocka_unit_test(test_a_family_without_labels_is_there_from_the_start),
        cmocka_unit_test(test_hooks_run_before_a_scrape_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
