# SPDX-License-Identifier: Apache-2.0
"""The proof, in small: nothing vanishes through the sidecar, and its judge notices what would."""

import contextlib
import copy
import http.server
import io
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
sys.path.insert(0, str(TOP / "proof"))

import faults    # noqa: E402
import goals     # noqa: E402
import judge     # noqa: E402  (the proof's own)
import proof     # noqa: E402
import sidecar   # noqa: E402
import tasks     # noqa: E402
import ways      # noqa: E402

TASKS = 12
FAULTS = 3      # times as many as in the document, because there are few tasks
HANDOFFS = len(tasks.AGENTS) - 1
SMALL = [f"--exporter={os.environ['HANDOFF_EXPORTER']}", f"--tasks={TASKS}", "--other-tasks=10"]
KILLS = ["--kill-every=0.4"]    # some, within the second or two that so few tasks take
QUIET = ["--faults=0", "--kill-every=0", "--spine=embedded"]


def run(name, *arguments):
    """What the proof counts of one way."""
    options = proof.parse([*SMALL, f"--ways={name}", *arguments])
    (row, kind), = proof.rows(options)
    return proof.run_way(row, kind, options.tasks, options)


def run_program(*arguments):
    """(exit status, what it prints) of the proof with all that it writes."""
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
        status = proof.main([*SMALL, f"--out={folder}", *arguments])
    return status, out.getvalue()


def gone(result, *kinds):
    return sum(result["by_kind"][kind]["gone"] for kind in kinds or tasks.KINDS)


class Mutated(sidecar.Plain):
    """The sidecar, if it answered something else: change() is applied to what each agent receives."""

    change = None

    def read(self, document, notes):
        envelope = json.loads(document)
        type(self).change(envelope)
        return super().read(json.dumps(envelope), notes)


class WithoutSpine(sidecar.Plain):
    """The spine is gone while the third agent hands on, and until the handoff is delivered."""

    def hand_on(self, task, hand):
        if hand.agent == 2:
            self.spine.stop()
        return super().hand_on(task, hand)

    def deliver(self, request, key):
        notes = super().deliver(request, key)
        if not self.spine.is_running:
            self.spine.start()
        return notes


def add_way(test, kind):
    proof.WAYS["added"] = kind
    test.addCleanup(proof.WAYS.pop, "added")
    return "added"


class Sidecar(unittest.TestCase):
    def check(self, name, *arguments):
        result = run(name, f"--faults={FAULTS}", *arguments)
        self.assertEqual(result["handoffs"], TASKS * HANDOFFS)
        self.assertEqual(result["wrong_counts"], 0, result)
        self.assertEqual(gone(result), 0, result)
        for kind in ("intent", "constraint", "unresolved"):
            fates = result["by_kind"][kind]
            self.assertEqual(fates["present"], sum(fates.values()), (kind, fates))
        self.assertGreater(result["kills"], 0)

    def test_nothing_vanishes_for_senders_that_follow_the_specification(self):
        self.check("sample", "--spine=embedded", *KILLS)

    def test_nothing_vanishes_for_senders_that_say_what_is_new(self):
        self.check("plain", *KILLS, "--spine-gone-every=1", "--spine-gone-for=0.2")

    def test_nothing_vanishes_for_senders_that_say_all_of_it_again(self):
        self.check("careful", "--spine=embedded", *KILLS)

    def test_a_spine_that_is_gone_delays_memories_and_loses_none(self):
        result = run(add_way(self, WithoutSpine), "--faults=0", "--kill-every=0", "--spine-gone-every=0", "--tasks=2",
                     "--at-once=1")
        self.assertEqual(result["notes"], {"assembled without the spine": 2})
        self.assertEqual((gone(result), result["wrong_counts"]), (0, 0))
        self.assertEqual(result["by_kind"]["fact"]["told"], 0)


class Judge(unittest.TestCase):
    """Each mutation of the sidecar's answers is found."""

    def judged(self, change):
        class Changed(Mutated):
            pass

        Changed.change = staticmethod(change)
        return run(add_way(self, Changed), *QUIET)

    def test_a_dropped_constraint(self):
        def drop(envelope):
            del envelope["context"]["constraints"]["must_not"][0]
        self.assertGreater(gone(self.judged(drop), "constraint"), 0)

    def test_a_dropped_constraint_that_the_ledger_still_has(self):
        def drop(envelope):
            del envelope["context"]["constraints"]["must_not"][0]
            envelope.setdefault("omitted", {"steps": 1, "more": f"/v1/envelopes/{envelope['id']}/ledger"})
        result = self.judged(drop)
        fates = result["by_kind"]["constraint"]
        self.assertEqual((fates["gone"], fates["reachable"]), (sum(fates.values()) / 4, 0), fates)

    def test_a_promised_memory_that_is_not_there(self):
        def promise(envelope):
            names = [memory["id"] for memory in envelope["context"].pop("memories", [])]
            envelope["memory_refs"] = [f"{name}-not-there" for name in names]
            envelope["context"].pop("references", None)
        self.assertGreater(gone(self.judged(promise), "fact"), 0)

    def test_a_lost_step(self):
        def lose(envelope):
            envelope["context"]["history"] = envelope["context"].get("history", [])[1:]
        self.assertGreater(self.judged(lose)["wrong_counts"], 0)

    def test_a_lost_decision_that_nothing_counts(self):
        def lose(envelope):
            envelope["context"]["task"].get("state", {}).pop("decisions", None)
            envelope.pop("omitted", None)
        result = self.judged(lose)
        self.assertGreater(gone(result, "decision"), 0)
        self.assertGreater(result["wrong_counts"], 0)

    def test_a_wrong_count(self):
        def miscount(envelope):
            omitted = envelope.setdefault("omitted", {"more": f"/v1/envelopes/{envelope['id']}/ledger"})
            omitted["decisions"] = omitted.get("decisions", 0) + 1
        self.assertGreater(self.judged(miscount)["wrong_counts"], 0)

    def test_a_path_that_leads_nowhere(self):
        def mislead(envelope):
            envelope["context"]["task"].get("state", {}).pop("unresolved", None)
            envelope["omitted"] = {"unresolved": 1, "more": "/v1/envelopes/00000000-0000-7000-8000-000000000000/ledger"}
        self.assertGreater(gone(self.judged(mislead), "unresolved"), 0)

    def test_a_memory_that_is_not_named(self):
        def forget(envelope):
            envelope["memory_refs"] = []
            envelope["context"].pop("memories", None)
            envelope["context"].pop("references", None)
        self.assertGreater(gone(self.judged(forget), "fact"), 0)


class Goals(unittest.TestCase):
    """They are printed, and decide about the exit status."""

    def test_are_met_by_the_sidecar(self):
        status, shown = run_program("--ways=sample,plain,careful", *QUIET)
        self.assertEqual(status, 0, shown)
        self.assertEqual(shown.count(f" {goals.MET}"), 3 * 6 + 2, shown)   # tokens are compared with those of careful

    def test_are_missed_if_a_constraint_is_dropped(self):
        class Changed(Mutated):
            @staticmethod
            def change(envelope):
                del envelope["context"]["constraints"]["must_not"][0]
        status, shown = run_program(f"--ways={add_way(self, Changed)}", *QUIET)
        self.assertEqual(status, 1)
        for goal in ("silently gone items: 0", "failed for context at 5 stages, 6 needs: under 1%",
                     "constraints: present after 8 handoffs, 100 %", "every kind: present or reachable after 8 handoffs"):
            self.assertRegex(shown, f"{goal}.*{goals.MISSED}")

    def test_are_missed_if_a_count_is_wrong(self):
        class Changed(Mutated):
            @staticmethod
            def change(envelope):
                envelope.setdefault("omitted", {})["decisions"] = 99
        status, shown = run_program(f"--ways={add_way(self, Changed)}", *QUIET)
        self.assertEqual(status, 1)
        self.assertRegex(shown, f"wrong counts of omitted entries: 0.*{goals.MISSED}")

    def test_a_share_is_open_while_its_interval_has_both_sides(self):
        def verdict(count, of):
            low, high = judge.interval(count, of)
            share = {"count": count, "of": of, "share": count / of, "low": low, "high": high}
            result = {"title": "", "by_length": [{"agents": goals.STAGES, "failed": {"6": share}}]}
            return goals.failed_for_context(result, 6).verdict
        self.assertEqual([verdict(0, 100), verdict(2, 100), verdict(9, 100)], [goals.MET, goals.OPEN, goals.MISSED])


class Ways(unittest.TestCase):
    """What is compared loses what it is said to lose, and no more."""

    def left(self, name, *arguments):
        """The share of the user's and the first agent's items that the fifth agent has."""
        result = run(name, "--tasks=40", "--faults=0", *arguments)
        return result["by_agent"][5 - 2]["first_at_hand"]["share"]

    def test_ten_per_cent_a_handoff_leave_about_two_thirds(self):
        self.assertAlmostEqual(self.left("json"), 0.9 ** 4, delta=0.08)

    def test_the_published_curve(self):
        self.assertAlmostEqual(self.left("json", "--loss=published"), ways.PUBLISHED[-1], delta=0.08)

    def test_without_loss_nothing_is_lost(self):
        self.assertEqual(self.left("summary", "--loss=0"), 1)

    def test_a_transcript_that_fits_the_budget_is_whole(self):
        self.assertEqual(self.left("transcript", "--talk=1000", "--budgets=8000-8000"), 1)
        self.assertLess(self.left("transcript", "--talk=4000", "--budgets=8000-8000"), 1)
        self.assertEqual(self.left("transcript", "--talk=4000", "--budgets=20000-20000"), 1)

    def test_without_retries_more_tasks_never_arrive(self):
        def never(retries):
            return run("json", f"--retries={retries}", "--faults=3")["by_length"][-1]["never_arrived"]["count"]
        self.assertGreater(never(0), never(3))

    def test_agents_that_need_more_fail_more_often(self):
        failed = run("json", "--needs=1,2,9", "--tasks=40", "--faults=0")["by_length"][5 - 2]["failed"]
        self.assertLess(failed["1"]["count"], failed["9"]["count"])
        self.assertLessEqual(failed["1"]["count"], failed["2"]["count"])


class References(http.server.BaseHTTPRequestHandler):
    """A service that keeps the facts and hands on their ids; each agent is handed all that was ever said."""

    stored = {}
    said = {}

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        lines = self.said.setdefault(request["task"], [])
        for item in request["new"]:
            self.stored[item["memory"]] = item["text"]
            lines.append(item["memory"] or item["text"])
        with urllib.request.urlopen(request["url"], "\n".join(lines).encode(), timeout=60):
            self.send_response(204)
            self.end_headers()

    def do_GET(self):
        text = self.stored.get(self.path.rpartition("/")[2])
        self.send_response(200 if text else 404)
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *_):
        pass


class AnyService(unittest.TestCase):
    def test_the_relay_of_the_document_loses_what_does_not_fit(self):
        relay = subprocess.Popen([sys.executable, str(TOP / "proof/relay.py")], stdout=subprocess.PIPE, text=True)
        self.addCleanup(relay.wait)
        self.addCleanup(relay.terminate)
        self.addCleanup(relay.stdout.close)
        service = f"--service={relay.stdout.readline().strip()}"
        self.assertEqual(gone(run("service", service, "--budgets=8000-8000", f"--faults={FAULTS}")), 0)
        self.assertGreater(gone(run("service", service, "--budgets=500-500")), 0)

    def test_what_a_service_hands_on_by_its_id_is_fetched(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), References)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url = f"http://127.0.0.1:{server.server_port}"
        result = run("service", f"--service={url}/hand-on", f"--service-fetch={url}/memories/{{id}}", "--faults=0")
        facts = result["by_kind"]["fact"]
        self.assertEqual((gone(result), facts["reachable"]), (0, sum(facts.values())))

    def test_a_service_that_is_not_there_delivers_nothing(self):
        with http.server.HTTPServer(("127.0.0.1", 0), References) as unused:
            url = f"http://127.0.0.1:{unused.server_port}"
        self.assertEqual(run("service", f"--service={url}", "--tasks=2")["by_length"][0]["never_arrived"]["count"], 2)


class Document(unittest.TestCase):
    """What docs/proof.md tells others to do."""

    def block(self, language, having):
        text = (TOP / "docs/proof.md").read_text(encoding="utf-8")
        return next(part.partition("```")[0] for part in text.split(f"```{language}\n")[1:] if having in part)

    def test_a_way_in_ten_lines(self):
        code = self.block("python", "proof.WAYS")
        self.assertLessEqual(sum(bool(line.strip()) for line in code.splitlines()), 10)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "mine.py")
            file.write_text(code, encoding="utf-8")
            done = subprocess.run([sys.executable, TOP / "proof/proof.py", f"--add={file}", "--ways=last-words", "--tasks=5",
                                   f"--out={folder}"], capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            row = json.loads(pathlib.Path(folder, "proof.json").read_text(encoding="utf-8"))["ways"][0]
            written = {path.name for path in pathlib.Path(folder).iterdir()}
        self.assertEqual(written, {"mine.py", "proof.json", "index.html", "proof-failed.svg", "proof-at-hand.svg"})
        self.assertEqual(row["title"], "only what the last agent said")
        self.assertEqual(row["by_kind_and_hops"]["decision"][0]["gone"], 0)
        self.assertEqual(row["by_kind_and_hops"]["decision"][1]["present"], 0)

    def test_its_command_lines_are_valid(self):
        text = (TOP / "docs/proof.md").read_text(encoding="utf-8")
        lines = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("./scripts/proof")]
        for line in lines:
            if "--help" not in line:
                proof.parse(line[1:])   # exits if it is not
        self.assertGreater(len(lines), 6)

    def test_the_fault_of_the_document_is_drawn(self):
        before = dict(faults.FAULTS)
        self.addCleanup(lambda: (faults.FAULTS.clear(), faults.FAULTS.update(before)))
        code = self.block("python", "faults.FAULTS")
        exec(code, {})   # pylint: disable=exec-used
        proof.WAYS.pop("last-words", None)
        added, = set(faults.FAULTS) - set(before)
        self.assertIn(added, {faults.drawn(7, number, 1)[0] for number in range(200)})

    def test_the_judge_reads_texts_that_came_about_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            task = tasks.make(5, 0)
            dropped = task.brought_by(0, "constraint")[0]
            text = "\n".join(item.text for item in task.before(3) if item is not dropped)
            pathlib.Path(folder, "tasks").write_text(tasks.line(task) + "\n", encoding="utf-8")
            pathlib.Path(folder, "received").write_text(
                json.dumps({"task": task.name, "agent": tasks.AGENTS[3], "text": text}) + "\n", encoding="utf-8")
            done = subprocess.run([sys.executable, TOP / "proof/judge.py", "tasks", "received"], cwd=folder,
                                  capture_output=True, text=True, check=True)
        fates = json.loads(done.stdout)["fates"]
        self.assertEqual([token for token, fate in fates.items() if fate != "present"], [dropped.token])


class Drawing(unittest.TestCase):
    def test_the_same_seed_gives_the_same_tasks_and_faults(self):
        self.assertEqual(tasks.make(7, 3), tasks.make(7, 3))
        self.assertNotEqual(tasks.make(7, 3).items, tasks.make(8, 3).items)
        drawn = [faults.drawn(7, number, 1) for number in range(200)]
        self.assertEqual(drawn, [faults.drawn(7, number, 1) for number in range(200)])
        self.assertGreater(sum(name != "none" for name, _ in drawn), 5)

    def test_a_line_of_the_data_set_is_the_whole_task(self):
        self.assertEqual(tasks.read_line(tasks.line(tasks.make(7, 3))), tasks.make(7, 3))

    def test_budgets_and_needs_are_those_of_the_shape(self):
        task = tasks.make(7, 3, tasks.Shape(budgets=(2000, 2000), needs=9))
        self.assertEqual((set(task.budgets), {len(needs) for needs in task.needs[1:]}), ({2000}, {9}))

    def test_each_token_stands_in_one_item(self):
        task = tasks.make(7, 3)
        whole = copy.copy(task.items)
        for item in whole:
            self.assertEqual([other.token for other in whole if item.token in other.text], [item.token])

    def test_the_data_set_is_what_the_seed_gives(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tasks.jsonl")
            self.assertEqual(proof.main(["--tasks=20", f"--write-tasks={path}"]), 0)
            self.assertEqual(path.read_text(encoding="utf-8"), (TOP / "proof/tasks.jsonl").read_text(encoding="utf-8"))

    def test_wilson(self):
        # the example of Agresti and Coull (1998): 0 of 10 gives 0 to 0.2775
        low, high = judge.interval(0, 10)
        self.assertAlmostEqual(low, 0)
        self.assertAlmostEqual(high, 0.2775, places=4)


if __name__ == "__main__":
    unittest.main()
