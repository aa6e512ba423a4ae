# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""GET /v1/handoffs: by state, agents, task and time, in pages, as each caller may see them."""

import contextlib
import datetime
import pathlib
import tempfile
import unittest
import urllib.parse

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import Hold, ack, later, status

TOKENS = {"analyst": "analyst-0123456789abcdef", "coder": "coder-0123456789abcdef0",
          "writer": "writer-0123456789abcdef0", "@operator": "operator-0123456789abcdef"}


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.hold = Hold()
        self.addCleanup(self.hold.release)

    def start(self, **daemon):
        self.coder, self.writer = (self.stack.enter_context(Receiver(ack)) for _ in range(2))
        agents = {"coder": {"url": self.coder.url, "retries": 0}, "writer": {"url": self.writer.url},
                  "puller": {}}
        self.caller = Caller(self.stack.enter_context(daemon_with(agents, **daemon)))

    def list(self, headers=None, **query):
        reply = self.caller.call("GET", "/v1/handoffs?" + urllib.parse.urlencode(query),
                                 **(headers or {}))
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def ids(self, headers=None, **query):
        page = self.list(headers, **query)
        self.assertIsNone(page["next"])
        return [item["id"] for item in page["items"]]

    def send(self, target="coder", **fields):
        reply = self.caller.send(target, **fields)
        told = reply.json()
        return told.get("handoff", told)["id"]


class Filters(Case):
    def test_by_state(self):
        self.start()
        self.coder.do(ack, status(422), later, self.hold)
        wanted = {"acknowledged": self.send(), "parked": self.send()}
        wanted["awaiting_ack"] = self.caller.send_async()
        self.caller.wait_for_state(wanted["awaiting_ack"], "awaiting_ack")
        wanted["in_flight"] = self.caller.send_async()
        self.coder.wait_for(4)
        wanted["ready"] = self.caller.send_async("puller")
        wanted["discarded"] = self.caller.send_async("puller")
        self.caller.call("POST", f"/v1/handoffs/{wanted['discarded']}/cancel")
        for state in ("ready", "in_flight", "awaiting_ack", "acknowledged", "parked", "discarded"):
            self.assertEqual(self.ids(state=state), [wanted[state]], state)
        self.assertEqual(self.ids(state="expired"), [])
        self.assertEqual(set(self.ids()), set(wanted.values()))
        row, = self.list(state="parked")["items"]
        self.assertEqual(row, {**row, **self.caller.state(wanted["parked"])})

    def test_by_agents_and_task_together(self):
        self.start()
        ours = self.send(task_id="ours")
        theirs = self.send("writer", task_id="theirs", source_agent="editor")
        both = self.send("writer", task_id="theirs", new_chain=True)
        self.assertEqual(self.ids(), [ours, theirs, both])
        self.assertEqual(self.ids(source="analyst"), [ours, both])
        self.assertEqual(self.ids(target="writer"), [theirs, both])
        self.assertEqual(self.ids(task="theirs"), [theirs, both])
        self.assertEqual(self.ids(task="theirs", source="analyst", state="acknowledged"), [both])
        self.assertEqual(self.ids(task="theirs", target="coder"), [])
        self.assertEqual(self.ids(source="nobody"), [])

    def test_since_a_time(self):
        self.start()
        first, second, third = (self.send() for _ in range(3))
        for handoff, found in ((first, [first, second, third]), (third, [third])):
            since = self.caller.state(handoff)["created_at"]
            self.assertEqual(self.ids(since=since)[-len(found):], found)
            self.assertEqual(self.ids(since=since.replace("Z", "+00:00"), source="analyst",
                                      task="task-1")[-len(found):], found)
        self.assertEqual(self.ids(since="2099-01-01T00:00:00Z"), [])
        self.assertEqual(self.ids(since="1969-01-01T00:00:00Z"), [first, second, third])

    def test_in_pages(self):
        self.start()
        sent = [self.send(task_id=f"task-{i % 2}") for i in range(7)]
        for query, wanted in (({}, sent), ({"task": "task-0"}, sent[::2]),
                              ({"state": "acknowledged", "source": "analyst"}, sent)):
            found, cursor = [], {}
            while cursor is not None:
                page = self.list(limit=2, **query, **cursor)
                self.assertLessEqual(len(page["items"]), 2)
                found += [item["id"] for item in page["items"]]
                cursor = {"cursor": page["next"]} if page["next"] else None
            self.assertEqual(found, wanted)

    def test_newest_first_in_pages(self):
        self.start()
        sent = [self.send(task_id=f"task-{i % 2}") for i in range(7)]
        since = self.caller.state(sent[2])["created_at"]
        for query, wanted in (({}, sent), ({"task": "task-0"}, sent[::2]), ({"state": "acknowledged"}, sent),
                              ({"state": "expired"}, []), ({"since": since}, sent[2:])):
            found, cursor = [], {}
            while cursor is not None:
                page = self.list(limit=2, order="newest", **query, **cursor)
                found += [item["id"] for item in page["items"]]
                cursor = {"cursor": page["next"]} if page["next"] else None
            self.assertEqual(found[:len(wanted)], wanted[::-1], query)
            self.assertLessEqual(len(found), len(wanted) + 1)  # one of the same millisecond
        self.assertEqual(self.ids(order="oldest"), sent)

    def test_the_newest_that_expired_is_first(self):
        self.start()
        deadline = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1.5)
        limit = {"constraints": {"deadline": deadline.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
        expired = [self.caller.send_async("puller", **limit) for _ in range(3)]
        for handoff in expired:
            self.caller.wait_for_state(handoff, "expired")
        self.send("writer", task_id="another")  # it would inherit the deadline
        self.assertEqual(self.ids(state="expired", order="newest"), expired[::-1])
        self.assertEqual(self.ids(state="expired"), expired)

    def test_those_whose_envelopes_lack_memories(self):
        self.start()
        self.caller.call("PUT", "/v1/memories/known", {"content": "The bank retries"})
        whole = [self.send(), self.send(memory_ids=["known"])]
        poor = [self.send(memory_ids=["known", "never-stored"]), self.send("writer", memory_ids=["never-stored"], new_chain=True)]
        whole.append(self.send("writer", new_chain=True))
        self.assertEqual(self.ids(incomplete="true"), poor)
        self.assertEqual(self.ids(incomplete="true", order="newest", target="coder"), [poor[0]])
        self.assertEqual(set(self.ids(incomplete="false")), {*whole, *poor})

    def test_an_envelope_alone_is_no_handoff(self):
        self.start()
        reply = self.caller.call("POST", "/v1/envelopes", {
            "source_agent": "analyst", "target_agent": "coder", "task_id": "task-1",
            "task_summary": "Write it"})
        self.assertEqual((self.ids(), self.ids(task="task-1")), ([], []))
        self.caller.call("POST", f"/v1/envelopes/{reply.json()['id']}/deliver")
        self.assertEqual(self.ids(), [reply.json()["id"]])

    def test_what_cannot_be_read_is_refused(self):
        self.start()
        for query, code in (("state=lost", "invalid_request"), ("since=yesterday", "invalid_request"),
                            ("cursor=7", "invalid_cursor"), ("limit=0", "invalid_request"),
                            ("limit=1001", "invalid_request"), ("sate=parked", "invalid_request"),
                            ("order=latest", "invalid_request"), ("incomplete=yes", "invalid_request"),
                            ("source=%FF", "invalid_request")):
            reply = self.caller.call("GET", f"/v1/handoffs?{query}")
            self.assertEqual((reply.status, reply.json()["code"]), (400, code), query)
        problem = self.caller.call("GET", "/v1/handoffs?state=lost").json()
        self.assertEqual((problem["field"], problem["seen"]), ("state", "lost"))
        self.assertIn("awaiting_ack", problem["allowed"])


class Seen(Case):
    def test_an_agent_sees_what_it_is_a_party_to(self):
        tokens = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "tokens")
        tokens.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()))
        tokens.chmod(0o600)
        self.start(api={"tokens_file": str(tokens)})
        by = {name: {"authorization": f"Bearer {token}"} for name, token in TOKENS.items()}
        to_coder, to_writer = (
            self.send(target, headers=by["analyst"], task_id="task-1")
            for target in ("coder", "writer"))
        for query in ({}, {"task": "task-1"}, {"state": "acknowledged"}, {"source": "analyst"}):
            for name, found in (("analyst", [to_coder, to_writer]), ("coder", [to_coder]),
                                ("writer", [to_writer]), ("@operator", [to_coder, to_writer])):
                self.assertEqual(self.ids(by[name], **query), found, (name, query))
        self.assertEqual(self.ids(by["coder"], target="writer"), [])
        self.assertEqual(self.caller.call("GET", "/v1/handoffs").status, 401)


if __name__ == "__main__":
    unittest.main()
