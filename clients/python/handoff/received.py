# SPDX-License-Identifier: Apache-2.0
"""A handoff as its receiver sees it: what to do, with what, and how to answer."""

import contextlib
import json
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from .client import MemorySpine
from .documents import Document, Envelope, Handoff, Memory
from .errors import HandoffError
from .flows import encode

REQUEST_FIELDS = frozenset((
    "source_agent", "target_agent", "task_id", "task_summary", "intent", "state", "scope", "include_recent",
    "include_pins", "memory_ids", "constraints", "execution_history", "expected_output", "strategy", "previous_id",
    "new_chain", "pattern", "channel", "pipeline", "extra"))


class Task(Document):
    """What this receiver should do, in the words of the sender and of the user."""

    __slots__ = ()

    @property
    def summary(self) -> str:
        return self._text("summary")

    @property
    def intent(self) -> str:
        """The user's own words, unchanged along the chain."""
        return self._text("intent")

    @property
    def state(self) -> Dict[str, Any]:
        return self._object("state")

    @property
    def decisions(self) -> List[Any]:
        return list(self.state.get("decisions") or ())

    @property
    def unresolved(self) -> List[Any]:
        return list(self.state.get("unresolved") or ())

    @property
    def remaining(self) -> List[Any]:
        return list(self.state.get("remaining") or ())


class Memories(Mapping[str, Memory]):
    """The memories of a handoff by id. What the envelope has no content of is fetched when it is first read.

    Any id can be asked for, also a missing one, which is then fetched directly; KeyError if there is no such memory.
    """

    def __init__(self, handoff: str, envelope: Envelope, spine: MemorySpine) -> None:
        self._handoff = handoff
        self._spine = spine
        self._missing = {entry["id"] for entry in envelope.missing}
        context = envelope.context
        self._given = {memory["id"]: Memory(memory) for memory in context.get("memories") or ()}
        self._ids = list(dict.fromkeys([*self._given, *(context.get("references") or ()), *envelope.memory_refs]))

    def __getitem__(self, id: str) -> Memory:
        found = self._given.get(id)
        if found is None or found.content is None:
            found = self._fetch(id, found)
            self._given[id] = found
        return found

    def _fetch(self, id: str, short: Optional[Memory]) -> Memory:
        if id in self._missing and self.recover([id]):
            raise KeyError(id)
        try:
            return self._given[id] if id in self._missing else self._spine.get_memory(id)
        except HandoffError as error:
            if short is not None and short.summary is not None:
                return short  # degraded, but better than nothing
            if error.code == "not_found":
                raise KeyError(id) from error
            raise

    def recover(self, ids: Optional[Sequence[str]] = None) -> List[str]:
        """Fetches memories that the envelope lacks, by default all; returns the ids of those that are not available."""
        answer = self._spine.recover_memories(self._handoff, ids, missing=ids is None)
        self._given.update({memory["id"]: Memory(memory) for memory in answer["found"]})
        return [entry["id"] for entry in answer["missing"]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


class Received:
    """A handoff to work on. Returning from the agent's function acknowledges it."""

    def __init__(self, agent: str, spine: MemorySpine, headers: Mapping[str, str], body: bytes) -> None:
        self.agent = agent
        self.spine = spine
        self.headers = headers
        self.id: str = headers["handoff-id"]
        self.attempt = int(headers.get("handoff-attempt", "1"))
        self.successor: Optional[Dict[str, Any]] = None
        self.gaps: List[str] = []
        self.deferred: Optional["Deferred"] = None
        self.answers_by_api = False  # these two: under the lock of the worker
        self.finished = False
        self._body = body
        self._envelope: Optional[Envelope] = None
        self._memories: Optional[Memories] = None
        self._settle: Optional[Callable[["Received", Dict[str, Any]], None]] = None

    @classmethod
    def of_event(cls, agent: str, spine: MemorySpine, headers: Mapping[str, str], body: Any) -> "Received":
        """One that came as an event: the body is a JSON document, or text."""
        text = body if isinstance(body, str) else ""
        received = cls(agent, spine, {name.lower(): value for name, value in headers.items()}, text.encode())
        received._envelope = _envelope_in(body)
        return received

    @property
    def envelope(self) -> Envelope:
        """All of it. Fetched if this agent is sent another form (`format: markdown`, `accepts: ["1"]`)."""
        if self._envelope is None:
            found = _envelope_of(self._body)
            self._envelope = found if found is not None else self.spine.get_envelope(self.id)
        return self._envelope

    @property
    def trace(self) -> Dict[str, Optional[str]]:
        """Its W3C Trace Context, which the work continues: from the request of a push, else from the envelope."""
        if "traceparent" in self.headers:
            return {name: self.headers.get(name) for name in ("traceparent", "tracestate")}
        self._envelope = self._envelope or _envelope_of(self._body)  # for this, none is fetched
        return dict(self._envelope.get("trace") or {}) if self._envelope else {}

    @property
    def task(self) -> Task:
        return Task(self.envelope.context.get("task") or {})

    @property
    def task_id(self) -> str:
        return self.envelope.task_id

    @property
    def source_agent(self) -> str:
        return self.envelope.source_agent

    @property
    def constraints(self) -> Dict[str, Any]:
        """What holds for the whole chain."""
        return dict(self.envelope.context.get("constraints") or {})

    @property
    def history(self) -> List[Dict[str, Any]]:
        """What the agents before did, and why."""
        return list(self.envelope.context.get("history") or ())

    @property
    def expected_output(self) -> Dict[str, Any]:
        return dict(self.envelope.context.get("expected_output") or {})

    @property
    def memories(self) -> Memories:
        if self._memories is None:
            self._memories = Memories(self.id, self.envelope, self.spine)
        return self._memories

    @property
    def missing(self) -> List[Dict[str, Any]]:
        """Memories that were not available when the envelope was assembled."""
        return self.envelope.missing

    def still_missing(self) -> List[str]:
        """Fetches the missing memories directly; returns the ids of those that are not available now either."""
        return self.memories.recover() if self.missing else []

    def flag_gaps(self, ids: Sequence[str]) -> None:
        """Says with the acknowledgement which memories this agent worked without: the sender and the task show them."""
        self.gaps += [id for id in ids if id not in self.gaps]

    @property
    def omitted(self) -> Dict[str, Any]:
        """How much the chain has that the token budget had no room for, by kind; ledger() has all of it."""
        return self.envelope.omitted

    def ledger(self, kind: Optional[str] = None) -> List[Document]:
        """Everything that the agents of the chain have said."""
        return self.spine.get_ledger(self.id, kind)

    def brief(self) -> str:
        """The handoff as Markdown, for a prompt."""
        if self.headers.get("content-type", "").startswith("text/markdown"):
            return self._body.decode()
        return self.spine.get_brief(self.id)

    # ---- answering

    def extend(self, progress: Optional[str] = None) -> Handoff:
        """Reports progress, and gets more time. More time alone needs no call: it is extended while the function runs."""
        return self.spine.extend_handoff(self.id, progress)

    def next(self, task_summary: str, target_agent: str = "next", **fields: Any) -> None:
        """Hands the task on: the acknowledgement and its successor are one commit.

        The fields are those of hand_off(); the target is by default the next agent of the pipeline.
        """
        unknown = sorted(set(fields) - REQUEST_FIELDS)
        if unknown:
            raise TypeError(f"next() has no field {', '.join(unknown)}; allowed: {', '.join(sorted(REQUEST_FIELDS))}")
        if self.successor is not None:
            raise ValueError("a handoff has one successor; publish to a channel to hand it to several agents")
        extra = fields.pop("extra", None) or {}
        successor = {"source_agent": self.agent, "target_agent": target_agent, "task_summary": task_summary,
                     **{name: value for name, value in fields.items() if value is not None}, **extra}
        encode(successor)  # what is not JSON is reported here, not after the work
        self.successor = successor

    def defer(self) -> "Deferred":
        """Says that the answer comes later, by the object that this returns. Returning then acknowledges nothing."""
        if self._settle is None:
            raise RuntimeError("defer() needs serve(): only that can answer later")
        self.deferred = self.deferred or Deferred(self, self._settle)
        return self.deferred


class Deferred:
    """The answer to a handoff that comes later, from any thread. Until then the time to answer is extended."""

    def __init__(self, handoff: Received, settle: Callable[[Received, Dict[str, Any]], None]) -> None:
        self.handoff = handoff
        self._settle = settle
        self._once = threading.Lock()

    def acknowledge(self) -> None:
        """Acknowledges, and hands on what handoff.next() said."""
        self._answer(acknowledgement(self.handoff))

    def refuse(self, reason: str, *, retry: bool = False) -> None:
        self._answer({"nack": self.handoff.id, "reason": reason, "retry": retry})

    def _answer(self, answer: Dict[str, Any]) -> None:
        if not self._once.acquire(blocking=False):
            raise ValueError(f"handoff {self.handoff.id} was answered before")
        self._settle(self.handoff, answer)


def acknowledgement(handoff: Received) -> Dict[str, Any]:
    answer: Dict[str, Any] = {"ack": handoff.id}
    if handoff.successor is not None:
        answer["next"] = handoff.successor
    if handoff.gaps:
        answer["missing"] = handoff.gaps
    return answer


def _envelope_of(body: bytes) -> Optional[Envelope]:
    with contextlib.suppress(ValueError):
        return _envelope_in(json.loads(body))
    return None


def _envelope_in(document: Any) -> Optional[Envelope]:
    if isinstance(document, dict) and str(document.get("envelope_version", "")).startswith("2."):
        return Envelope(document)
    return None
