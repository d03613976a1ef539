"""Reads a colour as people write it: HEX, three numbers, a name, or any colour of CSS."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Decimal
from math import nan
from numbers import Integral, Real

from sepu.errors import SepuError
from sepu.labels import RGB, in_order
from sepu.library.css import (
    is_of_unknown_function,
    quoted,
    read_css,
    read_hex,
    refuse_one_number,
    trim_color,
    what_to_write,
)
from sepu.library.records import NamedColor, hex_of

Rgb = tuple[float, float, float]
# `Iterable` stands for a row of an array, which type checkers do not accept as a `Sequence`.
ColorLike = str | Sequence[float] | Iterable[float | Decimal] | Mapping[str, float] | Mapping[str, Decimal] | NamedColor

FORMS = (
    "write '#C83C23', '#fff', (200, 60, 35), a name such as '绯红', 'fei-hong' or 'tomato', or another colour of CSS "
    "such as 'oklch(0.6 0.2 30)'"
)

_PLAIN = (int, float)  # PERF: checking whether an object is Real is slow
_CHANNEL = r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)%?)"
_CHANNELS = re.compile(rf"\s*{_CHANNEL}(?:\s*,\s*|\s+){_CHANNEL}(?:\s*,\s*|\s+){_CHANNEL}\s*", re.ASCII)


class ColorError(SepuError, ValueError):
    """The value is not a colour; the message shows what to write."""


def parse_color(color: ColorLike, named: Sequence[NamedColor] = ()) -> Rgb:
    """Returns red, green and blue, each 0 to 255, or beyond that for a CSS colour outside sRGB.

    `named` has the library's records with this name: the name must not also be another colour in CSS.

    Raises:
        ColorError: `color` has none of the forms that `FORMS` shows.
        TypeError: `color` is neither a text nor three numbers.
    """
    if isinstance(color, NamedColor):
        return color.rgb
    if isinstance(color, str):
        try:
            return _parse_text(trim_color(color), named)
        except ColorError:
            raise
        except ValueError as error:
            raise ColorError(str(error)) from None
    if isinstance(color, bytes | bytearray | memoryview):  # their bytes would be taken for three channels
        raise TypeError(f"{quoted(color)} is not a text; {FORMS}")
    if isinstance(color, Set):
        raise TypeError(f"{quoted(color)} has no order; {FORMS}")
    try:
        channels = list(in_order(color, RGB))
    except TypeError:
        raise TypeError(f"{quoted(color)} is not a colour; {FORMS}") from None
    except ValueError as error:
        raise ColorError(f"{error}; {FORMS}") from None
    if channels and type(channels[0]) not in _PLAIN and not isinstance(channels[0], Real | Decimal):
        raise TypeError(
            f"{quoted(channels[0])} is not a number; for several colours: [sepu.match(color) for color in colors]"
        )
    if len(channels) != 3:
        alpha = " (blend an alpha channel with its background first)" if len(channels) == 4 else ""
        raise ColorError(f"{quoted(color)} has {len(channels)} channels, and a colour three{alpha}; {FORMS}")
    for position, channel in enumerate(channels):
        if type(channel) not in _PLAIN:
            if not isinstance(channel, Real | Decimal) or isinstance(channel, bool):
                raise TypeError(f"{quoted(channel)} is not a number; {FORMS}")
            if isinstance(channel, Decimal):
                channels[position] = nan if channel.is_nan() else float(channel)
    return _checked(channels, color)


def _parse_text(text: str, named: Sequence[NamedColor]) -> Rgb:
    refuse_one_number(text)
    if not named and (channels := read_hex(text)):
        return channels
    form = _CHANNELS.fullmatch(text[1:-1] if text[:1] + text[-1:] in {"()", "[]"} else text)
    if form and not is_of_unknown_function(text):
        return _checked([_number(channel) for channel in form.groups()], text, percent="%" in text)
    css = read_css(text)
    candidates: dict[Rgb, str] = {record.rgb: f"{record.hex} of {record.label}" for record in named}
    if css is not None:
        candidates.setdefault(css, f"{hex_of(css)} of CSS" if named else "")
    if len(candidates) > 1:
        raise ColorError(f"{text!r} is ambiguous: {', or '.join(candidates.values())}; write the value that you mean")
    if candidates:
        return next(iter(candidates))
    if reason := what_to_write(text):
        raise ColorError(reason)
    raise ColorError(f"{text!r} is not a colour that is known here; {FORMS}")


def _number(text: str) -> float:
    if text.endswith("%"):
        return float(text[:-1]) * 255 / 100
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def _checked(channels: Sequence[float], given: object, *, percent: bool = False) -> Rgb:
    for channel in channels:
        if not 0 <= channel <= 255:  # refuses NaN too
            raise ColorError(
                f"{quoted(given)} has the channel {quoted(channel)}, and a channel is a number from 0 to 255"
            )
    # As `Palette` does for arrays.
    if not percent and 0 < max(channels) <= 1 and not all(isinstance(channel, Integral) for channel in channels):
        raise ColorError(f"no channel of {quoted(given)} exceeds 1: multiply by 255, because channels go from 0 to 255")
    red, green, blue = channels
    return red, green, blue
