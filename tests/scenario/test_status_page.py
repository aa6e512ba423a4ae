# SPDX-License-Identifier: Apache-2.0
# variants: release asan
"""The page at "/": what it says, who may read what in it, and how it looks to a browser."""

import base64
import concurrent.futures
import hashlib
import html
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import time
import unittest
import urllib.parse

from harness import Daemon, Receiver, eventually
from harness.agents import Caller, config, daemon_with
from harness.browser import Browser
from harness.receiver import ack, nack, status

TOP = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"])
AXE = TOP / "tests/browser/node_modules/axe-core/axe.min.js"
# A browser in which time passes a hundred times faster, for scripts.
FASTER = "const wait = setInterval; window.setInterval = (f, ms) => wait(f, ms / 100);"
LONGEST = "a-name-of-128-letters-".ljust(128, "x")
HOSTILE = '<script>document.title="taken"</script><img src=x onerror=alert(1)>"\' \u202eturned \u05d0\u05d1'
SECRETS = {name: f"secret-{name}" for name in ("summary", "memory", "intent", "token", "decision", "task")}


def text_of(page):
    """What a reader sees of HTML, without its style."""
    without = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", without)))


class Troubled(unittest.TestCase):
    """A daemon with an open circuit, parked handoffs, and a receiver that says hostile things."""

    @classmethod
    def setUpClass(cls):
        good, bad, down = Receiver(ack), Receiver(nack(HOSTILE + "w" * 300, False)), Receiver(status(503))
        for receiver in good, bad, down:
            cls._enter(receiver)
        token = tempfile.NamedTemporaryFile("w")
        cls.addClassCleanup(token.close)
        token.write(SECRETS["token"])
        token.flush()
        agents = {"coder": {"url": down.url, "retries": 1, "breaker": {"failures": 2, "cooldown": "1h"}},
                  "reviewer": {"url": bad.url, "token_file": token.name}, "analyst": {"url": good.url}, LONGEST: {}}
        cls.daemon = daemon_with(agents)
        cls._enter(cls.daemon)
        caller = Caller(cls.daemon)
        caller.call("PUT", "/v1/memories/m-1", {"content": SECRETS["memory"]})
        for _ in range(3):
            caller.send("coder")
        caller.send("reviewer", task_id=SECRETS["task"], task_summary=SECRETS["summary"],
                    intent=SECRETS["intent"], memory_ids=["m-1"], state={"decisions": [SECRETS["decision"]]})
        assert SECRETS["memory"] in bad.requests[0].raw.decode() and bad.requests[0].headers["Authorization"]
        caller.send("analyst")
        caller.send_async(LONGEST)
        cls.page = cls.daemon.web.get("/")
        cls.status = cls.daemon.web.get("/?format=json").json()

    @classmethod
    def _enter(cls, context):
        context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)

    def agent(self, name):
        return next(agent for agent in self.status["agents"] if agent["name"] == name)

    def test_json_has_exact_numbers(self):
        self.assertEqual(self.status["standing"], "trouble")
        self.assertEqual((self.status["in_flight"], self.status["parked"], self.status["failures_total"]), (1, 3, 4))
        coder = self.agent("coder")
        self.assertEqual((coder["circuit"], coder["consecutive_failures"], coder["in_flight"], coder["parked"]),
                         ("open", 2, 0, 2))
        self.assertIsNone(coder["oldest_in_flight_seconds"])
        self.assertGreaterEqual(coder["oldest_parked_seconds"], 0)
        waiting = self.agent(LONGEST)
        self.assertEqual((waiting["circuit"], waiting["in_flight"]), ("closed", 1))
        self.assertGreaterEqual(waiting["oldest_in_flight_seconds"], 0)
        self.assertEqual([agent["name"] for agent in self.status["agents"]],
                         ["coder", "reviewer", LONGEST, "analyst"], "the worst first")

    def test_json_has_the_last_failures_with_their_reasons(self):
        refused, rejected, exhausted = self.status["failures"]
        self.assertEqual((refused["outcome"], refused["target_agent"], refused["times"]), ("refused", "reviewer", 1))
        self.assertTrue(refused["reason"].startswith(HOSTILE), refused["reason"])
        self.assertLessEqual(len(refused["reason"].encode()), 240)
        self.assertEqual((rejected["outcome"], rejected["id"]), ("circuit_open", None))
        self.assertEqual((exhausted["outcome"], exhausted["times"], exhausted["attempts"], exhausted["status"]),
                         ("exhausted", 2, 2, 503))
        self.assertIsNone(rejected["status"])
        parked = {item["id"] for item in Caller(self.daemon).parked()["items"]}
        self.assertLessEqual({refused["id"], exhausted["id"]}, parked)

    def test_the_page_says_the_same_in_words(self):
        seen = text_of(self.page.text)
        self.assertIn("Failing", seen)
        self.assertRegex(seen, r"The circuit to coder is open after 2 consecutive failures; [^.]*\. The last error:\s+the agent "
                               r"answered with an error status \(503\)")
        self.assertIn("3 handoffs could not be delivered and are waiting for a decision", seen)
        self.assertIn("refused by the agent", seen)
        self.assertIn(HOSTILE, seen)
        self.assertIn(self.status["version"], seen)

    def test_nothing_of_what_was_handed_over_is_in_it(self):
        for secret in SECRETS.values():
            self.assertNotIn(secret, self.page.text)
            self.assertNotIn(secret, json.dumps(self.status))

    def test_text_from_outside_is_no_markup(self):
        self.assertNotIn("<script", self.page.text.rsplit("<script>", 1)[0], "but ours, the last")
        self.assertNotIn("<img", self.page.text)
        self.assertIn("&lt;script&gt;", self.page.text)

    def test_the_policy_allows_its_style_and_its_script_and_nothing_else(self):
        policy = self.page.header("Content-Security-Policy")
        digests = {}
        for kind in "style", "script":
            found = re.findall(f"<{kind}>(.*?)</{kind}>", self.page.text, re.DOTALL)
            self.assertEqual(len(found), 1, kind)
            digests[kind] = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
        self.assertEqual(policy, f"default-src 'none'; style-src 'sha256-{digests['style']}'; "
                                 f"script-src 'sha256-{digests['script']}'; connect-src 'self'; base-uri 'none'; "
                                 "form-action 'none'; frame-ancestors 'none'")
        self.assertNotRegex(self.page.text, r"style=|onclick|javascript:|src=\"|url\(|@import|http-equiv")
        self.assertEqual(self.page.header("X-Content-Type-Options"), "nosniff")
        self.assertEqual(self.page.header("Cache-Control"), "no-store")

    def test_every_link_leads_to_something(self):
        links = re.findall(r'href="([^"]+)"', self.page.text)
        self.assertLessEqual({"/metrics", "/-/healthy", "/-/ready", "/?format=json"}, set(links))
        self.assertIn("/runbooks/HandoffCircuitOpen", links)
        for link in links:
            if link.startswith("#"):
                self.assertIn(f'id="{link[1:]}"', self.page.text)
            else:
                http = self.daemon.api if link.startswith(f"{self.daemon.api.url}/review") else self.daemon.web
                self.assertEqual(http.get(link.removeprefix(http.url).partition("#")[0]).status, 200, link)

    def test_other_forms_and_methods(self):
        self.assertEqual(self.daemon.web.get("/?format=json").header("Content-Type"), "application/json")
        self.assertEqual(self.daemon.web.get("/?format=html").status, 200)
        self.assertEqual(self.daemon.web.get("/?format=xml").status, 400)
        head = self.daemon.web.head("/")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertEqual(self.daemon.web.post("/").status, 405)


@unittest.skipUnless(AXE.exists(), "scripts/npm-install --tests has not run")
class InChromium(unittest.TestCase):
    """The page with trouble and the page without, wide and narrow, light and dark."""

    @classmethod
    def setUpClass(cls):
        Troubled.setUpClass.__func__(cls)
        cls.calm = daemon_with({"coder": {}})
        cls._enter(cls.calm)
        cls.browser = Browser()
        cls._enter(cls.browser)

    _enter = classmethod(Troubled._enter.__func__)

    def views(self):
        for name, daemon in ("troubled", self.daemon), ("calm", self.calm):
            for width in 320, 1280:
                for dark in False, True:
                    with self.subTest(page=name, width=width, dark=dark):
                        yield self.browser.open(daemon.web.url + "/", width=width, dark=dark)

    def test_it_is_complete_under_its_own_policy(self):
        for page in self.views():
            self.assertEqual([text for text in page.complaints if "favicon" not in text], [])
            self.assertEqual([url for url in page.requests if not url.endswith(("/", "/favicon.ico"))], [])
            # the style is in force, and it is the one for this scheme
            self.assertEqual(page.evaluate("getComputedStyle(document.querySelector('.verdict')).borderTopLeftRadius"),
                             "12px")

    def test_hostile_text_does_nothing(self):
        page = self.browser.open(self.daemon.web.url + "/")
        self.assertEqual(page.evaluate("document.title"), "Failing - handoff-exporter")
        self.assertEqual(page.evaluate("document.querySelectorAll('script,img,iframe,object').length"), 1)
        self.assertTrue(page.evaluate("document.body.innerText").count("<script>"))
        # in the finding and in the failure it is kept to itself: what turns the direction ends where the reason ends
        self.assertEqual(page.evaluate(
            "[...document.querySelectorAll('bdi')].filter(b => b.textContent.includes('\\u202e')).length"), 2)

    def test_it_refreshes_itself_and_says_when_it_cannot(self):
        with daemon_with({"coder": {}}) as daemon:
            page = self.browser.open(daemon.web.url + "/", before=FASTER)
            self.assertEqual(page.evaluate("document.title"), "Healthy - handoff-exporter")
            page.evaluate("window.stillHere = 1")  # a reload would forget it
            daemon.write_config("agents: {coder: {retires: 3}}")
            self.assertEqual(daemon.reload().status, 500)
            eventually(lambda: page.evaluate("document.title").startswith("Needs attention"), "it shows what is new")
            self.assertIn("The last reload was rejected", page.evaluate("document.querySelector('main').innerText"))
        eventually(lambda: page.evaluate("document.querySelector('h1').innerText") == "The sidecar does not answer",
                   "an old page does not look like a new one")
        self.assertEqual(page.evaluate("window.stillHere"), 1)

    def test_nothing_sticks_out_to_the_side(self):
        for page in self.views():
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"),
                                 page.evaluate("innerWidth"))

    def test_axe_finds_nothing(self):
        axe = AXE.read_text(encoding="utf-8")
        for page in self.views():
            page.evaluate(axe + ";0")
            found = json.loads(page.evaluate(
                "axe.run().then(r => JSON.stringify({violations: r.violations.map("
                "v => [v.id, v.help, v.nodes.map(n => n.html + ' ' + n.failureSummary)]),"
                " passed: r.passes.map(p => p.id)}))"))
            self.assertEqual(found["violations"], [])
            self.assertIn("color-contrast", found["passed"])

    def test_axe_can_find_something(self):
        page = self.browser.open(self.calm.web.url + "/")
        page.evaluate("document.querySelector('h1').style.color = '#eee'")
        page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
        self.assertIn("color-contrast", page.evaluate("axe.run().then(r => r.violations.map(v => v.id))"))

    def test_a_narrow_table_is_still_a_table_to_those_who_cannot_see_it(self):
        page = self.browser.open(self.daemon.web.url + "/", width=320)
        tree = page.call("Accessibility.getFullAXTree")["nodes"]
        roles = [node["role"]["value"] for node in tree if not node["ignored"]]
        self.assertEqual((roles.count("table"), roles.count("rowheader"), roles.count("columnheader")), (1, 4, 8))


class Calm(unittest.TestCase):
    def test_all_is_well(self):
        with daemon_with({"coder": {}, "reviewer": {}}) as daemon:
            status = daemon.web.get("/?format=json").json()
            self.assertTrue(status["tokens_exact"], "the tests have a vocabulary")
            self.assertEqual((status["standing"], status["findings"], status["failures"]), ("ok", [], []))
            seen = text_of(daemon.web.get("/").text)
            self.assertIn("Healthy", seen)
            self.assertIn("Looking since " + status["started_at"][:10], seen)
            self.assertIn("None since start.", seen)

    def test_completeness_and_latency_of_the_last_hour(self):
        def slowly(request):
            time.sleep(0.3)
            ack(request)

        with Receiver(slowly) as coder, daemon_with({"coder": {"url": coder.url, "timeout": "7s"}, "reviewer": {}}) as daemon:
            caller = Caller(daemon)
            caller.call("PUT", "/v1/memories/stored", {"content": "x"})
            for i in range(4):
                self.assertEqual(caller.send(task_id=f"task-{i}", memory_ids=["stored", "never-stored"]).status, 200)
            status = daemon.web.get("/?format=json").json()
            busy, idle = status["agents"]
            self.assertEqual((status["completeness_last_hour"], busy["completeness_last_hour"]), (0.5, 0.5))
            self.assertGreaterEqual(busy["latency_p50_seconds"], 0.25)  # the bounds of the buckets around it
            self.assertGreaterEqual(busy["latency_p99_seconds"], busy["latency_p50_seconds"])
            self.assertEqual([idle[name] for name in ("completeness_last_hour", "latency_p50_seconds", "latency_p99_seconds")],
                             [None] * 3)
            seen = text_of(daemon.web.get("/").text)
            self.assertIn("50 % of 8 memories", seen)
            # on a busy machine it can be more than a second
            self.assertRegex(seen, r" (\d{3} ms|\d\.\d s) p99 (\d{3} ms|\d\.\d s) of 7\.0 s")

    def test_latencies_of_milliseconds_are_not_shown_as_zero(self):
        with Receiver(ack) as coder, daemon_with({"coder": {"url": coder.url, "timeout": "7s"}}) as daemon:
            Caller(daemon).send()
            seen = text_of(daemon.web.get("/").text)
            self.assertRegex(seen, r"[1-9][\d.]* (ms|s) p99 [\d.]+ (ms|s) of 7\.0 s|0\.[1-9] ms p99 [\d.]+ (ms|s) of 7\.0 s")

    def test_without_agents_it_says_how_to_get_some(self):
        with Daemon() as daemon:
            self.assertIn("No agents are configured", text_of(daemon.web.get("/").text))

    def test_a_refused_reload_is_told_until_one_is_good(self):
        with Daemon(config=config({"coder": {}})) as daemon:
            good = daemon.config_path.read_text(encoding="utf-8")
            daemon.write_config("agents: {coder: {retires: 3}}")
            self.assertEqual(daemon.reload().status, 500)
            status = daemon.web.get("/?format=json").json()
            self.assertFalse(status["configuration"]["last_reload_successful"])
            self.assertEqual(status["standing"], "attention")
            self.assertIn("The last reload was rejected", text_of(daemon.web.get("/").text))
            daemon.write_config(good)
            self.assertEqual(daemon.reload().status, 200)
            self.assertEqual(daemon.web.get("/?format=json").json()["standing"], "ok")

    def test_an_agent_that_left_is_shown_while_it_has_handoffs(self):
        with daemon_with({"coder": {}, "reviewer": {}}) as daemon:
            caller = Caller(daemon)
            handoff = caller.send_async("coder")
            daemon.write_config(config({"reviewer": {}}))
            self.assertEqual(daemon.reload().status, 200)
            self.assertIn("no longer configured", text_of(daemon.web.get("/").text))
            self.assertEqual(caller.call("POST", f"/v1/handoffs/{handoff}/ack").status, 200)
            eventually(lambda: [agent["name"] for agent in daemon.web.get("/?format=json").json()["agents"]]
                       == ["reviewer"], "it is gone with its last handoff")

    def test_agents_beyond_those_that_are_named_do_not_look_worse_than_they_are(self):
        with Receiver(status(503)) as down:
            agents = {f"agent-{i}": {"url": down.url, "retries": 0} for i in range(6)}
            with daemon_with(agents) as daemon:
                for name in agents:
                    Caller(daemon).send(name)
                found = daemon.web.get("/?format=json").json()
                self.assertEqual(found["standing"], "attention", found["findings"])
                self.assertIn("HandoffFailed: the same for 1 more agent, see below.",
                              [finding["text"] for finding in found["findings"]])

    def test_many_open_circuits_are_counted_apart_from_failures(self):
        with Receiver(status(503)) as down:
            agents = {f"agent-{i}": {"url": down.url, "retries": 0,
                                     "breaker": {"failures": 1 if i < 7 else 1000, "cooldown": "1h"}}
                      for i in range(9)}
            with daemon_with(agents) as daemon:
                for name in agents:
                    Caller(daemon).send(name)
                texts = [(finding["standing"], finding["text"])
                         for finding in daemon.web.get("/?format=json").json()["findings"]]
                self.assertIn("open after 1 consecutive failure;", texts[0][1])
                self.assertIn(("trouble", "HandoffCircuitOpen: the same for 2 more agents, see below."), texts)
                self.assertIn(("attention", "HandoffFailed: the same for 4 more agents, see below."), texts)

    def test_what_it_says_to_type_works_as_printed(self):
        with Receiver(status(503), status(503), ack) as down:
            with daemon_with({"coder": {"url": down.url, "retries": 1}, "reviewer": {}}) as daemon:
                Caller(daemon).send("coder")
                page = daemon.web.get("/").text
                commands = [html.unescape(command) for command in re.findall("<code>(handoffctl [^<]*)</code>", page)]
                self.assertEqual(len(commands), 5, commands)
                for command in commands:
                    done = subprocess.run([os.environ["HANDOFFCTL"], *shlex.split(command)[1:]], text=True, check=False,
                                          capture_output=True, env={**os.environ, "HANDOFF_API_URL": daemon.api.url})
                    self.assertEqual(done.returncode, 0, (command, done.stdout, done.stderr))
                eventually(lambda: daemon.web.get("/?format=json").json()["parked"] == 0, "it was sent again")

    def test_it_links_to_the_dashboards_that_the_configuration_names(self):
        with daemon_with({"coder": {}}, metrics={"dashboard_url": "https://grafana.example/sub/"}) as daemon:
            links = re.findall(r'href="(https:[^"]+)"', daemon.web.get("/").text)
            self.assertEqual(links, ["https://grafana.example/sub/d/handoff-overview",
                                     "https://grafana.example/sub/d/handoff-agent?var-target_agent=coder"])
            dashboards = [json.loads(path.read_text(encoding="utf-8"))["uid"] for path in (TOP / "dashboards/json").glob("*.json")]
            self.assertLessEqual({"handoff-overview", "handoff-agent"}, set(dashboards))
            daemon.write_config(config({"coder": {}}))
            self.assertEqual(daemon.reload().status, 200)
            self.assertNotIn("grafana", daemon.web.get("/").text)

    def test_it_leads_to_a_handoff_and_its_task_on_the_review_page(self):
        with Receiver(status(503)) as down, daemon_with({"coder": {"url": down.url, "retries": 0}}) as daemon:
            parked = Caller(daemon).send("coder").json()["handoff"]["id"]
            page = daemon.web.get("/").text
            [handoff, task] = re.findall(rf'href="([^"]+/review/handoffs/{parked}[^"]*)"', page)
            review = daemon.web.get("/?format=json").json()["review_url"]
            self.assertEqual((handoff, task), (f"{review}/handoffs/{parked}", f"{review}/handoffs/{parked}#task"))
            self.assertEqual(review, f"{daemon.api.url}/review")
            self.assertEqual(page.count(f'href="{review}"'), 2)    # in the head, and where parked work is named
            shown = daemon.api.get(urllib.parse.urlsplit(handoff).path)
            self.assertEqual(shown.status, 200)
            self.assertIn(parked, shown.text)
            self.assertIn('<h2 id="task">Task</h2>', shown.text)

    def test_it_links_to_no_page_that_its_reader_cannot_reach(self):
        with Receiver(status(503)) as down, daemon_with({"coder": {"url": down.url, "retries": 0}}) as daemon:
            Caller(daemon).send("coder")
            elsewhere = {"host": "sidecar.example:9780"}
            self.assertNotIn("/review", daemon.web.get("/", **elsewhere).text)
            self.assertIsNone(daemon.web.get("/?format=json", **elsewhere).json()["review_url"])
            daemon.write_config(config({"coder": {"url": down.url}}, api={"url": "https://agents.example/"}))
            self.assertEqual(daemon.reload().status, 200)
            self.assertIn('href="https://agents.example/review/handoffs/', daemon.web.get("/", **elsewhere).text)

    def test_without_a_vocabulary_it_says_that_tokens_are_estimated(self):
        with tempfile.TemporaryDirectory() as empty, \
                daemon_with({"coder": {}}, env={"HANDOFF_VOCABULARY_DIR": empty}) as daemon:
            found = daemon.web.get("/?format=json").json()["findings"]
            self.assertEqual([(finding["alert"], finding["severity"]) for finding in found], [("HandoffTokensEstimated", "info")])
            self.assertIn("Tokens are estimated", text_of(daemon.web.get("/").text))
            self.assertIn("\nhandoff_tokenizer_exact 0\n", daemon.web.get("/metrics").text)
            [said] = daemon.events("token_counts_estimated")
            self.assertEqual((said["level"], said["encoding"]), ("warn", "estimate"))
            self.assertIn(f"{empty}/o200k_base.vocabulary", said["error"])

    def test_in_a_build_tree_the_vocabulary_is_found_beside_the_program(self):
        daemon = Daemon(config=config({"coder": {}}), start=False)
        del daemon.env["HANDOFF_VOCABULARY_DIR"]
        with daemon:
            daemon.start()
            self.assertTrue(daemon.web.get("/?format=json").json()["tokens_exact"])
            self.assertIn("\nhandoff_tokenizer_exact 1\n", daemon.web.get("/metrics").text)
            self.assertEqual([said["encoding"] for said in daemon.events("token_counts_exact")], ["o200k_base"])

    def test_hundreds_of_agents(self):
        with daemon_with({f"agent-{i:03}": {} for i in range(300)}) as daemon:
            self.assertEqual(daemon.web.get("/").text.count('role="rowheader"'), 300)


class WhileTheDiskIsSlow(unittest.TestCase):
    def test_only_the_page_waits(self):
        """A reload that waits for its file holds the control loop, which makes the page; scrapes and
        probes are the web loop's and continue."""
        with Daemon(config=config({"coder": {}})) as daemon, concurrent.futures.ThreadPoolExecutor(2) as pool:
            text = daemon.config_path.read_text(encoding="utf-8")
            daemon.config_path.unlink()
            os.mkfifo(daemon.config_path)
            reload = pool.submit(daemon.reload)
            pipe = eventually(lambda: self.open_for_writing(daemon.config_path), "the daemon opens its file")
            page = pool.submit(daemon.web.get, "/")
            for path in "/-/healthy", "/-/ready", "/metrics":
                self.assertEqual(daemon.web.get(path).status, 200, path)
            self.assertFalse(page.done())
            os.set_blocking(pipe, True)
            os.write(pipe, text.encode())
            os.close(pipe)
            self.assertEqual(reload.result().status, 200)
            self.assertEqual(page.result().status, 200)

    @staticmethod
    def open_for_writing(path):
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # it is not read yet
            return None


if __name__ == "__main__":
    unittest.main()
