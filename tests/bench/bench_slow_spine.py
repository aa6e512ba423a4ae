#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What handoffs that need no memory notice of a thousand that wait for a slow spine.

    bench_slow_spine.py [--seconds N] [--rounds N] [--waiting N] [--delay SECONDS]

A spine answers each call after a second. A client sends small handoffs without memories, first alone and then while a
thousand handoffs with a memory are in flight, each sent again when it was accepted: alone and beside take turns. Printed are
the client's p50 and p99, the ratio of the p99s in the same round, and how many of the others were in flight, how long they
took and how many came without their memory.
"""

import argparse
import asyncio
import json
import multiprocessing
import pathlib
import re
import statistics
import tempfile
import time

from bench_beside import handoff, measure, percentile
from harness import Daemon
from harness.agents import config

GOAL = 1.5
TABLE = {"operations": {"get": {"method": "GET", "path": "/facts/{id}"}}}
MISSING = re.compile(r'^handoff_memory_refs_total\{target_agent="coder",outcome="(\w+)"\} (\d+)', re.MULTILINE)


async def answer_slowly(reader, writer, delay):
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            name = head.split(b" ", 2)[1].rpartition(b"/")[2].decode()
            await asyncio.sleep(delay)
            body = json.dumps({"id": name, "content": "a fact"}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def serve(delay, told):
    async def run():
        server = await asyncio.start_server(lambda r, w: answer_slowly(r, w, delay), "127.0.0.1", 0, backlog=1024)
        told.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()
    asyncio.run(run())


async def send_again(address, number, stop, times):
    reader, writer = await asyncio.open_connection(*address)
    data = handoff("coder", memory_ids=[f"ms-{number}"])
    while not stop.is_set():
        began = time.perf_counter()
        writer.write(data)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
        assert head.startswith(b"HTTP/1.1 202"), head
        times.append(time.perf_counter() - began)
    writer.close()


def send_many(address, count, stop, ready, results):
    """In a separate process: keeps that many handoffs in flight."""
    times = []

    async def run():
        senders = [asyncio.create_task(send_again(address, i, stop, times)) for i in range(count)]
        while len(times) < count and not stop.is_set():
            await asyncio.sleep(0.05)
        ready.set()
        await asyncio.gather(*senders)
    asyncio.run(run())
    results.put(times)


class Waiting:
    """Handoffs in flight, while it is entered."""

    def __init__(self, address, count):
        self.stop, self.ready, self.results = multiprocessing.Event(), multiprocessing.Event(), multiprocessing.Queue()
        self.process = multiprocessing.Process(target=send_many, args=(address, count, self.stop, self.ready, self.results))

    def __enter__(self):
        self.process.start()
        self.ready.wait()
        return self

    def __exit__(self, kind, value, traceback):
        self.stop.set()
        self.times = self.results.get()
        self.process.join()


def sent(address, small, seconds):
    [(times, statuses)] = measure(address, [small], seconds)
    assert statuses == {202}, statuses
    return times


def compare(address, options):
    small, rounds, waited = handoff(), [], []
    for _ in range(options.rounds):
        alone = sent(address, small, options.seconds)
        with Waiting(address, options.waiting) as waiting:
            beside = sent(address, small, options.seconds)
        waited += waiting.times
        row = {"p50_alone": percentile(alone, .5), "p99_alone": percentile(alone, .99), "p50": percentile(beside, .5),
               "p99": percentile(beside, .99), "handoffs": len(beside)}
        rounds.append({**row, "ratio": row["p99"] / row["p99_alone"]})
        print("  ".join(f"{key} {value:.2f}" for key, value in rounds[-1].items()), flush=True)
    return rounds, waited


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--delay", type=float, default=1)
    options = parser.parse_args()
    port = multiprocessing.Queue()
    spine = multiprocessing.Process(target=serve, args=(options.delay, port), daemon=True)
    spine.start()
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder, "table.json")
        table.write_text(json.dumps(TABLE))
        settings = {"kind": "http", "url": f"http://127.0.0.1:{port.get()}", "operations_file": str(table), "timeout": "60s",
                    "connections": 256, "cache": "0B"}
        # what is accepted stays in its inbox
        api = {"max_in_flight": 1000000, "max_in_flight_per_agent": 1000000}
        with Daemon(config=config({"coder": {}, "reader": {}}, spine=settings, api=api)) as daemon:
            rounds, waited = compare((daemon.api.host, daemon.api.port), options)
            refs = dict(MISSING.findall(daemon.web.get("/metrics").text))
    ratio = statistics.median(row["ratio"] for row in rounds)
    print(f"{options.waiting} in flight: each took {statistics.median(waited):.2f} s (median), {refs.get('included', 0)} had their "
          f"memory, {refs.get('missing', 0)} did not")
    print(f"p99 beside them / alone: {ratio:.2f} (median of {options.rounds} rounds), goal {GOAL}: {'met' if ratio <= GOAL else 'missed'}")
    spine.terminate()


if __name__ == "__main__":
    main()
