"""A primary and its hot standby."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from tests.harness.processes import until
from tests.harness.proxy import socket_directory

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.database.embedded import embedded_postgres
from sepu.database.embedded.programs import programs
from sepu.database.embedded.system_user import SYSTEM_USER
from sepu.database.opening import DatabaseError, connect, database

Replicated = tuple[Path, tuple[Path, str], psycopg.Connection, psycopg.Connection, IssuedKey]


@contextmanager
def standby_of(primary: Path) -> Iterator[tuple[Path, str]]:
    """A hot standby that streams from the Postgres in that state directory."""
    with socket_directory() as state_dir:
        data = state_dir / "postgres"
        subprocess.run(
            [programs() / "pg_basebackup", "-h", primary / "socket", "-U", "sepu", "-D", data, "-R", "-c", "fast"],
            check=True,
        )
        if os.geteuid() == 0:
            for path in (data, *data.rglob("*")):
                shutil.chown(path, SYSTEM_USER)
        with embedded_postgres(state_dir) as url:
            yield state_dir, url


@contextmanager
def replicated() -> Iterator[Replicated]:
    """A primary with an account, and a standby that has it too."""
    with (
        socket_directory() as first,
        database(None, first, create=True) as first_url,
        standby_of(first) as second,
        connect(first_url) as primary,
        connect(second[1]) as standby,
    ):
        issued = accounts.create_account(primary, "standard")
        await_replay(primary, standby)
        yield first, second, primary, standby, issued


def await_replay(primary: psycopg.Connection, standby: psycopg.Connection) -> None:
    """Waits until the standby has everything of the primary: this replication is asynchronous."""
    position = primary.execute("select pg_current_wal_lsn()::text").fetchone()
    until(lambda: standby.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", position).fetchone() == (True,))


def make_synchronous(primary: psycopg.Connection, standby: psycopg.Connection) -> None:
    """Makes commits wait for the standby, which reconnects quickly after a restart of the primary."""
    standby.execute("alter system set wal_retrieve_retry_interval = '100ms'")
    primary.execute("alter system set synchronous_standby_names = '*'")
    for connection in (standby, primary):
        connection.execute("select pg_reload_conf()")


def until_replicated(primary_url: str, standby_url: str) -> None:
    """Waits until a standby is synchronous and has everything of the primary, which may be restarting."""

    def is_replicated() -> bool:
        try:
            with connect(primary_url) as primary, connect(standby_url) as standby:
                if primary.execute("select sync_state from pg_stat_replication").fetchall() != [("sync",)]:
                    return False
                await_replay(primary, standby)
                return True
        except (DatabaseError, psycopg.Error):
            return False

    until(is_replicated, seconds=60)


def promote(standby_url: str) -> None:
    """Makes a standby the primary."""
    with connect(standby_url) as standby:
        assert standby.execute("select pg_promote()").fetchone() == (True,)
