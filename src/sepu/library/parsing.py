"""Reads a colour as people write it: HEX, `rgb()`, three numbers, or a name."""

import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real

from sepu.errors import SepuError
from sepu.library.records import Entry

Rgb = tuple[float, float, float]
# `Sequence` also stands for a row of an array, which type checkers do not take for one.
ColorLike = str | Sequence[float] | Iterable[float] | Mapping[str, float] | Entry

FORMS = "write '#C83C23', '#fff', 'rgb(200, 60, 35)', (200, 60, 35), or a name such as '绯红', 'fei-hong' or 'tomato'"

_HEX = re.compile(r"#?((?:[0-9a-f]{3}){1,2})", re.ASCII | re.IGNORECASE)
_HEX_WITH_ALPHA = re.compile(r"#(?:[0-9a-f]{4}){1,2}", re.ASCII | re.IGNORECASE)
_CHANNEL = r"([+-]?(?:\d+\.?\d*|\.\d+)%?)"
_CHANNELS = re.compile(rf"\s*{_CHANNEL}(?:\s*,\s*|\s+){_CHANNEL}(?:\s*,\s*|\s+){_CHANNEL}\s*", re.ASCII)
_RGB = re.compile(r"rgba?\((.*)\)", re.IGNORECASE)


class ColorError(SepuError, ValueError):
    """This is no colour; the message says what one looks like."""


def parse_color(color: ColorLike, named: Sequence[Entry] = ()) -> Rgb:
    """Returns red, green and blue, each 0 to 255.

    `named` has the records of the library that have the text as a name: it then may not be another colour in CSS.

    Raises:
        ColorError: `color` is not of the forms that `FORMS` shows.
        TypeError: `color` is neither a text nor three numbers.
    """
    if isinstance(color, Entry):
        return color.rgb
    if isinstance(color, str):
        return _parse_text(color.strip(), named)
    if isinstance(color, Mapping):
        if set(color) != {"r", "g", "b"}:
            raise ColorError(f"{dict(color)!r} does not have exactly r, g and b; {FORMS}")
        color = [color["r"], color["g"], color["b"]]
    try:
        channels = list(color)
    except TypeError:
        raise TypeError(f"{color!r} is no colour; {FORMS}") from None
    if channels and not isinstance(channels[0], Real):
        raise TypeError(f"{channels[0]!r} is no number; for several colours: [sepu.match(color) for color in colors]")
    if len(channels) != 3:
        alpha = " (blend an alpha channel with its background first)" if len(channels) == 4 else ""
        raise ColorError(f"{color!r} has {len(channels)} channels, and a colour three{alpha}; {FORMS}")
    for channel in channels:
        if not isinstance(channel, Real) or isinstance(channel, bool):
            raise TypeError(f"{channel!r} is no number; {FORMS}")
    return _checked(channels, color)


def _parse_text(text: str, named: Sequence[Entry]) -> Rgb:
    import webcolors

    css: tuple[int, int, int] | None = None
    if text.casefold() in webcolors.names("css3"):
        css = webcolors.name_to_rgb(text)
    candidates = {record.rgb: f"{record.hex} of {record.label}" for record in named}
    if css is not None:
        candidates.setdefault(css, f"{webcolors.rgb_to_hex(css).upper()} of CSS")
    if len(candidates) > 1:
        raise ColorError(f"{text!r} is ambiguous: {', or '.join(candidates.values())}; write the value that you mean")
    if candidates:
        return next(iter(candidates))
    if text.isdecimal() and len(text) <= 3:
        raise ColorError(f"{text!r} is one number: write '#{text:0>3}' for HEX, or three numbers such as '200 60 35'")
    if form := _HEX.fullmatch(text):
        red, green, blue = webcolors.hex_to_rgb(f"#{form[1]}")
        return red, green, blue
    inner = _RGB.fullmatch(text)
    if channels := _CHANNELS.fullmatch(inner[1] if inner else text):
        return _checked([_number(channel) for channel in channels.groups()], text, percent="%" in text)
    if _HEX_WITH_ALPHA.fullmatch(text) or text.casefold().startswith("rgba"):
        raise ColorError(f"{text!r} has an alpha channel: blend it with its background first, and leave alpha out")
    raise ColorError(f"{text!r} is no colour that is known here; {FORMS}")


def _number(text: str) -> float:
    if text.endswith("%"):
        return float(text[:-1]) * 255 / 100
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def _checked(channels: Sequence[float], given: object, *, percent: bool = False) -> Rgb:
    for channel in channels:
        if not 0 <= channel <= 255:  # nor NaN
            raise ColorError(f"{given!r} has the channel {channel}, and a channel is a number from 0 to 255")
    # As `Palette` does for arrays.
    if not percent and 0 < max(channels) <= 1 and not all(isinstance(channel, Integral) for channel in channels):
        raise ColorError(f"no channel of {given!r} exceeds 1: multiply by 255, because channels go from 0 to 255")
    red, green, blue = channels
    return red, green, blue
