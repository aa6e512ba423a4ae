# SPDX-License-Identifier: Apache-2.0
"""Every metric has its exact value after a known series of handoffs, as the real Prometheus tells it.

The series is the one of test_measures, and what that leaves out: a replay, a late acknowledgement, a
time-out, an answer that makes no sense, a task that ends. The test keeps a list of the metrics that it
asked for, so that one that is added later has to be asked for here as well.
"""

import os
import pathlib
import sys
import time
import unittest

from harness import Daemon, Prometheus
from harness.agents import Caller
from harness.receiver import ack, later, status
from test_measures import Known, Samples

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
sys.path.insert(0, str(TOP / "tests/support"))
import metric_names  # noqa: E402

# What a Prometheus adds to a series.
ADDED = {"job", "instance", "__name__"}


class Asked(Samples):
    """What Prometheus has now; remembers the metrics that were asked for."""

    def __init__(self, prometheus, asked):
        self.asked = asked
        self.values = {}
        for labels, value in prometheus.query('{__name__=~"(handoff|process)_.+"}'):
            rest = {label: text for label, text in labels.items() if label not in ADDED}
            self.values[labels["__name__"], frozenset(rest.items())] = value

    def __call__(self, name, **labels):
        self.asked.add(name)
        return super().__call__(name, **labels)

    def series(self, name, **labels):
        self.asked.add(name)
        return super().series(name, **labels)


class ThroughPrometheus(Known):
    def setUp(self):
        super().setUp()
        self.asked = set()
        self.daemon = self.enterContext(Daemon(config=self.config))
        self.prometheus = self.enterContext(Prometheus({"handoff": self.daemon.web.address}))
        self.prometheus.scraped(1)

    def now(self):
        self.prometheus.scraped(1)
        return Asked(self.prometheus, self.asked)

    def further(self):
        """What known_series leaves out."""
        self.send("slow", 502)
        self.send("odd", 502)
        self.coder.do(ack)
        reply = self.daemon.api.post(f"/v1/parked/{self.refused}/replay", b"{}")
        self.assertIn(reply.status, (200, 202), reply.text)
        # the answer says that it is ready to go, not that it was delivered
        caller = Caller(self.daemon)
        caller.wait_for_state(self.refused, "acknowledged")
        self.coder.do(later)
        self.waiting = self.send("coder", 202)["id"]
        task = self.envelopes["second"][0]["task_id"]
        for _ in range(2):
            reply = self.daemon.api.post(f"/v1/tasks/{task}/complete")
            self.assertEqual((reply.status, reply.json()["handoffs"]), (200, 3))
        caller.wait_for_state(self.waiting, "awaiting_ack")

    def test_every_metric(self):
        self.check_start(self.now())
        began = time.time()
        self.known_series()
        self.prometheus.wait_for('sum(handoff_parked_entries) == 5')
        samples = self.now()
        self.check_outcomes(samples)
        self.check_envelopes(samples)
        self.check_standing(samples)
        self.check_stages(samples, assembled=12, accepted=11, attempts=12)
        self.further()
        self.prometheus.wait_for('sum(handoff_parked_entries) == 6')  # 5, slow and odd, one replayed
        self.check_further(self.now())
        self.daemon.api.post(f"/v1/handoffs/{self.waiting}/ack")
        gaps = self.daemon.api.post(f"/v1/handoffs/{self.waiting}/gaps", b'{"missing": ["never-stored"]}')
        self.assertEqual(gaps.status, 200, gaps)
        samples = self.now()
        self.assertEqual(samples.series("handoff_memory_recovery_total"), {("coder", "missing"): 1})
        self.assertEqual(samples.series("handoff_in_flight"), {})
        self.assertEqual(samples.series("handoff_oldest_in_flight_seconds"), {})
        # tasks.stalled_after is not set: test_stalled_tasks.py watches tasks
        self.assertEqual(samples("handoff_oldest_open_task_seconds"), 0)
        self.assertEqual(samples("handoff_task_stalled_after_seconds"), 0)
        self.check_stages(samples, assembled=15, accepted=14, attempts=16)
        self.check_store_and_spine(samples)
        self.check_retention(samples)
        self.check_exporter(samples, began)
        self.check_process(samples)
        self.check_channels()
        self.check_all_were_asked_for()

    def check_stages(self, samples, assembled, accepted, attempts):
        self.assertEqual(samples.series("handoff_stage_duration_seconds_count"), {
            ("resolve",): assembled, ("trim",): assembled, ("encode",): assembled,
            ("persist",): accepted, ("attempt",): attempts})

    def check_further(self, samples):
        results = {("slow", "timeout"): 1, ("odd", "protocol"): 1, ("ack", "coder"): 4,
                   ("coder", "http"): 2, ("coder", "nack"): 1, ("down", "http"): 3,
                   ("connect", "nobody-there"): 1, ("ack", "second"): 2}
        self.assertEqual(samples.series("handoff_attempts_total"), results)
        self.assertEqual(samples.series("handoff_parked_entries"),
                         {("coder",): 1, ("down",): 3, ("slow",): 1, ("odd",): 1})
        self.assertEqual(samples.series("handoff_parked_total"),
                         {("coder", "refused"): 1, ("coder", "hop_limit"): 1, ("down", "exhausted"): 3,
                          ("exhausted", "slow"): 1, ("exhausted", "odd"): 1})
        self.assertEqual(samples.series("handoff_replayed_total"), {("coder",): 1})
        # the replay is not a second handoff, and what waits has not ended
        self.assertEqual(sum(samples.series("handoff_handoffs_total").values()), 14)
        self.assertEqual(sum(samples.series("handoff_duration_seconds_count").values()), 12)
        self.assertEqual(samples.series("handoff_in_flight"), {("coder",): 1})
        self.assertGreater(samples("handoff_oldest_in_flight_seconds", target_agent="coder"), 0)
        self.assertEqual(samples("handoff_task_handoffs_count"), 1)
        self.assertEqual(samples("handoff_task_handoffs_sum"), 3)
        self.assertEqual(samples.series("handoff_hop_depth_sum"), {("direct",): 16, ("choreographed",): 1})
        self.assertEqual(samples.series("handoff_observations_total"), {})

    def check_store_and_spine(self, samples):
        spine = samples.series("handoff_spine_request_duration_seconds_count")
        # one each for the two that name memories and the two hops that inherit them; the others ask for nothing
        self.assertEqual(spine, {("ok", "put"): 2, ("ok", "resolve"): 4})
        self.assertEqual(samples("handoff_spine_up"), 1)
        self.assertEqual(samples("handoff_spine_index_complete"), 1)
        for outcome in "hit", "miss":  # test_spine_cache.py has others
            self.assertEqual(samples("handoff_spine_cache_total", outcome=outcome), 0)
        self.assertEqual(samples("handoff_spine_cache_age_seconds_count"), 0)
        self.assertEqual(samples("handoff_spine_cache_bytes"), 0)
        self.assertEqual(samples("handoff_spine_searches_cut_total"), 0)  # test_search_timeout.py has others
        vocabulary = pathlib.Path(os.environ["HANDOFF_VOCABULARY_DIR"]) / "o200k_base.vocabulary"
        self.assertEqual(samples("handoff_tokenizer_exact"), 1 if vocabulary.exists() else 0)
        self.assertEqual(samples("handoff_store_commit_failures_total"), 0)
        self.assertEqual(samples("handoff_store_displaced"), 0)  # test_store_displaced.py has the other
        disk = os.statvfs(self.daemon.folder)
        self.assertEqual(samples("handoff_store_disk_size_bytes"), disk.f_blocks * disk.f_frsize)
        self.assertLess(0, samples("handoff_store_disk_free_bytes"))
        self.assertLess(samples("handoff_store_disk_free_bytes"), disk.f_blocks * disk.f_frsize)
        # how many writes share a commit is chance; that nothing was missed is not
        direct = Samples(self.daemon.web.get("/metrics").text)
        for name in "handoff_store_commit_duration_seconds_count", "handoff_store_bytes":
            self.assertEqual(samples(name), direct(name))
            self.assertGreater(samples(name), 0)

    def check_retention(self, samples):
        for kind in "body", "index":
            self.assertGreater(samples("handoff_retained_bytes", kind=kind), 3000)
        body, chain = (samples("handoff_retained_oldest_seconds", kind=kind)
                       for kind in ("body", "chain"))
        self.assertEqual(body, chain)  # nothing was removed yet
        self.assertGreater(chain, 0)
        self.assertEqual(samples("handoff_retained_oldest_seconds", kind="key"), 0)  # none was sent
        for kind, reason in ("body", "size"), ("chain", "age"), ("chain", "size"):
            self.assertEqual(samples("handoff_retention_removed_total", kind=kind, reason=reason), 0)
        self.assertEqual(samples("handoff_store_orphan_files_total"), 0)

    def check_channels(self):
        """One receiver of the channel needs a second attempt, the other does not pull."""
        self.assertEqual(self.now().series("handoff_channel_published_total"), {})
        self.second.do(status(503), ack)
        caller = Caller(self.daemon, "analyst")
        reply = caller.call("POST", "/v1/channels/news/publish",
                            {"request": {"source_agent": "analyst", "task_summary": "it is done"}})
        self.assertEqual(reply.status, 202, reply)
        [delivery] = [one["handoff_id"] for one in reply.json()["deliveries"] if one["receiver"] == "second"]
        caller.wait_for_state(delivery, "acknowledged")
        samples = self.now()
        self.assertEqual(samples.series("handoff_channel_published_total"), {("news", "second"): 1, ("news", "puller"): 1})
        self.assertEqual(samples.series("handoff_channel_pending"), {("news", "puller"): 1})
        self.assertEqual(samples.series("handoff_channel_redelivered_total"), {("news", "second"): 1})
        self.assertEqual(set(samples.series("handoff_channel_oldest_pending_seconds")), {("news", "puller")})
        self.assertEqual(samples.series("handoff_channel_dropped_total"), {})  # test_subscriptions.py drops some

    def check_exporter(self, samples, began):
        self.assertEqual(list(samples.series("handoff_exporter_build_info").values()), [1])
        self.assertEqual(samples("handoff_exporter_config_last_reload_successful"), 1)
        for resource in "descriptors", "memory", "threads", "ports", "disk":  # test_shortages.py has one that is short
            self.assertEqual(samples("handoff_exporter_resource_shortages_total", resource=resource), 0)
        for loop in "control", "web", "api":  # tests/unit/test_loop.c has what they tell
            self.assertGreater(samples("handoff_exporter_loop_turn_max_seconds", loop=loop), 0)
        for action in "redirect", "edit", "revive":  # test_decisions.py has some
            self.assertEqual(samples("handoff_decisions_total", action=action), 0)
        for where in "request", "constraint", "memory", "reason":  # test_secrets.py has some
            self.assertEqual(samples("handoff_secrets_total", kind="github_token", where=where), 0)
        # test_agent_signals.py has those of agents that refuse, and of inboxes
        self.assertEqual(samples.series("handoff_consecutive_refusals"), {})
        self.assertGreater(samples("handoff_agent_timeout_seconds", target_agent="coder"), 0)
        self.assertEqual(samples.series("handoff_inbox_waiting"), {})
        self.assertEqual(set(samples.series("handoff_inbox_last_poll_timestamp_seconds")), {("puller",)})
        # test_api_requests.py counts each answer
        self.assertGreater(samples("handoff_api_requests_total", call="send_handoff", code="ok"), 0)
        loaded = samples("handoff_exporter_config_last_reload_success_timestamp_seconds")
        self.assertTrue(began - 60 < loaded < began, (began, loaded))
        self.assertEqual(samples("handoff_exporter_scrapes_total", code="503"), 0)
        scrapes = samples("handoff_exporter_scrapes_total", code="200")
        self.assertEqual(samples("handoff_exporter_scrape_duration_seconds_count"), scrapes)
        self.assertEqual(samples("handoff_exporter_scrapes_in_flight"), 1)  # the one that tells it
        for name in "handoff_exporter_series_dropped_total", "handoff_exporter_log_suppressed_total":
            self.assertEqual(samples(name), 0)

    def check_process(self, samples):
        for name in ("process_cpu_seconds_total", "process_open_fds", "process_max_fds",
                     "process_virtual_memory_bytes", "process_virtual_memory_max_bytes",
                     "process_resident_memory_bytes", "process_threads"):
            self.assertGreater(samples(name), 0, name)
        self.assertLess(abs(samples("process_start_time_seconds") - time.time()), 300)
        for name in "process_network_receive_bytes_total", "process_network_transmit_bytes_total":
            self.assertIsNotNone(samples(name), name)

    def check_all_were_asked_for(self):
        asked = {name.removesuffix("_count").removesuffix("_sum").removesuffix("_bucket")
                 for name in self.asked}
        self.assertEqual(set(metric_names.declared()) - asked, set())


if __name__ == "__main__":
    unittest.main()
