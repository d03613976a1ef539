"""`sepu serve` on the embedded database, as on a first visit."""

import json
import os
import pty
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, chdir, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import psutil
import psycopg
import pytest
from tests.cli.running import assert_failed, invoke, lines, process
from tests.curl import by_python
from tests.harness.processes import STOP_SECONDS, running, until
from tests.harness.serving import SEPU, free_port

from sepu import limits
from sepu.cli.curls import curls as curls_of
from sepu.database.embedded import embedded_postgres
from sepu.database.migrate import migrate
from sepu.database.opening import connect
from sepu.errors import SepuError


@pytest.fixture
def state_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sepu-") as directory:
        Path(directory).chmod(0o755)  # root's Postgres runs as another user
        yield Path(directory) / "state"


@contextmanager
def serve(
    state_dir: Path,
    *arguments: str,
    stop: signal.Signals = signal.SIGINT,
    stdout: int | None = None,
    program: str = '"$@"',
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[str]:
    """Runs it in its own process group, yields its output, and stops it as a person would."""
    log = state_dir.with_suffix(".log")
    inherited = {name: value for name, value in os.environ.items() if name != "SEPU_DATABASE_URL"}
    with (
        log.open("w") as output,
        running(
            ["/bin/sh", "-c", f"exec {program}", "sh", SEPU, "serve", "--state-dir", str(state_dir), *arguments],
            env={**inherited, **(environment or {})},
            stdout=output if stdout is None else stdout,
            stderr=output,
            start_new_session=True,
            **options,
        ) as process,
    ):
        yield await_listening(log, process)
        os.killpg(process.pid, stop)  # Ctrl-C reaches the whole foreground group
        status = process.wait(STOP_SECONDS)
    assert status == 0, log.read_text()
    assert not (state_dir / "postgres" / "postmaster.pid").exists()


def await_listening(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Returns its output until it listens."""
    until(lambda: "Listening at" in log.read_text() or process.poll() is not None, why=log.read_text)
    assert process.poll() is None, log.read_text()
    return log.read_text()


def curls(printed: str) -> list[str]:
    """The curl lines, as they work in a shell into which the line before them was pasted."""
    return [
        f"{key}; {curl}"
        for key in re.findall(r"^ +(export SEPU_API_KEY=.*)$", printed, re.MULTILINE)
        for curl in re.findall(r"^ +(curl .*)$", printed, re.MULTILINE)
    ]


def answer(curl: str) -> tuple[int, dict[str, object]]:
    key, line = curl.split("; ")
    told = by_python(line + r" -s -w '\n%{http_code}'", SEPU_API_KEY=key.removeprefix("export SEPU_API_KEY="))
    body, status = told.rsplit("\n", 1)
    return int(status), json.loads(body)


def pasted(line: str) -> str:
    return subprocess.run(line, shell=True, cwd="/", capture_output=True, text=True, check=True, timeout=60).stdout


def account_count(state_dir: Path) -> int:
    return len(lines(process("account", "list", "--json", "--state-dir", str(state_dir))))


def assert_it_serves_with_a_role_that_can_do_nothing_else(state_dir: Path) -> None:
    with embedded_postgres(state_dir) as url, connect(url) as connection:
        found = connection.execute(
            "select a.usename, r.rolsuper, has_table_privilege(r.oid, 'sepu.api_key', 'select') "
            "from pg_stat_activity a join pg_roles r on r.rolname = a.usename "
            "where a.application_name = 'sepu' and a.pid <> pg_backend_pid()"
        ).fetchall()
    assert set(found) == {("sepu_service", False, False)}


def assert_the_console_has_a_role_that_can_only_read(state_dir: Path) -> None:
    def read(reading: Callable[[], AbstractContextManager[psycopg.Connection]], *_: object) -> NoReturn:
        may_read = "has_column_privilege('sepu.stored_result', 'idempotency_key', 'select')"
        with reading() as connection:
            found = connection.execute(f"select user, rolconnlimit, {may_read} from pg_roles where rolname = user")
            raise SepuError(f"{found.fetchone()}, {vars(connection)['statement_seconds']}")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sepu.cli.console.create_console", read)
        done = invoke("console", "--bind", f"unix:{state_dir}/c", "--state-dir", str(state_dir), SEPU_DATABASE_URL=None)
    role = ("sepu_console", limits.database.ROLE_CONNECTIONS["read-only"], False)
    assert done.stderr == f"sepu: {role}, {limits.console.STATEMENT_SECONDS + 1}\n", "and waits a bounded time"


def test_a_curl_finds_a_socket_from_any_directory() -> None:
    assert {shlex.split(curl)[2] for curl in curls_of("unix:my http")} == {str(Path("my http").absolute())}


@pytest.mark.parametrize("where", ["tcp", pytest.param("unix", marks=pytest.mark.slow)])
def test_the_first_start_prints_a_key_and_curls_that_work(state_dir: Path, where: str) -> None:
    arguments = (
        ("--port", str(free_port()))
        if where == "tcp"
        else ("--bind", f"unix:{state_dir.parent}/http", "--worker", "gthread")
    )
    with serve(state_dir, *arguments) as printed:
        assert len(curls(printed)) == 4
        library, usage, match, search = map(answer, curls(printed))
        assert [status for status, _ in (library, usage, match, search)] == [200, 200, 200, 200]
        assert library[1]["recordCount"] == 161
        assert usage[1]["outcome"] == "ok"
        assert match[1]["results"][0]["matches"][0]["slug"] == "fei-hong"  # type: ignore[index]
        assert search[1]["results"][0]["slug"] == "tao-hong"  # type: ignore[index]
        assert_it_serves_with_a_role_that_can_do_nothing_else(state_dir)
        (api_key,) = set(re.findall(r"sepu_[a-z2-7_]+", printed))

        # The operator's commands work while it runs.
        account_id = str(usage[1]["accountId"])
        beside = lines(process("charges", account_id, "--json", "--state-dir", str(state_dir)))
        assert [charge["units"] for charge in beside] == [1, 1]
        assert_the_console_has_a_role_that_can_only_read(state_dir)

    with chdir(state_dir.parent), serve(Path(state_dir.name), *arguments, stop=signal.SIGTERM) as printed_again:
        assert api_key not in printed_again
        assert curls(printed_again) == []
        (line,) = re.findall(r"^ +(\S*sepu key issue .*)$", printed_again, re.MULTILINE)
        (another,) = re.findall(r"sepu_[a-z2-7_]+", pasted(line))
        assert answer(curls(printed)[1].replace(api_key, another))[1]["accountId"] == account_id
        assert answer(curls(printed)[1])[1]["usage"][0]["committed"] == 1  # type: ignore[index]
        assert_it_serves_with_a_role_that_can_do_nothing_else(state_dir)


@pytest.mark.parametrize("user", ["this user", "nobody"])
@pytest.mark.slow
def test_any_user_may_run_it_in_any_directory_without_a_locale(user: str) -> None:
    options: dict[str, Any] = {}
    if user == "nobody":
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        options = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        try:
            subprocess.run([SEPU, "--version"], check=True, timeout=60, capture_output=True, cwd="/", **options)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip(f"{SEPU} is closed to {user}")
    environment = {"LC_ALL": "C", "HOME": "/nowhere"}
    with tempfile.TemporaryDirectory(prefix="sepu-") as directory:
        place = Path(directory) / "my 色谱"
        place.mkdir()
        place.parent.chmod(0o755)  # root's Postgres runs as another user
        if user == "nobody":
            for path in (place.parent, place):
                shutil.chown(path, user)
        how = {"cwd": place, **options}
        with serve(place / "state", "--port", str(free_port()), environment=environment, **how) as printed:
            assert [answer(curl)[0] for curl in curls(printed)] == [200] * 4
            for command, wanted in (("account list --state-dir state", "standard"), ("match #c83c23", "绯红")):
                program = [str(SEPU), *command.split()]
                inherited = {name: value for name, value in os.environ.items() if name != "SEPU_DATABASE_URL"}
                told = subprocess.check_output(
                    program, timeout=60, encoding="utf-8", env={**inherited, **environment}, **how
                )
                assert wanted in told


def booted(log: Path, count: int) -> list[int]:
    """The process ids of the first `count` workers, once that many have booted."""

    def found() -> list[int]:
        return [int(pid) for pid in re.findall(r"Booting worker with pid: (\d+)", log.read_text())]

    until(lambda: len(found()) >= count, why=log.read_text)
    return found()


def postgres(state_dir: Path, killed: int = 0) -> int:
    """The process id of Postgres, once it differs from the killed one's."""

    def pid() -> int:
        with suppress(OSError, IndexError):  # while it starts, the file is missing or empty
            return int((state_dir / "postgres" / "postmaster.pid").read_text().split()[0])
        return killed

    until(lambda: pid() != killed)
    return pid()


@pytest.mark.slow
@pytest.mark.parametrize("worker_class", ["uvloop", "gthread"])
def test_postgres_comes_back_whatever_else_is_killed_and_nothing_in_the_working_directory_runs(
    state_dir: Path, tmp_path: Path, worker_class: str
) -> None:
    planted = f"from pathlib import Path; Path({str(tmp_path / 'has run')!r}).touch()"
    for name in ("sepu", "select", "signal", "subprocess", "psutil", "runpy", "fcntl"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(planted)
    arguments = ("--port", str(free_port()), "--workers", "1", "--worker", worker_class)
    with serve(state_dir, *arguments, cwd=tmp_path) as printed:
        log = state_dir.with_suffix(".log")
        (old,) = booted(log, 1)
        assert answer(curls(printed)[0])[0] == 200
        master = psutil.Process(old).parent()
        assert master is not None
        first = postgres(state_dir)
        os.kill(old, signal.SIGTERM)
        worker = booted(log, 2)[1]
        assert answer(curls(printed)[2])[0] == 200
        assert postgres(state_dir) == first, "a worker that ends leaves it running"
        others = {child.pid for child in master.children()} | {first}
        for pid in others - {worker}:
            os.kill(pid, signal.SIGKILL)
        second = postgres(state_dir, first)
        until(lambda: answer(curls(printed)[2])[0] == 200)
        os.kill(second, signal.SIGKILL)
        postgres(state_dir, second)
        until(lambda: answer(curls(printed)[3])[0] == 200)
    assert not (tmp_path / "has run").exists()


def test_a_taken_port_stops_it_before_it_touches_anything(state_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = process("serve", "--port", str(taken.getsockname()[1]), "--state-dir", str(state_dir))
    assert_failed(done, "is taken")
    assert not state_dir.exists()


@pytest.mark.slow
def test_a_terminal_without_chinese_and_colours_gets_the_same_greeting() -> None:
    ours, theirs = pty.openpty()
    with tempfile.TemporaryDirectory(prefix="sepu-桃 ") as directory, os.fdopen(ours, "rb"), os.fdopen(theirs, "rb"):
        state_dir = Path(directory) / "state"
        arguments = ("--bind", f"unix:{directory}/http", "--worker", "gthread", "--workers", "1")
        environment = {"PYTHONIOENCODING": "latin-1", "NO_COLOR": "1"}
        with serve(state_dir, *arguments, stdout=theirs, environment=environment):
            printed = os.read(ours, 65536).decode("latin-1").replace("\r", "")
        assert re.search(r"^  export SEPU_API_KEY=sepu_[a-z2-7_]+$", printed, re.MULTILINE)
        assert printed.count("  curl ") == 4
        assert account_count(state_dir) == 1


@pytest.mark.slow
def test_an_account_whose_key_could_not_be_shown_is_not_made(state_dir: Path) -> None:
    port = str(free_port())
    read, write = os.pipe()
    os.close(read)
    outputs: list[tuple[dict[str, Any], str]] = [
        ({"program": '"$@" >/dev/full'}, "No space left on device"),
        ({"stdout": write}, "Broken pipe"),
        ({"program": '"$@" >&-'}, "standard output is closed"),
    ]
    for how, reason in outputs:
        with serve(state_dir, "--port", port, "--log-format", "text", **how) as printed:
            assert f"the key of the demo account could not be shown ({reason})" in printed
            assert "sepu_" not in printed
            assert account_count(state_dir) == 0
            with socket.create_connection(("127.0.0.1", int(port))):
                pass
            (line,) = re.findall(r"or create one: (.*)$", printed, re.MULTILINE)
    os.close(write)
    with serve(state_dir, "--port", port, "--workers", "1") as printed:
        assert [answer(curl)[0] for curl in curls(printed)] == [200] * 4
        assert account_count(state_dir) == 1
        assert "apiKey" in pasted(line)


@pytest.mark.slow
def test_a_shown_key_that_was_not_stored_is_called_invalid(state_dir: Path) -> None:
    with embedded_postgres(state_dir) as url, connect(url) as connection:
        migrate(connection)
        connection.execute(
            "create function public.refuse() returns trigger language plpgsql as $$begin raise 'refused'; end$$;"
            "create constraint trigger refuse after insert on sepu.account deferrable initially deferred "
            "for each row execute function public.refuse()"
        )
    done = process("serve", "--port", str(free_port()), "--state-dir", str(state_dir))
    assert done.returncode == 1
    assert "SEPU_API_KEY=sepu_" in done.stdout
    assert done.stderr == "sepu: the database refused: refused; the key above may be invalid, so start again\n"
    assert account_count(state_dir) == 0


@pytest.mark.slow
def test_concurrent_first_starts_make_one_account(state_dir: Path) -> None:
    with ExitStack() as stack:
        logs = [state_dir.with_name(f"log{number}") for number in range(3)]
        processes = []
        for log in logs:
            how = {"stdout": stack.enter_context(log.open("wb")), "stderr": subprocess.STDOUT}
            command = [str(SEPU), "serve", "--port", str(free_port()), "--workers", "1", "--state-dir", str(state_dir)]
            processes.append(stack.enter_context(running(command, start_new_session=True, **how)))
        for log, each in zip(logs, processes, strict=True):
            await_listening(log, each)
        assert account_count(state_dir) == 1
        printed = [log.read_text() for log in logs]
        assert sum("SEPU_API_KEY=" in each for each in printed) == 1
        assert sum("is creating the demo account" in each or " key issue " in each for each in printed) == 2
        for each in processes:
            os.killpg(each.pid, signal.SIGTERM)
        assert [each.wait(STOP_SECONDS) for each in processes] == [0] * len(processes)
