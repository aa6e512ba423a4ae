# SPDX-License-Identifier: Apache-2.0
"""The client packages, from the source tree: importing this puts the Python package on the path, and Node runs code with
the TypeScript package.

    with Node(HANDOFF_API_URL=...) as node:
        node.run("kept.spine = new handoff.MemorySpine(); return (await kept.spine.listAgents()).length")
"""

import functools
import itertools
import json
import os
import pathlib
import queue
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

from .authority import Authority
from .daemon import environment
from .receiver import Receiver
from .wait import TIMEOUT

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
PYTHON = TOP / "clients/python"
TYPESCRIPT = TOP / "clients/typescript"

sys.path.insert(0, str(PYTHON))


def node_too_old():
    """Why tests of the TypeScript client are left out, or None: it needs Node.js 20, and Debian 12 has 18."""
    found = subprocess.check_output(["node", "--version"], text=True).strip()
    if int(found.lstrip("v").split(".")[0]) >= 20:
        return None
    return f"left out: node is {found} here, and the TypeScript client needs 20"


def require_node():
    """For setUpModule: skips all of it, in words that ctest knows."""
    reason = node_too_old()
    if reason:
        print(reason, flush=True)
        raise unittest.SkipTest(reason)


def tls_server(folder, *script):
    """A receiver that answers over https, and the path of the authority that it is known by."""
    authority = Authority(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("api", "IP:127.0.0.1"))
    return Receiver(*script, tls=context), str(authority.path)


@functools.lru_cache(maxsize=None)
def built_typescript():
    """A folder with node_modules/handoff, compiled from the sources; it is kept until this process ends."""
    folder = tempfile.TemporaryDirectory()
    package = pathlib.Path(folder.name, "node_modules/handoff")
    package.mkdir(parents=True)
    shutil.copy(TYPESCRIPT / "package.json", package)
    done = subprocess.run(["node", str(TYPESCRIPT / "node_modules/typescript/bin/tsc"), "--outDir", str(package / "dist")],
                          cwd=TYPESCRIPT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Failed(Exception):
    """The code threw an error; `error` has its name, message and own members."""

    def __init__(self, error):
        super().__init__(f"{error['name']}: {error['message']}")
        self.error = error


class Node:
    """A Node.js process that runs functions; `kept` is an object that they share."""

    def __init__(self, **variables):
        self.folder = pathlib.Path(built_typescript().name)
        program = self.folder / "run.mjs"
        shutil.copy(pathlib.Path(__file__).with_name("run.mjs"), program)
        self.process = subprocess.Popen(["node", "--expose-gc", str(program)], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, env=environment(**variables), cwd=self.folder)
        self.numbers = itertools.count()
        self.replies = {}
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            reply = json.loads(line)
            with self.lock:
                self.replies[reply["number"]].put(reply)

    def start(self, code, **given):
        """Runs it, and returns a function that waits for its value."""
        number, reply = next(self.numbers), queue.Queue()
        with self.lock:
            self.replies[number] = reply
        self.process.stdin.write(json.dumps({"number": number, "code": code, "given": given}) + "\n")
        self.process.stdin.flush()

        def value(timeout=TIMEOUT):
            answer = reply.get(timeout=timeout)
            if "error" in answer:
                raise Failed(answer["error"])
            return answer.get("value")
        return value

    def run(self, code, timeout=TIMEOUT, **given):
        """The value that the body of an async function returns; `given` are its variables."""
        return self.start(code, **given)(timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()
