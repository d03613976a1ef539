"""Both clients while workers die, Postgres restarts and connections break on both sides of the service.

Every intent ends with the right answer and one charge.
"""

import asyncio
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from tests.client.cutting_proxy import CuttingProxy
from tests.faults.history import UNANSWERED, History, Outcome, Request, Told
from tests.faults.injection import FaultInjector, Host, Pace
from tests.faults.proxy import Odds, Proxy, proxied, socket_directory
from tests.faults.soak import CUTS, FAULTS
from tests.faults.verdict import contradictory
from tests.serving import Server, serving

import sepu
from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.cli.database import connect, database
from sepu_client import (
    AsyncClient,
    Client,
    MatchResponse,
    QuotaExceededError,
    SearchResponse,
    UsageSnapshot,
    new_idempotency_key,
)

pytestmark = pytest.mark.slow

PACE = Pace(worker_kill=2, back_end_kill=3, back_end_terminate=2, restart=5, cut=0.7)
ODDS = Odds(before=0.03, during=0.03, after=0.03)
INTENTS = 200
ASKERS = 10
MOST_SECONDS = 40  # for new intents, on a slow machine
SCARCE = 20
CUT_OFF = ("request cut", "request stalled", "response cut", "response stalled")

Answer = MatchResponse | SearchResponse


class Call(NamedTuple):
    """One call of the library, which may make many attempts, and how it ended."""

    request: Request
    start: float
    end: float
    told: Told


@dataclass
class Intent:
    """What is asked, and what it came to."""

    holder: accounts.IssuedKey
    rgb: tuple[float, float, float] | None  # None stands for a search
    own_key: str | None
    raced: bool
    answers: list[Answer] = field(default_factory=list)
    refused: bool = False
    calls: list[Call] = field(default_factory=list)

    @property
    def charge(self) -> tuple[str, int]:
        return ("color_search", 1) if self.rgb is None else ("color_match", 2)

    def answered(self, start: float, answer: Answer) -> None:
        self.answers.append(answer)
        outcome = Outcome.REPLAYED if answer.replayed else Outcome.CHARGED
        self._ended(start, outcome, answer.idempotency_key, answer.usage)

    def refuse(self, start: float, error: QuotaExceededError) -> None:
        self.refused = True
        self._ended(start, Outcome.QUOTA_EXCEEDED, error.idempotency_key, error.usage)

    def _ended(self, start: float, outcome: Outcome, key: str | None, usage: UsageSnapshot | None) -> None:
        assert key
        assert usage
        told = Told(outcome, usage.meter, usage.period, usage.limit, usage.committed, usage.reserved, usage.remaining)
        self.calls.append(Call(Request(self.holder.account_id, key, *self.charge, 0), start, time.monotonic(), told))


@dataclass
class Scene:
    """Who asks whom."""

    ample: accounts.IssuedKey
    scarce: accounts.IssuedKey
    url: str = ""
    asked: list[Intent] = field(default_factory=list)

    def intents(self, rng: random.Random) -> Iterator[Intent]:
        for number in itertools.count():
            rgb = (rng.randrange(256), rng.uniform(0, 255), rng.randrange(256)) if number % 4 else None
            holder = self.scarce if number % 6 == 1 else self.ample
            raced = number % 10 == 3
            own = new_idempotency_key() if raced or number % 2 else None
            yield Intent(holder, rgb, own, raced)


def sync_work(client: Client, intent: Intent) -> None:
    start = time.monotonic()
    try:
        if intent.rgb is None:
            intent.answered(start, client.search("tao hong", idempotency_key=intent.own_key))
        else:
            intent.answered(start, client.match([intent.rgb, intent.rgb], top=2, idempotency_key=intent.own_key))
    except QuotaExceededError as error:
        intent.refuse(start, error)


async def async_work(client: AsyncClient, intent: Intent) -> None:
    start = time.monotonic()
    try:
        if intent.rgb is None:
            intent.answered(start, await client.search("tao hong", idempotency_key=intent.own_key))
        else:
            intent.answered(start, await client.match([intent.rgb, intent.rgb], top=2, idempotency_key=intent.own_key))
    except QuotaExceededError as error:
        intent.refuse(start, error)


async def play(scene: Scene, state_dir: Path, proxy: Proxy, server: Server) -> Counter[str]:
    rng = random.Random(7)
    cutting = CuttingProxy(server.address, 7)
    injector = FaultInjector(server, [Host(state_dir, "", proxy)], PACE, 7)

    def faults() -> Counter[str]:
        made = Counter({CUTS[cut]: count for cut, count in proxy.cuts.items()})
        return injector.done + made + cutting.cuts

    def intents() -> Iterator[Intent]:
        end = time.monotonic() + MOST_SECONDS
        for intent in scene.intents(rng):
            enough = len(scene.asked) >= INTENTS and all(faults()[name] for name in (*FAULTS, *CUT_OFF))
            if enough or time.monotonic() > end:
                injecting.cancel()
                return
            scene.asked.append(intent)
            yield intent

    async with cutting.listening():
        scene.url = f"http://{server.address}"
        proxy.odds = ODDS
        injecting = asyncio.create_task(injector.inject())
        try:
            await ask_all(scene, cutting.url, intents())
        finally:
            injecting.cancel()
            await asyncio.wait([injecting])
            proxy.odds = Odds()
    await asyncio.to_thread(ask_again, scene)
    return faults()


async def ask_all(scene: Scene, url: str, intents: Iterator[Intent]) -> None:
    holders = (scene.ample, scene.scarce)
    plain = {one.account_id: Client(url, one.api_key, timeout=2, deadline=90) for one in holders}
    busy = {one.account_id: AsyncClient(url, one.api_key, timeout=2, deadline=90) for one in holders}

    # Not asyncio's own threads: there are few, and Postgres is started again in one.
    threads = ThreadPoolExecutor(ASKERS)

    async def in_thread(intent: Intent) -> None:
        client = plain[intent.holder.account_id]
        await asyncio.get_running_loop().run_in_executor(threads, sync_work, client, intent)

    async def work(number: int) -> None:
        for intent in intents:  # one iterator for all: each takes the next
            async with asyncio.TaskGroup() as asking:
                if number % 2 or intent.raced:
                    asking.create_task(in_thread(intent))
                if not number % 2 or intent.raced:
                    asking.create_task(async_work(busy[intent.holder.account_id], intent))

    try:
        async with asyncio.TaskGroup() as workers:
            for number in range(ASKERS):
                workers.create_task(work(number))
    finally:
        threads.shutdown()
        for client in plain.values():
            client.close()
        for each in busy.values():
            await each.aclose()


def ask_again(scene: Scene) -> None:
    """When the dust has settled: what was answered is stored, and is answered so for ever."""
    for holder in (scene.ample, scene.scarce):
        with Client(scene.url, holder.api_key) as client:
            for intent in [intent for intent in scene.asked if intent.holder is holder and intent.answers]:
                again = Intent(holder, intent.rgb, intent.answers[0].idempotency_key, raced=False)
                sync_work(client, again)
                assert again.answers[0].replayed
                intent.answers += again.answers
                intent.calls += again.calls


def judge(scene: Scene, connection: psycopg.Connection) -> None:
    history = History()
    for request, start, end, told in (call for intent in scene.asked for call in intent.calls):
        history.add(request, start, end, UNANSWERED)  # the attempts before the last, of which any may have charged
        history.add(request, start, end, told)
    assert contradictory(connection, history) == []
    assert audit(connection).differences == ()
    colours = sepu.load()
    palette, records = colours.palette(), colours.records
    for intent in scene.asked:
        if not intent.answers:
            assert intent.refused
            assert intent.holder is scene.scarce
            continue
        (key,) = {answer.idempotency_key for answer in intent.answers}
        assert intent.own_key in {None, key}
        for answer in intent.answers:
            if isinstance(answer, SearchResponse):
                assert [color.slug for color in answer.results] == ["tao-hong"]
            else:
                nearest = palette.nearest(*intent.rgb, 2) if intent.rgb else []
                wanted = [(records[place].slug, round(delta_e, 4)) for place, delta_e in nearest]
                assert len(answer.results) == 2
                for result in answer.results:
                    assert result.input == intent.rgb
                    assert [(match.slug, match.delta_e) for match in result.matches] == wanted


@pytest.mark.timeout(300)
def test_every_intent_ends_with_its_answer_and_one_charge() -> None:
    with ExitStack() as stack:
        state_dir = stack.enter_context(socket_directory())
        url = stack.enter_context(database(None, state_dir, create=True))
        with connect(url) as connection:
            much = 10**9
            accounts.set_plan(connection, "ample", match_limit=much, search_limit=much, requests_per_minute=much)
            accounts.set_plan(connection, "scarce", match_limit=SCARCE, search_limit=5, requests_per_minute=much)
            scene = Scene(accounts.create_account(connection, "ample"), accounts.create_account(connection, "scarce"))
        with proxied(state_dir / "socket", 7) as proxy, serving("uvloop", proxy.url) as server:
            faults = asyncio.run(play(scene, state_dir, proxy, server))
        with connect(url) as connection:
            judge(scene, connection)
    first = [intent.answers[0].replayed for intent in scene.asked if intent.answers and not intent.raced]
    refused = sum(intent.refused for intent in scene.asked)
    sys.stdout.write(f"{len(scene.asked)} intents, {refused} refused, {sum(first)} replayed; {dict(faults)}\n")
    assert [name for name in (*FAULTS, *CUT_OFF) if not faults[name]] == []
    assert sum(first) > 0  # charged, and told only by a later attempt
    assert refused > 0
