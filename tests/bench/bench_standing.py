#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the sidecar costs while it waits, and what measuring costs.

    bench_standing.py [--waiting N] [--pollers N] [--starts N] [--json FILE]

Handoffs that wait for a receiver that never answers: memory each, beyond the envelope, and the same
with their senders waiting too. Agents that poll their inbox: CPU while nothing happens. Starts: the
time from exec to ready, with an empty store. And the share of the daemon's CPU time that its observer
takes under load, by a daemon that has a clock around it (measured_daemon.c).
"""

import argparse
import contextlib
import json
import os
import selectors
import socket
import statistics
import subprocess
import tempfile
import threading
import time

import load
from harness import eventually
from rivals import DESCRIPTORS, Nginx, Ours, memory_bytes

IDLE_SECONDS = 10
REPLY_SECONDS = 120
MEASURED = os.path.join(os.environ["HANDOFF_BINARY_DIR"], "tests", "measured_daemon")


class Silent:
    """A receiver that reads what it is sent and never answers."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        self.url = "http://127.0.0.1:%d/handoffs" % self.listener.getsockname()[1]
        self.selector = selectors.EpollSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.ending = False
        self.connections = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ending:
            for key, _ in self.selector.select(0.1):
                if key.fileobj is self.listener:
                    self.accept()
                elif not self.read(key.fileobj):
                    self.selector.unregister(key.fileobj)
                    key.fileobj.close()

    def accept(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                connection = self.listener.accept()[0]
                connection.setblocking(False)
                self.selector.register(connection, selectors.EVENT_READ)
                self.connections += 1

    @staticmethod
    def read(connection):
        try:
            return connection.recv(65536) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.ending = True
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


def request_bytes(method, path, body=b"", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}",
             *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def connect(daemon):
    return socket.create_connection((daemon.api.host, daemon.api.port), timeout=REPLY_SECONDS)


def send_async(daemon, bodies, count):
    """Hands off over one connection, pipelined a little; every one must be accepted."""
    accepted, at_once = 0, 50
    with connect(daemon) as connection:
        reader = connection.makefile("rb")
        for at in range(0, count, at_once):
            batch = range(at, min(at + at_once, count))
            connection.sendall(b"".join(
                request_bytes("POST", "/v1/handoffs", bodies[i % len(bodies)],
                              Prefer="respond-async") for i in batch))
            for _ in batch:
                accepted += read_status(reader) == 202
    assert accepted == count, f"{accepted} of {count} were accepted"


def read_status(reader):
    status = int(reader.readline().split()[1])
    length = 0
    while (line := reader.readline().strip()):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    reader.read(length)
    return status


def envelope_bytes(daemon):
    """What one envelope takes, as the daemon wrote it."""
    item = daemon.api.get("/v1/agents").json()
    assert item["items"]
    reply = daemon.api.post("/v1/envelopes", load.handoff(0))
    assert reply.status == 200, reply
    return len(reply.raw)


def waiting(count, with_senders):
    """Memory of each waiting handoff. The daemon has served some first, so that what is made once
    exists already."""
    bodies = [load.handoff(number).encode() for number in range(load.BODIES)]
    with Silent() as silent, Ours("none", silent.url, timeout="10m") as daemon:
        send_async(daemon, bodies, 16)
        eventually(lambda: silent.connections >= 16, "the first are being delivered")
        size = envelope_bytes(daemon)
        before = memory_bytes(daemon.pid)
        begun = time.monotonic()
        with contextlib.ExitStack() as stack:
            if with_senders:
                for i in range(count):
                    sender = stack.enter_context(connect(daemon))
                    sender.sendall(request_bytes("POST", "/v1/handoffs", bodies[i % len(bodies)]))
            else:
                send_async(daemon, bodies, count)
            eventually(lambda: silent.connections >= count + 16,
                       "the receiver has them all", REPLY_SECONDS)
            took = time.monotonic() - begun
            grown = memory_bytes(daemon.pid) - before
            assert daemon.counter("handoff_in_flight") == count + 16
            daemon.kill()  # its drain would wait for the receiver
    return {"count": count, "bytes_each": grown / count, "envelope_bytes": size,
            "beyond_envelope": grown / count - size, "accepted_in_seconds": took}


def polling(count):
    """CPU used by that number of waiting agents, as a share of a core."""
    request = request_bytes("GET", "/v1/agents/coder/inbox?wait=60s")
    with Ours("none", None) as daemon, contextlib.ExitStack() as stack:
        before = memory_bytes(daemon.pid)
        for _ in range(count):
            stack.enter_context(connect(daemon)).sendall(request)
        eventually(lambda: settled(daemon), "all of them wait", REPLY_SECONDS)
        used, begun = daemon.cpu_seconds(), time.monotonic()
        time.sleep(IDLE_SECONDS)
        share = (daemon.cpu_seconds() - used) / (time.monotonic() - begun)
        grown = memory_bytes(daemon.pid) - before
        # a handoff must still come through to one of them
        reply = daemon.api.post("/v1/handoffs", load.handoff(0), prefer="respond-async")
        assert reply.status == 202, reply
        daemon.kill()
    return {"count": count, "core_share": share, "bytes_each": grown / count}


def settled(daemon):
    """Nothing was worked on for a moment."""
    used = daemon.cpu_seconds()
    time.sleep(0.5)
    return daemon.cpu_seconds() - used < 0.02


def starting(starts):
    """Milliseconds from exec to the log line that says ready, store and all new each time."""
    took = []
    for _ in range(starts):
        with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
            command = [os.environ["HANDOFF_EXPORTER"], f"--storage.path={folder}/data",
                       "--web.listen-address=127.0.0.1:0", "--api.listen-address=127.0.0.1:0"]
            begun = time.perf_counter()
            with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
                while b"event=ready" not in process.stderr.readline():
                    assert process.poll() is None
                took.append((time.perf_counter() - begun) * 1e3)
                process.terminate()
                process.stderr.read()
    return {"median_ms": statistics.median(took), "least_ms": min(took), "most_ms": max(took)}


def measuring(seconds=4, connections=100):
    """The observer's share of the daemon's CPU time under load."""
    with Nginx() as nginx, tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        bodies = load.write_bodies(folder)
        with Ours("full", nginx.url, program=MEASURED) as daemon:
            told = load.wrk(daemon, bodies, connections, seconds)
            daemon.terminate()
            daemon.wait()
            line = daemon.log().splitlines()[-1]
    numbers = {name: int(value) for name, _, value in
               (word.partition("=") for word in line.split()[1:])}
    net = max(numbers["ns"] - numbers["events"] * numbers["clock_ns"], 0)
    return {"share": net / numbers["cpu_ns"], "events": numbers["events"],
            "ns_each_handoff": net / told["requests"],
            "events_each_handoff": numbers["events"] / told["requests"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, default=10000)
    parser.add_argument("--pollers", type=int, default=10000)
    parser.add_argument("--starts", type=int, default=11)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    with_senders = min(options.waiting, (DESCRIPTORS - 1000) // 2)
    result = {"machine": load.machine()}

    result["starting"] = starting(options.starts)
    print("start to ready, empty store: median {median_ms:.0f} ms ({least_ms:.0f} to {most_ms:.0f});"
          " goal 50 ms".format(**result["starting"]), flush=True)
    result["measuring"] = measuring()
    print("measuring: {share:.1%} of the daemon's CPU under load, {ns_each_handoff:.0f} ns for the "
          "{events_each_handoff:.1f} events of a handoff".format(**result["measuring"]), flush=True)
    result["waiting"] = waiting(options.waiting, with_senders=False)
    print("{count} handoffs wait for a silent receiver: {beyond_envelope:,.0f} bytes each beyond the "
          "envelope of {envelope_bytes:,} bytes; goal 16,384".format(**result["waiting"]), flush=True)
    result["waiting_with_senders"] = waiting(with_senders, with_senders=True)
    print("{count} of them with senders that wait: {beyond_envelope:,.0f} bytes each".format(
        **result["waiting_with_senders"]), flush=True)
    result["polling"] = polling(options.pollers)
    print("{count} agents poll: {core_share:.2%} of a core, {bytes_each:,.0f} bytes each; "
          "goal 1 %".format(**result["polling"]), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
