"""Reading answers: the examples of the OpenAPI document, with unknown members added and required ones removed."""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from tests.openapi.document import DOCUMENT

from sepu_client import Answer, InvalidAnswerError, calls
from sepu_client.messages import Call
from sepu_client.retries import settle

REQUEST_ID = "0b6f3c1e-7f0a-4a52-9d3a-1c8e5b7d2f40"
HEADERS = {
    "x-request-id": REQUEST_ID,
    "x-usage-period": "2026-11",
    "x-usage-meter": "color_match",
    "x-usage-limit": "2000",
    "x-usage-committed": "1",
    "x-usage-reserved": "0",
    "x-usage-remaining": "1999",
}
UNITS = [name for name in HEADERS if HEADERS[name].isdigit()]
CALLS: dict[str, tuple[str, Callable[[], Call[Any]]]] = {
    "/v1/match": ("post", lambda: calls.match([(1, 2, 3)], 1, "a-key-of-ours")),
    "/v1/search": ("get", lambda: calls.search("hong", 10, "a-key-of-ours")),
    "/v1/library": ("get", calls.library),
    "/v1/usage": ("get", calls.usage),
}


def example(path: str) -> Any:
    """The document's example; another test checks it against the service."""
    content = DOCUMENT["paths"][path][CALLS[path][0]]["responses"]["200"]["content"]["application/json"]
    (found,) = content["examples"].values()
    return found["value"]


def read(path: str, body: Any, headers: dict[str, str] | None = None) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    steps = settle(CALLS[path][1](), 1, lambda: 0.0)
    next(steps)
    try:
        steps.send(Answer(200, HEADERS if headers is None else headers, content))
    except StopIteration as settled:
        return settled.value
    raise AssertionError


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """All objects in a node, outermost first."""
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from objects(inner)


@pytest.mark.parametrize("path", CALLS)
def test_members_to_come_do_no_harm(path: str) -> None:
    body = example(path)
    grown = deepcopy(body)
    for one in list(objects(grown)):
        one.update(someday={"any": [1]})
    assert read(path, grown, {**HEADERS, "x-someday": "1"}) == read(path, body)


@pytest.mark.parametrize("path", CALLS)
def test_what_is_missing_or_of_another_type_is_refused(path: str) -> None:
    body = example(path)
    tried = 0
    for place, one in enumerate(objects(body)):
        for name in one:
            for wrong in (None, True, float("nan"), [1], "missing"):
                broken = deepcopy(body)
                target = list(objects(broken))[place]
                if wrong == "missing":
                    del target[name]
                else:
                    target[name] = wrong
                if name == "valueMismatchCount" and wrong in (None, "missing"):
                    assert read(path, broken).value_mismatch_count is None
                elif name != "outcome":  # which the client ignores
                    tried += 1
                    reason = "not" if isinstance(wrong, float) else name  # NaN is not JSON
                    with pytest.raises(InvalidAnswerError, match=reason) as raised:
                        read(path, broken)
                    assert (raised.value.status, raised.value.request_id) == (200, REQUEST_ID)
                    assert raised.value.idempotency_key == CALLS[path][1]().idempotency_key
    assert tried > 30


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"results":1e999}', b"9" * 9999]
)
@pytest.mark.parametrize("path", CALLS)
def test_what_is_no_object_is_refused(path: str, body: bytes) -> None:
    with pytest.raises(InvalidAnswerError):
        read(path, body)


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_a_number_beyond_all_bounds_is_refused(value: int) -> None:
    body = deepcopy(example("/v1/match"))
    body["results"][0]["matches"][0]["deltaE"] = value
    with pytest.raises(InvalidAnswerError, match="deltaE"):
        read("/v1/match", body)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, None) for name in HEADERS),
        *((name, value) for name in UNITS for value in ("１", "-1", "", "1, 2", "9" * 80)),
    ],
)
def test_an_unreadable_header_does_not_cost_the_answer(name: str, value: str | None) -> None:
    """It was paid for. A server in between may remove or rewrite headers."""
    headers = {**HEADERS, name: value or ""}
    if value is None:
        del headers[name]
    found, whole = (read("/v1/match", example("/v1/match"), each) for each in (headers, HEADERS))
    assert found.results == whole.results
    assert found.request_id == (None if name == "x-request-id" else REQUEST_ID)
    assert found.usage == (None if name.startswith("x-usage") else whole.usage)


@pytest.mark.parametrize(
    ("header", "request_id"),
    [
        (f"{REQUEST_ID}, 9f3c1b0e7f0a4a529d3a1c8e5b7d2f40", REQUEST_ID),  # nginx: `add_header X-Request-ID $request_id`
        (f"1-67891233-abcdef012345678912345678, {REQUEST_ID}", REQUEST_ID),
        (f"{REQUEST_ID}, {REQUEST_ID}", REQUEST_ID),
        (f"{REQUEST_ID}, 00000000-0000-0000-0000-000000000000", None),  # either may be the service's
        ("1-67891233-abcdef012345678912345678", None),
        ("Bearer sepu_key", None),
    ],
)
@pytest.mark.parametrize("path", CALLS)
def test_the_request_id_is_the_only_uuid(path: str, header: str, request_id: str | None) -> None:
    found = read(path, example(path), {**HEADERS, "x-request-id": header})
    assert found.request_id == request_id


def test_names_and_numbers_come_as_they_are() -> None:
    found = read("/v1/match", example("/v1/match"))
    assert found.results[0].input == (200.0, 60.0, 36.5)
    assert isinstance(found.results[0].input.r, float)
    assert found.results[0].matches[0].name.zh == "绯红"
    assert found.results[0].matches[0].name.pinyin == "fēi hóng"
    assert (found.results[0].matches[1].delta_e, found.results[0].matches[1].similarity) == (3.6956, 0.963)
    assert (found.request_id, found.idempotency_key) == (REQUEST_ID, "a-key-of-ours")
    again = read("/v1/match", example("/v1/match"), {**HEADERS, "idempotency-replayed": "true"})
    assert (found.replayed, again.replayed) == (False, True)
    most = 2**63 - 1
    assert read("/v1/match", example("/v1/match"), {**HEADERS, **dict.fromkeys(UNITS, str(most))}).usage.limit == most
    with pytest.raises(AttributeError):
        found.replayed = True
    with pytest.raises(TypeError):
        found.results[0] = None


def test_each_member_lands_in_its_field() -> None:
    library = example("/v1/library")
    found = read("/v1/library", library)
    for name, value in library.items():
        assert getattr(found, re.sub("[A-Z]", lambda big: f"_{big[0].lower()}", name)) == value
    usage = read("/v1/usage", example("/v1/usage"))
    assert (usage.account_id, usage.plan_id, usage.status) == ("mfzwizltor2gk4tt", "standard", "active")
    assert [(m.period, m.meter, m.limit, m.committed, m.reserved, m.remaining) for m in usage.usage] == [
        ("2026-11", "color_match", 2000, 1, 0, 1999),
        ("2026-11", "color_search", 1000, 1, 0, 999),
    ]
