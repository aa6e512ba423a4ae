# SPDX-License-Identifier: Apache-2.0
"""cppcheck is clean. Its suppressions are in cppcheck.txt, with reasons."""

import os
import pathlib
import tempfile
import unittest

import source_tree

# "style" and "information" change from version to version; what stays are findings about behaviour.
OPTIONS = ["--enable=warning,performance,portability", "--error-exitcode=1", "--inline-suppr",
           "--std=c11", "--language=c", "--quiet", "--library=posix", "--library=gnu",
           "-D_GNU_SOURCE", "-D__GNUC__", "--suppress=missingIncludeSystem",
           "--suppress=toomanyconfigs", "--suppress=normalCheckLevelMaxBranches",
           "--template=gcc"]


def cppcheck(*arguments):
    return source_tree.run(["cppcheck", *OPTIONS, *arguments], cwd=source_tree.TOP)


def setUpModule():
    source_tree.require("cppcheck")


class Cppcheck(unittest.TestCase):
    def test_sources_are_clean(self):
        cache = source_tree.BUILD / "cppcheck"
        cache.mkdir(exist_ok=True)
        sources = [path for path in source_tree.c_files(".c") if path.parts[0] in source_tree.ROOMS]
        status, output = cppcheck(
            f"-j{os.cpu_count()}", f"--cppcheck-build-dir={cache}", f"-I{source_tree.TOP}",
            f"--suppressions-list={pathlib.Path(__file__).with_name('cppcheck.txt')}", *sources)
        self.assertEqual(status, 0, output)

    def test_a_fault_is_found(self):
        with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
            source.write("int f(void);\nint f(void) { int a[2] = {0}; return a[2]; }\n")
            source.flush()
            status, output = cppcheck(source.name)
        self.assertEqual(status, 1)
        self.assertIn("arrayIndexOutOfBounds", output)


if __name__ == "__main__":
    unittest.main()
