/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of what is kept: the order of plan.h by examples, then by properties. */
#include "tests/support/property.h"
#include "tests/support/unit.h"

#include <string.h>

#include "client/assemble/plan.h"
#include "lib/base/container.h"

enum {
    F = HANDOFF_FORM_FULL,
    S = HANDOFF_FORM_SUMMARY,
    R = HANDOFF_FORM_ID,
    NONE = HANDOFF_FORM_NONE,
    REFERENCE = 10, /* tokens of an id, and of what else is known of a memory */
    DESCRIBED = 25,
    ENTRIES = 12,
};

/* A list whose entries cost what a number says; the first one that is kept costs one more. */
struct numbers {
    struct handoff_trim_list list;
    uint32_t cost[ENTRIES], reason[ENTRIES]; /* reason 0: none */
    handoff_age age[ENTRIES];
    enum handoff_entry_form form[ENTRIES];
    size_t kept;
};

static struct numbers *numbers_of(struct handoff_trim_list *list)
{
    return BASE_CONTAINER_OF(list, struct numbers, list);
}

static handoff_age age_of_number(const struct handoff_trim_list *list, size_t entry)
{
    return ((const struct numbers *)list)->age[entry];
}

static void clear_numbers(struct handoff_trim_list *list)
{
    memset(numbers_of(list)->form, 0, sizeof numbers_of(list)->form);
    numbers_of(list)->kept = 0;
}

static int64_t price_number(struct handoff_trim_list *list, size_t entry, int64_t room)
{
    (void)room;
    return (int64_t)numbers_of(list)->cost[entry] + (numbers_of(list)->kept == 0);
}

static void keep_number(struct handoff_trim_list *list, size_t entry)
{
    struct numbers *numbers = numbers_of(list);
    assert_int_equal(numbers->form[entry], HANDOFF_ENTRY_OMITTED);
    numbers->form[entry] = numbers->reason[entry] ? HANDOFF_ENTRY_SHORT : HANDOFF_ENTRY_WHOLE;
    numbers->kept++;
}

static int64_t price_reason(struct handoff_trim_list *list, size_t entry)
{
    return numbers_of(list)->form[entry] == HANDOFF_ENTRY_SHORT ? numbers_of(list)->reason[entry]
                                                                : HANDOFF_PRICE_TOO_HIGH;
}

static void keep_reason(struct handoff_trim_list *list, size_t entry)
{
    numbers_of(list)->form[entry] = HANDOFF_ENTRY_WHOLE;
}

/* Two tokens while it is empty. */
static struct numbers numbers(size_t count, const uint32_t *cost)
{
    struct numbers made = {.list = {.count = count,
                                    .least = 1,
                                    .age = age_of_number,
                                    .clear = clear_numbers,
                                    .price = price_number,
                                    .keep = keep_number,
                                    .price_reason = price_reason,
                                    .keep_reason = keep_reason,
                                    .empty = 2}};
    for (size_t i = 0; i < count; i++) {
        made.cost[i] = cost[i];
        made.age[i] = i;
    }
    return made;
}

static struct handoff_trim_memory memory(enum handoff_rank rank, uint32_t full, uint32_t summary)
{
    return (struct handoff_trim_memory){
        .rank = rank,
        .age = rank == HANDOFF_RANK_INHERITED ? 5 : HANDOFF_AGE_OWN,
        .cost = {full, summary, 0, rank == HANDOFF_RANK_FOUND ? 0 : REFERENCE}};
}

static struct handoff_trim_plan plan_of(uint64_t budget, struct handoff_trim_memory *memories,
                                        size_t count)
{
    return (struct handoff_trim_plan){.budget = budget,
                                      .fixed = 100,
                                      .memories_none = 2,
                                      .memories_some = 3,
                                      .memories = memories,
                                      .nmemories = count};
}

static void test_nothing_but_the_fixed(void **state)
{
    (void)state;
    struct handoff_trim_plan plan = plan_of(102, NULL, 0);
    assert_true(handoff_trim(&plan));
    assert_int_equal(plan.count, 102);
    plan.budget = 101;
    assert_false(handoff_trim(&plan));
    assert_int_equal(plan.needed, 102);
}

static void test_a_large_memory_does_not_stop_a_smaller_one(void **state)
{
    (void)state;
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_ASKED, 200, 0),
                                             memory(HANDOFF_RANK_ASKED, 5000, 0),
                                             memory(HANDOFF_RANK_FOUND, 90, 0)};
    struct handoff_trim_plan plan = plan_of(410, memories, 3);
    assert_true(handoff_trim(&plan));
    assert_int_equal(memories[0].form, F);
    assert_int_equal(memories[1].form, R);
    assert_int_equal(memories[2].form, F);
    assert_int_equal(plan.count, 100 + 3 + 200 + REFERENCE + 90);
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

static void test_a_giant_pin_goes_by_its_id(void **state)
{
    (void)state;
    static const enum handoff_strategy strategies[] = {
        HANDOFF_STRATEGY_PRIORITY, HANDOFF_STRATEGY_SUMMARY, HANDOFF_STRATEGY_LAZY};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_PINNED, 10000, 9000),
                                                 memory(HANDOFF_RANK_PINNED, 30, 20)};
        struct handoff_trim_plan plan = plan_of(250, memories, 2);
        plan.strategy = strategies[i];
        assert_true(handoff_trim(&plan));
        assert_int_equal(memories[0].form, R);
        assert_int_equal((int)memories[1].form, i == 0 ? F : i == 1 ? S : R);
    }
}

static void test_the_best_form_goes_to_pins_then_to_this_hop_then_to_steps(void **state)
{
    (void)state;
    const uint32_t step_costs[] = {40};
    struct numbers steps = numbers(1, step_costs);
    const struct handoff_trim_memory memories[] = {
        memory(HANDOFF_RANK_PINNED, 50, 0), memory(HANDOFF_RANK_ASKED, 50, 0),
        memory(HANDOFF_RANK_INHERITED, 50, 0), memory(HANDOFF_RANK_FOUND, 50, 0)};
    /* all by their ids: 100 + 3 + 30 + 2 = 135 */
    static const struct {
        uint64_t budget;
        int forms[4];
        size_t steps;
    } rows[] = {
        {174, {R, R, R, NONE}, 0}, {175, {F, R, R, NONE}, 0}, {215, {F, F, R, NONE}, 0},
        {256, {F, F, R, NONE}, 1}, {296, {F, F, F, NONE}, 1}, {346, {F, F, F, F}, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct handoff_trim_memory own[4];
        memcpy(own, memories, sizeof own);
        struct handoff_trim_plan plan = plan_of(rows[i].budget, own, 4);
        plan.lists[HANDOFF_PART_STEPS] = &steps.list;
        assert_true(handoff_trim(&plan));
        for (int m = 0; m < 4; m++)
            assert_int_equal((int)own[m].form, rows[i].forms[m]);
        assert_int_equal(steps.list.kept, rows[i].steps);
    }
}

static void test_decisions_and_remaining_go_newest_first_before_pins(void **state)
{
    (void)state;
    const uint32_t decision_costs[] = {20, 20}, remaining_costs[] = {20, 20};
    struct numbers decisions = numbers(2, decision_costs), remaining = numbers(2, remaining_costs);
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_PINNED, 31, 0)};
    struct handoff_trim_plan plan = plan_of(100 + 2 + 4 + REFERENCE + 2 + 60 + 19, memories, 1);
    decisions.age[0] = 1, decisions.age[1] = 7, remaining.age[0] = 2, remaining.age[1] = 3;
    plan.lists[HANDOFF_PART_DECISIONS] = &decisions.list;
    plan.lists[HANDOFF_PART_REMAINING] = &remaining.list;
    assert_true(handoff_trim(&plan));
    assert_int_equal(decisions.form[1], HANDOFF_ENTRY_WHOLE);
    assert_int_equal(decisions.form[0], HANDOFF_ENTRY_OMITTED);
    assert_int_equal(remaining.list.kept, 2);
    assert_int_equal(memories[0].form, R);
}

static void test_open_questions_get_half_of_the_budget_and_the_oldest_go(void **state)
{
    (void)state;
    const uint32_t costs[] = {100, 100, 100, 100};
    struct numbers unresolved = numbers(4, costs);
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_INHERITED, 0, 0)};
    struct handoff_trim_plan plan = plan_of(500, memories, 1);
    memories[0].age = 2;
    const uint32_t rest[] = {150};
    struct numbers decisions = numbers(1, rest);
    plan.lists[HANDOFF_PART_UNRESOLVED] = &unresolved.list;
    plan.lists[HANDOFF_PART_DECISIONS] = &decisions.list;
    assert_true(handoff_trim(&plan));
    assert_int_equal(decisions.list.kept, 1);
    assert_int_equal(unresolved.list.kept, 2);
    assert_int_equal(unresolved.form[1], HANDOFF_ENTRY_OMITTED);
    assert_int_equal(unresolved.form[2], HANDOFF_ENTRY_WHOLE);
    assert_int_equal(memories[0].form, R);
    plan.budget = 1000; /* all of it is less than half */
    assert_true(handoff_trim(&plan));
    assert_int_equal(unresolved.list.kept, 4);
}

static void test_open_questions_beyond_half_take_what_is_left(void **state)
{
    (void)state;
    const uint32_t costs[] = {100, 30, 100, 100, 100};
    struct numbers unresolved = numbers(5, costs);
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_FOUND, 60, 0)};
    struct handoff_trim_plan plan = plan_of(500, memories, 1);
    plan.lists[HANDOFF_PART_UNRESOLVED] = &unresolved.list;
    assert_true(handoff_trim(&plan));
    assert_int_equal(unresolved.list.kept, 4);
    assert_int_equal(unresolved.form[0], HANDOFF_ENTRY_OMITTED);
    assert_int_equal(memories[0].form, F);
    plan.budget = 490; /* what was found comes behind them */
    assert_true(handoff_trim(&plan));
    assert_int_equal(unresolved.list.kept, 4);
    assert_int_equal(memories[0].form, NONE);
}

/* Not some older one that happens to be smaller. */
static void test_behind_the_first_open_question_without_room_all_older_ones_go(void **state)
{
    (void)state;
    const uint32_t costs[] = {5, 200, 100};
    struct numbers unresolved = numbers(3, costs);
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_INHERITED, 0, 0)};
    struct handoff_trim_plan plan = plan_of(500, memories, 1);
    memories[0].age = 2; /* as old as the last question */
    const uint32_t rest[] = {281};
    struct numbers decisions = numbers(1, rest);
    plan.lists[HANDOFF_PART_UNRESOLVED] = &unresolved.list;
    plan.lists[HANDOFF_PART_DECISIONS] = &decisions.list;
    assert_true(handoff_trim(&plan));
    assert_int_equal(unresolved.form[2], HANDOFF_ENTRY_WHOLE);
    assert_int_equal(memories[0].form, R);
    assert_int_equal(unresolved.form[1], HANDOFF_ENTRY_OMITTED);
    assert_int_equal(unresolved.form[0], HANDOFF_ENTRY_OMITTED);
    assert_int_equal(decisions.list.kept, 1);
}

static void test_an_open_question_larger_than_half_of_the_budget_hides_no_other(void **state)
{
    (void)state;
    const uint32_t costs[] = {5, 300, 100};
    struct numbers unresolved = numbers(3, costs);
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_INHERITED, 0, 0)};
    struct handoff_trim_plan plan = plan_of(500, memories, 1);
    memories[0].age = 0;
    plan.lists[HANDOFF_PART_UNRESOLVED] = &unresolved.list;
    assert_true(handoff_trim(&plan));
    assert_int_equal(unresolved.form[1], HANDOFF_ENTRY_OMITTED);
    assert_int_equal(unresolved.form[0], HANDOFF_ENTRY_WHOLE);
    assert_int_equal(unresolved.form[2], HANDOFF_ENTRY_WHOLE);
    assert_int_equal(memories[0].form, R);
}

static void test_open_questions_within_half_are_never_trimmed(void **state)
{
    (void)state;
    const uint32_t costs[] = {40};
    struct numbers unresolved = numbers(1, costs);
    struct handoff_trim_plan plan = plan_of(144, NULL, 0);
    plan.lists[HANDOFF_PART_UNRESOLVED] = &unresolved.list;
    assert_false(handoff_trim(&plan));
    assert_int_equal(plan.needed, 100 + 2 + 2 + 41);
    plan.budget = plan.needed;
    assert_true(handoff_trim(&plan));
    assert_int_equal(unresolved.list.kept, 1);
}

static void test_reasons_are_the_first_to_go(void **state)
{
    (void)state;
    const uint32_t costs[] = {20, 20};
    struct numbers steps = numbers(2, costs);
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_FOUND, 30, 0)};
    struct handoff_trim_plan plan = plan_of(100 + 3 + 2 + 41 + 30 + 6, memories, 1);
    steps.reason[0] = steps.reason[1] = 6;
    plan.lists[HANDOFF_PART_STEPS] = &steps.list;
    assert_true(handoff_trim(&plan));
    assert_int_equal(memories[0].form, F);
    assert_int_equal(steps.form[1], HANDOFF_ENTRY_WHOLE);
    assert_int_equal(steps.form[0], HANDOFF_ENTRY_SHORT);
}

static void test_full_is_all_or_nothing(void **state)
{
    (void)state;
    const uint32_t costs[] = {30, 30};
    struct numbers steps = numbers(2, costs), decisions = numbers(2, costs);
    struct handoff_trim_memory memories[] = {memory(HANDOFF_RANK_ASKED, 500, 5),
                                             memory(HANDOFF_RANK_FOUND, 0, 60)};
    struct handoff_trim_plan plan = plan_of(100 + 3 + 560 + 63 + 63 + 7, memories, 2);
    steps.reason[0] = 7;
    plan.strategy = HANDOFF_STRATEGY_FULL;
    plan.lists[HANDOFF_PART_STEPS] = &steps.list;
    plan.lists[HANDOFF_PART_DECISIONS] = &decisions.list;
    assert_true(handoff_trim(&plan));
    assert_int_equal(plan.count, plan.budget);
    assert_int_equal(memories[1].form, S); /* may not go in full */
    plan.budget--;
    assert_false(handoff_trim(&plan));
    assert_int_equal(plan.needed, plan.budget + 1);
}

static void test_what_fits_is_kept_behind_what_does_not(void **state)
{
    (void)state;
    const uint32_t costs[] = {5, 200, 20, 30};
    struct numbers steps = numbers(4, costs);
    struct handoff_trim_plan plan = plan_of(100 + 2 + 2 + 1 + 60, NULL, 0);
    plan.lists[HANDOFF_PART_STEPS] = &steps.list;
    assert_true(handoff_trim(&plan));
    assert_int_equal(steps.list.kept, 3);
    assert_int_equal(steps.form[1], HANDOFF_ENTRY_OMITTED);
}

/* ---- properties ---------------------------------------------------------------------------- */

enum { MEMORIES = 24, ROUNDS = 20000 };

struct world {
    struct handoff_trim_memory memories[MEMORIES];
    struct numbers lists[HANDOFF_LISTS];
    struct handoff_trim_plan plan;
};

static enum handoff_rank rank_at(size_t i, size_t count, const uint32_t *shares)
{
    size_t behind = 0;
    for (int rank = 0; rank < HANDOFF_RANK_FOUND; rank++) {
        behind += count * shares[rank] / 16;
        if (i < behind)
            return (enum handoff_rank)rank;
    }
    return HANDOFF_RANK_FOUND;
}

static void make_memories(struct world *world, struct property *property, size_t count)
{
    const uint32_t shares[] = {property_below(property, 5), property_below(property, 6),
                               property_below(property, 6)};
    handoff_age age = 40;
    for (size_t i = 0; i < count; i++) {
        struct handoff_trim_memory *one = &world->memories[i];
        *one = memory(rank_at(i, count, shares), 40 + property_below(property, 400),
                      property_chance(property, 60) ? 35 + property_below(property, 60) : 0);
        if (one->cost[S] && property_chance(property, 10))
            one->cost[F] = 0;
        age -= property_below(property, 3);
        if (one->rank == HANDOFF_RANK_INHERITED)
            one->age = age;
        if (one->rank != HANDOFF_RANK_FOUND && property_chance(property, 20))
            one->cost[HANDOFF_FORM_ID] = 0; /* its id is not plain */
        if (!one->cost[HANDOFF_FORM_ID] || property_chance(property, 20))
            one->cost[HANDOFF_FORM_REFERENCE] = DESCRIBED;
        one->last_extra = (int32_t)property_below(property, 5) - 2;
    }
}

static void make_world(struct world *world, struct property *property)
{
    const size_t count = property_below(property, MEMORIES + 1);
    make_memories(world, property, count);
    world->plan = plan_of(100 + property_below(property, 4000), world->memories, count);
    world->plan.strategy = (enum handoff_strategy)property_below(property, 4);
    world->plan.ids_some = property_below(property, 4);
    for (int i = 0; i < HANDOFF_LISTS; i++) {
        uint32_t costs[ENTRIES];
        for (size_t e = 0; e < ENTRIES; e++)
            costs[e] = 1 + property_below(property, property_chance(property, 10) ? 900 : 60);
        world->lists[i] = numbers(property_below(property, ENTRIES + 1), costs);
        for (size_t e = 0; e < ENTRIES; e++)
            world->lists[i].reason[e] =
                property_chance(property, 30) ? 1 + property_below(property, 20) : 0;
        world->plan.lists[i] = property_chance(property, 80) ? &world->lists[i].list : NULL;
    }
}

/* The count from nothing but the answers: written without the walk of plan.c. */
static uint64_t recount(const struct handoff_trim_plan *plan)
{
    int64_t sum = (int64_t)plan->fixed, last = 0;
    bool some = false, ids = false;
    for (size_t i = 0; i < plan->nmemories; i++) {
        const struct handoff_trim_memory *one = &plan->memories[i];
        if (one->form == HANDOFF_FORM_NONE)
            continue;
        sum += one->cost[one->form];
        ids |= one->form == HANDOFF_FORM_ID;
        if (one->form == HANDOFF_FORM_ID)
            continue;
        last = one->last_extra;
        some = true;
    }
    sum += ids ? plan->ids_some : 0;
    sum += (some ? plan->memories_some : plan->memories_none) + last;
    for (int i = 0; i < HANDOFF_LISTS; i++) {
        const struct numbers *list = (const struct numbers *)plan->lists[i];
        if (!list)
            continue;
        sum += list->list.empty + (list->list.kept > 0);
        for (size_t e = 0; e < list->list.count; e++) {
            if (list->form[e] != HANDOFF_ENTRY_OMITTED)
                sum += list->cost[e];
            if (list->form[e] == HANDOFF_ENTRY_WHOLE)
                sum += list->reason[e];
        }
    }
    return (uint64_t)sum;
}

/* What the first group would take: all of its entries and ids. */
static int64_t first_group(const struct handoff_trim_plan *plan, bool only_kept)
{
    const struct numbers *unresolved = (const struct numbers *)plan->lists[HANDOFF_PART_UNRESOLVED];
    int64_t sum = 0;
    for (size_t e = 0; unresolved && e < unresolved->list.count; e++) {
        if (!only_kept || unresolved->form[e] != HANDOFF_ENTRY_OMITTED)
            sum += unresolved->cost[e];
    }
    for (size_t i = 0; i < plan->nmemories; i++) {
        if (plan->memories[i].rank != HANDOFF_RANK_FOUND &&
            (!only_kept || plan->memories[i].form != HANDOFF_FORM_NONE))
            sum += plan->memories[i].cost[HANDOFF_FORM_ID] ? REFERENCE : DESCRIBED;
    }
    return sum;
}

static void check_full(const struct handoff_trim_plan *plan)
{
    for (size_t i = 0; i < plan->nmemories; i++)
        assert_int_not_equal(plan->memories[i].form, NONE);
    for (int i = 0; i < HANDOFF_LISTS; i++) {
        if (plan->lists[i])
            assert_int_equal(plan->lists[i]->kept, plan->lists[i]->count);
    }
}

enum { SLACK = 9 }; /* tokens of what opens and ends lists */

static bool is_larger_than_half(const struct handoff_trim_plan *plan, int part, uint32_t cost)
{
    return part == HANDOFF_PART_UNRESOLVED && 2 * (uint64_t)(cost + SLACK) > plan->budget;
}

/* Nothing that was trimmed would still have fitted at the end: the budget is used. Except for open
   questions that are larger than half of it. */
static void check_used_well(const struct handoff_trim_plan *plan)
{
    for (size_t i = 0; i < plan->nmemories; i++) {
        const struct handoff_trim_memory *one = &plan->memories[i];
        uint32_t least = 0;
        for (int form = plan->strategy == HANDOFF_STRATEGY_LAZY      ? HANDOFF_FORM_REFERENCE
                        : plan->strategy == HANDOFF_STRATEGY_SUMMARY ? S
                                                                     : F;
             form < HANDOFF_FORMS; form++) {
            if (one->cost[form] && (!least || one->cost[form] < least))
                least = one->cost[form];
        }
        if (one->form == HANDOFF_FORM_NONE && least)
            assert_true(plan->count + least + SLACK > plan->budget);
    }
    for (int i = 0; i < HANDOFF_LISTS; i++) {
        const struct numbers *list = (const struct numbers *)plan->lists[i];
        for (size_t e = 0; list && e < list->list.count; e++) {
            if (list->form[e] == HANDOFF_ENTRY_OMITTED &&
                !is_larger_than_half(plan, i, list->cost[e]))
                assert_true(plan->count + list->cost[e] + SLACK > plan->budget);
        }
    }
}

/* All of the first group is there, or it has about half of the budget. */
static void check_first_group(const struct handoff_trim_plan *plan)
{
    if (first_group(plan, true) < first_group(plan, false))
        assert_true(2 * (first_group(plan, false) + SLACK) > (int64_t)plan->budget);
}

static void check_rejected(struct handoff_trim_plan *plan)
{
    const uint64_t needed = plan->needed;
    assert_true(needed > plan->budget);
    plan->budget = needed - 1;
    assert_false(handoff_trim(plan));
    plan->budget = needed;
    assert_true(handoff_trim(plan));
    assert_int_equal(plan->count, recount(plan));
}

static void test_properties(void **state)
{
    (void)state;
    struct property property = property_begin("trim");
    static struct world world;
    size_t refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        make_world(&world, &property);
        if (!handoff_trim(&world.plan)) {
            refused++;
            check_rejected(&world.plan);
            continue;
        }
        assert_true(world.plan.count <= world.plan.budget);
        assert_int_equal(world.plan.count, recount(&world.plan));
        if (world.plan.strategy == HANDOFF_STRATEGY_FULL) {
            check_full(&world.plan);
        } else {
            check_used_well(&world.plan);
            check_first_group(&world.plan);
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
        cmocka_unit_test(test_a_giant_pin_goes_by_its_id),
        cmocka_unit_test(test_the_best_form_goes_to_pins_then_to_this_hop_then_to_steps),
        cmocka_unit_test(test_decisions_and_remaining_go_newest_first_before_pins),
        cmocka_unit_test(test_open_questions_get_half_of_the_budget_and_the_oldest_go),
        cmocka_unit_test(test_open_questions_beyond_half_take_what_is_left),
        cmocka_unit_test(test_behind_the_first_open_question_without_room_all_older_ones_go),
        cmocka_unit_test(test_an_open_question_larger_than_half_of_the_budget_hides_no_other),
        cmocka_unit_test(test_open_questions_within_half_are_never_trimmed),
        cmocka_unit_test(test_reasons_are_the_first_to_go),
        cmocka_unit_test(test_full_is_all_or_nothing),
        cmocka_unit_test(test_what_fits_is_kept_behind_what_does_not),
        cmocka_unit_test(test_properties),
    };
    return RUN_TESTS(tests);
}
