# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Whole chains with real receivers: the last agent has the user's words, every constraint and every open question.

Each agent is a receiver that does what an agent does: reads what it is handed, adds a decision, a question and a step,
and hands on. What the last one would write is made of what it was handed, and nothing else.
"""

import threading
import unittest

from harness import Receiver, eventually
from harness.agents import Caller, daemon_with
from harness.chain import constraints, history, state

INTENT = "Make sure that nobody is charged twice"
LIMITS = {"must_not": ["log card numbers"], "security": "no plaintext credentials", "max_cost": 5}


def output(envelope):
    """What an agent without a model would write: all it was told."""
    return {"intent": envelope["context"]["task"]["intent"], "constraints": constraints(envelope),
            "decisions": state(envelope).get("decisions", []), "unresolved": state(envelope).get("unresolved", []),
            "steps": [step["action"] for step in history(envelope)], "path": envelope["hop"]["path"]}


class Agent:
    """Acknowledges, and hands on as `hand_on` says; keeps what it would write, by the id of the envelope."""

    def __init__(self, name, hand_on=None, refuse_first=False):
        self.name, self.hand_on = name, hand_on
        self.refuses = refuse_first
        self.outputs = {}
        self.lock = threading.Lock()
        self.receiver = Receiver(self.work)

    def work(self, request):
        envelope = request.json()
        with self.lock:
            if self.refuses:
                self.refuses = False
                request.answer(200, {"nack": request.id, "reason": "which bank?", "retry": False})
                return
            again = envelope["id"] in self.outputs
            self.outputs[envelope["id"]] = output(envelope)
        answer = {"ack": request.id}
        if self.hand_on and not again:
            answer.update(self.hand_on(self, envelope, request) or {})
        request.answer(200, answer)

    def contribution(self, **fields):
        """What this agent adds to the chain."""
        return {"task_summary": f"continue after {self.name}",
                "state": {"decisions": [f"{self.name} decided"], "unresolved": [f"what {self.name} asks"]},
                "execution_history": [{"agent": self.name, "action": f"what {self.name} did"}], **fields}

    @property
    def written(self):
        with self.lock:
            return list(self.outputs.values())


class Chains(unittest.TestCase):
    maxDiff = None

    def start(self, agents, **config):
        self.agents = agents
        for agent in agents.values():
            self.enterContext(agent.receiver)
        keys = {name: {"url": agent.receiver.url} for name, agent in agents.items()}
        self.daemon = self.enterContext(daemon_with(keys, **config))
        self.caller = Caller(self.daemon)

    def begin(self, target, **fields):
        """The user's request, handed on by the first agent."""
        reply = self.caller.send(target, source_agent="a", intent=INTENT, constraints=LIMITS, **self.first(), **fields)
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    @staticmethod
    def first():
        return {"state": {"decisions": ["a decided"], "unresolved": ["what a asks"]},
                "execution_history": [{"agent": "a", "action": "what a did"}]}

    def wait_for_output(self, name, count=1):
        eventually(lambda: len(self.agents[name].written) == count, f"{name} has written {count}")
        return self.agents[name].written[-1]

    def assert_has(self, written, *names, added=None):
        """Everything that these agents said, and what the user wanted."""
        self.assertEqual(written["intent"], INTENT)
        limits = dict(written["constraints"])
        limits.pop("max_tokens", None)
        self.assertEqual(limits, {**LIMITS, **(added or {})})
        self.assertEqual(sorted(written["unresolved"]), sorted(f"what {name} asks" for name in names))
        self.assertEqual(sorted(written["decisions"]), sorted(f"{name} decided" for name in names))
        for name in names:
            self.assertEqual(written["steps"].count(f"what {name} did"), 1, written["steps"])

    # ---- who hands on, and how

    def directly(self, target):
        """By a separate request, before it acknowledges."""
        def hand_on(agent, envelope, request):
            reply = self.caller.send(target, {"prefer": "respond-async"}, source_agent=agent.name,
                                     **agent.contribution(previous_id=envelope["id"]))
            assert reply.status == 202, reply
        return hand_on

    @staticmethod
    def in_the_acknowledgement(target, **more):
        def hand_on(agent, envelope, request):
            return {"next": {"target_agent": target, **agent.contribution(**more)}}
        return hand_on

    # ---- three patterns

    def test_direct(self):
        self.start({"b": Agent("b", self.directly("c")), "c": Agent("c", self.directly("d")), "d": Agent("d")})
        self.begin("b")
        written = self.wait_for_output("d")
        self.assert_has(written, "a", "b", "c")
        self.assertEqual(written["path"], ["a", "b"])

    def test_choreographed(self):
        hand = self.in_the_acknowledgement
        self.start({"b": Agent("b", hand("c", pattern="choreographed")),
                    "c": Agent("c", hand("next", pipeline="rest")), "d": Agent("d")}, pipelines={"rest": ["c", "d"]})
        self.begin("b", pattern="choreographed")
        self.assert_has(self.wait_for_output("d"), "a", "b", "c")

    def test_a_broadcast_in_the_middle_and_a_fan_in_behind_it(self):
        reached = threading.Barrier(2, timeout=60)
        ids, lock = [], threading.Lock()

        def branch(agent, envelope, request):
            """Both branches hand to the same agent, which joins what it has of both."""
            with lock:
                ids.append(request.id)
            reached.wait()

        self.start({"b": Agent("b"), "c": Agent("c", branch), "d": Agent("d", branch), "e": Agent("e")},
                   channels={"work": {"receivers": ["c", "d"]}})
        first = self.begin("b")
        reply = self.caller.call("POST", "/v1/channels/work/publish", {"request": {
            "source_agent": "b", "previous_id": first["id"],
            **self.agents["b"].contribution(constraints={"must_not": ["call the bank"]})}}, prefer="wait=60")
        self.assertEqual(reply.status, 200, reply)
        joined = {**LIMITS, "must_not": ["log card numbers", "call the bank"]}
        for name in ("c", "d"):
            self.assert_has(self.wait_for_output(name), "a", "b", added=joined)
        for name, handoff in zip(("c", "d"), self.by_receiver(reply.json())):
            answer = self.caller.send("e", source_agent=name, **self.agents[name].contribution(previous_id=handoff))
            self.assertEqual(answer.status, 200, answer)
        # e was handed both branches, and continues both
        self.agents["f"] = Agent("f")
        self.enterContext(self.agents["f"].receiver)
        self.daemon.write_config(self.with_agent("f"))
        self.assertEqual(self.daemon.web.request("POST", "/-/reload").status, 200)
        answer = self.caller.send("f", source_agent="e", task_id=first["task_id"], **self.agents["e"].contribution())
        self.assertEqual(answer.status, 200, answer)
        self.assert_has(self.wait_for_output("f"), "a", "b", "c", "d", "e", added=joined)

    def by_receiver(self, publication):
        return [one["handoff_id"] for one in sorted(publication["deliveries"], key=lambda one: one["receiver"])]

    def with_agent(self, name):
        config = self.daemon.config_path.read_text(encoding="utf-8")
        return config.replace('"agents": {', f'"agents": {{"{name}": {{"url": "{self.agents[name].receiver.url}"}}, ')

    def test_a_person_edits_in_the_middle(self):
        hand = self.in_the_acknowledgement
        self.start({"b": Agent("b", hand("c")), "c": Agent("c", hand("d"), refuse_first=True), "d": Agent("d")})
        self.begin("b")
        parked = eventually(lambda: self.caller.parked()["items"], "c has refused")
        reply = self.caller.call("POST", f"/v1/parked/{parked[0]['id']}/replay", {
            "reason": "c asked which bank", "edit": {"task_summary": "continue after b; the bank is the European one"}})
        self.assertEqual(reply.status, 200, reply)
        written = self.wait_for_output("d")
        self.assert_has(written, "a", "b", "c")
        self.assertIn("handed to c: continue after b; the bank is the European one", written["steps"])
        self.assertNotIn("handed to c: continue after b", written["steps"])
        self.assertEqual(written["path"], ["a", "b"])


if __name__ == "__main__":
    unittest.main()
