#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency of each stage of a handoff, at one to ten thousand at once.

    bench_load.py [--seconds S] [--connections N,N] [--memories N] [--json FILE] [--picture FILE]

The request is the specification's own: it looks for 20 memories among 10,000, with pins and three steps of history. wrk
sends it over that many connections, each of which waits for its acknowledgement, and nginx receives. The stages come
from the sidecar's own histograms: resolve, trim, encode, persist, attempt; "acknowledged" is the time from acceptance to
the acknowledgement, and "sender" what the sender waits, which includes the wait for a turn on the API's loops.

The knee is the first number of connections after which the next step brings less than a quarter more handoffs per
second; beyond it, only the wait grows.
"""

import argparse
import json
import math
import pathlib
import tempfile

import load
from rivals import DESCRIPTORS, Nginx, Ours

LEVELS = [1, 10, 100, 1000, 10000]
STAGES = ["resolve", "trim", "encode", "persist", "attempt"]
WHOLE, SENDER = "acknowledged", "sender"
WORTH = 1.25    # a quarter more
CONNECTED_IN_A_SECOND = 1000


def buckets(text, family, label=None):
    """{upper bound: cumulative count} of a histogram, over all its series with that label."""
    found = {}
    for line in text.splitlines():
        if not line.startswith(family + "_bucket{") or (label and label not in line):
            continue
        bound = float(line.partition('le="')[2].partition('"')[0].replace("+Inf", "inf"))
        found[bound] = found.get(bound, 0.0) + float(line.rpartition(" ")[2])
    return found


def quantile(before, after, share):
    """As Prometheus' histogram_quantile() estimates it, of what was observed between two scrapes."""
    bounds = sorted(after)
    counts = [after[bound] - before.get(bound, 0.0) for bound in bounds]
    total = counts[-1] if counts else 0
    if total == 0:
        return math.nan
    rank, low, below = share * total, 0.0, 0.0
    for bound, count in zip(bounds, counts):
        if count >= rank:
            if math.isinf(bound):
                return low
            return low + (bound - low) * (rank - below) / max(count - below, 1e-9)
        low, below = bound, count
    return low


def histograms(daemon):
    text = daemon.web.get("/metrics").text
    found = {stage: buckets(text, "handoff_stage_duration_seconds", f'stage="{stage}"') for stage in STAGES}
    found[WHOLE] = buckets(text, "handoff_duration_seconds")
    return found


def run(daemon, bodies, connections, seconds):
    """One row: throughput, and p50 and p99 of each stage in milliseconds."""
    before = histograms(daemon)
    told = load.wrk(daemon, bodies, connections, seconds + connections // CONNECTED_IN_A_SECOND)
    after = histograms(daemon)
    row = {"connections": connections, "per_second": told["per_second"], "failed": told["errors"],
           SENDER: [told["p50_us"] / 1000, told["p99_us"] / 1000]}
    for name in [*STAGES, WHOLE]:
        row[name] = [1000 * quantile(before[name], after[name], share) for share in (0.5, 0.99)]
    return row


def knee(rows):
    """The number of connections beyond which more of them bring little."""
    for row, following in zip(rows, rows[1:]):
        if following["per_second"] < WORTH * row["per_second"]:
            return row["connections"]
    return rows[-1]["connections"]


def print_table(rows):
    print("\nThe specification's request: p50 / p99 in ms\n")
    print("| at once | handoffs/s | " + " | ".join(STAGES) + f" | {WHOLE} | {SENDER} | failed |")
    print("|---" * (len(STAGES) + 5) + "|")
    for row in rows:
        cells = [f"{row[name][0]:.3g} / {row[name][1]:.3g}" for name in [*STAGES, WHOLE, SENDER]]
        print(f"| {row['connections']:,} | {row['per_second']:,.0f} | {' | '.join(cells)} | {row['failed']} |")
    print(f"\nThe knee is at {knee(rows):,} at once.")


# ---- the picture

COLOURS = {"resolve": "#4363d8", "trim": "#f58231", "encode": "#808000", "persist": "#3cb44b", "attempt": "#911eb4",
           WHOLE: "#000000", SENDER: "#e6194b"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 440, 70, 120, 50, 50
DECADES_MS = [0.01, 0.1, 1, 10, 100, 1000, 10000]


def draw(rows):
    """p50 of each stage over the number at once, both in decades; the knee as a line."""
    last = math.log10(rows[-1]["connections"]) or 1

    def x(connections):
        return LEFT + math.log10(connections) / last * (WIDTH - LEFT - RIGHT)

    def y(ms):
        share = (math.log10(max(ms, DECADES_MS[0])) + 2) / (len(DECADES_MS) - 1)
        return HEIGHT - BOTTOM - min(share, 1) * (HEIGHT - TOP - BOTTOM)

    title = "Latency of each stage (p50) over handoffs at once"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12"'
             f' font-family="DejaVu Sans, sans-serif"><title>{title}</title>'
             f'<rect width="100%" height="100%" fill="#ffffff"/><text x="{LEFT}" y="28" font-size="16">{title}</text>']
    for ms in DECADES_MS:
        parts.append(f'<line x1="{LEFT}" y1="{y(ms):.1f}" x2="{WIDTH - RIGHT}" y2="{y(ms):.1f}" stroke="#dddddd"/>'
                     f'<text x="{LEFT - 8}" y="{y(ms) + 4:.1f}" text-anchor="end">{ms:g} ms</text>')
    for row in rows:
        at = row["connections"]
        parts.append(f'<text x="{x(at):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{at:,}</text>'
                     f'<text x="{x(at):.1f}" y="{HEIGHT - BOTTOM + 34}" text-anchor="middle" fill="#777777">'
                     f'{row["per_second"]:,.0f}/s</text>')
    at = x(knee(rows))
    parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#777777"'
                 f' stroke-dasharray="4 4"/><text x="{at + 6:.1f}" y="{TOP + 12}" fill="#777777">knee</text>')
    below = TOP
    for name in sorted(COLOURS, key=lambda name: -rows[-1][name][0]):
        path = " ".join(f"{x(row['connections']):.1f},{y(row[name][0]):.1f}" for row in rows)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        below = max(below, y(rows[-1][name][0]))
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{below + 4:.1f}" fill="{COLOURS[name]}">{name}</text>')
        below += 14
    return "".join(parts) + "</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=5, help="of load at each step (%(default)s)")
    parser.add_argument("--connections", default=",".join(map(str, LEVELS)), help="how many at once (%(default)s)")
    parser.add_argument("--memories", type=int, default=10000, help="in the store (%(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    parser.add_argument("--picture", type=pathlib.Path, help="draw them here, as SVG")
    options = parser.parse_args()
    most = (DESCRIPTORS - 1000) // 2    # each takes a descriptor of its sender and one of its receiver
    levels = [min(int(level), most) for level in options.connections.split(",")]
    rows = []
    print(load.machine())
    with Nginx() as receiver, Ours("full", receiver.url) as daemon, tempfile.TemporaryDirectory() as folder:
        load.fill(daemon.api, options.memories)
        bodies = load.write_bodies(folder, load.found_for)
        for level in levels:
            rows.append(run(daemon, bodies, level, options.seconds))
        daemon.expected_exit = 0
    print_table(rows)
    if options.json:
        options.json.write_text(json.dumps({"machine": load.machine(), "rows": rows, "knee": knee(rows)}, indent=1))
    if options.picture:
        options.picture.write_text(draw(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
