"""Matching: the nearest colours of the library to one to five RGB values, by CIEDE2000."""

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import NoReturn, Protocol

import msgspec

from sepu.operations.errors import InputError

MAX_COLORS = 5
MAX_TOP = 3
MAX_CHANNEL = 255

_FIELDS = frozenset({"colors", "top"})
_CHANNELS = frozenset({"r", "g", "b"})


class NearestColors(Protocol):
    """The palette: positions and deltaE of the k nearest colours, nearest first."""

    def nearest(self, r: float, g: float, b: float, k: int) -> Sequence[tuple[int, float]]:
        """Exact; ties in library order."""


class MatchInput(msgspec.Struct, frozen=True):
    """Parsed input. The channels are the numbers as they were sent, 12 and 12.0 alike but not the same."""

    colors: tuple[tuple[float, float, float], ...]
    top: int

    @property
    def units(self) -> int:
        """One per colour."""
        return len(self.colors)

    def fingerprint(self) -> bytes:
        """SHA-256 over the values: equal for equal input, however it was written. `1` is the form's version."""
        channels = [channel for color in self.colors for channel in color]
        # Adding zero makes -0.0 the 0.0 that it equals.
        values = struct.pack(f">B{len(channels)}d", self.top, *(channel + 0.0 for channel in channels))
        return hashlib.sha256(b"match/1\0" + values).digest()


def parse_match(body: bytes) -> MatchInput:
    """Parses the body of a match.

    Raises:
        InputError: `body_required`, `invalid_json`, `invalid_body`, `unknown_parameter`, `invalid_colors`,
            `invalid_rgb` or `invalid_top`.
    """
    if not body.strip(b" \t\r\n"):
        raise InputError("body_required")
    document = _decode(body)
    if not isinstance(document, dict):
        raise InputError("invalid_body")
    if not document.keys() <= _FIELDS:
        raise InputError("unknown_parameter")
    colors = document.get("colors")
    if not isinstance(colors, list):
        raise InputError("invalid_body")
    if not 1 <= len(colors) <= MAX_COLORS:
        raise InputError("invalid_colors")
    return MatchInput(tuple(map(_rgb, colors)), _top(document.get("top", 1)))


def _decode(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except msgspec.ValidationError:
        return _decode_huge_numbers(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InputError("invalid_json") from None


def _decode_huge_numbers(body: bytes) -> object:
    """JSON knows no largest number: 1e400 is well-formed, and outside every bound of ours."""
    try:
        document = json.loads(body.decode(), parse_int=float, parse_constant=_refuse_constant)
        json.dumps(document, ensure_ascii=False).encode()  # a lone surrogate has no UTF-8
    except (ValueError, RecursionError):
        raise InputError("invalid_json") from None
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _rgb(item: object) -> tuple[float, float, float]:
    if not isinstance(item, dict) or item.keys() != _CHANNELS:
        raise InputError("invalid_rgb")
    return _channel(item["r"]), _channel(item["g"]), _channel(item["b"])


def _channel(value: object) -> float:
    # bool is an int to isinstance
    if (type(value) is int or type(value) is float) and 0 <= value <= MAX_CHANNEL:
        return value
    raise InputError("invalid_rgb")


def _top(value: object) -> int:
    # To JSON, 2.0 is the integer 2.
    if (type(value) is int or (type(value) is float and value.is_integer())) and 1 <= value <= MAX_TOP:
        return int(value)
    raise InputError("invalid_top")


class Matcher:
    """Answers matches over one release.

    `colors` are the records as JSON objects, in the palette's order.
    """

    def __init__(self, palette: NearestColors, colors: Sequence[bytes], dataset_version: str) -> None:
        self._nearest = palette.nearest
        # A match is its colour's record with two members more.
        self._openings = [color[:-1] for color in colors]
        self._head = b'{"datasetVersion":' + msgspec.json.encode(dataset_version) + b',"results":['

    def answer(self, request: MatchInput) -> bytes:
        """The response body."""
        return self._head + b",".join([self._result(color, request.top) for color in request.colors]) + b"]}"

    def _result(self, color: tuple[float, float, float], top: int) -> bytes:
        r, g, b = color
        matches = b",".join(
            [
                b'%b,"deltaE":%a,"similarity":%a}'
                % (self._openings[position], round(delta_e, 4), round(max(0.0, 1 - delta_e / 100), 4))
                for position, delta_e in self._nearest(r, g, b, top)
            ]
        )
        return b'{"input":{"r":%a,"g":%a,"b":%a},"matches":[%b]}' % (r, g, b, matches)
