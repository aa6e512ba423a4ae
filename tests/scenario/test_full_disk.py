# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""The store's disk is full while handoffs come: what was accepted stays, also after a kill, and the sidecar takes new
ones again as soon as there is room, without a restart.

The disk is a small tmpfs in a mount namespace, half of it taken by a file that is deleted later.
"""

import collections
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

from harness import Daemon, eventually
from harness.agents import Caller, config

HANDOFFCTL = os.environ["HANDOFFCTL"]
DISK, BALLAST = 36 << 20, 24 << 20  # the log of 16 MiB fits into what the ballast gives back
NOTES = {"notes": "words that fill a disk " * 3000}
SENDERS = 4


class OwnDisk(unittest.TestCase):
    def setUp(self):
        if os.environ.get("HANDOFF_OWN_DISK") != "yes":
            self.skipTest("see OwnDiskIsMade")
        self.disk = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(self.disk)], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.disk)], check=False)
        self.ballast = self.disk / "ballast"
        self.ballast.write_bytes(b"x" * BALLAST)
        self.daemon = Daemon("--shutdown.timeout=200ms", config=config({"coder": {}}), start=False)
        self.daemon.command[1] = f"--storage.path={self.disk / 'data'}"
        self.enterContext(self.daemon.start())
        self.caller = Caller(self.daemon)
        self.accepted, self.acknowledged, self.memories = [], [], {}
        self.codes, self.numbers = collections.Counter(), itertools.count()

    # ---- the clients

    def note(self, reply, *good):
        self.codes[reply.json().get("code")] += reply.status not in good
        return reply.json() if reply.status in good else None

    def send(self):
        """True: it was accepted."""
        number = next(self.numbers)
        reply = self.caller.send("coder", {"prefer": "respond-async"}, task_id=f"task-{number}", state=NOTES)
        said = self.note(reply, 202)
        if said:
            self.accepted.append(said["id"])
        return said is not None

    def pull(self):
        pulled = self.caller.call("GET", "/v1/agents/coder/inbox")
        handoff = pulled.header("Handoff-Id")
        if handoff and self.note(self.caller.call("POST", f"/v1/handoffs/{handoff}/ack"), 200):
            self.acknowledged.append(handoff)

    def remember(self):
        name = f"memory-{next(self.numbers)}"
        if self.note(self.caller.call("PUT", f"/v1/memories/{name}", {"content": f"{name} is a fact"}), 200, 201):
            self.memories[name] = f"{name} is a fact"

    def work(self, stop):
        for number in itertools.count():
            if stop.is_set():
                return
            self.send()
            if number % 4 == 0:
                self.pull()
                self.remember()

    def fill(self):
        """Until some requests were refused for the disk."""
        stop, before = threading.Event(), self.codes["store_full"]
        senders = [threading.Thread(target=self.work, args=(stop,)) for _ in range(SENDERS)]
        for sender in senders:
            sender.start()
        try:
            eventually(lambda: self.codes["store_full"] > before + 20, "the disk is full", timeout=120)
        finally:
            stop.set()
            for sender in senders:
                sender.join()

    # ---- the books

    def check(self):
        self.assertEqual(set(self.codes) - {None, "conflict"}, {"store_full"})
        for handoff in self.accepted:
            state = self.caller.state(handoff)["state"]
            if handoff in self.acknowledged:
                self.assertEqual(state, "acknowledged")
        for name, content in self.memories.items():
            self.assertEqual(self.caller.call("GET", f"/v1/memories/{name}").json()["content"], content)

    def kill_and_start(self):
        self.daemon.kill()
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.daemon.expected_exit = 0

    def test_nothing_accepted_is_lost_and_it_comes_back_by_itself(self):
        self.fill()
        self.check()
        self.kill_and_start()
        self.check()
        self.fill()
        self.ballast.unlink()
        eventually(self.send, "there is room, and it takes handoffs again")
        self.check()
        self.kill_and_start()
        self.check()
        self.assertTrue(self.send())
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(), 0)
        done = subprocess.run([HANDOFFCTL, "store", "check", str(self.disk / "data")], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(json.dumps({"accepted": len(self.accepted), "acknowledged": len(self.acknowledged),
                          "memories": len(self.memories), "refused": self.codes["store_full"]}))


class OwnDiskIsMade(unittest.TestCase):
    """Runs the class above in a mount namespace."""

    def test_it(self):
        own = ["unshare", "--user", "--map-root-user", "--mount"]
        if subprocess.run([*own, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True,
                          check=False).returncode != 0:
            self.skipTest("this machine does not let us mount a disk in a namespace")
        done = subprocess.run([*own, sys.executable, __file__, "-v", "OwnDisk"], capture_output=True, text=True,
                              env={**os.environ, "HANDOFF_OWN_DISK": "yes"}, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("OK", done.stderr)
        self.assertNotIn("skipped", done.stderr)


if __name__ == "__main__":
    unittest.main()
