# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""handoffctl check-config, as a person or a pipeline calls it: output, streams and exit codes."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from harness.slips import slips

HANDOFFCTL = os.environ["HANDOFFCTL"]
KEYS = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "docs/configuration.md"
WHERE = {"root": (), "agent": ("agents", "coder"), "channel": ("channels", "news")}
EXAMPLE = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "examples/handoff-exporter.yml"


def handoffctl(*arguments):
    """(exit status, stdout, stderr)"""
    done = subprocess.run([HANDOFFCTL, *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def documented_keys():
    """{(the keys above it, ...): {key, ...}} of all tables."""
    found = {}
    text = KEYS.read_text()
    for table, above in WHERE.items():
        rows = re.search(rf"<!-- config-{table}:begin -->(.*?)<!-- config-{table}:end -->", text, re.DOTALL)[1]
        for path in re.findall(r"(?m)^\| `([^`]+)`", rows):
            keys = path.split(".")
            for depth, key in enumerate(keys):
                found.setdefault((*above, *keys[:depth]), set()).add(key)
    return found


class CheckConfig(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_example_is_good(self):
        self.assertEqual((0, f"{EXAMPLE}: ok (3 agents, 1 pipeline)\n", ""),
                         handoffctl("check-config", EXAMPLE))

    def test_one_bad_file_among_good_ones(self):
        good = self.file("good.yml", "agents: {coder: }\n")
        bad = self.file("bad.yml", "agents:\n  coder: {retires: 1}\n")
        self.assertEqual(
            (1, f"{good}: ok (1 agent, 0 pipelines)\n" * 2,
             f"{bad}:2:11: agents.coder.retires: unknown key, did you mean retries?\n"),
            handoffctl("check-config", good, bad, good))

    def test_one_letter_slips_of_all_keys(self):
        """Each is refused with its place and the nearest name."""
        expected = []
        for above, keys in documented_keys().items():
            for key in sorted(keys):
                for slip in set(slips(key)) - keys:
                    text = "".join(f"{'  ' * depth}{each}:\n" for depth, each in enumerate(above))
                    path = self.file(f"{len(expected)}.yml", f"{text}{'  ' * len(above)}{slip}: 1\n")
                    place = f"{len(above) + 1}:{2 * len(above) + 1}"
                    expected.append((path, f"{path}:{place}: {'.'.join((*above, slip))}: unknown key, did you mean {key}?"))
        self.assertGreater(len(expected), 300)
        status, _, errors = handoffctl("check-config", *(path for path, _ in expected))
        self.assertEqual(status, 1)
        self.assertEqual(errors.splitlines(), [line for _, line in expected])

    def test_missing_file(self):
        path = self.folder / "nowhere.yml"
        self.assertEqual((1, "", f"{path}: cannot be read: No such file or directory\n"),
                         handoffctl("check-config", path))

    def test_contents_of_secrets_are_not_shown(self):
        self.file("token", "s3cr3t")
        path = self.file("config.yml", "defaults: {token_file: token, retries: x}\n")
        status, output, errors = handoffctl("check-config", path)
        self.assertEqual(1, status)
        self.assertNotIn("s3cr3t", output + errors)

    def test_files_are_found_beside_the_configuration(self):
        self.file("token", "s3cr3t")
        path = self.file("config.yml", "defaults: {token_file: token}\n")
        self.assertEqual((0, f"{path}: ok (0 agents, 0 pipelines)\n", ""),
                         handoffctl("check-config", path))

    def test_usage(self):
        self.assertEqual((2, "", "handoffctl check-config: missing FILE\n"
                                 "usage: handoffctl check-config FILE...\n"),
                         handoffctl("check-config"))
        self.assertEqual((2, "", 'handoffctl: unknown command "check-confg", did you mean '
                                 "check-config?\n"), handoffctl("check-confg"))
        self.assertEqual((2, "", 'handoffctl: unknown command "x", see handoffctl --help\n'),
                         handoffctl("x"))
        status, output, errors = handoffctl()
        self.assertEqual((2, ""), (status, output))
        self.assertIn("usage: handoffctl COMMAND", errors)

    def test_help(self):
        for arguments in (("--help",), ("-h",)):
            status, output, errors = handoffctl(*arguments)
            self.assertEqual((0, ""), (status, errors))
            self.assertIn("check-config FILE...", output)
        status, output, errors = handoffctl("check-config", "--help")
        self.assertEqual((0, ""), (status, errors))
        self.assertIn("Example:", output)
        self.assertRegex(handoffctl("--version")[1], r"^handoffctl, version \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
