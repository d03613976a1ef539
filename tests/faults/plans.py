"""An operator who changes what accounts are allowed, beside their requests."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psycopg
from tests.faults.clients import Holder
from tests.faults.history import Change, History, Terms

from sepu.cli.database import DatabaseError, connect
from sepu.metering import accounts

MUCH = 10**9
PAUSE_SECONDS = 0.5  # between changes, in the mean


def open_accounts(connection: psycopg.Connection) -> list[Holder]:
    """Several accounts.

    A hot one, one whose requests are raced, one with a small quota, a careless and a hasty one, one that is moved
    between plans, and one whose plan varies.
    """

    def holder(plan: str, weight: int, *, raced: bool = False, careless: bool = False, changes: str = "") -> Holder:
        issued = accounts.create_account(connection, plan)
        return Holder(issued.account_id, issued.api_key, weight, raced, careless, changes)

    for plan, match_limit, search_limit, requests_per_minute in (
        ("ample", MUCH, MUCH, MUCH),
        ("scarce", 30, 3, MUCH),
        ("slow", MUCH, MUCH, 10),
        ("tight", 30, 10, 20),
        ("varied", MUCH, MUCH, MUCH),
    ):
        accounts.set_plan(
            connection,
            plan,
            match_limit=match_limit,
            search_limit=search_limit,
            requests_per_minute=requests_per_minute,
        )
    return [
        holder("ample", 50),
        holder("ample", 5, raced=True),
        holder("ample", 5, raced=True, careless=True),
        holder("slow", 5),
        holder("scarce", 10),
        holder("ample", 5, changes="moves"),
        holder("varied", 5, changes="varies"),
        *(holder("ample", 7) for _ in range(4)),
    ]


async def change_plans(url: str, holders: Sequence[Holder], history: History, seed: int, ended: asyncio.Event) -> None:
    """Goes on until it is ended, and the last change is made."""
    rng = random.Random(seed)
    changing = [holder for holder in holders if holder.changes]
    while not ended.is_set():
        holder = rng.choice(changing)
        act = _move(holder, rng) if holder.changes == "moves" else _vary(rng)
        history.changes[holder.account_id].append(await asyncio.to_thread(_change, url, holder, act))
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), rng.expovariate(1 / PAUSE_SECONDS))


def _move(holder: Holder, rng: random.Random) -> Callable[[psycopg.Connection], None]:
    plan = rng.choice(("ample", "tight"))
    return lambda connection: accounts.move_account(connection, holder.account_id, plan)


def _vary(rng: random.Random) -> Callable[[psycopg.Connection], None]:
    match_limit, search_limit = rng.choice((0, 50, MUCH)), rng.choice((0, 20, MUCH))
    per_minute = rng.choice((10, 30, MUCH))
    return lambda connection: accounts.set_plan(
        connection, "varied", match_limit=match_limit, search_limit=search_limit, requests_per_minute=per_minute
    )


def _change(url: str, holder: Holder, act: Callable[[psycopg.Connection], None]) -> Change:
    """Repeats it until the database has taken it; it may have done so before."""
    before, start = None, 0.0
    while True:
        try:
            with connect(url) as connection:
                if before is None:
                    account = accounts.show_account(connection, holder.account_id)
                    before, start = Terms(account.limits, account.requests_per_minute), time.monotonic()
                act(connection)
            return Change(start, time.monotonic(), before)
        except (DatabaseError, psycopg.Error):
            time.sleep(0.1)
