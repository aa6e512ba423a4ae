# SPDX-License-Identifier: Apache-2.0
"""`handoffctl store check` rebuilds every ledger and compares it with the envelopes: whatever differs is a problem."""

import contextlib
import os
import sqlite3
import subprocess
import unittest

from harness.agents import daemon_with
from harness.chain import AGENTS, Chain, actions, pullers

HANDOFFCTL = os.environ["HANDOFFCTL"]


def check(daemon):
    done = subprocess.run([HANDOFFCTL, "store", "check", str(daemon.folder / "data")],
                          capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


class Outage(unittest.TestCase):
    def test_an_envelope_of_a_spine_that_failed_is_sound(self):
        daemon = self.enterContext(daemon_with(pullers(*AGENTS)))
        chain = Chain(daemon, "outage")
        with contextlib.closing(sqlite3.connect(daemon.folder / "data/handoff.db")) as store:
            store.execute("ALTER TABLE memories RENAME TO elsewhere")
            envelope = chain.hand("researcher", "analyst", include_pins=True, include_recent=3, memory_ids=["fact"])
            store.execute("ALTER TABLE elsewhere RENAME TO memories")
        self.assertEqual([entry["id"] for entry in envelope["missing"]], ["fact", "*pinned", "*recent"])
        daemon.terminate()
        daemon.wait()
        code, said = check(daemon)
        self.assertEqual(code, 0, said)


class Elsewhere(unittest.TestCase):
    """An envelope says who had the handoffs before it when it was made; a replay gives one to another agent."""

    def test_a_replay_to_another_agent_leaves_later_envelopes_sound(self):
        daemon = self.enterContext(daemon_with(pullers(*AGENTS)))
        chain = Chain(daemon, "elsewhere")
        first = chain.hand("researcher", "analyst", summary="read: the logs")
        second = chain.hand("analyst", "coder", summary="mend it")
        self.assertEqual(chain.call("POST", f"/v1/handoffs/{first['id']}/park", {"reason": "later"}).status, 200)
        reply = chain.call("POST", f"/v1/parked/{first['id']}/replay", {"target_agent": "tester"})
        self.assertEqual(reply.status, 200, reply)
        later = chain.hand("coder", "writer", summary="write it down")
        self.assertEqual([actions(envelope)[0] for envelope in (second, later)],
                         ["handed to analyst: read: the logs", "handed to tester: read: the logs"])
        daemon.terminate()
        daemon.wait()
        code, said = check(daemon)
        self.assertEqual(code, 0, said)
        with contextlib.closing(sqlite3.connect(daemon.folder / "data/handoff.db")) as store:
            store.execute("UPDATE contributions SET text = replace(text, 'the logs', 'the mail') WHERE hop = 1")
            store.commit()
        self.assertNotEqual(check(daemon)[0], 0, "another summary is seen")


class Check(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(daemon_with(pullers(*AGENTS)))
        chain = Chain(self.daemon, "checked")
        chain.hand("researcher", "analyst", state={"decisions": ["the first decision"]}, constraints={"max_cost": 5})
        chain.hand("analyst", "coder", state={"decisions": ["the second decision"]})
        chain.hand("coder", "tester")
        self.daemon.terminate()
        self.daemon.wait()

    def change(self, statement):
        with contextlib.closing(sqlite3.connect(self.daemon.folder / "data/handoff.db")) as store:
            self.assertEqual(store.execute(statement).rowcount, 1)
            store.commit()

    def check(self):
        return check(self.daemon)

    def assert_found(self, statement):
        self.assertEqual(self.check()[0], 0, "it is sound")
        self.change(statement)
        code, said = self.check()
        self.assertNotEqual(code, 0, said)

    def test_a_sound_chain_passes(self):
        code, said = self.check()
        self.assertEqual(code, 0, said)

    def test_a_contribution_that_is_gone_is_found(self):
        self.assert_found("DELETE FROM contributions WHERE hop = 1")

    def test_a_contribution_that_says_something_else_is_found(self):
        self.assert_found("UPDATE contributions SET text = replace(text, 'first', 'other') WHERE hop = 1")

    def test_a_constraint_that_was_loosened_is_found(self):
        self.assert_found("UPDATE contributions SET text = replace(text, '\"max_cost\":5', '\"max_cost\":9') WHERE hop = 1")

    def test_a_link_that_is_gone_is_found(self):
        self.assert_found("DELETE FROM lineage WHERE child = (SELECT max(child) FROM lineage)")

    def test_a_decision_that_was_never_made_is_found(self):
        self.assert_found("UPDATE contributions SET text = replace(text, '[\"the second', '[\"an invented\",\"the second') WHERE hop = 2")

    def test_an_intent_that_says_something_else_is_found(self):
        self.assert_found("UPDATE contributions SET text = replace(text, 'wants work of analyst', 'wants') WHERE hop = 1")

    def test_parents_in_another_place_are_found(self):
        self.assert_found("UPDATE lineage SET parent = (SELECT min(parent) FROM lineage) WHERE child = (SELECT max(child) FROM lineage)")

    def test_a_contribution_that_cannot_be_read_is_found(self):
        self.assert_found("UPDATE contributions SET text = '{' WHERE hop = 2")

    def test_the_only_contribution_of_a_chain_is_missed(self):
        self.change("DELETE FROM lineage WHERE child = (SELECT max(child) FROM lineage)")
        self.change("DELETE FROM contributions WHERE hop = 3")
        code, said = self.check()
        self.assertNotEqual(code, 0, said)
        self.assertIn("lost its contribution", said)

    def test_another_hop_is_found(self):
        self.assert_found("UPDATE contributions SET hop = 7 WHERE hop = 2")


if __name__ == "__main__":
    unittest.main()
