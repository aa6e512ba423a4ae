# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Receivers that subscribe at run time, and leave; and how they get what was published before."""

import collections
import concurrent.futures
import contextlib
import errno
import json
import os
import pathlib
import sqlite3
import subprocess
import tempfile
import threading
import unittest

from harness import eventually
from harness.agents import Caller, config, daemon_with
from harness.failing_calls import PROGRAM, FailingCalls
from harness.receiver import Receiver, ack, status
from test_channels import CHANNEL, Case
from test_spine_http import TABLE, FactServer

HANDOFFCTL = os.environ["HANDOFFCTL"]
NEWS = "news"  # in no configuration


class Subscribing(Case):
    def put(self, agent, channel=CHANNEL, body=None, **headers):
        return self.caller.call("PUT", f"/v1/channels/{channel}/receivers/{agent}", {} if body is None else body, **headers)

    def subscribe(self, agent, channel=CHANNEL, **body):
        reply = self.put(agent, channel, body)
        self.assertEqual((reply.status, reply.json()["subscribed"]), (200, True), reply)
        return reply.json()

    def leave(self, agent, channel=CHANNEL):
        reply = self.caller.call("DELETE", f"/v1/channels/{channel}/receivers/{agent}")
        self.assertEqual((reply.status, reply.json()["subscribed"]), (200, False), reply)
        return reply.json()

    def receivers_of(self, channel=CHANNEL):
        return {one["agent"]: (one["subscribed"], one["configured"], one["catching_up"])
                for one in self.caller.call("GET", f"/v1/channels/{channel}").json()["receivers"]}

    def published_to(self, channel=CHANNEL):
        return {one["receiver"] for one in self.publish(channel=channel)["deliveries"]}

    def pull(self, agent, wait=10):
        reply = self.caller.call("GET", f"/v1/agents/{agent}/inbox?wait={wait}s")
        if reply.status == 204:
            return None
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{reply.header('Handoff-Id')}/ack").status, 200)
        return reply.json()["id"]

    def pulled(self, agent, count):
        """What it pulls; fewer where the next does not come."""
        found = []
        while len(found) < count and (one := self.pull(agent, 30)) is not None:
            found.append(one)
        return found

    def ctl(self, *words, code=0):
        done = subprocess.run([HANDOFFCTL, "channels", *words, "--api.url", self.daemon.api.url], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def store_value(self, query):
        with contextlib.closing(sqlite3.connect(f"file:{self.daemon.folder}/data/handoff.db?mode=ro", uri=True)) as store:
            return store.execute(query).fetchone()[0]

    def reload(self, receivers):
        agents = {name: {} for name in ("code-generator", "doc-writer", "reviewer")}
        self.daemon.write_config(config(agents, channels={CHANNEL: {"receivers": receivers}}))
        reply = self.daemon.reload()
        self.assertEqual(reply.status, 200, reply)


class Receiving(Subscribing):
    def setUp(self):
        self.start({"code-generator": None}, agents={"doc-writer": {}, "reviewer": {}})

    def test_a_subscriber_gets_what_is_published_from_then_on(self):
        self.publish()
        self.assertEqual(self.subscribe("doc-writer"), {
            "channel": CHANNEL, "agent": "doc-writer", "subscribed": True, "catching_up": False})
        self.assertEqual(self.receivers_of(), {"code-generator": (True, True, False), "doc-writer": (True, False, False)})
        made = self.publish()
        self.assertEqual({one["receiver"] for one in made["deliveries"]}, {"code-generator", "doc-writer"})
        self.assertEqual(self.pull("doc-writer"), made["id"])
        self.subscribe("doc-writer")  # once more changes nothing
        self.assertEqual(self.published_to(), {"code-generator", "doc-writer"})

    def test_a_channel_exists_as_long_as_it_has_subscribers(self):
        self.assertEqual(self.post({"request": self.request()}, NEWS).json()["code"], "unknown_channel")
        self.subscribe("doc-writer", NEWS)
        self.assertEqual(self.published_to(NEWS), {"doc-writer"})
        names = [one["name"] for one in self.caller.call("GET", "/v1/channels").json()["items"]]
        self.assertEqual(names, [CHANNEL, "other-work", NEWS])
        self.leave("doc-writer", NEWS)
        self.assertEqual(self.post({"request": self.request()}, NEWS).json()["code"], "unknown_channel")
        gone = self.caller.call("DELETE", f"/v1/channels/{NEWS}/receivers/doc-writer").json()
        self.assertEqual(gone["code"], "unknown_channel")

    def test_to_leave_again_is_harmless(self):
        left = {"channel": CHANNEL, "agent": "doc-writer", "subscribed": False, "catching_up": False}
        self.subscribe("doc-writer")
        for _ in range(2):
            self.assertEqual(self.leave("doc-writer"), left)
        self.assertEqual(self.leave("reviewer"), {**left, "agent": "reviewer"})
        gone = self.caller.call("DELETE", f"/v1/channels/{CHANNEL}/receivers/doc-writers").json()
        self.assertEqual((gone["code"], gone["allowed"]), ("unknown_agent", "doc-writer (the nearest name)"))

    def test_subscriptions_survive_a_kill_and_a_reload(self):
        self.subscribe("doc-writer")
        self.subscribe("reviewer", NEWS)
        self.leave("code-generator")
        self.daemon.kill()
        self.restart()
        self.assertEqual(self.published_to(), {"doc-writer"})
        self.assertEqual(self.published_to(NEWS), {"reviewer"})
        self.reload(["code-generator", "reviewer"])
        self.assertEqual(self.published_to(), {"reviewer", "doc-writer"})
        self.subscribe("code-generator")
        self.assertEqual(self.published_to(), {"code-generator", "reviewer", "doc-writer"})

    def test_who_leaves_keeps_what_is_pending(self):
        self.subscribe("doc-writer")
        made = self.publish()
        self.leave("doc-writer")
        self.assertEqual(self.published_to(), {"code-generator"})
        self.assertEqual(self.receivers_of()["doc-writer"], (False, False, False))
        self.assertEqual(self.pull("doc-writer"), made["id"])
        self.assertNotIn("doc-writer", self.receivers_of())

    def test_what_is_wrong_is_refused(self):
        for agent, channel, body, code, field in (
                ("nobody", CHANNEL, {}, "unknown_agent", "agent"),
                ("doc-writer", CHANNEL, {"from": "yesterday"}, "invalid_request", "from"),
                ("doc-writer", CHANNEL, {"from": "2126-11-20T10:00:00Z"}, "invalid_request", "from"),
                ("doc-writer", CHANNEL, {"form": "all"}, "invalid_request", "form"),
                ("doc-writer", "a%20b", {}, "invalid_request", "channel"),
                ("doc-writer", "x" * 129, {}, "invalid_request", "channel")):
            reply = self.put(agent, channel, body)
            self.assertEqual((reply.json()["code"], reply.json().get("field")), (code, field), reply)
        self.assertEqual(self.receivers_of(), {"code-generator": (True, True, False)})


class CatchingUp(Subscribing):
    def setUp(self):
        self.start({"code-generator": ack}, agents={"doc-writer": {}, "reviewer": {}})

    def finished(self):
        return not self.receivers_of()["doc-writer"][2]

    def test_what_is_retained_comes_first_and_in_order(self):
        before = [self.publish()["id"] for _ in range(40)]
        self.assertTrue(self.subscribe("doc-writer", **{"from": "all"})["catching_up"])
        after = [self.publish()["id"] for _ in range(3)]
        self.assertEqual(self.pulled("doc-writer", len(before + after)), before + after)
        eventually(self.finished, "it has caught up")
        last = self.publish()
        self.assertIn("doc-writer", {one["receiver"] for one in last["deliveries"]})
        self.assertEqual(self.pull("doc-writer"), last["id"])
        self.assertIsNone(self.pull("doc-writer", 0))
        self.check_store()

    def test_what_it_catches_up_with_is_pending_since_it_subscribed(self):
        published = self.publication(self.publish()["id"])["published_at"]
        eventually(lambda: self.channel()["code-generator"] == (0, 0), "it is acknowledged")
        self.subscribe("doc-writer", **{"from": "all"})
        eventually(lambda: self.channel()["doc-writer"] == (1, 0), "it is offered")

        def oldest():
            found = self.caller.call("GET", f"/v1/channels/{CHANNEL}").json()["receivers"]
            return next(one["oldest_pending_at"] for one in found if one["agent"] == "doc-writer")
        made = self.caller.call("GET", "/v1/handoffs?target=doc-writer").json()["items"][0]["created_at"]
        self.assertEqual(oldest(), made)
        self.assertGreater(made, published)
        self.daemon.kill()
        self.restart()
        self.assertEqual(oldest(), made)
        self.assertLess(self.feeds("handoff_channel_oldest_pending_seconds")["doc-writer"], 600)

    def test_from_a_time(self):
        self.publish()
        second = self.publish()
        at = self.publication(second["id"])["published_at"]
        third = self.publish()
        self.subscribe("doc-writer", **{"from": at})
        self.assertEqual(self.pulled("doc-writer", 2), [second["id"], third["id"]])
        eventually(self.finished, "it has caught up")
        self.assertIsNone(self.pull("doc-writer", 0))

    def test_not_what_was_meant_for_others_or_came_from_itself(self):
        self.publish(["code-generator"])
        self.publish(source_agent="doc-writer", task_id="task-of-its-own")
        wanted = self.publish()
        self.subscribe("doc-writer", **{"from": "all"})
        self.assertEqual(self.pull("doc-writer"), wanted["id"])
        eventually(self.finished, "it has caught up")
        self.assertIsNone(self.pull("doc-writer", 0))
        self.subscribe("doc-writer", **{"from": "all"})  # again: it has everything
        eventually(self.finished, "it has caught up")
        self.assertIsNone(self.pull("doc-writer", 0))

    def test_to_subscribe_again_on_the_way_loses_and_repeats_nothing(self):
        made = [self.publish()["id"] for _ in range(200)]
        for _ in range(40):
            self.subscribe("doc-writer", **{"from": "all"})
        self.assertEqual(self.pulled("doc-writer", len(made)), made)
        eventually(self.finished, "it has caught up")
        self.assertIsNone(self.pull("doc-writer", 0))
        self.check_store()

    def test_a_kill_on_the_way_loses_and_repeats_nothing(self):
        before = [self.publish()["id"] for _ in range(60)]
        self.subscribe("doc-writer", **{"from": "all"})
        self.daemon.kill()
        self.check_store()
        self.restart()
        after = self.publish()["id"]
        self.assertEqual(self.pulled("doc-writer", 61), [*before, after])
        eventually(self.finished, "it has caught up")
        self.assertIsNone(self.pull("doc-writer", 0))
        self.check_store()

    def test_who_leaves_on_the_way_is_sent_nothing_more(self):
        for _ in range(30):
            self.publish()
        self.subscribe("doc-writer", **{"from": "all"})
        self.leave("doc-writer")
        self.publish()
        pulled = []
        while (one := self.pull("doc-writer", 0)) is not None:
            pulled.append(one)
        self.assertEqual(self.receivers_of().get("doc-writer"), None)
        self.assertEqual(len(pulled), len(set(pulled)))
        self.assertLessEqual(len(pulled), 30)

    def test_publishers_do_not_wait_and_nothing_slips_through(self):
        stop = threading.Event()

        def publish_until(stop):
            made = []
            while not stop.is_set() or len(made) < 10:
                made.append(self.publish()["id"])
            return made

        def pull_until(stop):
            """It reads all the time: one that does not would not catch up."""
            pulled = []
            while not stop.is_set() or (pulled and pulled[-1] is not None):
                pulled.append(self.pull("doc-writer", 1))
            return [one for one in pulled if one is not None]

        read = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            reader = pool.submit(pull_until, read)
            publishers = [pool.submit(publish_until, stop) for _ in range(3)]
            try:
                for _ in range(4):
                    self.subscribe("doc-writer", **{"from": "all"})
                    eventually(self.finished, "it has caught up")
            finally:
                stop.set()
                made = [one for publisher in publishers for one in publisher.result()]
                read.set()
        self.assertEqual(collections.Counter(reader.result()), collections.Counter(made))
        self.assertIsNone(self.pull("doc-writer", 0))
        self.check_store()

    def test_a_subscriber_that_does_not_read_takes_a_bounded_number(self):
        made = [self.publish()["id"] for _ in range(300)]
        self.subscribe("doc-writer", **{"from": "all"})
        eventually(lambda: self.channel()["doc-writer"][0] >= 256, "it has as many as it may")
        self.assertLess(self.channel()["doc-writer"][0], 256 + 16)
        self.assertFalse(self.finished())
        self.assertEqual(self.pulled("doc-writer", len(made)), made)
        eventually(self.finished, "it has caught up")

    def test_a_receiver_that_pulls_sees_what_is_published_meanwhile_in_order(self):
        """Published on several connections, one after the other, while it is included again."""
        for _ in range(3):
            made = [self.publish()["id"] for _ in range(20)]
            self.subscribe("doc-writer", **{"from": "all"})
            made += [self.publish()["id"] for _ in range(30)]
            self.assertEqual(self.pulled("doc-writer", len(made)), made)
            eventually(self.finished, "it has caught up")
            self.leave("doc-writer")

    def test_an_envelope_that_was_assembled_before_and_is_published_on_the_way_comes_too(self):
        draft = self.caller.call("POST", "/v1/envelopes", self.request(target_agent="broadcast")).json()["id"]
        made = [self.publish()["id"] for _ in range(300)]
        self.subscribe("doc-writer", **{"from": "all"})
        eventually(lambda: self.channel()["doc-writer"][0] >= 256, "it has as many as it may")
        self.assertIn(self.post({"envelope_id": draft}).status, (200, 202))
        self.assertEqual(self.pulled("doc-writer", len(made) + 1), [*made, draft])
        eventually(self.finished, "it has caught up")
        self.assertIsNone(self.pull("doc-writer", 0))
        self.check_store()

    def test_a_change_that_is_on_disk_though_it_failed_does_not_end_it(self):
        for change in ("UPDATE subscriptions SET at = at + 1", "UPDATE subscriptions SET state = 2, at = at + 1",
                       "DELETE FROM subscriptions"):
            with self.subTest(change):
                made = [self.publish()["id"] for _ in range(300)]
                self.subscribe("doc-writer", **{"from": "all"})
                eventually(lambda: self.channel()["doc-writer"][0] >= 256, "it has as many as it may")
                with contextlib.closing(sqlite3.connect(self.daemon.folder / "data" / "handoff.db")) as store:
                    store.execute(change)
                    store.commit()
                self.assertEqual(self.pulled("doc-writer", len(made)), made)
                eventually(self.finished, "it has caught up")
                self.leave("doc-writer")
                self.check_store()

    def test_late_deliveries_are_handoffs_like_any_other(self):
        made = self.publish()
        self.wait_for_states(made["id"], code_generator="acknowledged")
        receiver = self.enterContext(Receiver(status(500)))
        self.daemon.write_config(config({"code-generator": {}, "doc-writer": {"url": receiver.url}},
                                        channels={CHANNEL: {"receivers": ["code-generator"]}}))
        self.assertEqual(self.daemon.reload().status, 200)
        self.subscribe("doc-writer", **{"from": "all"})
        eventually(lambda: self.states(made["id"]).get("doc-writer") == "parked", "it is parked")
        receiver.do(ack)
        [parked] = [one["handoff_id"] for one in self.publication(made["id"])["deliveries"] if one["receiver"] == "doc-writer"]
        self.assertEqual(self.caller.call("POST", f"/v1/parked/{parked}/replay").status, 200)
        self.wait_for_states(made["id"], code_generator="acknowledged", doc_writer="acknowledged")
        self.check_store()


class WhileOthersWait(Subscribing):
    def test_who_waits_for_the_first_publication_of_a_key_keeps_nobody_from_catching_up(self):
        self.start({"code-generator": None}, agents={"doc-writer": {}})

        def repeat():
            return self.post({"request": self.request()}, **{"Idempotency-Key": "once", "Prefer": "wait=30"})

        first = self.post({"request": self.request()}, **{"Idempotency-Key": "once"}).json()
        [handoff] = [one["handoff_id"] for one in first["deliveries"]]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(repeat)
            with self.assertRaises(TimeoutError):
                waiting.result(1)
            self.subscribe("doc-writer", **{"from": "all"})
            self.assertEqual(self.pull("doc-writer"), first["id"])
            eventually(lambda: not self.receivers_of()["doc-writer"][2], "it has caught up")
            second = self.publish()
            self.assertEqual(self.pull("doc-writer"), second["id"])
            self.assertFalse(waiting.done())
            self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)
            self.assertEqual(waiting.result().json()["id"], first["id"])


class InOrder(Subscribing):
    def test_one_that_reads_in_order_is_given_what_it_missed_before_what_came_meanwhile(self):
        with FactServer() as server, concurrent.futures.ThreadPoolExecutor() as pool:
            table = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "spine.json"
            table.write_text(json.dumps(TABLE), encoding="utf-8")
            self.start({"code-generator": ack}, agents={"doc-writer": {"ordered": True}}, tokens={
                "spine": {"kind": "http", "url": server.url, "operations_file": str(table), "timeout": "20s"}})
            draft = self.caller.call("POST", "/v1/envelopes", self.request(target_agent="broadcast")).json()["id"]
            made = [self.publish()["id"] for _ in range(300)]
            self.subscribe("doc-writer", **{"from": "all"})
            eventually(lambda: self.channel()["doc-writer"][0] >= 256, "it has as many as it may")
            self.assertIn(self.post({"envelope_id": draft}).status, (200, 202))
            server.trouble = server.silent
            slow = pool.submit(self.publish, ["code-generator"], memory_ids=["ms-1"])
            eventually(lambda: server.asked("/facts/ms-1", "/facts/batch"), "the spine is asked")
            server.trouble = None
            self.assertEqual(self.pulled("doc-writer", len(made)), made)
            eventually(lambda: not self.receivers_of()["doc-writer"][2], "it is included again")
            last = self.publish()["id"]
            server.release.set()
            slow.result()
            self.assertEqual(self.pulled("doc-writer", 2), [draft, last])


class WhileTheStoreFails(Subscribing):
    def test_a_change_that_fails_does_not_end_a_catching_up(self):
        self.calls = FailingCalls()
        self.addCleanup(self.calls.close)
        self.start({"code-generator": ack}, agents={"doc-writer": {}},
                   tokens={"program": PROGRAM, "env": self.calls.environment})
        made = [self.publish()["id"] for _ in range(300)]
        self.subscribe("doc-writer", **{"from": "all"})
        eventually(lambda: self.channel()["doc-writer"][0] >= 256, "it has as many as it may")
        self.calls.arm("pwrite", 0, errno.ENOSPC, times=1 << 30)
        self.assertEqual(self.put("doc-writer", body={"from": "all"}).json()["code"], "store_full")
        reply = self.caller.call("DELETE", f"/v1/channels/{CHANNEL}/receivers/doc-writer")
        self.assertEqual(reply.json()["code"], "store_full")
        self.calls.disarm()
        eventually(lambda: self.daemon.web.get("/-/ready").status == 200, "the store is well again")
        self.assertEqual(self.pulled("doc-writer", len(made)), made)
        eventually(lambda: not self.receivers_of()["doc-writer"][2], "it has caught up")
        self.check_store()


class AfterRetention(Subscribing):
    def test_nobody_is_sent_again_what_retention_removed_for_it(self):
        self.start({"code-generator": ack, "doc-writer": None},
                   tokens={"storage": {"retention": {"age": "1s"}}})
        made = self.publish()
        [first] = [one["handoff_id"] for one in made["deliveries"] if one["receiver"] == "code-generator"]
        self.receivers["code-generator"].wait_for(1)
        eventually(lambda: self.caller.call("GET", f"/v1/handoffs/{first}").status == 404, "retention removes it", 30)
        self.subscribe("code-generator", **{"from": "all"})
        eventually(lambda: not self.receivers_of()["code-generator"][2], "it has caught up")
        self.assertEqual(list(self.states(made["id"])), ["doc-writer"])
        self.check_store()
        self.assertEqual(self.pull("doc-writer"), made["id"])
        publication = f"/v1/channels/{CHANNEL}/publications/{made['id']}"
        eventually(lambda: self.caller.call("GET", publication).status == 404, "retention removes the publication", 30)
        self.check_store(audit=False)


class Retained(Subscribing):
    """What a channel keeps for those who subscribe later, whatever the store's own retention removes."""

    def keep(self, storage="1s", **keys):
        self.start({"code-generator": ack}, agents={"doc-writer": {"token_budget": 200_000}}, **keys,
                   tokens={"storage": {"retention": {"age": storage}}})

    def change(self, **keys):
        agents = {"code-generator": {"url": self.receivers["code-generator"].url}, "doc-writer": {}}
        self.daemon.write_config(config(agents, channels={CHANNEL: {"receivers": ["code-generator"], **keys}}))
        self.assertEqual(self.daemon.reload().status, 200)

    def delivered_to_generator(self, made):
        return next(one["handoff_id"] for one in made["deliveries"] if one["receiver"] == "code-generator")

    def is_removed(self, handoff):
        return self.caller.call("GET", f"/v1/handoffs/{handoff}").status == 404

    def caught_up(self):
        return not self.receivers_of()["doc-writer"][2]

    def dropped(self):
        [row] = [one for one in self.caller.call("GET", f"/v1/channels/{CHANNEL}").json()["receivers"]
                 if one["agent"] == "doc-writer"]
        return row["dropped"]

    def subscribe_to_all(self):
        self.subscribe("doc-writer", **{"from": "all"})

    def test_a_channel_keeps_what_the_store_would_remove(self):
        self.keep(retention="1h")
        kept = self.publish()
        self.wait_for_states(kept["id"], code_generator="acknowledged")
        eventually(lambda: self.is_removed(self.delivered_to_generator(kept)), "retention removes its delivery", 30)
        self.daemon.kill()
        self.restart()
        self.check_store(audit=False)
        self.subscribe_to_all()
        self.assertEqual(self.pull("doc-writer"), kept["id"])
        eventually(self.caught_up, "it has caught up")
        self.subscribe("code-generator", **{"from": "all"})  # which had it: its row is gone, and it gets nothing twice
        self.publish()
        self.assertEqual(self.dropped(), 0)
        self.receivers["code-generator"].wait_for(2)
        self.check_store(audit=False)

    def test_it_lets_go_of_what_is_older(self):
        self.keep(storage="1d", retention="1s")
        made = self.publish()
        self.wait_for_states(made["id"], code_generator="acknowledged")
        eventually(lambda: self.store_value("SELECT shelf FROM publications") == -1, "the channel lets go of it", 30)
        self.subscribe_to_all()
        eventually(self.caught_up, "it has caught up")
        self.assertIsNone(self.pull("doc-writer", 0))
        self.assertEqual(self.publication(made["id"])["id"], made["id"])  # the store still has it
        self.check_store()

    def test_what_is_on_its_way_is_never_let_go(self):
        self.start({"code-generator": ack, "reviewer": None}, agents={"doc-writer": {}}, retention="1s")
        waiting = self.publish()
        self.publish(["code-generator"])
        last = self.publish()
        eventually(lambda: self.store_value("SELECT count(*) FROM publications WHERE shelf = -1") == 1, "one is let go", 30)
        self.subscribe_to_all()
        self.assertEqual(self.pulled("doc-writer", 2), [waiting["id"], last["id"]])
        self.check_store()

    def test_it_is_bounded_by_size(self):
        self.keep(storage="1d", retention="1h", retention_size="1MiB", token_budget=200_000)
        steps = [{"agent": "researcher", "action": "x" * 4000} for _ in range(40)]
        made = [self.publish(execution_history=steps, new_chain=True) for _ in range(12)]
        for one in made:
            self.wait_for_states(one["id"], code_generator="acknowledged")
        total = "SELECT coalesce(sum(bytes), 0) FROM channel_shelves"
        eventually(lambda: self.store_value(total) <= 1 << 20, "the channel is within its size", 30)
        self.assertGreater(self.store_value(total), 1 << 19)
        kept = self.store_value("SELECT publications FROM channel_shelves")
        self.subscribe_to_all()
        self.assertEqual(self.pulled("doc-writer", kept), [one["id"] for one in made[-kept:]])
        eventually(self.caught_up, "it has caught up")
        self.assertIsNone(self.pull("doc-writer", 0))
        self.assertEqual(self.dropped(), 0)
        self.check_store()

    def test_what_a_subscriber_had_not_read_is_counted(self):
        self.keep(storage="1d", retention="1h")
        made = [self.publish()["id"] for _ in range(300)]
        self.subscribe_to_all()
        eventually(lambda: self.channel()["doc-writer"][0] >= 256, "it has as many as it may")
        self.change(retention="1s")
        eventually(lambda: self.dropped() > 0 and self.store_value(
            "SELECT count(*) FROM publications WHERE shelf > 1 AND unfinished = 0") == 0, "the channel lets go", 30)
        unread = self.store_value("SELECT dropped FROM subscriptions")
        eventually(lambda: self.dropped() == unread, "it says so")
        pulled = self.pulled("doc-writer", 300 - unread)
        self.assertEqual(pulled, made[:300 - unread])
        eventually(self.caught_up, "it has caught up")
        self.assertIsNone(self.pull("doc-writer", 0))
        for _ in range(2):
            self.assertEqual(self.dropped(), unread)
            self.assertEqual(self.feeds("handoff_channel_dropped_total"), {"code-generator": 0, "doc-writer": unread})
            [row] = [one for one in self.daemon.web.get("/?format=json").json()["channels"] if one["receiver"] == "doc-writer"]
            self.assertEqual(row["dropped"], unread)
            page = self.daemon.web.get("/").body.decode()
            self.assertIn(f"retention removed {unread} before it had come to them", page)
            self.check_store()
            self.daemon.kill()
            self.restart()
            eventually(lambda: self.dropped() == unread, "a new process knows it")
        self.subscribe_to_all()
        self.assertEqual(self.dropped(), 0)

    def test_without_the_key_the_store_decides_again(self):
        self.keep(storage="1d", retention="1h")
        made = self.publish()
        self.wait_for_states(made["id"], code_generator="acknowledged")
        self.change()
        eventually(lambda: self.store_value("SELECT count(*) FROM channel_shelves") == 0, "the channel keeps nothing", 30)
        self.subscribe_to_all()
        self.assertEqual(self.pull("doc-writer"), made["id"])
        self.check_store()


class CommandLine(Subscribing):
    def test_receivers_subscribe_and_leave(self):
        self.start({"code-generator": None}, agents={"doc-writer": {}})
        self.publish()
        self.assertEqual(self.ctl("subscribe", NEWS, "doc-writer"), f"doc-writer receives {NEWS}\n")
        self.assertEqual(self.ctl("subscribe", CHANNEL, "doc-writer", "--from", "all"),
                         f"doc-writer is catching up with {CHANNEL}\n")
        eventually(lambda: self.channel()["doc-writer"] == (1, 0), "it has caught up")
        eventually(lambda: not self.receivers_of()["doc-writer"][2], "it is current")
        shown = [line.split() for line in self.ctl("show", CHANNEL).splitlines()]
        self.assertEqual(shown[0], ["CHANNEL", "RECEIVER", "SUBSCRIBED", "PENDING", "OLDEST", "PARKED", "DROPPED"])
        self.assertEqual([row[:4] for row in shown[1:]],
                         [[CHANNEL, "code-generator", "configured", "1"], [CHANNEL, "doc-writer", "yes", "1"]])
        self.assertIn(NEWS, self.ctl("list"))
        self.assertEqual(self.ctl("subscribe", NEWS, "doc-writer", "-o", "name"), "doc-writer\n")
        self.assertEqual(self.ctl("unsubscribe", NEWS, "doc-writer"), f"doc-writer has left {NEWS}\n")
        self.ctl("show", NEWS, code=4)
        self.ctl("unsubscribe", NEWS, "doc-writer", code=4)


class PublishingByCommandLine(Subscribing):
    def setUp(self):
        self.start({"code-generator": ack, "test-writer": ack, "doc-writer": status(500)})

    def rows(self, printed):
        return sorted(line.split()[1:] for line in printed.splitlines()[2:])

    def test_a_request_is_published_to_all_or_to_some(self):
        done = self.ctl("publish", CHANNEL, "--from", "researcher", "--summary", "Research is complete", "--receiver",
                        "code-generator", "--receiver", "test-writer", "--wait", "20")
        self.assertEqual(self.rows(done), [["code-generator", "acknowledged", "1"], ["test-writer", "acknowledged", "1"]])
        identifier = done.split()[0]
        self.assertEqual(done.splitlines()[0], f"{identifier} is published to {CHANNEL}")
        self.assertEqual(self.publication(identifier)["source_agent"], "researcher")
        done = self.ctl("publish", CHANNEL, "--from", "researcher", "--summary", "More", "--wait", "20", code=1)
        self.assertIn(["doc-writer", "parked", "3", "exhausted"], self.rows(done))

    def test_a_repeat_with_a_key_is_the_first_publication(self):
        words = ("publish", CHANNEL, "--from", "researcher", "--summary", "Once", "--receiver", "code-generator",
                 "--idempotency-key", "run-17", "-o", "name")
        self.assertEqual(self.ctl(*words), self.ctl(*words))

    def test_an_envelope_is_published(self):
        draft = self.caller.call("POST", "/v1/envelopes", self.request(target_agent="broadcast")).json()["id"]
        done = self.ctl("publish", CHANNEL, "--envelope", draft, "--receiver", "test-writer")
        self.assertEqual((done.split()[0], self.rows(done)), (draft, [["test-writer", "ready", "0"]]))
        self.ctl("publish", CHANNEL, "--receiver", "test-writer", code=2)
        self.ctl("publish", CHANNEL, "--envelope", draft, "--summary", "and a request", code=1)


class Access(Subscribing):
    def test_an_agent_subscribes_itself_only(self):
        path = self.enterContext(tempfile.NamedTemporaryFile("w", suffix=".tokens"))
        names = ("code-generator", "doc-writer", "@operator")
        path.write("".join(f"{name} {name.strip('@')}-0123456789abcdef0123\n" for name in names))
        path.flush()
        self.daemon = self.enterContext(daemon_with(
            {"code-generator": {}, "doc-writer": {}}, channels={CHANNEL: {}}, api={"tokens_file": path.name}))
        self.caller = Caller(self.daemon, "researcher")

        def status_of(who, agent):
            return self.put(agent, authorization=f"Bearer {who}-0123456789abcdef0123").status

        self.assertEqual(status_of("doc-writer", "doc-writer"), 200)
        self.assertEqual(status_of("doc-writer", "code-generator"), 403)
        self.assertEqual(status_of("operator", "code-generator"), 200)


if __name__ == "__main__":
    unittest.main()
