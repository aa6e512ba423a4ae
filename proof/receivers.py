# SPDX-License-Identifier: Apache-2.0
"""The agents' HTTP server: takes what is handed to them, after the faults that were drawn for it.

One server for all agents; the path names the agent, and the header Handoff-Task-Id the task. It runs a thread for each
connection. `_lock` guards `_scripts` and `_taken`.
"""

import http.server
import json
import threading
import time

REFUSED = "the output format is not one that I can write"


class Receivers:
    """What each agent does at an arrival, and the documents that were taken, by (task, agent)."""

    def __init__(self, too_late_s):
        self.too_late_s = too_late_s
        self._lock = threading.Lock()
        self._scripts = {}
        self._taken = {}
        handler = type("Handler", (_Handler,), {"receivers": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self):
        return self._server.server_port

    def url(self, agent):
        return f"http://127.0.0.1:{self.port}/{agent}"

    def expect(self, task, agent, behaviour):
        """What the agent does at each arrival of the task, before it takes it."""
        with self._lock:
            self._scripts[task, agent] = list(behaviour)
            self._taken.pop((task, agent), None)

    def taken(self, task, agent):
        """The document that the agent took, or None. It is given out once."""
        with self._lock:
            self._scripts.pop((task, agent), None)
            return self._taken.pop((task, agent), None)

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def next_act(self, task, agent):
        with self._lock:
            script = self._scripts.get((task, agent))
            return script.pop(0) if script else "take"

    def take(self, task, agent, document):
        """Of several arrivals, the first counts."""
        with self._lock:
            self._taken.setdefault((task, agent), document)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request, client_address):
        """A client that is gone is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    receivers = None

    def do_POST(self):
        key = self.headers["Handoff-Task-Id"], self.path.strip("/")
        act = self.receivers.next_act(*key)
        if act == "hang up":
            return self.hang_up()
        document = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if act == "read, and hang up":
            return self.hang_up()
        if act == "503":
            return self.answer(503, {"error": "restarting"})
        if act == "refuse":
            return self.answer(422, {"nack": self.headers["Handoff-Id"], "reason": REFUSED, "retry": False})
        self.receivers.take(*key, document)
        if act == "take, and hang up":
            return self.hang_up()
        if act == "take, and answer too late":
            time.sleep(self.receivers.too_late_s)
        return self.answer(200, {"ack": self.headers["Handoff-Id"]})

    def hang_up(self):
        self.close_connection = True

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.wfile.write(f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\n"
                         f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def log_message(self, *_):
        pass
