"""What is measured: a Postgres with load databases, `sepu serve` on one, and a constant next to it."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.harness.accounts import open_accounts, seed_of
from tests.harness.serving import Server, serving

from sepu.database.embedded import embedded_postgres
from sepu.database.migrate import migrate as migrate  # for the gate: on base, base's own
from sepu.database.opening import connect, service_url

EMPTY, FILLED = "sepu_load", "sepu_filled"
_FILL = Path(__file__).with_name("fill.sql")


@dataclass(frozen=True, slots=True)
class Cluster:
    """The embedded Postgres, and the seed of the keys in its load databases."""

    url: str
    seed: str

    @property
    def postmaster(self) -> int:
        """Its process id."""
        with connect(self.url) as root:
            return psutil.Process(root.info.backend_pid).ppid()

    def owner_url(self, database: str) -> str:
        return make_conninfo(self.url, dbname=database)

    def make_empty(self, accounts: int) -> str:
        """Makes a database with only accounts and the floor's table; returns the URL of the service's role."""
        with connect(self.url) as root:
            root.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(EMPTY)))
        url = self.prepare(EMPTY, accounts)
        with connect(self.owner_url(EMPTY)) as owner:
            owner.execute("create table bare (like sepu.stored_result including indexes)")
        return url

    @contextmanager
    def slow_commits(self) -> Iterator[None]:
        """Lets every commit wait for a tenth of a second."""
        with connect(self.url) as root:
            for setting in ("commit_delay = 100000", "commit_siblings = 0"):
                root.execute(f"alter system set {setting}".encode())
            root.execute("select pg_reload_conf()")
            try:
                yield
            finally:
                for name in ("commit_delay", "commit_siblings"):
                    root.execute(f"alter system reset {name}".encode())
                root.execute("select pg_reload_conf()")

    def prepare(self, database: str, accounts: int, results: int = 0) -> str:
        """Makes a database once, and keeps it; returns the URL of the service's role, which pgbench uses too."""
        with connect(self.url) as root:
            if not root.execute("select from pg_database where datname = %s", [database]).fetchall():
                root.execute(sql.SQL("create database {}").format(sql.Identifier(database)))
                with connect(self.owner_url(database)) as owner:
                    migrate(owner)
                    open_accounts(owner, self.seed, accounts)
                    if results:
                        fill(owner, results // accounts)
                    settle(owner, filled=results > 0)
        url = service_url(self.owner_url(database))
        with connect(self.url) as root:
            root.execute("alter role sepu_service connection limit -1")  # pgbench opens more than a service may
        return url


def fill(connection: psycopg.Connection, results: int, days: int = 0) -> None:
    """Adds stored results of some days ago to all ample accounts, the same number to each, and counts them."""
    connection.execute(
        "select set_config('load.results', %s, false), set_config('load.age', %s, false)",
        [str(results), f"{days} days"],
    )
    connection.execute(_FILL.read_bytes())


def settle(owner: psycopg.Connection, *, filled: bool) -> None:
    """Finishes the work of the preparation before the database is measured.

    Empty tables are not analysed: once Postgres has seen that a table has no rows, it plans to read all of it, and
    keeps that plan until it analyses the table again, when it has thousands.
    """
    owner.execute("vacuum analyze" if filled else "vacuum analyze sepu.plan, sepu.account, sepu.api_key")
    owner.execute("checkpoint")


def warm(owner: psycopg.Connection) -> None:
    """Reads all tables and their primary keys once, so that the disk is not asked for what memory holds anyway."""
    for table in ("account", "api_key", "usage", "stored_result"):
        for seqscan, indexscan in (("on", "off"), ("off", "on")):
            owner.execute(f"set enable_seqscan = {seqscan}; set enable_indexonlyscan = {indexscan}")
            owner.execute(f"select count(*) from sepu.{table}")


def settings_of(connection: psycopg.Connection) -> dict[str, str]:
    """The server's version, and what it does for durability."""
    names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
    [row] = connection.execute(f"select {', '.join(f'current_setting({name!r})' for name in names)}").fetchall()
    return dict(zip(names, row, strict=True))


def scans(connection: psycopg.Connection) -> dict[str, dict[str, int]]:
    """How the ledger's tables were read, and how many updates stayed on the page. Each read should use an index.

    The preparation makes a handful of sequential scans; one per request means a plan made for an empty table.
    """
    rows = connection.execute(
        "select relname, seq_scan, idx_scan, n_tup_upd, n_tup_hot_upd from pg_stat_user_tables"
        " where relname in ('account', 'api_key', 'usage', 'stored_result', 'request_rate') order by relname"
    ).fetchall()
    heads = ("sequential scans", "index scans", "updates", "of them HOT")
    return {name: dict(zip(heads, counts, strict=True)) for name, *counts in rows}


@contextmanager
def cluster(state_dir: Path | None) -> Iterator[Cluster]:
    """The one of a state directory, or a temporary one."""
    with ExitStack() as stack:
        directory = state_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sepu-load-")))
        yield Cluster(stack.enter_context(embedded_postgres(directory)), seed_of(directory))


def constant(workers: int) -> AbstractContextManager[Server]:
    """The same gunicorn answering a constant."""
    program = (sys.executable, "-m", "bench.load.floor")
    return serving("uvloop", None, workers=workers, ready="/", program=program)
