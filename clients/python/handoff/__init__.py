# SPDX-License-Identifier: Apache-2.0
"""Handoffs between agents, through a handoff-exporter sidecar.

    from handoff import MemorySpine, agent, serve
"""

from .aio import AsyncChannel, AsyncMemorySpine
from .client import Channel, MemorySpine
from .documents import Completeness, Document, Envelope, Handoff, Memory, Publication
from .errors import (AuthenticationError, CircuitOpenError, ConflictError, HandoffError, HandoffTimeoutError,
                     InvalidRequestError, NotDeliveredError, NotFoundError, PermissionDeniedError, Refused,
                     UnavailableError, UnreachableError)
from .flows import Retry
from .receive import Agent, Serving, agent, serve, serving
from .received import Deferred, Memories, Received, Task
from .seen import Seen, SeenFile

__version__ = "0.1.0"

__all__ = [
    "Agent", "AsyncChannel", "AsyncMemorySpine", "AuthenticationError", "Channel", "CircuitOpenError", "Completeness",
    "ConflictError", "Deferred", "Document", "Envelope", "Handoff", "HandoffError", "HandoffTimeoutError",
    "InvalidRequestError", "Memories", "Memory", "MemorySpine", "NotDeliveredError", "NotFoundError",
    "PermissionDeniedError", "Publication", "Received", "Refused", "Retry", "Seen", "SeenFile", "Serving", "Task",
    "UnavailableError", "UnreachableError", "agent", "serve", "serving",
]
