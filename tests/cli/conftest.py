"""Runs commands in this process, on a database for one test: commands look at all accounts."""

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests.charging import charge
from tests.cli.running import Pair, Run, fields, invoke, printed, text

from sepu.admin.events import list_events, postpone_delivery


@pytest.fixture
def ledger_url(own_url: str) -> str:
    return own_url


@pytest.fixture
def run(ledger_url: str) -> Run:
    return partial(invoke, SEPU_DATABASE_URL=ledger_url)


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """One for all tests: making it takes a third of a second."""
    directory = tmp_path_factory.mktemp("pair")
    private, public = str(directory / "private.jwk"), str(directory / "public.jwk")
    before = os.umask(0)  # the private file must be private under any umask
    try:
        made = fields(invoke("receipt", "keypair", private, public))
    finally:
        os.umask(before)
    return Pair(private, public, made["thumbprint"])


@pytest.fixture
def world(
    run: Run, pair: Pair, connection: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Makes a customer with an old result and a dead event; returns what commands need of it."""
    monkeypatch.setattr("sepu.admin.erase.time.sleep", lambda _seconds: None)
    for plan in ("gold", "idle"):
        text(run("plan", "set", plan, "--match-limit", "9", "--search-limit", "9", "--requests-per-minute", "9"))
    made = printed(run("account", "create", "--external-id", "cus_8812", "--json"))
    for days, units in ((100, 3), (0, 1700)):
        charge(connection, made["apiKey"], f"{days}-days-old", units, datetime.now(UTC) - timedelta(days))
    [event] = list_events(connection)
    postpone_delivery(connection, event, "HTTP 410", final=True)
    customers = tmp_path / "customers.csv"
    customers.write_text("externalId\ncus_9010\n")
    yesterday, less_long_ago, long_ago = (f"{datetime.now(UTC) - timedelta(days):%Y-%m-%d}" for days in (1, 99, 101))
    return {
        "month": yesterday[:7],
        "long_ago": long_ago,
        "less_long_ago": less_long_ago,
        "key": made["keyId"],
        "api_key": made["apiKey"],
        "account": made["accountId"],
        "public_key": pair.public,
        "customers": str(customers),
        "keys_file": str(tmp_path / "keys.csv"),
    }
