# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""Retention takes envelopes first; keys, handoffs and what a child inherits stay until their own budget is used up.

Whatever is parked, and whatever load there was: a key answers with the handoff that was accepted under it, a
child finds its parent, and the disk is bounded all the same.
"""
import json
import os
import pathlib
import random
import subprocess
import tempfile
import threading
import unittest

from harness import Receiver, eventually
from harness.agents import Caller, daemon_with
from harness.receiver import ack, status

HANDOFFCTL = os.environ["HANDOFFCTL"]
MIB = 1 << 20
WORDS = "retry the request with a backoff and jitter "


def text(size):
    return (WORDS * (size // len(WORDS) + 1))[:size]


def envelope(caller, size, **fields):
    """An envelope that is finished from the start."""
    reply = caller.call("POST", "/v1/envelopes", {
        "source_agent": "analyst", "target_agent": "coder", "task_summary": "Plan",
        "state": {"progress": text(size)}, "constraints": {"max_tokens": 1000000}, **fields})
    assert reply.status == 200, reply
    return reply.json()["id"]


def storage(size=None, index_size=None, age=None):
    limits = {"size": size, "index_size": index_size, "age": age}
    return {"retention": {name: value for name, value in limits.items() if value}}


class Retention(unittest.TestCase):
    def daemon(self, *answers, api=None, **limits):
        receiver = self.enterContext(Receiver(*answers or [ack]))
        daemon = self.enterContext(daemon_with(
            {"coder": {"url": receiver.url, "token_budget": 1000000},
             "ill": {"url": receiver.url, "token_budget": 1000000, "retries": 0}},
            storage=storage(**limits), defaults={"timeout": "10s"},
            **({"api": api} if api else {})))
        return daemon, Caller(daemon), receiver

    def wait_until_removed(self, caller, handoff):
        """Retention has taken its envelope, so it has looked at all that is older."""
        def removed():
            reply = caller.call("GET", f"/v1/handoffs/{handoff}/envelope")
            self.assertEqual(reply.status, 410, reply)
            return reply
        return eventually(removed, "the envelope is removed")

    def fill(self, caller):
        """1.25 MiB that are younger than all that is stored."""
        for _ in range(10):
            envelope(caller, MIB // 8)

    def send_with_key(self, caller, key="key-1", **fields):
        reply = caller.send("coder", {"idempotency_key": key}, **fields)
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    # ---- keys and chains

    def test_a_key_makes_one_handoff_however_much_is_parked(self):
        daemon, caller, receiver = self.daemon(size="1MiB")
        constraints = {"max_tokens": 100000, "must_not": ["deploy"]}
        first = self.send_with_key(caller, intent="Make it reliable", constraints=constraints,
                                   execution_history=[{"agent": "analyst", "action": "read"}])
        receiver.do(status(500))
        for _ in range(20):
            caller.wait_for_state(
                caller.send_async("ill", state={"progress": text(MIB // 8)},
                                  constraints={"max_tokens": 1000000}), "parked")
        for _ in range(3):
            self.fill(caller)
            self.wait_until_removed(caller, first["id"])
            again = self.send_with_key(caller, intent="Make it reliable", constraints=constraints,
                                       execution_history=[{"agent": "analyst", "action": "read"}])
            self.assertEqual(again, first)
        self.assertEqual(len(receiver.requests), 1 + 20)
        self.assertEqual(caller.state(first["id"]), first)
        self.assertEqual(len(caller.attempts(first["id"])), 1)
        self.assertEqual(len(caller.parked("?limit=100")["items"]), 20)

    def test_a_child_inherits_from_a_parent_without_its_envelope(self):
        _, caller, receiver = self.daemon(size="1MiB")
        parent = caller.send(intent="Make it reliable",
                             constraints={"max_cost": 5, "must_not": ["deploy"]},
                             execution_history=[{"agent": "analyst", "action": "read"},
                                                {"agent": "analyst", "action": "planned"}])
        self.assertEqual(parent.status, 200, parent)
        parent = parent.json()["id"]
        digest = caller.call("GET", f"/v1/handoffs/{parent}/envelope").json()["digest"]
        self.fill(caller)
        removed = self.wait_until_removed(caller, parent).json()
        self.assertEqual(removed["code"], "envelope_removed")
        self.assertIn("storage.retention.size", removed["detail"])
        looser = caller.send(source_agent="coder", previous_id=parent, constraints={"max_cost": 6})
        self.assertEqual((looser.status, looser.json()["code"]), (422, "constraint_loosened"))
        child = caller.send(source_agent="coder", previous_id=parent, intent="Something else",
                            constraints={"language": "C"})
        self.assertEqual(child.status, 200, child)
        child = receiver.wait_for(2)[1].json()
        self.assertEqual(child["id"], caller.state(child["id"])["id"])
        self.assertEqual(child["previous"], {"id": parent, "digest": digest})
        self.assertEqual(child["hop"], {"count": 2, "max": 10, "path": ["analyst"]})
        self.assertEqual(child["task_id"], "task-1")
        self.assertEqual(child["context"]["task"]["intent"], "Make it reliable")
        self.assertEqual(child["context"]["constraints"],
                         {"max_cost": 5, "must_not": ["deploy"], "language": "C"})
        self.assertEqual([step["action"] for step in child["context"]["history"]],
                         ["read", "planned", "handed to coder: Write the retry logic"])
        self.assertNotIn("omitted", child)
        long = caller.send(source_agent="coder", previous_id=parent, constraints={"language": "C"},
                           state={"progress": text(MIB // 8)})
        self.assertEqual(long.status, 200, long)
        long = receiver.wait_for(3)[2].json()
        for inherited in ("previous", "hop", "task_id"):
            self.assertEqual(long[inherited], child[inherited])
        self.assertEqual(long["context"]["constraints"], child["context"]["constraints"])

    def test_a_long_intent_is_inherited_too(self):
        _, caller, receiver = self.daemon(size="1MiB")
        intent = text(5000)
        parent = caller.send(intent=intent).json()["id"]
        self.fill(caller)
        self.wait_until_removed(caller, parent)
        child = caller.send(source_agent="coder", previous_id=parent)
        self.assertEqual(child.status, 200, child)
        self.assertEqual(receiver.wait_for(2)[1].json()["context"]["task"]["intent"], intent)

    def test_who_began_a_task_goes_on_with_it(self):
        tokens = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "tokens"
        tokens.write_text("analyst token-of-the-analyst\nstranger token-of-the-stranger\ncoder token-of-the-coder\n")
        tokens.chmod(0o600)
        _, caller, _ = self.daemon(size="1MiB", api={"tokens_file": str(tokens)})
        def call(agent, path, **fields):
            return caller.call("POST", path, {"source_agent": agent, "target_agent": "coder",
                                              "task_id": "task-7", "task_summary": "Plan", **fields},
                               authorization=f"Bearer token-of-the-{agent}")
        first = call("analyst", "/v1/envelopes").json()["id"]
        for _ in range(10):
            call("analyst", "/v1/envelopes", task_id="task-8", state={"progress": text(MIB // 8)},
                 constraints={"max_tokens": 1000000})
        def removed():
            return caller.call("GET", f"/v1/handoffs/{first}/envelope",
                               authorization="Bearer token-of-the-analyst").status == 410
        eventually(removed, "the envelope is removed")
        unseen = caller.call("GET", f"/v1/handoffs/{first}/envelope",
                             authorization="Bearer token-of-the-stranger")
        self.assertEqual(unseen.status, 404)
        self.assertEqual(call("stranger", "/v1/handoffs").status, 404)
        self.assertEqual(call("analyst", "/v1/handoffs").status, 200)

    def test_the_rest_of_a_handoff_goes_by_age(self):
        _, caller, _ = self.daemon(size="1MiB", age="1s")
        first = self.send_with_key(caller)
        eventually(lambda: caller.call("GET", f"/v1/handoffs/{first['id']}").status == 404,
                   "the handoff is past its age")
        self.assertNotEqual(self.send_with_key(caller)["id"], first["id"])

    # ---- load

    def load(self, caller, count, size, senders=4):
        def send():
            for _ in range(count // senders):
                envelope(caller, size)
        threads = [threading.Thread(target=send) for _ in range(senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def test_a_key_outlives_a_load(self):
        _, caller, _ = self.daemon(size="1MiB")
        first = self.send_with_key(caller)
        self.load(caller, 400, 8000)
        self.wait_until_removed(caller, first["id"])
        self.assertEqual(self.send_with_key(caller), first)

    def test_both_budgets_bound_the_disk(self):
        daemon, caller, _ = self.daemon(size="1MiB", index_size="1MiB")
        first = self.send_with_key(caller)
        self.load(caller, 2400, 4000)  # 10 MiB of envelopes, 1.5 MiB of rows
        eventually(lambda: caller.call("GET", f"/v1/handoffs/{first['id']}").status == 404,
                   "the index budget is used up")
        folder = daemon.folder / "data"

        def bounded():
            size = sum(path.stat().st_size for path in folder.iterdir()
                       if not path.name.endswith(("-wal", "-shm")))
            self.assertLess(size, 7 * MIB, [(p.name, p.stat().st_size) for p in folder.iterdir()])  # and files of 1 MiB that are half empty
            return True
        eventually(bounded, "the files are small")
        self.assertNotEqual(self.send_with_key(caller)["id"], first["id"])

    # ---- crashes

    def test_files_that_a_crash_left_behind_are_removed(self):
        daemon, caller, _ = self.daemon()
        self.assertEqual(caller.send().status, 200)
        daemon.kill()
        orphan = daemon.folder / "data" / "handoff.db-bodies-77"
        orphan.write_bytes(b"x" * 5000)
        daemon.log_path.unlink()
        daemon.start()
        daemon.expected_exit = 0
        self.assertFalse(orphan.exists())
        self.assertEqual(daemon.events("store_orphans_removed")[0]["files"], "1")
        self.assertEqual(daemon.events("store_orphans_removed")[0]["bytes"], "5000")
        self.assertIn("handoff_store_orphan_files_total 1\n", daemon.web.get("/metrics").text)

    def test_a_kill_while_it_removes_leaves_the_store_sound(self):
        daemon, caller, _ = self.daemon(size="1MiB", index_size="1MiB")
        chance = random.Random(14)
        for _ in range(3):
            sender = threading.Thread(target=self.send_until_refused, args=(Caller(daemon),))
            sender.start()
            threading.Event().wait(chance.uniform(0.3, 1.3))
            daemon.kill()
            sender.join()
            done = subprocess.run([HANDOFFCTL, "store", "check", str(daemon.folder / "data")],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            daemon.log_path.unlink()
            daemon.start()
        daemon.expected_exit = 0
        self.assertEqual(caller.send().status, 200)

    def send_until_refused(self, caller):
        try:
            while True:
                self.load_once(caller)
        except (OSError, AssertionError, json.JSONDecodeError):
            pass
        except Exception as failure:  # pylint: disable=broad-except
            if not type(failure).__module__.startswith("http"):
                raise

    def load_once(self, caller):
        envelope(caller, 5000)


if __name__ == "__main__":
    unittest.main()
