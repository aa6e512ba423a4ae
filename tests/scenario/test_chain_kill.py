# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""Ledger, envelopes and handoffs agree, at whatever instant the daemon is killed.

Each task branches, is handed on in acknowledgements (one over the API, one in the answer to a delivery), joins both
branches by its task alone, and delivers an assembled envelope. Each request is repeated until it is answered.
Meanwhile the daemon is killed with SIGKILL, or now and then stopped with SIGTERM, and started again, and `handoffctl
store check` checks what each kill left. At the end `handoffctl audit` checks some tasks, the model checks every envelope (harness/chain_model.py), and these rules are checked:

- a handoff whose sender was answered exists, once;
- a handoff is acknowledged if and only if the successor that its acknowledgement named exists;
- a delivery carried the envelope that was assembled.

HANDOFF_CHAIN_KILLS   how often it is killed (25; fewer with a sanitizer)
HANDOFF_SEED          of the instants; printed. The kernel's scheduling is not in it.
"""

import asyncio
import collections
import json
import os
import random
import subprocess
import unittest

from harness.agents import daemon_with
from harness.async_http import Connection, serve
from harness.chain import pullers
from harness.chain_model import Fault, Task, require, check_envelope, check_ledger

HANDOFFCTL = os.environ["HANDOFFCTL"]
SLOW = os.environ.get("HANDOFF_VARIANT") != "release"
KILLS = int(os.environ.get("HANDOFF_CHAIN_KILLS", "8" if SLOW else "25"))
SEED = int(os.environ.get("HANDOFF_SEED") or random.SystemRandom().randrange(1 << 32))
TOGETHER = 16
LIFE = 0.3        # seconds from ready to the kill, at most
DRAINS = 0.2      # of all ends
AUDITED = 20      # tasks, at most
PAUSE = 0.01      # before a request is repeated
PATIENCE = 1500   # repetitions of one request, at most


class Books:
    """What the clients know, by the summaries of the requests, which are unique."""

    def __init__(self):
        self.requests = {}                           # summary -> request
        self.next = {}                               # id -> summary of what it is handed on as
        self.expected = {}                           # summary -> ids of its parents
        self.answered = {}                           # summary -> id
        self.drafts = collections.defaultdict(list)  # task -> ids of assembled envelopes
        self.bodies = {}                             # id -> the assembled envelope
        self.delivered = set()                       # ids, where the delivery was answered
        self.arrived = collections.defaultdict(set)  # id -> bodies that the receiver got
        self.finished = 0

    def request(self, task, source, target, word, parents=(), **fields):
        summary = f"{task} {word}"
        request = {"source_agent": source, "target_agent": target, "task_id": task, "task_summary": summary,
                   "include_pins": False, "state": {"decisions": [f"{summary} decided"]},
                   "execution_history": [{"agent": source, "action": f"{summary} done"}],
                   "constraints": {"must_not": [f"{word} never"]}, **fields}
        self.requests[summary] = request
        self.expected[summary] = list(parents)
        return request


class Worker:
    """One task after the other."""

    def __init__(self, number, books, port, stop):
        self.number, self.books, self.stop = number, books, stop
        self.connection = Connection(port)

    async def until(self, method, path, body=None, good=(200, 202), wait=(503,), **headers):
        """Repeats a request until it is accepted."""
        for _ in range(PATIENCE):
            if self.stop.is_set():
                raise asyncio.CancelledError
            try:
                status, text = await self.connection.call(method, path, body, **headers)
                if status in good:
                    return json.loads(text)
                require(status in wait, f"{method} {path} was answered {status}", text, "to", body)
            except ConnectionError:
                pass
            await asyncio.sleep(PAUSE)
        raise Fault(f"{method} {path} was not accepted")

    async def send(self, request):
        """The id of a handoff, however often it took."""
        answer = await self.until("POST", "/v1/handoffs", request, prefer="respond-async",
                                  idempotency_key=request["task_summary"])
        self.books.answered[request["task_summary"]] = answer["id"]
        return answer["id"]

    async def successor(self, task, word):
        """The id of a successor, once it exists."""
        for _ in range(PATIENCE):
            page = await self.until("GET", f"/v1/tasks/{task}?limit=100")
            for handoff in page["items"]:
                envelope = await self.until("GET", f"/v1/handoffs/{handoff['id']}/envelope")
                if envelope["context"]["task"]["summary"] == f"{task} {word}":
                    return handoff["id"]
            if self.stop.is_set():
                raise asyncio.CancelledError
            await asyncio.sleep(PAUSE)
        raise Fault(f"{task} has no successor {word}")

    async def draft(self, request):
        """An assembled envelope. An answer that is cut off leaves one that no client knows."""
        envelope = await self.until("POST", "/v1/envelopes", request)
        self.books.drafts[request["task_id"]].append(envelope["id"])
        self.books.bodies[envelope["id"]] = envelope
        return envelope["id"]

    async def run_task(self, task):
        ask, books = self.books.request, self.books
        left = await self.send(ask(task, "researcher", "deferring", "left"))
        ask(task, "pushed", "joiner", "right-next")  # before the receiver is asked
        right = await self.send(ask(task, "researcher", "pushed", "right"))
        books.expected[f"{task} right-next"] = [right]
        following = ask(task, "deferring", "joiner", "left-next", [left])
        books.next[left] = following["task_summary"]
        # 409: not delivered yet
        await self.until("POST", f"/v1/handoffs/{left}/ack", {"next": following}, wait=(503, 409))
        ends = [await self.successor(task, "left-next"), await self.successor(task, "right-next")]
        joined = await self.send(ask(task, "joiner", "writer", "joined", ends))
        draft = await self.draft(ask(task, "writer", "acknowledging", "draft", [joined]))
        await self.until("POST", f"/v1/envelopes/{draft}/deliver", prefer="respond-async")
        books.delivered.add(draft)
        books.finished += 1

    async def run(self):
        number = 0
        try:
            while not self.stop.is_set():
                number += 1
                await self.run_task(f"kill-{self.number}-{number}")
        except asyncio.CancelledError:
            pass
        self.connection.close()


class Kills(unittest.TestCase):
    def test_ledger_envelopes_and_handoffs_agree(self):
        print(f"HANDOFF_SEED={SEED}", flush=True)
        asyncio.run(self.run_all())

    # ---- the receivers

    async def answer(self, path, headers, body):
        handoff, envelope = headers["handoff-id"], json.loads(body)
        self.books.arrived[handoff].add(body)
        if path == "/deferring":
            return 202, {}
        if path == "/pushed":
            request = self.books.requests[f"{envelope['task_id']} right-next"]
            self.books.next[handoff] = request["task_summary"]
            return 200, {"ack": handoff, "next": request}
        return 200, {"ack": handoff}

    # ---- the kills

    async def run_all(self):
        self.books, self.dice, self.port = Books(), random.Random(SEED), None
        server, port = await serve(self.answer)
        pushed = {name: {"url": f"http://127.0.0.1:{port}/{name}", "token_budget": 16000, "retries": 20,
                         "timeout": "5s", "ack_timeout": "1h"} for name in ("deferring", "pushed", "acknowledging")}
        limits = {"max_in_flight": 100000, "max_in_flight_per_agent": 100000}
        with daemon_with({**pushed, **pullers("joiner", "writer")}, api=limits) as self.daemon:
            self.port = self.daemon.api.port
            stop = asyncio.Event()
            workers = [asyncio.ensure_future(Worker(number, self.books, lambda: self.port, stop).run())
                       for number in range(TOGETHER)]
            try:
                for _ in range(KILLS):
                    await asyncio.sleep(self.dice.random() * LIFE)
                    self.fail_early(workers)
                    await self.end_and_start()
                await self.wait_for_settled(workers)
                stop.set()
                await asyncio.gather(*workers)
                await self.compare()
            finally:
                stop.set()
                await asyncio.gather(*workers, return_exceptions=True)
                server.close()

    def fail_early(self, workers):
        for worker in workers:
            if worker.done():
                worker.result()

    async def end_and_start(self):
        if self.dice.random() < DRAINS:
            await self.drain()
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

    async def drain(self):
        """While the receivers, which run here, go on answering."""
        self.daemon.terminate()
        while self.daemon.is_running():
            await asyncio.sleep(0.005)
        self.port = None

    def check_store(self):
        self.run_ctl("store", "check", str(self.daemon.folder / "data"))

    def run_ctl(self, *arguments):
        done = subprocess.run([HANDOFFCTL, *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    async def wait_for_settled(self, workers):
        """Until as many tasks are finished after the last kill as there are workers."""
        wanted = self.books.finished + TOGETHER
        while self.books.finished < wanted:
            self.fail_early(workers)
            await asyncio.sleep(0.01)

    # ---- the books

    async def get(self, path):
        status, text = await self.connection.call("GET", path)
        require(status == 200, f"GET {path} answered {status}", text)
        return json.loads(text)

    async def compare(self):
        self.connection = Connection(lambda: self.port)
        tasks = sorted({request["task_id"] for request in self.books.requests.values()})
        envelopes = 0
        for task in tasks:
            try:
                envelopes += await self.compare_task(task)
            except Fault as fault:
                raise Fault(f"{task}: {fault}") from None
        self.connection.close()
        print(f"{KILLS} kills, {len(tasks)} tasks, {self.books.finished} finished, {envelopes} envelopes", flush=True)
        await self.drain()
        self.check_store()
        for task in self.dice.sample(tasks, min(AUDITED, len(tasks))):
            self.run_ctl("audit", str(self.daemon.folder / "data"), task)

    async def compare_task(self, name):
        books = self.books
        handoffs = (await self.get(f"/v1/tasks/{name}?limit=1000"))["items"]
        ids = [handoff["id"] for handoff in handoffs]
        ids += [draft for draft in books.drafts[name] if draft not in ids]
        envelopes = {}
        for handoff in ids:
            envelopes[handoff] = await self.get(f"/v1/handoffs/{handoff}/envelope")
        for handoff, envelope in envelopes.items():
            require(books.bodies.get(handoff, envelope) == envelope, f"{handoff} differs from what was assembled")
            for body in books.arrived[handoff]:
                require(json.loads(body) == envelope, f"{handoff} arrived with another envelope")
        await self.check_chain(name, envelopes)
        self.check_answers(name, handoffs, envelopes)
        return len(envelopes)

    async def check_chain(self, name, envelopes):
        """Every envelope's parents as planned, and its contents as the model has them."""
        task, hops = Task(name), {}
        for handoff, envelope in sorted(envelopes.items(), key=lambda entry: entry[1]["hop"]["count"]):
            summary = envelope["context"]["task"]["summary"]
            parents = [parent["id"] for parent in envelope.get("parents", [])]
            require(sorted(parents) == sorted(self.books.expected[summary]), f"parents of {summary}:", parents)
            require(all(parent in hops for parent in parents), f"{summary} exists and its parents do not")
            hops[handoff] = task.add(self.books.requests[summary], [hops[parent] for parent in parents])
            hops[handoff].id = handoff
        for handoff, hop in hops.items():
            ledger = task.ledger(hop)
            # only the store knows the order of siblings
            check_envelope(in_order(envelopes[handoff], ledger), ledger)
            check_ledger((await self.get(f"/v1/envelopes/{handoff}/ledger?limit=1000"))["items"], ledger)

    def check_answers(self, name, handoffs, envelopes):
        books = self.books
        counted = collections.Counter(envelopes[handoff["id"]]["context"]["task"]["summary"] for handoff in handoffs)
        for summary, count in counted.items():
            require(count == 1, f"{summary} exists {count} times")
        for summary, handoff in books.answered.items():
            if books.requests[summary]["task_id"] == name:
                require(handoff in envelopes, f"{summary} was answered with {handoff}, which does not exist")
        for handoff in handoffs:
            following = books.next.get(handoff["id"])
            if following:
                require((handoff["state"] == "acknowledged") == (counted[following] == 1),
                      f"{handoff['id']} is {handoff['state']} and has {counted[following]} successors")
        ids = [handoff["id"] for handoff in handoffs]
        for draft in books.drafts[name]:
            require(draft in ids or draft not in books.delivered, f"the delivery of {draft} was answered and is gone")


def in_order(envelope, ledger):
    """The envelope with its lists in the model's order: clients do not know which of two siblings was first."""
    envelope = json.loads(json.dumps(envelope))
    state = envelope["context"]["task"]["state"]
    wanted = ledger.list("decisions")
    state["decisions"].sort(key=lambda entry: wanted.index(entry) if entry in wanted else -1)
    order = [step["action"] for step in ledger.steps()]
    envelope["context"]["history"].sort(key=lambda step: order.index(step["action"]) if step["action"] in order else -1)
    place = {hop.id: hop.place for hop in ledger.hops}
    envelope["parents"] = sorted(envelope.get("parents", []), key=lambda parent: -place[parent["id"]])
    if envelope["parents"]:
        envelope["previous"] = envelope["parents"][0]
    return envelope


if __name__ == "__main__":
    unittest.main()
