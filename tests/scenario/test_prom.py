# SPDX-License-Identifier: Apache-2.0
"""Programs that are written for prometheus-client-c, with the installed library and nothing else of the project.

The programs of tests/prom call it as six real ones do. They are compiled with warnings as errors, and with the
sanitizers of the build tree; each must end with exit code 0, so without a leak, a race or an overflow.
"""
# variants: release asan tsan

import concurrent.futures
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import unittest

from harness import Http, Prometheus, Relay, TIMEOUT, eventually
from harness.installed import Installed
from harness.ports import reserved_port

SOURCE = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
SANITIZE = {"asan": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            "tsan": ["-fsanitize=thread"]}.get(os.environ["HANDOFF_VARIANT"], [])
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
OPENMETRICS_2 = "application/openmetrics-text;version=2.0.0"
PROTOBUF = ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
THREADS, ROUNDS = 4, 30000  # of threads.c


class Program:
    """One program of tests/prom that runs; a context manager that ends it and checks how it ended."""

    def __init__(self, installed, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=installed.environment())
        self.port = self.process.stdout.readline().strip()
        if not self.port:
            raise AssertionError(f"{path} did not begin: {self.process.communicate()}")
        self.http = Http(f"127.0.0.1:{self.port}")

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "done\n":
            raise AssertionError(f"{line}: {self.process.communicate()}")

    def get(self, accept=None, **headers):
        if accept:
            headers["Accept"] = accept
        return self.http.request("GET", "/metrics", headers=headers)

    def samples(self):
        """{line without its value: value} of the text format."""
        lines = [line for line in self.get().text.splitlines() if not line.startswith("#")]
        found = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
        assert len(found) == len(lines), "a sample is shown twice"
        return found

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        output, errors = self.process.communicate(timeout=TIMEOUT)
        if kind is None and (self.process.returncode, output, errors) != (0, "", ""):
            raise AssertionError(f"ended with {self.process.returncode}: {output}{errors}")


class WithLibrary(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.installed = cls.enterClassContext(Installed("promhttp", "prom"))

    @classmethod
    def build(cls, name, *options):
        source = SOURCE / "tests/prom" / f"{name}.c"
        return cls.installed.build(source, "-pedantic", "-g", *SANITIZE, *options)

    def run_program(self, name):
        return Program(self.installed, self.build(name))


class Users(WithLibrary):
    """Each as the program that its head names."""

    def test_relay_server(self):
        with self.run_program("relay_server") as program:
            self.assertEqual(program.samples().get('turn_traffic_rcvb{realm="example.org"}'), None)
            program.command("session example.org 1500")
            program.command('session 1",b="2 3')  # cut at nothing: no blank
            program.command("session example.org 0.5")
            for sign in "++-":
                program.command(f"allocation {sign}")
            found = program.samples()
            self.assertEqual(found['turn_traffic_rcvb{realm="example.org"}'], 1500.5)
            self.assertEqual(found['turn_traffic_sentb{realm="example.org"}'], 750.25)
            self.assertEqual(found['turn_traffic_rcvb{realm="1\\",b=\\"2"}'], 3)
            self.assertEqual(found['turn_total_allocations{type="UDP"}'], 1)

    def test_core_network(self):
        with self.run_program("core_network") as program:
            request = 'fivegs_amffunction_rm_reginitreq{plmnid="001-01",dnn="internet"}'
            self.assertEqual(program.samples()[request], 0)
            for line in ("sessions 12", "registration", "setup 0.2", "setup 99"):
                program.command(line)
            found = program.samples()
            self.assertEqual((found[request], found["fivegs_smffunction_sm_sessionnbr"]), (1, 12))
            for kind, bounds in {"linear": ("0.1", "0.2", "0.30000000000000004"), "exponential": ("0.1", "1", "10"),
                                 "variable": ("0.1", "0.5", "2.5")}.items():
                self.assertEqual([found[f'setup_{kind}_bucket{{le="{bound}"}}'] for bound in (*bounds, "+Inf")],
                                 [0, 1, 1, 2], kind)
                self.assertEqual((found[f"setup_{kind}_count"], found[f"setup_{kind}_sum"]), (2, 99.2))
            self.assertEqual(found['setup_default_bucket{le="0.25"}'], 1)

    def test_pooler(self):
        with self.run_program("pooler") as program:
            program.command("clients 8")
            worker, route = 'clients_processed{worker="worker[0]"}', 'client_pool_active{database="db",user="user"}'
            self.assertEqual(program.samples(), {worker: 8})
            with concurrent.futures.ThreadPoolExecutor(2) as scrapers:
                scrapes = [scrapers.submit(program.samples) for _ in range(100)]
                for _ in range(20):
                    program.command("routes")
                    program.command("general")
                seen = {frozenset(scrape.result().items()) for scrape in scrapes}
            self.assertLessEqual(seen, {frozenset({(worker, 8)}), frozenset({(worker, 8), (route, 4)})})
            program.command("routes")
            self.assertEqual(program.samples(), {worker: 8, route: 4})

    def test_network_card(self):
        with self.run_program("network_card") as program:
            program.command("attach 1")
            self.assertEqual(program.samples()['nic_block_1_packets{block="1"}'], 10)
            self.assertEqual(program.samples()['nic_block_1_packets{block="1"}'], 20)
            with concurrent.futures.ThreadPoolExecutor(2) as scrapers:
                scrapes = [scrapers.submit(program.get) for _ in range(100)]
                for _ in range(10):
                    for i in range(2, 6):
                        program.command(f"attach {i}")
                    for i in range(2, 6):
                        program.command(f"detach {i}")
                self.assertEqual({scrape.result().status for scrape in scrapes}, {200})
            program.command("detach 1")
            self.assertEqual([name for name in program.samples() if name.startswith("nic_")], [])

    def test_peers(self):
        with self.run_program("peers") as program:
            for line in ("connect 1", "connect 1", "connect 2", "leave 1"):
                program.command(line)
            self.assertEqual({name: value for name, value in program.samples().items() if name.startswith("peer_")},
                             {"peer_2_connections": 1})
            program.command("connect 1")
            self.assertEqual(program.samples()["peer_1_connections"], 1)  # a new one

    def test_node_agent(self):
        with self.run_program("node_agent") as program:
            program.command("update 2")
            self.assertEqual(program.samples()['node_network_receive_bytes_total{device="eth1"}'], 2e6)
            program.command("update 1")
            found = program.samples()
            self.assertEqual({name: value for name, value in found.items() if name.startswith("node_network")},
                             {'node_network_receive_bytes_total{device="eth0"}': 1e6, 'node_network_up{device="eth0"}': 1})
            self.assertEqual((found['node_load{of="minute"}'], found["node_context_switches_total"],
                              found["node_memory_free_bytes"]), (0.25, 2000, 1e10))
            self.assertGreater(found["process_open_fds"], 3)
            # what is set began elsewhere, when is known of the CPU time alone
            text = program.get(OPENMETRICS_2).text
            self.assertRegex(text, r'\nnode_network_receive_bytes_total\{device="eth0"\} \S+\n')
            start = float(re.search(r"\nprocess_cpu_seconds_total \S+ st@(\S+)\n", text)[1])
            self.assertAlmostEqual(start, found["process_start_time_seconds"], delta=0.01)

    def test_declarations_of_the_original(self):
        program = self.build("declared")
        text = subprocess.run([program], check=True, capture_output=True, text=True,
                              env=self.installed.environment()).stdout
        for line in ('c_total{a="1"} 3.5', 'level{a="1"} 12', 'level{a="2"} 6', "g 42", 'h_bucket{le="0.005"} 1',
                     "h_count 2"):
            self.assertIn(f"\n{line}\n", text)
        self.assertNotIn("gone", text)

    def test_the_examples_of_the_headers(self):
        def example(header):
            text = (self.installed.folder / "prefix/include" / header).read_text()
            found = re.findall(r"^ \*     (.*)", text, re.MULTILINE)
            self.assertTrue(found, header)
            return "{\n" + "\n".join(found) + "\n}\n"
        source = self.installed.folder / "examples.c"
        source.write_text(
            "#include <metric.h>\n#include <prom.h>\n#include <stdio.h>\nint main(void)\n{\n"
            "prom_collector_registry_default_init();\n"
            "struct metric_registry *registry ="
            " metric_registry_new(&(struct metric_registry_options){.threads = 1, .max_series = 9});\n"
            'const struct metric_desc desc = {.name = "h", .type = METRIC_HISTOGRAM, .help = "h",'
            ' .labels = {"agent", "pattern"}};\n' +
            "".join(map(example, ("prom_counter.h", "prom_gauge.h", "prom_histogram.h", "metric.h", "prom_scrape.h"))) +
            "metric_registry_free(&registry);\n"
            "return prom_collector_registry_destroy(PROM_COLLECTOR_REGISTRY_DEFAULT);\n}\n")
        program = self.installed.build(source, "-g", *SANITIZE)
        text = subprocess.run([program], check=True, capture_output=True, text=True,
                              env=self.installed.environment()).stdout
        for line in ('h_count{agent="coder",pattern="direct"} 1', 'http_requests_total{method="GET"} 1',
                     'room_temperature_celsius{room="kitchen"} 21.5', "request_seconds_count 1"):
            self.assertIn(f"\n{line}\n", text)
        self.assertTrue(text.endswith("\n# EOF\n"))  # the last step, too, was written

    def test_a_plugin_is_closed_while_its_threads_live(self):
        plugin = self.installed.folder / "plugin.so"
        host = self.installed.build(SOURCE / "tests/prom/plugin_host.c", "-pedantic", "-g", *SANITIZE)
        archives = [self.installed.library / name for name in ("libpromhttp.a", "libprom.a")]
        for kind, libraries in (("shared", self.installed.flags()),
                                ("static", [f"-I{self.installed.folder}/prefix/include", *archives, "-lmicrohttpd", "-lz",
                                            "-lyyjson", "-lm"])):
            with self.subTest(kind):
                subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-g", *SANITIZE, "-fPIC", "-shared",
                                SOURCE / "tests/prom/plugin.c", *libraries, "-o", plugin], check=True)
                ended = subprocess.run([host, plugin], capture_output=True, text=True, timeout=TIMEOUT,
                                       env=self.installed.environment())
                self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "closed\n", ""))

    def test_the_example(self):
        program = self.installed.build(SOURCE / "examples/metrics.c", *SANITIZE)
        with reserved_port() as port:
            process = subprocess.Popen([program, str(port)], env=self.installed.environment())
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            http = Http(f"127.0.0.1:{port}")

            def counted():
                try:
                    return re.search(r'^requests_total{method="GET"} [1-9]', http.get("/metrics").text, re.MULTILINE)
                except OSError:
                    return None
            eventually(counted, "the example counts")


class Serving(WithLibrary):
    def test_formats(self):
        with self.run_program("threads") as program:
            for accept, kind, line in (
                    (None, "text/plain; version=0.0.4", "\nload_gauge 0\n"),
                    (OPENMETRICS, "application/openmetrics-text; version=1.0.0", "\n# EOF\n"),
                    (OPENMETRICS_2, "application/openmetrics-text; version=2.0.0", "\nload_seconds_total 0 st@"),
                    (PROTOBUF, "application/vnd.google.protobuf;", None)):
                for encoding in ("identity", "gzip"):
                    with self.subTest(accept=accept, encoding=encoding):
                        reply = program.get(accept, **{"Accept-Encoding": encoding})
                        self.assertEqual(reply.status, 200)
                        self.assertTrue(reply.header("Content-Type").startswith(kind))
                        self.assertEqual(reply.header("Content-Encoding"), "gzip" if encoding == "gzip" else None)
                        self.assertEqual(reply.header("Vary"), "Accept, Accept-Encoding")
                        self.assertIn(line.encode() if line else b"load_gauge", reply.body)
            head = program.http.request("HEAD", "/metrics")
            self.assertEqual((head.status, head.raw), (200, b""))
            self.assertEqual(program.http.get("/").text, "OK\n")
            self.assertEqual(program.http.get("/nothing").status, 404)
            refused = program.http.request("POST", "/metrics")
            self.assertEqual((refused.status, refused.header("Allow")), (405, "GET, HEAD"))

    def test_rude_clients(self):
        with self.run_program("threads") as program:
            with socket.create_connection(("127.0.0.1", int(program.port)), TIMEOUT) as client:
                client.sendall(b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
                self.assertEqual(client.recv(12, socket.MSG_WAITALL), b"HTTP/1.1 405")  # without waiting for the body
            with socket.create_connection(("127.0.0.1", int(program.port)), TIMEOUT) as client:
                with contextlib.suppress(ConnectionError):  # it need not read all of it, nor answer
                    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100000)
                    self.assertRegex(client.recv(100), rb"^(HTTP/1\.1 4\d\d |$)")
            for nonsense in (b"", b"\0\xff nonsense\r\n\r\n", b"GET /metrics HTTP/1.1\r\n"):
                self.enterContext(socket.create_connection(("127.0.0.1", int(program.port)), TIMEOUT)).sendall(nonsense)
            for _ in range(100):
                socket.create_connection(("127.0.0.1", int(program.port)), TIMEOUT).close()
            self.assertEqual(program.samples()["load_gauge"], 0)

    def slow_reader(self, http):
        """A client in the middle of an answer."""
        client = self.enterContext(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(TIMEOUT)
        client.connect((http.host, http.port))
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        self.assertEqual(client.recv(12, socket.MSG_WAITALL), b"HTTP/1.1 200")
        return client

    @staticmethod
    def read_some(client):
        text = b""
        while len(text) < 1 << 20:
            text += client.recv(1 << 16)
        return text

    def crowd(self):
        """The program, and its two daemons."""
        program = self.enterContext(self.run_program("crowd"))
        program.process.stdin.write("second\n")
        program.process.stdin.flush()
        second = Http(f"127.0.0.1:{program.process.stdout.readline().strip()}")
        self.assertEqual(program.process.stdout.readline(), "done\n")
        return program, (program.http, second)

    def assert_full(self, https):
        for http in https:  # one cap for both
            refused = http.request("GET", "/metrics")
            self.assertEqual((refused.status, refused.header("Retry-After")), (503, "1"))
            self.assertEqual(http.get("/").text, "OK\n")

    def test_the_cap_and_the_end(self):
        program, https = self.crowd()
        readers = [self.slow_reader(program.http) for _ in range(16)]
        self.assert_full(https)
        begun = self.read_some(readers[0])  # so it is not the slowest
        readers.pop().close()
        eventually(lambda: https[1].get("/metrics").status == 200, "a slot is free again")
        program.command("destroy")
        self.assertEqual(https[1].get("/metrics").status, 503)  # the registry is gone
        program.command("another")
        self.assertEqual(https[1].get("/metrics").status, 503)  # even if another one has its address
        text = begun + b"".join(iter(lambda: readers[0].recv(1 << 20), b""))  # who had begun reads all of it
        self.assertEqual(text.count(b"\ncrowd{"), 20000)
        self.assertTrue(text.endswith(b"\r\n0\r\n\r\n"))
        program.command("stop")  # while the others are in the middle of theirs

    def test_the_slowest_reader_gives_way(self):
        for which in range(2):  # a thread for each connection, and one for all
            program, https = self.crowd()
            drip = self.slow_reader(https[which])  # first, so it has had the longest time, too
            readers = [self.slow_reader(https[which]) for _ in range(15)]
            for reader in readers:
                self.read_some(reader)

            def drip_and_ask():
                with contextlib.suppress(ConnectionError):
                    drip.recv(1)
                return program.http.get("/metrics").status == 200
            eventually(drip_and_ask, "the slowest gives way")
            text = b""
            with contextlib.suppress(ConnectionError):
                text = b"".join(iter(lambda: drip.recv(1 << 20), b""))
            self.assertFalse(text.endswith(b"\r\n0\r\n\r\n"))
            text = b"".join(iter(lambda: readers[-1].recv(1 << 20), b""))
            self.assertTrue(text.endswith(b"\r\n0\r\n\r\n"))
            program.command("stop")

    def test_exact_values_in_the_real_prometheus(self):
        program = self.enterContext(self.run_program("threads"))  # ends after its scrapers
        address = f"127.0.0.1:{program.port}"
        relay = self.enterContext(Relay(address, "text/plain;version=0.0.4"))
        classic = self.enterContext(Prometheus({"text": relay.address, "openmetrics": address}))
        native = self.enterContext(Prometheus({"protobuf": address}, ["native-histograms"]))
        program.command("start")
        for prometheus in (classic, native):
            prometheus.scraped()
        program.command("finish")
        for prometheus in (classic, native):
            prometheus.scraped()
        for prometheus, job in ((classic, "text"), (classic, "openmetrics"), (native, "protobuf")):
            with self.subTest(job=job):
                self.check_values(prometheus, f'job="{job}"', native=prometheus is native)
                for target in prometheus.targets()[job]:
                    self.assertEqual((target["health"], target["lastError"]), ("up", ""))

    def test_every_user_in_the_real_prometheus(self):
        users = {"relay_server": ("session example.org 1500", 'turn_traffic_rcvb{realm="example.org"}', 1500),
                 "core_network": ("sessions 12", "fivegs_smffunction_sm_sessionnbr", 12),
                 "pooler": ("clients 8", 'clients_processed{worker="worker[0]"}', 8),
                 "network_card": ("attach 1", "nic_block_1_errors", 0),
                 "peers": ("connect 1", "peer_1_connections", 1),
                 "node_agent": ("update 1", 'node_network_receive_bytes_total{device="eth0"}', 1e6)}
        formats = {"text": "text/plain;version=0.0.4", "openmetrics": OPENMETRICS, "protobuf": PROTOBUF}
        jobs = {kind: {} for kind in formats}
        for name, (command, _, _) in users.items():
            program = self.enterContext(self.run_program(name))
            program.command(command)
            for kind, accept in formats.items():
                jobs[kind][f"{name}-{kind}"] = self.enterContext(Relay(f"127.0.0.1:{program.port}", accept)).address
        classic = self.enterContext(Prometheus({**jobs["text"], **jobs["openmetrics"]}))
        native = self.enterContext(Prometheus(jobs["protobuf"], ["native-histograms"]))
        for prometheus in (classic, native):
            prometheus.scraped()
            for job, targets in prometheus.targets().items():
                _, selector, value = users[job.split("-")[0]]
                with self.subTest(job=job):
                    self.assertEqual([(target["health"], target["lastError"]) for target in targets], [("up", "")])
                    name, _, labels = selector.rstrip("}").partition("{")
                    self.assertEqual(prometheus.value(f'{name}{{job="{job}",{labels}}}'), value)

    def check_values(self, prometheus, job, native):
        def value(selector):
            return prometheus.value(selector.replace("{", "{" + job + ",", 1) if "{" in selector
                                    else selector + "{" + job + "}")
        observed = THREADS * ROUNDS
        self.assertEqual(value('load_total{thread="shared"}'), observed)
        for thread in range(THREADS):
            self.assertEqual(value(f'load_total{{thread="{thread}"}}'), ROUNDS)
        self.assertEqual(value("load_seconds_total"), observed / 2)
        self.assertEqual(value("load_gauge"), observed)
        for by in ("labels", "handle"):
            if native:
                histogram = value(f'load_values{{by="{by}"}}')
                self.assertEqual((histogram.count, histogram.sum), (observed, observed / 3 * 2000002))
                self.assertEqual(len(histogram.buckets), 2)  # a million and one is beside a million
                continue
            self.assertEqual(value(f'load_values_count{{by="{by}"}}'), observed)
            self.assertEqual(value(f'load_values_sum{{by="{by}"}}'), observed / 3 * 2000002)
            self.assertEqual(value(f'load_values_bucket{{by="{by}",le=~"1e\\\\+06|1000000(.0)?"}}'), observed * 2 / 3)
            self.assertEqual(value(f'load_values_bucket{{by="{by}",le=~"1.000001e\\\\+06|1000001(.0)?"}}'), observed)


class Files(WithLibrary):
    """What was installed."""

    def test_nothing_else_of_the_house_is_needed(self):
        if SANITIZE:
            self.skipTest("the sanitizers bring their own libraries")
        names = sorted(path.name for path in self.installed.folder.rglob("prefix/**/*") if path.is_file())
        self.assertEqual([name for name in names if "handoff" in name], [])
        program = self.build("relay_server")
        listed = subprocess.check_output(["ldd", program], text=True, env=self.installed.environment())
        self.assertNotRegex(listed, "sqlite|curl|libhandoff|not found")
        self.assertRegex(listed, "libprom.so.0")
        core = subprocess.check_output(["ldd", self.installed.library / "libprom.so"], text=True)
        self.assertEqual(sorted(re.findall(r"lib(\w+)\.so\S* =>", core)), ["c", "m", "yyjson"])

    def test_only_public_symbols_are_shown(self):
        for library, versions in (("libprom.so", "METRIC_0|PROM_0"), ("libpromhttp.so", "PROMHTTP_0")):
            headers = [path for path in (self.installed.folder / "prefix/include").glob("*.h")
                       if (path.name == "promhttp.h") == (library == "libpromhttp.so")]
            text = re.sub(r"/\*.*?\*/", "", "\n".join(path.read_text() for path in headers), flags=re.DOTALL)
            text = re.sub(r"^(typedef|#)[^;\n]*", "", text, flags=re.MULTILINE)
            declared = set(re.findall(r"\b((?:metric|prom|promhttp)_[a-z0-9_]+)\(", text))
            declared |= set(re.findall(r"^extern .*?(\w+);", text, re.MULTILINE))
            symbols = subprocess.check_output(["nm", "-D", "--defined-only", self.installed.library / library],
                                              text=True)
            shown = {words[2] for words in map(str.split, symbols.splitlines()) if words[1] in "TDBR"}
            self.assertEqual({name.split("@@")[0] for name in shown}, declared)
            for name in shown:
                self.assertRegex(name, f"@@({versions})$")

    def test_the_static_libraries_are_enough(self):
        if SANITIZE:
            self.skipTest("one build tree is enough")
        program, archives = self.installed.folder / "static", self.installed.folder / "archives"
        archives.mkdir()
        for name in ("libpromhttp.a", "libprom.a"):
            (archives / name).symlink_to(self.installed.library / name)
        flags = [flag for flag in self.installed.flags("--static") if flag != f"-L{self.installed.library}"]
        subprocess.run(["cc", SOURCE / "tests/prom/threads.c", f"-L{archives}", *flags, "-o", program], check=True)
        with Program(self.installed, program) as running:
            self.assertEqual(running.samples()["load_gauge"], 0)
        self.assertNotIn("libprom", subprocess.check_output(["ldd", program], text=True))

    def test_staged_for_a_package(self):
        with tempfile.TemporaryDirectory() as stage:
            subprocess.run(["cmake", "--install", os.environ["HANDOFF_BINARY_DIR"], "--prefix", "/usr", "--component",
                            "prom"], check=True, stdout=subprocess.DEVNULL, env={**os.environ, "DESTDIR": stage})
            self.assertEqual([path.name for path in pathlib.Path(stage).iterdir()], ["usr"])
            for pc in ("prom.pc", "promhttp.pc"):
                text = next(pathlib.Path(stage).rglob(pc)).read_text()
                self.assertTrue(text.startswith("prefix=/usr\n"), text)

    def test_every_function_of_the_original_is_called_by_a_program_of_its_declarations(self):
        additions = {"prom_collector_remove_metric", "prom_collector_registry_unregister_metric",
                     "prom_collector_registry_unregister_collector", "prom_counter_set", "prom_counter_set_since",
                     "prom_counter_clear", "prom_collector_registry_id", "prom_scrape_begin_id",
                     "prom_gauge_clear", "prom_last_error", "prom_metric_of_family", "prom_metric_sample_of_series",
                     "prom_metric_sample_series", "prom_scrape_begin", "prom_scrape_reading", "prom_scrape_end", "prom_strdup_text"}
        program = (SOURCE / "tests/prom/declared.c").read_text()
        for library in ("libprom.so", "libpromhttp.so"):
            symbols = subprocess.check_output(["nm", "-D", "--defined-only", self.installed.library / library], text=True)
            names = set(re.findall(r" ((?:prom|promhttp)_\w+|PROM_COLLECTOR_\w+)@", symbols))
            self.assertTrue(names)
            for name in names - additions:
                self.assertEqual(len(re.findall(rf"\b{name}\b", program)) > 1, True, name)

    def test_each_header_alone_brings_what_the_original_brought(self):
        """Programs call these functions and include nothing else."""
        if SANITIZE:
            self.skipTest("one build tree is enough")
        memory = "void *use(void) { return malloc(1); }"
        uses = {"prom.h": memory, "prom_counter.h": memory, "prom_gauge.h": memory, "prom_histogram.h": memory,
                "prom_histogram_buckets.h": memory, "prom_linked_list.h": memory, "prom_alloc.h": memory,
                "prom_map.h": "prom_map_node_t *use(prom_map_t *map) { return map ? (prom_map_node_t *)0 : 0; }",
                "promhttp.h": "int use(const char *text) { return strcmp(text, text); }"}
        for header in sorted((self.installed.folder / "prefix/include").glob("*.h")):
            with self.subTest(header.name):
                subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-xc", "-",
                                *self.installed.flags()], text=True, check=True, cwd=self.installed.folder,
                               input=f"#include <{header.name}>\n{uses.pop(header.name, '')}\n")
        self.assertEqual(uses, {})

    def test_a_cplusplus_program(self):
        if SANITIZE:
            self.skipTest("one build tree is enough")
        source = self.installed.folder / "program.cpp"
        source.write_text('#include <prom.h>\n#include <promhttp.h>\n#include <metric.h>\n'
                          "int main() { return prom_collector_registry_default_init(); }\n")
        program = self.installed.folder / "cplusplus"
        subprocess.run(["g++", "-Wall", "-Wextra", "-Werror", source, *self.installed.flags(), "-o", program], check=True)
        subprocess.run([program], check=True, env=self.installed.environment())


if __name__ == "__main__":
    unittest.main()
