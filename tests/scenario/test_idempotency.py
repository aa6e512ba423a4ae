# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""A repeat under an idempotency key is compared as JSON, and a conflict names the first handoff."""

import contextlib
import json
import unittest

from harness import Daemon
from harness.agents import Caller, daemon_with
from harness.receiver import Receiver, ack, status

BODY = ('{"source_agent": "analyst", "target_agent": "coder", "task_id": "task-1",'
        ' "task_summary": "Write caf\\u00e9", "include_recent": 5, "constraints": {"max_cost": 1.50, "tone": "dry"},'
        ' "state": {"progress": null}}')
SAME = {
    "byte for byte": BODY,
    "another order and white space":
        '{"state":{"progress":null},"constraints":{"tone":"dry","max_cost":1.50},\n "include_recent":5,'
        '"task_summary":"Write caf\\u00e9","task_id":"task-1","target_agent":"coder","source_agent":"analyst"}',
    "numbers and strings written differently":
        BODY.replace("1.50", "15e-1").replace(": 5,", ": 5.0,").replace("\\u00e9", "é").replace("dry", "\\u0064ry"),
    "null fields": BODY[:-1] + ', "intent": null, "strategy": null}',
}
DIFFERENT = {
    "another number": BODY.replace("1.50", "1.51"),
    "another summary": BODY.replace("Write", "write"),
    "null inside state": BODY.replace('{"progress": null}', "{}"),
    "a default written out": BODY[:-1] + ', "strategy": "priority"}',
}


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.coder = stack.enter_context(Receiver(ack))
        broken = stack.enter_context(Receiver(status(400)))
        self.daemon = stack.enter_context(
            daemon_with({"coder": {"url": self.coder.url}, "broken": {"url": broken.url}}))
        self.caller = Caller(self.daemon)

    def send(self, body, key="run-17"):
        return self.caller.call("POST", "/v1/handoffs", body.encode(), idempotency_key=key)

    def test_the_same_request_written_differently_returns_the_first_handoff(self):
        first = self.send(BODY)
        self.assertEqual(first.status, 200, first)
        for name, body in SAME.items():
            with self.subTest(name):
                reply = self.send(body)
                self.assertEqual((reply.status, reply.json()), (200, first.json()))
        self.assertEqual(len(self.coder.requests), 1)

    def test_a_different_request_is_a_conflict_that_names_the_first_handoff(self):
        first = self.send(BODY).json()
        for name, body in DIFFERENT.items():
            with self.subTest(name):
                reply = self.send(body)
                self.assertEqual((reply.status, reply.json()["code"]), (409, "idempotency_conflict"))
                self.assertEqual(reply.json()["handoff"], first)
        self.assertEqual(len(self.coder.requests), 1)

    def test_a_conflict_shows_a_parked_handoff_as_it_stands(self):
        body = BODY.replace("coder", "broken")
        parked = self.send(body).json()["handoff"]
        reply = self.send(BODY)
        self.assertEqual((reply.status, reply.json()["handoff"]), (409, parked))
        self.assertEqual(parked["state"], "parked")

    def test_a_long_request(self):
        request = {**json.loads(BODY), "task_summary": "Write",
                   "constraints": {f"rule-{i}": "word " * 20 for i in range(200)}}
        turned = dict(reversed(request.items()))
        first = self.send(json.dumps({**request, "expected_output": {"criteria": ["x" * 700] * 100}}, indent=4))
        again = self.send(json.dumps({**turned, "expected_output": {"criteria": ["x" * 700] * 100}}))
        self.assertEqual((first.status, again.status), (422, 422))
        self.assertEqual(first.json()["code"], "budget_too_small") # nothing was stored under the key
        first = self.send(json.dumps(request, indent=2000))
        self.assertEqual(first.status, 200, first)
        self.assertEqual(self.send(json.dumps(turned)).json(), first.json())

    def test_it_holds_over_a_crash(self):
        first = self.send(BODY).json()
        self.daemon.kill()
        text = self.daemon.config_path.read_text(encoding="utf-8")
        self.daemon.log_path.unlink()  # it has the address of the first process
        with Daemon(config=text, folder=self.daemon.folder) as daemon:
            self.caller = Caller(daemon)
            self.assertEqual(self.send(SAME["another order and white space"]).json(), first)


if __name__ == "__main__":
    unittest.main()
