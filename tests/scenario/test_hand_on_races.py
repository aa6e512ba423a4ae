# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""Everything at once while a task is handed on: what the API said is what the store has.

Each handoff is sent to an agent that pulls, that is pushed to, or that acknowledges later. As soon as it exists, its
agent acknowledges it with a next request, perhaps twice, and meanwhile, in any order, it is extended, declined,
cancelled, parked, or acknowledged without a next request; leases run out, the configuration is reloaded, and the daemon
is killed or drained and started again. Then these rules are checked:

- a handoff has at most one successor, and only if it is acknowledged;
- what was confirmed is so: an acknowledgement, a cancel, and the successor, unless the handoff may have been parked or
  acknowledged without one before;
- each has at most as many recorded attempts as it had;
- `handoffctl store check` finds nothing, also after each kill.
"""

import asyncio
import json
import os
import random
import subprocess
import unittest

from harness.agents import daemon_with
from harness.async_http import Connection, serve

HANDOFFCTL = os.environ["HANDOFFCTL"]
SLOW = os.environ.get("HANDOFF_VARIANT") != "release"
ENDS = int(os.environ.get("HANDOFF_RACE_ENDS", "4" if SLOW else "6"))
SEED = int(os.environ.get("HANDOFF_SEED") or random.SystemRandom().randrange(1 << 32))
TOGETHER = 12
LIFE = 0.5        # seconds from ready to the end, at most
WITHIN = 0.02     # seconds within which the calls about one handoff begin
NEXT = {"target_agent": "tester", "task_summary": "test it"}
WORDS = {"next": ("ack", {"next": NEXT}), "ack": ("ack", {}), "nack": ("nack", {"reason": "no", "retry": True}),
         "refuse": ("nack", {"reason": "no", "retry": False}), "extend": ("extend", {"progress": "half of it"}),
         "cancel": ("cancel", {"reason": "over"}), "park": ("park", {"reason": "later"})}
OTHERS = [word for word in WORDS if word != "next"]


class Handoff:
    def __init__(self, task, target):
        self.task, self.target, self.id = task, target, None
        self.tried = set()      # words that were sent, answered or not
        self.confirmed = set()  # words that were answered with 200


class Races(unittest.TestCase):
    def test_what_was_said_is_what_is_stored(self):
        print(f"HANDOFF_SEED={SEED}", flush=True)
        asyncio.run(self.run_all())

    async def answer(self, path, headers, body):
        handoff = self.by_task[headers["handoff-task-id"]]
        if path == "/later" or handoff.id is None:
            return 202, {}
        handoff.tried.add("next")
        return 200, {"ack": headers["handoff-id"], "next": NEXT}

    async def run_all(self):
        self.dice, self.by_task, self.port = random.Random(SEED), {}, None
        server, port = await serve(self.answer)
        agents = {"puller": {"ack_timeout": "1s"}, "tester": {}}
        for name in ("pushed", "later"):
            agents[name] = {"url": f"http://127.0.0.1:{port}/{name}", "ack_timeout": "1s"}
        limits = {"max_in_flight": 100000, "max_in_flight_per_agent": 100000}
        with daemon_with(agents, "--shutdown.timeout=5s", api=limits) as self.daemon:
            self.port, self.stop = self.daemon.api.port, asyncio.Event()
            workers = [asyncio.ensure_future(self.work(number)) for number in range(TOGETHER)]
            try:
                ends = 0
                while ends < ENDS or not self.has_seen_enough():
                    ends += 1
                    await asyncio.sleep(self.dice.random() * LIFE)
                    self.daemon.reload()
                    await asyncio.sleep(self.dice.random() * LIFE)
                    await self.end_and_start()
                self.stop.set()
                await asyncio.gather(*workers)
                await self.compare()
            finally:
                self.stop.set()
                await asyncio.gather(*workers, return_exceptions=True)
                server.close()

    def has_seen_enough(self):
        """However slow the machine is."""
        confirmed = [handoff.confirmed for handoff in self.by_task.values()]
        return all(sum(word in words for words in confirmed) > 10 for word in ("next", "cancel"))

    # ---- the clients

    async def call(self, method, path, body=None, **headers):
        """(status, object); (0, None) if it was not answered."""
        connection = Connection(lambda: self.port)
        try:
            status, text = await connection.call(method, path, body, **headers)
            return status, json.loads(text) if text else None
        except ConnectionError:
            return 0, None
        finally:
            connection.close()

    async def work(self, number):
        count = 0
        while not self.stop.is_set():
            count += 1
            await self.hand_on(f"race-{number}-{count}")
            await asyncio.sleep(0.005)

    async def hand_on(self, task):
        handoff = Handoff(task, self.dice.choice(["puller", "pushed", "later"]))
        self.by_task[task] = handoff
        request = {"source_agent": "analyst", "target_agent": handoff.target, "task_id": task, "task_summary": "go on"}
        status, answer = await self.call("POST", "/v1/handoffs", request, prefer="respond-async", idempotency_key=task)
        if status != 202:
            return
        handoff.id = answer["id"]
        words = ["next"] * self.dice.randint(1, 2) + self.dice.sample(OTHERS, self.dice.randint(0, 3))
        calls = [self.say(handoff, word) for word in words]
        if handoff.target == "puller":
            calls.append(self.call("GET", "/v1/agents/puller/inbox?wait=0s"))
        await asyncio.gather(*calls)

    async def say(self, handoff, word):
        await asyncio.sleep(self.dice.random() * WITHIN)
        path, body = WORDS[word]
        handoff.tried.add(word)
        status, answer = await self.call("POST", f"/v1/handoffs/{handoff.id}/{path}", body)
        if status == 200:
            handoff.confirmed.add(word)
        else:
            self.assertIn(status, (0, 409, 503), (word, answer))

    # ---- the ends

    async def end_and_start(self):
        drains = self.dice.random() < 0.4
        if drains:
            self.daemon.terminate()
            while self.daemon.is_running():
                await asyncio.sleep(0.005)
            self.port = None
        else:
            self.port = None
            self.daemon.kill()
        self.check_store()
        self.daemon.log_path.unlink()
        self.daemon.launch()
        while not self.daemon.events("ready"):
            self.assertTrue(self.daemon.is_running(), self.daemon.log())
            await asyncio.sleep(0.005)
        self.daemon.expected_exit = 0
        self.port = self.daemon.api.port

    def check_store(self):
        done = subprocess.run([HANDOFFCTL, "store", "check", str(self.daemon.folder / "data")],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    # ---- the books

    async def compare(self):
        seen = {"acknowledged": 0, "discarded": 0, "successors": 0}
        for handoff in self.by_task.values():
            if handoff.id:
                await self.compare_one(handoff, seen)
        print(f"{len(self.by_task)} handoffs: {seen}", flush=True)
        self.assertTrue(all(count > 10 for count in seen.values()), seen)

    async def compare_one(self, handoff, seen):
        status, task = await self.call("GET", f"/v1/tasks/{handoff.task}")
        self.assertEqual(status, 200, task)
        first, *successors = task["items"]
        told = f"{handoff.target}, {sorted(handoff.tried)}, confirmed {sorted(handoff.confirmed)}: {task}"
        self.assertEqual(first["id"], handoff.id, told)
        self.assertLessEqual(len(successors), 1, told)
        if successors:
            self.assertEqual(first["state"], "acknowledged", told)
        if handoff.confirmed & {"next", "ack"}:
            self.assertEqual(first["state"], "acknowledged", told)
        if "next" in handoff.confirmed and not handoff.tried & {"ack", "refuse", "park"}:
            self.assertEqual(len(successors), 1, told)
        if "cancel" in handoff.confirmed:
            self.assertEqual(first["state"], "discarded", told)
        status, attempts = await self.call("GET", f"/v1/handoffs/{handoff.id}/attempts")
        self.assertEqual(status, 200, attempts)
        self.assertLessEqual(len(attempts["items"]), max(first["attempts"], 0), told)
        self.assertNotIn("next_refused", {key for key, value in task.items() if value}, told)
        seen["acknowledged"] += first["state"] == "acknowledged"
        seen["discarded"] += first["state"] == "discarded"
        seen["successors"] += len(successors)


if __name__ == "__main__":
    unittest.main()
