"""`sepu_client` while processes are killed, and behind a hostile server in between: one intent, one charge."""

import asyncio
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest
from tests.client.hostile import CHANGES, Between, listening
from tests.harness.serving import Server, serving

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu_client import RGB, AsyncClient, Client, Error, MatchResponse, SearchResponse

AT_A_TIME = 8
CALLS = 60  # at least, per thread or task
KILLS = 8
BETWEEN = int(os.environ.get("SEPU_CALLS", "2000"))  # calls through the hostile server


@contextmanager
def killing(server: Server, connection: psycopg.Connection, killed: list[int]) -> Iterator[threading.Event]:
    """Kills one thing after the other, a worker or all sessions, and sets the event when done."""
    rng, done = random.Random(161), threading.Event()

    def kill() -> None:
        for number in range(KILLS):
            done.wait(0.25)
            if number % 3 == 2:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'sepu_service'"
                )
            elif workers := server.workers():
                with suppress(ProcessLookupError):
                    os.kill(worker := rng.choice(workers), signal.SIGKILL)
                    killed.append(worker)
        done.set()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield done
    finally:
        thread.join()


def check(found: MatchResponse, color: RGB, key: str) -> None:
    assert (found.results[0].input, found.idempotency_key) == (color, key)


def threads(url: str, api_key: str, done: threading.Event) -> int:
    def call(client: Client, which: int) -> int:
        number = 0
        while number < CALLS or not done.is_set():
            color, key = RGB(which, number % 256, number // 256), f"thread-{which}-{number}"
            check(client.match([color], idempotency_key=key), color, key)
            number += 1
        return number

    with Client(url, api_key, timeout=3, deadline=120) as client, ThreadPoolExecutor(AT_A_TIME) as pool:
        return sum(pool.map(call, [client] * AT_A_TIME, range(AT_A_TIME)))


def tasks(url: str, api_key: str, done: threading.Event) -> int:
    async def call(client: AsyncClient, which: int) -> int:
        number = 0
        while number < CALLS or not done.is_set():
            color, key = RGB(which, number % 256, number // 256), f"task-{which}-{number}"
            check(await client.match([color], idempotency_key=key), color, key)
            number += 1
        return number

    async def all_at_once() -> int:
        async with AsyncClient(url, api_key, timeout=3, deadline=120) as client:
            return sum(await asyncio.gather(*(call(client, which) for which in range(AT_A_TIME))))

    return asyncio.run(all_at_once())


@pytest.mark.parametrize("calls", [threads, tasks])
def test_each_intent_is_charged_once_whatever_is_killed(
    calls: Callable[[str, str, threading.Event], int],
    database_url: str,
    connection: psycopg.Connection,
    ample: IssuedKey,
) -> None:
    killed: list[int] = []
    with serving("uvloop", database_url) as server, killing(server, connection, killed) as done:
        made = calls(f"http://{server.address}", ample.api_key, done)
    committed = connection.execute(
        "select sum(committed)::int from sepu.usage where account_id = %s", [ample.account_id]
    ).fetchone()
    assert committed == (made,)
    assert len(killed) > KILLS // 3
    assert made >= AT_A_TIME * CALLS


@pytest.fixture
def ample(connection: psycopg.Connection) -> IssuedKey:
    """An account without effective limits."""
    units = {"color_match": 1_000_000, "color_search": 1_000_000}
    set_plan(connection, "ample", units, requests_per_minute=1_000_000)
    return accounts.create_account(connection, "ample")


Intent = tuple[str, RGB | str]
Answered = dict[str, MatchResponse | SearchResponse]


class Callers:
    """Callers that repeat each call until it has an answer, on clients whose deadlines are often too short."""

    def __init__(self, url: str, api_key: str, between: Between) -> None:
        self._options: dict[str, Any] = {"base_url": url, "api_key": api_key, "timeout": 1, "deadline": 3}
        self._between = between
        self.errors = Counter[str]()

    def in_threads(self, intents: list[Intent]) -> Answered:
        def settled(intent: Intent) -> Any:
            while True:
                before = self._between.forwarded[intent[0]]
                try:
                    return call(client, *intent)
                except Error as error:
                    self._check(error, intent[0], before)

        with Client(**self._options) as client, ThreadPoolExecutor(AT_A_TIME) as pool:
            return dict(zip([key for key, _ in intents], pool.map(settled, intents), strict=True))

    async def in_tasks(self, intents: list[Intent]) -> Answered:
        answered: Answered = {}

        async def settled(intent: Intent) -> Any:
            while True:
                before = self._between.forwarded[intent[0]]
                try:
                    return await call(client, *intent)
                except Error as error:
                    self._check(error, intent[0], before)

        async def some(left: Iterator[Intent]) -> None:
            for intent in left:
                answered[intent[0]] = await settled(intent)

        async with AsyncClient(**self._options) as client:
            left = iter(intents)
            await asyncio.gather(*(some(left) for _ in range(AT_A_TIME)))
        return answered

    def _check(self, error: Error, key: str, forwarded_before: int) -> None:
        self.errors[type(error).__name__] += 1
        assert error.idempotency_key == key
        assert error.may_be_charged or self._between.forwarded[key] == forwarded_before


def call(client: Any, key: str, given: RGB | str) -> Any:
    if isinstance(given, str):
        return client.search(given, idempotency_key=key)
    return client.match([given], idempotency_key=key)


@pytest.mark.parametrize("calls", [200, pytest.param(BETWEEN, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_no_call_is_lost_or_doubled_behind_a_hostile_server_in_between(
    calls: int, database_url: str, connection: psycopg.Connection, ample: IssuedKey
) -> None:
    words = ["hong", "桃红", "peach", "qing", "zzzz"]
    intents: list[Intent] = [
        (f"intent-{number:05}", words[number % 5] if number % 4 < 2 else RGB(number % 256, number // 256, 7))
        for number in range(calls)
    ]
    with serving("uvloop", database_url) as server:
        between = Between(server.address, seed=calls)
        with listening("plain", [between]) as peer, ThreadPoolExecutor(1) as other:
            callers = Callers(peer.url, ample.api_key, between)
            tasks = other.submit(lambda: asyncio.run(callers.in_tasks(intents[1::2])))
            answered = callers.in_threads(intents[::2]) | tasks.result()
        assert connection.execute(
            "select sum(committed)::int from sepu.usage where account_id = %s", [ample.account_id]
        ).fetchone() == (calls,)
        with Client(f"http://{server.address}", ample.api_key) as client:
            for key, given in intents:
                replay = call(client, key, given)
                assert (replay.replayed, replay.results) == (True, answered[key].results), key
                assert answered[key].idempotency_key == key
    disturbances = {"cut", "reset", "silence", "foreign", "pieces", "late"}
    assert between.played.keys() == {*CHANGES, *disturbances}
    assert {"InvalidAnswerError"} <= callers.errors.keys()
    assert max(between.forwarded.values()) > 1
