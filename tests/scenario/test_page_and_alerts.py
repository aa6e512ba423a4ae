# SPDX-License-Identifier: Apache-2.0
"""The status page and the alerts say the same.

A real Prometheus scrapes one sidecar, with the shipped rules and their own windows and thresholds. One kind of trouble
after the other is caused; after each, the page must show exactly the alerts that are pending or firing, for the same
agents. An alert waits for its `for` before it rings, the page does not; so both states count. What looks back further
than an hour is left out, as it is on the page.
"""

import concurrent.futures
import datetime
import os
import pathlib
import sys
import time
import unittest

from harness import Prometheus, Receiver, eventually
from harness.agents import Caller, config, daemon_with
from harness.receiver import Hold, ack, nack, status

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
sys.path.insert(0, str(TOP / "tests/lint"))
from test_status_rules import NOT_ON_THE_PAGE  # noqa: E402  pylint: disable=wrong-import-position

AGENTS = ("good", "unlucky", "failing", "flaky", "down", "lost", "picky", "refuser", "silent", "slow", "small")


def slowly(request):
    time.sleep(2.6)  # of 3 s; a busy machine takes some of the rest
    ack(request)


class PageAndAlerts(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.never = Hold()
        cls.addClassCleanup(cls.never.release)
        scripts = {name: (ack,) for name in AGENTS}
        scripts |= {"unlucky": (status(503), ack), "failing": (status(503),), "flaky": (status(503),), "down": (status(503),),
                    "lost": (status(404),), "picky": (nack("not mine", False), ack), "refuser": (nack("never", False),),
                    "silent": (cls.never,), "slow": (slowly,)}
        receivers = {name: cls.enterClassContext(Receiver(*script)) for name, script in scripts.items()}
        cls.agents = {name: {"url": receiver.url, "retries": 0} for name, receiver in receivers.items()}
        cls.agents["slow"]["timeout"] = "3s"
        cls.agents["flaky"]["breaker"] = {"failures": 100}  # rates leave out whose circuit is open
        cls.agents["down"]["breaker"] = {"failures": 2, "cooldown": "1h"}
        cls.agents["small"]["token_budget"] = 1000
        cls.daemon = cls.enterClassContext(daemon_with(cls.agents, hops={"max": 6}))
        cls.caller = Caller(cls.daemon, source="orchestrator")
        rules = [str(TOP / "alerts" / name) for name in ("handoff-rules.yml", "handoff-alerts.yml")]
        cls.prometheus = cls.enterClassContext(Prometheus({"handoff": cls.daemon.web.address}, config={"rule_files": rules}))
        cls.prometheus.scraped(2)  # every counter was seen at 0

    before = frozenset()

    # ---- what both say

    def on_the_page(self):
        """{(alert, agent or None), ...}"""
        return {(finding["alert"], finding["target_agent"]) for finding in self.status()["findings"] if finding["alert"]}

    def in_prometheus(self):
        return {(labels["alertname"], labels.get("target_agent")) for labels, _ in self.prometheus.query("ALERTS")
                if not self.is_beyond_the_page(labels)}

    @staticmethod
    def is_beyond_the_page(labels):
        return labels["alertname"] in NOT_ON_THE_PAGE or labels.get("long") in ("6h", "1d", "3d")

    def status(self):
        return self.daemon.web.get("/?format=json").json()

    def agree(self, *new):
        """They say the same, and these, which nothing said before, are among it."""
        for each in new:
            self.assertNotIn(each, self.before)

        def same():
            self.assertEqual(self.on_the_page(), self.in_prometheus())
            return True
        eventually(same, "the page and Prometheus agree")
        self.before = self.on_the_page()
        for each in new:
            self.assertIn(each, self.before)

    # ---- the troubles

    def send(self, agent, times=1, **fields):
        for _ in range(times):
            self.caller.send(agent, **fields)

    def one_failure(self):
        self.send("unlucky")
        return [("HandoffFailed", "unlucky")]

    def three_failures_in_a_row(self):
        self.send("failing", 3)
        return [("HandoffFailed", "failing"), ("HandoffConsecutiveFailures", "failing")]

    def an_open_circuit(self):
        self.send("down", 3)
        return [("HandoffFailed", "down"), ("HandoffCircuitOpen", "down")]

    def a_wrong_address(self):
        self.send("lost")
        return [("HandoffFailed", "lost")]

    def one_refusal(self):
        self.send("picky", 2)
        return [("HandoffRefused", "picky")]

    def an_agent_that_refuses_everything(self):
        self.send("refuser", 5)
        return [("HandoffRefused", "refuser"), ("HandoffRefusedRepeatedly", "refuser"), ("HandoffMostlyRefused", "refuser")]

    def a_deadline_that_passes(self):
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=0.5)
        self.send("silent", constraints={"deadline": soon.strftime("%Y-%m-%dT%H:%M:%S.%fZ")})
        return [("HandoffExpired", "silent")]

    def a_task_that_goes_in_circles(self):
        last = {}
        for _ in range(7):
            last = self.caller.send("good", task_id="circles", **({"previous_id": last["id"]} if last else {})).json()
        self.assertEqual(last["code"], "hop_limit")
        return [("HandoffHopLimitReached", "good")]

    def a_task_that_goes_back_and_forth(self):
        last, pair = {}, ("good", "small")
        for source, target in (pair, pair[::-1]) * 3:
            fields = {"previous_id": last["id"]} if last else {"state": {"remaining": ["the migration"]}}
            last = self.caller.send(target, source_agent=source, task_id="back-and-forth", **fields).json()
        return [("HandoffPingPong", None)]

    def memories_that_are_missing(self):
        self.send("good", 12, memory_ids=["never-stored"])
        return [("HandoffCompletenessLow", None), ("HandoffCompletenessCritical", None)]

    def memories_that_a_receiver_works_without(self):
        handoff = self.caller.send("good", task_id="degraded", memory_ids=["never-stored"]).json()["id"]
        reply = self.caller.call("POST", f"/v1/handoffs/{handoff}/gaps", {"missing": ["never-stored"]})
        self.assertEqual(reply.status, 200, reply)
        return [("HandoffContextUnrecovered", "good")]

    def requests_that_do_not_fit(self):
        codes = {self.caller.send("small", task_id=f"small-{i}", intent="payments gateway " * 3000).json().get("code")
                 for i in range(40)}
        self.assertEqual(codes, {"budget_too_small"})
        return [("HandoffRequestsFailing", None)]

    def an_agent_that_is_slow(self):
        with concurrent.futures.ThreadPoolExecutor(5) as senders:
            list(senders.map(self.send, ["slow"] * 5))
        return [("HandoffLatencyHigh", "slow")]

    def many_failures_among_many_handoffs(self):
        self.send("good", 100)
        self.send("flaky", 12)
        return [("HandoffFailed", "flaky"), ("HandoffConsecutiveFailures", "flaky"), ("HandoffFailureRateCritical", None),
                ("HandoffErrorBudgetBurn", None)]

    def a_configuration_that_is_wrong(self):
        self.daemon.write_config("agents: {coder: {retires: 3}}")
        self.assertEqual(self.daemon.reload().status, 500)
        return [("HandoffConfigReloadFailed", None)]

    def and_is_right_again(self):
        self.daemon.write_config(config(self.agents, hops={"max": 6}))
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertNotIn(("HandoffConfigReloadFailed", None), self.on_the_page())
        return []

    def a_store_that_is_moved_away(self):
        (self.daemon.folder / "data").rename(self.daemon.folder / "elsewhere")
        eventually(lambda: self.daemon.web.get("/-/ready").status == 503, "it is noticed")
        return [("HandoffStoreFailing", None)]

    def test_each_trouble_is_in_both_or_in_neither(self):
        self.agree()
        self.assertEqual((self.status()["standing"], self.in_prometheus()), ("ok", set()))
        self.assertIn("Healthy", self.daemon.web.get("/").text)
        for trouble in (self.one_failure, self.three_failures_in_a_row, self.an_open_circuit, self.a_wrong_address,
                        self.one_refusal, self.an_agent_that_refuses_everything, self.a_deadline_that_passes,
                        self.a_task_that_goes_in_circles, self.a_task_that_goes_back_and_forth, self.memories_that_are_missing, self.memories_that_a_receiver_works_without,
                        self.requests_that_do_not_fit, self.an_agent_that_is_slow, self.many_failures_among_many_handoffs,
                        self.a_configuration_that_is_wrong, self.and_is_right_again, self.a_store_that_is_moved_away):
            with self.subTest(trouble.__name__):
                self.agree(*trouble())
        self.assertNotIn("Healthy", self.daemon.web.get("/").text)


if __name__ == "__main__":
    unittest.main()
