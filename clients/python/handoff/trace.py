# SPDX-License-Identifier: Apache-2.0
"""W3C Trace Context: a request continues the caller's trace, and a received handoff becomes the caller's trace.

OpenTelemetry is used if it can be imported. Without it, what an agent sends while it works on a handoff continues
the trace of that handoff.
"""

import contextlib
import contextvars
import importlib
from typing import Any, Dict, Iterator, Mapping, Optional

_received: "contextvars.ContextVar[Optional[Dict[str, str]]]" = contextvars.ContextVar("handoff_trace", default=None)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_propagate: Any = _module("opentelemetry.propagate")
_context: Any = _module("opentelemetry.context")


def headers() -> Dict[str, str]:
    """The headers that continue the current trace; empty without one."""
    found: Dict[str, str] = {}
    if _propagate is not None:
        _propagate.inject(found)
    return {name: value for name, value in (found or _received.get() or {}).items()
            if name in ("traceparent", "tracestate")}


@contextlib.contextmanager
def continued(received: Mapping[str, Optional[str]]) -> Iterator[None]:
    """Around the work on a handoff that came with these headers."""
    found = {name: value for name in ("traceparent", "tracestate") for value in [received.get(name)] if value}
    token = _received.set(found or None)
    attached = _context.attach(_propagate.extract(found)) if _context and _propagate and found else None
    try:
        yield
    finally:
        _received.reset(token)
        if attached is not None:
            _context.detach(attached)
