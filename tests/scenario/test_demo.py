# SPDX-License-Identifier: Apache-2.0
"""./scripts/demo does what it announces, to the alert, and leaves nothing behind."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import judge
from harness import eventually

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
sys.path.insert(0, str(TOP / "demo"))

import programs  # noqa: E402
import settings  # noqa: E402  (the demo's own)
import story     # noqa: E402

END = 60    # of a demo that was asked to end


class Demo:
    """A running demo; its temporary files are in our folder, to see what it leaves behind."""

    def __init__(self, case, *options):
        folder = tempfile.TemporaryDirectory(prefix="handoff-test-demo-")
        case.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.output = self.folder.parent / (self.folder.name + ".out")
        case.addCleanup(self.output.unlink)
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen([TOP / "scripts/demo", "--no-apt", *options], stdout=output, stderr=output,
                                            stdin=subprocess.DEVNULL, start_new_session=True,
                                            env={**os.environ, "TMPDIR": str(self.folder)})
        case.addCleanup(self.stop)

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def text(self):
        return self.output.read_text(encoding="utf-8")

    def wait_for_text(self, pattern, timeout):
        def found():
            match = re.search(pattern, self.text())
            if match is None and self.process.poll() is not None:
                raise RuntimeError(f"the demo ended with {self.process.returncode}:\n{self.text()}")
            return match
        return eventually(found, f"the demo says {pattern!r}", timeout)

    def address(self, name):
        """http://localhost:9090, as it was printed."""
        return self.wait_for_text(rf"(?m)^  {re.escape(name)} +(http://[^/]+)", 120)[1]

    def children(self):
        """{name: pid} of the programs that it has started."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                pid, name, fields = re.match(r"(\d+) \((.*)\) (.*)", path.read_text(), re.DOTALL).groups()
            except OSError:     # it ended meanwhile
                continue
            if int(fields.split()[1]) == self.process.pid:
                found[name] = int(pid)
        return found

    def wait(self):
        try:
            return self.process.wait(END)
        except subprocess.TimeoutExpired as late:
            running = ", ".join(self.children()) or "none of its programs"
            raise AssertionError(f"the demo still runs ({running}), {END} s after it had to end:\n{self.text()}") from late


def get(url):
    with urllib.request.urlopen(url, timeout=30) as reply:
        return reply.read().decode()


def query(prometheus, expression):
    """{labels as text: value}"""
    data = json.loads(get(f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))["data"]
    return {",".join(f"{key}={value}" for key, value in sorted(row["metric"].items())): float(row["value"][1])
            for row in data["result"]}


def is_alive(pid):
    try:
        os.kill(pid, 0)
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


class Fast(unittest.TestCase):
    def test_the_announced_alerts_come_in_their_order_and_nothing_else(self):
        demo = Demo(self, "--fast", "--stay")
        prometheus, page = demo.address("Prometheus"), demo.address("status page")
        self.judge_announcement(demo.text())
        demo.wait_for_text(r"(As announced|Not as announced).*", story.FAST.deadline + 60)
        self.assertIn("\nAs announced: 3 alerts", demo.text(), demo.text())
        self.judge_what_was_sent(demo.text())
        self.judge_metrics(prometheus)
        self.judge_page(page)
        self.judge_dashboards(prometheus)
        children = demo.children()
        self.assertEqual(len(children), 3, children)
        demo.process.send_signal(signal.SIGINT)
        self.assertEqual(demo.wait(), 0, demo.text())
        self.assertEqual([name for name, pid in children.items() if is_alive(pid)], [])
        self.assertEqual(list(demo.folder.iterdir()), [])

    def judge_announcement(self, text):
        told = text.split("What will happen")[1].split("What happens")[0]
        for alert in story.expected_alerts(story.FAST):
            self.assertRegex(told, rf"ALERT to the {alert.receiver}: {alert.name}")
        for event in story.events(story.FAST):
            self.assertIn(event.text, told)

    def judge_what_was_sent(self, text):
        happened = text.split("What happens")[1]
        fired = re.findall(r"^ *\d+:\d\d  (PAGE|TICKET) +(\w+)(?: for ([\w-]+))?:", happened, re.MULTILINE)
        words = {"pager": "PAGE", "tickets": "TICKET"}
        self.assertEqual(fired, [(words[alert.receiver], alert.name, alert.target)
                                 for alert in story.expected_alerts(story.FAST)])
        over = re.findall(r"resolved +(\w+)", happened)
        self.assertEqual(sorted(over), sorted(alert.name for alert in story.expected_alerts(story.FAST)))

    def judge_metrics(self, prometheus):
        """The series tell the same story."""
        self.assertEqual(query(prometheus, "sum(handoff_parked_entries)"), {"": 0})
        failed = query(prometheus, 'sum by (target_agent) (handoff_handoffs_total{outcome="exhausted"}) > 0')
        self.assertEqual(list(failed), ["target_agent=code-generator"])
        self.assertEqual(query(prometheus, "sum(handoff_circuit_opened_total)"), {"": 1})
        self.assertEqual(query(prometheus, "sum(handoff_replayed_total) == sum(handoff_parked_total)").keys(), {""})
        self.assertGreater(query(prometheus, "sum(handoff_route_cycles_total)")[""], 0)
        self.assertGreater(query(prometheus, "histogram_count(sum(handoff_task_handoffs))")[""], 100)
        done = query(prometheus, 'sum by (target_agent) (handoff_handoffs_total{outcome="acknowledged"})')
        for name in "researcher", "analyst", "code-generator", "test-writer", "reviewer":
            self.assertGreater(done[f"target_agent={name}"], 100)
        self.assertEqual(query(prometheus, "handoff_tokenizer_exact").popitem()[1], 1)
        now = time.time()
        examples = json.loads(get(f"{prometheus}/api/v1/query_exemplars?" + urllib.parse.urlencode(
            {"query": "handoff_duration_seconds", "start": now - 600, "end": now})))["data"]
        self.assertTrue(examples, "latency has exemplars")

    def judge_page(self, page):
        status = json.loads(get(f"{page}/?format=json"))
        self.assertEqual(status["parked"], 0)
        # What the demo's rules have forgotten, in seconds, the page remembers for as long as the shipped ones.
        self.assertIn("HandoffFailed", {finding["alert"] for finding in status["findings"]})
        self.assertIn("exhausted", {failure["outcome"] for failure in status["failures"]})


    def judge_dashboards(self, prometheus):
        """The dashboards show the events: no query fails, and no panel is empty that should not be."""
        answers = judge.ask_all(prometheus, shown=story.FAST.over, scrape_interval=1)
        self.assertGreater(sum(len(titles) for titles in answers.values()), 60)
        # the fast rules record under other names, and a week is as short as the demo is long
        self.assertEqual(judge.complaints(answers, may_be_empty=["Depth against the week before"]), [])
        agents = {series.labels["target_agent"] for answer in answers["handoff-agent"]["Circuit over time"]
                  for series in answer.series}
        self.assertEqual(agents, {"researcher", "analyst", "code-generator", "test-writer", "reviewer"})


class Ending(unittest.TestCase):
    def test_when_one_part_dies_all_of_it_ends_and_says_so(self):
        demo = Demo(self)
        demo.wait_for_text("What happens", 120)
        children = demo.children()
        os.kill(children["prometheus"], signal.SIGKILL)
        self.assertEqual(demo.wait(), 1)
        self.assertIn("prometheus exited with -9", demo.text())
        self.assertEqual([name for name, pid in children.items() if is_alive(pid)], [])
        self.assertEqual(list(demo.folder.iterdir()), [])

    def test_sigterm_ends_it_politely(self):
        demo = Demo(self)
        demo.wait_for_text("What happens", 120)
        children = demo.children()
        demo.process.terminate()
        self.assertEqual(demo.wait(), 0, demo.text())
        self.assertEqual([name for name, pid in children.items() if is_alive(pid)], [])
        self.assertEqual(list(demo.folder.iterdir()), [])

    def test_a_signal_while_it_starts_leaves_nothing_either(self):
        demo = Demo(self, "--fast")
        eventually(lambda: "handoff-exporte" in demo.children(), "the first program runs", 120)
        children = demo.children()
        demo.process.send_signal(signal.SIGINT)
        self.assertEqual(demo.wait(), 130, demo.text())
        self.assertEqual([name for name, pid in children.items() if is_alive(pid)], [])
        self.assertEqual(list(demo.folder.iterdir()), [])

    def test_nothing_outlives_a_kill(self):
        demo = Demo(self)
        demo.wait_for_text("What happens", 120)
        children = demo.children()
        self.assertEqual(len(children), 3, children)
        demo.process.kill()
        demo.wait()
        for name, pid in children.items():
            eventually(lambda pid=pid: not is_alive(pid), f"{name} has ended", END)


class Files(unittest.TestCase):
    def test_a_port_in_use_is_left_alone(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.assertNotEqual(programs.free_port(port), port)
        self.assertEqual(programs.free_port(port), port)

    def test_two_demos_that_start_at_once_do_not_want_the_same_port(self):
        """Neither listens yet when the other probes; so each runs in its own process, as demos do."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        code = f"import programs; print(programs.free_port({port}), flush=True); input()"
        picked = []
        demos = [subprocess.Popen([sys.executable, "-c", code], cwd=TOP / "demo", text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) for _ in range(2)]
        for demo in demos:
            picked.append(int(demo.stdout.readline()))
        for demo in demos:
            demo.communicate("\n")
        self.assertIn(port, picked)
        self.assertNotEqual(*picked)
        self.assertEqual(programs.free_port(port), port, "a claim ends with its process")

    def test_the_alertmanager_of_compose_is_the_shipped_one(self):
        self.assertEqual((TOP / "demo/alertmanager.yml").read_text(encoding="utf-8"), settings.compose_alertmanager())

    def test_the_numbers_of_the_story_fit_the_rules(self):
        """The story says why it ends with exactly these alerts; what it leans on is still so."""
        rules = (TOP / "alerts/config.libsonnet").read_text(encoding="utf-8")
        for fact in ("circuitOpen: { window: '5m', keepFiringFor: '5m' }", "olderThan: '1h'",
                     "low: { below: 0.95, window: '1h', 'for': '10m'",
                     "critical: { below: 0.80, window: '15m', 'for': '2m'"):
            self.assertIn(fact, rules)
        for pace in story.NORMAL, story.FAST:
            cooldown = float(pace.cooldown.rstrip("s"))
            self.assertLess(pace.bad_for, cooldown)
            self.assertLess(pace.bad_at + cooldown, pace.replay_at)
            self.assertLess(pace.replay_at, pace.loss_at)
            times = [alert.at for alert in story.expected_alerts(pace)]
            self.assertEqual(times, sorted(times))


if __name__ == "__main__":
    unittest.main()
