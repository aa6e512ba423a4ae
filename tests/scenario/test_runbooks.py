# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/runbooks and of the alerts, run as they are printed, against a real sidecar in a bad hour.

Each page is gone through as a person would: its blocks in order in one shell, then each command that
its sentences name. Before each run the sidecar has what the pages talk about: a broken agent called
code-generator with parked handoffs, a task called task-42, memories, an agent that works.
"""

import datetime
import os
import pathlib
import re
import unittest

import yaml

from harness import Receiver, eventually
from harness.agents import Caller, daemon_with
from harness.receiver import Hold, ack, nack, status
from harness.shell import Shell

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
PAGES = sorted((TOP / "docs/runbooks").glob("Handoff*.md"))

# What a sentence leaves for the reader to fill in.
# what a replay says on stderr and does all the same
NOTES = re.compile(r"^\S+: it is beyond the hop limit .*\n", re.MULTILINE)
FILL_IN = {"FILE": "/etc/handoff-exporter.yml", "TASK": "task-42", "AGENT": "code-generator",
           "OTHER": "reviewer", "CHANNEL": "oauth-migration", "ID": '"$ID"'}


def in_half_a_second():
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=0.5)
    return soon.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def blocks(text):
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def in_sentences(text):
    """Commands between backticks, outside of the blocks, also where a line was broken."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = [re.sub(r"\s+", " ", span) for span in re.findall(r"`([^`]+)`", text)]
    return [span for span in spans if re.match(r"(handoffctl|curl) ", span)]


def filled_in(command):
    """The placeholders, replaced; "$NAME" is a variable of the blocks before."""
    for word, value in FILL_IN.items():
        command = re.sub(rf'(?<![\w"$]){word}\b', value, command)
    return command


class Runbooks(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.broken = self.enterContext(Receiver(status(503)))
        self.well = self.enterContext(Receiver(ack))
        self.daemon = self.enterContext(daemon_with(
            {"code-generator": {"url": self.broken.url, "retries": 1,
                                "breaker": {"failures": 3, "cooldown": "10ms"}},
             "analyst": {"url": self.well.url}, "reviewer": {"url": self.well.url}},
            hops={"max": 2}, channels={"oauth-migration": {"receivers": ["code-generator", "reviewer"]}}))
        self.caller = Caller(self.daemon)
        self.shell = self.enterContext(Shell(self.daemon))
        for number in range(3):
            self.caller.call("PUT", f"/v1/memories/ms-{number}", {"content": "the gateway retries"})

    def refuse_and_expire(self):
        self.broken.do(nack("no room", retry=False))
        assert self.caller.send("code-generator").status == 502
        hold = Hold()
        self.broken.do(hold)
        reply = self.caller.send("code-generator", constraints={"deadline": in_half_a_second()})
        assert reply.status == 504, reply
        hold.release()

    def bad_hour(self, only_failures=False):
        """code-generator fails three times in a row; task-42 got stuck there, and goes in circles."""
        self.broken.do(ack)
        eventually(self.is_idle, "what was replayed has arrived")  # or it would fail, and open the circuit
        for handoff in self.caller.parked()["items"]:
            self.caller.call("DELETE", f"/v1/parked/{handoff['id']}")
        self.caller.call("POST", "/v1/agents/code-generator/reset", {})
        if not only_failures:
            self.refuse_and_expire()
        self.broken.do(status(503))
        first = self.caller.send("analyst", task_id="task-42", new_chain=True, memory_ids=["ms-1", "ms-lost"]).json()["id"]
        for _ in range(3):
            reply = self.caller.send("code-generator", task_id="task-42", previous_id=first,
                                     source_agent="analyst", memory_ids=["ms-1", "ms-lost"])
            assert reply.status == 502, reply
        second = self.caller.send("reviewer", previous_id=first, source_agent="analyst", task_id="task-42")
        reply = self.caller.send("analyst", previous_id=second.json()["id"], source_agent="reviewer",
                                 task_id="task-42")
        assert reply.status == 422, reply

    def is_idle(self):
        agents = self.caller.call("GET", "/v1/agents").json()["items"]
        return all(agent["in_flight"] == 0 for agent in agents)

    def run_script(self, script):
        script = script.replace("/etc/handoff-exporter.yml", str(self.daemon.config_path))
        done = self.shell.run(script)
        self.assertEqual((done.returncode, NOTES.sub("", done.stderr)), (0, ""), f"{script}\n{done.stdout}")
        self.assertNotRegex(done.stdout, re.compile(r'"code":|^null$', re.MULTILINE), script)
        return done.stdout

    def test_commands_in_blocks_work_as_printed(self):
        for page in PAGES:
            with self.subTest(page.stem):
                self.bad_hour()
                found = blocks(page.read_text(encoding="utf-8"))
                self.assertTrue(found)
                self.assertNotEqual(self.run_script("".join(found)).strip(), "")

    def test_commands_in_sentences_work_after_those_in_blocks(self):
        tried = set()
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            for command in in_sentences(text):
                with self.subTest(page.stem, command=command):
                    self.bad_hour()
                    before = "".join(blocks(text)) if "$" in filled_in(command) else ""
                    self.run_script(before)
                    self.broken.do(ack)  # the agent has recovered by the time the reader acts
                    self.run_script(before + filled_in(command))
                    tried.add(command.split(" ")[0])
        self.assertEqual(tried, {"handoffctl", "curl"})

    def test_commands_of_the_alerts_work_as_printed(self):
        """Whatever an alert tells to type, with the labels that it has."""
        labels = {"target_agent": "code-generator", "receiver": "code-generator", "channel": "oauth-migration",
                  "instance": self.daemon.web.address, "call": "send_handoff", "code": "invalid_request"}
        groups = yaml.safe_load((TOP / "alerts/handoff-alerts.yml").read_text(encoding="utf-8"))["groups"]
        self.bad_hour()
        for rule in (rule for group in groups for rule in group["rules"]):
            command = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: labels[label[1]],
                             rule["annotations"]["command"])
            command = command.replace('{{ $value | printf "%.0f" }}', "1860")
            command = re.sub(r"\{\{ if eq [^}]* \}\}(.*?)\{\{ end \}\}", r"\1", command)  # the longer one
            with self.subTest(rule["alert"]):
                self.assertNotIn("{{", command)
                self.assertNotEqual(self.run_script(command).strip(), "")

    def test_what_is_shown_is_what_happened(self):
        """One page in full: who failed, how often, and what each attempt ended with."""
        self.bad_hour(only_failures=True)
        page = (TOP / "docs/runbooks/HandoffCircuitOpen.md").read_text(encoding="utf-8")
        shown = self.run_script("".join(blocks(page)))
        self.assertRegex(shown, r"(?m)^code-generator +push +(open|half_open) +3 ")
        self.assertEqual(len(re.findall(r"(?m)^[0-9a-f-]{36} .* code-generator +exhausted +2 ", shown)), 3)
        self.assertEqual(len(re.findall(r"(?m)^ *[12] .*\b503\b", shown)), 2, shown)
        self.broken.do(ack)
        self.run_script("AGENT=code-generator; " + in_sentences(page)[-1])
        eventually(lambda: self.caller.parked("?target=code-generator")["items"] == [], "nothing is parked for it any more")

    def test_a_command_that_does_not_work_is_found(self):
        self.bad_hour()
        for script in ("handoffctl agent", "handoffctl parked list --agent x", "handoffctl status 1",
                       "curl -s http://127.0.0.1:8780/v1/nothing",
                       "handoffctl status $(handoffctl parked list | sed -n '1s/ .*//p')"):
            with self.subTest(script), self.assertRaises(AssertionError):
                self.run_script(script)


if __name__ == "__main__":
    unittest.main()
