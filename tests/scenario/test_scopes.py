# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Scopes of memories: who sees, stores and asks for what, with each kind of token, along a chain, and at random."""

import contextlib
import json
import os
import pathlib
import random
import tempfile
import time
import unittest

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import ack

ALICE, BOB = "user:alice", "user:bob"
# caller: (agent, scopes of its token or None)
CALLERS = {"anybody": ("planner", None), "alice": ("analyst", (ALICE,)), "bob": ("coder", (BOB,)),
           "both": ("reviewer", (ALICE, BOB)), "operator": ("@operator", None)}
TOKENS = {caller: f"{caller}-0123456789abcdef" for caller in CALLERS}
EVERYTHING = ("", ALICE, BOB)


def token_lines():
    return "".join(f"{agent} {TOKENS[caller]}{' scopes=' + ','.join(scopes) if scopes else ''}\n"
                   for caller, (agent, scopes) in CALLERS.items())


class As:
    """The API as one caller sees it."""

    def __init__(self, daemon, caller):
        self.daemon, self.caller = daemon, caller
        self.agent, self.scopes = CALLERS[caller]

    def call(self, method, path, body=None, **headers):
        return Caller(self.daemon).call(method, path, body, authorization=f"Bearer {TOKENS[self.caller]}", **headers)

    def put(self, memory, **fields):
        return self.call("PUT", f"/v1/memories/{memory}", {"content": f"content of {memory}", **fields})

    def ids(self, query=""):
        reply = self.call("GET", f"/v1/memories{query}")
        assert reply.status == 200, reply
        return sorted(item["id"] for item in reply.json()["items"])

    def envelope(self, **fields):
        agent = {"source_agent": "planner"} if self.caller == "operator" else {}
        return self.call("POST", "/v1/envelopes", {"target_agent": "receiver", "task_summary": "content of the bank",
                                                   **agent, **fields})

    def sees(self, scope):
        return self.scopes is None or scope in ("", *self.scopes)


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        folder = pathlib.Path(cls.stack.enter_context(tempfile.TemporaryDirectory(prefix="handoff-test-")))
        (folder / "tokens").write_text(token_lines())
        (folder / "tokens").chmod(0o600)
        cls.receiver = cls.stack.enter_context(Receiver(ack))
        cls.daemon = cls.stack.enter_context(daemon_with(
            {"receiver": {"url": cls.receiver.url}, "coder": {}, "analyst": {}},
            api={"tokens_file": str(folder / "tokens")}))
        cls.by = {caller: As(cls.daemon, caller) for caller in CALLERS}

    def tearDown(self):
        operator = self.by["operator"]
        for memory in operator.ids("?limit=1000"):
            self.assertEqual(operator.call("DELETE", f"/v1/memories/{memory}").status, 204)

    def assert_problem(self, reply, status, code, field=None):
        problem = reply.json()
        self.assertEqual((reply.status, problem.get("code")), (status, code), reply)
        if field:
            self.assertEqual(problem["field"], field)

    def fill(self):
        """One memory in each scope, put by the operator without an owner; all are pinned."""
        for scope in EVERYTHING:
            reply = self.by["operator"].put(self.name_in(scope), scope=scope, pinned=True)
            self.assertEqual(reply.status, 201)
            self.assertEqual(reply.json()["scope"], scope)

    @staticmethod
    def name_in(scope):
        return f"in-{scope.removeprefix('user:') or 'shared'}"


class Matrix(Case):
    def test_get_and_list(self):
        self.fill()
        for caller in self.by.values():
            visible = sorted(self.name_in(scope) for scope in EVERYTHING if caller.sees(scope))
            unknown = caller.call("GET", "/v1/memories/unknown")
            with self.subTest(caller=caller.caller):
                self.assertEqual(caller.ids(), visible)
                self.assertEqual(caller.ids("?pinned=true"), visible)
                self.assertEqual(caller.ids("?scope="), ["in-shared"])
                for scope in EVERYTHING:
                    reply = caller.call("GET", f"/v1/memories/{self.name_in(scope)}")
                    self.assertEqual(reply.status, 200 if caller.sees(scope) else 404)
                    if reply.status == 404:
                        self.assertEqual(reply.body.replace(self.name_in(scope).encode(), b"unknown"), unknown.body)

    def test_list_and_search_in_named_scopes(self):
        self.fill()
        for caller in self.by.values():
            # what is searched is what a handoff of this caller would find
            searched = ["", *(caller.scopes or ())]
            with self.subTest(caller=caller.caller):
                self.assertEqual(caller.ids("?query=content"), sorted(map(self.name_in, searched)))
                self.assertEqual(caller.ids("?recent=9"), sorted(map(self.name_in, searched)))
                for scope in (ALICE, BOB):
                    for query in ("?scope=", "?query=content&scope=", "?pinned=true&scope="):
                        if caller.sees(scope):
                            self.assertEqual(caller.ids(query + scope), sorted(["in-shared", self.name_in(scope)]))
                        else:
                            self.assert_problem(caller.call("GET", f"/v1/memories{query}{scope}"), 403, "forbidden",
                                                "scope")
        self.assert_problem(self.by["anybody"].call("GET", "/v1/memories?scope=a,,b"), 400, "invalid_request", "scope")

    def test_envelopes(self):
        self.fill()
        everything = sorted(map(self.name_in, EVERYTHING))
        for caller in self.by.values():
            for scope in (None, "", [], ALICE, [ALICE], [BOB], [BOB, ALICE]):
                asked = [scope] if isinstance(scope, str) and scope else scope or []
                fields = {} if scope is None else {"scope": scope}
                reply = caller.envelope(**fields, memory_ids=everything, include_recent=10)
                with self.subTest(caller=caller.caller, scope=scope):
                    if not all(map(caller.sees, asked)):
                        self.assert_problem(reply, 403, "forbidden", "scope")
                        continue
                    effective = sorted((caller.scopes or ()) if scope is None else asked)
                    envelope = reply.json()
                    self.assertEqual(envelope.get("scope", []), effective)
                    found = sorted(self.name_in(name) for name in ("", *effective))
                    self.assertEqual(sorted(envelope["memory_refs"]), found)
                    self.assertEqual(sorted((m["id"], m["reason"]) for m in envelope["missing"]),
                                     [(name, "not_found") for name in everything if name not in found])

    def test_put(self):
        for caller in self.by.values():
            for scope in (None, *EVERYTHING):
                fields = {} if scope is None else {"scope": scope}
                reply = caller.put("m", **fields)
                default = "" if caller.scopes is None else caller.scopes[0] if len(caller.scopes) == 1 else None
                stored = default if scope is None else scope
                with self.subTest(caller=caller.caller, scope=scope):
                    if stored is None:
                        self.assert_problem(reply, 400, "invalid_request", "scope")
                    elif caller.scopes is not None and stored not in caller.scopes:
                        self.assert_problem(reply, 403, "forbidden", "scope")
                    else:
                        self.assertEqual((reply.status, reply.json()["scope"]), (201, stored))
                        self.assertEqual(caller.call("DELETE", "/v1/memories/m").status, 204)

    def test_an_id_is_taken_and_says_no_more(self):
        self.assertEqual(self.by["alice"].put("m").status, 201)
        for caller, fields in (("bob", {}), ("bob", {"scope": BOB}), ("operator", {"scope": ""}),
                               ("anybody", {"scope": BOB}), ("both", {"scope": BOB})):
            with self.subTest(caller=caller, fields=fields):
                reply = self.by[caller].put("m", **fields)
                self.assert_problem(reply, 409, "id_taken", "id")
                self.assertNotIn("alice", reply.body.decode())
                self.assertNotIn("analyst", reply.body.decode())
        self.assert_problem(self.by["both"].put("m"), 403, "forbidden", "id")  # it sees it, and does not own it
        self.assertEqual(self.by["operator"].put("m").json()["scope"], ALICE)

    def test_a_misspelt_scope_is_not_ignored(self):
        """A memory would be shared that is not meant to be."""
        operator = self.by["operator"]
        for body in ({"content": "x", "scopes": ALICE}, {"content": "x", "scpoe": ALICE}):
            reply = operator.call("PUT", "/v1/memories/m", body, prefer="handling=lenient")
            self.assert_problem(reply, 400, "invalid_request")
        self.assertEqual(operator.ids(), [])

    def test_pin_and_delete(self):
        self.fill()
        self.assertEqual(self.by["alice"].put("own").status, 201)
        for method, path in (("PUT", "/pin"), ("DELETE", "/pin"), ("DELETE", "")):
            unknown = self.by["bob"].call(method, f"/v1/memories/unknown{path}")
            for memory in ("own", "in-alice"):
                reply = self.by["bob"].call(method, f"/v1/memories/{memory}{path}")
                self.assertEqual(reply.status, 404)
                self.assertEqual(reply.body.replace(memory.encode(), b"unknown"), unknown.body)
            self.assert_problem(self.by["bob"].call(method, f"/v1/memories/in-shared{path}"), 403, "forbidden")
            self.assert_problem(self.by["both"].call(method, f"/v1/memories/own{path}"), 403, "forbidden")
            reply = self.by["alice"].call(method, f"/v1/memories/own{path}")
            self.assertEqual(reply.status, 200 if path else 204)
            if path:
                self.assertEqual((reply.json()["scope"], reply.json()["pinned"]), (ALICE, method == "PUT"))

    def test_a_memory_comes_back_with_its_scope_agent_and_task(self):
        alice = self.by["alice"]
        self.assertEqual(alice.put("m", task_id="task-7").status, 201)
        stored = alice.call("GET", "/v1/memories/m").json()
        self.assertEqual((stored["scope"], stored["agent"], stored["task_id"]), (ALICE, "analyst", "task-7"))
        # all three stay unless told otherwise; what was read may be sent back
        self.assertEqual(self.by["operator"].put("m", summary="s").status, 200)
        self.assertEqual(alice.call("PUT", "/v1/memories/m", stored).status, 200)
        again = alice.call("PUT", "/v1/memories/m", {"content": "x", "task_id": ""}).json()
        self.assertEqual((again["scope"], again["agent"], again["task_id"]), (ALICE, "analyst", None))


class Chain(Case):
    def child(self, caller, parent, **fields):
        return self.by[caller].envelope(previous_id=parent["id"], **fields)

    def test_scopes_are_inherited_and_narrowed(self):
        self.fill()
        first = self.by["operator"].envelope(scope=[ALICE, BOB]).json()
        self.assertEqual(first["scope"], [ALICE, BOB])
        second = self.child("operator", first).json()
        self.assertEqual(second["scope"], [ALICE, BOB])
        self.assertEqual(len(second["memory_refs"]), 3)
        third = self.child("operator", second, scope=BOB).json()
        self.assertEqual((third["scope"], third["memory_refs"]), ([BOB], ["in-bob", "in-shared"]))
        fourth = self.child("operator", third, scope=[]).json()
        self.assertNotIn("scope", fourth)
        self.assertEqual(fourth["memory_refs"], ["in-shared"])

    def test_no_hop_widens(self):
        first = self.by["operator"].envelope(scope=ALICE).json()
        reply = self.child("operator", first, scope=[ALICE, BOB])
        self.assert_problem(reply, 422, "scope_widened", "scope")
        self.assertEqual((reply.json()["seen"], reply.json()["allowed"]), (BOB, ALICE))
        shared = self.by["operator"].envelope().json()
        reply = self.child("operator", shared, scope=ALICE)
        self.assert_problem(reply, 422, "scope_widened", "scope")
        self.assertEqual(reply.json()["allowed"], "only shared memories")

    def test_a_receiver_that_is_bound_asks_within_its_scopes_and_those_of_the_chain(self):
        self.fill()
        for scope, effective in (([ALICE, BOB], [BOB]), (ALICE, None), ([], None), (BOB, [BOB])):
            sent = self.by["operator"].call("POST", "/v1/handoffs", {
                "source_agent": "planner", "target_agent": "coder", "task_summary": "x", "scope": scope},
                prefer="respond-async").json()
            with self.subTest(scope=scope):
                child = self.child("bob", sent, memory_ids=["in-alice"]).json()
                self.assertEqual(child.get("scope"), effective)
                self.assertNotIn("in-alice", child["memory_refs"])

    def test_a_delivered_handoff_carries_its_scope(self):
        reply = self.by["alice"].call("POST", "/v1/handoffs", {"target_agent": "receiver", "task_summary": "x"})
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(self.receiver.requests[-1].json()["scope"], [ALICE])


class Recovery(Case):
    """A receiver whose token is bound fetches memories of its scopes, and those that its envelope names."""

    def fetch(self, caller, handoff, **what):
        reply = self.by[caller].call("POST", f"/v1/handoffs/{handoff}/memories", what)
        self.assertEqual(reply.status, 200, reply)
        return tuple(sorted(item["id"] for item in reply.json()[part]) for part in ("found", "missing"))

    def test_a_bound_receiver_fetches_no_memories_of_other_scopes(self):
        self.fill()
        for name in ("alices-other", "late"):
            self.by["operator"].put(name, scope=ALICE)
        self.assertEqual(self.by["operator"].call("DELETE", "/v1/memories/late").status, 204)
        sent = self.by["operator"].call("POST", "/v1/handoffs", {
            "source_agent": "planner", "target_agent": "coder", "task_summary": "x", "scope": [ALICE, BOB],
            "memory_ids": ["in-alice", "late"]}, prefer="respond-async").json()["id"]
        self.assertEqual(self.fetch("bob", sent, ids=["alices-other", "in-bob", "in-shared"]),
                         (["in-bob", "in-shared"], ["alices-other"]))
        self.assertEqual(self.fetch("bob", sent, ids=["in-alice"]), (["in-alice"], []))  # the envelope names it
        self.by["operator"].put("late", scope=ALICE)
        self.assertEqual(self.fetch("bob", sent, missing=True), (["late"], []))
        self.by["operator"].put("pinned-later", scope=ALICE, pinned=True)
        self.assertNotIn("pinned-later", self.fetch("bob", sent, ids=["*pinned"])[0])
        self.assertIn("alices-other", self.fetch("operator", sent, ids=["alices-other"])[0])

    def test_a_flagged_gap_shows_nothing_of_other_scopes(self):
        """A receiver flags what it likes, so a gap is not given to it; the operator finds it."""
        sent = self.by["operator"].call("POST", "/v1/handoffs", {
            "source_agent": "planner", "target_agent": "coder", "task_summary": "x", "scope": [ALICE, BOB],
            "include_pins": False}, prefer="respond-async").json()["id"]
        for memory, fields in {"alices-other": {}, "alices-pinned": {"pinned": True}, "bobs": {}}.items():
            self.by["operator"].put(memory, scope=BOB if memory == "bobs" else ALICE, **fields)
        self.assertEqual(self.by["bob"].call("POST", f"/v1/handoffs/{sent}/gaps", {
            "missing": ["alices-other", "bobs", "*pinned"]}).status, 200)
        self.assertEqual(self.fetch("bob", sent, ids=["alices-other", "*pinned"]), ([], ["alices-other"]))
        found, missing = self.fetch("bob", sent, missing=True)
        self.assertEqual((found, missing), (["bobs"], ["alices-other"]))
        self.assertEqual(self.fetch("operator", sent, ids=["alices-other", "*pinned"])[0],
                         ["alices-other", "alices-pinned"])


class FanIn(Case):
    """A request that continues several envelopes needs them to have the same scopes."""

    TO_CODER = {"source_agent": "planner", "target_agent": "coder", "task_summary": "x"}

    def sent(self, task, *scopes):
        """Handoffs of the task to coder, one for each scope; their ids."""
        ids = []
        for scope in scopes:
            reply = self.by["operator"].call("POST", "/v1/handoffs", {
                **self.TO_CODER, "task_id": task, "new_chain": True, "scope": scope}, prefer="respond-async")
            self.assertEqual(reply.status, 202, reply)
            ids.append(reply.json()["id"])
        return ids

    def join(self, path="/v1/handoffs", **fields):
        request = {"source_agent": "coder", "target_agent": "receiver", "task_summary": "join", **fields}
        return self.by["operator"].call("POST", path, {"reason": "wait", "request": request}
                                        if path == "/v1/parked" else request, prefer="respond-async")

    def test_unequal_scopes_are_a_conflict_by_every_way(self):
        for count, scopes in enumerate(([ALICE, BOB], [ALICE, []], [[ALICE, BOB], ALICE])):
            for path in ("/v1/handoffs", "/v1/envelopes", "/v1/parked"):
                task = f"fan-{count}-{path[4:]}"
                ids = self.sent(task, *scopes)
                for fields in ({"previous_id": ids}, {"task_id": task}):
                    with self.subTest(scopes=scopes, path=path, fields=list(fields)):
                        reply = self.join(path, **fields)
                        self.assert_problem(reply, 422, "scope_conflict", "previous_id")
                        self.assertIn("of one scope", reply.json()["detail"])
                # one of them is enough
                self.assertIn(self.join(path, previous_id=ids[0]).status, (200, 202))

    def test_unequal_scopes_are_a_conflict_in_an_acknowledgement(self):
        ids = self.sent("fan-next", ALICE, BOB)
        reply = self.by["operator"].call("GET", "/v1/agents/coder/inbox?wait=5s")
        while reply.header("Handoff-Id") not in ids:  # those of other tests
            reply = self.by["operator"].call("GET", "/v1/agents/coder/inbox?wait=5s")
        held = reply.header("Handoff-Id")
        reply = self.by["operator"].call("POST", f"/v1/handoffs/{held}/ack", {"next": {
            "target_agent": "receiver", "task_summary": "join", "previous_id": ids}})
        self.assert_problem(reply, 422, "scope_conflict", "next.previous_id")
        self.assertEqual(self.by["operator"].call("GET", f"/v1/handoffs/{held}").json()["state"], "acknowledged")

    def test_equal_scopes_are_joined_whatever_their_order(self):
        ids = self.sent("fan-equal", [ALICE, BOB], [BOB, ALICE])
        reply = self.join("/v1/envelopes", previous_id=ids)
        self.assertEqual((reply.status, reply.json()["scope"]), (200, [ALICE, BOB]), reply)


class EveryWay(Case):
    """A token is bound to its scopes by whichever call its bearer sends."""

    REQUEST = {"target_agent": "coder", "task_summary": "content of the bank"}

    def send(self, way, request, caller="alice"):
        """(reply, the envelope or None)"""
        by = self.by[caller]
        if way == "next":
            sent = self.by["operator"].call("POST", "/v1/handoffs", {
                "source_agent": "planner", "target_agent": by.agent, "task_summary": "x",
                "scope": [ALICE, BOB]}, prefer="respond-async").json()["id"]
            self.assertEqual(by.call("GET", f"/v1/agents/{by.agent}/inbox?wait=5s").status, 200)
            reply = by.call("POST", f"/v1/handoffs/{sent}/ack", {"next": request})
            task = self.by["operator"].call("GET", f"/v1/handoffs/{sent}").json()["task_id"]
            made = self.task(task)[1:] or ([] if reply.status >= 400 else self.made_by(by.agent))
        elif way == "parked":
            reply = by.call("POST", "/v1/parked", {"reason": "wait", "request": request})
            made = [reply.json()] if reply.status == 200 else []
        else:
            reply = by.call("POST", f"/v1/{way}", request, prefer="respond-async")
            made = [reply.json()] if reply.status in (200, 202) else []
        return reply, self.envelope_of(made[-1]["id"]) if made else None

    def task(self, task):
        return self.by["operator"].call("GET", f"/v1/tasks/{task}").json()["items"]

    def made_by(self, agent):
        return self.by["operator"].call("GET", f"/v1/handoffs?source={agent}&limit=1000").json()["items"]

    def envelope_of(self, envelope):
        return self.by["operator"].call("GET", f"/v1/envelopes/{envelope}").json()

    def test_no_way_leads_out(self):
        self.fill()
        for way in ("handoffs", "envelopes", "parked", "next"):
            for fields in ({"new_chain": True}, {"new_chain": True, "task_id": "elsewhere"}, {}):
                with self.subTest(way=way, fields=fields):
                    request = {**self.REQUEST, **fields}
                    reply, envelope = self.send(way, {**request, "scope": BOB})
                    self.assert_problem(reply, 403, "forbidden", "next.scope" if way == "next" else "scope")
                    self.assertIsNone(envelope)
                    reply, envelope = self.send(way, {**request, "memory_ids": ["in-bob", "in-alice"]})
                    self.assertEqual(envelope["scope"], [ALICE], reply)
                    self.assertEqual(sorted(envelope["memory_refs"]), ["in-alice", "in-shared"])

    def test_an_answer_to_a_push_begins_a_chain_with_shared_memories_only(self):
        """It shows no token."""
        self.fill()
        for fields, scope in (({}, [ALICE, BOB]), ({"scope": BOB}, [BOB]), ({"new_chain": True}, None),
                              ({"new_chain": True, "scope": BOB}, "forbidden")):
            with self.subTest(fields=fields):
                self.receiver.do(lambda got, fields=fields: got.answer(200, {"ack": got.id, "next": {
                    **self.REQUEST, "memory_ids": ["in-bob"], "include_pins": False, **fields}}))
                sent = self.by["operator"].call("POST", "/v1/handoffs", {
                    "source_agent": "planner", "target_agent": "receiver", "task_summary": "x",
                    "scope": [ALICE, BOB]})
                self.assertEqual(sent.status, 200, sent)
                task = sent.json()["task_id"]
                if scope == "forbidden":
                    reply = self.by["operator"].call("GET", f"/v1/tasks/{task}").json()
                    self.assertEqual(reply["next_refused"][0]["code"], "forbidden")
                    continue
                envelope = self.envelope_of(self.made_by("receiver")[-1]["id"])
                self.assertEqual(envelope.get("scope"), scope)
                self.assertEqual(envelope["memory_refs"], ["in-bob"] if scope else [])

    def test_an_operator_parks_in_any_task(self):
        self.by["anybody"].call("POST", "/v1/handoffs", {**self.REQUEST, "task_id": "of-planner"},
                                prefer="respond-async")
        for path, body in (("/v1/handoffs", {}), ("/v1/parked", {"reason": "wait"})):
            request = {**self.REQUEST, "source_agent": "stranger", "task_id": "of-planner"}
            reply = self.by["operator"].call("POST", path, {**body, "request": request} if body else request,
                                             prefer="respond-async")
            self.assertIn(reply.status, (200, 202), reply)


class Recent(Case):
    def test_memories_of_the_task_come_before_those_of_others(self):
        operator = self.by["operator"]
        for i in range(3):
            operator.put(f"own-{i}", content=f"the summary asks for this, {i}", task_id="task-own")
            time.sleep(0.002)  # or two of them are equally new, to the millisecond
        for i in range(40):
            operator.put(f"other-{i}", content=f"the summary asks for this, {i}",
                         **({"task_id": f"task-{i}"} if i % 2 else {}))
        envelope = operator.envelope(task_id="task-own", task_summary="the summary asks for this",
                                     include_recent=5).json()
        self.assertEqual(len(envelope["memory_refs"]), 5)
        self.assertEqual(envelope["memory_refs"][:3], ["own-2", "own-1", "own-0"])
        # a child has its parent's task
        child = operator.envelope(previous_id=envelope["id"], include_recent=3).json()
        self.assertEqual(sorted(child["memory_refs"]), ["own-0", "own-1", "own-2"])


class Leaks(Case):
    """Whatever callers do, no answer to one has a word of a memory that it does not see."""

    STEPS = 500

    def setUp(self):
        self.seed = int(os.environ.get("HANDOFF_SEED", random.randrange(1 << 32)))
        self.random = random.Random(self.seed)
        self.count = 0

    def secret(self, scope):
        self.count += 1
        return f"secret{EVERYTHING.index(scope)}x{self.count} bank"

    def some(self, *choices):
        return self.random.choice(choices)

    def memory_id(self):
        return f"m{self.random.randrange(30)}"

    def memory_step(self, caller):
        path = f"/v1/memories/{self.memory_id()}"
        scope = self.some(*EVERYTHING)

        def put():
            return caller.call("PUT", path, {"content": self.secret(scope), "summary": self.secret(scope),
                                             "tags": [self.secret(scope)], "scope": scope})
        return self.some(
            put, put, put, lambda: caller.call("PUT", f"{path}/pin"), lambda: caller.call("DELETE", f"{path}/pin"),
            lambda: caller.call("DELETE", path), lambda: caller.call("GET", path),
            lambda: caller.call("GET", "/v1/memories?limit=1000"),
            lambda: caller.call("GET", "/v1/memories?pinned=true"),
            lambda: caller.call("GET", "/v1/memories?query=bank&recent=50"),
            lambda: caller.call("GET", f"/v1/memories?query=bank&scope={scope}"),
            lambda: caller.call("GET", f"/v1/memories?scope={scope}"))()

    def envelope_step(self, caller):
        fields = {"memory_ids": [self.memory_id() for _ in range(3)], "include_recent": self.some(0, 20)}
        if self.some(True, False):
            fields["scope"] = self.some("", ALICE, BOB, [ALICE, BOB], [])
        if self.chains[caller.agent] and self.some(True, False):
            fields["previous_id"] = self.some(*self.chains[caller.agent])
        reply = caller.envelope(**fields)
        if reply.status == 200:
            self.chains[caller.agent].append(reply.json()["id"])
        return reply

    def assert_no_leak(self, caller, reply):
        body = reply.body.decode()
        for number, scope in enumerate(EVERYTHING):
            if not caller.sees(scope):
                self.assertNotIn(f"secret{number}x", body, f"seed {self.seed}: {caller.caller}")
        if reply.status == 200 and "envelope_version" in body:
            envelope = json.loads(body)
            for number, scope in enumerate(EVERYTHING):
                if scope and scope not in envelope.get("scope", []):
                    self.assertNotIn(f"secret{number}x", body, f"seed {self.seed}: {caller.caller}")

    def test_random_calls(self):
        self.chains = {agent: [] for agent, _ in CALLERS.values()}
        stored = 0
        for _ in range(self.STEPS):
            caller = self.by[self.some(*CALLERS)]
            reply = self.some(self.memory_step, self.memory_step, self.envelope_step)(caller)
            self.assertLess(reply.status, 500, f"seed {self.seed}: {reply}")
            self.assert_no_leak(caller, reply)
            stored += reply.status == 201
        self.assertGreater(stored, 10, f"seed {self.seed}: hardly a memory was stored")


if __name__ == "__main__":
    unittest.main()
