# SPDX-License-Identifier: Apache-2.0
"""`handoffctl task` where retention has removed some of the task's envelopes."""

import json
import os
import subprocess
import unittest

from harness import Receiver, environment, eventually
from harness.agents import daemon_with
from harness.chain import AGENTS, Chain, pullers
from harness.receiver import ack

HANDOFFCTL = os.environ["HANDOFFCTL"]
FILL = "retry the request with a backoff and jitter " * ((1 << 17) // 44)


class Removed(unittest.TestCase):
    def setUp(self):
        analyst = self.enterContext(Receiver(ack))
        self.daemon = self.enterContext(daemon_with(
            {**pullers(*AGENTS, token_budget=1000000), "analyst": {"url": analyst.url}},
            storage={"retention": {"size": "1MiB"}}))
        self.chain = Chain(self.daemon, "kept")

    def task(self, *words):
        done = subprocess.run([HANDOFFCTL, "task", "kept", *words], capture_output=True, text=True, timeout=60,
                              check=False, env=environment(HANDOFF_API_URL=self.daemon.api.url))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def remove(self, handoff):
        for number in range(10):  # 1.25 MiB that are younger
            Chain(self.daemon, f"filler-{number}").assemble("researcher", "writer", task_id=None,
                                                            state={"progress": FILL})

        def removed():
            self.assertEqual(self.chain.call("GET", f"/v1/handoffs/{handoff}/envelope").status, 410)
            return True
        eventually(removed, "its body is removed")

    def test_the_others_are_shown_and_which_is_removed(self):
        first = self.chain.ask("researcher", "analyst").json()["id"]
        self.remove(first)
        second = self.chain.hand("analyst", "coder")["id"]
        root, child = self.task().splitlines()
        self.assertRegex(root, f"^researcher -> analyst  acknowledged  envelope removed  attempts .*{first}$")
        self.assertRegex(child, f"^`- analyst -> coder  .*  hop 2  .*{second}$")
        items = json.loads(self.task("--json"))["items"]
        self.assertEqual([(item["id"], item["previous_id"], item["hop"], item["removed"]) for item in items],
                         [(first, None, None, True), (second, first, 2, False)])


if __name__ == "__main__":
    unittest.main()
