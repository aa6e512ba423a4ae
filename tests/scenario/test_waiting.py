# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""How long a sender waits: Prefer: wait=N and respond-async, also of a repeat under a key."""

import contextlib
import threading
import unittest

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import Hold, ack, status


class Case(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.hold = Hold()
        self.addCleanup(self.hold.release)

    def caller(self, *script, **settings):
        self.coder = self.stack.enter_context(Receiver(*script))
        return Caller(self.stack.enter_context(
            daemon_with({"coder": {"url": self.coder.url, **settings}})))

    def in_background(self, caller, **headers):
        results = []

        def send():
            try:
                results.append(caller.send(headers=headers))
            except OSError:
                results.append(None)  # it came after the shutdown had begun
        thread = threading.Thread(target=send)
        thread.start()

        def result():
            thread.join(60)
            return results[0]
        return result

    def assert_answer(self, reply, code, state, applied):
        self.assertEqual((reply.status, reply.json()["state"], reply.header("Preference-Applied")),
                         (code, state, applied), reply)
        return reply.json()["id"]


class Waits(Case):
    def test_the_wait_ends_with_202_and_the_handoff_goes_on(self):
        caller = self.caller(self.hold)
        handoff = self.assert_answer(caller.send(headers={"prefer": "wait=1"}), 202, "in_flight",
                                     "wait=1")
        self.hold.release()
        caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(len(self.coder.requests), 1)

    def test_an_end_within_the_wait_is_answered_as_without_one(self):
        caller = self.caller(ack, status(422), retries=0)
        self.assert_answer(caller.send(headers={"prefer": "wait=60"}), 200, "acknowledged",
                           "wait=60")
        refused = caller.send(headers={"prefer": "respond-async, wait=60"})
        self.assertEqual((refused.status, refused.json()["code"]), (502, "refused"), refused)

    def test_with_respond_async_the_wait_comes_first(self):
        caller = self.caller(ack, self.hold)
        prefer = {"prefer": "respond-async, wait=1"}
        self.assert_answer(caller.send(headers=prefer), 200, "acknowledged", "wait=1")
        self.assert_answer(caller.send(headers=prefer), 202, "in_flight", "respond-async, wait=1")

    def test_no_wait_is_an_answer_as_soon_as_it_is_durable(self):
        caller = self.caller(self.hold)
        self.assert_answer(caller.send(headers={"prefer": "wait=0"}), 202, "ready", "wait=0")
        self.assert_answer(caller.send(headers={"prefer": "respond-async"}), 202, "ready",
                           "respond-async")

    def test_a_wait_that_cannot_be_read_is_ignored(self):
        caller = self.caller(ack)
        for prefer in ("wait=soon", "wait=-1", "wait=1.5", "wait", "wait=x, wait=0",
                       "return=minimal; wait=0", "handling=strict"):
            self.assert_answer(caller.send(headers={"prefer": prefer}), 200, "acknowledged", None)

    def test_a_handoff_that_waits_for_its_retry_is_answered_as_it_stands(self):
        caller = self.caller(status(503, retry_after="50"))
        reply = caller.send(headers={"prefer": "wait=1"})
        self.assert_answer(reply, 202, "ready", "wait=1")
        self.assertEqual(reply.json()["attempts"], 1)


class Repeats(Case):
    key = {"idempotency-key": "one"}

    def test_a_repeat_waits_for_the_end_of_the_first(self):
        caller = self.caller(self.hold)
        handoff = caller.send(headers={**self.key, "prefer": "respond-async"}).json()["id"]
        caller.wait_for_state(handoff, "in_flight")
        repeats = [self.in_background(caller, **self.key, prefer="wait=60") for _ in range(8)]
        early = caller.send(headers={**self.key, "prefer": "wait=1"})
        self.assertEqual(self.assert_answer(early, 202, "in_flight", "wait=1"), handoff)
        at_once = caller.send(headers=self.key)
        self.assertEqual(self.assert_answer(at_once, 202, "in_flight", None), handoff)
        self.hold.release()
        for repeat in repeats:
            self.assertEqual(self.assert_answer(repeat(), 200, "acknowledged", "wait=60"), handoff)
        self.assertEqual(len(self.coder.requests), 1)

    def test_a_repeat_is_told_how_the_first_failed(self):
        caller = self.caller(self.hold, retries=0)
        handoff = caller.send(headers={**self.key, "prefer": "respond-async"}).json()["id"]
        caller.wait_for_state(handoff, "in_flight")
        repeat = self.in_background(caller, **self.key, prefer="wait=60")
        reply = caller.call("POST", f"/v1/handoffs/{handoff}/nack", {"retry": False})
        self.assertEqual(reply.status, 200, reply)
        reply = repeat()
        self.assertEqual((reply.status, reply.json()["code"], reply.json()["handoff"]["id"]),
                         (502, "refused", handoff), reply)

    def test_a_shutdown_answers_a_repeat_that_waits(self):
        caller = self.caller(status(503, retry_after="50"))
        handoff = caller.send(headers={**self.key, "prefer": "respond-async"}).json()["id"]
        self.coder.wait_for(1)
        repeats = [self.in_background(caller, **self.key, prefer="wait=60") for _ in range(4)]
        self.assert_answer(caller.send(headers={**self.key, "prefer": "wait=1"}), 202, "ready",
                           "wait=1")  # the others wait meanwhile
        caller.daemon.terminate()
        for reply in filter(None, [repeat() for repeat in repeats]):
            told = reply.json() if reply.status == 202 else reply.json().get("handoff", {})
            self.assertIn(reply.status, (202, 503), reply)
            if told:
                self.assertEqual(told["id"], handoff)


if __name__ == "__main__":
    unittest.main()
