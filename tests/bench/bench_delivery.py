#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A handoff of 8 KiB from an agent through the sidecar to another agent and back, under load.

    bench_delivery.py [--rounds N] [--seconds S] [--connections N,N] [--rivals NAME,NAME]
                      [--beside BUILD_DIR]... [--memories N] [--only-throughput | --only-found]
                      [--json FILE]

The receiver is nginx, the load is wrk with one thread, and they take turns in every round: nginx by
itself, HAProxy in front of it, our daemon with durability full and none. HAProxy only forwards; ours
also reads the request, assembles the envelope, counts its tokens, stores it and matches the
acknowledgement. Ratios to HAProxy are made within a round and their median is told, because the
absolute figures move with the machine. Every request must be answered 200, and every handoff that
ours answered for must be counted as acknowledged.

--beside names another build tree, such as /path/to/other/build/release, whose daemon takes turns with
ours; ratios to it are made within a round, too.

Then, at one connection: what a handoff takes longer than the POST it carries, beside what one
fdatasync takes on the same disk. And the tail at equal load: half of what ours can take, for HAProxy
and for us.

Then the request of the specification, in turn with the plain one, of the same size, in front of a
store with 100,000 memories: 20 that are found for 20 words and those of the intent, the pins, three
steps of the history. The store is under $TMPDIR or /tmp, which should be a real disk.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

import load
from rivals import DESCRIPTORS, Haproxy, Nginx, Ours

RIVALS = ("nginx", "haproxy", "full", "none")
NAMES = {"nginx": "nginx, no sidecar", "haproxy": "HAProxy", "full": "ours, durability full",
         "none": "ours, durability none"}
CONNECTED_IN_A_SECOND = 1000  # wrk's clock runs while it connects
PROGRAM = os.path.join("exporter", "handoff-exporter")
# each waiting handoff takes two descriptors of a sidecar: its sender's and its receiver's
CONNECTIONS_MAX = (DESCRIPTORS - 1000) // 2


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def beside(durability, build):
    """The rival that is another build of the daemon."""
    return f"{durability}, {build}"


def run_one(name, servers, bodies, connections, seconds, pause_ms=0):
    if name in servers:
        return load.wrk(servers[name], bodies, connections, seconds, pause_ms)
    durability, _, build = name.partition(", ")
    with Ours(durability, servers["nginx"].url, program=build and os.path.join(build, PROGRAM)) as daemon:
        told = load.wrk(daemon, bodies, connections, seconds, pause_ms)
        told["acknowledged"] = daemon.counter("handoff_handoffs_total", outcome="acknowledged")
        daemon.expected_exit = 0
    if told["acknowledged"] < told["requests"]:
        raise SystemExit(f"{told['requests']} were answered, but only {told['acknowledged']:.0f} "
                         "are counted as acknowledged")
    return told


def alternate(names, servers, bodies, options, connections, pause_ms=0):
    """Runs by rival, the same number of each, taking turns."""
    runs = {name: [] for name in names}
    seconds = options.seconds + connections // CONNECTED_IN_A_SECOND
    for number in range(options.rounds):
        for name in names if number % 2 == 0 else reversed(names):
            told = run_one(name, servers, bodies, connections, seconds, pause_ms)
            if told["errors"]:
                say(f"{NAMES.get(name, name)}: {told['errors']} of {told['requests']} requests failed")
            runs[name].append(told)
    return runs


def ratios(runs, name, number, peer="haproxy"):
    """Of each round in which the peer came to anything."""
    return [ours[number] / other[number] for ours, other in zip(runs[name], runs[peer])
            if other[number]]


def ratio(runs, name, number):
    """The median over rounds; 0 where the peer never came to anything."""
    return statistics.median(ratios(runs, name, number) or [0.0])


def summarize(runs):
    summary = {}
    for name, list_of_runs in runs.items():
        summary[name] = {key: value for key, value in load.median_of(list_of_runs).items()
                         if key != "acknowledged"}
        summary[name]["noise"] = load.spread_of([run["per_second"] for run in list_of_runs])
        summary[name]["errors"] = sum(run["errors"] for run in list_of_runs)
        if "haproxy" in runs:
            summary[name]["ratio"] = ratio(runs, name, "per_second")
            summary[name]["p99_ratio"] = ratio(runs, name, "p99_us")
    return summary


def print_table(title, summary):
    print(f"\n{title}\n")
    print("| | handoffs/s | noise | to HAProxy | p50 ms | p99 ms | p99 to HAProxy | CPU us each |"
          " failed |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, row in summary.items():
        print(f"| {NAMES.get(name, name)} | {row['per_second']:,.0f} | {row['noise']:.0%} |"
              f" {row.get('ratio', 0):.2f} | {row['p50_us'] / 1000:.2f} |"
              f" {row['p99_us'] / 1000:.2f} | {row.get('p99_ratio', 0):.2f} |"
              f" {row['cpu_us']:.0f} | {row['errors']:.0f} |", flush=True)


def compare_builds(runs, durability, build):
    """Ours by the other build: the median of the rounds' ratios, the least and the most."""
    compared = {}
    for number in ("per_second", "cpu_us"):
        found = ratios(runs, durability, number, beside(durability, build))
        compared[number] = (statistics.median(found), min(found), max(found))
    print("\ndurability {}, by {}: rate {:.3f} ({:.2f} to {:.2f}), CPU per handoff {:.3f} ({:.2f} to {:.2f})"
          .format(durability, build, *compared["per_second"], *compared["cpu_us"]), flush=True)
    return compared


def fdatasync_us():
    """The median of one write of 8 KiB with its fdatasync, appended to a file."""
    took = []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(500):
            begun = time.perf_counter()
            file.write(b"x" * load.BODY)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(took)


def at_one_connection(servers, bodies, options):
    runs = alternate(("nginx", "haproxy", "full", "none"), servers, bodies, options, 1)
    summary = summarize(runs)
    sync_us = fdatasync_us()
    print_table("1 connection", summary)
    gained = {name: statistics.median(ours["p50_us"] - direct["p50_us"] for ours, direct
                                      in zip(runs[name], runs["nginx"])) for name in
              ("haproxy", "full", "none")}
    print(f"\nA handoff takes longer than the POST it carries by {gained['full'] / 1000:.3f} ms"
          f" (durability full) and {gained['none'] / 1000:.3f} ms (none); HAProxy adds"
          f" {gained['haproxy'] / 1000:.3f} ms; one write and fdatasync takes"
          f" {sync_us / 1000:.3f} ms. Goal: 0.3 ms plus one fdatasync.")
    return {"runs": summary, "gained_us": gained, "fdatasync_us": sync_us}


def at_equal_load(servers, bodies, options, rate, connections=100):
    """Connections rest between requests, so that their sum is about the rate."""
    pause_ms = max(round(connections / rate * 1000), 1)
    runs = alternate(("haproxy", "full"), servers, bodies, options, connections, pause_ms)
    summary = summarize(runs)
    print_table(f"Equal load: {connections} connections that pause {pause_ms} ms", summary)
    return {"pause_ms": pause_ms, "runs": summary}


def found_and_plain(nginx, bodies, found, options, connections=100):
    """One daemon, with a full store, for all rounds."""
    runs = {"plain": [], "found": []}
    with Ours("full", nginx.url, sections={"spine": {"search_timeout": "10s"}}) as daemon:
        say(f"storing {options.memories:,} memories")
        load.fill(daemon.api, options.memories)
        for number in range(options.rounds):
            for name in sorted(runs, reverse=number % 2 == 1):
                runs[name].append(load.wrk(daemon, found if name == "found" else bodies, connections,
                                           options.seconds))
        if daemon.counter("handoff_spine_searches_cut_total") > 0:
            raise SystemExit("searches were cut, so what they cost was not measured")
    summary = {name: load.median_of(list_of_runs) for name, list_of_runs in runs.items()}
    compared = {number: statistics.median(ratios(runs, "found", number, "plain"))
                for number in ("per_second", "p99_us", "cpu_us")}
    print(f"\nThe specification's request, {options.memories:,} memories, {connections} connections\n")
    print("| | handoffs/s | p50 ms | p99 ms | CPU us each | failed |")
    print("|---|---|---|---|---|---|")
    for name, row in summary.items():
        print(f"| {name} | {row['per_second']:,.0f} | {row['p50_us'] / 1000:.2f} | {row['p99_us'] / 1000:.2f} |"
              f" {row['cpu_us']:.0f} | {sum(run['errors'] for run in runs[name]):.0f} |")
    print(f"\nFound to plain: rate {compared['per_second']:.2f} (goal: 0.25), p99 {compared['p99_us']:.1f} (goal: 3),"
          f" CPU {compared['cpu_us']:.1f}", flush=True)
    return {"runs": summary, "ratios": compared}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--connections", default="100,1000,10000",
                        type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--rivals", default=",".join(RIVALS), type=lambda text: text.split(","))
    parser.add_argument("--beside", metavar="BUILD_DIR", action="append", default=[])
    parser.add_argument("--memories", type=int, default=100000)
    parser.add_argument("--only-throughput", action="store_true")
    parser.add_argument("--only-found", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def main():
    options = parse_options()
    result = {"machine": load.machine(), "rounds": options.rounds, "seconds": options.seconds,
              "throughput": {}}
    print(f"{result['machine']}; {options.rounds} rounds of {options.seconds} s")
    others = {beside(durability, build): (durability, build) for build in options.beside
              for durability in ("full", "none") if durability in options.rivals}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="handoff-bench-"))
        bodies = load.write_bodies(folder)
        nginx = stack.enter_context(Nginx())
        found = load.write_bodies(folder, load.found_for)
        if options.only_found:
            options.connections, options.only_throughput = [], True
        servers = {"nginx": nginx, "haproxy": stack.enter_context(Haproxy(nginx))}
        for connections in options.connections:
            connections = min(connections, CONNECTIONS_MAX)
            runs = alternate([*options.rivals, *others], servers, bodies, options, connections)
            summary = summarize(runs)
            print_table(f"{connections} connections", summary)
            result["throughput"][connections] = summary
            for durability, build in others.values():
                summary[durability][build] = compare_builds(runs, durability, build)
        if not options.only_throughput:
            result["one"] = at_one_connection(servers, bodies, options)
            rate = result["throughput"][options.connections[0]]["full"]["per_second"] / 2
            result["equal_load"] = at_equal_load(servers, bodies, options, rate)
        if options.only_found or not options.only_throughput:
            result["found"] = found_and_plain(nginx, bodies, found, options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
