#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a handoff through the Python and the TypeScript client takes, beside the same request with the HTTP client of the
language: http.client, and node:http with connections that stay open.

    bench_clients.py [--rounds N] [--handoffs N]

Both send one handoff after the other to the same sidecar and parse the answer. They take turns in every round; ratios
are made within a round, and their median is printed: of the processor time of the sending process, which other programs
on the machine change little, and of the time that passes, with the sidecar's share. That share is as small as it can be: the
sidecar answers as soon as it has accepted the handoff and does not sync (durability none). Exits with 1 if a client
takes more than 30 % more processor time.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = TOP / "build/release"
os.environ.setdefault("HANDOFF_EXPORTER", str(BUILD / "exporter/handoff-exporter"))
os.environ.setdefault("HANDOFF_SOURCE_DIR", str(TOP))
sys.path.insert(0, str(TOP / "tests/scenario"))

from harness import clients, environment  # noqa: E402
from harness.agents import daemon_with  # noqa: E402
from harness.clients import Node  # noqa: E402

OVERHEAD_MAX = 0.30
WARM_UP = 8  # rounds, in which Node.js compiles what is called often

REQUEST = {"target_agent": "coder", "task_summary": "Write the retry logic for the payment gateway. " * 20,
           "constraints": {"max_tokens": 4000, "language": "python"},
           "state": {"decisions": ["use exponential backoff with jitter"] * 5}}

PYTHON = """
import http.client, json, sys, time, uuid
from handoff import MemorySpine
api, source = sys.argv[1], {"source_agent": "analyst"}
request = json.loads(sys.argv[2])
spine = MemorySpine("http://" + api, **source)
connection = http.client.HTTPConnection(api)
def bare():
    headers = {"Content-Type": "application/json", "Prefer": "respond-async", "Idempotency-Key": str(uuid.uuid4())}
    connection.request("POST", "/v1/handoffs", json.dumps({**source, **request}), headers)
    return json.loads(connection.getresponse().read())["id"]
def client():
    return spine.hand_off(**request, wait=False).id
def measure(send, count):
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        assert send()
    return time.process_time() - cpu, time.perf_counter() - began
for line in sys.stdin:
    count = int(line)
    print(json.dumps([measure(bare, count), measure(client, count)]), flush=True)
"""

TYPESCRIPT = """
const http = process.getBuiltinModule("node:http"), { randomUUID } = process.getBuiltinModule("node:crypto");
kept.spine ??= new handoff.MemorySpine({ endpoint: `http://${api}`, source_agent: "analyst" });
kept.agent ??= new http.Agent({ keepAlive: true });
const [host, port] = api.split(":");
const bare = () => new Promise((resolve, reject) => {
  const body = JSON.stringify({ source_agent: "analyst", ...request });
  const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body),
    "Prefer": "respond-async", "Idempotency-Key": randomUUID() };
  http.request({ host, port, agent: kept.agent, method: "POST", path: "/v1/handoffs", headers }, (response) => {
    const chunks = [];
    response.on("data", (chunk) => chunks.push(chunk));
    response.on("end", () => resolve(JSON.parse(Buffer.concat(chunks).toString()).id));
  }).on("error", reject).end(body);
});
const client = async () => (await kept.spine.handOff(request, { wait: false })).id;
async function measure(send) {
  const began = performance.now(), cpu = process.cpuUsage();
  for (let number = 0; number < count; number++) if (!(await send())) throw new Error("no id");
  const { user, system } = process.cpuUsage(cpu);
  return [(user + system) / 1e6, (performance.now() - began) / 1000];
}
return [await measure(bare), await measure(client)];
"""


class Python:
    def __init__(self, api):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([sys.executable, "-c", PYTHON, api, json.dumps(REQUEST)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd=self.folder.name,
                                        env=environment(PYTHONPATH=str(clients.PYTHON)))

    def round(self, count):
        print(count, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.communicate()
        self.folder.cleanup()


class TypeScript:
    def __init__(self, api):
        self.api = api
        self.node = Node()

    def round(self, count):
        return self.node.run(TYPESCRIPT, timeout=600, api=self.api, request=REQUEST, count=count)

    def close(self):
        self.node.__exit__()


def measure(language, api, options):
    """For processor time and for time: microseconds bare, with the client, and the overhead."""
    one = language(api)
    for _ in range(WARM_UP):
        one.round(options.handoffs)
    rounds = [one.round(options.handoffs) for _ in range(options.rounds)]
    one.close()
    for kind in range(2):
        pairs = [(bare[kind], client[kind]) for bare, client in rounds]
        bare, client = (1e6 * statistics.median(times) / options.handoffs for times in zip(*pairs))
        yield bare, client, statistics.median(client / bare for bare, client in pairs) - 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--handoffs", type=int, default=60)
    options = parser.parse_args()
    worst = 0.0
    print("| client | processor time, bare | with the client | overhead | time, bare | with the client | overhead |")
    print("|---|---|---|---|---|---|---|")
    for language in (Python, TypeScript):
        with daemon_with({"coder": {}}, storage={"durability": "none"},
                         api={"max_in_flight": 1000000, "max_in_flight_per_agent": 1000000}) as daemon:
            measured = list(measure(language, daemon.api.address, options))
        worst = max(worst, measured[0][2])
        cells = [f"{bare:.0f} µs | {client:.0f} µs | {100 * overhead:+.0f} %" for bare, client, overhead in measured]
        print(f"| {language.__name__} | {' | '.join(cells)} |", flush=True)
    return int(worst > OVERHEAD_MAX)


if __name__ == "__main__":
    sys.exit(main())
