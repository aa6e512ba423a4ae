#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A receiving agent with the Python client (docs/clients.md). How handoffs reach it is one argument.

    python3 examples/agent.py reviewer inbox      # or stream, or http://127.0.0.1:9001
"""

import sys

from handoff import Refused, agent, serve

NAME, RECEIVE = sys.argv[1:]


@agent(NAME, receive=RECEIVE)
def work(handoff):
    """Your agent. What it returns is for you; returning acknowledges, and a repeat of the handoff does not come here."""
    if "reject" in handoff.constraints:
        raise Refused(f"not work for {NAME}")  # parked, for a person; any other exception is tried again
    lacks = handoff.still_missing()
    handoff.flag_gaps(lacks)  # the sender and the task show what it worked without
    print(f"{NAME} works for {handoff.source_agent}: {handoff.task.summary}", flush=True)
    for id, memory in handoff.memories.items():
        print(f"  {id}: {memory.text}", flush=True)
    if "then" in handoff.constraints:
        handoff.next("Go on", target_agent=handoff.constraints["then"])  # with the acknowledgement, in one commit


serve(work)
