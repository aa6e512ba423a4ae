# SPDX-License-Identifier: Apache-2.0
"""A receiving agent that does what its script says and records every request.

    with Receiver(status(503), ack) as receiver:        # refuses once, then always acknowledges
        ... agents: {coder: {url: <receiver.url>}} ...
        first, second = receiver.wait_for(2)

A step of the script is a function that is given the Request and answers it; the last one repeats.
"""

import http.server
import json
import socket
import struct
import threading

from .wait import TIMEOUT, eventually


class Request:
    """What the receiver was sent. The rest of this class is for steps, to answer with."""

    def __init__(self, handler, body):
        self.path = handler.path
        self.headers = handler.headers
        self.raw = body
        self.handler = handler
        self.answered = False

    @property
    def id(self):
        return self.headers["Handoff-Id"]

    @property
    def attempt(self):
        return int(self.headers["Handoff-Attempt"])

    def json(self):
        return json.loads(self.raw)

    def answer(self, status, body=b"", **headers):
        """Headers as keywords: retry_after="1"."""
        self.answered = True
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        handler = self.handler
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)


# ---- steps

def ack(request):
    request.answer(200, {"ack": request.id})


def ack_by_header(request):
    request.answer(204, handoff_ack=request.id)


def ack_wrong(request):
    request.answer(200, {"ack": "01890a5d-ac96-774b-bcce-b302099a8057"})


def later(request):
    """Announces that the acknowledgement comes over the API."""
    request.answer(202)


def nack(reason, retry, code=200):
    return lambda request: request.answer(
        code, {"nack": request.id, "reason": reason, "retry": retry})


def status(code, body=b"", **headers):
    return lambda request: request.answer(code, body, **headers)


def cut(request):
    """Promises a body and closes in the middle of it."""
    request.answered = True
    request.handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"ack\"")
    request.handler.close_connection = True


def hang_up(request):
    """Closes without an answer."""
    request.answered = True
    request.handler.close_connection = True


def reset(request):
    """Resets the connection, below whatever TLS there is."""
    request.answered = True
    request.handler.close_connection = True
    with socket.socket(fileno=request.handler.request.detach()) as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def saying(raw):
    """These bytes instead of an answer, and closes."""
    def step(request):
        request.answered = True
        request.handler.wfile.write(raw)
        request.handler.close_connection = True
    return step


# Something that is not HTTP.
garbage = saying(b"\x00\xff\x16SSH-2.0-what\r\n\r\n" * 10)


class Flood:
    """Answers with that number of bytes, in one promised body, chunks or a header, until it is cut."""

    def __init__(self, size=100_000_000, kind="promised"):
        self.size, self.kind = size, kind
        self.taken = []  # what was sent of each, as far as the other side took it

    def __call__(self, request):
        request.answered = True
        request.handler.close_connection = True
        write, block, sent = request.handler.wfile.write, b"x" * 65536, 0
        head = {"promised": b"Content-Length: %d\r\n\r\n" % self.size,
                "chunked": b"Transfer-Encoding: chunked\r\n\r\n", "header": b""}[self.kind]
        frame = {"promised": b"%s", "chunked": b"10000\r\n%s\r\n", "header": b"X-A: %s\r\n"}
        try:
            write(b"HTTP/1.1 200 OK\r\n" + head)
            while sent < self.size:
                write(frame[self.kind] % block)
                sent += len(block)
        finally:
            self.taken.append(sent)


class Drip:
    """Answers rightly, but a byte at a time, until it is cut; is done after seconds."""

    def __init__(self):
        self.over = threading.Event()

    def release(self):
        self.over.set()

    def __call__(self, request):
        request.answered = True
        request.handler.close_connection = True
        body = json.dumps({"ack": request.id}).encode()
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body):
            request.handler.wfile.write(bytes([byte]))
            if self.over.wait(0.02):  # 100 bytes and more take two seconds
                return


class Hold:
    """Does not answer until release(), then does `step`."""

    def __init__(self, step=ack):
        self.step = step
        self.released = threading.Event()

    def release(self):
        self.released.set()

    def __call__(self, request):
        self.released.wait(TIMEOUT)
        self.step(request)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256  # of 5, Linux drops what else connects at once, and it waits for seconds

    def handle_error(self, request, client_address):
        pass  # a client that went away, or refused our certificate: tests see that at its side


class Receiver:
    """tls: an ssl.SSLContext for a receiver that speaks https"""

    def __init__(self, *script, tls=None):
        self.tls = tls
        self.script = list(script) or [ack]
        self.lock = threading.Lock()
        self.seen = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # an answer is two writes; the second would wait 40 ms

            def setup(self):
                if tls:  # the handshake comes with the first byte, on the connection's own thread
                    self.request = tls.wrap_socket(self.request, server_side=True,
                                                   do_handshake_on_connect=False)
                super().setup()

            def finish(self):
                try:
                    super().finish()
                finally:
                    self.request.close()

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                step, request = receiver.take(Request(self, body))
                try:
                    step(request)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # the client had enough, which tests see at its side
                if not request.answered:
                    self.close_connection = True

            def log_message(self, *arguments):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def take(self, request):
        with self.lock:
            self.seen.append(request)
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return step, request

    @property
    def address(self):
        return f"127.0.0.1:{self.server.server_port}"

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://{self.address}/handoffs"

    @property
    def requests(self):
        with self.lock:
            return list(self.seen)

    def wait_for(self, count):
        """The requests, as soon as there are `count`."""
        eventually(lambda: len(self.requests) >= count, f"the receiver has {count} requests")
        return self.requests

    def do(self, *script):
        """What it does from now on."""
        with self.lock:
            self.script = list(script)

    def close(self):
        for step in self.script:
            if isinstance(step, (Hold, Drip)):
                step.release()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(TIMEOUT)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close()
