"""The document and the code agree: what one has, the other has."""

import json
import re
from collections.abc import Callable
from typing import Any, get_args
from urllib.parse import quote

from falcon.testing import create_environ
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema_rs import ValidationErrorKind
from tests.harness.serving import Server
from tests.http.contract import CASES
from tests.openapi.document import (
    DEFAULT,
    DOCUMENT,
    PATH,
    answer,
    codes,
    examples,
    headers,
    operations,
    resolve,
    responses,
    schema,
    validator,
    validator_as_written,
)

from sepu import limits
from sepu.admin.keys import IssuedKey
from sepu.errors import InputError
from sepu.http import replies, request_checks, routes, wire
from sepu.http.errors import ERRORS
from sepu.http.request import TimedRequest
from sepu.library.records import Mode, Reliability
from sepu.metering.meters import METERS, Usage
from sepu.operations import match, search

# Codes that belong to no operation: those of unknown paths and methods, and of health.
ELSEWHERE = {"not_found", "method_not_allowed", "not_ready"}
# Refused before there is a request, on any path: tests/http/test_raw.py, tests/server/test_deadlines.py
REFUSED_BEFORE = set(wire._CODES.items())
# Codes of an outage; tests/faults covers them, not the contract's table.
OUTAGE = {"internal_error", "usage_commit_failed"}
METERED = {routes.MATCH, routes.SEARCH}
REQUIRED: dict[str, set[str]] = {
    routes.MATCH: {"Idempotency-Key", "body"},
    routes.SEARCH: {"Idempotency-Key", "q"},
    routes.LIBRARY: set(),
    routes.USAGE: set(),
}
SCHEMAS = DOCUMENT["components"]["schemas"]
METER = {routes.MATCH: "color_match", routes.SEARCH: "color_search"}
USAGE = DOCUMENT["paths"][routes.USAGE]["get"]


def unlisted_errors() -> set[tuple[int, str]]:
    """Status and code, from the description of the default response."""
    (description,) = {resolve(operation["responses"][DEFAULT])["description"] for _, _, operation in operations()}
    return {(int(status), code) for status, code in re.findall(r"(\d{3}) `(\w+)`", description)}


def parameter(name: str) -> dict[str, Any]:
    return next(
        found
        for _, _, operation in operations()
        for found in map(resolve, operation.get("parameters", ()))
        if found["name"] == name
    )


def test_it_is_valid_openapi() -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator  # slow to import

    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []


def test_what_every_operation_requires() -> None:
    assert DOCUMENT["security"] == [{"ApiKey": []}]
    scheme = DOCUMENT["components"]["securitySchemes"]["ApiKey"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path, _, operation in operations():
        assert "security" not in operation
        required = {found["name"] for found in map(resolve, operation.get("parameters", ())) if found.get("required")}
        required |= {"body"} if operation.get("requestBody", {}).get("required") else set()
        assert required == REQUIRED[path]


def test_each_operation_lists_the_errors_that_it_makes() -> None:
    table = {
        (case.target.partition("?")[0], case.status, case.error)
        for case in CASES
        if case.error not in {None} | ELSEWHERE
    }
    in_outage = {
        (path, ERRORS[code][0], code)
        for path, _, _ in operations()
        for code in OUTAGE
        if code == "internal_error" or path in METERED
    }
    before = {
        (path, status, code)
        for path, _, operation in operations()
        for status, code in REFUSED_BEFORE
        if status in responses(operation)
    }
    assert table | in_outage | before == {
        (path, status, code)
        for path, _, operation in operations()
        for status, response in responses(operation).items()
        if status >= 400
        for code in codes(response)
    }


def test_what_an_operation_does_not_list_is_in_its_default() -> None:
    listed = [responses(operation) for _, _, operation in operations()]
    assert unlisted_errors() == {
        (status, code) for status, code in REFUSED_BEFORE if any(status not in statuses for statuses in listed)
    }


def test_headers() -> None:
    always = {"x-request-id", "cache-control"}
    usage = {
        name.lower()
        for name, _ in replies.header_pairs(replies.usage_headers(Usage("2026-11", "color_match", 1, 1, 0)))
    }
    for path, _, operation in operations():
        for status, found in operation["responses"].items():
            response = resolve(found)
            if status == "200":
                certain = [always | usage if path in METERED else always]
                possible = certain[0] | {"idempotency-replayed"} if path in METERED else certain[0]
            else:
                certain = [
                    always
                    | {name.lower() for name, _ in replies.header_pairs(replies.error(code).headers)}
                    | (usage if code == "quota_exceeded" else set())
                    for code in (codes(response) if status != DEFAULT else dict(unlisted_errors()).values())
                ]
                possible = set().union(*certain, {"x-error-pointer"} if status == "422" else ())
            listed = headers(response)
            assert set(listed) == possible
            assert {name for name, header in listed.items() if header.get("required")} == set.intersection(*certain)


def test_numbers_are_double() -> None:
    """Otherwise Go takes them for float32, and prints other numbers than were sent."""
    members = [member for found in SCHEMAS.values() for member in (found, *found.get("properties", {}).values())]
    numbers = [member for member in members if member.get("type") == "number"]
    assert [member["format"] for member in numbers] == ["double"] * 3


def test_each_kind_of_error_has_a_schema_of_its_own() -> None:
    used: dict[str, set[tuple[str, ...]]] = {}
    for _, _, operation in operations():
        for status, response in operation["responses"].items():
            if status not in {"200", DEFAULT}:
                used.setdefault(schema(resolve(response))["$ref"], set()).add((status, *codes(resolve(response))))
    assert all(len(kinds) == 1 for kinds in used.values())
    assert len(set.union(*used.values())) == len(used)


def test_defaults_and_limits_in_words() -> None:
    """The tests below and test_mutations.py cover those of schemas."""
    limit, top = parameter("limit")["schema"], SCHEMAS["MatchRequest"]["properties"]["top"]
    assert (limit["default"], top["default"]) == (limits.inputs.MAX_LIMIT, 1)
    assert parameter("q")["schema"]["minLength"] == limits.inputs.MIN_QUERY
    described = " ".join(parameter("q")["description"].split())
    assert f"{limits.inputs.MIN_QUERY} to {limits.inputs.MAX_QUERY} characters" in described
    assert PATH.read_text("utf-8").count(f" {limits.requests.BODY_BYTES} bytes") == 2


def test_enumerations() -> None:
    assert SCHEMAS["Reliability"]["enum"] == list(get_args(Reliability))
    assert SCHEMAS["Meter"]["enum"] == list(METERS)
    assert SCHEMAS["Library"]["properties"]["mode"]["examples"] == list(get_args(Mode))


def test_numbers_in_its_text() -> None:
    said = " ".join(PATH.read_text("utf-8").split())
    for meter in answer(USAGE)["usage"]:
        assert f"{meter['limit']:,} " in said
    hints = {code: seconds for seconds, code in re.findall(r"(\d+) after `(\w+)`", said)}
    assert hints == {code: ERRORS[code].retry_after for code in ("rate_limited", "quota_exceeded")}


def accepts(parse: Callable[[Any], object], value: Any) -> bool:
    try:
        parse(value)
    except InputError:
        return False
    return True


channel = st.one_of(
    st.floats(-0.01, 255.01), st.integers(-1, 256), st.sampled_from([-0.0, 1e300, None, True, "1", [1], 10**400])
)
color = st.one_of(
    st.fixed_dictionaries({name: st.floats(0, 255) | channel for name in "rgb"}, optional={"a": channel}),
    st.dictionaries(st.sampled_from("rgbR"), channel),
    channel,
)
body = st.one_of(
    channel,
    st.fixed_dictionaries(
        {},
        optional={
            "colors": st.lists(st.fixed_dictionaries({name: st.floats(0, 255) for name in "rgb"}), max_size=6)
            | st.lists(color, max_size=6)
            | channel,
            "top": st.integers(0, 4) | st.sampled_from([1.0, 1.5, 3.0, 4.0]) | channel,
            "x": channel,
        },
    ),
)
match_request = validator_as_written(SCHEMAS["MatchRequest"])
error_pointer = validator_as_written(SCHEMAS["ErrorPointer"])


@given(body)
@example({"colors": [{"r": 0, "g": 255, "b": 255.0}], "top": 0})
@example({"colors": [{"r": 0, "g": 255, "b": 255.0}], "top": 3})
@example({"colors": [{"r": 0, "g": 255, "b": 255.0}], "top": 4})
@example({"colors": [{"r": 0, "g": 0, "b": 0}] * 5})
@example({"colors": [{"r": 0, "g": 0, "b": 0}] * 6})
@example({"colors": [{"r": 0, "g": 0, "b": 0, "a": 0}]})
@example({"colors": [{"r": 0, "g": 0, "b": 0}], "x": 0})
def test_the_code_takes_a_body_that_fits_the_schema_or_points_at_what_does_not(value: Any) -> None:
    unfit = set()
    for error in match_request.iter_errors(value):
        at = "".join(f"/{step}" for step in error.instance_path)
        kind: Any = error.kind
        unfit.add(f"{at}/{kind.property}" if isinstance(kind, ValidationErrorKind.Required) else at)
    try:
        match.parse_match(json.dumps(value).encode())
    except InputError as refusal:
        assert refusal.pointer in unfit
        assert refusal.pointer == "" or error_pointer.is_valid(refusal.pointer)
    else:
        assert unfit == set()


# With white space that only Python recognises, or only JSON Schema.
edge = st.text(" \t\n\u3000\xa0\x1c\x1d\x1e\x1f\x85\ufeff\0", max_size=3)
query = st.text(st.characters(codec="utf-8"), max_size=70) | st.builds(
    "{}{}{}".format, edge, st.text("a 红\U0001f600", max_size=70), edge
)
q = validator(parameter("q")["schema"])


@given(query)
@example("a")
@example("ab")
@example(" a ")
@example("a" * 64)
@example("a" * 65)
@example(" " + "\U0001f600" * 64 + "\n")
def test_a_q_fits_the_schema_if_the_code_takes_it(value: str) -> None:
    assert q.is_valid(value) == accepts(search.parse_search, f"q={quote(value)}")


@given(st.integers(-1, 12))
def test_a_limit_fits_the_schema_if_the_code_takes_it(value: int) -> None:
    assert validator(parameter("limit")["schema"]).is_valid(value) == accepts(
        search.parse_search, f"q=ab&limit={value}"
    )


idempotency_key = validator(parameter("Idempotency-Key")["schema"])


@given(st.text(max_size=130) | st.text("azAZ09._:-", min_size=7, max_size=129))
@example("a" * 7)
@example("a" * 8)
@example("a" * 128)
@example("a" * 129)
@example("aaaaaaaa\n")
def test_an_idempotency_key_fits_the_schema_if_the_code_takes_it(value: str) -> None:
    head = TimedRequest(create_environ() | {"HTTP_IDEMPOTENCY_KEY": value})
    assert idempotency_key.is_valid(value) == accepts(request_checks._idempotency_key, head)


def documented_request(operation: dict[str, Any], issued: IssuedKey) -> tuple[str, dict[str, str], bytes | None]:
    """The query, headers and body of an operation's example."""
    sent = {"Authorization": f"Bearer {issued.api_key}"}
    query = ""
    for found in map(resolve, operation.get("parameters", ())):
        if found["in"] == "query":
            (value,) = examples(found).values()
            query += f"{'&' if query else '?'}{found['name']}={quote(str(value))}"
        else:
            (sent[found["name"]],) = examples(found).values()
    if "requestBody" not in operation:
        return query, sent, None
    (value,) = examples(operation["requestBody"]["content"]["application/json"]).values()
    return query, {**sent, "Content-Type": "application/json"}, json.dumps(value).encode()


def shown_headers(response: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, header in headers(response).items() for value in examples(header).values()}


def test_examples_are_real_responses(server: Server, issued: IssuedKey) -> None:
    for path, method, operation in operations():  # usage comes last, and counts a match and a search
        query, sent, given_body = documented_request(operation, issued)
        first = server.request(method, path + query, sent, given_body)
        again = server.request(method, path + query, sent, given_body)
        wanted = answer(operation)
        if path == routes.USAGE:
            wanted = {**wanted, "accountId": issued.account_id}
            period = first.json["usage"][0]["period"]
            wanted["usage"] = [{**meter, "period": period} for meter in wanted["usage"]]
        assert (first.status, first.json) == (again.status, again.json) == (200, wanted)
        shown = shown_headers(responses(operation)[200])
        for name in {"x-request-id", "x-usage-period"} & set(shown):
            shown[name] = again.headers[name]
        assert {name: again.headers.get(name) for name in shown} == shown


def test_examples_of_errors_are_what_the_code_answers() -> None:
    """One for each code. The headers' examples belong to the first, which tools take."""
    request_id = DOCUMENT["components"]["headers"]["X-Request-Id"]["example"]
    others = dict.fromkeys(code for _, code in unlisted_errors())
    for path, _, operation in operations():
        for status, found in operation["responses"].items():
            response = resolve(found)
            if status == "200":
                continue
            shown = examples(response["content"]["application/json"])
            assert set(shown) == set(others if status == DEFAULT else codes(response))
            for code, body in shown.items():
                assert body == json.loads(replies.error(code).render(request_id))
            code = next(iter(shown))
            expected = dict([*replies.COMMON_HEADERS, *replies.header_pairs(replies.error(code).headers)]) | {
                "X-Request-Id": request_id
            }
            if code == "quota_exceeded":
                (meter,) = (meter for meter in answer(USAGE)["usage"] if meter["meter"] == METER[path])
                spent = Usage(meter["period"], meter["meter"], meter["limit"], meter["limit"], 0)
                expected |= replies.header_pairs(replies.usage_headers(spent))
            if status == "422":
                expected["X-Error-Pointer"] = {"invalid_rgb": "/colors/2/g", "invalid_q": "/q"}[code]
            del expected["Content-Type"]
            assert shown_headers(response) == {name.lower(): value for name, value in expected.items()}
