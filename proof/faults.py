# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, drawn from the seed: the same for every way of handing off.

A fault belongs to the handoff of a task to an agent, and says how that agent behaves each time the handoff arrives. To
add one: a row here; ACTS of receivers.py has what an agent can do.

The shares are chosen, not measured: we know of no published figures on how often agents fail. Together they are 14.5 % of the
handoffs, many more than in a working pipeline, so a run of minutes meets each of them often. --faults multiplies all of them,
and --forgets replaces FORGETS.
"""

import tasks

# name: share of handoffs that have it, and what the agent does at each arrival. After these, it takes the handoff.
FAULTS = {
    "late": (0.02, ["take, and answer too late"]),
    "answer lost": (0.02, ["take, and hang up"]),         # so it arrives twice
    "connection lost": (0.03, ["hang up"]),
    "unavailable": (0.04, ["503", "503"]),
    "dies with the work": (0.02, ["read, and hang up"]),
    "dead for a while": (0.01, ["hang up"] * 6),
    "refuses": (0.005, ["refuse"]),                       # until a person has looked at it
}
FORGETS = 0.005  # share of handoffs before which the spine loses one of the task's memories; chosen as well


def drawn(seed, number, agent, scale=1.0):
    """(name, behaviour at each arrival) of the handoff of a task to an agent."""
    chance = tasks.draw(seed, "fault", number, agent).random()
    for name, (share, behaviour) in FAULTS.items():
        chance -= share * scale
        if chance < 0:
            return name, list(behaviour)
    return "none", []


def forgotten(seed, task, agent, share):
    """The memory that the spine loses before this handoff, or None."""
    chance = tasks.draw(seed, "forget", task.number, agent)
    facts = [item for item in task.before(agent) if item.kind == "fact"]
    return chance.choice(facts) if chance.random() < share else None
