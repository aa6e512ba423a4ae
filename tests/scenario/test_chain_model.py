# SPDX-License-Identifier: Apache-2.0
"""The model of the ledger finds each kind of fault: envelopes are made from it, and one thing is changed in each."""

import copy
import unittest

from harness.chain_model import Fault, Task, check_envelope, check_ledger, key


def request(source, target, word, **fields):
    return {"source_agent": source, "target_agent": target, "task_summary": f"{word} summary", "intent": "the intent",
            "state": {"decisions": [f"{word} decided"], "unresolved": [f"{word} open"], "remaining": [f"{word} left"],
                      "progress": f"{word} progress"},
            "execution_history": [{"agent": source, "action": f"{word} done", "reason": "must"}],
            "memory_ids": [f"{word}-1", f"{word}-gone"], "constraints": {"must_not": [f"{word} never"], "max_cost": 9},
            **fields}


def exists(name):
    return name.endswith("-1")


def project(ledger):
    """The envelope of a receiver with room for everything."""
    hop, references = ledger.hop, ledger.references()
    there = [name for name in references if exists(name)]
    told = [{"agent": agent, "action": f"handed to {target}: {text}"} for agent, target, text, _ in ledger.summaries()]
    path = ["someone"] * (hop.hop - 1)
    return {
        "id": hop.id, "previous": {"id": hop.parents[0].id} if hop.parents else None,
        "parents": [{"id": parent.id} for parent in hop.parents], "hop": {"count": hop.hop, "path": path},
        "context": {"task": {"intent": "the intent", "summary": hop.request["task_summary"],
                             "state": {**{kind: ledger.list(kind) for kind in ("decisions", "unresolved", "remaining")},
                                       **ledger.members()}},
                    "history": ledger.steps() + told, "constraints": ledger.constraints(),
                    "memories": [{"id": name} for name in there]},
        "memory_refs": there, "trimmed": [],
        "missing": [{"id": name, "reason": "not_found", "since_hop": since} for name, since in references.items()
                    if not exists(name)],
        "completeness": {"requested": len(references), "included": len(there), "ratio": len(there) / len(references)},
        "tokens": {"count": 1, "budget": 2}}


def items(ledger):
    """What the path of that envelope lists."""
    found = []
    for hop in ledger.hops:
        def add(kind, values, hop=hop):
            found.extend({"kind": kind, "hop": hop.hop, "agent": hop.request["source_agent"],
                          "envelope_id": hop.id, "value": value} for value in values)
        for kind, item in ("decisions", "decision"), ("unresolved", "unresolved"), ("remaining", "remaining"):
            add(item, hop.supplied(kind))
        add("step", hop.steps())
        add("reference", hop.references(exists))
        add("summary", [hop.request["task_summary"]])
    return found


class Model(unittest.TestCase):
    def setUp(self):
        self.task = Task("task", exists)
        self.first = self.add(request("a", "b", "first"))
        self.left = self.add(request("b", "c", "left"))
        self.right = self.add(request("b", "c", "right"), [self.first])
        self.joined = self.add(request("c", "d", "joined", state={
            "decisions": ["  first decided "], "resolved": ["left open"], "done": ["right left"]}))
        self.ledger = self.task.ledger(self.joined)
        self.envelope = project(self.ledger)

    def add(self, given, parents=None, was_sent=True):
        parents = self.task.continued(given["source_agent"]) if parents is None else parents
        hop = self.task.add(given, parents)
        hop.id, hop.was_sent = f"id-{hop.place}", was_sent
        return hop

    def fault(self, change, *said):
        envelope = copy.deepcopy(self.envelope)
        change(envelope, envelope["context"], envelope["context"]["task"]["state"])
        with self.assertRaises(Fault) as raised:
            check_envelope(envelope, self.ledger)
        for text in said:
            self.assertIn(text, str(raised.exception))

    def test_what_continues_what(self):
        self.assertEqual(self.left.parents, [self.first])
        self.assertEqual(self.joined.parents, [self.right, self.left])
        self.assertEqual(self.joined.hop, 3)
        self.assertEqual(self.task.continued("a"), [], "it began the task")
        self.assertIsNone(self.task.continued("z"), "it is a stranger")

    def test_what_was_only_assembled_closes_nothing(self):
        draft = self.add(request("d", "e", "draft"), was_sent=False)
        self.assertEqual(self.task.continued("d"), [self.joined])
        self.assertEqual(self.task.continued("e"), [draft])
        newer = self.add(request("a", "d", "newer"))
        self.assertEqual(self.task.continued("d"), [newer, self.joined])
        draft.was_sent = True
        self.assertEqual(self.task.continued("d"), [newer])

    def test_the_ledger(self):
        self.assertEqual(self.ledger.list("decisions"), ["first decided", "left decided", "right decided"])
        self.assertEqual(self.ledger.list("unresolved"), ["first open", "right open"])
        self.assertEqual(self.ledger.list("remaining"), ["first left", "left left"])
        self.assertEqual(self.ledger.constraints()["must_not"],
                         ["first never", "left never", "right never", "joined never"])
        self.assertEqual(self.ledger.references()["left-gone"], 2)
        sibling = self.task.ledger(self.right)
        self.assertNotIn("left decided", sibling.list("decisions"))

    def test_what_is_right_passes(self):
        for hop in self.task.hops:
            ledger = self.task.ledger(hop)
            check_envelope(project(ledger), ledger)
            check_ledger(items(ledger), ledger)

    def test_what_is_omitted_and_counted_passes(self):
        state = self.envelope["context"]["task"]["state"]
        gone = state["decisions"].pop(0)
        step = self.envelope["context"]["history"].pop(0)
        self.envelope["omitted"] = {"decisions": 1, "steps": 1, "more": f"/v1/envelopes/{self.joined.id}/ledger"}
        owed = check_envelope(self.envelope, self.ledger)
        self.assertEqual((owed["decision"], owed["step"]), ([gone], [step]))

    def test_what_is_silently_gone_is_a_fault(self):
        for kind in "decisions", "unresolved", "remaining":
            self.fault(lambda envelope, context, state, kind=kind: state[kind].pop(), kind, "omitted counts 0")
        self.fault(lambda envelope, context, state: context["history"].pop(), "steps are gone")
        self.fault(lambda envelope, context, state: context["history"].pop(0), "steps are gone")
        self.fault(lambda envelope, context, state: context["memories"].pop(), "references are gone")
        self.fault(lambda envelope, context, state: envelope["missing"].pop(), "is missing and exists, or neither")
        self.fault(lambda envelope, context, state: state.pop("progress"), "members of the state")
        self.fault(lambda envelope, context, state: state.update(progress="first progress"), "members of the state")

    def test_a_wrong_count_is_a_fault(self):
        def omit(envelope, context, state):
            state["decisions"].pop()
            envelope["omitted"] = {"decisions": 2, "more": f"/v1/envelopes/{envelope['id']}/ledger"}
        self.fault(omit, "omitted counts 2")
        self.fault(lambda envelope, context, state: envelope.update(omitted={"decisions": 0}), "the path")
        self.fault(lambda envelope, context, state: envelope["completeness"].update(included=3), "completeness is")

    def test_what_no_ancestor_supplied_is_a_fault(self):
        for kind in "decisions", "unresolved", "remaining":
            self.fault(lambda envelope, context, state, kind=kind: state[kind].append("a sibling's"), "no ancestor")
        self.fault(lambda envelope, context, state: context["history"].append({"agent": "b", "action": "x"}),
                   "no ancestor")
        self.fault(lambda envelope, context, state: context["memories"].append({"id": "other-1"}), "nobody asked for")
        self.fault(lambda envelope, context, state: state["unresolved"].append("left open"), "no ancestor")
        self.fault(lambda envelope, context, state: state["decisions"].append("first decided"), "or twice")

    def test_another_order_or_value_is_a_fault(self):
        self.fault(lambda envelope, context, state: state["decisions"].reverse(), "oldest first")
        self.fault(lambda envelope, context, state: state["decisions"].insert(0, " " + state["decisions"].pop(0)),
                   "as it was supplied")
        self.fault(lambda envelope, context, state: context["history"][0].update(reason="other"), "another reason")

    def test_another_intent_is_a_fault(self):
        self.fault(lambda envelope, context, state: context["task"].update(intent="joined summary"), "the intent")

    def test_a_loosened_constraint_is_a_fault(self):
        self.fault(lambda envelope, context, state: context["constraints"].update(max_cost=10), "max_cost")
        self.fault(lambda envelope, context, state: context["constraints"]["must_not"].pop(0), "must_not")
        self.fault(lambda envelope, context, state: context["constraints"].pop("must_not"), "constraints differ")

    def test_a_wrong_link_is_a_fault(self):
        self.fault(lambda envelope, context, state: envelope["parents"].reverse(), "the parents")
        self.fault(lambda envelope, context, state: envelope.update(previous=None), "previous")
        self.fault(lambda envelope, context, state: envelope["hop"].update(count=2), "hop 3")

    def test_a_ledger_that_lacks_an_item_or_has_a_siblings_is_a_fault(self):
        listed = items(self.ledger)
        for place, item in enumerate(listed):
            over = key(item["value"]) in ("left open", "right left")  # resolved, done
            again = key(item["value"]) == "first decided"  # supplied twice
            if not over and not again:
                with self.assertRaises(Fault):
                    check_ledger(listed[:place] + listed[place + 1:], self.ledger)
        with self.assertRaises(Fault):
            check_ledger(items(self.task.ledger(self.joined)), self.task.ledger(self.right))


if __name__ == "__main__":
    unittest.main()
