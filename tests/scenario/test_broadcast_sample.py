# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""The broadcast sample of the specification, call by call over HTTP: one receiver is dead, one is slow, and one
sees everything twice."""

import datetime
import unittest

from harness import eventually
from harness.receiver import Hold, ack, hang_up, status
from test_channels import CHANNEL, Case

SUMMARY = "Research complete on OAuth 2.1 migration. Findings stored in ms-7100 through ms-7108."
FINDINGS = [f"ms-{number}" for number in range(7100, 7109)]
RECEIVERS = ["code-generator", "test-writer", "doc-writer"]


class BroadcastSample(Case):
    def remember(self, identifier):
        reply = self.caller.call("PUT", f"/v1/memories/{identifier}",
                                 {"content": f"Finding {identifier}: PKCE is required for every client."})
        self.assertIn(reply.status, (200, 201), reply)

    def assemble(self):
        """spine.agent_handoff(target_agent="broadcast", include_recent=15, ...); the deadline is not the past one."""
        deadline = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        reply = self.caller.call("POST", "/v1/envelopes", {
            "source_agent": "researcher", "target_agent": "broadcast", "include_recent": 15, "task_summary": SUMMARY,
            "constraints": {"deadline": deadline.strftime("%Y-%m-%dT%H:%M:%SZ")}})
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def received(self, name):
        return [(request.id, request.json()["id"]) for request in self.receivers[name].requests]

    def test_each_receiver_has_it_independently(self):
        slow = Hold()
        self.addCleanup(slow.release)
        self.start({"code-generator": hang_up, "test-writer": slow, "doc-writer": status(503)})
        self.receivers["code-generator"].do(hang_up, ack)  # the first acknowledgement is lost
        for identifier in FINDINGS:
            self.remember(identifier)
        envelope = self.assemble()
        self.assertEqual(sorted(envelope["memory_refs"]), FINDINGS)
        reply = self.post({"envelope_id": envelope["id"], "receivers": RECEIVERS})
        self.assertEqual((reply.status, reply.json()["id"], reply.json()["channel"]), (202, envelope["id"], CHANNEL), reply)
        handoffs = {one["receiver"]: one["handoff_id"] for one in reply.json()["deliveries"]}
        self.assertEqual((list(handoffs), len(set(handoffs.values()))), (RECEIVERS, 3))
        eventually(lambda: self.states(envelope["id"]) == {
            "code-generator": "acknowledged", "test-writer": "in_flight", "doc-writer": "parked"}, "none waits for another")
        self.assertEqual(self.channel(), {"code-generator": (0, 0), "test-writer": (1, 0), "doc-writer": (0, 1)})
        slow.release()
        self.wait_for_states(envelope["id"], code_generator="acknowledged", test_writer="acknowledged", doc_writer="parked")
        self.check_counts(envelope["id"], handoffs)
        self.check_store(audit=False)

    def check_counts(self, identifier, handoffs):
        """QUICK has two retries. The duplicate has the same ids."""
        for name, times in (("code-generator", 2), ("test-writer", 1), ("doc-writer", 3)):
            self.assertEqual(self.received(name), [(handoffs[name], identifier)] * times)
        deliveries = {one["receiver"]: one["attempts"] for one in self.publication(identifier)["deliveries"]}
        self.assertEqual(deliveries, {"code-generator": 2, "test-writer": 1, "doc-writer": 3})
        self.assertEqual(self.feeds("handoff_channel_published_total"), dict.fromkeys(RECEIVERS, 1))
        self.assertEqual(self.feeds("handoff_channel_redelivered_total"),
                         {"code-generator": 1, "test-writer": 0, "doc-writer": 2})
        self.assertEqual(self.feeds("handoff_channel_pending"), dict.fromkeys(RECEIVERS, 0))


if __name__ == "__main__":
    unittest.main()
