# SPDX-License-Identifier: Apache-2.0
"""A store that a program writes into until it is killed (tests/scenario/store_writer.c)."""

import os
import select
import subprocess
import time

PROGRAM = os.path.join(os.environ["HANDOFF_BINARY_DIR"], "tests", "store_writer")

# Memory where there is: kill -9 loses nothing that the kernel has, so the disk adds only time.
FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Writer:
    """One run; `lines` are what it acknowledged."""

    def __init__(self, directory, seed):
        self.process = subprocess.Popen([PROGRAM, "write", directory, str(seed)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.output = b""

    def read(self, seconds, enough=lambda output: False):
        """Takes what it says for so long, or until it is enough, or it ends."""
        deadline = time.monotonic() + seconds
        while not enough(self.output):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                return
            self.output += chunk

    def kill(self):
        """Kills it and answers what it said: (opened, lines). It must not have ended by itself."""
        self.process.kill()
        rest, complaint = self.process.communicate()
        if self.process.returncode != -9:
            raise AssertionError(f"the writer ended by itself: {complaint.decode()}")
        said = (self.output + rest).decode().splitlines()
        return bool(said), said[1:]


def check(directory, lines):
    """Every acknowledged write must be there; AssertionError tells which is not."""
    done = subprocess.run([PROGRAM, "check", directory], input="".join(f"{x}\n" for x in lines),
                          capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or done.stdout.strip() != str(len(lines)):
        raise AssertionError(f"{done.stdout} of {len(lines)}: {done.stderr}")
