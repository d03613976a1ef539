"""What the readers of palette files share: their errors, the members of an entry, and channels from 0 to 1."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from sepu import limits
from sepu.errors import SepuError
from sepu.library.css import is_of_unknown_function
from sepu.library.parsing import ColorLike
from sepu.library.records import Swatch

DEEPEST = 32  # groups in groups, and references to references

_NEXT_TO_A_BYTE = 1e-4  # of a channel: more than the rounding of a 32-bit float

# Names of members and columns, the preferred ones first. Case, blanks, hyphens, underscores and what is in brackets do
# not matter.
_NAMES = ("name", "title", "label", "colorname", "colourname", "keyword", "color", "colour", "slug", "id")
_HEX_VALUES = ("hex", "hexcode", "hexvalue", "hexstring", "hexcolor", "hexcolour")
_CHANNELS = (("r", "g", "b"), ("red", "green", "blue"))
_ALPHAS = ("alpha", "opacity", "a")
_OPAQUE = ("", "100%", "None")
_VALUES = ("value", "rgb", "color", "colour")
_IGNORED = re.compile(r"\([^()]*\)|[\s_-]+")

# Beginnings of texts that are meant as colours, even unsupported ones.
_LIKE_A_COLOR = re.compile(
    r"#\w+\Z|0x[0-9a-f]{6}|(?:rgb|hsl|hs[bv])a?\(|(?:hwb|(?:ok)?l(?:ab|ch)|color|color-mix|light-dark|(?:device-)?cmyk)\("
    r"|transparent\Z|currentcolor\Z",
    re.IGNORECASE,
)


class PaletteError(SepuError, ValueError):
    """The palette cannot be read; the message says where in the file the fault is, and what to do."""


class PaletteWarning(UserWarning):
    """Entries of a palette file were skipped, as they are not opaque colours; the message says how many and why.

    `skipped` has each of them, as its place in the file and the reason.
    """

    def __init__(self, message: str, skipped: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.skipped = tuple(skipped)


# Where it is in the file, its name, and its value, or why it is not a colour.
Found = tuple[str, str, ColorLike | PaletteError]


class Members(NamedTuple):
    """The members of an entry that hold its name, its value or its three channels."""

    name: str | None
    value: str | None
    channels: Sequence[str] | None


def find_members(keys: Iterable[str]) -> Members:
    """Returns which of the members, or of the columns, hold the name and the value of a colour."""
    known: dict[str, str] = {}
    for key in keys:
        known.setdefault(_plain(key), key)
    hex_value = next((known[key] for key in _HEX_VALUES if key in known), None)
    channels = next(([known[each] for each in names] for names in _CHANNELS if known.keys() >= {*names}), None)
    value = hex_value if hex_value or channels else next((known[key] for key in _VALUES if key in known), None)
    name = next((known[key] for key in _NAMES if key in known and known[key] != value), None)
    return Members(name, value, None if value else channels)


def find_alpha(keys: Iterable[str]) -> str | None:
    """Returns which of the members, or of the columns, holds the alpha channel of a colour: not the a of L*a*b*."""
    known = {_plain(key): key for key in keys}
    alphas = _ALPHAS if "l" not in known or "s" in known else _ALPHAS[:-1]
    return next((known[each] for each in alphas if each in known), None)


def opaque_alpha(alphas: Iterable[object]) -> int | None:
    """Returns the alpha of a file's opaque colours, 1 or 255, by all of its alphas; None if these do not tell."""
    greatest = max((number for number in map(_number_of, alphas) if number is not None), default=1)
    return 1 if greatest <= 1 else 255 if greatest > 100 else None


def check_alpha(alpha: object, opaque: int | None) -> None:
    """Raises PaletteError unless a colour with this alpha, a number or a text, is opaque."""
    number = _number_of(alpha)
    if str(alpha).strip() in _OPAQUE or (number is not None and number == opaque):
        return
    shown = f"{printable(str(alpha)):.20}"
    if number and opaque is None:
        raise PaletteError(f"its alpha of {shown} may be of 100 or of 255: write 1 if it is opaque")
    raise PaletteError(f"it has an alpha channel of {shown}: blend it with its background first")


def _number_of(alpha: object) -> float | None:
    try:
        number = float(alpha) if isinstance(alpha, str | int | float) and not isinstance(alpha, bool) else None
    except (ValueError, OverflowError):
        return None
    return number if number == number else None  # NaN


@lru_cache(1000)
def _plain(key: str) -> str:
    return _IGNORED.sub("", key[: limits.inputs.NAME_CHARACTERS]).casefold()


def is_name(key: str) -> bool:
    """Returns whether a member can only be the name of an entry, and not its value."""
    return _plain(key) in _NAMES and _plain(key) not in _VALUES


def is_value(key: str) -> bool:
    """Returns whether a member is the value of an entry."""
    return _plain(key) in _VALUES


def looks_like_a_color(value: object) -> bool:
    """Returns whether a text is meant as a colour, though it may not be one."""
    if not isinstance(value, str):
        return False
    return _LIKE_A_COLOR.match(value.strip()) is not None or is_of_unknown_function(value.strip())


def printable(name: str) -> str:
    """Returns a name without control characters."""
    return "".join(filter(str.isprintable, name[: limits.inputs.NAME_CHARACTERS])).strip()


def decode(content: bytes) -> str:
    """Returns the text of a file; raises PaletteError if it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PaletteError(f"line {line}: this is not UTF-8; save the file as UTF-8") from None


def of_unit(channels: Sequence[float]) -> ColorLike:
    """Returns a colour of channels from 0 to 1; bytes that a 32-bit float rounded are restored."""
    if not all(-_NEXT_TO_A_BYTE <= channel <= 1 + _NEXT_TO_A_BYTE for channel in channels):  # refuses NaN too
        raise PaletteError(f"its channels are {', '.join(map(str, channels))}, and not from 0 to 1")
    scaled = [min(max(255 * channel, 0.0), 255.0) for channel in channels]
    red, green, blue = (round(each) if abs(each - round(each)) < 255 * _NEXT_TO_A_BYTE else each for each in scaled)
    return Swatch("", (red, green, blue))
