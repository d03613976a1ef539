"""Draws which stacks of Python's functions have grown or shrunk, as a differential flame graph.

Source: Gregg, "Differential Flame Graphs" (2014): as wide as head's opcodes, red by what has grown, blue by what has
shrunk. The stacks are upside down: who is called stands below.
"""

from collections.abc import Iterator, Mapping
from html import escape

_WIDTH, _ROW, _LEAST, _CHARACTER = 1200, 18, 0.5, 6.5  # pixels
_STYLE = (
    "svg { background: #fff } text { font: 11px system-ui, sans-serif; fill: #222; pointer-events: none }"
    " rect { stroke: #fff; stroke-width: 0.5 }"
)


class _Frame:
    """A function below its callers, with all that it calls."""

    def __init__(self) -> None:
        self.base = self.head = 0
        self.below: dict[str, _Frame] = {}

    def add(self, stack: str, base: int, head: int) -> None:
        frame = self
        for name in ("", *stack.split(";")):
            frame = frame.below.setdefault(name, _Frame()) if name else frame
            frame.base += base
            frame.head += head


def svg(title: str, base: Mapping[str, int], head: Mapping[str, int]) -> str:
    """Returns the picture of what stacks take on both sides: names with `;` between them."""
    whole = _Frame()
    for stack in sorted(base.keys() | head.keys()):
        whole.add(stack, base.get(stack, 0), head.get(stack, 0))
    most = max((abs(frame.head - frame.base) for frame in _frames(whole)), default=0) or 1
    scale = _WIDTH / (whole.head or 1)
    drawn, depth = [], 0
    levels = [(title, whole, 0.0)]
    while levels:
        drawn += [_drawn(name, frame, x, depth, scale, most) for name, frame, x in levels]
        levels = [
            placed for _, frame, x in levels for placed in _placed(frame, x, scale) if placed[1].head * scale >= _LEAST
        ]
        depth += 1
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {depth * _ROW}" role="img">',
            f"<title>{escape(title)}: opcodes of Python</title><style>{_STYLE}</style>",
            *drawn,
            "</svg>\n",
        )
    )


def _frames(frame: _Frame) -> Iterator[_Frame]:
    for below in frame.below.values():
        yield below
        yield from _frames(below)


def _placed(frame: _Frame, x: float, scale: float) -> Iterator[tuple[str, _Frame, float]]:
    for name, below in frame.below.items():
        yield name, below, x
        x += below.head * scale


def _drawn(name: str, frame: _Frame, x: float, depth: int, scale: float, most: int) -> str:
    more, wide = frame.head - frame.base, frame.head * scale
    pale = round(235 - 170 * min(abs(more) / most, 1))
    colour = f"rgb(240,{pale},{pale})" if more > 0 else f"rgb({pale},{pale},240)" if more else "#e8e8e8"
    shown = escape(name[: int(wide / _CHARACTER)])
    return (
        f"<g><title>{escape(name)}: {frame.base:,} to {frame.head:,} ({more:+,})</title>"
        f'<rect x="{x:.1f}" y="{depth * _ROW}" width="{wide:.1f}" height="{_ROW}" fill="{colour}"/>'
        f'<text x="{x + 3:.1f}" y="{depth * _ROW + 13}">{shown}</text></g>'
    )
