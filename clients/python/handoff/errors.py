# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions. All of them are HandoffError.

The sidecar explains an error in a problem document (RFC 9457). `code` never changes and is for programs; `field`,
`seen`, `allowed` and `needed` say what to correct; `handoff` is set if the handoff was accepted in spite of the error.
"""

import json
from typing import Any, Dict, List, Optional, Type

from .documents import Handoff


class HandoffError(Exception):
    """A call failed, or a handoff did not reach its receiver."""

    def __init__(self, detail: str = "", *, code: str = "", status: int = 0,
                 problem: Optional[Dict[str, Any]] = None, retry_after: Optional[float] = None) -> None:
        self.problem: Dict[str, Any] = problem or {}
        self.code: str = code or str(self.problem.get("code", ""))
        self.detail: str = detail or str(self.problem.get("detail", ""))
        self.status = status
        self.retry_after = retry_after
        super().__init__(self._text())

    def _text(self) -> str:
        text = f"{self.code}: {self.detail}" if self.code else self.detail
        notes = [f"{name}: {_short(value)}" for name, value in (
            ("field", self.field), ("seen", self.seen), ("allowed", self.allowed), ("needed", self.needed))
            if value is not None and _short(value) not in self.detail]  # the sidecar's words usually have them
        return f"{text} ({'; '.join(notes)})" if notes else text

    def __str__(self) -> str:
        return self._text()

    @property
    def field(self) -> Optional[str]:
        """The field or parameter that was wrong."""
        return self.problem.get("field")

    @property
    def seen(self) -> Any:
        """What the sidecar found there."""
        return self.problem.get("seen")

    @property
    def allowed(self) -> Any:
        """What would be valid there."""
        return self.problem.get("allowed")

    @property
    def needed(self) -> Any:
        """The number that would be enough."""
        return self.problem.get("needed")

    @property
    def warnings(self) -> List[Any]:
        return list(self.problem.get("warnings", ()))

    @property
    def handoff(self) -> Optional[Handoff]:
        """The handoff, if it was accepted in spite of the error."""
        found = self.problem.get("handoff")
        return Handoff(found) if isinstance(found, dict) else None


class InvalidRequestError(HandoffError):
    """The request has to be corrected first."""


class AuthenticationError(HandoffError):
    """The token is missing or unknown."""


class PermissionDeniedError(HandoffError):
    """The token does not allow this."""


class NotFoundError(HandoffError):
    """There is no such agent, handoff, task, channel or memory, or it was removed."""


class ConflictError(HandoffError):
    """Something else was decided before, or the idempotency key belongs to a different request."""


class NotDeliveredError(HandoffError):
    """The handoff was accepted and did not reach its receiver: it is parked, expired or discarded."""


class UnavailableError(HandoffError):
    """The sidecar cannot do it now; a repeat can succeed."""


class CircuitOpenError(UnavailableError):
    """The target's circuit is open: recent handoffs to it failed. Nothing was stored."""


class UnreachableError(UnavailableError, ConnectionError):
    """There is no answer from the sidecar, or its certificate cannot be trusted (`code` is bad_certificate)."""


class HandoffTimeoutError(HandoffError, TimeoutError):
    """The receiver did not acknowledge in time. The delivery continues."""


class Refused(Exception):
    """Raised by a receiving agent: no retry will help, so the handoff is parked for a person."""


_BY_STATUS: Dict[int, Type[HandoffError]] = {
    401: AuthenticationError, 403: PermissionDeniedError, 404: NotFoundError, 409: ConflictError, 410: NotFoundError,
    429: UnavailableError, 502: NotDeliveredError, 503: UnavailableError, 504: NotDeliveredError}


def error_of(status: int, body: bytes, retry_after: Optional[float]) -> HandoffError:
    """The exception for an answer of 400 and above."""
    problem = _problem(body)
    code = str(problem.get("code", ""))
    kind = _BY_STATUS.get(status, InvalidRequestError if 400 <= status < 500 else UnavailableError)
    if code == "circuit_open":
        kind = CircuitOpenError
    elif code == "hop_limit" and "handoff" in problem:
        kind = NotDeliveredError
    elif not code and status >= 500:  # not the sidecar: something on the way to it
        kind = UnavailableError
    detail = str(problem.get("detail", "")) or f"HTTP status {status}"
    return kind(detail, code=code, status=status, problem=problem, retry_after=retry_after)


def _problem(body: bytes) -> Dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "..."
