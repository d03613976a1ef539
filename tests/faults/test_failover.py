"""The primary fails over to its standby: the service follows, and what was charged before stays charged."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from tests.faults.history import History
from tests.faults.injection import stop_at_once
from tests.faults.proxy import socket_directory
from tests.faults.verdict import contradictory
from tests.processes import until
from tests.serving import serving

from sepu import limits
from sepu.cli.database import connect, database
from sepu.metering import accounts
from sepu.metering.audit import audit
from sepu.server.embedded import embedded_postgres
from sepu.server.embedded.programs import programs
from sepu.server.embedded.system_user import SYSTEM_USER

Replicated = tuple[Path, tuple[Path, str], psycopg.Connection, psycopg.Connection, accounts.IssuedKey]

BACK_SECONDS = 1 + 3  # the promise, and what a busy machine may add


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
    """A primary and a standby that has its account, too."""
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
    """Until the standby has all that the primary has: this replication is asynchronous."""
    position = primary.execute("select pg_current_wal_lsn()::text").fetchone()
    until(lambda: standby.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", position).fetchone() == (True,))


def test_a_standby_charges_nothing_until_it_is_promoted() -> None:
    with (
        replicated() as (_, (_, second_url), _, standby, issued),
        serving("uvloop", second_url, workers=1, ready="/healthz") as server,
    ):
        history = History()
        assert history.match(server, issued, "standby-1").status == 503
        assert server.request("GET", "/readyz").status == 503
        standby.execute("select pg_promote()")
        until(lambda: history.match(server, issued, "standby-1").status == 200, seconds=BACK_SECONDS)
        assert contradictory(standby, history) == []
        time.sleep(limits.PROBE_SECONDS)  # for so long a probe's answer is known
        assert server.request("GET", "/readyz").status == 200


@pytest.mark.parametrize("worker", ["uvloop", "gthread"])
@pytest.mark.parametrize("old_primary", ["dead", "alive and read-only"])
def test_the_service_follows_a_failover_at_once(worker: str, old_primary: str) -> None:
    with replicated() as (first, (second, _), primary, standby, issued):
        # Without target_session_attrs, which the service sets by itself.
        hosts = ",".join(quote(str(state_dir / "socket"), safe="") for state_dir in (first, second))
        with serving(worker, f"postgresql://sepu@/postgres?host={hosts}", workers=1) as server:
            history = History()
            answers = {key: history.match(server, issued, key) for key in ("failover-1", "failover-2")}
            assert {answer.status for answer in answers.values()} == {200}
            await_replay(primary, standby)

            if old_primary == "dead":
                asyncio.run(stop_at_once(first))
            else:  # it goes on answering those who are connected
                primary.execute("alter system set default_transaction_read_only = on")
                primary.execute("select pg_reload_conf()")
            standby.execute("select pg_promote()")
            until(lambda: history.match(server, issued, "failover-3").status == 200, seconds=BACK_SECONDS)

            assert all(history.match(server, issued, key).body == answer.body for key, answer in answers.items())
            assert contradictory(standby, history) == []
            assert audit(standby).differences == ()
            assert accounts.show_usage(standby, issued.account_id).usage[0].committed == 3
            if old_primary != "dead":
                assert accounts.show_usage(primary, issued.account_id).usage[0].committed == 2
