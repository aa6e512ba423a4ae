/* SPDX-License-Identifier: Apache-2.0 */
/* UUIDv7 from RFC 9562: the layout of section 5.7, the example of appendix A.6, and the order. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/uuid.h"

static void fill_ones(const struct base_random *random, void *bytes, size_t size)
{
    (void)random;
    memset(bytes, 0xFF, size);
}

static const struct base_random ones = {fill_ones};

static void test_layout(void **state)
{
    struct base_manual_clock manual;
    struct base_uuid_source source;
    char text[BASE_UUID_TEXT];
    (void)state;
    base_manual_clock_init(&manual, 0x017F22E279B0);
    base_uuid_source_init(&source, &manual.clock, &ones);
    struct base_uuid uuid = base_uuid_make(&source);
    base_uuid_format(&uuid, text);
    assert_string_equal(text, "017f22e2-79b0-77ff-bfff-ffffffffffff");
    assert_int_equal(base_uuid_wall_ms(&uuid), 0x017F22E279B0);
    uuid = base_uuid_make(&source); /* same millisecond: the counter goes on */
    base_uuid_format(&uuid, text);
    assert_string_equal(text, "017f22e2-79b0-7800-bfff-ffffffffffff");
}

static void test_example_of_the_rfc(void **state)
{
    struct base_uuid uuid;
    char text[BASE_UUID_TEXT];
    (void)state;
    assert_true(base_uuid_parse("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", 36, &uuid));
    assert_int_equal(base_uuid_wall_ms(&uuid), 1645557742000);
    base_uuid_format(&uuid, text);
    assert_string_equal(text, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
}

static void test_what_is_not_a_uuid(void **state)
{
    struct base_uuid uuid;
    (void)state;
    assert_false(base_uuid_parse("", 0, &uuid));
    assert_false(base_uuid_parse("017f22e2-79b0-7cc3-98c4-dc0c0c07398", 35, &uuid));
    assert_false(base_uuid_parse("017f22e2-79b0-7cc3-98c4-dc0c0c07398g", 36, &uuid));
    assert_false(base_uuid_parse("017f22e2079b0-7cc3-98c4-dc0c0c07398f", 36, &uuid));
    assert_false(base_uuid_parse("{17f22e2-79b0-7cc3-98c4-dc0c0c07398f", 36, &uuid));
}

/* 10,000 in one millisecond overflow the counter of 12 bits; the clock may also step back. */
static void test_order_survives_overflow_and_a_step_back(void **state)
{
    struct base_manual_clock manual;
    struct base_uuid_source source;
    struct base_uuid last = {{0}};
    (void)state;
    base_manual_clock_init(&manual, 1700000000000);
    base_uuid_source_init(&source, &manual.clock, NULL);
    for (int i = 0; i < 20000; i++) {
        if (i == 10000)
            base_manual_clock_advance(&manual, -5000);
        struct base_uuid next = base_uuid_make(&source);
        assert_true(memcmp(&next, &last, sizeof next) > 0);
        assert_int_equal(next.bytes[6] >> 4, 7);
        assert_int_equal(next.bytes[8] >> 6, 2);
        last = next;
    }
    base_manual_clock_advance(&manual, 10000);
    last = base_uuid_make(&source);
    assert_int_equal(base_uuid_wall_ms(&last), 1700000005000);
}

enum { THREADS = 4, EACH = 20000 };

struct maker {
    pthread_t thread;
    struct base_uuid_source *source;
    struct base_uuid made[EACH];
};

static void *make_many(void *argument)
{
    struct maker *maker = argument;
    for (int i = 0; i < EACH; i++)
        maker->made[i] = base_uuid_make(maker->source);
    return NULL;
}

static int by_time(const void *a, const void *b) /* version, milliseconds and counter: 8 bytes */
{
    return memcmp(a, b, 8);
}

static void test_threads_never_share_a_tick(void **state)
{
    static struct maker makers[THREADS];
    static struct base_uuid all[THREADS * EACH];
    struct base_uuid_source source;
    (void)state;
    base_uuid_source_init(&source, NULL, NULL);
    for (int t = 0; t < THREADS; t++) {
        makers[t].source = &source;
        assert_int_equal(pthread_create(&makers[t].thread, NULL, make_many, &makers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(makers[t].thread, NULL);
        for (int i = 1; i < EACH; i++)
            assert_true(memcmp(&makers[t].made[i - 1], &makers[t].made[i], 16) < 0);
        memcpy(all + t * EACH, makers[t].made, sizeof makers[t].made);
    }
    qsort(all, THREADS * EACH, sizeof *all, by_time);
    for (int i = 1; i < THREADS * EACH; i++)
        assert_true(by_time(&all[i - 1], &all[i]) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_example_of_the_rfc),
        cmocka_unit_test(test_what_is_not_a_uuid),
        cmocka_unit_test(test_order_survives_overflow_and_a_step_back),
        cmocka_unit_test(test_threads_never_share_a_tick),
    };
    return RUN_TESTS(tests);
}
