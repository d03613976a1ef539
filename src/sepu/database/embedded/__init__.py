"""Runs the embedded Postgres in a state directory, with the programs from a wheel.

It listens only on a Unix socket. Several processes can use one state directory at the same time (`sepu serve` and `sepu
account`): the first starts the server, and the last stops it. File locks show who uses it. The kernel releases them
with their process, so a crash leaves nothing stale.
"""

import fcntl
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

from sepu.database.embedded.cluster import Cluster
from sepu.database.embedded.locks import give_back, is_last, open_lock, take, wait_for
from sepu.database.embedded.signals import ended_by_exceptions
from sepu.database.embedded.state_directory import mark_moved, mark_used, prepared, real, refuse_moved
from sepu.errors import StartError

__all__ = ["embedded_postgres", "keeper", "mark_moved", "mark_used", "refuse_moved"]

_logger = logging.getLogger("sepu.embedded")


@contextmanager
def embedded_postgres(state_dir: Path, *, create: bool = True) -> Iterator[str]:
    """Runs Postgres in `state_dir` for the duration of the block, and yields its connection string.

    If the path is too long for a socket or has a comma, the string is valid only in this process and its forks.

    Raises:
        StartError: the directory cannot be used, Postgres is not installed or does not start, or there is no database
            and `create` is not set.
    """
    with ended_by_exceptions(), ExitStack() as stack:
        server = Cluster(prepared(state_dir, create=create))
        lock = stack.enter_context(open_lock(server.lock))
        users = stack.enter_context(open_lock(server.users))

        def leave() -> None:
            take(lock)
            if is_last(users):
                server.stop()
            give_back(lock)

        take(lock)
        try:
            wait_for(users, fcntl.LOCK_SH)
            server.start()
            give_back(lock)
            host = stack.enter_context(server.socket_directory())
            # Without port and hostaddr here, libpq would take them from the environment.
            yield f"postgresql://sepu@/postgres?host={quote(host, safe='')}&port=5432&hostaddr="
        finally:
            try:
                leave()
            except (KeyboardInterrupt, SystemExit):  # a signal raises this once
                leave()
                raise


def keeper(state_dir: Path) -> Callable[[], None]:
    """Returns a function that restarts a Postgres of `embedded_postgres` if it has died.

    Call that function about every second. It does not wait or raise.
    """
    server = Cluster(real(state_dir))

    def keep() -> None:
        # Do not recreate a cluster that somebody removed.
        if not server.is_made() or server.is_alive():
            return
        try:
            with open_lock(server.lock) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not server.is_alive():
                    _logger.warning("the embedded Postgres has ended and is restarted; %s may say why", server.log)
                    server.launch()
        except BlockingIOError:
            pass  # the holder of the lock is starting or stopping it
        except (OSError, StartError) as error:
            _logger.error("the embedded Postgres cannot be restarted: %s", error)  # noqa: TRY400

    return keep
