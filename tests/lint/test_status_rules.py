# SPDX-License-Identifier: Apache-2.0
"""The status page evaluates the rules of alerts/: with their thresholds, and all of them that look at no more than an
hour of one sidecar.

    /usr/bin/python3 tests/lint/test_status_rules.py --write

writes exporter/status/thresholds.h from alerts/config.libsonnet.
"""

import json
import re
import sys
import unittest

import source_tree
import yaml

THRESHOLDS = source_tree.TOP / "exporter/status/thresholds.h"
RULES = source_tree.TOP / "exporter/status/rules.def"
HOW = "run: tests/lint/test_status_rules.py --write"

# Sections of the configuration that are not about rules.
NO_RULES = {"job", "selector", "groupLabels", "alertLabels", "runbookBaseUrl", "dashboardBaseUrl", "dashboards", "directUpTo",
            "tile", "kubernetes"}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

# Alerts that the page leaves out, and why.
NOT_ON_THE_PAGE = {
    "HandoffFailureRateElevated": "six hours",
    "HandoffBudgetUnderused": "a day",
    "HandoffHopDepthRising": "a week",
    "HandoffExporterDown": "a sidecar that is down shows no page",
    "HandoffExporterInstanceUnreachable": "likewise",
    "HandoffWatchdog": "always fires",
}

HEAD = """\
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thresholds.h - every number of alerts/config.libsonnet, durations in seconds. Written by
 * tests/lint/test_status_rules.py --write; edit the source, not this file.
 */
/* clang-format off */
#ifndef EXPORTER_STATUS_THRESHOLDS_H
#define EXPORTER_STATUS_THRESHOLDS_H

"""


def configuration():
    status, text = source_tree.run(["jsonnet", "-e", f"(import '{source_tree.TOP}/alerts/config.libsonnet')._config"])
    assert status == 0, text
    return {key: value for key, value in json.loads(text).items() if key not in NO_RULES}


def leaves(value, path):
    """Every setting below a path: (its path, its value); a list of texts is one setting."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, [*path, key])
    elif isinstance(value, list) and not all(isinstance(item, str) for item in value):
        for place, inner in enumerate(value):
            yield from leaves(inner, [*path, str(place)])
    else:
        yield path, value


def constant(path):
    """['hopDepth', 'for'] is RULE_HOP_DEPTH_FOR."""
    return "RULE_" + "_".join(re.sub(r"([A-Z])", r"_\1", word).upper() for word in path)


def in_c(value):
    """As C has it: durations in seconds; None for other texts. A list of texts is one of codes."""
    if isinstance(value, list):
        return ", ".join(f"HANDOFF_ERR_{item.upper()}" for item in value)
    if isinstance(value, (int, float)):
        return f"{value:.10g}"
    match = re.fullmatch(r"(\d+)([smhd])", value)
    return str(int(match[1]) * SECONDS[match[2]]) if match else None


def thresholds(config):
    rows = [(constant(path), in_c(value)) for path, value in leaves(config, [])]
    lines = [f"#define {name} {text}" for name, text in rows if text is not None]
    return HEAD + "".join(line if len(line) < 100 else wrapped(line) for line in (line + "\n" for line in lines)) + "\n#endif\n"


def wrapped(line):
    name, value = line.split(" ", 2)[1:]
    out, row = f"#define {name}", ""
    for word in value.rstrip("\n").split(" "):
        if len(row) + len(word) > 90:
            out, row = out + " \\\n    " + row.strip(), ""
        row += word + " "
    return f"{out} \\\n    {row.strip()}\n"


def alerts():
    """{name: {severity, ...}}"""
    found = {}
    for group in yaml.safe_load((source_tree.TOP / "alerts/handoff-alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            found.setdefault(rule["alert"], set()).add(rule["labels"]["severity"])
    return found


def page_rules():
    """[name, ...] of rules.def"""
    return re.findall(r"^RULE_OF_\w+\((\w+), ", RULES.read_text(), re.MULTILINE)


class StatusRules(unittest.TestCase):
    def test_thresholds_are_those_of_the_alerts(self):
        self.assertEqual(THRESHOLDS.read_text(), thresholds(configuration()), HOW)

    def test_a_changed_setting_is_found(self):
        config = configuration()
        config["parked"]["olderThan"] = "2h"
        self.assertIn("#define RULE_PARKED_OLDER_THAN 7200\n", thresholds(config))
        self.assertNotEqual(thresholds(config), thresholds(configuration()))

    def test_every_alert_is_on_the_page_or_has_a_reason_not_to_be(self):
        rules = page_rules()
        self.assertEqual(len(rules), len(set(rules)))
        self.assertEqual(set(rules) & set(NOT_ON_THE_PAGE), set())
        self.assertEqual(set(rules) | set(NOT_ON_THE_PAGE), set(alerts()))

    def test_rules_contain_no_numbers_of_their_own(self):
        """Except 0, 1, and what units are converted by."""
        text = re.sub(r'/\*.*?\*/|"[^"]*"', "", (RULES.parent / "rules.c").read_text(), flags=re.DOTALL)
        text = re.sub(r"^enum \{.*?^\};|^__attribute__.*", "", text, flags=re.DOTALL | re.MULTILINE)  # sizes of texts
        numbers = set(re.findall(r"(?<![\w.])\d[\w.]*", text)) - {"0", "1", "1000", "1000000", "100"}
        self.assertEqual(numbers, set())


def main():
    if sys.argv[1:] == ["--write"]:
        THRESHOLDS.write_text(thresholds(configuration()))
    else:
        unittest.main()


if __name__ == "__main__":
    main()
