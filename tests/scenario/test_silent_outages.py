# SPDX-License-Identifier: Apache-2.0
"""Outages that once went unnoticed: each rings, names the agent and the cause, and ends.

The chain is that of test_alert_chain.py: the real sidecar, Prometheus, Alertmanager, and a webhook in place
of pager and chat, with a second for every minute. All outages happen at the same time, each to its own agent.
"""

import concurrent.futures
import datetime
import errno
import os
import pathlib
import threading
import time
import unittest

import test_alert_chain as chain
from harness import Alertmanager, Prometheus, Receiver, Webhook, eventually
from harness.agents import Caller, daemon_with
from harness.alertmanager import faster_rules, page, parts, shipped
from harness.failing_calls import PROGRAM, FailingCalls
from harness.receiver import Hold, ack, status
from harness.shell import Shell

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
PATIENCE = 90


def slowly(request):
    time.sleep(2.6)  # of 3 s; a busy machine takes some of the rest
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
                   "slow": slowly, "well": ack, "deaf": status(503)}
        cls.receivers = {name: cls.enterClassContext(Receiver(script)) for name, script in scripts.items()}
        agents = {name: {"url": receiver.url} for name, receiver in cls.receivers.items()}
        agents["slow"]["timeout"] = "3s"
        agents["puller"] = {}
        cls.calls = FailingCalls()
        cls.addClassCleanup(cls.calls.close)
        cls.daemon = cls.enterClassContext(daemon_with(
            agents, defaults={"retries": 1, "breaker": {"failures": 3, "cooldown": "1h"}},
            channels={"news": {"receivers": ["well", "deaf"]}}, program=PROGRAM, env=cls.calls.environment))
        cls.caller = Caller(cls.daemon, source="orchestrator")
        cls.shell = cls.enterClassContext(Shell(cls.daemon))
        cls.webhook = cls.enterClassContext(Webhook())
        alertmanager = cls.enterClassContext(Alertmanager(shipped(cls.webhook, chain.FASTER)))
        folder = faster_rules(cls)
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
        cls.published = [cls.publish() for _ in range(3)]
        eventually(lambda: cls.states("deaf") == ["parked"] * 3, "the circuit is open")
        cls.published += [cls.publish() for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cls.pin_a_giant()

    @classmethod
    def pin_a_giant(cls):
        """One memory of 10,000 tokens, which every envelope that is to have all in full has to carry."""
        cls.caller.call("PUT", "/v1/memories/giant", {"content": "word " * 10000, "pinned": True})
        cls.answers = [cls.caller.send("well", strategy="full").json().get("code") for _ in range(25)]

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
        with concurrent.futures.ThreadPoolExecutor(5) as senders:
            list(senders.map(cls.caller.send, ["slow"] * 5))

    @classmethod
    def publish(cls):
        reply = cls.caller.call("POST", "/v1/channels/news/publish", {"request": {
            "source_agent": "orchestrator", "task_id": "news", "task_summary": "The schema has changed"}})
        return reply.json()["id"]

    @classmethod
    def states(cls, receiver):
        """Of its deliveries, in the order of publication."""
        return [one["state"] for publication in cls.published
                for one in cls.caller.call("GET", f"/v1/channels/news/publications/{publication}").json()["deliveries"]
                if one["receiver"] == receiver]

    # ---- looking

    def page(self, alert, who):
        body = self.webhook.wait_for("pager", page(alert, who=who), timeout=PATIENCE)
        return body["payload"]["custom_details"]["text"]

    def ticket(self, alert, who):
        body = self.webhook.wait_for("tickets", lambda sent: chain.ticket(alert)(sent) and who in sent["attachments"][0]["title"],
                                     timeout=PATIENCE)
        return body["attachments"][0]["text"]

    def repair(self, agent):
        """It answers again, and an operator closes its circuit."""
        self.receivers[agent].do(ack)
        self.assertEqual(self.shell.run(f"handoffctl agents reset {agent}").returncode, 0)

    def ends(self, alert, who=""):
        self.webhook.wait_for("pager", page(alert, "resolve", who=who), timeout=PATIENCE)

    def check(self, text, agent, *shown):
        """It names the agent, its page exists, and its command shows what happened."""
        said = parts(text)
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
        for agent in self.codes:
            self.repair(agent)
        for agent in self.codes:
            self.ends("HandoffCircuitOpen", agent)

    def test_an_agent_that_refuses_everything_pages(self):
        text = self.page("HandoffMostlyRefused", "picky")
        self.assertIn("picky refused 100% of its handoffs", text)
        self.check(text, "picky", r"refused")
        self.ends("HandoffMostlyRefused", "picky")

    def test_an_agent_that_never_answers_senders_with_short_deadlines_pages(self):
        self.assertEqual(self.expired, [504, 504, 504])
        self.check(self.page("HandoffCircuitOpen", "silent"), "silent", r"silent .*open", r"(?m)^[0-9a-f-]{36} .*expired")
        self.check(self.ticket("HandoffExpired", "silent"), "silent", r"(?m)^[0-9a-f-]{36} .*expired")
        self.repair("silent")
        self.ends("HandoffCircuitOpen", "silent")

    def test_an_inbox_that_is_not_polled_is_a_ticket_then_a_page_and_ends_with_a_poll(self):
        text = self.page("HandoffInboxUnattended", "puller")
        self.assertIn("puller has work in its inbox and has not polled", text)
        self.check(text, "puller", r"puller .*pull", r"puller .*ready|ready .*puller")
        self.assertEqual(self.caller.call("GET", "/v1/agents/puller/inbox").status, 200)
        self.ends("HandoffInboxUnattended", "puller")

    def test_a_slow_agent_with_five_handoffs_is_a_ticket(self):
        self.check(self.ticket("HandoffLatencyHigh", "slow"), "slow")

    def test_a_dead_receiver_of_a_channel_is_a_ticket_and_its_circuit_pages(self):
        """The third failure opens the circuit. What is published then waits, for this receiver only."""
        self.check(self.page("HandoffCircuitOpen", "deaf"), "deaf", r"deaf .*open")
        text = self.ticket("HandoffChannelBacklog", "news deaf")
        self.assertIn("deaf has not acknowledged what was published to news", text)
        self.assertIn("; 2 pending. Other receivers are not delayed.", text)
        self.check(text, None, r"(?m)^news +deaf .*\b2\b.*\b3\b", r"deaf .*open")
        self.assertEqual(self.states("well"), ["acknowledged"] * 5)
        self.assertEqual(self.states("deaf"), ["parked"] * 3 + ["ready"] * 2)
        self.repair("deaf")
        eventually(lambda: self.states("deaf") == ["parked"] * 3 + ["acknowledged"] * 2, "it has what waited for it")
        self.ends("HandoffCircuitOpen", "deaf")
        self.webhook.wait_for("tickets", lambda sent: chain.ticket("HandoffChannelBacklog")(sent)
                              and sent["attachments"][0]["title"].startswith("RESOLVED"), timeout=PATIENCE)

    def test_one_pinned_memory_that_fits_nowhere_is_a_ticket_that_leads_to_it(self):
        self.assertEqual(self.answers, ["budget_too_small"] * 25)
        text = self.ticket("HandoffRequestsFailing", "send_handoff")
        self.assertIn("a pinned memory that is too large", text)
        self.check(text, None, r"request_rejected call=send_handoff code=budget_too_small field=token_budget .*source=orchestrator",
                   r"(?m)^giant .*pinned")
        self.assertEqual(self.shell.run("handoffctl memories unpin giant").returncode, 0)
        self.assertEqual(self.caller.send("well", strategy="full").status, 200)

    def test_the_disk_is_full_pages_and_ends_when_there_is_room(self):
        self.calls.arm("pwrite", 0, errno.ENOSPC, times=1 << 30)
        reply = self.caller.send("well", memory_ids=[], include_pins=False)
        self.assertEqual((reply.status, reply.json()["code"]), (503, "store_full"))
        self.is_not_ready()
        text = self.page("HandoffStoreFailing", "")
        self.assertIn("A sidecar cannot write to its store", text)
        self.check(text, None, "the store's disk is full")
        self.is_not_ready()
        self.calls.disarm()
        eventually(lambda: self.daemon.web.get("/-/ready").status == 200, "it is ready, though it was sent nothing")
        self.assertEqual(self.caller.send("well", include_pins=False).status, 200)
        self.ends("HandoffStoreFailing")
        self.assertEqual([line["event"] for line in self.daemon.events()
                          if line["event"] in ("store_failing", "store_recovered")], ["store_failing", "store_recovered"])

    def is_not_ready(self):
        ready = self.daemon.web.get("/-/ready")
        self.assertEqual((ready.status, ready.json()["code"]), (503, "store_full"))
        page = self.daemon.web.get("/?format=json").json()
        self.assertIn("Nothing can be written to the store: the store's disk is full",
                      " ".join(each["text"] for each in page["findings"] if each["alert"] == "HandoffStoreFailing"))


if __name__ == "__main__":
    unittest.main()
