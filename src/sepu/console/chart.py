"""Lays out a bar chart: a slot for each part of a month or a day, and in it a bar for each meter."""

from collections.abc import Sequence
from dataclasses import dataclass

from sepu.admin.usage import Part
from sepu.metering.meters import METERS

SLOT = 10.0
"""The width of a part, in units of the drawing, which is 100 high."""
_GAP = 2.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of one meter, from the bottom up."""

    series: int
    x: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart that the template draws. `top` is the units at its upper edge; `ticks` are some of the parts' names."""

    width: float
    top: int
    bars: Sequence[Bar]
    ticks: Sequence[str]


def chart(parts: Sequence[Part]) -> Chart:
    """Lays out parts that have a name; an erased account's units have none, and are only in the table."""
    named = [part for part in parts if part.name is not None]
    top = _round_up(max((units for part in named for units in part.units.values()), default=0))
    width = (SLOT - _GAP) / len(METERS)
    bars = [
        Bar(series, position * SLOT + _GAP / 2 + series * width, width, 100 * part.units[meter] / top)
        for position, part in enumerate(named)
        for series, meter in enumerate(METERS)
        if part.units[meter]
    ]
    names = [part.name or "" for part in named]
    ticks = [names[position] for position in sorted({0, len(names) // 2, len(names) - 1})] if names else []
    return Chart(SLOT * max(1, len(named)), top, bars, ticks)


def _round_up(units: int) -> int:
    """Rounds up to 1, 2 or 5 times a power of ten."""
    power = int(10 ** (len(str(units)) - 1))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= units)
