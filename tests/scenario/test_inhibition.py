# SPDX-License-Identifier: Apache-2.0
"""The inhibition rules of alerts/alertmanager.yml in the real Alertmanager: what is muted, and, as
important, what is not. The receivers are emptied, so that nothing is sent anywhere."""

import unittest

from harness import Alertmanager, eventually
from harness.alertmanager import shipped


def label(labels):
    """An alert, short: HandoffFailed/analyst."""
    return "/".join(filter(None, (labels["alertname"], labels.get("target_agent"), labels.get("instance"), labels.get("long"))))


def alert(name, severity, **labels):
    return {"alertname": name, "severity": severity, **labels}


class Inhibition(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.alertmanager = cls.enterClassContext(Alertmanager(shipped()))

    def muted(self, *alerts):
        """Fires the alerts in a separate job; {alert: whether it is muted} once Alertmanager has seen them all."""
        job = self.id()
        self.alertmanager.fire(*[{"job": job, **labels} for labels in alerts])
        self.wait_until_seen()
        return self.known(job)

    def known(self, job):
        """{alert: whether it is muted} of one job."""
        return {label(alert["labels"]): bool(alert["status"]["inhibitedBy"])
                for alert in self.alertmanager.alerts() if alert["labels"].get("job", "") == job}

    def wait_until_seen(self):
        # Alertmanager takes alerts in their order: when this pair is known, so is all before it.
        job = self.id() + " marker"
        self.alertmanager.fire(alert("HandoffExporterDown", "critical", job=job), alert("HandoffFailed", "info", job=job))
        eventually(lambda: self.known(job).get("HandoffFailed"), "Alertmanager has seen the alerts")

    def test_an_open_circuit_mutes_what_it_causes_at_its_target_and_no_rate(self):
        self.assertEqual(self.muted(
            alert("HandoffCircuitOpen", "critical", target_agent="analyst"),
            alert("HandoffFailed", "info", target_agent="analyst"),
            alert("HandoffConsecutiveFailures", "warning", target_agent="analyst"),
            alert("HandoffParkedWaiting", "warning", target_agent="analyst"),
            alert("HandoffExpired", "warning", target_agent="analyst"),
            # rates leave the agent out themselves; another agent, and what no circuit explains
            alert("HandoffFailureRateCritical", "critical"),
            alert("HandoffConsecutiveFailures", "warning", target_agent="reviewer"),
            alert("HandoffCircuitOpen", "critical", target_agent="reviewer"),
            alert("HandoffCompletenessCritical", "critical"),
            alert("HandoffConfigReloadFailed", "warning", instance="a:9780"),
            alert("HandoffHopDepthRising", "warning"),
        ), {
            "HandoffCircuitOpen/analyst": False,
            "HandoffFailed/analyst": True,
            "HandoffConsecutiveFailures/analyst": True,
            "HandoffParkedWaiting/analyst": True,
            "HandoffExpired/analyst": True,
            "HandoffFailureRateCritical": False,
            "HandoffConsecutiveFailures/reviewer": True,
            "HandoffCircuitOpen/reviewer": False,
            "HandoffCompletenessCritical": False,
            "HandoffConfigReloadFailed/a:9780": False,
            "HandoffHopDepthRising": False,
        })

    def test_the_circuit_of_one_agent_mutes_no_other_agent(self):
        self.assertEqual(self.muted(
            alert("HandoffCircuitOpen", "critical", target_agent="analyst"),
            alert("HandoffConsecutiveFailures", "warning", target_agent="reviewer"),
            alert("HandoffLatencyHigh", "warning", target_agent="reviewer"),
        ), {
            "HandoffCircuitOpen/analyst": False,
            "HandoffConsecutiveFailures/reviewer": False,
            "HandoffLatencyHigh/reviewer": False,
        })

    def test_a_page_without_a_target_does_not_mute_tickets_without_a_target(self):
        # both lack target_agent, which Alertmanager takes for equal
        self.assertEqual(self.muted(
            alert("HandoffSpineDown", "critical", instance="a:9780"),
            alert("HandoffHopDepthRising", "warning"),
            alert("HandoffSeriesDropped", "warning", instance="a:9780"),
            alert("HandoffFailureRateElevated", "warning"),
        ), {
            "HandoffSpineDown/a:9780": False,
            "HandoffHopDepthRising": False,
            "HandoffSeriesDropped/a:9780": False,
            "HandoffFailureRateElevated": False,
        })

    def test_a_sidecar_that_is_gone_mutes_the_rest_of_its_job_and_not_the_watchdog(self):
        self.assertEqual(self.muted(
            alert("HandoffExporterDown", "critical"),
            alert("HandoffExporterInstanceUnreachable", "warning", instance="a:9780"),
            alert("HandoffCircuitOpen", "critical", target_agent="analyst"),
            alert("HandoffSpineDown", "critical", instance="a:9780"),
            alert("HandoffErrorBudgetBurn", "critical", long="6h"),
            alert("HandoffWatchdog", "none"),
            alert("NodeDown", "critical", instance="a:9100"),
        ), {
            "HandoffExporterDown": False,
            "HandoffExporterInstanceUnreachable/a:9780": True,
            "HandoffCircuitOpen/analyst": True,
            "HandoffSpineDown/a:9780": True,
            "HandoffErrorBudgetBurn/6h": True,
            "HandoffWatchdog": False,
            "NodeDown/a:9100": False,
        })

    def test_failures_page_once(self):
        self.assertEqual(self.muted(
            alert("HandoffErrorBudgetBurn", "critical", long="1h"),
            alert("HandoffErrorBudgetBurn", "warning", long="1d"),
            alert("HandoffFailureRateCritical", "critical"),
            alert("HandoffFailureRateElevated", "warning"),
        ), {
            "HandoffErrorBudgetBurn/1h": False,
            "HandoffErrorBudgetBurn/1d": True,
            "HandoffFailureRateCritical": True,
            "HandoffFailureRateElevated": True,
        })

    def test_a_systemic_rate_pages_by_itself(self):
        self.assertEqual(self.muted(
            alert("HandoffFailureRateCritical", "critical"),
            alert("HandoffFailureRateElevated", "warning"),
            alert("HandoffErrorBudgetBurn", "warning", long="3d"),
        ), {
            "HandoffFailureRateCritical": False,
            "HandoffFailureRateElevated": True,
            "HandoffErrorBudgetBurn/3d": True,
        })

    def test_a_store_that_fails_explains_the_spine_in_it_and_no_other(self):
        self.assertEqual(self.muted(
            alert("HandoffStoreFailing", "critical", instance="a:9780", cause="displaced"),
            alert("HandoffSpineDown", "critical", instance="a:9780"),
            alert("HandoffStoreFailing", "critical", instance="b:9780", cause="disk"),
            alert("HandoffSpineDown", "critical", instance="b:9780"),
        ), {
            "HandoffStoreFailing/a:9780": False,
            "HandoffSpineDown/a:9780": True,
            "HandoffStoreFailing/b:9780": False,
            "HandoffSpineDown/b:9780": False,
        })

    def test_a_store_that_fails_explains_the_requests_that_it_rejects(self):
        self.assertEqual(self.muted(
            alert("HandoffStoreFailing", "critical", instance="a:9780", cause="commits"),
            alert("HandoffRequestsFailing", "warning", call="send_handoff", code="store_full"),
        ), {
            "HandoffStoreFailing/a:9780": False,
            "HandoffRequestsFailing": True,
        })

    def test_other_requests_fail_for_other_reasons(self):
        self.assertEqual(self.muted(
            alert("HandoffStoreFailing", "critical", instance="a:9780", cause="commits"),
            alert("HandoffRequestsFailing", "warning", call="send_handoff", code="budget_too_small"),
        ), {
            "HandoffStoreFailing/a:9780": False,
            "HandoffRequestsFailing": False,
        })

    def test_what_pages_about_an_agent_is_not_a_ticket_too(self):
        self.assertEqual(self.muted(
            alert("HandoffInboxUnattended", "critical", target_agent="puller"),
            alert("HandoffMostlyRefused", "critical", target_agent="picky"),
            alert("HandoffRefusedRepeatedly", "warning", target_agent="picky"),
        ), {
            "HandoffInboxUnattended/puller": False,
            "HandoffMostlyRefused/picky": False,
            "HandoffRefusedRepeatedly/picky": True,
        })

    def test_a_spine_that_is_down_explains_missing_memories(self):
        self.assertEqual(self.muted(
            alert("HandoffSpineDown", "critical", instance="a:9780"),
            alert("HandoffCompletenessCritical", "critical"),
            alert("HandoffCompletenessLow", "warning"),
        ), {
            "HandoffSpineDown/a:9780": False,
            "HandoffCompletenessCritical": True,
            "HandoffCompletenessLow": True,
        })

    def test_incomplete_context_is_one_page_and_no_ticket(self):
        self.assertEqual(self.muted(
            alert("HandoffCompletenessCritical", "critical"),
            alert("HandoffCompletenessLow", "warning"),
        ), {"HandoffCompletenessCritical": False, "HandoffCompletenessLow": True})

    def test_alerts_of_others_are_out_of_reach_even_without_any_label(self):
        self.alertmanager.fire({"alertname": "DiskFull", "severity": "warning"})
        self.alertmanager.fire({"alertname": "HandoffExporterDown", "severity": "critical"},
                               {"alertname": "HandoffCircuitOpen", "severity": "critical"})
        self.wait_until_seen()
        self.assertFalse(self.known("")["DiskFull"])


if __name__ == "__main__":
    unittest.main()
