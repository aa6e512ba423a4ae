# SPDX-License-Identifier: Apache-2.0
"""Reviewing ten thousand parked handoffs: reading them, and replaying them all over a kill -9.

    tests/bench/bench_review.py [--handoffs 10000] [--rate 500] [--json FILE]

Handoffs are parked through the API, for eight agents and forty reasons. Then the sidecar is restarted with the default
durability. Each read is made 21 times over one connection: the quickest and the median time beyond that of GET /v1/agents,
which reads memory only, and the CPU that the server took. A bulk job then replays all of them to an agent that
acknowledges, is killed in the middle, and continues; its rate is that of the decisions while it ran. The counts are those of
the job, of the decisions, of the states and of what the agent got.

Goals: each read takes 50 ms or less, no loop is held for more than 2 ms, the job keeps 95 % of its rate, and every handoff
is decided once. A goal that is missed gives exit status 1.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import statistics
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/scenario"))
os.environ.setdefault("HANDOFF_EXPORTER", str(TOP / "build/release/exporter/handoff-exporter"))
os.environ.setdefault("HANDOFF_SOURCE_DIR", str(TOP))

from harness import Receiver  # noqa: E402
from harness.agents import Caller, config, daemon_with  # noqa: E402
from harness.receiver import ack  # noqa: E402
from harness.wait import eventually  # noqa: E402

READ_MS, TURN_MS, RATE_KEPT, TIMES = 50, 2, 0.95, 21
AGENTS = [f"agent-{number}" for number in range(8)]
READS = {"nothing is read": "/v1/agents",
         "the first page": "/v1/parked?limit=50",
         "the newest": "/v1/parked?order=newest&limit=50",
         "the last page": "/v1/parked?limit=50&cursor={behind}",
         "words that many have": "/v1/parked?query=invoice%20payment&limit=50",
         "words that few have": "/v1/parked?query=invoice%20{behind}&limit=50",
         "words that none has": "/v1/parked?query=invoice%20zeppelin&limit=50",
         "groups": "/v1/parked/groups?limit=50",
         "groups of what has a word": "/v1/parked/groups?query=invoice&limit=50",
         "the page: list": "/review",
         "the page: words": "/review?query=invoice%20payment",
         "the page: causes": "/review/causes"}


def park(caller, number):
    reply = caller.call("POST", "/v1/parked", {
        "reason": f"cause {number % 40} of the outage",
        "request": {"source_agent": "analyst", "target_agent": AGENTS[number % 8], "task_id": f"task-{number}",
                    "task_summary": f"Write the invoice number {number}, and tell the payment service about it"}})
    assert reply.status == 200, reply


def cpu_s(daemon):
    fields = pathlib.Path(f"/proc/{daemon.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(caller, path):
    took = []
    cpu = cpu_s(caller.daemon)
    for _ in range(TIMES):
        began = time.perf_counter()
        reply = caller.call("GET", path)
        took.append((time.perf_counter() - began) * 1000)
        assert reply.status == 200, reply
    return {"least_ms": min(took), "median_ms": statistics.median(took), "cpu_ms": (cpu_s(caller.daemon) - cpu) * 1000 / TIMES}


def turns_ms(daemon):
    text = daemon.web.get("/metrics").text
    return {loop: 1000 * float(value) for loop, value in
            re.findall(r'^handoff_exporter_loop_turn_max_seconds\{loop="(\w+)"\} (\S+)$', text, re.M)}


def read_all(caller, count):
    base, rows = None, []
    print(f"{'read':28} {'least':>9} {'median':>9} {'CPU':>9}")
    for name, path in READS.items():
        row = measure(caller, path.format(behind=count - 51))
        base = base or row
        row = {"read": name, "least_ms": row["least_ms"] - base["least_ms"], "median_ms": row["median_ms"] - base["median_ms"],
               "cpu_ms": row["cpu_ms"]}
        rows.append(row)
        print(f"{name:28} {row['least_ms']:6.2f} ms {row['median_ms']:6.2f} ms {row['cpu_ms']:6.2f} ms", flush=True)
    return rows


def job_of(caller, job):
    return caller.call("GET", f"/v1/jobs/{job}").json()


def follow(caller, job, until):
    """Decisions a second from the first look to the last."""
    first, began = job_of(caller, job)["done"], time.perf_counter()
    found = eventually(lambda: now if (now := job_of(caller, job))["done"] >= until else None, "the job goes on", timeout=600)
    return (found["done"] - first) / (time.perf_counter() - began)


def pages(caller, path, key):
    cursor, found = "", []
    while cursor is not None:
        page = caller.call("GET", f"{path}&limit=1000" + (f"&cursor={cursor}" if cursor else "")).json()
        found += [item[key] for item in page["items"]]
        cursor = page["next"]
    return found


def replay_all(daemon, receiver, count, rate):
    caller = Caller(daemon)
    job = caller.call("POST", "/v1/jobs", {"action": "replay", "to": "sink", "rate": rate, "reason": "bench"}).json()["id"]
    rates = [follow(caller, job, count // 3)]
    turns = [turns_ms(daemon)]
    daemon.kill()
    killed = time.perf_counter()
    daemon.log_path.write_bytes(b"")
    daemon.start()
    daemon.expected_exit = 0
    down = time.perf_counter() - killed
    rates.append(follow(caller, job, count))
    turns.append(turns_ms(daemon))
    ended = eventually(lambda: now if (now := job_of(caller, job))["state"] == "done" else None, "it is done")
    decided = pages(caller, f"/v1/decisions?job={job}", "handoff_id")
    eventually(lambda: len(set(pages(caller, "/v1/handoffs?state=acknowledged", "id"))) == count, "all are acknowledged", timeout=120)
    return {"rates": rates, "down_s": down, "turns_ms": turns, "succeeded": ended["succeeded"], "skipped": ended["skipped"],
            "failed": ended["failed"], "decisions": len(decided), "decided": len(set(decided)),
            "received": len({request.id for request in receiver.requests}), "requests": len(receiver.requests)}


def judge(rows, turns, job, count, rate):
    missed = [f"{row['read']}: {row['least_ms']:.1f} ms" for row in rows if row["least_ms"] > READ_MS]
    missed += [f"the loop {loop} was held for {ms:.1f} ms" for turn in (turns, *job["turns_ms"]) for loop, ms in turn.items()
               if ms > TURN_MS and loop != "control"]
    missed += [f"{kept:.0f} a second of {rate}" for kept in job["rates"] if kept < RATE_KEPT * rate]
    missed += [f"{key}: {job[key]} of {count}" for key in ("succeeded", "decisions", "decided", "received") if job[key] != count]
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--handoffs", type=int, default=10000)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    with Receiver(ack) as receiver:
        agents = {**{name: {} for name in AGENTS}, "sink": {"url": receiver.url}}
        with daemon_with(agents, storage={"durability": "none"}) as daemon:
            caller = Caller(daemon)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda number: park(caller, number), range(given.handoffs)))
            daemon.terminate()
            daemon.wait()
            daemon.write_config(config(agents, None))
            daemon.log_path.write_bytes(b"")
            daemon.start()
            rows = read_all(caller, given.handoffs)
            turns = turns_ms(daemon)
            job = replay_all(daemon, receiver, given.handoffs, given.rate)
    print(f"longest turns of the loops while reading: {turns}")
    print(f"the job: {job}")
    missed = judge(rows, turns, job, given.handoffs, given.rate)
    print("all goals are met" if not missed else "missed: " + "; ".join(missed))
    if given.json:
        given.json.write_text(json.dumps({"reads": rows, "turns_ms": turns, "job": job, "missed": missed}, indent=1), encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
