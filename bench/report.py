"""`make bench-report`: the gate's last verdict, what became slower or faster, accepted costs, the peers, all records.

It is one page that loads nothing.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby, pairwise
from pathlib import Path

from bench.changes import Change, changes
from bench.gate.costs import dated
from bench.plot import Panel
from bench.records import Machine, Record, by_machine, history, in_words

SHOWN = 12  # commits, without a click
# What `make bench-gate` and `make bench-peers` printed last.
GATE, PEERS = "gate.md", "peers.txt"
_STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --slower: #b3261e; --faster: #06643f; --grid: #ddd;
        --quiet: #555; --points: #c83c23; --means: #177cb0 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --paper: #181818; --slower: #ff8a7a; --faster: #6fd6a6; --grid: #3a3a3a; --quiet: #aaa;
          --points: #ff8a7a; --means: #6ab7e6 }
}
pre { overflow: auto; font-size: 12px }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5em; max-width: 1400px; color: var(--ink);
       background: var(--paper) }
a { color: inherit } code { font-size: 13px } h3, p { margin: 1em 0 0; overflow-wrap: anywhere }
ul { margin: 0.3em 0; padding-left: 1.2em; overflow-wrap: anywhere } .columns { columns: 400px; font-size: 14px }
.slower { color: var(--slower) } .faster { color: var(--faster) }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 400px), 1fr)); gap: 1em }
figure { margin: 0 } figcaption { font-size: 13px; overflow-wrap: anywhere } svg { width: 100%; display: block }
.grid { stroke: var(--grid) } .tick { fill: var(--quiet); font: 11px sans-serif }
.line { fill: none; stroke-width: 1.5 } .range { stroke-width: 4; stroke-opacity: 0.3 }
.points { stroke: var(--points) } circle { fill: var(--points); stroke: none } .means { stroke: var(--means) }
"""


def page(records: Sequence[Record], costs: Sequence[str] = (), gate: str = "", peers: str = "") -> str:
    """Draws the whole history: the changes, the latest and worst first, then a plot of each benchmark.

    At the top stands the first line of what the gate printed.
    """
    series = by_machine(records)
    rows: list[tuple[Change, Machine]] = []
    sections = ""
    for told, named in series.items():
        sections += f"<h2>{escape(str(told))}</h2>"
        for file, names in groupby(sorted(named), key=_file):
            sections += f'<h3>{escape(file)}</h3><div class="plots">'
            for name in names:
                found = changes(name, named[name])
                rows += [(change, told) for change in found]
                sections += _plot(told, name, named[name], found)
            sections += "</div>"
    rows.sort(key=lambda row: (row[0].since.when, row[0].before.when, row[1], row[0].by), reverse=True)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>sepu: benchmarks</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style><h1>Benchmarks</h1>"
        f"{_folded(gate.partition(chr(10))[0] or 'The gate has not run here: make bench-gate', gate)}"
        f"<h2>What changed</h2>{''.join(_changes(rows))}"
        f"{''.join(f'<p>{escape(line)}</p>' for line in _gone(series))}"
        f"<p>{len(records)} records, the last of {escape(records[-1].title)}. A point is the median of a record, a bar "
        "its middle half; blue is the mean between two changes. Only records of one processor and Python compare. "
        f"Scales do not begin at 0. Point at a mark to read it.</p>"
        f"{_folded(f'{len(costs)} costs that commits have accepted', chr(10).join(costs))}"
        f"{_folded('The peers', peers or 'Not compared here: make bench-peers')}{sections}</html>\n"
    )


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def _file(name: str) -> str:
    return name.partition("::")[0]


def _changes(rows: Sequence[tuple[Change, Machine]]) -> Iterator[str]:
    """Yields a part for each record since which something changed: when, where, by which commits, and what."""
    if not rows:
        yield "<p>Nothing: no benchmark has a change that lasts and is more than its noise.</p>"
    for (since, before, told), group in groupby(rows, lambda row: (row[0].since, row[0].before, row[1])):
        points = [change for change, _ in group]
        counts = Counter(map(_word, points))
        head = ", ".join(f'<span class="{word}">{count} {word}</span>' for word, count in counts.items())
        span = f"<code>{before.commit[:12]}..{since.commit[:12]}</code>"
        commits = points[0].commits
        listed = "".join(f"<li><code>{escape(line)}</code></li>" for line in commits)
        shown = " open" * (len(commits) <= SHOWN)
        versions = f"; also {escape(', '.join(points[0].versions))}" if points[0].versions else ""
        items = "".join(
            f'<li><span class="{_word(point)}">{point.by:+.1%}</span> '
            f'<a href="#{_anchor(told, point.name)}">{escape(point.name)}</a></li>'
            for point in points
        )
        yield (
            f"<h3>{since.when[:10]}: {head}</h3><p>{escape(str(told))}</p>"
            f"<details{shown}><summary>{len(commits) or 'unknown'} commits, {span}{versions}"
            f"</summary><ul>{listed}</ul></details><ul class='columns'>{items}</ul>"
        )


def _word(change: Change) -> str:
    return "slower" if change.by > 0 else "faster"


def _gone(series: dict[Machine, dict[str, list[Record]]]) -> Iterator[str]:
    """Yields what the last record of the same benchmark file lacks: was it renamed, or is it no longer measured?"""
    for told, named in series.items():
        for file, group in groupby(sorted(named), key=_file):
            names = list(group)
            last = max((named[name][-1] for name in names), key=lambda record: record.when)
            if gone := [name.partition("::")[2] for name in names if name not in last.times]:
                yield f"Not in the last record of {file} on {told}: {', '.join(gone)}"


def _anchor(told: Machine, name: str) -> str:
    return escape(f"{told}/{name}".replace(" ", "-"))


def _plot(told: Machine, name: str, series: Sequence[Record], found: Sequence[Change]) -> str:
    times = [record.times[name] for record in series]
    low, high = min(time.q1 for time in times), max(time.q3 for time in times)
    space = max(0.1 * high, high - low) * 0.1
    low, high = max(0.0, low - space), high + space
    days = [(float(place), series[place].when[:10]) for place in dict.fromkeys((0, len(series) - 1))]
    panel = Panel(days, [(value, in_words(value)) for value in (low, (low + high) / 2, high)])
    marks = [*panel.grid(), panel.line("points", [(place, time.median) for place, time in enumerate(times)])]
    for first, end in pairwise((0, *(change.place for change in found), len(series))):
        mean = sum(time.median for time in times[first:end]) / (end - first)
        marks.append(panel.line("means", [(first, mean), (end - 1, mean)]))
    for place, (record, time) in enumerate(zip(series, times, strict=True)):
        what = f"{record.title}: {in_words(time.median)} ({in_words(time.q1)} to {in_words(time.q3)})"
        marks.append(panel.point(place, time.median, time.q1, time.q3, what))
    return (
        f'<figure id="{_anchor(told, name)}">{panel.picture(marks)}'
        f"<figcaption>{escape(name.partition('::')[2])}: {in_words(times[-1].median)}</figcaption></figure>"
    )


def main(file: str) -> None:
    """Writes the page, with what the gate and the comparison with the peers have left beside it."""
    directory = Path(file).parent
    directory.mkdir(parents=True, exist_ok=True)
    gate, peers = (path.read_text("utf-8") if path.exists() else "" for path in (directory / GATE, directory / PEERS))
    Path(file).write_text(page(history(), dated(), gate, peers), "utf-8")
    print(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
