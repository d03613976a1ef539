"""Postgres servers for tests, from any build of Postgres, Debian's or one with Citus; and databases."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.harness.processes import completed

from sepu.database.embedded.programs import programs
from sepu.database.embedded.system_user import SYSTEM_USER, system_user
from sepu.database.opening import connect, database
from sepu.metering.key_format import new_account_id

EMBEDDED = programs()
OLDEST = 15  # docs/deploy.md
MEMORY = Path("/dev/shm")
MIGRATED = "migrated"  # a template database: copying it takes a third of the time of migrating
STAYS = "SEPU_TEST_POSTGRES"  # the connection string of a Postgres that stays for many test runs
ROOM = 8 * 2**30  # for the servers of all workers of pytest, which need some hundred MB each
INSTALLED = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if int(path.parent.name) >= OLDEST]


def run(program: Path, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs one of Postgres's programs, as a user that it accepts."""
    user = SYSTEM_USER if os.geteuid() == 0 else None
    if user:
        system_user()
    done = completed(
        [program, *arguments],
        timeout=None,
        stdin=subprocess.DEVNULL,
        env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
        cwd="/",
        user=user,
        group=user,
        extra_groups=[] if user else None,
    )
    assert not check or done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"
    return done


@dataclass(frozen=True)
class Cluster:
    """A data directory in `directory`, which is also the server's socket directory."""

    directory: Path
    port: int = 5432
    programs: Path = EMBEDDED

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def url(self) -> str:
        return f"postgresql://sepu@/postgres?host={quote(str(self.directory), safe='')}&port={self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment for Postgres's client programs."""
        server = {"PGHOST": str(self.directory), "PGPORT": str(self.port), "PGUSER": "sepu", "PGDATABASE": "postgres"}
        return {**server, "PATH": f"{self.programs}:{os.environ['PATH']}"}

    def initialise(self, **settings: str) -> None:
        """Creates an empty server without fsync: no test cuts the power."""
        let_in(self.directory)
        options = "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"
        run(self.programs / "initdb", "-D", self.data, "-U", "sepu", *options)
        self.configure(fsync="off", **settings)

    def configure(self, **settings: str) -> None:
        """Adds to its settings while it is stopped."""
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self, listen: str = "") -> None:
        # Logs to a file: the server would keep a pipe open as long as it runs.
        options = f"-c unix_socket_directories='{self.directory}' -c listen_addresses={listen} -p {self.port}"
        arguments: list[str | Path] = ["-D", self.data, "-w", "-t", "60", "-l", self.directory / "log", "-o", options]
        assert run(self.programs / "pg_ctl", *arguments, "start", check=False).returncode == 0, self.log()

    def stop(self, mode: str = "fast") -> None:
        """Stops the server; `immediate` is like a kill. Does nothing if it does not run."""
        run(self.programs / "pg_ctl", "-D", self.data, "-w", "-m", mode, "stop", check=False)

    def log(self) -> str:
        return (self.directory / "log").read_text()

    @contextmanager
    def running(self, listen: str = "") -> Iterator[str]:
        """Yields the connection string while the server runs."""
        self.start(listen)
        try:
            yield self.url
        finally:
            self.stop("immediate")


@contextmanager
def empty_database(url: str, template: str = "template1", name: str = "") -> Iterator[str]:
    """Yields the connection string of a copy of a template database on the same server, and drops it in the end.

    Replaces an existing database of that name.
    """
    name = name or f"empty_{new_account_id()}"
    drop = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
    with connect(url) as root:
        root.execute(drop)
        create = sql.SQL("create database {} template {} strategy file_copy")  # half the work of wal_log
        root.execute(create.format(*map(sql.Identifier, (name, template))))
        try:
            yield make_conninfo(url, dbname=name)
        finally:
            root.execute(drop)


def let_in(path: Path) -> None:
    """Gives a directory to the user that Postgres runs as."""
    if os.geteuid() == 0:
        system_user()
        shutil.chown(path, SYSTEM_USER, SYSTEM_USER)


def _memory() -> Path | None:
    """Returns a directory in memory if there is room: a test's own database is copied there in a third of the time."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM else None


@contextmanager
def _postgres() -> Iterator[str]:
    """Yields the connection string of a new Postgres, whose database is migrated, and its copy `MIGRATED`."""
    # Not pytest's own temporary directory: its path is too long for a socket, and closed to the Postgres user.
    with (
        tempfile.TemporaryDirectory(prefix="sepu-test-", dir=_memory()) as directory,
        database(None, Path(directory), create=True) as url,
    ):
        with connect(url) as connection:  # fsync takes half of the tests' time, and no test cuts the power
            connection.execute("alter system set fsync = off")
            connection.execute("select pg_reload_conf()")
            name = connection.info.dbname
        with empty_database(url, name, MIGRATED):
            yield url


@pytest.fixture(scope="session")
def database_url() -> Iterator[str]:
    """Yields the connection string of this test run's migrated Postgres, or of its own copy in one that stays."""
    stays = os.environ.get(STAYS)
    with empty_database(stays, MIGRATED) if stays else _postgres() as url:
        yield url


if __name__ == "__main__":
    # Runs a command. Test runs in it copy a database of one Postgres, and need not start a server each.
    with _postgres() as url:
        sys.exit(subprocess.run(sys.argv[1:], env={**os.environ, STAYS: url}, check=False).returncode)
