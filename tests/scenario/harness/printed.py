# SPDX-License-Identifier: Apache-2.0
"""Commands as a document prints them, run as a reader would: one after the other in one shell.

In an sh block a line is a command, and the lines right after it that begin with "# " are lines of its
output ("..." matches any text, also none). A command without such lines only has to succeed.
"""

import os
import re
import select
import shutil
import subprocess
import tempfile
import time

from .wait import TIMEOUT

# What only looks may be looked at again, as a reader does when he was too quick.
LOOKS = re.compile(r"curl -s '?(?:localhost|http)\S+(?: \||$)|\S+ (?:status|attempts|task|agents|"
                   r"parked list|parked show)\b")
AGAIN = 0.05


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def steps(text):
    """[(command, [expected line, ...]), ...]; a backslash continues a command on the next line."""
    found = []
    for line in "".join(blocks(text, "sh")).splitlines():
        if line.startswith("# "):
            found[-1][1].append(line[2:])
        elif found and found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0] + "\n" + line, [])
        elif line:
            found.append((line, []))
    return found


def matches(expected, line):
    return re.fullmatch(re.escape(expected).replace(r"\.\.\.", ".*"), line)


def missing(expected, output):
    lines = output.splitlines()
    return [line for line in expected if not any(matches(line, got) for got in lines)]


class Shell:
    """A bash that takes commands; a context manager. `replace` is done on each of them."""

    def __init__(self, replace, **variables):
        self.replace = replace
        self.folder = tempfile.mkdtemp(prefix="handoff-shell-")
        self.process = subprocess.Popen(
            ["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, cwd=variables.pop("cwd", self.folder), start_new_session=True,
            env={**os.environ, "LC_ALL": "C", "TMPDIR": self.folder, **variables})
        self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.write(b"kill $(jobs -p) 2>/dev/null; exit\n")
        self.process.stdin.close()
        try:
            self.process.wait(TIMEOUT)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def read(self, done, output=b""):
        """Reads on until done(output), or raises AssertionError with what there is."""
        deadline = time.monotonic() + TIMEOUT
        while not done(output.decode(errors="replace")):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"not within {TIMEOUT:g} s; the shell said:\n"
                                     f"{output.decode(errors='replace')}")
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                raise AssertionError(f"the shell ended:\n{output.decode(errors='replace')}")
            output += chunk
        return output

    def once(self, command, expected):
        """(exit status, output) of one run."""
        self.count += 1
        end = f"--- end of {self.count}: "
        self.process.stdin.write(f"{command}\necho '{end}'$?\n".encode())
        self.process.stdin.flush()
        output = self.read(lambda text: re.search(re.escape(end) + r"\d+\n", text))
        if command.endswith("&"):  # what runs beside us speaks when it likes
            output = self.read(lambda text: not missing(expected, text), output)
        text = output.decode(errors="replace")
        status = int(re.search(re.escape(end) + r"(\d+)\n", text)[1])
        return status, re.sub(re.escape(end) + r"\d+\n", "", text)

    def run(self, command, expected):
        """Runs a step; AssertionError where the output is not the expected one."""
        looks = LOOKS.match(command)
        for old, new in self.replace:
            command = command.replace(old, new)
            expected = [line.replace(old, new) for line in expected]
        deadline = time.monotonic() + TIMEOUT
        while True:
            status, output = self.once(command, expected)
            if not missing(expected, output):
                break
            if not looks or time.monotonic() > deadline:
                raise AssertionError(f"{command}\nexpected {missing(expected, output)} in:\n{output}")
            time.sleep(AGAIN)
        if not expected and status != 0:
            raise AssertionError(f"{command}\nended with {status}:\n{output}")
        return output
