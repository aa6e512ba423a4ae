# SPDX-License-Identifier: Apache-2.0
"""The code samples of the specification, as printed, and the three changes that let them run."""

HANDOFF = '''\
# Initiate a handoff from an analysis agent to a code-generation agent
from memory_spine import MemorySpine

spine = MemorySpine(endpoint="http://127.0.0.1:8788")

# Build the handoff envelope
handoff = spine.agent_handoff(
    target_agent="code-generator",
    include_recent=20,  # Last 20 relevant memories
    include_pins=True,  # Always include pinned context
    task_summary="Implement the retry logic for the payment gateway "
                 "based on the analysis in memories ms-4821 through ms-4825. "
                 "Use exponential backoff with jitter. Max 3 retries.",
    constraints={
        "language": "python",
        "max_tokens": 4000,
        "security": "no plaintext credentials",
        "style": "follow existing patterns in src/payments/"
    },
    execution_history=[
        {"agent": "researcher", "action": "gathered API docs", "memory_id": "ms-4821"},
        {"agent": "analyst", "action": "identified failure modes", "memory_id": "ms-4824"},
        {"agent": "analyst", "action": "recommended retry strategy", "memory_id": "ms-4825"}
    ]
)

# The handoff object contains the full envelope
print(handoff.envelope_version)  # "2"
print(handoff.token_count)  # 3,247 (fits within budget)
print(handoff.memory_refs)  # ["ms-4821", "ms-4822", ... "ms-4825"]
'''

BROADCAST = '''\
# Broadcast handoff: one sender, multiple receivers
handoff_envelope = spine.agent_handoff(
    target_agent="broadcast",
    include_recent=15,
    task_summary="Research complete on OAuth 2.1 migration. "
                 "Findings stored in ms-7100 through ms-7108.",
    constraints={"deadline": "2026-01-30T00:00:00Z"}
)

# Publish to the handoff channel
channel = spine.get_channel("oauth-migration")
channel.publish(
    envelope=handoff_envelope,
    receivers=["code-generator", "test-writer", "doc-writer"],
    delivery="at-least-once"
)

# Each receiver picks up the envelope independently
# and works in parallel without blocking others
'''

ROBUST = '''\
# Robust handoff with retry and circuit breaker
import time


class HandoffError(Exception):
    pass


class CircuitOpenError(HandoffError):
    pass


class HandoffClient:
    def __init__(self, spine, max_retries=3, timeout=15):
        self.spine = spine
        self.max_retries = max_retries
        self.timeout = timeout
        self.failure_count = 0
        self.circuit_open = False
        self.circuit_reset_time = None

    def send_handoff(self, envelope, target_agent):
        # Circuit breaker: fast-fail if recent handoffs have failed
        if self.circuit_open:
            if time.time() < self.circuit_reset_time:
                raise CircuitOpenError(
                    f"Circuit open for {target_agent}. "
                    f"Resets at {self.circuit_reset_time}"
                )
            self.circuit_open = False
            self.failure_count = 0

        last_error = None
        for attempt in range(1, self.max_retries + 1):
            try:
                ack = self.spine.deliver_handoff(
                    envelope=envelope,
                    target=target_agent,
                    timeout=self.timeout
                )
                self.failure_count = 0  # Reset on success
                return ack
            except TimeoutError as e:
                last_error = e
                wait = min(2 ** attempt, 30)  # Exponential backoff
                time.sleep(wait)

        # All retries exhausted - open the circuit
        self.failure_count += 1
        if self.failure_count >= 3:
            self.circuit_open = True
            self.circuit_reset_time = time.time() + 60  # 1-min cooldown

        # Park the failed handoff for recovery
        self.spine.park_envelope(envelope, reason=str(last_error))
        raise HandoffError(
            f"Handoff to {target_agent} failed after "
            f"{self.max_retries} attempts: {last_error}"
        )
'''


def changed(sample, endpoint, deadline):
    """A sample with the import, the endpoint and the deadline that has passed replaced."""
    return (sample.replace("from memory_spine import", "from handoff import")
            .replace("http://127.0.0.1:8788", endpoint)
            .replace("2026-01-30T00:00:00Z", deadline))
