# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Keys of an agent: the format that it is sent, the strategy where a request names none, and who may hand off to it."""

import contextlib
import json
import unittest

from harness.agents import Caller, daemon_with
from harness.receiver import Receiver, ack, status

MEMORY = {"content": "The bank retries a payment three times. " * 20, "summary": "Three retries."}
BRIEF = "text/markdown; charset=utf-8"


class Case(unittest.TestCase):
    maxDiff = None

    def start(self, receiver=ack, **agents):
        stack = self.enterContext(contextlib.ExitStack())
        self.receiver = stack.enter_context(Receiver(receiver))
        agents = {name: {"url": self.receiver.url, **keys} if keys.pop("pushed", True) else keys
                  for name, keys in agents.items()}
        self.daemon = stack.enter_context(daemon_with(agents))
        self.caller = Caller(self.daemon)

    def reload(self, agent, **keys):
        config = json.loads(self.daemon.config_path.read_text(encoding="utf-8"))
        config["agents"][agent].update(keys)
        self.daemon.write_config(json.dumps(config))
        self.assertEqual(self.daemon.reload().status, 200)

    # ---- format ----

    def test_a_brief_is_pushed_with_the_same_headers(self):
        self.start(coder={"format": "markdown", "accepts": ["1"]})
        sent = self.caller.send()
        self.assertEqual(sent.status, 200, sent)
        request = self.receiver.requests[0]
        self.assertEqual(request.headers["Content-Type"], BRIEF)
        for name in ("Handoff-Id", "Handoff-Attempt", "Idempotency-Key", "traceparent"):
            self.assertTrue(request.headers[name], name)
        brief = self.caller.call("GET", f"/v1/handoffs/{sent.json()['id']}/envelope", accept="text/markdown")
        self.assertEqual(request.raw, brief.body)
        self.assertIn(b"Write the retry logic", request.raw)

    def test_a_brief_is_pulled(self):
        self.start(reviewer={"pushed": False, "format": "markdown"})
        handoff = self.caller.send_async("reviewer")
        reply = self.caller.call("GET", "/v1/agents/reviewer/inbox?wait=20s")
        self.assertEqual((reply.header("Content-Type"), reply.header("Handoff-Id")), (BRIEF, handoff))
        brief = self.caller.call("GET", f"/v1/handoffs/{handoff}/envelope", accept="text/markdown")
        self.assertEqual(reply.body, brief.body)
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)

    def test_a_reload_changes_the_format(self):
        self.start(coder={})
        self.caller.send()
        self.reload("coder", format="markdown")
        self.caller.send()
        self.assertEqual([request.headers["Content-Type"] for request in self.receiver.requests],
                         ["application/vnd.handoff.envelope+json; version=2.0", BRIEF])

    # ---- strategy ----

    def strategy(self, target, **fields):
        self.assertEqual(self.caller.call("PUT", "/v1/memories/ms-1", MEMORY).status // 100, 2)
        reply = self.caller.call("POST", "/v1/envelopes", {
            "source_agent": "analyst", "target_agent": target, "task_summary": "x", "memory_ids": ["ms-1"], **fields})
        self.assertEqual(reply.status, 200, reply)
        [memory] = reply.json()["context"]["memories"]
        return reply.json()["tokens"]["strategy"], "content" in memory

    def test_a_request_without_a_strategy_takes_the_agents(self):
        self.start(coder={"strategy": "summary"}, spare={})
        self.assertEqual(self.strategy("coder"), ("summary", False))
        self.assertEqual(self.strategy("coder", strategy=None), ("summary", False))
        self.assertEqual(self.strategy("coder", strategy="priority"), ("priority", True))
        self.assertEqual(self.strategy("spare"), ("priority", True))
        self.assertEqual(self.strategy("nobody"), ("priority", True))
        self.reload("coder", strategy="lazy")
        self.assertEqual(self.strategy("coder"), ("lazy", False))

    # ---- from ----

    def test_only_the_named_agents_may_hand_off(self):
        self.start(coder={"from": ["analyst", "planner"]})
        for source in ("analyst", "planner"):
            self.assertEqual(self.caller.send(source_agent=source, task_id=source).status, 200)
        for path in ("/v1/handoffs", "/v1/envelopes"):
            reply = self.caller.call("POST", path, {"source_agent": "writer", "target_agent": "coder",
                                                    "task_summary": "x"})
            problem = reply.json()
            self.assertEqual((reply.status, problem["code"], problem["field"], problem["seen"], problem["allowed"]),
                             (403, "forbidden", "source_agent", "writer", "analyst, planner"))
            self.assertIn("agents.NAME.from", problem["detail"])
        self.assertEqual(len(self.receiver.requests), 2)
        self.reload("coder", **{"from": ["writer"]})
        self.assertEqual(self.caller.send(source_agent="analyst", task_id="t").status, 403)
        self.assertEqual(self.caller.send(source_agent="writer", task_id="u").status, 200)

    def test_a_stored_envelope_is_checked_again(self):
        self.start(coder={})
        body = {"source_agent": "analyst", "target_agent": "coder", "task_summary": "x"}
        envelopes = [self.caller.call("POST", "/v1/envelopes", body).json()["id"] for _ in range(2)]
        self.reload("coder", **{"from": ["planner"]})
        for path, body in ((f"/v1/envelopes/{envelopes[0]}/deliver", None),
                           ("/v1/parked", {"reason": "wait", "envelope_id": envelopes[1]})):
            reply = self.caller.call("POST", path, body)
            self.assertEqual((reply.status, reply.json()["code"], reply.json()["field"]),
                             (403, "forbidden", "source_agent"), path)
        self.assertEqual(self.receiver.requests, [])
        self.reload("coder", **{"from": ["planner", "analyst"]})
        self.assertEqual(self.caller.call("POST", f"/v1/envelopes/{envelopes[0]}/deliver").status, 200)

    def test_an_alternate_that_does_not_take_from_the_source_is_passed_over(self):
        self.start(status(500), coder={"alternates": ["spare"], "retries": 0}, spare={"from": ["planner"]})
        reply = self.caller.send()
        self.assertEqual((reply.status, reply.json()["code"]), (502, "exhausted"))
        attempts = self.caller.attempts(reply.json()["handoff"]["id"])
        self.assertEqual([(one["target_agent"], one["result"], one["error"]) for one in attempts][1:],
                         [("spare", "passed_over", "sender")])


if __name__ == "__main__":
    unittest.main()
