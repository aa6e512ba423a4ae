/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of turns.h: their order, and that looking one up costs the same however long it is. */
#include "client/deliver/turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

enum { MANY = 10000 };

static struct handoff_turns turns;

/* The tables only compare where they are. */
static const char places[2];
#define AGENT ((const struct handoff_agent *)&places[0])
#define OTHER ((const struct handoff_agent *)&places[1])

static int open_turns(void **state)
{
    (void)state;
    return handoff_turns_init(&turns) ? 0 : -1;
}

static int close_turns(void **state)
{
    (void)state;
    handoff_turns_free(&turns);
    return 0;
}

static struct handoff_turn turn_of(const struct handoff_agent *agent, const char *task, int number)
{
    struct handoff_turn turn = {.agent = agent, .task_id = base_span_text(task)};
    memcpy(turn.id.bytes, &number, sizeof number);
    return turn;
}

static int first_of(const struct handoff_agent *agent, const char *task)
{
    const struct handoff_turn of = turn_of(agent, task, 0);
    struct base_uuid id;
    struct handoff_lane *lane;
    int number = -1;
    if (handoff_turns_first(&turns, &of, &id, &lane))
        memcpy(&number, id.bytes, sizeof number);
    return number;
}

static size_t looked_at(void)
{
    size_t sum = 0;
    for (size_t i = 0; i < HANDOFF_TURN_SHARDS; i++)
        sum += turns.shards[i].looked_at;
    return sum;
}

static void test_the_oldest_of_a_line_is_first(void **state)
{
    (void)state;
    struct handoff_turn one = turn_of(AGENT, "a", 1), two = turn_of(AGENT, "a", 2),
                        three = turn_of(AGENT, "a", 3), else_where = turn_of(AGENT, "b", 4),
                        others = turn_of(OTHER, "a", 5);
    struct handoff_turn *const all[] = {&one, &two, &three, &else_where, &others};
    for (size_t i = 0; i < 5; i++)
        handoff_turns_join(&turns, all[i]);
    assert_int_equal(first_of(AGENT, "a"), 1);
    assert_int_equal(first_of(AGENT, "b"), 4);
    assert_int_equal(first_of(OTHER, "a"), 5);
    assert_true(handoff_turns_is_first(&turns, &one));
    assert_false(handoff_turns_is_first(&turns, &two));
    handoff_turns_leave(&turns, &two);
    assert_int_equal(first_of(AGENT, "a"), 1);
    handoff_turns_leave(&turns, &one);
    assert_int_equal(first_of(AGENT, "a"), 3);
    one.agent = AGENT;
    handoff_turns_join(&turns, &one);
    assert_int_equal(first_of(AGENT, "a"), 3);
    handoff_turns_leave(&turns, &three);
    assert_int_equal(first_of(AGENT, "a"), 1);
    handoff_turns_leave(&turns, &one);
    assert_int_equal(first_of(AGENT, "a"), -1);
    handoff_turns_leave(&turns, &one); /* it has no place: harmless */
    handoff_turns_leave(&turns, &else_where);
    handoff_turns_leave(&turns, &others);
}

/* Wherever it is in its line, and whatever else is in the table. */
static void test_a_place_is_taken_over(void **state)
{
    (void)state;
    enum { COUNT = 3, OTHERS = 2000 };
    static struct handoff_turn others[OTHERS];
    static char names[OTHERS][16];
    for (int i = 0; i < OTHERS; i++) {
        snprintf(names[i], sizeof names[i], "task-%d", i);
        others[i] = turn_of(AGENT, names[i], i);
        handoff_turns_join(&turns, &others[i]);
    }
    for (int length = 1; length <= COUNT; length++) {
        for (int at = 0; at < length; at++) {
            struct handoff_turn line[COUNT], successor;
            for (int i = 0; i < length; i++) {
                line[i] = turn_of(AGENT, "a", i);
                handoff_turns_join(&turns, &line[i]);
            }
            char name[] = "a";
            handoff_turns_replace(&turns, &line[at], &successor, base_span_text(name));
            assert_null(line[at].agent);
            for (int i = 0; i < length; i++) {
                assert_int_equal(first_of(AGENT, "a"), i);
                handoff_turns_leave(&turns, i == at ? &successor : &line[i]);
            }
            assert_int_equal(first_of(AGENT, "a"), -1);
        }
    }
    for (int i = 0; i < OTHERS; i++) {
        assert_int_equal(first_of(AGENT, names[i]), i);
        handoff_turns_leave(&turns, &others[i]);
    }
}

/* Lines that share a bucket with it are found as if it had one place. */
static void test_a_long_line_slows_nothing(void **state)
{
    (void)state;
    static struct handoff_turn line[MANY], tasks[MANY];
    static char names[MANY][16];
    for (int i = 0; i < MANY; i++) {
        line[i] = turn_of(AGENT, "long", i);
        handoff_turns_join(&turns, &line[i]);
    }
    assert_int_equal(looked_at(), 0);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "task-%d", i);
        tasks[i] = turn_of(AGENT, names[i], i);
        handoff_turns_join(&turns, &tasks[i]);
        assert_int_equal(first_of(AGENT, names[i]), i);
    }
    /* 1,024 buckets for 10,001 lines: ten in each at the end */
    assert_in_range(looked_at(), 1, (uintmax_t)2 * 10 * MANY);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(first_of(AGENT, "long"), i);
        handoff_turns_leave(&turns, &line[i]);
    }
    for (int i = 0; i < MANY; i++)
        handoff_turns_leave(&turns, &tasks[i]);
}

/* Whoever joins and leaves, in whatever order: the first is the oldest that is left. */
static void test_any_order_of_leaving(void **state)
{
    (void)state;
    enum { COUNT = 60, LINES = 7 };
    static const char *const names[LINES] = {"a", "b", "c", "d", "e", "f", "g"};
    struct handoff_turn all[COUNT];
    bool there[COUNT];
    srand(1);
    for (int i = 0; i < COUNT; i++) {
        all[i] = turn_of(AGENT, names[i % LINES], i);
        handoff_turns_join(&turns, &all[i]);
        there[i] = true;
    }
    for (int left = COUNT; left > 0; left--) {
        int leaves = rand() % COUNT;
        while (!there[leaves])
            leaves = (leaves + 1) % COUNT;
        handoff_turns_leave(&turns, &all[leaves]);
        there[leaves] = false;
        for (int k = 0; k < LINES; k++) {
            int oldest = k;
            while (oldest < COUNT && !there[oldest])
                oldest += LINES;
            assert_int_equal(first_of(AGENT, names[k]), oldest < COUNT ? oldest : -1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_oldest_of_a_line_is_first, open_turns,
                                        close_turns),
        cmocka_unit_test_setup_teardown(test_a_place_is_taken_over, open_turns, close_turns),
        cmocka_unit_test_setup_teardown(test_a_long_line_slows_nothing, open_turns, close_turns),
        cmocka_unit_test_setup_teardown(test_any_order_of_leaving, open_turns, close_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
