# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Prefer: handling=lenient: a newer sender works with an older sidecar, and is told what was ignored."""

import contextlib
import json
import unittest

from harness.agents import Caller, daemon_with
from harness.receiver import Receiver, ack, status

LENIENT = {"prefer": "handling=lenient"}
REQUEST = {"source_agent": "analyst", "target_agent": "coder", "task_id": "task-1",
           "task_summary": "Write the retry logic"}
MANY = 30


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.coder = stack.enter_context(Receiver(ack))
        broken = stack.enter_context(Receiver(status(400)))
        self.daemon = stack.enter_context(daemon_with({
            "coder": {"url": self.coder.url}, "broken": {"url": broken.url}, "puller": {}}))
        self.caller = Caller(self.daemon)

    def post(self, path, body, **headers):
        return self.caller.call("POST", path, body, **{**LENIENT, **headers})

    def fields(self, reply):
        return [warning["field"] for warning in reply.json()["warnings"]]

    def assert_applied(self, reply):
        self.assertEqual(reply.headers.get("Preference-Applied"), "handling=lenient")

    # ---- handing off ----

    def test_an_unknown_field_is_ignored_and_listed(self):
        reply = self.post("/v1/handoffs", {**REQUEST, "mood": "calm", "task_sumary": 7})
        self.assertEqual(reply.status, 200, reply)
        self.assert_applied(reply)
        self.assertEqual(reply.json()["warnings"], [
            {"field": "mood", "detail": "unknown field, ignored"},
            {"field": "task_sumary",
             "detail": "unknown field, ignored (the nearest name is task_summary)"}])
        self.assertEqual(reply.json()["state"], "acknowledged")
        self.assertNotIn("mood", self.coder.requests[0].raw.decode())

    def test_without_the_preference_it_is_rejected(self):
        for prefer in ({}, {"prefer": "handling=strict"}, {"prefer": "respond-async"}):
            reply = self.caller.call("POST", "/v1/handoffs", {**REQUEST, "mood": "calm"}, **prefer)
            self.assertEqual((reply.status, reply.json()["field"]), (400, "mood"), prefer)
            self.assertIsNone(reply.headers.get("Preference-Applied"))

    def test_a_request_without_unknown_fields_has_no_warnings(self):
        reply = self.post("/v1/handoffs", REQUEST)
        self.assertEqual(reply.status, 200)
        self.assert_applied(reply)
        self.assertNotIn("warnings", reply.json())

    def test_it_goes_with_respond_async(self):
        for prefer in ("respond-async, handling=lenient", 'handling="lenient", respond-async'):
            reply = self.post("/v1/handoffs", {**REQUEST, "mood": "calm"}, prefer=prefer)
            self.assertEqual(reply.status, 202)
            self.assertEqual(self.fields(reply), ["mood"])

    def test_wrong_types_and_misspelt_constraints_are_rejected_all_the_same(self):
        for wrong, field in (({"task_summary": 7}, "task_summary"), ({"include_recent": "5"}, "include_recent"),
                             ({"constraint": {"max_cost": 1}}, "constraint"),
                             ({"Constraints": {"max_cost": 1}}, "Constraints"),
                             ({"constraints": {"max_tokens": "many"}}, "constraints.max_tokens")):
            reply = self.post("/v1/handoffs", {**REQUEST, "mood": "calm", **wrong})
            self.assertEqual((reply.status, reply.json()["field"]), (400, field), wrong)

    def test_a_rejected_request_lists_what_was_ignored_too(self):
        reply = self.post("/v1/handoffs", {**REQUEST, "mood": "calm", "target_agent": "nobody"})
        self.assertEqual((reply.status, self.fields(reply)), (404, ["mood"]))
        reply = self.post("/v1/handoffs", {**REQUEST, "mood": "calm", "target_agent": "broken"})
        self.assertEqual((reply.status, reply.json()["code"], self.fields(reply)),
                         (502, "refused", ["mood"]))

    def test_state_and_constraints_keep_whatever_they_have(self):
        body = {**REQUEST, "state": {"mood": "calm", "n": 1.10}, "constraints": {"tone": "dry"}, "x": 1}
        body = json.dumps(body).replace("1.1", "1.10")
        self.assertEqual(self.fields(self.post("/v1/handoffs", body)), ["x"])
        context = self.coder.requests[0].json()["context"]
        self.assertEqual(context["task"]["state"]["mood"], "calm")
        self.assertEqual(context["constraints"]["tone"], "dry")
        self.assertIn(b"1.10", self.coder.requests[0].raw)

    def test_a_long_request_is_read_on_a_worker_and_is_no_exception(self):
        body = {**REQUEST, "expected_output": {"criteria": ["word " * 40] * 2000}, "mood": "calm"}
        reply = self.post("/v1/handoffs", body)
        self.assertEqual((reply.status, reply.json()["code"]), (422, "budget_too_small"), reply)
        self.assertEqual(self.fields(reply), ["mood"])

    def test_the_list_is_bounded(self):
        reply = self.post("/v1/handoffs", {**REQUEST, **{f"new_{i}": i for i in range(MANY)}})
        warnings = reply.json()["warnings"]
        self.assertEqual(len(warnings), 21)
        self.assertEqual(warnings[-1], {"field": "", "detail": "and 10 more"})

    def test_an_envelope_stays_as_it_is_and_the_warnings_are_in_a_header(self):
        plain = self.post("/v1/envelopes", REQUEST)
        reply = self.post("/v1/envelopes", {**REQUEST, "mød": "calm\n"})
        self.assertEqual(reply.status, 200)
        self.assert_applied(reply)
        self.assertEqual(set(reply.json()), set(plain.json()))
        self.assertEqual(json.loads(reply.headers["Handoff-Warnings"])[0]["field"], "mød")
        self.assertIsNone(plain.headers.get("Handoff-Warnings"))

    # ---- other calls with a body ----

    def test_memories(self):
        def put(body, **headers):
            return self.caller.call("PUT", "/v1/memories/ms-1", body, **headers)
        self.assertEqual(put({"content": "a", "color": "red"}).status, 400)
        reply = put({"content": "a", "color": "red", "metadata": {"color": "blue"}}, **LENIENT)
        self.assertEqual((reply.status, self.fields(reply)), (201, ["color"]))
        self.assertEqual(reply.json()["metadata"], {"color": "blue"})
        self.assert_applied(reply)

    def test_observations_alone_and_nested_in_a_batch(self):
        one = {"source_agent": "analyst", "target_agent": "coder", "outcome": "acknowledged"}
        reply = self.post("/v1/observations", {**one, "mood": "calm"})
        self.assertEqual((reply.status, self.fields(reply)), (200, ["mood"]))
        reply = self.post("/v1/observations", {"items": [
            one, {**one, "completeness": {"requested": 4, "included": 3, "guessed": 1}}]})
        self.assertEqual(reply.json()["accepted"], 2)
        self.assertEqual(self.fields(reply), ["items[1].completeness.guessed"])

    def test_a_nack(self):
        handoff = self.caller.send_async("puller")
        self.assertEqual(self.caller.call("GET", "/v1/agents/puller/inbox?wait=10s").status, 200)
        nack = f"/v1/handoffs/{handoff}/nack"
        reply = self.post(nack, {"reason": "no", "retrie": False})
        self.assertEqual((reply.status, reply.json()["field"]), (400, "retrie"))
        reply = self.post(nack, {"reason": "no", "retry": False, "since": "today"})
        self.assertEqual((reply.status, reply.json()["state"], self.fields(reply)),
                         (200, "parked", ["since"]))

    def test_an_edit_of_a_parked_handoff(self):
        parked = self.caller.send("broken").json()["handoff"]["id"]
        replay = f"/v1/parked/{parked}/replay"
        edit = {"edit": {"task_summary": "Again", "mood": "calm"}, "target_agent": "coder", "why": "x"}
        self.assertEqual(self.caller.call("POST", replay, edit).status, 400)
        reply = self.post(replay, {**edit, "edit": {**edit["edit"], "task_id": "other"}})
        self.assertEqual((reply.status, reply.json()["field"]), (400, "edit.task_id"))
        reply = self.post(replay, edit)
        self.assertEqual((reply.status, sorted(self.fields(reply))), (200, ["edit.mood", "why"]))

    def test_a_bulk_replay_does_not_lose_its_filter(self):
        reply = self.post("/v1/jobs", {"action": "replay", "filters": {"target": "coder"}, "color": "red"})
        self.assertEqual((reply.status, reply.json()["field"]), (400, "filters"))
        reply = self.post("/v1/jobs", {"action": "replay", "filter": {"targets": "coder"}, "color": "red"})
        self.assertEqual((reply.status, reply.json()["field"]), (400, "filter.targets"))
        reply = self.post("/v1/jobs", {"action": "replay", "filter": {"target": "coder"}, "color": "red"})
        self.assertEqual((reply.status, self.fields(reply)), (202, ["color"]))


if __name__ == "__main__":
    unittest.main()
