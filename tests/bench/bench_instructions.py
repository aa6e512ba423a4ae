#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""User-space instructions per handoff: one handoff of 8 KiB again and again, counted by callgrind.

    bench_instructions.py [--beside BUILD_DIR]... [--connections N,N] [--handoffs N] [--rounds N]
                          [--durability full|none] [--published] [--profile DIR] [--json FILE]

Counts do not depend on how busy the machine is, so a change of a few percent shows in a minute where
times would need an hour. Each build gets a new daemon under callgrind, in turns, with nginx as the
receiver, which acknowledges at once. A daemon is warmed up, then the counters are set to zero, the
handoffs are sent, each connection sending its next one when the last was answered, and the counters
are read. The kernel's work is not counted, and valgrind runs one thread at a time, so group commits
and turns of a loop are cut differently than under real load; for that there is bench_delivery.

--beside   a build tree to compare with, such as /path/to/other/build/release; the ratio is to the
           last one named
--published  publications to a channel with that one receiver, in place of single handoffs
--profile  keep callgrind's output there, for callgrind_annotate
"""

import argparse
import http.client
import itertools
import json
import os
import pathlib
import queue
import re
import statistics
import subprocess
import sys
import tempfile
import threading

import load
from rivals import Nginx, Ours

SELF = os.environ["HANDOFF_BINARY_DIR"]
numbers = itertools.count()  # of tasks
WARM_UP = 50  # handoffs for each connection to begin with, at least this many in all
ANSWER_SECONDS = 120
HEADERS = {"Content-Type": "application/json", "Prefer": f"wait={ANSWER_SECONDS}"}
SINGLE, PUBLICATION = "/v1/handoffs", "/v1/channels/news/publish"


def callgrind(folder):
    return ["valgrind", "--tool=callgrind", "--fair-sched=yes", "--quiet",
            f"--callgrind-out-file={folder}/callgrind.out"]


def control(daemon, action):
    subprocess.run(["callgrind_control", action, str(daemon.pid)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def total(path):
    """The instructions in one dump."""
    found = re.search(r"^(?:summary|totals): (\d+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{path} has no total"
    return int(found.group(1))


def send(connection, path, body, tickets):
    """Hands off while there are tickets, over one connection that stays open."""
    while True:
        try:
            number = tickets.get_nowait()
        except queue.Empty:
            return
        connection.request("POST", path, load.of_task(body, number), HEADERS)
        answer = connection.getresponse()
        told = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"answered {answer.status}: {told[:200]}")


def send_all(open_connections, path, body, count):
    """Sends `count` handoffs over all of the connections at once; every one is answered 200."""
    tickets, failures = queue.SimpleQueue(), []
    for _ in range(count):
        tickets.put(next(numbers))

    def run(connection):
        try:
            send(connection, path, body, tickets)
        except Exception as failure:  # pylint: disable=broad-except
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(each,)) for each in open_connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def connect(daemon, count):
    return [http.client.HTTPConnection(daemon.api.host, daemon.api.port, timeout=ANSWER_SECONDS)
            for _ in range(count)]


def published(body):
    """The same request, to a channel."""
    request = json.loads(body)
    del request["target_agent"]
    return json.dumps({"request": request})


def count_once(build, receiver, connections, options):
    """Instructions per handoff, or publication, of one new daemon."""
    path, body, sections = SINGLE, load.handoff(0), {}
    if options.published:
        path, body = PUBLICATION, published(body)
        sections = {"channels": {"news": {"receivers": ["coder"]}}}
    program = str(pathlib.Path(build) / "exporter" / "handoff-exporter")
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        with Ours(options.durability, receiver.url, program=program,
                  wrapper=callgrind(folder), sections=sections) as daemon:
            senders = connect(daemon, connections)
            send_all(senders, path, body, max(WARM_UP, 2 * connections))
            control(daemon, "--zero")
            send_all(senders, path, body, options.handoffs)
            control(daemon, "--dump")
            dump = pathlib.Path(folder) / "callgrind.out.1"
            instructions = total(dump)
            if options.profile:
                options.profile.mkdir(parents=True, exist_ok=True)
                name = str(pathlib.Path(build).resolve()).strip("/").replace("/", "-")
                dump.rename(options.profile / f"{name}.{connections}")
            for sender in senders:
                sender.close()
    return instructions / options.handoffs


def measure(builds, receiver, connections, options):
    """Counts by build, the same number of each, in turns."""
    counts = {build: [] for build in builds}
    for number in range(options.rounds):
        for build in builds:
            counts[build].append(count_once(build, receiver, connections, options))
            print(f"{connections} connections, round {number + 1}, {build}:"
                  f" {counts[build][-1]:,.0f}", file=sys.stderr, flush=True)
    return counts


def print_table(connections, counts):
    print(f"\n{connections} connection{'s' if connections > 1 else ''}\n")
    print("| build | instructions per handoff | least | most | ratio |")
    print("|---|---|---|---|---|")
    reference = statistics.median(list(counts.values())[-1])
    for build, found in counts.items():
        middle = statistics.median(found)
        print(f"| {build} | {middle:,.0f} | {min(found):,.0f} | {max(found):,.0f} |"
              f" {middle / reference:.3f} |", flush=True)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", metavar="BUILD_DIR", action="append", default=[])
    parser.add_argument("--connections", default="1,100",
                        type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--handoffs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--durability", choices=("full", "none"), default="none")
    parser.add_argument("--published", action="store_true")
    parser.add_argument("--profile", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def main():
    options = parse_options()
    result = {"handoffs": options.handoffs, "durability": options.durability, "counts": {}}
    with Nginx() as receiver:
        for connections in options.connections:
            counts = measure([SELF, *options.beside], receiver, connections, options)
            print_table(connections, counts)
            result["counts"][connections] = counts
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
