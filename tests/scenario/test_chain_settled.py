# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Items count however their handoff ended, and the hop limit parks."""

import datetime
import unittest

from harness.chain import Pushed, history, parents, state
from harness.receiver import nack, status


class Settled(Pushed):
    """Items count however their handoff ended, unless it was replaced."""

    def following(self, agent="analyst"):
        return self.chain.hand(agent, "coder")

    def test_the_items_of_a_refused_handoff_count(self):
        self.receiver.do(nack("not mine", False))
        first = self.settle(self.begin(), "parked")
        envelope = self.following()
        self.assertEqual((parents(envelope), state(envelope)["decisions"]), ([first], ["one"]))

    def test_the_items_of_a_discarded_handoff_count(self):
        self.receiver.do(status(503))
        first = self.settle(self.begin(), "parked")
        self.assertEqual(self.chain.call("DELETE", f"/v1/parked/{first}?reason=done").status, 200)
        envelope = self.following()
        self.assertEqual((parents(envelope), state(envelope)["decisions"]), ([first], ["one"]))

    def test_the_items_of_an_expired_handoff_count(self):
        self.receiver.do(lambda request: self.chain.wait_for_state(request.id, "expired"))
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
        soon = soon.isoformat().replace("+00:00", "Z")
        first = self.settle(self.begin(constraints={"deadline": soon}), "expired")
        reply = self.chain.ask("analyst", "coder")
        if reply.status == 202:  # the inherited deadline is over, and the work with it
            envelope = self.chain.envelope(reply.json()["id"])
            self.assertEqual((parents(envelope), state(envelope)["decisions"]), ([first], ["one"]))
        else:
            self.assertIn(reply.json()["code"], ("deadline_passed", "expired"), reply)

    def test_an_earlier_summary_is_a_step_of_who_gave_it_to_whom(self):
        first = self.chain.hand("researcher", "tester", summary="Compare the gateways")
        envelope = self.chain.hand("tester", "coder")
        self.assertEqual(len(history(envelope)), 1)
        self.assertIn("tester: Compare the gateways", history(envelope)[0]["action"])
        self.assertEqual(history(envelope)[0].get("at", first["created_at"])[:10], first["created_at"][:10])


class HopLimit(Pushed):
    def over(self):
        self.chain.hand("researcher", "tester", state={"decisions": ["one"]})
        self.chain.hand("tester", "writer")
        self.chain.hand("writer", "reviewer")
        return self.chain.ask("reviewer", "coder", state={"decisions": ["four"]})

    def test_the_hop_limit_parks_and_answers_422_with_the_handoff(self):
        reply = self.over()
        self.assertEqual((reply.status, reply.json()["code"]), (422, "hop_limit"), reply)
        handoff = reply.json()["handoff"]
        self.assertEqual((handoff["state"], handoff["reason"]), ("parked", "hop_limit"))
        self.assertEqual(self.chain.state(handoff["id"])["state"], "parked")
        envelope = self.chain.envelope(handoff["id"])
        self.assertEqual((envelope["hop"]["count"], state(envelope)["decisions"]), (4, ["one", "four"]))
        self.assertIn(handoff["id"], [item["id"] for item in self.chain.parked()["items"]])

    def test_a_waiting_sender_gets_the_same(self):
        self.chain.hand("researcher", "tester")
        self.chain.hand("tester", "writer")
        self.chain.hand("writer", "reviewer")
        reply = self.chain.ask("reviewer", "coder", headers={"prefer": "x-nothing"})
        self.assertEqual((reply.status, reply.json()["code"]), (422, "hop_limit"), reply)
        self.assertEqual(reply.json()["handoff"]["state"], "parked")

    def test_an_operator_replays_it(self):
        handoff = self.over().json()["handoff"]["id"]
        self.assertEqual(self.chain.call("POST", f"/v1/parked/{handoff}/replay").status, 200)
        pulled = self.chain.call("GET", "/v1/agents/coder/inbox?wait=20s")
        self.assertEqual(pulled.json()["id"], handoff)

    def test_an_operator_edits_it(self):
        old = self.over().json()["handoff"]["id"]
        reply = self.chain.call("POST", f"/v1/parked/{old}/replay", {"edit": {"state": {"decisions": ["five"]}}})
        self.assertEqual(reply.status, 200, reply)
        pulled = self.chain.call("GET", "/v1/agents/coder/inbox?wait=20s").json()
        self.assertEqual((pulled["id"], pulled["hop"]["count"]), (reply.json()["id"], 4))
        self.assertEqual(self.chain.state(old)["state"], "discarded")

    def test_what_is_parked_at_the_limit_is_counted_so(self):
        self.over()
        lines = self.daemon.web.get("/metrics").text.splitlines()
        self.assertIn('handoff_handoffs_total{target_agent="coder",pattern="direct",outcome="hop_limit"} 1', lines)


if __name__ == "__main__":
    unittest.main()
