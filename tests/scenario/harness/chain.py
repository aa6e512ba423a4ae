# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests of the chain: a task that agents hand on, over the agent API of one daemon.

The agents have no URL and never poll, so each handoff is stored and stays in an inbox. Its envelope can be read, and
the next request can continue it without a delivery.
"""

import json
import unittest

from .agents import Caller, daemon_with
from .receiver import Receiver, ack

AGENTS = ["researcher", "analyst", "coder", "tester", "reviewer", "writer"]
BUDGET = 16000


def pullers(*names, **keys):
    return {name: {"token_budget": BUDGET, **keys} for name in names}


class Chain(Caller):
    """One task. hand() returns the envelope of the accepted handoff."""

    def __init__(self, daemon, task):
        super().__init__(daemon)
        self.task = task

    def ask(self, source, target, path="/v1/handoffs", summary=None, headers=None, **fields):
        """The reply to a request; task=None leaves the task out."""
        request = {"source_agent": source, "target_agent": target,
                   "task_summary": summary or f"{source} wants work of {target}", "include_pins": False,
                   "task_id": self.task, **fields}
        request = {name: value for name, value in request.items() if value is not None}
        return self.call("POST", path, request, **{"prefer": "respond-async", **(headers or {})})

    def hand(self, source, target, **fields):
        reply = self.ask(source, target, **fields)
        assert reply.status == 202, reply
        return self.envelope(reply.json()["id"])

    def assemble(self, source, target, **fields):
        reply = self.ask(source, target, path="/v1/envelopes", **fields)
        assert reply.status == 200, reply
        return reply.json()

    def refused(self, source, target, **fields):
        """(status, problem)"""
        reply = self.ask(source, target, **fields)
        assert reply.status >= 400, reply
        return reply.status, reply.json()

    def envelope(self, handoff, accept="application/json"):
        reply = self.call("GET", f"/v1/handoffs/{handoff}/envelope", accept=accept)
        assert reply.status == 200, reply
        return reply.json()

    def stored(self, envelope):
        """Also of one that was only assembled."""
        reply = self.call("GET", f"/v1/envelopes/{envelope}")
        assert reply.status == 200, reply
        return reply.json()

    def form(self, envelope, accept):
        reply = self.call("GET", f"/v1/handoffs/{envelope['id']}/envelope", accept=accept)
        assert reply.status == 200, reply
        return reply

    def brief(self, envelope):
        return self.form(envelope, "text/markdown").text

    def ledger(self, envelope, kind=None, limit=None, path=None):
        """All items, read page by page."""
        path = path or envelope.get("omitted", {}).get("more") or f"/v1/envelopes/{envelope['id']}/ledger"
        query = {"kind": kind, "limit": limit}
        items, cursor = [], None
        while True:
            given = "&".join(f"{name}={value}" for name, value in {**query, "cursor": cursor}.items() if value)
            reply = self.call("GET", path + (f"?{given}" if given else ""))
            assert reply.status == 200, reply
            page = reply.json()
            assert limit is None or len(page["items"]) <= limit, page
            items += page["items"]
            cursor = page["next"]
            if cursor is None:
                return items

    def values(self, envelope, kind, **paging):
        """The values of one kind in the ledger, oldest first."""
        return [item["value"] for item in self.ledger(envelope, kind, **paging)]

    def remember(self, name, content="a fact worth its place", **fields):
        reply = self.call("PUT", f"/v1/memories/{name}", {"content": content, **fields})
        assert reply.status in (200, 201), reply

    def forget(self, name):
        reply = self.call("DELETE", f"/v1/memories/{name}")
        assert reply.status == 204, reply


def state(envelope):
    return envelope["context"]["task"].get("state", {})


def history(envelope):
    return envelope["context"].get("history", [])


def actions(envelope):
    return [step["action"] for step in history(envelope)]


def constraints(envelope):
    return envelope["context"].get("constraints", {})


def memories(envelope):
    """By id, with those of which only the id is given."""
    context = envelope["context"]
    given = [*context.get("memories", []), *({"id": name} for name in context.get("references", []))]
    return {memory["id"]: memory for memory in given}


def missing(envelope):
    return {entry["id"]: entry for entry in envelope["missing"]}


def omitted(envelope):
    """The counts, without the path."""
    return {kind: count for kind, count in envelope.get("omitted", {}).items() if kind != "more"}


def parents(envelope):
    return [parent["id"] for parent in envelope.get("parents", [])]


def text_of(problem):
    """The whole problem document as text."""
    return json.dumps(problem, ensure_ascii=False)


class Chained(unittest.TestCase):
    """One daemon for the class, and a separate task for each test."""

    maxDiff = None
    CONFIG = {"agents": pullers(*AGENTS), "hops": {"max": 12}}

    @classmethod
    def setUpClass(cls):
        config = dict(cls.CONFIG)
        cls.daemon = daemon_with(config.pop("agents"), **config)
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)

    def setUp(self):
        self.task = self.id().rpartition(".")[2]
        self.chain = Chain(self.daemon, self.task)

    def assert_refused(self, answer, status, code, *said):
        """`said`: texts that the problem document must contain."""
        found, problem = answer
        self.assertEqual((found, problem["code"]), (status, code), problem)
        for text in said:
            self.assertIn(text, text_of(problem))
        return problem

    def assert_continues(self, envelope, *previous, hop):
        """Checks its parents, in any order, and its hop."""
        self.assertEqual(sorted(parents(envelope)), sorted(parent["id"] for parent in previous), envelope)
        digests = {parent["id"]: parent["digest"] for parent in previous}
        for parent in envelope["parents"]:
            self.assertEqual(parent["digest"], digests[parent["id"]])
        self.assertEqual(envelope["previous"], envelope["parents"][0])
        self.assertEqual(envelope["hop"]["count"], hop)
        self.assertEqual(len(envelope["hop"]["path"]), hop - 1)

    def assert_begins(self, envelope):
        """It continues nothing."""
        self.assertIsNone(envelope["previous"])
        self.assertEqual(parents(envelope), [])
        self.assertEqual((envelope["hop"]["count"], envelope["hop"]["path"]), (1, []))


class Pushed(unittest.TestCase):
    """A daemon for each test; the analyst has a URL, and its receiver does what the test says."""

    maxDiff = None

    def setUp(self):
        self.receiver = self.enterContext(Receiver(ack))
        agents = {**pullers(*AGENTS), "analyst": {"url": self.receiver.url, "token_budget": 16000, "retries": 0}}
        self.daemon = self.enterContext(daemon_with(agents, hops={"max": 3}))
        self.chain = Chain(self.daemon, self.id().rpartition(".")[2][-60:])

    def handoffs(self):
        reply = self.chain.call("GET", f"/v1/tasks/{self.chain.task}")
        self.assertEqual(reply.status, 200, reply)
        return reply.json()["items"]

    def begin(self, **fields):
        """A handoff to the analyst, who is pushed to."""
        reply = self.chain.ask("researcher", "analyst", state={"decisions": ["one"]}, **fields)
        self.assertEqual(reply.status, 202, reply)
        return reply.json()["id"]

    def settle(self, handoff, wanted):
        self.chain.wait_for_state(handoff, wanted)
        return handoff
