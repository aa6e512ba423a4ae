# SPDX-License-Identifier: Apache-2.0
"""What the delivery benchmark sets side by side: nginx as the receiver, HAProxy, and our daemon.

Each is a context manager with .url to POST to and .cpu_seconds() of all of its processes.
"""

import http.client
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import tempfile

from harness import Daemon, eventually
from harness.wait import TIMEOUT

TICKS = os.sysconf("SC_CLK_TCK")
CORES = len(os.sched_getaffinity(0))
DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_seconds(pid):
    """User and system time of a process with all its threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def children(pid):
    lists = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in lists for child in file.read_text().split()]


def memory_bytes(pid, name="VmRSS"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise ValueError(name)


class Server:
    """A program that serves on its own port, with its configuration in its own folder."""

    def __init__(self, **settings):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="handoff-bench-"))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/handoffs"
        settings.update(port=self.port, folder=self.folder, cores=CORES, descriptors=DESCRIPTORS)
        config = self.folder / "config"
        config.write_text(self.CONFIG.format(**settings), encoding="utf-8")
        self.process = subprocess.Popen(self.command(config), stdin=subprocess.DEVNULL)
        eventually(self.answers, f"{type(self).__name__} answers")

    def answers(self):
        assert self.process.poll() is None, "it ended"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request("POST", "/handoffs", b"{}")
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def cpu_seconds(self):
        pids = [self.process.pid, *children(self.process.pid)]
        return sum(cpu_seconds(pid) for pid in pids)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.process.terminate()
        self.process.wait(TIMEOUT)
        shutil.rmtree(self.folder)


class Nginx(Server):
    """The receiver: takes the body and acknowledges by header, as an agent does."""

    CONFIG = """
        worker_processes {cores};
        worker_rlimit_nofile {descriptors};
        daemon off;
        pid {folder}/pid;
        error_log stderr error;
        events {{ worker_connections {descriptors}; }}
        http {{
            access_log off;
            client_body_temp_path {folder}/body;
            proxy_temp_path {folder}/proxy;
            fastcgi_temp_path {folder}/fastcgi;
            uwsgi_temp_path {folder}/uwsgi;
            scgi_temp_path {folder}/scgi;
            client_body_buffer_size 64k;
            keepalive_requests 1000000000;
            keepalive_timeout 300s;
            server {{
                listen 127.0.0.1:{port} backlog=4096;
                location / {{
                    add_header Handoff-Ack $http_handoff_id;
                    return 200;
                }}
            }}
        }}
        """

    def command(self, config):
        return ["nginx", "-e", "stderr", "-c", str(config), "-p", str(self.folder)]


class Haproxy(Server):
    """The peer: forwards the same POST to the same receiver, over connections that it keeps."""

    CONFIG = """
global
    nbthread {cores}
    maxconn {connections}

defaults
    mode http
    maxconn {connections}
    timeout connect 5s
    timeout client 120s
    timeout server 120s
    option http-keep-alive
    http-reuse always

frontend agents
    bind 127.0.0.1:{port} backlog 4096
    default_backend receiver

backend receiver
    server receiver 127.0.0.1:{receiver}
"""

    def __init__(self, receiver):
        super().__init__(receiver=receiver.port, connections=(DESCRIPTORS - 1000) // 2)

    def command(self, config):
        return ["haproxy", "-db", "-q", "-f", str(config)]


def configuration(durability, url, sections, **defaults):
    """Limits as high as they go, so that none of them is what is measured."""
    agent = {"url": url} if url else {}
    return json.dumps({
        "agents": {"coder": {**agent, "token_budget": 1000000, **defaults}},
        "storage": {"durability": durability},
        "api": {"max_in_flight": 100000, "max_in_flight_per_agent": 100000},
        **sections,
    })


class Ours(Daemon):
    """The daemon, in front of a receiver; the store is under $TMPDIR, which should be a disk."""

    def __init__(self, durability, url, program=None, wrapper=(), sections=(), **defaults):
        super().__init__("--shutdown.timeout=200ms", start=False,
                         config=configuration(durability, url, dict(sections), **defaults))
        if program:
            self.command[0] = program
        self.command[:0] = wrapper
        self.start()

    @property
    def url(self):
        return self.api.url + "/v1/handoffs"

    @property
    def pid(self):
        return self.process.pid

    def cpu_seconds(self):
        return cpu_seconds(self.pid)

    def counter(self, name, **labels):
        """The sum of a counter's series that have these labels."""
        total = 0.0
        for line in self.web.get("/metrics").text.splitlines():
            if line.startswith((name + "{", name + " ")) and all(
                    f'{label}="{value}"' in line for label, value in labels.items()):
                total += float(line.rpartition(" ")[2])
        return total

    def longest_turn_ms(self):
        """Of the API's loops, since the start."""
        return 1000 * self.counter("handoff_exporter_loop_turn_max_seconds", loop="api")
