# SPDX-License-Identifier: Apache-2.0
# soak: yes
"""Nothing that was accepted is lost, at whatever instant the daemon is killed.

Senders hand off without pause, some waiting for the acknowledgement and some not; receivers
acknowledge, fail, defer, refuse, dawdle and pull. A few requests are so long that they are assembled on
a worker thread, finished bodies are removed for their size, some handoffs are cancelled, some clients
connect and send nothing, ask for all there is and do not read it, or send what is not HTTP, and at times
the daemon may open no further descriptor. Meanwhile it is killed with SIGKILL and started again, some
hundred times, also while it starts, and at times it is asked to end, which it does. When it has been left alone long enough, its books are compared with those of the senders and
the receivers. A sender that was answered 200 is held to have been told the truth: no later attempt
arrives, whatever was killed in between.

The metrics are held to the same books. Before the last start all clients pause, so the
first scrape must show what the killed daemon left in its store; then all continue, and what the last
daemon counted must be what receivers answered it and what its store says was settled since.

HANDOFF_CRASH_ROUNDS  how often it is killed (300)
HANDOFF_SEED          of the instants and of how receivers behave; printed. The kernel's scheduling
                      is not in it: the same seed tries the same thing again, but does not replay it.
"""

import asyncio
import collections
import contextlib
import json
import os
import random
import re
import resource
import socket
import sqlite3
import subprocess
import time
import unittest

from prometheus_client.parser import text_string_to_metric_families

from harness import Daemon

ROUNDS = int(os.environ.get("HANDOFF_CRASH_ROUNDS", "300"))
SEED = int(os.environ.get("HANDOFF_SEED") or random.SystemRandom().randrange(1 << 32))

HANDOFFCTL = os.environ["HANDOFFCTL"]

SENDERS = 200
SILENT = 20        # clients that connect and send only the start of a request
DEAF = 10          # clients that ask for large answers and read nothing
RUDE = 5           # clients that send what is malformed
CANCELLED = 0.05   # share of the handoffs that their sender takes back
ASKED = 0.05       # share of the ends that are asked for
SHORT = 0.1        # share of the lives in which there are no descriptors for a while
LONG = 0.01        # share of the requests that are computed on a worker
LIFE = 0.25        # seconds from ready to the kill, at most
PAUSE = 0.8        # of a sender between two handoffs, at most
EARLY = 0.1        # share of the kills that hit a daemon that is still starting
QUIET = 90.0       # seconds for what is left to settle, at the end
LAST_LIFE = 1.0    # seconds that the last daemon gets work, so there is something to count

AGENTS = ["steady", "flaky", "later", "slow", "refuser", "broken", "puller"]
# Those that answer an attempt at once and for good, so that each request is one counted attempt.
PROMPT = ["steady", "flaky", "slow", "refuser", "broken"]
# client/model/handoff_model.def
ACKNOWLEDGED, PARKED = 4, 5

# An agent's history is trimmed to the budget, so a long one can be sent to any agent.
LONG_HISTORY = [{"agent": "sender", "action": f"step {i}", "reason": "because it was needed " * 50}
                for i in range(100)]

CONFIG = """
storage: {retention: {size: 1MiB}}
defaults:
  timeout: 2s
  ack_timeout: 3s
  retries: 3
  backoff: {base: 10ms, max: 100ms}
  breaker: {failures: 1000, cooldown: 100ms}
agents:
"""

# The daemon may refuse so; store_io and out_of_memory while it has no descriptors.
REFUSALS = ("circuit_open", "too_many_in_flight", "shutting_down", "store_io", "out_of_memory")
# What a receiver's status is counted as, where its body does not say.
KINDS = {503: "http"}

HEADER = re.compile(rb"\r\n([A-Za-z-]+): *([^\r\n]*)")


# ---- HTTP, as little as both sides need -----------------------------------------------------------

async def read_message(reader):
    """The first line, the headers with lower-case names, the body. IncompleteReadError at the end."""
    head = await reader.readuntil(b"\r\n\r\n")
    headers = {name.lower().decode(): value.decode() for name, value in HEADER.findall(head)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return head.split(b"\r\n", 1)[0].decode(), headers, body


class Connection:
    """A kept-alive connection to the daemon of the moment; any failure is a ConnectionError."""

    def __init__(self, address):
        self.address = address  # called for each connection
        self.streams = None

    async def request(self, method, path, body=b"", headers=None):
        """(status, document or None)"""
        try:
            if self.streams is None:
                self.streams = await asyncio.open_connection(*self.address())
            reader, writer = self.streams
            extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
            writer.write(f"{method} {path} HTTP/1.1\r\nHost: daemon\r\nContent-Length: {len(body)}"
                         f"\r\n{extra}\r\n".encode() + body)
            first, got, answer = await read_message(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            raise ConnectionError(str(error)) from error
        if got.get("connection", "").lower() == "close":
            self.close()
        return int(first.split()[1]), json.loads(answer) if answer else None

    def close(self):
        if self.streams:
            self.streams[1].close()
        self.streams = None


# ---- the books --------------------------------------------------------------------------------

class Books:
    """What senders and receivers know, by handoff id and by the sender's own number."""

    def __init__(self):
        self.accepted = {}                            # id -> number, where the daemon said so
        self.acknowledged = set()                     # ids a receiver was willing to acknowledge
        self.told = {}                                # id -> attempts, where a sender got 200
        self.cancelling = set()                       # ids that a sender asked to take back
        self.cancelled = set()                        # those of them where it was answered 200
        self.attempts = collections.defaultdict(list) # id -> attempt numbers that arrived
        self.ids = collections.defaultdict(set)       # number -> ids that arrived or were answered
        self.answers = collections.Counter()          # of the daemon to senders
        self.run = 0                                  # the last one is 1
        self.answered = collections.Counter()         # (agent, answer) of receivers in the last run
        self.faults = []                              # what must not be

    def arrived(self, headers, body):
        envelope = json.loads(body)
        handoff_id = headers["handoff-id"]
        if envelope["id"] != handoff_id:
            self.faults.append(f"{handoff_id} arrived with the envelope of {envelope['id']}")
        attempt = int(headers["handoff-attempt"])
        if attempt > self.told.get(handoff_id, attempt):
            self.faults.append(f"{handoff_id} arrived with attempt {attempt} after its sender was answered "
                               f"200 for attempt {self.told[handoff_id]}")
        self.attempts[handoff_id].append(attempt)
        self.ids[envelope["task_id"]].add(handoff_id)
        return handoff_id


# ---- receivers ----------------------------------------------------------------------------------

class Receivers:
    """One server for all agents; the path says which."""

    def __init__(self, books, dice, address, breathing):
        self.books, self.dice, self.address, self.breathing = books, dice, address, breathing
        self.server = None
        self.tasks = set()
        self.reading = 0  # connections whose next request is awaited

    async def open(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    def start(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def close(self):
        self.server.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def read(self, reader):
        self.reading += 1
        try:
            return await read_message(reader)
        finally:
            self.reading -= 1

    async def serve(self, reader, writer):
        run = self.books.run
        try:
            while True:
                first, headers, body = await self.read(reader)
                handoff_id = self.books.arrived(headers, body)
                await self.breathing.wait()
                agent = first.split()[1].strip("/")
                status, answer = await getattr(self, agent)(handoff_id)
                if run:
                    self.books.answered[agent, KINDS.get(status) or next(iter(answer), "later")] += 1
                text = json.dumps(answer).encode()
                writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: {len(text)}\r\n\r\n"
                             .encode() + text)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def acknowledge(self, handoff_id):
        self.books.acknowledged.add(handoff_id)  # before the word leaves: it may be cut off
        return 200, {"ack": handoff_id}

    async def steady(self, handoff_id):
        return self.acknowledge(handoff_id)

    async def flaky(self, handoff_id):
        return (503, {}) if self.dice.random() < 0.3 else self.acknowledge(handoff_id)

    async def slow(self, handoff_id):
        await asyncio.sleep(self.dice.random() * 0.3)
        return self.acknowledge(handoff_id)

    async def refuser(self, handoff_id):
        return 200, {"nack": handoff_id, "reason": "not mine", "retry": False}

    async def broken(self, _):
        return 503, {}

    async def later(self, handoff_id):
        self.start(self.speak(handoff_id, self.dice.random() * 0.3))
        return 202, {}

    async def speak(self, handoff_id, delay):
        """Acknowledges by the API, and again until the daemon has answered."""
        await asyncio.sleep(delay)
        self.books.acknowledged.add(handoff_id)
        connection = Connection(self.address)
        while True:
            await self.breathing.wait()
            try:
                status, _ = await connection.request("POST", f"/v1/handoffs/{handoff_id}/ack")
                break
            except ConnectionError:
                await asyncio.sleep(0.02)
        connection.close()
        if status not in (200, 409, 503):  # 409: parked meanwhile, for it came too late
            self.books.faults.append(f"the acknowledgement of {handoff_id} was answered {status}")

    async def pull(self):
        """An agent without a server."""
        connection = Connection(self.address)
        while True:
            await self.breathing.wait()
            try:
                status, envelope = await connection.request("GET", "/v1/agents/puller/inbox?wait=1s")
                if status == 200:
                    self.books.ids[envelope["task_id"]].add(envelope["id"])
                    self.books.attempts[envelope["id"]].append(0)
                    await self.speak(envelope["id"], 0)
            except ConnectionError:
                await asyncio.sleep(0.02)


# ---- senders ------------------------------------------------------------------------------------

class Sender:
    def __init__(self, index, books, dice, address, breathing):
        self.index, self.books, self.dice, self.breathing = index, books, dice, breathing
        self.connection = Connection(address)
        self.count = 0

    async def work(self, stop):
        while not stop.is_set():
            await asyncio.sleep(self.dice.random() * PAUSE)
            self.count += 1
            await self.send(f"n-{self.index}-{self.count}", stop)
        self.connection.close()

    async def send(self, number, stop):
        """One handoff. With a key it is repeated until it is answered, and at times once more."""
        request = {"source_agent": "sender", "target_agent": self.dice.choice(AGENTS),
                   "task_id": number, "task_summary": "survive"}
        if self.dice.random() < LONG:
            request["execution_history"] = LONG_HISTORY
        body = json.dumps(request).encode()
        keyed = self.dice.random() < 0.7
        headers = {"Content-Type": "application/json"}
        if keyed:
            headers["Idempotency-Key"] = number
        if self.dice.random() < 0.6:
            headers["Prefer"] = "respond-async"
        while True:
            await self.breathing.wait()
            try:
                status, answer = await self.connection.request("POST", "/v1/handoffs", body, headers)
                self.note(number, status, answer)
                if status == 202 and not self.books.run and self.dice.random() < CANCELLED:
                    await self.cancel(answer["id"])
                if not keyed or self.dice.random() > 0.1:
                    return
            except ConnectionError:
                self.books.answers["cut"] += 1
                if not keyed or stop.is_set():
                    return
            await asyncio.sleep(0.02)

    async def cancel(self, handoff_id):
        self.books.cancelling.add(handoff_id)
        status, _ = await self.connection.request("POST", f"/v1/handoffs/{handoff_id}/cancel")
        if status == 200:
            self.books.cancelled.add(handoff_id)
        elif status not in (409, 503):  # 409: it has just been acknowledged
            self.books.faults.append(f"taking back {handoff_id} was answered {status}")

    def note(self, number, status, answer):
        self.books.answers[f"{status} {answer.get('code', answer.get('state'))}"] += 1
        handoff = answer if status in (200, 202) else answer.get("handoff")
        if handoff:
            self.books.accepted[handoff["id"]] = number
            self.books.ids[number].add(handoff["id"])
            if status == 200:
                self.books.told[handoff["id"]] = handoff["attempts"]
        elif answer.get("code") not in REFUSALS:
            self.books.faults.append(f"{number} was answered {status}: {answer}")


async def stay_silent(address, stop):
    """Connects, sends the start of a request, and waits until it is cut."""
    while not stop.is_set():
        try:
            reader, writer = await asyncio.open_connection(*address())
            writer.write(b"POST /v1/handoffs HTTP/1.1\r\nHost: ")
            await asyncio.wait_for(reader.read(1), 1)
            writer.close()
        except (OSError, asyncio.TimeoutError):
            pass
        await asyncio.sleep(0.02)


async def stay_deaf(address, stop):
    """Asks for what is large, on a connection with hardly any room, and reads nothing."""
    while not stop.is_set():
        raw = socket.socket()
        raw.setblocking(False)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(raw, address()), 1)
            raw.send(b"GET /v1/handoffs?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
            await asyncio.sleep(1)
        except (OSError, asyncio.TimeoutError):
            pass
        raw.close()
        await asyncio.sleep(0.02)


MALFORMED = [b"POST /v1/handoffs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}{}{}",
             b"POST /v1/handoffs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n{}",
             b"POST /v1/handoffs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
             b"GET /v1/hand\0offs HTTP/1.1\r\nHost: x\r\n\r\n",
             b"GET /" + b"x" * 40000 + b" HTTP/1.1\r\n\r\n",
             b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
             b"POST /v1/handoffs HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n" + b"[" * 9]


async def be_rude(address, dice, stop):
    """Sends what must be rejected, and waits for the answer or the end."""
    while not stop.is_set():
        try:
            reader, writer = await asyncio.open_connection(*address())
            writer.write(dice.choice(MALFORMED))
            await asyncio.wait_for(reader.read(1), 1)
            writer.close()
        except (OSError, asyncio.TimeoutError):
            pass
        await asyncio.sleep(0.05)


# ---- the daemon, killed ---------------------------------------------------------------------------

class Victim:
    """One daemon after the other on the same store."""

    def __init__(self, config):
        self.daemon = Daemon("--shutdown.timeout=500ms", config=config, start=False)
        self.port = None

    def address(self):
        if self.port is None:
            raise ConnectionError("there is no daemon")
        return "127.0.0.1", self.port

    def launch(self):
        self.daemon.log_path.unlink(missing_ok=True)
        self.daemon.launch()

    async def ready(self):
        while not self.daemon.events("ready"):
            if not self.daemon.is_running():
                raise AssertionError(f"the daemon did not start again:\n{self.daemon.log()}")
            await asyncio.sleep(0.005)
        self.port = self.daemon.api.port

    def kill(self):
        self.port = None
        self.daemon.kill()

    async def live_and_die(self, dice):
        self.launch()
        if dice.random() < EARLY:
            await asyncio.sleep(dice.random() * 0.05)
        else:
            await self.ready()
            await self.live(dice)
        if not self.daemon.is_running():
            raise AssertionError(f"the daemon ended by itself:\n{self.daemon.log()}")
        if self.port and dice.random() < ASKED:
            await self.ask_to_end()
        else:
            self.kill()

    async def live(self, dice):
        if dice.random() < SHORT:
            await asyncio.sleep(dice.random() * LIFE / 2)
            with no_descriptors(self.daemon.process.pid):
                await asyncio.sleep(dice.random() * LIFE / 2)
        await asyncio.sleep(dice.random() * LIFE)

    async def ask_to_end(self):
        """While it ends it may answer what it was asked before."""
        self.daemon.terminate()
        code = await asyncio.to_thread(self.daemon.wait)
        self.port = None
        if code != 0:
            raise AssertionError(f"the daemon ended with {code} when it was asked to:\n{self.daemon.log()}")


@contextlib.contextmanager
def no_descriptors(pid):
    """The process keeps those it has, and gets no further one."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


# ---- what metrics and store say --------------------------------------------------------------------

class Samples:
    """One scrape, added up by agent."""

    def __init__(self, daemon):
        self.families = list(text_string_to_metric_families(daemon.web.get("/metrics").text))

    def by_agent(self, name, **labels):
        """{agent: sum of the series of that name with those labels}"""
        found = collections.Counter(dict.fromkeys(AGENTS, 0))
        for sample in (sample for family in self.families for sample in family.samples):
            if sample.name == name and labels.items() <= sample.labels.items() and \
                    sample.labels["target_agent"] in AGENTS:
                found[sample.labels["target_agent"]] += sample.value
        return dict(found)


Standing = collections.namedtuple("Standing", "live parked failures")


class Store:
    """The daemon's database, read beside it."""

    def __init__(self, folder):
        self.path = next(folder.glob("*.db"))

    def query(self, text, *values):
        database = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        try:
            return database.execute(text, values).fetchall()
        finally:
            database.close()

    def count(self, states):
        rows = self.query(f"SELECT target, count(*) FROM handoffs WHERE state IN ({states}) GROUP BY target")
        return {**dict.fromkeys(AGENTS, 0), **dict(rows)}

    def standing(self):
        """How many handoffs of each agent are in flight, are parked, and failed in a row."""
        failures = dict(self.query("SELECT agent, consecutive_failures FROM circuits"))
        return Standing(self.count("1, 2, 3"), self.count("5"), {**dict.fromkeys(AGENTS, 0), **failures})

    def settled_since(self, ms):
        """Counter of (agent, state)"""
        rows = self.query("SELECT target, state, count(*) FROM handoffs WHERE settled_at >= ? "
                          "GROUP BY target, state", ms)
        return collections.Counter({(target, state): count for target, state, count in rows})


# ---- the test -------------------------------------------------------------------------------------

class Crash(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        print(f"HANDOFF_SEED={SEED} HANDOFF_CRASH_ROUNDS={ROUNDS}", flush=True)
        self.dice = random.Random(SEED)
        self.books = Books()
        self.states = {}  # id -> what the daemon says of it at the end
        self.left = 0     # handoffs in flight whose senders were disconnected before their answer

    def test_nothing_accepted_is_lost(self):
        asyncio.run(self.run_all())
        self.check_books()

    async def run_all(self):
        breathing = asyncio.Event()
        breathing.set()
        receivers = Receivers(self.books, self.dice, lambda: victim.address(), breathing)
        port = await receivers.open()
        victim = Victim(config_for(port))
        stop = asyncio.Event()
        senders = [asyncio.ensure_future(
            Sender(i, self.books, self.dice, victim.address, breathing).work(stop))
            for i in range(SENDERS)]
        senders += [asyncio.ensure_future(stay_silent(victim.address, stop)) for _ in range(SILENT)]
        senders += [asyncio.ensure_future(stay_deaf(victim.address, stop)) for _ in range(DEAF)]
        senders += [asyncio.ensure_future(be_rude(victim.address, self.dice, stop)) for _ in range(RUDE)]
        for _ in range(4):
            receivers.start(receivers.pull())
        try:
            for _ in range(ROUNDS):
                await victim.live_and_die(self.dice)
            breathing.clear()
            await self.last_start(victim, receivers, port)
            breathing.set()
            await asyncio.sleep(LAST_LIFE)
            stop.set()
            await asyncio.gather(*senders)
            await asyncio.wait_for(self.settle(victim), QUIET)
            await asyncio.wait_for(self.check_last_run(victim), QUIET)
            victim.daemon.expected_exit = 0
            victim.daemon.terminate()
            self.assertEqual(await asyncio.to_thread(victim.daemon.wait), 0, victim.daemon.log())
            self.check_store(victim.daemon.folder / "data")
        except BaseException:
            print(f"---- log of the last daemon\n{victim.daemon.log()}----\n{self.books.answers}")
            raise
        finally:
            await receivers.close()
            if victim.daemon.is_running():
                victim.daemon.kill()
            victim.daemon.discard()

    # ---- what the metrics say

    async def last_start(self, victim, receivers, port):
        """Starts the last daemon while nobody sends or answers; what it shows is what was left."""
        # accepted in order: once this one is read from, so are all of the daemon that was killed
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        while receivers.reading != 1:
            await asyncio.sleep(0.01)
        writer.close()
        left = Store(victim.daemon.folder / "data").standing()
        self.books.run = 1
        self.started_ms = int(time.time() * 1e3)
        victim.launch()
        await victim.ready()
        first = await asyncio.to_thread(Samples, victim.daemon)
        in_flight, parked = first.by_agent("handoff_in_flight"), first.by_agent("handoff_parked_entries")
        for agent in AGENTS:
            with self.subTest("first scrape", agent=agent):
                # a lease or a late acknowledgement may have run out meanwhile: then it is parked
                self.assertEqual(in_flight[agent] + parked[agent], left.live[agent] + left.parked[agent])
                self.assertGreaterEqual(parked[agent], left.parked[agent])
                self.assertGreaterEqual(first.by_agent("handoff_consecutive_failures")[agent],
                                        left.failures[agent])
                self.assertEqual(first.by_agent("handoff_circuit_state")[agent], 1)
                oldest = first.by_agent("handoff_oldest_in_flight_seconds")[agent]
                self.assertEqual(oldest > 0, in_flight[agent] > 0)
        self.assertGreater(sum(left.live.values()), 0, "nothing was under way at the last kill")
        self.assertEqual(first.by_agent("handoff_handoffs_total", outcome="acknowledged")["steady"], 0)

    async def check_last_run(self, victim):
        """Counters, receivers and store, once nothing moves any more."""
        store = Store(victim.daemon.folder / "data")
        while True:
            now = await asyncio.to_thread(Samples, victim.daemon)
            standing = store.standing()
            if sum(now.by_agent("handoff_in_flight").values()) == 0 and \
                    now.by_agent("handoff_parked_entries") == standing.parked:
                break
            await asyncio.sleep(0.1)
        self.assertEqual(sum(standing.live.values()), 0)
        settled = store.settled_since(self.started_ms)
        answered = self.books.answered
        print(f"last run: {dict(answered)}, settled {dict(settled)}")
        for agent in AGENTS:
            with self.subTest("last run", agent=agent):
                self.check_agent(now, agent, settled, answered)
        self.assertGreater(sum(answered.values()), 50, "the last daemon had next to nothing to count")

    def check_agent(self, now, agent, settled, answered):
        # of those that were accepted: what an open circuit rejects takes no time and has no row
        ended = {outcome: now.by_agent("handoff_duration_seconds_count", outcome=outcome)[agent]
                 for outcome in ("acknowledged", "exhausted", "refused", "expired", "circuit_open")}
        self.assertEqual(sum(ended.values()), settled[agent, ACKNOWLEDGED] + settled[agent, PARKED])
        self.assertEqual(ended["expired"], 0)
        for outcome in ("acknowledged", "exhausted", "refused"):
            self.assertEqual(now.by_agent("handoff_handoffs_total", outcome=outcome)[agent],
                             ended[outcome])
        if agent not in PROMPT:
            return
        self.assertEqual(ended["acknowledged"], settled[agent, ACKNOWLEDGED])
        self.assertEqual(now.by_agent("handoff_parked_total")[agent], settled[agent, PARKED])
        counted = {result: now.by_agent("handoff_attempts_total", result=result)[agent]
                   for result in ("ack", "nack", "http", "timeout", "connect", "protocol")}
        self.assertEqual(counted, {result: answered[agent, result] for result in counted})

    # ---- the end

    async def settle(self, victim):
        """Asks for every accepted handoff until none is under way."""
        waiting = collections.deque(self.books.accepted)

        async def ask():
            connection = Connection(victim.address)
            while waiting:
                handoff_id = waiting.popleft()
                status, handoff = await connection.request("GET", f"/v1/handoffs/{handoff_id}")
                self.states[handoff_id] = handoff["state"] if status == 200 else f"answered {status}"
                if self.states[handoff_id] in ("ready", "in_flight", "awaiting_ack"):
                    waiting.append(handoff_id)
                    await asyncio.sleep(0.05)
            connection.close()
        await asyncio.gather(*[ask() for _ in range(8)])

    def check_store(self, path):
        done = subprocess.run([HANDOFFCTL, "store", "check", str(path)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        files = list(path.glob("*.db")) or [
            file for file in path.iterdir() if file.read_bytes()[:15] == b"SQLite format 3"]
        self.assertEqual(len(files), 1, list(path.iterdir()))
        database = sqlite3.connect(files[0])
        try:
            self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
            self.assertEqual(database.execute("PRAGMA foreign_key_check").fetchall(), [])
            live = database.execute("SELECT count(*) FROM handoffs WHERE state IN (1, 2, 3)")
            self.left = live.fetchone()[0]
        finally:
            database.close()

    def check_books(self):
        books = self.books
        settled = collections.Counter(self.states.values())
        print(f"answers {dict(books.answers)}\nsettled {dict(settled)}, left {self.left}; "
              f"{sum(map(len, books.attempts.values()))} deliveries of {len(books.attempts)} handoffs")
        self.assertEqual(books.faults, [])
        lost = {handoff_id: state for handoff_id, state in self.states.items()
                if state not in ("acknowledged", "parked") and
                not (state == "discarded" and handoff_id in books.cancelling)}
        self.assertEqual(lost, {}, "accepted, but neither acknowledged nor parked")
        unheard = [handoff_id for handoff_id, state in self.states.items()
                   if state == "acknowledged" and handoff_id not in books.acknowledged]
        self.assertEqual(unheard, [], "acknowledged by no agent")
        back = {handoff_id: self.states.get(handoff_id) for handoff_id in books.cancelled
                if self.states.get(handoff_id) != "discarded"}
        self.assertEqual(back, {}, "a sender was told that it is taken back")
        undone = {handoff_id: self.states.get(handoff_id) for handoff_id in books.told
                  if self.states.get(handoff_id) != "acknowledged"}
        self.assertEqual(undone, {}, "a sender was told that it is acknowledged")
        doubled = {number: ids for number, ids in books.ids.items() if len(ids) > 1}
        self.assertEqual(doubled, {}, "one handoff under several ids")
        # the test has to have tested something
        self.assertGreater(settled["acknowledged"], ROUNDS)
        self.assertGreater(settled["parked"], ROUNDS // 10)
        self.assertGreater(books.answers["cut"], ROUNDS // 10)
        self.assertGreater(len(books.cancelling), 0)
        self.assertTrue(any(len(attempts) != len(set(attempts))
                            for attempts in books.attempts.values()), "nothing arrived twice")


def config_for(port):
    text = CONFIG
    for agent in AGENTS:
        if agent == "puller":
            text += "  puller: {ack_timeout: 1s}\n"
            continue
        breaker = ", breaker: {failures: 3, cooldown: 100ms}" if agent == "broken" else ""
        text += f"  {agent}: {{url: 'http://127.0.0.1:{port}/{agent}'{breaker}}}\n"
    return text


if __name__ == "__main__":
    unittest.main()
