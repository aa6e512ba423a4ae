# SPDX-License-Identifier: Apache-2.0
"""The Python and the TypeScript client behind the same few methods, for tests of what both have to do.

    client = opened(stack, kind, daemon.api.url)    # kind is one of kinds()
        client.send("coder", task_summary="Write it")
        client.serve("coder", receive="stream", concurrency=2)
"""

import contextlib
import logging
import os
import pathlib
import ssl
import tempfile
import threading
import unittest.mock

from . import clients
from .clients import Failed, Node
from .wait import TIMEOUT

import handoff  # pylint: disable=wrong-import-position,wrong-import-order
from handoff import MemorySpine, Retry, agent, serving


class ClientError(Exception):
    """What a client raised: its class, and the code of a HandoffError."""

    def __init__(self, kind, code, text, problem=None):
        super().__init__(f"{kind}: {text}")
        self.kind, self.code, self.problem = kind, code, problem or {}


class _Logged(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


class PythonClient:
    def __init__(self, endpoint, folder, retry_seconds=TIMEOUT, **options):
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(unittest.mock.patch.dict(os.environ, {"HANDOFF_STATE_DIR": str(folder)}))
        self.spine = self.stack.enter_context(MemorySpine(endpoint, **{
            "source_agent": "analyst", "retry": Retry(seconds=retry_seconds, base=0.01, most=0.05), **options}))
        self.called, self.at_once, self.most, self.lock = [], 0, 0, threading.Lock()
        self.released = threading.Event()
        self.released.set()
        self.running = None
        self.logged = _Logged()
        logging.getLogger("handoff").addHandler(self.logged)
        self.stack.callback(logging.getLogger("handoff").removeHandler, self.logged)

    @staticmethod
    def trusting(authority):
        """The options for a sidecar whose certificate this authority has signed."""
        return {"tls": ssl.create_default_context(cafile=authority)}

    def send(self, target, task_summary="Write it", wait=True, timeout=None, **fields):
        try:
            return dict(self.spine.hand_off(target, task_summary, wait=wait, timeout=timeout, **fields))
        except handoff.HandoffError as error:
            raise ClientError(type(error).__name__, error.code, str(error), error.problem) from error

    def serve(self, name, and_send=None, hand_on=None, stops=False, **options):
        """An agent. and_send: the agent that it sends to while it works; hand_on: the fields with which it calls next();
        stops: it stops its agents while it works."""
        def work(received):
            if and_send:
                self.send(and_send)
            if hand_on:
                received.next(**hand_on)
            with self.lock:
                self.called.append(received.id)
                self.at_once += 1
                self.most = max(self.most, self.at_once)
            if stops:
                self.running.stop()
            self.released.wait(TIMEOUT)
            with self.lock:
                self.at_once -= 1
        self.running = self.stack.enter_context(serving(agent(name, **options)(work), spine=self.spine))

    def hold(self):
        self.released.clear()

    def release(self):
        self.released.set()

    def calls(self):
        with self.lock:
            return list(self.called)

    def said(self):
        """What it logged."""
        return list(self.logged.lines)

    def most_at_once(self):
        return self.most

    def stop(self):
        self.release()
        self.running.stop()

    def ended(self):
        """The error that ended the agent."""
        try:
            self.running.wait()
        except handoff.HandoffError as error:
            return ClientError(type(error).__name__, error.code, str(error))
        return None

    def silence(self, seconds):
        """How long a stream may be silent."""
        self.stack.enter_context(unittest.mock.patch("handoff.stream.SILENCE_SECONDS", seconds))

    def close(self):
        self.release()
        self.stack.close()


class TypeScriptClient:
    def __init__(self, endpoint, folder, retry_seconds=TIMEOUT, **options):
        self.node = Node(HANDOFF_STATE_DIR=str(folder))
        self.node.run("""
            kept.spine = new handoff.MemorySpine({ endpoint, source_agent: "analyst",
              retry: { seconds, base: 0.01, most: 0.05 }, ...options });
            Object.assign(kept, { called: [], at_once: 0, most: 0, waiting: [], held: false, said: [] });
            console.error = (...words) => kept.said.push(words.join(" "));
            process.on("warning", (warning) => kept.said.push(String(warning)))""",
                      endpoint=endpoint, seconds=retry_seconds, options=options)

    @staticmethod
    def trusting(authority):
        return {"tls": {"ca": pathlib.Path(authority).read_text(encoding="utf-8")}}

    def run(self, code, **given):
        try:
            return self.node.run(code, **given)
        except Failed as failed:
            error = failed.error
            raise ClientError(error["name"], error.get("code", ""), error["message"], error.get("problem")) from failed

    def send(self, target, task_summary="Write it", wait=True, timeout=None, **fields):
        options = {"wait": wait, **({} if timeout is None else {"timeout": timeout})}
        return self.run("return kept.spine.handOff({ target_agent, task_summary, ...fields }, options)",
                        target_agent=target, task_summary=task_summary, fields=fields, options=options)

    def serve(self, name, and_send=None, hand_on=None, stops=False, **options):
        self.run("""
            const work = async (received) => {
              if (to) await kept.spine.handOff({ target_agent: to, task_summary: "Write it" });
              const { task_summary, ...fields } = hand_on ?? {};
              if (hand_on) received.next(task_summary, fields);
              kept.called.push(received.id);
              kept.most = Math.max(kept.most, ++kept.at_once);
              if (stops) await kept.running.stop();
              if (kept.held) await new Promise((resolve) => kept.waiting.push(resolve));
              kept.at_once--;
            };
            kept.running = await handoff.serving([handoff.agent(name, work, options)], { spine: kept.spine })""",
                 name=name, to=and_send, hand_on=hand_on, stops=stops, options=options)

    def hold(self):
        self.run("kept.held = true")

    def release(self):
        self.run("kept.held = false; for (const resolve of kept.waiting.splice(0)) resolve()")

    def calls(self):
        return self.run("return kept.called")

    def said(self):
        return self.run("return kept.said")

    def most_at_once(self):
        return self.run("return kept.most")

    def stop(self):
        self.release()
        self.run("await kept.running.stop()")

    def ended(self):
        try:
            self.run("await kept.running.ended")
        except ClientError as error:
            return error
        return None

    def silence(self, seconds):
        path = pathlib.Path(clients.built_typescript().name, "node_modules/handoff/dist/stream.js")
        self.run("(await import(path)).limits.silence_ms = 1000 * seconds", path=str(path), seconds=seconds)

    def close(self):
        self.node.__exit__()


@contextlib.contextmanager
def _closing(kind, endpoint, options):
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(kind(endpoint, folder, **options)) as client:
        yield client


def kinds():
    """Both, or Python alone where Node.js is too old for the other: test_client_typescript.py says so by name."""
    return [PythonClient] if clients.node_too_old() else [PythonClient, TypeScriptClient]


def opened(stack, kind, endpoint, **options):
    """A client that is closed with the stack."""
    return stack.enter_context(_closing(kind, endpoint, options))
