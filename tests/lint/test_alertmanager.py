# SPDX-License-Identifier: Apache-2.0
"""The Alertmanager example: valid, every alert goes where its severity says, every inhibition is safe,
and the texts are what the on-call engineer needs at 3 a.m. tests/scenario/test_inhibition.py has the real
Alertmanager mute."""

import json
import pathlib
import re
import tempfile
import unittest

import source_tree
import yaml

ALERTS = source_tree.TOP / "alerts"
CONFIG = ALERTS / "alertmanager.yml"
RECEIVERS = {"critical": "pager", "warning": "tickets", "info": "quiet", "none": "heartbeat"}


def configuration():
    return yaml.safe_load(CONFIG.read_text())


def rules():
    return [rule for group in yaml.safe_load((ALERTS / "handoff-alerts.yml").read_text())["groups"] for rule in group["rules"]]


def carried():
    """{alert: [its labels, ...]}, as the tests of the rules hold them against promtool."""
    found = {}
    for path in sorted((source_tree.TOP / "tests/alerts").glob("*.test.yml")):
        for test in yaml.safe_load(path.read_text())["tests"]:
            for case in test.get("alert_rule_test", []):
                found.setdefault(case["alertname"], []).extend(
                    {"alertname": case["alertname"], **expected["exp_labels"]}
                    for expected in case.get("exp_alerts") or [])
    return {alert: labels for alert, labels in found.items() if labels}


def parsed(matcher):
    """(label, sign, value) of a matcher."""
    return re.fullmatch(r'(\w+)(=~|!~|!=|=)"(.*)"', matcher).groups()


def takes(matchers, labels):
    """Whether an alert with these labels is what the matchers mean."""
    for label, sign, value in map(parsed, matchers):
        seen = labels.get(label, "")
        found = re.fullmatch(value, seen) is not None if "~" in sign else value == seen
        if found == sign.startswith("!"):
            return False
    return True


def route(**labels):
    """The receiver that Alertmanager picks for an alert with these labels."""
    status, text = source_tree.run(["amtool", "config", "routes", "test", f"--config.file={CONFIG}"] +
                                   [f"{name}={value}" for name, value in labels.items()])
    assert status == 0, text
    return text.splitlines()[-1].strip()  # amtool may print warnings before it


def render(template, data):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "data.json")
        path.write_text(json.dumps(data))
        status, text = source_tree.run(["amtool", "template", "render", f"--template.glob={ALERTS / 'alertmanager.tmpl'}",
                                        f"--template.data={path}", "--template.text={{ template \"" + template + "\" . }}"])
    assert status == 0, text
    return text.removesuffix("\n")


class Configuration(unittest.TestCase):

    def test_amtool_accepts_it(self):
        status, text = source_tree.run(["amtool", "check-config", CONFIG])
        self.assertEqual(status, 0, text)

    def test_each_severity_goes_to_its_receiver(self):
        for severity in ("critical", "warning", "info"):
            with self.subTest(severity):
                self.assertEqual(route(alertname="HandoffAny", severity=severity, job="handoff"), RECEIVERS[severity])
        # the one severity that goes by the alert's name: only the watchdog has it
        self.assertEqual(route(alertname="HandoffWatchdog", severity="none", job="handoff"), RECEIVERS["none"])

    def test_each_alert_goes_where_its_severity_says(self):
        for rule in rules():
            with self.subTest(rule["alert"]):
                labels = {"alertname": rule["alert"], "job": "handoff", **rule["labels"]}
                self.assertEqual(route(**labels), RECEIVERS[rule["labels"]["severity"]])

    def test_a_severity_that_nobody_planned_for_is_seen(self):
        self.assertEqual(route(alertname="Other", severity="emergency"), "tickets")
        self.assertEqual(route(alertname="Other"), "tickets")

    def test_info_is_sent_to_nobody(self):
        quiet = [receiver for receiver in configuration()["receivers"] if receiver["name"] == "quiet"]
        self.assertEqual(quiet, [{"name": "quiet"}])

    def test_two_broken_agents_are_two_pages(self):
        self.assertEqual(configuration()["route"]["group_by"], ["alertname", "job", "target_agent"])


class Names(unittest.TestCase):
    """What the configuration and the texts name, alerts have: a misspelt label matches nothing, in silence."""

    @classmethod
    def setUpClass(cls):
        cls.alerts = carried()
        cls.labels = {label for alerts in cls.alerts.values() for labels in alerts for label in labels}
        cls.annotations = {name for rule in rules() for name in rule["annotations"]}

    def test_every_alert_is_known(self):
        self.assertEqual(set(self.alerts), {rule["alert"] for rule in rules()})

    def matchers(self):
        for child in configuration()["route"]["routes"]:
            yield child["matchers"]
        for rule in configuration()["inhibit_rules"]:
            yield rule["source_matchers"]
            yield rule["target_matchers"]

    def test_every_matcher_finds_an_alert(self):
        for matchers in self.matchers():
            with self.subTest(matchers):
                self.assertTrue(any(takes(matchers, labels) for alerts in self.alerts.values() for labels in alerts))

    def test_every_name_in_a_matcher_is_an_alert(self):
        for matchers in self.matchers():
            for label, _, value in map(parsed, matchers):
                if label == "alertname":
                    for alternative in value.split("|"):
                        self.assertTrue(any(re.fullmatch(alternative, alert) for alert in self.alerts), alternative)

    def test_labels_that_are_grouped_and_compared_exist(self):
        named = set(configuration()["route"]["group_by"])
        for rule in configuration()["inhibit_rules"]:
            named |= set(rule["equal"])
        self.assertLessEqual(named, self.labels)

    def test_texts_read_labels_and_annotations_that_exist(self):
        text = (ALERTS / "alertmanager.tmpl").read_text() + CONFIG.read_text()
        self.assertLessEqual(set(re.findall(r"Labels\.(\w+)", text)), self.labels)
        self.assertLessEqual(set(re.findall(r"Annotations\.(\w+)", text)), self.annotations)
        self.assertEqual(set(re.findall(r"Annotations\.(\w+)", text)), self.annotations, "an annotation that is never used")

    def test_a_matcher_that_finds_nothing_would_be_found(self):
        labels = {"alertname": "HandoffFailed", "severity": "info", "target_agent": "a"}
        self.assertTrue(takes(['alertname=~"Handoff.+"', 'severity!="critical"', 'target_agent=~".+"'], labels))
        for wrong in ('severity="warning"', 'target=~".+"', 'alertname=~"Handoff"', 'alertname!~"Handoff.+"'):
            self.assertFalse(takes([wrong], labels), wrong)


class Inhibition(unittest.TestCase):
    """Alertmanager takes two labels that are both missing for equal."""

    def sides(self):
        for rule in configuration()["inhibit_rules"]:
            yield rule, rule["source_matchers"]
            yield rule, rule["target_matchers"]

    def test_no_rule_reaches_beyond_handoffs(self):
        for rule, matchers in self.sides():
            names = [matcher for matcher in matchers if matcher.startswith(('alertname="Handoff', 'alertname=~"Handoff'))]
            self.assertTrue(names, rule)
            # an alternative without the prefix would match anything
            for matcher in names:
                for alternative in matcher.split('"')[1].split("|"):
                    self.assertTrue(alternative.startswith("Handoff"), rule)

    def test_every_label_of_equal_is_on_both_sides(self):
        for rule, matchers in self.sides():
            self.assertIn("job", rule["equal"])  # every alert has one; test_alert_rules.py holds that
            for label in set(rule["equal"]) - {"job"}:
                self.assertIn(f'{label}=~".+"', matchers, rule)

    def test_nothing_mutes_the_watchdog_and_no_page_is_muted_by_a_ticket(self):
        critical = {rule["alert"] for rule in rules() if rule["labels"]["severity"] == "critical"}
        for rule in configuration()["inhibit_rules"]:
            source = " ".join(rule["source_matchers"])
            names = [name for name in critical if name in source]
            self.assertTrue(names or 'severity="critical"' in source, rule)
            if 'alertname=~"Handoff.+"' in rule["target_matchers"]:
                self.assertTrue('alertname!="HandoffWatchdog"' in rule["target_matchers"] or
                                'severity=~"warning|info"' in rule["target_matchers"], rule)


class Texts(unittest.TestCase):

    maxDiff = None

    CIRCUIT = {
        "status": "firing",
        "labels": {"alertname": "HandoffCircuitOpen", "severity": "critical", "job": "handoff", "target_agent": "analyst"},
        "annotations": {
            "summary": "Circuit open: new handoffs to an agent are rejected",
            "description": "The circuit breaker for analyst opened after several handoffs in a row failed.",
            "waiting": "3 parked, 14 in flight",
            "command": "handoffctl agents; handoffctl parked list --target analyst",
            "runbook_url": "https://handoff.example/runbooks/HandoffCircuitOpen.md",
            "dashboard_url": "https://grafana.example/d/handoff-agent?var-job=handoff&var-target_agent=analyst",
        },
        "startsAt": "2026-01-02T03:04:05.678+01:00",
        "endsAt": "2026-01-02T03:34:05.678+01:00",
    }

    def data(self, *alerts, status="firing"):
        common = dict(set.intersection(*[set(alert["labels"].items()) for alert in alerts]))
        return {"receiver": "pager", "status": status, "alerts": alerts, "groupLabels": common, "commonLabels": common}

    def test_the_title_says_what_and_who(self):
        self.assertEqual(render("handoff.title", self.data(self.CIRCUIT)), "CRITICAL HandoffCircuitOpen analyst (handoff)")

    def test_the_title_of_a_backlog_names_the_channel_and_who_is_behind(self):
        def backlog(channel, receiver):
            return {**self.CIRCUIT, "labels": {"alertname": "HandoffChannelBacklog", "severity": "warning", "job": "handoff",
                                               "channel": channel, "receiver": receiver}}
        self.assertEqual(render("handoff.title", self.data(backlog("news", "coder"))),
                         "WARNING HandoffChannelBacklog news coder (handoff)")
        self.assertEqual(render("handoff.title", self.data(backlog("news", "coder"), backlog("news", "tester"))),
                         "WARNING HandoffChannelBacklog news (handoff)")

    def test_the_title_of_the_end_says_so(self):
        alert = {**self.CIRCUIT, "status": "resolved"}
        self.assertEqual(render("handoff.title", self.data(alert, status="resolved")),
                         "RESOLVED HandoffCircuitOpen analyst (handoff)")

    def test_the_text_says_who_since_when_how_many_wait_and_what_to_type(self):
        self.assertEqual(render("handoff.text", self.data(self.CIRCUIT)), """\
Circuit open: new handoffs to an agent are rejected
The circuit breaker for analyst opened after several handoffs in a row failed.
Agent:     analyst
Since:     2026-01-02 02:04:05 UTC
Waiting:   3 parked, 14 in flight
Check:     handoffctl agents; handoffctl parked list --target analyst
Runbook:   https://handoff.example/runbooks/HandoffCircuitOpen.md
Dashboard: https://grafana.example/d/handoff-agent?var-job=handoff&var-target_agent=analyst
""")

    def test_the_text_names_each_sidecar_and_what_is_over(self):
        def reload_failed(instance, status):
            return {"status": status,
                    "labels": {"alertname": "HandoffConfigReloadFailed", "severity": "warning", "job": "handoff", "instance": instance},
                    "annotations": {"summary": "S.", "description": f"D {instance}.", "command": "C", "runbook_url": "R", "dashboard_url": "B"},
                    "startsAt": "2026-01-02T03:04:05Z", "endsAt": "2026-01-02T04:00:00Z"}
        data = self.data(reload_failed("a:9780", "firing"), reload_failed("b:9780", "resolved"))
        self.assertEqual(render("handoff.title", data), "WARNING HandoffConfigReloadFailed (handoff)")
        self.assertEqual(render("handoff.text", data), """\
S.
D a:9780.
Sidecar:   a:9780
Since:     2026-01-02 03:04:05 UTC
Check:     C
Runbook:   R
Dashboard: B

Resolved: S.
D b:9780.
Sidecar:   b:9780
Since:     2026-01-02 03:04:05 UTC
Until:     2026-01-02 04:00:00 UTC
Check:     C
Runbook:   R
Dashboard: B
""")


if __name__ == "__main__":
    unittest.main()
