"""Consoles on ledgers to look at."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.console import running, seeding
from tests.console.running import Console

from sepu.database.opening import connect


@pytest.fixture(scope="package")
def seeded(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console on a ledger that no test changes."""
    with running.console(database_url, tmp_path_factory.mktemp("console")) as found:
        with connect(found.owner_url) as connection:
            seeding.seed(connection)
        yield found


@pytest.fixture
def empty(database_url: str, tmp_path: Path) -> Iterator[Console]:
    """A console on a ledger of the test's own."""
    with running.console(database_url, tmp_path, "--allowed-hosts", "console.example, Other.Example") as found:
        yield found
