# SPDX-License-Identifier: Apache-2.0
"""The hop limit parks: the work is kept for an operator, and the sender is told where."""

import json
import unittest

from harness import Receiver
from harness.agents import daemon_with
from harness.receiver import ack


class HopLimit(unittest.TestCase):
    def setUp(self):
        self.receiver = self.enterContext(Receiver(ack))
        self.daemon = self.enterContext(daemon_with({"coder": {"url": self.receiver.url}}, hops={"max": 1}))

    def send(self, prefer="", **fields):
        request = {"source_agent": "analyst", "target_agent": "coder", "task_summary": "go on", **fields}
        return self.daemon.api.post("/v1/handoffs", json.dumps(request).encode(), prefer=prefer)

    def beyond(self, **more):
        first = self.send().json()
        reply = self.send(source_agent="coder", previous_id=first["id"], constraints={"style": "plain"}, **more)
        self.assertEqual((reply.status, reply.json()["code"]), (422, "hop_limit"), reply)
        return reply.json()["handoff"]

    def test_what_is_beyond_it_is_parked_and_the_sender_is_told(self):
        for prefer in ("", "respond-async"):
            with self.subTest(prefer):
                handoff = self.beyond(prefer=prefer)
                self.assertEqual((handoff["state"], handoff["reason"]), ("parked", "hop_limit"))
                parked = self.daemon.api.get("/v1/parked").json()["items"]
                self.assertIn(handoff["id"], [item["id"] for item in parked])
        self.assertEqual(len(self.receiver.requests), 2, "only the first hops were delivered")

    def test_the_problem_names_the_hops(self):
        first = self.send().json()
        request = {"source_agent": "coder", "target_agent": "coder", "task_summary": "x", "previous_id": first["id"]}
        for path, prefer in (("/v1/handoffs", ""), ("/v1/handoffs", "respond-async"), ("/v1/envelopes", "")):
            with self.subTest(path=path, prefer=prefer):
                problem = self.daemon.api.post(path, json.dumps(request).encode(), prefer=prefer).json()
                self.assertEqual((problem["field"], problem["seen"], problem["allowed"]), ("hop.count", "2", "up to 1"))
                self.assertIn("hops.max", problem["detail"])

    def test_a_repeat_has_the_same_answer(self):
        first = self.send().json()
        request = {"source_agent": "coder", "target_agent": "coder", "task_summary": "x", "previous_id": first["id"]}
        replies = [self.daemon.api.request("POST", "/v1/handoffs", json.dumps(request), {"Idempotency-Key": "k"})
                   for _ in range(2)]
        self.assertEqual([reply.status for reply in replies], [422, 422])
        self.assertEqual(replies[0].json(), replies[1].json())
        delivered = self.daemon.api.post(f"/v1/envelopes/{replies[0].json()['handoff']['id']}/deliver")
        self.assertEqual(replies[0].json(), delivered.json())

    def test_an_operator_replays_it(self):
        handoff = self.beyond()
        reply = self.daemon.api.post(f"/v1/parked/{handoff['id']}/replay", b"{}")
        self.assertEqual(reply.status, 200, reply)
        _, second = self.receiver.wait_for(2)
        self.assertEqual(second.id, handoff["id"])
        self.assertEqual(second.json()["hop"]["count"], 2)

    def test_it_is_parked_after_a_kill(self):
        handoff = self.beyond()
        self.daemon.kill()
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.daemon.expected_exit = 0
        found = self.daemon.api.get(f"/v1/handoffs/{handoff['id']}").json()
        self.assertEqual((found["state"], found["reason"]), ("parked", "hop_limit"))

    def test_it_counts_once_as_an_outcome_and_as_parked(self):
        self.beyond()
        text = self.daemon.web.get("/metrics").text.splitlines()
        self.assertIn('handoff_handoffs_total{target_agent="coder",pattern="direct",outcome="hop_limit"} 1', text)
        self.assertIn('handoff_parked_total{target_agent="coder",reason="hop_limit"} 1', text)

    def test_an_assembled_envelope_beyond_it_is_rejected(self):
        first = self.send().json()
        request = {"source_agent": "coder", "target_agent": "coder", "task_summary": "x", "previous_id": first["id"]}
        reply = self.daemon.api.post("/v1/envelopes", json.dumps(request).encode())
        self.assertEqual((reply.status, reply.json()["code"]), (422, "hop_limit"), reply)
        self.assertEqual(self.daemon.api.get("/v1/parked").json()["items"], [])


if __name__ == "__main__":
    unittest.main()
