# SPDX-License-Identifier: Apache-2.0
"""docs/delivery.md agrees with the code: the life of a handoff, the answers, and every number.

    /usr/bin/python3 tests/lint/test_delivery_docs.py --write

regenerates the states and the reasons for parking after a change to client/model/handoff_model.def.
"""

import re
import subprocess
import sys
import unittest

import model
import source_tree

DOCUMENT = source_tree.TOP / "docs/delivery.md"
GENERATED = re.compile(r"(<!-- (\w+):begin -->\n)(.*?)(<!-- \2:end -->)", re.DOTALL)

# Numbers that are not configuration keys: as they are written, and where the code has them.
CONSTANTS = {
    "5 s": ("client/transport/transport.h", "HANDOFF_TRANSPORT_CONNECT_MS", 5000),
    "64 KiB": ("client/transport/transport.h", "HANDOFF_TRANSPORT_ANSWER_MAX", 64 * 1024),
    "16 names": ("client/transport/resolver.h", "HANDOFF_RESOLVER_THREADS", 16),
    "10 s": ("client/transport/resolver.h", "HANDOFF_RESOLVER_FOUND_MS", 10000),
    "250 ms": ("client/transport/dial.h", "HANDOFF_DIAL_DELAY_MS", 250),
    "1 s": ("client/deliver/delivery.c", "ENOUGH_TIME_MS", 1000),
    "1 h": ("client/transport/transport.h", "HANDOFF_RETRY_AFTER_MAX_MS", 3600 * 1000),
    "30 s": ("client/protocol/pull/lease.c", "OFFER_LOOK_MS", 30000),
    "15 s": ("exporter/http/event_stream.c", "COMMENT_MS", 15000),
    "32 handoffs": ("client/handoff.h", "HANDOFF_FOLLOW_LEASES_MAX", 32),
    "60 s": ("client/calls/call.h", "HANDOFF_WAIT_MAX_MS", 60000),
    "4 KiB": ("client/envelope/inheritance.h", "HANDOFF_INHERITANCE_MAX", 4096),
    "1024 bytes": ("client/calls/call.h", "HANDOFF_PROGRESS_MAX", 1024),
    "256 bytes": ("client/calls/call.h", "HANDOFF_IDEMPOTENCY_KEY_MAX", 256),
    "512 connections": ("exporter/http/descriptors.c", "WEB_MOST", 512),
    "16384 connections": ("exporter/http/descriptors.c", "API_MOST", 16384),
}
# Other numbers allowed in the prose: a first attempt, the first byte of a key, and what rows take, which
# tests/unit/test_store_retention.c measures.
PLAIN = {"1 for the first", "1 to 256 bytes", "about 700 bytes", "about 150,000 handoffs", "requests of 1 KiB",
         "17 days"}


def life():
    states = model.rows("STATE")
    names = {name: text for name, _, text, _, _ in states}
    moves = [(names[a], names[b], what) for a, b, what in model.rows("MOVE")]
    return names, [text for _, _, text, kind, _ in states if kind == "OVER"], moves


def printed_life():
    names, over, moves = life()
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(names.values()))}"]
    lines += [f"    {a} --> {b}" for a, b, _ in moves] + [f"    {name} --> [*]" for name in over]
    lines += ["```", "", "| from | to | when |", "|---|---|---|"]
    lines += [f"| `{a}` | `{b}` | {what} |" for a, b, what in moves]
    return "\n".join(lines) + "\n"


def printed_reasons():
    rows = [(name, meaning) for _, name, kind, _, meaning in model.rows("REASON") if kind == "PARKS"]
    return "| reason | meaning |\n|---|---|\n" + "".join(
        f"| `{name}` | {meaning} |\n" for name, meaning in rows)


PRINTERS = {"life": printed_life, "reasons": printed_reasons}


def document(text):
    """The document with its generated parts as the model has them."""
    return GENERATED.sub(lambda match: match[1] + PRINTERS[match[2]]() + match[4], text)


def classes():
    """{code: HTTP status}, from the codes' classes and the edge that maps those."""
    mapped = dict(re.findall(r"\[HANDOFF_CLASS_(\w+)\] = \{(\d{3})",
                             (source_tree.TOP / "exporter/http/problem.c").read_text()))
    rows = re.findall(r'^CODE\(\w+, "(\w+)", (\w+)',
                      (source_tree.TOP / "lib/base/handoff_codes.def").read_text(), re.MULTILINE)
    return {code: int(mapped[kind]) for code, kind in rows}


def defaults():
    """{key: default} of the configuration and of the options."""
    found = {}
    for table in ("channel", "root", "agent"):  # of keys with one name, the later wins
        text = subprocess.check_output([source_tree.BUILD / "tests/print_config", table], text=True)
        found.update(re.findall(r"^\| `([\w.]+)` \|.*? \| `([^`]+)` \|", text, re.MULTILINE))
    options = (source_tree.TOP / "exporter/options.def").read_text()
    for name, value in re.findall(r'^OPTION\(\w+, \w+, "([\w.-]+)",\s*\S+, "([^"]*)"', options,
                                  re.MULTILINE):
        found["--" + name] = value
    return found


def prose(text):
    """The document without blocks, generated parts, inline code and links."""
    text = re.sub(r"```.*?```", "", GENERATED.sub("", text), flags=re.DOTALL)
    return text


def faults(text):
    """What the prose says otherwise than the code."""
    found = []
    known = defaults()
    text = prose(text)
    for key, value in re.findall(r"`(-{0,2}[\w.-]+)` \((\d[^ ,)]*)\)", text):
        if known.get(key) != value:
            found.append(f"`{key}` ({value}), but it is {known.get(key)}")
    for status, codes in re.findall(r"^\| (\d{3}(?:, \d{3})*) \| ([^|]*) \|", text, re.MULTILINE):
        statuses = {int(word) for word in status.split(", ")}
        for code in re.findall(r"`(\w+)`", codes):
            if classes().get(code) not in statuses:
                found.append(f"{code} is answered {classes().get(code)}, not {status}")
    rest = re.sub(r"`-{0,2}[\w.-]+` \(\d[^ ,)]*\)", "", text)
    for phrase in sorted({*PLAIN, *CONSTANTS}, key=len, reverse=True):
        rest = rest.replace(phrase, "")
    rest = re.sub(r"`[^`]*`|\]\([^)]*\)|^\d\. ", "", rest, flags=re.MULTILINE)
    rest = re.sub(r"\b[2-5](?:xx|\d\d)\b|W3C|kill -9", "", rest)  # statuses, checked above
    found += [f"{number} is not said to come from anywhere" for number in
              re.findall(r"\b\d[\w.]*", rest)]
    return found


class DeliveryDocument(unittest.TestCase):
    maxDiff = None

    def test_states_and_reasons_are_those_of_the_model(self):
        text = DOCUMENT.read_text()
        self.assertEqual({match[2] for match in GENERATED.finditer(text)}, set(PRINTERS))
        self.assertEqual(text, document(text), "run: tests/lint/test_delivery_docs.py --write")
        self.assertEqual(re.findall(r"^\| `(\w+)`", printed_reasons(), re.MULTILINE),
                         model.reasons_to_park())
        self.assertNotEqual(text.replace("| `exhausted` |", "| `other` |"), document(text))

    def test_numbers_and_codes_are_those_of_the_code(self):
        self.assertEqual(faults(DOCUMENT.read_text()), [])

    def test_constants_are_those_of_the_code(self):
        for phrase, (path, name, value) in CONSTANTS.items():
            with self.subTest(constant=name):
                text = (source_tree.TOP / path).read_text()
                expression = re.search(rf"\b{name} = ([\d* ]+)", text)[1]
                product = 1
                for factor in expression.split("*"):
                    product *= int(factor)
                self.assertEqual(product, value)
                self.assertIn(phrase, DOCUMENT.read_text())

    def test_each_state_and_each_code_of_a_sending_is_there(self):
        text = DOCUMENT.read_text()
        names, _, moves = life()
        self.assertEqual(len(names), 7)
        self.assertGreater(len(moves), 10)
        for code in ("exhausted", "refused", "expired", "circuit_open", "too_many_in_flight",
                     "idempotency_conflict", "budget_too_small", "hop_limit", "unknown_agent"):
            self.assertIn(f"`{code}`", text)

    def test_what_is_refused(self):
        for wrong in ("`retries` (4)", "after 7 s", "| 404 | `expired` |", "`nothing` (3)"):
            with self.subTest(text=wrong):
                self.assertTrue(faults(wrong))
        self.assertEqual(faults("`retries` (3), 503, within 5 s\n| 504 | `expired` | x |"), [])


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOCUMENT.write_text(document(DOCUMENT.read_text()))
    else:
        unittest.main()
