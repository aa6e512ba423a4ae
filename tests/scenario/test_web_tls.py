# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""The web configuration file at work: TLS, client certificates, rotation, passwords, headers."""

import base64
import pathlib
import shutil
import socket
import ssl
import tempfile
import unittest

from harness import Daemon, eventually
from harness.authority import Authority
from harness.daemon import parse_line, refused
from harness.http import exchange


def setUpModule():
    global FOLDER, CA, OTHER_CA, SERVER, CLIENT, STRANGER
    FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="handoff-test-tls-"))
    unittest.addModuleCleanup(shutil.rmtree, FOLDER, ignore_errors=True)
    CA, OTHER_CA = Authority(FOLDER), Authority(FOLDER, "other-ca")
    SERVER = CA.issue("server", "IP:127.0.0.1")
    CLIENT = CA.issue("client", "DNS:prometheus.example,IP:10.0.0.1", "clientAuth")
    STRANGER = OTHER_CA.issue("stranger", "DNS:prometheus.example", "clientAuth")


def tls_section(cert=None, key=None, **more):
    lines = ["tls_server_config:", f"  cert_file: {cert or SERVER[0]}",
             f"  key_file: {key or SERVER[1]}"]
    lines += [f"  {name}: {value}" for name, value in more.items()]
    return "\n".join(lines) + "\n"


def context(client=None, ca=None, minimum=None, maximum=None):
    made = ssl.create_default_context(cafile=str((ca or CA).path))
    if client:
        made.load_cert_chain(*map(str, client))
    if minimum:
        made.minimum_version = minimum
    if maximum:
        made.maximum_version = maximum
    return made


def serial_of(http):
    with socket.create_connection((http.host, http.port), timeout=30) as raw:
        with context().wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
            return wrapped.getpeercert()["serialNumber"]


def is_answered(daemon, **arguments):
    """Whether a request with this client context gets through TLS."""
    http = daemon.web
    http.tls = context(**arguments)
    try:
        return http.get("/-/healthy").status == 200
    except (ssl.SSLError, ConnectionError):
        return False


def everything(raw):
    """What comes until the connection ends, however it ends."""
    received = b""
    try:
        while piece := raw.recv(65536):
            received += piece
    except ConnectionError:
        pass
    return received


class Tls(unittest.TestCase):
    def test_requests_over_tls(self):
        with Daemon("--web.read-timeout=5s", web_config=tls_section(), tls=context()) as daemon:
            self.assertEqual(daemon.web.get("/-/healthy").status, 200)
            self.assertEqual(daemon.web.get("/metrics", accept_encoding="gzip").status, 200)
            connection = daemon.web.connection()
            for _ in range(3):
                self.assertEqual(exchange(connection, "GET", "/metrics").status, 200)
            self.assertEqual(exchange(connection, "POST", "/-/reload").status, 200)
            connection.close()
            with daemon.web.socket() as plain:
                plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertNotIn(b"HTTP/1.1 200", everything(plain))
            self.assertEqual(daemon.api.get("/v1/nothing").status, 404)  # the API has its own rules

    def test_versions(self):
        old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
        for more, takes_old, takes_new in (({}, True, True),
                                           ({"min_version": "TLS13"}, False, True),
                                           ({"max_version": "TLS12"}, True, False)):
            with Daemon(web_config=tls_section(**more)) as daemon:
                self.assertEqual(is_answered(daemon, maximum=old), takes_old, more)
                self.assertEqual(is_answered(daemon, minimum=new), takes_new, more)

    def test_cipher_suites_and_curves(self):
        more = {"cipher_suites": "[TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]", "max_version": "TLS12",
                "curve_preferences": "[CurveP384]"}
        with Daemon(web_config=tls_section(**more)) as daemon:
            http = daemon.web
            with socket.create_connection((http.host, http.port), timeout=30) as raw:
                with context().wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
                    self.assertEqual(wrapped.cipher()[0], "ECDHE-ECDSA-AES256-GCM-SHA384")
            other = context()
            other.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
            http.tls = other
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                http.get("/-/healthy")
            other = context()
            other.set_ecdh_curve("prime256v1")
            http.tls = other
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                http.get("/-/healthy")

    def test_inline_certificate(self):
        def indented(path):
            return "|\n" + "".join(f"    {line}\n" for line in path.read_text().splitlines())
        text = (f"tls_server_config:\n  cert: {indented(SERVER[0])}"
                f"  key: {indented(SERVER[1])}")
        with Daemon(web_config=text, tls=context()) as daemon:
            self.assertEqual(daemon.web.get("/-/healthy").status, 200)


class ClientCertificates(unittest.TestCase):
    def answers(self, **more):
        """Whether a client is answered without a certificate, with a good, with a strange one."""
        with Daemon(web_config=tls_section(**more)) as daemon:
            return tuple(is_answered(daemon, client=client) for client in (None, CLIENT, STRANGER))

    def test_each_type(self):
        ca = {"client_ca_file": CA.path}
        for kind, more, expected in (
                ("NoClientCert", {}, (True, True, True)),
                ("RequestClientCert", {}, (True, True, True)),
                ("RequireAnyClientCert", {}, (False, True, True)),
                ("VerifyClientCertIfGiven", ca, (True, True, False)),
                ("RequireAndVerifyClientCert", ca, (False, True, False))):
            self.assertEqual(self.answers(client_auth_type=kind, **more), expected, kind)

    def test_each_type_under_tls_1_2(self):
        more = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": CA.path,
                "max_version": "TLS12"}
        self.assertEqual(self.answers(**more), (False, True, False))

    def test_a_server_certificate_is_no_client_certificate(self):
        more = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": CA.path}
        with Daemon(web_config=tls_section(**more)) as daemon:
            self.assertFalse(is_answered(daemon, client=SERVER))

    def test_allowed_names(self):
        for names, expected in (("[prometheus.example]", True), ("[10.0.0.1]", True),
                                ("[other.example, Prometheus.Example]", True),
                                ("[other.example]", False), ("[10.0.0.2]", False)):
            more = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": CA.path,
                    "client_allowed_sans": names}
            with Daemon(web_config=tls_section(**more)) as daemon:
                self.assertEqual(is_answered(daemon, client=CLIENT), expected, names)


class Rotation(unittest.TestCase):
    def setUp(self):
        self.cert, self.key = FOLDER / "rotating.crt", FOLDER / "rotating.key"
        shutil.copy(SERVER[0], self.cert)
        shutil.copy(SERVER[1], self.key)

    def replace(self, pair):
        for source, target in zip(pair, (self.cert, self.key)):
            new = target.with_suffix(".new")
            shutil.copy(source, new)
            new.replace(target)

    def test_new_files_serve_new_connections_and_old_ones_live_on(self):
        renewed = CA.issue("renewed", "IP:127.0.0.1")
        with Daemon(web_config=tls_section(self.cert, self.key), tls=context()) as daemon:
            first = serial_of(daemon.web)
            kept = daemon.web.connection()
            exchange(kept, "GET", "/-/healthy")
            self.replace(renewed)
            eventually(lambda: serial_of(daemon.web) != first, "the new certificate is served")
            self.assertEqual(exchange(kept, "GET", "/-/healthy").status, 200)
            kept.close()

    def test_a_bad_file_keeps_the_old_certificate_and_is_told_once(self):
        with Daemon(web_config=tls_section(self.cert, self.key), tls=context()) as daemon:
            first = serial_of(daemon.web)
            self.cert.write_text("not a certificate\n")
            eventually(lambda: serial_of(daemon.web) == first and
                       daemon.events("web_config_reload_failed"), "the bad file was seen")
            shutil.copy(SERVER[0], self.cert)
            eventually(lambda: serial_of(daemon.web) and daemon.events("certificates_reloaded"),
                       "the good file was seen")
            self.assertEqual(len(daemon.events("web_config_reload_failed")), 1)
            self.assertEqual(serial_of(daemon.web), first)

    def test_a_key_that_comes_later_than_its_certificate(self):
        renewed = CA.issue("renewed-late", "IP:127.0.0.1")
        with Daemon(web_config=tls_section(self.cert, self.key), tls=context()) as daemon:
            first = serial_of(daemon.web)
            shutil.copy(renewed[0], self.cert)
            eventually(lambda: serial_of(daemon.web) and daemon.events("web_config_reload_failed"),
                       "the certificate without its key was seen")
            shutil.copy(renewed[1], self.key)
            eventually(lambda: serial_of(daemon.web) != first, "both are served")


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Passwords(unittest.TestCase):

    # bcrypt, as htpasswd -nBC makes it: the password, and how much work it is
    secret = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"  # "secret", cost 5
    other = "$2y$05$abcdefghijklmnopqrstuuVQd15VhR/oN1H3pzUR5lME0fZO6.qRW"  # "other", cost 5
    slow = "$2y$10$abcdefghijklmnopqrstuuqflPDzB6gcMhKa1rZqKiun2YGL5sa2u"  # "secret", cost 10
    slower = "$2y$12$abcdefghijklmnopqrstuuT1Iwu6o8Wx7BoOyIMHfgVJq6JO/IJhW"  # "secret", cost 12

    def users(self, **users):
        return "basic_auth_users:\n" + "".join(f"  {name}: {value}\n"
                                               for name, value in users.items())

    def hashed(self, daemon):
        return len(daemon.events("password_hashed"))

    def status(self, daemon, *credentials, path="/metrics"):
        headers = {"Authorization": basic(*credentials)} if credentials else {}
        return daemon.web.request("GET", path, headers=headers).status

    def test_who_comes_in(self):
        with Daemon(web_config=self.users(alice=self.secret)) as daemon:
            reply = daemon.web.get("/metrics")
            self.assertEqual((reply.status, reply.header("WWW-Authenticate")), (401, "Basic"))
            for path in "/", "/-/healthy", "/nothing":
                self.assertEqual(self.status(daemon, path=path), 401)
            self.assertEqual(self.status(daemon, "alice", "secret"), 200)
            self.assertEqual(self.status(daemon, "alice", "Secret"), 401)
            self.assertEqual(self.status(daemon, "alice", ""), 401)
            self.assertEqual(self.status(daemon, "bob", "secret"), 401)
            self.assertEqual(self.status(daemon, "", ""), 401)
            for header in "Basic", "Basic !", "Basic YWxpY2U=", "Bearer x", "Basic " + "A" * 4000:
                self.assertEqual(daemon.web.get("/", Authorization=header).status, 401, header)
            self.assertEqual(daemon.api.get("/v1/nothing").status, 404)

    def test_an_unknown_user_costs_as_much_as_a_wrong_password(self):
        with Daemon("--log.level=debug", web_config=self.users(alice=self.secret)) as daemon:
            for count, credentials in enumerate((("alice", "wrong"), ("nobody", "wrong"),
                                                 ("alice", "secret"), ("nobody", "secret")), 1):
                for _ in range(3):  # the second and third are remembered, regardless of the client
                    self.status(daemon, *credentials)
                    self.assertEqual(self.hashed(daemon), count, credentials)

    def test_a_changed_file_is_in_force_without_a_reload(self):
        with Daemon(web_config=self.users(alice=self.secret)) as daemon:
            self.assertEqual(self.status(daemon, "alice", "secret"), 200)
            daemon.write_web_config(self.users(alice=self.other))
            eventually(lambda: self.status(daemon, "alice", "secret") == 401, "the old is refused")
            self.assertEqual(self.status(daemon, "alice", "other"), 200)
            daemon.write_web_config("basic_auth_usersss: {}\n")
            eventually(lambda: self.status(daemon, "alice", "other") == 200 and
                       daemon.events("web_config_reload_failed"), "the bad file was seen")
            self.assertEqual(self.status(daemon, "alice", "other"), 200)

    def test_hashing_stalls_nobody(self):
        # While sixty wrong passwords are being checked, a known user is answered.
        with Daemon("--log.level=debug", "--shutdown.timeout=100ms",
                    web_config=self.users(alice=self.slow)) as daemon:
            self.assertEqual(self.status(daemon, "alice", "secret"), 200)
            waiting = [daemon.web.connection() for _ in range(60)]
            for number, connection in enumerate(waiting):
                connection.request("GET", "/", headers={
                    "Authorization": basic("alice", f"wrong {number}")})
            before = self.hashed(daemon)
            self.assertEqual(self.status(daemon, "alice", "secret"), 200)
            self.assertLess(self.hashed(daemon), 61, "the answer did not wait for all of them")
            self.assertGreaterEqual(before, 1)
            for connection in waiting[:30]:
                connection.close()  # some leave meanwhile, and the daemon ends with others waiting
            self.addCleanup(lambda: [connection.close() for connection in waiting])

    def test_the_queue_is_bounded(self):
        with Daemon("--shutdown.timeout=100ms",
                    web_config=self.users(alice=self.slower)) as daemon:
            connections = [daemon.web.connection() for _ in range(100)]
            for number, connection in enumerate(connections):
                connection.request("GET", "/", headers={
                    "Authorization": basic("alice", f"wrong {number}")})
            self.assertEqual(connections[-1].getresponse().status, 503)
            for connection in connections:
                connection.close()


class Headers(unittest.TestCase):
    def test_every_answer_carries_them(self):
        config = ("http_server_config:\n  headers:\n    X-Frame-Options: deny\n"
                  "    Strict-Transport-Security: max-age=31536000\n")
        with Daemon(web_config=config) as daemon:
            for path in "/", "/metrics", "/nothing":
                reply = daemon.web.get(path)
                self.assertEqual(reply.header("X-Frame-Options"), "deny")
                self.assertEqual(reply.header("Strict-Transport-Security"), "max-age=31536000")
            self.assertIsNone(daemon.api.get("/v1/x").header("X-Frame-Options"))

    def test_rate_limit(self):
        with Daemon(web_config="rate_limit: {interval: 1h, burst: 3}\n") as daemon:
            self.assertEqual([daemon.web.get("/-/healthy").status for _ in range(4)],
                             [200, 200, 200, 429])


class Refused(unittest.TestCase):
    def test_a_broken_file_ends_the_start(self):
        code, log, folder = refused(web_config="tls_server_confg: {}\n")
        errors = [parse_line(line).get("error") for line in log.splitlines()]
        self.assertEqual(code, 1)
        self.assertIn(f"{folder}/web.yml:1:1: tls_server_confg: unknown key, did you mean "
                      "tls_server_config?", errors)

    def test_files_that_do_not_fit_together(self):
        code, log, _ = refused(web_config=tls_section(SERVER[0], CLIENT[1]))
        self.assertEqual(code, 1)
        self.assertIn("are not a certificate and its key", log)

    def test_turning_tls_on_needs_a_restart(self):
        with Daemon(web_config="") as daemon:
            daemon.write_web_config(tls_section())
            eventually(lambda: daemon.web.get("/-/healthy").status == 200 and
                       daemon.events("web_config_reload_failed"), "the file was seen")
            self.assertIn("needs a restart", daemon.events("web_config_reload_failed")[0]["error"])


if __name__ == "__main__":
    unittest.main()
