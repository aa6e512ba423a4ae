# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""handoffctl store check and backup, beside a program that keeps writing."""
import os
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

from harness.store import FOLDER, Writer, check

HANDOFFCTL = os.environ["HANDOFFCTL"]


def store(*arguments):
    done = subprocess.run([HANDOFFCTL, "store", *arguments], capture_output=True, text=True,
                          timeout=60)
    return done.returncode, done.stdout, done.stderr


class CtlStore(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=FOLDER)
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.store = os.path.join(folder.name, "store")
        self.copy = os.path.join(folder.name, "copy.db")

    def write(self, enough=300):
        """A killed writer's acknowledged lines."""
        writer = Writer(self.store, 1)
        writer.read(30, lambda said: said.count(b"\n") > enough)
        return writer.kill()[1]

    def sql(self, text):
        database = sqlite3.connect(os.path.join(self.store, "handoff.db"), isolation_level=None)
        database.execute(text)
        database.close()

    def test_a_sound_store(self):
        lines = self.write()
        status, said, complaint = store("check", self.store)
        self.assertEqual((status, complaint), (0, ""))
        self.assertTrue(said.endswith("bytes: sound\n"), said)
        envelopes = int(said.split(" envelopes")[0].split()[-1])
        self.assertGreaterEqual(envelopes, sum(line.startswith("e") for line in lines))

    def test_a_changed_byte_is_found(self):
        self.write()
        # the first that is in its row; a text there names a place in a file of bodies
        self.sql("UPDATE envelopes SET body = CAST(substr(body, 1, 9) || 'X' || substr(body, 11) AS BLOB)"
                 " WHERE seq = (SELECT min(seq) FROM envelopes WHERE typeof(body) = 'blob')")
        status, said, complaint = store("check", os.path.join(self.store, "handoff.db"))
        self.assertEqual(status, 1)
        self.assertIn("1 problems", said)
        self.assertRegex(complaint, "does not match its digest: [0-9a-f-]{36}")

    def test_reindex(self):
        self.write()
        status, said, complaint = store("reindex", self.store)
        self.assertEqual((status, said, complaint), (0, f"{self.store}: search index rebuilt\n", ""))
        files = [name for name in os.listdir(self.store) if "-search-" in name]
        self.assertEqual(len(files), 1)
        self.assertEqual(store("check", self.store)[0], 0)
        with open(os.path.join(self.store, files[0]), "r+b") as file:
            file.seek(os.path.getsize(file.name) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        status, _, complaint = store("check", self.store)
        self.assertEqual(status, 1)
        self.assertIn("a file of the search index is missing or damaged", complaint)
        self.assertEqual(store("reindex", self.store)[0], 0)
        self.assertEqual(store("check", self.store)[0], 0)

    def test_a_damaged_page_is_found(self):
        self.write()
        self.sql("PRAGMA wal_checkpoint(TRUNCATE)")
        with open(os.path.join(self.store, "handoff.db"), "r+b") as file:
            size = os.path.getsize(file.name)
            for at in range(40960, size - 4096, 40960):
                file.seek(at)
                file.write(b"\xa5" * 2000)
        status, _, complaint = store("check", self.store)
        self.assertEqual(status, 1)
        self.assertNotEqual(complaint, "")

    def test_backup_beside_a_writer(self):
        writer = Writer(self.store, 2)
        self.addCleanup(writer.process.kill)
        writer.read(30, lambda said: said.count(b"\n") > 300)
        before = writer.output.decode().splitlines()[1:]
        self.assertEqual(store("backup", self.store, self.copy),
                         (0, f"{self.copy}: written\n", ""))
        # it was not held up, and it did not notice
        written = writer.output.count(b"\n")
        writer.read(30, lambda said: said.count(b"\n") > written + 300)
        self.assertGreater(writer.output.count(b"\n"), written + 300)
        writer.kill()
        self.assertEqual(store("check", self.copy)[0], 0)
        self.assertEqual(sorted(os.listdir(self.folder)), ["copy.db", "store"])
        restored = os.path.join(self.folder, "restored")
        os.mkdir(restored)
        shutil.copy(self.copy, os.path.join(restored, "handoff.db"))
        check(restored, before)

    def test_backup_overwrites_nothing(self):
        self.write()
        with open(self.copy, "w", encoding="ascii") as file:
            file.write("precious")
        status, _, complaint = store("backup", self.store, self.copy)
        self.assertEqual(status, 1)
        self.assertIn("not be overwritten", complaint)
        with open(self.copy, encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")

    def test_backup_into_a_folder_that_is_not_there(self):
        self.write()
        status, _, complaint = store("backup", self.store, os.path.join(self.folder, "no", "copy"))
        self.assertEqual(status, 1)
        self.assertIn("cannot be written", complaint)

    def test_what_is_no_store(self):
        for call in (("check", self.store), ("backup", self.store, self.copy)):
            status, _, complaint = store(*call)
            self.assertEqual(status, 1)
            self.assertIn("no store found", complaint)
        text = os.path.join(self.folder, "text")
        with open(text, "w", encoding="ascii") as file:
            file.write("x" * 5000)
        self.assertIn("not a store", store("check", text)[2])
        sqlite3.connect(self.copy).execute("CREATE TABLE birds (name)")
        self.assertIn("another program", store("check", self.copy)[2])

    def test_usage(self):
        for call in ((), ("check",), ("backup", "a"), ("check", "a", "b"), ("mend", "a")):
            status, _, complaint = store(*call)
            self.assertEqual(status, 2)
            self.assertIn("handoffctl store", complaint)
        self.assertIn("Example:", store("check", "--help")[1])


if __name__ == "__main__":
    unittest.main()
