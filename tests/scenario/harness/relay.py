# SPDX-License-Identifier: Apache-2.0
"""Runs between a scraper and its target, and keeps what they say to each other."""

import collections
import http.server
import threading

from .http import Http

# One request and its answer; the headers of the request are those of the scraper.
Exchange = collections.namedtuple("Exchange", "path headers reply")

HOP_BY_HOP = {"host", "connection", "transfer-encoding", "content-length", "date"}


class Relay:
    """A context manager. accept: what the target is asked for instead of the scraper's Accept."""

    def __init__(self, target, accept=None):
        self.target = Http(target)
        self.accept = accept
        self.exchanges = []
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                relay.pass_on(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True  # connections that are kept do not hold the end
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.server.server_address[1]

    def pass_on(self, request):
        headers = {name: value for name, value in request.headers.items()
                   if name.lower() not in HOP_BY_HOP}
        if self.accept is not None:
            headers["Accept"] = self.accept
        reply = self.target.request("GET", request.path, headers=headers)
        self.exchanges.append(Exchange(request.path, request.headers, reply))
        request.send_response(reply.status)
        for name, value in reply.headers.items():
            if name.lower() not in HOP_BY_HOP:
                request.send_header(name, value)
        request.send_header("Content-Length", str(len(reply.raw)))
        request.end_headers()
        request.wfile.write(reply.raw)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
