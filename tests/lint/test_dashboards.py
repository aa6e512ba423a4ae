# SPDX-License-Identifier: Apache-2.0
"""dashboards/json: what the sources say, what Grafana's types allow, and what the rules of dashboard_rules.py ask
for; and the alerts' links lead to them."""

import copy
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import dashboard_rules
import source_tree
import yaml
from dashboard_rules import grafana

DASHBOARDS = source_tree.TOP / "dashboards"
ALERTS = source_tree.TOP / "alerts"
TSC = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext"]


def node(*arguments, **options):
    return source_tree.run(["node", *arguments], **options)


def from_sources(expression):
    """What a JavaScript expression over source/config.mjs gives."""
    config = (DASHBOARDS / "source/config.mjs").as_uri()
    return json.loads(subprocess.run(
        ["node", "--input-type=module", "-e",
         f"import * as config from {json.dumps(config)}; console.log(JSON.stringify({expression}))"],
        check=True, capture_output=True, text=True).stdout)


class Generated(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        if not (DASHBOARDS / "node_modules").is_dir():
            raise unittest.SkipTest("run scripts/npm-install --tests")

    def generate(self, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        status, text = node(DASHBOARDS / "generate.mjs", *options, folder.name)
        self.assertEqual(status, 0, text)
        return {path.name: path.read_text() for path in pathlib.Path(folder.name).iterdir()}

    def test_what_is_shipped_is_what_the_sources_say(self):
        shipped = {path.name: path.read_text() for path in (DASHBOARDS / "json").iterdir()}
        generated = self.generate()
        self.assertEqual(sorted(shipped), sorted(generated))
        for name, text in generated.items():
            self.assertTrue(shipped[name] == text, f"{name}: run `node dashboards/generate.mjs` and commit")

    def test_runbooks_can_be_served_elsewhere(self):
        for name, text in self.generate("--runbooks", "https://wiki.example/handoff").items():
            variable = grafana.variables(json.loads(text))["runbooks"]
            self.assertEqual(variable["query"], "https://wiki.example/handoff", name)

    def type_check(self, *texts):
        """What tsc says of dashboards as values of the type in types.ts."""
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "node_modules").symlink_to(DASHBOARDS / "node_modules")
            program = pathlib.Path(folder) / "check.ts"
            constants = [f"export const dashboard{i}: Shipped = {text};\n" for i, text in enumerate(texts)]
            program.write_text((DASHBOARDS / "types.ts").read_text() + "".join(constants))
            return node(DASHBOARDS / "node_modules/typescript/bin/tsc", *TSC, program)

    def test_grafanas_types_accept_them(self):
        texts = [path.read_text() for path in sorted((DASHBOARDS / "json").iterdir())]
        self.assertEqual(len(texts), 4)
        self.assertEqual(self.type_check(*texts), (0, ""))

    def test_grafanas_types_refuse_what_is_wrong(self):
        text = (DASHBOARDS / "json/handoff-agent.json").read_text()
        changes = [('"graphTooltip": 1', '"graphTooltip": "1"'), ('"schemaVersion"', '"schemaversion"'),
                   ('"displayMode": "list"', '"displayMode": "lists"'), ('"drawStyle": "line"', '"drawstyle": "line"'),
                   ('"type": "heatmap"', '"type": "heatmaps"'), ('"cellGap": 1', '"cellGap": "1"')]
        for old, new in changes:
            self.assertIn(old, text)
        status, output = self.type_check(*[text.replace(old, new, 1) for old, new in changes])
        self.assertNotEqual(status, 0)
        starts = [text.count("\n") * i for i in range(len(changes))]
        lines = {int(line) for line in re.findall(r"check\.ts\((\d+),", output)}
        head = (DASHBOARDS / "types.ts").read_text().count("\n")
        hit = {sum(line - head > start for start in starts[1:]) for line in lines}
        self.assertEqual(hit, set(range(len(changes))), output)


class Rules(unittest.TestCase):
    maxDiff = None

    def test_the_shipped_dashboards_break_none(self):
        shipped = grafana.dashboards()
        self.assertEqual(sorted(shipped), ["handoff-agent", "handoff-overview", "handoff-sidecar", "handoff-tasks"])
        for uid, dashboard in shipped.items():
            with self.subTest(uid):
                self.assertEqual(dashboard_rules.complaints(dashboard), [])

    def test_each_rule_refuses_something(self):
        counter = 'sum (rate(handoff_attempts_total{job=~"$job", instance=~"$instance", target_agent=~"$target_agent"}[$__rate_interval]))'
        self.assertEqual(self.of_expression(counter), [])
        for change, complaint in (
                (("[$__rate_interval]", "[5m]"), r"ranges: .*handoff_attempts_total\[5m\]"),
                (("[$__rate_interval]", "[$__range]"), "ranges: "),
                (("rate(", "avg_over_time("), "counters: "),
                (("handoff_attempts_total", "handoff_in_flight"), "counters: "),
                (('job=~"$job", ', ""), r"scope: .*without job"),
                (('instance=~"$instance"', 'instance="$instance"'), r"scope: .*without instance"),
                ((', target_agent=~"$target_agent"', ""), r"scope: .*without target_agent"),
                (("handoff_attempts_total", "handoff_attempt_total"), "metrics_and_labels: .*no metric"),
                (("target_agent=", "target="), "metrics_and_labels: .*no label target"),
                (("sum (", "sum by (agent) ("), "metrics_and_labels: .*no label agent"),
                (("$job", "$jobs"), "used_variables: ")):
            with self.subTest(change=change):
                self.assertRegex("\n".join(self.of_expression(counter.replace(*change))), complaint)

    def of_expression(self, expression):
        """The complaints about a dashboard whose first range query is this one."""
        dashboard = copy.deepcopy(grafana.dashboards()["handoff-overview"])
        query = next(query for query in grafana.queries(dashboard) if query.target["range"])
        query.target.update(expr=expression, legendFormat="")
        return dashboard_rules.complaints(dashboard)

    def test_each_rule_about_panels_refuses_something(self):
        def panel(dashboard, number=0):
            return [one for one in grafana.panels(dashboard) if one["type"] != "text"][number]

        def link(dashboard, url):
            panel(dashboard)["links"] = [{"url": url}]
        for what, change in {
                "frame: uid": lambda d: d.update(uid="x"),
                "frame: it can be edited": lambda d: d.update(editable=True),
                "variables: variables begin": lambda d: d["templating"]["list"].pop(1),
                "variables: variable job": lambda d: d["templating"]["list"][1].update(refresh=1),
                "panels: .*no title": lambda d: panel(d).update(title=""),
                "panels: .*no description": lambda d: panel(d).update(description=""),
                "panels: .*does not say": lambda d: panel(d).update(description="a number"),
                "panels: .*no unit": lambda d: panel(d)["fieldConfig"]["defaults"].pop("unit"),
                "panels: .*no queries": lambda d: panel(d).update(targets=[]),
                "panels: .*data source": lambda d: panel(d).update(datasource={"type": "prometheus", "uid": "mine"}),
                "panels: .*graph": lambda d: panel(d).update(type="graph"),
                "unique: id": lambda d: panel(d).update(id=2),
                "unique: title": lambda d: panel(d).update(title=panel(d, 1)["title"]),
                "grid: .*lies over": lambda d: panel(d)["gridPos"].update(x=1),
                "grid: .*outside": lambda d: panel(d)["gridPos"].update(w=25),
                "grid: there are holes": lambda d: panel(d)["gridPos"].update(h=1),
                "links: .*no runbook": lambda d: link(d, "${runbooks}/HandoffNothing.md"),
                "links: .*leads nowhere": lambda d: link(d, "/d/handoff-nothing?x=1"),
                "links: .*has no variable channel": lambda d: link(d, "/d/handoff-agent?var-channel=a"),
                "links: .*no variable nothing": lambda d: link(d, "/d/handoff-agent?${nothing:queryparam}"),
                "links: no link to the other": lambda d: d.update(links=[]),
                "commands: ": lambda d: panel(d).update(description="**Good:** x **Otherwise:** `handoffctl pray`"),
        }.items():
            with self.subTest(what):
                dashboard = copy.deepcopy(grafana.dashboards()["handoff-overview"])
                change(dashboard)
                self.assertRegex("\n".join(dashboard_rules.complaints(dashboard)), what)

    def test_prometheus_parses_every_query(self):
        expressions = []
        for dashboard in grafana.dashboards().values():
            expressions += [grafana.fill(expression, {}, shown=3600, step=15, scrape_interval=15)
                            for _, expression, _ in dashboard_rules.every_query(dashboard)]
        self.assertGreater(len(expressions), 100)
        rules = [{"record": f"dashboard:query{number}", "expr": expression} for number, expression in enumerate(expressions)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "queries.yml")
            path.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}, indent=1))
            status, text = source_tree.run(["promtool", "check", "rules", "--lint=none", path])
        self.assertEqual(status, 0, text)
        self.assertIn(f"{len(expressions)} rules found", text)


class WithTheAlerts(unittest.TestCase):
    """Dashboards and alerts lead to one another and begin at the same numbers."""

    def test_links_of_alerts_set_variables_that_exist(self):
        shipped = grafana.dashboards()
        for group in yaml.safe_load((ALERTS / "handoff-alerts.yml").read_text())["groups"]:
            for rule in group["rules"]:
                url = rule["annotations"]["dashboard_url"]
                with self.subTest(alert=rule["alert"], url=url):
                    uid = re.search(r"/d/([a-z-]+)\?", url)[1]
                    self.assertIn(uid, shipped)
                    self.assertLessEqual(dashboard_rules.variables_set_by(url), set(grafana.variables(shipped[uid])))

    def test_every_alert_is_linked_from_a_panel(self):
        linked = {match for dashboard in grafana.dashboards().values() for _, url in dashboard_rules.addresses(dashboard)
                  for match in re.findall(r"/(Handoff\w+)\.md", url)}
        alerts = {rule["alert"] for group in yaml.safe_load((ALERTS / "handoff-alerts.yml").read_text())["groups"]
                  for rule in group["rules"]}
        self.assertEqual(alerts - linked, {"HandoffWatchdog"})

    def test_colours_change_where_alerts_begin(self):
        status, text = source_tree.run(["jsonnet", "-e", f"(import '{ALERTS}/config.libsonnet')._config"])
        self.assertEqual(status, 0, text)
        alerts = json.loads(text)
        rate, completeness = alerts["failureRate"], alerts["completeness"]
        self.assertEqual(from_sources("config.limits"), {
            "completeness": {"low": completeness["low"]["below"], "critical": completeness["critical"]["below"]},
            "failureRate": {"elevated": rate["elevated"]["above"], "critical": rate["critical"]["above"]},
            "objective": alerts["objective"],
            "timeout": 15,  # the default of agents; the alert takes that of each
            "timeoutShare": alerts["latency"]["share"],
            "consecutiveFailures": alerts["consecutiveFailures"]["count"],
            "utilization": {"underused": alerts["budgetUnderused"]["below"], "full": alerts["contextTrimmed"]["utilizationAbove"]},
            "parkedAge": grafana.seconds(alerts["parked"]["olderThan"]),
            "consecutiveRefusals": alerts["refusedRepeatedly"]["count"],
            "unpolled": grafana.seconds(alerts["inboxUnattended"]["warning"]),
            "channelBacklog": grafana.seconds(alerts["channelBacklog"]["olderThan"]),
        })
        self.assertEqual(from_sources("config.defaultRunbooks"), alerts["runbookBaseUrl"])
        self.assertEqual(from_sources("config.uids"), alerts["dashboards"])


class WorstFirst(unittest.TestCase):
    """The order of the overview's table of targets, tried with targets that are bad in one way each."""

    def order(self, targets):
        [panel] = [panel for panel in grafana.panels(grafana.dashboards()["handoff-overview"])
                   if panel["title"] == "Targets, worst first"]
        for key in reversed(panel["options"]["sortBy"]):
            targets = sorted(targets, key=lambda target, name=key["displayName"]: target[name], reverse=key["desc"])
        return [target["Target agent"] for target in targets]

    def test_whoever_has_something_wrong_comes_before_whoever_is_well(self):
        well = {"Circuit": 0, "Failure rate": 0, "Completeness": 1, "Parked": 0}
        wrong = {"circuit open": {"Circuit": 2}, "circuit half open": {"Circuit": 1}, "fails": {"Failure rate": 0.02},
                 "refuses everything": {"Parked": 7}, "gets half of its context": {"Completeness": 0.5}}
        targets = [{"Target agent": name, **well, **one} for name, one in [("well", {}), *reversed(wrong.items())]]
        self.assertEqual(self.order(targets), [*wrong, "well"])


class Provisioning(unittest.TestCase):

    def test_grafana_finds_the_dashboards(self):
        provider = yaml.safe_load((DASHBOARDS / "provisioning/dashboards.yml").read_text())
        self.assertEqual(provider["apiVersion"], 1)
        [one] = provider["providers"]
        self.assertEqual(one["type"], "file")
        self.assertEqual((one["allowUiUpdates"], one["disableDeletion"]), (False, True))

    def test_the_data_source_knows_about_traces_and_native_histograms(self):
        [one] = yaml.safe_load((DASHBOARDS / "provisioning/datasources.yml").read_text())["datasources"]
        self.assertEqual((one["type"], one["isDefault"]), ("prometheus", True))
        self.assertIn({"name": "trace_id"}, [{"name": link["name"]} for link in one["jsonData"]["exemplarTraceIdDestinations"]])


if __name__ == "__main__":
    unittest.main()
