"""The fault harness: clients, faults, and the verdict when all are answered. `make soak` runs the long form."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote

import uvloop
from tests.faults.clients import Ask, Client, Holder, Memory, asks
from tests.faults.plans import change_plans, open_accounts
from tests.faults.verdict import Verdict, judge
from tests.harness.accounts import api_key
from tests.harness.flood import flooded
from tests.harness.injection import FaultInjector, Host, Injector, Pace
from tests.harness.proxy import Odds, proxied, socket_directory
from tests.harness.serving import ONE_COLOUR, Server, serving
from tests.harness.standby import make_synchronous, standby_of

from sepu.admin import accounts
from sepu.admin.events import list_events
from sepu.admin.keys import revoke_key
from sepu.database.opening import connect, database

SETTLING_SECONDS = 30  # every logical request is answered within this after the last fault
# Runs something between the service and the proxy: takes the proxy's connection string, yields the service's.
Between = Callable[[str], AbstractContextManager[str]]


@dataclass(frozen=True)
class Plan:
    """A run's settings. It ends when the requests are made and every kind of fault has happened, or time is up."""

    requests: int
    worker: str = "uvloop"
    workers: int = 2
    clients: int = 24
    seed: int = 1
    pace: Pace = field(default_factory=lambda: Pace(4, 8, 3, 20, 1))
    odds: Odds = field(default_factory=lambda: Odds(before=0.002, during=0.002, after=0.002))
    most_seconds: float = 3600
    crowd: int = 0  # additional accounts
    flood: int = 0  # connections that send made-up keys of the crowd's accounts
    revoked: int = 0  # connections that send one revoked key
    failover: bool = False  # to a synchronous standby, when a quarter of the requests are made


@dataclass(frozen=True)
class Report:
    """The results of a run."""

    plan: Plan
    requests: int
    tally: Counter[str]
    faults: dict[str, int]
    changes: int
    granted: int
    credited: int
    events: int
    floods: dict[str, Counter[str]]  # answers by status
    seconds: float
    verdict: Verdict

    def __str__(self) -> str:
        rows: dict[str, object] = {
            "worker": f"{self.plan.worker}, {self.plan.workers} processes, {self.plan.clients} clients",
            "seed": self.plan.seed,
            "requests": self.requests,
            **{name: self.tally[name] for name in ("attempts", "200", "replays", "replays under faults")},
            "changes of plans": self.changes,
            "grants": self.granted,
            "credits": self.credited,
            "quota events": self.events,
            **{name: count for name, count in sorted(self.tally.items()) if name[0] in "45"},
            **{name: self.tally[name] for name in ("time-outs", "broken connections")},
            **{
                f"flood of {name}": ", ".join(f"{count:,} × {status}" for status, count in answers.most_common())
                for name, answers in self.floods.items()
            },
            **self.faults,
            "seconds": round(self.seconds),
            "verdict": self.verdict,
        }
        return "\n".join(f"{name:28}{value}" for name, value in rows.items())


@dataclass(frozen=True)
class Stage:
    """A database that is served while it fails, and the accounts that use it."""

    url: str  # the operator's, past all proxies
    served: str
    holders: list[Holder]
    injector: Callable[[Server], Injector]
    options: tuple[str, ...] = ()  # of the server


@contextmanager
def staged(plan: Plan, between: Between = nullcontext) -> Iterator[Stage]:
    """Runs a Postgres, and a standby for a failover, each behind a proxy."""
    with ExitStack() as stack:
        state_dir = stack.enter_context(socket_directory())
        url = stack.enter_context(database(None, state_dir, create=True))
        databases = [(state_dir, url)]
        if plan.failover:
            databases.append(stack.enter_context(standby_of(state_dir)))
        with connect(url) as connection:
            holders = open_accounts(connection, plan.crowd)
            for _, standby_url in databases[1:]:
                with connect(standby_url) as standby:
                    make_synchronous(connection, standby)
        hosts = [
            Host(directory, past, stack.enter_context(proxied(directory / "socket", plan.seed)))
            for directory, past in databases
        ]
        served = stack.enter_context(between(_url(host.proxy.directory for host in hosts)))
        yield Stage(
            _url(directory / "socket" for directory, _ in databases),
            served,
            holders,
            lambda server: FaultInjector(server, hosts, plan.pace, plan.odds, plan.seed),
        )


def made_up_keys(crowd: int) -> Callable[[], bytes]:
    """Each request has a key that was never issued, and names an account of the crowd."""
    rng = random.Random()
    return lambda: _match(api_key.__wrapped__(token_hex(6), rng.randint(1, crowd)))


def one_key(key: str) -> Callable[[], bytes]:
    """All requests have this key."""
    return lambda: _match(key)


def _match(key: str) -> bytes:
    head = ("POST /v1/match HTTP/1.1", "Host: sepu", f"Authorization: Bearer {key}", f"Idempotency-Key: {token_hex(8)}")
    return b"%b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        "\r\n".join(head).encode(), len(ONE_COLOUR), ONE_COLOUR,
    )  # fmt: skip


def soak(plan: Plan, stage: Stage) -> Report:
    """Carries out a plan on a stage, with its own server."""
    started = time.monotonic()
    with connect(stage.url) as connection:
        revoked = accounts.create_account(connection, "ample")
        revoke_key(connection, revoked.key_id)
    cases = {
        "made up keys": (plan.flood, partial(made_up_keys, plan.crowd)),
        "revoked key": (plan.revoked, partial(one_key, revoked.api_key)),
    }
    floods: dict[str, Counter[str]] = {}
    with (
        serving(plan.worker, stage.served, workers=plan.workers, options=stage.options) as server,
        ExitStack() as flooding,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        for name, (connections, make) in cases.items():
            if connections:
                floods[name] = flooding.enter_context(flooded(server.address, connections, make))
        asked, memory, faults = runner.run(_run(plan, stage, server))
    seconds = time.monotonic() - started
    with connect(stage.url) as connection:
        verdict = judge(connection, memory)
        events = sum(1 for _ in list_events(connection))
    history = memory.history
    changes, granted, credited = (
        sum(map(len, each.values())) for each in (history.changes, history.grants, history.credits)
    )
    return Report(plan, len(asked), memory.tally, faults, changes, granted, credited, events, floods, seconds, verdict)


def _url(directories: Iterable[Path]) -> str:
    hosts = ",".join(quote(str(directory), safe="") for directory in directories)
    return f"postgresql://sepu@/postgres?host={hosts}"


async def _run(plan: Plan, stage: Stage, server: Server) -> tuple[list[Ask], Memory, dict[str, int]]:
    rng = random.Random(plan.seed)
    clients = Clients([server.address], plan.clients, rng)
    injector, holders = stage.injector(server), stage.holders

    def asking() -> Iterator[Ask]:
        end = time.monotonic() + plan.most_seconds
        for number, ask in enumerate(asks(holders, rng)):
            if (number >= plan.requests and all(injector.faults().values())) or time.monotonic() > end:
                return
            if number >= plan.requests // 4:
                injector.failover_due.set()
            asked.append(ask)
            yield ask

    asked: list[Ask] = []
    memory, ended = clients.memory, asyncio.Event()
    changing = asyncio.create_task(change_plans(stage.url, holders[plan.crowd :], memory.history, plan.seed, ended))
    injecting = asyncio.create_task(injector.inject())
    answering = asyncio.create_task(clients.settle(asking(), then=injecting.cancel))
    # The timeout is for stuck clients, which never take the last request.
    await asyncio.wait([injecting, answering], timeout=plan.most_seconds, return_when=asyncio.FIRST_COMPLETED)
    await _ended(injecting)
    memory.history.forgotten = injector.crashes
    ended.set()
    await changing
    await asyncio.wait([answering], timeout=SETTLING_SECONDS)
    await _ended(answering)
    memory.stuck = {ask.request for ask in asked} - memory.settled
    memory.tally["replays under faults"] = memory.tally["replays"]
    # After the faults, each request is sent again and gets the same answer.
    again = asyncio.create_task(clients.settle(ask for ask in asked if ask.request not in memory.stuck))
    if not (await asyncio.wait([again], timeout=SETTLING_SECONDS + len(asked) / 50))[0]:
        memory.wrong.append("when asked again, not every request was answered in time")
    await _ended(again)
    return asked, memory, injector.faults()


async def _ended(task: asyncio.Task[None]) -> None:
    """Ends a task, and raises its error."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


def asked_during(event: asyncio.Task[None], source: Iterable[Ask], asked: list[Ask], least: int = 0) -> Iterator[Ask]:
    """Takes from `source` until the event is over, at least `least`; appends each to `asked`."""
    for ask in source:
        if len(asked) >= least and event.done():
            return
        asked.append(ask)
        yield ask


class Clients:
    """Clients that share the requests."""

    def __init__(self, addresses: Sequence[str], clients: int, rng: random.Random) -> None:
        self.memory = Memory()
        turns = [[*addresses[n:], *addresses[:n]] for n in range(len(addresses))]  # so that all nodes are asked
        self._pairs = [
            (Client(turns[n % len(turns)], self.memory, rng), Client(turns[(n + 1) % len(turns)], self.memory, rng))
            for n in range(clients)
        ]

    async def settle(self, asked: Iterable[Ask], then: Callable[[], object] = lambda: None) -> None:
        """Returns when each request has its final answer. `then` is called when the last one has been taken."""
        remaining = iter(asked)

        async def work(client: Client, rival: Client) -> None:
            for ask in remaining:
                if ask.holder.raced:
                    await asyncio.gather(client.settle(ask), rival.settle(ask))
                    rival.close()
                else:
                    await client.settle(ask)
            then()

        try:
            async with asyncio.TaskGroup() as workers:
                for pair in self._pairs:
                    workers.create_task(work(*pair))
        finally:
            for client in (client for pair in self._pairs for client in pair):
                client.close()
