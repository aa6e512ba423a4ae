# SPDX-License-Identifier: Apache-2.0
"""docs/api.md has every route of the agent API, and no other, with the statuses its codes have."""

import re
import unittest

import source_tree
from test_delivery_docs import classes

DOCUMENT = source_tree.TOP / "docs/api.md"

# An answer is a status, and the codes it comes with: 409 `conflict`, `idempotency_conflict`
ANSWER = re.compile(r"\b(\d{3})\s((?:`\w+`(?:,\s)?)+)")


def routes():
    text = (source_tree.TOP / "exporter/routes/routes.c").read_text()
    return re.findall(r'\{"([A-Z]+)", "(/v1/[^"]*)"', text)


def documented(text):
    return re.findall(r"^### `([A-Z]+) (/\S+)`$", text, re.MULTILINE)


def wrong_codes(text):
    known = classes()
    return [f"{status} {code}, but it is {known.get(code)}"
            for status, codes in ANSWER.findall(text) for code in re.findall(r"`(\w+)`", codes)
            if known.get(code) != int(status)]


class ApiDocument(unittest.TestCase):
    def test_each_route_is_there_and_no_other(self):
        found = documented(DOCUMENT.read_text())
        self.assertEqual(sorted(found), sorted(set(found)))
        self.assertGreater(len(routes()), 20)
        self.assertEqual(sorted(found), sorted(routes()))

    def test_each_says_what_it_answers(self):
        sections = re.split(r"^#{2,3} ", DOCUMENT.read_text(), flags=re.MULTILINE)
        for section in sections:
            if section.startswith("`"):
                with self.subTest(route=section.splitlines()[0]):
                    self.assertRegex(section, r"\nAnswers 20\d")

    def test_codes_have_their_status(self):
        text = DOCUMENT.read_text()
        self.assertGreater(len(ANSWER.findall(text)), 40)
        self.assertEqual(wrong_codes(text), [])

    def test_what_is_refused(self):
        self.assertEqual(wrong_codes("Answers 200 · 404 `conflict` · 409 `conflict`, `nothing`"),
                         ["404 conflict, but it is 409", "409 nothing, but it is None"])
        self.assertEqual(documented("### `GET /v1/x`\n## `GET /v1/y`\n"), [("GET", "/v1/x")])


if __name__ == "__main__":
    unittest.main()
