# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""What any hop supplied reaches every later hop: a test for each kind of item."""

import json
import unittest

from harness.chain import Chained, actions, constraints, history, memories, missing, omitted, state


KINDS = {"intent", "constraint", "summary", "decision", "unresolved", "remaining", "state", "step", "reference",
         "expected_output"}


class Task(Chained):
    def test_the_intent_of_the_first_request_is_carried_unchanged(self):
        self.chain.hand("researcher", "analyst", intent="The user's  own words – ünchanged")
        for source, target in ("analyst", "coder"), ("coder", "tester"):
            envelope = self.chain.hand(source, target, intent="something else")
            self.assertEqual(envelope["context"]["task"]["intent"], "The user's  own words – ünchanged")

    def test_without_an_intent_the_first_summary_is_the_intent(self):
        self.chain.hand("researcher", "analyst", summary="Find out why payments fail")
        envelope = self.chain.hand("analyst", "coder", summary="Write the fix")
        self.assertEqual(envelope["context"]["task"]["intent"], "Find out why payments fail")
        self.assertEqual(envelope["context"]["task"]["summary"], "Write the fix")

    def test_earlier_summaries_become_steps_of_the_history(self):
        self.chain.hand("researcher", "analyst", summary="Compare the two gateways")
        self.chain.hand("analyst", "coder", summary="Write the retry logic")
        envelope = self.chain.hand("coder", "tester", summary="Test the retry logic")
        self.assertEqual(envelope["context"]["task"]["summary"], "Test the retry logic")
        first, second = history(envelope)
        self.assertEqual((first["agent"], second["agent"]), ("researcher", "analyst"))
        self.assertIn("analyst: Compare the two gateways", first["action"])
        self.assertIn("coder: Write the retry logic", second["action"])

    def test_this_hops_summary_is_no_step(self):
        envelope = self.chain.hand("researcher", "analyst", summary="Compare the two gateways")
        self.assertEqual(history(envelope), [])

    def test_the_expected_output_is_this_hops_and_the_earlier_ones_stay_in_the_ledger(self):
        first = {"format": "report", "criteria": ["sources are named"]}
        second = {"format": "patch", "criteria": ["tests pass"]}
        self.chain.hand("researcher", "analyst", expected_output=first)
        middle = self.chain.hand("analyst", "coder", expected_output=second)
        last = self.chain.hand("coder", "tester")
        self.assertEqual(middle["context"]["expected_output"], second)
        self.assertFalse(last["context"].get("expected_output"))
        self.assertEqual(self.chain.values(last, "expected_output"), [first, second])


class Request(Chained):
    def test_a_request_is_kept_whole_where_its_envelope_does_not_carry_all_of_it(self):
        """As it was received, value by value: what has no room, what is replaced later, and what has no kind."""
        said = {"decisions": [{"id": f"d{i}", "text": f"decision {i} " * 20, "weight": 10 ** 30 + i} for i in range(30)],
                "unresolved": [f"question {i} " * 20 for i in range(30)], "remaining": ["  the last step  "],
                "progress": {"done": 1.5}, "confidence": [None, True, "\u0000"]}
        steps = [{"agent": "researcher", "action": f"looked {i} " * 20, "reason": "because", "tool": {"name": "grep"}}
                 for i in range(30)]
        output = {"format": "patch", "criteria": ["tests pass"], "size": 0.1}
        first = self.chain.hand("researcher", "analyst", summary="  Find  out ", intent="why?", state=said,
                                execution_history=steps, expected_output=output, memory_ids=["ms-none"],
                                constraints={"max_tokens": 1500, "must_not": ["guess"], "max_cost": 1.1})
        self.assertGreater(omitted(first).get("steps", 0), 0)
        last = self.chain.hand("analyst", "coder", state={"progress": "later"})
        for envelope in (first, last):
            kept = {kind: self.chain.values(envelope, kind) for kind in
                    ("intent", "summary", "decision", "unresolved", "remaining", "step", "reference", "expected_output")}
            self.assertEqual(kept["intent"], ["why?"])
            self.assertEqual(kept["summary"][0], "  Find  out ")
            for kind, name in (("decision", "decisions"), ("unresolved", "unresolved"), ("remaining", "remaining")):
                self.assertEqual(kept[kind], said[name], kind)
            self.assertEqual(kept["step"][:len(steps)], steps)
            self.assertEqual((kept["reference"], kept["expected_output"]), (["ms-none"], [output]))
            others = [(item["name"], item["value"]) for item in self.chain.ledger(envelope, "state")]
            for name in "progress", "confidence":
                self.assertIn((name, said[name]), others)
            named = {item["name"]: item["value"] for item in self.chain.ledger(envelope, "constraint")}
            self.assertEqual(named, {"max_tokens": 1500, "must_not": ["guess"], "max_cost": 1.1})
        raw = self.chain.call("GET", f"/v1/envelopes/{last['id']}/ledger?limit=1000").text
        self.assertIn(str(10 ** 30 + 7), raw, "numbers keep their digits")


class State(Chained):
    def test_decisions_unresolved_and_remaining_grow(self):
        for kind in "decisions", "unresolved", "remaining":
            self.chain.task = f"grow-{kind}"
            self.chain.hand("researcher", "analyst", state={kind: ["one", "two"]})
            self.chain.hand("analyst", "coder", state={kind: ["three"]})
            self.chain.hand("coder", "tester")
            envelope = self.chain.hand("tester", "reviewer", state={kind: ["four"]})
            self.assertEqual(state(envelope)[kind], ["one", "two", "three", "four"])

    def test_equal_entries_are_one(self):
        self.chain.hand("researcher", "analyst", state={"decisions": ["use a queue", "use a queue"]})
        self.chain.hand("analyst", "coder", state={"decisions": ["retry", "use a queue"]})
        envelope = self.chain.hand("coder", "tester", state={"decisions": ["retry"]})
        self.assertEqual(state(envelope)["decisions"], ["use a queue", "retry"])

    def test_entries_are_equal_after_white_space_is_trimmed(self):
        self.chain.hand("researcher", "analyst", state={"unresolved": ["who alerts?"]})
        envelope = self.chain.hand("analyst", "coder", state={"unresolved": ["  who alerts?\n", "who  alerts?"]})
        self.assertEqual(state(envelope)["unresolved"], ["who alerts?", "who  alerts?"])

    def test_entries_that_are_objects_go_as_they_were_supplied(self):
        entry = {"id": "d-1", "text": "„queue“ it", "cost": 1.5, "nested": [{"a": None}]}
        self.chain.hand("researcher", "analyst", state={"decisions": [entry]})
        envelope = self.chain.hand("analyst", "coder", state={"decisions": [dict(reversed(entry.items()))]})
        self.assertEqual(state(envelope)["decisions"], [entry])

    def test_resolved_takes_out_what_was_unresolved_by_equal_text(self):
        self.chain.hand("researcher", "analyst", state={"unresolved": ["who alerts?", "which gateway?"]})
        first = self.chain.hand("analyst", "coder", state={"resolved": [" who alerts? "]})
        second = self.chain.hand("coder", "tester")
        for envelope in first, second:
            self.assertEqual(state(envelope)["unresolved"], ["which gateway?"])

    def test_resolved_takes_out_by_the_id_that_the_agent_gave(self):
        kept = {"id": "q-2", "text": "which gateway?"}
        self.chain.hand("researcher", "analyst", state={"unresolved": [{"id": "q-1", "text": "who alerts?"}, kept]})
        envelope = self.chain.hand("analyst", "coder", state={"resolved": ["q-1"]})
        self.assertEqual(state(envelope)["unresolved"], [kept])

    def test_done_takes_out_what_remained_by_text_and_by_id(self):
        self.chain.hand("researcher", "analyst", state={
            "remaining": ["write it", {"id": "r-1", "text": "test it"}, "ship it"]})
        self.chain.hand("analyst", "coder", state={"done": ["write it", {"id": "r-1"}]})
        envelope = self.chain.hand("coder", "tester")
        self.assertEqual(state(envelope)["remaining"], ["ship it"])

    def test_what_was_resolved_is_not_counted_as_omitted(self):
        self.chain.hand("researcher", "analyst", state={"unresolved": ["who alerts?"], "remaining": ["ship it"]})
        envelope = self.chain.hand("analyst", "coder", state={"resolved": ["who alerts?"], "done": ["ship it"]})
        self.assertNotIn("omitted", envelope)
        self.assertFalse(state(envelope).get("unresolved") or state(envelope).get("remaining"))

    def test_resolved_and_done_are_lists(self):
        for name in "resolved", "done":
            self.assert_refused(self.chain.refused("researcher", "analyst", state={name: "ship it"}),
                                400, "invalid_request", f"state.{name}")

    def test_a_question_that_is_asked_again_is_open_again(self):
        self.chain.hand("researcher", "analyst", state={"unresolved": ["who alerts?"]})
        self.chain.hand("analyst", "coder", state={"resolved": ["who alerts?"]})
        envelope = self.chain.hand("coder", "tester", state={"unresolved": ["who alerts?"]})
        self.assertEqual(state(envelope)["unresolved"], ["who alerts?"])

    def test_the_newest_progress_is_shown_and_the_older_stays_in_the_ledger(self):
        self.chain.hand("researcher", "analyst", state={"progress": "a third"})
        newer = self.chain.hand("analyst", "coder", state={"progress": "two thirds"})
        last = self.chain.hand("coder", "tester")
        for envelope in newer, last:
            self.assertEqual(state(envelope)["progress"], "two thirds")
        self.assertIn("a third", json.dumps(self.chain.ledger(last)))

    def test_the_newest_of_other_members_is_shown_and_the_older_stays_in_the_ledger(self):
        self.chain.hand("researcher", "analyst", state={"branch": "old-branch", "risk": {"level": 3}})
        self.chain.hand("analyst", "coder", state={"branch": "new-branch"})
        envelope = self.chain.hand("coder", "tester")
        self.assertEqual(state(envelope), {"branch": "new-branch", "risk": {"level": 3}})
        self.assertIn("old-branch", json.dumps(self.chain.ledger(envelope)))


class History(Chained):
    STEPS = [{"agent": "researcher", "action": "read the log", "decision": "it is the gateway", "reason": "503",
              "at": "2026-01-02T03:04:05Z"},
             {"agent": "researcher", "action": "asked the owner", "tool": {"name": "mail", "tries": 2}}]

    def test_the_history_is_complete_and_as_it_was_supplied(self):
        self.chain.hand("researcher", "analyst", execution_history=self.STEPS)
        self.chain.hand("analyst", "coder", execution_history=[{"agent": "analyst", "action": "planned"}])
        envelope = self.chain.hand("coder", "tester", execution_history=[{"agent": "coder", "action": "wrote"}])
        supplied = [step for step in history(envelope) if "analyst: " not in step["action"]
                    and "coder: " not in step["action"]]
        self.assertEqual(supplied, [*self.STEPS, {"agent": "analyst", "action": "planned"},
                                    {"agent": "coder", "action": "wrote"}])
        self.assertEqual(len(history(envelope)), 4 + 2)

    def test_a_step_that_is_sent_again_is_one(self):
        self.chain.hand("researcher", "analyst", execution_history=self.STEPS)
        envelope = self.chain.hand("analyst", "coder", execution_history=[
            *self.STEPS, {"agent": "analyst", "action": "planned"}])
        self.assertEqual(len(history(envelope)), 3 + 1)

    def test_the_reason_of_a_decision_is_the_first_to_go(self):
        steps = [{"agent": "researcher", "action": f"step {i}", "decision": f"decided {i}",
                  "reason": "because " * 60} for i in range(5)]
        self.chain.hand("researcher", "analyst", execution_history=steps)
        envelope = self.chain.hand("analyst", "coder", constraints={"max_tokens": 450})
        self.assertEqual([step["decision"] for step in history(envelope) if "decision" in step],
                         [step["decision"] for step in steps])
        self.assertFalse(all("reason" in step for step in history(envelope) if "decision" in step))
        self.assertNotIn("steps", envelope.get("omitted", {}))

    def test_a_reason_that_went_is_in_the_ledger(self):
        step = {"agent": "researcher", "action": "chose", "decision": "queue", "reason": "because " * 200}
        self.chain.hand("researcher", "analyst", execution_history=[step])
        envelope = self.chain.hand("analyst", "coder", constraints={"max_tokens": 200})
        self.assertIn(step, self.chain.values(envelope, "step"))


class References(Chained):
    def put(self, *names, **fields):
        for name in names:
            self.chain.remember(name, f"the fact called {name}", **fields)

    def test_a_reference_is_asked_for_again_at_every_hop(self):
        self.put("ref-1", "ref-2")
        self.chain.hand("researcher", "analyst", memory_ids=["ref-1"])
        self.chain.hand("analyst", "coder", memory_ids=["ref-2"])
        self.chain.remember("ref-1", "the fact as it is now")
        envelope = self.chain.hand("coder", "tester")
        self.assertEqual(sorted(envelope["memory_refs"]), ["ref-1", "ref-2"])
        self.assertEqual(memories(envelope)["ref-1"]["content"], "the fact as it is now")

    def test_a_memory_that_a_step_names_is_a_reference(self):
        self.put("step-ref-1")
        first = self.chain.hand("researcher", "analyst", execution_history=[
            {"agent": "researcher", "action": "noted", "memory_id": "step-ref-1"}])
        second = self.chain.hand("analyst", "coder")
        for envelope in first, second:
            self.assertIn("step-ref-1", memories(envelope))

    def test_an_id_in_the_summary_is_a_reference(self):
        self.put("ms-4821", "ms-48210")
        first = self.chain.hand("researcher", "analyst", summary="Start from ms-4821.")
        second = self.chain.hand("analyst", "coder")
        for envelope in first, second:
            self.assertEqual(list(memories(envelope)), ["ms-4821"])

    def test_an_id_in_the_intent_is_a_reference(self):
        self.put("ms-4822")
        self.chain.hand("researcher", "analyst", intent="Do what (ms-4822) asks for")
        envelope = self.chain.hand("analyst", "coder")
        self.assertEqual(list(memories(envelope)), ["ms-4822"])

    def test_a_range_of_ids_names_those_that_exist(self):
        self.put("rg-4821", "rg-4823", "rg-4825", "rg-4826")
        first = self.chain.hand("researcher", "analyst", summary="The findings are rg-4821 through rg-4825")
        second = self.chain.hand("analyst", "coder")
        for envelope in first, second:
            self.assertEqual(sorted(memories(envelope)), ["rg-4821", "rg-4823", "rg-4825"])
            self.assertEqual(envelope["missing"], [])

    def test_a_word_that_is_no_memory_is_not_missing(self):
        envelope = self.chain.hand("researcher", "analyst", summary="Move to utf-8 and ship v-2 by ms-99999")
        self.assertEqual((envelope["missing"], envelope["completeness"]["requested"]), ([], 0))

    def test_missing_stays_missing_with_its_reason_and_since_which_hop(self):
        self.chain.hand("researcher", "analyst")
        self.chain.hand("analyst", "coder", memory_ids=["nowhere-1"])
        self.chain.hand("coder", "tester")
        envelope = self.chain.hand("tester", "reviewer")
        entry = missing(envelope)["nowhere-1"]
        self.assertEqual(entry["reason"], "not_found")
        self.assertEqual(entry["since_hop"], 2)

    def test_what_was_missing_is_tried_again(self):
        self.chain.hand("researcher", "analyst", memory_ids=["late-1"])
        self.assertIn("late-1", missing(self.chain.hand("analyst", "coder")))
        self.put("late-1")
        envelope = self.chain.hand("coder", "tester")
        self.assertEqual(envelope["missing"], [])
        self.assertEqual(memories(envelope)["late-1"]["content"], "the fact called late-1")

    def test_what_was_deleted_is_missing_from_then_on(self):
        self.put("brief-1")
        self.chain.hand("researcher", "analyst", memory_ids=["brief-1"])
        self.chain.forget("brief-1")
        envelope = self.chain.hand("analyst", "coder")
        self.assertEqual(missing(envelope)["brief-1"]["reason"], "not_found")
        self.assertNotIn("brief-1", memories(envelope))

    def test_missing_is_told_since_the_hop_that_missed_it_not_since_it_was_asked_for(self):
        self.put("went-1")
        self.chain.hand("researcher", "analyst", memory_ids=["went-1"])
        self.chain.hand("analyst", "coder")
        self.chain.forget("went-1")
        for hop, source, target in (3, "coder", "tester"), (4, "tester", "reviewer"):
            self.assertEqual(missing(self.chain.hand(source, target))["went-1"]["since_hop"], 3, hop)
        self.put("went-1")
        self.assertEqual(self.chain.hand("reviewer", "coder")["missing"], [])
        self.chain.forget("went-1")
        self.assertEqual(missing(self.chain.hand("coder", "tester"))["went-1"]["since_hop"], 6)

    def test_what_a_summary_named_and_was_there_is_missing_when_it_is_gone(self):
        self.put("told-7")
        self.chain.hand("researcher", "analyst", summary="Read told-7 and utf-8")
        self.chain.forget("told-7")
        envelope = self.chain.hand("analyst", "coder")
        self.assertEqual(list(missing(envelope)), ["told-7"])
        self.assertEqual(envelope["completeness"]["requested"], 1)

    def test_an_id_that_no_memory_can_have_refuses_nothing_in_a_step(self):
        envelope = self.chain.hand("researcher", "analyst", summary="see " + "x-1" * 60, execution_history=[
            {"agent": "researcher", "action": "noted", "memory_id": "my notes/7"}])
        self.assertEqual({name: entry["reason"] for name, entry in missing(envelope).items()},
                         {"my notes/7": "not_found"})
        self.assertEqual(list(missing(self.chain.hand("analyst", "coder"))), ["my notes/7"])

    def test_an_id_that_no_memory_can_have_is_refused_by_its_place_in_memory_ids(self):
        self.assert_refused(self.chain.refused("researcher", "analyst", memory_ids=["fine-1", "my notes/7"]),
                            400, "invalid_request", "memory_ids[1]", "A-Z a-z 0-9 . _ : -")

    def test_pins_are_looked_up_anew(self):
        self.put("pin-1", "pin-2")
        self.addCleanup(self.chain.call, "DELETE", "/v1/memories/pin-2/pin")
        self.chain.call("PUT", "/v1/memories/pin-1/pin")
        first = self.chain.hand("researcher", "analyst", include_pins=True)
        self.chain.call("DELETE", "/v1/memories/pin-1/pin")
        self.chain.call("PUT", "/v1/memories/pin-2/pin")
        second = self.chain.hand("analyst", "coder", include_pins=True)
        third = self.chain.hand("coder", "tester", include_pins=False)
        self.assertEqual([list(memories(envelope)) for envelope in (first, second, third)],
                         [["pin-1"], ["pin-2"], []])

    def test_what_include_recent_found_is_not_inherited(self):
        self.put("found-1")
        first = self.chain.hand("researcher", "analyst", summary="the fact called found-one", include_recent=5)
        self.assertTrue(memories(first))
        second = self.chain.hand("analyst", "coder")
        self.assertEqual(memories(second), {})


class SentAgain(Chained):
    """Careful senders send again what they received. It adds nothing."""

    def everything(self, envelope):
        return {"state": state(envelope), "execution_history": history(envelope),
                "constraints": constraints(envelope), "memory_ids": envelope["memory_refs"],
                "intent": envelope["context"]["task"]["intent"]}

    def test_sending_everything_again_adds_nothing(self):
        self.chain.remember("again-1")
        envelope = self.chain.hand(
            "researcher", "analyst", summary="Compare the gateways", memory_ids=["again-1"],
            constraints={"must_not": ["deploy"], "max_cost": 5}, execution_history=History.STEPS,
            state={"decisions": ["one", {"id": "d", "n": 1.50}], "unresolved": ["why?"], "remaining": ["ship"],
                   "progress": "half", "branch": {"name": "b"}})
        names = ["analyst", "coder", "tester", "reviewer"]
        for source, target in zip(names, names[1:]):
            envelope = self.chain.hand(source, target, **self.everything(envelope))
        self.assertEqual(state(envelope), {"decisions": ["one", {"id": "d", "n": 1.50}], "unresolved": ["why?"],
                                           "remaining": ["ship"], "progress": "half", "branch": {"name": "b"}})
        self.assertEqual(constraints(envelope), {"must_not": ["deploy"], "max_cost": 5})
        self.assertEqual(envelope["memory_refs"], ["again-1"])
        self.assertEqual(history(envelope)[:2], History.STEPS)
        self.assertEqual(len(history(envelope)), 2 + 3, "two steps, and the summaries of three earlier hops")

    def test_a_step_without_its_reason_is_the_same_step(self):
        steps = [{"agent": "researcher", "action": f"step {i}", "decision": f"decided {i}",
                  "reason": "because " * 60} for i in range(5)]
        self.chain.hand("researcher", "analyst", execution_history=steps)
        narrow = self.chain.hand("analyst", "coder", constraints={"max_tokens": 450})
        self.assertFalse(all("reason" in step for step in history(narrow) if "decision" in step))
        wide = self.chain.hand("coder", "tester", execution_history=history(narrow), constraints={"max_tokens": 9000})
        self.assertEqual([step for step in history(wide) if "decision" in step], steps)


class Ledger(Chained):
    def test_items_are_kept_with_hop_agent_and_time(self):
        self.chain.hand("researcher", "analyst", state={"decisions": ["one"]})
        first = self.chain.hand("analyst", "coder", state={"decisions": ["two"]})
        last = self.chain.hand("coder", "tester")
        one, two = self.chain.ledger(last, "decision")
        self.assertEqual((one["kind"], one["value"], one["hop"], one["agent"]), ("decision", "one", 1, "researcher"))
        self.assertEqual((two["kind"], two["value"], two["hop"], two["agent"]), ("decision", "two", 2, "analyst"))
        self.assertEqual((two["envelope_id"], two["at"]), (first["id"], first["created_at"]))

    def test_the_ledger_has_every_kind(self):
        self.chain.remember("kind-1")
        fields = {"intent": "the intent", "summary": "the summary", "constraints": {"style": "plain"},
                  "state": {"decisions": ["d"], "unresolved": ["u"], "remaining": ["r"], "progress": "p"},
                  "execution_history": [{"agent": "a", "action": "s"}], "memory_ids": ["kind-1"],
                  "expected_output": {"format": "o"}}
        self.chain.hand("researcher", "analyst", **fields)
        envelope = self.chain.hand("analyst", "coder")
        self.assertEqual(self.chain.values(envelope, "intent"), ["the intent"])
        self.assertEqual(self.chain.values(envelope, "decision"), ["d"])
        self.assertEqual(self.chain.values(envelope, "unresolved"), ["u"])
        self.assertEqual(self.chain.values(envelope, "remaining"), ["r"])
        self.assertEqual(self.chain.values(envelope, "reference"), ["kind-1"])
        self.assertEqual(self.chain.values(envelope, "expected_output"), [{"format": "o"}])
        self.assertIn({"agent": "a", "action": "s"}, self.chain.values(envelope, "step"))
        self.assertIn("the summary", json.dumps(self.chain.ledger(envelope, "summary")))
        self.assertIn("plain", json.dumps(self.chain.ledger(envelope, "constraint")))
        self.assertIn("p", json.dumps(self.chain.ledger(envelope, "state")))
        kinds = {item["kind"] for item in self.chain.ledger(envelope)}
        self.assertEqual(kinds, KINDS)
        self.assertEqual(constraints(envelope), {"style": "plain"})

    def test_the_ledger_is_paged(self):
        for hop, (source, target) in enumerate((("researcher", "analyst"), ("analyst", "coder"), ("coder", "tester"))):
            envelope = self.chain.hand(source, target, state={
                "decisions": [f"decision {hop}-{i}" for i in range(7)]})
        wanted = [f"decision {hop}-{i}" for hop in range(3) for i in range(7)]
        for limit in 1, 5, 21, 1000:
            self.assertEqual(self.chain.values(envelope, "decision", limit=limit), wanted)

    def test_a_kind_that_is_none_is_rejected(self):
        envelope = self.chain.hand("researcher", "analyst")
        reply = self.chain.call("GET", f"/v1/envelopes/{envelope['id']}/ledger?kind=decisons")
        self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"))
        self.assertEqual(set(reply.json()["allowed"].split(",")), KINDS)

    def test_an_envelope_that_is_none_has_no_ledger(self):
        reply = self.chain.call("GET", "/v1/envelopes/0190aaaa-0000-7000-8000-000000000001/ledger")
        self.assertEqual((reply.status, reply.json()["code"]), (404, "not_found"))

    def test_a_first_hop_has_its_own_items(self):
        envelope = self.chain.hand("researcher", "analyst", state={"unresolved": ["who alerts?"]})
        self.assertEqual(self.chain.values(envelope, "unresolved"), ["who alerts?"])
        self.assertEqual(actions(envelope), [])


if __name__ == "__main__":
    unittest.main()
