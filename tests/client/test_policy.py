"""The rules of retrying: the core by properties, both clients by one table; only the clock is fake."""

import asyncio
import itertools
import json
import pickle
import re
import time
import traceback
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.client.blocking import AnyClient, Open, sending

from sepu_client import Answer, Request, SearchResponse, async_client, calls, client, errors
from sepu_client.messages import MAX_BODY, Call, Lost
from sepu_client.retries import settle

REQUEST_ID = "0b6f3c1e-7f0a-4a52-9d3a-1c8e5b7d2f40"
PAGE = Path(__file__).parents[2] / "docs" / "client.md"
MEMBERS = {"period": "2026-11", "meter": "color_search", "limit": 1000, "committed": 1, "reserved": 0, "remaining": 999}
USAGE = {f"x-usage-{name}": str(value) for name, value in MEMBERS.items()}


def answer(status: int, body: Any, **headers: str) -> Answer:
    named = {name.lower().replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status, {"x-request-id": REQUEST_ID, **named}, content)


def refusal(status: int, code: str, after: str | None = None, **headers: str) -> Answer:
    given_after = {} if after is None else {"Retry_After": after}
    return answer(status, {"error": code, "requestId": REQUEST_ID}, **given_after, **headers)


GOOD = answer(200, {"datasetVersion": "1.0.0", "count": 0, "results": []}, **USAGE)
BUSY = refusal(503, "usage_commit_failed", "1")
BROKEN = refusal(500, "internal_error")
SLOW = refusal(408, "request_timeout")
RUNNING = refusal(409, "request_in_progress", "1")
LIMITED = refusal(429, "rate_limited", "60")
CONFLICT = refusal(409, "idempotency_conflict")
EXHAUSTED = refusal(429, "quota_exceeded", "86400", **USAGE)
SUSPENDED = refusal(403, "account_unavailable")
STRANGER = refusal(401, "unauthorized")
LOST = Lost("ConnectionResetError")
GATEWAY = Answer(502, {}, b"<html>bad gateway")
# As servers in between send them.
EARLY = Answer(425, {}, b"too early")
TIMED_OUT = Answer(408, {}, b"<html>request time-out")
TOO_MANY = Answer(429, {"retry-after": "2"}, b'{"message":"API rate limit exceeded"}')
INVALID = Answer(99, {}, b"")  # counts as 5xx (RFC 9110, 15)
NO_TUNNEL = Lost("the proxy answered 429 to CONNECT", unsent=True, retry_after=3)

PASSING = [BUSY, BROKEN, SLOW, RUNNING, LIMITED, LOST, GATEWAY, EARLY, TIMED_OUT, TOO_MANY, INVALID]
FOREIGN = [
    Answer(403, {}, b"<html>forbidden"),
    Answer(401, {"x-request-id": REQUEST_ID}, b'{"error":"unauthorized"}'),
    Answer(407, {}, b""),
    Answer(413, {}, b'{"error":"payload_too_large","requestId":5}'),
    Answer(400, {}, b'{"error":"Bad Request","requestId":"%b"}' % REQUEST_ID.encode()),
    Answer(404, {}, b'{"error":"not_found","requestId":"1-67891233-abcdef012345678912345678"}'),
]
FINAL = [
    *(refusal(400, code) for code in ("idempotency_key_invalid", "body_required", "bad_request")),
    *(refusal(status, "any") for status in (402, 404, 405, 409, 410, 413, 414, 415, 417, 422, 431, 451, 499)),
    CONFLICT,
    EXHAUSTED,
    SUSPENDED,
    STRANGER,
    refusal(422, "invalid_q", "1"),  # a Retry-After alone does not make an error retryable
    refusal(409, "unheard_of", "1"),
    answer(200, b"{"),
    answer(204, b""),
    answer(301, b"", Location="https://elsewhere"),
    refusal(403, "unheard_of"),
    *FOREIGN,
]


@dataclass
class Fake:
    """A clock that only waiting advances, and its waits."""

    now: float = 0.0
    lag: float = 0.0
    waits: list[float] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds + self.lag


SEARCH = calls.search("hong", 10, "the-one-key")


def run(
    outcomes: Iterable[Answer | Lost], deadline: float, fraction: float, takes: float = 0.0, call: Call[Any] = SEARCH
) -> Any:
    """Plays outcomes into the core; returns its result, and the clock with its waits."""
    fake = Fake()
    steps = settle(call, deadline, fake.time, lambda low, high: low + fraction * (high - low))
    wait = next(steps)
    script = iter(outcomes)
    while True:
        fake.sleep(wait)
        assert fake.now < deadline
        fake.now += min(takes, deadline - fake.now)
        outcome = next(script)  # fails if it asks for more
        try:
            wait = steps.send(outcome)
        except StopIteration as settled:
            return settled.value, fake
        except errors.Error as error:
            return error, fake


def test_an_error_has_the_answers_status_code_and_id() -> None:
    for status in range(400, 600):
        error, _ = run([refusal(status, "unheard_of")], 0.001, 1)
        assert isinstance(error, errors.ApiError)
        assert (error.status, error.code, error.request_id) == (status, "unheard_of", REQUEST_ID)
        assert error.idempotency_key == "the-one-key"
    for status in (100, 199, 201, 299, 300, 399):
        error, _ = run([answer(status, b"", **USAGE)], 0.001, 1)
        assert isinstance(error, errors.InvalidAnswerError)
        assert (error.status, error.request_id, error.idempotency_key) == (status, REQUEST_ID, "the-one-key")
    error, _ = run([LOST], 0.001, 1)
    assert (type(error), error.idempotency_key) == (errors.NoAnswerError, "the-one-key")
    error, _ = run([EXHAUSTED], 1, 1)
    assert (error.usage.meter, error.usage.remaining) == ("color_search", 999)


@given(
    st.lists(st.sampled_from([*PASSING, NO_TUNNEL]), max_size=6),
    st.sampled_from([GOOD, *FINAL]),
    st.floats(0, 1),
)
def test_what_passes_is_repeated_until_an_end(passing: list[Answer | Lost], end: Answer, fraction: float) -> None:
    result, fake = run([*passing, end], 10_000, fraction)
    assert len(fake.waits) == len(passing) + 1
    assert isinstance(result, errors.Error) == (end is not GOOD)
    assert result.idempotency_key == "the-one-key"
    assert fake.waits[0] == 0
    for number, (outcome, wait) in enumerate(zip(passing, fake.waits[1:], strict=True)):
        asked = int(outcome.headers.get("retry-after", 0)) if isinstance(outcome, Answer) else outcome.retry_after or 0
        assert wait == pytest.approx(asked + fraction * min(8, 0.25 * 2**number))
        assert wait >= asked


@given(
    st.lists(st.sampled_from(PASSING), min_size=1, max_size=6),
    st.floats(0, 1),
    st.floats(0.5, 300),
    st.floats(0.1, 20),
)
def test_nothing_begins_after_the_deadline_nor_may_outlast_it(
    outcomes: list[Answer | Lost], fraction: float, deadline: float, takes: float
) -> None:
    error, fake = run(itertools.islice(itertools.cycle(outcomes), 10_000), deadline, fraction, takes)
    assert error.retryable
    assert fake.now <= deadline + 1e-6
    # It did not give up early: the next wait could have passed the deadline.
    asked = error.retry_after or 0 if isinstance(error, errors.ApiError) else 0
    assert fake.now + asked + 8 >= deadline - 1e-6


@given(st.floats(0, 1), st.floats(0.1, 1))
def test_a_name_that_does_not_exist_is_retried_for_3_seconds(fraction: float, takes: float) -> None:
    unknown = Lost("Name or service not known", unknown_name=True, unsent=True)
    error, fake = run(itertools.repeat(unknown), 1000, fraction, takes)
    assert (str(error), error.may_be_charged) == ("no answer (Name or service not known)", False)
    assert fake.now <= 3 + 2 * takes
    assert fake.now + fraction * min(8, 0.25 * 2 ** (len(fake.waits) - 1)) >= 3  # the next wait would have passed them
    assert run([unknown, GOOD], 25, fraction, takes)[0].count == 0
    assert run([unknown, LOST, unknown, GOOD], 25, 0, 2)[0].count == 0  # any other outcome starts the 3 seconds again


CLASSES = [
    (BUSY, errors.ServiceError),
    (BROKEN, errors.ServiceError),
    (GATEWAY, errors.ServiceError),
    (RUNNING, errors.RequestInProgressError),
    (SLOW, errors.RequestTimeoutError),
    (LIMITED, errors.RateLimitedError),
    (refusal(429, "unheard_of"), errors.RateLimitedError),
    (EXHAUSTED, errors.QuotaExceededError),
    (SUSPENDED, errors.AccountUnavailableError),
    (CONFLICT, errors.IdempotencyConflictError),
    (STRANGER, errors.UnauthorizedError),
    (refusal(404, "not_found"), errors.InvalidRequestError),
    (answer(302, b""), errors.InvalidAnswerError),
    (answer(200, b"<html>"), errors.InvalidAnswerError),
    (LOST, errors.NoAnswerError),
    (EARLY, errors.RequestTimeoutError),
    (TIMED_OUT, errors.RequestTimeoutError),
    (TOO_MANY, errors.RateLimitedError),
    (INVALID, errors.ServiceError),
    *((foreign, errors.InvalidAnswerError) for foreign in FOREIGN),
]


@pytest.mark.parametrize(("outcome", "expected"), CLASSES)
def test_the_class_of_an_error(outcome: Answer | Lost, expected: type[errors.Error]) -> None:
    error, _ = run([outcome], 0.001, 1)
    assert type(error) is expected
    assert error.retryable == (outcome in PASSING or error.__class__ is errors.RateLimitedError)
    copied = pickle.loads(pickle.dumps(error))  # as a pool of processes does
    assert (type(copied), vars(copied), str(copied)) == (expected, vars(error), str(error))
    _, (_, part) = calls.match_many(["#fff"] * 6, 1, "the-one-key")
    assert run([outcome], 0.001, 1, call=part)[0].idempotency_key == "the-one-key"  # and not the part's


UNSENT = Lost("ConnectionRefusedError", unsent=True)
ROWS = re.findall(r"^\| `(\w+Error)` \|.*\| (true|false)(.*) \| .* \|$", PAGE.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("name", "value", "condition"), ROWS)
def test_an_error_says_whether_it_may_be_charged_as_the_page_says(name: str, value: str, condition: str) -> None:
    outcomes: list[Any] = [
        outcome for outcome, kind in [*CLASSES, (UNSENT, errors.NoAnswerError)] if kind.__name__ == name
    ]
    told = {run([outcome], 0.001, 1)[0].may_be_charged for outcome in outcomes}
    assert told == ({True, False} if condition else {value == "true"})
    for outcome in outcomes:
        assert run([LOST, outcome], 1, 0, takes=0.6)[0].may_be_charged  # an earlier attempt may have been
        alone, _ = run([outcome], 0.001, 1)
        assert run([SLOW, UNSENT, outcome], 1.5, 0, takes=0.6)[0].may_be_charged == alone.may_be_charged


def test_what_is_free_is_never_charged() -> None:
    steps = settle(calls.usage(), 0.001, lambda: 0.0, lambda _, high: high)
    next(steps)
    with pytest.raises(errors.NoAnswerError) as raised:
        steps.send(LOST)
    assert not raised.value.may_be_charged


def test_the_request_id_of_an_error_is_that_of_its_body() -> None:
    """A server in between may rewrite the header."""
    other = "00000000-0000-0000-0000-000000000000"
    for named in ({"x-request-id": other}, {"x-request-id": "1-67891233-abcdef012345678912345678"}, {}):
        error, _ = run([Answer(422, named, refusal(422, "invalid_q").body)], 60, 1)
        assert (error.code, error.request_id) == ("invalid_q", REQUEST_ID)
    error, _ = run([Answer(403, {"x-request-id": other}, b"")], 60, 1)
    assert str(error) == (
        f"403: not the service but a server in between answered, or the address is wrong (request id {other})"
    )
    error, _ = run([GATEWAY], 0.001, 1)
    assert str(error) == "502 from a server in between, not from the service"


DATE = "Thu, 05 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        ("Thu, 05 Nov 2026 12:00:40 GMT", 40),
        ("Thursday, 05-Nov-26 12:01:00 GMT", 60),  # the forms that RFC 9110 calls obsolete
        ("Thu Nov  5 12:00:05 2026", 5),
        ("Thu, 05 Nov 2026 11:59:00 GMT", 0),
        ("Thu, 05 Nov 2026 13:00:01 +0100", 1),
        ("5 Nov 2026 12:01", 60),  # a date has 16 to 40 characters
        (f"Thu,{12 * ' '}05 Nov 2026 12:00:40 GMT", 40),
        (f"Thu,{13 * ' '}05 Nov 2026 12:00:40 GMT", 0),
    ],
)
def test_a_retry_after_may_be_a_date(after: str, seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts from the answer's own date, so the clocks need not agree. Without a zone it is GMT."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    result, fake = run([Answer(503, {"retry-after": after, "date": DATE}, b""), GOOD], 600, 0)
    assert result.count == 0
    assert fake.waits == [0, seconds]
    monkeypatch.undo()
    time.tzset()


def test_a_date_counts_from_now_where_the_answer_has_none() -> None:
    error, _ = run([Answer(503, {"retry-after": format_datetime(datetime.now(UTC) + timedelta(days=2))}, b"")], 60, 0)
    assert 2 * 86_400 - 60 < error.retry_after <= 2 * 86_400


@pytest.mark.parametrize(
    "after",
    ["", "soon", "-5", "1.5", "1e3", "9" * 400, "１", "Wed, 99 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 99999 07:28"],
)
def test_a_retry_after_that_is_no_number_of_seconds_is_none(after: str) -> None:
    result, fake = run([Answer(503, {"retry-after": after}, b""), GOOD], 60, 1)
    assert result.count == 0
    assert fake.waits == [0, 0.25]


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("/colors/2/g", "/colors/2/g"),
        ("/q", "/q"),
        *((text, None) for text in ("", "/", "q", "/q\x1b[2J", "/Bearer sepu_key", "/q\n", f"/{'q' * 33}", "/0" * 9)),
    ],
)
def test_a_pointer_has_names_and_indices_or_is_none(sent: str, read: str | None) -> None:
    error, _ = run([refusal(422, "invalid_rgb", X_Error_Pointer=sent)], 60, 1)
    assert (error.status, error.code, error.pointer, error.usage) == (422, "invalid_rgb", read, None)
    told = f"422 invalid_rgb{f' at {read}' if read else ''} (request id {REQUEST_ID})"
    assert (str(error), error.request_id) == (told, REQUEST_ID)


# The service's behaviour and the client's reaction: the class of the error or None, and the minimum and maximum wait
# before each attempt but the first.
Step = Answer | type[OSError]
TABLE: dict[str, tuple[list[Step], type[errors.Error] | None, list[tuple[float, float]]]] = {
    "good": ([GOOD], None, []),
    "a time-out": ([TimeoutError, GOOD], None, [(0, 0.25)]),
    "no connection": ([ConnectionRefusedError, TimeoutError, GOOD], None, [(0, 0.25), (0, 0.5)]),
    "cut": ([ConnectionResetError, BrokenPipeError, ConnectionAbortedError, GOOD], None, [(0, 0.25), (0, 0.5), (0, 1)]),
    "a gateway": ([GATEWAY, EARLY, TOO_MANY, GOOD], None, [(0, 0.25), (0, 0.5), (2, 3)]),
    "running": ([TimeoutError, RUNNING, GOOD], None, [(0, 0.25), (1, 1.5)]),
    "suspended meanwhile": ([BROKEN, SUSPENDED], errors.AccountUnavailableError, [(0, 0.25)]),
    "moved": ([answer(307, b"", Location="https://elsewhere")], errors.InvalidAnswerError, []),
}


class Scripted:
    """Plays one step of a script per request, in place of the network, and checks that they come one at a time."""

    def __init__(self, script: list[Step]) -> None:
        self._script = iter(script)
        self.requests: list[Request] = []
        self._busy = False

    def send(self, request: Request, _: object) -> Answer:
        self.requests.append(request)
        step = next(self._script)
        if isinstance(step, Answer):
            return Answer(step.status, {name.title(): value for name, value in step.headers.items()}, step.body)
        raise step("by the script")

    async def send_async(self, request: Request, network: object) -> Answer:
        assert not self._busy
        self._busy = True
        await asyncio.sleep(0)
        self._busy = False
        return self.send(request, network)

    def options(self, kind: str) -> dict[str, Any]:
        """The arguments of this kind of client."""
        return {"base_url": "https://example.test/prefix/", "send": self.send if kind == "sync" else self.send_async}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The clock by which both clients wait."""
    clock = Fake(now=1000.0)
    pause = asyncio.sleep

    async def sleep(seconds: float) -> None:
        await pause(0)
        if seconds:
            clock.sleep(seconds)

    time = SimpleNamespace(monotonic=clock.time, sleep=clock.sleep)
    monkeypatch.setattr(client, "time", time)
    monkeypatch.setattr(async_client, "time", time)
    monkeypatch.setattr(async_client, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    return clock


@pytest.mark.parametrize("key", ["the-one-key", None])
@pytest.mark.parametrize("case", TABLE)
def test_both_clients_keep_to_the_table(open_client: Open, kind: str, fake: Fake, case: str, key: str | None) -> None:
    script, expected, waits = TABLE[case]
    service = Scripted(script)
    with open_client(api_key="sepu_key", deadline=90, **service.options(kind)) as client:
        found: Any = None
        try:
            found = client.search("hong", idempotency_key=key)
        except errors.Error as error:
            found = error
    assert type(found) is (expected or SearchResponse)
    assert len(service.requests) == len(script)
    first = service.requests[0]
    assert all(replace(request, timeout=first.timeout) == first for request in service.requests)  # exactly the same
    assert (first.method, first.url) == ("GET", "https://example.test/prefix/v1/search?q=hong&limit=10")
    assert dict(first.headers) == {
        "Host": "example.test",
        "User-Agent": f"sepu-client/{version('sepu-client')}",
        "Accept-Encoding": "identity",
        "Authorization": "Bearer sepu_key",
        "Idempotency-Key": key or found.idempotency_key,
    }
    for wait, (least, most) in zip(fake.waits, waits, strict=True):
        assert least <= wait <= most
    assert all(request.timeout <= 10 for request in service.requests)


def test_a_pause_that_outlasts_the_deadline_ends_with_the_last_error(open_client: Open, kind: str, fake: Fake) -> None:
    """As when a computer sleeps."""

    observe = Mock(return_value=nullcontext())

    def send(*_: object) -> Answer:
        assert fake.now == 1000
        fake.lag = 60
        return BUSY

    with opened(open_client, kind, send, observe=observe) as client, pytest.raises(errors.ServiceError) as raised:
        client.search("hong")
    assert raised.value.may_be_charged
    seen = [call.args[0] for call in observe.call_args_list]
    assert [(one.status, one.reason) for one in seen] == [(503, None), (None, "the deadline came before it was sent")]


def test_the_deadline_is_that_of_all_parts(open_client: Open, kind: str, fake: Fake) -> None:
    """By default 25 seconds: a stock gunicorn kills its worker after 30. The error has the answered part."""
    black = {"input": {"r": 0, "g": 0, "b": 0}, "matches": []}
    part = answer(200, {"datasetVersion": "1.0.0", "results": [black] * 5}, **USAGE)
    timeouts = list[float]()

    def send(request: Request, _: object) -> Answer:
        timeouts.append(request.timeout)
        fake.now += 9
        return part

    started = fake.now
    with opened(open_client, kind, send) as client, pytest.raises(errors.NoAnswerError) as raised:
        client.match_many(["#000"] * 30)
    assert (fake.now - started, timeouts) == (27, [10, 10, 7])
    assert (len(raised.value.answered), len(raised.value.unanswered)) == (15, 15)
    assert str(raised.value) == "no answer (the deadline came before it was sent); 15 of 30 colours were answered"


def test_reading_is_free_to_repeat(open_client: Open, kind: str, fake: Fake) -> None:
    service = Scripted([BROKEN, TimeoutError, STRANGER])
    with (
        open_client(api_key="sepu_key", **service.options(kind)) as client,
        pytest.raises(errors.UnauthorizedError) as raised,
    ):
        client.usage()
    assert raised.value.idempotency_key is None
    assert [request.headers.get("Idempotency-Key") for request in service.requests] == [None] * 3
    assert len(fake.waits) == 2


def test_the_callers_own_headers_are_asked_for_before_each_attempt(open_client: Open, kind: str, fake: Fake) -> None:
    numbers = itertools.count(1)
    service = Scripted([BUSY, TimeoutError, GOOD])
    with open_client(
        api_key="sepu_key", headers=lambda: {"traceparent": f"00-{next(numbers)}"}, **service.options(kind)
    ) as client:
        client.search("hong")
    assert [request.headers["traceparent"] for request in service.requests] == ["00-1", "00-2", "00-3"]
    assert len(fake.waits) == 2


@pytest.mark.parametrize(
    "own",
    [
        *({name: "5"} for name in (
            "Accept-Encoding", "AUTHORIZATION", "Connection", "Content-Encoding", "Content-Length", "Content-Type",
            "Expect", "Host", "Idempotency-Key", "Proxy-Authorization", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
            "User-Agent",
        )),
        {"a b": "c"},
        {"a": "b\r\nc: d"},
        {"a": 5},
        {"": "a"},
    ],
)  # fmt: skip
def test_headers_that_cannot_be_sent_are_refused(open_client: Open, kind: str, own: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="header"), open_client("http://localhost", "sepu_key", headers=own):
        pass
    service = Scripted([])
    with (
        open_client(api_key="sepu_key", headers=lambda: own, **service.options(kind)) as client,
        pytest.raises(ValueError, match="header"),
    ):
        client.search("hong")
    assert service.requests == []


FAULTS: list[BaseException] = [
    AssertionError("of the caller"),
    FileNotFoundError("of the caller"),
    StopIteration("of the caller"),
    KeyboardInterrupt("of the caller"),
]


def failing(failure: BaseException) -> Any:
    """A function of the caller that raises this from a cause."""

    def fixture() -> None:
        raise LookupError("no such fixture")

    def send(*_: object) -> Any:
        try:
            fixture()
        except LookupError as cause:
            raise failure from cause

    return send


def opened(open_client: Open, kind: str, send: Any, **options: Any) -> AbstractContextManager[AnyClient]:
    return open_client("http://localhost", "sepu_thesecret", send=sending(kind, send), **options)


@pytest.mark.parametrize("failure", FAULTS, ids=repr)
def test_what_the_callers_function_raises_reaches_the_caller(
    open_client: Open, kind: str, failure: BaseException
) -> None:
    """With its cause and the caller's frames."""
    if kind == "async" and isinstance(failure, StopIteration):
        pytest.skip("a coroutine cannot raise StopIteration")
    with opened(open_client, kind, failing(failure)) as client, pytest.raises(type(failure)) as raised:
        client.search("hong")
    assert raised.value is failure
    assert isinstance(failure.__cause__, LookupError)
    told = "".join(traceback.TracebackException.from_exception(failure, capture_locals=True).format())
    assert "in send\n" in told
    assert "in fixture\n" in told
    assert "thesecret" not in told


def test_a_function_that_returns_no_answer_is_a_type_error(open_client: Open, kind: str) -> None:
    with (
        opened(open_client, kind, lambda *_: 5) as client,
        pytest.raises(TypeError, match="returned int, and not an Answer"),
    ):
        client.search("hong")


@pytest.mark.parametrize("key", ["short", "x" * 129, "white space", "schlüssel", "new-line\n", ""])
def test_a_malformed_idempotency_key_is_not_sent(key: str) -> None:
    with pytest.raises(ValueError, match="an idempotency key has"):
        calls.search("hong", 1, key)


@settings(max_examples=50)
@given(st.text("abcXYZ019._:-", min_size=8, max_size=128))
def test_every_idempotency_key_of_the_interface_is_taken(key: str) -> None:
    assert calls.search("hong", 1, key).idempotency_key == key


def test_made_keys_are_new() -> None:
    made = {calls.match([(1, 2, 3)], 1, None).idempotency_key for _ in range(100)}
    assert len(made) == 100


@pytest.mark.parametrize("coding", ["", "identity", "Identity"])
def test_an_uncompressed_answer_of_any_length_up_to_a_mebibyte_is_read(coding: str) -> None:
    headers = {**GOOD.headers, "content-encoding": coding}
    assert run([Answer(200, headers, GOOD.body.ljust(MAX_BODY))], 1, 1)[0].count == 0


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Answer(200, {"content-encoding": "gzip"}, GOOD.body), "the body has a content coding, and none was accepted"),
        (Answer(200, {}, GOOD.body.ljust(MAX_BODY + 1)), "the body has more than 1048576 bytes"),
        (Answer(204, {}, b""), "the interface has no such status"),
    ],
)
def test_the_reason_of_an_invalid_answer(outcome: Answer, reason: str) -> None:
    error, _ = run([outcome], 1, 1)
    assert (type(error), error.reason) == (errors.InvalidAnswerError, reason)
    assert str(error) == f"{outcome.status}: {reason}"
