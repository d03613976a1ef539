"""Reads colours as people write them."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Real
from typing import TypeGuard

from sepu_client.results import RGB

ColorLike = str | Iterable[float] | Mapping[str, float]

MOST_COLORS = 5  # in a request

_HEX = re.compile(r"#?([0-9a-f]{3}|[0-9a-f]{6})", re.ASCII | re.IGNORECASE)
_FORMS = "a colour is '#C83C23', '#fff', (200, 60, 35) or {'r': 200, 'g': 60, 'b': 35}"


def read_colors(colors: Iterable[ColorLike]) -> list[RGB]:
    """Returns the colours as numbers; the service judges their range. Raises ValueError or TypeError for others."""
    if isinstance(colors, str | Mapping):
        raise TypeError(f"{colors!r} is one colour, and not a list of colours; write [{colors!r}]")
    given = list(colors)
    if len(given) == 3 and all(_is_number(value) for value in given):
        raise TypeError(f"{tuple(given)!r} is one colour, and not a list of colours; write [{tuple(given)!r}]")
    return [_read(color) for color in given]


def _read(color: object) -> RGB:
    if isinstance(color, str):
        form = _HEX.fullmatch(color.strip())
        if form is None:
            raise ValueError(f"{color!r} is no colour; {_FORMS}")
        digits = form[1] if len(form[1]) == 6 else "".join(digit * 2 for digit in form[1])
        return RGB(*map(float, bytes.fromhex(digits)))
    if isinstance(color, Mapping):
        if set(color) != {"r", "g", "b"}:
            raise ValueError(f"{dict(color)!r} does not have exactly r, g and b; {_FORMS}")
        color = (color["r"], color["g"], color["b"])
    if not isinstance(color, Iterable):
        raise TypeError(f"{color!r} is no colour; {_FORMS}")
    channels = list(color)
    if len(channels) != 3:
        raise ValueError(f"{color!r} has {len(channels)} channels; {_FORMS}")
    for channel in channels:
        if not _is_number(channel):
            raise TypeError(f"{channel!r} is no number; {_FORMS}")
    return RGB(*map(float, channels))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real | Decimal) and not isinstance(value, bool)
