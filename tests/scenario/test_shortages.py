# SPDX-License-Identifier: Apache-2.0
# variants: release asan
# soak: yes
"""The sidecar runs out of descriptors, ports, threads or memory: agents are not blamed, and what it reserved
still works.

An attempt that could not be made does not count: it is not numbered, not recorded, and the circuit of the
agent learns nothing of it. It is made again until the handoff's deadline.
"""

import datetime
import errno
import fcntl
import itertools
import json
import os
import pathlib
import resource
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from harness import Daemon, Receiver, eventually
from harness.agents import Caller, config, daemon_with
from harness.authority import Authority
from harness.failing_calls import PROGRAM, FailingCalls
from harness.http import exchange, read_reply
from harness.receiver import ack

# One failure would open the circuit and park the handoff.
STRICT = {"retries": 0, "breaker": {"failures": 1, "cooldown": "1h"}}


def limited(daemon, descriptors):
    """Starts it with that limit of descriptors, soft and hard."""
    daemon.command = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(descriptors), *daemon.command]
    return daemon.start()


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Case(unittest.TestCase):
    def metric(self, name):
        text = self.daemon.web.get("/metrics").body.decode()
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))

    def shortages(self, what="descriptors"):
        return self.metric(f'handoff_exporter_resource_shortages_total{{resource="{what}"}}')

    def is_blameless(self, agent="coder"):
        self.assertEqual(self.metric(f'handoff_circuit_opened_total{{target_agent="{agent}"}}'), 0)
        self.assertEqual(self.metric(f'handoff_consecutive_failures{{target_agent="{agent}"}}'), 0)
        for result in "timeout", "connect", "protocol":
            self.assertEqual(self.metric(
                f'handoff_attempts_total{{target_agent="{agent}",result="{result}"}}'), 0)

    def does_not_spin(self):
        """A loop that is asked again and again for what it cannot do takes a core."""
        pid = self.daemon.process.pid
        began, used = time.monotonic(), cpu_seconds(pid)
        eventually(lambda: time.monotonic() - began > 1, "a second has passed")
        self.assertLess((cpu_seconds(pid) - used) / (time.monotonic() - began), 0.5)


class WaitingSenders(Case):
    """1,100 senders that wait, at 1,024 descriptors."""

    SENDERS = 1100
    HANDOFFS = 20

    def setUp(self):
        self.taken_in = threading.Event()
        self.coder = self.enterContext(Receiver(self.busy_until_taken_in))
        agents = {"coder": {"url": self.coder.url, "retries": 100, "breaker": {"failures": 1000}}, "poller": {}}
        self.daemon = self.enterContext(limited(Daemon(config=config(agents), start=False), 1024))
        self.caller = Caller(self.daemon)

    def busy_until_taken_in(self, request):
        """Closes, so that each attempt needs a new connection."""
        request.handler.close_connection = True
        if self.taken_in.is_set():
            request.answer(200, {"ack": request.id}, connection="close")
        else:
            request.answer(503, connection="close", retry_after="1")

    def wait_for_nobody(self):
        """A sender whose agent never comes. Polls would give way to others (test_polls.py)."""
        raw = self.daemon.api.socket()
        self.addCleanup(raw.close)
        body = json.dumps({"source_agent": "analyst", "target_agent": "poller", "task_summary": "wait"}).encode()
        raw.sendall(b"POST /v1/handoffs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s" %
                    (len(body), body))
        return raw

    def test_deliveries_and_scrapes_go_on(self):
        for _ in range(self.HANDOFFS):
            self.caller.send_async()
        senders = [self.wait_for_nobody() for _ in range(self.SENDERS)]
        eventually(lambda: self.metric("process_open_fds") > 350, "those with a place are taken in")
        self.taken_in.set()
        eventually(lambda: self.metric(
            'handoff_handoffs_total{target_agent="coder",pattern="direct",outcome="acknowledged"}') ==
            self.HANDOFFS, "all are delivered")
        self.is_blameless()
        self.assertEqual(self.daemon.web.get("/-/ready").status, 200)
        self.does_not_spin()
        self.assertLess(self.metric("process_open_fds"), 1024 - 200)  # what is reserved for others
        line = self.daemon.wait_for_event("out_of_resources")
        self.assertEqual((line["resource"], line["hindered"]),
                         ("descriptors", "accepting connections on the API listener"))
        eventually(lambda: self.shortages() >= 3, "clients wait for seconds")
        findings = self.daemon.web.get("/?format=json").json()["findings"]
        self.assertIn("The sidecar ran out of descriptors", "".join(each["text"] for each in findings))
        for raw in senders:
            raw.close()
        self.assertEqual(self.caller.send().status, 200)  # there is room again

    def test_the_soft_limit_is_raised(self):
        soft, hard = resource.prlimit(self.daemon.process.pid, resource.RLIMIT_NOFILE)
        self.assertEqual((soft, hard), (1024, 1024))
        line = self.daemon.wait_for_event("few_descriptors")
        self.assertEqual(line["limit"], "1024")
        self.assertLess(sum(int(line[f"{who}_connections"]) for who in ("api", "web", "delivery")), 1024)


class NoDescriptorAtAll(Case):
    """The limit falls to what is open."""

    def setUp(self):
        self.coder = self.enterContext(Receiver(ack))
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        authority = Authority(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*map(str, authority.issue("right", "IP:127.0.0.1")))
        self.secure = self.enterContext(Receiver(ack, tls=context))
        self.daemon = self.enterContext(daemon_with({
            "coder": {"url": self.coder.url, **STRICT},
            "named": {"url": self.coder.url.replace("127.0.0.1", "localhost"), **STRICT},
            "secure": {"url": self.secure.url, **STRICT, "tls": {"ca_file": str(authority.path)}}}))
        self.caller = Caller(self.daemon)
        self.kept = {listener: getattr(self.daemon, listener).connection() for listener in ("api", "web")}
        for connection in self.kept.values():
            self.addCleanup(connection.close)
            exchange(connection, "GET", "/-/healthy")

    def metric(self, name):
        """Over the connection that there is."""
        text = exchange(self.kept["web"], "GET", "/metrics").body.decode()
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))

    def clients(self, listener):
        """Connections that the sidecar holds, also those whose clients have left (CLOSE_WAIT)."""
        port = f":{getattr(self.daemon, listener).port:04X}"
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
        return sum(row[1].endswith(port) and row[3] in ("01", "08") for row in rows)

    def leave(self, free):
        """A number that is given back afterwards would be below the limit."""
        pid = self.daemon.process.pid
        for listener in "api", "web":
            eventually(lambda: self.clients(listener) <= 1, f"only the kept connection is left of {listener}")
        used = (fd for fd in itertools.count() if not os.path.lexists(f"/proc/{pid}/fd/{fd}"))
        self.hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (list(itertools.islice(used, free + 1))[-1], self.hard))

    def sockets(self):
        folder = pathlib.Path(f"/proc/{self.daemon.process.pid}/fd")
        return sum(os.readlink(link).startswith("socket:") for link in folder.iterdir())

    def give_back(self):
        resource.prlimit(self.daemon.process.pid, resource.RLIMIT_NOFILE, (self.hard, self.hard))

    def send(self, target, **fields):
        reply = exchange(self.kept["api"], "POST", "/v1/handoffs",
                         b'{"source_agent": "a", "target_agent": "%s", "task_summary": "x"%s}' % (
                             target.encode(), fields.get("more", b"")), {"Prefer": "respond-async"})
        self.assertEqual(reply.status, 202, reply)
        return reply.json()["id"]

    def test_a_well_agent_is_not_blamed(self):
        for target in "coder", "named", "secure":
            with self.subTest(target):
                self.leave(0)
                before = self.shortages()
                handoff = self.send(target)
                eventually(lambda: self.shortages() > before + 1, "it was tried twice")
                self.is_blameless(target)
                line = self.daemon.events("out_of_resources")[-1]
                self.assertEqual((line["resource"], line["hindered"], line["handoff"], line["target"]),
                                 ("descriptors", "connecting to an agent", handoff, target))
                self.give_back()
                self.assertEqual(self.caller.wait_for_state(handoff, "acknowledged")["attempts"], 1)
                made = eventually(lambda: self.caller.attempts(handoff), "it is written")
                self.assertEqual([each["result"] for each in made], ["ack"])
                self.is_blameless(target)

    def test_the_deadline_of_a_handoff_holds(self):
        self.leave(0)
        soon = (datetime.datetime.now(datetime.timezone.utc) +
                datetime.timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
        handoff = self.send("coder", more=b', "constraints": {"deadline": "%s"}' % soon.encode())
        eventually(lambda: self.metric(
            'handoff_handoffs_total{target_agent="coder",pattern="direct",outcome="expired"}') == 1, "it expired")
        self.is_blameless()
        self.give_back()
        self.assertEqual(self.caller.state(handoff)["attempts"], 0)

    def test_accepting_pauses_also_where_there_is_no_client(self):
        before = self.sockets()
        for connection in self.kept.values():
            connection.close()
        eventually(lambda: self.sockets() == before - len(self.kept), "both clients have left")
        self.leave(0)
        with self.daemon.web.socket() as waiting:
            waiting.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(self.daemon.wait_for_event("out_of_resources")["hindered"],
                             "accepting connections on the web listener")
            self.does_not_spin()
            self.give_back()
            self.assertEqual(read_reply(waiting).status, 200)
        self.assertGreater(Case.metric(self, 'handoff_exporter_resource_shortages_total'
                                             '{resource="descriptors"}'), 0)


class Injected(Case):
    """What no test can use up without harm to others fails on demand."""

    def setUp(self):
        self.calls = FailingCalls()
        self.addCleanup(self.calls.close)
        self.coder = self.enterContext(Receiver(ack))

    def start(self):
        self.daemon = self.enterContext(daemon_with(
            {"coder": {"url": self.coder.url, **STRICT},
             "named": {"url": self.coder.url.replace("127.0.0.1", "agent.test"), **STRICT}},
            program=PROGRAM, env=self.calls.environment))
        self.caller = Caller(self.daemon)

    def check_shortage(self, resource, hindered, target=""):
        line = self.daemon.wait_for_event("out_of_resources")
        self.assertEqual((line["resource"], line["hindered"], line["target"]), (resource, hindered, target))
        self.assertEqual(self.shortages(resource), 1)

    def delivers_once(self, target, kind, error):
        self.calls.arm(kind, 0, error)
        handoff = self.caller.send_async(target)
        self.assertEqual(self.caller.wait_for_state(handoff, "acknowledged")["attempts"], 1)
        self.assertEqual(self.calls.fired, 1)
        self.is_blameless(target)

    def test_a_port_for_a_connection(self):
        self.start()
        self.delivers_once("coder", "connect", errno.EADDRNOTAVAIL)
        self.check_shortage("ports", "connecting to an agent", "coder")

    def test_a_thread_that_looks_up_a_name(self):
        self.start()
        self.delivers_once("named", "thread", errno.EAGAIN)
        self.check_shortage("threads", "connecting to an agent", "named")

    def test_the_thread_that_makes_checkpoints(self):
        """It is started by the first one, when the WAL has 4,000 pages."""
        self.start()
        self.calls.arm("thread", 0, errno.EAGAIN)
        note = "A note that takes some pages. " * 2000

        def told():
            for i in range(50):
                self.assertIn(self.caller.call("PUT", f"/v1/memories/m{i}", {"content": note}).status, (200, 201))
            return self.daemon.events("out_of_resources")
        eventually(told, "a checkpoint is due")
        self.check_shortage("threads", "starting the store's checkpoint thread")

    def test_memory_for_the_vocabulary(self):
        """Handoffs are accepted, and their tokens estimated."""
        self.start()
        if self.daemon.events("token_counts_estimated"):
            self.skipTest("the build has no vocabulary")
        for place in range(100):  # of all mappings of a start
            self.daemon.kill()
            self.daemon.log_path.unlink()
            self.calls.arm("mmap", place, errno.ENOMEM)
            self.daemon.start()
            if self.daemon.events("token_counts_estimated"):
                break
        self.daemon.expected_exit = 0
        self.assertIn("Cannot allocate memory", self.daemon.events("token_counts_estimated")[0]["error"])
        self.check_shortage("memory", "opening the vocabulary")
        self.assertEqual(self.caller.send().status, 200)


def bring_up_loopback():
    """As `ip link set lo up`."""
    with socket.socket() as any_socket:
        up = struct.pack("16sh14x", b"lo", 1)  # IFF_UP
        fcntl.ioctl(any_socket, 0x8914, up)    # SIOCSIFFLAGS


class OwnNetwork(Case):
    """A network with 500 local ports, all in use to one agent; other connections need others."""

    PORTS = range(40000, 40500)

    def setUp(self):
        if os.environ.get("HANDOFF_OWN_NETWORK") != "yes":
            self.skipTest("see OwnNetworkIsMade")
        bring_up_loopback()
        self.coder = self.enterContext(Receiver(ack))
        self.daemon = self.enterContext(daemon_with({"coder": {"url": self.coder.url, **STRICT}}))
        self.caller = Caller(self.daemon)
        pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(
            f"{self.PORTS[0]} {self.PORTS[-1]}", encoding="ascii")

    def use_up(self):
        host, _, port = self.coder.address.rpartition(":")
        taken = []
        try:
            while True:
                taken.append(socket.create_connection((host, int(port))))
        except OSError as error:
            self.assertEqual(error.errno, errno.EADDRNOTAVAIL)
        self.assertGreater(len(taken), 0)
        return taken

    def test_a_well_agent_is_not_blamed(self):
        taken = self.use_up()
        handoff = self.caller.send_async()
        eventually(lambda: self.shortages("ports") >= 3, "it was tried again and again")
        self.is_blameless()
        line = self.daemon.wait_for_event("out_of_resources")
        self.assertEqual((line["resource"], line["hindered"], line["target"]),
                         ("ports", "connecting to an agent", "coder"))
        findings = self.daemon.web.get("/?format=json").json()["findings"]
        self.assertIn("The sidecar ran out of ports", "".join(each["text"] for each in findings))
        for each in taken:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no TIME_WAIT
            each.close()
        self.assertEqual(self.caller.wait_for_state(handoff, "acknowledged")["attempts"], 1)
        self.is_blameless()


class OwnNetworkIsMade(unittest.TestCase):
    """Runs the class above in a network namespace."""

    def test_it(self):
        own = ["unshare", "--user", "--map-root-user", "--net"]
        if subprocess.run([*own, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this machine does not let us make a network namespace")
        done = subprocess.run([*own, sys.executable, __file__, "-v", "OwnNetwork"], capture_output=True, text=True,
                              env={**os.environ, "HANDOFF_OWN_NETWORK": "yes"}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("OK", done.stderr)
        self.assertNotIn("skipped", done.stderr)


if __name__ == "__main__":
    unittest.main()
