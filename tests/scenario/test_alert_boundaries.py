# SPDX-License-Identifier: Apache-2.0
"""Every threshold of the alerts from both sides, and how long each must last.

tests/alerts shows what alerts do over time, with exact texts. Here is a table of moments: what Prometheus
sees, held still, and whether that fires. Numbers are those of the contract, not of the configuration.
Alerts that read recorded series are given these; the recording rules are held by tests/alerts. promtool
of Prometheus 2.42 takes no native histograms, so the classic ones cover both.

What fires must do so when its time has come and not a minute before; what does not fire never does.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import yaml

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
RULES = TOP / "alerts/handoff-alerts.yml"

QUIET = 30  # minutes after which what does not fire has not fired

# `series`: {series: value, or values as promtool writes them}; `after`: minutes until it fires;
# `still`: a minute when it does so all the same, or None
Case = collections.namedtuple("Case", "what series fires after still labels")


def case(what, series, fires, after=0, still=None, **labels):
    return Case(what, series, fires, after, still, labels)


def of(name, job="handoff", instance="a:9780", **labels):
    """A series as it is scraped."""
    labels = {"job": job, "instance": instance, **labels}
    return name + "{" + ", ".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def recorded(name, **labels):
    labels = {"job": "handoff", **labels}
    return name + "{" + ", ".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def target(name, agent="analyst", **labels):
    return of(name, target_agent=agent, **labels)


def handoffs(outcome, **labels):
    return target("handoff_handoffs_total", pattern="direct", outcome=outcome, **labels)


def with_(first, **second):
    return {**first, **second}


def after_a_start(series, seconds=0):
    """What was counted when the process was scraped for the first time; it started so long after the epoch."""
    return {**series, of("process_start_time_seconds"): seconds}


# ---- delivery -------------------------------------------------------------------------------------

def delivery():
    exhausted = handoffs("exhausted")
    yield "HandoffFailed", [
        case("one failure fires", {exhausted: "0 1x5"}, True, 1),
        case("one failure after a restart fires", {exhausted: "7 0 1x5"}, True, 2),
        case("failures that were there before do not", {exhausted: 7}, False),
        case("failures before the first scrape fire", after_a_start({exhausted: 7}), True),
        case("those of a process that runs for longer do not", after_a_start({exhausted: 7}, -300), False),
        case("those of another process do not", {exhausted: 7, of("process_start_time_seconds", instance="b:9780"): 0}, False),
        case("those of another job do not", {handoffs("exhausted", job="other"): "0+1x40"}, False)]

    failures = target("handoff_consecutive_failures")
    elsewhere = target("handoff_consecutive_failures", instance="b:9780")
    yield "HandoffConsecutiveFailures", [
        case("two in a row do not", {failures: 2}, False),
        case("three in a row do", {failures: 3}, True),
        case("three at one sidecar do, whatever another sees", {failures: 3, elsewhere: 0}, True),
        case("two at each of two do not", {failures: 2, elsewhere: 2}, False),
        case("those of another job do not",
             {target("handoff_consecutive_failures", job="other"): 9}, False)]

    is_open = target("handoff_circuit_state", state="open")
    opened = target("handoff_circuit_opened_total")
    yield "HandoffCircuitOpen", [
        case("an open circuit does", {is_open: 1}, True),
        case("one that is open at one of two sidecars does",
             {is_open: 1, target("handoff_circuit_state", instance="b:9780", state="open"): 0}, True),
        case("a half-open one does not",
             {is_open: 0, target("handoff_circuit_state", state="half_open"): 1}, False),
        case("one that opened unseen does", {is_open: 0, opened: "3 4x5"}, True, 1),
        case("one that opened unseen after a restart does", {is_open: 0, opened: "3 0 1x5"}, True, 2),
        case("one that opened yesterday does not", {is_open: 0, opened: 4}, False),
        case("one that opened before the first scrape does", after_a_start({is_open: 0, opened: 1}), True),
        case("those of another job do not",
             {target("handoff_circuit_state", job="other", state="open"): 1,
              target("handoff_circuit_opened_total", job="other"): "0+1x40"}, False)]

    parked = target("handoff_oldest_parked_seconds")
    yield "HandoffParkedWaiting", [
        case("an hour does not", {parked: 3600}, False),
        case("more than an hour does, for five minutes", {parked: 3601}, True, 5),
        case("at one of two sidecars does",
             {parked: 3601, target("handoff_oldest_parked_seconds", instance="b:9780"): 0}, True, 5),
        case("those of another job do not",
             {target("handoff_oldest_parked_seconds", job="other"): 9999}, False)]

    refused = handoffs("refused")
    yield "HandoffRefused", [
        case("one refusal does", {refused: "0 1x5"}, True, 1),
        case("one before the first scrape does", after_a_start({refused: 1}), True),
        case("those that were there before do not", {refused: 7}, False),
        case("a failure is not one", {exhausted: "0+1x40"}, False),
        case("those of another job do not", {handoffs("refused", job="other"): "0+1x40"}, False)]

    refusals = target("handoff_consecutive_refusals")
    yield "HandoffRefusedRepeatedly", [
        case("two in a row do not", {refusals: 2}, False),
        case("three in a row do", {refusals: 3}, True),
        case("two at each of two sidecars do not",
             {refusals: 2, target("handoff_consecutive_refusals", instance="b:9780"): 2}, False),
        case("those of another job do not",
             {target("handoff_consecutive_refusals", job="other"): 9}, False)]

    def among(refusals, others, **labels):
        return {handoffs("refused", **labels): f"0x15 {refusals}x40",
                handoffs("acknowledged", **labels): f"0x15 {others}x40"}
    yield "HandoffMostlyRefused", [
        case("half of them are not most", among(5, 5), False, 16),
        case("six of eleven are", among(6, 5), True, 16),
        case("four of four are too few", among(4, 0), False, 16),
        case("five of five are enough", among(5, 0), True, 16),
        case("five of nine before the first scrape are",
             after_a_start({handoffs("refused"): 5, handoffs("acknowledged"): 4}), True),
        case("five of ten before the first scrape are not",
             after_a_start({handoffs("refused"): 5, handoffs("acknowledged"): 5}), False),
        case("three of five are", among(3, 2), True, 16),
        case("those to another agent do not count", with_(
            among(4, 0), **{handoffs("acknowledged", agent="coder"): "0x15 9x40"}), False, 16),
        case("those of another job do not", among(9, 0, job="other"), False, 16)]

    yield "HandoffExpired", [
        case("one does", {handoffs("expired"): "0 1x5"}, True, 1),
        case("one before the first scrape does", after_a_start({handoffs("expired"): 1}), True),
        case("those that were there before do not", {handoffs("expired"): 7}, False),
        case("those of another job do not", {handoffs("expired", job="other"): "0+1x40"}, False)]

    def inbox(polled, waiting=1, since="0+60x40", **labels):
        return {target("handoff_inbox_last_poll_timestamp_seconds", **labels): polled,
                target("handoff_inbox_waiting", **labels): waiting,
                target("handoff_oldest_in_flight_seconds", **labels): since}
    yield "HandoffInboxUnattended", [
        case("five minutes without a poll are a ticket, from the sixth on", inbox(0), True, 6, severity="warning"),
        case("fifteen page, from the sixteenth on", inbox(0), True, 16, severity="critical"),
        case("a poll in each five minutes does not", inbox("0x5 300x5 600x5 900x5 1200x5 1500x5 1800x20"), False, 9),
        case("an inbox without work does not", inbox(0, waiting=0), False, 9),
        case("work that an agent has taken does not", inbox(0, waiting=0, since=9999), False, 9),
        case("work that came just now does not", inbox(0, since=300), False, 9),
        case("one of two sidecars that is not polled does", with_(
            inbox(0), **inbox("0+60x40", instance="b:9780")), True, 6, severity="warning"),
        case("that of another job does not", inbox(0, job="other"), False, 9)]


    def feed(age, **labels):
        labels = {"channel": "news", "receiver": "analyst", **labels}
        return {of("handoff_channel_oldest_pending_seconds", **labels): age, of("handoff_channel_pending", **labels): 7}
    yield "HandoffChannelBacklog", [
        case("a quarter of an hour does not", feed(900), False),
        case("more than that does", feed(901), True),
        case("a receiver that is not behind does not", feed(0), False),
        case("one of two sidecars at which it is behind does", with_(feed(901), **feed(0, instance="b:9780")), True),
        case("that of another job does not", feed(9999, job="other"), False)]


def latencies(in_an_hour, share_below_10, timeout=15, job="handoff"):
    """What an hour of handoffs left, as it is recorded; what is not below 10 s is below 15 s, evenly."""
    def heard(name, value, **labels):
        return {recorded(name, job=job, target_agent="analyst", **labels): value}

    def percentile(share):
        if share <= share_below_10:
            return 10 * share / share_below_10
        return 10 + 5 * (share - share_below_10) / (1 - share_below_10)
    series = {target("handoff_agent_timeout_seconds", job=job): timeout}
    for percent in 50, 90, 99:
        series |= heard(f"job_target_agent:handoff_duration_seconds:p{percent}_1h", percentile(percent / 100))
    return series | heard("job_target_agent:handoff_handoffs_acknowledged:increase1h", in_an_hour)


def latency():
    # p99 = 10 s + 5 s * (0.99 - below) / (1 - below)
    below_12, above_12 = 0.9843, 0.9823  # 11.8 s and 12.2 s
    yield "HandoffLatencyHigh", [
        case("a p99 under 12 s does not", latencies(1000, below_12), False, 10),
        case("a p99 over 12 s does, for ten minutes", latencies(1000, above_12), True, 10),
        case("199 in an hour have no 99th percentile", latencies(199, above_12), False, 10),
        case("200 have one", latencies(200, above_12), True, 10),
        # p90 = 10 s + 5 s * (0.9 - below) / (1 - below)
        case("a p90 under 12 s does not", latencies(199, 0.843), False, 10),
        case("a p90 over 12 s does", latencies(199, 0.823), True, 10),
        case("29 have no 90th percentile", latencies(29, 0.823), False, 10),
        case("30 have one", latencies(30, 0.823), True, 10),
        # p50 = 10 s + 5 s * (0.5 - below) / (1 - below)
        case("a median under 12 s does not", latencies(29, 0.2), False, 10),
        case("a median over 12 s does", latencies(29, 0.1), True, 10),
        case("four have no median", latencies(4, 0), False, 10),
        case("five have one", latencies(5, 0), True, 10),
        case("what is slow for 15 s is not for a minute", latencies(1000, 0, timeout=60), False, 10),
        case("what is quick for 15 s may be slow for less", latencies(1000, 1, timeout=12), True, 10),
        case("those of another job do not", latencies(1000, 0, job="other"), False, 10)]


# ---- failure rate and error budget ----------------------------------------------------------------

def of_target(kind, window, value, agent="analyst", **labels):
    return {recorded(f"job_target_agent:handoff_handoffs_{kind}:increase{window}", target_agent=agent, **labels): value}


def rate(long, short, settled=1000, failed=30, over=None, agent="analyst", closed=1):
    """The failures of both windows; `over`: their shares."""
    failures = [settled * share for share in over] if over else [failed, failed]
    return (of_target("failed", long, failures[0], agent) | of_target("settled", long, settled, agent)
            | of_target("failed", short, failures[1], agent) | of_target("settled", short, settled, agent)
            | {target("handoff_circuit_state", agent, state="closed"): closed})


def thresholds(bound, windows, minutes, **labels):
    more, less = bound * 1.02, bound * 0.98
    return [
        case(f"more than {bound:.2%} does, for {minutes} minutes",
             rate(*windows, over=(more, more)), True, minutes, **labels),
        case(f"{bound:.2%} in the long window alone does not",
             rate(*windows, over=(more, less)), False, minutes, **labels),
        case(f"{bound:.2%} in the short window alone does not",
             rate(*windows, over=(less, more)), False, minutes, **labels),
        case("99 handoffs are too few", rate(*windows, settled=99, failed=50), False, minutes, **labels),
        case("100 are enough", rate(*windows, settled=100, failed=50), True, minutes, **labels),
        case("a target whose circuit is open is left out",
             rate(*windows, failed=500, closed=0), False, minutes, **labels),
        case("others still count", with_(rate(*windows, over=(more, more)),
                                         **rate(*windows, failed=500, agent="coder", closed=0)), True, minutes, **labels),
        case("and are not made worse by it", with_(rate(*windows, over=(less, less)),
                                                   **rate(*windows, failed=500, agent="coder", closed=0)), False, minutes, **labels),
        # among a hundred handoffs, of which 3 % are the first that count
        *([case("two failures are too few", rate(*windows, settled=100, failed=2), False, minutes, **labels),
           case("three are enough", rate(*windows, settled=100, failed=3), True, minutes, **labels)] if bound < 0.02 else [])]


def failure_rate():
    yield "HandoffFailureRateElevated", thresholds(0.005, ("6h", "1h"), 15)
    yield "HandoffFailureRateCritical", thresholds(0.02, ("1h", "15m"), 5)
    # burn rates of the workbook, for 99.5 %
    yield "HandoffErrorBudgetBurn", [
        *thresholds(0.072, ("1h", "5m"), 2, long="1h", severity="critical"),
        *thresholds(0.03, ("6h", "30m"), 15, long="6h", severity="critical"),
        *thresholds(0.015, ("1d", "2h"), 60, long="1d", severity="warning"),
        *thresholds(0.005, ("3d", "6h"), 180, long="3d", severity="warning")]


# ---- context --------------------------------------------------------------------------------------

def complete(window, share, envelopes):
    return {recorded(f"job:handoff_memory_refs_included_per_requested:ratio_increase{window}"): share,
            recorded(f"job:handoff_envelopes:increase{window}"): envelopes}


def agent_is(**values):
    names = {"mean": "handoff_token_utilization_ratio:mean", "omitted": "handoff_context_items_omitted:increase",
             "items": "handoff_context_items:increase",
             "count": "handoff_token_utilization_ratio_count:increase"}
    return {recorded(f"job_target_agent:{names[key[:-2]]}{key[-2:]}", target_agent="analyst"): value
            for key, value in values.items()}


def recovery(outcome, **labels):
    return target("handoff_memory_recovery_total", outcome=outcome, **labels)


def context():
    yield "HandoffContextUnrecovered", [
        case("one does", {recovery("missing"): "0 1x5"}, True, 1),
        case("those that were there before do not", {recovery("missing"): 7}, False),
        case("what was recovered does not", {recovery("recovered"): "0+1x40"}, False),
        case("stale copies do not", {recovery("stale"): "0+1x40"}, False),
        case("those of another job do not", {recovery("missing", job="other"): "0+1x40"}, False)]
    yield "HandoffCompletenessLow", [
        case("95 % do not", complete("1h", 0.95, 100), False, 10),
        case("less do, for ten minutes", complete("1h", 0.949, 100), True, 10),
        case("nine envelopes are too few", complete("1h", 0.5, 9), False, 10),
        case("ten are enough", complete("1h", 0.5, 10), True, 10)]
    yield "HandoffCompletenessCritical", [
        case("80 % do not", complete("15m", 0.8, 100), False, 2),
        case("less do, for two minutes", complete("15m", 0.799, 100), True, 2),
        case("four envelopes are too few", complete("15m", 0.5, 4), False, 2),
        case("five are enough", complete("15m", 0.5, 5), True, 2)]
    yield "HandoffBudgetUnderused", [
        case("a fifth does not", agent_is(mean1d=0.2, count1d=500), False, 60),
        case("less does, for an hour", agent_is(mean1d=0.199, count1d=500), True, 60),
        case("49 envelopes are too few", agent_is(mean1d=0.1, count1d=49), False, 60),
        case("50 are enough", agent_is(mean1d=0.1, count1d=50), True, 60)]
    full = {"mean1h": 0.95, "omitted1h": 10, "items1h": 100, "count1h": 50}
    yield "HandoffContextTrimmed", [
        case("10 % of a full budget do, for half an hour", agent_is(**full), True, 30),
        case("5 % do not", agent_is(**{**full, "omitted1h": 5}), False, 30),
        case("5.1 % do", agent_is(**{**full, "omitted1h": 5.1}), True, 30),
        case("a budget at 90 % does not", agent_is(**{**full, "mean1h": 0.9}), False, 30),
        case("at 90.1 % it does", agent_is(**{**full, "mean1h": 0.901}), True, 30),
        case("19 envelopes are too few", agent_is(**{**full, "count1h": 19}), False, 30),
        case("20 are enough", agent_is(**{**full, "count1h": 20}), True, 30)]

    up, elsewhere = of("handoff_spine_up"), of("handoff_spine_up", instance="b:9780")
    yield "HandoffSpineDown", [
        case("a spine that is down does, at once", {up: "1 0x5"}, True, 1),
        case("one that is down for one of two sidecars does", {up: 0, elsewhere: 1}, True),
        case("one that is up does not", {up: 1}, False, 9),
        case("one that is up for more than half of the time does not", {up: 0.52}, False),
        case("for less than half does", {up: 0.48}, True),
        case("one that answers now and then does", {up: "0 0 0 0 1 " * 7}, True, still=24),
        case("that of another job does not", {of("handoff_spine_up", job="other"): 0}, False, 9)]


# ---- hops and the sidecar -------------------------------------------------------------------------

DAY = 24 * 60


def depth(now, past, handoffs_now=100, handoffs_past=1000):
    return {recorded(f"job_pattern:handoff_hop_depth{name}", pattern="direct"): value
            for name, value in {":mean1h": now, ":mean7d": past, "_count:increase1h": handoffs_now,
                                "_count:increase7d": handoffs_past}.items()}


def hops():
    yield "HandoffHopDepthRising", [
        case("half as deep again does, for a quarter of an hour", depth(4.6, 3), True, DAY + 15),
        case("less than half as deep again does not", depth(4.4, 3), False, DAY + 15),
        case("less than one hop more does not", depth(2.4, 1.5), False, DAY + 15),
        case("one hop more does", depth(2.5, 1.5), True, DAY + 15),
        case("19 handoffs are too few", depth(6, 3, 19), False, DAY + 15),
        case("20 are enough", depth(6, 3, 20), True, DAY + 15),
        case("a past of 99 is none", depth(6, 3, 20, 99), False, DAY + 15),
        case("a past of 100 is one", depth(6, 3, 20, 100), True, DAY + 15)]


def hop_limit():
    limit = handoffs("hop_limit")
    yield "HandoffHopLimitReached", [
        case("one does", {limit: "0 1x20"}, True, 1),
        case("one before the first scrape does", after_a_start({limit: 1}), True),
        case("one after a restart does", {limit: "5 0 1x20"}, True, 2),
        case("one of another outcome does not", {handoffs("exhausted"): "0+1x40"}, False, 20),
        case("one of another job does not", {handoffs("hop_limit", job="other"): "0+1x40"}, False, 20)]


def ping_pong():
    count = of("handoff_ping_pongs_total")
    yield "HandoffPingPong", [
        case("one does", {count: "0 1x20"}, True, 1),
        case("one before the first scrape does", after_a_start({count: 1}), True),
        case("one after a restart does", {count: "5 0 1x20"}, True, 2),
        case("what was counted long ago does not", {count: "5x40"}, False, 20),
        case("a cycle does not", {of("handoff_route_cycles_total"): "0+1x40"}, False, 20),
        case("one of another job does not", {of("handoff_ping_pongs_total", job="other"): "0+1x40"}, False, 20)]


def task_stalled():
    oldest, after = of("handoff_oldest_open_task_seconds"), of("handoff_task_stalled_after_seconds")
    elsewhere = of("handoff_task_stalled_after_seconds", instance="b:9780")
    yield "HandoffTaskStalled", [
        case("one that waits as long as it may does not", {oldest: 600, after: 600}, False),
        case("one that waits longer does", {oldest: 600.5, after: 600}, True),
        case("none does where tasks are not watched", {oldest: 0, after: 0}, False),
        case("each sidecar has its own threshold", {oldest: 600, after: 900, elsewhere: 60}, False),
        case("one of another job does not", {of("handoff_oldest_open_task_seconds", job="other"): 900,
                                             of("handoff_task_stalled_after_seconds", job="other"): 600},
             False)]


def sidecar():
    a, b = of("up"), of("up", instance="b:9780")
    yield "HandoffExporterDown", [
        case("none does, for three minutes", {a: 0, b: 0}, True, 3),
        case("one of two does not", {a: 0, b: 1}, False, 9),
        case("those of another job do not matter", {of("up", job="other"): 0, a: 1}, False),
        case("none that Prometheus knows of does", {of("up", job="other"): 1}, True, 3)]
    yield "HandoffExporterInstanceUnreachable", [
        case("one of two does, for ten minutes", {a: 0, b: 1}, True, 10),
        case("all that are there do not", {a: 1, b: 1}, False, 20),
        case("one of another job does not", {of("up", job="other"): 0, a: 1}, False, 20)]
    loaded = "handoff_exporter_config_last_reload_successful"
    yield "HandoffConfigReloadFailed", [
        case("a refused file does, for five minutes", {of(loaded): 0}, True, 5),
        case("at one of two sidecars does", {of(loaded): 0, of(loaded, instance="b:9780"): 1}, True, 5),
        case("a good one does not", {of(loaded): 1}, False, 9),
        case("that of another job does not", {of(loaded, job="other"): 0}, False, 9)]
    dropped = "handoff_exporter_series_dropped_total"
    yield "HandoffSeriesDropped", [
        case("one does", {of(dropped): "0 1x9"}, True, 1),
        case("one after a restart does", {of(dropped): "5 0 1x9"}, True, 2),
        case("one of last week does not", {of(dropped): 3}, False, 9),
        case("one before the first scrape does", after_a_start({of(dropped): 3}), True),
        case("one of a process that started more than an hour ago does not", after_a_start({of(dropped): 3}, -3600), False, 9),
        case("one of another job does not", {of(dropped, job="other"): "0+1x40"}, False, 9)]
    age = "handoff_retained_oldest_seconds"
    removed = of("handoff_retention_removed_total", kind="chain", reason="size")
    by_age = of("handoff_retention_removed_total", kind="chain", reason="age")
    body = of("handoff_retention_removed_total", kind="body", reason="size")
    yield "HandoffRetentionCutShort", [
        case("handoffs younger than a day go for size",
             {of(age, kind="chain"): 86399, removed: "0+1x60"}, True, 16),
        case("those of a day do not", {of(age, kind="chain"): 86400, removed: "0+1x60"}, False, 16),
        case("those that are past their age do not",
             {of(age, kind="chain"): 3600, removed: 5, by_age: "0+1x60"}, False, 16),
        case("those that went before the first scrape do, for a quarter of an hour",
             after_a_start({of(age, kind="chain"): 86399, removed: 9}), True, 15),
        case("envelopes alone do not",
             {of(age, kind="chain"): 3600, of(age, kind="body"): 60, removed: 0, body: "0+1x60"},
             False, 16),
        case("those of another job do not",
             {of(age, kind="chain", job="other"): 60,
              of("handoff_retention_removed_total", kind="chain", reason="size", job="other"):
              "0+1x60"}, False, 16)]
    displaced, failed = of("handoff_store_displaced"), of("handoff_store_commit_failures_total")
    free, size = of("handoff_store_disk_free_bytes"), of("handoff_store_disk_size_bytes")
    yield "HandoffStoreFailing", [
        case("a store that is not where it was does, at once", {displaced: 1}, True, cause="displaced"),
        case("one that is does not", {displaced: 0}, False, 9),
        case("that of another job does not", {of("handoff_store_displaced", job="other"): 1}, False, 9),
        case("one failed commit does", {failed: "0 1x9"}, True, 1, cause="commits"),
        case("one before the first scrape does", after_a_start({failed: 1}), True, cause="commits"),
        case("one of last week does not", {failed: 3}, False, 9),
        case("a disk with 4.9 % and less than 1 GB does, for five minutes", {free: 490e6, size: 10e9}, True, 5, cause="disk"),
        case("5 % do not", {free: 500e6, size: 10e9}, False, 9),
        case("4 % of a large disk do not", {free: 1.0e9, size: 25e9}, False, 9),
        case("one whose size is not known yet does not", {free: 0, size: 0}, False, 9)]
    short = of("handoff_exporter_resource_shortages_total", resource="descriptors")
    yield "HandoffExporterOutOfResources", [
        case("three shortages do", {short: "0 3x30"}, True, 1, resource="descriptors"),
        case("two do not", {short: "0 2x30"}, False, 9),
        case("three before the first scrape do", after_a_start({short: 3}), True, resource="descriptors"),
        case("two before the first scrape do not", after_a_start({short: 2}), False, 9),
        case("two of one kind and two of another do not",
             {short: "0 2x30", of("handoff_exporter_resource_shortages_total", resource="ports"): "0 2x30"}, False, 9),
        case("a disk without room has an alert of its own",
             {of("handoff_exporter_resource_shortages_total", resource="disk"): "0+9x40"}, False, 9),
        case("those of another job do not",
             {of("handoff_exporter_resource_shortages_total", job="other", resource="ports"): "0+9x40"}, False, 9)]
    exact = of("handoff_tokenizer_exact")
    yield "HandoffTokensEstimated", [
        case("a sidecar without a vocabulary does, for five minutes", {exact: 0}, True, 5),
        case("one that counts does not", {exact: 1}, False, 5),
        case("that of another job does not", {of("handoff_tokenizer_exact", job="other"): 0}, False, 5)]

    def answers(good, bad, code="budget_too_small", call="send_handoff", job="handoff"):
        """Answers of the minute before the fifteenth."""
        one = {"call": call, "job": job}
        return {of("handoff_api_requests_total", code="ok", **one): f"0x14 {good}x40",
                of("handoff_api_requests_total", code=code, **one): f"0x14 {bad}x40"}

    def first_answers(values):
        values = f"{values}x40" if isinstance(values, str) else values
        return {of("handoff_api_requests_total", code="forbidden", call="send_handoff"): values}
    yield "HandoffRequestsFailing", [
        case("5 % do not", answers(95, 5), False, 17),
        case("6 % do, for two minutes", answers(94, 6), True, 17, code="budget_too_small"),
        case("18 requests are too few", answers(0, 18), False, 17),
        case("20 are enough", answers(0, 20), True, 17),
        case("20 before the first scrape are, for two minutes", after_a_start(first_answers(20)), True, 2),
        case("19 before the first scrape are too few", after_a_start(first_answers(19)), False),
        case("20 of a series that begins with them are", after_a_start(first_answers("_x19 20"), -86400), True, 21),
        case("19 of a series that begins with them are too few", after_a_start(first_answers("_x19 19"), -86400), False),
        case("those of a sidecar that was not scraped before do not", first_answers("_x19 20"), False),
        case("5 % each of two codes do not", with_(answers(90, 5), **answers(90, 5, code="invalid_request")), False, 17),
        case("other calls do not hide it", with_(answers(0, 20), **answers(9999, 0, call="pull_handoff")), True, 17),
        case("how handoffs end has alerts of its own", answers(0, 99, code="exhausted"), False, 17),
        case("the store's errors count", answers(0, 99, code="store_full"), True, 17),
        case("those of another job do not", answers(0, 99, job="other"), False, 17)]
    yield "HandoffWatchdog", [case("always", {a: 1}, True)]


TABLES = [delivery, latency, failure_rate, context, hops, hop_limit, ping_pong, task_stalled, sidecar]
# Minutes between two evaluations, where a day of minutes would take long.
STEPS = {hops: 15}


def firing(alert, labels):
    matchers = "".join(f', {key}="{value}"' for key, value in labels.items())
    return f'count(ALERTS{{alertname="{alert}", alertstate="firing"{matchers}}}) or vector(0)'


def as_test(alert, one, step):
    """A case as promtool reads it."""
    def values(value):
        return value if isinstance(value, str) else f"{value}x{one.after // step + QUIET}"
    moments = [(one.after, int(one.fires))] + ([(one.after - step, 0)] if one.after else [])
    if one.still:
        moments.append((one.still, int(one.fires)))
    if not one.fires:
        moments += [(minute, 0) for minute in range(0, QUIET + 1, 5)]
    return {"name": f"{alert}: {one.what}", "interval": f"{step}m",
            "input_series": [{"series": name, "values": values(value)} for name, value in one.series.items()],
            "promql_expr_test": [{"expr": firing(alert, one.labels), "eval_time": f"{minute}m",
                                  "exp_samples": [{"labels": "{}", "value": value}]}
                                 for minute, value in moments]}


def promtool(table):
    """(exit status, what promtool says) of a table."""
    step = STEPS.get(table, 1)
    tests = [as_test(alert, one, step) for alert, cases in table() for one in cases]
    document = {"rule_files": [str(RULES)], "evaluation_interval": f"{step}m", "tests": tests}
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump(document, file)  # JSON is YAML
        file.flush()
        done = subprocess.run(["promtool", "test", "rules", file.name], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout + done.stderr


class Boundaries(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            cls.results = dict(zip(TABLES, pool.map(promtool, TABLES)))

    def test_every_alert_fires_when_it_should_and_only_then(self):
        for table, (status, text) in self.results.items():
            with self.subTest(table.__name__):
                self.assertEqual(status, 0, text)

    def test_every_alert_is_in_the_table(self):
        groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
        self.assertEqual({rule["alert"] for group in groups for rule in group["rules"]},
                         {alert for table in TABLES for alert, _ in table()})


if __name__ == "__main__":
    unittest.main()
