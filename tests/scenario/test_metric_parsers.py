# SPDX-License-Identifier: Apache-2.0
"""Other people's parsers read what the metrics core writes, and find the values that were observed.

They are checked by promtool and Debian's python3-prometheus-client, with its text and its OpenMetrics
parser; dump_metrics.c has the values.
"""
# variants: release asan

import math
import os
import pathlib
import subprocess
import time
import unittest

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

DUMP = pathlib.Path(os.environ["HANDOFF_BINARY_DIR"]) / "tests" / "dump_metrics"

COUNTERS = {("coder", "ok"): 3, ('1",b="2', "back\\slash\nline"): 7, ("bad \ufffd byte", "Mü"): 11}
BUCKETS = {"0.005": 2, "0.25": 3, "1.0": 5, "1e+06": 6, "1.000001e+06": 7, "+Inf": 8}
HELP = 'Help with "quotes", \\ and\nlines.'


def dump(*arguments):
    return subprocess.run([DUMP, *arguments], check=True, capture_output=True).stdout


def families(parse, text):
    return {family.name: family for family in parse(text.decode())}


def values(family, suffix, *labels):
    return {tuple(sample.labels[label] for label in labels): sample.value
            for sample in family.samples if sample.name == family.name + suffix}


class Parsers(unittest.TestCase):
    maxDiff = None

    def check_values(self, found, le):
        self.assertEqual(set(found), {"dump_handoffs", "dump_load", "dump_duration_seconds"})
        counter = found["dump_handoffs"]
        self.assertEqual((counter.type, counter.documentation), ("counter", HELP))
        self.assertEqual(values(counter, "_total", "target_agent", "outcome"), COUNTERS)
        load = values(found["dump_load"], "", "of")
        self.assertTrue(math.isnan(load.pop(("nan",))))
        self.assertEqual(load, {("infinite",): math.inf, ("minus infinite",): -math.inf,
                                ("sum",): 0.1 + 0.2, ("tiny",): 5e-324})
        duration = found["dump_duration_seconds"]
        self.assertEqual(duration.type, "histogram")
        self.assertEqual(values(duration, "_bucket", "le"),
                         {(le(bound),): count for bound, count in BUCKETS.items()})
        self.assertEqual(values(duration, "_count", "target_agent"), {("coder",): 8})
        self.assertEqual(values(duration, "_sum", "target_agent"),
                         {("coder",): 0.005 + 0.1 + 0.3 + 1 + 1000000 + 1000001 + 1e12})

    def test_text(self):
        self.check_values(families(parse_text, dump("text")), lambda bound: bound.replace(".0", "")
                          if bound.endswith(".0") else bound)

    def test_openmetrics(self):
        found = families(parse_openmetrics, dump("openmetrics"))
        self.check_values(found, lambda bound: bound)
        self.assertEqual(found["dump_duration_seconds"].unit, "seconds")

    def test_openmetrics_with_created_lines(self):
        found = families(parse_openmetrics, dump("openmetrics", "created"))
        self.check_values(found, lambda bound: bound)
        created = values(found["dump_duration_seconds"], "_created", "target_agent")
        self.assertAlmostEqual(created["coder",], time.time(), delta=60)
        self.assertEqual(len(values(found["dump_handoffs"], "_created", "target_agent")), 3)

    def test_exemplars(self):
        found = families(parse_openmetrics, dump("openmetrics"))
        counter = [sample.exemplar for sample in found["dump_handoffs"].samples if sample.exemplar]
        self.assertEqual([(exemplar.labels, exemplar.value) for exemplar in counter],
                         [({"trace_id": "4bf9", "handoff_id": 'quote " and \\'}, 3)])
        buckets = {sample.labels["le"]: sample.exemplar
                   for sample in found["dump_duration_seconds"].samples if sample.exemplar}
        newest = {"0.005": 0.005, "0.25": 0.1, "1.0": 1, "1e+06": 1e6, "1.000001e+06": 1000001,
                  "+Inf": 1e12}
        self.assertEqual({le: exemplar.value for le, exemplar in buckets.items()}, newest)
        for exemplar in buckets.values():
            self.assertEqual(exemplar.labels, {"trace_id": "4bf9"})
            self.assertAlmostEqual(float(exemplar.timestamp), time.time(), delta=60)

    def promtool(self, text):
        return subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)

    def test_promtool_is_silent(self):
        done = self.promtool(dump("text"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))

    def test_promtool_would_speak(self):
        self.assertNotEqual(self.promtool(b"no_help 1\n").returncode, 0)


if __name__ == "__main__":
    unittest.main()
