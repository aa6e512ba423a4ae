# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` gives a C program all it needs, through pkg-config alone."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import source_tree

PROGRAM = """\
#include <handoff.h>
#include <stdio.h>
int main(void)
{
    return puts(handoff_version()) == EOF;
}
"""


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.prefix = pathlib.Path(cls.folder.name, "prefix")
        # the prefix is fixed at configuration, so the staged copy is looked at from DESTDIR
        status, output = source_tree.run(
            ["cmake", "--install", source_tree.BUILD], env={**os.environ, "DESTDIR": str(cls.prefix)})
        assert status == 0, output
        cls.pc = next(cls.prefix.rglob("handoff.pc"))
        (pathlib.Path(cls.folder.name) / "program.c").write_text(PROGRAM)

    def pkg_config(self, *arguments):
        return subprocess.check_output(
            ["pkg-config", *arguments, "handoff"], text=True,
            env={**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent),
                 "PKG_CONFIG_SYSROOT_DIR": ""}).split()

    def flags(self, *arguments):
        """pkg-config's flags, with the paths under handoff's own prefix moved to DESTDIR."""
        own = self.pkg_config("--variable=prefix")[0]
        return [re.sub(rf"^(-[IL]){re.escape(own)}/", rf"\g<1>{self.prefix}{own}/", word)
                for word in self.pkg_config(*arguments)]

    def build_and_run(self, *libraries):
        program = pathlib.Path(self.folder.name) / "program"
        status, output = source_tree.run(
            ["cc", "-Wall", "-Werror", program.with_suffix(".c"), *self.flags("--cflags"), "-o",
             program, *libraries])
        self.assertEqual(status, 0, output)
        return subprocess.check_output(
            [program], text=True, env={"LD_LIBRARY_PATH": str(self.pc.parent.parent)}).strip()

    def test_a_program_builds_against_the_shared_library(self):
        version = self.pkg_config("--modversion")[0]
        self.assertEqual(self.build_and_run(*self.flags("--libs")), version)

    def test_a_program_builds_against_the_static_library(self):
        required = [line.split()[0] for line in subprocess.check_output(
            ["pkg-config", "--print-requires-private", "handoff"], text=True,
            env={**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent)}).splitlines()]
        beyond = subprocess.check_output(["pkg-config", "--libs", *required], text=True).split()
        archive = self.pc.parent.parent / "libhandoff.a"
        version = self.pkg_config("--modversion")[0]
        # whole: a library that Requires.private forgets must not hide in an unused object
        self.assertEqual(self.build_and_run("-Wl,--whole-archive", archive, "-Wl,--no-whole-archive",
                                            *beyond, "-lpthread", "-lm"), version)

    def test_the_shared_library_shows_what_the_header_declares(self):
        header = "\n".join((source_tree.TOP / name).read_text() for name in source_tree.PUBLIC_HEADERS)
        code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
        code = re.sub(r"^(?:typedef|static)\b[^;{]*", "", code, flags=re.MULTILINE)
        declared = set(re.findall(r"^[a-z][^;{}()]*?\b(handoff_[a-z0-9_]+)\(", code, re.MULTILINE))
        declared |= set(re.findall(r"^(handoff_[a-z0-9_]+)\(", code, re.MULTILINE))
        library = next(self.prefix.rglob("libhandoff.so"))
        symbols = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True)
        shown = {words[2].split("@")[0] for words in map(str.split, symbols.splitlines())
                 if words[1] in "TDBR"}
        self.assertEqual(shown, declared)

    def test_what_the_document_lists_is_there(self):
        text = (source_tree.TOP / "docs/install.md").read_text()
        listed = [path for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
                  for path in re.findall(r"`([^`]+)`", row) if "/" in path]
        self.assertGreater(len(listed), 10)
        if not list((source_tree.BUILD / "vocabulary").glob("*")):  # they were not fetched
            listed = [path for path in listed if not path.endswith(".vocabulary")]
        prefix = self.prefix / self.pkg_config("--variable=prefix")[0].lstrip("/")
        missing = [path for path in listed if not (prefix / path).exists()
                   and not list(prefix.glob(path.replace("lib/", "lib/*/", 1)))]
        self.assertEqual(missing, [])

    def test_the_programs_are_there(self):
        for name in ("handoff-exporter", "handoffctl"):
            self.assertEqual(len(list(self.prefix.rglob(f"bin/{name}"))), 1)

    def test_units_are_there(self):
        units = [path.name for path in source_tree.files()
                 if path.parts[:2] == ("packaging", "systemd") and path.suffix in (".service", ".socket")]
        installed = [path.name for path in self.prefix.rglob("lib/systemd/system/*")]
        self.assertEqual(sorted(installed), sorted(units))


if __name__ == "__main__":
    unittest.main()
