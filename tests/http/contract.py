"""The HTTP contract as a table of cases, run over real sockets on every kind of worker, through nginx and on Citus.

A case has a setup, a request, and the expected answer. Rules for every response are checked on each.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from tests.charging import charge
from tests.harness.serving import Response, Server
from tests.keys import holder_of, made_up_key
from tests.openapi.document import check_response

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey, issue_key, revoke_key
from sepu.admin.plans import set_plan
from sepu.database.opening import connect
from sepu.http.errors import ERRORS
from sepu.metering import commands
from sepu.operations.match import parse_match
from sepu.operations.search import parse_search

METHODS = {"/v1/library": "GET", "/v1/usage": "GET", "/v1/match": "POST", "/v1/search": "GET"}
PROBES = ("/healthz", "/readyz")
METERED = {"/v1/match": "color_match", "/v1/search": "color_search"}
ONE = '{"colors":[{"r":200,"g":60,"b":35}]}'
FIVE = json.dumps({"colors": [{"r": n, "g": n, "b": n} for n in range(5)]})
IDEMPOTENCY_KEY = "order-4711.a:b_c"
# No release has these values, so they can only be replayed, not computed.
STORED: dict[str, bytes] = {
    "color_match": b'{"datasetVersion":"0.0.0","results":[{"input":{"r":200,"g":60,"b":35},"matches":[{"slug":"a",'
    b'"name":{"zh":"b","en":"c","pinyin":"d"},"hex":"#000000","reliability":"disputed","deltaE":9,"similarity":0.5}]}]}',
    "color_search": b'{"datasetVersion":"0.0.0","count":0,"results":[]}',
}
FINGERPRINTS = {
    "color_match": parse_match(ONE.encode()).fingerprint(),
    "color_search": parse_search("q=taohong").fingerprint(),
}


@dataclass
class World:
    """A fresh account, and the possible setups of a case."""

    url: str
    connection: psycopg.Connection
    issued: IssuedKey
    running: ExitStack = field(default_factory=ExitStack)

    @property
    def account_id(self) -> str:
        return self.issued.account_id

    def plan(self, *, match: int = 2000, search: int = 1000, minute: int = 120) -> None:
        plan_id = f"plan-{uuid.uuid4().hex[:12]}"
        set_plan(self.connection, plan_id, {"color_match": match, "color_search": search}, requests_per_minute=minute)
        self.connection.execute(
            "update sepu.account set plan_id = %s where account_id = %s", [plan_id, self.account_id]
        )

    def over_the_abuse_limit(self) -> None:
        self.plan(minute=1)
        self.connection.execute("select sepu.count_request(%s, 1, now())", [self.account_id])

    def suspended(self) -> None:
        accounts.set_status(self.connection, self.account_id, "suspended")

    def revoked(self) -> None:
        revoke_key(self.connection, self.issued.key_id)

    def expires(self, seconds: int) -> None:
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        self.issued = issue_key(self.connection, self.account_id, end)

    def completed(self, meter: str = "color_match", **limits: int) -> None:
        """Stores the result of a request with the case's idempotency key; the plan's limits may then change."""
        key, now = self.issued.api_key, datetime.now(UTC)
        charge(self.connection, key, IDEMPOTENCY_KEY, 1, now, meter, FINGERPRINTS[meter], STORED[meter])
        if limits:
            self.plan(**limits)

    def without_end(self, meter: str = "color_match") -> None:
        """Starts a request with the case's idempotency key that keeps running."""
        session = self.running.enter_context(closing(connect(self.url)))
        session.autocommit = False
        running = commands.Charge(meter, 1, FINGERPRINTS[meter], b"{}")
        command = commands.meter_request(holder_of(self.issued.api_key), IDEMPOTENCY_KEY, running, str(uuid.uuid4()))
        rows = session.execute(command.statement, command.parameters).fetchall()
        assert command.read(rows).outcome == "charged"


Given = Callable[[World], None]


def on_plan(**limits: int) -> Given:
    return lambda world: world.plan(**limits)


COMPLETED_SEARCH = partial(World.completed, meter="color_search")
RUNNING_SEARCH = partial(World.without_end, meter="color_search")

KEY = "Bearer {key}"  # the account's own
OMIT = None


@dataclass(frozen=True)
class Case:
    id: str
    target: str
    status: int
    error: str | None = None
    method: str | None = None
    given: Given | None = None
    body: str | bytes | None = None
    authorization: str | None = KEY
    idempotency_key: str | None = IDEMPOTENCY_KEY
    content_type: str | None = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, str] = field(default_factory=dict)
    charged: int = 0
    check: Callable[[Response], None] | None = None
    pointer: str | None = None


def match(
    id_: str,
    status: int,
    error: str | None = None,
    body: str | bytes | None = ONE,
    target: str = "/v1/match",
    **rest: Any,
) -> Case:
    return Case(f"match-{id_}", target, status, error, body=body, **rest)


def search(id_: str, query: str, status: int, error: str | None = None, **rest: Any) -> Case:
    return Case(f"search-{id_}", f"/v1/search{query}", status, error, **rest)


def one_exact_match(response: Response) -> None:
    (result,) = response.json["results"]
    (found,) = result["matches"]
    assert result["input"] == {"r": 200, "g": 60, "b": 35}
    assert (found["slug"], found["hex"], found["deltaE"], found["similarity"]) == ("fei-hong", "#C83C23", 0, 1)


def five_results(response: Response) -> None:
    assert [result["input"]["r"] for result in response.json["results"]] == [0, 1, 2, 3, 4]


def three_in_order(response: Response) -> None:
    distances = [found["deltaE"] for found in response.json["results"][0]["matches"]]
    assert len(distances) == 3
    assert distances == sorted(distances)


def numbers_as_sent(response: Response) -> None:
    assert b'"input":{"r":12,"g":12.5,"b":0.0}' in response.body


def finds(*slugs: str) -> Callable[[Response], None]:
    def check(response: Response) -> None:
        found = [color["slug"] for color in response.json["results"]]
        assert response.json["count"] == len(found)
        assert found[: len(slugs)] == list(slugs)
        assert slugs or not found

    return check


def found_at_most(limit: int) -> Callable[[Response], None]:
    def check(response: Response) -> None:
        assert len(response.json["results"]) == response.json["count"] == limit

    return check


def is_well(response: Response) -> None:
    assert response.body == b'{"status":"ok"}'


def library_metadata(response: Response) -> None:
    found = response.json
    assert (found["recordCount"], found["valueMismatchCount"], found["mode"]) == (161, 96, "commercial")


def both_meters(response: Response) -> None:
    period = datetime.now(UTC).strftime("%Y-%m")
    assert (response.json["outcome"], response.json["status"], response.json["planId"]) == ("ok", "active", "standard")
    assert response.json["usage"] == [
        {"period": period, "meter": "color_match", "limit": 2000, "committed": 1, "reserved": 0, "remaining": 1999},
        {"period": period, "meter": "color_search", "limit": 1000, "committed": 0, "reserved": 0, "remaining": 1000},
    ]


TOO_LARGE = b'{"colors":[{"r":1,"g":2,"b":3}]}'.ljust(16 * 1024 + 1)
JUST_FITS = b'{"colors":[{"r":200,"g":60,"b":35}]}'.ljust(16 * 1024)
ENDPOINTS = ("/v1/library", "/v1/usage", "/v1/match", "/v1/search?q=taohong")


def bodies(error: str, *examples: str | bytes, pointer: str | None = None) -> list[Case]:
    status = 400 if error in {"invalid_json", "body_required"} else 422
    return [
        match(f"{error}{pointer or ''}-{number}", status, error, body, pointer=pointer)
        for number, body in enumerate(examples)
    ]


CASES = [
    # --- the good cases
    Case("library", "/v1/library", 200, check=library_metadata),
    Case("library-ignores-a-query", "/v1/library?x=1", 200, check=library_metadata),
    Case("usage", "/v1/usage", 200, given=World.completed, charged=1, check=both_meters),
    match("one", 200, charged=1, check=one_exact_match),
    match("five", 200, body=FIVE, charged=5, check=five_results),
    match("top-three", 200, body=ONE[:-1] + ',"top":3}', charged=1, check=three_in_order),
    match("top-three-point-nought", 200, body=ONE[:-1] + ',"top":3.0}', charged=1, check=three_in_order),
    match("numbers", 200, body='{"colors":[{"r":12,"g":12.5,"b":0.0}]}', charged=1, check=numbers_as_sent),
    match("edges", 200, body='{"colors":[{"r":0,"g":255,"b":-0.0}]}', charged=1),
    match("parameters", 200, content_type="application/json; charset=utf-8; v=1", charged=1, check=one_exact_match),
    match("media-type-in-capitals-and-a-space-after", 200, content_type="Application/JSON ; charset=utf-8", charged=1),
    match("largest-body", 200, body=JUST_FITS, charged=1, check=one_exact_match),
    match("scheme-in-lower-case-and-two-spaces", 200, authorization="bearer  {key}", charged=1),
    match("key-that-will-expire", 200, given=partial(World.expires, seconds=3600), charged=1),
    match("shortest-key", 200, idempotency_key="a" * 8, charged=1),
    match("longest-key", 200, idempotency_key="Z" * 128, charged=1),
    match("last-units", 200, given=on_plan(match=5), body=FIVE, charged=5, expect={"x-usage-remaining": "0"}),
    search("pinyin", "?q=taohong", 200, charged=1, check=finds("tao-hong")),
    search("chinese", f"?q={quote('桃红')}", 200, charged=1, check=finds("tao-hong")),
    search("traditional-in-lower-case-escapes", f"?q={quote('桃紅').lower()}", 200, charged=1, check=finds("tao-hong")),
    search("english", "?q=verdigris", 200, charged=1, check=finds("tong-lv")),
    search("plus-is-space", "?q=tao+hong&limit=1", 200, charged=1, check=finds("tao-hong")),
    search("trimmed", "?q=%20%09taohong%E3%80%80", 200, charged=1, check=finds("tao-hong")),
    search("nothing-found", "?q=qqqqqq", 200, charged=1, check=finds()),
    search("limit", "?q=hong&limit=3", 200, charged=1, check=found_at_most(3)),
    search("default-limit", "?q=hong", 200, charged=1, check=found_at_most(10)),
    search("longest", f"?q={quote('红' * 64)}", 200, charged=1, check=finds()),
    search("a-nul", "?q=%00%00", 200, charged=1, check=finds()),
    # --- 1: route and method; they come before the key
    Case("unknown-path", "/v1/colors", 404, "not_found", authorization=OMIT),
    Case("root", "/", 404, "not_found", authorization=OMIT),
    Case("trailing-slash", "/v1/library/", 404, "not_found"),
    Case("other-version", "/v2/library", 404, "not_found"),
    *(
        Case(
            f"method-{method}{path}",
            path,
            405,
            "method_not_allowed",
            method=method,
            authorization=OMIT,
            expect={"allow": allow},
        )
        for path, allow in METHODS.items()
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "PURGE")
        if method != allow
    ),
    *(
        Case(
            f"probe-{method}{path}",
            path,
            status,
            error,
            method=method,
            authorization=OMIT,
            expect={"allow": "GET, HEAD"} if error else {"content-length": "15"},
            check=is_well if method == "GET" else None,
        )
        for path in PROBES
        for method in ("GET", "HEAD", "POST", "OPTIONS")
        for status, error in [(405, "method_not_allowed") if method in {"POST", "OPTIONS"} else (200, None)]
    ),
    # --- 2: the API key
    *(
        Case(
            f"unauthorized-{name}{target}",
            target,
            401,
            "unauthorized",
            authorization=value,
            given=given,
            body=ONE if target == "/v1/match" else None,
        )
        for target in ENDPOINTS
        for name, value, given in (
            ("missing", OMIT, None),
            ("empty", "", None),
            ("basic", "Basic {key}", None),
            ("bare", "{key}", None),
            ("garbage", "Bearer nonsense", None),
            ("mistyped", "Bearer {key}x", None),
            ("two-tokens", "Bearer {key} {key}", None),
            ("unknown", f"Bearer {made_up_key('a' * 16)}", None),
            ("revoked", KEY, World.revoked),
            ("expired", KEY, partial(World.expires, seconds=-1)),
        )
    ),
    # --- 3, 4: the account and the abuse limit; test_decision.py checks the order
    *(
        Case(f"{error}{target}", target, status, error, given=given, body=ONE if target == "/v1/match" else None)
        for error, status, given in (
            ("account_unavailable", 403, World.suspended),
            ("rate_limited", 429, World.over_the_abuse_limit),
        )
        for target in ENDPOINTS
    ),
    # --- 5: the idempotency key; it comes before the body
    match("no-key", 400, "idempotency_key_required", "{", idempotency_key=OMIT, content_type="text/plain"),
    search("no-key", "?q=a", 400, "idempotency_key_required", idempotency_key=OMIT),
    *(
        case
        for number, key in enumerate(
            ("", "a" * 7, "a" * 129, "with space1", "semi;colon", "slash/slash", "caf\u00e9-1234", "a,b,c,d,e")
        )
        for case in (
            match(f"bad-key-{number}", 400, "idempotency_key_invalid", "{", idempotency_key=key),
            search(f"bad-key-{number}", "?q=a", 400, "idempotency_key_invalid", idempotency_key=key),
        )
    ),
    # --- 6: the body
    *(
        match(f"media-type-{number}", 415, "unsupported_media_type", content_type=media_type, body=TOO_LARGE)
        for number, media_type in enumerate(
            (OMIT, "", "text/plain", "application/jsonp", "application/x-www-form-urlencoded")
        )
    ),
    match("gzip", 415, "unsupported_media_type", headers={"Content-Encoding": "gzip"}),
    match("identity", 415, "unsupported_media_type", headers={"Content-Encoding": "identity"}),
    match("too-large", 413, "payload_too_large", TOO_LARGE),
    match("much-too-large", 413, "payload_too_large", b" " * 65536),
    *bodies("body_required", "", "  \r\n\t"),
    *bodies(
        "invalid_json",
        "{",
        "nonsense",
        ONE.replace("200", "NaN"),
        ONE.replace("200", "0200"),
        ONE[:-1] + ',"x":"\\ud800"}',
        ONE.encode()[:-1] + b',"x":"\xff"}',
        ONE.encode()[:-1] + b',"x":"\xed\xa0\x80"}',
        "\ufeff" + ONE,
        "[" * 10_000,
    ),
    # --- 7: the input
    *bodies("invalid_body", "[]", "null", "1", '"colors"'),
    *bodies("invalid_body", "{}", '{"top":1}', '{"colors":{}}', '{"colors":null}', pointer="/colors"),
    *bodies(
        "invalid_colors",
        '{"colors":[]}',
        json.dumps({"colors": [{"r": 1, "g": 2, "b": 3}] * 6}),
        '{"colors":[],"top":9}',
        pointer="/colors",
    ),
    *bodies(
        "invalid_rgb",
        '{"colors":[1]}',
        '{"colors":["#C83C23"]}',
        '{"colors":[{"r":1,"g":2,"b":3,"a":1}]}',
        '{"colors":[{"r":-1,"g":2,"b":3,"/top":1}]}',
        pointer="/colors/0",
    ),
    *bodies(
        "invalid_rgb",
        ONE.replace("200", "-1"),
        ONE.replace("200", "255.001"),
        ONE.replace("200", "1e400"),
        ONE.replace("200", '"200"'),
        pointer="/colors/0/r",
    ),
    *bodies("invalid_rgb", FIVE.replace('"g": 3', '"g": 3e2').replace('"b": 4', '"b": -4'), pointer="/colors/3/g"),
    *bodies(
        "invalid_top",
        *(ONE[:-1] + f',"top":{top}}}' for top in ("0", "4", "-1", "1.5", "null", "true", '"1"', "[1]", "1e400")),
        pointer="/top",
    ),
    *bodies("unknown_parameter", ONE[:-1] + ',"limit":1}', ONE[:-1] + ',"Top":1}', ONE[:-1] + ',"":1}'),
    match("query", 422, "unknown_parameter", target="/v1/match?top=3"),
    *(
        search(f"invalid-q{pointer or ''}-{number}", query, 422, "invalid_q", pointer=pointer)
        for pointer, queries in (
            (None, ("?q=%ff%fe", "?q=hong%zz", "?q=%", "?q=hong%2")),
            ("/q", ("", "?limit=3", "?q", "?q=%20%20a%20", f"?q={quote('红' * 65)}", f"?q={'a' * 7000}", "?q=ab&q=cd")),
        )
        for number, query in enumerate(queries)
    ),
    *(
        search(f"invalid-limit-{number}", f"?q=hong&limit={limit}", 422, "invalid_limit", pointer="/limit")
        for number, limit in enumerate(
            ("", "0", "11", "-1", "1.0", "ten", "%2B5", "%205", "1e1", "010", "3&limit=3", "9" * 400, quote("３"))
        )
    ),
    search("misspelt-parameter", "?q=hong&limt=3", 422, "unknown_parameter"),
    search("capital-parameter", "?Q=hong", 422, "unknown_parameter"),
    # --- 8: idempotency
    match("replay", 200, given=World.completed, charged=1),
    match(
        "replay-written-otherwise",
        200,
        body='{ "top": 1, "colors" : [ {"b": 3.5e1, "g": 60.0, "r": 200} ] }',
        given=World.completed,
        expect={"x-usage-committed": "1"},
        charged=1,
    ),
    match(
        "replay-when-the-quota-is-spent",
        200,
        given=partial(World.completed, match=1),
        expect={"x-usage-remaining": "0"},
        charged=1,
    ),
    match("conflict-color", 409, "idempotency_conflict", ONE.replace("200", "201"), given=World.completed, charged=1),
    match("conflict-top", 409, "idempotency_conflict", ONE[:-1] + ',"top":2}', given=World.completed, charged=1),
    match("conflict-with-a-search", 409, "idempotency_conflict", given=COMPLETED_SEARCH, charged=1),
    match("in-progress", 409, "request_in_progress", given=World.without_end),
    match("conflict-while-running", 409, "idempotency_conflict", FIVE, given=World.without_end),
    search("replay", "?q=taohong&limit=10", 200, given=COMPLETED_SEARCH, charged=1),
    search("conflict-q", "?q=tao", 409, "idempotency_conflict", given=COMPLETED_SEARCH, charged=1),
    search("conflict-limit", "?q=taohong&limit=9", 409, "idempotency_conflict", given=COMPLETED_SEARCH, charged=1),
    search("conflict-with-a-match", "?q=taohong", 409, "idempotency_conflict", given=World.completed, charged=1),
    search("in-progress", "?q=taohong", 409, "request_in_progress", given=RUNNING_SEARCH),
    search("conflict-while-running", "?q=hong", 409, "idempotency_conflict", given=RUNNING_SEARCH),
    # --- 9: the quota
    match("quota", 429, "quota_exceeded", given=on_plan(match=0), expect={"x-usage-remaining": "0"}),
    match(
        "quota-overshot-whole",
        429,
        "quota_exceeded",
        FIVE,
        given=on_plan(match=3),
        expect={"x-usage-limit": "3", "x-usage-committed": "0", "x-usage-remaining": "3"},
    ),
    search("quota", "?q=hong", 429, "quota_exceeded", given=on_plan(search=0)),
    search("other-meters-quota", "?q=taohong", 200, given=on_plan(match=0), charged=1),
]


def committed(connection: psycopg.Connection, account_id: str) -> int:
    row = connection.execute(
        "select coalesce(sum(committed), 0) from sepu.usage where account_id = %s", [account_id]
    ).fetchone()
    assert row is not None
    return int(row[0])


def check_every_response(response: Response, *, head: bool) -> None:
    """Checks what the document does not say; it has the form of each header and body."""
    request_id = response.headers["x-request-id"]
    assert str(uuid.UUID(request_id)) == request_id
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    assert not [name for name in response.headers if name.startswith(("access-control", "set-cookie"))]
    assert "content-encoding" not in response.headers
    assert ("allow" in response.headers) == (response.status == 405)
    if response.status >= 400 and not head:
        assert response.json == {"error": response.error, "requestId": request_id}
    used = {
        name: int(response.headers.get(f"x-usage-{name}", -1))
        for name in ("limit", "committed", "reserved", "remaining")
    }
    assert used["remaining"] in {-1, max(0, used["limit"] - used["committed"] - used["reserved"])}
    charged = response.status == 200 and "x-usage-meter" in response.headers
    assert (used["remaining"] >= 0) == (charged or (not head and response.error == "quota_exceeded"))


def check_case(case: Case, server: Server, world: World) -> None:
    if case.method == "PURGE" and server.address.startswith("unix:"):
        pytest.skip("meinheld takes a method that it does not know for GET; the proxy in front of it refuses it")
    if case.given:
        case.given(world)
    path = case.target.partition("?")[0]
    method = case.method or METHODS.get(path, "GET")
    headers = dict(case.headers)
    if case.authorization is not None:
        headers["Authorization"] = case.authorization.format(key=world.issued.api_key)
    if case.idempotency_key is not None and path not in {"/v1/library", "/v1/usage"}:
        headers["Idempotency-Key"] = case.idempotency_key
    if case.content_type is not None and method == "POST":
        headers["Content-Type"] = case.content_type
    body = case.body.encode() if isinstance(case.body, str) else case.body

    with world.running:
        response = server.request(method, case.target, headers, body)
    head = method == "HEAD"
    check_every_response(response, head=head)
    if response.status not in {404, 405} and path not in PROBES:  # those are not in the document
        check_response(path, method, response.status, response.headers, response.json)
    if path in METERED and "x-usage-meter" in response.headers:
        assert response.headers["x-usage-meter"] == METERED[path]
    assert (response.status, None if head else response.error) == (case.status, None if head else case.error)
    for name, value in case.expect.items():
        assert response.headers.get(name) == value
    assert response.headers.get("x-error-pointer") == case.pointer
    assert response.headers.get("retry-after") == (ERRORS[case.error].retry_after if case.error else None)
    assert committed(world.connection, world.account_id) == case.charged
    assert response.headers.get("idempotency-replayed") == ("true" if "-replay" in case.id else None)
    assert (response.body in STORED.values()) == ("-replay" in case.id)
    if case.check:
        case.check(response)


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
