"""Both clients while workers die, Postgres restarts and connections break on both sides of the service.

Every intent ends with the right answer and one charge.
"""

import asyncio
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.client.cutting_proxy import CuttingProxy
from tests.faults.injection import FaultInjector, Host, Pace
from tests.faults.proxy import Odds, Proxy, proxied, socket_directory
from tests.faults.soak import CUTS, FAULTS
from tests.serving import Server, serving

import sepu
from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu.admin.usage import show_usage
from sepu.cli.database import connect, database
from sepu_client import AsyncClient, Client, MatchResponse, QuotaExceededError, SearchResponse, new_idempotency_key

pytestmark = pytest.mark.slow

PACE = Pace(worker_kill=2, back_end_kill=3, back_end_terminate=2, restart=5, cut=0.7)
ODDS = Odds(before=0.03, during=0.03, after=0.03)
INTENTS = 150
ASKERS = 10
MOST_SECONDS = 40  # for new intents, on a slow machine
SCARCE = 20
CUT_OFF = ("request cut", "request stalled", "response cut", "response stalled")


@dataclass
class Intent:
    """What is asked, and what it came to."""

    holder: IssuedKey
    rgb: tuple[float, float, float] | None  # None stands for a search
    own_key: str | None
    raced: bool
    answers: list[MatchResponse | SearchResponse] = field(default_factory=list)
    refused: bool = False

    def ask(self, client: Any, key: str | None = None) -> Any:
        """Returns what the client returns: an answer, or what gives it."""
        key = key or self.own_key
        if self.rgb is None:
            return client.search("tao hong", idempotency_key=key)
        return client.match([self.rgb, self.rgb], top=2, idempotency_key=key)

    async def settle(self, answer: Awaitable[MatchResponse | SearchResponse]) -> None:
        try:
            self.answers.append(await answer)
        except QuotaExceededError:
            self.refused = True


@dataclass
class Scene:
    """Who asks, and what was asked."""

    ample: IssuedKey
    scarce: IssuedKey
    asked: list[Intent] = field(default_factory=list)

    def intents(self, rng: random.Random) -> Iterator[Intent]:
        for number in itertools.count():
            rgb = (rng.randrange(256), rng.uniform(0, 255), rng.randrange(256)) if number % 4 else None
            raced = number % 10 == 3
            own = new_idempotency_key() if raced or number % 2 else None
            yield Intent(self.scarce if number % 6 == 1 else self.ample, rgb, own, raced)


async def play(scene: Scene, state_dir: Path, proxy: Proxy, server: Server) -> Counter[str]:
    cutting = CuttingProxy(server.address, 7)
    injector = FaultInjector(server, [Host(state_dir, "", proxy)], PACE, 7)

    def faults() -> Counter[str]:
        made = Counter({CUTS[cut]: count for cut, count in proxy.cuts.items()})
        return injector.done + made + cutting.cuts

    def intents() -> Iterator[Intent]:
        end = time.monotonic() + MOST_SECONDS
        for intent in scene.intents(random.Random(7)):
            enough = len(scene.asked) >= INTENTS and all(faults()[name] for name in (*FAULTS, *CUT_OFF))
            if enough or time.monotonic() > end:
                injecting.cancel()
                return
            scene.asked.append(intent)
            yield intent

    async with cutting.listening():
        proxy.odds = ODDS
        injecting = asyncio.create_task(injector.inject())
        try:
            await ask_all(scene, cutting.url, intents())
        finally:
            injecting.cancel()
            await asyncio.wait([injecting])
            proxy.odds = Odds()
    return faults()


async def ask_all(scene: Scene, url: str, intents: Iterator[Intent]) -> None:
    # Not asyncio's own threads: there are few, and Postgres is started again in one.
    with ThreadPoolExecutor(ASKERS) as threads:
        async with AsyncExitStack() as stack:
            plain, busy = {}, {}
            for one in (scene.ample, scene.scarce):
                plain[one] = stack.enter_context(Client(url, one.api_key, timeout=2, deadline=90))
                busy[one] = await stack.enter_async_context(AsyncClient(url, one.api_key, timeout=2, deadline=90))

            async def work(number: int) -> None:
                loop = asyncio.get_running_loop()
                for intent in intents:  # one iterator for all: each takes the next
                    async with asyncio.TaskGroup() as asking:
                        if number % 2 or intent.raced:
                            answer = loop.run_in_executor(threads, intent.ask, plain[intent.holder])
                            asking.create_task(intent.settle(answer))
                        if not number % 2 or intent.raced:
                            asking.create_task(intent.settle(intent.ask(busy[intent.holder])))

            async with asyncio.TaskGroup() as workers:
                for number in range(ASKERS):
                    workers.create_task(work(number))


def judge(scene: Scene, url: str, connection: psycopg.Connection) -> None:
    """When the dust has settled: what was answered is stored, charged once, and answered so for ever."""
    colours = sepu.load()
    palette, records = colours.palette(), colours.records
    charged: Counter[tuple[str, str]] = Counter()
    for holder in (scene.ample, scene.scarce):
        with Client(url, holder.api_key) as client:
            for intent in [intent for intent in scene.asked if intent.holder is holder]:
                if not intent.answers:
                    assert intent.refused
                    assert holder is scene.scarce
                    continue
                intent.answers.append(intent.ask(client, intent.answers[0].idempotency_key))
                assert intent.answers[-1].replayed
                charged[holder.account_id, intent.answers[0].usage.meter] += 2 if intent.rgb else 1
    assert charged == Counter(
        {
            (holder.account_id, meter.meter): meter.committed
            for holder in (scene.ample, scene.scarce)
            for meter in show_usage(connection, holder.account_id).usage
        }
    )
    assert audit(connection).differences == ()
    for intent in scene.asked:
        assert len({answer.idempotency_key for answer in intent.answers} | {intent.own_key} - {None}) <= 1
        for answer in intent.answers:
            if isinstance(answer, SearchResponse):
                assert [color.slug for color in answer.results] == ["tao-hong"]
                continue
            nearest = palette.nearest(*intent.rgb, 2) if intent.rgb else []
            wanted = [(records[place].slug, round(delta_e, 4)) for place, delta_e in nearest]
            assert [result.input for result in answer.results] == [intent.rgb] * 2
            for result in answer.results:
                assert [(match.slug, match.delta_e) for match in result.matches] == wanted


@pytest.mark.timeout(300)
def test_every_intent_ends_with_its_answer_and_one_charge() -> None:
    with ExitStack() as stack:
        state_dir = stack.enter_context(socket_directory())
        url = stack.enter_context(database(None, state_dir, create=True))
        with connect(url) as connection:
            much = 10**9
            set_plan(connection, "ample", {"color_match": much, "color_search": much}, requests_per_minute=much)
            set_plan(connection, "scarce", {"color_match": SCARCE, "color_search": 5}, requests_per_minute=much)
            scene = Scene(accounts.create_account(connection, "ample"), accounts.create_account(connection, "scarce"))
        with proxied(state_dir / "socket", 7) as proxy, serving("uvloop", proxy.url) as server:
            faults = asyncio.run(play(scene, state_dir, proxy, server))
            with connect(url) as connection:
                judge(scene, f"http://{server.address}", connection)
    first = [intent.answers[0].replayed for intent in scene.asked if intent.answers and not intent.raced]
    refused = sum(intent.refused for intent in scene.asked)
    sys.stdout.write(f"{len(scene.asked)} intents, {refused} refused, {sum(first)} replayed; {dict(faults)}\n")
    assert [name for name in (*FAULTS, *CUT_OFF) if not faults[name]] == []
    assert sum(first) > 0  # charged, and told only by a later attempt
    assert refused > 0
