# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""The review page as a person without scripts uses it: reading, deciding, signing in, and what it refuses."""

import concurrent.futures
import contextlib
import datetime
import http.client
import json
import pathlib
import re
import tempfile
import unittest
import urllib.parse

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import ack, nack, status
from harness.review import Visitor
from harness.wait import eventually

TOKENS = {"@operator": "operator-0123456789abcdef", "analyst": "analyst-0123456789abcdef"}
HOSTILE = '<script>document.title="taken"</script><img src=x onerror=alert(1)>"\' &amp; \u202eturned'
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())

    def start(self, tokens=None, **more):
        self.broken = self.stack.enter_context(Receiver(nack(f"no such branch {HOSTILE}", False)))
        self.spare = self.stack.enter_context(Receiver(ack))
        agents = {"broken": {"url": self.broken.url}, "spare": {"url": self.spare.url}, "puller": {}}
        if tokens:
            self.tokens = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "tokens"
            self.write_tokens(tokens)
            more["api"] = {"tokens_file": str(self.tokens)}
        self.daemon = self.stack.enter_context(daemon_with(agents, **more))
        self.caller = Caller(self.daemon)
        self.visitor = Visitor(self.daemon)

    def write_tokens(self, tokens):
        self.tokens.write_text("".join(f"{name} {token}\n" for name, token in tokens.items()), encoding="utf-8")
        self.tokens.chmod(0o600)

    def send(self, target="broken", **fields):
        return self.caller.send(target, **fields).json()["handoff"]["id"]

    def park(self, count, **fields):
        request = {"source_agent": "analyst", "target_agent": "puller", "task_summary": "Pay the invoice", **fields}
        return [self.caller.call("POST", "/v1/parked", {"reason": "it is down", "request": request}).json()["id"]
                for _ in range(count)]

    def page_of(self, handoff):
        return self.visitor.open(f"/review/handoffs/{handoff}")

    def decide(self, handoff, action, visitor=None, **values):
        path = f"/review/handoffs/{handoff}"
        visitor = visitor or self.visitor
        return visitor.submit(visitor.open(path).form(f"{path}/{action}"), **values)

    def assert_harmless(self, page):
        names = {tag for tag, _ in page.tags}
        self.assertEqual(names & {"img", "iframe", "object", "style", "svg", "base", "meta script"}, set())
        scripts = [given for tag, given in page.tags if tag == "script"]
        self.assertEqual(scripts, [{"src": "/review/review.js", "defer": None}])
        self.assertFalse([given for _, given in page.tags for name in given if name.startswith("on") or name == "style"])

    def decisions(self, **query):
        reply = self.caller.call("GET", f"/v1/decisions?{urllib.parse.urlencode(query)}")
        self.assertEqual(reply.status, 200, reply)
        return reply.json()["items"]


class Reading(Case):
    def test_a_list_with_filters_and_pages(self):
        self.start()
        handoffs = [self.send(task_summary=f"Task {name}", task_id=f"task-{name}")
                    for name in ("alpha", "beta", "gamma")]
        self.park(51)
        page = self.visitor.open()
        self.assertEqual(page.status, 200)
        for handoff in handoffs:
            self.assertIn(f"/review/handoffs/{handoff}", page.links)
        self.assertIn("Task gamma", page.text)
        self.assertIn("no such branch", page.text)
        (more,) = [link for link in page.links if "cursor=" in link]
        rest = self.visitor.open(more)
        shown = [{link for link in each.links if "/handoffs/" in link} for each in (page, rest)]
        self.assertEqual((len(shown[0]), len(shown[1]), shown[0] & shown[1]), (50, 4, set()))
        found = self.visitor.submit(page.form("/review"), query="task BETA")
        self.assertEqual([link for link in found.links if "/handoffs/" in link], [f"/review/handoffs/{handoffs[1]}"])
        self.assertEqual(found.form("/review").fields["query"], "task BETA", "the filter is shown again")
        self.assertIn("nothing that the filter finds", self.visitor.open("/review?query=zeppelin").text)

    def test_a_channel_shows_who_is_behind_and_where_each_delivery_is(self):
        self.start(channels={"news": {"receivers": ["broken", "spare", "puller"]}, "empty": {}})
        request = {"source_agent": "analyst", "task_id": HOSTILE, "task_summary": "It is done"}
        made = self.caller.call("POST", "/v1/channels/news/publish", {"request": request}).json()
        deliveries = {one["receiver"]: one["handoff_id"] for one in made["deliveries"]}
        self.caller.wait_for_state(deliveries["broken"], "parked")
        self.caller.wait_for_state(deliveries["spare"], "acknowledged")
        page = self.visitor.open("/review/channels")
        self.assertIn("puller : 1 in progress since", page.text.replace("puller:", "puller :"))
        self.assertIn("It has no receivers.", page.text)
        self.assertIn("/review?target=broken", page.links)
        self.assertIn("/review/channels/news", page.links)
        page = self.visitor.open("/review/channels/news")
        (publication,) = [link for link in page.links if "publication=" in link]
        page = self.visitor.open(publication)
        for handoff in deliveries.values():
            self.assertIn(f"/review/handoffs/{handoff}", page.links)
        for words in ("acknowledged", "parked, refused"):
            self.assertIn(words, page.text)
        self.assert_harmless(page)
        self.assertEqual(self.visitor.open("/review/channels/nothing").status, 404)

    def test_a_bad_filter_is_named(self):
        self.start()
        for path, words in (("/review?since=now", "not a time"), ("/review?order=up", "unknown order"),
                            ("/review?target=nobody", "nobody"), ("/review?cursor=x", "the cursor is not from this list"),
                            ("/review/decisions?action=fly", "unknown action")):
            page = self.visitor.open(path)
            self.assertIn(page.status, (400, 404), path)
            self.assertIn(words, page.text)

    def test_causes_lead_to_their_members(self):
        self.start()
        handoff = self.send()
        self.park(2)
        page = self.visitor.open("/review/causes")
        self.assertIn("3 handoffs, by cause", page.text)
        self.assertIn("2 parked for puller: it is down", page.text)
        (link,) = [link for link in page.links if link.startswith("/review?") and "broken" in link]
        members = self.visitor.open(link)
        self.assertEqual([link for link in members.links if "/handoffs/" in link], [f"/review/handoffs/{handoff}"])
        self.assertIn("1 attempt, 0 replays", members.text)

    def test_a_cause_without_an_error_does_not_pass_for_its_list(self):
        self.start()
        self.park(2)
        page = self.visitor.open("/review/causes")
        self.assertNotIn(">2 parked</a>", page.html, "the list can have more than the group")
        self.assertIn("All of this agent and reason, also those whose attempts failed", page.text)
        self.send()
        self.assertIn(">1 parked</a>", self.visitor.open("/review/causes?target=broken").html)

    def test_the_newest_hundred_attempts_are_shown_newest_first(self):
        self.start()
        handoff = self.send()
        for number in range(2, 104):
            self.caller.call("POST", f"/v1/parked/{handoff}/replay", {"again": True})
            eventually(lambda: self.attempts_of(handoff) == number and self.caller.state(handoff)["state"] == "parked",
                       "it is parked again")
        shown = [int(each) for each in re.findall(r"attempt (\d+),", self.page_of(handoff).text)]
        self.assertEqual(shown, list(range(103, 3, -1)))

    def attempts_of(self, handoff):
        return len(self.caller.call("GET", f"/v1/handoffs/{handoff}/attempts").json()["items"])

    def test_what_is_too_large_for_the_page_is_said(self):
        self.start(defaults={"token_budget": 1_000_000})
        handoff = self.send(state={"decisions": ["x" * 1200 * 1024]})
        page = self.page_of(handoff)
        self.assertEqual(page.status, 200)
        self.assertRegex(page.text, "Omitted for want of tokens too large for this page; use handoffctl or the API")
        edit = self.visitor.open(f"/review/handoffs/{handoff}/edit")
        self.assertEqual(edit.status, 413)
        self.assertIn("too large for this page; use handoffctl or the API", edit.text)
        self.assertFalse(edit.has_form(f"/review/handoffs/{handoff}/edit"), "its fields would be empty")

    def test_one_handoff_whole(self):
        self.start()
        self.caller.call("PUT", "/v1/memories/m-1", {"content": "The branch is called main."})
        first = self.caller.send("spare", task_summary="Find the branch", task_id="t").json()["id"]
        handoff = self.send(source_agent="spare", task_summary="Merge it", task_id="t", memory_ids=["m-1", "m-2"],
                            constraints={"must_not": ["force-push"]})
        page = self.page_of(handoff)
        self.assertEqual(page.status, 200)
        for words in ("Merge it", "The branch is called main.", "force-push", "no such branch", "nack broken", "refused",
                      "m-2", "It would be delivered now", "1 of 2"):
            self.assertIn(words, page.text)
        self.assertIn(f"/review/handoffs/{first}", page.links, "the task as a tree")
        nested = re.search(r'<ul class="tree">.*?</ul>\s*</li>\s*</ul>', page.html, re.DOTALL)
        self.assertIn("Find the branch", nested.group(), "the second continues the first")
        brief = self.visitor.exchange("GET", f"/review/handoffs/{handoff}/brief")
        self.assertEqual(brief.header("Content-Type"), "text/plain; charset=utf-8")
        self.assertEqual(brief.body, self.caller.call("GET", f"/v1/handoffs/{handoff}/envelope", accept="text/markdown").body)

    def test_what_is_in_the_way_of_a_delivery(self):
        self.start(defaults={"breaker": {"failures": 1, "cooldown": "1h"}})
        self.broken.do(status(503))
        handoff = self.send()
        page = self.page_of(handoff)
        self.assertIn("It would not be delivered now", page.text)
        self.assertIn("circuit is open", page.text)
        asked = self.visitor.submit(page.form(f"/review/handoffs/{handoff}"), target="spare")
        self.assertIn("It would be delivered now, to spare", asked.text)

    def test_what_expired_is_listed_beside(self):
        self.start()
        self.broken.do(status(503))
        with Receiver(status(503)):
            handoff = self.caller.send("puller", {"prefer": "wait=30"}, task_summary="Too late",
                                       constraints={"deadline": self.soon()}).json()
        self.assertEqual(handoff["handoff"]["state"], "expired", handoff)
        page = self.visitor.open("/review/expired")
        self.assertIn(f"/review/handoffs/{handoff['handoff']['id']}", page.links)
        self.assertIn("Too late", page.text)

    def test_a_missing_memory_has_its_reason_and_no_empty_detail(self):
        self.start()
        page = self.page_of(self.send(memory_ids=["m-1"]))
        self.assertRegex(page.text, r"m-1\s*: not_found")
        self.assertNotRegex(page.text, r"not_found\s*\(")

    @staticmethod
    def soon():
        return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)).isoformat()

    def test_what_is_not_there(self):
        self.start()
        for path in (f"/review/handoffs/{NOBODY}", f"/review/jobs/{NOBODY}", "/review/handoffs/x", "/review/jobs/x",
                     f"/review/handoffs/{NOBODY}/brief"):
            page = self.visitor.open(path)
            self.assertEqual(page.status, 404, path)
            self.assertIn("not_found", page.text)
        self.assertEqual(self.daemon.web.get("/review").status, 404, "the web listener shows no contents")


class Deciding(Case):
    def test_replay(self):
        self.start()
        handoff = self.send()
        self.broken.do(ack)
        page = self.decide(handoff, "replay", reason="the branch is there", by="alice")
        self.assertEqual(page.path, f"/review/handoffs/{handoff}")
        self.caller.wait_for_state(handoff, "acknowledged")
        (decision,) = self.decisions()
        self.assertEqual((decision["action"], decision["reason"], decision["by"], decision["who"]),
                         ("replay", "the branch is there", "alice", "@anyone"))
        shown = self.page_of(handoff)
        self.assertIn("replay by alice (@anyone)", shown.text)
        self.assertFalse(shown.has_form(f"/review/handoffs/{handoff}/replay"), "nothing is left to decide")
        self.assertIn("the branch is there", self.visitor.open("/review/decisions").text)

    def test_replay_elsewhere(self):
        self.start()
        handoff = self.send()
        page = self.page_of(handoff)
        form = page.form(f"/review/handoffs/{handoff}/replay")
        self.assertEqual(set(form.choices["target_agent"]), {"", "broken", "spare", "puller"})
        self.visitor.submit(form, target_agent="spare", reason="the old one")
        self.caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual([(each["action"], each["to"]) for each in self.decisions()], [("redirect", "spare")])

    def test_a_discard_needs_a_reason(self):
        self.start()
        handoff = self.send()
        refused = self.decide(handoff, "discard", reason="")
        self.assertEqual(refused.status, 400)
        self.assertIn("required field is missing (reason)", refused.text)
        self.assertEqual(self.caller.state(handoff)["state"], "parked")
        self.decide(handoff, "discard", reason="nobody wants it")
        self.assertEqual(self.caller.state(handoff)["state"], "discarded")
        self.assertEqual(self.decisions()[0]["reason"], "nobody wants it")

    def test_the_fourth_replay_asks_for_a_second_word(self):
        self.start()
        handoff = self.send()
        for _ in range(3):
            self.decide(handoff, "replay", reason="again")
            self.caller.wait_for_state(handoff, "parked")
        refused = self.decide(handoff, "replay", reason="and again")
        self.assertEqual(refused.status, 409, refused.text)
        self.broken.do(ack)
        self.decide(handoff, "replay", reason="and again", again="true")
        self.caller.wait_for_state(handoff, "acknowledged")

    def test_the_second_of_two_people_is_told_who_decided_what(self):
        self.start()
        handoffs = self.park(8)
        for handoff in handoffs:
            path = f"/review/handoffs/{handoff}"
            visitors = [Visitor(self.daemon), Visitor(self.daemon)]
            forms = [visitor.open(path).form(f"{path}/discard") for visitor in visitors]
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                pages = list(pool.map(lambda who: visitors[who].submit(forms[who], by=("ann", "bob")[who], reason="x"),
                                      range(2)))
            first, second = sorted(pages, key=lambda page: page.status)
            self.assertEqual((first.status, second.status), (200, 409), second.text)
            (decision,) = self.decisions(handoff=handoff)
            self.assertIn(f"discard by @anyone ({decision['by']})", second.text)


class Editing(Case):
    def edit(self, handoff):
        page = self.page_of(handoff)
        self.assertIn(f"/review/handoffs/{handoff}/edit", page.links)
        return self.visitor.open(f"/review/handoffs/{handoff}/edit")

    def submit(self, page, handoff, phase, **fields):
        return self.visitor.submit(page.form(f"/review/handoffs/{handoff}/edit"), phase=phase,
                                   **{f"edit.{name}" if name not in ("reason", "by", "target_agent") else name: value
                                      for name, value in fields.items()})

    def test_the_difference_and_the_tokens_are_shown_before_it_is_sent(self):
        self.start()
        handoff = self.send(task_summary="Merge it\nquickly", state={"decisions": ["use rebase"]},
                            constraints={"must_not": ["force-push"]})
        page = self.edit(handoff)
        form = page.form(f"/review/handoffs/{handoff}/edit")
        self.assertEqual((form.fields["edit.task_summary"], json.loads(form.fields["edit.state"])["decisions"],
                          json.loads(form.fields["edit.constraints"])),
                         ("Merge it\nquickly", ["use rebase"], {"must_not": ["force-push"]}), "today's values")
        preview = self.submit(page, handoff, "preview", task_summary="Merge it\nslowly and with great care")
        self.assertRegex(preview.html, r"<del>quickly</del>")
        self.assertRegex(preview.html, r"<ins>slowly and with great care</ins>")
        before = self.caller.state(handoff)["token_count"]
        counted = re.search(r"(\d+) tokens of (\d+), before it was (\d+)", preview.text)
        self.assertEqual(int(counted[3]), before)
        self.assertGreater(int(counted[1]), before)
        self.assertEqual(self.caller.state(handoff)["state"], "parked", "nothing was sent")
        self.assertEqual(self.decisions(), [])
        self.broken.do(ack)
        sent = self.submit(preview, handoff, "send", reason="it was too short", by="alice")
        new = sent.path.removeprefix("/review/handoffs/")
        self.assertEqual(self.caller.wait_for_state(new, "acknowledged")["token_count"], int(counted[1]))
        self.assertEqual(self.caller.state(handoff)["state"], "discarded")
        envelope = self.caller.call("GET", f"/v1/handoffs/{new}/envelope").json()
        self.assertEqual(envelope["context"]["task"]["summary"], "Merge it\nslowly and with great care")
        self.assertEqual(envelope["replaces"]["id"], handoff)
        self.assert_linked(handoff, "Replaced by", new)
        self.assert_linked(new, "In the place of", handoff)
        (decision,) = self.decisions()
        self.assertEqual((decision["action"], decision["fields"], decision["by"], decision["reason"]),
                         ("edit", ["task_summary"], "alice", "it was too short"))

    def assert_linked(self, handoff, words, other):
        page = self.page_of(handoff)
        self.assertIn(f"{words}{other}", page.text)
        self.assertIn(f"/review/handoffs/{other}", page.links)

    def test_nothing_changed_is_no_difference(self):
        self.start()
        handoff = self.send(state={"decisions": ["x"]})
        self.assertIn("The brief stays the same", self.submit(self.edit(handoff), handoff, "preview").text)

    def test_lines_that_end_as_browsers_send_them_are_no_change(self):
        self.start()
        handoff = self.send(task_summary="Merge it\r\nquickly")
        page = self.edit(handoff)
        sent = self.submit(page, handoff, "send", task_summary="Merge it\r\nquickly", reason="x")
        self.assertEqual(sent.status, 200)
        (decision,) = self.decisions()
        self.assertEqual(decision["fields"], [])

    def test_a_bad_edit_is_named_and_what_was_typed_is_kept(self):
        self.start()
        handoff = self.send(constraints={"max_cost": 5})
        for fields, words in (({"constraints": '{"max_cost": 6}'}, "constraint_loosened"), ({"state": "{"}, "this field is not JSON"),
                              ({"memory_ids": '"x"'}, "memory_ids"), ({"target_agent": "nobody"}, "unknown_agent")):
            page = self.submit(self.edit(handoff), handoff, "preview", task_summary="What I typed", **fields)
            self.assertGreaterEqual(page.status, 400, fields)
            self.assertIn(words, page.text)
            self.assertEqual(page.form(f"/review/handoffs/{handoff}/edit").fields["edit.task_summary"], "What I typed")
            self.assertNotIn("Send it", page.text)
        self.assertEqual(self.caller.state(handoff)["state"], "parked")

    def test_what_expired_is_revived_by_a_later_deadline(self):
        self.start()
        expired = self.caller.send("puller", {"prefer": "wait=30"}, constraints={"deadline": self.soon(1)}).json()["handoff"]["id"]
        page = self.edit(expired)
        self.assertIn("deadline", page.form(f"/review/handoffs/{expired}/edit").fields["edit.constraints"])
        sent = self.submit(page, expired, "send", constraints=json.dumps({"deadline": self.soon(600)}), target_agent="spare",
                           reason="still wanted")
        new = sent.path.removeprefix("/review/handoffs/")
        self.caller.wait_for_state(new, "acknowledged")
        self.assertEqual(self.caller.state(expired)["state"], "expired")
        self.assertEqual([each["action"] for each in self.decisions()], ["revive"])
        self.assert_linked(expired, "Replaced by", new)
        self.assertNotIn("Revive", self.page_of(expired).text, "once is enough")

    @staticmethod
    def soon(seconds):
        at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
        return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Many(Case):
    def preview(self, page=None, **values):
        page = page or self.visitor.open("/review?target=puller")
        return self.visitor.submit(page.form("/review/jobs"), phase="preview", **values)

    def begin(self, page, **values):
        return self.visitor.submit(page.form("/review/jobs"), phase="begin", rate="500", **values)

    def test_preview_canary_progress_and_results(self):
        self.start()
        handoffs, other = self.park(12), self.send()
        preview = self.preview(action="replay", to="spare")
        self.assertIn("12 handoffs, of which 12 would be delivered now", preview.text)
        self.assertEqual(len(self.caller.parked("?limit=100")["items"]), 13, "nothing was done")
        page = self.begin(preview, reason="the old version works", by="alice", canary="true")
        job = page.path
        page = eventually(lambda: self.in_state(job, "waiting"), "it waits after its canary")
        self.assertIn("1 of 12 done", page.text)
        self.assertIn(f"/review/handoffs/{handoffs[0]}", page.links)
        page = self.visitor.submit(page.form(f"{job}/continue"))
        page = eventually(lambda: self.in_state(job, "done"), "it ends")
        self.assertIn("12 of 12 done: 12 succeeded, 0 skipped, 0 failed", page.text)
        self.assertIn('value="12"></progress>', page.html)
        self.assertEqual(self.caller.state(other)["state"], "parked", "the filter did not find it")
        decisions = self.decisions(limit=100)
        self.assertEqual({(each["action"], each["to"], each["by"], each["reason"]) for each in decisions},
                         {("redirect", "spare", "alice", "the old version works")})
        self.assertIn("bulk job", self.visitor.open("/review/decisions").text)
        self.assertIn(job, self.visitor.open("/review/jobs").links)

    def in_state(self, job, state):
        page = self.visitor.open(job)
        return page if f"State: {state}" in page.text else None

    def test_discard_by_filter(self):
        self.start()
        self.park(3)
        preview = self.preview(action="discard")
        self.assertIn("3 handoffs.", preview.text)
        refused = self.begin(preview, reason="")
        self.assertEqual(refused.status, 400)
        page = self.begin(preview, reason="stale")
        eventually(lambda: self.in_state(page.path, "done"), "it ends")
        self.assertEqual(self.caller.parked()["items"], [])

    def test_what_is_parked_after_the_preview_is_left_alone(self):
        self.start()
        seen = self.park(2)
        preview = self.preview(action="discard")
        self.assertIn("2 handoffs.", preview.text)
        self.assertRegex(preview.text, r"Only what was parked before \d{4}-\d\d-\d\d")
        (unseen,) = self.park(1)
        page = self.begin(preview, reason="stale")
        eventually(lambda: self.in_state(page.path, "done"), "it ends")
        self.assertEqual([self.caller.state(each)["state"] for each in (*seen, unseen)], ["discarded"] * 2 + ["parked"])

    def test_it_is_stopped(self):
        self.start()
        self.park(3)
        page = self.begin(self.preview(action="replay", to="spare"), reason="x", canary="true")
        waiting = eventually(lambda: self.in_state(page.path, "waiting"), "it waits")
        stopped = self.visitor.submit(waiting.form(f"{page.path}/stop"))
        self.assertIn("State: stopped", stopped.text)
        self.assertEqual(len(self.caller.parked()["items"]), 2)
        refused = self.visitor.exchange("POST", f"{page.path}/continue",
                                        urllib.parse.urlencode({"form": waiting.form(f"{page.path}/stop").fields["form"]}))
        self.assertEqual(refused.status, 409)

    def test_progress_as_events(self):
        self.start()
        self.park(3)
        job = self.caller.call("POST", "/v1/jobs", {"action": "replay", "to": "spare", "rate": 2}).json()["id"]

        def event(last=None):
            reply = self.visitor.exchange("GET", f"/review/jobs/{job}/events", **({"Last-Event-ID": last} if last else {}))
            self.assertEqual((reply.status, reply.header("Content-Type")), (200, "text/event-stream"), reply)
            fields = dict(line.split(": ", 1) for line in reply.text.splitlines() if line)
            self.assertTrue(reply.text.endswith("\n\n"), reply.text)
            return fields["id"], json.loads(fields["data"])
        seen, (last, told) = [], event()
        while told["state"] == "running":
            seen.append((told["done"], told["text"]))
            before, (last, told) = last, event(last)
            self.assertNotEqual(last, before, "it comes when there is news")
        self.assertEqual((told["state"], told["done"], told["text"]),
                         ("done", 3, "3 of 3 done: 3 succeeded, 0 skipped, 0 failed."))
        self.assertEqual(event(last), (last, told))
        self.assertRegex(seen[-1][1], r"^\d of 3 done")
        self.assertEqual(self.visitor.exchange("GET", f"/review/jobs/{NOBODY}/events").status, 404)

    def test_a_stop_of_the_process_waits_for_no_events(self):
        self.start()
        self.park(2)
        job = self.caller.call("POST", "/v1/jobs", {"action": "replay", "to": "spare", "rate": 1, "canary": False}).json()["id"]
        path = f"/review/jobs/{job}/events"
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self.visitor.exchange, "GET", path, **{"Last-Event-ID": "running-1"})
            eventually(lambda: self.caller.call("GET", f"/v1/jobs/{job}").json()["done"] >= 1, "it runs")
            self.daemon.terminate()
            self.assertEqual(self.daemon.wait(), 0)
            with contextlib.suppress(OSError, http.client.HTTPException):
                asked.result(30)

    def test_results_of_one_kind(self):
        self.start()
        first, second = self.park(2)
        page = self.begin(self.preview(action="replay", to="spare"), reason="x", canary="true")
        waiting = eventually(lambda: self.in_state(page.path, "waiting"), "it waits")
        self.decide(second, "discard", reason="not this")
        self.visitor.submit(waiting.form(f"{page.path}/continue"))
        eventually(lambda: self.in_state(page.path, "done"), "it ends")
        skipped = self.visitor.open(f"{page.path}?result=skipped")
        self.assertIn(f"/review/handoffs/{second}", skipped.links)
        self.assertEqual([link for link in skipped.links if first in link and "handoffs" in link],
                         [f"/review/handoffs/{first}"], "it is named as the canary only")
        self.assertIn("conflict", skipped.text)

    def test_bad_numbers_are_named(self):
        self.start()
        self.park(1)
        refused = self.begin(self.preview(action="replay"), reason="x")
        self.assertEqual(refused.status, 200)
        self.park(1)
        preview = self.preview(action="replay")
        self.assertIn("rate", self.visitor.submit(preview.form("/review/jobs"), phase="begin", rate="0").text)


class SignedIn(Case):
    def setUp(self):
        super().setUp()
        self.start(tokens=TOKENS)
        self.caller = OperatorsCaller(self.daemon)

    def sign_in(self, visitor=None, person="alice"):
        visitor = visitor or self.visitor
        page = visitor.sign_in(TOKENS["@operator"], person)
        self.assertEqual((page.status, page.path), (200, "/review"), page.text)
        return visitor

    def test_nothing_is_shown_before(self):
        self.park(1)
        for path in ("/review", "/review/causes", "/review/jobs", f"/review/handoffs/{NOBODY}"):
            reply = self.visitor.exchange("GET", path)
            self.assertEqual((reply.status, reply.header("Location"), reply.body), (303, "/review/sign-in", b""))
        page = self.visitor.open()
        self.assertEqual([form.action for form in page.forms], ["/review/sign-in"])
        self.assertNotIn("invoice", page.html)

    def test_only_an_operators_token_signs_in(self):
        for token, code in (("wrong-0123456789abcdef", 401), (TOKENS["analyst"], 403), ("", 401), ("x" * 600, 401)):
            page = self.visitor.sign_in(token)
            self.assertEqual(page.status, code, page.text)
            self.assertIsNone(self.visitor.cookie)
        self.assertIn("authentication_failed", {event["event"] for event in self.daemon.events()})
        for token in TOKENS.values():
            self.assertNotIn(token, self.daemon.log())
        page = self.visitor.exchange("GET", "/review", **{"Authorization": f"Bearer {TOKENS['@operator']}"})
        self.assertEqual(page.status, 303, "a page has sessions, and programs have the API")

    def test_the_cookie(self):
        page = self.visitor.open()
        reply = self.visitor.exchange("POST", "/review/sign-in", urllib.parse.urlencode(
            {"form": page.forms[0].fields["form"], "token": TOKENS["@operator"]}))
        self.assertRegex(reply.header("Set-Cookie"),
                         r"^handoff_review=[0-9a-f]{64}; Path=/review; Max-Age=43200; HttpOnly; SameSite=Strict$")
        self.assertEqual(self.visitor.open().status, 200)
        other = self.sign_in(Visitor(self.daemon))
        self.assertNotEqual(other.cookie, self.visitor.cookie)

    def test_a_decision_names_the_person(self):
        (handoff,) = self.park(1)
        self.sign_in()
        self.decide(handoff, "discard", reason="stale")
        (decision,) = self.decisions()
        self.assertEqual((decision["who"], decision["by"]), ("@operator", "alice"))

    def test_the_session_ends_with_its_token(self):
        (handoff,) = self.park(1)
        self.sign_in()
        page = self.page_of(handoff)
        self.write_tokens({**TOKENS, "@operator": "another-0123456789abcdef"})
        self.assertEqual(self.daemon.reload().status, 200)
        self.assertEqual(self.visitor.exchange("GET", "/review").status, 303)
        refused = self.visitor.submit(page.form(f"/review/handoffs/{handoff}/discard"), reason="x")
        self.assertEqual(refused.status, 401)
        self.assertIn("signed out", refused.text)
        self.caller.token = "another-0123456789abcdef"
        self.assertEqual(self.caller.state(handoff)["state"], "parked")

    def test_the_session_ends_by_signing_out(self):
        self.sign_in()
        kept = self.visitor.cookie
        page = self.visitor.submit(self.visitor.open().form("/review/sign-out"))
        self.assertEqual(page.path, "/review/sign-in")
        self.assertIsNone(self.visitor.cookie)
        self.visitor.cookie = kept
        self.assertEqual(self.visitor.exchange("GET", "/review").status, 303, "a copied cookie is of no use")

    def test_a_page_that_refreshes_by_itself_does_not_use_its_session(self):
        """The session that was not used for longest gives way to the 65th."""
        left_open, used, *_ = [self.sign_in(Visitor(self.daemon)) for _ in range(64)]
        for headers in ({"Handoff-Refresh": "1"}, {"Accept": "text/event-stream"}):
            self.assertEqual(left_open.exchange("GET", "/review/jobs", **headers).status, 200)
        self.assertEqual(used.exchange("GET", "/review/jobs").status, 200)
        self.sign_in(Visitor(self.daemon))
        self.assertEqual(left_open.exchange("GET", "/review").status, 303)
        self.assertEqual(used.exchange("GET", "/review").status, 200)

    def test_the_64_newest_sessions_stay(self):
        visitors = [self.sign_in(Visitor(self.daemon)) for _ in range(65)]
        self.assertEqual(visitors[0].exchange("GET", "/review").status, 303)
        self.assertEqual(visitors[64].exchange("GET", "/review").status, 200)


class OperatorsCaller(Caller):
    token = TOKENS["@operator"]

    def call(self, method, path, body=None, **headers):
        return super().call(method, path, body, authorization=f"Bearer {self.token}", **headers)


class Refused(Case):
    def test_forged_forms_do_nothing(self):
        self.start(tokens=TOKENS)
        self.caller = OperatorsCaller(self.daemon)
        (handoff,) = self.park(1)
        self.visitor.sign_in(TOKENS["@operator"])
        path = f"/review/handoffs/{handoff}/discard"
        own = self.page_of(handoff).form(path).fields["form"]
        stranger = Visitor(self.daemon)
        stranger.sign_in(TOKENS["@operator"])
        others = stranger.open(f"/review/handoffs/{handoff}").form(path).fields["form"]
        body = {"reason": "x"}
        for fields in (body, {**body, "form": ""}, {**body, "form": others}, {**body, "form": own[:-1]},
                       {**body, "form": own.upper() + "0"}):
            page = self.visitor.exchange("POST", path, urllib.parse.urlencode(fields))
            self.assertEqual(page.status, 403, page.text)
        good = urllib.parse.urlencode({**body, "form": own})
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
                        {"Sec-Fetch-Site": None, "Origin": "https://evil.example"},
                        {"Sec-Fetch-Site": None, "Origin": "null"}):
            reply = self.visitor.exchange("POST", path, good, **headers)
            self.assertEqual((reply.status, reply.json()["code"]), (403, "cross_origin"), headers)
        for kind in "application/json", "multipart/form-data; boundary=x", "text/plain", None:
            self.assertEqual(self.visitor.exchange("POST", path, good, **{"Content-Type": kind}).status, 400, kind)
        for bad in "%zz=1&" + good, good + "&a=%00", "form", "&".join(f"a{i}=1" for i in range(99)) + "&" + good:
            self.assertEqual(self.visitor.exchange("POST", path, bad).status, 400, bad[:40])
        self.assertEqual(self.caller.state(handoff)["state"], "parked")
        self.assertEqual(self.visitor.exchange("POST", path, good).status, 303)

    def test_another_name_for_this_machine_is_refused_without_tokens(self):
        self.start()
        self.assertEqual(self.visitor.exchange("GET", f"/review/handoffs/{NOBODY}/discard").status, 405)
        reply = self.visitor.exchange("GET", "/review", Host="evil.example")
        self.assertEqual((reply.status, reply.json()["code"]), (403, "cross_origin"))

    def test_a_link_from_elsewhere_leads_to_the_page(self):
        self.start()
        self.assertEqual(self.visitor.exchange("GET", "/review", **{"Sec-Fetch-Site": "cross-site"}).status, 200)

    def test_markup_in_every_field_stays_text(self):
        self.start()
        self.caller.call("PUT", "/v1/memories/m-1", {"content": HOSTILE, "summary": HOSTILE})
        fields = {"task_summary": HOSTILE, "task_id": HOSTILE.replace("\u202e", ""), "intent": HOSTILE, "memory_ids": ["m-1"],
                  "state": {"decisions": [HOSTILE], "unresolved": [HOSTILE]}, "constraints": {"must_not": [HOSTILE]},
                  "execution_history": [{"agent": "analyst", "action": HOSTILE}]}
        def parked():
            return self.caller.call("POST", "/v1/parked", {"reason": HOSTILE, "request": {
                "source_agent": "analyst", "target_agent": "puller", **fields, "task_id": "t"}}).json()["id"]
        decided = parked()
        preview = self.visitor.submit(self.visitor.open("/review?" + urllib.parse.urlencode({"query": "script"}))
                                      .form("/review/jobs"), phase="preview", to="spare")
        job = self.visitor.submit(preview.form("/review/jobs"), phase="begin", reason=HOSTILE, by=HOSTILE[:60]).path
        self.caller.wait_for_state(decided, "acknowledged")
        self.broken.do(status(400, HOSTILE.encode()))
        handoff, waiting = self.send(**fields), parked()
        self.assertIn("It answered: <script>", self.page_of(handoff).text)
        for path in ("/review", "/review/causes", "/review/decisions", "/review/jobs", job, f"/review/handoffs/{handoff}",
                     f"/review/handoffs/{decided}", f"/review/handoffs/{waiting}", f"/review/handoffs/{waiting}/edit", "/review?" + urllib.parse.urlencode({"query": HOSTILE, "target": HOSTILE})):
            page = self.visitor.open(path)
            self.assertTrue("turned" in page.html or "script&gt;" in page.html, path)
            self.assert_harmless(page)
        self.assert_harmless(preview)

    def test_the_headers_of_every_answer(self):
        self.start()
        for path in "/review", "/review/review.css", "/review/page.css", "/review/review.js", f"/review/handoffs/{NOBODY}":
            reply = self.visitor.exchange("GET", path)
            self.assertEqual(reply.header("Content-Security-Policy"),
                             "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
                             "form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
            self.assertEqual((reply.header("X-Content-Type-Options"), reply.header("Cache-Control"),
                              reply.header("Referrer-Policy"), reply.header("Cross-Origin-Resource-Policy")),
                             ("nosniff", "no-store", "same-origin", "same-origin"))
        self.assertEqual(self.visitor.exchange("GET", "/review/review.css").header("Content-Type"), "text/css; charset=utf-8")
        self.assertEqual(self.visitor.exchange("GET", "/review/review.js").header("Content-Type"), "text/javascript; charset=utf-8")


if __name__ == "__main__":
    unittest.main()
