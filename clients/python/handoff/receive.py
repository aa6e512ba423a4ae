# SPDX-License-Identifier: Apache-2.0
"""The receiving side: a function that is called with each handoff.

    @agent("code-generator")
    def write_code(handoff):
        ...                                     # returning acknowledges
        raise Refused("not my work")            # refuses for good; any other exception: to be tried again

    serve(write_code)

How handoffs arrive is one argument: receive="inbox" polls, receive="stream" follows the inbox over one connection,
receive="http://127.0.0.1:9001" listens there. In each, a duplicate is answered again and not done again, and the time to
answer is extended while the function runs.
"""

import asyncio
import contextlib
import contextvars
import inspect
import logging
import os
import signal
import threading
import types
from typing import Any, Callable, Dict, List, Optional, Type, Union

from . import trace
from .client import MemorySpine
from .errors import HandoffError, Refused
from .inbox import Inbox
from .push import PushServer
from .received import Received, acknowledgement
from .seen import Answer, Seen, SeenFile, default_path
from .stream import LEASES_MAX, Stream

log = logging.getLogger("handoff")

Function = Callable[[Received], Any]
EXTEND_SECONDS = 20.0  # between extensions of a handoff without a lease; ack_timeout is 5 minutes by default
RETAINED = 1000  # bytes of an exception in a reason


class Agent:
    """A function with a name that handoffs are addressed to. Calling it calls the function, as tests do."""

    def __init__(self, name: str, function: Function, receive: str, concurrency: int,
                 seen: Union[None, str, "os.PathLike[str]", Seen], answer_within: float) -> None:
        if receive not in ("inbox", "stream") and not receive.startswith("http://"):
            raise ValueError(f"receive={receive!r}: allowed are 'inbox', 'stream' and http://HOST:PORT")
        if concurrency < 1 or (receive == "stream" and concurrency > LEASES_MAX):
            most = f"1 to {LEASES_MAX} with receive='stream'" if receive == "stream" else "1 or more"
            raise ValueError(f"concurrency={concurrency}: allowed is {most}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"the function of {name} has a yield, so a call would not run it: return instead")
        self.name = name
        self.function = function
        self.receive = receive
        self.concurrency = concurrency
        self.seen = seen
        self.answer_within = answer_within
        self.__doc__ = function.__doc__

    def __call__(self, handoff: Received) -> Any:
        return self.function(handoff)


def agent(name: str, *, receive: str = "inbox", concurrency: int = 1,
          seen: Union[None, str, "os.PathLike[str]", Seen] = None,
          answer_within: float = 5.0) -> Callable[[Function], Agent]:
    """Makes a function an agent.

    receive        "inbox": poll for handoffs. "stream": follow the inbox as events. "http://HOST:PORT": listen there, as
                   the agent's `url` says
    concurrency    how many handoffs it works on at the same time
    seen           where it remembers what it has done: a file, or a store (see Seen)
    answer_within  when pushed to: seconds until it answers "later" and acknowledges over the API; less than the
                   agent's `timeout`
    """
    return lambda function: Agent(name, function, receive, concurrency, seen, answer_within)


_inside: "contextvars.ContextVar[Optional[Worker]]" = contextvars.ContextVar("handoff_worker", default=None)


class Worker:
    """Does what arrives for one agent, each handoff once."""

    def __init__(self, agent: Agent, spine: MemorySpine) -> None:
        self.agent = agent
        self.spine = spine
        self.file = _own_file(agent)
        self.seen: Seen = self.file or _store(agent)
        self.lock = threading.Lock()
        self.working: Dict[str, Received] = {}
        self.ended = threading.Event()
        self.extender = threading.Thread(target=self._extend_forever, name=f"handoff-{agent.name}-extend", daemon=True)
        self.extender.start()

    def work(self, handoff: Received) -> Optional[Answer]:
        """Does it and returns the answer; None if that comes later, over the API."""
        if not self.begin(handoff):
            return None
        answer = self._call(handoff)
        with self.lock:
            handoff.finished = True
            by_api = handoff.answers_by_api
            if answer is not None:
                self.working.pop(handoff.id, None)
        if answer is not None and by_api:
            self.answer_by_api(handoff, answer)
            return None
        return answer

    def begin(self, handoff: Received) -> bool:
        """From now on it is extended. False if it is being worked on already: the answer to that counts for both."""
        handoff._settle = self._settle_later
        with self.lock:
            before = self.working.setdefault(handoff.id, handoff)
            if before is not handoff:
                before.answers_by_api = True  # its own way to answer may be gone
        return before is handoff

    def _call(self, handoff: Received) -> Optional[Answer]:
        try:
            answer = self.seen.get(handoff.id)  # after begin(): one that was done meanwhile is there
            if answer is not None:
                log.info("handoff %s arrived again and is acknowledged again", handoff.id)
                return answer
            self._run(handoff)
        except Refused as refused:
            return {"nack": handoff.id, "reason": str(refused), "retry": False}
        except BaseException as error:  # also exit() and CancelledError: it is tried again, and parked if it fails each time
            log.exception("handoff %s failed at %s", handoff.id, self.agent.name)
            return {"nack": handoff.id, "reason": f"{type(error).__name__}: {error}"[:RETAINED], "retry": True}
        if handoff.deferred:
            return None
        answer = acknowledgement(handoff)
        self._remember(handoff, answer)
        return answer

    def _run(self, handoff: Received) -> None:
        inside = _inside.set(self)
        try:
            with trace.continued(handoff.trace):
                result = self.agent.function(handoff)
                if inspect.iscoroutine(result):
                    asyncio.run(result)
        finally:
            _inside.reset(inside)

    def _settle_later(self, handoff: Received, answer: Answer) -> None:
        """What a Deferred does."""
        self._remember(handoff, answer)
        with self.lock:
            self.working.pop(handoff.id, None)
        self.answer_by_api(handoff, answer, raises=True)

    def _remember(self, handoff: Received, answer: Answer) -> None:
        if "ack" not in answer:
            return
        try:
            self.seen.add(handoff.id, answer)
        except Exception:  # a store of the caller's has its own exceptions
            log.exception("handoff %s is done, but cannot be remembered as done", handoff.id)

    def answer_by_api(self, handoff: Received, answer: Answer, raises: bool = False) -> None:
        try:
            if "ack" in answer:
                self.spine.ack_handoff(handoff.id, next=answer.get("next"), missing=answer.get("missing"))
            else:
                self.spine.nack_handoff(handoff.id, answer["reason"], retry=answer["retry"])
        except HandoffError as error:
            if raises:
                raise
            log.error("the answer to handoff %s was not taken: %s", handoff.id, error)

    # ---- more time

    def _extend_forever(self) -> None:
        waited: Dict[str, float] = {}
        while not self.ended.wait(1.0):
            with self.lock:
                working = list(self.working.values())
            waited = {handoff.id: waited.get(handoff.id, 0.0) + 1.0 for handoff in working}
            for handoff in working:
                if waited[handoff.id] >= _extend_every(handoff):
                    waited[handoff.id] = 0.0
                    self._extend(handoff)

    def _extend(self, handoff: Received) -> None:
        try:
            handoff.extend()
        except Exception as error:  # such as a token file that is gone for a moment: the others need more time, too
            log.warning("handoff %s could not be extended: %s", handoff.id, error)

    def close(self) -> None:
        self.ended.set()
        self.extender.join()
        if self.file is not None:
            self.file.close()


def _own_file(agent: Agent) -> Optional[SeenFile]:
    """None if the caller gave a store."""
    if agent.seen is None:
        return SeenFile(default_path(agent.name))
    return SeenFile(agent.seen) if isinstance(agent.seen, (str, os.PathLike)) else None


def _store(agent: Agent) -> Seen:
    assert agent.seen is not None and not isinstance(agent.seen, (str, os.PathLike))
    return agent.seen


def _extend_every(handoff: Received) -> float:
    if "handoff-lease-seconds" in handoff.headers:
        return max(1.0, float(handoff.headers["handoff-lease-seconds"]) / 3)
    return EXTEND_SECONDS if handoff.answers_by_api or handoff.deferred else float("inf")


class Serving:
    """Agents that are receiving; a context manager."""

    def __init__(self, agents: List[Agent], spine: MemorySpine) -> None:
        self.failed: List[BaseException] = []
        self.ended = threading.Event()
        self.finishing = threading.Lock()
        self.workers: List[Worker] = []
        self.sources: List[Union[Inbox, Stream, PushServer]] = []
        try:
            for agent in agents:
                worker = Worker(agent, spine)
                self.workers.append(worker)
                self.sources.append(self._source(worker, spine))
        except BaseException:
            self.stop()
            raise

    def _source(self, worker: Worker, spine: MemorySpine) -> Union[Inbox, Stream, PushServer]:
        if worker.agent.receive == "inbox":
            return Inbox(worker, spine, self._fail)
        if worker.agent.receive == "stream":
            return Stream(worker, spine, self._fail)
        return PushServer(worker, spine)

    def _fail(self, error: BaseException) -> None:
        self.failed.append(error)
        self.ended.set()

    @property
    def urls(self) -> List[str]:
        """Where the agents listen that are pushed to."""
        return [source.url for source in self.sources if isinstance(source, PushServer)]

    def stop(self) -> None:
        """The agents take no more handoffs, and finish what they have begun. Returns when that is answered.

        Called by an agent's function it returns at once: what that works on is answered when it returns.
        """
        for source in list(self.sources):
            source.leave()
        self.ended.set()
        if _inside.get() in self.workers:
            threading.Thread(target=self._finish, name="handoff-stop").start()  # the process lives until it is done
        else:
            self._finish()

    def _finish(self) -> None:
        with self.finishing:
            for source in self.sources:
                source.stop()
            for worker in self.workers:
                worker.close()
            self.sources, self.workers = [], []

    def wait(self) -> None:
        """Until stop(), or until an agent can no longer receive, which is raised."""
        self.ended.wait()
        if self.failed:
            raise self.failed[0]

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[types.TracebackType]) -> None:
        self.stop()


def serving(*agents: Agent, spine: Optional[MemorySpine] = None) -> Serving:
    """Starts the agents and returns; use it in a `with` statement."""
    return Serving(list(agents), spine or MemorySpine())


def serve(*agents: Agent, spine: Optional[MemorySpine] = None) -> None:
    """Runs the agents until the process gets SIGINT or SIGTERM; then they finish what they have begun."""
    with serving(*agents, spine=spine) as running, contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.signal(number, lambda *_: running.ended.set())
                stack.callback(signal.signal, number, before)
        running.wait()
