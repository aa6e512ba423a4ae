# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Token counts and ids against the npm packages tiktoken and js-tiktoken.

One process of the project and one of each oracle answer the same frames. tiktoken decides; js-tiktoken
must agree where the Unicode version of node's regular expressions does not matter. The random part
prints its seed; HANDOFF_TEST_SEED repeats a run, HANDOFF_TEST_TOKENS sets its length.
"""
import array
import base64
import heapq
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import unicodedata
import unittest

SOURCE = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
BINARY = pathlib.Path(os.environ["HANDOFF_BINARY_DIR"])
ORACLE = SOURCE / "tests/oracle"
ENCODINGS = ("o200k_base", "cl100k_base")
SLOW = os.environ.get("HANDOFF_VARIANT") != "release"


class Frames:
    """A process that answers framed text with token ids."""

    def __init__(self, command, head_words):
        self.head_words = head_words
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self, size):
        data = self.process.stdout.read(size)
        if len(data) != size:
            raise AssertionError(f"{self.process.args} ended with {self.process.wait()}")
        return data

    def encode(self, encoding, text):
        self.process.stdin.write(struct.pack("<II", encoding, len(text)) + text)
        self.process.stdin.flush()
        head = struct.unpack(f"<{self.head_words}I", self.read(4 * self.head_words))
        ids = array.array("I", self.read(4 * head[0]))
        return ids, head[-1]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(timeout=60)


PROSE = """The analyst's report isn't final; we'll review it, they've said, and I'm sure you'd agree.
IT'S DON'T WE'LL THEY'VE I'M YOU'D HE'S 'S 'T 'RE 'VE 'M 'LL 'D ’s ’t
it'\u017f don'\u017fail x'Sail y'Really z'Llama 'sail 'really 'llama ''s '''ll' 's's's
\u017f \u212a \u0130 \u0131 \u1e9e Stra\u00dfe \u01c5 \u01c8 \u01f2 \u01c4
camelCase PascalCase HTMLDocument getHTTPResponseCode XMLHttpRequest iPhone eBay snake_case
"""
CJK = """\u4eba\u5de5\u667a\u80fd\u4ee3\u7406\u4e4b\u95f4\u7684\u4ea4\u63a5\u5fc5\u987b\u53ef\u9760\u3002
\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3001\u30ab\u30bf\u30ab\u30ca\u3068\u3072\u3089\u304c\u306a\u3002\uff21\uff22\uff23\uff11\uff12\uff13\uff14
\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8\uc785\ub2c8\ub2e4. \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0939\u093f\u0928\u094d\u0926\u0940 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea \u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac
"""
EMOJI = """\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7 1\ufe0f\u20e3 \u2764\ufe0f\u200d\U0001f525
"""
MARKS = """e\u0301 a\u0308\u0304 \u0301\u0301 x\u0301Y\u0301z A\u0301B\u0301c \u0301A\u0301 \u0301AB \u0301ABc \u0301\u0301AB
 \u0301 \u0301a !\u0301 !\u0301a 1\u0301 '\u0301s \u0915\u094d\u0937\u093f A\u0301's A's\u0301 \u02b0A \u02b0Ab AB\u02b0CD a\u02b0B
"""
SPACES = "a  b   c\td\t\te \t f\u00a0g\u00a0\u00a0h\u2003i\u2003 j\u3000k\u1680l\u2028m\u2029n\u0085o\u0085\u0085p\x0bq\x0cr \n s \r\n\r\n t \n\n\n   u   \n"
CRLF = "one\r\ntwo\r\n\r\nthree\r\rfour\n\r\nfive  \r\n  six\r\n\t\r\n...\r\n///\r\n/\n//end\r\n/x !\n/\n/ \n/"
DIGITS = "1 12 123 1234 12345 " + "1234567890" * 40 + " 3.14159 1,000,000 0x1F 1e10 \u0661\u0662\u0663\u0664 \u00bd\u00bc1234 12\u00b2\u00b3 \u2167\u2168 \U0001d7d8\U0001d7d9\U0001d7da\U0001d7db a1b22c333d4444"
CODE = """#include <stdio.h>\n\nint main(int argc, char **argv)\n{\n\tfor (size_t i = 0; i < 10; i++) {\n        printf("%zu\\n", i); // don't\n\t}\n    return argv[argc - 1] == NULL ? 0 : -1;\n}\n\n\n\ndef f(x: int) -> str:\n    return f"{x!r:>{10}}"  # it's\n\n<div class="a b">&nbsp;</div>\n<|endoftext|> <|fim_prefix|> <|endofprompt|><|endoftext|>\n"""
JSON = """{"id":"0190f7c4-7d3a-7c1e-9d5b-2f1f6a1b9c33","digest":"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","context":{"task":{"intent":"Ship it, don't wait","state":{"progress":0.75,"decisions":[],"remaining":["a\\u00e9\\n","\\ud83d\\ude00"]}},"memories":[{"id":"ms-4821","tags":["x","y"],"pinned":true,"content":null}]}}"""
INVALID = [b"\xff", b"\xc3", b"a\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f\x92", b"\xf0\x9f\x92 ", b"\xed\xa0\x80", b"\xed\xa0\x80\xed\xb0\x80",
           b"\xc0\x80", b"\xe0\x80\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"ok \x80\x80 ok\xfe\xff", b"\xf0\x80\x80\x80x", b"\xf1\x80\xe1\x80\xc2b\x80",
           b"\xc3\xc3\xa9", b"12\xff345", b"it\xff's", b" \xff\n\xff/ "]


def corpus():
    texts = [text.encode() for text in (PROSE, CJK, EMOJI, MARKS, SPACES, CRLF, DIGITS, CODE, JSON)]
    for text in (PROSE, CJK, EMOJI, MARKS, SPACES, CRLF, DIGITS):
        texts += [line.encode() for line in text.splitlines(keepends=True)]
        texts += [word.encode() for word in text.split(" ")]
    texts += [b"", b"\0", b"a\0b\0\0", b" ", b"  ", b"\n", b"\r", b"'", b"'s", b"\xef\xbb\xbfmark"]
    texts += [b" " * n for n in (3, 16, 79, 80, 81, 82, 83, 84, 127, 128, 129, 255, 1000)]
    texts += [b" " * n + b"x" for n in (3, 79, 80, 81, 82, 128, 129, 130, 1000)]
    texts += [b"\n" * n for n in (2, 3, 40, 1000)] + [b"\t" * 200 + b"x", b"a" * 127, b"a" * 128, b"a" * 129]
    texts += INVALID
    return texts


def source_texts():
    """Our own sources and whatever prose lies about, cut so that cuts fall anywhere."""
    texts = []
    for pattern in ("client/**/*.[ch]", "tests/**/*.py", "*.md", "LICENSE", "tests/oracle/*.json"):
        for path in sorted(SOURCE.glob(pattern)):
            if "node_modules" not in path.parts:
                data = path.read_bytes()[:40000]
                texts += [data[at:at + 4001] for at in range(0, len(data), 4001)]
    return texts


def same_in_javascript(text):
    """Whether JavaScript's classes are Unicode 16's for all characters of a text. Its \\s has U+FEFF
    and lacks U+0085, and node knows letters of Unicode 17. Python's table is older than both, so
    what is assigned in it is the same in both."""
    return all(c not in "\u0085\ufeff" and unicodedata.category(c) != "Cn"
               for c in text.decode(errors="replace"))


ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "aAbB'sStTrRvVeElLmMdD\u017f",
    "0123456789", " ", "  \t\n\r", "\n\r/", "!\"#$%&()*+,-./:;<=>?@[]^_`{|}~'\\", "\u0301\u0308\u0915\u093f\u200d\ufe0f",
    "\u01c5\u02b0\u02bcAa\u4eba", "\u4e00\u4eba\u5de5\u667a\u80fd\u7684\u3042\u30a2\uac00", "\u00a0\u2003\u3000\u0085\u2028",
    "\u00e9\u00fc\u00df\u00c9\u0416\u0436\u03a9\u03c9\u05d0\u0627", "\u00bd\u0663\u2167\U0001d7d8", "\U0001f600\U0001f468\U0001f3fd",
]


def random_text(rng):
    if rng.random() < 0.05:
        return bytes(rng.choices(range(256), k=rng.randrange(0, 200)))
    parts = []
    for _ in range(rng.choice((1, 3, 10, 40))):
        alphabet = rng.choice(ALPHABETS)
        parts.append("".join(rng.choices(alphabet, k=rng.choice((1, 1, 2, 3, 8, 30)))))
    if rng.random() < 0.2:
        parts.append("".join(chr(code) for code in (rng.randrange(0x110000) for _ in range(20))
                             if not 0xd800 <= code < 0xe000))
    text = "".join(parts).encode()
    if rng.random() < 0.05 and text:
        broken = bytearray(text)
        broken[rng.randrange(len(broken))] = rng.randrange(256)
        text = bytes(broken)
    return text


def long_runs(length):
    """Each is one piece for both patterns."""
    rng = random.Random(length)
    return [bytes(rng.choices(b"abcdefghijklmnopqrstuvwxyz", k=length)), b"a" * length,
            "".join(rng.choices("\u4eba\u5de5\u667a\u80fd\u4ee3\u7406\u4e4b\u95f4", k=length // 3)).encode(),
            bytes(rng.choices(b"!$%&()*+,-.;<=>?@", k=length))]


def published_ranks(name):
    path = SOURCE / "tools/vocabulary/node_modules/gpt-tokenizer/data" / f"{name}.tiktoken"
    lines = (line.split() for line in path.read_bytes().splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def merge_by_the_book(piece, ranks):
    """Byte-pair merging as it is defined, by bytes: knows nothing of our compiled tables."""
    if piece in ranks:
        return array.array("I", [ranks[piece]])
    end = list(range(1, len(piece) + 1))  # of the part that begins at an index; 0 once it is gone
    before = list(range(-1, len(piece) - 1))
    heap = []

    def offer(start):
        if end[start] < len(piece):
            stop = end[end[start]]
            rank = ranks.get(piece[start:stop])
            if rank is not None:
                heap.append((rank, start, stop)) if building else heapq.heappush(heap, (rank, start, stop))

    building = True
    for start in range(len(piece)):
        offer(start)
    heapq.heapify(heap)
    building = False
    while heap:
        _, start, stop = heapq.heappop(heap)
        middle = end[start]
        if middle in (0, len(piece)) or end[middle] != stop:
            continue
        end[start], end[middle] = stop, 0
        if stop < len(piece):
            before[stop] = start
        offer(start)
        if start > 0:
            offer(before[start])
    ids, start = array.array("I"), 0
    while start < len(piece):
        ids.append(ranks[piece[start:end[start]]])
        start = end[start]
    return ids


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [str(path) for path in (ORACLE / "node_modules/tiktoken", BINARY / "vocabulary")
                   if not path.exists()]
        if missing or not shutil.which("node"):
            raise AssertionError(f"missing {missing or 'node'}: scripts/npm-install --tests, then configure again")
        os.environ["HANDOFF_VOCABULARY_DIR"] = str(BINARY / "vocabulary")
        node = ["node", str(ORACLE / "oracle.mjs")]
        cls.ours = Frames([str(BINARY / "tests/token_frames")], 2)
        cls.tiktoken = Frames(node + ["tiktoken"], 1)
        cls.js_tiktoken = Frames(node + ["js-tiktoken"], 1)

    @classmethod
    def tearDownClass(cls):
        statuses = [frames.close() for frames in (cls.ours, cls.tiktoken, cls.js_tiktoken)]
        if any(statuses):
            raise AssertionError(f"a process ended badly: {statuses}")

    def compare(self, text, *, also_js=False):
        for encoding, name in enumerate(ENCODINGS):
            ids, estimate = self.ours.encode(encoding, text)
            expected, _ = self.tiktoken.encode(encoding, text)
            self.assertEqual(ids, expected, f"{name}: {text[:400]!r}")
            self.assertGreaterEqual(estimate, len(expected), f"estimate, {name}: {text[:400]!r}")
            if also_js and same_in_javascript(text):
                theirs, _ = self.js_tiktoken.encode(encoding, text)
                self.assertEqual(ids, theirs, f"{name}, js-tiktoken: {text[:400]!r}")

    def test_corpus(self):
        for text in corpus():
            self.compare(text, also_js=True)

    def test_sources(self):
        for text in source_texts():
            self.compare(text)

    def test_random(self):
        seed = int(os.environ.get("HANDOFF_TEST_SEED", random.SystemRandom().randrange(2**32)))
        count = int(os.environ.get("HANDOFF_TEST_TOKENS", 1000 if SLOW else 6000))
        print(f"HANDOFF_TEST_SEED={seed} HANDOFF_TEST_TOKENS={count}", file=sys.stderr)
        rng = random.Random(seed)
        for number in range(count):
            text = random_text(rng)
            self.compare(text, also_js=number % 4 == 0)

    def test_every_code_point(self):
        """Each in the places where the patterns tell classes apart; blocks keep it fast."""
        step = 64 if not SLOW else 1024
        for start in range(0, 0x110000, step):
            characters = [chr(code) for code in range(start, start + step)
                          if not 0xd800 <= code < 0xe000]
            text = "".join(f"{c}a{c}A{c}1{c}{c}!{c} {c}\n{c}'s" for c in characters)
            if text:
                self.compare(text.encode())

    def test_megabyte_without_spaces(self):
        rng = random.Random(1)
        words = [word.encode() for word in JSON.replace(" ", "").split('"')] + [b"''", b'{}[]:,"', b"\\n"]
        text = b""
        while len(text) < 1 << 20:
            text += b"".join(rng.choices(words, k=1000)) + str(rng.random()).encode()
        self.compare(text)

    def test_long_runs_against_tiktoken(self):
        """tiktoken needs time by the square of a run's length, and breaks above some 300,000."""
        for run in long_runs(2000 if SLOW else 20000):
            self.compare(run)

    def test_megabyte_run(self):
        """One piece of a megabyte, which no oracle can do, against merging by the book."""
        length = 1 << (14 if SLOW else 20)
        ranks = published_ranks("o200k_base")
        for run in long_runs(length)[:2]:
            ids, _ = self.ours.encode(0, run)
            self.assertEqual(ids, merge_by_the_book(run, ranks))


if __name__ == "__main__":
    unittest.main()
