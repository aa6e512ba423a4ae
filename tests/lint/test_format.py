# SPDX-License-Identifier: Apache-2.0
"""clang-format has nothing to change."""

import unittest

import source_tree


def setUpModule():
    source_tree.require("clang-format")


class Format(unittest.TestCase):
    def test_sources_are_formatted(self):
        status, output = source_tree.run(
            ["clang-format", "--dry-run", "-Werror", *source_tree.c_files()], cwd=source_tree.TOP)
        self.assertEqual(status, 0, output + "\nclang-format -i FILE puts it right")


if __name__ == "__main__":
    unittest.main()
