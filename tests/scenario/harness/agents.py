# SPDX-License-Identifier: Apache-2.0
"""A daemon with agents that fail and retry within milliseconds, and calls of its agent API."""

import json

from .daemon import EXPORTER, Daemon
from .wait import eventually

QUICK = {"timeout": "10s", "retries": 2, "backoff": {"base": "1ms", "max": "5ms"},
         "breaker": {"failures": 1000, "cooldown": "1h"}}


def config(agents, defaults=None, **more):
    """A configuration file as text; JSON is YAML. Where a test is not about it, a busy machine cuts no search."""
    return json.dumps({"defaults": {**QUICK, **(defaults or {})}, "agents": agents,
                       "spine": {"search_timeout": "10s"}, **more})


def daemon_with(agents, *options, defaults=None, env=None, addresses=None, program=EXPORTER, **more):
    """addresses: {"web": ..., "api": ...}, of listeners that are not to be anywhere; program: see Daemon"""
    # a test does not wait for what an agent never answers
    if not any(option.startswith("--shutdown.timeout") for option in options):
        options = ("--shutdown.timeout=200ms", *options)
    return Daemon(*options, config=config(agents, defaults, **more), env=env,
                  program=program, **(addresses or {}))


class Caller:
    """An agent's side of the API."""

    def __init__(self, daemon, source="analyst"):
        self.daemon = daemon
        self.source = source

    def call(self, method, path, body=None, **headers):
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.daemon.api.request(method, path, body, headers)

    def send(self, target="coder", headers=None, **fields):
        request = {"source_agent": self.source, "target_agent": target, "task_id": "task-1",
                   "task_summary": "Write the retry logic", **fields}
        return self.call("POST", "/v1/handoffs", request, **(headers or {}))

    def send_async(self, target="coder", **fields):
        """The id of a handoff that was accepted."""
        reply = self.send(target, {"prefer": "respond-async"}, **fields)
        assert reply.status == 202, reply
        return reply.json()["id"]

    def state(self, handoff):
        reply = self.call("GET", f"/v1/handoffs/{handoff}")
        assert reply.status == 200, reply
        return reply.json()

    def wait_for_state(self, handoff, state):
        def reached():
            found = self.state(handoff)
            assert found["state"] == state, found
            return found
        return eventually(reached, f"{handoff} is {state}")

    def attempts(self, handoff):
        reply = self.call("GET", f"/v1/handoffs/{handoff}/attempts")
        assert reply.status == 200, reply
        return reply.json()["items"]

    def parked(self, query=""):
        reply = self.call("GET", f"/v1/parked{query}")
        assert reply.status == 200, reply
        return reply.json()
