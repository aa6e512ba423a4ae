# SPDX-License-Identifier: Apache-2.0
"""Rules for dashboards. Each is a function from a dashboard to complaints, so that the tests can show both:
that the shipped dashboards have none, and that a dashboard which breaks the rule gets one."""

import functools
import itertools
import re
import sys

import source_tree
import yaml

sys.path.insert(0, str(source_tree.TOP / "tests/scenario"))
import grafana  # noqa: E402  pylint: disable=wrong-import-position

KINDS = {"stat", "gauge", "timeseries", "heatmap", "state-timeline", "table", "text"}
COLUMNS = 24

# What Prometheus itself adds to a scrape and to alerts.
OF_PROMETHEUS = {
    "up": ("gauge", set()), "scrape_duration_seconds": ("gauge", set()), "scrape_samples_scraped": ("gauge", set()),
    "ALERTS": ("gauge", {"alertname", "alertstate", "severity", "target_agent", "call", "code", "pattern"}),
    "ALERTS_FOR_STATE": ("gauge", {"alertname", "severity", "target_agent", "call", "code", "pattern"}),
}
SCRAPED = {"job", "instance"}


def served():
    """{metric: (type, labels)} of collectors/metrics.def."""
    text = (source_tree.TOP / "collectors/metrics.def").read_text()
    rows = re.findall(r'^METRIC\(\w+, (HISTOGRAM|COUNTER|GAUGE),\s*"(\w+)",\s*"\w*",\s*(?:LABELS\(([^)]*)\)|NO_LABELS)',
                      text, re.MULTILINE)
    return {name: (kind.lower(), set(re.findall(r'"\*?(\w+)"', labels))) for kind, name, labels in rows}


def recorded():
    """{recorded series: labels}"""
    groups = yaml.safe_load((source_tree.TOP / "alerts/handoff-rules.yml").read_text())["groups"]
    levels = {"job": set(), "job_le_target_agent": {"le", "target_agent"}, "job_pattern": {"pattern"}, "job_target_agent": {"target_agent"}}
    return {rule["record"]: levels[rule["record"].split(":")[0]] for group in groups for rule in group["rules"]}


@functools.lru_cache(maxsize=None)
def known_metrics():
    """{name in a query: (kind, labels besides job and instance)}; kind "counter" must be inside rate()."""
    known = dict(OF_PROMETHEUS)
    for name, (kind, labels) in served().items():
        if kind == "histogram":
            known[name] = ("counter", labels)  # the native form
            known[f"{name}_bucket"] = ("counter", labels | {"le"})
            known[f"{name}_sum"] = known[f"{name}_count"] = ("counter", labels)
        else:
            known[name] = (kind, labels)
    known.update({name: ("recorded", labels) for name, labels in recorded().items()})
    return known


# --- reading PromQL -------------------------------------------------------------------------------

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[a-zA-Z_:][\w:]*|\d[\w.]*|[^\s\w]|\s+')
GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = {"and", "or", "unless", "offset", "bool"}
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')


class Selector:
    """A metric in an expression: its name, matchers, range, and the function around it if there is one."""

    def __init__(self, name, function):
        self.name = name
        self.function = function
        self.matchers = []
        self.range = None


def selectors(expression):
    """(selectors, labels named in groupings)"""
    tokens = [token for token in TOKEN.findall(expression) if not token.isspace()]
    found, grouped, before = [], set(), ["", ""]
    i = 0
    while i < len(tokens):
        token = tokens[i]
        after = tokens[i + 1] if i + 1 < len(tokens) else ""
        if token in GROUPING and after == "(":
            end = tokens.index(")", i)
            grouped |= {one for one in tokens[i + 2:end] if one != ","}
            i = end
        elif re.match(r"[a-zA-Z_:]", token) and token not in WORDS and after != "(" and after not in GROUPING:
            found.append(Selector(token, before[0] if before[1] == "(" else None))
        elif token == "{" and found:
            end = tokens.index("}", i)
            found[-1].matchers = MATCHER.findall("".join(tokens[i:end]))
            i = end
        elif token.startswith("[") and found:
            found[-1].range = token[1:-1]
        before = [before[1], tokens[i]]
        i += 1
    return found, grouped


def every_query(dashboard):
    for query in grafana.queries(dashboard):
        yield f'{query.panel["title"]} {query.target["refId"]}', query.target["expr"], query.target
    for annotation in dashboard["annotations"]["list"]:
        yield f'annotation {annotation["name"]}', annotation["target"]["expr"], annotation["target"]
        if annotation["expr"] != annotation["target"]["expr"]:
            yield f'annotation {annotation["name"]} (old form)', annotation["expr"], annotation["target"]


# --- the rules --------------------------------------------------------------------------------------

def frame(dashboard):
    if not re.fullmatch(r"[a-z-]{8,40}", dashboard.get("uid", "")):
        yield "uid"
    if not dashboard["title"].startswith("Handoff / "):
        yield "title"
    if dashboard["editable"] is not False:
        yield "it can be edited in place, and the next start would take the edit back"
    if dashboard["tags"] != ["handoff"]:
        yield "tags"
    if dashboard["schemaVersion"] < 39 or "spec" in dashboard:
        yield "not the classic model"
    if not (dashboard["refresh"] and dashboard["timezone"] and dashboard["graphTooltip"] == 1):
        yield "refresh, timezone or shared crosshair"


def variables(dashboard):
    names = [variable["name"] for variable in dashboard["templating"]["list"]]
    if names[:3] != ["datasource", "job", "instance"]:
        yield f"variables begin with {names[:3]}"
    for variable in dashboard["templating"]["list"]:
        name = variable["name"]
        if name == "datasource":
            if (variable["type"], variable["query"]) != ("datasource", "prometheus"):
                yield "variable datasource"
        elif variable["type"] == "query":
            wanted = {"refresh": 2, "includeAll": True, "multi": True, "allValue": ".+"}
            if {key: variable.get(key) for key in wanted} != wanted:
                yield f"variable {name}"
            if variable["datasource"]["uid"] != "${datasource}":
                yield f"variable {name}: data source"


def panels(dashboard):
    for panel in grafana.panels(dashboard):
        title = panel.get("title") or "?"
        if not panel.get("title"):
            yield f'panel {panel["id"]}: no title'
        if not panel.get("description"):
            yield f"{title}: no description"
        if panel["type"] not in KINDS:
            yield f'{title}: {panel["type"]}'
        if panel["type"] == "text":
            continue
        if "**Good:** " not in panel.get("description", "") or "**Otherwise:** " not in panel.get("description", ""):
            yield f"{title}: the description does not say what is good and what to do otherwise"
        if not panel.get("fieldConfig", {}).get("defaults", {}).get("unit"):
            yield f"{title}: no unit"
        if not panel.get("targets"):
            yield f"{title}: no queries"
        for source in [panel, *panel.get("targets", [])]:
            if source.get("datasource") != {"type": "prometheus", "uid": "${datasource}"}:
                yield f"{title}: data source"


def unique(dashboard):
    everything = list(grafana.panels(dashboard, rows=True))
    for key in ("id", "title"):
        values = [panel[key] for panel in everything]
        for value in {value for value in values if values.count(value) > 1}:
            yield f"{key} {value} is not unique"
    for panel in everything:
        references = [target["refId"] for target in panel.get("targets", [])]
        if len(set(references)) != len(references):
            yield f'{panel["title"]}: refId is not unique'


def grid(dashboard):
    places = [(panel["title"], panel["gridPos"]) for panel in dashboard["panels"]]
    for title, at in places:
        if at["x"] < 0 or at["y"] < 0 or at["w"] < 1 or at["h"] < 1 or at["x"] + at["w"] > COLUMNS:
            yield f"{title}: outside of the grid"
    for (one, a), (other, b) in itertools.combinations(places, 2):
        if a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]:
            yield f"{one} lies over {other}"
    bottom = max(at["y"] + at["h"] for _, at in places)
    if sum(at["w"] * at["h"] for _, at in places) != COLUMNS * bottom:
        yield "there are holes"


def ranges(dashboard):
    """$__rate_interval in every range. A query that answers once, for all of the time shown, has $__range."""
    for where, expression, target in every_query(dashboard):
        for selector in selectors(expression)[0]:
            wanted = "$__range" if target.get("instant") else "$__rate_interval"
            if selector.range not in (None, wanted):
                yield f"{where}: {selector.name}[{selector.range}]"
        if target.get("instant") is target.get("range"):
            yield f"{where}: neither instant nor range"


def counters(dashboard):
    known = known_metrics()
    for where, expression, _ in every_query(dashboard):
        for selector in selectors(expression)[0]:
            kind = known.get(selector.name, ("", ()))[0]
            inside = selector.function in ("rate", "increase") and selector.range
            if (kind == "counter") != bool(inside):
                yield f"{where}: {selector.name} is a {kind} and {'' if inside else 'not '}inside rate or increase"


def wanted_matchers(selector, labels, names):
    """The matchers that a selector must have, as far as the dashboard has the variables."""
    if selector.name.startswith("ALERTS"):  # an alert has only the labels of its scope
        return {("job", "=~", "$job")} | {(label, "=~", f"${label}|") for label in {"instance", "target_agent"} & names}
    if ":" in selector.name:  # recorded: of all sidecars together
        return {("job", "=~", "$job")}
    return {(label, "=~", f"${label}") for label in (SCRAPED | labels) & names}


def scope(dashboard):
    known, names = known_metrics(), set(grafana.variables(dashboard))
    for where, expression, _ in every_query(dashboard):
        for selector in selectors(expression)[0]:
            if selector.name in known:
                missing = wanted_matchers(selector, known[selector.name][1], names) - set(selector.matchers)
                for label, _, value in sorted(missing):
                    yield f'{where}: {selector.name} without {label}=~"{value}"'


def metrics_and_labels(dashboard):
    known = known_metrics()
    for where, expression, target in every_query(dashboard):
        found, grouped = selectors(expression)
        labels = set(SCRAPED)
        for selector in found:
            if selector.name not in known:
                yield f"{where}: there is no metric {selector.name}"
                continue
            own = SCRAPED | known[selector.name][1]
            labels |= own
            for label in {matcher[0] for matcher in selector.matchers} - own:
                yield f"{where}: {selector.name} has no label {label}"
        for label in (grouped | set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))) - labels:
            yield f"{where}: no label {label}"


def used_variables(dashboard):
    names = set(grafana.variables(dashboard)) | {"__range", "__rate_interval"}
    for where, expression, _ in every_query(dashboard):
        for name in set(re.findall(r"\$\{?(\w+)", expression)) - names:
            yield f"{where}: there is no variable {name}"


def addresses(dashboard):
    """(where, url) of every link on the dashboard that leads to an address."""
    for link in dashboard["links"]:
        if link["type"] == "link":
            yield "dashboard", link["url"]
    for panel in grafana.panels(dashboard):
        for link in panel.get("links", []):
            yield panel["title"], link["url"]
        for override in panel.get("fieldConfig", {}).get("overrides", []):
            for one in override["properties"]:
                if one["id"] == "links":
                    for link in one["value"]:
                        yield panel["title"], link["url"]


def links(dashboard):
    shipped = grafana.dashboards()
    own = set(grafana.variables(dashboard))
    for where, url in addresses(dashboard):
        for name in re.findall(r"\$\{(\w+)", url):
            if name not in own and name not in ("__value", "__url_time_range"):
                yield f"{where}: {url}: there is no variable {name}"
        runbook = re.fullmatch(r"\$\{runbooks\}/(.+)\.md", url)
        to_dashboard = re.match(r"/d/([a-z-]+)\?", url)
        if runbook:
            if runbook[1] != "${__value.text}" and not (source_tree.TOP / "docs/runbooks" / f"{runbook[1]}.md").is_file():
                yield f"{where}: there is no runbook {runbook[1]}"
        elif to_dashboard and to_dashboard[1] in shipped:
            yield from (f"{where}: {to_dashboard[1]} has no variable {name}"
                        for name in variables_set_by(url) - set(grafana.variables(shipped[to_dashboard[1]])))
        else:
            yield f"{where}: {url} leads nowhere"
    if not any(link["type"] == "dashboards" and link["tags"] == dashboard["tags"] and link["includeVars"] and
               link["keepTime"] for link in dashboard["links"]):
        yield "no link to the other dashboards"


def variables_set_by(url):
    return set(re.findall(r"[?&]var-(\w+)=", url)) | set(re.findall(r"\$\{(\w+):queryparam\}", url))


def commands(dashboard):
    """Every handoffctl command that a text recommends exists."""
    table = (source_tree.TOP / "ctl/commands.def").read_text()
    exist = set(re.findall(r'^(?:COMMAND\(\w+, |        \.alias = )"([a-z-]+)', table, re.MULTILINE))
    for panel in grafana.panels(dashboard):
        for command in re.findall(r"handoffctl ([a-z-]+)", panel.get("description", "")):
            if command not in exist:
                yield f'{panel["title"]}: there is no handoffctl {command}'


RULES = [frame, variables, panels, unique, grid, ranges, counters, scope, metrics_and_labels, used_variables, links, commands]


def complaints(dashboard):
    return [f"{rule.__name__}: {complaint}" for rule in RULES for complaint in rule(dashboard)]

