#!/usr/bin/env python3
"""One page of all that was measured: `./bench page`. It has no needs beyond itself, and says what was missed, too."""

import argparse
import html
import json
import statistics

from results import QUIET, directory_of, quick_option
from rig import ROOT

# As the table of aims has them.
ORDER = ("forward-small", "instructions", "forward-64k", "forward-mib", "merged", "latency", "idle", "wan-small", "wan-body",
         "blackhole", "resources")
WIDTH, LEFT, LINE, TOP = 860, 300, 22, 30

STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884; vertical-align: top }
code { font-size: 85%; white-space: nowrap } small { color: gray } svg { max-width: 100%; height: auto; margin: .5rem 0 }
.reached { color: #1a7f37 } .equal { color: #9a6700 } .missed { color: #cf222e; font-weight: bold }
svg text { font: 12px system-ui, sans-serif; fill: currentColor } .dot { fill: #4c8dff; opacity: .6 } .bar { fill: #4c8dff33 }
.ours .dot { fill: #e8590c } .ours .bar { fill: #e8590c33 } .median { stroke: currentColor; stroke-width: 2 }
.aim { stroke: #1a7f37; stroke-dasharray: 4 3 } .noise { fill: #8883 } .axis { stroke: #8886 }
"""


def main():
    options = argparse.ArgumentParser(description=__doc__)
    quick_option(options)
    directory = directory_of(options.parse_args().quick)
    found = {path.stem: json.loads(path.read_text()) for path in directory.glob("*.json")}
    chosen = {name: found[name] for name in ORDER if name in found}
    path = directory / "index.html"
    path.write_text(page(chosen))
    (directory / "table.md").write_text(markdown(chosen))
    rows = [row for one in chosen.values() for row in one["rows"] if row["verdict"]]
    counts = {word: sum(row["verdict"] == word for row in rows) for word in ("reached", "equal", "missed")}
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    missing = [name for name in ORDER if name not in chosen]
    if missing:
        print(f"not measured yet: {', '.join(missing)}")
    print(f"the page: {path.relative_to(ROOT)}; its table for docs/measurements.md: {directory.relative_to(ROOT)}/table.md")


def page(chosen):
    judged = [row(one, line) for one in chosen.values() for line in one["rows"] if line["aim"]]
    others = [row(one, line) for one in chosen.values() for line in one["rows"] if not line["aim"]]
    plots = "".join(svg(**plot) for one in chosen.values() for plot in one["plots"])
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Archipel: measurements</title><style>{STYLE}</style>
<h1>Archipel: measurements</h1>
<p>Ratios are of the same round, in which each took its turn; the spread is the middle half of the rounds. The control is the same
proxy, or the same link, twice: what differs from its aim by no more than the control does is <span class="equal">equal</span>.</p>
{notes(chosen)}
{table(judged)}
<h2>Beside others</h2>
{table(others)}
<h2>Plots</h2>
<p>A dot is a round, the line is the median, the dashed line the aim; grey is as far as the control differed.</p>
{plots}
</html>
"""


def markdown(chosen):
    lines = ["| | aim | measured | | again with |", "| --- | --- | --- | --- | --- |"]
    for one in chosen.values():
        for line in one["rows"]:
            if line["aim"]:
                verdict = f"**{line['verdict']}**" if line["verdict"] == "missed" else line["verdict"]
                verdict += ", on a busy machine" if one["busy"] > QUIET else ""
                measured = f"{line['measured']} ({line['spread']})" if line["spread"] else line["measured"]
                lines.append(f"| {line['what']} | {line['aim']} | {measured} | {verdict} | `{line['command']}` |")
    return "\n".join(lines) + "\n"


def notes(chosen):
    said = []
    for name, one in chosen.items():
        if one["quick"]:
            said.append(f"{name}: only to see that it works")
        elif one["busy"] > QUIET:
            said.append(f"{name}: the machine had something else to do, for {one['busy']:.0%} of its processors")
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in said)
    return f"<p>To be read with care:</p><ul>{lines}</ul>" if said else ""


def table(rows):
    head = "".join(f"<th>{name}</th>" for name in ("what", "aim", "measured", "", "again with", "taken (UTC)"))
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def row(one, line):
    cells = {name: html.escape(line[name]) for name in line}
    measured = f"{cells['measured']}<br><small>{cells['spread']}</small>"
    return (f"<tr><td>{cells['what']}</td><td>{cells['aim']}</td><td>{measured}</td><td class=\"{cells['verdict']}\">{cells['verdict']}</td>"
            f"<td><code>{cells['command']}</code></td><td><small>{html.escape(one['at'])}</small></td></tr>")


def svg(title, unit, series, aim, noise):
    """A line for each name, a dot for each round."""
    most = max([value for values in series.values() for value in values] + [aim or 0]) * 1.08 or 1
    least = min([0, *(value for values in series.values() for value in values)])

    def x(value):
        return LEFT + (value - least) / (most - least) * (WIDTH - LEFT - 90)

    height = TOP + LINE * len(series) + 30
    parts = [f'<text x="0" y="16"><tspan font-weight="bold">{html.escape(title)}</tspan> ({html.escape(unit)})</text>']
    bottom = height - 24
    if noise:
        parts.append(f'<rect class="noise" x="{x(1 - noise):.1f}" y="{TOP}" width="{x(1 + noise) - x(1 - noise):.1f}" height="{bottom - TOP}"/>')
    for index, (name, values) in enumerate(series.items()):
        y, middle = TOP + LINE * index + LINE / 2, statistics.median(values)
        ours = any(word in name for word in ("scoped", "Archipel", "threads"))
        dots = "".join(f'<circle class="dot" cx="{x(value):.1f}" cy="{y}" r="3"/>' for value in values)
        parts.append(
            f'<g class="{"ours" if ours else ""}"><text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{html.escape(name)}</text>'
            f'<rect class="bar" x="{x(min(0, middle)):.1f}" y="{y - 7}" width="{abs(x(middle) - x(0)):.1f}" height="14"/>{dots}'
            f'<line class="median" x1="{x(middle):.1f}" x2="{x(middle):.1f}" y1="{y - 8}" y2="{y + 8}"/>'
            f'<text x="{WIDTH - 80}" y="{y + 4}">{middle:,.{digits(middle)}f}</text></g>')
    parts.append(f'<line class="axis" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="{TOP}" y2="{bottom}"/>')
    if aim:
        parts.append(f'<line class="aim" x1="{x(aim):.1f}" x2="{x(aim):.1f}" y1="{TOP - 4}" y2="{bottom}"/>'
                     f'<text x="{x(aim):.1f}" y="{height - 8}" text-anchor="middle">aim {aim:g}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" aria-label="{html.escape(title)}">{"".join(parts)}</svg>\n'


def digits(value):
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


if __name__ == "__main__":
    main()
