# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Envelopes and memories over the agent API, with the real daemon."""

import hashlib
import json
import os
import pathlib
import unittest

import jsonschema
from harness import Daemon
from harness.daemon import refused

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
CONFIG = """
agents:
  coder:
    token_budget: 3000
  old:
    accepts: ["1", "2"]
    emit: dual
hops: {max: 4}
"""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def schema(name):
    text = (TOP / "docs" / "schema" / name).read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


V2, V1 = schema("envelope-2.1.schema.json"), schema("envelope-1.schema.json")


def request(**fields):
    return {"source_agent": "analyst", "target_agent": "coder",
            "task_summary": "Write the retry logic for payments", **fields}


def digest(envelope):
    """As the contract has it, by another program: over the compact JSON without the digest."""
    rest = {name: value for name, value in envelope.items() if name != "digest"}
    text = json.dumps(rest, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


class Served(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(config=CONFIG)
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)
        cls.api = cls.daemon.api

    def put(self, name, **fields):
        reply = self.api.request("PUT", f"/v1/memories/{name}", body=json.dumps(fields))
        self.assertIn(reply.status, (200, 201), reply)
        return reply

    def assemble(self, status=200, **fields):
        reply = self.api.post("/v1/envelopes", body=json.dumps(request(**fields)))
        self.assertEqual(reply.status, status, reply.text)
        return reply

    def envelope(self, **fields):
        envelope = self.assemble(**fields).json()
        V2.validate(envelope)
        self.assertEqual(envelope["digest"], digest(envelope))
        gone = len(envelope["missing"]) + envelope.get("omitted", {}).get("references", 0)
        if "omitted" in envelope:
            self.assertEqual(envelope["omitted"]["more"], f"/v1/envelopes/{envelope['id']}/ledger")
        self.assertEqual(envelope["completeness"]["requested"],
                         envelope["completeness"]["included"] + gone)
        self.assertLessEqual(envelope["tokens"]["count"], envelope["tokens"]["budget"])
        return envelope

    def problem(self, reply, status, code, **members):
        self.assertEqual(reply.status, status, reply.text)
        self.assertEqual(reply.header("Content-Type"), "application/problem+json")
        problem = reply.json()
        self.assertEqual(problem["code"], code)
        self.assertEqual({name: problem.get(name) for name in members}, members)
        return problem


class Envelopes(Served):
    def test_assembled_stored_and_served_byte_for_byte(self):
        self.put("byte-1", content="The gateway answers 503 – ünïcödé, \"quotes\" and\nlines.")
        reply = self.assemble(memory_ids=["byte-1"])
        self.assertEqual(reply.header("Content-Type"),
                         "application/vnd.handoff.envelope+json; version=2.0")
        name = reply.json()["id"]
        again = self.api.get(f"/v1/handoffs/{name}/envelope")
        self.assertEqual(again.body, reply.body)
        self.assertEqual(again.header("Content-Type"), reply.header("Content-Type"))

    def test_all_components(self):
        self.put("all-1", content="Retry only idempotent calls.", importance="high",
                 tags=["payments"])
        envelope = self.envelope(
            intent="Make payments survive", task_id="task-7", memory_ids=["all-1", "gone"],
            include_pins=False, state={"progress": "half", "unresolved": ["who alerts?"]},
            constraints={"security": "no plaintext credentials", "max_tokens": 2000},
            execution_history=[{"agent": "analyst", "action": "looked", "memory_id": "all-1"}],
            expected_output={"format": "patch", "criteria": ["tests pass"]})
        context = envelope["context"]
        self.assertEqual(context["task"], {
            "intent": "Make payments survive", "summary": "Write the retry logic for payments",
            "state": {"progress": "half", "unresolved": ["who alerts?"]}})
        self.assertEqual([m["id"] for m in context["memories"]], ["all-1"])
        self.assertEqual(context["memories"][0]["priority"], "high")
        self.assertEqual(context["history"],
                         [{"agent": "analyst", "action": "looked", "memory_id": "all-1"}])
        self.assertEqual(context["constraints"],
                         {"security": "no plaintext credentials", "max_tokens": 2000})
        self.assertEqual(context["expected_output"],
                         {"format": "patch", "criteria": ["tests pass"]})
        self.assertEqual(envelope["missing"], [{"id": "gone", "reason": "not_found", "since_hop": 1}])
        self.assertEqual(envelope["completeness"], {"requested": 2, "included": 1, "ratio": 0.5})
        self.assertEqual(envelope["tokens"]["budget"], 2000)
        self.assertEqual(envelope["hop"], {"count": 1, "max": 4, "path": []})
        self.assertIsNone(envelope["previous"])

    def test_a_chain_keeps_intent_constraints_history_and_path(self):
        envelope = self.envelope(intent="The user's words", constraints={"style": "plain"},
                                 execution_history=[{"agent": "a", "action": "one"}])
        for hop in range(2, 5):
            child = self.envelope(source_agent=f"agent-{hop}", previous_id=envelope["id"],
                                  intent="something else",
                                  constraints={f"from-{hop}": hop},
                                  execution_history=[{"agent": "a", "action": f"step {hop}"}])
            self.assertEqual(child["previous"],
                             {"id": envelope["id"], "digest": envelope["digest"]})
            self.assertEqual(child["parents"], [child["previous"]])
            self.assertEqual(child["context"]["task"]["intent"], "The user's words")
            self.assertEqual(child["task_id"], envelope["task_id"])
            self.assertEqual(child["trace"], envelope["trace"])
            self.assertEqual(child["hop"]["count"], hop)
            self.assertEqual(child["hop"]["path"],
                             envelope["hop"]["path"] + [envelope["source_agent"]])
            self.assertEqual(child["context"]["constraints"],
                             {**envelope["context"]["constraints"], f"from-{hop}": hop})
            self.assertEqual([step["action"].split(":")[0] for step in child["context"]["history"]],
                             ["one"] + [action for later in range(2, hop + 1)
                                        for action in ("handed to " + envelope["target_agent"], f"step {later}")])
            envelope = child
        self.problem(self.assemble(422, previous_id=envelope["id"]), 422, "hop_limit")

    def test_loosening_is_refused_with_the_names(self):
        parent = self.envelope(constraints={"max_tokens": 2000, "max_cost": 5, "style": "plain", "do_not": ["x"]})
        self.problem(
            self.assemble(422, previous_id=parent["id"],
                          constraints={"max_cost": 6, "style": None}),
            422, "constraint_loosened", field="constraints", seen="max_cost, style",
            allowed="max_cost 5 of hop 1 (analyst), or tighter")
        tight = self.envelope(previous_id=parent["id"],
                              constraints={"max_tokens": 1000, "do_not": ["y"]})
        self.assertEqual(tight["context"]["constraints"],
                         {"max_tokens": 1000, "max_cost": 5, "style": "plain", "do_not": ["x", "y"]})
        self.assertEqual(tight["tokens"]["budget"], 1000)
        wide = self.envelope(previous_id=tight["id"], constraints={"max_tokens": 2500})
        self.assertEqual(wide["tokens"]["budget"], 2500)

    def test_budgets(self):
        for i in range(8):
            self.put(f"budget-{i}", content="word " * 400, summary=f"words number {i}")
        ids = [f"budget-{i}" for i in range(8)]
        envelope = self.envelope(memory_ids=ids, include_pins=False,
                                 constraints={"max_tokens": 1500})
        full = [m for m in envelope["context"]["memories"] if "content" in m]
        short = [m for m in envelope["context"]["memories"] if "summary" in m]
        self.assertTrue(full and short, envelope["context"])
        self.assertEqual(len(full) + len(short) + len(envelope["context"].get("references", [])), 8)
        self.assertEqual(envelope["completeness"], {"requested": 8, "included": 8, "ratio": 1})
        self.assertEqual(envelope["trimmed"], [])
        lazy = self.envelope(memory_ids=ids, strategy="lazy", include_pins=False)
        self.assertEqual(len(lazy["context"]["memories"]), 8)
        self.assertFalse(any("content" in m or "summary" in m for m in lazy["context"]["memories"]))
        brief = self.envelope(memory_ids=ids, strategy="summary", include_pins=False)
        self.assertTrue(all("summary" in m for m in brief["context"]["memories"]))
        problem = self.problem(
            self.assemble(422, memory_ids=ids, strategy="full", include_pins=False,
                          constraints={"max_tokens": 1500}),
            422, "budget_too_small", field="constraints.max_tokens", seen="1500")
        self.assertGreater(problem["needed"], 3000)
        problem = self.problem(self.assemble(422, constraints={"max_tokens": 20}), 422,
                               "budget_too_small")
        self.envelope(constraints={"max_tokens": problem["needed"]})

    def test_a_giant_pin_goes_by_its_id(self):
        with Daemon(config=CONFIG) as daemon:
            daemon.api.request("PUT", "/v1/memories/giant", body=json.dumps({"content": "word " * 10000,
                                                                             "pinned": True}))
            for strategy in "priority", "summary", "lazy":
                reply = daemon.api.post("/v1/envelopes", body=json.dumps(request(strategy=strategy)))
                self.assertEqual(reply.status, 200, reply.text)
                context = reply.json()["context"]
                self.assertEqual(context["references"] if strategy == "priority" else
                                 [memory["id"] for memory in context["memories"]], ["giant"])
                self.assertNotIn("word", json.dumps(context))
                self.assertEqual(reply.json()["completeness"]["ratio"], 1)
            self.assertEqual(daemon.api.post("/v1/envelopes", body=json.dumps(
                request(strategy="full"))).json()["code"], "budget_too_small")

    def test_a_giant_member_of_the_state_rejects_nothing(self):
        parent = self.envelope(state={"progress": "went on " * 4000, "phase": 2, "decisions": ["d"]},
                               target_agent="old", include_pins=False)
        child = self.envelope(previous_id=parent["id"], source_agent="old", constraints={"max_tokens": 800},
                              include_pins=False)
        self.assertEqual(child["context"]["task"]["state"], {"phase": 2, "decisions": ["d"]})
        self.assertEqual(child["omitted"]["state"], 1)

    def test_what_had_no_room_is_counted_in_every_form(self):
        entries = [f"decision number {i}: " + "because of reasons " * 10 for i in range(200)]
        steps = [{"agent": "analyst", "action": f"step {i} " + "went on " * 20} for i in range(200)]
        self.put("omitted-1", content="c")
        envelope = self.envelope(target_agent="old", include_pins=False, memory_ids=["omitted-1", "gone"],
                                 state={"decisions": entries, "unresolved": entries}, execution_history=steps,
                                 constraints={"max_tokens": 3000})
        omitted = dict(envelope["omitted"])
        state, history = envelope["context"]["task"]["state"], envelope["context"]["history"]
        self.assertEqual(state["decisions"], entries[omitted["decisions"]:])
        self.assertEqual(state["unresolved"], entries[omitted["unresolved"]:])
        self.assertEqual(history, steps[omitted["steps"]:])
        self.assertEqual(envelope["history_trimmed"], omitted["steps"])
        path = f"/v1/handoffs/{envelope['id']}/envelope"
        old = self.api.get(path, accept="application/vnd.handoff.envelope+json; version=1").json()
        self.assertEqual((old["omitted"], old["missing"]), (envelope["omitted"], envelope["missing"]))
        V1.validate(old)
        brief = self.api.get(path, accept="text/markdown").text
        self.assertIn(f"left out to fit the token budget: {omitted['decisions']} decisions, ", brief)
        self.assertIn(omitted["more"].replace("_", "\\_"), brief)
        self.assertIn("gone: missing since hop 1, not\\_found", brief)

    def test_the_callers_trace_goes_on(self):
        body = json.dumps(request())
        reply = self.api.post("/v1/envelopes", body=body, traceparent=TRACE, tracestate="a=1")
        self.assertEqual(reply.json()["trace"], {"traceparent": TRACE, "tracestate": "a=1"})
        reply = self.api.post("/v1/envelopes", body=body, traceparent="nonsense", tracestate="a=1")
        self.assertEqual(set(reply.json()["trace"]), {"traceparent"})
        V2.validate(reply.json())

    def test_forms(self):
        name = self.envelope(intent="The *user's* words")["id"]
        path = f"/v1/handoffs/{name}/envelope"
        brief = self.api.get(path, accept="text/markdown, application/json;q=0.5")
        self.assertEqual(brief.header("Content-Type"), "text/markdown; charset=utf-8")
        self.assertTrue(brief.text.startswith("# Handoff from analyst to coder\n"))
        self.assertIn("```text\nThe *user's* words\n```", brief.text)
        self.assertEqual(
            self.api.post("/v1/envelopes", body=json.dumps(request()),
                          accept="text/markdown").text.splitlines()[0],
            "# Handoff from analyst to coder")
        old = self.api.get(path, accept="application/vnd.handoff.envelope+json; version=1")
        self.assertEqual(old.header("Content-Type"),
                         "application/vnd.handoff.envelope+json; version=1")
        V1.validate(old.json())
        for accept in "*/*", "application/json", "text/markdown;q=0, */*", "image/png":
            V2.validate(self.api.get(path, accept=accept).json())

    def test_what_is_nested_as_deep_as_it_may_be_can_be_read_again(self):
        deep = lambda levels: json.loads("[" * levels + "]" * levels)
        parent = self.envelope(state={"progress": deep(62)}, constraints={"q": deep(62)},
                               expected_output={"format": deep(62)})
        child = self.envelope(previous_id=parent["id"], state={"progress": deep(62)})
        self.assertEqual(child["context"]["constraints"], {"q": deep(62)})
        path = f"/v1/handoffs/{child['id']}/envelope"
        for accept in "text/markdown", "application/vnd.handoff.envelope+json; version=1":
            self.assertEqual(self.api.get(path, accept=accept).status, 200, accept)
        self.problem(self.assemble(400, state={"progress": deep(63)}), 400, "invalid_json")

    def test_a_long_number_is_told_as_far_as_it_fits(self):
        reply = self.assemble(400, include_recent=int("1" * 256))
        self.problem(reply, 400, "invalid_request", field="include_recent")
        self.assertEqual(set(reply.json()["seen"]), {"1"})

    def test_dual_is_valid_as_either(self):
        envelope = self.envelope(target_agent="old")
        V1.validate(envelope)
        self.assertEqual(envelope["from"], "analyst")

    def test_refusals(self):
        post = lambda body: self.api.post("/v1/envelopes", body=body)
        self.problem(post(b"{"), 400, "invalid_json", field="body")
        self.problem(post(b""), 400, "invalid_json", field="body")
        self.problem(post(json.dumps(request(constrants={}))), 400, "invalid_request",
                     field="constrants", allowed="constraints (the nearest name)")
        self.problem(post(json.dumps(request(task_id=7))), 400, "invalid_request",
                     field="task_id", seen="7", allowed="a string")
        self.problem(post(json.dumps(request(memory_ids=["a", "b c"]))), 400, "invalid_request",
                     field="memory_ids[1]")
        self.problem(post(json.dumps(request(raw_log=True))), 422, "raw_log", field="raw_log")
        missing = "0190aaaa-0000-7000-8000-000000000001"
        self.problem(post(json.dumps(request(previous_id=missing))), 404, "not_found",
                     field="previous_id")
        for name in missing, "nonsense", "%00":
            reply = self.api.get(f"/v1/handoffs/{name}/envelope")
            self.assertIn(reply.status, (400, 404), name)
        self.assertEqual(self.api.get("/v1/envelopes").status, 405)
        self.assertEqual(post(b" " * (5 << 20)).status, 413)

    def test_metrics(self):
        with Daemon(config=CONFIG) as daemon:
            daemon.api.request("POST", "/v1/handoffs", json.dumps(request()),
                               {"prefer": "respond-async"})
            daemon.api.request("PUT", "/v1/memories/m", body='{"content": "c"}')
            daemon.api.get("/v1/memories/none")
            daemon.api.get("/v1/memories/not%20fine")
            lines = daemon.web.get("/metrics").text.splitlines()
            for stage in "resolve", "trim", "encode", "persist":
                self.assertIn(f'handoff_stage_duration_seconds_count{{stage="{stage}"}} 1', lines)
            spine = "handoff_spine_request_duration_seconds_count"
            self.assertIn(f'{spine}{{operation="put",outcome="ok"}} 1', lines)
            self.assertIn(f'{spine}{{operation="resolve",outcome="ok"}} 1', lines)
            self.assertIn(f'{spine}{{operation="get",outcome="ok"}} 1', lines)
            # the id that cannot be one was refused before the spine was asked
            self.assertIn(f'{spine}{{operation="get",outcome="refused"}} 0', lines)
            self.assertIn(f'{spine}{{operation="get",outcome="failed"}} 0', lines)
            self.assertIn("handoff_spine_up 1", lines)
            self.assertIn("handoff_store_commit_failures_total 0", lines)
            values = {line.split()[0]: float(line.split()[1]) for line in lines if line[0] != "#"}
            self.assertGreater(values["handoff_store_bytes"], 0)
            self.assertGreaterEqual(values["handoff_store_commit_duration_seconds_count"], 2)
            self.assertIn(values["handoff_tokenizer_exact"], (0, 1))


class Memories(Served):
    def test_put_get_pin_delete(self):
        reply = self.put("one", content="c", summary="s", importance="critical", tags=["t"],
                         metadata={"n": 1.5})
        self.assertEqual(reply.status, 201)
        memory = reply.json()
        self.assertEqual({name: memory[name] for name in ("id", "content", "summary", "importance",
                                                          "tags", "metadata", "pinned")},
                         {"id": "one", "content": "c", "summary": "s", "importance": "critical",
                          "tags": ["t"], "metadata": {"n": 1.5}, "pinned": False})
        self.assertEqual(self.api.get("/v1/memories/one").json(), memory)
        self.assertEqual(self.put("one", content="d").status, 200)
        pinned = self.api.request("PUT", "/v1/memories/one/pin")
        self.assertTrue(pinned.json()["pinned"])
        self.assertIn("one", self.envelope()["memory_refs"])
        self.assertFalse(self.api.request("DELETE", "/v1/memories/one/pin").json()["pinned"])
        deleted = self.api.request("DELETE", "/v1/memories/one")
        self.assertEqual((deleted.status, deleted.body), (204, b""))
        for method, path in (("GET", "one"), ("DELETE", "one"), ("PUT", "one/pin"),
                             ("DELETE", "one/pin")):
            self.problem(self.api.request(method, f"/v1/memories/{path}"), 404, "not_found")

    def test_lists(self):
        with Daemon() as daemon:
            for i in range(25):
                daemon.api.request("PUT", f"/v1/memories/m{i}", body=json.dumps(
                    {"content": f"note {i} about " + ("payments" if i == 7 else "weather"),
                     "pinned": i == 3}))
            seen, cursor = [], ""
            while cursor is not None:
                page = daemon.api.get(f"/v1/memories?limit=10&cursor={cursor}".rstrip("=")
                                      .removesuffix("&cursor")).json()
                seen += [memory["id"] for memory in page["items"]]
                cursor = page["next"]
            self.assertEqual(sorted(seen), sorted(f"m{i}" for i in range(25)))
            best = daemon.api.get("/v1/memories?query=Payment%20retry&recent=3").json()
            self.assertEqual([memory["id"] for memory in best["items"]], ["m7"])
            self.assertEqual(best["items"][0]["match"],
                             {"score": 1, "relevance": 1, "words": ["Payment"], "similar": 0,
                              "snippet": ["note 7 about ", "payments", ""]})
            self.assertIsNone(best["next"])
            found, cursor = [], ""
            while cursor is not None:
                page = daemon.api.get(f"/v1/memories?query=weather&limit=10{cursor}").json()
                found += [memory["id"] for memory in page["items"]]
                cursor = page["next"] and f"&cursor={page['next']}"
            self.assertEqual(sorted(found), sorted(f"m{i}" for i in range(25) if i != 7))
            self.assertEqual(daemon.api.get("/v1/memories?query=zebra").json()["items"], [])
            pinned = daemon.api.get("/v1/memories?pinned=true").json()
            self.assertEqual([memory["id"] for memory in pinned["items"]], ["m3"])

    def test_refusals(self):
        for query, field in (("recent=x", "recent"), ("recent=0", "recent"), ("limit=-1", "limit"),
                             ("limit=1001", "limit")):
            self.problem(self.api.get(f"/v1/memories?{query}"), 400, "invalid_request", field=field)
        self.problem(self.api.get("/v1/memories?cursor=made-up"), 400, "invalid_cursor")
        put = lambda body: self.api.request("PUT", "/v1/memories/no", body=json.dumps(body))
        self.problem(put({}), 400, "invalid_request", field="content")
        self.problem(put({"content": "c", "sumary": "s"}), 400, "invalid_request",
                     allowed="summary (the nearest name)")
        self.problem(put({"content": "x" * 70000}), 413, "too_large", field="content")
        self.problem(put({"content": "c", "metadata": {"kind": "conversation"}}), 422, "raw_log")


class Life(unittest.TestCase):
    def test_what_was_stored_survives_a_kill(self):
        with Daemon() as daemon:
            reply = daemon.api.post("/v1/envelopes", body=json.dumps(request()))
            daemon.api.request("PUT", "/v1/memories/m", body='{"content": "c"}')
            daemon.kill()
            daemon.log_path.unlink()
            daemon.start()
            daemon.expected_exit = 0
            name = reply.json()["id"]
            self.assertEqual(daemon.api.get(f"/v1/handoffs/{name}/envelope").body, reply.body)
            self.assertEqual(daemon.api.get("/v1/memories/m").json()["content"], "c")

    def test_a_store_in_use_is_a_start_error(self):
        with Daemon() as daemon:
            code, log, _ = refused(folder=daemon.folder)
            self.assertEqual(code, 1)
            self.assertIn("event=start_failed", log)
            self.assertIn("storage.path", log)

    def test_agents_follow_a_reload(self):
        with Daemon(config="agents: {coder: {token_budget: 1000}}\n") as daemon:
            budget = lambda: daemon.api.post(
                "/v1/envelopes", body=json.dumps(request())).json()["tokens"]["budget"]
            self.assertEqual(budget(), 1000)
            daemon.write_config("agents: {coder: {token_budget: 2000}}\n")
            self.assertEqual(daemon.reload().status, 200)
            self.assertEqual(budget(), 2000)
            daemon.write_config("agents: {coder: {token_budget: 3000, token_file: missing}}\n")
            self.assertEqual(daemon.reload().status, 500)
            self.assertEqual(budget(), 2000)


if __name__ == "__main__":
    unittest.main()
