# SPDX-License-Identifier: Apache-2.0
"""Agents of both clients that follow their inbox as a stream of events: what a broken connection costs, and how much
they are sent."""

import contextlib
import tempfile
import unittest

from harness import Receiver, TIMEOUT, eventually
from harness.agents import Caller, daemon_with
from harness.both_clients import kinds, opened
from harness.ports import reserved_port
from harness.receiver import status
from harness.wire import Wire

INBOX = "GET /v1/agents/coder/inbox"


class Case(unittest.TestCase):
    def each(self, agents=None, **more):
        """A client of each language, behind a wire to its own sidecar."""
        for kind in kinds():
            with self.subTest(client=kind.__name__), contextlib.ExitStack() as stack:
                address = f"127.0.0.1:{stack.enter_context(reserved_port())}"
                self.daemon = stack.enter_context(daemon_with(
                    agents or {"coder": {"ack_timeout": "5m"}}, addresses={"api": address}, **more))
                self.caller = Caller(self.daemon)
                self.wire = stack.enter_context(Wire(self.daemon.api.address))
                self.client = opened(stack, kind, self.wire.url, **self.options())
                yield self.client

    def options(self):
        return {}

    def serve(self, **more):
        self.client.serve("coder", receive="stream", **more)

    def send(self, count):
        return [self.caller.send_async("coder", task_id=f"task-{number}") for number in range(count)]

    def wait_for_calls(self, handoffs):
        eventually(lambda: len(self.client.calls()) >= len(handoffs), "the agent has them")
        self.assertEqual(sorted(self.client.calls()), sorted(handoffs))

    def wait_for_opening(self):
        """Until the client has the id that it reconnects with."""
        eventually(lambda: self.wire.answered(b"\nid: "), "the stream is open")

    def wait_until_done(self, handoffs):
        for handoff in handoffs:
            self.caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(sorted(self.client.calls()), sorted(handoffs))  # each was done once

    def attempts(self, handoffs):
        return [len(self.caller.attempts(handoff)) for handoff in handoffs]


class Reconnect(Case):
    def test_what_it_works_on_is_not_delivered_again(self):
        for client in self.each():
            client.hold()
            self.serve(concurrency=3)
            sent = self.send(2)
            self.wait_for_calls(sent)
            self.wire.cut()
            eventually(lambda: len(self.wire.requests(INBOX)) == 2, "it is connected again")
            self.assertIn(self.wire.requests(INBOX)[1]["last-event-id"], sent)
            sent += self.send(1)
            self.wait_for_calls(sent)
            client.release()
            self.wait_until_done(sent)
            self.assertEqual(self.attempts(sent), [1, 1, 1])

    def test_an_event_that_was_cut_off_comes_again_at_once(self):
        for client in self.each():
            self.serve()
            self.wait_for_opening()
            self.wire.cut_after(b'"context"')
            sent = self.send(1)
            self.wait_until_done(sent)
            self.assertEqual(self.attempts(sent), [1])
            client.stop()

    def test_many_cuts_lose_nothing_and_repeat_nothing(self):
        for client in self.each():
            self.serve(concurrency=2)
            sent = []
            for _ in range(8):
                sent += self.send(2)
                self.wait_for_opening()
                self.wire.cut()
            self.wait_until_done(sent)
            client.stop()

    def test_a_connection_that_is_silent_is_given_up(self):
        for client in self.each():
            client.silence(0.5)
            self.serve()
            self.wait_for_opening()
            self.wire.freeze()
            sent = self.send(1)  # to the connection that leads nowhere
            self.wait_until_done(sent)
            client.stop()

    def test_a_sidecar_that_is_restarted(self):
        """It delivers again what the agent works on, which is done once."""
        for client in self.each():
            client.hold()
            self.serve(concurrency=2)
            sent = self.send(3)
            eventually(lambda: len(client.calls()) == 2, "the agent works")
            self.daemon.kill()
            self.daemon.launch()
            self.daemon.expected_exit = 0
            eventually(lambda: self.daemon.api.request("GET", "/v1/agents").status == 200, "it serves")
            eventually(lambda: [self.caller.state(handoff)["state"] for handoff in sent] == ["in_flight"] * 2 + ["ready"],
                       "they were delivered again")
            client.release()
            self.wait_until_done(sent)
            self.assertEqual(client.most_at_once(), 2)


class BackPressure(Case):
    def test_it_is_given_as_many_as_it_works_on(self):
        for client in self.each():
            client.hold()
            self.serve(concurrency=2)
            sent = self.send(5)
            self.wait_for_calls(sent[:2])
            states = [self.caller.state(handoff)["state"] for handoff in sent]
            self.assertEqual(states, ["in_flight"] * 2 + ["ready"] * 3)
            client.release()
            self.wait_until_done(sent)
            self.assertEqual(client.most_at_once(), 2)

    def test_others_get_what_it_has_no_room_for(self):
        for client in self.each():
            client.hold()
            self.serve()
            first, second = self.send(2)
            self.wait_for_calls([first])
            polled = self.caller.call("GET", "/v1/agents/coder/inbox?wait=5s")
            self.assertEqual(polled.header("Handoff-Id"), second)
            client.release()
            self.wait_until_done([first])


class Ends(Case):
    def test_a_stop_finishes_what_has_arrived_and_leaves_the_rest(self):
        for client in self.each():
            self.serve(concurrency=4)
            sent = self.send(30)
            eventually(lambda: len(client.calls()) > 3, "it works")
            client.stop()
            called = client.calls()
            self.assertEqual(len(set(called)), len(called))
            eventually(lambda: {self.caller.state(handoff)["state"] for handoff in called} == {"acknowledged"}, "done")
            eventually(lambda: all(self.caller.state(handoff)["state"] == "ready"
                                   for handoff in set(sent) - set(called)), "the rest waits for another agent")

    def test_an_agent_that_does_not_pull_ends_with_the_reason(self):
        for client in self.each({"coder": {"url": "http://127.0.0.1:9/"}}):
            self.serve()
            self.assertEqual((error := client.ended()).code, "invalid_request", error)

    def test_a_sidecar_without_streams_ends_it_with_the_reason(self):
        for kind in kinds():
            with self.subTest(client=kind.__name__), contextlib.ExitStack() as stack:
                old = stack.enter_context(Receiver(status(204)))
                old.server.RequestHandlerClass.do_GET = lambda handler: (
                    handler.send_response(204), handler.end_headers())
                self.client = opened(stack, kind, f"http://{old.address}")
                self.serve()
                self.assertEqual(self.client.ended().code, "not_a_stream")


class Tokens(Case):
    def options(self):
        return {"token": "the-first-token-of-coder", "source_agent": "coder"}

    def test_a_revoked_token_ends_the_agent_with_the_reason(self):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            tokens = f"{folder}/tokens"

            def give(token):
                with open(tokens, "w", encoding="utf-8") as file:
                    file.write(f"coder {token}\n")
            give("the-first-token-of-coder")
            for client in self.each(api={"tokens_file": tokens}):
                self.serve()
                self.wait_for_opening()
                give("the-second-token-of-coder")
                self.assertEqual(self.daemon.reload().status, 200)
                self.wire.cut()
                self.assertEqual(client.ended().kind, "AuthenticationError")
                give("the-first-token-of-coder")


if __name__ == "__main__":
    unittest.main()
