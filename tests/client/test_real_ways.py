"""Both clients through programs that customers use: nginx with TLS, and two proxies with a password."""

import os
import signal
import ssl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.client.blocking import Open, committed
from tests.deploy.nginx import BehindNginx, behind_nginx, certificate, listens
from tests.harness.processes import running, until
from tests.harness.serving import Server, free_port, serving
from tests.programs import program

from sepu.admin.keys import IssuedKey
from sepu_client import NoAnswerError

PASSWORD, ENCODED = "pa55word", "pa%35%35word"  # tinyproxy takes no special characters


@pytest.fixture(scope="module")
def service(database_url: str) -> Iterator[Server]:
    """A service on a Unix socket, for nginx."""
    with serving("uvloop", database_url, unix=True) as server:
        yield server


@pytest.fixture(scope="module")
def secure(service: Server) -> Iterator[BehindNginx]:
    """The same service behind nginx with TLS."""
    program("nginx", "nginx")
    with behind_nginx(Path(service.address.removeprefix("unix:")), service=service) as server:
        yield server


@contextmanager
def proxy(program_name: str, package: str, settings: str, *options: str) -> Iterator[tuple[Path, str]]:
    """Runs a proxy with these settings in its own directory; yields the directory and the address."""
    path, port = program(program_name, package), free_port()
    with TemporaryDirectory(prefix="sepu-") as name:
        directory = Path(name)
        directory.chmod(0o777)  # a proxy that root starts runs as another user
        certificate(directory / "proxy.pem", directory / "proxy.key")
        file = directory / "settings"
        file.write_text(settings.format(port=port, directory=directory))
        log = directory / "output"
        with log.open("w") as output, running([path, *options, file], stdout=output, stderr=output) as process:
            until(lambda: listens(port) or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            yield directory, f"127.0.0.1:{port}"


def tinyproxy() -> AbstractContextManager[tuple[Path, str]]:
    """Runs a tinyproxy that demands a user and a password."""
    settings = (
        f"Port {{port}}\nListen 127.0.0.1\nTimeout 60\nBasicAuth sepu {PASSWORD}\nLogLevel Error\nMaxClients 20\n"
    )
    return proxy("tinyproxy", "tinyproxy-bin", settings, "-d", "-c")


SQUID = """
https_port 127.0.0.1:{port} tls-cert={directory}/proxy.pem tls-key={directory}/proxy.key
http_access allow all
pid_filename none
cache_log {directory}/log
access_log none
cache_store_log none
cache deny all
coredump_dir {directory}
shutdown_lifetime 0 seconds
cache_effective_user proxy
"""


def test_nginx_with_tls_also_while_it_reloads(open_client: Open, secure: BehindNginx, issued: IssuedKey) -> None:
    """A reload closes kept connections; with TLS session tickets or without, no call fails."""
    with open_client(f"https://{secure.address}", issued.api_key, ssl_context=secure.context) as client:
        for number in range(1, 7):
            assert committed(client.match(["#C83C23"])) == number
            if number % 2 == 0:
                os.kill(int((secure.directory / "nginx.pid").read_text()), signal.SIGHUP)
    with open_client(f"https://{secure.address}", issued.api_key) as client, pytest.raises(NoAnswerError) as raised:
        client.match(["#C83C23"])
    assert "CERTIFICATE_VERIFY_FAILED" in str(raised.value)


def test_plain_http_through_a_proxy(
    open_client: Open, uvloop: Server, issued: IssuedKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tinyproxy() as (_, address):
        monkeypatch.setenv("http_proxy", f"http://sepu:{ENCODED}@{address}")
        with open_client(f"http://{uvloop.address}", issued.api_key) as client:
            assert [committed(client.match(["#C83C23"])) for _ in range(3)] == [1, 2, 3]


def test_tls_within_tls(open_client: Open, secure: BehindNginx, issued: IssuedKey) -> None:
    """Through a proxy that itself requires TLS."""
    with proxy("squid", "squid-openssl", SQUID, "-N", "-n", f"sepu{os.getpid()}", "-f") as (directory, address):
        context = ssl.create_default_context(cafile=directory / "proxy.pem")
        context.load_verify_locations(secure.directory / "fullchain.pem")
        with open_client(
            f"https://{secure.address}", issued.api_key, ssl_context=context, proxy=f"https://{address}"
        ) as client:
            assert [committed(client.match(["#C83C23"])) for _ in range(3)] == [1, 2, 3]
