# SPDX-License-Identifier: Apache-2.0
"""Every query of every panel, asked of the real Prometheus after traffic that is known one by one: none may be
refused, none may be empty that should not be, and the numbers must be those of the traffic.

Two Prometheus scrape the same daemon with the shipped rules: one native histograms with exemplars, one the
classic text, because the dashboards must be right over both. Then every dashboard is drawn, and each panel must
have drawn something.
"""

import functools
import pathlib
import re
import struct
import tempfile
import time
import unittest

import grafana
import judge
import pictures
from harness import Prometheus
from harness.browser import Browser, find as find_browser
from known_traffic import SLOWNESS, TARGETS, KnownTraffic

ROUNDS = 5
RULES = [str(grafana.TOP / "alerts" / name) for name in ("handoff-rules.yml", "handoff-alerts.yml")]

# Nothing has run for a week, no agent pulls, and there is no channel.
EMPTY = {("handoff-tasks", "Depth against the week before"), ("handoff-agent", "Inbox"),
         ("handoff-agent", "Time since the last poll"), ("handoff-overview", "Published"),
         ("handoff-overview", "Pending"), ("handoff-overview", "Oldest pending"), ("handoff-overview", "Redelivered")}


def last(series):
    return series.samples[-1][1]


def values(answer, label=None):
    """{value of a label (None: the only one): last value}"""
    return {one.labels.get(label): last(one) for one in answer.series}


def ever_positive(answer, label):
    """The values of a label whose series were above 0 at some time."""
    return {one.labels.get(label) for one in answer.series if any(value > 0 for _, value in one.samples)}


def over_both(test):
    """A test of the answers of each Prometheus."""
    @functools.wraps(test)
    def of_each(self):
        for histograms in ("native", "classic"):
            with self.subTest(histograms=histograms):
                test(self, self.answers[getattr(self, histograms)])
    return of_each


class Dashboards(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.traffic = KnownTraffic()
        cls.enterClassContext(cls.traffic)
        web = cls.traffic.daemon.web.address
        rules = {"rule_files": RULES}
        cls.native = Prometheus({"handoff": web}, ("native-histograms", "exemplar-storage"), config=rules)
        cls.enterClassContext(cls.native)
        cls.classic = Prometheus({"handoff": web}, config=rules)
        cls.enterClassContext(cls.classic)
        cls.began = time.time()
        for prometheus in cls.both():
            prometheus.scraped(3)  # everything at 0, so that the first handoff is an increase
        for number in range(ROUNDS):
            cls.traffic.accidents() if number == 1 else cls.traffic.round()
            cls.native.scraped(1)
        cls.traffic.replay()
        cls.wait_for_the_alerts()
        cls.at = time.time()
        cls.answers = {prometheus: cls.ask(prometheus) for prometheus in cls.both()}

    @classmethod
    def both(cls):
        return cls.native, cls.classic

    @classmethod
    def wait_for_the_alerts(cls):
        for prometheus in cls.both():
            prometheus.scraped(4)
            prometheus.wait_for('ALERTS{alertname="HandoffCircuitOpen", alertstate="firing"}')
            prometheus.wait_for('job_pattern:handoff_hop_depth:mean1h{pattern="direct"}')

    @classmethod
    def ask(cls, prometheus, **selected):
        return judge.ask_all(prometheus.http.url, shown=int(cls.at - cls.began) + 2, scrape_interval=1, at=cls.at,
                             selected=selected)

    def one(self, answers, uid, title, number=0):
        """The value of a query that finds one series."""
        found = answers[uid][title][number].series
        self.assertEqual(len(found), 1, f"{title}: {found}")
        return last(found[0])

    # ---- the judge

    @over_both
    def test_nothing_is_refused_and_nothing_is_missing(self, answers):
        self.assertEqual(judge.complaints(answers), [])

    @over_both
    def test_only_what_says_so_is_empty(self, answers):
        self.assertEqual(set(judge.empty_panels(answers)), EMPTY)

    def test_each_histogram_query_speaks_over_one_form_at_least(self):
        for uid, titles in self.answers[self.native].items():
            for title, asked in titles.items():
                if asked[0].query.panel["type"] == "heatmap":
                    native, classic = asked
                    over_text = self.answers[self.classic][uid][title]
                    self.assertTrue(native.series and not classic.series, f"{title} over native histograms")
                    self.assertTrue(over_text[1].series and not over_text[0].series, f"{title} over classic ones")

    def test_a_selected_agent_filters(self):
        answers = self.ask(self.native, target_agent=["down"], job=["handoff"])
        self.assertEqual(self.one(answers, "handoff-agent", "Failure rate"), 1)
        self.assertEqual(self.one(answers, "handoff-agent", "Circuit"), 2)
        self.assertEqual(self.one(answers, "handoff-agent", "Parked"), 3)
        self.assertEqual(self.one(answers, "handoff-overview", "Parked"), 3)
        self.assertEqual(set(values(answers["handoff-overview"]["Targets, worst first"][0], "target_agent")), {"down"})
        two = self.ask(self.native, target_agent=["coder", "analyst"])
        self.assertEqual(set(values(two["handoff-overview"]["Targets, worst first"][0], "target_agent")), {"coder", "analyst"})
        empty = self.ask(self.native, instance=["elsewhere:1"])
        self.assertIn(("handoff-overview", "Parked"), judge.empty_panels(empty))
        self.assertIn("handoff-overview: Parked shows nothing", "\n".join(judge.complaints(empty)))

    def test_what_prometheus_refuses_is_a_complaint(self):
        one = next(grafana.queries(grafana.dashboards()["handoff-agent"]))
        broken = grafana.Query(one.dashboard, one.panel, {**one.target, "expr": "sum("})
        answer = judge.Judge(self.native.http.url, 60, 1).ask(broken)
        self.assertIn("parse error", judge.complaints({"handoff-agent": {"Circuit": [answer]}})[0])

    def test_the_menus_of_variables_are_filled(self):
        judging = judge.Judge(self.native.http.url, 600, 1)
        for uid, dashboard in grafana.dashboards().items():
            for name, variable in grafana.variables(dashboard).items():
                if variable["type"] == "query":
                    options = set(judging.options(variable))
                    wanted = {"job": {"handoff"}, "instance": {self.traffic.daemon.web.address},
                              "target_agent": {*TARGETS, "other"}}[name]
                    self.assertEqual(options, wanted, f"{uid}: {name}")

    def test_annotations(self):
        judging = judge.Judge(self.native.http.url, int(time.time() - self.began) + 2, 1)
        for uid, dashboard in grafana.dashboards().items():
            asked = judging.annotations(dashboard)
            self.assertIn("HandoffCircuitOpen", values(asked["Alerts"], "alertname"), uid)
            [start] = values(asked["Restarts"]).values()
            self.assertLess(abs(start / 1000 - self.began), 60)

    # ---- the overview

    @over_both
    def test_the_five_measures(self, answers):
        traffic = self.traffic
        hops = [one["hop"]["count"] for one in traffic.envelopes()]
        used = [one["tokens"]["count"] / one["tokens"]["budget"] for one in traffic.envelopes()]
        def shown(title):
            return self.one(answers, "handoff-overview", title)
        self.assertAlmostEqual(shown("Failure rate"), traffic.failure_rate(), 6)
        self.assertAlmostEqual(shown("Context completeness"), traffic.completeness(), 6)
        self.assertAlmostEqual(shown("Error budget left"), 1 - traffic.failure_rate() / 0.005, 4)
        self.assertAlmostEqual(shown("Hop depth, mean"), sum(hops) / len(hops), 2)
        self.assertAlmostEqual(shown("Token utilization, mean"), sum(used) / len(used), 1)
        self.assertGreater(shown("Handoff latency, p99"), SLOWNESS * 0.9)
        self.assertLess(shown("Handoff latency, p99"), 15)

    @over_both
    def test_current_values(self, answers):
        for title, expected in {"Open circuits": 1, "Parked": 4, "In flight": 1, "Sidecars down": 0, "Spine": 1}.items():
            self.assertEqual(self.one(answers, "handoff-overview", title), expected, title)

    @over_both
    def test_alerts(self, answers):
        severity, since = answers["handoff-overview"]["Active alerts"]
        found = {(one.labels["alertname"], one.labels.get("target_agent")): last(one) for one in severity.series}
        self.assertEqual(found[("HandoffCircuitOpen", "down")], 3)
        self.assertEqual(found[("HandoffConsecutiveFailures", "down")], 2)
        self.assertEqual(found[("HandoffFailed", "down")], 1)
        self.assertEqual(found[("HandoffHopLimitReached", "analyst")], 2)
        self.assertNotIn("HandoffWatchdog", [name for name, _ in found])
        self.assertTrue(all(self.began * 1000 < last(one) <= self.at * 1000 for one in since.series))
        firing = answers["handoff-overview"]["Firing alerts"]
        self.assertEqual([last(one.series[0]) for one in firing],
                         [sum(level == 3 for level in found.values()), sum(level == 2 for level in found.values())])

    @over_both
    def test_targets(self, answers):
        columns = [values(answer, "target_agent") for answer in answers["handoff-overview"]["Targets, worst first"]]
        circuit, failing, complete, slow, _, handoffs, in_a_row, parked, in_flight = columns
        self.assertEqual(circuit, {name: 2 if name == "down" else 0 for name in TARGETS})
        for target in ("analyst", "coder", "reviewer", "down", "picky", "hurried"):
            self.assertAlmostEqual(failing[target], self.traffic.failure_rate(target), 6)
        for target in ("analyst", "coder", "reviewer"):
            self.assertAlmostEqual(complete[target], self.traffic.completeness(target), 6)
            self.assertAlmostEqual(handoffs[target] / handoffs["coder"], len(self.settled(target)) / len(self.settled("coder")), 6)
        self.assertGreater(slow["reviewer"], SLOWNESS * 0.9)
        self.assertEqual((in_a_row["down"], in_a_row["coder"]), (3, 0))
        # the picky one's was replayed; the analyst's is beyond the hop limit, which needs an operator's word
        self.assertEqual((parked["down"], parked["picky"], parked["analyst"]), (3, 0, 1))
        self.assertEqual((in_flight["sleepy"], in_flight["coder"]), (1, 0))

    def settled(self, target):
        return [one for one in self.traffic.sent if one.target == target and
                one.outcome in ("acknowledged", "exhausted", "refused", "expired")]

    # ---- the other dashboards

    @over_both
    def test_outcomes_and_attempts_are_those_that_happened(self, answers):
        outcomes = answers["handoff-agent"]["Outcomes"][0]
        self.assertEqual(ever_positive(outcomes, "outcome"), set(self.traffic.outcomes()))
        attempts = answers["handoff-agent"]["Attempts by result"][0]
        self.assertEqual(ever_positive(attempts, "result"), set(self.traffic.attempts))
        lost = answers["handoff-agent"]["Memories missing and trimmed"][0]
        self.assertEqual(ever_positive(lost, "outcome"), {"missing", "trimmed"})
        parked = answers["handoff-agent"]["Parked and replayed"]
        self.assertEqual(ever_positive(parked[0], "reason"), {"exhausted", "refused", "hop_limit"})
        self.assertTrue(any(value > 0 for _, value in parked[1].series[0].samples))
        opened = answers["handoff-agent"]["Circuit openings"][0]
        self.assertEqual(ever_positive(opened, "target_agent"), {"down"})

    @over_both
    def test_the_circuit_over_time(self, answers):
        states = {one.labels["target_agent"]: [value for _, value in one.samples]
                  for one in answers["handoff-agent"]["Circuit over time"][0].series}
        self.assertEqual(set(states["coder"]), {0})
        self.assertEqual((states["down"][0], states["down"][-1]), (0, 2))
        self.assertEqual(states["down"], sorted(states["down"]))

    @over_both
    def test_what_waits_gets_older(self, answers):
        in_flight, parked = answers["handoff-agent"]["Oldest in flight and parked"]
        for ages, target in ((in_flight, "sleepy"), (parked, "down")):
            [series] = [one for one in ages.series if one.labels["target_agent"] == target]
            self.assertGreater(last(series), 1)
            self.assertLess(last(series), self.at - self.began)

    @over_both
    def test_hops(self, answers):
        self.assertEqual(set(values(answers["handoff-tasks"]["Mean depth by pattern"][0], "pattern")) & {"direct"}, {"direct"})
        deep = self.one(answers, "handoff-tasks", "Hop depth, p95")
        self.assertTrue(2 < deep <= 4.2, deep)
        scale = self.scale(answers)
        self.assertAlmostEqual(self.one(answers, "handoff-tasks", "Cycles") / scale, self.traffic.cycles, delta=0.2)
        self.assertAlmostEqual(self.one(answers, "handoff-tasks", "Stopped by the hop limit") / scale, 1, delta=0.1)
        heat = {one.labels["le"]: max(value for _, value in one.samples)
                for one in self.answers[self.classic]["handoff-tasks"]["Depth distribution"][1].series}
        by_hop = {float(le): count for le, count in heat.items()}
        self.assertTrue(0 < by_hop[1] < by_hop[2] < by_hop[3], by_hop)
        # the one that is parked as the fifth
        self.assertTrue(by_hop[4] < by_hop[5] == by_hop[12], by_hop)

    @over_both
    def test_tasks(self, answers):
        completed = self.traffic.completed
        self.assertAlmostEqual(self.one(answers, "handoff-tasks", "Tasks completed") / self.scale(answers), completed.total(), delta=0.2)
        self.assertAlmostEqual(self.one(answers, "handoff-tasks", "Handoffs per task, mean"),
                               sum(handoffs * tasks for handoffs, tasks in completed.items()) / completed.total(), 6)

    def scale(self, answers):
        """How much increase() extrapolates over this window: what it says of a known number."""
        handoffs = values(answers["handoff-overview"]["Targets, worst first"][5], "target_agent")
        return handoffs["coder"] / len(self.settled("coder"))

    def test_heatmaps_hold_what_was_measured(self):
        acknowledged = self.traffic.outcomes()["acknowledged"]
        native = self.answers[self.native]["handoff-agent"]["Latency of acknowledged handoffs"][0].series
        [one] = native
        window = grafana.rate_interval(1, 1)
        counted = sum(count for _, (count, _) in one.samples) / window
        self.assertTrue(0.5 * acknowledged < counted < 2 * acknowledged, counted)

    def test_exemplars_are_handoffs_that_happened(self):
        judging = judge.Judge(self.native.http.url, int(time.time() - self.began) + 2, 1)
        happened = {one["id"] for one in self.traffic.envelopes()}
        for uid, dashboard in grafana.dashboards().items():
            with_exemplars = [query for query in grafana.queries(dashboard) if query.target.get("exemplar")]
            for query in with_exemplars:
                if query.target["expr"].startswith("sum by (le)"):
                    continue  # the classic form, which this Prometheus does not scrape
                found = judging.exemplars(query.target)
                self.assertTrue(found, f'{uid}: {query.panel["title"]}')
                self.assertLessEqual({one["labels"]["handoff_id"] for one in found}, happened)
                self.assertTrue(all(re.fullmatch("[0-9a-f]{32}", one["labels"]["trace_id"]) for one in found))

    @over_both
    def test_the_sidecar_tells_of_itself(self, answers):
        process = self.traffic.daemon.process.pid
        resident = 4096 * int(pathlib.Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        def shown(title):
            return self.one(answers, "handoff-sidecar", title)
        for title, expected in {"Sidecars up": 1, "Spine": 1, "Configuration": 1, "Label sets folded": 0,
                                "Failed commits": 0, "In flight": 1}.items():
            self.assertEqual(shown(title), expected, title)
        self.assertAlmostEqual(shown("Memory") / resident, 1, delta=0.3)
        self.assertTrue(0 < shown("File descriptors in use") < 0.9)
        self.assertTrue(3 <= shown("Threads") < 50)
        stages = {one.labels["stage"] for one in answers["handoff-sidecar"]["Stages, p99"][0].series}
        self.assertEqual(stages, {"resolve", "trim", "encode", "persist", "attempt"})
        self.assertEqual(ever_positive(answers["handoff-sidecar"]["Scrapes by status"][0], "code"), {"200"})
        self.assertIn("ok", ever_positive(answers["handoff-sidecar"]["Spine requests by outcome"][0], "outcome"))
        running = values(answers["handoff-sidecar"]["Sidecars"][2], "instance")
        self.assertTrue(0 < running[self.traffic.daemon.web.address] < 120)

    # ---- pictures

    @classmethod
    @functools.lru_cache(maxsize=None)
    def browser(cls):
        return cls.enterClassContext(Browser())

    def page(self, prometheus, uid, **changes):
        dashboard = {**grafana.dashboards()[uid], **changes}
        return pictures.page_of(dashboard, prometheus.http.url, int(self.at - self.began) + 2, 1, at=self.at)

    def draw(self, page):
        """{title: what was drawn}, after a look at the size of the picture."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "picture.png")
            drawn = pictures.draw(page, path, self.browser())
            head = path.read_bytes()[:24]
        self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", head[16:24])
        self.assertEqual(width, pictures.WIDTH)
        self.assertGreater(height, 800)
        return drawn

    def check_drawn(self, uid, drawn):
        panels = {panel["title"]: panel for panel in grafana.panels(grafana.dashboards()[uid], rows=True)}
        self.assertEqual(set(drawn), set(panels))
        for title, said in drawn.items():
            if panels[title]["type"] == "row":
                continue
            with self.subTest(panel=title):
                self.assertEqual((said["clipped"], said["overflows"]), ("false", "false"))
                empty = (uid, title) in EMPTY - {("handoff-tasks", "Depth against the week before")}
                self.assertEqual(int(said["drawn"]) == 0, empty)
                if not empty and panels[title]["type"] in ("timeseries", "heatmap"):
                    self.assertGreater(int(said["pixels"]), 50)

    @unittest.skipUnless(find_browser(), "chromium is not installed")
    def test_every_panel_is_drawn(self):
        for uid in grafana.dashboards():
            drawn = self.draw(self.page(self.native, uid))
            self.check_drawn(uid, drawn)
            if uid == "handoff-overview":
                texts = {title: said["text"] for title, said in drawn.items() if "text" in said}
                self.assertEqual((texts["Open circuits"], texts["Spine"], texts["Parked"]), ("1", "up", "4"))
                self.assertEqual(drawn["Targets, worst first"]["first"], "down")
                self.assertEqual(drawn["Active alerts"]["first"], "3")

    @unittest.skipUnless(find_browser(), "chromium is not installed")
    def test_classic_histograms_are_drawn_too(self):
        self.check_drawn("handoff-agent", self.draw(self.page(self.classic, "handoff-agent")))

    @unittest.skipUnless(find_browser(), "chromium is not installed")
    def test_what_cannot_be_drawn_is_told(self):
        panels = [panel for panel in grafana.dashboards()["handoff-agent"]["panels"] if panel["type"] != "row"][:2]
        panels[1]["type"] = "graph"
        with self.assertRaisesRegex(AssertionError, "not drawn to its end"):
            self.draw(self.page(self.native, "handoff-agent", panels=panels))


if __name__ == "__main__":
    unittest.main()
