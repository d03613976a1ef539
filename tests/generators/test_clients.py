"""Clients that generators make of the OpenAPI document, against the running service. Nothing in them is edited."""

import json
import random
from collections.abc import Callable
from uuid import uuid4

import psycopg
import pytest
from tests.generators.calling import Answer, Client
from tests.generators.conftest import grown
from tests.serving import Server

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu.metering import key_format

Call = Callable[..., Answer]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the first waits for a generator and a compiler

SCARLET = {"r": 200, "g": 60, "b": 36.5}


@pytest.fixture
def url(uvloop: Server) -> str:
    return f"http://{uvloop.address}"


@pytest.fixture
def call(client: Client, url: str, issued: IssuedKey) -> Call:
    def called(operation: str, name: str = "", *, url: str = url, key: str = issued.api_key, **given: object) -> Answer:
        return client.call(url, key, operation, name, **given)

    return called


def check(answer: Answer, status: int, kind: str, code: str = "") -> None:
    assert (answer.status, answer.code) == (status, code)
    assert answer.type in {kind, None}
    assert answer.headers["x-request-id"] == answer.body.get("requestId", answer.headers["x-request-id"])
    assert code == answer.body.get("error", "")


def in_plain_http(uvloop: Server, issued: IssuedKey, colors: list[dict[str, float]]) -> object:
    headers = {
        "Authorization": f"Bearer {issued.api_key}",
        "Content-Type": "application/json",
        "Idempotency-Key": str(uuid4()),
    }
    return uvloop.request("POST", "/v1/match", headers, json.dumps({"colors": colors, "top": 3}).encode()).json


def test_a_match_and_its_replay(call: Call) -> None:
    key = str(uuid4())
    first = call("matchColors", key, colors=[SCARLET, {"r": 0, "g": 0, "b": 0}], top=2)
    check(first, 200, "MatchResponse")
    assert [len(result["matches"]) for result in first.body["results"]] == [2, 2]
    assert first.body["results"][0]["input"] == SCARLET
    nearest, second = first.body["results"][0]["matches"]
    assert (nearest["slug"], nearest["name"]["zh"], nearest["hex"]) == ("fei-hong", "绯红", "#C83C23")
    assert (nearest["deltaE"], second["similarity"], second["reliability"]) == (0.352, 0.963, "attributed")
    assert "idempotency-replayed" not in first.headers
    again = call("matchColors", key, colors=[SCARLET, {"r": 0, "g": 0, "b": 0}], top=2)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.body == first.body
    assert [answer.headers["x-usage-committed"] for answer in (first, again)] == ["2", "2"]
    (result,) = call("matchColors", str(uuid4()), colors=[SCARLET]).body["results"]
    assert len(result["matches"]) == 1  # `top` is optional


def test_numbers_are_the_services_own(call: Call, uvloop: Server, issued: IssuedKey) -> None:
    chance = random.Random(20)
    for _ in range(20):
        colors = [{name: chance.uniform(0, 255) for name in "rgb"} for _ in range(5)]
        answer = call("matchColors", str(uuid4()), colors=colors, top=3)
        assert answer.body == in_plain_http(uvloop, issued, colors)
        assert [result["input"] for result in answer.body["results"]] == colors


def test_a_search(call: Call) -> None:
    found = call("searchColors", str(uuid4()), q="桃红", limit=3)
    check(found, 200, "SearchResponse")
    assert (found.body["count"], [color["name"]["pinyin"] for color in found.body["results"]]) == (1, ["táo hóng"])
    assert found.headers["x-usage-meter"] == "color_search"
    assert call("searchColors", str(uuid4()), q="hong").body["count"] == 10


def test_library_and_usage(call: Call, issued: IssuedKey) -> None:
    library = call("getLibrary")
    check(library, 200, "Library")
    assert (library.body["recordCount"], library.body["mode"]) == (161, "commercial")
    usage = call("getUsage")
    check(usage, 200, "UsageResponse")
    assert (usage.body["outcome"], usage.body["accountId"], usage.body["status"]) == ("ok", issued.account_id, "active")
    assert [(one["meter"], one["limit"], one["remaining"]) for one in usage.body["usage"]] == [
        ("color_match", 2000, 2000),
        ("color_search", 1000, 1000),
    ]


def test_errors(call: Call, issued: IssuedKey) -> None:
    stranger, key = key_format.new_key(issued.account_id), str(uuid4())
    for operation in ("getLibrary", "getUsage"):
        check(call(operation, key=stranger), 401, "UnauthorizedError", "unauthorized")
    refused = call("matchColors", str(uuid4()), colors=[SCARLET], key=stranger)
    check(refused, 401, "UnauthorizedError", "unauthorized")
    assert refused.headers["www-authenticate"] == "Bearer"
    call("matchColors", key, colors=[SCARLET])
    for refused in (call("matchColors", key, colors=[{**SCARLET, "r": 201}]), call("searchColors", key, q="hong")):
        check(refused, 409, "IdempotencyConflictError", "idempotency_conflict")
    refused = call("matchColors", str(uuid4()), colors=[{**SCARLET, "r": 256}])
    check(refused, 422, "MatchInputError", "invalid_rgb")
    assert refused.headers["x-error-pointer"] == "/colors/0/r"
    check(call("searchColors", str(uuid4()), q="hong", limit=11), 422, "SearchInputError", "invalid_limit")
    # One that the operation does not list.
    check(call("searchColors", str(uuid4()), q="a" * 9000), 414, "OtherError", "uri_too_long")


def test_errors_of_a_limit(call: Call, connection: psycopg.Connection) -> None:
    set_plan(connection, "small", {"color_match": 1, "color_search": 0}, requests_per_minute=3)
    key = accounts.create_account(connection, "small").api_key
    for refused, meter, limit in (
        (call("matchColors", str(uuid4()), colors=[SCARLET] * 2, key=key), "color_match", "1"),
        (call("searchColors", str(uuid4()), q="hong", key=key), "color_search", "0"),
    ):
        check(refused, 429, "RateLimitedOrQuotaExceededError", "quota_exceeded")
        told = {name: refused.headers[name] for name in ("retry-after", "x-usage-meter", "x-usage-limit")}
        assert told == {"retry-after": "86400", "x-usage-meter": meter, "x-usage-limit": limit}
    assert call("getLibrary", key=key).status == 200
    limited = call("getLibrary", key=key)
    check(limited, 429, "RateLimitedError", "rate_limited")
    assert limited.headers["retry-after"] == "60"
    limited = call("searchColors", str(uuid4()), q="hong", key=key)
    check(limited, 429, "RateLimitedOrQuotaExceededError", "rate_limited")


REQUESTS: dict[str, dict[str, object]] = {
    "matchColors": {"colors": [SCARLET], "top": 2},
    "searchColors": {"q": "hong", "limit": 2},
    "getLibrary": {},
    "getUsage": {},
}


@pytest.mark.parametrize(("operation", "given"), REQUESTS.items())
def test_what_is_added_later_does_no_harm(call: Call, later: str, operation: str, given: dict[str, object]) -> None:
    name = str(uuid4())
    today = call(operation, name, **given)
    answer = call(operation, name, url=later, **given)
    assert (answer.status, answer.type) == (200, today.type)
    assert answer.body == grown(today.body)
    refused = call(operation, name, url=later, key="unknown", **given)
    assert (refused.status, refused.code, refused.body["someday"]) == (401, "unauthorized", {"any": [1]})
