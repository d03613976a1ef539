"""Holds the answers of the service, named as in its OpenAPI document, and functions that read them.

A class names and types the members of an object: `delta_e: float` is the number `deltaE`. Reading takes members and
headers that are not known here, and refuses an answer that lacks what is.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


class RGB(NamedTuple):
    """Holds an sRGB value; channels are real numbers from 0 to 255."""

    r: float
    g: float
    b: float


@dataclass(frozen=True, slots=True)
class ColorName:
    """Holds a name in simplified characters, in English, and in pinyin with tone marks."""

    zh: str
    en: str
    pinyin: str


@dataclass(frozen=True, slots=True)
class Color:
    """Describes a colour of the library. `reliability` is `verified`, `attributed` or `disputed` by the sources."""

    slug: str
    name: ColorName
    hex: str
    reliability: str


@dataclass(frozen=True, slots=True)
class Match(Color):
    """Holds a colour and its distance: by CIEDE2000, and as 1 − ΔE/100."""

    delta_e: float
    similarity: float


@dataclass(frozen=True, slots=True)
class MatchResult:
    """Holds the matches of one input colour, nearest first."""

    input: RGB
    matches: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class UsageSnapshot:
    """Describes one meter, `color_match` or `color_search`, in one UTC month such as `2026-11`."""

    period: str
    meter: str
    limit: int
    committed: int
    reserved: int
    remaining: int


@dataclass(frozen=True, slots=True)
class MeteredResponse:
    """Holds the charge of a match or search; a replayed answer was charged earlier, and not again."""

    usage: UsageSnapshot
    replayed: bool
    request_id: str
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class MatchResponse(MeteredResponse):
    """Holds one result for each input colour, in the order of the request."""

    dataset_version: str
    results: tuple[MatchResult, ...]


@dataclass(frozen=True, slots=True)
class SearchResponse(MeteredResponse):
    """Holds the colours that were found, best first; may be empty."""

    dataset_version: str
    count: int
    results: tuple[Color, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """Describes the release that matches and searches use."""

    version: str
    record_count: int
    value_mismatch_count: int | None
    source_projection_version: str
    source_projection_sha256: str
    rights_manifest_sha256: str
    library_sha256: str
    mode: str
    request_id: str


@dataclass(frozen=True, slots=True)
class UsageResponse:
    """Holds all meters of the account in the current UTC month."""

    account_id: str
    plan_id: str
    status: str
    usage: tuple[UsageSnapshot, ...]
    request_id: str


class Unreadable(ValueError):  # noqa: N818  (it never leaves this package)
    """Says that an answer lacks a required part."""


_UNITS = [f"x-usage-{name}" for name in ("limit", "committed", "reserved", "remaining")]
_MISSING = object()
_decode = json.JSONDecoder().decode

Reader = Callable[[Any, str], Any]
"""Returns the value of a member whose name it takes, or raises Unreadable."""


def read(form: type[T], body: bytes, known: dict[str, object]) -> T:
    """Reads an answer into its class; `known` has the fields that are not in the body."""
    members = _json(body)
    readers: list[tuple[str, str, Reader]] = _readers(form)  # type: ignore[arg-type]  # a class is hashable
    found = {name: read(members.get(member, _MISSING), member) for name, member, read in readers if name not in known}
    return form(**found, **known)


def read_usage_headers(headers: Mapping[str, str]) -> UsageSnapshot:
    """Reads the meter from the headers of a charge or of an exceeded quota, whose names are in lower case."""
    units = [headers.get(name, "") for name in _UNITS]
    for name, value in zip(_UNITS, units, strict=True):
        if not (value.isascii() and value.isdigit() and len(value) < 20):
            raise Unreadable(f"the header {name.title()} is missing or no number")
    period, meter = headers.get("x-usage-period"), headers.get("x-usage-meter")
    if period is None or meter is None:
        raise Unreadable("the header X-Usage-Period or X-Usage-Meter is missing")
    return UsageSnapshot(period, meter, *map(int, units))


def read_error_code(body: bytes) -> object:
    """Reads the code of an error, whatever it is."""
    return _json(body).get("error")


def _json(body: bytes) -> dict[str, object]:
    try:
        found = _decode(body.decode())
    except (ValueError, RecursionError):
        raise Unreadable("the body is not JSON") from None
    if not isinstance(found, dict):
        raise Unreadable("the body is not an object")
    return found


@cache
def _readers(form: Any) -> list[tuple[str, str, Reader]]:  # noqa: ANN401
    """Returns each field's name, its member, and what reads that."""
    readers: list[tuple[str, str, Reader]] = []
    for name, kind in get_type_hints(form).items():
        member = re.sub("_(.)", lambda found: found[1].upper(), name)
        kinds = get_args(kind)
        reader: Reader
        if get_origin(kind) is tuple:
            reader = partial(_list, _readers(kinds[0]), kinds[0])
        elif NoneType in kinds:
            reader = partial(_optional, _SCALARS[kinds[0]])
        else:
            reader = _SCALARS.get(kind) or partial(_object, _readers(kind), kind)
        readers.append((name, member, reader))
    return readers


def _string(value: Any, member: str) -> str:  # noqa: ANN401
    if type(value) is not str:
        raise _unreadable(member, "string")
    return value


def _bool(value: Any, member: str) -> bool:  # noqa: ANN401
    if type(value) is not bool:
        raise _unreadable(member, "true or false")
    return value


def _whole(value: Any, member: str) -> int:  # noqa: ANN401
    if type(value) is not int:
        raise _unreadable(member, "whole number")
    return value


def _number(value: Any, member: str) -> float:  # noqa: ANN401
    # json accepts NaN and Infinity, and an integer may be too large for a float.
    if type(value) not in (int, float) or not -1e308 < value < 1e308:
        raise _unreadable(member, "number")
    return float(value)


_SCALARS: dict[Any, Reader] = {str: _string, bool: _bool, int: _whole, float: _number}


def _optional(reader: Reader, value: Any, member: str) -> Any:  # noqa: ANN401
    return None if value is _MISSING else reader(value, member)


def _object(readers: list[tuple[str, str, Reader]], form: Any, value: Any, member: str) -> Any:  # noqa: ANN401
    if type(value) is not dict:
        raise _unreadable(member, "object")
    return form(*[read(value.get(name, _MISSING), name) for _, name, read in readers])


def _list(readers: list[tuple[str, str, Reader]], form: Any, value: Any, member: str) -> Any:  # noqa: ANN401
    if type(value) is not list:
        raise _unreadable(member, "list of objects")
    return tuple([_object(readers, form, item, member) for item in value])


def _unreadable(member: str, wanted: str) -> Unreadable:
    return Unreadable(f"{member} is missing or no {wanted}")
