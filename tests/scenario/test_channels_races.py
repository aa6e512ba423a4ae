# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Calls about one channel that meet: publishers with one key, a receiver that comes and goes, and a kill in between."""

import concurrent.futures
import contextlib
import http.client
import threading
import time
import unittest

from harness import eventually
from harness.agents import Caller
from harness.receiver import ack
from test_channels import CHANNEL
from test_subscriptions import Subscribing

ROUNDS = 10


class OneKey(Subscribing):
    """Two publishers at the same instant."""

    def setUp(self):
        self.start({"code-generator": ack, "test-writer": ack})

    def publish_at_once(self, bodies, key):
        together = threading.Barrier(len(bodies))

        def publish(body):
            caller = Caller(self.daemon, "researcher")
            together.wait()
            return caller.call("POST", f"/v1/channels/{CHANNEL}/publish", body, idempotency_key=key)

        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            return list(pool.map(publish, bodies))

    def publications(self):
        return [one["id"] for one in self.caller.call("GET", f"/v1/channels/{CHANNEL}/publications?limit=1000").json()["items"]]

    def check_once(self, made):
        """Each was published once, and each receiver has it once."""
        self.assertEqual(sorted(self.publications()), sorted(made))
        for identifier in made:
            self.wait_for_states(identifier, code_generator="acknowledged", test_writer="acknowledged")
        for receiver in self.receivers.values():
            self.assertEqual(sorted(request.json()["id"] for request in receiver.requests), sorted(made))
        self.check_store()

    def test_the_same_request_is_published_once_and_both_are_told_so(self):
        made = []
        for number in range(ROUNDS):
            replies = self.publish_at_once([{"request": self.request()}] * 2, f"key-{number}")
            self.assertLessEqual({reply.status for reply in replies}, {200, 202}, replies)
            self.assertEqual(len({reply.json()["id"] for reply in replies}), 1, replies)
            made.append(replies[0].json()["id"])
        self.check_once(made)

    def test_of_different_requests_one_is_published_and_the_other_is_shown_it(self):
        made = []
        for number in range(ROUNDS):
            replies = self.publish_at_once([{"request": self.request(task_summary=text)} for text in ("One", "Other")],
                                           f"key-{number}")
            first, second = sorted(replies, key=lambda reply: reply.status)
            self.assertEqual((first.status, second.status), (202, 409), replies)
            self.assertEqual((second.json()["code"], second.json()["publication"]["id"]),
                             ("idempotency_conflict", first.json()["id"]), second)
            made.append(first.json()["id"])
        self.check_once(made)

    def test_different_publishers_do_not_share_keys(self):
        replies = self.publish_at_once([{"request": self.request(source_agent=name, new_chain=True, task_id=f"task-{name}")}
                                        for name in ("researcher", "planner")], "key")
        self.assertEqual([reply.status for reply in replies], [202, 202], replies)
        self.assertEqual(len({reply.json()["id"] for reply in replies}), 2)


class OneEnvelope(Subscribing):
    """Two publishers of what was assembled before, to different receivers or channels. Both find it unpublished."""

    def publish_at_once(self, *ways):
        """Each (channel, receivers), 4 times. [(way, reply)]"""
        envelope = self.caller.call("POST", "/v1/envelopes", self.request(target_agent="broadcast", new_chain=True)).json()["id"]
        together = threading.Barrier(4 * len(ways))

        def publish(way):
            caller = Caller(self.daemon, "researcher")
            together.wait()
            return way, caller.call("POST", f"/v1/channels/{way[0]}/publish", {"envelope_id": envelope, "receivers": way[1]})

        with concurrent.futures.ThreadPoolExecutor(4 * len(ways)) as pool:
            return list(pool.map(publish, ways * 4))

    def check_one_wins(self, *ways, field):
        self.start({"code-generator": ack, "test-writer": ack})
        for _ in range(ROUNDS):
            replies = self.publish_at_once(*ways)
            [winner] = {way[0] + way[1][0] for way, reply in replies if reply.status in (200, 202)}
            for way, reply in replies:
                if way[0] + way[1][0] != winner:
                    self.assertEqual((reply.status, reply.json()["code"], reply.json()["field"]), (409, "conflict", field), reply)

    def test_to_different_receivers(self):
        self.check_one_wins((CHANNEL, ["code-generator"]), (CHANNEL, ["test-writer"]), field="receivers")

    def test_to_different_channels(self):
        self.check_one_wins((CHANNEL, ["code-generator"]), ("other-work", ["code-generator"]), field="channel")


class ComesAndGoes(Subscribing):
    def test_a_receiver_that_comes_and_goes_gets_what_was_published_while_it_was_one(self):
        """A publication that meets a change may go either way, but the answer, the store and the inbox say the same."""
        self.start({"code-generator": ack}, agents={"doc-writer": {}})
        over, since, changes, published = threading.Event(), time.monotonic(), [], []  # (from, to, whether it was a receiver)

        def publish_one():
            began = time.monotonic()
            made = self.publish(new_chain=True)
            return began, time.monotonic(), made["id"], {one["receiver"] for one in made["deliveries"]}

        def publish_until_over(_):
            found = []
            while not over.is_set():
                found.append(publish_one())
            return found

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            publishers = [pool.submit(publish_until_over, number) for number in range(3)]
            try:
                for number in range(2 * ROUNDS):
                    published.append(publish_one())  # which meets no change
                    before = time.monotonic()
                    (self.leave if number % 2 else self.subscribe)("doc-writer")
                    changes.append((since, before, number % 2 == 1))
                    since = time.monotonic()
            finally:
                over.set()
            published += [one for publisher in publishers for one in publisher.result()]
        decided = 0
        for began, ended, identifier, names in published:
            self.assertIn("code-generator", names)
            self.assertEqual(set(self.states(identifier)), names, "the store has what was answered")
            for first, last, receives in changes:
                if first <= began and ended <= last:
                    self.assertEqual("doc-writer" in names, receives, (began, ended))
                    decided += 1
        self.assertGreaterEqual(decided, 2 * ROUNDS)
        wanted = [identifier for _, _, identifier, names in published if "doc-writer" in names]
        self.assertEqual(sorted(self.pulled("doc-writer", len(wanted))), sorted(wanted))
        self.assertIsNone(self.pull("doc-writer", 0))
        self.assertEqual(self.feeds("handoff_channel_published_total")["code-generator"], len(published))
        self.check_store(audit=False)


class Killed(Subscribing):
    """SIGKILL in the middle of the call: what was answered holds, and what was not is one or the other."""

    def change_under_a_kill(self, method, delay, **body):
        """Whether it was answered."""
        def change():
            with contextlib.suppress(OSError, http.client.HTTPException, AssertionError, ValueError):
                reply = Caller(self.daemon).call(method, f"/v1/channels/{CHANNEL}/receivers/doc-writer",
                                                 body if method == "PUT" else None)
                return reply.status == 200
            return False

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            changing = pool.submit(change)
            with contextlib.suppress(TimeoutError):
                changing.result(delay)
            self.daemon.kill()
            answered = changing.result()
        self.check_store(audit=False)
        self.restart()
        return answered

    def test_subscribing_from_all_and_leaving(self):
        self.start({"code-generator": ack}, agents={"doc-writer": {}})
        made = [self.publish()["id"] for _ in range(40)]
        pulled = []
        for number in range(6):
            answered = self.change_under_a_kill("PUT", number * 0.001, **{"from": "all"})
            if answered:
                self.assertIn("doc-writer", self.receivers_of())
                self.assertTrue(self.receivers_of()["doc-writer"][0])
            pulled += [one for one in [self.pull("doc-writer", 0)] if one]
            self.subscribe("doc-writer", **{"from": "all"})
            answered = self.change_under_a_kill("DELETE", number * 0.001)
            if answered:
                self.assertNotIn("doc-writer", self.published_to())
            else:
                subscribed = self.receivers_of().get("doc-writer", (False, False, False))[0]
                self.publish(["code-generator"])
                self.assertEqual(self.receivers_of().get("doc-writer", (False, False, False))[0], subscribed)
        shown = [one["id"] for one in self.caller.call("GET", f"/v1/channels/{CHANNEL}/publications?limit=1000").json()["items"]]
        meant = [one for one in shown[::-1] if one in made or "doc-writer" in self.states(one)]
        self.subscribe("doc-writer", **{"from": "all"})
        while (one := self.pull("doc-writer", 2)) is not None:
            pulled.append(one)
        eventually(lambda: not self.receivers_of()["doc-writer"][2], "it has caught up")
        self.assertEqual(len(pulled), len(set(pulled)), "nothing came twice")
        self.assertEqual(set(meant) - set(pulled), set(), "nothing was left out")
        self.check_store(audit=False)


if __name__ == "__main__":
    unittest.main()
