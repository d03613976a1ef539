"""The fault harness in its short form, on each kind of worker."""

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import psycopg
import pytest
from tests.faults.injection import FaultInjector, Host, Pace
from tests.faults.proxy import socket_directory
from tests.faults.short_soak import soak_briefly
from tests.faults.soak import Plan, soak
from tests.serving import EACH_WORKER

from sepu.cli.database import connect, database
from sepu.database import statements

if TYPE_CHECKING:
    from tests.faults.proxy import Proxy
    from tests.serving import Server


@pytest.mark.parametrize("worker", EACH_WORKER)
def test_nothing_is_lost_doubled_or_stuck(worker: str) -> None:
    soak_briefly(500, worker, failover=worker == "gthread")


@pytest.mark.slow
def test_a_ledger_that_tells_every_customer_3_too_low_is_noticed() -> None:
    def spoil(connection: psycopg.Connection) -> None:
        told = re.sub(r"return (next )?v;", r"v.committed := v.committed - 3; return \1v;", statements.functions().text)
        connection.execute(told.encode())

    verdict = soak(Plan(300, clients=12, most_seconds=2), spoil=spoil).verdict
    assert str(verdict).startswith("0 lost, 0 doubled, 0 stuck, ")
    assert any("its units would have fitted" in what for _, what in verdict.findings)
    assert any("from 0 to" in what for _, what in verdict.findings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "noticed"),
    [
        ("continue when ", "continue when v_threshold = 80 or ", "an event is missing"),
        ("v.unit_limit, v.committed, p_units", "v.unit_limit + 1, v.committed, p_units", "no charge"),
    ],
)
def test_a_ledger_that_records_other_events_is_noticed(right: str, wrong: str, noticed: str) -> None:
    def spoil(connection: psycopg.Connection) -> None:
        text = statements.functions().text
        assert text.count(right) == 1
        connection.execute(text.replace(right, wrong).encode())

    verdict = soak(Plan(300, clients=12, most_seconds=2), spoil=spoil).verdict
    assert str(verdict).startswith("0 lost, 0 doubled, 0 stuck, ")
    assert any(noticed in what for _, what in verdict.findings)


@pytest.mark.slow
def test_a_crash_is_noted_even_if_nothing_more_is_asked_after_it() -> None:
    """Or the abuse limit would seem to let too many through: Postgres forgot the requests of that minute."""
    never = 1e9

    async def kill_one(injector: FaultInjector) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        busy = loop.run_in_executor(None, time.sleep, 1.0)
        injecting = asyncio.create_task(injector.inject())
        while not injector.done:
            await asyncio.sleep(0)
        injecting.cancel()
        await asyncio.wait([injecting, busy])

    with socket_directory() as state_dir, database(None, state_dir, create=True) as url, connect(url):
        pace = Pace(worker_kill=never, back_end_kill=0.01, back_end_terminate=never, restart=never, cut=never)
        hosts = [Host(state_dir, "", cast("Proxy", None))]
        injector = FaultInjector(cast("Server", None), hosts, pace, seed=1)
        asyncio.run(kill_one(injector))
    assert len(injector.crashes) == 1
