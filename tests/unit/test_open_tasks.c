/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that wait: against a list that is searched each time, over random moves of many tasks. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "client/deliver/open_tasks.h"
#include "client/model/model.h"
#include "lib/base/span.h"

enum { TASKS = 40, HANDOFFS = 200, STEPS = 20000 };

struct listed_task {
    int busy;
    int64_t acked_ms;
    bool completed;
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static struct base_span name_of(unsigned task, char text[16])
{
    snprintf(text, 16, "task-%u", task);
    return base_span_text(text);
}

static bool counts_as_busy(enum handoff_state state)
{
    return state != HANDOFF_STATE_NONE &&
           (handoff_state_is_live(state) || state == HANDOFF_STATE_PARKED);
}

static int64_t oldest_listed(const struct listed_task *tasks)
{
    int64_t oldest_ms = 0;
    for (int i = 0; i < TASKS; i++) {
        bool waits = tasks[i].busy == 0 && tasks[i].acked_ms > 0 && !tasks[i].completed;
        if (waits && (oldest_ms == 0 || tasks[i].acked_ms < oldest_ms))
            oldest_ms = tasks[i].acked_ms;
    }
    return oldest_ms;
}

static void test_the_oldest_is_that_of_a_list(void **state)
{
    (void)state;
    struct handoff_open_tasks *tasks = handoff_open_tasks_new();
    struct listed_task listed[TASKS] = {0};
    enum handoff_state states[HANDOFFS] = {0};
    uint32_t seed = 17;
    char text[16];
    assert_non_null(tasks);
    for (int64_t now_ms = 1; now_ms <= STEPS; now_ms++) {
        unsigned handoff = next_random(&seed) % HANDOFFS, task = handoff % TASKS;
        enum handoff_state from = states[handoff],
                           to = (enum handoff_state)(1 + next_random(&seed) % 7);
        if (next_random(&seed) % 1000 == 0) {
            handoff_open_tasks_completed(tasks, name_of(task, text), now_ms);
            listed[task].completed = true;
        }
        bool begins = from == HANDOFF_STATE_NONE && to == HANDOFF_STATE_READY;
        if (!begins && (from == HANDOFF_STATE_NONE || !handoff_life_move(from, to)))
            continue;
        handoff_open_tasks_moved(tasks, name_of(task, text), from, to, now_ms);
        states[handoff] = handoff_state_is_over(to) ? HANDOFF_STATE_NONE : to;
        listed[task].busy += counts_as_busy(to) - counts_as_busy(from);
        if (to == HANDOFF_STATE_ACKNOWLEDGED)
            listed[task].acked_ms = now_ms;
        assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 0), oldest_listed(listed));
    }
    handoff_open_tasks_free(&tasks);
    assert_null(tasks);
}

static void acknowledge(struct handoff_open_tasks *tasks, const char *task, int64_t at_ms)
{
    struct base_span id = base_span_text(task);
    handoff_open_tasks_moved(tasks, id, HANDOFF_STATE_NONE, HANDOFF_STATE_READY, 0);
    handoff_open_tasks_moved(tasks, id, HANDOFF_STATE_READY, HANDOFF_STATE_IN_FLIGHT, 0);
    handoff_open_tasks_moved(tasks, id, HANDOFF_STATE_IN_FLIGHT, HANDOFF_STATE_ACKNOWLEDGED, at_ms);
}

static void test_what_retention_removed_is_forgotten(void **state)
{
    (void)state;
    struct handoff_open_tasks *tasks = handoff_open_tasks_new();
    for (int64_t i = 1; i <= 5; i++) {
        char text[16];
        acknowledge(tasks, name_of((unsigned)i, text).data, i * 100);
    }
    handoff_open_tasks_completed(tasks, base_span_text("task-1"), 150);
    assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 0), 200);
    assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 400), 400);
    assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 501), 0);
    acknowledge(tasks, "task-1", 900); /* nobody knows that it was completed */
    assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 501), 900);
    handoff_open_tasks_free(&tasks);
}

static void test_a_completed_task_that_goes_on_does_not_wait(void **state)
{
    (void)state;
    struct handoff_open_tasks *tasks = handoff_open_tasks_new();
    acknowledge(tasks, "task-1", 100);
    handoff_open_tasks_completed(tasks, base_span_text("task-1"), 150);
    acknowledge(tasks, "task-1", 200);
    assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 0), 0);
    handoff_open_tasks_free(&tasks);
}

static void test_a_busy_completed_task_keeps_no_other_one(void **state)
{
    (void)state;
    struct handoff_open_tasks *tasks = handoff_open_tasks_new();
    const struct base_span parked = base_span_text("task-1");
    handoff_open_tasks_moved(tasks, parked, HANDOFF_STATE_NONE, HANDOFF_STATE_READY, 0);
    handoff_open_tasks_moved(tasks, parked, HANDOFF_STATE_READY, HANDOFF_STATE_PARKED, 110);
    handoff_open_tasks_completed(tasks, parked, 150);
    acknowledge(tasks, "task-2", 120);
    handoff_open_tasks_completed(tasks, base_span_text("task-2"), 160);
    assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 500), 0);
    acknowledge(tasks, "task-2", 900); /* nobody knows that it was completed */
    assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 500), 900);

    /* the busy one is remembered until it is idle, and then forgotten as well */
    handoff_open_tasks_completed(tasks, base_span_text("task-2"), 950);
    acknowledge(tasks, "task-1", 960);
    assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 500), 0);
    handoff_open_tasks_moved(tasks, parked, HANDOFF_STATE_PARKED, HANDOFF_STATE_DISCARDED, 0);
    assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 970), 0);
    acknowledge(tasks, "task-1", 980);
    assert_int_equal(handoff_open_tasks_oldest_ms(tasks, 970), 980);
    handoff_open_tasks_free(&tasks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_oldest_is_that_of_a_list),
        cmocka_unit_test(test_what_retention_removed_is_forgotten),
        cmocka_unit_test(test_a_completed_task_that_goes_on_does_not_wait),
        cmocka_unit_test(test_a_busy_completed_task_keeps_no_other_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
