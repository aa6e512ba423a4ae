# SPDX-License-Identifier: Apache-2.0
"""Who may reload over the web listener: this machine, who shows credentials, and no page."""

import base64
import pathlib
import re
import socket
import tempfile
import unittest

from harness import Daemon, eventually
from harness.http import Http, exchange
from test_systemd import Activated

PAGE = {"Host": "evil.example:9780", "Origin": "http://evil.example:9780",
        "Sec-Fetch-Site": "same-origin"}
SECRET = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"  # "secret", as bcrypt
PASSWORD = f"basic_auth_users:\n  ops: {SECRET}\n"
LOCAL_V4 = re.compile(r"-- (\S+)\n\s+/32 host LOCAL")


def other_addresses():
    """Addresses of this machine that are not loopback, as written in a URL."""
    found = {address for address in LOCAL_V4.findall(read("/proc/net/fib_trie"))
             if not address.startswith("127.")}
    for line in read("/proc/net/if_inet6").splitlines():
        address, _, _, scope, _, _ = line.split()
        if scope == "00":
            found.add(f"[{socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address))}]")
    return sorted(found)


def read(path):
    try:
        return pathlib.Path(path).read_text("ascii")
    except OSError:
        return ""


OTHERS = other_addresses()


class Case(unittest.TestCase):
    def daemon(self, *options, **more):
        daemon = self.enterContext(Daemon(*options, web=":0", **more))
        self.port = daemon.web.port
        return daemon

    def reload(self, host, method="POST", **headers):
        http = Http(f"{host}:{self.port}")
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return http.request(method, "/-/reload", headers=headers)

    def check_refused(self, reply, code, word):
        self.assertEqual((reply.status, reply.header("Content-Type")),
                         (403, "application/problem+json"), reply)
        self.assertEqual(reply.json()["code"], code)
        self.assertIn(word, reply.json()["detail"])


class FromHere(Case):
    def test_any_loopback_address_reloads(self):
        self.daemon()
        for host in "127.0.0.1", "127.0.0.2", "[::1]":
            for method in "POST", "PUT":
                self.assertEqual(self.reload(host, method).status, 200, host)

    def test_names_of_this_machine_reload(self):
        self.daemon()
        for name in "localhost", "sidecar", "a.localhost", "127.0.0.1", "[::1]", "10.0.0.1":
            self.assertEqual(self.reload("127.0.0.1", Host=f"{name}:9780").status, 200, name)

    def test_a_page_whose_name_was_rebound_does_not(self):
        daemon = self.daemon()
        self.check_refused(self.reload("127.0.0.1", **PAGE), "cross_origin", "name this machine")
        # an old browser, which sends its name and nothing else
        self.check_refused(self.reload("127.0.0.1", Host="evil.example"), "cross_origin",
                           "name this machine")
        refused = daemon.wait_for_event("change_refused", 2)
        self.assertEqual((refused["reason"], refused["path"]), ("cross_origin", "/-/reload"))
        self.assertEqual(daemon.events("configuration_reloaded"), [])

    def test_through_a_proxy_is_not_from_here(self):
        self.daemon()
        for header in ({"Forwarded": "for=192.0.2.60"}, {"X-Forwarded-For": "192.0.2.60"},
                       {"Via": "1.1 proxy"}):
            self.check_refused(self.reload("127.0.0.1", **header), "forbidden", "proxy")

    def test_a_scrape_comes_by_any_name_from_anywhere(self):
        daemon = self.daemon()
        for host in ["127.0.0.1", *OTHERS]:
            http = Http(f"{host}:{self.port}")
            for headers in ({}, {"Host": "metrics.example.com"}, PAGE, {"Via": "1.1 proxy"}):
                for path in "/metrics", "/-/healthy", "/-/ready", "/":
                    self.assertEqual(http.request("GET", path, headers=headers).status, 200)
        self.assertEqual(daemon.events("change_refused"), [])


@unittest.skipUnless(OTHERS, "this machine has no address but loopback")
class FromElsewhere(Case):
    def test_refused_without_credentials(self):
        daemon = self.daemon()
        for host in OTHERS:
            self.check_refused(self.reload(host), "forbidden", "--web.enable-lifecycle")
            self.check_refused(self.reload(host, "PUT"), "forbidden", "basic_auth_users")
        self.assertEqual(daemon.events("configuration_reloaded"), [])

    def test_what_is_not_there_is_told_as_such(self):
        self.daemon()
        for host in OTHERS:
            http = Http(f"{host}:{self.port}")
            self.assertEqual(http.post("/nothing").status, 404)
            self.assertEqual(http.post("/metrics").status, 405)
            self.assertEqual(http.get("/-/reload").status, 405)

    def test_with_a_password(self):
        self.daemon(web_config=PASSWORD)
        good = "Basic " + base64.b64encode(b"ops:secret").decode()
        for host in ["127.0.0.1", *OTHERS]:
            for headers in ({}, {"Host": "metrics.example.com"}, {"Via": "1.1 proxy"}):
                self.assertEqual(self.reload(host, Authorization=good, **headers).status, 200)
                self.assertEqual(self.reload(host, **headers).status, 401)

    def test_a_password_that_is_set_later_is_in_force(self):
        daemon = self.daemon(web_config="{}\n")
        good = "Basic " + base64.b64encode(b"ops:secret").decode()
        self.assertEqual(self.reload(OTHERS[0], Authorization=good).status, 403)
        daemon.write_web_config(PASSWORD)
        eventually(lambda: self.reload(OTHERS[0], Authorization=good).status == 200, "it reloads")

    def test_with_the_option_as_in_prometheus(self):
        self.daemon("--web.enable-lifecycle")
        for host in ["127.0.0.1", *OTHERS]:
            for headers in ({}, {"Host": "handoff.monitoring.svc:9780"}, {"Via": "1.1 proxy"}):
                self.assertEqual(self.reload(host, **headers).status, 200, (host, headers))
            self.check_refused(self.reload(host, **PAGE), "cross_origin", "name this machine")
            self.check_refused(self.reload(host, Origin="https://evil.example"), "cross_origin",
                               "cross-origin")


class UnixSocket(unittest.TestCase):
    def test_who_reaches_the_socket_is_here(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="handoff-test-"))
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"{folder}/web")
            listening.listen()
            with Activated([listening], "web", web=None):
                connection = Http(f"unix:{folder}/web").connection()
                self.assertEqual(exchange(connection, "POST", "/-/reload").status, 200)
                self.assertEqual(exchange(connection, "GET", "/metrics").status, 200)
                connection.close()


if __name__ == "__main__":
    unittest.main()
