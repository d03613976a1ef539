"""The disk of the write-ahead log is full: Postgres panics and cannot recover until there is space."""

import contextlib
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests.faults.history import History
from tests.faults.proxy import socket_directory
from tests.faults.verdict import contradictory
from tests.processes import completed
from tests.programs import installed
from tests.serving import SEPU, Response, serving

from sepu.cli.database import connect, database
from sepu.metering import accounts
from sepu.metering.audit import audit
from sepu.server.embedded.system_user import SYSTEM_USER

UNSHARE = installed("unshare")
# A small disk in a mount namespace of its own, put in the place of pg_wal before the service starts.
MOUNTED = """\
set -e
mount -t tmpfs -o size=64m,mode=0700 tmpfs "$0"
cp -a "$1/postgres/pg_wal/." "$0"
chown "$2:" "$0"
mount --bind "$0" "$1/postgres/pg_wal"
export SEPU_STATE_DIR="$1"
shift 2
exec "$@"
"""


def why_no_disk() -> str | None:
    if os.geteuid() != 0 or UNSHARE is None:
        return "only root can mount a small disk, with util-linux's unshare"
    mount = [UNSHARE, "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    tried = completed(mount)
    return f"mounting is not allowed here: {tried.stderr.strip()}" if tried.returncode else None


def await_status(match: Callable[[str], Response], status: int, key: str) -> None:
    deadline = time.monotonic() + 60
    while (response := match(key)).status != status:
        assert response.status in {200, 503}
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_full_disk_stops_charging_and_loses_nothing() -> None:
    if reason := why_no_disk():
        pytest.skip(reason)
    with socket_directory() as state_dir, socket_directory() as disk:
        with database(None, state_dir, create=True) as url, connect(url) as connection:
            issued = accounts.create_account(connection, "standard")
        assert UNSHARE is not None
        program = [UNSHARE, "--mount", "--propagation", "private"]
        program += ["sh", "-c", MOUNTED, str(disk), str(state_dir), SYSTEM_USER, str(SEPU)]
        with serving("uvloop", None, program=program) as server:
            history = History()
            match = partial(history.match, server, issued)
            told = match("full-disk-0")
            assert told.status == 200

            filler = Path(f"/proc/{server.process.pid}/root{disk}") / "filler"
            fill(filler)
            # The next segment is what there is no space for; the server may say so by going down.
            with connect(url) as connection, contextlib.suppress(psycopg.OperationalError):
                connection.execute("select pg_switch_wal()")
            await_status(match, 503, "full-disk-1")
            time.sleep(3)  # Postgres is started again and again meanwhile
            response = match("full-disk-1")
            assert (response.status, response.error) == (503, "usage_commit_failed")

            filler.unlink()
            await_status(match, 200, "full-disk-1")
            assert match("full-disk-0").body == told.body
            with connect(url) as connection:
                assert contradictory(connection, history) == []
                assert audit(connection).differences == ()
                assert accounts.show_usage(connection, issued.account_id).usage[0].committed == 2


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return
