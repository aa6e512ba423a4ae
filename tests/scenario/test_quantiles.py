# SPDX-License-Identifier: Apache-2.0
"""Quantiles of the latency, through the real Prometheus, beside the latencies that were really imposed.

A receiver takes a known time over each handoff. It notes how long it had it; the sender notes how long
it waited. What the sidecar measures is between the two, handoff by handoff, so every quantile does.
histogram_quantile over the classic and over the native histogram has to come out in the bucket where
that quantile is; how far it is off is printed.
"""

import bisect
import concurrent.futures
import math
import os
import pathlib
import random
import threading
import time
import unittest

import yaml

from harness import Prometheus, Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import ack

RULES = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "alerts"
ALERTS, RECORDINGS = RULES / "handoff-alerts.yml", RULES / "handoff-rules.yml"

# No quantile below falls between two of them.
HANDOFFS = 397
SENDERS = 8  # few, so that this program is not what is measured
QUANTILES = (0.5, 0.95, 0.99)
BASE = 2 ** (2 ** -3)  # width of a native bucket of schema 3
FEATURES = ("native-histograms",)


class Latencies:
    """A receiver's step that takes a drawn time, and notes the one it really took."""

    def __init__(self):
        self.lock = threading.Lock()
        dice = random.Random(7)
        self.planned = [min(2.0, dice.lognormvariate(math.log(0.08), 0.9)) for _ in range(HANDOFFS)]
        self.imposed = {}

    def __call__(self, request):
        began = time.monotonic()
        with self.lock:
            seconds = self.planned.pop()
        time.sleep(seconds)  # this is what is measured, not a wait for something
        with self.lock:
            self.imposed[request.id] = time.monotonic() - began
        ack(request)


def rules_of(file):
    groups = yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def quantile(values, q):
    return sorted(values)[math.ceil(q * len(values)) - 1]


def classic_bucket(value, bounds):
    at = bisect.bisect_left(bounds, value)
    return ([0.0] + bounds)[at], bounds[at]


def native_bucket(value):
    index = math.ceil(math.log2(value) * 8)
    return 2 ** ((index - 1) / 8), 2 ** (index / 8)


class Quantiles(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.latencies = Latencies()
        receiver = cls.enterClassContext(Receiver(cls.latencies))
        daemon = cls.enterClassContext(daemon_with({"coder": {"url": receiver.url, "retries": 0}}))
        cls.classic = cls.enterClassContext(Prometheus({"handoff": daemon.web.address}))
        cls.native = cls.enterClassContext(Prometheus({"handoff": daemon.web.address}, FEATURES))
        for prometheus in cls.classic, cls.native:
            prometheus.scraped(1)  # everything was seen at 0
        cls.waited = cls.send_all(Caller(daemon))
        done = time.time()
        for prometheus in cls.classic, cls.native:
            prometheus.scraped(1, since=done)

    @classmethod
    def send_all(cls, caller):
        """{handoff: seconds that its sender waited}"""
        def send(number):
            began = time.monotonic()
            reply = caller.send("coder", task_id=f"task-{number}")
            assert reply.status == 200, reply
            return reply.json()["id"], time.monotonic() - began
        with concurrent.futures.ThreadPoolExecutor(SENDERS) as pool:
            return dict(pool.map(send, range(HANDOFFS)))

    def test_what_was_imposed_is_what_is_compared_with(self):
        self.assertEqual(set(self.latencies.imposed), set(self.waited))
        for handoff, imposed in self.latencies.imposed.items():
            self.assertLess(imposed, self.waited[handoff])
        selector = '{target_agent="coder",outcome="acknowledged",pattern="direct"}'
        measured = self.classic.value(f"handoff_duration_seconds_sum{selector}")
        self.assertEqual(self.classic.value(f"handoff_duration_seconds_count{selector}"), HANDOFFS)
        self.assertGreater(measured, sum(self.latencies.imposed.values()))
        self.assertLess(measured, sum(self.waited.values()))
        histogram = self.native.value(f"handoff_duration_seconds{selector}")
        self.assertEqual((histogram.count, histogram.sum), (HANDOFFS, measured))

    def check(self, name, bucket, ask):
        print(f"\n  {name:8} imposed    waited   answered   error   bucket")
        for q in QUANTILES:
            imposed = quantile(self.latencies.imposed.values(), q)
            waited = quantile(self.waited.values(), q)
            answered = ask(q)
            lowest, highest = bucket(imposed)[0], bucket(waited)[1]
            print(f"  p{100 * q:<5g} {imposed:9.4f} {waited:9.4f}  {answered:9.4f} {answered / imposed - 1:+7.1%}"
                  f"   {lowest:.4f} to {highest:.4f}")
            self.assertGreaterEqual(answered, lowest * (1 - 1e-9))
            self.assertLessEqual(answered, highest * (1 + 1e-9))

    def test_quantiles_of_the_classic_histogram(self):
        rates = 'sum by (le) (rate(handoff_duration_seconds_bucket{outcome="acknowledged"}[5m]))'
        bounds = sorted(float(le) for le in self.classic.values(
            'sum by (le) (handoff_duration_seconds_bucket{target_agent="coder"})', "le"))
        self.check("classic", lambda value: classic_bucket(value, bounds),
                   lambda q: self.classic.value(f"histogram_quantile({q}, {rates})"))

    def test_quantiles_of_the_native_histogram(self):
        rates = 'sum(rate(handoff_duration_seconds{outcome="acknowledged"}[5m]))'
        self.check("native", native_bucket,
                   lambda q: self.native.value(f"histogram_quantile({q}, {rates})"))

    def test_the_alert_on_latency_reads_either_form(self):
        alert = next(rule for rule in rules_of(ALERTS) if rule["alert"] == "HandoffLatencyHigh")
        percentile = alert["expr"].split(" > 0.8")[0].removeprefix("(")  # that of agents with many handoffs
        recordings = {rule["record"]: rule["expr"] for rule in rules_of(RECORDINGS)}
        while recorded := next((name for name in recordings if name in percentile), None):  # they may be nested
            percentile = percentile.replace(recorded, f"({recordings[recorded]})")
        for prometheus in self.classic, self.native:
            # agents without a handoff have a percentile of NaN, which is above nothing
            found, = [one for one in prometheus.query(percentile) if not math.isnan(one.value)]
            self.assertEqual(found.labels, {"job": "handoff", "target_agent": "coder"})
            self.assertGreaterEqual(found.value, quantile(self.latencies.imposed.values(), 0.95))
            self.assertLessEqual(found.value, 2.5)


if __name__ == "__main__":
    unittest.main()
