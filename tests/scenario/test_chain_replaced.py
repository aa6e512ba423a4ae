# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""An operator's edit makes an envelope that replaces the old one; the old items are gone from the ledger."""

import concurrent.futures
import contextlib
import datetime
import json
import sqlite3
import threading
import time
import unittest

from harness.chain import Chain, Chained, Pushed, constraints, parents, state
from harness.receiver import ack, status


class Replaced(Pushed):
    def edited(self, **edit):
        """A parked second hop, and the envelope that replaces it."""
        first = self.chain.hand("researcher", "tester", state={"decisions": ["one"]}, constraints={"max_cost": 5})
        self.receiver.do(status(503))
        reply = self.chain.ask("tester", "analyst", state={"decisions": ["a mistake"]},
                               execution_history=[{"agent": "tester", "action": "erred"}])
        old = self.settle(reply.json()["id"], "parked")
        self.receiver.do(ack)
        reply = self.chain.call("POST", f"/v1/parked/{old}/replay", {"edit": edit})
        return first, old, reply

    def test_an_edit_replaces_with_the_same_parents_and_hop(self):
        first, old, reply = self.edited(task_summary="corrected", state={"decisions": ["right"]})
        self.assertEqual(reply.status, 200, reply)
        envelope = self.chain.envelope(reply.json()["id"])
        self.assertEqual(envelope["replaces"]["id"], old)
        self.assertEqual((parents(envelope), envelope["hop"]["count"]), ([first["id"]], 2))
        self.assertEqual(state(envelope)["decisions"], ["one", "right"])

    def test_a_replaced_requests_items_are_gone_from_the_ledger(self):
        _, old, reply = self.edited(state={"decisions": ["right"]}, execution_history=[])
        new = self.settle(reply.json()["id"], "acknowledged")
        envelope = self.chain.hand("analyst", "coder")
        self.assertEqual(parents(envelope), [new])
        self.assertEqual(state(envelope)["decisions"], ["one", "right"])
        self.assertEqual(self.chain.state(old)["state"], "discarded")
        self.assertNotIn("a mistake", json.dumps(self.chain.ledger(envelope)))

    def test_a_replaced_handoff_names_the_one_in_its_place(self):
        _, old, reply = self.edited(task_summary="corrected")
        new = self.settle(reply.json()["id"], "acknowledged")
        self.assertEqual(self.chain.state(old)["replaced_by"], new)
        self.assertNotIn("replaced_by", self.chain.state(new))
        listed = self.chain.call("GET", f"/v1/handoffs?task={self.chain.task}").json()["items"]
        self.assertEqual([item.get("replaced_by") for item in listed], [None, new, None])

    def test_an_answer_to_a_replaced_handoff_names_its_successor(self):
        """Who takes back what is no longer there, or refuses it, has what it wants."""
        _, old, reply = self.edited(task_summary="corrected")
        new = self.settle(reply.json()["id"], "acknowledged")
        for call, body, expected in (("ack", {}, 409), ("extend", {"progress": "half"}, 409),
                                     ("park", {"reason": "later"}, 409), ("nack", {"reason": "no"}, 200),
                                     ("cancel", {"reason": "no"}, 200)):
            with self.subTest(call):
                answer = self.chain.call("POST", f"/v1/handoffs/{old}/{call}", body)
                self.assertEqual(answer.status, expected, answer)
                told = answer.json()
                handoff = told["handoff"] if expected == 409 else told
                self.assertEqual((handoff["state"], handoff["replaced_by"]), ("discarded", new))
                if expected == 409:
                    self.assertEqual(told["code"], "conflict")
                    self.assertIn("replaced_by", told["detail"])

    def test_an_edited_state_keeps_what_was_resolved_and_done(self):
        self.chain.hand("researcher", "tester", state={"unresolved": ["why?", {"id": "q-2", "text": "when?"}],
                                                       "remaining": ["test it", "ship it"]})
        old = self.parked("tester", state={"resolved": ["why?", "q-2"], "done": ["test it"], "decisions": ["wrong"]})
        for edited, unresolved, remaining in (
                ({"decisions": ["right"]}, [], ["ship it"]),
                ({"decisions": ["right"], "resolved": []}, ["why?", {"id": "q-2", "text": "when?"}], ["ship it"]),
                ({"unresolved": ["why?"]}, ["why?"], ["ship it"]),
                ({"unresolved": [{"id": "q-2", "text": "at what time?"}]}, [{"id": "q-2", "text": "when?"},
                 {"id": "q-2", "text": "at what time?"}], ["ship it"]),
                ({"done": ["ship it"]}, [], ["test it"])):
            with self.subTest(edited):
                reply = self.chain.call("POST", f"/v1/parked/{old}/preview", {"edit": {"state": edited}})
                self.assertEqual(reply.status, 200, reply)
                new = self.edit(old, state=edited)
                self.assertEqual((state(new).get("unresolved", []), state(new).get("remaining", [])),
                                 (unresolved, remaining))
                self.chain.task += "-again"
                self.chain.hand("researcher", "tester", state={
                    "unresolved": ["why?", {"id": "q-2", "text": "when?"}], "remaining": ["test it", "ship it"]})
                old = self.parked("tester", state={"resolved": ["why?", "q-2"], "done": ["test it"],
                                                   "decisions": ["wrong"]})

    def test_what_is_not_edited_is_as_it_was_asked_for(self):
        first, old, reply = self.edited(task_summary="corrected")
        self.assertEqual(reply.status, 200, reply)
        before, after = self.chain.envelope(old), self.chain.envelope(reply.json()["id"])
        self.assertEqual(state(after), state(before))
        self.assertEqual(after["context"]["history"], before["context"]["history"])
        self.assertEqual(after["context"]["constraints"], {"max_cost": 5})
        self.assertEqual(after["hop"], before["hop"])

    def test_an_edit_sees_no_more_than_what_it_replaces(self):
        """Which saw fewer scopes than its parent, or none."""
        self.chain.remember("hers", scope="user:alice")
        self.chain.hand("researcher", "tester", scope="user:alice")
        old = self.chain.hand("tester", "coder", scope=[], memory_ids=["hers"])
        self.assertEqual([entry["id"] for entry in old["missing"]], ["hers"])
        self.assertEqual(self.chain.call("POST", f"/v1/handoffs/{old['id']}/park", {"reason": "wait"}).status, 200)
        path = f"/v1/parked/{old['id']}/replay"
        reply = self.chain.call("POST", path, {"edit": {"scope": ["user:alice"]}})
        self.assertEqual((reply.status, reply.json()["code"]), (422, "scope_widened"), reply)
        reply = self.chain.call("POST", path, {"edit": {"task_summary": "corrected"}})
        self.assertEqual(reply.status, 200, reply)
        new = self.chain.envelope(reply.json()["id"])
        self.assertEqual(([entry["id"] for entry in new["missing"]], new.get("scope")), (["hers"], None))

    def test_an_edit_of_an_edit(self):
        _, old, reply = self.edited(state={"decisions": ["wrong again"]}, target_agent="coder")
        self.assertEqual(reply.status, 400, reply)  # target_agent belongs beside `edit`
        self.receiver.do(status(503))
        second = self.chain.call("POST", f"/v1/parked/{old}/replay", {"edit": {"state": {"decisions": ["wrong"]}}})
        second = self.settle(second.json()["id"], "parked")
        self.receiver.do(ack)
        reply = self.chain.call("POST", f"/v1/parked/{second}/replay", {"edit": {"state": {"decisions": ["right"]}}})
        envelope = self.chain.envelope(reply.json()["id"])
        self.assertEqual((envelope["replaces"]["id"], envelope["hop"]["count"]), (second, 2))
        self.assertEqual(state(envelope)["decisions"], ["one", "right"])

    def test_a_later_deadline_holds_for_what_follows(self):
        soon, later = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + hours * 3600))
                       for hours in (1, 2))
        self.receiver.do(status(503))
        reply = self.chain.ask("tester", "analyst", constraints={"deadline": soon, "max_cost": 5})
        old = self.settle(reply.json()["id"], "parked")
        self.receiver.do(ack)
        reply = self.chain.call("POST", f"/v1/parked/{old}/replay", {"edit": {"constraints": {"deadline": later}}})
        self.assertEqual(reply.status, 200, reply)
        self.settle(reply.json()["id"], "acknowledged")
        envelope = self.chain.hand("analyst", "coder")
        self.assertEqual(envelope["context"]["constraints"], {"deadline": later, "max_cost": 5})

    def test_only_an_edit_with_a_later_deadline_revives_what_has_expired(self):
        soon, later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
                       for seconds in (1, 3600))
        self.receiver.do(lambda request: self.chain.wait_for_state(request.id, "expired"))
        reply = self.chain.ask("tester", "analyst", state={"decisions": ["too late"]},
                               constraints={"deadline": soon.isoformat()})
        old = self.settle(reply.json()["id"], "expired")
        self.receiver.do(ack)
        for body, code, name in ((None, 409, "conflict"), ({"edit": {}}, 422, "deadline_passed")):
            reply = self.chain.call("POST", f"/v1/parked/{old}/replay", body)
            self.assertEqual((reply.status, reply.json()["code"]), (code, name), reply)
        edit = {"edit": {"constraints": {"deadline": later.isoformat()}}}
        reply = self.chain.call("POST", f"/v1/parked/{old}/replay", edit)
        self.assertEqual(reply.status, 200, reply)
        new = self.settle(reply.json()["id"], "acknowledged")
        self.assertEqual(self.chain.envelope(new)["replaces"]["id"], old)
        self.assertEqual(self.chain.state(old)["state"], "expired")
        again = self.chain.call("POST", f"/v1/parked/{old}/replay", edit)
        self.assertEqual((again.status, again.json()["code"]), (409, "conflict"), again)

    # ---- chains that continued what is replaced later

    def parked(self, source, **fields):
        self.receiver.do(status(503))
        reply = self.chain.ask(source, "analyst", **fields)
        self.assertEqual(reply.status, 202, reply)
        return self.settle(reply.json()["id"], "parked")

    def edit(self, handoff, **edit):
        self.receiver.do(ack)
        reply = self.chain.call("POST", f"/v1/parked/{handoff}/replay", {"edit": edit})
        self.assertEqual(reply.status, 200, reply)
        return self.chain.envelope(self.settle(reply.json()["id"], "acknowledged"))

    def test_what_continued_it_keeps_its_constraints_and_its_intent(self):
        old = self.parked("researcher", intent="the user's own words", state={"decisions": ["a mistake"]},
                          constraints={"max_cost": 5, "must_not": ["leak"]})
        child = self.chain.hand("analyst", "coder", previous_id=old)
        self.edit(old, task_summary="corrected", state={"decisions": ["right"]}, constraints={"max_cost": 4})
        envelope = self.chain.hand("coder", "tester", previous_id=child["id"])
        self.assertEqual(constraints(envelope), {"max_cost": 5, "must_not": ["leak"]})
        self.assertEqual(envelope["context"]["task"]["intent"], "the user's own words")
        self.assertEqual(state(envelope).get("decisions", []), [])
        self.assertNotIn("a mistake", json.dumps(self.chain.ledger(envelope)))
        answer = self.chain.refused("tester", "reviewer", previous_id=envelope["id"], constraints={"max_cost": 6})
        self.assertEqual((answer[0], answer[1]["code"]), (422, "constraint_loosened"), answer)

    def test_an_intent_that_was_its_summary_stays_the_intent(self):
        old = self.parked("researcher", summary="what the first one asked for")
        child = self.chain.hand("analyst", "coder", previous_id=old)
        self.edit(old, task_summary="corrected")
        envelope = self.chain.hand("coder", "tester", previous_id=child["id"])
        self.assertEqual(envelope["context"]["task"]["intent"], "what the first one asked for")

    def test_what_was_replaced_is_not_continued(self):
        old = self.parked("researcher")
        new = self.edit(old, task_summary="corrected")
        answer = self.chain.refused("analyst", "coder", previous_id=old)
        self.assertEqual((answer[0], answer[1]["code"]), (409, "conflict"), answer)
        self.assertEqual((answer[1]["seen"], answer[1]["allowed"]), (old, new["id"]))
        self.assertEqual(parents(self.chain.hand("analyst", "coder")), [new["id"]])

    def test_an_edit_of_what_continues_a_replaced_one(self):
        first = self.chain.hand("researcher", "tester", intent="the user's own words", state={"decisions": ["one"]},
                                constraints={"max_cost": 5})
        old = self.parked("tester", state={"decisions": ["a mistake"]}, constraints={"min_tests": 3})
        self.receiver.do(status(503))
        reply = self.chain.ask("writer", "analyst", previous_id=old, state={"decisions": ["three"]})
        third = self.settle(reply.json()["id"], "parked")
        self.edit(old, state={"decisions": ["right"]})
        envelope = self.edit(third, state={"decisions": ["third"]})
        self.assertEqual((parents(envelope), envelope["hop"]["count"]), ([old], 3))
        self.assertEqual(envelope["context"]["task"]["intent"], "the user's own words")
        self.assertEqual(constraints(envelope), {"max_cost": 5, "min_tests": 3})
        self.assertEqual(state(envelope)["decisions"], ["one", "third"])
        self.assertEqual({item["envelope_id"] for item in self.chain.ledger(envelope, "decision")},
                         {first["id"], envelope["id"]})

    def test_a_branch_of_a_task_whose_first_envelope_was_replaced(self):
        old = self.parked("researcher", intent="the user's own words", state={"decisions": ["a mistake"]},
                          constraints={"max_cost": 5})
        self.edit(old, constraints={"min_tests": 3})
        envelope = self.chain.hand("researcher", "coder")
        self.assertEqual((parents(envelope), envelope["hop"]["count"]), ([], 1))
        self.assertEqual(envelope["context"]["task"]["intent"], "the user's own words")
        self.assertEqual(constraints(envelope), {"max_cost": 5, "min_tests": 3})

    def test_a_branch_of_a_task_whose_first_deadline_an_edit_made_later(self):
        soon, later, latest = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + hours * 3600))
                               for hours in (1, 2, 3))
        old = self.parked("researcher", constraints={"deadline": soon})
        self.receiver.do(status(503))
        reply = self.chain.call("POST", f"/v1/parked/{old}/replay", {"edit": {"constraints": {"deadline": later}}})
        second = self.settle(reply.json()["id"], "parked")
        self.edit(second, constraints={"deadline": latest})
        self.assertEqual(constraints(self.chain.hand("researcher", "coder")), {"deadline": latest})

    def test_a_later_deadline_loosens_no_siblings(self):
        times = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + hours * 3600)) for hours in range(1, 4)]
        for theirs in {"deadline": times[1], "max_tokens": 3000}, {"max_tokens": 3000}:
            with self.subTest(theirs):
                self.chain.task = f"siblings-{len(theirs)}"
                first = self.chain.hand("researcher", "tester", constraints={"max_tokens": 9000, "deadline": times[1]})
                old = self.parked("tester", previous_id=first["id"], constraints={"deadline": times[0]})
                sibling = self.chain.hand("tester", "coder", previous_id=first["id"], constraints=theirs)
                new = self.edit(old, constraints={"deadline": times[2]})
                self.assertEqual(constraints(new)["deadline"], times[2])
                both = self.chain.hand("coder", "reviewer", previous_id=[new["id"], sibling["id"]])
                self.assertEqual(constraints(both), {"deadline": times[1], "max_tokens": 3000})
                alone = self.chain.hand("analyst", "reviewer", previous_id=new["id"])
                self.assertEqual(constraints(alone), {"deadline": times[2], "max_tokens": 9000})

    def test_an_edit_of_what_an_older_version_stored_has_its_parent(self):
        first = self.chain.hand("researcher", "tester", intent="the user's own words", state={"decisions": ["one"]},
                                constraints={"max_cost": 5})
        old = self.parked("tester", state={"decisions": ["a mistake"]},
                          execution_history=[{"agent": "tester", "action": "tried"}])
        self.daemon.terminate()
        self.daemon.wait()
        with contextlib.closing(sqlite3.connect(self.daemon.folder / "data/handoff.db")) as store:
            for table in "contributions", "lineage":
                store.execute(f"DELETE FROM {table}")
            store.commit()
        self.daemon.log_path.unlink()
        self.daemon.start()
        envelope = self.edit(old, state={"decisions": ["right"]})
        self.assertEqual((parents(envelope), envelope["hop"]["count"]), ([first["id"]], 2))
        self.assertEqual(envelope["replaces"]["id"], old)
        self.assertEqual(envelope["context"]["task"]["intent"], "the user's own words")
        self.assertEqual(state(envelope)["decisions"], ["one", "right"])
        self.assertEqual(constraints(envelope), {"max_cost": 5})
        self.assertIn("tried", json.dumps(envelope["context"]["history"]))

    def test_an_edit_cannot_loosen(self):
        _, old, reply = self.edited(constraints={"max_cost": 6})
        self.assertEqual((reply.status, reply.json()["code"]), (422, "constraint_loosened"), reply)
        self.assertEqual(self.chain.state(old)["state"], "parked")


class Races(Chained):
    ROUNDS = 20

    def parked(self, chain, **fields):
        old = chain.hand("researcher", "analyst", **fields)["id"]
        reply = chain.call("POST", f"/v1/handoffs/{old}/park", {"reason": "an operator looks at it"})
        self.assertEqual(reply.status, 200, reply)
        return old

    def test_a_request_that_names_none_follows_an_edit_that_is_committed_before_it(self):
        """It chose what the edit replaces. While the store cannot write, the edit waits, and the request behind it."""
        for path, accepted in ("/v1/handoffs", 202), ("/v1/envelopes", 200):
            with self.subTest(path):
                chain = Chain(self.daemon, f"{self.task}-{accepted}")
                old = self.parked(chain)
                with concurrent.futures.ThreadPoolExecutor(2) as pool:
                    with contextlib.closing(sqlite3.connect(self.daemon.folder / "data/handoff.db",
                                                            isolation_level=None)) as store:
                        store.execute("BEGIN IMMEDIATE")
                        edit = pool.submit(chain.call, "POST", f"/v1/parked/{old}/replay",
                                           {"edit": {"state": {"decisions": ["right"]}}})
                        time.sleep(0.3)
                        unnamed = pool.submit(chain.ask, "analyst", "tester", path=path, expected_output={"format": "x"})
                        time.sleep(0.3)
                    edit, unnamed = edit.result(), unnamed.result()
                self.assertEqual((edit.status, unnamed.status), (200, accepted), unnamed)
                envelope = chain.stored(unnamed.json()["id"])
                self.assertEqual(parents(envelope), [edit.json()["id"]])
                self.assertEqual(state(envelope)["decisions"], ["right"])

    def test_an_edit_while_others_continue_the_envelope(self):
        """Who names it continues it before the edit, and keeps its constraints, or is answered with the conflict; who
        names none continues it before the edit, or the edit."""
        for number in range(self.ROUNDS):
            chain = Chain(self.daemon, f"{self.task}-{number}")
            old = self.parked(chain, constraints={"max_cost": 5}, intent="the user's own words")
            barrier = threading.Barrier(3)

            def at_once(call, *given, barrier=barrier, **fields):
                barrier.wait()
                return call(*given, **fields)
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                edit = pool.submit(at_once, chain.call, "POST", f"/v1/parked/{old}/replay",
                                   {"edit": {"constraints": {"max_cost": 4}}})
                named = pool.submit(at_once, chain.ask, "analyst", "coder", previous_id=old)
                unnamed = pool.submit(at_once, chain.ask, "analyst", "tester")
                edit, named, unnamed = edit.result(), named.result(), unnamed.result()
            self.assertEqual(edit.status, 200, edit)
            new = edit.json()["id"]
            self.assertEqual(unnamed.status, 202, unnamed)
            for reply, most in ((named, {old: 5}), (unnamed, {old: 5, new: 4})):
                self.assertIn(reply.status, (202, 409), reply)
                if reply.status == 202:
                    envelope = chain.envelope(reply.json()["id"])
                    self.assertEqual(constraints(envelope), {"max_cost": most[parents(envelope)[0]]})
                    later = chain.hand(envelope["target_agent"], "writer", previous_id=envelope["id"])
                    self.assertEqual(constraints(later), constraints(envelope))
                    self.assertEqual(later["context"]["task"]["intent"], "the user's own words")


if __name__ == "__main__":
    unittest.main()
