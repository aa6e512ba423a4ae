#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Publications of 8 KiB to 1, 10 and 100 receivers, beside single handoffs, NATS JetStream and Redis streams.

    bench_channels.py [--rounds N] [--seconds S] [--receivers N,N] [--connections N] [--rivals NAME,NAME]
                      [--beside BUILD_DIR] [--only-backlog] [--behind N] [--json FILE]

A publisher sends the next publication when all receivers have acknowledged the one before. There are as many publishers as
connections, and with many receivers fewer, so that at most ten deliveries for each connection are in progress. Our load is wrk, our receivers are nginx, which acknowledges by header. NATS and Redis get the same
bodies from one connection that has as many publications in progress, and their receivers consume over connections that
stay open, in one Python process (streams.py). Each has durable consumers, one for each receiver, and is as durable as
the table says; ours is synced to disk before the first delivery, and an acknowledgement before the publisher is told.

At last, 1,000 publications to ten receivers that are unavailable: the memory that each of the 10,000 deliveries takes in addition
to its share of the envelope, before and after a restart (goal: 512 bytes), and with that share, since what waits long is in the
store alone. And the CPU of a poll with its acknowledgement where most of what waits is in the store, to that where all of
it is in memory.

And 10,000 publications (--behind) that an agent catches up
with, by four connections that poll and acknowledge, while others get a publication each 10 ms: how long these wait for the
acknowledgement of theirs, as a ratio to the same before and after.

What is counted are deliveries that were acknowledged. The rivals take turns, and a ratio is the median over rounds of
those to the single handoffs of the same round. Exits with 1 if a goal is missed: at one receiver as many deliveries as
single handoffs, at 10 and more 1.5 times as many. The stores are under $TMPDIR or /tmp, which should be a real disk.
"""

import argparse
import concurrent.futures
import http.client
import itertools
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time

import load
from harness.agents import daemon_with
from rivals import Nginx, Ours, memory_bytes
from streams import Nats, Redis

GOALS = {1: 1.0, 10: 1.5, 100: 1.5}
BACKLOG_GOAL = 512  # bytes
CATCH_UP_GOAL = 1.05  # times the CPU of what is in memory
POLLERS, FEW, BEHIND = (1, 8), 48, 960  # handoffs that wait: all of them in memory, and most of them rows
STREAMS = {"nats": Nats, "redis": Redis}
SINGLE, CHANNEL = "single", "channel"
OURS = "synced before it is delivered, and before an acknowledgement is told"
NAMES = {SINGLE: "ours, single handoffs", CHANNEL: "ours, a channel", "nats": Nats.NAME, "redis": Redis.NAME}
DURABILITY = {SINGLE: OURS, CHANNEL: OURS, "nats": Nats.DURABILITY, "redis": Redis.DURABILITY}
AWAY, WAITING = 10, 1000  # receivers, and publications that wait for each
PULLERS, PAUSE, QUIET = 4, 0.01, 5  # of the one that catches up; seconds between publications, and of them beside nothing
TASKS = itertools.count()
WAIT = 30  # seconds in which all receivers have acknowledged


def publication(number):
    """The same request, for a channel."""
    request = json.loads(load.handoff(number))
    del request["target_agent"]
    return json.dumps({"request": request})


class Channel(Ours):
    """The daemon, with a channel whose receivers are all behind nginx."""

    def __init__(self, nginx, receivers, program):
        agents = {f"receiver-{n}": {"url": f"{nginx.url}/{n}", "token_budget": 1000000} for n in range(receivers)}
        agents["coder"] = {"url": nginx.url, "token_budget": 1000000}
        super().__init__("full", None, program=program, sections={
            "agents": agents, "channels": {"news": {"receivers": [name for name in agents if name != "coder"]}}})

    @property
    def url(self):
        return f"{self.api.url}/v1/channels/news/publish"


def publishers(receivers, options):
    return max(1, min(options.connections, 10 * options.connections // max(receivers, 1)))


def measure_ours(nginx, bodies, receivers, options):
    """receivers 0: single handoffs"""
    program = options.beside and str(pathlib.Path(options.beside) / "exporter" / "handoff-exporter")
    server = Channel(nginx, receivers, program) if receivers else Ours("full", nginx.url, program=program)
    with server as daemon:
        told = load.wrk(daemon, bodies, publishers(receivers, options), options.seconds, wait_s=WAIT)
        acknowledged = daemon.counter("handoff_handoffs_total", outcome="acknowledged")
        turn = daemon.longest_turn_ms()
    deliveries = told["requests"] * max(receivers, 1)
    if told["errors"] or acknowledged < deliveries:
        raise SystemExit(f"{told['errors']} requests failed; {acknowledged:.0f} of {deliveries} were acknowledged")
    return {"per_second": told["per_second"] * max(receivers, 1), "cpu_us": told["cpu_us"] / max(receivers, 1),
            "turn_ms": turn}


def run_one(name, nginx, bodies, receivers, options):
    if name in STREAMS:
        with STREAMS[name](receivers) as streams:
            return streams.run(bodies[SINGLE].read_bytes().splitlines(), publishers(receivers, options),
                               options.seconds)
    return measure_ours(nginx, bodies[name], receivers if name == CHANNEL else 0, options)


def take_turns(nginx, bodies, receivers, options):
    runs = {name: [] for name in options.rivals}
    for number in range(options.rounds):
        for name in options.rivals if number % 2 == 0 else reversed(options.rivals):
            runs[name].append(run_one(name, nginx, bodies, receivers, options))
    return runs


def summarize(runs):
    summary = {}
    for name, found in runs.items():
        summary[name] = load.median_of(found)
        summary[name]["ratio"] = statistics.median(
            one["per_second"] / single["per_second"] for one, single in zip(found, runs[SINGLE]))
    return summary


def print_table(receivers, summary):
    print(f"\n{receivers} receiver{'s' if receivers > 1 else ''}\n")
    print("| | deliveries acknowledged/s | to single handoffs | CPU us each | longest turn ms | durability |")
    print("|---|---|---|---|---|---|")
    for name, row in summary.items():
        turn = f"{row['turn_ms']:.1f}" if "turn_ms" in row else ""
        print(f"| {NAMES[name]} | {row['per_second']:,.0f} | {row['ratio']:.2f} | {row['cpu_us']:.0f} | {turn} |"
              f" {DURABILITY[name]} |", flush=True)


def bytes_waiting(daemon, before, publications):
    """Beyond the share of the envelope; a daemon that keeps no envelopes takes less than nothing."""
    return (memory_bytes(daemon.process.pid) - before) / (AWAY * publications) - load.BODY / AWAY


def publish_to_the_absent(daemon, count=WAITING):
    connection = http.client.HTTPConnection(daemon.api.address, timeout=WAIT)
    for number in range(count):
        body = load.of_task(publication(number % load.BODIES), next(TASKS))
        connection.request("POST", "/v1/channels/news/publish", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 202:
            raise SystemExit(f"answered {answer.status}: {answer.read()[:200]}")
        answer.read()
    connection.close()


def measure_backlog():
    agents = {f"receiver-{n}": {"token_budget": 1000000} for n in range(AWAY)}
    with daemon_with(agents, channels={"news": {"receivers": list(agents)}}) as daemon:
        idle = memory_bytes(daemon.process.pid)
        publish_to_the_absent(daemon)  # so that what a daemon needs at all is there
        base = memory_bytes(daemon.process.pid)
        publish_to_the_absent(daemon)
        found = {"new": bytes_waiting(daemon, base, WAITING)}
        daemon.terminate()
        daemon.wait()
        daemon.log_path.write_text("")
        daemon.start()
        found["restarted"] = bytes_waiting(daemon, idle, 2 * WAITING)
    share = load.BODY / AWAY
    print(f"\n{AWAY * WAITING:,} deliveries that wait: {found['new']:,.0f} bytes each in addition to the share of the envelope,"
          f" {found['restarted']:,.0f} after a restart (goal: {BACKLOG_GOAL}); with that share, {found['new'] + share:,.0f} and"
          f" {found['restarted'] + share:,.0f}", flush=True)
    return found


# ---- what it costs to catch up ----------------------------------------------------------------------------------------


def cpu_ns(daemon):
    """Of all its threads; to the nanosecond, where the process counts in ticks."""
    tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)


def send_many(daemon, count):
    connection = http.client.HTTPConnection(daemon.api.address, timeout=WAIT)
    for number in range(count):
        body = load.of_task(load.handoff(number % load.BODIES), number)
        connection.request("POST", "/v1/handoffs", body, {"Content-Type": "application/json", "Prefer": "respond-async"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 202:
            raise SystemExit(f"answered {answer.status}")
    connection.close()


def pull_and_acknowledge(connection, count):
    for _ in range(count):
        connection.request("GET", "/v1/agents/coder/inbox?wait=20s")
        answer = connection.getresponse()
        answer.read()
        handoff = answer.getheader("Handoff-Id")
        connection.request("POST", f"/v1/handoffs/{handoff}/ack", b"", {"Content-Length": "0"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"answered {answer.status}")


def drain_us(daemon, count, connections):
    """CPU of the daemon for each poll and its acknowledgement."""
    before = cpu_ns(daemon)
    with concurrent.futures.ThreadPoolExecutor(len(connections)) as pool:
        for done in [pool.submit(pull_and_acknowledge, one, count // len(connections)) for one in connections]:
            done.result()
    return (cpu_ns(daemon) - before) / 1000 / count


def measure_catching_up(rounds):
    """As many handoffs in all, a few at a time, which are in memory, and all at once, of which most are rows."""
    found = {}
    for pollers in POLLERS:
        few, many = [], []
        with daemon_with({"coder": {"token_budget": 1000000}}) as daemon:
            connections = [http.client.HTTPConnection(daemon.api.address, timeout=WAIT) for _ in range(pollers)]
            for _ in range(rounds):
                total = 0
                for _ in range(BEHIND // FEW):
                    send_many(daemon, FEW)
                    total += drain_us(daemon, FEW, connections) * FEW
                few.append(total / BEHIND)
                send_many(daemon, BEHIND)
                many.append(drain_us(daemon, BEHIND, connections))
            for connection in connections:
                connection.close()
        ratio = statistics.median(b / a for a, b in zip(few, many))
        found[pollers] = {"memory_us": statistics.median(few), "rows_us": statistics.median(many), "ratio": ratio}
        print(f"{pollers} poller{'s' if pollers > 1 else ''}: {found[pollers]['rows_us']:.0f} us of CPU for a poll and its"
              f" acknowledgement behind {BEHIND} others, {found[pollers]['memory_us']:.0f} behind {FEW}: {ratio:.3f}"
              f" (goal: {CATCH_UP_GOAL})", flush=True)
    return found


def pull(daemon, stop, acknowledged, failures):
    """All that waits in the inbox of the agent that catches up, one after the other."""
    connection = http.client.HTTPConnection(daemon.api.address, timeout=WAIT)

    def call(method, path):
        connection.request(method, path)
        answer = connection.getresponse()
        answer.read()
        return answer

    try:
        while not stop.is_set() and (answer := call("GET", "/v1/agents/away/inbox")).status == 200:
            acked = call("POST", f"/v1/handoffs/{answer.headers['Handoff-Id']}/ack")
            if acked.status != 200:
                raise RuntimeError(f"answered {acked.status}")
            acknowledged.append(time.monotonic())
    except Exception as failure:  # pylint: disable=broad-except
        failures.append(failure)
    finally:
        connection.close()


def latencies(daemon, goes_on):
    """Of publications to the other receiver, every 10 ms: until it has acknowledged, in milliseconds."""
    connection = http.client.HTTPConnection(daemon.api.address, timeout=WAIT)
    headers = {"Content-Type": "application/json", "Prefer": f"wait={WAIT}"}
    found = []
    while goes_on():
        request = json.loads(publication(len(found) % load.BODIES))
        body = load.of_task(json.dumps({**request, "receivers": ["here"]}), next(TASKS))
        begun = time.perf_counter()
        connection.request("POST", "/v1/channels/news/publish", body, headers)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        if [one["state"] for one in told["deliveries"]] != ["acknowledged"]:
            raise SystemExit(f"answered {answer.status}: {told}")
        found.append(1000 * (time.perf_counter() - begun))
        time.sleep(PAUSE)
    connection.close()
    return found


def quiet_latencies(daemon):
    until = time.monotonic() + QUIET
    return latencies(daemon, lambda: time.monotonic() < until)


def catch_up_beside(daemon, count):
    """The latencies meanwhile, and how many the one that catches up acknowledged in a second."""
    stop, acknowledged, failures = threading.Event(), [], []
    pullers = [threading.Thread(target=pull, args=(daemon, stop, acknowledged, failures)) for _ in range(PULLERS)]
    begun = time.monotonic()
    for puller in pullers:
        puller.start()
    try:
        found = latencies(daemon, lambda: any(puller.is_alive() for puller in pullers))
    finally:
        stop.set()
        for puller in pullers:
            puller.join()
    if failures or len(acknowledged) < count:
        raise SystemExit(f"{len(acknowledged)} of {count} were acknowledged; {failures}")
    return found, len(acknowledged) / (max(acknowledged) - begun)


def share_of(times, share):
    return sorted(times)[int(len(times) * share)]


def measure_behind(nginx, count, program):
    """What others wait while one catches up, to what they wait otherwise."""
    agents = {"here": {"url": nginx.url, "token_budget": 1000000}, "away": {"token_budget": 1000000}}
    with Ours("full", None, program=program, sections={
            "agents": agents, "channels": {"news": {"receivers": list(agents)}}}) as daemon:
        quiet_latencies(daemon)  # until all is warm
        publish_to_the_absent(daemon, count)
        before = quiet_latencies(daemon)
        beside, rate = catch_up_beside(daemon, count)
        quiet = before + quiet_latencies(daemon)
    found = {"caught_up_per_second": rate}
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        found[name] = {"ms": share_of(beside, share), "otherwise_ms": share_of(quiet, share)}
        found[name]["ratio"] = found[name]["ms"] / found[name]["otherwise_ms"]
    print(f"\none catches up with {count:,}, {rate:,.0f}/s; others until theirs is acknowledged: "
          + ", ".join(f"{name} {found[name]['ms']:.1f} ms, {found[name]['ratio']:.2f} of otherwise"
                      for name in ("p50", "p99")), flush=True)
    return found


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--receivers", default="1,10,100", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--rivals", default=",".join(NAMES), type=lambda text: text.split(","))
    parser.add_argument("--beside", metavar="BUILD_DIR", help="measure the daemon of this build tree")
    parser.add_argument("--only-backlog", action="store_true")
    parser.add_argument("--behind", type=int, default=10000, help="publications that one catches up with; 0: none")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.only_backlog:
        options.receivers = []
    options.rivals = [SINGLE, *(name for name in options.rivals if name != SINGLE)]
    return options


def main():
    options = parse_options()
    result = {"machine": load.machine(), "rounds": options.rounds, "receivers": {}}
    print(f"{result['machine']}; {options.rounds} rounds of {options.seconds} s, {options.connections} connections")
    missed = []
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder, Nginx() as nginx:
        bodies = {SINGLE: load.write_bodies(folder), CHANNEL: load.write_bodies(folder, publication)}
        for receivers in options.receivers:
            summary = summarize(take_turns(nginx, bodies, receivers, options))
            print_table(receivers, summary)
            result["receivers"][receivers] = summary
            goal = GOALS.get(receivers, 1.5)
            if CHANNEL in summary and summary[CHANNEL]["ratio"] < goal:
                missed.append(f"{receivers} receivers: {summary[CHANNEL]['ratio']:.2f} of {goal}")
        if options.behind:
            program = options.beside and str(pathlib.Path(options.beside) / "exporter" / "handoff-exporter")
            result["behind"] = measure_behind(nginx, options.behind, program)
    result["backlog"] = measure_backlog()
    missed += [f"{name} backlog: {found:,.0f} bytes of {BACKLOG_GOAL}" for name, found in result["backlog"].items()
               if found > BACKLOG_GOAL]
    result["catching_up"] = measure_catching_up(options.rounds)
    missed += [f"catching up, {pollers} pollers: {found['ratio']:.3f} of {CATCH_UP_GOAL}"
               for pollers, found in result["catching_up"].items() if found["ratio"] > CATCH_UP_GOAL]
    print("\n" + ("goals missed: " + "; ".join(missed) if missed else "all goals met"))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
