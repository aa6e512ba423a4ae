# SPDX-License-Identifier: Apache-2.0
"""The alert rules: what ships is what the mixin says, is complete, and is the same for Kubernetes.
What each alert does is in tests/alerts, which tests/scenario/test_alert_units.py runs."""

import functools
import importlib.machinery
import importlib.util
import json
import re
import sys
import unittest

import source_tree
import yaml

sys.path.insert(0, str(source_tree.TOP / "tests/support"))
import metric_names  # noqa: E402

ALERTS = source_tree.TOP / "alerts"
TEST_FILES = sorted((source_tree.TOP / "tests/alerts").glob("*.test.yml"))
RUNBOOKS = sorted((source_tree.TOP / "docs/runbooks").glob("*.md"))


def load_renderer():
    loader = importlib.machinery.SourceFileLoader("render", str(ALERTS / "render"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("render", loader))
    loader.exec_module(module)
    return module


def shipped(name):
    return yaml.safe_load((ALERTS / name).read_text())


def alert_rules():
    return [rule for group in shipped("handoff-alerts.yml")["groups"] for rule in group["rules"]]


def alert_names():
    return {rule["alert"] for rule in alert_rules()}


class Metrics(unittest.TestCase):
    """Nothing reads a series, or a label of it, that collectors/metrics.def does not have."""

    @classmethod
    def setUpClass(cls):
        cls.names = metric_names.shipped()

    def check(self, where, expression):
        self.assertEqual(self.names.faults(expression), [], f"{where}: {expression}")

    def test_that_rules_read_exist_with_the_labels_they_use(self):
        groups = {name: shipped(name)["groups"] for name in ("handoff-rules.yml", "handoff-alerts.yml")}
        groups["kubernetes"] = shipped("kubernetes/prometheusrule.yml")["spec"]["groups"]
        for file, found in groups.items():
            for rule in (rule for group in found for rule in group["rules"]):
                self.check(f"{file}: {rule.get('alert') or rule['record']}", rule["expr"])

    def test_that_annotations_ask_for_exist(self):
        asked = [(rule["alert"], query) for rule in alert_rules() for text in rule["annotations"].values()
                 for query in metric_names.queries(text)]
        self.assertGreater(len(asked), 20)
        for alert, query in asked:
            self.check(alert, query)

    def test_that_runbooks_read_exist(self):
        for page in RUNBOOKS:
            for query in re.findall(r"```promql\n(.*?)```", page.read_text(), re.DOTALL):
                self.check(page.name, query)

    def test_that_the_tests_feed_have_the_labels_they_really_have(self):
        for path in TEST_FILES:
            for test in tests_in(path):
                for series in test["input_series"]:
                    name, labels = re.fullmatch(r"(\w+)\{(.*)\}", series["series"]).groups()
                    labels = set(re.findall(r'(\w+)="', labels)) - {"job", "instance"}
                    self.assertEqual(labels, self.names.labels(name), f"{path.name}: {series['series']}")

    def test_recorded_names_begin_with_the_labels_they_have(self):
        for name, labels in self.names.recorded.items():
            self.assertEqual(name.split(":")[0], "_".join(sorted(labels)), name)

    def test_promised_metrics_are_as_promised_once_they_are_there(self):
        for name, metric in metric_names.declared().items():
            if name in metric_names.PROMISED:
                self.assertEqual((metric.type, metric.labels), metric_names.PROMISED[name], name)

    def test_what_does_not_exist_is_found(self):
        self.assertEqual(self.names.faults('sum by (job) (rate(handoff_handoffs_total{outcome="x"}[5m]))'), [])
        for wrong, found in {
                "handoff_handoff_total": "there is no series handoff_handoff_total",
                "rate(handoff_attempts_total_bucket[5m])": "there is no series handoff_attempts_total_bucket",
                'handoff_attempts_total{outcome="ack"}': "handoff_attempts_total has no label outcome",
                "sum by (reason) (handoff_parked_entries)": "handoff_parked_entries has no label reason to group by",
                "sum(handoff_in_flight) by (le)": "handoff_in_flight has no label le to group by",
                "up * on (agent) group_left handoff_in_flight": "up has no label agent to group by",
                'job:handoff_envelopes:increase1h{target_agent="x"}':
                    "job:handoff_envelopes:increase1h has no label target_agent",
                "job:handoff_envelopes:increase2h": "there is no series job:handoff_envelopes:increase2h"}.items():
            self.assertIn(found, self.names.faults(wrong), wrong)


@functools.lru_cache(maxsize=None)
def tests_in(path):
    return yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["tests"]


def seconds(duration):
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([smhd])", str(duration)))


class EveryAlert(unittest.TestCase):

    def test_has_a_test_file_and_every_test_file_has_an_alert(self):
        self.assertEqual(alert_names(), {path.name[:-len(".test.yml")] for path in TEST_FILES})

    def test_is_shown_firing_and_silent(self):
        for path in TEST_FILES:
            alert = path.name[:-len(".test.yml")]
            cases = [case for test in tests_in(path)
                     for case in test.get("alert_rule_test", []) if case["alertname"] == alert]
            with self.subTest(alert):
                self.assertTrue(any(case.get("exp_alerts") for case in cases))
                # the watchdog is never silent
                if alert != "HandoffWatchdog":
                    self.assertTrue(any(not case.get("exp_alerts") for case in cases))

    def test_is_shown_resolving(self):
        for path in TEST_FILES:
            alert = path.name[:-len(".test.yml")]
            if alert == "HandoffWatchdog":
                continue  # never
            with self.subTest(alert):
                shown = [[bool(case.get("exp_alerts")) for case in test.get("alert_rule_test", [])
                          if case["alertname"] == alert] for test in tests_in(path)]
                # in the order of time, as test_cases_are_in_the_order_of_time holds
                self.assertTrue(any(True in moments and not moments[-1] for moments in shown))

    def test_cases_are_in_the_order_of_time(self):
        for path in TEST_FILES:
            for test in tests_in(path):
                moments = {}
                for case in test.get("alert_rule_test", []):
                    moments.setdefault(case["alertname"], []).append(seconds(case["eval_time"]))
                for times in moments.values():
                    self.assertEqual(times, sorted(set(times)), f"{path.name}: {test['name']}")

    def test_every_test_says_what_it_holds(self):
        names = [test["name"] for path in TEST_FILES for test in tests_in(path)]
        self.assertEqual(len(names), len(set(names)))
        for name in names:
            self.assertGreaterEqual(len(name.split()), 5, name)

    def test_carries_a_job_since_alertmanager_takes_a_missing_label_for_an_equal_one(self):
        for path in TEST_FILES:
            for test in tests_in(path):
                for case in test.get("alert_rule_test", []):
                    for expected in case.get("exp_alerts", []):
                        self.assertEqual(expected["exp_labels"].get("job"), "handoff", f"{path.name}: {test['name']}")

    def test_has_a_severity_and_the_annotations_people_need(self):
        for rule in alert_rules():
            with self.subTest(rule["alert"]):
                self.assertIn(rule["labels"]["severity"], {"critical", "warning", "info", "none"})
                annotations = rule["annotations"]
                for name in ("summary", "description", "command", "runbook_url", "dashboard_url"):
                    self.assertTrue(annotations.get(name), name)
                self.assertNotIn("{{", annotations["summary"], "grouped alerts share their summary")
                self.assertRegex(annotations["summary"], r"^[A-Z].*[^.]$")
                self.assertTrue(annotations["runbook_url"].endswith(f"/{rule['alert']}.md"))
                self.assertRegex(annotations["dashboard_url"], r"/d/handoff-(overview|agent|tasks|sidecar)\?")

    def test_of_the_contract_is_there_with_its_severities(self):
        severities = {}
        for rule in alert_rules():
            severities.setdefault(rule["alert"], set()).add(rule["labels"]["severity"])
        self.assertEqual(severities, {
            "HandoffFailed": {"info"},
            "HandoffConsecutiveFailures": {"warning"},
            "HandoffCircuitOpen": {"critical"},
            "HandoffCompletenessLow": {"warning"},
            "HandoffCompletenessCritical": {"critical"},
            "HandoffFailureRateElevated": {"warning"},
            "HandoffFailureRateCritical": {"critical"},
            "HandoffErrorBudgetBurn": {"critical", "warning"},
            "HandoffLatencyHigh": {"warning"},
            "HandoffTaskStalled": {"warning"},
            "HandoffChannelBacklog": {"warning"},
            "HandoffHopDepthRising": {"warning"},
            "HandoffHopLimitReached": {"warning"},
            "HandoffPingPong": {"info"},
            "HandoffBudgetUnderused": {"info"},
            "HandoffContextTrimmed": {"warning"},
            "HandoffContextUnrecovered": {"warning"},
            "HandoffParkedWaiting": {"warning"},
            "HandoffRefused": {"info"},
            "HandoffRefusedRepeatedly": {"warning"},
            "HandoffMostlyRefused": {"critical"},
            "HandoffExpired": {"warning"},
            "HandoffInboxUnattended": {"warning", "critical"},
            "HandoffRequestsFailing": {"warning"},
            "HandoffTokensEstimated": {"info"},
            "HandoffSpineDown": {"critical"},
            "HandoffExporterDown": {"critical"},
            "HandoffExporterInstanceUnreachable": {"warning"},
            "HandoffConfigReloadFailed": {"warning"},
            "HandoffRetentionCutShort": {"warning"},
            "HandoffSeriesDropped": {"warning"},
            "HandoffStoreFailing": {"critical"},
            "HandoffExporterOutOfResources": {"warning"},
            "HandoffWatchdog": {"none"},
        })


class Rendering(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.renderer = load_renderer()
        cls.mixin = ALERTS / "mixin.libsonnet"

    def test_shipped_files_are_what_the_mixin_says(self):
        for name, text in self.renderer.render(self.mixin).items():
            with self.subTest(name):
                self.assertEqual((ALERTS / name).read_text(), text, "run alerts/render and commit")

    def test_the_text_means_what_jsonnet_said(self):
        for name, value in self.renderer.evaluate(self.mixin).items():
            with self.subTest(name):
                self.assertEqual(shipped(name), value)

    def test_awkward_strings_survive(self):
        awkward = ["", " ", "yes", "No", "null", "~", "1", "1e3", "0x1", "12:30", "15m", "1.5", "a: b", "a #b", "a:", "'",
                   "it's", '"', "- a", "*a", "&a", "!a", "%a", "@a", "`a`", "{a}", "[a]", "a\nb", "a\n\n  b", "é", "word " * 40 + "end",
                   "two  spaces " * 20 + "end", "{{ with `a b` }} " * 12 + "end", "trailing ", " leading"]
        for text in awkward:
            with self.subTest(text):
                value = {"key": text, "list": [text, {"inner": text}]}
                self.assertEqual(yaml.safe_load(self.renderer.write(value)), value)

    def test_promtool_has_nothing_to_say(self):
        status, text = source_tree.run(["promtool", "check", "rules", "--lint=all", "--lint-fatal",
                                        ALERTS / "handoff-rules.yml", ALERTS / "handoff-alerts.yml"])
        self.assertEqual(status, 0, text)

    def test_kubernetes_has_the_same_rules(self):
        plain = shipped("handoff-rules.yml")["groups"] + shipped("handoff-alerts.yml")["groups"]
        rule = shipped("kubernetes/prometheusrule.yml")
        self.assertEqual(rule["kind"], "PrometheusRule")
        self.assertEqual(rule["spec"]["groups"], plain)

    def test_kubernetes_scrapes_the_job_that_the_rules_select(self):
        for name, endpoints in (("servicemonitor", "endpoints"), ("podmonitor", "podMetricsEndpoints")):
            monitor = shipped(f"kubernetes/{name}.yml")
            relabelings = [rule for endpoint in monitor["spec"][endpoints] for rule in endpoint["relabelings"]]
            self.assertEqual(relabelings, [{"action": "replace", "targetLabel": "job", "replacement": "handoff"}])

    def test_alerts_read_only_what_is_recorded_or_scraped(self):
        recorded = {rule["record"] for group in shipped("handoff-rules.yml")["groups"] for rule in group["rules"]}
        read = {name for rule in alert_rules() for name in re.findall(r"\bjob\w*:\w+:\w+", rule["expr"])}
        self.assertLessEqual(read, recorded)

    def test_thresholds_and_windows_stand_in_the_configuration_alone(self):
        for path in (ALERTS / "rules").glob("*.libsonnet"):
            expressions = re.findall(r"expr: (\|\|\|.*?\|\|\||[^|\n]*)", path.read_text(), re.S)
            for expression in expressions:
                # 0 and 1 are what a gauge says, not a threshold
                numbers = re.findall(r"(?:[<>]=?|\[) *(\d[\w.]*)", expression)
                self.assertLessEqual(set(numbers), {"0", "1"}, f"{path.name}: {expression}")


if __name__ == "__main__":
    unittest.main()
