# SPDX-License-Identifier: Apache-2.0
"""The alert rules: what ships is what the mixin says, is complete, and is the same for Kubernetes.
What each alert does is in tests/alerts, which tests/scenario/test_alert_units.py runs."""

import importlib.machinery
import importlib.util
import json
import re
import unittest

import source_tree
import yaml

ALERTS = source_tree.TOP / "alerts"
TEST_FILES = sorted((source_tree.TOP / "tests/alerts").glob("*.test.yml"))


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


# The metrics that alerts may read and their labels; job and instance come with the scrape.
TARGET = {"target_agent"}
METRICS = {
    "up": set(),
    "handoff_duration_seconds": TARGET | {"pattern", "outcome"},
    "handoff_stage_duration_seconds": {"stage"},
    "handoff_context_completeness_ratio": TARGET,
    "handoff_memory_refs_total": TARGET | {"outcome"},
    "handoff_handoffs_total": TARGET | {"pattern", "outcome"},
    "handoff_attempts_total": TARGET | {"result"},
    "handoff_consecutive_failures": TARGET,
    "handoff_circuit_state": TARGET | {"state"},
    "handoff_circuit_opened_total": TARGET,
    "handoff_parked_entries": TARGET | {"reason"},
    "handoff_oldest_parked_seconds": TARGET,
    "handoff_parked_total": TARGET | {"reason"},
    "handoff_replayed_total": TARGET,
    "handoff_in_flight": TARGET,
    "handoff_oldest_in_flight_seconds": TARGET,
    "handoff_hop_depth": {"pattern"},
    "handoff_task_handoffs": set(),
    "handoff_route_cycles_total": set(),
    "handoff_token_utilization_ratio": TARGET,
    "handoff_envelope_tokens": TARGET,
    "handoff_spine_up": set(),
    "handoff_spine_request_duration_seconds": {"operation", "outcome"},
    "handoff_channel_published_total": {"channel"},
    "handoff_channel_pending": {"channel", "receiver"},
    "handoff_channel_redelivered_total": {"channel", "receiver"},
    "handoff_channel_oldest_pending_seconds": {"channel", "receiver"},
    "handoff_exporter_series_dropped_total": set(),
    "handoff_exporter_config_last_reload_successful": set(),
    "handoff_exporter_config_last_reload_success_timestamp_seconds": set(),
}


def family(name):
    """The metric that a series belongs to."""
    return name if name in METRICS else re.sub(r"_(bucket|sum|count)$", "", name)


class Metrics(unittest.TestCase):

    def test_that_rules_and_runbooks_read_exist(self):
        texts = [rule["expr"] for name in ("handoff-rules.yml", "handoff-alerts.yml")
                 for group in shipped(name)["groups"] for rule in group["rules"]]
        texts += [text for rule in alert_rules() for text in rule["annotations"].values()]
        texts += [block for page in (source_tree.TOP / "docs/runbooks").glob("*.md")
                  for block in re.findall(r"```promql\n(.*?)```", page.read_text(), re.DOTALL)]
        read = {name for text in texts for name in re.findall(r"(?<![\w:])(handoff_\w+|up)(?=[{\[])", text)}
        self.assertGreater(len(read), 15)
        self.assertEqual({name for name in read if family(name) not in METRICS}, set())

    def test_that_the_tests_feed_have_the_labels_they_really_have(self):
        for path in TEST_FILES:
            for test in yaml.safe_load(path.read_text())["tests"]:
                for series in test["input_series"]:
                    name, labels = re.fullmatch(r"(\w+)\{(.*)\}", series["series"]).groups()
                    labels = set(re.findall(r'(\w+)="', labels)) - {"job", "instance"}
                    if name.endswith("_bucket"):
                        labels.remove("le")
                    self.assertEqual(labels, METRICS[family(name)], f"{path.name}: {series['series']}")


class EveryAlert(unittest.TestCase):

    def test_has_a_test_file_and_every_test_file_has_an_alert(self):
        self.assertEqual(alert_names(), {path.name[:-len(".test.yml")] for path in TEST_FILES})

    def test_is_shown_firing_and_silent(self):
        for path in TEST_FILES:
            alert = path.name[:-len(".test.yml")]
            cases = [case for test in yaml.safe_load(path.read_text())["tests"]
                     for case in test.get("alert_rule_test", []) if case["alertname"] == alert]
            with self.subTest(alert):
                self.assertTrue(any(case.get("exp_alerts") for case in cases))
                # the watchdog is never silent
                if alert != "HandoffWatchdog":
                    self.assertTrue(any(not case.get("exp_alerts") for case in cases))

    def test_carries_a_job_since_alertmanager_takes_a_missing_label_for_an_equal_one(self):
        for path in TEST_FILES:
            for test in yaml.safe_load(path.read_text())["tests"]:
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
                self.assertRegex(annotations["summary"], r"^[A-Z].*\.$")
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
            "HandoffHopDepthRising": {"warning"},
            "HandoffHopLimitReached": {"warning"},
            "HandoffBudgetUnderused": {"info"},
            "HandoffContextTrimmed": {"warning"},
            "HandoffParkedWaiting": {"warning"},
            "HandoffChannelBacklog": {"warning"},
            "HandoffSpineDown": {"critical"},
            "HandoffExporterDown": {"critical"},
            "HandoffExporterInstanceUnreachable": {"warning"},
            "HandoffConfigReloadFailed": {"warning"},
            "HandoffSeriesDropped": {"warning"},
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
