# SPDX-License-Identifier: Apache-2.0
"""Searches that run out of time give what they have, say so, and are counted."""

import concurrent.futures
import json
import signal
import time
import unittest
import urllib.parse

from harness.agents import daemon_with
from harness.chain import pullers
from harness.wait import eventually
from test_measures import Samples

WORDS = [f"word{i}" for i in range(60)]
CUT = "handoff_spine_searches_cut_total"


class SearchTimeout(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(daemon_with(pullers("planner", "coder"), spine={"search_timeout": "1ms"}))
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(self.put, range(600)))

    def put(self, i):
        words = [WORDS[(i * k) % 59] for k in range(1, 40)]
        reply = self.daemon.api.request("PUT", f"/v1/memories/m{i}", body=json.dumps({"content": " ".join(words)}))
        self.assertEqual(reply.status, 201, reply.text)

    def at_once(self, call):
        """A process that is stopped in the middle of a search is late."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            replies = [pool.submit(call) for _ in range(64)]
            for _ in range(8):
                self.daemon.signal(signal.SIGSTOP)
                time.sleep(0.005)  # five times what a search may take
                self.daemon.signal(signal.SIGCONT)
            return [reply.result().json() for reply in replies]

    def counted(self):
        return Samples(self.daemon.web.get("/metrics").text)(CUT)

    def envelope(self):
        return self.daemon.api.post("/v1/envelopes", body=json.dumps(
            {"source_agent": "planner", "target_agent": "coder", "include_recent": 20, "task_summary": " ".join(WORDS)}))

    def search(self):
        return self.daemon.api.get("/v1/memories?" + urllib.parse.urlencode({"query": " ".join(WORDS)}))

    def test_an_envelope_says_that_its_search_was_cut(self):
        def some_are_cut():
            before = self.counted()
            envelopes = self.at_once(self.envelope)
            cut = [e for e in envelopes if {"id": "*recent", "reason": "search_incomplete"} in e["missing"]]
            self.assertTrue(cut)
            # an envelope that is trimmed asks twice
            self.assertGreaterEqual(self.counted() - before, len(cut))
            self.assertEqual({e["completeness"]["ratio"] for e in cut}, {1})
            return True
        eventually(some_are_cut, "a search that was cut")

    def test_a_list_says_that_its_search_was_cut(self):
        def some_are_cut():
            before = self.counted()
            cut = [page for page in self.at_once(self.search) if page.get("complete") is False]
            self.assertTrue(cut)
            self.assertEqual(self.counted() - before, len(cut))
            return True
        eventually(some_are_cut, "a search that was cut")


if __name__ == "__main__":
    unittest.main()
