# SPDX-License-Identifier: Apache-2.0
"""What bench_channels compares with: NATS JetStream and Redis streams, spoken to in their own protocols.

Each is a context manager for a server with one stream and a durable consumer for each receiver, and run() loads it: one
connection publishes, one for each receiver consumes and acknowledges every message. As for our senders, a limited number
of publications is in progress at a time, and one is over when it is stored and all receivers have acknowledged it.
"""

import itertools
import json
import pathlib
import select
import shutil
import socket
import subprocess
import tempfile
import time

from harness import eventually
from harness.wait import TIMEOUT
from rivals import cpu_seconds, free_port

CHUNK = 1 << 18
STREAM = "news"


class Connection:
    """A socket whose answers are parsed by a generator: it yields where it needs more bytes."""

    def __init__(self, port, parser):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received, self.at = b"", 0
        self.parser = parser(self)
        next(self.parser)

    def fileno(self):
        return self.socket.fileno()

    def send(self, data):
        self.socket.sendall(data)

    def pump(self):
        data = self.socket.recv(CHUNK)
        if not data:
            raise SystemExit("the server closed a connection")
        self.received = self.received[self.at:] + data
        self.at = 0
        self.parser.send(None)

    def line(self):
        """The next line, without its end."""
        while (end := self.received.find(b"\r\n", self.at)) < 0:
            yield
        line, self.at = self.received[self.at:end], end + 2
        return line

    def skip(self, size):
        """Past a body and its end of line."""
        while len(self.received) < self.at + size + 2:
            yield
        self.at += size + 2

    def body(self, size):
        yield from self.skip(size)
        return self.received[self.at - size - 2:self.at - 2]


class Streams:
    """The server, and the load. Who implements it says how to publish and to consume."""

    NAME = DURABILITY = ""

    def __init__(self, receivers):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="handoff-bench-"))
        self.port = free_port()
        self.stored = 0  # publications that the server confirmed
        self.acknowledged = [0] * receivers
        self.refused = None
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self.accepts, f"{self.NAME} accepts connections")
        self.publisher = self.connect_publisher()
        self.consumers = [self.connect_consumer(number) for number in range(receivers)]

    def accepts(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT).close()
        except ConnectionRefusedError:
            return False
        return True

    def over(self):
        return min(self.stored, *self.acknowledged) if self.acknowledged else self.stored

    def run(self, bodies, in_progress, seconds):
        """Deliveries acknowledged per second, and the server's CPU time for each."""
        bodies = itertools.cycle(bodies)
        poll = select.epoll()
        connections = {one.fileno(): one for one in [self.publisher, *self.consumers]}
        for number in connections:
            poll.register(number, select.EPOLLIN)
        published, begun, used = 0, time.monotonic(), cpu_seconds(self.process.pid)
        while (now := time.monotonic()) < begun + seconds:
            count = in_progress - (published - self.over())
            if count > 0:
                self.publisher.send(b"".join(self.publication(next(bodies)) for _ in range(count)))
                published += count
            for number, _ in poll.poll(TIMEOUT):
                connections[number].pump()
            if self.refused:
                raise SystemExit(f"{self.NAME} refused: {self.refused}")
        deliveries = sum(self.acknowledged)
        used = cpu_seconds(self.process.pid) - used
        poll.close()
        return {"per_second": deliveries / (now - begun), "cpu_us": used / max(deliveries, 1) * 1e6}

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        for one in [self.publisher, *self.consumers]:
            one.socket.close()
        self.process.terminate()
        self.process.wait(TIMEOUT)
        shutil.rmtree(self.folder)


class Nats(Streams):
    NAME = "NATS JetStream"
    DURABILITY = "in a file, synced every 2 minutes; acknowledgements are not confirmed"

    def command(self):
        config = self.folder / "config"
        config.write_text(f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.folder}" }}\n')
        return ["nats-server", "-c", str(config)]

    def connect(self, parser):
        connection = Connection(self.port, parser)
        connection.send(b'CONNECT {"verbose":false,"pedantic":false}\r\n')
        return connection

    def ask(self, connection, subject, request):
        """One call of JetStream's API, whose answer is looked at in `told`."""
        text = json.dumps(request).encode()
        self.told = None
        connection.send(b"PUB $JS.API.%s answers %d\r\n%s\r\n" % (subject.encode(), len(text), text))
        while not self.told:
            connection.pump()
        if b'"error"' in self.told:
            raise SystemExit(f"{subject}: {self.told.decode()}")

    def connect_publisher(self):
        connection = self.connect(self.read_answers)
        connection.send(b"SUB answers 1\r\nSUB stored 2\r\n")
        self.ask(connection, f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": [STREAM], "storage": "file",
                                                         "max_bytes": 1 << 30})
        return connection

    def connect_consumer(self, number):
        connection = self.connect(lambda connection: self.consume(connection, number))
        connection.send(b"SUB deliver.%d 1\r\n" % number)
        self.ask(self.publisher, f"CONSUMER.DURABLE.CREATE.{STREAM}.receiver-{number}",
                 {"stream_name": STREAM, "config": {
                     "durable_name": f"receiver-{number}", "deliver_subject": f"deliver.{number}",
                     "deliver_policy": "all", "ack_policy": "explicit", "max_ack_pending": 10000}})
        return connection

    def publication(self, body):
        return b"PUB %s stored %d\r\n%s\r\n" % (STREAM.encode(), len(body), body)

    def read_answers(self, connection):
        while True:
            words = (yield from connection.line()).split(b" ")
            if words[0] == b"MSG":
                answer = yield from connection.body(int(words[-1]))
                if words[1] == b"answers":
                    self.told = answer
                elif b'"error"' in answer:
                    self.refused = answer.decode()
                else:
                    self.stored += 1
            elif words[0] == b"PING":
                connection.send(b"PONG\r\n")

    def consume(self, connection, number):
        while True:
            words = (yield from connection.line()).split(b" ")
            if words[0] == b"MSG":
                yield from connection.skip(int(words[-1]))
                if len(words) == 5:
                    connection.send(b"PUB %s 4\r\n+ACK\r\n" % words[3])
                    self.acknowledged[number] += 1
            elif words[0] == b"PING":
                connection.send(b"PONG\r\n")


class Redis(Streams):
    NAME = "Redis streams"
    DURABILITY = "appended and synced before each answer (appendfsync always)"
    TOGETHER = 100  # messages that a consumer reads and acknowledges at once

    def command(self):
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "",
                "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]

    @staticmethod
    def command_of(*words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    def accepts(self):
        return super().accepts() and b"Ready to accept" in (self.folder / "log").read_bytes()

    def connect_publisher(self):
        return Connection(self.port, self.read_stored)

    def connect_consumer(self, number):
        group = f"receiver-{number}"
        connection = Connection(self.port, lambda connection: self.consume(connection, number))
        connection.send(self.command_of("XGROUP", "CREATE", STREAM, group, "0", "MKSTREAM"))
        connection.pump()
        return connection

    def publication(self, body):
        return self.command_of("XADD", STREAM, "MAXLEN", "~", 100000, "*", "b", body)

    def value(self, connection):
        """One answer: a list, a text, a number or None."""
        line = yield from connection.line()
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            self.refused = rest.decode()
        if kind in b"*" and int(rest) >= 0:
            items = []
            for _ in range(int(rest)):
                items.append((yield from self.value(connection)))
            return items
        if kind == b"$" and int(rest) >= 0:
            return (yield from connection.body(int(rest)))
        return rest

    def read_stored(self, connection):
        while True:
            yield from self.value(connection)
            self.stored += 1

    def consume(self, connection, number):
        group = f"receiver-{number}"
        read = self.command_of("XREADGROUP", "GROUP", group, "one", "COUNT", self.TOGETHER, "BLOCK", 0, "STREAMS", STREAM,
                               ">")
        yield from self.value(connection)  # the group was made
        connection.send(read)
        while True:
            answer = yield from self.value(connection)
            ids = [message[0] for message in answer[0][1]]
            connection.send(self.command_of("XACK", STREAM, group, *ids))
            yield from self.value(connection)
            self.acknowledged[number] += len(ids)
            connection.send(read)
