"""The fake service answers like the real one, and lets a caller's test be short."""

import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from tests.charging import charge
from tests.client.conftest import url_of
from tests.harness.serving import Server

import sepu
from sepu.admin.keys import IssuedKey
from sepu_client import RGB, Answer, Client, Color, ColorName, Error, Match, Request, ServiceError, results
from sepu_client.testing import SCARLET, FakeService

COLORS = sepu.load()
PALETTE = COLORS.palette()


def nearest(rgb: RGB) -> Iterable[Match]:
    for place, delta_e in PALETTE.nearest(*rgb, 3):
        one = COLORS.records[place]
        name = ColorName(one.zh, one.en, one.pinyin)
        delta_e = round(delta_e, 4)
        yield Match(one.slug, name, one.hex, one.reliability, delta_e=delta_e, similarity=round(1 - delta_e / 100, 4))


def search(q: str) -> Iterable[Color]:
    for one in COLORS.search(q):
        yield Color(one.slug, ColorName(one.zh, one.en, one.pinyin), one.hex, one.reliability)


def calls(client: Client) -> Iterable[Callable[[], object]]:
    yield lambda: client.match(["#C83C23", (12.5, 0, 255)], top=3, idempotency_key="the-first")
    yield lambda: client.match(["#000"], idempotency_key="the-first")
    yield lambda: client.match(["#000"] * 5)
    yield lambda: client.match(["#000"] * 4)
    yield lambda: client.match(["#000"] * 3)
    yield lambda: client.match(["#C83C23", (12.5, 0, 255)], top=3, idempotency_key="the-first")
    yield lambda: client.search("hong", limit=2, idempotency_key="a-search")
    yield lambda: client.search("tao", limit=2, idempotency_key="a-search")
    yield lambda: client.search("nothing at all", limit=1, idempotency_key="the-first")
    yield lambda: client.usage()
    yield lambda: client.library()


def transcript(client_of: Callable[[Callable[..., Answer]], Client]) -> list[Any]:
    """What comes back for each call: status, names and values of headers of the contract, and body."""
    said: list[Any] = []

    def record(request: Request, network: Callable[[Request], Answer]) -> Answer:
        answer = network(request)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        named = {
            name: "" if name == "x-request-id" else value
            for name, value in headers.items()
            if name.startswith(("x-", "retry-", "idempotency-", "content-type"))
        }
        said.append((answer.status, named, json.loads(answer.body)))
        return answer

    with client_of(record) as client:
        for call in calls(client):
            with suppress(Error):
                call()
    return said


# Of one account and release.
OWN = [
    "requestId", "accountId", "version", "sourceProjectionSha256", "rightsManifestSha256", "librarySha256",
    "valueMismatchCount",
]  # fmt: skip


def test_it_answers_as_the_service_does(connection: psycopg.Connection, uvloop: Server, issued: IssuedKey) -> None:
    charge(connection, issued.api_key, "most-units", 1990, datetime.now(UTC))
    real = transcript(lambda send: Client(url_of(uvloop), issued.api_key, send=send))
    fake = FakeService(match=nearest, search=search)
    fake.charged["color_match"] = 1990
    faked = transcript(
        lambda send: Client(
            "http://a", "a-key", send=lambda request, _: send(request, lambda one: fake.send(one, None))
        )
    )
    assert [status for status, _, _ in real] == [200, 409, 200, 429, 200, 200, 200, 409, 409, 200, 200]
    for one in (*real, *faked):
        for name in OWN:
            assert one[2].pop(name, "") is not None
    assert faked == real
    assert fake.charged == {"color_match": 2000, "color_search": 1}
    assert len(fake.requests) == len(real)


def test_refused_and_lost_answers() -> None:
    fake = FakeService()
    fake.refuse(503, "usage_commit_failed")
    fake.lose_answers()
    with fake.client(deadline=60) as client:
        answer = client.match(["#C83C23"])
        assert (answer.replayed, answer.results[0].matches) == (True, (SCARLET,))
        assert len(fake.requests) == 3
        fake.refuse(500, "internal_error", times=2, retry_after=30)
        for _ in range(2):
            with pytest.raises(ServiceError) as raised:
                client.with_options(deadline=1).search("tao hong")
            assert raised.value.retry_after == 30
        assert client.search("tao hong").results == (results.Color("fei-hong", SCARLET.name, "#C83C23", "verified"),)
    with pytest.raises(Error, match="the client is closed"):
        client.usage()
    assert fake.charged == {"color_match": 1, "color_search": 1}


def test_a_client_for_asyncio() -> None:
    async def match() -> str:
        fake = FakeService(match=lambda rgb: [replace(SCARLET, delta_e=rgb.r)])
        async with fake.async_client() as client:
            found = await client.match([(5, 0, 0)])
        with pytest.raises(Error, match="the client is closed"):
            await client.usage()
        return str(found.results[0].matches[0].delta_e)

    assert asyncio.run(match()) == "5.0"


def test_a_match_names_its_numbers() -> None:
    """Positional ones would refuse a later member of Color that has a default."""
    with pytest.raises(TypeError, match="Extra positional"):
        Match("fei-hong", SCARLET.name, "#C83C23", "verified", 0.0, 1.0)  # type: ignore[call-arg]
