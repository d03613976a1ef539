import os
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from sepu.server.embedded import _socket_directory, embedded_postgres, kept_running
from sepu.server.errors import StartError


@pytest.fixture
def state_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sepu-") as directory:
        yield Path(directory)


def running(state_dir: Path) -> bool:
    return (state_dir / "postgres" / "postmaster.pid").exists()


def test_the_last_user_stops_the_server_and_the_data_stays(state_dir: Path) -> None:
    with embedded_postgres(state_dir) as url:
        with psycopg.connect(url) as connection:
            connection.execute("create table kept as select 42 as answer")
        with embedded_postgres(state_dir) as same:
            assert same == url
        assert running(state_dir)
    assert not running(state_dir)

    with embedded_postgres(state_dir) as url, psycopg.connect(url) as connection:
        assert connection.execute("select answer from kept").fetchone() == (42,)


def test_it_is_durable_and_listens_on_a_private_socket_only(state_dir: Path) -> None:
    with embedded_postgres(state_dir) as url, psycopg.connect(url) as connection:
        settings: dict[str, str] = dict(
            connection.execute(
                "select name, setting from pg_settings where name in "
                "('fsync', 'synchronous_commit', 'full_page_writes', 'listen_addresses')"
            ).fetchall()
        )
        assert settings == {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "listen_addresses": ""}
        (socket_path,) = (path for path in (state_dir / "socket").iterdir() if path.is_socket())
        assert stat.S_IMODE(socket_path.stat().st_mode) == 0o700
        assert stat.S_IMODE(socket_path.parent.stat().st_mode) == 0o700


def test_it_starts_again_after_a_crash(state_dir: Path) -> None:
    with embedded_postgres(state_dir):
        pid = int((state_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
    with embedded_postgres(state_dir) as url, psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_half_made_cluster_is_made_anew(state_dir: Path) -> None:
    (state_dir / "postgres.new").mkdir()
    (state_dir / "postgres.new" / "PG_VERSION").write_text("18\n")
    with embedded_postgres(state_dir) as url, psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_path_too_long_for_a_socket_is_no_obstacle(state_dir: Path) -> None:
    deep = state_dir / ("d" * 60) / ("e" * 60)
    with embedded_postgres(deep) as url, psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_socket_directory_that_somebody_else_made_is_refused(state_dir: Path) -> None:
    deep = state_dir / ("d" * 60) / ("e" * 60)
    sockets = _socket_directory(deep)
    assert sockets.parent == Path(tempfile.gettempdir())
    sockets.symlink_to(state_dir)
    try:
        with pytest.raises(StartError, match="belongs to somebody else"), embedded_postgres(deep):
            pass
    finally:
        sockets.unlink()


def test_an_unwritable_directory_is_refused_with_the_way_out(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with (
        pytest.raises(StartError, match="cannot write in the state directory .*--state-dir"),
        embedded_postgres(in_the_way / "state"),
    ):
        pass


@pytest.mark.parametrize("name", ["a,b", "it's", "$HOME", "back`tick", 'quo"te', "line\nbreak"])
def test_a_path_that_pg_ctl_would_not_take_literally_is_refused(state_dir: Path, name: str) -> None:
    with pytest.raises(StartError, match="choose another"), embedded_postgres(state_dir / name):
        pass
    assert list(state_dir.iterdir()) == []


def test_a_cluster_of_another_user_is_refused(state_dir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's cluster")
    with embedded_postgres(state_dir):
        pass
    os.chown(state_dir / "postgres", 12345, 12345)
    with pytest.raises(StartError, match="belongs to user id 12345"), embedded_postgres(state_dir):
        pass


def test_while_kept_running_it_comes_back_from_a_crash(state_dir: Path) -> None:
    with embedded_postgres(state_dir) as url, kept_running(state_dir):
        with psycopg.connect(url) as connection:
            connection.execute("create table kept as select 42 as answer")
        pid = int((state_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while True:
            try:
                with psycopg.connect(url) as connection:
                    assert connection.execute("select answer from kept").fetchone() == (42,)
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
    assert not running(state_dir)


def test_a_cluster_that_was_removed_is_not_made_anew_while_kept_running(state_dir: Path) -> None:
    with embedded_postgres(state_dir), kept_running(state_dir):
        pid = int((state_dir / "postgres" / "postmaster.pid").read_text().splitlines()[0])
        (state_dir / "postgres").rename(state_dir / "removed")
        os.kill(pid, signal.SIGKILL)
        time.sleep(3)  # three looks of the watcher
        assert not (state_dir / "postgres").exists()


def test_a_damaged_cluster_is_refused_with_the_end_of_the_log(state_dir: Path) -> None:
    with embedded_postgres(state_dir):
        pass
    (state_dir / "postgres" / "global" / "pg_control").unlink()
    with pytest.raises(StartError, match="did not start(.|\n)*pg_control"), embedded_postgres(state_dir):
        pass
