# SPDX-License-Identifier: Apache-2.0
"""Every delivery names its task, the handoff that began its chain, and the one before it."""

import json
import unittest

from harness import Receiver
from harness.agents import daemon_with
from harness.receiver import ack

NAMES = ("Handoff-Task-Id", "Handoff-Root-Id", "Handoff-Previous-Id")


class ChainHeaders(unittest.TestCase):
    def setUp(self):
        self.receiver = self.enterContext(Receiver(ack))
        self.daemon = self.enterContext(daemon_with({"coder": {"url": self.receiver.url}, "puller": {}}))

    def send(self, source, target, prefer="", **fields):
        request = {"source_agent": source, "target_agent": target, "task_summary": "go on", **fields}
        reply = self.daemon.api.post("/v1/handoffs", json.dumps(request).encode(), prefer=prefer)
        self.assertIn(reply.status, (200, 202), reply)
        return reply.json()

    def test_the_first_names_itself_and_no_previous_one(self):
        first = self.send("analyst", "coder", task_id="r\u00e9sum\u00e9 100%")
        request, = self.receiver.requests
        self.assertEqual([request.headers.get(name) for name in NAMES],
                         ["r%C3%A9sum%C3%A9%20100%25", first["id"], None])

    def test_each_hop_names_the_first_and_the_one_before(self):
        first = self.send("analyst", "coder")
        second = self.send("coder", "coder", previous_id=first["id"])
        third = self.send("coder", "puller", previous_id=second["id"], prefer="respond-async")
        self.assertEqual([self.receiver.requests[1].headers.get(name) for name in NAMES],
                         [first["task_id"], first["id"], first["id"]])
        pulled = self.daemon.api.get("/v1/agents/puller/inbox")
        self.assertEqual([pulled.headers.get(name.lower(), pulled.headers.get(name))
                          for name in ("Handoff-Id", *NAMES)],
                         [third["id"], first["task_id"], first["id"], second["id"]])

    def test_they_are_the_same_after_a_restart(self):
        first = self.send("analyst", "coder")
        second = self.send("coder", "puller", previous_id=first["id"], prefer="respond-async")
        self.daemon.kill()
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.daemon.expected_exit = 0
        pulled = self.daemon.api.get("/v1/agents/puller/inbox")
        self.assertEqual([pulled.headers.get(name.lower(), pulled.headers.get(name))
                          for name in ("Handoff-Id", *NAMES)],
                         [second["id"], first["task_id"], first["id"], first["id"]])


if __name__ == "__main__":
    unittest.main()
