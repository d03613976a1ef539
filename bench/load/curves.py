"""Draws what it costs to ask more: answers a second against p50 and p99, by the number of connections."""

from collections.abc import Iterator, Mapping
from math import log10
from pathlib import Path

from bench.load.figures import Figures
from bench.load.report import Cell, Who
from bench.plot import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Panel

FEWEST = 3  # points that make a curve
_STYLE = """<style>
svg { background: #fff } text { font: 9px system-ui, sans-serif; fill: #333 } .grid { stroke: #ddd }
polyline.line { fill: none; stroke-width: 1.5 }
.sepu { stroke: #c83c23; fill: #c83c23 } .pgbench { stroke: #777; fill: #777 }
.p99 { stroke-dasharray: 4 2 } text.sepu, text.pgbench { stroke: none }
@media (prefers-color-scheme: dark) {
  svg { background: #111 } text { fill: #ccc } .grid { stroke: #333 } .sepu { stroke: #ff7a5c; fill: #ff7a5c }
}
</style>"""
_SIDES: tuple[Who, ...] = ("sepu", "pgbench")
_MILLISECONDS = [step * 10.0**power for power in range(-2, 5) for step in (1, 3)]


def save_curves(figures: Mapping[Cell, Figures], directory: Path) -> Iterator[Path]:
    """Writes a picture of each scenario that was measured with enough numbers of connections."""
    for name in dict.fromkeys(cell.scenario for cell in figures):
        points = {
            who: [found for cell, found in figures.items() if (cell.scenario, cell.who) == (name, who)]
            for who in _SIDES
        }
        if len(points["sepu"]) >= FEWEST:
            path = directory / f"{name}.svg"
            path.write_text(_picture(name, {who: found for who, found in points.items() if found}))
            yield path


def _picture(name: str, points: Mapping[Who, list[Figures]]) -> str:
    every = [one for found in points.values() for one in found]
    fastest = max(one.rate for one in every)
    step = next(step * 10**power for power in range(9) for step in (1, 2, 5) if fastest <= 5 * step * 10**power)
    least, most = 1e3 * min(one.p50 for one in every), 1e3 * max(one.p99 for one in every)
    lowest = max(ms for ms in _MILLISECONDS if ms <= max(least, _MILLISECONDS[0]))
    ys = [(log10(ms), f"{ms:g} ms") for ms in _MILLISECONDS if lowest <= ms and ms / 3.4 < most]
    panel = Panel([(n * step, f"{n * step:,}") for n in range(6) if (n - 1) * step < fastest], ys, top=TOP + 12)

    def marks() -> Iterator[str]:
        yield f"<title>{name}: answers a second, against p50 and p99</title>{_STYLE}"
        yield from panel.grid()
        for place, (who, found) in enumerate(points.items()):
            for what, times in (("p50", [one.p50 for one in found]), ("p99", [one.p99 for one in found])):
                curve = [(one.rate, log10(1e3 * seconds)) for one, seconds in zip(found, times, strict=True)]
                yield panel.line(f"{who} {what}", curve)
            x = LEFT + place * (RIGHT - LEFT) / 2
            yield f'<text class="{who}" x="{x}" y="{TOP}">{who}: p50 ——, p99 - - -</text>'
        yield f'<text x="{WIDTH - 4}" y="{HEIGHT - 24}" text-anchor="end">a second</text>'

    return panel.picture(marks())
