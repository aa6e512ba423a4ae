#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pipeline of four agents with the Python client, in one program (docs/clients.md).

    pip install ./clients/python
    python3 examples/pipeline.py        # beside a sidecar with pipeline.yml
"""
import threading
from handoff import MemorySpine, agent, serving

spine, done = MemorySpine(source_agent="user"), threading.Event()

@agent("researcher")
def research(handoff):
    spine.put_memory("gateway", "The gateway answers 429 under load and never charges twice")
    handoff.next("Decide how to retry", memory_ids=["gateway"])

@agent("analyst")
def analyse(handoff):
    handoff.next("Write the retries", state={"decisions": [f"Back off: {handoff.memories['gateway'].content}"]})

@agent("code-generator")
def write(handoff):
    handoff.next("Review the code", constraints={"must": ["cover the backoff with tests"]})

@agent("reviewer")
def review(handoff):
    print(handoff.task.intent, handoff.task.decisions, handoff.constraints, sep="\n")
    spine.complete_task(handoff.task_id)
    done.set()

with serving(research, analyse, write, review, spine=spine):
    spine.hand_off("researcher", "Read up on the gateway", intent="Safe payments", constraints={"max_retries": 3})
    done.wait()
