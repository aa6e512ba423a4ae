# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""An inbox as server-sent events: what an agent is sent, how much of it, and what a broken connection costs."""

import contextlib
import http.client
import json
import pathlib
import select
import signal
import socket
import tempfile
import time
import unittest

from harness import Daemon
from harness.agents import Caller, daemon_with
from harness.event_stream import EventStream
from harness.wait import TIMEOUT, eventually

AGENTS = {"puller": {"ack_timeout": "5m", "token_budget": 4000000}, "brief": {"format": "markdown"}, "old": {"accepts": [1]},
          "hasty": {"ack_timeout": "1s"}, "pushed": {"url": "http://127.0.0.1:9/"}}
INBOX = "/v1/agents/puller/inbox"
LONG = {"max_tokens": 4000000, **{f"rule {at}": "as it was said before " * 400 for at in range(150)}}  # 1.3 MB


class Case(unittest.TestCase):
    agents = AGENTS
    options = ()

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.daemon = self.stack.enter_context(daemon_with(self.agents, *self.options))
        self.caller = Caller(self.daemon)

    def follow(self, agent="puller", **options):
        stream = self.stack.enter_context(EventStream(self.daemon.api, agent, **options))
        self.assertEqual(stream.reply.status, 200, stream.reply.read() if stream.reply.status != 200 else "")
        return stream

    def send(self, target="puller", **fields):
        return self.caller.send_async(target, **fields)

    def ack(self, handoff):
        reply = self.caller.call("POST", f"/v1/handoffs/{handoff}/ack", {})
        self.assertEqual(reply.status, 200, reply)

    def states(self, handoffs):
        return [self.caller.state(handoff)["state"] for handoff in handoffs]

    def poll(self, agent="puller", wait="0s"):
        return self.caller.call("GET", f"/v1/agents/{agent}/inbox?wait={wait}")


class Events(Case):
    def test_an_event_has_what_a_poll_answers(self):
        sent = self.send(task_id="größe-1")
        polled = self.poll()
        self.caller.call("POST", f"/v1/handoffs/{sent}/nack", {"retry": True})
        stream = self.follow()
        self.assertEqual(stream.reply.getheader("Content-Type"), "text/event-stream")
        self.assertEqual(stream.reply.getheader("Cache-Control"), "no-store")
        event = stream.next()
        self.assertEqual((event.id, event.type), (sent, "handoff"))
        self.assertEqual(event.body, polled.json())
        expected = {name: value for name, value in polled.headers.items()
                    if name.startswith("Handoff-") or name == "Content-Type"}
        self.assertEqual(event.headers, {**expected, "Handoff-Attempt": "2"})
        self.ack(sent)
        self.assertEqual(self.states([sent]), ["acknowledged"])

    def test_a_handoff_comes_when_it_is_sent(self):
        stream = self.follow()
        stream.open()
        for _ in range(3):
            sent = self.send()
            self.assertEqual(stream.next().id, sent)
            self.ack(sent)

    def test_each_agent_gets_the_form_that_it_reads(self):
        self.send("brief", task_summary="Say \"hello\"\nand\r\ngo")
        self.send("old")
        with self.follow("brief") as stream:
            event = stream.next()
            self.assertIn("text/markdown", event.headers["Content-Type"])
            self.assertIn("hello", event.body)
            self.assertEqual(event.body, self.caller.call("GET", f"/v1/handoffs/{event.id}/envelope",
                                                          accept="text/markdown").text)
        with self.follow("old") as stream:
            self.assertIn("version=1", (event := stream.next()).headers["Content-Type"])
            self.assertEqual((event.body["from"], event.body["to"]), ("analyst", "old"))

    def test_a_long_envelope_comes_whole(self):
        sent = self.send(constraints=LONG)
        event = self.follow().next()
        self.assertEqual(event.id, sent)
        self.assertEqual(event.body, self.caller.call("GET", f"/v1/handoffs/{sent}/envelope").json())
        self.assertGreater(len(json.dumps(event.body)), 1 << 20)

    def test_http_1_0_gets_events_too(self):
        sent = self.send()
        raw = self.daemon.api.socket()
        self.addCleanup(raw.close)
        raw.sendall(f"GET {INBOX} HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode())
        got = b""
        while f"id: {sent}\n".encode() not in got:
            got += raw.recv(4096)
        self.assertNotIn(b"chunked", got)


class Rejected(Case):
    def reject(self, status, path=INBOX, method="GET", accept="text/event-stream", **headers):
        reply = self.caller.call(method, path, accept=accept, **headers)
        self.assertEqual(reply.status, status, reply)
        return reply

    def test_what_a_poll_rejects_and_what_has_no_effect(self):
        self.assertEqual(self.reject(404, "/v1/agents/pulller/inbox").json()["code"], "unknown_agent")
        self.assertIn("url", self.reject(400, "/v1/agents/pushed/inbox").json()["detail"])
        self.reject(405, method="HEAD")
        for query, field in (("wait=5s", "wait"), ("leases=0", "leases"), ("leases=33", "leases"),
                             ("leases=two", "leases"), ("lease=2", "lease")):
            self.assertEqual(self.reject(400, f"{INBOX}?{query}").json()["field"], field)
        self.assertEqual(self.reject(400, f"{INBOX}?leases=2", accept="application/json").json()["field"], "leases")

    def test_accept_chooses_and_the_first_of_several_counts(self):
        for accept in ("text/event-stream", "text/EVENT-stream; charset=utf-8", "text/html, text/event-stream, */*",
                       "application/json;q=0, text/event-stream"):
            with EventStream(self.daemon.api, "puller", accept=accept) as stream:
                self.assertEqual(stream.reply.getheader("Content-Type"), "text/event-stream", accept)
        for accept in ("*/*", "application/json, text/event-stream", "text/event-stream;q=0", "text/event-streams",
                       "image/png", ""):
            self.assertEqual(self.reject(204, accept=accept).raw, b"")

    def test_a_rejected_stream_keeps_no_place(self):
        for _ in range(3):
            self.reject(404, "/v1/agents/nobody/inbox")
        self.assertEqual(self.poll().status, 204)


class Leases(Case):
    def test_a_stream_holds_as_many_as_it_said(self):
        sent = [self.send() for _ in range(5)]
        stream = self.follow(leases=2)
        self.assertEqual([stream.next().id, stream.next().id], sent[:2])
        self.assertEqual(self.states(sent), ["in_flight"] * 2 + ["ready"] * 3)
        self.ack(sent[1])
        self.assertEqual(stream.next().id, sent[2])
        reply = self.caller.call("POST", f"/v1/handoffs/{sent[0]}/nack", {"retry": False, "reason": "no"})
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(stream.next().id, sent[3])
        self.assertEqual(self.states(sent), ["parked", "acknowledged", "in_flight", "in_flight", "ready"])

    def test_one_unless_it_said_otherwise(self):
        sent = [self.send() for _ in range(2)]
        stream = self.follow()
        self.assertEqual(stream.next().id, sent[0])
        self.assertEqual(self.poll().header("Handoff-Id"), sent[1])  # it is for another one
        self.ack(sent[0])

    def test_a_lease_that_runs_out_makes_room(self):
        first = self.send("hasty")
        stream = self.follow("hasty")
        self.assertEqual(stream.next().id, first)
        again = stream.next()
        self.assertEqual((again.id, again.headers["Handoff-Attempt"]), (first, "2"))

    def test_what_is_taken_back_makes_room(self):
        sent = [self.send() for _ in range(2)]
        stream = self.follow()
        self.assertEqual(stream.next().id, sent[0])
        self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{sent[0]}/cancel", {"reason": "late"}).status, 200)
        self.assertEqual(stream.next().id, sent[1])

    def test_handing_on_makes_room(self):
        sent = [self.send() for _ in range(2)]
        stream = self.follow()
        self.assertEqual(stream.next().id, sent[0])
        reply = self.caller.call("POST", f"/v1/handoffs/{sent[0]}/ack", {
            "next": {"source_agent": "puller", "target_agent": "brief", "task_summary": "go on"}})
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(stream.next().id, sent[1])

    def test_two_streams_share_an_inbox(self):
        streams = [self.follow(), self.follow()]
        for stream in streams:
            stream.open()
        sent = {self.send(), self.send()}
        self.assertEqual({stream.next().id for stream in streams}, sent)


class Reconnect(Case):
    def test_what_came_after_the_last_event_comes_again_at_once(self):
        sent = [self.send() for _ in range(4)]
        stream = self.follow(leases=3)
        events = [stream.next() for _ in range(3)]
        self.assertEqual([event.id for event in events], sent[:3])
        stream.close()  # the client has read only the first of them
        again = self.follow(leases=3, last=sent[0])
        got = [again.next().id for _ in range(2)]  # the first counts as held
        # three leases, and one that was given back is shown as such once that is written, which another lane does
        eventually(lambda: self.states(sent).count("in_flight") == 3, "it holds three")
        self.ack(sent[0])
        got.append(again.next().id)
        self.assertEqual(got, sent[1:])
        for handoff in got:
            self.ack(handoff)
        self.assertTrue(all(len(self.caller.attempts(handoff)) == 1 for handoff in sent))

    def test_what_comes_again_comes_in_its_order_and_before_what_follows(self):
        sent = [self.send() for _ in range(12)]
        stream = self.follow(leases=8)
        last = stream.open()["id"]
        for _ in range(5):  # each time, the client has read none of them
            self.assertEqual([stream.next().id for _ in range(8)], sent[:8])
            stream.close()
            stream = self.follow(leases=8, last=last)
        for handoff in sent:
            self.assertEqual(stream.next().id, handoff)
            self.ack(handoff)

    def test_it_takes_the_place_of_a_stream_that_seems_to_be_open(self):
        sent = [self.send() for _ in range(2)]
        stale = self.follow(leases=2)
        opening = stale.open()
        stale.next(), stale.next()
        fresh = self.follow(leases=2, last=opening["id"])
        self.assertEqual({fresh.next().id, fresh.next().id}, set(sent))
        self.ack(sent[0])
        self.assertIsNone(stale.next())
        late = self.send()
        self.assertEqual(fresh.next().id, late)

    def test_a_stream_that_never_gave_anything_is_taken_over_too(self):
        stale = self.follow()
        last = stale.open()["id"]
        fresh = self.follow(last=last)
        self.assertIsNone(stale.next())
        sent = self.send()
        self.assertEqual(fresh.next().id, sent)

    def test_without_a_last_event_leases_stay_where_they_are(self):
        first = self.send()
        with self.follow() as stream:
            self.assertEqual(stream.next().id, first)
        for last in (None, "01890a5d-ac96-774b-bcce-b302099a8057", "nonsense"):
            with self.follow(last=last) as other:
                self.assertIsNotNone(other.open()["id"])
        self.assertEqual(self.states([first]), ["in_flight"])
        second = self.send()
        self.assertEqual(self.follow().next().id, second)
        self.ack(first)

    def test_repeating_the_last_event_gives_nothing_twice(self):
        sent = [self.send() for _ in range(2)]
        stream = self.follow(leases=2)
        stream.next(), stream.next()
        for _ in range(5):
            stream.close()
            stream = self.follow(leases=2, last=sent[0])
        self.assertEqual(stream.next().id, sent[1])
        for handoff in sent:
            self.ack(handoff)
        self.assertEqual(stream.last, sent[1])
        late = self.send()
        self.assertEqual(stream.next().id, late)

    def test_a_kill_and_a_restart_lose_nothing(self):
        sent = [self.send() for _ in range(3)]
        stream = self.follow(leases=2)
        self.assertEqual(stream.next().id, sent[0])
        self.daemon.kill()
        with contextlib.suppress(OSError, http.client.HTTPException):
            while stream.next() is not None:  # what was on its way
                pass
        self.daemon.log_path.unlink()
        self.daemon = self.stack.enter_context(Daemon(
            "--shutdown.timeout=200ms", config=self.daemon.config_path.read_text(encoding="utf-8"), folder=self.daemon.folder))
        self.caller = Caller(self.daemon)
        stream = self.follow(leases=3, last=sent[0])
        self.assertEqual({stream.next().id for _ in range(3)}, set(sent))  # leases do not outlive the process
        for handoff in sent:
            self.ack(handoff)
        self.assertEqual(self.states(sent), ["acknowledged"] * 3)


class Ends(Case):
    def test_a_client_that_leaves_gives_its_place_to_others(self):
        with self.follow() as stream:
            stream.open()
        sent = self.send()
        self.assertEqual(self.poll(wait="20s").header("Handoff-Id"), sent)

    def test_sigterm_ends_streams_in_order_whether_they_hold_leases_or_not(self):
        sent = self.send()
        full = self.follow()
        self.assertEqual(full.next().id, sent)
        idle = self.follow()
        idle.open()
        began = time.monotonic()
        self.daemon.signal(signal.SIGTERM)
        self.assertIsNone(full.next())
        self.assertIsNone(idle.next())
        self.assertEqual(self.daemon.wait(), 0)
        self.assertFalse(self.daemon.events("drain_timed_out"), time.monotonic() - began)

    def test_a_hundred_streams_get_what_is_theirs_and_end_with_the_process(self):
        streams = [self.follow() for _ in range(100)]
        for stream in streams:
            stream.open()
        threads = len(list(pathlib.Path(f"/proc/{self.daemon.process.pid}/task").iterdir()))
        self.assertLess(threads, 32)
        sent = [self.send() for _ in range(100)]
        self.assertEqual({stream.next().id for stream in streams}, set(sent))
        self.daemon.signal(signal.SIGTERM)
        self.assertEqual([stream.next() for stream in streams], [None] * 100)

    def test_an_agent_that_gets_a_url_pulls_no_longer(self):
        stream = self.follow()
        stream.open()
        # asked again by its next handoff, or by a look from time to time
        sent = self.send()
        self.assertEqual(stream.next().id, sent)
        text = json.loads(self.daemon.config_path.read_text(encoding="utf-8"))
        text["agents"]["puller"] = {"url": "http://127.0.0.1:9/"}
        self.daemon.write_config(json.dumps(text))
        self.daemon.reload()
        self.ack(sent)
        reply = self.caller.call("GET", INBOX, accept="text/event-stream")
        self.assertEqual(reply.status, 400, reply)


class Readers(Case):
    def deaf(self, leases=32):
        """A client whose kernel takes little, and which never reads."""
        raw = socket.socket()
        self.addCleanup(raw.close)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect((self.daemon.api.host, self.daemon.api.port))
        raw.sendall(f"GET {INBOX}?leases={leases} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                    "Accept: text/event-stream\r\n\r\n".encode())
        return raw

    def test_a_client_that_does_not_read_gets_no_more_and_others_do(self):
        raw = self.deaf()
        sent = [self.send(constraints=LONG, task_id=f"task-{at}") for at in range(8)]

        def stuck():
            held = self.states(sent).count("in_flight")
            self.assertTrue(held)
            return held
        held = eventually(stuck, "it holds one")
        with self.follow(leases=8) as other:
            rest = {other.next().id for _ in range(8 - held)}
        self.assertEqual(len(rest), 8 - held)
        self.assertLess(held, 4)  # what the kernels take of it, and one more
        raw.close()  # what it never got in full goes to another one at once
        again = self.follow(leases=8)
        got = again.next().id
        self.assertNotIn(got, rest)

    def test_half_an_event_is_not_leased_to_a_client_that_was_cut(self):
        raw = self.deaf(1)
        sent = self.send(constraints=LONG)
        self.caller.wait_for_state(sent, "in_flight")
        readable, _, _ = select.select([raw], [], [], TIMEOUT)
        self.assertTrue(readable)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        raw.close()
        reply = self.poll(wait="20s")
        self.assertEqual(reply.header("Handoff-Id"), sent)
        self.assertEqual(reply.header("Handoff-Attempt"), "1")

    def test_nothing_of_a_silent_client_is_kept_beyond_its_leases(self):
        """A connection that breaks with nothing leased leaves nothing behind: its events are forgotten."""
        sent = self.send()
        with self.follow() as stream:
            self.assertEqual(stream.next().id, sent)
            self.ack(sent)
        late = self.send()
        with self.follow(last=sent) as stream:
            self.assertEqual(stream.next().id, late)


class Tokens(Case):
    TOKENS = {"@operator": "operator-abcdefgh", "puller": "puller-abcdefghij", "brief": "brief-abcdefghijk"}

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.tokens = self.stack.enter_context(tempfile.NamedTemporaryFile("w"))
        self.allow(self.TOKENS)
        self.daemon = self.stack.enter_context(daemon_with(self.agents, api={"tokens_file": self.tokens.name}))
        self.caller = Caller(self.daemon)

    def allow(self, tokens):
        self.tokens.seek(0)
        self.tokens.truncate()
        self.tokens.write("".join(f"{name} {token}\n" for name, token in tokens.items()))
        self.tokens.flush()

    def bearer(self, name):
        return {"authorization": f"Bearer {self.TOKENS[name]}"}

    def send(self, target="puller", **fields):
        request = {"source_agent": "analyst", "target_agent": target, "task_id": "task-1", "task_summary": "go on"}
        reply = self.caller.call("POST", "/v1/handoffs", {**request, **fields}, prefer="respond-async",
                                 **self.bearer("@operator"))
        self.assertEqual(reply.status, 202, reply)
        return reply.json()["id"]

    def test_an_agent_follows_its_own_inbox(self):
        for name, status in (("puller", 200), ("@operator", 200), ("brief", 403)):
            with EventStream(self.daemon.api, "puller", **self.bearer(name)) as stream:
                self.assertEqual(stream.reply.status, status, name)
        with EventStream(self.daemon.api, "puller") as stream:
            self.assertEqual(stream.reply.status, 401)

    def test_a_stream_whose_token_was_revoked_is_given_nothing(self):
        stream = self.follow(**self.bearer("puller"))
        stream.open()
        self.allow({**self.TOKENS, "puller": "another-abcdefghi"})
        self.assertEqual(self.daemon.reload().status, 200)
        sent = self.send()
        self.assertIsNone(stream.next())

        def waits():
            reply = self.caller.call("GET", f"/v1/handoffs/{sent}", **self.bearer("@operator"))
            return reply.json()["state"] == "ready"
        eventually(waits, "it is offered again")


if __name__ == "__main__":
    unittest.main()
