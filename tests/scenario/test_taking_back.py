# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""A sender takes back what it sent: cancelled or parked, from every state, by the right caller, and for good."""

import contextlib
import pathlib
import tempfile
import threading
import unittest

from prometheus_client.parser import text_string_to_metric_families

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import Hold, ack, later, status

WHY = {"reason": "the user changed the plan"}
TOKENS = {"analyst": "analyst-0123456789abcdef", "coder": "coder-0123456789abcdef0",
          "stranger": "stranger-0123456789abcdef", "@operator": "operator-0123456789abcdef"}


class Case(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.hold = Hold()
        self.addCleanup(self.hold.release)

    def caller(self, *script, daemon=None, **settings):
        self.coder = self.stack.enter_context(Receiver(*script))
        agents = {"coder": {"url": self.coder.url, **settings}, "puller": {"timeout": "60s"}}
        self.daemon = self.stack.enter_context(daemon_with(agents, **(daemon or {})))
        return Caller(self.daemon)

    def in_background(self, caller):
        results = []
        thread = threading.Thread(target=lambda: results.append(caller.send()))
        thread.start()

        def result():
            thread.join(60)
            return results[0]
        return result

    def cancel(self, caller, handoff, body=WHY, **headers):
        return caller.call("POST", f"/v1/handoffs/{handoff}/cancel", body, **headers)

    def park(self, caller, handoff, body=WHY, **headers):
        return caller.call("POST", f"/v1/handoffs/{handoff}/park", body, **headers)

    def assert_is(self, caller, reply, state, reason=WHY["reason"]):
        self.assertEqual(reply.status, 200, reply)
        told = reply.json()
        self.assertEqual((told["state"], told["reason"]), (state, reason))
        self.assertIsNotNone(told["settled_at"])
        self.assertEqual(caller.state(told["id"]), told)

    def assert_problem(self, reply, code, name):
        self.assertEqual((reply.status, reply.json().get("code")), (code, name), reply)

    def samples(self, name, **labels):
        text = self.daemon.web.get("/metrics").text
        return sum(sample.value for family in text_string_to_metric_families(text)
                   for sample in family.samples
                   if sample.name == name and labels.items() <= sample.labels.items())

    def each_live_state(self, caller):
        """(state, id) of a handoff in each state in which it is not acknowledged."""
        self.coder.do(self.hold, later, status(503, retry_after="50"))
        for sent, state in enumerate(("in_flight", "awaiting_ack", "ready"), 1):
            handoff = caller.send_async()
            self.coder.wait_for(sent)
            yield state, caller.wait_for_state(handoff, state)["id"]
        yield "in an inbox", caller.send_async("puller")
        caller.send_async("puller")
        leased = caller.call("GET", "/v1/agents/puller/inbox?wait=20s")
        yield "leased", leased.header("Handoff-Id")


class Cancelled(Case):
    def test_from_every_state_in_which_it_is_not_acknowledged(self):
        caller = self.caller(ack)
        for state, handoff in self.each_live_state(caller):
            with self.subTest(state):
                self.assert_is(caller, self.cancel(caller, handoff), "discarded")
                self.assert_is(caller, self.cancel(caller, handoff, {}), "discarded")
        self.assertEqual(self.samples("handoff_in_flight"), 0)
        self.assertEqual(self.samples("handoff_handoffs_total"), 0)

    def test_a_leased_one_is_taken_from_its_agent(self):
        caller = self.caller(ack)
        sent = caller.send_async("puller")
        leased = caller.call("GET", "/v1/agents/puller/inbox?wait=20s")
        self.assertEqual(leased.header("Handoff-Id"), sent)
        self.assert_is(caller, self.cancel(caller, sent), "discarded")
        self.assert_problem(caller.call("POST", f"/v1/handoffs/{sent}/ack"), 409, "conflict")
        self.assert_problem(caller.call("POST", f"/v1/handoffs/{sent}/extend"), 409, "conflict")
        self.assertEqual(caller.call("GET", "/v1/agents/puller/inbox").status, 204)

    def test_a_running_attempt_is_broken_off_and_a_waiting_sender_is_told(self):
        caller = self.caller(self.hold)
        waiting = self.in_background(caller)
        self.coder.wait_for(1)
        handoff = self.coder.requests[0].id
        self.assert_is(caller, self.cancel(caller, handoff), "discarded")
        reply = waiting()
        self.assert_problem(reply, 502, "discarded")
        self.assertEqual((reply.json()["handoff"]["id"], reply.json()["seen"]),
                         (handoff, WHY["reason"]))
        self.hold.release()
        self.assertEqual(caller.state(handoff)["state"], "discarded")
        self.assertEqual(caller.attempts(handoff), [])

    def test_a_parked_one_is_discarded_by_its_sender(self):
        caller = self.caller(status(422))
        handoff = caller.send().json()["handoff"]["id"]
        self.assert_is(caller, self.cancel(caller, handoff, {}), "discarded", "")
        self.assertEqual(caller.parked()["items"], [])
        self.assertEqual(self.samples("handoff_parked_entries"), 0)

    def test_what_is_acknowledged_or_expired_is_not_taken_back(self):
        caller = self.caller(ack, status(503, retry_after="50"))
        acknowledged = caller.send().json()["id"]
        self.assert_problem(self.cancel(caller, acknowledged), 409, "conflict")
        self.assert_problem(self.park(caller, acknowledged), 409, "conflict")
        expired = caller.send(constraints={"deadline": "2020-01-01T00:00:00Z"})
        if expired.status == 504:
            expired = expired.json()["handoff"]["id"]
            self.assert_problem(self.cancel(caller, expired), 409, "conflict")
        gone = "01890a5d-ac96-774b-bcce-b302099a8057"
        self.assert_problem(self.cancel(caller, gone), 404, "not_found")
        self.assert_problem(self.park(caller, "odd"), 404, "not_found")

    def test_it_is_durable_before_the_answer(self):
        caller = self.caller(later, self.hold)
        awaiting = caller.send_async()
        caller.wait_for_state(awaiting, "awaiting_ack")
        out = caller.send_async()
        self.coder.wait_for(2)
        self.assertEqual(self.cancel(caller, awaiting).status, 200)
        self.assertEqual(self.park(caller, out).status, 200)
        self.daemon.kill()
        self.hold.release()
        self.daemon.expected_exit = 0
        self.daemon.log_path.unlink()
        self.daemon.start()
        for handoff, state in ((awaiting, "discarded"), (out, "parked")):
            self.assertEqual((caller.state(handoff)["state"], caller.state(handoff)["reason"]),
                             (state, WHY["reason"]))

    def test_a_probe_that_is_cancelled_lets_the_next_one_probe(self):
        caller = self.caller(status(503), self.hold, ack, retries=0,
                             breaker={"failures": 1, "cooldown": "10ms"})
        self.assertEqual(caller.send().json()["code"], "exhausted")

        def circuit():
            return next(agent["circuit"] for agent in
                        caller.call("GET", "/v1/agents").json()["items"] if agent["name"] == "coder")
        while circuit() == "open":
            pass
        probe = caller.send_async()
        self.coder.wait_for(2)
        self.assertEqual(self.cancel(caller, probe).status, 200)
        self.assertEqual(caller.send().status, 200)
        self.assertEqual(circuit(), "closed")


class ParkedByHand(Case):
    def test_from_every_state_in_which_it_is_not_acknowledged(self):
        caller = self.caller(ack)
        handoffs = []
        for state, handoff in self.each_live_state(caller):
            with self.subTest(state):
                self.assert_is(caller, self.park(caller, handoff), "parked")
                self.assert_is(caller, self.park(caller, handoff, {"reason": "again"}), "parked")
                handoffs.append(handoff)
        listed = caller.parked("?reason=the+user+changed+the+plan")["items"]
        self.assertEqual([item["id"] for item in listed], handoffs)
        self.assertEqual(self.samples("handoff_parked_total", reason="by_hand"), 5)
        self.assertEqual(self.samples("handoff_parked_entries"), 5)
        self.assertEqual(self.samples("handoff_in_flight"), 0)
        self.assertEqual(self.samples("handoff_handoffs_total"), 0)

    def test_it_is_replayed_as_any_other(self):
        caller = self.caller(self.hold, ack)
        handoff = caller.send_async()
        self.coder.wait_for(1)
        self.assertEqual(self.park(caller, handoff).status, 200)
        self.assertEqual(caller.call("POST", f"/v1/parked/{handoff}/replay").status, 200)
        told = caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(told["reason"], "")

    def test_a_waiting_sender_is_told_and_a_late_acknowledgement_counts(self):
        caller = self.caller(later)
        waiting = self.in_background(caller)
        self.coder.wait_for(1)
        handoff = self.coder.requests[0].id
        caller.wait_for_state(handoff, "awaiting_ack")
        self.assert_is(caller, self.park(caller, handoff), "parked")
        reply = waiting()
        self.assert_problem(reply, 502, "parked")
        self.assertEqual(reply.json()["handoff"]["reason"], WHY["reason"])
        self.assertEqual(caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)
        self.assertEqual(caller.state(handoff)["state"], "acknowledged")

    def test_a_reason_is_asked_for(self):
        caller = self.caller(later)
        handoff = caller.send_async()
        for body in ({}, {"reason": ""}, {"reason": 7}, None):
            reply = self.park(caller, handoff, body)
            self.assertEqual((reply.status, reply.json()["field"]), (400, "reason"), reply)
        caller.wait_for_state(handoff, "awaiting_ack")


class Whose(Case):
    def test_the_sender_and_the_operator_may(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="handoff-test-"))
        tokens = pathlib.Path(folder, "tokens")
        tokens.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()))
        tokens.chmod(0o600)
        caller = self.caller(later, daemon={"api": {"tokens_file": str(tokens)}})
        by = {name: {"authorization": f"Bearer {token}"} for name, token in TOKENS.items()}

        def send():
            headers = {**by["analyst"], "prefer": "respond-async"}
            return caller.send(headers=headers).json()["id"]
        for take in (self.cancel, self.park):
            handoff = send()
            self.assert_problem(take(caller, handoff, **by["coder"]), 403, "forbidden")
            self.assert_problem(take(caller, handoff, **by["stranger"]), 404, "not_found")
            self.assert_problem(take(caller, handoff), 401, "unauthenticated")
            self.assertEqual(take(caller, handoff, **by["analyst"]).status, 200)
            self.assertEqual(take(caller, send(), **by["@operator"]).status, 200)
        at_rest = send()
        self.assertEqual(self.park(caller, at_rest, **by["analyst"]).status, 200)
        self.assert_problem(self.cancel(caller, at_rest, **by["coder"]), 403, "forbidden")
        self.assert_problem(self.cancel(caller, at_rest, **by["stranger"]), 404, "not_found")
        self.assertEqual(self.cancel(caller, at_rest, **by["analyst"]).status, 200)


if __name__ == "__main__":
    unittest.main()
