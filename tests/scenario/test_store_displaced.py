# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""The store is deleted, moved or replaced while the daemon runs.

What is told durable must be in the store that the next start opens. So the daemon compares the files
that it has open with those on the path, with every commit and while it is idle; where they differ it
takes nothing more, says why everywhere, and stays so until it is started again.
"""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import Daemon, Receiver, eventually
from harness.agents import Caller, config, daemon_with
from harness.receiver import Hold, ack, status
from harness.wait import TIMEOUT

ADVICE = "stop the daemon"


class OneStore(unittest.TestCase):
    """A sidecar with a handoff that waits in its store."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store = self.folder / "data"
        self.coder = self.enterContext(Receiver(ack))
        agents = {"coder": {"url": self.coder.url}, "puller": {}}
        self.daemon = self.enterContext(Daemon("--shutdown.timeout=200ms", config=config(agents),
                                               folder=self.folder))
        self.caller = Caller(self.daemon)
        self.waiting = self.caller.send_async("puller")

    def metric(self, name):
        text = self.daemon.web.get("/metrics").body.decode()
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))

    def is_noticed(self, name):
        """By the daemon itself, and everywhere."""
        eventually(lambda: self.daemon.web.get("/-/ready").status == 503, "it is not ready")
        ready = self.daemon.web.get("/-/ready").body.decode()
        self.assertIn(f"{self.store}/{name} ", ready)
        self.assertIn(ADVICE, ready)
        line = self.daemon.wait_for_event("store_displaced")
        self.assertEqual((line["level"], line["path"]), ("error", f"{self.store}/{name}"))
        self.assertIn(ADVICE, line["advice"])
        self.assertEqual(self.metric("handoff_store_displaced"), 1)
        self.assertEqual(self.daemon.web.get("/-/healthy").status, 200)
        shown = self.daemon.web.get("/?format=json").json()
        self.assertEqual(shown["standing"], "trouble")
        self.assertIn(f"{self.store}/{name}", "".join(finding["text"] for finding in shown["findings"]))
        self.assertEqual(len(self.daemon.events("store_displaced")), 1)

    def takes_nothing(self):
        for reply in (self.caller.send(headers={"prefer": "respond-async"}), self.caller.send(),
                      self.caller.call("PUT", "/v1/memories/ms-1", {"content": "x"}),
                      self.caller.call("GET", "/v1/memories/ms-1")):
            self.assertEqual((reply.status, reply.json()["code"]), (503, "store_displaced"), reply)
            self.assertIn(ADVICE, reply.json()["detail"])

    def restart(self):
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(), 0, self.daemon.log())
        self.daemon.log_path.unlink()
        self.daemon.start()

    def still_has(self, *handoffs):
        for handoff in handoffs:
            self.assertEqual(self.caller.state(handoff)["state"], "ready")
        self.assertEqual(self.caller.send().status, 200)


class TheStoreDeletedUnderneath(OneStore):
    def test_not_one_handoff_is_accepted_after_it(self):
        """Though nothing has looked at the store since."""
        self.assertEqual(self.metric("handoff_store_displaced"), 0)
        shutil.rmtree(self.store)
        self.takes_nothing()
        self.is_noticed("handoff.db")
        self.assertFalse(self.store.exists())  # and nothing is made there again
        self.assertEqual(self.coder.requests, [])

    def test_an_idle_daemon_notices_it_by_itself(self):
        shutil.rmtree(self.store)
        self.is_noticed("handoff.db")

    def test_one_file_of_it_is_enough(self):
        for name in ("handoff.db", "handoff.db-shm"):
            with self.subTest(name):
                (self.store / name).unlink()
                self.is_noticed(name)
                self.takes_nothing()
                shutil.rmtree(self.store)
                self.restart()
                self.waiting = self.caller.send_async("puller")

    def test_the_write_ahead_log_deleted(self):
        """A stop still saves what was told durable: it copies the open file into the database."""
        later = self.caller.send_async("puller")
        (self.store / "handoff.db-wal").unlink()
        self.takes_nothing()
        self.is_noticed("handoff.db-wal")
        self.restart()
        self.still_has(self.waiting, later)

    def test_the_database_replaced_by_a_copy(self):
        copy = self.store / "copy"
        shutil.copy(self.store / "handoff.db", copy)
        copy.rename(self.store / "handoff.db")
        self.takes_nothing()
        self.is_noticed("handoff.db")

    def test_moved_away_and_back_it_stays_so_until_the_next_start(self):
        """In between another process may have begun a store on the path: two truths."""
        away = self.folder / "away"
        self.store.rename(away)
        self.is_noticed("handoff.db")
        away.rename(self.store)
        self.takes_nothing()
        self.restart()
        self.still_has(self.waiting)

    def test_replaced_by_a_store_in_use_it_leaves_that_one_alone(self):
        """Our end would delete the WAL of the other, by its name."""
        ours = self.folder / "ours"
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(), 0)
        self.daemon.log_path.unlink()
        self.store.rename(ours)
        self.store.symlink_to(ours)
        self.daemon.start()
        other = self.enterContext(daemon_with({"puller": {}}))
        handoff = Caller(other).send_async("puller")
        self.store.unlink()
        self.store.symlink_to(other.folder / "data")
        self.takes_nothing()
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(), 0, self.daemon.log())
        other.kill()
        other.log_path.unlink()
        other.start()
        other.expected_exit = 0
        self.assertEqual(Caller(other).state(handoff)["state"], "ready")

    def test_what_is_in_flight_is_delivered_nonetheless(self):
        """It may be the only copy that is left."""
        held = Hold(status(503))
        self.coder.do(held, ack)
        self.caller.send_async("coder")
        self.coder.wait_for(1)
        shutil.rmtree(self.store)
        self.is_noticed("handoff.db")
        held.release()
        self.coder.wait_for(2)


class LockDeleted(OneStore):
    def second_start_fails(self):
        """The directory is locked as well as the file."""
        done = subprocess.run(self.daemon.command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, env=self.daemon.env, cwd=self.folder, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("another process is using this store", done.stderr)

    def test_a_second_process_is_kept_out_and_the_first_takes_nothing_more(self):
        """A sidecar of an earlier version would look at the file alone."""
        (self.store / "lock").unlink()
        self.second_start_fails()
        self.is_noticed("lock")
        self.takes_nothing()
        self.assertFalse((self.store / "lock").exists())
        self.restart()
        self.still_has(self.waiting)

    def test_replaced_by_another_file(self):
        (self.store / "new").touch()
        (self.store / "new").rename(self.store / "lock")
        self.second_start_fails()
        self.is_noticed("lock")

    def test_a_kill_leaves_nothing_locked(self):
        self.daemon.kill()
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.daemon.expected_exit = 0
        self.still_has(self.waiting)


if __name__ == "__main__":
    unittest.main()
