"""Runs commands against Postgres: for threads, and for an event loop. One round trip, one transaction each.

Both classes raise `LedgerUnavailable` when the outcome is unknown or the database cannot be had in time; the caller
cannot tell whether anything was committed, and a retry with the same idempotency key finds out.
"""

import asyncio
import logging
from typing import TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from sepu.metering import migrate, scripts
from sepu.metering.commands import Command

T = TypeVar("T")

log = logging.getLogger("sepu.ledger")

# A client is told of an outage within two seconds: half of it for a connection, the rest for the statement.
CONNECTION_SECONDS = 0.9
STATEMENT_SECONDS = 1.0


class LedgerUnavailable(Exception):  # noqa: N818  (named for the state, as the contract's codes are)
    """The database did not answer, or not in time."""


def _bounded(database_url: str) -> str:
    """The connection string with a limit on everything that can be waited for."""
    return make_conninfo(
        database_url,
        application_name="sepu",
        connect_timeout=2,
        options=f"-c statement_timeout={int(STATEMENT_SECONDS * 1000)}",
        tcp_user_timeout=2000,
    )


def _unavailable(error: Exception) -> LedgerUnavailable:
    """Logs the kind of failure only: a server's message can quote a row."""
    log.error("ledger unavailable: %s %s", type(error).__name__, getattr(error, "sqlstate", None) or "")
    return LedgerUnavailable()


def _answer(command: Command[T], error: psycopg.errors.UniqueViolation) -> T:
    if command.on_duplicate is None:
        raise _unavailable(error) from None
    return command.on_duplicate


class Ledger:
    """The ledger for threads."""

    def __init__(self, database_url: str, connections: int) -> None:
        # min_size=0: connections are made on demand, so after an outage the next request reconnects at once.
        self._pool = ConnectionPool(
            _bounded(database_url),
            min_size=0,
            max_size=connections,
            timeout=CONNECTION_SECONDS,
            reconnect_timeout=CONNECTION_SECONDS,
            kwargs={"autocommit": True},
            open=False,
        )

    def open(self) -> None:
        """Lets connections be made; after a fork, not before."""
        self._pool.open()

    def close(self) -> None:
        """Gives the connections back."""
        self._pool.close()

    def run(self, command: Command[T]) -> T:
        """Runs one command.

        Raises:
            LedgerUnavailable: no answer, or not in time.
        """
        try:
            with self._pool.connection() as connection, connection.cursor(binary=True) as cursor:
                (row,) = cursor.execute(command.statement, command.parameters).fetchall()
        except psycopg.errors.UniqueViolation as error:
            return _answer(command, error)
        except (psycopg.Error, PoolTimeout) as error:
            raise _unavailable(error) from None
        return command.read(row)

    def ready(self) -> bool:
        """Whether the database answers and holds this release's migrations."""
        try:
            with self._pool.connection() as connection:
                rows = connection.execute(scripts.statement("read_migrations")).fetchall()
        except (psycopg.Error, PoolTimeout):
            return False
        return migrate.holds_migrations(rows)


class AsyncLedger:
    """The ledger for an event loop."""

    def __init__(self, database_url: str, connections: int) -> None:
        self._pool = AsyncConnectionPool(
            _bounded(database_url),
            min_size=0,
            max_size=connections,
            timeout=CONNECTION_SECONDS,
            reconnect_timeout=CONNECTION_SECONDS,
            kwargs={"autocommit": True},
            open=False,
        )

    async def open(self) -> None:
        """Lets connections be made; in the event loop that will use them."""
        await self._pool.open()

    async def close(self) -> None:
        """Gives the connections back."""
        await self._pool.close()

    async def run(self, command: Command[T]) -> T:
        """Runs one command.

        Raises:
            LedgerUnavailable: no answer, or not in time.
        """
        try:
            async with asyncio.timeout(CONNECTION_SECONDS + STATEMENT_SECONDS):
                async with self._pool.connection() as connection, connection.cursor(binary=True) as cursor:
                    await cursor.execute(command.statement, command.parameters)
                    (row,) = await cursor.fetchall()
        except psycopg.errors.UniqueViolation as error:
            return _answer(command, error)
        except (psycopg.Error, PoolTimeout, TimeoutError) as error:
            raise _unavailable(error) from None
        return command.read(row)

    async def ready(self) -> bool:
        """Whether the database answers and holds this release's migrations."""
        try:
            async with (
                asyncio.timeout(CONNECTION_SECONDS + STATEMENT_SECONDS),
                self._pool.connection() as connection,
            ):
                cursor = await connection.execute(scripts.statement("read_migrations"))
                rows = await cursor.fetchall()
        except (psycopg.Error, PoolTimeout, TimeoutError):
            return False
        return migrate.holds_migrations(rows)
