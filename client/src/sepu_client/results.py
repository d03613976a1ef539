"""The answers of the service, named as in its OpenAPI document, and functions that read them.

Reading takes members and headers that are not known here, and refuses an answer that lacks what is.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class RGB(NamedTuple):
    """An sRGB value; channels are real numbers from 0 to 255."""

    r: float
    g: float
    b: float


@dataclass(frozen=True, slots=True)
class ColorName:
    """A name in simplified characters, in English, and in pinyin with tone marks."""

    zh: str
    en: str
    pinyin: str


@dataclass(frozen=True, slots=True)
class Color:
    """A colour of the library. `reliability` is `verified`, `attributed` or `disputed`: how well sources confirm it."""

    slug: str
    name: ColorName
    hex: str
    reliability: str


@dataclass(frozen=True, slots=True)
class Match(Color):
    """A colour and its distance: by CIEDE2000, and as 1 − ΔE/100."""

    delta_e: float
    similarity: float


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The matches of one input colour, nearest first."""

    input: RGB
    matches: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class UsageSnapshot:
    """One meter, `color_match` or `color_search`, in one UTC month such as `2026-11`."""

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
    """One result for each input colour, in the order of the request."""

    dataset_version: str
    results: tuple[MatchResult, ...]


@dataclass(frozen=True, slots=True)
class SearchResponse(MeteredResponse):
    """The colours that were found, best first; perhaps none."""

    dataset_version: str
    count: int
    results: tuple[Color, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """The release that matches and searches use."""

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
    """All meters of the account in the current UTC month."""

    account_id: str
    plan_id: str
    status: str
    usage: tuple[UsageSnapshot, ...]
    request_id: str


class Unreadable(ValueError):  # noqa: N818  (it never leaves this package)
    """Says that an answer lacks a required part."""


def read_match(body: bytes, metered: MeteredResponse) -> MatchResponse:
    """Reads the answer to a match."""
    answer = _json(body)
    return MatchResponse(
        metered.usage,
        metered.replayed,
        metered.request_id,
        metered.idempotency_key,
        _text(answer, "datasetVersion"),
        _each(answer, "results", _match_result),
    )


def read_search(body: bytes, metered: MeteredResponse) -> SearchResponse:
    """Reads the answer to a search."""
    answer = _json(body)
    return SearchResponse(
        metered.usage,
        metered.replayed,
        metered.request_id,
        metered.idempotency_key,
        _text(answer, "datasetVersion"),
        _whole(answer, "count"),
        _each(answer, "results", _color),
    )


def read_library(body: bytes, request_id: str) -> Library:
    """Reads the metadata of the library."""
    answer = _json(body)
    return Library(
        _text(answer, "version"),
        _whole(answer, "recordCount"),
        _whole(answer, "valueMismatchCount") if "valueMismatchCount" in answer else None,
        _text(answer, "sourceProjectionVersion"),
        _text(answer, "sourceProjectionSha256"),
        _text(answer, "rightsManifestSha256"),
        _text(answer, "librarySha256"),
        _text(answer, "mode"),
        request_id,
    )


def read_usage(body: bytes, request_id: str) -> UsageResponse:
    """Reads the account's meters."""
    answer = _json(body)
    return UsageResponse(
        _text(answer, "accountId"),
        _text(answer, "planId"),
        _text(answer, "status"),
        _each(answer, "usage", _snapshot),
        request_id,
    )


def read_usage_headers(headers: Mapping[str, str]) -> UsageSnapshot:
    """Reads the meter from the headers of a charge or of an exceeded quota."""

    def units(name: str) -> int:
        value = headers.get(f"X-Usage-{name}", "")
        if not (value.isascii() and value.isdigit() and len(value) < 20):
            raise Unreadable(f"the header X-Usage-{name} is missing or no number")
        return int(value)

    period, meter = headers.get("X-Usage-Period"), headers.get("X-Usage-Meter")
    if period is None or meter is None:
        raise Unreadable("the header X-Usage-Period or X-Usage-Meter is missing")
    return UsageSnapshot(period, meter, units("Limit"), units("Committed"), units("Reserved"), units("Remaining"))


def read_error_code(body: bytes) -> str | None:
    """Reads the code of an error; None if it does not have the service's form."""
    try:
        return _text(_json(body), "error")
    except Unreadable:
        return None


def _match_result(item: dict[str, object]) -> MatchResult:
    sent = _object(item, "input")
    return MatchResult(RGB(*(_number(sent, channel) for channel in "rgb")), _each(item, "matches", _match))


def _match(item: dict[str, object]) -> Match:
    color = _color(item)
    near = _number(item, "deltaE"), _number(item, "similarity")
    return Match(color.slug, color.name, color.hex, color.reliability, *near)


def _color(item: dict[str, object]) -> Color:
    name = _object(item, "name")
    return Color(
        _text(item, "slug"),
        ColorName(_text(name, "zh"), _text(name, "en"), _text(name, "pinyin")),
        _text(item, "hex"),
        _text(item, "reliability"),
    )


def _snapshot(item: dict[str, object]) -> UsageSnapshot:
    numbers = (_whole(item, name) for name in ("limit", "committed", "reserved", "remaining"))
    return UsageSnapshot(_text(item, "period"), _text(item, "meter"), *numbers)


def _json(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Unreadable("the body is no JSON") from None
    if not isinstance(found, dict):
        raise Unreadable("the body is no object")
    return found


def _text(of: dict[str, object], name: str) -> str:
    value = of.get(name)
    if not isinstance(value, str):
        raise Unreadable(f"{name} is missing or no string")
    return value


def _whole(of: dict[str, object], name: str) -> int:
    value = of.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unreadable(f"{name} is missing or no whole number")
    return value


def _number(of: dict[str, object], name: str) -> float:
    value = of.get(name)
    # json accepts NaN and Infinity, and an integer may be too large for a float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e308 < value < 1e308:
        raise Unreadable(f"{name} is missing or no number")
    return float(value)


def _object(of: dict[str, object], name: str) -> dict[str, object]:
    value = of.get(name)
    if not isinstance(value, dict):
        raise Unreadable(f"{name} is missing or no object")
    return value


def _each(of: dict[str, object], name: str, read: Callable[[dict[str, object]], T]) -> tuple[T, ...]:
    value = of.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Unreadable(f"{name} is missing or no list of objects")
    return tuple(read(item) for item in value)
