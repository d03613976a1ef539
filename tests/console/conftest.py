"""Consoles on test ledgers."""

from collections.abc import Iterator

import pytest
from psycopg import Connection
from tests.console import running, seeding
from tests.console.running import Console
from tests.harness.postgres import MIGRATED, empty_database

from sepu.database.opening import connect, console_url


@pytest.fixture(scope="package")
def seeded(database_url: str) -> Iterator[Console]:
    """A console on a ledger that no test changes."""
    with empty_database(database_url, MIGRATED) as url, running.console(url) as found:
        with connect(url) as connection:
            seeding.seed(connection)
        yield found


@pytest.fixture(scope="package")
def ledger(seeded: Console) -> Iterator[Connection]:
    """The owner's connection to that ledger."""
    with connect(seeded.owner_url) as opened:
        yield opened


@pytest.fixture(scope="package")
def started(database_url: str) -> Iterator[Console]:
    """A console that connects to the database `console` for each page."""
    # 127.1 is 127.0.0.1, under a name that only --host allows.
    options = "--host", "127.1", "--allowed-hosts", "console.example, Other.Example"
    with empty_database(database_url, MIGRATED, "console") as url, running.console(url, *options) as found:
        yield found


@pytest.fixture
def empty(database_url: str, started: Console) -> Iterator[Console]:
    """A console on an empty ledger for one test."""
    with empty_database(database_url, MIGRATED, "console") as url:
        console_url(url)
        yield started
