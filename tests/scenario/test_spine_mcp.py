# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Memories behind the tools of a Model Context Protocol server: the official SDKs, both eras, and servers that misbehave."""

import http.server
import json
import os
import pathlib
import queue
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from harness.agents import daemon_with
from harness.authority import Authority
from harness.chain import Chain, memories, missing, pullers
from harness.clients import require_node
from harness.receiver import Server
from harness.wait import eventually
from test_spine_http import FactServer

SERVER = pathlib.Path(__file__).parents[1] / "mcp/server.mjs"
TABLE = {
    "memory": {"content": "/text", "scope": "/tenant", "created_at": "/created"},
    "operations": {
        "get": {"tool": "fact_get", "arguments": {"key": "{id}"}, "memories": "/fact"},
        "get_many": {"tool": "fact_get_many", "arguments": {"keys": "{ids}"}, "memories": "/facts"},
        "search": {"tool": "fact_search", "arguments": {"text": "{query}", "top": "{limit}"}, "memories": "/facts"},
        "recent": {"tool": "fact_recent", "arguments": {"top": "{limit}"}, "memories": "/facts"},
        "pinned": {"tool": "fact_pinned"},
        "put": {"tool": "fact_put", "arguments": {"key": "{id}", "fact": {
            "text": "{content}", "tenant": "{scope}", "agent": "{agent}", "pinned": "{pinned}"}}},
        "delete": {"tool": "fact_delete", "arguments": {"key": "{id}"}}}}
ONLY_GET = {**TABLE, "operations": {"get": TABLE["operations"]["get"]}}
TOKEN = "spine-0123456789abcdef"
SPINE_UP = re.compile(r"^handoff_spine_up (\d)$", re.MULTILINE)


def setUpModule():
    require_node()
    if not (SERVER.parent / "node_modules/@modelcontextprotocol").is_dir():
        raise AssertionError(f"the packages of {SERVER.parent} are not installed: run scripts/npm-install --tests")


class Facts:
    """tests/mcp/server.mjs, with what it was asked; it can be killed and started again on its port."""

    def __init__(self, mode, **environment):
        self.mode, self.environment, self.port, self.seen, self.process = mode, environment, 0, [], None
        self.folder = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.folder.name) / "facts.json"

    def store(self, **facts):
        """Before it is started."""
        self.file.write_text(json.dumps([[name.replace("_", "-"), {"id": name.replace("_", "-"), **fact}]
                                         for name, fact in facts.items()]))

    def start(self):
        ports = queue.Queue()
        self.process = subprocess.Popen(
            ["node", SERVER, str(self.port), self.file, self.mode], stdout=subprocess.PIPE, text=True,
            env={**os.environ, **self.environment})
        threading.Thread(target=self.read, args=(self.process.stdout, ports), daemon=True).start()
        self.port = ports.get(timeout=60)
        if not self.port:
            raise AssertionError(f"{SERVER} ended with {self.process.wait()} before it listened")

    def read(self, lines, ports):
        with lines:
            for line in lines:
                entry = json.loads(line)
                if isinstance(entry, int):
                    ports.put(entry)
                else:
                    self.seen.append(entry)
        ports.put(None)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def forget_sessions(self):
        self.process.send_signal(signal.SIGUSR2)

    def calls(self, *tools):
        return [entry for entry in self.seen if entry.get("name") in tools and "probe" not in json.dumps(entry["arguments"])]

    def methods(self):
        return [entry.get("method") for entry in self.seen if "method" in entry]

    @property
    def url(self):
        return f"{'https' if 'HANDOFF_MCP_TLS' in self.environment else 'http'}://127.0.0.1:{self.port}/mcp"

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if self.process:
            self.kill()
        self.folder.cleanup()


class Case(unittest.TestCase):
    maxDiff = None

    def serve(self, mode="events", facts=None, **environment):
        self.server = self.enterContext(Facts(mode, **environment))
        self.server.store(**(facts or {}))
        self.server.start()

    def start(self, table=None, url=None, **keys):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "spine.json").write_text(json.dumps(table or TABLE))
        (folder / "token").write_text(TOKEN + "\n")
        self.daemon = self.enterContext(daemon_with(
            pullers("researcher", "analyst", "coder"),
            spine={"kind": "mcp", "url": url or self.server.url, "operations_file": str(folder / "spine.json"),
                   "token_file": str(folder / "token"), "timeout": "5s", **keys}))
        self.chain = Chain(self.daemon, self.id().rpartition(".")[2][-60:])

    def up(self):
        return int(SPINE_UP.search(self.daemon.web.get("/metrics").text)[1])

    def memory(self, method, name, body=None):
        return self.chain.call(method, f"/v1/memories/{name}", body)


class OfficialServers(Case):
    def test_memories_are_found_stored_and_deleted_in_both_eras(self):
        eras = {"events": "2025-11-25", "json": "2025-11-25", "both": "2026-07-28", "stateless": "2026-07-28"}
        for mode, version in eras.items():
            with self.subTest(mode):
                self.serve(mode, {"ms_1": {"text": "fact 1", "created": 1700000000}, "ms_2": {"text": "fact 2"},
                                  "pin_1": {"text": "always", "pinned": True}, "fit_1": {"text": "the zeppelin is inspected"}})
                self.start()
                self.assertEqual((self.up(), self.daemon.events("spine_lacks")), (1, []))
                envelope = self.chain.hand("researcher", "analyst", summary="inspect the zeppelin",
                                           memory_ids=["ms-1", "ms-2", "gone-1"], include_recent=5, include_pins=True)
                self.assertEqual({name: memory["content"] for name, memory in memories(envelope).items()},
                                 {"ms-1": "fact 1", "ms-2": "fact 2", "pin-1": "always", "fit-1": "the zeppelin is inspected"})
                self.assertEqual({name: entry["reason"] for name, entry in missing(envelope).items()}, {"gone-1": "not_found"})
                self.assertEqual(memories(envelope)["ms-1"]["created_at"], "2023-11-14T22:13:20.000Z")
                self.assertEqual(len(self.server.calls("fact_get_many")), 1)
                reply = self.memory("PUT", "ms-3", {"content": "new", "scope": "user:alice", "pinned": True})
                self.assertEqual((reply.status, reply.json()["content"]), (201, "new"), reply)
                self.assertEqual(self.memory("PUT", "ms-3", {"content": "newer"}).status, 200)
                self.assertEqual(self.memory("GET", "ms-3").json()["scope"], "user:alice")
                self.assertEqual([self.memory("DELETE", "ms-3").status for _ in range(2)], [204, 404])
                self.assertEqual(self.memory("GET", "ms-3").status, 404)
                used = {entry["version"] for entry in self.server.seen if entry.get("method") == "tools/call"}
                self.assertEqual(used, {version})

    def test_a_session_ends_with_the_sidecar(self):
        self.serve("events")
        self.start()
        self.daemon.terminate()
        eventually(lambda: [entry["http"] for entry in self.server.seen][-1] == "DELETE", "the session is given back")

    def test_the_requests_of_an_envelope_share_connections(self):
        for mode in "events", "both":
            with self.subTest(mode):
                self.serve(mode, {f"ms_{i}": {"text": f"fact {i}"} for i in range(20)})
                self.start(ONLY_GET, connections=4)
                for _ in range(3):
                    envelope = self.chain.hand("researcher", "analyst", new_chain=True, memory_ids=[f"ms-{i}" for i in range(20)])
                    self.assertEqual(len(memories(envelope)), 20)
                calls = self.server.calls("fact_get")
                self.assertEqual(len(calls), 60)
                self.assertLessEqual(len({entry["port"] for entry in calls}), 4)

    def test_a_tool_that_refuses_is_not_a_server_that_fails(self):
        self.serve()
        self.start()
        for _ in range(6):
            reply = self.memory("PUT", "ms-1", {"content": "what is forbidden"})
            self.assertEqual((reply.status, reply.json()["code"]), (400, "invalid_request"), reply)
            self.assertIn("this fact is forbidden", json.dumps(reply.json()))
        self.assertEqual((self.memory("PUT", "ms-1", {"content": "allowed"}).status, self.up()), (201, 1))

    def test_a_tool_that_fails_is_not_a_memory_that_is_gone(self):
        self.serve()
        self.start({**TABLE, "operations": {"get": {"tool": "fact_fails", "arguments": {"key": "{id}"}}}})
        envelope = self.chain.hand("researcher", "analyst", memory_ids=["ms-1"])
        self.assertEqual(missing(envelope)["ms-1"]["reason"], "spine_unavailable")
        eventually(lambda: self.up() == 0, "it is known to be down")

    def test_what_a_tool_says_without_a_memory_can_be_named(self):
        self.serve()
        get = {"tool": "fact_fails", "arguments": {"key": "{id}"}, "absent": "Database is AWAY"}
        self.start({**TABLE, "operations": {"get": get}})
        self.assertEqual((self.memory("GET", "ms-1").status, self.up()), (404, 1))

    def test_tools_that_it_lacks_are_said_at_the_start(self):
        self.serve(HANDOFF_MCP_WITHOUT="fact_search,fact_put,fact_get_many", facts={"ms_1": {"text": "inspect"}})
        self.start()
        [line] = self.daemon.events("spine_lacks")
        self.assertEqual(line["operations"], "search, put")
        reply = self.memory("PUT", "ms-2", {"content": "x"})
        self.assertEqual((reply.status, reply.json()["code"]), (501, "unsupported_by_spine"), reply)
        envelope = self.chain.hand("researcher", "analyst", summary="inspect", memory_ids=["ms-1", "ms-2"], include_recent=5)
        self.assertEqual((list(memories(envelope)), list(missing(envelope))), (["ms-1"], ["ms-2"]))
        self.assertEqual(len(self.server.calls("fact_get")), 2)
        self.assertEqual(self.server.calls("fact_put", "fact_search", "fact_get_many"), [])

    def test_a_server_without_the_tools_that_find_a_memory_is_not_up(self):
        self.serve(HANDOFF_MCP_WITHOUT="fact_get,fact_get_many")
        self.start()
        self.assertEqual((self.up(), len(self.daemon.events("spine_unavailable"))), (0, 1))

    def test_values_stay_in_their_places(self):
        self.serve()
        self.start()
        text = '"},"name":"fact_delete","x":{"y":"{id}\n'
        self.assertEqual(self.memory("PUT", "ms-1", {"content": text}).status, 201)
        self.assertEqual(self.memory("GET", "ms-1").json()["content"], text)
        self.chain.hand("researcher", "analyst", summary=text, include_recent=1)
        self.assertEqual(self.server.calls("fact_search")[0]["arguments"], {"text": text, "top": 1})
        self.assertEqual(self.server.calls("fact_delete"), [])

    def test_the_token_is_sent_and_never_logged(self):
        self.serve(HANDOFF_MCP_TOKEN=TOKEN, facts={"ms_1": {"text": "fact 1"}})
        self.start()
        self.assertEqual(self.memory("GET", "ms-1").json()["content"], "fact 1")
        self.assertEqual({entry["authorization"] for entry in self.server.seen}, {f"Bearer {TOKEN}"})
        self.assertNotIn(TOKEN, self.daemon.log())

    def test_over_tls_with_a_client_certificate(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        authority = Authority(folder)
        authority.issue("server", "IP:127.0.0.1")
        cert, key = authority.issue("sidecar", "DNS:sidecar", "clientAuth")
        for mode in "events", "both":
            with self.subTest(mode):
                self.serve(mode, {"ms_1": {"text": "fact 1"}}, HANDOFF_MCP_TLS=str(folder))
                self.start(tls={"ca_file": str(authority.path), "cert_file": str(cert), "key_file": str(key)})
                self.assertEqual(self.memory("GET", "ms-1").json()["content"], "fact 1")
                self.assertEqual(self.memory("PUT", "ms-2", {"content": "new"}).status, 201)
                asked = len(self.server.seen)
                for keys in {"ca_file": str(authority.path)}, None:  # without a certificate; an unknown authority
                    self.start(**({"tls": keys} if keys else {}))
                    reply = self.memory("GET", "ms-1")
                    self.assertEqual((reply.status, reply.json()["code"], self.up()), (503, "spine_unavailable", 0), reply)
                    self.assertIn("check spine.tls", reply.text)
                self.assertEqual({entry["http"] for entry in self.server.seen[asked:]} - {"DELETE"}, set())


class Lost(Case):
    def test_a_session_that_is_gone_is_begun_again(self):
        self.serve("events", {"ms_1": {"text": "fact 1"}})
        self.start()
        for _ in range(3):
            self.assertEqual(self.memory("GET", "ms-1").json()["content"], "fact 1")
            self.server.forget_sessions()
        self.assertEqual(self.memory("GET", "ms-1").status, 200)
        eventually(lambda: self.server.methods().count("initialize") >= 2, "it was initialized again")

    def test_many_requests_that_lose_one_session_begin_one(self):
        self.serve("events", {f"ms_{i}": {"text": f"fact {i}"} for i in range(20)})
        self.start(ONLY_GET)
        before = len(self.server.seen)
        self.server.kill()
        self.server.start()
        envelope = self.chain.hand("researcher", "analyst", memory_ids=[f"ms-{i}" for i in range(20)])
        self.assertEqual((len(memories(envelope)), missing(envelope)), (20, {}), self.server.seen[before:])
        self.assertEqual([entry.get("method") for entry in self.server.seen[before:]].count("initialize"), 1)

    def test_killed_and_restarted_it_is_used_again(self):
        for mode, after in ("events", "events"), ("both", "both"), ("events", "stateless"), ("stateless", "events"):
            with self.subTest(f"{mode}, then {after}"):
                self.serve(mode, {"ms_1": {"text": "fact 1"}})
                self.start(timeout="2s", cache="0B")
                self.assertEqual(self.memory("GET", "ms-1").status, 200)
                self.server.kill()
                handoffs = [self.chain.hand("researcher", "analyst", new_chain=True, memory_ids=["ms-1"]) for _ in range(8)]
                self.assertEqual({missing(envelope)["ms-1"]["reason"] for envelope in handoffs}, {"spine_unavailable"})
                self.assertEqual(self.up(), 0)
                self.server.mode = after
                self.server.start()
                eventually(lambda: self.up() == 1, "it is known to be back, though no handoff asks")
                for envelope in handoffs:
                    reply = self.chain.call("POST", f"/v1/handoffs/{envelope['id']}/memories", {"missing": True})
                    self.assertEqual([item["id"] for item in reply.json()["found"]], ["ms-1"], reply)

    def test_one_that_is_not_there_at_the_start_is_used_later(self):
        self.server = self.enterContext(Facts("events"))
        self.server.store(ms_1={"text": "fact 1"})
        self.server.start()
        self.server.kill()
        self.start()
        self.assertEqual((self.up(), len(self.daemon.events("spine_unavailable"))), (0, 1))
        self.server.start()
        eventually(lambda: self.up() == 1, "it is found")
        self.assertEqual(self.memory("GET", "ms-1").status, 200)


class Scripted:
    """A server that answers as a script has it: well, or with a trouble."""

    def __init__(self):
        self.seen, self.trouble, self.release = [], None, threading.Event()
        self.tools = [row["tool"] for row in TABLE["operations"].values()]
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.seen.append((body, {name.lower(): value for name, value in self.headers.items()}))
                if server.trouble and body["method"] in server.trouble[1]:
                    self.close_connection = True
                    server.trouble[0](self, body)
                else:
                    self.reply(server.answer(body), **server.headers(body))

            def do_DELETE(self):
                self.reply(None, 405)

            def reply(self, document, status=200, content_type="application/json", **headers):
                text = b"" if document is None else document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status if document is not None or status != 200 else 202)
                self.send_header("Content-Length", str(len(text)))
                self.send_header("Content-Type", content_type)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *arguments):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/mcp"

    @staticmethod
    def headers(body):
        return {"Mcp_Session_Id": "s-1"} if body["method"] == "initialize" else {}

    def answer(self, body):
        results = {
            "server/discover": None,
            "initialize": {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}},
            "tools/list": {"tools": [{"name": name} for name in self.tools]},
            "tools/call": {"content": [{"type": "text", "text": json.dumps({"fact": {"id": "ms-1", "text": "fact 1"}, "facts": []})}]}}
        if "id" not in body:
            return None
        if results[body["method"]] is None:
            return {"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": "unknown method"}}
        return {"jsonrpc": "2.0", "id": body["id"], "result": results[body["method"]]}

    # ---- troubles

    def silent(self, _handler, _body):
        self.release.wait(20)

    def drip(self, handler, _body):
        try:
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + b" " * 500:
                handler.wfile.write(bytes([byte]))
                if self.release.wait(0.02):
                    return
        except OSError:
            pass  # the other side has had enough

    @staticmethod
    def begin_stream(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")

    def endless_events(self, handler, _body):
        self.begin_stream(handler)
        event = b"event: message\ndata: " + json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}).encode() + b"\n\n"
        try:
            while not self.release.wait(0.001):
                handler.wfile.write(event)
        except OSError:
            pass

    def flood_of_events(self, handler, _body):
        self.begin_stream(handler)
        try:
            for _ in range(1600):
                handler.wfile.write(b"data: " + b"x" * 65536 + b"\n")
        except OSError:
            pass

    def events_that_end(self, handler, _body):
        self.begin_stream(handler)
        handler.wfile.write(b": nothing\n\ndata: {}\n\n")

    @staticmethod
    def reset(handler, _body):
        with socket.socket(fileno=handler.request.detach()) as plain:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    @staticmethod
    def not_http(handler, _body):
        handler.wfile.write(b"\x00\xff\x16SSH-2.0-what\r\n\r\n" * 10)

    @staticmethod
    def not_json(handler, _body):
        handler.reply(b"<html>it works</html>")

    @staticmethod
    def another_id(handler, _body):
        handler.reply({"jsonrpc": "2.0", "id": 1_000_000, "result": {}})

    @staticmethod
    def an_error(handler, body):
        handler.reply({"jsonrpc": "2.0", "id": body.get("id"), "error": {"code": -32603, "message": f"Bearer {TOKEN} is odd"}})

    @staticmethod
    def more_is_asked(handler, body):
        handler.reply({"jsonrpc": "2.0", "id": body.get("id"), "result": {"resultType": "input_required", "content": []}})

    def redirect(self, handler, _body):
        handler.reply({}, 302, Location=self.url + "/elsewhere")

    @staticmethod
    def fails(handler, _body):
        handler.reply({"error": "oh no"}, 500)

    @staticmethod
    def rejects(handler, _body):
        handler.reply({"error": "who are you"}, 401)

    @staticmethod
    def always_forgets(handler, _body):
        handler.reply({"error": "no such session"}, 404)

    TROUBLES = ("silent", "drip", "endless_events", "flood_of_events", "events_that_end", "reset", "not_http", "not_json",
                "another_id", "an_error", "redirect", "fails", "rejects", "always_forgets")

    # ---- good answers

    def answered_among_others(self, handler, body):
        """The answer comes after other events, in pieces, and then the stream stays open."""
        self.begin_stream(handler)
        text = json.dumps(self.answer(body), indent=1)
        lines = "".join(f"data: {line}\r\n" for line in text.split("\n"))
        handler.wfile.write(("\ufeffid: 1\nretry: 500\ndata:\n\n: ping\n\nevent: other\ndata: {}\n\n"
                             'data: {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}\n\n' + lines).encode())
        handler.wfile.write(b"\r\n")
        self.release.wait(20)

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close()


class Misbehaving(Case):
    def script(self, **keys):
        self.server = self.enterContext(Scripted())
        self.start(**keys)

    def test_the_oldest_version_that_it_may_speak(self):
        self.script()
        self.assertEqual(self.memory("GET", "ms-1").json()["content"], "fact 1")
        methods = [body["method"] for body, _ in self.server.seen][:4]
        self.assertEqual(methods, ["server/discover", "initialize", "notifications/initialized", "tools/list"])
        headers = self.server.seen[-1][1]
        self.assertEqual((headers["mcp-protocol-version"], headers["mcp-session-id"]), ("2025-03-26", "s-1"))
        self.assertEqual(headers["accept"], "application/json, text/event-stream")

    def test_an_answer_among_events_of_a_stream_that_stays_open(self):
        self.script(timeout="10s")
        self.server.trouble = self.server.answered_among_others, ["tools/call"]
        began = time.monotonic()
        self.assertEqual(self.memory("GET", "ms-1").json()["content"], "fact 1")
        self.assertLess(time.monotonic() - began, 8)

    def test_whatever_it_does_a_handoff_waits_no_longer_than_the_timeout(self):
        for name in (*Scripted.TROUBLES, "more_is_asked"):
            with self.subTest(name):
                self.script(timeout="700ms")
                self.server.trouble = getattr(self.server, name), ["tools/call"]
                began = time.monotonic()
                envelope = self.chain.hand("researcher", "analyst", memory_ids=["ms-1"], include_pins=True)
                self.assertLess(time.monotonic() - began, 5)
                self.assertEqual({key: entry["reason"] for key, entry in missing(envelope).items()},
                                 {"ms-1": "spine_unavailable", "*pinned": "spine_unavailable"})
                self.assertEqual(self.up(), 1)  # one failure may be a chance
                for _ in range(4):
                    reply = self.memory("GET", "ms-1")
                    self.assertEqual((reply.status, reply.json()["code"]), (503, "spine_unavailable"), reply)
                self.assertEqual(self.up(), 0)
                self.assertNotIn(TOKEN, reply.text + self.daemon.log())
                self.server.release.set()

    def test_whatever_it_does_when_it_is_greeted(self):
        troubles = [(name, "initialize") for name in Scripted.TROUBLES]
        troubles += [(name, "tools/list") for name in ("silent", "endless_events", "another_id", "an_error", "fails")]
        for name, method in troubles:
            with self.subTest(f"{name} at {method}"):
                self.server = self.enterContext(Scripted())
                self.server.trouble = getattr(self.server, name), [method]
                self.start(timeout="300ms")
                self.assertEqual((self.up(), len(self.daemon.events("spine_unavailable"))), (0, 1))
                began = time.monotonic()
                envelope = self.chain.hand("researcher", "analyst", memory_ids=["ms-1"])
                self.assertLess(time.monotonic() - began, 5)
                self.assertEqual(missing(envelope)["ms-1"]["reason"], "spine_unavailable")
                self.assertNotIn(TOKEN, self.daemon.log())
                self.server.release.set()

    def test_a_server_that_is_silent_about_the_newer_era_is_asked_for_the_older_one(self):
        self.server = self.enterContext(Scripted())
        self.server.trouble = self.server.silent, ["server/discover"]
        self.start(timeout="500ms")
        eventually(lambda: self.up() == 1, "it is greeted by initialize")
        self.assertEqual(self.memory("GET", "ms-1").status, 200)

    def test_a_session_id_that_is_none_is_not_sent(self):
        self.server = self.enterContext(Scripted())
        self.server.headers = lambda body: {"Mcp_Session_Id": "one\ttwo"} if body["method"] == "initialize" else {}
        self.start(timeout="500ms")
        self.assertEqual(self.up(), 0)
        self.assertEqual([headers for _, headers in self.server.seen if "mcp-session-id" in headers], [])

    def test_pages_of_tools_that_never_end(self):
        self.server = self.enterContext(Scripted())
        answer = self.server.answer

        def pages(body):
            document = answer(body)
            if body["method"] == "tools/list":
                document["result"]["nextCursor"] = "again"
            return document

        self.server.answer = pages
        self.start()
        self.assertEqual((self.up(), self.memory("GET", "ms-1").status), (1, 200))
        self.assertEqual(len([body for body, _ in self.server.seen if body["method"] == "tools/list"]), 64)


class Configured(Case):
    def preset_table(self, kind):
        text = (pathlib.Path(__file__).parents[2] / "docs/spines.md").read_text()
        return json.loads(re.search(rf"<!-- preset:{kind}:begin -->\n```json\n(.*?)```", text, re.DOTALL)[1])

    def what_is_asked(self, table, make, **keys):
        """In no order: requests of one envelope are made at once."""
        with make() as server:
            server.tools = [row.get("tool") for row in table["operations"].values()]
            with daemon_with(pullers("researcher", "analyst"), spine={"url": server.url, **keys}) as daemon:
                self.chain = Chain(daemon, "preset-" + keys["kind"])
                self.assertEqual(len(daemon.events("spine_preset_unverified")), "preset" in keys)
                self.chain.hand("researcher", "analyst", summary="same", memory_ids=["ms-1"], include_pins=True, include_recent=2)
                self.chain.call("GET", "/v1/memories?recent=2")
                self.memory("PUT", "ms-2", {"content": "x", "tags": ["a"], "scope": "user:alice"})
                self.memory("DELETE", "ms-1")
            return sorted(self.without_id(request) for request in server.seen if "probe" not in str(request))

    @staticmethod
    def without_id(request):
        """A request of Scripted or of FactServer."""
        if isinstance(request[0], dict):
            return json.dumps({**request[0], "id": None}, sort_keys=True)
        return str(request[:3])

    def test_a_preset_asks_as_its_table_in_the_documents_does(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for kind, make in ("mcp", Scripted), ("http", FactServer):
            with self.subTest(kind):
                table = self.preset_table(kind)
                (folder / kind).write_text(json.dumps(table))
                by_preset = self.what_is_asked(table, make, kind=kind, preset="memory-spine")
                self.assertGreaterEqual(len(by_preset), 6)
                self.assertEqual(self.what_is_asked(table, make, kind=kind, operations_file=str(folder / kind)), by_preset)


if __name__ == "__main__":
    unittest.main()
