"""Reads colours as people write them."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from math import nan
from numbers import Integral, Real
from typing import TypeGuard

from sepu_client.ambiguous_names import AMBIGUOUS_NAMES
from sepu_client.css import (
    is_of_unknown_function,
    quoted,
    read_css,
    read_hex,
    refuse_one_number,
    trim_color,
    what_to_write,
)
from sepu_client.labels import RGB as RGB_LABELS
from sepu_client.labels import in_order
from sepu_client.results import RGB

ColorLike = str | Iterable[float] | Mapping[str, float]
"""A colour that `match` accepts: '#C83C23', 'tomato', (200, 60, 35) or {'r': 200, 'g': 60, 'b': 35}."""

MAX_COLORS = 5  # in a request

_FORMS = (
    "a colour is '#C83C23', '#fff', (200, 60, 35), {'r': 200, 'g': 60, 'b': 35}, or one of CSS, such as 'tomato' or "
    "'oklch(0.6 0.2 30)'"
)


def read_colors(colors: Iterable[ColorLike], scale: int | None = None, *, most: int | None = None) -> list[RGB]:
    """Returns the colours as numbers from 0 to 255, or raises ValueError or TypeError.

    `scale`: the greatest value of a channel, 255 (also without `scale`) or 1. `most`: the maximum number of colours;
    the minimum is one.
    """
    if scale not in (None, 1, 255):
        raise ValueError(f"scale must be 1 or 255, not {scale!r}")
    if not isinstance(colors, (list, tuple)):  # PERF: the other types take longer to check
        if isinstance(colors, str | Mapping):
            raise TypeError(f"{quoted(colors)} is one colour, and not a list of colours; write [{quoted(colors)}]")
        if not isinstance(colors, Iterable):
            raise TypeError(f"{quoted(colors)} is not a list of colours; {_FORMS}")
    given = list(colors if most is None else islice(colors, most + 1))
    if len(given) == 3 and all(_is_number(value) for value in given):
        raise TypeError(
            f"{quoted(tuple(given))} is one colour, and not a list of colours; write [{quoted(tuple(given))}]"
        )
    if most is not None and not 1 <= len(given) <= most:
        raise ValueError(f"a match takes one to {most} colours; match_many takes more")
    return [_read(color, scale) for color in given]


def _read(color: object, scale: int | None) -> RGB:
    if isinstance(color, str):
        return _read_text(trim_color(color))
    if isinstance(color, (tuple, list)) and type(color) in (tuple, list, RGB):  # PERF: no labels, or in order
        return _scaled(color, color, scale)
    if isinstance(color, Iterable):
        try:
            channels = list(in_order(color, RGB_LABELS))
        except ValueError as error:
            raise ValueError(f"{error}; {_FORMS}") from None
        return _scaled(channels, color, scale)
    raise TypeError(f"{quoted(color)} is not a colour; {_FORMS}")


def _read_text(text: str) -> RGB:
    refuse_one_number(text)
    if channels := read_hex(text):
        return RGB(*map(float, channels))
    is_bare = text[:1].isdecimal() and not is_of_unknown_function(text)
    rgb = read_css(f"rgb({text})" if is_bare else text)  # "200 60 35"
    if rgb is None:
        raise ValueError(what_to_write(text) or f"{text!r} is not a colour; {_FORMS}")
    if library := AMBIGUOUS_NAMES.get(text.lower()):
        css = "#{:02X}{:02X}{:02X}".format(*map(round, rgb))
        raise ValueError(
            f"{text!r} is ambiguous: {library} of the library, or {css} of CSS; write the value that you mean"
        )
    if min(rgb) < 0 or max(rgb) > 255:
        raise ValueError(f"{text!r} lies outside sRGB, and the service takes only sRGB; the library matches it")
    return RGB(*map(float, rgb))


def _scaled(channels: Sequence[object], color: object, scale: int | None) -> RGB:
    if len(channels) != 3:
        raise ValueError(f"{quoted(color)} has {len(channels)} channels; {_FORMS}")
    numbers = [_number(channel) for channel in channels]
    greatest = scale or 255
    for number in numbers:
        if not 0 <= number <= greatest:  # refuses NaN too
            raise ValueError(
                f"{quoted(color)} has the channel {number}, and a channel is a number from 0 to {greatest}"
            )
    # As in the library. An RGB's type gives its scale.
    if (
        scale is None
        and 0 < max(numbers) <= 1
        and not (isinstance(color, RGB) or all(isinstance(channel, Integral) for channel in channels))
    ):
        raise ValueError(
            f"no channel of {quoted(color)} exceeds 1: pass scale=1 if channels run from 0 to 1, scale=255 if not"
        )
    return RGB(*[number * 255 for number in numbers] if scale == 1 else numbers)


def _number(channel: object) -> float:
    if not _is_number(channel):
        raise TypeError(f"{quoted(channel)} is not a number; {_FORMS}")
    try:
        return float(channel)
    except (ValueError, OverflowError):  # a signalling NaN, an integer of 400 digits
        return nan


def _is_number(value: object) -> TypeGuard[float]:
    # PERF: checking whether an object is Real is slow.
    return type(value) in (int, float) or (isinstance(value, Real | Decimal) and not isinstance(value, bool))
