/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of what is kept: the rule of trim.h by examples, then by properties. */
#include "tests/support/property.h"
#include "tests/support/unit.h"

#include <string.h>

#include "client/assemble/plan.h"

enum {
    F = HANDOFF_FORM_FULL,
    S = HANDOFF_FORM_SUMMARY,
    R = HANDOFF_FORM_REFERENCE,
    NONE = HANDOFF_FORM_NONE
};

static struct handoff_trim_memory memory(enum handoff_rank rank, uint32_t full, uint32_t summary)
{
    return (struct handoff_trim_memory){.rank = rank, .cost = {full, summary, 10}};
}

static struct handoff_trim_plan plan_of(uint64_t budget, struct handoff_trim_memory *memories,
                                        size_t count)
{
    return (struct handoff_trim_plan){.budget = budget,
                                      .fixed = 100,
                                      .memories_none = 2,
                                      .memories_some = 3,
                                      .history_none = 2,
                                      .history_some = 4,
                                      .memories = memories,
                                      .nmemories = count};
}

static void test_nothing_but_the_fixed(void **state)
{
    (void)state;
    struct handoff_trim_plan plan = plan_of(104, NULL, 0);
    assert_true(handoff_trim(&plan));
    assert_int_equal(plan.count, 104);
    plan.budget = 103;
    assert_false(handoff_trim(&plan));
    assert_int_equal(plan.needed, 104);
}

static void test_a_large_memory_does_not_stop_a_smaller_one(void **state)
{
    (void)state;
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_ASKED, 200, 0),
                                             memory(HANDOFF_RANK_ASKED, 5000, 0),
                                             memory(HANDOFF_RANK_FOUND, 90, 0)};
    struct handoff_trim_plan plan = plan_of(400, memories, 3);
    assert_true(handoff_trim(&plan));
    assert_int_equal(memories[0].form, F);
    assert_int_equal(memories[1].form, NONE);
    assert_int_equal(memories[2].form, F);
    assert_int_equal(plan.count, 100 + 2 + 3 + 200 + 90);
}

static void test_a_summary_stands_in_for_what_does_not_fit(void **state)
{
    (void)state;
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_ASKED, 5000, 40),
                                             memory(HANDOFF_RANK_ASKED, 50, 20)};
    struct handoff_trim_plan plan = plan_of(400, memories, 2);
    assert_true(handoff_trim(&plan));
    assert_int_equal(memories[0].form, S);
    assert_int_equal(memories[1].form, F);
}

static void test_pins_are_kept_before_anything_else_improves(void **state)
{
    (void)state;
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_PINNED, 500, 50),
                                             memory(HANDOFF_RANK_PINNED, 300, 0),
                                             memory(HANDOFF_RANK_ASKED, 10, 0)};
    struct handoff_trim_plan plan = plan_of(100 + 2 + 3 + 50 + 300, memories, 3);
    assert_true(handoff_trim(&plan));
    assert_int_equal(memories[0].form, S);
    assert_int_equal(memories[1].form, F);
    assert_int_equal(memories[2].form, NONE);
    plan.budget--;
    assert_false(handoff_trim(&plan));
    assert_int_equal(plan.needed, 455);
}

static void test_full_is_all_or_nothing(void **state)
{
    (void)state;
    const uint32_t history[] = {30, 30};
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_ASKED, 500, 5),
                                             memory(HANDOFF_RANK_FOUND, 0, 60)};
    struct handoff_trim_plan plan = plan_of(729, memories, 2);
    plan.strategy = HANDOFF_STRATEGY_FULL;
    plan.history = history;
    plan.nhistory = 2;
    assert_true(handoff_trim(&plan));
    assert_int_equal(plan.count, 100 + 3 + 500 + 60 + 4 + 60);
    assert_int_equal(memories[1].form, S); /* may not go in full */
    plan.budget = 726;
    assert_false(handoff_trim(&plan));
    assert_int_equal(plan.needed, 727);
}

static void test_summary_and_lazy_take_their_own_forms(void **state)
{
    (void)state;
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_ASKED, 500, 60),
                                             memory(HANDOFF_RANK_ASKED, 500, 0)};
    struct handoff_trim_plan plan = plan_of(10000, memories, 2);
    plan.strategy = HANDOFF_STRATEGY_SUMMARY;
    assert_true(handoff_trim(&plan));
    assert_int_equal(memories[0].form, S);
    assert_int_equal(memories[1].form, R);
    plan.strategy = HANDOFF_STRATEGY_LAZY;
    assert_true(handoff_trim(&plan));
    assert_int_equal(memories[0].form, R);
    assert_int_equal(memories[1].form, R);
}

static void test_history_keeps_its_newest_without_holes(void **state)
{
    (void)state;
    const uint32_t history[] = {5, 200, 20, 30};
    struct handoff_trim_plan plan = plan_of(100 + 2 + 4 + 60, NULL, 0);
    plan.history = history;
    plan.nhistory = 4;
    assert_true(handoff_trim(&plan));
    assert_int_equal(plan.history_kept, 2);
    assert_int_equal(plan.count, 100 + 2 + 4 + 50);
}

static void test_history_stands_between_asked_and_found(void **state)
{
    (void)state;
    const uint32_t history[] = {50};
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_ASKED, 50, 0),
                                             memory(HANDOFF_RANK_FOUND, 50, 0)};
    struct handoff_trim_plan plan = plan_of(100 + 3 + 4 + 100, memories, 2);
    plan.history = history;
    plan.nhistory = 1;
    assert_true(handoff_trim(&plan));
    assert_int_equal(memories[0].form, F);
    assert_int_equal(plan.history_kept, 1);
    assert_int_equal(memories[1].form, NONE);
}

/* ---- properties ---------------------------------------------------------------------------- */

enum { MEMORIES = 24, STEPS = 12, ROUNDS = 20000 };

struct world {
    struct handoff_trim_memory memories[MEMORIES];
    uint32_t history[STEPS];
    struct handoff_trim_plan plan;
};

static void make_world(struct world *world, struct property *property)
{
    size_t count = property_below(property, MEMORIES + 1);
    size_t pinned = count ? property_below(property, (uint32_t)count + 1) / 3 : 0;
    size_t asked = count ? pinned + property_below(property, (uint32_t)(count - pinned) + 1) : 0;
    for (size_t i = 0; i < count; i++) {
        struct handoff_trim_memory *one = &world->memories[i];
        *one = memory(i < pinned  ? HANDOFF_RANK_PINNED
                      : i < asked ? HANDOFF_RANK_ASKED
                                  : HANDOFF_RANK_FOUND,
                      20 + property_below(property, 400),
                      property_chance(property, 60) ? 15 + property_below(property, 60) : 0);
        if (one->cost[S] && property_chance(property, 10))
            one->cost[F] = 0;
        one->last_extra = (int32_t)property_below(property, 5) - 2;
    }
    for (size_t i = 0; i < STEPS; i++)
        world->history[i] = 10 + property_below(property, 60);
    world->plan = plan_of(100 + property_below(property, 4000), world->memories, count);
    world->plan.strategy = (enum handoff_strategy)property_below(property, 4);
    world->plan.history = world->history;
    world->plan.nhistory = property_below(property, STEPS + 1);
}

/* The count from nothing but the answers: written without trim.c's walk. */
static uint64_t recount(const struct handoff_trim_plan *plan)
{
    int64_t sum = (int64_t)plan->fixed, last = 0;
    bool some = false;
    for (size_t i = 0; i < plan->nmemories; i++) {
        const struct handoff_trim_memory *one = &plan->memories[i];
        if (one->form == HANDOFF_FORM_NONE)
            continue;
        sum += one->cost[one->form];
        last = one->last_extra;
        some = true;
    }
    sum += (some ? plan->memories_some : plan->memories_none) + last;
    sum += plan->history_kept ? plan->history_some : plan->history_none;
    for (size_t i = plan->nhistory - plan->history_kept; i < plan->nhistory; i++)
        sum += plan->history[i];
    return (uint64_t)sum;
}

static void check_kept(const struct handoff_trim_plan *plan)
{
    for (size_t i = 0; i < plan->nmemories; i++) {
        const struct handoff_trim_memory *one = &plan->memories[i];
        if (one->rank == HANDOFF_RANK_PINNED || plan->strategy == HANDOFF_STRATEGY_FULL)
            assert_int_not_equal(one->form, NONE);
        if (one->form != HANDOFF_FORM_NONE)
            assert_true(one->cost[one->form] > 0);
    }
    if (plan->strategy == HANDOFF_STRATEGY_FULL)
        assert_int_equal(plan->history_kept, plan->nhistory);
}

/* Nothing that was trimmed would still have fitted at the end: the budget is used. */
static void check_used_well(const struct handoff_trim_plan *plan)
{
    size_t cheapest = plan->strategy == HANDOFF_STRATEGY_PRIORITY ? S : R;
    for (size_t i = 0; i < plan->nmemories; i++) {
        const struct handoff_trim_memory *one = &plan->memories[i];
        if (one->form != HANDOFF_FORM_NONE)
            continue;
        uint32_t cost = one->cost[cheapest] ? one->cost[cheapest] : one->cost[F];
        assert_true(plan->count + cost + 1 + 4 + 2 > plan->budget);
    }
}

static void test_properties(void **state)
{
    (void)state;
    struct property property = property_begin("trim");
    static struct world world;
    size_t refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        make_world(&world, &property);
        if (handoff_trim(&world.plan)) {
            assert_true(world.plan.count <= world.plan.budget);
            assert_int_equal(world.plan.count, recount(&world.plan));
            check_kept(&world.plan);
            check_used_well(&world.plan);
        } else {
            refused++;
            uint64_t needed = world.plan.needed;
            assert_true(needed > world.plan.budget);
            world.plan.budget = needed - 1;
            assert_false(handoff_trim(&world.plan));
            world.plan.budget = needed;
            assert_true(handoff_trim(&world.plan));
        }
    }
    assert_true(refused > ROUNDS / 100 && refused < ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_but_the_fixed),
        cmocka_unit_test(test_a_large_memory_does_not_stop_a_smaller_one),
        cmocka_unit_test(test_a_summary_stands_in_for_what_does_not_fit),
        cmocka_unit_test(test_pins_are_kept_before_anything_else_improves),
        cmocka_unit_test(test_full_is_all_or_nothing),
        cmocka_unit_test(test_summary_and_lazy_take_their_own_forms),
        cmocka_unit_test(test_history_keeps_its_newest_without_holes),
        cmocka_unit_test(test_history_stands_between_asked_and_found),
        cmocka_unit_test(test_properties),
    };
    return RUN_TESTS(tests);
}
