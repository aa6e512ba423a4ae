# SPDX-License-Identifier: Apache-2.0
"""The runbooks as the web listener serves them: each page of docs/runbooks, whole, and nothing else."""

import os
import pathlib
import re
import unittest

from harness import Daemon
from test_status_page import text_of

RUNBOOKS = pathlib.Path(os.environ["HANDOFF_SOURCE_DIR"]) / "docs/runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))


def words_of(markdown):
    """What a reader is to see of a page: without the marks of headings, lists, tables, code and links."""
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", markdown)
    text = re.sub(r"^```\w*$|^\|[-|]+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(#+|-|\d+\.) ", "", text, flags=re.MULTILINE)
    return re.sub(r"[\s|`]+", "", text)


class RunbookPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.daemon.__enter__()
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)

    def get(self, path):
        return self.daemon.web.get(path)

    def test_every_runbook_is_served_whole(self):
        for page in PAGES:
            with self.subTest(page.stem):
                answer = self.get(f"/runbooks/{page.stem}")
                self.assertEqual((answer.status, answer.header("Content-Type")), (200, "text/html; charset=utf-8"))
                main = answer.text.split("<main>")[1]
                self.assertEqual(re.sub(r"[\s|`]+", "", text_of(main)), words_of(page.read_text(encoding="utf-8")))

    def test_commands_can_be_copied_from_it_as_they_are(self):
        page = (RUNBOOKS / "HandoffCircuitOpen.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        shown = re.findall(r"<pre><code>(.*?)</code></pre>", self.get("/runbooks/HandoffCircuitOpen").text, re.DOTALL)
        unescaped = [block.replace("&quot;", '"').replace("&#39;", "'").replace("&gt;", ">").replace("&lt;", "<")
                     .replace("&amp;", "&") for block in shown]
        self.assertEqual(unescaped, blocks)

    def test_an_alert_may_link_to_the_file_s_name(self):
        self.assertEqual(self.get("/runbooks/HandoffCircuitOpen.md").body, self.get("/runbooks/HandoffCircuitOpen").body)

    def test_the_list_leads_to_all_of_them(self):
        links = set(re.findall(r'href="(/runbooks/[^"]+)"', self.get("/runbooks").text))
        self.assertEqual(links, {f"/runbooks/{page.stem}" for page in PAGES if page.stem != "README"})

    def test_every_link_of_a_runbook_leads_to_something(self):
        links = {link for page in PAGES for link in re.findall(r'href="([^"]+)"', self.get(f"/runbooks/{page.stem}").text)}
        for link in links:
            self.assertEqual(self.get(link).status, 200, link)

    def test_an_unknown_name_gets_the_nearest(self):
        answer = self.get("/runbooks/HandoffCircuitOpened")
        self.assertEqual((answer.status, answer.json()["code"]), (404, "not_found"))
        self.assertIn("did you mean HandoffCircuitOpen?", answer.json()["detail"])
        for name in "nothing-like-it", "..%2f..%2fetc%2fpasswd", ".md":
            answer = self.get(f"/runbooks/{name}")
            self.assertEqual((answer.status, answer.json()["code"]), (404, "not_found"), name)

    def test_its_policy_is_that_of_the_status_page(self):
        headers = {self.get(path).header("Content-Security-Policy") for path in ("/", "/runbooks/HandoffFailed")}
        self.assertEqual(len(headers), 1)


if __name__ == "__main__":
    unittest.main()
