"""Draws one pair of axes as SVG; the page has the style."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 420, 150
LEFT, RIGHT, TOP, BOTTOM = 64, WIDTH - 32, 12, HEIGHT - 22
Ticks = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Panel:
    """One pair of axes between these edges; each goes from its first tick to its last."""

    xs: Ticks
    ys: Ticks
    left: float = LEFT
    right: float = RIGHT
    top: float = TOP
    bottom: float = BOTTOM

    def _x(self, value: float) -> float:
        first, last = self.xs[0][0], self.xs[-1][0]
        return self.left + (self.right - self.left) * ((value - first) / (last - first) if last > first else 0.5)

    def _y(self, value: float) -> float:
        first, last = self.ys[0][0], self.ys[-1][0]
        return self.top + (self.bottom - self.top) * (last - value) / (last - first)

    def _path(self, points: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)

    def grid(self) -> Iterator[str]:
        """Yields lines and labels."""
        for value, label in self.ys:
            y = self._y(value)
            yield f'<line class="grid" x1="{self.left}" y1="{y:.1f}" x2="{self.right}" y2="{y:.1f}"/>'
            yield f'<text class="tick" x="{self.left - 5}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
        for value, label in self.xs:
            place = f'x="{self._x(value):.1f}" y="{self.bottom + 16}"'
            yield f'<text class="tick" {place} text-anchor="middle">{escape(label)}</text>'

    def line(self, style: str, points: Iterable[tuple[float, float]]) -> str:
        """Draws a line through points."""
        return f'<polyline class="line {style}" points="{self._path(points)}"/>'

    def area(self, style: str, points: Iterable[tuple[float, float]]) -> str:
        """Fills what points enclose."""
        return f'<polygon class="area {style}" points="{self._path(points)}"/>'
