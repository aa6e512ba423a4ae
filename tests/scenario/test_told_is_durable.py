# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""What a caller was told survives kill -9 in the instant after the answer.

Each round ends with a request whose last byte is read and followed by SIGKILL at once; the next round
starts on the same store, with an agent that is ill by then, and looks for what was told.

HANDOFF_TOLD_ROUNDS  how often (15; with a sanitizer 5)
"""

import contextlib
import json
import os
import sqlite3
import time
import unittest

from harness import Receiver, eventually
from harness.agents import Caller, daemon_with
from harness.http import exchange
from harness.receiver import Hold, ack, later, nack, status

USUAL = "15" if os.environ.get("HANDOFF_VARIANT", "release") == "release" else "5"
ROUNDS = int(os.environ.get("HANDOFF_TOLD_ROUNDS", USUAL))
FEW = max(ROUNDS // 5, 1)
ANALYST = {"source_agent": "analyst", "task_id": "task-1", "task_summary": "Write the retry logic"}


class Case(unittest.TestCase):
    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.coder = stack.enter_context(contextlib.closing(Receiver(ack)))
        self.daemon = stack.enter_context(daemon_with(
            {"coder": {"url": self.coder.url, "ack_timeout": "10m"}, "reviewer": {"ack_timeout": "10m"},
             "frail": {"url": self.coder.url, "retries": 0, "breaker": {"failures": 1}}}))
        self.caller = Caller(self.daemon)

    def told_and_killed(self, method, path, body=None, **headers):
        """The reply to a request, after whose last byte the daemon lived no longer."""
        connection = self.daemon.api.connection()
        connection.connect()
        body = None if body is None else json.dumps(body)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = exchange(connection, method, path, body, headers)
        self.daemon.kill()
        connection.close()
        return reply

    def start_again(self):
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.daemon.expected_exit = 0

    def rows(self, query, *values):
        with contextlib.closing(sqlite3.connect(self.daemon.folder / "data" / "handoff.db")) as database:
            return database.execute(query, values).fetchall()

    def due_at(self):
        """Of the only handoff that awaits its acknowledgement."""
        [[due_at]] = self.rows("SELECT due_at FROM handoffs WHERE state = 3")
        return due_at

    def assert_problem(self, reply, code, name):
        self.assertEqual((reply.status, reply.json().get("code")), (code, name), reply)

    def assert_settled(self, handoff, state, results):
        """It is as it was told, with every attempt, and no agent is given it again."""
        before = len(self.coder.requests)
        found = self.caller.state(handoff)
        self.assertEqual((found["state"], found["attempts"]), (state, len(results)), found)
        self.assertEqual([one["result"] for one in self.caller.attempts(handoff)], results)
        # had it been left over, it would have come before this one
        self.coder.do(ack)
        self.assertEqual(self.caller.send().status, 200)
        self.assertEqual([one.id for one in self.coder.requests[before:] if one.id == handoff], [])
        self.assertEqual(self.rows("SELECT count(*) FROM handoffs WHERE state < 4"), [(0,)])


class Senders(Case):
    def test_acknowledged(self):
        for _ in range(ROUNDS):
            self.coder.do(ack)
            reply = self.told_and_killed("POST", "/v1/handoffs", {**ANALYST, "target_agent": "coder"})
            self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"))
            self.coder.do(status(503))
            self.start_again()
            self.assert_settled(reply.json()["id"], "acknowledged", ["ack"])

    def test_acknowledged_at_the_second_attempt(self):
        for _ in range(FEW):
            self.coder.do(status(503), ack)
            reply = self.told_and_killed("POST", "/v1/handoffs", {**ANALYST, "target_agent": "coder"})
            self.assertEqual((reply.status, reply.json()["attempts"]), (200, 2))
            self.coder.do(status(503))
            self.start_again()
            self.assert_settled(reply.json()["id"], "acknowledged", ["http", "ack"])

    def test_refused(self):
        for _ in range(FEW):
            self.coder.do(nack("no", False))
            reply = self.told_and_killed("POST", "/v1/handoffs", {**ANALYST, "target_agent": "coder"})
            self.assert_problem(reply, 502, "refused")
            self.start_again()
            self.assert_settled(reply.json()["handoff"]["id"], "parked", ["nack"])

    def test_a_repeat_under_the_same_key_is_told_no_more_than_is_written(self):
        """It reads while the first is being answered; what it reads as the end stays the end."""
        for number in range(FEW):
            key = {"Idempotency-Key": f"key-{number}"}
            request = {**ANALYST, "target_agent": "coder"}
            self.coder.do(ack)
            self.assertEqual(self.caller.call("POST", "/v1/handoffs", request, **key,
                                              Prefer="respond-async").status, 202)

            def ended():
                reply = self.caller.call("POST", "/v1/handoffs", request, **key)
                return reply if reply.status == 200 else None
            reply = eventually(ended, "a repeat is told of the acknowledgement")
            self.daemon.kill()
            self.coder.do(status(503))
            self.start_again()
            self.assert_settled(reply.json()["id"], "acknowledged", ["ack"])


class Receivers(Case):
    def announced(self):
        """A handoff that awaits the acknowledgement of its agent."""
        self.coder.do(later)
        handoff = self.caller.send_async()
        self.caller.wait_for_state(handoff, "awaiting_ack")
        return handoff

    def test_an_acknowledgement(self):
        for _ in range(ROUNDS):
            handoff = self.announced()
            reply = self.told_and_killed("POST", f"/v1/handoffs/{handoff}/ack")
            self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"))
            self.coder.do(status(503))
            self.start_again()
            self.assert_settled(handoff, "acknowledged", ["ack"])

    def test_a_refusal_that_parks(self):
        for _ in range(ROUNDS):
            handoff = self.announced()
            reply = self.told_and_killed("POST", f"/v1/handoffs/{handoff}/nack",
                                         {"reason": "no", "retry": False})
            self.assertEqual((reply.status, reply.json()["state"]), (200, "parked"))
            self.start_again()
            self.assert_settled(handoff, "parked", ["nack"])

    def test_a_nack_that_is_retried(self):
        for _ in range(FEW):
            handoff = self.announced()
            self.coder.do(Hold(ack))
            reply = self.told_and_killed("POST", f"/v1/handoffs/{handoff}/nack", {"reason": "busy"})
            self.assertEqual((reply.status, reply.json()["attempts"]), (200, 1))
            self.coder.do(ack)
            self.start_again()
            self.assertEqual(self.caller.wait_for_state(handoff, "acknowledged")["attempts"], 2)
            self.assertEqual([one["result"] for one in self.caller.attempts(handoff)], ["nack", "ack"])

    def test_an_acknowledgement_of_what_was_pulled(self):
        for _ in range(FEW):
            handoff = self.caller.send_async("reviewer")
            pulled = self.caller.call("GET", "/v1/agents/reviewer/inbox?wait=20s")
            self.assertEqual(pulled.header("Handoff-Id"), handoff)
            reply = self.told_and_killed("POST", f"/v1/handoffs/{handoff}/ack")
            self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"))
            self.start_again()
            self.assert_settled(handoff, "acknowledged", ["ack"])
            self.assertEqual(self.caller.call("GET", "/v1/agents/reviewer/inbox?wait=0s").status, 204)

    def test_more_time(self):
        for _ in range(FEW):
            handoff = self.announced()
            before = self.due_at()
            time.sleep(0.02)  # due_at has milliseconds, and less than two may have passed
            self.assertEqual(self.told_and_killed("POST", f"/v1/handoffs/{handoff}/extend").status, 200)
            self.assertGreater(self.due_at(), before)
            self.start_again()
            self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)


class Operators(Case):
    def parked(self):
        self.coder.do(nack("no", False))
        return self.caller.send().json()["handoff"]["id"]

    def test_a_discard(self):
        for _ in range(FEW):
            handoff = self.parked()
            reply = self.told_and_killed("DELETE", f"/v1/parked/{handoff}?reason=over")
            self.assertEqual((reply.status, reply.json()["state"]), (200, "discarded"))
            self.start_again()
            self.assert_settled(handoff, "discarded", ["nack"])
            self.assertEqual(self.caller.state(handoff)["reason"], "over")

    def test_a_replay(self):
        for _ in range(FEW):
            handoff = self.parked()
            self.coder.do(Hold(ack))
            self.assertEqual(self.told_and_killed("POST", f"/v1/parked/{handoff}/replay").status, 200)
            self.coder.do(ack)
            self.start_again()
            self.caller.wait_for_state(handoff, "acknowledged")

    def test_what_a_job_counts(self):
        for _ in range(FEW):
            handoff = self.parked()
            self.coder.do(Hold(ack))
            job = self.caller.call("POST", "/v1/jobs", {"action": "replay", "filter": {"target": "coder"}}).json()["id"]
            eventually(lambda: self.caller.call("GET", f"/v1/jobs/{job}").json()["succeeded"] == 1,
                       "it is counted as replayed")
            self.daemon.kill()
            self.assertEqual(self.rows("SELECT count(*) FROM handoffs WHERE state = 5"), [(0,)])
            self.coder.do(ack)
            self.start_again()
            self.caller.wait_for_state(handoff, "acknowledged")

    def test_a_circuit_closed_by_hand(self):
        for _ in range(FEW):
            self.coder.do(status(503))
            self.assert_problem(self.caller.send("frail"), 502, "exhausted")
            eventually(lambda: self.rows("SELECT open_until > 0 FROM circuits") == [(1,)],
                       "the open circuit is stored")
            self.assertEqual(self.told_and_killed("POST", "/v1/agents/frail/reset").status, 204)
            self.assertEqual(self.rows("SELECT open_until FROM circuits"), [(0,)])
            self.coder.do(ack)
            self.start_again()
            self.assertEqual(self.caller.send("frail").status, 200)

    def test_a_memory(self):
        for number in range(FEW):
            path = f"/v1/memories/m{number}"
            self.assertEqual(self.told_and_killed("PUT", path, {"content": "kept"}).status, 201)
            self.start_again()
            self.assertEqual(self.caller.call("GET", path).json()["content"], "kept")
            self.assertEqual(self.told_and_killed("PUT", f"{path}/pin").status, 200)
            self.start_again()
            self.assertTrue(self.caller.call("GET", path).json()["pinned"])
            self.assertEqual(self.told_and_killed("DELETE", path).status, 204)
            self.start_again()
            self.assertEqual(self.caller.call("GET", path).status, 404)

    def test_the_end_of_a_task(self):
        for _ in range(FEW):
            self.assertEqual(self.caller.send().status, 200)
            first = self.told_and_killed("POST", "/v1/tasks/task-1/complete")
            self.assertIn(first.status, (200, 201))
            self.start_again()
            self.assertEqual(self.caller.call("POST", "/v1/tasks/task-1/complete").json(), first.json())


if __name__ == "__main__":
    unittest.main()
