# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Who sends requests that are rejected: in the log, on the status page and in its JSON, and nothing of what they sent."""

import pathlib
import tempfile
import unittest

from harness import Receiver, eventually
from harness.agents import Caller, daemon_with
from harness.receiver import ack

SECRET = "hunter2-is-not-to-be-seen"


class Rejected(unittest.TestCase):
    def start(self, **more):
        coder = self.enterContext(Receiver(ack))
        self.daemon = self.enterContext(daemon_with({"coder": {"url": coder.url}}, **more))
        self.caller = Caller(self.daemon)

    def on_the_page(self):
        return self.daemon.web.get("/?format=json").json()["rejected_requests"]

    def test_a_caller_is_named_with_its_field(self):
        self.start()
        for _ in range(3):
            reply = self.caller.send(task_sumary=SECRET, headers={"User-Agent": "billing/1.4"})
            self.assertEqual(reply.status, 400)
        self.caller.call("GET", "/v1/handoffs?targt=coder", User_Agent="cron")
        query, slip = self.on_the_page()
        self.assertEqual({**slip, "at": None}, {
            "at": None, "times": 3, "call": "send_handoff", "code": "invalid_request", "field": "task_sumary", "caller": None,
            "source_agent": "analyst", "address": "127.0.0.1", "user_agent": "billing/1.4"})
        self.assertEqual((query["call"], query["field"], query["source_agent"], query["user_agent"]),
                         ("list_handoffs", "targt", None, "cron"))
        line, other = self.daemon.events("request_rejected")
        self.assertEqual({name: line[name] for name in ("call", "code", "field", "source", "program", "times")},
                         {"call": "send_handoff", "code": "invalid_request", "field": "task_sumary", "source": "analyst",
                          "program": "billing/1.4", "times": "1"})
        self.assertEqual(other["call"], "list_handoffs")
        page = self.daemon.web.get("/").text
        for text in ("Recently rejected requests", "task_sumary", "billing/1.4", "3 times"):
            self.assertIn(text, page)
        self.assertNotIn(SECRET, page + self.daemon.log())

    def test_the_source_of_a_request_that_is_answered_later_is_named(self):
        """Its body is gone by then: the client says whose it was."""
        self.start(channels={"news": {"receivers": ["coder"]}})
        self.caller.call("PUT", "/v1/memories/m-1", {"content": "long " * 3000})
        base = {"source_agent": "analyst", "task_summary": "x", "memory_ids": ["m-1"]}
        large = {**base, "target_agent": "coder", "strategy": "full", "constraints": {"max_tokens": 500}}
        for status, path, body, headers in (
                (422, "/v1/handoffs", large, {}),
                (422, "/v1/envelopes", large, {}),
                (422, "/v1/parked", {"request": large, "reason": "later"}, {}),
                (422, "/v1/handoffs", large, {"Idempotency-Key": "k-1"}),
                (404, "/v1/handoffs", {**base, "target_agent": "codr"}, {"Idempotency-Key": "k-2"}),
                (400, "/v1/handoffs", {**base, "target_agent": "coder", "task_sumary": "x"}, {"Idempotency-Key": "k-3"}),
                (422, "/v1/channels/news/publish", {"request": {**base, "strategy": "full", "constraints": {"max_tokens": 500}}},
                 {})):
            with self.subTest(path, **headers):
                reply = self.caller.call("POST", path, body, **headers)
                self.assertEqual(reply.status, status, reply.text)
                latest = self.on_the_page()[0]
                self.assertEqual((latest["code"], latest["source_agent"]), (reply.json()["code"], "analyst"), reply.text)
        self.assertNotIn("source=\"\"", self.daemon.log())

    def test_the_owner_of_the_token_is_named(self):
        tokens = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "tokens")
        tokens.write_text("analyst analyst-0123456789abcdef\n")
        tokens.chmod(0o600)
        self.start(api={"tokens_file": str(tokens)})
        self.caller.call("POST", "/v1/handoffs", {"source_agent": "coder", "target_agent": "coder", "task_summary": "x"},
                         Authorization="Bearer analyst-0123456789abcdef")
        self.caller.call("GET", "/v1/agents", Authorization="Bearer nobody-0123456789abcdef")
        stranger, analyst = self.on_the_page()
        self.assertEqual((analyst["code"], analyst["caller"], analyst["source_agent"], analyst["field"]),
                         ("forbidden", "analyst", "coder", "source_agent"))
        self.assertEqual((stranger["code"], stranger["caller"]), ("unauthenticated", None))
        self.assertNotIn("0123456789abcdef", self.daemon.log() + self.daemon.web.get("/").text)

    def test_how_handoffs_end_is_not_a_rejection_and_only_the_last_twenty_are_kept(self):
        self.start()
        self.assertEqual(self.caller.send().status, 200)
        self.assertEqual(self.on_the_page(), [])
        self.assertNotIn("Recently rejected requests", self.daemon.web.get("/").text)
        for number in range(25):
            self.caller.call("GET", f"/v1/handoffs?slip{number}=1")
        self.assertEqual([each["field"] for each in self.on_the_page()], [f"slip{number}" for number in range(24, 4, -1)])
        eventually(lambda: len(self.daemon.events("request_rejected")) >= 10, "they are logged")


if __name__ == "__main__":
    unittest.main()
