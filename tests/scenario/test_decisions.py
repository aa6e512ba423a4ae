# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Who decided what about a handoff, when and why: recorded in the commit that carries it out, never changed."""

import concurrent.futures
import contextlib
import datetime
import json
import pathlib
import sqlite3
import tempfile
import unittest

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import Hold, ack, status
from harness.wait import eventually
from prometheus_client.parser import text_string_to_metric_families
from test_secrets import GITHUB

WHY = "the agent is back"
ROUNDS = 20
ALICE = {"Handoff-Decided-By": "alice"}
TOKENS = {"analyst": "analyst-0123456789abcdef", "@operator": "operator-0123456789abcdef"}


class Case(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.coder = self.stack.enter_context(Receiver(status(400)))
        self.spare = self.stack.enter_context(Receiver(ack))
        self.daemon = self.stack.enter_context(self.start())
        self.caller = Caller(self.daemon)

    def start(self, **more):
        agents = {"coder": {"url": self.coder.url}, "spare": {"url": self.spare.url}}
        return daemon_with(agents, **more)

    def parked(self, **fields):
        return self.caller.send(**fields).json()["handoff"]["id"]

    def decisions(self, query="", **headers):
        reply = self.caller.call("GET", f"/v1/decisions{query}", **headers)
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def replay(self, handoff, headers=None, **body):
        return self.caller.call("POST", f"/v1/parked/{handoff}/replay", {"reason": WHY, **body}, **(headers or {}))

    def only(self, handoff):
        (decision,) = self.decisions(f"?handoff={handoff}")["items"]
        return decision

    def assert_says(self, decision, **expected):
        self.assertEqual({key: decision[key] for key in expected}, expected)


class Recorded(Case):
    def test_a_replay(self):
        handoff = self.parked()
        self.assertEqual(self.replay(handoff, ALICE).status, 200)
        decision = self.only(handoff)
        self.assert_says(decision, action="replay", who="@anyone", by="alice", reason=WHY, handoff_id=handoff,
                         task_id="task-1", source_agent="analyst", target_agent="coder", to="", cause="refused",
                         fields=[], replacement_id=None, job_id=None)
        at = datetime.datetime.fromisoformat(decision["at"].replace("Z", "+00:00"))
        self.assertLess(abs((datetime.datetime.now(datetime.timezone.utc) - at).total_seconds()), 60)

    def test_a_replay_elsewhere_is_a_redirect(self):
        handoff = self.parked()
        self.replay(handoff, target_agent="spare")
        self.caller.wait_for_state(handoff, "acknowledged")
        self.assert_says(self.only(handoff), action="redirect", target_agent="coder", to="spare")

    def test_an_edit_names_its_fields_and_its_replacement(self):
        handoff = self.parked()
        reply = self.replay(handoff, ALICE, target_agent="spare",
                            edit={"task_summary": "Only the backoff", "state": {"decisions": ["x"]}})
        self.assert_says(self.only(handoff), action="edit", by="alice", fields=["task_summary", "state"], to="spare",
                         target_agent="coder", cause="refused", replacement_id=reply.json()["id"])

    def test_a_discard_and_a_cancel_of_what_is_parked(self):
        discarded, cancelled = self.parked(), self.parked()
        self.caller.call("DELETE", f"/v1/parked/{discarded}?reason=too%20late", Handoff_Decided_By="bob")
        self.caller.call("POST", f"/v1/handoffs/{cancelled}/cancel", {"reason": "changed plan"})
        self.assert_says(self.only(discarded), action="discard", reason="too late", by="bob", cause="refused")
        self.assert_says(self.only(cancelled), action="cancel", reason="changed plan", by="", cause="refused")

    def test_what_is_parked_and_cancelled_while_it_is_under_way(self):
        hold = Hold()
        self.addCleanup(hold.release)
        self.coder.do(hold, hold)
        parked, cancelled = self.caller.send_async(), self.caller.send_async()
        self.coder.wait_for(2)
        self.caller.call("POST", f"/v1/handoffs/{parked}/park", {"reason": "wait"})
        self.caller.call("POST", f"/v1/handoffs/{cancelled}/cancel", {})
        self.assert_says(self.only(parked), action="park", reason="wait", cause="in_flight", target_agent="coder")
        self.assert_says(self.only(cancelled), action="cancel", reason="", cause="in_flight")

    def test_an_expired_one_that_is_revived(self):
        self.coder.do(status(503, retry_after="50"))
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
        handoff = self.caller.send_async(constraints={"deadline": soon.isoformat()})
        self.caller.wait_for_state(handoff, "expired")
        later = (soon + datetime.timedelta(hours=1)).isoformat()
        reply = self.replay(handoff, target_agent="spare", edit={"constraints": {"deadline": later}})
        self.assertEqual(reply.status, 200, reply)
        self.assert_says(self.only(handoff), action="revive", cause="expired", replacement_id=reply.json()["id"])

    def test_what_was_not_done_is_not_recorded(self):
        handoff = self.parked()
        self.assertEqual(self.replay(handoff, target_agent="nobody").status, 404)
        self.assertEqual(self.replay(handoff, edit={"constraints": {"max_tokens": 1}}).status, 422)
        self.caller.call("POST", f"/v1/handoffs/{handoff}/park", {"reason": "it is parked already"})
        self.assertEqual(self.decisions()["items"], [])

    def test_credentials_in_a_reason_are_not_kept(self):
        handoff = self.parked()
        self.replay(handoff, reason=f"used {GITHUB} to mend it")
        self.assertNotIn(GITHUB, json.dumps(self.only(handoff)))

    def test_they_are_counted_by_action(self):
        self.replay(self.parked())
        self.replay(self.parked(), target_agent="spare")
        counted = {sample.labels["action"]: sample.value
                   for family in text_string_to_metric_families(self.daemon.web.get("/metrics").text)
                   for sample in family.samples if sample.name == "handoff_decisions_total"}
        self.assertEqual(counted, {"replay": 1, "redirect": 1, "edit": 0, "revive": 0, "discard": 0, "cancel": 0,
                                   "park": 0})


class Listed(Case):
    def setUp(self):
        super().setUp()
        self.first, self.second = self.parked(task_id="a"), self.parked(task_id="b")
        self.replay(self.first, ALICE)
        self.replay(self.second, target_agent="spare")
        self.third = self.parked(task_id="b")
        self.caller.call("DELETE", f"/v1/parked/{self.third}?reason=no")

    def handoffs(self, query):
        return [item["handoff_id"] for item in self.decisions(query)["items"]]

    def test_newest_first_or_oldest_first(self):
        self.assertEqual(self.handoffs(""), [self.third, self.second, self.first])
        self.assertEqual(self.handoffs("?order=oldest"), [self.first, self.second, self.third])

    def test_filters_narrow_each_other(self):
        for query, expected in (("?task=b", [self.third, self.second]), ("?action=redirect", [self.second]),
                                ("?by=alice", [self.first]), ("?who=@operator", []), ("?target=spare", []),
                                ("?task=b&action=replay", []), ("?until=2020-01-01T00:00:00Z", []),
                                ("?since=2020-01-01T00:00:00Z&limit=1", [self.third])):
            with self.subTest(query):
                self.assertEqual(self.handoffs(query), expected)

    def test_pages(self):
        for order, expected in (("newest", [self.third, self.second, self.first]),
                                ("oldest", [self.first, self.second, self.third])):
            page = self.decisions(f"?limit=2&order={order}")
            rest = self.decisions(f"?limit=2&order={order}&cursor={page['next']}")
            self.assertEqual([item["handoff_id"] for item in page["items"] + rest["items"]], expected)
            self.assertIsNone(rest["next"])

    def test_lines_for_other_programs(self):
        reply = self.caller.call("GET", "/v1/decisions?order=oldest", Accept="application/x-ndjson")
        self.assertEqual(reply.header("Content-Type"), "application/x-ndjson")
        lines = [json.loads(line) for line in reply.text.splitlines()]
        self.assertEqual(lines, self.decisions("?order=oldest")["items"])

    def test_bad_queries_name_what_is_allowed(self):
        for query, field in (("action=replayed", "action"), ("order=up", "order"), ("since=today", "since"),
                             ("handoff=7", "handoff"), ("job=x", "job")):
            reply = self.caller.call("GET", f"/v1/decisions?{query}")
            self.assertEqual((reply.status, reply.json()["field"]), (400, field), reply)
            self.assertTrue(reply.json()["allowed"])


class Once(Case):
    def test_the_second_of_two_is_told_who_decided_what(self):
        handoff = self.parked()
        self.replay(handoff, ALICE, target_agent="spare")
        self.caller.wait_for_state(handoff, "acknowledged")
        reply = self.replay(handoff, {"Handoff-Decided-By": "bob"})
        self.assertEqual((reply.status, reply.json()["code"]), (409, "conflict"), reply)
        self.assertRegex(reply.json()["seen"], rf"^acknowledged; redirect by @anyone \(alice\) at .*Z: {WHY}$")

    def at_once(self, *deciders):
        with concurrent.futures.ThreadPoolExecutor(len(deciders)) as pool:
            return [made.result() for made in [pool.submit(*decider) for decider in deciders]]

    def test_of_many_at_once_one_decides_and_the_others_are_told_who(self):
        names = [f"person-{number}" for number in range(8)]
        for _ in range(ROUNDS):
            handoff = self.parked()
            self.assert_told(handoff, self.at_once(*((self.redirect, handoff, name) for name in names)))

    def test_so_are_those_who_edit_and_discard(self):
        for _ in range(ROUNDS):
            handoff = self.parked()
            self.assert_told(handoff, self.at_once(
                (self.edit, handoff, "carol"), (self.discard, handoff, "dave"),
                (self.edit, handoff, "erin"), (self.discard, handoff, "frank")))

    def redirect(self, handoff, name):
        return self.replay(handoff, {"Handoff-Decided-By": name}, target_agent="spare")

    def edit(self, handoff, name):
        edit = {"task_summary": "smaller"}
        return self.replay(handoff, {"Handoff-Decided-By": name}, target_agent="spare", edit=edit)

    def discard(self, handoff, name):
        return self.caller.call("DELETE", f"/v1/parked/{handoff}?reason=no", Handoff_Decided_By=name)

    def assert_told(self, handoff, replies):
        """One decided; all others were told which decision it was, and its author."""
        refused = [reply for reply in replies if reply.status != 200]
        self.assertEqual([reply.status for reply in refused], [409] * (len(replies) - 1), replies)
        decision = self.only(handoff)
        for reply in refused:
            self.assertIn(f"; {decision['action']} by @anyone ({decision['by']}) at ", reply.json()["seen"], reply)

    def test_the_fourth_replay_asks_for_a_second_word(self):
        handoff = self.parked()
        for _ in range(3):
            self.assertEqual(self.replay(handoff).status, 200)
            self.caller.wait_for_state(handoff, "parked")
        reply = self.replay(handoff)
        self.assertEqual((reply.status, reply.json()["field"], reply.json()["seen"]), (409, "again", "3 replays"))
        self.assertEqual(self.replay(handoff, again=True).status, 200)
        self.assertEqual(len(self.decisions(f"?handoff={handoff}")["items"]), 4)


class WithTokens(Case):
    def start(self, **more):
        self.tokens = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "tokens"
        self.tokens.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()), encoding="utf-8")
        self.tokens.chmod(0o600)
        return super().start(api={"tokens_file": str(self.tokens)}, **more)

    def call(self, name, *call, **headers):
        return self.caller.call(*call, Authorization=f"Bearer {TOKENS[name]}", **headers)

    def test_who_is_the_owner_of_the_token(self):
        request = {"target_agent": "coder", "task_id": "task-1", "task_summary": "x"}
        handoffs = [self.call("analyst", "POST", "/v1/handoffs", request).json()["handoff"]["id"] for _ in range(2)]
        self.call("analyst", "POST", f"/v1/handoffs/{handoffs[0]}/cancel", {}, Handoff_Decided_By="@operator")
        self.call("@operator", "POST", f"/v1/parked/{handoffs[1]}/replay", {"reason": WHY})
        found = self.call("@operator", "GET", "/v1/decisions?order=oldest").json()["items"]
        self.assertEqual([(item["who"], item["by"]) for item in found], [("analyst", "@operator"), ("@operator", "")])

    def test_only_operators_see_decisions(self):
        self.assertEqual(self.call("analyst", "GET", "/v1/decisions").status, 403)


class Kept(Case):
    def test_over_kill_9_together_with_what_was_decided(self):
        """Whenever the process is killed, a handoff has been replayed if and only if that is on record."""
        self.coder.do(*[status(400)] * 40)
        handoffs = [self.parked() for _ in range(20)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for handoff in handoffs:
                pool.submit(self.try_to_replay, handoff)
            self.daemon.wait_for_event("handoff_decided", 5)
            self.daemon.kill()
        with contextlib.closing(sqlite3.connect(self.daemon.folder / "data/handoff.db")) as database:
            rows = database.execute("SELECT h.replays, (SELECT count(*) FROM decisions d WHERE d.handoff = e.id)"
                                    " FROM handoffs h JOIN envelopes e ON e.seq = h.seq").fetchall()
        self.assertEqual(len(rows), 20)
        self.assertEqual([replays for replays, _ in rows], [decisions for _, decisions in rows])

    def try_to_replay(self, handoff):
        with contextlib.suppress(OSError):
            self.replay(handoff, target_agent="spare")

    def test_longer_than_the_handoff(self):
        short = {"retention": {"age": "1s", "decisions": "365d"}}
        with self.start(storage=short) as daemon:
            self.caller = Caller(daemon)
            handoff = self.parked()
            self.caller.call("DELETE", f"/v1/parked/{handoff}?reason=no")
            eventually(lambda: self.caller.call("GET", f"/v1/handoffs/{handoff}").status == 404,
                       "the handoff is gone")
            self.assert_says(self.only(handoff), action="discard", reason="no")

    def test_no_longer_than_configured(self):
        with self.start(storage={"retention": {"decisions": "1s"}}) as daemon:
            self.caller = Caller(daemon)
            handoff = self.parked()
            self.caller.call("DELETE", f"/v1/parked/{handoff}?reason=no")
            eventually(lambda: not self.decisions()["items"], "the decision is gone")

    def test_and_never_changed(self):
        handoff = self.parked()
        self.replay(handoff)
        self.daemon.terminate()
        self.daemon.wait()
        with contextlib.closing(sqlite3.connect(self.daemon.folder / "data/handoff.db")) as database:
            with self.assertRaisesRegex(sqlite3.IntegrityError, "a decision is never changed"):
                database.execute("UPDATE decisions SET who = 'somebody else'")


if __name__ == "__main__":
    unittest.main()
