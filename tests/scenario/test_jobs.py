# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""Bulk jobs: one decision about many parked handoffs; previewed, after a canary, at a rate, stopped, and over kill -9."""

import contextlib
import time
import unittest

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.receiver import Hold, ack, status
from harness.wait import eventually

WHY = "the agent is back"


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.broken = self.stack.enter_context(Receiver(status(400)))
        self.spare = self.stack.enter_context(Receiver(ack))
        self.daemon = self.stack.enter_context(daemon_with(
            {"broken": {"url": self.broken.url}, "spare": {"url": self.spare.url}, "puller": {}}))
        self.caller = Caller(self.daemon)

    def park(self, count, target="puller", **fields):
        def one():
            request = {"source_agent": "analyst", "target_agent": target, "task_summary": "x", **fields}
            return self.caller.call("POST", "/v1/parked", {"reason": "it is down", "request": request}).json()["id"]
        return [one() for _ in range(count)]

    def begin(self, status=202, headers=None, **body):
        reply = self.caller.call("POST", "/v1/jobs", {"action": "replay", "reason": WHY, **body}, **(headers or {}))
        self.assertEqual(reply.status, status, reply)
        return reply.json()

    def get(self, path):
        reply = self.caller.call("GET", path)
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def wait_for(self, job, state="done"):
        def reached():
            found = self.get(f"/v1/jobs/{job['id']}")
            return found if found["state"] == state else None
        return eventually(reached, f"the job is {state}")

    def results(self, job, **counts):
        self.assertEqual({name: job[name] for name in counts}, counts)

    def states(self, handoffs):
        return [self.caller.state(handoff)["state"] for handoff in handoffs]


class Jobs(Case):
    def test_a_redirect_of_all_that_the_filter_finds(self):
        handoffs, others = self.park(20), self.park(3, "broken")
        job = self.begin(filter={"target": "puller"}, to="spare", rate=500,
                         headers={"Handoff-Decided-By": "alice"})
        self.assertEqual((job["action"], job["to"], job["reason"], job["by"], job["total"], job["canary_id"]),
                         ("redirect", "spare", WHY, "alice", 20, None))
        self.results(self.wait_for(job), done=20, succeeded=20, skipped=0, failed=0)
        for handoff in handoffs:
            self.caller.wait_for_state(handoff, "acknowledged")
        self.assertEqual(set(self.states(others)), {"parked"})
        decisions = self.get(f"/v1/decisions?job={job['id']}&limit=100")["items"]
        self.assertEqual({item["handoff_id"] for item in decisions}, set(handoffs))
        self.assertEqual({(item["action"], item["to"], item["by"], item["reason"]) for item in decisions},
                         {("redirect", "spare", "alice", WHY)})
        self.assertEqual([item["id"] for item in self.get("/v1/jobs")["items"]], [job["id"]])

    def test_a_discard_needs_a_reason(self):
        handoffs = self.park(3)
        refused = self.begin(400, action="discard", reason="")
        self.assertEqual(refused["field"], "reason")
        self.wait_for(self.begin(action="discard"))
        self.assertEqual(self.states(handoffs), ["discarded"] * 3)

    def test_each_has_its_result(self):
        first, second, third = self.park(3)
        job = self.begin(to="spare", canary=True, rate=500)
        self.wait_for(job, "waiting")
        self.caller.call("DELETE", f"/v1/parked/{second}?reason=no")
        self.caller.call("POST", f"/v1/jobs/{job['id']}/continue")
        self.results(self.wait_for(job), succeeded=2, skipped=1, failed=0)
        items = self.get(f"/v1/jobs/{job['id']}/items")["items"]
        self.assertEqual([(item["handoff_id"], item["result"], item["code"]) for item in items],
                         [(first, "succeeded", ""), (second, "skipped", "conflict"), (third, "succeeded", "")])
        self.assertIn("discard by @anyone", items[1]["detail"])
        self.assertEqual(self.get(f"/v1/jobs/{job['id']}/items?result=skipped")["items"], [items[1]])
        page = self.get(f"/v1/jobs/{job['id']}/items?limit=2")
        rest = self.get(f"/v1/jobs/{job['id']}/items?limit=2&cursor={page['next']}")
        self.assertEqual(page["items"] + rest["items"], items)

    def test_a_dry_run_changes_nothing(self):
        handoffs = self.park(3)
        told = self.begin(200, filter={"query": "x"}, dry_run=True)
        self.assertEqual((told["count"], told["deliverable"], told["obstacles"]), (3, 3, []))
        self.assertEqual([item["id"] for item in told["items"]], handoffs)
        self.assertEqual(self.begin(200, filter={"query": "zeppelin"}, dry_run=True)["count"], 0)
        self.assertEqual((self.states(handoffs), self.get("/v1/jobs")["items"]), (["parked"] * 3, []))

    def test_it_waits_after_its_canary_until_it_is_told_to_go_on_or_stopped(self):
        first, *rest = self.park(4)
        job = self.wait_for(self.begin(to="spare", canary=True, rate=500), "waiting")
        self.assertEqual((job["canary_id"], job["done"], job["ended_at"]), (first, 1, None))
        self.caller.wait_for_state(first, "acknowledged")
        self.assertEqual(self.states(rest), ["parked"] * 3)
        reply = self.caller.call("DELETE", f"/v1/jobs/{job['id']}")
        self.assertEqual((reply.status, reply.json()["state"]), (202, "stopped"), reply)
        again = self.caller.call("POST", f"/v1/jobs/{job['id']}/continue")
        self.assertEqual((again.status, again.json()["seen"]), (409, "stopped"))
        self.assertEqual(self.states(rest), ["parked"] * 3)

    def test_it_is_stopped(self):
        self.park(30)
        job = self.begin(to="spare", rate=10)
        self.caller.call("DELETE", f"/v1/jobs/{job['id']}")
        stopped = self.wait_for(job, "stopped")
        self.assertLess(stopped["done"], 30)
        self.assertIsNotNone(stopped["ended_at"])
        self.assertEqual(len(self.get("/v1/parked")["items"]), 30 - stopped["done"])

    def test_it_keeps_to_its_rate(self):
        self.park(21)
        began = time.monotonic()
        self.wait_for(self.begin(to="spare", rate=20))
        self.assertGreaterEqual(time.monotonic() - began, 1)

    def test_each_once_also_if_it_is_parked_again(self):
        handoffs = self.park(3, "broken")
        self.results(self.wait_for(self.begin(filter={"target": "broken"}, rate=500)), succeeded=3, skipped=0, failed=0)
        eventually(lambda: len(self.get("/v1/parked")["items"]) == 3, "they are parked again")
        self.assertEqual(sorted(request.id for request in self.broken.requests), sorted(handoffs))
        self.assertIn('handoff_replayed_total{target_agent="broken"} 3\n', self.daemon.web.get("/metrics").text)

    def test_no_more_than_the_limit_the_oldest_first(self):
        handoffs = self.park(5)
        self.results(self.wait_for(self.begin(to="spare", limit=3, rate=500)), total=3, succeeded=3)
        self.assertEqual([item["id"] for item in self.get("/v1/parked")["items"]], handoffs[3:])

    def test_what_is_refused(self):
        for body, status_code, code in (({"action": "edit"}, 400, "invalid_request"), ({"to": "nobody"}, 404, "unknown_agent"),
                                        ({"filter": {"target": "nobody"}}, 404, "unknown_agent"),
                                        ({"filter": {"since": "now"}}, 400, "invalid_request"),
                                        ({"filter": {"colour": "red"}}, 400, "invalid_request")):
            self.assertEqual(self.begin(status_code, **body)["code"], code, body)
        for method, path in (("GET", ""), ("GET", "/items"), ("POST", "/continue"), ("DELETE", "")):
            reply = self.caller.call(method, f"/v1/jobs/01890a5d-ac96-774b-bcce-b302099a8057{path}")
            self.assertEqual(reply.status, 404, reply)


class Full(Case):
    def test_it_waits_while_the_in_flight_limit_is_reached(self):
        hold = Hold()
        slow = self.stack.enter_context(Receiver(hold))
        self.daemon = self.stack.enter_context(daemon_with({"puller": {}, "slow": {"url": slow.url}}, api={"max_in_flight": 1}))
        self.caller = Caller(self.daemon)
        self.park(3)
        job = self.begin(to="slow", rate=500)
        slow.wait_for(1)
        self.results(self.get(f"/v1/jobs/{job['id']}"), state="running", failed=0)
        hold.release()
        self.results(self.wait_for(job), succeeded=3)


class Durable(Case):
    def test_over_kill_9_with_exact_counts(self):
        handoffs = self.park(60)
        job = self.begin(to="spare", rate=100)
        for _ in range(2):
            eventually(lambda: self.get(f"/v1/jobs/{job['id']}")["done"] > 5, "some are decided")
            self.daemon.kill()
            self.daemon.log_path.write_bytes(b"")
            self.daemon.start()
        self.daemon.expected_exit = 0
        self.results(self.wait_for(job), total=60, done=60, succeeded=60)
        decisions = self.get(f"/v1/decisions?job={job['id']}&limit=1000")["items"]
        self.assertEqual(sorted(item["handoff_id"] for item in decisions), sorted(handoffs))

    def test_a_restart_continues_it(self):
        self.park(20)
        job = self.begin(to="spare", rate=10)
        eventually(lambda: self.get(f"/v1/jobs/{job['id']}")["done"] > 0, "the first is decided")
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(), 0)
        self.daemon.log_path.unlink()
        self.daemon.start()
        self.assertLess(self.get(f"/v1/jobs/{job['id']}")["done"], 20)
        self.results(self.wait_for(job), total=20, succeeded=20, failed=0)

    def test_a_canary_that_waits_waits_after_a_restart(self):
        self.park(3)
        job = self.wait_for(self.begin(to="spare", canary=True), "waiting")
        self.daemon.kill()
        self.daemon.log_path.write_bytes(b"")
        self.daemon.start()
        self.daemon.expected_exit = 0
        self.assertEqual(self.get(f"/v1/jobs/{job['id']}")["state"], "waiting")
        self.caller.call("POST", f"/v1/jobs/{job['id']}/continue")
        self.results(self.wait_for(job), succeeded=3)


if __name__ == "__main__":
    unittest.main()
