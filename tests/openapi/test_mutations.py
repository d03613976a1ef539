"""The document is as strict as the interface: what is not quite a response does not fit it.

That responses fit is seen wherever the tests get one. Here the document's examples, which are real responses, are
changed in one place at a time.
"""

import re
from collections.abc import Iterator
from typing import Any

from tests.openapi.document import (
    DEFAULT,
    answer,
    codes,
    headers,
    operations,
    resolve,
    schema,
    validator_as_written,
)

# What the interface says of members, by name or path. The others are required, and their text is fixed or has a form.
OPTIONAL = {"valueMismatchCount"}
FREE_TEXT = {"version", "datasetVersion", "sourceProjectionVersion", "mode", "accountId", "planId"}
FREE_TEXT |= {"slug", "zh", "en", "pinyin", "default.error"}
REAL = {"r", "g", "b", "deltaE", "similarity"}
BOUNDS = {
    **dict.fromkeys("rgb", (0, 255)),
    "deltaE": (0, None),
    "similarity": (0, 1),
    "count": (0, 10),
    "recordCount": (1, None),
    **dict.fromkeys(("valueMismatchCount", "limit", "committed", "reserved", "remaining"), (0, None)),
}
SIZES = {
    "matchColors.results": (1, 5),
    "matchColors.results.matches": (1, 3),
    "searchColors.results": (0, 10),
    "getUsage.usage": (2, 2),
}
UNITS = (("0", "2000"), ("", "-1", "1.5"))
# What fits and what does not.
HEADERS: dict[str, tuple[tuple[object, ...], tuple[object, ...]]] = {
    "x-request-id": (("0b6f3c1e-7f0a-4a52-9d3a-1c8e5b7d2f40",), ("", "4711", "0b6f3c1e7f0a4a529d3a1c8e5b7d2f40")),
    "cache-control": (("no-store",), ("", "public", "no-store, public")),
    "www-authenticate": (("Bearer",), ("", "Basic")),
    "retry-after": ((1, 60, 86400), (-1, 0, 0.5, "soon")),
    "idempotency-replayed": (("true",), ("", "false", "True")),
    "x-error-pointer": (
        ("/colors", "/colors/0", "/colors/4/g", "/top", "/q", "/limit"),
        ("", "/", "colors", "/colors/", "/colors/5", "/colors/00", "/colors/0/a", "/colors/0/r/0", "/top/0", "/Q"),
    ),
    "x-usage-period": (("2026-07", "2026-11"), ("", "2026-7", "07/2026", "2026-011", "12026-11")),
    "x-usage-meter": (("color_match", "color_search"), ("", "color", "color_matches")),
    **dict.fromkeys((f"x-usage-{name}" for name in ("limit", "committed", "reserved", "remaining")), UNITS),
}
# Without letters, as a UUID's may be of either case.
REQUEST_ID = "00000000-0000-4000-8000-000000000000"

OF_EACH_KIND: tuple[Any, ...] = (None, True, 7, "text", [], {})

# Where, what, and whether it fits.
Variant = tuple[str, Any, bool]


def kind(value: Any) -> str:
    return "number" if type(value) in {int, float} else type(value).__name__


def variants(value: Any, where: str) -> Iterator[Variant]:
    """What may stand for a value, and what may not."""
    yield from ((where, other, False) for other in OF_EACH_KIND if kind(other) != kind(value))
    match value:
        case dict():
            yield where, {**value, "newMember": [None]}, True
            for name, member in value.items():
                yield where, {other: value[other] for other in value if other != name}, name in OPTIONAL
                for at, variant, fits in variants(member, f"{where}.{name}"):
                    yield at, {**value, name: variant}, fits
        case list():
            low, high = SIZES[where]
            for size in range(12):
                yield where, (value * 12)[:size], low <= size <= high
            for index, item in enumerate(value):
                for at, variant, fits in variants(item, where):
                    yield at, [*value[:index], variant, *value[index + 1 :]], fits
        case str():
            free = bool({where, where.rpartition(".")[2]} & FREE_TEXT)
            for other in {
                "",
                value.swapcase(),
                value[1:],
                value[:-1],
                value[0] + value,
                value + value[-1],
                "g" + value[1:],
                value[:-1] + "g",
                re.sub(r"\W", "x", value),
            } - {value}:
                yield where, other, free
        case _:
            yield from numbers(where)


def numbers(where: str) -> Iterator[Variant]:
    name = where.rpartition(".")[2]
    low, high = BOUNDS[name]
    step = 0.0001 if name in REAL else 1
    yield where, low, True
    yield where, low + 0.5, name in REAL
    yield where, low - step, False
    yield where, 10**9 if high is None else high, True
    if high is not None:
        yield where, high + step, False


def bodies() -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Name, response and body of each kind of answer."""
    for _, _, operation in operations():
        for status, found in operation["responses"].items():
            response = resolve(found)
            if status == "200":
                yield operation["operationId"], response, answer(operation)
            else:
                for code in ["anything"] if status == DEFAULT else codes(response):
                    yield status, response, {"error": code, "requestId": REQUEST_ID}


BODIES = list(bodies())


def mistakes() -> Iterator[str]:
    """Where the document takes what the interface does not, or refuses what it takes."""
    for name, response, body in BODIES:
        document = validator_as_written(schema(response))
        for where, variant, fits in [(name, body, True), *variants(body, name)]:
            if document.is_valid(variant) != fits:
                yield f"{where}: {'refuses' if fits else 'takes'} {variant}"
        for header, found in headers(response).items():
            document = validator_as_written(found["schema"])
            right, wrong = HEADERS[header]
            for text in (*right, *wrong, None):
                if document.is_valid(text) != (text in right):
                    yield f"{name} {header}: {'refuses' if text in right else 'takes'} {text}"


def test_what_is_not_quite_a_response_does_not_fit() -> None:
    assert list(mistakes()) == []
