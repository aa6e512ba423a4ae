# SPDX-License-Identifier: Apache-2.0
"""HTTP to one listener: whole requests, and raw connections for clients that misbehave."""

import gzip
import http.client
import json
import socket

from . import declared
from .wait import TIMEOUT


class Reply:
    """A status, headers (several of one name are joined by ", ") and a body."""

    def __init__(self, response, body):
        self.status = response.status
        self.headers = response.headers
        self.raw = body
        encoded = response.headers.get("Content-Encoding") == "gzip"
        self.body = gzip.decompress(body) if encoded and body else body

    def header(self, name):
        return self.headers.get(name)

    @property
    def text(self):
        return self.body.decode("utf-8")

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<Reply {self.status} {dict(self.headers)} {self.body[:200]!r}>"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Http:
    """A client of one address: "127.0.0.1:1234", "[::1]:1234" or "unix:/path".

    Each request has its own connection, unless connection() is used.
    """

    def __init__(self, address, tls=None):
        self.address = address
        self.tls = tls  # an ssl.SSLContext, or None
        if not address.startswith("unix:"):
            host, _, port = address.rpartition(":")
            self.host = {"[::]": "127.0.0.1", "0.0.0.0": "127.0.0.1"}.get(host, host).strip("[]")
            self.port = int(port)

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    def connection(self, source=None, timeout=TIMEOUT):
        """An http.client connection that stays open between requests."""
        if self.address.startswith("unix:"):
            return _UnixConnection(self.address[len("unix:"):], timeout)
        source_address = (source, 0) if source else None
        if self.tls:
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout,
                                               context=self.tls, source_address=source_address)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout,
                                          source_address=source_address)

    def socket(self, source=None, timeout=TIMEOUT):
        """A connected plain socket, for requests that no library would send."""
        if self.address.startswith("unix:"):
            raw = socket.socket(socket.AF_UNIX)
            raw.settimeout(timeout)
            raw.connect(self.address[len("unix:"):])
            return raw
        return socket.create_connection((self.host, self.port), timeout=timeout,
                                        source_address=(source, 0) if source else None)

    def request(self, method, path, body=None, headers=None, timeout=TIMEOUT):
        connection = self.connection(timeout=timeout)
        try:
            return exchange(connection, method, path, body, headers)
        finally:
            connection.close()

    def get(self, path, **headers):
        """Headers as keywords: get("/metrics", accept_encoding="gzip")."""
        return self.request("GET", path, headers=named(headers))

    def head(self, path, **headers):
        return self.request("HEAD", path, headers=named(headers))

    def post(self, path, body=b"", **headers):
        return self.request("POST", path, body=body, headers=named(headers))


def named(headers):
    return {name.replace("_", "-"): value for name, value in headers.items()}


def exchange(connection, method, path, body=None, headers=None):
    """One request over an open connection."""
    connection.request(method, path, body=body, headers=headers or {})
    response = connection.getresponse()
    reply = Reply(response, response.read())
    if path.startswith("/v1/"):
        declared.check(method, path, reply)
    return reply


def read_reply(raw):
    """The reply on a raw socket, with the bytes that follow left unread where they can be told."""
    response = http.client.HTTPResponse(raw)
    response.begin()
    return Reply(response, response.read())
