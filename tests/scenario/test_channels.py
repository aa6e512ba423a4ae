# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Channels: one publication, a handoff for each receiver, and none of them waits for another."""

import collections
import concurrent.futures
import contextlib
import datetime
import os
import subprocess
import tempfile
import unittest
import uuid

from prometheus_client.parser import text_string_to_metric_families

from harness import eventually
from harness.agents import Caller, config, daemon_with
from harness.receiver import Hold, Receiver, ack, later, nack, status

HANDOFFCTL = os.environ["HANDOFFCTL"]
CHANNEL = "oauth-migration"
TASK = "task-7100"


def ack_envelope(request):
    """As an agent does that knows handoffs only: it acknowledges the id that the document has."""
    request.answer(200, {"ack": request.json()["id"]})


class Case(unittest.TestCase):
    maxDiff = None

    def start(self, receivers=None, agents=None, tokens=None, **channel):
        """receivers: {name: step or None for one that pulls}, all of them receivers of the channel."""
        self.stack = self.enterContext(contextlib.ExitStack())
        self.receivers = {}
        configured = dict(agents or {})
        for name, step in (receivers or {}).items():
            keys = dict(configured.get(name, {}))
            if step:
                self.receivers[name] = self.stack.enter_context(Receiver(step))
                keys["url"] = self.receivers[name].url
            configured[name] = keys
        channel.setdefault("receivers", list(receivers or {}))
        self.daemon = self.stack.enter_context(daemon_with(
            configured, channels={CHANNEL: channel, "other-work": {}}, **(tokens or {})))
        self.caller = Caller(self.daemon, "researcher")

    def request(self, **fields):
        return {"source_agent": "researcher", "task_id": TASK,
                "task_summary": "Research on the OAuth 2.1 migration is complete", **fields}

    def post(self, body, channel=CHANNEL, **headers):
        return self.caller.call("POST", f"/v1/channels/{channel}/publish", body, **headers)

    def publish(self, receivers=None, channel=CHANNEL, headers=None, **fields):
        body = {"request": self.request(**fields)}
        if receivers is not None:
            body["receivers"] = receivers
        reply = self.post(body, channel, **(headers or {}))
        self.assertIn(reply.status, (200, 202), reply)
        return reply.json()

    def publication(self, identifier, channel=CHANNEL):
        reply = self.caller.call("GET", f"/v1/channels/{channel}/publications/{identifier}")
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def states(self, identifier):
        return {one["receiver"]: one["state"] for one in self.publication(identifier)["deliveries"]}

    def wait_for_states(self, identifier, **states):
        wanted = {name.replace("_", "-"): state for name, state in states.items()}
        eventually(lambda: self.states(identifier) == wanted, f"{wanted}")

    def channel(self):
        found = self.caller.call("GET", f"/v1/channels/{CHANNEL}").json()
        return {one["agent"]: (one["pending"], one["parked"]) for one in found["receivers"]}

    def feeds(self, metric):
        """{receiver: value} of the channel."""
        found = {}
        for family in text_string_to_metric_families(self.daemon.web.get("/metrics").text):
            found |= {sample.labels["receiver"]: sample.value for sample in family.samples
                      if sample.name == metric and sample.labels["channel"] == CHANNEL}
        return found

    def restart(self):
        """After a kill. What is read of the log is the new process's."""
        os.truncate(self.daemon.log_path, 0)
        self.daemon.start()
        self.daemon.expected_exit = 0

    def check_store(self, audit=True):
        store = str(self.daemon.folder / "data")
        for command in (["store", "check", store], *([["audit", store, TASK]] if audit else [])):
            done = subprocess.run([HANDOFFCTL, *command], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Publishing(Case):
    def test_a_dead_and_a_slow_receiver_delay_nobody(self):
        slow = Hold()
        self.addCleanup(slow.release)
        self.start({"code-generator": ack, "test-writer": slow, "doc-writer": status(500)})
        made = self.publish()
        self.assertEqual({one["receiver"]: one["state"] for one in made["deliveries"]},
                         {"code-generator": "ready", "test-writer": "ready", "doc-writer": "ready"})
        eventually(lambda: self.states(made["id"]) == {
            "code-generator": "acknowledged", "test-writer": "in_flight", "doc-writer": "parked"},
                   "the others go")
        self.assertEqual(self.channel(),
                         {"code-generator": (0, 0), "test-writer": (1, 0), "doc-writer": (0, 1)})
        slow.release()
        self.wait_for_states(made["id"], code_generator="acknowledged", test_writer="acknowledged",
                             doc_writer="parked")
        handoffs = {one["receiver"]: one["handoff_id"] for one in made["deliveries"]}
        bodies = {name: receiver.wait_for(1)[0] for name, receiver in self.receivers.items()}
        self.assertEqual({name: request.id for name, request in bodies.items()}, handoffs)
        self.assertEqual({request.raw for request in bodies.values()},
                         {bodies["doc-writer"].raw})
        document = bodies["doc-writer"].json()
        self.assertEqual((document["id"], document["pattern"], document["channel"],
                          document["target_agent"]), (made["id"], "broadcast", CHANNEL, "broadcast"))
        self.receivers["doc-writer"].do(ack)
        replay = self.caller.call("POST", f"/v1/parked/{handoffs['doc-writer']}/replay")
        self.assertEqual(replay.status, 200, replay)
        self.wait_for_states(made["id"], code_generator="acknowledged", test_writer="acknowledged",
                             doc_writer="acknowledged")
        self.check_store()

    def test_an_acknowledgement_may_name_the_envelope(self):
        self.start({"code-generator": ack_envelope, "test-writer": ack_envelope})
        made = self.publish(headers={"prefer": "wait=20"})
        self.assertEqual({one["state"] for one in made["deliveries"]}, {"acknowledged"})
        self.assertEqual({one["attempts"] for one in made["deliveries"]}, {1})

    def test_receivers_are_narrowed_or_named(self):
        self.start({"code-generator": ack, "test-writer": ack}, agents={"reviewer": {}})
        one = self.publish(["test-writer"])
        self.assertEqual([delivery["receiver"] for delivery in one["deliveries"]], ["test-writer"])
        named = self.publish(["reviewer"], channel="other-work")
        self.assertEqual([delivery["receiver"] for delivery in named["deliveries"]], ["reviewer"])
        nobody = self.post({"request": self.request()}, "other-work")
        self.assertEqual((nobody.status, nobody.json()["deliveries"]), (200, []))
        self.check_store()

    def test_a_publisher_does_not_hand_work_to_itself(self):
        self.start({"code-generator": ack, "researcher": ack})
        made = self.publish()
        self.assertEqual([one["receiver"] for one in made["deliveries"]], ["code-generator"])
        made = self.publish(["researcher"])
        self.assertEqual([one["receiver"] for one in made["deliveries"]], ["researcher"])

    def test_the_answer_waits_for_all_or_until_the_time_is_over(self):
        slow = Hold()
        self.addCleanup(slow.release)
        self.start({"code-generator": ack, "test-writer": slow})
        reply = self.post({"request": self.request()}, prefer="wait=1")
        self.assertEqual((reply.status, reply.header("Preference-Applied")), (202, "wait=1"), reply)
        self.wait_for_states(reply.json()["id"], code_generator="acknowledged", test_writer="in_flight")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(self.post, {"request": self.request()}, prefer="wait=60")
            self.receivers["test-writer"].wait_for(2)
            slow.release()
            reply = waiting.result()
        self.assertEqual((reply.status, {one["state"] for one in reply.json()["deliveries"]}),
                         (200, {"acknowledged"}), reply)

    def test_an_assembled_envelope_is_published_once(self):
        self.start({"code-generator": ack, "test-writer": ack}, agents={"doc-writer": {}})
        draft = self.caller.call("POST", "/v1/envelopes", self.request(target_agent="broadcast")).json()
        body = {"envelope_id": draft["id"], "receivers": ["test-writer", "code-generator"]}
        first = self.post(body)
        self.assertEqual((first.status, first.json()["id"]), (202, draft["id"]), first)
        self.wait_for_states(draft["id"], code_generator="acknowledged", test_writer="acknowledged")
        again = self.post(body)
        self.assertEqual((again.status, again.json()), (200, self.publication(draft["id"])))
        self.assertEqual(self.post({**body, "receivers": ["test-writer"]}).json(), again.json())
        self.assertEqual(self.post(body, idempotency_key="a new one").json(), again.json())
        self.publish(headers={"idempotency_key": "of another request"})
        used = self.post(body, idempotency_key="of another request")
        self.assertEqual((used.status, used.json()["code"]), (409, "idempotency_conflict"), used)
        for other in (self.post(body, "other-work"), self.post({**body, "receivers": ["doc-writer"]})):
            self.assertEqual((other.status, other.json()["code"]), (409, "conflict"), other)
        self.assertEqual(other.json()["seen"], "doc-writer")
        self.assertEqual(self.receivers["test-writer"].wait_for(1)[0].json(), draft)
        for call, sent in (("/v1/envelopes/" + draft["id"] + "/deliver", {}),
                           ("/v1/handoffs", self.request(target_agent="broadcast"))):
            problem = self.caller.call("POST", call, sent).json()
            self.assertEqual((problem["code"], problem["seen"]), ("unknown_agent", "broadcast"), problem)
            self.assertIn("POST /v1/channels/{channel}/publish", problem["detail"])
        direct = self.caller.call("POST", "/v1/envelopes", self.request(target_agent="test-writer")).json()
        refused = self.post({"envelope_id": direct["id"]})
        self.assertEqual((refused.status, refused.json()["field"]), (400, "envelope_id"), refused)
        self.check_store()

    def test_a_key_answers_with_the_first_publication(self):
        self.start({"code-generator": ack})
        first = self.publish(headers={"idempotency_key": "run-17"})
        again = self.publish(headers={"idempotency_key": "run-17", "prefer": "wait=20"})
        self.assertEqual(again["id"], first["id"])
        self.assertEqual(len(self.receivers["code-generator"].requests), 1)
        direct = {**self.request(), "target_agent": "code-generator"}
        for other in (self.post({"request": self.request(task_summary="Another")}, idempotency_key="run-17"),
                      self.post({"request": self.request(), "receivers": ["code-generator"]}, idempotency_key="run-17"),
                      self.post({"request": self.request()}, "other-work", idempotency_key="run-17"),
                      self.caller.call("POST", "/v1/handoffs", direct, idempotency_key="run-17")):
            self.assertEqual((other.status, other.json()["code"]), (409, "idempotency_conflict"), other)
            self.assertEqual(other.json()["publication"], self.publication(first["id"]))

    def test_a_key_of_a_handoff_is_not_one_of_a_publication(self):
        self.start({"code-generator": ack})
        direct = {**self.request(), "target_agent": "code-generator"}
        first = self.caller.call("POST", "/v1/handoffs", direct, idempotency_key="run-17").json()
        other = self.post({"request": self.request()}, idempotency_key="run-17")
        self.assertEqual((other.status, other.json()["code"]), (409, "idempotency_conflict"), other)
        self.assertEqual(other.json()["handoff"]["id"], first["id"])

    def test_concurrent_repeats_publish_once(self):
        self.start({"code-generator": ack, "test-writer": ack})
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda _: self.publish(headers={"idempotency_key": "k"})["id"], range(16)))
        self.assertEqual(len(set(made)), 1)
        listed = self.caller.call("GET", f"/v1/channels/{CHANNEL}/publications").json()["items"]
        self.assertEqual([one["id"] for one in listed], made[:1])

    def test_what_is_wrong_is_refused_and_nothing_is_stored(self):
        self.start({"code-generator": ack}, agents={"closed": {"from": ["planner"]}})
        for body, channel, wanted in (
                ({"request": self.request()}, "oauth-migrations", (404, "unknown_channel")),
                ({"request": self.request(), "receivers": ["coder"]}, CHANNEL, (404, "unknown_agent")),
                ({"request": self.request(), "receivers": ["closed"]}, CHANNEL, (403, "forbidden")),
                ({"request": self.request(), "receivers": ["closed", "closed"]}, CHANNEL, (400, "invalid_request")),
                ({"request": self.request(target_agent="code-generator")}, CHANNEL, (400, "invalid_request")),
                ({"request": self.request(task_summary=None)}, CHANNEL, (400, "invalid_request")),
                ({"request": self.request(), "envelope_id": str(uuid.uuid4())}, CHANNEL, (400, "invalid_request")),
                ({"request": self.request(), "receivers": []}, CHANNEL, (400, "invalid_request")),
                ({"envelope_id": str(uuid.uuid4())}, CHANNEL, (404, "not_found")),
                ({}, CHANNEL, (400, "invalid_request"))):
            with self.subTest(body=body, channel=channel):
                reply = self.post(body, channel)
                self.assertEqual((reply.status, reply.json()["code"]), wanted, reply)
        near = self.post({"request": self.request()}, "oauth-migrations").json()
        self.assertEqual(near["allowed"], "oauth-migration (the nearest name)")
        lost = str(uuid.uuid4())
        for body in ({"envelope_id": lost}, {"envelope_id": "first"}):
            problem = self.post(body).json()
            self.assertEqual((problem["field"], problem["seen"]), ("envelope_id", body["envelope_id"]), problem)
            self.assertIn("no envelope has this id", problem["detail"])
        for one in (lost, "first"):
            problem = self.caller.call("GET", f"/v1/channels/{CHANNEL}/publications/{one}").json()
            self.assertIn("no publication has this id", problem["detail"])
        self.assertEqual(self.caller.call("GET", "/v1/handoffs").json()["items"], [])

    def test_a_long_request_is_prepared_on_a_worker(self):
        self.start({"code-generator": ack})
        made = self.publish(headers={"prefer": "wait=20", "idempotency_key": "long"},
                            execution_history=[{"agent": "researcher", "action": "x" * 1000}] * 200,
                            strategy="lazy")
        self.assertEqual(made["deliveries"][0]["state"], "acknowledged")


class Versions(Case):
    def test_an_agent_that_reads_version_1_gets_it_whenever_it_came_to_the_channel(self):
        old = self.enterContext(Receiver(ack))
        self.start({"code-generator": ack},
                   agents={"old": {"url": old.url, "accepts": ["1"], "emit": "dual"}})
        self.publish(headers={"prefer": "wait=20"})
        subscribed = self.caller.call("PUT", f"/v1/channels/{CHANNEL}/receivers/old", {"from": "all"})
        self.assertEqual(subscribed.status, 200, subscribed)
        alone = old.wait_for(1)[0].json()
        self.assertEqual((alone["from"], "envelope_version" in alone), ("researcher", False), alone)
        eventually(lambda: not any(one["catching_up"] for one in self.caller.call(
            "GET", f"/v1/channels/{CHANNEL}").json()["receivers"]), "it has caught up")
        self.publish(headers={"prefer": "wait=20"})
        dual = old.wait_for(2)[1].json()
        self.assertEqual((dual["from"], dual["envelope_version"]), ("researcher", "2.1"))


class Budgets(Case):
    def test_one_that_cannot_take_even_a_projection_is_parked_and_the_others_go(self):
        self.start({"code-generator": ack, "test-writer": ack, "auditor": ack},
                   agents={"code-generator": {"token_budget": 4000}, "test-writer": {"token_budget": 2000},
                           "auditor": {"token_budget": 20}})
        made = self.publish(headers={"prefer": "wait=20"})
        self.assertEqual({one["receiver"]: (one["state"], one["reason"]) for one in made["deliveries"]},
                         {"code-generator": ("acknowledged", ""), "test-writer": ("acknowledged", ""),
                          "auditor": ("parked", "budget_too_small")})
        document = self.receivers["code-generator"].requests[0].json()
        self.assertEqual(document["tokens"]["budget"], 2000)

    STEPS = [{"agent": "researcher", "action": f"read chapter {number} of the specification"}
             for number in range(40)]

    def publish_too_much(self, **headers):
        """For all but `auditor`, which gets what it has room for."""
        self.start({"code-generator": ack, "test-writer": ack, "auditor": headers.pop("auditor", ack)},
                   agents={"code-generator": {"token_budget": 16000}, "test-writer": {"token_budget": 8000},
                           "auditor": {"token_budget": 300}})
        return self.publish(headers=headers, execution_history=self.STEPS)

    def test_a_small_receiver_gets_a_projection(self):
        made = self.publish_too_much(prefer="wait=20")
        self.assertEqual({one["state"] for one in made["deliveries"]}, {"acknowledged"}, made)
        by_receiver = {one["receiver"]: one for one in made["deliveries"]}
        self.assertEqual({name: one["envelope_id"] for name, one in by_receiver.items()},
                         {"code-generator": made["id"], "test-writer": made["id"],
                          "auditor": by_receiver["auditor"]["handoff_id"]})
        shared = self.receivers["code-generator"].requests[0].json()
        sent = self.receivers["auditor"].requests[0]
        own = sent.json()
        self.assertEqual(own["id"], sent.id)
        self.assertEqual(own["projection_of"], {"id": shared["id"], "digest": shared["digest"]})
        self.assertNotIn("projection_of", shared)
        self.assertEqual(len(shared["context"]["history"]), len(self.STEPS))
        self.assertEqual(own["tokens"]["budget"], 300)
        self.assertLessEqual(own["tokens"]["count"], 300)
        self.assertEqual(own["omitted"]["steps"],
                         len(self.STEPS) - len(own["context"]["history"]))
        self.assertGreater(len(own["context"]["history"]), 0)
        for name in ("task_id", "channel", "pattern", "target_agent", "hop", "parents", "trace"):
            self.assertEqual(own[name], shared[name], name)
        self.assertEqual(own["omitted"]["more"], f"/v1/envelopes/{made['id']}/ledger")
        ledger = self.caller.call("GET", f"{own['omitted']['more']}?kind=step&limit=100").json()
        self.assertEqual(len(ledger["items"]), len(self.STEPS))
        self.check_store()

    def test_a_projection_survives_a_restart_and_is_continued(self):
        made = self.publish_too_much(auditor=later)
        auditor = self.receivers["auditor"]
        before = auditor.wait_for(1)[0]
        self.wait_for_states(made["id"], code_generator="acknowledged", test_writer="acknowledged",
                             auditor="awaiting_ack")
        self.daemon.kill()
        auditor.do(ack)
        self.restart()
        self.wait_for_states(made["id"], code_generator="acknowledged", test_writer="acknowledged",
                             auditor="awaiting_ack")
        acked = self.caller.call("POST", f"/v1/handoffs/{before.id}/ack", {})
        self.assertEqual(acked.status, 200, acked)
        stored = self.caller.call("GET", f"/v1/handoffs/{before.id}/envelope")
        self.assertEqual(stored.json(), before.json())
        onward = self.caller.call("POST", "/v1/envelopes", {
            "source_agent": "auditor", "target_agent": "code-generator", "task_id": TASK,
            "task_summary": "Watched"}).json()
        self.assertEqual(onward["parents"][0]["id"], before.id)
        self.assertGreaterEqual(len(onward["context"]["history"]), len(self.STEPS))
        self.check_store()

    def test_a_parked_projection_is_edited_or_goes_elsewhere(self):
        made = self.publish_too_much(auditor=nack("no", False))
        self.wait_for_states(made["id"], code_generator="acknowledged", test_writer="acknowledged", auditor="parked")
        parked = next(one["handoff_id"] for one in made["deliveries"] if one["receiver"] == "auditor")
        self.receivers["auditor"].do(ack)
        edited = self.caller.call("POST", f"/v1/parked/{parked}/replay",
                                  {"edit": {"task_summary": "Watch less"}, "reason": "shorter"})
        self.assertEqual(edited.status, 200, edited)
        again = self.receivers["auditor"].wait_for(2)[1].json()
        self.assertEqual((again["context"]["task"]["summary"], again["replaces"]["id"]), ("Watch less", parked))
        self.assertLessEqual(again["tokens"]["count"], 300)
        second = self.publish(execution_history=self.STEPS, task_id="task-7200", receivers=["auditor"])
        self.wait_for_states(second["id"], auditor="acknowledged")
        self.check_store(audit=False)

    def test_projections_of_many_receivers_are_made_in_turns(self):
        small = {f"auditor-{number:02}": {"token_budget": 200 + number} for number in range(60)}
        self.start({"code-generator": ack, **{name: None for name in small}},
                   agents={"code-generator": {"token_budget": 4000}, **small})
        made = self.publish(execution_history=self.STEPS)
        self.assertEqual({one["state"] for one in made["deliveries"]}, {"ready"})
        self.assertEqual(sum(one["envelope_id"] == one["handoff_id"] for one in made["deliveries"]), 60)
        for name in ("auditor-00", "auditor-59"):
            pulled = self.caller.call("GET", f"/v1/agents/{name}/inbox").json()
            self.assertEqual(pulled["tokens"]["budget"], small[name]["token_budget"])
            self.assertLessEqual(pulled["tokens"]["count"], small[name]["token_budget"])
        self.check_store()

    def assemble_too_much(self, **fields):
        """Of what only the auditor cannot take all."""
        draft = self.caller.call("POST", "/v1/envelopes", self.request(
            target_agent="broadcast", execution_history=self.STEPS, constraints={"max_tokens": 8000}, **fields))
        self.assertEqual(draft.status, 200, draft)
        return draft.json()

    def check_projection(self, own, draft, budget=300):
        self.assertEqual(own["projection_of"], {"id": draft["id"], "digest": draft["digest"]})
        self.assertNotIn("replaces", own)
        self.assertNotEqual(own["id"], draft["id"])
        self.assertLessEqual(own["tokens"]["count"], budget)
        self.assertEqual(own["omitted"]["steps"], len(self.STEPS) - len(own["context"]["history"]))
        self.assertGreater(len(own["context"]["history"]), 0)
        self.assertEqual(own["omitted"]["more"], f"/v1/envelopes/{draft['id']}/ledger")
        self.assertEqual(own["context"]["constraints"], draft["context"]["constraints"])
        for name in ("task_id", "pattern", "target_agent", "hop", "parents", "trace"):
            self.assertEqual(own.get(name), draft.get(name), name)

    def test_what_was_assembled_before_is_projected_too(self):
        self.start({"code-generator": ack, "test-writer": ack, "auditor": ack, "gate": ack},
                   agents={"code-generator": {"token_budget": 16000}, "test-writer": {"token_budget": 8000},
                           "auditor": {"token_budget": 300}, "gate": {"token_budget": 20}})
        draft = self.assemble_too_much(memory_ids=["ms-gone"])
        self.assertGreater(draft["tokens"]["count"], 300)
        made = self.post({"envelope_id": draft["id"]}, prefer="wait=20").json()
        self.assertEqual({one["receiver"]: (one["state"], one["reason"]) for one in made["deliveries"]},
                         {"code-generator": ("acknowledged", ""), "test-writer": ("acknowledged", ""),
                          "auditor": ("acknowledged", ""), "gate": ("parked", "budget_too_small")})
        own = {one["receiver"]: one for one in made["deliveries"]}["auditor"]
        self.assertEqual(own["envelope_id"], own["handoff_id"])
        self.assertEqual(self.receivers["code-generator"].requests[0].json(), draft)
        sent = self.receivers["auditor"].requests[0]
        self.assertEqual(sent.json()["id"], sent.id)
        self.check_projection(sent.json(), draft)
        self.assertEqual(self.caller.call("GET", f"/v1/handoffs/{sent.id}/envelope").json(), sent.json())
        self.check_store()

    def test_who_catches_up_with_a_small_budget_gets_projections(self):
        self.start({"code-generator": ack}, agents={"code-generator": {"token_budget": 16000}, "auditor": {"token_budget": 300}})
        made = [self.publish(execution_history=self.STEPS)["id"] for _ in range(20)]
        draft = self.assemble_too_much()
        self.assertIn(self.post({"envelope_id": draft["id"]}).status, (200, 202))
        short = self.publish()
        reply = self.caller.call("PUT", f"/v1/channels/{CHANNEL}/receivers/auditor", {"from": "all"})
        self.assertEqual(reply.status, 200, reply)
        for published in [*made, draft["id"]]:
            envelope = self.caller.call("GET", f"/v1/envelopes/{published}").json()
            pulled = self.caller.call("GET", "/v1/agents/auditor/inbox?wait=20s")
            self.assertEqual(pulled.status, 200, pulled)
            self.check_projection(pulled.json(), envelope)
            self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{pulled.json()['id']}/ack", {}).status, 200)
        pulled = self.caller.call("GET", "/v1/agents/auditor/inbox?wait=20s").json()
        self.assertEqual(pulled["id"], short["id"])
        self.assertNotIn("projection_of", pulled)
        self.check_store()

    def test_a_channel_may_have_a_budget(self):
        self.start({"code-generator": ack}, token_budget=1500)
        self.publish(headers={"prefer": "wait=20"})
        document = self.receivers["code-generator"].requests[0].json()
        self.assertEqual(document["tokens"]["budget"], 1500)


class Continuing(Case):
    def next_of(self, source, **fields):
        reply = self.caller.call("POST", "/v1/envelopes", {
            "source_agent": source, "target_agent": "code-generator", "task_id": TASK,
            "task_summary": f"{source} is done", **fields})
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def test_each_receiver_continues_its_own_delivery(self):
        self.start({"code-generator": ack, "test-writer": ack})
        made = self.publish(headers={"prefer": "wait=20"}, intent="Migrate to OAuth 2.1",
                            constraints={"must_not": ["log tokens"]},
                            state={"decisions": ["use PKCE"]})
        handoffs = {one["receiver"]: one["handoff_id"] for one in made["deliveries"]}
        digest = self.receivers["test-writer"].requests[0].json()["digest"]
        for name in handoffs:
            document = self.next_of(name)
            self.assertEqual(document["previous"], {"id": handoffs[name], "digest": digest})
            self.assertEqual(document["hop"]["count"], 2)
            self.assertEqual(document["hop"]["path"], ["researcher"])
            self.assertEqual(document["context"]["task"]["intent"], "Migrate to OAuth 2.1")
            self.assertEqual(document["context"]["task"]["state"]["decisions"], ["use PKCE"])
            self.assertEqual(document["context"]["constraints"], {"must_not": ["log tokens"]})
        self.check_store()

    def test_deliveries_of_an_assembled_envelope_too(self):
        self.start({"code-generator": ack})
        draft = self.caller.call("POST", "/v1/envelopes", self.request(
            target_agent="broadcast", constraints={"language": "python"})).json()
        made = self.post({"envelope_id": draft["id"]}, prefer="wait=20").json()
        document = self.next_of("code-generator")
        self.assertEqual(document["previous"]["id"], made["deliveries"][0]["handoff_id"])
        self.assertEqual(document["context"]["constraints"], {"language": "python"})
        self.assertEqual(self.next_of("code-generator", previous_id=draft["id"])["previous"],
                         {"id": draft["id"], "digest": draft["digest"]})
        self.check_store()


class Pulling(Case):
    def pull(self, agent="reviewer"):
        return self.caller.call("GET", f"/v1/agents/{agent}/inbox?wait=10s")

    def test_a_receiver_that_pulls_finds_each_publication(self):
        self.start({"reviewer": None, "code-generator": ack})
        made = [self.publish(task_summary=f"part {i}")["id"] for i in range(5)]
        pulled = []
        for _ in made:
            reply = self.pull()
            self.assertEqual(reply.status, 200, reply)
            pulled.append(reply.json()["id"])
            self.assertEqual(reply.header("Handoff-Previous-Id"), pulled[-1])
            handoff = reply.header("Handoff-Id")
            self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)
        self.assertEqual(sorted(pulled), sorted(made))
        self.assertEqual(self.channel()["reviewer"], (0, 0))

    def test_a_restart_goes_on_where_it_was(self):
        self.start({"reviewer": None, "code-generator": ack, "test-writer": later})
        made = [self.publish(task_summary=f"part {i}")["id"] for i in range(3)]
        for identifier in made:
            eventually(lambda one=identifier: self.states(one)["code-generator"] == "acknowledged", "it arrived")
        self.daemon.kill()
        self.check_store()
        self.restart()
        pulled = [self.pull() for _ in made]
        self.assertEqual(sorted(reply.json()["id"] for reply in pulled), sorted(made))
        self.assertEqual([self.states(one)["code-generator"] for one in made], ["acknowledged"] * 3)
        for reply in pulled:
            self.caller.call("POST", f"/v1/handoffs/{reply.header('Handoff-Id')}/ack")
        for identifier in made:
            self.assertEqual(self.states(identifier)["reviewer"], "acknowledged")


class Acknowledging(Case):
    def test_without_a_token_the_id_of_the_envelope_names_the_only_delivery(self):
        self.start({"reviewer": None}, agents={"doc-writer": {}})
        made = self.publish()
        pulled = self.caller.call("GET", "/v1/agents/reviewer/inbox?wait=10s")
        self.assertEqual(pulled.json()["id"], made["id"])
        acked = self.caller.call("POST", f"/v1/handoffs/{made['id']}/ack")
        self.assertEqual((acked.status, acked.json()["id"], acked.json()["state"]),
                         (200, pulled.header("Handoff-Id"), "acknowledged"), acked)

    def test_without_a_token_several_receivers_are_told_apart_by_their_handoffs(self):
        self.start({"reviewer": None, "doc-writer": None})
        made = self.publish()
        pulled = self.caller.call("GET", "/v1/agents/reviewer/inbox?wait=10s")
        for word in ("ack", "nack", "extend"):
            refused = self.caller.call("POST", f"/v1/handoffs/{made['id']}/{word}", {})
            self.assertEqual((refused.status, refused.json()["code"]), (409, "conflict"), refused)
            self.assertIn("Handoff-Id", refused.json()["detail"])
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{pulled.header('Handoff-Id')}/ack").status, 200)
        self.wait_for_states(made["id"], reviewer="acknowledged", doc_writer="ready")
        unknown = self.caller.call("POST", f"/v1/handoffs/{uuid.uuid4()}/ack")
        self.assertEqual(unknown.status, 404, unknown)


class Briefs(Case):
    """An agent that is given the brief alone: which handoff it acknowledges, and where it came from."""

    def acknowledge_by(self, brief):
        [handoff] = [line.removeprefix("- handoff: ") for line in brief.splitlines() if line.startswith("- handoff: ")]
        reply = self.caller.call("POST", f"/v1/handoffs/{handoff}/ack")
        self.assertEqual((reply.status, reply.json().get("id")), (200, handoff), reply)
        return handoff

    def pull_brief(self, agent):
        reply = self.caller.call("GET", f"/v1/agents/{agent}/inbox?wait=10s")
        self.assertEqual(reply.header("Content-Type"), "text/markdown; charset=utf-8", reply)
        self.assertIn(f"- handoff: {reply.header('Handoff-Id')}\n", reply.text)
        return reply.text

    def test_each_receiver_is_named_its_own_handoff(self):
        brief = {"format": "markdown"}
        self.start({"reviewer": None, "doc-writer": None, "code-generator": later},
                   agents={name: brief for name in ("reviewer", "doc-writer", "code-generator")})
        made = self.publish()
        got = [self.receivers["code-generator"].wait_for(1)[0].raw.decode(), *map(self.pull_brief, ("doc-writer", "reviewer"))]
        self.assertEqual([text.splitlines()[0] for text in got],
                         [f"# Handoff from researcher to {name}" for name in ("code-generator", "doc-writer", "reviewer")])
        for text in got:
            self.assertIn(f"\n- channel: {CHANNEL}\n", text)
        self.wait_for_states(made["id"], code_generator="awaiting_ack", doc_writer="in_flight", reviewer="in_flight")
        acknowledged = [self.acknowledge_by(text) for text in got]
        self.assertEqual(sorted(acknowledged), sorted(one["handoff_id"] for one in made["deliveries"]))
        self.wait_for_states(made["id"], code_generator="acknowledged", doc_writer="acknowledged", reviewer="acknowledged")
        for handoff, text in zip(acknowledged, got):
            again = self.caller.call("GET", f"/v1/handoffs/{handoff}/envelope", accept="text/markdown")
            self.assertEqual(again.text, text)

    def test_of_the_publication_itself_it_names_no_receiver(self):
        self.start({"reviewer": None})
        brief = self.caller.call("GET", f"/v1/envelopes/{self.publish()['id']}", accept="text/markdown").text
        self.assertEqual(brief.splitlines()[0], "# Handoff from researcher to broadcast")
        self.assertIn(f"\n- channel: {CHANNEL}\n", brief)

    def test_an_alternate_reads_which_receiver_it_was_for(self):
        self.start({"reviewer": status(404)}, agents={"reviewer": {"alternates": ["spare"]}, "spare": {"format": "markdown"}})
        self.publish()
        self.assertEqual(self.pull_brief("spare").splitlines()[0], "# Handoff from researcher to reviewer")

    def test_one_that_was_assembled_before_names_no_channel(self):
        self.start({"reviewer": None}, agents={"reviewer": {"format": "markdown"}})
        draft = self.caller.call("POST", "/v1/envelopes", self.request(target_agent="broadcast")).json()["id"]
        self.post({"envelope_id": draft})
        text = self.pull_brief("reviewer")
        self.assertEqual(text.splitlines()[0], "# Handoff from researcher to reviewer")
        self.assertNotIn("- channel:", text)
        self.acknowledge_by(text)


class Measures(Case):
    """What metrics and the status page say of a channel, and that a restart does not change it."""

    def on_the_page(self):
        return {one["receiver"]: (one["subscribed"], one["pending"])
                for one in self.daemon.web.get("/?format=json").json()["channels"]}

    def configure(self, receivers):
        agents = {name: {"url": self.receivers[name].url} if name in self.receivers else {}
                  for name in ("code-generator", "doc-writer", "reviewer")}
        self.daemon.write_config(config(agents,
                                        channels={CHANNEL: {"receivers": receivers}}))
        reply = self.daemon.reload()
        self.assertEqual(reply.status, 200, reply)

    def test_receivers_are_counted_from_the_start(self):
        self.start({"code-generator": ack, "doc-writer": None})
        zeros = {"code-generator": 0, "doc-writer": 0}
        for metric in ("handoff_channel_published_total", "handoff_channel_pending", "handoff_channel_redelivered_total",
                       "handoff_channel_oldest_pending_seconds"):
            self.assertEqual(self.feeds(metric), zeros, metric)
        self.assertEqual(self.on_the_page(), {"code-generator": (True, 0), "doc-writer": (True, 0)})

    def test_each_receiver_has_exact_counts_and_a_restart_keeps_what_is_pending(self):
        self.start({"code-generator": ack, "doc-writer": None}, agents={"reviewer": {}})
        self.receivers["code-generator"].do(status(503), ack)
        made = [self.publish()["id"] for _ in range(2)]
        named = self.publish(["reviewer"])["id"]
        for identifier in made:
            self.wait_for_states(identifier, code_generator="acknowledged", doc_writer="ready")
        published = {"code-generator": 2, "doc-writer": 2, "reviewer": 1}
        pending = {"code-generator": 0, "doc-writer": 2, "reviewer": 1}
        self.assertEqual(self.feeds("handoff_channel_published_total"), published)
        self.assertEqual(self.feeds("handoff_channel_pending"), pending)
        self.assertEqual(self.feeds("handoff_channel_redelivered_total"),
                         {"code-generator": 1, "doc-writer": 0, "reviewer": 0})
        oldest = self.feeds("handoff_channel_oldest_pending_seconds")
        self.assertEqual({name: age > 0 for name, age in oldest.items()},
                         {"code-generator": False, "doc-writer": True, "reviewer": True})
        self.daemon.kill()
        self.restart()
        self.assertEqual(self.feeds("handoff_channel_pending"), pending)
        later = self.feeds("handoff_channel_oldest_pending_seconds")
        self.assertGreater(later["doc-writer"], oldest["doc-writer"])
        self.assertEqual(self.on_the_page(), {"code-generator": (True, 0), "doc-writer": (True, 2), "reviewer": (False, 1)})
        self.assertIn("not subscribed", self.daemon.web.get("/").text)
        self.assertEqual(self.states(named), {"reviewer": "ready"})

    def test_a_receiver_that_left_is_counted_until_it_has_nothing_pending(self):
        self.start({"code-generator": ack, "doc-writer": None}, agents={"reviewer": {}})
        made = self.publish()
        self.wait_for_states(made["id"], code_generator="acknowledged", doc_writer="ready")
        self.configure(["reviewer"])
        self.assertEqual(self.feeds("handoff_channel_pending"), {"doc-writer": 1, "reviewer": 0})
        pulled = self.caller.call("GET", "/v1/agents/doc-writer/inbox?wait=10s")
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{pulled.header('Handoff-Id')}/ack").status, 200)
        self.assertEqual(self.feeds("handoff_channel_pending"), {"reviewer": 0})
        self.configure(["code-generator"])  # counting continues
        self.assertEqual(self.feeds("handoff_channel_published_total"), {"code-generator": 1})


class Context(Case):
    """What a publication counts of its context: for each receiver what a handoff to it alone would."""

    METRICS = ("handoff_context_completeness_ratio_count", "handoff_context_completeness_ratio_sum", "handoff_hop_depth_count",
               "handoff_envelope_tokens_count", "handoff_token_utilization_ratio_count", "handoff_route_cycles_total")

    def counted(self):
        """{(metric, target_agent or ""): value}, without zeros."""
        return {(sample.name, sample.labels.get("target_agent", "")): sample.value
                for family in text_string_to_metric_families(self.daemon.web.get("/metrics").text) for sample in family.samples
                if sample.name in self.METRICS and sample.value
                and sample.labels.get("pattern", "broadcast") == "broadcast"}

    def wanted(self, receivers, ratio, cycles=0):
        found = {("handoff_hop_depth_count", ""): len(receivers)}
        for name in receivers:
            found |= {(metric, name): 1 for metric in self.METRICS if metric.endswith("ratio_count") or "tokens" in metric}
            found["handoff_context_completeness_ratio_sum", name] = ratio
        return found | ({("handoff_route_cycles_total", ""): cycles} if cycles else {})

    def test_each_receiver_is_counted_however_it_was_assembled(self):
        receivers = ["code-generator", "test-writer"]
        for assembled_before in False, True:
            with self.subTest(assembled_before=assembled_before):
                self.start({name: ack for name in receivers})
                self.caller.call("PUT", "/v1/memories/ms-1", {"content": "PKCE is required."})
                request = self.request(memory_ids=["ms-1", "ms-gone"])
                if assembled_before:
                    draft = self.caller.call("POST", "/v1/envelopes", {**request, "target_agent": "broadcast"}).json()
                    self.assertEqual(self.counted(), {})
                reply = self.post({"envelope_id": draft["id"]} if assembled_before else {"request": request}, prefer="wait=20")
                self.assertEqual(reply.status, 200, reply)
                self.assertEqual(self.counted(), self.wanted(receivers, 0.5))
                self.stack.close()

    def test_what_is_caught_up_with_is_counted_too(self):
        """As a whole and as a projection, and not what was delivered before."""
        self.start({"code-generator": ack}, agents={"doc-writer": {}, "auditor": {"token_budget": 300}})
        self.caller.call("PUT", "/v1/memories/ms-1", {"content": "PKCE is required."})
        steps = [{"agent": "researcher", "action": f"read part {number} of the specification and wrote down what it requires"}
                 for number in range(40)]
        self.publish(memory_ids=["ms-1", "ms-gone"], execution_history=steps, headers={"prefer": "wait=20"})
        self.assertEqual(self.counted(), self.wanted(["code-generator"], 0.5))
        for name in "doc-writer", "auditor":
            reply = self.caller.call("PUT", f"/v1/channels/{CHANNEL}/receivers/{name}", {"from": "all"})
            self.assertEqual(reply.status, 200, reply)
            self.assertEqual(self.caller.call("GET", f"/v1/agents/{name}/inbox?wait=20s").status, 200)
        eventually(lambda: self.counted().get(("handoff_hop_depth_count", "")) == 3, "each is counted once")
        found = self.counted()
        for name in "doc-writer", "auditor":
            self.assertEqual(found["handoff_context_completeness_ratio_count", name], 1)
            self.assertEqual(found["handoff_envelope_tokens_count", name], 1)
            self.assertEqual(found["handoff_token_utilization_ratio_count", name], 1)
        self.assertEqual(found["handoff_context_completeness_ratio_sum", "doc-writer"], 0.5)

    def test_a_receiver_that_the_task_has_passed_is_a_cycle(self):
        """analyst -> researcher -> (code-generator, analyst): one of the two had it already."""
        for assembled_before in False, True:
            with self.subTest(assembled_before=assembled_before):
                self.start({"code-generator": ack, "analyst": ack}, agents={"researcher": {}})
                begun = self.caller.send("researcher", {"prefer": "respond-async"}, source_agent="analyst", task_id=TASK).json()["id"]
                request = {**self.request(), "previous_id": begun}
                if assembled_before:
                    draft = self.caller.call("POST", "/v1/envelopes", {**request, "target_agent": "broadcast"}).json()
                    self.assertEqual(draft["hop"]["path"], ["analyst"])
                reply = self.post({"envelope_id": draft["id"]} if assembled_before else {"request": request}, prefer="wait=20")
                self.assertEqual(reply.status, 200, reply)
                self.assertEqual(self.counted().get(("handoff_route_cycles_total", "")), 1)
                self.stack.close()

    def draft(self, **fields):
        reply = self.caller.call("POST", "/v1/envelopes", self.request(target_agent="broadcast", **fields))
        self.assertEqual(reply.status, 200, reply)
        return reply.json()["id"]

    def test_calls_that_meet_count_once(self):
        """Each finds the envelope unpublished; the store takes one of them."""
        receivers = ["code-generator", "test-writer"]
        self.start({name: ack for name in receivers})
        drafts = [self.draft(new_chain=True) for _ in range(3)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            replies = list(pool.map(lambda number: self.post({"envelope_id": drafts[number % 3]}, prefer="wait=20"), range(48)))
        self.assertEqual({reply.status for reply in replies}, {200})
        counted = self.counted()
        self.assertEqual({name: counted["handoff_context_completeness_ratio_count", name] for name in receivers},
                         dict.fromkeys(receivers, len(drafts)))
        self.assertEqual(counted["handoff_hop_depth_count", ""], len(drafts) * len(receivers))

    def test_what_is_refused_for_its_key_does_not_count(self):
        self.start({"code-generator": ack})
        self.assertEqual(self.post({"request": self.request()}, prefer="wait=20", idempotency_key="key").status, 200)
        counted = self.counted()
        refused = self.post({"envelope_id": self.draft(new_chain=True)}, prefer="wait=20", idempotency_key="key")
        self.assertEqual((refused.status, refused.json()["code"]), (409, "idempotency_conflict"), refused)
        self.assertEqual(self.counted(), counted)

    def test_the_hop_limit_counts_however_it_was_assembled(self):
        for assembled_before in False, True:
            with self.subTest(assembled_before=assembled_before):
                self.start({"code-generator": ack})
                first = self.publish(headers={"prefer": "wait=20"})["deliveries"][0]["handoff_id"]
                request = {"source_agent": "code-generator", "task_summary": "It is done", "previous_id": first}
                if assembled_before:
                    draft = self.caller.call("POST", "/v1/envelopes", {**request, "target_agent": "broadcast"}).json()["id"]
                self.daemon.write_config(config({"code-generator": {}}, channels={CHANNEL: {}}, hops={"max": 1}))
                self.assertEqual(self.daemon.reload().status, 200)
                reply = self.post({"envelope_id": draft} if assembled_before else {"request": request})
                self.assertEqual((reply.status, reply.json()["code"]), (422, "hop_limit"), reply)
                found = [(sample.labels["target_agent"], sample.labels["pattern"], sample.value)
                         for family in text_string_to_metric_families(self.daemon.web.get("/metrics").text)
                         for sample in family.samples if sample.name == "handoff_handoffs_total" and sample.value
                         and sample.labels["outcome"] == "hop_limit"]
                self.assertEqual(found, [("other", "broadcast", 1)])
                self.stack.close()


class LikeAnyOther(Case):
    """Each delivery is a handoff like any other: what happens to one changes nothing for the others."""

    def test_alternates_and_a_deadline(self):
        spare = self.enterContext(Receiver(ack))
        self.start({"code-generator": ack, "test-writer": status(500), "doc-writer": None},
                   agents={"spare": {"url": spare.url}, "test-writer": {"alternates": ["spare"]}})
        deadline = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
        made = self.publish(constraints={"deadline": deadline.isoformat().replace("+00:00", "Z")})
        self.wait_for_states(made["id"], code_generator="acknowledged", test_writer="acknowledged", doc_writer="expired")
        found = {one["receiver"]: (one["target_agent"], one["attempts"]) for one in self.publication(made["id"])["deliveries"]}
        self.assertEqual(found, {"code-generator": ("code-generator", 1), "test-writer": ("spare", 4), "doc-writer": ("doc-writer", 0)})
        [taken_over] = spare.requests
        self.assertEqual({taken_over.id}, {request.id for request in self.receivers["test-writer"].requests})
        self.assertEqual(taken_over.json()["id"], made["id"])
        self.assertEqual(self.channel(), {"code-generator": (0, 0), "test-writer": (0, 0), "doc-writer": (0, 0)})
        self.assertEqual(self.feeds("handoff_channel_pending"), dict.fromkeys(self.channel(), 0))
        self.check_store()

    def test_a_receiver_hands_on_in_its_acknowledgement(self):
        def hand_on(request):
            request.answer(200, {"ack": request.id, "next": {"target_agent": "reviewer", "task_summary": "Review it"}})

        self.start({"code-generator": hand_on, "test-writer": ack}, agents={"reviewer": {}})
        made = self.publish(state={"decisions": ["use PKCE"]})
        self.wait_for_states(made["id"], code_generator="acknowledged", test_writer="acknowledged")
        [own] = [one["handoff_id"] for one in made["deliveries"] if one["receiver"] == "code-generator"]
        successor = self.caller.call("GET", "/v1/agents/reviewer/inbox?wait=20s").json()
        self.assertEqual((successor["source_agent"], successor["previous"]["id"], successor["hop"]["count"]), ("code-generator", own, 2))
        self.assertEqual(successor["context"]["task"]["state"]["decisions"], ["use PKCE"])
        self.check_store()

    def test_a_thousand_receivers(self):
        """One of them is behind, and is not the last: each has it once, over a kill as well."""
        names = [f"agent-{number:03}" for number in range(1000)]
        receiver = self.enterContext(Receiver(ack))
        self.start(agents={name: {"url": f"{receiver.url}/{name}"} for name in names[1:]} | {names[0]: {}}, receivers=None)
        made = self.publish(names)
        self.assertEqual([one["receiver"] for one in made["deliveries"]], names)
        self.assertEqual(len({one["handoff_id"] for one in made["deliveries"]}), 1000)

        def states():
            return collections.Counter(one["state"] for one in self.publication(made["id"])["deliveries"])
        eventually(lambda: states() == {"acknowledged": 999, "ready": 1}, "all but one have it", 120)
        self.daemon.kill()
        self.check_store()
        self.restart()
        self.assertEqual(states(), {"acknowledged": 999, "ready": 1})
        came = collections.Counter(request.path.rsplit("/", 1)[1] for request in receiver.requests)
        self.assertEqual(came, collections.Counter(names[1:]))
        self.assertEqual(self.caller.call("GET", f"/v1/agents/{names[0]}/inbox?wait=10s").json()["id"], made["id"])


class Access(Case):
    def setUp(self):
        path = self.tokens = self.enterContext(tempfile.NamedTemporaryFile("w", suffix=".tokens"))
        self.names = ("researcher", "reviewer", "doc-writer", "stranger", "@operator")
        path.write("".join(f"{name} {name.strip('@')}-0123456789abcdef0123\n" for name in self.names))
        path.flush()
        self.start({"reviewer": None, "doc-writer": None}, agents={"researcher": {}}, tokens={"api": {"tokens_file": path.name}})

    def as_agent(self, name, method, path, body=None):
        return self.caller.call(method, path, body, authorization=f"Bearer {name.strip('@')}-0123456789abcdef0123")

    def test_an_agent_sees_only_its_own_deliveries(self):
        body = {"request": {"task_id": TASK, "task_summary": "Research is complete"}}
        made = self.as_agent("researcher", "POST", f"/v1/channels/{CHANNEL}/publish", body).json()
        path = f"/v1/channels/{CHANNEL}/publications/{made['id']}"
        seen = {name: self.as_agent(name, "GET", path) for name in self.names}
        self.assertEqual({name: [one["receiver"] for one in reply.json().get("deliveries", ["-"])]
                          if reply.status == 200 else reply.status for name, reply in seen.items()},
                         {"researcher": ["reviewer", "doc-writer"], "@operator": ["reviewer", "doc-writer"],
                          "reviewer": ["reviewer"], "doc-writer": ["doc-writer"], "stranger": 404})
        listed = {name: self.as_agent(name, "GET", f"/v1/channels/{CHANNEL}").json()["receivers"]
                  for name in self.names}
        self.assertEqual({name: [one["agent"] for one in found] for name, found in listed.items()},
                         {"researcher": [], "stranger": [], "reviewer": ["reviewer"],
                          "doc-writer": ["doc-writer"], "@operator": ["reviewer", "doc-writer"]})
        pages = {name: len(self.as_agent(name, "GET", f"/v1/channels/{CHANNEL}/publications").json()["items"])
                 for name in self.names}
        self.assertEqual(pages, {"researcher": 1, "@operator": 1, "reviewer": 1, "doc-writer": 1, "stranger": 0})
        envelope = self.as_agent("reviewer", "GET", f"/v1/envelopes/{made['id']}")
        self.assertEqual(envelope.json()["id"], made["id"])
        self.assertEqual(self.as_agent("stranger", "GET", f"/v1/envelopes/{made['id']}").status, 404)

    def bind(self, name, words):
        self.tokens.seek(0)
        self.tokens.truncate()
        self.tokens.write("".join(f"{one} {one.strip('@')}-0123456789abcdef0123 {words if one == name else ''}\n"
                                  for one in self.names))
        self.tokens.flush()
        self.assertEqual(self.daemon.reload().status, 200)

    def test_a_token_is_bound_to_channels(self):
        body = {"request": {"task_id": TASK, "task_summary": "Research is complete"}}
        channels = (CHANNEL, "other-work")

        def answers(name):
            calls = (("POST", "{}/publish", body), ("PUT", f"{{}}/receivers/{name}", {}),
                     ("DELETE", f"{{}}/receivers/{name}", None), ("GET", "{}", None),
                     ("GET", "{}/publications", None))
            return {channel: [self.as_agent(name, method, "/v1/channels/" + path.format(channel), sent).status
                              for method, path, sent in calls] for channel in channels}
        good = [202, 200, 200, 200, 200]
        self.bind("researcher", "")
        self.assertEqual(answers("researcher"), {CHANNEL: good, "other-work": [200, *good[1:]]})
        self.bind("researcher", f"publish={CHANNEL} receive=other-work,third")
        self.assertEqual(answers("researcher"), {CHANNEL: [202, 403, 403, 200, 200],
                                                 "other-work": [403, 200, 200, 200, 200]})
        refused = self.as_agent("researcher", "POST", "/v1/channels/other-work/publish", body).json()
        self.assertEqual((refused["code"], refused["field"], refused["seen"], refused["allowed"]),
                         ("forbidden", "channel", "other-work", CHANNEL), refused)
        self.bind("researcher", "publish= receive=other-work")
        self.assertEqual(answers("researcher"), {CHANNEL: [403] * 5, "other-work": [403, 200, 200, 200, 200]})
        self.bind("researcher", "publish=other-work receive=third")
        hidden = self.as_agent("researcher", "GET", f"/v1/channels/{CHANNEL}").json()
        self.assertEqual((hidden["seen"], hidden["allowed"]), (CHANNEL, "other-work,third"), hidden)
        self.assertIn("neither publishing", hidden["detail"])
        foreign = self.as_agent("researcher", "DELETE", "/v1/channels/third/receivers/reviewer").json()
        self.assertEqual((foreign["code"], foreign["seen"], foreign["allowed"]), ("forbidden", "reviewer", "researcher"))
        self.bind("researcher", "publish= receive=other-work")
        self.assertEqual(self.as_agent("reviewer", "POST", f"/v1/channels/{CHANNEL}/publish", body).status, 202)

    def test_a_receiver_acknowledges_by_the_id_of_the_envelope(self):
        body = {"request": {"task_id": TASK, "task_summary": "Research is complete"}}
        made = self.as_agent("researcher", "POST", f"/v1/channels/{CHANNEL}/publish", body).json()
        pulled = self.as_agent("reviewer", "GET", "/v1/agents/reviewer/inbox?wait=10s")
        acked = self.as_agent("reviewer", "POST", f"/v1/handoffs/{pulled.json()['id']}/ack")
        self.assertEqual((acked.status, acked.json()["state"], acked.json()["target_agent"]),
                         (200, "acknowledged", "reviewer"), acked)
        self.assertEqual(acked.json()["id"], pulled.header("Handoff-Id"))
        refused = self.as_agent("stranger", "POST", f"/v1/handoffs/{made['id']}/ack")
        self.assertEqual(refused.status, 404, refused)
        other = self.as_agent("doc-writer", "GET", f"/v1/channels/{CHANNEL}/publications/{made['id']}").json()
        self.assertEqual(other["deliveries"][0]["state"], "ready")


if __name__ == "__main__":
    unittest.main()
