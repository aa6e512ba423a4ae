# SPDX-License-Identifier: Apache-2.0
"""The real daemon, started in its own folder on ports that the system picks."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from .http import Http
from .wait import TIMEOUT, eventually

EXPORTER = os.environ["HANDOFF_EXPORTER"]
FIELD = re.compile(r'([a-z0-9_]+)=("(?:[^"\\]|\\.)*"|\S*)')


class StartFailed(Exception):
    """The daemon ended before it was ready."""

    def __init__(self, code, log):
        super().__init__(f"the daemon exited with {code} before it was ready:\n{log}")
        self.code = code
        self.log = log


def environment(**changes):
    """This process' environment without what would change the daemon's mind."""
    kept = {name: value for name, value in os.environ.items()
            if not re.match(r"LISTEN_|NOTIFY_SOCKET|WATCHDOG_|STATE_DIRECTORY|LC_|LANG", name)}
    kept.update(changes)
    return kept


def parse_line(line):
    """A logfmt line as a dict."""
    fields = {}
    for name, value in FIELD.findall(line):
        fields[name] = json.loads(value) if value.startswith('"') else value
    return fields


class Daemon:
    """A running handoff-exporter; a context manager that stops it and checks how it ended.

    config         text of the configuration file; None: no file. write_config() changes it.
    web_config     text of the web configuration file, or None
    options        more options, as on the command line
    env            more variables of its environment
    pass_fds       descriptors it inherits
    api, web       listen addresses; None leaves the option out
    program        another build of it
    """

    def __init__(self, *options, config=None, web_config=None, env=None, pass_fds=(),
                 web="127.0.0.1:0", api="127.0.0.1:0", tls=None, start=True, folder=None,
                 program=EXPORTER):
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="handoff-test-"))
        self.owns_folder = folder is None
        self.config_path = self.folder / "handoff.yml"
        self.web_config_path = self.folder / "web.yml"
        self.log_path = self.folder / "log"
        self.command = [program, f"--storage.path={self.folder / 'data'}"]
        if web is not None:
            self.command.append(f"--web.listen-address={web}")
        if api is not None:
            self.command.append(f"--api.listen-address={api}")
        if config is not None:
            self.write_config(config)
            self.command.append(f"--config.file={self.config_path}")
        if web_config is not None:
            self.write_web_config(web_config)
            self.command.append(f"--web.config.file={self.web_config_path}")
        self.command += options
        self.env = environment(**(env or {}))
        self.pass_fds = pass_fds
        self.tls = tls
        self.process = None
        self.expected_exit = 0
        self.asked_to_end = False
        if start:
            self.start()

    # ---- starting and ending

    def launch(self):
        """Starts it and waits for nothing."""
        with open(self.log_path, "ab") as log:
            self.asked_to_end = False
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=self.env, cwd=self.folder,
                                            pass_fds=self.pass_fds)

    def start(self):
        """Starts it and waits until it is ready; StartFailed with its log where it ends instead."""
        self.launch()
        try:
            eventually(self._ready, "the daemon is ready")
        except AssertionError:
            self.process.kill()
            self.process.wait()
            raise
        return self

    def _ready(self):
        if self.events("ready"):
            return True
        if self.process.poll() is not None:
            code, log = self.process.returncode, self.log()
            self.discard()
            raise StartFailed(code, log)
        return False

    def signal(self, number):
        self.process.send_signal(number)
        # a second one would no longer be a drain
        self.asked_to_end = self.asked_to_end or number in (signal.SIGTERM, signal.SIGINT)

    def terminate(self):
        """Asks it to drain; wait() for the end."""
        self.signal(signal.SIGTERM)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.expected_exit = -signal.SIGKILL

    def wait(self, timeout=TIMEOUT):
        """Its exit code."""
        return self.process.wait(timeout)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def discard(self):
        if self.owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        try:
            if self.is_running() and not self.asked_to_end:
                self.terminate()
            try:
                code = self.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                code = "a kill: it did not end"
            if kind is not None:
                print(f"---- log of the daemon\n{self.log()}----")
            elif code != self.expected_exit:
                raise AssertionError(f"the daemon ended with {code}:\n{self.log()}")
        finally:
            self.discard()

    # ---- what it says

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def events(self, name=None):
        """The log lines of that event so far, as dicts."""
        lines = [parse_line(line) for line in self.log().splitlines()]
        return [line for line in lines if name is None or line.get("event") == name]

    def wait_for_event(self, name, count=1):
        """The count-th line of that event, as soon as it is logged."""
        return eventually(lambda: self.events(name)[count - 1:count],
                          f"the log has event={name} {count} times")[0]

    def _address(self, listener):
        return [line["address"] for line in self.events("listening")
                if line["listener"] == listener][0]

    @property
    def web(self):
        """A client of the (first) web listener."""
        return Http(self._address("web"), self.tls)

    @property
    def api(self):
        """A client of the agent API."""
        _, unix, path = self._address("api").rpartition("unix:")
        return Http(f"unix:{self.folder / path}" if unix else path)

    # ---- what it reads

    def write_config(self, text):
        replace(self.config_path, text)

    def write_web_config(self, text):
        replace(self.web_config_path, text)

    def reload(self):
        return self.web.post("/-/reload")


def replace(path, text):
    """Writes a file as an editor or a config map does: all of it at once."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def refused(*options, **arguments):
    """Starts a daemon that must not start; answers its exit code and its log."""
    daemon = Daemon(*options, start=False, **arguments)
    try:
        done = subprocess.run(daemon.command, stdin=subprocess.DEVNULL, capture_output=True,
                              env=daemon.env, cwd=daemon.folder, timeout=TIMEOUT, check=False)
        return done.returncode, done.stderr.decode("utf-8"), daemon.folder
    finally:
        daemon.discard()
