# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium without a window, driven over its own protocol.

    with Browser() as browser:
        page = browser.open(daemon.web.url + "/", width=360)
        page.evaluate("document.title")

The protocol goes through two pipes (--remote-debugging-pipe), one JSON document after another with a
zero byte behind each, so that no port, no WebSocket and no library is needed.
"""

import base64
import fcntl
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading

from .wait import TIMEOUT

# root may not have Chromium's own sandbox; what it opens here are our own pages
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--disable-extensions", "--disable-default-apps", "--hide-scrollbars", "--mute-audio",
           "--remote-debugging-pipe"]
START_TIMEOUT = 60


def find():
    """The program, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One browser; pages of it do not share anything but the process."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="handoff-chromium-")
        to_browser, self.writing = os.pipe()
        self.reading, from_browser = os.pipe()
        # 3 and 4 are what Chromium reads and writes; ours may have these numbers, so move them first
        there = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (to_browser, from_browser)]
        os.close(to_browser)
        os.close(from_browser)

        def place():
            os.dup2(there[0], 3)
            os.dup2(there[1], 4)
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [find(), *OPTIONS, f"--user-data-dir={self.folder}/profile", "about:blank"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(3, 4), preexec_fn=place,
                env={**os.environ, "HOME": self.folder}, start_new_session=True)
        for fd in there:
            os.close(fd)
        self.number = 0
        self.answers = {}
        self.listeners = {}
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        with os.fdopen(self.reading, "rb") as stream:
            rest = b""
            while True:
                more = stream.read1(1 << 16)
                if not more:
                    break
                *messages, rest = (rest + more).split(b"\0")
                for message in messages:
                    self._take(json.loads(message))
        for answer in list(self.answers.values()):
            answer.put({"error": {"message": "the browser ended"}})

    def _take(self, message):
        if "id" in message:
            self.answers.pop(message["id"]).put(message)
        else:
            page = self.listeners.get(message.get("sessionId"))
            if page:
                page.told(message["method"], message["params"])

    def call(self, method, session=None, timeout=TIMEOUT, **parameters):
        """One command of the protocol; its result."""
        answer = queue.Queue()
        with self.lock:
            self.number += 1
            command = {"id": self.number, "method": method, "params": parameters}
            if session:
                command["sessionId"] = session
            self.answers[self.number] = answer
            os.write(self.writing, json.dumps(command).encode() + b"\0")
        message = answer.get(timeout=timeout)
        if "error" in message:
            raise AssertionError(f"{method}: {message['error']['message']}\n{self.log()}")
        return message["result"]

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]

    def open(self, url, **view):
        """A page that has loaded; see Page for the view."""
        return Page(self, url, **view)

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(TIMEOUT)
        except (AssertionError, OSError, queue.Empty, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.writing)
        self.reader.join(TIMEOUT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Page:
    """One page, as wide as is asked for, light or dark. `complaints` are what its console was told:
    errors, and what the policy of its server refused. `before`: a script that runs before those of the page."""

    def __init__(self, browser, url, width=1024, height=800, dark=False, scripts=True, before=None):
        self.browser = browser
        self.complaints = []
        self.requests = []
        self.loaded = threading.Event()
        target = browser.call("Target.createTarget", timeout=START_TIMEOUT, url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.listeners[self.session] = self
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        if before:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=before)
        self.go(url)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def told(self, method, parameters):
        if method == "Page.loadEventFired":
            self.loaded.set()
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"] + " " + parameters["entry"].get("url", ""))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))

    def go(self, url):
        self.loaded.clear()
        done = self.call("Page.navigate", url=url)
        assert "errorText" not in done, f"{url}: {done}"
        assert self.loaded.wait(TIMEOUT), f"{url} did not load"

    def evaluate(self, expression):
        """The value of an expression, or of what it promises."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def picture(self, path):
        """The whole page as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={**size, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
