# SPDX-License-Identifier: Apache-2.0
"""Handoffs of an inbox, by long polls: one thread for each handoff that is worked on at the same time."""

import logging
import random
import threading
from typing import TYPE_CHECKING, Callable, List

from .client import MemorySpine
from .errors import HandoffError
from .flows import Retry, is_passing
from .received import Received

if TYPE_CHECKING:
    from .receive import Worker

log = logging.getLogger("handoff")

POLL_SECONDS = 20
BACKOFF_SECONDS = 5.0


class Inbox:
    def __init__(self, worker: "Worker", spine: MemorySpine, fail: Callable[[BaseException], None]) -> None:
        self.worker = worker
        self.spine = spine
        self.ended = threading.Event()
        # polls have their own connections: stop() cuts them off, and the handoff of a poll that was cut off stays there
        self.polls = spine.copy(retry=Retry(seconds=0))
        self.threads: List[threading.Thread] = []
        for number in range(worker.agent.concurrency):
            thread = threading.Thread(target=receive_forever, args=(self._poll, self.ended, worker.agent.name, fail),
                                      name=f"handoff-{worker.agent.name}-{number}", daemon=True)
            self.threads.append(thread)
            thread.start()

    def leave(self) -> None:
        self.ended.set()
        self.polls.close()

    def stop(self) -> None:
        for thread in self.threads:
            thread.join()

    def _poll(self) -> None:
        response = self.polls.pull_handoff(self.worker.agent.name, POLL_SECONDS)
        if response is None:
            return
        handoff = Received(self.worker.agent.name, self.spine, response.headers, response.body)
        handoff.answers_by_api = True
        self.worker.work(handoff)


def receive_forever(receive: Callable[[], None], ended: threading.Event, agent: str,
                    fail: Callable[[BaseException], None]) -> None:
    """Repeats `receive` until the agent is stopped, with growing random waits while it fails for a passing reason."""
    failures = 0
    while not ended.is_set():
        try:
            receive()
            failures = 0
        except BaseException as error:
            if ended.is_set():
                return
            if not isinstance(error, HandoffError) or not is_passing(error):
                log.error("%s receives no more: %s", agent, error)
                fail(error)  # it would not get better by itself: a wrong token, an unknown agent
                return
            failures += 1
            _pause(error, failures, ended, agent)


def _pause(error: HandoffError, failures: int, ended: threading.Event, agent: str) -> None:
    if failures == 1:
        log.warning("the inbox of %s cannot be read now: %s", agent, error)
    wait = random.uniform(0, min(BACKOFF_SECONDS, 0.1 * 2.0 ** min(failures, 10)))
    ended.wait(max(error.retry_after or 0.0, wait))
