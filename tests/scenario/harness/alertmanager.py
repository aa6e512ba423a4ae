# SPDX-License-Identifier: Apache-2.0
"""Debian's Alertmanager with what ships in alerts/, and the ends of the wires it calls.

    with Webhook() as webhook, Alertmanager(shipped(faster=60, ends=webhook)) as alertmanager:
        ... alerting: {alertmanagers: [{static_configs: [{targets: [alertmanager.http.address]}]}]}
        webhook.wait_for("pager", lambda one: one["event_action"] == "trigger")

Routes, inhibition rules and templates are the shipped ones. An overlay changes two things only: the
addresses of the receivers, and the waiting times, all by one factor.
"""

import collections
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

import yaml

from .server import Server
from .wait import TIMEOUT, eventually

PROGRAM = "/usr/bin/prometheus-alertmanager"
TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
ALERTS = TOP / "alerts"
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


# ---- the shipped configuration, and what the tests lay over it ------------------------------------

def shorten(value, factor):
    """A configuration whose durations under *_wait and *_interval are that much shorter."""
    if isinstance(value, list):
        return [shorten(item, factor) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: duration(inner, factor) if key.endswith(("_wait", "_interval"))
            else shorten(inner, factor) for key, inner in value.items()}


def duration(text, factor):
    number, unit = re.fullmatch(r"(\d+)([a-z]+)", text).groups()
    return f"{round(1000 * int(number) * SECONDS[unit] / factor)}ms"


def aim(receiver, ends):
    """A receiver whose notifications go to `ends` (None: nowhere); what they say is not touched."""
    if ends is None:
        return {"name": receiver["name"]}
    url = f"{ends.url}/{receiver['name']}"
    aimed = json.loads(json.dumps(receiver))
    for kind, key in (("pagerduty_configs", "url"), ("webhook_configs", "url"),
                      ("slack_configs", "api_url")):
        for one in aimed.get(kind, []):
            for secret in ("routing_key_file", "api_url_file"):
                one.pop(secret, None)
            one[key] = url
            if kind == "pagerduty_configs":
                one["routing_key"] = "a key"
    if len(aimed) == 1:  # it sends nothing: here it tells what it would have kept to itself
        aimed["webhook_configs"] = [{"url": url}]
    return aimed


def shipped(ends=None, faster=1):
    """alerts/alertmanager.yml with other addresses and, for tests that cannot wait, other times."""
    configuration = yaml.safe_load((ALERTS / "alertmanager.yml").read_text(encoding="utf-8"))
    if faster != 1:
        configuration["route"] = shorten(configuration["route"], faster)
    configuration["receivers"] = [aim(one, ends) for one in configuration["receivers"]]
    return configuration


def faster_rules(case, overlay="sixty_times_faster"):
    """The folder with the shipped rules as tests/alerts/OVERLAY.jsonnet has them, for the whole class."""
    folder = tempfile.TemporaryDirectory()
    case.addClassCleanup(folder.cleanup)
    subprocess.run([ALERTS / "render", TOP / f"tests/alerts/{overlay}.jsonnet", folder.name], check=True)
    return pathlib.Path(folder.name)


def page(alert, action="trigger", who=""):
    """Matches what the pager is sent about an alert."""
    title = f"{alert} {who} (handoff)" if who else f"{alert} (handoff)"
    return lambda body: body["event_action"] == action and body["payload"]["summary"].endswith(" " + title)


def parts(text):
    """{"Agent": "analyst", ...} of the lines at the end of a notification."""
    return dict(re.findall(r"^([A-Z][a-z]+): +(.*)$", text, re.MULTILINE))


# ---- Alertmanager ---------------------------------------------------------------------------------

class Alertmanager(Server):
    """A running Alertmanager; a context manager that stops it."""

    NAME = "Alertmanager"

    def __init__(self, configuration):
        super().__init__()
        (self.folder / "alertmanager.yml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
        shutil.copy(ALERTS / "alertmanager.tmpl", self.folder)
        self.launch(PROGRAM, f"--config.file={self.folder / 'alertmanager.yml'}",
                    f"--storage.path={self.folder / 'data'}", "--web.listen-address=127.0.0.1:0",
                    "--cluster.listen-address=")

    def __exit__(self, kind, value, traceback):
        if kind is not None:
            print(f"---- log of Alertmanager\n{self.log()}----")
        self.stop()

    def fire(self, *alerts):
        """Posts alerts with these labels, as Prometheus would."""
        reply = self.http.post("/api/v2/alerts", json.dumps([{"labels": labels} for labels in alerts]),
                               content_type="application/json")
        assert reply.status == 200, reply

    def alerts(self, **labels):
        """What it knows of the alerts that have these labels and are not over."""
        return [alert for alert in self.http.get("/api/v2/alerts").json()
                if labels.items() <= alert["labels"].items()]

    def wait_for_muted(self, timeout=TIMEOUT, **labels):
        """The alerts with these labels, as soon as there are some and all of them are inhibited."""
        def muted():
            found = self.alerts(**labels)
            return found if found and all(one["status"]["inhibitedBy"] for one in found) else None
        return eventually(muted, f"Alertmanager inhibits {labels}", timeout)


# ---- the ends of the wires ------------------------------------------------------------------------

class Webhook:
    """Takes what pager, chat and the others are sent. {path without its slash: [body, ...]}"""

    def __init__(self):
        self.lock = threading.Lock()
        self.bodies = collections.defaultdict(list)
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with webhook.lock:
                    webhook.bodies[self.path.strip("/")].append(body)
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def sent(self, receiver, matches=lambda body: True):
        """What that receiver was sent so far, oldest first."""
        with self.lock:
            return [body for body in self.bodies[receiver] if matches(body)]

    def wait_for(self, receiver, matches, count=1, timeout=TIMEOUT):
        """The count-th of what that receiver was sent and `matches` says it is."""
        return eventually(lambda: self.sent(receiver, matches)[count - 1:count],
                          f"{receiver} is called {count} times", timeout)[0]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is not None:
            print(f"---- what was sent\n{json.dumps(self.bodies, indent=1)}\n----")
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(TIMEOUT)
