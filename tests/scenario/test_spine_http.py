# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Memories behind an HTTP server: found, stored and deleted there; and a server that does anything but answer."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import ssl
import tempfile
import threading
import time
import unittest
import urllib.parse

from harness.agents import daemon_with
from harness.authority import Authority
from harness.chain import Chain, memories, missing, pullers
from harness.facts import TABLE, FactServer
from harness.wait import eventually

TOKEN = "spine-0123456789abcdef"
WHAT_HAPPENED = {
    "silent": "it did not answer in time", "drip": "it did not answer in time", "flood": "its answer is too long",
    "reset": "the connection ended before it had answered", "not_http": "its answer was incomplete or not HTTP",
    "not_json": "its answer is not JSON", "another_document": "its answer has nothing at the pointer of the table",
    "redirect": "status 302", "fails": "status 500", "rejects": "status 401"}
SPINE_UP = re.compile(r"^handoff_spine_up (\d)$", re.MULTILINE)


class Case(unittest.TestCase):
    maxDiff = None

    def start(self, table=TABLE, tls=None, spine_tls=None, **keys):
        self.server = self.enterContext(FactServer(tls))
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "spine.json").write_text(json.dumps(table))
        (folder / "token").write_text(TOKEN + "\n")
        self.daemon = self.enterContext(daemon_with(
            pullers("researcher", "analyst", "coder"),
            spine={"kind": "http", "url": self.server.url, "operations_file": str(folder / "spine.json"),
                   "token_file": str(folder / "token"), "timeout": "10s", **({"tls": spine_tls} if spine_tls else {}), **keys}))
        self.chain = Chain(self.daemon, self.id().rpartition(".")[2][-60:])

    def up(self):
        return int(SPINE_UP.search(self.daemon.web.get("/metrics").text)[1])

    def memory(self, method, name, body=None):
        return self.chain.call(method, f"/v1/memories/{name}", body)


class Finding(Case):
    def test_by_id_all_in_one_request(self):
        self.start()
        for i in range(20):
            self.server.store(f"ms-{i}", f"fact {i}")
        envelope = self.chain.hand("researcher", "analyst", memory_ids=[f"ms-{i}" for i in range(20)] + ["gone-1"])
        self.assertEqual({name: memory["content"] for name, memory in memories(envelope).items()},
                         {f"ms-{i}": f"fact {i}" for i in range(20)})
        self.assertEqual(missing(envelope)["gone-1"]["reason"], "not_found")
        self.assertEqual([entry[1] for entry in self.server.asked("/facts")], ["/facts/batch"])
        self.assertEqual(memories(envelope)["ms-0"]["created_at"], "2023-11-14T22:13:20.000Z")

    def test_by_id_one_by_one_where_there_is_no_batch(self):
        table = {**TABLE, "operations": {key: row for key, row in TABLE["operations"].items() if key != "get_many"}}
        self.start(table)
        self.server.store("ms-1")
        envelope = self.chain.hand("researcher", "analyst", memory_ids=["ms-1", "ms-2"])
        self.assertEqual((list(memories(envelope)), list(missing(envelope))), (["ms-1"], ["ms-2"]))
        self.assertEqual(sorted(entry[1] for entry in self.server.asked("/facts")), ["/facts/ms-1", "/facts/ms-2"])

    def test_pins_and_what_fits_the_task(self):
        self.start()
        self.server.store("pin-1", "always", pinned=True)
        self.server.store("fit-1", "the zeppelin is inspected")
        self.server.store("other-1", "nothing of it")
        envelope = self.chain.hand("researcher", "analyst", summary="inspect the zeppelin", include_recent=5, include_pins=True)
        self.assertEqual(sorted(memories(envelope)), ["fit-1", "pin-1"])
        self.assertEqual(memories(envelope)["pin-1"]["pinned"], True)

    def test_a_long_summary_does_not_make_a_url_that_servers_refuse(self):
        search = {"method": "GET", "path": "/facts?newest={limit}&about={query}", "memories": "/facts"}
        self.start({**TABLE, "operations": {**TABLE["operations"], "search": search}})
        self.server.store("fit-1", "the zeppelin is inspected")
        envelope = self.chain.hand("researcher", "analyst", summary="inspect the zeppelin \u98db " * 300, include_recent=5)
        self.assertEqual(list(memories(envelope)), ["fit-1"])
        [asked] = [entry[1] for entry in self.server.asked("/facts?newest") if "about=" in entry[1]]
        about = urllib.parse.parse_qs(urllib.parse.urlsplit(asked).query, errors="strict")["about"][0]
        self.assertTrue(about.startswith("inspect the zeppelin \u98db "), about[:50])
        self.assertIn(len(about.encode()), range(4093, 4097))

    def test_no_more_pins_are_taken_than_are_allowed(self):
        self.start(timeout="10s")
        for i in range(60_000):
            self.server.store(f"p{i}", "x", pinned=True)
        began = time.monotonic()
        envelope = self.chain.hand("researcher", "analyst", include_pins=True)
        self.assertEqual({name: entry["reason"] for name, entry in missing(envelope).items()}, {"*pinned": "search_incomplete"})
        self.assertEqual(set(memories(envelope)), {f"p{i}" for i in range(256)})
        self.assertLess(time.monotonic() - began, 5)

    def test_pins_beyond_the_page_of_the_server_do_not_vanish(self):
        pinned = {**TABLE["operations"]["pinned"], "more": "/left"}
        self.start({**TABLE, "operations": {**TABLE["operations"], "pinned": pinned}})
        self.server.store("pin-1", pinned=True)
        answer = self.server.answer
        for left, lacking in ((None, []), (False, []), ("", []), (0, []), (True, ["*pinned"]), ("cursor", ["*pinned"]), (3, ["*pinned"])):
            self.server.answer = lambda *asked, left=left: (lambda status, body: (status, {**body, "left": left}))(*answer(*asked))
            envelope = self.chain.hand("researcher", "analyst", new_chain=True, include_pins=True)
            self.assertEqual((list(memories(envelope)), list(missing(envelope))), (["pin-1"], lacking), left)

    def test_only_the_scopes_of_the_request_are_seen(self):
        self.start()
        self.server.store("alice-1", tenant="user:alice")
        self.server.store("bob-1", tenant="user:bob")
        envelope = self.chain.hand("researcher", "analyst", memory_ids=["alice-1", "bob-1"], scope="user:alice")
        self.assertEqual((list(memories(envelope)), list(missing(envelope))), (["alice-1"], ["bob-1"]))

    def test_another_sidecar_is_asked_for_what_the_request_sees(self):
        remote = self.enterContext(daemon_with(pullers("analyst"), spine={"search_timeout": "10s"}))
        self.daemon = self.enterContext(daemon_with(
            pullers("researcher", "analyst"), spine={"kind": "http", "url": f"http://{remote.api.address}", "timeout": "10s"}))
        self.chain = Chain(self.daemon, "another-sidecar")
        for name, memory in {"alice-1": {"scope": "user:alice"}, "team-1": {"scope": "team:x"}, "shared-1": {},
                             "bob-1": {"scope": "user:bob"}, "bob-2": {"scope": "user:bob"}}.items():
            self.assertEqual(self.memory("PUT", name, {"content": f"{name} knows retries", **memory}).status, 201)
        envelope = self.chain.hand("researcher", "analyst", new_chain=True, task_summary="retries", include_recent=3, include_pins=True,
                                   scope=["user:alice", "team:x"])
        self.assertEqual((sorted(memories(envelope)), envelope["missing"]), (["alice-1", "shared-1", "team-1"], []))
        newest = self.chain.call("GET", "/v1/memories?recent=3&scope=user:alice,team:x").json()["items"]
        self.assertEqual([memory["id"] for memory in newest], ["shared-1", "team-1", "alice-1"])

    def test_a_memory_without_times_has_those_that_are_known(self):
        self.start()
        self.server.store("ms-1")
        self.assertEqual(self.memory("GET", "ms-1").json()["updated_at"], self.memory("GET", "ms-1").json()["created_at"])
        del self.server.facts["ms-1"]["created"]
        self.assertNotIn("1970", self.memory("GET", "ms-1").json()["updated_at"])

    def test_a_scope_that_is_not_a_text_does_not_mean_shared(self):
        self.start()
        for name, scope in ("number-1", 7), ("list-1", ["user:alice"]), ("object-1", {"name": "user:alice"}), ("no-1", False):
            self.server.store(name, tenant=scope)
        self.server.store("null-1", tenant=None)
        envelope = self.chain.hand("researcher", "analyst", include_recent=9,
                                   memory_ids=["number-1", "list-1", "object-1", "no-1", "null-1"])
        self.assertEqual(list(memories(envelope)), ["null-1"])
        self.assertEqual(sorted(missing(envelope)), ["list-1", "no-1", "number-1", "object-1"])

    def test_an_id_stays_in_its_place(self):
        self.start({**TABLE, "operations": {"get": TABLE["operations"]["get"]}})
        self.server.store("a:b")
        self.assertEqual(self.memory("GET", "a%3Ab").json()["content"], "a fact")
        self.assertEqual(self.memory("GET", "..%2Fadmin").status, 400)
        self.assertEqual([entry[1] for entry in self.server.asked("/")], ["/facts/a%3Ab"])

    def test_the_token_is_sent_and_never_logged(self):
        self.start()
        self.memory("GET", "ms-1")
        self.assertEqual(self.server.asked("/facts")[0][3]["Authorization"], f"Bearer {TOKEN}")
        self.assertNotIn(TOKEN, self.daemon.log())


class Encrypted(Case):
    """https with a private authority and a client certificate."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.authority = Authority(self.folder)
        self.client = self.authority.issue("sidecar", "DNS:sidecar", "clientAuth")

    def context(self, name="IP:127.0.0.1", wants_client=True):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.issue("spine", name))
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.authority.path)
        return context

    def keys(self, authority=None, client=True):
        cert, key = self.client
        return {"ca_file": str((authority or self.authority).path),
                **({"cert_file": str(cert), "key_file": str(key)} if client else {})}

    def test_memories_are_found_and_stored(self):
        self.start(tls=self.context())
        self.assert_unreachable(self.memory("GET", "ms-1"))  # the system's authorities do not know it
        self.start(tls=self.context(), spine_tls=self.keys())
        self.assertEqual(self.memory("PUT", "ms-1", {"content": "new"}).status, 201)
        envelope = self.chain.hand("researcher", "analyst", memory_ids=["ms-1"])
        self.assertEqual(memories(envelope)["ms-1"]["content"], "new")

    def test_another_authority_another_name_and_no_client_certificate_are_failures_and_say_so(self):
        elsewhere = Authority(tempfile.mkdtemp(dir=self.folder))
        for what, context, keys in (("authority", self.context(), self.keys(elsewhere)),
                                    ("name", self.context("DNS:elsewhere"), self.keys()),
                                    ("certificate", self.context(), self.keys(client=False))):
            with self.subTest(what):
                self.start(tls=context, spine_tls=keys)
                self.assert_unreachable(self.memory("GET", "ms-1"))
                envelope = self.chain.hand("researcher", "analyst", memory_ids=["ms-1"])
                self.assertEqual(missing(envelope)["ms-1"]["reason"], "spine_unavailable")
                self.assertEqual((self.up(), self.server.seen), (0, []))

    def assert_unreachable(self, reply):
        self.assertEqual((reply.status, reply.json()["code"]), (503, "spine_unavailable"), reply)
        self.assertIn("check spine.tls", reply.text)


class Changing(Case):
    def test_memories_are_stored_and_deleted_there(self):
        self.start()
        reply = self.memory("PUT", "ms-1", {"content": "new", "scope": "user:alice", "pinned": True})
        self.assertEqual((reply.status, reply.json()["content"], reply.json()["pinned"]), (201, "new", True), reply)
        self.assertEqual((self.server.facts["ms-1"]["text"], self.server.facts["ms-1"]["tenant"]), ("new", "user:alice"))
        self.assertEqual(self.memory("PUT", "ms-1", {"content": "newer"}).status, 200)
        self.assertEqual(self.memory("GET", "ms-1").json()["content"], "newer")
        self.assertEqual((self.memory("DELETE", "ms-1").status, self.server.facts), (204, {}))
        self.assertEqual(self.memory("DELETE", "ms-1").status, 404)

    def test_a_memory_that_cannot_be_read_is_not_overwritten(self):
        only_many = {key: row for key, row in TABLE["operations"].items() if key != "get"}
        for table in TABLE, {**TABLE, "operations": only_many}:
            with self.subTest(sorted(table["operations"])):
                self.start(table)
                self.server.facts["ms-1"] = {"id": "ms-1", "text": 7, "agent": "analyst", "tenant": "user:alice"}
                for method, body in ("PUT", {"content": "mine", "agent": "coder"}), ("DELETE", None):
                    for _ in range(6):
                        reply = self.memory(method, "ms-1", body)
                        self.assertEqual((reply.status, reply.json()["code"]), (503, "spine_unavailable"), reply)
                self.assertEqual(self.server.facts["ms-1"]["text"], 7)
                self.assertEqual(self.memory("PUT", "ms-2", {"content": "new"}).status, 201)  # the circuit is closed

    def test_what_it_lacks_is_said_at_the_start_and_refused_clearly(self):
        self.start({**TABLE, "operations": {"get": TABLE["operations"]["get"]}}, cache="0B")
        [line] = self.daemon.events("spine_lacks")
        self.assertEqual(line["operations"], "search, recent, pinned, put, delete")
        for method, body in ("PUT", {"content": "x"}), ("DELETE", None):
            reply = self.memory(method, "ms-1", body)
            self.assertEqual((reply.status, reply.json()["code"]), (501, "unsupported_by_spine"), reply)
        envelope = self.chain.hand("researcher", "analyst", include_recent=5)
        self.assertEqual(missing(envelope)["*recent"]["reason"], "search_incomplete")


class Trouble(Case):
    def test_whatever_it_does_a_handoff_waits_no_longer_than_the_timeout(self):
        for name, happened in WHAT_HAPPENED.items():
            with self.subTest(name):
                self.start(timeout="700ms")
                self.server.store("ms-1")
                self.server.trouble = getattr(self.server, name)
                began = time.monotonic()
                envelope = self.chain.hand("researcher", "analyst", memory_ids=["ms-1"], include_pins=True)
                self.assertLess(time.monotonic() - began, 5)
                self.assertEqual({key: entry["reason"] for key, entry in missing(envelope).items()},
                                 {"ms-1": "spine_unavailable", "*pinned": "spine_unavailable"})
                self.assert_told(envelope, happened)
                self.assertEqual(envelope["completeness"]["ratio"], 0)
                self.assertEqual(self.server.asked("/elsewhere"), [])
                self.assertEqual(self.up(), 1)  # one failure may be a chance
                for _ in range(3):
                    reply = self.memory("GET", "ms-1")
                    self.assertEqual((reply.status, reply.json()["code"]), (503, "spine_unavailable"), reply)
                    self.assertRegex(reply.json()["seen"], rf"\Aget: {happened}\Z")
                self.assertEqual(self.up(), 0)
                self.assertIn("left alone", self.memory("GET", "ms-1").json()["seen"])
                self.server.release.set()

    def assert_told(self, envelope, happened):
        """To the receiver, in each form; to the sender; to who asks again; and in the log."""
        details = {entry["detail"] for entry in missing(envelope).values()}
        self.assertRegex("\n".join(details), rf"\A(get|pinned): {happened}\Z")
        self.assertIn(details.pop(), self.chain.brief(envelope))
        self.assertEqual(self.chain.state(envelope["id"])["missing"], envelope["missing"])
        reply = self.chain.call("POST", f"/v1/handoffs/{envelope['id']}/memories", {"ids": ["ms-1"]})
        self.assertRegex(reply.json()["missing"][0]["detail"], rf"\Aget: {happened}\Z")
        self.assertRegex(self.daemon.events("spine_failed")[0]["error"], rf"\A(get|pinned): {happened}\Z")

    def test_answers_that_are_too_long_together(self):
        self.start({**TABLE, "operations": {"get": TABLE["operations"]["get"]}}, timeout="30s")  # 140 MB from a busy server
        names = [f"ms-{i}" for i in range(20)]
        for name in names:
            self.server.store(name, padding="x" * 7_000_000)
        envelope = self.chain.hand("researcher", "analyst", memory_ids=names[:5])
        self.assertEqual(sorted(memories(envelope)), names[:5])
        envelope = self.chain.hand("researcher", "analyst", new_chain=True, memory_ids=names)
        self.assertEqual({(entry["reason"], entry["detail"]) for entry in envelope["missing"]},
                         {("spine_unavailable", "get: its answers are too long together")})

    def test_after_an_outage_all_is_found_again(self):
        self.start(timeout="300ms")
        self.server.store("ms-1")
        self.server.trouble = self.server.fails
        handoffs = [self.chain.hand("researcher", "analyst", new_chain=True, memory_ids=["ms-1"]) for _ in range(20)]
        self.assertEqual({missing(envelope)["ms-1"]["reason"] for envelope in handoffs}, {"spine_unavailable"})
        self.assertEqual(self.up(), 0)
        asked = len(self.server.asked("/facts"))
        self.assertLess(asked, 20)  # it is left alone after a few
        self.server.trouble = None
        eventually(lambda: self.up() == 1, "it is known to be back, though no handoff asks")
        for envelope in handoffs:
            reply = self.chain.call("POST", f"/v1/handoffs/{envelope['id']}/memories", {"missing": True})
            self.assertEqual([item["id"] for item in reply.json()["found"]], ["ms-1"], reply)

    def test_an_id_that_it_does_not_allow_is_not_its_fault(self):
        for status in 400, 422:
            with self.subTest(status):
                self.start(timeout="300ms")
                self.server.trouble = lambda handler, status=status: handler.reply(status, {"error": "what an id"})
                for i in range(8):
                    self.assertEqual(self.memory("GET", f"odd-{i}").status, 404)
                for i in range(8):
                    self.assertEqual(self.memory("PUT", f"odd-{i}", {"content": "x"}).status, 503)
                for i in range(8):
                    self.chain.hand("researcher", "analyst", new_chain=True, memory_ids=[f"odd-{i}", f"odd-{i + 1}"])
                self.server.trouble = None
                self.server.store("ms-1")
                self.assertEqual((self.up(), self.memory("GET", "ms-1").status), (1, 200))

    def test_it_is_back_though_it_does_not_allow_the_id_of_the_probe(self):
        self.start(timeout="300ms")
        self.server.trouble = self.server.fails
        for i in range(6):
            self.assertEqual(self.memory("GET", f"ms-{i}").status, 503)
        self.server.trouble = lambda handler: handler.reply(422, {"error": "what an id"})
        eventually(lambda: self.up() == 1, "it is known to be back")
        self.server.trouble = None
        self.server.store("ms-1")
        self.assertEqual(self.memory("GET", "ms-1").status, 200)

    def test_a_server_that_dies_on_a_quiet_day_is_noticed(self):
        self.start(timeout="300ms")
        self.assertEqual(self.up(), 1)
        self.server.trouble = self.server.reset
        eventually(lambda: self.up() == 0, "it is known to be down, though no handoff asks")

    def test_handoffs_without_memories_do_not_wait_for_a_slow_one(self):
        self.start(timeout="5s")
        self.server.trouble = self.server.silent
        waiting = threading.Thread(target=self.chain.hand, args=("researcher", "coder"),
                                   kwargs={"memory_ids": ["ms-1"], "new_chain": True})
        waiting.start()
        eventually(lambda: self.server.asked("/facts"), "the spine is asked")
        began = time.monotonic()
        for _ in range(20):
            self.chain.hand("researcher", "analyst", new_chain=True)
        self.assertLess(time.monotonic() - began, 3)
        self.assertTrue(waiting.is_alive())
        self.server.release.set()
        waiting.join()

    def test_a_stop_does_not_wait_for_a_silent_one(self):
        for connections in (1, 8):  # by the thread of the spine, and by the loops
            with self.subTest(connections=connections):
                self.start(timeout="1m", connections=connections)
                kept = self.chain.hand("researcher", "analyst", new_chain=True)
                self.server.trouble = self.server.silent
                waiting = [threading.Thread(target=self.hand_or_be_refused) for _ in range(20)]
                for thread in waiting:
                    thread.start()
                eventually(lambda: self.server.asked("/facts"), "the spine is asked")
                self.daemon.terminate()
                self.assertEqual(self.daemon.wait(30), 0)  # the time of the spine is 60 s
                for thread in waiting:
                    thread.join()
                self.server.release.set()
                os.truncate(self.daemon.log_path, 0)
                self.daemon.start()
                self.assertEqual(self.chain.call("GET", f"/v1/handoffs/{kept['id']}").json()["task_id"], kept["task_id"])

    def hand_or_be_refused(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.chain.call("POST", "/v1/handoffs", {
                "source_agent": "researcher", "target_agent": "coder", "task_id": "task-silent", "task_summary": "wait",
                "memory_ids": ["ms-1"], "new_chain": True})


if __name__ == "__main__":
    unittest.main()
