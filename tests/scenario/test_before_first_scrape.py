# SPDX-License-Identifier: Apache-2.0
"""What a sidecar counts before Prometheus scrapes it for the first time rings all the same.

increase() compares samples, and such counts have none before them. A restart is when it matters: deadlines that passed
while the sidecar was down pass before anything scrapes it.
"""

import datetime
import unittest

import test_page_and_alerts as page
from harness import Prometheus, Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import ack, nack, status


class BeforeTheFirstScrape(unittest.TestCase):
    maxDiff = None

    # what both say, and that they say the same
    on_the_page, in_prometheus = page.PageAndAlerts.on_the_page, page.PageAndAlerts.in_prometheus
    status, agree, before = page.PageAndAlerts.status, page.PageAndAlerts.agree, page.PageAndAlerts.before
    is_beyond_the_page = staticmethod(page.PageAndAlerts.is_beyond_the_page)

    def setUp(self):
        scripts = {"good": (ack,), "failing": (status(503),), "refuser": (nack("never", False),), "down": (status(503),)}
        receivers = {name: self.enterContext(Receiver(*script)) for name, script in scripts.items()}
        agents = {name: {"url": receiver.url, "retries": 0} for name, receiver in receivers.items()}
        agents["down"]["breaker"] = {"failures": 1, "cooldown": "1h"}
        agents["puller"] = {}
        self.daemon = self.enterContext(daemon_with(agents, hops={"max": 2}))
        self.caller = Caller(self.daemon, source="orchestrator")

    def scrape(self):
        rules = [str(page.TOP / "alerts" / name) for name in ("handoff-rules.yml", "handoff-alerts.yml")]
        self.prometheus = self.enterContext(Prometheus({"handoff": self.daemon.web.address}, config={"rule_files": rules}))

    def test_the_page_and_the_alerts_agree_about_it(self):
        self.caller.send("failing")
        self.caller.send("down")
        for _ in range(5):
            self.caller.send("refuser")
        last = {}
        for _ in range(3):
            last = self.caller.send("good", task_id="circles", **({"previous_id": last["id"]} if last else {})).json()
        for _ in range(12):
            self.caller.send("good", memory_ids=["never-stored"])
        for _ in range(25):
            self.caller.call("GET", "/v1/parked?targt=good")
        self.scrape()
        self.agree(("HandoffFailed", "failing"), ("HandoffCircuitOpen", "down"), ("HandoffRefused", "refuser"),
                   ("HandoffMostlyRefused", "refuser"), ("HandoffHopLimitReached", "good"),
                   ("HandoffCompletenessCritical", None), ("HandoffRequestsFailing", None))

    def test_a_deadline_that_passed_while_the_sidecar_was_down(self):
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
        handoff = self.caller.send_async("puller", constraints={"deadline": soon.strftime("%Y-%m-%dT%H:%M:%S.%fZ")})
        self.daemon.kill()
        self.daemon.log_path.unlink()
        self.daemon.expected_exit = 0
        self.daemon.start()
        self.caller.wait_for_state(handoff, "expired")
        self.scrape()
        self.agree(("HandoffExpired", "puller"))


if __name__ == "__main__":
    unittest.main()
