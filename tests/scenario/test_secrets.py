# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Credentials in what agents send: replaced by markers, or refused; nowhere on the disk, in the log or an answer."""

import contextlib
import json
import unittest

from harness.agents import Caller, config, daemon_with
from harness.receiver import Receiver, ack, nack
from harness.wait import eventually

# In pieces, so that scanners of repositories do not report them; invented, with a right checksum.
GITHUB = "gh" + "p_" + "Ky9Pf34qY6Nb3wWD25RQ4F5ZR3qa7y3gm1IL"
NPM = "np" + "m_" + "Eeeby3abP3E2Zs8IQ9Y7aJZqhB6bae2dTjzx"
AWS = "AK" + "IA" + "KOK3ZV2MWUFXBV54"
PEM = "-----BEGIN " + "PRIVATE KEY-----\n" + "MC4CAQAwBQYDK2VwBCIEIKLG3JxIyiJG21DHtOR3WRbUfj33ZyXOivikASDTyPhQ" + \
    "\n-----END " + "PRIVATE KEY-----\n"
PASSWORD = "s3cr3tPassw0rd"
URL = f"postgres://app:{PASSWORD}@db.internal/app"
ALL = [GITHUB, NPM, AWS, PEM.split("\n")[1], PASSWORD]


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.coder = self.stack.enter_context(Receiver(ack))
        self.declining = self.stack.enter_context(Receiver(nack(f"no access with {GITHUB}", False)))
        self.agents = {"coder": {"url": self.coder.url, "token_budget": 1_000_000}, "declining": {"url": self.declining.url}, "puller": {}}

    def start(self, **more):
        self.daemon = self.stack.enter_context(daemon_with(self.agents, **more))
        self.caller = Caller(self.daemon)

    def count(self, kind, where):
        for line in self.daemon.web.get("/metrics").text.splitlines():
            if line.startswith("handoff_secrets_total") and f'kind="{kind}"' in line and f'where="{where}"' in line:
                return float(line.rsplit(" ", 1)[1])
        self.fail(f"no series of {kind} in {where}")

    def wait_for_count(self, kind, where, expected):
        eventually(lambda: self.count(kind, where) == expected, f"{kind} in {where} is {expected}")

    def assert_nowhere(self, *secrets):
        """Neither in a file of the daemon's, nor in its log."""
        for secret in secrets:
            for path in self.daemon.folder.rglob("*"):
                if path.is_file():
                    self.assertNotIn(secret.encode(), path.read_bytes(), path)
            self.assertNotIn(secret, str(self.daemon.log()))

    # ---- markers ----

    def test_a_request_goes_on_with_markers(self):
        self.start()
        reply = self.caller.send(
            intent=f"Deploy with {GITHUB}.", state={"decisions": [f"use {URL}"], NPM: {"key": PEM}},
            constraints={"must_use": AWS}, execution_history=[{"agent": "ops", "action": f"rotated {AWS}"}])
        self.assertEqual(reply.status, 200, reply)
        (request,) = self.coder.requests
        context = request.json()["context"]
        self.assertEqual(context["task"]["intent"], "Deploy with [redacted: github token].")
        self.assertEqual(context["task"]["state"]["decisions"], ["use postgres://app:[redacted: url password]@db.internal/app"])
        self.assertEqual(context["task"]["state"]["[redacted: npm token]"], {"key": "[redacted: private key]\n"})
        self.assertEqual(context["constraints"]["must_use"], "[redacted: aws key]")
        self.assertEqual([(warning["field"], warning["detail"]) for warning in reply.json()["warnings"]], [
            ("intent", "github token replaced by a marker"),
            ("state", "url password replaced by a marker"),
            ("state", "npm token replaced by a marker"),
            ("state", "private key replaced by a marker"),
            ("constraints", "aws key replaced by a marker"),
            ("execution_history", "aws key replaced by a marker")])
        for secret in ALL:
            self.assertNotIn(secret.encode(), request.raw)
        self.wait_for_count("github_token", "request", 1)
        self.wait_for_count("aws_key", "request", 1)
        self.wait_for_count("aws_key", "constraint", 1)
        self.assertEqual(self.count("github_token", "constraint"), 0)
        self.assert_nowhere(*ALL)

    def test_the_digest_covers_the_markers(self):
        self.start()
        envelope = self.caller.call("POST", "/v1/envelopes", {
            "source_agent": "analyst", "target_agent": "coder", "task_summary": f"use {GITHUB}"})
        self.assertEqual(envelope.status, 200)
        self.assertIn("[redacted: github token]", envelope.text)
        self.assertIn("github token", envelope.headers["Handoff-Warnings"])
        self.assertEqual(self.daemon.api.get(f"/v1/handoffs/{envelope.json()['id']}/envelope").text, envelope.text)

    def test_a_long_request_is_searched_on_a_worker(self):
        self.start()
        reply = self.caller.send(state={"log": ["word " * 40_000, GITHUB, "word " * 40_000]})
        self.assertEqual(reply.status, 200, reply)
        self.assertNotIn(GITHUB.encode(), self.coder.requests[0].raw)
        self.assert_nowhere(GITHUB)

    def test_a_memory_is_stored_with_markers(self):
        self.start()
        reply = self.caller.call("PUT", "/v1/memories/ms-1", {
            "content": f"The token is {GITHUB}", "summary": f"{URL}", "tags": [NPM], "metadata": {AWS: PEM}})
        self.assertEqual(reply.status, 201, reply)
        memory = self.caller.call("GET", "/v1/memories/ms-1").json()
        self.assertEqual((memory["content"], memory["tags"], memory["metadata"]), (
            "The token is [redacted: github token]", ["[redacted: npm token]"],
            {"[redacted: aws key]": "[redacted: private key]\n"}))
        self.assertEqual({warning["field"] for warning in reply.json()["warnings"]},
                         {"content", "summary", "tags", "metadata"})
        self.wait_for_count("github_token", "memory", 1)
        self.assert_nowhere(*ALL)

    def test_a_long_memory_is_searched_on_a_worker(self):
        self.start()
        reply = self.caller.call("PUT", "/v1/memories/ms-1", {"content": "word " * 8_000 + GITHUB})
        self.assertEqual(reply.status, 201, reply)
        self.assertTrue(reply.json()["content"].endswith("[redacted: github token]"))
        self.assert_nowhere(GITHUB)

    def test_a_child_inherits_the_markers(self):
        self.start()
        parent = self.caller.send(constraints={"must_use": AWS}).json()["id"]
        self.assertEqual(self.caller.send(previous_id=parent, task_summary="go on").status, 200)
        self.assertEqual(self.coder.requests[1].json()["context"]["constraints"]["must_use"], "[redacted: aws key]")

    # ---- repeats ----

    def test_a_repeat_under_a_key_is_the_same_request(self):
        self.start()
        first, second = (self.caller.send(headers={"Idempotency-Key": "k-1"}, intent=f"use {GITHUB}")
                         for _ in range(2))
        self.assertEqual(first.json()["id"], second.json()["id"])
        other = self.caller.send(headers={"Idempotency-Key": "k-1"}, intent=f"use {NPM}")
        self.assertEqual((other.status, other.json()["code"]), (409, "idempotency_conflict"))
        self.assertEqual(len(self.coder.requests), 1)
        self.assert_nowhere(GITHUB, NPM)

    # ---- what cannot be replaced ----

    def test_ids_names_and_keys_are_refused(self):
        self.start()
        for fields, field in (({"task_id": GITHUB}, "task_id"), ({"memory_ids": [GITHUB]}, "memory_ids"),
                              ({"source_agent": GITHUB}, "source_agent"), ({"target_agent": GITHUB}, "target_agent"),
                              ({"channel": GITHUB, "pattern": "broadcast"}, "channel")):
            reply = self.caller.send(**({"target": GITHUB} if "target_agent" in fields else fields))
            self.assertEqual((reply.status, reply.json()["code"], reply.json()["field"]),
                             (422, "secret_in_request", field))
            self.assertNotIn(GITHUB, reply.text)
        reply = self.caller.send(headers={"Idempotency-Key": GITHUB})
        self.assertEqual((reply.status, reply.json()["code"]), (422, "secret_in_request"))
        reply = self.caller.call("PUT", f"/v1/memories/{GITHUB}", {"content": "x"})
        self.assertEqual((reply.status, reply.json()["code"]), (422, "secret_in_request"))
        self.assertEqual(self.coder.requests, [])
        self.assert_nowhere(GITHUB)

    def test_a_key_is_refused_wherever_one_is_taken(self):
        self.start()
        body = {"source_agent": "analyst", "target_agent": "coder", "task_summary": "x"}
        envelope = self.caller.call("POST", "/v1/envelopes", body).json()["id"]
        for count, (path, body) in enumerate((
                ("/v1/handoffs", body),
                (f"/v1/envelopes/{envelope}/deliver", None),
                ("/v1/parked", {"reason": "wait", "envelope_id": envelope}),
                ("/v1/parked", {"reason": "wait", "request": body})), 1):
            for key in (GITHUB, "." * 300 + GITHUB):
                reply = self.caller.call("POST", path, body, idempotency_key=key)
                self.assertEqual((reply.status, reply.json()["code"], reply.json()["field"]),
                                 (422, "secret_in_request", "Idempotency-Key"), path)
                self.assertNotIn(GITHUB, reply.text)
            self.wait_for_count("github_token", "request", 2 * count)
        self.assertEqual(self.coder.requests, [])
        self.assert_nowhere(GITHUB)

    def test_an_error_does_not_repeat_the_credential(self):
        self.start()
        for fields in ({GITHUB: 1}, {"strategy": GITHUB}, {"include_recent": GITHUB}, {"constraints": {"deadline": GITHUB}}):
            reply = self.caller.send(**fields)
            self.assertIn(reply.status, (400, 422))
            self.assertNotIn(GITHUB, reply.text)
        self.assert_nowhere(GITHUB)

    # ---- policies ----

    def test_refuse(self):
        self.start(secrets="refuse")
        reply = self.caller.send(intent=f"use {GITHUB}")
        self.assertEqual((reply.status, reply.json()["code"], reply.json()["field"]),
                         (422, "secret_in_request", "intent"))
        self.assertEqual(reply.json()["seen"], "github token")
        reply = self.caller.call("PUT", "/v1/memories/ms-1", {"content": PEM})
        self.assertEqual((reply.status, reply.json()["code"], reply.json()["field"]),
                         (422, "secret_in_request", "content"))
        self.assertEqual(self.coder.requests, [])
        self.wait_for_count("github_token", "request", 1)
        self.wait_for_count("private_key", "memory", 1)
        self.assert_nowhere(GITHUB, ALL[3])

    def test_allow_and_a_reload(self):
        self.start(secrets="allow")
        reply = self.caller.send(intent=f"use {GITHUB}")
        self.assertEqual(reply.status, 200)
        self.assertNotIn("warnings", reply.json())
        self.assertEqual(self.coder.requests[0].json()["context"]["task"]["intent"], f"use {GITHUB}")
        self.assertEqual(self.count("github_token", "request"), 0)
        self.daemon.write_config(config(self.agents))
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertIn("warnings", self.caller.send(intent=f"use {GITHUB}").json())

    # ---- reasons ----

    def test_the_reason_of_a_nack_has_a_marker(self):
        self.start()
        reply = self.caller.send("declining")
        self.assertEqual(reply.json()["code"], "refused", reply)
        (attempt,) = self.caller.attempts(reply.json()["handoff"]["id"])
        self.assertEqual(attempt["error"], "no access with [redacted: github token]")
        self.wait_for_count("github_token", "reason", 1)
        self.assert_nowhere(GITHUB)

    def test_reasons_over_the_api_have_markers(self):
        self.start(secrets="allow")  # about requests; reasons go into logs
        handoff = self.caller.send_async("puller")
        self.assertEqual(self.caller.call("GET", "/v1/agents/puller/inbox?wait=5s").status, 200)
        reply = self.caller.call("POST", f"/v1/handoffs/{handoff}/nack", {"reason": f"{URL} is down", "retry": False})
        self.assertEqual(reply.status, 200, reply)
        self.caller.wait_for_state(handoff, "parked")
        (attempt,) = self.caller.attempts(handoff)
        self.assertEqual(attempt["error"], "postgres://app:[redacted: url password]@db.internal/app is down")
        reply = self.caller.call("DELETE", f"/v1/parked/{handoff}?reason=replaced%20by%20{GITHUB}")
        self.assertEqual(reply.json()["reason"], "replaced by [redacted: github token]", reply)
        parked = self.caller.send_async("puller", task_id="task-2")
        reply = self.caller.call("POST", f"/v1/handoffs/{parked}/park", {"reason": f"{NPM} is revoked"})
        self.assertEqual(reply.json()["reason"], "[redacted: npm token] is revoked", reply)
        request = {"source_agent": "analyst", "target_agent": "coder", "task_id": "task-3", "task_summary": "Wait"}
        reply = self.caller.call("POST", "/v1/parked", {"reason": f"{NPM} is new", "request": request})
        self.assertEqual(reply.json()["reason"], "[redacted: npm token] is new", reply)
        self.wait_for_count("url_password", "reason", 1)
        self.wait_for_count("github_token", "reason", 1)
        self.wait_for_count("npm_token", "reason", 2)
        self.assert_nowhere(GITHUB, PASSWORD, NPM)

    # ---- the next request of an acknowledgement ----

    def refused_next(self, next_, over_api):
        """The handoff that was acknowledged with it, and what is kept of it."""
        target = "puller" if over_api else "coder"
        self.coder.do(lambda got: got.answer(200, {"ack": got.id, "next": next_}))
        handoff = self.caller.send_async(target, task_id=None)
        if over_api:
            self.assertEqual(self.caller.call("GET", "/v1/agents/puller/inbox?wait=5s").status, 200)
            reply = self.caller.call("POST", f"/v1/handoffs/{handoff}/ack", {"next": next_})
            self.assertGreaterEqual(reply.status, 400)
            self.assertNotIn(GITHUB, reply.text)
        self.caller.wait_for_state(handoff, "acknowledged")
        task = self.caller.call("GET", f"/v1/handoffs/{handoff}").json()["task_id"]
        (kept,) = self.caller.call("GET", f"/v1/tasks/{task}").json()["next_refused"]
        self.assertEqual(kept["id"], handoff)
        return kept

    def test_a_refused_next_is_kept_with_markers(self):
        for policy in ("redact", "refuse"):
            self.start(secrets=policy)
            for over_api in (True, False):
                for fields, code in (({"target_agent": "nobody"}, "unknown_agent"),
                                     ({"slip": {GITHUB: NPM}}, "invalid_request"),
                                     ({"memory_ids": [NPM]}, "secret_in_request")):
                    next_ = {"target_agent": "coder", "task_summary": f"use {GITHUB}", **fields}
                    with self.subTest(policy=policy, over_api=over_api, code=code):
                        kept = self.refused_next(next_, over_api)
                        self.assertEqual(kept["code"], code if policy == "redact" else "secret_in_request")
                        text = json.dumps(next_).replace(GITHUB, "[redacted: github token]")
                        self.assertEqual(json.loads(kept["request"]),
                                         json.loads(text.replace(NPM, "[redacted: npm token]")))
            self.assertGreater(self.count("github_token", "request"), 0)
            self.assert_nowhere(GITHUB, NPM)

    def test_a_long_refused_next_is_searched_on_a_worker(self):
        self.start()
        kept = self.refused_next({"target_agent": "nobody", "task_summary": "x",
                                  "state": {"log": ["word " * 40_000, GITHUB]}}, True)
        self.assertEqual(json.loads(kept["request"])["state"]["log"][1], "[redacted: github token]")
        self.assert_nowhere(GITHUB)

    def test_the_credentials_of_a_next_are_counted(self):
        self.start()
        self.coder.do(lambda got: got.answer(200, {"ack": got.id, "next": {
            "target_agent": "puller", "task_summary": f"use {GITHUB}"}}))
        self.assertEqual(self.caller.send().status, 200)
        self.wait_for_count("github_token", "request", 1)
        self.assertIn("[redacted: github token]", self.caller.call("GET", "/v1/agents/puller/inbox").text)
        self.assert_nowhere(GITHUB)

    def test_what_is_allowed_is_kept_as_it_came(self):
        self.start(secrets="allow")
        kept = self.refused_next({"target_agent": "nobody", "task_summary": f"use {GITHUB}"}, True)
        self.assertIn(GITHUB, kept["request"])

    # ---- traces ----

    def test_a_tracestate_with_a_credential_is_left_out(self):
        self.start()
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        self.assertEqual(self.caller.send(headers={"traceparent": trace, "tracestate": f"vendor={GITHUB}"}).status, 200)
        self.assertNotIn(GITHUB.encode(), self.coder.requests[0].raw)
        self.assertNotIn("tracestate", self.coder.requests[0].headers)
        self.assertIn(trace.split("-")[1], json.dumps(dict(self.coder.requests[0].headers)))


if __name__ == "__main__":
    unittest.main()
