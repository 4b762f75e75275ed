"""ladder.py ROWS.jsonl: rows of `stepmark ladder ... -o jsonl` as a picture: each rung's share of its ceiling, from the lowest
up. Prints SVG.

    stepmark ladder matmul -o jsonl > mine.jsonl && python3 docs/course/ladder.py mine.jsonl > mine.svg
"""
import json
import math
import pathlib
import sys
from xml.sax.saxutils import escape

ORDER = ["matmul", "attention", "layernorm", "softmax"]
WIDTH, BAR, GAP, HEAD, LEFT, RIGHT = 460, 13, 4, 46, 82, 118  # of a panel, in pixels
LEAST, MOST = 0.01, 200  # percent: the ends of the logarithmic axis

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 11px; fill: #59636e } .title { font-weight: 600 }
.bar { fill: #0969da } .last { fill: #1a7f37 } .step { fill: none; stroke: #1a7f37 } .tick { stroke: #d1d9e0 }
.ceiling { stroke: #cf222e; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .small { fill: #9198a1 } .bar { fill: #4493f8 } .last { fill: #3fb950 }
.step { stroke: #3fb950 } .tick { stroke: #3d444d } .ceiling { stroke: #f85149 } }
"""


def read_rows(path=pathlib.Path(__file__).with_name("ladder.jsonl")):
    """Ladders in the order of the lessons: lists of rungs. Without a path, those of the lesson's picture."""
    ladders = {}
    with open(path, encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            ladders.setdefault((row["device"] != "cpu", ORDER.index(row["ladder"]), row["device"], row["name"]), []).append(row)
    return [ladders[key] for key in sorted(ladders)]


def table(ladder):
    """A line a rung: name, milliseconds, share of the ceiling, times as fast as the one before."""
    return "\n".join(f"{r['rung']:10} {r['ns'] / 1e6:8.3f} ms {100 * r['ceiling_share']:6.2f}%"
                     + (f" {r['times_before']:6.2f} x" if r["times_before"] else "") for r in ladder)


def place(percent):
    """Of a share on the axis."""
    span = math.log10(MOST / LEAST)
    return LEFT + (WIDTH - LEFT - RIGHT) * min(1, max(0, math.log10(max(percent, LEAST) / LEAST) / span))


def panel(ladder, x, y):
    first = ladder[0]
    bottom = HEAD + len(ladder) * (BAR + GAP)
    threads = f", {first['n_threads']} threads" if first.get("n_threads") else ""
    out = [f'<g transform="translate({x},{y})">',
           f'<text class="title" y="14">{escape(first["ladder"])}</text>',
           f'<text class="small" y="30">{escape(first["shape"])}; {escape(first["name"].replace("(R)", ""))}{threads}</text>']
    for percent in (0.01, 0.1, 1, 10, 100):
        kind = "ceiling" if percent == 100 else "tick"
        at = place(percent)
        out.append(f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{HEAD - 6}" y2="{bottom}"/>'
                   f'<text class="small" x="{at:.1f}" y="{bottom + 13}" text-anchor="middle">{percent:g}%</text>')
    for i, rung in enumerate(ladder):
        top = HEAD + i * (BAR + GAP)
        percent = 100 * rung["ceiling_share"]
        kind = {"shipped": "last", "in a step": "step"}.get(rung["rung"], "bar")
        out.append(f'<text x="{LEFT - 6}" y="{top + 11}" text-anchor="end">{escape(rung["rung"])}</text>'
                   f'<rect class="{kind}" x="{LEFT}" y="{top}" width="{place(percent) - LEFT:.1f}" height="{BAR}"/>'
                   f'<text class="small" x="{WIDTH - RIGHT + 6}" y="{top + 11}">'
                   f'{percent:.3g}%, {rung["ns"] / 1e6:.3g} ms</text>')
    return out + ["</g>"], bottom + 26


def draw(ladders):
    """Ladders of a device below one another, devices side by side."""
    devices = list(dict.fromkeys(ladder[0]["name"] for ladder in ladders))
    parts, height = [], 0
    for column, device in enumerate(devices):
        y = 0
        for ladder in (l for l in ladders if l[0]["name"] == device):
            lines, used = panel(ladder, 10 + column * (WIDTH + 20), y)
            parts += lines
            y += used
        height = max(height, y)
    width = 20 + len(devices) * (WIDTH + 20) - 20
    title = "Each rung's share of the least time that the measured ceilings allow"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
                      f'role="img" aria-label="{title}">', f"<title>{title}</title>", f"<style>{STYLE}</style>", *parts, "</svg>"])


if __name__ == "__main__":
    print(draw(read_rows(sys.argv[1])))
