# SPDX-License-Identifier: Apache-2.0
"""docs/metrics.md agrees with collectors/metrics.def and docs/metrics.yml, and is complete.

    /usr/bin/python3 tests/lint/test_metrics_docs.py --write

regenerates its generated parts after a change to either, once build/release is built. The queries are run
by tests/scenario/test_metrics_docs.py.
"""

import json
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import source_tree
import yaml

sys.path.insert(0, str(source_tree.TOP / "tests/support"))
import metric_names  # noqa: E402

DOCUMENT = source_tree.TOP / "docs/metrics.md"
COMPANION = source_tree.TOP / "docs/metrics.yml"
PRINTER = source_tree.BUILD / "tests/print_metrics"
WIDTH = 110


def declared():
    """The rows of metrics.def, in their order."""
    return json.loads(subprocess.check_output([PRINTER, "json"], text=True))


def companion():
    return yaml.safe_load(COMPANION.read_text(encoding="utf-8"))


def number(value):
    return f"{value:g}" if value < 1e6 else f"{value:.0f}"


def paragraph(text):
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n\n"


def query(text):
    return f"```promql\n{text}\n```\n\n"


def section(row, more):
    """What the document says of one metric."""
    text = f"### {row['name']}\n\n"
    labels = [f"`{label}`" + (" (" + ", ".join(more["values"][label]) + ")" if label in more.get("values", {})
                              else "") for label in row["labels"]]
    text += paragraph(f"{row['type'].capitalize()}" + (" with exemplars" if row["exemplars"] else "") +
                      (f", by {', '.join(labels)}" if labels else "") + ". " + row["help"])
    if row["bounds"]:
        text += paragraph("Buckets: " + ", ".join(map(number, row["bounds"])) +
                          (f". Native buckets are {100 * (2 ** 2 ** -row['schema'] - 1):.2g} % wide."
                           if "native" in row["type"] else "."))
    text += paragraph(f"*{more['question']}*") if "(" not in more["question"] else \
        paragraph(re.sub(r"^(.*?\?)(.*)$", r"*\1*\2", more["question"]))
    text += query(more["example"])
    if "native" in more:
        text += "The same of the native histogram:\n\n" + query(more["native"])
    return text


def generated():
    """{part: text} of the document's generated parts."""
    more = companion()
    return {"table": subprocess.check_output([PRINTER], text=True),
            "metrics": "\n" + "".join(section(row, more[row["name"]]) for row in declared())}


def between(part):
    return re.compile(rf"(<!-- {part}:begin -->\n)(.*?)(<!-- {part}:end -->)", re.DOTALL)


def rewritten(text):
    for part, body in generated().items():
        text = between(part).sub(lambda match, body=body: match[1] + body + match[3], text)
    return text


class MetricsDocument(unittest.TestCase):
    maxDiff = None

    def test_every_metric_has_a_question_and_a_query(self):
        names = {row["name"] for row in declared()}
        self.assertLessEqual(names, set(companion()))
        self.assertLessEqual(set(companion()) - names, set(metric_names.PROMISED))
        for name, more in companion().items():
            with self.subTest(name):
                self.assertLessEqual(set(more), {"values", "question", "example", "native"})
                self.assertIn("?", more["question"])

    def test_every_closed_label_has_its_values_told(self):
        known_elsewhere = {"handoff_exporter_build_info": {"version", "revision", "compiler"},
                           "handoff_api_requests_total": {"code"}}
        for row in declared():
            closed = set(row["labels"]) - set(row["open"]) - known_elsewhere.get(row["name"], set())
            self.assertEqual(set(companion()[row["name"]].get("values", {})), closed, row["name"])

    def test_a_native_histogram_is_asked_in_both_forms(self):
        for row in declared():
            self.assertEqual("native" in row["type"], "native" in companion()[row["name"]], row["name"])

    def test_queries_are_about_their_metric_and_read_what_exists(self):
        names = metric_names.shipped()
        for name, more in companion().items():
            for text in (more["example"], more.get("native", more["example"])):
                self.assertIn(name, text)
                self.assertEqual(names.faults(text), [], text)

    def test_promtool_accepts_the_queries(self):
        queries = [text for more in companion().values() for key, text in more.items()
                   if key in ("example", "native")]
        group = {"name": "docs", "rules": [{"record": f"docs:query{number}", "expr": text}
                                           for number, text in enumerate(queries)]}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump({"groups": [group]}, file)  # JSON is YAML
            file.flush()
            status, text = source_tree.run(["promtool", "check", "rules", file.name])
        self.assertEqual(status, 0, text)

    def test_the_document_says_what_the_tables_say(self):
        text = DOCUMENT.read_text(encoding="utf-8")
        for part in generated():
            self.assertIsNotNone(between(part).search(text), part)
        self.assertEqual(text, rewritten(text), "run: tests/lint/test_metrics_docs.py --write")

    def test_queries_in_the_rest_of_the_document_read_what_exists(self):
        text = DOCUMENT.read_text(encoding="utf-8")
        for part in generated():
            text = between(part).sub("", text)
        names = metric_names.shipped()
        for asked in re.findall(r"```promql\n(.*?)```", text, re.DOTALL):
            self.assertEqual(names.faults(asked), [], asked)
        for named in set(re.findall(r"`((?:handoff|process)_\w+)`", text)) - {"handoff_id"}:
            self.assertIsNotNone(names.labels(named), named)


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOCUMENT.write_text(rewritten(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        unittest.main()
