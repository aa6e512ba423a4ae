# SPDX-License-Identifier: Apache-2.0
"""What the recording rules record, number by number, of a steady hour of two sidecars.

Sidecar a counts once a minute, b twice; b restarts on the way, and a job that is not ours counts as
well. Sums over windows are then known: (1 + 2) per minute times the window. The tiles of long windows
overlap by one, which is five minutes.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
RULES = TOP / "alerts/handoff-rules.yml"
MINUTES = 450   # 6h, a tile more, and the time until the first sample
NOW = 430       # when everything is looked at; b restarted at 50, before the direct windows
TILE = 5


def counter(name, per_minute, **labels):
    """The series of both sidecars and of a job that is not ours, which counts much more."""
    def series(job, instance):
        pairs = {"job": job, "instance": instance, **labels}
        return name + "{" + ", ".join(f'{key}="{value}"' for key, value in pairs.items()) + "}"
    steady, twice = f"{per_minute:g}", f"{2 * per_minute:g}"
    return {series("handoff", "a:9780"): f"0+{steady}x{MINUTES}",
            series("handoff", "b:9780"): f"0+{twice}x49 0+{twice}x{MINUTES - 50}",
            series("other", "c:9780"): f"0+1000x{MINUTES}"}


def inputs():
    target = {"target_agent": "analyst"}
    found = {}
    for outcome, rate in (("acknowledged", 10), ("exhausted", 1), ("rejected", 4), ("refused", 2), ("expired", 3),
                          ("circuit_open", 100), ("hop_limit", 100)):
        found |= counter("handoff_handoffs_total", rate, **target, pattern="direct", outcome=outcome)
    for outcome, rate in ("included", 6), ("missing", 1), ("trimmed", 3):
        found |= counter("handoff_memory_refs_total", rate, **target, outcome=outcome)
    for kind, outcome, rate in ("steps", "present", 15), ("references", "referenced", 2), ("steps", "omitted", 3):
        found |= counter("handoff_context_items_total", rate, **target, kind=kind, outcome=outcome)
    found |= counter("handoff_context_completeness_ratio_count", 4, **target)
    found |= counter("handoff_token_utilization_ratio_count", 4, **target)
    found |= counter("handoff_token_utilization_ratio_sum", 3, **target)
    for bound, rate in ("1", 5), ("10", 9), ("+Inf", 10):  # of ten, five in up to 1 s, four in up to 10 s
        found |= counter("handoff_duration_seconds_bucket", rate, **target, outcome="acknowledged", le=bound)
    found |= counter("handoff_hop_depth_count", 4, pattern="direct")
    found |= counter("handoff_hop_depth_sum", 10, pattern="direct")
    return found


def expected():
    """[(name, labels, value)]; both sidecars together count three times the rate of a."""
    job, agent = 'job="handoff"', 'job="handoff", target_agent="analyst"'
    pattern = 'job="handoff", pattern="direct"'
    for window, minutes in ("5m", 5), ("15m", 15), ("30m", 30), ("1h", 60), ("2h", 120 + TILE), ("6h", 360 + TILE):
        yield f"job:handoff_handoffs_failed:increase{window}", job, 3 * 5 * minutes
        yield f"job:handoff_handoffs_settled:increase{window}", job, 3 * 20 * minutes
        yield f"job:handoff_handoffs_failed_per_settled:ratio_increase{window}", job, 5 / 20
    for window, minutes in ("15m", 15), ("1h", 60):
        yield f"job:handoff_memory_refs_included:increase{window}", job, 3 * 6 * minutes
        yield f"job:handoff_memory_refs_requested:increase{window}", job, 3 * 10 * minutes
        yield f"job:handoff_memory_refs_included_per_requested:ratio_increase{window}", job, 0.6
        yield f"job:handoff_envelopes:increase{window}", job, 3 * 4 * minutes
    yield "job_target_agent:handoff_context_items_omitted:increase1h", agent, 3 * 3 * 60
    yield "job_target_agent:handoff_context_items:increase1h", agent, 3 * 20 * 60
    yield "job_target_agent:handoff_token_utilization_ratio_sum:increase1h", agent, 3 * 3 * 60
    yield "job_target_agent:handoff_token_utilization_ratio_count:increase1h", agent, 3 * 4 * 60
    yield "job_pattern:handoff_hop_depth_sum:increase1h", pattern, 3 * 10 * 60
    yield "job_pattern:handoff_hop_depth_count:increase1h", pattern, 3 * 4 * 60
    yield "job_target_agent:handoff_handoffs_acknowledged:increase1h", agent, 3 * 10 * 60
    for percentile, seconds in ("50", 1), ("90", 10), ("99", 10):
        yield f"job_target_agent:handoff_duration_seconds:p{percentile}_1h", agent, seconds
    for window in "1h", "1d":
        yield f"job_target_agent:handoff_token_utilization_ratio:mean{window}", agent, 0.75
    for window in "1h", "7d":
        yield f"job_pattern:handoff_hop_depth:mean{window}", pattern, 2.5


def promtool(rules, now=NOW, values=None):
    """promtool's (exit status, text) on what the rules record."""
    tests = [{"interval": "1m",
              "input_series": [{"series": name, "values": text} for name, text in inputs().items()],
              "promql_expr_test": [{"expr": f"round({name}, 0.0001)", "eval_time": f"{now}m",
                                    "exp_samples": [{"labels": "{" + labels + "}",
                                                     "value": round(value, 4)}]}
                                   for name, labels, value in values or expected()]}]
    document = {"rule_files": [str(rules)], "evaluation_interval": "5m", "tests": tests}
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump(document, file)  # JSON is YAML
        file.flush()
        done = subprocess.run(["promtool", "test", "rules", file.name], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout + done.stderr


class RecordingRules(unittest.TestCase):
    maxDiff = None

    def test_record_what_was_counted_by_all_sidecars_of_the_job(self):
        status, text = promtool(RULES)
        self.assertEqual(status, 0, text)

    def test_know_of_restarts(self):
        # at 50 minutes b began again at 0: one step of it is lost, and nothing is counted twice
        lost = 2
        status, text = promtool(RULES, now=60, values=[
            ("job:handoff_handoffs_failed:increase15m", 'job="handoff"', 5 * (3 * 15 - lost)),
            ("job:handoff_memory_refs_included:increase15m", 'job="handoff"', 6 * (3 * 15 - lost)),
            ("job:handoff_memory_refs_requested:increase15m", 'job="handoff"', 10 * (3 * 15 - lost)),
            ("job:handoff_envelopes:increase15m", 'job="handoff"', 4 * (3 * 15 - lost))])
        self.assertEqual(status, 0, text)

    def test_a_rule_that_records_something_else_is_found(self):
        shipped = RULES.read_text(encoding="utf-8")
        for old, new in (("[15m]", "[10m]"), ('{job="handoff"', '{job=~".+"'), ("sum by (job)", "max by (job)"),
                         ("refused|expired", "refused"), (', outcome="omitted"', "")):
            with self.subTest(old), tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                self.assertIn(old, shipped)
                file.write(shipped.replace(old, new))
                file.flush()
                self.assertNotEqual(promtool(file.name)[0], 0)


if __name__ == "__main__":
    unittest.main()
