# SPDX-License-Identifier: Apache-2.0
"""docs/decisions.md is numbered without gaps, and who points at a decision finds it there."""

import re
import unittest

import source_tree

DECISIONS = source_tree.TOP / "docs/decisions.md"


def anchor(heading):
    """The fragment that a heading is reached by, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


class Decisions(unittest.TestCase):
    def setUp(self):
        self.headings = re.findall(r"^## (.+)$", DECISIONS.read_text(), re.MULTILINE)

    def test_numbers_follow_one_another(self):
        numbers = [int(heading.split(".", 1)[0]) for heading in self.headings]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    def test_links_lead_somewhere(self):
        known = {anchor(heading) for heading in self.headings}
        links = [(path, link) for path in source_tree.TOP.glob("**/*.md") if "node_modules" not in path.parts
                 for link in re.findall(r"decisions\.md#([\w-]+)", path.read_text())]
        self.assertTrue(links)
        self.assertEqual([link for link in links if link[1] not in known], [])


if __name__ == "__main__":
    unittest.main()
