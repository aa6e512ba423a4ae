# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""The measures, from the outside: a known series of handoffs through the real daemon, and exact
values in /metrics afterwards, also when it was killed and started again."""

import collections
import datetime
import json
import shutil
import socket
import subprocess
import unittest

from prometheus_client.parser import text_string_to_metric_families

from harness import Daemon, eventually
from harness.http import exchange
from harness.receiver import Hold, Receiver, ack, ack_wrong, later, nack, status

AGENTS = ("coder", "second", "down", "nobody-there", "puller", "slow", "odd")

CONFIG = """
defaults: {{retries: 1, backoff: {{base: 1ms, max: 2ms}}, breaker: {{failures: 3, cooldown: 1h}}}}
agents:
  coder: {{url: {coder}, ack_timeout: 1h}}
  second: {{url: {second}}}
  down: {{url: {down}, retries: 0}}
  nobody-there: {{url: "http://127.0.0.1:{closed}/", retries: 0, alternates: [second]}}
  puller: {{}}
  slow: {{url: {slow}, retries: 0, timeout: 500ms}}
  odd: {{url: {odd}, retries: 0}}
hops: {{max: 2}}
channels: {{news: {{receivers: [second, puller]}}}}
"""


def closed_port():
    """A port without a listener: it is bound, and stays so until the socket goes."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    return holder, holder.getsockname()[1]


class Samples:
    """One scrape: samples("name", label="value") is the value, or None where there is none."""

    def __init__(self, text):
        self.text = text
        self.values = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self.values[sample.name, frozenset(sample.labels.items())] = sample.value

    def __call__(self, name, **labels):
        return self.values.get((name, frozenset(labels.items())))

    def series(self, name, **labels):
        """Values by the rest of their labels, without those that are 0."""
        wanted = set(labels.items())
        return {tuple(sorted(v for k, v in found - wanted)): value
                for (family, found), value in self.values.items()
                if family == name and wanted <= found and value != 0}


class Known(unittest.TestCase):
    """A known series of handoffs, and the values it must produce."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.coder, cls.second, cls.down = Receiver(ack), Receiver(ack), Receiver(status(503))
        cls.slow, cls.odd = Receiver(Hold()), Receiver(ack_wrong)
        cls.holder, closed = closed_port()
        cls.config = CONFIG.format(coder=cls.coder.url, second=cls.second.url, down=cls.down.url,
                                   slow=cls.slow.url, odd=cls.odd.url, closed=closed)

    @classmethod
    def tearDownClass(cls):
        for one in (cls.coder, cls.second, cls.down, cls.slow, cls.odd, cls.holder):
            one.close()

    def setUp(self):
        self.coder.do(ack)
        self.second.do(ack)
        self.down.do(status(503))
        self.envelopes = collections.defaultdict(list)

    # ---- doing

    def scrape(self):
        return Samples(self.daemon.web.get("/metrics").text)

    def send(self, target, expect, source="analyst", **more):
        """Sends, checks the status, keeps the envelope and answers the handoff."""
        request = {"source_agent": source, "target_agent": target, "task_summary": "do it", **more}
        reply = self.daemon.api.post("/v1/handoffs", json.dumps(request).encode(),
                                     **({"prefer": "respond-async"} if expect == 202 else {}))
        self.assertEqual(reply.status, expect, reply.text)
        handoff = reply.json()
        handoff = handoff.get("handoff", handoff)
        if "id" in handoff:
            envelope = self.daemon.api.get(f"/v1/handoffs/{handoff['id']}/envelope").json()
            self.envelopes[target].append(envelope)
        return handoff

    def remember(self, name, **memory):
        reply = self.daemon.api.request("PUT", f"/v1/memories/{name}", json.dumps(memory).encode())
        self.assertIn(reply.status, (200, 201), reply.text)

    def known_series(self):
        """Every way a handoff can end, each once or a few times."""
        self.remember("ms-1", content="the gateway retries payments")
        self.remember("ms-big", content="many words about payments " * 400)
        first = self.send("coder", 200, memory_ids=["ms-1", "ms-lost"])
        self.send("coder", 200, memory_ids=["ms-1", "ms-big"], constraints={"max_tokens": 300})
        self.coder.do(status(503), ack)
        self.send("coder", 200, pattern="choreographed")
        self.coder.do(nack("not mine", False))
        self.refused = self.send("coder", 502)["id"]
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=20)
        self.coder.do(status(503, retry_after="60"))
        self.send("coder", 504, constraints={"deadline": soon.strftime("%Y-%m-%dT%H:%M:%SZ")})
        self.coder.do(ack)
        child = self.send("second", 200, source="coder", previous_id=first["id"])
        self.send("coder", 422, source="second", previous_id=child["id"])
        self.send("nobody-there", 200)
        for _ in range(3):
            self.send("down", 502)
        self.send("down", 503)

    # ---- the values it must produce

    def check_outcomes(self, samples):
        handoffs = "handoff_handoffs_total"
        self.assertEqual(samples.series(handoffs, target_agent="coder"), {
            ("acknowledged", "direct"): 2, ("acknowledged", "choreographed"): 1,
            ("direct", "refused"): 1, ("direct", "expired"): 1, ("direct", "hop_limit"): 1})
        self.assertEqual(samples.series(handoffs, target_agent="down"),
                         {("direct", "exhausted"): 3, ("circuit_open", "direct"): 1})
        self.assertEqual(samples.series(handoffs, target_agent="nobody-there"), {})
        self.assertEqual(samples.series(handoffs, target_agent="second"),
                         {("acknowledged", "direct"): 2})
        self.assertEqual(samples.series("handoff_duration_seconds_count"), {
            ("acknowledged", "coder", "direct"): 2, ("acknowledged", "choreographed", "coder"): 1,
            ("coder", "direct", "refused"): 1, ("coder", "direct", "expired"): 1,
            ("direct", "down", "exhausted"): 3, ("acknowledged", "direct", "second"): 2})
        attempts = "handoff_attempts_total"
        self.assertEqual(samples.series(attempts, target_agent="coder"),
                         {("ack",): 3, ("http",): 2, ("nack",): 1})
        self.assertEqual(samples.series(attempts, target_agent="down"), {("http",): 3})
        self.assertEqual(samples.series(attempts, target_agent="nobody-there"), {("connect",): 1})
        self.assertEqual(samples.series(attempts, target_agent="second"), {("ack",): 2})
        self.assertEqual(samples("handoff_stage_duration_seconds_count", stage="attempt"), 12)
        self.assertEqual(samples("handoff_stage_duration_seconds_count", stage="persist"), 11)
        self.assertGreater(samples("handoff_stage_duration_seconds_sum", stage="persist"), 0)
        self.assertEqual(samples.series("handoff_parked_total"),
                         {("coder", "hop_limit"): 1, ("coder", "refused"): 1, ("down", "exhausted"): 3})
        self.assertEqual(samples.series("handoff_circuit_opened_total"), {("down",): 1})

    def check_envelopes(self, samples):
        """The metrics say what the envelopes say, and nothing of the one that is not stored, since
        its handoff was rejected by the open circuit."""
        for target, envelopes in self.envelopes.items():
            said = [envelope["completeness"] for envelope in envelopes]
            self.assertEqual(samples("handoff_context_completeness_ratio_count",
                                     target_agent=target), len(said))
            self.assertAlmostEqual(
                samples("handoff_context_completeness_ratio_sum", target_agent=target),
                sum(one["ratio"] for one in said), places=6)
            for outcome, count in (
                    ("included", sum(one["included"] for one in said)),
                    ("missing", sum(len(one["missing"]) for one in envelopes)),
                    ("trimmed", sum(one.get("omitted", {}).get("references", 0) for one in envelopes))):
                self.assertEqual(samples("handoff_memory_refs_total", target_agent=target,
                                         outcome=outcome), count)
            self.assertEqual(samples("handoff_envelope_tokens_sum", target_agent=target),
                             sum(one["tokens"]["count"] for one in envelopes))
            self.assertAlmostEqual(
                samples("handoff_token_utilization_ratio_sum", target_agent=target),
                sum(one["tokens"]["count"] / one["tokens"]["budget"] for one in envelopes))
        refs = samples.series("handoff_memory_refs_total", target_agent="coder")
        self.assertEqual(refs[("missing",)], 2)  # what is missing is asked for again by later hops
        self.assertEqual(refs.get(("trimmed",), 0), 0)  # what does not fit goes by its id
        items = samples.series("handoff_context_items_total", target_agent="coder")
        self.assertEqual(items[("referenced", "references")], 1)
        for target, envelopes in self.envelopes.items():
            self.assertEqual(samples("handoff_context_items_total", target_agent=target, kind="steps", outcome="present"),
                             sum(len(one["context"]["history"]) for one in envelopes))
        self.assertEqual(samples("handoff_hop_depth_count", pattern="direct"), 10)
        self.assertEqual(samples("handoff_hop_depth_bucket", pattern="direct", le="1.0")
                         or samples("handoff_hop_depth_bucket", pattern="direct", le="1"), 8)
        self.assertEqual(samples("handoff_hop_depth_sum", pattern="direct"), 13)
        self.assertEqual(samples("handoff_route_cycles_total"), 1)
        self.assertEqual(samples("handoff_ping_pongs_total"), 0)  # test_ping_pong.py has some

    def check_standing(self, samples, in_flight=0):
        self.assertEqual(samples.series("handoff_circuit_state"), {
            ("down", "open"): 1, **{("closed", agent): 1 for agent in AGENTS if agent != "down"}})
        failures = samples.series("handoff_consecutive_failures")
        self.assertEqual(failures, {("down",): 3, ("nobody-there",): 1,
                                    ("coder",): 1})  # a deadline cut it off
        self.assertEqual(samples.series("handoff_parked_entries"), {("coder",): 2, ("down",): 3})
        self.assertGreater(samples("handoff_oldest_parked_seconds", target_agent="down"), 0)
        self.assertLess(samples("handoff_oldest_parked_seconds", target_agent="down"), 300)
        self.assertEqual(samples("handoff_oldest_parked_seconds", target_agent="second"), 0)
        self.assertEqual(samples.series("handoff_in_flight"),
                         {("coder",): in_flight} if in_flight else {})

    def check_start(self, samples):
        """Everything is there at 0."""
        for agent in AGENTS + ("other",):
            for outcome in ("acknowledged", "exhausted", "refused", "rejected", "expired", "hop_limit",
                            "circuit_open"):
                for pattern in ("direct", "broadcast", "choreographed"):
                    self.assertEqual(samples("handoff_handoffs_total", target_agent=agent,
                                             pattern=pattern, outcome=outcome), 0)
            for result in ("ack", "nack", "timeout", "connect", "http", "protocol"):
                self.assertEqual(samples("handoff_attempts_total", target_agent=agent,
                                         result=result), 0)


class Measures(Known):
    def test_a_known_series(self):
        with Daemon(config=self.config) as self.daemon:
            self.check_start(self.scrape())
            self.known_series()
            eventually(lambda: self.scrape().series("handoff_parked_entries") ==
                       {("coder",): 2, ("down",): 3}, "the parked ones are seen")
            samples = self.scrape()
            self.check_outcomes(samples)
            self.check_envelopes(samples)
            self.check_standing(samples)
            self.check_exemplars()
            self.check_promtool(samples)

    def check_exemplars(self):
        text = self.daemon.web.get("/metrics", accept="application/openmetrics-text; version=1.0.0").text
        handoff = self.envelopes["down"][-1]
        lines = [line for line in text.splitlines() if " # {" in line and '"down"' in line]
        wanted = f'trace_id="{handoff["trace"]["traceparent"].split("-")[1]}",' \
                 f'handoff_id="{handoff["id"]}"'
        for name in ("handoff_handoffs_total", "handoff_duration_seconds_bucket"):
            self.assertTrue(any(line.startswith(name) and wanted in line for line in lines), lines)

    def check_promtool(self, samples):
        if not shutil.which("promtool"):
            self.skipTest("promtool is not installed (Debian package: prometheus)")
        done = subprocess.run(["promtool", "check", "metrics"], input=samples.text, text=True,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_gauges_are_right_after_a_kill(self):
        with Daemon(config=self.config) as self.daemon:
            self.known_series()
            self.coder.do(later)
            waiting = self.send("coder", 202)["id"]
            eventually(lambda: self.daemon.api.get(f"/v1/handoffs/{waiting}").json()["state"] ==
                       "awaiting_ack", "it waits for its acknowledgement")
            self.check_standing(eventually(
                lambda: (lambda now: now.series("handoff_parked_entries").get(("down",)) == 3 and
                         now.series("handoff_parked_entries").get(("coder",)) == 2 and now)
                (self.scrape()), "the parked ones are seen"), in_flight=1)
            self.daemon.kill()
            self.daemon.expected_exit = 0
            self.daemon.log_path.unlink()
            self.daemon.start()
            samples = self.scrape()
            self.check_standing(samples, in_flight=1)
            self.assertGreater(samples("handoff_oldest_in_flight_seconds", target_agent="coder"), 0)
            self.check_start(samples)
            reply = self.daemon.api.post(f"/v1/handoffs/{waiting}/ack", b"")
            self.assertEqual(reply.status, 200, reply.text)
            samples = self.scrape()
            self.assertEqual(samples.series("handoff_handoffs_total"),
                             {("acknowledged", "coder", "direct"): 1})
            self.assertEqual(samples.series("handoff_in_flight"), {})
            self.assertEqual(samples("handoff_oldest_in_flight_seconds", target_agent="coder"), 0)

    def test_an_attempt_that_a_restart_interrupts_is_counted(self):
        """The agent took it before the kill; its word comes after."""
        with Daemon(config=self.config) as self.daemon:
            self.coder.do(later)
            waiting = self.send("coder", 202)["id"]
            [before] = eventually(
                lambda: self.daemon.api.get(f"/v1/handoffs/{waiting}/attempts").json()["items"],
                "it is in the store that the agent took it")
            self.daemon.kill()
            self.daemon.expected_exit = 0
            self.daemon.log_path.unlink()
            self.daemon.start()
            self.daemon.api.post(f"/v1/handoffs/{waiting}/nack", b'{"reason": "no", "retry": false}')
            samples = eventually(
                lambda: (lambda now: now.series("handoff_parked_entries") and now)(self.scrape()),
                "it is parked")
            self.assertEqual(samples.series("handoff_attempts_total"), {("coder", "nack"): 1})
            [after] = self.daemon.api.get(f"/v1/handoffs/{waiting}/attempts").json()["items"]
            self.assertEqual(after, {**before, "result": "nack", "error": "no"})

    def test_a_replay_is_counted_as_one(self):
        with Daemon(config=self.config) as self.daemon:
            self.coder.do(nack("not mine", False))
            parked = self.send("coder", 502)["id"]
            self.coder.do(ack)
            reply = self.daemon.api.post(f"/v1/parked/{parked}/replay", b"{}")
            self.assertIn(reply.status, (200, 202), reply.text)
            eventually(lambda: self.scrape()("handoff_attempts_total", target_agent="coder",
                                             result="ack") == 1, "it is acknowledged")
            samples = self.scrape()
            self.assertEqual(samples.series("handoff_replayed_total"), {("coder",): 1})
            self.assertEqual(samples.series("handoff_handoffs_total"),
                             {("coder", "direct", "refused"): 1})
            eventually(lambda: self.scrape().series("handoff_parked_entries") == {},
                       "nothing is parked any more")

    def complete(self, task, expect=200):
        reply = self.daemon.api.post(f"/v1/tasks/{task}/complete")
        self.assertEqual(reply.status, expect, reply.text)
        return reply.json()

    def test_a_task_is_counted_once(self):
        with Daemon(config=self.config) as self.daemon:
            self.assertEqual(self.scrape()("handoff_task_handoffs_count"), 0)
            first = self.send("coder", 200, task_id="task-1")
            self.send("second", 200, source="coder", previous_id=first["id"])
            self.send("second", 200, task_id="task-2")
            self.assertEqual(self.complete("task-9", 404)["code"], "not_found")
            done = self.complete("task-1")
            self.assertEqual((done["task_id"], done["handoffs"]), ("task-1", 2))
            self.assertEqual(self.complete("task-1"), done)
            self.send("coder", 200, task_id="task-1")  # late, but not lost
            self.assertEqual(self.complete("task-1"), done)
            self.assertEqual(self.daemon.api.get("/v1/tasks/task-1").json()["task"], done)
            samples = self.scrape()
            self.assertEqual(samples("handoff_task_handoffs_count"), 1)
            self.assertEqual(samples("handoff_task_handoffs_sum"), 2)
            self.daemon.kill()
            self.daemon.expected_exit = 0
            self.daemon.log_path.unlink()
            self.daemon.start()
            self.assertEqual(self.complete("task-1"), done)
            self.assertEqual(self.scrape()("handoff_task_handoffs_count"), 0)
            self.complete("task-2")
            self.assertEqual(self.scrape()("handoff_task_handoffs_sum"), 1)

    def test_a_reload_adds_and_removes(self):
        with Daemon(config=self.config) as self.daemon:
            self.send("second", 200)
            self.daemon.write_config(f"agents: {{coder: {{url: {self.coder.url}}}, new: {{}}}}")
            self.assertEqual(self.daemon.reload().status, 200)
            samples = self.scrape()
            self.assertNotIn('target_agent="second"', samples.text)
            self.assertEqual(samples("handoff_in_flight", target_agent="new"), 0)
            self.assertEqual(samples("handoff_handoffs_total", target_agent="new",
                                     pattern="direct", outcome="exhausted"), 0)

    def series(self):
        """Names of all series but the scrapes' own."""
        return {key for key in self.scrape().values
                if not key[0].startswith("handoff_exporter_scrapes_total")}

    def test_10000_names_from_requests_add_no_series(self):
        names, batch = 10000, 1000
        with Daemon(config=self.config) as self.daemon:
            before = self.series()
            connection = self.daemon.api.connection()
            for i in range(names // 10):
                body = {"source_agent": f"s{i}", "target_agent": f"t{i}", "task_summary": "x"}
                reply = exchange(connection, "POST", "/v1/envelopes", json.dumps(body))
                self.assertEqual(reply.status, 200, reply.text)
            for first in range(0, names, batch):
                items = [{"source_agent": f"s{i}", "target_agent": f"t{i}", "latency_seconds": 0.1,
                          "outcome": "exhausted", "attempts": {"timeout": 1}, "token_count": 1,
                          "completeness": {"ratio": 1}} for i in range(first, first + batch)]
                reply = exchange(connection, "POST", "/v1/observations",
                                 json.dumps({"items": items}))
                self.assertEqual(reply.json(), {"accepted": batch, "repeated": 0, "rejected": []})
            connection.close()
            self.assertEqual(self.series() - before, set())
            samples = self.scrape()
            self.assertEqual(samples("handoff_context_completeness_ratio_count",
                                     target_agent="other"), names)
            self.assertEqual(samples("handoff_handoffs_total", target_agent="other",
                                     pattern="direct", outcome="exhausted"), names)
            self.assertEqual(samples("handoff_exporter_series_dropped_total"), 0)

    def test_1000_agents_fit_the_default_cap(self):
        """docs/metrics-cost.md has the numbers."""
        agents = {f"agent-{i:04}": {} for i in range(1000)}
        with Daemon(config=json.dumps({"agents": agents})) as self.daemon:
            lines = self.daemon.web.get("/metrics").text.splitlines()
        self.assertIn("handoff_exporter_series_dropped_total 0", lines)
        for agent in ("agent-0000", "agent-0999"):
            mine = [line for line in lines if f'target_agent="{agent}"' in line]
            self.assertEqual(len(mine), 217)  # these pull

    def test_the_cap_holds_for_agents_too(self):
        agents = {f"agent-{i:04}": {} for i in range(30)}
        config = json.dumps({"agents": agents, "metrics": {"max_series_per_family": 100}})
        with Daemon(config=config) as self.daemon:
            per_family = collections.Counter(name for name, _ in self.scrape().values)
            self.assertLessEqual(per_family["handoff_handoffs_total"], 201)
            self.assertLessEqual(per_family["handoff_duration_seconds_count"], 201)
            self.assertGreater(self.scrape()("handoff_exporter_series_dropped_total"), 0)


if __name__ == "__main__":
    unittest.main()
