# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""The memories that fit: found whatever is newer, in any language, from the moment a write was answered."""

import json
import unittest
import urllib.parse

from harness.agents import daemon_with
from harness.chain import pullers

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


if __name__ == "__main__":
    unittest.main()
