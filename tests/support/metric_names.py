# SPDX-License-Identifier: Apache-2.0
"""Which series there are, with which labels; and what an expression reads that does not exist.

The metrics are those of collectors/metrics.def, as the program that is built from it prints them; the
recorded series are those of alerts/handoff-rules.yml, with the labels that their expressions leave.
"""

import collections
import os
import pathlib
import re
import subprocess

import promql
import yaml

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HANDOFF_BINARY_DIR", TOP / "build/release"))

Metric = collections.namedtuple("Metric", "name type labels help")

# What a scrape adds to every series.
SCRAPE = {"job", "instance"}

# Metrics of the contract that the code does not have yet; a row of metrics.def takes precedence.
PROMISED = {}

# Made by Prometheus itself.
FOREIGN = {"up": set(), "ALERTS": {"alertname", "alertstate", "severity"},
           "prometheus_notifications_dropped_total": set()}


def declared():
    """{name: Metric} of metrics.def."""
    table = subprocess.check_output([BUILD / "tests/print_metrics"], text=True)
    found = {}
    for row in table.splitlines()[2:]:
        name, kind, labels, text = [cell.strip() for cell in row.strip("|").split(" | ", 3)]
        found[name.strip("` ")] = Metric(name.strip("` "), kind, tuple(re.findall(r"`(\w+)`", labels)), text)
    return found


class Names:
    """metrics: {name: Metric}; recording: the groups of recording rules, as in their file."""

    def __init__(self, metrics, recording=()):
        self.metrics = metrics
        self.recorded = {}
        for rule in (rule for group in recording for rule in group["rules"]):
            self.recorded[rule["record"]] = self.result(rule["expr"])

    def labels(self, series):
        """The labels of a series besides job and instance; None: there is no such series."""
        if series in FOREIGN:
            return FOREIGN[series]
        if series in self.metrics:
            return set(self.metrics[series].labels)
        family, _, part = series.rpartition("_")
        metric = self.metrics.get(family)
        if metric and metric.type.startswith("histogram") and part in ("bucket", "sum", "count"):
            return {*metric.labels, *(("le",) if part == "bucket" else ())}
        return None

    def known(self, selector):
        """The labels of what a selector finds, or None."""
        if selector.name in self.recorded:
            return self.recorded[selector.name]
        labels = self.labels(selector.name)
        return None if labels is None else labels | SCRAPE

    def result(self, expression):
        """The labels that the result of a recording rule has."""
        read = promql.parse(expression)
        if read.groups:  # the outermost, which looks at the most
            return set(max(reversed(read.groups), key=lambda group: len(group.selectors)).labels)
        return set().union(*(self.known(one) or set() for one in read.selectors))

    def faults(self, expression):
        """What the expression reads that does not exist, in words; nothing if there are none."""
        read = promql.parse(expression)
        made = set(re.findall(r', "(\w+)", "[^"]*", "", ""\)', expression))  # by label_replace
        found = []
        for one in read.selectors:
            if one.name == "":
                continue  # selects by __name__
            labels = self.known(one)
            if labels is None:
                found.append(f"there is no series {one.name}")
            else:
                found += [f"{one.name} has no label {label}" for label in one.matchers if label not in labels]
        for group in read.groups:
            for one in group.selectors:
                labels = self.known(one) if one.name else None
                if labels is not None:
                    found += [f"{one.name} has no label {label} to group by"
                              for label in group.labels if label not in labels | made]
        return found


def shipped():
    """The names that rules, runbooks, documents and dashboards may read."""
    metrics = {name: Metric(name, kind, labels, "") for name, (kind, labels) in PROMISED.items()}
    metrics.update(declared())
    rules = yaml.safe_load((TOP / "alerts/handoff-rules.yml").read_text(encoding="utf-8"))
    return Names(metrics, rules["groups"])


def queries(annotation):
    """The queries that a template asks, with something in the place of each label's value."""
    return [query.replace("%q", '"x"') for query in re.findall(r"printf `([^`]*)`", annotation)]
