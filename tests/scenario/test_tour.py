# SPDX-License-Identifier: Apache-2.0
"""The README's tour, docs/delivery.md and docs/api.md work as printed.

The tour is between <!-- tour:begin --> and <!-- tour:end -->. ./scripts/run is replaced by a daemon with
the same configuration on free ports; a yaml block is a Prometheus configuration.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from harness import Daemon, Receiver
from harness.agents import Caller, daemon_with
from harness.ports import reserved_port
from harness.printed import Shell, blocks, matches, steps
from harness.receiver import ack, status

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
CTL = pathlib.Path(os.environ["HANDOFFCTL"])


def document(name):
    return (TOP / name).read_text(encoding="utf-8")


def tour():
    return re.search(r"<!-- tour:begin -->\n(.*)<!-- tour:end -->", document("README.md"),
                     re.DOTALL)[1]


class Tour(unittest.TestCase):
    def test_every_command_answers_what_is_printed(self):
        first, *rest = steps(tour())
        self.assertEqual(first, ("./scripts/run", []))
        self.assertGreaterEqual(len(rest), 10)
        port = str(self.enterContext(reserved_port()))
        config = document("examples/handoff-exporter.yml").replace("9001", port)
        with Daemon(config=config) as daemon:
            replace = [("localhost:9780", daemon.web.address), ("9001", port),
                       ("./build/release/ctl/handoffctl", str(CTL))]
            with Shell(replace, cwd=TOP, HANDOFF_API_URL=daemon.api.url) as shell:
                for command, expected in rest:
                    with self.subTest(command=command):
                        self.assertNotRegex(command, r"\./scripts|localhost:(?!9780)")
                        output = shell.run(command, expected)
                        # an agent's line and a heading are expected; a screen of them is not
                        if expected:
                            self.assertLessEqual(len(output.splitlines()), len(expected) + 2, output)

    def test_the_prometheus_configuration_is_good(self):
        for block in blocks(tour(), "yaml"):
            with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                file.write(block)
                file.flush()
                done = subprocess.run(["promtool", "check", "config", file.name], text=True,
                                      capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Documents(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.analyst = self.stack.enter_context(Receiver(ack))
        daemon = self.stack.enter_context(daemon_with(
            {"analyst": {"url": self.analyst.url}, "reviewer": {"ack_timeout": "10m"}}))
        self.caller = Caller(daemon)
        self.shell = self.stack.enter_context(
            Shell([("http://127.0.0.1:8780", daemon.api.url)], HANDOFF_API_URL=daemon.api.url,
                  PATH=f"{CTL.parent}:{os.environ['PATH']}"))

    def run_section(self, text):
        found = steps(text)
        for command, expected in found:
            with self.subTest(command=command):
                self.shell.run(command, expected)
        return len(found)

    def test_delivery(self):
        before, heading, parked = document("docs/delivery.md").partition("## Parked handoffs")
        self.assertTrue(heading)
        self.assertGreaterEqual(self.run_section(before), 8)
        self.analyst.do(status(500))
        other, _ = (self.caller.send("analyst").json()["handoff"]["id"] for _ in range(2))
        self.shell.run(f"OTHER={other}", [])
        self.analyst.do(ack)
        self.assertGreaterEqual(self.run_section(parked), 5)
        self.assertEqual(self.caller.state(other)["state"], "discarded")

    def test_api(self):
        self.assertGreaterEqual(self.run_section(document("docs/api.md")), 1)


class Runner(unittest.TestCase):
    """The runner sees what is wrong."""

    def test_steps_are_found(self):
        self.assertEqual(steps("```sh\none\n# a\n# b\ntwo \\\n  three\n# c\n```\n"),
                         [("one", ["a", "b"]), ("two \\\n  three", ["c"])])
        self.assertTrue(matches("a ... c", "a b c"))
        self.assertFalse(matches("a ... c", "a b d"))

    def test_wrong_output_and_failures_are_refused(self):
        with Shell([("greet", "echo hello")]) as shell:
            shell.run("greet", ["hello"])
            shell.run("X=7; sleep 0 &", [])
            shell.run("echo $X", ["7"])
            for command, expected in (("greet", ["bye"]), ("false", [])):
                with self.assertRaises(AssertionError):
                    shell.run(command, expected)


if __name__ == "__main__":
    unittest.main()
