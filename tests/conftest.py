"""Fixtures of all tests: one real Postgres per run, migrated, and accounts in it."""

import gc
import signal
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import psycopg
import pytest
from hypothesis import Phase, settings
from tests import pgbouncer
from tests.harness.postgres import MIGRATED, database_url, empty_database
from tests.harness.processes import end_with_the_tests
from tests.harness.serving import Served, Server, serving, why_not
from tests.keys import holder_of
from tests.left_out import tell
from tests.programs import refuse_others

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.database.opening import connect
from sepu.database.opening import service_url as as_service
from sepu.metering.key_format import Credential

__all__ = ["database_url"]

_ASSERTING = ("core.index_queries", "http.contract", "http.raw")
pytest.register_assert_rewrite(*(f"tests.{helper}" for helper in _ASSERTING))

settings.register_profile("untimed", deadline=None)  # a slow machine is not a fault
settings.load_profile("untimed")
# For mutants (tests/mutants/prove.py): any failure is enough, so none is shrunk.
settings.register_profile("unshrunk", deadline=None, phases=[Phase.explicit, Phase.generate])


# 14 hours ahead of UTC, 3 and a half behind with summer time, and UTC itself.
ZONES = ("Pacific/Kiritimati", "America/St_Johns", "UTC")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's workers are ended by their parent's parent
        end_with_the_tests()
    sys.addaudithook(refuse_others)
    # Programs would inherit that it is ignored, as in `make test &` in a script.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files of slow tests alone before each worker imports them."""
    if config.option.markexpr != "not slow" or not collection_path.name.startswith("test_"):
        return None
    return "\npytestmark = pytest.mark.slow\n" in collection_path.read_text("utf-8") or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects the tests without the garbage collector, which would take a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tell(terminalreporter, config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files with the longest tests first, so that workers finish at about the same time.

    The longest have a time-out of their own; the slow ones follow.
    """
    longest, slow = ({item.path for item in items if item.get_closest_marker(mark)} for mark in ("timeout", "slow"))
    items.sort(key=lambda item: (item.path not in longest, item.path not in slow))


@pytest.fixture(autouse=True)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Puts each test, its processes and its sessions into one of the zones: its parameter, or always the same."""
    with monkeypatch.context() as patched:
        for name in ("TZ", "PGTZ"):
            patched.setenv(name, getattr(request, "param", ZONES[len(request.node.name) % len(ZONES)]))
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(scope="session")
def service_url(database_url: str) -> str:
    """The same database under the service's role: for tests that serve."""
    return as_service(database_url)


@pytest.fixture(scope="session")
def served(service_url: str) -> Iterator[Served]:
    """Returns a function that starts a server of a kind of worker, or behind PgBouncer, once for all tests."""
    with ExitStack() as stack:

        @cache
        def server(kind: str) -> Server:
            if reason := pgbouncer.WHY_NOT if kind == "pgbouncer" else why_not(kind):
                pytest.skip(reason)
            if kind == "pgbouncer":
                return stack.enter_context(serving("uvloop", stack.enter_context(pgbouncer.pgbouncer(service_url))))
            return stack.enter_context(serving(kind, service_url))

        yield server


@pytest.fixture(scope="session")
def uvloop(served: Served) -> Server:
    return served("uvloop")


@pytest.fixture
def empty_url(database_url: str) -> Iterator[str]:
    """The connection string of an empty database for one test, on the same server."""
    with empty_database(database_url) as url:
        yield url


@pytest.fixture
def own_url(database_url: str) -> Iterator[str]:
    """The connection string of a migrated database for one test that looks at all accounts."""
    with empty_database(database_url, MIGRATED) as url:
        yield url


@pytest.fixture
def ledger_url(database_url: str) -> str:
    """The ledger's connection string; tests that look at all accounts override it with their own database."""
    return database_url


@pytest.fixture
def connection(ledger_url: str) -> Iterator[psycopg.Connection]:
    """An autocommit connection to inspect the ledger."""
    with connect(ledger_url) as opened:
        yield opened


@pytest.fixture
def issued(connection: psycopg.Connection) -> IssuedKey:
    """A new account on the standard plan, with its key."""
    return accounts.create_account(connection, "standard")


@pytest.fixture
def holder(issued: IssuedKey) -> Credential:
    return holder_of(issued.api_key)
