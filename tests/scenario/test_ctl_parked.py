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
        self.daemon = stack.enter_context(daemon_with({"coder": {"url": self.coder.url}, "reviewer": {}},
                                                           addresses={"api": "unix:api.sock"}))  # the same after a restart
        self.folder = self.daemon.folder
        self.caller = Caller(self.daemon)
        self.env = {"HANDOFF_API_URL": f"unix:{self.folder / 'api.sock'}"}

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

    def jobs(self):
        return self.caller.call("GET", "/v1/jobs").json()["items"]

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
        [stopped] = self.jobs()
        self.assertEqual((stopped["state"], stopped["done"]), ("stopped", 1))
        done = self.ctl("replay", "--target", "coder", "--canary", "--rate", "1000")
        self.assertEqual(done.stdout, "3 replayed, 0 skipped\n")
        eventually(lambda: len(self.coder.requests) == 7, "all three arrived")

    def test_what_is_skipped_is_named_and_fails(self):
        soon = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)).isoformat()
        [late] = self.park(task_id="late", constraints={"deadline": soon})
        ids = self.park(2)
        eventually(lambda: datetime.datetime.now(datetime.timezone.utc).isoformat() > soon, "the deadline has passed")
        done = self.ctl("replay", "--target", "coder", "--rate", "1000", code=1)
        self.assertIn("2 replayed, 1 skipped\n", done.stdout)
        self.assertRegex(done.stderr, rf"^1 of 3 cannot be delivered now: \w+ \(1\)\nhandoffctl parked replay: skipped {late}: .*deadline.*\n$")
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
                      ("replay", "x", "y", "--edit", "f"), ("replay",), ("replay", "--all", "x"), ("discard", "x", "--canary", "--reason", "x")):
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
        self.assertRegex(shown.decode(), r"^handoffctl parked replay: job [0-9a-f-]{36}; it continues if this is interrupted\r\n")
        self.assertRegex(shown.decode(), r"\r\x1b\[Kreplayed \d of 4 \(\d+ %\)")
        self.assertRegex(shown.decode(), r"replayed 4 of 4 \(100 %\)(, 0 s left)?\r\n$")


class Jobs(Case):
    """Of many it is a job of the sidecar: the same that the API and the page know."""

    def jobs_ctl(self, *words, code=0):
        done = subprocess.run([HANDOFFCTL, "jobs", *words], text=True, capture_output=True, timeout=60, check=False,
                              env=environment(**self.env))
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done

    def test_it_is_selected_as_lists_are(self):
        [disk] = self.park(task_id="task-7")
        self.coder.do(nack("not my work", retry=False))
        other = self.caller.send("coder", source_agent="writer").json()["handoff"]["id"]
        self.coder.do(ack)
        for words, ids in ((("--query", "disk full"), [disk]), (("--error", "not my work"), [other]), (("--task", "task-7"), [disk]),
                           (("--source", "writer"), [other]), (("--since", "2100-01-01T00:00:00Z"), []),
                           (("--until", "2100-01-01T00:00:00Z"), [disk, other]), (("--all",), [disk, other])):
            self.assertEqual(self.ctl("replay", *words, "--dry-run", "-o", "name").stdout.split(), ids, words)
        self.assertEqual(self.ctl("list", "--until", "2100-01-01T00:00:00Z", "-o", "name").stdout.split(), [disk, other])
        self.assertEqual(self.ctl("discard", "--task", "task-7", "--reason", "over").stdout, "1 discarded, 0 skipped\n")
        self.assertEqual(self.ctl("replay", "--all", "--to", "reviewer", "--why", "it has time").stdout, "1 replayed, 0 skipped\n")
        redirected, discarded = self.jobs()
        self.assertEqual((redirected["action"], redirected["to"], redirected["reason"], discarded["action"], discarded["reason"]),
                         ("redirect", "reviewer", "it has time", "discard", "over"))
        rows = self.jobs_ctl("list").stdout.splitlines()
        self.assertRegex(rows[1], rf"^{redirected['id']} +\d+s +redirect +done +1 +1 .* it has time$")
        self.assertLessEqual(max(map(len, rows)), 100)
        self.assertEqual(self.jobs_ctl("list", "-o", "name").stdout.split(), [redirected["id"], discarded["id"]])

    def test_a_long_preview_says_that_it_shows_the_first(self):
        self.park(22)
        done = self.ctl("replay", "--all", "--dry-run")
        self.assertTrue(done.stdout.endswith("\n22 would be replayed\n"), done.stdout)
        self.assertEqual(done.stderr, "handoffctl parked replay: the first 20 of 22 are shown; handoffctl parked list has all\n")

    def test_a_discard_waits_after_its_canary(self):
        first, *others = self.park(3)
        done = self.ctl("discard", "--all", "--reason", "over", "--canary")
        [job] = self.jobs()
        self.assertEqual(done.stdout, "1 discarded, 0 skipped, 2 still parked; waiting\n")
        self.assertIn(f"handoffctl jobs continue {job['id']}\n", done.stderr)
        self.assertEqual(self.parked(), others)
        self.assertEqual(self.jobs_ctl("show", job["id"]).stdout, done.stdout)
        self.ctl("replay", others[0], "--to", "reviewer")
        done = self.jobs_ctl("continue", job["id"], code=1)
        self.assertEqual(done.stdout, "2 discarded, 1 skipped\n")
        self.assertRegex(done.stderr, rf"^handoffctl jobs continue: skipped {others[0]}: .*\n$")
        self.assertEqual(self.jobs_ctl("show", job["id"], code=1).stdout, done.stdout)
        self.jobs_ctl("continue", job["id"], code=1)
        self.assertIn("not_found", self.jobs_ctl("show", "nothing", code=4).stderr)
        self.assertEqual(self.caller.state(first)["state"], "discarded")

    def test_it_is_stopped(self):
        ids = self.park(20)
        following = subprocess.Popen([HANDOFFCTL, "parked", "replay", "--all", "--rate", "1"], text=True, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, env=environment(**self.env))
        [job] = eventually(self.jobs, "it began")
        self.assertIn("still parked; ", self.jobs_ctl("stop", job["id"]).stdout)
        out, _ = following.communicate(timeout=60)
        self.assertEqual(following.returncode, 1)
        left = len(self.parked())
        self.assertEqual(out, f"{len(ids) - left} replayed, 0 skipped, {left} still parked; stopped\n")

    def test_it_goes_on_when_the_sidecar_is_killed_and_when_nobody_follows(self):
        ids = self.park(40)
        following = subprocess.Popen([HANDOFFCTL, "parked", "replay", "--all", "--rate", "20"], text=True, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, env=environment(**self.env))
        [job] = eventually(self.jobs, "it began")
        eventually(lambda: self.jobs()[0]["done"] > 3, "some are decided")
        self.daemon.kill()
        self.daemon.log_path.write_bytes(b"")
        self.daemon.start()
        self.daemon.expected_exit = 0
        out, said = following.communicate(timeout=60)
        self.assertEqual((following.returncode, out), (0, "40 replayed, 0 skipped\n"), said)
        again = self.park(20)
        following = subprocess.Popen([HANDOFFCTL, "parked", "replay", "--all", "--rate", "20"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, env=environment(**self.env))
        second = eventually(lambda: self.jobs()[0] if self.jobs()[0]["id"] != job["id"] else None, "it began")
        following.kill()
        following.wait()
        self.assertEqual(self.jobs_ctl("watch", second["id"]).stdout, "20 replayed, 0 skipped\n")
        for handoff in ids + again:
            self.caller.wait_for_state(handoff, "acknowledged")


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
        self.assertNotIn("constraints:", done.stderr)
        self.assertRegex(done.stderr, r"\nthe brief:\n(?:.*\n)*- Write the retry logic\n\+ Write the backoff\n(?:.*\n)*"
                                      r"\d+ tokens of \d+, before it was \d+; to coder\nSend it\? \[y/N\] $")
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
                         ({"max_cost": 5, "style": "plain"}, {"decisions": ["ours"], "notes": "short"}))  # constraints accumulate
        new = self.caller.call("GET", f"/v1/handoffs/{done.stdout.split()[0]}/envelope").json()
        self.assertEqual(new["context"]["constraints"], {"max_cost": 5, "style": "plain"})
        self.assertEqual(new["context"]["task"]["state"]["decisions"], ["theirs", "better"])
        ledger = self.caller.call("GET", f"/v1/envelopes/{new['id']}/ledger?kind=decision").json()["items"]
        self.assertEqual([(item["value"], item["envelope_id"] == first) for item in ledger],
                         [("theirs", True), ("better", False)])

    def test_what_would_be_refused_is_refused_before_it_is_asked(self):
        [handoff] = self.park(constraints={"max_cost": 5})
        done = self.ctl("edit", handoff, code=1, stdin="y\n", **self.editor("sed -i 's/5/6/' \"$1\""))
        self.assertIn("constraint_loosened", done.stderr)
        self.assertNotIn("Send it?", done.stderr)
        self.assertEqual((len(self.kept()), self.parked()), (1, [handoff]))

    def test_the_second_of_two_editors_is_told_who_was_first(self):
        [handoff] = self.park()
        env = self.editor("sed -i 's/logic/x/' \"$1\"")
        slow = self.folder / "slow"
        slow.write_text(f"#!/bin/sh\n{HANDOFFCTL} parked edit {handoff} --yes --why 'typo' >&2\nsed -i 's/logic/y/' \"$1\"\n",
                        encoding="utf-8")
        slow.chmod(0o755)
        inner = f"sh -c 'EDITOR={env['EDITOR']} USER=alice {slow} \"$1\"' sh"
        done = self.ctl("edit", handoff, "--yes", code=1, **{**env, "EDITOR": inner, "USER": "bob"})
        self.assertIn("conflict", done.stderr)
        self.assertRegex(done.stderr, r"seen discarded; edit by @anyone \(alice\) at \S+: typo")
        self.assertIn("edit by @anyone (alice)", self.ctl("edit", handoff, code=1, **env).stderr)

    def test_what_has_expired_is_revived_once(self):
        soon, later = ((datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).isoformat()
                       for seconds in (3, 3600))
        handoff = self.caller.send_async("reviewer", constraints={"deadline": soon})
        self.caller.wait_for_state(handoff, "expired")
        env = self.editor(f"sed -i 's/\"deadline\": \"[^\"]*\"/\"deadline\": \"{later}\"/' \"$1\"")
        new = self.ctl("edit", handoff, "--yes", "--why", "it still matters", **env).stdout.split()[0]
        self.assertEqual(self.caller.state(new)["state"], "ready")
        said = self.ctl("edit", handoff, "--yes", code=1, **env).stderr
        self.assertIn("revived already", said)
        self.assertIn("it still matters", said)

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
