"""Finds the library's nearest colours to RGB values. The formula of similarity is in cext/match_writer.pxi."""

import hashlib
import re
import struct
from collections.abc import Iterable
from itertools import chain, repeat
from operator import add, attrgetter
from typing import Annotated, Any

import msgspec

from sepu import limits
from sepu._palette import MatchWriter, Palette
from sepu.errors import InputError

# msgspec takes up to 15 us to read a number such as 1e308, and 170 of them fit into this body. Python's float reads the
# numbers of a longer one, which also takes the slower way through this file.
_SHORT_BODY_BYTES = 1024

_FIELDS = frozenset({"colors", "top"})
# The strings and numbers of RFC 8259. A string that is not closed runs to the end, so that each byte is read once.
_STRING_OR_NUMBER = re.compile(
    rb'"(?:[^"\\]|\\.)*+"?|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)', re.DOTALL
)
_HUGE = 1e300
# msgspec takes 15 us to read 1e308, Python 0.2 us. It reads 1e400 as infinity.
_read = msgspec.json.Decoder(float_hook=float).decode
# Integers stay integers; a bool is refused.
_IN_RANGE = msgspec.Meta(ge=0, le=limits.inputs.MAX_CHANNEL)
_Channel = Annotated[int, _IN_RANGE] | Annotated[float, _IN_RANGE]


class _Rgb(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    r: _Channel
    g: _Channel
    b: _Channel


class _Usual(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    colors: Annotated[list[_Rgb], msgspec.Meta(min_length=1, max_length=limits.inputs.MAX_COLORS)]
    top: Annotated[int, msgspec.Meta(ge=1, le=limits.inputs.MAX_TOP)] = 1


_read_usual = msgspec.json.Decoder(_Usual).decode
_channels = attrgetter("r", "g", "b")


class MatchInput(msgspec.Struct, frozen=True):
    """Parsed input. The channels are the numbers as sent: the answer repeats 12 as 12 and 12.0 as 12.0."""

    colors: tuple[tuple[float, float, float], ...]
    top: int

    @property
    def units(self) -> int:
        """Returns the units that the match costs: one for each colour."""
        return len(self.colors)

    def fingerprint(self) -> bytes:
        """Returns the SHA-256 of the values, which is equal for equal input. `match/1` versions what is hashed."""
        # Adding zero turns -0.0 into 0.0, which it equals.
        channels = map(add, chain.from_iterable(self.colors), repeat(0.0))
        values = struct.pack(f">B{3 * len(self.colors)}d", self.top, *channels)
        return hashlib.sha256(b"match/1\0" + values).digest()


def parse_match(body: bytes) -> MatchInput:
    """Parses the body of a match.

    Raises:
        InputError: `body_required`, `invalid_json`, `invalid_body`, `unknown_parameter`, `invalid_colors`,
            `invalid_rgb` or `invalid_top`. Its pointer names the member that is invalid or missing, or the object
            that has an unknown one.
    """
    if len(body) <= _SHORT_BODY_BYTES:
        try:
            usual = _read_usual(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # the code below accepts it after all, or names its first fault
        else:
            return MatchInput(tuple(map(_channels, usual.colors)), usual.top)
    if not body.strip(b" \t\r\n"):
        raise InputError("body_required")
    document = _decode(body)
    if not isinstance(document, dict):
        raise InputError("invalid_body")
    if not document.keys() <= _FIELDS:
        raise InputError("unknown_parameter")
    colors = document.get("colors")
    if not isinstance(colors, list):
        raise InputError("invalid_body", "/colors")
    if not 1 <= len(colors) <= limits.inputs.MAX_COLORS:
        raise InputError("invalid_colors", "/colors")
    return MatchInput(_rgb(colors), _top(document.get("top", 1)))


def _decode(body: bytes) -> object:
    try:
        try:
            return _read(body)
        except msgspec.ValidationError:
            # JSON has no largest number: 1e400 is well-formed. It is out of range, and so is its replacement.
            return _read(_STRING_OR_NUMBER.sub(_shrink, body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InputError("invalid_json") from None


def _shrink(token: re.Match[bytes]) -> bytes:
    """Replaces a number that msgspec cannot read."""
    number = token["number"]
    return token[0] if number is None or abs(float(number)) < _HUGE else b"%g" % _HUGE


def _rgb(colors: list[object]) -> tuple[tuple[float, float, float], ...]:
    try:
        return tuple(map(_channels, msgspec.convert(colors, list[_Rgb])))
    except msgspec.ValidationError:
        raise InputError("invalid_rgb", _first_fault(colors)) from None


def _first_fault(colors: list[object]) -> str:
    """Returns the pointer to the first invalid colour, or to its first invalid channel if it has no unknown member."""
    index, color = next((index, color) for index, color in enumerate(colors) if not _is_valid(color, _Rgb))
    pointer = f"/colors/{index}"
    if isinstance(color, dict) and color.keys() <= {"r", "g", "b"}:
        pointer += "/" + next(name for name in "rgb" if not _is_valid(color.get(name), _Channel))
    return pointer


def _is_valid(value: object, form: Any) -> bool:  # noqa: ANN401
    try:
        msgspec.convert(value, form)
    except msgspec.ValidationError:
        return False
    return True


def _top(value: object) -> int:
    # JSON does not distinguish 2.0 from the integer 2.
    if (type(value) is int or (type(value) is float and value.is_integer())) and 1 <= value <= limits.inputs.MAX_TOP:
        return int(value)
    raise InputError("invalid_top", "/top")


class Matcher:
    """Answers matches over one release.

    `colors` are the records as JSON objects, in the palette's order.
    """

    def __init__(self, palette: Palette, colors: Iterable[bytes], dataset_version: str) -> None:
        self._write = MatchWriter(
            palette,
            [color.removesuffix(b"}") for color in colors],
            # A match is the record of its colour and two more members.
            match=b'%,"deltaE":%,"similarity":%}',
            result=b'{"input":{"r":%,"g":%,"b":%},"matches":[%]}',
            answer=b'{"datasetVersion":' + msgspec.json.encode(dataset_version) + b',"results":[%]}',
        ).write

    def answer(self, request: MatchInput) -> bytes:
        """Returns the body of the response."""
        return self._write(request.colors, request.top)
