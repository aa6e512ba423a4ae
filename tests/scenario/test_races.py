# SPDX-License-Identifier: Apache-2.0
# variants: release tsan
# soak: yes
"""Everything at once: hundreds of senders, receivers, pollers, late words, decisions, reloads and
scrapes, for some seconds. The thread sanitizer watches where the daemon was built with it; at the end
every handoff that was accepted has ended, and the daemon drains while pollers still wait."""

import asyncio
import collections
import contextlib
import json
import os
import random
import threading
import time
import unittest

from harness import Daemon, eventually
from harness.agents import Caller, config
from harness.wait import TIMEOUT

SECONDS = 12 if os.environ.get("HANDOFF_VARIANT") == "tsan" else 4
SENDERS, POLLERS, READERS, DECIDERS = 150, 60, 20, 10
ENDED = {"acknowledged", "parked", "expired", "discarded"}
# each of these happens before the load ends, however slow the machine is
ANSWERS = ("sent 200", "sent 202", "polled 200", "polled 204", "said 200", "read 200", "decided 200", "decided 202",
           "scraped 200", "reloaded 200")


async def answer(reader):
    """Status and body of an answer with a Content-Length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = 0
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            length = int(value)
    return int(head.split(" ", 2)[1]), head, await reader.readexactly(length)


class Client:
    """Calls of one address over one connection, reopened if it was closed."""

    def __init__(self, address):
        self.host, _, self.port = address.rpartition(":")
        self.writer = None

    async def call(self, method, path, body=b"", **headers):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return await answer(self.reader)

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.writer = None


class Load:
    def __init__(self, daemon, again):
        self.daemon = daemon
        self.again = again  # writes the configuration, and has it read
        self.api = daemon.api.address
        self.web = daemon.web.address
        self.random = random.Random(4)
        self.accepted = set()
        self.seen = collections.Counter()
        self.words = []  # ids whose acknowledgement was announced
        self.end = time.monotonic() + SECONDS

    def goes_on(self):
        """For some seconds, and until every kind of answer was seen; a test that waits in vain fails."""
        now = time.monotonic()
        return now < self.end or (now < self.end + TIMEOUT and not all(self.seen[what] for what in ANSWERS))

    # ---- agents that are sent to

    async def serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = int(head.split("content-length:", 1)[1].split("\r\n", 1)[0])
                await reader.readexactly(length)
                handoff = head.split("handoff-id:", 1)[1].split("\r\n", 1)[0].strip()
                if not await self.react(writer, handoff):
                    break
        writer.close()

    async def react(self, writer, handoff):
        what = self.random.random()
        if what < 0.05:
            return False  # closes without an answer
        if what < 0.15:
            await asyncio.sleep(self.random.random() * 0.2)
        status, body = 200, json.dumps({"ack": handoff}).encode()
        if 0.2 < what < 0.3:
            status, body = 503, b"busy"
        elif 0.3 < what < 0.4:
            status, body = 400, b"no"
        elif 0.4 < what < 0.55:
            status, body = 202, b""
            self.words.append(handoff)
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
        await writer.drain()
        return True

    # ---- those who call

    async def repeat(self, step):
        """Each with a connection of its own; now and then one leaves in the middle."""
        client = Client(self.api)
        while self.goes_on():
            try:
                await asyncio.wait_for(step(client), 0.05 if self.random.random() < 0.03 else 20)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                client.close()
            await asyncio.sleep(0)
        client.close()

    async def send(self, client):
        request = {"source_agent": "analyst", "task_id": f"task-{self.random.randrange(50)}",
                   "target_agent": self.random.choice(["coder", "coder", "spare", "reviewer"]),
                   "task_summary": "Write the retry logic", "include_recent": 2,
                   "constraints": {"deadline": "2099-01-01T00:00:00Z"}}
        more = {}
        if request["target_agent"] == "reviewer" or self.random.random() < 0.5:
            more["Prefer"] = "respond-async"
        if self.random.random() < 0.2:
            more["Idempotency-Key"] = f"key-{self.random.randrange(100)}"
        status, _, body = await client.call("POST", "/v1/handoffs", request, **more)
        self.seen[f"sent {status}"] += 1
        found = json.loads(body)
        found = found.get("handoff", found)
        if "id" in found:
            self.accepted.add(found["id"])

    async def poll(self, client):
        inbox = "reviewer/inbox?wait=500ms" if self.random.random() < 0.9 else "idle/inbox?wait=20ms"
        status, head, _ = await client.call("GET", f"/v1/agents/{inbox}")
        self.seen[f"polled {status}"] += 1
        if status == 200 and self.random.random() < 0.9:
            handoff = head.lower().split("handoff-id:", 1)[1].split("\r\n", 1)[0].strip()
            word = self.random.choice(["ack", "ack", "extend", "nack"])
            await client.call("POST", f"/v1/handoffs/{handoff}/{word}", b"")

    async def speak(self, client):
        if not self.words:
            await asyncio.sleep(0.01)
            return
        handoff = self.words.pop(self.random.randrange(len(self.words)))
        word = self.random.choice(["ack", "ack", "ack", "nack", "extend"])
        status, _, _ = await client.call("POST", f"/v1/handoffs/{handoff}/{word}", b"")
        self.seen[f"said {status}"] += 1

    async def read(self, client):
        path = self.random.choice(["/v1/parked?limit=20", "/v1/agents", "/v1/jobs",
                                   f"/v1/tasks/task-{self.random.randrange(50)}"])
        if self.accepted and self.random.random() < 0.6:
            handoff = self.random.choice(list(self.accepted))
            path = f"/v1/handoffs/{handoff}" + self.random.choice(["", "/attempts", "/envelope"])
        status, _, _ = await client.call("GET", path)
        self.seen[f"read {status}"] += 1

    async def decide(self, client):
        _, _, body = await client.call("GET", "/v1/parked?limit=5")
        parked = [h["id"] for h in json.loads(body)["items"]]
        if not parked:
            await asyncio.sleep(0.01)
            return
        handoff, what = self.random.choice(parked), self.random.random()
        if what < 0.5:
            status, _, _ = await client.call("POST", f"/v1/parked/{handoff}/replay")
        elif what < 0.7:
            status, _, _ = await client.call("POST", f"/v1/parked/{handoff}/replay", {"edit": {}})
        elif what < 0.9:
            status, _, _ = await client.call("DELETE", f"/v1/parked/{handoff}?reason=no")
        else:
            status, _, _ = await client.call("POST", "/v1/jobs", {"action": "replay", "rate": 1000, "limit": 20})
        self.seen[f"decided {status}"] += 1

    async def remember(self, client):
        name = f"ms-{self.random.randrange(20)}"
        await client.call("PUT", f"/v1/memories/{name}", {"content": "Retries have jitter. " + name})
        await client.call("GET", "/v1/memories?recent=5&query=retries")

    async def scrape(self):
        kinds = ["text/plain", "application/openmetrics-text",
                 "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
                 "encoding=delimited"]
        host, _, port = self.web.rpartition(":")
        while self.goes_on():
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /metrics HTTP/1.0\r\nAccept: %s\r\n\r\n"
                         % self.random.choice(kinds).encode())
            page = await reader.read(-1)
            writer.close()
            self.seen[f"scraped {page[9:12].decode()}"] += 1

    async def reload(self):
        host, _, port = self.web.rpartition(":")
        while self.goes_on():
            self.again(self.random.random() < 0.5)
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"POST /-/reload HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
            page = await reader.read(-1)
            writer.close()
            self.seen[f"reloaded {page[9:12].decode()}"] += 1
            await asyncio.sleep(0.1)

    async def run(self):
        steps = [(self.send, SENDERS), (self.poll, POLLERS), (self.speak, 10),
                 (self.read, READERS), (self.decide, DECIDERS), (self.remember, 4)]
        tasks = [self.repeat(step) for step, count in steps for _ in range(count)]
        await asyncio.gather(*tasks, self.scrape(), self.scrape(), self.reload())


class Races(unittest.TestCase):
    def setUp(self):
        self.load = None
        self.loop = asyncio.new_event_loop()
        self.addCleanup(self.end_loop)
        self.server = self.loop.run_until_complete(asyncio.start_server(
            lambda reader, writer: self.load.serve(reader, writer), "127.0.0.1", 0))
        port = self.server.sockets[0].getsockname()[1]
        self.agents = {name: {"url": f"http://127.0.0.1:{port}/"} for name in ("coder", "spare")}
        self.agents["reviewer"] = {"ack_timeout": "300ms", "retries": 5}

    def end_loop(self):
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.server.close()
        self.loop.close()

    def configuration(self, more):
        agents = {**self.agents, "coder": {**self.agents["coder"], "alternates": ["spare"]},
                  "idle": {}}  # nothing is sent to it
        if more:
            agents["late"] = agents["spare"]
            agents["reviewer"] = {**agents["reviewer"], "retries": 4}
        return config(agents, {"ack_timeout": "500ms", "timeout": "2s",
                               "breaker": {"failures": 20, "cooldown": "100ms"}})

    def test_everything_at_once(self):
        with Daemon("--shutdown.timeout=2s", config=self.configuration(False)) as daemon:
            self.load = load = Load(
                daemon, lambda more: daemon.write_config(self.configuration(more)))
            self.loop.run_until_complete(load.run())
            self.assertTrue(daemon.is_running(), daemon.log())
            for what in ANSWERS:
                self.assertGreater(load.seen[what], 0, (what, load.seen))
            odd = [what for what in load.seen if what.split()[1].startswith("50") and
                   what not in ("sent 502", "sent 503", "sent 504", "decided 503")]
            self.assertEqual(odd, [])
            self.finish(daemon, load)
            idle = [daemon.api.socket() for _ in range(20)]  # they wait while it drains
            for raw in idle:
                raw.sendall(b"GET /v1/agents/reviewer/inbox?wait=60s HTTP/1.1\r\nHost: x\r\n\r\n")
            daemon.terminate()
            self.assertEqual(daemon.wait(), 0, daemon.log())
            for raw in idle:
                raw.close()
            self.assertNotIn("ThreadSanitizer", daemon.log())
            print(dict(load.seen))

    def finish(self, daemon, load):
        """Lets what is in flight end; the agents answer on as before."""
        thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        thread.start()
        caller = Caller(daemon)

        def none_in_flight():
            for word in list(load.words):
                load.words.remove(word)
                caller.call("POST", f"/v1/handoffs/{word}/ack")
            reply = caller.call("GET", "/v1/agents/reviewer/inbox")
            if reply.status == 200:
                caller.call("POST", f"/v1/handoffs/{reply.header('Handoff-Id')}/ack")
            agents = caller.call("GET", "/v1/agents").json()["items"]
            return all(agent["in_flight"] == 0 for agent in agents)

        try:
            eventually(none_in_flight, "what was under way has ended", timeout=120)
            states = collections.Counter(caller.state(h)["state"]
                                         for h in self.load.random.sample(
                                             sorted(load.accepted), min(300, len(load.accepted))))
            self.assertLessEqual(set(states), ENDED, states)
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            thread.join()


if __name__ == "__main__":
    unittest.main()
