# SPDX-License-Identifier: Apache-2.0
# variants: release asan tsan
# soak: yes
"""One long request beside many short ones, on one API loop: the long one is computed elsewhere.

No assertion reads a clock. The daemon has one API thread, and the workers have none of its time:
short requests that come after the long one are answered before it, and what the long one costs is
found in the processor time of the workers, not of that thread.
"""

import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import random
import select
import threading
import unittest

from harness import Daemon, eventually
from harness.agents import Caller, config
from harness.http import read_reply
from harness.ports import reserved_port

SHORT = 100
WORD = 1_000_000 if os.environ.get("HANDOFF_VARIANT", "release") == "release" else 200_000  # bytes that nothing cuts
BUDGET = 10_000_000


def word(length, seed=1):
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=length))


class LongRequests(unittest.TestCase):
    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        gone = f"http://127.0.0.1:{stack.enter_context(reserved_port())}/"
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(own)})  # one processor: one API thread
        try:
            daemon = stack.enter_context(Daemon(
                "--shutdown.timeout=200ms",
                config=config({"coder": {}, "reader": {"token_budget": BUDGET},
                               "gone": {"token_budget": BUDGET, "url": gone}})))
        finally:
            os.sched_setaffinity(0, own)
        self.daemon = daemon
        self.caller = Caller(daemon)
        self.assertEqual(len(self.threads("api")), 1)

    def counts_exactly(self):
        """Without a vocabulary, which not every machine has, an estimate costs too little to be seen."""
        if self.daemon.events("token_counts_estimated"):
            self.skipTest("the build has no vocabulary")

    def thread_ids(self, name):
        """Of the daemon's threads whose names begin so."""
        folder = pathlib.Path(f"/proc/{self.daemon.process.pid}/task")
        return [int(thread.name) for thread in folder.iterdir()
                if (thread / "comm").read_text("ascii").startswith(name)]

    def threads(self, name):
        """Their processor time in nanoseconds."""
        folder = pathlib.Path(f"/proc/{self.daemon.process.pid}/task")
        return [int((folder / str(thread) / "schedstat").read_text("ascii").split()[0])
                for thread in self.thread_ids(name)]

    def long_and_short(self, ask):
        """The answer of `ask`, and how many short requests were answered between it and its own."""
        answers = []
        asked = threading.Thread(target=lambda: answers.append(ask()))
        before = sum(self.threads("worker"))
        asked.start()
        eventually(lambda: sum(self.threads("worker")) > before, "a worker has the long request")
        connection = self.daemon.api.connection()
        short = 0
        while short < SHORT and not answers:
            connection.request("GET", "/v1/agents")
            self.assertEqual(connection.getresponse().read()[:1], b"{")
            short += 1
        connection.close()
        asked.join()
        return answers[0], short

    def send(self, **fields):
        return self.caller.send("reader", {"prefer": "respond-async"}, **fields)

    def test_a_long_word_is_counted_beside_others(self):
        text = word(3 * WORD)
        reply, short = self.long_and_short(lambda: self.send(state={"word": text}))
        self.assertEqual(reply.status, 202, reply)
        self.assertGreater(short, 0, "they do not wait for it")
        self.assertLess(sum(self.threads("api")), sum(self.threads("worker")))

    def test_it_is_the_same_envelope(self):
        text = word(100_000) + " and then some"
        reply = self.caller.call("POST", "/v1/envelopes", {
            "source_agent": "analyst", "target_agent": "reader", "task_summary": "s",
            "state": {"word": text}})
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(reply.json()["context"]["task"]["state"]["word"], text)
        halves = [self.caller.call("POST", "/v1/envelopes", {
            "source_agent": "analyst", "target_agent": "reader", "task_summary": "s",
            "state": {"word": part}}).json()["tokens"]["count"] for part in (text, "x")]
        self.assertGreater(halves[0], 50_000)
        self.assertLess(halves[1], 200)

    def test_a_key_finds_the_first_of_two_long_ones(self):
        fields = {"state": {"word": word(200_000)}}
        headers = {"prefer": "respond-async", "idempotency-key": "k"}
        first = self.caller.send("reader", headers, **fields)
        again = self.caller.send("reader", headers, **fields)
        other = self.caller.send("reader", headers, state={"word": word(200_000, seed=2)})
        self.assertEqual((first.status, again.status), (202, 202))
        self.assertEqual(first.json()["id"], again.json()["id"])
        self.assertEqual((other.status, other.json()["code"]), (409, "idempotency_conflict"))

    def test_mistakes_in_long_bodies_are_named(self):
        body = {"source_agent": "analyst", "target_agent": "reader", "task_summary": "s",
                "state": {"word": "x " * 100_000}}
        for change, field in (({"bogus": 1}, "bogus"), ({"task_summary": 7}, "task_summary"),
                              ({"constraints": {"max_tokens": 5}}, "constraints.max_tokens")):
            reply = self.caller.call("POST", "/v1/handoffs", {**body, **change})
            self.assertEqual(reply.json()["field"], field, reply)
        reply = self.caller.call("POST", "/v1/handoffs", json.dumps(body)[:-1])
        self.assertEqual(reply.json()["code"], "invalid_json")

    def test_long_memories_are_counted_once(self):
        self.counts_exactly()
        for i in range(20):
            reply = self.caller.call("PUT", f"/v1/memories/m{i}",
                                     {"content": word(60_000, seed=i), "tags": ["long", "x"]})
            self.assertEqual(reply.status, 201, reply)
        counted = sum(self.threads("worker"))
        reply = self.send(memory_ids=[f"m{i}" for i in range(20)], strategy="full")
        self.assertEqual(reply.status, 202, reply)
        self.assertLess(sum(self.threads("worker")) - counted, counted,
                        "copying them costs less than counting them did")

    def test_inherited_words_are_not_counted_again(self):
        self.counts_exactly()
        steps = [{"agent": "analyst", "action": word(4_000, seed=i)} for i in range(250)]
        before = sum(self.threads("worker"))
        first = self.send(execution_history=steps)
        counted = sum(self.threads("worker"))
        second = self.send(previous_id=first.json()["id"])
        self.assertEqual(second.status, 202, second)
        self.assertLess(sum(self.threads("worker")) - counted, counted - before)

    def test_a_sender_that_leaves_takes_its_long_request_along(self):
        self.counts_exactly()
        bodies = [json.dumps(self.body("stays", word(3 * WORD, seed=i))) for i in range(4)]
        busy = [threading.Thread(target=self.caller.call, args=("POST", "/v1/handoffs", body),
                                 kwargs={"prefer": "respond-async"}) for body in bodies]
        for thread in busy:
            thread.start()
        eventually(lambda: min(self.threads("worker")) > 0, "both workers are busy")
        body = json.dumps(self.body("leaves", "x " * 20_000)).encode()
        client = self.daemon.api.socket()
        client.sendall(b"POST /v1/handoffs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(body) + body)
        client.close()
        for thread in busy:
            thread.join()
        self.assertEqual(len(self.caller.call("GET", "/v1/tasks/stays").json()["items"]), 4)
        self.assertEqual(self.caller.call("GET", "/v1/tasks/leaves").json()["items"], [])

    @staticmethod
    def body(task, text):
        return {"source_agent": "analyst", "target_agent": "reader", "task_id": task,
                "task_summary": "s", "state": {"text": text}}

    def test_a_long_handoff_is_edited(self):
        text = word(100_000)
        old = self.caller.send("gone", state={"word": text})
        self.assertEqual(old.status, 502, old)
        parked = old.json()["handoff"]["id"]
        new = self.caller.call("POST", f"/v1/parked/{parked}/replay",
                               {"edit": {"task_summary": "again"}, "target_agent": "reader"})
        self.assertEqual(new.status, 200, new)
        envelope = self.caller.call("GET", f"/v1/handoffs/{new.json()['id']}/envelope").json()
        self.assertEqual(envelope["context"]["task"],
                         {"intent": "Write the retry logic", "summary": "again",
                          "state": {"word": text}})

    def test_a_full_queue_is_told_and_delays_nobody(self):
        """256 may wait; further ones are refused, to be tried again, and short ones are not delayed."""
        clients = [self.daemon.api.socket() for _ in range(300)]
        for client in clients:
            self.addCleanup(client.close)
        body = json.dumps(self.body("queue", "words of a long request " * 1_000)).encode()
        with self.stopped_workers():
            for client in clients:
                client.sendall(b"POST /v1/handoffs HTTP/1.1\r\nHost: x\r\nPrefer: respond-async\r\n"
                               b"Content-Length: %d\r\n\r\n" % len(body) + body)
            answered = eventually(lambda: self.readable(clients, 300 - 256), "the others are refused")
            for client in answered:
                reply = read_reply(client)
                self.assertEqual((reply.status, reply.json()["code"], reply.header("Retry-After")),
                                 (429, "too_many_in_flight", "1"))
            self.assertEqual(self.caller.call("GET", "/v1/agents").status, 200)
            self.assertEqual(self.caller.send("coder", {"prefer": "respond-async"}).status, 202)
        for client in set(clients) - set(answered):
            self.assertEqual(read_reply(client).status, 202)
        self.assertEqual(len(self.caller.call("GET", "/v1/tasks/queue?limit=1000").json()["items"]), 256)

    # ---- long bodies of calls that have other fields, too

    def api_and_workers(self, ask):
        """The answer, and the processor time of the API's thread and of the workers until then."""
        before = sum(self.threads("api")), sum(self.threads("worker"))
        reply = ask()
        return reply, sum(self.threads("api")) - before[0], sum(self.threads("worker")) - before[1]

    def next_of(self, size, **fields):
        numbers = list(range(10)) * (size // 30)  # small values take most time for their bytes
        return {"target_agent": "reader", "task_summary": "s", "state": {"numbers": numbers}, **fields}

    def pulled(self):
        handoff = self.caller.send("coder", {"prefer": "respond-async"}).json()["id"]
        self.caller.call("GET", "/v1/agents/coder/inbox")
        return f"/v1/handoffs/{handoff}/ack"

    def test_a_long_next_is_read_beside_others(self):
        reply, api, workers = self.api_and_workers(
            lambda: self.caller.call("POST", self.pulled(), {"next": self.next_of(3 << 20)}))
        self.assertEqual(reply.status, 200, reply)
        envelope = self.caller.call("GET", f"/v1/handoffs/{reply.json()['next']['id']}/envelope").json()
        self.assertEqual(len(envelope["context"]["task"]["state"]["numbers"]), (3 << 20) // 30 * 10)
        self.assertLess(10 * api, workers)

    def test_a_long_body_that_is_refused_is_read_beside_others(self):
        """Nothing but reading it takes time."""
        park = {"reason": "r", "request": {**self.next_of(3 << 20), "source_agent": "analyst"}}
        for path, body in ((self.pulled(), {"next": self.next_of(3 << 20)}), ("/v1/parked", park),
                           ("/v1/channels/none/publish", {"request": park["request"]})):
            with self.subTest(path):
                reply, api, workers = self.api_and_workers(
                    lambda path=path, body=body: self.caller.call("POST", path, {**body, "bogus": 1}))
                self.assertEqual((reply.status, reply.json().get("field")), (400, "bogus"), reply)
                self.assertLess(api, workers)

    def test_long_observations_are_counted_beside_others(self):
        item = {"source_agent": "analyst", "target_agent": "coder", "outcome": "acknowledged"}
        refused = {"items": [item], "bogus": self.next_of(3 << 20)["state"]}
        reply, api, workers = self.api_and_workers(lambda: self.caller.call("POST", "/v1/observations", refused))
        self.assertEqual(reply.status, 400, reply)
        self.assertLess(api, workers)
        taken = {"items": [{**item, "task_id": f"{'task' * 50}-{i}"} for i in range(999)] + [{"outcome": "lost"}]}
        reply = self.caller.call("POST", "/v1/observations", taken)
        self.assertEqual((reply.status, reply.json()["accepted"]), (200, 999), reply)
        self.assertEqual([rejected["index"] for rejected in reply.json()["rejected"]], [999])

    def test_unknown_fields_of_a_long_body_are_ignored(self):
        body = {"next": self.next_of(1 << 20), "bogus": [1] * 1000}
        reply = self.caller.call("POST", self.pulled(), body, prefer="handling=lenient")
        self.assertEqual((reply.status, reply.header("Preference-Applied")), (200, "handling=lenient"), reply)
        self.assertEqual([warning["field"] for warning in reply.json()["warnings"]], ["bogus"])
        self.assertEqual(reply.json()["next"]["state"], "ready")

    def test_an_edit_of_long_lists_compares_not_all_with_all(self):
        """It took minutes for lists like these."""
        ended = [f"question {i}" for i in range(WORD // 10)]
        old = self.caller.call("POST", "/v1/parked", {"reason": "r", "request": {
            **self.next_of(0), "source_agent": "analyst", "state": {"resolved": ended}}}).json()["id"]
        again = [f" {name} " for name in ended[1:]]
        reply = self.caller.call("POST", f"/v1/parked/{old}/preview", {"edit": {"state": {"unresolved": again}}})
        self.assertEqual(reply.status, 200, reply)
        reply = self.caller.call("POST", f"/v1/parked/{old}/replay", {"edit": {"state": {"unresolved": again}}})
        self.assertEqual(reply.status, 200, reply)
        state = self.caller.call("GET", f"/v1/handoffs/{reply.json()['id']}/envelope").json()["context"]["task"]["state"]
        self.assertEqual(len(state["unresolved"]), len(again))

    def test_an_acknowledgement_counts_whose_agent_leaves(self):
        path = self.pulled()
        body = json.dumps({"next": self.next_of(1 << 20)}).encode()
        with self.stopped_workers():
            client = self.daemon.api.socket()
            client.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) +
                           body)
            client.close()
        self.caller.wait_for_state(path.split("/")[3], "acknowledged")

    def test_the_end_does_not_wait_for_long_bodies(self):
        path = self.pulled()
        body = json.dumps({"next": self.next_of(3 << 20)}).encode()
        clients = [self.daemon.api.socket() for _ in range(8)]
        for client in clients:
            self.addCleanup(client.close)
            client.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) +
                           body)
        eventually(lambda: sum(self.threads("worker")) > 0, "a worker has one")
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(), 0)

    @staticmethod
    def readable(clients, count):
        found = select.select(clients, [], [], 0)[0]
        return found if len(found) >= count else None

    @contextlib.contextmanager
    def stopped_workers(self):
        """Only these threads, as a debugger does it: how long work takes must not decide."""
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        workers = self.thread_ids("worker")
        self.assertEqual(len(workers), 2)
        for thread in workers:
            if ptrace(0x4206, thread, None, None) != 0:  # PTRACE_SEIZE
                self.skipTest(f"this machine does not let us stop a thread: {os.strerror(ctypes.get_errno())}")
            self.assertEqual(ptrace(0x4207, thread, None, None), 0)  # PTRACE_INTERRUPT
            os.waitpid(thread, 0x40000000)  # __WALL
        try:
            yield
        finally:
            for thread in workers:
                ptrace(17, thread, None, None)  # PTRACE_DETACH

    def test_the_end_does_not_wait_for_long_requests(self):
        for i in range(3):
            threading.Thread(target=self.send_into_the_end, args=(i,), daemon=True).start()
        eventually(lambda: sum(self.threads("worker")) > 0, "a worker has one")
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(), 0)

    def send_into_the_end(self, seed):
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.send(state={"word": word(WORD, seed)})


if __name__ == "__main__":
    unittest.main()
