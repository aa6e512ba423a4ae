# SPDX-License-Identifier: Apache-2.0
# soak: yes
"""kill -9 at random moments under write load: nothing acknowledged is lost, the store always opens.

HANDOFF_KILLS sets how many (200), HANDOFF_SEED repeats a run.
"""
import os
import random
import subprocess
import tempfile
import time
import unittest

from harness.store import FOLDER, Writer, check

KILLS = int(os.environ.get("HANDOFF_KILLS", "200"))
ROUNDS_PER_STORE = 40  # then a new one, so that making a store is interrupted too
HANDOFFCTL = os.environ["HANDOFFCTL"]


class Kill(unittest.TestCase):
    def one_round(self, directory, chance):
        """Starts, kills, and answers what was acknowledged; half of the kills hit the start."""
        writer = Writer(directory, chance.randrange(1 << 30))
        if chance.random() < 0.5:
            writer.read(chance.uniform(0, 0.03))
        else:
            writer.read(20, lambda said: b"\n" in said)
            writer.read(chance.uniform(0, 0.12))
        return writer.kill()

    def assert_sound(self, directory):
        done = subprocess.run([HANDOFFCTL, "store", "check", directory], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def rounds_on_one_store(self, count, chance):
        opened = acknowledged = 0
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            directory = os.path.join(folder, "store")
            everything = []
            for _ in range(count):
                was_open, lines = self.one_round(directory, chance)
                check(directory, lines)
                opened += was_open
                acknowledged += len(lines)
                everything += lines
            check(directory, everything)
            self.assert_sound(directory)
        return opened, acknowledged

    def test_nothing_acknowledged_is_lost(self):
        seed = int(os.environ.get("HANDOFF_SEED", time.time_ns() % 1000000))
        chance = random.Random(seed)
        opened = acknowledged = killed = 0
        with self.subTest(HANDOFF_SEED=seed):
            while killed < KILLS:
                count = min(ROUNDS_PER_STORE, KILLS - killed)
                some = self.rounds_on_one_store(count, chance)
                opened, acknowledged = opened + some[0], acknowledged + some[1]
                killed += count
            # the load was real: most runs got to writing, and they wrote much
            self.assertGreater(opened, KILLS * 0.4)
            self.assertGreater(acknowledged, KILLS * 10)


if __name__ == "__main__":
    unittest.main()
