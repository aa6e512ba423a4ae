# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Envelopes that are assembled first: read, delivered later, or parked without being delivered."""

import concurrent.futures
import contextlib
import json
import pathlib
import tempfile
import unittest

from prometheus_client.parser import text_string_to_metric_families

from harness import Receiver
from harness.agents import Caller, config, daemon_with
from harness.receiver import Hold, ack, status

REQUEST = {"source_agent": "analyst", "target_agent": "coder", "task_id": "task-1",
           "task_summary": "Write the retry logic", "constraints": {"max_cost": 1.50}}
WHY = "waits for the customer"
GONE = "01890a5d-ac96-774b-bcce-b302099a8057"
TOKENS = {"analyst": "analyst-0123456789abcdef", "coder": "coder-0123456789abcdef0",
          "stranger": "stranger-0123456789abcdef", "@operator": "operator-0123456789abcdef"}
# what the sidecar itself does for any call: its spine, its store, its API, its process
OWN = ("handoff_spine_", "handoff_store_", "handoff_retained_", "handoff_exporter_", "handoff_api_",
       "process_")


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.hold = Hold()
        self.addCleanup(self.hold.release)

    def caller(self, *script, daemon=None, **settings):
        self.coder = self.stack.enter_context(Receiver(*script))
        self.agents = {"coder": {"url": self.coder.url, **settings}}
        self.daemon = self.stack.enter_context(daemon_with(self.agents, **(daemon or {})))
        return Caller(self.daemon)

    def assemble(self, caller, headers=None, **fields):
        reply = caller.call("POST", "/v1/envelopes", {**REQUEST, **fields}, **(headers or {}))
        self.assertEqual(reply.status, 200, reply)
        return reply

    def deliver(self, caller, envelope, **headers):
        return caller.call("POST", f"/v1/envelopes/{envelope}/deliver", **headers)

    def park(self, caller, headers=None, **body):
        return caller.call("POST", "/v1/parked", {"reason": WHY, **body}, **(headers or {}))

    def assert_problem(self, reply, code, name):
        self.assertEqual((reply.status, reply.json().get("code")), (code, name), reply)

    def samples(self):
        text = self.daemon.web.get("/metrics").text
        return {(sample.name, frozenset(sample.labels.items())): sample.value
                for family in text_string_to_metric_families(text) for sample in family.samples}

    def value(self, name, **labels):
        return sum(value for (found, its), value in self.samples().items()
                   if found == name and labels.items() <= dict(its).items())

    def with_tokens(self):
        tokens = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "tokens")
        tokens.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()))
        tokens.chmod(0o600)
        caller = self.caller(ack, daemon={"api": {"tokens_file": str(tokens)}})
        return caller, {name: {"authorization": f"Bearer {token}"}
                        for name, token in TOKENS.items()}


class Delivered(Case):
    def test_the_same_bytes_go_under_the_same_id_without_another_hop(self):
        caller = self.caller(ack)
        assembled = self.assemble(caller)
        envelope = assembled.json()
        read = caller.call("GET", f"/v1/envelopes/{envelope['id']}")
        self.assertEqual(read.body, assembled.body)
        self.assertEqual(caller.call("GET", f"/v1/handoffs/{envelope['id']}").status, 404)
        reply = self.deliver(caller, envelope["id"])
        self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"), reply)
        self.assertEqual(reply.json(), caller.state(envelope["id"]))
        self.assertEqual(reply.json()["completeness"], envelope["completeness"])
        [request] = self.coder.requests
        self.assertEqual((request.raw, request.id), (assembled.body, envelope["id"]))
        self.assertEqual(request.headers["traceparent"].split("-")[1],
                         envelope["trace"]["traceparent"].split("-")[1])
        self.assertEqual(caller.call("GET", f"/v1/envelopes/{envelope['id']}").body, assembled.body)
        listed, = caller.call("GET", "/v1/tasks/task-1").json()["items"]
        self.assertEqual(listed, {**listed, **reply.json()})

    def test_a_repeat_answers_the_first_handoff(self):
        caller = self.caller(ack)
        envelope = self.assemble(caller).json()["id"]
        first = self.deliver(caller, envelope)
        for headers in ({}, {"idempotency-key": "one"}, {"prefer": "respond-async"}):
            again = self.deliver(caller, envelope, **headers)
            self.assertEqual((again.status, again.json()), (200, first.json()))
        self.assertEqual(len(self.coder.requests), 1)

    def test_calls_at_once_deliver_it_once(self):
        caller = self.caller(ack)
        for _ in range(8):
            envelope = self.assemble(caller).json()["id"]
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                replies = list(pool.map(
                    lambda n: self.deliver(caller, envelope, **(
                        {"prefer": "wait=60"} if n % 2 else {"prefer": "respond-async"})),
                    range(8)))
            self.assertEqual({reply.json()["id"] for reply in replies}, {envelope})
            self.assertLessEqual({reply.status for reply in replies}, {200, 202})
            self.assertEqual({replies[n].status for n in (1, 3, 5, 7)}, {200}, replies)
        self.assertEqual(len(self.coder.requests), 8)

    def test_prefer_holds_for_the_first_and_for_a_repeat(self):
        caller = self.caller(self.hold)
        envelope = self.assemble(caller).json()["id"]
        first = self.deliver(caller, envelope, prefer="wait=1")
        self.assertEqual((first.status, first.header("Preference-Applied")), (202, "wait=1"))
        again = self.deliver(caller, envelope, prefer="respond-async")
        self.assertEqual((again.status, again.json()["state"]), (202, "in_flight"))
        self.hold.release()
        again = self.deliver(caller, envelope, prefer="wait=60")
        self.assertEqual((again.status, again.json()["state"]), (200, "acknowledged"))

    def test_a_key_belongs_to_one_envelope(self):
        caller = self.caller(ack)
        one, two = (self.assemble(caller).json()["id"] for _ in range(2))
        key = {"idempotency-key": "one"}
        self.assertEqual(self.deliver(caller, one, **key).json()["id"], one)
        self.assert_problem(self.deliver(caller, two, **key), 409, "idempotency_conflict")
        self.assertEqual(caller.call("GET", f"/v1/handoffs/{two}").status, 404)
        self.assertEqual(self.deliver(caller, two).json()["id"], two)

    def test_a_key_of_another_envelope_is_rejected_even_if_this_one_has_a_handoff(self):
        caller = self.caller(ack)
        one, two = (self.assemble(caller).json()["id"] for _ in range(2))
        key = {"idempotency-key": "one"}
        self.assertEqual(self.deliver(caller, one, **key).json()["id"], one)
        self.assertEqual(self.deliver(caller, two).json()["id"], two)
        reply = self.deliver(caller, two, **key)
        self.assert_problem(reply, 409, "idempotency_conflict")
        self.assertEqual(reply.json()["handoff"]["id"], one)
        self.assert_problem(self.park(caller, key, envelope_id=two), 409, "idempotency_conflict")
        self.assertEqual(self.deliver(caller, one, **key).json()["id"], one)

    def test_an_open_circuit_takes_nothing(self):
        caller = self.caller(status(503), ack, retries=0,
                             breaker={"failures": 1, "cooldown": "1h"})
        envelope = self.assemble(caller).json()["id"]
        self.assert_problem(caller.send(), 502, "exhausted")
        self.assert_problem(self.deliver(caller, envelope), 503, "circuit_open")
        self.assertEqual(caller.call("GET", f"/v1/handoffs/{envelope}").status, 404)
        caller.call("POST", "/v1/agents/coder/reset")
        self.assertEqual(self.deliver(caller, envelope).status, 200)

    def test_a_lowered_hop_limit_and_a_removed_agent_are_told(self):
        caller = self.caller(ack)
        first = self.assemble(caller).json()["id"]
        second = self.assemble(caller, previous_id=first).json()["id"]
        self.daemon.write_config(config(self.agents, hops={"max": 1}))
        self.assertEqual(self.daemon.reload().status, 200)
        self.assert_problem(self.deliver(caller, second), 422, "hop_limit")
        self.assertEqual(self.value("handoff_handoffs_total", outcome="hop_limit"), 1)
        self.daemon.write_config(config({"other-agent": {}}))
        self.assertEqual(self.daemon.reload().status, 200)
        self.assert_problem(self.deliver(caller, first), 404, "unknown_agent")
        for unknown in (GONE, "odd"):
            self.assert_problem(self.deliver(caller, unknown), 404, "not_found")
            self.assert_problem(caller.call("GET", f"/v1/envelopes/{unknown}"), 404, "not_found")

    def test_a_crash_after_the_202_loses_nothing(self):
        caller = self.caller(self.hold)
        envelope = self.assemble(caller)
        reply = self.deliver(caller, envelope.json()["id"], prefer="respond-async")
        self.assertEqual(reply.status, 202, reply)
        self.daemon.kill()
        self.hold.release()
        self.coder.do(ack)
        self.daemon.expected_exit = 0
        self.daemon.log_path.unlink()
        self.daemon.start()
        caller.wait_for_state(envelope.json()["id"], "acknowledged")
        self.assertEqual({request.raw for request in self.coder.requests}, {envelope.body})

    def test_its_agent_may_and_others_may_not(self):
        caller, by = self.with_tokens()
        envelope = self.assemble(caller, by["analyst"]).json()["id"]
        for name, code in (("analyst", 200), ("coder", 200), ("@operator", 200), ("stranger", 404)):
            reply = caller.call("GET", f"/v1/envelopes/{envelope}", **by[name])
            self.assertEqual(reply.status, code, name)
        self.assert_problem(self.deliver(caller, envelope, **by["coder"]), 403, "forbidden")
        self.assert_problem(self.deliver(caller, envelope, **by["stranger"]), 404, "not_found")
        self.assertEqual(self.deliver(caller, envelope, **by["analyst"]).status, 200)
        self.assert_problem(self.deliver(caller, envelope, **by["coder"]), 403, "forbidden")
        self.assert_problem(self.deliver(caller, envelope, **by["stranger"]), 404, "not_found")
        self.assertEqual(self.deliver(caller, envelope, **by["@operator"]).status, 200)
        self.assertEqual(len(self.coder.requests), 1)


class Counted(Case):
    def test_an_envelope_alone_counts_in_no_measure_of_handoffs(self):
        caller = self.caller(ack, daemon={"hops": {"max": 1}})
        before = self.samples()
        first = self.assemble(caller, memory_ids=["ms-1"]).json()["id"]
        self.assert_problem(caller.call("POST", "/v1/envelopes", {**REQUEST, "previous_id": first}),
                            422, "hop_limit")
        after = self.samples()
        changed = {name for name, value in after.items() if before.get(name) != value}
        self.assertEqual({name for name, _ in changed if not name.startswith(OWN)}, set())
        self.assertEqual(self.deliver(caller, first).status, 200)
        self.assertEqual(self.value("handoff_handoffs_total", outcome="acknowledged"), 1)
        self.assertEqual(self.value("handoff_handoffs_total"), 1)
        for name in ("handoff_context_completeness_ratio_count", "handoff_hop_depth_count",
                     "handoff_envelope_tokens_count", "handoff_token_utilization_ratio_count"):
            self.assertEqual(self.value(name), 1, name)
        self.assertEqual(self.value("handoff_memory_refs_total", outcome="missing"), 1)
        self.deliver(caller, first)
        self.assertEqual(self.value("handoff_hop_depth_count"), 1)


class Broadcast(Case):
    def test_an_envelope_for_a_channel_has_the_budget_of_the_request_or_the_default(self):
        caller = self.caller(ack, token_budget=900, daemon={"defaults": {"token_budget": 7000}})
        envelope = self.assemble(caller, target_agent="broadcast", channel="news").json()
        self.assertEqual((envelope["target_agent"], envelope["pattern"], envelope["channel"],
                          envelope["tokens"]["budget"]), ("broadcast", "broadcast", "news", 7000))
        envelope = self.assemble(caller, target_agent="broadcast",
                                 constraints={"max_tokens": 2000}).json()
        self.assertEqual((envelope["pattern"], envelope["tokens"]["budget"]), ("broadcast", 2000))
        self.assert_problem(caller.send("broadcast"), 404, "unknown_agent")
        self.assert_problem(self.deliver(caller, envelope["id"]), 404, "unknown_agent")


class Parked(Case):
    def assert_parked(self, caller, reply):
        self.assertEqual(reply.status, 200, reply)
        told = reply.json()
        self.assertEqual((told["state"], told["reason"], told["attempts"]), ("parked", WHY, 0))
        self.assertIsNotNone(told["settled_at"])
        self.assertEqual(caller.state(told["id"]), told)
        return told["id"]

    def test_a_request_is_stored_parked_and_replayed_later(self):
        caller = self.caller(ack)
        body = json.dumps({"reason": WHY, "request": REQUEST}).replace("1.5}", "1.50}")
        handoff = self.assert_parked(caller, caller.call("POST", "/v1/parked", body))
        self.assertEqual([item["id"] for item in caller.parked()["items"]], [handoff])
        stored = caller.call("GET", f"/v1/handoffs/{handoff}/envelope")
        self.assertIn(b'"max_cost":1.50', stored.body)
        self.assertEqual(self.value("handoff_parked_total", reason="by_hand"), 1)
        self.assertEqual(self.value("handoff_parked_entries"), 1)
        self.assertEqual(self.value("handoff_in_flight"), 0)
        self.assertEqual(self.coder.requests, [])
        self.daemon.kill()
        self.daemon.expected_exit = 0
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.assertEqual(caller.state(handoff)["reason"], WHY)
        self.assertEqual(self.value("handoff_parked_entries"), 1)
        self.assertEqual(caller.call("POST", f"/v1/parked/{handoff}/replay").status, 200)
        caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(self.coder.requests[0].raw, stored.body)

    def test_an_envelope_that_was_assembled_is_parked(self):
        caller = self.caller(ack)
        envelope = self.assemble(caller).json()["id"]
        self.assertEqual(self.assert_parked(caller, self.park(caller, envelope_id=envelope)),
                         envelope)
        self.assert_parked(caller, self.park(caller, envelope_id=envelope))
        self.assert_problem(self.deliver(caller, envelope), 502, "parked")
        self.assert_problem(self.park(caller, envelope_id=GONE), 404, "not_found")

    def test_what_has_another_handoff_is_not_said_to_be_parked(self):
        caller = self.caller(ack)
        envelope = self.assemble(caller).json()["id"]
        self.assertEqual(self.deliver(caller, envelope).status, 200)
        for headers in ({}, {"idempotency-key": "one"}):
            self.assert_problem(self.park(caller, headers, envelope_id=envelope), 409, "conflict")

    def test_a_repeat_under_a_key_tells_what_has_become_of_it(self):
        caller = self.caller(ack)
        key, envelope = {"idempotency-key": "one"}, self.assemble(caller).json()["id"]
        self.assert_parked(caller, self.park(caller, key, envelope_id=envelope))
        self.assertEqual(caller.call("POST", f"/v1/parked/{envelope}/replay").status, 200)
        caller.wait_for_state(envelope, "acknowledged")
        again = self.park(caller, key, envelope_id=envelope)
        self.assertEqual((again.status, again.json()["state"]), (200, "acknowledged"), again)
        self.assert_problem(self.park(caller, envelope_id=envelope), 409, "conflict")

    def test_a_repeat_under_a_key_is_the_first_one(self):
        caller = self.caller(ack)
        key = {"idempotency-key": "one"}
        handoff = self.assert_parked(caller, self.park(caller, key, request=REQUEST))
        self.assertEqual(self.assert_parked(caller, self.park(caller, key, request=REQUEST)),
                         handoff)
        other = {**REQUEST, "task_summary": "Another"}
        self.assert_problem(self.park(caller, key, request=other), 409, "idempotency_conflict")

    def test_a_circuit_is_no_obstacle(self):
        caller = self.caller(status(503), retries=0, breaker={"failures": 1, "cooldown": "1h"})
        self.assert_problem(caller.send(), 502, "exhausted")
        self.assert_parked(caller, self.park(caller, request=REQUEST))

    def test_what_is_wrong_is_named(self):
        caller = self.caller(ack)
        for body, code, field in (
                ({"request": REQUEST, "reason": ""}, 400, "reason"),
                ({}, 400, "request"),
                ({"request": REQUEST, "envelope_id": GONE}, 400, "request"),
                ({"request": {**REQUEST, "task_sumary": "x"}}, 400, "task_sumary"),
                ({"request": 7}, 400, "request"),
                ({"request": {**REQUEST, "target_agent": "nobody"}}, 404, "target_agent")):
            reply = self.park(caller, **body)
            self.assertEqual((reply.status, reply.json().get("field")), (code, field), reply)
        self.assertEqual(caller.parked()["items"], [])

    def test_an_agent_parks_in_its_own_name(self):
        caller, by = self.with_tokens()
        self.assert_problem(self.park(caller, by["coder"], request=REQUEST), 403, "forbidden")
        request = {key: value for key, value in REQUEST.items() if key != "source_agent"}
        reply = self.park(caller, by["analyst"], request=request)
        self.assertEqual((reply.status, reply.json()["source_agent"]), (200, "analyst"), reply)
        self.assertEqual(self.park(caller, by["@operator"], request=REQUEST).status, 200)


if __name__ == "__main__":
    unittest.main()
