# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Constraints accumulate along the chain: a hop adds and tightens, and loosening is refused with what is inherited."""

import unittest

from harness.chain import Chained, constraints


class Constraints(Chained):
    def begin(self, **given):
        self.chain.hand("researcher", "analyst", constraints=given)

    def test_a_request_names_only_what_it_adds(self):
        self.begin(style="plain", max_cost=5)
        self.chain.hand("analyst", "coder", constraints={"language": "C"})
        self.chain.hand("coder", "tester")
        envelope = self.chain.hand("tester", "reviewer", constraints={"coverage": "branches"})
        self.assertEqual(constraints(envelope),
                         {"style": "plain", "max_cost": 5, "language": "C", "coverage": "branches"})

    def test_lists_of_demands_are_united(self):
        for name in "must_not", "must", "do_not", "require", "guardrails":
            self.chain.task = f"united-{name}"
            self.begin(**{name: ["deploy", "delete"]})
            self.chain.hand("analyst", "coder", constraints={name: ["mail", "deploy"]})
            envelope = self.chain.hand("coder", "tester", constraints={name: []})
            self.assertEqual(constraints(envelope), {name: ["deploy", "delete", "mail"]})

    def test_maxima_may_fall(self):
        self.begin(max_cost=5)
        self.chain.hand("analyst", "coder", constraints={"max_cost": 3})
        self.assertEqual(constraints(self.chain.hand("coder", "tester")), {"max_cost": 3})

    def test_minima_may_rise(self):
        self.begin(min_coverage=80)
        self.chain.hand("analyst", "coder", constraints={"min_coverage": 90})
        self.assertEqual(constraints(self.chain.hand("coder", "tester")), {"min_coverage": 90})

    def test_a_deadline_may_come_earlier(self):
        self.begin(deadline="2099-05-01T00:00:00Z")
        self.chain.hand("analyst", "coder", constraints={"deadline": "2099-04-01T00:00:00Z"})
        self.assertEqual(constraints(self.chain.hand("coder", "tester")), {"deadline": "2099-04-01T00:00:00Z"})

    def test_members_of_objects_are_tightened_one_by_one(self):
        self.begin(limits={"max_cost": 5, "must_not": ["a"]})
        envelope = self.chain.hand("analyst", "coder", constraints={"limits": {"max_cost": 2, "must_not": ["b"]}})
        self.assertEqual(constraints(envelope), {"limits": {"max_cost": 2, "must_not": ["a", "b"]}})

    def test_what_would_loosen_is_refused_with_the_inherited_value_its_hop_and_agent(self):
        for name, inherited, looser in (("max_cost", 5, 6), ("min_coverage", 81, 80), ("style", "plain", "fancy"),
                                        ("deadline", "2099-05-01T00:00:00Z", "2099-06-01T00:00:00Z")):
            self.chain.task = f"loosened-{name}"
            self.chain.hand("researcher", "analyst", constraints={"other": 1})
            self.chain.hand("analyst", "coder", constraints={name: inherited})
            self.chain.hand("coder", "tester")
            problem = self.assert_refused(self.chain.refused("tester", "reviewer", constraints={name: looser}),
                                          422, "constraint_loosened", name, str(inherited), "analyst", "hop 2")
            self.assertEqual(problem["field"].partition(".")[0], "constraints")
            self.assertEqual(constraints(self.chain.hand("tester", "reviewer"))[name], inherited)

    def test_a_tightened_constraint_names_the_hop_that_tightened_it(self):
        self.begin(max_cost=9)
        self.chain.hand("analyst", "coder", constraints={"max_cost": 7})
        self.assert_refused(self.chain.refused("coder", "tester", constraints={"max_cost": 8}),
                            422, "constraint_loosened", "max_cost", "7", "analyst", "hop 2")

    def test_a_constraint_cannot_be_dropped_with_null(self):
        self.begin(style="plain")
        reply = self.chain.ask("analyst", "coder", constraints={"style": None})
        if reply.status == 202:  # null is the same as omitting it
            self.assertEqual(constraints(self.chain.envelope(reply.json()["id"])), {"style": "plain"})
        else:
            self.assertEqual(reply.json()["code"], "constraint_loosened")

    def test_a_list_of_demands_cannot_become_something_else(self):
        self.begin(must_not=["deploy"])
        self.assert_refused(self.chain.refused("analyst", "coder", constraints={"must_not": "nothing"}),
                            422, "constraint_loosened", "must_not", "deploy", "researcher", "hop 1")

    def test_fan_in_unites_the_constraints_of_all_parents(self):
        self.begin(must_not=["deploy"], max_cost=9)
        self.chain.hand("researcher", "coder")
        self.chain.hand("analyst", "tester", constraints={"must_not": ["mail"], "max_cost": 4})
        self.chain.hand("coder", "tester", constraints={"must_not": ["delete"], "max_cost": 7, "style": "plain"})
        envelope = self.chain.hand("tester", "reviewer")
        found = constraints(envelope)
        self.assertEqual(sorted(found.pop("must_not")), ["delete", "deploy", "mail"])
        self.assertEqual(found, {"max_cost": 4, "style": "plain"})

    # ---- max_tokens

    def test_max_tokens_is_inherited_where_a_hop_names_none(self):
        self.begin(max_tokens=900)
        self.assertEqual(self.chain.hand("analyst", "coder")["tokens"]["budget"], 900)

    def test_max_tokens_is_no_promise_a_hop_may_name_its_own(self):
        self.begin(max_tokens=900)
        larger = self.chain.hand("analyst", "coder", constraints={"max_tokens": 5000})
        self.assertEqual(larger["tokens"]["budget"], 5000)
        self.assertEqual(constraints(larger)["max_tokens"], 5000)
        smaller = self.chain.hand("coder", "tester", constraints={"max_tokens": 700})
        self.assertEqual(smaller["tokens"]["budget"], 700)

    def test_the_receivers_budget_bounds_max_tokens(self):
        self.begin(max_tokens=900)
        envelope = self.chain.hand("analyst", "coder", constraints={"max_tokens": 1000000})
        self.assertEqual(envelope["tokens"]["budget"], 16000)

    # ---- names that are nearly one

    def test_keys_that_look_like_a_known_one_are_refused(self):
        for key, known in (("Max-Tokens", "max_tokens"), ("maxTokens", "max_tokens"), ("MAX_TOKENS", "max_tokens"),
                           ("max_token", "max_tokens"), ("maxtokens", "max_tokens"), ("deadlines", "deadline"),
                           ("Deadline", "deadline"), ("dead-line", "deadline"), ("DEADLINE_", "deadline"),
                           ("Must-Not", "must_not"), ("mustnot", "must_not"), ("do-not", "do_not")):
            with self.subTest(key=key):
                self.chain.task = f"look-alike-{key}"
                self.assert_refused(self.chain.refused("researcher", "analyst", constraints={key: 100}),
                                    400, "invalid_request", key, known)

    def test_a_key_that_looks_like_an_inherited_one_is_refused(self):
        self.begin(max_cost=5)
        self.assert_refused(self.chain.refused("analyst", "coder", constraints={"Max-Cost": 500}),
                            400, "invalid_request", "Max-Cost", "max_cost")

    def test_keys_that_only_share_a_word_are_fine(self):
        given = {"max_tokens_per_call": 5, "deadline_owner": "me", "tokens": 3, "must_notify": ["ops"]}
        self.begin(**given)
        self.assertEqual(constraints(self.chain.hand("analyst", "coder")), given)

    # ---- deadlines

    def test_a_deadline_in_the_past_is_refused(self):
        self.assert_refused(
            self.chain.refused("researcher", "analyst", constraints={"deadline": "2020-01-01T00:00:00Z"}),
            422, "deadline_passed", "deadline", "2020-01-01T00:00:00Z")

    def test_an_inherited_deadline_cannot_be_moved_into_the_past(self):
        self.begin(deadline="2099-05-01T00:00:00Z")
        self.assert_refused(
            self.chain.refused("analyst", "coder", constraints={"deadline": "2020-01-01T00:00:00Z"}),
            422, "deadline_passed", "deadline")


if __name__ == "__main__":
    unittest.main()
