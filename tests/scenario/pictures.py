# SPDX-License-Identifier: Apache-2.0
"""Pictures of the dashboards, for want of a Grafana: the shipped JSON, the answers of a running Prometheus, and
tests/pictures, which draws both in headless Chromium.

    PYTHONPATH=tests/scenario /usr/bin/python3 tests/scenario/pictures.py \\
        --prometheus http://localhost:9090 --last 15m [--select target_agent=coder] [--only handoff-agent] FOLDER

writes FOLDER/UID.png. They show what is asked, how it is laid out and coloured, not how Grafana looks to the last
pixel.
"""

import argparse
import json
import math
import os
import pathlib
import tempfile
import time

import grafana
import judge

os.environ.setdefault("HANDOFF_EXPORTER", "")  # which the harness asks for; no daemon is started here
from harness.browser import Browser  # noqa: E402  pylint: disable=wrong-import-position

HERE = grafana.TOP / "tests/pictures"
SCRIPTS = ["values.js", "frames.js", "plots.js", "page.js"]
WIDTH = 1600
POINTS = 300
EXEMPLARS = 150


def answered(judging, panel):
    """The panel with the answers to its queries beside them."""
    targets = panel.get("targets", [])
    exemplars = {(one["timestamp"], one["value"]): one for target in targets if target.get("exemplar")
                 for one in judging.exemplars(target)}
    newest = [exemplars[key] for key in sorted(exemplars)][-EXEMPLARS:]
    return {**panel, "answers": [judging.data(target) for target in targets], "exemplars": newest,
            "panels": [answered(judging, one) for one in panel.get("panels", [])]}


def annotations(judging, dashboard):
    """[{from, to, color}]: the times that are shaded on every panel."""
    colors = {one["name"]: one for one in dashboard["annotations"]["list"]}
    found = []
    for name, answer in judging.annotations(dashboard).items():
        for series in answer.series:
            times = [at for at, _ in series.samples]
            if colors[name].get("useValueForTime"):
                times = [series.samples[-1][1] / 1000]
            if times[0] >= judging.at - judging.shown:
                found.append({"from": times[0], "to": times[-1], "color": colors[name]["iconColor"]})
    return found


def page_of(dashboard, url, shown, scrape_interval, at=None, selected=None):
    """What page.js draws."""
    at = int(time.time() if at is None else at)
    step = max(math.ceil(scrape_interval), math.ceil(shown / POINTS))
    shown = shown // step * step
    judging = judge.Judge(url, shown, scrape_interval, at=at, step=step, selected=selected)
    panels = [answered(judging, panel) for panel in dashboard["panels"]]
    return {"dashboard": {**dashboard, "panels": panels}, "selected": selected or {}, "at": at,
            "times": list(range(at - shown, at + 1, step)), "annotations": annotations(judging, dashboard)}


def document(page):
    uplot = HERE / "node_modules/uplot/dist"
    styles = [(uplot / "uPlot.min.css").read_text(), (HERE / "look.css").read_text()]
    scripts = [(uplot / "uPlot.iife.min.js").read_text(),
               "const page = " + json.dumps(page).replace("</", "<\\/") + ";\n" +
               "".join((HERE / name).read_text() for name in SCRIPTS)]
    return ("<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>picture</title>" +
            "".join(f"<style>{style}</style>" for style in styles) + "<body><header></header><main></main>" +
            "".join(f"<script>{script}</script>" for script in scripts) + "</body></html>")


def draw(page, target, browser):
    """Draws the page into a PNG file; answers {title: what page.js says of the panel}."""
    with tempfile.TemporaryDirectory(prefix="handoff-picture-") as folder:
        path = pathlib.Path(folder, "page.html")
        path.write_text(document(page), encoding="utf-8")
        shown = browser.open(path.as_uri(), width=WIDTH)
        if shown.complaints or not shown.evaluate("document.body.dataset.done"):
            raise AssertionError(f"the page was not drawn to its end: {shown.complaints}")
        shown.picture(target)
        return shown.evaluate("Object.fromEntries([...document.querySelectorAll('section')]"
                              ".map((section) => [section.dataset.title, {...section.dataset}]))")


def main():
    parser = argparse.ArgumentParser(description="draws the dashboards from a running Prometheus")
    parser.add_argument("--prometheus", default="http://localhost:9090")
    parser.add_argument("--last", default="1h")
    parser.add_argument("--scrape-interval", default="15s")
    parser.add_argument("--select", action="append", default=[], metavar="VARIABLE=VALUE")
    parser.add_argument("--only", metavar="UID")
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    selected = {}
    for choice in arguments.select:
        name, value = choice.split("=", 1)
        selected.setdefault(name, []).append(value)
    with Browser() as browser:
        for uid, dashboard in grafana.dashboards().items():
            if arguments.only in (None, uid):
                page = page_of(dashboard, arguments.prometheus, grafana.seconds(arguments.last),
                               grafana.seconds(arguments.scrape_interval), selected=selected)
                draw(page, arguments.folder / f"{uid}.png", browser)


if __name__ == "__main__":
    main()
