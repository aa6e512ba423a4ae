# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""Random chains against a model written independently: nothing that a hop supplied is silently gone.

Tasks of 2 to 12 hops branch, join, go back and forth and continue by previous_id or by task, at budgets from 800 to
16,000 tokens. Some envelopes are only assembled, or delivered later. Operators replace requests by edits, also those
that were continued, and edits by edits. Each envelope is checked when it is assembled (harness/chain_model.py): every
item of every ancestor is present, or counted in `omitted` and listed under the path that the envelope names; nothing of
siblings is present; constraints only tighten; completeness and `omitted` are recounted, and so are the tokens, by the
reference encoder. At the end `handoffctl store check` folds all ledgers again.

HANDOFF_SEED          repeats a run; the seed of a failure is printed
HANDOFF_CHAINS        how many (1000; fewer with a sanitizer)
"""

import asyncio
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess
import threading
import unittest

from harness.agents import daemon_with
from harness.async_http import Connection
from harness.chain_model import Fault, Task, check_envelope, check_ledger, require, takes_out, usable_id
from harness.chain_model import key as entry_key

SLOW = os.environ.get("HANDOFF_VARIANT") != "release"
CHAINS = int(os.environ.get("HANDOFF_CHAINS", "60" if SLOW else "1000"))
SEED = int(os.environ.get("HANDOFF_SEED") or random.SystemRandom().randrange(1 << 32))
ORACLE = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "tests/oracle"
TOGETHER = 16      # tasks in progress at once
BUDGETS = [800, 1000, 1500, 2500, 4000, 8000, 16000]
AGENTS = ["researcher", "analyst", "coder", "tester", "reviewer", "writer"]
MEMORIES = 60      # mem-0 ... exist; higher numbers do not
PINS = ["pin-1", "pin-2"]
SPACES = [" ", "\n", "\t ", "\u00a0", "\u3000", "\u2003\u2028"]
WORDS = ("gateway retry queue ledger payment refund cursor deadline schema index lock latency owner alert budget "
         "branch receipt header token vendor webhook invoice customer failover „quoted“ naïve ünïcödé 支払い").split()


def exists(name):
    head, _, number = name.partition("-")
    return name in PINS or (head == "mem" and number.isdigit() and int(number) < MEMORIES)


# ---- the reference encoder ---------------------------------------------------------------------

class Oracle:
    """tiktoken in a separate process, which counts while the chains continue."""

    def __init__(self):
        self.process = subprocess.Popen(["node", str(ORACLE / "oracle.mjs"), "tiktoken"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.asked, self.counts = [], []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while head := self.process.stdout.read(4):
            count = struct.unpack("<I", head)[0]
            self.process.stdout.read(4 * count)
            self.counts.append(count)

    def ask(self, text, said, what):
        self.asked.append((said, what))
        data = text.encode()
        self.process.stdin.write(struct.pack("<II", 0, len(data)) + data)

    def faults(self):
        """[(what, said, counted)] where they differ."""
        self.process.stdin.close()
        self.reader.join()
        self.process.stdout.close()
        self.process.wait()
        if len(self.counts) != len(self.asked):
            raise AssertionError(f"the oracle counted {len(self.counts)} of {len(self.asked)} texts")
        return [(what, said, count) for (said, what), count in zip(self.asked, self.counts) if said != count]


# ---- one random task -----------------------------------------------------------------------------

class Walk:
    """Requests of random agents for one task; the model checks each envelope."""

    def __init__(self, number, api, oracle):
        self.dice = random.Random(f"{SEED}-{number}")
        self.api, self.oracle = api, oracle
        self.task = Task(f"task-{number}", exists)
        self.number = 0
        # some tasks supply little and some much, so that budgets bind early, late or never
        self.wordy = self.dice.choice([5, 12, 30, 60])
        self.omitted = 0

    async def get(self, path):
        status, text = await self.api.call("GET", path)
        require(status == 200, f"GET {path} answered {status}", text)
        return text

    # ---- what agents supply

    def words(self, most):
        return " ".join(self.dice.choice(WORDS) for _ in range(self.dice.randint(1, most)))

    def say(self, most=None):
        """A unique text."""
        self.number += 1
        return f"{self.task.name}/{self.number} {self.words(most or self.wordy)}"

    def some(self, most, make):
        return [make() for _ in range(self.dice.randint(0, most))]

    def entry(self):
        chance = self.dice.random()
        if chance < 0.05:  # ids that are not unique, numbers, or none
            return {"id": self.dice.choice([1, 2, "1", "one", " one ", "", " ", None, True]), "text": self.say(3)}
        if chance < 0.3:
            return {"id": f"e{self.number}", "text": self.say()}
        if chance < 0.35:
            return self.dice.choice([self.number, True, None, [], {}, "", [self.say(2), {"deep": [1.50, None]}],
                                     'a "quoted"\n\tline \\ \u0007', {"id": self.number, "text": self.say(2)}])
        return self.say()

    def said(self, kind):
        """An entry that an earlier hop supplied, perhaps with other white space, perhaps a sibling's."""
        entries = [entry for hop in self.task.hops for entry in hop.supplied(kind)]
        entry = self.dice.choice(entries) if entries else self.entry()
        if isinstance(entry, str) and self.dice.random() < 0.3:
            return self.dice.choice(SPACES) + entry + self.dice.choice(SPACES)
        return entry

    def over(self, kind):
        entry = self.said(kind)
        named = isinstance(entry, dict) and usable_id(entry.get("id")) is not None
        if not named or self.dice.random() < 0.5:
            return entry
        return self.dice.choice([entry["id"], {"id": entry["id"]}, {"id": entry["id"], "text": self.say(2)}])

    def state(self):
        state = {kind: self.some(4, self.entry) for kind in ("decisions", "unresolved", "remaining")}
        for kind in state:
            state[kind] += self.some(1, lambda kind=kind: self.said(kind))
        state["resolved"] = self.some(1, lambda: self.over("unresolved"))
        state["done"] = self.some(1, lambda: self.over("remaining"))
        # the same entry resolved and supplied in one request would be ambiguous
        for kind, over in ("unresolved", "resolved"), ("remaining", "done"):
            if state[over]:
                known = {entry_key(entry) for hop in self.task.hops for entry in hop.supplied(kind)}
                known |= {entry_key(entry) for entry in state[over]}
                state[kind] = [entry for entry in state[kind] if entry_key(entry) not in known
                               and not any(takes_out(over_entry, entry) for over_entry in state[over])]
        if self.dice.random() < 0.4:
            state["progress"] = self.say()
        if self.dice.random() < 0.2:
            state["branch"] = {"name": self.say(2), "commits": self.dice.randint(0, 9)}
        return {name: value for name, value in state.items() if value}

    def received(self, parents):
        """Steps of a parent's history that are sent again, as careful senders do."""
        if not parents or self.dice.random() < 0.6:
            return []
        steps = self.dice.choice(parents).history
        return self.dice.sample(steps, self.dice.randint(0, len(steps)))

    def own_again(self, source):
        """The agent does once more what it did before."""
        taken = [step for hop in self.task.hops for step in hop.steps() if step["agent"] == source]
        return [self.dice.choice(taken)] if taken and self.dice.random() < 0.2 else []

    def step(self):
        step = {"agent": self.dice.choice(AGENTS), "action": self.say()}
        if self.dice.random() < 0.4:
            step.update(decision=self.words(6), reason=self.words(40))
        if self.dice.random() < 0.2:
            step["memory_id"] = self.memory()
        if self.dice.random() < 0.3:
            step["at"] = f"2026-01-28T09:0{self.dice.randint(0, 9)}:00Z"
        return step

    def memory(self):
        if self.dice.random() < 0.15:
            return f"gone-{self.dice.randrange(20)}"
        return f"mem-{self.dice.randrange(MEMORIES)}"

    def constraints(self):
        given = {}
        if self.dice.random() < 0.85:
            given["max_tokens"] = self.dice.choice(BUDGETS)
        if self.dice.random() < 0.3:
            given[self.dice.choice(["must_not", "rules"])] = self.some(2, lambda: self.say(3))
        if self.dice.random() < 0.2:
            given[self.say(1).split()[0].replace("/", "-")] = self.words(4)
        return given

    def tighter(self, joined):
        """A maximum that falls, a minimum that rises; `joined` is what is inherited."""
        given = {}
        if self.dice.random() < 0.3:
            given["max_cost"] = joined.get("max_cost", 1000) - self.dice.randint(0, 9)
        if self.dice.random() < 0.2:
            given["min_coverage"] = joined.get("min_coverage", 10) + self.dice.randint(0, 3)
        if self.dice.random() < 0.3:
            first = int(joined["deadline"][:4]) - self.dice.randint(0, 2) if "deadline" in joined else 2090
            given["deadline"] = f"{first}-01-01T00:00:00Z"
        if self.dice.random() < 0.2:
            limits = joined.get("limits", {})
            given["limits"] = {"max_calls": limits.get("max_calls", 1000) - self.dice.randint(0, 9),
                               "exclude": self.some(2, lambda: self.say(2)),
                               **({self.say(1).split()[0].replace("/", "-"): None} if self.dice.random() < 0.5 else {})}
        return given

    def summary(self):
        text = self.say(20)
        if self.dice.random() < 0.15:
            text += f" see mem-{self.dice.randrange(MEMORIES)}"
        if self.dice.random() < 0.05:
            low = self.dice.randrange(MEMORIES)
            text += f" read mem-{low} through mem-{low + self.dice.randint(1, 4)} first"
        return text

    def request(self, source, target, parents, previous):
        """(the request, what it continues)"""
        request = {"source_agent": source, "target_agent": target, "task_id": self.task.name,
                   "task_summary": self.summary(), "include_pins": self.dice.random() < 0.5}
        steps = [*self.received(parents), *self.some(4, self.step), *self.own_again(source)]
        optional = {"state": self.state(), "execution_history": steps,
                    "memory_ids": list(dict.fromkeys(self.some(3, self.memory))), "constraints": self.constraints(),
                    "expected_output": {"format": self.say(4)} if self.dice.random() < 0.2 else {},
                    "intent": self.say(15) if self.dice.random() < 0.3 else "",
                    "include_recent": self.dice.choice([0, 0, 0, 3]),
                    "strategy": self.dice.choice(["priority"] * 8 + ["summary", "lazy"])}
        request.update({name: value for name, value in optional.items() if value})
        if self.task.hops and previous is None and self.dice.random() < 0.03:
            request["new_chain"], parents = True, []
            request["execution_history"] = self.some(4, self.step)
        # the model computes the inherited constraints
        trial = Task(self.task.name, exists)
        trial.hops = list(self.task.hops)
        inherited = trial.ledger(trial.add(request, parents)).constraints()
        request.setdefault("constraints", {}).update(self.tighter(inherited))
        return request, parents

    # ---- who continues

    def next_hop(self):
        """(source, parents, previous_id or None); parents is None for a stranger"""
        hops = self.task.hops
        if not hops:
            return self.dice.choice(AGENTS), [], None
        hops = [hop for hop in hops if not hop.replaced]
        fate = self.dice.random()
        if fate < 0.25:  # some earlier one again: a sibling of what continues it already
            hop = self.dice.choice(hops)
            return hop.request["target_agent"], [hop], hop.id
        if fate < 0.35:  # two or three of them
            several = self.dice.sample(hops, min(len(hops), self.dice.randint(2, 3)))
            return several[0].request["target_agent"], several, [hop.id for hop in several]
        source = hops[-1].request["target_agent"] if fate < 0.8 else self.dice.choice(AGENTS)
        return source, self.task.continued(source), None

    async def replace(self):
        """An operator parks a handoff, and replays it with an edit."""
        sent = [hop for hop in self.task.hops if not hop.replaced and hop.was_sent]
        if not sent:
            return
        old = self.dice.choice(sent)
        edit = {"task_summary": self.summary(), "state": self.state(), "execution_history": self.some(4, self.step),
                "memory_ids": list(dict.fromkeys(self.some(3, self.memory))),
                "constraints": {**self.constraints(), **self.tighter(old.effective())}}
        if self.dice.random() < 0.5:
            edit["constraints"]["deadline"] = f"{self.dice.randint(2080, 2099)}-01-01T00:00:00Z"
        edit = {name: value for name, value in edit.items() if value and self.dice.random() < 0.6}
        body = {"edit": edit}
        if self.dice.random() < 0.3:
            body["target_agent"] = self.dice.choice([agent for agent in AGENTS if agent != old.request["source_agent"]])
        status, text = await self.api.call("POST", f"/v1/handoffs/{old.id}/park", {"reason": "an operator looks at it"})
        require(status == 200, f"parking {old.id} was answered {status}", text)
        path = f"/v1/parked/{old.id}/replay"
        status, text = await self.api.call("POST", path, body)
        if status == 422 and json.loads(text)["code"] == "budget_too_small":
            edit.setdefault("constraints", {})["max_tokens"] = json.loads(text)["needed"]
            status, text = await self.api.call("POST", path, body)
        require(status == 200, f"POST {path} answered {status}", text, "to", body)
        new = self.task.replace(old, {**edit, **{name: body[name] for name in ("target_agent",) if name in body}})
        new.id = json.loads(text)["id"]
        await self.look_at(new, await self.get(f"/v1/handoffs/{new.id}/envelope"))

    async def deliver(self):
        """What was only assembled before is handed over as it is."""
        drafts = [hop for hop in self.task.hops if not hop.was_sent]
        if not drafts:
            return
        draft = self.dice.choice(drafts)
        path = f"/v1/envelopes/{draft.id}/deliver"
        status, text = await self.api.call("POST", path, prefer="respond-async")
        require(status == 202 and json.loads(text)["id"] == draft.id, f"POST {path} answered {status}", text)
        draft.was_sent = True

    async def continue_replaced(self):
        old = self.dice.choice([hop for hop in self.task.hops if hop.replaced])
        body = {"source_agent": old.request["target_agent"], "target_agent": "nobody", "task_summary": "too late",
                "previous_id": old.id}
        body["target_agent"] = next(agent for agent in AGENTS if agent != body["source_agent"])
        status, text = await self.api.call("POST", "/v1/envelopes", body)
        require(status == 409, f"continuing what was replaced was answered {status}", text)
        status, text = await self.api.call("POST", f"/v1/parked/{old.id}/replay", {"edit": {"task_summary": "again"}})
        require(status == 409, f"replacing what was replaced was answered {status}", text)

    async def hand_on(self):
        if self.task.hops and self.dice.random() < 0.15:
            await self.replace()
            return
        if any(hop.replaced for hop in self.task.hops) and self.dice.random() < 0.05:
            await self.continue_replaced()
        if self.dice.random() < 0.15:
            await self.deliver()
        source, parents, previous = self.next_hop()
        if parents and max(parent.hop for parent in parents) >= 12:
            return
        target = self.dice.choice([agent for agent in AGENTS if agent != source])
        stranger = parents is None
        request, parents = self.request(source, target, parents or [], previous)
        body = {**request, **({"previous_id": previous} if previous else {})}
        if stranger and not request.get("new_chain"):
            status, text = await self.api.call("POST", "/v1/envelopes", body)
            require(status == 404, f"a stranger was answered {status}", text)
            return
        path = "/v1/envelopes" if self.dice.random() < 0.3 else "/v1/handoffs"
        status, text = await self.api.call("POST", path, body, prefer="respond-async")
        if status == 422 and json.loads(text)["code"] == "budget_too_small":
            request["constraints"]["max_tokens"] = json.loads(text)["needed"]
            status, text = await self.api.call("POST", path, body, prefer="respond-async")
        require(status in (200, 202), f"POST {path} answered {status}", text, "to", body)
        hop = self.task.add(request, parents)
        hop.id, hop.was_sent = json.loads(text)["id"], path == "/v1/handoffs"
        if path == "/v1/handoffs":
            text = await self.get(f"/v1/handoffs/{hop.id}/envelope")
        await self.look_at(hop, text)

    # ---- the checks

    async def look_at(self, hop, text):
        envelope, ledger = json.loads(text), self.task.ledger(hop)
        rest = {name: value for name, value in envelope.items() if name != "digest"}
        digest = hashlib.sha256(compact(rest)).hexdigest()
        require(envelope["digest"] == f"sha256:{digest}", "the digest of", hop.id)
        try:
            hop.history = envelope["context"].get("history", [])
            hop.intent, hop.created_at = envelope["context"]["task"]["intent"], envelope["created_at"]
            gone = check_envelope(envelope, ledger, PINS if hop.request["include_pins"] else [])
            self.oracle.ask(compact(envelope["context"]).decode(), envelope["tokens"]["count"],
                            f"{self.task.name} hop {hop.hop}")
            if envelope.get("omitted") or self.dice.random() < 0.1:
                self.omitted += bool(envelope.get("omitted"))
                await self.look_up(envelope, ledger, gone)
        except Fault as fault:
            raise Fault(f"{self.task.name}, place {hop.place}, hop {hop.hop}, {hop.id}, budget "
                        f"{envelope['tokens']['budget']}, after {len(ledger.hops) - 1} ancestors: {fault}") from None

    async def look_up(self, envelope, ledger, gone):
        path = envelope.get("omitted", {}).get("more", f"/v1/envelopes/{envelope['id']}/ledger")
        items, cursor, limit = [], None, self.dice.choice([7, 50, 1000])
        while True:
            page = json.loads(await self.get(f"{path}?limit={limit}" + (f"&cursor={cursor}" if cursor else "")))
            require(len(page["items"]) <= limit, f"a page of {len(page['items'])} with limit {limit}")
            items += page["items"]
            cursor = page["next"]
            if cursor is None:
                break
        values = check_ledger(items, ledger)
        for kind, entries in gone.items():
            for entry in entries:
                require(entry in values.get(kind, []), f"omitted and not listed under the path, {kind}:", entry)

    async def run(self):
        for _ in range(self.dice.randint(2, 12)):
            await self.hand_on()


def compact(document):
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


class RandomChains(unittest.TestCase):
    def test_nothing_is_silently_gone(self):
        print(f"HANDOFF_SEED={SEED}", flush=True)
        agents = {agent: {"token_budget": 16000} for agent in AGENTS}
        oracle = Oracle()
        with daemon_with(agents, hops={"max": 12}) as daemon:
            hops, omitted = asyncio.run(self.walk_all(daemon.api.port, oracle))
            self.check_store(daemon)
        print(f"{CHAINS} chains, {hops} hops, {omitted} of them with items omitted", flush=True)
        self.assertEqual(oracle.faults(), [], "(envelope, tokens.count, count of the encoder)")
        self.assertGreater(hops, CHAINS * 2)
        self.assertGreater(omitted, CHAINS // 10, "too few budgets were too small")

    def check_store(self, daemon):
        """What the model agrees with, `handoffctl store check` does, too."""
        done = subprocess.run([os.environ["HANDOFFCTL"], "store", "check", str(daemon.folder / "data")],
                              capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    async def walk_all(self, port, oracle):
        api = Connection(lambda: port)
        for number in range(MEMORIES):
            await self.remember(api, f"mem-{number}", number)
        for number, name in enumerate(PINS):
            await self.remember(api, name, number, pinned=True)
        numbers, walks = iter(range(CHAINS)), []

        async def work():
            connection = Connection(lambda: port)
            for number in numbers:
                walks.append(Walk(number, connection, oracle))
                await walks[-1].run()
            connection.close()
        workers = [asyncio.ensure_future(work()) for _ in range(TOGETHER)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            api.close()
        return sum(len(walk.task.hops) for walk in walks), sum(walk.omitted for walk in walks)

    async def remember(self, api, name, number, **fields):
        text = WORDS[number % len(WORDS)] * (1 + number % 9) + " and more" * (number * 3)
        body = {"content": f"fact {number}: {text}",
                "importance": ["low", "medium", "high", "critical"][number % 4], **fields}
        if number % 3:
            body["summary"] = f"fact {number} in short"
        status, text = await api.call("PUT", f"/v1/memories/{name}", body)
        require(status in (200, 201), f"PUT {name} answered {status}", text)


if __name__ == "__main__":
    unittest.main()
