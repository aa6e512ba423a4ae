# SPDX-License-Identifier: Apache-2.0
"""The load: handoffs of 8 KiB, and wrk that sends them."""

import concurrent.futures
import functools
import itertools
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess

HERE = pathlib.Path(__file__).parent
SOURCE = HERE.parent.parent
BODY = 8192
TASK = "task-000000000000"  # replaced in each request: a task that is known is continued
BODIES = 64  # different ones, so that nothing is answered from what the last one left in a cache


def of_task(body, number):
    """The body as the first handoff of a new task."""
    return body.replace(TASK, f"task-{number:012}", 1)


def english(at, size):
    """That number of bytes of plain English, beginning at another place for each `at`."""
    text = " ".join((SOURCE / "LICENSE").read_text(encoding="ascii").replace('"', "'").split())
    begin = at * 977 % len(text)
    return (text[begin:] + " " + text)[:size]


def padded(request, at, *members):
    """As JSON of exactly BODY bytes: English is added to the member."""
    holder = functools.reduce(dict.__getitem__, members[:-1], request)
    holder[members[-1]] = english(at, BODY - len(json.dumps(request)))
    text = json.dumps(request)
    assert len(text) == BODY and "\n" not in text
    return text


def handoff(number):
    """A request of exactly BODY bytes as agents make them: mostly prose, some structure."""
    request = {
        "source_agent": "analyst", "target_agent": "coder", "task_id": TASK,
        "intent": english(number, 300),
        "state": {"progress": english(number + 1, 200),
                  "decisions": [english(number + 2 + i, 160) for i in range(6)],
                  "unresolved": [english(number + 9 + i, 120) for i in range(4)],
                  "remaining": [english(number + 14 + i, 90) for i in range(6)]},
        "constraints": {"language": "C11", "deadline_days": 3, "forbidden": ["goto", "alloca"]},
        "execution_history": [{"agent": f"agent-{i}", "action": english(number + 20 + i, 150),
                               "decision": english(number + 30 + i, 100)} for i in range(8)],
        "expected_output": {"format": "diff", "length": "short",
                            "criteria": [english(number + 40 + i, 80) for i in range(4)]},
        "task_summary": "",
    }
    return padded(request, number + 50, "task_summary")


def write_bodies(folder, make=handoff):
    path = pathlib.Path(folder) / make.__name__
    path.write_text("".join(make(number) + "\n" for number in range(BODIES)))
    return path


# ---- the request of the specification: what was found for the task, the pins, three steps ---------

VOCABULARY = 50000
WORDS = 45       # of a memory: some 300 bytes
SUMMARY = 20     # words of a request, those of some memory
PINS = 3
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


def vocabulary():
    """Words, and up to each the sum of their shares: the n-th is n times as rare as the first, as in texts."""
    words = [SYLLABLES[n % 70] + SYLLABLES[n // 70 % 70] + (SYLLABLES[n // 4900] if n >= 4900 else "")
             for n in range(VOCABULARY)]
    return words, list(itertools.accumulate(1 / (n + 1) for n in range(VOCABULARY)))


WORD, SHARES = vocabulary()


def memory(number):
    """The words of a memory, the same in every run."""
    return random.Random(number).choices(WORD, cum_weights=SHARES, k=WORDS)


def found_for(number):
    """A request of exactly BODY bytes that asks for memories."""
    words = memory(number * 997)
    request = {
        "source_agent": "analyst", "target_agent": "coder", "task_id": TASK,
        "task_summary": " ".join(words[:SUMMARY]), "intent": " ".join(words[-8:]),
        "include_recent": 20, "include_pins": True,
        "execution_history": [{"agent": f"agent-{i}", "action": english(number + 20 + i, 150),
                               "decision": english(number + 30 + i, 100)} for i in range(3)],
        "state": {"progress": ""},
        "expected_output": {"format": "diff"},
    }
    return padded(request, number + 50, "state", "progress")


def memory_request(number):
    body = json.dumps({"content": " ".join(memory(number)), "pinned": number < PINS}).encode()
    return (f"PUT /v1/memories/m{number} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def put_memories(api, numbers):
    """Over one connection, one after the other."""
    host, _, port = api.url.rpartition("/")[2].partition(":")
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as answers:
        for number in numbers:
            connection.sendall(memory_request(number))
            status = answers.readline()
            if b" 201 " not in status:
                raise SystemExit(f"memory {number}: {status.decode()}")
            size = 0
            while (line := answers.readline().strip().lower()):
                size = int(line.partition(b":")[2]) if line.startswith(b"content-length:") else size
            answers.read(size)


def fill(api, count, connections=32):
    """That many memories."""
    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        list(pool.map(lambda first: put_memories(api, range(first, count, connections)), range(connections)))


def wrk(server, bodies, connections, seconds, pause_ms=0, wait_s=0):
    """One run: what wrk tells, and the CPU time of the server for each request. wait_s: see delivery.lua."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency",
               "-s", str(HERE / "delivery.lua"), server.url, "--", str(bodies), str(pause_ms),
               str(wait_s)]
    before = server.cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    used = server.cpu_seconds() - before
    told = json.loads(done.stdout.rpartition("\n{")[2].join(["{", ""]))
    told["per_second"] = told["requests"] / told["microseconds"] * 1e6
    told["cpu_us"] = used / max(told["requests"], 1) * 1e6
    return told


def median_of(runs):
    """Each number's median over runs."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def spread_of(numbers):
    """How far the middle half lies apart, as a share of the median: the noise of this machine."""
    if len(numbers) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(numbers, n=4)
    return (high - low) / middle if middle else 0.0


def machine():
    model = next((line.partition(":")[2].strip()
                  for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), "unknown")
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "kernel": os.uname().release,
            "load_before": os.getloadavg()[0]}
