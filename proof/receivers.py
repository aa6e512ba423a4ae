# SPDX-License-Identifier: Apache-2.0
"""The agents' HTTP server: takes what is handed to them, after the faults that were drawn for it.

One server for all agents. The path names the agent; the task is in the header Handoff-Task-Id or, for senders that cannot
set one, behind the agent in the path. It runs a thread for each connection. `_changed` guards `_scripts` and `_taken`, and is
notified of each document that was taken.
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
        self._changed = threading.Condition()
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
        with self._changed:
            self._scripts[task, agent] = list(behaviour)
            self._taken.pop((task, agent), None)

    def taken(self, task, agent):
        """The document that the agent took, or None. It is given out once."""
        with self._changed:
            self._scripts.pop((task, agent), None)
            return self._taken.pop((task, agent), None)

    def wait(self, task, agent, seconds):
        """The same, if it is taken within this time."""
        with self._changed:
            self._changed.wait_for(lambda: (task, agent) in self._taken, seconds)
        return self.taken(task, agent)

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def next_act(self, task, agent):
        with self._changed:
            script = self._scripts.get((task, agent))
            return script.pop(0) if script else "take"

    def take(self, task, agent, document):
        """Of several arrivals, the first counts."""
        with self._changed:
            self._taken.setdefault((task, agent), document)
            self._changed.notify_all()


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
        agent, _, task = self.path.strip("/").partition("/")
        self.key = self.headers["Handoff-Task-Id"] or task, agent
        ACTS[self.receivers.next_act(*self.key)](self)

    def read(self):
        return self.rfile.read(int(self.headers["Content-Length"])).decode()

    def take(self):
        self.receivers.take(*self.key, self.read())

    def take_and_acknowledge(self):
        self.take()
        self.acknowledge()

    def take_and_answer_too_late(self):
        self.take()
        time.sleep(self.receivers.too_late_s)
        self.acknowledge()

    def take_and_hang_up(self):
        self.take()
        self.hang_up()

    def read_and_hang_up(self):
        self.read()
        self.hang_up()

    def be_unavailable(self):
        self.read()
        self.answer(503, {"error": "restarting"})

    def refuse(self):
        self.read()
        self.answer(422, {"nack": self.headers["Handoff-Id"], "reason": REFUSED, "retry": False})

    def acknowledge(self):
        self.answer(200, {"ack": self.headers["Handoff-Id"]})

    def hang_up(self):
        self.close_connection = True

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.wfile.write(f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\n"
                         f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def log_message(self, *_):
        pass


# What an agent can do with an arrival.
ACTS = {
    "take": _Handler.take_and_acknowledge,
    "take, and answer too late": _Handler.take_and_answer_too_late,
    "take, and hang up": _Handler.take_and_hang_up,
    "read, and hang up": _Handler.read_and_hang_up,
    "hang up": _Handler.hang_up,
    "503": _Handler.be_unavailable,
    "refuse": _Handler.refuse,
}
