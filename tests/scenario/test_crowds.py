# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""Clients that take places and slots and give nothing: scrapes and agents are answered in spite of them."""

import contextlib
import json
import socket
import unittest

from harness import Daemon, Receiver, eventually
from harness.agents import config
from harness.http import exchange, read_reply
from harness.receiver import ack

SLOTS = 4
# Enough series that one answer exceeds the buffers of both sockets.
AGENTS = "agents:\n" + "".join(f"  agent-{i:04}: {{}}\n" for i in range(600))


class Stuck:
    """A scraper that has asked, and reads nothing but what it is told to."""

    def __init__(self, http, source="127.0.0.1", path=b"/metrics"):
        self.raw = socket.socket()
        self.raw.settimeout(30)
        self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.raw.bind((source, 0))
        self.raw.connect((http.host, http.port))
        self.raw.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        self.raw.recv(1, socket.MSG_PEEK)  # the answer has begun

    def is_cut(self):
        self.raw.setblocking(False)
        try:
            self.raw.send(b"x")
            return False
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        finally:
            self.raw.settimeout(30)

    def close(self):
        self.raw.close()


class Case(unittest.TestCase):
    def daemon(self, **more):
        daemon = self.enterContext(Daemon(**more))
        self.http = daemon.web
        return daemon

    def stuck(self, count, **more):
        clients = [Stuck(self.http, **more) for _ in range(count)]
        for client in clients:
            self.addCleanup(client.close)
        return clients

    def scrape(self, source=None):
        connection = self.http.connection(source=source)
        try:
            return exchange(connection, "GET", "/metrics", headers={"Accept-Encoding": "gzip"})
        finally:
            connection.close()

    def check_whole(self, reply):
        self.assertEqual(reply.status, 200, reply)
        self.assertIn('target_agent="agent-0599"', reply.text)

    def whole(self, source=None):
        """A scrape that is answered in the end, as Prometheus tries again at its next interval."""
        reply = eventually(lambda: self.answered(source), "a scrape is answered")
        self.check_whole(reply)

    def answered(self, source):
        reply = self.scrape(source)
        return reply if reply.status == 200 else None


class Scrapers(Case):
    def test_four_that_do_not_read_lose_a_slot_to_the_fifth(self):
        daemon = self.daemon(config=AGENTS)
        stuck = self.stuck(SLOTS)
        self.whole()
        cut = daemon.wait_for_event("connection_evicted")
        self.assertEqual((cut["reason"], cut["listener"]), ("slow_reader", "web"))
        self.assertGreaterEqual(sum(client.is_cut() for client in stuck), 1)
        self.assertIn('handoff_exporter_scrapes_total{code="499"}', self.scrape().text)

    def test_nor_do_four_that_read_a_little(self):
        self.daemon(config=AGENTS)
        stuck = self.stuck(SLOTS)

        def answered():
            for client in stuck:
                if not client.is_cut():
                    client.raw.recv(16)
            return self.answered(None)
        self.check_whole(eventually(answered, "a scrape is answered"))

    def test_four_that_never_leave_are_replaced_one_by_one(self):
        self.daemon(config=AGENTS)
        for _ in range(2):
            self.stuck(SLOTS - 1)
            self.whole()

    def test_who_has_scraped_before_has_a_slot_at_once(self):
        self.daemon(config=AGENTS)
        self.check_whole(self.scrape("127.0.0.2"))
        self.stuck(SLOTS)
        self.check_whole(self.scrape("127.0.0.2"))

    def test_and_only_one(self):
        self.daemon(config=AGENTS)
        self.check_whole(self.scrape("127.0.0.2"))
        self.stuck(SLOTS, source="127.0.0.2")
        self.assertEqual(self.scrape("127.0.0.2").status, 503)

    def test_a_pipeline_of_probes_that_is_not_read(self):
        """No slot, but a place: it gives way when it is needed, and delays no one."""
        self.daemon()
        with self.http.socket() as raw:
            raw.setblocking(False)
            try:
                while raw.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100):
                    pass
            except BlockingIOError:
                pass
            self.assertEqual(self.scrape().status, 200)


class Connections(Case):
    def idle(self, count, sources, first=None):
        clients = []
        for i in range(count):
            client = self.http.socket(source=f"127.0.0.{2 + i % sources}")
            self.addCleanup(client.close)
            if first:
                client.sendall(first)
                self.assertEqual(read_reply(client).status, 200)
            clients.append(client)
        return clients

    def check_all_are_served(self, daemon, reason):
        for source in None, "127.0.0.2", "127.0.0.9":
            self.assertEqual(self.scrape(source).status, 200)
        cut = daemon.wait_for_event("connection_evicted")
        self.assertEqual(cut["reason"], reason)

    def test_600_idle_ones_of_many_addresses(self):
        daemon = self.daemon()
        self.idle(600, 6, b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
        self.check_all_are_served(daemon, "idle")

    def test_600_of_one_address(self):
        daemon = self.daemon()
        self.idle(600, 1, b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
        self.check_all_are_served(daemon, "idle")

    def test_600_that_never_ask(self):
        daemon = self.daemon()
        self.idle(600, 6)
        self.check_all_are_served(daemon, "no_request")

    def test_600_that_never_finish_asking(self):
        daemon = self.daemon()
        for client in self.idle(600, 1):
            try:
                client.sendall(b"GET / HTTP/1.1\r\nX-Long: ")
            except ConnectionError:
                pass  # it has given way
        self.check_all_are_served(daemon, "no_request")


def is_cut(client):
    """Asked of the socket: when a thousand give way in a second, the log has the first few lines only."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


class IdleAgents(unittest.TestCase):
    """A fleet of agents keeps its connections open and says nothing, beside those that work."""

    CROWD = 600

    def setUp(self):
        coder = self.enterContext(contextlib.closing(Receiver(ack)))
        self.daemon = Daemon("--shutdown.timeout=200ms", start=False,
                             config=config({"coder": {"url": coder.url}, "puller": {"ack_timeout": "1h"}}))
        # then there are some dozens of places
        self.daemon.command = ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", *self.daemon.command]
        self.enterContext(self.daemon)
        self.daemon.start()
        places = self.daemon.wait_for_event("few_descriptors")
        # come between two requests of those that work
        self.at_once = min(int(places["api_connections"]), int(places["web_connections"])) // 2
        self.assertLess(10 * self.at_once, self.CROWD)

    def come(self, http, first):
        """Some more connections that idle after this first request; b"": that never ask."""
        clients = [http.socket() for _ in range(self.at_once)]
        for raw in clients:
            self.addCleanup(raw.close)
            if first:
                raw.sendall(first)
                self.assertEqual(read_reply(raw).status, 200)
        return clients

    def worker(self, http):
        connection = http.connection()
        self.addCleanup(connection.close)
        return connection

    def check_work(self, api, web):
        body = json.dumps({"source_agent": "analyst", "target_agent": "coder", "task_summary": "s"})
        self.assertEqual(exchange(api, "POST", "/v1/handoffs", body).status, 200)
        body = json.dumps({"source_agent": "analyst", "target_agent": "puller", "task_summary": "s"})
        sent = exchange(api, "POST", "/v1/handoffs", body, {"Prefer": "respond-async"})
        self.assertEqual(sent.status, 202, sent)
        pulled = exchange(api, "GET", "/v1/agents/puller/inbox?wait=0s")
        self.assertEqual((pulled.status, pulled.header("Handoff-Id")), (200, sent.json()["id"]), pulled)
        self.assertEqual(exchange(api, "POST", f"/v1/handoffs/{sent.json()['id']}/ack").status, 200)
        self.assertEqual(exchange(web, "GET", "/metrics").status, 200)
        self.assertEqual(exchange(web, "GET", "/-/ready").status, 200)

    def check_newcomers_work(self):
        self.check_work(self.worker(self.daemon.api), self.worker(self.daemon.web))

    def crowds(self, first):
        """The crowd comes, some of it to each listener in turn."""
        agents, probes = [], []
        for _ in range(self.CROWD // self.at_once):
            agents += self.come(self.daemon.api, first)
            yield
            probes += self.come(self.daemon.web, first.replace(b"/v1/agents", b"/-/healthy"))
            yield
        for name, clients in ("api", agents), ("web", probes):
            self.assertTrue(any(map(is_cut, clients)), f"the crowd did not fill the {name} listener")

    def test_idle_agents_give_way_to_those_that_work_over_old_connections_and_new(self):
        api, web = self.worker(self.daemon.api), self.worker(self.daemon.web)
        for _ in self.crowds(b"GET /v1/agents HTTP/1.1\r\nHost: x\r\n\r\n"):
            self.check_work(api, web)
        self.check_newcomers_work()

    def test_agents_that_never_ask_keep_none_out_that_works(self):
        """They come after each other, so a connection that idles between two requests gives way as well."""
        for _ in self.crowds(b""):
            self.check_newcomers_work()


if __name__ == "__main__":
    unittest.main()
