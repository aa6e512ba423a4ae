# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Agents whose address is a name: hosts with several addresses, and name servers that are slow.

The daemon runs in its own mount namespace with its own /etc/hosts and /etc/resolv.conf; the
names, the sockets and the name server are real.
"""

import contextlib
import os
import pathlib
import random
import shlex
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

from harness import Receiver, eventually
from harness.agents import Caller, daemon_with
from harness.authority import Authority
from harness.daemon import EXPORTER
from harness.receiver import ack

UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else \
    ["unshare", "--user", "--map-root-user", "--mount"]
MANY = 100


def can_unshare():
    done = subprocess.run([*UNSHARE, "mount", "--bind", "/etc/hosts", "/etc/hosts"], check=False,
                          stderr=subprocess.DEVNULL)
    return done.returncode == 0 and pathlib.Path("/etc/resolv.conf").exists()


def mount(path, at):
    return f"mount --bind {shlex.quote(str(path))} {at}"


def program(folder, authorities=None, **files):
    """A program that is the daemon, and that sees these files in /etc; a process id stays the same.
    authorities: a folder with those that the system trusts"""
    mounts = []
    for name, text in files.items():
        path = folder / name
        path.write_text(text)
        mounts.append(mount(path, f"/etc/{name.replace('_', '.')}"))
    if authorities:
        mounts.append(mount(authorities, "/etc/ssl/certs"))
    script = folder / "daemon"
    inside = " && ".join([*mounts, f'exec {shlex.quote(str(EXPORTER))} "$@"'])
    script.write_text(f"#!/bin/sh\nexec {shlex.join(UNSHARE)} sh -c {shlex.quote(inside)} sh \"$@\"\n")
    script.chmod(0o755)
    return str(script)


class NameServer:
    """Answers nothing until it is released; then each name is at 127.0.0.1."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # port 53 is the only one that resolv.conf can name; on an address that no one else uses
        for _ in range(20):
            self.address = f"127.{random.randint(64, 254)}.{random.randint(1, 254)}.{random.randint(1, 254)}"
            with contextlib.suppress(OSError):
                self.socket.bind((self.address, 53))
                break
        else:
            raise unittest.SkipTest("port 53 cannot be bound")
        self.questions = []
        self.released = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):  # until it is closed
            while True:
                question, client = self.socket.recvfrom(512)
                self.questions.append(question)
                threading.Thread(target=self.answer, args=(question, client), daemon=True).start()

    def answer(self, question, client):
        self.released.wait()
        end = question.index(b"\0", 12) + 5
        kind = int.from_bytes(question[end - 4:end - 2], "big")
        found = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\1" if kind == 1 else b""
        head = question[:2] + b"\x81\x80\0\1" + (b"\0\1" if found else b"\0\0") + b"\0\0\0\0"
        with contextlib.suppress(OSError):
            self.socket.sendto(head + question[12:end] + found, client)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.released.set()
        self.socket.close()


@unittest.skipUnless(can_unshare(), "no mount namespaces here")
class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.authority = Authority(cls.folder)
        certificate = cls.authority.issue("named", "DNS:https.test")
        cls.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        cls.context.load_cert_chain(*certificate)

    def start(self, ca_file=None, **files):
        """A receiver over http and one over https, each under a name; ca_file: "" for the system's"""
        ca_file = self.authority.path if ca_file is None else ca_file
        self.receivers = {"http": self.enterContext(Receiver(ack)),
                          "https": self.enterContext(Receiver(ack, tls=self.context))}
        agents = {scheme: {"url": f"{scheme}://{scheme}.test:{receiver.server.server_port}/",
                           "timeout": "60s", "retries": 0,
                           **({"tls": {"ca_file": str(ca_file)}} if ca_file else {})}
                  for scheme, receiver in self.receivers.items()}
        self.daemon = self.enterContext(
            daemon_with(agents, program=program(self.folder, **files)))
        self.caller = Caller(self.daemon)

    def assert_reached(self, scheme, hosts):
        self.start(hosts=hosts)
        reply = self.caller.send(scheme)
        self.assertEqual(reply.status, 200, reply)
        attempt = self.attempt_of(reply.json()["id"])
        port = self.receivers[scheme].server.server_port
        self.assertEqual((attempt["result"], attempt["peer"]), ("ack", f"127.0.0.1:{port}"))

    def test_a_family_that_refuses(self):
        for scheme in ("http", "https"):
            with self.subTest(scheme=scheme):
                self.assert_reached(scheme, f"::1 {scheme}.test\n127.0.0.1 {scheme}.test\n")

    def test_addresses_that_drop_what_is_sent_to_them(self):
        for scheme in ("http", "https"):
            with self.subTest(scheme=scheme), contextlib.ExitStack() as stack:
                self.start(hosts="")
                port = self.receivers[scheme].server.server_port
                dropping = [stack.enter_context(full(f"127.{i}.{random.randint(1, 254)}.1", port))
                            for i in range(2, 10)]
                (self.folder / "hosts").write_text("".join(
                    f"{address} {scheme}.test\n" for address in [*dropping, "127.0.0.1"]))
                reply = self.caller.send(scheme)
                self.assertEqual(reply.status, 200, reply)
                self.assertEqual(self.attempt_of(reply.json()["id"])["result"], "ack")

    def test_a_slow_name_takes_one_thread(self):
        server = self.enterContext(NameServer())
        self.start(hosts="", resolv_conf=f"nameserver {server.address}\noptions timeout:30 attempts:1\n")
        before = self.threads()
        sent = [self.caller.send_async(scheme, task_id=f"task-{i}")
                for i in range(MANY) for scheme in ("http", "https")]
        eventually(lambda: len(self.names_asked(server)) == 2, "both names are asked for")
        self.assertLessEqual(self.threads(), before + 2)
        server.released.set()
        for handoff in sent:
            attempt = self.attempt_of(handoff)
            self.assertEqual(attempt["result"], "ack", attempt)
        self.assertEqual(len(server.questions), 4, "an address of either family, once for each name")

    def test_a_ca_file_takes_the_place_of_the_systems(self):
        other, trusted = Authority(self.folder, "other"), self.folder / "certs"
        trusted.mkdir()
        hashed = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", self.authority.path],
                                check=True, capture_output=True, text=True).stdout.strip()
        for name in ("ca-certificates.crt", f"{hashed}.0"):
            (trusted / name).write_text(self.authority.path.read_text())
        for ca_file, code in (("", 200), (other.path, 502)):
            self.start(ca_file, hosts="127.0.0.1 https.test\n", authorities=trusted)
            reply = self.caller.send("https")
            self.assertEqual(reply.status, code, reply)
        attempt = self.attempt_of(reply.json()["handoff"]["id"])
        self.assertRegex(attempt["error"], "^TLS handshake failed")

    def attempt_of(self, handoff):
        """The only one, once it is written."""
        [attempt] = eventually(lambda: self.caller.attempts(handoff), "its attempt is written")
        return attempt

    def threads(self):
        return len(os.listdir(f"/proc/{self.daemon.process.pid}/task"))

    @staticmethod
    def names_asked(server):
        return {question[12:question.index(b"\0", 12)] for question in server.questions}


@contextlib.contextmanager
def full(address, port):
    """A listener whose queue is full, so that the kernel drops what else would connect."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((address, port))
        listener.listen(0)
        while True:
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0.1)
            try:
                filler.connect((address, port))
            except TimeoutError:
                break
        yield address


if __name__ == "__main__":
    unittest.main()
