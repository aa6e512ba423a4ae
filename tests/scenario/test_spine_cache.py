# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Last known copies of a remote spine's memories: what they give while it does not answer, and how they say so."""

import json
import pathlib
import re
import tempfile
import unittest

from harness.agents import daemon_with
from harness.chain import Chain, memories, missing, pullers
from harness.facts import TABLE, FactServer
from harness.wait import eventually

ROW = 512  # bytes that a copy counts besides its id and texts


class Case(unittest.TestCase):
    maxDiff = None

    def start(self, table=TABLE, **keys):
        self.server = self.enterContext(FactServer())
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "spine.json").write_text(json.dumps(table))
        self.daemon = self.enterContext(daemon_with(
            pullers("researcher", "analyst", "coder"),
            spine={"kind": "http", "url": self.server.url, "operations_file": str(folder / "spine.json"),
                   "timeout": "10s", "search_timeout": "10s", **keys}))
        self.chain = Chain(self.daemon, self.id().rpartition(".")[2][-60:])

    def restart(self):
        if self.daemon.is_running():
            self.daemon.terminate()
        self.daemon.wait()
        self.daemon.log_path.unlink()
        self.daemon.start()

    def hand(self, **fields):
        return self.chain.hand("researcher", "analyst", new_chain=True, **fields)

    def metric(self, name, labels=""):
        text = self.daemon.web.get("/metrics").text
        return float(re.search(rf"^{name}{re.escape(labels)} (\S+)$", text, re.MULTILINE)[1])

    def cached(self):
        return self.metric("handoff_spine_cache_bytes")

    def fetch(self, *names, before=None, **fields):
        """Hands off with memories that are not cached yet, and waits until they are, after `before` bytes of others."""
        before = self.cached() if before is None else before
        envelope = self.hand(memory_ids=list(names), **fields)
        self.assertEqual(sorted(memories(envelope)), sorted(names))
        # without their texts: a copy that is still being replaced may become shorter
        eventually(lambda: self.cached() >= before + ROW * len(names), "the copies are kept")
        return envelope

    def store(self, *names, text="a fact", **more):
        for name in names:
            self.server.store(name, text, **more)


class Outage(Case):
    def test_the_last_known_copy_serves_and_says_so(self):
        self.start()
        self.store("ms-1", text="retry three times")
        self.assertNotIn("stale", memories(self.fetch("ms-1"))["ms-1"])
        self.server.trouble = self.server.fails
        envelope = self.hand(memory_ids=["ms-1", "ms-2"])
        copy = memories(envelope)["ms-1"]
        self.assertEqual((copy["content"], copy["stale"]), ("retry three times", True))
        self.assertIn(copy["age_seconds"], range(0, 60))
        self.assertEqual({name: entry["reason"] for name, entry in missing(envelope).items()}, {"ms-2": "spine_unavailable"})
        self.assertEqual(envelope["completeness"], {"requested": 2, "included": 1, "ratio": 0.5})
        self.assertIn("; possibly outdated: last known copy, from less than a minute ago", self.chain.brief(envelope))
        self.server.trouble = None
        self.store("ms-1", text="retry twice")
        self.store("ms-2")
        eventually(lambda: self.metric("handoff_spine_up") == 1, "the spine is back")
        envelope = self.hand(memory_ids=["ms-1", "ms-2"])
        self.assertEqual(memories(envelope)["ms-1"]["content"], "retry twice")
        self.assertNotIn("stale", json.dumps(envelope))
        self.assertEqual(envelope["completeness"]["ratio"], 1)

    def test_so_do_copies_while_the_spine_is_left_alone(self):
        self.start()
        self.store("ms-1")
        self.fetch("ms-1")
        self.server.trouble = self.server.fails
        for _ in range(8):
            self.assertTrue(memories(self.hand(memory_ids=["ms-1"]))["ms-1"]["stale"])
        self.assertLess(len(self.server.asked("/facts")), 8)

    def test_a_slow_spine_is_waited_for_no_longer_than_its_timeout(self):
        self.start(timeout="300ms")
        self.store("ms-1")
        eventually(lambda: self.fetch("ms-1"), "it answers in time")
        self.server.trouble = self.server.silent
        self.assertTrue(memories(self.hand(memory_ids=["ms-1"]))["ms-1"]["stale"])

    def test_copies_outlive_the_process(self):
        self.start()
        self.store("ms-1", text="kept")
        self.fetch("ms-1")
        self.restart()
        self.server.trouble = self.server.fails
        self.assertEqual(memories(self.hand(memory_ids=["ms-1"]))["ms-1"]["content"], "kept")

    def test_a_damaged_cache_is_made_anew(self):
        self.start()
        self.store("ms-1")
        self.fetch("ms-1")
        self.daemon.terminate()
        self.daemon.wait()
        database = self.daemon.folder / "data" / "spine-cache" / "handoff.db"
        database.write_bytes(b"not a database at all" * 1000)
        self.restart()
        self.assertEqual(self.cached(), 0)
        self.fetch("ms-1")

    def test_pins_and_what_fits_are_found_among_the_copies(self):
        self.start()
        self.store("pin-1", text="always", pinned=True)
        self.store("fit-1", text="the zeppelin is inspected")
        self.store("other-1", text="nothing of it")
        self.hand(memory_ids=["fit-1", "other-1"], include_pins=True)
        eventually(lambda: self.cached() > 3 * ROW, "the copies are kept")
        self.server.trouble = self.server.fails
        envelope = self.hand(summary="inspect the zeppelin", include_recent=1, include_pins=True)
        self.assertEqual(sorted(memories(envelope)), ["fit-1", "pin-1"])
        self.assertTrue(all(memory["stale"] for memory in memories(envelope).values()))
        self.assertEqual({name: entry["reason"] for name, entry in missing(envelope).items()},
                         {"*pinned": "spine_unavailable", "*recent": "spine_unavailable"})

    def test_without_a_cache_nothing_is_kept(self):
        self.start(cache="0B")
        self.store("ms-1")
        self.hand(memory_ids=["ms-1"])
        self.server.trouble = self.server.fails
        self.assertEqual(list(missing(self.hand(memory_ids=["ms-1"]))), ["ms-1"])
        self.assertEqual(self.cached(), 0)

    def test_a_memory_can_be_read_by_its_id(self):
        self.start()
        self.store("ms-1", text="retry three times")
        self.fetch("ms-1")
        self.server.trouble = self.server.fails
        reply = self.chain.call("GET", "/v1/memories/ms-1")
        self.assertEqual((reply.status, reply.json()["content"], reply.json()["stale"]), (200, "retry three times", True), reply)
        self.assertEqual(self.chain.call("GET", "/v1/memories/ms-2").status, 503)


class Truth(Case):
    """A copy is what the spine had last, for those who may see it."""

    def test_what_was_deleted_there_is_not_served(self):
        self.start()
        self.store("ms-1")
        self.fetch("ms-1")
        del self.server.facts["ms-1"]
        self.assertEqual(missing(self.hand(memory_ids=["ms-1"]))["ms-1"]["reason"], "not_found")
        eventually(lambda: self.cached() == 0, "the copy is removed")
        self.server.trouble = self.server.fails
        self.assertEqual(missing(self.hand(memory_ids=["ms-1"]))["ms-1"]["reason"], "spine_unavailable")

    def test_scopes_hold_for_copies(self):
        self.start()
        self.store("alice-1", tenant="user:alice")
        self.fetch("alice-1", scope="user:alice")
        self.hand(memory_ids=["alice-1"], scope="user:bob")  # who does not see it
        self.store("after-1")
        self.fetch("after-1")
        self.server.trouble = self.server.fails
        self.assertEqual(list(memories(self.hand(memory_ids=["alice-1"], scope="user:bob"))), [])
        self.assertEqual(list(memories(self.hand(memory_ids=["alice-1"], scope="user:alice"))), ["alice-1"])

    def test_a_memory_that_changed_its_scope_does_so_here(self):
        self.start()
        self.store("ms-1", tenant="user:alice")
        self.fetch("ms-1", scope="user:alice")
        self.store("ms-1", text="moved", tenant="user:bob")
        self.fetch_changed("ms-1", scope="user:bob")
        self.server.trouble = self.server.fails
        self.assertEqual(list(memories(self.hand(memory_ids=["ms-1"], scope="user:alice"))), [])
        self.assertEqual(memories(self.hand(memory_ids=["ms-1"], scope="user:bob"))["ms-1"]["content"], "moved")

    def fetch_changed(self, name, **fields):
        self.hand(memory_ids=[name], **fields)
        self.store("marker-1")
        self.fetch("marker-1")  # copies are written in their order

    def test_what_is_stored_and_deleted_through_the_sidecar(self):
        self.start()
        self.assertEqual(self.chain.call("PUT", "/v1/memories/ms-1", {"content": "new", "pinned": True}).status, 201)
        eventually(lambda: self.cached() > 0, "the copy is kept")
        kept = self.cached()
        self.assertEqual(self.chain.call("PUT", "/v1/memories/ms-2", {"content": "gone"}).status, 201)
        self.assertEqual(self.chain.call("DELETE", "/v1/memories/ms-2").status, 204)
        # copies are written and removed in their order, so with a longer one than that of ms-2 both are over
        self.store("marker-1", text="long" * 100)
        self.fetch("marker-1", before=kept + 100)
        self.server.trouble = self.server.fails
        envelope = self.hand(memory_ids=["ms-1", "ms-2"])
        self.assertEqual((list(memories(envelope)), list(missing(envelope))), (["ms-1"], ["ms-2"]))
        self.assertEqual(memories(envelope)["ms-1"]["pinned"], True)

    def test_those_used_longest_ago_go_first(self):
        self.start(cache="20KiB")
        names = [f"ms-{i}" for i in range(10)]
        self.store(*names, text="x" * 1000)
        for name in names:
            self.fetch(name)
        self.server.trouble = self.server.fails
        self.assertEqual(list(missing(self.hand(memory_ids=["ms-0"]))), [])  # used again
        self.server.trouble = None
        eventually(lambda: self.metric("handoff_spine_up") == 1, "the spine is back")
        more = [f"more-{i}" for i in range(8)]
        self.store(*more, text="x" * 1000)
        for name in more:
            self.hand(memory_ids=[name])
        self.store("marker-1", text="y")
        self.hand(memory_ids=["marker-1"])
        self.server.trouble = self.server.fails
        eventually(lambda: list(missing(self.hand(memory_ids=["marker-1"]))) == [], "all is written")
        envelope = self.hand(memory_ids=[*names, *more])
        self.assertLessEqual(self.cached(), 20 * 1024)
        self.assertEqual(sorted(missing(envelope)), ["ms-1", "ms-2", "ms-3", "ms-4", "ms-5"])

    def test_searches_of_a_spine_that_cannot_search_are_done_here(self):
        kept = ("get", "put")
        self.start({**TABLE, "operations": {name: row for name, row in TABLE["operations"].items() if name in kept}})
        self.store("fit-1", text="the zeppelin is inspected")
        self.store("other-1", text="nothing of it")
        self.fetch("fit-1", "other-1")
        envelope = self.hand(summary="inspect the zeppelin", include_recent=1)
        self.assertEqual(list(memories(envelope)), ["fit-1"])
        self.assertTrue(memories(envelope)["fit-1"]["stale"])
        self.assertEqual(missing(envelope), {})


class Recovery(Case):
    def recover(self, envelope, *names):
        reply = self.chain.call("POST", f"/v1/handoffs/{envelope['id']}/memories", {"ids": list(names)})
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def recovered(self, outcome):
        return self.metric("handoff_memory_recovery_total", f'{{target_agent="analyst",outcome="{outcome}"}}')

    def test_it_gives_what_the_spine_has_now(self):
        self.start()
        self.store("ms-1", text="old")
        envelope = self.fetch("ms-1")
        self.store("ms-1", text="new")
        [found] = self.recover(envelope, "ms-1")["found"]
        self.assertEqual((found["content"], "stale" in found), ("new", False))

    def test_a_stale_copy_helps_and_is_no_recovery(self):
        self.start()
        self.server.trouble = self.server.fails
        self.store("ms-1", text="first")
        envelope = self.hand(memory_ids=["ms-1"])
        self.server.trouble = None
        self.fetch("ms-1")
        self.server.trouble = self.server.fails
        answer = self.recover(envelope, "ms-1", "ms-2")
        self.assertEqual([(found["content"], found["stale"]) for found in answer["found"]], [("first", True)])
        self.assertEqual(answer["missing"], [{"id": "ms-2", "reason": "spine_unavailable", "detail": "get_many: status 500"}])
        self.assertEqual((self.recovered("stale"), self.recovered("recovered")), (1, 0))
        self.server.trouble = None
        eventually(lambda: "stale" not in self.recover(envelope, "ms-1")["found"][0], "the spine is back")
        self.assertEqual((self.recovered("stale"), self.recovered("recovered")), (1, 1))


class Metrics(Case):
    def test_hits_misses_and_age(self):
        self.start()
        self.store("ms-1", "ms-2")
        self.fetch("ms-1", "ms-2")
        self.server.trouble = self.server.fails
        self.hand(memory_ids=["ms-1", "ms-2", "ms-3"])
        self.assertEqual(self.metric("handoff_spine_cache_total", '{outcome="hit"}'), 2)
        self.assertEqual(self.metric("handoff_spine_cache_total", '{outcome="miss"}'), 1)
        self.assertEqual(self.metric("handoff_spine_cache_age_seconds_count"), 1)
        self.assertLess(self.metric("handoff_spine_cache_age_seconds_sum"), 60)


if __name__ == "__main__":
    unittest.main()
