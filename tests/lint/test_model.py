# SPDX-License-Identifier: Apache-2.0
"""The words of the model are written in its tables and nowhere else.

A name of an enumeration as a literal in C is a second list kept by hand, or code that
decides by comparing text. Names are those of client/model/handoff_model.def and
lib/base/handoff_codes.def. Where help or a document lists an enumeration, the list is whole and in order.
"""

import pathlib
import re
import tempfile
import unittest

import model
import source_tree
import yaml

CODES = source_tree.TOP / "lib/base/handoff_codes.def"
TABLES = ("STATE", "REASON", "OBSTACLE", "OUTCOME", "RESULT", "PATTERN", "CIRCUIT", "OPERATION",
          "IMPORTANCE", "STRATEGY", "ABSENCE", "ITEM", "PROTOCOL", "RUN", "RESERVED", "SECRET",
          "SECRET_POLICY")

# A word that means something else everywhere.
OTHER_WORDS = {
    "summary": "a member of memories and tasks",
    "intent": "a member of requests and tasks",
    "state": "the same",
    "unresolved": "a member of the state of a task",
    "remaining": "the same",
    "decision": "a member of a step of the history",
    "expected_output": "a member of requests and contexts",
    "priority": "a member of a memory in an envelope",
    "version": "a member, an option, a parameter",
    "in_flight": "a number that is shown and logged",
    "next": "the cursor of the next page",
    "failed": "a number that is shown; the outcome of a request to the spine",
    "raw_log": "a member of requests and metadata",
    "ok": "SQLite's answer, the standing on the status page, the label of a spine that answered",
}
# A word that means something else in one file.
ELSEWHERE = {
    ("client/calls/render.c", "done"): "a member of a bulk job: how many",
    ("client/calls/response_schemas.c", "done"): "the same",
    ("client/assemble/assemble.c", "resolve"): "a stage of assembling",
    ("client/ledger/constraints.c", "forbidden"): "a word of a constraint's text",
    ("client/assemble/validate.c", "done"): "a member of a request's state",
    ("client/ledger/fold.c", "done"): "the same",
    ("client/calls/edit.c", "done"): "the same",
    ("client/protocol/push/verdict.c", "ack"): "a member of an agent's answer",
    ("client/protocol/push/verdict.c", "nack"): "the same",
    ("lib/metrics/line_heads.c", "unknown"): "a type of OpenMetrics 1.0",
    ("collectors/collectors.c", "unknown"): "the revision of a build without git",
    ("client/calls/channels.c", "parked"): "a count of deliveries",
    ("client/calls/response_schemas.c", "parked"): "the same",
    ("ctl/channels.c", "parked"): "the same",
    ("ctl/channels.c", "expired"): "the same",
    ("ctl/list.c", "open"): "the option for tasks that wait",
    ("client/calls/response_schemas.c", "rejected"): "observations that were not taken",
    **{("client/spine/remote/table.c", word): "an operation of a remote spine's table"
       for word in ("get", "search", "put", "delete")},
    ("client/spine/http/http_spine.c", "http"): "a kind of spine",
    ("collectors/events.c", "refused"): "an answer of the spine",
    ("collectors/events.c", "rejected"): "observations that were not taken",
    ("collectors/latency.c", "resolve"): "a stage of assembling",
    ("ctl/inbox.c", "ack"): "an option",
    ("ctl/memories.c", "pin"): "an option",
    ("ctl/parked.c", "expired"): "an option",
    ("ctl/request.c", "constraint"): "an option",
    ("exporter/review/channels.c", "parked"): "a member of a receiver: how many",
    ("exporter/review/jobs.c", "done"): "a member of a bulk job: how many",
    ("exporter/review/job_events.c", "done"): "the same",
    ("ctl/job.c", "done"): "the same",
    ("ctl/jobs.c", "done"): "the same",
    ("exporter/client_host.c", "spine_unavailable"): "an event of the log",
    ("exporter/lifecycle.c", "ready"): "an event of the log",
    ("exporter/lifecycle.c", "stopped"): "an event of the log",
    ("exporter/status/status.c", "critical"): "the severity of an alert",
    ("exporter/status/status_json.c", "parked"): "a member: how many",
    ("exporter/status/status_page.c", "open"): "a word for people",
    ("exporter/status/status_page.c", "closed"): "a word for people",
    ("exporter/systemd.c", "unknown"): "a socket without a name",
    ("lib/metrics/series.c", "other"): "the label of series beyond the cap, of any label",
    ("exporter/log/delivery_log.c", "store_displaced"): "an event of the log, which has the name of the code",
}
# Lists that are not an enumeration, though they have words of one.
OTHER_LISTS = {
    ("client/store/sqlite/handoffs.c", "seq, state, source, asked_target, target, pattern, deadline_at, due_at, "
                                       "excerpt, reason, settled_at, summary"): "columns",
    ("client/spine/remote/table.c", "get, get_many, search, recent, pinned, put and delete"): "operations of a table",
}

# label of a metric: what its values are
LABELS = {"pattern": "PATTERN", "state": "CIRCUIT", "operation": "OPERATION"}


def names():
    """{name: the table that has it}"""
    found = {name: "CODE" for name in
             re.findall(r'^CODE\(\w+, "(\w+)"', CODES.read_text(encoding="utf-8"), re.MULTILINE)}
    for table in TABLES:
        found.update({name: table for name in model.names(table)})
    return found


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda match: re.sub(r"[^\n]", " ", match[0]), text,
                  flags=re.DOTALL)


def literals(text):
    """(line, literal) of each; adjacent ones are joined."""
    joined = re.sub(r'"[ \t]*\\?\n[ \t]*"', "", without_comments(text))
    for match in re.finditer(r'(?<![\'\w])"((?:[^"\\\n]|\\.)*)"', joined):
        yield joined.count("\n", 0, match.start()) + 1, match[1]


def lists_in(literal):
    """What looks like a list of words in a text: a|b|c, or a, b and c."""
    return re.findall(r"\w+(?:(?:\||, | or | and )\w+)+", literal)


def complaints(top, paths):
    known, found = names(), []
    for path in paths:
        for line, literal in literals((top / path).read_text(encoding="utf-8")):
            place = f"{path}:{line}"
            if literal in known and literal not in OTHER_WORDS and \
                    (str(path), literal) not in ELSEWHERE:
                found.append(f'{place}: "{literal}" is a name of {known[literal]}; use the enum, and its '
                             "name at the edge")
            for text in lists_in(literal):
                if (str(path), text) not in OTHER_LISTS:
                    found += [f"{place}: '{text}' is not the whole of {table}" for table in TABLES
                              if is_part(text, table)]
    return found


def is_part(text, table):
    words, whole = re.split(r"\||, | or | and ", text), model.names(table)
    return len(set(words) & set(whole)) > 1 and words != whole


def c_files():
    return [path for path in source_tree.c_files()
            if path.parts[0] in source_tree.ROOMS and path.parts[:2] != ("client", "model")]


class Model(unittest.TestCase):
    maxDiff = None

    def test_no_name_is_a_literal_outside_the_model(self):
        self.assertGreater(len(c_files()), 300)
        self.assertEqual(complaints(source_tree.TOP, c_files()), [])

    def test_each_exception_is_needed(self):
        seen = {(str(path), literal) for path in c_files()
                for _, literal in literals((source_tree.TOP / path).read_text(encoding="utf-8"))}
        self.assertEqual(set(ELSEWHERE) - seen, set())
        self.assertEqual(set(OTHER_WORDS) - {literal for _, literal in seen}, set())

    def test_names_are_words_and_none_comes_twice(self):
        for table in TABLES:
            with self.subTest(table=table):
                found = model.names(table)
                self.assertGreater(len(found), 1)
                self.assertEqual(len(found), len(set(found)))
                for name in found:
                    self.assertRegex(name, r"^[a-z][a-z_]*$")

    def test_label_values_are_those_of_the_tables(self):
        metrics = yaml.safe_load((source_tree.TOP / "docs/metrics.yml").read_text(encoding="utf-8"))
        values = {name: more.get("values", {}) for name, more in metrics.items()
                  if isinstance(more, dict)}
        checked = 0
        for name, labels in values.items():
            for label, found in labels.items():
                if label in LABELS:
                    self.assertEqual(found, model.names(LABELS[label]), f"{name}: {label}")
                    checked += 1
        self.assertGreater(checked, 4)
        outcomes = model.names("OUTCOME")
        self.assertEqual(set(values["handoff_handoffs_total"]["outcome"]), set(outcomes))
        self.assertEqual(set(values["handoff_duration_seconds"]["outcome"]),
                         set(outcomes) - {"hop_limit"})
        self.assertEqual(values["handoff_attempts_total"]["result"], model.names("RESULT"))
        self.assertEqual(values["handoff_parked_total"]["reason"], model.reasons_to_park())

    def test_encodings_are_listed_once(self):
        header = (source_tree.TOP / "lib/tokens/handoff_tokens.h").read_text(encoding="utf-8")
        encodings = re.search(r'HANDOFF_ENCODINGS +"([^"]+)"', header)[1].split("|")
        self.assertEqual(len(encodings), 2)
        self.assertIn(f'HANDOFF_ENCODING_DEFAULT "{encodings[0]}"', header)
        found = [str(path) for path in source_tree.c_files()
                 if path.parts[0] in source_tree.ROOMS and path.name != "handoff_tokens.h"
                 for _, literal in literals((source_tree.TOP / path).read_text(encoding="utf-8")) if literal in encodings]
        self.assertEqual(found, [])

    def test_the_document_of_the_api_has_every_word(self):
        text = "".join((source_tree.TOP / "docs" / name).read_text(encoding="utf-8")
                       for name in ("api.md", "delivery.md", "envelope.md", "observations.md"))
        for table in ("STATE", "OBSTACLE", "RESULT", "PATTERN", "IMPORTANCE", "STRATEGY", "ABSENCE"):
            for name in model.names(table):
                with self.subTest(table=table, name=name):
                    self.assertIn(f"`{name}`", text)


class SelfTest(unittest.TestCase):
    """A tree with one violation of each kind must be refused, line by line."""

    def refused(self, code):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            (top / "a.c").write_text(code)
            return complaints(top, [pathlib.Path("a.c")])

    def test_what_is_refused(self):
        for code, word in (('if (strcmp(state, "parked") == 0)\n', "parked"),
                           ('static const char *const l[] = {"x",\n  "exhausted"};\n', "exhausted"),
                           ('problem.code = "out_of_memory";\n', "out_of_memory"),
                           ('refuse("allowed: low, medium, high");\n', "low, medium, high"),
                           ('puts("--pattern direct|choreographed");\n', "direct|choreographed")):
            with self.subTest(code=code):
                found = self.refused(code)
                self.assertEqual(len(found), 1, found)
                self.assertIn(word, found[0])

    def test_what_is_not(self):
        for code in ('/* "parked" */ int x;\n', 'puts("it is parked");\n', 'write("summary");\n',
                     'puts("--importance low|medium|high|critical");\n', "char c = '\"'; // \"parked\"\n"):
            with self.subTest(code=code):
                self.assertEqual(self.refused(code), [])


if __name__ == "__main__":
    unittest.main()
