# SPDX-License-Identifier: Apache-2.0
"""The whole path from a failing agent to the pager; only the agents and the pager are simulated.

The real sidecar delivers to receivers that fail on command; the real Prometheus scrapes it and
evaluates the shipped rules; the real Alertmanager routes, mutes and renders with the shipped
configuration and templates. A webhook takes the place of pager, chat and the others.

Only time is different: a minute is a second, in the rules by tests/alerts/sixty_times_faster.jsonnet
and in Alertmanager by the same factor (harness/alertmanager.py). Each test has its own agents and
leaves no paging alert firing, so they can share one stack in any order.
"""

import datetime
import os
import pathlib
import re
import time
import unittest

from harness import Alertmanager, Prometheus, Receiver, Webhook, eventually
from harness.agents import Caller, daemon_with
from harness.alertmanager import faster_rules, page, parts, shipped
from harness.ports import reserved_port
from harness.receiver import ack, later, status
from harness.shell import Shell

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
FASTER = 60
# Generous beside the seconds that things take: a loaded machine is slow, not wrong.
PATIENCE = 60

AGENTS = ("analyst", "reviewer", "writer", "librarian", "planner")
# failures and cooldown as they ship, the cooldown at the speed of the rest
BREAKER = {"failures": 3, "cooldown": f"{60 // FASTER}s"}


# ---- what the pager and the chat are sent -----------------------------------------------------------

def about(alert, who=""):
    """Matches what a webhook is sent about an alert that fires."""
    def matches(body, state="firing"):
        return any(one["labels"]["alertname"] == alert and one["status"] == state and
                   who in ("", one["labels"].get("target_agent")) for one in body["alerts"])
    return matches


def ticket(alert):
    """Matches what the chat is sent about an alert."""
    return lambda body: f" {alert} " in body["attachments"][0]["title"]


class AlertChain(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.receivers = {name: cls.enterClassContext(Receiver(ack)) for name in AGENTS}
        # the one that is killed has to come back to where Prometheus looks for it
        cls.instance, api = (f"127.0.0.1:{cls.enterClassContext(reserved_port())}" for _ in range(2))
        cls.daemon = cls.enterClassContext(daemon_with(
            {name: {"url": receiver.url} for name, receiver in cls.receivers.items()},
            addresses={"web": cls.instance, "api": api}, defaults={"retries": 1, "breaker": BREAKER}, hops={"max": 3}))
        cls.caller = Caller(cls.daemon, source="orchestrator")  # no agent: it continues nothing
        cls.webhook = cls.enterClassContext(Webhook())
        cls.alertmanager = cls.enterClassContext(Alertmanager(shipped(cls.webhook, FASTER)))
        folder = faster_rules(cls)
        cls.prometheus = cls.enterClassContext(Prometheus(
            {"handoff": cls.instance},
            config={"rule_files": [str(folder / "handoff-rules.yml"), str(folder / "handoff-alerts.yml")],
                    "alerting": {"alertmanagers": [
                        {"static_configs": [{"targets": [cls.alertmanager.http.address]}]}]}}))
        cls.shell = cls.enterClassContext(Shell(cls.daemon))
        cls.prometheus.scraped(2)  # every counter was seen at 0

    # ---- doing and looking

    def fail(self, agent, count=1):
        """That many handoffs to the agent use up their retries."""
        for _ in range(count):
            self.assertEqual(self.caller.send(agent).status, 502)

    def sent(self, *receivers):
        """All that those receivers were sent since the test began."""
        return [body for name in receivers for body in self.webhook.sent(name)[self.before.get(name, 0):]]

    def setUp(self):
        self.before = {name: len(self.webhook.sent(name)) for name in ("pager", "tickets", "quiet")}

    def wait_for_page(self, *arguments, **named):
        return self.webhook.wait_for("pager", page(*arguments, **named), timeout=PATIENCE)

    def check_pages(self, *expected):
        """The pager was called so often and no more, since the test began."""
        self.assertEqual([(body["event_action"], body["payload"]["summary"]) for body in self.sent("pager")],
                         list(expected))

    def check_since(self, text, earliest):
        since = datetime.datetime.strptime(parts(text)["Since"], "%Y-%m-%d %H:%M:%S UTC")
        since = since.replace(tzinfo=datetime.timezone.utc).timestamp()
        self.assertGreaterEqual(since, int(earliest))
        self.assertLessEqual(since, time.time())

    def run_printed(self, text):
        """Runs the command after "Check:" as printed; answers its output."""
        command = parts(text)["Check"]
        done = self.shell.run(command)
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        return done.stdout

    def check_runbook(self, text, alert):
        url = parts(text)["Runbook"]
        self.assertTrue((TOP / "docs/runbooks" / url.rsplit("/", 1)[1]).is_file(), url)
        self.assertTrue(url.endswith(f"/{alert}.md"))

    def clear_parked(self, agent):
        """Replays what is parked, as the runbooks say; nothing waits any longer."""
        done = self.shell.run(f"handoffctl parked replay --target {agent} --rate 1000")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        eventually(lambda: self.caller.parked(f"?target={agent}")["items"] == [], "nothing is parked")

    # ---- the chain

    def test_a_broken_agent_rings_the_pager_once_with_what_one_needs_and_mutes_the_rest(self):
        analyst = self.receivers["analyst"]
        analyst.do(later)  # two wait for their acknowledgement while the agent breaks
        waiting = [self.caller.send_async("analyst") for _ in range(2)]
        for handoff in waiting:
            self.caller.wait_for_state(handoff, "awaiting_ack")
        self.prometheus.wait_for('handoff_in_flight{target_agent="analyst"} == 2')

        analyst.do(status(503))
        broken = time.time()
        self.fail("analyst", BREAKER["failures"])
        self.check_page(self.wait_for_page("HandoffCircuitOpen", who="analyst"), broken)
        for lesser in "HandoffConsecutiveFailures", "HandoffFailed":
            muted = self.alertmanager.wait_for_muted(PATIENCE, alertname=lesser, target_agent="analyst")
            self.assertEqual(len(muted), 1)
        # probes that fail open the circuit again and again: still the same page
        eventually(lambda: self.caller.send("analyst").status == 502, "a probe fails")
        self.prometheus.wait_for('handoff_circuit_opened_total{target_agent="analyst"} >= 2')

        analyst.do(ack)
        eventually(lambda: self.caller.send("analyst").status == 200, "a probe closes the circuit")
        for handoff in waiting:
            self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)
        self.clear_parked("analyst")
        self.wait_for_page("HandoffCircuitOpen", "resolve", who="analyst")
        self.check_pages(("trigger", "CRITICAL HandoffCircuitOpen analyst (handoff)"),
                         ("resolve", "RESOLVED HandoffCircuitOpen analyst (handoff)"))
        self.assertEqual([body for body in self.sent("tickets") if "analyst" in str(body)], [])

    def check_page(self, body, broken):
        text = body["payload"]["custom_details"]["text"]
        self.assertEqual(text.splitlines()[:2], [
            "Circuit open: new handoffs to an agent are rejected",
            "The circuit breaker for analyst opened after several handoffs in a row failed. While it is open, "
            "new handoffs to this agent are rejected immediately; after the cooldown, one probe decides whether "
            "it closes. Likely causes: the agent is down, overloaded or unreachable from the sidecar, or it "
            "has been answering every envelope with an error since a deployment."])
        said = parts(text)
        self.assertEqual(said["Agent"], "analyst")
        # the number of parked ones is up to a second old, and it was three within milliseconds
        self.assertRegex(said["Waiting"], r"^[0-3] parked, 2 in flight$")
        self.assertEqual(said["Check"], "handoffctl agents; handoffctl parked list --target analyst; "
                                        "handoffctl handoffs --newest --limit 5 --target analyst")
        self.assertEqual(said["Dashboard"],
                         "https://grafana.example/d/handoff-agent?var-job=handoff&var-target_agent=analyst")
        self.assertEqual(body["links"], [{"text": "Runbook", "href": said["Runbook"]},
                                         {"text": "Dashboard", "href": said["Dashboard"]}])
        self.assertEqual(body["payload"]["severity"], "critical")
        self.check_runbook(text, "HandoffCircuitOpen")
        self.check_since(text, broken)
        printed = self.run_printed(text)
        self.assertRegex(printed, r"(?m)^analyst +push +(open|half_open) ")
        self.assertEqual(len(re.findall(r"(?m)^[0-9a-f-]{36} .* analyst +exhausted ", printed)), 3)

    def test_one_failed_handoff_does_not_page(self):
        self.receivers["reviewer"].do(status(503), status(503), ack)  # the first attempt and its retry
        self.fail("reviewer")
        self.assertEqual(self.caller.send("reviewer").status, 200)
        body = self.webhook.wait_for("quiet", about("HandoffFailed", "reviewer"), timeout=PATIENCE)
        self.assertEqual(body["commonLabels"]["severity"], "info")
        printed = self.shell.run(body["commonAnnotations"]["command"])
        self.assertEqual((printed.returncode, printed.stderr), (0, ""))
        self.assertRegex(printed.stdout, r"(?m)^[0-9a-f-]{36} .* reviewer +exhausted ")
        self.clear_parked("reviewer")
        # any other alert it raised would have arrived before it resolves
        self.webhook.wait_for("quiet", lambda sent: about("HandoffFailed", "reviewer")(sent, "resolved"),
                              timeout=PATIENCE)
        self.check_pages()
        self.assertEqual([sent for sent in self.sent("tickets") if "reviewer" in str(sent)], [])

    def test_a_spine_that_loses_memories_pages_once(self):
        memories = [f"ms-{number}" for number in range(20)]
        for memory in memories:
            self.assertEqual(self.remember(memory), 201)
        for _ in range(3):
            self.ask_for(memories, 20)
        for memory in memories[:15]:
            self.assertEqual(self.caller.call("DELETE", f"/v1/memories/{memory}").status, 204)
        for _ in range(12):
            self.ask_for(memories, 5)
        body = self.wait_for_page("HandoffCompletenessCritical")
        text = body["payload"]["custom_details"]["text"]
        self.assertEqual(text.splitlines()[0], "Agents are working with degraded context")
        self.assertRegex(text.splitlines()[1], r"^Only [0-7][0-9.]*% of the memories requested in the last "
                                               r"15s made it into their envelopes; below 80 % ")
        self.assertNotIn("Agent", parts(text))
        self.check_runbook(text, "HandoffCompletenessCritical")
        self.assertIn("librarian", self.run_printed(text))
        muted = self.alertmanager.wait_for_muted(PATIENCE, alertname="HandoffCompletenessLow")
        self.assertEqual([one["labels"]["severity"] for one in muted], ["warning"])
        self.assertEqual([sent for sent in self.sent("tickets") if "HandoffCompletenessLow" in str(sent)], [])

        for memory in memories[:15]:
            self.remember(memory)
        for _ in range(200):
            self.ask_for(memories, 20)
        self.wait_for_page("HandoffCompletenessCritical", "resolve")
        self.check_pages(("trigger", "CRITICAL HandoffCompletenessCritical (handoff)"),
                         ("resolve", "RESOLVED HandoffCompletenessCritical (handoff)"))

    def remember(self, memory):
        return self.caller.call("PUT", f"/v1/memories/{memory}", {"content": f"what {memory} knows"}).status

    def ask_for(self, memories, included):
        reply = self.caller.send("librarian", memory_ids=memories)
        self.assertEqual((reply.status, reply.json()["completeness"]["included"]), (200, included))

    def test_a_killed_sidecar_pages_and_mutes_the_rest(self):
        self.receivers["writer"].do(later)
        waiting = self.caller.send_async("writer")
        self.caller.wait_for_state(waiting, "awaiting_ack")
        self.prometheus.wait_for("sum(handoff_in_flight) == 1 and sum(handoff_parked_entries) == 0",
                                 PATIENCE)
        killed = time.time()
        self.daemon.kill()
        body = self.wait_for_page("HandoffExporterDown")
        text = body["payload"]["custom_details"]["text"]
        self.assertEqual(text.splitlines()[0],
                         "Sidecar down: agents cannot hand off and nothing is measured")
        self.assertEqual(parts(text)["Waiting"], "0 parked, 1 in flight")
        self.check_since(text, killed)
        self.check_runbook(text, "HandoffExporterDown")
        muted = self.alertmanager.wait_for_muted(PATIENCE, alertname="HandoffExporterInstanceUnreachable")
        self.assertEqual([one["labels"]["instance"] for one in muted], [self.instance])

        self.start_again()
        self.wait_for_page("HandoffExporterDown", "resolve")
        self.check_pages(("trigger", "CRITICAL HandoffExporterDown (handoff)"),
                         ("resolve", "RESOLVED HandoffExporterDown (handoff)"))
        self.assertEqual([sent for sent in self.sent("tickets") if "HandoffExporter" in str(sent)], [])
        # the handoff accepted before the kill still exists
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{waiting}/ack").status, 200)

    def start_again(self):
        self.daemon.log_path.unlink()
        self.daemon.expected_exit = 0
        self.daemon.start()

    def test_a_warning_opens_a_ticket_and_does_not_page(self):
        first = self.caller.send("planner").json()["id"]
        second = self.caller.send("planner", source_agent="planner", previous_id=first).json()["id"]
        third = self.caller.send("planner", source_agent="planner", previous_id=second).json()["id"]
        self.assertEqual(self.caller.send("planner", source_agent="planner", previous_id=third).status, 422)
        sent = self.webhook.wait_for("tickets", ticket("HandoffHopLimitReached"), timeout=PATIENCE)
        attachment = sent["attachments"][0]
        self.assertEqual(attachment["title"], "WARNING HandoffHopLimitReached planner (handoff)")
        self.assertIn("planner", self.run_printed(attachment["text"]))
        self.check_runbook(attachment["text"], "HandoffHopLimitReached")
        self.assertEqual(parts(attachment["text"])["Dashboard"], attachment["title_link"])
        self.check_pages()

    def test_the_watchdog_repeats_and_only_reaches_its_receiver(self):
        seen = len(self.webhook.sent("heartbeat"))
        body = self.webhook.wait_for("heartbeat", about("HandoffWatchdog"), count=seen + 2, timeout=PATIENCE)
        self.assertEqual(body["commonLabels"]["severity"], "none")
        everything = [one for name in ("pager", "tickets", "quiet") for one in self.webhook.sent(name)]
        self.assertEqual([one for one in everything if "HandoffWatchdog" in str(one)], [])


if __name__ == "__main__":
    unittest.main()
