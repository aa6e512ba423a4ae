# SPDX-License-Identifier: Apache-2.0
"""The shipped dashboards as Grafana reads them: their panels and queries, and what happens to the variables
in a query before Prometheus is asked. The tests that lint, judge and draw the dashboards share it."""

import collections
import json
import os
import pathlib
import re

TOP = pathlib.Path(os.environ.get("HANDOFF_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
FOLDER = TOP / "dashboards/json"

# One query of one panel.
Query = collections.namedtuple("Query", "dashboard panel target")

# A panel whose description has such a sentence may show nothing.
MAY_BE_EMPTY = re.compile(r"^Empty (while|until) ", re.MULTILINE)


def dashboards():
    """{uid: dashboard} of all that are shipped."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
    return {dashboard["uid"]: dashboard for dashboard in found}


def panels(dashboard, rows=False):
    """The panels in their order, also those inside collapsed rows; rows themselves when asked for."""
    for panel in dashboard["panels"]:
        if panel["type"] != "row" or rows:
            yield panel
        yield from panel.get("panels", [])


def queries(dashboard):
    for panel in panels(dashboard):
        for target in panel.get("targets", []):
            yield Query(dashboard, panel, target)


def variables(dashboard):
    """{name: variable}"""
    return {variable["name"]: variable for variable in dashboard["templating"]["list"]}


def may_be_empty(panel):
    return bool(MAY_BE_EMPTY.search(panel["description"]))


def seconds(duration):
    """90 of "90s", "1m30s" ..."""
    factors = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    parts = re.findall(r"(\d+)([smhd])", duration)
    if "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"not a duration: {duration}")
    return sum(int(number) * factors[unit] for number, unit in parts)


def rate_interval(step, scrape_interval):
    """$__rate_interval in seconds, as Grafana reckons it."""
    return max(step + scrape_interval, 4 * scrape_interval)


def escape(value):
    """A value inside =~"...": special characters are escaped for the expression and for the string."""
    return re.sub(r"[\\^$*+?.()|\[\]{}]", r"\\\\\g<0>", value)


def interpolate(values):
    """What =~ gets for a variable with these values; all of them when there are none."""
    if not values:
        return ".+"
    return escape(values[0]) if len(values) == 1 else "(" + "|".join(map(escape, values)) + ")"


def fill(expression, selected, shown, step, scrape_interval):
    """The expression with its variables filled in.

    selected         {variable: [value, ...]}; a variable that is not there has the value All
    shown, step, scrape_interval   in seconds
    """
    builtin = {"__range": f"{int(shown)}s", "__interval": f"{int(step)}s",
               "__rate_interval": f"{int(rate_interval(step, scrape_interval))}s"}

    def value(match):
        name = match[1] or match[2]
        return builtin[name] if name in builtin else interpolate(selected.get(name))
    return re.sub(r"\$(?:(\w+)|\{(\w+)\})", value, expression)
