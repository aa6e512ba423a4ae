# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""SIGKILL among thousands of puts and removals of memories: what was answered is found by the search index, and
what was removed is not, whatever the index was doing.
"""
import os
import random
import subprocess
import tempfile
import unittest

from harness.store import FOLDER

WRITER = os.path.join(os.environ["HANDOFF_BINARY_DIR"], "tests", "memory_writer")
HANDOFFCTL = os.environ["HANDOFFCTL"]
CALLS = 10000 if os.environ.get("HANDOFF_VARIANT") == "release" else 3000
KILLS = 4


class MemoryKill(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=FOLDER)
        self.addCleanup(folder.cleanup)
        self.store = os.path.join(folder.name, "store")
        self.answered = {}  # id -> number; 0: removed
        self.asked = None   # the call that was on its way
        self.numbers = 0

    def write(self, seed, calls):
        with subprocess.Popen([WRITER, "write", self.store, str(seed), str(self.numbers + 1)],
                              stdout=subprocess.PIPE, text=True) as writer:
            for _ in range(2 * calls):
                self.read(writer.stdout.readline())
            writer.kill()
            for line in writer.stdout:
                self.read(line)
        self.numbers += calls * 2

    def read(self, line):
        mark, name, number = line.split()
        self.asked = (name, int(number))
        self.numbers = max(self.numbers, int(number))
        if mark == "!":
            self.answered[name] = int(number)
            self.asked = None

    def check(self):
        """Of the call that was on its way, the memory is as before it or as after it."""
        lines = [f"{name} {number} {number}\n" for name, number in self.answered.items()]
        if self.asked:
            name, number = self.asked
            before = self.answered.get(name, 0)
            lines = [line for line in lines if line.split()[0] != name]
            lines.append(f"{name} {before} {number}\n")
        done = subprocess.run([WRITER, "check", self.store], input="".join(lines), text=True,
                              capture_output=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def settle_asked(self):
        """Either way is right, so its id is left out from now on."""
        if self.asked:
            self.answered.pop(self.asked[0], None)
            self.asked = None

    def test_what_was_answered_is_found_and_what_was_removed_is_not(self):
        seed = int(os.environ.get("HANDOFF_SEED", random.SystemRandom().randrange(1 << 30)))
        for _ in range(KILLS):
            with self.subTest(seed=seed):
                self.write(seed, CALLS // KILLS)
                self.check()
                self.settle_asked()
                done = subprocess.run([HANDOFFCTL, "store", "check", self.store], text=True,
                                      capture_output=True, timeout=120)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            seed += 1


if __name__ == "__main__":
    unittest.main()
