# SPDX-License-Identifier: Apache-2.0
"""The Python client against the real sidecar: the samples of the specification, sending, receiving, and failures."""

import asyncio
import contextlib
import datetime
import http.client
import io
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

from harness import Daemon, Http, Receiver, TIMEOUT, environment, eventually
from harness import clients  # noqa: F401  (it puts the package on the path)
from harness.agents import Caller, config, daemon_with
from harness.ports import reserved_port
from harness.printed import blocks, missing
from harness.receiver import Hold, ack, later, nack, status
from specification_samples import BROADCAST, HANDOFF, ROBUST, changed

import handoff
from handoff import AsyncMemorySpine, MemorySpine, Refused, Retry, SeenFile, agent, serving

QUICK = Retry(seconds=TIMEOUT, base=0.01, most=0.05)


def soon(hours=1):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)).isoformat()


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(unittest.mock.patch.dict("os.environ", {"HANDOFF_STATE_DIR": str(self.folder)}))

    def start(self, agents, **more):
        self.daemon = self.enterContext(daemon_with(agents, **more))
        self.caller = Caller(self.daemon)
        return self.spine()

    def spine(self, **more):
        given = {"source_agent": "analyst", "retry": QUICK, **more}
        return self.enterContext(MemorySpine(self.daemon.api.url, **given))

    def serve(self, *agents, spine=None):
        return self.enterContext(serving(*agents, spine=spine or self.spine()))


class Samples(Case):
    """Each sample of the specification runs with only the import, the endpoint and the past deadline changed."""

    def run_sample(self, text, **names):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(changed(text, self.daemon.api.url, soon()), "sample", "exec"), names)  # pylint: disable=exec-used
        return names, output.getvalue().splitlines()

    def start(self, agents, **more):
        super().start(agents, api={"source_agent": "analyst"}, **more)
        return self.enterContext(MemorySpine(self.daemon.api.url, retry=QUICK))  # the sample names no source

    def test_agent_handoff(self):
        spine = self.start({"code-generator": {}})
        names = [f"ms-{number}" for number in range(4821, 4826)]
        for name in names:
            spine.put_memory(name, f"what {name} says about the payment gateway")
        found, printed = self.run_sample(HANDOFF)
        self.addCleanup(found["spine"].close)
        version, tokens, refs = printed
        self.assertRegex(version, r"^2(\.|$)")
        self.assertTrue(0 < int(tokens) <= 4000)
        self.assertEqual(sorted(eval(refs)), names)  # pylint: disable=eval-used
        envelope = found["handoff"]
        self.assertEqual(envelope.missing, [])
        self.assertEqual(envelope.completeness.ratio, 1)
        self.assertEqual(envelope.context["constraints"]["security"], "no plaintext credentials")
        self.assertEqual(len(envelope.context["history"]), 3)

    def test_broadcast(self):
        receivers = ["code-generator", "test-writer", "doc-writer"]
        spine = self.start({name: {} for name in receivers}, channels={"oauth-migration": {"receivers": receivers}})
        self.run_sample(BROADCAST, spine=spine)
        waiting = spine.list_handoffs()
        self.assertEqual(sorted(handoff.target_agent for handoff in waiting), sorted(receivers))
        self.assertEqual({handoff["pattern"] for handoff in waiting}, {"broadcast"})

    def robust(self, *script):
        receiver = self.enterContext(Receiver(*script))
        spine = self.start({"code-generator": {"url": receiver.url, "retries": 0}})
        envelope = spine.agent_handoff("code-generator", "Write the retry logic")
        names, _ = self.run_sample(ROBUST)  # it makes no spine
        slept = []
        names["time"] = unittest.mock.Mock(time=lambda: 0.0, sleep=slept.append)  # the sample's backoff takes 14 s
        return receiver, envelope, names, names["HandoffClient"](spine, timeout=1), slept

    def test_robust_handoff_is_acknowledged(self):
        _, envelope, _, client, slept = self.robust(ack)
        self.assertEqual(client.send_handoff(envelope, "code-generator").state, "acknowledged")
        self.assertEqual(slept, [])

    def test_robust_handoff_waits_for_a_slow_agent(self):
        hold = Hold()
        receiver, envelope, names, client, slept = self.robust(hold)
        client.spine.deliver_handoff(envelope, wait=False)
        receiver.wait_for(1)

        def sleep(seconds):
            slept.append(seconds)
            hold.release()
            client.timeout = 30

        names["time"].sleep = sleep
        self.assertTrue(client.send_handoff(envelope, "code-generator").acknowledged)
        self.assertEqual(slept, [2])
        self.assertEqual(len(receiver.seen), 1)  # it was not delivered again

    def test_robust_handoff_parks_and_opens_its_circuit(self):
        _, envelope, names, client, slept = self.robust(later)
        client.failure_count = 2
        with self.assertRaisesRegex(names["HandoffError"], "failed after 3 attempts: .*did not acknowledge"):
            client.send_handoff(envelope, "code-generator")
        self.assertEqual(slept, [2, 4, 8])
        [parked] = self.caller.parked()["items"]
        self.assertEqual(parked["id"], envelope.id)
        self.assertIn("did not acknowledge", parked["reason"])
        with self.assertRaises(names["CircuitOpenError"]):
            client.send_handoff(envelope, "code-generator")


class Sending(Case):
    def test_a_handoff_is_acknowledged(self):
        receiver = self.enterContext(Receiver(ack))
        spine = self.start({"coder": {"url": receiver.url}})
        done = spine.hand_off("coder", "Write it", constraints={"max_tokens": 4000}, state={"decisions": ["use jitter"]})
        self.assertEqual((done.state, done.attempts, done.source_agent), ("acknowledged", 1, "analyst"))
        self.assertEqual(receiver.seen[0].json()["context"]["task"]["state"]["decisions"], ["use jitter"])
        self.assertEqual([item.id for item in spine.get_task(done.task_id)], [done.id])

    def test_an_agent_subscribes_and_leaves(self):
        spine = self.start({"coder": {}, "tester": {}}, channels={"parts": {"receivers": ["coder"]}})
        channel = spine.get_channel("parts")
        for change, receivers in ((channel.subscribe, ["coder", "tester"]), (channel.unsubscribe, ["coder"])):
            change("tester")
            published = channel.publish(request={"task_summary": "Write it"})
            self.assertEqual(sorted(delivery["receiver"] for delivery in published.deliveries), receivers)

    def test_durable_is_enough_without_waiting(self):
        spine = self.start({"coder": {}})
        accepted = spine.hand_off("coder", "Write it", wait=False)
        self.assertEqual(accepted.state, "ready")
        self.assertEqual(spine.get_handoff(accepted).id, accepted.id)
        self.assertEqual(spine.cancel_handoff(accepted, "the plan changed").state, "discarded")

    def test_a_time_out_says_which_handoff_continues(self):
        spine = self.start({"coder": {}})
        with self.assertRaises(TimeoutError) as caught:
            spine.hand_off("coder", "Write it", timeout=0.2)
        self.assertIsInstance(caught.exception, handoff.HandoffError)
        self.assertEqual(spine.get_handoff(caught.exception.handoff).state, "ready")

    def test_a_long_wait_is_several_requests_and_one_handoff(self):
        hold = Hold()
        receiver = self.enterContext(Receiver(hold))
        spine = self.start({"coder": {"url": receiver.url, "timeout": "30s"}})
        with unittest.mock.patch("handoff.flows.WAIT_SECONDS", 1):
            timer = threading.Timer(2.5, hold.release)
            timer.start()
            self.assertTrue(spine.hand_off("coder", "Write it").acknowledged)
        self.assertEqual(len(spine.list_handoffs()), 1)

    def test_errors_say_what_to_correct(self):
        receiver = self.enterContext(Receiver(nack("not mine", retry=False)))
        spine = self.start({"coder": {"url": receiver.url}})
        with self.assertRaises(handoff.NotFoundError) as caught:
            spine.hand_off("nobody", "Write it")
        self.assertEqual((caught.exception.code, caught.exception.field, caught.exception.seen),
                         ("unknown_agent", "target_agent", "nobody"))
        with self.assertRaises(handoff.InvalidRequestError) as caught:
            spine.hand_off("coder", "Write it", strategy="eager")
        self.assertEqual((caught.exception.field, caught.exception.seen), ("strategy", "eager"))
        self.assertIn("lazy", str(caught.exception.allowed))
        for word in ("strategy", "eager", "lazy"):  # with all that is needed to correct it, once
            self.assertEqual(str(caught.exception).count(word), 1, caught.exception)
        with self.assertRaises(handoff.InvalidRequestError) as caught:
            spine.hand_off("coder", "Write it", constraints={"max_tokens": 5})
        self.assertEqual(caught.exception.code, "budget_too_small")
        self.assertGreater(caught.exception.needed, 5)
        with self.assertRaises(handoff.NotDeliveredError) as caught:
            spine.hand_off("coder", "Write it")
        self.assertEqual((caught.exception.code, caught.exception.handoff.state), ("refused", "parked"))
        with self.assertRaises(ValueError):
            spine.deliver_handoff(spine.agent_handoff("coder", "Write it"), target="reviewer")
        with self.assertRaises(ValueError):
            MemorySpine("localhost:8780")
        with self.assertRaisesRegex(ValueError, "timeout=0: allowed is more than 0 seconds"):
            spine.hand_off("coder", "Write it", timeout=0)

    def test_an_open_circuit_is_not_waited_for(self):
        receiver = self.enterContext(Receiver(status(500)))
        spine = self.start({"coder": {"url": receiver.url}}, defaults={
            "retries": 0, "breaker": {"failures": 1, "cooldown": "1h"}})
        with self.assertRaises(handoff.NotDeliveredError):
            spine.hand_off("coder", "Write it")
        with self.assertRaises(handoff.CircuitOpenError) as caught:
            spine.hand_off("coder", "Write it")
        self.assertGreater(caught.exception.retry_after, 60)

    def test_a_full_sidecar_is_tried_again(self):
        spine = self.start({"coder": {}, "reviewer": {}}, api={"max_in_flight": 1})
        first = spine.hand_off("coder", "Write it", wait=False)
        timer = threading.Timer(0.3, self.caller.call, ("POST", f"/v1/handoffs/{first.id}/ack"))
        timer.start()
        self.assertEqual(spine.hand_off("reviewer", "Review it", wait=False).state, "ready")
        timer.join()
        with self.assertRaises(handoff.UnavailableError) as caught:
            self.spine(retry=Retry(seconds=0)).hand_off("coder", "Write it", wait=False)
        self.assertEqual((caught.exception.status, caught.exception.code), (429, "too_many_in_flight"))

    def test_a_repeat_keeps_its_key(self):
        """Whatever the way to the sidecar answers, each try has the same key."""
        answer = {"id": "1", "state": "acknowledged", "attempts": 1, "task_id": "t"}
        busy = status(503, {"code": "shutting_down", "detail": "stopping"}, retry_after="0")
        proxy = self.enterContext(Receiver(busy, status(429, retry_after="0"), status(502, b"<html>"), status(200, answer)))
        with MemorySpine(f"http://{proxy.address}", source_agent="analyst", retry=QUICK) as spine:
            self.assertTrue(spine.hand_off("coder", "Write it").acknowledged)
            self.assertTrue(spine.hand_off("coder", "Write it").acknowledged)
        keys = [request.headers["Idempotency-Key"] for request in proxy.seen]
        self.assertEqual((len(keys), len(set(keys[:4])), len(set(keys))), (5, 1, 2))

    def test_a_newer_client_is_understood(self):
        """Fields that this sidecar does not know are ignored and reported, not rejected."""
        spine = self.start({"coder": {}})
        accepted = spine.hand_off("coder", "Write it", wait=False, extra={"mood": "good"})
        self.assertEqual([warning["field"] for warning in accepted.warnings], ["mood"])
        with self.assertRaises(TypeError):
            spine.hand_off("coder", "Write it", mood="good")  # pylint: disable=unexpected-keyword-arg

    def test_a_sidecar_that_was_killed_and_restarted(self):
        receiver = self.enterContext(Receiver(ack))
        address = f"127.0.0.1:{self.enterContext(reserved_port())}"
        self.start({"coder": {"url": receiver.url}}, addresses={"api": address})
        spine = self.spine()
        for _ in range(3):
            self.assertTrue(spine.hand_off("coder", "Write it").acknowledged)
            self.daemon.kill()
            self.daemon.launch()  # the client meets it before it listens
        self.daemon.expected_exit = 0
        self.assertTrue(spine.hand_off("coder", "Write it").acknowledged)
        self.assertEqual(len({request.id for request in receiver.seen}), 4)

    def test_unix_socket_token_and_trace(self):
        receiver = self.enterContext(Receiver(ack))
        tokens = self.folder / "tokens"
        tokens.write_text("analyst the-first-token-of-analyst\n")
        mine = self.folder / "mine"
        mine.write_text("a-wrong-token-of-analyst\n")
        api = f"unix:{self.folder / 'api'}"
        self.enterContext(daemon_with({"coder": {"url": receiver.url}}, addresses={"api": api},
                                      api={"tokens_file": str(tokens)}))
        spine = self.enterContext(MemorySpine(api, token_file=str(mine)))
        with self.assertRaises(handoff.AuthenticationError):
            spine.list_agents()
        mine.write_text("the-first-token-of-analyst\n")
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        with handoff.trace.continued({"traceparent": parent}):
            done = spine.hand_off("coder", "Write it", source_agent="analyst")
        self.assertTrue(done.acknowledged)
        self.assertIn(parent[3:35], receiver.seen[0].headers["traceparent"])

    def test_tls(self):
        answer = status(200, {"id": "1", "state": "acknowledged", "task_id": "t"})
        server, authority = clients.tls_server(self.folder, answer)
        url = f"https://{self.enterContext(server).address}"
        trusting = ssl.create_default_context(cafile=authority)
        with MemorySpine(url, source_agent="analyst", tls=trusting) as spine:
            self.assertTrue(spine.hand_off("coder", "Write it").acknowledged)

        async def work():
            async with AsyncMemorySpine(url, source_agent="analyst", tls=trusting) as spine:
                return await spine.hand_off("coder", "Write it")
        self.assertTrue(asyncio.run(work()).acknowledged)
        with MemorySpine(url, source_agent="analyst", retry=QUICK) as spine:
            with self.assertRaises(handoff.UnreachableError) as caught:  # at once: it would not get better
                spine.hand_off("coder", "Write it")
            self.assertEqual(caught.exception.code, "bad_certificate")
        self.assertEqual(len(server.seen), 2)

    def test_nothing_is_tried_again_after_the_timeout(self):
        address = f"http://127.0.0.1:{self.enterContext(reserved_port())}"
        with MemorySpine(address, source_agent="analyst", retry=Retry(seconds=1e6, base=0.01, most=0.05)) as spine:
            with self.assertRaises(handoff.UnreachableError):
                spine.hand_off("coder", "Write it", timeout=0.3)
            with self.assertRaises(handoff.UnreachableError):
                spine.get_channel("news").publish(request={"task_summary": "Write it"}, timeout=0.3)

    def test_a_timeout_is_of_the_whole_call(self):
        """Of each call that has one, with the requests that it makes before, by a sidecar that does not answer."""
        envelope = self.start({"coder": {}}, channels={"news": {"receivers": ["coder"]}}).agent_handoff("coder", "Write it")
        spine, began = self.spine(retry=Retry(seconds=1e6)), time.monotonic()
        spine.list_agents()  # over a connection that stays open
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            for call in (lambda: spine.deliver_handoff(envelope.id, target="coder", timeout=0.2),
                         lambda: spine.get_channel("news").publish(request={"task_summary": "Write it"}, timeout=0.2),
                         lambda: spine.hand_off("coder", "Write it", timeout=0.2, wait=False)):
                with self.assertRaisesRegex(handoff.UnreachableError, "no answer in time"):
                    call()

            async def work():
                async with AsyncMemorySpine(self.daemon.api.url, source_agent="analyst") as coroutines:
                    with self.assertRaisesRegex(handoff.UnreachableError, "no answer in time"):
                        await coroutines.hand_off("coder", "Write it", timeout=0.2)
            asyncio.run(work())
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)
        self.assertLess(time.monotonic() - began, 25)  # one answer may take 30 s

    def test_a_publication_is_waited_for(self):
        spine = self.start({"coder": {}}, channels={"news": {"receivers": ["coder"]}})
        began = time.monotonic()
        published = spine.get_channel("news").publish(request={"task_summary": "Write it"}, timeout=1.2)
        self.assertGreaterEqual(time.monotonic() - began, 1.18)
        self.assertEqual(len(published.deliveries), 1)
        self.assertEqual(len(spine.list_handoffs()), 1)

    def test_retries_may_last_for_days(self):
        wait = Retry(seconds=1e6).wait(handoff.UnreachableError("", code="unreachable"), 5000, 86400.0)
        self.assertTrue(0 <= wait <= 5)

    def test_a_client_that_is_closed_while_it_connects(self):
        connect = http.client.HTTPConnection.connect
        with socket.create_server(("127.0.0.1", 0)) as silent, MemorySpine(f"http://127.0.0.1:{silent.getsockname()[1]}") as spine:
            def late(connection):
                spine.close()
                connect(connection)
            with unittest.mock.patch.object(http.client.HTTPConnection, "connect", late):
                with self.assertRaises(handoff.UnreachableError) as caught:
                    spine.list_agents()
        self.assertEqual(caught.exception.code, "closed")

    def test_memories(self):
        spine = self.start({"coder": {}})
        spine.put_memory("ms-1", "The bank retries a payment three times", importance="high", tags=["bank"])
        self.assertEqual(spine.get_memory("ms-1").importance, "high")
        self.assertEqual([memory.id for memory in spine.search_memories("payment of the bank")], ["ms-1"])
        self.assertTrue(spine.pin_memory("ms-1").pinned)
        self.assertEqual([memory.id for memory in spine.list_memories(pinned=True)], ["ms-1"])
        spine.delete_memory("ms-1")
        with self.assertRaises(handoff.NotFoundError):
            spine.get_memory("ms-1")

    def test_observations(self):
        spine = self.start({"coder": {}})
        receipt = spine.observe([{"source_agent": "analyst", "target_agent": "coder", "outcome": "acknowledged"}])
        self.assertEqual(receipt["accepted"], 1)


class Asyncio(Case):
    """The same calls as coroutines."""

    def run_with(self, work, **more):
        async def whole():
            given = {"source_agent": "analyst", "retry": QUICK, **more}
            async with AsyncMemorySpine(self.daemon.api.url, **given) as spine:
                return await work(spine)
        return asyncio.run(whole())

    def test_many_at_once(self):
        receiver = self.enterContext(Receiver(ack))
        self.start({"coder": {"url": receiver.url}})

        async def work(spine):
            done = await asyncio.gather(*(spine.hand_off("coder", f"Write part {number}") for number in range(50)))
            again = await spine.get_handoff(done[0])
            return {handoff.id for handoff in done if handoff.acknowledged}, again.state
        ids, state = self.run_with(work)
        self.assertEqual((len(ids), state), (50, "acknowledged"))
        self.assertEqual({request.id for request in receiver.seen}, ids)

    def test_errors_and_time_outs(self):
        self.start({"coder": {}})

        async def work(spine):
            with self.assertRaises(handoff.NotFoundError) as caught:
                await spine.hand_off("nobody", "Write it")
            self.assertEqual(caught.exception.seen, "nobody")
            with self.assertRaises(TimeoutError):
                await spine.hand_off("coder", "Write it", timeout=0.2)
            envelope = await spine.agent_handoff("coder", "Write it")
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(spine.deliver_handoff(envelope), 0.5)  # a cancelled call disturbs no later one
            return (await spine.get_handoff(envelope)).state, (await spine.park_envelope(envelope, "later")).state
        self.assertEqual(self.run_with(work), ("ready", "parked"))

    def test_a_sidecar_that_was_killed_and_restarted(self):
        receiver = self.enterContext(Receiver(ack))
        self.start({"coder": {"url": receiver.url}}, addresses={"api": f"127.0.0.1:{self.enterContext(reserved_port())}"})

        async def work(spine):
            for _ in range(3):
                self.assertTrue((await spine.hand_off("coder", "Write it")).acknowledged)
                self.daemon.kill()
                self.daemon.launch()
            return await spine.hand_off("coder", "Write it")
        self.assertTrue(self.run_with(work).acknowledged)
        self.daemon.expected_exit = 0
        self.assertEqual(len({request.id for request in receiver.seen}), 4)

    def test_one_event_loop_after_the_other(self):
        """As in an agent's coroutine, which has an event loop for each handoff."""
        self.start({"coder": {}})
        spine = AsyncMemorySpine(self.daemon.api.url, retry=QUICK)
        for _ in range(3):
            self.assertEqual(len(asyncio.run(spine.list_agents())), 1)

    def test_a_client_that_is_closed_while_it_waits(self):
        self.start({"coder": {}})

        async def work(spine):
            await spine.list_agents()  # the connection that waits was used before
            waiting = asyncio.ensure_future(spine.hand_off("coder", "Write it"))
            await asyncio.get_running_loop().run_in_executor(
                None, lambda: eventually(lambda: self.spine().list_handoffs(), "it was accepted"))
            await spine.close()
            for call in (waiting, spine.list_agents()):
                with self.assertRaises(handoff.UnreachableError) as caught:
                    await asyncio.wait_for(call, TIMEOUT)
                self.assertEqual(caught.exception.code, "closed")
        self.run_with(work)

    def test_a_channel_and_lists(self):
        self.start({"coder": {}, "tester": {}}, channels={"parts": {"receivers": ["coder", "tester"]}})

        async def work(spine):
            channel = spine.get_channel("parts")
            published = await channel.publish(request={"task_summary": "Write it"})
            await spine.put_memory("ms-1", "x" * 100000, summary="long")  # longer than one read
            found = await spine.get_memory("ms-1")
            return len((await channel.get_publication(published)).deliveries), len(await spine.list_handoffs()), len(found.text)
        self.assertEqual(self.run_with(work), (2, 2, 100000))


class Receiving(Case):
    """Every test runs for an agent that polls its inbox, for one that follows it, and for one that is pushed to."""

    def each(self, function, agents=None, **more):
        for way in ("inbox", "stream", "push"):
            with self.subTest(receive=way), contextlib.ExitStack() as stack:
                port = stack.enter_context(reserved_port())
                url = f"http://127.0.0.1:{port}"
                keys = {"ack_timeout": "10s"} if way != "push" else {"url": url}
                options = {"receive": way if way != "push" else url,
                           "seen": str(self.folder / f"{way}.seen"), **more}
                self.daemon = stack.enter_context(daemon_with({"coder": keys, **(agents or {})}))
                self.caller = Caller(self.daemon)
                self.sender = stack.enter_context(MemorySpine(self.daemon.api.url, source_agent="analyst", retry=QUICK))
                self.way, self.decorated = way, agent("coder", **options)(function)
                stack.enter_context(serving(self.decorated, spine=self.sender))
                yield self.sender

    def test_returning_acknowledges(self):
        seen = []

        def work(received):
            seen.append((received.task.summary, received.task.intent, received.constraints, received.source_agent))
        for spine in self.each(work):
            self.assertTrue(spine.hand_off("coder", "Write it", intent="Safe payments", constraints={"x": 1}).acknowledged)
            self.assertEqual(seen.pop(), ("Write it", "Safe payments", {"x": 1}, "analyst"))

    def test_a_coroutine_is_run(self):
        seen = []

        async def work(received):
            seen.append(received.id)
        for spine in self.each(work):
            self.assertEqual(spine.hand_off("coder", "Write it").id, seen.pop())

    def test_refused_is_parked_and_any_other_exception_is_tried_again(self):
        tries = []

        def work(received):
            tries.append(received.attempt)
            if "reject" in received.constraints:
                raise Refused("not work for a coder")
            if len(tries) == 1:
                raise ConnectionError("the model is not available")
        for spine in self.each(work):
            with self.assertLogs("handoff", "ERROR"):
                self.assertEqual(spine.hand_off("coder", "Write it").attempts, 2)
            tries.clear()
            with self.assertRaises(handoff.NotDeliveredError) as caught:
                spine.hand_off("coder", "Write it", constraints={"reject": True})
            [attempt] = spine.list_attempts(caught.exception.handoff)
            self.assertEqual(attempt["error"], "not work for a coder")
            tries.clear()

    def test_next_hands_the_task_on(self):
        def work(received):
            received.next("Review it", target_agent="reviewer", state={"decisions": ["three retries"]})
        for spine in self.each(work, {"reviewer": {}}):
            first = spine.hand_off("coder", "Write it")
            _, second = eventually(lambda: len(spine.get_task(first.task_id)) == 2 and spine.get_task(first.task_id), "two")
            self.assertEqual((second.source_agent, second.target_agent), ("coder", "reviewer"))
            self.assertEqual(spine.get_envelope(second)["previous"]["id"], first.id)

    def test_memories_are_fetched_when_they_are_read(self):
        seen = []

        def work(received):
            seen.append(({id: memory.content for id, memory in received.memories.items()},
                         [entry["id"] for entry in received.missing], received.still_missing()))
            self.assertEqual(received.memories["ms-2"].content, "It came late")
            with self.assertRaises(KeyError):
                received.memories["ms-3"]  # pylint: disable=pointless-statement
            received.flag_gaps(received.still_missing())
        for spine in self.each(work):
            spine.put_memory("ms-1", "The bank retries three times", summary="three retries")
            envelope = spine.agent_handoff("coder", "Write it", memory_ids=["ms-1", "ms-2", "ms-3"], strategy="lazy")
            spine.put_memory("ms-2", "It came late")
            done = spine.deliver_handoff(envelope)
            eventually(lambda: "ms-3" in [gap["id"] for gap in spine.get_handoff(done)["gaps"]], "the gap is flagged")
            self.assertEqual(seen.pop(), ({"ms-1": "The bank retries three times"}, ["ms-2", "ms-3"], ["ms-3"]))

    def test_what_was_omitted_is_in_the_ledger(self):
        seen = []

        def work(received):
            seen.append((received.omitted, [item["value"] for item in received.ledger("decision")], received.brief()))
        decisions = [f"decision {number}: " + "because of the long reason " * 20 for number in range(20)]
        for spine in self.each(work):
            spine.hand_off("coder", "Write it", state={"decisions": decisions}, constraints={"max_tokens": 1000})
            omitted, ledger, brief = seen.pop()
            self.assertGreater(omitted["decisions"], 5)
            self.assertEqual(ledger, decisions)
            self.assertIn("Write it", brief)

    def test_progress_and_long_work(self):
        """Work that takes longer than the lease and the answer of a push is extended, and acknowledged once."""
        release, calls = threading.Event(), []

        def work(received):
            calls.append(received.id)
            if self.way != "push":
                received.extend("ran 40 of 120 tests")
            release.wait(TIMEOUT)
        for spine in self.each(work, answer_within=0.2):
            accepted = spine.hand_off("coder", "Write it", wait=False)
            if self.way != "push":
                eventually(lambda: spine.get_handoff(accepted).progress == "ran 40 of 120 tests", "progress")
            else:
                self.caller.wait_for_state(accepted.id, "awaiting_ack")
            release.set()
            self.caller.wait_for_state(accepted.id, "acknowledged")
            self.assertEqual(len(calls), 1)
            release.clear()
            calls.clear()

    def test_deferred(self):
        waiting = []

        def work(received):
            received.next("Review it", target_agent="reviewer")
            waiting.append(received.defer())
        for spine in self.each(work, {"reviewer": {}}):
            accepted = spine.hand_off("coder", "Write it", wait=False)
            eventually(lambda: waiting, "the agent has it")
            self.assertNotEqual(spine.get_handoff(accepted).state, "acknowledged")
            deferred = waiting.pop()
            if self.way == "push":
                self.caller.wait_for_state(accepted.id, "awaiting_ack")
            deferred.acknowledge()
            self.assertTrue(spine.get_handoff(accepted).acknowledged)
            self.assertEqual(len(spine.get_task(accepted.task_id)), 2)
            with self.assertRaises(ValueError):
                deferred.refuse("too late")

    def test_a_duplicate_is_answered_again_and_not_done_again(self):
        """While the work is done, and when it is done."""
        release, calls = threading.Event(), []

        def work(received):
            calls.append(received.id)
            received.next("Review it", target_agent="reviewer")
            release.wait(TIMEOUT)
        for spine in self.each(work, {"reviewer": {}}, answer_within=0.1):
            if self.way != "push":
                continue  # a lease is given to one poller; see Restarts
            first = spine.hand_off("coder", "Write it", wait=False)
            self.caller.wait_for_state(first.id, "awaiting_ack")
            headers = {"Handoff-Id": first.id}
            push = Http(self.decorated.receive.partition("//")[2])
            self.assertEqual(push.request("POST", "/", b"{}", headers).status, 202)
            release.set()
            self.caller.wait_for_state(first.id, "acknowledged")
            again = push.request("POST", "/", b"{}", headers)
            self.assertEqual((again.status, again.json()["ack"]), (200, first.id))
            self.assertEqual(again.json()["next"]["target_agent"], "reviewer")
            self.assertEqual(calls, [first.id])
            self.assertEqual(len(spine.get_task(first.task_id)), 2)

    def test_what_is_no_handoff_is_rejected_by_a_push_server(self):
        with contextlib.closing(SeenFile(self.folder / "seen")) as seen, MemorySpine() as spine:
            with serving(agent("coder", receive="http://127.0.0.1:0", seen=seen)(print), spine=spine) as running:
                push = Http(running.urls[0].split("/")[2])
                self.assertEqual(push.request("POST", "/", b"{}").status, 400)
                self.assertEqual(push.request("GET", "/").status, 501)

    def test_markdown_for_the_model_and_fields_for_the_program(self):
        seen = []

        def work(received):
            seen.append((received.brief()[:1], received.task.summary))
        for spine in self.each(work):
            keys = {"format": "markdown", **({} if self.way != "push" else {"url": self.decorated.receive})}
            self.daemon.write_config(config({"coder": keys}))
            self.assertEqual(self.daemon.reload().status, 200)
            spine.hand_off("coder", "Write it")
            self.assertEqual(seen.pop(), ("#", "Write it"))


class Restarts(Case):
    def test_a_lost_answer_is_given_again_after_a_restart_of_the_agent(self):
        """The agent dies after the work and before its answer: the work is not done again, its successor is not lost."""
        spine = self.start({"coder": {"ack_timeout": "1s"}, "reviewer": {}})
        accepted = spine.hand_off("coder", "Write it", wait=False)
        with contextlib.closing(SeenFile(self.folder / "coder.seen")) as seen:
            seen.add(accepted.id, {"ack": accepted.id, "next": {
                "source_agent": "coder", "target_agent": "reviewer", "task_summary": "Review it"}})
        self.serve(agent("coder")(lambda received: self.fail("it was done before")))
        self.caller.wait_for_state(accepted.id, "acknowledged")
        self.assertEqual([step.target_agent for step in spine.get_task(accepted.task_id)], ["coder", "reviewer"])

    def test_a_store_of_the_callers_own(self):
        """What it holds is not done again, whichever process asks it."""
        calls, answers = [], {}
        store = unittest.mock.Mock(spec=["get", "add"], get=answers.get, add=answers.__setitem__)
        for _ in range(2):
            spine = self.enterContext(MemorySpine())
            with serving(agent("coder", receive="http://127.0.0.1:0", seen=store)(lambda received: calls.append(received.id)),
                         spine=spine) as running:
                push = Http(running.urls[0].split("/")[2])
                body = json.dumps({"envelope_version": "2.1", "context": {"task": {}}, "missing": [], "memory_refs": []})
                reply = push.request("POST", "/", body, {"Handoff-Id": "id-1"})
                self.assertEqual((reply.status, reply.json()), (200, {"ack": "id-1"}))
        self.assertEqual((calls, answers), (["id-1"], {"id-1": {"ack": "id-1"}}))

    def push(self, function, id="id-1", **options):
        """An agent that is pushed to, and a function that sends it the same handoff each time."""
        running = self.serve(agent("coder", receive="http://127.0.0.1:0", **options)(function),
                             spine=self.enterContext(MemorySpine()))
        body = json.dumps({"envelope_version": "2.1", "context": {"task": {}}, "missing": [], "memory_refs": []})

        def send():
            reply = Http(running.urls[0].split("/")[2]).request("POST", "/", body, {"Handoff-Id": id})
            return reply.status, reply.json() if reply.body else None
        return send

    def test_a_store_that_fails_for_a_moment(self):
        """Without its answer nothing is done; what it cannot keep is acknowledged, for it was done."""
        failure = RuntimeError("the database is locked")
        store = unittest.mock.Mock(spec=["get", "add"], get=unittest.mock.Mock(side_effect=[failure, None]),
                                   add=unittest.mock.Mock(side_effect=failure))
        calls = []
        send = self.push(lambda received: calls.append(received.id), seen=store)
        nacked = {"nack": "id-1", "reason": "RuntimeError: the database is locked", "retry": True}
        with self.assertLogs("handoff", "ERROR"):
            self.assertEqual(send(), (200, nacked))
            self.assertEqual(send(), (200, {"ack": "id-1"}))
        self.assertEqual(calls, ["id-1"])

    def test_a_duplicate_that_is_looked_up_while_the_work_ends(self):
        calls, answers, asked = [], {}, []
        first, again = threading.Event(), []

        def get(id):
            found = answers.get(id)
            asked.append(id)
            if len(asked) == 2:
                first.wait(TIMEOUT)  # meanwhile the first is done
            return found

        def work(received):
            calls.append(received.id)
            if len(calls) == 1:
                again.append(threading.Thread(target=lambda: again.append(send())))
                again[0].start()
                eventually(lambda: len(asked) == 2 or len(again) == 2, "the duplicate arrived")
        store = unittest.mock.Mock(spec=["get", "add"], get=get, add=answers.__setitem__)
        send = self.push(work, seen=store, concurrency=2)
        self.enterContext(unittest.mock.patch("handoff.client.MemorySpine.ack_handoff"))
        send()
        first.set()
        again[0].join(TIMEOUT)
        self.assertEqual(calls, ["id-1"])

    def test_what_is_no_exception_of_a_program_is_tried_again_too(self):
        for error in (SystemExit(2), asyncio.CancelledError("a scope was left")):
            with self.subTest(error=error), self.assertLogs("handoff", "ERROR"):
                send = self.push(unittest.mock.Mock(side_effect=error), seen=str(self.folder / type(error).__name__))
                for _ in range(2):
                    status_, answer = send()
                    self.assertEqual((status_, answer["retry"]), (200, True))
                    self.assertIn(type(error).__name__, answer["reason"])

    def test_next_takes_only_json(self):
        send = self.push(lambda received: received.next("Review it", state={"decisions": [{1, 2}]}))
        with self.assertLogs("handoff", "ERROR"):
            self.assertIn("TypeError: Object of type set is not JSON serializable", send()[1]["reason"])

    def test_a_generator_is_no_agent(self):
        """A call of it does nothing, so each handoff would be acknowledged without any work."""
        def write(received):
            yield received

        async def stream(received):
            yield received
        for function in (write, stream):
            with self.assertRaisesRegex(TypeError, "the function of coder has a yield"):
                agent("coder")(function)

    def test_an_agent_outlives_its_sidecar(self):
        address = f"127.0.0.1:{self.enterContext(reserved_port())}"
        self.start({"coder": {}}, addresses={"api": address})
        calls = []
        self.serve(agent("coder")(lambda received: calls.append(received.id)))
        first = self.spine().hand_off("coder", "Write it")
        self.daemon.kill()
        self.daemon.launch()
        self.daemon.expected_exit = 0
        second = self.spine().hand_off("coder", "Write it again")
        self.assertEqual(calls, [first.id, second.id])

    def test_a_wrong_token_ends_the_agent_with_the_reason(self):
        tokens = self.folder / "tokens"
        tokens.write_text("coder the-only-token-of-coder\n")
        self.start({"coder": {}}, api={"tokens_file": str(tokens)})
        with self.assertLogs("handoff", "ERROR") as logged:  # who does not wait hears of it, too
            serving_ = self.serve(agent("coder")(print), spine=self.spine(token="a-wrong-token-of-coder"))
            with self.assertRaises(handoff.AuthenticationError):
                serving_.wait()
        self.assertIn("coder receives no more: unauthenticated", logged.output[0])

    def test_one_process_for_each_file(self):
        with contextlib.closing(SeenFile(self.folder / "coder.seen")):
            with self.assertRaisesRegex(ValueError, "in use by another process"):
                SeenFile(self.folder / "coder.seen")

    def test_the_file_stays_small_and_survives_a_torn_line(self):
        path = self.folder / "coder.seen"
        with contextlib.closing(SeenFile(path, most=10)) as seen:
            for number in range(1000):
                seen.add(f"id-{number}", {"ack": f"id-{number}"})
        self.assertLess(path.stat().st_size, 2000)
        with open(path, "a", encoding="utf-8") as file:
            file.write('{"id": "torn", "ans')
        with contextlib.closing(SeenFile(path, most=10)) as seen:
            self.assertEqual(seen.get("id-999"), {"ack": "id-999"})
            self.assertIsNone(seen.get("id-1"))
            seen.add("next", {"ack": "next"})
        with contextlib.closing(SeenFile(path, most=10)) as seen:
            self.assertEqual(seen.get("next"), {"ack": "next"})


class Documents(Case):
    """What README.md, docs/clients.md and examples/pipeline.py print runs as printed."""

    def printed_blocks(self, name):
        return blocks((clients.TOP / name).read_text(encoding="utf-8"), "python")

    def start_program(self, text):
        path = self.folder / "program.py"
        path.write_text(text.replace("http://127.0.0.1:8780", self.daemon.api.url), encoding="utf-8")
        process = subprocess.Popen([sys.executable, "-u", str(path)], stdout=subprocess.PIPE, text=True, env=environment(
            HANDOFF_API_URL=self.daemon.api.url, HANDOFF_STATE_DIR=str(self.folder), PYTHONPATH=str(clients.PYTHON)))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process

    def check(self, text):
        """Runs it, and compares what it prints with the comments that say so."""
        output = self.start_program(text).communicate(timeout=TIMEOUT)[0]
        expected = re.findall(r"^# (.*)$", text, re.MULTILINE)
        self.assertTrue(expected)
        self.assertEqual(missing(expected, output), [], output)

    def test_the_tour(self):
        self.start({"reviewer": {}})
        self.check(self.printed_blocks("README.md")[0])

    def test_the_pipeline(self):
        self.daemon = self.enterContext(Daemon(config=(clients.TOP / "examples/pipeline.yml").read_text()))
        program = (clients.TOP / "examples/pipeline.py").read_text()
        output = self.start_program(program).communicate(timeout=TIMEOUT)[0].splitlines()
        self.assertEqual(output, ["Safe payments", "['Back off: The gateway answers 429 under load and never charges twice']",
                                  "{'max_retries': 3, 'must': ['cover the backoff with tests']}"])

    def test_the_guide(self):
        receiver = self.enterContext(Receiver(ack))
        self.start({"reviewer": {"url": receiver.url}})
        sending, assembling, publishing, receiving = self.printed_blocks("docs/clients.md")
        self.check(sending + assembling + publishing)
        self.daemon.write_config(config({"reviewer": {}}))
        self.daemon.reload()
        reviewer = self.start_program(receiving)
        self.spine().hand_off("reviewer", "the comparison")
        self.assertEqual(reviewer.stdout.readline(), "the comparison []\n")
        with self.assertRaisesRegex(handoff.NotDeliveredError, "refused"):
            self.spine().hand_off("reviewer", "the comparison", constraints={"reject": True})
        reviewer.terminate()  # it finishes what it has begun
        self.assertEqual(reviewer.wait(TIMEOUT), 0)


if __name__ == "__main__":
    unittest.main()
