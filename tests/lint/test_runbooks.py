# SPDX-License-Identifier: Apache-2.0
"""docs/runbooks: one page per alert, in a fixed form, with queries that parse. test_alert_rules.py checks the
series in the queries; tests/scenario/test_runbooks.py runs the commands."""

import json
import pathlib
import re
import tempfile
import unittest

import source_tree
import yaml

ALERTS = source_tree.TOP / "alerts"
RUNBOOKS = source_tree.TOP / "docs/runbooks"
PAGES = sorted(RUNBOOKS.glob("Handoff*.md"))
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]


# Fields of a request that the pages mention.
ENVELOPE = {"constraints.deadline", "expected_output.criteria", "include_recent", "state.decisions", "warnings"}
# What runs beside the sidecar on any system: ours, those of the host it runs on, those of Debian's base.
TOOLS = {"handoffctl", "curl", "systemctl", "journalctl", "kubectl", "amtool", "date", "df", "sed", "tail", "grep"}


def paths(value, prefix=""):
    """Every path into a tree of objects: a, a.b, a.b.c."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield prefix + key
        yield from paths(inner, prefix + key + ".")


def rules():
    return [rule for group in yaml.safe_load((ALERTS / "handoff-alerts.yml").read_text())["groups"] for rule in group["rules"]]


def blocks(text, language):
    return [block.strip() for block in re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


class Runbooks(unittest.TestCase):

    def test_every_alert_has_a_page_and_every_page_an_alert(self):
        self.assertEqual([page.stem for page in PAGES], sorted({rule["alert"] for rule in rules()}))

    def test_every_page_has_the_same_form(self):
        for page in PAGES:
            with self.subTest(page.stem):
                text = page.read_text()
                self.assertEqual(text.splitlines()[0], f"# {page.stem}")
                self.assertEqual(re.findall(r"^## (.*)$", text, re.MULTILINE), SECTIONS)
                for section in SECTIONS:
                    body = text.split(f"## {section}\n")[1].split("\n## ")[0].strip()
                    self.assertGreater(len(body), 40, section)
                diagnosis = text.split("## Diagnosis\n")[1]
                self.assertTrue(blocks(diagnosis, "promql"))
                self.assertTrue(blocks(diagnosis, "sh"))

    def test_pages_name_the_severity_of_their_alert(self):
        severities = {}
        for rule in rules():
            severities.setdefault(rule["alert"], set()).add(rule["labels"]["severity"])
        for page in PAGES:
            with self.subTest(page.stem):
                line = re.search(r"^Severity: (.*)$", page.read_text(), re.MULTILINE)[1]
                self.assertEqual(set(re.findall(r"critical|warning|info|none", line)), severities[page.stem])

    def test_every_query_parses(self):
        queries = [(page.stem, query) for page in PAGES for query in blocks(page.read_text(), "promql")]
        self.assertGreater(len(queries), 2 * len(PAGES))
        # as recording rules, since promtool checks queries in rule files only; JSON is YAML
        group = {"name": "runbooks", "rules": [{"record": f"runbook:query{number}", "expr": query}
                                               for number, (_, query) in enumerate(queries)]}
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "queries.yml")
            path.write_text(json.dumps({"groups": [group]}, indent=1))
            status, text = source_tree.run(["promtool", "check", "rules", path])
        self.assertEqual(status, 0, text)
        self.assertIn(f"{len(queries)} rules found", text)

    def test_queries_read_recorded_series_by_the_names_that_are_recorded(self):
        recorded = {rule["record"] for group in yaml.safe_load((ALERTS / "handoff-rules.yml").read_text())["groups"]
                    for rule in group["rules"]}
        for page in PAGES:
            read = {name for query in blocks(page.read_text(), "promql") for name in re.findall(r"\bjob\w*:\w+:\w+", query)}
            self.assertLessEqual(read, recorded, page.stem)

    def test_settings_that_pages_name_exist(self):
        """`hopDepth.past` is in the alerts' configuration, `hops.max` in the sidecar's."""
        status, text = source_tree.run(["jsonnet", "-e", f"(import '{ALERTS}/config.libsonnet')._config"])
        self.assertEqual(status, 0, text)
        known = set(paths(json.loads(text)))
        known |= set(re.findall(r'^CONFIG\(\w+, [\w.]+, "([\w.]+)"', (source_tree.TOP / "exporter/config/config.def").read_text(), re.MULTILINE))
        known |= ENVELOPE
        for page in PAGES:
            prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
            named = set(re.findall(r"`([a-z]\w*(?:\.[a-z]\w*)+)`", prose)) | set(re.findall(r"\(`([a-z]\w+)`", prose))
            self.assertLessEqual(named, known, page.stem)

    def test_shell_blocks_parse(self):
        for page in PAGES:
            for block in blocks(page.read_text(), "sh"):
                status, text = source_tree.run(["sh", "-n", "-c", block])
                self.assertEqual(status, 0, f"{page.stem}: {text}")

    def test_commands_need_nothing_that_an_operator_may_lack(self):
        for page in PAGES:
            for block in blocks(page.read_text(), "sh"):
                used = set(re.findall(r"(?:^|[|(;]) *([a-z][\w.-]*)(?= |$)", block, re.MULTILINE))
                self.assertLessEqual(used, TOOLS, page.stem)

    def test_links_lead_somewhere(self):
        for page in [*PAGES, RUNBOOKS / "README.md"]:
            for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
                self.assertTrue((RUNBOOKS / link).is_file(), f"{page.name}: {link}")

    def test_the_list_is_complete(self):
        text = (RUNBOOKS / "README.md").read_text()
        rows = dict(re.findall(r"^\| \[(\w+)\]\(\1\.md\) \| (.*) \|$", text, re.MULTILINE))
        self.assertEqual(rows, {page.stem: re.search(r"^Severity: (.*)$", page.read_text(), re.MULTILINE)[1] for page in PAGES})


if __name__ == "__main__":
    unittest.main()
