#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What survives a handoff: pipelines of two to eight agents, handed on in several ways, with the same faults.

    ./scripts/proof                     two minutes
    ./scripts/proof --full              the figures of docs/proof.md, about an hour

docs/proof.md says what is claimed, how it is measured, and what it does not show.
"""

import argparse
import concurrent.futures
import json
import pathlib
import sys
import threading
import time

import faults
import judge
import receivers
import report
import sidecar
import tasks
import ways

TOP = pathlib.Path(__file__).resolve().parent.parent
WAYS = {"summary": ways.Summary, "json": ways.Chosen, "transcript": ways.ShortTranscript,
        "long-transcript": ways.LongTranscript, "sample": sidecar.Sample, "plain": sidecar.Plain,
        "careful": sidecar.Careful}


class Progress:
    """One line on a terminal that is written again; `_lock` guards `done`."""

    def __init__(self, title, total):
        self.title, self.total, self.done = title, total, 0
        self.began = time.monotonic()
        self._lock = threading.Lock()

    def step(self):
        with self._lock:
            self.done += 1
            if sys.stderr.isatty():
                left = (time.monotonic() - self.began) / self.done * (self.total - self.done)
                print(f"\r{self.title}: {self.done} of {self.total} tasks, {left:.0f} s left \x1b[K", end="",
                      file=sys.stderr, flush=True)

    def end(self):
        seconds = time.monotonic() - self.began
        start = "\r" if sys.stderr.isatty() else ""
        print(f"{start}{self.title}: {self.done} tasks, {seconds:.0f} s\x1b[K" if start else
              f"{self.title}: {self.done} tasks, {seconds:.0f} s", file=sys.stderr, flush=True)


def run_task(way, seed, number, options):
    """The task through all agents, until it is lost."""
    task = tasks.make(seed, number)
    verdict = judge.Verdict(task.name)
    hand = ways.Hand(agent=0)
    for agent in range(1, len(tasks.AGENTS)):
        way.receivers.expect(task.name, tasks.AGENTS[agent], faults.drawn(seed, number, agent, options.faults)[1])
        began = time.monotonic()
        received = way.hand_on(task, hand)
        if received is None:
            verdict.lost_at = agent
            break
        stage, known = judge.judge(task, agent, received, time.monotonic() - began)
        verdict.stages.append(stage)
        hand = ways.Hand(agent, received, known)
    return verdict


def run_way(name, count, options):
    """(verdicts, facts about the run)"""
    servers = receivers.Receivers(too_late_s=1.5 * ways.SENDER_TIMEOUT_S)
    way = WAYS[name](servers, options)
    progress = Progress(way.title, count)
    way.open()

    def one(number):
        verdict = run_task(way, options.seed, number, options)
        progress.step()
        return verdict

    try:
        with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
            verdicts = list(pool.map(one, range(count)))
    finally:
        way.close()
        servers.close()
    progress.end()
    return verdicts, {"kills": way.sidecar.kills if isinstance(way, sidecar.Exporter) else 0}


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./scripts/proof", description=__doc__.splitlines()[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--seed", type=int, default=20260101, help="everything is drawn from it")
    parser.add_argument("--tasks", type=int, default=250, help="tasks for each way")
    parser.add_argument("--full", action="store_true", help="10,000 tasks through the sidecar, 1,000 in other ways")
    parser.add_argument("--ways", default=",".join(WAYS), help="which ways of handing off")
    parser.add_argument("--loss", default="0.1",
                        help="share that a summary leaves out at each handoff, or 'published' (see docs/proof.md)")
    parser.add_argument("--faults", type=float, default=1.0, help="faults, as a multiple of those of faults.py; 0: none")
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds between kills of the sidecar; 0: never")
    parser.add_argument("--other-tasks", type=int, default=200, help="tasks whose memories are in the store as well")
    parser.add_argument("--at-once", type=int, default=16, help="tasks under way at the same time")
    parser.add_argument("--exporter", type=pathlib.Path, default=TOP / "build/release/exporter/handoff-exporter",
                        help="the sidecar's program")
    parser.add_argument("--out", type=pathlib.Path, default=TOP / "build/proof", help="where the page goes")
    parser.add_argument("--write-tasks", type=pathlib.Path, metavar="FILE",
                        help="write the tasks as lines of JSON, and do nothing else")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.ways.split(",") if name not in WAYS]
    if unknown:
        parser.error(f"--ways: {unknown[0]} is none of {', '.join(WAYS)}")
    if options.loss != "published" and not 0 <= float(options.loss) <= 1:
        parser.error("--loss: from 0 to 1, or 'published'")
    return options


def count_for(name, options):
    if not options.full:
        return options.tasks
    return 10000 if issubclass(WAYS[name], sidecar.Exporter) else 1000


def is_sound(result):
    """Through the sidecar, nothing is silently gone, and what it counts is so."""
    if not issubclass(WAYS[result["name"]], sidecar.Exporter):
        return True
    return result["wrong_counts"] == 0 and all(row["fates"]["gone"] == 0 for row in result["by_agent"])


def main(arguments=None):
    options = parse(arguments)
    if options.write_tasks:
        lines = (tasks.line(tasks.make(options.seed, number)) + "\n" for number in range(options.tasks))
        options.write_tasks.write_text("".join(lines), encoding="utf-8")
        return 0
    results = []
    for name in options.ways.split(","):
        verdicts, facts = run_way(name, count_for(name, options), options)
        results.append(report.summarize(name, WAYS[name].title, verdicts, facts))
    report.show(results, options)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "proof.json").write_text(json.dumps(report.document(results, options), indent=1), encoding="utf-8")
    report.write_page(results, options)
    print(f"\n{options.out / 'index.html'} and proof.json beside it have all of it.")
    return 0 if all(is_sound(result) for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
