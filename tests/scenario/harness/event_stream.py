# SPDX-License-Identifier: Apache-2.0
"""An inbox as a stream of events, read as a client in any language would: line by line."""

import json
import time

from .wait import TIMEOUT


class Event:
    """What was sent between two blank lines: an id alone, or a handoff."""

    def __init__(self, fields):
        self.id = fields.get("id")
        self.type = fields.get("event")
        self.data = json.loads(fields["data"]) if "data" in fields else None

    @property
    def headers(self):
        return self.data["headers"]

    @property
    def body(self):
        return self.data["body"]


class EventStream:
    """A context manager. `reply` is the answer's head, with its whole body where that is not a stream."""

    def __init__(self, http, agent, leases=None, last=None, timeout=TIMEOUT, query="", **headers):
        self.connection = http.connection(timeout=timeout)
        headers = {"Accept": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
        if last:
            headers["Last-Event-ID"] = last
        path = f"/v1/agents/{agent}/inbox" + (f"?leases={leases}" if leases else query)
        self.connection.request("GET", path, headers=headers)
        self.socket = self.connection.sock
        self.reply = self.connection.getresponse()
        self.comments = []
        self.last = last

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close()

    def close(self):
        self.connection.close()
        self.reply.close()

    def block(self):
        """The fields up to the next blank line; None: the stream has ended in order."""
        fields = {}
        deadline = time.monotonic() + TIMEOUT
        while True:
            line = self.reply.readline()
            if not line:
                assert not fields, fields
                return None
            assert line.endswith(b"\n"), line
            line = line.decode().rstrip("\n")
            if not line:
                if fields:
                    return fields
            elif line.startswith(":"):
                self.comments.append(line)
                assert time.monotonic() < deadline, "only comments come"
            else:
                name, _, value = line.partition(": ")
                assert name not in fields, line
                fields[name] = value

    def next(self):
        """The next event that is a handoff; None: the stream has ended."""
        while (fields := self.block()) is not None:
            event = Event(fields)
            self.last = event.id or self.last
            if event.data is not None:
                return event
        return None

    def open(self):
        """Reads what comes before the first event."""
        fields = self.block()
        self.last = fields.get("id", self.last)
        return fields
