# SPDX-License-Identifier: Apache-2.0
"""The examples do what they say: against the real daemon, and against the installed library."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import unittest

from harness import Daemon, Receiver, TIMEOUT, environment
from harness.agents import Caller, config, daemon_with
from harness.installed import Installed
from harness.ports import reserved_port
from harness.receiver import ack, nack, status

EXAMPLES = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"], "examples")
PROGRAM = {".py": [sys.executable], ".mjs": ["node"]}
HEADER = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"], "client/handoff.h")


def command(name, *words):
    return [*PROGRAM[pathlib.Path(name).suffix], str(EXAMPLES / name), *words]


class Agent:
    """A receiving example that runs until the test is over; `lines` are what it printed."""

    def __init__(self, name, *words, **variables):
        self.process = subprocess.Popen(command(name, *words), stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=environment(**variables))
        self.buffer = b""
        self.first = self.line()

    def line(self):
        """Its next line."""
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], TIMEOUT)[0]:
                raise AssertionError(f"the agent is silent after {self.buffer!r}")
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                raise AssertionError(f"the agent ended after {self.buffer!r}")
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    @property
    def url(self):
        return self.first.rpartition(" ")[2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.rest = (self.buffer + self.process.communicate()[0]).decode().splitlines()


class Case(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())

    def agent(self, *words, **variables):
        return self.stack.enter_context(Agent(*words, **variables))

    def daemon(self, agents, **more):
        self.caller = Caller(self.stack.enter_context(daemon_with(agents, **more)))
        self.api = self.caller.daemon.api.url

    def run_example(self, name, *words, code=0, **variables):
        done = subprocess.run(command(name, *words), text=True, capture_output=True, check=False,
                              timeout=TIMEOUT,
                              env=environment(**{"HANDOFF_API_URL": self.api, **variables}))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done


def deliver(url, handoff, **context):
    """One delivery by hand: (status, Handoff-Ack, body)."""
    envelope = {"source_agent": "researcher", "target_agent": "analyst",
                "context": {"task": {"summary": "Compare"}, "constraints": {}, **context}}
    address = re.fullmatch(r"http://([^/]+)(/.*)", url)
    connection = http.client.HTTPConnection(address[1], timeout=TIMEOUT)
    with contextlib.closing(connection):
        connection.request("POST", address[2], json.dumps(envelope), {"Handoff-Id": handoff})
        reply = connection.getresponse()
        return reply.status, reply.headers["Handoff-Ack"], reply.read()


class Receivers(Case):
    def test_python_acknowledges_and_refuses(self):
        agent = self.agent("receive.py", "0")
        self.daemon({"analyst": {"url": agent.url}})
        reply = self.caller.send("analyst")
        self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"))
        self.assertEqual(agent.line(), "analyst works for analyst: Write the retry logic")
        status_, _, body = deliver(agent.url, "id-1", task={"summary": " "})
        self.assertEqual((status_, json.loads(body)),
                         (200, {"nack": "id-1", "reason": "there is nothing to do", "retry": False}))

    def test_python_does_what_comes_twice_once(self):
        with Agent("receive.py", "0") as agent:
            for _ in range(2):
                self.assertEqual(deliver(agent.url, "id-1"), (200, None, b'{"ack": "id-1"}'))
        self.assertEqual(agent.rest, ["analyst works for researcher: Compare"])

    def test_python_gives_no_answer_where_it_fails(self):
        agent = self.agent("receive.py", "0")
        with self.assertRaises(http.client.RemoteDisconnected):
            deliver(agent.url, "id-1", task={})

    def start_node(self):
        port = self.stack.enter_context(reserved_port())  # agent and daemon name each other
        self.daemon({"code-generator": {"url": f"http://127.0.0.1:{port}/"}})
        return self.agent("receive.mjs", str(port), HANDOFF_API_URL=self.api)

    def test_node_acknowledges_later(self):
        agent = self.start_node()
        handoff = self.caller.send_async("code-generator")
        self.assertEqual(agent.line(), "code-generator works for analyst: Write the retry logic")
        self.caller.wait_for_state(handoff, "acknowledged")
        # what it is given again, it acknowledges at once
        self.assertEqual(deliver(agent.url, handoff), (204, handoff, b""))

    def test_node_refuses(self):
        self.start_node()
        reply = self.caller.send("code-generator", constraints={"reject": True})
        self.assertEqual((reply.status, reply.json()["code"]), (502, "refused"))
        [attempt] = self.caller.attempts(reply.json()["handoff"]["id"])
        self.assertEqual((attempt["result"], attempt["error"]),
                         ("nack", "not work for a code generator"))

    def test_pulling_acknowledges_and_refuses(self):
        self.daemon({"reviewer": {}})
        agent = self.agent("pull.py", "reviewer", HANDOFF_API_URL=self.api)
        reply = self.caller.send("reviewer")
        self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"))
        self.assertEqual(agent.line(), "reviewing for analyst: Write the retry logic")
        reply = self.caller.send("reviewer", constraints={"reject": True})
        self.assertEqual((reply.status, reply.json()["code"]), (502, "refused"))


class Senders(Case):
    """Each test runs for both languages."""

    def each(self, agents, **more):
        for name in ("send.py", "send.mjs"):
            with self.subTest(example=name), contextlib.ExitStack() as self.stack:
                self.daemon(agents, **more)
                yield name

    def test_hands_off_two_steps_of_one_task(self):
        analyst = self.enterContext(Receiver(status(503), ack))
        for name in self.each({"analyst": {"url": analyst.url}, "reviewer": {}}):
            analyst.do(status(503), ack)
            first, second = self.run_example(name, "analyst", "reviewer").stdout.splitlines()
            self.assertRegex(first, r"^\S+ acknowledged after 2 attempt\(s\)$")
            step, state, task = re.fullmatch(r"(\S+) (\S+): see handoffctl task (\S+)",
                                             second).groups()
            self.assertEqual(state, "ready")
            envelope = self.caller.call("GET", f"/v1/handoffs/{step}/envelope").json()
            self.assertEqual(envelope["previous"]["id"], first.split()[0])
            self.assertEqual(envelope["context"]["task"]["intent"], "Make the payments reliable")
            self.assertEqual(envelope["context"]["constraints"],
                             {"max_tokens": 2000, "do_not": ["change the public interface"]})
            listed = self.caller.call("GET", f"/v1/tasks/{task}").json()["items"]
            self.assertEqual([h["id"] for h in listed], [first.split()[0], step])

    def test_tells_what_went_wrong(self):
        analyst = self.enterContext(Receiver(nack("not mine", retry=False)))
        for name in self.each({"analyst": {"url": analyst.url}, "reviewer": {}}):
            complaint = self.run_example(name, "nobody", "reviewer", code=1).stderr
            self.assertRegex(complaint, "^unknown_agent: ")
            complaint = self.run_example(name, "analyst", "reviewer", code=1).stderr
            [parked] = self.caller.parked()["items"]
            self.assertRegex(complaint, "^refused: ")
            self.assertIn(f"see handoffctl attempts {parked['id']}\n", complaint)

    def test_waits_out_what_passes(self):
        analyst = self.enterContext(Receiver())
        for name in self.each({"analyst": {"url": analyst.url}, "reviewer": {}}, defaults={
                "retries": 0, "breaker": {"failures": 1, "cooldown": "500ms"}}):
            analyst.do(status(500), ack)
            self.assertEqual(self.caller.send("analyst").json()["code"], "exhausted")
            self.assertIn("acknowledged after 1", self.run_example(name, "analyst", "reviewer").stdout)

    def test_waits_for_the_sidecar(self):
        for name in ("send.py", "send.mjs"):
            with self.subTest(example=name), contextlib.ExitStack() as stack:
                analyst = stack.enter_context(Receiver(ack))
                address = f"127.0.0.1:{stack.enter_context(reserved_port())}"
                sender = subprocess.Popen(
                    command(name, "analyst", "reviewer"), text=True, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, env=environment(HANDOFF_API_URL=f"http://{address}"))
                stack.enter_context(sender)
                stack.callback(sender.kill)
                self.assertRegex(sender.stderr.readline(), "^unreachable: ")
                stack.enter_context(Daemon("--shutdown.timeout=200ms", api=address, config=config(
                    {"analyst": {"url": analyst.url}, "reviewer": {}})))
                self.assertIn("acknowledged after 1", sender.communicate(timeout=TIMEOUT)[0])
                self.assertEqual(sender.returncode, 0)

    def test_sends_its_token(self):
        answer = {"id": "1", "state": "acknowledged", "attempts": 1, "task_id": "t"}
        api = self.enterContext(Receiver(status(200, answer)))
        file = self.enterContext(tempfile.NamedTemporaryFile("w"))
        file.write("secret\n")
        file.flush()
        for name in ("send.py", "send.mjs"):
            with self.subTest(example=name):
                self.api = f"http://{api.address}"
                self.run_example(name, "a", "b", HANDOFF_TOKEN_FILE=file.name)
                self.assertEqual(api.requests[-1].headers["Authorization"], "Bearer secret")
                self.run_example(name, "a", "b")
                self.assertIsNone(api.requests[-1].headers["Authorization"])


class Tokens(Case):
    """With api.tokens_file, each agent speaks for itself."""

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def test_every_agent_shows_its_own(self):
        self.folder = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        names = ("researcher", "code-generator", "reviewer")
        tokens = {name: self.file(name, f"the-token-of-{name}\n") for name in names}
        everybody = self.file("tokens", "".join(f"{name} the-token-of-{name}\n" for name in names))
        port = self.stack.enter_context(reserved_port())
        self.daemon({"code-generator": {"url": f"http://127.0.0.1:{port}/"}, "reviewer": {}},
                    api={"tokens_file": everybody})
        self.agent("receive.mjs", str(port), HANDOFF_API_URL=self.api,
                   HANDOFF_TOKEN_FILE=tokens["code-generator"])
        reviewer = self.agent("pull.py", "reviewer", HANDOFF_API_URL=self.api,
                              HANDOFF_TOKEN_FILE=tokens["reviewer"])
        for name in ("send.py", "send.mjs"):
            with self.subTest(example=name):
                done = self.run_example(name, "code-generator", "reviewer",
                                        HANDOFF_TOKEN_FILE=tokens["researcher"])
                self.assertIn("acknowledged after 1", done.stdout)
                self.assertEqual(reviewer.line(), "reviewing for researcher: Review the comparison")
                self.assertIn("unauthenticated", self.run_example(
                    name, "code-generator", "reviewer", code=1).stderr)
                self.assertIn("forbidden", self.run_example(
                    name, "code-generator", "reviewer", code=1,
                    HANDOFF_TOKEN_FILE=tokens["reviewer"]).stderr)


class Embedding(unittest.TestCase):
    """The C programs, built against what was installed and run in an empty folder."""

    @classmethod
    def setUpClass(cls):
        cls.installed = cls.enterClassContext(Installed())

    def run_program(self, source, *words, code=0):
        program = self.installed.build(source)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([program, *words], cwd=folder, text=True, capture_output=True,
                                  timeout=TIMEOUT, check=False, env=self.installed.environment())
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_send(self):
        with Receiver(status(503), ack) as analyst:
            done = self.run_program(EXAMPLES / "send.c", analyst.url)
            first, second = analyst.requests
        handoff = json.loads(done.stdout)
        self.assertEqual((handoff["state"], handoff["attempts"]), ("acknowledged", 2))
        self.assertEqual({first.id, second.id}, {handoff["id"]})
        self.assertEqual([line.split(": ")[1] for line in done.stderr.splitlines()], [
            "new -> ready at analyst", "ready -> in_flight at analyst",
            "in_flight -> ready at analyst", "ready -> in_flight at analyst",
            "in_flight -> acknowledged at analyst"])

    def test_send_to_one_that_refuses(self):
        with Receiver(status(400)) as analyst:
            done = self.run_program(EXAMPLES / "send.c", analyst.url, code=1)
        self.assertEqual(json.loads(done.stdout)["state"], "parked")
        self.assertIn("\nrefused: ", done.stderr)

    def test_receive(self):
        done = self.run_program(EXAMPLES / "receive.c")
        attempt, _, envelope = done.stdout.partition(": ")
        self.assertEqual(attempt, "attempt 1")
        self.assertEqual(json.loads(envelope)["target_agent"], "reviewer")
        code, _, handoff = done.stderr.partition(": ")
        self.assertEqual((code, json.loads(handoff)["state"]), ("ok", "acknowledged"))

    def test_the_example_in_the_header(self):
        text = re.search(r"#include <handoff\.h>.*?int main.*?\n \* {5}\}\n",
                         HEADER.read_text(), re.DOTALL)[0]
        source = self.installed.folder / "header.c"
        source.write_text(re.sub(r"^ \*(?: {5})?", "", " *     " + text, flags=re.MULTILINE))
        with Receiver(ack) as coder:
            done = self.run_program(source, coder.url)
        self.assertEqual(json.loads(done.stdout)["state"], "acknowledged")
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
