/* SPDX-License-Identifier: Apache-2.0 */
/* Full jitter: drawn from the whole interval, which doubles up to the cap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/deliver/backoff.h"

/* The contract's defaults: base 1 s, cap 30 s. */
static const struct handoff_backoff defaults = {.base_ms = 1000, .max_ms = 30000};

struct fixed_random {
    struct base_random random;
    uint64_t value;
};

static void fixed_fill(const struct base_random *random, void *bytes, size_t size)
{
    assert_int_equal(size, sizeof(uint64_t));
    memcpy(bytes, &((const struct fixed_random *)(const void *)random)->value, size);
}

static int64_t draw(unsigned failures, uint64_t bits)
{
    struct fixed_random source = {{fixed_fill}, bits};
    return handoff_backoff_draw_ms(&defaults, failures, &source.random);
}

static void test_ceiling_doubles_up_to_the_cap(void **state)
{
    (void)state;
    static const int64_t expected[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(handoff_backoff_ceiling_ms(&defaults, i + 1), expected[i]);
    assert_int_equal(handoff_backoff_ceiling_ms(&defaults, 4000000000u), 30000);
}

static void test_ceiling_cannot_overflow(void **state)
{
    (void)state;
    const struct handoff_backoff endless = {.base_ms = 3, .max_ms = INT64_MAX};
    assert_int_equal(handoff_backoff_ceiling_ms(&endless, 500), INT64_MAX);
}

static void test_no_base_is_no_wait(void **state)
{
    (void)state;
    const struct handoff_backoff none = {.base_ms = 0, .max_ms = 30000};
    assert_int_equal(handoff_backoff_ceiling_ms(&none, 4000000000u), 0);
}

static void test_draw_reaches_both_ends(void **state)
{
    (void)state;
    assert_int_equal(draw(1, 0), 0);
    assert_int_equal(draw(1, 1000), 1000);
    assert_int_equal(draw(1, 1001), 0);
    assert_int_equal(draw(9, 30000), 30000);
}

static void test_draw_is_even(void **state)
{
    (void)state;
    enum { DRAWS = 40000, TENTHS = 10 };
    unsigned tenths[TENTHS] = {0};
    for (unsigned i = 0; i < DRAWS; i++) {
        int64_t wait = handoff_backoff_draw_ms(&defaults, 3, &base_random_system);
        assert_in_range(wait, 0, 4000);
        tenths[wait * TENTHS / 4001]++;
    }
    /* expected 4,000 in each, standard deviation 60: 6 of them is one false alarm in 10^8 runs */
    for (unsigned i = 0; i < TENTHS; i++)
        assert_in_range(tenths[i], 3640, 4360);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ceiling_doubles_up_to_the_cap),
        cmocka_unit_test(test_ceiling_cannot_overflow),
        cmocka_unit_test(test_no_base_is_no_wait),
        cmocka_unit_test(test_draw_reaches_both_ends),
        cmocka_unit_test(test_draw_is_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
