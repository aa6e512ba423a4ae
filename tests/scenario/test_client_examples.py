# SPDX-License-Identifier: Apache-2.0
"""The examples that send and receive with the clients, each way and each language with each other."""

import contextlib
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

from harness import TIMEOUT, environment, eventually
from harness import clients
from harness.agents import Caller, daemon_with
from harness.ports import reserved_port

EXAMPLES = clients.TOP / "examples"


class Examples(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())

    def suffixes(self):
        return [".py"] if clients.node_too_old() else [".py", ".mjs"]

    def command(self, name):
        if name.endswith(".py"):
            return [sys.executable, "-u", str(EXAMPLES / name)]
        program = pathlib.Path(clients.built_typescript().name, name)  # where it finds the package
        program.write_bytes((EXAMPLES / name).read_bytes())
        return ["node", str(program)]

    def environment(self):
        return environment(HANDOFF_API_URL=self.daemon.api.url, HANDOFF_STATE_DIR=self.state, PYTHONPATH=str(clients.PYTHON))

    def start(self, name, *words):
        process = subprocess.Popen([*self.command(name), *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True, env=self.environment())
        for undo in (process.wait, process.kill, process.stdout.close):
            self.stack.callback(undo)
        return process

    def hand_off(self, suffix, *words, code=0):
        done = subprocess.run([*self.command(f"hand_off{suffix}"), *words], capture_output=True, text=True,
                              timeout=TIMEOUT, check=False, env=self.environment())
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def listens(self, url):
        host, port = url.split("/")[2].split(":")
        with contextlib.suppress(ConnectionError), socket.create_connection((host, int(port))):
            return True
        return False

    def each(self):
        for suffix in self.suffixes():
            for way in ("inbox", "stream", "push"):
                with self.subTest(suffix=suffix, way=way), contextlib.ExitStack() as self.stack:
                    url = f"http://127.0.0.1:{self.stack.enter_context(reserved_port())}"
                    self.state = self.stack.enter_context(tempfile.TemporaryDirectory())
                    agents = {"analyst": {"url": url} if way == "push" else {}, "reviewer": {}}
                    self.daemon = self.stack.enter_context(daemon_with(agents))
                    self.caller = Caller(self.daemon)
                    agent = self.start(f"agent{suffix}", "analyst", url if way == "push" else way)
                    if way == "push":
                        eventually(lambda: self.listens(url), "the agent listens")
                    yield suffix, agent

    def test_they_understand_one_another(self):
        for suffix, analyst in self.each():
            first, second = self.hand_off(suffix, "analyst", "reviewer").stdout.splitlines()
            self.assertRegex(first, r"^\S+ acknowledged after \d+ attempt\(s\)$")
            step, task = re.fullmatch(r"(\S+) ready: see handoffctl task (\S+)", second).groups()
            self.assertEqual([analyst.stdout.readline(), analyst.stdout.readline()], [
                "analyst works for researcher: Compare the gateways\n",
                "  gateway: The gateway answers 429 under load and never charges twice\n"])
            listed = self.caller.call("GET", f"/v1/tasks/{task}").json()["items"]
            self.assertEqual([item["id"] for item in listed], [first.split()[0], step])

    def test_an_agent_refuses_and_hands_on(self):
        for suffix, _ in self.each():
            reply = self.caller.send("analyst", constraints={"reject": True})
            self.assertEqual((reply.status, reply.json()["code"]), (502, "refused"))
            sent = self.caller.send("analyst", task_id="task-2", constraints={"then": "reviewer"}).json()
            items = self.caller.call("GET", f"/v1/tasks/{sent['task_id']}").json()["items"]
            self.assertEqual([item["target_agent"] for item in items], ["analyst", "reviewer"])
            self.assertRegex(self.hand_off(suffix, "nobody", "reviewer", code=1).stderr, "^unknown_agent: .*nobody")


if __name__ == "__main__":
    unittest.main()
