#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sending agent: hands off a task, waits until it is acknowledged, and hands off its next step.

    python3 examples/send.py analyst reviewer   # two configured agents
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

API = os.environ.get("HANDOFF_API_URL", "http://127.0.0.1:8780") + "/v1/handoffs"
TOKEN = open(os.environ.get("HANDOFF_TOKEN_FILE", os.devnull), encoding="ascii").read().strip()


def post(request, headers):
    """(the handoff, None), or (the problem, seconds until a retry makes sense or None)."""
    headers = {**headers, **({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})}
    try:
        call = urllib.request.Request(API, json.dumps(request).encode(), headers)
        with urllib.request.urlopen(call) as reply:
            return json.load(reply), None
    except urllib.error.HTTPError as error:  # application/problem+json
        return json.load(error), error.headers["Retry-After"]
    except OSError as error:  # no sidecar: retrying with the same key is safe
        return {"code": "unreachable", "detail": str(error)}, 1


def hand_off(target, summary, headers=(), **more):
    """Hands off exactly once, with any number of retries: the same key gives the same handoff."""
    headers = {"Idempotency-Key": str(uuid.uuid4()), **dict(headers)}
    request = {"source_agent": "researcher", "target_agent": target, "task_summary": summary, **more}
    while True:
        answer, seconds = post(request, headers)
        if "code" not in answer:
            return answer
        print(f"{answer['code']}: {answer['detail']}", file=sys.stderr)
        if seconds is None:  # rejected; or, if it has a handoff, parked or expired: for an operator
            sys.exit(f"see handoffctl attempts {answer['handoff']['id']}" if "handoff" in answer
                     else 1)
        time.sleep(float(seconds))  # temporary: circuit_open, too_many_in_flight, shutting_down


first = hand_off(sys.argv[1], "Compare the retry policies", intent="Make the payments reliable",
                 constraints={"max_tokens": 2000, "do_not": ["change the public interface"]})
print(f"{first['id']} {first['state']} after {first['attempts']} attempt(s)")
second = hand_off(sys.argv[2], "Review the comparison", previous_id=first["id"],
                  task_id=first["task_id"], headers={"Prefer": "respond-async"})  # once durable
print(f"{second['id']} {second['state']}: see handoffctl task {second['task_id']}")
