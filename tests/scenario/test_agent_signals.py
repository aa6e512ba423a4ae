# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""What a scrape says of each agent beside its circuit: refusals in a row, its timeout, and who reads its inbox."""

import time
import unittest

from prometheus_client.parser import text_string_to_metric_families

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.event_stream import EventStream
from harness.receiver import ack, nack, status
from harness.wait import eventually

POLLED, WAITING = "handoff_inbox_last_poll_timestamp_seconds", "handoff_inbox_waiting"


class Signals(unittest.TestCase):
    def setUp(self):
        self.coder = self.enterContext(Receiver(ack))
        self.began = time.time()
        self.daemon = self.enterContext(daemon_with({
            "coder": {"url": self.coder.url, "retries": 0, "timeout": "2500ms"},
            "puller": {"ack_timeout": "7m"}}))
        self.caller = Caller(self.daemon)

    def gauge(self, name):
        """{agent: value}"""
        return {sample.labels["target_agent"]: sample.value
                for family in text_string_to_metric_families(self.daemon.web.get("/metrics").text)
                for sample in family.samples if sample.name == name}

    def refusals(self):
        return self.gauge("handoff_consecutive_refusals")["coder"]

    def test_refusals_in_a_row(self):
        self.coder.do(nack("no", retry=False), status(422), status(503), nack("no", retry=False), ack)
        for code, expected in (("refused", 1), ("refused", 2), ("exhausted", 2), ("refused", 3)):
            self.assertEqual(self.caller.send().json()["code"], code)
            self.assertEqual(self.refusals(), expected)
        self.assertEqual(self.caller.send().status, 200)
        self.assertEqual(self.refusals(), 0)

    def test_refusals_that_are_told_count_too(self):
        told = {"source_agent": "analyst", "target_agent": "coder", "outcome": "refused"}
        self.caller.call("POST", "/v1/observations", {"items": [told, told]})
        self.assertEqual(self.refusals(), 2)

    def test_timeouts_are_those_of_the_configuration(self):
        self.assertEqual(self.gauge("handoff_agent_timeout_seconds"), {"coder": 2.5, "puller": 420})

    def test_only_agents_that_pull_have_an_inbox(self):
        self.assertEqual(self.gauge(WAITING), {"puller": 0})
        polled = self.gauge(POLLED)
        self.assertEqual(set(polled), {"puller"})
        self.assertTrue(self.began - 1 <= polled["puller"] <= time.time(), polled)

    def test_what_nobody_takes_is_seen(self):
        for _ in range(3):
            self.caller.send_async("puller")
        self.assertEqual(self.gauge(WAITING), {"puller": 3})
        never = self.gauge(POLLED)["puller"]
        self.assertEqual(self.gauge(POLLED)["puller"], never)
        now = time.time()
        self.assertEqual(self.caller.call("GET", "/v1/agents/puller/inbox").status, 200)
        self.assertEqual(self.gauge(WAITING), {"puller": 2})
        self.assertTrue(now - 0.01 <= self.gauge(POLLED)["puller"] <= time.time())

    def test_an_empty_inbox_was_read_too(self):
        now = time.time()
        self.assertEqual(self.caller.call("GET", "/v1/agents/puller/inbox").status, 204)
        self.assertGreaterEqual(self.gauge(POLLED)["puller"], now - 0.01)

    def test_a_stream_reads_the_inbox_as_long_as_it_is_open(self):
        self.caller.send_async("puller")
        with EventStream(self.daemon.api, "puller") as stream:
            self.assertIsNotNone(stream.next())  # it may hold no more, and is there
            for _ in range(3):
                now = time.time()
                self.assertGreaterEqual(self.gauge(POLLED)["puller"], now - 0.01)
        eventually(lambda: self.gauge(POLLED) == self.gauge(POLLED), "it has gone, and the time stays")
        self.caller.send_async("puller")
        self.assertEqual(self.gauge(WAITING), {"puller": 1})


if __name__ == "__main__":
    unittest.main()
