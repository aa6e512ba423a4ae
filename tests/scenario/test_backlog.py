# SPDX-License-Identifier: Apache-2.0
# variants: release asan tsan
"""What waits far back for its receiver is a row until its turn comes: order, counts, gauges and calls are as before."""

import subprocess
import unittest

from harness import eventually
from harness.event_stream import EventStream
from test_channels import CHANNEL, HANDOFFCTL, Case

MANY = 150  # more than the 64 for one agent that stay in memory


class Backlog(Case):
    def publish_many(self, count=MANY, **fields):
        """[{"id": publication, receiver: handoff}], in their order."""
        made = [self.publish(task_summary=f"part {n}", **fields) for n in range(count)]
        return [{"id": each["id"]} | {one["receiver"]: one["handoff_id"] for one in each["deliveries"]}
                for each in made]

    def pull(self, agent):
        reply = self.caller.call("GET", f"/v1/agents/{agent}/inbox?wait=20s")
        self.assertEqual(reply.status, 200, reply)
        return reply.header("Handoff-Id")

    def settle(self, handoff, verb="ack"):
        reply = self.caller.call("POST", f"/v1/handoffs/{handoff}/{verb}")
        self.assertEqual(reply.status, 200, reply)

    def pull_all(self, agent, expected):
        for handoff in expected:
            self.assertEqual(self.pull(agent), handoff)
            self.settle(handoff)

    def assert_pending(self, **pending):
        self.assertEqual({name: count for name, (count, _) in self.channel().items()}, pending)
        self.assertEqual(self.feeds("handoff_channel_pending"), pending)

    def test_a_receiver_that_was_away_catches_up_in_order(self):
        self.start({"away": None, "here": None})
        made = self.publish_many()
        self.assert_pending(away=MANY, here=MANY)
        self.pull_all("here", [each["here"] for each in made])
        self.assert_pending(away=MANY, here=0)
        self.pull_all("away", [each["away"] for each in made])
        self.assert_pending(away=0, here=0)
        self.check_store()

    def test_a_restart_goes_on_where_it_was(self):
        self.start({"away": None}, agents={"away": {"ordered": True}})
        made = [each["away"] for each in self.publish_many()]
        self.pull_all("away", made[:5])
        self.daemon.terminate()
        self.daemon.wait()
        self.restart()
        self.assert_pending(away=MANY - 5)
        made += [each["away"] for each in self.publish_many(3)]
        self.pull_all("away", made[5:])
        self.check_store()

    def test_a_kill_loses_nothing(self):
        self.start({"away": None})
        made = [each["away"] for each in self.publish_many()]
        self.pull_all("away", made[:5])
        self.daemon.kill()
        self.restart()
        self.assert_pending(away=MANY - 5)
        self.pull_all("away", made[5:])
        self.check_store()

    def test_a_stream_gets_them_in_order_and_again_after_it_broke(self):
        self.start({"away": None})
        made = [each["away"] for each in self.publish_many()]
        stream = self.stack.enter_context(EventStream(self.daemon.api, "away", leases=4))
        for handoff in made[:MANY // 2]:
            self.assertEqual(stream.next().id, handoff)
            self.settle(handoff)
        last = made[MANY // 2 - 1]
        stream.close()  # with four on their way to it, which come again before the others
        stream = self.stack.enter_context(EventStream(self.daemon.api, "away", leases=4, last=last))
        got = []
        for _ in made[MANY // 2:]:
            got.append(stream.next().id)
            self.settle(got[-1])
        self.assertEqual(sorted(got), made[MANY // 2:])
        self.assert_pending(away=0)

    def test_one_that_left_the_channel_still_gets_what_waits(self):
        self.start({"here": None}, agents={"away": {}})
        path = f"/v1/channels/{CHANNEL}/receivers/away"
        self.assertIn(self.caller.call("PUT", path, {"from": "now"}).status, (200, 201))
        made = [each["away"] for each in self.publish_many()]
        self.assertIn(self.caller.call("DELETE", path).status, (200, 204))
        self.pull_all("away", made)

    def test_what_is_new_waits_behind_what_a_subscriber_catches_up_with(self):
        """More than the 256 that are on their way to it at a time, so that its feed is held while others are published."""
        self.start({"here": None}, agents={"away": {}})
        old = self.publish_many(260)
        reply = self.caller.call("PUT", f"/v1/channels/{CHANNEL}/receivers/away", {"from": "all"})
        self.assertIn(reply.status, (200, 201), reply)
        eventually(lambda: self.channel()["away"][0] >= 256, "it catches up")
        new = self.publish_many(MANY - 64)
        pulled = []
        for _ in range(len(old) + len(new)):
            reply = self.caller.call("GET", "/v1/agents/away/inbox?wait=20s")
            self.assertEqual(reply.status, 200, reply)
            pulled.append(reply.json()["id"])
            self.settle(reply.header("Handoff-Id"))
        self.assertEqual(pulled, [each["id"] for each in old + new])

    def test_one_that_waits_can_be_cancelled_parked_and_read(self):
        self.start({"away": None})
        made = [each["away"] for each in self.publish_many()]
        last, before = made[-1], made[-2]
        self.assertEqual(self.caller.state(last)["state"], "ready")
        shown = subprocess.run([HANDOFFCTL, "show", last], capture_output=True, text=True, env={"HANDOFF_API_URL": self.daemon.api.url},
                               check=False)
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertIn("ready", shown.stdout)
        reply = self.caller.call("POST", f"/v1/handoffs/{last}/cancel", {"reason": "not needed"})
        self.assertEqual(reply.status, 200, reply)
        reply = self.caller.call("POST", f"/v1/handoffs/{before}/park", {"reason": "look at it"})
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(self.caller.state(last)["state"], "discarded")
        self.assertEqual(self.channel()["away"], (MANY - 2, 1))
        self.pull_all("away", made[:-2])
        self.check_store()


if __name__ == "__main__":
    unittest.main()
