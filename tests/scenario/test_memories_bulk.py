# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""All memories as JSON lines: exported, imported, interrupted, and moved between an embedded and a remote spine."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from harness.agents import Caller, daemon_with
from harness.chain import pullers
from harness.wait import eventually

CTL = os.environ["HANDOFFCTL"]
MANY = 3000
KEPT = ("id", "content", "summary", "importance", "tags", "metadata", "pinned", "agent", "scope", "task_id", "created_at")


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file = self.folder / "memories.jsonl"

    def sidecar(self, **spine):
        return self.enterContext(daemon_with(pullers("analyst"), spine={"search_timeout": "10s", **spine}))

    def ctl(self, daemon, command, *arguments, file=None):
        return subprocess.run([CTL, "memories", command, file or self.file, "--api.url", f"http://{daemon.api.address}", *arguments],
                              capture_output=True, text=True, timeout=120, check=False)

    def fill(self, daemon):
        caller = Caller(daemon)
        for name, memory in {
                "plain-1": {"content": "plain"},
                "whole-1": {"content": "line\nline \u2028 \U0001f600", "summary": "short", "importance": "critical",
                            "tags": ["a", "b"], "metadata": {"n": 12345678901234567890, "d": [1.5, None]}, "pinned": True,
                            "agent": "analyst", "scope": "user:alice", "task_id": "task-1"},
                "last-1": {"content": "stored last"}}.items():
            reply = caller.call("PUT", f"/v1/memories/{name}", memory)
            self.assertEqual(reply.status, 201, reply)

    def listed(self, daemon):
        items, cursor = [], ""
        while cursor is not None:
            page = Caller(daemon).call("GET", f"/v1/memories?limit=1000&cursor={cursor}" if cursor else "/v1/memories?limit=1000")
            self.assertEqual(page.status, 200, page)
            items += [{key: memory.get(key) for key in KEPT} for memory in page.json()["items"]]
            cursor = page.json()["next"]
        return items

    def known(self, daemon):
        return {memory["id"]: memory for memory in self.listed(daemon)}

    def many(self, count=MANY):
        self.file.write_text("".join(json.dumps({"id": f"ms-{i:07}", "content": f"fact {i}"}) + "\n" for i in range(count)))

    def check(self, done, code=0):
        self.assertEqual(done.returncode, code, done)
        self.assertEqual(done.stdout, "")
        return done.stderr


class RoundTrip(Case):
    def test_everything_comes_back(self):
        one, other = self.sidecar(), self.sidecar()
        self.fill(one)
        self.assertEqual(self.check(self.ctl(one, "export")), "exported 3 memories\n")
        self.assertEqual([json.loads(text)["id"] for text in self.file.read_text(encoding="utf-8").rstrip("\n").split("\n")],
                         ["last-1", "whole-1", "plain-1"])
        self.assertEqual(self.check(self.ctl(other, "import")), "imported 3 memories\n")
        self.assertEqual(self.known(other), self.known(one))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["memories.jsonl"])

    def test_many_and_again(self):
        daemon = self.sidecar()
        self.many()
        self.assertEqual(self.check(self.ctl(daemon, "import")), f"imported {MANY} memories\n")
        self.assertEqual(self.check(self.ctl(daemon, "import")), f"imported {MANY} memories\n")
        exported = self.folder / "again.jsonl"
        self.check(self.ctl(daemon, "export", file=exported))
        names = [json.loads(text)["id"] for text in exported.read_text(encoding="utf-8").rstrip("\n").split("\n")]
        self.assertEqual(sorted(names), [f"ms-{i:07}" for i in range(MANY)])
        # the first of the file was stored last, but for those that were on their way at the same time
        self.assertTrue(all(abs(int(name[3:]) - place) < 200 for place, name in enumerate(names)), names[:40])

    def test_an_empty_file_and_an_empty_sidecar(self):
        daemon = self.sidecar()
        self.file.write_text("")
        self.assertEqual(self.check(self.ctl(daemon, "import")), "imported 0 memories\n")
        self.file.unlink()
        self.assertEqual(self.check(self.ctl(daemon, "export")), "exported 0 memories\n")
        self.assertEqual(self.file.read_text(), "")

    def test_export_to_stdout(self):
        daemon = self.sidecar()
        self.fill(daemon)
        done = self.ctl(daemon, "export", file="-")
        self.assertEqual(([json.loads(text)["id"] for text in done.stdout.rstrip("\n").split("\n")], done.stderr),
                         (["last-1", "whole-1", "plain-1"], ""))


class Refused(Case):
    def test_lines_that_are_no_memories_are_named_and_the_others_stored(self):
        daemon = self.sidecar()
        self.file.write_text('{"id": "good-1", "content": "x"}\nnonsense\n{"id": "bad/1", "content": "x"}\n{"id": "good-2", "content": "x"}')
        told = self.check(self.ctl(daemon, "import"), 1)
        self.assertIn("byte 33: not a memory", told)
        self.assertIn("byte 42: ", told)
        self.assertIn("imported 2 memories; 2 lines were refused", told)
        self.assertEqual(sorted(self.known(daemon)), ["good-1", "good-2"])

    def test_a_file_that_exists_is_not_overwritten(self):
        daemon = self.sidecar()
        self.file.write_text("precious")
        self.assertIn("exists already", self.check(self.ctl(daemon, "export"), 1))
        self.assertEqual(self.file.read_text(), "precious")

    def test_a_file_that_is_not_there(self):
        self.assertIn("No such file", self.check(self.ctl(self.sidecar(), "import"), 1))


class Interrupted(Case):
    def begin(self, daemon, command):
        return subprocess.Popen([CTL, "memories", command, self.file, "--api.url", f"http://{daemon.api.address}"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_an_import_goes_on_where_it_was_killed(self):
        daemon = self.sidecar()
        self.many(30_000)
        position = self.folder / "memories.jsonl.position"
        process = self.begin(daemon, "import")
        eventually(lambda: position.exists() and int(position.read_text().split("\n")[2]) < self.file.stat().st_size, "it notes how far it is")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        at = int(position.read_text().split("\n")[2])
        self.assertLess(at, self.file.stat().st_size)
        told = self.check(self.ctl(daemon, "import"))
        self.assertIn("continuing where the last import ended", told)
        self.assertEqual(len(self.listed(daemon)), 30_000)
        self.assertFalse(position.exists())

    def test_another_file_is_begun_at_its_end(self):
        daemon = self.sidecar()
        self.many(10)
        (self.folder / "memories.jsonl.position").write_text(f"http://{daemon.api.address}\n1 1\n5\n")
        self.assertEqual(self.check(self.ctl(daemon, "import")), "imported 10 memories\n")

    def test_an_export_goes_on_where_it_was_interrupted(self):
        daemon = self.sidecar()
        self.many(2500)
        self.check(self.ctl(daemon, "import"))
        whole = self.folder / "whole.jsonl"
        self.check(self.ctl(daemon, "export", file=whole))
        lines = whole.read_bytes().splitlines(keepends=True)
        page = Caller(daemon).call("GET", "/v1/memories?limit=1000").json()
        self.file.unlink()
        half = b"".join(lines[:len(page["items"])])
        (self.folder / "memories.jsonl.part").write_bytes(half + b'{"id": "torn')
        (self.folder / "memories.jsonl.part.position").write_text(
            f"http://{daemon.api.address}\nexport\n{len(half)} {len(page['items'])} {page['next']}\n")
        self.assertEqual(self.check(self.ctl(daemon, "export")), "exported 2500 memories\n")
        self.assertEqual(self.file.read_bytes(), whole.read_bytes())


class Moving(Case):
    def test_from_an_embedded_spine_to_a_remote_one_and_back(self):
        """As docs/spines.md says."""
        embedded, remote, back = self.sidecar(), self.sidecar(), self.sidecar()
        self.fill(embedded)
        self.check(self.ctl(embedded, "export"))
        moved = self.sidecar(kind="http", url=f"http://{remote.api.address}", timeout="10s")
        self.assertEqual(self.check(self.ctl(moved, "import")), "imported 3 memories\n")
        self.assertEqual(self.known(remote), self.known(embedded))
        returned = self.folder / "returned.jsonl"
        self.check(self.ctl(remote, "export", file=returned))
        self.check(self.ctl(back, "import", file=returned))
        self.assertEqual(self.known(back), self.known(embedded))


if __name__ == "__main__":
    unittest.main()
