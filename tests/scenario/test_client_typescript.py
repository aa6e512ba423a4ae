# SPDX-License-Identifier: Apache-2.0
"""The TypeScript client against the real sidecar. The tests are those of test_client_python.py, by the same names."""

import contextlib
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from harness import Daemon, Http, Receiver, TIMEOUT, environment, eventually
from harness import clients
from harness.agents import Caller, config, daemon_with
from harness.clients import Failed, Node
from harness.ports import reserved_port
from harness.printed import blocks, missing
from harness.receiver import Hold, ack, nack, status

SPINE = """kept.spine = new handoff.MemorySpine({
    endpoint, source_agent: "analyst", retry: { seconds: 30, base: 0.01, most: 0.05 }, ...more });"""
SEND = "return kept.spine.handOff({ target_agent: 'coder', task_summary: 'Write it', ...fields }, options)"


def setUpModule():
    clients.require_node()


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.node = self.enterContext(Node(HANDOFF_STATE_DIR=str(self.folder)))

    def start(self, agents, **more):
        self.daemon = self.enterContext(daemon_with(agents, **more))
        self.caller = Caller(self.daemon)
        self.spine(self.daemon.api.url)

    def spine(self, endpoint, **more):
        self.node.run(SPINE, endpoint=endpoint, more=more)

    def send(self, options=None, **fields):
        return self.node.run(SEND, fields=fields, options=options or {})

    def fails(self, code, **given):
        with self.assertRaises(Failed) as caught:
            self.node.run(code, **given)
        return caught.exception.error

    def fails_to_send(self, options=None, **fields):
        return self.fails(SEND, fields=fields, options=options or {})


class Sending(Case):
    def test_a_handoff_is_acknowledged(self):
        receiver = self.enterContext(Receiver(ack))
        self.start({"coder": {"url": receiver.url}})
        done = self.send(constraints={"max_tokens": 4000}, state={"decisions": ["use jitter"]})
        self.assertEqual((done["state"], done["attempts"], done["source_agent"]), ("acknowledged", 1, "analyst"))
        self.assertEqual(receiver.seen[0].json()["context"]["task"]["state"]["decisions"], ["use jitter"])
        found = self.node.run("return kept.spine.getTask(task)", task=done["task_id"])
        self.assertEqual([item["id"] for item in found], [done["id"]])

    def test_agent_handoff_deliver_and_park(self):
        """What the samples of the specification do."""
        receivers = ["code-generator", "test-writer", "doc-writer"]
        receiver = self.enterContext(Receiver(ack))
        self.start({"coder": {"url": receiver.url}, **{name: {} for name in receivers}},
                   channels={"oauth-migration": {"receivers": receivers}})
        version, tokens, refs, missing_, completeness = self.node.run("""
            await kept.spine.putMemory("ms-1", "The bank retries three times");
            kept.envelope = await kept.spine.agentHandoff({ target_agent: "coder", task_summary: "Write it",
              memory_ids: ["ms-1", "ms-2"], constraints: { max_tokens: 4000 } });
            const { envelope_version, token_count, memory_refs, missing, completeness } = kept.envelope;
            return [envelope_version, token_count, memory_refs, missing, completeness]""")
        self.assertRegex(version, "^2")
        self.assertGreater(tokens, 0)
        self.assertEqual((refs, [entry["id"] for entry in missing_], completeness["ratio"]), (["ms-1"], ["ms-2"], 0.5))
        self.assertEqual(self.node.run("return kept.spine.deliverHandoff(kept.envelope, { target: 'coder' })")["state"],
                         "acknowledged")
        self.assertEqual(self.fails("return kept.spine.deliverHandoff(kept.envelope, { target: 'x' })")["name"], "TypeError")
        parked = self.node.run("""
            const envelope = await kept.spine.agentHandoff({ target_agent: "doc-writer", task_summary: "Write it" });
            return kept.spine.parkEnvelope(envelope, "waits for a person")""")
        self.assertEqual((parked["state"], parked["reason"]), ("parked", "waits for a person"))
        published = self.node.run("""
            const envelope = await kept.spine.agentHandoff({ target_agent: "broadcast", task_summary: "Research complete" });
            const channel = kept.spine.getChannel("oauth-migration");
            const published = await channel.publish({ envelope, receivers, delivery: "at-least-once" });
            return channel.getPublication(published)""", receivers=receivers)
        self.assertEqual(sorted(delivery["receiver"] for delivery in published["deliveries"]), sorted(receivers))

    def test_an_agent_subscribes_and_leaves(self):
        self.start({"coder": {}, "tester": {}}, channels={"parts": {"receivers": ["coder"]}})
        for change, receivers in (("subscribe", ["coder", "tester"]), ("unsubscribe", ["coder"])):
            published = self.node.run("""
                const channel = kept.spine.getChannel("parts");
                await channel[change]("tester");
                return channel.publish({ request: { task_summary: "Write it" } })""", change=change)
            self.assertEqual(sorted(delivery["receiver"] for delivery in published["deliveries"]), receivers)

    def test_durable_is_enough_without_waiting(self):
        self.start({"coder": {}})
        accepted = self.send({"wait": False})
        self.assertEqual(accepted["state"], "ready")
        self.assertEqual(self.node.run("return kept.spine.cancelHandoff(id, 'the plan changed')", id=accepted["id"])["state"],
                         "discarded")

    def test_a_time_out_says_which_handoff_continues(self):
        self.start({"coder": {}})
        error = self.fails_to_send({"timeout": 0.2})
        self.assertEqual((error["name"], error["isHandoffError"]), ("HandoffTimeoutError", True))
        self.assertEqual(self.caller.state(error["handoff"]["id"])["state"], "ready")

    def test_a_long_wait_is_several_requests_and_one_handoff(self):
        hold = Hold()
        receiver = self.enterContext(Receiver(hold))
        self.start({"coder": {"url": receiver.url, "timeout": "30s"}})
        path = pathlib.Path(clients.built_typescript().name, "node_modules/handoff/dist/client.js")
        self.node.run("(await import(path)).limits.wait_seconds = 1", path=str(path))
        timer = threading.Timer(2.5, hold.release)
        timer.start()
        self.assertEqual(self.send()["state"], "acknowledged")
        self.assertEqual(self.node.run("return (await kept.spine.listHandoffs()).length"), 1)

    def test_errors_say_what_to_correct(self):
        receiver = self.enterContext(Receiver(nack("not mine", retry=False)))
        self.start({"coder": {"url": receiver.url}})
        error = self.fails_to_send(target_agent="nobody")
        self.assertEqual((error["name"], error["code"], error["field"], error["seen"]),
                         ("NotFoundError", "unknown_agent", "target_agent", "nobody"))
        error = self.fails_to_send(strategy="eager")
        self.assertEqual((error["name"], error["field"], error["seen"]), ("InvalidRequestError", "strategy", "eager"))
        for word in ("strategy", "eager", "lazy"):  # with all that is needed to correct it, once
            self.assertEqual(error["message"].count(word), 1, error["message"])
        self.assertGreater(self.fails_to_send(constraints={"max_tokens": 5})["needed"], 5)
        error = self.fails_to_send()
        self.assertEqual((error["name"], error["code"], error["handoff"]["state"]),
                         ("NotDeliveredError", "refused", "parked"))
        self.assertIn("mood", self.fails_to_send(mood="good")["message"])
        self.assertEqual(self.fails("new handoff.MemorySpine({ endpoint: 'localhost:8780' })")["name"], "TypeError")
        self.assertIn("timeout 0: allowed is more than 0 seconds", self.fails_to_send({"timeout": 0})["message"])

    def test_an_open_circuit_is_not_waited_for(self):
        receiver = self.enterContext(Receiver(status(500)))
        self.start({"coder": {"url": receiver.url}}, defaults={"retries": 0, "breaker": {"failures": 1, "cooldown": "1h"}})
        self.assertEqual(self.fails_to_send()["name"], "NotDeliveredError")
        error = self.fails_to_send()
        self.assertEqual(error["name"], "CircuitOpenError")
        self.assertGreater(error["retryAfter"], 60)

    def test_a_full_sidecar_is_tried_again(self):
        self.start({"coder": {}, "reviewer": {}}, api={"max_in_flight": 1})
        first = self.send({"wait": False})
        timer = threading.Timer(0.3, self.caller.call, ("POST", f"/v1/handoffs/{first['id']}/ack"))
        timer.start()
        self.assertEqual(self.send({"wait": False}, target_agent="reviewer")["state"], "ready")
        timer.join()
        self.spine(self.daemon.api.url, retry={"seconds": 0})
        error = self.fails_to_send({"wait": False})
        self.assertEqual((error["name"], error["code"]), ("UnavailableError", "too_many_in_flight"))

    def test_a_repeat_keeps_its_key(self):
        answer = {"id": "1", "state": "acknowledged", "attempts": 1, "task_id": "t"}
        busy = status(503, {"code": "shutting_down", "detail": "stopping"}, retry_after="0")
        proxy = self.enterContext(Receiver(busy, status(429, retry_after="0"), status(502, b"<html>"), status(200, answer)))
        self.spine(f"http://{proxy.address}")
        for _ in range(2):
            self.assertEqual(self.send()["state"], "acknowledged")
        keys = [request.headers["Idempotency-Key"] for request in proxy.seen]
        self.assertEqual((len(keys), len(set(keys[:4])), len(set(keys))), (5, 1, 2))

    def test_a_client_that_is_closed_while_it_waits(self):
        self.start({"coder": {}})
        self.node.run("""
            await kept.spine.listAgents(); // the connection that waits was used before
            kept.waiting = kept.spine.handOff({ target_agent: "coder", task_summary: "Write it" });
            kept.waiting.catch(() => undefined)""")
        eventually(lambda: self.caller.call("GET", "/v1/handoffs").json()["items"], "it was accepted")
        self.node.run("kept.spine.close()")
        for call in ("await kept.waiting", "await kept.spine.listAgents()"):
            self.assertEqual(self.fails(call)["code"], "closed")

    def test_a_newer_client_is_understood(self):
        self.start({"coder": {}})
        accepted = self.send({"wait": False}, extra={"mood": "good"})
        self.assertEqual([warning["field"] for warning in accepted["warnings"]], ["mood"])

    def test_a_sidecar_that_was_killed_and_restarted(self):
        receiver = self.enterContext(Receiver(ack))
        address = f"127.0.0.1:{self.enterContext(reserved_port())}"
        self.start({"coder": {"url": receiver.url}}, addresses={"api": address})
        for _ in range(3):
            self.assertEqual(self.send()["state"], "acknowledged")
            self.daemon.kill()
            self.daemon.launch()  # the client meets it before it listens
        self.daemon.expected_exit = 0
        self.assertEqual(self.send()["state"], "acknowledged")
        self.assertEqual(len({request.id for request in receiver.seen}), 4)

    def test_unix_socket_token_and_trace(self):
        receiver = self.enterContext(Receiver(ack))
        tokens, mine = self.folder / "tokens", self.folder / "mine"
        tokens.write_text("analyst the-first-token-of-analyst\n")
        mine.write_text("a-wrong-token-of-analyst\n")
        api = f"unix:{self.folder / 'api'}"
        self.enterContext(daemon_with({"coder": {"url": receiver.url}}, addresses={"api": api},
                                      api={"tokens_file": str(tokens)}))
        self.spine(api, token_file=str(mine))
        self.assertEqual(self.fails("return kept.spine.listAgents()")["name"], "AuthenticationError")
        mine.write_text("the-first-token-of-analyst\n")
        self.assertEqual(self.send()["state"], "acknowledged")

    def test_tls(self):
        answer = status(200, {"id": "1", "state": "acknowledged", "task_id": "t"})
        server, authority = clients.tls_server(self.folder, answer)
        url = f"https://{self.enterContext(server).address}"
        self.spine(url, tls={"ca": pathlib.Path(authority).read_text()})
        self.assertEqual(self.send()["state"], "acknowledged")
        self.spine(url, retry={"seconds": 1})
        error = self.fails_to_send()
        self.assertEqual((error["name"], error["code"]), ("UnreachableError", "bad_certificate"))
        self.assertIn("certificate", error["message"])
        self.assertEqual(len(server.seen), 1)

    def test_nothing_is_tried_again_after_the_timeout(self):
        self.spine(f"http://127.0.0.1:{self.enterContext(reserved_port())}", retry={"seconds": 1e6, "base": 0.01, "most": 0.05})
        self.assertEqual(self.fails_to_send({"timeout": 0.3})["name"], "UnreachableError")
        error = self.fails("return kept.spine.getChannel('news').publish({ request: { task_summary: 'Write it' }, timeout: 0.3 })")
        self.assertEqual(error["name"], "UnreachableError")

    def test_a_timeout_is_of_the_whole_call(self):
        self.start({"coder": {}}, channels={"news": {"receivers": ["coder"]}})
        self.spine(self.daemon.api.url, retry={"seconds": 1e6})
        envelope = self.node.run("return kept.spine.agentHandoff({ target_agent: 'coder', task_summary: 'Write it' })")
        began = time.monotonic()
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            for call in ("kept.spine.deliverHandoff(id, { target: 'coder', timeout: 0.2 })",
                         "kept.spine.getChannel('news').publish({ request: { task_summary: 'Write it' }, timeout: 0.2 })",
                         "kept.spine.handOff({ target_agent: 'coder', task_summary: 'Write it' }, { timeout: 0.2, wait: false })"):
                error = self.fails(f"return {call}", id=envelope["id"])
                self.assertEqual(error["name"], "UnreachableError")
                self.assertIn("no answer in time", error["message"])
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)
        self.assertLess(time.monotonic() - began, 25)  # one answer may take 30 s

    def test_a_publication_is_waited_for(self):
        self.start({"coder": {}}, channels={"news": {"receivers": ["coder"]}})
        began = time.monotonic()
        published = self.node.run(
            "return kept.spine.getChannel('news').publish({ request: { task_summary: 'Write it' }, timeout: 1.2 })")
        self.assertGreaterEqual(time.monotonic() - began, 1.18)
        self.assertEqual(len(published["deliveries"]), 1)
        self.assertEqual(len(self.caller.call("GET", "/v1/handoffs").json()["items"]), 1)

    def test_memories(self):
        self.start({"coder": {}})
        found = self.node.run("""
            const { spine } = kept;
            await spine.putMemory("ms-1", "The bank retries a payment three times", { importance: "high" });
            await spine.pinMemory("ms-1");
            const found = [(await spine.getMemory("ms-1")).importance, (await spine.searchMemories("payment of the bank"))[0].id,
              (await spine.listMemories({ pinned: true })).length];
            await spine.deleteMemory("ms-1");
            return found""")
        self.assertEqual(found, ["high", "ms-1", 1])
        self.assertEqual(self.fails("return kept.spine.getMemory('ms-1')")["name"], "NotFoundError")

    def test_observations(self):
        self.start({"coder": {}})
        receipt = self.node.run("""return kept.spine.observe([
            { source_agent: "analyst", target_agent: "coder", outcome: "acknowledged" }])""")
        self.assertEqual(receipt["accepted"], 1)


class Receiving(Case):
    """Every test runs for an agent that polls its inbox, for one that follows it, and for one that is pushed to."""

    def each(self, code, agents=None, **more):
        for way in ("inbox", "stream", "push"):
            with self.subTest(receive=way), contextlib.ExitStack() as stack:
                port = stack.enter_context(reserved_port())
                self.url = f"http://127.0.0.1:{port}"
                keys = {"ack_timeout": "10s"} if way != "push" else {"url": self.url}
                options = {"receive": way if way != "push" else self.url,
                           "seen": str(self.folder / f"{way}.seen"), **more}
                self.daemon = stack.enter_context(daemon_with({"coder": keys, **(agents or {})}))
                self.caller, self.way = Caller(self.daemon), way
                self.spine(self.daemon.api.url)
                self.node.run("kept.seen = []; kept.serving = await handoff.serving([handoff.agent('coder', async (received) => {"
                              + code + "}, options)], { spine: kept.spine })", options=options)
                yield way
                self.node.run("await kept.serving.stop()")

    def seen(self):
        return self.node.run("return kept.seen.splice(0)")

    def test_returning_acknowledges(self):
        for _ in self.each("kept.seen.push([received.task.summary, received.task.intent, received.constraints, "
                           "received.source_agent])"):
            self.assertEqual(self.send(intent="Safe payments", constraints={"x": 1})["state"], "acknowledged")
            self.assertEqual(self.seen(), [["Write it", "Safe payments", {"x": 1}, "analyst"]])

    def test_refused_is_parked_and_any_other_exception_is_tried_again(self):
        for _ in self.each("""
                if (received.constraints.reject) throw new handoff.Refused("not work for a coder");
                if (received.attempt === 1) throw new Error("the model is not available");"""):
            self.assertEqual(self.send()["attempts"], 2)
            error = self.fails_to_send(constraints={"reject": True})
            [attempt] = self.caller.attempts(error["handoff"]["id"])
            self.assertEqual(attempt["error"], "not work for a coder")

    def test_next_hands_the_task_on(self):
        for _ in self.each("received.next('Review it', { target_agent: 'reviewer', state: { decisions: ['three'] } })",
                           {"reviewer": {}}):
            first = self.send()
            self.assertEqual([(step["source_agent"], step["target_agent"]) for step in self.task(first)],
                             [("analyst", "coder"), ("coder", "reviewer")])

    def task(self, first):
        return self.caller.call("GET", f"/v1/tasks/{first['task_id']}").json()["items"]

    def test_memories_are_fetched_when_they_are_read(self):
        for _ in self.each("""
                const found = {};
                for await (const memory of received.memories) found[memory.id] = memory.content;
                kept.seen.push([found, received.missing.map(({ id }) => id), await received.stillMissing(),
                  (await received.memories.get("ms-2")).content, await received.memories.get("ms-3") ?? null]);
                received.flagGaps(["ms-3"]);"""):
            done = self.node.run("""
                await kept.spine.putMemory("ms-1", "The bank retries three times", { summary: "three retries" });
                const envelope = await kept.spine.agentHandoff({ target_agent: "coder", task_summary: "Write it",
                  memory_ids: ["ms-1", "ms-2", "ms-3"], strategy: "lazy" });
                await kept.spine.putMemory("ms-2", "It came late");
                return kept.spine.deliverHandoff(envelope)""")
            eventually(lambda: "ms-3" in [gap["id"] for gap in self.caller.state(done["id"])["gaps"]], "the gap is flagged")
            self.assertEqual(self.seen(), [[{"ms-1": "The bank retries three times"}, ["ms-2", "ms-3"], ["ms-3"],
                                            "It came late", None]])

    def test_what_was_omitted_is_in_the_ledger(self):
        decisions = [f"decision {number}: " + "because of the long reason " * 20 for number in range(20)]
        for _ in self.each("""kept.seen.push([received.omitted, (await received.ledger("decision")).map(({ value }) => value),
                              await received.brief()])"""):
            self.send(state={"decisions": decisions}, constraints={"max_tokens": 1000})
            [[omitted, ledger, brief]] = self.seen()
            self.assertGreater(omitted["decisions"], 5)
            self.assertEqual(ledger, decisions)
            self.assertIn("Write it", brief)

    def test_progress_and_long_work(self):
        for _ in self.each("""
                kept.seen.push(received.id);
                const released = new Promise((resolve) => { kept.release = resolve; });
                if (received.agent && kept.progress) await received.extend("ran 40 of 120 tests");
                await released;""", answer_within=0.2):
            self.node.run("kept.progress = way !== 'push'", way=self.way)
            accepted = self.send({"wait": False})
            if self.way != "push":
                eventually(lambda: self.caller.state(accepted["id"]).get("progress") == "ran 40 of 120 tests", "progress")
            else:
                self.caller.wait_for_state(accepted["id"], "awaiting_ack")
            self.node.run("kept.release()")
            self.caller.wait_for_state(accepted["id"], "acknowledged")
            self.assertEqual(self.seen(), [accepted["id"]])

    def test_deferred(self):
        for _ in self.each("""received.next("Review it", { target_agent: "reviewer" }); kept.seen.push(1);
                              kept.deferred = received.defer();""", {"reviewer": {}}):
            accepted = self.send({"wait": False})
            eventually(self.seen, "the agent has it")
            if self.way == "push":
                self.caller.wait_for_state(accepted["id"], "awaiting_ack")
            self.node.run("await kept.deferred.acknowledge()")
            self.assertEqual(self.caller.state(accepted["id"])["state"], "acknowledged")
            self.assertEqual(len(self.task(accepted)), 2)
            self.assertIn("answered before", self.fails("await kept.deferred.refuse('too late')")["message"])

    def test_a_duplicate_is_answered_again_and_not_done_again(self):
        for _ in self.each("""kept.seen.push(received.id); received.next("Review it", { target_agent: "reviewer" });
                              await new Promise((resolve) => { kept.release = resolve; });""", {"reviewer": {}},
                           answer_within=0.1):
            if self.way != "push":
                continue  # a lease is given to one poller; see Restarts
            first = self.send({"wait": False})
            self.caller.wait_for_state(first["id"], "awaiting_ack")
            push, headers = Http(self.url.partition("//")[2]), {"Handoff-Id": first["id"]}
            self.assertEqual(push.request("POST", "/", b"{}", headers).status, 202)
            self.node.run("kept.release()")
            self.caller.wait_for_state(first["id"], "acknowledged")
            again = push.request("POST", "/", b"{}", headers)
            self.assertEqual((again.status, again.json()["ack"]), (200, first["id"]))
            self.assertEqual(again.json()["next"]["target_agent"], "reviewer")
            self.assertEqual(self.seen(), [first["id"]])

    def test_what_is_no_handoff_is_rejected_by_a_push_server(self):
        url = self.node.run("""
            kept.seen = new handoff.SeenFile(path);
            kept.serving = await handoff.serving([handoff.agent("coder", () => 0, { receive: "http://127.0.0.1:0", seen: kept.seen })]);
            return kept.serving.urls[0]""", path=str(self.folder / "seen"))
        push = Http(url.split("/")[2])
        self.assertEqual(push.request("POST", "/", b"{}").status, 400)
        self.assertEqual(push.request("GET", "/").status, 400)
        self.node.run("await kept.serving.stop(); kept.seen.close()")

    def test_markdown_for_the_model_and_fields_for_the_program(self):
        for _ in self.each("kept.seen.push([(await received.brief())[0], received.task.summary])"):
            keys = {"format": "markdown", **({} if self.way != "push" else {"url": self.url})}
            self.daemon.write_config(config({"coder": keys}))
            self.assertEqual(self.daemon.reload().status, 200)
            self.send()
            self.assertEqual(self.seen(), [["#", "Write it"]])


class Restarts(Case):
    SERVE = "kept.seen = []; kept.serving = await handoff.serving([handoff.agent('coder', ({ id }) => { kept.seen.push(id); })]," \
            " { spine: kept.spine })"

    def test_a_lost_answer_is_given_again_after_a_restart_of_the_agent(self):
        self.start({"coder": {"ack_timeout": "1s"}, "reviewer": {}})
        accepted = self.send({"wait": False})
        self.node.run("""
            const seen = new handoff.SeenFile(path);
            seen.add(id, { ack: id, next: { source_agent: "coder", target_agent: "reviewer", task_summary: "Review it" } });
            seen.close();""", path=str(self.folder / "coder.seen"), id=accepted["id"])
        self.node.run(self.SERVE)
        self.caller.wait_for_state(accepted["id"], "acknowledged")
        steps = self.caller.call("GET", f"/v1/tasks/{accepted['task_id']}").json()["items"]
        self.assertEqual([step["target_agent"] for step in steps], ["coder", "reviewer"])
        self.assertEqual(self.node.run("return kept.seen"), [])

    def test_a_store_of_the_callers_own(self):
        self.node.run("kept.calls = []; kept.answers = new Map()")
        for _ in range(2):
            url = self.node.run("""
                const store = { get: async (id) => kept.answers.get(id), add: async (id, answer) => { kept.answers.set(id, answer); } };
                const coder = handoff.agent("coder", ({ id }) => { kept.calls.push(id); }, { receive: "http://127.0.0.1:0", seen: store });
                kept.serving = await handoff.serving([coder]);
                return kept.serving.urls[0]""")
            body = json.dumps({"envelope_version": "2.1", "context": {"task": {}}, "missing": [], "memory_refs": []})
            reply = Http(url.split("/")[2]).request("POST", "/", body, {"Handoff-Id": "id-1"})
            self.assertEqual((reply.status, reply.json()), (200, {"ack": "id-1"}))
            self.node.run("await kept.serving.stop()")
        self.assertEqual(self.node.run("return [kept.calls, [...kept.answers]]"), [["id-1"], [["id-1", {"ack": "id-1"}]]])

    def test_a_store_that_fails_for_a_moment(self):
        """Without its answer nothing is done; what it cannot keep is acknowledged, for it was done."""
        url = self.node.run("""
            Object.assign(kept, { calls: [], asked: 0 });
            const locked = async () => { throw new Error("the database is locked"); };
            const store = { get: async () => kept.asked++ === 0 ? locked() : undefined, add: locked };
            const coder = handoff.agent("coder", ({ id }) => { kept.calls.push(id); }, { receive: "http://127.0.0.1:0", seen: store });
            kept.serving = await handoff.serving([coder]);
            return kept.serving.urls[0]""")
        nacked = {"nack": "id-1", "reason": "Error: the database is locked", "retry": True}
        self.assertEqual([self.push(url).json() for _ in range(2)], [nacked, {"ack": "id-1"}])
        self.assertEqual(self.node.run("await kept.serving.stop(); return kept.calls"), ["id-1"])

    def test_a_duplicate_that_is_looked_up_while_the_work_ends(self):
        url = self.node.run("""
            Object.assign(kept, { calls: [], asked: 0, answers: new Map() });
            kept.first = new Promise((resolve) => { kept.ended = resolve; });
            kept.arrived = new Promise((resolve) => { kept.arrives = resolve; });
            const get = async (id) => {
              const found = kept.answers.get(id);
              if (++kept.asked === 2) {
                kept.arrives();
                await kept.first; // meanwhile the first is done
              }
              return found;
            };
            const store = { get, add: async (id, answer) => { kept.answers.set(id, answer); } };
            const work = async ({ id }) => {
              kept.calls.push(id);
              if (kept.calls.length === 1) await kept.arrived;
            };
            const spine = new handoff.MemorySpine();
            spine.json = async () => ({}); // the acknowledgement
            const coder = handoff.agent("coder", work, { receive: "http://127.0.0.1:0", seen: store, concurrency: 2 });
            kept.serving = await handoff.serving([coder], { spine });
            return kept.serving.urls[0]""")
        first = threading.Thread(target=self.push, args=(url,))
        first.start()
        eventually(lambda: self.node.run("return kept.calls.length"), "it is worked on")
        again = threading.Thread(target=lambda: (self.push(url), self.node.run("kept.arrives()")))
        again.start()
        first.join(TIMEOUT)
        self.node.run("kept.ended()")
        again.join(TIMEOUT)
        self.assertEqual(self.node.run("await kept.serving.stop(); return kept.calls"), ["id-1"])

    def push(self, url):
        body = json.dumps({"envelope_version": "2.1", "context": {"task": {}}, "missing": [], "memory_refs": []})
        return Http(url.split("/")[2]).request("POST", "/", body, {"Handoff-Id": "id-1"})

    def test_next_takes_only_json(self):
        url = self.node.run("""
            const next = (received) => received.next("Review it", { state: { decisions: [1n] } });
            kept.serving = await handoff.serving([handoff.agent("coder", next, { receive: "http://127.0.0.1:0" })]);
            return kept.serving.urls[0]""")
        self.assertIn("BigInt", self.push(url).json()["reason"])
        self.node.run("await kept.serving.stop()")

    def test_a_generator_is_no_agent(self):
        """A call of it does nothing, so each handoff would be acknowledged without any work."""
        for function in ("function* (received) { yield received; }", "async function* (received) { yield received; }"):
            error = self.fails(f'handoff.agent("coder", {function})')
            self.assertEqual(error["name"], "TypeError")
            self.assertIn("the function of coder is a generator", error["message"])

    def test_an_agent_outlives_its_sidecar(self):
        address = f"127.0.0.1:{self.enterContext(reserved_port())}"
        self.start({"coder": {}}, addresses={"api": address})
        self.node.run(self.SERVE)
        first = self.send()
        self.daemon.kill()
        self.daemon.launch()
        self.daemon.expected_exit = 0
        second = self.send()
        self.assertEqual(self.node.run("return kept.seen"), [first["id"], second["id"]])

    def test_a_wrong_token_ends_the_agent_with_the_reason(self):
        tokens = self.folder / "tokens"
        tokens.write_text("coder the-only-token-of-coder\n")
        self.start({"coder": {}}, api={"tokens_file": str(tokens)})
        self.spine(self.daemon.api.url, token="a-wrong-token-of-coder")
        self.node.run(self.SERVE)
        self.assertEqual(self.fails("await kept.serving.ended")["name"], "AuthenticationError")

    def test_one_process_for_each_file(self):
        path = str(self.folder / "coder.seen")
        self.node.run("kept.file = new handoff.SeenFile(path)", path=path)
        self.assertIn("in use by another process", self.fails("new handoff.SeenFile(path)", path=path)["message"])
        with Node() as other:
            with self.assertRaisesRegex(Failed, "in use by another process"):
                other.run("new handoff.SeenFile(path)", path=path)
            self.node.process.kill()
            self.node.process.wait()
            other.run("new handoff.SeenFile(path).close()", path=path)

    def test_the_file_stays_small_and_survives_a_torn_line(self):
        path = self.folder / "coder.seen"
        self.node.run("""
            const seen = new handoff.SeenFile(path, 10);
            for (let number = 0; number < 1000; number++) seen.add(`id-${number}`, { ack: `id-${number}` });
            seen.close();""", path=str(path))
        self.assertLess(path.stat().st_size, 2000)
        with open(path, "a", encoding="utf-8") as file:
            file.write('{"id": "torn", "ans')
        self.assertEqual(self.node.run("""
            const seen = new handoff.SeenFile(path, 10);
            const found = [seen.get("id-999"), seen.get("id-1") ?? null];
            seen.add("next", { ack: "next" });
            seen.close();
            const again = new handoff.SeenFile(path, 10);
            return [...found, again.get("next")]""", path=str(path)),
            [{"ack": "id-999"}, None, {"ack": "next"}])


class Documents(Case):
    """What README.md, docs/clients.md and examples/pipeline.mjs print runs as printed."""

    def start_program(self, text):
        path = pathlib.Path(clients.built_typescript().name) / f"{self.id()}.mjs"
        path.write_text(text.replace("http://127.0.0.1:8780", self.daemon.api.url), encoding="utf-8")
        process = subprocess.Popen(["node", str(path)], stdout=subprocess.PIPE, text=True, env=environment(
            HANDOFF_API_URL=self.daemon.api.url, HANDOFF_STATE_DIR=str(self.folder)))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process

    def check(self, text):
        output = self.start_program(text).communicate(timeout=TIMEOUT)[0]
        expected = re.findall(r"^// (.*)$", text, re.MULTILINE)
        self.assertTrue(expected)
        self.assertEqual(missing(expected, output), [], output)

    def test_the_tour(self):
        self.start({"reviewer": {}})
        self.check(blocks((clients.TOP / "README.md").read_text(), "ts")[0])

    def test_the_pipeline(self):
        self.daemon = self.enterContext(Daemon(config=(clients.TOP / "examples/pipeline.yml").read_text()))
        output = self.start_program((clients.TOP / "examples/pipeline.mjs").read_text()).communicate(timeout=TIMEOUT)[0]
        self.assertEqual([json.loads(line) for line in output.splitlines()],
                         ["Safe payments", ["Back off: The gateway answers 429 under load and never charges twice"],
                          {"max_retries": 3, "must": ["cover the backoff with tests"]}])

    def test_the_guide(self):
        receiver = self.enterContext(Receiver(ack))
        self.start({"reviewer": {"url": receiver.url}})
        sending, publishing, receiving = blocks((clients.TOP / "docs/clients.md").read_text(), "ts")
        self.check(sending)
        self.check(publishing)
        self.daemon.write_config(config({"reviewer": {}}))
        self.daemon.reload()
        reviewer = self.start_program(receiving)
        self.assertEqual(self.send(target_agent="reviewer", task_summary="the comparison")["state"], "acknowledged")
        self.assertEqual(reviewer.stdout.readline(), "the comparison []\n")
        self.assertEqual(self.fails_to_send(target_agent="reviewer", constraints={"reject": True})["code"], "refused")
        reviewer.terminate()  # it finishes what it has begun
        self.assertEqual(reviewer.wait(TIMEOUT), 0)


if __name__ == "__main__":
    unittest.main()
