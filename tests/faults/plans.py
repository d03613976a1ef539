"""An operator who changes plans, grants and credits while clients send requests."""

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import psycopg
from tests.faults.clients import Holder
from tests.faults.history import Adjustment, Change, Counter, History, Terms
from tests.harness.accounts import account_id, api_key, copy_accounts, key_secret

from sepu.admin import accounts
from sepu.admin.grants_and_credits import BusyError, Kind, adjust_usage
from sepu.admin.plans import set_plan, show_plan
from sepu.admin.usage import read_today
from sepu.database.opening import DatabaseError, connect
from sepu.errors import SepuError
from sepu.metering.meters import METERS

MUCH = 10**9
CROWD = "crowd"  # the seed of the crowd's keys
PAUSE_SECONDS = 0.25  # mean time between changes


def open_accounts(connection: psycopg.Connection, crowd: int = 0) -> list[Holder]:
    """Opens accounts for every case.

    A hot one, one whose requests are raced, one with a small quota, a careless and a hasty one, one that is moved
    between plans, one whose plan varies, and one that crosses a threshold at each percent.
    A crowd of more makes half of the requests.
    """

    if crowd:
        connection.execute("update sepu.key_secret set secret = %s", [key_secret(CROWD)])

    def holder(plan: str, weight: int, *, raced: bool = False, careless: bool = False, changes: str = "") -> Holder:
        issued = accounts.create_account(connection, plan)
        return Holder(issued.account_id, issued.api_key, weight, raced, careless, changes)

    for plan, match, search, requests_per_minute in (
        ("ample", MUCH, MUCH, MUCH),
        ("scarce", 30, 3, MUCH),
        ("slow", MUCH, MUCH, 10),
        ("tight", 30, 10, 20),
        ("varied", MUCH, MUCH, MUCH),
        ("watched", 5000, 1000, MUCH),
    ):
        limits = {"color_match": match, "color_search": search}
        set_plan(connection, plan, limits, requests_per_minute=requests_per_minute)
    set_plan(connection, "watched", thresholds=range(1, 101))
    copy_accounts(connection, CROWD, "ample", range(1, crowd + 1))
    return [
        *(Holder(account_id(number), api_key(CROWD, number), 120 / crowd) for number in range(1, crowd + 1)),
        holder("ample", 50),
        holder("ample", 5, raced=True),
        holder("ample", 5, raced=True, careless=True),
        holder("slow", 5),
        holder("scarce", 10),
        holder("ample", 5, changes="moves"),
        holder("varied", 5, changes="varies"),
        holder("watched", 7),
        *(holder("ample", 7) for _ in range(3)),
    ]


async def change_plans(url: str, holders: Sequence[Holder], history: History, seed: int, ended: asyncio.Event) -> None:
    """Continues until the event is set and the last change is made."""
    rng = random.Random(seed)
    changing = [holder for holder in holders if holder.changes]
    while not ended.is_set():
        kind: Kind | None = rng.choice((None, "grant", "credit")) if history.grants else "grant"
        if kind is None:
            holder = rng.choice(changing)
            act = _move(holder, rng) if holder.changes == "moves" else _vary(rng)
            history.changes[holder.account_id].append(await asyncio.to_thread(_change, url, holder, act))
        else:
            await asyncio.to_thread(_adjust, url, history, kind, rng.choice(holders), rng)
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), rng.expovariate(1 / PAUSE_SECONDS))


# An operator's change to an account, given the units used of each meter.
_Act = Callable[[psycopg.Connection, Mapping[str, int]], None]


def _move(holder: Holder, rng: random.Random) -> _Act:
    plan = rng.choice(("ample", "tight"))
    return lambda connection, _: accounts.move_account(connection, holder.account_id, plan)


def _vary(rng: random.Random) -> _Act:
    # A fixed limit, or one just above the units used: then charges cross its thresholds soon.
    match_limit, match_room = rng.choice(((0, 0), (50, 0), (MUCH, 0), (0, rng.randint(1, 60))))
    search_limit, search_room = rng.choice(((0, 0), (20, 0), (MUCH, 0), (0, rng.randint(1, 20))))
    per_minute = rng.choice((10, 30, MUCH))

    def act(connection: psycopg.Connection, used: Mapping[str, int]) -> None:
        limits = {
            "color_match": match_limit + (match_room and used.get("color_match", 0) + match_room),
            "color_search": search_limit + (search_room and used.get("color_search", 0) + search_room),
        }
        set_plan(connection, "varied", limits, requests_per_minute=per_minute)

    return act


def _change(url: str, holder: Holder, act: _Act) -> Change:
    """Repeats the change until the database has taken it; an earlier attempt may already have succeeded."""
    before, start = None, 0.0
    used: Mapping[str, int] = {}
    while True:
        try:
            with connect(url) as connection:
                if before is None:
                    account = accounts.show_account(connection, holder.account_id)
                    plan = show_plan(connection, account.plan_id)
                    before, start = Terms(plan.limits, plan.requests_per_minute), time.monotonic()
                    used = account.committed
                act(connection, used)
            return Change(start, time.monotonic(), before)
        except (DatabaseError, psycopg.Error):
            time.sleep(0.1)


def _adjust(url: str, history: History, kind: Kind, holder: Holder, rng: random.Random) -> None:
    """Repeats a grant or credit, under one id, until the database has taken or refused it."""
    meter, units = rng.choice(list(METERS)), rng.choice((-5, -1, 1, 2, 10))
    given = {"adjustment_id": str(uuid.UUID(int=rng.getrandbits(128))), "reason": "Soak"}
    kept = history.grants if kind == "grant" else history.credits
    period, start = None, time.monotonic()
    while True:
        try:
            with connect(url) as connection:
                period = period or f"{read_today(connection):%Y-%m}"
                adjust_usage(connection, kind, holder.account_id, meter, units, period=period, **given)
        except (DatabaseError, psycopg.Error, BusyError):
            time.sleep(0.1)
        except SepuError:  # out of bounds
            return
        else:
            kept[Counter(holder.account_id, meter, period)].append(Adjustment(start, time.monotonic(), units))
            return
