# SPDX-License-Identifier: Apache-2.0
"""The review page in a real Chromium: keyboard alone, phone width, dark, without scripts, judged by axe-core."""

import contextlib
import json
import os
import pathlib
import tempfile
import unittest

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.browser import Browser
from harness.receiver import ack, nack
from harness.wait import eventually

AXE = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "tests/browser/node_modules/axe-core/axe.min.js"
TOKEN = "operator-0123456789abcdef"
HOSTILE = '<script>document.title="taken"</script><img src=x onerror=alert(1)>"\' \u202eturned'


@unittest.skipUnless(AXE.exists(), "scripts/npm-install --tests has not run")
class InChromium(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.broken = self.stack.enter_context(Receiver(nack(HOSTILE, False)))
        self.spare = self.stack.enter_context(Receiver(ack))
        self.browser = self.stack.enter_context(Browser())

    def start(self, tokens=False):
        more = {}
        if tokens:
            self.tokens = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory())) / "tokens"
            self.write_token(TOKEN)
            more["api"] = {"tokens_file": str(self.tokens)}
        agents = {"broken": {"url": self.broken.url}, "spare": {"url": self.spare.url}}
        self.daemon = self.stack.enter_context(daemon_with(agents, channels={"news": {"receivers": ["broken", "spare"]}}, **more))
        self.caller = Caller(self.daemon)
        self.headers = {"authorization": f"Bearer {TOKEN}"} if tokens else {}

    def write_token(self, token):
        self.tokens.write_text(f"@operator {token}\n", encoding="utf-8")
        self.tokens.chmod(0o600)

    def refused(self, **fields):
        reply = self.caller.send("broken", self.headers, **fields)
        return reply.json()["handoff"]["id"]

    def state(self, handoff):
        return self.caller.call("GET", f"/v1/handoffs/{handoff}", **self.headers).json()["state"]

    def open(self, path="/review", **view):
        return self.browser.open(self.daemon.api.url + path, **view)

    def press(self, page, key, text=None):
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        for kind in "keyDown", "keyUp":
            parameters = {"key": key, "code": {" ": "Space"}.get(key, key), "windowsVirtualKeyCode": codes[key]}
            if kind == "keyDown" and key != "Tab":
                parameters["text"] = "\r" if key == "Enter" else key
            page.call("Input.dispatchKeyEvent", type=kind, **parameters)

    def tab_to(self, page, condition):
        """Presses Tab until the element in focus fulfils a condition in JavaScript, in which it is `e`."""
        for _ in range(80):
            self.press(page, "Tab")
            if page.evaluate(f"(e => Boolean({condition}))(document.activeElement)"):
                return
        self.fail(f"Tab never reached {condition}: {page.evaluate('document.body.innerText')}")

    def type(self, page, text):
        page.call("Input.insertText", text=text)

    def enter(self, page):
        """Presses Enter, and waits for the page that it leads to."""
        page.loaded.clear()
        self.press(page, "Enter")
        self.assertTrue(page.loaded.wait(30), "Enter led nowhere")

    def where(self, page):
        return page.evaluate("location.pathname")

    def text(self, page):
        return page.evaluate("document.body.innerText")

    def decide_by_keyboard(self, **view):
        self.start(tokens=True)
        handoff = self.refused(task_summary="Pay the invoice")
        page = self.open(**view)
        self.assertEqual(self.where(page), "/review/sign-in")
        self.tab_to(page, "e.name === 'token'")
        self.type(page, TOKEN)
        self.tab_to(page, "e.name === 'person'")
        self.type(page, "alice")
        self.enter(page)
        self.assertEqual(self.where(page), "/review")
        self.tab_to(page, "e.tagName === 'A' && e.innerText.includes('Pay the invoice')")
        self.enter(page)
        self.tab_to(page, "e.id === 'discard-reason'")
        self.type(page, "nobody wants it")
        self.enter(page)
        self.assertEqual(self.where(page), f"/review/handoffs/{handoff}")
        self.assertEqual(self.state(handoff), "discarded")
        self.assertIn("discard by alice (@operator)", self.text(page))
        return page

    def test_keyboard_alone(self):
        page = self.decide_by_keyboard()
        self.assertEqual([text for text in page.complaints if "favicon" not in text], [])

    def test_without_scripts_on_a_phone(self):
        self.decide_by_keyboard(scripts=False, width=360)

    def views(self):
        handoffs = [self.refused(task_summary=f"{HOSTILE} {number}", task_id=f"t{number}") for number in range(3)]
        self.caller.call("DELETE", f"/v1/parked/{handoffs[0]}?reason=stale")
        job = self.caller.call("POST", "/v1/jobs", {"action": "replay", "to": "spare", "canary": True,
                                                    "reason": HOSTILE}).json()["id"]
        published = self.caller.call("POST", "/v1/channels/news/publish", {"request": {
            "source_agent": "analyst", "task_id": HOSTILE, "task_summary": HOSTILE}}).json()["id"]
        return ["/review", "/review/causes", "/review/expired", "/review/jobs", "/review/decisions",
                "/review/channels", f"/review/channels/news?publication={published}",
                f"/review/jobs/{job}", f"/review/handoffs/{handoffs[2]}", f"/review/handoffs/{handoffs[2]}/edit",
                "/review/handoffs/x", "/review?query=nothing-has-this"]

    def test_axe_finds_nothing_and_nothing_sticks_out_or_runs(self):
        self.start()
        axe = AXE.read_text(encoding="utf-8")
        for path in self.views():
            for width, dark in ((360, False), (1280, True)):
                with self.subTest(path=path, width=width, dark=dark):
                    page = self.open(path, width=width, dark=dark)
                    self.assertTrue(page.evaluate("document.title").endswith("review - handoff-exporter"))
                    self.assertEqual(page.evaluate("document.querySelectorAll('img,iframe,object').length"), 0)
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), page.evaluate("innerWidth"))
                    self.assertEqual(page.evaluate("getComputedStyle(document.documentElement).colorScheme"), "light dark")
                    page.call("Page.setBypassCSP", enabled=True)
                    page.evaluate(axe + ";0")
                    found = json.loads(page.evaluate(
                        "axe.run().then(r => JSON.stringify({violations: r.violations.map("
                        "v => [v.id, v.help, v.nodes.map(n => n.html + ' ' + n.failureSummary)]),"
                        " passed: r.passes.map(p => p.id)}))"))
                    self.assertEqual(found["violations"], [])
                    self.assertIn("color-contrast", found["passed"])
                    complaints = [text for text in page.complaints if "favicon" not in text and "404" not in text]
                    self.assertEqual(complaints, [])

    def test_two_browsers_decide_about_the_same_handoff(self):
        self.start()
        handoff = self.refused()
        pages = [self.open(f"/review/handoffs/{handoff}") for _ in range(2)]
        for page, name in zip(pages, ("ann", "bob")):
            page.loaded.clear()
            page.evaluate(f"document.getElementById('discard-reason').value = '{name} says so';"
                          f"document.getElementById('discard-by').value = '{name}';"
                          "document.getElementById('discard-reason').form.requestSubmit()")
        for page in pages:
            self.assertTrue(page.loaded.wait(30))
        winner = self.caller.call("GET", f"/v1/decisions?handoff={handoff}").json()["items"]
        self.assertEqual(len(winner), 1)
        for page in pages:
            self.assertIn(f"discard by {winner[0]['by']}" if "/discard" not in self.where(page)
                          else f"({winner[0]['by']})", self.text(page))
        self.assertEqual(sum("/discard" in self.where(page) for page in pages), 1, "the other is told")

    def test_a_forged_form_of_another_site_does_nothing(self):
        self.start(tokens=True)
        handoff = self.refused()
        page = self.open()
        page.loaded.clear()
        page.evaluate(f"document.getElementById('token').value = '{TOKEN}'; document.forms[0].requestSubmit()")
        self.assertTrue(page.loaded.wait(30))
        self.assertEqual(self.where(page), "/review")
        with Receiver(ack) as other:  # another port is another origin of the same site
            form = (f"<form method=post action='{self.daemon.api.url}/review/handoffs/{handoff}/discard'>"
                    "<input name=reason value=x></form>")
            page.go(other.url.rsplit("/", 1)[0] + "/")
            page.loaded.clear()
            page.evaluate(f"document.body.innerHTML = {json.dumps(form)}; document.forms[0].submit()")
            self.assertTrue(page.loaded.wait(30))
            self.assertIn("cross-origin requests are rejected", self.text(page))
        self.assertEqual(self.state(handoff), "parked")

    def test_the_session_ends_with_its_token(self):
        self.start(tokens=True)
        page = self.open()
        page.loaded.clear()
        page.evaluate(f"document.getElementById('token').value = '{TOKEN}'; document.forms[0].requestSubmit()")
        self.assertTrue(page.loaded.wait(30))
        self.assertEqual(page.evaluate("document.cookie"), "", "no script sees the cookie")
        self.write_token("another-0123456789abcdef")
        self.assertEqual(self.daemon.reload().status, 200)
        page.go(self.daemon.api.url + "/review")
        self.assertEqual(self.where(page), "/review/sign-in")

    def test_progress_moves_by_itself(self):
        self.start()
        for _ in range(30):
            self.refused()
        job = self.caller.call("POST", "/v1/jobs", {"action": "replay", "to": "spare", "rate": 10}).json()["id"]
        page = self.open(f"/review/jobs/{job}")
        page.evaluate("document.title = 'the same document'")
        eventually(lambda: "State: done" in self.text(page), "it refreshes until the end")
        self.assertIn("30 of 30 done", self.text(page))
        self.assertNotIn("\nopen ", self.text(page))
        self.assertEqual(page.evaluate("document.title"), "the same document")
        asked = page.evaluate("performance.getEntriesByType('resource').map(entry => new URL(entry.name).pathname).join()").split(",")
        self.assertIn(f"/review/jobs/{job}/events", asked)


if __name__ == "__main__":
    unittest.main()
