# SPDX-License-Identifier: Apache-2.0
"""clang-tidy is clean; .clang-tidy names the checks and why some are left out.

A file that was clean is not looked at again until it, a header it includes, the checks or the
version of clang-tidy change: the key is a hash over the preprocessed source with its comments,
kept in the build tree.
"""

import concurrent.futures
import hashlib
import os
import subprocess
import unittest

import source_tree

CACHE = source_tree.BUILD / "clang-tidy"


def key(source, arguments, salt):
    """Names everything that the verdict on this source depends on."""
    text = subprocess.run(["cc", *arguments, "-E", "-CC", str(source)], capture_output=True,
                          check=True).stdout
    return hashlib.sha256(salt + " ".join(arguments).encode() + text).hexdigest()


def complaints(source, arguments, salt):
    """What clang-tidy says about one source; empty when it is clean."""
    marker = CACHE / key(source, arguments, salt)
    if marker.exists():
        return ""
    status, output = source_tree.run(
        ["clang-tidy", "--quiet", "--warnings-as-errors=*", source, "--", *arguments],
        cwd=source_tree.TOP)
    if status == 0:
        marker.touch()
        return ""
    return output


def setUpModule():
    source_tree.require("clang-tidy")


class ClangTidy(unittest.TestCase):
    def setUp(self):
        CACHE.mkdir(exist_ok=True)
        version = source_tree.run(["clang-tidy", "--version"])[1]
        self.salt = version.encode() + (source_tree.TOP / ".clang-tidy").read_bytes()

    def test_sources_are_clean(self):
        rooms = tuple(str(source_tree.TOP / room) + "/" for room in source_tree.ROOMS)
        jobs = {source: arguments for source, arguments in source_tree.compile_commands().items()
                if str(source).startswith(rooms)}
        self.assertTrue(jobs)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(lambda job: complaints(*job, self.salt), jobs.items())
            text = "".join(found)
        self.assertTrue(text == "", text)

    def test_a_fault_is_found(self):
        source = CACHE / "fault.c"
        source.write_text("#include <stdlib.h>\n"
                          "int main(void) { char *p = malloc(1); free(p); free(p); return 0; }\n")
        self.assertIn("clang-analyzer-unix.Malloc", complaints(source, ["-std=c11"], self.salt))


if __name__ == "__main__":
    unittest.main()
