#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Five agents that work on tickets: researcher, analyst, code-generator, test-writer, reviewer.

They are scripts in place of models: what they "think" is canned, but the handoffs are real. Each receives
an envelope, acknowledges it, works for a while, stores what it found out, and hands off the task with
everything the next agent needs: decisions and their reasons, open questions, the ids of the relevant
memories, the expected result. Four of them run a server; the reviewer pulls from its inbox and
occasionally sends work back.

./scripts/demo runs them in its own process. In a container they run standalone:

    agents.py --api http://exporter:8780 --listen 0.0.0.0 [--fast]
"""

import argparse
import http.client
import http.server
import json
import queue
import random
import secrets
import signal
import threading
import time
import urllib.parse

import story

PORTS = {"researcher": 9001, "analyst": 9002, "code-generator": 9003, "test-writer": 9004}
WORKERS = 4         # per agent, so that one waiting for a circuit to close does not block the rest
SEND_BACK_EVERY = 6  # tickets
TIMEOUT = 60

TICKETS = [
    ("Retry failed payments", "Customers are charged twice when the gateway times out. Make retries safe."),
    ("Rate-limit the search API", "One customer's crawler makes search slow for all others."),
    ("Export invoices as PDF", "Accounting wants every invoice as a PDF, by the first of the month."),
    ("Rotate the signing keys", "Keys are two years old; rotate them without logging anybody out."),
    ("Page through audit logs", "The audit page times out for large customers."),
]

PROJECT_MEMORIES = {
    "project-goals": ("high", "The product handles payments for small shops. Correctness comes before speed, and every "
                              "change must be safe to roll back within a minute."),
    "project-style": ("medium", "Services are written in Python 3.11 with type annotations; tests use pytest; functions "
                                "are short, and errors are values that name what was seen and what is allowed."),
}


class Role:
    """The script of one agent."""

    def __init__(self, name, then, task, action, decision, reason, memory, output):
        self.name, self.then, self.task = name, then, task
        self.action, self.decision, self.reason = action, decision, reason
        self.memory, self.output = memory, output


ROLES = [
    Role("researcher", "analyst", "Find out what is known about: {title}",
         "searched tickets, code and the gateway's documentation", "treat the gateway's own id as the truth",
         "it is the only id that survives a time-out on both sides",
         "For '{title}': 14 tickets in 90 days, all after time-outs of more than 10 s. The gateway documents an "
         "idempotency header that we do not send.",
         {"format": "markdown", "length": "one page", "criteria": ["names its sources"]}),
    Role("analyst", "code-generator", "Decide how to solve: {title}",
         "compared three designs", "send an idempotency key and retry with backoff",
         "a queue would be a second system to run, and doing nothing costs refunds",
         "Design for '{title}': a key per order, three retries, exponential backoff with jitter, a table of outcomes. "
         "Rejected: a message queue (operations), a longer time-out (hides the fault).",
         {"format": "design note", "length": "two pages", "criteria": ["rejected designs with reasons"]}),
    Role("code-generator", "test-writer", "Write the code for: {title}",
         "wrote the change", "keep the public interface as it is", "four other services call it",
         "Change for '{title}': payments/retry.py (new, 140 lines), payments/gateway.py (touched in 3 places). No "
         "migration. Feature flag payments.retry, off by default.",
         {"format": "patch", "length": "under 300 lines", "criteria": ["type annotations", "no new dependency"]}),
    Role("test-writer", "reviewer", "Write the tests for: {title}",
         "wrote tests", "test against a gateway that times out after it has charged",
         "that is the case that costs money",
         "Tests for '{title}': 22 cases, among them a charge whose answer is lost, a repeat after a restart, and two "
         "workers at once. Coverage of retry.py is complete.",
         {"format": "patch", "length": "any", "criteria": ["fails without the change"]}),
    Role("reviewer", None, "Review code and tests for: {title}",
         "reviewed", "approved", "the tests fail without the change and pass with it",
         "Review of '{title}': approved.",
         {"format": "verdict", "length": "one paragraph", "criteria": ["approve or say what is missing"]}),
]
ROLE = {role.name: role for role in ROLES}


class Sidecar:
    """A client of the sidecar's API: one request, one answer, no library."""

    def __init__(self, url, stopping):
        self.address = urllib.parse.urlsplit(url)
        self.stopping = stopping

    def call(self, method, path, body=None, headers=None):
        """(status, headers, JSON or None); None if it is unreachable when the demo stops."""
        while not self.stopping.is_set():
            connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=TIMEOUT)
            try:
                connection.request(method, path, None if body is None else json.dumps(body), headers or {})
                reply = connection.getresponse()
                text = reply.read()
                return reply.status, reply.headers, json.loads(text) if text else None
            except (OSError, http.client.HTTPException):
                self.stopping.wait(0.5)
            finally:
                connection.close()
        return 0, {}, None


class Memories:
    """The spine as agents use it, with the fault that the script injects: it can lose everything."""

    def __init__(self, sidecar):
        self.sidecar = sidecar
        self.lock = threading.Lock()
        self.backup = {}      # what should be stored
        self.stored = set()   # what is
        self.losing = False

    def store(self, name, memory):
        self.sidecar.call("PUT", f"/v1/memories/{name}", memory)
        with self.lock:
            self.stored.add(name)

    def remove(self, name):
        with self.lock:
            if name not in self.stored:
                return
            self.stored.discard(name)
        self.sidecar.call("DELETE", f"/v1/memories/{name}")

    def put(self, name, importance, content, summary=None):
        memory = {"content": content, "importance": importance, "summary": summary or content[:80]}
        with self.lock:
            self.backup[name] = memory
            losing = self.losing
        if not losing:
            self.store(name, memory)

    def forget(self, names):
        """Deletes the memories of a finished task."""
        for name in names:
            with self.lock:
                self.backup.pop(name, None)
            self.remove(name)

    def lose(self):
        with self.lock:
            self.losing = True
            names = list(self.stored)
        for name in names:
            self.remove(name)

    def restore(self):
        with self.lock:
            self.losing = False
            lost = dict(self.backup)
        for name, memory in lost.items():
            self.store(name, memory)


class Agent:
    """One agent: its inbox and its workers."""

    def __init__(self, role, pipeline):
        self.role, self.pipeline = role, pipeline
        self.work = queue.Queue()
        self.broken = threading.Event()
        self.server = None
        self.started = False

    def listen(self, host, port):
        """Receives envelopes at http://host:port/handoffs; port 0 picks a free port."""
        agent = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = agent.take(json.loads(body))
                data = json.dumps(answer or {"error": "out of memory"}).encode()
                try:
                    self.send_response(200 if answer else 503)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:     # the client is gone and will retry
                    self.close_connection = True

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer((host, port), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False

    @property
    def port(self):
        return self.server.server_port

    def start(self):
        self.started = True
        loops = [self.serve if self.server else self.pull] + [self.worker] * WORKERS
        for loop in loops:
            threading.Thread(target=loop, name=self.role.name, daemon=True).start()

    def stop(self):
        if self.server and self.started:    # shutdown() waits for a loop that has to be there
            self.server.shutdown()
        if self.server:
            self.server.server_close()

    def serve(self):
        self.server.serve_forever(0.1)

    def pull(self):
        """What an agent without a server does: long polls of its inbox."""
        pipeline = self.pipeline
        while not pipeline.stopping.is_set():
            status, _, envelope = pipeline.sidecar.call("GET", f"/v1/agents/{self.role.name}/inbox?wait=5s")
            if status == 200 and envelope:
                answer = self.take(envelope)
                pipeline.sidecar.call("POST", f"/v1/handoffs/{answer['ack']}/ack")

    def take(self, envelope):
        """The acknowledgement, or None where it cannot take it."""
        time.sleep(self.pipeline.takes_about(self.pipeline.pace.reading))
        if self.broken.is_set():
            return None
        self.work.put(envelope)
        return {"ack": envelope["id"]}

    def worker(self):
        while not self.pipeline.stopping.is_set():
            try:
                envelope = self.work.get(timeout=0.2)
            except queue.Empty:
                continue
            self.pipeline.stopping.wait(self.pipeline.takes_about(self.pipeline.pace.work))
            self.finish(envelope)

    # ---- its work

    def finish(self, envelope):
        role, pipeline = self.role, self.pipeline
        task = envelope["task_id"]
        state = envelope["context"]["task"]["state"]
        title = state["title"]
        memory = f"{task}-{role.name}"
        if role.name == "reviewer" and not self.sends_back(envelope, state):
            pipeline.sidecar.call("POST", f"/v1/tasks/{task}/complete")
            pipeline.memories.forget(f"{task}-{name}" for name in ROLE)
            return
        pipeline.memories.put(memory, "high", role.memory.format(title=title))
        then = role.then or "code-generator"
        pipeline.hand_off({
            "source_agent": role.name, "target_agent": then, "previous_id": envelope["id"],
            "task_summary": ROLE[then].task.format(title=title),
            "state": {**state, "progress": f"{role.name} is done",
                      "decisions": state.get("decisions", []) + [f"{role.name}: {role.decision}"],
                      "unresolved": ["who turns the feature flag on"],
                      "remaining": [other.name for other in ROLES[ROLES.index(ROLE[then]):]]},
            "memory_ids": [*PROJECT_MEMORIES, *(f"{task}-{name}" for name in self.before(envelope))],
            "execution_history": [{"agent": role.name, "action": role.action, "decision": role.decision,
                                   "reason": role.reason, "memory_id": memory}],
            "expected_output": ROLE[then].output,
        })

    def before(self, envelope):
        """The agents that had the task until now, this one included, each once."""
        path = envelope["hop"]["path"] + [envelope["source_agent"], self.role.name]
        return [name for name in dict.fromkeys(path) if name in ROLE]

    @staticmethod
    def sends_back(envelope, state):
        return state["number"] % SEND_BACK_EVERY == 0 and "reviewer" not in envelope["hop"]["path"]


class Pipeline:
    """The agents, the tickets that come in, and what can go wrong."""

    def __init__(self, pace, seed=1):
        self.pace = pace
        self.random = random.Random(seed)
        self.stopping = threading.Event()
        self.agents = {role.name: Agent(role, self) for role in ROLES}
        self.began = None
        self.sidecar = self.memories = None

    def listen(self, host="127.0.0.1", ports=None):
        """Opens the servers; returns {agent: port}. ports: {agent: port}, or None for free ones."""
        for name in PORTS:
            self.agents[name].listen(host, (ports or {}).get(name, 0))
        return {name: self.agents[name].port for name in PORTS}

    def start(self, api):
        """Does not wait for the sidecar: the caller has to handle signals."""
        self.sidecar = Sidecar(api, self.stopping)
        self.memories = Memories(self.sidecar)
        self.began = time.monotonic()
        for agent in self.agents.values():
            agent.start()
        threading.Thread(target=self.take_tickets, name="tickets", daemon=True).start()

    def stop(self):
        self.stopping.set()
        for agent in self.agents.values():
            agent.stop()

    def elapsed(self):
        return time.monotonic() - self.began

    def wait_until(self, at):
        """Waits for that moment of the script; true if the demo stops first."""
        return self.stopping.wait(max(0, at - self.elapsed()))

    def takes_about(self, mean):
        """A random time around `mean`: mostly a little less, rarely much more, like real work."""
        return mean * self.random.lognormvariate(-0.125, 0.5)

    def hand_off(self, request, headers=None):
        """Repeats until accepted, also while the circuit is open. Parked handoffs are left to the operator."""
        while not self.stopping.is_set():
            status, headers_back, _ = self.sidecar.call("POST", "/v1/handoffs", request, headers)
            if status not in (429, 503):
                return
            self.stopping.wait(min(float(headers_back.get("Retry-After") or 1), 5))

    def take_tickets(self):
        for name, (importance, content) in PROJECT_MEMORIES.items():
            self.memories.put(name, importance, content)
        number = 0
        while not self.stopping.is_set():
            number += 1
            title, intent = TICKETS[number % len(TICKETS)]
            headers = {"traceparent": f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"}
            ticket = {"source_agent": "intake", "target_agent": "researcher",
                      "task_id": f"ticket-{secrets.token_hex(4)}-{number}", "intent": intent,
                      "task_summary": ROLE["researcher"].task.format(title=title),
                      "state": {"title": title, "number": number},
                      "memory_ids": list(PROJECT_MEMORIES),
                      "constraints": {"language": "python", "max_new_dependencies": 0},
                      "expected_output": ROLE["researcher"].output}
            threading.Thread(target=self.hand_off, args=(ticket, headers), daemon=True).start()
            self.wait_until(number * self.pace.task_every)

    # ---- events of the script

    def break_agent(self, name):
        self.agents[name].broken.set()

    def mend_agent(self, name):
        self.agents[name].broken.clear()

    def lose_memories(self):
        self.memories.lose()

    def restore_memories(self):
        self.memories.restore()

    def replay_parked(self):
        _, _, parked = self.sidecar.call("GET", "/v1/parked?limit=100")
        for handoff in (parked or {}).get("items", []):
            self.sidecar.call("POST", f"/v1/parked/{handoff['id']}/replay", {})


def main():
    parser = argparse.ArgumentParser(description="The demo's five agents and their script, against a running sidecar.")
    parser.add_argument("--api", required=True, help="the sidecar's API, such as http://exporter:8780")
    parser.add_argument("--listen", default="127.0.0.1", help="the address the agents listen on")
    parser.add_argument("--fast", action="store_true", help="sixty times faster")
    options = parser.parse_args()
    pace = story.FAST if options.fast else story.NORMAL
    pipeline = Pipeline(pace)
    pipeline.listen(options.listen, PORTS)
    stops = signal.SIGTERM, signal.SIGINT
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)     # in every thread started below; sigwait() takes them
    pipeline.start(options.api)
    print("\n".join(story.announcement(pace)), flush=True)
    story.Teller(pace, pipeline, lambda text: print(f"{story.clock(pipeline.elapsed()):>6}  {text}", flush=True)).start()
    signal.sigwait(stops)
    pipeline.stop()


if __name__ == "__main__":
    main()
