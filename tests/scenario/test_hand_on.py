# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""Handing on in the acknowledgement: the successor is stored with it, or why there is none."""

import contextlib
import json
import os
import random
import sqlite3
import threading
import time
import unittest

from harness import Receiver, eventually
from harness.agents import daemon_with
from harness.receiver import ack


SEED = int(os.environ.get("HANDOFF_SEED") or random.SystemRandom().randrange(1 << 32))


def handing_on(**request):
    """A step of a receiver: acknowledges, and hands on in the same answer."""
    request = {"target_agent": "tester", "task_summary": "test it", **request}
    return lambda got: got.answer(200, {"ack": got.id, "next": request})


class Case(unittest.TestCase):
    answer = staticmethod(ack)

    def setUp(self):
        self.receiver = self.enterContext(Receiver(self.answer))
        agents = {"coder": {"url": self.receiver.url, "retries": 0}, "tester": {}, "puller": {}}
        self.daemon = self.enterContext(daemon_with(agents, hops={"max": 2}))

    def post(self, path, body):
        return self.daemon.api.post(path, json.dumps(body).encode())

    def begin(self, target="coder", **fields):
        request = {"source_agent": "analyst", "target_agent": target, "task_summary": "go on",
                   "task_id": "task", **fields}
        reply = self.daemon.api.post("/v1/handoffs", json.dumps(request).encode(), prefer="respond-async")
        self.assertEqual(reply.status, 202, reply)
        return reply.json()["id"]

    def task(self):
        return self.daemon.api.get("/v1/tasks/task").json()

    def state(self, handoff):
        return self.daemon.api.get(f"/v1/handoffs/{handoff}").json()["state"]

    def acknowledged(self, handoff):
        eventually(lambda: self.state(handoff) == "acknowledged", "it is acknowledged")
        return self.task()


class HandOn(Case):
    def test_an_answer_hands_on(self):
        self.receiver.do(handing_on(constraints={"budget": 10 ** 30}))
        first = self.begin(constraints={"style": "plain"})
        successor = self.acknowledged(first)["items"][1]
        self.assertEqual((successor["source_agent"], successor["target_agent"], successor["state"]),
                         ("coder", "tester", "ready"))
        pulled = self.daemon.api.get("/v1/agents/tester/inbox")
        envelope = pulled.json()
        self.assertEqual(envelope["previous"]["id"], first)
        self.assertEqual(envelope["context"]["constraints"], {"style": "plain", "budget": 10 ** 30})
        self.assertIn(f'"budget":{10 ** 30}', pulled.text, "numbers keep their digits")

    def test_the_successor_is_there_as_soon_as_the_acknowledgement_is(self):
        for _ in range(5):
            self.receiver.do(handing_on())
            first = self.begin(task_id=f"task-{_}")
            while True:
                done = self.state(first) == "acknowledged"
                count = len(self.daemon.api.get(f"/v1/tasks/task-{_}").json()["items"])
                if done:
                    break
            self.assertEqual(len(self.daemon.api.get(f"/v1/tasks/task-{_}").json()["items"]), 2)
            self.assertIn(count, (1, 2))

    def test_the_attempt_is_recorded_as_ever(self):
        self.receiver.do(handing_on())
        first = self.begin()
        self.acknowledged(first)
        attempts = eventually(lambda: self.daemon.api.get(f"/v1/handoffs/{first}/attempts").json()["items"],
                              "the attempt is recorded")
        self.assertEqual([(one["attempt"], one["result"]) for one in attempts], [(1, "ack")])

    def test_the_attempt_is_recorded_in_the_commit_that_acknowledges_it(self):
        """A kill right after that commit leaves no acknowledgement without its attempt."""
        with contextlib.closing(sqlite3.connect(self.daemon.folder / "data/handoff.db")) as store:
            store.executescript("""
                CREATE TABLE seen (seq INTEGER, attempts INTEGER);
                CREATE TRIGGER see AFTER UPDATE OF finished_at ON envelope_state WHEN new.finished_at > 0 BEGIN
                  INSERT INTO seen SELECT new.seq, count(*) FROM attempts WHERE seq = new.seq; END""")
            self.receiver.do(handing_on())
            pushed = self.begin()
            self.acknowledged(pushed)
            pulled = self.begin("puller", task_id="other")
            self.daemon.api.get("/v1/agents/puller/inbox")
            reply = self.post(f"/v1/handoffs/{pulled}/ack", {"next": {"target_agent": "tester", "task_summary": "x"}})
            self.assertEqual((reply.status, reply.json()["attempts"]), (200, 1), reply)
            seen = store.execute("SELECT seq, min(attempts), max(attempts) FROM seen GROUP BY seq").fetchall()
        self.assertEqual([counts for _, *counts in seen], [[1, 1]] * 2)
        for handoff in pushed, pulled:
            attempts = self.daemon.api.get(f"/v1/handoffs/{handoff}/attempts").json()["items"]
            self.assertEqual([(one["attempt"], one["result"]) for one in attempts], [(1, "ack")])

    def test_over_the_api(self):
        first = self.begin("puller")
        self.daemon.api.get("/v1/agents/puller/inbox")
        reply = self.post(f"/v1/handoffs/{first}/ack",
                          {"ack": first, "next": {"target_agent": "tester", "task_summary": "test it"}})
        self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"), reply)
        self.assertEqual([item["source_agent"] for item in self.task()["items"]], ["analyst", "puller"])
        successor = self.task()["items"][1]
        self.assertEqual(reply.json()["next"], {"id": successor["id"], "state": "ready", "reason": ""})
        again = self.post(f"/v1/handoffs/{first}/ack", {"next": {"target_agent": "tester", "task_summary": "x"}})
        self.assertEqual(again.status, 200)
        self.assertEqual(len(self.task()["items"]), 2, "handed on once")

    def test_a_repeat_says_that_nothing_more_is_handed_on(self):
        first = self.begin("puller")
        self.daemon.api.get("/v1/agents/puller/inbox")
        next_ = {"next": {"target_agent": "tester", "task_summary": "test it"}}
        self.assertNotIn("warnings", self.post(f"/v1/handoffs/{first}/ack", next_).json())
        again = self.post(f"/v1/handoffs/{first}/ack", next_)
        self.assertEqual(again.status, 200, again)
        (warning,) = again.json()["warnings"]
        self.assertEqual(warning["field"], "next")
        self.assertIn("acknowledged before", warning["detail"])
        self.assertNotIn("warnings", self.post(f"/v1/handoffs/{first}/ack", {}).json())
        self.assertEqual(len(self.task()["items"]), 2)

    def test_late_it_is_not_handed_on_and_the_answer_says_so(self):
        """Parked by then, whether that is still in memory or not: the acknowledgement counts."""
        next_ = {"target_agent": "tester", "task_summary": "test it"}
        for restart in (False, True):
            with self.subTest(restart=restart):
                first = self.begin("puller")
                self.daemon.api.get("/v1/agents/puller/inbox")
                self.assertEqual(self.post(f"/v1/handoffs/{first}/park", {"reason": "wait"}).status, 200)
                if restart:
                    self.daemon.kill()
                    self.daemon.log_path.unlink()
                    self.daemon.start()
                    self.daemon.expected_exit = 0
                before = len(self.task()["items"])
                reply = self.post(f"/v1/handoffs/{first}/ack", {"next": next_})
                self.assertEqual((reply.status, reply.json()["code"], reply.json()["field"]), (409, "conflict", "next"))
                self.assertIn("POST /v1/handoffs", reply.json()["detail"])
                self.assertEqual(self.state(first), "acknowledged")
                self.assertEqual(len(self.task()["items"]), before)
                sent = self.daemon.api.post("/v1/handoffs", json.dumps(
                    {**next_, "source_agent": "puller", "previous_id": first}).encode(), prefer="respond-async")
                self.assertEqual(sent.status, 202, sent)

    def test_the_attempt_that_timed_out_stays_recorded(self):
        """The agent had done the work, and hands on while the handoff waits for its next attempt."""
        self.receiver.do(lambda got: got.answer(503))
        patient = {"coder": {"url": self.receiver.url, "retries": 3, "backoff": {"base": "1h", "max": "1h"}}}
        with daemon_with({**patient, "tester": {}}) as self.daemon:
            first = self.begin()
            def failed():
                return self.daemon.api.get(f"/v1/handoffs/{first}/attempts").json()["items"]
            before = eventually(failed, "the attempt is recorded")
            reply = self.post(f"/v1/handoffs/{first}/ack", {"next": {"target_agent": "tester", "task_summary": "x"}})
            self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"), reply)
            self.assertEqual(failed(), before)

    def test_beyond_the_hop_limit_it_is_parked(self):
        first = self.begin("puller")
        self.daemon.api.get("/v1/agents/puller/inbox")
        self.receiver.do(handing_on())
        self.post(f"/v1/handoffs/{first}/ack", {"next": {"target_agent": "coder", "task_summary": "go on"}})
        items = eventually(lambda: (lambda items: len(items) == 3 and items)(self.task()["items"]), "all three")
        self.assertEqual((items[2]["state"], items[2]["reason"]), ("parked", "hop_limit"))
        self.assertEqual(items[1]["state"], "acknowledged")

    def test_what_is_no_valid_request_is_kept_and_the_acknowledgement_counts(self):
        for next_, code in (({"target_agent": "nobody", "task_summary": "x"}, "unknown_agent"),
                            ({"target_agent": "tester", "task_sumary": "x"}, "invalid_request"),
                            ("nothing", "invalid_request"),
                            ({"target_agent": "tester", "task_summary": "x", "constraints": {"max_cost": 9}},
                             "constraint_loosened")):
            with self.subTest(code):
                self.receiver.do(lambda got, next_=next_: got.answer(200, {"ack": got.id, "next": next_}))
                first = self.begin(constraints={"max_cost": 5})
                refused = self.acknowledged(first)["next_refused"][-1]
                self.assertEqual((refused["id"], refused["code"]), (first, code))
                self.assertEqual(json.loads(refused["request"]), next_)

    def test_over_the_api_the_answer_is_the_problem(self):
        first = self.begin("puller")
        self.daemon.api.get("/v1/agents/puller/inbox")
        reply = self.post(f"/v1/handoffs/{first}/ack", {"next": {"target_agent": "nobody", "task_summary": "x"}})
        self.assertEqual((reply.status, reply.json()["code"]), (404, "unknown_agent"), reply)
        self.assertEqual(self.state(first), "acknowledged")
        self.assertEqual(self.task()["next_refused"][0]["code"], "unknown_agent")


class Kill(Case):
    answer = staticmethod(handing_on())

    def test_no_kill_leaves_the_task_to_no_one(self):
        """Killed at random instants: what is acknowledged has a successor, and a successor its parent."""
        print(f"HANDOFF_SEED={SEED}", flush=True)
        dice, self.seen = random.Random(SEED), 0
        for round_ in range(8):
            tasks = [f"kill-{round_}-{i}" for i in range(20)]
            senders = [threading.Thread(target=self.try_to_send, args=(task,)) for task in tasks]
            for sender in senders:
                sender.start()
            time.sleep(dice.random() * 0.05)
            self.daemon.kill()
            for sender in senders:
                sender.join()
            self.daemon.log_path.unlink()
            self.daemon.start()
            self.daemon.expected_exit = 0
            for task in tasks:
                self.check_task(task)
        self.assertGreater(self.seen, 10, "the kills came too early to tell")

    def try_to_send(self, task):
        try:
            self.begin(task_id=task)
        except (OSError, AssertionError, ValueError):
            pass

    def check_task(self, task):
        items = self.daemon.api.get(f"/v1/tasks/{task}").json()["items"]
        first = [item for item in items if item["source_agent"] == "analyst"]
        nexts = [item for item in items if item["source_agent"] == "coder"]
        self.seen += bool(nexts)
        if first and first[0]["state"] == "acknowledged":
            self.assertGreaterEqual(len(nexts), 1, items)
        if nexts:
            self.assertEqual(len(first), 1, items)


if __name__ == "__main__":
    unittest.main()
