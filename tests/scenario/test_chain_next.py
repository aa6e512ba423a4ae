# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""A receiver hands on in its acknowledgement: both are one commit."""

import os
import subprocess
import unittest

from harness import environment, eventually
from harness.chain import Pushed, constraints, parents, state


def handing_on(**request):
    """A step of a receiver: acknowledges, and hands on in the same answer."""
    request = {"target_agent": "coder", "task_summary": "go on", "include_pins": False, **request}
    return lambda got: got.answer(200, {"ack": got.id, "next": request})


class Next(Pushed):
    def test_a_receiver_hands_on_in_its_acknowledgement(self):
        self.receiver.do(handing_on(state={"decisions": ["two"]}))
        first = self.settle(self.begin(constraints={"style": "plain"}), "acknowledged")
        successor = self.handoffs()[-1]
        self.assertEqual((successor["source_agent"], successor["target_agent"]), ("analyst", "coder"))
        envelope = self.chain.envelope(successor["id"])
        self.assertEqual(parents(envelope), [first])
        self.assertEqual(envelope["hop"]["count"], 2)
        self.assertEqual((state(envelope)["decisions"], constraints(envelope)), (["one", "two"], {"style": "plain"}))

    def test_fields_that_say_nothing_do_not_end_the_chain(self):
        """A client may send each field that it knows, with its default."""
        for number, nothing in enumerate(({"previous_id": None}, {"previous_id": []}, {"new_chain": False},
                                          {"new_chain": None, "previous_id": None, "task_id": None})):
            with self.subTest(nothing):
                self.chain.task = f"nothing-{number}"
                self.receiver.do(handing_on(**nothing))
                first = self.settle(self.begin(constraints={"style": "plain"}), "acknowledged")
                successor = self.handoffs()[-1]
                self.assertNotEqual(successor["id"], first)
                envelope = self.chain.envelope(successor["id"])
                self.assertEqual((parents(envelope), constraints(envelope)), ([first], {"style": "plain"}))

    def test_a_new_chain_is_one(self):
        self.receiver.do(handing_on(new_chain=True, task_id=self.chain.task))
        self.settle(self.begin(constraints={"style": "plain"}), "acknowledged")
        envelope = self.chain.envelope(self.handoffs()[-1]["id"])
        self.assertEqual((parents(envelope), constraints(envelope)), ([], {}))

    def test_the_successor_is_there_as_soon_as_the_acknowledgement_is(self):
        self.receiver.do(handing_on())
        first = self.begin()
        while True:
            acknowledged = self.chain.state(first)["state"] == "acknowledged"
            count = len(self.handoffs())
            if acknowledged:
                self.assertEqual(len(self.handoffs()), 2)
                return
            self.assertIn(count, (1, 2))

    def test_over_the_api(self):
        first = self.chain.hand("researcher", "tester", state={"decisions": ["one"]})
        pulled = self.chain.call("GET", "/v1/agents/tester/inbox")
        self.assertEqual(pulled.status, 200, pulled)
        reply = self.chain.call("POST", f"/v1/handoffs/{first['id']}/ack", {"next": {
            "target_agent": "coder", "task_summary": "go on", "state": {"decisions": ["two"]}}})
        self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"), reply)
        successor = self.handoffs()[-1]
        self.assertEqual(successor["source_agent"], "tester")
        self.assertEqual(state(self.chain.envelope(successor["id"]))["decisions"], ["one", "two"])

    def test_an_acknowledgement_that_is_repeated_hands_on_once(self):
        first = self.chain.hand("researcher", "tester")
        self.chain.call("GET", "/v1/agents/tester/inbox")
        body = {"next": {"target_agent": "coder", "task_summary": "go on"}}
        for _ in range(3):
            self.assertEqual(self.chain.call("POST", f"/v1/handoffs/{first['id']}/ack", body).status, 200)
        self.assertEqual(len(self.handoffs()), 2)

    def test_a_successor_over_the_hop_limit_is_parked_and_the_acknowledgement_counts(self):
        self.chain.hand("researcher", "tester")
        self.chain.hand("tester", "writer")
        self.receiver.do(handing_on())
        reply = self.chain.ask("writer", "analyst")
        self.settle(reply.json()["id"], "acknowledged")
        successor = self.handoffs()[-1]
        self.assertEqual((successor["state"], successor["reason"]), ("parked", "hop_limit"))
        self.assertEqual(successor["target_agent"], "coder")

    def test_over_the_api_the_answer_says_that_the_successor_is_parked(self):
        self.chain.hand("researcher", "tester")
        self.chain.hand("tester", "writer")
        last = self.chain.hand("writer", "reviewer")
        self.assertEqual(self.chain.call("GET", "/v1/agents/reviewer/inbox").status, 200)
        reply = self.chain.call("POST", f"/v1/handoffs/{last['id']}/ack",
                                {"next": {"target_agent": "coder", "task_summary": "go on"}})
        self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"), reply)
        successor = self.handoffs()[-1]
        self.assertEqual(reply.json()["next"], {"id": successor["id"], "state": "parked", "reason": "hop_limit"})
        self.assertEqual((successor["state"], successor["reason"]), ("parked", "hop_limit"))

    def test_what_is_no_valid_request_is_kept_for_review_and_the_acknowledgement_counts(self):
        self.receiver.do(handing_on(task_sumary="a slip of the pen"))
        first = self.settle(self.begin(), "acknowledged")
        refused, = self.chain.call("GET", f"/v1/tasks/{self.chain.task}").json()["next_refused"]
        self.assertEqual((refused["id"], refused["code"]), (first, "invalid_request"))
        self.assertIn("a slip of the pen", refused["request"])

    def test_a_next_that_is_refused_shows_where_people_look(self):
        """The agent cannot be told in its own answer to a push, and its sender is told that it acknowledged."""
        self.receiver.do(handing_on(constraints={"max_cost": 9}))
        first = self.settle(self.begin(constraints={"max_cost": 5}), "acknowledged")
        said = "acknowledged, but its next request was refused: constraint_loosened (constraints)"
        attempt, = self.chain.call("GET", f"/v1/handoffs/{first}/attempts").json()["items"]
        self.assertEqual((attempt["result"], attempt["error"]), ("ack", said))
        self.assertEqual(self.handoffs()[-1]["error"], said)
        line = eventually(lambda: [line for line in self.daemon.log().splitlines() if "event=next_refused" in line],
                          "it is in the log")
        self.assertEqual(len(line), 1)
        self.assertIn(f"handoff={first}", line[0])
        self.assertNotIn("9", line[0].partition("error=")[2])
        shown = subprocess.run([os.environ["HANDOFFCTL"], "task", self.chain.task], capture_output=True, text=True,
                               timeout=60, check=True, env=environment(HANDOFF_API_URL=self.daemon.api.url)).stdout
        self.assertRegex(shown, f"(?m)^refused as the next of {first}: constraint_loosened: .*max_cost 5 of hop 1")

    def test_what_would_loosen_is_kept_for_review_and_the_acknowledgement_counts(self):
        self.receiver.do(handing_on(constraints={"max_cost": 9}))
        self.settle(self.begin(constraints={"max_cost": 5}), "acknowledged")
        self.assertNotIn("coder", [handoff["target_agent"] for handoff in self.handoffs()
                                   if handoff["state"] in ("ready", "in_flight")])

    def test_over_the_api_the_answer_to_what_is_no_valid_request_is_the_problem(self):
        first = self.chain.hand("researcher", "tester")
        self.chain.call("GET", "/v1/agents/tester/inbox")
        reply = self.chain.call("POST", f"/v1/handoffs/{first['id']}/ack",
                                {"next": {"target_agent": "unknown", "task_summary": "go on"}})
        self.assertEqual((reply.status, reply.json()["code"]), (404, "unknown_agent"), reply)
        self.assertEqual(self.chain.state(first["id"])["state"], "acknowledged")

    def test_the_problem_names_the_field_in_next_and_the_acknowledged_handoff(self):
        for next_, field in (({"target_agent": "coder"}, "next.task_summary"),
                             ({"target_agent": "coder", "task_summary": "go on", "constraints": {"max_tokens": 5}},
                              "next.constraints.max_tokens")):
            with self.subTest(field):
                self.chain.task = f"problem-{field}"
                first = self.chain.hand("researcher", "tester")
                reply = self.chain.call("POST", f"/v1/handoffs/{first['id']}/ack", {"next": next_})
                problem = reply.json()
                self.assertEqual((reply.status >= 400, problem["field"]), (True, field), reply)
                self.assertEqual((problem["handoff"]["id"], problem["handoff"]["state"]),
                                 (first["id"], "acknowledged"))

    def test_deliveries_carry_task_root_and_previous_id(self):
        first = self.chain.hand("researcher", "tester")
        second = self.chain.hand("tester", "writer")
        third = self.chain.ask("writer", "analyst").json()["id"]
        request, = self.receiver.wait_for(1)
        self.assertEqual([request.headers[name] for name in (
            "Handoff-Id", "Handoff-Task-Id", "Handoff-Root-Id", "Handoff-Previous-Id")],
            [third, self.chain.task, first["id"], second["id"]])


if __name__ == "__main__":
    unittest.main()
