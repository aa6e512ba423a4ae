# SPDX-License-Identifier: Apache-2.0
"""A server of facts, as a remote spine may be: in memory, with troubles that take the place of its answers."""

import http.server
import json
import socket
import struct
import threading
import urllib.parse

from harness.receiver import Server

TABLE = {
    "memory": {"content": "/text", "scope": "/tenant", "created_at": "/created"},
    "operations": {
        "get": {"method": "GET", "path": "/facts/{id}", "memories": "/fact"},
        "get_many": {"method": "POST", "path": "/facts/batch", "body": {"keys": "{ids}"}, "memories": "/facts"},
        "search": {"method": "POST", "path": "/search", "body": {"q": "{query}", "top": "{limit}"}, "memories": "/facts"},
        "recent": {"method": "GET", "path": "/facts?newest={limit}", "memories": "/facts"},
        "pinned": {"method": "GET", "path": "/facts?pinned=1", "memories": "/facts"},
        "put": {"method": "PUT", "path": "/facts/{id}", "body": {
            "id": "{id}", "text": "{content}", "tenant": "{scope}", "agent": "{agent}", "pinned": "{pinned}"}},
        "delete": {"method": "DELETE", "path": "/facts/{id}"}}}


class FactServer:
    """A server of facts in memory; `trouble` takes the place of its answers. tls: an ssl.SSLContext."""

    def __init__(self, tls=None):
        self.scheme = "https" if tls else "http"
        self.facts, self.seen, self.trouble = {}, [], None
        self.release = threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self):
                if tls:  # the handshake comes with the first byte, on the connection's thread
                    self.request = tls.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
                super().setup()

            def finish(self):
                try:
                    super().finish()
                finally:
                    self.request.close()

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except OSError:  # the client has left, or was not let in
                    self.close_connection = True

            def any_method(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.seen.append((self.command, self.path, body, dict(self.headers)))
                if server.trouble:
                    self.close_connection = True
                    server.trouble(self)
                else:
                    self.reply(*server.answer(self.command, self.path, body))

            do_GET = do_POST = do_PUT = do_DELETE = any_method

            def reply(self, status, document=None, **headers):
                text = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *arguments):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}"

    def store(self, name, text="a fact", **more):
        self.facts[name] = {"id": name, "text": text, "created": 1700000000 + len(self.facts), **more}

    def answer(self, method, path, body):
        parts = urllib.parse.urlsplit(path)
        name = urllib.parse.unquote(parts.path.removeprefix("/facts/"))
        query = urllib.parse.parse_qs(parts.query)
        document = json.loads(body) if body else {}
        if parts.path == "/facts/batch":
            found = [self.facts[key] for key in document["keys"] if key in self.facts]
        elif parts.path == "/search":
            found = [fact for fact in self.facts.values() if set(fact["text"].split()) & set(document["q"].split())]
            found = found[:document["top"]]
        elif parts.path == "/facts" and "pinned" in query:
            found = [fact for fact in self.facts.values() if fact.get("pinned")]
        elif parts.path == "/facts":
            found = list(self.facts.values())[::-1][:int(query["newest"][0])]
        elif method == "PUT":
            self.store(name, **{key: value for key, value in document.items() if key != "id"})
            return 200, self.facts[name]
        elif name not in self.facts:
            return 404, {"error": "no such fact"}
        elif method == "DELETE":
            del self.facts[name]
            return 204, None
        else:
            return 200, {"fact": self.facts[name]}
        return 200, {"facts": found}

    def asked(self, *starts):
        """Requests to these paths, without probes."""
        return [entry for entry in self.seen if entry[1].startswith(starts) and "probe" not in entry[1]]

    # ---- troubles

    def silent(self, _):
        self.release.wait(20)

    def drip(self, handler):
        try:
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + b" " * 500:
                handler.wfile.write(bytes([byte]))
                if self.release.wait(0.02):
                    return
        except OSError:
            pass  # the other side has had enough

    @staticmethod
    def flood(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(100_000_000))
        handler.end_headers()
        try:
            for _ in range(1600):
                handler.wfile.write(b"x" * 65536)
        except OSError:
            pass

    @staticmethod
    def reset(handler):
        with socket.socket(fileno=handler.request.detach()) as plain:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    @staticmethod
    def not_http(handler):
        handler.wfile.write(b"\x00\xff\x16SSH-2.0-what\r\n\r\n" * 10)

    @staticmethod
    def not_json(handler):
        text = b"<html>it works</html>"
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))

    @staticmethod
    def another_document(handler):
        handler.reply(200, {"items": 7})

    def redirect(self, handler):
        handler.reply(302, None, Location=self.url + "/elsewhere")

    @staticmethod
    def fails(handler):
        handler.reply(500, {"error": "oh no"})

    @staticmethod
    def rejects(handler):
        handler.reply(401, {"error": "who are you"})

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close()
