# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""target_agent "next": the real daemon delivers to the agent that the pipeline names."""

import json
import os
import subprocess
import unittest

from harness import Receiver, environment
from harness.agents import Caller, daemon_with
from harness.receiver import ack
from test_measures import Samples

HANDOFFCTL = os.environ["HANDOFFCTL"]
PIPELINES = {"payments": ["analyst", "coder", "reviewer"], "hotfix": ["coder", "operator"]}


class Next(unittest.TestCase):
    def setUp(self):
        self.receivers = {name: self.enterContext(Receiver(ack))
                          for name in ("analyst", "coder", "reviewer", "operator")}
        self.agents = {name: {"url": one.url} for name, one in self.receivers.items()}
        self.daemon = self.enterContext(daemon_with(self.agents, pipelines=PIPELINES))
        self.caller = Caller(self.daemon)

    def refused(self, status, code, field, **fields):
        reply = self.caller.send("next", **fields)
        problem = reply.json()
        self.assertEqual((reply.status, problem["code"], problem["field"]), (status, code, field))
        return problem

    def test_a_task_walks_down_the_pipeline(self):
        first = self.caller.send("next", pattern="choreographed").json()
        self.assertEqual((first["state"], first["target_agent"], first["pattern"]),
                         ("acknowledged", "coder", "choreographed"))
        envelope = self.receivers["coder"].requests[0].json()
        self.assertEqual(envelope["target_agent"], "coder")
        second = self.caller.send("next", source_agent="coder", previous_id=first["id"],
                                  pipeline="payments").json()
        self.assertEqual(second["target_agent"], "reviewer")
        self.assertEqual(len(self.receivers["reviewer"].requests), 1)
        self.refused(422, "no_next_agent", "source_agent", source_agent="reviewer",
                     previous_id=second["id"])
        samples = Samples(self.daemon.web.get("/metrics").text)
        self.assertEqual(samples.series("handoff_handoffs_total"),
                         {("acknowledged", "choreographed", "coder"): 1,
                          ("acknowledged", "direct", "reviewer"): 1})

    def test_what_names_nobody_is_refused(self):
        several = self.refused(400, "invalid_request", "pipeline", source_agent="coder")
        self.assertEqual(several["allowed"], "hotfix, payments")
        self.refused(400, "invalid_request", "source_agent", source_agent="stranger")
        self.refused(400, "invalid_request", "source_agent", pipeline="hotfix")
        self.refused(400, "invalid_request", "pipeline", pipeline="nightly")
        reply = self.caller.send("coder", pipeline="payments")
        self.assertEqual((reply.status, reply.json()["field"]), (400, "pipeline"))
        self.assertEqual([len(one.requests) for one in self.receivers.values()], [0, 0, 0, 0])

    def test_a_reload_changes_who_is_next(self):
        self.daemon.write_config(json.dumps({
            "agents": self.agents, "pipelines": {"payments": ["analyst", "reviewer"]}}))
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertEqual(self.caller.send("next").json()["target_agent"], "reviewer")

    def test_from_the_command_line(self):
        done = subprocess.run(
            [HANDOFFCTL, "send", "--from", "coder", "--to", "next", "--pipeline", "hotfix",
             "--summary", "Roll it out", "--json"], text=True, capture_output=True, timeout=60,
            check=True, env=environment(HANDOFF_API_URL=self.daemon.api.url))
        self.assertEqual(json.loads(done.stdout)["target_agent"], "operator")


if __name__ == "__main__":
    unittest.main()
