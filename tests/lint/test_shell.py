# SPDX-License-Identifier: Apache-2.0
"""Shell scripts parse, and shellcheck has nothing to say."""

import unittest

import source_tree


def scripts():
    return [path for path in source_tree.files()
            if path.suffix == ".sh" or source_tree.shebang(path).endswith(("/sh", "bash"))]


class Shell(unittest.TestCase):
    def test_scripts_parse(self):
        self.assertGreaterEqual(len(scripts()), 4)
        for script in scripts():
            status, output = source_tree.run(["bash", "-n", script], cwd=source_tree.TOP)
            self.assertEqual(status, 0, output)

    def test_shellcheck_is_silent(self):
        status, output = source_tree.run(["shellcheck", "-x", *scripts()], cwd=source_tree.TOP)
        self.assertEqual(status, 0, output)


if __name__ == "__main__":
    unittest.main()
