# SPDX-License-Identifier: Apache-2.0
"""The judge: the fate of each item at each agent, from what the agents received and nothing else.

    python3 proof/judge.py TASKS RECEIVED

judges texts that came about without the proof, such as those of agents with a model. TASKS has the tasks as
`./scripts/proof --write-tasks` writes them, RECEIVED lines of {"task": ..., "agent": ..., "text": ...}: what that agent was
handed, whole. Prints a line of JSON for each: the fate of every item, and the needs that were not met.

An item is *present* if its token is in the text that the agent was handed; *reachable* if a fetch that the text
names returns it; *told* if the text lists it as missing, and no fetch returns it; *gone* otherwise, also if
the text promises a memory that is not there.
"""

import collections
import dataclasses
import json
import math
import statistics
import sys
import urllib.parse

import tasks

FATES = ["present", "reachable", "told", "gone"]
LOST = ["told", "gone"]

# Which failure of the taxonomy MAST (arXiv 2503.13657) follows from the loss of an item.
MAST = {
    "intent": "2.3 task derailment",
    "constraint": "2.4 information withholding",
    "subtle": "2.4 information withholding",
    "decision": "2.5 ignored other agent's input",
    "unresolved": "2.2 fail to ask for clarification",
    "fact": "1.4 loss of conversation history",
    "step": "1.3 step repetition",
}
NEVER_ARRIVED = "2.1 conversation reset"   # somebody has to begin again

# Where an envelope has the entries of a kind, and how it counts those that it omits. What is said in passing is part of a
# summary, and those of earlier hops are steps.
_COUNTED = {"decision": "decisions", "unresolved": "unresolved"}
_OMITTED_AS = {**_COUNTED, "step": "steps", "subtle": "steps"}


class Reading:
    """One agent's view of one task. Fetches what the text names, each path once."""

    def __init__(self, received):
        self.received = received
        self._fetched = {}
        envelope = received.envelope or {}
        self.omitted = {kind: count for kind, count in envelope.get("omitted", {}).items() if kind != "more"}
        self.more = envelope.get("omitted", {}).get("more")
        self.missing = {entry["id"] for entry in envelope.get("missing", [])}
        self.named = {*envelope.get("memory_refs", []), *(envelope.get("context", {}).get("references", []))}

    def fate(self, item):
        if item.token in self.received.text:
            return "present"
        if not self.received.envelope:
            return self._fate_in_plain_text(item)
        return self._fate_of_fact(item) if item.memory else self._fate_in_ledger(item)

    def _fate_in_plain_text(self, item):
        """Without an envelope, what can be fetched is what the text names by its id."""
        named = item.memory and self.received.fetch and item.memory in self.received.text
        return "reachable" if named and item.token in self._memory(item.memory) else "gone"

    def _fate_of_fact(self, item):
        listed = item.memory in self.named or "references" in self.omitted and item.memory in self._ledger()
        if listed or item.memory in self.missing:
            if item.token in self._memory(item.memory):
                return "reachable"
        return "told" if item.memory in self.missing else "gone"

    def _fate_in_ledger(self, item):
        """An agent reads the ledger for what the envelope says it omits, and has no reason to look for anything else."""
        counted = self.omitted.get(_OMITTED_AS.get(item.kind), 0)
        return "reachable" if counted and item.token in self._ledger() else "gone"

    def _memory(self, name):
        return self._get(f"/v1/memories/{urllib.parse.quote(name, safe='')}")

    def _ledger(self):
        """All pages of what the envelope omits, as text; nothing if it names no path."""
        text, path = "", self.more
        while path:
            page = self._get(path)
            text += page
            cursor = json.loads(page).get("next") if page else None
            path = f"{self.more}?cursor={urllib.parse.quote(cursor, safe='')}" if cursor else None
        return text

    def _get(self, path):
        if path not in self._fetched:
            status, document = self.received.fetch(path)
            self._fetched[path] = json.dumps(document, ensure_ascii=False) if status == 200 else ""
        return self._fetched[path]

    def wrong_counts(self, task, agent):
        """Kinds whose number in `omitted` is not the number of entries that are not in the text."""
        if not self.received.envelope:
            return []
        hidden = collections.Counter(item.kind for item in task.before(agent)
                                     if item.token not in self.received.text)
        wrong = [kind for kind, name in _COUNTED.items() if hidden[kind] != self.omitted.get(name, 0)]
        handed = sum(1 for step in self.received.envelope["context"].get("history", [])
                     if step["action"].startswith("handed to "))
        steps = hidden["step"] + (agent - 1) - handed
        return wrong + (["step"] if steps != self.omitted.get("steps", 0) else [])


@dataclasses.dataclass
class Stage:
    """What one agent of one task received."""
    agent: int
    fates: dict            # (kind, hops since it was said) -> how many items had each of FATES
    tokens: int
    seconds: float
    failed: dict           # number of needs -> (item, fate) of the first need that was not met, or absent
    wrong_counts: list
    notes: tuple
    lost: tuple = ()       # tokens of the items that this agent neither has nor can fetch


@dataclasses.dataclass
class Verdict:
    """One task, handed on in one way."""
    task: str
    stages: list = dataclasses.field(default_factory=list)
    lost_at: int = None    # the agent that it never reached

    def failure(self, needs):
        """What made it fail for context, at the first agent that it did: None if nothing."""
        for stage in self.stages:
            if needs in stage.failed:
                item, fate = stage.failed[needs]
                lost = next(earlier.agent for earlier in self.stages if item.token in earlier.lost)
                return {"task": self.task, "mode": MAST[item.kind], "kind": item.kind, "item": item.token, "fate": fate,
                        "said_by": tasks.AGENTS[item.agent], "lost_before": tasks.AGENTS[lost],
                        "needed_by": tasks.AGENTS[stage.agent], "handoffs": lost - item.agent}
        return None


def judge(task, agent, received, seconds, needs):
    """(Stage, the tokens that the agent knows now), for agents that need each of these numbers of items."""
    reading = Reading(received)
    fates = collections.defaultdict(lambda: [0] * len(FATES))
    found = {}
    for item in task.before(agent):
        found[item.token] = reading.fate(item)
        fates[item.kind, agent - item.agent][FATES.index(found[item.token])] += 1
    items = {item.token: item for item in task.items}
    failed = {}
    for count in needs:
        unmet = [token for token in task.needs[agent][:count] if found[token] in LOST]
        if unmet:
            failed[count] = items[unmet[0]], found[unmet[0]]
    # An agent knows what it was handed, and what it needed and fetched.
    known = {token for token, fate in found.items()
             if fate == "present" or fate == "reachable" and token in task.needs[agent]}
    counts = {key: tuple(row) for key, row in fates.items()}
    lost = tuple(token for token, fate in found.items() if fate in LOST)
    stage = Stage(agent, counts, received.tokens, seconds, failed, reading.wrong_counts(task, agent), received.notes, lost)
    return stage, known


# ---- intervals of 95 %

Z = 1.96


def interval(hits, of, z=Z):
    """Of a share, after Wilson."""
    if of == 0:
        return 0.0, 1.0
    share = hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    spread = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return max(0.0, middle - spread), min(1.0, middle + spread)


def interval_of_mean(values):
    """Of a mean, by the normal distribution."""
    if len(values) < 2:
        return -math.inf, math.inf
    half = Z * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values) - half, statistics.fmean(values) + half


def interval_of_median(values):
    """Of a median, by the ranks that it can have."""
    if not values:
        return -math.inf, math.inf
    ordered, half = sorted(values), Z * math.sqrt(len(values)) / 2
    low, high = math.floor(len(values) / 2 - half), math.ceil(len(values) / 2 + half)
    return ordered[max(low, 0)], ordered[min(high, len(values) - 1)]


# ---- texts that came about without the proof

@dataclasses.dataclass
class _Text:
    """As ways.Received, of a text alone."""
    text: str
    envelope: dict = None
    fetch: object = None


def judge_line(task, agent, text):
    """The fate of each item that was said before this agent, by its token, and what it needed and did not get."""
    reading = Reading(_Text(text))
    fates = {item.token: reading.fate(item) for item in task.before(agent)}
    return {"task": task.name, "agent": tasks.AGENTS[agent], "fates": fates,
            "unmet": [token for token in task.needs[agent] if fates[token] != "present"]}


def main(arguments):
    if len(arguments) != 2:
        print("usage: judge.py TASKS RECEIVED", file=sys.stderr)
        return 2
    with open(arguments[0], encoding="utf-8") as lines:
        known = {task.name: task for task in map(tasks.read_line, lines)}
    with open(arguments[1], encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            received = json.loads(line)
            if received.get("task") not in known or received.get("agent") not in tasks.AGENTS[1:]:
                print(f"{arguments[1]}:{number}: task must be one of {arguments[0]}, and agent one of "
                      f"{', '.join(tasks.AGENTS[1:])}", file=sys.stderr)
                return 1
            agent = tasks.AGENTS.index(received["agent"])
            print(json.dumps(judge_line(known[received["task"]], agent, received["text"])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
