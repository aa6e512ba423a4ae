# SPDX-License-Identifier: Apache-2.0
"""A shell beside the sidecar, as an operator has it, for commands as they are printed.

handoffctl is on the path, and the default addresses of both listeners lead to the daemon: handoffctl
takes the one of the API from its environment, and curl maps both (connect-to) by its own
configuration file. What belongs to the host and not to us (systemctl, journalctl, kubectl, df, amtool)
is played: journalctl shows the daemon's real log.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from .daemon import environment
from .wait import TIMEOUT

HANDOFFCTL = os.environ["HANDOFFCTL"]
ALERTS = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "alerts"

PLAYED = {
    "systemctl": 'echo "handoff-exporter.service - active (running)"',
    "journalctl": 'exec cat {log}',
    "kubectl": 'echo "handoff-exporter-0  1/1  Running"',
    "df": 'echo "/dev/sda1  100G  20G  80G  20% $2"',
    # the installed configuration is the shipped one; whether Alertmanager runs is not ours to say
    "amtool": 'if [ "$1" = config ]; then shift 3; for word; do case "$word" in --*) ;; *) '
              'set -- "$@" "$word";; esac; shift; done; '
              'exec {amtool} config routes test --config.file={alerts}/alertmanager.yml "$@" 2>/dev/null; fi; '
              'echo "Alertname        Starts At  Summary  State"',
}


class Shell:
    """A context manager; run() answers what a command printed, and what it said on stderr."""

    def __init__(self, daemon):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="handoff-shell-"))
        self.daemon = daemon
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "handoffctl").symlink_to(HANDOFFCTL)
        values = {"log": shlex.quote(str(daemon.log_path)), "alerts": shlex.quote(str(ALERTS)),
                  "amtool": shutil.which("amtool")}
        for name, script in PLAYED.items():
            (programs / name).write_text("#!/bin/sh\n" + script.format(**values) + "\n", encoding="utf-8")
            (programs / name).chmod(0o755)

    def run(self, script, timeout=TIMEOUT):
        """A finished process of `sh -e`, run with the addresses the daemon has now."""
        web, api = self.daemon.web, self.daemon.api
        (self.folder / ".curlrc").write_text(
            f'connect-to = "127.0.0.1:9780:{web.host}:{web.port}"\n'
            f'connect-to = "127.0.0.1:8780:{api.host}:{api.port}"\n', encoding="utf-8")
        env = environment(PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}", CURL_HOME=str(self.folder),
                          HOME=str(self.folder), HANDOFF_API_URL=api.url)
        return subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True, env=env,
                              cwd=self.folder, timeout=timeout, check=False)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        shutil.rmtree(self.folder, ignore_errors=True)
