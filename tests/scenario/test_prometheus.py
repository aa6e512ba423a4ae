# SPDX-License-Identifier: Apache-2.0
"""The real Prometheus scrapes the daemon and metrics_server.c, and finds what was observed.

Two of them run beside each other: "classic" as it comes from the box, which takes OpenMetrics, and
"native" with native histograms, which takes protobuf. Neither asks for text 0.0.4 while it can have
better, so a relay asks for it instead; relays also witness what was asked and answered. Meanwhile a
thread of metrics_server observes without a pause, and makes and ends series.
"""
# variants: release asan

import bisect
import collections
import functools
import math
import operator
import os
import pathlib
import random
import re
import subprocess
import time
import unittest
import urllib.parse

from harness import Daemon, Prometheus, Relay, TIMEOUT

REVISION = pathlib.Path(os.environ["HANDOFF_BINARY_DIR"]) / "exporter/generated/revision.h"
SERVER = pathlib.Path(os.environ["HANDOFF_BINARY_DIR"]) / "tests" / "metrics_server"

# A scrape may take as long; generous, so that a loaded machine does not fail one.
INTERVAL = "2s"
RACES = 8  # jobs of each Prometheus that scrape metrics_server while it changes

TEXT = "text/plain;version=0.0.4"
SCHEMA = 3                         # as metrics_server.c declares
BASE = 2 ** (2 ** -SCHEMA)         # the ratio of a native bucket's upper bound to its lower bound
DURATION_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, math.inf]
HOP_BOUNDS = [0, 1, 2.5, 10, 1000000, 1000001, math.inf]

COUNTERS = {"coder": 3, "reviewer": 2 ** 53, "idle": 0}
GAUGES = {"nan": math.nan, "minus nan": -math.nan, "infinite": math.inf,
          "minus infinite": -math.inf, "sum": 0.1 + 0.2, "tiny": 5e-324,
          "huge": 1.7976931348623157e308, "minus": -1 / 3, "million": 1e6, "million and one": 1e6 + 1}
HARD_LABELS = ['1",b="2', "back\\slash", "\\", '"', "\\n", "line\nline\n", "\\\\\n\"", "M\u00fcller",
               "\u65e5\u672c\u8a9e", "\U0001f680", "tab\tand\rreturn", "{}=,#", " spaces ", "+Inf",
               "\u2028\u0085", "\x01\x7f"]
BAD_BYTES = (b"bad \xff byte", "bad \ufffd byte")
HOPS = [0, 1, 1, 2, 2.5, 3, 10, 999999, 1000000, 1000001, 1000002, 1e300]
# On and beside native bounds, which are powers of BASE, and outside the native range.
EDGES = [0.0, 2.0 ** -21, 2.0 ** -20, 0.1, 0.5, 1.0, math.nextafter(1.0, 2.0), BASE,
         math.nextafter(BASE, 2.0), 2.0, 1024.0, 1025.0, 1e12]
# Each is observed after the one before was scraped, in a lower bucket: of a native histogram,
# Prometheus before 2.46 takes over only the exemplar of the lowest bucket that has one.
LATE = [5.0, 0.5, 0.02]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HANDOFF = "0190c8a4-0000-7000-8000-%012d"
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1)


def durations():
    """Latencies with a long tail; the same in every run."""
    source = random.Random(42)
    return [source.lognormvariate(-1, 1.2) for _ in range(2000)]


DURATIONS = durations()


def native_index(value):
    """The bucket of a value, from the specification: (BASE^(i-1), BASE^i], in doubles."""
    index = round(math.log2(value) * 2 ** SCHEMA)
    return index + (value > 2 ** (index / 2 ** SCHEMA))


def cumulative(values, bounds):
    ordered = sorted(values)
    return {bound: bisect.bisect_right(ordered, bound) for bound in bounds}


def in_order(values):
    """The sum as a program adds up: sum() of newer Pythons is more exact than that."""
    return functools.reduce(operator.add, values)


def same(a, b):
    return a == b or math.isnan(a) and math.isnan(b)


class MetricsServer:
    """A running metrics_server."""

    def __init__(self):
        self.process = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, *fields):
        """One command; numbers are sent so that nothing of them is lost."""
        coded = [field.hex() if isinstance(field, float) else str(field)
                 if isinstance(field, int) else urllib.parse.quote(field, safe="")
                 for field in fields]
        self.process.stdin.write((" ".join(coded) + "\n").encode())

    def serve(self):
        """Its address."""
        self.tell("serve")
        self.flush()
        return self.process.stdout.readline().decode().strip()

    def flush(self):
        self.process.stdin.flush()

    def stop(self):
        self.process.stdin.close()
        code = self.process.wait(TIMEOUT)
        self.process.stdout.close()
        if code != 0:
            raise AssertionError(f"metrics_server ended with {code}")


def fill(server):
    for agent, count in COUNTERS.items():
        server.tell("add", agent, count - 1 if agent == "coder" else count)
    server.tell("add", "coder", 1, TRACE, HANDOFF % 0)
    for name, value in GAUGES.items():
        server.tell("set", name, value)
    for i, label in enumerate([*HARD_LABELS, BAD_BYTES[0]]):
        server.tell("add", label, 1000 + i)
    for value in HOPS:
        server.tell("hop", float(value))
    for value in EDGES:
        server.tell("observe", "edges", value)
    for i, value in enumerate(DURATIONS):
        server.tell("observe", "coder", value, TRACE, HANDOFF % i)


class Judged(unittest.TestCase):
    """Everything runs once, for all tests; no test changes what another one reads."""
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = MetricsServer()
        cls.addClassCleanup(cls.server.stop)
        fill(cls.server)
        address = cls.server.serve()
        cls.server.tell("busy")
        cls.daemon = cls.enterClassContext(Daemon())
        cls.relays = {}
        for name, accept in ("text", TEXT), ("classic", None), ("native", None):
            cls.relays[name] = cls.enterClassContext(Relay(address, accept))
        jobs = {f"race-{i}": address for i in range(RACES)}
        jobs["daemon"] = cls.daemon.web.address
        features = ["exemplar-storage"]
        cls.classic = cls.enterClassContext(Prometheus(
            {"text": cls.relays["text"].address, "probe": cls.relays["classic"].address, **jobs},
            features, INTERVAL))
        cls.native = cls.enterClassContext(Prometheus(
            {"probe": cls.relays["native"].address, **jobs},
            [*features, "native-histograms"], INTERVAL))
        for i, value in enumerate(LATE):
            cls.server.tell("observe", "late", value, TRACE, HANDOFF % i)
            cls.server.flush()
            observed = time.time()
            for prometheus in cls.classic, cls.native:
                prometheus.scraped(since=observed)

    def each(self):
        """(Prometheus, job) for each format."""
        for name, prometheus, job in (("text", self.classic, "text"),
                                      ("openmetrics", self.classic, "probe"),
                                      ("protobuf", self.native, "probe")):
            with self.subTest(format=name):
                yield prometheus, job

    # ---- what was asked and answered

    def test_each_format_is_negotiated_and_compressed(self):
        for name, content_type in (("text", "text/plain; version=0.0.4"),
                                   ("classic", "application/openmetrics-text; version=1.0.0"),
                                   ("native", "application/vnd.google.protobuf; ")):
            with self.subTest(relay=name):
                self.assertGreaterEqual(len(self.relays[name].exchanges), 2)
                for exchange in self.relays[name].exchanges:
                    self.assertEqual(exchange.reply.status, 200)
                    self.assertTrue(exchange.reply.header("Content-Type").startswith(content_type),
                                    exchange.reply.header("Content-Type"))
                    self.assertIn("gzip", exchange.headers["Accept-Encoding"])
                    self.assertEqual(exchange.reply.header("Content-Encoding"), "gzip")

    # ---- values

    def test_counters(self):
        for prometheus, job in self.each():
            found = prometheus.values(f'probe_handoffs_total{{job="{job}"}}', "target_agent")
            self.assertEqual({agent: found[agent] for agent in COUNTERS}, COUNTERS)

    def test_hard_label_values_arrive_byte_for_byte(self):
        expected = {label: 1000 + i for i, label in enumerate([*HARD_LABELS, BAD_BYTES[1]])}
        for prometheus, job in self.each():
            found = prometheus.values(f'probe_handoffs_total{{job="{job}"}} >= 1000', "target_agent")
            self.assertEqual(found, {**expected, "reviewer": COUNTERS["reviewer"]})

    def test_gauges_hold_every_value_exactly(self):
        for prometheus, job in self.each():
            found = prometheus.values(f'probe_load{{job="{job}"}}', "of")
            self.assertEqual(set(found), set(GAUGES))
            for name, value in GAUGES.items():
                self.assertTrue(same(found[name], value), f"{name}: {found[name]} is not {value}")

    # ---- classic histograms

    def check_classic(self, prometheus, selector, values, bounds):
        # le as it was stored: another text of the same number would be another series
        found = prometheus.values(selector.replace("{", "_bucket{"), "le")
        self.assertEqual({float(le): count for le, count in found.items()}, cumulative(values, bounds))
        self.assertEqual(len(found), len(bounds))
        self.assertIn("+Inf", found)
        self.assertEqual(prometheus.value(selector.replace("{", "_count{")), len(values))
        self.assertEqual(prometheus.value(selector.replace("{", "_sum{")), in_order(values))
        return set(found)

    def test_classic_histograms(self):
        for job in "text", "probe":
            for agent, values in ("coder", DURATIONS), ("edges", EDGES):
                with self.subTest(job=job, agent=agent):
                    self.check_classic(
                        self.classic, f'probe_duration_seconds{{job="{job}",target_agent="{agent}"}}',
                        values, DURATION_BOUNDS)

    def test_a_histogram_without_native_side_is_classic_in_every_format(self):
        le = {}
        for prometheus, job in self.each():
            le[prometheus, job] = self.check_classic(prometheus, f'probe_hops{{job="{job}"}}',
                                                     HOPS, HOP_BOUNDS)
        # A selector keeps working when the format changes; in protobuf le is Prometheus' own text.
        self.assertEqual(le[self.classic, "probe"], le[self.native, "probe"])
        self.assertEqual(le[self.classic, "probe"],
                         {"0.0", "1.0", "2.5", "10.0", "1e+06", "1.000001e+06", "+Inf"})

    def test_classic_quantiles_lie_in_the_bucket_of_the_true_one(self):
        for quantile in 0.1, 0.5, 0.9, 0.99:
            true = true_quantile(DURATIONS, quantile)
            found = self.classic.value(f'histogram_quantile({quantile}, probe_duration_seconds_bucket'
                                       '{job="probe",target_agent="coder"})')
            at = bisect.bisect_left(DURATION_BOUNDS, true)
            self.assertLessEqual(found, DURATION_BOUNDS[at])
            self.assertGreaterEqual(found, ([0] + DURATION_BOUNDS)[at])

    # ---- native histograms

    def native_histogram(self, agent):
        return self.native.value(f'probe_duration_seconds{{job="probe",target_agent="{agent}"}}')

    def test_native_histograms_come_alone(self):
        self.assertEqual(self.native.query('probe_duration_seconds_bucket{job="probe"}'), [])

    def test_native_buckets_hold_what_was_observed(self):
        histogram = self.native_histogram("coder")
        self.assertEqual(histogram.count, len(DURATIONS))
        self.assertEqual(histogram.sum, in_order(DURATIONS))
        found = {round(math.log2(upper) * 2 ** SCHEMA): count for _, upper, count in histogram.buckets}
        self.assertEqual(found, collections.Counter(map(native_index, DURATIONS)))
        for lower, upper, _ in histogram.buckets:
            self.assertAlmostEqual(upper / lower, BASE, places=9)

    def test_native_buckets_at_their_edges(self):
        histogram = self.native_histogram("edges")
        self.assertEqual(histogram.count, len(EDGES))
        self.assertEqual(histogram.sum, in_order(EDGES))
        self.assertEqual(sum(count for *_, count in histogram.buckets), len(EDGES))
        zero = [bucket for bucket in histogram.buckets if bucket[0] < 0]
        self.assertEqual(zero, [(-2.0 ** -20, 2.0 ** -20, 3)])  # 0, under, and at the threshold
        over = [bucket for bucket in histogram.buckets if bucket[1] > 2 ** 10]
        self.assertEqual(sum(count for *_, count in over), 2)  # 1025 and 1e12
        inside = [value for value in EDGES if 2.0 ** -20 < value <= 2.0 ** 10]
        found = {round(math.log2(upper) * 2 ** SCHEMA): count
                 for lower, upper, count in histogram.buckets if lower > 0 and upper <= 2 ** 10}
        self.assertEqual(found, collections.Counter(map(native_index, inside)))

    def test_native_quantiles_are_within_the_bucket_error(self):
        print("\n  quantile        true   estimated   error")
        for quantile in QUANTILES:
            true = true_quantile(DURATIONS, quantile)
            found = self.native.value(f'histogram_quantile({quantile}, probe_duration_seconds'
                                      '{job="probe",target_agent="coder"})')
            error = found / true - 1
            print(f"  {quantile:8g} {true:11.6f} {found:11.6f} {error:+7.2%}")
            # in the bucket of the true one, so off by less than the width of a bucket
            upper = 2 ** (native_index(true) / 2 ** SCHEMA)
            self.assertLessEqual(found, upper * (1 + 1e-12))
            self.assertGreaterEqual(found, upper / BASE * (1 - 1e-12))

    # ---- exemplars

    def exemplars(self, prometheus, selector, values):
        """Exemplars as {handoff number: Exemplar}; all are observations of `values`."""
        found = {}
        for exemplar in prometheus.exemplars(selector):
            handoff = exemplar.labels["handoff_id"]
            self.assertEqual(exemplar.labels, {"trace_id": TRACE, "handoff_id": handoff})
            self.assertAlmostEqual(exemplar.time, time.time(), delta=600)
            found[int(handoff[-12:])] = exemplar
        self.assertEqual({i: one.value for i, one in found.items()}, {i: values[i] for i in found})
        return found

    def test_exemplars_of_classic_buckets(self):
        for agent, values in ("coder", DURATIONS), ("late", LATE):
            found = self.exemplars(self.classic, 'probe_duration_seconds_bucket'
                                   f'{{job="probe",target_agent="{agent}"}}', values)
            bucket = [DURATION_BOUNDS[bisect.bisect_left(DURATION_BOUNDS, value)] for value in values]
            self.assertEqual({i: float(one.series["le"]) for i, one in found.items()},
                             {i: bucket[i] for i in found})
            if agent == "late":
                self.assertEqual(set(found), set(range(len(LATE))))
            else:  # they were there before the first scrape: the newest of each bucket
                self.assertEqual(set(found), {max(i for i, at in enumerate(bucket) if at == le)
                                              for le in set(bucket)})

    def test_exemplars_of_native_histograms(self):
        found = self.exemplars(self.native, 'probe_duration_seconds'
                               '{job="probe",target_agent="late"}', LATE)
        self.assertEqual(set(found), set(range(len(LATE))))
        # How many of those that come in one scrape are kept depends on the version; see LATE.
        self.assertTrue(self.exemplars(self.native, 'probe_duration_seconds'
                                       '{job="probe",target_agent="coder"}', DURATIONS))

    def test_exemplars_of_counters(self):
        for prometheus in self.classic, self.native:
            found = prometheus.exemplars('probe_handoffs_total{job="probe"}')
            self.assertEqual([(one.series["target_agent"], one.labels, one.value) for one in found],
                             [("coder", {"trace_id": TRACE, "handoff_id": HANDOFF % 0}, 1)])

    # ---- scrapes while everything changes

    def test_no_scrape_fails(self):
        for prometheus in self.classic, self.native:
            for up in prometheus.samples("up"):
                self.assertEqual({value for _, value in up.samples}, {1}, up.labels)
            for job, targets in prometheus.targets().items():
                self.assertEqual([(target["health"], target["lastError"]) for target in targets],
                                 [("up", "")], job)
            scrapes = sum(len(one.samples) for one in prometheus.samples('up{job=~"race-.*"}'))
            self.assertGreaterEqual(scrapes, 3 * RACES)
            self.check_nothing_was_dropped(prometheus)
        failed = self.classic.value('handoff_exporter_scrapes_total{job="race-0",code="503"}')
        self.assertEqual(failed, 0)

    def check_nothing_was_dropped(self, prometheus):
        """Prometheus counts samples that it had to throw away; a scrape is "up" all the same."""
        for line in prometheus.http.get("/metrics").text.splitlines():
            if line.startswith("prometheus_target_scrapes_sample_"):
                self.assertTrue(line.endswith(" 0"), line)
        for line in prometheus.log().splitlines():
            self.assertFalse('component="scrape manager"' in line and
                             re.search("level=(warn|error)", line, re.IGNORECASE), line)

    def test_series_come_and_go_during_scrapes(self):
        for prometheus in self.classic, self.native:
            for i in range(RACES):
                seen = prometheus.samples(f'probe_busy_total{{job="race-{i}"}}')
                self.assertTrue(all(value == 1 for one in seen for _, value in one.samples))
                moments = collections.Counter(at for one in seen for at, _ in one.samples)
                self.assertGreater(len(seen), max(moments.values()), "none came or none went")

    def test_classic_buckets_are_consistent_in_every_scrape(self):
        checked = 0
        for job in ["text", "probe"] + [f"race-{i}" for i in range(RACES)]:
            # {time: [count of each bucket, in the order of le]}
            buckets, counts = collections.defaultdict(dict), {}
            # in one query, which sees each scrape whole or not at all
            for one in self.classic.samples(f'{{__name__=~"probe_busy_seconds_(bucket|count)", job="{job}"}}'):
                if one.labels["__name__"].endswith("_count"):
                    counts.update(one.samples)
                    continue
                for at, value in one.samples:
                    buckets[at][float(one.labels["le"])] = value
            self.assertEqual(set(buckets), set(counts))
            before = [0] * len(DURATION_BOUNDS)
            for at in sorted(buckets):
                row = [buckets[at][bound] for bound in DURATION_BOUNDS]
                self.assertEqual(row, sorted(row), job)
                self.assertEqual(row[-1], counts[at], job)
                self.assertTrue(all(old <= new for old, new in zip(before, row)), job)
                before, checked = row, checked + 1
            self.assertGreater(before[-1], 0)
        self.assertGreaterEqual(checked, 3 * RACES)

    def test_native_buckets_are_consistent_in_every_scrape(self):
        checked = 0
        for one in self.native.samples('probe_busy_seconds{job=~"race-.*|probe"}'):
            before = 0
            for _, histogram in one.samples:
                self.assertEqual(sum(count for *_, count in histogram.buckets), histogram.count)
                self.assertGreaterEqual(histogram.count, before)
                before, checked = histogram.count, checked + 1
        self.assertGreaterEqual(checked, 3 * RACES)

    # ---- the daemon

    def test_the_daemon_tells_what_is_true(self):
        process = self.daemon.process.pid
        for prometheus in self.classic, self.native:
            def value(name, prometheus=prometheus, **labels):
                matchers = "".join(f',{key}="{text}"' for key, text in labels.items())
                return prometheus.value(f'{name}{{job="daemon"{matchers}}}')
            self.assertEqual(value("up"), 1)
            self.assertEqual(value("handoff_exporter_build_info", revision=built_revision()), 1)
            self.assertEqual(value("handoff_exporter_config_last_reload_successful"), 1)
            self.assertEqual(value("handoff_exporter_series_dropped_total"), 0)
            self.assertGreaterEqual(value("handoff_exporter_scrapes_total", code="200"), 1)
            # its own scrape, and perhaps that of the other Prometheus
            self.assertIn(value("handoff_exporter_scrapes_in_flight"), (1, 2))
            self.assertEqual(value("process_threads"), len(os.listdir(f"/proc/{process}/task")))
            self.assertAlmostEqual(value("process_start_time_seconds"), time.time(), delta=600)

    def test_the_daemons_scrape_histogram_is_native(self):
        histogram = self.native.value('handoff_exporter_scrape_duration_seconds{job="daemon"}')
        self.assertGreaterEqual(histogram.count, 1)
        self.assertEqual(sum(count for *_, count in histogram.buckets), histogram.count)

    def test_promtool_has_nothing_to_say_about_the_daemon(self):
        text = self.daemon.web.get("/metrics", accept="text/plain").body
        self.assertGreater(len(text), 1000)
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))


def built_revision():
    """What git said when the daemon was built."""
    return re.search('HANDOFF_REVISION "(.*)"', REVISION.read_text())[1] or "unknown"


def true_quantile(values, quantile):
    return sorted(values)[max(0, math.ceil(quantile * len(values)) - 1)]


if __name__ == "__main__":
    unittest.main()
