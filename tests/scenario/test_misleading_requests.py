# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Requests that would be taken for something else: each is refused, and the answer says what was meant."""

import unittest

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import status
from harness.slips import slips

ASK = {"source_agent": "analyst", "task_summary": "x", "intent": "y"}


def named_inputs(document):
    """(method, path, name, query or body, all names there) of every field and parameter that a call takes."""
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            query = [one["name"] for one in call.get("parameters", []) if one["in"] == "query"]
            schema = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            schema = schema.get("oneOf", [schema])[0]
            if "$ref" in schema:
                schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
            body = list(schema.get("properties", {}))
            filled = path.replace("{name}", "reviewer").replace("{channel}", "news").replace("{task_id}", "t")
            filled = filled.replace("{id}", "01890a5d-ac96-774b-bcce-b302099a8057")
            for place, names in (("query", query), ("body", body)):
                for name in names:
                    yield method.upper(), filled, name, place, names


class Misleading(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        coder = cls.enterClassContext(Receiver(status(503)))
        cls.daemon = cls.enterClassContext(daemon_with({
            "coder": {"url": coder.url, "retries": 0, "breaker": {"failures": 1, "cooldown": "1h"}},
            "reviewer": {}}))
        cls.caller = Caller(cls.daemon)

    def call(self, method, path, body=None, **headers):
        return self.caller.call(method, path, body, **headers)

    def refused(self, reply, status_code, code, **members):
        self.assertEqual((reply.status, reply.json().get("code")), (status_code, code), reply.text)
        for name, value in members.items():
            self.assertEqual(reply.json().get(name), value, name)
        return reply.json()

    def park(self, reason):
        reply = self.call("POST", "/v1/parked", {"request": {**ASK, "target_agent": "reviewer"}, "reason": reason})
        self.assertEqual(reply.status, 200, reply.text)

    # ---- what is misspelt

    def test_misspelt_limits(self):
        for name, meant in (("max_token", "max_tokens"), ("maxTokens", "max_tokens"), ("dead_line", "deadline"),
                            ("deadlines", "deadline")):
            reply = self.call("POST", "/v1/envelopes", {**ASK, "target_agent": "reviewer", "constraints": {name: 5}})
            problem = self.refused(reply, 400, "invalid_request", field=f"constraints.{name}", seen=name)
            self.assertIn(meant, problem["allowed"])

    def test_one_letter_slips_of_what_open_objects_know(self):
        """Any other name is passed on; a slip would be, too, and what it says would never be looked at."""
        step = {"agent": "analyst", "action": "read"}
        for field, known, others in (
                ("state", ("progress", "decisions", "unresolved", "remaining", "resolved"), {"mood": 1, "done": []}),
                ("expected_output", ("format", "length", "criteria"), {"audience": "payments"}),
                ("constraints", ("max_tokens", "deadline", "must_not", "guardrails"), {"headline": "short", "max_cost": 1})):
            ask = {**ASK, "target_agent": "reviewer"}
            self.assertEqual(self.call("POST", "/v1/envelopes", {**ask, field: others}).status, 200, field)
            for name in known:
                for slip in slips(name):
                    reply = self.call("POST", "/v1/envelopes", {**ask, field: {slip: []}})
                    problem = self.refused(reply, 400, "invalid_request", field=f"{field}.{slip}", seen=slip)
                    self.assertIn(name, problem["allowed"], slip)
        for slip in slips("memory_id"):
            reply = self.call("POST", "/v1/envelopes", {**ASK, "target_agent": "reviewer",
                                                        "execution_history": [step, {**step, slip: "m"}]})
            self.refused(reply, 400, "invalid_request", field=f"execution_history[1].{slip}", seen=slip,
                         allowed="memory_id (the nearest name)")

    def test_one_letter_slips_of_all_fields_and_parameters(self):
        """Of every call, as docs/openapi.json has them; each is refused with the nearest name."""
        tried = 0
        for method, path, name, place, known in named_inputs(self.daemon.api.get("/v1/openapi.json").json()):
            for slip in slips(name):
                if slip in known:
                    continue
                tried += 1
                query, body = (f"?{slip}=1", None) if place == "query" else ("", {slip: 1})
                problem = self.refused(self.call(method, path + query, body), 400, "invalid_request", field=slip, seen=slip)
                self.assertTrue(problem["allowed"].endswith("(the nearest name)"), (path, slip, problem))
        self.assertGreater(tried, 500)

    def test_a_key_that_comes_twice_in_any_body(self):
        tried = 0
        for method, path, name, place, _ in named_inputs(self.daemon.api.get("/v1/openapi.json").json()):
            if place == "body":
                with self.subTest(path=path, name=name):
                    reply = self.call(method, path, f'{{"{name}": "a", "{name}": "b"}}')
                    self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"), reply.text)
                    self.assertRegex(reply.json()["detail"], "key given twice|duplicate key")
                    tried += 1
        self.assertGreater(tried, 50)

    def test_a_deadline_in_the_past(self):
        past = "2020-01-01T00:00:00Z"
        reply = self.call("POST", "/v1/handoffs", {**ASK, "target_agent": "reviewer", "constraints": {"deadline": past}})
        self.refused(reply, 422, "deadline_passed", field="constraints.deadline", seen=past)

    def test_unknown_parameters(self):
        reply = self.call("GET", "/v1/parked?targt=coder")
        self.refused(reply, 400, "invalid_request", field="targt", seen="targt", allowed="target (the nearest name)")

    def test_agents_that_do_not_exist(self):
        near = {"seen": "codr", "allowed": "coder (the nearest name)"}
        for method, path, body, field in (
                ("POST", "/v1/handoffs", {**ASK, "target_agent": "codr"}, "target_agent"),
                ("GET", "/v1/agents/codr/inbox", None, "name"),
                ("POST", "/v1/agents/codr/reset", {}, "name"),
                ("GET", "/v1/parked?target=codr", None, "target"),
                ("GET", "/v1/handoffs?target=codr", None, "target"),
                ("POST", "/v1/jobs", {"action": "replay", "filter": {"target": "codr"}}, "target"),
                ("POST", "/v1/jobs", {"action": "replay", "to": "codr"}, "to")):
            with self.subTest(path, field=field):
                self.refused(self.call(method, path, body), 404, "unknown_agent", field=field, **near)
        problem = self.refused(self.call("GET", "/v1/parked?target=somebody-else"), 404, "unknown_agent")
        self.assertNotIn("allowed", problem)

    def test_slips_in_filters_of_sources_and_reasons(self):
        """An empty list would say that there is nothing; what is not near anything known is one."""
        self.caller.send_async("reviewer", source_agent="orchestrator", task_id="of-the-orchestrator")
        self.park("a look at the invoice")
        for path in ("/v1/parked", "/v1/parked/groups", "/v1/handoffs"):
            for slip, name in (("orchestratr", "orchestrator"), ("Analyst", "analyst"), ("revewer", "reviewer")):
                self.refused(self.call("GET", f"{path}?source={slip}"), 404, "unknown_agent", field="source", seen=slip,
                             allowed=f"{name} (the nearest name)")
            for other in ("orchestrator", "billing", "reviewer"):
                self.assertEqual(self.call("GET", f"{path}?source={other}").status, 200, other)
        for path in ("/v1/parked", "/v1/parked/groups"):
            self.refused(self.call("GET", f"{path}?target=codr"), 404, "unknown_agent", field="target", seen="codr")
            for name in ("exhausted", "refused", "rejected", "circuit_open", "hop_limit"):
                for slip in slips(name):
                    self.refused(self.call("GET", f"{path}?reason={slip}"), 400, "invalid_request", field="reason", seen=slip,
                                 allowed=f"{name} (the nearest name)")
            for reason in ("a+look+at+the+invoice", "hop_limit", "no+such+words"):
                self.assertEqual(self.call("GET", f"{path}?reason={reason}").status, 200, reason)

    def test_slips_in_the_filters_of_decisions(self):
        self.park("for the lawyers")
        for field, slip, status_code, code, name in (("reason", "exhuasted", 400, "invalid_request", "exhausted"),
                                                     ("source", "analist", 404, "unknown_agent", "analyst"),
                                                     ("target", "codr", 404, "unknown_agent", "coder")):
            for dry_run in (True, False):
                job = {"action": "discard", "reason": "old", "filter": {field: slip}, "dry_run": dry_run}
                self.refused(self.call("POST", "/v1/jobs", job), status_code, code, field=field, seen=slip,
                             allowed=f"{name} (the nearest name)")
        self.refused(self.call("GET", "/v1/decisions?target=codr"), 404, "unknown_agent", field="target", seen="codr")

    # ---- what is meant for another

    def test_a_broadcast_to_one_agent(self):
        reply = self.call("POST", "/v1/handoffs", {**ASK, "target_agent": "reviewer", "pattern": "broadcast"})
        self.refused(reply, 400, "invalid_request", field="pattern", seen="broadcast")

    def test_the_inbox_of_an_agent_that_is_sent_its_handoffs(self):
        self.refused(self.call("GET", "/v1/agents/coder/inbox"), 400, "invalid_request", field="name", seen="coder")

    def test_each_listener_names_the_other(self):
        web, api = self.daemon.web, self.daemon.api
        for here, method, path, there in ((api, "GET", "/metrics", web), (api, "GET", "/-/healthy", web),
                                          (api, "POST", "/-/reload", web), (api, "GET", "/", web),
                                          (web, "POST", "/v1/handoffs", api), (web, "GET", "/v1/handoffs/none", api)):
            with self.subTest(path):
                reply = here.request(method, path, b"{}" if method == "POST" else None)
                self.refused(reply, 404, "not_found", field="path", seen=path, allowed=there.address)
        self.assertEqual(api.get("/v2/handoffs").json()["detail"], "no such path")

    def test_a_body_where_none_is_read(self):
        """What it says would be ignored; an empty object says nothing."""
        some = "01890a5d-ac96-774b-bcce-b302099a8057"
        for path in (f"/v1/envelopes/{some}/deliver", "/v1/tasks/t/complete", "/v1/agents/coder/reset",
                     f"/v1/jobs/{some}/continue"):
            with self.subTest(path):
                reply = self.call("POST", path, {"target_agent": "reviewer"})
                problem = self.refused(reply, 400, "invalid_request", field="target_agent", seen="target_agent", allowed="none")
                self.assertIn("unknown field", problem["detail"])
                self.refused(self.call("POST", path, "target=reviewer"), 400, "invalid_json", field="body")
                for nothing in ("", {}):
                    self.assertNotEqual(self.call("POST", path, nothing).status, 400)

    # ---- what is not JSON

    def test_an_empty_body(self):
        problem = self.refused(self.call("POST", "/v1/handoffs", ""), 400, "invalid_json", field="body")
        self.assertIn("empty", problem["detail"])

    def test_a_form(self):
        form = "application/x-www-form-urlencoded"
        for path in ("/v1/handoffs", "/v1/jobs"):
            for kind, body in ((form, "source_agent=analyst&target_agent=reviewer"),
                               ("multipart/form-data; boundary=b", "--b\r\n\r\n{}\r\n--b--\r\n")):
                with self.subTest(path, kind=kind):
                    reply = self.call("POST", path, body, **{"Content-Type": kind})
                    self.refused(reply, 415, "unsupported_media_type", field="Content-Type", seen=kind)
        # what curl sends with -d, whatever is in it
        reply = self.call("POST", "/v1/envelopes", {**ASK, "target_agent": "reviewer"}, **{"Content-Type": form})
        self.assertEqual(reply.status, 200, reply.text)

    # ---- when to come back

    def test_the_body_says_when_to_try_again(self):
        self.assertEqual(self.caller.send("coder").status, 502)
        reply = self.caller.send("coder")
        problem = self.refused(reply, 503, "circuit_open")
        self.assertEqual(problem["retry_after_seconds"], int(reply.header("Retry-After")))
        self.assertGreater(problem["retry_after_seconds"], 3000)
        self.assertNotIn("retry_after_seconds", self.caller.call("GET", "/v1/handoffs/none").json())


if __name__ == "__main__":
    unittest.main()
