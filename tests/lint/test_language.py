# SPDX-License-Identifier: Apache-2.0
"""Documents, runbooks, alerts, dashboards, and the comments of Python tests read as an English-speaking
engineer would write them.

Each marker below is grammatical English that an engineer hardly ever writes; together they are how a
translation reads. `test_language.py --report` prints the rate per document.
"""

import ast
import io
import json
import re
import sys
import tokenize
import unittest

import source_tree
import yaml

# (pattern, what to write instead)
MARKERS = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in [
    (r"\bwhoever\b|\bwhom\b", "name the role: the caller, the operator, the agent"),
    (r"\b(?:some|no|any|every)body\b", "name the role, or someone, no one, anyone, everyone"),
    (r"\bt(?:ells?|old|elling) of\b|\btells?[.;:)]", "reports, says, shows"),
    (r"\bof (?:its|his|her|their|our|your|one's) own\b|\bof ours\b", "its own X, a separate X, a dedicated X"),
    (r"\bcomes? to be\b|\b(?:came|comes?) of (?:it|this|that|them)\b", "is created, results, happens"),
    (r"\bwhat (?:becomes?|became) of\b", "what happens to"),
    (r"\bst(?:ands?|ood)\b(?!-)", "is, is listed, is configured, appears, relies on"),
    (r"\bl(?:ies?|ay|ain) (?:at|beside|behind|between|in|inside|on|there|under)\b", "is in, is stored in"),
    (r"\b(?:is|are|was|were) there(?=[.,;:)]| already| again| when)", "exists, is present, is set, is reachable"),
    (r"\bas many\b.{1,60}\bas may be\b|\bso (?:many|much)\b", "limit reached, that many"),
    (r"(?<!\bthere )(?<!\bthis )\b(?:is|are) no (?!longer\b|more\b|different\b|such\b|one\b)\w+",
     "is not a"),
    (r"\bwhat is out\b|\bwhat is under\b|\bunder way\b", "in flight, in progress, outstanding"),
    (r"\bthe (?:later |late )?word (?:of|that)\b|\blate(?:r)? word\b|\bwithout a word\b",
     "acknowledgement, answer; silently"),
    (r"\bwhatever it is\b|\bwhat it is about\b", "name it"),
    (r"\bso that it\b|\bso that nobody\b", "so it, to, which"),
    (r"\b(?:is|are|was|were) (?:not )?well\b", "is healthy, has recovered"),
    (r"\bmend(?:s|ed|ing)?\b", "fix"),
    (r"\bfor ever\b|\banew\b", "forever; again"),
    (r"\bnot\b[^.;:]{0,40}\bany more\b|\bany more[.;]", "no longer"),
    (r"\bbears?\b|\bbe had\b|\bat hand\b", "tolerates, handles; available"),
    (r"\b(?:that|what|which) would do\b", "that is valid, that is enough"),
    (r"\b(?:is|are|was|were) to (?:be|continue|do|go|stop|end)\b", "must, should, will"),
    (r"\b(?:is|are|was) away\b|\bturn(?:s|ed)? away\b", "is unavailable; rejected"),
    (r"\bgo(?:es)? on\b|\bwent on\b", "continues"),
    (r"\b(?:is|are|was|were) judged\b|\bjudges\b", "is checked, is validated"),
    (r"\bwhere (?:it|they|he|that) (?:is|are) missing\b|\bmake[s]? .{1,20} anew\b", "if it does not exist"),
]]

# Honest uses, as (file, text of the hit with its neighbourhood). Keep this short.
ALLOWED = []

# The markers themselves, and data.
NOT_READ = re.compile(r"^tests/lint/test_language\.py$|^tests/(?!.*\.py$)")


def prose(text):
    """Markdown without blocks of code, inline code and the targets of links; lines stay lines."""
    text = re.sub(r"^```.*?^```$", lambda match: "\n" * match[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "`x`", text)
    return re.sub(r"\]\([^)\n]*\)", "]", text)


def flowing(text):
    """One string and a function from a position in it to a line: markers may cross a line break."""
    starts = [match.end() for match in re.finditer("\n", text)]
    return text.replace("\n", " "), lambda at: 1 + sum(start <= at for start in starts)


def hits(name, text):
    """["file:line: what was seen: what to write instead", ...]"""
    flat, line = flowing(text)
    found = []
    for pattern, instead in MARKERS:
        for match in pattern.finditer(flat):
            around = flat[max(0, match.start() - 30):match.end() + 30]
            if not any(name == file and allowed in around for file, allowed in ALLOWED):
                found.append((line(match.start()), f"{name}:{line(match.start())}: \"{match[0]}\": rather {instead}"))
    return [text for _, text in sorted(found)]


def strings(value, keys):
    """Every text under one of `keys`, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in keys and isinstance(inner, str):
                yield inner
            yield from strings(inner, keys)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner, keys)


def comments(source):
    """The comments and docstrings of a Python program; lines stay lines."""
    lines = [""] * (source.count("\n") + 1)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            for offset, line in enumerate(node.body[0].value.value.split("\n")):
                lines[node.body[0].lineno - 1 + offset] = line
    return "\n".join(lines)


def documents():
    """{name: prose} of all that is read by people."""
    found = {}
    for path in source_tree.files():
        name = str(path)
        if NOT_READ.match(name):
            continue
        if path.suffix == ".md":
            found[name] = prose((source_tree.TOP / path).read_text(encoding="utf-8"))
        elif name.startswith("tests/") and path.suffix == ".py":
            found[name] = prose(comments((source_tree.TOP / path).read_text(encoding="utf-8")))
        elif name == "alerts/handoff-alerts.yml":
            rules = yaml.safe_load((source_tree.TOP / path).read_text(encoding="utf-8"))
            found[name] = "\n".join(strings(rules, {"summary", "description"}))
        elif name.startswith("dashboards/json/"):
            panels = json.loads((source_tree.TOP / path).read_text(encoding="utf-8"))
            found[name] = "\n".join(strings(panels, {"title", "description", "content"}))
    return found


class Language(unittest.TestCase):
    maxDiff = None

    def test_no_document_reads_as_translated(self):
        texts = documents()
        self.assertGreater(len(texts), 35)
        self.assertEqual([hit for name, text in texts.items() for hit in hits(name, text)], [])

    def test_allowed_uses_are_few_and_exist(self):
        texts = documents()
        self.assertLess(len(ALLOWED), 0.0005 * sum(len(text.split()) for text in texts.values()))
        for name, allowed in ALLOWED:
            self.assertIn(allowed, flowing(texts[name])[0])

    def test_markers_are_found_and_located(self):
        translated = ["Whoever asks is told.", "It tells of lost steps.", "a folder of its own", "until somebody decides",
                      "What becomes of a handoff.", "The rules stand in one file.", "bodies lie in files", "The key is there.",
                      "a value in the query is no text", "so many handoffs fail", "handoffs under way", "the later word comes",
                      "so that it fits", "once the agent is well", "mend the file", "it waits for ever", "not measured any more",
                      "It bears repeats.", "the names that would do", "lines are to be changed", "The spine is away.",
                      "it was turned away", "delivery goes on", "A file is judged", "Those\nof their\nown."]
        for text in translated:
            with self.subTest(text):
                self.assertTrue(hits("page.md", text))
        self.assertTrue(hits("page.md", "one\ntwo\nthree of\nits own")[0].startswith("page.md:3: "))

    def test_comments_and_docstrings_are_read_and_code_is_not(self):
        source = 'def stands():\n    """A folder of its own."""\n    return "whoever"  # it goes on\n'
        self.assertEqual([hit.split(": ")[0] for hit in hits("x.py", comments(source))], ["x.py:2", "x.py:3"])

    def test_plain_english_and_code_pass(self):
        plain = ["There is no journal.", "It is no longer used.", "a stand-in for a model", "Is there a cycle?",
                 "The agent has its own breaker.", "The table shows what happens to a handoff.", "Retry in 5 s.",
                 "`stands` [a link](docs/whoever.md)", "```\nwhoever\n```"]
        for text in plain:
            with self.subTest(text):
                self.assertEqual(hits("page.md", prose(text)), [])


def report():
    words = found = 0
    for name, text in documents().items():
        count, size = len(hits(name, text)), len(text.split())
        words, found = words + size, found + count
        print(f"{count:5} {size:6} {1000 * count / max(size, 1):6.1f}  {name}")
    print(f"{found:5} {words:6} {1000 * found / words:6.1f}  in all")


if __name__ == "__main__":
    if "--report" in sys.argv:
        report()
    else:
        unittest.main()
