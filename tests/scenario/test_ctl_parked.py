# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""An operator's decisions from a shell: previews, a canary, progress, what was skipped and why, an edit."""

import contextlib
import datetime
import json
import os
import pathlib
import pty
import re
import subprocess
import unittest

from harness import Receiver, environment, eventually
from harness.agents import Caller, daemon_with
from harness.receiver import ack, nack

HANDOFFCTL = os.environ["HANDOFFCTL"]


class Case(unittest.TestCase):
    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.coder = stack.enter_context(Receiver(ack))
        daemon = stack.enter_context(daemon_with({"coder": {"url": self.coder.url}, "reviewer": {}}))
        self.folder = daemon.folder
        self.caller = Caller(daemon)
        self.env = {"HANDOFF_API_URL": daemon.api.url}

    def ctl(self, *words, code=0, stdin="", **variables):
        done = subprocess.run([HANDOFFCTL, "parked", *words], text=True, capture_output=True, timeout=60, check=False,
                              input=stdin, env=environment(**{**self.env, **variables}))
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done

    def park(self, count=1, **fields):
        self.coder.do(nack("the disk is full", retry=False))
        ids = [self.caller.send("coder", **fields).json()["handoff"]["id"] for _ in range(count)]
        self.coder.do(ack)
        return ids

    def parked(self):
        return [one["id"] for one in self.caller.parked()["items"]]


class Many(Case):
    def test_several_that_are_named(self):
        first, second, third = self.park(3)
        self.ctl("discard", first, "--reason", "over")
        done = self.ctl("replay", first, second, code=1)
        self.assertIn(second, done.stdout)
        self.assertIn(f"skipped {first}\n", done.stderr)
        self.caller.wait_for_state(second, "acknowledged")
        done = self.ctl("discard", second, third, "--reason", "over", code=1)
        self.assertIn(f"skipped {second}\n", done.stderr)
        self.assertEqual(self.caller.state(third)["reason"], "over")

    def test_a_preview_does_nothing(self):
        ids = self.park(3)
        for verb, end in (("replay", "3 would be replayed\n"), ("discard", "3 would be discarded\n")):
            shown = self.ctl(verb, "--target", "coder", "--dry-run").stdout
            self.assertTrue(shown.endswith(end), shown)
            self.assertEqual([handoff for handoff in ids if handoff not in shown], [])
            self.assertEqual(self.ctl(verb, "--target", "coder", "--dry-run", "--limit", "2", "-o", "name").stdout.split(), ids[:2])
        self.assertEqual(self.ctl("replay", "--target", "reviewer", "--dry-run").stdout, "0 would be replayed\n")
        self.assertEqual(self.parked(), ids)

    def test_a_misspelt_agent_is_no_success(self):
        ids = self.park()
        for words in (("replay", "--target", "codr"), ("replay", "--target", "codr", "--dry-run"),
                      ("discard", "--target", "codr", "--reason", "over"), ("list", "--target", "codr"),
                      ("replay", "--target", "coder", "--to", "codr")):
            done = self.ctl(*words, code=4)
            self.assertIn("unknown_agent", done.stderr, words)
            self.assertIn("seen codr, allowed coder (the nearest name)", done.stderr, words)
        self.assertEqual(self.parked(), ids)

    def test_a_canary_that_fails_keeps_the_others(self):
        ids = self.park(3)
        self.coder.do(nack("the disk is full", retry=False))
        done = self.ctl("replay", "--target", "coder", "--canary", code=1)
        self.assertIn(f"not acknowledged: parked (refused), see handoffctl attempts {ids[0]}", done.stderr)
        self.assertIn("the canary failed; the others are still parked", done.stderr)
        self.assertEqual(self.parked(), ids)
        self.assertEqual(len(self.coder.requests), 4)  # three were refused before, then only the canary
        self.coder.do(ack)
        done = self.ctl("replay", "--target", "coder", "--canary", "--rate", "1000")
        self.assertTrue(done.stdout.endswith("2 replayed, 0 skipped\n"), done.stdout)
        eventually(lambda: len(self.coder.requests) == 7, "all three arrived")

    def test_what_is_skipped_is_named_and_fails(self):
        soon = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)).isoformat()
        [late] = self.park(task_id="late", constraints={"deadline": soon})
        ids = self.park(2)
        eventually(lambda: datetime.datetime.now(datetime.timezone.utc).isoformat() > soon, "the deadline has passed")
        done = self.ctl("replay", "--target", "coder", "--rate", "1000", code=1)
        self.assertIn("2 replayed, 1 skipped\n", done.stdout)
        self.assertEqual(done.stderr, f"handoffctl parked replay: skipped {late}: its deadline has passed\n")
        self.assertEqual(self.parked(), [late])
        for handoff in ids:
            self.caller.wait_for_state(handoff, "acknowledged")

    def test_all_of_an_agent_are_discarded(self):
        ids = self.park(3)
        self.assertEqual(self.ctl("discard", "--target", "coder", "--cause", "exhausted", "--reason", "over").stdout,
                         "0 discarded, 0 skipped\n")
        self.assertEqual(self.ctl("discard", "--target", "coder", "--cause", "refused", "--limit", "2", "--reason",
                                  "over").stdout, "2 discarded, 0 skipped\n")
        self.assertEqual(self.parked(), ids[2:])

    def test_wrong_usage(self):
        for words in (("replay", "x", "--target", "coder"), ("replay", "x", "--canary"), ("discard", "--target", "coder"),
                      ("discard", "--reason", "x"), ("discard", "x", "--dry-run", "--reason", "x"),
                      ("replay", "x", "y", "--edit", "f")):
            self.assertIn("usage: handoffctl parked", self.ctl(*words, code=2).stderr)

    def test_a_terminal_sees_how_far_it_is(self):
        self.park(4)
        ours, theirs = pty.openpty()
        done = subprocess.Popen([HANDOFFCTL, "parked", "replay", "--target", "coder", "--rate", "10"], stderr=theirs,
                                stdout=subprocess.PIPE, env=environment(**self.env))
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # EIO is its end
            while piece := os.read(ours, 65536):
                shown += piece
        os.close(ours)
        self.assertEqual(done.communicate(timeout=60)[0], b"4 replayed, 0 skipped\n")
        self.assertRegex(shown.decode(), r"\r\x1b\[Kreplayed \d of 4 \(\d+ %\)")
        self.assertRegex(shown.decode(), r"replayed 4 of 4 \(100 %\), 0 s left\r\n$")


class Edit(Case):
    def editor(self, script):
        path = self.folder / "editor"
        path.write_text("#!/bin/sh\n" + script, encoding="utf-8")
        path.chmod(0o755)
        return {"EDITOR": str(path), "TMPDIR": str(self.folder), "VISUAL": ""}

    def kept(self):
        return list(self.folder.glob("handoff-*.json"))

    def test_a_changed_field_is_shown_and_sent(self):
        [handoff] = self.park(task_summary="Write the retry logic", constraints={"style": "plain"})
        done = self.ctl("edit", handoff, stdin="y\n", **self.editor("sed -i 's/retry logic/backoff/' \"$1\""))
        self.assertIn('- task_summary: "Write the retry logic"\n+ task_summary: "Write the backoff"\n', done.stderr)
        self.assertNotIn("constraints", done.stderr)
        new = done.stdout.split()[0]
        self.caller.wait_for_state(new, "acknowledged")
        context = self.coder.requests[-1].json()["context"]
        self.assertEqual((context["task"]["summary"], context["constraints"]["style"]), ("Write the backoff", "plain"))
        self.assertEqual(self.caller.state(handoff)["reason"], f"replaced by {new}")
        self.assertEqual(self.kept(), [])

    def test_only_what_the_request_itself_said_is_shown_and_sent(self):
        first = self.caller.send_async(task_summary="Look", constraints={"max_cost": 5}, task_id="chain",
                                       state={"decisions": ["theirs"], "unresolved": ["why?"], "progress": "half"})
        [handoff] = self.park(task_summary="Write", constraints={"style": "plain"}, task_id="chain", previous_id=first,
                              state={"decisions": ["ours"], "notes": "short"})
        done = self.ctl("edit", handoff, "--yes", **self.editor(
            'cp "$1" "$TMPDIR/shown"; sed -i \'s/"ours"/"better"/\' "$1"'))
        shown = json.loads((self.folder / "shown").read_text(encoding="utf-8"))
        self.assertEqual((shown["constraints"], shown["state"]),
                         ({"style": "plain"}, {"decisions": ["ours"], "notes": "short"}))
        new = self.caller.call("GET", f"/v1/handoffs/{done.stdout.split()[0]}/envelope").json()
        self.assertEqual(new["context"]["constraints"], {"max_cost": 5, "style": "plain"})
        self.assertEqual(new["context"]["task"]["state"]["decisions"], ["theirs", "better"])
        ledger = self.caller.call("GET", f"/v1/envelopes/{new['id']}/ledger?kind=decision").json()["items"]
        self.assertEqual([(item["value"], item["envelope_id"] == first) for item in ledger],
                         [("theirs", True), ("better", False)])

    def test_nothing_is_sent_without_a_change_or_consent(self):
        [handoff] = self.park()
        self.assertIn("nothing was changed", self.ctl("edit", handoff, **self.editor("true")).stderr)
        self.assertEqual(self.kept(), [])
        done = self.ctl("edit", handoff, code=1, **self.editor("sed -i 's/logic/x/' \"$1\""))
        self.assertIn("Send it? [y/N]", done.stderr)
        self.assertEqual(len(self.kept()), 1)
        self.assertIn("the editor failed", self.ctl("edit", handoff, code=1, **self.editor("exit 3")).stderr)
        self.assertEqual(self.parked(), [handoff])

    def test_what_cannot_be_sent_is_kept_and_can_be_sent_later(self):
        [handoff] = self.park()
        self.assertRegex(self.ctl("edit", handoff, code=1, **self.editor('echo "{" >"$1"')).stderr, r"json: .* at byte \d+")
        done = self.ctl("edit", handoff, "--yes", code=1, **self.editor("sed -i 's/logic/x/; 2i \"colour\": 1,' \"$1\""))
        self.assertIn("colour", done.stderr)
        path = re.search(r"what you wrote is in (\S+);", done.stderr)[1]
        self.assertIn("Write the retry x", pathlib.Path(path).read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
