# SPDX-License-Identifier: Apache-2.0
"""Minimal HTTP with asyncio, client and server, for tests with many requests in flight."""

import asyncio
import json
import re

HEADER = re.compile(rb"\r\n([A-Za-z-]+): *([^\r\n]*)")


async def read_message(reader):
    """The first line, the headers with lower-case names, the body. IncompleteReadError at the end."""
    head = await reader.readuntil(b"\r\n\r\n")
    headers = {name.lower().decode(): value.decode() for name, value in HEADER.findall(head)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return head.split(b"\r\n", 1)[0].decode(), headers, body.decode()


class Connection:
    """A kept-alive connection to 127.0.0.1; any failure is a ConnectionError."""

    def __init__(self, port):
        self.port = port  # called for each connection; None: no listener at the moment
        self.streams = None

    async def call(self, method, path, body=None, **headers):
        """(status, text); headers as keywords: idempotency_key="1". A body of bytes is sent as it is."""
        data = b""
        if isinstance(body, bytes):
            data = body
        elif body is not None:
            data = json.dumps(body, ensure_ascii=False).encode()
        extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        try:
            if self.streams is None:
                port = self.port()
                if port is None:
                    raise ConnectionError("no listener")
                self.streams = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
            reader, writer = self.streams
            writer.write(f"{method} {path} HTTP/1.1\r\nHost: daemon\r\nContent-Length: {len(data)}\r\n{extra}\r\n"
                         .encode() + data)
            first, got, text = await read_message(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            raise ConnectionError(str(error)) from error
        if got.get("connection", "").lower() == "close":
            self.close()
        return int(first.split()[1]), text

    def close(self):
        if self.streams:
            self.streams[1].close()
        self.streams = None


async def serve(answer):
    """(server, port) of a receiver; `answer` takes path, headers and body, and returns (status, object)."""
    async def converse(reader, writer):
        try:
            while True:
                first, headers, body = await read_message(reader)
                status, said = await answer(first.split()[1], headers, body)
                text = json.dumps(said, ensure_ascii=False).encode()
                writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
    server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=1 << 24)
    return server, server.sockets[0].getsockname()[1]
