#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A receiving agent: takes an envelope, does the work, and acknowledges it by id.

    python3 examples/receive.py 9001    # agents: {analyst: {url: "http://127.0.0.1:9001/handoffs"}}

Delivery is at least once: after a crash on either side, the same id arrives again. So the agent remembers
the ids it has processed and acknowledges duplicates without repeating the work.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

done = set()  # a real agent stores it with its results, in one transaction


def work(envelope):
    """Your agent. A ValueError means that retrying will not help."""
    task = envelope["context"]["task"]
    if not task["summary"].strip():
        raise ValueError("there is nothing to do")
    print(f"{envelope['target_agent']} works for {envelope['source_agent']}: {task['summary']}",
          flush=True)


class Agent(BaseHTTPRequestHandler):
    def do_POST(self):
        envelope = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        handoff = self.headers["Handoff-Id"]
        try:
            if handoff not in done:
                work(envelope)
                done.add(handoff)
            self.answer({"ack": handoff})
        except ValueError as error:  # parked immediately, for an operator
            self.answer({"nack": handoff, "reason": str(error), "retry": False})
        # any other exception closes the connection without an answer, so it is retried

    def answer(self, body):
        body = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    agent = HTTPServer(("127.0.0.1", int(sys.argv[1])), Agent)  # one handoff at a time
    print(f"listening on http://127.0.0.1:{agent.server_port}/handoffs", flush=True)
    agent.serve_forever()
