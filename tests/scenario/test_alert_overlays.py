# SPDX-License-Identifier: Apache-2.0
"""The mixin with other numbers: the example of an override, and the overlay that makes tests fast."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

TOP = pathlib.Path(os.environ.get("HANDOFF_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
ALERTS = TOP / "alerts"


def run(command):
    """Runs a tool; returns (exit status, its whole output)."""
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False)
    return result.returncode, result.stdout


def rendered(case, mixin):
    """The directory with what alerts/render makes of another mixin; it goes with the test class."""
    directory = tempfile.TemporaryDirectory()
    case.addClassCleanup(directory.cleanup)
    status, text = run([ALERTS / "render", mixin, directory.name])
    assert status == 0, text
    return pathlib.Path(directory.name)


def groups_of(directory, name):
    return yaml.safe_load((directory / name).read_text())["groups"]


def lint(directory):
    """What promtool complains of; nothing when the rules are clean."""
    status, text = run(["promtool", "check", "rules", "--lint=all", "--lint-fatal",
                        directory / "handoff-rules.yml", directory / "handoff-alerts.yml"])
    return text if status != 0 else ""


class Override(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.output = rendered(cls, ALERTS / "examples/override.jsonnet")

    def test_renders_rules_that_promtool_accepts(self):
        self.assertEqual(lint(self.output), "")

    def test_changes_what_it_says_everywhere_it_matters(self):
        alerts = groups_of(self.output, "handoff-alerts.yml")
        rules = (self.output / "handoff-rules.yml").read_text()
        everything = json.dumps(alerts) + rules
        self.assertNotIn('job="handoff"', everything)
        self.assertIn('job="agents/handoff"', rules)
        self.assertIn("sum by (cluster, job)", rules)
        self.assertIn("cluster=%q", everything)
        for group in alerts:
            for rule in group["rules"]:
                self.assertEqual(rule["labels"]["team"], "agents")
                self.assertTrue(rule["annotations"]["runbook_url"].startswith("https://wiki.example/handoff/"))
        by_name = {rule["alert"]: rule for group in alerts for rule in group["rules"]}
        self.assertEqual(set(by_name), {rule["alert"] for group in groups_of(ALERTS, "handoff-alerts.yml") for rule in group["rules"]} - {"HandoffBudgetUnderused"})
        self.assertIn("> 0.95 * max by (cluster, job, target_agent)", by_name["HandoffLatencyHigh"]["expr"])
        self.assertIn(") > 0.01", by_name["HandoffFailureRateCritical"]["expr"])
        self.assertIn("(1 - 0.9975)", by_name["HandoffErrorBudgetBurn"]["expr"])
        self.assertIn("replacement: agents/handoff", (self.output / "kubernetes" / "podmonitor.yml").read_text())


class SixtyTimesFaster(unittest.TestCase):
    """The overlay with which tests run the whole chain has other windows and nothing else that differs."""

    @classmethod
    def setUpClass(cls):
        cls.output = rendered(cls, TOP / "tests/alerts/sixty_times_faster.jsonnet")

    def test_promtool_has_nothing_to_say(self):
        self.assertEqual(lint(self.output), "")

    def test_only_windows_differ(self):
        # durations, also at the end of recorded names, and the ages of handoffs and publications
        window = re.compile(r"(?<![.\d])\d+[smhd]\b|(?<=[<>] )(86400|3600|1800|1440|900|300|60|30|15|5)\b")

        def without_windows(groups):
            return [{field: window.sub("T", rule[field]) for field in rule if field not in ("annotations", "labels")}
                    for group in groups for rule in group["rules"]]
        for name in ("handoff-rules.yml", "handoff-alerts.yml"):
            faster = groups_of(self.output, name)
            self.assertEqual(without_windows(faster), without_windows(groups_of(ALERTS, name)))

    def test_windows_are_sixty_times_shorter(self):
        faster = {rule["alert"]: rule for group in groups_of(self.output, "handoff-alerts.yml") for rule in group["rules"]}
        self.assertIn("[5s]", faster["HandoffFailed"]["expr"])
        self.assertEqual(faster["HandoffCircuitOpen"]["keep_firing_for"], "5s")
        self.assertIn("> 60", faster["HandoffParkedWaiting"]["expr"])
        self.assertIn("mean168m offset 24m", faster["HandoffHopDepthRising"]["expr"])
        self.assertIn(") > 15", faster["HandoffInboxUnattended"]["expr"])  # the critical one, which comes last


if __name__ == "__main__":
    unittest.main()
