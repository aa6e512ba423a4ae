# SPDX-License-Identifier: Apache-2.0
"""docs/security.md has every route of the agent API, with the access that exporter/routes/routes.c gives."""

import re
import unittest

import source_tree

ROW = re.compile(r'\{"([A-Z]+)", "(/v1/[^"]+)",[^"]*?,\s+(all|named|ops)\}')
CALL = re.compile(r"`([A-Z]+ /v1/[^`]*)`")


def routes(source):
    """{"METHOD /path": access} of the table."""
    return {f"{method} {path}": access for method, path, access in ROW.findall(source)}


def documented(text):
    """{"METHOD /path": access} as the first words on each row read."""
    table = re.search(r"<!-- access:begin -->\n(.*?)<!-- access:end -->", text, re.DOTALL)[1]
    found = {}
    for row in table.splitlines()[2:]:
        calls, says = row.strip("| ").split(" | ", 1)
        access = "ops" if says.startswith("no;") else \
            "named" if says.startswith("for its own name") else "all"
        found.update((call, access) for call in CALL.findall(calls))
    return found


class AccessDocument(unittest.TestCase):
    maxDiff = None

    def test_every_route_is_documented_as_it_is(self):
        source = (source_tree.TOP / "exporter/routes/routes.c").read_text()
        table = routes(source)
        self.assertEqual(len(table), len(re.findall(r'\{"[A-Z]+", "/v1/', source)))
        self.assertEqual(table, documented((source_tree.TOP / "docs/security.md").read_text()))

    def test_what_differs_is_found(self):
        text = (source_tree.TOP / "docs/security.md").read_text()
        table = routes((source_tree.TOP / "exporter/routes/routes.c").read_text())
        self.assertNotEqual(table, documented(text.replace("| no; these", "| yes: these")))
        self.assertNotEqual(table, documented(text.replace("`GET /v1/agents` |", "`GET /v1/x` |")))


if __name__ == "__main__":
    unittest.main()
