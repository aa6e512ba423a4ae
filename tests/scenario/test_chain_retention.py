# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""A parent's items outlive its body, as long as any handoff of the chain is live, parked or retained."""

import unittest

from harness import eventually
from harness.agents import daemon_with
from harness.chain import AGENTS, Chain, actions, constraints, pullers, state

MIB = 1 << 20
FILL = "retry the request with a backoff and jitter " * (MIB // 8 // 44)


class Retention(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(daemon_with(
            pullers(*AGENTS, token_budget=1000000), storage={"retention": {"size": "1MiB"}}, hops={"max": 12}))
        self.chain = Chain(self.daemon, "kept")

    def fill(self):
        """1.25 MiB of finished envelopes that are younger than all that is stored."""
        for number in range(10):
            Chain(self.daemon, f"filler-{number}").assemble("researcher", "writer", task_id=None,
                                                            state={"progress": FILL})

    def wait_until_removed(self, envelope):
        def removed():
            reply = self.chain.call("GET", f"/v1/handoffs/{envelope['id']}/envelope")
            self.assertEqual(reply.status, 410, reply)
            return True
        eventually(removed, "its body is removed")

    def first(self, **fields):
        return self.chain.assemble(
            "researcher", "analyst", intent="The user's words", constraints={"max_cost": 5, "must_not": ["deploy"]},
            state={"decisions": ["one"], "unresolved": ["why?"], "remaining": ["ship it"]},
            execution_history=[{"agent": "researcher", "action": "looked", "reason": "must"}],
            memory_ids=["not-there"], **fields)

    def check(self, envelope, hop):
        self.assertEqual(envelope["context"]["task"]["intent"], "The user's words")
        self.assertEqual(constraints(envelope), {"max_cost": 5, "must_not": ["deploy"]})
        self.assertEqual(envelope["hop"]["count"], hop)
        self.assertEqual({name: state(envelope)[name] for name in ("decisions", "unresolved", "remaining")},
                         {"decisions": ["one"], "unresolved": ["why?"], "remaining": ["ship it"]})
        self.assertIn("looked", actions(envelope))
        self.assertEqual([entry["id"] for entry in envelope["missing"]], ["not-there"])
        self.assertNotIn("omitted", envelope)
        self.assertIn({"agent": "researcher", "action": "looked", "reason": "must"},
                      self.chain.values(envelope, "step"))

    def test_a_parents_items_outlive_its_body(self):
        first = self.first()
        self.fill()
        self.wait_until_removed(first)
        second = self.chain.hand("analyst", "coder")
        self.check(second, 2)
        self.assertEqual(second["previous"], {"id": first["id"], "digest": first["digest"]})
        self.check(self.chain.hand("coder", "tester"), 3)

    def test_the_items_of_ancestors_outlive_all_bodies_of_a_live_chain(self):
        first = self.first()
        second = self.chain.assemble("analyst", "coder")
        live = self.chain.hand("coder", "tester")
        for _ in range(2):
            self.fill()
        self.wait_until_removed(first)
        self.wait_until_removed(second)
        self.check(self.chain.envelope(live["id"]), 3)
        self.check(self.chain.hand("tester", "reviewer"), 4)

    def test_what_is_loosened_after_the_body_went_is_refused_with_hop_and_agent(self):
        first = self.first()
        self.fill()
        self.wait_until_removed(first)
        status, problem = self.chain.refused("analyst", "coder", constraints={"max_cost": 6})
        self.assertEqual((status, problem["code"]), (422, "constraint_loosened"))
        for text in "max_cost", "5", "researcher", "hop 1":
            self.assertIn(text, str(problem))

    def test_large_constraints_are_inherited_without_the_body_too(self):
        rules = [f"rule {number} of a long list of rules that all hold" for number in range(400)]
        first = self.chain.assemble("researcher", "analyst", constraints={"rules": rules})
        self.fill()
        self.wait_until_removed(first)
        self.assertEqual(constraints(self.chain.hand("analyst", "coder")), {"rules": rules})

    def test_the_ledger_is_answered_after_the_body_went(self):
        first = self.first()
        self.fill()
        self.wait_until_removed(first)
        self.assertEqual(self.chain.values(first, "decision"), ["one"])

    def test_a_stranger_is_a_stranger_and_a_party_is_a_party_after_the_body_went(self):
        first = self.first()
        self.fill()
        self.wait_until_removed(first)
        self.assertEqual(self.chain.refused("writer", "coder")[0], 404)
        branch = self.chain.hand("researcher", "coder")
        self.assertIsNone(branch["previous"])
        self.assertEqual(branch["context"]["task"]["intent"], "The user's words")
        self.assertEqual(constraints(branch), {"max_cost": 5, "must_not": ["deploy"]})

    def test_a_restart_forgets_nothing(self):
        self.first()
        self.daemon.kill()
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.daemon.expected_exit = 0
        self.check(self.chain.hand("analyst", "coder"), 2)


class Budget(unittest.TestCase):
    """Ledgers are part of what storage.retention.index_size bounds."""

    def test_a_chain_that_is_over_goes_with_its_ledger(self):
        with daemon_with(pullers(*AGENTS), storage={"retention": {"age": "2s"}}) as daemon:
            chain = Chain(daemon, "over")
            first = chain.assemble("researcher", "analyst", state={"decisions": ["one"]})
            def gone():
                return chain.call("GET", f"/v1/envelopes/{first['id']}/ledger").status == 404
            eventually(gone, "its ledger is past its age")

    def test_a_chain_stays_as_long_as_its_last_handoff_is_live(self):
        with daemon_with(pullers(*AGENTS), storage={"retention": {"age": "2s"}}) as daemon:
            chain = Chain(daemon, "live")
            first = chain.assemble("researcher", "analyst", state={"decisions": ["one"]}, constraints={"max_cost": 5})
            live = chain.hand("analyst", "coder")  # waits in an inbox
            def gone():
                return chain.call("GET", f"/v1/handoffs/{first['id']}/envelope").status in (404, 410)
            eventually(gone, "the first is past its age")
            self.assertEqual(chain.values(live, "decision"), ["one"])
            third = chain.hand("coder", "tester")
            self.assertEqual((state(third)["decisions"], constraints(third)), (["one"], {"max_cost": 5}))
            self.assertEqual(third["hop"]["count"], 3)


if __name__ == "__main__":
    unittest.main()
