# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` gives a C program all it needs, through pkg-config alone; and the programs, which find
their vocabularies, and the unit, which finds the program, whatever prefix they were installed to."""

import json
import os
import pathlib
import re
import shutil
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

COUNTING = """\
#include <handoff.h>
#include <stdio.h>
int main(void)
{
    struct handoff_error error;
    struct handoff_tokenizer *tokenizer = handoff_tokenizer_open_encoding("o200k_base", NULL, &error);
    if (!tokenizer)
        return printf("%s %s", error.message, error.field) < 0;
    const int written = puts(handoff_tokenizer_encoding(tokenizer));
    handoff_tokenizer_close(&tokenizer);
    return written == EOF;
}
"""


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.prefix = cls.install("prefix")  # another than that of the configuration
        cls.pc = next(cls.prefix.rglob("handoff.pc"))

    @classmethod
    def install(cls, name, **environment):
        prefix = pathlib.Path(cls.folder.name, name)
        status, output = source_tree.run(["cmake", "--install", source_tree.BUILD, "--prefix", prefix],
                                         env={**os.environ, **environment})
        assert status == 0, output
        return prefix

    def pkg_config(self, *arguments):
        return subprocess.check_output(
            ["pkg-config", *arguments, "handoff"], text=True,
            env={**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent),
                 "PKG_CONFIG_SYSROOT_DIR": ""}).split()

    def build_and_run(self, *libraries, source=PROGRAM):
        program = pathlib.Path(self.folder.name) / "program"
        program.with_suffix(".c").write_text(source)
        status, output = source_tree.run(
            ["cc", "-Wall", "-Werror", program.with_suffix(".c"), *self.pkg_config("--cflags"), "-o",
             program, *libraries])
        self.assertEqual(status, 0, output)
        return subprocess.check_output(
            [program], text=True, env={"LD_LIBRARY_PATH": str(self.pc.parent.parent)}).strip()

    def test_a_program_builds_against_the_shared_library(self):
        version = self.pkg_config("--modversion")[0]
        self.assertEqual(self.build_and_run(*self.pkg_config("--libs")), version)

    def test_a_program_builds_against_the_static_library(self):
        required = [line.split()[0] for line in subprocess.check_output(
            ["pkg-config", "--print-requires-private", "handoff"], text=True,
            env={**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent)}).splitlines()]
        beyond = subprocess.check_output(["pkg-config", "--libs", *required], text=True).split()
        archive = self.pc.parent.parent / "libhandoff.a"
        version = self.pkg_config("--modversion")[0]
        libs_private = next(line for line in self.pc.read_text().splitlines()
                            if line.startswith("Libs.private:")).split()[1:]
        # whole: a library that the .pc file forgets must not hide in an unused object
        self.assertEqual(self.build_and_run("-Wl,--whole-archive", archive, "-Wl,--no-whole-archive",
                                            *beyond, *libs_private), version)

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
        missing = [path for path in listed if not (self.prefix / path).exists()
                   and not list(self.prefix.glob(path.replace("lib/", "lib/*/", 1)))]
        self.assertEqual(missing, [])

    def test_the_target_installed_builds_all_that_is_installed(self):
        """./scripts/run builds this target alone, and `cmake --install` must work right after it."""
        graph = subprocess.check_output(["ninja", "-C", source_tree.BUILD, "-t", "graph", "installed"], text=True)
        built = set(re.findall(r'\[label="([^"]+)"', graph))
        scripts = "".join(path.read_text() for path in source_tree.BUILD.rglob("cmake_install.cmake"))
        wanted = set(re.findall(f'"{source_tree.BUILD}/([^"$]+\\.(?:a|so|vocabulary|[18])|[^"$.]+/handoff[^"/$.]*)"',
                                scripts))
        self.assertIn("libhandoff.so", wanted)
        self.assertEqual([name for name in sorted(wanted)
                          if not any(path.removeprefix(f"{source_tree.BUILD}/").startswith(name)
                                     for path in built)], [])

    def test_the_programs_are_there(self):
        for name in ("handoff-exporter", "handoffctl"):
            self.assertEqual(len(list(self.prefix.rglob(f"bin/{name}"))), 1)

    def test_the_runbooks_are_there(self):
        sources = sorted(path.name for path in source_tree.files() if path.parts[:2] == ("docs", "runbooks"))
        self.assertEqual(sorted(path.name for path in self.prefix.rglob("runbooks/*.md")), sources)

    def test_units_are_there(self):
        units = [path.name for path in source_tree.files()
                 if path.parts[:2] == ("packaging", "systemd") and path.suffix in (".service", ".socket")]
        installed = [path.name for path in self.prefix.rglob("lib/systemd/system/*")]
        self.assertEqual(sorted(installed), sorted(units))

    def test_the_unit_names_the_prefix(self):
        stage = pathlib.Path(self.folder.name, "stage")
        named = self.install("later", DESTDIR=str(stage))
        for where, prefix in ((self.prefix, self.prefix), (stage / named.relative_to("/"), named)):
            with self.subTest(where=where):
                unit = (where / "lib/systemd/system/handoff-exporter.service").read_text()
                self.assertEqual(re.findall("^ExecStart=(\\S+)", unit, re.MULTILINE),
                                 [f"{prefix}/bin/handoff-exporter"])
                self.assertNotIn("@", unit.replace("@system-service", "").replace("@privileged @resources", ""))

    def test_the_programs_find_their_vocabularies(self):
        if not list((source_tree.BUILD / "vocabulary").glob("*")):
            self.skipTest("scripts/npm-install did not fetch the vocabularies")
        environment = {name: value for name, value in os.environ.items() if name != "HANDOFF_VOCABULARY_DIR"}
        for program in (self.prefix / "bin/handoffctl", self.move_of_prefix() / "bin/handoffctl",
                        source_tree.BUILD / "ctl/handoffctl"):
            with self.subTest(program=program):
                status, output = source_tree.run([program, "tokens", "--json", source_tree.TOP / "LICENSE"],
                                                 env=environment, cwd="/")
                self.assertEqual((status, json.loads(output)["encoding"]), (0, "o200k_base"), output)

    def move_of_prefix(self):
        return shutil.copytree(self.prefix, pathlib.Path(self.folder.name, "moved"), symlinks=True)

    def test_a_program_with_the_shared_library_finds_the_vocabularies_too(self):
        if not list((source_tree.BUILD / "vocabulary").glob("*")):
            self.skipTest("scripts/npm-install did not fetch the vocabularies")
        output = self.build_and_run(*self.pkg_config("--libs"), source=COUNTING)
        self.assertEqual(output, "o200k_base")


if __name__ == "__main__":
    unittest.main()
