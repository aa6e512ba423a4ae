# SPDX-License-Identifier: Apache-2.0
"""A model of the ledger in plain Python, written from the specification and not from the code.

A Task records each request and the envelope it produced, and which envelope an edit replaced. It computes what an
agent's next request continues and the ledger of each envelope; check_envelope() compares an envelope with it. The
model knows neither the store nor how a budget is filled, only the result: each item is present as supplied or counted
in `omitted`, and nothing else is in the envelope.
"""

import copy
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


WHITE_SPACE = ("\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
               "\u202f\u205f\u3000")


def key(entry):
    """Entries with the same one are equal."""
    return entry.strip(WHITE_SPACE) if isinstance(entry, str) else f"json {json.dumps(entry, sort_keys=True)}"


def united(entries):
    """Each once, at its first place."""
    seen = {}
    for entry in entries:
        seen.setdefault(key(entry), entry)
    return list(seen.values())


def usable_id(value):
    """Agents give texts and numbers as ids of entries; whatever else they put there names nothing."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if number or (isinstance(value, str) and key(value)) else None


def takes_out(over, entry):
    """Whether an entry of `resolved` or `done` refers to this one."""
    if key(over) == key(entry):
        return True
    name = usable_id(entry.get("id")) if isinstance(entry, dict) else None
    named = usable_id(over.get("id") if isinstance(over, dict) else over)
    return name is not None and named is not None and key(name) == key(named)


def without_reason(step):
    return {name: value for name, value in step.items() if name != "reason"}


def sends_again(step, earlier):
    """Whether a step is an earlier one, perhaps without its reason."""
    return (key(without_reason(step)) == key(without_reason(earlier)) and
            step.get("reason") in (None, earlier.get("reason")))


def is_told(step, summary):
    """Whether a step of the history is this earlier summary."""
    agent, target, text, at = summary
    return (step["agent"] == agent and target in step["action"] and step["action"].endswith(text) and
            at in (None, step.get("at")))


def still_over(state, edited):
    """What a request had finished is finished after an edit, unless that lists it as open again."""
    return {over: [entry for entry in state[over]
                   if not any(takes_out(entry, opened) for opened in edited.get(kind, []))]
            for kind, over in OVER.items() if over in state}


class Hop:
    """One envelope and what its request supplied."""

    def __init__(self, request, parents, first, place):
        self.request = request
        self.parents = parents        # newest first
        self.first = first            # of the task, where this one begins a branch of it; else None
        self.place = place            # in the order of acceptance
        self.hop = 1 + max((parent.hop for parent in parents), default=0)
        self.id = None
        self.edits = None             # the envelope that it replaces
        self.edit = {}                # what the edit named
        self.replaced = None          # the edit
        self.intent = None            # as its envelope says,
        self.created_at = None        # and when it was made
        self.was_sent = True          # not only assembled

    def ancestors(self):
        """Without itself, with those that were replaced."""
        seen, queue = set(), list(self.parents)
        while queue:
            at = queue.pop()
            if at not in seen:
                seen.add(at)
                queue += at.parents
        return seen

    def effective(self):
        """Its constraints: what it inherits, each as tight as the tightest says, and its own."""
        if self.edits:
            joined = dict(self.edits.effective())
            joined.update({"deadline": value for name, value in self.edit.items() if name == "deadline"})
            tighten(joined, {name: value for name, value in self.edit.items() if name != "deadline"})
            return joined
        joined = {}
        for parent in [*reversed(self.parents), *([self.first] if self.first else [])]:
            tighten(joined, parent.effective())
        tighten(joined, self.request.get("constraints", {}))
        return joined

    def supplied(self, kind):
        return self.request.get("state", {}).get(kind, [])

    def steps(self):
        return self.request.get("execution_history", [])

    def constraints(self):
        """Its own."""
        if not self.edits:
            return self.request.get("constraints", {})
        joined = dict(self.edits.constraints())
        joined.update({name: value for name, value in self.edit.items() if name == "deadline"})
        tighten(joined, self.edit)
        return joined

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
    """The union over an envelope's ancestors and itself, oldest first, without what edits replaced."""

    def __init__(self, hop, exists):
        self.hop = hop
        self.exists = exists
        self.knows = {at: at.ancestors() | {at} for at in hop.ancestors() | {hop}}
        self.all = sorted(self.knows, key=lambda at: (at.hop, at.place))
        self.hops = [at for at in self.all if not at.replaced or at is hop]
        self.earlier = [at for at in self.hops if at is not hop]

    def intents(self):
        """That of the first request; of chains that began separately and were joined, any."""
        begins = [at.first or at for at in self.all if not at.parents]
        return {at.request.get("intent", at.request["task_summary"]) for at in begins}

    def list(self, kind):
        """Entries of a list of the state. A hop takes out what it knows, even where another repeats it; what it does not
        know stays, even where it is equal."""
        said = []  # [entry, who said it first, who took it out]
        for at in self.hops:
            known = self.knows[at]
            here = [item for item in said if item[1] in known and not known & item[2]]
            for entry in at.supplied(kind):
                if key(entry) not in {key(item[0]) for item in here}:
                    here.append([entry, at, set()])
                    said.append(here[-1])
            for over in at.supplied(OVER.get(kind)):
                for item in here:
                    if takes_out(over, item[0]):
                        item[2].add(at)
        return united(entry for entry, _, takers in said if not takers)

    def members(self):
        """progress and other members of the state: the newest of each."""
        newest = {}
        for at in self.hops:
            newest.update({name: value for name, value in at.request.get("state", {}).items()
                           if name not in LISTS and name not in OVER.values()})
        return newest

    def steps(self):
        """Those supplied. Each that a hop knew and sends again is that one, perhaps without its reason, or an earlier
        summary. But an agent may do the same again: its own step is another one, unless others' steps, if there are any,
        are sent again, too. Steps of one time are one, no matter which hop said them."""
        said = []  # (step, who said it)
        for at in self.hops:
            source, known = at.request["source_agent"], self.knows[at] - {at}
            left = [step for step, by in said if by in known]
            told = [self.summary(by) for by in self.hops if by in known]

            def was_said(step, left=left, told=told):
                return any(sends_again(step, other) for other in left) or any(is_told(step, entry) for entry in told)
            others = [step for step in left if step["agent"] != source] + [entry for entry in told if entry[0] != source]
            history = not others or any(step["agent"] != source and was_said(step) for step in at.steps())
            for step in at.steps():
                if "at" in step:
                    said.append((step, at))
                elif (history or step["agent"] != source) and was_said(step):
                    again = [other for other in left if sends_again(step, other)]
                    if again:
                        left.remove(again[0])
                else:
                    said.append((step, at))
        told, steps = self.summaries(), []
        for step, _ in said:
            if "at" not in step or not any([*(sends_again(step, other) for other in steps),
                                            *(is_told(step, entry) for entry in told)]):
                steps.append(step)
        return steps

    def summary(self, at):
        return at.request["source_agent"], at.request["target_agent"], at.request["task_summary"], at.created_at

    def summaries(self):
        """[(agent, target, text, time)] of the earlier hops."""
        return [self.summary(at) for at in self.earlier]

    def references(self):
        """id -> the hop that first asked for it"""
        since = {}
        for at in self.hops:
            for name in at.references(self.exists):
                since.setdefault(name, at.hop)
        return since

    def constraints(self):
        """Without max_tokens, which is a budget."""
        return {name: value for name, value in self.hop.effective().items() if name != "max_tokens"}

    def budgets(self):
        """What max_tokens may be: the request's; otherwise an ancestor's, or perhaps that of the task's first."""
        own = self.hop.constraints().get("max_tokens")
        if own is not None:
            return {own}
        inherited = {at.constraints().get("max_tokens") for at in self.all if at is not self.hop} - {None}
        first = {at.first.effective().get("max_tokens") for at in self.all if at.first}
        return inherited | first | (set() if inherited else {None})

    def outputs(self):
        return [at.request["expected_output"] for at in self.hops if at.request.get("expected_output")]


def without_null(value):
    """A new constraint: its members that are null are absent, but not those of entries of a list."""
    if not isinstance(value, dict):
        return copy.deepcopy(value)
    return {name: without_null(member) for name, member in value.items() if member is not None}


def tighten(joined, added):
    for name, value in added.items():
        if value is None and name not in joined:
            continue
        if name not in joined or name == "max_tokens":
            joined[name] = without_null(value)
        elif isinstance(value, dict):
            joined[name] = copy.deepcopy(joined[name])
            tighten(joined[name], value)
        elif joined[name] == value:
            continue
        elif isinstance(value, list):
            joined[name] = united([*joined[name], *value])
        else:  # deadlines are all written alike
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
        continued = {parent for hop in self.hops if hop.was_sent for parent in hop.parents}
        waiting = [hop for hop in addressed if hop not in continued]
        if waiting:
            return waiting[::-1]
        if addressed:
            return addressed[-1:]
        return [] if not self.hops or self.hops[0].request["source_agent"] == agent else None

    def first(self):
        """The task's first envelope, or the edit of it."""
        first = self.hops[0]
        while first.replaced:
            first = first.replaced
        return first

    def add(self, request, parents):
        first = self.first() if self.hops and not parents and not request.get("new_chain") else None
        hop = Hop(request, sorted(parents, key=lambda parent: -parent.place), first, len(self.hops))
        self.hops.append(hop)
        return hop

    def replace(self, old, edit):
        """An operator's edit: the same parents and hop, and what it does not name is as it was."""
        # the intent of a branch is the task's, whatever it named itself
        intent = old.intent if old.first else old.request.get("intent", old.intent)
        request = {**old.request, "intent": intent, **edit}
        if "state" in edit:
            request["state"] = {**still_over(old.request.get("state", {}), edit["state"]), **edit["state"]}
        hop = Hop(request, old.parents, old.first, len(self.hops))
        hop.edits, hop.edit, old.replaced = old, edit.get("constraints", {}), hop
        self.hops.append(hop)
        return hop

    def ledger(self, hop):
        return Ledger(hop, self.exists)


# ---- the checks -----------------------------------------------------------------------------------

KNOWN = {"unresolved", "decisions", "remaining", "state", "steps", "references", "reasons", "more"}


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


def find_places(present, supplied):
    """{reasons that are gone: places}: where in `supplied` the steps of a history are, in order.

    Of steps that are equal but for the reason, one that has none may be either. So each number of reasons so far is
    followed, with the places that end first.
    """
    reached = {0: ()}
    for step in present:
        further = {}
        for gone, places in reached.items():
            for place in range(places[-1] + 1 if places else 0, len(supplied)):
                if not sends_again(step, supplied[place]):
                    continue
                total = gone + (step.get("reason") != supplied[place].get("reason"))
                if total not in further or place < further[total][-1]:
                    further[total] = places + (place,)
        reached = further
    return reached


def check_steps(present, ledger, count, reasons):
    """Steps may go without their reason, which is counted; earlier summaries are steps as well."""
    supplied, waiting, own = ledger.steps(), list(ledger.summaries()), []
    for step in present:
        told = [entry for entry in waiting if is_told(step, entry)]
        if told:
            waiting.remove(told[0])
            continue
        require(sum(sends_again(step, other) for other in supplied) > sum(sends_again(step, other) for other in own),
                "the history has what no ancestor said, or twice, or with another reason:", step)
        own.append(step)
    places = find_places(own, supplied)
    require(places, "the history is not oldest first:", present)
    require(reasons in places, f"omitted counts {reasons} reasons, but gone may be only:", sorted(places))
    left = [step for place, step in enumerate(supplied) if place not in places[reasons]]
    gone = len(left) + len(waiting)
    require(count == gone, f"{gone} of {len(supplied)} + {len(ledger.summaries())} steps are gone, "
            f"omitted counts {count}:", left, waiting)
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
        require(entry["reason"] == "not_found", "the reason:", entry)
        # where the first that asked for it was replaced, it is as if it had not been looked up
        latest = ledger.hop.hop if any(at.replaced for at in ledger.all) else since[name]
        require(since[name] <= entry.get("since_hop") <= latest, f"since hop {since[name]}:", entry)
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


def unordered(value):
    if isinstance(value, dict):
        return {name: unordered(member) for name, member in value.items()}
    return sorted(map(key, value)) if isinstance(value, list) else value


def check_constraints(envelope, ledger):
    found = dict(envelope["context"].get("constraints", {}))
    budget = found.pop("max_tokens", None)
    wanted = ledger.constraints()
    require(set(found) == set(wanted), "constraints differ:", sorted(found), "and", sorted(wanted))
    for name, value in wanted.items():
        require(unordered(found[name]) == unordered(value), f"the constraint {name}:", found[name], "must be", value)
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
    require(envelope.get("replaces", {}).get("id") == (hop.edits.id if hop.edits else None), "replaces:",
            envelope.get("replaces"))
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
    left, _ = check_steps(envelope["context"].get("history", []), ledger, counts.get("steps", 0), counts.get("reasons", 0))
    gone["step"] = list(left)
    gone["reference"] = sorted(check_references(envelope, ledger, pins, counts.get("references", 0)) - set(pins))
    output = envelope["context"].get("expected_output") or {}
    require(output == (ledger.hop.request.get("expected_output") or {}), "the expected output:", output)
    return gone


def check_ledger(items, ledger):
    """Items of GET .../ledger: every current item, with the hop and agent that supplied it, and none of siblings."""
    ids = {hop.id: hop for hop in ledger.all}
    values = {}
    for item in items:
        hop = ids.get(item["envelope_id"])
        require(hop, "an item of no ancestor:", item)
        require(hop in ledger.hops or item["kind"] in ("intent", "constraint"), "an item that was replaced:", item)
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
