# SPDX-License-Identifier: Apache-2.0
"""A lint runs with the version of its tool that it was written for; elsewhere it says so and is skipped."""

import os
import pathlib
import sys
import tempfile
import unittest

import source_tree


class LeftOut(unittest.TestCase):
    def lint(self, name, tool, version):
        """Status and output of a lint test with a tool of that version, which finds fault with everything."""
        with tempfile.TemporaryDirectory() as folder:
            stub = pathlib.Path(folder, tool)
            stub.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "the {tool} version {version} (1)" && exit\n'
                            'echo a finding\nexit 1\n')
            stub.chmod(0o755)
            return source_tree.run([sys.executable, source_tree.TOP / f"tests/lint/test_{name}.py"],
                                   env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})

    def test_other_versions_are_left_out_by_name(self):
        for name, tool, version in (("clang_tidy", "clang-tidy", "19.1.7"), ("format", "clang-format", "140.0.6"),
                                    ("cppcheck", "cppcheck", "2.17.1"), ("cppcheck", "cppcheck", "2.1")):
            with self.subTest(tool=tool):
                status, output = self.lint(name, tool, version)
                self.assertEqual(status, 0, output)
                # ctest takes the line for a skipped test where it begins one
                self.assertRegex(output, rf"(?m)^left out: {tool} is {version} here, and the test is written for "
                                         rf"{source_tree.WRITTEN_FOR[tool]}$")
                self.assertNotIn("a finding", output)

    def test_its_own_version_runs(self):
        status, output = self.lint("format", "clang-format", "14.0.6")
        self.assertNotEqual(status, 0)
        self.assertIn("a finding", output)


if __name__ == "__main__":
    unittest.main()
