# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""An envelope that was assembled is delivered later, as it is."""

import unittest

from harness.chain import Pushed, parents, state


class Deliver(Pushed):
    def deliver(self, envelope, **headers):
        return self.chain.call("POST", f"/v1/envelopes/{envelope['id']}/deliver", **headers)

    def test_an_assembled_envelope_is_delivered_as_it_is(self):
        self.chain.remember("deliver-1", "as it was")
        envelope = self.chain.assemble("researcher", "analyst", memory_ids=["deliver-1"], state={"decisions": ["one"]})
        self.chain.remember("deliver-1", "as it is now")
        reply = self.deliver(envelope)
        self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"), reply)
        request, = self.receiver.requests
        self.assertEqual(request.json(), envelope, "no new hop, the same memories")
        self.assertEqual(request.id, reply.json()["id"])

    def test_it_is_delivered_once(self):
        envelope = self.chain.assemble("researcher", "analyst")
        for _ in range(3):
            self.deliver(envelope)
        self.assertEqual(len(self.receiver.requests), 1)

    def test_its_successor_is_hop_2(self):
        envelope = self.chain.assemble("researcher", "analyst", state={"decisions": ["one"]})
        self.assertEqual(self.deliver(envelope).status, 200)
        following = self.chain.hand("analyst", "coder")
        self.assertEqual((following["hop"]["count"], parents(following)), (2, [envelope["id"]]))
        self.assertEqual(state(following)["decisions"], ["one"])

    def test_an_envelope_that_is_none_is_not_found(self):
        reply = self.deliver({"id": "0190aaaa-0000-7000-8000-000000000001"})
        self.assertEqual((reply.status, reply.json()["code"]), (404, "not_found"))


if __name__ == "__main__":
    unittest.main()
