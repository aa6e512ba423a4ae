# SPDX-License-Identifier: Apache-2.0
"""handoffctl envelope and memories, against the real daemon."""

import json
import os
import pty
import socket
import subprocess
import unittest

from harness import Daemon
from harness.daemon import environment

CTL = os.environ["HANDOFFCTL"]


class Handoffctl(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(api="unix:api.sock")
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)
        cls.url = f"unix:{cls.daemon.folder / 'api.sock'}"

    def run_ctl(self, *arguments, code=0, stdin="", url=None):
        done = subprocess.run([CTL, *arguments], input=stdin, capture_output=True, text=True,
                              env=environment(HANDOFF_API_URL=url or self.url), timeout=30,
                              check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr == "", code == 0, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_what_a_memory_says_is_no_command_to_the_terminal(self):
        self.run_ctl("memories", "put", "ctl-esc", "--content", "one\x1b[2J\n\ttwo\u202e", "--task", "task-e")
        shown = self.run_ctl("memories", "get", "ctl-esc")
        self.assertTrue(shown.endswith("\ntask: task-e\n\none?[2J\n\ttwo?\n"), shown)
        self.assertTrue(shown.splitlines()[0].endswith("  one?[2J"), shown)
        self.run_ctl("memories", "rm", "ctl-esc")

    def run_on_terminal(self, *arguments):
        terminal, end = pty.openpty()
        subprocess.run([CTL, *arguments], stdout=end, timeout=30, check=True,
                       env=environment(HANDOFF_API_URL=self.url, TERM="xterm"))  # a dumb one has no bold face
        os.close(end)
        with open(terminal, "rb", buffering=0) as output:
            return output.read(4096).decode()

    def test_memories(self):
        self.assertRegex(self.run_ctl("memories", "put", "ctl-1", "--content=the gateway retries",
                                      "--summary", "retries", "--tag", "a", "--tag", "b",
                                      "--importance", "high", "--metadata", '{"n": 1}', "--pin"),
                         r"^ctl-1 +high +pinned 20\S+Z  retries\n$")
        memory = json.loads(self.run_ctl("memories", "get", "ctl-1", "--json"))
        self.assertEqual((memory["content"], memory["tags"], memory["metadata"]),
                         ("the gateway retries", ["a", "b"], {"n": 1}))
        self.assertTrue(self.run_ctl("memories", "get", "ctl-1")
                        .endswith("\n\nthe gateway retries\n"))
        self.assertRegex(self.run_ctl("memories", "put", "ctl-4", "--content", "hers", "--scope", "user:alice",
                                      "--task", "task-7"), r"^ctl-4 +medium +20\S+Z  \[user:alice\] hers\n$")
        self.assertTrue(self.run_ctl("memories", "get", "ctl-4").endswith("\ntask: task-7\n\nhers\n"))
        self.assertIn("hers", self.run_ctl("memories", "list", "--scope", "user:alice,user:bob"))
        self.assertNotIn("hers", self.run_ctl("memories", "list", "--scope", "user:bob"))
        self.run_ctl("memories", "rm", "ctl-4")
        self.run_ctl("memories", "unpin", "ctl-1")
        self.assertEqual(json.loads(self.run_ctl("memories", "list", "--pinned", "--json")),
                         {"items": [], "next": None})
        self.run_ctl("memories", "pin", "ctl-1")
        self.run_ctl("memories", "put", "ctl-2", "--file", "-", stdin="cats\nsleep")
        self.assertEqual(self.run_ctl("memories", "put", "ctl-3", "--file", "-", code=1,
                                      stdin="cats\0and more"),
                         "handoffctl memories put: -: not a text file: it contains NUL bytes\n")
        self.assertIn("cats\n", self.run_ctl("memories", "list", "--query", "cats & dogs"))
        found = self.run_ctl("memories", "search", "CATS sleeping")
        self.assertTrue(found.endswith("  CATS sleeping\n    cats sleep\n"), found)
        self.assertIn("\033[1mcats\033[0m \033[1msleep\033[0m\r\n",
                      self.run_on_terminal("memories", "search", "CATS sleeping"))
        head, row, _ = self.run_ctl("memories", "list", "--pinned").splitlines() + [""]
        self.assertRegex(head, "^ID +IMPORTANCE +AGE +BYTES +SCOPE +TEXT$")
        self.assertRegex(row, r"^ctl-1 +high +pinned +\d+s +19 +retries$")
        more = self.run_ctl("memories", "list", "--limit", "1")
        self.assertIn("more: --cursor ", more)
        rest = self.run_ctl("memories", "list", "--cursor", more.split("--cursor ")[1].strip())
        self.assertNotIn("more:", rest)
        self.assertEqual(self.run_ctl("memories", "rm", "ctl-2"), "")
        self.assertEqual(self.run_ctl("memories", "rm", "ctl-2", code=4),
                         "handoffctl memories rm: not_found: no memory has this id "
                         "(id: seen ctl-2)\n")

    def test_envelope(self):
        self.run_ctl("memories", "put", "env-1", "--content", "never log cards")
        flags = ["--from", "analyst", "--to=coder", "--summary", "write it", "--memory", "env-1",
                 "--memory", "env-2", "--no-pins", "--max-tokens", "900", "--deadline",
                 "2030-01-30T00:00:00Z", "--constraint", "style=plain", "--constraint",
                 'do_not=["a"]', "--intent", "why", "--task", "t-1", "--expect",
                 '{"format": "md"}', "--history", '[{"agent": "a", "action": "b"}]']
        raw = self.run_ctl("envelope", *flags, "--json")
        envelope = json.loads(raw)
        self.assertEqual(raw.count("\n"), 1)
        self.assertEqual(envelope["context"]["constraints"], {
            "max_tokens": 900, "deadline": "2030-01-30T00:00:00Z", "style": "plain",
            "do_not": ["a"]})
        self.assertEqual(envelope["memory_refs"], ["env-1"])
        self.assertEqual(envelope["task_id"], "t-1")
        self.assertEqual(envelope["context"]["expected_output"], {"format": "md"})
        pretty = self.run_ctl("envelope", *flags)
        self.assertGreater(pretty.count("\n"), 40)
        self.assertEqual(json.loads(pretty)["context"], envelope["context"])
        brief = self.run_ctl("envelope", *flags, "--markdown")
        self.assertTrue(brief.startswith("# Handoff from analyst to coder\n"), brief)
        body = {"source_agent": "x", "target_agent": "y", "task_summary": "from a file",
                "constraints": {"n": 1.10}}
        given = json.loads(self.run_ctl("envelope", "-", "--from", "z", "--json",
                                        stdin=json.dumps(body)))
        self.assertEqual((given["source_agent"], given["context"]["task"]["summary"]),
                         ("z", "from a file"))
        child = json.loads(self.run_ctl("envelope", "--from", "y", "--to", "z", "--summary", "s",
                                        "--previous", given["id"], "--json"))
        self.assertEqual(child["hop"]["path"], ["z"])

    def test_options_that_repeat(self):
        work = ("envelope", "--to", "z", "--summary", "s", "--task", "fan-in", "--no-pins", "--json")
        first, second, third = (json.loads(self.run_ctl(*work, "--from", name, "--scope", "one", "--scope", "two",
                                                        "--new-chain")) for name in "abc")
        self.assertEqual(third["parents"], [])
        self.assertEqual(third["scope"], ["one", "two"])
        ids = sorted(envelope["id"] for envelope in (first, second, third))
        joined = json.loads(self.run_ctl(*work, "--from", "z", *(f"--previous={name}" for name in ids)))
        self.assertEqual(sorted(parent["id"] for parent in joined["parents"]), ids)
        body = json.dumps({"source_agent": "z", "previous_id": ids[0]})
        joined = json.loads(self.run_ctl(*work, "-", "--previous", ids[1], stdin=body))
        self.assertEqual(sorted(parent["id"] for parent in joined["parents"]), ids[:2])

    def test_an_option_that_does_not_repeat_is_refused_the_second_time(self):
        for name, command in (("summary", ("send", "--from", "a", "--to", "b", "--summary", "one")),
                              ("scope", ("memories", "search", "text", "--scope", "one")),
                              ("reason", ("park", "01890a5d-ac96-774b-bcce-b302099a8057", "--reason=one"))):
            said = self.run_ctl(*command, f"--{name}", "two", code=2)
            self.assertIn(f"--{name} was given twice, allowed: once", said)
        self.run_ctl("agents", "--json", "--json")

    def test_refusals(self):
        self.assertIn("budget_too_small", self.run_ctl(
            "envelope", "--from", "a", "--to", "b", "--summary", "s", "--max-tokens", "3", code=1))
        self.assertIn("invalid_request", self.run_ctl("memories", "put", "m", "--content", "c",
                                                      "--importance", "urgent", code=1))
        for wrong in (["envelope"], ["envelope", "--nothing"], ["envelope", "--memory"],
                      ["envelope", "--state", "{"], ["envelope", "--constraint", "x"],
                      ["envelope", "--from", "a", "--json", "--markdown"], ["memories"],
                      ["memories", "get"], ["memories", "put", "m"], ["memories", "dance"],
                      ["memories", "list", "--limit"]):
            self.run_ctl(*wrong, code=2)
        self.run_ctl("envelope", "/nowhere/request.json", code=1)
        self.run_ctl("envelope", "-", stdin="[]", code=1)

    def test_a_sidecar_that_is_not_there(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{unused.getsockname()[1]}"
            said = self.run_ctl("memories", "list", url=address, code=3)
        self.assertIn(address, said)
        self.assertIn("--api.url", said)
        self.run_ctl("memories", "list", "--api.url", f"unix:{self.daemon.folder / 'no'}", code=3)

    def test_help(self):
        for command in ("envelope",), ("memories", "put"):
            said = self.run_ctl(*command, "--help")
            self.assertIn("Example", said)
            self.assertIn("Exit code", said)


if __name__ == "__main__":
    unittest.main()
