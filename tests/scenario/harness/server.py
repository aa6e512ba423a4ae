# SPDX-License-Identifier: Apache-2.0
"""One of Prometheus's programs in its own folder, on a port that the system picks."""

import pathlib
import re
import shutil
import subprocess
import tempfile

from .daemon import environment
from .http import Http
from .wait import TIMEOUT, eventually


class Server:
    """Makes the folder; the subclass fills it and then launches its program."""

    NAME = None  # in messages

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"handoff-{self.NAME.lower()}-"))
        self.log_path = self.folder / "log"

    def launch(self, *command):
        """Starts it and waits until it is ready."""
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=environment(), cwd=self.folder)
        try:
            self.http = Http(eventually(self._address, f"{self.NAME} listens"))
            eventually(lambda: self.http.get("/-/ready").status == 200, f"{self.NAME} is ready")
        except AssertionError as error:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{error}\n{self.log()}") from None

    def _address(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.NAME} ended with {self.process.returncode}:\n{self.log()}")
        found = re.search(r'msg="Listening on".* address=(\S+)', self.log())
        return found and found[1]

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def stop(self):
        """Its exit code, 0 on success; a second call does nothing."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.process.returncode

    def __enter__(self):
        return self
