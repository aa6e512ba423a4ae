# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Polls that wait never hold all places of the API: a sender finds one."""

import contextlib
import json
import select
import unittest

from harness import Daemon
from harness.agents import Caller, config
from harness.receiver import Receiver, ack
from harness.wait import TIMEOUT, eventually

DESCRIPTORS = 256  # then the API has some 70 places
POLLS = 300


def limited(daemon):
    daemon.command = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(DESCRIPTORS), *daemon.command]
    return daemon.start()


class Case(unittest.TestCase):
    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.coder = stack.enter_context(Receiver(ack))
        agents = {"coder": {"url": self.coder.url}, "poller": {}}
        self.daemon = stack.enter_context(limited(Daemon("--shutdown.timeout=200ms", config=config(agents),
                                                         start=False)))
        self.caller = Caller(self.daemon)
        self.places = int(self.daemon.wait_for_event("few_descriptors")["api_connections"])

    def poll(self):
        """A client that polls for a minute."""
        raw = self.daemon.api.socket()
        self.addCleanup(raw.close)
        raw.sendall(b"GET /v1/agents/poller/inbox?wait=60s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        return raw

    def test_a_sender_finds_a_place_beside_any_number_of_polls(self):
        polls = [self.poll() for _ in range(POLLS)]
        for _ in range(10):
            self.assertEqual(self.caller.send().status, 200)  # none of the polls ends by itself meanwhile
        self.assertEqual(len(self.coder.requests), 10)
        for raw in polls:
            raw.close()

    def test_beyond_three_quarters_a_poll_is_refused_if_none_has_waited(self):
        polls = [self.poll() for _ in range(self.places)]
        replies = []
        for raw in polls:
            raw.settimeout(0.2)
            with contextlib.suppress(TimeoutError, ConnectionError):
                replies.append(raw.recv(4096))
        refused = [reply for reply in replies if reply.startswith(b"HTTP/1.1 429 ")]
        self.assertTrue(refused)
        self.assertIn(b"Retry-After: 1\r\n", refused[0])
        self.assertEqual(json.loads(refused[0].split(b"\r\n\r\n")[1])["code"], "too_many_in_flight")

    def test_the_longest_poll_gives_way_once_it_has_waited(self):
        most = self.places - self.places // 4
        polls = [self.poll() for _ in range(most)]
        polls[0].settimeout(1.1)
        with self.assertRaises(TimeoutError):  # they have their places, and keep them for more than a second
            polls[0].recv(1)

        def gives_way():
            late = self.poll()
            late.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                self.assertNotIn(b"429", late.recv(100))
            return True
        eventually(gives_way, "a new poll takes the place of an old one")
        # each loop ends its own longest poll
        ended, _, _ = select.select(polls, [], [], TIMEOUT)
        self.assertTrue(ended)
        self.assertTrue(ended[0].recv(100).startswith(b"HTTP/1.1 204 "))

    def test_a_handoff_for_a_poll_that_gives_way_is_not_lost(self):
        for _ in range(POLLS):
            self.poll()
        handoff = self.caller.send_async("poller")
        eventually(lambda: self.caller.state(handoff)["state"] == "in_flight", "one of the polls has it")


if __name__ == "__main__":
    unittest.main()
