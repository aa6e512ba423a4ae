# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""The store of an earlier version opens, and its handoffs continue. tests/stores/make.py made it."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import Receiver, eventually
from harness.agents import Caller, config
from harness.daemon import Daemon
from harness.receiver import ack

STORES = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "tests/stores"
AGENTS = ("coder", "refuser", "slow", "busy")


class PreviousStore(unittest.TestCase):
    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shutil.unpack_archive(STORES / "ac664b1.tar.gz", self.folder / "data")
        self.ids = json.loads((self.folder / "data/handoffs.json").read_text(encoding="utf-8"))
        self.receivers = {name: stack.enter_context(Receiver(ack)) for name in AGENTS}
        agents = {name: {"url": receiver.url} for name, receiver in self.receivers.items()}
        # the store stays the same, but its handoffs become older than the default retention
        self.daemon = stack.enter_context(Daemon(
            config=config({**agents, "reviewer": {}}, storage={"retention": {"age": "3650d"}}),
            folder=self.folder))
        self.caller = Caller(self.daemon)

    def delivered(self, name):
        return [request.id for request in self.receivers[name].requests]

    def test_what_was_acknowledged_is_known_with_its_key_and_is_not_delivered_again(self):
        acknowledged = self.caller.state(self.ids["acknowledged"])
        self.assertEqual((acknowledged["state"], acknowledged["memory_refs"]), ("acknowledged", ["ms-4821"]))
        key = {"idempotency-key": "run-17"}
        repeat = self.caller.send(headers=key, memory_ids=["ms-4821"])
        self.assertEqual((repeat.status, repeat.json()), (200, acknowledged))
        other = self.caller.send(headers=key, task_summary="Something else")
        self.assertEqual((other.status, other.json()["code"]), (409, "idempotency_conflict"))
        self.assertEqual(self.delivered("coder"), [])

    def test_the_log_says_that_it_is_upgraded(self):
        line = self.daemon.wait_for_event("store_upgrading")
        self.assertLess(int(line["from"]), int(line["to"]))
        self.assertGreater(int(line["bytes"]), 0)
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(), 0)
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.assertEqual(self.daemon.events("store_upgrading"), [])

    def test_a_waiting_handoff_is_pulled(self):
        reply = self.caller.call("GET", "/v1/agents/reviewer/inbox?wait=20s")
        self.assertEqual((reply.status, reply.header("Handoff-Id")), (200, self.ids["waiting"]))
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{self.ids['waiting']}/ack").status, 200)
        self.caller.wait_for_state(self.ids["waiting"], "acknowledged")

    def test_an_interrupted_attempt_is_repeated(self):
        self.caller.wait_for_state(self.ids["in_flight"], "acknowledged")
        self.assertEqual(self.delivered("busy"), [self.ids["in_flight"]])

    def test_a_deferred_acknowledgement_is_accepted(self):
        # its time to acknowledge has passed since the store was made, so it may also be retried
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{self.ids['awaiting']}/ack").status, 200)
        self.caller.wait_for_state(self.ids["awaiting"], "acknowledged")

    def test_a_parked_handoff_is_listed_and_replayed(self):
        [parked] = self.caller.parked()["items"]
        self.assertEqual((parked["id"], parked["reason"]), (self.ids["parked"], "refused"))
        self.assertEqual(self.caller.call("POST", f"/v1/parked/{self.ids['parked']}/replay").status, 200)
        self.caller.wait_for_state(self.ids["parked"], "acknowledged")
        eventually(lambda: len(self.caller.attempts(self.ids["parked"])) == 2, "the attempt is written")

    def test_an_edit_replaces_what_an_older_version_stored(self):
        parked = self.ids["parked"]
        before = self.caller.call("GET", f"/v1/handoffs/{parked}/envelope").json()
        edit = {"task_summary": "Corrected", "constraints": {"deadline": "2090-01-01T00:00:00Z", "max_cost": 3},
                "execution_history": [{"agent": "writer", "action": "an operator looked at it"}]}
        reply = self.caller.call("POST", f"/v1/parked/{parked}/replay", {"edit": edit})
        self.assertEqual(reply.status, 200, reply)
        after = self.caller.call("GET", f"/v1/handoffs/{reply.json()['id']}/envelope").json()
        self.assertEqual((after["replaces"]["id"], after["parents"], after["hop"]["count"]),
                         (parked, [], before["hop"]["count"]))
        task, was = after["context"]["task"], before["context"]["task"]
        self.assertEqual((task["intent"], task["summary"]), (was["intent"], "Corrected"))
        self.assertEqual(task.get("state"), was.get("state"))
        self.assertEqual(after["context"]["constraints"],
                         {**before["context"]["constraints"], "deadline": "2090-01-01T00:00:00Z", "max_cost": 3})
        self.assertEqual(after["context"]["history"], [*before["context"].get("history", []),
                                                       *edit["execution_history"]])
        again = self.caller.send("refuser", previous_id=parked)
        self.assertEqual((again.status, again.json()["code"]), (409, "conflict"), again)

    def test_a_child_continues_the_chain_with_a_memory(self):
        memory = self.caller.call("GET", "/v1/memories/ms-4821").json()
        self.assertEqual((memory["summary"], memory["importance"]), ("Three retries.", "high"))
        self.assertEqual((memory["scope"], memory["task_id"]), ("", None))
        found = self.caller.call("GET", "/v1/memories?query=retries&scope=user:alice").json()["items"]
        self.assertEqual([each["id"] for each in found], ["ms-4821"])
        child = self.caller.send(previous_id=self.ids["acknowledged"], memory_ids=["ms-4821"])
        self.assertEqual(child.status, 200)
        envelope = self.receivers["coder"].requests[0].json()
        self.assertEqual((envelope["previous"]["id"], envelope["hop"]["count"]), (self.ids["acknowledged"], 2))
        self.assertEqual([m["id"] for m in envelope["context"]["memories"]], ["ms-4821"])

    def test_the_store_is_sound_after_the_migration(self):
        self.caller.wait_for_state(self.ids["in_flight"], "acknowledged")
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(), 0)
        done = subprocess.run([os.environ["HANDOFFCTL"], "store", "check", self.folder / "data"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r" 5 envelopes, 1 memories, \d+ bytes: sound\n")


if __name__ == "__main__":
    unittest.main()
