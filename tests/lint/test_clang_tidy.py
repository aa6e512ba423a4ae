# SPDX-License-Identifier: Apache-2.0
"""clang-tidy is clean; .clang-tidy names the checks and why some are left out.

A file that was clean is not looked at again until it, a header it includes, the checks or the
version of clang-tidy change: the key is a hash over the preprocessed source with its comments,
wherever the project is. What was clean is remembered beside what the scripts fetched, for every
clone of this user.
"""

import concurrent.futures
import hashlib
import os
import pathlib
import subprocess
import time
import unittest

import source_tree

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache",
                     "handoff-exporter/clang-tidy")
KEPT_S = 30 * 86400


def key(source, arguments, salt):
    """Names everything that the verdict on this source depends on."""
    text = subprocess.run(["cc", *arguments, "-E", "-CC", str(source)], capture_output=True,
                          check=True).stdout
    seen = " ".join(arguments).encode() + text
    return hashlib.sha256(salt + seen.replace(bytes(source_tree.TOP), b"")).hexdigest()


def forget_old():
    """Drops the markers that no run has asked for in a month."""
    for marker in CACHE.iterdir():
        if marker.stat().st_mtime < time.time() - KEPT_S:
            marker.unlink(missing_ok=True)


def complaints(source, arguments, salt):
    """What clang-tidy says about one source; empty when it is clean."""
    marker = CACHE / key(source, arguments, salt)
    if marker.exists():
        marker.touch()
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
        CACHE.mkdir(parents=True, exist_ok=True)
        forget_old()
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
        source = source_tree.BUILD / "fault.c"
        source.write_text("#include <stdlib.h>\n"
                          "int main(void) { char *p = malloc(1); free(p); free(p); return 0; }\n")
        self.assertIn("clang-analyzer-unix.Malloc", complaints(source, ["-std=c11"], self.salt))


if __name__ == "__main__":
    unittest.main()
