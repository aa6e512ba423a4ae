/* SPDX-License-Identifier: Apache-2.0 */
/* wraps: malloc calloc realloc aligned_alloc strdup pthread_mutex_lock */
/*
 * prom.h without memory, and what it takes: every allocation of a whole life fails once, where the
 * leak checker of the address sanitizer judges what is left; observations take neither memory nor a
 * lock; and metrics come between two looks of a scrape, at the allocation that it makes there.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/prom/prom.h"
#include "tests/support/unit.h"

#define LABELS(...) ((const char *[]){__VA_ARGS__})

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

static size_t allocations, locks;
static size_t fail_at;              /* the allocation that fails, counted from 1; 0: none */
static void (*at_allocation)(void); /* called at each; NULL: nothing */

static bool fails(void)
{
    void (*call)(void) = at_allocation;
    at_allocation = NULL;
    if (call)
        call();
    at_allocation = call;
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

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    locks++;
    return __real_pthread_mutex_lock(mutex);
}

static void count_from(size_t failing)
{
    allocations = 0;
    locks = 0;
    fail_at = failing;
}

/* ---- what an observation takes -------------------------------------------------------------- */

/* Faults of prometheus-client-c: 31 locks and 71 allocations for one observation. */
static void test_an_observation_takes_no_lock_and_no_memory(void **state)
{
    (void)state;
    count_from(0);
    prom_counter_t *counter = prom_counter_new("c_total", "h", 2, LABELS("a", "b"));
    prom_gauge_t *gauge = prom_gauge_new("g", "h", 1, LABELS("a"));
    prom_histogram_t *histogram = prom_histogram_new("h", "h", NULL, 1, LABELS("a"));
    prom_metric_sample_t *sample = prom_metric_sample_from_labels(counter, LABELS("1", "2"));
    prom_metric_sample_histogram_t *observed =
        prom_metric_sample_histogram_from_labels(histogram, LABELS("1"));
    assert_int_equal(prom_gauge_set(gauge, 1, LABELS("1")), 0);
    assert_true(allocations > 10 && locks > 2); /* what is counted is really counted */
    count_from(0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(prom_counter_inc(counter, LABELS("1", "2")), 0);
        assert_int_equal(prom_counter_add(counter, 0.5, LABELS("1", "2")), 0);
        assert_int_equal(prom_metric_sample_add(sample, i), 0);
        assert_int_equal(prom_gauge_add(gauge, i, LABELS("1")), 0);
        assert_int_equal(prom_histogram_observe(histogram, i, LABELS("1")), 0);
        assert_int_equal(prom_metric_sample_histogram_observe(observed, i), 0);
    }
    assert_int_equal(allocations, 0);
    assert_int_equal(locks, 0);
    prom_counter_destroy(counter);
    prom_gauge_destroy(gauge);
    prom_histogram_destroy(histogram);
}

/* ---- without memory ------------------------------------------------------------------------- */

static prom_histogram_t *make_histogram(void)
{
    prom_histogram_buckets_t *buckets = prom_histogram_buckets_new(2, 1.0, 2.0);
    prom_histogram_t *histogram =
        buckets ? prom_histogram_new("h", "h", buckets, 1, LABELS("a")) : NULL;
    if (!histogram)
        prom_histogram_buckets_destroy(buckets);
    return histogram;
}

/* What a program does with what it was given, or was not given; how many calls failed. */
static int live(prom_collector_registry_t *registry)
{
    prom_collector_t *collector = prom_collector_new("c");
    prom_metric_t *metrics[] = {prom_counter_new("c_total", "h", 1, LABELS("a")), make_histogram()};
    int failed = prom_counter_inc(metrics[0], LABELS("1"));
    failed += prom_counter_inc(metrics[0], LABELS("\xff"));
    failed += prom_histogram_observe(metrics[1], 1, LABELS("1"));
    for (size_t i = 0; i < 2; i++) {
        const int refused = prom_collector_add_metric(collector, metrics[i]);
        failed += refused;
        if (refused != 0)
            prom_counter_destroy(metrics[i]);
    }
    const int refused = prom_collector_registry_register_collector(registry, collector);
    if (refused != 0)
        prom_collector_destroy(collector);
    failed += refused + prom_collector_registry_enable_process_metrics(registry);
    char *text = (char *)(size_t)prom_collector_registry_bridge(registry);
    failed += !text;
    free(text);
    return failed;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    size_t n = 0;
    do {
        count_from(++n);
        prom_collector_registry_t *registry = prom_collector_registry_new("r");
        const int failed = live(registry);
        assert_int_equal(failed > 0, allocations >= n);
        prom_collector_registry_destroy(registry);
    } while (allocations >= n);
    assert_true(n > 100);
    count_from(0);
}

static void test_every_allocation_of_the_default_registry_may_fail(void **state)
{
    (void)state;
    size_t n = 0;
    do {
        count_from(++n);
    } while (prom_collector_registry_default_init() != 0);
    assert_true(n > 50);
    count_from(0);
    char *text = (char *)(size_t)prom_collector_registry_bridge(PROM_COLLECTOR_REGISTRY_DEFAULT);
    assert_non_null(strstr(text, "\nprocess_threads "));
    free(text);
    prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);
}

/* ---- while a scrape begins ------------------------------------------------------------------ */

static prom_collector_t *early;
static int came;

static void come(void)
{
    for (int i = 0; i < 20 && came < 60; i++, came++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", came);
        assert_int_equal(prom_collector_add_metric(early, prom_gauge_new(name, "h", 0, NULL)), 0);
    }
}

/* A metric that one scrape lacks reads as one that has ended. */
static void test_nothing_is_missing_while_many_come(void **state)
{
    (void)state;
    count_from(0);
    prom_collector_registry_t *registry = prom_collector_registry_new("r");
    prom_collector_t *late = prom_collector_new("late");
    early = prom_collector_new("early");
    assert_int_equal(prom_collector_registry_register_collector(registry, early), 0);
    assert_int_equal(prom_collector_registry_register_collector(registry, late), 0);
    assert_int_equal(prom_collector_add_metric(late, prom_gauge_new("always", "h", 0, NULL)), 0);
    at_allocation = come;
    char *text = (char *)(size_t)prom_collector_registry_bridge(registry);
    at_allocation = NULL;
    assert_int_equal(came, 60);
    assert_non_null(strstr(text, "\nalways 0\n"));
    free(text);
    prom_collector_registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_observation_takes_no_lock_and_no_memory),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_every_allocation_of_the_default_registry_may_fail),
        cmocka_unit_test(test_nothing_is_missing_while_many_come),
    };
    return RUN_TESTS(tests);
}
