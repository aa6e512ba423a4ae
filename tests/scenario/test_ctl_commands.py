# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""handoffctl's table of commands: parsing, help, completion and man pages all come from it and agree."""

import contextlib
import functools
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import environment
from harness.agents import Caller, daemon_with

HANDOFFCTL = os.environ["HANDOFFCTL"]
GOLDEN = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "tests/golden/ctl"
NOWHERE = "unix:/nothing/here"


def ctl(*words, code=0, **variables):
    """(stdout, stderr) of a run that ends with this exit code."""
    done = subprocess.run([HANDOFFCTL, *words], text=True, capture_output=True, timeout=60, check=False,
                          env=environment(**{"HANDOFF_API_URL": NOWHERE, **variables}))
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def candidates(*words, **variables):
    """What the last word can become."""
    return [line.split("\t")[0] for line in ctl("__complete", "--", *words, **variables)[0].splitlines()]


@functools.lru_cache(maxsize=None)
def options(name):
    return set(candidates(*name.split(), "--"))


@functools.lru_cache(maxsize=None)
def commands():
    """The name of every command, by completion alone: the words that no further word follows, and groups'."""
    found = []
    for first in candidates(""):
        verbs = candidates("help", first, "")
        found += [f"{first} {verb}" for verb in verbs]
        if not ctl("help", first)[0].startswith(f"usage: handoffctl {first} COMMAND"):
            found.append(first)
    return sorted(found)


class Parsing(unittest.TestCase):
    def complaint(self, *words):
        return ctl(*words, code=2)[1].splitlines()[0]

    def test_options_may_be_anywhere(self):
        for words in (("--token-file", "/no/token", "parked", "list"), ("parked", "--token-file=/no/token", "list"),
                      ("-o", "json", "parked", "--limit", "3", "list", "--token-file", "/no/token"),
                      ("parked", "list", "-ojson", "--token-file", "/no/token")):
            with self.subTest(words):
                self.assertEqual(ctl(*words, code=1)[1],
                                 "handoffctl parked list: no token in /no/token (--token-file)\n")

    def test_after_two_dashes_all_is_operands(self):
        said = ctl("tokens", "--json", "--", "--json", code=1)[1]
        self.assertIn("--json: No such file", said)
        self.assertEqual(self.complaint("tokens", "--", "a", "--json"),
                         'handoffctl tokens: unexpected argument "--json"')

    def test_a_later_option_overrides_an_earlier_one(self):
        said = ctl("agents", "--token-file", "/no/first", "--token-file", "/no/second", code=1)[1]
        self.assertIn("/no/second", said)

    def test_what_is_unknown_gets_the_nearest_name(self):
        for words, meant in (
                (("prked", "list"), 'handoffctl: unknown command "prked", did you mean parked?'),
                (("parked", "lst"), 'handoffctl: unknown command "parked lst", did you mean parked list?'),
                (("agents", "rest"), 'handoffctl agents: unexpected argument "rest", did you mean agents reset?'),
                (("list", "--stat", "ready"), "handoffctl list: unknown option --stat, did you mean --state?"),
                (("list", "--api-url=x"), "handoffctl list: unknown option --api-url, did you mean --api.url?"),
                (("list", "--qqqqqq"), "handoffctl list: unknown option --qqqqqq, see handoffctl list --help"),
                (("list", "-x"), "handoffctl list: unknown option -x, see handoffctl list --help")):
            with self.subTest(words):
                self.assertEqual(self.complaint(*words), meant)

    def test_values_are_checked_before_anything_is_called(self):
        for words, complaint in (
                (("list", "--limit", "0"), 'list: --limit: saw "0", allowed: a whole number from 1 to 1000'),
                (("list", "--limit", "1e3"), 'list: --limit: saw "1e3", allowed: a whole number from 1 to 1000'),
                (("list", "-o", "xml"), 'list: --output: saw "xml", allowed: table|wide|json|yaml|name'),
                (("list", "--limit"), "list: --limit needs a value: --limit N"),
                (("list", "--json=yes"), "list: --json takes no value"),
                (("completion", "tcsh"), 'completion: SHELL: saw "tcsh", allowed: bash|zsh|fish'),
                (("status",), "status: missing ID"), (("status", "a", "b"), 'status: unexpected argument "b"')):
            with self.subTest(words):
                self.assertEqual(self.complaint(*words), "handoffctl " + complaint)

    def test_a_group_alone_lists_its_commands(self):
        said = ctl("parked", code=2)[1]
        for verb in ("list", "show", "replay", "discard"):
            self.assertIn(f"\n  parked {verb}", said)

    def test_the_version(self):
        said = ctl("version")[0]
        self.assertRegex(said, r"^handoffctl, version \d+\.\d+\.\d+\n$")
        self.assertEqual(ctl("--version")[0], said)


class Help(unittest.TestCase):
    maxDiff = None

    def test_it_is_as_written(self):
        """The golden texts are by hand."""
        for name in ("parked discard", "list", "store check"):
            with self.subTest(name):
                expected = (GOLDEN / f"{name.replace(' ', '-')}.txt").read_text(encoding="utf-8")
                self.assertEqual(ctl(*name.split(), "--help")[0], expected)
                self.assertEqual(ctl("help", *name.split())[0], expected)
                self.assertEqual(ctl("-h", *name.split())[0], expected)

    def test_every_command_has_it_and_the_overview_names_it(self):
        overview, found = ctl("help")[0], commands()
        self.assertGreater(len(found), 35)
        for name in found:
            with self.subTest(name):
                self.assertRegex(overview, rf"\n  {name}(?: |\n)")
                text = ctl("help", *name.split())[0]
                self.assertTrue(text.startswith(f"usage: handoffctl {name}"), text)
                self.assertRegex(text, r"\nExamples?:\n  ")
                for option in options(name) - {"--help"}:
                    self.assertRegex(text, rf"\n +(?:-\w, )?{option}[ \n]")

    def test_examples_are_commands_that_are_understood(self):
        """Nothing is called: help is asked for at the end of each, and unknown options are refused before."""
        for name in commands():
            for example in re.findall(r"^  (?:.*[|(] *)?(handoffctl [^|)]*)", ctl("help", *name.split())[0], re.MULTILINE):
                words = re.sub(r"\\$|'[^']*'", "x", example).split()[1:]
                if words[-1] == "x" and example.endswith("\\"):
                    words.pop()
                with self.subTest(example):
                    given = {word.split("=")[0] for word in words if word.startswith("--")}
                    self.assertEqual(given - options(name), set())

    def test_lines_are_short(self):
        for line in ctl("help")[0].splitlines()[:-1]:
            self.assertLessEqual(len(line), 80, line)


class Completion(unittest.TestCase):
    def test_commands_options_and_values(self):
        self.assertEqual(candidates("park"), ["park", "parked"])
        self.assertEqual(candidates("parked", "r"), ["replay"])
        self.assertEqual(candidates("help", "store", ""), ["check", "backup", "reindex"])
        self.assertEqual(candidates("list", "--s"), ["--state", "--source", "--since"])
        self.assertEqual(candidates("list", "--state", "p"), ["parked"])
        self.assertEqual(candidates("list", "-o", ""), ["table", "wide", "json", "yaml", "name"])
        self.assertEqual(candidates("list", "--output=y"), ["--output=yaml"])
        self.assertEqual(candidates("list", "--output", "=", "y"), ["yaml"])
        self.assertEqual(candidates("-o", "json", "parked", "l"), ["list"])
        self.assertEqual(candidates("parked", "list", "--reason", "hop"), ["hop_limit"])
        self.assertEqual(candidates("check-config", ""), [":files"])
        self.assertEqual(candidates("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(candidates("task", ""), ["complete"])
        self.assertEqual(candidates("nothing-like-it", ""), [])

    def test_agents_and_handoffs_come_from_the_sidecar(self):
        with daemon_with({"coder": {}, "reviewer": {}}) as daemon:
            handoff = Caller(daemon).send_async("coder")
            where = {"HANDOFF_API_URL": daemon.api.url}
            self.assertEqual(candidates("list", "--target", "", **where), ["coder", "reviewer"])
            self.assertEqual(candidates("inbox", "rev", **where), ["reviewer"])
            self.assertEqual(candidates("show", handoff[:6], **where), [handoff])
            self.assertEqual(candidates("parked", "show", "", **where), [])
            self.assertEqual(candidates("list", "--api.url", daemon.api.url, "--target", "c"), ["coder"])
        self.assertEqual(candidates("list", "--target", ""), [])

    def complete_in_bash(self, line):
        script = ('source <("$0" completion bash); COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); '
                  '_handoffctl; printf "%s\\n" "${{COMPREPLY[@]}}"').format(line)
        done = subprocess.run(["bash", "--norc", "-c", script, HANDOFFCTL], text=True, capture_output=True, timeout=60,
                              check=True, env=environment(HANDOFF_API_URL=NOWHERE), cwd=GOLDEN)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash(self):
        self.assertEqual(self.complete_in_bash('"$0" parked re'), ["replay"])
        self.assertEqual(self.complete_in_bash('"$0" list --state = aw'), ["awaiting_ack"])
        self.assertEqual(self.complete_in_bash('"$0" check-config li'), ["list.txt"])

    def test_the_tab_key_in_a_bash_that_people_type_into(self):
        with daemon_with({"coder": {}, "reviewer": {}}) as daemon, tempfile.TemporaryDirectory() as folder:
            handoff = Caller(daemon).send_async("reviewer")
            rc = pathlib.Path(folder, "rc")
            rc.write_text(f'handoffctl() {{ "{HANDOFFCTL}" "$@"; }}\nsource <("{HANDOFFCTL}" completion bash)\n'
                          "bind 'set enable-bracketed-paste off'\nPS1=\n", encoding="utf-8")
            typed = f"handoffctl li\t--targ\trev\t-o na\t\nhandoffctl sta\t{handoff[:9]}\t-o name\nexit\n"
            ours, theirs = pty.openpty()
            shell = subprocess.Popen(["bash", "--noprofile", "--rcfile", str(rc), "-i"], stdin=theirs, stdout=theirs, stderr=theirs,
                                     start_new_session=True, env=environment(HANDOFF_API_URL=daemon.api.url, TERM="dumb"))
            os.close(theirs)
            os.write(ours, typed.encode())
            shown = b""
            with contextlib.suppress(OSError):  # EIO is its end
                while piece := os.read(ours, 65536):
                    shown += piece
            os.close(ours)
            self.assertEqual(shell.wait(60), 0)
        lines = shown.decode().replace("\r", "").splitlines()
        self.assertIn("handoffctl list --target reviewer -o name ", lines)
        self.assertEqual(lines.count(handoff), 2, lines)

    def test_the_other_scripts_are_accepted_by_their_shells(self):
        for shell in ("zsh", "fish"):
            with self.subTest(shell):
                script = ctl("completion", shell)[0]
                self.assertIn("__complete --", script)
                if shutil.which(shell):
                    subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)


class ManPages(unittest.TestCase):
    def read(self, page):
        """Its text as a terminal shows it, without fonts; groff complains about nothing."""
        roff = ctl("__man", page)[0]
        if not shutil.which("groff"):
            self.skipTest("there is no groff")
        done = subprocess.run(["groff", "-ww", "-man", "-Tascii", "-P-c", "-rLL=200n"], input=roff, text=True,
                              capture_output=True, timeout=60, check=True)
        self.assertEqual(done.stderr, "")
        return re.sub(r"\s+", " ", re.sub(".\b", "", done.stdout))

    def test_handoffctl(self):
        text = self.read("handoffctl")
        for name in commands():
            self.assertIn(f" {name} ", text)
            for option in options(name):
                self.assertIn(f" {option} ", text)
        self.assertIn("why; it is recorded with the handoff", text)

    def test_handoff_exporter(self):
        text = self.read("handoff-exporter")
        table = (pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "exporter/options.def").read_text(encoding="utf-8")
        names = re.findall(r'^OPTION\(\w+, \w+, "([^"]+)"', table, re.MULTILINE)
        self.assertGreater(len(names), 10)
        for name in names:
            self.assertRegex(text, rf" --{re.escape(name)}[ =]")
        self.assertIn("SIGTERM and SIGINT drain", text)


if __name__ == "__main__":
    unittest.main()
