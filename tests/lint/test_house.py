# SPDX-License-Identifier: Apache-2.0
"""Each C file has a head that says what it is and which thread runs it, and the name of a static function
occurs in one file only: a name that several files use says too little where it is called.
"""

import collections
import pathlib
import re
import tempfile
import unittest

import source_tree

# Rooms for which both rules hold. The other rooms follow; then this becomes source_tree.ROOMS.
FINISHED = ("lib/base/", "lib/search/", "lib/tokens/", "lib/words/", "lib/metrics/", "lib/prom/", "lib/exposition/",
            "lib/promhttp/", "client/", "collectors/",
            "exporter/", "ctl/", "tools/vocabulary/")
# Files in these rooms that are not finished yet.
UNFINISHED = ()
GENERATED = ("lib/tokens/unicode_tables.c",)
SEARCHED = tuple(room + "/" for room in source_tree.ROOMS) + ("tools/vocabulary/",)

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
THREAD = re.compile(r"\b(?:threads?|loops?|lanes?|pure)\b", re.IGNORECASE)
# a definition as clang-format lays it out: the function's brace opens a line
ATTRIBUTE = r"(?:__attribute__\(\(.*?\)\)\s+)?"
STATIC = re.compile(rf"^{ATTRIBUTE}static (?:inline )?{ATTRIBUTE}[^;={{}}]*?\b(\w+)\([^;{{}}]*\)\n\{{", re.MULTILINE)


def is_finished(path):
    return str(path).startswith(FINISHED) and str(path) not in UNFINISHED


def head(text):
    """The comment at the head of a file, after its licence line; or an empty string."""
    rest = text.split("\n", 1)[1].lstrip() if "\n" in text else ""
    return COMMENT.match(rest).group() if rest.startswith("/*") else ""


def head_complaints(top, path):
    """What the head of one .c file lacks; its header may name the thread for it."""
    text = head((top / path).read_text())
    if not text:
        return [f"{path}: no comment at the head that says what the file is"]
    header = (top / path).with_suffix(".h")
    if not THREAD.search(text + (head(header.read_text()) if header.exists() else "")):
        return [f"{path}: no head, nor that of its header, says which thread runs it (thread, loop, lane or pure)"]
    return []


def static_names(text):
    return set(STATIC.findall(COMMENT.sub("", text)))


def name_complaints(top, paths):
    """One line for every static name of a finished file that another file defines too."""
    files = collections.defaultdict(list)
    for path in paths:
        for name in static_names((top / path).read_text()):
            files[name].append(path)
    return [f"{name}: a static function of this name is in " + ", ".join(map(str, found))
            for name, found in sorted(files.items()) if len(found) > 1 and any(map(is_finished, found))]


def complaints(top, paths):
    found = []
    for path in paths:
        if is_finished(path):
            found += head_complaints(top, path)
    return found + name_complaints(top, paths)


class House(unittest.TestCase):
    maxDiff = None

    def test_heads_and_names(self):
        paths = [path for path in source_tree.c_files(".c")
                 if str(path).startswith(SEARCHED) and str(path) not in GENERATED]
        self.assertGreater(sum(map(is_finished, paths)), 60)
        self.assertEqual(complaints(source_tree.TOP, paths), [])

    def test_every_exception_exists(self):
        for name in UNFINISHED + GENERATED:
            self.assertTrue((source_tree.TOP / name).is_file(), name)


class SelfTest(unittest.TestCase):
    LICENCE = "/* SPDX */\n"
    HEAD = LICENCE + "/* What it is. Pure. */\n"

    def check(self, tree, expected):
        """`expected`: a part of each complaint, in order."""
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            for name, text in tree.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(text)
            found = complaints(top, [pathlib.Path(name) for name in tree if name.endswith(".c")])
        self.assertEqual(len(found), len(expected), found)
        for complaint, part in zip(found, expected):
            self.assertIn(part, complaint)

    def test_a_head_is_missed(self):
        self.check({"ctl/a.c": self.LICENCE + "#include <stdio.h>\n/* Pure. */\n",
                    "ctl/b.c": self.LICENCE + "/* Bets. */\n",
                    "ctl/c.c": self.LICENCE + "/* threadbare, looping */\n",
                    "elsewhere/d.c": self.LICENCE}, ["ctl/a.c: no comment", "ctl/b.c: no head", "ctl/c.c: no head"])

    def test_the_header_may_name_the_thread(self):
        self.check({"ctl/a.c": self.LICENCE + "/* See a.h. */\n", "ctl/a.h": self.LICENCE + "/* On the loop's thread. */\n",
                    "ctl/b.c": self.HEAD}, [])

    def test_a_repeated_name_is_found_in_every_form(self):
        plain = "static int twice(void)\n{\n}\n"
        for other in (plain, "static inline struct x *twice(int a,\n                             int (*b)(int))\n{\n}\n",
                      "__attribute__((noinline)) static void twice(void)\n{\n}\n",
                      "static __attribute__((format(printf, 1, 2))) void twice(const char *a, ...)\n{\n}\n"):
            for place in ("elsewhere/b.c", "ctl/b.c"):
                with self.subTest(other=other, place=place):
                    self.check({"ctl/a.c": self.HEAD + plain, place: self.HEAD + other}, ["twice: "])

    def test_what_is_no_repeated_name(self):
        for other in ("static int twice(void);\n", "int twice(void)\n{\n}\n", "/*\nstatic int twice(void)\n{\n}\n*/\n",
                      "static int other(void)\n{\n    return twice(1);\n}\n", "static const int twice[] = {1};\n"):
            with self.subTest(other=other):
                self.check({"ctl/a.c": self.HEAD + "static int twice(void)\n{\n}\n", "ctl/b.c": self.HEAD + other}, [])

    def test_rooms_that_follow_are_not_checked(self):
        text = "static int twice(void)\n{\n}\n"
        self.check({"elsewhere/a.c": text, "elsewhere/b.c": text}, [])


if __name__ == "__main__":
    unittest.main()
