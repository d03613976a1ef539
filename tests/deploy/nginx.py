"""The nginx that we ship, in front of a service. Only paths, ports and user of its configuration differ."""

import getpass
import grp
import http.client
import itertools
import os
import re
import socket
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

from tests.harness.processes import completed, running, until
from tests.harness.serving import Server, free_port
from tests.programs import program

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx" / "nginx.conf"

_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class _Socket(ssl.SSLSocket):
    """Can shut down one direction and still read, unlike Python's SSL socket."""

    def shutdown(self, how: int) -> None:
        socket.socket.shutdown(self, how)


@dataclass
class BehindNginx(Server):
    """The service behind nginx; `address` is nginx's.

    Each connection comes from a different address, so that the limits per address do not slow the tests.
    """

    directory: Path = field(kw_only=True)
    context: ssl.SSLContext = field(kw_only=True)
    _sources: Iterator[int] = field(default_factory=lambda: itertools.count(2), repr=False)

    def connect(self, timeout: float = 30, source: str | None = None) -> http.client.HTTPConnection:
        source = source or str(IPv4Address("127.0.0.0") + next(self._sources))
        return http.client.HTTPSConnection(
            self.address, context=self.context, timeout=timeout, source_address=(source, 0)
        )

    def access_log(self) -> str:
        return (self.directory / "access.log").read_text()

    def error_log(self) -> str:
        return (self.directory / "error.log").read_text()


@contextmanager
def behind_nginx(*sockets: Path, service: Server | None = None, read_seconds: int = 15) -> Iterator[BehindNginx]:
    """Runs nginx in front of these sockets; workers and log are the service's. `read_seconds` is its wait for them."""
    nginx = program("nginx", "nginx")
    with tempfile.TemporaryDirectory(prefix="sepu-nginx-") as name:
        directory = Path(name)
        chain = directory / "fullchain.pem"
        certificate(chain, directory / "privkey.pem")
        context = ssl.create_default_context(cafile=chain)
        context.sslsocket_class = _Socket
        port = free_port()
        (directory / "nginx.conf").write_text(rendered(directory, port, sockets, read_seconds))
        log = directory / "output"
        command: list[str | Path] = [nginx, "-p", directory, "-c", directory / "nginx.conf", "-g", "daemon off;"]
        with log.open("w") as output, running(command, stdout=output, stderr=output, text=True) as process:
            until(lambda: listens(port) or process.poll() is not None, why=log.read_text)
            assert process.poll() is None, log.read_text()
            yield BehindNginx(
                service.worker if service else "none",
                f"127.0.0.1:{port}",
                service.process if service else process,
                service.log if service else log,
                directory=directory,
                context=context,
            )


def rendered(directory: Path, port: int, sockets: Sequence[Path], read_seconds: int) -> str:
    """The shipped configuration with a test's directory and port."""
    text = CONFIGURATION.read_text()
    temporary = "".join(f"    {kind}_temp_path {directory}/{kind};\n" for kind in _TEMPORARY)
    servers = "".join(f"        server unix:{path} max_fails=0;\n" for path in sockets)
    for found, wanted, times in (
        (r"^user www-data;", f"user {getpass.getuser()} {grp.getgrgid(os.getegid()).gr_name};", 1),
        (r"^pid /run/nginx\.pid;", f"pid {directory}/nginx.pid;", 1),
        (r"/var/log/nginx/", f"{directory}/", 3),
        (r"/etc/nginx/tls/", f"{directory}/", 2),
        (r"listen 443 ", f"listen 127.0.0.1:{port} ", 1),
        (r"listen \[::\]:443 ", f"listen 127.0.0.1:{free_port()} ", 1),
        (r"^http \{\n", f"http {{\n{temporary}", 1),
        (r"(^ *server unix:.*\n)+", servers, 1),
        (r"proxy_read_timeout 15s;", f"proxy_read_timeout {read_seconds}s;", 1),
    ):
        text, count = re.subn(found, wanted, text, flags=re.MULTILINE)
        assert count == times, found
    return text


def certificate(chain: Path, key: Path, days: int = 2) -> None:
    """Makes a self-signed certificate."""
    request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", f"{days}"]
    name = ["-subj", "/CN=sepu", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(chain)]
    done = completed([program("openssl", "openssl"), *request, *name])
    assert done.returncode == 0, done.stderr


def listens(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False
