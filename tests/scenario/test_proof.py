# SPDX-License-Identifier: Apache-2.0
"""The proof, in small: nothing vanishes through the sidecar, and its judge notices what would."""

import copy
import json
import os
import pathlib
import sys
import tempfile
import unittest

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
sys.path.insert(0, str(TOP / "proof"))

import faults    # noqa: E402
import judge     # noqa: E402  (the proof's own)
import proof     # noqa: E402
import report    # noqa: E402
import sidecar   # noqa: E402
import tasks     # noqa: E402
import ways      # noqa: E402

TASKS = 12
FAULTS = 3      # times as many as in the document, because there are few tasks


def run(name, *arguments):
    """What the proof counts of one way."""
    options = proof.parse([f"--exporter={os.environ['HANDOFF_EXPORTER']}", f"--tasks={TASKS}",
                           "--other-tasks=10", *arguments])
    return report.summarize(name, proof.WAYS[name].title, *proof.run_way(name, options.tasks, options))


def gone(result, *kinds):
    return sum(result["by_kind"][kind]["gone"] for kind in kinds or tasks.KINDS)


class Mutated(sidecar.Plain):
    """The sidecar, if it answered something else: change() is applied to what each agent receives."""

    change = None

    def read(self, document, notes):
        envelope = json.loads(document)
        type(self).change(envelope)
        return super().read(json.dumps(envelope), notes)


class Sidecar(unittest.TestCase):
    def check(self, name):
        result = run(name, f"--faults={FAULTS}", "--kill-every=1")
        self.assertEqual(result["handoffs"], TASKS * (len(tasks.AGENTS) - 1))
        self.assertEqual(result["wrong_counts"], 0, result)
        self.assertEqual(gone(result), 0, result)
        for kind in ("intent", "constraint", "unresolved"):
            fates = result["by_kind"][kind]
            self.assertEqual(fates["present"], sum(fates.values()), (kind, fates))
        self.assertGreater(result["kills"], 0)

    def test_nothing_vanishes_for_senders_that_follow_the_specification(self):
        self.check("sample")

    def test_nothing_vanishes_for_senders_that_say_what_is_new(self):
        self.check("plain")

    def test_nothing_vanishes_for_senders_that_say_all_of_it_again(self):
        self.check("careful")


class Judge(unittest.TestCase):
    """Each mutation of the sidecar's answers is found."""

    def judged(self, change):
        class Changed(Mutated):
            pass

        Changed.change = staticmethod(change)
        proof.WAYS["mutated"] = Changed
        self.addCleanup(proof.WAYS.pop, "mutated")
        return run("mutated", "--faults=0", "--kill-every=0")

    def test_a_dropped_constraint(self):
        def drop(envelope):
            del envelope["context"]["constraints"]["must_not"][0]
        self.assertGreater(gone(self.judged(drop), "constraint"), 0)

    def test_a_dropped_constraint_that_the_ledger_still_has(self):
        def drop(envelope):
            del envelope["context"]["constraints"]["must_not"][0]
            envelope.setdefault("omitted", {"steps": 1, "more": f"/v1/envelopes/{envelope['id']}/ledger"})
        result = self.judged(drop)
        fates = result["by_kind"]["constraint"]
        self.assertEqual((fates["gone"], fates["reachable"]), (sum(fates.values()) / 4, 0), fates)

    def test_a_promised_memory_that_is_not_there(self):
        def promise(envelope):
            names = [memory["id"] for memory in envelope["context"].pop("memories", [])]
            envelope["memory_refs"] = [f"{name}-not-there" for name in names]
            envelope["context"].pop("references", None)
        self.assertGreater(gone(self.judged(promise), "fact"), 0)

    def test_a_lost_step(self):
        def lose(envelope):
            envelope["context"]["history"] = envelope["context"].get("history", [])[1:]
        self.assertGreater(self.judged(lose)["wrong_counts"], 0)

    def test_a_lost_decision_that_nothing_counts(self):
        def lose(envelope):
            envelope["context"]["task"].get("state", {}).pop("decisions", None)
            envelope.pop("omitted", None)
        result = self.judged(lose)
        self.assertGreater(gone(result, "decision"), 0)
        self.assertGreater(result["wrong_counts"], 0)

    def test_a_wrong_count(self):
        def miscount(envelope):
            omitted = envelope.setdefault("omitted", {"more": f"/v1/envelopes/{envelope['id']}/ledger"})
            omitted["decisions"] = omitted.get("decisions", 0) + 1
        self.assertGreater(self.judged(miscount)["wrong_counts"], 0)

    def test_a_path_that_leads_nowhere(self):
        def mislead(envelope):
            envelope["context"]["task"].get("state", {}).pop("unresolved", None)
            envelope["omitted"] = {"unresolved": 1, "more": "/v1/envelopes/00000000-0000-7000-8000-000000000000/ledger"}
        self.assertGreater(gone(self.judged(mislead), "unresolved"), 0)

    def test_a_memory_that_is_not_named(self):
        def forget(envelope):
            envelope["memory_refs"] = []
            envelope["context"].pop("memories", None)
            envelope["context"].pop("references", None)
        self.assertGreater(gone(self.judged(forget), "fact"), 0)


class Ways(unittest.TestCase):
    """What is compared loses what it is said to lose, and no more."""

    def left(self, name, *arguments):
        """The share of the user's and the first agent's items that the fifth agent has."""
        result = run(name, "--tasks=40", "--faults=0", *arguments)
        return report.at_hand(result["by_agent"][4 - 1]["fates_of_the_first"])

    def test_ten_per_cent_a_handoff_leave_about_two_thirds(self):
        self.assertAlmostEqual(self.left("json"), 0.9 ** 4, delta=0.08)

    def test_the_published_curve(self):
        self.assertAlmostEqual(self.left("json", "--loss=published"), ways.PUBLISHED[-1], delta=0.08)

    def test_without_loss_nothing_is_lost(self):
        self.assertEqual(self.left("summary", "--loss=0"), 1)


class Drawing(unittest.TestCase):
    def test_the_same_seed_gives_the_same_tasks_and_faults(self):
        self.assertEqual(tasks.make(7, 3), tasks.make(7, 3))
        self.assertNotEqual(tasks.make(7, 3).items, tasks.make(8, 3).items)
        drawn = [faults.drawn(7, number, 1) for number in range(200)]
        self.assertEqual(drawn, [faults.drawn(7, number, 1) for number in range(200)])
        self.assertGreater(sum(name != "none" for name, _ in drawn), 5)

    def test_each_token_stands_in_one_item(self):
        task = tasks.make(7, 3)
        whole = copy.copy(task.items)
        for item in whole:
            self.assertEqual([other.token for other in whole if item.token in other.text], [item.token])

    def test_the_data_set_is_what_the_seed_gives(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tasks.jsonl")
            self.assertEqual(proof.main(["--tasks=20", f"--write-tasks={path}"]), 0)
            self.assertEqual(path.read_text(encoding="utf-8"), (TOP / "proof/tasks.jsonl").read_text(encoding="utf-8"))

    def test_wilson(self):
        # the example of Agresti and Coull (1998): 0 of 10 gives 0 to 0.2775
        low, high = judge.interval(0, 10)
        self.assertAlmostEqual(low, 0)
        self.assertAlmostEqual(high, 0.2775, places=4)


if __name__ == "__main__":
    unittest.main()
