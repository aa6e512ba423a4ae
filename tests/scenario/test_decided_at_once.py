# SPDX-License-Identifier: Apache-2.0
# variants: release asan tsan
"""Who is told that a handoff is parked, or that a decision failed, can decide about it at once."""

import datetime
import unittest

from harness.agents import daemon_with
from harness.chain import AGENTS, Chain, pullers

ROUNDS = 100


class AtOnce(unittest.TestCase):
    """Each call is a connection, and those are spread over the API's threads: the next call may be faster than the
    thread that has answered the last."""

    def setUp(self):
        self.daemon = self.enterContext(daemon_with(pullers(*AGENTS), hops={"max": 1}))
        self.chain = Chain(self.daemon, "at-once")

    def post(self, path, body=None, **headers):
        return self.chain.call("POST", path, body, **headers)

    def must(self, status, path, body=None, **headers):
        reply = self.post(path, body, **headers)
        self.assertEqual(reply.status, status, reply)
        return reply.json()

    def send(self, **fields):
        reply = self.chain.ask("researcher", "analyst", task_id=None, **fields)
        self.assertEqual(reply.status, 202, reply)
        return reply.json()["id"]

    def replay(self, handoff, **body):
        return self.must(200, f"/v1/parked/{handoff}/replay", body)

    def test_after_a_park_by_hand(self):
        for _ in range(ROUNDS):
            handoff = self.send()
            self.must(200, f"/v1/handoffs/{handoff}/park", {"reason": "look at it"})
            self.replay(handoff)

    def test_after_a_nack_that_parks(self):
        for _ in range(ROUNDS):
            handoff = self.send()
            inbox = self.chain.call("GET", "/v1/agents/analyst/inbox")
            self.assertEqual(inbox.header("Handoff-Id"), handoff, inbox)
            self.must(200, f"/v1/handoffs/{handoff}/nack", {"reason": "not mine", "retry": False})
            self.replay(handoff)
            self.must(200, f"/v1/handoffs/{handoff}/cancel")

    def test_after_a_request_that_is_parked_at_once(self):
        for number in range(ROUNDS):
            request = {"source_agent": "researcher", "target_agent": "analyst", "task_summary": "Wait",
                       "task_id": f"parked-{number}"}
            parked = self.must(200, "/v1/parked", {"request": request, "reason": "wait"})
            self.replay(parked["id"])

    def test_after_the_hop_limit_has_parked_it(self):
        for number in range(ROUNDS):
            chain = Chain(self.daemon, f"limit-{number}")
            chain.hand("researcher", "analyst")
            status, problem = chain.refused("analyst", "coder")
            self.assertEqual((status, problem["code"]), (422, "hop_limit"), problem)
            self.replay(problem["handoff"]["id"])

    def test_after_a_replay_that_was_refused(self):
        for _ in range(ROUNDS):
            handoff = self.send()
            self.must(200, f"/v1/handoffs/{handoff}/park", {"reason": "look at it"})
            reply = self.post(f"/v1/parked/{handoff}/replay", {"target_agent": "nobody"})
            self.assertEqual((reply.status, reply.json()["code"]), (404, "unknown_agent"), reply)
            self.replay(handoff)

    def test_after_an_edit(self):
        handoff = self.send()
        for number in range(ROUNDS):
            self.must(200, f"/v1/handoffs/{handoff}/park", {"reason": "look at it"})
            reply = self.post(f"/v1/parked/{handoff}/replay", {"edit": {"task_summary": 1}})
            self.assertEqual(reply.status, 400, reply)
            handoff = self.replay(handoff, edit={"task_summary": f"number {number}"})["id"]

    def test_after_a_deadline_has_passed(self):
        """It is expired, and an edit revives it."""
        for _ in range(3):
            soon, later = ((datetime.datetime.now(datetime.timezone.utc) +
                            datetime.timedelta(seconds=seconds)).isoformat() for seconds in (0.5, 3600))
            reply = self.chain.ask("researcher", "analyst", task_id=None, headers={"prefer": "wait=10"},
                                   constraints={"deadline": soon})
            expired = reply.json()["handoff"]["id"]
            self.assertEqual(self.chain.state(expired)["state"], "expired")
            self.replay(expired, edit={"constraints": {"deadline": later}})


if __name__ == "__main__":
    unittest.main()
