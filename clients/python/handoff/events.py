# SPDX-License-Identifier: Apache-2.0
"""Server-sent events, as the HTML standard defines them."""

from typing import Dict, Iterable, Iterator, NamedTuple, Optional


class Event(NamedTuple):
    id: Optional[str]  # None if it has none
    data: str  # empty if there is none: only the id is new


def events(lines: Iterable[bytes]) -> Iterator[Optional[Event]]:
    """The events of an answer; None for a comment, which says that the connection is alive.

    What is cut off at the end is no event.
    """
    fields: Dict[str, str] = {}
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if text.startswith(":"):
            yield None
        elif text:
            _add(fields, text)
        elif line.endswith(b"\n") and fields:
            yield Event(fields.get("id"), fields.get("data", ""))
            fields = {}


def _add(fields: Dict[str, str], line: str) -> None:
    name, _, value = line.partition(":")
    value = value[1:] if value.startswith(" ") else value
    fields[name] = f"{fields['data']}\n{value}" if name == "data" and "data" in fields else value
