# SPDX-License-Identifier: Apache-2.0
"""Which handoffs an agent has done, so that one that arrives again is answered again and not done again.

Delivery is at least once. A handoff that an agent acknowledged is remembered with its answer, before the answer is sent:
if the answer is lost, the handoff arrives again, and so does its successor (`next`) with the second answer.
"""

import collections
import fcntl
import json
import os
import pathlib
import threading
import weakref
from typing import IO, Any, Dict, Optional, Protocol, Union

Answer = Dict[str, Any]

_guards: "weakref.WeakSet[IO[str]]" = weakref.WeakSet()


def _leave_guards() -> None:
    """In a child after a fork: it must not keep the lock of a parent that died."""
    for guard in list(_guards):
        guard.close()


os.register_at_fork(after_in_child=_leave_guards)


class Seen(Protocol):
    """A store of the caller's: a table in the database where the results are, for example."""

    def get(self, id: str) -> Optional[Answer]:
        """The answer that was given for this handoff."""

    def add(self, id: str, answer: Answer) -> None:
        """Remembers the answer. It is durable when this returns."""


class SeenFile:
    """A file with one JSON object on each line, for one process at a time. Remembers the last `most` handoffs.

    It survives a crash of the process. A crash of the machine can lose the last entries.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"], most: int = 10000) -> None:
        self.path = pathlib.Path(path)
        self.most = most
        self.lock = threading.Lock()
        self.answers: "collections.OrderedDict[str, Optional[str]]" = collections.OrderedDict()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.guard = open(f"{self.path}.lock", "w", encoding="utf-8")  # its lock ends with the process
        _guards.add(self.guard)
        try:
            fcntl.flock(self.guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.guard.close()
            raise ValueError(f"{self.path} is in use by another process: give each its own file (seen=...)") from error
        self.lines = self._load()
        self.file: IO[str] = open(self.path, "a", encoding="utf-8")

    def get(self, id: str) -> Optional[Answer]:
        with self.lock:
            if id not in self.answers:
                return None
            kept = self.answers[id]
        return {"ack": id} if kept is None else dict(json.loads(kept))

    def add(self, id: str, answer: Answer) -> None:
        with self.lock:
            self._remember(id, answer)
            self.file.write(json.dumps({"id": id, "answer": answer}, ensure_ascii=False) + "\n")
            self.file.flush()
            self.lines += 1
            if self.lines >= 2 * self.most:
                self._compact()

    def close(self) -> None:
        self.file.close()
        self.guard.close()

    def _remember(self, id: str, answer: Answer) -> None:
        self.answers[id] = None if answer == {"ack": id} else json.dumps(answer, ensure_ascii=False)
        self.answers.move_to_end(id)
        while len(self.answers) > self.most:
            self.answers.popitem(last=False)

    def _load(self) -> int:
        """Reads the file, without a last line that a crash cut off; returns the number of lines."""
        if not self.path.exists():
            return 0
        whole = True
        with open(self.path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                whole = line.endswith("\n")
                try:
                    entry = json.loads(line)
                    self._remember(entry["id"], entry["answer"])
                except (ValueError, TypeError, KeyError):
                    continue
        if not whole:
            self._rewrite()
        return len(self.answers)

    def _compact(self) -> None:
        self.file.close()
        self._rewrite()
        self.file = open(self.path, "a", encoding="utf-8")
        self.lines = len(self.answers)

    def _rewrite(self) -> None:
        new = self.path.with_name(self.path.name + ".new")
        with open(new, "w", encoding="utf-8") as file:
            for id, kept in self.answers.items():
                answer = {"ack": id} if kept is None else json.loads(kept)
                file.write(json.dumps({"id": id, "answer": answer}, ensure_ascii=False) + "\n")
        new.replace(self.path)


def default_path(agent: str) -> pathlib.Path:
    """$HANDOFF_STATE_DIR, or the state folder of the user, with one file for each agent."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(os.environ.get("HANDOFF_STATE_DIR") or os.path.join(state, "handoff"), f"{agent}.seen")
