# SPDX-License-Identifier: Apache-2.0
"""Examples are for copying: short, without dependencies, and named where one looks for them."""

import ast
import re
import sys
import tempfile
import unittest

import source_tree

LINES_MAX = 59
CLIENTS = ("handoff",)  # of clients/, which have no dependencies
FRAMEWORKS = {"ai_sdk.mjs": ("ai", "ai/test", "zod"), "openai_agents.mjs": ("@openai/agents",),
              "langgraph.mjs": ("@langchain/langgraph", "@langchain/core/utils/testing"),
              "mastra.mjs": ("@mastra/core/agent", "@mastra/core/tools", "ai/test", "zod")}
EXAMPLES = [path for path in source_tree.files() if path.parts[0] == "examples"]
PROGRAMS = [path for path in EXAMPLES if path.suffix in (".py", ".mjs", ".c")]


def faults(path, text):
    """What is wrong with one program."""
    found = []
    if text.count("\n") > LINES_MAX:
        found.append(f"{path}: {text.count(chr(10))} lines, {LINES_MAX} are allowed")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            names = ([alias.name for alias in node.names] if isinstance(node, ast.Import) else
                     [node.module] if isinstance(node, ast.ImportFrom) else [])
            found += [f"{path}: imports {name}" for name in names
                      if name.split(".")[0] not in (*sys.stdlib_module_names, *CLIENTS)]
    if path.suffix == ".mjs":
        found += [f"{path}: imports {name}"
                  for name in re.findall(r'^import .*?"([^"]+)"', text, re.MULTILINE)
                  if not name.startswith("node:") and name not in CLIENTS + FRAMEWORKS.get(path.name, ())]
    if path.suffix == ".c":
        found += [f"{path}: includes {name}"
                  for name in re.findall(r"^#include [<\"](.*?)[>\"]", text, re.MULTILINE)
                  if name not in ("handoff.h", "prom.h", "promhttp.h", "stdio.h", "stdlib.h", "string.h", "stdbool.h",
                                  "threads.h")]
    return found


class Examples(unittest.TestCase):
    def test_short_and_without_dependencies(self):
        self.assertGreaterEqual(len(PROGRAMS), 7)
        found = [fault for path in PROGRAMS
                 for fault in faults(path, (source_tree.TOP / path).read_text())]
        self.assertEqual(found, [])

    def test_what_is_refused(self):
        path = PROGRAMS[0]
        self.assertEqual(faults(path.with_suffix(".py"), "import json\n" * 60),
                         [f"{path.with_suffix('.py')}: 60 lines, 59 are allowed"])
        for suffix, text in ((".py", "from requests import get\n"), (".py", "import a, requests\n"),
                             (".mjs", 'import got from "got";\n'), (".c", '#include "client/x.h"\n')):
            with self.subTest(text=text):
                self.assertTrue(faults(path.with_suffix(suffix), text))

    def test_each_can_be_read(self):
        for path in PROGRAMS:
            command = {".py": [sys.executable, "-m", "py_compile"], ".mjs": ["node", "--check"],
                       ".c": ["cc", "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                              *(f"-I{(source_tree.TOP / name).parent}"
                                for name in source_tree.PUBLIC_HEADERS + source_tree.PROM_HEADERS)]}[path.suffix]
            with self.subTest(example=str(path)), tempfile.TemporaryDirectory() as folder:
                status, output = source_tree.run([*command, source_tree.TOP / path],
                                                 env={"PATH": "/usr/bin:/bin:/usr/local/bin",
                                                      "PYTHONPYCACHEPREFIX": folder})
                self.assertEqual(status, 0, output)

    def test_each_is_in_the_list(self):
        listed = (source_tree.TOP / "examples/README.md").read_text()
        for path in EXAMPLES:
            if path.name != "README.md":
                with self.subTest(example=str(path)):
                    self.assertIn(f"]({path.name})", listed)


if __name__ == "__main__":
    unittest.main()
