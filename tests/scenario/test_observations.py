# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Handoffs that agents make by themselves: told to the real daemon, seen in its metrics."""

import importlib.util
import json
import os
import pathlib
import unittest

from harness import Daemon, eventually
from harness.ports import reserved_port
from test_measures import Samples

CONFIG = "agents: {coder: {}, reviewer: {}}"
EXAMPLE = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "examples" / "observe.py"


def observation(**more):
    return {"source_agent": "planner", "target_agent": "coder", "outcome": "acknowledged", **more}


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.daemon = self.enterContext(Daemon(config=CONFIG, api=self.api_address()))

    def api_address(self):
        return "127.0.0.1:0"

    def tell(self, body, expect=200):
        reply = self.daemon.api.post("/v1/observations", json.dumps(body).encode())
        self.assertEqual(reply.status, expect, reply.text)
        return reply.json()

    def scrape(self):
        return Samples(self.daemon.web.get("/metrics").text)


class Observations(Case):
    def test_the_same_metrics_as_our_own(self):
        self.tell(observation(
            id="run-1", trace_id="0af7651916cd43dd8448eb211c80319c", outcome="exhausted",
            pattern="choreographed", latency_seconds=12.5, attempts={"timeout": 2, "http": 1},
            completeness={"requested": 20, "included": 17, "trimmed": 1}, token_count=3600,
            token_budget=4000, hop_count=4, cycle=True, task_handoffs=6))
        samples = self.scrape()
        self.assertEqual(samples.series("handoff_handoffs_total"),
                         {("choreographed", "coder", "exhausted"): 1})
        self.assertEqual(samples.series("handoff_duration_seconds_sum"),
                         {("choreographed", "coder", "exhausted"): 12.5})
        self.assertEqual(samples.series("handoff_attempts_total"),
                         {("coder", "http"): 1, ("coder", "timeout"): 2})
        self.assertEqual(samples.series("handoff_memory_refs_total"),
                         {("coder", "included"): 17, ("coder", "missing"): 2,
                          ("coder", "trimmed"): 1})
        for name, value in (("handoff_context_completeness_ratio", 0.85),
                            ("handoff_token_utilization_ratio", 0.9),
                            ("handoff_envelope_tokens", 3600)):
            self.assertEqual(samples.series(name + "_count"), {("coder",): 1})
            self.assertEqual(samples.series(name + "_sum"), {("coder",): value})
        self.assertEqual(samples.series("handoff_hop_depth_sum"), {("choreographed",): 4})
        self.assertEqual(samples("handoff_task_handoffs_sum"), 6)
        self.assertEqual(samples("handoff_route_cycles_total"), 1)
        self.assertEqual(samples.series("handoff_consecutive_failures"), {("coder",): 1})
        self.assertEqual(samples("handoff_circuit_opened_total", target_agent="coder"), 0)
        self.assertEqual(samples.series("handoff_observations_total"), {("accepted",): 1})
        text = self.daemon.web.get("/metrics", accept="application/openmetrics-text").text
        self.assertIn('# {trace_id="0af7651916cd43dd8448eb211c80319c",handoff_id="run-1"} 12.5', text)

    def test_failures_in_a_row_alert_but_do_not_stop_deliveries(self):
        self.tell({"items": [observation(outcome="exhausted") for _ in range(10)]})
        samples = self.scrape()
        self.assertEqual(samples("handoff_consecutive_failures", target_agent="coder"), 10)
        self.assertEqual(samples("handoff_circuit_state", target_agent="coder", state="closed"), 1)
        self.tell(observation())
        self.assertEqual(self.scrape().series("handoff_consecutive_failures"), {})

    def test_a_reset_ends_the_row(self):
        self.tell({"items": [observation(outcome="exhausted") for _ in range(5)]})
        self.assertEqual(self.daemon.api.post("/v1/agents/coder/reset").status, 204)
        self.assertEqual(self.scrape().series("handoff_consecutive_failures"), {})

    def test_one_without_ids_takes_no_exemplar_away(self):
        self.tell({"items": [observation(id="run-1", latency_seconds=1, outcome="exhausted"),
                             observation(latency_seconds=1, outcome="exhausted")]})
        text = self.daemon.web.get("/metrics", accept="application/openmetrics-text").text
        exemplars = [line.split(" # ")[1] for line in text.splitlines() if " # {" in line]
        self.assertEqual(len(exemplars), 2, exemplars)  # the duration's and the count's
        for exemplar in exemplars:
            self.assertTrue(exemplar.startswith('{handoff_id="run-1"} 1 '), exemplar)

    def test_bad_items_are_told_and_the_others_count(self):
        answer = self.tell({"items": [observation(id="1"), observation(outcome="lost"),
                                      observation(id="1"), "text", observation(id="2")]})
        self.assertEqual((answer["accepted"], answer["repeated"]), (2, 1))
        self.assertEqual([(one["index"], one["field"]) for one in answer["rejected"]],
                         [(1, "outcome"), (3, "item")])
        self.assertIn("acknowledged, exhausted", answer["rejected"][0]["allowed"])
        samples = self.scrape()
        self.assertEqual(samples.series("handoff_handoffs_total"),
                         {("acknowledged", "coder", "direct"): 2})
        self.assertEqual(samples.series("handoff_observations_total"),
                         {("accepted",): 2, ("repeated",): 1, ("rejected",): 2})

    def test_bad_bodies(self):
        self.assertEqual(self.tell([], 400)["code"], "invalid_request")
        self.assertEqual(self.tell(observation(outcome="lost"), 400)["field"], "outcome")
        self.assertEqual(self.daemon.api.post("/v1/observations", b"{").json()["code"],
                         "invalid_json")
        refused = self.tell({"items": [observation()] * 1001}, 413)
        self.assertEqual((refused["code"], refused["allowed"]), ("too_large", "1000"))
        self.assertEqual(self.scrape().series("handoff_handoffs_total"), {})

    def test_an_unknown_target_is_other(self):
        for i in range(3):
            self.tell(observation(target_agent=f"nobody-{i}", latency_seconds=1))
        samples = self.scrape()
        self.assertEqual(samples.series("handoff_handoffs_total"),
                         {("acknowledged", "direct", "other"): 3})
        self.assertNotIn("nobody", samples.text)


class Example(Case):
    """examples/observe.py, as an agent would use it."""

    def setUp(self):
        super().setUp()
        spec = importlib.util.spec_from_file_location("observe", EXAMPLE)
        self.observe = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.observe)

    def api_address(self):
        """One of its tests starts the sidecar again where it was."""
        return f"127.0.0.1:{self.enterContext(reserved_port())}"

    def test_it_is_short(self):
        self.assertLess(len(EXAMPLE.read_text().splitlines()), 60)

    def outcomes(self):
        return self.scrape().series("handoff_handoffs_total")

    def test_each_hook(self):
        observer = self.observe.Observer("planner", self.daemon.api.url, every=0.01)
        with observer.handoff("coder", hop_count=2) as told:
            told["token_count"] = 1234
        with self.assertRaises(TimeoutError):
            with observer.handoff("coder"):
                raise TimeoutError("the model took too long")

        @observer.handoff("reviewer", pattern="choreographed")
        def review(text, strict=False):
            """Looks at it."""
            return text.upper() if strict else text
        self.assertEqual([review("fine", strict=True), review("fine")], ["FINE", "fine"])
        self.assertEqual(review.__doc__, "Looks at it.")

        observer.on_handoff_start("run-1", "coder")
        observer.on_handoff_end("run-1", error=RuntimeError("gone"))
        observer.on_handoff_end("never begun")  # bad, and no reason to raise
        eventually(lambda: self.outcomes() == {
            ("acknowledged", "coder", "direct"): 1, ("coder", "direct", "expired"): 1,
            ("acknowledged", "choreographed", "reviewer"): 2,
            ("coder", "direct", "exhausted"): 1}, "all hooks have told")
        eventually(lambda: observer.rejected, "what was bad is told")
        samples = self.scrape()
        self.assertEqual(samples("handoff_envelope_tokens_sum", target_agent="coder"), 1234)
        self.assertEqual(samples("handoff_duration_seconds_count", target_agent="coder",
                                 pattern="direct", outcome="acknowledged"), 1)
        self.assertEqual(observer.lost, 0)

    def test_a_sidecar_that_is_away_is_told_later(self):
        address = self.daemon.api.address
        self.daemon.kill()
        self.daemon.expected_exit = 0
        observer = self.observe.Observer("planner", f"http://{address}", every=0.01)
        with observer.handoff("coder"):
            pass
        eventually(lambda: observer.waiting.empty(), "it is on its way, to nobody")
        self.daemon.log_path.unlink()
        self.daemon.start()
        eventually(lambda: self.outcomes() == {("acknowledged", "coder", "direct"): 1},
                   "it was told")
        self.assertEqual(observer.lost, 0)


if __name__ == "__main__":
    unittest.main()
