# SPDX-License-Identifier: Apache-2.0
"""handoffctl's commands on handoffs, against the real daemon."""

import contextlib
import datetime
import json
import os
import pty
import subprocess
import unittest

from harness import Receiver, environment
from harness.agents import Caller, daemon_with
from harness.receiver import ack, later, nack, status

HANDOFFCTL = os.environ["HANDOFFCTL"]
GONE = "01890a5d-ac96-774b-bcce-b302099a8057"
WORK = ("--from", "analyst", "--to", "coder", "--summary", "Write the retry logic")


def everything(terminal):
    """What a terminal was shown, once all writers have closed it."""
    shown = b""
    with contextlib.suppress(OSError):  # EIO is its end
        while piece := os.read(terminal, 65536):
            shown += piece
    return shown


class Case(unittest.TestCase):
    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.coder = stack.enter_context(Receiver(ack))
        self.spare = stack.enter_context(Receiver(ack))
        broken = stack.enter_context(Receiver(status(503)))
        daemon = stack.enter_context(daemon_with({
            "coder": {"url": self.coder.url}, "spare": {"url": self.spare.url}, "reviewer": {},
            "reader": {"url": self.coder.url, "accepts": ["1"], "emit": "dual"},
            "around": {"url": broken.url, "retries": 0, "alternates": ["reader", "spare"]}}))
        self.caller = Caller(daemon)
        self.url = daemon.api.url

    def ctl(self, *words, code=0, **more):
        done = subprocess.run([HANDOFFCTL, *words], text=True, capture_output=True, timeout=60,
                              check=False, env=environment(HANDOFF_API_URL=self.url), **more)
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done

    def json(self, *words, **more):
        return json.loads(self.ctl(*words, "--json", **more).stdout)

    def park(self, count=1, target="coder"):
        self.coder.do(nack("not\x1b[31m my work", retry=False))
        ids = [self.caller.send(target).json()["handoff"]["id"] for _ in range(count)]
        self.coder.do(ack)
        return ids


class Send(Case):
    def test_waits_and_says_nothing_but_the_result(self):
        done = self.ctl("send", *WORK, "--task", "task-9")
        self.assertIn("acknowledged", done.stdout)
        self.assertIn("analyst -> coder  task-9", done.stdout)
        self.assertEqual((done.stdout.count("\n"), done.stderr), (1, ""))
        self.assertEqual(self.json("send", *WORK)["state"], "acknowledged")

    def test_a_file_async_and_a_key(self):
        request = json.dumps({"source_agent": "analyst", "target_agent": "reviewer",
                              "task_id": "task-1", "task_summary": "Look at it"})
        words = ("send", "-", "--async", "--idempotency-key", "run-17")
        first = self.json(*words, input=request)
        self.assertEqual(first["state"], "ready")
        self.assertEqual(self.json(*words, input=request)["id"], first["id"])
        self.ctl(*words, "--task", "task-2", code=1, input=request)

    def test_what_is_parked_or_refused_fails(self):
        self.coder.do(status(400))
        done = self.ctl("send", *WORK, code=1)
        self.assertIn("parked (refused)", done.stdout)
        self.assertIn("handoffctl attempts", done.stderr)
        self.assertIn("unknown_agent", self.ctl("send", "--from", "analyst", "--to", "nobody",
                                                  "--summary", "Write it", code=4).stderr)

    def test_a_terminal_sees_the_attempts(self):
        self.coder.do(status(503), ack)
        ours, theirs = pty.openpty()
        try:
            done = subprocess.run([HANDOFFCTL, "send", *WORK], stdout=subprocess.PIPE,
                                  stderr=theirs, timeout=60, check=False,
                                  env=environment(HANDOFF_API_URL=self.url, NO_COLOR="1"))
            os.close(theirs)
            shown = everything(ours).decode()
        finally:
            os.close(ours)
        self.assertEqual(done.returncode, 0)
        self.assertIn("acknowledged at coder", shown)
        self.assertNotIn(b"\r", done.stdout)


class Deliver(Case):
    def assemble(self, target="coder"):
        reply = self.caller.call("POST", "/v1/envelopes", {
            "source_agent": "analyst", "target_agent": target, "task_summary": "Write the retry logic"})
        return reply.json()["id"]

    def test_an_envelope_is_delivered_once(self):
        envelope = self.assemble()
        line = self.ctl("deliver", envelope).stdout
        self.assertIn(envelope, line)
        self.assertIn("acknowledged", line)
        again = self.json("deliver", envelope)
        self.assertEqual((again["id"], again["state"]), (envelope, "acknowledged"))
        self.assertEqual(len(self.coder.requests), 1)

    def test_what_cannot_be_delivered_is_told(self):
        self.ctl("deliver", code=2)
        self.ctl("deliver", GONE, code=4)
        self.coder.do(nack("not my work", retry=False))
        self.assertIn("refused", self.ctl("deliver", self.assemble(), code=1).stderr)


class Look(Case):
    def test_status_and_attempts(self):
        [handoff] = self.park()
        self.assertRegex(self.ctl("status", handoff).stdout, r"state +parked \(refused\)\n")
        self.assertEqual(self.json("status", handoff), self.caller.state(handoff))
        shown = self.ctl("attempts", handoff).stdout
        self.assertIn("not?[31m my work", shown)
        self.assertNotIn("\x1b", shown)
        self.assertEqual(len(self.json("attempts", handoff)["items"]), 1)
        self.ctl("status", GONE, code=4)

    def test_handoffs_are_listed_cancelled_and_parked(self):
        [refused] = self.park()
        self.assertIn(refused, self.ctl("handoffs", "--state", "parked").stdout)
        self.assertIn("no handoffs", self.ctl("handoffs", "--state", "expired").stdout)
        listed = self.json("handoffs", "--task", "task-1", "--source", "analyst")
        self.assertEqual([item["id"] for item in listed["items"]], [refused])
        self.assertIn("discarded", self.ctl("cancel", refused, "--reason", "over").stdout)
        self.assertEqual(self.caller.state(refused)["reason"], "over")
        self.ctl("park", refused, code=2)
        self.ctl("park", refused, "--reason", "no", code=1)

    def test_who_was_passed_over_is_shown_with_why(self):
        handoff = self.caller.send("around", task_id="task-8").json()["id"]
        shown = self.ctl("attempts", handoff).stdout.splitlines()
        self.assertRegex(shown[1], r"^ +1  \S+ +\d+\.\d{3} s  around +http +503 ")
        self.assertRegex(shown[2], r"^    error: \w")
        self.assertRegex(shown[3], r"^ +-  \S+ +- +reader +passed_over +- *$")
        self.assertEqual(shown[4], "    error: version")
        self.assertRegex(shown[5], r"^ +2  .* spare +ack +200 ")
        [line] = self.ctl("task", "task-8").stdout.splitlines()
        self.assertTrue(line.endswith(f"{handoff}  passed over reader (version)"), line)
        [passed] = self.json("task", "task-8")["items"][0]["passed_over"]
        self.assertEqual((passed["target_agent"], passed["error"]), ("reader", "version"))

    def test_a_text_does_not_turn_the_direction_of_the_terminal(self):
        bidi = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
        self.coder.do(nack(f"a{bidi}\x9bb\u2026\u2030\u2070\u20acض", retry=False))
        handoff = self.caller.send("coder").json()["handoff"]["id"]
        shown = self.ctl("attempts", handoff).stdout
        self.assertIn("a" + "?" * (len(bidi) + 1) + "b\u2026\u2030\u2070\u20acض", shown)

    def test_a_task_is_a_tree(self):
        first = self.json("send", *WORK, "--task", "task-7")["id"]
        second = self.json("send", "--from", "coder", "--to", "spare", "--summary", "Check it",
                           "--task", "task-7", "--previous", first)["id"]
        root, child = self.ctl("task", "task-7").stdout.splitlines()
        self.assertRegex(root, f"^analyst -> coder  acknowledged  hop 1 .*{first}$")
        self.assertRegex(child, f"^`- coder -> spare  acknowledged  hop 2 .*{second}$")
        self.assertEqual([h["previous_id"] for h in self.json("task", "task-7")["items"]],
                         [None, first])
        self.assertEqual(self.ctl("task", second).stdout, self.ctl("task", "task-7").stdout)
        self.ctl("task", "none", code=4)

    def test_a_task_is_completed(self):
        first = self.json("send", *WORK, "--task", "task-7")["id"]
        self.json("send", "--from", "coder", "--to", "spare", "--summary", "Check it",
                  "--task", "task-7", "--previous", first)
        self.assertEqual(self.json("task", "task-7")["task"],
                         {"task_id": "task-7", "completed_at": None, "handoffs": None})
        line = self.ctl("task", "complete", "task-7").stdout
        self.assertRegex(line, "^completed at 20[0-9TZ:.-]+ after 2 handoffs\n$")
        self.assertEqual(self.ctl("task", "complete", "task-7").stdout, line)
        self.assertEqual(self.ctl("task", "task-7").stdout.splitlines()[2] + "\n", line)
        self.assertEqual(self.json("task", "task-7")["task"]["handoffs"], 2)
        self.assertEqual(self.json("task", "complete", "task-7")["handoffs"], 2)
        self.ctl("task", "complete", "none", code=4)
        self.ctl("task", "end", "task-7", code=2)

    def test_agents_and_reset(self):
        self.assertRegex(self.ctl("agents").stdout, r"\ncoder +push +closed ")
        self.assertEqual(len(self.json("agents")["items"]), 5)
        self.ctl("agents", "reset", "coder")
        self.ctl("agents", "reset", "nobody", code=4)

    def test_wrong_usage_help_and_no_sidecar(self):
        for words in (("status",), ("parked",), ("parked", "replay"), ("parked", "discard", GONE),
                      ("parked", "replay", "--target", "coder", "--rate", "0"),
                      ("agents", "rest"), ("inbox",), ("ack", GONE, "more"), ("send",)):
            self.ctl(*words, code=2)
        for name in ("send", "handoffs", "status", "attempts", "task", "inbox", "ack", "nack", "cancel",
                     "park", "parked list", "agents"):
            self.assertIn("xample", self.ctl(*name.split(), "--help").stdout)
        self.ctl("agents", "--api.url", "unix:/nothing/here", code=3)
        self.assertIn("up to 1m", self.ctl("inbox", "reviewer", "--wait", "90s", code=1).stderr)

    def test_an_error_is_shown_without_its_control_characters(self):
        done = self.ctl("status", "a\x1b[31mb\u202ec", code=4)
        self.assertIn("seen a?[31mb?c", done.stderr)
        done = self.ctl("inbox", "reviewer", "--wait", "soon", code=1)
        self.assertIn("(wait: seen soon, allowed a duration up to 1m, such as 20s)", done.stderr)

    def test_what_could_not_be_written_is_no_success(self):
        handoff = self.caller.send("coder").json()["id"]
        for words in (("agents", "--json"), ("status", handoff), ("--help",), ("--version",)):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([HANDOFFCTL, *words], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60, check=False,
                                      env=environment(HANDOFF_API_URL=self.url))
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("No space left on device", done.stderr)


class Answer(Case):
    def test_an_inbox_and_its_acknowledgement(self):
        self.assertIn("no handoff", self.ctl("inbox", "reviewer", code=4).stderr)
        handoff = self.caller.send_async("reviewer")
        shown = self.ctl("inbox", "reviewer", "--wait", "20s").stdout
        self.assertIn(f"handoff {handoff}, attempt 1", shown)
        self.assertIn("Write the retry logic", shown)
        self.assertEqual(self.json("ack", handoff)["state"], "acknowledged")
        second = self.caller.send_async("reviewer")
        taken = self.json("inbox", "reviewer", "--wait", "20s", "--ack")
        self.assertEqual(taken["id"], second)
        self.assertEqual(self.caller.state(second)["state"], "acknowledged")

    def test_nacks(self):
        self.coder.do(later)
        handoff = self.caller.send_async()
        self.caller.wait_for_state(handoff, "awaiting_ack")
        self.ctl("nack", handoff, "--reason", "busy")
        self.coder.wait_for(2)
        self.caller.wait_for_state(handoff, "awaiting_ack")
        self.assertEqual(self.json("nack", handoff, "--final")["state"], "parked")


class Expired(Case):
    def test_they_are_listed_beside_the_parked_ones(self):
        self.assertEqual(self.ctl("parked", "list", "--expired").stdout, "nothing has expired\n")
        [parked] = self.park()
        soon = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=0.3)).isoformat()
        expired = self.caller.send_async("reviewer", constraints={"deadline": soon})
        self.caller.wait_for_state(expired, "expired")
        head, line, *_ = self.ctl("parked", "list", "--expired").stdout.splitlines()
        self.assertTrue(head.startswith("ID") and "EXPIRED" in head, head)
        self.assertTrue(line.startswith(expired) and line.endswith("task-1"), line)
        self.assertNotIn(parked, line)
        self.assertEqual([one["id"] for one in self.json("parked", "list", "--expired")["items"]], [expired])
        self.assertIn("nothing has", self.ctl("parked", "list", "--expired", "--target", "coder").stdout)
        self.assertNotIn(expired, self.ctl("parked", "list").stdout)
        self.ctl("parked", "list", "--expired", "--reason", "refused", code=2)


class Parked(Case):
    def test_list_show_and_discard(self):
        self.assertEqual(self.ctl("parked", "list").stdout, "nothing is parked\n")
        first, second = self.park(2)
        self.assertEqual([h["id"] for h in self.json("parked", "list", "--target", "coder")["items"]],
                         [first, second])
        self.assertIn("more: --cursor", self.ctl("parked", "list", "--limit", "1").stdout)
        shown = self.json("parked", "show", first)
        self.assertEqual((shown["handoff"]["id"], len(shown["attempts"]["items"])), (first, 1))
        self.assertIn("ATTEMPT", self.ctl("parked", "show", first).stdout)
        self.ctl("parked", "discard", first, "--reason", "task is over")
        self.assertEqual([h["id"] for h in self.json("parked", "list")["items"]], [second])

    def test_replay_of_one_to_another(self):
        [handoff] = self.park()
        self.ctl("parked", "replay", handoff, "--to", "spare")
        self.caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual([r.id for r in self.spare.requests], [handoff])
        self.ctl("parked", "replay", handoff, code=1)

    def test_replay_of_one_edited(self):
        [handoff] = self.park()
        edit = self.folder_file("edit.json", '{"task_summary": "Only the backoff"}')
        new = self.json("parked", "replay", handoff, "--to", "spare", "--edit", edit)["id"]
        self.caller.wait_for_state(new, "acknowledged")
        self.assertEqual(self.spare.requests[0].json()["context"]["task"]["summary"],
                         "Only the backoff")
        self.assertEqual(self.caller.state(handoff)["reason"], f"replaced by {new}")
        broken = self.folder_file("broken.json", "{")
        self.assertIn("broken.json", self.ctl("parked", "replay", new, "--edit", broken,
                                              code=1).stderr)

    def folder_file(self, name, text):
        path = self.caller.daemon.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_replay_of_all_of_an_agent(self):
        ids = self.park(5)
        done = self.ctl("parked", "replay", "--target", "coder", "--rate", "1000")
        self.assertTrue(done.stdout.endswith("5 replayed, 0 skipped\n"), done.stdout)
        for handoff in ids:
            self.caller.wait_for_state(handoff, "acknowledged")


if __name__ == "__main__":
    unittest.main()
