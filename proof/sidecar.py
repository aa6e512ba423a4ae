# SPDX-License-Identifier: Apache-2.0
"""The way of this project: the real sidecar, over its agent API, with three kinds of senders.

The sidecar is killed with SIGKILL every few seconds and started again; senders repeat their requests under the same
idempotency key. With --spine http the memories are in a second sidecar, which is killed as well and stays away for a while:
handoffs that are assembled meanwhile lack their memories, and agents fetch what they need once it is back. A handoff that is parked is replayed, as an operator does
once the agent is back; one that its agent refused is replayed with an edit.
"""

import concurrent.futures
import http.client
import json
import pathlib
import random
import shutil
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
POLL_S = 0.01            # chosen: short beside what is waited for, a retry or a restart
LONGEST_PAUSE_S = 0.2
SPINE_GONE = "spine_unavailable"   # why an envelope lacks a memory


def reserve_port():
    """A socket whose port no client is given while a daemon is restarted.

    It is bound and never listens, so a program that sets SO_REUSEADDR, as servers do, may listen there beside it.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


class Daemon:
    """A handoff-exporter in a folder that goes with it. `_lock` guards `process` against the thread that kills it."""

    def __init__(self, program, config):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="handoff-proof-"))
        self._ports = [reserve_port(), reserve_port()]
        self.api, web = (holder.getsockname()[1] for holder in self._ports)
        file = self.folder / "handoff-exporter.yml"
        file.write_text(json.dumps(config), encoding="utf-8")
        self.command = [str(program), f"--config.file={file}", f"--storage.path={self.folder / 'store'}",
                        f"--web.listen-address=127.0.0.1:{web}", f"--api.listen-address=127.0.0.1:{self.api}",
                        "--log.level=warn"]
        self.log = open(self.folder / "log", "ab")
        self.kills = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._killer = None
        self.process = None
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.api}"

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def stop(self):
        self.process.kill()
        self.process.wait()

    @property
    def is_running(self):
        return self.process.poll() is None

    def keep_killing(self, every_s, gone_s=0):
        """In a thread, until end(); never if every_s is 0."""
        if every_s > 0:
            self._killer = threading.Thread(target=self._kill, args=(every_s, gone_s), daemon=True)
            self._killer.start()

    def _kill(self, every_s, gone_s):
        # Not in step with the other daemon: each could otherwise be up only while the other is down.
        while not self._over.wait(every_s * random.uniform(0.5, 1.5)):
            with self._lock:
                self.stop()
                self.kills += 1
                self._over.wait(gone_s)
                self.start()

    def last_words(self):
        """The end of its log."""
        text = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-10:])

    def end(self):
        self._over.set()
        if self._killer:
            self._killer.join()
        with self._lock:
            self.process.terminate()
            self.process.wait()
        for holder in self._ports:
            holder.close()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def configuration(receivers, options):
    return {"agents": {name: {"url": receivers.url(name)} for name in tasks.AGENTS},
            "defaults": {"token_budget": options.budgets[1], "timeout": f"{ways.SENDER_TIMEOUT_S:g}s",
                         "retries": options.retries, "backoff": {"base": "20ms", "max": "200ms"},
                         "breaker": {"cooldown": "300ms"}},
            "hops": {"max": 12}}


class Client:
    """The agent API, one connection for each thread; a call is repeated until the sidecar has answered it."""

    def __init__(self, daemon):
        self.daemon, self.port = daemon, daemon.api
        self._own = threading.local()
        self._lock = threading.Lock()
        self._opened = []    # guarded by _lock

    def call(self, method, path, body=None, unless=None, **headers):
        """(status, document). Not repeated if the answer has the code of `unless`."""
        text = None if body is None else json.dumps(body).encode()
        until = time.monotonic() + TRY_FOR_S
        pause = POLL_S
        while True:
            try:
                status, document = self._once(method, path, text, headers)
                if status not in (429, 503) or document and document.get("code") == unless:
                    return status, document
                last = document
            except (OSError, http.client.HTTPException) as error:
                self._own.connection.close()   # and is opened again by the next request
                last = error
            if time.monotonic() > until:
                raise ways.NotMeasured(f"{method} {path}: no answer for {TRY_FOR_S} s; the last was {last!r}."
                                       f" Its log ends with:\n{self.daemon.last_words()}")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _once(self, method, path, text, headers):
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TRY_FOR_S)
            with self._lock:
                self._opened.append(connection)
        connection.request(method, path, text, headers)
        answer = connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if data else None

    def close(self):
        with self._lock:
            for connection in self._opened:
                connection.close()

    def must(self, method, path, body=None, **headers):
        status, document = self.call(method, path, body, **headers)
        if status >= 300:
            raise ways.NotMeasured(f"{method} {path}: {status} {document}")
        return document


def memory(task, item):
    return {"content": item.text, "task_id": task.name, "agent": tasks.AGENTS[item.agent]}


class Exporter(ways.Way):
    """Handing off through the sidecar. Subclasses are the senders: what a request names beside what is new."""

    # ---- its life

    def open(self):
        config = configuration(self.receivers, self.options)
        self.spine = None
        if self.options.spine == "http":
            self.spine = Daemon(self.options.exporter, config)
            config = {**config, "spine": {"kind": "http", "url": self.spine.url}}
        self.sidecar = Daemon(self.options.exporter, config)
        self.client = Client(self.sidecar)
        self.remember_other_tasks()
        self.sidecar.keep_killing(self.options.kill_every)
        if self.spine:
            self.spine.keep_killing(self.options.spine_gone_every, self.options.spine_gone_for)

    def close(self):
        self.client.close()
        for daemon in (self.sidecar, self.spine):
            if daemon:
                daemon.end()

    @property
    def kills(self):
        return self.sidecar.kills

    @property
    def spine_kills(self):
        return self.spine.kills if self.spine else 0

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
        self.client.must("PUT", f"/v1/memories/{name}", memory(task, item))

    # ---- a handoff

    def hand_on(self, task, hand):
        """An agent that cannot store its memories hands on all the same, and stores them once the spine is back."""
        receiver = hand.agent + 1
        unstored = [item for item in task.brought_by(hand.agent, "fact") if not self.is_remembered(task, item)]
        self.forget(faults.forgotten(task.seed, task, receiver, self.options.forgets * self.options.faults))
        notes = self.deliver(self.request(task, hand), f"{task.name}-{receiver}")
        for item in unstored:
            self.remember(task, item, item.memory)
        document = self.receivers.taken(task.name, tasks.AGENTS[receiver])
        if document is None:
            raise ways.NotMeasured(f"{task.name}: acknowledged, but {tasks.AGENTS[receiver]} never got it")
        return self.read(document, notes)

    def is_remembered(self, task, item):
        """False if there is no spine."""
        status, document = self.client.call("PUT", f"/v1/memories/{item.memory}", memory(task, item), unless=SPINE_GONE)
        if status >= 300 and document["code"] != SPINE_GONE:
            raise ways.NotMeasured(f"{item.memory}: {status} {document}")
        return status < 300

    def forget(self, item):
        if item:
            self.client.call("DELETE", f"/v1/memories/{item.memory}")

    def deliver(self, request, key):
        """Until it is acknowledged. What a person had to do about it."""
        status, document = self.client.call("POST", "/v1/handoffs", request, **{"Idempotency-Key": key})
        handoff = document.get("handoff", document)
        if "state" not in handoff:
            raise ways.NotMeasured(f"{key}: {status} {document}")
        notes = []
        until = time.monotonic() + TRY_FOR_S
        while handoff["state"] != "acknowledged":
            if handoff["state"] == "parked":
                handoff = self.decide(handoff, request, notes)
            elif handoff.get("replaced_by"):
                handoff = self.client.must("GET", f"/v1/handoffs/{handoff['replaced_by']}")
            elif handoff["state"] in ("expired", "discarded") or time.monotonic() > until:
                raise ways.NotMeasured(f"{key}: {handoff}")
            else:
                time.sleep(POLL_S)
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
        raise ways.NotMeasured(f"replay of {handoff['id']}: {status} {document}")

    def read(self, document, notes):
        envelope = json.loads(document)
        if any(entry.get("reason") == SPINE_GONE for entry in envelope.get("missing", [])):
            notes = (*notes, "assembled without the spine")
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
