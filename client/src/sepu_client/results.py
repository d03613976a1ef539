"""Holds the answers of the service, named as in its OpenAPI document, and functions that read them.

A class names and types the members of an object: `delta_e: float` is the number `deltaE`. Reading takes members and
headers that are not known here, and refuses an answer that lacks what is.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
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
    """Holds the colours that were found, best first; perhaps none."""

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


_SCALARS: dict[type, tuple[str, Callable[[Any], bool]]] = {
    str: ("string", lambda value: isinstance(value, str)),
    int: ("whole number", lambda value: type(value) is int),
    # json accepts NaN and Infinity, and an integer may be too large for a float.
    float: ("number", lambda value: type(value) in {int, float} and -1e308 < value < 1e308),
}


def read(form: type[T], body: bytes, known: dict[str, object]) -> T:
    """Reads an answer into its class; `known` has the fields that are not in the body."""
    answer: T = _read(form, _json(body), known)
    return answer


def read_usage_headers(headers: Mapping[str, str]) -> UsageSnapshot:
    """Reads the meter from the headers of a charge or of an exceeded quota, whose names are in lower case."""

    def units(name: str) -> int:
        value = headers.get(f"x-usage-{name.lower()}", "")
        if not (value.isascii() and value.isdigit() and len(value) < 20):
            raise Unreadable(f"the header X-Usage-{name} is missing or no number")
        return int(value)

    period, meter = headers.get("x-usage-period"), headers.get("x-usage-meter")
    if period is None or meter is None:
        raise Unreadable("the header X-Usage-Period or X-Usage-Meter is missing")
    return UsageSnapshot(period, meter, units("Limit"), units("Committed"), units("Reserved"), units("Remaining"))


def read_error_code(body: bytes) -> object:
    """Reads the code of an error, whatever it is."""
    return _json(body).get("error")


def _json(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Unreadable("the body is not JSON") from None
    if not isinstance(found, dict):
        raise Unreadable("the body is not an object")
    return found


@cache
def _fields(form: Any) -> list[tuple[str, str, Any, bool, bool]]:  # noqa: ANN401
    """Returns each field's name, its member, its type or that of its items, and whether it is a list or optional."""
    fields = []
    for name, kind in get_type_hints(form).items():
        member = re.sub("_(.)", lambda found: found[1].upper(), name)
        kinds = get_args(kind)
        is_list, may_be_missing = get_origin(kind) is tuple, NoneType in kinds
        fields.append((name, member, kinds[0] if kinds else kind, is_list, may_be_missing))
    return fields


def _read(form: Any, members: dict[str, Any], known: dict[str, object]) -> Any:  # noqa: ANN401
    fields = dict(known)
    for name, member, kind, is_list, may_be_missing in _fields(form):
        if name in known:
            continue
        value = members.get(member)
        if may_be_missing and member not in members:
            fields[name] = None
        elif is_list:
            if not (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
                raise _unreadable(member, "list of objects")
            fields[name] = tuple([_read(kind, item, {}) for item in value])
        elif scalar := _SCALARS.get(kind):
            wanted, is_valid = scalar
            if not is_valid(value):
                raise _unreadable(member, wanted)
            fields[name] = kind(value)
        else:
            if not isinstance(value, dict):
                raise _unreadable(member, "object")
            fields[name] = _read(kind, value, {})
    return form(**fields)


def _unreadable(member: str, wanted: str) -> Unreadable:
    return Unreadable(f"{member} is missing or no {wanted}")
