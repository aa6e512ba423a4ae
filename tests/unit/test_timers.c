/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of deadlines, against the plainest thing that does the same: a scan of an array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "lib/base/timers.h"

static void test_empty(void **state)
{
    (void)state;
    struct base_timers timers = {0};
    assert_null(base_timers_due(&timers, INT64_MAX));
    assert_int_equal(base_timers_wait_ms(&timers, 5), -1);
    struct base_timer never = {0};
    base_timers_stop(&timers, &never);
    assert_false(base_timer_started(&never));
}

static void test_fires_when_due_and_once(void **state)
{
    (void)state;
    struct base_timers timers = {0};
    struct base_timer timer = {0};
    base_timers_start(&timers, &timer, 100);
    assert_int_equal(base_timers_wait_ms(&timers, 40), 60);
    assert_null(base_timers_due(&timers, 99));
    assert_ptr_equal(base_timers_due(&timers, 100), &timer);
    assert_false(base_timer_started(&timer));
    assert_null(base_timers_due(&timers, 1000));
}

static void test_starting_again_moves_it(void **state)
{
    (void)state;
    struct base_timers timers = {0};
    struct base_timer timer = {0};
    base_timers_start(&timers, &timer, 100);
    base_timers_start(&timers, &timer, 50);
    assert_ptr_equal(base_timers_due(&timers, 50), &timer);
    assert_int_equal(base_timers_wait_ms(&timers, 0), -1);
}

enum { TIMERS = 400, STEPS = 200000 };

static int64_t earliest(const int64_t *due)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < TIMERS; i++)
        if (due[i] >= 0 && due[i] < first)
            first = due[i];
    return first;
}

static void test_random_starts_stops_and_firings_match_a_scan(void **state)
{
    (void)state;
    static struct base_timer all[TIMERS];
    int64_t due[TIMERS]; /* -1: not started */
    struct base_timers timers = {0};
    for (size_t i = 0; i < TIMERS; i++)
        due[i] = -1;
    unsigned seed = 7;
    int64_t now = 0;
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)rand_r(&seed) % TIMERS;
        switch (rand_r(&seed) % 4) {
        case 0:
        case 1:
            due[i] = now + rand_r(&seed) % 1000;
            base_timers_start(&timers, &all[i], due[i]);
            break;
        case 2:
            due[i] = -1;
            base_timers_stop(&timers, &all[i]);
            break;
        default: {
            now += rand_r(&seed) % 3;
            struct base_timer *fired = base_timers_due(&timers, now);
            int64_t first = earliest(due);
            if (first > now) {
                assert_null(fired);
            } else {
                assert_non_null(fired);
                assert_int_equal(due[fired - all], first);
                due[fired - all] = -1;
            }
        }
        }
        assert_int_equal(base_timer_started(&all[i]), due[i] >= 0);
    }
}

/* ---- firing ---- */

struct bell {
    struct base_timer timer; /* first */
    struct base_timers *timers;
    struct base_timer *stops; /* what firing it stops */
    bool again;               /* firing it starts it anew, due at once */
    unsigned rung;
};

static void ring(struct base_timer *timer)
{
    struct bell *bell = (struct bell *)timer;
    bell->rung++;
    if (bell->stops)
        base_timers_stop(bell->timers, bell->stops);
    if (bell->again)
        base_timers_start(bell->timers, timer, timer->due_ms);
}

static void test_run_fires_what_is_due_and_ends(void **state)
{
    (void)state;
    struct base_timers timers = {0};
    struct bell bells[4];
    for (int i = 0; i < 4; i++) {
        bells[i] = (struct bell){.timer = {.fire = ring}, .timers = &timers};
        base_timers_start(&timers, &bells[i].timer, 10 * i);
    }
    bells[0].again = true;
    bells[1].stops = &bells[2].timer; /* both are due: the second must not ring any more */
    base_timers_run(&timers, 20);
    assert_int_equal(bells[0].rung, 1);
    assert_int_equal(bells[1].rung, 1);
    assert_int_equal(bells[2].rung, 0);
    assert_int_equal(bells[3].rung, 0);
    assert_true(base_timer_started(&bells[0].timer));
    assert_false(base_timer_started(&bells[2].timer));
    assert_true(base_timer_started(&bells[3].timer));
    base_timers_run(&timers, 30);
    assert_int_equal(bells[0].rung, 2);
    assert_int_equal(bells[3].rung, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_fires_when_due_and_once),
        cmocka_unit_test(test_starting_again_moves_it),
        cmocka_unit_test(test_run_fires_what_is_due_and_ends),
        cmocka_unit_test(test_random_starts_stops_and_firings_match_a_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
