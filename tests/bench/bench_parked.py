# SPDX-License-Identifier: Apache-2.0
"""Reading what is parked: ten thousand handoffs listed, searched and grouped, beside a call that reads nothing.

    tests/bench/bench_parked.py [--handoffs 10000]

Handoffs are parked through the API, for eight agents and forty reasons. Each call is made over one connection, and its
median is shown with that of GET /v1/agents, which reads memory only: the difference is what the server spends on it.
"""

import argparse
import concurrent.futures
import os
import pathlib
import statistics
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/scenario"))
os.environ.setdefault("HANDOFF_EXPORTER", str(TOP / "build/release/exporter/handoff-exporter"))
os.environ.setdefault("HANDOFF_SOURCE_DIR", str(TOP))

from harness.agents import Caller, daemon_with  # noqa: E402

AGENTS = [f"agent-{number}" for number in range(8)]
CALLS = {"nothing is read": "/v1/agents",
         "the first page": "/v1/parked?limit=50",
         "the newest": "/v1/parked?order=newest&limit=50",
         "the last page": "/v1/parked?limit=50&cursor={behind}",
         "words that many have": "/v1/parked?query=invoice%20payment&limit=50",
         "words that none has": "/v1/parked?query=invoice%20zeppelin&limit=50",
         "groups": "/v1/parked/groups?limit=50",
         "groups of what has a word": "/v1/parked/groups?query=invoice&limit=50"}


def park(caller, number):
    reply = caller.call("POST", "/v1/parked", {
        "reason": f"cause {number % 40} of the outage",
        "request": {"source_agent": "analyst", "target_agent": AGENTS[number % 8], "task_id": f"task-{number}",
                    "task_summary": f"Write the invoice number {number}, and tell the payment service about it"}})
    assert reply.status == 200, reply


def median_ms(caller, path, times):
    took = []
    for _ in range(times):
        began = time.perf_counter()
        reply = caller.call("GET", path)
        took.append((time.perf_counter() - began) * 1000)
        assert reply.status == 200, reply
    return statistics.median(took)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--handoffs", type=int, default=10000)
    count = parser.parse_args().handoffs
    with daemon_with({name: {} for name in AGENTS}, storage={"durability": "none"}) as daemon:
        caller = Caller(daemon)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: park(caller, number), range(count)))
        base = None
        for name, path in CALLS.items():
            took = median_ms(caller, path.format(behind=count - 51), 21)
            base = base or took
            print(f"{name:28} {took:8.2f} ms   {took - base:8.2f} ms more", flush=True)


if __name__ == "__main__":
    main()
