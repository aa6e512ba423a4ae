# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""An operator's edit makes an envelope that replaces the old one; the old items are gone from the ledger."""

import datetime
import json
import time
import unittest

from harness.chain import Pushed, parents, state
from harness.receiver import ack, status


class Replaced(Pushed):
    def edited(self, **edit):
        """A parked second hop, and the envelope that replaces it."""
        first = self.chain.hand("researcher", "tester", state={"decisions": ["one"]}, constraints={"max_cost": 5})
        self.receiver.do(status(503))
        reply = self.chain.ask("tester", "analyst", state={"decisions": ["a mistake"]},
                               execution_history=[{"agent": "tester", "action": "erred"}])
        old = self.settle(reply.json()["id"], "parked")
        self.receiver.do(ack)
        reply = self.chain.call("POST", f"/v1/parked/{old}/replay", {"edit": edit})
        return first, old, reply

    def test_an_edit_replaces_with_the_same_parents_and_hop(self):
        first, old, reply = self.edited(task_summary="corrected", state={"decisions": ["right"]})
        self.assertEqual(reply.status, 200, reply)
        envelope = self.chain.envelope(reply.json()["id"])
        self.assertEqual(envelope["replaces"] if isinstance(envelope["replaces"], str) else
                         envelope["replaces"]["id"], old)
        self.assertEqual((parents(envelope), envelope["hop"]["count"]), ([first["id"]], 2))
        self.assertEqual(state(envelope)["decisions"], ["one", "right"])

    def test_a_replaced_requests_items_are_gone_from_the_ledger(self):
        _, old, reply = self.edited(state={"decisions": ["right"]}, execution_history=[])
        new = self.settle(reply.json()["id"], "acknowledged")
        envelope = self.chain.hand("analyst", "coder")
        self.assertEqual(parents(envelope), [new])
        self.assertEqual(state(envelope)["decisions"], ["one", "right"])
        self.assertEqual(self.chain.state(old)["state"], "discarded")
        self.assertNotIn("a mistake", json.dumps(self.chain.ledger(envelope)))

    def test_what_is_not_edited_is_as_it_was_asked_for(self):
        first, old, reply = self.edited(task_summary="corrected")
        self.assertEqual(reply.status, 200, reply)
        before, after = self.chain.envelope(old), self.chain.envelope(reply.json()["id"])
        self.assertEqual(state(after), state(before))
        self.assertEqual(after["context"]["history"], before["context"]["history"])
        self.assertEqual(after["context"]["constraints"], {"max_cost": 5})
        self.assertEqual(after["hop"], before["hop"])

    def test_an_edit_of_an_edit(self):
        _, old, reply = self.edited(state={"decisions": ["wrong again"]}, target_agent="coder")
        self.assertEqual(reply.status, 400, reply)  # target_agent belongs beside `edit`
        self.receiver.do(status(503))
        second = self.chain.call("POST", f"/v1/parked/{old}/replay", {"edit": {"state": {"decisions": ["wrong"]}}})
        second = self.settle(second.json()["id"], "parked")
        self.receiver.do(ack)
        reply = self.chain.call("POST", f"/v1/parked/{second}/replay", {"edit": {"state": {"decisions": ["right"]}}})
        envelope = self.chain.envelope(reply.json()["id"])
        self.assertEqual((envelope["replaces"]["id"], envelope["hop"]["count"]), (second, 2))
        self.assertEqual(state(envelope)["decisions"], ["one", "right"])

    def test_a_later_deadline_holds_for_what_follows(self):
        soon, later = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + hours * 3600))
                       for hours in (1, 2))
        self.receiver.do(status(503))
        reply = self.chain.ask("tester", "analyst", constraints={"deadline": soon, "max_cost": 5})
        old = self.settle(reply.json()["id"], "parked")
        self.receiver.do(ack)
        reply = self.chain.call("POST", f"/v1/parked/{old}/replay", {"edit": {"constraints": {"deadline": later}}})
        self.assertEqual(reply.status, 200, reply)
        self.settle(reply.json()["id"], "acknowledged")
        envelope = self.chain.hand("analyst", "coder")
        self.assertEqual(envelope["context"]["constraints"], {"deadline": later, "max_cost": 5})

    def test_only_an_edit_with_a_later_deadline_revives_what_has_expired(self):
        soon, later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
                       for seconds in (1, 3600))
        self.receiver.do(lambda request: self.chain.wait_for_state(request.id, "expired"))
        reply = self.chain.ask("tester", "analyst", state={"decisions": ["too late"]},
                               constraints={"deadline": soon.isoformat()})
        old = self.settle(reply.json()["id"], "expired")
        self.receiver.do(ack)
        for body, code, name in ((None, 409, "conflict"), ({"edit": {}}, 422, "deadline_passed")):
            reply = self.chain.call("POST", f"/v1/parked/{old}/replay", body)
            self.assertEqual((reply.status, reply.json()["code"]), (code, name), reply)
        edit = {"edit": {"constraints": {"deadline": later.isoformat()}}}
        reply = self.chain.call("POST", f"/v1/parked/{old}/replay", edit)
        self.assertEqual(reply.status, 200, reply)
        new = self.settle(reply.json()["id"], "acknowledged")
        self.assertEqual(self.chain.envelope(new)["replaces"]["id"], old)
        self.assertEqual(self.chain.state(old)["state"], "expired")
        again = self.chain.call("POST", f"/v1/parked/{old}/replay", edit)
        self.assertEqual((again.status, again.json()["code"]), (409, "conflict"), again)

    def test_an_edit_cannot_loosen(self):
        _, old, reply = self.edited(constraints={"max_cost": 6})
        self.assertEqual((reply.status, reply.json()["code"]), (422, "constraint_loosened"), reply)
        self.assertEqual(self.chain.state(old)["state"], "parked")


if __name__ == "__main__":
    unittest.main()
