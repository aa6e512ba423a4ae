#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long Prometheus takes for what ships: every rule that records, every alert, every panel.

    bench_queries.py [--agents N] [--minutes N] [--rounds N] [--json FILE]

A sidecar with 64 agents and mixed traffic is scraped once. What it said becomes an hour of scrapes, 15 s apart, in which
every counter grows; promtool writes it as a block, and Prometheus evaluates the queries at its end. The recorded series
that alerts and panels read are written the same way, by promtool.

An alert and a recording rule are one evaluation; a panel is a graph of the hour for all agents, with a point every 15 s or
as the panel wants it. Each is asked several times, and the quickest counts. The yardstick of the same run is a query that
reads every series once, at one time. The CPU that Prometheus took says what an idle machine would need, also where this one
is busy; it includes the answer's JSON.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import yaml

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
sys.path.insert(0, str(TOP / "tests/scenario"))
import grafana  # noqa: E402
from harness import Prometheus, Receiver  # noqa: E402
from harness.agents import Caller, daemon_with  # noqa: E402
from harness.receiver import ack, nack, status  # noqa: E402

INTERVAL = 15
LIMIT_MS = 50
LABELS = 'instance="sidecar:9780",job="handoff"'
YARDSTICK = 'count({job="handoff"})'
RULES = TOP / "alerts/handoff-rules.yml"
ALERTS = TOP / "alerts/handoff-alerts.yml"
PASSES = 3  # recorded series that read recorded series that read recorded series


# ---- an hour of scrapes -----------------------------------------------------------------------------

def exposition(agents):
    """{family: type} and [(series, value), ...] of a sidecar that had some of everything."""
    scripts = [(ack,), (nack("not mine", False), ack), (status(503), ack), (status(404), ack)]
    receivers = [Receiver(*script) for script in scripts]
    try:
        for receiver in receivers:
            receiver.__enter__()
        configured = {f"agent-{i:03}": {} if i % 8 == 7 else {"url": receivers[i % len(receivers)].url, "retries": 0}
                      for i in range(agents)}
        with daemon_with(configured) as daemon:
            caller = Caller(daemon)
            caller.call("PUT", "/v1/memories/ms-2", {"content": "refunds are idempotent " * 40})
            for i, name in enumerate(configured):
                send = caller.send_async if i % 8 == 7 else caller.send
                for turn in range(3):
                    send(name, task_id=f"task-{i}-{turn}", memory_ids=["ms-1", "ms-2"])
                bad_requests(caller, name)
            return parsed(daemon.web.get("/metrics").text)
    finally:
        for receiver in receivers:
            receiver.__exit__(None, None, None)


def bad_requests(caller, agent):
    """Each code that a call answers is a series."""
    caller.send(agent, strategy="full", memory_ids=["ms-2"], constraints={"max_tokens": 100})
    caller.send(agent, constraints={"deadline": "2020-01-01T00:00:00Z"})
    caller.send(agent, task_sumary="x")
    caller.send(agent + "-gone")
    for path in "/v1/handoffs/none", "/v1/parked?targt=x", "/v1/memories/none", "/v1/tasks/none":
        caller.call("GET", path)


def parsed(text):
    types, series = {}, []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            types[name] = kind
        elif line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            series.append((name, float(value)))
    return types, series


def is_counter(series, types):
    name = series.partition("{")[0]
    family = next((name[:-len(end)] for end in ("_bucket", "_sum", "_count") if name.endswith(end)), name)
    return types.get(name) == "counter" or types.get(family) == "histogram"


def with_labels(series):
    """As it is stored: with the labels of its scrape."""
    name, brace, rest = series.partition("{")
    return f"{name}{{{LABELS},{rest}" if brace else f"{name}{{{LABELS}}}"


def write_scrapes(path, types, series, begin, scrapes):
    """What grows does so evenly, all parts of a histogram together."""
    with open(path, "w", encoding="utf-8") as file:
        for name, value in series:
            stored, grows = with_labels(name), is_counter(name, types)
            for turn in range(scrapes):
                now = value * (1 + turn) if grows else value
                file.write(f"{stored} {now:g} {begin + turn * INTERVAL}\n")
        file.write("# EOF\n")


def promtool(*arguments):
    subprocess.run(["promtool", "tsdb", "create-blocks-from", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


class Loaded(Prometheus):
    """A Prometheus that scrapes nothing and has these blocks."""

    def __init__(self, blocks):
        self.blocks = blocks
        super().__init__({})

    def write_config(self, scrape, interval, more):
        super().write_config(scrape, interval, more)
        shutil.copytree(self.blocks, self.folder / "data")


def record(blocks, begin, end):
    """Adds the recorded series, as evaluated every minute."""
    for _ in range(PASSES):
        with Loaded(blocks) as prometheus, tempfile.TemporaryDirectory() as folder:
            promtool("rules", f"--start={begin}", f"--end={end}", "--eval-interval=60s", f"--output-dir={folder}",
                     f"--url={prometheus.http.url}", RULES)
            for block in pathlib.Path(folder).iterdir():
                if not (blocks / block.name).exists():
                    shutil.move(str(block), blocks)


# ---- asking -------------------------------------------------------------------------------------------

def cpu_ms(prometheus):
    """What all its threads have run so far."""
    tasks = pathlib.Path(f"/proc/{prometheus.process.pid}/task")
    return sum(int(task.joinpath("schedstat").read_text(encoding="ascii").split()[0]) for task in tasks.iterdir()) / 1e6


def milliseconds(prometheus, rounds, path, **parameters):
    """(CPU, as Prometheus says) of the quickest."""
    cpu, said = [], []
    for _ in range(rounds):
        before = cpu_ms(prometheus)
        said.append(prometheus.api(path, stats="true", **parameters)["stats"]["timings"]["execTotalTime"] * 1000)
        cpu.append(cpu_ms(prometheus) - before)
    return min(cpu), min(said)


def questions(end, shown):
    """(kind, name, path, parameters)"""
    yield "yardstick", YARDSTICK, "query", {"query": YARDSTICK, "time": end}
    for kind, path in ("record", RULES), ("alert", ALERTS):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                name = rule.get("alert") or rule["record"]
                name += "".join(f" {rule['labels'][label]}" for label in ("severity", "long") if label in rule.get("labels", {}))
                yield kind, name, "query", {"query": rule["expr"], "time": end}
    for uid, dashboard in grafana.dashboards().items():
        for query in grafana.queries(dashboard):
            yield "panel", f"{uid}: {query.panel['title']}", *panel_query(query, end, shown)


def panel_query(query, end, shown):
    """As Grafana asks: no two points closer than the panel wants them, or than two scrapes are."""
    step = max(INTERVAL, grafana.seconds(query.panel.get("interval", "0s")))
    expression = grafana.fill(query.target["expr"], {}, shown, step, INTERVAL)
    if query.target.get("instant"):
        return "query", {"query": expression, "time": end}
    return "query_range", {"query": expression, "start": end - shown, "end": end, "step": step}


def report(found, series):
    yardstick = next(cpu for kind, _, (cpu, _) in found if kind == "yardstick")
    print(f"{series} series; the yardstick, {YARDSTICK}, takes {yardstick:.1f} ms of CPU\n")
    print("| what | queries | dearest | CPU, ms | by the yardstick | ms | over 50 ms of CPU |\n|---|---|---|---|---|---|---|")
    for kind in "alert", "record", "panel":
        times = sorted(((taken, name) for found_kind, name, taken in found if found_kind == kind), reverse=True)
        (cpu, said), name = times[0]
        print(f"| {kind} | {len(times)} | {name} | {cpu:.1f} | {cpu / yardstick:.2f} | {said:.1f} | "
              f"{sum(each > LIMIT_MS for (each, _), _ in times)} |")
    print()
    for kind, name, (cpu, said) in sorted(found, key=lambda row: row[2], reverse=True)[:20]:
        print(f"{cpu:8.1f} ms of CPU {said:8.1f} ms  {kind:7} {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    types, series = exposition(options.agents)
    scrapes = options.minutes * 60 // INTERVAL + 1
    end = int(time.time()) // INTERVAL * INTERVAL
    with tempfile.TemporaryDirectory() as folder:
        scraped, blocks = pathlib.Path(folder, "scrapes"), pathlib.Path(folder, "blocks")
        write_scrapes(scraped, types, series, end - (scrapes - 1) * INTERVAL, scrapes)
        promtool("openmetrics", scraped, blocks)
        scraped.unlink()
        record(blocks, end - options.minutes * 60, end)
        with Loaded(blocks) as prometheus:
            found = [(kind, name, milliseconds(prometheus, options.rounds, path, **parameters))
                     for kind, name, path, parameters in questions(end, options.minutes * 60)]
    report(found, len(series))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
