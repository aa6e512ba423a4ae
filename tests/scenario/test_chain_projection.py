# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""What an envelope keeps of its ledger within a budget, what it omits first, and how it reports that."""

import json
import os
import subprocess
import unittest

from harness.agents import daemon_with
from harness.chain import AGENTS, Chain, Chained, actions, history, memories, omitted, parents, pullers, state
from harness.chain_model import Task, check_envelope, check_ledger

HANDOFFCTL = os.environ["HANDOFFCTL"]
PHRASE = "the gateway answers slowly when the queue is long and nobody looks at it"  # 15 tokens or so


def tokens(value):
    """Of its compact JSON."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    done = subprocess.run([HANDOFFCTL, "tokens", "-"], input=text, capture_output=True, text=True, timeout=60,
                          check=True)
    return int(done.stdout)


def many(word, count, phrase=PHRASE):
    return [f"{word} {number}: {phrase}" for number in range(count)]


def steps(count, phrase=PHRASE):
    return [{"agent": "researcher", "action": f"step {number}: {phrase}"} for number in range(count)]


class Keeping(Chained):
    """The order of keeping. Each test has more of one kind than there is room for."""

    PREFIX = "m"  # of the next test's memories; short ids, of which many fit

    def hand_within(self, budget, **fields):
        return self.chain.hand("analyst", "coder", constraints={"max_tokens": budget}, **fields)

    def remember(self, count, content=PHRASE * 20, **fields):
        names = [f"{type(self).PREFIX}-{number}" for number in range(count)]
        type(self).PREFIX += "x"
        for name in names:
            self.chain.remember(name, content, **fields)
        return names

    # ---- first: what is never trimmed

    def test_intent_summary_constraints_and_expected_output_are_never_trimmed(self):
        intent, rules = "The user's words. " + PHRASE, many("never", 5)
        self.chain.hand("researcher", "analyst", intent=intent, constraints={"must_not": rules},
                        execution_history=steps(100), state={"decisions": many("decided", 50)})
        output = {"format": "patch", "criteria": many("criterion", 3)}
        envelope = self.hand_within(400, summary="What to do. " + PHRASE, expected_output=output)
        context = envelope["context"]
        self.assertEqual((context["task"]["intent"], context["task"]["summary"]), (intent, "What to do. " + PHRASE))
        self.assertEqual((context["constraints"]["must_not"], context["expected_output"]), (rules, output))

    def test_unresolved_items_are_kept_before_decisions_remaining_and_steps(self):
        questions = many("open", 10)
        self.chain.hand("researcher", "analyst", state={"unresolved": questions, "decisions": many("decided", 40),
                                                        "remaining": many("remains", 40)}, execution_history=steps(40))
        envelope = self.hand_within(600)
        self.assertEqual(state(envelope)["unresolved"], questions)
        self.assertEqual(set(omitted(envelope)), {"decisions", "remaining", "steps"})

    def test_unresolved_items_of_nothing_but_symbols_are_kept_like_any_others(self):
        questions = ["?" * (1 + number) for number in range(24)]
        questions += ["\N{THINKING FACE}" * (1 + number) for number in range(24)]
        self.chain.hand("researcher", "analyst", state={"unresolved": questions})
        for fields in {"strategy": "full"}, {"strategy": "priority"}:
            envelope = self.chain.hand("analyst", "coder", constraints={"max_tokens": 30000}, **fields)
            self.assertEqual(state(envelope)["unresolved"], questions)
            self.assertEqual(envelope["tokens"]["count"], tokens(envelope["context"]))

    def test_the_bare_id_of_each_reference_is_kept(self):
        names = self.remember(20)
        self.chain.hand("researcher", "analyst", memory_ids=names, execution_history=steps(60))
        envelope = self.hand_within(900)
        self.assertEqual(sorted(memories(envelope)), sorted(names))
        self.assertTrue(all(name in envelope["memory_refs"] for name in names))
        self.assertNotIn("references", omitted(envelope))

    def test_where_unresolved_items_take_more_than_half_the_oldest_go_to_omitted(self):
        questions = many("open", 100)
        self.chain.hand("researcher", "analyst", state={"unresolved": questions[:50], "decisions": many("decided", 100)})
        self.chain.hand("analyst", "researcher", state={"unresolved": questions[50:]})
        envelope = self.chain.hand("researcher", "coder", constraints={"max_tokens": 1000})
        kept = state(envelope)["unresolved"]
        self.assertEqual(kept, questions[-len(kept):])
        self.assertEqual(omitted(envelope)["unresolved"], 100 - len(kept))
        self.assertLessEqual(tokens(kept), 520)
        self.assertGreater(tokens(kept), 400)

    def test_unresolved_items_beyond_half_take_what_is_left(self):
        questions = many("open", 100)
        self.chain.hand("researcher", "analyst", state={"unresolved": questions})
        envelope = self.chain.hand("analyst", "coder", constraints={"max_tokens": 1000})
        kept = state(envelope)["unresolved"]
        self.assertEqual(kept, questions[-len(kept):])
        self.assertEqual(omitted(envelope)["unresolved"], 100 - len(kept))
        self.assertGreater(envelope["tokens"]["count"], 970)

    def test_where_ids_take_more_than_half_the_oldest_go_to_omitted(self):
        names = self.remember(100, "a fact")
        self.chain.hand("researcher", "analyst", memory_ids=names[:50])
        self.chain.hand("analyst", "researcher", memory_ids=names[50:])
        envelope = self.chain.hand("researcher", "coder", constraints={"max_tokens": 800}, strategy="lazy")
        kept = set(memories(envelope))
        self.assertTrue(kept)
        self.assertEqual(omitted(envelope)["references"], 100 - len(kept))
        if kept & set(names[:50]):  # of the first hop only if all of the second are kept
            self.assertGreaterEqual(kept, set(names[50:]))

    def test_what_is_never_trimmed_is_the_only_ground_for_budget_too_small(self):
        names = self.remember(30)
        self.chain.hand("researcher", "analyst", memory_ids=names, execution_history=steps(50),
                        state={"unresolved": many("open", 50), "decisions": many("decided", 50),
                               "remaining": many("remains", 50)})
        self.assertEqual(self.chain.ask("analyst", "coder", constraints={"max_tokens": 300}).status, 202)
        status, problem = self.chain.refused("analyst", "coder",
                                             constraints={"max_tokens": 300, "rules": many("r", 30)})
        self.assertEqual((status, problem["code"]), (422, "budget_too_small"))
        self.assertGreater(problem["needed"], 300)
        envelope = self.hand_within(problem["needed"])
        self.assertLessEqual(envelope["tokens"]["count"], problem["needed"])

    def test_progress_and_other_members_never_refuse(self):
        long = " ".join(f"word{number}" for number in range(2000))
        self.chain.hand("researcher", "analyst", state={"progress": long, "notes": {"log": long}, "branch": "main"})
        inherited = self.hand_within(300)
        own = self.chain.hand("coder", "tester", state={"progress": long + "!"}, constraints={"max_tokens": 300})
        for envelope in inherited, own:
            self.assertEqual(omitted(envelope)["state"], 3 - len(state(envelope)))
            self.assertLessEqual(set(state(envelope)), {"branch"})
        self.assertIn(long, self.chain.values(own, "state"))
        self.assertIn(long + "!", self.chain.values(own, "state"))
        wide = self.chain.hand("tester", "reviewer", constraints={"max_tokens": 16000})
        self.assertEqual(state(wide)["progress"], long + "!")

    def test_the_needed_budget_is_enough_and_one_less_is_not(self):
        self.chain.hand("researcher", "analyst", intent=PHRASE, constraints={"rules": many("rule", 5)},
                        state={"unresolved": many("open", 20)})
        _, problem = self.chain.refused("analyst", "coder", constraints={"max_tokens": 20})
        needed = problem["needed"]
        self.assertEqual(self.chain.refused("analyst", "coder", constraints={"max_tokens": needed - 1})[0], 422)
        self.assertEqual(self.chain.ask("analyst", "coder", constraints={"max_tokens": needed}).status, 202)

    # ---- then in this order

    def test_decisions_are_kept_newest_first(self):
        decisions = many("decided", 60)
        self.chain.hand("researcher", "analyst", state={"decisions": decisions[:40]})
        self.chain.hand("analyst", "researcher", state={"decisions": decisions[40:]})
        envelope = self.chain.hand("researcher", "coder", constraints={"max_tokens": 600})
        kept = state(envelope)["decisions"]
        self.assertEqual(kept, decisions[-len(kept):])
        self.assertEqual(omitted(envelope)["decisions"], 60 - len(kept))

    def test_remaining_is_kept_newest_first(self):
        remaining = many("remains", 60)
        self.chain.hand("researcher", "analyst", state={"remaining": remaining})
        kept = state(self.hand_within(600))["remaining"]
        self.assertEqual(kept, remaining[-len(kept):])
        self.assertTrue(10 < len(kept) < 60, len(kept))

    def test_decisions_are_kept_before_pins_in_full(self):
        decisions = many("decided", 15)
        with daemon_with(pullers(*AGENTS)) as daemon:
            chain = Chain(daemon, self.task)
            chain.remember("pin-1", PHRASE * 30, pinned=True)
            chain.hand("researcher", "analyst", state={"decisions": decisions})
            envelope = chain.hand("analyst", "coder", constraints={"max_tokens": 500}, include_pins=True)
            self.assertEqual(state(envelope)["decisions"], decisions)
            self.assertEqual(list(memories(envelope)), ["pin-1"])
            self.assertNotIn("content", memories(envelope)["pin-1"])

    def test_pins_in_full_are_kept_before_this_hops_ids_in_full(self):
        with daemon_with(pullers(*AGENTS)) as daemon:
            chain = Chain(daemon, self.task)
            chain.remember("pin-1", PHRASE * 20, pinned=True)
            chain.remember("asked-1", PHRASE * 20)
            envelope = chain.hand("researcher", "analyst", constraints={"max_tokens": 550}, include_pins=True,
                                  memory_ids=["asked-1"])
            self.assertIn("content", memories(envelope)["pin-1"])
            self.assertNotIn("content", memories(envelope)["asked-1"])

    def test_this_hops_ids_in_full_are_kept_before_steps(self):
        name, = self.remember(1)
        self.chain.hand("researcher", "analyst", execution_history=steps(20))
        envelope = self.hand_within(600, memory_ids=[name])
        self.assertIn("content", memories(envelope)[name])
        self.assertGreater(omitted(envelope)["steps"], 0)

    def test_steps_are_kept_before_inherited_references_in_full(self):
        name, = self.remember(1)
        self.chain.hand("researcher", "analyst", memory_ids=[name], execution_history=steps(15))
        envelope = self.hand_within(700)
        self.assertEqual(len(history(envelope)), 16)
        self.assertNotIn("content", memories(envelope)[name])

    def test_inherited_references_in_full_are_kept_before_what_was_found(self):
        name, = self.remember(1, PHRASE * 20)
        self.chain.remember("seldom-found", "quarterly zeppelin inspection " + PHRASE * 20)
        self.chain.hand("researcher", "analyst", memory_ids=[name])
        envelope = self.hand_within(550, include_recent=5, summary="quarterly zeppelin inspection")
        self.assertIn("content", memories(envelope)[name])
        self.assertNotIn("content", memories(envelope).get("seldom-found", {}))

    def test_what_was_found_and_did_not_fit_is_trimmed_and_not_omitted(self):
        self.chain.remember("also-found", "annual submarine inspection " + PHRASE * 40)
        envelope = self.chain.hand("researcher", "analyst", include_recent=1, constraints={"max_tokens": 300},
                                   summary="annual submarine inspection")
        self.assertNotIn("omitted", envelope)
        self.assertTrue(envelope["trimmed"] or memories(envelope), envelope)

    def test_steps_are_kept_newest_first(self):
        self.chain.hand("researcher", "analyst", execution_history=steps(40))
        envelope = self.hand_within(500)
        kept = [action for action in actions(envelope) if action.startswith("step ")]
        self.assertEqual(kept, [step["action"] for step in steps(40)][-len(kept):])
        self.assertEqual(omitted(envelope)["steps"], 41 - len(history(envelope)))

    def test_trimming_is_for_one_receiver(self):
        decisions = many("decided", 60)
        self.chain.hand("researcher", "analyst", state={"decisions": decisions}, execution_history=steps(60))
        narrow = self.hand_within(300)
        self.assertGreater(omitted(narrow)["decisions"], 0)
        wide = self.chain.hand("coder", "tester", constraints={"max_tokens": 16000})
        self.assertEqual(state(wide)["decisions"], decisions)
        self.assertEqual(len([action for action in actions(wide) if action.startswith("step ")]), 60)
        self.assertNotIn("omitted", wide)


class Omitted(Chained):
    def test_it_counts_by_kind_and_names_the_path(self):
        self.chain.hand("researcher", "analyst", state={"decisions": many("decided", 50)}, execution_history=steps(50))
        envelope = self.chain.hand("analyst", "coder", constraints={"max_tokens": 400})
        self.assertEqual(envelope["omitted"], {
            "decisions": 50 - len(state(envelope).get("decisions", [])), "steps": 51 - len(history(envelope)),
            "more": f"/v1/envelopes/{envelope['id']}/ledger"})

    def test_it_counts_the_reasons_of_steps_that_go_without_theirs(self):
        decided = [{**step, "decision": "go on", "reason": "because " + "so " * 60} for step in steps(5)]
        self.chain.hand("researcher", "analyst", execution_history=decided)
        envelope = self.chain.hand("analyst", "coder", constraints={"max_tokens": 400})
        bare = [step for step in history(envelope) if "decision" in step and "reason" not in step]
        self.assertEqual(omitted(envelope), {"reasons": len(bare)})
        self.assertGreater(len(bare), 0)
        self.assertIn(decided[0], self.chain.values(envelope, "step"))
        self.assertRegex(self.chain.brief(envelope), rf"{len(bare)} reasons; all of it: GET")

    def test_everything_omitted_is_listed_under_the_path(self):
        decisions = many("decided", 50)
        self.chain.hand("researcher", "analyst", state={"decisions": decisions}, execution_history=steps(50))
        envelope = self.chain.hand("analyst", "coder", constraints={"max_tokens": 400})
        path = envelope["omitted"]["more"]
        self.assertEqual(self.chain.values(envelope, "decision", path=path, limit=7), decisions)
        found = self.chain.values(envelope, "step", path=path, limit=7)
        for step in steps(50):
            self.assertIn(step, found)

    def test_it_is_absent_when_nothing_was_omitted(self):
        self.chain.hand("researcher", "analyst", state={"decisions": many("decided", 3)})
        self.assertNotIn("omitted", self.chain.hand("analyst", "coder"))

    def test_the_version_is_2_1(self):
        self.assertEqual(self.chain.hand("researcher", "analyst")["envelope_version"], "2.1")

    def test_the_same_ledger_and_request_make_the_same_bytes(self):
        first = self.chain.hand("researcher", "analyst", execution_history=steps(40),
                                state={"decisions": many("decided", 40), "unresolved": many("open", 40)})
        contexts = set()
        for _ in range(5):
            envelope = self.chain.assemble("analyst", "coder", previous_id=first["id"],
                                           constraints={"max_tokens": 700})
            contexts.add(json.dumps([envelope["context"], omitted(envelope), envelope["tokens"]]))
        self.assertEqual(len(contexts), 1)


class GiantPin(unittest.TestCase):
    def test_a_giant_pin_refuses_no_handoff(self):
        with daemon_with(pullers(*AGENTS, token_budget=1500)) as daemon:
            chain = Chain(daemon, "giant")
            chain.remember("giant-1", " ".join(f"word{number}" for number in range(5000)), pinned=True)
            chain.hand("researcher", "analyst", include_pins=True)
            for source, target in ("analyst", "coder"), ("coder", "tester"):
                envelope = chain.hand(source, target, include_pins=True, state={"decisions": [source]})
                self.assertEqual(list(memories(envelope)), ["giant-1"])
                self.assertEqual(envelope["completeness"], {"requested": 1, "included": 1, "ratio": 1})
                self.assertLessEqual(envelope["tokens"]["count"], 1500)
            self.assertEqual(state(envelope)["decisions"], ["analyst", "coder"])

    def test_what_does_not_fit_names_the_budget_that_would_have_to_be_raised(self):
        with daemon_with(pullers(*AGENTS, token_budget=1500)) as daemon:
            chain = Chain(daemon, "whose")
            chain.remember("whose-1", " ".join(f"word{number}" for number in range(5000)), pinned=True)
            for limits, field, seen in (({}, "token_budget", "1500"), ({"max_tokens": 9000000}, "token_budget", "1500"),
                                        ({"max_tokens": 1000}, "constraints.max_tokens", "1000")):
                status, problem = chain.refused("researcher", "analyst", strategy="full", include_pins=True,
                                                constraints=limits)
                self.assertEqual((status, problem["code"]), (422, "budget_too_small"), problem)
                self.assertEqual((problem["field"], problem["seen"]), (field, seen), problem)


class TwelveHops(Chained):
    def test_twelve_hops_at_a_budget_of_1500(self):
        """Nothing of twelve hops is lost: it is present, or counted and listed under the path."""
        task = Task(self.task, lambda name: name.startswith("twelve-"))
        for number in range(12):
            self.chain.remember(f"twelve-{number}", PHRASE * 10)
        for number in range(12):
            source, target = AGENTS[number % 6], AGENTS[(number + 1) % 6]
            request = {"source_agent": source, "target_agent": target, "task_summary": f"hop {number}: {PHRASE}",
                       "memory_ids": [f"twelve-{number}"], "constraints": {"must_not": [f"never {number}"],
                                                                           "max_tokens": 1500},
                       "state": {"decisions": many(f"decided at {number}", 5), "progress": f"hop {number}",
                                 "unresolved": many(f"open at {number}", 3),
                                 "remaining": many(f"remains at {number}", 3)},
                       "execution_history": [{**step, "action": f"{number} {step['action']}"} for step in steps(5)]}
            fields = {name: value for name, value in request.items() if not name.endswith("_agent")}
            envelope = self.chain.hand(source, target, summary=fields.pop("task_summary"), **fields)
            hop = task.add(request, task.continued(source))
            hop.id = envelope["id"]
            check_envelope(envelope, task.ledger(hop))
            check_ledger(self.chain.ledger(envelope), task.ledger(hop))
            self.assertEqual(envelope["hop"]["count"], number + 1)
            self.assertLessEqual(tokens(envelope["context"]), 1500)
        self.assertEqual(len(parents(envelope)), 1)
        self.assertGreater(omitted(envelope)["steps"], 0)
        self.assertEqual(envelope["context"]["constraints"]["must_not"], [f"never {number}" for number in range(12)])


if __name__ == "__main__":
    unittest.main()
