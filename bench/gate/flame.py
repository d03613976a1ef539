"""Draws which stacks of Python's functions have grown or shrunk, as a differential flame graph.

Source: Gregg, "Differential Flame Graphs" (2014): as wide as head's opcodes, red by what has grown, blue by what has
shrunk. The stacks are upside down: who is called stands below.
"""

from collections import Counter
from collections.abc import Mapping
from html import escape
from itertools import accumulate

_WIDTH, _ROW, _LEAST, _CHARACTER = 1200, 18, 0.5, 6.5  # pixels
_STYLE = (
    "svg { background: #fff } text { font: 11px system-ui, sans-serif; fill: #222; pointer-events: none }"
    " rect { stroke: #fff; stroke-width: 0.5 }"
)


def svg(title: str, base: Mapping[str, int], head: Mapping[str, int]) -> str:
    """Returns the picture of what stacks take on both sides: names with `;` between them."""
    before, after = (_with_callees(title, side) for side in (base, head))
    frames = sorted(before.keys() | after.keys())  # a caller before what it calls
    most = max((abs(after[frame] - before[frame]) for frame in frames if frame != title), default=0) or 1
    scale = _WIDTH / (after[title] or 1)
    free = {"": 0.0}  # by caller, where the next that it calls begins
    drawn, rows = [], 1
    for frame in frames:
        caller, _, name = frame.rpartition(";")
        x, wide, depth = free[caller], after[frame] * scale, frame.count(";")
        free |= {frame: x, caller: x + wide}
        if wide >= _LEAST or frame == title:
            drawn.append(_drawn(name, before[frame], after[frame], x, wide, depth, most))
            rows = max(rows, depth + 1)
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {rows * _ROW}" role="img">'
    about = f"<title>{escape(title)}: opcodes of Python</title><style>{_STYLE}</style>"
    return "\n".join((opened, about, *drawn, "</svg>\n"))


def _with_callees(title: str, stacks: Mapping[str, int]) -> Counter[str]:
    found = Counter({title: 0})
    for stack, opcodes in stacks.items():
        for frame in accumulate([title, *stack.split(";")], "{};{}".format):
            found[frame] += opcodes
    return found


def _drawn(name: str, base: int, head: int, x: float, wide: float, depth: int, most: int) -> str:
    more, y = head - base, depth * _ROW
    pale = round(235 - 170 * min(abs(more) / most, 1))
    colour = f"rgb(240,{pale},{pale})" if more > 0 else f"rgb({pale},{pale},240)" if more else "#e8e8e8"
    return (
        f"<g><title>{escape(name)}: {base:,} to {head:,} ({more:+,})</title>"
        f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_ROW}" fill="{colour}"/>'
        f'<text x="{x + 3:.1f}" y="{y + 13}">{escape(name[: int(wide / _CHARACTER)])}</text></g>'
    )
