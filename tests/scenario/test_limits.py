# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Slow, greedy and careless clients: each is cut or refused, and the others do not notice."""

import itertools
import os
import resource
import socket
import time
import unittest

from harness import Daemon, eventually
from harness.http import exchange, read_reply

HEAD = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n"


def is_cut(raw):
    """Whether the other side has ended the connection; what it said before is thrown away."""
    raw.setblocking(False)
    try:
        while piece := raw.recv(65536):
            del piece
        return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


class SlowClients(unittest.TestCase):
    def trickle(self, http, first, more):
        """Sends `first`, then `more` byte by byte for as long as the connection is open; answers how
        long it was."""
        began = time.monotonic()
        with http.socket() as raw:
            raw.sendall(first)
            left = iter(more)

            def step():
                if is_cut(raw):
                    return True
                raw.setblocking(True)
                try:
                    raw.sendall(bytes([next(left)]))
                except ConnectionError:
                    return True
                return False

            eventually(step, "the client is cut")
        return time.monotonic() - began

    def test_a_byte_now_and_then_does_not_keep_a_connection(self):
        with Daemon("--web.read-timeout=500ms") as daemon:
            for http, path in ((daemon.web, b"/-/reload"), (daemon.api, b"/v1/x")):
                for first, more in (
                        (b"", b"G" * 100000),  # within the request line
                        (b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ", b"x" * 100000),
                        (b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n",
                         b"x" * 100000),
                        (b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked"
                         b"\r\n\r\nfff\r\n", b"x" * 4000)):
                    lasted = self.trickle(http, first, more)
                    self.assertGreaterEqual(lasted, 0.45, first)
            self.assertGreaterEqual(len(daemon.events("connection_timed_out")), 8)
            self.assertEqual(daemon.web.get("/-/healthy").status, 200)

    def test_nor_does_it_in_the_second_request(self):
        # far below the 120 s that a kept connection may idle
        with Daemon("--web.read-timeout=500ms") as daemon:
            for http in (daemon.web, daemon.api):
                for second in (b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ",
                               b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n"):
                    with self.subTest(second=second):
                        self.assertGreaterEqual(
                            self.trickle(http, HEAD + b"\r\n" + second, b"G" * 100000), 0.45)
            self.assertEqual(len(daemon.events("connection_timed_out")), 6)

    def test_the_second_request_of_a_connection_has_its_deadline_too(self):
        # The deadline behind an answer allows for idling as well, so it is the first request's end
        # that has to be seen to move it: a connection outlives the read time-out while it idles.
        with Daemon("--web.read-timeout=2s") as daemon:
            kept = daemon.web.connection()
            exchange(kept, "GET", "/-/healthy")
            with daemon.web.socket() as silent:
                eventually(lambda: is_cut(silent), "a connection that never asked is cut")
            self.assertEqual(exchange(kept, "GET", "/-/healthy").status, 200)
            kept.close()

    def test_many_slow_clients_do_not_keep_probes_out(self):
        with Daemon("--web.read-timeout=3s") as daemon:
            slow = [daemon.web.socket() for _ in range(100)]
            for raw in slow:
                raw.sendall(HEAD)
            self.assertEqual(daemon.web.get("/-/healthy").status, 200)
            for raw in slow:
                eventually(lambda raw=raw: is_cut(raw), "each of them is cut")
                raw.close()


class GreedyClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(config="api: {max_body: 64KiB}\n")
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)

    def test_headers_too_large(self):
        for http, allowed, too_much in ((self.daemon.web, 16000, 40000),
                                        (self.daemon.api, 8000, 24000)):
            self.assertIn(http.get("/nothing", X_Long="x" * allowed).status, (404,))
            with http.socket() as raw:
                raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * too_much)
                self.assertIn(read_reply(raw).status, (413, 431))

    def test_many_headers(self):
        with self.daemon.web.socket() as raw:
            try:
                raw.sendall(HEAD + b"".join(b"X-%d: 1\r\n" % i for i in range(20000)) + b"\r\n")
                self.assertIn(read_reply(raw).status, (413, 431))
            except ConnectionError:
                pass  # cut before it had said all of it
        self.assertEqual(self.daemon.web.get("/-/healthy").status, 200)

    def test_a_long_path(self):
        with self.daemon.web.socket() as raw:
            raw.sendall(b"GET /" + b"x" * 40000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(read_reply(raw).status, (413, 414, 431))

    def post(self, body, **headers):
        return self.daemon.web.request("POST", "/-/reload", body=body, headers=headers)

    def test_bodies_too_large(self):
        self.assertEqual(self.post(b"x" * 4096).status, 200)
        self.assertEqual(self.post(b"x" * 4097).status, 413)
        # Some megabytes are read to their end, so that the answer is not lost to a reset.
        self.assertEqual(self.post(b"x" * 8_000_000).status, 413)

    def test_chunked_bodies_count_too(self):
        for pieces, status in ((4, 200), (5, 413), (1000, 413)):
            reply = self.daemon.web.request("POST", "/-/reload",
                                            body=(b"x" * 1024 for _ in range(pieces)))
            self.assertEqual(reply.status, status, pieces)

    def test_what_waits_for_100_is_refused_at_once(self):
        with self.daemon.web.socket() as raw:
            raw.sendall(b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 4097\r\n"
                        b"Expect: 100-continue\r\n\r\n")
            self.assertEqual(read_reply(raw).status, 413)

    def test_what_is_far_too_large_is_refused_at_once(self):
        with self.daemon.web.socket() as raw:
            raw.sendall(b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
            self.assertEqual(read_reply(raw).status, 413)

    def test_an_endless_body_is_cut(self):
        with self.daemon.web.socket() as raw:
            raw.sendall(b"POST /-/reload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
            with self.assertRaises(ConnectionError):
                for _ in range(10000):
                    raw.sendall(chunk)

    def test_a_body_where_none_belongs(self):
        reply = self.daemon.web.request("GET", "/metrics", body=b"x")
        self.assertEqual(reply.status, 413)


class Descriptors(unittest.TestCase):
    def test_whoever_waited_for_one_is_let_in_when_the_last_client_has_left(self):
        with Daemon() as daemon:
            pid = daemon.process.pid
            free = next(fd for fd in itertools.count()
                        if not os.path.lexists(f"/proc/{pid}/fd/{fd}"))
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (free + 1, hard))  # room for one
            with daemon.web.socket() as first, daemon.web.socket() as second:
                first.sendall(HEAD + b"\r\n")
                self.assertEqual(read_reply(first).status, 200)
                second.sendall(HEAD + b"\r\n")
                daemon.wait_for_event("out_of_resources")
                first.close()
                self.assertEqual(read_reply(second).status, 200)


if __name__ == "__main__":
    unittest.main()
