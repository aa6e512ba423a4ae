# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""What systemd and the daemon tell each other: states, watchdog, inherited sockets."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from harness import Daemon, eventually
from harness.daemon import refused
from harness.http import Http

# As systemd does: the sockets become 3, 4, ... and LISTEN_PID is the process that is executed.
ACTIVATE = """
import os, sys
count = int(sys.argv[1])
os.environ["LISTEN_FDS"] = sys.argv[1]
if sys.argv[2]:
    os.environ["LISTEN_FDNAMES"] = sys.argv[2]
os.environ["LISTEN_PID"] = str(os.getpid())
fds = [os.dup2(fd, 100 + i) for i, fd in enumerate(map(int, sys.argv[3].split(",")))]
for i, fd in enumerate(fds):
    os.dup2(fd, 3 + i, inheritable=True)
os.execv(sys.argv[4], sys.argv[4:])
"""


class Activated(Daemon):
    """A daemon that was handed listening sockets."""

    def __init__(self, sockets, names, *options, **arguments):
        super().__init__("--web.systemd-socket", *options, start=False,
                         pass_fds=[s.fileno() for s in sockets], **arguments)
        self.command = [sys.executable, "-c", ACTIVATE, str(len(sockets)), names,
                        ",".join(str(s.fileno()) for s in sockets)] + self.command
        self.start()


class Notified:
    """A notification socket; an abstract one where `abstract`."""

    def __init__(self, test, abstract=False):
        folder = tempfile.TemporaryDirectory(prefix="handoff-test-")
        test.addCleanup(folder.cleanup)
        path = str(pathlib.Path(folder.name) / "notify")
        self.name = "@" + path if abstract else path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        test.addCleanup(self.socket.close)
        self.socket.bind("\0" + path if abstract else path)
        self.socket.settimeout(30)

    def next(self):
        """The next state, as a dict."""
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())


class Notify(unittest.TestCase):
    def test_ready_reloading_stopping(self):
        for abstract in False, True:
            notified = Notified(self, abstract)
            with Daemon(env={"NOTIFY_SOCKET": notified.name}) as daemon:
                self.assertEqual(notified.next(), {"READY": "1"})
                daemon.signal(signal.SIGHUP)
                reloading = notified.next()
                self.assertEqual(reloading.pop("RELOADING"), "1")
                now = time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6
                self.assertAlmostEqual(int(reloading.pop("MONOTONIC_USEC")), now, delta=30e6)
                self.assertEqual(reloading, {})
                self.assertEqual(notified.next(), {"READY": "1"})
                daemon.terminate()
                self.assertEqual(notified.next(), {"STOPPING": "1"})

    def test_nobody_there(self):
        with Daemon(env={"NOTIFY_SOCKET": "/nowhere/at/all"}) as daemon:
            self.assertEqual(daemon.web.get("/-/ready").status, 200)

    def test_watchdog(self):
        notified = Notified(self)
        with Daemon(env={"NOTIFY_SOCKET": notified.name, "WATCHDOG_USEC": "100000"}):
            states = [notified.next() for _ in range(5)]
            self.assertIn({"READY": "1"}, states)
            self.assertGreaterEqual(states.count({"WATCHDOG": "1"}), 4)

    def test_a_watchdog_for_another_process(self):
        notified = Notified(self)
        with Daemon(env={"NOTIFY_SOCKET": notified.name, "WATCHDOG_USEC": "1000",
                         "WATCHDOG_PID": "1"}) as daemon:
            self.assertEqual(notified.next(), {"READY": "1"})
            daemon.terminate()
            self.assertEqual(notified.next(), {"STOPPING": "1"})


def listening():
    made = socket.create_server(("127.0.0.1", 0))
    return made, f"127.0.0.1:{made.getsockname()[1]}"


class SocketActivation(unittest.TestCase):
    def setUp(self):
        self.web, self.web_address = listening()
        self.api, self.api_address = listening()
        self.addCleanup(self.web.close)
        self.addCleanup(self.api.close)

    def test_both_by_name(self):
        with Activated([self.api, self.web], "api:web") as daemon:
            self.assertEqual(daemon.web.address, self.web_address)
            self.assertEqual(daemon.api.address, self.api_address)
            self.assertEqual(daemon.web.get("/-/healthy").status, 200)
            for _ in range(20):  # every API loop has its copy of the socket
                self.assertEqual(daemon.api.get("/v1/x").status, 404)

    def test_one_without_a_name_is_the_web(self):
        with Activated([self.web], "") as daemon:
            self.assertEqual(daemon.web.address, self.web_address)
            self.assertNotEqual(daemon.api.address, self.web_address)

    def test_who_connects_before_the_start_is_answered(self):
        early = Http(self.web_address).connection()
        early.request("GET", "/-/healthy")
        with Activated([self.web], "web"):
            self.assertEqual(early.getresponse().status, 200)
            early.close()

    def test_a_unix_socket(self):
        with tempfile.TemporaryDirectory(prefix="handoff-test-") as folder:
            path = f"{folder}/api.sock"
            with socket.socket(socket.AF_UNIX) as api:
                api.bind(path)
                api.listen()
                with Activated([self.web, api], "web:api") as daemon:
                    self.assertEqual(daemon.api.get("/v1/x").status, 404)
                self.assertTrue(os.path.exists(path), "the path is systemd's to remove")

    def test_no_socket_is_an_error(self):
        code, log, _ = refused("--web.systemd-socket")
        self.assertEqual(code, 1)
        self.assertIn("systemd passed no web socket; start the socket unit, or remove "
                      "--web.systemd-socket", log)

    def test_sockets_of_another_process_are_not_taken(self):
        with Daemon(env={"LISTEN_PID": "1", "LISTEN_FDS": "1"}) as daemon:
            self.assertEqual(daemon.web.get("/-/healthy").status, 200)


class Units(unittest.TestCase):
    def test_systemd_takes_the_units(self):
        folder = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "packaging" / "systemd"
        names = sorted(path.name for path in folder.iterdir())
        self.assertEqual(names, ["handoff-exporter-api.socket", "handoff-exporter-web.socket",
                                 "handoff-exporter.service"])
        service = (folder / "handoff-exporter.service").read_text()
        self.assertIn("Type=notify", service)
        self.assertIn("FileDescriptorName=api", (folder / names[0]).read_text())
        self.assertIn("FileDescriptorName=web", (folder / names[1]).read_text())
        try:
            checked = subprocess.run(["systemd-analyze", "--version"], check=False,
                                     capture_output=True)
        except FileNotFoundError:
            self.skipTest("there is no systemd-analyze here")
        self.assertEqual(checked.returncode, 0)


if __name__ == "__main__":
    unittest.main()
