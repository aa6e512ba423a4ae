# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""handoffctl tokens: numbers, encodings, and what it says when something is missing."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

HANDOFFCTL = os.environ["HANDOFFCTL"]
HELLO = "hello world"  # two tokens in both encodings


def tokens(*arguments, text=None, vocabularies=None):
    environment = dict(os.environ)
    if vocabularies is not None:
        environment["HANDOFF_VOCABULARY_DIR"] = str(vocabularies)
    done = subprocess.run([HANDOFFCTL, "tokens", *arguments], input=text, capture_output=True,
                          env=environment, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class CtlTokens(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "text"
        self.file.write_text(HELLO)

    def test_number(self):
        self.assertEqual(tokens(str(self.file)), (0, "2\n", ""))

    def test_json(self):
        status, output, _ = tokens("--json", str(self.file))
        self.assertEqual((status, json.loads(output)), (0, {"tokens": 2, "encoding": "o200k_base"}))

    def test_encoding(self):
        for encoding in ("o200k_base", "cl100k_base"):
            status, output, _ = tokens("--encoding", encoding, "--json", str(self.file))
            self.assertEqual((status, json.loads(output)), (0, {"tokens": 2, "encoding": encoding}))

    def test_encodings_differ(self):
        text = "お誕生日おめでとう".encode()  # OpenAI's own example
        self.assertEqual(tokens("--encoding=o200k_base", "-", text=text)[1], "8\n")
        self.assertEqual(tokens("--encoding=cl100k_base", "-", text=text)[1], "9\n")

    def test_stdin(self):
        self.assertEqual(tokens("-", text=b""), (0, "0\n", ""))
        self.assertEqual(tokens("-", text=b"word " * 100000)[1], "100001\n")
        self.assertEqual(tokens("-", text=b"\xff")[1], tokens("-", text="\ufffd".encode())[1])

    def test_in_a_build_tree_they_are_found_beside_the_program(self):
        unset = {name: value for name, value in os.environ.items() if name != "HANDOFF_VOCABULARY_DIR"}
        done = subprocess.run([HANDOFFCTL, "tokens", str(self.file)], capture_output=True, env=unset,
                              cwd=self.folder, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"2\n", b""))

    def test_estimate_where_no_vocabulary_is(self):
        status, output, said = tokens("--json", str(self.file), vocabularies=self.folder)
        answer = json.loads(output)
        self.assertEqual((status, answer["encoding"]), (0, "estimate"))
        self.assertGreaterEqual(answer["tokens"], 2)
        self.assertIn("estimating, because cannot open the vocabulary", said)
        self.assertIn(f"{self.folder}", said)

    def test_estimate_on_request_is_silent(self):
        status, _, said = tokens("--encoding", "estimate", str(self.file), vocabularies=self.folder)
        self.assertEqual((status, said), (0, ""))

    def test_named_vocabulary_missing(self):
        status, output, said = tokens("--encoding", "cl100k_base", str(self.file), vocabularies=self.folder)
        self.assertEqual((status, output), (1, ""))
        self.assertIn("No such file or directory", said)

    def test_damaged_vocabulary(self):
        (self.folder / "o200k_base.vocabulary").write_bytes(b"HANDOFFV" + b"\0" * 500)
        status, _, said = tokens("--encoding", "o200k_base", str(self.file), vocabularies=self.folder)
        self.assertEqual(status, 1)
        self.assertIn("byte order", said)

    def test_file_missing(self):
        status, output, said = tokens(str(self.folder / "none"))
        self.assertEqual((status, output), (1, ""))
        self.assertIn("No such file or directory", said)

    def test_wrong_usage(self):
        for arguments, why in (((), "missing FILE"), (("a", "b"), 'unexpected argument "b"'),
                               (("--encoding",), "--encoding needs a value: --encoding NAME"), (("--nope", "a"), "unknown option")):
            status, output, said = tokens(*arguments)
            self.assertEqual((status, output), (2, ""))
            self.assertIn(why, said)

    def test_unknown_encoding(self):
        status, _, said = tokens("--encoding", "p50k_base", str(self.file))
        self.assertEqual(status, 1)
        self.assertIn("o200k_base, cl100k_base, estimate", said)

    def test_help_has_examples(self):
        status, output, _ = tokens("--help")
        self.assertEqual(status, 0)
        self.assertIn("Examples:", output)


if __name__ == "__main__":
    unittest.main()
