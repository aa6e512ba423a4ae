# SPDX-License-Identifier: Apache-2.0
"""The pictures of the proof: lines over the length of a pipeline, drawn as SVG."""

import html

import tasks

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 300, 50, 50
COLOURS = ["#9a6324", "#e6194b", "#f58231", "#808000", "#000075", "#4363d8", "#3cb44b", "#911eb4"]
SHORTEST, LONGEST = 2, len(tasks.AGENTS)
FAILED, AT_HAND = "proof-failed.svg", "proof-at-hand.svg"
TITLES = {FAILED: "Tasks that fail for lost context", AT_HAND: "What the user and the first agent said: handed on, or can be fetched"}


def draw_all(results, needs):
    """Name of the file: its text. Of tasks that fail, those in which each agent has this many needs."""
    failed = {result["title"]: [(row["agents"], row["failed"][str(needs)]) for row in result["by_length"]]
              for result in results}
    at_hand = {result["title"]: [(row["agent"], row["first_at_hand"]) for row in result["by_agent"]] for result in results}
    title = f"{TITLES[FAILED]}; each agent needs {needs} earlier items"
    return {FAILED: _draw(title, "agents in the pipeline", failed), AT_HAND: _draw(TITLES[AT_HAND], "agent", at_hand)}


def _x(value):
    return LEFT + (value - SHORTEST) / (LONGEST - SHORTEST) * (WIDTH - LEFT - RIGHT)


def _y(share):
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def _draw(title, axis, lines):
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="DejaVu Sans, sans-serif"'
             f' font-size="12"><title>{html.escape(title)}</title><rect width="100%" height="100%" fill="#ffffff"/>',
             f'<text x="{LEFT}" y="28" font-size="16">{html.escape(title)}</text>',
             f'<text x="{(_x(SHORTEST) + _x(LONGEST)) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{html.escape(axis)}</text>']
    parts += _grid()
    # The last values, from the top down, so that the names do not cover each other.
    order = sorted(lines.items(), key=lambda line: -line[1][-1][1]["share"])
    below = TOP
    for name, points in order:
        colour = COLOURS[list(lines).index(name) % len(COLOURS)]
        parts += _line(points, colour)
        below = max(below, _y(points[-1][1]["share"]))
        parts.append(f'<text x="{_x(LONGEST) + 10}" y="{below + 4:.1f}" fill="{colour}">{html.escape(name)}</text>')
        below += 15
    return "".join(parts) + "</svg>\n"


def _grid():
    for step in range(0, 6):
        y = _y(step / 5)
        yield f'<line x1="{LEFT}" y1="{y}" x2="{_x(LONGEST)}" y2="{y}" stroke="#dddddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{step * 20} %</text>'
    for agents in range(SHORTEST, LONGEST + 1):
        yield f'<text x="{_x(agents)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{agents}</text>'


def _line(points, colour):
    if "low" in points[0][1]:
        there = " ".join(f"{_x(at):.1f},{_y(value['high']):.1f}" for at, value in points)
        back = " ".join(f"{_x(at):.1f},{_y(value['low']):.1f}" for at, value in reversed(points))
        yield f'<polygon points="{there} {back}" fill="{colour}" opacity="0.12"/>'
    path = " ".join(f"{_x(at):.1f},{_y(value['share']):.1f}" for at, value in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
