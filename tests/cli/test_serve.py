"""`sepu serve` on the embedded database, as a newcomer meets it."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.serving import SEPU, START_SECONDS, free_port

from sepu.cli.database import connect
from sepu.server.embedded import embedded_postgres


@pytest.fixture
def state_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sepu-") as directory:
        Path(directory).chmod(0o755)  # root's Postgres runs as another user
        yield Path(directory) / "state"


def start(state_dir: Path, *arguments: str, cwd: Path | None = None) -> tuple[subprocess.Popen[bytes], str]:
    """Starts it in a process group of its own, as a shell would, and waits until it listens."""
    log = state_dir.with_suffix(".log")
    environment = {name: value for name, value in os.environ.items() if name != "SEPU_DATABASE_URL"}
    with log.open("w") as output:
        process = subprocess.Popen(
            [SEPU, "serve", "--state-dir", str(state_dir), *arguments],
            env=environment,
            cwd=cwd,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS
    while "Listening at" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    return process, log.read_text()


@contextmanager
def serve(
    state_dir: Path, *arguments: str, stop: signal.Signals = signal.SIGINT, cwd: Path | None = None
) -> Iterator[str]:
    """Runs it, yields what it printed, and stops it as a person would."""
    process, printed = start(state_dir, *arguments, cwd=cwd)
    try:
        yield printed
    finally:
        os.killpg(process.pid, stop)  # Ctrl-C reaches the whole foreground group
        status = process.wait(40)
    assert status == 0, state_dir.with_suffix(".log").read_text()
    assert not (state_dir / "postgres" / "postmaster.pid").exists()


def curls(printed: str) -> list[str]:
    return re.findall(r"^ +(curl .*)$", printed, re.MULTILINE)


def answer(curl: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [*shlex.split(curl), "-s", "-w", "\n%{http_code}"], capture_output=True, text=True, check=True, timeout=30
    )
    body, status = done.stdout.rsplit("\n", 1)
    return int(status), json.loads(body)


@pytest.mark.parametrize("where", ["tcp", "unix"])
def test_the_first_start_prints_a_key_and_curls_that_work_as_pasted(state_dir: Path, where: str) -> None:
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
        (api_key,) = set(re.findall(r"sepu_[a-z2-7_]+", printed))

        # The operator's commands work beside it.
        account_id = str(usage[1]["accountId"])
        beside = subprocess.run(
            [SEPU, "usage", account_id, "--json", "--state-dir", str(state_dir)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert [meter["committed"] for meter in json.loads(beside.stdout)["usage"]] == [1, 1]

    with serve(state_dir, *arguments, stop=signal.SIGTERM) as printed_again:
        assert api_key not in printed_again
        assert curls(printed_again) == []
        assert answer(curls(printed)[1])[1]["usage"][0]["committed"] == 1  # type: ignore[index]


def booted(log: Path, count: int) -> list[int]:
    """The process ids of the first `count` workers, once there have been so many."""
    deadline = time.monotonic() + START_SECONDS
    while len(found := re.findall(r"Booting worker with pid: (\d+)", log.read_text())) < count:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return [int(pid) for pid in found]


@pytest.mark.parametrize("worker", ["asgi", "gthread"])
def test_a_worker_that_ends_leaves_the_database_running(state_dir: Path, worker: str) -> None:
    with serve(state_dir, "--port", str(free_port()), "--worker", worker, "--workers", "1") as printed:
        log, pid_file = state_dir.with_suffix(".log"), state_dir / "postgres" / "postmaster.pid"
        postgres = pid_file.read_text()
        (pid,) = booted(log, 1)
        assert answer(curls(printed)[0])[0] == 200
        os.kill(pid, signal.SIGTERM)
        booted(log, 2)
        assert answer(curls(printed)[2])[0] == 200
        assert pid_file.read_text() == postgres


def test_it_serves_with_a_role_that_can_do_nothing_else(state_dir: Path) -> None:
    port = str(free_port())
    shown: list[str] = []
    for _ in range(2):  # the role is made once
        with serve(state_dir, "--port", port, "--workers", "1") as printed:
            shown = shown or curls(printed)
            assert [answer(curl)[0] for curl in shown] == [200] * 4
            with embedded_postgres(state_dir) as url, connect(url) as connection:
                found = connection.execute(
                    "select a.usename, r.rolsuper, has_table_privilege(r.oid, 'sepu.api_key', 'select') "
                    "from pg_stat_activity a join pg_roles r on r.rolname = a.usename "
                    "where a.application_name = 'sepu' and a.pid <> pg_backend_pid()"
                ).fetchall()
            assert set(found) == {("sepu_service", False, False)}


def postgres(state_dir: Path) -> int:
    return int((state_dir / "postgres" / "postmaster.pid").read_text().split()[0])


def test_postgres_comes_back_whatever_else_is_killed_and_nothing_in_the_working_directory_runs(
    state_dir: Path, tmp_path: Path
) -> None:
    planted = f"from pathlib import Path; Path({str(tmp_path / 'has run')!r}).touch()"
    for name in ("sepu", "select", "signal", "subprocess", "psutil", "runpy", "fcntl"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(planted)
    with serve(state_dir, "--port", str(free_port()), "--workers", "1", cwd=tmp_path) as printed:
        log = state_dir.with_suffix(".log")
        (worker,) = booted(log, 1)
        assert answer(curls(printed)[0])[0] == 200
        master = psutil.Process(worker).parent()
        assert master is not None
        others = {child.pid for child in master.children()} | {postgres(state_dir)}
        for pid in others - {worker}:
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + START_SECONDS
        while answer(curls(printed)[2])[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(postgres(state_dir), signal.SIGKILL)
        time.sleep(0.1)
        while answer(curls(printed)[3])[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert not (tmp_path / "has run").exists()


def test_a_taken_port_stops_it_before_it_touches_anything(state_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = subprocess.run(
            [SEPU, "serve", "--port", str(taken.getsockname()[1]), "--state-dir", str(state_dir)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 1
    assert "is taken" in done.stderr
    assert not state_dir.exists()


def test_killed_hard_it_starts_again_with_everything_charged(state_dir: Path) -> None:
    port = str(free_port())
    process, printed = start(state_dir, "--port", port)
    _, usage, match, _ = curls(printed)
    assert answer(match)[0] == 200
    os.killpg(process.pid, signal.SIGKILL)  # the server and its workers; Postgres lives in a session of its own
    process.wait()

    with serve(state_dir, "--port", port):
        assert answer(usage)[1]["usage"][0]["committed"] == 1  # type: ignore[index]
        assert answer(match)[0] == 200
        assert answer(usage)[1]["usage"][0]["committed"] == 1  # type: ignore[index]
