/* SPDX-License-Identifier: Apache-2.0 */
/* The breaker of one agent: trips on exhausted handoffs in a row, cools down, sends one probe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/agents/breaker.h"

enum { COOLDOWN = 60000, START = 1000000 };

static struct handoff_breaker fresh(void)
{
    return (struct handoff_breaker){.threshold = 3, .cooldown_ms = COOLDOWN};
}

static struct handoff_breaker opened(void)
{
    struct handoff_breaker breaker = fresh();
    for (int i = 0; i < 3; i++)
        handoff_breaker_exhausted(&breaker, START);
    assert_int_equal(breaker.circuit, HANDOFF_CIRCUIT_OPEN);
    return breaker;
}

static void expect(struct handoff_breaker *breaker, int64_t now_ms,
                   enum handoff_admission admission, int64_t wait_ms)
{
    int64_t wait = -1;
    assert_int_equal(handoff_breaker_admit(breaker, now_ms, &wait), admission);
    assert_int_equal(wait, wait_ms);
}

static void test_opens_at_the_third_exhausted_in_a_row(void **state)
{
    (void)state;
    struct handoff_breaker breaker = fresh();
    assert_false(handoff_breaker_exhausted(&breaker, START));
    assert_false(handoff_breaker_exhausted(&breaker, START));
    expect(&breaker, START, HANDOFF_ADMIT, 0);
    assert_true(handoff_breaker_exhausted(&breaker, START));
    assert_int_equal(breaker.consecutive_failures, 3);
    expect(&breaker, START, HANDOFF_ADMIT_LATER, COOLDOWN);
}

static void test_an_answer_between_starts_the_count_again(void **state)
{
    (void)state;
    struct handoff_breaker breaker = fresh();
    handoff_breaker_exhausted(&breaker, START);
    handoff_breaker_exhausted(&breaker, START);
    assert_false(handoff_breaker_answered(&breaker));
    assert_int_equal(breaker.consecutive_failures, 0);
    assert_false(handoff_breaker_exhausted(&breaker, START));
    assert_int_equal(breaker.circuit, HANDOFF_CIRCUIT_CLOSED);
}

/* What is shown is what a handoff would meet: turned away, or taken as a probe. */
static void test_an_open_circuit_is_shown_open_until_its_cooldown_is_over(void **state)
{
    (void)state;
    struct handoff_breaker breaker = fresh();
    assert_int_equal(handoff_breaker_shown(&breaker, START), HANDOFF_CIRCUIT_CLOSED);
    breaker = opened();
    assert_int_equal(handoff_breaker_shown(&breaker, START), HANDOFF_CIRCUIT_OPEN);
    assert_int_equal(handoff_breaker_shown(&breaker, START + COOLDOWN - 1), HANDOFF_CIRCUIT_OPEN);
    assert_int_equal(handoff_breaker_shown(&breaker, START + COOLDOWN), HANDOFF_CIRCUIT_HALF_OPEN);
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT_PROBE, 0);
    assert_int_equal(handoff_breaker_shown(&breaker, START + COOLDOWN), HANDOFF_CIRCUIT_HALF_OPEN);
    handoff_breaker_probe_failed(&breaker, START + COOLDOWN);
    assert_int_equal(handoff_breaker_shown(&breaker, START + COOLDOWN), HANDOFF_CIRCUIT_OPEN);
}

static void test_taking_is_no_answer_to_the_handoffs_before(void **state)
{
    (void)state;
    struct handoff_breaker breaker = fresh();
    handoff_breaker_exhausted(&breaker, START);
    handoff_breaker_exhausted(&breaker, START);
    assert_false(handoff_breaker_took(&breaker));
    assert_int_equal(breaker.consecutive_failures, 2);
    assert_true(handoff_breaker_exhausted(&breaker, START));
    assert_false(handoff_breaker_took(&breaker)); /* an attempt from before it opened */
    assert_int_equal(breaker.circuit, HANDOFF_CIRCUIT_OPEN);
}

static void test_a_probe_that_is_taken_closes_until_it_is_exhausted(void **state)
{
    (void)state;
    struct handoff_breaker breaker = opened();
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT_PROBE, 0);
    assert_true(handoff_breaker_took(&breaker));
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT, 0);
    assert_true(handoff_breaker_exhausted(&breaker, START + COOLDOWN));
    assert_int_equal(breaker.circuit, HANDOFF_CIRCUIT_OPEN);
}

static void test_cooldown_then_exactly_one_probe(void **state)
{
    (void)state;
    struct handoff_breaker breaker = opened();
    expect(&breaker, START + COOLDOWN - 1, HANDOFF_ADMIT_LATER, 1);
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT_PROBE, 0);
    assert_int_equal(breaker.circuit, HANDOFF_CIRCUIT_HALF_OPEN);
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT_LATER, 0);
    expect(&breaker, START + 10 * COOLDOWN, HANDOFF_ADMIT_LATER, 0);
}

static void test_probe_answered_closes(void **state)
{
    (void)state;
    struct handoff_breaker breaker = opened();
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT_PROBE, 0);
    assert_true(handoff_breaker_answered(&breaker));
    assert_int_equal(breaker.consecutive_failures, 0);
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT, 0);
}

static void test_probe_failed_opens_for_a_whole_cooldown(void **state)
{
    (void)state;
    struct handoff_breaker breaker = opened();
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT_PROBE, 0);
    assert_true(handoff_breaker_probe_failed(&breaker, START + COOLDOWN + 5));
    expect(&breaker, START + COOLDOWN + 5, HANDOFF_ADMIT_LATER, COOLDOWN);
    expect(&breaker, START + 2 * COOLDOWN + 5, HANDOFF_ADMIT_PROBE, 0);
}

static void test_probe_abandoned_lets_the_next_probe(void **state)
{
    (void)state;
    struct handoff_breaker breaker = opened();
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT_PROBE, 0);
    assert_true(handoff_breaker_probe_abandoned(&breaker, START + COOLDOWN));
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT_PROBE, 0);
}

static void test_a_late_probe_cannot_undo_a_reset(void **state)
{
    (void)state;
    struct handoff_breaker breaker = opened();
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT_PROBE, 0);
    assert_true(handoff_breaker_reset(&breaker));
    assert_false(handoff_breaker_probe_failed(&breaker, START + COOLDOWN));
    assert_false(handoff_breaker_probe_abandoned(&breaker, START + COOLDOWN));
    assert_int_equal(breaker.circuit, HANDOFF_CIRCUIT_CLOSED);
}

static void test_exhausted_while_open_does_not_prolong(void **state)
{
    (void)state;
    struct handoff_breaker breaker = opened();
    assert_false(handoff_breaker_exhausted(&breaker, START + COOLDOWN - 1));
    assert_int_equal(breaker.consecutive_failures, 4);
    expect(&breaker, START + COOLDOWN, HANDOFF_ADMIT_PROBE, 0);
}

static void test_threshold_zero_never_opens(void **state)
{
    (void)state;
    struct handoff_breaker breaker = {.threshold = 0, .cooldown_ms = COOLDOWN};
    for (int i = 0; i < 100; i++)
        assert_false(handoff_breaker_exhausted(&breaker, START));
    assert_int_equal(breaker.consecutive_failures, 100);
    expect(&breaker, START, HANDOFF_ADMIT, 0);
}

static void test_looking_changes_nothing(void **state)
{
    (void)state;
    struct handoff_breaker breaker = opened();
    int64_t wait;
    assert_true(handoff_breaker_is_open(&breaker, START + 1, &wait));
    assert_int_equal(wait, COOLDOWN - 1);
    assert_false(handoff_breaker_is_open(&breaker, START + COOLDOWN, &wait));
    assert_int_equal(breaker.circuit, HANDOFF_CIRCUIT_OPEN);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(handoff_circuit_name(HANDOFF_CIRCUIT_CLOSED), "closed");
    assert_string_equal(handoff_circuit_name(HANDOFF_CIRCUIT_HALF_OPEN), "half_open");
    assert_string_equal(handoff_circuit_name(HANDOFF_CIRCUIT_OPEN), "open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opens_at_the_third_exhausted_in_a_row),
        cmocka_unit_test(test_an_answer_between_starts_the_count_again),
        cmocka_unit_test(test_an_open_circuit_is_shown_open_until_its_cooldown_is_over),
        cmocka_unit_test(test_taking_is_no_answer_to_the_handoffs_before),
        cmocka_unit_test(test_a_probe_that_is_taken_closes_until_it_is_exhausted),
        cmocka_unit_test(test_cooldown_then_exactly_one_probe),
        cmocka_unit_test(test_probe_answered_closes),
        cmocka_unit_test(test_probe_failed_opens_for_a_whole_cooldown),
        cmocka_unit_test(test_probe_abandoned_lets_the_next_probe),
        cmocka_unit_test(test_a_late_probe_cannot_undo_a_reset),
        cmocka_unit_test(test_exhausted_while_open_does_not_prolong),
        cmocka_unit_test(test_threshold_zero_never_opens),
        cmocka_unit_test(test_looking_changes_nothing),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
