# SPDX-License-Identifier: Apache-2.0
"""What the lint tests share: where the sources are, which files are ours, how a tool is run."""

import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

TOP = pathlib.Path(os.environ.get("HANDOFF_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("HANDOFF_BINARY_DIR", TOP / "build/release"))
ROOMS = ("lib", "client", "collectors", "exporter", "ctl")
PUBLIC_HEADERS = ("client/handoff.h", "client/model/handoff_model.h",
                  "lib/base/handoff_error.h", "lib/tokens/handoff_tokens.h")
PROM_HEADERS = ("lib/metrics/metric.h", "lib/promhttp/promhttp.h",
                *(f"lib/prom/{path.name}" for path in sorted((TOP / "lib/prom").glob("prom*.h"))))
NOT_OURS = {".git", "build", "node_modules", "__pycache__"}

# Every version of these finds other things, so each is written for one: Debian 12's.
WRITTEN_FOR = {"clang-tidy": "14", "clang-format": "14", "cppcheck": "2.10"}


@functools.lru_cache(maxsize=None)
def files():
    """Every file of the project, as paths relative to TOP: what git tracks or would track.

    Sources without git (an unpacked archive) are walked instead.
    """
    git = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(TOP), "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"], capture_output=True, text=True, check=False)
    if git.returncode == 0:
        found = [pathlib.Path(name) for name in git.stdout.split("\0") if name]
    else:
        found = []
        for folder, folders, names in os.walk(TOP):
            folders[:] = [name for name in folders if name not in NOT_OURS]
            found += [pathlib.Path(folder, name).relative_to(TOP) for name in names]
    return sorted(path for path in found if (TOP / path).is_file())


def c_files(*suffixes):
    """C sources and headers (or only those with the given suffixes)."""
    return [path for path in files() if path.suffix in (suffixes or (".c", ".h"))]


def shebang(path):
    """The first line of a script, or an empty string."""
    with open(TOP / path, "rb") as file:
        line = file.readline(200)
    return line.decode("ascii", "replace").strip() if line.startswith(b"#!") else ""


def run(command, **options):
    """Runs a tool; returns (exit status, its whole output)."""
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, check=False, **options)
    return result.returncode, result.stdout


@functools.lru_cache(maxsize=None)
def compile_commands():
    """{source path: its compiler arguments} of the build tree, without -c, -o and the source."""
    commands = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        source = pathlib.Path(entry["directory"], entry["file"])
        arguments = []
        skip = 1  # the compiler itself
        if words[0].endswith("ccache"):
            skip = 2
        words = words[skip:]
        while words:
            word = words.pop(0)
            if word in ("-o", "-MF", "-MT"):
                words.pop(0)
            elif word not in ("-c", "-MD") and word != entry["file"]:
                arguments.append(word)
        commands[source] = arguments
    return commands


def include_flags():
    """The -I, -isystem and -D flags that any of our sources is compiled with."""
    flags = []
    for arguments in compile_commands().values():
        words = iter(arguments)
        for word in words:
            pair = (word, next(words)) if word == "-isystem" else (word,)
            if word.startswith(("-I", "-isystem")) and pair not in flags:
                flags.append(pair)
    return [word for pair in flags for word in pair]


def left_out(tool):
    """Why the lint with this tool is left out here, or None."""
    found = re.search(r"\d+(\.\d+)+", run([tool, "--version"])[1])
    found, wanted = found[0] if found else "of an unknown version", WRITTEN_FOR[tool]
    if f"{found}.".startswith(f"{wanted}."):
        return None
    return f"left out: {tool} is {found} here, and the test is written for {wanted}"


def require(tool):
    """For setUpModule: skips all of it, in words that ctest knows, where the tool is another than expected."""
    reason = left_out(tool)
    if reason:
        print(reason, flush=True)
        raise unittest.SkipTest(reason)


if __name__ == "__main__":  # what scripts/test says before it begins
    for reason in filter(None, map(left_out, WRITTEN_FOR)):
        print(reason, file=sys.stderr)
