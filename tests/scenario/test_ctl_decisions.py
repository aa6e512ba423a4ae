# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""What is parked, by words and by cause, and what was decided about it, from a shell."""

import concurrent.futures
import contextlib
import json
import os
import subprocess
import unittest

from harness import Receiver, environment
from harness.agents import Caller, daemon_with
from harness.receiver import ack, nack

HANDOFFCTL = os.environ["HANDOFFCTL"]


class Case(unittest.TestCase):
    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.coder = stack.enter_context(Receiver(ack))
        daemon = stack.enter_context(daemon_with({"coder": {"url": self.coder.url, "breaker": {"failures": 2, "cooldown": "1h"}},
                                                  "spare": {"url": self.coder.url},
                                                  "tiny": {"url": self.coder.url, "token_budget": 64}}))
        self.caller = Caller(daemon)
        self.env = {"HANDOFF_API_URL": daemon.api.url, "USER": "alice"}

    def ctl(self, *words, code=0):
        done = subprocess.run([HANDOFFCTL, *words], text=True, capture_output=True, timeout=60, check=False,
                              env=environment(**self.env))
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done.stdout

    def park(self, words, **fields):
        self.coder.do(nack(words, retry=False))
        handoff = self.caller.send("coder", **fields).json()["handoff"]["id"]
        self.coder.do(ack)
        return handoff


class Parked(Case):
    def test_the_list_has_the_summary_and_the_error(self):
        handoff = self.park("the disk is full", task_summary="Write the retry logic")
        _, row, summary, error = self.ctl("parked", "list").splitlines()
        self.assertTrue(row.startswith(handoff), row)
        self.assertEqual((summary, error), ("    summary: Write the retry logic", "    error: the disk is full"))
        self.assertLessEqual(max(map(len, self.ctl("parked", "list").splitlines())), 100)

    def test_words_and_causes_narrow_it(self):
        full, other = self.park("the disk is full"), self.park("not my work", task_id="task-2")
        self.assertEqual(self.ctl("parked", "list", "--query", "disk full", "-o", "name"), full + "\n")
        self.assertEqual(self.ctl("parked", "list", "--error", "not my work", "-o", "name"), other + "\n")
        self.assertEqual(self.ctl("parked", "list", "--task", "task-2", "-o", "name"), other + "\n")
        self.ctl("parked", "list", "--expired", "--query", "x", code=2)

    def test_groups_by_cause_the_largest_first(self):
        self.park("not my work")
        ids = [self.park("the disk is full") for _ in range(2)]
        lines = self.ctl("parked", "groups").splitlines()
        self.assertRegex(lines[1], rf"^ +2  coder +refused +\d+s +\d+s  (?:{'|'.join(ids)})$")
        self.assertEqual(lines[2], "    error: the disk is full")
        self.assertRegex(lines[3], r"^ +1  coder +refused ")
        self.assertEqual(self.ctl("parked", "groups", "--query", "nowhere"), "nothing is parked\n")
        self.assertEqual(json.loads(self.ctl("parked", "groups", "--json"))["total"], 3)

    def test_a_preview_says_what_is_in_the_way(self):
        handoff = self.park("the disk is full", task_summary="Write the retry logic. " * 50)
        self.assertNotIn("cannot", self.ctl("parked", "replay", "--target", "coder", "--dry-run"))
        in_the_way = f"cannot be delivered now: {handoff}: budget_too_small: "
        shown = self.ctl("parked", "replay", "--target", "coder", "--to", "tiny", "--dry-run")
        self.assertIn(in_the_way, shown)
        self.assertIn("\n1 of 1 cannot be delivered now: budget_too_small (1)\n", shown)
        self.assertIn(in_the_way, self.ctl("parked", "replay", handoff, "--to", "tiny", "--dry-run"))
        self.assertEqual(self.caller.state(handoff)["state"], "parked")


class Decisions(Case):
    def test_who_decided_what_and_why(self):
        first, second = self.park("the disk is full"), self.park("the disk is full")
        self.assertEqual(self.ctl("decisions"), "no decisions\n")
        self.ctl("parked", "discard", first, "--reason", "task is over")
        self.ctl("parked", "replay", second, "--to", "spare", "--why", "it has room")
        head, *rows = self.ctl("decisions").splitlines()
        self.assertRegex(head, "^ *AGE  ACTION +HANDOFF +BY +REASON$")
        self.assertRegex(rows[0], rf"^ *\d+s  redirect  {second}  alice  +it has room$")
        self.assertRegex(rows[1], rf"^ *\d+s  discard +{first}  alice  +task is over$")
        self.assertEqual(self.ctl("decisions", "--action", "discard", "-o", "name"), first + "\n")
        shown = self.ctl("show", first)
        self.assertRegex(shown, rf"\nDECISIONS\n\n.*\n *\d+s  discard  {first}  alice")
        self.assertEqual([one["reason"] for one in json.loads(self.ctl("show", first, "--json"))["decisions"]["items"]],
                         ["task is over"])

    def test_those_of_a_handoff_or_a_person(self):
        first, second = self.park("the disk is full"), self.park("the disk is full")
        self.ctl("parked", "discard", first, "--reason", "task is over")
        self.env["USER"] = "bob"
        self.ctl("parked", "discard", second, "--reason", "task is over")
        self.assertEqual(self.ctl("decisions", "--by", "bob", "-o", "name"), second + "\n")
        self.assertEqual(self.ctl("decisions", "--handoff", second[:-1], "-o", "name"), second + "\n",
                         "the beginning of an id is enough")
        self.assertEqual(self.ctl("decisions", "--until", "2020-01-01T00:00:00Z"), "no decisions\n")

    def exported(self, *words):
        return [json.loads(line) for line in self.ctl("decisions", "export", *words).splitlines()]

    def test_all_as_json_lines_oldest_first(self):
        self.assertEqual(self.exported(), [])
        handoffs = [self.park("the disk is full") for _ in range(3)]
        for handoff in handoffs[:2]:
            self.ctl("parked", "discard", handoff, "--reason", "task is\nover")
        lines = self.exported()
        self.assertEqual([line["handoff_id"] for line in lines], handoffs[:2])
        self.assertEqual(lines, self.caller.call("GET", "/v1/decisions?order=oldest").json()["items"])
        self.ctl("parked", "discard", handoffs[2], "--reason", "too")
        self.assertEqual([line["handoff_id"] for line in self.exported("--after", str(lines[-1]["id"]))], handoffs[2:])
        self.assertEqual(self.exported("--since", lines[1]["at"]), self.exported()[1:])

    def test_more_than_a_page_of_them_are_exported(self):
        request = {"request": {"source_agent": "analyst", "target_agent": "coder", "task_id": "many", "task_summary": "x"},
                   "reason": "look at it"}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: self.caller.call("POST", "/v1/parked", request), range(1001)))
        self.assertEqual({reply.status for reply in replies}, {200})
        self.ctl("parked", "discard", "--task", "many", "--reason", "no")
        lines = self.exported()
        self.assertEqual(sorted(line["handoff_id"] for line in lines if line["action"] == "discard"),
                         sorted(reply.json()["id"] for reply in replies))
        self.assertEqual([line["id"] for line in lines], sorted({line["id"] for line in lines}))

    def test_the_second_of_two_is_told_who_was_first(self):
        handoff = self.park("the disk is full")
        self.ctl("parked", "discard", handoff, "--reason", "task is over")
        done = subprocess.run([HANDOFFCTL, "parked", "replay", handoff], text=True, capture_output=True, timeout=60,
                              check=False, env=environment(**self.env))
        self.assertEqual(done.returncode, 1)
        self.assertIn("alice", done.stderr)
        self.assertIn("task is over", done.stderr)

    def test_a_fourth_replay_asks_for_a_second_word(self):
        handoff = self.park("the disk is full")
        self.ctl("agents", "reset", "coder")
        self.coder.do(nack("the disk is full", retry=False))
        for _ in range(3):
            self.ctl("parked", "replay", handoff)
            self.caller.wait_for_state(handoff, "parked")
        self.ctl("parked", "replay", handoff, code=1)
        self.ctl("parked", "replay", handoff, "--again")


if __name__ == "__main__":
    unittest.main()
