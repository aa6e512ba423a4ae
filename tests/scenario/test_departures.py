# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Clients that leave while their request waits: noticed at once, and nothing is lost with them."""

import contextlib
import os
import socket
import tempfile
import unittest

from harness import Daemon, Receiver, eventually
from harness.agents import Caller, config
from harness.receiver import Hold, ack

MANY = 100
POLL = b"GET /v1/agents/reviewer/inbox?wait=60s HTTP/1.1\r\nHost: x\r\n\r\n"


def post(target):
    body = (b'{"source_agent":"analyst","target_agent":"%s","task_id":"t","task_summary":"s"}'
            % target.encode())
    return (b"POST /v1/handoffs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


class Departures(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.hold = Hold()
        self.coder = self.stack.enter_context(Receiver(self.hold))
        self.caller = Caller(self.stack.enter_context(Daemon(
            "--shutdown.timeout=200ms", api=self.api_address(),
            config=config({"coder": {"url": self.coder.url}, "reviewer": {}}))))
        self.daemon = self.caller.daemon
        self.before = self.connections()

    def api_address(self):
        return "127.0.0.1:0"

    def connections(self):
        """Sockets of the daemon; only agents' and clients' come and go."""
        folder = f"/proc/{self.daemon.process.pid}/fd"
        count = 0
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                count += os.readlink(f"{folder}/{name}").startswith("socket:")
        return count

    def ask(self, request, count=1):
        """That many clients that have asked and wait."""
        clients = [self.stack.enter_context(self.daemon.api.socket()) for _ in range(count)]
        for client in clients:
            client.sendall(request)
        return clients

    def until_gone(self, also=0):
        eventually(lambda: self.connections() <= self.before + also,
                   "the connections of those who left are closed")

    def pull(self, wait="20s"):
        return self.caller.call("GET", f"/v1/agents/reviewer/inbox?wait={wait}")

    def test_idle_pollers_that_leave_are_gone_at_once(self):
        clients = self.ask(POLL, MANY)
        eventually(lambda: self.connections() >= MANY, "they are connected")
        for client in clients:
            client.close()
        self.until_gone()  # their wait of 60 s is longer than this waits
        handoff = self.caller.send_async("reviewer")
        reply = self.pull()
        self.assertEqual((reply.status, reply.header("Handoff-Id")), (200, handoff))
        self.assertEqual(reply.header("Handoff-Attempt"), "1", "no dead poller had it before")

    def test_those_who_stay_are_served(self):
        stays = self.ask(POLL)[0]
        for client in self.ask(POLL, MANY):
            client.close()
        self.until_gone(also=1)
        handoff = self.caller.send_async("reviewer")
        self.assertIn(handoff.encode(), stays.recv(65536))

    def test_a_sender_that_leaves_leaves_its_handoff(self):
        clients = self.ask(post("coder"), 5)
        self.coder.wait_for(5)
        for client in clients:
            client.close()
        self.until_gone(also=5)  # the connections to the agent
        self.hold.release()
        ids = {request.id for request in self.coder.requests}
        self.assertEqual(len(ids), 5)
        for handoff in ids:
            self.assertEqual(self.caller.wait_for_state(handoff, "acknowledged")["attempts"], 1)

    def test_to_close_the_sending_side_is_to_leave(self):
        """A client cannot be told from a dead one then; what it asked for is done nevertheless."""
        client = self.ask(post("coder"))[0]
        self.coder.wait_for(1)
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(client.recv(65536), b"", "closed without an answer")
        self.hold.release()
        self.caller.wait_for_state(self.coder.requests[0].id, "acknowledged")

    def test_an_answer_that_waits_for_nobody_is_given_even_then(self):
        client = self.ask(b"GET /v1/parked HTTP/1.1\r\nHost: x\r\n\r\n")[0]
        client.shutdown(socket.SHUT_WR)
        self.assertIn(b"200 OK", client.recv(65536))

    def test_one_that_sends_more_than_is_read_has_not_left(self):
        client = self.ask(POLL + POLL)[0]
        handoffs = [self.caller.send_async("reviewer", task_id=f"task-{i}") for i in range(2)]
        got = b""
        while any(handoff.encode() not in got for handoff in handoffs):
            more = client.recv(65536)
            self.assertTrue(more, "it is not cut")
            got += more


class UnixSocket(Departures):
    """The same over a socket of the file system."""

    def api_address(self):
        return f"unix:{self.enterContext(tempfile.TemporaryDirectory())}/api"


if __name__ == "__main__":
    unittest.main()
