# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Receivers that misbehave, over real sockets: each handoff ends as the contract says, after an
exact number of attempts, and nothing that they send makes the daemon grow."""

import contextlib
import datetime
import os
import pathlib
import re
import shutil
import ssl
import tempfile
import unittest

from harness import Receiver, eventually
from harness.agents import Caller, daemon_with
from harness.authority import Authority
from harness.ports import reserved_port
from harness.receiver import (Drip, Flood, Hold, ack, ack_wrong, cut, garbage, hang_up, later, nack,
                              reset, saying, status)

RETRIES = 2
PROMPT = "500ms"  # time enough for the daemon to send it; how long the agent takes to look is all one
OTHER_TLS = os.environ["HANDOFF_EXPORTER_OTHER_TLS"]  # the daemon over the other flavour of libcurl
SECRET = "the-bearer-token-that-is-sent-to-coder"


class Case(unittest.TestCase):
    maxDiff = None
    program = os.environ["HANDOFF_EXPORTER"]

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())

    def receiver(self, *script, **more):
        return self.stack.enter_context(Receiver(*script, **more))

    def start(self, *script, receiver=None, **settings):
        """A daemon with the agent coder, which does as the script says."""
        self.coder = receiver or self.receiver(*script)
        settings = {"url": self.coder.url, "retries": RETRIES, **settings}
        self.daemon = self.stack.enter_context(daemon_with({"coder": settings}, program=self.program))
        self.caller = Caller(self.daemon)

    def attempts_of(self, handoff, count):
        def written():
            attempts = self.caller.attempts(handoff)
            assert len(attempts) == count, attempts
            return attempts
        return eventually(written, f"{count} attempts are written")

    def check_parked(self, result, code="exhausted", attempts=RETRIES + 1, error=None):
        """Sends one that is parked, each of its attempts with that result."""
        reply = self.caller.send()
        self.assertEqual((reply.status, reply.json()["code"]), (502, code), reply)
        handoff = reply.json()["handoff"]
        self.assertEqual((handoff["state"], handoff["reason"], handoff["attempts"]),
                         ("parked", code, attempts))
        made = self.attempts_of(handoff["id"], attempts)
        self.assertEqual([a["result"] for a in made], [result] * attempts, made)
        for attempt in made if error else ():
            self.assertRegex(attempt["error"], error)
        self.check_counted(result, attempts)
        return made

    def check_acknowledged(self, results, **more):
        """Sends one that is acknowledged after attempts with these results."""
        reply = self.caller.send(**more)
        self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"), reply)
        made = self.attempts_of(reply.json()["id"], len(results))
        self.assertEqual([a["result"] for a in made], results, made)
        self.assertEqual({r.id for r in self.coder.requests}, {reply.json()["id"]})
        return made

    def check_counted(self, result, count):
        line = f'handoff_attempts_total{{target_agent="coder",result="{result}"}} {count}'
        self.assertIn(line, self.daemon.web.get("/metrics").text.splitlines())


class Answers(Case):
    def test_acknowledging(self):
        self.start(ack)
        self.check_acknowledged(["ack"])
        self.check_counted("ack", 1)

    def test_closing_without_a_word(self):
        self.start(hang_up)
        self.check_parked("protocol")
        self.assertEqual(len(self.coder.requests), RETRIES + 1)

    def test_closing_in_the_middle_of_the_body(self):
        self.start(cut)
        self.check_parked("protocol")
        self.assertEqual(len(self.coder.requests), RETRIES + 1)

    def test_garbage(self):
        self.start(garbage)
        self.check_parked("protocol")
        self.assertEqual(len(self.coder.requests), RETRIES + 1)

    def test_a_2xx_that_says_nothing_of_ours(self):
        for body in (b"", b"<html>thank you</html>", b"{", b"[]", b'{"ack": 7}', b'{"ack": ""}',
                     b"\xff\xfe\x00", b'{"ok": true}', b"null"):
            with self.subTest(body=body):
                self.setUp()
                self.start(status(200, body))
                self.check_parked("protocol")
                self.stack.close()

    def test_the_wrong_id(self):
        self.start(ack_wrong)
        self.check_parked("protocol")

    def test_302(self):
        other = self.receiver(ack)
        self.start(status(302, location=other.url))
        self.check_parked("http", "rejected", 1)
        self.assertEqual(other.requests, [])

    def test_503_with_retry_after_is_tried_again_when_it_says(self):
        self.start(status(503, retry_after="1"), ack)
        first, second = self.check_acknowledged(["http", "ack"])
        self.assertEqual(first["status"], 503)
        begun = [datetime.datetime.fromisoformat(a["at"]) for a in (first, second)]
        self.assertGreaterEqual(begun[1] - begun[0], datetime.timedelta(seconds=1))

    def test_refused_for_good(self):
        for script in (status(400), status(409), nack("no", retry=False)):
            with self.subTest(script=script):
                self.setUp()
                self.start(script)
                self.check_parked("nack" if "nack" in repr(script) else "http", "refused", 1)
                self.assertEqual(len(self.coder.requests), 1)
                self.stack.close()

    def test_rejected_at_the_first_answer(self):
        for code, setting in ((401, "token_file"), (403, "token_file"), (404, "url"), (405, "url"), (407, "url"),
                              (410, "url"), (301, "url")):
            with self.subTest(code=code):
                self.setUp()
                self.start(status(code, "<html>no</html>"))
                self.check_parked("http", "rejected", 1, error=setting)
                self.stack.close()

    def test_a_404_that_names_the_id_is_the_agents_own(self):
        self.start(nack("no", retry=False, code=404))
        self.check_parked("nack", "refused", 1)

    def test_it_recovers_from_each(self):
        self.start(hang_up, garbage, cut, status(500), ack_wrong, ack, retries=5)
        self.check_acknowledged(["protocol"] * 3 + ["http", "protocol", "ack"])
        self.assertEqual([r.attempt for r in self.coder.requests], [1, 2, 3, 4, 5, 6])


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
WORDS = (  # what the agent does, and how the words for it begin
    (hang_up, "the agent closed the connection without answering"),
    (reset, "connection reset by the agent"),
    (saying(HEAD + b"X-A"), "the connection ended in the middle of the answer"),
    (cut, "the connection ended in the middle of the answer"),
    (saying(CHUNKED + b"5\r\n{"), "the connection ended in the middle of the answer"),
    (garbage, "the answer is not HTTP/1.1"),
    (saying(HEAD + b"Content-Length: x\r\n\r\n"), "the answer is malformed: "),
    (saying(HEAD + b"what\r\n\r\n"), "the answer is malformed: "),
    (saying(CHUNKED + b"zz\r\n{}"), "the answer is malformed: "),
    (Flood(1_000_000), "the answer is longer than 65536 bytes"),
    (Flood(1_000_000, kind="header"), "the answer's headers are too large"),
)


class Words(Case):
    """Who reads the attempts finds the same words for the same fault over http and https."""

    def begin(self):
        self.agents, self.expected = {}, {}
        for tls in (None, served_by(RIGHT)):
            for step, words in WORDS:
                self.add(self.receiver(step, tls=tls).url, words)
            self.add(self.receiver(Hold(), tls=tls).url, "no answer within 3000 ms",
                     timeout="3s")  # the connection has to be there by then
            scheme = "https" if tls else "http"
            nobody = self.stack.enter_context(reserved_port())
            self.add(f"{scheme}://127.0.0.1:{nobody}/", "connect failed: Connection refused")
        self.daemon = self.stack.enter_context(daemon_with(self.agents, program=self.program))
        self.caller = Caller(self.daemon)

    def add(self, url, words, **settings):
        name = f"agent-{len(self.agents)}"
        self.agents[name] = {"url": url, "retries": 0, "tls": {"ca_file": str(CA.path)}, **settings}
        self.expected[name] = words

    def test_each_fault_over_both(self):
        self.begin()
        sent = {name: self.caller.send_async(name) for name in self.agents}
        for name, handoff in sent.items():
            with self.subTest(url=self.agents[name]["url"], words=self.expected[name]):
                [attempt] = self.attempts_of(handoff, 1)
                self.assertEqual(attempt["error"][:len(self.expected[name])], self.expected[name])


class WordsOverTheOtherTls(Words):
    program = OTHER_TLS


class Time(Case):
    def test_silence(self):
        self.start(Hold(), timeout=PROMPT)
        self.check_parked("timeout")
        self.assertEqual(len(self.coder.wait_for(RETRIES + 1)), RETRIES + 1)

    def test_slow_but_in_time(self):
        hold = Hold()
        self.start(hold)
        handoff = self.caller.send_async()
        self.coder.wait_for(1)
        self.assertEqual(self.caller.wait_for_state(handoff, "in_flight")["attempts"], 0)
        hold.release()
        self.caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(len(self.coder.requests), 1)

    def test_a_byte_at_a_time_is_bounded_by_the_whole_time(self):
        self.start(Drip(), timeout="300ms", retries=1)
        for attempt in self.check_parked("timeout", attempts=2):
            self.assertGreaterEqual(attempt["duration_seconds"], 0.29)

    def test_an_acknowledgement_after_the_time_out_is_lost_and_the_next_counts(self):
        hold = Hold(ack)
        self.start(hold, ack, timeout="3s")
        self.check_acknowledged(["timeout", "ack"])
        hold.release()

    def test_an_acknowledgement_over_the_api_after_the_time_out_ends_the_retries(self):
        self.start(Hold(), timeout=PROMPT, backoff={"base": "1h", "max": "1h"})
        handoff = self.caller.send_async()
        [attempt] = self.attempts_of(handoff, 1)
        self.assertEqual(attempt["result"], "timeout")
        reply = self.caller.call("POST", f"/v1/handoffs/{handoff}/ack")
        self.assertEqual((reply.status, reply.json()["state"]), (200, "acknowledged"))
        self.caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(len(self.coder.wait_for(1)), 1)

    def test_announced_and_never_given(self):
        self.start(later, ack_timeout="50ms")
        self.check_parked("timeout")
        self.assertEqual(len(self.coder.requests), RETRIES + 1)


class Size(Case):
    """An answer has at most 64 KiB."""

    def peak(self):
        text = pathlib.Path(f"/proc/{self.daemon.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", text)[1])

    def check_flood(self, flood, error):
        self.start(ack, flood)
        self.caller.send()
        before = self.peak()
        self.check_parked("protocol", error=error)
        eventually(lambda: len(flood.taken) == RETRIES + 1, "each flood is over")
        # what the sockets' buffers hold is taken before a cut is noticed
        self.assertLess(max(flood.taken), 32 << 20, "it is cut, not read to its end")
        if os.environ["HANDOFF_VARIANT"] == "release":
            self.assertLess(self.peak() - before, 8 << 20)

    def test_100_megabytes_in_one_body(self):
        self.check_flood(Flood(), "longer than 65536 bytes")

    def test_100_megabytes_in_chunks(self):
        self.check_flood(Flood(kind="chunked"), "longer than 65536 bytes")

    def test_100_megabytes_of_headers(self):
        self.check_flood(Flood(kind="header"), None)

    def test_the_limit_itself(self):
        def exactly(size):
            def answer(request):
                body = b'{"ack": "%s", "x": "' % request.id.encode()
                request.answer(200, body + b"x" * (size - len(body) - 2) + b'"}')
            return answer
        self.start(exactly(65537), exactly(65536))
        self.check_acknowledged(["protocol", "ack"])


def setUpModule():
    global FOLDER, CA, OTHER_CA, RIGHT, WRONG_NAME, CLIENT
    FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="handoff-test-receivers-"))
    unittest.addModuleCleanup(shutil.rmtree, FOLDER, ignore_errors=True)
    CA, OTHER_CA = Authority(FOLDER), Authority(FOLDER, "other-ca")
    RIGHT = CA.issue("right", "IP:127.0.0.1")
    WRONG_NAME = CA.issue("wrong", "DNS:somebody.example,IP:127.0.0.2")
    CLIENT = CA.issue("client", "DNS:sidecar.example", "clientAuth")


def served_by(certificate, client_ca=None, version=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*map(str, certificate))
    if version:
        context.minimum_version = context.maximum_version = version
    if client_ca:
        context.load_verify_locations(str(client_ca.path))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def ack_until_the_end(request):
    """An acknowledgement without a length, which ends with the connection; TLS is not closed in order."""
    saying(HEAD + b'\r\n{"ack": "%s"}' % request.id.encode())(request)


class Trailers(Case):
    """What follows a chunked body may be dropped on the way, so nothing depends on it."""

    def ending_with(self, *trailers):
        """Answers 200 with a body that says nothing, and these lines behind it."""
        def step(request):
            lines = b"".join(line % {b"id": request.id.encode()} + b"\r\n" for line in trailers)
            saying(CHUNKED + b"2\r\n{}\r\n0\r\n" + lines + b"\r\n")(request)
        return step

    def test_no_acknowledgement_from_them(self):
        for tls in None, served_by(RIGHT):
            for trailers in ((b"Handoff-Ack: %(id)s",),
                             (b"HTTP/1.1 200: OK", b"Handoff-Ack: %(id)s")):
                with self.subTest(tls=tls is not None, trailers=trailers):
                    self.setUp()
                    receiver = self.receiver(self.ending_with(*trailers), tls=tls)
                    self.start(receiver=receiver, tls={"ca_file": str(CA.path)})
                    self.check_parked("protocol")
                    self.stack.close()

    def test_the_header_counts_whatever_follows(self):
        def step(request):
            saying(HEAD + b"Handoff-Ack: %s\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
                   b"Handoff-Ack: another\r\n\r\n" % request.id.encode())(request)
        for tls in None, served_by(RIGHT):
            with self.subTest(tls=tls is not None):
                self.setUp()
                self.start(receiver=self.receiver(step, tls=tls), tls={"ca_file": str(CA.path)})
                self.check_acknowledged(["ack"])
                self.stack.close()


class Tls(Case):
    def over_tls(self, certificate, client_ca=None, version=None, **tls):
        context = served_by(certificate, client_ca, version)
        tls = {name: str(path) for name, path in tls.items()}
        self.start(receiver=self.receiver(ack, tls=context), **({"tls": tls} if tls else {}))

    def check_no_way(self, error, results=("connect",)):
        reply = self.caller.send()
        self.assertEqual((reply.status, reply.json()["code"]), (502, "exhausted"), reply)
        made = self.attempts_of(reply.json()["handoff"]["id"], RETRIES + 1)
        for attempt in made:
            self.assertIn(attempt["result"], results, attempt)
            self.assertRegex(attempt["error"].lower(), error)
        self.assertEqual(self.coder.requests, [], "it was not told anything")

    def test_the_right_name_by_the_configured_authority(self):
        self.over_tls(RIGHT, ca_file=CA.path)
        self.check_acknowledged(["ack"])

    def test_an_answer_that_ends_with_its_connection(self):
        receiver = self.receiver(saying(HEAD + b'\r\n{"ack": '), ack_until_the_end, tls=served_by(RIGHT))
        self.start(receiver=receiver, tls={"ca_file": str(CA.path)})
        self.check_acknowledged(["protocol", "ack"])

    def test_the_wrong_name(self):
        self.over_tls(WRONG_NAME, ca_file=CA.path)
        self.check_no_way("subject name|does not match|no alternative")

    def test_an_authority_that_the_system_does_not_know(self):
        self.over_tls(RIGHT)
        self.check_no_way("certificate")

    def test_another_authority(self):
        self.over_tls(RIGHT, ca_file=OTHER_CA.path)
        self.check_no_way("certificate")

    def test_a_client_certificate(self):
        self.over_tls(RIGHT, CA, ca_file=CA.path, cert_file=CLIENT[0], key_file=CLIENT[1])
        self.check_acknowledged(["ack"])

    def test_without_the_client_certificate_that_is_asked_for(self):
        # TLS 1.3 reports it only after the handshake
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version=version):
                self.setUp()
                self.over_tls(RIGHT, CA, version, ca_file=CA.path)
                self.check_no_way(".", ("connect", "protocol"))
                self.stack.close()

    def test_plain_http_to_a_tls_port_and_the_reverse(self):
        secure, plain = self.receiver(ack, tls=served_by(RIGHT)), self.receiver(ack)
        for url in (secure.url.replace("https", "http"), plain.url.replace("http", "https")):
            with self.subTest(url=url):
                self.setUp()
                self.start(receiver=plain, url=url)
                self.check_no_way(".", ("connect", "protocol"))
                self.stack.close()


class TlsOverTheOther(Tls):
    program = OTHER_TLS


class Secrets(Case):
    """The token of an agent goes to that agent and nowhere else."""

    def start_with_token(self, *script):
        token = FOLDER / "token-of-coder"
        token.write_text(SECRET + "\n")
        self.start(*script, token_file=str(token))

    def assert_no_trace(self):
        for path in (self.daemon.folder / "data").iterdir():
            self.assertNotIn(SECRET.encode(), path.read_bytes(), path)
        self.assertNotIn(SECRET, self.daemon.log())
        for listener, path in ((self.daemon.web, "/metrics"), (self.daemon.api, "/v1/agents"),
                               (self.daemon.api, "/v1/parked"), (self.daemon.web, "/")):
            self.assertNotIn(SECRET, listener.get(path).text, path)

    def test_it_is_sent_and_leaves_no_trace(self):
        self.start_with_token(status(500), garbage, ack)
        reply = self.caller.send()
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual({r.headers["Authorization"] for r in self.coder.requests},
                         {f"Bearer {SECRET}"})
        made = self.caller.call("GET", f"/v1/handoffs/{reply.json()['id']}/attempts")
        self.assertNotIn(SECRET, made.text)
        self.assert_no_trace()

    def test_not_even_where_an_agent_says_it_back(self):
        def echo(request):
            request.answer(500, request.headers["Authorization"].encode())
        self.start_with_token(echo)
        self.check_parked("http")
        self.assert_no_trace()

    def test_nor_where_it_says_it_back_with_a_success_that_acknowledges_nothing(self):
        def echo(request):
            request.answer(200, request.headers["Authorization"].encode())
        self.start_with_token(echo)
        self.check_parked("protocol")
        self.assert_no_trace()

    def test_a_redirect_does_not_carry_it_away(self):
        other = self.receiver(ack)
        self.start_with_token(status(307, location=other.url))
        self.check_parked("http", "rejected", 1)
        self.assertEqual(other.requests, [])
        self.assert_no_trace()


if __name__ == "__main__":
    unittest.main()
