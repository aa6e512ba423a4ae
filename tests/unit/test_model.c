/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the model against lists that were written by hand from the contract: every name, in
 * order, every number that a store may hold, and what must never happen between two states.
 */
#include "tests/support/unit.h"

#include <string.h>

#include "client/handoff.h"
#include "client/model/model.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- the states, section 4 of the contract -----------------------------------------------------
 */

static const struct {
    const char *name;
    int number;
} states[] = {{"ready", 1},  {"in_flight", 2}, {"awaiting_ack", 3}, {"acknowledged", 4},
              {"parked", 5}, {"expired", 6},   {"discarded", 7}};

static void test_states_keep_their_names_and_numbers(void **unused)
{
    (void)unused;
    enum handoff_state state;
    for (size_t i = 0; i < COUNT(states); i++) {
        assert_int_equal(handoff_state_of_name(states[i].name), states[i].number);
        assert_true(handoff_state_from_number(states[i].number, &state));
        assert_int_equal(state, states[i].number);
        assert_string_equal(handoff_state_name(state), states[i].name);
    }
    assert_false(handoff_state_from_number(0, &state));
    assert_false(handoff_state_from_number(-1, &state));
    assert_false(handoff_state_from_number((int)COUNT(states) + 1, &state));
    assert_int_equal(handoff_state_of_name("lost"), HANDOFF_STATE_NONE);
    assert_int_equal(handoff_state_of_name("read"), HANDOFF_STATE_NONE);
    assert_int_equal(handoff_state_of_name(""), HANDOFF_STATE_NONE);
    assert_int_equal(handoff_state_of_name(NULL), HANDOFF_STATE_NONE);
}

static void test_what_is_over_stays_over(void **unused)
{
    (void)unused;
    for (size_t from = 0; from < COUNT(states); from++) {
        if (!handoff_state_is_over((enum handoff_state)states[from].number))
            continue;
        for (size_t to = 0; to < COUNT(states); to++)
            assert_null(handoff_life_move((enum handoff_state)states[from].number,
                                          (enum handoff_state)states[to].number));
    }
}

/* Accepted means acknowledged, parked, or past its deadline; a person decides about the rest. */
static void test_every_live_state_can_end_in_each_way(void **unused)
{
    (void)unused;
    static const enum handoff_state ends[] = {HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_STATE_PARKED,
                                              HANDOFF_STATE_EXPIRED};
    for (size_t from = 0; from < COUNT(states); from++) {
        enum handoff_state state = (enum handoff_state)states[from].number;
        for (size_t end = 0; handoff_state_is_live(state) && end < COUNT(ends); end++)
            assert_non_null(handoff_life_move(state, ends[end]));
    }
}

static void test_what_has_not_ended_can_be_taken_back(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < COUNT(states); i++) {
        enum handoff_state from = (enum handoff_state)states[i].number;
        const char *what = handoff_life_move(from, HANDOFF_STATE_DISCARDED);
        assert_int_equal(!handoff_state_is_over(from), what != NULL);
    }
}

/* ---- the other enums ---------------------------------------------------------------------------
 */

/* The names by number; "" is the one of NONE. What the store keeps as a number stands here at it.
 */
#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

#define CHECK_NAMES(enumeration, name_of, count, ...)                                              \
    do {                                                                                           \
        const char *const *names = NAMES(__VA_ARGS__);                                             \
        int at = 0;                                                                                \
        for (; names[at]; at++) {                                                                  \
            assert_string_equal(name_of((enumeration)at), names[at]);                              \
            assert_int_equal(handoff_name_find(names, base_span_text(names[at])), at);             \
        }                                                                                          \
        assert_int_equal(at, count);                                                               \
        assert_string_equal(name_of((enumeration)at), "");                                         \
        assert_string_equal(name_of((enumeration)-1), "");                                         \
    } while (0)

static void test_names_are_those_that_were_released(void **unused)
{
    (void)unused;
    CHECK_NAMES(enum handoff_reason, handoff_reason_name, HANDOFF_REASON_COUNT, "", "exhausted",
                "refused", "rejected", "circuit_open", "unknown_agent", "store_corrupt", "by_hand",
                "hop_limit", "budget_too_small", "expired", "unknown");
    CHECK_NAMES(enum handoff_obstacle, handoff_obstacle_name, HANDOFF_OBSTACLE_COUNT, "",
                "circuit_open", "unknown_agent", "budget_too_small", "version", "sender", "tried");
    CHECK_NAMES(enum handoff_outcome, handoff_outcome_name, HANDOFF_OUTCOME_COUNT, "",
                "acknowledged", "exhausted", "refused", "rejected", "expired", "hop_limit",
                "circuit_open");
    CHECK_NAMES(enum handoff_circuit, handoff_circuit_name, HANDOFF_CIRCUIT_COUNT, "closed",
                "half_open", "open");
    CHECK_NAMES(enum handoff_operation, handoff_operation_name, HANDOFF_OPERATION_COUNT, "resolve",
                "search", "get", "list", "put", "pin", "delete");
    CHECK_NAMES(enum handoff_strategy, handoff_strategy_name, 4, "priority", "full", "summary",
                "lazy");
    CHECK_NAMES(enum handoff_action, handoff_action_name, HANDOFF_ACTION_COUNT, "replay",
                "redirect", "edit", "revive", "discard", "cancel", "park");
    CHECK_NAMES(enum handoff_fate, handoff_fate_name, HANDOFF_FATE_COUNT, "open", "succeeded",
                "skipped", "failed");
    CHECK_NAMES(enum handoff_run_state, handoff_run_state_name, 4, "running", "done", "stopped",
                "waiting");
    CHECK_NAMES(enum handoff_reserved, handoff_reserved_name, 3, "other", "next", "broadcast");
    CHECK_NAMES(enum handoff_shortage, handoff_shortage_name, HANDOFF_SHORTAGE_COUNT, "",
                "descriptors", "memory", "threads", "ports", "disk");
    CHECK_NAMES(enum handoff_secret, handoff_secret_name, HANDOFF_SECRET_COUNT, "", "private_key",
                "aws_key", "azure_key", "google_key", "github_token", "gitlab_token", "slack_token",
                "stripe_key", "openai_key", "anthropic_key", "huggingface_token", "npm_token",
                "pypi_token", "sendgrid_key", "twilio_key", "jwt", "url_password", "authorization",
                "service_token");
    CHECK_NAMES(enum handoff_secret_place, handoff_secret_place_name, HANDOFF_SECRET_PLACE_COUNT,
                "request", "constraint", "memory", "reason");
    CHECK_NAMES(enum handoff_recovery, handoff_recovery_name, HANDOFF_RECOVERY_COUNT, "recovered",
                "stale", "missing");
    CHECK_NAMES(enum handoff_absence, handoff_absence_name, 6, "", "not_found", "too_large",
                "conversation_log", "spine_unavailable", "search_incomplete");
}

static void test_numbers_in_the_store_are_those_that_were_released(void **unused)
{
    (void)unused;
    CHECK_NAMES(enum handoff_attempt_result, handoff_result_name, HANDOFF_RESULT_COUNT, "ack",
                "nack", "timeout", "connect", "http", "protocol");
    CHECK_NAMES(enum handoff_pattern, handoff_pattern_name, HANDOFF_PATTERN_COUNT, "direct",
                "broadcast", "choreographed");
    CHECK_NAMES(enum handoff_importance, handoff_importance_name, 4, "low", "medium", "high",
                "critical");
}

static void test_reasons_lead_back_and_words_are_other(void **unused)
{
    (void)unused;
    for (int i = 0; i < HANDOFF_REASON_COUNT; i++) {
        enum handoff_reason reason = (enum handoff_reason)i;
        assert_int_equal(handoff_reason_from_name(base_span_text(handoff_reason_name(reason))), i);
    }
    assert_int_equal(handoff_reason_from_name(base_span(NULL, 0)), HANDOFF_REASON_NONE);
    assert_int_equal(handoff_reason_from_name(base_span_text("asked twice")), HANDOFF_REASON_OTHER);
    assert_int_equal(handoff_reason_from_name(base_span_text("exhaust")), HANDOFF_REASON_OTHER);
}

static void test_each_parking_has_an_outcome(void **unused)
{
    (void)unused;
    static const struct {
        enum handoff_reason reason;
        enum handoff_outcome outcome;
    } parkings[] = {{HANDOFF_REASON_EXHAUSTED, HANDOFF_OUTCOME_EXHAUSTED},
                    {HANDOFF_REASON_REFUSED, HANDOFF_OUTCOME_REFUSED},
                    {HANDOFF_REASON_REJECTED, HANDOFF_OUTCOME_REJECTED},
                    {HANDOFF_REASON_CIRCUIT_OPEN, HANDOFF_OUTCOME_CIRCUIT_OPEN},
                    {HANDOFF_REASON_UNKNOWN_AGENT, HANDOFF_OUTCOME_EXHAUSTED},
                    {HANDOFF_REASON_STORE_CORRUPT, HANDOFF_OUTCOME_EXHAUSTED},
                    {HANDOFF_REASON_BY_HAND, HANDOFF_OUTCOME_NONE},
                    {HANDOFF_REASON_BUDGET_TOO_SMALL, HANDOFF_OUTCOME_NONE},

                    {HANDOFF_REASON_HOP_LIMIT, HANDOFF_OUTCOME_HOP_LIMIT}};
    size_t parks = 0;
    for (int i = 0; i < HANDOFF_REASON_COUNT; i++)
        parks += handoff_reason_parks((enum handoff_reason)i);
    assert_int_equal(parks, COUNT(parkings));
    for (size_t i = 0; i < COUNT(parkings); i++) {
        assert_true(handoff_reason_parks(parkings[i].reason));
        assert_int_equal(handoff_reason_outcome(parkings[i].reason), parkings[i].outcome);
    }
    assert_int_equal(handoff_reason_outcome(HANDOFF_REASON_EXPIRED), HANDOFF_OUTCOME_EXPIRED);
    for (int i = HANDOFF_OBSTACLE_NONE + 1; i < HANDOFF_OBSTACLE_COUNT; i++)
        assert_true(handoff_reason_parks(handoff_obstacle_reason((enum handoff_obstacle)i)));
}

static void test_the_detail_says_why_it_was_parked(void **unused)
{
    (void)unused;
    static const struct {
        enum handoff_reason reason;
        const char *detail;
    } parkings[] = {
        {HANDOFF_REASON_EXHAUSTED, "every attempt failed; the handoff is parked"},
        {HANDOFF_REASON_REFUSED, "the agent refused it permanently; the handoff is parked"},
        {HANDOFF_REASON_REJECTED,
         "the agent's address or credentials are wrong; the handoff is parked"},
        {HANDOFF_REASON_CIRCUIT_OPEN,
         "the circuit stayed open for a full cooldown; the handoff is parked"},
        {HANDOFF_REASON_UNKNOWN_AGENT,
         "the agent is no longer in the configuration; the handoff is parked"},
        {HANDOFF_REASON_STORE_CORRUPT, "the stored envelope is damaged; the handoff is parked"},
        {HANDOFF_REASON_OTHER, "a reason that this version does not know; the handoff is parked"}};
    for (size_t i = 0; i < COUNT(parkings); i++)
        assert_string_equal(handoff_reason_detail(parkings[i].reason), parkings[i].detail);
    assert_string_equal(handoff_reason_detail(HANDOFF_REASON_NONE), "");
}

static void test_reserved_names_are_whole_words(void **unused)
{
    (void)unused;
    assert_true(handoff_name_is_reserved("next agent", 4));
    assert_false(handoff_name_is_reserved("next agent", 10));
    assert_false(handoff_name_is_reserved("ne", 2));
    assert_false(handoff_name_is_reserved("", 0));
    assert_false(handoff_name_is_reserved(NULL, 0));
}

static void test_importance_is_read_by_its_whole_name(void **unused)
{
    (void)unused;
    enum handoff_importance importance = HANDOFF_IMPORTANCE_LOW;
    assert_true(handoff_importance_parse(base_span_text("critical"), &importance));
    assert_int_equal(importance, HANDOFF_IMPORTANCE_CRITICAL);
    assert_false(handoff_importance_parse(base_span_text("crit"), &importance));
    assert_false(handoff_importance_parse(base_span_text(""), &importance));
    assert_int_equal(importance, HANDOFF_IMPORTANCE_CRITICAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_keep_their_names_and_numbers),
        cmocka_unit_test(test_what_is_over_stays_over),
        cmocka_unit_test(test_every_live_state_can_end_in_each_way),
        cmocka_unit_test(test_what_has_not_ended_can_be_taken_back),
        cmocka_unit_test(test_names_are_those_that_were_released),
        cmocka_unit_test(test_numbers_in_the_store_are_those_that_were_released),
        cmocka_unit_test(test_reasons_lead_back_and_words_are_other),
        cmocka_unit_test(test_each_parking_has_an_outcome),
        cmocka_unit_test(test_the_detail_says_why_it_was_parked),
        cmocka_unit_test(test_reserved_names_are_whole_words),
        cmocka_unit_test(test_importance_is_read_by_its_whole_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
