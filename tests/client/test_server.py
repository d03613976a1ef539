"""Both clients against the real server, on every worker: results, errors, replays, and secrets."""

import asyncio
import logging
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.client.blocking import AnyClient
from tests.client.conftest import Opened, where
from tests.client.cutting_proxy import deaf
from tests.serving import Server

import sepu
from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu.admin.usage import show_usage
from sepu.metering import key_format
from sepu_client import (
    RGB,
    AsyncClient,
    Client,
    Error,
    IdempotencyConflictError,
    InvalidRequestError,
    MatchResponse,
    QuotaExceededError,
    RateLimitedError,
    UnauthorizedError,
    core,
    new_idempotency_key,
)
from sepu_client.async_client import CONNECTIONS

SCARLET = (200, 60, 35)


@pytest.fixture
def committed(connection: psycopg.Connection, issued: IssuedKey) -> Iterator[dict[str, int]]:
    """What a test expects to be charged in the end, by meter."""
    expected: dict[str, int] = {}
    yield expected
    shown = show_usage(connection, issued.account_id).usage
    assert {meter.meter: meter.committed for meter in shown if meter.committed} == expected


def test_a_match(at_server: Opened, issued: IssuedKey, committed: dict[str, int]) -> None:
    answer = at_server(issued.api_key).match([SCARLET, (12.5, 0, 255)], top=3)
    committed["color_match"] = 2
    palette, records = sepu.load().palette(), sepu.load().records
    assert [result.input for result in answer.results] == [RGB(200, 60, 35), RGB(12.5, 0, 255)]
    for result in answer.results:
        nearest = palette.nearest(*result.input, 3)
        assert [(match.slug, match.delta_e) for match in result.matches] == [
            (records[place].slug, round(delta_e, 4)) for place, delta_e in nearest
        ]
    scarlet = answer.results[0].matches[0]
    assert (scarlet.name.zh, scarlet.name.en, scarlet.name.pinyin) == ("绯红", "Scarlet Silk", "fēi hóng")
    assert (scarlet.hex, scarlet.reliability, scarlet.similarity) == ("#C83C23", "verified", 1.0)
    assert answer.dataset_version == "1.0.0"
    assert not answer.replayed
    assert (answer.usage.meter, answer.usage.limit, answer.usage.committed) == ("color_match", 2000, 2)
    assert (answer.usage.reserved, answer.usage.remaining) == (0, 1998)


def test_a_search(at_server: Opened, issued: IssuedKey, committed: dict[str, int]) -> None:
    answer = at_server(issued.api_key).search("桃 红 ", limit=3)
    committed["color_search"] = 1
    assert (answer.count, [color.name.zh for color in answer.results]) == (1, ["桃红"])
    assert (answer.usage.meter, answer.usage.committed) == ("color_search", 1)
    assert at_server(issued.api_key).search("a&limit=1#/?+%41 ö").count == 0  # sent as it is
    committed["color_search"] = 2


def test_library_and_usage(at_server: Opened, issued: IssuedKey) -> None:
    client = at_server(issued.api_key)
    library = client.library()
    assert (library.record_count, library.value_mismatch_count, library.mode) == (161, 96, "commercial")
    assert len({library.source_projection_sha256, library.rights_manifest_sha256, library.library_sha256}) == 3
    found = client.usage()
    assert (found.account_id, found.plan_id, found.status) == (issued.account_id, "standard", "active")
    assert [(meter.meter, meter.remaining) for meter in found.usage] == [("color_match", 2000), ("color_search", 1000)]


def test_a_key_of_the_callers_own_is_one_intent(
    at_server: Opened, issued: IssuedKey, committed: dict[str, int]
) -> None:
    client, key = at_server(issued.api_key), new_idempotency_key()
    first = client.match([SCARLET], idempotency_key=key)
    again = client.match([SCARLET], idempotency_key=key)
    committed["color_match"] = 1
    assert (first.replayed, again.replayed) == (False, True)
    assert (first.idempotency_key, again.idempotency_key) == (key, key)
    assert (first.results, first.usage) == (again.results, again.usage)
    assert first.request_id != again.request_id
    with pytest.raises(IdempotencyConflictError) as raised:
        client.match([(1, 2, 3)], idempotency_key=key)
    assert (raised.value.status, raised.value.idempotency_key) == (409, key)


def test_errors_have_status_code_and_request_id(
    at_server: Opened, server: Server, kind: str, issued: IssuedKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = where(server, kind)["base_url"] + "/elsewhere"
    with pytest.raises(InvalidRequestError, match=r"^404 not_found \(request id [0-9a-f-]{36}\)$") as raised:
        at_server(issued.api_key, base_url=elsewhere).match([SCARLET])
    assert (raised.value.status, raised.value.code, raised.value.usage) == (404, "not_found", None)
    assert raised.value.pointer is None
    assert len(raised.value.idempotency_key or "") == 36
    with pytest.raises(UnauthorizedError) as refused:
        at_server(key_format.new_key(issued.account_id)).library()
    assert (refused.value.status, refused.value.code) == (401, "unauthorized")
    assert len(refused.value.request_id or "") == 36
    monkeypatch.setattr(core, "MOST_TOP", 4)  # which the service does not take
    with pytest.raises(InvalidRequestError, match=r"^422 invalid_top at /top \(request id [0-9a-f-]{36}\)$") as invalid:
        at_server(issued.api_key).match([SCARLET], top=4)
    assert invalid.value.pointer == "/top"
    assert vars(pickle.loads(pickle.dumps(invalid.value))) == vars(invalid.value)


def test_an_exhausted_quota_stops(at_server: Opened, connection: psycopg.Connection) -> None:
    set_plan(connection, "narrow", {"color_match": 3, "color_search": 1}, requests_per_minute=100)
    client = at_server(accounts.create_account(connection, "narrow").api_key)
    client.match([SCARLET] * 2)
    with pytest.raises(QuotaExceededError) as raised:
        client.match([SCARLET] * 2)
    assert (raised.value.code, raised.value.retry_after) == ("quota_exceeded", 86400)
    usage = raised.value.usage
    assert usage is not None
    assert (usage.limit, usage.committed, usage.remaining) == (3, 2, 1)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    assert client.match([SCARLET], idempotency_key=raised.value.idempotency_key).usage.remaining == 0


def test_a_rate_limit_beyond_the_deadline_is_told_at_once(at_server: Opened, connection: psycopg.Connection) -> None:
    set_plan(connection, "slow", {"color_match": 10, "color_search": 10}, requests_per_minute=1)
    client = at_server(accounts.create_account(connection, "slow").api_key)
    started = time.monotonic()

    def hurry() -> None:
        for _ in range(3):  # a new minute may begin in between
            client.usage()

    with pytest.raises(RateLimitedError) as raised:
        hurry()
    assert raised.value.retry_after is not None
    assert time.monotonic() - started < 30


def test_the_key_is_shown_nowhere(
    at_server: Opened, server: Server, kind: str, issued: IssuedKey, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in what is logged at any level, nor in errors, their variables, or the client."""
    api_key = issued.api_key
    secret = api_key.split("_")[2]
    shown: list[str] = []

    def fail(client: AnyClient) -> None:
        calls: list[Callable[[], object]] = [
            lambda: client.match([SCARLET], idempotency_key="of-a-search"),
            lambda: client.match([(1, 2, 3)], idempotency_key="of-a-match"),
        ]
        for call in calls:
            with pytest.raises(Error) as raised:
                call()
            assert raised.value.__cause__ is None
            assert raised.value.__context__ is None
            whole = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
            shown.extend([*whole.format(), repr(raised.value), repr(vars(raised.value))])

    with caplog.at_level(logging.DEBUG), deaf() as address:
        client = at_server(api_key)
        client.search("hong", idempotency_key="of-a-search")
        client.match([SCARLET], idempotency_key="of-a-match")
        fail(client)
        fail(at_server(api_key + "x"))
        fail(at_server(api_key, base_url=address, transport=None, timeout=0.1, deadline=0.5))
    real: type[Any] = Client if kind == "sync" else AsyncClient
    for wrong in ({"base_url": "ftp://x"}, {"base_url": "http://localhost", "api_key": f"{api_key}\n"}):
        with pytest.raises(ValueError, match="base URL|API key") as raised:
            real(**{"api_key": api_key, **wrong})
        own = raised.value.__traceback__
        assert own is not None
        whole = traceback.TracebackException(type(raised.value), raised.value, own.tb_next, capture_locals=True)
        shown.extend(whole.format())
    one = real(**{"api_key": api_key, **where(server, kind)})
    shown.extend([repr(one), str(one), repr(vars(one))])
    connection = one._connections.take()
    shown.extend([repr(vars(one._connections)), repr(vars(connection)), repr(connection.headers)])
    if isinstance(one, AsyncClient):
        asyncio.run(one.aclose())
    else:
        one.close()
    assert "sepu_client" in "".join(shown)
    assert "HTTP Request" in caplog.text
    for text in [*shown, caplog.text]:
        assert secret not in text


def test_a_cancelled_call_is_repeated_with_its_key(server: Server, issued: IssuedKey) -> None:
    """However far it came when it was cancelled, it is charged once."""

    async def cancel_and_repeat() -> list[MatchResponse]:
        async with AsyncClient(api_key=issued.api_key, **where(server, "async")) as client:
            repeated = []
            for number in range(12):
                call = asyncio.create_task(client.match([SCARLET], idempotency_key=f"cancelled-{number}"))
                await asyncio.sleep(number / 2000)
                call.cancel()
                await asyncio.wait([call])
                repeated.append(await client.match([SCARLET], idempotency_key=f"cancelled-{number}"))
            return repeated

    answers = asyncio.run(cancel_and_repeat())
    assert [answer.results[0].matches[0].slug for answer in answers] == ["fei-hong"] * 12
    assert answers[-1].usage.committed == 12


async def at_once(server: Server, issued: IssuedKey, count: int) -> int:
    """So many tasks match with one client; how much is charged in the end."""
    async with AsyncClient(api_key=issued.api_key, **where(server, "async")) as client:
        answers = await asyncio.gather(*(client.match([SCARLET]) for _ in range(count)))
    return max(answer.usage.committed for answer in answers)


def test_tasks_and_threads_share_a_client(server: Server, issued: IssuedKey) -> None:
    assert asyncio.run(at_once(server, issued, 10)) == 10
    with Client(api_key=issued.api_key, **where(server, "sync")) as client:
        threads = [threading.Thread(target=client.match, args=([SCARLET],)) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.usage().usage[0].committed == 20


def test_many_more_tasks_than_connections(uvloop: Server, connection: psycopg.Connection) -> None:
    tasks = 2 * CONNECTIONS + 10
    set_plan(connection, "many-tasks", {"color_match": tasks, "color_search": 0}, requests_per_minute=10 * tasks)
    issued = accounts.create_account(connection, "many-tasks")
    assert asyncio.run(at_once(uvloop, issued, tasks)) == tasks


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": None}, {"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"timeout": 1e10},
        {"deadline": 0}, {"deadline": "60"},
        {"api_key": None}, {"base_url": "http://localhost?x=1"}, {"base_url": "http://localhost/v1/"}, {"base_url": "http://[::1"},
        {"base_url": "https://a..b"}, {"base_url": "https://xn--a/"}, {"base_url": "http://localhost:99999"},
        {"base_url": "https://user:word@localhost"},
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_at_once(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="base URL|API key|timeout is|deadline is"):
        kind(**{"base_url": "http://localhost", "api_key": "sepu_x", **wrong})
