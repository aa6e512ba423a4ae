# SPDX-License-Identifier: Apache-2.0
"""Who hands off: named by the request, by a token, or by api.source_agent of a sidecar that serves one agent."""

import contextlib
import itertools
import json
import pathlib
import tempfile
import unittest

from harness.agents import Caller, daemon_with
from harness.receiver import Receiver, ack

TOKENS = {"analyst": "analyst-0123456789abcdef", "coder": "coder-0123456789abcdef0",
          "@operator": "operator-0123456789abcdef"}
REQUEST = {"target_agent": "coder", "task_summary": "Write it"}


class Case(unittest.TestCase):
    maxDiff = None

    def start(self, tokens=None, source="analyst"):
        stack = self.enterContext(contextlib.ExitStack())
        coder = stack.enter_context(Receiver(ack))
        api = {} if source is None else {"source_agent": source}
        if tokens:
            path = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "tokens"
            path.write_text("".join(f"{name} {token}\n" for name, token in tokens.items()))
            path.chmod(0o600)
            api["tokens_file"] = str(path)
        self.daemon = stack.enter_context(daemon_with({"coder": {"url": coder.url}}, api=api))
        self.caller = Caller(self.daemon)
        self.tasks = itertools.count()

    def send(self, token=None, path="/v1/handoffs", **more):
        headers = {"authorization": f"Bearer {TOKENS[token]}"} if token else {}
        headers.update(more.pop("headers", {}))
        return self.caller.call("POST", path, {**REQUEST, "task_id": f"task-{next(self.tasks)}", **more}, **headers)

    def test_a_request_without_a_sender_comes_from_the_configured_agent(self):
        self.start()
        reply = self.send()
        self.assertEqual((reply.status, reply.json()["source_agent"]), (200, "analyst"))
        self.assertEqual(self.send(source_agent="analyst").status, 200)
        reply = self.send(path="/v1/envelopes")
        self.assertEqual((reply.status, reply.json()["source_agent"]), (200, "analyst"))

    def test_another_sender_is_rejected_and_told_why(self):
        self.start()
        for path in ("/v1/handoffs", "/v1/envelopes"):
            reply = self.send(path=path, source_agent="coder")
            problem = reply.json()
            self.assertEqual((reply.status, problem["code"], problem["field"], problem["seen"]),
                             (403, "forbidden", "source_agent", "coder"), reply)
            self.assertIn("api.source_agent", problem["detail"])
            self.assertEqual(problem["allowed"], "analyst, or omit it")

    def test_without_it_each_request_names_its_sender(self):
        self.start(source=None)
        reply = self.send()
        self.assertEqual((reply.status, reply.json()["field"]), (400, "source_agent"))
        self.assertEqual(self.send(source_agent="anyone").status, 200)

    def test_a_token_that_names_an_agent_wins(self):
        self.start(TOKENS)
        reply = self.send("coder")
        self.assertEqual((reply.status, reply.json()["source_agent"]), (200, "coder"))
        reply = self.send("coder", source_agent="analyst")
        self.assertEqual((reply.status, reply.json()["code"]), (403, "forbidden"))
        self.assertIn("only in its own name", reply.json()["detail"])
        self.assertEqual(self.send("analyst").json()["source_agent"], "analyst")

    def test_an_operator_hands_off_as_the_configured_agent(self):
        self.start(TOKENS)
        self.assertEqual(self.send("@operator").json()["source_agent"], "analyst")
        self.assertEqual(self.send("@operator", source_agent="coder").status, 403)

    def test_an_idempotency_key_belongs_to_the_configured_agent(self):
        self.start()
        key = {"headers": {"idempotency-key": "run-17"}}
        first, again = self.send(task_id="task-1", **key), self.send(task_id="task-1", **key)
        self.assertEqual(first.json()["id"], again.json()["id"])

    def test_observations_come_from_it_too(self):
        self.start()
        one = {"target_agent": "coder", "outcome": "acknowledged"}
        reply = self.caller.call("POST", "/v1/observations", one)
        self.assertEqual((reply.status, reply.json()["accepted"]), (200, 1), reply)

    def test_a_reload_changes_it(self):
        self.start()
        changed = json.loads(self.daemon.config_path.read_text())
        changed["api"]["source_agent"] = "planner"
        self.daemon.write_config(json.dumps(changed))
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertEqual(self.send().json()["source_agent"], "planner")


if __name__ == "__main__":
    unittest.main()
