/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers, scrapers, new series and retirements at once. Run under the thread sanitizer these tests
 * also show that nothing is read without order. cmocka's assertions are for the main thread only,
 * so the others return what they found.
 */
#include "tests/unit/metric_decoder.h"

#include <pthread.h>
#include <stdatomic.h>

#include "lib/metrics/cells.h"

enum { WRITERS = 4, ROUNDS = 20000 };

static const double bounds[] = {0.001, 0.01, 0.1, 1, 10};

static struct metric_family *add_histogram(struct metric_registry *registry)
{
    return must_register(registry, &(struct metric_desc){.name = "h_seconds",
                                                         .type = METRIC_HISTOGRAM,
                                                         .unit = "seconds",
                                                         .help = "h",
                                                         .labels = {"*who"},
                                                         .bounds = bounds,
                                                         .nbounds = 5,
                                                         .native = {3, -20, 6},
                                                         .flags = METRIC_EXEMPLARS});
}

static struct metric_family *add_counter(struct metric_registry *registry)
{
    return must_register(
        registry, &(struct metric_desc){
                      .name = "c_total", .type = METRIC_COUNTER, .help = "h", .labels = {"*who"}});
}

static void start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    assert_int_equal(pthread_create(thread, NULL, run, arg), 0);
}

/* ---- no count is lost ----------------------------------------------------------------------- */

struct work {
    struct metric_series *counter;
    struct metric_series *gauge;
    struct metric_series *histogram;
    int rounds;
};

static void *work(void *arg)
{
    const struct work *work = arg;
    for (int i = 0; i < work->rounds; i++) {
        metric_add(work->counter, 2);
        metric_gauge_add(work->gauge, i % 2 == 0 ? 1 : -1);
        metric_observe(work->histogram, 0.0078125 * (i % 4));
    }
    return NULL;
}

static struct work make_work(struct metric_registry *registry, int rounds)
{
    struct metric_family *gauge = must_register(
        registry, &(struct metric_desc){.name = "g", .type = METRIC_GAUGE, .help = "h"});
    return (struct work){.counter = metric_resolve(add_counter(registry), VALUES("x")),
                         .gauge = metric_resolve(gauge, NULL),
                         .histogram = metric_resolve(add_histogram(registry), VALUES("x")),
                         .rounds = rounds};
}

static void expect_work(struct metric_registry *registry, uint64_t rounds)
{
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    assert_true(sample(out.data, "c_total{who=\"x\"}") == (double)(2 * rounds));
    assert_true(sample(out.data, "g") == 0);
    assert_true(sample(out.data, "h_seconds_count{who=\"x\"}") == (double)rounds);
    assert_true(sample(out.data, "h_seconds_bucket{who=\"x\",le=\"0.01\"}") == (double)rounds / 2);
    assert_true(sample(out.data, "h_seconds_sum{who=\"x\"}") ==
                0.0078125 * (0 + 1 + 2 + 3) * (double)rounds / 4);
    metric_buffer_free(&out);
}

static void count_with(unsigned exclusive)
{
    struct metric_registry *registry = registry_with(exclusive, 10);
    struct work shared = make_work(registry, ROUNDS);
    pthread_t threads[WRITERS];
    for (size_t i = 0; i < WRITERS; i++)
        start(&threads[i], work, &shared);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    expect_work(registry, (uint64_t)WRITERS * ROUNDS);
    metric_registry_free(&registry);
}

static void test_no_count_is_lost(void **state)
{
    (void)state;
    count_with(WRITERS + 1); /* each thread has cells of its own */
    count_with(2);           /* some share */
    count_with(0);           /* all share */
    count_with(100000);      /* more than there can be */
}

/* Threads that come and go hand their cells on: many more threads than slots. */
static void test_slots_are_handed_on(void **state)
{
    (void)state;
    enum { GENERATIONS = 400, AT_ONCE = 3, EACH = 8 };
    struct metric_registry *registry = registry_with(AT_ONCE + 1, 10);
    struct work shared = make_work(registry, EACH);
    for (int generation = 0; generation < GENERATIONS; generation++) {
        pthread_t threads[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++)
            start(&threads[i], work, &shared);
        for (size_t i = 0; i < AT_ONCE; i++)
            pthread_join(threads[i], NULL);
    }
    expect_work(registry, (uint64_t)GENERATIONS * AT_ONCE * EACH);
    metric_registry_free(&registry);
}

/* The destructor of another key may observe after ours has given the slot back. */
static pthread_key_t late_key;

static void observe_late(void *arg)
{
    work(arg);
}

static void *observe_and_end(void *arg)
{
    work(arg); /* takes a slot, whose key's destructor runs before or after observe_late */
    pthread_setspecific(late_key, arg);
    return NULL;
}

static void test_observing_while_the_thread_ends(void **state)
{
    (void)state;
    enum { THREADS = 600, EACH = 4 }; /* more than there are slots: a leak would show as sharing */
    assert_int_equal(pthread_key_create(&late_key, observe_late), 0);
    struct metric_registry *registry = registry_with(2, 10);
    struct work shared = make_work(registry, EACH);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        start(&thread, observe_and_end, &shared);
        pthread_join(thread, NULL);
    }
    expect_work(registry, (uint64_t)2 * THREADS * EACH);
    assert_true(metric_cells_shard(METRIC_SLOTS_MAX) < 3); /* the slots were given back */
    pthread_key_delete(late_key);
    metric_registry_free(&registry);
}

/* ---- a scrape is consistent while others write ----------------------------------------------- */

static atomic_bool stop;

static void *observe_all_the_time(void *arg)
{
    struct metric_series *series = arg;
    uint64_t random = (uint64_t)(uintptr_t)&random | 1;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        double value = (double)(random >> 40) * 1e-6;
        metric_observe_exemplar(series, value,
                                &(struct metric_exemplar){1, VALUES("id"), VALUES("0123456789")});
    }
    return NULL;
}

/* The buckets of the text form ascend and end at the count. */
static uint64_t check_text(const char *scrape)
{
    static const char *const les[] = {"0.001", "0.01", "0.1", "1", "10", "+Inf"};
    double before = 0;
    for (size_t i = 0; i < 6; i++) {
        char head[64];
        snprintf(head, sizeof head, "h_seconds_bucket{who=\"x\",le=\"%s\"}", les[i]);
        double now = sample(scrape, head);
        assert_true(now >= before);
        before = now;
    }
    assert_true(sample(scrape, "h_seconds_count{who=\"x\"}") == before);
    return (uint64_t)before;
}

static uint64_t check_protobuf(const struct metric_buffer *out)
{
    static struct native native;
    struct message histogram = get_message(get_message(find_family(out, "h_seconds"), 4), 7);
    decode_native(histogram, &native);
    assert_int_equal(native.total, native.sample_count);
    uint64_t last_classic = get_field(nth_message(histogram, 3, 5), 1, 0).varint;
    assert_int_equal(last_classic, native.sample_count);
    return native.sample_count;
}

static void test_buckets_add_up_while_others_observe(void **state)
{
    (void)state;
    atomic_store(&stop, false);
    struct metric_registry *registry = registry_with(2, 10); /* one of them shares */
    struct metric_series *series = metric_resolve(add_histogram(registry), VALUES("x"));
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        start(&threads[i], observe_all_the_time, series);
    uint64_t last = 0;
    for (int i = 0; i < 300; i++) {
        struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
        uint64_t now = check_text(out.data);
        assert_true(now >= last);
        metric_buffer_free(&out);
        out = scrape_all(registry, METRIC_PROTOBUF);
        last = check_protobuf(&out);
        assert_true(last >= now);
        metric_buffer_free(&out);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    metric_registry_free(&registry);
}

/* ---- two scrapers, new series, new families, retirements --------------------------------------
 */

static struct metric_registry *busy;

/* One scrape without cmocka; its text ends as it should. */
static void *scrape_all_the_time(void *arg)
{
    const enum metric_format *format = arg;
    struct metric_scrape_options options = {.format = *format};
    struct metric_buffer out = {0};
    size_t scrapes = 0;
    bool good = true;
    while (good && (!atomic_load(&stop) || scrapes < 3)) {
        out.length = 0;
        struct metric_scrape *scrape = metric_scrape_begin(busy, &options);
        while (metric_scrape_step(scrape, &out, 1000)) {
        }
        metric_scrape_end(&scrape);
        good = !out.failed && out.length > 6;
        if (*format == METRIC_OPENMETRICS)
            good = good && memcmp(out.data + out.length - 6, "# EOF\n", 6) == 0;
        scrapes++;
    }
    metric_buffer_free(&out);
    return good ? arg : NULL;
}

static void *retire_all_the_time(void *arg)
{
    for (unsigned i = 0; !atomic_load(&stop); i = (i + 1) % 100) {
        char value[16];
        snprintf(value, sizeof value, "retired-%u", i);
        metric_retire(busy, "who", value);
    }
    return arg;
}

struct adding {
    struct metric_family *counter;
    struct metric_family *histogram;
};

static void *add_series(void *arg)
{
    const struct adding *adding = arg;
    for (int i = 0; i < 1500; i++) {
        char value[32];
        snprintf(value, sizeof value, "%s-%d", i % 500 % 3 == 0 ? "retired" : "stays", i % 500);
        metric_add(metric_resolve(adding->counter, VALUES(value)), 1);
        metric_observe(metric_resolve(adding->histogram, VALUES(value)), i);
    }
    return arg;
}

static void add_families(void)
{
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "late_%d_total", i);
        metric_add(metric_resolve(must_register(busy, &(struct metric_desc){.name = name,
                                                                            .type = METRIC_COUNTER,
                                                                            .help = "h"}),
                                  NULL),
                   (uint64_t)i);
    }
}

static void test_scraping_while_series_come_and_go(void **state)
{
    (void)state;
    atomic_store(&stop, false);
    busy = registry_with(2, 1000);
    struct adding adding = {add_counter(busy), add_histogram(busy)};
    static enum metric_format formats[] = {METRIC_TEXT, METRIC_OPENMETRICS, METRIC_PROTOBUF};
    pthread_t scrapers[3], adders[2], retirer;
    metric_add(metric_resolve(adding.counter, VALUES("first")), 1);
    for (size_t i = 0; i < 3; i++)
        start(&scrapers[i], scrape_all_the_time, &formats[i]);
    start(&retirer, retire_all_the_time, &adding);
    for (size_t i = 0; i < 2; i++)
        start(&adders[i], add_series, &adding);
    add_families();
    for (size_t i = 0; i < 2; i++)
        pthread_join(adders[i], NULL);
    atomic_store(&stop, true);
    void *result;
    for (size_t i = 0; i < 3; i++) {
        pthread_join(scrapers[i], &result);
        assert_non_null(result);
    }
    pthread_join(retirer, NULL);
    struct metric_buffer out = scrape_all(busy, METRIC_TEXT);
    assert_has_line(out.data, "late_49_total 49");
    assert_true(sample(out.data, "c_total{who=\"stays-1\"}") == 6); /* 3 times by 2 threads */
    assert_true(sample(out.data, "h_seconds_count{who=\"stays-499\"}") == 6);
    assert_int_equal(metric_series_dropped(busy), 0);
    metric_buffer_free(&out);
    metric_registry_free(&busy);
}

/* Threads that resolve the same new label sets at once get the same series. */
static pthread_barrier_t barrier;

static void *resolve_same(void *arg)
{
    const struct adding *adding = arg;
    for (int i = 0; i < 300; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", i);
        pthread_barrier_wait(&barrier);
        metric_add(metric_resolve(adding->counter, VALUES(value)), 1);
    }
    return NULL;
}

static void test_racing_for_the_same_series(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(3, 200); /* the race for the cap as well */
    struct adding adding = {.counter = add_counter(registry)};
    pthread_t threads[3];
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 3), 0);
    for (size_t i = 0; i < 3; i++)
        start(&threads[i], resolve_same, &adding);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    for (int i = 0; i < 200; i++) {
        char line[64];
        snprintf(line, sizeof line, "c_total{who=\"%d\"} 3", i);
        assert_has_line(out.data, line);
    }
    assert_has_line(out.data, "c_total{who=\"other\"} 300");
    assert_int_equal(metric_series_dropped(registry), 300);
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_count_is_lost),
        cmocka_unit_test(test_slots_are_handed_on),
        cmocka_unit_test(test_observing_while_the_thread_ends),
        cmocka_unit_test(test_buckets_add_up_while_others_observe),
        cmocka_unit_test(test_scraping_while_series_come_and_go),
        cmocka_unit_test(test_racing_for_the_same_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
