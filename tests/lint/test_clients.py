# SPDX-License-Identifier: Apache-2.0
"""The client packages: types and syntax are checked, they install offline into a clean place, and they have a method
for every call of the API that an agent makes.

    /usr/bin/python3 tests/lint/test_clients.py --write

copies examples/pipeline.* into README.md, and generates handoff/aio.py.
"""

import ast
import json
import os
import pathlib
import re
import runpy
import shutil
import sys
import tempfile
import unittest

import source_tree

README = source_tree.TOP / "README.md"
PYTHON = source_tree.TOP / "clients/python"
TYPESCRIPT = source_tree.TOP / "clients/typescript"
TSC = TYPESCRIPT / "node_modules/typescript/bin/tsc"
PIPELINES = {"pipeline.py": "python", "pipeline.mjs": "js"}
LINES_MAX = 25  # of user code, in a pipeline of four agents

# Calls that people make, with handoffctl or on a page, or that another method makes.
NOT_FOR_AGENTS = {
    "get_openapi", "reset_agent", "list_parked", "group_parked", "check_parked", "preview_edit", "replay_handoff",
    "begin_job", "list_jobs", "get_job", "stop_job", "list_job_items",
    "continue_job", "discard_handoff", "list_decisions", "list_channels", "list_publications"}
OTHER_NAMES = {"send_handoff": "hand_off", "assemble_envelope": "agent_handoff", "deliver_envelope": "deliver_handoff",
               "park_request": "park_envelope", "park_handoff": "park_envelope", "get_stored_envelope": "get_envelope"}

# What TypeScript has in other forms: an object of options, one function for both forms of a body.
PYTHON_ONLY = {"default_path", "of_event"}


# TypeScript awaits every function, and has no threads.
TESTS_OF_PYTHON = {"Receiving.test_a_coroutine_is_run", "Restarts.test_what_is_no_exception_of_a_program_is_tried_again_too",
                   "Sending.test_a_client_that_is_closed_while_it_connects", "Sending.test_retries_may_last_for_days"}


def operations():
    paths = json.loads((source_tree.TOP / "docs/openapi.json").read_text())["paths"]
    return {call["operationId"] for calls in paths.values() for call in calls.values() if isinstance(call, dict)}


def python_files():
    return [source_tree.TOP / path for path in source_tree.files()
            if path.parts[:2] == ("clients", "python") and path.suffix == ".py"]


def public_methods(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")}


def user_code(text):
    """What a user writes: no blank lines, no comments, no docstring."""
    text = re.sub(r'""".*?"""\n|^/\*.*?\*/\n', "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if line.strip() and not re.match(r"\s*(#|//)", line)]


def shown(name, language):
    """A pipeline as README.md has it: without the head comment."""
    text = (source_tree.TOP / "examples" / name).read_text()
    body = re.sub(r'\A(?:(?:#|//)[^\n]*\n)*(?:""".*?"""\n)?', "", text, flags=re.DOTALL)
    return f"<!-- {name}:begin -->\n```{language}\n{body}```\n<!-- {name}:end -->"


def with_pipelines(text):
    for name, language in PIPELINES.items():
        pattern = rf"<!-- {re.escape(name)}:begin -->.*?<!-- {re.escape(name)}:end -->"
        text = re.sub(pattern, lambda _, name=name, language=language: shown(name, language), text, flags=re.DOTALL)
    return text


def generated_aio():
    return runpy.run_path(str(PYTHON / "generate_aio.py"))["generated"]((PYTHON / "handoff/client.py").read_text())


class Python(unittest.TestCase):
    def test_the_coroutines_are_those_of_the_client(self):
        self.assertEqual((PYTHON / "handoff/aio.py").read_text(), generated_aio(), "run it with --write")

    def test_mypy_is_silent(self):
        with tempfile.TemporaryDirectory() as cache:
            status, output = source_tree.run(["mypy", "--strict", "--cache-dir", cache, "handoff"], cwd=PYTHON)
        self.assertEqual(status, 0, output)

    def test_mypy_would_speak(self):
        with tempfile.TemporaryDirectory() as folder:
            user = pathlib.Path(folder, "user.py")
            user.write_text("from handoff import MemorySpine\nMemorySpine().hand_off('coder', 3)\n")
            status, output = source_tree.run(["mypy", "--strict", "--cache-dir", folder, user],
                                             env={**os.environ, "MYPYPATH": str(PYTHON)})
        self.assertIn('incompatible type "int"; expected "str"', output)
        self.assertNotEqual(status, 0)

    def test_syntax_is_that_of_the_oldest_python(self):
        self.assertGreater(len(python_files()), 8)
        for path in python_files():
            with self.subTest(path=path):
                ast.parse(path.read_text(), feature_version=(3, 9))

    def test_imports_nothing_but_the_standard_library(self):
        for path in python_files():
            for node in ast.walk(ast.parse(path.read_text())):
                names = ([alias.name for alias in node.names] if isinstance(node, ast.Import) else
                         [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else [])
                for name in names:
                    self.assertIn(name.split(".")[0], sys.stdlib_module_names, path)

    def test_installs_into_a_clean_place(self):
        with tempfile.TemporaryDirectory() as folder:
            source = shutil.copytree(PYTHON, pathlib.Path(folder, "source"),
                                     ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
            place = pathlib.Path(folder, "place")
            status, output = source_tree.run(
                ["/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps",
                 "--no-cache-dir", "--disable-pip-version-check", "--target", place, source])
            self.assertEqual(status, 0, output)
            status, output = source_tree.run(
                ["/usr/bin/python3", "-I", "-c", f"import sys; sys.path.insert(0, {str(place)!r}); import handoff; "
                 "print(handoff.__file__, handoff.__version__)"], cwd=folder)
            self.assertEqual((status, output), (0, f"{place}/handoff/__init__.py {self.version()}\n"))
            self.assertTrue((place / "handoff/py.typed").exists())

    def version(self):
        return re.search(r'^version = "(.*)"$', (PYTHON / "pyproject.toml").read_text(), re.MULTILINE)[1]

    def test_has_a_method_for_every_call_of_an_agent(self):
        methods = public_methods(PYTHON / "handoff/client.py")
        wanted = {OTHER_NAMES.get(name, name) for name in operations() - NOT_FOR_AGENTS}
        self.assertEqual(sorted(wanted - methods), [], "add a method to both clients, or the call to NOT_FOR_AGENTS")
        self.assertEqual(NOT_FOR_AGENTS - operations(), set())


class TypeScript(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Packs it and installs the package into a clean place, without a network."""
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        source = shutil.copytree(TYPESCRIPT, cls.folder / "source", ignore=shutil.ignore_patterns("node_modules", "dist"))
        (source / "node_modules").symlink_to(TYPESCRIPT / "node_modules")
        cls.project = cls.folder / "project"
        cls.project.mkdir()
        env = {**os.environ, "npm_config_cache": str(cls.folder / "cache"), "npm_config_loglevel": "error"}
        for where, command in ((source, ["node", TSC]), (source, ["npm", "pack", "--ignore-scripts", "--pack-destination", cls.folder]),
                               (cls.project, ["npm", "install", "--offline", "--no-audit", "--no-fund", "--prefix", cls.project,
                                              cls.folder / f"handoff-{cls.version()}.tgz"])):
            status, output = source_tree.run(command, cwd=where, env=env)
            assert status == 0, output

    @staticmethod
    def version():
        return json.loads((TYPESCRIPT / "package.json").read_text())["version"]

    def compile(self, text):
        """What the compiler says to a user's program."""
        (self.project / "user.ts").write_text(text)
        return source_tree.run(["node", TSC, "--strict", "--noEmit", "--module", "nodenext", "--target", "es2022",
                                "--types", "node", "--typeRoots", TYPESCRIPT / "node_modules/@types", "user.ts"],
                               cwd=self.project)

    def test_what_is_installed_can_be_imported(self):
        (self.project / "user.mjs").write_text(
            'import * as handoff from "handoff"; console.log(Object.keys(handoff).sort().join(" "));')
        status, output = source_tree.run(["node", "user.mjs"], cwd=self.project)
        self.assertEqual(status, 0, output)
        self.assertIn("MemorySpine", output.split())

    def test_the_compiler_checks_what_a_user_writes(self):
        good = 'import { MemorySpine } from "handoff";\nexport const done = new MemorySpine().handOff({\n' \
               '  target_agent: "coder", task_summary: "Write it" });\n'
        self.assertEqual(self.compile(good), (0, ""))
        for bad in (good.replace('"Write it"', "3"), good.replace("task_summary", "task_sumary")):
            status, output = self.compile(bad)
            self.assertIn("error TS2", output)
            self.assertNotEqual(status, 0)

    def test_has_no_dependency(self):
        package = json.loads((TYPESCRIPT / "package.json").read_text())
        self.assertEqual(set(package) & {"dependencies", "peerDependencies", "optionalDependencies"}, set())
        for path in (TYPESCRIPT / "src").glob("*.ts"):
            for name in re.findall(r'from "([^"]+)"', re.sub(r"^//.*$", "", path.read_text(), flags=re.MULTILINE)):
                self.assertRegex(name, r"^(node:|\./)", path)

    def test_has_the_names_of_the_python_client(self):
        for python, typescript in (("client.py", "client.ts"), ("received.py", "received.ts"), ("seen.py", "seen.ts")):
            methods = {name for name in public_methods(PYTHON / "handoff" / python)} - PYTHON_ONLY
            text = (TYPESCRIPT / "src" / typescript).read_text()
            for name in methods:
                camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
                with self.subTest(method=name):
                    self.assertTrue(re.search(rf"\b({camel}|{name})\b", text), f"{typescript} has no {camel}")

    def test_is_tested_as_the_python_client(self):
        """By tests of the same names; those of both clients at once are in test_client_delivery.py, _faults.py and _streams.py."""
        def tests(language):
            text = (source_tree.TOP / f"tests/scenario/test_client_{language}.py").read_text()
            return {f"{node.name}.{test.name}" for node in ast.parse(text).body if isinstance(node, ast.ClassDef)
                    for test in node.body if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")}
        left_out = {name for name in tests("python") if name.startswith(("Samples.", "Asyncio."))} | TESTS_OF_PYTHON
        self.assertEqual(tests("python") - tests("typescript"), left_out)
        self.assertEqual(tests("typescript") - tests("python"), {"Sending.test_agent_handoff_deliver_and_park",
                                                                "Sending.test_a_client_that_is_closed_while_it_waits"})

    def test_errors_have_the_same_names(self):
        python = {name for name in re.findall(r"^class (\w+)", (PYTHON / "handoff/errors.py").read_text(), re.MULTILINE)}
        typescript = set(re.findall(r"^export class (\w+)", (TYPESCRIPT / "src/errors.ts").read_text(), re.MULTILINE))
        self.assertEqual(python, typescript)


class Pipelines(unittest.TestCase):
    def test_are_short(self):
        for name in PIPELINES:
            with self.subTest(name=name):
                self.assertLessEqual(len(user_code((source_tree.TOP / "examples" / name).read_text())), LINES_MAX)

    def test_are_in_the_readme(self):
        text = README.read_text()
        self.assertEqual(with_pipelines(text), text, "run it with --write")
        for name in PIPELINES:
            for line in user_code((source_tree.TOP / "examples" / name).read_text()):
                self.assertIn(f"\n{line}\n", text, name)


if __name__ == "__main__":
    if "--write" in sys.argv:
        (PYTHON / "handoff/aio.py").write_text(generated_aio())
        README.write_text(with_pipelines(README.read_text()))
    else:
        unittest.main()
