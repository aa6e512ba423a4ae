# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Every answer of the agent API is counted, by the call and the code of its problem."""

import unittest

from prometheus_client.parser import text_string_to_metric_families

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import ack, status

NAME = "handoff_api_requests_total"
MANY = "many words about payments " * 200


class Requests(unittest.TestCase):
    def setUp(self):
        self.coder = self.enterContext(Receiver(ack))
        self.daemon = self.enterContext(daemon_with({"coder": {"url": self.coder.url, "retries": 0},
                                                     "puller": {}}))
        self.caller = Caller(self.daemon)

    def counted(self):
        """{(call, code): how many}, of those that occurred."""
        return {key: value for key, value in self.all().items() if value}

    def all(self):
        text = self.daemon.web.get("/metrics").text
        return {(sample.labels["call"], sample.labels["code"]): sample.value
                for family in text_string_to_metric_families(text) for sample in family.samples
                if sample.name == NAME}

    def test_what_a_call_may_answer_begins_at_0(self):
        found = self.all()
        for key in (("send_handoff", "ok"), ("send_handoff", "budget_too_small"), ("send_handoff", "rejected"),
                    ("none", "not_found"), ("list_parked", "invalid_cursor")):
            self.assertEqual(found.get(key), 0, key)
        self.assertLess(len(found), 500)

    def test_each_answer_counts_once(self):
        caller = self.caller
        self.assertEqual(caller.send().status, 200)
        self.assertEqual(caller.send_async("coder") is not None, True)
        self.coder.do(status(500))
        self.assertEqual(caller.send().status, 502)
        for body, code in (("{", 400), ({"target_agent": "nobody"}, 400),
                           ({"source_agent": "a", "target_agent": "coder", "task_summary": "x", "intent": MANY,
                             "constraints": {"max_tokens": 100}}, 422)):
            self.assertEqual(caller.call("POST", "/v1/handoffs", body).status, code)
        self.assertEqual(caller.call("GET", "/v1/agents").status, 200)
        self.assertEqual(caller.call("GET", "/v1/agents/puller/inbox").status, 204)
        self.assertEqual(caller.call("GET", "/v1/agent").status, 404)
        self.assertEqual(caller.call("DELETE", "/v1/agents").status, 405)
        self.assertEqual(self.counted(), {
            ("send_handoff", "ok"): 2, ("send_handoff", "exhausted"): 1, ("send_handoff", "invalid_json"): 1,
            ("send_handoff", "invalid_request"): 1, ("send_handoff", "budget_too_small"): 1,
            ("list_agents", "ok"): 1, ("pull_handoff", "ok"): 1,
            ("none", "not_found"): 1, ("none", "method_not_allowed"): 1})

    def test_the_web_listener_is_not_counted(self):
        self.daemon.web.get("/")
        self.daemon.web.get("/nothing")
        self.assertEqual(self.counted(), {})


if __name__ == "__main__":
    unittest.main()
