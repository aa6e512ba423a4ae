# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""A receiver fetches what its envelope lacks, and flags what it works without: kept, shown, counted, continued."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from harness import Daemon, environment
from harness.agents import daemon_with
from harness.chain import AGENTS, Chain, memories, missing, pullers
from harness.receiver import Receiver, later

HANDOFFCTL = os.environ["HANDOFFCTL"]
SERIES = re.compile(r'^handoff_memory_recovery_total\{target_agent="(\w+)",outcome="(\w+)"\} (\d+)$', re.MULTILINE)


def ids(items):
    return sorted(item["id"] for item in items)


def gaps(handoff):
    """id to whether it was recovered"""
    return {gap["id"]: gap["recovered_at"] is not None for gap in handoff.get("gaps", [])}


class Case(unittest.TestCase):
    maxDiff = None
    CONFIG = {}

    def start(self, agents=None, **more):
        self.daemon = self.enterContext(daemon_with(agents or pullers(*AGENTS), **more))
        self.chain = Chain(self.daemon, self.id().rpartition(".")[2][-60:])

    def post(self, handoff, what, body, **headers):
        return self.chain.call("POST", f"/v1/handoffs/{handoff}/{what}", body, **headers)

    def recover(self, handoff, **body):
        reply = self.post(handoff, "memories", body)
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def flag(self, handoff, *names):
        reply = self.post(handoff, "gaps", {"missing": names})
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def counts(self, agent="analyst"):
        """{outcome: n} of the counters that are not 0."""
        found = SERIES.findall(self.daemon.web.get("/metrics").text)
        return {outcome: int(value) for name, outcome, value in found if name == agent and int(value)}

    def assert_problem(self, reply, status, code, field=None):
        self.assertEqual((reply.status, reply.json()["code"]), (status, code), reply)
        if field:
            self.assertEqual(reply.json()["field"], field, reply)


class Recovery(Case):
    def setUp(self):
        self.start()

    def test_what_is_missing_is_fetched_and_noted_once_it_is_there(self):
        self.chain.remember("here-1")
        handoff = self.chain.hand("researcher", "analyst", memory_ids=["here-1", "gone-1", "gone-2"])["id"]
        self.assertEqual(self.recover(handoff, missing=True), {
            "found": [], "missing": [{"id": "gone-1", "reason": "not_found"}, {"id": "gone-2", "reason": "not_found"}]})
        self.assertNotIn("gaps", self.chain.state(handoff))
        self.chain.remember("gone-1", "it was late")
        answer = self.recover(handoff, missing=True)
        self.assertEqual([(item["id"], item["content"]) for item in answer["found"]], [("gone-1", "it was late")])
        self.assertEqual(ids(answer["missing"]), ["gone-2"])
        self.assertEqual(gaps(self.chain.state(handoff)), {"gone-1": True})
        self.assertEqual(self.counts(), {"recovered": 1})
        self.recover(handoff, missing=True)
        self.assertEqual(self.counts(), {"recovered": 1})

    def test_a_fetch_by_id_gives_the_newest_version_and_is_no_recovery(self):
        self.chain.remember("fresh-1", "old")
        handoff = self.chain.hand("researcher", "analyst", memory_ids=["fresh-1"], strategy="lazy")["id"]
        self.chain.remember("fresh-1", "new")
        answer = self.recover(handoff, ids=["fresh-1", "fresh-1", "other-1"])
        self.assertEqual([item["content"] for item in answer["found"]], ["new"])
        self.assertEqual(ids(answer["missing"]), ["other-1"])
        self.assertEqual((self.counts(), gaps(self.chain.state(handoff))), ({}, {}))

    def test_nothing_missing_is_an_empty_answer(self):
        handoff = self.chain.hand("researcher", "analyst")["id"]
        self.assertEqual(self.recover(handoff, missing=True), {"found": [], "missing": []})

    def test_only_the_scopes_of_the_request_are_seen(self):
        self.chain.remember("alice-1", scope="user:alice")
        self.chain.remember("bob-1", scope="user:bob")
        handoff = self.chain.hand("researcher", "analyst", scope="user:alice")["id"]
        answer = self.recover(handoff, ids=["alice-1", "bob-1"])
        self.assertEqual((ids(answer["found"]), ids(answer["missing"])), (["alice-1"], ["bob-1"]))
        child = self.chain.hand("analyst", "coder")["id"]
        self.assertEqual(ids(self.recover(child, ids=["alice-1", "bob-1"])["found"]), ["alice-1"])

    def test_what_is_found_later_is_found_by_the_next_hop(self):
        handoff = self.chain.hand("researcher", "analyst", memory_ids=["late-1", "never-1"])
        self.assertEqual(sorted(missing(handoff)), ["late-1", "never-1"])
        self.flag(handoff["id"], "late-1", "never-1")
        self.chain.remember("late-1")
        self.assertEqual(ids(self.recover(handoff["id"], missing=True)["found"]), ["late-1"])
        child = self.chain.hand("analyst", "coder")
        self.assertIn("late-1", memories(child))
        self.assertEqual(sorted(missing(child)), ["never-1"])

    def test_long_memories_are_answered_whole(self):
        names = [f"long-{i}" for i in range(8)]
        handoff = self.chain.hand("researcher", "analyst", memory_ids=names)["id"]
        for name in names:
            self.chain.remember(name, "x" * 250_000, summary="long")
        answer = self.recover(handoff, missing=True)
        self.assertEqual((ids(answer["found"]), {len(item["content"]) for item in answer["found"]}), (names, {250_000}))

    def test_bad_bodies(self):
        handoff = self.chain.hand("researcher", "analyst")["id"]
        for body, field in (({}, "ids"), ({"missing": False}, "ids"), ({"ids": []}, "ids"), ({"ids": "x"}, "ids"),
                            ({"ids": ["a b"]}, "ids[0]"), ({"ids": ["a", 7]}, "ids[1]"), ({"missing": "yes"}, "missing"),
                            ({"id": ["a"]}, "id"), ({"ids": ["x"] * 1001}, "ids")):
            with self.subTest(body=str(body)[:60]):
                self.assert_problem(self.post(handoff, "memories", body), 400, "invalid_request", field)
        for body, field in (({}, "missing"), ({"missing": "x"}, "missing"),
                            ({"missing": ["a b"]}, "missing[0]"), ({"missing": ["*all"]}, "missing[0]")):
            with self.subTest(body=str(body)[:60]):
                self.assert_problem(self.post(handoff, "gaps", body), 400, "invalid_request", field)
        for what, body in ("memories", {"missing": True}), ("gaps", {"missing": ["a"]}):
            self.assert_problem(self.post("01890a5d-ac96-774b-bcce-b302099a8057", what, body), 404, "not_found")
            self.assert_problem(self.post("what", what, body), 404, "not_found")
            self.assert_problem(self.post(handoff, what, "{"), 400, "invalid_json")


class Gaps(Case):
    def setUp(self):
        self.start()

    def test_they_are_kept_shown_and_counted_once(self):
        handoff = self.chain.hand("researcher", "analyst", memory_ids=["gone-1", "gone-2"])["id"]
        answer = self.flag(handoff, "gone-2", "gone-1", "gone-2")
        self.assertEqual([(gap["id"], gap["agent"], gap["recovered_at"]) for gap in answer["gaps"]],
                         [("gone-2", "analyst", None), ("gone-1", "analyst", None)])
        self.assertGreaterEqual(answer["gaps"][0]["at"], answer["created_at"])
        self.assertEqual(self.flag(handoff, "gone-1")["gaps"], answer["gaps"])
        self.assertEqual(self.chain.state(handoff)["gaps"], answer["gaps"])
        [listed] = self.chain.call("GET", f"/v1/tasks/{self.chain.task}").json()["items"]
        self.assertEqual(listed["gaps"], answer["gaps"])
        self.assertEqual(self.counts(), {"missing": 2})
        [line] = self.daemon.events("context_gaps")
        self.assertEqual((line["handoff"], line["target"], line["memories"]), (handoff, "analyst", "2"))

    def test_they_are_recovered_when_they_are_found(self):
        handoff = self.chain.hand("researcher", "analyst", memory_ids=["gone-1", "gone-2"])["id"]
        self.flag(handoff, "gone-1", "gone-2")
        self.chain.remember("gone-2")
        self.assertEqual(ids(self.recover(handoff, missing=True)["found"]), ["gone-2"])
        self.assertEqual(gaps(self.chain.state(handoff)), {"gone-1": False, "gone-2": True})
        self.assertEqual(self.counts(), {"missing": 2, "recovered": 1})

    def test_they_may_come_after_the_acknowledgement(self):
        handoff = self.chain.hand("researcher", "analyst")["id"]
        self.assertEqual(self.chain.call("GET", "/v1/agents/analyst/inbox?wait=10s").header("Handoff-Id"), handoff)
        self.assertEqual(self.post(handoff, "ack", {}).status, 200)
        self.assertEqual(gaps(self.flag(handoff, "late-1")), {"late-1": False})
        self.assertEqual(self.chain.state(handoff)["state"], "acknowledged")

    def test_more_than_a_thousand_are_refused(self):
        handoff = self.chain.hand("researcher", "analyst")["id"]
        self.flag(handoff, *(f"gap-{i}" for i in range(1000)))
        self.assert_problem(self.post(handoff, "gaps", {"missing": ["one-more"]}), 400, "invalid_request", "missing")
        self.assertEqual(len(self.chain.state(handoff)["gaps"]), 1000)
        self.assertEqual(self.counts(), {"missing": 1000})

    def test_they_survive_a_kill_and_count_as_kept(self):
        handoff = self.chain.hand("researcher", "analyst")["id"]
        self.flag(handoff, "gone-1")
        self.daemon.kill()
        self.daemon.log_path.unlink()
        daemon = self.enterContext(Daemon(config=self.daemon.config_path.read_text(encoding="utf-8"),
                                          folder=self.daemon.folder))
        self.chain = Chain(daemon, self.chain.task)
        self.assertEqual(gaps(self.chain.state(handoff)), {"gone-1": False})
        self.assertEqual(gaps(self.flag(handoff, "gone-2")), {"gone-1": False, "gone-2": False})

    def test_handoffctl_shows_them(self):
        handoff = self.chain.hand("researcher", "analyst")["id"]
        self.flag(handoff, "gone-1", "gone-2")
        self.chain.remember("gone-2")
        self.recover(handoff, missing=True)

        def ctl(*words):
            return subprocess.run([HANDOFFCTL, *words], text=True, capture_output=True, check=True,
                                  env=environment(HANDOFF_API_URL=self.daemon.api.url)).stdout
        for command in "status", "show":
            shown = ctl(command, handoff)
            self.assertIn("gap         gone-1: not available to analyst\n", shown)
            self.assertIn("recovered   gone-2: fetched later by analyst\n", shown)
        self.assertIn("1 gap", ctl("task", self.chain.task))


class Acknowledgements(Case):
    """With what the receiver lacked, over each protocol."""

    def acknowledged(self, handoff):
        return self.chain.wait_for_state(handoff, "acknowledged")

    def test_of_a_push(self):
        for missing_of in (lambda ids: ids, lambda ids: [{"id": name, "reason": "not_found"} for name in ids]):
            with self.subTest(missing_of(["x"])):
                receiver = self.enterContext(Receiver(lambda request: request.answer(
                    200, {"ack": request.id, "missing": [*missing_of(["gone-1", "*recent"]), 7, "no id"]})))
                self.start({**pullers("researcher"), "analyst": {"url": receiver.url}})
                reply = self.chain.ask("researcher", "analyst", headers={"prefer": "wait=20"})
                self.assertEqual((reply.status, gaps(reply.json())), (200, {"gone-1": False, "*recent": False}))
                found = self.chain.state(reply.json()["id"])
                self.assertEqual(found["gaps"], reply.json()["gaps"])
                self.assertEqual(self.counts(), {"missing": 2})

    def test_of_a_push_that_acknowledges_by_header_or_status(self):
        for answer, keys in ((lambda request: request.answer(200, {"missing": ["gone-1"]}, handoff_ack=request.id), {}),
                             (lambda request: request.answer(200, {"missing": ["gone-1"]}), {"ack": "status"})):
            with self.subTest(keys):
                receiver = self.enterContext(Receiver(answer))
                self.start({**pullers("researcher"), "analyst": {"url": receiver.url, **keys}})
                handoff = self.chain.hand("researcher", "analyst")["id"]
                self.assertEqual(gaps(self.acknowledged(handoff)), {"gone-1": False})

    def test_a_nack_flags_nothing(self):
        receiver = self.enterContext(Receiver(
            lambda request: request.answer(200, {"nack": request.id, "retry": False, "missing": ["gone-1"]})))
        self.start({**pullers("researcher"), "analyst": {"url": receiver.url}})
        handoff = self.chain.hand("researcher", "analyst")["id"]
        self.assertEqual(gaps(self.chain.wait_for_state(handoff, "parked")), {})
        self.assertEqual(self.counts(), {})

    def test_after_a_202(self):
        receiver = self.enterContext(Receiver(later))
        self.start({**pullers("researcher"), "analyst": {"url": receiver.url}})
        handoff = self.chain.hand("researcher", "analyst")["id"]
        self.chain.wait_for_state(handoff, "awaiting_ack")
        reply = self.post(handoff, "ack", {"missing": ["gone-1"]})
        self.assertEqual((reply.status, reply.json()["state"], gaps(reply.json())), (200, "acknowledged", {"gone-1": False}))
        # its caller may repeat it
        self.assertEqual(gaps(self.post(handoff, "ack", {"missing": ["gone-1", "gone-2"]}).json()),
                         {"gone-1": False, "gone-2": False})
        self.assertEqual(self.counts(), {"missing": 2})

    def test_of_a_lease_and_the_sender_that_waits_is_told(self):
        self.start()
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            sent = threads.submit(self.chain.ask, "researcher", "analyst", headers={"prefer": "wait=20"})
            pulled = self.chain.call("GET", "/v1/agents/analyst/inbox?wait=10s").header("Handoff-Id")
            self.flag(pulled, "gone-2")
            self.assertEqual(self.post(pulled, "ack", {"missing": ["gone-1"]}).status, 200)
            reply = sent.result()
            self.assertEqual((reply.status, gaps(reply.json())), (200, {"gone-2": False, "gone-1": False}))

    def test_nobody_sees_the_acknowledgement_without_them(self):
        self.start()
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            for i in range(20):
                more = {"next": {"target_agent": "coder", "task_summary": "write it"}} if i % 2 else {}
                sent = threads.submit(lambda: self.chain.state(self.chain.ask(
                    "researcher", "analyst", new_chain=True, headers={"prefer": "wait=20"}).json()["id"]))
                pulled = self.chain.call("GET", "/v1/agents/analyst/inbox?wait=10s").header("Handoff-Id")
                self.assertEqual(self.post(pulled, "ack", {"missing": ["gone-1"], **more}).status, 200)
                seen = sent.result()
                self.assertEqual((seen["state"], gaps(seen)), ("acknowledged", {"gone-1": False}))
        self.assertEqual(self.counts(), {"missing": 20})

    def test_with_the_next_request(self):
        receiver = self.enterContext(Receiver(lambda request: request.answer(
            200, {"ack": request.id, "missing": ["gone-1"],
                  "next": {"target_agent": "coder", "task_summary": "write it"}})))
        self.start({**pullers("researcher", "coder", "tester"), "analyst": {"url": receiver.url}})
        handoff = self.chain.hand("researcher", "analyst", memory_ids=["gone-1"])["id"]
        self.assertEqual(gaps(self.acknowledged(handoff)), {"gone-1": False})
        second = self.chain.call("GET", "/v1/agents/coder/inbox?wait=10s").header("Handoff-Id")
        self.assertEqual(sorted(missing(self.chain.envelope(second))), ["gone-1"])
        self.assertEqual(self.post(second, "ack", {"missing": ["gone-1"], "next": {
            "target_agent": "tester", "task_summary": "test it"}}).status, 200)
        self.assertEqual(gaps(self.acknowledged(second)), {"gone-1": False})
        # a next request that is refused leaves the acknowledgement, and what it lacked
        third = self.chain.call("GET", "/v1/agents/tester/inbox?wait=10s").header("Handoff-Id")
        self.assert_problem(self.post(third, "ack", {"missing": ["gone-1"], "next": {"task_summary": "x"}}),
                            400, "invalid_request")
        self.assertEqual(gaps(self.acknowledged(third)), {"gone-1": False})

    def test_of_a_parked_one(self):
        receiver = self.enterContext(Receiver(lambda request: request.answer(500)))
        self.start({**pullers("researcher"), "analyst": {"url": receiver.url, "retries": 0}})
        handoff = self.chain.hand("researcher", "analyst")["id"]
        self.chain.wait_for_state(handoff, "parked")
        reply = self.post(handoff, "ack", {"missing": ["gone-1"]})
        self.assertEqual((reply.status, gaps(reply.json())), (200, {"gone-1": False}))

    def test_of_a_publication(self):
        self.start(channels={"news": {"receivers": ["analyst", "coder"]}})
        self.chain.remember("late-1")
        self.chain.forget("late-1")
        reply = self.chain.call("POST", "/v1/channels/news/publish", {"request": {
            "source_agent": "researcher", "task_summary": "x", "memory_ids": ["late-1"]}})
        self.assertEqual(reply.status, 202, reply)
        of = {delivery["receiver"]: delivery["handoff_id"] for delivery in reply.json()["deliveries"]}
        self.chain.remember("late-1")
        self.assertEqual(ids(self.recover(of["analyst"], missing=True)["found"]), ["late-1"])
        self.flag(of["coder"], "late-1")
        self.assertEqual((gaps(self.chain.state(of["analyst"])), gaps(self.chain.state(of["coder"]))),
                         ({"late-1": True}, {"late-1": False}))


class Access(Case):
    """With tokens: the agent that has the handoff, and operators."""

    TOKENS = {name: f"{name.strip('@')}-0123456789abcdef" for name in ("researcher", "analyst", "coder", "@operator")}

    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        tokens = folder / "tokens"
        tokens.write_text("".join(f"{name} {token}\n" for name, token in self.TOKENS.items()))
        tokens.chmod(0o600)
        self.start(api={"tokens_file": str(tokens)})

    def by(self, name):
        return {"authorization": f"Bearer {self.TOKENS[name]}"}

    def test_who_may(self):
        reply = self.chain.ask("researcher", "analyst", memory_ids=["gone-1"],
                               headers={"prefer": "respond-async", **self.by("researcher")})
        handoff = reply.json()["id"]
        for what, body in ("memories", {"missing": True}), ("gaps", {"missing": ["gone-1"]}):
            for name, status in ("analyst", 200), ("@operator", 200), ("researcher", 403), ("coder", 404):
                with self.subTest(what=what, name=name):
                    reply = self.post(handoff, what, body, **self.by(name))
                    self.assertEqual(reply.status, status, reply)
        seen = self.chain.call("GET", f"/v1/handoffs/{handoff}", **self.by("researcher")).json()
        self.assertEqual(gaps(seen), {"gone-1": False})


if __name__ == "__main__":
    unittest.main()
