"""Both clients through programs that customers use: nginx, HAProxy and stunnel with TLS, and two proxies."""

import getpass
import grp
import os
import signal
import ssl
import uuid
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
from sepu_client import IdempotencyConflictError, InvalidAnswerError, NoAnswerError, RateLimitedError

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
def proxy(program_name: str, package: str, settings: str, *options: str, **own: str) -> Iterator[tuple[Path, str]]:
    """Runs a proxy with these settings in its own directory; yields the directory and the address."""
    path, port = program(program_name, package), free_port()
    with TemporaryDirectory(prefix="sepu-") as name:
        directory = Path(name)
        directory.chmod(0o777)  # a proxy that root starts runs as another user
        for name in ("proxy", "client", "other"):
            certificate(directory / f"{name}.pem", directory / f"{name}.key")
        (directory / "proxy.both").write_text(
            (directory / "proxy.pem").read_text() + (directory / "proxy.key").read_text()
        )
        file = directory / "settings"
        file.write_text(settings % {"port": port, "directory": directory, **own})
        log = directory / "output"
        with log.open("w") as output, running([path, *options, file], stdout=output, stderr=output) as process:
            until(lambda: listens(port) or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            yield directory, f"127.0.0.1:{port}"


TINYPROXY = """
Port %(port)s
Listen 127.0.0.1
Timeout 60
BasicAuth sepu %(password)s
LogLevel Error
MaxClients 20
"""


def tinyproxy() -> AbstractContextManager[tuple[Path, str]]:
    """Runs a tinyproxy that demands a user and a password."""
    return proxy("tinyproxy", "tinyproxy-bin", TINYPROXY, "-d", "-c", password=PASSWORD)


SQUID = """
https_port 127.0.0.1:%(port)s tls-cert=%(directory)s/proxy.pem tls-key=%(directory)s/proxy.key
http_access allow all
pid_filename none
cache_log %(directory)s/log
access_log none
cache_store_log none
cache deny all
coredump_dir %(directory)s
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


# Each requires the client's certificate, client.pem.
HAPROXY = """
defaults
    mode http
    timeout connect 10s
    timeout client 60s
    timeout server 60s
listen tls
    bind 127.0.0.1:%(port)s ssl crt %(directory)s/proxy.both verify required \
        ca-file %(directory)s/client.pem %(versions)s
    server service unix@%(socket)s
"""
STUNNEL = """
foreground = yes
pid =
[tls]
accept = 127.0.0.1:%(port)s
connect = %(socket)s
cert = %(directory)s/proxy.both
CAfile = %(directory)s/client.pem
verifyChain = yes
%(versions)s
"""


def test_stunnel_logs_why_its_certificate_was_refused(open_client: Open, service: Server) -> None:
    own = {"socket": service.address.removeprefix("unix:"), "versions": "verifyChain = no"}
    with proxy("stunnel4", "stunnel4", STUNNEL.replace("verifyChain = yes\n", ""), **own) as (directory, address):
        with open_client(f"https://{address}", "sepu_key") as client, pytest.raises(NoAnswerError):
            client.library()
        until(lambda: "unknown ca" in (directory / "output").read_text())


@pytest.mark.parametrize(
    ("name", "option", "settings", "versions"),
    [
        ("haproxy", "-f", HAPROXY, ""),
        ("haproxy", "-f", HAPROXY, "ssl-max-ver TLSv1.2"),
        ("stunnel4", "", STUNNEL, ""),
    ],
)
def test_a_refused_client_certificate_ends_a_call(
    open_client: Open, service: Server, issued: IssuedKey, name: str, option: str, settings: str, versions: str
) -> None:
    """With TLS 1.3, the alert arrives after the client's handshake, in place of the first answer."""
    own_settings = {"socket": service.address.removeprefix("unix:"), "versions": versions}
    with proxy(name, name, settings, *filter(None, [option]), **own_settings) as (directory, address):
        for own, alert in (
            ("client", ""),
            ("other", "(?i)unknown_ca"),
            ("", "(?i)certificate_required|handshake_failure"),
        ):
            context = ssl.create_default_context(cafile=directory / "proxy.pem")
            if own:
                context.load_cert_chain(directory / f"{own}.pem", directory / f"{own}.key")
            with open_client(f"https://{address}", issued.api_key, ssl_context=context) as client:
                if not alert:
                    assert [committed(client.match(["#C83C23"])) for _ in range(2)] == [1, 2]
                    continue
                with pytest.raises(NoAnswerError, match=alert) as raised:
                    client.match(["#C83C23"])
            assert not raised.value.retryable
            assert not raised.value.may_be_charged


NGINX = """
daemon off;
user %(user)s;
pid %(directory)s/pid;
events {}
http {
    access_log off;
    client_body_temp_path %(directory)s/body;
    proxy_temp_path %(directory)s/proxied;
    fastcgi_temp_path %(directory)s/fastcgi;
    uwsgi_temp_path %(directory)s/uwsgi;
    scgi_temp_path %(directory)s/scgi;
    upstream service { server unix:%(socket)s; }
    server {
        listen 127.0.0.1:%(port)s;
        add_header X-Request-ID $request_id always;
        add_header Idempotency-Replayed $upstream_http_idempotency_replayed always;
        location / { proxy_pass http://service; }
        location /renamed/ {
            proxy_pass http://service/;
            proxy_hide_header X-Request-Id;
            proxy_hide_header X-Usage-Limit;
        }
        location /denied/ { deny all; }
        location /private/ { auth_basic private; auth_basic_user_file %(directory)s/nobody; }
        location /busy/ { return 429; }
    }
}
"""


def test_what_nginx_adds_and_answers_itself(open_client: Open, service: Server, issued: IssuedKey) -> None:
    own_settings = {
        "socket": service.address.removeprefix("unix:"),
        "user": f"{getpass.getuser()} {grp.getgrgid(os.getegid()).gr_name}",
    }
    with proxy("nginx", "nginx", NGINX, "-p", "/tmp", "-c", **own_settings) as (_, address):
        with open_client(f"http://{address}", issued.api_key) as client:
            answer = client.match(["#C83C23"], idempotency_key="order-4711")
            assert uuid.UUID(answer.request_id)  # the service's, and not nginx's
            assert client.match(["#C83C23"], idempotency_key="order-4711").replayed
            with pytest.raises(IdempotencyConflictError) as raised:
                client.match(["#fff"], idempotency_key="order-4711")
            assert uuid.UUID(raised.value.request_id)
            assert not raised.value.may_be_charged
        with open_client(f"http://{address}/renamed", issued.api_key) as client:
            again = client.match(["#C83C23"], idempotency_key="order-4711")
            assert (again.results, again.replayed, again.request_id, again.usage) == (answer.results, True, None, None)
        for place, status in (("denied", 403), ("private", 401), ("busy", 429)):
            with open_client(f"http://{address}/{place}", issued.api_key, deadline=0.3) as client:
                expected = RateLimitedError if status == 429 else InvalidAnswerError
                with pytest.raises(expected, match=f"^{status}") as refused:
                    client.match(["#C83C23"])
            assert "server in between" in str(refused.value)
            assert refused.value.may_be_charged


@pytest.mark.parametrize("password", ["", "sepu:wrong@"])
def test_a_proxy_that_refuses(open_client: Open, issued: IssuedKey, password: str) -> None:
    """With 401 and 407, which are not the service's."""
    with tinyproxy() as (_, address):
        for url, expected in (("http://127.0.0.1:9", InvalidAnswerError), ("https://127.0.0.1:9", NoAnswerError)):
            with (
                open_client(url, issued.api_key, proxy=f"http://{password}{address}", deadline=20) as client,
                pytest.raises(expected, match="40[17]") as raised,
            ):
                client.match(["#C83C23"])
            assert raised.value.may_be_charged == (expected is InvalidAnswerError)
            assert not raised.value.retryable
