# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone; the public ones also as strict C11 and as C++."""

import pathlib
import tempfile
import unittest

import source_tree

PUBLIC = (*source_tree.PUBLIC_HEADERS, *source_tree.PROM_HEADERS)
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]


def compiles(command, header):
    """None, or what the compiler says about a source that includes only this header."""
    with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
        # twice: the include guard is part of compiling alone
        source.write(f'#include "{header}"\n#include "{header}"\nint main(void);\n')
        source.flush()
        status, output = source_tree.run([*command, *WARNINGS, source.name])
    return None if status == 0 else output


class Headers(unittest.TestCase):
    def check(self, command, headers):
        command = [*command, f"-I{source_tree.TOP}", *source_tree.include_flags(),
                   f"-I{source_tree.TOP}/lib/prom", f"-I{source_tree.TOP}/lib/promhttp"]
        for header in headers:
            with self.subTest(header=str(header)):
                complaint = compiles(command, source_tree.TOP / header)
                self.assertIsNone(complaint, complaint)

    def test_each_header_compiles_alone(self):
        headers = source_tree.c_files(".h")
        self.assertIn(pathlib.Path(PUBLIC[0]), headers)
        self.check(["cc", "-std=c11", "-D_GNU_SOURCE"], headers)

    def test_public_headers_are_strict_c11(self):
        self.check(["cc", "-std=c11", "-pedantic"], PUBLIC)

    def test_public_headers_are_cplusplus(self):
        self.check(["g++", "-x", "c++", "-std=c++17"], PUBLIC)


class SelfTest(unittest.TestCase):
    def test_a_header_that_needs_another_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".h") as header:
            header.write("size_t f(void);\n")
            header.flush()
            self.assertIn("size_t", compiles(["cc", "-std=c11"], header.name) or "")


if __name__ == "__main__":
    unittest.main()
