# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Handoffs through the agent API to real receivers: how each one ends, in how many attempts."""

import concurrent.futures
import contextlib
import datetime
import json
import re
import sqlite3
import threading
import time
import unittest

from harness import Receiver, eventually
from harness.agents import Caller, daemon_with
from harness.http import exchange
from harness.ports import reserved_port
from harness.receiver import Hold, ack, ack_by_header, ack_wrong, cut, later, nack, status

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
FIELDS = {"id", "state", "pattern", "source_agent", "target_agent", "task_id", "envelope_version",
          "token_count", "memory_refs", "missing", "completeness", "attempts", "created_at",
          "settled_at", "reason"}


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())

    def receiver(self, *script):
        return self.stack.enter_context(Receiver(*script))

    def daemon(self, agents, *options, **more):
        """The caller of a daemon; an agent is a receiver, or its settings."""
        agents = {name: {"url": agent.url} if isinstance(agent, Receiver) else agent
                  for name, agent in agents.items()}
        daemon = self.stack.enter_context(daemon_with(agents, *options, **more))
        return Caller(daemon)

    def in_background(self, function, *arguments, **keywords):
        """A call that waits; answers a function that gives its result."""
        results = []
        thread = threading.Thread(
            target=lambda: results.append(function(*arguments, **keywords)), daemon=True)
        thread.start()

        def result():
            thread.join(30)
            self.assertEqual(len(results), 1, "the call was answered")
            return results[0]
        return result

    def assert_problem(self, reply, code, name):
        self.assertEqual((reply.status, reply.json().get("code")), (code, name), reply)
        self.assertEqual(reply.header("Content-Type"), "application/problem+json")
        self.assertEqual(reply.json()["status"], code)


class Acknowledged(Case):
    def test_an_acknowledged_handoff_answers_200_and_its_object(self):
        coder = self.receiver(ack)
        caller = self.daemon({"coder": coder})
        reply = caller.send(intent="pay twice never")
        self.assertEqual(reply.status, 200, reply)
        handoff = reply.json()
        self.assertEqual(set(handoff), FIELDS)
        self.assertRegex(handoff["id"], UUID)
        self.assertEqual((handoff["state"], handoff["attempts"], handoff["source_agent"],
                          handoff["target_agent"], handoff["task_id"], handoff["reason"]),
                         ("acknowledged", 1, "analyst", "coder", "task-1", ""))
        self.assertEqual(caller.state(handoff["id"]), handoff)

    def test_the_agent_is_sent_the_envelope_and_what_names_it(self):
        coder = self.receiver(ack)
        caller = self.daemon({"coder": coder})
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        handoff = caller.send(headers={"traceparent": trace, "tracestate": "a=1"}).json()
        [request] = coder.requests
        self.assertEqual(request.path, "/handoffs")
        self.assertEqual(request.id, handoff["id"])
        self.assertEqual(request.attempt, 1)
        self.assertEqual(request.headers["Idempotency-Key"], handoff["id"])
        self.assertEqual(request.headers["Content-Type"],
                         "application/vnd.handoff.envelope+json; version=2.0")
        self.assertEqual(request.headers["traceparent"].split("-")[1], trace.split("-")[1])
        self.assertEqual(request.headers["tracestate"], "a=1")
        stored = caller.call("GET", f"/v1/handoffs/{handoff['id']}/envelope")
        self.assertEqual(request.raw, stored.body)

    def test_the_header_acknowledges_too(self):
        coder = self.receiver(ack_by_header)
        self.assertEqual(self.daemon({"coder": coder}).send().status, 200)

    def test_an_agent_by_status_needs_no_more_than_a_2xx(self):
        coder = self.receiver(status(200, b"thanks"))
        caller = self.daemon({"coder": {"url": coder.url, "ack": "status"}})
        self.assertEqual(caller.send().status, 200)

    def test_async_answers_202_before_the_agent_does(self):
        hold = Hold()
        coder = self.receiver(hold)
        caller = self.daemon({"coder": coder})
        reply = caller.send(headers={"prefer": "respond-async"})
        self.assertEqual((reply.status, reply.json()["state"]), (202, "ready"))
        handoff = reply.json()["id"]
        coder.wait_for(1)
        self.assertEqual(caller.wait_for_state(handoff, "in_flight")["settled_at"], None)
        hold.release()
        caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual([a["result"] for a in caller.attempts(handoff)], ["ack"])
        self.assertEqual(caller.state(handoff)["attempts"], 1)

    def test_what_passes_is_tried_again_with_the_same_id(self):
        coder = self.receiver(status(503), cut, ack)
        caller = self.daemon({"coder": coder})
        reply = caller.send()
        self.assertEqual((reply.status, reply.json()["attempts"]), (200, 3))
        self.assertEqual([r.attempt for r in coder.requests], [1, 2, 3])
        self.assertEqual({r.id for r in coder.requests}, {reply.json()["id"]})
        attempts = caller.attempts(reply.json()["id"])
        self.assertEqual([(a["attempt"], a["result"], a["status"], a["target_agent"])
                          for a in attempts],
                         [(1, "http", 503, "coder"), (2, attempts[1]["result"],
                                                     attempts[1]["status"], "coder"),
                          (3, "ack", 200, "coder")])
        self.assertEqual({a["peer"] for a in attempts}, {coder.address})

    def test_retry_after_is_waited_for(self):
        coder = self.receiver(status(429, retry_after="1"), ack)
        caller = self.daemon({"coder": coder})
        handoff = caller.send().json()
        first, second = caller.attempts(handoff["id"])
        began = [datetime.datetime.fromisoformat(a["at"]) for a in (first, second)]
        self.assertGreaterEqual(began[1] - began[0], datetime.timedelta(seconds=1))


class Parked(Case):
    def check_parked(self, reply, code, reason, attempts):
        self.assert_problem(reply, 502, code)
        handoff = reply.json()["handoff"]
        self.assertEqual(set(handoff), FIELDS)
        self.assertEqual((handoff["state"], handoff["reason"], handoff["attempts"]),
                         ("parked", reason, attempts))
        return handoff

    def test_exhausted_after_the_retries(self):
        coder = self.receiver(status(500, b"no"))
        caller = self.daemon({"coder": coder})
        handoff = self.check_parked(caller.send(), "exhausted", "exhausted", 3)
        self.assertEqual(len(coder.requests), 3)
        self.assertEqual([a["status"] for a in caller.attempts(handoff["id"])], [500] * 3)

    def test_an_acknowledgement_of_another_id_is_none(self):
        coder = self.receiver(ack_wrong)
        caller = self.daemon({"coder": coder})
        handoff = self.check_parked(caller.send(), "exhausted", "exhausted", 3)
        self.assertEqual({a["result"] for a in caller.attempts(handoff["id"])}, {"protocol"})

    def test_nobody_listens(self):
        url = f"http://127.0.0.1:{self.stack.enter_context(reserved_port())}/"
        caller = self.daemon({"coder": {"url": url, "retries": 1}})
        handoff = self.check_parked(caller.send(), "exhausted", "exhausted", 2)
        self.assertEqual({a["result"] for a in caller.attempts(handoff["id"])}, {"connect"})

    def test_silence_is_a_timeout(self):
        coder = self.receiver(Hold())
        caller = self.daemon({"coder": {"url": coder.url, "timeout": "500ms", "retries": 1}})
        handoff = self.check_parked(caller.send(), "exhausted", "exhausted", 2)
        self.assertEqual({a["result"] for a in caller.attempts(handoff["id"])}, {"timeout"})

    def test_a_redirect_is_not_followed(self):
        other = self.receiver(ack)
        coder = self.receiver(status(302, location=other.url))
        caller = self.daemon({"coder": coder})
        self.check_parked(caller.send(), "rejected", "rejected", 1)
        self.assertEqual(other.requests, [])

    def test_refused_by_status_is_not_tried_again(self):
        coder = self.receiver(status(422))
        self.check_parked(self.daemon({"coder": coder}).send(), "refused", "refused", 1)
        self.assertEqual(len(coder.requests), 1)

    def test_refused_by_a_nack_keeps_its_words(self):
        coder = self.receiver(nack("not my work", retry=False))
        caller = self.daemon({"coder": coder})
        handoff = self.check_parked(caller.send(), "refused", "refused", 1)
        [attempt] = caller.attempts(handoff["id"])
        self.assertEqual((attempt["result"], attempt["error"]), ("nack", "not my work"))

    def test_a_nack_with_retry_is_tried_again(self):
        coder = self.receiver(nack("busy", retry=True), ack)
        self.assertEqual(self.daemon({"coder": coder}).send().json()["attempts"], 2)

    def test_alternates_before_parking(self):
        coder, second = self.receiver(status(500)), self.receiver(ack)
        caller = self.daemon({"coder": {"url": coder.url, "alternates": ["second"]},
                              "second": second})
        handoff = caller.send().json()
        self.assertEqual((handoff["state"], handoff["target_agent"], handoff["attempts"]),
                         ("acknowledged", "second", 4))
        self.assertEqual([a["target_agent"] for a in caller.attempts(handoff["id"])],
                         ["coder"] * 3 + ["second"])

    def test_expired(self):
        coder = self.receiver(status(503, retry_after="100"))
        caller = self.daemon({"coder": coder})
        self.assert_problem(caller.send(constraints={"deadline": "2020-01-01T00:00:00Z"}), 422,
                            "deadline_passed")
        self.assertEqual(coder.requests, [])
        reply = caller.send(constraints={"deadline": self.soon()})
        self.assert_problem(reply, 504, "expired")
        self.assertEqual((reply.json()["handoff"]["state"], len(coder.requests)), ("expired", 1))

    @staticmethod
    def soon():
        at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=20)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Refused(Case):
    """What is refused before anything is stored."""

    def test_unknown_agent(self):
        caller = self.daemon({"coder": self.receiver()})
        self.assert_problem(caller.send("nobody"), 404, "unknown_agent")
        self.assertNotIn("handoff", caller.send("nobody").json())

    def test_ids_and_names_that_are_not_there(self):
        caller = self.daemon({"coder": self.receiver()})
        gone = "01890a5d-ac96-774b-bcce-b302099a8057"
        for method, path in (("GET", f"/v1/handoffs/{gone}"), ("POST", f"/v1/handoffs/{gone}/ack"),
                             ("GET", f"/v1/handoffs/{gone}/attempts"),
                             ("GET", "/v1/handoffs/nonsense"), ("POST", f"/v1/handoffs/{gone}/nack"),
                             ("POST", f"/v1/parked/{gone}/replay"),
                             ("DELETE", f"/v1/parked/{gone}?reason=r")):
            self.assert_problem(caller.call(method, path), 404, "not_found")
        for method, path in (("GET", "/v1/agents/nobody/inbox"), ("POST", "/v1/agents/nobody/reset")):
            self.assert_problem(caller.call(method, path), 404, "unknown_agent")

    def test_bad_requests(self):
        caller = self.daemon({"coder": self.receiver()})
        self.assert_problem(caller.call("POST", "/v1/handoffs", "{"), 400, "invalid_json")
        self.assert_problem(caller.call("POST", "/v1/handoffs", {"target_agent": 1}), 400,
                            "invalid_request")
        self.assert_problem(caller.call("GET", "/v1/agents/coder/inbox?wait=2h"), 400,
                            "invalid_request")
        self.assert_problem(caller.call("GET", "/v1/parked?cursor=x"), 400, "invalid_cursor")
        self.assert_problem(caller.call("GET", "/v1/parked?limit=0"), 400, "invalid_request")

    def test_an_open_circuit_answers_at_once_and_a_reset_closes_it(self):
        coder = self.receiver(status(500))
        caller = self.daemon({"coder": coder}, defaults={
            "retries": 0, "breaker": {"failures": 2, "cooldown": "60s"}})
        for _ in range(2):
            self.assert_problem(caller.send(), 502, "exhausted")
        reply = caller.send()
        self.assert_problem(reply, 503, "circuit_open")
        self.assertIn(int(reply.header("Retry-After")), range(1, 61))
        self.assertEqual(len(coder.requests), 2)
        [agent] = caller.call("GET", "/v1/agents").json()["items"]
        self.assertEqual((agent["name"], agent["circuit"], agent["consecutive_failures"]),
                         ("coder", "open", 2))
        coder.do(ack)
        self.assertEqual(caller.call("POST", "/v1/agents/coder/reset").status, 204)
        self.assertEqual(caller.send().status, 200)

    def test_whoever_takes_all_and_acknowledges_nothing_is_cut_off(self):
        coder = self.receiver(later)
        caller = self.daemon({"coder": {"url": coder.url, "ack_timeout": "20ms"}}, defaults={
            "retries": 0, "breaker": {"failures": 2, "cooldown": "60s"}})
        for _ in range(2):
            self.assert_problem(caller.send(), 502, "exhausted")
        self.assert_problem(caller.send(), 503, "circuit_open")
        [agent] = caller.call("GET", "/v1/agents").json()["items"]
        self.assertEqual((agent["circuit"], agent["consecutive_failures"]), ("open", 2))

    def test_too_many_in_flight(self):
        hold = Hold()
        coder = self.receiver(hold)
        caller = self.daemon({"coder": coder}, api={"max_in_flight_per_agent": 1})
        first = caller.send_async()
        coder.wait_for(1)
        reply = caller.send()
        self.assert_problem(reply, 429, "too_many_in_flight")
        self.assertGreaterEqual(int(reply.header("Retry-After")), 1)
        hold.release()
        caller.wait_for_state(first, "acknowledged")
        self.assertEqual(caller.send().status, 200)
        self.assertEqual(len(coder.requests), 2)

    def test_an_inbox_that_nobody_polls_is_full_after_a_thousand(self):
        caller = self.daemon({"puller": {}})
        with concurrent.futures.ThreadPoolExecutor(8) as senders:
            replies = list(senders.map(lambda i: caller.send("puller", {"prefer": "respond-async"}, task_id=f"task-{i}"), range(1003)))
        self.assertEqual(sorted(reply.status for reply in replies), [202] * 1000 + [429] * 3)
        for reply in replies:
            if reply.status == 429:
                self.assert_problem(reply, 429, "too_many_in_flight")
                self.assertEqual((reply.json()["seen"], reply.json()["retry_after_seconds"]), ("puller", 1))
        metrics = caller.daemon.web.get("/metrics").text
        self.assertIn('\nhandoff_inbox_waiting{target_agent="puller"} 1000\n', metrics)
        self.assertIn('\nhandoff_api_requests_total{call="send_handoff",code="too_many_in_flight"} 3\n', metrics)
        self.assertEqual(caller.call("GET", "/v1/agents/puller/inbox").status, 200)


class Idempotency(Case):
    def test_a_repeat_answers_with_the_first_and_delivers_nothing(self):
        coder = self.receiver(ack)
        caller = self.daemon({"coder": coder})
        key = {"idempotency-key": "run-17"}
        first = caller.send(headers=key)
        second = caller.send(headers=key)
        self.assertEqual((first.status, second.status), (200, 200))
        self.assertEqual(first.json(), second.json())
        self.assertEqual(len(coder.requests), 1)
        self.assert_problem(caller.send(headers=key, task_id="task-2"), 409, "idempotency_conflict")
        self.assertEqual(caller.send(source_agent="other-agent", task_id="task-3", headers=key).status, 200)

    def test_a_repeat_of_what_was_parked_is_the_same_refusal(self):
        coder = self.receiver(status(400))
        caller = self.daemon({"coder": coder})
        key = {"idempotency-key": "run-17"}
        first, second = caller.send(headers=key), caller.send(headers=key)
        self.assert_problem(second, 502, "refused")
        self.assertEqual(first.json()["handoff"], second.json()["handoff"])
        self.assertEqual(len(coder.requests), 1)

    def test_a_repeat_while_the_first_is_under_way_is_not_called_acknowledged(self):
        hold = Hold()
        coder = self.receiver(hold)
        caller = self.daemon({"coder": coder})
        key = {"idempotency-key": "run-17"}
        first = self.in_background(caller.send, headers=key)
        [request] = coder.wait_for(1)
        repeat = caller.send(headers=key)
        self.assertEqual((repeat.status, repeat.json()["id"]), (202, request.id))
        hold.release()
        self.assertEqual(first().status, 200)
        self.assertEqual(caller.send(headers=key).status, 200)
        self.assertEqual(len(coder.requests), 1)


class Deferred(Case):
    def start(self, *script, **settings):
        self.coder = self.receiver(*(script or (later,)))
        caller = self.daemon({"coder": {"url": self.coder.url, **settings}})
        handoff = caller.send_async()
        return caller, handoff

    def answer(self, caller, handoff, word, body=None):
        return caller.call("POST", f"/v1/handoffs/{handoff}/{word}", body)

    def test_acknowledged_over_the_api_and_a_repeat_is_harmless(self):
        caller, handoff = self.start()
        caller.wait_for_state(handoff, "awaiting_ack")
        for _ in range(2):
            reply = self.answer(caller, handoff, "ack")
            self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"))
        self.assert_problem(self.answer(caller, handoff, "nack", {"retry": False}), 409, "conflict")
        self.assertEqual(caller.state(handoff)["attempts"], 1)

    def test_a_waiting_sender_hears_the_later_word(self):
        coder = self.receiver(later)
        caller = self.daemon({"coder": coder})
        reply = self.in_background(caller.send)
        [request] = coder.wait_for(1)
        caller.wait_for_state(request.id, "awaiting_ack")
        self.answer(caller, request.id, "ack")
        self.assertEqual((reply().status, reply().json()["state"]), (200, "acknowledged"))

    def test_a_nack_is_tried_again_and_a_final_one_is_parked(self):
        caller, handoff = self.start(later, later)
        caller.wait_for_state(handoff, "awaiting_ack")
        self.assertEqual(self.answer(caller, handoff, "nack", {"reason": "busy"}).status, 200)
        self.coder.wait_for(2)
        caller.wait_for_state(handoff, "awaiting_ack")
        reply = self.answer(caller, handoff, "nack", {"reason": "not mine", "retry": False})
        self.assertEqual(reply.json()["state"], "parked")
        self.assertEqual(caller.state(handoff)["reason"], "refused")
        self.assertEqual([(a["result"], a["error"]) for a in caller.attempts(handoff)],
                         [("nack", "busy"), ("nack", "not mine")])

    def test_an_acknowledgement_that_never_comes(self):
        caller, handoff = self.start(later, ack, ack_timeout="50ms")
        caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual([a["result"] for a in caller.attempts(handoff)], ["timeout", "ack"])

    def test_a_late_acknowledgement_of_what_was_parked_counts(self):
        coder = self.receiver(Hold())
        caller = self.daemon({"coder": {"url": coder.url, "timeout": "30ms", "retries": 0}})
        handoff = caller.send().json()["handoff"]["id"]
        reply = self.answer(caller, handoff, "ack")
        self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"))
        caller.wait_for_state(handoff, "acknowledged")
        eventually(lambda: caller.parked()["items"] == [], "the row is written")
        self.assertEqual(caller.state(handoff)["reason"], "")

    def test_the_word_may_overtake_the_answer(self):
        hold = Hold(later)
        coder = self.receiver(hold)
        caller = self.daemon({"coder": coder})
        handoff = caller.send_async()
        coder.wait_for(1)
        caller.wait_for_state(handoff, "in_flight")
        self.assertEqual(self.answer(caller, handoff, "ack").json()["state"], "acknowledged")
        hold.release()
        self.assertEqual(caller.state(handoff)["state"], "acknowledged")


class Inbox(Case):
    def pull(self, caller, wait="20s"):
        return caller.call("GET", f"/v1/agents/reviewer/inbox?wait={wait}")

    def test_nothing_there(self):
        caller = self.daemon({"reviewer": {}})
        self.assertEqual(self.pull(caller, "10ms").status, 204)
        self.assertEqual(caller.call("GET", "/v1/agents/reviewer/inbox").status, 204)

    def test_a_long_poll_gets_what_comes_and_acknowledges(self):
        caller = self.daemon({"reviewer": {}})
        pulled = self.in_background(self.pull, caller)
        sent = self.in_background(caller.send, "reviewer")
        reply = pulled()
        self.assertEqual((reply.status, reply.header("Handoff-Attempt")), (200, "1"))
        self.assertEqual(reply.header("Content-Type"),
                         "application/vnd.handoff.envelope+json; version=2.0")
        self.assertEqual(reply.header("Handoff-Lease-Seconds"), "300")
        handoff = reply.header("Handoff-Id")
        self.assertEqual(reply.json()["id"], handoff)
        self.assertEqual(caller.state(handoff)["state"], "in_flight")
        self.assertEqual(self.pull(caller, "1ms").status, 204, "it is leased")
        self.assertEqual(caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)
        self.assertEqual((sent().status, sent().json()["state"]), (200, "acknowledged"))

    def test_a_lease_that_runs_out_redelivers(self):
        caller = self.daemon({"reviewer": {"ack_timeout": "100ms"}})
        handoff = caller.send_async("reviewer")
        first, second = self.pull(caller), self.pull(caller)
        self.assertEqual([r.header("Handoff-Attempt") for r in (first, second)], ["1", "2"])
        self.assertEqual({r.header("Handoff-Id") for r in (first, second)}, {handoff})

    def test_leases_that_run_out_exhaust(self):
        caller = self.daemon({"reviewer": {"ack_timeout": "20ms", "retries": 1}})
        handoff = caller.send_async("reviewer")
        for _ in range(2):
            self.assertEqual(self.pull(caller).status, 200)
        caller.wait_for_state(handoff, "parked")
        self.assertEqual([a["result"] for a in caller.attempts(handoff)], ["timeout"] * 2)

    def test_an_extended_lease_holds(self):
        caller = self.daemon({"reviewer": {"ack_timeout": "3s"}})
        handoff = caller.send_async("reviewer")
        self.pull(caller)
        over = time.monotonic() + 3.2
        while time.monotonic() < over:
            self.assertEqual(self.pull(caller, "100ms").status, 204)
            self.assertEqual(caller.call("POST", f"/v1/handoffs/{handoff}/extend").status, 200)
        self.assertEqual(caller.state(handoff)["state"], "in_flight")

    def test_oldest_first_and_each_once(self):
        caller = self.daemon({"reviewer": {}})
        sent = [caller.send_async("reviewer", task_id=f"task-{i}") for i in range(5)]
        got = [self.pull(caller).header("Handoff-Id") for _ in range(5)]
        self.assertEqual(got, sent)
        self.assertEqual(self.pull(caller, "1ms").status, 204)

    def test_a_poller_that_went_away_takes_nothing_along(self):
        caller = self.daemon({"reviewer": {}})
        raw = caller.daemon.api.socket()
        raw.sendall(b"GET /v1/agents/reviewer/inbox?wait=60s HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: "handoff_exporter" in caller.daemon.web.get("/metrics").text, "alive")
        raw.close()
        handoff = caller.send_async("reviewer")
        reply = self.pull(caller)
        self.assertEqual((reply.status, reply.header("Handoff-Id")), (200, handoff))
        self.assertEqual(reply.header("Handoff-Attempt"), "1")


class Review(Case):
    def park(self, count=1, **fields):
        self.coder, self.other = self.receiver(status(400)), self.receiver(ack)
        caller = self.daemon({"coder": self.coder, "spare": self.other})
        ids = []
        for i in range(count):
            ids.append(caller.send(task_id=f"task-{i}", **fields).json()["handoff"]["id"])
        return caller, ids

    def test_the_list_pages_and_filters(self):
        caller, ids = self.park(5)
        self.assertEqual([h["id"] for h in caller.parked()["items"]], ids)
        page = caller.parked("?limit=2")
        self.assertEqual([h["id"] for h in page["items"]], ids[:2])
        rest = caller.parked(f"?limit=9&cursor={page['next']}")
        self.assertEqual(([h["id"] for h in rest["items"]], rest["next"]), (ids[2:], None))
        for query, count in (("?target=coder", 5), ("?target=spare", 0), ("?reason=refused", 5),
                             ("?reason=exhausted", 0)):
            self.assertEqual(len(caller.parked(query)["items"]), count, query)

    def replay(self, caller, handoff, body=None):
        return caller.call("POST", f"/v1/parked/{handoff}/replay", body)

    def test_a_replay_goes_to_the_same_agent(self):
        caller, [handoff] = self.park()
        self.coder.do(ack)
        self.assertEqual(self.replay(caller, handoff).status, 200)
        caller.wait_for_state(handoff, "acknowledged")
        done = caller.state(handoff)
        self.assertEqual((done["target_agent"], done["attempts"]), ("coder", 2))
        self.assert_problem(self.replay(caller, handoff), 409, "conflict")
        self.assertEqual({r.id for r in self.coder.requests}, {handoff})

    def test_a_replay_to_another(self):
        caller, [handoff] = self.park()
        self.assert_problem(self.replay(caller, handoff, {"target_agent": "nobody"}), 404,
                            "unknown_agent")
        reply = self.replay(caller, handoff, {"target_agent": "spare"})
        self.assertEqual((reply.status, reply.json()["target_agent"]), (200, "spare"))
        self.assertEqual(caller.wait_for_state(handoff, "acknowledged")["target_agent"], "spare")
        self.assertEqual(len(self.other.requests), 1)

    def test_a_replay_is_answered_before_it_is_delivered(self):
        caller, [handoff] = self.park()
        hold = Hold()
        self.coder.do(hold)
        reply = self.in_background(self.replay, caller, handoff)()
        self.assertEqual(reply.status, 200)
        self.assertIn(reply.json()["state"], ("ready", "in_flight"))
        hold.release()
        caller.wait_for_state(handoff, "acknowledged")

    def test_a_discarded_one_keeps_the_reason(self):
        caller, [handoff] = self.park()
        path = f"/v1/parked/{handoff}"
        self.assert_problem(caller.call("DELETE", path), 400, "invalid_request")
        reply = caller.call("DELETE", path + "?reason=task%20is%20over")
        self.assertEqual((reply.status, reply.json()["state"]), (200, "discarded"))
        self.assertEqual(caller.state(handoff)["reason"], "task is over")
        self.assertEqual(caller.parked()["items"], [])
        self.assert_problem(self.replay(caller, handoff), 409, "conflict")

    def test_a_task_lists_its_handoffs(self):
        caller, ids = self.park(2)
        listed = caller.call("GET", "/v1/tasks/task-1").json()
        self.assertEqual([h["id"] for h in listed["items"]], ids[1:])
        self.assertEqual(caller.call("GET", "/v1/tasks/none").json()["items"], [])


class Edited(Case):
    def setUp(self):
        super().setUp()
        self.coder, self.other = self.receiver(status(400)), self.receiver(ack)
        self.caller = self.daemon({"coder": self.coder, "spare": self.other})
        self.caller.call("PUT", "/v1/memories/ms-1", {"content": "Payments are idempotent."})
        reply = self.caller.send(
            intent="pay twice never", constraints={"max_cost": 1.10}, memory_ids=["ms-1"],
            state={"progress": "half"}, expected_output={"format": "diff"},
            headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
        self.old = reply.json()["handoff"]["id"]

    def replay(self, edit, **more):
        return self.caller.call("POST", f"/v1/parked/{self.old}/replay", {"edit": edit, **more})

    def envelope(self, handoff):
        return self.caller.call("GET", f"/v1/handoffs/{handoff}/envelope").json()

    def test_a_new_envelope_steps_into_the_place_of_the_old(self):
        self.coder.do(ack)
        reply = self.replay({"task_summary": "Write only the backoff",
                             "constraints": {"max_cost": 0.50}})
        self.assertEqual(reply.status, 200, reply)
        new = reply.json()["id"]
        self.assertNotEqual(new, self.old)
        self.assertEqual(self.caller.wait_for_state(new, "acknowledged")["target_agent"], "coder")
        before, after = self.envelope(self.old), self.envelope(new)
        self.assertEqual(after["replaces"], {"id": self.old, "digest": before["digest"]})
        self.assertEqual((after["previous"], after["parents"]), (None, []))
        self.assertNotIn("replaces", before)
        task = after["context"]["task"]
        self.assertEqual((task["summary"], task["intent"], task["state"]["progress"]),
                         ("Write only the backoff", "pay twice never", "half"))
        self.assertEqual((after["task_id"], after["source_agent"], after["memory_refs"]),
                         ("task-1", "analyst", ["ms-1"]))
        self.assertEqual((after["context"]["constraints"], after["context"]["expected_output"]),
                         ({"max_cost": 0.5}, {"format": "diff"}))
        self.assertEqual(after["hop"]["count"], 1)
        self.assertEqual(after["trace"]["traceparent"].split("-")[1],
                         "0af7651916cd43dd8448eb211c80319c")
        old = self.caller.state(self.old)
        self.assertEqual((old["state"], old["reason"]), ("discarded", f"replaced by {new}"))
        self.assertEqual(self.caller.parked()["items"], [])
        self.assertEqual([r.id for r in self.coder.requests], [self.old, new])
        metrics = self.caller.daemon.web.get("/metrics").text
        self.assertTrue('handoff_replayed_total{target_agent="coder"} 1\n' in metrics,
                        "it is counted")

    def test_to_another_agent_as_it_was(self):
        new = self.replay({}, target_agent="spare").json()["id"]
        self.assertEqual(self.caller.wait_for_state(new, "acknowledged")["target_agent"], "spare")
        self.assertEqual(self.other.requests[0].json()["context"]["task"]["summary"],
                         "Write the retry logic")

    def test_what_is_refused_leaves_the_old_one_parked(self):
        for edit, code, name in (({"constraints": {"max_cost": 2}}, 422, "constraint_loosened"),
                                 ({"task_sumary": "x"}, 400, "invalid_request"),
                                 ({"previous_id": self.old}, 400, "invalid_request"),
                                 ({"intent": "x"}, 400, "invalid_request"),
                                 ("x", 400, "invalid_request")):
            self.assert_problem(self.replay(edit), code, name)
        self.assert_problem(self.replay({}, target_agent="nobody"), 404, "unknown_agent")
        self.assertEqual([h["id"] for h in self.caller.parked()["items"]], [self.old])
        self.coder.do(ack)
        self.assertEqual(self.replay({}).status, 200)
        self.assert_problem(self.replay({}), 409, "conflict")
        self.assert_problem(self.caller.call("POST", "/v1/parked/none/replay", {"edit": {}}), 404,
                            "not_found")


class Restart(Case):
    def test_what_was_in_flight_is_delivered_after_a_kill(self):
        coder = self.receiver(Hold(status(500)))
        caller = self.daemon({"coder": coder, "reviewer": {}})
        ids = [caller.send_async() for _ in range(5)]
        pulled = caller.send_async("reviewer")
        coder.wait_for(5)
        caller.daemon.kill()
        coder.do(ack)
        self.again(caller)
        for handoff in ids:
            caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual({r.id for r in coder.requests}, set(ids))
        reply = caller.call("GET", "/v1/agents/reviewer/inbox?wait=20s")
        self.assertEqual(reply.header("Handoff-Id"), pulled)

    def test_what_awaits_its_acknowledgement_still_does(self):
        coder = self.receiver(later)
        caller = self.daemon({"coder": coder})
        handoff = caller.send_async()
        caller.wait_for_state(handoff, "awaiting_ack")
        caller.daemon.kill()
        self.again(caller)
        self.assertEqual(caller.state(handoff)["state"], "awaiting_ack")
        self.assertEqual(caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)
        caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(caller.state(handoff)["attempts"], 1)
        self.assertEqual(len(coder.requests), 1)

    def test_the_breaker_remembers_and_parked_stays_parked(self):
        coder = self.receiver(status(500))
        caller = self.daemon({"coder": coder}, defaults={
            "retries": 0, "breaker": {"failures": 1, "cooldown": "1h"}})
        parked = caller.send().json()["handoff"]
        caller.daemon.terminate()
        self.assertEqual(caller.daemon.wait(), 0)
        self.again(caller)
        self.assert_problem(caller.send(), 503, "circuit_open")
        self.assertEqual(caller.parked()["items"], [{**parked, "previous_id": None, "summary": "Write the retry logic", "replays": 0,
                                                     "error": "the agent answered with an error status"}])

    def again(self, caller):
        caller.daemon.log_path.unlink()
        caller.daemon.expected_exit = 0
        caller.daemon.start()

    def test_a_damaged_envelope_is_parked_and_keeps_nothing_from_starting(self):
        coder = self.receiver(Hold(status(500)))
        caller = self.daemon({"coder": coder})
        ids = [caller.send_async(task_id=f"task-{i}") for i in range(3)]
        coder.wait_for(3)
        counted = caller.state(ids[1])["token_count"]
        caller.daemon.kill()
        with sqlite3.connect(caller.daemon.folder / "data" / "handoff.db") as store:
            store.execute("UPDATE envelopes SET digest = zeroblob(32) WHERE task_id = 'task-1'")
        store.close()
        coder.do(ack)
        self.again(caller)
        for handoff in (ids[0], ids[2]):
            caller.wait_for_state(handoff, "acknowledged")
        caller.wait_for_state(ids[1], "parked")
        [parked] = caller.parked()["items"]
        self.assertEqual((parked["id"], parked["reason"], parked["task_id"],
                          parked["source_agent"], parked["token_count"]),
                         (ids[1], "store_corrupt", "task-1", "analyst", counted))
        [said] = caller.daemon.events("handoff_parked")
        self.assertEqual((said["level"], said["handoff"], said["target"], said["reason"]),
                         ("warn", ids[1], "coder", "store_corrupt"))
        metrics = caller.daemon.web.get("/metrics").text
        self.assertTrue('handoff_parked_total{target_agent="coder",reason="store_corrupt"} 1\n'
                        in metrics, "it is counted")
        self.assert_problem(caller.call("POST", f"/v1/parked/{ids[1]}/replay"), 500,
                            "store_corrupt")
        reply = caller.call("DELETE", f"/v1/parked/{ids[1]}?reason=damaged")
        self.assertEqual((reply.status, reply.json()["state"]), (200, "discarded"))

    def test_a_drain_lets_what_is_in_flight_end_and_takes_nothing_new(self):
        hold = Hold()
        coder = self.receiver(hold)
        caller = self.daemon({"coder": coder})
        reply = self.in_background(caller.send)
        coder.wait_for(1)
        early = self.enterContext(contextlib.closing(caller.daemon.api.connection()))
        exchange(early, "GET", "/v1/agents")
        caller.daemon.terminate()
        caller.daemon.wait_for_event("draining")
        refused = exchange(early, "POST", "/v1/handoffs", json.dumps({
            "source_agent": "analyst", "target_agent": "coder", "task_summary": "late"}))
        self.assert_problem(refused, 503, "shutting_down")
        self.assertEqual(refused.header("Retry-After"), "1")
        hold.release()
        self.assertEqual((reply().status, reply().json()["state"]), (200, "acknowledged"))
        self.assertEqual(caller.daemon.wait(), 0)

    def test_what_a_drain_leaves_goes_on_at_the_next_start(self):
        coder = self.receiver(Hold())
        caller = self.daemon({"coder": coder, "reviewer": {}}, "--shutdown.timeout=50ms")
        ids = [caller.send_async() for _ in range(3)]
        coder.wait_for(3)
        waiting = caller.send_async("reviewer")
        caller.daemon.terminate()
        self.assertEqual(caller.daemon.wait(), 0)
        coder.do(ack)
        self.again(caller)
        for handoff in ids:
            caller.wait_for_state(handoff, "acknowledged")
            self.assertEqual(caller.state(handoff)["attempts"], 1)
        self.assertEqual(caller.state(waiting)["state"], "ready")


if __name__ == "__main__":
    unittest.main()
