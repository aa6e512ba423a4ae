# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""handoffctl doctor finds what is broken, one thing at a time, and says what to do about it."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from harness import Daemon, Receiver, environment, eventually
from harness.agents import Caller, config, daemon_with
from harness.facts import TABLE, FactServer
from harness.receiver import status
from harness.wait import TIMEOUT

HANDOFFCTL = os.environ["HANDOFFCTL"]
TOKENS = {"analyst": "analyst-0123456789abcdef", "@operator": "operator-0123456789abcdef"}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, *options, agents=None, **more):
        self.daemon = self.enterContext(daemon_with(agents or {"coder": {}}, *options, **more))
        return self.daemon

    def doctor(self, *words, **variables):
        """(exit code, {check: [what it said]}); each that is not fine has advice."""
        where = {"HANDOFF_API_URL": self.daemon.api.url, "HANDOFF_WEB_URL": self.daemon.web.url, **variables}
        done = subprocess.run([HANDOFFCTL, "doctor", "--json", *words], text=True, capture_output=True, timeout=TIMEOUT,
                              check=False, env=environment(**where))
        said, found = json.loads(done.stdout), {}
        for check in said["checks"]:
            self.assertEqual(check["ok"], check["advice"] is None, check)
            found.setdefault(check["check"], []).append(check)
        self.assertEqual((said["ok"], done.returncode), (all(each["ok"] for each in said["checks"]), 0 if said["ok"] else 1))
        return found

    def assert_finds(self, check, found_words, advice_words, *words, **variables):
        found = self.doctor(*words, **variables)
        broken = [each for each in found[check] if not each["ok"]]
        self.assertEqual(len(broken), 1, found)
        self.assertIn(found_words, broken[0]["found"])
        self.assertIn(advice_words, broken[0]["advice"])
        return found

    def assert_fine(self, check):
        self.assertEqual([each["ok"] for each in self.doctor()[check]], [True], check)

    def file(self, name, text, mode=0o600):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return str(path)


class Access(Case):
    def with_tokens(self):
        lines = "".join(f"{name} {token}\n" for name, token in TOKENS.items())
        self.start(agents={"analyst": {}}, api={"tokens_file": self.file("tokens", lines)})

    def test_no_token(self):
        self.with_tokens()
        self.assert_finds("token", "the agent API asks for one", "--token-file FILE")

    def test_a_wrong_token(self):
        self.with_tokens()
        wrong = self.file("wrong", "wrong-0123456789abcdef\n")
        self.assert_finds("token", f"the one in {wrong} is not accepted", "api.tokens_file", "--token-file", wrong)

    def test_an_agents_token(self):
        self.with_tokens()
        self.assert_finds("token", "an agent's", "@operator", "--token-file", self.file("mine", TOKENS["analyst"]))

    def test_the_operators_token(self):
        self.with_tokens()
        found = self.doctor("--token-file", self.file("mine", TOKENS["@operator"]))
        self.assertEqual([each["ok"] for each in found["token"]], [True])

    def test_a_token_file_that_is_not_there(self):
        self.start()
        self.assert_finds("token", "no token in /no/such", "--token-file", "--token-file", "/no/such")

    def test_the_metrics_ask_for_a_password(self):
        self.daemon = self.enterContext(Daemon("--shutdown.timeout=200ms", config=config({"coder": {}}), web_config=json.dumps(
            {"basic_auth_users": {"ops": "$2y$05$abcdefghijklmnopqrstuuGjd2H.d6dkVxKuxL0rTtGyMxk1vSgXa"}})))
        self.assert_finds("web listener", "status 401", "401: it asks for a password")

    def test_the_metrics_are_elsewhere(self):
        self.start("--web.telemetry-path=/elsewhere")
        self.assert_finds("web listener", "status 404", "--web.telemetry-path was changed")

    def test_listeners_that_are_not_there(self):
        self.start()
        self.assert_finds("agent API", "unix:/no does not answer", "systemctl status", HANDOFF_API_URL="unix:/no")
        self.assert_finds("web listener", "unix:/no does not answer", "--web.url", HANDOFF_WEB_URL="unix:/no")

    def test_the_two_addresses_are_exchanged(self):
        self.start()
        found = self.doctor(HANDOFF_API_URL=self.daemon.web.url, HANDOFF_WEB_URL=self.daemon.api.url)
        for check in ("agent API", "web listener"):
            self.assertFalse(found[check][0]["ok"], found)


class HourAhead(http.server.BaseHTTPRequestHandler):
    """Passes on what the sidecar answers, with another time."""
    protocol_version = "HTTP/1.1"
    upstream = None

    def do_GET(self):
        to = http.client.HTTPConnection(self.upstream, timeout=TIMEOUT)
        to.request("GET", self.path)
        reply = to.getresponse()
        body = reply.read()
        self.send_response_only(reply.status)
        self.send_header("Date", "Thu, 01 Jan 2099 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        to.close()

    def log_message(self, *_):
        pass


class State(Case):
    def test_a_clock_that_differs(self):
        self.start()
        handler = type("Handler", (HourAhead,), {"upstream": self.daemon.api.address})
        server = self.enterContext(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        self.assert_finds("clock", "differs from this machine's by", "chrony",
                          HANDOFF_API_URL=f"http://127.0.0.1:{server.server_port}")

    def test_an_open_circuit(self):
        with Receiver(status(503)) as receiver:
            self.start(agents={"coder": {"url": receiver.url, "retries": 0, "breaker": {"failures": 1, "cooldown": "1h"}},
                               "spare": {}})
            self.assert_fine("circuit")
            Caller(self.daemon).send()
            self.assert_finds("circuit", "that of coder is open", "handoffctl parked list --target coder")

    def test_an_agent_that_is_away(self):
        with Receiver(status(503)) as receiver:
            away = receiver.url
        self.start(agents={"coder": {"url": away}, "puller": {}})
        self.assert_finds("agent", f"coder: {away}", "start the agent", "--config.file", str(self.daemon.config_path))

    def test_a_configuration_file_with_an_error(self):
        self.start()
        bad = self.file("bad.yml", "agents: {coder: {retires: 3}}")
        self.assert_finds("configuration file", "did you mean retries?", "handoffctl reload", "--config.file", bad)

    def test_a_reload_that_was_rejected(self):
        self.start()
        self.assert_fine("configuration")
        self.daemon.write_config("agents: 3\n")
        self.daemon.web.request("POST", "/-/reload")
        self.assert_finds("configuration", "the last reload was rejected", "handoffctl check-config")

    def test_no_vocabulary(self):
        self.start(env={"HANDOFF_VOCABULARY_DIR": str(self.folder)})
        self.assert_finds("vocabulary", "tokens are estimated", "HANDOFF_VOCABULARY_DIR")

    def test_a_store_that_was_moved(self):
        self.start()
        self.assert_fine("store")
        (self.daemon.folder / "data").rename(self.daemon.folder / "elsewhere")
        eventually(lambda: not self.doctor()["store"][0]["ok"], "it is noticed")
        found = self.assert_finds("store", "moved or replaced", "handoffctl store check")
        self.assertFalse(found["readiness"][0]["ok"], "it takes no handoffs")
        self.assertIn("handoff.db", found["readiness"][0]["found"])

    def test_a_spine_that_is_away(self):
        server = self.enterContext(FactServer())
        self.start(spine={"kind": "http", "url": server.url, "token_file": self.file("token", "facts-0123456789abcdef\n"),
                          "operations_file": self.file("spine.json", json.dumps(TABLE))})
        self.assert_fine("memories")
        server.close()
        for _ in range(5):  # in a row
            Caller(self.daemon).send_async("coder", memory_ids=["x"])
        eventually(lambda: not self.doctor()["memories"][0]["ok"], "it is noticed")
        self.assert_finds("memories", "the spine does not answer", "HandoffSpineDown")

    def test_descriptors_that_are_running_out(self):
        daemon = Daemon("--shutdown.timeout=200ms", config=config({"coder": {}}), start=False)
        daemon.command = ["sh", "-c", 'ulimit -n 56 && exec "$@"', "sh", *daemon.command]
        self.daemon = self.enterContext(daemon.start())
        self.assert_fine("descriptors")
        host, port = self.daemon.api.address.rsplit(":", 1)
        with contextlib.ExitStack() as held:
            for _ in range(12):
                held.enter_context(socket.create_connection((host, int(port)), timeout=TIMEOUT))
            eventually(lambda: not self.doctor()["descriptors"][0]["ok"], "they are counted")
            self.assert_finds("descriptors", "of 56 are open", "LimitNOFILE")


class OwnDisk(Case):
    def setUp(self):
        super().setUp()
        if os.environ.get("HANDOFF_OWN_DISK") != "yes":
            self.skipTest("see OwnDiskIsMade")

    def test_a_disk_that_is_nearly_full(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(self.folder)], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.folder)], check=False)
        daemon = Daemon("--shutdown.timeout=200ms", config=config({"coder": {}}), start=False)
        daemon.command[1] = f"--storage.path={self.folder / 'data'}"
        self.daemon = self.enterContext(daemon.start())
        self.assert_fine("disk")
        found = os.statvfs(self.folder)
        (self.folder / "ballast").write_bytes(b"x" * (found.f_bavail * found.f_frsize - (4 << 20)))
        eventually(lambda: not self.doctor()["disk"][0]["ok"], "it is measured")
        self.assert_finds("disk", "% of the store's is free", "storage.retention.age")


class OwnDiskIsMade(unittest.TestCase):
    """Runs the class above in a mount namespace."""

    def test_it(self):
        own = ["unshare", "--user", "--map-root-user", "--mount"]
        if subprocess.run([*own, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True,
                          check=False).returncode != 0:
            self.skipTest("this machine does not let us mount a disk in a namespace")
        done = subprocess.run([*own, sys.executable, __file__, "-v", "OwnDisk"], capture_output=True, text=True,
                              env={**os.environ, "HANDOFF_OWN_DISK": "yes"}, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("skipped", done.stderr)


if __name__ == "__main__":
    unittest.main()
