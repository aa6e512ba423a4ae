# SPDX-License-Identifier: Apache-2.0
"""README.md agrees with the code: the tables come from the .def files, the tour's steps exist.

    /usr/bin/python3 tests/lint/test_readme.py --write

regenerates the tables after a change to a .def file.
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import source_tree

README = source_tree.TOP / "README.md"

# A few lines of C that include options.def, as the product does, and print its rows.
OPTIONS = r"""
#include <stdio.h>
#define DURATION 0
static void cell(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}
#define OPTION(field, kind, name, argument, standard, least, most, choices, help) \
    row(name, argument, standard, choices, help);
static void row(const char *name, const char *argument, const char *standard, const char *choices,
                const char *help)
{
    printf("| `--%s%s", name, argument ? "=" : "");
    cell(argument ? argument : "");
    printf("` | %s%s%s | ", standard ? "`" : "", standard ? standard : "", standard ? "`" : "");
    cell(help);
    if (choices) {
        printf(" One of `");
        cell(choices);
        printf("`.");
    }
    printf(" |\n");
}
int main(void)
{
    printf("| option | default | |\n|---|---|---|\n");
#include "exporter/options.def"
    return 0;
}
"""


def printed(program):
    """What a C program prints."""
    with tempfile.TemporaryDirectory() as folder:
        binary = pathlib.Path(folder) / "program"
        subprocess.run(["cc", "-std=c11", f"-I{source_tree.TOP}", "-x", "c", "-", "-o", binary],
                       input=program, text=True, check=True)
        return subprocess.check_output([binary], text=True)


TABLES = {"options": lambda: printed(OPTIONS)}


def between(name):
    return re.compile(rf"(<!-- {name}:begin -->\n)(.*?)(<!-- {name}:end -->)", re.DOTALL)


def write():
    text = README.read_text()
    for name, table in TABLES.items():
        text = between(name).sub(lambda match, body=table(): match[1] + body + match[3], text)
    README.write_text(text)


class Readme(unittest.TestCase):
    maxDiff = None

    def test_tables_say_what_the_code_says(self):
        for name, table in TABLES.items():
            with self.subTest(table=name):
                found = between(name).search(README.read_text())
                self.assertIsNotNone(found, f"README.md has no table {name}")
                self.assertEqual(found[2], table(), "run: tests/lint/test_readme.py --write")

    def test_scripts_named_in_the_documents_exist(self):
        for document in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"):
            text = (source_tree.TOP / document).read_text()
            named = set(re.findall(r"\./(scripts/[a-z-]+)", text))
            for script in named:
                with self.subTest(document=document, script=script):
                    self.assertTrue((source_tree.TOP / script).is_file())

    def test_the_architecture_names_every_folder_of_a_room(self):
        text = (source_tree.TOP / "ARCHITECTURE.md").read_text()
        folders = {str(path.parent) for path in source_tree.c_files(".c")
                   if path.parts[0] in source_tree.ROOMS}
        unnamed = [folder for folder in sorted(folders)
                   if not re.search(rf"`{re.escape(folder)}/?`", text)]
        self.assertEqual(unnamed, [], "say in ARCHITECTURE.md what they are")

    def test_links_between_documents_lead_somewhere(self):
        for path in source_tree.files():
            if path.suffix != ".md":
                continue
            for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", (source_tree.TOP / path).read_text()):
                with self.subTest(document=str(path), target=target):
                    self.assertTrue((source_tree.TOP / path.parent / target).exists())

    def test_options_in_the_documents_exist(self):
        known = set(re.findall(r"--([a-z][a-z.-]+)", TABLES["options"]()))
        for document in ("README.md", "ARCHITECTURE.md"):
            text = (source_tree.TOP / document).read_text()
            for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
                for line in block.splitlines():
                    words = shlex.split(line, comments=True)
                    if words and words[0].endswith("handoff-exporter"):
                        for option in re.findall(r"--([a-z]+\.[a-z.-]+)", line):
                            self.assertIn(option, known, line)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        unittest.main()
