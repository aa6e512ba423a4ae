# SPDX-License-Identifier: Apache-2.0
"""Figures about the layout of the code; scripts/house says how to call it.

Each measure is a function of a source tree. They show the state of the code, before and after a change of
its structure; nothing fails because of them.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).parents[2]
ROOMS = ("lib", "client", "collectors", "exporter", "ctl")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
CHECK = re.compile(r"\b(?:BASE|HANDOFF|METRIC|EXPORTER)_CHECK(?:_MAGIC)?\(|\b(?:_Static_assert|static_assert)\(")
STATIC = re.compile(r"^static [^;=]*?\b(\w+)\([^;]*?\)\n\{", re.MULTILINE)
BODY = re.compile(r"^\{\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
THREAD = re.compile(r"\b(?:threads?|loop'?s?|lane'?s?|pure)\b", re.IGNORECASE)
# how translated English gives itself away; test_language.py has the list that is enforced
PHRASES = re.compile(r"\b(?:whoever|whatever it is|tells? of|told of|of its own|of their own|somebody|nobody|"
                     r"comes? to be|stands? (?:for|in|beside|there)|as may be|is no (?:text|time|option)|"
                     r"so that it|what is (?:out|beyond|beside))\b", re.IGNORECASE)


def sources(top, *suffixes):
    return [path for room in ROOMS for path in sorted((top / room).rglob("*"))
            if path.suffix in suffixes and path.name != "unicode_tables.c"]


def function_lines(top):
    lengths = sorted(body.count("\n") for path in sources(top, ".c")
                     for body in BODY.findall(path.read_text()))
    ninetieth = lengths[len(lengths) * 9 // 10]
    return f"{statistics.median(lengths):.0f}, {ninetieth}, {lengths[-1]}"


def code_lines(text):
    return sum(1 for line in COMMENT.sub("", text).split("\n") if line.strip())


def lines_per_assertion(top):
    code = checks = 0
    for path in sources(top, ".c", ".h"):
        text = path.read_text()
        code += code_lines(text)
        checks += len(CHECK.findall(COMMENT.sub("", text)))
    return f"{code / checks:.0f}"


def comment_share(top):
    comments = lines = 0
    for path in sources(top, ".c", ".h"):
        text = path.read_text()
        lines += sum(1 for line in text.split("\n") if line.strip())
        comments += sum(comment.count("\n") + 1 for comment in COMMENT.findall(text))
    return f"{100 * comments / lines:.0f} %"


def repeated_static_names(top):
    files = collections.defaultdict(set)
    for path in sources(top, ".c"):
        for name in STATIC.findall(path.read_text()):
            files[name].add(path)
    return str(sum(1 for found in files.values() if len(found) > 1))


def head(path):
    """The comment at the head of a file, without the licence line."""
    text = path.read_text().split("\n", 1)[1].lstrip()
    return COMMENT.match(text).group() if text.startswith("/*") else ""


def without_head(top):
    return f"{sum(1 for path in sources(top, '.c') if not head(path))} of {len(sources(top, '.c'))}"


def without_thread(top):
    def names_thread(path):
        header = path.with_suffix(".h")
        return THREAD.search(head(path) + (head(header) if header.exists() else ""))
    return str(sum(1 for path in sources(top, ".c") if not names_thread(path)))


def phrases(top):
    words = found = 0
    for path in top.rglob("*.md"):
        if "node_modules" in path.parts or "build" in path.parts:
            continue
        text = path.read_text()
        words += len(text.split())
        found += len(PHRASES.findall(text))
    return f"{1000 * found / words:.1f}"


STATIC_MEASURES = (
    ("lines of a function: median, p90, longest", function_lines),
    ("lines of code per assertion", lines_per_assertion),
    ("share of comment lines", comment_share),
    ("static function names that occur in more than one file", repeated_static_names),
    (".c files without a head comment", without_head),
    (".c files without a word about their thread", without_thread),
    ("marker phrases per 1,000 words of documents", phrases),
)


# ---- what a request crosses --------------------------------------------------------------------

def build_traced(top, folder):
    """A daemon of `top` that calls the tracer at the entry of each function."""
    flags = "-g -O1 -finstrument-functions -finstrument-functions-exclude-file-list=/usr"
    subprocess.run(["cmake", "-S", top, "-B", folder, "-G", "Ninja", "-DBUILD_TESTING=OFF",
                    "-DHANDOFF_WERROR=OFF", f"-DCMAKE_C_FLAGS={flags}"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "--target", "handoff-exporter"], check=True,
                   stdout=subprocess.DEVNULL)
    tracer = folder / "call_trace.so"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-o", tracer, TOP / "tests/house/call_trace.c"], check=True)
    return folder / "exporter/handoff-exporter", tracer


def crossed(program, trace, top):
    """{function} and {file} that a trace names."""
    addresses = [line for line in trace.read_text().split() if line != "end"]
    output = subprocess.run(["addr2line", "-f", "-e", program, *addresses], check=True, text=True,
                            capture_output=True).stdout.split("\n")
    pairs = [(name, os.path.relpath(place.split(":")[0], top))
             for name, place in zip(output[::2], output[1::2]) if place.startswith(str(top))]
    return set(pairs), {file for _, file in pairs}


def crossings(top):
    """[(label, text)]: files and functions of one handoff, and with one scrape."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program, tracer = build_traced(top, folder / "build")
        os.environ["HANDOFF_EXPORTER"] = str(program)  # the harness reads it when it is imported
        from harness import Daemon
        from harness.receiver import Receiver, ack
        from harness.wait import eventually
        trace = folder / "trace"

        def during(daemon, action):
            trace.unlink(missing_ok=True)
            daemon.process.send_signal(signal.SIGRTMIN)
            eventually(lambda: trace.exists() and trace.read_text() == "tracing\n", "tracing is on")
            action()
            daemon.process.send_signal(signal.SIGRTMIN + 1)
            eventually(lambda: trace.exists() and trace.read_text().endswith("end\n"), "the trace is written")
            return crossed(program, trace, top)

        request = json.dumps({"source_agent": "analyst", "target_agent": "coder", "task_summary": "Write it"})
        with Receiver(ack) as receiver:
            config = f"agents: {{coder: {{url: '{receiver.url}'}}, analyst: {{}}}}\n"
            traced = {"LD_PRELOAD": str(tracer), "CALL_TRACE_FILE": str(trace)}
            with Daemon(config=config, program=str(program), env=traced) as daemon:
                def post():
                    status = daemon.api.post("/v1/handoffs", request.encode()).status
                    assert status == 200, status
                post()  # connections are made, pools are filled
                functions, files = during(daemon, post)
                also, more = during(daemon, lambda: daemon.web.get("/metrics"))
        return [("files, functions that one handoff crosses", f"{len(files)}, {len(functions)}"),
                ("the same with one scrape", f"{len(files | more)}, {len(functions | also)}")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--crossings", action="store_true")
    parser.add_argument("folders", nargs="*", type=pathlib.Path, default=[TOP])
    options = parser.parse_args()
    trees = [folder.resolve() for folder in options.folders]
    rows = [(label, [measure(tree) for tree in trees]) for label, measure in STATIC_MEASURES]
    if options.crossings:
        columns = [crossings(tree) for tree in trees]
        rows += [(label, [column[row][1] for column in columns]) for row, (label, _) in enumerate(columns[0])]
    width = max(len(label) for label, _ in rows)
    print(" " * width, *(f"{tree.name:>16}" for tree in trees))
    for label, values in rows:
        print(label.ljust(width), *(f"{value:>16}" for value in values))


if __name__ == "__main__":
    sys.exit(main())
