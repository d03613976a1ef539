"""Creates Postgres's data directory, and starts, watches and stops the server.

This does not use pg_ctl, which waits while the process id exists. An ended server keeps its id until its parent asks
for its status. With pg_ctl the parent is process 1, which in a container may never ask.
"""

import errno
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sepu import limits
from sepu.database.embedded.locks import open_private
from sepu.database.embedded.programs import programs
from sepu.database.embedded.signals import signals_held
from sepu.database.embedded.system_user import spawn, system_user
from sepu.errors import StartError
from sepu.printable import say

# For the server to stop.
_STOP_SECONDS = 60
# The rest of a killed server may keep its memory for this long.
_RETRY_SECONDS = 10

_PAUSE_SECONDS = 0.3
_POLL_SECONDS = 0.02
_SOCKET = ".s.PGSQL.5432"
_OWN_DESCRIPTORS = Path("/proc/self/fd")


class Cluster:
    """Controls the Postgres of an existing state directory."""

    def __init__(self, state_dir: Path) -> None:
        self.lock = state_dir / "lock"
        self.users = state_dir / "users"
        self.log = state_dir / "postgres.log"
        self._data = state_dir / "postgres"
        self._sockets = state_dir / "socket"
        self._user = system_user()
        self._programs = programs()
        self._child: subprocess.Popen[bytes] | None = None

    def is_made(self) -> bool:
        """Returns whether a cluster exists."""
        return self._data.exists()

    def is_alive(self) -> bool:
        """Returns whether the server's process exists. It is cheap enough to call every second."""
        return self._pid() is not None

    def start(self) -> None:
        """Starts the server unless it is running, and waits until it is ready. Creates the cluster if there is none."""
        try:
            if not self.is_made():
                self._initialise()
            self._check_owner(self._data)
            crashed = self._pid_file() != [] and not self.is_alive()
            begun, reported = time.monotonic(), False
            # The children of a killed server may hold its socket for a moment.
            while crashed and self._answers() and time.monotonic() - begun < _RETRY_SECONDS:
                time.sleep(_POLL_SECONDS)
            while not self._is_ready():
                spent = time.monotonic() - begun
                if self.is_alive():
                    if spent > _RETRY_SECONDS and not reported:
                        say(f"waiting for the embedded Postgres; {self.log} has its messages")
                        reported = True
                    if spent > limits.embedded.START_SECONDS:
                        raise self._failure(f"is not ready after {limits.embedded.START_SECONDS} seconds")
                elif self._child is None:
                    self.launch()
                elif crashed and spent < _RETRY_SECONDS:
                    time.sleep(_PAUSE_SECONDS)
                    self.launch()
                else:
                    raise self._failure("did not start")
                time.sleep(_POLL_SECONDS)
        except OSError as error:
            raise StartError(f"cannot prepare the state directory {self._data.parent}: {error}") from error

    def launch(self) -> None:
        """Starts the server without waiting for it."""
        if self._answers():
            raise StartError(
                f"a Postgres that cannot be seen from here, perhaps in another container, works in {self._data}; "
                "run sepu where it runs"
            )
        # If another process now has a dead server's id, this file would make Postgres think that the server is running.
        # Postgres also finds a running server by its shared memory, so a second one cannot start in the directory.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        self._sockets.mkdir(exist_ok=True)
        self._give(self._sockets)
        self._check_owner(self._sockets)
        self._sockets.chmod(0o700)
        for left in self._sockets.iterdir():
            left.unlink()
        # The path is relative to the data directory, so it is never too long.
        settings = ("listen_addresses=", "unix_socket_directories=../socket", "unix_socket_permissions=0700")
        arguments = ["-D", str(self._data), *(word for setting in settings for word in ("-c", setting))]
        with open(self.log, "ab", opener=open_private) as log, signals_held():
            self._child = spawn(self._user, self._programs / "postgres", *arguments, output=log)
        _children[:] = [child for child in (*_children, self._child) if child.poll() is None]

    def stop(self) -> None:
        """Stops the server. If it does not stop cleanly in time, it recovers at the next start."""
        for how, seconds in (
            (signal.SIGINT, _STOP_SECONDS),
            (signal.SIGQUIT, _RETRY_SECONDS),
        ):
            if (pid := self._pid()) is None:
                return
            with suppress(ProcessLookupError):
                os.kill(pid, how)
            deadline = time.monotonic() + seconds
            while self.is_alive() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)

    @contextmanager
    def socket_directory(self) -> Iterator[str]:
        """Yields a path that fits into a socket's address and that libpq does not read as a list."""
        size = len(os.fsencode(self._sockets / _SOCKET))
        if size <= limits.workers.SOCKET_PATH_BYTES and "," not in str(self._sockets):
            yield str(self._sockets)
            return
        if not _OWN_DESCRIPTORS.exists():
            raise StartError(
                f"the path {self._sockets} is too long for a socket, or has a comma; choose another --state-dir"
            )
        descriptor = os.open(self._sockets, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield str(_OWN_DESCRIPTORS / str(descriptor))
        finally:
            os.close(descriptor)

    def _pid_file(self) -> list[str]:
        try:
            return (self._data / "postmaster.pid").read_text(errors="replace").splitlines()
        except OSError:
            return []

    def _pid(self) -> int | None:
        """Returns the id of the server's process. A stale file may have the id of another process."""
        import psutil  # only the embedded Postgres needs it

        if self._child is not None and self._child.poll() is None:
            return self._child.pid
        try:
            pid = int(self._pid_file()[0])
            process = psutil.Process(pid)
            command = process.cmdline()
            if not command or Path(command[0]).name != "postgres":
                return None
            return pid if str(self._data) in command or process.cwd() == str(self._data) else None
        except (ValueError, IndexError, psutil.Error):
            return None

    def _answers(self) -> bool:
        """Returns whether a server listens on the socket, even if its process is in another container."""
        if not self._sockets.exists():
            return False
        with self.socket_directory() as directory, socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            return probe.connect_ex(f"{directory}/{_SOCKET}") not in {errno.ENOENT, errno.ECONNREFUSED}

    def _is_ready(self) -> bool:
        lines = self._pid_file()
        return len(lines) > 7 and lines[7].strip() in {"ready", "standby"} and lines[0] == str(self._pid())

    def _failure(self, what: str) -> StartError:
        program = str(self._programs / "postgres")
        own = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.split()[-1:]  # noqa: S603
        made_by = (self._data / "PG_VERSION").read_text(errors="replace").strip()
        if own and own[0].partition(".")[0] != made_by:
            return StartError(
                f"PostgreSQL {made_by} made the database in {self._data}, and this is {own[0]}, which cannot read it. "
                f"With the installation of sepu that made it, dump it with pg_dump; then move {self._data} away, start "
                "again, and restore the dump"
            )
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-5:])
        return StartError(f"the embedded Postgres {what}. The end of {self.log}:\n{tail}")

    def _check_owner(self, path: Path) -> None:
        found, owner = path.lstat(), self._user.pw_uid if self._user else os.geteuid()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner:
            raise StartError(
                f"{path} belongs to user id {found.st_uid}, and Postgres would run as {owner}; "
                "use the user who created it, or another --state-dir"
            )

    def _initialise(self) -> None:
        """Creates the cluster elsewhere and moves it into place, so that it is never used incomplete."""
        draft = self._data.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self._give(draft)
        options = ("-U", "sepu", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions")
        initdb: subprocess.Popen[bytes] | None = None
        with tempfile.TemporaryFile() as output:
            try:
                with signals_held():
                    initdb = spawn(self._user, self._programs / "initdb", "-D", str(draft), *options, output=output)
                status = initdb.wait(limits.embedded.START_SECONDS)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if initdb is not None:
                    with suppress(ProcessLookupError):
                        os.killpg(initdb.pid, signal.SIGKILL)  # it has children
                    initdb.wait()
            output.seek(0)
            said = output.read().decode(errors="replace").strip()
        if status != 0:
            raise StartError(f"the embedded Postgres could not be set up in {draft}:\n{said}")
        draft.rename(self._data)

    def _give(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)


# Servers that outlive this process. subprocess would warn about each one that is not referenced.
_children: list[subprocess.Popen[bytes]] = []
