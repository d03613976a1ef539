"""A PgBouncer in transaction mode, in front of a Postgres on a Unix socket."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict
from tests.harness.processes import running, until
from tests.harness.proxy import socket_directory
from tests.programs import installed

from sepu.database.embedded.system_user import SYSTEM_USER

PROGRAM = installed("pgbouncer")
WHY_NOT = None if PROGRAM else "pgbouncer is not installed (Debian: apt install pgbouncer)"

# server_login_retry: how long PgBouncer refuses everybody after a failed login, by default 15 seconds.
CONFIGURATION = """\
[databases]
* = host={host} user=sepu
[pgbouncer]
pool_mode = transaction
auth_type = any
listen_addr =
listen_port = 5432
unix_socket_dir = {directory}
default_pool_size = 8
server_login_retry = 0.3
log_connections = 0
log_disconnections = 0
"""


@contextmanager
def pgbouncer(database_url: str) -> Iterator[str]:
    """Runs it in front of that database, and yields its connection string."""
    assert PROGRAM is not None
    host = str(conninfo_to_dict(database_url)["host"])
    with socket_directory() as directory:
        configuration = directory / "pgbouncer.ini"
        configuration.write_text(CONFIGURATION.format(host=host, directory=directory))
        user = SYSTEM_USER if os.geteuid() == 0 else None  # it refuses to run as root
        if user:
            shutil.chown(directory, user)
        with (
            (directory / "log").open("w") as log,
            running(
                [PROGRAM, str(configuration)],
                user=user,
                group=user,
                extra_groups=[] if user else None,
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            url = f"postgresql://sepu@/postgres?host={quote(str(directory), safe='')}"

            def answers() -> bool:
                assert process.poll() is None, (directory / "log").read_text()
                with suppress(psycopg.OperationalError):
                    psycopg.connect(url).close()
                    return True
                return False

            until(answers, seconds=20, why=(directory / "log").read_text)
            yield url
