# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Progress that the agent with a handoff reports, over each protocol, is stored and shown."""

import contextlib
import os
import subprocess
import unittest

from harness import Daemon, environment
from harness.agents import Caller, daemon_with
from harness.receiver import Receiver, later

HANDOFFCTL = os.environ["HANDOFFCTL"]
TEXT = "ran 40 of 120 tests: naïve ones first"


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.slow = stack.enter_context(Receiver(later))
        self.daemon = stack.enter_context(daemon_with(
            {"slow": {"url": self.slow.url}, "puller": {"ack_timeout": "60s"}}))
        self.caller = Caller(self.daemon)

    def announced(self):
        handoff = self.caller.send_async("slow")
        self.caller.wait_for_state(handoff, "awaiting_ack")
        return handoff

    def pulled(self):
        handoff = self.caller.send_async("puller")
        reply = self.caller.call("GET", "/v1/agents/puller/inbox?wait=20s")
        self.assertEqual(reply.header("Handoff-Id"), handoff)
        return handoff

    def tell(self, handoff, progress=TEXT, **headers):
        return self.caller.call("POST", f"/v1/handoffs/{handoff}/extend", {"progress": progress}, **headers)

    def restart(self):
        """After SIGKILL."""
        self.daemon.kill()
        self.daemon.log_path.unlink()
        daemon = self.enterContext(Daemon(config=self.daemon.config_path.read_text(encoding="utf-8"),
                                          folder=self.daemon.folder))
        self.caller = Caller(daemon)

    def assert_progress(self, handoff, text=TEXT):
        found = self.caller.state(handoff)
        self.assertEqual(found.get("progress"), text)
        self.assertEqual("progress_at" in found, text is not None)
        return found

    def test_it_is_shown_whatever_the_protocol(self):
        for make, state in ((self.announced, "awaiting_ack"), (self.pulled, "in_flight")):
            with self.subTest(state):
                handoff = make()
                self.assert_progress(handoff, None)
                reply = self.tell(handoff)
                self.assertEqual((reply.status, reply.json()["progress"], reply.json()["state"]), (200, TEXT, state))
                self.assertGreaterEqual(reply.json()["progress_at"], reply.json()["created_at"])
                self.assert_progress(handoff)
                listed = self.caller.call("GET", "/v1/tasks/task-1").json()["items"][-1]
                self.assertEqual((listed["id"], listed["progress"]), (handoff, TEXT))

    def test_the_newest_is_kept_and_an_extension_without_it_keeps_it(self):
        for handoff in (self.announced(), self.pulled()):
            self.tell(handoff, "reading")
            self.tell(handoff, "writing")
            self.assert_progress(handoff, "writing")
            self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{handoff}/extend").status, 200)
            self.assert_progress(handoff, "writing")

    def test_it_stays_when_the_handoff_is_over_and_the_sender_is_told(self):
        handoff = self.announced()
        self.tell(handoff)
        reply = self.caller.call("POST", f"/v1/handoffs/{handoff}/ack")
        self.assertEqual((reply.json()["state"], reply.json()["progress"]), ("acknowledged", TEXT))

    def test_what_was_told_survives_a_kill_and_a_lease_is_offered_again_at_once(self):
        announced, pulled = self.announced(), self.pulled()
        for handoff in (announced, pulled):
            self.assertEqual(self.tell(handoff).status, 200)
        self.restart()
        for handoff in (announced, pulled):
            self.assert_progress(handoff)
        reply = self.caller.call("GET", "/v1/agents/puller/inbox?wait=5s")
        self.assertEqual(reply.header("Handoff-Id"), pulled)
        self.assertEqual(self.tell(announced, "again").status, 200)
        self.assert_progress(announced, "again")

    def test_many_at_once(self):
        handoff = self.pulled()
        for i in range(50):
            self.tell(handoff, f"step {i}")
        self.assert_progress(handoff, "step 49")
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{handoff}/ack").json()["progress"], "step 49")

    def test_where_no_agent_has_it_nothing_is_stored(self):
        waiting = self.caller.send_async("puller")
        reply = self.tell(waiting)
        self.assertEqual((reply.status, reply.json()["code"]), (409, "conflict"))
        self.assert_progress(waiting, None)

    def test_bad_bodies(self):
        handoff = self.pulled()
        for body, field in (({"progress": ""}, "progress"), ({"progress": "x" * 1025}, "progress"),
                            ({"progress": 7}, "progress"), ({"progres": "x"}, "progres")):
            reply = self.caller.call("POST", f"/v1/handoffs/{handoff}/extend", body)
            self.assertEqual((reply.status, reply.json()["field"]), (400, field), body)
        reply = self.caller.call("POST", f"/v1/handoffs/{handoff}/extend", "soon")
        self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_json"))
        self.assert_progress(handoff, None)

    def ctl(self, *words):
        return subprocess.run([HANDOFFCTL, *words], text=True, capture_output=True, check=True,
                              env=environment(HANDOFF_API_URL=self.url)).stdout

    def test_handoffctl_tells_and_shows_it(self):
        self.url = self.daemon.api.url
        handoff = self.pulled()
        self.assertIn("in_flight", self.ctl("extend", handoff, "--progress", TEXT))
        self.assertIn(f"progress    {TEXT} (", self.ctl("status", handoff))
        self.assertIn(TEXT, self.ctl("task", "task-1"))
        self.assertIn(handoff, self.ctl("extend", handoff))


if __name__ == "__main__":
    unittest.main()
