# SPDX-License-Identifier: Apache-2.0
"""Starting, watching and stopping the programs of the demo.

Each runs in a temporary directory, with its output in a file, in a separate session (so Ctrl-C in the
terminal reaches only the demo, which stops them in order), and dies with the demo even if that is killed.
"""

import ctypes
import os
import re
import signal
import socket
import subprocess
import time

START_TIMEOUT = 60
END_TIMEOUT = 20
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
CLAIMS = []     # held until this process ends


class Failed(Exception):
    """A program that did not start, or that exited unexpectedly."""


def claim(port):
    """Reserves a port among demos: between our probe and the moment the program listens, another demo
    may probe the same port. An abstract socket, so a killed demo leaves no claim."""
    mark = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        mark.bind(f"\0handoff-demo-port-{port}")
    except OSError:
        mark.close()
        return False
    CLAIMS.append(mark)
    return True


def free_port(port):
    """That port if it is free on every address, else one the system picks; never one claimed by another demo."""
    for wanted in port, 0, 0, 0:    # the port the system picks may be claimed too
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", wanted))
            except OSError:
                continue
            found = probe.getsockname()[1]
            if claim(found):
                return found
    raise Failed("the system has no free port")


class Program:
    """name: for messages. ready: a regular expression for its log."""

    def __init__(self, name, command, folder, ready, environment=None):
        self.name = name
        self.log_path = folder / f"{name}.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=folder, env={**os.environ, **(environment or {})},
                                            start_new_session=True, preexec_fn=self._die_with_us)
        self.ready = re.compile(ready)
        self.start_deadline = time.monotonic() + START_TIMEOUT

    @staticmethod
    def _die_with_us():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def is_ready(self):
        """Raises Failed if it has exited or takes too long."""
        self.check()
        if self.ready.search(self.log()):
            return True
        if time.monotonic() > self.start_deadline:
            raise Failed(f"{self.name} is not ready after {START_TIMEOUT} s; its log ends\n{self.tail()}")
        return False

    def check(self):
        """Raises Failed if it has exited."""
        code = self.process.poll()
        if code is not None:
            raise Failed(f"{self.name} exited with {code}; its log ends\n{self.tail()}")

    def tail(self):
        return "\n".join(self.log().splitlines()[-12:])

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
