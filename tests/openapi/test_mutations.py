"""The document is as strict as the interface: near-responses do not fit it.

Other tests check that real responses fit. Here the schemas have exactly the interface's bounds, and a formatted value
in the document's examples, which are real responses, does not fit with one character changed.
"""

import re
from collections.abc import Iterator
from typing import Any

from tests.openapi.document import DEFAULT, answer, codes, headers, operations, resolve, schema, validator_as_written

# The interface's rules for members, by name or path. All others are required, and their text is fixed or has a form.
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
# Values that fit, and values that do not.
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
# Without letters, because a UUID's may be of either case.
REQUEST_ID = "00000000-0000-4000-8000-000000000000"
# Keywords that set bounds unknown to the interface.
NO_OTHERS = {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "not", "anyOf", "oneOf", "allOf"}


def mistakes(schema_: dict[str, Any], value: Any, where: str) -> Iterator[str]:
    """Where a schema, or one within it, accepts or refuses other values than the interface."""
    found = resolve(schema_)
    name, right = where.rpartition(".")[2], not found.keys() & NO_OTHERS
    match found["type"]:
        case "object":
            right &= {*found["required"]} == found["properties"].keys() - OPTIONAL
            right &= found.get("additionalProperties", True) is True  # a later service may add members
            for member, inner in found["properties"].items():
                yield from mistakes(inner, value[member], f"{where}.{member}")
        case "array":
            right &= (found.get("minItems", 0), found["maxItems"]) == SIZES[where]
            yield from mistakes(found["items"], value[0], where)
        case "string":
            document, free = validator_as_written(found), bool({where, name} & FREE_TEXT)
            right &= document.is_valid(value) and all(document.is_valid(other) is free for other in others(value))
        case kind:
            right &= kind == ("number" if name in REAL else "integer")
            right &= (found.get("minimum"), found.get("maximum")) == BOUNDS[name]
    if not right:
        yield where


def others(text: str) -> set[str]:
    changed = {"", text.swapcase(), text[1:], text[:-1], text[0] + text, text + text[-1], "g" + text[1:]}
    return (changed | {text[:-1] + "g", re.sub(r"\W", "x", text)}) - {text}


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


def test_what_is_not_quite_a_response_does_not_fit() -> None:
    for name, response, body in bodies():
        assert list(mistakes(schema(response), body, name)) == []
        for header, found in headers(response).items():
            document = validator_as_written(found["schema"])
            right, wrong = HEADERS[header]
            for text in (*right, *wrong, None):
                assert document.is_valid(text) == (text in right), (name, header, text)
