"""Both clients while answers are lost, late or not the service's: every intent ends with its answer and one charge."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import psycopg
import pytest
from tests.integrate.faulty import (
    Fault,
    between,
    cut_after,
    cut_before,
    cut_within,
    passing,
    saying,
    slow_body,
    too_slow,
)
from tests.serving import Server

import sepu
from sepu.admin import accounts
from sepu.admin.plans import set_plan
from sepu.admin.usage import show_usage
from sepu_client import AsyncClient, Client, MatchResponse

FAULTS: list[Fault] = [
    *(cut_before, cut_after, cut_within, slow_body, too_slow),
    saying(502, b"<html>sorry</html>\n"),
    saying(503, b'{"error":"usage_commit_failed"}'),
]
Ask = Callable[[str, str, list[tuple[str, int]]], list[MatchResponse]]
INTENTS, AT_ONCE, TIMEOUT, DEADLINE = 60, 10, 1, 90


def spoiled(rng: Random) -> Iterator[Fault]:
    """Each fault in its turn, and between them nothing bad."""
    while True:
        for fault in FAULTS:
            yield from [fault, *[passing] * rng.randrange(4)]


def ask_from_threads(url: str, api_key: str, asked: list[tuple[str, int]]) -> list[MatchResponse]:
    with (
        Client(url, api_key, timeout=TIMEOUT, deadline=DEADLINE) as client,
        ThreadPoolExecutor(AT_ONCE) as threads,
    ):
        return list(threads.map(lambda one: client.match([(one[1], 0, 0)], idempotency_key=one[0]), asked))


def ask_from_tasks(url: str, api_key: str, asked: list[tuple[str, int]]) -> list[MatchResponse]:
    async def ask() -> list[MatchResponse]:
        room = asyncio.Semaphore(AT_ONCE)

        async def match(key: str, red: int) -> MatchResponse:
            async with room:
                return await client.match([(red, 0, 0)], idempotency_key=key)

        async with AsyncClient(url, api_key, timeout=TIMEOUT, deadline=DEADLINE) as client:
            return await asyncio.gather(*(match(key, red) for key, red in asked))

    return asyncio.run(ask())


@pytest.mark.slow
@pytest.mark.parametrize("ask", [ask_from_threads, ask_from_tasks])
def test_every_intent_ends_with_its_answer_and_one_charge(
    ask: Ask, uvloop: Server, connection: psycopg.Connection
) -> None:
    set_plan(connection, "ample", {"color_match": 10**6, "color_search": 0}, requests_per_minute=10**6)
    issued = accounts.create_account(connection, "ample")
    intents = [(f"intent-{number}", 4 * number) for number in range(INTENTS)]
    asked = sorted(intents + intents[::5])  # some are asked by two at once
    with between(uvloop.address, spoiled(Random(7))) as found:
        answers = ask(found.url, issued.api_key, asked)
    palette, records = sepu.load().palette(), sepu.load().records
    for (key, red), answer in zip(asked, answers, strict=True):
        [result] = answer.results
        [(nearest, _)] = palette.nearest(red, 0, 0, 1)
        assert (answer.idempotency_key, result.input) == (key, (red, 0, 0))
        assert result.matches[0].slug == records[nearest].slug
    assert len(found.attempts) > len(asked) + 2 * len(FAULTS)
    assert sum(answer.replayed for answer in answers) > len(intents[::5])  # charged, and told only by a later attempt
    charged = {meter.meter: meter.committed for meter in show_usage(connection, issued.account_id).usage}
    assert charged == {"color_match": INTENTS, "color_search": 0}
