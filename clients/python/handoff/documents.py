# SPDX-License-Identifier: Apache-2.0
"""What the sidecar answers. Each is the JSON object as it came, read-only, with its usual members as attributes.

A member that this version does not know is found by its name: handoff["a_new_member"].
"""

import json
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional


class Completeness(NamedTuple):
    """The share of the requested memories that the envelope includes."""

    requested: int
    included: int
    ratio: float


class Document(Mapping[str, Any]):
    """A JSON object."""

    __slots__ = ("_members",)

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members: Dict[str, Any] = dict(members)

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({json.dumps(self._members, ensure_ascii=False)})"

    def _text(self, name: str) -> str:
        return str(self._members.get(name) or "")

    def _list(self, name: str) -> List[Any]:
        return list(self._members.get(name) or ())

    def _object(self, name: str) -> Dict[str, Any]:
        return dict(self._members.get(name) or {})

    @property
    def id(self) -> str:
        return self._text("id")

    @property
    def warnings(self) -> List[Any]:
        """What the sender should know, such as fields that this sidecar ignored."""
        return self._list("warnings")


class _Carried(Document):
    """What an envelope and the status of a handoff have in common."""

    __slots__ = ()

    @property
    def envelope_version(self) -> str:
        return self._text("envelope_version")

    @property
    def task_id(self) -> str:
        return self._text("task_id")

    @property
    def source_agent(self) -> str:
        return self._text("source_agent")

    @property
    def target_agent(self) -> str:
        return self._text("target_agent")

    @property
    def memory_refs(self) -> List[str]:
        """Ids of the memories that the envelope includes or refers to."""
        return self._list("memory_refs")

    @property
    def missing(self) -> List[Dict[str, Any]]:
        """Requested memories that were not available, each with its id and the reason."""
        return self._list("missing")

    @property
    def completeness(self) -> Completeness:
        found = self._object("completeness")
        return Completeness(int(found.get("requested", 0)), int(found.get("included", 0)), float(found.get("ratio", 1)))


class Envelope(_Carried):
    """The immutable document that carries a handoff."""

    __slots__ = ()

    @property
    def token_count(self) -> int:
        """Tokens of its context."""
        return int(self._object("tokens").get("count", 0))

    @property
    def context(self) -> Dict[str, Any]:
        """Task, memories, history, constraints and expected output."""
        return self._object("context")

    @property
    def omitted(self) -> Dict[str, Any]:
        """How much the chain has that the token budget had no room for, by kind."""
        return {name: count for name, count in self._object("omitted").items() if name != "more"}


class Handoff(_Carried):
    """The status of a handoff."""

    __slots__ = ()

    @property
    def state(self) -> str:
        """ready, in_flight, awaiting_ack, acknowledged, parked, expired or discarded"""
        return self._text("state")

    @property
    def acknowledged(self) -> bool:
        return self.state == "acknowledged"

    @property
    def token_count(self) -> int:
        """Tokens of the envelope's context."""
        return int(self._members.get("token_count") or 0)

    @property
    def attempts(self) -> int:
        return int(self._members.get("attempts") or 0)

    @property
    def reason(self) -> str:
        """Why it is no longer being delivered; otherwise empty."""
        return self._text("reason")

    @property
    def replaced_by(self) -> str:
        """The id of the handoff that took its place, if an operator edited it; otherwise empty."""
        return self._text("replaced_by")

    @property
    def progress(self) -> str:
        """What the agent last reported about its work."""
        return self._text("progress")


class Publication(Document):
    """An envelope that was published to a channel."""

    __slots__ = ()

    @property
    def channel(self) -> str:
        return self._text("channel")

    @property
    def deliveries(self) -> List[Dict[str, Any]]:
        """One for each receiver: handoff_id, receiver and state."""
        return self._list("deliveries")


class Memory(Document):
    """A stored fact. In an envelope, content or both texts can be absent."""

    __slots__ = ()

    @property
    def content(self) -> Optional[str]:
        return self._members.get("content")

    @property
    def summary(self) -> Optional[str]:
        return self._members.get("summary")

    @property
    def importance(self) -> str:
        return self._text("importance")

    @property
    def pinned(self) -> bool:
        return bool(self._members.get("pinned"))

    @property
    def tags(self) -> List[str]:
        return self._list("tags")

    @property
    def text(self) -> str:
        """The content, or else the summary."""
        return self.content or self.summary or ""
