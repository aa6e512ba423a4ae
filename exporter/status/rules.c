/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules, see rules.h: one function each, in the order of rules.def. Each says what it found in
 * one sentence, with the numbers that decided it.
 *
 * Control thread.
 */
#include "exporter/status/rules.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "exporter/status/thresholds.h"
#include "lib/base/units.h"

enum {
    AGENTS_NAMED = 5,    /* by one rule; the table has all of them */
    RULE_TEXT_MAX = 512, /* an agent's name and some words */
};

struct evaluation {
    struct exporter_status *status;
    const struct exporter_windows *windows;
    /* of the rule that is being evaluated */
    const char *alert;
    size_t named; /* agents that it was found at so far */
    enum exporter_severity worst;
    /* of the agent that it is being evaluated for */
    const struct handoff_agent_stats *agent;
    const struct exporter_history *counted; /* NULL: it has no counts of its own */
};

/* ---- reading -------------------------------------------------------------------------------- */

static double grown(const struct evaluation *evaluation, size_t number, int seconds)
{
    if (evaluation->counted == NULL)
        return 0;
    return exporter_history_increase(evaluation->counted, &evaluation->windows->times, number,
                                     seconds);
}

static double ended_in(const struct evaluation *evaluation, enum handoff_outcome outcome,
                       int seconds)
{
    return grown(evaluation, COLLECTORS_COUNTED_OUTCOME + (size_t)outcome, seconds);
}

static double failed_of(const struct evaluation *evaluation, int seconds)
{
    return ended_in(evaluation, HANDOFF_OUTCOME_EXHAUSTED, seconds) +
           ended_in(evaluation, HANDOFF_OUTCOME_REJECTED, seconds);
}

/* Those that were sent; what a circuit or the hop limit stopped is not. */
static double settled_of(const struct evaluation *evaluation, int seconds)
{
    return failed_of(evaluation, seconds) +
           ended_in(evaluation, HANDOFF_OUTCOME_ACKNOWLEDGED, seconds) +
           ended_in(evaluation, HANDOFF_OUTCOME_REFUSED, seconds) +
           ended_in(evaluation, HANDOFF_OUTCOME_EXPIRED, seconds);
}

static unsigned most(const struct evaluation *evaluation, size_t number, int seconds)
{
    if (evaluation->counted == NULL)
        return 0;
    return exporter_history_max(evaluation->counted, &evaluation->windows->times, number, seconds);
}

static double own_grown(const struct evaluation *evaluation, size_t number, int seconds)
{
    return exporter_history_increase(&evaluation->windows->own, &evaluation->windows->times, number,
                                     seconds);
}

/* "5 min" of a window in seconds. */
static const char *words_for(struct base_printed *printed, int seconds)
{
    return base_age_print(printed, (int64_t)seconds * 1000);
}

static const char *plural(double count)
{
    return count == 1 ? "" : "s";
}

/* ---- reporting ------------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void
report(struct evaluation *evaluation, enum exporter_severity severity, const char *format, ...)
{
    char text[RULE_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (severity > evaluation->worst)
        evaluation->worst = severity;
    if (evaluation->agent != NULL && evaluation->named++ >= AGENTS_NAMED)
        return;
    exporter_status_find(evaluation->status,
                         &(struct exporter_finding){
                             .severity = severity,
                             .alert = evaluation->alert,
                             .agent = evaluation->agent != NULL ? evaluation->agent->name : NULL,
                             .text = text});
}

/* ---- about one agent ------------------------------------------------------------------------ */

/* The alert keeps firing for a while after its condition ended, so that probes that fail and a
 * circuit that flaps are one page. */
static void rule_circuit(struct evaluation *evaluation)
{
    const int kept = RULE_CIRCUIT_OPEN_KEEP_FIRING_FOR;
    struct base_printed age;
    const struct handoff_agent_stats *agent = evaluation->agent;
    const double opened =
        grown(evaluation, COLLECTORS_COUNTED_OPENED, RULE_CIRCUIT_OPEN_WINDOW + kept);
    const bool was_open = most(evaluation, EXPORTER_WATCHED_OPEN, kept) > 0;
    if (agent->circuit == HANDOFF_CIRCUIT_OPEN)
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "The circuit to %s is open after %u consecutive failure%s; nothing is sent to it "
               "until the cooldown ends.",
               agent->name, agent->consecutive_failures, plural(agent->consecutive_failures));
    else if (opened > 0 || was_open)
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "The circuit to %s was open in the last %s%s.", agent->name,
               words_for(&age, RULE_CIRCUIT_OPEN_WINDOW + kept),
               agent->circuit == HANDOFF_CIRCUIT_HALF_OPEN
                   ? " and is half open: the next handoff probes it"
                   : " and is closed again");
}

static void rule_failures_in_a_row(struct evaluation *evaluation)
{
    const unsigned failures =
        most(evaluation, EXPORTER_WATCHED_FAILURES, RULE_CONSECUTIVE_FAILURES_WINDOW);
    if (failures >= RULE_CONSECUTIVE_FAILURES_COUNT)
        report(evaluation, EXPORTER_SEVERITY_WARNING, "%u handoffs in a row to %s failed.",
               failures, evaluation->agent->name);
}

static void rule_failed(struct evaluation *evaluation)
{
    struct base_printed age;
    const double failed = failed_of(evaluation, RULE_FAILED_WINDOW);
    const double rejected = ended_in(evaluation, HANDOFF_OUTCOME_REJECTED, RULE_FAILED_WINDOW);
    if (failed > 0)
        report(evaluation, EXPORTER_SEVERITY_INFO,
               "%.0f handoff%s to %s failed in the last %s and %s parked%s.", failed,
               plural(failed), evaluation->agent->name, words_for(&age, RULE_FAILED_WINDOW),
               failed == 1 ? "is" : "are",
               rejected > 0 ? "; its url or token is wrong (reason rejected)" : "");
}

static void rule_mostly_refused(struct evaluation *evaluation)
{
    struct base_printed age;
    const double refused =
        ended_in(evaluation, HANDOFF_OUTCOME_REFUSED, RULE_MOSTLY_REFUSED_WINDOW);
    const double settled = settled_of(evaluation, RULE_MOSTLY_REFUSED_WINDOW);
    if (settled >= RULE_MOSTLY_REFUSED_HANDOFFS && refused / settled > RULE_MOSTLY_REFUSED_ABOVE)
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "%s refused %.0f of its %.0f handoffs in the last %s.", evaluation->agent->name,
               refused, settled, words_for(&age, RULE_MOSTLY_REFUSED_WINDOW));
}

static void rule_refusals_in_a_row(struct evaluation *evaluation)
{
    const unsigned refusals =
        most(evaluation, EXPORTER_WATCHED_REFUSALS, RULE_REFUSED_REPEATEDLY_WINDOW);
    if (refusals >= RULE_REFUSED_REPEATEDLY_COUNT)
        report(evaluation, EXPORTER_SEVERITY_WARNING, "%s refused %u handoffs in a row.",
               evaluation->agent->name, refusals);
}

static void rule_refused(struct evaluation *evaluation)
{
    struct base_printed age;
    const double refused = ended_in(evaluation, HANDOFF_OUTCOME_REFUSED, RULE_REFUSED_WINDOW);
    if (refused > 0)
        report(evaluation, EXPORTER_SEVERITY_INFO,
               "%s refused %.0f handoff%s in the last %s, permanently.", evaluation->agent->name,
               refused, plural(refused), words_for(&age, RULE_REFUSED_WINDOW));
}

static void rule_expired(struct evaluation *evaluation)
{
    struct base_printed age;
    const double expired = ended_in(evaluation, HANDOFF_OUTCOME_EXPIRED, RULE_EXPIRED_WINDOW);
    if (expired > 0)
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "%.0f handoff%s to %s passed %s deadline in the last %s; expired work is not "
               "parked and is not retried.",
               expired, plural(expired), evaluation->agent->name, expired == 1 ? "its" : "their",
               words_for(&age, RULE_EXPIRED_WINDOW));
}

static void rule_inbox(struct evaluation *evaluation)
{
    struct base_printed age;
    const struct handoff_agent_stats *agent = evaluation->agent;
    const int64_t silent_ms = evaluation->status->now_ms - agent->polled_ms;
    const int64_t oldest_ms = agent->oldest_in_flight_ns / 1000000;
    const int64_t late_ms = silent_ms < oldest_ms ? silent_ms : oldest_ms;
    if (!agent->pulls || agent->waiting == 0 ||
        late_ms <= (int64_t)RULE_INBOX_UNATTENDED_WARNING * 1000)
        return;
    report(evaluation,
           late_ms > (int64_t)RULE_INBOX_UNATTENDED_CRITICAL * 1000 ? EXPORTER_SEVERITY_CRITICAL
                                                                    : EXPORTER_SEVERITY_WARNING,
           "%s has %" PRIu64 " handoff%s in its inbox and has not polled for %s.", agent->name,
           agent->waiting, plural((double)agent->waiting), base_age_print(&age, silent_ms));
}

static void rule_parked(struct evaluation *evaluation)
{
    struct base_printed age;
    const struct handoff_agent_stats *agent = evaluation->agent;
    const int64_t waited_ms = agent->oldest_parked_ns / 1000000;
    if (waited_ms > (int64_t)RULE_PARKED_OLDER_THAN * 1000)
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "The oldest parked handoff to %s has waited %s for an operator.", agent->name,
               base_age_print(&age, waited_ms));
}

/* As histogram_quantile: within its bucket, evenly. */
static double quantile_of(const double counts[COLLECTORS_LATENCY_BUCKETS], double quantile)
{
    const double *bounds = collectors_latency_bounds();
    double total = 0;
    for (int i = 0; i < COLLECTORS_LATENCY_BUCKETS; i++)
        total += counts[i];
    double rank = quantile * total;
    int bucket = 0;
    while (bucket < COLLECTORS_LATENCY_BUCKETS - 1 && rank > counts[bucket])
        rank -= counts[bucket++];
    if (total == 0)
        return 0;
    if (bucket == COLLECTORS_LATENCY_BUCKETS - 1)
        return bounds[bucket - 1];
    const double lower = bucket > 0 ? bounds[bucket - 1] : 0;
    const double share = counts[bucket] > 0 ? rank / counts[bucket] : 0;
    return lower + (bounds[bucket] - lower) * share;
}

double exporter_rules_latency(const struct exporter_windows *windows,
                              const struct exporter_history *agent, double quantile, int seconds)
{
    double counts[COLLECTORS_LATENCY_BUCKETS];
    for (size_t i = 0; i < COLLECTORS_LATENCY_BUCKETS; i++)
        counts[i] = exporter_history_increase(agent, &windows->times,
                                              COLLECTORS_COUNTED_LATENCY + i, seconds);
    return quantile_of(counts, quantile);
}

static void rule_latency(struct evaluation *evaluation)
{
    static const struct {
        double quantile, handoffs;
    } tiers[] = {
        {RULE_LATENCY_PERCENTILES_0_QUANTILE, RULE_LATENCY_PERCENTILES_0_HANDOFFS},
        {RULE_LATENCY_PERCENTILES_1_QUANTILE, RULE_LATENCY_PERCENTILES_1_HANDOFFS},
        {RULE_LATENCY_PERCENTILES_2_QUANTILE, RULE_LATENCY_PERCENTILES_2_HANDOFFS},
    };
    struct base_printed latency, timeout;
    const struct handoff_agent_stats *agent = evaluation->agent;
    const double acknowledged =
        ended_in(evaluation, HANDOFF_OUTCOME_ACKNOWLEDGED, RULE_LATENCY_WINDOW);
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers && agent->timeout_ms > 0; i++) {
        if (acknowledged < tiers[i].handoffs || evaluation->counted == NULL)
            continue;
        const double seconds = exporter_rules_latency(evaluation->windows, evaluation->counted,
                                                      tiers[i].quantile, RULE_LATENCY_WINDOW);
        if (seconds <= RULE_LATENCY_SHARE * (double)agent->timeout_ms / 1000)
            continue;
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "Handoffs to %s take up to %s to be acknowledged; its timeout is %s.", agent->name,
               base_age_print(&latency, (int64_t)(seconds * 1000)),
               base_age_print(&timeout, agent->timeout_ms));
        return;
    }
}

static void rule_hop_limit(struct evaluation *evaluation)
{
    struct base_printed age;
    const double limited = ended_in(evaluation, HANDOFF_OUTCOME_HOP_LIMIT, RULE_HOP_LIMIT_WINDOW);
    if (limited > 0)
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "%.0f handoff%s to %s hit the hop limit in the last %s; the task%s stopped.",
               limited, plural(limited), evaluation->agent->name,
               words_for(&age, RULE_HOP_LIMIT_WINDOW), plural(limited));
}

static void rule_trimmed(struct evaluation *evaluation)
{
    struct base_printed age;
    const int window = RULE_CONTEXT_TRIMMED_WINDOW;
    const double items = grown(evaluation, COLLECTORS_COUNTED_ITEMS, window);
    const double omitted = grown(evaluation, COLLECTORS_COUNTED_ITEMS_OMITTED, window);
    const double envelopes = grown(evaluation, COLLECTORS_COUNTED_BUDGETS, window);
    const double used = grown(evaluation, COLLECTORS_COUNTED_BUDGET_PERMILL, window) / 1000;
    if (envelopes < RULE_CONTEXT_TRIMMED_HANDOFFS ||
        used <= RULE_CONTEXT_TRIMMED_UTILIZATION_ABOVE * envelopes ||
        omitted <= RULE_CONTEXT_TRIMMED_TRIMMED_ABOVE * items)
        return;
    report(evaluation, EXPORTER_SEVERITY_WARNING,
           "%.0f %% of the context that tasks had for %s in the last %s was omitted: its envelopes "
           "are full.",
           100 * omitted / items, evaluation->agent->name, words_for(&age, window));
}

static void rule_unrecovered(struct evaluation *evaluation)
{
    struct base_printed age;
    const int window = RULE_CONTEXT_UNRECOVERED_WINDOW;
    const double flagged = grown(evaluation, COLLECTORS_COUNTED_UNRECOVERED, window);
    if (flagged > 0)
        report(
            evaluation, EXPORTER_SEVERITY_WARNING,
            "%s works without %.0f memor%s that its handoffs lack and that it could not fetch in "
            "the last %s.",
            evaluation->agent->name, flagged, flagged == 1 ? "y" : "ies", words_for(&age, window));
}

/* ---- about all of them ---------------------------------------------------------------------- */

struct rate {
    double failed, settled;
};

/* Without targets whose circuit was not closed all the time: they have an alert of their own. */
static struct rate rate_of(const struct evaluation *evaluation, int seconds, int closed_seconds)
{
    struct rate rate = {0};
    for (size_t i = 0; i < evaluation->windows->nagents; i++) {
        struct evaluation one = *evaluation;
        one.counted = &evaluation->windows->agents[i]->history;
        if (most(&one, EXPORTER_WATCHED_NOT_CLOSED, closed_seconds) > 0)
            continue;
        rate.failed += failed_of(&one, seconds);
        rate.settled += settled_of(&one, seconds);
    }
    return rate;
}

/* In both windows, with enough handoffs and failures in the longer one, whose rate is answered. */
static bool is_rate_above(const struct evaluation *evaluation, double above, int long_s,
                          int short_s, struct rate *lasting)
{
    const struct rate recent = rate_of(evaluation, short_s, short_s);
    *lasting = rate_of(evaluation, long_s, short_s);
    return lasting->settled >= RULE_RATE_GUARD_HANDOFFS &&
           lasting->failed >= RULE_RATE_GUARD_FAILURES &&
           lasting->failed > above * lasting->settled && recent.failed > above * recent.settled;
}

static void rule_failure_rate(struct evaluation *evaluation)
{
    struct rate lasting;
    struct base_printed age;
    if (is_rate_above(evaluation, RULE_FAILURE_RATE_CRITICAL_ABOVE, RULE_FAILURE_RATE_CRITICAL_LONG,
                      RULE_FAILURE_RATE_CRITICAL_SHORT, &lasting))
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "%.1f %% of the handoffs of the last %s failed, and failures continue: something "
               "that many agents share is broken.",
               100 * lasting.failed / lasting.settled,
               words_for(&age, RULE_FAILURE_RATE_CRITICAL_LONG));
}

static bool is_budget_burning(const struct evaluation *evaluation, struct rate *lasting)
{
    return is_rate_above(evaluation, RULE_ERROR_BUDGET_BURN_0_FACTOR * (1 - RULE_OBJECTIVE),
                         RULE_ERROR_BUDGET_BURN_0_LONG, RULE_ERROR_BUDGET_BURN_0_SHORT, lasting);
}

/* The fastest of the burn rates; the others look back further than the page does. */
static void rule_budget_burn(struct evaluation *evaluation)
{
    struct rate lasting;
    struct base_printed age;
    const struct exporter_windows *windows = evaluation->windows;
    const int64_t kept_ms = (int64_t)RULE_ERROR_BUDGET_BURN_0_KEEP_FIRING_FOR * 1000;
    if (is_budget_burning(evaluation, &lasting))
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "%.1f %% of the handoffs of the last %s failed, and failures continue: the month's "
               "error budget is burning.",
               100 * lasting.failed / lasting.settled,
               words_for(&age, RULE_ERROR_BUDGET_BURN_0_LONG));
    else if (windows->burnt_ms != 0 && windows->times.now_ms - windows->burnt_ms <= kept_ms)
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "So many handoffs failed until %s ago that the month's error budget was burning; "
               "since then they arrive.",
               base_age_print(&age, windows->times.now_ms - windows->burnt_ms));
}

void exporter_rules_remember(struct exporter_windows *windows)
{
    struct rate lasting;
    const struct evaluation evaluation = {.windows = windows};
    const int64_t now_ms = windows->times.now_ms;
    if (!is_budget_burning(&evaluation, &lasting)) {
        windows->burning_since_ms = 0;
        return;
    }
    if (windows->burning_since_ms == 0)
        windows->burning_since_ms = now_ms;
    if (now_ms - windows->burning_since_ms >= (int64_t)RULE_ERROR_BUDGET_BURN_0_FOR * 1000)
        windows->burnt_ms = now_ms;
}

/* Whose envelopes lacked the most. */
static const char *agent_that_lacks_most(const struct exporter_windows *windows, int seconds)
{
    const char *name = "";
    double most_lacking = 0;
    for (size_t i = 0; i < windows->nagents; i++) {
        const struct exporter_watched_agent *agent = windows->agents[i];
        const double lacking =
            exporter_history_increase(&agent->history, &windows->times,
                                      COLLECTORS_COUNTED_REFS_REQUESTED, seconds) -
            exporter_history_increase(&agent->history, &windows->times,
                                      COLLECTORS_COUNTED_REFS_INCLUDED, seconds);
        if (lacking > most_lacking) {
            most_lacking = lacking;
            name = agent->name;
        }
    }
    return name;
}

static void report_completeness(struct evaluation *evaluation, enum exporter_severity severity,
                                double below, double handoffs, int seconds)
{
    struct base_printed age;
    const struct exporter_windows *windows = evaluation->windows;
    const double included =
        exporter_windows_sum(windows, COLLECTORS_COUNTED_REFS_INCLUDED, seconds);
    const double requested =
        exporter_windows_sum(windows, COLLECTORS_COUNTED_REFS_REQUESTED, seconds);
    const double envelopes = exporter_windows_sum(windows, COLLECTORS_COUNTED_ENVELOPES, seconds);
    if (envelopes >= handoffs && included < below * requested)
        report(evaluation, severity,
               "Only %.0f %% of the %.0f memories that were requested in the last %s made it into "
               "their envelopes; most were missing for %s.",
               100 * included / requested, requested, words_for(&age, seconds),
               agent_that_lacks_most(windows, seconds));
}

static void rule_completeness_critical(struct evaluation *evaluation)
{
    report_completeness(evaluation, EXPORTER_SEVERITY_CRITICAL, RULE_COMPLETENESS_CRITICAL_BELOW,
                        RULE_COMPLETENESS_CRITICAL_HANDOFFS, RULE_COMPLETENESS_CRITICAL_WINDOW);
}

static void rule_completeness_low(struct evaluation *evaluation)
{
    report_completeness(evaluation, EXPORTER_SEVERITY_WARNING, RULE_COMPLETENESS_LOW_BELOW,
                        RULE_COMPLETENESS_LOW_HANDOFFS, RULE_COMPLETENESS_LOW_WINDOW);
}

/* ---- about the sidecar ---------------------------------------------------------------------- */

static void rule_spine(struct evaluation *evaluation)
{
    struct base_printed age;
    const double down =
        exporter_history_mean(&evaluation->windows->own, &evaluation->windows->times,
                              EXPORTER_WATCHED_SPINE_DOWN, RULE_SPINE_DOWN_WINDOW);
    if (!evaluation->status->client.spine_up)
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "The spine is not answering: envelopes are sent without the requested memories.");
    else if (1 - down < RULE_SPINE_DOWN_UP_BELOW)
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "The spine answers again, but was down for more than half of the last %s.",
               words_for(&age, RULE_SPINE_DOWN_WINDOW));
}

/* By a share, since small volumes are usual, and by bytes, since large ones are too. */
static bool disk_is_nearly_full(const struct handoff_stats *stats)
{
    return stats->disk_bytes > 0 &&
           (double)stats->disk_free_bytes <
               RULE_STORE_FAILING_DISK_BELOW * (double)stats->disk_bytes &&
           stats->disk_free_bytes < RULE_STORE_FAILING_DISK_BYTES_BELOW;
}

static void rule_store(struct evaluation *evaluation)
{
    struct base_printed age;
    const struct handoff_stats *stats = &evaluation->status->client;
    if (stats->store_displaced != NULL)
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "The store is not where it was (%.120s); nothing is stored or accepted until the "
               "sidecar is restarted.",
               stats->store_displaced);
    else if (stats->store_failing != HANDOFF_OK)
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "Nothing can be written to the store: %s. Handoffs are rejected until a write "
               "succeeds, which is tried every second.",
               handoff_code_meaning(stats->store_failing));
    else if (own_grown(evaluation, EXPORTER_WATCHED_COMMITS_FAILED, RULE_STORE_FAILING_WINDOW) > 0)
        report(
            evaluation, EXPORTER_SEVERITY_CRITICAL,
            "Writing to the store failed in the last %s; the affected handoffs were rejected. The "
            "last write succeeded.",
            words_for(&age, RULE_STORE_FAILING_WINDOW));
    if (disk_is_nearly_full(stats))
        report(evaluation, EXPORTER_SEVERITY_CRITICAL,
               "The disk under the store is nearly full: %" PRId64 " MB are free.",
               stats->disk_free_bytes / 1000000);
}

/* That of disk is rule_store's. */
static void rule_shortages(struct evaluation *evaluation)
{
    struct base_printed age;
    for (int i = HANDOFF_SHORTAGE_NONE + 1; i < HANDOFF_SHORTAGE_COUNT; i++) {
        if (i == HANDOFF_SHORTAGE_DISK ||
            own_grown(evaluation, EXPORTER_WATCHED_SHORTAGE + (size_t)i,
                      RULE_OUT_OF_RESOURCES_WINDOW) < RULE_OUT_OF_RESOURCES_SHORTAGES)
            continue;
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "The sidecar ran out of %s in the last %s; deliveries and connections are delayed, "
               "and no agent is at fault.",
               handoff_shortage_name((enum handoff_shortage)i),
               words_for(&age, RULE_OUT_OF_RESOURCES_WINDOW));
    }
}

static void rule_ping_pong(struct evaluation *evaluation)
{
    struct base_printed age;
    const double handoffs =
        own_grown(evaluation, EXPORTER_WATCHED_PING_PONGS, RULE_PING_PONG_WINDOW);
    if (handoffs > 0)
        report(
            evaluation, EXPORTER_SEVERITY_INFO,
            "%.0f handoff%s in the last %s sent a task back and forth between the same two agents "
            "without adding anything to it.",
            handoffs, plural(handoffs), words_for(&age, RULE_PING_PONG_WINDOW));
}

/* Whether the code is a failure of the request; some say how a handoff ended. */
static bool is_request_failure(enum handoff_code code)
{
    static const enum handoff_code others[] = {RULE_REQUESTS_FAILING_OTHERS};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (code == others[i])
            return false;
    }
    return code != HANDOFF_OK;
}

static double answered(const struct evaluation *evaluation,
                       const struct exporter_watched_answers *answers)
{
    return exporter_history_increase(&answers->history, &evaluation->windows->times, 0,
                                     RULE_REQUESTS_FAILING_WINDOW);
}

static double all_answered(const struct evaluation *evaluation, size_t call)
{
    double all = 0;
    for (size_t i = 0; i < evaluation->windows->nanswers; i++) {
        if (evaluation->windows->answers[i].call == call)
            all += answered(evaluation, &evaluation->windows->answers[i]);
    }
    return all;
}

static void rule_requests(struct evaluation *evaluation)
{
    struct base_printed age;
    for (size_t i = 0; i < evaluation->windows->nanswers; i++) {
        const struct exporter_watched_answers *answers = &evaluation->windows->answers[i];
        const double all = all_answered(evaluation, answers->call);
        const double these = answered(evaluation, answers);
        if (!is_request_failure(answers->code) || all < RULE_REQUESTS_FAILING_REQUESTS ||
            these <= RULE_REQUESTS_FAILING_ABOVE * all)
            continue;
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "%.0f of the %.0f requests to %s in the last %s were answered with the problem %s.",
               these, all, collectors_call_name(evaluation->windows->collectors, answers->call),
               words_for(&age, RULE_REQUESTS_FAILING_WINDOW), handoff_code_name(answers->code));
    }
}

static void rule_tasks(struct evaluation *evaluation)
{
    struct base_printed age;
    const struct handoff_stats *stats = &evaluation->status->client;
    const int64_t open_ms = stats->oldest_open_task_ns / 1000000;
    if (open_ms > stats->task_stalled_after_ms && stats->task_stalled_after_ms > 0)
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "A task stopped: its last handoff was acknowledged %s ago, nothing of it is in "
               "flight or parked, and no agent completed it.",
               base_age_print(&age, open_ms));
}

/* They are sorted: the first ones are furthest behind. */
static void rule_backlog(struct evaluation *evaluation)
{
    struct base_printed age;
    size_t behind = 0;
    for (size_t i = 0; i < evaluation->status->nfeeds; i++) {
        const struct handoff_feed_stats *feed = &evaluation->status->feeds[i];
        const int64_t waited_ms = feed->oldest_pending_ns / 1000000;
        if (waited_ms <= (int64_t)RULE_CHANNEL_BACKLOG_OLDER_THAN * 1000)
            break;
        if (behind++ >= AGENTS_NAMED)
            continue;
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "%s is behind on the channel %s: %" PRIu64 " publication%s pending, the oldest for "
               "%s.",
               feed->receiver, feed->channel, feed->pending, feed->pending == 1 ? " is" : "s are",
               base_age_print(&age, waited_ms));
    }
    if (behind > AGENTS_NAMED)
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "%zu more receiver%s of channels %s behind, see below.", behind - AGENTS_NAMED,
               plural((double)(behind - AGENTS_NAMED)), behind - AGENTS_NAMED == 1 ? "is" : "are");
}

static void rule_retention(struct evaluation *evaluation)
{
    struct base_printed age;
    const int64_t oldest_ms = evaluation->status->client.retention.oldest_chain_ns / 1000000;
    if (own_grown(evaluation, EXPORTER_WATCHED_CHAINS_BY_SIZE, RULE_RETENTION_CUT_SHORT_WINDOW) >
            0 &&
        oldest_ms < (int64_t)RULE_RETENTION_CUT_SHORT_YOUNGER_THAN * 1000)
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "Finished handoffs are removed for storage.retention.index_size; the oldest one "
               "left finished %s ago, and an older request that is repeated is a second handoff.",
               base_age_print(&age, oldest_ms));
}

static void rule_reload(struct evaluation *evaluation)
{
    if (evaluation->status->daemon.config_refused)
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "The last reload was rejected; the previous configuration stays in effect. The log "
               "says why.");
}

static void rule_series(struct evaluation *evaluation)
{
    struct base_printed age;
    if (own_grown(evaluation, EXPORTER_WATCHED_SERIES_DROPPED, RULE_SERIES_DROPPED_WINDOW) > 0)
        report(evaluation, EXPORTER_SEVERITY_WARNING,
               "Metrics reached metrics.max_series_per_family in the last %s; the rest is counted "
               "under \"other\".",
               words_for(&age, RULE_SERIES_DROPPED_WINDOW));
}

static void rule_tokens(struct evaluation *evaluation)
{
    if (!evaluation->status->client.exact_tokens)
        report(evaluation, EXPORTER_SEVERITY_INFO,
               "Tokens are estimated because no vocabulary is installed, so envelopes do not use "
               "their full budget.");
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void evaluate_agents(struct evaluation *evaluation,
                            void (*rule)(struct evaluation *evaluation))
{
    const struct exporter_status *status = evaluation->status;
    const struct handoff_agent_stats others = {.name =
                                                   handoff_reserved_name(HANDOFF_RESERVED_OTHER)};
    for (size_t i = 0; i < status->nagents; i++) {
        evaluation->agent = &status->agents[i];
        evaluation->counted =
            evaluation->agent->configured
                ? exporter_windows_agent(evaluation->windows, evaluation->agent->name)
                : NULL;
        rule(evaluation);
    }
    evaluation->agent = &others;
    evaluation->counted = exporter_windows_agent(evaluation->windows, others.name);
    rule(evaluation);
    evaluation->agent = NULL;
    if (evaluation->named > AGENTS_NAMED)
        report(evaluation, evaluation->worst, "%s: the same for %zu more agent%s, see below.",
               evaluation->alert, evaluation->named - AGENTS_NAMED,
               plural((double)(evaluation->named - AGENTS_NAMED)));
}

void exporter_rules_evaluate(struct exporter_status *status, const struct exporter_windows *windows)
{
    static const struct {
        const char *alert;
        void (*rule)(struct evaluation *evaluation);
        bool of_agent;
    } rules[] = {
#define RULE_OF_AGENT(alert, function)   {#alert, function, true},
#define RULE_OF_SIDECAR(alert, function) {#alert, function, false},
#include "exporter/status/rules.def"
#undef RULE_OF_AGENT
#undef RULE_OF_SIDECAR
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct evaluation evaluation = {
            .status = status, .windows = windows, .alert = rules[i].alert};
        if (rules[i].of_agent)
            evaluate_agents(&evaluation, rules[i].rule);
        else
            rules[i].rule(&evaluation);
    }
}
