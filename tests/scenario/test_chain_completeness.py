# SPDX-License-Identifier: Apache-2.0
"""Completeness is the share of what was asked for by id, pinned or inherited that goes in whatever form."""

import contextlib
import sqlite3
import unittest

from harness.agents import daemon_with
from harness.chain import AGENTS, Chain, Chained, memories, omitted, pullers

LONG = "the gateway answers slowly when the queue is long and nobody looks at it " * 40


def completeness(envelope):
    return envelope["completeness"]["requested"], envelope["completeness"]["included"]


class Completeness(Chained):
    def put(self, *names, content="a fact"):
        for name in names:
            self.chain.remember(name, content)
        return list(names)

    def test_a_bare_id_counts(self):
        names = self.put(*(f"bare-{i}" for i in range(10)), content=LONG)
        envelope = self.chain.hand("researcher", "analyst", memory_ids=names, constraints={"max_tokens": 400})
        self.assertTrue(any(set(memory) & {"content", "summary"} == set() for memory in memories(envelope).values()))
        self.assertEqual(completeness(envelope), (10, 10))

    def test_a_summary_counts(self):
        self.chain.remember("short-1", LONG, summary="the gateway is slow")
        envelope = self.chain.hand("researcher", "analyst", memory_ids=["short-1"], strategy="summary")
        self.assertEqual(completeness(envelope), (1, 1))

    def test_what_was_found_does_not_count(self):
        self.put("found-1", "found-2", content="the zeppelin is inspected. " + LONG)
        for budget in 200, 4000:
            self.chain.task = f"found-at-{budget}"
            envelope = self.chain.hand("researcher", "analyst", summary="inspect the zeppelin", include_recent=5,
                                       constraints={"max_tokens": budget})
            self.assertEqual(envelope["completeness"], {"requested": 0, "included": 0, "ratio": 1})

    def test_what_is_missing_does_not_count(self):
        names = self.put("there-1", "there-2", "there-3")
        envelope = self.chain.hand("researcher", "analyst", memory_ids=[*names, "not-there"])
        self.assertEqual(envelope["completeness"], {"requested": 4, "included": 3, "ratio": 0.75})

    def test_what_had_no_room_even_as_an_id_does_not_count(self):
        names = self.put(*(f"crowd-{i}" for i in range(120)))
        envelope = self.chain.hand("researcher", "analyst", memory_ids=names, constraints={"max_tokens": 800})
        gone = omitted(envelope)["references"]
        self.assertEqual(completeness(envelope), (120, 120 - gone))
        self.assertEqual(len(memories(envelope)), 120 - gone)

    def test_what_is_inherited_counts_and_asking_again_lowers_nothing(self):
        self.put("once-1", "once-2")
        self.chain.hand("researcher", "analyst", memory_ids=["once-1", "once-2"])
        for source, target in ("analyst", "coder"), ("coder", "tester"):
            envelope = self.chain.hand(source, target, memory_ids=["once-1"])
            self.assertEqual(completeness(envelope), (2, 2))

    def test_what_was_missing_lowers_it_at_every_hop_until_it_is_there(self):
        self.put("known-1")
        self.chain.hand("researcher", "analyst", memory_ids=["known-1", "unknown-1"])
        self.assertEqual(completeness(self.chain.hand("analyst", "coder")), (2, 1))
        self.assertEqual(completeness(self.chain.hand("coder", "tester")), (2, 1))
        self.put("unknown-1")
        self.assertEqual(completeness(self.chain.hand("tester", "reviewer")), (2, 2))

    def test_trimmed_steps_and_decisions_do_not_lower_it(self):
        self.put("steady-1")
        self.chain.hand("researcher", "analyst", memory_ids=["steady-1"], state={"decisions": [LONG]},
                        execution_history=[{"agent": "researcher", "action": LONG}])
        envelope = self.chain.hand("analyst", "coder", constraints={"max_tokens": 300})
        self.assertTrue(omitted(envelope))
        self.assertEqual(completeness(envelope), (1, 1))

    def test_pinned_counts_and_an_id_that_is_also_pinned_counts_once(self):
        with daemon_with(pullers(*AGENTS)) as daemon:
            chain = Chain(daemon, self.task)
            chain.remember("pin-1", pinned=True)
            chain.remember("pin-2", LONG, pinned=True)
            first = chain.hand("researcher", "analyst", include_pins=True, memory_ids=["pin-1"],
                               constraints={"max_tokens": 300})
            self.assertEqual(completeness(first), (2, 2))
            self.assertEqual(completeness(chain.hand("analyst", "coder", include_pins=False)), (1, 1))

    def test_a_lost_spine_shows_in_a_request_that_names_no_memory(self):
        """The specification's own usage: what is recent, and what is pinned."""
        with daemon_with(pullers(*AGENTS)) as daemon:
            chain = Chain(daemon, self.task)
            chain.remember("pin-1", pinned=True)
            usual = {"include_recent": 20, "include_pins": True}
            self.assertEqual(chain.hand("researcher", "analyst", **usual)["completeness"]["ratio"], 1)
            with contextlib.closing(sqlite3.connect(daemon.folder / "data/handoff.db")) as store:
                store.execute("ALTER TABLE memories RENAME TO elsewhere")
                lost = chain.hand("analyst", "coder", **usual)
                store.execute("ALTER TABLE elsewhere RENAME TO memories")
            self.assertEqual(lost["completeness"], {"requested": 1, "included": 0, "ratio": 0})
            self.assertIn('handoff_context_completeness_ratio_sum{target_agent="coder"} 0',
                          daemon.web.get("/metrics").text.splitlines())
            self.assertEqual(chain.hand("coder", "tester", **usual)["completeness"]["ratio"], 1)

    def test_the_metrics_say_the_same(self):
        with daemon_with(pullers(*AGENTS)) as daemon:
            chain = Chain(daemon, self.task)
            chain.remember("m-1")
            chain.hand("researcher", "analyst", memory_ids=["m-1", "m-2"], execution_history=[
                {"agent": "researcher", "action": f"{i} {LONG}"} for i in range(5)])
            envelope = chain.hand("analyst", "coder", constraints={"max_tokens": 300},
                                  state={"decisions": ["one", "two"]})
            lines = daemon.web.get("/metrics").text.splitlines()
            self.assertIn('handoff_context_completeness_ratio_sum{target_agent="coder"} 0.5', lines)
            self.assertIn('handoff_memory_refs_total{target_agent="coder",outcome="included"} 1', lines)
            self.assertIn('handoff_memory_refs_total{target_agent="coder",outcome="missing"} 1', lines)
            counted = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}
            items = lambda kind, outcome: counted[
                f'handoff_context_items_total{{target_agent="coder",kind="{kind}",outcome="{outcome}"}}']
            self.assertEqual(items("decisions", "present"), 2)
            self.assertEqual(items("steps", "omitted"), omitted(envelope)["steps"])


FLAT = "application/vnd.handoff.envelope+json; version=1"


class EveryOutput(Chained):
    """The cases of docs/envelope.md. Envelope, answer, metrics, brief and version 1 have the same counts, and so has a
    delivery of the envelope that was only assembled."""

    def ask(self, number, **fields):
        """The fields of a request for each case, and what it counts: requested, included, missing, trimmed."""
        word = f"w{number}"
        one, other, pin, gone = (f"{word}-{name}1" for name in ("one", "other", "pin", "gone"))
        for name in one, other:
            self.chain.remember(name, "the zeppelin is inspected. " + LONG)
        many = [f"{word}-many-{i}" for i in range(120)]
        cases = {
            "in full": ({"memory_ids": [one]}, (1, 1, 0, 0)),
            "by its id": ({"memory_ids": [one, other], "constraints": {"max_tokens": 200}}, (2, 2, 0, 0)),
            "not found": ({"memory_ids": [one, gone]}, (2, 1, 1, 0)),
            "named in the summary": ({"summary": f"use {one}"}, (1, 1, 0, 0)),
            "no id": ({"summary": f"use {gone} and utf-8"}, (0, 0, 0, 0)),
            "what no memory can be called": ({"execution_history": [
                {"agent": "researcher", "action": "noted", "memory_id": "no id/1"}]}, (1, 0, 1, 0)),
            "found": ({"summary": "inspect the zeppelin", "include_recent": 3}, (0, 0, 0, 0)),
            "found, without room": ({"summary": "inspect the zeppelin", "include_recent": 3,
                                     "constraints": {"max_tokens": 150}}, (0, 0, 0, 0)),
            "pinned": ({"include_pins": True}, (1, 1, 0, 0)),
            "too many": ({"memory_ids": many, "constraints": {"max_tokens": 800}}, None),
        }
        name, (fields, counts) = list(cases.items())[number]
        if name == "pinned":
            self.chain.remember(pin, pinned=True)
            self.addCleanup(self.chain.forget, pin)
        for each in many if name == "too many" else ():
            self.chain.remember(each)
        return name, fields, counts

    def counted(self):
        """By outcome, and the sum of ratios."""
        lines = self.daemon.web.get("/metrics").text.splitlines()
        value = lambda series: next(float(line.split()[-1]) for line in lines if line.startswith(series + " "))
        counts = [value(f'handoff_memory_refs_total{{target_agent="coder",outcome="{outcome}"}}')
                  for outcome in ("included", "missing", "trimmed")]
        return [*counts, value('handoff_context_completeness_ratio_sum{target_agent="coder"}')]

    def check(self, envelope, counts, before):
        requested, included, missing, trimmed = counts
        ratio = included / requested if requested else 1
        self.assertEqual(completeness(envelope), (requested, included))
        self.assertAlmostEqual(envelope["completeness"]["ratio"], ratio, places=4)
        grown = [now - then for now, then in zip(self.counted(), before)]
        for found, expected in zip(grown, [included, missing, trimmed, ratio]):
            self.assertAlmostEqual(found, expected, places=6, msg=grown)

    def test_every_output_has_the_same_counts(self):
        for number in range(10):
            self.chain.task = f"every-output-{number}"
            name, fields, counts = self.ask(number)
            with self.subTest(name):
                before = self.counted()
                reply = self.chain.ask("researcher", "coder", **fields)
                envelope = self.chain.envelope(reply.json()["id"])
                if counts is None:
                    gone = omitted(envelope)["references"]
                    counts = (120, 120 - gone, 0, gone)
                self.check(envelope, counts, before)
                self.assertEqual(reply.json()["completeness"], envelope["completeness"])
                told = f"requested memories included: {counts[1]} of {counts[0]}"
                self.assertEqual(told in self.chain.brief(envelope), counts[1] < counts[0])
                flat = self.chain.form(envelope, FLAT).json()
                self.assertEqual(flat.get("completeness", {"ratio": 1})["ratio"], envelope["completeness"]["ratio"])

    def test_a_delivery_of_what_was_assembled_has_them_too(self):
        for number in range(10):
            self.chain.task = f"delivered-{number}"
            name, fields, counts = self.ask(number)
            with self.subTest(name):
                envelope = self.chain.assemble("researcher", "coder", **fields)
                if counts is None:
                    gone = omitted(envelope)["references"]
                    counts = (120, 120 - gone, 0, gone)
                before = self.counted()
                reply = self.chain.call("POST", f"/v1/envelopes/{envelope['id']}/deliver", {},
                                        prefer="respond-async")
                self.assertEqual(reply.status, 202, reply)
                self.check(envelope, counts, before)


if __name__ == "__main__":
    unittest.main()
