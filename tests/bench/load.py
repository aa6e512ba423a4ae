# SPDX-License-Identifier: Apache-2.0
"""The load: handoffs of 8 KiB, and wrk that sends them."""

import json
import os
import pathlib
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
    missing = BODY - len(json.dumps(request))
    request["task_summary"] = english(number + 50, missing)
    text = json.dumps(request)
    assert len(text) == BODY and "\n" not in text
    return text


def write_bodies(folder):
    path = pathlib.Path(folder) / "bodies"
    path.write_text("".join(handoff(number) + "\n" for number in range(BODIES)))
    return path


def wrk(server, bodies, connections, seconds, pause_ms=0):
    """One run: what wrk tells, and the CPU time of the server for each request."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency",
               "-s", str(HERE / "delivery.lua"), server.url, "--", str(bodies), str(pause_ms)]
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
