# SPDX-License-Identifier: Apache-2.0
"""A receiver that did not read for an hour comes back to a long backlog, and slows no other.

HANDOFF_PUBLICATIONS sets how many wait for it; the specification speaks of 10,000.
"""

import concurrent.futures
import contextlib
import itertools
import os
import sqlite3
import threading
import unittest

from harness import eventually
from harness.agents import Caller
from harness.receiver import ack
from test_channels import CHANNEL, Case

COUNT = int(os.environ.get("HANDOFF_PUBLICATIONS", "400"))
SENDERS, PULLERS = 4, 4
HOUR_MS = 3600 * 1000


class Away(Case):
    def each(self, work, threads):
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            return [one for part in pool.map(work, range(threads)) for one in part]

    def publish_some(self, number):
        caller = Caller(self.daemon, "researcher")
        found = []
        for _ in range(number, COUNT, SENDERS):
            reply = caller.call("POST", f"/v1/channels/{CHANNEL}/publish", {"request": self.request()})
            self.assertEqual(reply.status, 202, reply)
            found.append(reply.json()["id"])
        return found

    def pull_some(self, _):
        """All that comes until nothing waits."""
        caller = Caller(self.daemon, "away")
        found = []
        while (reply := caller.call("GET", "/v1/agents/away/inbox")).status == 200:
            acked = caller.call("POST", f"/v1/handoffs/{reply.header('Handoff-Id')}/ack")
            self.assertEqual(acked.status, 200, acked)
            found.append(reply.json()["id"])
        return found

    def an_hour_passes(self):
        """While the daemon is down: all that the store has is an hour older."""
        with contextlib.closing(sqlite3.connect(self.daemon.folder / "data" / "handoff.db")) as store:
            for table, column in ("publications", "at"), ("envelopes", "created_at"), ("handoffs", "due_at"):
                store.execute(f"UPDATE {table} SET {column} = {column} - {HOUR_MS} WHERE {column} > 0")
            store.commit()

    def resident(self):
        with open(f"/proc/{self.daemon.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def test_it_catches_up_and_slows_no_other(self):
        self.start({"healthy": ack, "away": None})
        made = self.each(self.publish_some, SENDERS)
        eventually(lambda: self.channel()["healthy"] == (0, 0), "the healthy one has all", 120)
        self.assertEqual(self.channel()["away"], (COUNT, 0))
        self.daemon.kill()
        self.an_hour_passes()
        self.restart()
        eventually(lambda: self.feeds("handoff_channel_pending").get("away") == COUNT, "all of it waits", 60)
        self.assertGreaterEqual(self.feeds("handoff_channel_oldest_pending_seconds")["away"], HOUR_MS / 1000)
        before = self.resident()
        begun, over, between = threading.Event(), threading.Event(), []

        def publish_between():
            """Each is published and acknowledged while the other one catches up."""
            begun.wait()
            while not over.is_set():
                done = self.publish(["healthy"], headers={"prefer": "wait=20"})
                self.assertEqual([one["state"] for one in done["deliveries"]], ["acknowledged"])
                between.append(done["id"])

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            publishing = pool.submit(publish_between)
            begun.set()
            try:
                pulled = self.each(self.pull_some, PULLERS)
            finally:
                over.set()
            publishing.result()
        self.assertEqual(sorted(pulled), sorted(made))  # each once: nothing was offered twice
        self.assertGreater(len(between), COUNT // 100)
        self.assertEqual(self.channel(), {"healthy": (0, 0), "away": (0, 0)})
        self.assertLess(self.resident(), before * 1.25 + 4096)
        requests = [request.id for request in self.receivers["healthy"].requests]
        self.assertEqual(len(set(requests)), len(requests))
        self.check_store()

    def test_one_that_subscribes_after_an_hour_catches_up_in_order(self):
        self.start({"healthy": ack}, agents={"away": {}})
        made = sorted(self.each(self.publish_some, SENDERS), key=lambda _: 0)
        eventually(lambda: self.channel()["healthy"] == (0, 0), "the healthy one has all", 120)
        order = [one["id"] for one in self.publications()][::-1]
        self.assertEqual(sorted(order), sorted(made))
        self.daemon.kill()
        self.an_hour_passes()
        self.restart()
        reply = self.caller.call("PUT", f"/v1/channels/{CHANNEL}/receivers/away", {"from": "all"})
        self.assertEqual(reply.status, 200, reply)
        before, most, pulled = self.resident(), 0, []
        for number in itertools.count():
            reply = self.caller.call("GET", "/v1/agents/away/inbox?wait=2s")
            if reply.status != 200:
                break
            pulled.append(reply.json()["id"])
            self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{reply.header('Handoff-Id')}/ack").status, 200)
            if number % 50 == 0:
                most = max(most, self.channel()["away"][0])
        self.assertEqual(pulled, order)
        self.assertLess(most, 256 + 16)
        self.assertLess(self.resident(), before * 1.25 + 16 * 1024)
        self.check_store(audit=False)

    def publications(self):
        cursor, found = "", []
        while cursor is not None:
            page = self.caller.call("GET", f"/v1/channels/{CHANNEL}/publications?limit=100" + (f"&cursor={cursor}" if cursor else ""))
            self.assertEqual(page.status, 200, page)
            found += page.json()["items"]
            cursor = page.json()["next"]
        return found


if __name__ == "__main__":
    unittest.main()
