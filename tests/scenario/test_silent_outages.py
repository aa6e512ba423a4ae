# SPDX-License-Identifier: Apache-2.0
"""Outages that once went unnoticed: each rings, names the agent and the cause, and ends.

The chain is that of test_alert_chain.py: the real sidecar, Prometheus, Alertmanager, and a webhook in place
of pager and chat, with a second for every minute. All outages happen at the same time, each to its own agent.
"""

import datetime
import os
import pathlib
import threading
import time
import unittest

import test_alert_chain as chain
from harness import Alertmanager, Prometheus, Receiver, Webhook
from harness.agents import Caller, daemon_with
from harness.alertmanager import shipped
from harness.receiver import Hold, ack, status
from harness.shell import Shell

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
PATIENCE = 90


def slowly(request):
    time.sleep(0.8)
    ack(request)


def in_1_2_seconds():
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1.2)
    return soon.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class SilentOutages(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.hold = Hold()
        cls.addClassCleanup(cls.hold.release)
        scripts = {"lost": status(404), "locked": status(401), "silent": cls.hold, "picky": status(422),
                   "slow": slowly, "small": ack}
        cls.receivers = {name: cls.enterClassContext(Receiver(script)) for name, script in scripts.items()}
        agents = {name: {"url": receiver.url} for name, receiver in cls.receivers.items()}
        agents["slow"]["timeout"] = "900ms"
        agents["small"]["token_budget"] = 1000
        agents["puller"] = {}
        cls.daemon = cls.enterClassContext(daemon_with(
            agents, defaults={"retries": 1, "breaker": {"failures": 3, "cooldown": "1h"}}))
        cls.caller = Caller(cls.daemon, source="orchestrator")
        cls.shell = cls.enterClassContext(Shell(cls.daemon))
        cls.webhook = cls.enterClassContext(Webhook())
        alertmanager = cls.enterClassContext(Alertmanager(shipped(cls.webhook, chain.FASTER)))
        folder = chain.rules(cls)
        cls.prometheus = cls.enterClassContext(Prometheus(
            {"handoff": cls.daemon.web.address},
            config={"rule_files": [str(folder / "handoff-rules.yml"), str(folder / "handoff-alerts.yml")],
                    "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.http.address]}]}]}}))
        cls.prometheus.scraped(2)  # every counter was seen at 0
        cls.break_everything()

    @classmethod
    def break_everything(cls):
        threads = [threading.Thread(target=work) for work in (cls.send_to_failing_agents, cls.send_with_deadlines,
                                                              cls.send_to_the_slow_one)]
        cls.caller.send_async("puller")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cls.answers = [cls.caller.send("small", task_id="task-giant", intent="payments gateway " * 3000).json().get("code")
                       for _ in range(25)]

    @classmethod
    def send_to_failing_agents(cls):
        cls.codes = {agent: [cls.caller.send(agent).json()["code"] for _ in range(3)] for agent in ("lost", "locked")}
        for _ in range(5):
            cls.caller.send("picky")

    @classmethod
    def send_with_deadlines(cls):
        cls.expired = [cls.caller.send("silent", constraints={"deadline": in_1_2_seconds()}).status for _ in range(3)]

    @classmethod
    def send_to_the_slow_one(cls):
        for _ in range(5):
            cls.caller.send("slow")

    # ---- looking

    def page(self, alert, who):
        body = self.webhook.wait_for("pager", chain.page(alert, who=who), timeout=PATIENCE)
        return body["payload"]["custom_details"]["text"]

    def ticket(self, alert, who):
        body = self.webhook.wait_for("tickets", lambda sent: chain.ticket(alert)(sent) and who in sent["attachments"][0]["title"],
                                     timeout=PATIENCE)
        return body["attachments"][0]["text"]

    def check(self, text, agent, *shown):
        """It names the agent, its page exists, and its command shows what happened."""
        said = chain.parts(text)
        self.assertEqual(said.get("Agent"), agent)
        self.assertTrue((TOP / "docs/runbooks" / said["Runbook"].rsplit("/", 1)[1]).is_file())
        done = self.shell.run(said["Check"])
        self.assertEqual((done.returncode, done.stderr), (0, ""), said["Check"])
        for pattern in shown:
            self.assertRegex(done.stdout, pattern)

    # ---- the outages

    def test_a_wrong_path_or_token_pages(self):
        self.assertEqual(self.codes, {agent: ["rejected"] * 3 for agent in ("lost", "locked")})
        for agent in self.codes:
            with self.subTest(agent):
                self.check(self.page("HandoffCircuitOpen", agent), agent, rf"{agent} .*open", r"rejected")

    def test_an_agent_that_refuses_everything_pages(self):
        text = self.page("HandoffMostlyRefused", "picky")
        self.assertIn("picky refused 100% of its handoffs", text)
        self.check(text, "picky", r"refused")

    def test_an_agent_that_never_answers_senders_with_short_deadlines_pages(self):
        self.assertEqual(self.expired, [504, 504, 504])
        self.check(self.page("HandoffCircuitOpen", "silent"), "silent", r"silent .*open")

    def test_an_inbox_that_is_not_polled_is_a_ticket_then_a_page_and_ends_with_a_poll(self):
        text = self.page("HandoffInboxUnattended", "puller")
        self.assertIn("puller has work in its inbox and has not polled", text)
        self.check(text, "puller", r"puller .*pull", r"puller .*ready|ready .*puller")
        self.assertEqual(self.caller.call("GET", "/v1/agents/puller/inbox").status, 200)
        self.webhook.wait_for("pager", chain.page("HandoffInboxUnattended", "resolve", who="puller"), timeout=PATIENCE)

    def test_a_slow_agent_with_five_handoffs_is_a_ticket(self):
        self.check(self.ticket("HandoffLatencyHigh", "slow"), "slow")

    def test_requests_that_do_not_fit_are_a_ticket_that_says_why(self):
        self.assertEqual(self.answers, ["budget_too_small"] * 25)
        text = self.ticket("HandoffRequestsFailing", "send_handoff")
        self.assertIn("a pinned memory that is too large", text)
        self.check(text, None)


if __name__ == "__main__":
    unittest.main()
