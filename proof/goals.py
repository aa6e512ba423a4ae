# SPDX-License-Identifier: Apache-2.0
"""The goals of the project, and whether a run met them.

A goal about a share is *met* if the share is on the right side of it, *missed* if the whole 95 % interval is on the wrong
side, and *open* in between: then more tasks are needed to tell. A goal that allows no exception is missed by the first one.
"""

import dataclasses

import tasks

STAGES = 5
HANDOFFS = len(tasks.AGENTS) - 1
KINDS = {"constraint": "constraints", "unresolved": "open questions"}   # that every agent has to have in front of it
FAILED, AT_HAND = 0.01, 0.99
MET, MISSED, OPEN = "met", "MISSED", "open"


@dataclasses.dataclass
class Goal:
    text: str
    way: str
    seen: str
    verdict: str


def check(results, needs):
    """Goals of the ways through the sidecar, in agents that need as many items as `needs` says at most."""
    ours = [result for result in results if result["ours"]]
    return [goal for result in ours for goal in (_gone(result), _counts(result), failed_for_context(result, max(needs)),
                                                 *_always(result), _worst_kind(result), *_tokens(result, ours))]


def _gone(result):
    gone = sum(row["fates"]["gone"] for row in result["by_agent"])
    items = sum(sum(row["fates"].values()) for row in result["by_agent"])
    return Goal("silently gone items: 0", result["title"], f"{gone} of {items:,}",
                MISSED if gone else MET)


def _counts(result):
    wrong = result["wrong_counts"]
    return Goal("wrong counts of omitted entries: 0", result["title"], f"{wrong} in {result['handoffs']:,}",
                MISSED if wrong else MET)


def failed_for_context(result, needs):
    row = next(row for row in result["by_length"] if row["agents"] == STAGES)["failed"][str(needs)]
    verdict = MET if row["share"] < FAILED else MISSED if row["low"] > FAILED else OPEN
    return Goal(f"failed for context at {STAGES} stages, {needs} needs: under {FAILED:.0%}", result["title"], _shown(row),
                verdict)


def _always(result):
    """What is in front of every agent, also of the last one."""
    last = result["by_agent"][-1]
    for kind in KINDS:
        fates = last["by_kind"][kind]
        total = sum(fates.values())
        yield Goal(f"{KINDS[kind]}: present after {HANDOFFS} handoffs, 100 %", result["title"],
                   f"{fates['present']:,} of {total:,}", MET if fates["present"] == total else MISSED)


def _worst_kind(result):
    """Of the kinds, since an average would hide a bad one."""
    kind, row = min(result["by_agent"][-1]["at_hand"].items(), key=lambda entry: entry[1]["share"])
    verdict = MET if row["share"] >= AT_HAND else MISSED if row["high"] < AT_HAND else OPEN
    return Goal(f"every kind: present or reachable after {HANDOFFS} handoffs, at least {AT_HAND:.0%}", result["title"],
                f"{kind} {_shown(row)}", verdict)


def _tokens(result, ours):
    """A sender that repeats nothing hands on no more than one that repeats everything."""
    careful = next((other for other in ours if other["name"] == "careful"), None)
    if careful is None or careful is result:
        return
    seen, limit = (one["by_agent"][STAGES - 2]["tokens"] for one in (result, careful))
    verdict = MET if seen["mean"] <= limit["mean"] else MISSED if seen["low"] > limit["high"] else OPEN
    yield Goal(f"tokens at agent {STAGES}: no more than for a sender that repeats everything", result["title"],
               f"{seen['mean']:,.0f} and {limit['mean']:,.0f}", verdict)


def _shown(row):
    return f"{100 * row['share']:.2f} ({100 * row['low']:.2f}-{100 * row['high']:.2f})"


def table(found):
    """A heading, and a row for each goal with what each way has of it."""
    ways = list(dict.fromkeys(goal.way for goal in found))
    cells = {(goal.text, goal.way): f"{goal.seen} {goal.verdict}" for goal in found}
    return [["goal", *ways], *([text, *(cells.get((text, way), "") for way in ways)]
                               for text in dict.fromkeys(goal.text for goal in found))]
