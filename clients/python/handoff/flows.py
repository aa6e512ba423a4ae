# SPDX-License-Identifier: Apache-2.0
"""Calls as generators that do no I/O: they yield a Request or a Pause, and are sent the Response.

The client and its asyncio twin drive the same generators, so both retry and wait in the same way. Every call of this
package is safe to repeat: those that accept something carry an idempotency key, which stays the same for all repeats.
"""

import dataclasses
import json
import math
import random
import time
import uuid
from typing import Any, Callable, Dict, Generator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union
from urllib.parse import quote

from . import trace
from .documents import Document, Envelope, Handoff, Memory, Publication
from .errors import CircuitOpenError, HandoffError, HandoffTimeoutError, UnavailableError, UnreachableError, error_of

T = TypeVar("T")

WAIT_SECONDS = 30  # one request waits no longer; then it is repeated
ANSWER_SECONDS = 30.0  # for an answer that waits for nothing else
PREFER = "handling=lenient"  # an older sidecar ignores fields that it does not know, and says so


@dataclasses.dataclass
class Request:
    method: str
    path: str
    body: Optional[bytes] = None
    headers: Dict[str, str] = dataclasses.field(default_factory=dict)
    timeout: float = ANSWER_SECONDS  # from the first byte sent, or a connection that is opened for it, to the whole answer


@dataclasses.dataclass
class Pause:
    seconds: float


@dataclasses.dataclass
class Response:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    def json(self) -> Dict[str, Any]:
        found = json.loads(self.body) if self.body else {}
        if not isinstance(found, dict):
            raise HandoffError(f"the answer is not a JSON object: {self.body[:100]!r}", status=self.status)
        return found


Flow = Generator[Union[Request, Pause], Response, T]


@dataclasses.dataclass(frozen=True)
class Retry:
    """How calls that failed for a passing reason are repeated: exponential backoff with full jitter.

    `seconds` is how long a call keeps trying, 0 for no retries. A Retry-After of the sidecar is the minimum wait.
    """

    seconds: float = 30.0
    base: float = 0.1
    most: float = 5.0

    def wait(self, error: HandoffError, failures: int, elapsed: float) -> Optional[float]:
        """How long to wait before the next try; None if there is none."""
        if not is_passing(error):
            return None
        wait = max(error.retry_after or 0.0, random.uniform(0, min(self.most, self.base * 2.0 ** min(failures, 100))))
        return wait if elapsed + wait < self.seconds else None


def is_passing(error: HandoffError) -> bool:
    """Whether the same call can succeed a little later."""
    if isinstance(error, CircuitOpenError) or error.code in ("store_displaced", "closed", "bad_certificate"):
        return False  # the caller chooses another agent; an operator has to act; close() was called
    return isinstance(error, UnavailableError) or error.status in (408, 425)


def encode(members: Mapping[str, Any]) -> bytes:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()


def segment(text: str) -> str:
    """One part of a path."""
    return quote(text, safe="")


def new_key() -> str:
    return str(uuid.uuid4())


def request_fields(fields: Mapping[str, Any]) -> Dict[str, Any]:
    """The fields that were given, without self, and with those of `extra`."""
    given = {name: value for name, value in fields.items() if value is not None and name not in ("self", "extra")}
    return {**given, **(fields.get("extra") or {})}


class Calls:
    """The calls of the agent API, with the settings that they share."""

    def __init__(self, retry: Retry, source_agent: Optional[str], token: Callable[[], str]) -> None:
        self.retry = retry
        self.source_agent = source_agent
        self.token = token

    def send(self, method: str, path: str, members: Optional[Mapping[str, Any]] = None, *, wait: int = 0,
             prefer: str = "", headers: Optional[Mapping[str, str]] = None, end: float = math.inf) -> Flow[Response]:
        """One call, with its retries, all of it before `end`. An answer of 400 or above is raised."""
        request = Request(method, path, None if members is None else encode(members), timeout=ANSWER_SECONDS + wait)
        request.headers = dict(headers or {})
        if members is not None:
            request.headers["Content-Type"] = "application/json"
            request.headers["Prefer"] = f"{prefer}, {PREFER}" if prefer else PREFER
            request.headers.update(trace.headers())
        elif prefer:
            request.headers["Prefer"] = prefer
        return (yield from self.repeated(request, end))

    def repeated(self, request: Request, end: float) -> Flow[Response]:
        began, failures, longest = time.monotonic(), 0, request.timeout
        while True:
            error = None
            request.timeout = max(0.001, min(longest, end - time.monotonic()))
            self.authorize(request)
            try:
                response: Response = yield request
                if response.status < 400:
                    return response
                error = error_of(response.status, response.body, retry_after(response))
            except UnreachableError as unreachable:
                error = unreachable
            now = time.monotonic()
            wait = self.retry.wait(error, failures, now - began)
            if wait is None or now + wait >= end:
                raise error
            failures += 1
            yield Pause(wait)

    def authorize(self, request: Request) -> None:
        token = self.token()
        if token:
            request.headers["Authorization"] = f"Bearer {token}"

    def settled(self, path: str, members: Mapping[str, Any], end: float,
                headers: Optional[Mapping[str, str]] = None) -> Flow[Response]:
        """A call that waits for the end of a handoff until `end`, in several requests under one key.

        The sidecar waits whole seconds. The first answer has to arrive before `end`, since it says which handoff it is;
        the last wait may be cut off.
        """
        answered: Optional[Response] = None
        while True:
            left = min(float(WAIT_SECONDS), max(0.0, end - time.monotonic()))
            seconds = math.ceil(left) if answered or left == WAIT_SECONDS else max(0, math.ceil(left) - 1)
            try:
                response = yield from self.send("POST", path, members, wait=seconds, prefer=f"wait={seconds}",
                                                headers=headers, end=end)
            except UnreachableError:
                if answered is None or not is_over(end):
                    raise
                return answered
            if response.status != 202 or is_over(end):
                return response
            answered = response

    # ---- sending

    def request(self, fields: Mapping[str, Any]) -> Dict[str, Any]:
        members = request_fields(fields)
        if self.source_agent and "source_agent" not in members:
            members["source_agent"] = self.source_agent
        return members

    def assemble(self, fields: Mapping[str, Any]) -> Flow[Envelope]:
        response = yield from self.send("POST", "/v1/envelopes", self.request(fields))
        members = response.json()
        warnings = response.headers.get("handoff-warnings")
        return Envelope({**members, "warnings": [warnings]} if warnings else members)

    def hand_off(self, fields: Mapping[str, Any], key: Optional[str], timeout: Optional[float],
                 wait: bool) -> Flow[Handoff]:
        return (yield from self.delivered("/v1/handoffs", self.request(fields), ending(timeout), timeout, wait,
                                          {"Idempotency-Key": key or new_key()}))

    def deliver(self, envelope: str, addressed: Optional[str], target: Optional[str], timeout: Optional[float],
                wait: bool) -> Flow[Handoff]:
        end = ending(timeout)
        if target is not None and addressed is None:
            addressed = (yield from self.envelope(f"/v1/envelopes/{segment(envelope)}", end)).target_agent
        if target is not None and addressed != target:
            raise ValueError(f"the envelope is addressed to {addressed}, not to {target}; envelopes are immutable: "
                             f"assemble one with target_agent={target!r}")
        path = f"/v1/envelopes/{segment(envelope)}/deliver"
        return (yield from self.delivered(path, {}, end, timeout, wait))  # an envelope has one handoff, also without a key

    def delivered(self, path: str, members: Mapping[str, Any], end: float, timeout: Optional[float], wait: bool,
                  headers: Optional[Mapping[str, str]] = None) -> Flow[Handoff]:
        if not wait:
            response = yield from self.send("POST", path, members, prefer="respond-async", headers=headers, end=end)
            return Handoff(response.json())
        response = yield from self.settled(path, members, end, headers)
        handoff = Handoff(response.json())
        if response.status == 202:
            raise HandoffTimeoutError(f"{handoff.target_agent} did not acknowledge {handoff.id} within {timeout:g} s; "
                                      "the delivery continues", code="not_acknowledged_in_time",
                                      problem={"handoff": dict(handoff)})
        return handoff

    def park_envelope(self, envelope: str, reason: str) -> Flow[Handoff]:
        """Parks the handoff of an envelope; one that was never delivered gets its handoff by that."""
        members = {"reason": reason, "envelope_id": envelope}
        try:
            response = yield from self.send("POST", f"/v1/handoffs/{segment(envelope)}/park", {"reason": reason})
        except HandoffError as error:
            if error.code != "not_found":
                raise
            response = yield from self.send("POST", "/v1/parked", members,
                                          headers={"Idempotency-Key": f"park-{envelope}"})
        return Handoff(response.json())

    def publish(self, channel: str, members: Mapping[str, Any], key: Optional[str],
                timeout: Optional[float]) -> Flow[Publication]:
        path, headers = f"/v1/channels/{segment(channel)}/publish", {"Idempotency-Key": key or new_key()}
        if timeout is None:
            response = yield from self.send("POST", path, members, headers=headers)
        else:
            response = yield from self.settled(path, members, ending(timeout), headers)
        return Publication(response.json())

    # ---- reading and deciding

    def document(self, method: str, path: str, members: Optional[Mapping[str, Any]] = None) -> Flow[Document]:
        return Document((yield from self.send(method, path, members)).json())

    def handoff(self, method: str, path: str, members: Optional[Mapping[str, Any]] = None) -> Flow[Handoff]:
        return Handoff((yield from self.send(method, path, members)).json())

    def envelope(self, path: str, end: float = math.inf) -> Flow[Envelope]:
        return Envelope((yield from self.send("GET", path, end=end)).json())

    def text(self, path: str, accept: str) -> Flow[str]:
        return (yield from self.send("GET", path, headers={"Accept": accept})).body.decode()

    def memory(self, method: str, path: str, members: Optional[Mapping[str, Any]] = None) -> Flow[Memory]:
        return Memory((yield from self.send(method, path, members)).json())

    def nothing(self, method: str, path: str, members: Optional[Mapping[str, Any]] = None) -> Flow[None]:
        yield from self.send(method, path, members)

    def pages(self, path: str, query: Mapping[str, Any], limit: Optional[int] = None) -> Flow[List[Document]]:
        """All items of a list, or the first `limit`."""
        items: List[Document] = []
        cursor: Optional[str] = None
        while True:
            page = (yield from self.send("GET", path + query_string({**query, "cursor": cursor}))).json()
            items += [Document(item) for item in page["items"]]
            cursor = page.get("next")
            if cursor is None or (limit is not None and len(items) >= limit):
                return items[:limit]

    def observe(self, observations: Sequence[Mapping[str, Any]]) -> Flow[Document]:
        """Each gets an id, so a repeat counts none twice."""
        items = [{"id": new_key(), **observation} for observation in observations]
        return (yield from self.document("POST", "/v1/observations", {"items": items}))

    def pull(self, agent: str, wait: int) -> Flow[Optional[Response]]:
        response = yield from self.send("GET", f"/v1/agents/{segment(agent)}/inbox?wait={wait}s", wait=wait)
        return response if response.status == 200 else None

    def follow(self, agent: str, leases: int, last: Optional[str], silence: float) -> Request:
        """For the inbox as a stream of events, after the event `last`. It is not repeated as calls are."""
        query = query_string({"leases": leases if leases > 1 else None})
        request = Request("GET", f"/v1/agents/{segment(agent)}/inbox{query}", timeout=silence)
        request.headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        self.authorize(request)
        return request


def ending(timeout: Optional[float]) -> float:
    """When a call that may take `timeout` seconds has to end, by time.monotonic()."""
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout={timeout!r}: allowed is more than 0 seconds, or None for no limit")
    return math.inf if timeout is None else time.monotonic() + timeout


def is_over(end: float) -> bool:
    """Whether what is left is too short for anything."""
    return time.monotonic() >= end - 0.01


def query_string(query: Mapping[str, Any]) -> str:
    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)
    given = [f"{name}={quote(text(value), safe='')}" for name, value in query.items() if value is not None]
    return "?" + "&".join(given) if given else ""


def retry_after(response: Response) -> Optional[float]:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdigit() else None


def parts(endpoint: str) -> Tuple[str, str, int, str]:
    """(scheme, host, port, path prefix) of an endpoint; of unix:PATH ("unix", PATH, 0, "")."""
    if endpoint.startswith("unix:"):
        return "unix", endpoint[len("unix:"):], 0, ""
    scheme, separator, rest = endpoint.partition("://")
    if not separator or scheme not in ("http", "https"):
        raise ValueError(f"endpoint {endpoint!r}: allowed are http://HOST:PORT, https://HOST:PORT and unix:PATH")
    authority, _, path = rest.partition("/")
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, "443" if scheme == "https" else "80"
    if not host or not port.isdigit():
        raise ValueError(f"endpoint {endpoint!r}: allowed are http://HOST:PORT, https://HOST:PORT and unix:PATH")
    return scheme, host.strip("[]"), int(port), "/" + path.rstrip("/") if path.strip("/") else ""
