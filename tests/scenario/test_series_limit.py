# SPDX-License-Identifier: Apache-2.0
"""More agents than metrics.max_series_per_family has room for.

Those beyond the limit share the series of "other". What happens to one of them must show there, once, in the metrics, on
the status page and in the alerts of a real Prometheus with the shipped rules; and nothing may show that did not happen.
"""

import os
import pathlib
import unittest

from harness import Prometheus, Receiver, eventually
from harness.agents import Caller, daemon_with
from harness.receiver import ack, status

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
AGENTS = [f"agent-{i:02}" for i in range(40)]
LIMIT = 30  # of series: the outcomes of one agent, the circuits of ten, and one gauge of thirty


class SeriesLimit(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.receiver = cls.enterClassContext(Receiver(ack))
        cls.failing = cls.enterClassContext(Receiver(status(503)))
        agents = {name: {"url": cls.receiver.url, "retries": 0, "breaker": {"failures": 3, "cooldown": "1h"}}
                  for name in AGENTS}
        cls.victim = cls.beyond_the_limit(agents)
        agents[cls.victim]["url"] = cls.failing.url
        cls.daemon = cls.enterClassContext(daemon_with(agents, metrics={"max_series_per_family": LIMIT}))
        cls.caller = Caller(cls.daemon, source="orchestrator")
        rules = [str(TOP / "alerts" / name) for name in ("handoff-rules.yml", "handoff-alerts.yml")]
        cls.prometheus = cls.enterClassContext(Prometheus({"handoff": cls.daemon.web.address}, config={"rule_files": rules}))
        cls.prometheus.scraped(2)

    @staticmethod
    def beyond_the_limit(agents):
        """An agent none of whose series has room; which one that is depends on their names alone."""
        with daemon_with(agents, metrics={"max_series_per_family": LIMIT}) as daemon:
            text = daemon.web.get("/metrics").text
        shown = [name for name in AGENTS if f'handoff_in_flight{{target_agent="{name}"' in text]
        return next(name for name in AGENTS if name not in shown)

    def metric(self, name, **labels):
        wanted = ",".join(f'{label}="{value}"' for label, value in labels.items())
        found = [line for line in self.daemon.web.get("/metrics").text.splitlines() if line.startswith(f"{name}{{{wanted}}} ")]
        self.assertEqual(len(found), 1, (name, labels, found))
        return float(found[0].rsplit(" ", 1)[1])

    def on_the_page(self):
        page = self.daemon.web.get("/?format=json").json()
        found = [(finding["alert"], finding["target_agent"]) for finding in page["findings"] if finding["alert"]]
        self.assertEqual(len(found), len(set(found)), "nothing is found twice")
        return set(found)

    def in_prometheus(self):
        return {(labels["alertname"], labels.get("target_agent")) for labels, _ in self.prometheus.query("ALERTS")
                if labels["alertname"] != "HandoffWatchdog"}

    def both_say(self, expected):
        def same():
            self.assertEqual((self.on_the_page(), self.in_prometheus()), (expected, expected))
            return True
        eventually(same, "the page and Prometheus say it")

    def test_what_happens_beyond_the_limit_shows_once(self):
        dropped = ("HandoffSeriesDropped", None)  # though it happened before the first scrape
        with self.subTest("nothing happened"):
            self.both_say({dropped})
        with self.subTest("handoffs succeed"):
            for name in AGENTS:
                self.assertEqual(self.caller.send(name, task_id=name).status, 502 if name == self.victim else 200)
            found = {dropped, ("HandoffFailed", "other")}
            self.both_say(found)
        with self.subTest("requests fail"):
            for _ in range(30):
                self.caller.call("GET", "/v1/agents")
                self.assertEqual(self.caller.call("GET", "/v1/handoffs?stat=parked").status, 400)
            found.add(("HandoffRequestsFailing", None))
            self.both_say(found)
            self.assertEqual({labels["code"] for labels, _ in self.prometheus.query('ALERTS{alertname="HandoffRequestsFailing"}')},
                             {"invalid_request"})
        with self.subTest("one of them is down"):
            for attempt in range(2):
                self.assertEqual(self.caller.send(self.victim, task_id=f"again-{attempt}").status, 502)
            self.assertEqual(self.metric("handoff_consecutive_failures", target_agent="other"), 3)
            self.assertEqual(self.metric("handoff_circuit_state", target_agent="other", state="open"), 1)
            self.assertEqual(self.metric("handoff_circuit_state", target_agent="other", state="closed"), 0)
            self.assertEqual(self.metric("handoff_parked_entries", target_agent="other"), 3)
            # the page knows the agent's state, Prometheus only that it is one of the others
            self.prometheus.wait_for('ALERTS{alertname="HandoffCircuitOpen", target_agent="other"}')
            self.prometheus.wait_for('ALERTS{alertname="HandoffConsecutiveFailures", target_agent="other"}')
            self.assertIn(("HandoffCircuitOpen", self.victim), self.on_the_page())
            self.assertEqual({agent for alert, agent in self.on_the_page() if alert == "HandoffCircuitOpen"},
                             {self.victim, "other"})


if __name__ == "__main__":
    unittest.main()
