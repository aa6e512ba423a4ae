# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Requests at the edge of what delivery takes: odd bytes, odd times, odd methods, odd moments."""

import contextlib
import datetime
import json
import signal
import socket
import tempfile
import threading
import time
import unittest

from harness import Receiver, eventually
from harness.agents import Caller, config, daemon_with
from harness.receiver import Hold, ack, later, status


class Case(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())

    def receiver(self, *script):
        return self.stack.enter_context(Receiver(*script))

    def caller(self, agents, *options, **more):
        self.daemon = self.stack.enter_context(daemon_with(agents, *options, **more))
        return Caller(self.daemon)


class Words(Case):
    def test_a_long_reason_is_cut_at_a_character(self):
        caller = self.caller({"coder": {"url": self.receiver(later).url}})
        for before in ("", "x"):  # one of them is cut within a character, wherever the limit is
            handoff = caller.send_async()
            caller.wait_for_state(handoff, "awaiting_ack")
            reply = caller.call("POST", f"/v1/handoffs/{handoff}/nack",
                                {"reason": before + "é" * 300, "retry": False})
            self.assertEqual(reply.status, 200, reply)
            caller.wait_for_state(handoff, "parked")
            attempt, = caller.attempts(handoff)  # fails if it is not UTF-8
            self.assertRegex(attempt["error"], f"^{before}é{{90,}}$")

    def test_what_is_no_text_is_refused_and_not_kept(self):
        caller = self.caller({"coder": {"url": self.receiver(status(400)).url}})
        handoff = caller.send().json()["handoff"]["id"]
        for raw in ("%FF%FE", "%C3", "%ED%A0%80"):
            reply = caller.call("DELETE", f"/v1/parked/{handoff}?reason={raw}")
            self.assertEqual(reply.status, 400, reply)
            self.assertEqual(caller.call("GET", f"/v1/tasks/{raw}").status, 400, raw)
        self.assertEqual(caller.state(handoff)["state"], "parked")
        reply = caller.call("DELETE", f"/v1/parked/{handoff}?reason=%C3%A9")
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(caller.state(handoff)["reason"], "é")


    def test_a_filter_that_is_no_text_is_not_taken_for_an_absent_one(self):
        caller = self.caller({"coder": {"url": self.receiver(status(400)).url}})
        caller.send()
        for raw in ("%FF", "%00", "%C3", "%zz", "%"):
            for name, path in (("target", "/v1/parked"), ("reason", "/v1/parked"),
                               ("cursor", "/v1/parked"), ("limit", "/v1/parked"),
                               ("query", "/v1/memories"), ("cursor", "/v1/memories")):
                reply = caller.call("GET", f"{path}?{name}={raw}")
                self.assertEqual(reply.status, 400, (name, raw, reply))
                self.assertEqual((reply.json()["code"], reply.json()["field"]),
                                 ("invalid_request", name))
        reply = caller.call("GET", "/v1/parked?target=coder&target=%FF")
        self.assertEqual(reply.status, 400, reply)

    def test_a_later_word_of_another_type_is_refused_and_says_nothing(self):
        caller = self.caller({"coder": {"url": self.receiver(later).url}})
        handoff = caller.send_async()
        caller.wait_for_state(handoff, "awaiting_ack")
        for body, field, seen, allowed in (
                ({"retry": "no"}, "retry", "no", "true or false"),
                ({"retry": 0}, "retry", "0", "true or false"),
                ({"retry": False, "reason": 7}, "reason", "7", "a string without NUL"),
                ({"reason": ["é" * 100]}, "reason", "an array", "a string without NUL"),
                ({"reason": "no", "retri": False}, "retri", "retri", "retry (the nearest name)")):
            reply = caller.call("POST", f"/v1/handoffs/{handoff}/nack", body)
            self.assertEqual(reply.status, 400, reply)
            problem = reply.json()
            self.assertEqual((problem["code"], problem["field"], problem["allowed"]),
                             ("invalid_request", field, allowed))
            self.assertEqual(problem["seen"], seen)
        self.assertEqual(caller.state(handoff)["state"], "awaiting_ack")
        body = {"retry": False, "reason": None}
        self.assertEqual(caller.call("POST", f"/v1/handoffs/{handoff}/nack", body).status, 200)
        caller.wait_for_state(handoff, "parked")
        reply = caller.call("POST", f"/v1/parked/{handoff}/replay", {"target_agent": 7})
        self.assertEqual((reply.status, reply.json()["field"]), (400, "target_agent"))
        self.assertEqual(caller.state(handoff)["state"], "parked")
        for body in ({"edit": {"task_summary": "Other"}, "target_agent": 7},
                     {"target_agent": "coder\0x"}):
            reply = caller.call("POST", f"/v1/parked/{handoff}/replay", body)
            self.assertEqual((reply.status, reply.json()["field"]), (400, "target_agent"), body)
            self.assertEqual(caller.state(handoff)["state"], "parked")

    def test_a_refusal_names_what_it_saw_as_text(self):
        caller = self.caller({"coder": {"url": self.receiver(ack).url}, "puller": {}})
        for key, seen in (("\xff\xfe", None), ("run-\xff", "run-"), ("run-1", "run-1")):
            headers = {"idempotency-key": key}
            self.assertEqual(caller.send(headers=headers).status, 200)
            problem = caller.send(headers=headers, task_summary="Another").json()
            self.assertEqual((problem["code"], problem["field"], problem.get("seen")),
                             ("idempotency_conflict", "Idempotency-Key", seen))
        for wait in ("61s", "1", "-1s", "soon"):
            problem = caller.call("GET", f"/v1/agents/puller/inbox?wait={wait}").json()
            self.assertEqual((problem["status"], problem["field"], problem["seen"]),
                             (400, "wait", wait))

    def test_a_body_that_is_too_large_is_told_how_large_it_may_be(self):
        caller = self.caller({"coder": {"url": self.receiver(ack).url}}, api={"max_body": "8KiB"})
        for path, allowed in (("/v1/handoffs", "up to 8192 bytes (api.max_body)"),
                              ("/v1/handoffs/1/nack", "up to 4096 bytes")):
            problem = caller.call("POST", path, b" " * 9000).json()
            self.assertEqual((problem["status"], problem["code"], problem["field"],
                              problem["allowed"]), (413, "too_large", "body", allowed))

    def test_who_wants_no_answer_later_is_not_taken_for_one_who_does(self):
        caller = self.caller({"coder": {"url": self.receiver(ack).url}})
        for prefer, code in (("not-respond-async", 200), ("x=respond-async", 200),
                             ("Respond-Async", 202)):
            self.assertEqual(caller.send(headers={"prefer": prefer}).status, code, prefer)


class Repeats(Case):
    def test_what_was_discarded_is_not_called_acknowledged(self):
        caller = self.caller({"coder": {"url": self.receiver(status(503)).url, "retries": 0}})
        discarded, edited = {"idempotency-key": "one"}, {"idempotency-key": "two"}
        handoff = caller.send(headers=discarded).json()["handoff"]["id"]
        caller.call("DELETE", f"/v1/parked/{handoff}?reason=over")
        old = caller.send(headers=edited).json()["handoff"]["id"]
        new = caller.call("POST", f"/v1/parked/{old}/replay", {"edit": {"task_summary": "Anew"}})
        for headers, first, reason in (
                (discarded, handoff, "over"), (edited, old, f"replaced by {new.json()['id']}"),
                ({**discarded, "prefer": "respond-async"}, handoff, "over")):
            reply = caller.send(headers=headers)
            self.assertEqual((reply.status, reply.json()["code"]), (502, "discarded"), reply)
            told = reply.json()["handoff"]
            self.assertEqual((told["id"], told["state"], told["reason"]),
                             (first, "discarded", reason))


    def test_an_asynchronous_repeat_answers_200_once_the_handoff_is_acknowledged(self):
        caller = self.caller({"coder": {"url": self.receiver(ack).url}})
        headers = {"idempotency-key": "one", "prefer": "respond-async"}
        first = caller.send(headers=headers)
        self.assertEqual(first.status, 202)
        caller.wait_for_state(first.json()["id"], "acknowledged")
        repeat = caller.send(headers=headers)
        self.assertEqual((repeat.status, repeat.json()["id"], repeat.json()["state"]),
                         (200, first.json()["id"], "acknowledged"))

    def test_the_problem_says_why_the_handoff_was_parked(self):
        hold = Hold(status(500))
        coder = self.receiver(hold)
        caller = self.caller({"coder": {"url": coder.url}})
        key = {"idempotency-key": "one"}
        handoff = caller.send(headers={**key, "prefer": "respond-async"}).json()["id"]
        coder.wait_for(1)
        self.daemon.write_config(config({"spare": {}}))
        self.assertEqual(self.daemon.reload().status, 200)
        hold.release()
        caller.wait_for_state(handoff, "parked")
        problem = caller.send(headers=key).json()
        self.assertEqual((problem["code"], problem["detail"]), (
            "exhausted", "the agent is no longer in the configuration; the handoff is parked"
            " (target_agent: seen coder)"))
        agents = {agent["name"]: agent for agent in caller.call("GET", "/v1/agents").json()["items"]}
        self.assertEqual((agents["coder"]["configured"], agents["coder"]["delivery"]), (False, None))
        self.assertEqual((agents["spare"]["configured"], agents["spare"]["delivery"]), (True, "pull"))


class Times(Case):
    def test_every_deadline_that_is_over_is_refused(self):
        coder = self.receiver(ack)
        caller = self.caller({"coder": {"url": coder.url}})
        for deadline in ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z",
                         "1970-01-01T00:00:00.001Z", "2020-01-01T00:00:00Z"):
            reply = caller.send(constraints={"deadline": deadline})
            self.assertEqual((reply.status, reply.json()["code"]), (422, "deadline_passed"), deadline)
        self.assertEqual(coder.requests, [])


class Circuits(Case):
    def test_an_open_circuit_gives_nothing_to_an_alternate_that_it_is_too_large_for(self):
        small, large = self.receiver(ack), self.receiver(ack)
        caller = self.caller({
            "asked": {"url": self.receiver(status(503)).url, "retries": 0,
                      "alternates": ["small", "large"],
                      "breaker": {"failures": 1, "cooldown": "1h"}},
            "small": {"url": small.url, "token_budget": 60}, "large": {"url": large.url}})
        for _ in range(2):  # by way of its failure, then by its open circuit
            reply = caller.send("asked", task_summary="word " * 200)
            self.assertEqual((reply.status, reply.json()["target_agent"]), (200, "large"))
        self.assertEqual((len(small.requests), len(large.requests)), (0, 2))
        around = reply.json()["id"]
        hops = [(hop["attempt"], hop["target_agent"], hop["result"], hop["error"])
                for hop in caller.attempts(around)]
        self.assertEqual(hops, [(None, "asked", "passed_over", "circuit_open"),
                                (None, "small", "passed_over", "budget_too_small"),
                                (1, "large", "ack", "")])

    def test_an_alternate_that_does_not_read_the_envelope_is_passed_over(self):
        both, last = self.receiver(ack), self.receiver(ack)
        caller = self.caller({
            "asked": {"url": self.receiver(status(503)).url, "retries": 0,
                      "alternates": ["both", "last"]},
            "both": {"url": both.url, "accepts": ["1"], "emit": "dual"},
            "last": {"url": last.url}})
        handoff = caller.send("asked").json()
        self.assertEqual((handoff["state"], handoff["target_agent"], handoff["attempts"]),
                         ("acknowledged", "last", 2))
        self.assertEqual(both.requests, [])
        hops = caller.attempts(handoff["id"])
        self.assertEqual([(hop["attempt"], hop["target_agent"], hop["result"]) for hop in hops],
                         [(1, "asked", "http"), (None, "both", "passed_over"), (2, "last", "ack")])
        self.assertEqual(hops[1]["error"], "version")

    def test_a_circuit_is_shown_as_a_handoff_would_find_it(self):
        down = self.receiver(status(503))
        brief = {"retries": 0, "breaker": {"failures": 1, "cooldown": "100ms"}}
        caller = self.caller({"puller": brief, "pushed": {"url": down.url, **brief}})

        def shown():
            listed = {agent["name"]: agent["circuit"]
                      for agent in caller.call("GET", "/v1/agents").json()["items"]}
            metrics = self.daemon.web.get("/metrics").text
            for name, circuit in listed.items():
                self.assertIn(f'handoff_circuit_state{{target_agent="{name}",state="{circuit}"}} 1\n',
                              metrics)
            return listed

        def pull_and_say(word):
            handoff = caller.send_async("puller")
            caller.call("GET", "/v1/agents/puller/inbox?wait=20s")
            self.assertEqual(caller.call("POST", f"/v1/handoffs/{handoff}/{word}").status, 200)

        pull_and_say("nack")
        self.assertEqual(caller.send("pushed").status, 502)
        self.daemon.wait_for_event("circuit_opened", 2)
        eventually(lambda: shown() == {"puller": "half_open", "pushed": "half_open"},
                   "both are taken again")
        pull_and_say("ack")
        self.assertEqual(shown(), {"puller": "closed", "pushed": "half_open"})

    def test_only_what_was_open_is_said_to_close(self):
        coder = self.receiver(status(503))
        caller = self.caller({"coder": {"url": coder.url, "retries": 0,
                                        "breaker": {"failures": 2, "cooldown": "1h"}}})
        caller.send()
        coder.do(ack)
        caller.send()
        self.assertEqual(self.daemon.events("circuit_closed"), [])
        coder.do(status(503))
        caller.send()
        caller.send()
        self.daemon.wait_for_event("circuit_opened")
        self.assertEqual(caller.call("POST", "/v1/agents/coder/reset").status, 204)
        self.daemon.wait_for_event("circuit_closed")
        self.assertEqual(len(self.daemon.events("circuit_closed")), 1)


class Pages(Case):
    """A page whose name was made to lead to 127.0.0.1 is of one origin with the API."""
    HOST = {"Host": "evil.example:8780"}
    ORIGIN = {**HOST, "Origin": "http://evil.example:8780", "Sec-Fetch-Site": "same-origin"}

    def test_a_rebound_name_is_refused(self):
        caller = self.caller({"puller": {}})
        handoff = caller.send_async("puller")
        for headers in (self.HOST, self.ORIGIN):
            for method, path in (("GET", "/v1/agents/puller/inbox"), ("GET", "/v1/parked"),
                                 ("POST", f"/v1/handoffs/{handoff}/ack")):
                reply = self.daemon.api.request(method, path, headers=headers)
                self.assertEqual((reply.status, reply.json()["code"]), (403, "cross_origin"))
        self.assertEqual(caller.state(handoff)["state"], "ready")
        port = self.daemon.api.address.rpartition(":")[2]
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", "[::1]", "agent.localhost"):
            reply = self.daemon.api.request("GET", "/v1/parked", headers={"Host": host})
            self.assertEqual(reply.status, 200, host)

    def test_who_has_a_token_may_come_by_any_name(self):
        tokens = self.stack.enter_context(tempfile.NamedTemporaryFile("w"))
        tokens.write("@operator abcdefghijklmnop\n")
        tokens.flush()
        self.caller({"puller": {}}, api={"tokens_file": tokens.name})
        for headers, code in (({}, 401), ({"Authorization": "Bearer abcdefghijklmnop"}, 200)):
            reply = self.daemon.api.request("GET", "/v1/parked", headers={**self.HOST, **headers})
            self.assertEqual(reply.status, code, reply)


    def test_a_reset_is_heard_by_what_waits_for_the_cooldown(self):
        coder = self.receiver(status(503))
        caller = self.caller({"coder": {"url": coder.url, "retries": 0,
                                        "breaker": {"failures": 1, "cooldown": "1h"}}})
        handoff = caller.send().json()["handoff"]["id"]
        reply = caller.call("POST", f"/v1/parked/{handoff}/replay")
        self.assertEqual((reply.status, reply.json()["state"]), (200, "ready"))
        coder.do(ack)
        self.assertEqual(caller.call("POST", "/v1/agents/coder/reset").status, 204)
        caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(len(coder.requests), 2)


class Turned(Case):
    def test_what_is_turned_away_is_no_handoff_that_was_measured(self):
        hold = Hold()
        caller = self.caller({"busy": {"url": self.receiver(hold).url},
                              "broken": {"url": self.receiver(status(503)).url, "retries": 0,
                                         "breaker": {"failures": 1, "cooldown": "1h"}}},
                             api={"max_in_flight_per_agent": 1})
        caller.send_async("busy")
        caller.send("broken")
        for target, code in (("busy", 429), ("broken", 503), ("nobody", 404)):
            for _ in range(3):
                self.assertEqual(caller.send(target).status, code)
        hold.release()
        text = self.daemon.web.get("/metrics").text
        for family in ("handoff_context_completeness_ratio", "handoff_envelope_tokens",
                       "handoff_token_utilization_ratio"):
            for target, count in (("busy", 1), ("broken", 1), ("other", 0)):
                self.assertIn(f'{family}_count{{target_agent="{target}"}} {count}\n', text)
        self.assertIn('handoff_hop_depth_count{pattern="direct"} 2\n', text)
        self.assertIn('handoff_route_cycles_total 0\n', text)


    def test_limits_that_a_reload_changes_are_in_force(self):
        hold = Hold()
        agents = {"busy": {"url": self.receiver(hold).url}, "puller": {}}
        caller = self.caller(agents, api={"max_in_flight_per_agent": 1})
        def reload(**limits):
            self.daemon.write_config(config(agents, api=limits))
            self.assertEqual(self.daemon.reload().status, 200)
        caller.send_async("busy")
        problem = caller.send("busy").json()
        self.assertEqual((problem["status"], problem["field"], problem["seen"]),
                         (429, "target_agent", "busy"))
        reload(max_in_flight_per_agent=2)
        caller.send_async("busy")
        self.assertEqual(caller.send("busy").status, 429)
        reload(max_in_flight=2)
        self.assertEqual(caller.send("puller").status, 429)
        reload(max_in_flight=3)
        caller.send_async("puller")
        hold.release()


class Replaying(Case):
    def replay(self, caller, handoff, target):
        return caller.call("POST", f"/v1/parked/{handoff}/replay", {"target_agent": target})

    def test_another_agent_gets_nothing_that_it_does_not_take(self):
        small, old, both, flat = (self.receiver(ack) for _ in range(4))
        caller = self.caller({
            "coder": {"url": self.receiver(status(400)).url},
            "small": {"url": small.url, "token_budget": 60},
            "old": {"url": old.url, "accepts": ["1"], "emit": "dual"},
            "puller": {"accepts": ["1"], "emit": "dual"},
            "both": {"url": both.url, "accepts": ["1", "2"], "emit": "dual"},
            "flat": {"url": flat.url, "accepts": ["1"]}})
        handoff = caller.send(task_summary="word " * 200).json()["handoff"]["id"]
        tokens = caller.state(handoff)["token_count"]
        reply = self.replay(caller, handoff, "small")
        problem = reply.json()
        self.assertEqual((reply.status, problem["code"], problem["field"], problem["seen"],
                          problem["needed"]),
                         (422, "budget_too_small", "token_budget", "60", tokens))
        for target in ("old", "puller"):
            reply = self.replay(caller, handoff, target)
            problem = reply.json()
            self.assertEqual((reply.status, problem["code"], problem["field"], problem["seen"]),
                             (400, "invalid_request", "target_agent", target))
        self.assertEqual(caller.state(handoff)["state"], "parked")
        self.assertEqual((small.requests, old.requests), ([], []))
        self.assertEqual(self.replay(caller, handoff, "flat").status, 200)
        caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(flat.requests[0].json()["version"], 1)
        handoff = caller.send().json()["handoff"]["id"]
        self.assertEqual(self.replay(caller, handoff, "both").status, 200)
        caller.wait_for_state(handoff, "acknowledged")

    def test_one_that_carries_both_forms_goes_to_whoever_reads_the_first(self):
        asked = self.receiver(status(400))
        caller = self.caller({
            "coder": {"url": asked.url, "accepts": ["1"], "emit": "dual"},
            "puller": {"accepts": ["1"], "emit": "dual"}})
        handoff = caller.send().json()["handoff"]["id"]
        self.assertEqual(self.replay(caller, handoff, "puller").status, 200)
        asked.do(ack)
        reply = caller.call("GET", "/v1/agents/puller/inbox?wait=20s")
        self.assertEqual((reply.status, reply.json()["version"]), (200, 1))


class Draining(Case):
    @staticmethod
    def sending(target="coder"):
        """The bytes of a POST that waits for its handoff's end."""
        body = json.dumps({"source_agent": "analyst", "target_agent": target,
                           "task_id": "task-1", "task_summary": "Write the retry logic"})
        return (f"POST /v1/handoffs HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}").encode()

    def test_waiting_senders_are_told_that_it_ends(self):
        hold = Hold()
        coder = self.receiver(hold)
        self.stack.callback(hold.release)
        caller = self.caller({"coder": {"url": coder.url}}, "--shutdown.timeout=300ms")
        senders = [self.stack.enter_context(self.daemon.api.socket()) for _ in range(6)]
        for sender in senders:
            sender.sendall(self.sending() * 2)  # the second is in the pipe until the first is answered
        coder.wait_for(len(senders))
        ids = {item["id"] for item in caller.call("GET", "/v1/tasks/task-1").json()["items"]}
        self.assertEqual(len(ids), len(senders))
        self.daemon.process.send_signal(signal.SIGTERM)
        told = set()
        for sender in senders:
            answer = b"".join(iter(lambda: sender.recv(1 << 16), b""))
            head, _, problem = answer.partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 503 "), answer)
            self.assertIn(b"Retry-After: ", head)
            problem = json.loads(problem)  # one answer, and no second
            self.assertEqual(problem["code"], "shutting_down")
            told.add(problem["handoff"]["id"])
        self.assertEqual(told, ids)
        self.assertEqual(self.daemon.process.wait(30), 0)

    def test_what_is_stored_and_waits_does_not_hold_up_the_end(self):
        """An hour is allowed and none of it is needed: no attempt is out."""
        busy = {"retries": 9, "backoff": {"base": "1h", "max": "1h"}}
        waiting, broken = self.receiver(later), self.receiver(status(503))
        caller = self.caller({"puller": {}, "waiting": {"url": waiting.url},
                              "broken": {"url": broken.url, **busy}}, "--shutdown.timeout=1h")
        ids = {name: caller.send_async(name, task_id="other") for name in ("puller", "waiting", "broken")}
        caller.wait_for_state(ids["waiting"], "awaiting_ack")
        senders = [self.stack.enter_context(self.daemon.api.socket()) for _ in ids]
        for sender, name in zip(senders, ids):
            sender.sendall(self.sending(name))
        items = eventually(lambda: (found := caller.call("GET", "/v1/tasks/task-1").json()["items"])
                           and len(found) == 3 and found, "all are accepted")
        states = {"puller": ("ready", 0), "waiting": ("awaiting_ack", 1), "broken": ("ready", 1)}
        for item in items:
            eventually(lambda: (lambda now: (now["state"], now["attempts"]))(
                caller.state(item["id"])) == states[item["target_agent"]], "it waits")
        self.daemon.terminate()
        for sender in senders:
            answer = b"".join(iter(lambda: sender.recv(1 << 16), b""))
            self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
            problem = json.loads(answer.partition(b"\r\n\r\n")[2])
            told = problem["handoff"]
            self.assertEqual((problem["code"], told["state"], told["attempts"]),
                             ("shutting_down", *states[told["target_agent"]]))
        self.assertEqual(self.daemon.wait(), 0)
        self.assertEqual(self.daemon.events("drain_timed_out"), [])

    def test_an_attempt_that_fails_in_the_drain_is_the_last(self):
        hold = Hold(status(503))
        coder = self.receiver(hold)
        self.stack.callback(hold.release)
        caller = self.caller({"coder": {"url": coder.url, "backoff": {"base": "1ms", "max": "1ms"},
                                        "retries": 99}}, "--shutdown.timeout=1h")
        handoff = caller.send_async()
        sender = self.stack.enter_context(self.daemon.api.socket())
        sender.sendall(self.sending())
        coder.wait_for(2)
        self.daemon.terminate()
        self.daemon.wait_for_event("draining")
        hold.release()
        answer = b"".join(iter(lambda: sender.recv(1 << 16), b""))
        problem = json.loads(answer.partition(b"\r\n\r\n")[2])
        self.assertEqual((problem["code"], problem["handoff"]["attempts"]), ("shutting_down", 1))
        self.assertNotEqual(problem["handoff"]["id"], handoff)
        self.assertEqual(self.daemon.wait(), 0)
        self.assertEqual(len(coder.requests), 2)

    def test_who_does_not_read_is_not_waited_for(self):
        hold = Hold()
        coder = self.receiver(hold)
        self.stack.callback(hold.release)
        caller = self.caller({"coder": {"url": coder.url}})
        for i in range(100):  # to list them takes more than a socket holds
            caller.call("PUT", f"/v1/memories/large-{i}", {"content": "x" * 60000})
        deaf = self.stack.enter_context(socket.socket())
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((self.daemon.api.host, self.daemon.api.port))
        deaf.sendall(b"GET /v1/memories?limit=100 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(deaf.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL), b"HTTP/1.1 200")
        sender = self.stack.enter_context(self.daemon.api.socket())
        sender.sendall(self.sending())
        coder.wait_for(1)
        self.daemon.terminate()
        answer = b"".join(iter(lambda: sender.recv(1 << 16), b""))
        self.assertIn(b'"code":"shutting_down"', answer)  # a client that reads is answered
        self.assertEqual(self.daemon.wait(), 0)


class Pulling(Case):
    def pull(self, caller, agent="puller"):
        reply = caller.call("GET", f"/v1/agents/{agent}/inbox?wait=20s")
        self.assertEqual(reply.status, 200, reply)
        return reply.header("Handoff-Id"), int(reply.header("Handoff-Lease-Seconds"))

    def test_a_lease_is_no_longer_than_the_deadline(self):
        caller = self.caller({"puller": {"ack_timeout": "10m"}})
        now = datetime.datetime.now(datetime.timezone.utc)
        deadline = (now + datetime.timedelta(minutes=1)).isoformat()
        handoff = caller.send_async("puller", constraints={"deadline": deadline})
        pulled, lease = self.pull(caller)
        self.assertEqual(pulled, handoff)
        self.assertLessEqual(lease, 60)
        self.assertGreater(lease, 30)

    def test_what_an_alternate_has_leased_goes_on_and_has_its_time(self):
        caller = self.caller({"asked": {"url": self.receiver(status(503)).url, "retries": 0,
                                        "alternates": ["puller"]},
                              "puller": {"ack_timeout": "100ms", "retries": 1}})
        handoff = caller.send_async("asked")
        self.pull(caller)
        leased = caller.state(handoff)
        self.assertEqual((leased["target_agent"], leased["reason"]), ("puller", ""))
        caller.wait_for_state(handoff, "ready")
        reply = caller.call("POST", f"/v1/handoffs/{handoff}/extend")
        self.assertEqual((reply.status, reply.json()["code"], reply.json()["seen"]),
                         (409, "conflict", "ready"))
        self.assertNotIn("settled", reply.json()["detail"])
        self.pull(caller)
        caller.wait_for_state(handoff, "parked")
        leases = caller.attempts(handoff)[1:]
        self.assertEqual([lease["result"] for lease in leases], ["timeout", "timeout"])
        for lease in leases:
            self.assertGreaterEqual(lease["duration_seconds"], 0.099)

    def test_who_reads_version_1_alone_pulls_version_1(self):
        caller = self.caller({"old": {"accepts": ["1"]}, "new": {"accepts": ["1", "2"]}})
        for agent, kind, version in (("old", "version=1", 1), ("new", "version=2.0", None)):
            handoff = caller.send_async(agent)
            reply = caller.call("GET", f"/v1/agents/{agent}/inbox?wait=20s")
            self.assertEqual((reply.status, reply.json().get("version")), (200, version))
            self.assertTrue(reply.header("Content-Type").endswith(kind), reply)
            self.assertEqual(caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)

    def test_head_leases_nothing(self):
        caller = self.caller({"puller": {}})
        handoff = caller.send_async("puller")
        reply = caller.call("HEAD", "/v1/agents/puller/inbox")
        self.assertEqual(reply.status, 405, reply)
        self.assertEqual(reply.header("Allow"), "GET, OPTIONS")
        self.assertEqual(caller.state(handoff)["state"], "ready")
        self.assertEqual(caller.call("GET", "/v1/agents/puller/inbox").status, 200)

    def test_a_poll_whose_token_was_revoked_is_given_nothing(self):
        tokens = self.stack.enter_context(tempfile.NamedTemporaryFile("w"))

        def allow(**names):
            tokens.seek(0)
            tokens.truncate()
            tokens.write("".join(f"{name} {token}\n" for name, token in
                                 {"@operator": "operator-abcdefgh", **names}.items()))
            tokens.flush()

        def ask(method, path, token, body=None):
            connection = self.daemon.api.connection()
            connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
            return connection

        allow(puller="before-abcdefghij")
        self.caller({"puller": {}}, api={"tokens_file": tokens.name})
        polls = [ask("GET", "/v1/agents/puller/inbox?wait=60s", "before-abcdefghij")
                 for _ in range(3)]
        for _ in range(4):  # the polls are on their way before these, at the least
            ask("GET", "/v1/agents", "operator-abcdefgh").getresponse()
        allow(puller="after-abcdefghijk")
        self.assertEqual(self.daemon.reload().status, 200)
        request = {"source_agent": "analyst", "target_agent": "puller", "task_id": "task-1",
                   "task_summary": "Write the retry logic"}
        sender = ask("POST", "/v1/handoffs", "operator-abcdefgh", json.dumps(request))
        for poll in polls:
            reply = poll.getresponse()
            self.assertEqual((reply.status, json.load(reply)["code"]), (401, "unauthenticated"))
        path = "/v1/agents/puller/inbox?wait=20s"
        reply = ask("GET", path, "after-abcdefghijk").getresponse()
        self.assertEqual((reply.status, reply.headers["Handoff-Attempt"]), (200, "1"))
        handoff = reply.headers["Handoff-Id"]
        ask("POST", f"/v1/handoffs/{handoff}/ack", "after-abcdefghijk").getresponse()
        self.assertEqual(sender.getresponse().status, 200)

    def test_a_drain_does_not_wait_for_idle_pollers(self):
        caller = self.caller({"puller": {}}, "--shutdown.timeout=1m")
        waiting, answers = threading.Event(), []

        def poll():
            connection = self.daemon.api.connection()
            connection.request("GET", "/v1/agents/puller/inbox?wait=60s")
            waiting.set()
            answers.append(connection.getresponse().status)
        pollers = [threading.Thread(target=poll, daemon=True) for _ in range(4)]
        for poller in pollers:
            poller.start()
            waiting.wait(10)
            waiting.clear()
        caller.call("GET", "/v1/agents")  # the requests before it are on their way, at the least
        began = time.monotonic()
        self.daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.process.wait(30), 0)
        self.assertLess(time.monotonic() - began, 30)
        for poller in pollers:
            poller.join(10)
        self.assertEqual(set(answers), {204})


if __name__ == "__main__":
    unittest.main()
