# SPDX-License-Identifier: Apache-2.0
"""The way of this project: the real sidecar, over its agent API, with three kinds of senders.

The sidecar is killed with SIGKILL every few seconds and started again; senders repeat their requests under the same
idempotency key. A handoff that is parked is replayed, as an operator does once the agent is back; one that its agent
refused is replayed with an edit.
"""

import concurrent.futures
import http.client
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse

import faults
import tasks
import ways

TRY_FOR_S = 60
REPLACED = "replaced by "   # the reason of a handoff that was edited, before the id of the new one


class ProofFailed(Exception):
    """The sidecar did what it must not: the run ends with it."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Sidecar:
    """The daemon in a folder that goes with it. `_lock` guards `process` against the thread that kills it."""

    def __init__(self, program, receivers, log=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="handoff-proof-"))
        self.api, web = free_port(), free_port()
        config = self.folder / "handoff-exporter.yml"
        config.write_text(json.dumps({
            "agents": {name: {"url": receivers.url(name)} for name in tasks.AGENTS},
            "defaults": {"token_budget": tasks.BUDGETS[1], "timeout": f"{ways.SENDER_TIMEOUT_S:g}s", "retries": ways.RETRIES,
                         "backoff": {"base": "20ms", "max": "200ms"}, "breaker": {"cooldown": "300ms"}},
            "hops": {"max": 12}}), encoding="utf-8")
        self.command = [str(program), f"--config.file={config}", f"--storage.path={self.folder / 'store'}",
                        f"--web.listen-address=127.0.0.1:{web}", f"--api.listen-address=127.0.0.1:{self.api}",
                        "--log.level=warn"]
        self.log = open(self.folder / "log", "ab")
        self.kills = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._killer = None
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def keep_killing(self, every_s):
        """In a thread, until end()."""
        self._killer = threading.Thread(target=self._kill, args=(every_s,), daemon=True)
        self._killer.start()

    def _kill(self, every_s):
        while not self._over.wait(every_s):
            with self._lock:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
                self.kills += 1
                self.start()

    def end(self):
        self._over.set()
        if self._killer:
            self._killer.join()
        with self._lock:
            self.process.terminate()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Client:
    """The agent API, one connection for each thread; a call is repeated until the sidecar has answered it."""

    def __init__(self, port):
        self.port = port
        self._own = threading.local()

    def call(self, method, path, body=None, **headers):
        """(status, document)"""
        text = None if body is None else json.dumps(body).encode()
        until = time.monotonic() + TRY_FOR_S
        while True:
            try:
                status, document = self._once(method, path, text, headers)
                if status not in (429, 503):
                    return status, document
            except (OSError, http.client.HTTPException):
                self._own.connection = None
            if time.monotonic() > until:
                raise ProofFailed(f"{method} {path}: no answer for {TRY_FOR_S} s")
            time.sleep(0.02)

    def _once(self, method, path, text, headers):
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TRY_FOR_S)
        connection.request(method, path, text, headers)
        answer = connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data else None

    def must(self, method, path, body=None, **headers):
        status, document = self.call(method, path, body, **headers)
        if status >= 300:
            raise ProofFailed(f"{method} {path}: {status} {document}")
        return document


class Exporter(ways.Way):
    """Handing off through the sidecar. Subclasses are the senders: what a request names beside what is new."""

    # ---- its life

    def open(self):
        self.sidecar = Sidecar(self.options.exporter, self.receivers)
        self.client = Client(self.sidecar.api)
        self.remember_other_tasks()
        if self.options.kill_every > 0:
            self.sidecar.keep_killing(self.options.kill_every)

    def close(self):
        self.sidecar.end()

    def remember_other_tasks(self):
        """Their memories are in the same store, and no task of the proof needs them."""
        def remember_one(number):
            other = tasks.make(self.options.seed + 1, number)
            for item in other.items:
                if item.kind == "fact":
                    self.remember(other, item, f"other-{item.memory}")

        with concurrent.futures.ThreadPoolExecutor(self.options.at_once) as pool:
            list(pool.map(remember_one, range(self.options.other_tasks)))

    def remember(self, task, item, name):
        self.client.must("PUT", f"/v1/memories/{name}",
                         {"content": item.text, "task_id": task.name, "agent": tasks.AGENTS[item.agent]})

    # ---- a handoff

    def hand_on(self, task, hand):
        receiver = hand.agent + 1
        for item in task.brought_by(hand.agent, "fact"):
            self.remember(task, item, item.memory)
        lost = faults.forgotten(task.seed, task, receiver, self.options.faults)
        if lost:
            self.client.call("DELETE", f"/v1/memories/{lost.memory}")
        notes = self.deliver(self.request(task, hand), f"{task.name}-{receiver}")
        document = self.receivers.taken(task.name, tasks.AGENTS[receiver])
        if document is None:
            raise ProofFailed(f"{task.name}: acknowledged, but {tasks.AGENTS[receiver]} never got it")
        return self.read(document, notes)

    def deliver(self, request, key):
        """Until it is acknowledged. What a person had to do about it."""
        status, document = self.client.call("POST", "/v1/handoffs", request, **{"Idempotency-Key": key})
        handoff = document.get("handoff", document)
        if "state" not in handoff:
            raise ProofFailed(f"{key}: {status} {document}")
        notes = []
        until = time.monotonic() + TRY_FOR_S
        while handoff["state"] != "acknowledged":
            if handoff["state"] == "parked":
                handoff = self.decide(handoff, request, notes)
            elif handoff["state"] == "discarded" and handoff["reason"].startswith(REPLACED):
                handoff = self.client.must("GET", f"/v1/handoffs/{handoff['reason'].removeprefix(REPLACED)}")
            elif handoff["state"] in ("expired", "discarded") or time.monotonic() > until:
                raise ProofFailed(f"{key}: {handoff}")
            else:
                time.sleep(0.01)
                handoff = self.client.must("GET", f"/v1/handoffs/{handoff['id']}")
        return tuple(notes)

    def decide(self, handoff, request, notes):
        """As an operator does."""
        refused = handoff["reason"] == "refused"
        notes.append("edited by a person" if refused else "replayed by a person")
        body = {"reason": "the agent is back", "again": True}
        if refused:
            body["edit"] = {"task_summary": request["task_summary"] + " Plain text will do."}
        status, document = self.client.call("POST", f"/v1/parked/{handoff['id']}/replay", body)
        if status == 200:
            return document
        if status == 409:   # it was replayed before the sidecar was killed
            return self.client.must("GET", f"/v1/handoffs/{handoff['id']}")
        raise ProofFailed(f"replay of {handoff['id']}: {status} {document}")

    def read(self, document, notes):
        envelope = json.loads(document)
        return ways.Received(json.dumps(envelope["context"], ensure_ascii=False), envelope["tokens"]["count"], envelope,
                             lambda path: self.client.call("GET", path), notes)

    # ---- the request

    def request(self, task, hand):
        source, target = tasks.AGENTS[hand.agent], tasks.AGENTS[hand.agent + 1]
        request = {"source_agent": source, "target_agent": target, "task_id": task.name, "include_recent": 20,
                   "include_pins": True, "task_summary": self.summary(task, hand, target),
                   "constraints": {"max_tokens": task.budgets[hand.agent + 1]},
                   "execution_history": self.steps(task, hand), "state": self.state(task, hand)}
        if hand.agent == 0:
            request["intent"] = task.brought_by(0, "intent")[0].text
            request["constraints"]["must_not"] = [item.text for item in task.brought_by(0, "constraint")]
        self.add(request, task, hand)
        return request

    def summary(self, task, hand, target):
        asides = " ".join(item.text for item in task.brought_by(hand.agent, "subtle"))
        return f"{target}: continue with what {tasks.AGENTS[hand.agent]} has found. {asides}".strip()

    def steps(self, task, hand):
        name = tasks.AGENTS[hand.agent]
        facts = task.brought_by(hand.agent, "fact")
        steps = [{"agent": name, "action": item.text} for item in task.brought_by(hand.agent, "step")]
        for step, fact in zip(steps, facts):
            step["memory_id"] = fact.memory
        return steps

    def state(self, task, hand):
        return {"decisions": [item.text for item in task.brought_by(hand.agent, "decision")],
                "unresolved": [item.text for item in task.brought_by(hand.agent, "unresolved")]}

    def add(self, request, task, hand):
        """What this kind of sender names besides."""
        raise NotImplementedError


class Sample(Exporter):
    """As the specification's sample does: no previous_id, no memory_ids; the ids are in the summary and the steps."""

    title = "handoff-exporter, names no parent"

    def add(self, request, task, hand):
        first, last = (item.memory for item in task.brought_by(hand.agent, "fact"))
        request["task_summary"] += f" The analysis is in memories {first} through {last}."


class Plain(Exporter):
    """Names what it continues, and only what is new."""

    title = "handoff-exporter, only what is new"

    def add(self, request, task, hand):
        request["memory_ids"] = [item.memory for item in task.brought_by(hand.agent, "fact")]
        if hand.received:
            request["previous_id"] = hand.received.envelope["id"]


class Careful(Plain):
    """Names all that it was handed again."""

    title = "handoff-exporter, repeats everything"

    def add(self, request, task, hand):
        super().add(request, task, hand)
        if not hand.received:
            return
        context = hand.received.envelope["context"]
        state = context["task"].get("state", {})
        request["memory_ids"] += [name for name in hand.received.envelope["memory_refs"]
                                  if name not in request["memory_ids"]]
        request["execution_history"] = context.get("history", []) + request["execution_history"]
        for kind in ("decisions", "unresolved"):
            request["state"][kind] = state.get(kind, []) + request["state"][kind]
        inherited = {name: value for name, value in context["constraints"].items() if name != "max_tokens"}
        request["constraints"].update(inherited)


def memory_path(name):
    return f"/v1/memories/{urllib.parse.quote(name, safe='')}"
