# SPDX-License-Identifier: Apache-2.0
"""A server that the sidecar posts handoffs to. A handler thread waits for the answer; the work is done by a pool.

If the work takes longer than `answer_within`, the answer is 202 and the acknowledgement follows over the API.
"""

import concurrent.futures
import contextlib
import http.server
import json
import logging
import socket
import threading
from typing import TYPE_CHECKING, Any, Iterator, Optional, Set
from urllib.parse import urlsplit

from .client import MemorySpine
from .received import Received
from .seen import Answer

if TYPE_CHECKING:
    from .receive import Worker

log = logging.getLogger("handoff")

BODY_BYTES = 64 * 1024 * 1024
WRITE_SECONDS = 5.0  # for answers, when the work is done


class PushServer:
    def __init__(self, worker: "Worker", spine: MemorySpine) -> None:
        address = urlsplit(worker.agent.receive)
        self.worker = worker
        self.spine = spine
        self.pool = concurrent.futures.ThreadPoolExecutor(worker.agent.concurrency, f"handoff-{worker.agent.name}")
        self.server = _Server((address.hostname or "127.0.0.1", 80 if address.port is None else address.port), _Handler)
        self.server.push = self
        self.url = f"http://{address.hostname}:{self.server.server_port}{address.path or '/'}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.1,), daemon=True)
        self.thread.start()

    def leave(self) -> None:
        self.server.shutdown()

    def stop(self) -> None:
        self.thread.join()
        self.pool.shutdown(wait=True)
        self.server.end()

    def take(self, handoff: Received) -> "concurrent.futures.Future[Optional[Answer]]":
        return self.pool.submit(self.worker.work, handoff)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    push: PushServer

    def __init__(self, *arguments: Any) -> None:
        self.changed = threading.Condition()
        self.open: Set[Any] = set()  # connections; these two are under `changed`
        self.answering = 0  # requests
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.changed:
            self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self.changed:
            self.open.discard(request)
        super().shutdown_request(request)

    @contextlib.contextmanager
    def answered(self) -> Iterator[None]:
        """Around a request until its answer is written, which end() waits for."""
        with self.changed:
            self.answering += 1
        try:
            yield
        finally:
            with self.changed:
                self.answering -= 1
                self.changed.notify_all()

    def end(self) -> None:
        """Closes everything, once the work is done and its answers are written."""
        with self.changed:
            self.changed.wait_for(lambda: self.answering == 0, WRITE_SECONDS)
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        with self.server.answered():
            self._take()

    def _take(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > BODY_BYTES or not self.headers.get("Handoff-Id"):
            self._answer(400, {"detail": "not a handoff: Handoff-Id and Content-Length are required"})
            return
        push = self.server.push
        headers = {name.lower(): value for name, value in self.headers.items()}
        handoff = Received(push.worker.agent.name, push.spine, headers, self.rfile.read(int(length)))
        try:
            future = push.take(handoff)
        except RuntimeError:  # it is stopping
            self._answer(503, {"detail": "shutting down"}, close=True)
            return
        self._wait(handoff, future)

    def _wait(self, handoff: Received, future: "concurrent.futures.Future[Optional[Answer]]") -> None:
        worker = self.server.push.worker
        try:
            answer = future.result(worker.agent.answer_within)
        except concurrent.futures.TimeoutError:
            with worker.lock:
                late = not handoff.finished
                handoff.answers_by_api = late
            if late:  # the worker answers over the API
                self._answer(202, None)
                return
            answer = future.result()
        self._answer(202 if answer is None else 200, answer)

    def _answer(self, status: int, body: Any, close: bool = False) -> None:
        content = b"" if body is None else json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if close:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        log.debug("push: " + format, *arguments)
