"""Defines the service's answers, named as in its OpenAPI document, and reads them.

A class names and types the members of an object: `delta_e: float` is the number `deltaE`. Reading ignores unknown
members and headers, and refuses an answer that lacks a known one.
"""

from collections.abc import Mapping
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from msgspec import DecodeError, Struct, defstruct, field
from msgspec.json import Decoder
from msgspec.structs import asdict, astuple, fields

T = TypeVar("T")


class RGB(NamedTuple):
    """An sRGB value. Each channel is a real number from 0 to 255."""

    r: float
    g: float
    b: float


class ColorName(Struct, frozen=True):
    """A name in simplified characters, in English, and in pinyin with tone marks."""

    zh: str
    en: str
    pinyin: str


class Color(Struct, frozen=True, rename="camel"):
    """A colour of the library. Its `reliability` is `verified`, `attributed` or `disputed`."""

    slug: str
    name: ColorName
    hex: str
    reliability: str


class Match(Color, frozen=True, kw_only=True):
    """A colour with its CIEDE2000 difference from the input (`delta_e`) and its `similarity` (max(0, 1 − ΔE/100))."""

    # By keyword only, so that a later member of Color may have a default.
    delta_e: float
    similarity: float


class MatchResult(Struct, frozen=True):
    """The matches of one input colour, nearest first."""

    input: RGB
    matches: tuple[Match, ...]


class UsageSnapshot(Struct, frozen=True):
    """The units of one meter, `color_match` or `color_search`, in one UTC month such as `2026-11`.

    `committed` units have been charged, and `remaining` units are left; `reserved` is currently 0.
    """

    period: str
    meter: str
    limit: int
    committed: int
    reserved: int
    remaining: int


class MeteredResponse(Struct, frozen=True, rename="camel"):
    """An answer to a metered call."""

    usage: UsageSnapshot | None
    """The meter's state after the request. None if a proxy removed or damaged the `X-Usage` headers."""
    replayed: bool
    """True if the charge was already made: by an earlier call, or by an attempt whose response never arrived."""
    request_id: str | None
    """The service's id for this request, to give to support. None if a proxy removed or damaged the header."""
    idempotency_key: str


class MatchResponse(MeteredResponse, frozen=True):
    """One result for each input colour, in the order of the request."""

    dataset_version: str
    results: tuple[MatchResult, ...]


class SearchResponse(MeteredResponse, frozen=True):
    """The matching colours, best first. There may be none."""

    dataset_version: str
    count: int
    results: tuple[Color, ...]


class Library(Struct, frozen=True, rename="camel"):
    """The colour library's version, size and SHA-256 sums, for comparison with a copy of the dataset.

    `value_mismatch_count` is the number of colours for which an independent source gives a different value.
    """

    version: str
    record_count: int
    source_projection_version: str
    source_projection_sha256: str
    rights_manifest_sha256: str
    library_sha256: str
    mode: str
    request_id: str | None
    value_mismatch_count: int | None = None


class UsageResponse(Struct, frozen=True, rename="camel"):
    """The account's meters in the current UTC month."""

    account_id: str
    plan_id: str
    status: str
    usage: tuple[UsageSnapshot, ...]
    request_id: str | None


class Unreadable(ValueError):  # noqa: N818  (it never leaves this package)
    """The error for an answer that lacks a required part."""


class _Channels(Struct):
    r: float
    g: float
    b: float


class _MatchResult(Struct):
    input: _Channels
    matches: tuple[Match, ...]


class _Refusal(Struct, rename="camel"):
    error: str
    request_id: str


# msgspec reads a NamedTuple from an array, and the service sends an object.
_IN_BODY: dict[object, Any] = {tuple[MatchResult, ...]: tuple[_MatchResult, ...]}
_USAGE = itemgetter(*(f"x-usage-{name}" for name in UsageSnapshot.__struct_fields__))


def read(form: type[T], body: bytes, known: dict[str, object]) -> T:
    """Reads an answer into its class. `known` has the fields that are not in the body."""
    members = asdict(_decoded(_decoder(form, *known), body))  # type: ignore[arg-type]  # a class is hashable
    if form is MatchResponse:
        members["results"] = tuple([MatchResult(RGB(*astuple(one.input)), one.matches) for one in members["results"]])
    return form(**known, **members)


def read_usage_headers(headers: Mapping[str, str]) -> UsageSnapshot | None:
    """Reads the meter from the headers of a charge or an exceeded quota. Their names are in lower case."""
    try:
        period, meter, *units = _USAGE(headers)
        digits = "".join(units)
        if digits.isdigit() and digits.isascii() and len(digits) < 80:
            return UsageSnapshot(period, meter, *map(int, units))
    except (KeyError, ValueError):  # one of the numbers is empty
        pass
    return None


def read_refusal(body: bytes) -> tuple[str, str]:
    """Reads the code and the request id of an error. Raises Unreadable if the service did not send it."""
    refusal: _Refusal = _decoded(_decoder(_Refusal), body)
    return refusal.error, refusal.request_id


@cache
def _decoder(form: Any, *known: str) -> Decoder[Any]:  # noqa: ANN401
    """Returns a decoder of the fields that are not known."""
    members = [
        (one.name, _IN_BODY.get(one.type, one.type), field(default=one.default))
        for one in fields(form)
        if one.name not in known
    ]
    return Decoder(defstruct("Body", members, rename="camel"))


def _decoded(decoder: Decoder[Any], body: bytes) -> Any:  # noqa: ANN401
    try:
        return decoder.decode(body)
    except (DecodeError, RecursionError) as error:
        reason = str(error)
    raise Unreadable(f"the body does not follow the interface: {reason}")
