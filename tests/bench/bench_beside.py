#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others notice of one long request.

    bench_beside.py [--seconds N] [--rounds N] [--json FILE]

A client asks for a small answer over and over, on the only API thread of the daemon, first alone and
then while another sends one of the requests that take long. The table has the client's p50 and p99, and
their ratio to its own alone in the same round: alone and beside take turns, so that a noisy machine does
both the same harm. Then how long the long request took, and how it was answered.
"""

import argparse
import json
import multiprocessing
import os
import random
import socket
import statistics
import time

from harness import Daemon
from harness.agents import Caller, config

PAUSES = (0.0002, 0.02)  # seconds between two small requests, and between two long ones
WHOLE = 3_900_000  # bytes of a body that is nearly as large as may be


def word(length, seed=1):
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=length))


def request(method, path, body=None, **headers):
    body = json.dumps(body).encode() if body is not None else b""
    head = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def handoff(target="reader", **fields):
    return request("POST", "/v1/handoffs",
                   {"source_agent": "analyst", "target_agent": target, "task_summary": "s", **fields},
                   prefer="respond-async")


def exchange(client, data):
    """Sends a request and reads its whole answer; the status."""
    client.sendall(data)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += client.recv(65536)
    head, rest = answer.split(b"\r\n\r\n", 1)
    length = int(next(line.split(b":")[1] for line in head.split(b"\r\n")
                      if line.lower().startswith(b"content-length")))
    left = length - len(rest)
    while left > 0:
        left -= len(client.recv(min(left, 1 << 20)))
    return int(head.split(b" ")[1])


def repeat(address, data, pause, stop, results):
    """In a separate process: the same request until it is told to stop; the seconds that each took."""
    client = socket.create_connection(address)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times, statuses = [], set()
    while not stop.is_set():
        began = time.perf_counter()
        statuses.add(exchange(client, data))
        times.append(time.perf_counter() - began)
        time.sleep(pause)
    results.put((times, statuses))


def measure(address, requests, seconds):
    """The times and statuses of each of these requests, all repeated at once."""
    stop, results = multiprocessing.Event(), [multiprocessing.Queue() for _ in requests]
    processes = [multiprocessing.Process(target=repeat, args=(address, data, pause, stop, result))
                 for data, pause, result in zip(requests, PAUSES, results)]
    for process in processes:
        process.start()
    time.sleep(seconds)
    stop.set()
    answers = [result.get() for result in results]
    for process in processes:
        process.join()
    return answers


def percentile(times, share):
    return sorted(times)[int(len(times) * share)] * 1000


def prepare(caller):
    """The long requests by name; what they refer to is stored before."""
    for i in range(400):
        caller.call("PUT", f"/v1/memories/m{i}", {"content": word(40_000, i)})
    steps = [{"agent": "analyst", "action": word(3_800, i)} for i in range(1000)]
    parent = caller.send("reader", {"prefer": "respond-async"}, execution_history=steps).json()["id"]
    text = ("The bank retries a payment three times. " * 100_000)[:WHOLE]
    ids = [f"m{i}" for i in range(400)]
    return {
        "a word of 4 MB": handoff(state={"word": word(WHOLE)}),
        "prose of 4 MB": handoff(state={"text": text}),
        "4 MB of small objects": handoff(state={"list": [{"k": i} for i in range(200_000)]}),
        "400 memories of 40 KB": handoff(memory_ids=ids, strategy="full"),
        "the same, to be trimmed": handoff("coder", memory_ids=ids),
        "1,000 inherited steps": handoff(previous_id=parent),
        "an envelope of 4 MB, read": request("GET", f"/v1/handoffs/{parent}/envelope"),
        "the same as a brief": request("GET", f"/v1/handoffs/{parent}/envelope", accept="text/markdown"),
        "a memory of 250 KB, put": request("PUT", "/v1/memories/large",
                                           {"content": word(250_000), "summary": "s"}),
        "1,000 observations": request("POST", "/v1/observations", {"items": [
            {"id": f"o{i}", "source_agent": "analyst", "target_agent": "coder",
             "outcome": "acknowledged"} for i in range(1000)]}),
        "a page of 400 memories": request("GET", "/v1/memories?limit=400"),
    }


def start():
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})  # one processor: one API thread
    try:
        daemon = Daemon(config=config({"coder": {}, "reader": {"token_budget": 10_000_000}}))
    finally:
        os.sched_setaffinity(0, own)
    for thread in os.listdir(f"/proc/{daemon.process.pid}/task"):
        os.sched_setaffinity(int(thread), own)
    return daemon


def compare(address, long, options):
    """Medians of the rounds."""
    small = request("GET", "/v1/agents")
    rounds, answers = [], set()
    for _ in range(options.rounds):
        [(alone, _)] = measure(address, [small], options.seconds)
        (beside, _), (times, statuses) = measure(address, [small, long], options.seconds)
        rounds.append({"p50_ms": percentile(beside, .5), "p99_ms": percentile(beside, .99),
                       "max_ms": max(beside) * 1000, "p99_alone_ms": percentile(alone, .99),
                       "long_ms": statistics.median(times) * 1000})
        answers |= statuses
    return {**{key: statistics.median(row[key] for row in rounds) for key in rounds[0]},
            "answers": sorted(answers)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    table = []
    with start() as daemon:
        longs = prepare(Caller(daemon))
        address = (daemon.api.host, daemon.api.port)
        print(f"{'beside':28} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'p99 ratio':>10} {'long ms':>9}  answers",
              flush=True)
        for name, long in longs.items():
            row = compare(address, long, options)
            table.append({"beside": name, **row})
            print(f"{name:28} {row['p50_ms']:8.2f} {row['p99_ms']:8.2f} {row['max_ms']:8.2f}"
                  f" {row['p99_ms'] / row['p99_alone_ms']:10.1f} {row['long_ms']:9.1f}  {row['answers']}",
                  flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()
