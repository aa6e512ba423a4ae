# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""Every call of the API at random, by agents with tokens, and SIGKILL: what was answered is so afterwards.

Each worker is an agent of some tasks. It sends, waits, assembles and delivers, parks, replays, edits, cancels and
discards; it pulls from an inbox and acknowledges, hands on, declines or asks for more time; another agent is pushed
to, by a name whose first address refuses, and does the same. Workers put, pin, delete and search memories. A stranger
with a token reads, acknowledges, joins, overwrites and deletes what is not its own, and is refused every time.
Meanwhile the configuration is reloaded, also in the very moment of a kill.

A fact is what an answer said of a handoff or a memory and what no one may have changed since. After each start those
of the last life are checked, at the end all of them:

- a handoff that was answered exists, in the state that was told; an idempotency key still finds it;
- a sender that was told `acknowledged` sees no later attempt, and an answer names the successor that exists;
- an edit discarded the handoff that it replaced, and a declined one is parked;
- receivers hold the envelopes that the store has, byte for byte, and the ledger has every decision in them;
- a memory says what was put, a search finds it, and finds none that was deleted;
- `handoffctl store check` finds nothing.

HANDOFF_CALLS_KILLS   how often it is killed (12; fewer with a sanitizer)
HANDOFF_SEED          of calls and instants; printed. The kernel's scheduling is not in it.
"""

import asyncio
import collections
import contextlib
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

from harness.agents import daemon_with
from harness.async_http import Connection, serve

HANDOFFCTL = os.environ["HANDOFFCTL"]
SLOW = os.environ.get("HANDOFF_VARIANT") != "release"
KILLS = int(os.environ.get("HANDOFF_CALLS_KILLS", "4" if SLOW else "12"))
SEED = int(os.environ.get("HANDOFF_SEED") or random.SystemRandom().randrange(1 << 32))
MORE = 50       # kills at most, on a machine so busy that the lives are too short
TOGETHER = 12
LIFE = 0.6      # seconds from ready to the kill, at most
RELOADS = 0.3   # of all kills come while the configuration is reloaded
TASKS = 4       # of each worker
KEPT = 40       # handoffs of a worker that it calls about
LONG = 0.05     # share of requests that a worker thread assembles, and whose bodies are files

AGENTS = ("analyst", "coder", "tester")  # they pull
EVERYONE = (*AGENTS, "pushed", "stranger", "@operator")
TOKENS = {name: f"{name.strip('@')}-0123456789abcdef" for name in EVERYONE}
FINAL = ("acknowledged", "discarded")  # states that no call changes
# What any call may be answered while it is busy, ends or was late.
BUSY = (409, 422, 429, 503)


def decision(number):
    return f"decision {number}"


def word(number):
    """A word that no other memory has."""
    letters = []
    while number:
        number, letter = divmod(number, 26)
        letters.append("abcdefghijklmnopqrstuvwxyz"[letter])
    return "zq" + "".join(letters) + "x"


class Facts:
    """What must be so, by handoff or memory."""

    def __init__(self):
        self.states = {}    # handoff -> state; None: it exists
        self.memories = {}  # memory -> content; None: it is deleted
        self.keys = {}      # (source, key) -> request and handoff
        self.received = {}  # handoff -> text of its envelope
        self.acknowledged = {}  # handoff -> attempts, of which its sender was told
        self.successors = {}    # handoff -> request of the successor, where the answer confirmed it
        self.faults = []
        self.counts = collections.Counter()
        self.open = collections.defaultdict(list)  # handoff -> calls that may change it
        self.number = 0

    def count(self):
        self.number += 1
        return self.number

    def fault(self, *said):
        self.faults.append(" ".join(str(word) for word in said)[:900])

    def exists(self, handoff):
        self.states.setdefault(handoff, None)

    @contextlib.contextmanager
    def about(self, handoff):
        """A call that may change a handoff. What it says holds only if no other was on its way meanwhile."""
        call = {"alone": not self.open[handoff]}
        for other in self.open[handoff]:
            other["alone"] = False
        self.open[handoff].append(call)
        if self.states.get(handoff) not in FINAL:
            self.states[handoff] = None
        try:
            yield call
        finally:
            self.open[handoff].remove(call)

    def told(self, handoff, state, call):
        if state in FINAL or call["alone"] and state == "parked":
            self.states[handoff] = state


class Client:
    """Calls in the name of an agent."""

    def __init__(self, facts, port):
        self.facts, self.connection = facts, Connection(port)

    async def call(self, who, method, path, body=None, **headers):
        """(status, object, text); (0, None, "") if it was not answered."""
        try:
            status, text = await self.connection.call(method, path, body, authorization=f"Bearer {TOKENS[who]}",
                                                      **headers)
        except ConnectionError:
            self.facts.counts["cut"] += 1
            return 0, None, ""
        self.facts.counts[status] += 1
        if status >= 500 and status not in (502, 503, 504):
            self.facts.fault(who, method, path, "answered", status, text)
        return status, json.loads(text) if text else None, text

    def close(self):
        self.connection.close()


class Receiver:
    """The agent that is pushed to."""

    def __init__(self, facts, dice, port):
        self.facts, self.dice, self.port, self.tasks = facts, dice, port, set()

    async def answer(self, _, headers, body):
        facts, handoff = self.facts, headers["handoff-id"]
        receive(facts, handoff, body)
        if int(headers["handoff-attempt"]) > facts.acknowledged.get(handoff, 1 << 30):
            facts.fault(handoff, "arrived again after its sender was told that it is acknowledged")
        act = self.dice.choices(["ack", "next", "later", "refuse", "fail"], [5, 3, 2, 1, 1])[0]
        if act == "next":
            return 200, {"ack": handoff, "next": following(facts, self.dice)}
        if act == "later":
            task = asyncio.ensure_future(self.later(handoff))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            return 202, {}
        if act == "refuse":
            return 200, {"nack": handoff, "reason": "not mine", "retry": False}
        return (503, {}) if act == "fail" else (200, {"ack": handoff})

    async def later(self, handoff):
        await asyncio.sleep(self.dice.random() * 0.2)
        client = Client(self.facts, self.port)
        await acknowledge(client, "pushed", handoff, self.dice)
        client.close()


def receive(facts, handoff, text):
    known = facts.received.setdefault(handoff, text)
    facts.exists(handoff)
    if known != text:
        facts.fault(handoff, "arrived with two envelopes:", known, text)


def following(facts, dice):
    """A next request, which at times is one that cannot be."""
    number = facts.count()
    request = {"target_agent": dice.choice([*AGENTS, "pushed", "nobody"]), "task_summary": f"next {number}",
               "state": {"decisions": [decision(number)]}}
    if dice.random() < 0.1:
        request["bogus"] = 1
    return request


async def acknowledge(client, who, handoff, dice):
    facts = client.facts
    request = following(facts, dice) if dice.random() < 0.4 else None
    with facts.about(handoff) as call:
        before = facts.states[handoff]
        status, said, _ = await client.call(who, "POST", f"/v1/handoffs/{handoff}/ack",
                                            {"next": request} if request else None)
        if status == 200:
            facts.told(handoff, said["state"], call)
            if request and call["alone"] and before is None and not said.get("warnings"):
                facts.successors[handoff] = request["task_summary"]
        elif status not in (0, 400, 403, 404, *BUSY):  # 403: another agent has it by now
            facts.fault("an acknowledgement was answered", status, said)


class Worker(Client):
    """An agent, one call after the other."""

    def __init__(self, number, facts, dice, port):
        super().__init__(facts, port)
        self.number, self.dice = number, dice
        self.me = AGENTS[number % len(AGENTS)]
        self.handoffs, self.drafts = [], []
        self.acts = {self.send: 5, self.pull: 6, self.wait: 1, self.again: 1, self.cancel: 1, self.park: 2,
                     self.replay: 2, self.edit: 2, self.discard: 1, self.draft: 2, self.deliver: 2,
                     self.park_request: 1, self.put: 3, self.delete: 1, self.search: 2, self.intrude: 2,
                     self.overwrite: 1, self.usurp: 1, self.say_twice: 1, self.answer_late: 1}

    async def work(self, stop):
        while not stop.is_set():
            act = self.dice.choices(list(self.acts), list(self.acts.values()))[0]
            await act()
            await asyncio.sleep(0)

    # ---- sending

    def request(self):
        number = self.facts.count()
        request = {"target_agent": self.dice.choice([*AGENTS, "pushed", "pushed"]), "task_summary": f"sent {number}",
                   "task_id": f"task-{self.number}-{self.dice.randrange(TASKS)}", "new_chain": self.dice.random() < 0.5,
                   "state": {"decisions": [decision(number)]}}
        if self.dice.random() < LONG:
            request["state"]["notes"] = "words that fill a file " * 4000
        return request

    def accepted(self, handoff):
        self.facts.exists(handoff)
        self.handoffs = [*self.handoffs, handoff][-KEPT:]

    def expect(self, status, said, *good):
        if status not in (0, *good, *BUSY):
            self.facts.fault(self.me, "was answered", status, said)
        return status in good

    def mine(self):
        return self.dice.choice(self.handoffs) if self.handoffs else None

    async def send(self):
        request, key = self.request(), f"key-{self.facts.count()}"
        status, said, _ = await self.call(self.me, "POST", "/v1/handoffs", request, prefer="respond-async",
                                          idempotency_key=key)
        if self.expect(status, said, 202):
            self.accepted(said["id"])
            self.facts.keys[self.me, key] = (request, said["id"])

    async def again(self):
        """A repeat with a key that was answered."""
        keys = [key for key in self.facts.keys if key[0] == self.me]
        if keys:
            await self.repeat(self.dice.choice(keys))

    async def repeat(self, key):
        request, handoff = self.facts.keys[key]
        status, said, _ = await self.call(key[0], "POST", "/v1/handoffs", request, prefer="respond-async",
                                          idempotency_key=key[1])
        if status and (said.get("handoff") or said).get("id") != handoff and status != 503:
            self.facts.fault(key, "made", handoff, "and then was answered", status, said)

    async def wait(self):
        status, said, _ = await self.call(self.me, "POST", "/v1/handoffs", self.request(), prefer="wait=1")
        handoff = said if status in (200, 202) else (said or {}).get("handoff")
        if handoff:
            self.accepted(handoff["id"])
            with self.facts.about(handoff["id"]) as call:
                self.facts.told(handoff["id"], handoff["state"] if status == 200 else None, call)
            if status == 200:
                self.facts.acknowledged[handoff["id"]] = handoff["attempts"]
        else:
            self.expect(status, said)

    async def say_twice(self):
        """A field that occurs twice says two things."""
        for name in ("task_summary", "target_agent"):
            body = json.dumps(self.request()).replace("{", '{"%s": "coder", ' % name, 1)
            status, said, _ = await self.call(self.me, "POST", "/v1/handoffs", body.encode(), prefer="respond-async")
            if status not in (0, 400, 503):
                self.facts.fault("a field that occurs twice was answered", status, said)

    # ---- taking back and deciding

    async def change(self, who, method, path, body=None, good=(200,)):
        """(handoff, call's answer) of one of the worker's handoffs."""
        handoff = self.mine()
        if handoff is None:
            return None, None
        with self.facts.about(handoff) as call:
            status, said, _ = await self.call(who, method, path.format(handoff), body)
            if self.expect(status, said, *good, 502):
                if said.get("id") == handoff:
                    self.facts.told(handoff, said["state"], call)
                return handoff, said
        return handoff, None

    async def cancel(self):
        await self.change(self.me, "POST", "/v1/handoffs/{}/cancel")

    async def park(self):
        await self.change(self.me, "POST", "/v1/handoffs/{}/park", {"reason": "for later"})

    async def replay(self):
        body = {"target_agent": self.dice.choice(AGENTS)} if self.dice.random() < 0.5 else None
        await self.change("@operator", "POST", "/v1/parked/{}/replay", body)

    async def edit(self):
        old, said = await self.change("@operator", "POST", "/v1/parked/{}/replay",
                                      {"edit": {"task_summary": f"edited {self.facts.count()}"}})
        if said and said.get("id") not in (None, old):
            self.accepted(said["id"])
            self.facts.states[old] = "discarded"

    async def discard(self):
        await self.change("@operator", "DELETE", "/v1/parked/{}?reason=over")

    async def park_request(self):
        status, said, _ = await self.call(self.me, "POST", "/v1/parked", {"request": self.request(), "reason": "why"})
        if self.expect(status, said, 200):
            self.accepted(said["id"])

    # ---- assembling and delivering

    async def draft(self):
        status, said, text = await self.call(self.me, "POST", "/v1/envelopes", self.request())
        if self.expect(status, said, 200):
            self.drafts.append((said["id"], text))

    async def deliver(self):
        if self.drafts:
            envelope, text = self.drafts.pop()
            status, said, _ = await self.call(self.me, "POST", f"/v1/envelopes/{envelope}/deliver",
                                              prefer="respond-async")
            if self.expect(status, said, 202):
                self.accepted(said["id"])
                if said["id"] != envelope:
                    self.facts.fault(envelope, "was delivered as", said["id"])
                receive(self.facts, envelope, text)

    # ---- receiving

    async def pull(self):
        status, said, text = await self.call(self.me, "GET", f"/v1/agents/{self.me}/inbox?wait=0s")
        if not self.expect(status, said, 200, 204) or not said:
            return
        receive(self.facts, said["id"], text)
        act = self.dice.choices(["ack", "refuse", "extend", "again", "leave"], [7, 1, 1, 1, 1])[0]
        if act == "ack":
            await acknowledge(self, self.me, said["id"], self.dice)
        elif act != "leave":
            await self.answer(said["id"], act)

    async def answer(self, handoff, act):
        path, body = {"refuse": ("nack", {"reason": "no", "retry": False}), "again": ("nack", {"reason": "no"}),
                      "extend": ("extend", {"progress": "half of it"})}[act]
        with self.facts.about(handoff) as call:
            status, said, _ = await self.call(self.me, "POST", f"/v1/handoffs/{handoff}/{path}", body)
            if status != 403 and self.expect(status, said, 200):  # 403: another agent has it by now
                self.facts.told(handoff, said["state"], call)
                if act == "refuse" and call["alone"] and said["state"] != "parked":
                    self.facts.fault("declined for good, and told", said)

    async def answer_late(self):
        """For a handoff that another call may have parked or taken back."""
        held = [handoff for handoff in self.handoffs if handoff in self.facts.received]
        if held:
            handoff = self.dice.choice(held)
            with self.facts.about(handoff) as call:
                status, said, _ = await self.call("@operator", "POST", f"/v1/handoffs/{handoff}/ack")
                if self.expect(status, said, 200):
                    self.facts.told(handoff, said["state"], call)

    # ---- what is not theirs

    async def refuse(self, who, method, path, body=None, good=()):
        status, said, _ = await self.call(who, method, path, body)
        if status not in (0, 503, *good):
            self.facts.fault(who, "may not", method, path, "and was answered", status, said)

    async def intrude(self):
        """A stranger reads, answers, or joins the task."""
        handoff = self.mine()
        if handoff:
            for method, path in (("GET", "{}"), ("GET", "{}/envelope"), ("POST", "{}/ack"), ("POST", "{}/nack"),
                                 ("POST", "{}/cancel"), ("POST", "{}/park")):
                await self.refuse("stranger", method, "/v1/handoffs/" + path.format(handoff),
                                  {"reason": "mine"} if path.endswith("park") else None, good=(404,))
            status, said, _ = await self.call(self.me, "GET", f"/v1/handoffs/{handoff}")
            if status == 200:
                await self.refuse("stranger", "POST", "/v1/handoffs",
                                  {"target_agent": "coder", "task_id": said["task_id"], "task_summary": "mine"},
                                  good=(404,))
            await self.refuse("stranger", "POST", "/v1/envelopes",
                              {"target_agent": "coder", "previous_id": handoff, "task_summary": "mine"}, good=(404,))
            await self.refuse("stranger", "GET", f"/v1/envelopes/{handoff}/ledger", good=(404,))
            await self.refuse("stranger", "POST", f"/v1/envelopes/{handoff}/deliver", good=(404,))

    async def usurp(self):
        """A sender answers for the agent, or decides for the operator."""
        handoff = self.mine()
        if handoff:
            await self.refuse(self.me, "POST", f"/v1/parked/{handoff}/replay", good=(403,))
            await self.refuse(self.me, "DELETE", f"/v1/parked/{handoff}?reason=mine", good=(403,))

    # ---- memories

    def memory(self):
        return f"memory-{self.number}-{self.dice.randrange(5)}"

    async def put(self):
        memory, length = self.memory(), self.dice.choice([1, 50])
        content = f"{word(self.facts.count())} is {'worth its place ' * length}"
        self.facts.memories.pop(memory, None)
        status, said, _ = await self.call(self.me, "PUT", f"/v1/memories/{memory}", {"content": content})
        if self.expect(status, said, 200, 201):
            self.facts.memories[memory] = content

    async def delete(self):
        memory = self.memory()
        self.facts.memories.pop(memory, None)
        status, said, _ = await self.call(self.me, "DELETE", f"/v1/memories/{memory}")
        if self.expect(status, said, 204, 404):
            self.facts.memories[memory] = None

    async def overwrite(self):
        memory = self.memory()
        if self.facts.memories.get(memory):
            for method, rest, body in (("PUT", "", {"content": "mine"}), ("PUT", "/pin", None), ("DELETE", "", None)):
                await self.refuse("stranger", method, f"/v1/memories/{memory}{rest}", body, good=(403,))

    async def search(self):
        await self.check_search(self.memory())

    async def check_search(self, memory):
        content = self.facts.memories.get(memory)
        if content:
            status, said, _ = await self.call(self.me, "GET", f"/v1/memories?query={content.split()[0]}")
            if status == 200 and memory not in [item["id"] for item in said["items"]]:
                self.facts.fault(memory, "is not found by", content[:20], [item["id"] for item in said["items"]])
            self.expect(status, said, 200)

    # ---- after a start

    async def check(self, handoffs, memories, keys):
        self.close()  # it was to the process that was killed
        for handoff in handoffs:
            await self.check_handoff(handoff)
        for memory in memories:
            await self.check_memory(memory)
        for key in keys:
            await self.repeat(key)

    async def check_handoff(self, handoff):
        facts, wanted = self.facts, self.facts.states.get(handoff)
        status, said, _ = await self.call("@operator", "GET", f"/v1/handoffs/{handoff}")
        if status != 200:
            facts.fault(handoff, "was answered, and is gone:", said)
        elif wanted and said["state"] != wanted:
            facts.fault(handoff, "was told to be", wanted, "and is", said)
        elif handoff in facts.received:
            await self.check_envelope(handoff, facts.received[handoff])
        if status == 200 and handoff in facts.successors:
            await self.check_successor(handoff, said["task_id"])

    async def check_envelope(self, handoff, received):
        _, _, text = await self.call("@operator", "GET", f"/v1/handoffs/{handoff}/envelope")
        if text != received:
            self.facts.fault(handoff, "arrived as", received, "and is stored as", text)
        _, ledger, _ = await self.call("@operator", "GET", f"/v1/envelopes/{handoff}/ledger?kind=decision&limit=1000")
        known = [json.dumps(item["value"]) for item in ledger["items"]]
        envelope = json.loads(received)
        held = [json.dumps(one) for one in envelope["context"]["task"].get("state", {}).get("decisions", [])]
        left_out = envelope.get("omitted", {}).get("decisions", 0)
        if not set(held) <= set(known) or len(held) + left_out != len(known):
            if not await self.is_replaced(envelope):
                self.facts.fault(handoff, "arrived with", held, "and its ledger has", known)

    async def is_replaced(self, envelope):
        """Whether an edit replaced it, or what it continues: then what its request supplied no longer counts."""
        _, said, _ = await self.call("@operator", "GET", f"/v1/handoffs/{envelope['id']}")
        if said.get("reason", "").startswith("replaced by "):
            return True
        for parent in envelope.get("parents", []):
            _, above, _ = await self.call("@operator", "GET", f"/v1/handoffs/{parent['id']}/envelope")
            if await self.is_replaced(above):
                return True
        return False

    async def check_successor(self, handoff, task):
        items, cursor = [], ""
        while cursor is not None:
            _, page, _ = await self.call("@operator", "GET", f"/v1/tasks/{task}?limit=1000{cursor}")
            items += page["items"]
            cursor = page["next"] and f"&cursor={page['next']}"
        for item in items:
            _, envelope, _ = await self.call("@operator", "GET", f"/v1/handoffs/{item['id']}/envelope")
            if envelope["context"]["task"]["summary"] == self.facts.successors[handoff]:
                if [parent["id"] for parent in envelope.get("parents", [])] != [handoff]:
                    self.facts.fault(handoff, "was handed on with other parents:", envelope)
                return
        self.facts.fault(handoff, "was answered as handed on, and no one has it")

    async def check_memory(self, memory):
        wanted = self.facts.memories[memory]
        status, said, _ = await self.call("@operator", "GET", f"/v1/memories/{memory}")
        if status != (200 if wanted else 404) or wanted and said["content"] != wanted:
            self.facts.fault(memory, "was told to be", wanted, "and is", status, said)
        await self.check_search(memory)


class CallsKill(unittest.TestCase):
    def test_what_was_answered_is_so_afterwards(self):
        print(f"HANDOFF_SEED={SEED} HANDOFF_CALLS_KILLS={KILLS}", flush=True)
        asyncio.run(self.run_all())

    async def run_all(self):
        self.dice, self.facts, self.port = random.Random(SEED), Facts(), None
        receiver = Receiver(self.facts, self.dice, lambda: self.port)
        server, port = await serve(receiver.answer)
        tokens = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "tokens")
        tokens.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()), encoding="ascii")
        tokens.chmod(0o600)
        agents = {name: {"token_budget": 100_000, "ack_timeout": "1h"} for name in AGENTS}
        agents["pushed"] = {"url": f"http://localhost:{port}/", "token_budget": 100_000, "ack_timeout": "1h"}
        limits = {"max_in_flight": 100000, "max_in_flight_per_agent": 100000, "tokens_file": str(tokens)}
        with daemon_with(agents, api=limits, hops={"max": 8}) as self.daemon:
            self.port = self.daemon.api.port
            workers = [Worker(number, self.facts, random.Random(f"{SEED} {number}"), lambda: self.port)
                       for number in range(TOGETHER)]
            try:
                kills = 0
                while kills < KILLS or (self.lacking() and kills < KILLS + MORE):
                    await self.live_and_die(workers)
                    kills += 1
                await asyncio.gather(*receiver.tasks)
                self.checked = set()
                await self.check(workers, len(self.facts.states))
            finally:
                for worker in workers:
                    worker.close()
                server.close()
        self.assertEqual(self.lacking(), [], f"not seen in {kills} lives: {dict(self.facts.counts)}")

    def lacking(self):
        """What was not tested so far: a busy machine makes few calls in a life, and needs more lives."""
        seen = set(self.facts.states.values())
        if self.facts.successors:
            seen.add("handed on")
        return [what for what in ("acknowledged", "discarded", "parked", "handed on") if what not in seen]

    async def live_and_die(self, workers):
        stop, self.checked = asyncio.Event(), set(self.facts.states)
        tasks = [asyncio.ensure_future(worker.work(stop)) for worker in workers]
        await asyncio.sleep(self.dice.random() * LIFE)
        if self.dice.random() < RELOADS:
            reload = asyncio.ensure_future(self.reload())
            await asyncio.sleep(self.dice.random() * 0.01)
            tasks.append(reload)
        self.port = None
        self.daemon.kill()
        stop.set()
        await asyncio.gather(*tasks)
        self.check_store()
        self.daemon.log_path.unlink()
        self.daemon.launch()
        while not self.daemon.events("ready"):
            self.assertTrue(self.daemon.is_running(), self.daemon.log())
            await asyncio.sleep(0.005)
        self.daemon.expected_exit = 0
        self.port = self.daemon.api.port
        await self.check(workers, 20)

    async def reload(self):
        client = Connection(lambda port=self.daemon.web.port: port)
        with contextlib.suppress(ConnectionError):
            await client.call("POST", "/-/reload")
        client.close()

    async def check(self, workers, sample):
        """What came in this life, and some of what was there before."""
        facts, old = self.facts, sorted(self.checked)
        handoffs = [*(set(facts.states) - self.checked), *self.dice.sample(old, min(sample, len(old)))]
        memories = list(facts.memories)
        keys = self.dice.sample(sorted(facts.keys), min(sample, len(facts.keys)))
        share = len(workers)
        await asyncio.gather(*[worker.check(handoffs[number::share], memories[number::share], keys[number::share])
                               for number, worker in enumerate(workers)])
        self.assertEqual(facts.faults[:5], [], f"{len(facts.faults)} faults; {dict(facts.counts)}")

    def check_store(self):
        done = subprocess.run([HANDOFFCTL, "store", "check", str(self.daemon.folder / "data")],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
