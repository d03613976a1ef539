"""A full disk under the embedded Postgres: that of the write-ahead log, or that of the tables."""

import contextlib
import os
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from tests.faults.history import History
from tests.faults.verdict import contradictory
from tests.harness.processes import completed, until
from tests.harness.proxy import socket_directory
from tests.harness.serving import SEPU, Server, free_port, serving, with_limits
from tests.metrics import sample
from tests.programs import installed

from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.keys import IssuedKey
from sepu.admin.usage import show_usage
from sepu.database.embedded.system_user import SYSTEM_USER
from sepu.database.opening import connect, database

pytestmark = pytest.mark.slow
UNSHARE = installed("unshare")
# Mounts a small disk over a directory, in a separate mount namespace, before the service starts.
MOUNTED = """\
set -e
mount -t tmpfs -o size=64m,mode=0700 tmpfs "$0"
cp -a "$1/postgres/$3/." "$0"
chown "$2:" "$0"
mount --bind "$0" "$1/postgres/$3"
export SEPU_STATE_DIR="$1"
shift 3
exec "$@"
"""


def why_no_disk() -> str | None:
    if os.geteuid() != 0 or UNSHARE is None:
        return "only root can mount a small disk, with util-linux's unshare"
    mount = [UNSHARE, "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    tried = completed(mount)
    return f"mounting is not allowed here: {tried.stderr.strip()}" if tried.returncode else None


class Stage(NamedTuple):
    """A service whose Postgres has one directory on a small disk, which `filler` can fill."""

    server: Server
    metrics: str
    url: str
    filler: Path
    issued: IssuedKey


@contextlib.contextmanager
def on_small_disk(directory: str) -> Iterator[Stage]:
    if reason := why_no_disk():
        pytest.skip(reason)
    with socket_directory() as state_dir, socket_directory() as disk:
        with database(None, state_dir, create=True) as url, connect(url) as connection:
            issued = accounts.create_account(connection, "standard")
        assert UNSHARE is not None
        program = [UNSHARE, "--mount", "--propagation", "private"]
        program += ["sh", "-c", MOUNTED, str(disk), str(state_dir), SYSTEM_USER, directory]
        program += map(str, with_limits(probes={"LOOK_SECONDS": 0.5}))
        metrics = f"127.0.0.1:{free_port()}"
        with serving("uvloop", None, program=program, options=["--metrics-bind", metrics]) as server:
            filler = Path(f"/proc/{server.process.pid}/root{disk}") / "filler"
            yield Stage(server, metrics, url, filler, issued)


def test_a_full_disk_of_the_log_stops_charging_and_loses_nothing() -> None:
    """Postgres panics, and cannot recover until there is space."""
    with on_small_disk("pg_wal") as (server, _, url, filler, issued):
        history = History()
        match = partial(history.match, server, issued)
        told = match("full-disk-0")
        assert told.status == 200

        fill(filler)
        # The next segment does not fit; the server may crash.
        with connect(url) as connection, contextlib.suppress(psycopg.OperationalError):
            connection.execute("select pg_switch_wal()")
        until(lambda: match("full-disk-1").status == 503, seconds=60)
        time.sleep(1.5)  # Postgres is restarted again and again meanwhile
        response = match("full-disk-1")
        assert (response.status, response.error) == (503, "usage_commit_failed")

        filler.unlink()
        until(lambda: match("full-disk-1").status == 200, seconds=60)
        answers = [match("full-disk-0")]
        while answers[-1].status == 503 and len(answers) < 60:  # the other worker may still be connecting
            time.sleep(0.1)
            answers.append(match("full-disk-0"))
        assert answers[-1].body == told.body, (answers[-1].status, answers[-1].error)
        with connect(url) as connection:
            assert contradictory(connection, history) == []
            assert audit(connection).differences == ()
            assert show_usage(connection, issued.account_id).usage[0].committed == 2


def test_with_a_full_disk_of_the_tables_the_service_is_not_ready() -> None:
    """Postgres keeps running, and writes what fits its existing pages."""
    with on_small_disk("base") as (server, metrics, url, filler, issued):

        def ready() -> bool:
            return server.request("GET", "/readyz").status == 200

        def writable() -> bool:
            return sample(metrics, "sepu_workers", database="answers") == 2

        until(writable)
        keys = (f"full-disk-{number}" for number in count())
        fill(filler)
        until(lambda: server.match(issued, next(keys)).status == 503)
        until(lambda: not ready())
        until(lambda: sample(metrics, "sepu_workers", database="fails") == 2)
        assert server.match(issued, next(keys)).error == "usage_commit_failed"
        # The runbook begins here.
        audited = completed([SEPU, "audit", "--database-url", url])
        assert (audited.returncode, audited.stdout.endswith(": it adds up\n")) == (0, True)
        assert "cannot be stored" in audited.stderr
        assert "No space left on device" in audited.stderr

        filler.unlink()
        until(writable)
        assert ready()
        assert server.match(issued, next(keys)).status == 200


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
