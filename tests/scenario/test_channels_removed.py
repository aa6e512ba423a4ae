# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""A channel that a reload removes: what was published before is still delivered, shown, counted and answered."""

import subprocess
import unittest

from harness import eventually
from harness.agents import config
from harness.receiver import Hold, ack, status
from test_channels import CHANNEL, HANDOFFCTL, Case

NAMES = ("code-generator", "test-writer", "doc-writer", "reviewer")


class Removed(Case):
    def setUp(self):
        self.slow = Hold()
        self.addCleanup(self.slow.release)
        self.start({"code-generator": self.slow, "test-writer": status(500), "doc-writer": None}, agents={"reviewer": {}})

    def remove(self, names=NAMES, **more):
        agents = {name: {"url": self.receivers[name].url} if name in self.receivers else {} for name in names}
        self.daemon.write_config(config(agents, channels={"other-work": {}}, **more))
        reply = self.daemon.reload()
        self.assertEqual(reply.status, 200, reply)

    def listed(self):
        """{receiver: (subscribed, pending, parked)} in the list of channels; None: it is not there."""
        for channel in self.caller.call("GET", "/v1/channels").json()["items"]:
            if channel["name"] == CHANNEL:
                return {one["agent"]: (one["subscribed"], one["pending"], one["parked"]) for one in channel["receivers"]}
        return None

    def publish_to_all(self):
        made = self.publish()
        self.wait_for_states(made["id"], code_generator="in_flight", test_writer="parked", doc_writer="ready")
        return made

    def check_shown(self, made):
        wanted = {"code-generator": (False, 1, 0), "test-writer": (False, 0, 1), "doc-writer": (False, 1, 0)}
        eventually(lambda: self.listed() == wanted, "the list shows what is not finished")
        self.assertEqual(self.channel(), {name: counts[1:] for name, counts in wanted.items()})
        eventually(lambda: self.feeds("handoff_channel_pending") == {"code-generator": 1, "doc-writer": 1}, "it is counted")
        page = {one["receiver"]: (one["subscribed"], one["pending"])
                for one in self.daemon.web.get("/?format=json").json()["channels"]}
        self.assertEqual(page, {"code-generator": (False, 1), "doc-writer": (False, 1)})
        # what HandoffChannelBacklog says to run
        done = subprocess.run([HANDOFFCTL, "channels", "show", CHANNEL, "--api.url", self.daemon.api.url],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("doc-writer", done.stdout)
        publications = self.caller.call("GET", f"/v1/channels/{CHANNEL}/publications")
        self.assertEqual([one["id"] for one in publications.json().get("items", [])], [made["id"]], publications)

    def test_what_was_published_is_delivered_shown_and_counted_over_a_kill(self):
        made = self.publish_to_all()
        self.remove()
        self.check_shown(made)
        self.daemon.kill()
        self.restart()
        eventually(lambda: self.states(made["id"])["code-generator"] == "in_flight", "it is tried again")
        self.check_shown(made)
        self.slow.release()
        pulled = self.caller.call("GET", "/v1/agents/doc-writer/inbox?wait=10s")
        self.assertEqual(pulled.json()["id"], made["id"])
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{pulled.header('Handoff-Id')}/ack").status, 200)
        self.receivers["test-writer"].do(ack)
        [parked] = [one["handoff_id"] for one in made["deliveries"] if one["receiver"] == "test-writer"]
        self.assertEqual(self.caller.call("POST", f"/v1/parked/{parked}/replay").status, 200)
        self.wait_for_states(made["id"], code_generator="acknowledged", test_writer="acknowledged", doc_writer="acknowledged")
        self.assertEqual(self.feeds("handoff_channel_pending"), {})
        self.check_store()

    def test_nothing_more_is_published_and_once_all_is_finished_it_is_gone(self):
        self.publish_to_all()
        self.remove()
        for call in (lambda: self.post({"request": self.request()}),
                     lambda: self.caller.call("DELETE", f"/v1/channels/{CHANNEL}/receivers/reviewer")):
            reply = call()
            self.assertEqual((reply.status, reply.json()["code"]), (404, "unknown_channel"), reply)
        for handoff in [one["id"] for one in self.caller.call("GET", "/v1/handoffs").json()["items"]]:
            self.caller.call("POST", f"/v1/handoffs/{handoff}/cancel", {"reason": "the channel is gone"})
            self.caller.call("DELETE", f"/v1/parked/{handoff}?reason=gone")
        eventually(lambda: self.listed() is None, "it is not listed any more")
        gone = self.caller.call("GET", f"/v1/channels/{CHANNEL}")
        self.assertEqual((gone.status, gone.json()["code"]), (404, "unknown_channel"), gone)


class Repeats(Case):
    """What was told to a publisher is told to it again, as to any sender (POST /v1/handoffs)."""

    def setUp(self):
        self.start({"code-generator": ack}, agents={"reviewer": {}})

    def remove(self):
        """The channel, and an agent that was named."""
        self.daemon.write_config(config({"code-generator": {"url": self.receivers["code-generator"].url}},
                                        channels={"other-work": {}}))
        self.assertEqual(self.daemon.reload().status, 200)

    def check_repeat(self, reply, identifier):
        """202 while a delivery is in progress."""
        self.assertIn(reply.status, (200, 202), reply)
        self.assertEqual(reply.json()["id"], identifier)

    def check_repeats(self, *bodies):
        first = [self.post(body, idempotency_key=f"key-{number}") for number, body in enumerate(bodies)]
        for number, reply in enumerate(first):
            self.assertIn(reply.status, (200, 202), bodies[number])
        self.remove()
        for number, body in enumerate(bodies):
            with self.subTest(body):
                again = self.post(body, idempotency_key=f"key-{number}")
                self.check_repeat(again, first[number].json()["id"])

    def test_of_a_request_with_a_key(self):
        self.check_repeats({"request": self.request()}, {"request": self.request(), "receivers": ["reviewer"]},
                           {"request": self.request(target_agent="broadcast"), "receivers": ["reviewer", "code-generator"]})
        other = self.post({"request": self.request(task_summary="Another")}, idempotency_key="key-0")
        self.assertEqual((other.status, other.json()["code"]), (409, "idempotency_conflict"), other)
        for body, code in (({"request": self.request()}, "unknown_channel"),
                           ({"request": self.request(), "receivers": ["reviewer"]}, "unknown_channel")):
            new = self.post(body, idempotency_key="new")
            self.assertEqual((new.status, new.json()["code"]), (404, code), new)

    def test_of_an_envelope(self):
        drafts = [self.caller.call("POST", "/v1/envelopes", self.request(target_agent="broadcast", new_chain=True)).json()["id"]
                  for _ in range(3)]
        self.check_repeats({"envelope_id": drafts[0]}, {"envelope_id": drafts[1], "receivers": ["reviewer"]})
        again = self.post({"envelope_id": drafts[0]})
        self.check_repeat(again, drafts[0])
        new = self.post({"envelope_id": drafts[2]})
        self.assertEqual((new.status, new.json()["code"]), (404, "unknown_channel"), new)

    def test_of_an_envelope_under_a_limit_that_is_lower_now(self):
        first = self.publish(headers={"prefer": "wait=20"})["deliveries"][0]["handoff_id"]
        draft, other = (self.caller.call("POST", "/v1/envelopes", {
            "source_agent": "code-generator", "target_agent": "broadcast", "task_summary": "It is done",
            "previous_id": first}).json()["id"] for _ in range(2))
        made = self.post({"envelope_id": draft, "receivers": ["reviewer"]})
        self.assertEqual(made.status, 202, made)
        self.daemon.write_config(config({"code-generator": {}, "reviewer": {}}, channels={CHANNEL: {}}, hops={"max": 1}))
        self.assertEqual(self.daemon.reload().status, 200)
        again = self.post({"envelope_id": draft})
        self.check_repeat(again, draft)
        new = self.post({"envelope_id": other})
        self.assertEqual((new.status, new.json()["code"]), (422, "hop_limit"), new)

    def test_of_a_named_agent_that_was_removed_from_a_channel_that_stays(self):
        body = {"request": self.request(), "receivers": ["reviewer"]}
        first = self.post(body, "other-work", idempotency_key="key")
        self.assertEqual(first.status, 202, first)
        self.remove()
        again = self.post(body, "other-work", idempotency_key="key")
        self.check_repeat(again, first.json()["id"])
        new = self.post(body, "other-work", idempotency_key="new")
        self.assertEqual((new.status, new.json()["code"]), (404, "unknown_agent"), new)
        self.assertNotIn("reviewer", new.json().get("allowed", ""))


if __name__ == "__main__":
    unittest.main()
