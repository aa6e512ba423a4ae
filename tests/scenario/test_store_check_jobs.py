# SPDX-License-Identifier: Apache-2.0
"""handoffctl store check compares the results of bulk jobs with the decisions that are on record."""

import os
import sqlite3
import subprocess
import unittest

from harness.agents import Caller, daemon_with
from harness.wait import eventually


class Checked(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(daemon_with({"puller": {}}))
        caller = Caller(self.daemon)
        for _ in range(4):
            caller.call("POST", "/v1/parked", {"reason": "down", "request": {
                "source_agent": "analyst", "target_agent": "puller", "task_summary": "x"}})
        # what is older than the oldest decision may have been removed by retention, and is not compared
        first = caller.parked()["items"][0]["id"]
        caller.call("DELETE", f"/v1/parked/{first}?reason=alone")
        job = caller.call("POST", "/v1/jobs", {"action": "discard", "reason": "stale", "rate": 1000}).json()["id"]
        eventually(lambda: caller.call("GET", f"/v1/jobs/{job}").json()["succeeded"] == 3, "all are decided")

    def check(self):
        done = subprocess.run([os.environ["HANDOFFCTL"], "store", "check", str(self.daemon.folder / "data")], capture_output=True,
                              text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def sql(self, text):
        with sqlite3.connect(self.daemon.folder / "data" / "handoff.db") as database:
            self.assertEqual(database.execute(text).rowcount, 1)

    def test_a_sound_store(self):
        self.assertEqual(self.check()[0], 0, self.check())

    def test_a_result_that_differs_from_its_decision(self):
        self.sql("UPDATE job_items SET fate = 2 WHERE handoff = (SELECT max(handoff) FROM job_items)")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("the results of a bulk job do not match its decisions", said)

    def test_a_decision_that_was_deleted(self):
        self.sql("DELETE FROM decisions WHERE number = (SELECT max(number) FROM decisions)")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("the results of a bulk job do not match its decisions", said)

    def test_a_result_of_no_job(self):
        self.sql("DELETE FROM jobs")
        self.assertIn("a result belongs to no bulk job", self.check()[1])


if __name__ == "__main__":
    unittest.main()
