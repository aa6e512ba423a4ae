# SPDX-License-Identifier: Apache-2.0
"""HTTP over connections that stay open. Safe to use from several threads: each call takes a connection of the pool.

A connection that the sidecar closed while it was idle is noticed only when the next request fails on it. Such a request
is sent again over a new connection at once, without counting as a failure.
"""

import contextlib
import http.client
import os
import socket
import ssl
import threading
import time
from typing import Dict, Iterator, List, Optional, Set

from .errors import UnreachableError
from .flows import Request, Response, parts

CONNECT_SECONDS = 5.0


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Transport:
    def __init__(self, endpoint: str, tls: Optional[ssl.SSLContext] = None) -> None:
        self.scheme, self.host, self.port, self.prefix = parts(endpoint)
        self.endpoint = endpoint
        self.tls = ssl.create_default_context() if self.scheme == "https" and tls is None else tls
        self.lock = threading.Lock()
        self.idle: List[http.client.HTTPConnection] = []
        self.busy: Set[http.client.HTTPConnection] = set()
        self.owner = os.getpid()
        self.closed = False

    def exchange(self, request: Request) -> Response:
        end = time.monotonic() + request.timeout
        with self._connection() as connection:
            if connection.sock is not None:
                try:
                    return self._exchange(connection, request, end)
                except socket.timeout:
                    raise  # it was open, and there is no answer
                except (OSError, http.client.HTTPException):
                    connection.close()  # it was closed while it was idle
                    self._close_idle()
                    if self.closed:
                        raise
            return self._exchange(connection, request, end)

    @contextlib.contextmanager
    def follow(self, request: Request) -> Iterator["Following"]:
        """An answer that is read while it comes, over a connection of its own."""
        with self._connection() as connection:
            try:
                connection.close()
                yield Following(connection, self._begin(connection, request, time.monotonic() + request.timeout),
                                request.timeout)
            finally:
                connection.close()

    def close(self) -> None:
        """Closes all connections; requests in progress fail, and so do later ones."""
        self.closed = True
        self._close_idle()
        with self.lock:
            busy = list(self.busy)
        for connection in busy:
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _exchange(self, connection: http.client.HTTPConnection, request: Request, end: float) -> Response:
        try:
            answer = self._begin(connection, request, end)
            response = Response(answer.status, _lower(answer), answer.read())
            _check_whole(answer, response)
            return response
        except BaseException:
            connection.close()
            raise

    def _begin(self, connection: http.client.HTTPConnection, request: Request, end: float) -> http.client.HTTPResponse:
        """Sends it; the body of the answer is still to be read, in the time that is left then."""
        if connection.sock is None:
            connection.timeout = min(CONNECT_SECONDS, _left(end))
            connection.connect()
            self._check_open()  # close() saw no socket
        sock = connection.sock  # which a last answer takes from the connection
        assert sock is not None
        sock.settimeout(_left(end))
        connection.request(request.method, self.prefix + request.path, request.body, request.headers)
        sock.settimeout(_left(end))
        answer = connection.getresponse()
        sock.settimeout(_left(end))
        return answer

    @contextlib.contextmanager
    def _connection(self) -> Iterator[http.client.HTTPConnection]:
        connection = self._take()
        try:
            yield connection
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, UnreachableError):
                raise
            raise unreachable(self.endpoint, error, isinstance(error, socket.timeout)) from error
        finally:
            self._give_back(connection)

    def _take(self) -> http.client.HTTPConnection:
        with self.lock:
            if self.owner != os.getpid():  # a fork shares no connection with its parent
                self.idle, self.busy, self.owner = [], set(), os.getpid()
            self._check_open()
            connection = self.idle.pop() if self.idle else self._new()
            self.busy.add(connection)
        return connection

    def _check_open(self) -> None:
        if self.closed:
            raise UnreachableError(f"{self.endpoint}: the client was closed", code="closed")

    def _new(self) -> http.client.HTTPConnection:
        if self.scheme == "unix":
            return _UnixConnection(self.host, CONNECT_SECONDS)
        if self.tls is not None:
            return http.client.HTTPSConnection(self.host, self.port, timeout=CONNECT_SECONDS, context=self.tls)
        return http.client.HTTPConnection(self.host, self.port, timeout=CONNECT_SECONDS)

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self.lock:
            self.busy.discard(connection)
            if connection.sock is not None and not self.closed:
                self.idle.append(connection)
                return
        connection.close()

    def _close_idle(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for connection in idle:
            connection.close()


class Following:
    """An answer without an end, line by line. `response` has a body only if the answer is an error."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse, silence: float) -> None:
        self._socket: Optional[socket.socket] = connection.sock
        if self._socket is not None:
            self._socket.settimeout(silence)
        self._answer = answer
        self.response = Response(answer.status, _lower(answer), answer.read() if answer.status >= 400 else b"")

    def lines(self) -> Iterator[bytes]:
        while True:
            line = self._answer.readline()
            if not line:
                return
            yield line

    def leave(self) -> None:
        """Ends our side, which the sidecar answers by ending its own. What is on its way still arrives."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_WR)  # also below TLS


def unreachable(endpoint: str, error: Exception, late: bool) -> UnreachableError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return UnreachableError(f"{endpoint}: {error.verify_message}", code="bad_certificate")
    detail = "no answer in time" if late else str(error) or type(error).__name__
    return UnreachableError(f"{endpoint}: {detail}", code="unreachable")


def _left(end: float) -> float:
    """Seconds; a socket takes 0 for "at once"."""
    left = end - time.monotonic()
    if left <= 0:
        raise socket.timeout()
    return left


def _check_whole(answer: http.client.HTTPResponse, response: Response) -> None:
    """http.client takes a head that was cut off for an answer without a body."""
    if not response.body and response.status not in (204, 304) and not answer.chunked:
        if response.headers.get("content-length") != "0":
            raise http.client.IncompleteRead(b"")


def _lower(answer: http.client.HTTPResponse) -> Dict[str, str]:
    return {name.lower(): value for name, value in answer.getheaders()}
