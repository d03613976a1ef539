"""`make bench-report`: draws the history of all records on one page that loads no other file."""

import sys
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby, pairwise
from pathlib import Path

from bench.records import Record, Times, differences, history, in_words

WIDTH, HEIGHT = 420, 130
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 20
_COLOURS = ("#c83c23", "#177cb0", "#1bd1a5", "#8d4bbb", "#ca6924", "#057748")  # one for each machine
_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em; max-width: 1360px; color: #222; background: #fff }
figure { display: inline-block; margin: 0 1em 1em 0 }
figcaption { font-size: 12px; max-width: 420px; overflow-wrap: anywhere }
svg { background: #fafafa } text { font-size: 10px; fill: #555 }
table { border-collapse: collapse; font-size: 12px } td, th { padding: 0 1em 0 0; text-align: left }
"""


def chart(name: str, records: Sequence[Record], colours: dict[tuple[object, ...], str]) -> str:
    """Draws one benchmark: medians as points, interquartile ranges as bars, and a line for each machine."""
    shown = [(place, record, record.times[name]) for place, record in enumerate(records) if name in record.times]
    most = max(times.q3 for _, _, times in shown)

    def x(place: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (place + 0.5) / len(records)

    def y(seconds: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * seconds / most

    def marks() -> Iterator[str]:
        for share in (0, 0.5, 1):
            line = f"{y(most * share):.1f}"
            yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{line}" y2="{line}" stroke="#ddd"/>'
            label = in_words(most * share) if share else "0"
            yield f'<text x="{LEFT - 4}" y="{line}" dy="3" text-anchor="end">{label}</text>'
        for place, (before, now) in enumerate(pairwise(records), 1):
            if changed := differences(before.versions, now.versions):
                middle = (x(place - 1) + x(place)) / 2
                yield (
                    f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#999" '
                    f'stroke-dasharray="3"><title>{escape("; ".join(changed))}</title></line>'
                )
        for hardware, colour in colours.items():
            points = [(place, times.median) for place, record, times in shown if record.hardware == hardware]
            line = " ".join(f"{x(place):.1f},{y(median):.1f}" for place, median in points)
            yield f'<polyline points="{line}" fill="none" stroke="{colour}"/>'
        for place, record, times in shown:
            yield _point(x(place), y(times.q1), y(times.q3), y(times.median), colours[record.hardware], record, times)
            yield f'<text x="{x(place):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(record.name)}</text>'

    return (
        f'<figure><svg width="{WIDTH}" height="{HEIGHT}" role="img">{"".join(marks())}</svg>'
        f"<figcaption>{escape(name.partition('::')[2])}</figcaption></figure>"
    )


def _point(x: float, q1: float, q3: float, median: float, colour: str, record: Record, times: Times) -> str:
    told = f"{record.title}: {in_words(times.median)} ({in_words(times.q1)} to {in_words(times.q3)})"
    return (
        f'<g stroke="{colour}" fill="{colour}"><title>{escape(told)}</title>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{q1:.1f}" y2="{q3:.1f}" stroke-width="4" stroke-opacity="0.3"/>'
        f'<circle cx="{x:.1f}" cy="{median:.1f}" r="3"/></g>'
    )


def page(records: Sequence[Record]) -> str:
    """Draws the whole history. Benchmarks that the last record lacks are drawn too, and marked as gone."""
    machines = list(dict.fromkeys(record.hardware for record in records))
    colours = {hardware: _COLOURS[number % len(_COLOURS)] for number, hardware in enumerate(machines)}
    rows = "".join(
        f'<tr><td style="color:{colours[record.hardware]}">●</td><td>{escape(record.title)}</td>'
        f"<td>{escape(', '.join(map(str, record.hardware)))}</td>"
        f"<td>{escape(', '.join(f'{name} {version}' for name, version in record.versions.items()))}</td></tr>"
        for record in records
    )
    names = sorted({name for record in records for name in record.times})
    gone = [name for name in names if name not in records[-1].times]
    sections = "".join(
        f"<h2>{escape(file)}</h2>{''.join(chart(name, records, colours) for name in group)}"
        for file, group in groupby(names, key=lambda name: name.partition("::")[0])
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>sepu: benchmarks</title>'
        f"<style>{_STYLE}</style><h1>Benchmarks</h1>"
        "<p>Medians; bars hold the middle half. Each colour is a machine, and only points of one colour compare. "
        "At a dashed line a version changed. Point at a mark to read it.</p>"
        f"<table>{rows}</table>{sections}"
        f"{'<p>Not in the last record: ' + escape(', '.join(gone)) + '</p>' if gone else ''}</html>\n"
    )


def main(file: str) -> None:
    """Writes the page."""
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(page(history()), "utf-8")
    print(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
