import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.serving import free_port, serving

from sepu import limits
from sepu.errors import StartError
from sepu.server.gunicorn import Worker
from sepu.server.listen import address


@pytest.fixture
def short_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sepu-") as directory:
        yield Path(directory)


def test_addresses(short_dir: Path) -> None:
    port = free_port()
    assert address("::1", port, None, "gthread") == f"[::1]:{port}"
    assert address("127.0.0.1", port, f"unix:{short_dir}/http", "meinheld") == f"unix:{short_dir}/http"


@pytest.mark.parametrize(
    ("host", "bind", "worker", "said"),
    [
        *(("127.0.0.1", bind, "uvloop", "--bind takes unix:PATH") for bind in ("127.0.0.1:8000", "unix:", "/run", "")),
        ("127.0.0.1", "unix:/nowhere/at/all/http", "uvloop", "no directory for the socket"),
        ("127.0.0.1", None, "meinheld", "only on a unix socket"),
        ("192.0.2.1", None, "uvloop", r"cannot listen on 192\.0\.2\.1:8000"),
    ],
)
def test_what_nobody_can_listen_on_is_refused(host: str, bind: str | None, worker: Worker, said: str) -> None:
    with pytest.raises(StartError, match=said):
        address(host, 8000, bind, worker)


def test_a_taken_port_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            taken.accept()[0].close()  # the side that closes first remembers the connection for a minute
        with pytest.raises(StartError, match=f"port {port} is taken.*make serve PORT="):
            address("127.0.0.1", port, None, "uvloop")
    assert address("127.0.0.1", port, None, "uvloop") == f"127.0.0.1:{port}"


def test_a_live_socket_is_not_taken_over_and_a_dead_one_is(short_dir: Path) -> None:
    path = short_dir / "http"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        with pytest.raises(StartError, match="a server is listening"):
            address("127.0.0.1", 8000, f"unix:{path}", "uvloop")
    assert path.is_socket()
    assert address("127.0.0.1", 8000, f"unix:{path}", "uvloop") == f"unix:{path}"


def test_a_file_in_the_way_and_a_path_too_long(short_dir: Path) -> None:
    (short_dir / "http").write_text("")
    with pytest.raises(StartError, match="is not a socket"):
        address("127.0.0.1", 8000, f"unix:{short_dir}/http", "uvloop")
    longest = f"unix:{short_dir}/".ljust(len("unix:") + limits.workers.SOCKET_PATH_BYTES, "x")
    assert address("127.0.0.1", 8000, longest, "uvloop") == longest
    with pytest.raises(StartError, match=f"at most {limits.workers.SOCKET_PATH_BYTES} bytes"):
        address("127.0.0.1", 8000, f"{longest[:-1]}é", "uvloop")


def test_the_socket_is_for_user_and_group(database_url: str) -> None:
    with serving("uvloop", database_url, workers=1, unix=True) as server:
        assert stat.S_IMODE(Path(server.address.removeprefix("unix:")).stat().st_mode) == 0o660
