# SPDX-License-Identifier: Apache-2.0
"""The brief, the flat form and the dual form of an envelope say what was omitted, as the envelope does."""

import json
import os
import pathlib
import unittest

import jsonschema

from harness.chain import AGENTS, Chained, omitted, pullers

SCHEMAS = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "docs/schema"
LONG = "the gateway answers slowly when the queue is long and nobody looks at it " * 3
FLAT = "application/vnd.handoff.envelope+json; version=1"


def schema(name):
    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / name).read_text(encoding="utf-8")))


class Forms(Chained):
    CONFIG = {"agents": {**pullers(*AGENTS), "dual": {"accepts": ["1", "2"], "emit": "dual", "token_budget": 16000},
                         "old": {"accepts": ["1"], "token_budget": 16000}}}

    def narrow(self, target="coder"):
        self.chain.hand("researcher", "analyst", constraints={"must_not": ["deploy"]},
                        state={"decisions": [f"decision {i}: {LONG}" for i in range(20)],
                               "unresolved": ["who alerts?"]},
                        execution_history=[{"agent": "researcher", "action": f"step {i}: {LONG}"} for i in range(20)])
        envelope = self.chain.hand("analyst", target, constraints={"max_tokens": 400})
        self.assertEqual(set(omitted(envelope)), {"decisions", "steps"})
        return envelope

    def test_the_brief_says_what_was_omitted_and_where_it_is(self):
        envelope = self.narrow()
        brief = self.chain.brief(envelope)
        self.assertIn(envelope["omitted"]["more"], brief)
        where = brief.lower()
        for kind, count in omitted(envelope).items():
            self.assertRegex(where, rf"{count}\W+(\w+\W+)?{kind}|{kind}\W+(\w+\W+)?{count}")

    def test_the_brief_says_nothing_of_it_when_nothing_was_omitted(self):
        self.chain.hand("researcher", "analyst")
        brief = self.chain.brief(self.chain.hand("analyst", "coder"))
        self.assertNotIn("/ledger", brief)

    def test_the_brief_has_what_earlier_hops_supplied(self):
        self.chain.hand("researcher", "analyst", summary="Compare the gateways", constraints={"must_not": ["deploy"]},
                        state={"decisions": ["use a queue"], "unresolved": ["who alerts?"], "remaining": ["ship it"]})
        brief = self.chain.brief(self.chain.hand("analyst", "coder"))
        for text in "Compare the gateways", "deploy", "use a queue", "who alerts?", "ship it":
            self.assertIn(text, brief)

    def test_version_1_says_what_was_omitted_and_where_it_is(self):
        envelope = self.narrow()
        flat = self.chain.form(envelope, FLAT)
        self.assertEqual(flat.header("Content-Type"), FLAT)
        schema("envelope-1.schema.json").validate(flat.json())
        self.assertEqual(flat.json()["omitted"], envelope["omitted"])

    def test_what_an_agent_gets_that_reads_version_1_alone_says_it(self):
        self.narrow("old")
        pulled = self.chain.call("GET", "/v1/agents/old/inbox")
        self.assertEqual(pulled.status, 200, pulled)
        schema("envelope-1.schema.json").validate(pulled.json())
        counts = pulled.json()["omitted"]
        self.assertRegex(counts.pop("more"), r"^/v1/envelopes/[0-9a-f-]{36}/ledger$")
        self.assertTrue(counts["steps"] > 0 and counts["decisions"] > 0)

    def test_the_dual_form_says_it_to_readers_of_both(self):
        envelope = self.narrow("dual")
        schema("envelope-1.schema.json").validate(envelope)
        self.assertEqual((envelope["from"], envelope["envelope_version"]), ("analyst", "2.1"))
        self.assertEqual(envelope["omitted"]["more"], f"/v1/envelopes/{envelope['id']}/ledger")

    def test_readers_of_2_0_go_on(self):
        """Additions only: without them, and with its version, it is valid as 2.0."""
        envelope = self.narrow()
        old = {name: value for name, value in envelope.items() if name not in ("parents", "omitted")}
        old["missing"] = [{"id": entry["id"], "reason": entry["reason"]} for entry in old["missing"]]
        schema("envelope-2.0.schema.json").validate({**old, "envelope_version": "2.0"})
        self.assertEqual(set(envelope["previous"]), {"id", "digest"})


if __name__ == "__main__":
    unittest.main()
