# SPDX-License-Identifier: Apache-2.0
"""What a run shows: counts by way, a table for a terminal, JSON, and a page with pictures."""

import collections
import html
import statistics

import judge
import pictures
import tasks

LENGTHS = range(2, len(tasks.AGENTS) + 1)
LEFT_OF_SPECIFICATION = 0.9 ** 4   # at 10 % a handoff, what five agents have left


def summarize(name, title, verdicts, facts):
    """Everything that is counted of one way."""
    result = {"name": name, "title": title, "tasks": len(verdicts), **facts}
    result["by_length"] = [_length(verdicts, length) for length in LENGTHS]
    result["by_agent"] = [_agent(verdicts, agent) for agent in range(1, len(tasks.AGENTS))]
    result["by_kind"] = {kind: _fates(verdicts, lambda key, kind=kind: key[0] == kind) for kind in tasks.KINDS}
    result["by_kind_at_the_end"] = {kind: _fates(verdicts, lambda key, kind=kind: key[0] == kind, len(tasks.AGENTS) - 1)
                                    for kind in tasks.KINDS}
    result["by_distance"] = [_fates(verdicts, lambda key, hops=hops: key[1] == hops)
                             for hops in range(1, len(tasks.AGENTS))]
    result["causes"] = _causes(verdicts)
    result["notes"] = dict(collections.Counter(note for verdict in verdicts for stage in verdict.stages
                                               for note in stage.notes))
    result["wrong_counts"] = sum(len(stage.wrong_counts) for verdict in verdicts for stage in verdict.stages)
    result["handoffs"] = sum(len(verdict.stages) for verdict in verdicts)
    return result


def _share(hits, of):
    low, high = judge.interval(hits, of)
    return {"count": hits, "of": of, "share": hits / of if of else 0.0, "low": low, "high": high}


def _length(verdicts, length):
    """Of pipelines of this many agents: how many never arrived, and of the others, how many failed for context."""
    arrived = [verdict for verdict in verdicts if verdict.lost_at is None or verdict.lost_at >= length]

    def failed(needs):
        return sum(any(needs in stage.failed for stage in verdict.stages if stage.agent < length) for verdict in arrived)

    return {"agents": length, "failed_with_1_need": _share(failed(1), len(arrived)),
            f"failed_with_{tasks.NEEDS}_needs": _share(failed(tasks.NEEDS), len(arrived)),
            "never_arrived": _share(len(verdicts) - len(arrived), len(verdicts))}


def _agent(verdicts, agent):
    stages = [stage for verdict in verdicts for stage in verdict.stages if stage.agent == agent]
    return {"agent": agent + 1, "fates": _add(stages, lambda key: True),
            "fates_of_the_first": _add(stages, lambda key: key[1] == agent),
            "tokens": statistics.mean(stage.tokens for stage in stages) if stages else 0,
            "seconds": statistics.median(stage.seconds for stage in stages) if stages else 0}


def _fates(verdicts, wanted, agent=None):
    """At all agents, or at one."""
    return _add((stage for verdict in verdicts for stage in verdict.stages if agent in (None, stage.agent)), wanted)


def _add(stages, wanted):
    counts = collections.Counter({fate: 0 for fate in judge.FATES})
    for stage in stages:
        for key, fates in stage.fates.items():
            if wanted(key):
                counts.update(fates)
    return dict(counts)


def _causes(verdicts):
    """MAST modes of the first unmet need of a task, with all needs."""
    causes = collections.Counter()
    for verdict in verdicts:
        for stage in verdict.stages:
            if tasks.NEEDS in stage.failed:
                item, fate = stage.failed[tasks.NEEDS]
                causes[f"{judge.MAST[item.kind]} ({item.kind} {fate})"] += 1
                break
    return dict(causes.most_common())


def at_hand(fates):
    """The share that is present or reachable."""
    total = sum(fates.values())
    return (fates["present"] + fates["reachable"]) / total if total else 0.0


def document(results, options):
    return {"seed": options.seed, "loss": options.loss, "faults": options.faults, "kill_every_s": options.kill_every,
            "interval": "95 %, Wilson", "ways": results}


# ---- the terminal

def percent(share):
    return f"{100 * share:.2f}"


def rows(results):
    """The table: a heading and a row for each way."""
    yield ["way", "tasks", "fail, 1 need", f"fail, {tasks.NEEDS} needs", "95 % interval", "never arrived", "original, 5th",
           "gone", "tokens, 5th"]
    for result in results:
        five = result["by_length"][5 - 2]
        fifth = result["by_agent"][4 - 1]
        failed = five[f"failed_with_{tasks.NEEDS}_needs"]
        gone = sum(row["fates"]["gone"] for row in result["by_agent"])
        seen = sum(sum(row["fates"].values()) for row in result["by_agent"])
        yield [result["title"], f"{result['tasks']:,}", percent(five["failed_with_1_need"]["share"]),
               percent(failed["share"]), f"{percent(failed['low'])} to {percent(failed['high'])}",
               percent(five["never_arrived"]["share"]), percent(at_hand(fifth["fates_of_the_first"])), percent(gone / seen if seen else 0.0),
               f"{fifth['tokens']:,.0f}"]


def show(results, options):
    print(f"\nPipelines of five agents, in per cent of tasks (seed {options.seed}, loss {options.loss} a handoff,"
          f" faults x{options.faults:g})\n")
    table = list(rows(results))
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        print("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                        for column, (cell, width) in enumerate(zip(row, widths))))
    print(f"\nfail: of the tasks that arrived, those in which an agent needed an item, did not have it, and could not fetch it."
          f"\noriginal: share of what the user and the first agent said that the fifth agent has or can fetch (the specification"
          f"\nexpects {percent(LEFT_OF_SPECIFICATION)} without a protocol). gone: share of all items, over all agents, of which"
          " the agent finds no trace.")
    for result in results:
        extra = [f"{count} {note}" for note, count in result["notes"].items()]
        if result["kills"]:
            extra.append(f"{result['kills']} kills of the sidecar")
        if result["wrong_counts"]:
            extra.append(f"{result['wrong_counts']} WRONG COUNTS")
        if extra:
            print(f"{result['title']}: {', '.join(extra)}")


# ---- the page

def write_page(results, options):
    for name, picture in pictures.draw_all(results).items():
        (options.out / name).write_text(picture, encoding="utf-8")
    body = "".join(f'<img src="{name}" alt="{html.escape(alt)}">' for name, alt in pictures.TITLES.items())
    (options.out / "index.html").write_text(_PAGE.format(body=body, tables=_tables(results), seed=options.seed,
                                                         loss=html.escape(str(options.loss)), faults=options.faults),
                                            encoding="utf-8")


def _tables(results):
    text = _table("Pipelines of five agents", list(rows(results)))
    for result in results:
        if result["causes"]:
            text += _table(f"Why tasks failed: {result['title']}",
                           [["MAST mode (item, fate)", "tasks"], *([k, str(v)] for k, v in result["causes"].items())])
    heads = ["way", *tasks.KINDS]
    text += _table("Present or reachable, by kind, in per cent",
                   [heads, *([result["title"], *(percent(at_hand(result["by_kind"][kind])) for kind in tasks.KINDS)]
                             for result in results)])
    text += _table("Present or reachable at the eighth agent, by kind, in per cent",
                   [heads, *([result["title"], *(percent(at_hand(result["by_kind_at_the_end"][kind]))
                                                 for kind in tasks.KINDS)] for result in results)])
    text += _table("Present, by kind, in per cent",
                   [heads, *([result["title"], *(percent(_present(result["by_kind"][kind])) for kind in tasks.KINDS)]
                             for result in results)])
    return text


def _present(fates):
    total = sum(fates.values())
    return fates["present"] / total if total else 0.0


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
