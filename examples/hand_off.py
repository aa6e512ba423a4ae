#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sending agent with the Python client (docs/clients.md): two steps of one task, and what can go wrong.

    python3 examples/hand_off.py analyst reviewer
"""

import sys

from handoff import HandoffError, MemorySpine, NotDeliveredError

first_agent, second_agent = sys.argv[1:]
with MemorySpine(source_agent="researcher") as spine:  # at $HANDOFF_API_URL
    spine.put_memory("gateway", "The gateway answers 429 under load and never charges twice")
    try:
        first = spine.hand_off(first_agent, "Compare the gateways", intent="Make the payments reliable",
                               memory_ids=["gateway"], constraints={"max_tokens": 2000})
        print(f"{first.id} {first.state} after {first.attempts} attempt(s)")
        second = spine.hand_off(second_agent, "Review the comparison", task_id=first.task_id, wait=False)
        print(f"{second.id} {second.state}: see handoffctl task {second.task_id}")
    except NotDeliveredError as error:  # accepted, and then parked or expired
        sys.exit(f"{error}; see handoffctl attempts {error.handoff.id}")
    except HandoffError as error:  # what passes was already repeated, under one idempotency key
        sys.exit(str(error))
