# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""Many clients that make the API hold megabytes for them: its memory has a limit, and others are served.

Some ask for large answers and read none of them, some send all of a large body but its end. They give
way; a client that reads and sends is answered meanwhile, and what it asks for can be as large.
"""

import contextlib
import json
import os
import pathlib
import re
import socket
import unittest

from harness import Daemon, eventually
from harness.agents import Caller, config

CLIENTS = 150
LARGE = 3_000_000
# The API holds 64 MiB for each of its threads; what is on its way to a limit, and what malloc keeps, is more.
PER_THREAD = 64 << 20
WHOLE = "release"  # frees what it freed; the sanitizer keeps it for a while


class SlowClients(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(Daemon(
            "--shutdown.timeout=200ms", config=config({"reader": {"token_budget": 10_000_000}})))
        self.caller = Caller(self.daemon)
        self.text = "The bank retries. " * (LARGE // 18)

    def megabytes(self):
        with open(f"/proc/{self.daemon.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) >> 10

    def api_threads(self):
        folder = f"/proc/{self.daemon.process.pid}/task"
        names = [pathlib.Path(folder, thread, "comm").read_text("ascii") for thread in os.listdir(folder)]
        return sum(name.startswith("api") for name in names)

    def client(self, data):
        """One that sends this and reads nothing."""
        raw = socket.socket()
        self.addCleanup(raw.close)
        raw.settimeout(30)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect((self.daemon.api.host, self.daemon.api.port))
        with contextlib.suppress(ConnectionError):  # it has given way already
            raw.sendall(data)
        return raw

    def deaf_client(self, handoff):
        """One whose large answer has begun, or was refused."""
        raw = self.client(b"GET /v1/handoffs/%s/envelope HTTP/1.1\r\nHost: x\r\n\r\n" % handoff.encode())
        with contextlib.suppress(ConnectionError):
            raw.recv(1, socket.MSG_PEEK)

    def send(self):
        return self.caller.send("reader", {"prefer": "respond-async"}, state={"text": self.text})

    def stored(self):
        reply = self.send()
        self.assertEqual(reply.status, 202, reply)
        return reply.json()["id"]

    def is_answered(self, ask):
        """In the end, as an agent tries again."""
        def answered():
            reply = ask()
            if reply.status == 503:
                self.assertEqual((reply.json()["code"], reply.header("Retry-After")), ("out_of_memory", "1"))
                return None
            return reply
        return eventually(answered, "a large request is answered")

    def large_reads(self, handoff):
        reply = self.is_answered(lambda: self.caller.call("GET", f"/v1/handoffs/{handoff}/envelope"))
        self.assertEqual(reply.json()["context"]["task"]["state"]["text"], self.text)

    def check_memory(self, before):
        if os.environ.get("HANDOFF_VARIANT", "release") == WHOLE:
            most = 2 * self.api_threads() * (PER_THREAD >> 20)
            self.assertLess(self.megabytes() - before, most)
            self.assertLess(most, CLIENTS * LARGE >> 20, "the test asks for more")

    def evicted(self, reason):
        return [line for line in self.daemon.events("connection_evicted") if line["reason"] == reason]

    def test_answers_that_nobody_reads(self):
        handoff = self.stored()
        self.large_reads(handoff)
        before = self.megabytes()
        for i in range(CLIENTS):
            self.deaf_client(handoff)
            if i % 10 == 0:
                self.assertEqual(self.caller.call("GET", "/v1/agents").status, 200)
        self.large_reads(handoff)
        self.check_memory(before)
        self.assertEqual(self.is_answered(self.send).status, 202)

    def test_those_who_keep_coming(self):
        handoff = self.stored()
        before = self.megabytes()

        def cut():
            for _ in range(20):
                self.deaf_client(handoff)
            return self.evicted("slow_reader")
        eventually(cut, "those that do not read give way to others")
        self.large_reads(handoff)
        self.check_memory(before)

    def test_bodies_that_do_not_end(self):
        body = json.dumps({"source_agent": "a", "target_agent": "reader", "task_summary": "s",
                           "state": {"text": self.text}}).encode()
        head = b"POST /v1/handoffs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        before = self.megabytes()

        def cut():
            for _ in range(20):
                self.client(head + body[:-1])
            self.check_memory(before)
            return self.evicted("slow_sender")
        eventually(cut, "those that do not go on give way to others")
        self.assertEqual(self.is_answered(self.send).status, 202)
        self.assertEqual(self.caller.call("GET", "/v1/agents").status, 200)


if __name__ == "__main__":
    unittest.main()
