# SPDX-License-Identifier: Apache-2.0
"""The judge of the dashboards: asks a running Prometheus every query of every panel, as Grafana would.

    answers = judge.ask_all("http://127.0.0.1:9090", shown=600, scrape_interval=15)
    for complaint in judge.complaints(answers): ...

A complaint is a query that Prometheus refuses, or a panel that shows nothing although it does not say that
it may. Whether the numbers are right only the caller knows, who made the traffic: he finds them with
answers[uid][title]. scenario/test_dashboards.py and the demo's test use it.
"""

import collections
import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request

import grafana

# One series of an answer. A sample is (time, value); a value is a float, or (count, sum) of a native histogram.
Series = collections.namedtuple("Series", "labels samples")
# The result of one query: its series, or the error that Prometheus told.
Answer = collections.namedtuple("Answer", "query expression series error")


class Refused(Exception):
    """Prometheus did not answer the question."""


def call(url, path, **parameters):
    """The data of GET /api/v1/PATH."""
    address = f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
    try:
        with urllib.request.urlopen(address, timeout=60) as reply:
            answer = json.load(reply)
    except urllib.error.HTTPError as error:
        answer = json.load(error)
    if answer["status"] != "success":
        raise Refused(answer["error"])
    return answer["data"]


def sample(value):
    """A float, or (count, sum) of a native histogram."""
    at, content = value
    if isinstance(content, dict):
        return at, (float(content["count"]), float(content["sum"]))
    return at, float(content)


def series_of(data):
    if data["resultType"] == "scalar":
        return [Series({}, [sample(data["result"])])]
    found = []
    for row in data["result"]:
        values = row.get("values", []) + row.get("histograms", [])
        values += [row[key] for key in ("value", "histogram") if key in row]
        samples = [(at, value) for at, value in map(sample, values) if isinstance(value, tuple) or not math.isnan(value)]
        if samples:
            found.append(Series(row["metric"], samples))
    return found


class Judge:
    """Asks for the last `shown` seconds until `at`; the other arguments are those of grafana.fill."""

    def __init__(self, url, shown, scrape_interval, at=None, step=None, selected=None):
        self.url = url.rstrip("/")
        self.shown, self.scrape_interval = shown, scrape_interval
        self.at = time.time() if at is None else at
        self.step = step or max(scrape_interval, math.ceil(shown / 500))
        self.selected = selected or {}

    def fill(self, expression):
        return grafana.fill(expression, self.selected, self.shown, self.step, self.scrape_interval)

    def data(self, target):
        """What Prometheus answers to a query of a panel, as it is."""
        expression = self.fill(target["expr"])
        if target.get("instant"):
            return call(self.url, "query", query=expression, time=self.at)
        return call(self.url, "query_range", query=expression, start=self.at - self.shown, end=self.at, step=self.step)

    def ask(self, query):
        expression = self.fill(query.target["expr"])
        try:
            return Answer(query, expression, series_of(self.data(query.target)), None)
        except Refused as error:
            return Answer(query, expression, [], str(error))

    def exemplars(self, target):
        """[{labels, value, timestamp, ...}] that Grafana would draw on the panel."""
        rows = call(self.url, "query_exemplars", query=self.fill(target["expr"]), start=self.at - self.shown, end=self.at)
        return [exemplar for row in rows for exemplar in row["exemplars"]]

    def options(self, variable):
        """The values that the menu of a query variable has."""
        series, label = variable["query"]["query"][len("label_values("):-1].rsplit(",", 1)
        return call(self.url, f"label/{label.strip()}/values", **{"match[]": self.fill(series)},
                    start=self.at - self.shown, end=self.at)

    def annotations(self, dashboard):
        """{name: Answer}"""
        asked = {}
        for annotation in dashboard["annotations"]["list"]:
            target = {**annotation["target"], "instant": False}
            asked[annotation["name"]] = self.ask(grafana.Query(dashboard, {"title": annotation["name"]}, target))
        return asked


def ask_all(url, **arguments):
    """{uid: {title of panel: [Answer, ...]}} of all dashboards; the arguments are those of Judge."""
    judge = Judge(url, **arguments)
    answers = {}
    for uid, dashboard in grafana.dashboards().items():
        answers[uid] = collections.defaultdict(list)
        for query in grafana.queries(dashboard):
            answers[uid][query.panel["title"]].append(judge.ask(query))
    return answers


def empty_panels(answers):
    """[(uid, title)] of panels with a query that found nothing. A heatmap needs one of its two."""
    found = []
    for uid, titles in answers.items():
        for title, asked in titles.items():
            silent = [answer for answer in asked if not answer.series]
            enough = len(asked) - 1 if asked[0].query.panel["type"] == "heatmap" else 0
            if len(silent) > enough:
                found.append((uid, title))
    return found


def complaints(answers, may_be_empty=()):
    """What is wrong with the answers. may_be_empty: titles that this traffic leaves empty besides those that say so."""
    found = [f"{uid}: {title}: {answer.error}\n{answer.expression}" for uid, titles in answers.items()
             for title, asked in titles.items() for answer in asked if answer.error]
    for uid, title in empty_panels(answers):
        panel = answers[uid][title][0].query.panel
        if not grafana.may_be_empty(panel) and title not in may_be_empty:
            found.append(f"{uid}: {title} shows nothing\n" + "\n".join(one.expression for one in answers[uid][title]))
    return found
