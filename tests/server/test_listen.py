import socket

import pytest

from sepu.server.errors import StartError
from sepu.server.listen import address, require_free


def test_addresses(tmp_path: object) -> None:
    assert address("127.0.0.1", 8000, None, "asgi") == "127.0.0.1:8000"
    assert address("::1", 8000, None, "gthread") == "[::1]:8000"
    assert address("127.0.0.1", 8000, f"unix:{tmp_path}/http", "meinheld") == f"unix:{tmp_path}/http"


@pytest.mark.parametrize("bind", ["127.0.0.1:8000", "unix:", "/run/sepu", "fd://3", ""])
def test_bind_is_a_unix_socket(bind: str) -> None:
    with pytest.raises(StartError, match="--bind takes unix:PATH"):
        address("127.0.0.1", 8000, bind, "asgi")


def test_the_sockets_directory_must_exist() -> None:
    with pytest.raises(StartError, match="no directory for the socket"):
        address("127.0.0.1", 8000, "unix:/nowhere/at/all/http", "asgi")


def test_meinheld_takes_no_tcp_address() -> None:
    with pytest.raises(StartError, match="only on a unix socket"):
        address("127.0.0.1", 8000, None, "meinheld")


def test_a_taken_port_is_named_with_the_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"port {port} is taken.*make serve PORT="):
            require_free("127.0.0.1", port)
    require_free("127.0.0.1", port)


def test_a_foreign_address_is_refused() -> None:
    with pytest.raises(StartError, match=r"cannot listen on 192\.0\.2\.1:8000"):
        require_free("192.0.2.1", 8000)
