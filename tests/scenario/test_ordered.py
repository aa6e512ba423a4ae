# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""ordered: an agent gets the handoffs of a task one at a time, each when the one before is settled."""

import contextlib
import datetime
import json
import threading
import unittest

from prometheus_client.parser import text_string_to_metric_families

from harness import Daemon, eventually
from harness.agents import Caller, daemon_with
from harness.receiver import Receiver, ack, later, nack, status

FEW = 5


class Case(unittest.TestCase):
    maxDiff = None

    def start(self, receiver=later, channels=None, **agents):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.receiver = self.stack.enter_context(Receiver(receiver))
        agents = {name: {"url": self.receiver.url, **keys} if keys.pop("pushed", True) else keys
                  for name, keys in agents.items()}
        self.daemon = self.stack.enter_context(daemon_with(agents, channels=channels or {}))
        self.caller = Caller(self.daemon)

    def reload(self, agent, **keys):
        config = json.loads(self.daemon.config_path.read_text(encoding="utf-8"))
        config["agents"][agent].update(keys)
        self.daemon.write_config(json.dumps(config))
        self.assertEqual(self.daemon.reload().status, 200)

    def delivered(self):
        return [request.id for request in self.receiver.requests]

    def wait_for(self, *handoffs):
        eventually(lambda: self.delivered() == list(handoffs), "they are delivered in order")

    def assert_waits(self, handoff):
        """It is ready, and others that came later are not held up."""
        self.assertEqual(self.caller.state(handoff)["state"], "ready")

    def ack(self, handoff):
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)

    def pull(self, wait="20s"):
        reply = self.caller.call("GET", f"/v1/agents/reviewer/inbox?wait={wait}")
        return reply.header("Handoff-Id")

    def send(self, target="coder", task="task-1", **fields):
        return self.caller.send_async(target, task_id=task, **fields)

    # ---- push ----

    def test_pushed_one_after_the_other(self):
        self.start(coder={"ordered": True})
        handoffs = [self.send() for _ in range(FEW)]
        for i, handoff in enumerate(handoffs):
            self.wait_for(*handoffs[:i + 1])
            for waiting in handoffs[i + 1:]:
                self.assert_waits(waiting)
            self.ack(handoff)
        self.wait_for(*handoffs)

    def test_other_tasks_and_other_agents_do_not_wait(self):
        self.start(coder={"ordered": True}, spare={})
        first, behind = self.send(), self.send()
        self.wait_for(first)
        other = self.send(task="task-2")
        self.wait_for(first, other)
        elsewhere = [self.send("spare") for _ in range(2)]
        eventually(lambda: set(self.delivered()) == {first, other, *elsewhere}, "the others go")
        self.assert_waits(behind)

    def listed(self):
        return [one["id"] for one in self.caller.call("GET", "/v1/tasks/task-1").json()["items"]]

    def test_senders_that_wait_are_answered_one_after_the_other(self):
        """Which of those that come at the same time is first is not promised."""
        under_way, counts = set(), []

        def answer(got):
            under_way.add(got.id)
            counts.append(len(under_way))
            eventually(lambda: len(self.listed()) == FEW, "all of them are stored")
            under_way.discard(got.id)
            ack(got)

        self.start(answer, coder={"ordered": True})
        threads = [threading.Thread(target=self.caller.send) for _ in range(FEW)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(counts, [1] * FEW)
        self.assertEqual(sorted(self.delivered()), sorted(self.listed()))

    def test_a_retry_keeps_its_turn(self):
        self.start(ack, coder={"ordered": True, "retries": 3})
        self.receiver.do(status(500), status(500), ack)
        handoffs = [self.send() for _ in range(3)]
        self.wait_for(handoffs[0], handoffs[0], *handoffs)

    def test_what_is_parked_gives_way_and_a_replay_goes_to_the_end(self):
        self.start(later, coder={"ordered": True})
        self.receiver.do(nack("no", False), later)
        parked, second, third = self.send(), self.send(), self.send()
        self.wait_for(parked, second)
        self.caller.wait_for_state(parked, "parked")
        self.assertEqual(self.caller.call("POST", f"/v1/parked/{parked}/replay").status, 200)
        self.assert_waits(third)
        self.ack(second)
        self.wait_for(parked, second, third)
        self.assert_waits(parked)
        self.ack(third)
        self.wait_for(parked, second, third, parked)

    def test_an_alternate_takes_over_and_the_next_goes_on(self):
        self.start(later, coder={"ordered": True, "retries": 0, "alternates": ["spare"]}, spare={"ordered": True})
        self.receiver.do(status(500), later)
        first, second = self.send(), self.send()
        eventually(lambda: sorted(self.delivered()) == sorted([first, first, second]), "both go on")
        self.assertEqual(self.caller.state(first)["target_agent"], "spare")

    def test_one_that_expires_while_it_waits_is_left_out(self):
        self.start(coder={"ordered": True})
        first = self.send()
        self.wait_for(first)
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
        late = self.send(constraints={"deadline": soon.isoformat().replace("+00:00", "Z")})
        third = self.send()
        self.caller.wait_for_state(late, "expired")
        self.ack(first)
        self.wait_for(first, third)

    # ---- pull ----

    def test_pulled_one_after_the_other(self):
        self.start(reviewer={"pushed": False, "ordered": True})
        first, second = self.send("reviewer"), self.send("reviewer")
        other = self.send("reviewer", task="task-2")
        self.assertEqual({self.pull(), self.pull()}, {first, other})
        self.assertIsNone(self.pull("100ms"))
        self.assert_waits(second)
        self.ack(first)
        self.assertEqual(self.pull(), second)

    def test_a_lease_that_runs_out_is_offered_before_the_next(self):
        self.start(reviewer={"pushed": False, "ordered": True, "ack_timeout": "100ms"})
        first, second = self.send("reviewer"), self.send("reviewer")
        self.assertEqual([self.pull(), self.pull()], [first, first])
        self.ack(first)
        self.assertEqual(self.pull(), second)

    # ---- channels ----

    def publish(self, task, channel="news"):
        body = {"request": {"source_agent": "analyst", "task_id": task, "task_summary": "It changed"}}
        reply = self.caller.call("POST", f"/v1/channels/{channel}/publish", body)
        self.assertEqual(reply.status, 202, reply)
        return [one["handoff_id"] for one in reply.json()["deliveries"]][0]

    def test_a_channel_is_one_line_whatever_the_tasks(self):
        channels = {name: {"receivers": ["reviewer"]} for name in ("news", "alarms")}
        self.start(channels=channels, reviewer={"pushed": False, "ordered": True})
        first, second, third = (self.publish(f"task-{number}") for number in range(3))
        self.assertEqual(self.pull(), first)
        self.assertIsNone(self.pull("100ms"))
        alarm, direct = self.publish("task-0", "alarms"), self.send("reviewer", task="task-0")
        self.assertEqual({self.pull(), self.pull()}, {alarm, direct})
        self.assertIsNone(self.pull("100ms"))
        self.ack(first)
        self.assertEqual(self.pull(), second)
        refused = self.caller.call("POST", f"/v1/handoffs/{second}/nack", {"reason": "no", "retry": False})
        self.assertEqual(refused.json()["state"], "parked", refused)
        self.assertEqual(self.pull(), third)

    def test_a_channel_is_pushed_in_order_and_keeps_it_over_a_kill(self):
        self.start(channels={"news": {"receivers": ["coder"]}}, coder={"ordered": True})
        handoffs = [self.publish(f"task-{number}") for number in range(FEW)]
        self.wait_for(handoffs[0])
        self.caller.wait_for_state(handoffs[0], "awaiting_ack")
        self.daemon.kill()
        self.daemon.log_path.unlink()
        self.daemon = self.stack.enter_context(Daemon(
            config=self.daemon.config_path.read_text(encoding="utf-8"), folder=self.daemon.folder))
        self.caller = Caller(self.daemon)
        for i, handoff in enumerate(handoffs):
            self.wait_for(*handoffs[:i + 1])
            self.ack(handoff)
        self.wait_for(*handoffs)

    def test_an_inbox_is_read_in_the_order_of_publication(self):
        self.start(channels={"news": {"receivers": ["reviewer"]}},
                   reviewer={"pushed": False, "backoff": {"base": "1ms", "max": "1ms"}})
        handoffs = [self.publish(f"task-{number}") for number in range(FEW)]
        direct = self.send("reviewer")
        self.assertEqual([self.pull() for _ in range(3)], handoffs[:3])
        for handoff in (handoffs[2], handoffs[0], handoffs[1]):
            self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{handoff}/nack", {}).status, 200)

        def waiting():
            return next(sample.value for family in text_string_to_metric_families(
                self.daemon.web.get("/metrics").text) for sample in family.samples
                        if sample.name == "handoff_inbox_waiting"
                        and sample.labels["target_agent"] == "reviewer")
        eventually(lambda: waiting() == FEW + 1, "all are offered again")
        self.assertEqual([self.pull() for _ in range(FEW + 1)], [*handoffs, direct])

    # ---- what changes meanwhile ----

    def test_it_holds_over_a_kill(self):
        self.start(coder={"ordered": True})
        handoffs = [self.send() for _ in range(FEW)]
        self.wait_for(handoffs[0])
        self.caller.wait_for_state(handoffs[0], "awaiting_ack")
        self.daemon.kill()
        self.daemon.log_path.unlink()
        self.daemon = self.stack.enter_context(Daemon(
            config=self.daemon.config_path.read_text(encoding="utf-8"), folder=self.daemon.folder))
        self.caller = Caller(self.daemon)
        for i, handoff in enumerate(handoffs):
            self.wait_for(*handoffs[:i + 1])
            for waiting in handoffs[i + 1:]:
                self.assert_waits(waiting)
            self.ack(handoff)

    def test_a_reload_turns_it_on_for_what_is_under_way(self):
        self.start(coder={})
        under_way = [self.send(), self.send()]
        eventually(lambda: set(self.delivered()) == set(under_way), "both go at once")
        for handoff in under_way:
            self.caller.wait_for_state(handoff, "awaiting_ack")
        self.reload("coder", ordered=True)
        third = self.send()
        self.ack(under_way[0])
        self.caller.wait_for_state(under_way[0], "acknowledged")
        self.assert_waits(third)
        self.ack(under_way[1])
        eventually(lambda: self.delivered()[-1] == third, "the third has its turn")

    def test_a_reload_turns_it_off_for_what_comes(self):
        self.start(coder={"ordered": True})
        first = self.send()
        self.wait_for(first)
        self.reload("coder", ordered=False)
        second = self.send()
        self.wait_for(first, second)


if __name__ == "__main__":
    unittest.main()
