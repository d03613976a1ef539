"""Both clients while workers die, Postgres restarts and connections break on both sides of the service.

Every intent ends with the right answer and one charge.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path
from random import Random

import psycopg
import pytest
from tests.client.blocking import CLIENTS, AnyClient
from tests.faults.injection import FaultInjector, Host, Pace
from tests.faults.proxy import Odds, Proxy, proxied, socket_directory
from tests.faults.soak import CUTS, FAULTS
from tests.integrate.faulty import Exchange, Fault, between, cut_after, cut_before, cut_within, passing, slow_body
from tests.serving import Server, serving

import sepu
from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu.admin.usage import show_usage
from sepu.cli.database import connect, database
from sepu_client import MatchResponse, QuotaExceededError, SearchResponse, new_idempotency_key

PACE = Pace(worker_kill=2, back_end_kill=3, back_end_terminate=2, restart=5, cut=0.7)
ODDS = Odds(before=0.03, during=0.03, after=0.03)
INTENTS = 150
ASKERS = 10
MOST_SECONDS = 40  # for new intents, on a slow machine
BETWEEN: list[Fault] = [cut_before, cut_after, cut_within, slow_body]


@dataclass
class Intent:
    """What is asked, and what it came to."""

    holder: IssuedKey
    rgb: tuple[float, float, float] | None  # None stands for a search
    own_key: str | None
    raced: bool
    answers: list[MatchResponse | SearchResponse] = field(default_factory=list)
    refused: bool = False

    def ask(self, client: AnyClient, key: str | None = None) -> None:
        key = key or self.own_key
        try:
            if self.rgb is None:
                self.answers.append(client.search("tao hong", idempotency_key=key))
            else:
                self.answers.append(client.match([self.rgb, self.rgb], top=2, idempotency_key=key))
        except QuotaExceededError:
            self.refused = True


def intents(rng: Random, ample: IssuedKey, scarce: IssuedKey) -> Iterator[Intent]:
    """Those that are raced come twice, for two clients."""
    for number in count():
        rgb = (rng.randrange(256), rng.uniform(0, 255), rng.randrange(256)) if number % 4 else None
        raced = number % 10 == 3
        own = new_idempotency_key() if raced or number % 2 else None
        yield from repeat(Intent(scarce if number % 6 == 1 else ample, rgb, own, raced), 2 if raced else 1)


def spoiling(rng: Random, done: Counter[str]) -> Iterator[Fault]:
    """One request of four meets a fault between the client and the service."""

    def counted(exchange: Exchange) -> None:
        fault = rng.choice(BETWEEN)
        done[fault.__name__] += 1
        fault(exchange)

    while True:
        yield rng.choice([passing, passing, passing, counted])


def judge(asked: list[Intent], scarce: IssuedKey, url: str, connection: psycopg.Connection) -> None:
    """When the dust has settled: what was answered is stored, charged once, and answered so for ever."""
    colours = sepu.load()
    palette, records = colours.palette(), colours.records
    charged: Counter[tuple[str, str]] = Counter()
    for intent in asked:
        if not intent.answers:
            assert intent.refused
            assert intent.holder is scarce
            continue
        with CLIENTS["sync"](url, intent.holder.api_key) as client:
            intent.ask(client, intent.answers[0].idempotency_key)
        assert intent.answers[-1].replayed
        charged[intent.holder.account_id, intent.answers[0].usage.meter] += 2 if intent.rgb else 1
        assert len({answer.idempotency_key for answer in intent.answers} | {intent.own_key} - {None}) == 1
        for answer in intent.answers:
            if isinstance(answer, SearchResponse):
                assert [color.slug for color in answer.results] == ["tao-hong"]
                continue
            nearest = palette.nearest(*intent.rgb, 2) if intent.rgb else []
            wanted = [(records[place].slug, round(delta_e, 4)) for place, delta_e in nearest]
            assert [result.input for result in answer.results] == [intent.rgb] * 2
            for result in answer.results:
                assert [(match.slug, match.delta_e) for match in result.matches] == wanted
    assert charged == Counter(
        {
            (account_id, meter.meter): meter.committed
            for account_id in {intent.holder.account_id for intent in asked}
            for meter in show_usage(connection, account_id).usage
        }
    )
    assert audit(connection).differences == ()


async def play(state_dir: Path, proxy: Proxy, server: Server, ample: IssuedKey, scarce: IssuedKey) -> list[Intent]:
    """Asks until every kind of fault has happened, from threads, each with one of the clients."""
    asked: list[Intent] = []
    spoilt: Counter[str] = Counter()
    injector = FaultInjector(server, [Host(state_dir, "", proxy)], PACE, 7)
    waiting, lock = intents(Random(7), ample, scarce), threading.Lock()
    end = time.monotonic() + MOST_SECONDS

    def missing() -> list[str]:
        cuts = Counter({CUTS[cut]: number for cut, number in proxy.cuts.items()})
        made = injector.done + cuts + spoilt
        return [name for name in (*FAULTS, *(fault.__name__ for fault in BETWEEN)) if not made[name]]

    def take() -> Intent | None:
        with lock:
            if time.monotonic() > end or (len(asked) >= INTENTS and not missing()):
                return None
            asked.append(next(waiting))
            return asked[-1]

    def work(url: str, kind: str) -> None:
        with ExitStack() as stack:
            clients = {
                holder: stack.enter_context(CLIENTS[kind](url, holder.api_key, timeout=1, deadline=90))
                for holder in (ample, scarce)
            }
            for intent in iter(take, None):
                intent.ask(clients[intent.holder])

    # Not asyncio's own threads: there are few, and Postgres is started again in one.
    with between(server.address, spoiling(Random(7), spoilt)) as found, ThreadPoolExecutor(ASKERS) as threads:
        proxy.odds = ODDS
        injecting = asyncio.create_task(injector.inject())
        loop = asyncio.get_running_loop()
        try:
            kinds = list(CLIENTS) * (ASKERS // 2)
            await asyncio.gather(*(loop.run_in_executor(threads, work, found.url, kind) for kind in kinds))
        finally:
            injecting.cancel()
            await asyncio.wait([injecting])
            proxy.odds = Odds()
    assert missing() == []
    return list({id(intent): intent for intent in asked}.values())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_intent_ends_with_its_answer_and_one_charge() -> None:
    with ExitStack() as stack:
        state_dir = stack.enter_context(socket_directory())
        url = stack.enter_context(database(None, state_dir, create=True))
        much = 10**9
        with connect(url) as connection:
            set_plan(connection, "ample", {"color_match": much, "color_search": much}, requests_per_minute=much)
            set_plan(connection, "scarce", {"color_match": 20, "color_search": 5}, requests_per_minute=much)
            ample, scarce = (accounts.create_account(connection, plan) for plan in ("ample", "scarce"))
        proxy = stack.enter_context(proxied(state_dir / "socket", 7))
        server = stack.enter_context(serving("uvloop", proxy.url))
        asked = asyncio.run(play(state_dir, proxy, server, ample, scarce))
        judge(asked, scarce, f"http://{server.address}", stack.enter_context(connect(url)))
    # Some were charged, and told only by a later attempt.
    assert any(intent.answers[0].replayed for intent in asked if intent.answers and not intent.raced)
    assert any(intent.refused for intent in asked)
