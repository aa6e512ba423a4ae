# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""handoff_oldest_open_task_seconds: an agent that dies after it acknowledged is seen."""

import contextlib
import datetime
import time
import unittest

from prometheus_client.parser import text_string_to_metric_families

from harness import Receiver, eventually
from harness.agents import Caller, daemon_with
from harness.receiver import Hold, ack, later, status


class Case(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.hold = Hold()
        self.addCleanup(self.hold.release)

    def start(self, *script, **more):
        self.coder = self.stack.enter_context(Receiver(*script))
        self.daemon = self.stack.enter_context(
            daemon_with({"coder": {"url": self.coder.url, "retries": 0}, "puller": {}}, **more))
        self.caller = Caller(self.daemon)

    def value(self, name="handoff_oldest_open_task_seconds"):
        text = self.daemon.web.get("/metrics").text
        return next(sample.value for family in text_string_to_metric_families(text)
                    for sample in family.samples if sample.name == name)

    def settled(self, reply):
        return datetime.datetime.fromisoformat(reply.json()["settled_at"]).timestamp()

    def waits(self):
        self.assertGreater(self.value(), 0)

    def rests(self):
        self.assertEqual(self.value(), 0)

    def complete(self, task="task-1"):
        self.assertEqual(self.caller.call("POST", f"/v1/tasks/{task}/complete").status, 200)


WATCHED = {"tasks": {"stalled_after": "10m"}}


class Stalled(Case):
    def test_a_task_waits_from_its_last_acknowledgement_until_it_goes_on_or_is_completed(self):
        self.start(ack, **WATCHED)
        self.assertEqual(self.value("handoff_task_stalled_after_seconds"), 600)
        self.rests()
        self.caller.send()
        self.waits()
        pulled = self.caller.send_async("puller")
        self.rests()
        self.caller.call("POST", f"/v1/handoffs/{pulled}/park", {"reason": "later"})
        self.rests()
        self.caller.call("POST", f"/v1/handoffs/{pulled}/cancel")
        self.waits()
        self.complete()
        self.rests()
        self.caller.send()
        self.rests()

    def test_the_oldest_of_several_is_told(self):
        self.start(ack, **WATCHED)
        one = self.settled(self.caller.send(task_id="one"))
        two = self.settled(self.caller.send(task_id="two"))
        asked = time.time()
        self.assertGreaterEqual(self.value(), asked - one - 0.002)
        self.complete("one")
        self.assertLessEqual(self.value(), time.time() - two + 0.002)
        self.complete("two")
        self.rests()

    def test_the_list_of_open_tasks_has_what_waits(self):
        """The alert says for how long; this says which task, and which agent had it last."""
        def listed(**more):
            query = "&".join(f"{name}={value}" for name, value in {"open": "true", **more}.items())
            items = self.caller.call("GET", f"/v1/handoffs?{query}").json()["items"]
            return [(item["task_id"], item["target_agent"]) for item in items]
        self.start(ack, **WATCHED)
        for task in "one", "one", "two", "three":
            self.caller.send(task_id=task)
        self.assertEqual(listed(), [("one", "coder"), ("two", "coder"), ("three", "coder")])
        self.complete("two")
        pulled = self.caller.send_async("puller", task_id="three")
        self.assertEqual(listed(), [("one", "coder")])
        self.caller.call("POST", f"/v1/handoffs/{pulled}/park", {"reason": "later"})
        self.assertEqual(listed(order="newest"), [("one", "coder")])
        self.caller.call("POST", f"/v1/handoffs/{pulled}/cancel")
        self.assertEqual(listed(), [("one", "coder"), ("three", "coder")])
        self.assertEqual(listed(task="three"), [("three", "coder")])
        self.assertEqual(listed(state="parked"), [])

    def test_the_last_of_a_task_is_the_one_acknowledged_last(self):
        """In whatever order they were made; one that is made before it and still in flight counts, too."""
        def listed():
            return [item["id"] for item in self.caller.call("GET", "/v1/handoffs?open=true").json()["items"]]
        self.start(ack, **WATCHED)
        pulled = [self.caller.send_async("puller") for _ in range(3)]
        for _ in pulled:
            self.caller.call("GET", "/v1/agents/puller/inbox")
        for handoff in pulled[1], pulled[0]:
            self.caller.call("POST", f"/v1/handoffs/{handoff}/ack")
            self.assertEqual(listed(), [])
        self.caller.call("POST", f"/v1/handoffs/{pulled[2]}/cancel")
        self.assertEqual(listed(), [pulled[0]])
        first = self.caller.send_async("puller")
        self.caller.send()
        self.assertEqual(listed(), [])
        self.caller.call("POST", f"/v1/handoffs/{first}/cancel")
        self.assertEqual(len(listed()), 1)

    def test_what_was_never_acknowledged_does_not_wait(self):
        self.start(status(422), later, self.hold, **WATCHED)
        refused = self.caller.send().json()["handoff"]["id"]
        self.caller.call("DELETE", f"/v1/parked/{refused}?reason=over")
        self.caller.send_async(task_id="deferred")
        self.caller.send_async(task_id="out")
        self.coder.wait_for(3)
        self.rests()

    def test_a_restart_finds_what_waits(self):
        self.start(ack, ack, ack, later, **WATCHED)
        for task in ("open", "completed", "goes-on"):
            self.caller.send(task_id=task)
        self.complete("completed")
        deferred = self.caller.send_async(task_id="goes-on")
        self.caller.wait_for_state(deferred, "awaiting_ack")
        self.daemon.kill()
        self.daemon.expected_exit = 0
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.waits()
        self.complete("open")
        self.rests()
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{deferred}/ack").status, 200)
        eventually(lambda: self.value() > 0, "the last acknowledgement is the task's")
        self.complete("goes-on")
        self.rests()

    def test_a_task_that_retention_removed_waits_no_longer(self):
        self.start(ack, **WATCHED, storage={"retention": {"age": "1s"}})
        sent = self.caller.send().json()["id"]
        self.waits()

        def gone():
            self.assertEqual(self.caller.call("GET", f"/v1/handoffs/{sent}").status, 404)
            return True
        eventually(gone, "retention removes it")
        eventually(lambda: self.value() == 0, "nothing of the task is left")

    def test_without_the_key_nothing_is_watched(self):
        self.start(ack)
        self.caller.send()
        self.rests()
        self.assertEqual(self.value("handoff_task_stalled_after_seconds"), 0)


if __name__ == "__main__":
    unittest.main()
