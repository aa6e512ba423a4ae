#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo's pager: receives what Alertmanager sends, records it, and prints it as one line.

Standalone, for a container:    pager.py [--listen 0.0.0.0] [--port 9099]
"""

import argparse
import collections
import http.server
import json
import threading
import time

# A notification: an alert that fires, or one that is resolved.
Call = collections.namedtuple("Call", "at receiver status labels annotations")


class Pager:
    """A webhook of Alertmanager. `tell` is called with each Call that is new."""

    def __init__(self, tell, host="127.0.0.1", port=0):
        self.tell = tell
        self.lock = threading.Lock()
        self.calls = []      # new ones only, without reminders of alerts that still fire
        self.firing = {}     # alert: its Call
        self.heartbeats = 0
        self.started = False
        pager = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                pager.take(self.path.strip("/"), body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer((host, port), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def start(self):
        self.started = True
        threading.Thread(target=self.server.serve_forever, args=(0.1,), name="pager", daemon=True).start()

    def stop(self):
        if self.started:    # shutdown() waits for the loop, so it must have been started
            self.server.shutdown()
        self.server.server_close()

    def take(self, receiver, body):
        if receiver == "heartbeat":
            self.heartbeats += 1
            return
        for alert in body["alerts"]:
            call = Call(time.time(), receiver, alert["status"], alert["labels"], alert["annotations"])
            if self.is_news(call):
                self.tell(call)

    def is_news(self, call):
        key = tuple(sorted(call.labels.items()))
        with self.lock:
            news = (key in self.firing) != (call.status == "firing")
            if news and call.status == "firing":
                self.firing[key] = call
            elif news:
                del self.firing[key]
            if news:
                self.calls.append(call)
        return news

    def history(self):
        """(what fired, in order; whether all of it is resolved)"""
        with self.lock:
            return [call for call in self.calls if call.status == "firing"], not self.firing


def line(call):
    """One line for a terminal."""
    word = {"pager": "PAGE  ", "tickets": "TICKET"}.get(call.receiver, call.receiver) \
        if call.status == "firing" else "resolved"
    target = call.labels.get("target_agent")
    text = f"{word}  {call.labels['alertname']}{f' for {target}' if target else ''}"
    return f"{text}: {call.annotations['summary']}" if call.status == "firing" else text


def main():
    parser = argparse.ArgumentParser(description="A pager that prints the notifications it receives.")
    parser.add_argument("--listen", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9099)
    options = parser.parse_args()
    pager = Pager(lambda call: print(time.strftime("%H:%M:%S"), line(call), flush=True), options.listen, options.port)
    pager.server.serve_forever()


if __name__ == "__main__":
    main()
