# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""A parent's items outlive its body, as long as any handoff of the chain is live, parked or retained."""

import datetime
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import eventually
from harness.agents import daemon_with
from harness.chain import AGENTS, Chain, actions, constraints, parents, pullers, state

HANDOFFCTL = os.environ["HANDOFFCTL"]

MIB = 1 << 20
FILL = "retry the request with a backoff and jitter " * (MIB // 8 // 44)


class Retention(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(daemon_with(
            pullers(*AGENTS, token_budget=1000000), storage={"retention": {"size": "1MiB"}}, hops={"max": 12}))
        self.chain = Chain(self.daemon, "kept")

    def fill(self):
        """1.25 MiB of finished envelopes that are younger than all that is stored."""
        for number in range(10):
            Chain(self.daemon, f"filler-{number}").assemble("researcher", "writer", task_id=None,
                                                            state={"progress": FILL})

    def wait_until_removed(self, envelope):
        def removed():
            reply = self.chain.call("GET", f"/v1/handoffs/{envelope['id']}/envelope")
            self.assertEqual(reply.status, 410, reply)
            return True
        eventually(removed, "its body is removed")

    def first(self, **fields):
        return self.chain.assemble(
            "researcher", "analyst", intent="The user's words", constraints={"max_cost": 5, "must_not": ["deploy"]},
            state={"decisions": ["one"], "unresolved": ["why?"], "remaining": ["ship it"]},
            execution_history=[{"agent": "researcher", "action": "looked", "reason": "must"}],
            memory_ids=["not-there"], **fields)

    def check(self, envelope, hop):
        self.assertEqual(envelope["context"]["task"]["intent"], "The user's words")
        self.assertEqual(constraints(envelope), {"max_cost": 5, "must_not": ["deploy"]})
        self.assertEqual(envelope["hop"]["count"], hop)
        self.assertEqual({name: state(envelope)[name] for name in ("decisions", "unresolved", "remaining")},
                         {"decisions": ["one"], "unresolved": ["why?"], "remaining": ["ship it"]})
        self.assertIn("looked", actions(envelope))
        self.assertEqual([entry["id"] for entry in envelope["missing"]], ["not-there"])
        self.assertNotIn("omitted", envelope)
        self.assertIn({"agent": "researcher", "action": "looked", "reason": "must"},
                      self.chain.values(envelope, "step"))

    def test_a_parents_items_outlive_its_body(self):
        first = self.first()
        self.fill()
        self.wait_until_removed(first)
        second = self.chain.hand("analyst", "coder")
        self.check(second, 2)
        self.assertEqual(second["previous"], {"id": first["id"], "digest": first["digest"]})
        self.check(self.chain.hand("coder", "tester"), 3)

    def test_the_items_of_ancestors_outlive_all_bodies_of_a_live_chain(self):
        first = self.first()
        second = self.chain.assemble("analyst", "coder")
        live = self.chain.hand("coder", "tester")
        for _ in range(2):
            self.fill()
        self.wait_until_removed(first)
        self.wait_until_removed(second)
        self.check(self.chain.envelope(live["id"]), 3)
        self.check(self.chain.hand("tester", "reviewer"), 4)

    def test_what_is_loosened_after_the_body_went_is_refused_with_hop_and_agent(self):
        first = self.first()
        self.fill()
        self.wait_until_removed(first)
        status, problem = self.chain.refused("analyst", "coder", constraints={"max_cost": 6})
        self.assertEqual((status, problem["code"]), (422, "constraint_loosened"))
        for text in "max_cost", "5", "researcher", "hop 1":
            self.assertIn(text, str(problem))

    def test_large_constraints_are_inherited_without_the_body_too(self):
        rules = [f"rule {number} of a long list of rules that all hold" for number in range(400)]
        first = self.chain.assemble("researcher", "analyst", constraints={"rules": rules})
        self.fill()
        self.wait_until_removed(first)
        self.assertEqual(constraints(self.chain.hand("analyst", "coder")), {"rules": rules})

    def test_the_ledger_is_answered_after_the_body_went(self):
        first = self.first()
        self.fill()
        self.wait_until_removed(first)
        self.assertEqual(self.chain.values(first, "decision"), ["one"])

    def test_a_stranger_is_a_stranger_and_a_party_is_a_party_after_the_body_went(self):
        first = self.first()
        self.fill()
        self.wait_until_removed(first)
        self.assertEqual(self.chain.refused("writer", "coder")[0], 404)
        branch = self.chain.hand("researcher", "coder")
        self.assertIsNone(branch["previous"])
        self.assertEqual(branch["context"]["task"]["intent"], "The user's words")
        self.assertEqual(constraints(branch), {"max_cost": 5, "must_not": ["deploy"]})

    def test_a_restart_forgets_nothing(self):
        self.first()
        self.daemon.kill()
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.daemon.expected_exit = 0
        self.check(self.chain.hand("analyst", "coder"), 2)


class Budget(unittest.TestCase):
    """Ledgers are part of what storage.retention.index_size bounds."""

    def test_a_chain_that_is_over_goes_with_its_ledger(self):
        with daemon_with(pullers(*AGENTS), storage={"retention": {"age": "2s"}}) as daemon:
            chain = Chain(daemon, "over")
            first = chain.assemble("researcher", "analyst", state={"decisions": ["one"]})
            def gone():
                return chain.call("GET", f"/v1/envelopes/{first['id']}/ledger").status == 404
            eventually(gone, "its ledger is past its age")

    def test_a_chain_stays_as_long_as_its_last_handoff_is_live(self):
        with daemon_with(pullers(*AGENTS), storage={"retention": {"age": "2s"}}) as daemon:
            chain = Chain(daemon, "live")
            first = chain.assemble("researcher", "analyst", state={"decisions": ["one"]}, constraints={"max_cost": 5})
            live = chain.hand("analyst", "coder")  # waits in an inbox
            def gone():
                return chain.call("GET", f"/v1/handoffs/{first['id']}/envelope").status in (404, 410)
            eventually(gone, "the first is past its age")
            self.assertEqual(chain.values(live, "decision"), ["one"])
            third = chain.hand("coder", "tester")
            self.assertEqual((state(third)["decisions"], constraints(third)), (["one"], {"max_cost": 5}))
            self.assertEqual(third["hop"]["count"], 3)


class Removed(unittest.TestCase):
    """The first handoff of a chain is past its age, and was removed whole; the second is live or parked."""

    def setUp(self):
        self.daemon = self.enterContext(daemon_with(pullers(*AGENTS), storage={"retention": {"age": "2s"}}))
        self.chain = Chain(self.daemon, "live")

    def first(self, **fields):
        """researcher's handoff to the analyst, who acknowledged it."""
        first = self.chain.hand("researcher", "analyst", intent="The user's words", state={"decisions": ["one"]},
                                constraints={"max_cost": 5, "must_not": ["deploy"]}, **fields)
        reply = self.chain.call("GET", "/v1/agents/analyst/inbox")
        self.assertEqual(reply.header("Handoff-Id"), first["id"], reply)
        self.acknowledge(first)
        return first

    def acknowledge(self, envelope):
        self.assertEqual(self.chain.call("POST", f"/v1/handoffs/{envelope['id']}/ack").status, 200)

    def park(self, envelope):
        reply = self.chain.call("POST", f"/v1/handoffs/{envelope['id']}/park", {"reason": "look at it"})
        self.assertEqual(reply.status, 200, reply)

    def wait_until_gone(self, envelope):
        def gone():
            return self.chain.call("GET", f"/v1/handoffs/{envelope['id']}").status == 404
        eventually(gone, "retention removes it")

    def replay(self, envelope, **body):
        return self.chain.call("POST", f"/v1/parked/{envelope['id']}/replay", body)

    def edit(self, envelope, **edit):
        reply = self.replay(envelope, edit=edit)
        self.assertEqual(reply.status, 200, reply)
        return self.chain.envelope(reply.json()["id"])

    def assert_second(self, envelope, first, decisions=("one",), **changed):
        self.assertEqual(envelope["parents"], [{"id": first["id"], "digest": first["digest"]}])
        self.assertEqual((envelope["hop"]["count"], envelope["context"]["task"]["intent"]), (2, "The user's words"))
        self.assertEqual(constraints(envelope), {"max_cost": 5, "must_not": ["deploy"], **changed})
        self.assertEqual(state(envelope)["decisions"], list(decisions))
        self.assertIn("handed to analyst", actions(envelope)[0])

    def data(self):
        return str(self.daemon.folder / "data")

    def ctl(self, *arguments):
        done = subprocess.run([HANDOFFCTL, *arguments], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def assert_sound(self):
        self.daemon.terminate()
        self.daemon.wait()
        code, said = self.ctl("store", "check", self.data())
        self.assertEqual(code, 0, said)

    def test_an_audit_says_that_a_parent_was_removed(self):
        first = self.first()
        second = self.chain.hand("analyst", "coder")
        third = self.chain.hand("coder", "tester")
        self.wait_until_gone(first)
        code, said = self.ctl("audit", self.data(), "live", "--json")
        self.assertEqual(code, 0, said)
        items = {item["id"]: item for item in map(json.loads, said.splitlines())}
        self.assertEqual(items[second["id"]]["removed_parents"], [first["id"]])
        self.assertEqual(items[third["id"]]["removed_parents"], [])
        code, said = self.ctl("audit", self.data(), "live")
        self.assertIn(f"  continues {first['id']}  which was removed by retention\n", said)
        self.assertIn(f"  continues {second['id']}\n", said)

    def test_a_parked_handoff_is_edited(self):
        first = self.first()
        old = self.chain.hand("analyst", "coder", state={"decisions": ["a mistake"]})
        self.park(old)
        self.wait_until_gone(first)
        new = self.edit(old, state={"decisions": ["right"]}, constraints={"must_not": ["leak"]})
        self.assert_second(new, first, ["one", "right"], must_not=["deploy", "leak"])
        self.assertEqual(new["replaces"]["id"], old["id"])
        self.assertEqual(self.chain.values(new, "decision"), ["one", "right"])
        third = self.chain.hand("coder", "tester")
        self.assertEqual((parents(third), third["hop"]["count"]), ([new["id"]], 3))
        self.assertEqual(state(third)["decisions"], ["one", "right"])
        self.assert_sound()

    def test_an_edit_of_an_edit(self):
        first = self.first()
        old = self.chain.hand("analyst", "coder", state={"decisions": ["a mistake"]})
        self.park(old)
        self.wait_until_gone(first)
        new = self.edit(old, state={"decisions": ["another"]})
        self.park(new)
        self.wait_until_gone(old)
        self.assert_second(self.edit(new, state={"decisions": ["right"]}), first, ["one", "right"])
        self.assert_sound()

    def test_an_edit_cannot_loosen(self):
        first = self.first()
        old = self.chain.hand("analyst", "coder")
        self.park(old)
        self.wait_until_gone(first)
        reply = self.replay(old, edit={"constraints": {"max_cost": 6}})
        self.assertEqual((reply.status, reply.json()["code"]), (422, "constraint_loosened"), reply)
        for text in "max_cost", "5", "researcher", "hop 1":
            self.assertIn(text, reply.text)
        reply = self.replay(old)
        self.assertEqual(reply.status, 200, reply)

    def test_an_edit_revives_what_has_expired(self):
        first = self.first()
        live = self.chain.hand("analyst", "writer")  # keeps what the first contributed
        now = datetime.datetime.now(datetime.timezone.utc)
        soon, later = ((now + datetime.timedelta(seconds=seconds)).isoformat() for seconds in (3, 3600))
        old = self.chain.hand("analyst", "coder", previous_id=first["id"], constraints={"deadline": soon})
        self.wait_until_gone(first)
        self.chain.wait_for_state(old["id"], "expired")
        new = self.edit(old, constraints={"deadline": later}, state={"decisions": ["two"]})
        self.assertEqual((parents(new), new["hop"]["count"]), ([first["id"]], 2))
        self.assertEqual(state(new)["decisions"], ["one", "two"])
        self.assertEqual(constraints(new)["max_cost"], 5)
        self.assertEqual(self.chain.values(live, "decision"), ["one"])

    def test_an_edit_of_a_fan_in(self):
        first = self.first()
        second = self.chain.assemble("researcher", "tester", state={"decisions": ["two"]})
        old = self.chain.hand("tester", "coder", previous_id=[first["id"], second["id"]])
        self.park(old)
        self.wait_until_gone(first)
        new = self.edit(old, state={"decisions": ["three"]})
        self.assertEqual(sorted(parents(new)), sorted([first["id"], second["id"]]))
        self.assertEqual(sorted(state(new)["decisions"]), ["one", "three", "two"])
        self.assert_sound()

    def test_who_began_the_task_begins_a_branch_of_it(self):
        first = self.first()
        live = self.chain.hand("analyst", "coder")
        self.wait_until_gone(first)
        branch = self.chain.hand("researcher", "tester")
        self.assertEqual((parents(branch), branch["hop"]["count"]), ([], 1))
        self.assertEqual(branch["context"]["task"]["intent"], "The user's words")
        self.assertEqual(constraints(branch), {"max_cost": 5, "must_not": ["deploy"]})
        self.assertEqual(self.chain.refused("reviewer", "writer")[0], 404, "a stranger is still one")
        self.assertEqual(self.chain.values(live, "decision"), ["one"])
        self.assert_sound()

    def test_who_was_addressed_continues_what_was_removed(self):
        first = self.first()
        self.chain.hand("analyst", "coder")
        self.wait_until_gone(first)
        self.assert_second(self.chain.hand("analyst", "tester"), first)
        self.assert_second(self.chain.hand("analyst", "writer", previous_id=first["id"]), first)
        self.assertEqual([item["value"] for item in self.chain.ledger(first, "decision")], ["one"])
        self.assert_sound()

    def test_who_was_asked_continues_what_another_took_over(self):
        first = self.chain.hand("researcher", "analyst", state={"decisions": ["one"]})
        self.park(first)
        self.assertEqual(self.replay(first, target_agent="tester").status, 200)
        self.assertEqual(self.chain.call("GET", "/v1/agents/tester/inbox").header("Handoff-Id"), first["id"])
        self.acknowledge(first)
        live = self.chain.hand("tester", "coder")
        self.assertEqual(parents(live), [first["id"]])
        self.wait_until_gone(first)
        for agent in "tester", "analyst":
            self.assertEqual(parents(self.chain.hand(agent, "writer")), [first["id"]], agent)
        self.assert_sound()

    def test_all_of_it_goes_with_the_chain(self):
        first = self.first()
        second = self.chain.hand("analyst", "coder")
        self.wait_until_gone(first)
        reply = self.chain.call("GET", "/v1/agents/coder/inbox")
        self.assertEqual(reply.header("Handoff-Id"), second["id"], reply)
        self.acknowledge(second)
        self.wait_until_gone(second)
        for removed in first, second:
            self.assertEqual(self.chain.call("GET", f"/v1/envelopes/{removed['id']}/ledger").status, 404)
            self.assertEqual(self.chain.refused("analyst", "tester", previous_id=removed["id"])[0], 404)
        self.assertEqual(parents(self.chain.hand("reviewer", "writer")), [], "nobody knows the task any more")
        self.assert_sound()


class Parties(unittest.TestCase):
    """With tokens: to the parties of a handoff that was removed, its task stays theirs while the chain lives."""

    AGENTS = ("researcher", "analyst", "coder", "stranger")

    def as_agent(self, name, method, path, body=None):
        return self.chain.call(method, path, body, authorization=f"Bearer {name}-0123456789abcdef",
                               prefer="respond-async")

    def send(self, source, target, **fields):
        return self.as_agent(source, "POST", "/v1/handoffs", {"target_agent": target, "task_id": "theirs",
                                                              "task_summary": "Write it", **fields})

    def test_who_began_the_task_and_who_was_sent_its_first_handoff(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="handoff-test-"))
        tokens = pathlib.Path(folder, "tokens")
        tokens.write_text("".join(f"{name} {name}-0123456789abcdef\n" for name in self.AGENTS))
        tokens.chmod(0o600)
        daemon = self.enterContext(daemon_with(pullers(*self.AGENTS), api={"tokens_file": str(tokens)},
                                               storage={"retention": {"age": "2s"}}))
        self.chain = Chain(daemon, "theirs")
        first = self.send("researcher", "analyst", state={"decisions": ["one"]}).json()["id"]
        inbox = self.as_agent("analyst", "GET", "/v1/agents/analyst/inbox")
        self.assertEqual(inbox.header("Handoff-Id"), first, inbox)
        self.assertEqual(self.as_agent("analyst", "POST", f"/v1/handoffs/{first}/ack").status, 200)
        self.assertEqual(self.send("analyst", "coder").status, 202)

        def gone():
            return self.as_agent("researcher", "GET", f"/v1/handoffs/{first}").status == 404
        eventually(gone, "retention removes it")
        self.assertEqual(self.as_agent("stranger", "GET", f"/v1/envelopes/{first}/ledger").status, 404)
        self.assertEqual(self.as_agent("stranger", "POST", "/v1/tasks/theirs/complete").status, 404)
        self.assertEqual(self.send("stranger", "coder").status, 404)
        self.assertEqual(self.send("stranger", "coder", previous_id=first).status, 404)
        for party in "researcher", "analyst":
            self.assertEqual(self.as_agent(party, "GET", f"/v1/envelopes/{first}/ledger").status, 200, party)
            self.assertEqual(self.send(party, "coder").status, 202, party)
            self.assertEqual(self.send(party, "coder", previous_id=first).status, 202, party)
            self.assertIn(self.as_agent(party, "POST", "/v1/tasks/theirs/complete").status, (200, 201), party)
            task = self.as_agent(party, "GET", "/v1/tasks/theirs").json()["task"]
            self.assertIsNotNone(task["completed_at"], party)


if __name__ == "__main__":
    unittest.main()
