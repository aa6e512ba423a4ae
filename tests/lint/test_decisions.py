# SPDX-License-Identifier: Apache-2.0
"""docs/decisions.md is numbered without gaps, indexed by room, and links to a decision are valid.

    /usr/bin/python3 tests/lint/test_decisions.py --write

regenerates the index from the `Room` lines.
"""

import re
import sys
import unittest

import source_tree

DECISIONS = source_tree.TOP / "docs/decisions.md"
# In the order of ARCHITECTURE.md.
ROOMS = ["lib/base", "lib/search", "lib/tokens", "lib/words", "lib/metrics", "lib/prom", "lib/exposition", "collectors", "clients", "client/calls", "client/assemble", "client/ledger", "client/secrets",
         "client/envelope", "client/agents", "client/deliver", "client/protocol", "client/transport", "client/spine", "client/store",
         "exporter", "exporter/config", "exporter/http", "exporter/access", "exporter/routes", "exporter/status", "exporter/review",
         "exporter/log", "ctl", "alerts", "dashboards", "demo", "proof", "tests", "scripts", "packaging"]
INDEX = re.compile(r"(<!-- index:begin -->\n)(.*?)(<!-- index:end -->)", re.DOTALL)
ENTRY = re.compile(r"^## ((\d+)\. .+)\n\nRoom: ([\w/, ]+)\.(?: Amended by ([\d, and]+)\.)?\n", re.MULTILINE)


def anchor(heading):
    """The fragment that a heading is reached by, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def entries(text):
    """[(number, heading, [room, ...], [number of an entry that amended it, ...]), ...]"""
    return [(int(number), heading, rooms.split(", "), [int(found) for found in re.findall(r"\d+", amended or "")])
            for heading, number, rooms, amended in ENTRY.findall(text)]


def index(text):
    lines = []
    for room in ROOMS:
        links = [f"  - [{heading}](#{anchor(heading)})" + (f", amended by {', '.join(map(str, amended))}" if amended else "")
                 for _, heading, rooms, amended in entries(text) if room in rooms]
        if links:
            lines += [f"- **{room}**", *links]
    return "\n".join(lines) + "\n"


class Decisions(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.text = DECISIONS.read_text(encoding="utf-8")
        self.headings = re.findall(r"^## (.+)$", self.text, re.MULTILINE)

    def test_numbers_follow_one_another(self):
        numbers = [int(heading.split(".", 1)[0]) for heading in self.headings]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    def test_every_entry_names_its_room(self):
        self.assertEqual([entry[1] for entry in entries(self.text)], self.headings)
        self.assertLessEqual({room for entry in entries(self.text) for room in entry[2]}, set(ROOMS))

    def test_only_a_later_entry_amends_one(self):
        for number, heading, _, amended in entries(self.text):
            for later in amended:
                self.assertTrue(number < later <= len(self.headings), heading)

    def test_the_index_is_current(self):
        self.assertEqual(INDEX.search(self.text)[2], index(self.text), "run: tests/lint/test_decisions.py --write")

    def test_links_lead_somewhere(self):
        known = {anchor(heading) for heading in self.headings}
        links = [(path, link) for path in source_tree.TOP.glob("**/*.md") if "node_modules" not in path.parts
                 for link in re.findall(r"decisions\.md#([\w-]+)", path.read_text())]
        self.assertTrue(links)
        self.assertEqual([link for link in links if link[1] not in known], [])

    def test_paths_in_entries_exist(self):
        named = re.findall(r"`((?:lib|client|collectors|exporter|ctl|alerts|dashboards|demo|proof|tests|scripts)/[\w./-]+)`", self.text)
        self.assertGreater(len(named), 8)
        self.assertEqual([path for path in named if not (source_tree.TOP / path).exists()], [])


if __name__ == "__main__":
    if "--write" in sys.argv:
        content = DECISIONS.read_text(encoding="utf-8")
        DECISIONS.write_text(INDEX.sub(lambda match: match[1] + index(content) + match[3], content), encoding="utf-8")
    else:
        unittest.main()
