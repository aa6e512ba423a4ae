# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Two agents that hand a task back and forth, and what tells that from progress."""

import unittest

from harness.agents import Caller, daemon_with
from harness.receiver import Receiver, ack

ANALYST, CODER, REVIEWER = "analyst", "coder", "reviewer"
BEGINNING = {"state": {"remaining": ["migrate the tokens"]}, "execution_history": [{"agent": ANALYST, "action": "read the code"}]}


class BackAndForth(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        receiver = cls.enterClassContext(Receiver(ack))
        agents = {name: {"url": receiver.url} for name in (ANALYST, CODER, REVIEWER)}
        cls.daemon = cls.enterClassContext(daemon_with(agents, channels={"both": {"receivers": list(agents)}}))
        cls.caller = Caller(cls.daemon, ANALYST)

    def setUp(self):
        self.task = self.id().rpartition(".")[2]
        self.last, self.said = None, 0
        self.before = self.counted()

    def counted(self):
        text = self.daemon.web.get("/metrics").text
        [value] = [line.split()[1] for line in text.splitlines() if line.startswith("handoff_ping_pongs_total ")]
        return float(value)

    def hand(self, source, target, **fields):
        """The warnings of the answer. What it says is always new, which does not count."""
        if self.last:
            fields["previous_id"] = self.last
        self.said += 1
        fields = {"task_summary": f"{target}, please see to it, for the {self.said} time", **fields}
        reply = self.caller.send(target, source_agent=source, task_id=self.task, **fields)
        self.assertEqual(reply.status, 200, reply)
        self.last = reply.json()["id"]
        return [one["detail"] for one in reply.json().get("warnings", [])]

    def bounce(self, times, first=CODER, other=ANALYST, **fields):
        """A number of handoffs, beginning with one by `first`; the warnings of the last."""
        said = []
        for turn in range(times):
            said = self.hand(*((first, other) if turn % 2 == 0 else (other, first)), **fields)
        return said

    def check(self, count):
        self.assertEqual(self.counted() - self.before, count)

    def begin(self):
        self.hand(ANALYST, CODER, **BEGINNING)

    def test_the_fourth_handoff_that_adds_nothing_is_one(self):
        self.begin()
        self.assertEqual(self.bounce(3), [])
        self.check(0)
        [said] = self.hand(ANALYST, CODER)
        self.assertIn(f"the last 4 handoffs of this task between {ANALYST} and {CODER} added nothing but summaries", said)
        self.check(1)
        [said] = self.hand(CODER, ANALYST)
        self.assertIn("the last 5 handoffs", said)
        self.check(2)

    def test_it_is_logged_with_its_task(self):
        self.begin()
        self.bounce(4)
        [line] = [line for line in self.daemon.log().splitlines() if "event=ping_pong" in line and f"task={self.task}" in line]
        self.assertIn(f"source={ANALYST} target={CODER} hops=5", line)

    def publish(self, source, **fields):
        reply = self.caller.call("POST", "/v1/channels/both/publish", {"request": {
            "source_agent": source, "task_id": self.task, "task_summary": "Please see to it", "previous_id": self.last, **fields}})
        self.assertIn(reply.status, (200, 202), reply)
        self.last = reply.json()["id"]

    def test_over_a_channel_it_is_counted_for_the_agent_that_it_came_from(self):
        """All three receive; the reviewer takes no part."""
        self.publish(ANALYST, **BEGINNING)
        for source in (CODER, ANALYST, CODER):
            self.publish(source)
        self.check(0)
        self.publish(ANALYST)
        self.check(1)
        [line] = [line for line in self.daemon.log().splitlines() if "event=ping_pong" in line and f"task={self.task}" in line]
        self.assertIn(f"source={ANALYST} target={CODER} hops=5", line)
        self.publish(REVIEWER)
        self.publish(CODER)
        self.check(1)

    def test_an_item_of_any_kind_is_progress(self):
        for number, item in enumerate(({"state": {"decisions": ["use PKCE"]}}, {"state": {"unresolved": ["who owns the keys?"]}},
                                       {"state": {"remaining": ["write tests"]}}, {"state": {"done": ["migrate the tokens"]}},
                                       {"state": {"progress": "half of it"}}, {"constraints": {"must_not": ["log tokens"]}},
                                       {"execution_history": [{"agent": CODER, "action": "changed the login"}]},
                                       {"memory_ids": ["ms-4821"]})):
            with self.subTest(item):
                self.task, self.last = f"progress-{number}", None
                self.begin()
                self.bounce(2)
                self.hand(CODER, ANALYST, **item)
                self.bounce(3, ANALYST, CODER)
        self.check(0)

    def test_what_is_only_said_again_is_none(self):
        self.begin()
        self.bounce(4, state=BEGINNING["state"])
        self.check(1)

    def test_an_agent_in_between_ends_it(self):
        self.begin()
        self.bounce(3)
        self.hand(ANALYST, REVIEWER)
        self.hand(REVIEWER, ANALYST)
        self.hand(ANALYST, CODER)
        self.check(0)

    def test_another_task_of_the_same_agents_is_another_matter(self):
        for number in range(4):
            self.task, self.last = f"one-of-many-{number}", None
            self.begin()
            self.bounce(2)
        self.check(0)

    def test_a_cycle_with_three_agents_is_none(self):
        self.begin()
        for _ in range(2):
            for source, target in ((CODER, REVIEWER), (REVIEWER, ANALYST), (ANALYST, CODER)):
                self.hand(source, target)
        self.check(0)


if __name__ == "__main__":
    unittest.main()
