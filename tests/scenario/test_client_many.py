# SPDX-License-Identifier: Apache-2.0
"""Many handoffs through each client, over a connection that often breaks: each is delivered under one id, none under two
keys, and the client's memory does not grow.

HANDOFF_CLIENT_HANDOFFS=10000 is the full number.
"""

import collections
import contextlib
import http.client
import http.server
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

from harness import Receiver, TIMEOUT, environment
from harness import clients
from harness.agents import daemon_with
from harness.clients import Node
from harness.receiver import ack

COUNT = int(os.environ.get("HANDOFF_CLIENT_HANDOFFS", "600"))
SECONDS = max(TIMEOUT, COUNT / 5)
GROWTH_MAX = 6 * 1024 * 1024  # an allocator's slack; 10,000 leaks of one request would be more

PYTHON = """
import concurrent.futures, gc, sys
from handoff import MemorySpine, Retry
spine = MemorySpine(sys.argv[1], source_agent="analyst", retry=Retry(seconds=60, base=0.001, most=0.01))
def send(number):
    assert spine.hand_off("coder", f"Write part {number}", task_id=f"task-{number}").acknowledged
def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
count = int(sys.argv[2])
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    list(pool.map(send, range(count // 3)))
    before = resident()
    list(pool.map(send, range(count // 3, count)))
print(resident() - before)
"""

TYPESCRIPT = """
const spine = new handoff.MemorySpine({ endpoint, source_agent: "analyst", retry: { seconds: 60, base: 0.001, most: 0.01 } });
let number = 0;
async function send(end) {
  while (number < end) {
    const mine = number++;
    await spine.handOff({ target_agent: "coder", task_summary: `Write part ${mine}`, task_id: `task-${mine}` });
  }
}
const sendAll = (end) => Promise.all([1, 2, 3, 4].map(() => send(end)));
const used = () => { globalThis.gc(); return process.memoryUsage().heapUsed; };
await sendAll(Math.floor(count / 3));
const before = used();
await sendAll(count);
return used() - before;
"""


class Breaking(http.server.ThreadingHTTPServer):
    """Between client and sidecar. Every seventh answer is lost, and every eleventh request before it arrives."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address):
        super().__init__(("127.0.0.1", 0), Forwarding)
        self.sidecar = address
        self.numbers = itertools.count(1)
        self.keys = collections.defaultdict(set)  # by the summary of the handoff
        self.broken = 0

    def handle_error(self, request, client_address):
        pass  # the client left, which is what this is about


class Forwarding(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.keys[json.loads(body)["task_summary"]].add(self.headers["Idempotency-Key"])
        number = next(self.server.numbers)
        if number % 11 == 0:
            return self.cut()
        with contextlib.closing(http.client.HTTPConnection(self.server.sidecar, timeout=TIMEOUT)) as connection:
            connection.request("POST", self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
        if number % 7 == 0:
            return self.cut()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        return None

    def cut(self):
        self.server.broken += 1
        self.close_connection = True

    def log_message(self, *_):
        pass


class Many(unittest.TestCase):
    def setUp(self):
        self.delivered = collections.defaultdict(set)  # ids by the summary of the handoff
        self.receiver = self.enterContext(Receiver(self.take))
        daemon = self.enterContext(daemon_with({"coder": {"url": self.receiver.url}}))
        self.proxy = self.enterContext(Breaking(daemon.api.address))
        threading.Thread(target=self.proxy.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(self.proxy.shutdown)
        self.endpoint = f"http://127.0.0.1:{self.proxy.server_port}"

    def take(self, request):
        self.delivered[request.json()["context"]["task"]["summary"]].add(request.id)
        self.receiver.seen.clear()
        ack(request)

    def check(self, growth):
        self.assertEqual(len(self.delivered), COUNT)
        self.assertEqual({len(ids) for ids in self.delivered.values()}, {1})
        self.assertEqual({len(keys) for keys in self.proxy.keys.values()}, {1})
        self.assertGreater(self.proxy.broken, COUNT / 10)
        self.assertLess(growth, GROWTH_MAX)

    def test_python(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", PYTHON, self.endpoint, str(COUNT)], capture_output=True, text=True,
                                  timeout=SECONDS, check=False, cwd=folder, env=environment(PYTHONPATH=str(clients.PYTHON)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check(int(done.stdout))

    def test_typescript(self):
        if clients.node_too_old():
            self.skipTest(clients.node_too_old())
        with Node() as node:
            self.check(node.run(TYPESCRIPT, timeout=SECONDS, endpoint=self.endpoint, count=COUNT))


if __name__ == "__main__":
    unittest.main()
