# SPDX-License-Identifier: Apache-2.0
"""What the build and the tests use is in scripts/dependencies, although something else may have brought it to
this machine; its lines have the right form.

A missing line often goes unnoticed, since packages bring one another: libmicrohttpd's brings GnuTLS, npm
brings Node.js.
"""

import ast
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import source_tree

KINDS = ("cmd", "lib", "so", "file", "py", "deb")


def table():
    lines = (source_tree.TOP / "scripts/dependencies").read_text().splitlines()
    return [line.split(None, 3) for line in lines if line and not line.startswith("#")]

# Part of what is listed by another name, of Debian's base, or used only where it exists.
COMMANDS = {"addr2line", "dpkg-query", "nm", "amtool", "bash", "sh", "timeout", "true", "systemd-analyze", "docker-compose", "chromium-browser"}


def provided(kind, groups):
    return {row[1].split(":", 1)[1] for row in table() if row[1].startswith(kind + ":") and row[0] in groups}


def groups_of(path):
    """The groups that must have what this program uses."""
    if path.parts[0] == "demo":
        return ("run", "demo")
    if path.parts[0] == "proof":
        return ("run", "proof")
    return ("run", "test", "bench") if path.parts[:2] == ("tests", "bench") else ("run", "test")


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


def commands(tree):
    """What begins a list and is a command on this machine; a constant of the module is replaced by its text, and
    `shutil.which("NAME") or ...` by NAME."""
    constants = {node.targets[0].id: node.value for node in tree.body
                 if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.List) and node.elts:
            first = node.elts[0]
            first = constants.get(first.id, first) if isinstance(first, ast.Name) else first
            first = first.values[0] if isinstance(first, ast.BoolOp) else first
            first = first.args[0] if isinstance(first, ast.Call) and first.args else first
            word = first.value if isinstance(first, ast.Constant) else None
            if isinstance(word, str) and re.fullmatch(r"[a-z][a-z0-9+.-]+", word) and shutil.which(word):
                yield word


def of_debians_base(program):
    """Whether a package has the program that is on every Debian."""
    for path in (program, os.path.realpath(program), program.replace("/usr/", "/", 1)):
        owner = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True, check=False).stdout
        if owner:
            package = owner.split(":")[0].split(",")[0]
            shown = subprocess.run(["dpkg-query", "-W", "-f", "${Essential} ${Priority}", package], capture_output=True,
                                   text=True, check=False).stdout
            return "yes" in shown or "required" in shown or "important" in shown
    return False


class Dependencies(unittest.TestCase):
    def test_lines_are_well_formed(self):
        for row in table():
            with self.subTest(row=row):
                self.assertEqual(len(row), 4, "group, probe, package, reason")
                self.assertIn(row[0], ("run", "demo", "proof", "test", "bench", "fresh"))
                self.assertIn(row[1].split(":")[0], KINDS)
                self.assertRegex(row[2], r"^[a-z0-9.+|-]+$")

    def check(self, used, listed, what):
        lacking = sorted(set(used) - set(listed))
        if lacking:
            self.fail(f"not in scripts/dependencies: {', '.join(lacking)} ({what})")

    def test_every_library_of_the_build_is_in_the_table(self):
        used = set()
        for path in source_tree.files():
            if path.suffix == ".cmake" or path.name == "CMakeLists.txt":
                text = (source_tree.TOP / path).read_text()
                used |= set(re.findall(r"^handoff_library\([A-Z]+ (\S+)\)", text, re.MULTILINE))
        self.assertGreater(len(used), 5)
        listed = {library.replace("_>=_", ">=") for library in provided("lib", ("run", "test"))}
        self.check(used, listed, "libraries of the build")
        self.assertEqual(listed - used, set(), "listed and not used")

    def test_every_header_without_pkg_config_is_in_the_table(self):
        text = (source_tree.TOP / "cmake/HandoffDependencies.cmake").read_text()
        headers = re.findall(r"find_path\(\w+ (\S+)\)", text)
        self.assertTrue(headers)
        self.check((f"/usr/include/{name}" for name in headers), provided("file", ("run",)), "headers of the build")

    def test_the_tools_of_the_presets_are_in_the_table(self):
        presets = json.loads((source_tree.TOP / "CMakePresets.json").read_text())["configurePresets"]
        generators = {preset["generator"].lower() for preset in presets if "generator" in preset}
        self.check(generators, provided("cmd", ("run",)), "generators of the presets")
        compilers = {preset.get("cacheVariables", {}).get("CMAKE_C_COMPILER", "cc") for preset in presets}
        self.assertIn("clang", compilers)
        self.check(compilers, provided("cmd", ("run", "test")), "compilers of the presets")

    def test_every_program_and_file_that_is_named_by_its_path_is_in_the_table(self):
        named = {}
        for path in source_tree.files():
            if path.suffix in (".py", ".c") and path.parts[0] in ("tests", "demo", "proof"):
                text = (source_tree.TOP / path).read_text()
                for found in re.findall(r"""["'](/usr/(?:bin|share)/[\w./-]+)["']""", text):
                    named.setdefault(found, path)
        self.assertGreater(len(named), 2)
        for found, path in named.items():
            groups = groups_of(path)
            files = provided("file", groups) | {f"/usr/bin/{command}" for command in provided("cmd", groups)}
            with self.subTest(path=path, found=found):
                if not any(listed == found or listed.startswith(f"{found}/") for listed in files):
                    self.fail(f"not in scripts/dependencies: {found} ({path})")

    def test_every_command_of_the_scripts_is_in_the_table(self):
        """But for those of Debian's base, which every system has."""
        used = {}
        for path in source_tree.files():
            if path.parts[0] == "scripts" and "bash" in source_tree.shebang(path):
                text = re.sub(r"^\s*#.*$", "", (source_tree.TOP / path).read_text(), flags=re.MULTILINE)
                for word in re.findall(r"^\s*(?:if |! |exec |command -v )*([a-z][a-z0-9-]+)\b(?= )", text, re.MULTILINE):
                    used.setdefault(word, path)
        for word, path in used.items():
            if shutil.which(word) and not of_debians_base(shutil.which(word)):
                with self.subTest(word=word):
                    self.check({word} - COMMANDS, provided("cmd", ("run", "demo", "proof", "test", "bench", "fresh")), path)

    def test_every_flavour_that_is_tested_is_in_the_table(self):
        text = (source_tree.TOP / "tests/CMakeLists.txt").read_text()
        self.check(re.findall(r"\blibcurl\S*\.so\.4\b", text), provided("so", ("test",)), "loaded by tests")

    def test_every_module_and_command_of_our_programs_is_in_the_table(self):
        programs = [path for path in source_tree.files() if path.suffix == ".py" or
                    source_tree.shebang(path).endswith("python3")]
        ours = {path.stem for path in programs} | {path.parent.name for path in programs if path.name == "__init__.py"}
        for path in programs:
            tree, groups = ast.parse((source_tree.TOP / path).read_text()), groups_of(path)
            with self.subTest(path=path):
                self.check(set(imports(tree)) - set(sys.stdlib_module_names) - ours, provided("py", groups), path)
                self.check(set(commands(tree)) - COMMANDS, provided("cmd", groups), path)

    def test_the_python_of_every_part_is_in_the_table(self):
        text = (source_tree.TOP / "tests/CMakeLists.txt").read_text()
        pythons = re.findall(r"set\(HANDOFF_PYTHON (\S+)", text)
        self.assertTrue(pythons)
        groups = {groups_of(path)[1] for path in source_tree.files() if path.suffix == ".py"}
        self.assertEqual(groups, {"demo", "proof", "test"})
        for group in groups:
            self.check(pythons, provided("file", (group,)), f"runs what belongs to {group}")

    def test_the_certificates_that_the_tls_library_trusts_are_in_the_table(self):
        library = subprocess.check_output(["pkg-config", "--variable=libdir", "gnutls"], text=True).strip()
        trusted = re.findall(rb"/etc/ssl/certs/[\w.-]+\.crt", pathlib.Path(library, "libgnutls.so").read_bytes())
        self.assertTrue(trusted)
        self.check({name.decode() for name in trusted}, provided("file", ("run",)), "the default of GnuTLS")

    def test_the_run_time_of_the_sanitizers_is_in_the_table(self):
        library = subprocess.check_output(["clang", "-print-file-name=libclang_rt.fuzzer-x86_64.a"], text=True).strip()
        owner = subprocess.run(["dpkg-query", "-S", os.path.realpath(library)], capture_output=True, text=True,
                               check=False).stdout.split(":")[0]
        if not owner:
            self.skipTest("clang did not come as a package of Debian")
        self.check({re.sub(r"-\d+(?=-dev$)", "", owner)}, provided("deb", ("test",)), "clang links it")

    def test_what_is_used_is_found(self):
        tree = ast.parse("import os, yaml\nfrom a.b import c\nP = 'sh'\nrun([P, 'x'])\nrun(['env'])\nrun(['no-such'])\n"
                         "run([shutil.which('true') or 'false'])")
        self.assertEqual(set(imports(tree)), {"os", "yaml", "a"})
        self.assertEqual(set(commands(tree)), {"sh", "env", "true"})


if __name__ == "__main__":
    unittest.main()
