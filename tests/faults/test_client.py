"""`sepu_client` while workers and the database's sessions are killed: one intent, one charge."""

import asyncio
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psycopg
import pytest
from tests.harness.serving import Server, serving

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu_client import RGB, AsyncClient, Client, MatchResponse

AT_A_TIME = 6
CALLS = 60  # at least, per thread or task
KILLS = 8


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
    set_plan(connection, "ample", {"color_match": 1_000_000, "color_search": 0}, requests_per_minute=1_000_000)
    return accounts.create_account(connection, "ample")
