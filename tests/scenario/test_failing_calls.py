# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""Every system call that the daemon makes for itself fails once, at each place where it is made.

A daemon linked with tests/support/failing_calls.c runs a round of everything: handoffs pushed over HTTP,
pulled and deferred, memories, lists, a scrape, a reload. For each kind of call, the first of a round fails,
then the second of the next round, and so on, until a round has no more of them. Whatever the failure hits:

- the daemon continues, and later rounds succeed; or, while it starts, it ends and names the cause;
- no request hangs; one that fails says what failed, as a problem, or its connection was refused;
- what was accepted is delivered, and its agent is not blamed;
- where something failed visibly, the log or the answer names the cause in the system's own words.
"""

import collections
import errno
import http.client
import json
import os
import random
import re
import subprocess
import unittest

from harness import Daemon, Receiver, eventually
from harness.agents import Caller, config
from harness.failing_calls import PROGRAM, FailingCalls

HANDOFFCTL = os.environ["HANDOFFCTL"]
SEED = int(os.environ.get("HANDOFF_SEED") or random.SystemRandom().randrange(1 << 32))

EAI_AGAIN, EAI_MEMORY = -3, -10

# What each can really fail with on Linux.
ERRORS = {
    "accept": [errno.EMFILE, errno.ECONNABORTED, errno.ENOBUFS, errno.ENOMEM],
    "epoll_create": [errno.EMFILE],
    "epoll_ctl": [errno.ENOMEM, errno.ENOSPC],
    "epoll_wait": [errno.EINTR],
    "open": [errno.EMFILE, errno.ENFILE, errno.EIO],
    "pread": [errno.EIO],
    "pwrite": [errno.EIO, errno.ENOSPC],
    "sync": [errno.EIO, errno.ENOSPC],
    "truncate": [errno.EIO],
    "resolve": [EAI_AGAIN, EAI_MEMORY],
    "timerfd": [errno.EMFILE],
    "eventfd": [errno.EMFILE],
    "socket": [errno.EMFILE, errno.ENOBUFS],
    "connect": [errno.EADDRNOTAVAIL],
    "mmap": [errno.ENOMEM],
    "thread": [errno.EAGAIN],
}
WORDS = {EAI_AGAIN: "Temporary failure in name resolution", EAI_MEMORY: "Memory allocation failure"}

# Of one kind and error: places that fail, at most, drawn from all that a round has.
PLACES = int(os.environ.get("HANDOFF_FAILING_PLACES", "12"))

BIG = "A long note about the payment gateway. " * 1600  # as much as one memory takes


def words_of(error):
    return WORDS.get(error) or os.strerror(error)


def cause(kind, error):
    """What the log or an answer must say of that failure."""
    words = [re.escape(words_of(error))]
    if kind in ("open", "pread", "pwrite", "sync", "truncate", "mmap"):
        words += ["disk", "open-file limit"]  # SQLite does not pass the system's words on
    if kind == "thread":
        words += ["process limit"]
    return "|".join(words)


def closing_ack(request):
    """Acknowledges and closes, so that the next handoff needs a name, a socket and a connection again."""
    request.handler.close_connection = True
    request.answer(200, {"ack": request.id}, connection="close")


class Round:
    """One of everything that the daemon does for agents, operators and Prometheus."""

    def __init__(self, daemon, number):
        self.daemon, self.number = daemon, number
        self.caller = Caller(daemon)
        self.accepted = []  # ids
        self.failures = []  # (what, status, text) of requests that failed

    def steps(self):
        return (self.memory, self.push, self.push_big, self.pull, self.read, self.scrape, self.reload)

    def run(self):
        for step in self.steps():
            step()
        return self

    def request(self, what, method, path, body=None, web=False, **headers):
        """The reply, or None when the connection was refused or cut. A time-out fails the test."""
        listener = self.daemon.web if web else self.daemon.api
        try:
            body = json.dumps(body) if body is not None else None
            reply = listener.request(method, path, body,
                                     {name.replace("_", "-"): value for name, value in headers.items()})
        except TimeoutError as error:
            raise AssertionError(f"{what} was not answered") from error
        except (OSError, http.client.HTTPException) as error:
            self.failures.append((what, 0, str(error)))
            return None
        if reply.status >= 400:
            self.failures.append((what, reply.status, reply.text))
        return reply

    def send(self, what, target, wait=True, **fields):
        body = {"source_agent": "analyst", "target_agent": target, "task_id": f"task-{self.number}",
                "task_summary": "Write the retry logic", **fields}
        headers = {} if wait else {"prefer": "respond-async"}
        reply = self.request(what, "POST", "/v1/handoffs", body, **headers)
        if reply is None:
            return None
        document = reply.json()
        handoff = document.get("handoff", document)
        if "id" in handoff:
            self.accepted.append(handoff["id"])
        return handoff.get("id")

    def memory(self):
        self.request("memory put", "PUT", f"/v1/memories/m-{self.number}", {"content": "short"})
        self.request("memory get", "GET", f"/v1/memories/m-{self.number}")

    def push(self):
        self.send("push", "coder", memory_ids=[f"m-{self.number}"])

    def push_big(self):
        self.send("big push", "coder", wait=False, memory_ids=["big"])

    def pull(self):
        self.send("pull", "puller", wait=False)
        reply = self.request("inbox", "GET", "/v1/agents/puller/inbox?wait=0s")
        if reply is not None and reply.status == 200:
            self.request("acknowledgement", "POST", f"/v1/handoffs/{reply.json()['id']}/ack")

    def read(self):
        self.request("list", "GET", f"/v1/tasks/task-{self.number}")
        self.request("search", "GET", "/v1/memories?query=short&limit=5")
        for handoff in self.accepted[-1:]:
            self.request("envelope", "GET", f"/v1/handoffs/{handoff}/envelope")
            self.request("attempts", "GET", f"/v1/handoffs/{handoff}/attempts")

    def scrape(self):
        self.request("scrape", "GET", "/metrics", web=True)
        self.request("page", "GET", "/", web=True)

    def reload(self):
        self.request("reload", "POST", "/-/reload", web=True)


class Case(unittest.TestCase):
    maxDiff = None
    ROUND = Round
    PLACES = PLACES
    MUST_FAIL = ("accept", "epoll_ctl", "open", "pread", "pwrite", "sync", "socket", "connect", "resolve")

    def setUp(self):
        print(f"HANDOFF_SEED={SEED}")
        self.dice = random.Random(SEED)
        self.calls = FailingCalls()
        self.addCleanup(self.calls.close)
        self.receiver = Receiver(closing_ack)
        self.addCleanup(self.receiver.close)
        self.number = 0
        self.daemon = self.make_daemon()
        self.accepted = []

    def make_daemon(self):
        daemon = Daemon("--shutdown.timeout=5s", "--log.level=debug", config=self.config(), program=PROGRAM, start=False,
                        env=self.calls.environment)
        self.addCleanup(daemon.discard)
        self.addCleanup(lambda: daemon.is_running() and daemon.kill())
        return daemon

    def config(self):
        """Each has another name for the receiver, since a name that was looked up is remembered."""
        _, _, port = self.receiver.address.rpartition(":")
        return config({"coder": {"url": f"http://r{self.number}.test:{port}/"}, "puller": {}},
                      {"retries": 3, "ack_timeout": "1s", "breaker": {"failures": 1000, "cooldown": "100ms"}})

    def round(self):
        self.number += 1
        self.daemon.write_config(self.config())
        done = self.ROUND(self.daemon, self.number).run()
        self.accepted += done.accepted
        return done

    def check_while_it_runs(self):
        self.daemon.start()
        self.assertEqual(Caller(self.daemon).call("PUT", "/v1/memories/big", {"content": BIG}).status, 201)
        self.round()
        before = self.calls.calls()
        self.assertEqual(self.round().failures, [])
        counts = {kind: count - before[kind] for kind, count in self.calls.calls().items()}
        fired = collections.Counter()
        for kind, error, place in self.everything(counts):
            if error == EAI_AGAIN:
                continue  # while it runs, that is a failed attempt: the name server failed, and not we
            with self.subTest(kind=kind, error=words_of(error), place=place):
                fired[kind] += self.check_round(kind, error, place)
        print(f"of {counts} calls of a round failed {dict(fired)}")
        for kind in self.MUST_FAIL:
            self.assertGreater(fired[kind], 0, f"no {kind} failed")
        self.check_accepted()

    def check_round(self, kind, error, place):
        """One round with that failure, and one without. Whether the call was made."""
        start = len(self.daemon.log())
        self.calls.arm(kind, place, error)
        failures = self.round().failures
        fired = self.calls.fired
        self.calls.disarm()
        self.assertTrue(self.daemon.is_running(), self.daemon.log()[start:])
        if not fired:
            self.assertEqual(failures, [])
        said = self.daemon.log()[start:]
        for what, status, text in failures:
            if status:
                self.assertRegex(text, '"code":|Internal Server Error: |<!doctype html>', what)
            said += text
        # libmicrohttpd closes a connection that epoll did not take; its reason is a debug line, and these
        # are limited
        if failures and not (kind == "epoll_ctl" and any(status == 0 for _, status, _ in failures)):
            self.assertRegex(said, cause(kind, error))
        self.assertEqual(self.round().failures, [], "one failure outlived its round")
        return fired

    def check_while_it_starts(self):
        self.daemon.start()
        self.assertEqual(Caller(self.daemon).call("PUT", "/v1/memories/big", {"content": BIG}).status, 201)
        self.round()
        self.daemon.kill()
        before = self.calls.calls()
        self.assertTrue(self.starts(), self.daemon.log())
        counts = {kind: count - before[kind] for kind, count in self.calls.calls().items()}
        ended = collections.Counter()
        for kind, error, place in self.everything(counts):
            with self.subTest(kind=kind, error=words_of(error), place=place):
                ended[kind] += self.check_start(kind, error, place)
        print(f"of {counts} calls of a start these ended it: {dict(ended)}")
        self.assertGreater(ended["open"], 0, "nothing ever kept it from starting")
        self.check_accepted()

    def starts(self):
        """Starts it; whether it became ready. It may also end, and must not hang."""
        if self.daemon.is_running():
            self.daemon.kill()
        self.daemon.log_path.unlink(missing_ok=True)
        self.daemon.launch()
        eventually(lambda: self.daemon.events("ready") or not self.daemon.is_running(),
                   "it is ready, or has ended")
        return bool(self.daemon.events("ready"))

    def check_start(self, kind, error, place):
        """A start with that failure, and a round. Whether the failure ended it."""
        self.calls.arm(kind, place, error)
        ready = self.starts()
        self.calls.disarm()
        if ready:
            self.round()
        else:
            self.assertEqual(self.daemon.process.returncode, 1, self.daemon.log())
            self.assertRegex(self.daemon.log(), cause(kind, error))
            self.assertTrue(self.starts(), self.daemon.log())
        self.assertEqual(self.round().failures, [])
        return not ready

    # ---- what both share

    def everything(self, counts):
        """(kind, error, place) of each call that should fail; counts: {kind: calls in a round}."""
        for kind, errors in ERRORS.items():
            for error in errors:
                places = min(counts[kind], self.PLACES)
                for place in sorted(self.dice.sample(range(counts[kind]), places)):
                    yield kind, error, place

    def check_accepted(self):
        """Everything that was accepted is acknowledged, and no agent is blamed."""
        caller = Caller(self.daemon)
        failed = []
        self.assertGreater(len(self.accepted), 50)
        for handoff in self.accepted:
            self.drain_inbox()
            caller.wait_for_state(handoff, "acknowledged")
            failed += [attempt for attempt in caller.attempts(handoff) if attempt["result"] == "connect"]
        self.assertEqual(failed, [], "what we lacked was counted as an attempt")
        for agent in caller.call("GET", "/v1/agents").json()["items"]:
            self.assertEqual((agent["circuit"], agent["consecutive_failures"]), ("closed", 0), agent)
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(), 0, self.daemon.log())
        done = self.store("check")
        if "file of the search index" in done.stderr:  # one that could not be read is rebuilt, which takes a while
            self.assertEqual(self.store("reindex").returncode, 0)
            done = self.store("check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def store(self, command):
        return subprocess.run([HANDOFFCTL, "store", command, str(self.daemon.folder / "data")],
                              capture_output=True, text=True, check=False)

    def drain_inbox(self):
        """Acknowledges what a cut round left in the inbox."""
        caller = Caller(self.daemon)
        while (reply := caller.call("GET", "/v1/agents/puller/inbox?wait=0s")).status == 200:
            caller.call("POST", f"/v1/handoffs/{reply.header('Handoff-Id')}/ack")


class FailingCallsTest(Case):
    def test_while_it_runs(self):
        self.check_while_it_runs()

    def test_while_it_starts(self):
        self.check_while_it_starts()


if __name__ == "__main__":
    unittest.main()
