# SPDX-License-Identifier: Apache-2.0
"""A pipeline whose handoffs are known one by one: agents that acknowledge, are slow, fail, refuse and forget,
and a book of what must have been measured. The daemon and the agents are real, only the work is not."""

import collections
import datetime
import json
import threading

from harness import Daemon, Receiver, eventually
from harness.receiver import ack, later, nack, status

CONFIG = {
    "defaults": {"retries": 1, "backoff": {"base": "1ms", "max": "2ms"}, "breaker": {"failures": 3, "cooldown": "1h"},
                 "token_budget": 2000},
    "hops": {"max": 4},
}
SLOWNESS = 0.2
NOTES = [f"ms-note-{number}" for number in range(50)]
TARGETS = ("analyst", "coder", "reviewer", "down", "picky", "sleepy", "hurried")

Sent = collections.namedtuple("Sent", "target outcome envelope")


def slow_ack(request):
    threading.Event().wait(SLOWNESS)
    ack(request)


class KnownTraffic:
    """A context manager: the daemon and its receivers. round() makes traffic; the rest tells what there was."""

    def __init__(self):
        self.sent = []
        self.attempts = collections.Counter()
        self.parked = []
        self.completed = collections.Counter()  # {handoffs: tasks that took that number}
        self.cycles = 0
        self.rounds = 0

    def __enter__(self):
        self.receivers = {name: Receiver(ack) for name in TARGETS}
        self.receivers["reviewer"].do(slow_ack)
        self.receivers["down"].do(status(503))
        self.receivers["sleepy"].do(later)
        agents = {name: {"url": receiver.url} for name, receiver in self.receivers.items()}
        agents["sleepy"]["ack_timeout"] = "1h"
        self.daemon = Daemon("--shutdown.timeout=200ms", config=json.dumps({**CONFIG, "agents": agents}))
        self.remember("ms-1", content="the gateway retries payments")
        self.remember("ms-2", content="refunds are idempotent")
        self.remember("ms-big", content="many words about payments " * 400)
        for note in NOTES:
            self.remember(note, content="a note")
        return self

    def __exit__(self, kind, value, traceback):
        try:
            self.daemon.__exit__(kind, value, traceback)
        finally:
            for receiver in self.receivers.values():
                receiver.close()

    # ---- making traffic

    def remember(self, name, **memory):
        reply = self.daemon.api.request("PUT", f"/v1/memories/{name}", json.dumps(memory).encode())
        assert reply.status in (200, 201), reply

    def send(self, target, outcome, source="user", attempts=(), asynchronous=False, **more):
        """One handoff, which must end like that, with attempts of these results; answers it."""
        request = {"source_agent": source, "target_agent": target, "task_summary": "do it", **more}
        headers = {"prefer": "respond-async"} if asynchronous else {}
        reply = self.daemon.api.post("/v1/handoffs", json.dumps(request).encode(), **headers)
        statuses = {"acknowledged": 200, "in_flight": 202, "exhausted": 502, "refused": 502, "expired": 504,
                    "circuit_open": 503, "hop_limit": 422}
        assert reply.status == statuses[outcome], (target, outcome, reply)
        handoff = reply.json()
        handoff = handoff.get("handoff", handoff)
        envelope = self.daemon.api.get(f"/v1/handoffs/{handoff['id']}/envelope").json() if "id" in handoff else None
        self.sent.append(Sent(target, outcome, envelope))
        self.attempts.update(attempts)
        return handoff

    def round(self):
        """Everything that happens all the time."""
        self.rounds += 1
        task = f"task-{self.rounds}"
        both = ["ms-1", "ms-2"]
        first = self.send("analyst", "acknowledged", attempts=["ack"], memory_ids=both, task_id=task)
        second = self.send("coder", "acknowledged", "analyst", ["ack"], memory_ids=both, task_id=task, previous_id=first["id"])
        # more ids than half of the budget has room for
        third = self.send("reviewer", "acknowledged", "coder", ["ack"], memory_ids=["ms-1", "ms-big", *NOTES], task_id=task,
                          previous_id=second["id"], constraints={"max_tokens": 400})
        self.send("analyst", "acknowledged", attempts=["ack"], memory_ids=["ms-1", f"ms-lost-{self.rounds}"])
        self.receivers["coder"].do(status(503), ack)
        self.send("coder", "acknowledged", attempts=["http", "ack"], pattern="choreographed")
        self.complete(task, handoffs=3)
        return third

    def complete(self, task, handoffs):
        reply = self.daemon.api.post(f"/v1/tasks/{task}/complete", b"{}")
        assert reply.status == 200, reply
        self.completed[handoffs] += 1

    def accidents(self):
        """Everything that happens once. The circuit to `down` stays open, one handoff to `sleepy` in flight."""
        third = self.round()
        fourth = self.send("coder", "acknowledged", "reviewer", ["ack"], previous_id=third["id"])
        self.cycles += 1
        self.send("analyst", "hop_limit", "coder", previous_id=fourth["id"])
        self.cycles += 1
        for _ in range(3):
            self.parked.append(self.send("down", "exhausted", attempts=["http", "http"])["id"])
        self.send("down", "circuit_open")
        self.receivers["picky"].do(nack("not mine", False))
        self.parked.append(self.send("picky", "refused", attempts=["nack"])["id"])
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=20)
        self.receivers["hurried"].do(status(503, retry_after="60"))
        self.send("hurried", "expired", attempts=["http"], constraints={"deadline": soon.strftime("%Y-%m-%dT%H:%M:%SZ")})
        waiting = self.send("sleepy", "in_flight", asynchronous=True)
        eventually(lambda: self.daemon.api.get(f"/v1/handoffs/{waiting['id']}").json()["state"] == "awaiting_ack",
                   "it waits for its acknowledgement")

    def replay(self):
        """What was refused is sent again and taken."""
        self.receivers["picky"].do(ack)
        parked = self.parked.pop()
        reply = self.daemon.api.post(f"/v1/parked/{parked}/replay", b"{}")
        assert reply.status in (200, 202), reply
        self.attempts.update(["ack"])
        eventually(lambda: self.daemon.api.get(f"/v1/handoffs/{parked}").json()["state"] == "acknowledged",
                   "the replayed one is acknowledged")

    # ---- the book

    def outcomes(self, *targets):
        """{outcome: number} of what has ended, to these targets or all."""
        return collections.Counter(one.outcome for one in self.sent
                                   if one.outcome != "in_flight" and (not targets or one.target in targets))

    def failure_rate(self, *targets):
        outcomes = self.outcomes(*targets)
        settled = sum(outcomes[name] for name in ("acknowledged", "exhausted", "refused", "expired"))
        return outcomes["exhausted"] / settled

    def envelopes(self, *targets):
        return [one.envelope for one in self.sent if one.envelope and (not targets or one.target in targets)]

    def completeness(self, *targets):
        envelopes = self.envelopes(*targets)
        return (sum(one["completeness"]["included"] for one in envelopes) /
                sum(one["completeness"]["requested"] for one in envelopes))
