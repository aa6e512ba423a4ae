# SPDX-License-Identifier: Apache-2.0
"""Every query of docs/metrics.md, against a real Prometheus that scraped a sidecar with known traffic.

One Prometheus scrapes classic histograms and one native ones. No query may fail or find nothing; where
the traffic fixes the answer, it must be that answer. The same Prometheus then checks what rules and
runbooks read: each selector must find series, each query of a runbook must be one.
"""

import os
import pathlib
import re
import sys
import time
import unittest

import yaml

from harness import Prometheus, Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import ack, later, status
from test_secrets import GITHUB

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
sys.path.insert(0, str(TOP / "tests/support"))
import metric_names  # noqa: E402
import promql        # noqa: E402

QUERIES = yaml.safe_load((TOP / "docs/metrics.yml").read_text(encoding="utf-8"))
DECLARED = metric_names.declared()
DOCUMENTED = {name: more for name, more in QUERIES.items() if name in DECLARED}

BUDGET = 4000
MEMORIES = ["ms-1", "ms-2", "ms-3", "ms-4"]


class Traffic:
    """The traffic that the sidecar gets, and the numbers that must result."""

    def __init__(self, caller, receivers):
        self.caller, self.receivers = caller, receivers
        self.envelopes = []

    def send(self, target, expect=200, **more):
        reply = self.caller.send(target, **more)
        assert reply.status == expect, reply
        handoff = reply.json()
        handoff = handoff.get("handoff", handoff)
        self.envelopes.append(self.caller.call("GET", f"/v1/handoffs/{handoff['id']}/envelope").json())
        return handoff["id"]

    def run(self):
        for memory in MEMORIES:
            self.caller.call("PUT", f"/v1/memories/{memory}", {"content": "the gateway retries payments"})
        for _ in range(4):
            self.send("coder", memory_ids=MEMORIES)
        self.send("coder", task_id="task-open", memory_ids=["ms-1", "ms-2", "ms-3", "ms-lost"],
                  state={"decisions": [f"deploy with {GITHUB}"]})
        lost = self.send("reviewer", task_id="task-gaps", memory_ids=["ms-lost"], source_agent="coder")
        assert self.caller.call("POST", f"/v1/handoffs/{lost}/gaps", {"missing": ["ms-lost"]}).status == 200
        first = self.send("coder", task_id="task-h")
        second = self.send("reviewer", task_id="task-h", source_agent="coder", previous_id=first)
        # back to an agent that had it
        self.send("coder", task_id="task-h", source_agent="reviewer", previous_id=second)
        parked = [self.send("broken", 502) for _ in range(3)]
        assert self.caller.call("POST", f"/v1/parked/{parked[0]}/replay", {"target_agent": "coder"}).status in (200, 202)
        self.caller.wait_for_state(parked[0], "acknowledged")
        self.receivers["reviewer"].do(later)
        self.caller.wait_for_state(self.caller.send_async("reviewer"), "awaiting_ack")
        # patterns without any other traffic, and an invalid observation
        told = {"source_agent": "coder", "target_agent": "reviewer", "outcome": "circuit_open", "latency_seconds": 1}
        self.caller.call("POST", "/v1/observations", {"items": [
            {**told, "pattern": "broadcast"}, {**told, "pattern": "choreographed"}, {**told, "outcome": "rejected"},
            {**told, "outcome": "refused"}, {}]})
        # two receivers: one fails once, the other does not pull
        published = self.caller.call("POST", "/v1/channels/news/publish", {"request": {
            "source_agent": "coder", "task_id": "task-news", "task_summary": "the gateway is migrated"}})
        assert published.status == 202, published
        [delivery] = [one["handoff_id"] for one in published.json()["deliveries"] if one["receiver"] == "subscriber"]
        self.caller.wait_for_state(delivery, "acknowledged")
        completed = self.caller.call("POST", "/v1/tasks/task-h/complete", {})
        assert completed.status in (200, 204) or "handoff_task_handoffs" not in DECLARED, completed

    def utilization(self, agent):
        shares = [one["tokens"]["count"] / one["tokens"]["budget"] for one in self.envelopes
                  if one["target_agent"] == agent]
        return sum(shares) / len(shares)

    def answers(self):
        """{metric: {labels of the answer: value}} where the traffic says exactly what it must be."""
        agent = "target_agent"
        return {
            "handoff_memory_refs_total": {(): 19 / 21},
            "handoff_memory_recovery_total": {(): 1},
            "handoff_handoffs_total": {(): 4 / 15},
            "handoff_consecutive_failures": {((agent, "broken"),): 3},
            "handoff_consecutive_refusals": {((agent, "reviewer"),): 1},
            "handoff_inbox_waiting": {((agent, "puller"),): 1},
            "handoff_circuit_state": {((agent, "broken"),): 1},
            "handoff_in_flight": {((agent, "reviewer"),): 1},
            "handoff_parked_entries": {((agent, "broken"),): 2},
            "handoff_hop_depth": {(): 1 / 15},
            "handoff_token_utilization_ratio": {((agent, name),): self.utilization(name)
                                                for name in ("coder", "broken")},
            "handoff_task_handoffs": {(): 3},
            "handoff_channel_pending": {(("channel", "news"), ("receiver", "puller")): 1},
        }


class MetricsDocument(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        receivers = {"coder": Receiver(ack), "reviewer": Receiver(ack), "broken": Receiver(status(503)),
                     "subscriber": Receiver(status(503), ack)}
        for receiver in receivers.values():
            cls.enterClassContext(receiver)
        cls.daemon = cls.enterClassContext(daemon_with(
            {**{name: {"url": receiver.url} for name, receiver in receivers.items()}, "puller": {}},
            defaults={"retries": 1, "token_budget": BUDGET, "breaker": {"failures": 3, "cooldown": "1h"}},
            tasks={"stalled_after": "1h"}, channels={"news": {"receivers": ["subscriber", "puller"]}}))
        target = {"handoff": cls.daemon.web.address}
        rules = {"rule_files": [str(TOP / "alerts" / name) for name in ("handoff-rules.yml", "handoff-alerts.yml")]}
        cls.classic = cls.enterClassContext(Prometheus(target, config=rules))
        cls.native = cls.enterClassContext(Prometheus(target, ["native-histograms"], config=rules))
        for prometheus in cls.classic, cls.native:
            prometheus.scraped(1)  # everything was seen at 0
        cls.traffic = Traffic(Caller(cls.daemon), receivers)
        cls.traffic.run()
        # what is parked is read from the disk at most once a second
        cls.classic.wait_for('handoff_parked_entries{target_agent="broken"} == 2')
        done = time.time()
        for prometheus in cls.classic, cls.native:
            prometheus.scraped(2, since=done)

    def ask(self, prometheus, name, text):
        """{labels: value} of the answer; a query that finds nothing answers no question."""
        found = {tuple(sorted(one.labels.items())): one.value for one in prometheus.query(text)}
        self.assertTrue(found, f"{name}: {text}")
        return found

    def check(self, name, found):
        """Values that are fixed; agents that are not named in the answer may have any."""
        for labels, value in self.traffic.answers().get(name, {}).items():
            self.assertIn(labels, found, name)
            self.assertAlmostEqual(found[labels], value, places=9, msg=f"{name} {labels}")

    # ---- the document

    def test_every_query_answers_its_question(self):
        for name, more in DOCUMENTED.items():
            with self.subTest(name):
                self.check(name, self.ask(self.classic, name, more["example"]))
                if not DECLARED[name].type.startswith("histogram"):
                    self.check(name, self.ask(self.native, name, more["example"]))

    def test_every_query_of_a_native_histogram_answers_its_question(self):
        asked = {name: more["native"] for name, more in DOCUMENTED.items() if "native" in more}
        self.assertGreater(len(asked), 8)
        for name, text in asked.items():
            with self.subTest(name):
                self.check(name, self.ask(self.native, name, text))

    def test_answers_that_only_compare_name_those_they_should(self):
        for name, expected in {
                "handoff_attempts_total": {(("result", "http"), ("target_agent", name)) for name in ("broken", "subscriber")},
                "handoff_channel_redelivered_total": {(("channel", "news"), ("receiver", "subscriber"))},
                "handoff_circuit_opened_total": {(("target_agent", "broken"),)},
                "handoff_decisions_total": {(("action", "redirect"),)},
                "handoff_oldest_in_flight_seconds": {(("target_agent", name),) for name in ("reviewer", "puller")},
                "handoff_oldest_parked_seconds": {(("target_agent", "broken"),)},
                "handoff_parked_total": {(("reason", "exhausted"),)},
                "handoff_replayed_total": {(("target_agent", "coder"),)},
                "handoff_secrets_total": {(("kind", "github_token"), ("where", "request"))}}.items():
            self.assertEqual(set(self.ask(self.classic, name, QUERIES[name]["example"])), expected, name)

    def test_the_worst_of_twenty_envelopes_lies_in_the_bucket_of_three_quarters(self):
        coder = (("target_agent", "coder"),)
        more = QUERIES["handoff_context_completeness_ratio"]
        classic = self.ask(self.classic, "classic", more["example"])[coder]
        native = self.ask(self.native, "native", more["native"])[coder]
        self.assertTrue(0.7 <= classic <= 0.8, classic)
        self.assertTrue(2 ** (-14 / 32) <= native <= 2 ** (-13 / 32), native)  # 0.738 to 0.755

    def test_labels_have_the_values_that_are_told(self):
        for name, more in DOCUMENTED.items():
            series = name + ("_count" if DECLARED[name].type.startswith("histogram") else "")
            for label, values in more.get("values", {}).items():
                found = self.classic.values(f'count by ({label}) ({series})', label)
                self.assertEqual(set(found), set(values), f"{name} {label}")

    def test_an_agent_has_about_as_many_series_as_documented(self):
        text = (TOP / "docs/metrics.md").read_text(encoding="utf-8")
        told = re.search(r"about\s+(\d+)\s+series\s+with\s+classic\s+histograms\s+and\s+(\d+)\s+with", text)
        for prometheus, number in zip((self.classic, self.native), told.groups()):
            found = prometheus.value('count({target_agent="coder", __name__=~"handoff_.+"})')
            print(f"\n  {found:g} series, told: {number}", end="")
            self.assertLess(abs(found / float(number) - 1), 0.1, found)

    # ---- rules and runbooks

    def selectors(self):
        """{selector: where it is} of all that rules, annotations and runbooks read as it is scraped."""
        found = {}

        def take(where, expression):
            for one in promql.parse(expression).selectors:
                metric = re.sub(r"_(bucket|sum|count)$", "", one.name)
                if {one.name, metric} & set(DECLARED) and not re.search(r'="x"', one.text):
                    found[one.text] = where
        for file in "handoff-rules.yml", "handoff-alerts.yml":
            groups = yaml.safe_load((TOP / "alerts" / file).read_text(encoding="utf-8"))["groups"]
            for rule in (rule for group in groups for rule in group["rules"]):
                take(rule.get("alert") or rule["record"], rule["expr"])
        for page, query in self.runbook_queries():
            take(page, query)
        return found

    def runbook_queries(self):
        for page in sorted((TOP / "docs/runbooks").glob("*.md")):
            for query in re.findall(r"```promql\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
                yield page.name, query

    def test_every_selector_of_rules_and_runbooks_finds_series(self):
        selectors = self.selectors()
        self.assertGreater(len(selectors), 30)
        for text, where in selectors.items():
            with self.subTest(where, selector=text):
                self.assertTrue(self.classic.query(text) or self.native.query(text))

    def test_prometheus_evaluates_every_query_of_the_runbooks(self):
        count = 0
        for page, query in self.runbook_queries():
            with self.subTest(page, query=query):
                self.classic.query(query)
                count += 1
        self.assertGreater(count, 50)

    def test_prometheus_evaluates_every_shipped_rule_without_a_complaint(self):
        for prometheus in self.classic, self.native:
            for group in prometheus.api("rules")["groups"]:
                for rule in group["rules"]:
                    self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""), rule["name"])

    def test_rules_record_the_same_of_classic_and_native_histograms(self):
        # not the reviewer's: one of its envelopes was not kept by the test
        utilization = {name: self.traffic.utilization(name) for name in ("coder", "broken")}
        for prometheus in self.classic, self.native:
            found = prometheus.values('job_target_agent:handoff_token_utilization_ratio:mean1h{job="handoff"}',
                                      "target_agent")
            for agent, mean in utilization.items():
                self.assertAlmostEqual(found[agent], mean, places=9)
            # 11 first hops, a second and a third, in 13 handoffs
            depth = prometheus.value('job_pattern:handoff_hop_depth:mean1h{job="handoff",pattern="direct"}')
            self.assertAlmostEqual(depth, 16 / 13, places=9)
            envelopes = prometheus.value('job:handoff_envelopes:increase1h{job="handoff"}')
            self.assertTrue(12 <= envelopes <= 24, envelopes)  # as far as so short a time can be extrapolated


if __name__ == "__main__":
    unittest.main()
