/* SPDX-License-Identifier: Apache-2.0 */
/* Sliding windows over numbers as they were: against a model that keeps every one of them. */
#include <stdlib.h>

#include "exporter/status/history.h"
#include "tests/support/unit.h"

enum { COUNTER, GAUGE, WIDTH, STEPS = 1000, FIVE_MINUTES = 300, QUARTER = 900, HOUR = 3600 };

static void step(struct exporter_history *history, struct exporter_history_times *times,
                 uint32_t counter, uint32_t gauge)
{
    history->now[COUNTER] = counter;
    history->now[GAUGE] = gauge;
    exporter_history_record(history, times);
    exporter_history_recorded(times);
}

static void test_a_window_longer_than_the_history_holds_all_of_it(void **state)
{
    (void)state;
    struct exporter_history history;
    struct exporter_history_times times = {.now_ms = 1000};
    assert_true(exporter_history_init(&history, WIDTH));
    history.now[COUNTER] = 7;
    assert_true(exporter_history_increase(&history, &times, COUNTER, FIVE_MINUTES) == 7);
    step(&history, &times, 7, 3);
    times.now_ms += EXPORTER_HISTORY_STEP_MS;
    history.now[COUNTER] = 9;
    history.now[GAUGE] = 1;
    assert_true(exporter_history_increase(&history, &times, COUNTER, FIVE_MINUTES) == 9);
    assert_true(exporter_history_increase(&history, &times, COUNTER, HOUR) == 9);
    assert_int_equal(exporter_history_max(&history, &times, GAUGE, FIVE_MINUTES), 3);
    assert_true(exporter_history_mean(&history, &times, GAUGE, FIVE_MINUTES) == 2);
    exporter_history_free(&history);
}

static void test_what_happened_before_the_window_is_not_in_it(void **state)
{
    (void)state;
    struct exporter_history history;
    struct exporter_history_times times = {.now_ms = 0};
    assert_true(exporter_history_init(&history, WIDTH));
    step(&history, &times, 0, 0);
    for (int i = 1; i <= STEPS; i++) { /* one failure at the first step */
        times.now_ms += EXPORTER_HISTORY_STEP_MS;
        step(&history, &times, 1, i == 1);
        const int64_t age_ms = (int64_t)i * EXPORTER_HISTORY_STEP_MS;
        const bool short_has_it = age_ms < INT64_C(1000) * FIVE_MINUTES;
        const bool long_has_it = age_ms <= INT64_C(1000) * HOUR;
        if (age_ms == INT64_C(1000) * FIVE_MINUTES)
            continue; /* the edge belongs to either */
        assert_true(exporter_history_increase(&history, &times, COUNTER, FIVE_MINUTES) ==
                    short_has_it);
        if (age_ms > INT64_C(1000) * (HOUR + 120) || long_has_it)
            assert_true(exporter_history_increase(&history, &times, COUNTER, HOUR) == long_has_it);
    }
    assert_int_equal(exporter_history_max(&history, &times, GAUGE, QUARTER), 0);
    exporter_history_free(&history);
}

/* Each window against all samples: within one step of the fine ring, or of the coarse one. */
static void test_windows_agree_with_a_model_that_forgets_nothing(void **state)
{
    (void)state;
    static uint32_t counters[STEPS + 1];
    static const int windows[] = {FIVE_MINUTES, QUARTER, HOUR};
    struct exporter_history history;
    struct exporter_history_times times = {0};
    assert_true(exporter_history_init(&history, WIDTH));
    counters[0] = UINT32_MAX - 500; /* it wraps on the way */
    uint32_t noise = 7;
    for (int i = 0; i <= STEPS; i++) {
        if (i > 0)
            counters[i] = counters[i - 1] + (noise >> 16) % 10;
        noise = noise * 1103515245 + 12345;
        times.now_ms = (int64_t)i * EXPORTER_HISTORY_STEP_MS;
        step(&history, &times, counters[i], 0);
        for (int w = 0; w < 3; w++) {
            const int back = windows[w] * 1000 / EXPORTER_HISTORY_STEP_MS;
            const int loss = windows[w] <= QUARTER ? 0 : EXPORTER_HISTORY_COARSE_STEPS;
            if (i <= back + loss)
                continue;
            const double seen = exporter_history_increase(&history, &times, COUNTER, windows[w]);
            assert_true(seen <= (double)(counters[i] - counters[i - back]));
            assert_true(seen >= (double)(counters[i] - counters[i - back + loss]));
        }
    }
    exporter_history_free(&history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_window_longer_than_the_history_holds_all_of_it),
        cmocka_unit_test(test_what_happened_before_the_window_is_not_in_it),
        cmocka_unit_test(test_windows_agree_with_a_model_that_forgets_nothing),
    };
    return RUN_TESTS(tests);
}
