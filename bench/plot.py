"""Draws plots as SVG: the panels of `make load` and of `make bench-report`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

# A page may set the variables for its dark scheme; a picture by itself has none of them, and is light.
STYLE = """
.grid { stroke: var(--grid, #ddd) } .tick { fill: var(--quiet, #555); font: 11px sans-serif }
.range { stroke-width: 4; stroke-opacity: 0.3 }
.colour0 { stroke: var(--colour0, #c83c23); fill: var(--colour0, #c83c23) }
.colour1 { stroke: var(--colour1, #177cb0); fill: var(--colour1, #177cb0) }
.colour2 { stroke: #057748; fill: #057748 }
.line { fill: none; stroke-width: 1.5 } .point { stroke: none }
"""
Ticks = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Panel:
    """One pair of axes; each goes from its first tick to its last."""

    left: float
    top: float
    width: float
    height: float
    xs: Ticks
    ys: Ticks

    def _x(self, value: float) -> float:
        first, last = self.xs[0][0], self.xs[-1][0]
        return self.left + self.width * ((value - first) / (last - first) if last > first else 0.5)

    def _y(self, value: float) -> float:
        first, last = self.ys[0][0], self.ys[-1][0]
        return self.top + self.height * (last - value) / (last - first)

    def grid(self, caption: str = "") -> Iterator[str]:
        """Yields lines and labels."""
        bottom = self.top + self.height
        for value, label in self.ys:
            y = self._y(value)
            yield f'<line class="grid" x1="{self.left}" y1="{y:.1f}" x2="{self.left + self.width}" y2="{y:.1f}"/>'
            yield f'<text class="tick" x="{self.left - 5}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
        for value, label in self.xs:
            place = f'x="{self._x(value):.1f}" y="{bottom + 16}"'
            yield f'<text class="tick" {place} text-anchor="middle">{escape(label)}</text>'
        if caption:
            yield f'<text class="tick" x="{self.left}" y="{bottom + 32}">{escape(caption)}</text>'

    def line(self, colour: int, points: Iterable[tuple[float, float]]) -> str:
        path = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)
        return f'<polyline class="colour{colour} line" points="{path}"/>'

    def point(self, colour: int, x: float, y: float, low: float, high: float, told: str) -> str:
        """Draws a point that has a range, and tells what it is when one points at it."""
        at = f"{self._x(x):.1f}"
        return (
            f'<g class="colour{colour}"><title>{escape(told)}</title><line class="range" x1="{at}" x2="{at}" '
            f'y1="{self._y(low):.1f}" y2="{self._y(high):.1f}"/>'
            f'<circle class="point" cx="{at}" cy="{self._y(y):.1f}" r="3"/></g>'
        )


def picture(width: float, height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">{"".join(parts)}</svg>'
    )
