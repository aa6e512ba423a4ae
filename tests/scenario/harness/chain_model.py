# SPDX-License-Identifier: Apache-2.0
"""A model of the ledger in plain Python, written from the specification and not from the code.

A Task records each request and the envelope it produced. It computes what an agent's next request continues and the
ledger of each envelope; check_envelope() compares an envelope with it. The model knows neither the store nor how a
budget is filled, only the result: each item is present as supplied or counted in `omitted`, and nothing else is in
the envelope.
"""

import json
import re

LISTS = {"decisions": "decision", "unresolved": "unresolved", "remaining": "remaining"}
OVER = {"unresolved": "resolved", "remaining": "done"}
RANGE = re.compile(r"\b([a-z]+-)(\d+) through \1(\d+)\b")
ID = re.compile(r"\b[a-z]+-\d+\b")


class Fault(AssertionError):
    """The product differs from the model."""


def require(condition, *said):
    if not condition:
        raise Fault(" ".join(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False) for text in said))


def key(entry):
    """Entries with the same one are equal."""
    return entry.strip() if isinstance(entry, str) else json.dumps(entry, sort_keys=True)


def united(entries):
    """Each once, at its first place."""
    seen = {}
    for entry in entries:
        seen.setdefault(key(entry), entry)
    return list(seen.values())


def takes_out(over, entry):
    """Whether an entry of `resolved` or `done` refers to this one."""
    if key(over) == key(entry):
        return True
    name = entry.get("id") if isinstance(entry, dict) else None
    return name is not None and name == (over.get("id") if isinstance(over, dict) else over)


def without_reason(step):
    return {name: value for name, value in step.items() if name != "reason"}


def is_told(step, summary):
    """Whether a step of the history is this earlier summary."""
    agent, target, text = summary
    return step["agent"] == agent and target in step["action"] and step["action"].endswith(text)


class Hop:
    """One envelope and what its request supplied."""

    def __init__(self, request, parents, first, place):
        self.request = request
        self.parents = parents        # newest first
        self.first = first            # of the task, where this one begins a branch of it; else None
        self.place = place            # in the order of acceptance
        self.hop = 1 + max((parent.hop for parent in parents), default=0)
        self.id = None
        self.replaced = False

    def supplied(self, kind):
        return self.request.get("state", {}).get(kind, [])

    def steps(self):
        return self.request.get("execution_history", [])

    def constraints(self):
        return self.request.get("constraints", {})

    def references(self, exists):
        """Ids requested or named by a step, and those in a text that exist."""
        asked = list(self.request.get("memory_ids", []))
        asked += [step["memory_id"] for step in self.steps() if "memory_id" in step]
        for text in self.request["task_summary"], self.request.get("intent", ""):
            for head, low, high in RANGE.findall(text):
                asked += [name for name in (f"{head}{i}" for i in range(int(low), int(high) + 1)) if exists(name)]
            asked += [name for name in ID.findall(text) if exists(name)]
        return list(dict.fromkeys(asked))


class Ledger:
    """The union over an envelope's ancestors and itself, oldest first."""

    def __init__(self, hop, exists):
        self.hop = hop
        self.exists = exists
        seen, queue = set(), [hop]
        while queue:
            at = queue.pop()
            if at not in seen:
                seen.add(at)
                queue += at.parents
        self.hops = sorted((at for at in seen if not at.replaced), key=lambda at: (at.hop, at.place))
        self.earlier = [at for at in self.hops if at is not hop]

    def intents(self):
        """That of the first request; of chains that began separately and were joined, any."""
        begins = [at.first or at for at in self.hops if not at.parents]
        return {at.request.get("intent", at.request["task_summary"]) for at in begins}

    def list(self, kind):
        """Entries of a list of the state, without those that are resolved or done."""
        entries = []
        for at in self.hops:
            for over in at.supplied(OVER.get(kind)):
                entries = [entry for entry in entries if not takes_out(over, entry)]
            entries = united([*entries, *at.supplied(kind)])
        return entries

    def members(self):
        """progress and other members of the state: the newest of each."""
        newest = {}
        for at in self.hops:
            newest.update({name: value for name, value in at.request.get("state", {}).items()
                           if name not in LISTS and name not in OVER.values()})
        return newest

    def steps(self):
        """Those supplied, each once; one that is sent again may lack its reason, or be an earlier summary."""
        told, seen = self.summaries(), {}
        for step in (step for at in self.hops for step in at.steps()):
            if not any(is_told(step, entry) for entry in told):
                seen.setdefault(key(without_reason(step)), step)
        return list(seen.values())

    def summaries(self):
        """[(agent, target, text)] of the earlier hops."""
        return [(at.request["source_agent"], at.request["target_agent"], at.request["task_summary"])
                for at in self.earlier]

    def references(self):
        """id -> the hop that first asked for it"""
        since = {}
        for at in self.hops:
            for name in at.references(self.exists):
                since.setdefault(name, at.hop)
        return since

    def constraints(self):
        """Without max_tokens, which is a budget."""
        begun = [at.first for at in self.hops if at.first]
        joined = {}
        for at in [*dict.fromkeys(begun), *self.hops]:
            tighten(joined, at.constraints())
        joined.pop("max_tokens", None)
        return joined

    def budgets(self):
        """What max_tokens may be: the request's; otherwise an ancestor's, or perhaps that of the task's first."""
        own = self.hop.constraints().get("max_tokens")
        if own is not None:
            return {own}
        inherited = {at.constraints().get("max_tokens") for at in self.earlier} - {None}
        first = {at.first.constraints().get("max_tokens") for at in self.hops if at.first}
        return inherited | first | (set() if inherited else {None})

    def outputs(self):
        return [at.request["expected_output"] for at in self.hops if at.request.get("expected_output")]


def tighten(joined, added):
    for name, value in added.items():
        if name not in joined or name == "max_tokens":
            joined[name] = list(value) if isinstance(value, list) else value
        elif isinstance(value, list):
            joined[name] = united([*joined[name], *value])
        else:
            joined[name] = (max if name.startswith("min_") else min)(joined[name], value)


class Task:
    """The hops of one task."""

    def __init__(self, name, exists=lambda name: False):
        self.name = name
        self.exists = exists
        self.hops = []

    # ---- who continues what

    def continued(self, agent):
        """What a request of this agent without previous_id continues, newest first; None: it is not a party."""
        addressed = [hop for hop in self.hops if hop.request["target_agent"] == agent and not hop.replaced]
        continued = {parent for hop in self.hops for parent in hop.parents}
        waiting = [hop for hop in addressed if hop not in continued]
        if waiting:
            return waiting[::-1]
        if addressed:
            return addressed[-1:]
        return [] if not self.hops or self.hops[0].request["source_agent"] == agent else None

    def add(self, request, parents):
        first = self.hops[0] if self.hops and not parents and not request.get("new_chain") else None
        hop = Hop(request, sorted(parents, key=lambda parent: -parent.place), first, len(self.hops))
        self.hops.append(hop)
        return hop

    def ledger(self, hop):
        return Ledger(hop, self.exists)


# ---- the checks -----------------------------------------------------------------------------------

KNOWN = {"unresolved", "decisions", "remaining", "state", "steps", "references", "more"}


def omitted(envelope):
    """Its counts, after checking the path."""
    counts = dict(envelope.get("omitted", {}))
    require(set(counts) <= KNOWN, "omitted has other names:", counts)
    if counts:
        path = f"/v1/envelopes/{envelope['id']}/ledger"
        require(counts.pop("more", None) == path, "the path in", envelope["omitted"])
        require(counts and all(count > 0 for count in counts.values()), "omitted counts nothing:", counts)
    return counts


def check_entries(kind, present, supplied, count):
    """Each is present as supplied, in the ledger's order, or counted; nothing else is present."""
    order = {key(entry): place for place, entry in enumerate(supplied)}
    places = []
    for entry in present:
        require(key(entry) in order, f"{kind} has what no ancestor supplied, or twice:", entry)
        require(entry == supplied[order[key(entry)]], f"{kind} is not as it was supplied:", entry)
        places.append(order.pop(key(entry)))
    require(places == sorted(places), f"{kind} is not oldest first:", present)
    require(len(order) == count,
            f"{kind}: {len(order)} of {len(supplied)} are gone, omitted counts {count}:", list(order))
    return order


def check_steps(present, ledger, count):
    """Steps may go without their reason; earlier summaries are steps as well."""
    supplied, summaries = ledger.steps(), ledger.summaries()
    left = {key(without_reason(step)): step for step in supplied}
    waiting, places = list(summaries), []
    for step in present:
        original = left.pop(key(without_reason(step)), None)
        if original:
            require(step.get("reason") in (None, original.get("reason")), "a step has another reason:", step)
            places.append(supplied.index(original))
            continue
        told = [entry for entry in waiting if is_told(step, entry)]
        require(told, "the history has what no ancestor said, or twice:", step)
        waiting.remove(told[0])
    require(places == sorted(places), "the history is not oldest first:", present)
    gone = len(left) + len(waiting)
    require(gone == count, f"{gone} of {len(supplied)} + {len(summaries)} steps are gone, omitted counts {count}:",
          list(left.values()), waiting)
    return left, waiting


def check_references(envelope, ledger, pins, count):
    """Requested = asked for by id, pinned or inherited; each is included, missing, or counted."""
    since = ledger.references()
    wanted = set(since) | set(pins)
    there = {memory["id"] for memory in envelope["context"].get("memories", [])}
    there |= set(envelope["context"].get("references", []))
    lost = {entry["id"]: entry for entry in envelope["missing"]}
    trimmed = {entry["id"] for entry in envelope["trimmed"]}
    require(not there & set(lost), "memories are both included and missing:", sorted(there & set(lost)))
    for name in wanted:
        require(ledger.exists(name) != (name in lost), f"{name} is missing and exists, or neither:", list(lost))
    for name, entry in lost.items():
        require(name in since, "a memory is missing that nobody asked for:", entry)
        require((entry["reason"], entry.get("since_hop")) == ("not_found", since[name]),
                f"since hop {since[name]}:", entry)
    gone = wanted - there - set(lost)
    require(len(gone) == count, f"{len(gone)} references are gone, omitted counts {count}:", sorted(gone))
    require(trimmed & wanted <= gone, "memories are both included and trimmed:", sorted(trimmed & wanted - gone))
    found = there - wanted
    require(len(found) <= ledger.hop.request.get("include_recent", 0), "memories that nobody asked for:", sorted(found))
    require(set(envelope["memory_refs"]) == there, "memory_refs differ from the memories:", envelope["memory_refs"])
    included = len(wanted) - len(set(lost) & wanted) - len(gone)
    said = envelope["completeness"]
    require((said["requested"], said["included"]) == (len(wanted), included),
          f"completeness is {included} of {len(wanted)}:", said)
    require(abs(said["ratio"] - (included / len(wanted) if wanted else 1)) < 0.001, "the ratio:", said)
    return gone


def check_constraints(envelope, ledger):
    found = dict(envelope["context"].get("constraints", {}))
    budget = found.pop("max_tokens", None)
    wanted = ledger.constraints()
    require(set(found) == set(wanted), "constraints differ:", sorted(found), "and", sorted(wanted))
    for name, value in wanted.items():
        same = found[name] == value
        if isinstance(value, list):
            same = sorted(map(key, found[name])) == sorted(map(key, value))
        require(same, f"the constraint {name}:", found[name], "must be", value)
    allowed = ledger.budgets()
    require(budget in allowed, f"max_tokens is {budget}, allowed are", list(allowed))
    require(budget is None or envelope["tokens"]["budget"] <= budget, "the budget:", envelope["tokens"])
    require(envelope["tokens"]["count"] <= envelope["tokens"]["budget"], "over its budget:", envelope["tokens"])


def check_links(envelope, hop):
    require([parent["id"] for parent in envelope.get("parents", [])] == [parent.id for parent in hop.parents],
          "the parents:", envelope.get("parents"), "must be", [parent.id for parent in hop.parents])
    previous = envelope["previous"]
    require((previous or {}).get("id") == (hop.parents[0].id if hop.parents else None), "previous:", previous)
    require(envelope["hop"]["count"] == hop.hop, f"hop {hop.hop}:", envelope["hop"])
    require(len(envelope["hop"]["path"]) == hop.hop - 1, "the path:", envelope["hop"])


def check_envelope(envelope, ledger, pins=()):
    """Raises Fault; returns what `more` must list: {kind of the ledger: [value]}."""
    task, counts = envelope["context"]["task"], omitted(envelope)
    state = task.get("state", {})
    check_links(envelope, ledger.hop)
    require(task["intent"] in ledger.intents(), "the intent:", task["intent"], "must be", list(ledger.intents()))
    require(task["summary"] == ledger.hop.request["task_summary"], "the summary:", task["summary"])
    check_constraints(envelope, ledger)
    gone = {}
    for kind, item in LISTS.items():
        gone[item] = [entry for entry in ledger.list(kind) if key(entry) in
                      check_entries(kind, state.get(kind, []), ledger.list(kind), counts.get(kind, 0))]
    shown = {name: value for name, value in state.items() if name not in LISTS}
    told = 0  # what this hop took out may be told to its receiver, and may be omitted
    for over in OVER.values():
        told += over not in shown and bool(ledger.hop.supplied(over))
        require(shown.pop(over, None) in (None, ledger.hop.supplied(over)), f"{over} is another hop's:", state)
    members = ledger.members()
    require(shown == {name: members.get(name) for name in shown}, "members of the state:", shown, "of", members)
    lost, count = len(members) - len(shown), counts.get("state", 0)
    require(lost <= count <= lost + told, f"{lost} members of the state are gone, omitted counts {count}:", members)
    gone["state"] = [value for name, value in members.items() if name not in shown]
    gone["step"] = list(check_steps(envelope["context"].get("history", []), ledger, counts.get("steps", 0))[0].values())
    gone["reference"] = sorted(check_references(envelope, ledger, pins, counts.get("references", 0)) - set(pins))
    output = envelope["context"].get("expected_output") or {}
    require(output == (ledger.hop.request.get("expected_output") or {}), "the expected output:", output)
    return gone


def check_ledger(items, ledger):
    """Items of GET .../ledger: every current item, with the hop and agent that supplied it, and none of siblings."""
    ids = {hop.id: hop for hop in ledger.hops}
    values = {}
    for item in items:
        hop = ids.get(item["envelope_id"])
        require(hop, "an item of no ancestor:", item)
        supplied_by = hop.hop, hop.request["source_agent"]
        require((item["hop"], item["agent"]) == supplied_by, "the item's hop and agent:", item)
        values.setdefault(item["kind"], []).append(item["value"])
    for kind, item in LISTS.items():
        found = [key(value) for value in values.get(item, [])]
        for entry in ledger.list(kind):
            require(key(entry) in found, f"the ledger lacks of {kind}:", entry)
    for step in ledger.steps():
        require(step in values.get("step", []), "the ledger lacks the step", step)
    for name in ledger.references():
        require(name in values.get("reference", []), "the ledger lacks the reference", name)
    texts = json.dumps([*values.get("summary", []), *values.get("step", [])], ensure_ascii=False)
    for hop in ledger.hops:
        require(hop.request["task_summary"] in texts, "the ledger lacks the summary", hop.request["task_summary"])
    for output in ledger.outputs():
        require(output in values.get("expected_output", []), "the ledger lacks the expected output", output)
    return values
