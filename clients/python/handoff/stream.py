# SPDX-License-Identifier: Apache-2.0
"""Handoffs of an inbox as a stream of events: one connection for all that are worked on at the same time.

The sidecar leases no more handoffs to the stream than the agent works on at once. A connection that breaks is opened again
with the id of the last event that was read, so that the sidecar knows which handoffs arrived.
"""

import concurrent.futures
import json
import threading
from typing import TYPE_CHECKING, Callable, Optional

from .client import MemorySpine
from .errors import HandoffError, UnreachableError, error_of
from .events import Event, events
from .flows import Retry, retry_after
from .inbox import receive_forever
from .received import Received
from .transport import Following

if TYPE_CHECKING:
    from .receive import Worker

LEASES_MAX = 32  # that a stream may hold
SILENCE_SECONDS = 60.0  # there is a comment every 15 s
LEAVE_SECONDS = 5.0  # for what is on its way when the agent stops


class Stream:
    def __init__(self, worker: "Worker", spine: MemorySpine, fail: Callable[[BaseException], None]) -> None:
        self.worker = worker
        self.spine = spine
        self.ended = threading.Event()
        self.connection = spine.copy(retry=Retry(seconds=0))
        self.last: Optional[str] = None
        self.lock = threading.Lock()
        self.following: Optional[Following] = None  # under the lock
        agent = worker.agent
        # after a restart of the sidecar, handoffs arrive beside those that are still worked on: so many wait
        self.room = threading.Semaphore(2 * agent.concurrency)
        self.pool = concurrent.futures.ThreadPoolExecutor(agent.concurrency, f"handoff-{agent.name}")
        self.thread = threading.Thread(target=receive_forever, args=(self._follow, self.ended, agent.name, fail),
                                       name=f"handoff-{agent.name}-stream", daemon=True)
        self.thread.start()

    def leave(self) -> None:
        self.ended.set()
        with self.lock:
            if self.following is not None:
                self.following.leave()

    def stop(self) -> None:
        self.thread.join(LEAVE_SECONDS)
        self.connection.close()
        self.thread.join()
        self.pool.shutdown(wait=True)

    def _follow(self) -> None:
        """One connection, from its opening to its end. Raises if it brought nothing."""
        agent = self.worker.agent
        request = self.connection._calls.follow(agent.name, agent.concurrency, self.last, SILENCE_SECONDS)
        alive = False
        try:
            with self.connection._transport.follow(request) as following:
                _check(following)
                with self.lock:
                    self.following = following
                    if self.ended.is_set():
                        following.leave()
                for event in events(following.lines()):
                    alive = self._take(event) or alive
        except UnreachableError:
            if not alive:
                raise
        finally:
            with self.lock:
                self.following = None
        if not alive and not self.ended.is_set():
            raise UnreachableError("the stream ended", code="unreachable")

    def _take(self, event: Optional[Event]) -> bool:
        """False for the opening, which brings an id alone."""
        if event is None or not event.data:
            self.last = event.id if event and event.id else self.last
            return event is None
        data = json.loads(event.data)
        handoff = Received.of_event(self.worker.agent.name, self.spine, data["headers"], data["body"])
        handoff.answers_by_api = True
        if self.worker.begin(handoff):  # from here on its lease is extended
            self.room.acquire()
            self.pool.submit(self._work, handoff)
        self.last = event.id or self.last
        return True

    def _work(self, handoff: Received) -> None:
        try:
            self.worker.work(handoff)
        finally:
            self.room.release()


def _check(following: Following) -> None:
    response = following.response
    if response.status >= 400:
        raise error_of(response.status, response.body, retry_after(response))
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        raise HandoffError("this sidecar has no streams; use receive='inbox'", code="not_a_stream", status=response.status)
