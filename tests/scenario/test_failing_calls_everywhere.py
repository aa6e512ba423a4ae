# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""Every system call that the daemon makes for itself fails once, in what test_failing_calls.py does not ask for.

Channels with a receiver that subscribes and leaves, decisions, edits and bulk jobs about what is parked, memories
that a receiver fetches later, the review page, the status page, and scrapes as protobuf and compressed. Then memories
behind an HTTP server. The same holds as there; and what is parked stays parked until an answer said otherwise.
"""

import errno
import json
import pathlib
import tempfile
import unittest

from harness import eventually
from harness.agents import Caller, config
from test_failing_calls import PLACES, Case, Round
from test_spine_http import TABLE, FactServer

PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
ENDED = ("done", "stopped")


class DecisionsRound(Round):
    def __init__(self, daemon, number):
        super().__init__(daemon, number)
        self.parked = []  # ids

    def steps(self):
        return (self.subscribe, self.publish, self.recover, self.decide, self.discard, self.job, self.review, self.scrape,
                self.reload)

    def subscribe(self):
        self.request("subscription", "PUT", "/v1/channels/news/receivers/late", {})

    def publish(self):
        body = {"request": {"source_agent": "analyst", "task_id": f"news-{self.number}", "task_summary": "It is ready"}}
        reply = self.request("publication", "POST", "/v1/channels/news/publish", body, prefer="respond-async")
        if reply is not None and reply.status == 202:
            self.accepted += [delivery["handoff_id"] for delivery in reply.json()["deliveries"]]
            self.request("published", "GET", f"/v1/channels/news/publications/{reply.json()['id']}")
        self.request("publications", "GET", "/v1/channels/news/publications")
        self.request("end of the subscription", "DELETE", "/v1/channels/news/receivers/late")

    def recover(self):
        handoff = self.send("incomplete", "puller", wait=False, memory_ids=[f"later-{self.number}"])
        self.request("late memory", "PUT", f"/v1/memories/later-{self.number}", {"content": "it was late"})
        if handoff:
            self.request("recovery", "POST", f"/v1/handoffs/{handoff}/memories", {"missing": True})
            self.request("gaps", "POST", f"/v1/handoffs/{handoff}/gaps", {"missing": [f"later-{self.number}"]})
        for _ in range(2):  # this one, and the delivery of the publication
            reply = self.request("inbox", "GET", "/v1/agents/puller/inbox?wait=0s")
            if reply is not None and reply.status == 200:
                self.request("acknowledgement", "POST", f"/v1/handoffs/{reply.header('Handoff-Id')}/ack")

    def park(self, task):
        body = {"reason": "not yet", "request": {"source_agent": "analyst", "target_agent": "puller", "task_id": task,
                                                 "task_summary": "Write the retry logic"}}
        reply = self.request("parking", "POST", "/v1/parked", body)
        if reply is None or reply.status != 200:
            return None
        self.parked.append(reply.json()["id"])
        return reply.json()["id"]

    def decide(self):
        handoff = self.park(f"decided-{self.number}")
        self.request("groups", "GET", "/v1/parked/groups")
        if handoff:
            self.request("preview", "POST", f"/v1/parked/{handoff}/preview", {"edit": {"task_summary": "Write it"}})
            self.request("check", "GET", f"/v1/parked/{handoff}/check")
            reply = self.request("edit", "POST", f"/v1/parked/{handoff}/replay",
                                 {"edit": {"task_summary": "Write it"}, "target_agent": "coder"})
            if reply is not None and reply.status in (200, 202):
                self.accepted.append(reply.json()["id"])

    def discard(self):
        handoff = self.park(f"discarded-{self.number}")
        if handoff:
            reply = self.request("discarding", "DELETE", f"/v1/parked/{handoff}?reason=no")
            if reply is not None and reply.status == 200:
                self.check_state(handoff, "discarded")
        self.request("decisions", "GET", "/v1/decisions")

    def job(self):
        task = f"job-{self.number}"
        if not all([self.park(task), self.park(task)]):
            return
        reply = self.request("job", "POST", "/v1/jobs", {"action": "replay", "to": "coder", "reason": "it is back",
                                                         "filter": {"task": task}, "rate": 1000})
        if reply is None or reply.status != 202:
            return
        job = f"/v1/jobs/{reply.json()['id']}"
        eventually(lambda: self.daemon.api.get(job).json()["state"] in ENDED, "the job has ended")
        reply = self.request("items", "GET", f"{job}/items")
        if reply is not None and reply.status == 200:
            self.accepted += [item["handoff_id"] for item in reply.json()["items"] if item["result"] == "succeeded"]

    def review(self):
        for path in ("", "/causes", "/decisions", "/jobs", *[f"/handoffs/{handoff}" for handoff in self.parked[-1:]]):
            self.request(f"review{path}", "GET", f"/review{path}")

    def scrape(self):
        self.request("compressed scrape", "GET", "/metrics", web=True, accept=PROTOBUF, accept_encoding="gzip")
        self.request("status", "GET", "/", web=True, accept="application/json")

    def check_state(self, handoff, state):
        reply = self.request("state", "GET", f"/v1/handoffs/{handoff}")
        if reply is not None and reply.status == 200 and reply.json()["state"] != state:
            raise AssertionError(f"it was told to be {state}: {reply}")


class DecisionsTest(Case):
    ROUND = DecisionsRound
    PLACES = max(PLACES // 4, 1)

    def setUp(self):
        super().setUp()
        self.parked = []

    def config(self):
        _, _, port = self.receiver.address.rpartition(":")
        agents = {"coder": {"url": f"http://r{self.number}.test:{port}/"}, "late": {"url": f"http://l{self.number}.test:{port}/"},
                  "puller": {}}
        return config(agents, {"retries": 3, "ack_timeout": "1s", "breaker": {"failures": 1000, "cooldown": "100ms"}},
                      channels={"news": {"receivers": ["coder", "puller"]}})

    def round(self):
        done = super().round()
        self.parked += done.parked
        return done

    def check_accepted(self):
        caller = Caller(self.daemon)
        for handoff in self.parked:
            self.assertEqual(caller.call("GET", f"/v1/handoffs/{handoff}").status, 200, "a parked handoff is gone")
        super().check_accepted()

    def test_channels_decisions_jobs_recovery_and_pages(self):
        self.check_while_it_runs()


class SpineRound(Round):
    def steps(self):
        return (self.memory, self.search, self.hand_off, self.recover, self.scrape, self.reload)

    def search(self):
        self.request("search", "GET", "/v1/memories?query=short&limit=5")

    def hand_off(self):
        self.send("with memories", "coder", memory_ids=[f"m-{self.number}", "gone"], include_recent=2, include_pins=True)

    def recover(self):
        for handoff in self.accepted[-1:]:
            self.request("recovery", "POST", f"/v1/handoffs/{handoff}/memories", {"ids": [f"m-{self.number}"]})


class SpineTest(Case):
    """The server stays well: what fails is ours."""

    ROUND = SpineRound
    PLACES = max(PLACES // 4, 1)
    MUST_FAIL = ("accept", "epoll_ctl", "pwrite", "sync", "socket", "connect", "resolve")

    def setUp(self):
        self.server = self.enterContext(FactServer())
        # closes after each answer, so that the next request needs a name, a socket and a connection again
        self.server.server.RequestHandlerClass.protocol_version = "HTTP/1.0"
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.table = folder / "spine.json"
        self.table.write_text(json.dumps(TABLE), encoding="utf-8")
        super().setUp()

    def config(self):
        _, _, port = self.receiver.address.rpartition(":")
        return config({"coder": {"url": f"http://r{self.number}.test:{port}/"}, "puller": {}},
                      {"retries": 3, "ack_timeout": "1s", "breaker": {"failures": 1000, "cooldown": "100ms"}},
                      spine={"kind": "http", "url": self.server.url, "operations_file": str(self.table),
                             "timeout": "10s"})

    def test_our_own_shortage_is_not_the_servers(self):
        """More failures in a row than open the circuit; the call is answered within its time all the same."""
        self.server.store("m-1", "a fact")
        self.enterContext(self.daemon.start())
        caller = Caller(self.daemon)
        # a second connect, which finds out what the first one lacked, must succeed
        for kind, error, times, resource in (("socket", errno.EMFILE, 8, "descriptors"),
                                             ("socket", errno.ENOBUFS, 8, "memory"),
                                             ("connect", errno.EADDRNOTAVAIL, 1, "ports")):
            with self.subTest(kind=kind, resource=resource):
                self.calls.arm(kind, 0, error, times)
                self.assertEqual(caller.call("GET", "/v1/memories/m-1").status, 200)
                self.assertEqual(self.calls.fired, times)
                page = self.daemon.web.get("/metrics").text
                self.assertIn("\nhandoff_spine_up 1\n", page)
                self.assertIn(f'handoff_exporter_resource_shortages_total{{resource="{resource}"}} {times}\n', page)
                eventually(lambda: [line for line in self.daemon.events("out_of_resources")
                                    if line["hindered"] == "asking the spine" and line["resource"] == resource],
                           "the log says so")

    def test_memories_behind_an_http_server(self):
        self.check_while_it_runs()


if __name__ == "__main__":
    unittest.main()
