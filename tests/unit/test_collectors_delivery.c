/* SPDX-License-Identifier: Apache-2.0 */
/* What delivery tells, as metrics: events in, exact values out. */
#include "tests/unit/metric_support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "collectors/collectors.h"
#include "tests/support/temp_store.h"

#define ID    "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0001"
#define TRACE "0af7651916cd43dd8448eb211c80319c"

static struct collectors *collectors;

static void configure(const char *const *names, size_t count)
{
    struct handoff_agent_options agents[16] = {0};
    assert_true(count <= 16);
    for (size_t i = 0; i < count; i++)
        agents[i].name = names[i];
    assert_true(collectors_configure(collectors, agents, count));
}
#define CONFIGURE(...)                                                                             \
    configure((const char *const[]){__VA_ARGS__},                                                  \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static int make(void **state)
{
    (void)state;
    collectors = collectors_new(
        &(struct collectors_options){.version = "1.2.3", .threads = 2, .max_series = 2000});
    assert_non_null(collectors);
    CONFIGURE("coder", "reviewer");
    return 0;
}

static int drop(void **state)
{
    (void)state;
    collectors_free(&collectors);
    return 0;
}

static double value(const char *head)
{
    return scraped(collectors_registry(collectors), head);
}

static void assert_value(const char *head, double wanted)
{
    double found = value(head);
    if (found != wanted)
        fail_msg("%s is %.17g and not %.17g", head, found, wanted);
}

static bool shows(const char *text)
{
    struct metric_buffer out = scrape_all(collectors_registry(collectors), METRIC_TEXT);
    bool found = strstr(out.data, text) != NULL;
    metric_buffer_free(&out);
    return found;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void tell(struct handoff_event event)
{
    collectors_observe(collectors, &event);
}

static struct handoff_event moved(const char *target, enum handoff_state from,
                                  enum handoff_state to)
{
    return (struct handoff_event){
        .kind = HANDOFF_EVENT_MOVED,
        .who = {.id = ID, .source_agent = "analyst", .target_agent = target, .trace_id = TRACE},
        .of.moved = {.from = from, .to = to}};
}

static struct handoff_event ended(const char *target, enum handoff_state to,
                                  enum handoff_outcome outcome, double seconds)
{
    struct handoff_event event = moved(target, HANDOFF_STATE_IN_FLIGHT, to);
    event.of.moved.outcome = outcome;
    event.of.moved.elapsed_ns = (int64_t)(seconds * 1e9);
    if (to == HANDOFF_STATE_PARKED)
        event.of.moved.reason = outcome == HANDOFF_OUTCOME_REFUSED ? HANDOFF_REASON_REFUSED
                                : outcome == HANDOFF_OUTCOME_CIRCUIT_OPEN
                                    ? HANDOFF_REASON_CIRCUIT_OPEN
                                    : HANDOFF_REASON_EXHAUSTED;
    return event;
}

static struct handoff_event assembled(const char *target)
{
    return (struct handoff_event){.kind = HANDOFF_EVENT_ASSEMBLED,
                                  .who = {.id = ID,
                                          .target_agent = target,
                                          .pattern = HANDOFF_PATTERN_CHOREOGRAPHED,
                                          .trace_id = TRACE},
                                  .of.assembled = {.budget = 4000, .tokens = 1000, .hop_count = 1}};
}

/* ---- series from the start ------------------------------------------------------------------- */

static const char *const zeros[] = {
    "handoff_duration_seconds_count{target_agent=\"%s\",pattern=\"direct\",outcome=\"exhausted\"}",
    "handoff_duration_seconds_count{target_agent=\"%s\",pattern=\"direct\",outcome=\"refused\"}",
    "handoff_context_completeness_ratio_bucket{target_agent=\"%s\",le=\"0.8\"}",
    "handoff_context_completeness_ratio_bucket{target_agent=\"%s\",le=\"0.95\"}",
    "handoff_memory_refs_total{target_agent=\"%s\",outcome=\"included\"}",
    "handoff_memory_refs_total{target_agent=\"%s\",outcome=\"missing\"}",
    "handoff_memory_refs_total{target_agent=\"%s\",outcome=\"trimmed\"}",
    "handoff_memory_recovery_total{target_agent=\"%s\",outcome=\"recovered\"}",
    "handoff_memory_recovery_total{target_agent=\"%s\",outcome=\"stale\"}",
    "handoff_memory_recovery_total{target_agent=\"%s\",outcome=\"missing\"}",
    "handoff_context_items_total{target_agent=\"%s\",kind=\"decisions\",outcome=\"omitted\"}",
    "handoff_context_items_total{target_agent=\"%s\",kind=\"steps\",outcome=\"present\"}",
    "handoff_context_items_total{target_agent=\"%s\",kind=\"references\",outcome=\"referenced\"}",
    "handoff_context_items_total{target_agent=\"%s\",kind=\"found\",outcome=\"omitted\"}",
    "handoff_handoffs_total{target_agent=\"%s\",pattern=\"direct\",outcome=\"acknowledged\"}",
    "handoff_handoffs_total{target_agent=\"%s\",pattern=\"direct\",outcome=\"exhausted\"}",
    "handoff_handoffs_total{target_agent=\"%s\",pattern=\"direct\",outcome=\"refused\"}",
    "handoff_handoffs_total{target_agent=\"%s\",pattern=\"direct\",outcome=\"rejected\"}",
    "handoff_handoffs_total{target_agent=\"%s\",pattern=\"direct\",outcome=\"expired\"}",
    "handoff_handoffs_total{target_agent=\"%s\",pattern=\"choreographed\",outcome=\"hop_limit\"}",
    "handoff_handoffs_total{target_agent=\"%s\",pattern=\"broadcast\",outcome=\"circuit_open\"}",
    "handoff_attempts_total{target_agent=\"%s\",result=\"ack\"}",
    "handoff_attempts_total{target_agent=\"%s\",result=\"nack\"}",
    "handoff_attempts_total{target_agent=\"%s\",result=\"timeout\"}",
    "handoff_attempts_total{target_agent=\"%s\",result=\"connect\"}",
    "handoff_attempts_total{target_agent=\"%s\",result=\"http\"}",
    "handoff_attempts_total{target_agent=\"%s\",result=\"protocol\"}",
    "handoff_circuit_opened_total{target_agent=\"%s\"}",
    "handoff_parked_total{target_agent=\"%s\",reason=\"exhausted\"}",
    "handoff_parked_total{target_agent=\"%s\",reason=\"rejected\"}",
    "handoff_parked_total{target_agent=\"%s\",reason=\"unknown_agent\"}",
    "handoff_parked_total{target_agent=\"%s\",reason=\"by_hand\"}",
    "handoff_replayed_total{target_agent=\"%s\"}",
    "handoff_in_flight{target_agent=\"%s\"}",
    "handoff_oldest_in_flight_seconds{target_agent=\"%s\"}",
    "handoff_parked_entries{target_agent=\"%s\"}",
    "handoff_oldest_parked_seconds{target_agent=\"%s\"}",
    "handoff_token_utilization_ratio_count{target_agent=\"%s\"}",
    "handoff_envelope_tokens_count{target_agent=\"%s\"}",
};

static void assert_zeros(const char *target)
{
    struct metric_buffer out = scrape_all(collectors_registry(collectors), METRIC_TEXT);
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        char head[256];
        snprintf(head, sizeof head, zeros[i], target); /* NOLINT(clang-diagnostic-format*) */
        if (sample(out.data, head) != 0)
            fail_msg("%s is not 0", head);
    }
    metric_buffer_free(&out);
}

static void test_every_series_is_0_before_its_first_event(void **state)
{
    (void)state;
    assert_zeros("coder");
    assert_zeros("reviewer");
    assert_zeros("other");
    assert_value("handoff_consecutive_failures{target_agent=\"coder\"}", 0);
    assert_value("handoff_circuit_state{target_agent=\"coder\",state=\"half_open\"}", 0);
    assert_value("handoff_hop_depth_count{pattern=\"broadcast\"}", 0);
    assert_value("handoff_route_cycles_total", 0);
    assert_false(shows("target_agent=\"nobody\""));
    assert_false(shows("handoff_circuit_state{target_agent=\"other\""));
}

/* ---- outcomes and durations ------------------------------------------------------------------ */

static void test_each_outcome(void **state)
{
    (void)state;
    tell(ended("coder", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 0.25));
    tell(ended("coder", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 14.5));
    tell(ended("coder", HANDOFF_STATE_PARKED, HANDOFF_OUTCOME_EXHAUSTED, 61));
    tell(ended("coder", HANDOFF_STATE_PARKED, HANDOFF_OUTCOME_REFUSED, 0.5));
    tell(ended("coder", HANDOFF_STATE_EXPIRED, HANDOFF_OUTCOME_EXPIRED, 2));
    tell(ended("coder", HANDOFF_STATE_PARKED, HANDOFF_OUTCOME_CIRCUIT_OPEN, 60));
#define COUNT(outcome)                                                                             \
    "handoff_handoffs_total{target_agent=\"coder\",pattern=\"direct\",outcome=\"" outcome "\"}"
#define TOOK(what, outcome)                                                                        \
    "handoff_duration_seconds_" what                                                               \
    "{target_agent=\"coder\",pattern=\"direct\",outcome=\"" outcome "\""
    assert_value(COUNT("acknowledged"), 2);
    assert_value(COUNT("exhausted"), 1);
    assert_value(COUNT("refused"), 1);
    assert_value(COUNT("expired"), 1);
    assert_value(COUNT("circuit_open"), 1);
    assert_value(COUNT("hop_limit"), 0);
    assert_value(TOOK("sum", "acknowledged") "}", 14.75);
    assert_value(TOOK("bucket", "acknowledged") ",le=\"0.25\"}", 1);
    assert_value(TOOK("bucket", "acknowledged") ",le=\"10\"}", 1);
    assert_value(TOOK("bucket", "acknowledged") ",le=\"15\"}", 2);
    assert_value(TOOK("sum", "exhausted") "}", 61);
    assert_value(TOOK("sum", "circuit_open") "}", 60);
    assert_value("handoff_parked_total{target_agent=\"coder\",reason=\"exhausted\"}", 1);
    assert_value("handoff_parked_total{target_agent=\"coder\",reason=\"refused\"}", 1);
    assert_value("handoff_parked_total{target_agent=\"coder\",reason=\"circuit_open\"}", 1);
    assert_zeros("reviewer");
}

static void test_moves_that_end_nothing_count_nothing(void **state)
{
    (void)state;
    tell(moved("coder", HANDOFF_STATE_NONE, HANDOFF_STATE_READY));
    tell(moved("coder", HANDOFF_STATE_READY, HANDOFF_STATE_IN_FLIGHT));
    tell(moved("coder", HANDOFF_STATE_IN_FLIGHT, HANDOFF_STATE_AWAITING_ACK));
    tell(moved("coder", HANDOFF_STATE_PARKED, HANDOFF_STATE_DISCARDED));
    assert_zeros("coder");
}

/* From its acceptance to its commit is the stage persist, once in the life of a handoff. */
static void test_an_acceptance_took_the_time_of_its_commit(void **state)
{
    (void)state;
    struct handoff_event accepted = moved("coder", HANDOFF_STATE_NONE, HANDOFF_STATE_READY);
    accepted.of.moved.elapsed_ns = 4000000;
    tell(accepted);
    struct handoff_event resumed = accepted, next = accepted;
    resumed.of.moved.resumed = true;
    tell(resumed);
    next.of.moved.from = HANDOFF_STATE_READY;
    next.of.moved.to = HANDOFF_STATE_IN_FLIGHT;
    tell(next);
    assert_value("handoff_stage_duration_seconds_count{stage=\"persist\"}", 1);
    assert_value("handoff_stage_duration_seconds_sum{stage=\"persist\"}", 0.004);
}

/* The series of durations by rarer patterns begin with their first event, for agents that are
 * there. */
static void test_a_duration_of_another_pattern_begins_when_it_occurs(void **state)
{
    (void)state;
#define OF_PATTERN(target, pattern)                                                                \
    "handoff_duration_seconds_count{target_agent=\"" target "\",pattern=\"" pattern                \
    "\",outcome=\"acknowledged\"}"
    assert_value(OF_PATTERN("coder", "direct"), 0);
    assert_false(shows(OF_PATTERN("coder", "choreographed")));
    struct handoff_event event =
        ended("coder", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 0.25);
    event.who.pattern = HANDOFF_PATTERN_CHOREOGRAPHED;
    tell(event);
    tell(event);
    assert_value(OF_PATTERN("coder", "choreographed"), 2);
    assert_value(OF_PATTERN("coder", "direct"), 0);
    assert_false(shows(OF_PATTERN("reviewer", "choreographed")));
    event.who.target_agent = "nobody";
    tell(event);
    assert_value(OF_PATTERN("other", "choreographed"), 1);

    CONFIGURE("reviewer");
    assert_false(shows(OF_PATTERN("coder", "choreographed")));
    CONFIGURE("coder", "reviewer");
    event.who.target_agent = "coder";
    tell(event);
    assert_value(OF_PATTERN("coder", "choreographed"), 3);
}

/* Turned away before it was accepted: an outcome, but no duration. */
static void test_rejections_take_no_time(void **state)
{
    (void)state;
    tell((struct handoff_event){.kind = HANDOFF_EVENT_REJECTED, .who.target_agent = "coder"});
    struct handoff_event limit = assembled("coder");
    limit.code = HANDOFF_ERR_HOP_LIMIT;
    limit.who.id = NULL;
    tell(limit);
    assert_value(COUNT("circuit_open"), 1);
    assert_value("handoff_handoffs_total{target_agent=\"coder\",pattern=\"choreographed\","
                 "outcome=\"hop_limit\"}",
                 1);
    assert_value(TOOK("count", "circuit_open") "}", 0);
    assert_false(shows("handoff_duration_seconds_count{target_agent=\"coder\",pattern=\"direct\","
                       "outcome=\"hop_limit\"}"));
}

/* The agent that had it last gets the outcome, the one that was tried the attempt. */
static void test_an_alternate_gets_the_outcome_and_each_its_attempts(void **state)
{
    (void)state;
    static const char *const results[] = {"nack", "timeout", "connect", "http", "protocol"};
    for (size_t i = 0; i < 5; i++) {
        struct handoff_event retried = moved("coder", HANDOFF_STATE_IN_FLIGHT, HANDOFF_STATE_READY);
        retried.who.target_agent = i == 4 ? "reviewer" : "coder";
        retried.of.moved.attempted = true;
        retried.of.moved.result = (enum handoff_attempt_result)(HANDOFF_RESULT_NACK + i);
        retried.of.moved.attempt_target = "coder";
        retried.of.moved.attempt_ns = 2000000;
        tell(retried);
    }
    struct handoff_event done =
        ended("reviewer", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 1);
    done.of.moved.attempted = true;
    done.of.moved.result = HANDOFF_RESULT_ACK;
    done.of.moved.attempt_target = "reviewer";
    done.of.moved.attempt_ns = 1000000;
    tell(done);
    for (size_t i = 0; i < 5; i++) {
        char head[128];
        snprintf(head, sizeof head, "handoff_attempts_total{target_agent=\"coder\",result=\"%s\"}",
                 results[i]);
        assert_value(head, 1);
    }
    assert_value("handoff_attempts_total{target_agent=\"coder\",result=\"ack\"}", 0);
    assert_value("handoff_attempts_total{target_agent=\"reviewer\",result=\"ack\"}", 1);
    assert_value(COUNT("acknowledged"), 0);
    assert_value("handoff_handoffs_total{target_agent=\"reviewer\",pattern=\"direct\","
                 "outcome=\"acknowledged\"}",
                 1);
    assert_value("handoff_stage_duration_seconds_count{stage=\"attempt\"}", 6);
}

static void test_a_replayed_handoff_is_still_one_handoff(void **state)
{
    (void)state;
    tell(ended("coder", HANDOFF_STATE_PARKED, HANDOFF_OUTCOME_EXHAUSTED, 1));
    struct handoff_event replay = moved("reviewer", HANDOFF_STATE_PARKED, HANDOFF_STATE_READY);
    replay.of.moved.replays = 1;
    tell(replay);
    struct handoff_event again =
        ended("reviewer", HANDOFF_STATE_PARKED, HANDOFF_OUTCOME_EXHAUSTED, 1);
    again.of.moved.replays = 1;
    tell(again);
    struct handoff_event late = moved("reviewer", HANDOFF_STATE_PARKED, HANDOFF_STATE_ACKNOWLEDGED);
    late.of.moved.outcome = HANDOFF_OUTCOME_ACKNOWLEDGED;
    tell(late);
    assert_value("handoff_replayed_total{target_agent=\"reviewer\"}", 1);
    assert_value("handoff_replayed_total{target_agent=\"coder\"}", 0);
    assert_value(COUNT("exhausted"), 1);
    assert_value("handoff_handoffs_total{target_agent=\"reviewer\",pattern=\"direct\","
                 "outcome=\"exhausted\"}",
                 0);
    assert_value("handoff_handoffs_total{target_agent=\"reviewer\",pattern=\"direct\","
                 "outcome=\"acknowledged\"}",
                 0);
    assert_value("handoff_parked_total{target_agent=\"reviewer\",reason=\"exhausted\"}", 1);
}

/* Edited and sent anew: the one that takes its place is another handoff, and the person's work
 * counts for the agent that the old one was parked for. */
static void test_a_replaced_handoff_was_sent_again_and_a_discarded_one_was_not(void **state)
{
    (void)state;
    struct handoff_event event = moved("coder", HANDOFF_STATE_PARKED, HANDOFF_STATE_DISCARDED);
    event.of.moved.reason = HANDOFF_REASON_OTHER;
    tell(event);
    assert_value("handoff_replayed_total{target_agent=\"coder\"}", 0);
    event.of.moved.replaced = true;
    tell(event);
    assert_value("handoff_replayed_total{target_agent=\"coder\"}", 1);
}

static void test_openings_of_the_circuit(void **state)
{
    (void)state;
    struct handoff_event event = {
        .kind = HANDOFF_EVENT_CIRCUIT,
        .who.target_agent = "coder",
        .of.circuit = {.circuit = HANDOFF_CIRCUIT_OPEN, .opened = true, .consecutive_failures = 3}};
    struct handoff_circuit_changed *changed = &event.of.circuit;
    tell(event);
    changed->opened = false; /* one that was under way failed too */
    changed->consecutive_failures = 4;
    tell(event);
    changed->circuit = HANDOFF_CIRCUIT_HALF_OPEN;
    tell(event);
    changed->circuit = HANDOFF_CIRCUIT_OPEN;
    changed->opened = true;
    tell(event);
    assert_value("handoff_circuit_opened_total{target_agent=\"coder\"}", 2);
}

/* ---- envelopes ------------------------------------------------------------------------------- */

static void test_what_a_budget_leaves_out(void **state)
{
    (void)state;
    struct handoff_event event = assembled("coder");
    event.of.assembled.items.of[HANDOFF_PART_STEPS][HANDOFF_PRESENCE_PRESENT] = 3;
    event.of.assembled.items.of[HANDOFF_PART_STEPS][HANDOFF_PRESENCE_OMITTED] = 12;
    event.of.assembled.items.of[HANDOFF_PART_REFERENCES][HANDOFF_PRESENCE_REFERENCED] = 2;
    tell(event);
    tell(event);
    event.code = HANDOFF_ERR_BUDGET_TOO_SMALL;
    tell(event);
#define ITEMS(kind, outcome)                                                                       \
    "handoff_context_items_total{target_agent=\"coder\",kind=\"" kind "\",outcome=\"" outcome "\"" \
    "}"
    assert_value(ITEMS("steps", "present"), 6);
    assert_value(ITEMS("steps", "omitted"), 24);
    assert_value(ITEMS("references", "referenced"), 4);
    assert_value(ITEMS("found", "omitted"), 0);
}

static void test_completeness_is_ratios_and_sums(void **state)
{
    (void)state;
    struct handoff_event event = assembled("coder");
    event.of.assembled.memories.requested = 20;
    event.of.assembled.memories.included = 19;
    event.of.assembled.memories.missing = 1;
    tell(event);
    event.of.assembled.memories.requested = 10;
    event.of.assembled.memories.included = 8;
    event.of.assembled.memories.missing = 0;
    event.of.assembled.memories.trimmed = 2;
    tell(event);
    event.of.assembled.memories.requested = event.of.assembled.memories.included =
        event.of.assembled.memories.missing = event.of.assembled.memories.trimmed = 0;
    tell(event);
#define COMPLETE(le)                                                                               \
    "handoff_context_completeness_ratio_bucket{target_agent=\"coder\",le=\"" le "\"}"
    assert_value(COMPLETE("0.7"), 0);
    assert_value(COMPLETE("0.8"), 1);
    assert_value(COMPLETE("0.9"), 1);
    assert_value(COMPLETE("0.95"), 2);
    assert_value(COMPLETE("0.99"), 2);
    assert_value(COMPLETE("1"), 3);
    assert_value("handoff_memory_refs_total{target_agent=\"coder\",outcome=\"included\"}", 27);
    assert_value("handoff_memory_refs_total{target_agent=\"coder\",outcome=\"missing\"}", 1);
    assert_value("handoff_memory_refs_total{target_agent=\"coder\",outcome=\"trimmed\"}", 2);
}

static void test_what_receivers_recover_and_flag_counts_for_the_agent(void **state)
{
    (void)state;
    struct handoff_event event = {.kind = HANDOFF_EVENT_RECOVERY, .who.target_agent = "coder"};
    event.of.recovery.of[HANDOFF_RECOVERY_RECOVERED] = 3;
    event.of.recovery.of[HANDOFF_RECOVERY_STALE] = 2;
    tell(event);
    event.of.recovery = (struct handoff_recovered){.of[HANDOFF_RECOVERY_MISSING] = 1};
    tell(event);
    assert_value("handoff_memory_recovery_total{target_agent=\"coder\",outcome=\"recovered\"}", 3);
    assert_value("handoff_memory_recovery_total{target_agent=\"coder\",outcome=\"stale\"}", 2);
    assert_value("handoff_memory_recovery_total{target_agent=\"coder\",outcome=\"missing\"}", 1);
}

static void test_a_full_budget_differs_from_a_good_fit(void **state)
{
    (void)state;
    struct handoff_event event = assembled("coder");
    event.of.assembled.tokens = 3960;
    tell(event);
    event.of.assembled.tokens = 4000;
    tell(event);
    event.of.assembled.tokens = 1500;
    event.of.assembled.budget = 8000;
    tell(event);
#define USED(le) "handoff_token_utilization_ratio_bucket{target_agent=\"coder\",le=\"" le "\"}"
    assert_value(USED("0.1"), 0);
    assert_value(USED("0.25"), 1);
    assert_value(USED("0.95"), 1);
    assert_value(USED("0.99"), 2);
    assert_value(USED("0.999"), 2);
    assert_value(USED("1"), 3);
    assert_value("handoff_envelope_tokens_sum{target_agent=\"coder\"}", 9460);
    assert_value("handoff_envelope_tokens_bucket{target_agent=\"coder\",le=\"2000\"}", 1);
    assert_value("handoff_envelope_tokens_bucket{target_agent=\"coder\",le=\"4000\"}", 3);
}

static void test_every_hop_has_its_bucket(void **state)
{
    (void)state;
    for (int hop = 1; hop <= 13; hop++) {
        struct handoff_event event = assembled("coder");
        event.of.assembled.hop_count = hop;
        tell(event);
    }
    for (int hop = 1; hop <= 12; hop++) {
        char head[128];
        snprintf(head, sizeof head, "handoff_hop_depth_bucket{pattern=\"choreographed\",le=\"%d\"}",
                 hop);
        assert_value(head, hop);
    }
    assert_value("handoff_hop_depth_count{pattern=\"choreographed\"}", 13);
    assert_value("handoff_hop_depth_count{pattern=\"direct\"}", 0);
}

static void test_cycles_count_where_the_chain_ends_too(void **state)
{
    (void)state;
    struct handoff_event event = assembled("coder");
    event.of.assembled.cycle = true;
    tell(event);
    event.code = HANDOFF_ERR_HOP_LIMIT;
    tell(event);
    event.code = HANDOFF_ERR_INVALID; /* nothing was on its way */
    tell(event);
    assert_value("handoff_route_cycles_total", 2);
    assert_value("handoff_hop_depth_count{pattern=\"choreographed\"}", 1);
}

static void test_a_completed_task_tells_its_handoffs(void **state)
{
    (void)state;
    static const uint64_t handoffs[] = {1, 4, 4, 200};
    assert_value("handoff_task_handoffs_count", 0);
    for (size_t i = 0; i < 4; i++)
        tell((struct handoff_event){.kind = HANDOFF_EVENT_TASK_COMPLETED,
                                    .who.task_id = "task-1",
                                    .of.task_completed.handoffs = handoffs[i]});
    assert_value("handoff_task_handoffs_bucket{le=\"1\"}", 1);
    assert_value("handoff_task_handoffs_bucket{le=\"3\"}", 1);
    assert_value("handoff_task_handoffs_bucket{le=\"4\"}", 3);
    assert_value("handoff_task_handoffs_bucket{le=\"128\"}", 3);
    assert_value("handoff_task_handoffs_count", 4);
    assert_value("handoff_task_handoffs_sum", 209);
}

static struct handoff_event observed(const char *target, enum handoff_outcome outcome)
{
    return (struct handoff_event){
        .kind = HANDOFF_EVENT_OBSERVED,
        .who = {.id = ID, .source_agent = "analyst", .target_agent = target},
        .of.observed.outcome = outcome};
}

#define OBSERVATIONS(result) "handoff_observations_total{result=\"" result "\"}"

/* What an agent did not tell must not look as if it had told 0. */
static void test_an_observation_counts_what_was_told(void **state)
{
    (void)state;
    assert_value(OBSERVATIONS("accepted"), 0);
    assert_value(OBSERVATIONS("repeated"), 0);
    assert_value(OBSERVATIONS("rejected"), 0);
    tell(observed("coder", HANDOFF_OUTCOME_EXHAUSTED));
    assert_value(COUNT("exhausted"), 1);
    assert_value(OBSERVATIONS("accepted"), 1);
    assert_value(TOOK("count", "exhausted") "}", 0);
    assert_value(COMPLETE("1"), 0);
    assert_value("handoff_envelope_tokens_count{target_agent=\"coder\"}", 0);
    assert_value("handoff_hop_depth_count{pattern=\"direct\"}", 0);
    assert_value("handoff_parked_total{target_agent=\"coder\",reason=\"exhausted\"}", 0);
}

static void test_an_observation_of_everything(void **state)
{
    (void)state;
    struct handoff_event event = observed("coder", HANDOFF_OUTCOME_ACKNOWLEDGED);
    event.of.observed.told = HANDOFF_TOLD_LATENCY | HANDOFF_TOLD_RATIO | HANDOFF_TOLD_REFS |
                             HANDOFF_TOLD_TOKENS | HANDOFF_TOLD_HOPS;
    event.of.observed.elapsed_ns = 250000000;
    event.of.observed.memories.requested = 20;
    event.of.observed.memories.included = 17;
    event.of.observed.memories.missing = 2;
    event.of.observed.memories.trimmed = 1;
    event.of.observed.ratio = 0.85;
    event.of.observed.tokens = 3960;
    event.of.observed.budget = 4000;
    event.of.observed.hop_count = 3;
    event.of.observed.cycle = true;
    event.of.observed.attempts[HANDOFF_RESULT_TIMEOUT] = 2;
    event.of.observed.attempts[HANDOFF_RESULT_ACK] = 1;
    tell(event);
    assert_value(COUNT("acknowledged"), 1);
    assert_value(TOOK("sum", "acknowledged") "}", 0.25);
    assert_value(COMPLETE("0.8"), 0);
    assert_value(COMPLETE("0.9"), 1);
    assert_value("handoff_memory_refs_total{target_agent=\"coder\",outcome=\"included\"}", 17);
    assert_value("handoff_memory_refs_total{target_agent=\"coder\",outcome=\"missing\"}", 2);
    assert_value("handoff_memory_refs_total{target_agent=\"coder\",outcome=\"trimmed\"}", 1);
    assert_value("handoff_envelope_tokens_sum{target_agent=\"coder\"}", 3960);
    assert_value("handoff_token_utilization_ratio_sum{target_agent=\"coder\"}", 0.99);
    assert_value("handoff_hop_depth_sum{pattern=\"direct\"}", 3);
    assert_value("handoff_route_cycles_total", 1);
    assert_value("handoff_attempts_total{target_agent=\"coder\",result=\"timeout\"}", 2);
    assert_value("handoff_attempts_total{target_agent=\"coder\",result=\"ack\"}", 1);
    assert_value("handoff_stage_duration_seconds_count{stage=\"attempt\"}", 0);
}

static void test_observations_that_count_nothing(void **state)
{
    (void)state;
    struct handoff_event event = observed("coder", HANDOFF_OUTCOME_EXHAUSTED);
    event.of.observed.repeated = true;
    tell(event);
    event = (struct handoff_event){.kind = HANDOFF_EVENT_OBSERVED, .code = HANDOFF_ERR_INVALID};
    tell(event);
    assert_value(OBSERVATIONS("repeated"), 1);
    assert_value(OBSERVATIONS("rejected"), 1);
    assert_value(OBSERVATIONS("accepted"), 0);
    assert_zeros("coder");
    assert_zeros("other");
}

/* As with our own, a chain that was stopped has no depth and no duration. */
static void test_an_observed_hop_limit(void **state)
{
    (void)state;
    struct handoff_event event = observed("nobody", HANDOFF_OUTCOME_HOP_LIMIT);
    event.of.observed.told = HANDOFF_TOLD_HOPS | HANDOFF_TOLD_LATENCY;
    event.of.observed.hop_count = 11;
    event.of.observed.elapsed_ns = 1000;
    tell(event);
    assert_value("handoff_handoffs_total{target_agent=\"other\",pattern=\"direct\","
                 "outcome=\"hop_limit\"}",
                 1);
    assert_value("handoff_hop_depth_count{pattern=\"direct\"}", 0);
    assert_false(shows("handoff_duration_seconds_count{target_agent=\"other\",pattern=\"direct\","
                       "outcome=\"hop_limit\"}"));
}

static void test_what_failed_to_assemble_is_no_envelope(void **state)
{
    (void)state;
    struct handoff_event event = {.kind = HANDOFF_EVENT_ASSEMBLED,
                                  .code = HANDOFF_ERR_BUDGET_TOO_SMALL,
                                  .who.target_agent = "coder",
                                  .of.assembled.budget = 10};
    tell(event);
    event.who.target_agent = NULL; /* the request could not even be read */
    event.code = HANDOFF_ERR_INVALID;
    tell(event);
    assert_zeros("coder");
    assert_zeros("other");
}

/* ---- exemplars ------------------------------------------------------------------------------- */

static bool openmetrics_shows(const char *head, const char *exemplar)
{
    struct metric_buffer out = scrape_all(collectors_registry(collectors), METRIC_OPENMETRICS);
    const char *line = strstr(out.data, head);
    assert_non_null(line);
    const char *end = strchr(line, '\n'), *found = strstr(line, exemplar);
    bool shown = found != NULL && found < end;
    metric_buffer_free(&out);
    return shown;
}

static void test_exemplars_name_the_trace_and_the_handoff(void **state)
{
    (void)state;
    static const char both[] = " # {trace_id=\"" TRACE "\",handoff_id=\"" ID "\"} ";
    tell(ended("coder", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 0.25));
    tell(ended("coder", HANDOFF_STATE_PARKED, HANDOFF_OUTCOME_EXHAUSTED, 60));
    struct handoff_event limit = assembled("coder");
    limit.code = HANDOFF_ERR_HOP_LIMIT;
    limit.who.id = NULL;
    tell(limit);
    assert_true(openmetrics_shows(TOOK("bucket", "acknowledged") ",le=\"0.25\"}", both));
    assert_true(openmetrics_shows(TOOK("bucket", "exhausted") ",le=\"60.0\"}", both));
    assert_true(openmetrics_shows(COUNT("exhausted"), both));
    assert_false(openmetrics_shows(COUNT("acknowledged"), "#"));
    assert_true(openmetrics_shows("handoff_handoffs_total{target_agent=\"coder\","
                                  "pattern=\"choreographed\",outcome=\"hop_limit\"}",
                                  " # {trace_id=\"" TRACE "\"} 1"));
}

/* ---- which agents ---------------------------------------------------------------------------- */

static void test_a_reload_adds_and_removes(void **state)
{
    (void)state;
    tell(ended("coder", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 1));
    tell(ended("reviewer", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 1));
    CONFIGURE("coder", "tester");
    assert_zeros("tester");
    assert_value(COUNT("acknowledged"), 1);
    assert_false(shows("target_agent=\"reviewer\""));
    tell(ended("reviewer", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED,
               1)); /* was on its way */
    assert_false(shows("target_agent=\"reviewer\""));
    assert_value("handoff_handoffs_total{target_agent=\"other\",pattern=\"direct\","
                 "outcome=\"acknowledged\"}",
                 1);
    CONFIGURE("reviewer"); /* goes on where it stopped: a counter never falls */
    assert_value("handoff_handoffs_total{target_agent=\"reviewer\",pattern=\"direct\","
                 "outcome=\"acknowledged\"}",
                 1);
    assert_false(shows("target_agent=\"coder\""));
    configure(NULL, 0);
    assert_false(shows("target_agent=\"reviewer\""));
    assert_value("handoff_handoffs_total{target_agent=\"other\",pattern=\"direct\","
                 "outcome=\"acknowledged\"}",
                 1);
}

static void test_an_agent_called_other_is_no_trouble(void **state)
{
    (void)state;
    CONFIGURE("other", "coder");
    tell(ended("other", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 1));
    CONFIGURE("coder");
    tell(ended("other", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 1));
    assert_value("handoff_handoffs_total{target_agent=\"other\",pattern=\"direct\","
                 "outcome=\"acknowledged\"}",
                 2);
}

static size_t count_lines(void)
{
    struct metric_buffer out = scrape_all(collectors_registry(collectors), METRIC_TEXT);
    size_t lines = 0;
    for (const char *at = out.data; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    metric_buffer_free(&out);
    return lines;
}

static void test_names_from_requests_cannot_grow_the_series(void **state)
{
    (void)state;
    size_t before = count_lines();
    for (int i = 0; i < 10000; i++) {
        char name[32];
        snprintf(name, sizeof name, "agent-%d", i);
        struct handoff_event event = assembled(name);
        event.of.assembled.memories.requested = event.of.assembled.memories.included = 1;
        tell(event);
        struct handoff_event end =
            ended(name, HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 0.1);
        end.of.moved.attempted = true;
        end.of.moved.result = HANDOFF_RESULT_ACK;
        end.of.moved.attempt_target = name;
        tell(end);
    }
    assert_int_equal(count_lines(), before);
    assert_value("handoff_handoffs_total{target_agent=\"other\",pattern=\"direct\","
                 "outcome=\"acknowledged\"}",
                 10000);
    assert_value("handoff_attempts_total{target_agent=\"other\",result=\"ack\"}", 10000);
    assert_value("handoff_memory_refs_total{target_agent=\"other\",outcome=\"included\"}", 10000);
    assert_value("handoff_exporter_series_dropped_total", 0);
}

static atomic_bool stop;

static void *send_events(void *counted)
{
    while (!atomic_load(&stop)) {
        tell(ended("coder", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 0.1));
        tell(ended("tester", HANDOFF_STATE_ACKNOWLEDGED, HANDOFF_OUTCOME_ACKNOWLEDGED, 0.1));
        ++*(long *)counted;
    }
    return NULL;
}

/* Nothing is lost: what finds its agent not configured is counted under "other". */
static void test_reloads_beside_events(void **state)
{
    (void)state;
    pthread_t threads[2];
    long counted[2] = {0};
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_events, &counted[i]), 0);
    for (int i = 0; i < 200; i++) {
        if (i % 2)
            CONFIGURE("coder", "reviewer");
        else
            CONFIGURE("coder", "tester", "analyst");
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CONFIGURE("coder", "tester");
    long all = counted[0] + counted[1];
    assert_value(COUNT("acknowledged"), (double)all);
    double found = value("handoff_handoffs_total{target_agent=\"tester\",pattern=\"direct\","
                         "outcome=\"acknowledged\"}") +
                   value("handoff_handoffs_total{target_agent=\"other\",pattern=\"direct\","
                         "outcome=\"acknowledged\"}");
    assert_true(found == (double)all);
}

/* ---- read at the scrape ---------------------------------------------------------------------- */

static void test_gauges_come_from_the_client(void **state)
{
    (void)state;
    char *directory = temp_directory();
    struct handoff_client *client;
    struct handoff_options options = {
        .storage_path = directory, .durability_none = true, .encoding = "estimate"};
    const struct handoff_agent_options agent = handoff_agent_defaults("coder", NULL);
    struct handoff_configuration configuration = {.agents = &agent, .nagents = 1};
    assert_int_equal(handoff_client_open(&client, &options, NULL), HANDOFF_OK);
    assert_int_equal(handoff_client_configure(client, &configuration, NULL), HANDOFF_OK);
    CONFIGURE("coder");
    collectors_watch_client(collectors, client);
    assert_value("handoff_circuit_state{target_agent=\"coder\",state=\"closed\"}", 1);
    assert_value("handoff_circuit_state{target_agent=\"coder\",state=\"half_open\"}", 0);
    assert_value("handoff_circuit_state{target_agent=\"coder\",state=\"open\"}", 0);
    assert_value("handoff_consecutive_failures{target_agent=\"coder\"}", 0);
    assert_zeros("coder");
    assert_zeros("other");
    collectors_free(&collectors);
    handoff_client_close(&client);
    temp_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
        TEST(test_every_series_is_0_before_its_first_event),
        TEST(test_each_outcome),
        TEST(test_moves_that_end_nothing_count_nothing),
        TEST(test_an_acceptance_took_the_time_of_its_commit),
        TEST(test_a_duration_of_another_pattern_begins_when_it_occurs),
        TEST(test_rejections_take_no_time),
        TEST(test_an_alternate_gets_the_outcome_and_each_its_attempts),
        TEST(test_a_replayed_handoff_is_still_one_handoff),
        TEST(test_a_replaced_handoff_was_sent_again_and_a_discarded_one_was_not),
        TEST(test_openings_of_the_circuit),
        TEST(test_what_a_budget_leaves_out),
        TEST(test_completeness_is_ratios_and_sums),
        TEST(test_what_receivers_recover_and_flag_counts_for_the_agent),
        TEST(test_a_full_budget_differs_from_a_good_fit),
        TEST(test_every_hop_has_its_bucket),
        TEST(test_cycles_count_where_the_chain_ends_too),
        TEST(test_a_completed_task_tells_its_handoffs),
        TEST(test_an_observation_counts_what_was_told),
        TEST(test_an_observation_of_everything),
        TEST(test_observations_that_count_nothing),
        TEST(test_an_observed_hop_limit),
        TEST(test_what_failed_to_assemble_is_no_envelope),
        TEST(test_exemplars_name_the_trace_and_the_handoff),
        TEST(test_a_reload_adds_and_removes),
        TEST(test_an_agent_called_other_is_no_trouble),
        TEST(test_names_from_requests_cannot_grow_the_series),
        TEST(test_reloads_beside_events),
        TEST(test_gauges_come_from_the_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
