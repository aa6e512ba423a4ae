#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A receiving agent without a server: it pulls from its inbox and answers through the API.

    python3 examples/pull.py reviewer   # agents: {reviewer: {}}: without a url, it pulls

A pulled handoff is leased: without an answer within ack_timeout, it is offered again. An agent that needs
longer can extend the lease with POST /v1/handoffs/{id}/extend.
"""

import json
import os
import sys
import urllib.request

API = os.environ.get("HANDOFF_API_URL", "http://127.0.0.1:8780") + "/v1"
TOKEN = open(os.environ.get("HANDOFF_TOKEN_FILE", os.devnull), encoding="ascii").read().strip()


def call(method, path, body=None):
    """The headers of the response and its body, or None."""
    headers = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(API + path, data, headers, method=method)
    with urllib.request.urlopen(request) as reply:
        return reply.headers, (json.load(reply) if reply.status == 200 else None)


def work(envelope):
    """Your agent. A ValueError means that retrying will not help."""
    if "reject" in envelope["context"]["constraints"]:
        raise ValueError("not work for a reviewer")
    print(f"reviewing for {envelope['source_agent']}: {envelope['context']['task']['summary']}",
          flush=True)


def serve(agent):
    while True:
        headers, envelope = call("GET", f"/agents/{agent}/inbox?wait=20s")
        if envelope is None:  # 204: nothing arrived in time
            continue
        handoff = f"/handoffs/{headers['Handoff-Id']}"
        try:
            work(envelope)
            call("POST", f"{handoff}/ack")  # safe to repeat
        except ValueError as error:
            call("POST", f"{handoff}/nack", {"reason": str(error), "retry": False})


if __name__ == "__main__":
    print(f"{sys.argv[1]} pulls from {API}", flush=True)
    serve(sys.argv[1])
