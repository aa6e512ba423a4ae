# SPDX-License-Identifier: Apache-2.0
"""Starting, watching and ending the programs of the demo.

Each runs in a folder that goes with it, with its output in a file, in a session of its own (a Ctrl-C in
the terminal reaches us alone, and we end them in order), and dies with us even where we are killed.
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
CLAIMS = []     # held until this process ends, however it ends


class Failed(Exception):
    """A program that did not start, or that ended by itself."""


def claim(port):
    """Whether no other demo has that port in mind: from our look at it until the program that gets it
    listens, another demo may look as well. An abstract socket, so that a killed demo leaves no claim."""
    mark = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        mark.bind(f"\0handoff-demo-port-{port}")
    except OSError:
        mark.close()
        return False
    CLAIMS.append(mark)
    return True


def free_port(port):
    """That port where it is free on every address, else one that the system picks; no other demo's."""
    for wanted in port, 0, 0, 0:    # what the system picks may be claimed as well
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
    """name: for people. ready: a regular expression for its log."""

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
        """Failed where it has ended, or takes too long."""
        self.check()
        if self.ready.search(self.log()):
            return True
        if time.monotonic() > self.start_deadline:
            raise Failed(f"{self.name} is not ready after {START_TIMEOUT} s; its log ends\n{self.tail()}")
        return False

    def check(self):
        """Failed where it has ended."""
        code = self.process.poll()
        if code is not None:
            raise Failed(f"{self.name} ended with {code}; its log ends\n{self.tail()}")

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
