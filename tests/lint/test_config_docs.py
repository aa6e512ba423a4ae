# SPDX-License-Identifier: Apache-2.0
"""docs/configuration.md agrees with config.def and handoff_agent_keys.def.

    /usr/bin/python3 tests/lint/test_config_docs.py --write

regenerates the tables after a change to either, once the release tree is built.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import source_tree

DOCUMENT = source_tree.TOP / "docs/configuration.md"
PRINTER = source_tree.BUILD / "tests/print_config"
HANDOFFCTL = source_tree.BUILD / "ctl/handoffctl"
TABLES = ("root", "agent", "channel")
TABLES_OF_KEYS = ("exporter/config/config.def", "client/model/handoff_agent_keys.def")


def between(table):
    """Matches a table of the document: what begins it, its rows, what ends it."""
    return re.compile(rf"(<!-- config-{table}:begin -->\n)(.*?)(<!-- config-{table}:end -->)",
                      re.DOTALL)


def printed(table):
    """The table as the code has it."""
    return subprocess.check_output([PRINTER, table], text=True)


def rewritten(text):
    """The document with its tables as the code has them."""
    for table in TABLES:
        text = between(table).sub(lambda match, rows=printed(table): match[1] + rows + match[3],
                                  text)
    return text


def check(text):
    """What handoffctl says about a configuration: (exit status, output)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "FILE"
        path.write_text(text)
        status, output = source_tree.run([HANDOFFCTL, "check-config", path])
        return status, output.replace(str(path), "FILE")


class ConfigurationDocument(unittest.TestCase):
    maxDiff = None

    def test_tables_say_what_the_code_says(self):
        text = DOCUMENT.read_text()
        for table in TABLES:
            with self.subTest(table=table):
                self.assertIsNotNone(between(table).search(text))
        self.assertEqual(text, rewritten(text), "run: tests/lint/test_config_docs.py --write")

    def test_an_old_table_is_found(self):
        text = DOCUMENT.read_text().replace("`hops.max`", "`hops.most`")
        self.assertNotEqual(text, rewritten(text))

    def test_the_example_is_good_and_the_shown_error_is_real(self):
        text = DOCUMENT.read_text()
        example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1]
        self.assertEqual((0, "FILE: ok (2 agents, 1 pipeline)\n"), check(example))
        shown = re.search(r"```\n(FILE:.*?)```", text, re.DOTALL)[1]
        broken = "agents:\n  analyst:\n    retries: 3\n    timeout: 15 parsecs\n"
        self.assertEqual((1, shown), check(broken))

    def test_every_key_is_in_the_table(self):
        keys = set(re.findall(r"^\| `([a-z_.]+)` \|", DOCUMENT.read_text(), re.MULTILINE))
        table = "".join((source_tree.TOP / path).read_text() for path in TABLES_OF_KEYS)
        declared = set(re.findall(r'^(?:CONFIG|HANDOFF_AGENT_KEY)\(\w+, [\w.]+, "([a-z_.]+)"', table,
                                  re.MULTILINE))
        self.assertEqual(declared, keys)


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOCUMENT.write_text(rewritten(DOCUMENT.read_text()))
    else:
        unittest.main()
