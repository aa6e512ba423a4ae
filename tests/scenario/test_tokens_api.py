# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Bearer tokens of the agent API: authentication, permissions, and what is never shown."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import unittest

from harness import Receiver, StartFailed, environment, eventually
from harness.agents import Caller, daemon_with
from harness.daemon import Daemon, refused, replace
from harness.receiver import Hold, ack, later, status

TOKENS = {"analyst": "analyst-0123456789abcdef", "coder": "coder-0123456789abcdef0",
          "spare": "spare-0123456789abcdef0", "stranger": "stranger-0123456789abcdef",
          "@operator": "operator-0123456789abcdef"}
WRONG = "nobody-has-0123456789abcdef"
GONE = "01890a5d-ac96-774b-bcce-b302099a8057"
CHALLENGE = 'Bearer realm="handoff-exporter"'


def lines(tokens):
    return "".join(f"{name} {token}\n" for name, token in tokens.items())


def calls():
    """(method, path) of each row of the table of calls; a segment names nothing that is here."""
    table = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"], "client/calls/calls.def").read_text()
    return [(method, re.sub(r"\{\w+\}", "coder" if "/agents/" in path else GONE, path))
            for method, path in re.findall(r'\.rest = \{"([A-Z]+)", "(/v1/[^"]+)"', table)]


def bearer(token):
    return {"authorization": f"Bearer {token}"} if token else {}


class As:
    """The API as one caller sees it, with a token or without."""

    def __init__(self, daemon, token):
        self.daemon, self.headers = daemon, bearer(token)

    def call(self, method, path, body=None, **headers):
        caller = Caller(self.daemon)
        return caller.call(method, path, body, **self.headers, **headers)

    def send(self, target="coder", **fields):
        headers = {"prefer": "respond-async"} if fields.pop("respond_async", False) else {}
        return self.call("POST", "/v1/handoffs", {"target_agent": target, "task_id": "task-1",
                                                  "task_summary": "Write it", **fields}, **headers)

    def state_of(self, handoff):
        return self.call("GET", f"/v1/handoffs/{handoff}").json().get("state")

    def ids(self, path):
        return [item["id"] for item in self.call("GET", path).json()["items"]]


class Case(unittest.TestCase):
    maxDiff = None

    def start(self, agents=None, tokens=None, **more):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.tokens = pathlib.Path(self.enterContext(temporary_folder())) / "tokens"
        self.write(tokens or TOKENS)
        agents = agents or {"coder": {}, "spare": {}}
        self.daemon = self.stack.enter_context(
            daemon_with(agents, api={"tokens_file": str(self.tokens)}, **more))
        self.by = {name: As(self.daemon, token) for name, token in TOKENS.items()}
        self.by["nobody"], self.by["wrong"] = As(self.daemon, None), As(self.daemon, WRONG)

    def write(self, tokens, mode=0o600):
        replace(self.tokens, tokens if isinstance(tokens, str) else lines(tokens))
        self.tokens.chmod(mode)

    def assert_problem(self, reply, code, name, **fields):
        problem = reply.json()
        self.assertEqual((reply.status, problem.get("code")), (code, name), reply)
        self.assertEqual(reply.header("Content-Type"), "application/problem+json")
        self.assertEqual({key: problem.get(key) for key in fields}, fields)

    def assert_silent(self):
        """No token is in the log, in the store or on a command line."""
        log, data = self.daemon.log(), b"".join(
            path.read_bytes() for path in (self.daemon.folder / "data").iterdir()
            if path.is_file())
        for token in (*TOKENS.values(), WRONG):
            self.assertNotIn(token, log)
            self.assertNotIn(token.encode(), data)


@contextlib.contextmanager
def temporary_folder():
    import tempfile
    with tempfile.TemporaryDirectory(prefix="handoff-test-") as folder:
        yield folder


class RefusedNext(Case):
    """The next request of an acknowledgement is for the agent that sent it, and for operators."""

    def test_only_its_sender_and_operators_see_it(self):
        self.start()
        self.assertEqual(self.by["analyst"].send(respond_async=True).status, 202)
        handoff = self.by["coder"].call("GET", "/v1/agents/coder/inbox?wait=5s").header("Handoff-Id")
        next_ = {"target_agent": "nobody", "task_summary": "what analyst is not to read"}
        reply = self.by["coder"].call("POST", f"/v1/handoffs/{handoff}/ack", {"next": next_})
        self.assert_problem(reply, 404, "unknown_agent")
        for who, sees in (("coder", True), ("@operator", True), ("analyst", False)):
            reply = self.by[who].call("GET", "/v1/tasks/task-1")
            (refused,) = reply.json()["next_refused"]
            self.assertEqual((refused["id"], refused["code"], "request" in refused),
                             (handoff, "unknown_agent", sees), who)
            self.assertEqual("what analyst is not to read" in reply.text, sees, who)
        self.assertEqual(self.by["spare"].call("GET", "/v1/tasks/task-1").json().get("next_refused"), None)


class Strangers(Case):
    """Without a known token, every path under /v1 is 401, never 404."""

    ROUTES = [*calls(), ("HEAD", f"/v1/handoffs/{GONE}"), ("OPTIONS", "/v1/handoffs"),
              ("PATCH", "/v1/handoffs"), ("GET", "/v1/nothing"), ("GET", "/v1/%zz")]

    def test_every_route_asks_for_a_token(self):
        self.start()
        for method, path in self.ROUTES:
            for who, challenge in (("nobody", CHALLENGE),
                                   ("wrong", CHALLENGE + ', error="invalid_token"')):
                with self.subTest(method=method, path=path, who=who):
                    reply = self.by[who].call(method, path)
                    self.assertEqual((reply.status, reply.header("WWW-Authenticate")),
                                     (401, challenge))
                    if method != "HEAD":
                        self.assert_problem(reply, 401, "unauthenticated", status=401)
        reasons = {line["reason"] for line in self.daemon.events("authentication_failed")}
        self.assertEqual(reasons, {"no_token", "unknown_token"})
        self.assert_silent()

    def test_the_list_has_every_call(self):
        self.assertGreaterEqual(len(calls()), 28)
        self.assertIn(("GET", f"/v1/handoffs/{GONE}/attempts"), calls())

    def test_other_schemes_are_no_token(self):
        self.start()
        token = TOKENS["analyst"]
        for value in (token, f"Basic {token}", f"Bearer{token}", "Bearer", f"Token {token}"):
            reply = Caller(self.daemon).call("GET", "/v1/agents", authorization=value)
            self.assertEqual((reply.status, reply.header("WWW-Authenticate")), (401, CHALLENGE))
        for value in (f"bearer {token}", f"BEARER   {token}"):
            reply = Caller(self.daemon).call("GET", "/v1/agents", authorization=value)
            self.assertEqual(reply.status, 200, value)
        reply = self.by["nobody"].call("GET", f"/v1/agents?access_token={token}")
        self.assertEqual(reply.status, 401, "URLs end up in logs")

    def test_a_strangers_body_is_not_waited_for(self):
        self.start()
        with self.daemon.api.socket() as raw:
            raw.sendall(b"POST /v1/handoffs HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n"
                        b"Expect: 100-continue\r\n\r\n")
            self.assertTrue(raw.recv(100).startswith(b"HTTP/1.1 401 "))

    def test_a_page_is_refused_before_its_token_is_looked_at(self):
        self.start()
        reply = self.by["analyst"].call("GET", "/v1/agents", origin="https://evil.example")
        self.assert_problem(reply, 403, "cross_origin")

    def test_the_web_listener_has_its_own_rules(self):
        self.start()
        self.assertEqual(self.daemon.web.get("/metrics").status, 200)
        self.assertEqual(self.daemon.reload().status, 200)


class Names(Case):
    """source_agent cannot be forged."""

    def test_an_agent_sends_in_its_own_name(self):
        coder = self.enterContext(Receiver(ack))
        self.start({"coder": {"url": coder.url}})
        for fields in ({}, {"source_agent": "analyst"}, {"source_agent": None}):
            reply = self.by["analyst"].send(**fields)
            self.assertEqual((reply.status, reply.json()["source_agent"]), (200, "analyst"))
        self.assertEqual({request.json()["source_agent"] for request in coder.requests},
                         {"analyst"})

    def test_and_in_no_other(self):
        coder = self.enterContext(Receiver(ack))
        self.start({"coder": {"url": coder.url}})
        for path in ("/v1/handoffs", "/v1/envelopes"):
            reply = self.by["analyst"].call("POST", path, {
                "source_agent": "coder", "target_agent": "coder", "task_summary": "s"})
            self.assert_problem(reply, 403, "forbidden", field="source_agent", seen="coder",
                                allowed="analyst, or omit it")
        self.assertEqual(coder.requests, [])

    def test_the_operator_may_take_any_name_and_has_none(self):
        coder = self.enterContext(Receiver(ack))
        self.start({"coder": {"url": coder.url}})
        self.assertEqual(self.by["@operator"].send(source_agent="analyst").status, 200)
        self.assert_problem(self.by["@operator"].send(), 400, "invalid_request",
                            field="source_agent")

    def test_idempotency_keys_of_two_agents_are_two_keys(self):
        coder = self.enterContext(Receiver(ack))
        self.start({"coder": {"url": coder.url}})
        ids = {self.by[name].call("POST", "/v1/handoffs",
                                  {"target_agent": "coder", "task_summary": "s"},
                                  idempotency_key="run-17").json()["id"]
               for name in ("analyst", "stranger", "analyst")}
        self.assertEqual(len(ids), 2)


class Sight(Case):
    """An agent sees what it is a party to; all else is not there."""

    def park(self):
        """A handoff of analyst's that coder did not take and spare refused."""
        coder, spare = self.enterContext(Receiver(status(500))), self.enterContext(
            Receiver(status(400)))
        self.start({"coder": {"url": coder.url, "retries": 0, "alternates": ["spare"]},
                    "spare": {"url": spare.url}})
        handoff = self.by["analyst"].send().json()["handoff"]
        self.assertEqual((handoff["state"], handoff["target_agent"]), ("parked", "spare"))
        return handoff["id"]

    def test_reading_one(self):
        handoff = self.park()
        for rest in ("", "/envelope", "/attempts"):
            path = f"/v1/handoffs/{handoff}{rest}"
            for who in ("analyst", "coder", "spare", "@operator"):
                self.assertEqual(self.by[who].call("GET", path).status, 200, (who, path))
            seen = self.by["stranger"].call("GET", path)
            gone = self.by["stranger"].call("GET", f"/v1/handoffs/{GONE}{rest}")
            self.assert_problem(seen, 404, "not_found")
            self.assertEqual(seen.text.replace(handoff, GONE), gone.text, "they read the same")

    def test_lists(self):
        handoff = self.park()
        for path in ("/v1/parked", "/v1/tasks/task-1"):
            for who in ("analyst", "coder", "spare", "@operator"):
                self.assertEqual(self.by[who].ids(path), [handoff], (who, path))
            self.assertEqual(self.by["stranger"].ids(path), [], path)

    def test_the_end_of_a_task(self):
        self.start()
        self.assertEqual(self.by["analyst"].send(respond_async=True).status, 202)
        path = "/v1/tasks/task-1"
        gone = self.by["stranger"].call("POST", "/v1/tasks/task-9/complete")
        foreign = self.by["stranger"].call("POST", f"{path}/complete")
        self.assert_problem(foreign, 404, "not_found")
        self.assertEqual(foreign.text.replace("task-1", "task-9"), gone.text)
        for who in ("coder", "analyst", "@operator"):
            reply = self.by[who].call("POST", f"{path}/complete")
            self.assertEqual((reply.status, reply.json()["handoffs"]), (200, 1), who)
            self.assertEqual(self.by[who].call("GET", path).json()["task"], reply.json(), who)
        seen, gone = (self.by["stranger"].call("GET", f"/v1/tasks/{task}")
                      for task in ("task-1", "task-9"))
        self.assertEqual(seen.text.replace("task-1", "task-9"), gone.text)

    def test_pages_are_cut_after_what_is_foreign_was_left_out(self):
        self.start({"coder": {}, "spare": {}})
        mine = []
        for i in range(4):
            mine.append(self.by["analyst"].send(respond_async=True).json()["id"])
            self.assertEqual(self.by["@operator"].send("spare", source_agent="stranger",
                                                       respond_async=True).status, 202)
        first = self.by["analyst"].call("GET", "/v1/tasks/task-1?limit=3").json()
        rest = self.by["analyst"].call(
            "GET", f"/v1/tasks/task-1?limit=3&cursor={first['next']}").json()
        self.assertEqual([item["id"] for item in first["items"]], mine[:3])
        self.assertEqual(([item["id"] for item in rest["items"]], rest["next"]), (mine[3:], None))

    def test_an_envelope_that_was_only_assembled(self):
        self.start()
        envelope = self.by["analyst"].call("POST", "/v1/envelopes", {
            "target_agent": "coder", "task_summary": "s"}).json()["id"]
        path = f"/v1/handoffs/{envelope}/envelope"
        for who, code in (("analyst", 200), ("coder", 200), ("@operator", 200), ("spare", 404),
                          ("stranger", 404)):
            self.assertEqual(self.by[who].call("GET", path).status, code, who)

    def test_a_foreign_handoff_cannot_be_continued(self):
        handoff = self.park()
        for who, code in (("stranger", 404), ("spare", 200), ("coder", 200), ("analyst", 200)):
            reply = self.by[who].call("POST", "/v1/envelopes", {
                "target_agent": "x", "task_summary": "s", "previous_id": handoff})
            self.assertEqual(reply.status, code, who)
        self.assertEqual(self.by["stranger"].call("POST", "/v1/envelopes", {
            "target_agent": "x", "task_summary": "s", "previous_id": handoff}).json()["field"],
            "previous_id")


    def test_what_is_wrong_with_a_foreign_handoff_is_not_told(self):
        """It was replaced by an edit, or is of another task than the next one that is named."""
        handoff = self.park()
        edit = {"edit": {"task_summary": "again"}}
        reply = self.by["@operator"].call("POST", f"/v1/parked/{handoff}/replay", edit)
        self.assertIn(reply.status, (200, 502), reply)
        own = self.by["stranger"].send(respond_async=True, task_id="task-2").json()["id"]
        for previous in (handoff, [own, handoff]):
            body = {"target_agent": "x", "task_summary": "s", "previous_id": previous}
            reply = self.by["stranger"].call("POST", "/v1/envelopes", body)
            self.assert_problem(reply, 404, "not_found", field="previous_id", seen=handoff)
        reply = self.by["analyst"].call("POST", "/v1/envelopes", {
            "target_agent": "x", "task_summary": "s", "previous_id": handoff})
        self.assert_problem(reply, 409, "conflict", field="previous_id")


class Tasks(Case):
    """An agent is a party to a task that it began, or that it was sent something of."""

    def send_async(self, who, target="coder", **fields):
        reply = self.by[who].send(target, respond_async=True, **fields)
        self.assertEqual(reply.status, 202, reply)
        return reply.json()["id"]

    def joins(self, who, task="task-1"):
        """Whether it can name the task in its requests; found out by assembling an envelope."""
        reply = self.by[who].call("POST", "/v1/envelopes", {
            "target_agent": "x", "task_id": task, "task_summary": "s"})
        if reply.status != 200:
            self.assert_problem(reply, 404, "not_found", field="task_id", seen=task)
        return reply.status == 200

    def completes(self, who, task="task-1"):
        reply = self.by[who].call("POST", f"/v1/tasks/{task}/complete")
        if reply.status != 200:
            self.assert_problem(reply, 404, "not_found", field="task_id")
        return reply.status == 200

    def test_a_stranger_cannot_join_a_task(self):
        self.start()
        handoff = self.send_async("analyst")
        for path in ("/v1/handoffs", "/v1/envelopes"):
            for progress in ("s", "long, so a worker assembles it " * 4000):
                reply = self.by["stranger"].call("POST", path, {
                    "target_agent": "coder", "task_id": "task-1", "task_summary": "s",
                    "state": {"progress": progress}})
                self.assert_problem(reply, 404, "not_found", field="task_id", seen="task-1")
        self.assertFalse(self.completes("stranger"))
        self.assertEqual(self.by["@operator"].ids("/v1/tasks/task-1"), [handoff])
        self.assertEqual(self.by["stranger"].ids("/v1/tasks/task-1"), [])

    def test_a_stranger_begins_its_own(self):
        self.start()
        self.send_async("analyst")
        self.send_async("stranger", task_id="task-2")
        self.send_async("stranger", task_id=None)
        self.assertTrue(self.completes("stranger", "task-2"))
        self.assertFalse(self.joins("analyst", "task-2"))

    def test_who_began_it_and_who_was_sent_something_of_it_go_on(self):
        self.start()
        self.send_async("analyst")
        self.assertEqual([self.joins(who) for who in ("analyst", "coder", "spare")],
                         [True, True, False])
        self.send_async("coder", "spare")
        self.assertTrue(self.joins("spare"))
        self.send_async("spare", "coder")
        for who in ("analyst", "coder", "spare"):
            self.assertTrue(self.completes(who), who)

    def test_a_refused_request_takes_no_key(self):
        self.start()
        self.send_async("analyst")
        body = {"target_agent": "coder", "task_summary": "s"}
        refused = self.by["stranger"].call("POST", "/v1/handoffs", {**body, "task_id": "task-1"},
                                           idempotency_key="run-1")
        self.assert_problem(refused, 404, "not_found")
        again = self.by["stranger"].call("POST", "/v1/handoffs", {**body, "task_id": "task-2"},
                                         idempotency_key="run-1", prefer="respond-async")
        self.assertEqual(again.status, 202, again)

    def test_whoever_assembled_the_first_envelope_began_it(self):
        self.start()
        self.assertTrue(self.joins("analyst", "task-3"))
        self.assertEqual([self.joins(who, "task-3") for who in ("analyst", "stranger")],
                         [True, False])
        self.assertFalse(self.completes("analyst", "task-3"), "no handoff belongs to it")

    def test_every_alternate_that_was_sent_it(self):
        ill = self.enterContext(Receiver(status(500)))
        self.start({"coder": {"url": ill.url, "retries": 0,
                              "alternates": ["spare", "small", "last"]},
                    "spare": {"url": ill.url, "retries": 0},
                    "small": {"url": ill.url, "retries": 0, "token_budget": 1},
                    "last": {"url": ill.url, "retries": 0}},
                   {**TOKENS, "small": "small-0123456789abcdef0", "last": "last-0123456789abcdef00"})
        self.by |= {name: As(self.daemon, f"{name}-0123456789abcdef0{'0' * (name == 'last')}")
                    for name in ("small", "last")}
        handoff = self.by["analyst"].send().json()["handoff"]["id"]
        [passed] = [attempt["target_agent"] for attempt in self.by["analyst"].call(
            "GET", f"/v1/handoffs/{handoff}/attempts").json()["items"]
            if attempt["result"] == "passed_over"]
        self.assertEqual(passed, "small")
        for who, party in (("coder", True), ("spare", True), ("last", True), ("small", False),
                           ("stranger", False)):
            with self.subTest(who=who):
                self.assertEqual(self.joins(who), party)
                self.assertEqual(self.completes(who), party)
                for rest in ("", "/envelope", "/attempts"):
                    reply = self.by[who].call("GET", f"/v1/handoffs/{handoff}{rest}")
                    self.assertEqual(reply.status, 200 if party else 404)
                for path in ("/v1/tasks/task-1", "/v1/parked"):
                    self.assertEqual(self.by[who].ids(path), [handoff] if party else [])
                reply = self.by[who].call("POST", "/v1/envelopes", {
                    "target_agent": "x", "task_summary": "s", "previous_id": handoff})
                self.assertEqual(reply.status, 200 if party else 404)
        self.assert_problem(self.by["spare"].call("POST", f"/v1/handoffs/{handoff}/ack"), 403,
                            "forbidden")
        self.assert_problem(self.by["small"].call("POST", f"/v1/handoffs/{handoff}/ack"), 404,
                            "not_found")

    def test_a_pull_agent_that_was_offered_it(self):
        ill = self.enterContext(Receiver(status(500)))
        self.start({"coder": {"url": ill.url, "retries": 0, "alternates": ["spare", "stranger"]},
                    "spare": {"retries": 0}, "stranger": {}})
        handoff = self.send_async("analyst")
        pulled = self.by["spare"].call("GET", "/v1/agents/spare/inbox?wait=20s")
        self.assertEqual(pulled.header("Handoff-Id"), handoff)
        self.assertEqual(self.by["spare"].call("POST", f"/v1/handoffs/{handoff}/nack").status, 200)
        pulled = self.by["stranger"].call("GET", "/v1/agents/stranger/inbox?wait=20s")
        self.assertEqual(pulled.header("Handoff-Id"), handoff)
        self.assertEqual(self.by["spare"].call("GET", f"/v1/handoffs/{handoff}").status, 200)
        self.assert_problem(self.by["spare"].call("POST", f"/v1/handoffs/{handoff}/ack"), 403,
                            "forbidden")
        for who in ("spare", "stranger"):
            self.assertTrue(self.joins(who) and self.completes(who), who)

    def test_the_agent_that_a_replay_goes_to(self):
        ill = self.enterContext(Receiver(status(400)))
        self.start({"coder": {"url": ill.url}, "spare": {"url": ill.url}})
        handoff = self.by["analyst"].send().json()["handoff"]["id"]
        self.assertFalse(self.joins("spare"))
        reply = self.by["@operator"].call("POST", f"/v1/parked/{handoff}/replay",
                                          {"target_agent": "spare"})
        self.assertEqual(reply.status, 200, reply)
        eventually(lambda: self.by["analyst"].state_of(handoff) == "parked", "it is parked again")
        for who in ("coder", "spare"):
            self.assertTrue(self.joins(who), who)

    def test_the_operator_may_name_any_task(self):
        self.start()
        self.send_async("analyst")
        self.send_async("@operator", source_agent="stranger")
        self.assertFalse(self.joins("stranger"), "it neither began it nor was sent anything")
        self.assertTrue(self.completes("@operator"))

    def test_without_tokens_nobody_is_known(self):
        with daemon_with({"coder": {}}) as daemon:
            anybody = As(daemon, None)
            self.assertEqual(anybody.send(source_agent="analyst", respond_async=True).status, 202)
            stranger = anybody.send(source_agent="stranger", respond_async=True)
            self.assert_problem(stranger, 404, "not_found")
            self.assertIn("new_chain", stranger.json()["detail"])
            self.assertEqual(anybody.send(source_agent="stranger", new_chain=True, respond_async=True).status, 202)
            self.assertEqual(As(daemon, None).call("POST", "/v1/tasks/task-1/complete")
                             .json()["handoffs"], 2)

    def test_what_was_sent_before_there_were_tokens_makes_no_party(self):
        self.start()
        config = json.loads(self.daemon.config_path.read_text())
        api = config.pop("api")
        self.daemon.write_config(json.dumps(config))
        self.assertEqual(self.daemon.reload().status, 200)
        for name, target in (("analyst", "coder"), ("stranger", "spare")):
            reply = self.by["nobody"].send(target, source_agent=name, new_chain=True, respond_async=True)
            self.assertEqual(reply.status, 202)
        self.daemon.write_config(json.dumps({**config, "api": api}))
        self.assertEqual(self.daemon.reload().status, 200)
        for who, party in (("analyst", True), ("coder", True), ("spare", True),
                           ("stranger", False)):
            self.assertEqual((self.joins(who), self.completes(who)), (party, party), who)
        end = self.by["analyst"].call("GET", "/v1/tasks/task-1").json()["task"]["completed_at"]
        seen = self.by["stranger"].call("GET", "/v1/tasks/task-1").json()
        self.assertIsNotNone(end)
        self.assertEqual((len(seen["items"]), seen["task"]["completed_at"]), (1, None))


class Memories(Case):
    """A memory belongs to the agent that put it: it and the operator change it, all read it."""

    PATH = "/v1/memories/m"

    def put(self, who, content="c", path=PATH, **fields):
        return self.by[who].call("PUT", path, {"content": content, **fields})

    def test_the_owner_may_do_everything(self):
        self.start()
        self.assertEqual((self.put("analyst").status, self.put("analyst", "d").status), (201, 200))
        for method, path, code in (("PUT", f"{self.PATH}/pin", 200),
                                   ("DELETE", f"{self.PATH}/pin", 200), ("DELETE", self.PATH, 204)):
            self.assertEqual(self.by["analyst"].call(method, path).status, code, (method, path))

    def test_others_change_nothing(self):
        self.start()
        self.assertEqual(self.put("analyst").json()["agent"], "analyst")
        before = self.by["analyst"].call("GET", self.PATH).text
        for method, path, body in (("PUT", self.PATH, {"content": "d"}),
                                   ("PUT", self.PATH, {"content": "c", "pinned": True}),
                                   ("PUT", f"{self.PATH}/pin", None),
                                   ("DELETE", f"{self.PATH}/pin", None),
                                   ("DELETE", self.PATH, None)):
            reply = self.by["coder"].call(method, path, body)
            self.assert_problem(reply, 403, "forbidden", field="id", seen="coder",
                                allowed="its owner or @operator")
            self.assertNotIn("analyst", reply.text)
        self.assertEqual(self.by["coder"].call("GET", self.PATH).text, before)

    def test_all_agents_read_it(self):
        self.start()
        self.put("analyst", "Retry three times")
        self.assertEqual(self.by["coder"].call("GET", self.PATH).json()["agent"], "analyst")
        [item] = self.by["coder"].call("GET", "/v1/memories?query=retry").json()["items"]
        self.assertEqual((item["id"], item["agent"]), ("m", "analyst"))
        envelope = self.by["coder"].call("POST", "/v1/envelopes", {
            "target_agent": "x", "task_summary": "s", "memory_ids": ["m"]})
        self.assertIn("Retry three times", envelope.text)

    def test_the_operator_changes_it_and_its_owner_stays(self):
        self.start()
        self.put("analyst")
        reply = self.put("@operator", "d")
        self.assertEqual((reply.status, reply.json()["agent"]), (200, "analyst"))
        self.assertEqual(self.by["@operator"].call("PUT", f"{self.PATH}/pin").status, 200)
        self.assertEqual(self.put("analyst", "e").json()["pinned"], True)
        self.assertEqual(self.by["@operator"].call("DELETE", self.PATH).status, 204)

    def test_an_id_that_was_deleted_is_free(self):
        self.start()
        self.put("analyst")
        self.by["analyst"].call("DELETE", self.PATH)
        reply = self.put("coder")
        self.assertEqual((reply.status, reply.json()["agent"]), (201, "coder"))
        self.assert_problem(self.put("analyst"), 403, "forbidden")

    def test_what_is_not_there_is_not_found(self):
        self.start()
        for method, path in (("PUT", f"{self.PATH}/pin"), ("DELETE", f"{self.PATH}/pin"),
                             ("DELETE", self.PATH)):
            self.assert_problem(self.by["coder"].call(method, path), 404, "not_found")

    def test_an_agent_puts_in_its_own_name(self):
        self.start()
        self.assert_problem(self.put("coder", agent="analyst"), 403, "forbidden", field="agent",
                            seen="analyst", allowed="coder, or omit it")
        self.assertEqual(self.by["coder"].call("GET", self.PATH).status, 404)
        self.assertEqual(self.put("coder", agent=None).json()["agent"], "coder")
        answered = self.by["coder"].call("GET", self.PATH).json()
        reply = self.by["coder"].call("PUT", self.PATH, answered)
        self.assertEqual((reply.status, reply.json()["agent"]), (200, "coder"))

    def test_the_operator_gives_it_to_an_agent(self):
        self.start()
        self.assertIsNone(self.put("@operator").json()["agent"])
        self.assert_problem(self.put("analyst"), 403, "forbidden", seen="analyst")
        self.assertEqual(self.put("@operator", agent="analyst").json()["agent"], "analyst")
        self.assertEqual(self.put("analyst", "d").status, 200)
        self.assertEqual(self.put("@operator", agent="coder").json()["agent"], "coder")
        self.assert_problem(self.put("analyst"), 403, "forbidden")

    def test_without_tokens_everybody_may_and_names_the_owner(self):
        self.start()
        config = json.loads(self.daemon.config_path.read_text())
        api = config.pop("api")
        self.daemon.write_config(json.dumps(config))
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertIsNone(self.put("nobody", path="/v1/memories/n").json()["agent"])
        self.assertEqual(self.put("nobody", agent="analyst").json()["agent"], "analyst")
        self.assertEqual(self.put("nobody", "d").json()["agent"], "analyst")
        self.daemon.write_config(json.dumps({**config, "api": api}))
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertEqual(self.put("analyst", "e").status, 200)
        self.assert_problem(self.put("coder"), 403, "forbidden")
        self.assert_problem(self.put("coder", path="/v1/memories/n"), 403, "forbidden")

    def test_the_owner_outlives_the_process(self):
        self.start()
        self.put("analyst")
        self.daemon.kill()
        self.daemon.log_path.unlink()
        self.daemon.expected_exit = 0
        self.daemon.start()
        self.assert_problem(self.put("coder"), 403, "forbidden")
        self.assertEqual(self.put("analyst").json()["agent"], "analyst")


class Answers(Case):
    """Only the agent that has a handoff answers for it."""

    def test_a_deferred_acknowledgement(self):
        coder = self.enterContext(Receiver(later))
        self.start({"coder": {"url": coder.url}})
        handoff = self.by["analyst"].send(respond_async=True).json()["id"]
        eventually(lambda: self.by["analyst"].state_of(handoff) == "awaiting_ack", "it waits")
        for word in ("ack", "nack", "extend"):
            path = f"/v1/handoffs/{handoff}/{word}"
            self.assert_problem(self.by["analyst"].call("POST", path), 403, "forbidden")
            self.assert_problem(self.by["stranger"].call("POST", path), 404, "not_found")
        self.assertEqual(self.by["coder"].call("POST", f"/v1/handoffs/{handoff}/extend").status, 200)
        for _ in range(2):
            reply = self.by["coder"].call("POST", f"/v1/handoffs/{handoff}/ack")
            self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"))
        self.assert_problem(self.by["stranger"].call("POST", f"/v1/handoffs/{handoff}/ack"), 404,
                            "not_found")
        self.assert_problem(self.by["analyst"].call("POST", f"/v1/handoffs/{handoff}/ack"), 403,
                            "forbidden")

    def test_the_operator_may_answer_for_it(self):
        coder = self.enterContext(Receiver(later))
        self.start({"coder": {"url": coder.url}})
        handoff = self.by["analyst"].send(respond_async=True).json()["id"]
        eventually(lambda: self.by["analyst"].state_of(handoff) == "awaiting_ack", "it waits")
        self.assertEqual(self.by["@operator"].call("POST", f"/v1/handoffs/{handoff}/ack").status,
                         200)

    def test_the_inbox_is_its_agents(self):
        self.start({"coder": {}, "spare": {}})
        handoff = self.by["analyst"].send(respond_async=True).json()["id"]
        for who in ("analyst", "spare", "stranger"):
            self.assert_problem(self.by[who].call("GET", "/v1/agents/coder/inbox"), 403,
                                "forbidden", seen=who, allowed="coder")
        self.assert_problem(self.by["spare"].call("GET", "/v1/agents/nobody/inbox"), 403,
                            "forbidden")
        reply = self.by["coder"].call("GET", "/v1/agents/coder/inbox?wait=20s")
        self.assertEqual((reply.status, reply.header("Handoff-Id")), (200, handoff))
        self.assertEqual(self.by["@operator"].call("GET", "/v1/agents/coder/inbox").status, 204)


class Decisions(Case):
    """What a person decides, agents do not."""

    def test_replay_discard_and_reset(self):
        coder = self.enterContext(Receiver(status(400)))
        self.start({"coder": {"url": coder.url}})
        first, second = (self.by["analyst"].send().json()["handoff"]["id"] for _ in range(2))
        calls = [("POST", f"/v1/parked/{first}/replay"), ("DELETE", f"/v1/parked/{second}?reason=r"),
                 ("POST", "/v1/agents/coder/reset")]
        for who in ("analyst", "coder", "stranger"):
            for method, path in calls + [("POST", f"/v1/parked/{GONE}/replay")]:
                self.assert_problem(self.by[who].call(method, path), 403, "forbidden", seen=who,
                                    allowed="@operator")
        self.assertEqual(len(coder.requests), 2)
        self.assertEqual([self.by["@operator"].call(*call).status for call in calls],
                         [200, 200, 204])

    def test_what_everybody_may(self):
        self.start()
        self.assertEqual(self.by["analyst"].call("PUT", "/v1/memories/m", {"content": "c"}).status,
                         201)
        for who in ("analyst", "coder", "stranger", "@operator"):
            for path in ("/v1/agents", "/v1/memories", "/v1/memories/m", "/v1/parked"):
                self.assertEqual(self.by[who].call("GET", path).status, 200, (who, path))


class Rotation(Case):
    def works(self, token):
        reply = As(self.daemon, token).call("GET", "/v1/agents")
        self.assertIn(reply.status, (200, 401))
        return reply.status == 200

    def test_a_token_is_replaced_while_both_are_good(self):
        old, new = TOKENS["analyst"], "analyst-fedcba9876543210"
        self.start()
        self.assertEqual((self.works(old), self.works(new)), (True, False))
        self.write({**TOKENS, "analyst": f"{old}\nanalyst {new}"})
        self.assertEqual((self.works(old), self.works(new)), (True, False), "not yet read")
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertEqual((self.works(old), self.works(new)), (True, True))
        self.write({**TOKENS, "analyst": new})
        self.daemon.signal(1)
        self.daemon.wait_for_event("config_reloaded", 2)
        self.assertEqual((self.works(old), self.works(new)), (False, True))

    def test_a_bad_file_keeps_the_old_tokens_and_says_so(self):
        self.start()
        for text, message in (
                ("analyst\n", ":1: api.tokens_file: saw one word, allowed: NAME TOKEN [scopes=SCOPE,SCOPE] [publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]"),
                (lines(TOKENS) + f"coder {WRONG} x\n",
                 ":6: api.tokens_file: saw more than two words, allowed: NAME TOKEN [scopes=SCOPE,SCOPE] [publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]"),
                ("", ": api.tokens_file: saw no tokens, allowed: one NAME TOKEN per line"),
                (f"other {WRONG}\n", ":1: api.tokens_file: saw other, allowed: a name other than "
                                     "other, next and broadcast"),
                ("coder too-short\n", ":1: api.tokens_file: saw a token of 9 bytes, allowed: 16 to "
                                      "512"),
                (f"coder {WRONG}\nspare {WRONG}\n",
                 ":2: api.tokens_file: saw the token of line 1 again, allowed: each token once")):
            self.write(text)
            reply = self.daemon.reload()
            self.assertEqual((reply.status, reply.json()["detail"]),
                             (500, f"{self.tokens}{message}"))
            self.assertEqual(self.daemon.events("config_reload_failed")[-1]["error"],
                             f"{self.tokens}{message}")
            self.assertEqual((self.works(TOKENS["analyst"]), self.works(WRONG), self.works(None)),
                             (True, False, False))
        self.assertIn("handoff_exporter_config_last_reload_successful 0",
                      self.daemon.web.get("/metrics").text)
        self.assert_silent()

    def test_the_api_is_closed_and_opened_by_a_reload(self):
        self.start()
        config = json.loads(self.daemon.config_path.read_text())
        closed = json.dumps(config)
        del config["api"]
        self.daemon.write_config(json.dumps(config))
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertTrue(self.works(None))
        self.daemon.write_config(closed)
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertFalse(self.works(None))


class Start(Case):
    def test_a_bad_file_keeps_the_daemon_from_starting(self):
        with temporary_folder() as folder:
            tokens = pathlib.Path(folder) / "tokens"
            tokens.write_text(f"coder {WRONG}\nnonsense\n")
            code, log, _ = refused(config=f"api: {{tokens_file: {tokens}}}\n")
            self.assertEqual(code, 1)
            self.assertIn(f"{tokens}:2: api.tokens_file: saw one word, allowed: NAME TOKEN [scopes=SCOPE,SCOPE] [publish=CHANNEL,CHANNEL] [receive=CHANNEL,CHANNEL]", log)
            self.assertNotIn(WRONG, log)

    def test_a_file_that_everybody_can_read_is_warned_of(self):
        self.start()
        self.assertEqual(self.daemon.events("tokens_file_world_readable"), [])
        self.tokens.chmod(0o640)
        self.daemon.reload()
        self.assertEqual(self.daemon.events("tokens_file_world_readable"), [])
        self.tokens.chmod(0o644)
        self.daemon.reload()
        [warning] = self.daemon.events("tokens_file_world_readable")
        self.assertEqual((warning["level"], warning["path"]), ("warn", str(self.tokens)))

    def test_an_api_for_all_the_world_without_tokens_is_warned_of(self):
        for api, more, warned in (("127.0.0.1:0", "", 0), ("[::1]:0", "", 0), ("0.0.0.0:0", "", 1),
                                  (":0", "", 1), ("0.0.0.0:0", "tokens", 0)):
            with self.subTest(api=api, more=more), temporary_folder() as folder:
                tokens = pathlib.Path(folder) / "tokens"
                tokens.write_text(lines(TOKENS))
                tokens.chmod(0o600)
                config = f"api: {{tokens_file: {tokens}}}\n" if more else "{}\n"
                try:
                    daemon = Daemon(config=config, api=api)
                except StartFailed as failed:
                    if "[::1]" in api and "cannot open the API listener" in failed.log:
                        self.skipTest("this machine has no IPv6")
                    raise
                with daemon:
                    found = daemon.events("api_without_authentication")
                    self.assertEqual(len(found), warned, found)

    def test_a_unix_socket_is_local(self):
        with temporary_folder() as folder, Daemon(api=f"unix:{folder}/api") as daemon:
            self.assertEqual(daemon.events("api_without_authentication"), [])


class Ctl(Case):
    def run_ctl(self, *arguments, **env):
        done = subprocess.run(
            [os.environ["HANDOFFCTL"], *arguments], capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
            env=environment(HANDOFF_API_URL=f"http://{self.daemon.api.address}", **env))
        return done.returncode, done.stdout, done.stderr

    def token_file(self, name):
        path = self.tokens.with_name(f"token-of-{name.strip('@')}")
        path.write_text(TOKENS.get(name, name) + "\n")
        return str(path)

    def test_handoffctl_shows_a_token_from_a_file(self):
        self.start()
        code, _, error = self.run_ctl("agents")
        self.assertEqual((code, error), (1, "handoffctl agents: unauthenticated: a bearer token is "
                                            "required (api.tokens_file)\n"))
        self.assertEqual(self.run_ctl("agents", "--token-file", self.token_file("analyst"))[0], 0)
        operator = self.token_file("@operator")
        for call in (("agents",), ("agents", "reset", "coder"), ("parked", "list"),
                     ("memories", "list")):
            self.assertEqual(self.run_ctl(*call, HANDOFF_TOKEN_FILE=operator)[0], 0, call)
        code, _, error = self.run_ctl("agents", "reset", "coder", "--token-file",
                                      self.token_file("analyst"), HANDOFF_TOKEN_FILE=operator)
        self.assertEqual((code, error), (1, "handoffctl agents reset: forbidden: only the operator "
                                            "may call this (Authorization: allowed "
                                            "@operator)\n"), "the option wins")
        code, _, error = self.run_ctl("agents", f"--token-file={self.tokens}-none")
        self.assertEqual((code, error), (1, f"handoffctl agents: no token in {self.tokens}"
                                            "-none (--token-file)\n"))

    def test_an_agent_sends_and_acknowledges(self):
        self.start({"coder": {}})
        code, out, error = self.run_ctl("send", "--from", "analyst", "--to", "coder", "--summary",
                                        "s", "--async", "--json", "--token-file",
                                        self.token_file("analyst"))
        self.assertEqual(code, 0, error)
        handoff = json.loads(out)["id"]
        code, out, error = self.run_ctl("inbox", "coder", "--wait", "10s", "--ack", "--json",
                                        f"--token-file={self.token_file('coder')}")
        self.assertEqual((code, json.loads(out)["id"]), (0, handoff), error)
        self.assertEqual(self.by["analyst"].state_of(handoff), "acknowledged")


class Secrecy(Case):
    def test_tokens_leave_no_trace(self):
        hold = Hold()
        coder = self.enterContext(Receiver(hold))
        self.start({"coder": {"url": coder.url}}, env={"HANDOFF_NOTHING": "1"})
        for who in ("analyst", "stranger", "wrong", "nobody"):
            self.by[who].send(respond_async=True)
        coder.wait_for(2)
        hold.release()
        for request in coder.requests:
            self.assertIsNone(request.headers["Authorization"], "a caller's token goes no further")
        self.assertNotIn(WRONG, self.daemon.web.get("/metrics").text)
        self.assert_silent()


if __name__ == "__main__":
    unittest.main()
