# SPDX-License-Identifier: Apache-2.0
"""The picture of the status page in README.md: the agents of the demo, of which one fails.

    PYTHONPATH=tests/scenario HANDOFF_EXPORTER=... /usr/bin/python3 tests/scenario/status_picture.py docs/pictures/status-page.png
"""

import sys

from harness import Receiver
from harness.agents import Caller, daemon_with
from harness.browser import Browser
from harness.receiver import ack, status

AGENTS = ("researcher", "analyst", "code-generator", "test-writer", "reviewer")
FAILING = "code-generator"


def hand_on(caller, task):
    """The whole pipeline, each agent with the three memories that its predecessor names."""
    for source, target in zip(("orchestrator", *AGENTS), AGENTS):
        caller.send(target, source_agent=source, task_id=task, memory_ids=["ms-1", "ms-2", "ms-3"], new_chain=True)


def main(path):
    with Receiver(ack) as well, Receiver(ack) as failing:
        agents = {name: {"url": (failing if name == FAILING else well).url} for name in AGENTS}
        with daemon_with(agents, defaults={"retries": 1, "breaker": {"failures": 3, "cooldown": "1h"},
                                           "backoff": {"base": "1ms", "max": "1ms"}}) as daemon, Browser() as browser:
            caller = Caller(daemon)
            for number in range(1, 4):
                caller.call("PUT", f"/v1/memories/ms-{number}", {"content": f"What {number} says of the payment gateway."})
            for number in range(1, 9):
                hand_on(caller, f"task-{number}")
            failing.do(status(503))
            for number in range(9, 14):
                hand_on(caller, f"task-{number}")
            browser.open(daemon.web.url + "/").picture(path)


if __name__ == "__main__":
    main(sys.argv[1])
