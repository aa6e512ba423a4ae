# SPDX-License-Identifier: Apache-2.0
"""scripts/dependencies and the build name the same libraries; its lines are well formed."""

import re
import unittest

import source_tree

KINDS = ("cmd", "lib", "so", "file", "py", "deb")


def table():
    lines = (source_tree.TOP / "scripts/dependencies").read_text().splitlines()
    return [line.split(None, 3) for line in lines if line and not line.startswith("#")]


class Dependencies(unittest.TestCase):
    def test_lines_are_well_formed(self):
        for row in table():
            with self.subTest(row=row):
                self.assertEqual(len(row), 4, "group, probe, package, reason")
                self.assertIn(row[0], ("run", "demo", "test", "bench", "fresh"))
                self.assertIn(row[1].split(":")[0], KINDS)
                self.assertRegex(row[2], r"^[a-z0-9.+|-]+$")

    def test_every_library_of_the_build_is_in_the_table(self):
        used = set()
        for path in source_tree.files():
            if path.suffix == ".cmake" or path.name == "CMakeLists.txt":
                text = (source_tree.TOP / path).read_text()
                for call in re.findall(r"pkg_check_modules\(\w+ ([^)]*)\)", text):
                    used |= {word for word in call.split() if word.upper() != word}
        provided = {row[1][4:].replace("_>=_", ">=") for row in table() if row[1].startswith("lib:")}
        self.assertEqual(used, provided)


if __name__ == "__main__":
    unittest.main()
