# SPDX-License-Identifier: Apache-2.0
"""What a run shows: counts by way, a table for a terminal, JSON, and a page with pictures.

Each share has the count that it is of and its 95 % interval. Shares of items count a task as one observation, because what
happens to the items of a task is not independent: that makes their intervals wider, not narrower.
"""

import collections
import html
import statistics

import goals
import judge
import pictures
import tasks

LENGTHS = range(2, len(tasks.AGENTS) + 1)
DISTANCES = range(1, len(tasks.AGENTS))
LEFT_OF_SPECIFICATION = 0.9 ** 4   # at 10 % a handoff, what five agents have left
PRESENT, AT_HAND = ("present",), ("present", "reachable")


# ---- counting

def summarize(name, way, verdicts, needs, ours):
    """Everything that is counted of one way; `ours` if it is through the sidecar."""
    cells = _cells(verdicts)
    result = {"name": name, "title": way.title, "ours": ours, "tasks": len(verdicts), "kills": way.kills,
              "spine_kills": getattr(way, "spine_kills", 0)}
    result["by_length"] = [_length(verdicts, length, needs) for length in LENGTHS]
    result["by_agent"] = [_agent(verdicts, cells, agent) for agent in range(1, len(tasks.AGENTS))]
    result["by_kind"] = {kind: _fates(cells, kind=kind) for kind in tasks.KINDS}
    result["by_kind_and_hops"] = {kind: [_fates(cells, kind=kind, hops=hops) for hops in DISTANCES] for kind in tasks.KINDS}
    result["failures"] = [failure for verdict in verdicts if (failure := verdict.failure(max(needs)))]
    result["causes"] = _causes(result["failures"], verdicts)
    result["notes"] = dict(collections.Counter(note for verdict in verdicts for stage in verdict.stages
                                               for note in stage.notes))
    result["wrong_counts"] = sum(len(stage.wrong_counts) for verdict in verdicts for stage in verdict.stages)
    result["handoffs"] = sum(len(verdict.stages) for verdict in verdicts)
    return result


def _cells(verdicts):
    """{(agent, kind, hops since it was said): how many items had each of FATES}, over all tasks."""
    cells = collections.defaultdict(lambda: [0] * len(judge.FATES))
    for verdict in verdicts:
        for stage in verdict.stages:
            for (kind, hops), counts in stage.fates.items():
                cell = cells[stage.agent, kind, hops]
                for at, count in enumerate(counts):
                    cell[at] += count
    return cells


def _fates(cells, agent=None, kind=None, hops=None):
    """{fate: number of items} of the cells with these values; None: with any."""
    wanted = (agent, kind, hops)
    total = [0] * len(judge.FATES)
    for key, counts in cells.items():
        if all(value is None or value == part for value, part in zip(wanted, key)):
            total = [sum(pair) for pair in zip(total, counts)]
    return dict(zip(judge.FATES, total))


def _share(hits, of):
    low, high = judge.interval(hits, of)
    return {"count": hits, "of": of, "share": hits / of if of else 0.0, "low": low, "high": high}


def _share_of_items(fates, wanted, observations):
    """Of items with these fates, counted as so many observations."""
    total = sum(fates.values())
    hits = sum(fates[fate] for fate in wanted)
    share = hits / total if total else 0.0
    low, high = judge.interval(share * observations, observations)
    return {"count": hits, "of": total, "share": share, "low": low, "high": high}


def _length(verdicts, length, needs):
    """Of pipelines of this many agents: how many never arrived, and of the others, how many failed for context."""
    arrived = [verdict for verdict in verdicts if verdict.lost_at is None or verdict.lost_at >= length]

    def failed(count):
        return sum(any(count in stage.failed for stage in verdict.stages if stage.agent < length) for verdict in arrived)

    return {"agents": length, "failed": {str(count): _share(failed(count), len(arrived)) for count in needs},
            "never_arrived": _share(len(verdicts) - len(arrived), len(verdicts))}


def _agent(verdicts, cells, agent):
    stages = [stage for verdict in verdicts for stage in verdict.stages if stage.agent == agent]
    by_kind = {kind: _fates(cells, agent, kind) for kind in tasks.KINDS}
    first, fates = _fates(cells, agent, hops=agent), _fates(cells, agent)
    return {"agent": agent + 1, "received": len(stages), "fates": fates, "fates_of_the_first": first, "by_kind": by_kind,
            "first_at_hand": _share_of_items(first, AT_HAND, len(stages)),
            "at_hand": {kind: _share_of_items(by_kind[kind], AT_HAND, len(stages)) for kind in tasks.KINDS},
            "gone": _share_of_items(fates, ("gone",), len(stages)),
            "tokens": _mean([stage.tokens for stage in stages]), "seconds": _median([stage.seconds for stage in stages])}


def _mean(values):
    low, high = judge.interval_of_mean(values)
    return {"count": len(values), "mean": statistics.fmean(values) if values else 0, "low": low, "high": high}


def _median(values):
    low, high = judge.interval_of_median(values)
    return {"count": len(values), "median": statistics.median(values) if values else 0, "low": low, "high": high}


def _causes(failures, verdicts):
    """MAST modes of the tasks that failed or never arrived."""
    causes = collections.Counter(f"{failure['mode']} ({failure['kind']} {failure['fate']})" for failure in failures)
    failed = {failure["task"] for failure in failures}
    never = sum(verdict.lost_at is not None and verdict.task not in failed for verdict in verdicts)
    causes.update({f"{judge.NEVER_ARRIVED} (task never arrived)": never} if never else {})
    return dict(causes.most_common())


def document(results, options):
    """All of it, for programs."""
    used = {name: str(value) for name, value in vars(options).items()}
    return {"seed": options.seed, "options": used, "interval": "95 %: Wilson for shares, normal for means, ranks for medians",
            "goals": [vars(goal) for goal in goals.check(results, options.needs)], "ways": results}


# ---- the terminal

def percent(share):
    return f"{100 * share:.{1 if share >= 0.1 else 2}f}"


def with_interval(row):
    """In per cent."""
    return f"{percent(row['share'])} ({percent(row['low'])}-{percent(row['high'])})"


def mean_with_interval(row):
    return f"{row['mean']:,.0f} ({row['low']:,.0f}-{row['high']:,.0f})"


def milliseconds(row):
    return f"{1000 * row['median']:.0f} ({1000 * row['low']:.0f}-{1000 * row['high']:.0f})"


def at_agent(result, agent):
    return result["by_agent"][agent - 2]


def rows(results, needs):
    """The table: a heading and a row for each way."""
    yield ["way", "tasks", *(f"fail, {count} need{'s' * (count > 1)}" for count in needs), "never arrived", "original", "gone",
           "tokens", "ms"]
    for result in results:
        length, fifth = result["by_length"][goals.STAGES - 2], at_agent(result, goals.STAGES)
        yield [result["title"], f"{result['tasks']:,}", *(with_interval(length["failed"][str(count)]) for count in needs),
               with_interval(length["never_arrived"]), with_interval(fifth["first_at_hand"]), with_interval(fifth["gone"]),
               mean_with_interval(fifth["tokens"]), milliseconds(fifth["seconds"])]


def print_table(table):
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        print("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                        for column, (cell, width) in enumerate(zip(row, widths))).rstrip())


def show(results, options):
    print(f"\nPipelines of five agents, in per cent, with 95 % intervals (seed {options.seed}, loss {options.loss} a"
          f" handoff, faults x{options.faults:g})\n")
    print_table(list(rows(results, options.needs)))
    print(f"""
fail: of the tasks that arrived, those in which an agent needed an item, did not have it, and could not fetch it.
original: share of what the user and the first agent said that the fifth agent has or can fetch (the specification
expects {percent(LEFT_OF_SPECIFICATION)} without a protocol). gone: share of all earlier items of which the fifth agent finds no
trace. tokens: mean of what the fifth agent was handed. ms: median time of that handoff, with what was tried again.""")
    for result in results:
        extra = [f"{count} {note}" for note, count in result["notes"].items()]
        extra += [f"{result['kills']} kills of the sidecar"] * bool(result["kills"])
        extra += [f"{result['spine_kills']} times without a spine"] * bool(result["spine_kills"])
        if extra:
            print(f"{result['title']}: {', '.join(extra)}")
    show_goals(goals.check(results, options.needs))


def show_goals(found):
    if found:
        print("\nGoals\n")
        print_table(goals.table(found))


# ---- the page

def write_page(results, options):
    for name, picture in pictures.draw_all(results, max(options.needs)).items():
        (options.out / name).write_text(picture, encoding="utf-8")
    body = "".join(f'<img src="{name}" alt="{html.escape(alt)}">' for name, alt in pictures.TITLES.items())
    (options.out / "index.html").write_text(_PAGE.format(body=body, tables=_tables(results, options), seed=options.seed,
                                                         loss=html.escape(str(options.loss)), faults=options.faults),
                                            encoding="utf-8")


def _tables(results, options):
    text = _table("Pipelines of five agents, in per cent", list(rows(results, options.needs))) 
    text += _table("Goals", goals.table(goals.check(results, options.needs)))
    text += _by_length(results, options.needs) + _by_agent(results)
    for result in results:
        text += _by_hops(result)
        if result["causes"]:
            text += _table(f"Why tasks failed: {result['title']}",
                           [["MAST mode (item, fate)", "tasks"], *([k, str(v)] for k, v in result["causes"].items())])
            text += _where_lost(result)
    return text


def _by_length(results, needs):
    heads = ["way", *(f"{length} agents" for length in LENGTHS)]
    return "".join(_table(f"Failed for context by the number of agents, {count} need{'s' * (count > 1)} at each, in per cent",
                          [heads, *([result["title"], *(with_interval(row["failed"][str(count)])
                                                        for row in result["by_length"])] for result in results)])
                   for count in needs)


def _by_agent(results):
    heads = ["way", *(f"agent {length}" for length in LENGTHS)]
    shown = {"Tokens handed on, mean": lambda row: mean_with_interval(row["tokens"]),
             "Time of a handoff in ms, median": lambda row: milliseconds(row["seconds"]),
             "Earlier items that are gone, in per cent": lambda row: with_interval(row["gone"])}
    return "".join(_table(title, [heads, *([result["title"], *(cell(row) for row in result["by_agent"])] for result in results)])
                   for title, cell in shown.items())


def _by_hops(result):
    """What became of items of each kind, after so many handoffs."""
    heads = ["kind", *(f"{hops} handoff{'s' * (hops > 1)}" for hops in DISTANCES)]
    table = [[kind, *(_fates_in_percent(fates) for fates in result["by_kind_and_hops"][kind])] for kind in tasks.KINDS]
    everything = [_sum(result["by_kind_and_hops"][kind][hops - 1] for kind in tasks.KINDS) for hops in DISTANCES]
    table.append(["all", *map(_fates_in_percent, everything)])
    return _table(f"present / reachable / told / gone in per cent, by handoffs since it was said: {result['title']}",
                  [heads, *table])


def _where_lost(result):
    """The handoff in which the item of a failed task was lost, by how many handoffs it had survived."""
    lost = collections.Counter(failure["handoffs"] for failure in result["failures"])
    return _table(f"In which handoff after it was said the missing item was lost: {result['title']}",
                  [[str(hops) for hops in DISTANCES], [str(lost[hops]) for hops in DISTANCES]])


def _sum(counts):
    total = collections.Counter()
    for fates in counts:
        total.update(fates)
    return total


def _fates_in_percent(fates):
    total = sum(fates.values())
    return " / ".join(f"{100 * fates[fate] / total:.1f}" for fate in judge.FATES) if total else "-"


def _table(title, table):
    head, *body = table
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    return f"<h2>{html.escape(title)}</h2><table><tr>{cells}</tr>{lines}</table>"


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>What survives a handoff</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
img {{ width: 100%; }}
table {{ border-collapse: collapse; font-size: 13px; }}
td, th {{ border-bottom: 1px solid #ccc; padding: 0.2rem 0.6rem; text-align: right; }}
td:first-child, th:first-child {{ text-align: left; }}
</style></head><body>
<h1>What survives a handoff</h1>
<p>Seed {seed}, loss {loss} a handoff for ways that summarize, faults x{faults:g}. docs/proof.md says how this is
measured and what it does not show.</p>
{body}{tables}</body></html>
"""
