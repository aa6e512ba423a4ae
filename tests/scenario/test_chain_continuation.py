# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""What a request continues: by previous_id, by several, or by its task alone; and who may not continue it."""

import json
import pathlib
import tempfile
import unittest

from harness.agents import daemon_with
from harness.chain import AGENTS, Chain, Chained, actions, constraints, parents, pullers, state


def told(envelope):
    """The decisions; each test gives its hops one that names them."""
    return state(envelope).get("decisions", [])


class Previous(Chained):
    def say(self, source, target, word, **fields):
        return self.chain.hand(source, target, state={"decisions": [word]}, **fields)

    def test_one_previous_id(self):
        first = self.say("researcher", "analyst", "one")
        second = self.say("analyst", "coder", "two", previous_id=first["id"])
        self.assert_continues(second, first, hop=2)
        self.assertEqual(told(second), ["one", "two"])

    def test_fan_in_by_a_list(self):
        first = self.say("researcher", "analyst", "one")
        left = self.say("analyst", "coder", "left", previous_id=first["id"])
        right = self.say("analyst", "tester", "right", previous_id=first["id"])
        deeper = self.say("tester", "writer", "deeper", previous_id=right["id"])
        joined = self.say("writer", "reviewer", "joined", previous_id=[left["id"], deeper["id"]])
        self.assert_continues(joined, left, deeper, hop=4)
        self.assertEqual(parents(joined)[0], deeper["id"], "the newest parent comes first")
        self.assertEqual(told(joined), ["one", "left", "right", "deeper", "joined"])

    def test_a_list_of_one_is_like_one(self):
        first = self.say("researcher", "analyst", "one")
        self.assert_continues(self.say("analyst", "coder", "two", previous_id=[first["id"]]), first, hop=2)

    def test_what_both_parents_have_is_there_once(self):
        first = self.say("researcher", "analyst", "one")
        self.say("analyst", "coder", "left", previous_id=first["id"])
        self.say("analyst", "coder", "right", previous_id=first["id"])
        joined = self.chain.hand("coder", "tester")
        self.assertEqual(told(joined), ["one", "left", "right"])
        self.assertEqual(len([action for action in actions(joined) if "analyst: researcher" in action]), 1)

    def test_a_previous_that_is_none_is_not_found(self):
        first = self.say("researcher", "analyst", "one")
        unknown = "0190aaaa-0000-7000-8000-000000000001"
        for previous in unknown, [first["id"], unknown]:
            self.assert_refused(self.chain.refused("analyst", "coder", previous_id=previous), 404, "not_found")

    def test_the_same_previous_twice_is_one(self):
        first = self.say("researcher", "analyst", "one")
        reply = self.chain.ask("analyst", "coder", previous_id=[first["id"], first["id"]])
        if reply.status == 202:
            self.assert_continues(self.chain.envelope(reply.json()["id"]), first, hop=2)
        else:
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"))

    def test_an_empty_list_is_the_same_as_none(self):
        """Else it would begin a chain without the constraints, and let a stranger into the task."""
        first = self.chain.hand("researcher", "analyst", constraints={"max_cost": 5})
        second = self.chain.hand("analyst", "coder", previous_id=[])
        self.assert_continues(second, first, hop=2)
        self.assertEqual(constraints(second), {"max_cost": 5})
        self.assert_refused(self.chain.refused("writer", "reviewer", previous_id=[]), 404, "not_found")

    def test_a_wrong_type_is_rejected(self):
        self.say("researcher", "analyst", "one")
        for previous in ({}, 7, ["no uuid"], [7]):
            reply = self.chain.ask("analyst", "coder", previous_id=previous)
            self.assertIn(reply.status, (400, 404), previous)

    def test_parents_of_different_scopes_are_a_conflict(self):
        left = self.chain.hand("researcher", "writer", scope="user:alice")
        right = self.chain.hand("researcher", "writer", scope="user:bob", new_chain=True)
        self.assert_refused(self.chain.refused("writer", "reviewer", previous_id=[left["id"], right["id"]]),
                            422, "scope_conflict")


class ByTask(Chained):
    def say(self, source, target, word, **fields):
        return self.chain.hand(source, target, state={"decisions": [word]}, **fields)

    def test_a_known_task_continues_what_was_addressed_to_the_source(self):
        first = self.say("researcher", "analyst", "one")
        second = self.say("analyst", "coder", "two")
        third = self.say("coder", "tester", "three")
        self.assert_continues(second, first, hop=2)
        self.assert_continues(third, second, hop=3)
        self.assertEqual(told(third), ["one", "two", "three"])
        self.assertEqual(third["hop"]["path"], ["researcher", "analyst"])

    def test_A_B_A_gives_A_its_own_items_back(self):
        first = self.chain.hand("researcher", "analyst", state={"decisions": ["mine"], "unresolved": ["why?"]},
                                execution_history=[{"agent": "researcher", "action": "looked"}])
        back = self.chain.hand("analyst", "researcher")
        self.assert_continues(back, first, hop=2)
        self.assertEqual(state(back), {"decisions": ["mine"], "unresolved": ["why?"]})
        self.assertIn("looked", actions(back))
        again = self.say("researcher", "analyst", "more")
        self.assert_continues(again, back, hop=3)
        self.assertEqual(told(again), ["mine", "more"])

    def test_of_more_than_a_hundred_the_newest_are_continued_and_the_rest_by_the_next(self):
        sent = [self.say("researcher", "writer", f"part {number}") for number in range(103)]
        reply = self.chain.ask("writer", "reviewer")
        joined = self.chain.envelope(reply.json()["id"])
        self.assertEqual(parents(joined), [envelope["id"] for envelope in reversed(sent[3:])])
        self.assertEqual(told(joined), [f"part {number}" for number in range(3, 103)])
        self.assertEqual(joined["not_continued"], 3)
        self.assertIn("3 older ones", reply.json()["warnings"][0]["detail"])
        self.assertIn("3 older handoffs of this task to writer", self.chain.brief(joined))
        self.assertEqual(self.chain.form(joined, "application/vnd.handoff.envelope+json; version=1")
                         .json()["not_continued"], 3)
        rest = self.say("writer", "reviewer", "the rest")
        self.assertEqual(parents(rest), [envelope["id"] for envelope in reversed(sent[:3])])
        self.assertNotIn("not_continued", rest)

    def test_two_open_handoffs_answered_without_previous_id_are_both_continued(self):
        first = self.say("researcher", "analyst", "one")
        left = self.say("analyst", "coder", "left", previous_id=first["id"])
        right = self.say("analyst", "tester", "right", previous_id=first["id"])
        from_left = self.say("coder", "reviewer", "from left")
        from_right = self.say("tester", "reviewer", "from right")
        self.assert_continues(from_left, left, hop=2 + 1)
        self.assert_continues(from_right, right, hop=2 + 1)
        joined = self.say("reviewer", "writer", "joined")
        self.assert_continues(joined, from_left, from_right, hop=4)
        self.assertEqual(told(joined), ["one", "left", "right", "from left", "from right", "joined"])

    def test_only_what_is_not_continued_yet_is_continued(self):
        first = self.say("researcher", "analyst", "one")
        self.say("analyst", "coder", "two", previous_id=first["id"])
        newer = self.say("researcher", "analyst", "newer")
        self.assert_continues(self.say("analyst", "tester", "three"), newer, hop=2)

    def test_where_none_is_open_the_newest_addressed_is_continued_again(self):
        self.say("researcher", "analyst", "one")
        newer = self.say("researcher", "analyst", "newer")
        self.say("analyst", "coder", "both")
        again = self.say("analyst", "tester", "again")
        self.assert_continues(again, newer, hop=2)

    def test_siblings_do_not_see_each_other(self):
        self.say("researcher", "analyst", "one")
        left = self.chain.hand("analyst", "coder", summary="the left work", state={"decisions": ["left"]},
                               memory_ids=["left-memory"], constraints={"left": 1},
                               execution_history=[{"agent": "analyst", "action": "went left"}])
        right = self.say("analyst", "tester", "right")
        self.assertEqual(told(right), ["one", "right"])
        beyond = self.say("tester", "reviewer", "beyond")
        for envelope in right, beyond:
            self.assertNotIn("left", json.dumps(envelope))
            self.assertNotIn("left", json.dumps(self.chain.ledger(envelope)))
        self.assertNotIn("right", json.dumps(self.chain.ledger(left)))

    def test_an_agent_that_was_handed_a_task_fans_it_out_and_it_comes_together(self):
        """Each branch has what was there before it and nothing of the other; who gets both has all, once."""
        first = self.chain.hand("researcher", "analyst", intent="The user's words", constraints={"max_cost": 5},
                                state={"decisions": ["before"], "unresolved": ["who signs?"]})
        left = self.chain.hand("analyst", "coder", state={"decisions": ["to the left"]})
        right = self.chain.hand("analyst", "tester", state={"decisions": ["to the right"]})
        for branch, own in (left, "to the left"), (right, "to the right"):
            self.assertEqual((parents(branch), branch["hop"]["count"]), ([first["id"]], 2))
            self.assertEqual(state(branch)["decisions"], ["before", own])
            self.assertEqual(self.chain.values(branch, "decision"), ["before", own])
        ends = [self.chain.hand("coder", "reviewer", state={"resolved": ["who signs?"]}),
                self.chain.hand("tester", "reviewer", constraints={"max_cost": 4})]
        joined = self.chain.hand("reviewer", "writer")
        self.assertEqual((sorted(parents(joined)), joined["hop"]["count"]), (sorted(end["id"] for end in ends), 4))
        self.assertEqual(state(joined)["decisions"], ["before", "to the left", "to the right"])
        self.assertNotIn("unresolved", state(joined), "the one that knew it has resolved it")
        self.assertEqual(constraints(joined), {"max_cost": 4})
        self.assertEqual(joined["context"]["task"]["intent"], "The user's words")

    def test_an_originator_that_fans_out_begins_branches_at_hop_1(self):
        first = self.chain.hand("researcher", "analyst", intent="The user's words", constraints={"style": "plain"},
                                state={"decisions": ["for analyst"]})
        self.assert_begins(first)
        for target in "coder", "tester", "reviewer":
            branch = self.chain.hand("researcher", target, intent="others", state={"decisions": [f"for {target}"]},
                                     constraints={"for": target})
            self.assert_begins(branch)
            self.assertEqual(branch["task_id"], first["task_id"])
            self.assertEqual(branch["context"]["task"]["intent"], "The user's words")
            self.assertEqual(constraints(branch), {"style": "plain", "for": target})
            self.assertEqual(told(branch), [f"for {target}"])

    def test_what_continues_a_branch_keeps_the_first_intent_and_constraints(self):
        self.chain.hand("researcher", "analyst", intent="The user's words", constraints={"max_cost": 5, "rules": ["a"]},
                        state={"decisions": ["for analyst"]})
        self.chain.hand("researcher", "coder", intent="others", constraints={"rules": ["b"]})
        for hop, (source, target) in enumerate((("coder", "tester"), ("tester", "reviewer")), 2):
            envelope = self.chain.hand(source, target)
            self.assertEqual(envelope["hop"]["count"], hop)
            self.assertEqual(envelope["context"]["task"]["intent"], "The user's words")
            self.assertEqual(constraints(envelope), {"max_cost": 5, "rules": ["a", "b"]})
            self.assertEqual(told(envelope), [])
        self.assert_refused(self.chain.refused("reviewer", "writer", constraints={"max_cost": 6}),
                            422, "constraint_loosened", "max_cost", "5", "researcher", "hop 1")

    def test_an_originator_that_fans_out_cannot_loosen_the_first_constraints(self):
        self.chain.hand("researcher", "analyst", constraints={"max_cost": 5})
        self.assert_refused(self.chain.refused("researcher", "coder", constraints={"max_cost": 6}),
                            422, "constraint_loosened", "max_cost", "5", "researcher", "hop 1")

    def test_hops_count_a_chain_and_not_a_tasks_fan_out(self):
        for number in range(20):  # more than hops.max
            self.assert_begins(self.say("researcher", AGENTS[1 + number % 5], f"branch {number}"))

    def test_what_the_originator_gathers_is_one_envelope_again(self):
        branches = [self.say("researcher", target, target) for target in ("analyst", "coder", "tester")]
        for target in "analyst", "coder", "tester":
            self.say(target, "researcher", f"{target} is done")
        joined = self.say("researcher", "writer", "joined")
        self.assertEqual(len(parents(joined)), len(branches))
        self.assertEqual(joined["hop"]["count"], 3)
        self.assertEqual(told(joined), ["analyst", "coder", "tester", "analyst is done", "coder is done",
                                        "tester is done", "joined"])

    def test_two_agents_that_hand_back_and_forth_grow_in_hops_and_keep_their_constraints(self):
        self.chain.hand("researcher", "analyst", intent="The user's words",
                        constraints={"max_cost": 5, "must_not": ["deploy"]})
        pair = ["analyst", "researcher"]
        for hop in range(2, 9):
            envelope = self.say(*pair, f"hop {hop}")
            self.assertEqual(envelope["hop"]["count"], hop)
            self.assertEqual(constraints(envelope), {"max_cost": 5, "must_not": ["deploy"]})
            self.assertEqual(envelope["context"]["task"]["intent"], "The user's words")
            pair.reverse()
        self.assertEqual(told(envelope), [f"hop {hop}" for hop in range(2, 9)])

    def test_a_stranger_who_names_a_task_gets_404(self):
        self.say("researcher", "analyst", "one")
        for path in "/v1/handoffs", "/v1/envelopes":
            problem = self.assert_refused(self.chain.refused("writer", "coder", path=path), 404, "not_found")
            self.assertEqual(problem["field"], "task_id")

    def test_who_was_only_a_source_later_is_a_party_by_its_envelope(self):
        self.say("researcher", "analyst", "one")
        second = self.say("analyst", "coder", "two")
        self.assert_continues(self.say("coder", "researcher", "three"), second, hop=3)

    def test_a_new_task_begins_a_chain(self):
        envelope = self.say("researcher", "analyst", "one")
        self.assert_begins(envelope)
        self.assertEqual(told(envelope), ["one"])

    def test_an_assembled_envelope_is_continued_like_a_handoff(self):
        first = self.chain.assemble("researcher", "analyst", state={"decisions": ["drafted"]})
        second = self.say("analyst", "coder", "two")
        self.assert_continues(second, first, hop=2)
        self.assertEqual(told(second), ["drafted", "two"])

    def test_an_assembled_envelope_leaves_its_parents_open(self):
        """A preview would otherwise take the older of the two out of what the agent hands on."""
        older = self.say("researcher", "coder", "older")
        newer = self.say("researcher", "coder", "newer")
        preview = self.chain.assemble("coder", "tester")
        self.assert_continues(preview, newer, older, hop=2)
        sent = self.say("coder", "tester", "sent")
        self.assert_continues(sent, newer, older, hop=2)
        self.assertEqual(told(sent), ["older", "newer", "sent"])
        self.assert_continues(self.say("coder", "writer", "again"), newer, hop=2)

    def test_an_assembled_envelope_that_is_delivered_closes_its_parents(self):
        older = self.say("researcher", "coder", "older")
        newer = self.say("researcher", "coder", "newer")
        preview = self.chain.assemble("coder", "tester")
        reply = self.chain.call("POST", f"/v1/envelopes/{preview['id']}/deliver", prefer="respond-async")
        self.assertEqual(reply.status, 202, reply)
        self.assert_continues(preview, newer, older, hop=2)
        self.assert_continues(self.say("coder", "writer", "again"), newer, hop=2)
        self.assert_continues(self.say("tester", "reviewer", "on"), preview, hop=3)

    def test_agents_that_deliver_by_themselves_lose_nothing(self):
        """The sidecar cannot know: each envelope stays open for its target until a handoff continues it."""
        sent = [self.chain.assemble("researcher", "analyst", state={"decisions": ["hop 1"]})]
        for hop, pair in enumerate((("analyst", "coder"), ("coder", "analyst"), ("analyst", "coder")), 2):
            sent.append(self.chain.assemble(*pair, state={"decisions": [f"hop {hop}"]}))
            self.assertEqual(sent[-1]["hop"]["count"], hop)
            self.assertEqual(told(sent[-1]), [f"hop {number}" for number in range(1, hop + 1)])
        self.assert_continues(sent[3], sent[2], sent[0], hop=4)
        self.assert_continues(self.say("coder", "analyst", "handed over"), sent[3], sent[1], hop=5)
        self.assert_continues(self.say("coder", "writer", "again"), sent[3], hop=5)

    def test_a_request_without_a_task_begins_one(self):
        first = self.say("researcher", "analyst", "one", task_id=None)
        self.assert_begins(first)
        self.assertNotEqual(first["task_id"], self.task)


class NewChain(Chained):
    def test_new_chain_starts_anew(self):
        self.chain.hand("researcher", "analyst", intent="old words", constraints={"style": "plain"},
                        state={"decisions": ["one"]})
        envelope = self.chain.hand("analyst", "coder", new_chain=True, intent="new words")
        self.assert_begins(envelope)
        self.assertEqual(envelope["context"]["task"]["intent"], "new words")
        self.assertEqual((constraints(envelope), told(envelope), actions(envelope)), ({}, [], []))

    def test_what_follows_a_new_chain_continues_that_chain(self):
        self.chain.hand("researcher", "analyst", state={"decisions": ["old"]})
        fresh = self.chain.hand("analyst", "coder", new_chain=True, state={"decisions": ["new"]})
        envelope = self.chain.hand("coder", "tester")
        self.assert_continues(envelope, fresh, hop=2)
        self.assertEqual(told(envelope), ["new"])

    def test_new_chain_and_previous_id_contradict_each_other(self):
        first = self.chain.hand("researcher", "analyst")
        self.assert_refused(self.chain.refused("analyst", "coder", previous_id=first["id"], new_chain=True),
                            400, "invalid_request")


class TakenOver(unittest.TestCase):
    def test_who_took_a_handoff_over_continues_it(self):
        with daemon_with({"dead": {"url": "http://127.0.0.1:9/", "retries": 0, "alternates": ["deputy"]},
                          **pullers("deputy", "writer")}) as daemon:
            chain = Chain(daemon, "taken-over")
            reply = chain.ask("researcher", "dead", state={"decisions": ["one"]})
            handoff = reply.json()["id"]
            pulled = chain.call("GET", "/v1/agents/deputy/inbox?wait=20s")
            self.assertEqual(pulled.json()["id"], handoff)
            envelope = chain.hand("deputy", "writer", state={"decisions": ["two"]})
            self.assertEqual(parents(envelope), [handoff])
            self.assertEqual(told(envelope), ["one", "two"])


class WithTokens(unittest.TestCase):
    """With tokens, the token identifies the agent."""

    def setUp(self):
        tokens = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "tokens"
        tokens.write_text("".join(f"{agent} token-of-the-agent-{agent}\n" for agent in AGENTS))
        tokens.chmod(0o600)
        self.daemon = self.enterContext(daemon_with(pullers(*AGENTS), api={"tokens_file": str(tokens)}))
        self.chain = Chain(self.daemon, "guarded")

    def hand(self, source, target, **fields):
        bearer = {"authorization": f"Bearer token-of-the-agent-{source}"}
        reply = self.chain.ask(source, target, headers=bearer, **fields)
        if reply.status != 202:
            return reply
        reply = self.chain.call("GET", f"/v1/handoffs/{reply.json()['id']}/envelope", **bearer)
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def ledger(self, agent, envelope):
        return self.chain.call("GET", f"/v1/envelopes/{envelope['id']}/ledger",
                               authorization=f"Bearer token-of-the-agent-{agent}")

    def test_a_stranger_gets_404(self):
        first = self.hand("researcher", "analyst")
        for fields in {}, {"previous_id": first["id"]}, {"previous_id": [first["id"]]}:
            reply = self.hand("writer", "coder", **fields)
            self.assertEqual((reply.status, reply.json()["code"]), (404, "not_found"), fields)

    def test_fan_in_needs_all_of_the_parents(self):
        mine = self.hand("researcher", "writer", task_id="mine")
        other = self.hand("researcher", "analyst", task_id="mine", new_chain=True)
        reply = self.hand("writer", "coder", task_id="mine", previous_id=[mine["id"], other["id"]])
        self.assertEqual((reply.status, reply.json()["code"]), (404, "not_found"))

    def test_the_ledger_answers_every_party_to_its_envelope_and_no_other_agent(self):
        self.hand("researcher", "analyst", state={"decisions": ["by the first"]})
        second = self.hand("analyst", "coder")
        for agent in "analyst", "coder":
            reply = self.ledger(agent, second)
            self.assertEqual(reply.status, 200, reply)
            self.assertIn("by the first", reply.text, "also what its ancestors said, which it was no party to")
        self.assertEqual(self.ledger("writer", second).status, 404)


class Forbidden(unittest.TestCase):
    def test_an_operator_can_forbid_new_chains(self):
        with daemon_with(pullers(*AGENTS), hops={"new_chain": False}) as daemon:
            chain = Chain(daemon, "forbidden")
            chain.hand("researcher", "analyst")
            status, problem = chain.refused("analyst", "coder", new_chain=True)
            self.assertIn(status, (403, 422))
            self.assertIn("new_chain", json.dumps(problem))


if __name__ == "__main__":
    unittest.main()
