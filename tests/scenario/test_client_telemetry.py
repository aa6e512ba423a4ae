# SPDX-License-Identifier: Apache-2.0
"""Traces through the clients: of OpenTelemetry where it can be imported, and without it.

TypeScript runs with the real packages. OpenTelemetry for Python is in no Debian release that the project builds on, so
its four functions that the client calls are played here, as its documentation has them.
"""

import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

from harness import Receiver, TIMEOUT, environment
from harness import clients
from harness.agents import Caller, daemon_with
from harness.both_clients import kinds, opened
from harness.receiver import ack

PACKAGES = clients.TOP / "tests/adapters/node_modules"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

TYPESCRIPT = """
import { MemorySpine, agent, serving } from "handoff";
import { context, trace } from "@opentelemetry/api";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

new NodeTracerProvider().register();
const tracer = trace.getTracer("test");
const spine = new MemorySpine({ source_agent: "analyst" });
const told = {};
const coder = agent("coder", async (handoff) => {
  await Promise.resolve(); // the context is kept over a wait
  const span = tracer.startSpan("work");
  told.parent = span.parentSpanContext.spanId;
  told.delivered = handoff.trace.traceparent;
  told.worked = span.spanContext();
  await context.with(trace.setSpan(context.active(), span), () => spine.handOff({ target_agent: "tester", task_summary: "Try it" }));
});
const running = await serving([coder], { spine });
await tracer.startActiveSpan("send", async (span) => {
  told.sent = span.spanContext();
  await spine.handOff({ target_agent: "coder", task_summary: "Write it" });
});
await running.stop();
spine.close();
told.idle = trace.getActiveSpan() ?? null;
console.log(JSON.stringify(told));
"""

# As in https://opentelemetry-python.readthedocs.io: opentelemetry.propagate and opentelemetry.context.
PYTHON_API = {
    "__init__.py": "",
    "context.py": """
        import contextvars
        current = contextvars.ContextVar("current", default={})
        def get_current(): return current.get()
        def attach(context): return current.set(context)
        def detach(token): current.reset(token)
        """,
    "propagate.py": """
        from . import context as contexts
        def inject(carrier, context=None, setter=None): carrier.update(context or contexts.get_current())
        def extract(carrier, context=None, getter=None): return {**(context or contexts.get_current()), **carrier}
        """}

PYTHON = """
import json, sys
from handoff import MemorySpine, agent, serving
from opentelemetry import context
told = {}
@agent("coder")
def work(received):
    told["inside"] = context.get_current().get("traceparent")
    told["delivered"] = received.trace["traceparent"]
    spine.hand_off("tester", "Try it")
spine = MemorySpine(source_agent="analyst")
with serving(work, spine=spine):
    token = context.attach({"traceparent": sys.argv[1], "baggage": "not for the sidecar"})
    spine.hand_off("coder", "Write it")
    context.detach(token)
spine.close()
print(json.dumps(told))
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.tester = self.enterContext(Receiver(ack))
        self.daemon = self.enterContext(daemon_with({"coder": {}, "tester": {"url": self.tester.url}}))

    def run_program(self, *command, **variables):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                              env=environment(HANDOFF_API_URL=self.daemon.api.url, HANDOFF_STATE_DIR=str(self.folder), **variables))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def received_trace(self):
        """What the second receiver was told: (trace, span)."""
        [request] = self.tester.seen
        return request.headers["traceparent"].split("-")[1:3]


class OpenTelemetry(Case):
    def test_typescript(self):
        if clients.node_too_old():
            self.skipTest(clients.node_too_old())
        modules = self.folder / "node_modules"
        modules.mkdir()
        (modules / "@opentelemetry").symlink_to(PACKAGES / "@opentelemetry")
        shutil.copytree(pathlib.Path(clients.built_typescript().name, "node_modules/handoff"), modules / "handoff")
        (self.folder / "program.mjs").write_text(TYPESCRIPT, encoding="utf-8")
        told = self.run_program("node", "program.mjs")
        sent, delivered = told["sent"], told["delivered"].split("-")
        self.assertEqual(delivered[1], sent["traceId"])
        self.assertEqual((told["worked"]["traceId"], told["parent"]), (sent["traceId"], delivered[2]))
        self.assertEqual(self.received_trace()[0], sent["traceId"])
        self.assertIsNone(told["idle"])

    def test_python(self):
        package = self.folder / "opentelemetry"
        package.mkdir()
        for name, text in PYTHON_API.items():
            (package / name).write_text(textwrap.dedent(text), encoding="utf-8")
        told = self.run_program(sys.executable, "-c", PYTHON, PARENT, PYTHONPATH=f"{clients.PYTHON}:{self.folder}")
        self.assertEqual(told["delivered"].split("-")[1], PARENT.split("-")[1])
        self.assertEqual(told["inside"], told["delivered"])
        self.assertEqual(self.received_trace()[0], PARENT.split("-")[1])


class Without(Case):
    def test_what_an_agent_sends_continues_the_trace_of_its_handoff(self):
        caller = Caller(self.daemon)
        for kind in kinds():
            with self.subTest(client=kind.__name__), contextlib.ExitStack() as stack:
                client = opened(stack, kind, self.daemon.api.url)
                client.serve("coder", and_send="tester")
                self.assertEqual(caller.send("coder", {"traceparent": PARENT}).status, 200)
                self.assertEqual(self.received_trace()[0], PARENT.split("-")[1])
                client.stop()
                self.tester.seen.clear()


if __name__ == "__main__":
    unittest.main()
