# SPDX-License-Identifier: Apache-2.0
"""scripts/install-deps asks apt only when something is missing, and never when told not to.

It runs here on a copy with its own table and with an apt-get that only leaves a trace. That an
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
        self.assertIn("apt has none of: no-such-package|other", output)
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


# A cmake that fails to build until it is configured without warnings as errors.
CMAKE = """#!/bin/sh
echo "$*" >>"$TRACE"
case "$*" in
*-DHANDOFF_WERROR=OFF*) sed -i s/=ON/=OFF/ build/release/CMakeCache.txt ;;
--build*) ! grep -q =ON build/release/CMakeCache.txt ;;
esac
"""


class WarningsAsErrors(unittest.TestCase):
    def test_they_are_off_unless_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            status, output = source_tree.run(["cmake", "-S", source_tree.TOP, "-B", folder, "-DBUILD_TESTING=OFF",
                                              "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"])
            self.assertEqual(status, 0, output)
            commands = pathlib.Path(folder, "compile_commands.json").read_text()
        self.assertIn("-Wextra", commands)
        self.assertNotIn("-Werror", commands)

    def test_a_warning_in_the_tests_tree_does_not_stop_a_users_build(self):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            shutil.copytree(source_tree.TOP / "scripts", top / "scripts")
            (top / "scripts/npm-install").write_text("#!/bin/sh\n")
            (top / "build/release").mkdir(parents=True)
            (top / "build/release/CMakeCache.txt").write_text("HANDOFF_WERROR:BOOL=ON\n")
            (top / "bin").mkdir()
            (top / "bin/cmake").write_text(CMAKE)
            (top / "bin/cmake").chmod(0o755)
            status, output = source_tree.run(
                ["bash", "-euc", ". scripts/lib.sh; build_sidecar"], cwd=top,
                env={**os.environ, "TRACE": str(top / "trace"), "PATH": f"{top}/bin:{os.environ['PATH']}"})
            self.assertEqual(status, 0, output)
            self.assertEqual((top / "trace").read_text().count("--build"), 2)


class Help(unittest.TestCase):
    def test_every_script_for_people_explains_itself(self):
        for name in ("run", "test", "bench", "fresh"):
            with self.subTest(script=name):
                status, output = source_tree.run([source_tree.TOP / "scripts" / name, "--help"])
                self.assertEqual(status, 0)
                self.assertIn(f"./scripts/{name} ", output)
                status, output = source_tree.run([source_tree.TOP / "scripts" / name, "--nonsense"])
                self.assertEqual(status, 1)
                self.assertIn("--nonsense", output)


if __name__ == "__main__":
    unittest.main()
