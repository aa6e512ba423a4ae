# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Where memories are stored that agents put while the spine is a remote one: there, or in the sidecar."""

import json
import pathlib
import tempfile
import unittest

from harness.agents import daemon_with
from harness.chain import Chain, memories, missing, pullers
from harness.facts import TABLE, FactServer

READ_ONLY = {**TABLE, "operations": {name: row for name, row in TABLE["operations"].items() if name not in ("put", "delete")}}


class Case(unittest.TestCase):
    maxDiff = None

    def start(self, table=TABLE, **keys):
        self.server = self.enterContext(FactServer())
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "spine.json").write_text(json.dumps(table))
        self.daemon = self.enterContext(daemon_with(
            pullers("researcher", "analyst"),
            spine={"kind": "http", "url": self.server.url, "operations_file": str(folder / "spine.json"),
                   "timeout": "10s", "search_timeout": "10s", **keys}))
        self.chain = Chain(self.daemon, self.id().rpartition(".")[2][-60:])

    def hand(self, **fields):
        return self.chain.hand("researcher", "analyst", new_chain=True, **fields)

    def memory(self, method, name, body=None):
        return self.chain.call(method, f"/v1/memories/{name}", body)


class Through(Case):
    def test_is_the_default(self):
        self.start()
        self.assertEqual(self.memory("PUT", "ms-1", {"content": "mine"}).status, 201)
        self.assertEqual(list(self.server.facts), ["ms-1"])

    def test_a_spine_that_takes_no_memories_says_where_they_can_go(self):
        self.start(READ_ONLY)
        problem = self.memory("PUT", "ms-1", {"content": "mine"}).json()
        self.assertEqual(problem["code"], "unsupported_by_spine")
        self.assertIn("spine.write: local", problem["allowed"])
        [line] = self.daemon.events("spine_lacks")
        self.assertEqual(line["operations"], "put, delete")


class Local(Case):
    def start(self, table=READ_ONLY, **keys):
        super().start(table, write="local", **keys)

    def test_memories_are_stored_here_and_found_beside_those_there(self):
        self.start()
        self.server.store("there-1", "the zeppelin is inspected")
        self.server.store("there-2", "always", pinned=True)
        self.assertEqual(self.memory("PUT", "here-1", {"content": "the zeppelin is painted", "pinned": True}).status, 201)
        self.assertEqual(self.memory("GET", "here-1").json()["content"], "the zeppelin is painted")
        self.assertEqual(sorted(self.server.facts), ["there-1", "there-2"])
        envelope = self.hand(memory_ids=["here-1", "there-1", "gone-1"], include_pins=True)
        self.assertEqual(sorted(memories(envelope)), ["here-1", "there-1", "there-2"])
        self.assertEqual(list(missing(envelope)), ["gone-1"])
        found = self.hand(summary="the zeppelin", include_recent=5)
        self.assertEqual(sorted(memories(found)), ["here-1", "there-1"])
        self.assertNotIn("stale", json.dumps(found))
        self.assertEqual(json.loads(self.server.asked("/facts/batch")[0][2])["keys"], ["gone-1", "there-1"])

    def test_no_more_are_found_than_were_wanted(self):
        self.start()
        for i in range(5):
            self.server.store(f"there-{i}", "the zeppelin")
            self.memory("PUT", f"here-{i}", {"content": "the zeppelin"})
        self.assertEqual(len(memories(self.hand(summary="the zeppelin", include_recent=3))), 3)

    def test_what_is_stored_here_takes_the_place_of_what_is_there(self):
        self.start()
        self.server.store("ms-1", "theirs")
        self.memory("PUT", "ms-1", {"content": "ours"})
        self.assertEqual(memories(self.hand(memory_ids=["ms-1"]))["ms-1"]["content"], "ours")
        self.assertEqual(self.memory("DELETE", "ms-1").status, 204)
        self.assertEqual(memories(self.hand(memory_ids=["ms-1"]))["ms-1"]["content"], "theirs")

    def test_it_can_be_listed_pinned_and_deleted_here(self):
        self.start()
        self.memory("PUT", "here-1", {"content": "ours"})
        self.assertEqual(self.memory("PUT", "here-1/pin").json()["pinned"], True)
        page = self.chain.call("GET", "/v1/memories").json()
        self.assertEqual([memory["id"] for memory in page["items"]], ["here-1"])
        self.assertEqual(self.memory("DELETE", "here-1").status, 204)

    def test_it_is_there_and_not_stale_while_the_spine_is_down(self):
        self.start(cache="0B")
        self.memory("PUT", "here-1", {"content": "ours"})
        self.server.trouble = self.server.fails
        envelope = self.hand(memory_ids=["here-1", "there-1"])
        self.assertNotIn("stale", memories(envelope)["here-1"])
        self.assertEqual({name: entry["reason"] for name, entry in missing(envelope).items()}, {"there-1": "spine_unavailable"})
        self.assertEqual(envelope["completeness"]["ratio"], 0.5)
        self.assertEqual(self.memory("GET", "here-1").status, 200)

    def test_what_the_spine_lacks_is_said_with_what_is_done_instead(self):
        self.start()
        [line] = self.daemon.events("spine_lacks")
        self.assertEqual(line["operations"], "put, delete")
        self.assertTrue(line["advice"].startswith("memories are stored in the sidecar"), line)


if __name__ == "__main__":
    unittest.main()
