/* SPDX-License-Identifier: Apache-2.0 */
/* wraps: malloc calloc realloc aligned_alloc free pthread_mutex_lock pthread_mutex_trylock */
/*
 * What allocations and locks happen, counted by standing between our code and the library; and
 * every allocation failing once, in every function that makes one. The leak checker of the address
 * sanitizer judges what is left behind.
 */
#include "tests/unit/metric_support.h"

#include <pthread.h>

#include "collectors/collectors.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);

static size_t allocations, locks;
static size_t fail_at; /* the allocation that fails, counted from 1; 0: none */

static bool fails(void)
{
    return ++allocations == fail_at;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

void __wrap_free(void *memory)
{
    __real_free(memory);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    locks++;
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    locks++;
    return __real_pthread_mutex_trylock(mutex);
}

static void count_from(size_t failing)
{
    allocations = 0;
    locks = 0;
    fail_at = failing;
}

static const double bounds[] = {0.1, 1, 10};

static const struct metric_desc histogram_desc = {.name = "h_seconds",
                                                  .type = METRIC_HISTOGRAM,
                                                  .unit = "seconds",
                                                  .help = "h",
                                                  .labels = {"*who", "how"},
                                                  .bounds = bounds,
                                                  .nbounds = 3,
                                                  .native = {3, -20, 6},
                                                  .flags = METRIC_EXEMPLARS};
static const struct metric_desc counter_desc = {.name = "c_total",
                                                .type = METRIC_COUNTER,
                                                .help = "h",
                                                .labels = {"*who"},
                                                .flags = METRIC_EXEMPLARS};
static const struct metric_desc gauge_desc = {.name = "g", .type = METRIC_GAUGE, .help = "h"};

/* Faults of prometheus-client-c: 31 locks and 71 allocations for one observation. */
static void test_an_observation_takes_no_lock_and_no_memory(void **state)
{
    (void)state;
    count_from(0);
    struct metric_registry *registry = registry_with(2, 10);
    struct metric_family *counter = must_register(registry, &counter_desc);
    struct metric_family *histogram = must_register(registry, &histogram_desc);
    struct metric_series *c = metric_resolve(counter, VALUES("x"));
    struct metric_series *g = metric_resolve(must_register(registry, &gauge_desc), NULL);
    struct metric_series *h = metric_resolve(histogram, VALUES("x", "y"));
    assert_true(allocations > 10 && locks > 3); /* what is counted is really counted */
    const struct metric_exemplar exemplar = {1, VALUES("id"), VALUES("abc")};
    count_from(0);
    for (int i = 0; i < 1000; i++) {
        metric_add(c, 1);
        metric_mirror(c, i);
        metric_gauge_set(g, 0.5);
        metric_gauge_add(g, 0.5);
        metric_observe(h, i);
        metric_add_exemplar(c, 1, &exemplar);
        metric_observe_exemplar(h, i, &exemplar);
        assert_ptr_equal(metric_resolve(histogram, VALUES("x", "y")), h); /* nor does finding one */
    }
    assert_int_equal(allocations, 0);
    assert_int_equal(locks, 0);
    metric_registry_free(&registry);
}

static void test_a_scrape_allocates_nothing_for_a_series(void **state)
{
    (void)state;
    struct metric_registry *registry = registry_with(2, 1000);
    struct metric_family *counter = must_register(registry, &counter_desc);
    struct metric_family *histogram = must_register(registry, &histogram_desc);
    for (int i = 0; i < 500; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", i);
        metric_add(metric_resolve(counter, VALUES(value)), 1);
        metric_observe(metric_resolve(histogram, VALUES(value, "y")), 0.1 * i);
    }
    struct metric_buffer out = {0};
    for (int format = METRIC_TEXT; format <= METRIC_OPENMETRICS_2; format++) {
        struct metric_scrape_options options = {.format = (enum metric_format)format};
        for (int round = 0; round < 2; round++) {
            out.length = 0;
            count_from(0);
            struct metric_scrape *scrape = metric_scrape_begin(registry, &options);
            assert_true(allocations > 0 && allocations <= 4); /* the iterator itself */
            while (metric_scrape_step(scrape, &out, 10000)) {
            }
            if (round ==
                1) /* the buffer has its size; a message of protobuf doubles up to its own */
                assert_true(allocations <= (format == METRIC_PROTOBUF ? 4 + 10 : 4));
            metric_scrape_end(&scrape);
        }
    }
    metric_buffer_free(&out);
    metric_registry_free(&registry);
}

static void test_every_allocation_of_a_registry_may_fail(void **state)
{
    (void)state;
    size_t n = 0;
    struct metric_registry *registry;
    do {
        count_from(++n);
        registry = metric_registry_new(&(struct metric_registry_options){2, 10});
        if (registry == NULL)
            assert_int_equal(allocations, n);
    } while (registry == NULL);
    assert_true(n > 1);
    count_from(1);
    assert_false(metric_on_scrape(registry, NULL, NULL));
    count_from(0);
    metric_registry_free(&registry);
}

static void test_every_allocation_of_a_registration_may_fail(void **state)
{
    (void)state;
    static const struct metric_desc *const descs[] = {&histogram_desc, &counter_desc, &gauge_desc};
    for (size_t i = 0; i < 3; i++) {
        count_from(0);
        struct metric_registry *registry = registry_with(2, 10);
        struct metric_family *family;
        size_t n = 0;
        do {
            count_from(++n);
            struct metric_error error;
            family = metric_register(registry, descs[i], &error);
            if (family == NULL)
                assert_int_equal(error.code, METRIC_ERR_MEMORY);
        } while (family == NULL);
        assert_true(n > 6);
        count_from(0);
        struct metric_buffer out = scrape_all(registry, METRIC_TEXT); /* whole, and only once */
        metric_buffer_free(&out);
        metric_registry_free(&registry);
    }
}

/* One allocation of a resolution fails: the answer is an "other", counted as dropped, and the next
 * try gives the series itself. false: the resolution has fewer allocations. */
static bool resolve_failing_at(size_t n, const char *who, const char *cleaned)
{
    count_from(0);
    struct metric_registry *registry = registry_with(2, 100);
    struct metric_family *family = must_register(registry, &histogram_desc);
    count_from(n);
    metric_observe(metric_resolve(family, VALUES(who, "y")), 1);
    bool failed = allocations >= n;
    count_from(0);
    struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
    assert_int_equal(strstr(out.data, "who=\"other\"") != NULL, failed);
    assert_int_equal(metric_series_dropped(registry), failed);
    metric_buffer_free(&out);
    metric_observe(metric_resolve(family, VALUES(who, "y")), 1);
    char head[128];
    snprintf(head, sizeof head, "h_seconds_count{who=\"%s\",how=\"y\"}", cleaned);
    assert_true(scraped(registry, head) == (failed ? 1 : 2));
    metric_registry_free(&registry);
    return failed;
}

static void test_every_allocation_of_a_resolution_may_fail(void **state)
{
    (void)state;
    size_t n = 1;
    while (resolve_failing_at(n, "x", "x"))
        n++;
    assert_true(n > 2);
    size_t with_cleaning = 1;
    while (resolve_failing_at(with_cleaning, "\xff", "\xef\xbf\xbd"))
        with_cleaning++;
    assert_int_equal(with_cleaning, n + 1);
}

/* Many series, an allocation failing at random places: nothing is lost, whatever it is counted as.
 */
static void test_observations_survive_without_memory(void **state)
{
    (void)state;
    for (size_t n = 1; n < 60; n++) {
        count_from(0);
        struct metric_registry *registry = registry_with(1, 1000);
        struct metric_family *family = must_register(registry, &counter_desc);
        count_from(n);
        for (int i = 0; i < 100; i++) {
            char value[16];
            snprintf(value, sizeof value, "%d", i);
            metric_add(metric_resolve(family, VALUES(value)), 1);
        }
        count_from(0);
        struct metric_buffer out = scrape_all(registry, METRIC_TEXT);
        uint64_t sum = 0;
        for (const char *at = out.data; (at = strstr(at, "\"} ")) != NULL; at++)
            sum += strtoull(at + 3, NULL, 10);
        assert_int_equal(sum, 100);
        assert_int_equal(metric_series_dropped(registry), 1);
        metric_buffer_free(&out);
        metric_registry_free(&registry);
    }
}

static void test_every_allocation_of_a_scrape_may_fail(void **state)
{
    (void)state;
    count_from(0);
    struct metric_registry *registry = registry_with(2, 1000);
    struct metric_family *family = must_register(registry, &histogram_desc);
    for (int i = 0; i < 100; i++) {
        char value[16];
        snprintf(value, sizeof value, "%d", i);
        metric_observe(metric_resolve(family, VALUES(value, "y")), 0.1 * i);
    }
    for (int format = METRIC_TEXT; format <= METRIC_PROTOBUF; format++) {
        struct metric_scrape_options options = {.format = (enum metric_format)format};
        bool whole = false;
        for (size_t n = 1; !whole; n++) {
            struct metric_buffer out = {0};
            count_from(n);
            struct metric_scrape *scrape = metric_scrape_begin(registry, &options);
            if (scrape != NULL) {
                while (metric_scrape_step(scrape, &out, 1000)) {
                }
                whole = !out.failed;
                assert_int_equal(out.failed, allocations >= n);
                assert_false(metric_scrape_step(scrape, &out, 1000)); /* and it stays at its end */
            }
            metric_scrape_end(&scrape);
            metric_buffer_free(&out);
        }
    }
    count_from(0);
    metric_registry_free(&registry);
}

static void test_every_allocation_of_the_collectors_may_fail(void **state)
{
    (void)state;
    struct collectors *collectors = NULL;
    size_t failures = 0;
    for (size_t n = 1;; n++) {
        count_from(n);
        collectors = collectors_new(
            &(struct collectors_options){.version = "1", .threads = 1, .max_series = 10});
        bool untouched = allocations < n;
        count_from(0);
        failures += collectors == NULL;
        collectors_free(&collectors);
        if (untouched)
            break;
    }
    assert_true(failures > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_observation_takes_no_lock_and_no_memory),
        cmocka_unit_test(test_a_scrape_allocates_nothing_for_a_series),
        cmocka_unit_test(test_every_allocation_of_a_registry_may_fail),
        cmocka_unit_test(test_every_allocation_of_a_registration_may_fail),
        cmocka_unit_test(test_every_allocation_of_a_resolution_may_fail),
        cmocka_unit_test(test_observations_survive_without_memory),
        cmocka_unit_test(test_every_allocation_of_a_scrape_may_fail),
        cmocka_unit_test(test_every_allocation_of_the_collectors_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
