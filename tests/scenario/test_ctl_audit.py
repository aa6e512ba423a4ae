# SPDX-License-Identifier: Apache-2.0
"""`handoffctl audit` shows the envelopes of a task, and what differs from their ledgers."""

import contextlib
import json
import os
import sqlite3
import subprocess
import unittest

from harness.agents import daemon_with
from harness.chain import AGENTS, Chain, pullers

HANDOFFCTL = os.environ["HANDOFFCTL"]


class Audit(unittest.TestCase):
    def setUp(self):
        agents = {**pullers(*AGENTS), "coder": {"token_budget": 600}}
        self.daemon = self.enterContext(daemon_with(agents))
        chain = Chain(self.daemon, "audited")
        long = [f"decision {number}: " + "word " * 40 for number in range(30)]
        self.envelopes = [chain.hand("researcher", "analyst", state={"decisions": long}),
                          chain.hand("analyst", "coder")]
        Chain(self.daemon, "other").hand("researcher", "analyst")

    def audit(self, *arguments):
        done = subprocess.run([HANDOFFCTL, "audit", str(self.daemon.folder / "data"), *arguments],
                              capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_it_shows_the_chain_and_what_was_omitted_beside_the_daemon(self):
        code, said = self.audit("audited", "--json")
        self.assertEqual(code, 0, said)
        items = [json.loads(line) for line in said.splitlines()]
        for item, envelope in zip(items, self.envelopes, strict=True):
            for member in ("id", "digest", "hop", "parents", "source_agent"):
                self.assertEqual(item[member], envelope[member])
            self.assertEqual(item.get("omitted"), envelope.get("omitted"))
            self.assertIsNone(item["problem"])
        self.assertEqual([item["contributions"] for item in items], [1, 2])
        omitted = self.envelopes[1]["omitted"]["decisions"]
        code, said = self.audit("audited")
        self.assertIn(f"omitted: decisions {omitted}", said)
        self.assertIn("2 envelopes, 0 problems", said)

    def test_it_names_the_envelope_that_differs(self):
        with contextlib.closing(sqlite3.connect(self.daemon.folder / "data/handoff.db")) as store:
            store.execute("DELETE FROM lineage")
            store.commit()
        code, said = self.audit("audited", "--json")
        self.assertEqual(code, 1, said)
        first, second = (json.loads(line)["problem"] for line in said.splitlines())
        self.assertIsNone(first)
        self.assertIn(self.envelopes[1]["id"], second)

    def test_it_compares_each_kind_of_item(self):
        """What a row beside the envelopes says, and how it is changed: one at a time."""
        chain = Chain(self.daemon, "compared")
        chain.hand("researcher", "analyst", state={"decisions": ["chose A"], "remaining": ["test it"]},
                   execution_history=[{"agent": "researcher", "action": "read it all"}], memory_ids=["ms-lost"])
        heir = chain.hand("analyst", "coder")["id"]
        code, said = self.audit("compared", "--json")
        self.assertEqual(code, 0, said)
        for kind, before, after in (("decisions", "chose A", "chose B"), ("remaining", "test it", "test no"),
                                    ("steps", "read it all", "read nothing"), ("steps", '"steps":[', '"stepz":['),
                                    ("references", '["ms-lost"]', '["ms-other"]'),
                                    ("references", '["ms-lost"]', '[]')):
            with self.subTest(kind, after=after):
                self.change_contributions(before, after)
                code, said = self.audit("compared", "--json")
                self.change_contributions(after, before)
                self.assertEqual(code, 1, said)
                problem = json.loads(said.splitlines()[1])["problem"]
                self.assertIn(f"the {kind} of an envelope", problem)
                self.assertIn(heir, problem)
        code, said = self.audit("compared", "--json")
        self.assertEqual(code, 0, said)

    def change_contributions(self, before, after):
        with contextlib.closing(sqlite3.connect(self.daemon.folder / "data/handoff.db")) as store:
            changed = store.execute("UPDATE contributions SET text = replace(text, ?, ?) WHERE instr(text, ?)",
                                    (before, after, before)).rowcount
            store.commit()
        self.assertGreaterEqual(changed, 1, before)

    def test_a_task_that_has_no_envelopes(self):
        code, said = self.audit("nowhere")
        self.assertEqual(code, 4, said)


if __name__ == "__main__":
    unittest.main()
