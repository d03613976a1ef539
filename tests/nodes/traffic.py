"""Clients that follow the interface's rules at several nodes, and the verdict on their answers."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psycopg
from tests.faults.clients import Ask, Memory, asks
from tests.faults.plans import change_plans, open_accounts
from tests.faults.soak import SETTLING_SECONDS, Clients, asked_during
from tests.faults.verdict import Verdict, judge
from tests.harness.serving import Server

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan


def on_plan(connection: psycopg.Connection, *, match_limit: int = 10**6, per_minute: int = 10**6) -> IssuedKey:
    set_plan(connection, "tested", {"color_match": match_limit, "color_search": 0}, requests_per_minute=per_minute)
    return accounts.create_account(connection, "tested")


def kill(server: Server) -> None:
    """Kills all processes of a node at the same time, as a power cut would."""
    for pid in (server.process.pid, *server.workers()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def crowded(
    connection: psycopg.Connection,
    addresses: Sequence[str],
    requests: int,
    meanwhile: Callable[[], None] = lambda: None,
    *,
    operated: str | None = None,
    judged: psycopg.Connection | None = None,
    again: bool = False,
) -> tuple[Verdict, Memory]:
    """Sixteen clients get `requests` requests answered at the nodes, and more while `meanwhile` runs in a thread.

    In an `operated` database plans change too. The verdict is valid only if nobody else charges. `judged` may be
    another database than the one with the accounts, which may have died and lost its unlogged tables.
    With `again`, each request is sent once more in the end.
    """
    rng = random.Random(1)
    holders = open_accounts(connection)
    asked: list[Ask] = []
    clients = Clients(addresses, 16, rng)

    history, ended = clients.memory.history, asyncio.Event()

    async def disturb() -> None:
        began = time.monotonic()
        await asyncio.to_thread(meanwhile)
        if judged is not None:
            history.forgotten.append((began, time.monotonic()))

    async def run() -> None:
        disturbing = asyncio.create_task(disturb())
        changing = [asyncio.create_task(change_plans(operated, holders, history, 1, ended))] if operated else []
        answering = asyncio.create_task(clients.settle(asked_during(disturbing, asks(holders, rng), asked, requests)))
        if again:
            await asyncio.wait({disturbing})  # it has limits of its own
        await asyncio.wait_for(answering, SETTLING_SECONDS if again else 100)
        if again:
            await clients.settle(asked)
        ended.set()
        await asyncio.gather(disturbing, *changing)

    asyncio.run(run())
    return judge(judged or connection, clients.memory), clients.memory
