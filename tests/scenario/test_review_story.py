# SPDX-License-Identifier: Apache-2.0
"""An afternoon on call: a new version of an agent refuses everything, the pager rings, and an engineer decides.

Only the agents, the pager and time are simulated: the real Prometheus evaluates the shipped rules, in which a minute is a
second, and the real Alertmanager calls the pager. The engineer uses the review page, and handoffctl where the pager says so.
"""

import contextlib
import json
import unittest

from harness import Alertmanager, Prometheus, Receiver, Webhook
from harness.agents import Caller, daemon_with
from harness.alertmanager import faster_rules, page, parts, shipped
from harness.receiver import ack, nack
from harness.review import Visitor
from harness.shell import Shell
from harness.wait import eventually

FASTER = 60
PATIENCE = 60  # generous: a loaded machine is slow, not wrong
WORDS = "schema version 7 is not supported"


class Afternoon(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.new = stack.enter_context(Receiver(ack))
        self.old = stack.enter_context(Receiver(ack))
        self.daemon = stack.enter_context(daemon_with({"coder": {"url": self.new.url}, "coder-v1": {"url": self.old.url}}))
        self.caller = Caller(self.daemon)
        self.engineer = Visitor(self.daemon)
        self.shell = stack.enter_context(Shell(self.daemon))
        self.webhook = stack.enter_context(Webhook())
        self.prometheus = stack.enter_context(self.watching(stack))
        self.prometheus.scraped(2)  # every counter was seen at 0

    def watching(self, stack):
        alertmanager = stack.enter_context(Alertmanager(shipped(self.webhook, FASTER)))
        folder = faster_rules(type(self))
        return Prometheus({"handoff": self.daemon.web.address}, config={
            "rule_files": [str(folder / "handoff-rules.yml"), str(folder / "handoff-alerts.yml")],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.http.address]}]}]}})

    def wait_for_page(self, *named):
        return self.webhook.wait_for("pager", page("HandoffMostlyRefused", *named, who="coder"), timeout=PATIENCE)

    def in_state(self, job, state):
        page = self.engineer.open(job)
        return page if f"State: {state}" in page.text else None

    def run_job(self, list_page, canary=False, **values):
        preview = self.engineer.submit(list_page.form("/review/jobs"), phase="preview", action="replay", to=values.pop("to", ""))
        begun = self.engineer.submit(preview.form("/review/jobs"), phase="begin", by="alice",
                                     canary="true" if canary else None, **values)
        return preview, begun.path

    def test_from_the_alert_to_the_record(self):
        self.assertEqual(self.caller.send("coder", task_id="before").status, 200)
        self.new.do(nack(WORDS, False))  # at 14:00 the new version is deployed
        parked = [self.caller.send("coder", task_id=f"task-{number}", task_summary=f"Ticket {number}").json()["handoff"]["id"]
                  for number in range(12)]
        rung = self.wait_for_page()
        said = parts(rung["payload"]["custom_details"]["text"])
        listed = self.shell.run(said["Check"])
        self.assertEqual((listed.returncode, listed.stdout.count(f"error: {WORDS}")), (0, 12), said)
        self.assertTrue(said["Runbook"].endswith("/HandoffMostlyRefused.md"))

        causes = self.engineer.open("/review/causes")
        self.assertIn(f"12 handoffs, by cause. 12 parked for coder: refused {WORDS}", causes.text)
        (group,) = [link for link in causes.links if link.startswith("/review?")]

        # one canary to the new version fails with the same words
        preview, job = self.run_job(self.engineer.open(group), canary=True, reason="is it still refused?", rate="20")
        self.assertIn("12 handoffs, of which 12 would be delivered now", preview.text)
        waiting = eventually(lambda: self.in_state(job, "waiting"), "it waits after its canary")
        canary = next(link for link in waiting.links if "/review/handoffs/" in link).rsplit("/", 1)[1]
        eventually(lambda: len(self.caller.attempts(canary)) == 2, "the canary was tried")
        self.caller.wait_for_state(canary, "parked")
        self.assertEqual(self.engineer.open(f"/review/handoffs/{canary}").text.count(f"status 200 {WORDS}"), 2)
        self.assertIn("State: stopped", self.engineer.submit(waiting.form(f"{job}/stop")).text)

        # the old version takes one
        path = f"/review/handoffs/{parked[1]}"
        asked = self.engineer.submit(self.engineer.open(path).form(path), target="coder-v1")
        self.assertIn("It would be delivered now, to coder-v1", asked.text)
        self.engineer.submit(asked.form(f"{path}/replay"), reason="the old version works", by="alice")
        self.caller.wait_for_state(parked[1], "acknowledged")

        # two are edited first
        for number in (2, 3):
            path = f"/review/handoffs/{parked[number]}/edit"
            page = self.engineer.open(path)
            preview = self.engineer.submit(page.form(path), phase="preview", target_agent="coder-v1",
                                           **{"edit.task_summary": f"Ticket {number}, for the old schema"})
            self.assertIn(f"<ins>Ticket {number}, for the old schema</ins>", preview.html)
            sent = self.engineer.submit(preview.form(path), phase="send", reason="named the schema", by="alice")
            self.caller.wait_for_state(sent.path.rsplit("/", 1)[1], "acknowledged")

        # the rest follow
        preview, job = self.run_job(self.engineer.open(group), to="coder-v1", reason="until the fix is out", rate="20")
        self.assertIn("9 handoffs", preview.text)
        done = eventually(lambda: self.in_state(job, "done"), "the rest are delivered")
        self.assertIn("9 of 9 done: 9 succeeded, 0 skipped, 0 failed", done.text)
        for number in (0, *range(4, 12)):
            self.caller.wait_for_state(parked[number], "acknowledged")
        self.assertIn("Nothing is parked", self.engineer.open().text)
        self.assertEqual(len(self.old.requests), 12)
        self.wait_for_page("resolve")

        decisions = self.caller.call("GET", "/v1/decisions?order=oldest&limit=100").json()["items"]
        self.assertEqual([(each["action"], each["to"], each["by"], each["reason"]) for each in decisions],
                         [("replay", "", "alice", "is it still refused?"),
                          ("redirect", "coder-v1", "alice", "the old version works"),
                          *[(each, "coder-v1", "alice", "named the schema") for each in ("edit", "edit")],
                          *[("redirect", "coder-v1", "alice", "until the fix is out")] * 9])
        lines = self.caller.call("GET", "/v1/decisions?limit=100", accept="application/x-ndjson").text.splitlines()
        self.assertEqual(len([json.loads(line) for line in lines]), 13)


if __name__ == "__main__":
    unittest.main()
