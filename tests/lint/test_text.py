# SPDX-License-Identifier: Apache-2.0
"""What the text of every file must have, and must not have."""

import re
import unittest

import source_tree

# The patterns are put together here so that this file does not contain what it refuses.
REFUSED = {
    "a path of somebody's machine": r"(?<![\w.$})/-])/(?:wor" + r"k|roo" + r"t|home/\w+)/",
    "the host of a package registry": r"(?:registry\.npm" + r"js|deb\.debian|security\.debian|"
                                      r"archive\.ubuntu|pypi)\.(?:org|com)",
    "a mark for later": r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b",
    "a merge conflict": r"^(?:<{7}|>{7}) ",
}
# Inputs of tests are what they are.
INPUTS = re.compile(r"^tests/(?:.*/)?(?:corpus|golden|data)/")
SPDX = "SPDX-License-Identifier: Apache-2.0"
SOURCES = {".c", ".h", ".def", ".inc", ".cmake", ".py", ".sh", ".js", ".mjs", ".cjs", ".ts", ".service",
           ".socket"}


def text_of(path):
    """The text of a file, or None where it is not text."""
    try:
        return (source_tree.TOP / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def complaints(name, text):
    found = []
    for what, pattern in REFUSED.items():
        for match in re.finditer(pattern, text, re.MULTILINE):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{name}:{line}: {what}: {match.group()}")
    return found


class Text(unittest.TestCase):
    maxDiff = None

    def test_every_source_begins_with_its_licence(self):
        sources = [path for path in source_tree.files() if not INPUTS.match(str(path)) and
                   (path.suffix in SOURCES or path.name == "CMakeLists.txt" or
                    source_tree.shebang(path))]
        self.assertGreater(len(sources), 20)
        without = [str(path) for path in sources
                   if not any(SPDX in line for line in text_of(path).splitlines()[:2])]
        self.assertEqual(without, [])

    def test_nothing_unwanted_is_in_any_file(self):
        found = []
        for path in source_tree.files():
            text = None if INPUTS.match(str(path)) else text_of(path)
            found += complaints(path, text) if text else []
        self.assertEqual(found, [])

    def test_handoffctl_shows_texts_of_others_by_ctl_put(self):
        """Agents wrote them: a printed control character is a command to the terminal."""
        prints = re.compile(r"\b(?:printf|puts)\([^;]*\b(?:ctl_text|yyjson_get_str)\(")
        found = [f"{path}: {match.group()}" for path in source_tree.files() if path.match("ctl/*.c")
                 for match in prints.finditer(text_of(path))]
        self.assertEqual(found, [])

    def test_each_unwanted_thing_is_found(self):
        bad = ["cd /roo" + "t/x", "https://registry.npm" + "js.org/x", "/* TO" + "DO */", "<" * 7 + " a"]
        self.assertEqual([len(complaints("bad", text)) for text in bad], [1] * len(bad))


if __name__ == "__main__":
    unittest.main()
