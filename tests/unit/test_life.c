/* SPDX-License-Identifier: Apache-2.0 */
/* The states of the contract, and what must never happen between them. */
#include "tests/support/unit.h"

#include <string.h>

#include "client/model/life.h"

/* Section 4 of the contract, in its order. */
static const char *const contract[] = {"ready",  "in_flight", "awaiting_ack", "acknowledged",
                                       "parked", "expired",   "discarded"};
enum { STATES = sizeof contract / sizeof *contract };

static enum handoff_state state_named(const char *name)
{
    enum handoff_state state;
    assert_true(handoff_state_from_name(name, strlen(name), &state));
    return state;
}

static void test_the_names_are_those_of_the_contract(void **unused)
{
    (void)unused;
    for (int i = 0; i < STATES; i++)
        assert_string_equal(handoff_state_name(state_named(contract[i])), contract[i]);
    enum handoff_state state;
    assert_false(handoff_state_from_name("lost", 4, &state));
    assert_false(handoff_state_from_name("read", 4, &state));
}

static void test_numbers_lead_back_and_strangers_are_refused(void **unused)
{
    (void)unused;
    for (int i = 0; i < STATES; i++) {
        enum handoff_state state;
        assert_true(handoff_state_from_number((int)state_named(contract[i]), &state));
        assert_int_equal(state, state_named(contract[i]));
    }
    enum handoff_state state;
    assert_false(handoff_state_from_number(0, &state));
    assert_false(handoff_state_from_number(99, &state));
}

static void test_what_is_over_stays_over(void **unused)
{
    (void)unused;
    for (int from = 0; from < STATES; from++) {
        if (!handoff_state_is_over(state_named(contract[from])))
            continue;
        for (int to = 0; to < STATES; to++)
            assert_null(handoff_life_move(state_named(contract[from]), state_named(contract[to])));
    }
}

/* Accepted means acknowledged, parked, or past its deadline; a person decides about the rest. */
static void test_every_live_state_can_end_in_each_way(void **unused)
{
    (void)unused;
    static const char *const ends[] = {"acknowledged", "parked", "expired"};
    for (int from = 0; from < STATES; from++) {
        if (!handoff_state_is_live(state_named(contract[from])))
            continue;
        for (size_t end = 0; end < 3; end++)
            assert_non_null(handoff_life_move(state_named(contract[from]), state_named(ends[end])));
    }
}

static void test_only_a_person_discards(void **unused)
{
    (void)unused;
    for (int from = 0; from < STATES; from++) {
        bool parked = strcmp(contract[from], "parked") == 0;
        const char *what = handoff_life_move(state_named(contract[from]), HANDOFF_STATE_DISCARDED);
        assert_int_equal(parked, what != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_names_are_those_of_the_contract),
        cmocka_unit_test(test_numbers_lead_back_and_strangers_are_refused),
        cmocka_unit_test(test_what_is_over_stays_over),
        cmocka_unit_test(test_every_live_state_can_end_in_each_way),
        cmocka_unit_test(test_only_a_person_discards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
