# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around both clients: tokens that are replaced, a sidecar that hangs or is restarted, certificates, an
agent that stops itself, and two processes with one file."""

import contextlib
import json
import pathlib
import signal
import ssl
import tempfile
import threading
import time
import unittest

from harness import TIMEOUT, Http, eventually
from harness import clients
from harness.agents import Caller, daemon_with
from harness.authority import Authority
from harness.both_clients import ClientError, kinds, opened
from harness.clients import Failed, Node
from harness.ports import reserved_port
from harness.wire import Wire

from handoff import SeenFile

WAYS = ("inbox", "stream", "push")
SUBMIT = "POST /v1/handoffs "


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def each(self, *ways, tls=None, **more):
        """A client of each language, for each way to receive. The address of its sidecar stays."""
        for kind in kinds():
            for way in ways:
                with self.subTest(client=kind.__name__, receive=way), contextlib.ExitStack() as stack:
                    self.state = self.folder / f"{kind.__name__}-{way}"
                    address = f"127.0.0.1:{stack.enter_context(reserved_port())}"
                    self.receive = way if way != "push" else f"http://127.0.0.1:{stack.enter_context(reserved_port())}"
                    keys = {"ack_timeout": "5m", "token_budget": 1000000, **({"url": self.receive} if way == "push" else {})}
                    self.daemon = stack.enter_context(daemon_with({"coder": keys, "reviewer": {}}, addresses={"api": address},
                                                                  **more))
                    self.caller = Caller(self.daemon)
                    self.wire = stack.enter_context(Wire(address, tls))
                    self.client = opened(stack, kind, self.wire.url, **self.options(kind))
                    yield self.client

    def options(self, _kind):
        return {}

    def serve(self, **options):
        self.client.serve("coder", receive=self.receive, seen=str(self.state), **options)

    def wait_for_calls(self, *handoffs):
        eventually(lambda: len(self.client.calls()) >= len(handoffs), "the agent has them")
        self.assertEqual(self.client.calls(), list(handoffs))

    def answer_of(self, handoff):
        """What the agent remembers as its answer."""
        entries = [json.loads(line) for line in self.state.read_text(encoding="utf-8").splitlines()]
        return [entry["answer"] for entry in entries if entry["id"] == handoff]

    def stand_still(self):
        """The sidecar accepts connections, and does not answer."""
        process = self.daemon.process
        process.send_signal(signal.SIGSTOP)
        return contextlib.ExitStack().enter_context(_Continued(process))


class _Continued:
    def __init__(self, process):
        self.process = process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)


class Tokens(Case):
    OLD, NEW, OPERATOR = "the-first-token-of-coder", "the-second-token-of-coder", "the-only-token-of-operator"

    def options(self, _kind):
        return {"token_file": str(self.folder / "mine"), "source_agent": "coder"}

    def accept(self, *tokens):
        lines = [f"@operator {self.OPERATOR}", *(f"coder {token}" for token in tokens)]
        (self.folder / "tokens").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def send(self):
        reply = self.caller.send("coder", {"prefer": "respond-async", "authorization": f"Bearer {self.OPERATOR}"})
        self.assertEqual(reply.status, 202, reply.body)
        return reply.json()["id"]

    def wait_until_done(self, handoff):
        def state():
            return self.caller.call("GET", f"/v1/handoffs/{handoff}", authorization=f"Bearer {self.OPERATOR}").json()["state"]
        eventually(lambda: state() == "acknowledged", "it is acknowledged")

    def test_a_token_file_that_is_gone_for_a_moment(self):
        """It is replaced by unlink, create and write. Meanwhile calls are made with the last token."""
        mine = self.folder / "mine"
        self.accept(self.OLD, self.NEW)
        for client in self.each("inbox", "stream", api={"tokens_file": str(self.folder / "tokens")}):
            mine.write_text(self.OLD, encoding="utf-8")
            client.hold()
            self.serve()
            handoffs = [self.send()]
            self.wait_for_calls(*handoffs)
            mine.unlink()
            client.release()  # the first acknowledgement, over connections that have read no token
            self.wait_until_done(handoffs[0])
            for change in (lambda: None, lambda: mine.write_text("", encoding="utf-8"),
                           lambda: mine.write_text(self.NEW, encoding="utf-8")):
                change()
                self.wire.cut()
                handoffs.append(self.send())
                self.wait_until_done(handoffs[-1])
            self.assertEqual(client.calls(), handoffs)
            self.assertEqual(len([line for line in client.said() if "its last token is used" in line]), 1, client.said())
            self.assertTrue(any(self.NEW in request["authorization"] for request in self.wire.requests("inbox|ack")))
            client.stop()

    def test_a_token_file_that_never_was(self):
        self.accept(self.OLD)
        for client in self.each("inbox", api={"tokens_file": str(self.folder / "tokens")}):
            (self.folder / "mine").unlink(missing_ok=True)
            with self.assertRaisesRegex(ClientError, f"{self.folder}/mine: .*[Nn]o such file") as caught:
                client.send("coder")
            self.assertEqual((caught.exception.kind, caught.exception.code), ("AuthenticationError", "no_token"))


class Next(Case):
    FIELDS = {"task_summary": "Review it", "target_agent": "reviewer", "state": {"decisions": ["three"]},
              "extra": {"expected_output": {"format": "diff"}}}
    SENT = {"source_agent": "coder", "target_agent": "reviewer", "task_summary": "Review it",
            "state": {"decisions": ["three"]}, "expected_output": {"format": "diff"}}

    def test_next_is_the_same_document_whichever_way_it_goes(self):
        for client in self.each(*WAYS):
            self.serve(hand_on=self.FIELDS)
            done = client.send("coder")
            self.assertEqual(self.answer_of(done["id"]), [{"ack": done["id"], "next": self.SENT}])
            steps = eventually(lambda: (found := self.task(done))[1:] and found, "it was handed on")
            self.assertEqual([step["target_agent"] for step in steps], ["coder", "reviewer"])
            envelope = self.caller.call("GET", f"/v1/handoffs/{steps[1]['id']}/envelope").json()
            self.assertEqual(envelope["context"]["expected_output"], {"format": "diff"})
            self.assertEqual(envelope["source_agent"], "coder")

    def task(self, handoff):
        return self.caller.call("GET", f"/v1/tasks/{handoff['task_id']}").json()["items"]

    def test_a_push_is_answered_with_the_same_document(self):
        """Also with fields that this version does not know."""
        for client in self.each("push"):
            self.serve(hand_on={**self.FIELDS, "extra": {**self.FIELDS["extra"], "mood": "good"}})
            body = {"envelope_version": "2.1", "context": {"task": {}}, "missing": [], "memory_refs": []}
            push = Http(self.receive.partition("//")[2])
            reply = push.request("POST", "/", json.dumps(body), {"Handoff-Id": "id-1"})
            self.assertEqual(reply.json(), {"ack": "id-1", "next": {**self.SENT, "mood": "good"}})
            client.stop()


class Locks(unittest.TestCase):
    """One file that remembers serves one process at a time, of whichever language."""

    def setUp(self):
        clients.require_node()
        self.path = str(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "coder.seen"))

    def test_a_file_of_python_is_in_use_for_typescript(self):
        with Node() as node, contextlib.closing(SeenFile(self.path)) as seen:
            seen.add("id-1", {"ack": "id-1"})
            with self.assertRaisesRegex(Failed, "in use by another process"):
                node.run("new handoff.SeenFile(path)", path=self.path)
            seen.close()
            self.assertEqual(node.run("return new handoff.SeenFile(path).get('id-1')", path=self.path), {"ack": "id-1"})

    def test_a_file_of_typescript_is_in_use_for_python(self):
        with Node() as node:
            node.run("kept.seen = new handoff.SeenFile(path); kept.seen.add('id-1', { ack: 'id-1' })", path=self.path)
            with self.assertRaisesRegex(ValueError, "in use by another process"):
                SeenFile(self.path)
            node.process.kill()
            node.process.wait()
            with contextlib.closing(SeenFile(self.path)) as seen:
                self.assertEqual(seen.get("id-1"), {"ack": "id-1"})

    def test_a_python_process_that_was_killed_leaves_nothing_locked(self):
        """Nor does a child that it forked and that lives longer."""
        import multiprocessing  # pylint: disable=import-outside-toplevel
        context = multiprocessing.get_context("fork")
        ready, release = context.Event(), context.Event()

        def hold():
            seen = SeenFile(self.path)
            child = context.Process(target=lambda: (ready.set(), release.wait(TIMEOUT)))
            child.start()
            child.join()
            seen.close()
        holder = context.Process(target=hold)
        holder.start()
        self.assertTrue(ready.wait(TIMEOUT))
        with Node() as node:
            with self.assertRaisesRegex(Failed, "in use by another process"):
                node.run("new handoff.SeenFile(path)", path=self.path)
            holder.kill()
            holder.join()
            node.run("new handoff.SeenFile(path)", path=self.path)
            release.set()


class Timeouts(Case):
    def options(self, _kind):
        return {"retry_seconds": 1e6}

    def assert_in_time(self, call):
        """Within seconds, not after the 30 s that an answer may take without a timeout."""
        began = time.monotonic()
        with self.assertRaises(ClientError) as caught:
            call()
        self.assertLess(time.monotonic() - began, 15)
        return caught.exception

    def test_a_sidecar_that_hangs(self):
        for client in self.each("inbox"):
            client.send("coder", wait=False)  # over a connection that stays open
            for _ in range(2):
                with self.stand_still():
                    error = self.assert_in_time(lambda: client.send("coder", timeout=0.3))
                    self.assertEqual((error.kind, error.code), ("UnreachableError", "unreachable"))
                    self.assertIn("no answer in time", str(error))

    def test_a_sidecar_that_hangs_after_it_accepted_the_handoff(self):
        for client in self.each("inbox"):
            failed = []
            thread = threading.Thread(target=lambda: failed.append(self.assert_in_time(
                lambda: client.send("coder", timeout=2))))
            thread.start()
            eventually(lambda: len(self.wire.requests(SUBMIT)) == 2, "it was accepted and is waited for")
            with self.stand_still():
                thread.join(TIMEOUT)
            self.assertEqual(failed[0].kind, "HandoffTimeoutError")
            self.assertEqual(self.caller.state(failed[0].problem["handoff"]["id"])["state"], "ready")

    def test_all_of_the_timeout_is_waited(self):
        """Not only the whole seconds that the sidecar waits."""
        for client in self.each("inbox"):
            began = time.monotonic()
            error = self.assert_in_time(lambda: client.send("coder", timeout=1.4))
            self.assertGreaterEqual(time.monotonic() - began, 1.38)
            self.assertEqual(error.kind, "HandoffTimeoutError")
            self.assertEqual(len({request["idempotency-key"] for request in self.wire.requests(SUBMIT)}), 1)


class Stops(Case):
    def test_an_agent_that_stops_itself_acknowledges_first(self):
        for client in self.each(*WAYS):
            client.hold()
            self.serve(stops=True, concurrency=2)
            handoff = self.caller.send_async("coder")
            self.wait_for_calls(handoff)
            client.release()
            self.caller.wait_for_state(handoff, "acknowledged")
            self.assertIsNone(client.ended())
            self.assertEqual(len(self.caller.attempts(handoff)), 1)
            self.assertEqual(self.answer_of(handoff), [{"ack": handoff}])
            eventually(self.is_closed, "the file can be opened by the next")
            later = self.caller.send_async("coder")
            client.stop()
            self.assertEqual(client.calls(), [handoff])
            self.assertNotEqual(self.caller.state(later)["state"], "acknowledged")

    def is_closed(self):
        with contextlib.suppress(ValueError), contextlib.closing(SeenFile(self.state)):
            return True
        return False

    def test_many_that_wait_and_stop_say_nothing(self):
        for client in self.each("inbox", "stream"):
            self.serve(concurrency=20)
            handoff = self.caller.send_async("coder")
            self.caller.wait_for_state(handoff, "acknowledged")
            client.stop()
            client.stop()
            self.assertEqual(client.said(), [])

    def test_two_that_stop_at_the_same_time(self):
        for client in self.each(*WAYS):
            client.hold()
            self.serve(stops=True, concurrency=2)
            handoffs = [self.caller.send_async("coder", task_id=f"task-{number}") for number in range(2)]
            eventually(lambda: client.calls(), "the first is worked on")
            client.release()
            client.stop()
            for handoff in client.calls():
                self.caller.wait_for_state(handoff, "acknowledged")
            self.assertTrue(set(client.calls()) <= set(handoffs))


class Certificates(Case):
    """The sidecar is behind a proxy that ends TLS."""

    def context(self, days=2, name="api"):
        self.authority = Authority(self.folder, f"ca-{name}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.issue(name, "IP:127.0.0.1", days=days))
        return context

    def options(self, kind):
        return kind.trusting(str(self.trusted))

    def test_a_stream_and_polls_over_tls(self):
        tls = self.context()
        self.trusted = self.authority.path
        for client in self.each("inbox", "stream", tls=tls):
            self.serve()
            handoffs = []
            for _ in range(3):
                handoffs.append(self.caller.send_async("coder", constraints={
                    "max_tokens": 1000000, "long": "as it was said before " * 5000}))  # more than one record of TLS
                self.caller.wait_for_state(handoffs[-1], "acknowledged")
                self.wire.cut()  # it is opened again
            self.assertEqual(client.calls(), handoffs)
            client.stop()

    def check_refused(self, tls):
        for client in self.each("inbox", "stream", tls=tls):
            with self.assertRaisesRegex(ClientError, "certificate") as caught:
                client.send("coder")  # at once: it would not get better
            self.assertEqual((caught.exception.kind, caught.exception.code), ("UnreachableError", "bad_certificate"))
            self.serve()
            self.assertEqual((error := client.ended()).code, "bad_certificate", error)

    def test_a_certificate_of_another_authority(self):
        tls = self.context()
        self.trusted = Authority(self.folder, "other").path
        self.check_refused(tls)

    def test_a_certificate_that_has_expired(self):
        tls = self.context(days=0)
        self.trusted = self.authority.path
        self.check_refused(tls)


class Restarts(Case):
    """The sidecar ends and is started again while the agent works: the work is done once, and handed on once."""

    given_up = False  # whether the agent tries only once to answer

    def options(self, _kind):
        return {"retry_seconds": 0} if self.given_up else {}

    def end(self, number):
        if number == signal.SIGKILL:
            self.daemon.kill()
            self.daemon.expected_exit = 0
        else:
            self.daemon.terminate()
            self.daemon.wait()

    def ways_to_end(self):
        return (signal.SIGTERM, signal.SIGKILL)

    def check(self, handoff):
        self.caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(self.client.calls(), [handoff])
        self.assertEqual([step["target_agent"] for step in self.caller.call("GET", "/v1/tasks/task-1").json()["items"]],
                         ["coder", "reviewer"])
        self.assertEqual(len(self.answer_of(handoff)), 1)

    def has_tried(self):
        return any("was not taken" in line for line in self.client.said()) if self.given_up else self.wire.refused >= 3

    def begin(self):
        self.client.hold()
        self.serve(hand_on={"task_summary": "Review it", "target_agent": "reviewer"})
        handoff = self.caller.send_async("coder")
        self.wait_for_calls(handoff)
        return handoff

    def test_a_sidecar_that_is_back_before_the_work_is_done(self):
        for number in self.ways_to_end():
            for client in self.each("inbox", "stream"):
                handoff = self.begin()
                self.end(number)
                self.daemon.launch()
                eventually(lambda: self.caller.state(handoff), "it serves")
                client.release()
                self.check(handoff)
                client.stop()

    def test_a_sidecar_that_is_back_after_the_work_is_done(self):
        for number in self.ways_to_end():
            for client in self.each("inbox", "stream"):
                handoff = self.begin()
                self.end(number)
                client.release()
                eventually(self.has_tried, "the answer had no way")
                self.daemon.launch()
                self.check(handoff)
                client.stop()


class Lost(Restarts):
    """Where the answer is given up meanwhile, the second delivery is recognized."""

    given_up = True


if __name__ == "__main__":
    unittest.main()
