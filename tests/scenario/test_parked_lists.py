# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""What is parked: listed with what a person wants to know, found by words, grouped by cause, and judged."""

import contextlib
import datetime
import pathlib
import tempfile
import unittest
import urllib.parse

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import ack, status

TOKENS = {"analyst": "analyst-0123456789abcdef", "writer": "writer-0123456789abcdef0",
          "@operator": "operator-0123456789abcdef"}


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())

    def start(self, **daemon):
        self.broken = self.stack.enter_context(Receiver(status(400, body="no such branch")))
        self.down = self.stack.enter_context(Receiver(status(503)))
        self.spare = self.stack.enter_context(Receiver(ack))
        agents = {"broken": {"url": self.broken.url}, "down": {"url": self.down.url, "retries": 0},
                  "spare": {"url": self.spare.url}, "small": {"url": self.spare.url, "token_budget": 30}}
        self.daemon = self.stack.enter_context(daemon_with(agents, **daemon))
        self.caller = Caller(self.daemon)

    def parked(self, target="broken", **fields):
        return self.caller.send(target, **fields).json()["handoff"]["id"]

    def get(self, path, headers=None, **query):
        reply = self.caller.call("GET", f"{path}?{urllib.parse.urlencode(query)}", **(headers or {}))
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def ids(self, headers=None, **query):
        page = self.get("/v1/parked", headers, **query)
        self.assertIsNone(page["next"])
        return [item["id"] for item in page["items"]]


class Rows(Case):
    def test_a_row_says_what_it_was_about_and_what_went_wrong(self):
        self.start()
        summary = "Pay the invoice of Müller & <b>Söhne</b>, " + "and more " * 100
        handoff = self.parked(task_summary=summary, task_id="task-9")
        (row,) = self.get("/v1/parked")["items"]
        self.assertEqual((row["id"], row["task_id"], row["replays"]), (handoff, "task-9", 0))
        self.assertTrue(summary.startswith(row["summary"]) and 100 < len(row["summary"].encode()) < 200, row)
        self.assertIn("the agent rejected the request", row["error"])
        self.assertEqual(self.get("/v1/handoffs", state="parked")["items"], [row])
        self.assertEqual({**row, **self.get(f"/v1/handoffs/{handoff}")}, row)

    def test_a_cut_summary_ends_with_a_whole_character(self):
        self.start()
        for ending in "", "x", "xx":
            self.parked(task_summary=ending + "ü" * 300)
        for row in self.get("/v1/parked")["items"]:
            self.assertRegex(row["summary"], "^x*ü+$")

    def test_replays_are_counted(self):
        self.start()
        handoff = self.parked()
        self.caller.call("POST", f"/v1/parked/{handoff}/replay", {})
        self.caller.wait_for_state(handoff, "parked")
        self.assertEqual(self.get("/v1/parked")["items"][0]["replays"], 1)


class Found(Case):
    def setUp(self):
        super().setUp()
        self.start()
        self.first = self.parked(task_summary="Pay the Invoice", task_id="a")
        self.second = self.parked("down", task_summary="Read the invoice", task_id="b")
        self.caller.source = "writer"
        self.third = self.parked(task_summary="Write the backoff", task_id="c")

    def test_by_words_in_any_case_which_all_must_be_there(self):
        for query, expected in (("invoice", [self.first, self.second]), ("INVOICE pay", [self.first]),
                                ("invoice  down", [self.second]), ("rejected", [self.first, self.third]),
                                ("writer", [self.third]), ("exhausted", [self.second]), ("voic", [self.first, self.second]),
                                ("%", []), ("'", []), ("", [self.first, self.second, self.third])):
            with self.subTest(query):
                self.assertEqual(self.ids(query=query), expected)

    def test_filters_narrow_each_other(self):
        error = self.get("/v1/parked", target="down")["items"][0]["error"]
        for query, expected in (({"target": "broken"}, [self.first, self.third]), ({"source": "writer"}, [self.third]),
                                ({"task": "b"}, [self.second]), ({"task": "b", "target": "down"}, [self.second]),
                                ({"reason": "refused"}, [self.first, self.third]), ({"error": error}, [self.second]),
                                ({"error": ""}, []), ({"until": "2020-01-01T00:00:00Z"}, []),
                                ({"since": "2020-01-01T00:00:00Z", "query": "invoice"}, [self.first, self.second])):
            with self.subTest(query):
                self.assertEqual(self.ids(**query), expected)

    def test_newest_first_in_pages(self):
        page = self.get("/v1/parked", order="newest", limit=2)
        self.assertEqual([item["id"] for item in page["items"]], [self.third, self.second])
        rest = self.get("/v1/parked", order="newest", limit=2, cursor=page["next"])
        self.assertEqual(([item["id"] for item in rest["items"]], rest["next"]), ([self.first], None))

    def test_what_was_replayed_is_not_listed_any_more(self):
        self.caller.call("POST", f"/v1/parked/{self.first}/replay", {"target_agent": "spare"})
        self.caller.wait_for_state(self.first, "acknowledged")
        self.assertEqual(self.ids(), [self.second, self.third])

    def test_groups_by_cause(self):
        groups = self.get("/v1/parked/groups")
        self.assertEqual([(group["target_agent"], group["reason"], group["count"]) for group in groups["items"]],
                         [("broken", "refused", 2), ("down", "exhausted", 1)])
        self.assertEqual((groups["total"], groups["next"]), (3, None))
        for group, members in zip(groups["items"], ([self.first, self.third], [self.second])):
            self.assertLessEqual(group["oldest_at"], group["newest_at"])
            self.assertIn(group["example_id"], members)
            self.assertEqual(self.ids(target=group["target_agent"], reason=group["reason"], error=group["error"]),
                             members)

    def test_groups_in_pages_and_of_some(self):
        page = self.get("/v1/parked/groups", limit=1)
        rest = self.get("/v1/parked/groups", limit=1, cursor=page["next"])
        self.assertEqual([group["count"] for group in page["items"] + rest["items"]], [2, 1])
        self.assertIsNone(rest["next"])
        self.assertEqual(self.get("/v1/parked/groups", query="backoff")["total"], 1)
        self.assertEqual(self.get("/v1/parked/groups", task="none"), {"items": [], "next": None, "total": 0})

    def test_bad_queries(self):
        for query in ("order=up", "since=now", "until=x", "cursor=-1"):
            for path in ("/v1/parked", "/v1/parked/groups"):
                self.assertEqual(self.caller.call("GET", f"{path}?{query}").status, 400, (path, query))
        self.assertEqual(self.caller.call("GET", "/v1/parked?target=nobody").status, 404)


class Seen(Case):
    def test_an_agent_sees_its_own(self):
        tokens = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "tokens"
        tokens.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()), encoding="utf-8")
        tokens.chmod(0o600)
        self.start(api={"tokens_file": str(tokens)})
        bearer = {name: {"Authorization": f"Bearer {token}"} for name, token in TOKENS.items()}
        sent = {}
        for name in "analyst", "writer":
            self.caller.source = name
            sent[name] = self.caller.send("broken", bearer[name], task_id=name).json()["handoff"]["id"]
        for name in sent:
            self.assertEqual(self.ids(bearer[name]), [sent[name]])
            self.assertEqual(self.get("/v1/parked/groups", bearer[name])["total"], 1)
            reply = self.caller.call("GET", f"/v1/parked/{sent[name]}/check", **bearer[name])
            self.assertEqual(reply.status, 403)
        self.assertEqual(len(self.ids(bearer["@operator"])), 2)


class Prospects(Case):
    def check(self, handoff, **query):
        found = self.get(f"/v1/parked/{handoff}/check", **query)
        self.assertEqual(found["id"], handoff)
        self.assertEqual(found["deliverable"], not found["obstacles"])
        return [obstacle["code"] for obstacle in found["obstacles"]]

    def test_nothing_is_in_the_way(self):
        self.start()
        handoff = self.parked()
        self.assertEqual(self.check(handoff), [])
        self.assertEqual(self.check(handoff, target="spare"), [])

    def test_what_a_replay_would_be_told(self):
        self.start()
        handoff = self.parked(constraints={"must_not": ["touch the schema " + "of the ledger " * 30]})
        for target, code in (("small", "budget_too_small"), ("nobody", "unknown_agent")):
            self.assertEqual(self.check(handoff, target=target), [code])
            reply = self.caller.call("POST", f"/v1/parked/{handoff}/replay", {"target_agent": target})
            self.assertEqual(reply.json()["code"], code)

    def test_an_open_circuit(self):
        self.start(defaults={"breaker": {"failures": 1, "cooldown": "1h"}})
        handoff = self.parked("down")
        self.assertEqual(self.check(handoff), ["circuit_open"])
        self.assertEqual(self.check(handoff, target="spare"), [])

    def test_a_deadline_that_has_passed(self):
        self.start()
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
        handoff = self.parked(constraints={"deadline": soon.isoformat()})
        while datetime.datetime.now(datetime.timezone.utc) <= soon:
            self.assertIn(self.check(handoff), ([], ["deadline_passed"]))
        self.assertEqual(self.check(handoff), ["deadline_passed"])

    def test_the_hop_limit_is_noted(self):
        self.start(hops={"max": 1})
        first = self.caller.send("spare").json()
        over = self.caller.send("broken", previous_id=first["id"], source_agent="spare").json()["handoff"]
        self.assertEqual(over["reason"], "hop_limit")
        found = self.get(f"/v1/parked/{over['id']}/check")
        self.assertTrue(found["deliverable"])
        self.assertIn("hops.max", found["note"])
        self.assertNotIn("note", self.get(f"/v1/parked/{self.parked()}/check"))

    def test_what_an_edit_has_replaced(self):
        self.start()
        handoff = self.parked()
        self.caller.call("POST", f"/v1/parked/{handoff}/replay", {"target_agent": "spare", "edit": {"task_summary": "x"}})
        found = self.get(f"/v1/parked/{handoff}/check")
        self.assertEqual([each["detail"] for each in found["obstacles"]], ["an edit has replaced it"])

    def test_what_is_not_parked(self):
        self.start()
        handoff = self.caller.send("spare").json()["id"]
        self.assertEqual(self.check(handoff), ["conflict"])
        self.assertEqual(self.caller.call("GET", "/v1/parked/7/check").status, 404)


if __name__ == "__main__":
    unittest.main()
