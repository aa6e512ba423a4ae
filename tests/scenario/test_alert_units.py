# SPDX-License-Identifier: Apache-2.0
"""Runs promtool's unit tests: the files in tests/alerts, one for each alert, and a quiet day."""

import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import tempfile
import unittest

import yaml

TOP = pathlib.Path(os.environ.get("HANDOFF_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
ALERTS = TOP / "alerts"
TESTS = TOP / "tests/alerts"
FILES = sorted(TESTS.glob("*.test.yml"))
QUIET_DAY = "quiet day"


def promtool(path):
    """Runs one file; returns (exit status, what promtool said)."""
    result = subprocess.run(["promtool", "test", "rules", path.name], cwd=path.parent, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, check=False)
    return result.returncode, result.stdout


class Day:
    """Input series, minute by minute, of five agents that hand 10,000 handoffs on in a day.

    The jitter is that of a working day: a busy morning, a quiet night, minutes with a burst and
    minutes with nothing, latencies with a long tail, now and then a memory that is missing or a
    request that is wrong. Two handoffs fail, hours apart, and are parked until they are replayed half
    an hour later. The reviewer pulls. It has all that the alerts read, or an alert could not fire
    whatever the day was like. The random numbers come from a fixed seed: the day is the same in every run.
    """

    MINUTES = 24 * 60
    HANDOFFS = 10000
    AGENTS = ("researcher", "analyst", "code-generator", "test-writer", "reviewer")
    TIMEOUT = 15
    LATENCY_BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 12, 15, 30)
    # one in the busy hours, one at night, when 100 handoffs take hours
    FAILURES = {("analyst", 10 * 60 + 7), ("reviewer", 3 * 60 + 40)}
    PARKED_MINUTES = 30

    def __init__(self):
        self.random = random.Random(20)
        self.series = {}
        self.handoffs = 0
        spread = self.spread()
        for agent, minutes in spread.items():
            self.simulate(agent, minutes)
        self.simulate_sidecar([sum(minutes) for minutes in zip(*spread.values())])

    def spread(self):
        """{agent: handoffs in each minute}"""
        weights = [0.15 + max(0.0, 1 - abs(minute - 11 * 60) / 480) for minute in range(self.MINUTES)]
        spread = {agent: [0] * self.MINUTES for agent in self.AGENTS}
        for minute in self.random.choices(range(self.MINUTES), weights, k=self.HANDOFFS // len(self.AGENTS)):
            # a task passes all agents one after the other, a minute or so each
            for agent in self.AGENTS:
                spread[agent][minute % self.MINUTES] += 1
                minute += self.random.randint(0, 3)
        return spread

    def record(self, metric, value, **labels):
        labels = {"job": "handoff", "instance": "a:9780", **labels}
        name = metric + "{" + ", ".join(f'{key}="{value}"' for key, value in labels.items()) + "}"
        self.series.setdefault(name, []).append(value)

    def simulate(self, agent, minutes):
        buckets = dict.fromkeys([*map(str, self.LATENCY_BUCKETS), "+Inf"], 0)
        outcomes = {"acknowledged": 0, "exhausted": 0, "rejected": 0, "refused": 0, "expired": 0, "hop_limit": 0,
                    "circuit_open": 0}
        refs = {"included": 0, "missing": 0, "trimmed": 0}
        envelopes, utilization, depth, parked = 0, 0.0, 0, []
        hop = self.AGENTS.index(agent) + 1
        for minute, count in enumerate(minutes):
            failed = (agent, minute) in self.FAILURES
            if failed:
                outcomes["exhausted"] += 1
                parked.append(minute)
            for _ in range(count):
                seconds = self.random.lognormvariate(0.4, 0.65)  # half under 1.5 s, one in a hundred over 6.8 s
                for bound in buckets:
                    buckets[bound] += seconds <= float(bound.replace("+", ""))
            outcomes["acknowledged"] += count
            self.handoffs += count + failed
            for _ in range(count + failed):
                refs["missing"] += self.random.random() < 0.1
                refs["trimmed"] += self.random.random() < 0.1
                refs["included"] += self.random.randint(12, 20)
                utilization += self.random.uniform(0.5, 0.95)
                depth += hop
                envelopes += 1
            waiting = [since for since in parked if minute - since < self.PARKED_MINUTES]
            self.observe(agent, minute, buckets, outcomes, refs, (envelopes, utilization, depth), waiting, failed)

    def observe(self, agent, minute, buckets, outcomes, refs, sums, waiting, failed):
        envelopes, utilization, depth = sums
        target = {"target_agent": agent}
        for bound, count in buckets.items():
            self.record("handoff_duration_seconds_bucket", count, **target, pattern="direct", outcome="acknowledged", le=bound)
        for outcome, count in outcomes.items():
            self.record("handoff_handoffs_total", count, **target, pattern="direct", outcome=outcome)
        for outcome, count in refs.items():
            self.record("handoff_memory_refs_total", count, **target, outcome=outcome)
        self.record("handoff_context_completeness_ratio_count", envelopes, **target)
        self.record("handoff_token_utilization_ratio_count", envelopes, **target)
        self.record("handoff_token_utilization_ratio_sum", round(utilization, 3), **target)
        self.record("handoff_consecutive_failures", int(failed), **target)
        self.record("handoff_circuit_state", 0, **target, state="open")
        self.record("handoff_circuit_opened_total", 0, **target)
        self.record("handoff_parked_entries", len(waiting), **target)
        self.record("handoff_oldest_parked_seconds", 60 * (minute - waiting[0]) if waiting else 0, **target)
        in_flight = self.random.randint(0, 3)
        self.record("handoff_in_flight", in_flight, **target)
        self.record("handoff_oldest_in_flight_seconds", self.random.uniform(0, 9) if in_flight else 0, **target)
        self.record("handoff_consecutive_refusals", 0, **target)
        self.record("handoff_agent_timeout_seconds", self.TIMEOUT, **target)
        self.record("handoff_context_items_total", refs["included"], **target, kind="memory", outcome="present")
        self.record("handoff_context_items_total", refs["trimmed"], **target, kind="memory", outcome="omitted")
        self.record("handoff_memory_recovery_total", refs["missing"], **target, outcome="recovered")
        self.record("handoff_memory_recovery_total", 0, **target, outcome="missing")
        if agent == self.AGENTS[-1]:
            self.record("handoff_inbox_waiting", in_flight, **target)
            self.record("handoff_inbox_last_poll_timestamp_seconds", 60 * minute - self.random.randint(0, 20), **target)
        self.record("handoff_hop_depth_count", envelopes, pattern="direct", instance=agent + ":9780")
        self.record("handoff_hop_depth_sum", depth, pattern="direct", instance=agent + ":9780")

    def simulate_sidecar(self, minutes):
        """What it says of itself; it has run for a month and keeps what it finished for as long."""
        month = 30 * 86400
        answers = {"ok": 0, "invalid_request": 0, "exhausted": 0}
        for minute, count in enumerate(minutes):
            answers["ok"] += count
            answers["invalid_request"] += sum(self.random.random() < 0.002 for _ in range(count))
            answers["exhausted"] += sum(minute == when for _, when in self.FAILURES)
            for code, value in answers.items():
                self.record("handoff_api_requests_total", value, call="send_handoff", code=code)
            for metric, value in (
                    ("up", 1), ("process_start_time_seconds", -month), ("handoff_spine_up", 1),
                    ("handoff_exporter_series_dropped_total", 0), ("handoff_exporter_config_last_reload_successful", 1),
                    ("handoff_tokenizer_exact", 1), ("handoff_store_commit_failures_total", 0), ("handoff_store_displaced", 0),
                    ("handoff_store_disk_free_bytes", 4 * 10**10), ("handoff_store_disk_size_bytes", 10**11),
                    ("handoff_task_stalled_after_seconds", 3600), ("handoff_ping_pongs_total", 0),
                    ("handoff_oldest_open_task_seconds", self.random.randint(0, 900))):
                self.record(metric, value)
            self.record("handoff_exporter_resource_shortages_total", 0, resource="descriptors")
            self.record("handoff_channel_oldest_pending_seconds", self.random.randint(0, 30), channel="news",
                        receiver=self.AGENTS[0])
            self.record("handoff_retained_oldest_seconds", month, kind="chain")
            self.record("handoff_retention_removed_total", answers["ok"], kind="chain", reason="age")
            self.record("handoff_retention_removed_total", 0, kind="chain", reason="size")


def quiet_day(directory):
    """Writes the day as a test for promtool; returns its path."""
    day = Day()
    assert day.handoffs == Day.HANDOFFS + len(Day.FAILURES), day.handoffs
    header = yaml.safe_load(FILES[0].read_text())
    end = f"{Day.MINUTES - 1}m"
    fired = 'count by (alertname, severity) (count_over_time(ALERTS{alertstate="firing", alertname!="HandoffWatchdog"}[1d]))'
    document = {
        "rule_files": [str(ALERTS / "handoff-rules.yml"), str(ALERTS / "handoff-alerts.yml")],
        "evaluation_interval": "1m",
        "group_eval_order": header["group_eval_order"],
        "tests": [{
            "name": "10,000 healthy handoffs and two isolated failures fire nothing above info",
            "interval": "1m",
            "input_series": [{"series": name, "values": " ".join(map(str, values))} for name, values in day.series.items()],
            # two lines in the log, one for each failure, and nothing else all day
            "promql_expr_test": [{
                "expr": fired,
                "eval_time": end,
                "exp_samples": [{"labels": '{alertname="HandoffFailed", severity="info"}', "value": 2}],
            }],
        }],
    }
    path = pathlib.Path(directory, f"{QUIET_DAY.replace(' ', '_')}.yml")
    path.write_text(yaml.safe_dump(document, width=1000))
    return path


class AlertUnits(unittest.TestCase):
    """They run side by side, since most take a second or more."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            paths = {path.name.removesuffix(".test.yml"): path for path in FILES}
            paths[QUIET_DAY] = quiet_day(directory)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                cls.results = dict(zip(paths, pool.map(promtool, paths.values())))

    def test_a_quiet_day_fires_nothing_above_info(self):
        status, text = self.results[QUIET_DAY]
        self.assertEqual(status, 0, text)

    def test_a_quiet_day_has_all_that_the_alerts_read(self):
        read = {name for file in ("handoff-rules.yml", "handoff-alerts.yml")
                for group in yaml.safe_load((ALERTS / file).read_text())["groups"] for rule in group["rules"]
                for name in re.findall(r"(?<![:\w])(?:handoff|process)_[a-z_]+(?![:\w])", rule["expr"])}
        self.assertGreater(len(read), 30)
        had = {series.partition("{")[0] for series in Day().series}
        self.assertEqual({name for name in read if not any(series.startswith(name) for series in had)}, set())

    def test_all_files_evaluate_the_groups_in_the_same_order(self):
        groups = [group["name"] for name in ("handoff-rules.yml", "handoff-alerts.yml")
                  for group in yaml.safe_load((ALERTS / name).read_text())["groups"]]
        for path in FILES:
            self.assertEqual(yaml.safe_load(path.read_text())["group_eval_order"], groups, path.name)


def add_test(name):
    def test(self):
        status, text = self.results[name]
        self.assertEqual(status, 0, text)
    setattr(AlertUnits, f"test_{name}", test)


for file in FILES:
    add_test(file.name.removesuffix(".test.yml"))

if __name__ == "__main__":
    unittest.main()
