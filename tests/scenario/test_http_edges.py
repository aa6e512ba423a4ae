# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Requests at the edge of HTTP: what is ambiguous is refused once, and nothing hides behind it."""

import ctypes
import ctypes.util
import http.client
import re
import unittest

from harness import Daemon
from harness.http import read_reply

STATUS_LINE = re.compile(rb"HTTP/1\.[01] \d{3}")
PROBLEM = "application/problem+json"
# Version 1 of libmicrohttpd refuses most of this by itself, with a page of HTML.
LIBRARY = ctypes.CDLL(ctypes.util.find_library("microhttpd"))
LIBRARY.MHD_get_version.restype = ctypes.c_char_p
LIBRARY_REFUSES = not LIBRARY.MHD_get_version().startswith(b"0.")
HIDDEN = b"GET /v1/agents HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"


def post(*headers, version=b"1.1"):
    """The head of a POST that assembles nothing, whatever its body."""
    return (b"POST /v1/envelopes HTTP/" + version + b"\r\nHost: x\r\n"
            + b"".join(header + b"\r\n" for header in headers) + b"\r\n")


AMBIGUOUS = (
    ("two lengths", post(b"Content-Length: 2", b"Content-Length: 40") + b"{}", "Content-Length"),
    ("two lengths, shorter first", post(b"Content-Length: 40", b"Content-Length: 2") + b"{}",
     "Content-Length"),
    ("one number, two spellings", post(b"Content-Length: 2", b"Content-Length: 02") + b"{}",
     "Content-Length"),
    ("a length and chunks", post(b"Content-Length: 4", b"Transfer-Encoding: chunked") + CHUNKS,
     "Transfer-Encoding"),
    ("chunks and a length", post(b"Transfer-Encoding: chunked", b"Content-Length: 4") + CHUNKS,
     "Transfer-Encoding"),
    ("a length and another coding", post(b"Content-Length: 2", b"Transfer-Encoding: identity")
     + b"{}", "Transfer-Encoding"),
    ("chunked twice", post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + CHUNKS,
     "Transfer-Encoding"),
    ("chunked, and something else", post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: x")
     + CHUNKS, "Transfer-Encoding"),
    ("chunks in HTTP/1.0", post(b"Transfer-Encoding: chunked", version=b"1.0") + CHUNKS,
     "Transfer-Encoding"),
    ("a blank before the colon", post(b"Transfer-Encoding : chunked") + CHUNKS,
     "Transfer-Encoding "),
    ("a tab before the colon", post(b"Content-Length\t: 2") + b"{}", "Content-Length\t"),
    ("a carriage return in a value", post(b"X: a\rTransfer-Encoding: chunked") + CHUNKS, "X"),
    ("two hosts", b"GET /v1/agents HTTP/1.1\r\nHost: x\r\nHost: evil.example\r\n\r\n", "Host"),
)

UNKNOWN = (  # the coding, as it is seen
    (b"gzip", "gzip"), (b"gzip, chunked", "gzip, chunked"), (b"chunked, chunked", "chunked, chunked"),
    (b"identity", "identity"), (b"\x0bchunked", "\x0bchunked"), (b"xchunked", "xchunked"), (b"", None),
)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)

    def exchange(self, http_client, request):
        """The one answer to these bytes, and whatever follows it until the daemon closes."""
        with http_client.socket() as raw:
            raw.sendall(request)
            everything = b"".join(iter(lambda: raw.recv(65536), b""))
        head, _, body = everything.partition(b"\r\n\r\n")
        return head, body, everything

    def check_closed_with(self, request, status, code, field, seen=None):
        for listener in self.daemon.api, self.daemon.web:
            head, body, everything = self.exchange(listener, request + HIDDEN)
            self.assertEqual(len(STATUS_LINE.findall(everything)), 1, "what follows is not answered")
            if LIBRARY_REFUSES and PROBLEM.encode() not in head:
                self.assertEqual(head.split()[1][:1], b"4", head)
                continue
            self.assertEqual(head.split()[1], b"%d" % status, everything)
            self.assertIn(PROBLEM.encode(), head)
            self.assertIn(b"Connection: close", head)
            self.assertIn(b'"code":"%s"' % code.encode(), body)
            if field:
                self.assertIn(f'"field":"{field}"'.replace("\t", "\\t").encode(), body)
            if seen:
                self.assertIn(seen.replace("\x0b", "\\u000B").encode(), body)


class Framing(Case):
    def test_what_is_ambiguous_is_400_and_the_end_of_the_connection(self):
        for name, request, field in AMBIGUOUS:
            with self.subTest(name):
                self.check_closed_with(request, 400, "ambiguous_request", field)

    def test_an_unknown_transfer_coding_is_501(self):
        for coding, seen in UNKNOWN:
            with self.subTest(coding=coding):
                self.check_closed_with(post(b"Transfer-Encoding: " + coding) + CHUNKS, 501,
                                       "unknown_transfer_coding", "Transfer-Encoding", seen)

    def test_a_compressed_body_is_415(self):
        self.check_closed_with(post(b"Content-Encoding: gzip", b"Content-Length: 2") + b"{}", 415,
                               "unknown_content_coding", "Content-Encoding", "gzip")

    def test_what_is_clear_is_read_and_the_connection_goes_on(self):
        for headers, body in (((b"Content-Length: 2", b"Content-Length: 2"), b"{}"),
                              ((b"Transfer-Encoding: chunked",), CHUNKS),
                              ((b"transfer-encoding:Chunked",), CHUNKS),
                              ((b"Content-Encoding: identity", b"Content-Length: 2"), b"{}"),
                              ((b"Transfer-Encoding: chunked",),
                               b"2\r\n{}\r\n0\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\n")):
            with self.subTest(headers=headers), self.daemon.api.socket() as raw:
                raw.sendall(post(*headers) + body)
                self.assertEqual(read_reply(raw).json()["code"], "invalid_request")
                raw.sendall(HIDDEN)
                self.assertEqual(read_reply(raw).status, 200)


class Problems(Case):
    """Each of the daemon's errors is RFC 9457, on both listeners."""

    def check(self, reply, status, code):
        self.assertEqual((reply.status, reply.header("Content-Type")), (status, PROBLEM), reply)
        problem = reply.json()
        self.assertEqual((problem["status"], problem["code"], problem["title"]),
                         (status, code, problem["title"]))
        self.assertEqual(problem["title"], http.client.responses[status].replace(
            "Request Entity", "Content"))

    def test_each_refusal_of_the_web_listener(self):
        web = self.daemon.web
        for method, path, headers, body, status, code in (
                ("GET", "/nothing", {}, None, 404, "not_found"),
                ("GET", "/%zz", {}, None, 400, "bad_path"),
                ("DELETE", "/metrics", {}, None, 405, "method_not_allowed"),
                ("GET", "/metrics", {}, b"x", 413, "too_large"),
                ("GET", "/?format=xml", {}, None, 400, "invalid_request"),
                ("GET", "/metrics?" + "&".join(["name[]=a"] * 65), {}, None, 400, "invalid_request"),
                ("GET", "/metrics?name[]=%ff", {}, None, 400, "invalid_request"),
                ("POST", "/-/reload", {"Origin": "https://evil.example"}, None, 403,
                 "cross_origin")):
            with self.subTest(path=path, method=method):
                self.check(web.request(method, path, body=body, headers=headers), status, code)

    def test_each_refusal_of_the_api(self):
        api = self.daemon.api
        for method, path, body, status, code in (
                ("GET", "/nothing", None, 404, "not_found"),
                ("GET", "/v1/%00", None, 400, "bad_path"),
                ("DELETE", "/v1/agents", None, 405, "method_not_allowed"),
                ("GET", "/v1/agents", b"x", 413, "too_large"),
                ("GET", "/v1/agents?x=y", None, 400, "invalid_request"),
                ("POST", "/v1/envelopes", b"{", 400, "invalid_json")):
            with self.subTest(path=path, method=method):
                self.check(api.request(method, path, body=body), status, code)

    def test_the_longest_query_is_answered_and_a_longer_one_named(self):
        """Each of its bytes takes three in a URL; the headers fill most of what 20,000 bytes leave."""
        longest = "%C3%BC" * 2048
        reply = self.daemon.api.get(f"/v1/memories?query={longest}", X_Long="x" * 7500)
        self.assertEqual((reply.status, reply.json()["items"]), (200, []), reply)
        reply = self.daemon.api.get(f"/v1/memories?query={longest}a", X_Long="x" * 7500)
        self.check(reply, 400, "invalid_request")
        self.assertEqual(reply.json()["field"], "query")

    def test_a_cursor_that_no_list_gave_out(self):
        for path in "/v1/parked", "/v1/memories", "/v1/tasks/t":
            for cursor in "x", "%20", "a" * 256, "1x", "-1", "99999999999999999999":
                with self.subTest(path=path, cursor=cursor):
                    self.check(self.daemon.api.get(f"{path}?cursor={cursor}"), 400,
                               "invalid_cursor")


if __name__ == "__main__":
    unittest.main()
