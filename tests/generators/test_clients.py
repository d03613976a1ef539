"""Unedited clients generated from the OpenAPI document, against the running service."""

import json
from uuid import uuid4

import psycopg
import pytest
from tests.generators.calling import Answer, Client
from tests.generators.conftest import grown
from tests.harness.serving import Server
from tests.keys import made_up_key

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the first test waits for a generator and a compiler

SCARLET = {"r": 200, "g": 60.123456789012, "b": 36.5}  # more digits than a float32 has


@pytest.fixture
def call(client: Client, uvloop: Server, issued: IssuedKey) -> Client:
    def called(operation: str, name: str = "", *, url: str = "", key: str = issued.api_key, **given: object) -> Answer:
        return client(url or f"http://{uvloop.address}", key, operation, name, **given)

    return called


def check(answer: Answer, status: int, kind: str, code: str = "") -> None:
    assert (answer.status, answer.code) == (status, code)
    assert answer.type in {kind, None}
    assert answer.headers["x-request-id"] == answer.body.get("requestId", answer.headers["x-request-id"])
    assert code == answer.body.get("error", "")


REQUESTS: dict[str, tuple[str, dict[str, object]]] = {
    "matchColors": ("MatchResponse", {"colors": [SCARLET], "top": 2}),
    "searchColors": ("SearchResponse", {"q": "桃红", "limit": 2}),
    "getLibrary": ("Library", {}),
    "getUsage": ("UsageResponse", {}),
}


@pytest.mark.parametrize("operation", REQUESTS)
def test_an_answer_today_and_what_is_added_later(
    call: Client, later: str, operation: str, uvloop: Server, issued: IssuedKey
) -> None:
    kind, given = REQUESTS[operation]
    key = str(uuid4())
    today = call(operation, key, **given)
    check(today, 200, kind)
    if operation == "matchColors":  # all numbers, and the headers of a charge, equal the service's
        headers = {"Authorization": f"Bearer {issued.api_key}", "Idempotency-Key": key}
        body = json.dumps(given).encode()
        plain = uvloop.request("POST", "/v1/match", {**headers, "Content-Type": "application/json"}, body)
        assert (plain.json, plain.headers["x-usage-committed"]) == (today.body, today.headers["x-usage-committed"])
        assert today.body["results"][0]["input"] == SCARLET
    answer = call(operation, key, url=later, **given)
    assert (answer.status, answer.type) == (200, today.type)
    assert ("idempotency-replayed" in answer.headers) is (operation in {"matchColors", "searchColors"})
    assert answer.body == grown(today.body)
    refused = call(operation, key, url=later, key="unknown", **given)
    assert (refused.status, refused.code, refused.body["someday"]) == (401, "unauthorized", {"any": [1]})


def test_what_is_optional(call: Client) -> None:
    first = call("matchColors", str(uuid4()), colors=[SCARLET])
    assert [len(result["matches"]) for result in first.body["results"]] == [1]
    assert "idempotency-replayed" not in first.headers
    assert call("searchColors", str(uuid4()), q="hong").body["count"] == 10


def test_errors(call: Client, issued: IssuedKey) -> None:
    stranger, key = made_up_key(issued.account_id), str(uuid4())
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
    # An error that the operation does not list.
    check(call("searchColors", str(uuid4()), q="a" * 9000), 414, "OtherError", "uri_too_long")


def test_errors_of_a_limit(call: Client, connection: psycopg.Connection) -> None:
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
