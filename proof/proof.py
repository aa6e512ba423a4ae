#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What survives a handoff: pipelines of two to nine agents, handed on in several ways, with the same faults.

    ./scripts/proof                     two minutes
    ./scripts/proof --full              the figures of docs/proof.md, about half an hour

docs/proof.md says what is claimed, how it is measured, and what it does not show.
"""

import argparse
import concurrent.futures
import json
import pathlib
import runpy
import sys
import threading
import time

import faults
import goals
import judge
import receivers
import report
import service
import sidecar
import tasks
import ways

TOP = pathlib.Path(__file__).resolve().parent.parent
# --add adds to them.
WAYS = {"summary": ways.Summary, "json": ways.Chosen, "transcript": ways.Transcript, "service": service.Service,
        "sample": sidecar.Sample, "plain": sidecar.Plain, "careful": sidecar.Careful}


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
    task = tasks.make(seed, number, options.shape)
    verdict = judge.Verdict(task.name)
    hand = ways.Hand(agent=0)
    for agent in range(1, len(tasks.AGENTS)):
        way.receivers.expect(task.name, tasks.AGENTS[agent], faults.drawn(seed, number, agent, options.faults)[1])
        began = time.monotonic()
        received = way.hand_on(task, hand)
        if received is None:
            verdict.lost_at = agent
            break
        stage, known = judge.judge(task, agent, received, time.monotonic() - began, options.needs)
        verdict.stages.append(stage)
        hand = ways.Hand(agent, received, known)
    return verdict


def rows(options):
    """(name, class) of each row of the table: one for each length of talk in a transcript."""
    for name in options.ways:
        if name == "transcript":
            yield from ((f"{name}-{talk}", ways.transcript_of(talk)) for talk in options.talk)
        else:
            yield name, WAYS[name]


def is_ours(way):
    return issubclass(way, sidecar.Exporter)


def run_way(name, kind, count, options):
    """What is counted of one way."""
    servers = receivers.Receivers(too_late_s=1.5 * ways.SENDER_TIMEOUT_S)
    way = kind(servers, options)
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
    return report.summarize(name, way, verdicts, options.needs, is_ours(kind))


# ---- the command line

def checked(read, allowed):
    """A type of argparse: what `read` makes of a text, or an error that says what is allowed."""
    def convert(text):
        try:
            return read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"seen {text!r}; allowed: {allowed}") from None
    return convert


def _must(condition, value):
    if not condition:
        raise ValueError
    return value


def _numbers(text):
    values = sorted({int(part) for part in text.split(",")})
    return _must(values[0] > 0, values)


def _span(text):
    low, high = (int(part) for part in text.split("-"))
    return _must(0 < low <= high, (low, high))


def _loss(text):
    return text if text == "published" else _must(0 <= float(text) <= 1, text)


NUMBERS = checked(_numbers, "numbers from 1, as in 1,6")
SPAN = checked(_span, "two numbers from 1, as in 1500-8000")
LOSS = checked(_loss, "0 to 1, or published")
COUNT = checked(lambda text: _must(int(text) >= 0, int(text)), "a whole number from 0")
SOME = checked(lambda text: _must(int(text) > 0, int(text)), "a whole number from 1")
SHARE = checked(lambda text: _must(0 <= float(text) <= 1, float(text)), "0 to 1")
FACTOR = checked(lambda text: _must(float(text) >= 0, float(text)), "a number from 0")


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """With defaults, where there is one."""

    def _get_help_string(self, action):
        return action.help if action.default in (None, False) else super()._get_help_string(action)


def add_what_is_measured(parser):
    parser.add_argument("--seed", type=COUNT, default=20260101, help="everything is drawn from it")
    parser.add_argument("--tasks", type=SOME, default=250, help="tasks for each way")
    parser.add_argument("--full", action="store_true", help="10,000 tasks through the sidecar, 1,000 in other ways")
    parser.add_argument("--ways", default="all", metavar="WAY,WAY", help=f"of {', '.join(WAYS)}, and those of --add")
    parser.add_argument("--budgets", type=SPAN, default="1500-8000", metavar="LEAST-MOST", help="tokens that an agent can be handed, drawn from this range")
    parser.add_argument("--needs", type=NUMBERS, default="1,6", metavar="N,N", help="earlier items that each agent needs; a column for each number")
    parser.add_argument("--loss", type=LOSS, default="0.1",
                        help="share that a summary leaves out at each handoff, or 'published' (see docs/proof.md)")
    parser.add_argument("--talk", type=NUMBERS, default="1000,4000", metavar="N,N", help="tokens that an agent adds to a transcript; a row for each")
    parser.add_argument("--retries", type=COUNT, default=3, help="of all ways but the plain summary")


def add_what_goes_wrong(parser):
    parser.add_argument("--faults", type=FACTOR, default=1.0, help="faults, as a multiple of those of faults.py; 0: none")
    parser.add_argument("--forgets", type=SHARE, default=faults.FORGETS,
                        help="share of handoffs before which the spine loses one memory of the task; times --faults")
    parser.add_argument("--kill-every", type=FACTOR, default=5.0, help="seconds between kills of the sidecar, on average; 0: never")
    parser.add_argument("--spine", choices=["http", "embedded"], default="http",
                        help="where memories are: in a second sidecar, which can be gone, or in the one that hands off")
    parser.add_argument("--spine-gone-every", type=FACTOR, default=10.0, help="seconds between kills of an HTTP spine, on average; 0: never")
    parser.add_argument("--spine-gone-for", type=FACTOR, default=1.0, help="seconds until it is started again")
    parser.add_argument("--other-tasks", type=COUNT, default=200, help="tasks whose memories are in the store as well")


def add_what_is_run(parser):
    parser.add_argument("--service", metavar="URL", help="an HTTP service that hands on: proof/service.py says what it gets")
    parser.add_argument("--service-fetch", metavar="URL", help="where that service has the memory {id}")
    parser.add_argument("--service-wait", type=FACTOR, default=10.0, help="seconds until what it hands on has arrived")
    parser.add_argument("--add", type=pathlib.Path, metavar="FILE", help="Python file with more ways or faults")
    parser.add_argument("--at-once", type=SOME, default=16, help="tasks under way at the same time")
    parser.add_argument("--exporter", type=pathlib.Path, default=TOP / "build/release/exporter/handoff-exporter",
                        help="the sidecar's program")
    parser.add_argument("--out", type=pathlib.Path, default=TOP / "build/proof", help="where the page goes")
    parser.add_argument("--write-tasks", type=pathlib.Path, metavar="FILE",
                        help="write the tasks as lines of JSON, and do nothing else")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./scripts/proof", description=__doc__.splitlines()[0],
                                     formatter_class=Help)
    add_what_is_measured(parser)
    add_what_goes_wrong(parser)
    add_what_is_run(parser)
    options = parser.parse_args(arguments)
    if options.add:
        sys.modules.setdefault("proof", sys.modules[__name__])   # what is run as a program can be imported by its name
        runpy.run_path(str(options.add))
    everything = [name for name in WAYS if name != "service" or options.service]
    options.ways = everything if options.ways == "all" else options.ways.split(",")
    unknown = [name for name in options.ways if name not in WAYS]
    if unknown:
        parser.error(f"--ways: {unknown[0]} is none of {', '.join(WAYS)}")
    if "service" in options.ways and not options.service:
        parser.error("--ways: service needs its address, --service URL")
    if options.needs[-1] > tasks.most_needs():
        parser.error(f"--needs: at most {tasks.most_needs()}, which is what the first handoff carries")
    options.shape = tasks.Shape(options.budgets, options.needs[-1])
    return options


def count_for(kind, options):
    if not options.full:
        return options.tasks
    return 10000 if is_ours(kind) else 1000


def main(arguments=None):
    options = parse(arguments)
    if options.write_tasks:
        lines = (tasks.line(tasks.make(options.seed, number, options.shape)) + "\n" for number in range(options.tasks))
        options.write_tasks.write_text("".join(lines), encoding="utf-8")
        return 0
    try:
        results = [run_way(name, kind, count_for(kind, options), options) for name, kind in rows(options)]
    except ways.NotMeasured as error:
        print(f"./scripts/proof: {error}", file=sys.stderr)
        return 2
    report.show(results, options)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "proof.json").write_text(json.dumps(report.document(results, options), indent=1), encoding="utf-8")
    report.write_page(results, options)
    print(f"\n{options.out / 'index.html'} and proof.json beside it have all of it.")
    return 1 if any(goal.verdict == goals.MISSED for goal in goals.check(results, options.needs)) else 0


if __name__ == "__main__":
    sys.exit(main())
