# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""The table of calls at the real daemon: the OpenAPI document that it serves, each call with its
example and the answers that the document promises, and bodies that a schema and the daemon judge."""

import contextlib
import copy
import json
import os
import pathlib
import re
import subprocess
import unittest
import urllib.parse

import jsonschema
from harness import Http, declared
from harness.agents import Caller, daemon_with
from harness.receiver import Receiver, ack, later, status
from harness.wait import eventually

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
DOCUMENT = json.loads((TOP / "docs/openapi.json").read_text(encoding="utf-8"))
OPERATIONS = {operation["operationId"]: (method.upper(), path, operation)
              for path, methods in DOCUMENT["paths"].items()
              for method, operation in methods.items()}
JSON = "application/json"
PROBLEM = "application/problem+json"
CHANNEL = "oauth-migration"  # as in the examples
GONE = "01890a5d-ac96-774b-bcce-b302099a8057"


def closed(schema):
    """The schema, refusing members that it does not list: what is answered has to be documented."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") is not None:
        found.setdefault("additionalProperties", False)
    return found


ANSWERED = {name: schema if name.startswith("Envelope") else closed(schema)
            for name, schema in DOCUMENT["components"]["schemas"].items()}


def validate(value, schema, schemas=ANSWERED):
    jsonschema.Draft202012Validator(
        {"components": {"schemas": schemas}, "allOf": [schema]}).validate(value)


def validate_body(value, operation):
    validate(value, body_of(operation)["schema"], DOCUMENT["components"]["schemas"])


def body_of(operation):
    return operation.get("requestBody", {}).get("content", {}).get(JSON, {})


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.coder = stack.enter_context(Receiver(ack))
        self.slow = stack.enter_context(Receiver(later))
        self.broken = stack.enter_context(Receiver(status(400)))
        self.daemon = stack.enter_context(daemon_with({
            "coder": {"url": self.coder.url}, "spare": {"url": self.coder.url},
            "slow": {"url": self.slow.url}, "broken": {"url": self.broken.url}, "puller": {}},
            channels={CHANNEL: {"receivers": ["coder", "spare"]}}))
        self.caller = Caller(self.daemon)
        self.seen = {}

    def check(self, name, reply):
        """The reply is one that the document promises."""
        _, _, operation = OPERATIONS[name]
        self.assertIn(str(reply.status), operation["responses"], (name, reply))
        response = operation["responses"][str(reply.status)]
        self.seen.setdefault(name, set()).add(reply.status)
        if "content" not in response:
            self.assertEqual(reply.body, b"")
            return reply
        kind = reply.header("Content-Type").split(";")[0]
        self.assertIn(kind, response["content"], (name, reply))
        if kind.endswith("json"):
            validate(reply.json(), response["content"][kind]["schema"])
        return reply

    def call(self, name, path=None, body=None, query=None, **headers):
        """The call with a path segment and a query; `body` is JSON, or bytes as they are."""
        method, pattern, _ = OPERATIONS[name]
        pattern = pattern.replace("{channel}", CHANNEL)
        target = re.sub(r"\{\w+\}", urllib.parse.quote(path or "", safe=""), pattern)
        if query:
            target += "?" + urllib.parse.urlencode(query)
        return self.check(name, self.caller.call(method, target, body, **headers))

    def example(self, name, path=None, **headers):
        """The call as the document shows it, but for the path, which may name something here."""
        _, _, operation = OPERATIONS[name]
        shown = {place: {p["name"]: p["schema"]["examples"][0]
                         for p in operation.get("parameters", [])
                         if p["in"] == place and "examples" in p["schema"]}
                 for place in ("path", "query")}
        path = path or next(iter(shown["path"].values()), None)
        return self.call(name, path, body_of(operation).get("example"), shown["query"], **headers)

    def parked(self):
        return self.caller.send("broken").json()["handoff"]["id"]

    def waiting(self):
        handoff = self.caller.send_async("slow")
        self.caller.wait_for_state(handoff, "awaiting_ack")
        return handoff


class Document(Case):
    def test_what_is_served_is_what_is_committed(self):
        reply = self.call("get_openapi")
        self.assertEqual(reply.json(), DOCUMENT)

    def test_it_is_openapi_3_1(self):
        self.assertEqual(self.judged(DOCUMENT), {"version": "3.1", "valid": True, "errors": []})

    def test_the_judge_can_find_something(self):
        document = copy.deepcopy(DOCUMENT)
        del document["paths"]["/v1/handoffs"]["post"]["responses"]["200"]["description"]
        self.assertFalse(self.judged(document)["valid"])

    @staticmethod
    def judged(document):
        done = subprocess.run(["node", "validate.mjs"], cwd=TOP / "tests/openapi", input=json.dumps(document),
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def test_every_reference_leads_somewhere(self):
        for reference in set(re.findall(r'"\$ref": "#/([^"]*)"', json.dumps(DOCUMENT))):
            found = DOCUMENT
            for step in reference.split("/"):
                found = found[step]

    def test_each_schema_is_a_schema(self):
        for schema in DOCUMENT["components"]["schemas"].values():
            jsonschema.Draft202012Validator.check_schema(schema)


class Declared(unittest.TestCase):
    """Every answer that any scenario gets is looked up in the document (harness/declared.py)."""

    def test_what_is_not_declared_is_named(self):
        for method, path, status, code in (
                ("POST", "/v1/handoffs", 200, None), ("POST", "/v1/handoffs", 422, "hop_limit"),
                ("HEAD", "/v1/handoffs/7?x=y", 404, "not_found"), ("POST", "/v1/jobs", 202, None),
                ("GET", "/v1/nothing", 404, "no_such_path"), ("PATCH", "/v1/handoffs", 405, "method_not_allowed")):
            self.assertIsNone(declared.undeclared(method, path, status, code), path)
        for method, path, status, code in (
                ("POST", "/v1/handoffs", 201, None), ("POST", "/v1/handoffs", 422, "made_up"),
                ("GET", "/v1/handoffs/7", 404, "unknown_agent"), ("POST", "/v1/jobs", 201, None)):
            self.assertIn(f"{method} {path}: {status}", declared.undeclared(method, path, status, code))

    def test_an_answer_that_is_not_declared_fails_the_test_that_gets_it(self):
        with Receiver(lambda got: got.answer(201, {})) as receiver:
            with self.assertRaisesRegex(AssertionError, "POST /v1/handoffs: 201 alone is not declared"):
                Http(receiver.address).post("/v1/handoffs", b"{}")


class Examples(Case):
    """Each example is sent, and what comes back is documented."""

    def test_as_they_are(self):
        for name in OPERATIONS:
            with self.subTest(call=name):
                if name == "pull_handoff":
                    self.call(name, "puller", query={"wait": "1ms"})
                else:
                    self.example(name)

    def test_each_has_its_good_answers(self):
        new = self.example("send_handoff").json()["id"]
        self.example("send_handoff", prefer="respond-async")
        self.example("assemble_envelope")
        self.example("assemble_envelope", accept="text/markdown")
        stored = self.example("assemble_envelope").json()["id"]
        self.call("get_stored_envelope", stored, accept="text/markdown")
        self.call("get_stored_envelope", stored)
        self.call("get_stored_envelope", stored, accept="application/vnd.handoff.envelope+json; version=1")
        self.example("deliver_envelope", stored)
        stored = self.caller.call("POST", "/v1/envelopes",
                                  {"source_agent": "analyst", "target_agent": "slow",
                                   "task_summary": "Write it"}).json()["id"]
        self.example("deliver_envelope", stored, prefer="respond-async")
        self.example("park_request")
        for name in ("get_handoff", "get_envelope", "get_ledger", "list_attempts"):
            self.example(name, new)
        self.example("publish")
        published = self.example("publish", prefer="wait=20").json()["id"]
        for name in ("list_channels", "get_channel", "list_publications"):
            self.example(name)
        self.call("get_publication", published)
        for name in ("subscribe", "unsubscribe"):
            self.example(name, "coder")
        self.call("get_envelope", new, accept="application/vnd.handoff.envelope+json; version=1")
        for name in ("list_handoffs", "get_task", "complete_task", "observe", "list_agents", "list_parked",
                     "group_parked", "list_jobs", "list_decisions", "list_memories",
                     "get_openapi"):
            self.example(name)
        for name in ("recover_memories", "flag_gaps"):
            self.example(name, self.waiting())
        for name in ("ack_handoff", "nack_handoff", "extend_handoff", "cancel_handoff",
                     "park_handoff"):
            self.example(name, self.waiting())
        self.example("reset_agent")
        self.call("pull_handoff", "puller")
        self.caller.send_async("puller")
        self.call("pull_handoff", "puller", query={"wait": "20s"})
        self.broken.do(ack)
        self.broken.do(status(400))
        for _ in range(2):
            self.parked()
        self.call("list_parked", query={"target": "broken", "reason": "refused", "limit": 1})
        self.example("check_parked", self.parked())
        self.example("preview_edit", self.parked())
        self.example("discard_handoff", self.parked())
        self.example("replay_handoff", self.parked())
        job = self.example("begin_job").json()["id"]  # its example has a canary, and nothing is parked for its agent
        with_canary = self.call("begin_job", body={"action": "discard", "reason": "no", "canary": True}).json()["id"]
        eventually(lambda: self.call("get_job", with_canary).json()["state"] == "waiting", "its canary is decided")
        self.call("continue_job", with_canary)
        self.call("begin_job", body={"action": "replay", "dry_run": True})
        for name in ("get_job", "list_job_items", "stop_job"):
            self.example(name, job)
        for _ in range(2):
            self.example("put_memory")
        for name in ("get_memory", "pin_memory", "unpin_memory", "list_memories", "delete_memory"):
            self.example(name)
        for name, (_, _, operation) in OPERATIONS.items():
            good = {int(code) for code in operation["responses"] if int(code) < 400}
            self.assertLessEqual(good, self.seen[name], name)

    def test_a_handoff_that_ends_badly_is_in_the_problem(self):
        reply = self.call("send_handoff", body={"source_agent": "analyst", "target_agent": "broken",
                                                "task_summary": "Write it"})
        self.assertEqual((reply.status, reply.json()["handoff"]["state"]), (502, "parked"))


class Judged(Case):
    """A schema and the daemon agree about bodies."""

    BAD = {
        "send_handoff": [{"constrants": {}}, {"target_agent": 7}, {"target_agent": "a b"},
                         {"target_agent": ""}, {"task_id": "x" * 257}, {"task_id": "a\nb"},
                         {"include_recent": 1001}, {"include_recent": -1}, {"include_pins": "yes"},
                         {"memory_ids": "m"}, {"memory_ids": ["m", 1]}, {"memory_ids": [""]},
                         {"constraints": []}, {"constraints": {"max_tokens": 0}},
                         {"constraints": {"deadline": "tomorrow"}}, {"previous_id": "42"},
                         {"execution_history": [{"agent": "a"}]}, {"execution_history": [7]},
                         {"state": {"decisions": "d"}}, {"expected_output": {"criteria": 1}},
                         {"strategy": "smart"}, {"pattern": "relay"}],
        "observe": [{"outcome": "lost"}, {"hop_count": 0}, {"hop_cuont": 1}, {"cycle": 1},
                    {"trace_id": "0" * 32}, {"timestamp": "now"}, {"latency_seconds": -1},
                    {"attempts": {"ack": -1}}, {"attempts": {"ok": 1}},
                    {"completeness": {"ratio": 2}}, {"token_budget": 0}],
        "put_memory": [{"content": 1}, {"importance": "urgent"}, {"tags": "t"}, {"tags": [1]},
                       {"metadata": []}, {"pinned": 1}, {"sumary": "s"}],
        "ack_handoff": [{"ack": 7}, {"nxet": {}}, {"missing": "ms-1"}, {"missing": [7]}],
        "recover_memories": [{"missing": "yes"}, {"ids": "ms-1"}, {"ids": [7]}, {"ids": [""]}, {"mising": True}],
        "flag_gaps": [{"missing": True}, {"missing": "ms-1"}, {"missing": [7]}, {"misssing": []}],
        "nack_handoff": [{"retry": "no"}, {"reason": 7}, {"retri": False}],
        "cancel_handoff": [{"reason": 7}, {"raeson": "x"}],
        "park_handoff": [{"reason": 7}, {"reason": ""}, {"reason": None}, {"retry": False}],
        "extend_handoff": [{"progress": 7}, {"progress": ""}, {"progres": "x"}],
        "park_request": [{"reason": 7}, {"reason": ""}, {"request": 7}, {"requset": {}},
                         {"request": {"target_agent": 7}}, {"envelope_id": 7}],
        "publish": [{"request": 7}, {"requset": {}}, {"envelope_id": 7}, {"receivers": "coder"},
                    {"receivers": [7]}, {"receivers": ["a b"]}],
        "subscribe": [{"from": 7}, {"from": ""}, {"form": "all"}],
        "replay_handoff": [{"target_agent": 7}, {"edit": []}, {"edit": {"task_sumary": "x"}},
                           {"edit": {"intent": "x"}}, {"target": "spare"}],
        "preview_edit": [{"target_agent": 7}, {"edit": []}, {"edit": {"task_sumary": "x"}}, {"edit": {"intent": "x"}},
                         {"reason": "x"}],
        "begin_job": [{"action": 7}, {"action": "replay", "rate": 0}, {"action": "replay", "rate": 1001}, {"action": "replay", "limit": 0},
                      {"action": "replay", "to": 5}, {"action": "replay", "agent": "x"}, {"action": "replay", "filter": []},
                      {"action": "replay", "filter": {"target": 7}}, {"action": "replay", "canary": "yes"}],
    }
    MISSING = {"send_handoff": ["target_agent", "task_summary"], "put_memory": ["content"],
               "park_handoff": ["reason"], "park_request": ["reason"], "flag_gaps": ["missing"],
               "preview_edit": ["edit"]}

    def good(self, name):
        body = body_of(OPERATIONS[name][2])["example"]
        return body["items"][0] if name == "observe" else body

    def agree(self, name, body, path):
        _, _, operation = OPERATIONS[name]
        with self.subTest(call=name, body=body):
            reply = self.call(name, path, body)
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"), reply)
            with self.assertRaises(jsonschema.ValidationError):
                validate_body(body, operation)

    def test_what_is_bad_is_bad_for_both(self):
        paths = {"put_memory": "m", "subscribe": "coder", "replay_handoff": self.parked(),
                 "preview_edit": self.parked()}
        paths.update(dict.fromkeys(("ack_handoff", "nack_handoff", "cancel_handoff", "park_handoff",
                                    "extend_handoff", "recover_memories", "flag_gaps"),
                                   self.waiting()))
        for name, changes in self.BAD.items():
            for change in changes:
                self.agree(name, {**self.good(name), **change}, paths.get(name))
        for name, fields in self.MISSING.items():
            for field in fields:
                body = {key: value for key, value in self.good(name).items() if key != field}
                self.agree(name, body, paths.get(name))
        self.assertEqual(self.caller.state(paths["nack_handoff"])["state"], "awaiting_ack")

    def test_each_body_has_bad_ones(self):
        bodies = {name for name, (_, _, operation) in OPERATIONS.items() if body_of(operation)}
        self.assertEqual(bodies - {"assemble_envelope"}, set(self.BAD))

    def test_examples_are_good_for_the_schemas(self):
        for name, (_, _, operation) in OPERATIONS.items():
            if body_of(operation):
                validate_body(body_of(operation)["example"], operation)


class Queries(Case):
    def test_an_unknown_parameter_is_refused_by_every_call(self):
        for name in OPERATIONS:
            with self.subTest(call=name):
                reply = self.call(name, "puller" if name == "pull_handoff" else GONE,
                                  query={"surely-unknown": 1})
                self.assertEqual((reply.status, reply.json()["field"]), (400, "surely-unknown"))

    def test_the_nearest_name_is_suggested(self):
        for name, wrong, right in (("list_parked", "targte", "target"),
                                   ("list_memories", "pined", "pinned"),
                                   ("get_task", "limits", "limit"),
                                   ("discard_handoff", "raeson", "reason")):
            problem = self.call(name, GONE, query={wrong: "x"}).json()
            self.assertEqual((problem["code"], problem["field"], problem["seen"], problem["allowed"]),
                             ("invalid_request", wrong, wrong, f"{right} (the nearest name)"))

    def test_values_are_bounded(self):
        for name, query in (("list_parked", {"limit": 0}), ("list_parked", {"limit": 1001}),
                            ("list_parked", {"limit": "x"}), ("list_parked", {"limit": ""}),
                            ("get_task", {"limit": "1.5"}), ("list_memories", {"recent": 0}),
                            ("list_memories", {"pinned": "yes"}), ("pull_handoff", {"wait": "61s"}),
                            ("pull_handoff", {"wait": "5"}), ("discard_handoff", {"reason": ""}),
                            ("discard_handoff", {})):
            with self.subTest(call=name, query=query):
                problem = self.call(name, "puller", query=query).json()
                self.assertEqual((problem["code"], problem["field"]),
                                 ("invalid_request", next(iter(query), "reason")))


if __name__ == "__main__":
    unittest.main()
