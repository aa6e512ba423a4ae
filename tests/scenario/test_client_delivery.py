# SPDX-License-Identifier: Apache-2.0
"""What the sidecar promises about delivery, once through each client: it is killed and restarted under them, slow, full,
draining, or of another version, and agents die between their work and their answer."""

import contextlib
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from harness import Receiver, TIMEOUT, environment, eventually
from harness import clients
from harness.agents import Caller, daemon_with
from harness.both_clients import ClientError, kinds, opened
from harness.ports import reserved_port
from harness.receiver import Hold, ack, status
from harness.wire import Wire


class Case(unittest.TestCase):
    def each(self, agents, *options, client=None, **more):
        """A client of each language, and a sidecar for it whose address stays the same over restarts."""
        for kind in kinds():
            with self.subTest(client=kind.__name__), contextlib.ExitStack() as stack:
                self.stack = stack
                address = f"127.0.0.1:{stack.enter_context(reserved_port())}"
                self.daemon = stack.enter_context(daemon_with(agents, *options, addresses={"api": address}, **more))
                self.caller = Caller(self.daemon)
                self.wire = stack.enter_context(Wire(address))
                self.client = opened(stack, kind, self.wire.url, **(client or {}))
                yield self.client

    def in_background(self, *arguments, **fields):
        """Sends, and returns a function that waits for the result."""
        found = []
        thread = threading.Thread(target=lambda: found.append(self.client.send(*arguments, **fields)), daemon=True)
        thread.start()

        def result():
            thread.join(TIMEOUT)
            self.assertTrue(found, "it was not sent")
            return found[0]
        return result

    def requests(self):
        return self.wire.requests("POST /v1/handoffs ")

    def restart(self):
        self.daemon.kill()
        self.daemon.launch()  # the client meets it before it listens
        self.daemon.expected_exit = 0


class Sending(Case):
    def test_a_sidecar_that_is_killed_while_it_is_waited_for(self):
        hold = Hold()
        with Receiver(hold, ack) as receiver:
            for _ in self.each({"coder": {"url": receiver.url, "timeout": "30s"}}):
                hold.released.clear()
                receiver.do(hold, ack)
                result = self.in_background("coder")
                eventually(lambda: receiver.requests, "it is delivered")
                self.restart()
                hold.release()
                self.assertEqual(result()["state"], "acknowledged")
                self.assertEqual(len({request.id for request in receiver.requests}), 1)
                self.assertEqual(len({request["idempotency-key"] for request in self.requests()}), 1)
                receiver.seen.clear()

    def test_a_sidecar_that_stands_still_for_a_while(self):
        with Receiver(ack) as receiver:
            for _ in self.each({"coder": {"url": receiver.url}}):
                self.daemon.process.send_signal(signal.SIGSTOP)
                result = self.in_background("coder")
                eventually(self.requests, "it was asked")
                self.daemon.process.send_signal(signal.SIGCONT)
                self.assertEqual(result()["state"], "acknowledged")
                self.assertEqual((len(self.requests()), len(receiver.requests)), (1, 1))
                receiver.seen.clear()

    def test_an_answer_that_is_lost(self):
        with Receiver(ack) as receiver:
            for _ in self.each({"coder": {"url": receiver.url}}):
                for marker in (b"HTTP/1.1 200", b"Content-Length: ", b'"state":"ack'):
                    before = len(self.requests())
                    self.wire.cut_after(marker)
                    self.assertEqual(self.client.send("coder")["state"], "acknowledged", marker)
                    first, second = self.requests()[before:]
                    self.assertEqual(first["idempotency-key"], second["idempotency-key"])
                    self.assertEqual(len(receiver.requests), 1)
                    receiver.seen.clear()

    def test_a_slow_agent_is_waited_for_or_left_to_the_sidecar(self):
        hold = Hold()
        with Receiver(hold, ack) as receiver:
            for client in self.each({"coder": {"url": receiver.url, "timeout": "30s"}}):
                hold.released.clear()
                receiver.do(hold, ack)
                with self.assertRaises(ClientError) as caught:
                    client.send("coder", timeout=0.3)
                self.assertEqual(caught.exception.kind, "HandoffTimeoutError")
                hold.release()
                self.caller.wait_for_state(caught.exception.problem["handoff"]["id"], "acknowledged")

    def test_a_full_sidecar_is_429_and_tried_again(self):
        for client in self.each({"coder": {}}, api={"max_in_flight": 1}):
            first = client.send("coder", wait=False)
            result = self.in_background("coder", wait=False)
            eventually(lambda: len(self.requests()) >= 3, "it is tried again")
            self.assertEqual(self.caller.call("POST", f"/v1/handoffs/{first['id']}/ack").status, 200)
            self.assertEqual(result()["state"], "ready")
            self.assertEqual(len({request["idempotency-key"] for request in self.requests()}), 2)

    def test_a_sidecar_that_drains_and_is_started_again(self):
        hold = Hold()
        with Receiver(hold) as receiver:
            for client in self.each({"coder": {"url": receiver.url, "timeout": "60s"}, "tester": {}}, "--shutdown.timeout=60s"):
                hold.released.clear()
                receiver.seen.clear()
                client.send("coder", wait=False)
                eventually(lambda: receiver.requests, "it is in flight")
                self.daemon.terminate()
                eventually(lambda: self.daemon.events("draining"), "it drains")
                result = self.in_background("tester", wait=False)
                eventually(lambda: self.wire.refused >= 2, "it is tried again")
                hold.release()
                self.daemon.wait()
                self.daemon.launch()
                self.assertEqual(result()["state"], "ready")

    def test_a_sidecar_that_cannot_write_is_503_and_tried_again(self):
        for _ in self.each({"coder": {}}):
            pid = self.daemon.process.pid
            soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
            result = self.in_background("coder", wait=False)
            eventually(lambda: self.wire.answered(b'"code":"store_io"'), "it was 503")
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
            self.assertEqual(result()["state"], "ready")
            self.assertEqual(len({request["idempotency-key"] for request in self.requests()}), 1)
            self.assertEqual(len(self.caller.call("GET", "/v1/handoffs").json()["items"]), 1)

    def test_a_limit_that_lasts_is_raised_after_the_retries(self):
        for client in self.each({"coder": {}}, api={"max_in_flight": 1}, client={"retry_seconds": 0}):
            client.send("coder", wait=False)
            with self.assertRaises(ClientError) as caught:
                client.send("coder", wait=False)
            self.assertEqual((caught.exception.kind, caught.exception.code), ("UnavailableError", "too_many_in_flight"))


class Versions(Case):
    """Only this sidecar can run here; what a later one may answer is played."""

    def answered(self, *steps):
        for kind in kinds():
            with self.subTest(client=kind.__name__), contextlib.ExitStack() as stack:
                self.later = stack.enter_context(Receiver(*steps))
                yield opened(stack, kind, f"http://{self.later.address}")

    def test_members_that_it_does_not_know_are_kept(self):
        answer = {"id": "1", "state": "acknowledged", "task_id": "t", "envelope_version": "2.9", "mood": {"is": "good"}}
        for client in self.answered(status(200, answer)):
            self.assertEqual(client.send("coder")["mood"], {"is": "good"})

    def test_codes_that_it_does_not_know_have_the_class_of_their_status(self):
        for code, kind in ((400, "InvalidRequestError"), (418, "InvalidRequestError"), (401, "AuthenticationError"),
                           (403, "PermissionDeniedError"), (404, "NotFoundError"), (409, "ConflictError"),
                           (502, "NotDeliveredError")):
            for client in self.answered(status(code, {"code": "a_new_one", "detail": "it is new", "seen": 7})):
                with self.assertRaises(ClientError) as caught:
                    client.send("coder")
                error = caught.exception
                self.assertEqual((error.kind, error.code, error.problem["seen"]), (kind, "a_new_one", 7))
                self.assertEqual(len(self.later.requests), 1)

    def test_a_new_code_of_503_is_tried_again(self):
        answer = {"id": "1", "state": "acknowledged", "task_id": "t"}
        for client in self.answered(status(503, {"code": "a_new_one"}, retry_after="0"), status(200, answer)):
            self.assertEqual(client.send("coder")["state"], "acknowledged")

    def test_agents_of_envelope_version_1_get_all_of_it(self):
        """Whatever form the sidecar sends an agent, its function is given the same."""
        for client in self.each({"coder": {"accepts": [1]}}):
            for receive in ("inbox", "stream"):
                client.serve("coder", receive=receive)
                self.assertEqual(client.send("coder", intent="Safe payments")["state"], "acknowledged")
                client.stop()


PROGRAMS = {"python": """
import sys
from handoff import MemorySpine, agent, serve
@agent("coder", receive=sys.argv[1])
def work(handoff):
    print(handoff.id, flush=True)
    sys.stdin.readline()
    handoff.next("Review it", target_agent="reviewer")
serve(work, spine=MemorySpine())
""", "typescript": """
import { agent, serve } from "handoff";
import { createInterface } from "node:readline";
const lines = createInterface({ input: process.stdin });
await serve([agent("coder", async (handoff) => {
  console.log(handoff.id);
  await new Promise((resolve) => lines.once("line", resolve));
  handoff.next("Review it", { target_agent: "reviewer" });
}, { receive: process.argv[2] })]);
"""}


class Deaths(unittest.TestCase):
    """The agent is killed after its work, before the sidecar has the answer: the next process answers, and works not."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def launch(self, language, receive):
        if language == "python":
            command, variables = [sys.executable, "-c", PROGRAMS[language], receive], {"PYTHONPATH": str(clients.PYTHON)}
        else:
            program = pathlib.Path(clients.built_typescript().name) / "dying.mjs"
            program.write_text(PROGRAMS[language], encoding="utf-8")
            command, variables = ["node", str(program), receive], {}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(
            HANDOFF_API_URL=self.daemon.api.url, HANDOFF_STATE_DIR=str(self.state), **variables))
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        self.stack.callback(process.stdin.close)
        self.stack.callback(process.stdout.close)
        return process

    def languages(self):
        return ("python",) if clients.node_too_old() else ("python", "typescript")

    def test_work_that_was_done_is_not_done_again(self):
        for language in self.languages():
            for receive in ("inbox", "stream"):
                with self.subTest(language=language, receive=receive), contextlib.ExitStack() as self.stack:
                    self.state = self.folder / f"{language}-{receive}"
                    address = f"127.0.0.1:{self.stack.enter_context(reserved_port())}"
                    self.daemon = self.stack.enter_context(daemon_with(
                        {"coder": {"ack_timeout": "5m"}, "reviewer": {}}, addresses={"api": address}))
                    self.check(language, receive)

    def check(self, language, receive):
        caller = Caller(self.daemon)
        first = self.launch(language, receive)
        sent = caller.send_async("coder")
        self.assertEqual(first.stdout.readline().strip(), sent)
        self.daemon.process.send_signal(signal.SIGSTOP)  # the answer stays on the way
        first.stdin.write("\n")
        first.stdin.flush()
        seen = self.state / "coder.seen"
        eventually(lambda: seen.exists() and sent in seen.read_text(), "the answer is remembered")
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        self.daemon.kill()  # with what it has not read
        self.daemon.launch()
        self.daemon.expected_exit = 0
        second = self.launch(language, receive)
        caller.wait_for_state(sent, "acknowledged")
        steps = caller.call("GET", "/v1/tasks/task-1").json()["items"]
        self.assertEqual([step["target_agent"] for step in steps], ["coder", "reviewer"])
        second.terminate()
        self.assertEqual(second.communicate(timeout=TIMEOUT)[0], "")  # it was not called


if __name__ == "__main__":
    unittest.main()
