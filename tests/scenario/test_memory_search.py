# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""The memories that fit: found whatever is newer, in any language, from the moment a write was answered."""

import json
import unittest
import urllib.parse

from harness.agents import config, daemon_with
from harness.chain import pullers
from harness.wait import eventually
from test_envelopes import V2

EVERYTHING = {
    "english": "payment gateway rejects expired cards during nightly settlement",
    "german": "Zahlungen schlagen während der nächtlichen Abrechnung fehl",
    "chinese": "支付网关夜间结算拒绝过期银行卡",
    "japanese": "夜間の決済照合が証明書の期限切れで失敗する",
    "identifiers": "getUserById payment_gateway ms-4821 src/lib/words.c E1042",
}
# two words of it, or two pairs of characters; and what others say
SHARED = {
    "english": ("payment", "nightly"), "german": ("Zahlungen", "fehl"), "chinese": ("支付", "夜间"),
    "japanese": ("夜間", "決済"), "identifiers": ("getUserById", "ms-4821"),
}


class MemorySearch(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(daemon_with(pullers("planner", "coder")))

    def put(self, memory, content, **fields):
        reply = self.daemon.api.request("PUT", f"/v1/memories/{memory}", body=json.dumps({"content": content, **fields}))
        self.assertIn(reply.status, (200, 201), reply.text)

    def search(self, text, **parameters):
        query = urllib.parse.urlencode({"query": text, **parameters})
        reply = self.daemon.api.get(f"/v1/memories?{query}")
        self.assertEqual(reply.status, 200, reply.text)
        return reply.json()["items"]

    def ids(self, text):
        return [item["id"] for item in self.search(text)]

    def envelope(self, **fields):
        reply = self.daemon.api.post("/v1/envelopes", body=json.dumps(
            {"source_agent": "planner", "target_agent": "coder", "include_recent": 20, **fields}))
        self.assertEqual(reply.status, 200, reply.text)
        return reply.json()

    def test_what_says_everything_is_first_whatever_is_newer(self):
        for language, text in EVERYTHING.items():
            self.put(f"{language}-all", text)
        for language, words in SHARED.items():
            for i in range(60):
                self.put(f"{language}-{i}", f"note {i}: {words[0]}, then topic{i * 7}; {words[1]} by crew{i % 11}")
        for language, text in EVERYTHING.items():
            with self.subTest(language):
                best = self.search(text)[0]
                self.assertEqual(best["id"], f"{language}-all")
                self.assertEqual((best["match"]["score"], best["match"]["relevance"]), (1, 1))
                self.assertIn(f"{language}-all", self.envelope(task_summary=text)["memory_refs"])

    def test_a_write_counts_from_its_answer_on(self):
        self.put("m", "the walrus sleeps")
        self.assertEqual(self.ids("walrus"), ["m"])
        self.put("m", "the penguin sleeps")
        self.assertEqual((self.ids("walrus"), self.ids("penguins")), ([], ["m"]))
        self.daemon.api.request("PUT", "/v1/memories/m/pin")
        self.assertEqual(self.ids("penguin"), ["m"])
        self.assertEqual(self.daemon.api.request("DELETE", "/v1/memories/m").status, 204)
        self.assertEqual(self.ids("penguin"), [])

    def test_the_number_is_a_maximum(self):
        self.put("fits", "the bank retries a payment three times")
        for i in range(30):
            self.put(f"other{i}", f"the weather on day {i} was the usual")
        self.assertEqual(self.envelope(task_summary="find out how often the bank retries")["memory_refs"], ["fits"])
        self.assertEqual(self.envelope(task_summary="paint the zeppelin")["memory_refs"].count("fits"), 0)

    def test_nearly_the_same_take_one_place(self):
        for i in range(5):
            self.put(f"copy{i}", "The bank retries a payment three times.")
        self.put("other", "A rejected payment is retried by hand at the bank.")
        found = {item["id"]: item["match"]["similar"] for item in self.search("bank payment")}
        self.assertEqual(sorted(found.values()), [0, 4])

    def test_the_task_the_chain_and_the_intent_count(self):
        for place in ("red", "blue", "green", "grey"):
            self.put(place, f"deploy of the {place} service failed", **({"task_id": "t"} if place == "blue" else {}))
        self.put("wanted", "deploy of the teal service failed while the ledger was migrated")
        first = self.envelope(task_summary="why did the deploy fail", task_id="t", include_recent=1)
        self.assertEqual(first["memory_refs"], ["blue"])
        meant = self.envelope(task_summary="why did the deploy fail", intent="finish migrating the ledger", include_recent=1)
        self.assertEqual(meant["memory_refs"], ["wanted"])

    def test_an_envelope_says_why_each_memory_was_found(self):
        self.put("retries", "The bank retries a payment three times.", pinned=True)
        for i in range(3):
            self.put(f"copy{i}", "A payment that is rejected is retried by hand at the bank.")
            self.put(f"other{i}", f"What the weather on day {i} does to a ship.")
        self.put("own", "How a payment went.", task_id="t")
        self.put("off", "Nothing that was asked for.", task_id="t")  # fewer than are wanted, and not it
        self.put("large", "a bank, a payment, " * 300)
        self.put("pinned", "The weather is fine.", pinned=True)
        long_word = "x" * 100
        envelope = self.envelope(task_summary=f"How often does the bank retry a payment, {long_word}?", task_id="t",
                                 constraints={"max_tokens": 1500})
        V2.validate(envelope)
        found = {entry["id"]: entry for entry in envelope["found"]}
        self.assertEqual([name for name in envelope["memory_refs"] if name in found], [e["id"] for e in envelope["found"]])
        self.assertTrue(all(0 <= entry["score"] <= 1 for entry in found.values()), found)
        self.assertEqual({"bank", "retry", "payment"} - set(found["retries"]["words"]), set())
        self.assertEqual(set(found["retries"]), {"id", "score", "words"})
        self.assertEqual(found["own"]["of_task"], True)
        self.assertIn("payment", found["own"]["words"])
        self.assertNotIn("off", envelope["memory_refs"])
        copy = next(entry for name, entry in found.items() if name.startswith("copy"))
        self.assertEqual(copy["similar"], 2)
        self.assertLess(copy["score"], 1)
        trimmed = {entry["id"] for entry in envelope["trimmed"]}
        self.assertIn("large", trimmed)
        self.assertFalse(trimmed & set(found))
        self.assertIn("pinned", envelope["memory_refs"])
        self.assertNotIn("pinned", found)
        self.put("x", f"It is {long_word}.")
        envelope = self.envelope(task_summary=f"What is {long_word}?")
        self.assertIn("x" * 64, [word for entry in envelope["found"] for word in entry["words"]])
        V2.validate(envelope)
        self.assertNotIn("found", self.envelope(task_summary="the bank", include_recent=0))

    def test_memories_of_the_sender_and_of_the_path_count_for_more(self):
        for color, agent in (("red", "coder"), ("blue", "planner"), ("grey", "stranger"), ("pink", None)):
            self.put(color, f"rollback of the {color} ledger", **({"agent": agent} if agent else {}))

        def scores(**fields):
            return {entry["id"]: entry["score"] for entry in self.envelope(task_summary="rollback of a ledger", **fields)["found"]}
        first = scores(source_agent="planner", target_agent="coder")
        self.assertEqual(first["blue"], 1)
        self.assertLess(max(first["red"], first["grey"], first["pink"]), 0.95)
        handoff = self.daemon.api.post("/v1/envelopes", body=json.dumps(
            {"source_agent": "planner", "target_agent": "coder", "task_summary": "rollback"})).json()["id"]
        second = scores(source_agent="coder", target_agent="planner", previous_id=handoff)
        self.assertGreater(min(second["blue"], second["red"]), 0.99)
        self.assertLess(max(second["grey"], second["pink"]), 0.95)

    def configure(self, **spine):
        self.daemon.write_config(config(pullers("planner", "coder"), spine=spine))

    def test_stemming_may_be_switched_off(self):
        self.put("m", "the bank retries a payment")
        self.assertEqual((self.ids("retry"), self.ids("RETRIES")), (["m"], ["m"]))
        for stemming, found in (False, []), (True, ["m"]):
            self.configure(stemming=stemming)
            self.daemon.terminate()
            self.assertEqual(self.daemon.wait(), 0, self.daemon.log())
            self.daemon.log_path.unlink()
            self.daemon.start()
            eventually(lambda: self.ids("retries") == ["m"], "the index is rebuilt")
            self.assertEqual(self.ids("retry"), found)

    def test_boosts_are_read_again_with_the_configuration(self):
        self.put("own", "deploy of the blue service", task_id="t")
        self.put("critical", "deploy of the grey service", importance="critical")

        def score(name):
            found = self.envelope(task_summary="deploy of a service", task_id="t")["found"]
            return {entry["id"]: entry["score"] for entry in found}[name]
        self.assertEqual(score("own"), 1)
        self.configure(boosts={"task": 0, "importance": 1000})
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertEqual(score("critical"), 1)
        self.assertLess(score("own"), 0.5)


if __name__ == "__main__":
    unittest.main()
