# SPDX-License-Identifier: Apache-2.0
"""AsyncMemorySpine: MemorySpine for asyncio. Generated from client.py by generate_aio.py.

    spine = AsyncMemorySpine(endpoint="http://127.0.0.1:8780", source_agent="analyst")
    handoff = await spine.hand_off("code-generator", "Write the retry logic", constraints={"max_tokens": 4000})
"""

import os
import asyncio
import ssl
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type, Union

from .documents import Document, Envelope, Handoff, Memory, Publication
from .flows import Calls, Flow, Pause, Response, Retry, T, query_string, segment
from .errors import UnreachableError
from .settings import Settings, Token
from .aio_transport import AsyncTransport

Named = Union[str, Envelope, Handoff]  # a handoff or an envelope, or its id


class AsyncMemorySpine:
    """A sidecar, as an agent uses it. It belongs to one event loop.

    endpoint      http://HOST:PORT, https://HOST:PORT or unix:PATH; default $HANDOFF_API_URL, then
                  http://127.0.0.1:8780
    source_agent  who sends; default $HANDOFF_SOURCE_AGENT. Not needed if the token or `api.source_agent` says it
    token         a bearer token. Or token_file, which is read again when it changes; default $HANDOFF_TOKEN_FILE
    tls           an ssl.SSLContext for https
    retry         how calls are repeated that failed for a passing reason
    """

    def __init__(self, endpoint: Optional[str] = None, *, source_agent: Optional[str] = None,
                 token: Optional[str] = None, token_file: Optional[str] = None,
                 tls: Optional[ssl.SSLContext] = None, retry: Optional[Retry] = None) -> None:
        file = token_file or os.environ.get("HANDOFF_TOKEN_FILE")
        self._use(Settings(endpoint, source_agent, Token(token, file), tls, retry or Retry()))

    def _use(self, settings: Settings) -> None:
        self.settings = settings
        self.source_agent = settings.source_agent
        self._calls = Calls(settings.retry, settings.source_agent, settings.token.current)
        self._transport = AsyncTransport(settings.endpoint, settings.tls)

    def copy(self, *, source_agent: Optional[str] = None, retry: Optional[Retry] = None) -> "AsyncMemorySpine":
        """The same sidecar over connections of its own, for another agent or with another policy of retries."""
        old = self.settings
        copy = AsyncMemorySpine.__new__(AsyncMemorySpine)
        copy._use(Settings(old.endpoint, source_agent or old.source_agent, old.token, old.tls, retry or old.retry))
        return copy

    async def close(self) -> None:
        """Closes the connections; calls in progress fail."""
        await self._transport.close()

    async def __aenter__(self) -> "AsyncMemorySpine":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        await self.close()

    async def _run(self, flow: Flow[T]) -> T:
        response: Optional[Response] = None
        error: Optional[UnreachableError] = None
        while True:
            try:
                step = flow.throw(error) if error else flow.send(response) if response else next(flow)
            except StopIteration as end:
                result: T = end.value
                return result
            response, error = None, None
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                continue
            try:
                response = await self._transport.exchange(step)
            except UnreachableError as unreachable:
                error = unreachable

    # ---- handing off

    async def agent_handoff(
            self, target_agent: str, task_summary: str, *, source_agent: Optional[str] = None,
            task_id: Optional[str] = None, intent: Optional[str] = None, state: Optional[Mapping[str, Any]] = None,
            memory_ids: Optional[Sequence[str]] = None, include_recent: Optional[int] = None,
            include_pins: Optional[bool] = None, constraints: Optional[Mapping[str, Any]] = None,
            execution_history: Optional[Sequence[Mapping[str, Any]]] = None,
            expected_output: Optional[Mapping[str, Any]] = None, strategy: Optional[str] = None,
            previous_id: Union[None, str, Sequence[str]] = None, new_chain: Optional[bool] = None,
            scope: Union[None, str, Sequence[str]] = None, pattern: Optional[str] = None,
            channel: Optional[str] = None, pipeline: Optional[str] = None,
            extra: Optional[Mapping[str, Any]] = None) -> Envelope:
        """Assembles the envelope of a handoff and delivers nothing; see deliver_handoff() and AsyncChannel.publish().

        docs/envelope.md explains the fields. `extra` has fields that this version does not know.
        """
        return await self._run(self._calls.assemble(locals()))

    async def hand_off(
            self, target_agent: str, task_summary: str, *, source_agent: Optional[str] = None,
            task_id: Optional[str] = None, intent: Optional[str] = None, state: Optional[Mapping[str, Any]] = None,
            memory_ids: Optional[Sequence[str]] = None, include_recent: Optional[int] = None,
            include_pins: Optional[bool] = None, constraints: Optional[Mapping[str, Any]] = None,
            execution_history: Optional[Sequence[Mapping[str, Any]]] = None,
            expected_output: Optional[Mapping[str, Any]] = None, strategy: Optional[str] = None,
            previous_id: Union[None, str, Sequence[str]] = None, new_chain: Optional[bool] = None,
            scope: Union[None, str, Sequence[str]] = None, pattern: Optional[str] = None,
            channel: Optional[str] = None, pipeline: Optional[str] = None,
            extra: Optional[Mapping[str, Any]] = None, timeout: Optional[float] = None, wait: bool = True,
            idempotency_key: Optional[str] = None) -> Handoff:
        """Assembles and delivers a handoff, and waits until the receiver acknowledged it.

        Raises NotDeliveredError if it ended otherwise, HandoffTimeoutError (a TimeoutError) after `timeout` seconds,
        while the delivery continues. With wait=False it returns as soon as the handoff is durable.
        """
        fields = {name: value for name, value in locals().items() if name not in ("timeout", "wait", "idempotency_key")}
        return await self._run(self._calls.hand_off(fields, idempotency_key, timeout, wait))

    async def deliver_handoff(self, envelope: Named, target: Optional[str] = None, timeout: Optional[float] = None,
                        *, wait: bool = True) -> Handoff:
        """Delivers an assembled envelope and waits for the acknowledgement, as hand_off() does.

        An envelope has one handoff: a repeat waits for the same one. `target` is checked against the envelope.
        """
        addressed = envelope.target_agent if isinstance(envelope, Envelope) else None
        return await self._run(self._calls.deliver(_id(envelope), addressed, target, timeout, wait))

    async def park_envelope(self, envelope: Named, reason: str) -> Handoff:
        """Keeps an envelope, delivered or not, for a person to replay or discard."""
        return await self._run(self._calls.park_envelope(_id(envelope), reason))

    def get_channel(self, name: str) -> "AsyncChannel":
        return AsyncChannel(self, name)

    async def complete_task(self, task_id: str) -> Document:
        return await self._run(self._calls.document("POST", f"/v1/tasks/{segment(task_id)}/complete", {}))

    # ---- reading

    async def get_handoff(self, handoff: Named) -> Handoff:
        return await self._run(self._calls.handoff("GET", f"/v1/handoffs/{segment(_id(handoff))}"))

    async def get_envelope(self, handoff: Named) -> Envelope:
        return await self._run(self._calls.envelope(f"/v1/envelopes/{segment(_id(handoff))}"))

    async def get_brief(self, handoff: Named) -> str:
        """The envelope as Markdown, for a prompt."""
        return await self._run(self._calls.text(f"/v1/envelopes/{segment(_id(handoff))}", "text/markdown"))

    async def get_ledger(self, envelope: Named, kind: Optional[str] = None) -> List[Document]:
        """Everything that the hops of its chain have said, also what the envelope had no room for."""
        return await self._run(self._calls.pages(f"/v1/envelopes/{segment(_id(envelope))}/ledger", {"kind": kind}))

    async def get_task(self, task_id: str) -> List[Handoff]:
        """The handoffs of a task, in order of acceptance."""
        found = await self._run(self._calls.pages(f"/v1/tasks/{segment(task_id)}", {}))
        return [Handoff(item) for item in found]

    async def list_handoffs(self, *, state: Optional[str] = None, source: Optional[str] = None,
                      target: Optional[str] = None, task: Optional[str] = None, since: Optional[str] = None,
                      limit: Optional[int] = None) -> List[Handoff]:
        query = {"state": state, "source": source, "target": target, "task": task, "since": since}
        return [Handoff(item) for item in await self._run(self._calls.pages("/v1/handoffs", query, limit))]

    async def list_attempts(self, handoff: Named) -> List[Document]:
        return await self._run(self._calls.pages(f"/v1/handoffs/{segment(_id(handoff))}/attempts", {}))

    async def list_agents(self) -> List[Document]:
        return await self._run(self._calls.pages("/v1/agents", {}))

    # ---- acknowledging, for the agent that has the handoff

    async def ack_handoff(self, handoff: Named, *, next: Optional[Mapping[str, Any]] = None,
                    missing: Optional[Sequence[str]] = None) -> Handoff:
        """Acknowledges. `next` is a request, with which the task is handed on in the same commit; `missing` are memories
        that the agent worked without."""
        members: Dict[str, Any] = {} if next is None else {"next": self._calls.request(next)}
        if missing:
            members["missing"] = list(missing)
        return await self._run(self._calls.handoff("POST", f"/v1/handoffs/{segment(_id(handoff))}/ack", members))

    async def nack_handoff(self, handoff: Named, reason: str = "", *, retry: bool = True) -> Handoff:
        """Declines. The handoff is tried again, or parked if `retry` is false."""
        members = {"reason": reason[:1000], "retry": retry}
        return await self._run(self._calls.handoff("POST", f"/v1/handoffs/{segment(_id(handoff))}/nack", members))

    async def extend_handoff(self, handoff: Named, progress: Optional[str] = None) -> Handoff:
        """Gets more time to acknowledge, and reports progress."""
        members: Dict[str, Any] = {} if progress is None else {"progress": progress}
        return await self._run(self._calls.handoff("POST", f"/v1/handoffs/{segment(_id(handoff))}/extend", members))

    async def recover_memories(self, handoff: Named, ids: Optional[Sequence[str]] = None, *,
                         missing: bool = False) -> Document:
        """Fetches memories directly, as they are now: those with these ids, and with `missing` all that it lacks.
        The answer has `found` and `missing`."""
        members: Dict[str, Any] = {"missing": missing}
        if ids is not None:
            members["ids"] = list(ids)
        return await self._run(self._calls.document("POST", f"/v1/handoffs/{segment(_id(handoff))}/memories", members))

    async def flag_gaps(self, handoff: Named, missing: Sequence[str]) -> Document:
        """Says which memories the agent works without; its sender and the task show them."""
        members = {"missing": list(missing)}
        return await self._run(self._calls.document("POST", f"/v1/handoffs/{segment(_id(handoff))}/gaps", members))

    async def pull_handoff(self, agent: str, wait: int = 20) -> Optional[Response]:
        """The next handoff of an inbox, as it came, or None. serve() does this for you."""
        return await self._run(self._calls.pull(agent, wait))

    # ---- taking back

    async def cancel_handoff(self, handoff: Named, reason: str = "") -> Handoff:
        members = {"reason": reason}
        return await self._run(self._calls.handoff("POST", f"/v1/handoffs/{segment(_id(handoff))}/cancel", members))

    # ---- memories

    async def put_memory(self, id: str, content: str, *, summary: Optional[str] = None, importance: Optional[str] = None,
                   tags: Optional[Sequence[str]] = None, metadata: Optional[Mapping[str, Any]] = None,
                   pinned: Optional[bool] = None, agent: Optional[str] = None, scope: Optional[str] = None,
                   task_id: Optional[str] = None) -> Memory:
        """Stores a memory; it replaces one with the same id."""
        given = {"content": content, "summary": summary, "importance": importance, "tags": tags, "metadata": metadata,
                 "pinned": pinned, "agent": agent, "scope": scope, "task_id": task_id}
        members = {name: value for name, value in given.items() if value is not None}
        return await self._run(self._calls.memory("PUT", f"/v1/memories/{segment(id)}", members))

    async def get_memory(self, id: str) -> Memory:
        return await self._run(self._calls.memory("GET", f"/v1/memories/{segment(id)}"))

    async def search_memories(self, query: str, *, limit: int = 20, scope: Optional[str] = None) -> List[Memory]:
        """The memories that fit the text, the most relevant first."""
        asked = {"query": query, "scope": scope, "limit": min(limit, 1000)}
        return [Memory(item) for item in await self._run(self._calls.pages("/v1/memories", asked, limit))]

    async def list_memories(self, *, pinned: Optional[bool] = None, scope: Optional[str] = None,
                      limit: Optional[int] = None) -> List[Memory]:
        asked = {"pinned": pinned, "scope": scope}
        return [Memory(item) for item in await self._run(self._calls.pages("/v1/memories", asked, limit))]

    async def delete_memory(self, id: str) -> None:
        await self._run(self._calls.nothing("DELETE", f"/v1/memories/{segment(id)}"))

    async def pin_memory(self, id: str) -> Memory:
        return await self._run(self._calls.memory("PUT", f"/v1/memories/{segment(id)}/pin"))

    async def unpin_memory(self, id: str) -> Memory:
        return await self._run(self._calls.memory("DELETE", f"/v1/memories/{segment(id)}/pin"))

    # ---- handoffs that were made without the sidecar

    async def observe(self, observations: Sequence[Mapping[str, Any]]) -> Document:
        """Reports handoffs that agents made by other means, for the metrics; docs/observations.md has the fields."""
        return await self._run(self._calls.observe(observations))

    async def request(self, method: str, path: str, members: Optional[Mapping[str, Any]] = None,
                query: Optional[Mapping[str, Any]] = None) -> Document:
        """Any other call of docs/api.md, with the same retries and errors."""
        return await self._run(self._calls.document(method, path + query_string(query or {}), members))


class AsyncChannel:
    """A channel: one envelope, and a separate handoff for each receiver."""

    def __init__(self, spine: AsyncMemorySpine, name: str) -> None:
        self.spine = spine
        self.name = name

    async def publish(self, envelope: Optional[Named] = None, receivers: Optional[Sequence[str]] = None,
                delivery: str = "at-least-once", *, request: Optional[Mapping[str, Any]] = None,
                timeout: Optional[float] = None, idempotency_key: Optional[str] = None) -> Publication:
        """Publishes an assembled envelope, or a request. Returns once it is durable for all receivers; with `timeout`,
        when no delivery is in progress, or after that many seconds."""
        if delivery != "at-least-once":
            raise ValueError(f"delivery={delivery!r}: allowed is 'at-least-once'")
        if (envelope is None) == (request is None):
            raise TypeError("publish() takes an envelope or a request")
        calls = self.spine._calls
        members: Dict[str, Any] = {"request": calls.request(request)} if request is not None else {}
        if envelope is not None:
            members["envelope_id"] = _id(envelope)
        if receivers is not None:
            members["receivers"] = receivers if isinstance(receivers, str) else list(receivers)
        return await self.spine._run(calls.publish(self.name, members, idempotency_key, timeout))

    async def subscribe(self, agent: str, since: str = "now") -> Document:
        """Makes an agent a receiver, durably. It gets what is published from `since`: "now", "all" or an RFC 3339 time."""
        path = f"/v1/channels/{segment(self.name)}/receivers/{segment(agent)}"
        return await self.spine._run(self.spine._calls.document("PUT", path, {"from": since}))

    async def unsubscribe(self, agent: str) -> Document:
        """Lets an agent leave the channel. What is pending for it stays."""
        path = f"/v1/channels/{segment(self.name)}/receivers/{segment(agent)}"
        return await self.spine._run(self.spine._calls.document("DELETE", path))

    async def get_publication(self, publication: Union[str, Publication]) -> Publication:
        """The state of each delivery."""
        id = publication if isinstance(publication, str) else publication.id
        path = f"/v1/channels/{segment(self.name)}/publications/{segment(id)}"
        return Publication(await self.spine._run(self.spine._calls.document("GET", path)))


def _id(named: Named) -> str:
    return named if isinstance(named, str) else named.id
