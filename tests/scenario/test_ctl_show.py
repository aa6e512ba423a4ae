# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""What handoffctl prints: tables that fit, colours, formats, texts of agents, ids from their beginnings."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import unittest

import yaml

from harness import Receiver, environment
from harness.agents import Caller, daemon_with
from harness.receiver import ack, nack, status

HANDOFFCTL = os.environ["HANDOFFCTL"]
COLOUR = re.compile(r"\x1b\[\d+m")


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.coder = stack.enter_context(Receiver(ack))
        cls.daemon = stack.enter_context(daemon_with({"coder": {"url": cls.coder.url}, "reviewer": {}}))
        cls.caller = Caller(cls.daemon)
        cls.env = {"HANDOFF_API_URL": cls.daemon.api.url, "HANDOFF_WEB_URL": cls.daemon.web.url}

    def ctl(self, *words, code=0, **variables):
        done = subprocess.run([HANDOFFCTL, *words], text=True, capture_output=True, timeout=60, check=False,
                              env=environment(**{**self.env, **variables}))
        self.assertEqual(done.returncode, done.returncode if code is None else code, (words, done.stdout, done.stderr))
        return done

    def on_terminal(self, *words, columns=80, **variables):
        """What a terminal of that width is shown."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        done = subprocess.Popen([HANDOFFCTL, *words], stdout=theirs, stderr=subprocess.PIPE,
                                env=environment(**{"TERM": "xterm", **self.env, **variables}))
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # EIO is its end
            while piece := os.read(ours, 65536):
                shown += piece
        os.close(ours)
        done.communicate(timeout=60)
        return shown.decode().replace("\r\n", "\n")

    def park(self, words="not my work", **fields):
        self.coder.do(nack(words, retry=False))
        handoff = self.caller.send("coder", **fields).json()["handoff"]["id"]
        self.coder.do(ack)
        return handoff


class Tables(Case):
    def test_they_fit_100_columns_or_the_terminal(self):
        handoff = self.park(task_id="a-task-whose-name-is-far-longer-than-any-table-has-room-for-in-a-line", source_agent="x" * 60)
        for words in (("parked", "list"), ("list",), ("agents",), ("attempts", handoff)):
            with self.subTest(words):
                lines = self.ctl(*words).stdout.splitlines()
                self.assertLessEqual(max(map(len, lines)), 100)
                for columns in (60, 140):
                    shown = COLOUR.sub("", self.on_terminal(*words, columns=columns)).splitlines()
                    self.assertLessEqual(max(map(len, shown)), columns)
        self.assertIn("\u2026", self.ctl("list").stdout)
        for columns in (20, 60):
            self.assertIn(handoff, self.on_terminal("parked", "list", columns=columns))
        wide = self.ctl("parked", "list", "-o", "wide").stdout
        self.assertIn("x" * 60, wide)
        self.assertIn("any-table-has-room-for-in-a-line", wide)

    def test_characters_of_two_columns_count_as_two(self):
        handoff = self.park("\u5be9\u67fb" * 60)
        notes = [line for line in self.ctl("attempts", handoff).stdout.splitlines() if "\u5be9" in line]
        self.assertGreater(len(notes), 1)
        widths = [sum(2 if ord(one) > 0x2e80 else 1 for one in line) for line in notes]
        self.assertLessEqual(max(widths), 100)
        self.assertGreater(max(widths), 90)

    def test_colours_are_for_terminals_that_want_them(self):
        self.park(task_id="t-colour")
        words = ("list", "--task", "t-colour")
        self.assertIn("\x1b[31mparked\x1b[0m", self.on_terminal(*words))
        for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertNotIn("\x1b", self.on_terminal(*words, **variables))
        self.assertIn("\x1b[31m", self.on_terminal(*words, NO_COLOR=""))
        self.assertNotIn("\x1b", self.ctl(*words).stdout)


class Formats(Case):
    # what YAML takes for something else, does not allow, or folds
    STRANGE = ["no", "1e3", "0x1f", "2026-01-31", "~", "a: b", "- c", "# d", "'", '"', "\\", " e ", "\t\n", "\x85\u2028\u2029",
               "\x7f\x9b\ufeff", "\U0001f600", "審", "{f}", "&g", "*h", "!i", "|", ">", "%", "@", "`", ""]

    def test_yaml_reads_back_as_the_json(self):
        state = {"decisions": [], "unresolved": [], "remaining": [], **{f"key {text}": text for text in self.STRANGE},
                 "numbers": [0, -1, 1.5, 1e300, 2.5e-7, 12345678901234567890], "nested": [[[1], []], {"on": {}, "y": [None, True]}]}
        handoff = self.caller.send_async("reviewer", state=state)
        path = f"/v1/handoffs/{handoff}/envelope"
        envelope = self.caller.call("GET", path).json()
        for words in (("list",), ("parked", "list"), ("agents",), ("status", handoff), ("show", handoff)):
            with self.subTest(words):
                loaded = yaml.safe_load(self.ctl(*words, "-o", "yaml").stdout)
                self.assertEqual(loaded, json.loads(self.ctl(*words, "-o", "json").stdout))
        taken = yaml.safe_load(self.ctl("inbox", "reviewer", "-o", "yaml").stdout)
        self.assertEqual(taken, envelope)

    def test_names_and_json(self):
        handoff = self.park(task_id="t-names")
        self.assertEqual(self.ctl("list", "--task", "t-names", "-o", "name").stdout, handoff + "\n")
        self.assertEqual(self.ctl("parked", "show", handoff, "-o", "name").stdout, handoff + "\n")
        self.assertEqual(self.ctl("agents", "-o", "name").stdout, "coder\nreviewer\n")
        self.assertEqual(json.loads(self.ctl("status", handoff, "--json").stdout), self.caller.state(handoff))


class Texts(Case):
    EVIL = "a\x1b[2Jb\x9bc\u202ed\x07e"

    def test_no_agent_commands_a_terminal(self):
        handoff = self.park(self.EVIL, task_summary=self.EVIL, task_id="t-evil")
        forbidden = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
        for words in (("show", handoff), ("show", handoff, "--json"), ("show", handoff, "-o", "yaml"), ("list", "-o", "wide"),
                      ("attempts", handoff), ("parked", "list"), ("envelope", "--from", self.EVIL, "--to", "coder",
                                                                  "--summary", self.EVIL)):
            with self.subTest(words):
                shown = self.on_terminal(*words, NO_COLOR="1")
                self.assertEqual(forbidden.findall(shown), [])
        self.assertEqual(json.loads(self.on_terminal("attempts", handoff, "--json")),
                         json.loads(self.ctl("attempts", handoff, "--json").stdout))


class Whole(Case):
    def test_show_has_the_brief_the_attempts_and_the_task(self):
        handoff = self.park("the disk is full", task_summary="Write the retry logic", task_id="t-whole")
        for command in (("show",), ("parked", "show")):
            shown = self.ctl(*command, handoff).stdout
            for part in ("state       parked (refused)", "\nBRIEF\n", "Write the retry logic", "\nATTEMPTS\n",
                         "the disk is full", "\nTASK\n", "analyst -> coder  parked (refused)"):
                self.assertIn(part, shown)

    def test_attempts_show_how_an_error_was_answered(self):
        self.coder.do(status(422, b"the branch does not exist\x1b[2J\n"))
        handoff = self.caller.send("coder").json()["handoff"]["id"]
        for words in (("attempts", handoff), ("show", handoff)):
            self.assertIn("\n    answer: the branch does not exist [2J", self.ctl(*words).stdout)
        [attempt] = json.loads(self.ctl("attempts", handoff, "--json").stdout)["items"]
        self.assertEqual((attempt["status"], attempt["answer"].rstrip()), (422, "the branch does not exist [2J"))
        self.coder.do(ack)

    def test_the_beginning_of_an_id_is_enough_also_where_only_zeros_follow(self):
        handoff = ""
        while not handoff.endswith("0"):    # one in sixteen does
            handoff = self.caller.send_async("reviewer")
        self.assertEqual(json.loads(self.ctl("status", handoff[:35], "--json").stdout)["id"], handoff)

    def test_the_beginning_of_an_id_is_enough_where_it_is_the_only_one(self):
        ids = sorted(self.caller.send_async("reviewer") for _ in range(12))
        last = ids[-1]
        self.assertEqual(json.loads(self.ctl("status", last[:35], "--json").stdout)["id"], last)
        self.assertEqual(json.loads(self.ctl("ack", ids[0][:30], "--json").stdout)["id"], ids[0])
        shared = os.path.commonprefix(ids)[:8]
        said = self.ctl("status", shared, code=1).stderr
        self.assertIn(f"several handoffs begin with {shared}", said)
        self.assertEqual(len(re.findall(rf"\n  {shared}", said)), 5)
        self.assertIn("no handoff begins with 0000", self.ctl("status", "0000", code=4).stderr)
        self.assertIn("not_found", self.ctl("status", "000", code=4).stderr)


class Watch(Case):
    def test_changes_are_told_until_it_is_interrupted(self):
        process = subprocess.Popen([HANDOFFCTL, "watch", "--task", "t-watch", "--interval", "100"], text=True,
                                   stdout=subprocess.PIPE, env=environment(**self.env))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        handoff = self.caller.send_async("reviewer", task_id="t-watch")
        self.assertRegex(process.stdout.readline(), rf"^\d\d:\d\d:\d\d  {handoff}  ready .* analyst -> reviewer  t-watch\n$")
        self.caller.call("POST", f"/v1/handoffs/{handoff}/cancel", {"reason": "over"})
        self.assertIn("discarded (over)", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), -signal.SIGINT)

    def test_one_is_followed_to_its_end(self):
        handoff = self.caller.send("coder").json()["id"]
        self.assertIn("acknowledged", self.ctl("watch", handoff).stdout)
        self.assertIn("parked (refused)", self.ctl("watch", self.park(), code=1).stdout)


class Operate(Case):
    def test_reload(self):
        self.assertEqual(self.ctl("reload").stdout, "The configuration was reloaded.\n")
        before = self.daemon.config_path.read_text(encoding="utf-8")
        self.daemon.write_config("agents: 3\n")
        self.assertIn("reload_failed", self.ctl("reload", code=1).stderr)
        self.daemon.write_config(before)
        self.ctl("reload")
        self.assertIn("--web.url", self.ctl("reload", "--web.url", "unix:/nothing/here", code=3).stderr)

    def findings(self, *words, code=0, **variables):
        """{check: [(whether it is fine, what was found)]}"""
        found = {}
        for one in json.loads(self.ctl("doctor", "--json", *words, code=code, **variables).stdout)["checks"]:
            self.assertEqual(one["advice"] is None, one["ok"], one)
            found.setdefault(one["check"], []).append((one["ok"], one["found"]))
        return found

    def test_doctor_of_a_sound_sidecar(self):
        found = self.findings("--config.file", str(self.daemon.config_path), code=None)
        for check in ("agent API", "token", "clock", "circuit", "web listener", "readiness", "vocabulary", "configuration",
                      "memories", "store", "disk", "descriptors", "agent"):
            self.assertIn(check, found)
        for check in ("agent API", "token", "clock", "circuit", "web listener", "readiness", "store", "agent"):
            self.assertTrue(found[check][0][0], found)

    def test_doctor_says_what_is_wrong_and_what_to_do(self):
        for _ in range(4):
            self.park()
        with Receiver(ack) as gone:
            text = json.dumps({"agents": {"away": {"url": gone.url}, "reviewer": {}}})
        path = self.daemon.folder / "other.yml"
        path.write_text(text, encoding="utf-8")
        found = self.findings("--config.file", str(path), code=1)
        [(ok, why)] = found["agent"]
        self.assertEqual(ok, False)
        self.assertIn("away", why)
        said = self.ctl("doctor", "--config.file", str(path), code=1).stdout
        self.assertRegex(said, r"(?m)^check agent +away: .*\n +do: start the agent")

    def test_doctor_without_a_sidecar(self):
        nowhere = {"HANDOFF_API_URL": "unix:/nothing/here", "HANDOFF_WEB_URL": "unix:/nothing/here"}
        found = self.findings(code=1, **nowhere)
        self.assertEqual(set(found), {"agent API", "web listener"})
        self.assertFalse(found["agent API"][0][0] or found["web listener"][0][0])


if __name__ == "__main__":
    unittest.main()
