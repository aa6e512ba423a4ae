# SPDX-License-Identifier: Apache-2.0
"""scripts/install-deps asks apt only when something is missing, and never when told not to.

It runs here on a copy with a table of its own and with an apt-get that only leaves a trace. That an
installation works is shown by continuous integration, which begins on an empty machine.
"""

import os
import pathlib
import shutil
import tempfile
import unittest

import source_tree

PRESENT = "run  cmd:sh          dash        a shell\nrun  file:/etc/passwd  base-passwd  a file\n"
MISSING = "run  cmd:no-such-command-here  no-such-package|other  for this test\n"
OTHER_GROUP = "bench  cmd:no-such-command-here  no-such-package  for this test\n"


class InstallDeps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        shutil.copytree(source_tree.TOP / "scripts", self.top / "scripts")
        self.trace = self.top / "trace"
        for name in ("apt-get", "apt-cache", "sudo"):
            stub = self.top / "bin" / name
            stub.parent.mkdir(exist_ok=True)
            stub.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.trace}"\n')
            stub.chmod(0o755)

    def install(self, table, *arguments):
        (self.top / "scripts/dependencies").write_text("# a comment\n\n" + table)
        path = f"{self.top}/bin:{os.environ['PATH']}"
        return source_tree.run([self.top / "scripts/install-deps", *arguments],
                               env={**os.environ, "PATH": path})

    def test_nothing_missing_asks_nobody(self):
        self.assertEqual(self.install(PRESENT + OTHER_GROUP, "run"), (0, ""))
        self.assertFalse(self.trace.exists())

    def test_no_apt_lists_what_is_missing_and_fails(self):
        status, output = self.install(PRESENT + MISSING, "--no-apt", "run")
        self.assertEqual(status, 1)
        self.assertIn("no-such-package|other", output)
        self.assertNotIn("dash", output)
        self.assertFalse(self.trace.exists())

    def test_a_package_apt_does_not_know_is_named(self):
        status, output = self.install(MISSING, "run")
        self.assertEqual(status, 1)
        self.assertIn("apt knows none of: no-such-package|other", output)
        self.assertIn(" update", self.trace.read_text())
        self.assertNotIn(" install", self.trace.read_text())

    def test_a_probe_of_unknown_kind_is_refused(self):
        status, output = self.install("run  command:sh  dash  a shell\n", "run")
        self.assertEqual(status, 1)
        self.assertIn("unknown probe command:sh", output)

    def test_an_unknown_group_is_refused(self):
        status, output = self.install(PRESENT, "everything")
        self.assertEqual(status, 1)
        self.assertIn("everything", output)


class Help(unittest.TestCase):
    def test_every_script_for_people_explains_itself(self):
        for name in ("run", "test", "bench"):
            with self.subTest(script=name):
                status, output = source_tree.run([source_tree.TOP / "scripts" / name, "--help"])
                self.assertEqual(status, 0)
                self.assertIn(f"./scripts/{name} [", output)
                status, output = source_tree.run([source_tree.TOP / "scripts" / name, "--nonsense"])
                self.assertEqual(status, 1)
                self.assertIn("--nonsense", output)


if __name__ == "__main__":
    unittest.main()
