# SPDX-License-Identifier: Apache-2.0
"""HTTP over asyncio streams, with connections that stay open. Belongs to one event loop at a time.

As in transport.py, a request that fails on a connection which was idle is sent again at once over a new one.
"""

import asyncio
import http.client
import io
import ssl
from typing import Dict, List, Optional, Set

from .errors import UnreachableError
from .flows import Request, Response, parts
from .transport import CONNECT_SECONDS, unreachable

HEAD_BYTES = 64 * 1024


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.reused = False
        self.keep = True

    async def exchange(self, request: Request, host: str, prefix: str) -> Response:
        headers = {"Host": host, **request.headers}
        if request.body is not None or request.method in ("POST", "PUT"):
            headers["Content-Length"] = str(len(request.body or b""))
        lines = [f"{request.method} {prefix}{request.path} HTTP/1.1"]
        lines += [f"{name}: {text}" for name, text in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (request.body or b""))
        await self.writer.drain()
        return await self._response()

    async def _response(self) -> Response:
        status = 100
        while status // 100 == 1:  # informational: the answer follows
            line, _, rest = (await self.reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
            version, code, *_ = line.decode("latin-1").split(" ", 2)
            if not version.startswith("HTTP/1.") or not code.isdigit():
                raise http.client.BadStatusLine(line.decode("latin-1"))
            status = int(code)
        headers = {name.lower(): text for name, text in http.client.parse_headers(io.BytesIO(rest)).items()}
        self.keep = headers.get("connection", "").lower() != "close"
        return Response(status, headers, await self._body(status, headers))

    async def _body(self, status: int, headers: Dict[str, str]) -> bytes:
        if status in (204, 304):
            return b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await self._chunks()
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        self.keep = False
        return await self.reader.read()

    async def _chunks(self) -> bytes:
        body = b""
        while True:
            size = int((await self.reader.readline()).split(b";")[0], 16)
            body += await self.reader.readexactly(size)
            line = await self.reader.readline()
            if size == 0:
                while line.strip():  # trailers
                    line = await self.reader.readline()
                return body

    def close(self) -> None:
        self.keep = False
        self.writer.close()


class AsyncTransport:
    def __init__(self, endpoint: str, tls: Optional[ssl.SSLContext] = None) -> None:
        self.scheme, self.host, self.port, self.prefix = parts(endpoint)
        self.endpoint = endpoint
        self.tls = ssl.create_default_context() if self.scheme == "https" and tls is None else tls
        self.named = "localhost" if self.scheme == "unix" else f"[{self.host}]" if ":" in self.host else self.host
        if self.scheme != "unix":
            self.named += f":{self.port}"
        self.idle: List[_Connection] = []
        self.busy: Set[_Connection] = set()
        self.closed = False
        self.loop: Optional[asyncio.AbstractEventLoop] = None  # of the connections

    async def exchange(self, request: Request) -> Response:
        if self.loop is not asyncio.get_running_loop():  # another asyncio.run(): connections end with their loop
            self.idle, self.busy, self.loop = [], set(), asyncio.get_running_loop()
        try:
            return await asyncio.wait_for(self._exchange(request), request.timeout)
        except (OSError, EOFError, ValueError, http.client.HTTPException, asyncio.TimeoutError,
                asyncio.LimitOverrunError) as error:
            if self.closed:
                raise UnreachableError(f"{self.endpoint}: the client was closed", code="closed") from error
            raise unreachable(self.endpoint, error, isinstance(error, asyncio.TimeoutError)) from error

    async def _exchange(self, request: Request) -> Response:
        while True:
            if self.closed:
                raise ConnectionError()
            connection = self.idle.pop() if self.idle else await asyncio.wait_for(self._connect(), CONNECT_SECONDS)
            self.busy.add(connection)
            try:
                return await connection.exchange(request, self.named, self.prefix)
            except (ConnectionError, asyncio.IncompleteReadError):
                connection.close()
                if not connection.reused or self.closed:
                    raise
            except BaseException:  # also where the caller cancels it: the answer would belong to no request
                connection.close()
                raise
            finally:
                self._give_back(connection)

    async def close(self) -> None:
        """Closes all connections; requests in progress fail, and so do later ones."""
        self.closed = True
        for connection in [*self.idle, *self.busy]:
            connection.close()
        self.idle = []

    async def _connect(self) -> _Connection:
        if self.scheme == "unix":
            return _Connection(*await asyncio.open_unix_connection(self.host, limit=HEAD_BYTES))
        return _Connection(*await asyncio.open_connection(self.host, self.port, ssl=self.tls, limit=HEAD_BYTES))

    def _give_back(self, connection: _Connection) -> None:
        self.busy.discard(connection)
        connection.reused = True
        if connection.keep and not self.closed:
            self.idle.append(connection)
        else:
            connection.close()
