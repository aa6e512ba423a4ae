# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""All deliveries of a publication exist or none, at whatever instant the daemon is killed.

Each publisher has a task and publishes its parts in order, under keys, and repeats each until it is answered. Meanwhile the
daemon is killed with SIGKILL and started again, and `handoffctl store check` checks what each kill left. At the end each key
has one publication with one delivery for each receiver; each receiver got each publication at least once, always under the
id that the books have, and at least as often as they have attempts that it answered; and those that asked for order
(`ordered`) got the parts of a task in order.

HANDOFF_CHANNEL_RECEIVERS, HANDOFF_CHANNEL_PUBLICATIONS, HANDOFF_CHANNEL_KILLS   how much; 100, 1000 and 40 take some minutes
HANDOFF_SEED   of the instants; printed
"""

import collections
import concurrent.futures
import contextlib
import http.client
import os
import random
import subprocess
import threading
import time
import unittest

from harness import eventually
from harness.agents import Caller, daemon_with
from harness.receiver import Receiver, ack

HANDOFFCTL = os.environ["HANDOFFCTL"]
RECEIVERS = int(os.environ.get("HANDOFF_CHANNEL_RECEIVERS", "5"))
PUBLICATIONS = int(os.environ.get("HANDOFF_CHANNEL_PUBLICATIONS", "100"))
KILLS = int(os.environ.get("HANDOFF_CHANNEL_KILLS", "4"))
SEED = int(os.environ.get("HANDOFF_SEED") or random.SystemRandom().randrange(1 << 32))
TOGETHER = 4   # publishers
LIFE = 0.4     # seconds from ready to the kill, at most
PAUSE = 0.02   # before a request is repeated
STEPS = [{"agent": "planner", "action": f"planned section {number} of the whole"} for number in range(40)]


def publication_of(request):
    document = request.json()
    return document.get("projection_of", document)["id"]


class Kill(unittest.TestCase):
    def setUp(self):
        print(f"HANDOFF_SEED={SEED}", flush=True)
        self.random = random.Random(SEED)
        self.receiver = self.enterContext(Receiver(ack))
        self.names = [f"agent-{i}" for i in range(RECEIVERS - 1)]
        agents = {name: {"url": f"{self.receiver.url}/{name}"} for name in self.names}
        agents["agent-0"]["token_budget"] = 300  # it gets projections
        self.ordered = self.names[::2]
        for name in self.ordered:
            agents[name]["ordered"] = True
        agents["puller"] = {"ordered": True}
        self.daemon = self.enterContext(daemon_with(
            agents, channels={"news": {"receivers": [*self.names, "puller"]}},
            defaults={"retries": 100, "backoff": {"base": "5ms", "max": "50ms"}}))
        self.made = {}

    def call(self, *arguments, **headers):
        """None while the daemon is down."""
        with contextlib.suppress(OSError, ValueError, LookupError, AssertionError, http.client.HTTPException):
            reply = Caller(self.daemon).call(*arguments, **headers)
            return reply if reply.status in (200, 202) else None
        return None

    def publish(self, number):
        body = {"request": {"source_agent": "planner", "task_id": f"task-{number % TOGETHER}", "new_chain": True,
                            "task_summary": f"part {number}", "execution_history": STEPS}}
        while True:
            reply = self.call("POST", "/v1/channels/news/publish", body, idempotency_key=f"key-{number}")
            if reply:
                self.made[number] = reply.json()
                return
            time.sleep(PAUSE)

    def publish_task(self, task):
        for number in range(task, PUBLICATIONS, TOGETHER):
            self.publish(number)

    def kill_again_and_again(self, done):
        kills = 0
        while not done.is_set() and kills < KILLS:
            done.wait(self.random.random() * LIFE)
            self.daemon.kill()
            checked = subprocess.run([HANDOFFCTL, "store", "check", str(self.daemon.folder / "data")],
                                     capture_output=True, text=True, check=False)
            os.truncate(self.daemon.log_path, 0)  # what is read of it is the new process's
            self.daemon.start()
            self.daemon.expected_exit = 0
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            kills += 1
        return kills

    def pull_all(self):
        """The publications that the receiver that pulls got, each once."""
        pulled = []
        while len(pulled) < PUBLICATIONS:
            reply = Caller(self.daemon).call("GET", "/v1/agents/puller/inbox?wait=10s")
            self.assertEqual(reply.status, 200, reply)
            pulled.append(reply.json()["id"])
            handoff = reply.header("Handoff-Id")
            self.assertEqual(Caller(self.daemon).call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)
        return pulled

    def test_all_or_none(self):
        done = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(TOGETHER + 1) as pool:
            killer = pool.submit(self.kill_again_and_again, done)
            try:
                list(pool.map(self.publish_task, range(TOGETHER)))
            finally:
                done.set()
            print("kills:", killer.result(), flush=True)
        pulled = self.pull_all()
        caller = Caller(self.daemon)
        listed = caller.call("GET", "/v1/channels/news/publications?limit=1000").json()["items"]
        self.assertEqual({one["id"] for one in self.made.values()}, {one["id"] for one in listed})
        self.assertEqual(len(listed), PUBLICATIONS)
        self.assertEqual(sorted(pulled), sorted(one["id"] for one in listed))
        self.assert_in_order("puller", pulled)
        books = {}  # (receiver, publication): its delivery
        for one in listed:
            path = f"/v1/channels/news/publications/{one['id']}"

            def settled(path=path):
                found = caller.call("GET", path).json()["deliveries"]
                return found if {each["state"] for each in found} == {"acknowledged"} else None
            found = eventually(settled, f"all deliveries of {one['id']} are acknowledged")
            self.assertEqual([each["receiver"] for each in found], [*self.names, "puller"])
            books.update({(each["receiver"], one["id"]): each for each in found})
        self.compare_with_receivers(books)

    def compare_with_receivers(self, books):
        got = collections.defaultdict(list)  # (receiver, publication): the ids under which it came
        for request in self.receiver.requests:
            got[request.path.rsplit("/", 1)[1], publication_of(request)].append(request.id)
        self.assertEqual(set(got), {key for key in books if key[0] != "puller"})
        for key, ids in got.items():
            self.assertEqual(set(ids), {books[key]["handoff_id"]}, f"{key}: a duplicate has the same id")
            if len(ids) < books[key]["attempts"]:  # not each has to reach the receiver
                self.assertGreaterEqual(len(ids), self.answered(books[key]["handoff_id"]), key)
        self.assertEqual({request.path for request in self.receiver.requests if "projection_of" in request.json()},
                         {"/handoffs/agent-0"})
        for name in self.ordered:
            self.assert_in_order(name, [publication for receiver, publication in got if receiver == name])

    def answered(self, handoff):
        """The attempts that the agent answered, as the books have them."""
        listed = Caller(self.daemon).call("GET", f"/v1/handoffs/{handoff}/attempts").json()["items"]
        return sum(one["result"] in ("ack", "nack", "http") for one in listed)

    def assert_in_order(self, name, publications):
        """As each came for the first time."""
        numbers = {one["id"]: number for number, one in self.made.items()}
        came = [numbers[publication] for publication in publications]
        for task in range(TOGETHER):
            parts = [number for number in came if number % TOGETHER == task]
            self.assertEqual(parts, sorted(parts), f"{name} got the parts of task-{task} in order")


if __name__ == "__main__":
    unittest.main()
