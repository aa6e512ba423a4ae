/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of the status page on both sides of their thresholds, with a clock of the test. That
 * the thresholds are those of the alerts is tests/lint/test_status_rules.py's; that they count the
 * same as Prometheus is tests/scenario/test_page_and_alerts.py's.
 */
#include <stdlib.h>
#include <string.h>

#include "exporter/status/rules.h"
#include "exporter/status/thresholds.h"
#include "tests/support/unit.h"

enum { FINDINGS = 256, SECOND_MS = 1000, MINUTE_S = 60, HOUR_S = 3600 };

/* One agent, watched since a while. */
struct page {
    struct exporter_status status;
    struct exporter_windows windows;
    struct exporter_watched_agent coder, *agents[1];
    struct handoff_agent_stats stats;
    struct exporter_finding findings[FINDINGS];
};

static void record(struct page *page)
{
    exporter_history_record(&page->coder.history, &page->windows.times);
    exporter_history_record(&page->windows.own, &page->windows.times);
    exporter_history_recorded(&page->windows.times);
}

static void pass(struct page *page, int seconds)
{
    for (int left = seconds * SECOND_MS; left > 0; left -= EXPORTER_HISTORY_STEP_MS) {
        page->windows.times.now_ms += EXPORTER_HISTORY_STEP_MS;
        record(page);
    }
}

static struct page *page_new(void)
{
    struct page *page = calloc(1, sizeof *page);
    assert_non_null(page);
    page->coder.name = "coder";
    page->agents[0] = &page->coder;
    page->stats =
        (struct handoff_agent_stats){.name = "coder", .configured = true, .timeout_ms = 10000};
    page->status.client = (struct handoff_stats){.spine_up = true, .exact_tokens = true};
    page->status.now_ms = INT64_C(1000000000000);
    page->status.agents = &page->stats;
    page->status.nagents = 1;
    page->status.findings = page->findings;
    page->windows.collectors = collectors_new(
        &(struct collectors_options){.version = "1", .threads = 1, .max_series = 100});
    page->windows.agents = page->agents;
    page->windows.nagents = 1;
    assert_non_null(page->windows.collectors);
    assert_true(exporter_history_init(&page->coder.history, EXPORTER_WATCHED_OF_AGENT));
    assert_true(exporter_history_init(&page->windows.own, EXPORTER_WATCHED_OWN));
    record(page);
    pass(page, HOUR_S);
    return page;
}

static void page_free(struct page *page)
{
    exporter_history_free(&page->coder.history);
    exporter_history_free(&page->windows.own);
    collectors_free(&page->windows.collectors);
    base_arena_free(&page->status.arena);
    free(page);
}

static void count(struct page *page, size_t number, uint32_t more)
{
    page->coder.history.now[number] += more;
}

static void end(struct page *page, enum handoff_outcome outcome, uint32_t more)
{
    count(page, COLLECTORS_COUNTED_OUTCOME + (size_t)outcome, more);
}

/* The severity with which the rule of this alert is found; -1: it is not. */
static int severity_of(struct page *page, const char *alert)
{
    page->status.nfindings = 0;
    page->status.standing = EXPORTER_STANDING_OK;
    exporter_rules_evaluate(&page->status, &page->windows);
    for (size_t i = 0; i < page->status.nfindings; i++) {
        if (strcmp(page->findings[i].alert, alert) == 0)
            return (int)page->findings[i].severity;
    }
    return -1;
}

static bool is_found(struct page *page, const char *alert)
{
    return severity_of(page, alert) >= 0;
}

static void test_nothing_is_found_where_nothing_happened(void **state)
{
    (void)state;
    struct page *page = page_new();
    assert_false(is_found(page, "none of them"));
    assert_int_equal(page->status.nfindings, 0);
    assert_int_equal(page->status.standing, EXPORTER_STANDING_OK);
    page_free(page);
}

static void test_a_failure_is_found_for_its_window(void **state)
{
    (void)state;
    struct page *page = page_new();
    end(page, HANDOFF_OUTCOME_EXHAUSTED, 1);
    assert_int_equal(severity_of(page, "HandoffFailed"), EXPORTER_SEVERITY_INFO);
    assert_int_equal(page->status.standing, EXPORTER_STANDING_ATTENTION);
    pass(page, RULE_FAILED_WINDOW - MINUTE_S);
    assert_true(is_found(page, "HandoffFailed"));
    pass(page, 2 * MINUTE_S);
    assert_false(is_found(page, "HandoffFailed"));
    page_free(page);
}

static void test_a_half_open_circuit_is_found_only_soon_after_it_opened(void **state)
{
    (void)state;
    struct page *page = page_new();
    count(page, COLLECTORS_COUNTED_OPENED, 1);
    page->stats.circuit = HANDOFF_CIRCUIT_HALF_OPEN;
    assert_int_equal(severity_of(page, "HandoffCircuitOpen"), EXPORTER_SEVERITY_CRITICAL);
    pass(page, RULE_CIRCUIT_OPEN_WINDOW + MINUTE_S);
    assert_true(is_found(page, "HandoffCircuitOpen")); /* the alert is kept firing */
    pass(page, RULE_CIRCUIT_OPEN_KEEP_FIRING_FOR);
    assert_false(is_found(page, "HandoffCircuitOpen"));
    assert_int_equal(page->status.standing, EXPORTER_STANDING_OK);
    /* nothing was sent since, so it has not succeeded either */
    page->coder.history.now[EXPORTER_WATCHED_FAILURES] = RULE_CONSECUTIVE_FAILURES_COUNT;
    page->coder.history.now[EXPORTER_WATCHED_NOT_CLOSED] = 1;
    pass(page, HOUR_S);
    assert_false(is_found(page, "HandoffCircuitOpen"));
    assert_int_equal(page->status.standing, EXPORTER_STANDING_ATTENTION);
    page->stats.circuit = HANDOFF_CIRCUIT_OPEN;
    assert_int_equal(severity_of(page, "HandoffCircuitOpen"), EXPORTER_SEVERITY_CRITICAL);
    page_free(page);
}

static void test_a_circuit_that_was_open_is_found_for_as_long_as_its_alert_is_kept(void **state)
{
    (void)state;
    struct page *page = page_new();
    count(page, COLLECTORS_COUNTED_OPENED, 1);
    count(page, EXPORTER_WATCHED_OPEN, 1);
    pass(page, HOUR_S);
    page->coder.history.now[EXPORTER_WATCHED_OPEN] = 0;
    pass(page, RULE_CIRCUIT_OPEN_KEEP_FIRING_FOR - MINUTE_S);
    assert_int_equal(severity_of(page, "HandoffCircuitOpen"), EXPORTER_SEVERITY_CRITICAL);
    pass(page, 2 * MINUTE_S);
    assert_false(is_found(page, "HandoffCircuitOpen"));
    page_free(page);
}

static void test_failures_and_refusals_in_a_row(void **state)
{
    (void)state;
    struct page *page = page_new();
    page->coder.history.now[EXPORTER_WATCHED_FAILURES] = RULE_CONSECUTIVE_FAILURES_COUNT - 1;
    page->coder.history.now[EXPORTER_WATCHED_REFUSALS] = RULE_REFUSED_REPEATEDLY_COUNT - 1;
    assert_false(is_found(page, "HandoffConsecutiveFailures"));
    assert_false(is_found(page, "HandoffRefusedRepeatedly"));
    count(page, EXPORTER_WATCHED_FAILURES, 1);
    count(page, EXPORTER_WATCHED_REFUSALS, 1);
    pass(page, MINUTE_S);
    page->coder.history.now[EXPORTER_WATCHED_FAILURES] = 0; /* one went well: still in the window */
    page->coder.history.now[EXPORTER_WATCHED_REFUSALS] = 0;
    assert_true(is_found(page, "HandoffConsecutiveFailures"));
    assert_true(is_found(page, "HandoffRefusedRepeatedly"));
    page_free(page);
}

static void test_most_of_enough_handoffs_are_refused(void **state)
{
    (void)state;
    struct page *page = page_new();
    end(page, HANDOFF_OUTCOME_REFUSED, RULE_MOSTLY_REFUSED_HANDOFFS - 1);
    assert_false(is_found(page, "HandoffMostlyRefused"));
    end(page, HANDOFF_OUTCOME_ACKNOWLEDGED, 1);
    assert_int_equal(severity_of(page, "HandoffMostlyRefused"), EXPORTER_SEVERITY_CRITICAL);
    end(page, HANDOFF_OUTCOME_ACKNOWLEDGED, RULE_MOSTLY_REFUSED_HANDOFFS - 2);
    assert_false(is_found(page, "HandoffMostlyRefused")); /* half is not most */
    page_free(page);
}

static void test_a_receiver_is_behind_when_its_oldest_publication_is_too_old(void **state)
{
    (void)state;
    struct page *page = page_new();
    struct handoff_feed_stats feed = {
        .channel = "news", .receiver = "coder", .subscribed = true, .pending = 3};
    page->status.feeds = &feed;
    page->status.nfeeds = 1;
    feed.oldest_pending_ns = (int64_t)RULE_CHANNEL_BACKLOG_OLDER_THAN * 1000000000;
    assert_false(is_found(page, "HandoffChannelBacklog"));
    feed.oldest_pending_ns += 1000000;
    assert_int_equal(severity_of(page, "HandoffChannelBacklog"), EXPORTER_SEVERITY_WARNING);
    assert_string_equal(page->findings[0].text, "coder is behind on the channel news: 3 "
                                                "publications are pending, the oldest for 15 min.");
    page_free(page);
}

static void test_an_inbox_is_unattended_when_both_it_and_its_work_waited(void **state)
{
    (void)state;
    struct page *page = page_new();
    const int64_t warning_ms = INT64_C(1000) * RULE_INBOX_UNATTENDED_WARNING;
    const int64_t critical_ms = INT64_C(1000) * RULE_INBOX_UNATTENDED_CRITICAL;
    page->stats.pulls = true;
    page->stats.waiting = 1;
    page->stats.polled_ms = page->status.now_ms - critical_ms - 1;
    page->stats.oldest_in_flight_ns = warning_ms * 1000000;
    assert_false(is_found(page, "HandoffInboxUnattended"));
    page->stats.oldest_in_flight_ns = (warning_ms + 1) * 1000000;
    assert_int_equal(severity_of(page, "HandoffInboxUnattended"), EXPORTER_SEVERITY_WARNING);
    page->stats.oldest_in_flight_ns = (critical_ms + 1) * 1000000;
    assert_int_equal(severity_of(page, "HandoffInboxUnattended"), EXPORTER_SEVERITY_CRITICAL);
    page->stats.polled_ms = page->status.now_ms;
    assert_false(is_found(page, "HandoffInboxUnattended"));
    page_free(page);
}

static void test_latency_is_compared_with_the_timeout_of_the_agent(void **state)
{
    (void)state;
    struct page *page = page_new();
    const double *bounds = collectors_latency_bounds();
    size_t bucket = 0;
    while (bounds[bucket] < 10) /* 5 to 10 s: the median is taken to be 7.5 */
        bucket++;
    count(page, COLLECTORS_COUNTED_LATENCY + bucket, RULE_LATENCY_PERCENTILES_2_HANDOFFS);
    end(page, HANDOFF_OUTCOME_ACKNOWLEDGED, RULE_LATENCY_PERCENTILES_2_HANDOFFS - 1);
    page->stats.timeout_ms = 9000;
    assert_false(is_found(page, "HandoffLatencyHigh"));
    end(page, HANDOFF_OUTCOME_ACKNOWLEDGED, 1);
    assert_true(is_found(page, "HandoffLatencyHigh"));
    page->stats.timeout_ms = 10000;
    assert_false(is_found(page, "HandoffLatencyHigh"));
    page_free(page);
}

static void test_completeness_of_enough_envelopes(void **state)
{
    (void)state;
    struct page *page = page_new();
    count(page, COLLECTORS_COUNTED_REFS_REQUESTED, 100);
    count(page, COLLECTORS_COUNTED_REFS_INCLUDED, 94);
    count(page, COLLECTORS_COUNTED_ENVELOPES, RULE_COMPLETENESS_LOW_HANDOFFS - 1);
    assert_false(is_found(page, "HandoffCompletenessLow"));
    count(page, COLLECTORS_COUNTED_ENVELOPES, 1);
    assert_int_equal(severity_of(page, "HandoffCompletenessLow"), EXPORTER_SEVERITY_WARNING);
    assert_false(is_found(page, "HandoffCompletenessCritical"));
    count(page, COLLECTORS_COUNTED_REFS_INCLUDED, 1);
    assert_false(is_found(page, "HandoffCompletenessLow"));
    count(page, COLLECTORS_COUNTED_REFS_REQUESTED, 20); /* 95 of 120 */
    assert_int_equal(severity_of(page, "HandoffCompletenessCritical"), EXPORTER_SEVERITY_CRITICAL);
    page_free(page);
}

static void test_a_failure_rate_leaves_out_agents_whose_circuit_is_not_closed(void **state)
{
    (void)state;
    struct page *page = page_new();
    end(page, HANDOFF_OUTCOME_ACKNOWLEDGED, RULE_RATE_GUARD_HANDOFFS - 4);
    end(page, HANDOFF_OUTCOME_EXHAUSTED, 3);
    assert_false(is_found(page, "HandoffFailureRateCritical"));
    end(page, HANDOFF_OUTCOME_ACKNOWLEDGED, 1);
    assert_true(is_found(page, "HandoffFailureRateCritical"));
    assert_false(is_found(page, "HandoffErrorBudgetBurn"));
    end(page, HANDOFF_OUTCOME_REJECTED, 6);
    assert_true(is_found(page, "HandoffErrorBudgetBurn"));
    count(page, EXPORTER_WATCHED_NOT_CLOSED, 1);
    assert_false(is_found(page, "HandoffFailureRateCritical"));
    assert_false(is_found(page, "HandoffErrorBudgetBurn"));
    page_free(page);
}

/* Lets time pass as pass() does, and the rules remember. */
static void pass_remembering(struct page *page, int seconds)
{
    for (int left = seconds; left > 0; left -= EXPORTER_HISTORY_STEP_MS / SECOND_MS) {
        pass(page, EXPORTER_HISTORY_STEP_MS / SECOND_MS);
        exporter_rules_remember(&page->windows);
    }
}

static void test_a_burning_budget_is_found_for_as_long_as_its_alert_is_kept(void **state)
{
    const int past = RULE_ERROR_BUDGET_BURN_0_SHORT + MINUTE_S;
    (void)state;
    for (int rings = 0; rings <= 1; rings++) {
        struct page *page = page_new();
        end(page, HANDOFF_OUTCOME_ACKNOWLEDGED, RULE_RATE_GUARD_HANDOFFS);
        end(page, HANDOFF_OUTCOME_EXHAUSTED, RULE_RATE_GUARD_HANDOFFS);
        exporter_rules_remember(&page->windows);
        if (rings)
            pass_remembering(page, RULE_ERROR_BUDGET_BURN_0_FOR + MINUTE_S);
        assert_true(is_found(page, "HandoffErrorBudgetBurn"));
        if (!rings) /* too short for its alert */
            page->windows.times.now_ms += (int64_t)past * SECOND_MS;
        pass_remembering(page, past);
        assert_int_equal(is_found(page, "HandoffErrorBudgetBurn"), rings);
        pass_remembering(page, RULE_ERROR_BUDGET_BURN_0_KEEP_FIRING_FOR);
        assert_false(is_found(page, "HandoffErrorBudgetBurn"));
        page_free(page);
    }
}

static void test_the_sidecar_itself(void **state)
{
    (void)state;
    struct page *page = page_new();
    uint32_t *own = page->windows.own.now;
    const size_t descriptors = EXPORTER_WATCHED_SHORTAGE + (size_t)HANDOFF_SHORTAGE_DESCRIPTORS;
    own[descriptors] = RULE_OUT_OF_RESOURCES_SHORTAGES - 1;
    assert_false(is_found(page, "HandoffExporterOutOfResources"));
    own[descriptors]++;
    assert_true(is_found(page, "HandoffExporterOutOfResources"));
    page->status.client.store_failing = HANDOFF_ERR_STORE_FULL;
    assert_int_equal(severity_of(page, "HandoffStoreFailing"), EXPORTER_SEVERITY_CRITICAL);
    page->status.client.store_failing = HANDOFF_OK;
    assert_false(is_found(page, "HandoffStoreFailing"));
    own[EXPORTER_WATCHED_COMMITS_FAILED] = 1;
    assert_int_equal(severity_of(page, "HandoffStoreFailing"), EXPORTER_SEVERITY_CRITICAL);
    pass(page, RULE_STORE_FAILING_WINDOW + MINUTE_S);
    assert_false(is_found(page, "HandoffStoreFailing"));
    assert_false(is_found(page, "HandoffExporterOutOfResources"));
    own[EXPORTER_WATCHED_SPINE_DOWN] = 1;
    pass(page, MINUTE_S);
    page->status.client.spine_up = false;
    assert_int_equal(severity_of(page, "HandoffSpineDown"), EXPORTER_SEVERITY_CRITICAL);
    page->status.client.spine_up = true;
    assert_false(is_found(page, "HandoffSpineDown")); /* it was up for most of the window */
    pass(page, RULE_SPINE_DOWN_WINDOW);
    assert_true(is_found(page, "HandoffSpineDown"));
    page_free(page);
}

static void test_a_rule_names_some_agents_and_counts_the_others(void **state)
{
    (void)state;
    enum { AGENTS = 9 };
    struct page *page = page_new();
    struct handoff_agent_stats *stats = calloc(AGENTS, sizeof *stats);
    assert_non_null(stats);
    for (int i = 0; i < AGENTS; i++)
        stats[i] = page->stats;
    page->status.agents = stats;
    page->status.nagents = AGENTS;
    end(page, HANDOFF_OUTCOME_REFUSED, 1);
    assert_true(is_found(page, "HandoffRefused"));
    assert_int_equal(page->status.nfindings, 6);
    assert_string_equal(page->findings[5].text,
                        "HandoffRefused: the same for 4 more agents, see below.");
    free(stats);
    page_free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_found_where_nothing_happened),
        cmocka_unit_test(test_a_failure_is_found_for_its_window),
        cmocka_unit_test(test_a_half_open_circuit_is_found_only_soon_after_it_opened),
        cmocka_unit_test(test_a_circuit_that_was_open_is_found_for_as_long_as_its_alert_is_kept),
        cmocka_unit_test(test_failures_and_refusals_in_a_row),
        cmocka_unit_test(test_most_of_enough_handoffs_are_refused),
        cmocka_unit_test(test_a_receiver_is_behind_when_its_oldest_publication_is_too_old),
        cmocka_unit_test(test_an_inbox_is_unattended_when_both_it_and_its_work_waited),
        cmocka_unit_test(test_latency_is_compared_with_the_timeout_of_the_agent),
        cmocka_unit_test(test_completeness_of_enough_envelopes),
        cmocka_unit_test(test_a_failure_rate_leaves_out_agents_whose_circuit_is_not_closed),
        cmocka_unit_test(test_a_burning_budget_is_found_for_as_long_as_its_alert_is_kept),
        cmocka_unit_test(test_the_sidecar_itself),
        cmocka_unit_test(test_a_rule_names_some_agents_and_counts_the_others),
    };
    return RUN_TESTS(tests);
}
