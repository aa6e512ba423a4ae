# SPDX-License-Identifier: Apache-2.0
"""Memories in a real PostgreSQL behind an HTTP service, which dies in the middle of a thousand handoffs and comes back.

The real Prometheus and Alertmanager watch, with the shipped rule and routes; a minute of theirs is a second, as in
test_alert_chain.
"""

import concurrent.futures
import datetime
import json
import pathlib
import re
import tempfile
import unittest

import yaml
from harness import Alertmanager, Prometheus, Receiver, Webhook, eventually
from harness.agents import daemon_with
from harness.alertmanager import ALERTS, page, shipped
from harness.chain import Chain, memories, missing, pullers
from harness.facts import TABLE
from harness.postgres import Postgres, StoredFacts
from harness.receiver import ack

FASTER = 60
PATIENCE = 120  # a loaded machine is slow, not wrong
SENDERS = 16
BEFORE, DURING, AFTER = range(400), range(400, 700), range(700, 1000)
SAMPLE = re.compile(r"^(\w+(?:\{[^}]*\})?) (\S+)", re.MULTILINE)


class Case(unittest.TestCase):
    maxDiff = None

    def start(self, agents, **keys):
        self.database = self.enterContext(Postgres())
        self.server = self.enterContext(StoredFacts(self.database))
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "spine.json").write_text(json.dumps(TABLE))
        self.daemon = self.enterContext(daemon_with(agents, spine={
            "kind": "http", "url": self.server.url, "operations_file": str(folder / "spine.json"), "cache": "0B", **keys}))
        self.chain = Chain(self.daemon, self.id().rpartition(".")[2][-60:])

    def measured(self, *series):
        found = dict(SAMPLE.findall(self.daemon.web.get("/metrics").text))
        return [float(found.get(name, 0)) for name in series]


class Database(Case):
    def test_memories_are_found_stored_and_deleted(self):
        self.start(pullers("researcher", "analyst"), timeout="10s")
        self.server.store("pin-1", "always", pinned=True)
        self.server.store("fit-1", "the zeppelin is inspected")
        self.server.store("other-1", "nothing of it")
        for method, body, status in (("PUT", {"content": "it's \"new\"; DROP TABLE facts;--", "scope": "user:alice"}, 201),
                                     ("PUT", {"content": "newer \u98db"}, 200), ("GET", None, 200)):
            reply = self.chain.call(method, "/v1/memories/ms-1", body)
            self.assertEqual(reply.status, status, reply)
        self.assertEqual((reply.json()["content"], reply.json()["scope"]), ("newer \u98db", "user:alice"))
        envelope = self.chain.hand("researcher", "analyst", summary="inspect the zeppelin", memory_ids=["ms-1", "gone-1"],
                                   include_recent=5, include_pins=True, scope="user:alice")
        self.assertEqual(sorted(memories(envelope)), ["fit-1", "ms-1", "pin-1"])
        self.assertEqual({name: entry["reason"] for name, entry in missing(envelope).items()}, {"gone-1": "not_found"})
        self.assertEqual([self.chain.call("DELETE", "/v1/memories/ms-1").status for _ in range(2)], [204, 404])


def faster_rules():
    """The shipped alerts about a dead spine and about nothing, which is evaluated as often."""
    groups = yaml.safe_load((ALERTS / "handoff-alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if rule["alert"] in ("HandoffSpineDown", "HandoffWatchdog")]
    for rule in rules:
        rule["expr"] = rule["expr"].replace("[5m]", f"[{300 // FASTER}s]")
    return {"groups": [{"name": "spine", "rules": rules}]}


class Outage(Case):
    def watch(self):
        rules = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "rules.yml")
        rules.write_text(yaml.safe_dump(faster_rules()))
        self.webhook = self.enterContext(Webhook())
        alertmanager = self.enterContext(Alertmanager(shipped(self.webhook, FASTER)))
        self.prometheus = self.enterContext(Prometheus({"handoff": self.daemon.web.address}, config={
            "rule_files": [str(rules)],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.http.address]}]}]}}))
        self.prometheus.scraped(2)

    def send(self, i):
        """A handoff that needs memory i, and has a deadline; the sender waits for the acknowledgement."""
        deadline = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=60)
        reply = self.chain.ask("researcher", "analyst", task_id=f"task-{i}", memory_ids=[f"ms-{i}"],
                               constraints={"deadline": deadline.strftime("%Y-%m-%dT%H:%M:%SZ")}, headers={"prefer": "wait=60"})
        self.assertEqual((reply.status, reply.json()["state"], reply.json()["attempts"]), (200, "acknowledged", 1), reply)
        return reply.json()

    def flag_and_recover(self, handoff, body, path):
        reply = self.chain.call("POST", f"/v1/handoffs/{handoff['id']}/{path}", body)
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def check_rung_at_once(self):
        """Between the first scrape that saw it and the alert, at most one evaluation: one that had begun."""
        [up] = self.prometheus.samples("handoff_spine_up")
        down = min(at for at, value in up.samples if value == 0)
        fired = min(at for series in self.prometheus.samples('ALERTS{alertname="HandoffSpineDown",alertstate="firing"}')
                    for at, _ in series.samples)
        evaluations = [at for series in self.prometheus.samples('ALERTS{alertname="HandoffWatchdog"}') for at, _ in series.samples]
        self.assertLessEqual(len([at for at in evaluations if down < at < fired]), 1, (down, fired, evaluations))
        self.assertEqual(self.prometheus.samples('ALERTS{alertname="HandoffSpineDown",alertstate="pending"}'), [])

    def test_it_dies_in_the_middle_of_a_thousand_handoffs_and_comes_back(self):
        receiver = self.enterContext(Receiver(ack))
        self.start({**pullers("researcher"), "analyst": {"url": receiver.url, "token_budget": 16000}}, timeout="10s")
        for i in range(1000):
            self.server.store(f"ms-{i}", f"fact {i}")
        self.watch()
        with concurrent.futures.ThreadPoolExecutor(SENDERS) as senders:
            sent = [senders.submit(self.send, i) for i in BEFORE]
            receiver.wait_for(len(BEFORE) // 2)
            self.database.kill()
            concurrent.futures.wait(sent)
            eventually(lambda: self.measured("handoff_spine_up") == [0], "it is known to be down")
            sent += [senders.submit(self.send, i) for i in DURING]
            self.webhook.wait_for("pager", page("HandoffSpineDown"), timeout=PATIENCE)
            concurrent.futures.wait(sent)
            self.database.start()
            eventually(lambda: self.measured("handoff_spine_up") == [1], "it is known to be back")
            sent += [senders.submit(self.send, i) for i in AFTER]
            handoffs = [future.result() for future in sent]
        self.webhook.wait_for("pager", page("HandoffSpineDown", "resolve"), timeout=PATIENCE)
        self.check_rung_at_once()

        envelopes = {request.id: request.json() for request in receiver.requests}
        self.assertEqual((len(receiver.requests), len(envelopes)), (1000, 1000))
        lost = [i for i, handoff in enumerate(handoffs) if missing(envelopes[handoff["id"]])]
        for i, handoff in enumerate(handoffs):
            envelope = envelopes[handoff["id"]]
            if i in lost:
                self.assertEqual({name: entry["reason"] for name, entry in missing(envelope).items()}, {f"ms-{i}": "spine_unavailable"})
                self.assertEqual((envelope["completeness"]["ratio"], memories(envelope)), (0, {}))
            else:
                self.assertEqual((envelope["completeness"]["ratio"], memories(envelope)[f"ms-{i}"]["content"]), (1, f"fact {i}"))
        self.assertEqual([i for i in lost if i >= BEFORE.stop], list(DURING))
        self.assertLess(len(lost), len(BEFORE) // 2 + len(DURING) + 1)

        for i in lost:
            self.flag_and_recover(handoffs[i], {"missing": [f"ms-{i}"]}, "gaps")
        for i in lost:
            answer = self.flag_and_recover(handoffs[i], {"missing": True}, "memories")
            self.assertEqual([(item["id"], item["content"]) for item in answer["found"]], [(f"ms-{i}", f"fact {i}")])
            [gap] = self.chain.state(handoffs[i]["id"])["gaps"]
            self.assertEqual((gap["id"], gap["recovered_at"] is not None), (f"ms-{i}", True))
        of = 'target_agent="analyst"'
        self.assertEqual(
            self.measured(f'handoff_handoffs_total{{{of},pattern="direct",outcome="acknowledged"}}',
                          f'handoff_memory_refs_total{{{of},outcome="included"}}',
                          f'handoff_memory_refs_total{{{of},outcome="missing"}}',
                          f'handoff_context_completeness_ratio_count{{{of}}}', f'handoff_context_completeness_ratio_sum{{{of}}}',
                          f'handoff_memory_recovery_total{{{of},outcome="missing"}}',
                          f'handoff_memory_recovery_total{{{of},outcome="recovered"}}'),
            [1000, 1000 - len(lost), len(lost), 1000, 1000 - len(lost), len(lost), len(lost)])


if __name__ == "__main__":
    unittest.main()
