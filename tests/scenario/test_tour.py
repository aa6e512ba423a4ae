# SPDX-License-Identifier: Apache-2.0
"""The README's tour works as printed.

Between <!-- tour:begin --> and <!-- tour:end -->, a line of an sh block is a command, and the comment
lines right after it are lines of its output ("..." stands for any text). ./scripts/run is replaced by
a daemon with the same configuration on ports of its own; a yaml block is a Prometheus configuration.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from harness import Daemon, environment

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])


def tour():
    text = (TOP / "README.md").read_text(encoding="utf-8")
    return re.search(r"<!-- tour:begin -->\n(.*)<!-- tour:end -->", text, re.DOTALL)[1]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", tour(), re.DOTALL)


def steps():
    """[(command, [expected line, ...]), ...]"""
    found = []
    for line in "".join(blocks("sh")).splitlines():
        if line.startswith("# "):
            found[-1][1].append(line[2:])
        elif line:
            found.append((line, []))
    return found


def matches(expected, line):
    return re.fullmatch(re.escape(expected).replace(r"\.\.\.", ".*"), line)


class Tour(unittest.TestCase):
    def run_step(self, command, daemon):
        """The output of one command, with the addresses and programs of this test in it."""
        command = (command.replace("localhost:9780", daemon.web.address)
                   .replace("./build/release/ctl/handoffctl", os.environ["HANDOFFCTL"]))
        self.assertNotRegex(command, r"localhost:\d|\./scripts")
        done = subprocess.run(["bash", "-c", command], cwd=TOP, env=environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              check=False)
        return done.stdout

    def test_every_command_answers_what_is_printed(self):
        first, *rest = steps()
        self.assertEqual(first, ("./scripts/run", []))
        self.assertGreaterEqual(len(rest), 5)
        config = (TOP / "examples/handoff-exporter.yml").read_text(encoding="utf-8")
        with Daemon(config=config) as daemon:
            for command, expected in rest:
                with self.subTest(command=command):
                    self.assertTrue(expected, "a step without an answer teaches nothing")
                    output = self.run_step(command, daemon)
                    for line in expected:
                        self.assertTrue(any(matches(line, got) for got in output.splitlines()),
                                        f"expected {line!r} in:\n{output}")

    def test_the_prometheus_configuration_is_good(self):
        for block in blocks("yaml"):
            with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                file.write(block)
                file.flush()
                done = subprocess.run(["promtool", "check", "config", file.name], text=True,
                                      capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
