# SPDX-License-Identifier: Apache-2.0
"""The picture of the review page in README.md: one of the demo's agents refuses what it gets, and its group is open.

    PYTHONPATH=tests/scenario HANDOFF_EXPORTER=... /usr/bin/python3 tests/scenario/review_picture.py docs/pictures/review-page.png
"""

import sys

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.browser import Browser
from harness.receiver import ack, nack

WORK = ("Write the retry logic for the payment gateway", "Add idempotency keys to the refund endpoint",
        "Replace the deprecated token exchange", "Cover the rate limiter with tests")


def main(path):
    with Receiver(nack("schema version 7 is not supported", False)) as failing, Receiver(ack) as well:
        agents = {"code-generator": {"url": failing.url}, "code-generator-v1": {"url": well.url}, "reviewer": {"url": well.url}}
        with daemon_with(agents) as daemon, Browser() as browser:
            caller = Caller(daemon)
            for number, summary in enumerate(WORK, 1):
                caller.send("code-generator", source_agent="analyst", task_id=f"payments-{number}", task_summary=summary)
            browser.open(daemon.api.url + "/review", height=600).picture(path)


if __name__ == "__main__":
    main(sys.argv[1])
