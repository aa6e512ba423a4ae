# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""The daemon's life: start, what each path answers, reload, drain, end."""

import os
import pathlib
import signal
import socket
import subprocess
import unittest

from harness import Daemon, TIMEOUT, eventually
from harness.daemon import parse_line, refused
from harness.http import Http, exchange, read_reply

GOOD = "agents:\n  reviewer:\n    url: http://127.0.0.1:9001/handoffs\n"
BAD = "agents:\n  reviewer:\n    urll: http://127.0.0.1:9001/handoffs\n"


def start_error(log):
    """The one line that says why a start failed."""
    lines = [parse_line(line) for line in log.splitlines()]
    return [line["error"] for line in lines if line.get("event") == "start_failed"]


class Start(unittest.TestCase):
    maxDiff = None

    def check_refused(self, error, *options, **arguments):
        code, log, folder = refused(*options, **arguments)
        self.assertEqual(code, 1, log)
        self.assertEqual(start_error(log), [error.format(folder=folder)], log)

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            why = "address in use; stop the process listening on it or choose another address"
            self.check_refused(f"cannot open the web listener on {address}: {why} "
                               "(--web.listen-address)", web=address)
            self.check_refused(f"cannot open the API listener on {address}: {why} "
                               "(--api.listen-address)", api=address)

    def test_a_port_that_another_daemon_has(self):
        # SO_REUSEPORT must not let two daemons share a port by mistake.
        with Daemon() as first:
            for listener in "web", "api":
                address = getattr(first, listener).address
                code, log, _ = refused(**{listener: address})
                self.assertEqual(code, 1)
                self.assertIn("address in use", start_error(log)[0])

    def test_an_address_that_this_machine_does_not_have(self):
        self.check_refused("cannot open the web listener on 192.0.2.1:9: no interface of this "
                           "host has the address (--web.listen-address)", web="192.0.2.1:9")

    def test_a_configuration_that_is_not_there(self):
        code, log, _ = refused("--config.file=missing.yml")
        self.assertEqual(code, 1)
        self.assertEqual(len(start_error(log)), 1)
        self.assertEqual(start_error(log)[0], "missing.yml: cannot be read: No such file or "
                                              "directory (--config.file)")
        code, log, _ = refused("--config.check", "--config.file=missing.yml")
        self.assertEqual((code, log), (1, "missing.yml: cannot be read: No such file or directory "
                                          "(--config.file)\n"))
        code, log, _ = refused("--config.check", f"--config.file={__file__}")
        self.assertNotIn("--config.file", log, "a file that is there is wrong by itself")

    def test_a_wrong_option_is_one_line(self):
        code, log, _ = refused("--web.listen-adress=:1")
        self.assertEqual(code, 1)
        self.assertEqual(log.count("\n"), 1, log)
        self.assertIn("--web.listen-address", log)

    def test_the_wildcard_takes_both_families(self):
        with Daemon(web=":0") as daemon:
            self.assertEqual(daemon.web.get("/-/healthy").status, 200)

    def test_several_web_addresses(self):
        with Daemon("--web.listen-address=127.0.0.1:0") as daemon:
            web = [e for e in daemon.events("listening") if e["listener"] == "web"]
            self.assertEqual(len(web), 2)
            self.assertNotEqual(web[0]["address"], web[1]["address"])

    def test_descriptors_are_raised_to_the_hard_limit(self):
        with Daemon() as daemon:
            limits = pathlib.Path(f"/proc/{daemon.process.pid}/limits").read_text("ascii")
            line = [row for row in limits.splitlines() if row.startswith("Max open files")][0]
            self.assertEqual(*line.split()[3:5])


class UnixSocket(unittest.TestCase):
    def path(self, daemon):
        return daemon.folder / "api.sock"

    def test_serves_leaves_nothing_behind_and_clears_what_a_crash_left(self):
        with Daemon(api="unix:api.sock") as daemon:
            path = self.path(daemon)
            self.assertEqual(daemon.events("listening")[1]["address"], "unix:api.sock")
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o660)
            api = daemon.api
            api.address = f"unix:{path}"
            self.assertEqual(api.get("/v1/nothing").json()["code"], "not_found")
            daemon.kill()
            self.assertTrue(path.exists())
            daemon.log_path.unlink()
            daemon.start()
            daemon.expected_exit = 0
            self.assertEqual(api.get("/v1/nothing").status, 404)
            daemon.terminate()
            daemon.wait()
            self.assertFalse(path.exists())

    def test_a_socket_in_use_and_a_file_are_left_alone(self):
        with Daemon(api="unix:api.sock") as daemon:
            code, log, _ = refused(api=f"unix:{self.path(daemon)}")
            self.assertEqual(code, 1)
            self.assertIn("address in use", start_error(log)[0])
            self.assertTrue(self.path(daemon).exists())
            kept = daemon.folder / "notes"
            kept.write_text("mine")
            code, log, _ = refused(api=f"unix:{kept}")
            self.assertEqual(code, 1)
            self.assertIn("the path exists and is not a socket; remove it or choose another path",
                          start_error(log)[0])
            self.assertEqual(kept.read_text(), "mine")


class Paths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)
        cls.web = cls.daemon.web
        cls.api = cls.daemon.api

    def test_landing_page_is_at_the_root_only(self):
        reply = self.web.get("/")
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.header("Content-Type"), "text/html; charset=utf-8")
        self.assertIn("default-src 'none'", reply.header("Content-Security-Policy"))
        self.assertEqual(reply.header("X-Content-Type-Options"), "nosniff")
        self.assertIn('href="/metrics"', reply.text)
        self.assertIn('href="/-/healthy"', reply.text)
        for path in "/index.html", "//", "/nothing", "/metrics/", "/-/", "/-/quit":
            self.assertEqual(self.web.get(path).status, 404, path)
        self.assertEqual(self.web.get("/nothing").json()["detail"], "no such path")

    def test_the_telemetry_path_can_be_moved(self):
        with Daemon("--web.telemetry-path=/a/b") as daemon:
            self.assertEqual(daemon.web.get("/a/b").status, 200)
            self.assertEqual(daemon.web.get("/metrics").status, 404)
            self.assertIn('href="/a/b"', daemon.web.get("/").text)

    def test_probes(self):
        for path in "/-/healthy", "/-/ready":
            got = self.web.get(path)
            self.assertEqual(got.status, 200)
            head = self.web.head(path)
            self.assertEqual(head.status, 200)
            self.assertEqual(head.raw, b"")
            self.assertEqual(head.header("Content-Length"), got.header("Content-Length"))

    def test_methods(self):
        for method, path, allow in (("POST", "/metrics", "GET, HEAD, OPTIONS"),
                                    ("DELETE", "/-/healthy", "GET, HEAD, OPTIONS"),
                                    ("GET", "/-/reload", "POST, PUT, OPTIONS"),
                                    ("TRACE", "/", "GET, HEAD, OPTIONS")):
            reply = self.web.request(method, path)
            self.assertEqual(reply.status, 405, (method, path))
            self.assertEqual(reply.header("Allow"), allow)
        reply = self.web.request("OPTIONS", "/metrics")
        self.assertEqual((reply.status, reply.header("Allow")), (204, "GET, HEAD, OPTIONS"))
        self.assertEqual(self.web.request("OPTIONS", "/nothing").status, 404)

    def test_a_whole_url_as_the_target(self):
        host = self.web.address
        for target, status in ((f"http://{host}/-/healthy", 200), ("HTTP://x/-/ready?a=b", 200),
                               (f"https://{host}/metrics", 200), (f"http://{host}", 200),
                               (f"http://{host}?x=1", 200), ("http://x/%zz", 400),
                               ("http:///-/healthy", 400), ("ftp://x/-/healthy", 400),
                               ("http://x/nothing", 404)):
            self.assertEqual(self.web.request("GET", target).status, status, target)

    def test_malformed_paths(self):
        for path in "/%", "/%zz", "/metrics%00", "/-/%2":
            self.assertEqual(self.web.get(path).status, 400, path)
        self.assertEqual(self.web.get("/" + "x" * 2000).status, 404)
        self.assertEqual(self.web.get("/%6detrics").status, 200)

    def test_the_api_answers_with_problems(self):
        reply = self.api.get("/v1/nothing?x=%3Cscript%3E")
        self.assertEqual(reply.status, 404)
        self.assertEqual(reply.header("Content-Type"), "application/problem+json")
        self.assertTrue(reply.text.endswith('"not_found"}\n'), reply.text)
        self.assertEqual(reply.json(), {"type": "about:blank", "title": "Not Found", "status": 404,
                                        "detail": "no such path",
                                        "code": "not_found"})
        self.assertEqual(self.api.get("/").status, 404)
        self.assertEqual(self.api.get("/metrics").status, 404)

    def test_pages_of_other_origins_cannot_act(self):
        own = f"http://{self.web.address}"
        for headers, status in (({"Origin": "https://evil.example"}, 403),
                                ({"Sec-Fetch-Site": "cross-site"}, 403),
                                ({"Origin": own, "Sec-Fetch-Site": "same-origin"}, 200),
                                ({"Origin": own}, 200), ({}, 200)):
            reply = self.web.request("POST", "/-/reload", headers=headers)
            self.assertEqual(reply.status, status, headers)
        # Reading metrics is harmless; the API refuses browsers whatever they ask.
        self.assertEqual(self.web.get("/metrics", Origin="https://evil.example").status, 200)
        reply = self.api.get("/v1/nothing", Origin="https://evil.example")
        self.assertEqual((reply.status, reply.json()["code"]), (403, "cross_origin"))

    def test_connections_are_kept(self):
        connection = self.web.connection()
        for path in "/-/healthy", "/nothing", "/metrics", "/":
            exchange(connection, "GET", path)
        connection.close()
        with self.web.socket() as raw:  # two requests in one packet
            raw.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"
                        b"GET /-/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            everything = b"".join(iter(lambda: raw.recv(65536), b""))
        self.assertEqual(everything.count(b"HTTP/1.1 200 OK"), 2)
        self.assertIn(b"is healthy", everything)
        self.assertIn(b"is ready", everything)


class Reload(unittest.TestCase):
    def test_by_request(self):
        with Daemon(config=GOOD) as daemon:
            for method in "POST", "PUT":
                reply = daemon.web.request(method, "/-/reload")
                self.assertEqual((reply.status, reply.text),
                                 (200, "The configuration was reloaded.\n"))
            daemon.write_config(BAD)
            reply = daemon.reload()
            self.assertEqual(reply.status, 500)
            self.assertIn("urll", reply.text)
            self.assertIn("line 3", reply.text.replace(":3", " line 3"))
            kept = daemon.wait_for_event("config_reload_failed")
            self.assertIn("urll", kept["error"])
            daemon.write_config(GOOD)
            self.assertEqual(daemon.reload().status, 200)

    def test_by_signal(self):
        with Daemon(config=GOOD) as daemon:
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_event("config_reloaded")
            daemon.write_config(BAD)
            daemon.signal(signal.SIGHUP)
            daemon.wait_for_event("config_reload_failed")
            self.assertEqual(daemon.web.get("/-/ready").status, 200)

    def test_many_at_once(self):
        with Daemon(config=GOOD) as daemon:
            connections = [daemon.web.connection() for _ in range(20)]
            for connection in connections:
                connection.request("POST", "/-/reload")
            for connection in connections:
                self.assertEqual(connection.getresponse().status, 200)
                connection.close()

    def test_clients_that_leave_do_no_harm(self):
        with Daemon(config=GOOD) as daemon:
            for _ in range(50):
                with daemon.web.socket() as raw:
                    raw.sendall(b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            daemon.wait_for_event("config_reloaded")
            self.assertEqual(daemon.reload().status, 200)


class HeldRequest:
    """A request whose last byte is held back, to keep it in flight."""

    def __init__(self, http):
        self.raw = http.socket()
        self.raw.sendall(b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx")

    def finish(self):
        self.raw.sendall(b"x")
        reply = read_reply(self.raw)
        self.raw.close()
        return reply


class End(unittest.TestCase):
    def held(self, daemon):
        held = HeldRequest(daemon.web)
        self.addCleanup(held.raw.close)
        # The request is in flight once its headers were read; a probe behind it tells that the
        # loop came by, and the drain's first line then counts it.
        daemon.web.get("/-/healthy")
        return held

    def test_idle_it_ends_at_once(self):
        for number in signal.SIGTERM, signal.SIGINT:
            with Daemon("--shutdown.timeout=30s") as daemon:
                idle = daemon.web.connection()
                exchange(idle, "GET", "/-/healthy")
                daemon.signal(number)
                self.assertEqual(daemon.wait(), 0)
                idle.close()
                self.assertEqual(len(daemon.events("stopped")), 1)
                self.assertEqual(daemon.events("drain_timed_out"), [])

    def test_what_is_in_flight_is_finished_while_probes_say_503(self):
        with Daemon(config=GOOD) as daemon:
            web, api = daemon.web, daemon.api
            held = self.held(daemon)
            daemon.terminate()
            # the last probe's answer may not be off the books yet
            self.assertIn(daemon.wait_for_event("draining")["in_flight"], ("1", "2"))
            ready = web.get("/-/ready")
            self.assertEqual((ready.status, ready.json()["code"]), (503, "shutting_down"))
            self.assertEqual(web.get("/-/healthy").status, 200)
            self.assertEqual(web.get("/metrics").status, 200)
            eventually(lambda: refuses(api), "the API takes no new connections")
            self.assertTrue(daemon.is_running())
            self.assertEqual(held.finish().status, 200)
            self.assertEqual(daemon.wait(), 0)
            self.assertEqual(daemon.events("drain_timed_out"), [])

    def test_the_drain_is_in_force_before_the_log_says_so(self):
        """A log that is full keeps the drain from being told, and not from beginning."""
        reading, writing = os.pipe()
        daemon = Daemon(start=False)
        self.addCleanup(daemon.discard)
        log = self.enterContext(open(reading, encoding="utf-8"))
        process = subprocess.Popen(daemon.command, stdin=subprocess.DEVNULL, stderr=writing,
                                   env=daemon.env, cwd=daemon.folder)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        lines = [parse_line(log.readline())]
        while lines[-1]["event"] != "ready":
            lines.append(parse_line(log.readline()))
        web = Http(next(line["address"] for line in lines if line.get("listener") == "web"))
        fill(writing)
        process.terminate()
        eventually(lambda: web.get("/-/ready").status == 503, "it drains")
        os.close(writing)
        self.assertIn("event=draining ", log.read())
        self.assertEqual(process.wait(TIMEOUT), 0)

    def test_the_timeout_ends_what_does_not_finish(self):
        with Daemon("--shutdown.timeout=100ms") as daemon:
            self.held(daemon)
            daemon.terminate()
            self.assertEqual(daemon.wait(), 0)
            self.assertEqual(daemon.events("drain_timed_out")[0]["in_flight"], "1")

    def test_it_does_not_wait_for_those_who_poll_an_inbox(self):
        with Daemon("--shutdown.timeout=100ms", config="agents:\n  puller: {}\n") as daemon:
            pollers = [daemon.api.socket() for _ in range(3)]
            for raw in pollers:
                self.addCleanup(raw.close)
                # two requests in one packet: when the first is answered, the second is being read
                raw.sendall(b"GET /v1/agents HTTP/1.1\r\nHost: x\r\n\r\n"
                            b"GET /v1/agents/puller/inbox?wait=60s HTTP/1.1\r\nHost: x\r\n\r\n")
            for raw in pollers:
                self.assertEqual(read_reply(raw).status, 200)
            daemon.terminate()
            self.assertEqual(daemon.wait(), 0)
            self.assertEqual(len(daemon.events("stopped")), 1)

    def test_a_second_signal_ends_it_at_once(self):
        with Daemon("--shutdown.timeout=1h") as daemon:
            self.held(daemon)
            daemon.terminate()
            daemon.wait_for_event("draining")
            daemon.signal(signal.SIGINT)
            daemon.expected_exit = 1
            self.assertEqual(daemon.wait(), 1)
            self.assertEqual(daemon.events("stopped"), [])


def fill(pipe):
    """Until not one more byte fits; the next writer waits for a reader."""
    os.set_blocking(pipe, False)
    for size in 4096, 1:
        try:
            while True:
                os.write(pipe, b"\n" * size)
        except BlockingIOError:
            pass
    os.set_blocking(pipe, True)


def refuses(http):
    try:
        http.socket().close()
    except ConnectionRefusedError:
        return True
    return False


if __name__ == "__main__":
    unittest.main()
