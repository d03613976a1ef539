"""nginx in front of the real service: the contract, what it refuses and hides, and upstreams that do not answer."""

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest
from tests.deploy.nginx import BehindNginx, behind_nginx
from tests.harness.processes import until
from tests.harness.serving import Response, serving, until_closed
from tests.http.contract import Case, World, check_case, every_case
from tests.http.raw import (
    CHUNKED,
    GET,
    HEAD,
    MALFORMED,
    MALFORMED_TO_THE_STRICT,
    ONE,
    POST,
    TOO_LARGE,
    check_error,
    check_refusal,
    check_requests_in_a_row,
    everything,
    parsed,
)
from tests.programs import program

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.plans import set_plan
from sepu.admin.usage import show_usage

pytestmark = pytest.mark.slow

whoever_serves = pytest.mark.parametrize("server", ["uvloop"], indirect=True)  # the kind of worker does not matter


def check(response: Response, code: str) -> str:
    return check_error(response.status, dict(response.headers), response.body, code)


def reached_the_service(server: BehindNginx, request_id: str) -> bool:
    """Reads the access log, which is written when the answer has been sent."""
    logged: list[dict[str, str]] = []

    def is_logged() -> bool:
        entries = (json.loads(line) for line in server.access_log().splitlines())
        logged.extend(entry for entry in entries if entry["request_id"] == request_id)
        return bool(logged)

    until(is_logged)
    return bool(logged[0]["upstream_status"])


# --- the contract: what a customer sees


@whoever_serves  # tests/http has each worker
@every_case
def test_contract(
    case: Case, server: BehindNginx, database_url: str, connection: psycopg.Connection, issued: IssuedKey
) -> None:
    if case.error == "idempotency_key_invalid" and case.idempotency_key == "":
        case = replace(case, error="idempotency_key_required")  # nginx drops an empty header
    check_case(case, server, World(database_url, connection, issued))


def test_requests_in_a_row_are_answered_in_order(server: BehindNginx, issued: IssuedKey) -> None:
    check_requests_in_a_row(server, issued)


# --- bytes that are not a request


SHORT = b"C: %b\r\n" % (b"c" * 90)

# nginx tests its own strictness: here each refusal has the contract's form.
REFUSED = {
    **MALFORMED,
    **MALFORMED_TO_THE_STRICT,
    "long-body": (POST + b"Content-Length: 65537\r\n\r\n", TOO_LARGE),
    # A line must fit into one buffer, so the rest of some stays empty: 17.2 KiB.
    "long-head": (GET + b"A: %b\r\n" % (b"a" * 920) + (SHORT + b"B: %b\r\n" % (b"b" * 8185)) * 2 + SHORT, HEAD),
    "long-chunks": (CHUNKED + b"ffff\r\n" + b"a" * 65535 + b"\r\n2\r\naa\r\n", TOO_LARGE),
}


@whoever_serves
@pytest.mark.parametrize(("sent", "code"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_request_ends_at_nginx(server: BehindNginx, sent: bytes, code: str) -> None:
    headers = check_refusal(everything(server, sent), code)
    assert headers["server"] == "nginx"
    assert not reached_the_service(server, headers["x-request-id"])


@whoever_serves
def test_http_0_9_gets_no_answer(server: BehindNginx) -> None:
    assert everything(server, b"GET /v1/library\r\n") == b""


@whoever_serves
def test_refusals_over_http_2(server: BehindNginx, tmp_path: Path) -> None:
    """It refuses in other ways: the body of a refused request may still be checked."""
    body = tmp_path / "body"
    body.write_bytes(b"a" * 65537)
    ask = [program("curl", "curl"), "--http2", "--silent", "--include", "--insecure"]
    for sent, code in (
        (["/v1/match", "--data-binary", f"@{body}"], TOO_LARGE),
        (["/v1/match", "--data-binary", f"@{body}", "--header", "Content-Length:"], TOO_LARGE),
        (["/nowhere", "--data-binary", f"@{body}"], TOO_LARGE),
        (["/nowhere", "--data-binary", "a"], "not_found"),
        (["/v1/match", "--request", "BREW"], "method_not_allowed"),
        (["/v1/usage"], "unauthorized"),
    ):
        command = [*ask, f"https://{server.address}{sent[0]}", *sent[1:]]
        done = subprocess.run(command, capture_output=True, check=True, timeout=30)
        assert done.stdout.startswith(b"HTTP/2 ")
        check_error(*parsed(done.stdout), code)
    command = [*ask, "--header", f"A: {token_hex(10_000)}", f"https://{server.address}/v1/usage"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=30)
    assert (done.returncode > 0, done.stdout) == (True, b""), "nginx ends the connection"
    until(lambda: 0 in [json.loads(line)["status"] for line in server.access_log().splitlines()])


# --- too many requests


@whoever_serves
def test_an_address_that_asks_too_much(server: BehindNginx, issued: IssuedKey) -> None:
    bearer = {"Authorization": f"Bearer {issued.api_key}"}
    statuses: list[int] = []
    while len(statuses) < 300 and 429 not in statuses:
        answer = server.request("GET", "/nowhere", bearer, keep=True)
        statuses.append(answer.status)
    server.hang_up()
    assert len(statuses) > 100
    assert not reached_the_service(server, check(answer, "rate_limited"))
    assert server.request("GET", "/healthz").status == 200  # from another address


def test_what_the_service_is_told_of_a_client(tmp_path: Path) -> None:
    """Only the headers that the service reads."""
    with silent(tmp_path / "socket") as upstream, behind_nginx(tmp_path / "socket") as server, server.socket() as raw:
        claims = b"X-Forwarded-For: 203.0.113.7\r\nx-forwarded-for: 203.0.113.8\r\nX_Forwarded_For: 203.0.113.9\r\n"
        raw.sendall(GET + claims + b"Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\nTE: trailers\r\nX: y\r\n\r\n")
        taken, _ = upstream.accept()
        with taken:
            told = taken.recv(65536)
    assert told == b"GET /v1/library HTTP/1.1\r\nHost: sepu\r\n\r\n"


# --- logs


def test_no_log_has_a_key_or_a_question(server: BehindNginx, issued: IssuedKey) -> None:
    key = issued.api_key
    bearer = {"Authorization": f"Bearer {key}", "Idempotency-Key": "log-secret-1"}
    for method, target in (
        ("GET", "/v1/search?q=taohong"),
        ("GET", f"/v1/search?q={key}"),
        ("GET", f"/{key}"),
        (key, "/"),
    ):
        server.request(method, target, bearer)
    for head in (f"Authorization : Bearer {key}", f"X: {key}\0"):
        everything(server, GET + head.encode() + b"\r\n\r\n")
    everything(server, f"GET {key} HTTP/1.1\r\n\r\n".encode())
    everything(server, GET.replace(b"sepu", key.encode() + b" x") + b"\r\n")
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    last = server.request("GET", "/v1/usage", {**bearer, "traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert reached_the_service(server, last.headers["x-request-id"])
    for text in (server.access_log(), server.error_log(), server.log.read_text()):
        for secret in (key, key[-20:], "taohong", "log-secret-1"):
            assert secret not in text
    entry = next(each for each in map(json.loads, server.access_log().splitlines()) if each["trace_id"] == trace)
    assert (entry["method"], entry["route"], entry["status"]) == ("GET", "/v1/usage", 200)
    assert entry["request_id"] == last.headers["x-request-id"]
    until(lambda: f'"traceId":"{trace}"' in server.log.read_text())


# --- TLS


@whoever_serves
def test_tls(server: BehindNginx) -> None:
    host, _, port = server.address.rpartition(":")

    def shake(version: ssl.TLSVersion, ciphers: str = "DEFAULT@SECLEVEL=0") -> tuple[str | None, str | None]:
        context = ssl.create_default_context(cafile=str(server.directory / "fullchain.pem"))
        context.set_ciphers(ciphers)
        context.minimum_version = context.maximum_version = version
        context.set_alpn_protocols(["h2", "http/1.1"])
        with socket.create_connection((host, int(port))) as raw, context.wrap_socket(raw, server_hostname=host) as tls:
            return tls.version(), tls.selected_alpn_protocol()

    assert shake(ssl.TLSVersion.TLSv1_3) == ("TLSv1.3", "h2")
    assert shake(ssl.TLSVersion.TLSv1_2) == ("TLSv1.2", "h2")
    with pytest.raises(ssl.SSLError):
        shake(ssl.TLSVersion.TLSv1_2, "AES128-SHA:AES256-GCM-SHA384")  # without forward secrecy
    with pytest.warns(DeprecationWarning, match="TLSv1_1"), pytest.raises(ssl.SSLError):
        shake(ssl.TLSVersion.TLSv1_1)


@whoever_serves
def test_a_request_in_clear_is_refused(server: BehindNginx) -> None:
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(GET + b"\r\n")
        status, headers, body = parsed(until_closed(raw))
    check_error(status, headers, body, "bad_request")


# --- upstreams that fail


@contextmanager
def silent(path: Path) -> Iterator[socket.socket]:
    """Listens without accepting: connections stay in its queue."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(512)
        listener.settimeout(10)
        yield listener


def nobody_waits(listener: socket.socket) -> bool:
    listener.setblocking(False)
    with suppress(BlockingIOError):
        listener.accept()[0].close()
        return False
    return True


AWAY = {
    "/v1/search?q=tao": "usage_commit_failed",
    "/v1/search": "usage_commit_failed",
    "/v1/usage": "internal_error",
    "/v1/library?x": "internal_error",
    "/readyz": "not_ready",
}


@pytest.mark.parametrize("how", ["absent", "refusing", "hanging-up"])
def test_without_a_service(tmp_path: Path, how: str) -> None:
    with ExitStack() as stack:
        path = tmp_path / "socket"
        if how == "refusing":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
        elif how == "hanging-up":
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(path))
            listener.listen(0)
            threading.Thread(target=_hang_up, args=(listener,)).start()
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
        server = stack.enter_context(behind_nginx(path))
        check(server.request("POST", "/v1/match", {"Content-Type": "application/json"}, ONE), "usage_commit_failed")
        for target, code in AWAY.items():
            check(server.request("GET", target), code)
        check(server.request("BREW", "/v1/match"), "method_not_allowed")


def _hang_up(listener: socket.socket) -> None:
    try:
        while True:
            connection, _ = listener.accept()
            connection.recv(1)
            connection.close()
    except OSError:
        return


def test_slow_clients_do_not_reach_the_service(tmp_path: Path) -> None:
    with ExitStack() as stack:
        upstream = stack.enter_context(silent(tmp_path / "socket"))
        server = stack.enter_context(behind_nginx(tmp_path / "socket"))
        begun = (b"", b"GET /v1/lib", GET, POST + b"Content-Length: 36\r\n\r\n" + ONE[:9], CHUNKED + b"24\r\n{")
        slow = [stack.enter_context(server.socket()) for _ in begun]
        for raw, sent in zip(slow, begun, strict=True):
            raw.sendall(sent)
        start = time.monotonic()
        assert [until_closed(raw, 30) for raw in slow] == [b""] * len(slow)  # nginx hangs up without an answer
        assert 5 < time.monotonic() - start < 25
        assert nobody_waits(upstream)


def test_an_address_with_too_many_requests_at_once(tmp_path: Path) -> None:
    with ExitStack() as stack:
        upstream = stack.enter_context(silent(tmp_path / "socket"))
        server = stack.enter_context(behind_nginx(tmp_path / "socket"))
        for number in range(101):
            refused = stack.enter_context(closing(server.connect(source="127.9.9.9")))
            refused.request("GET", "/v1/library")
            if number < 100:
                stack.enter_context(upstream.accept()[0])
        answer = refused.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        check_error(answer.status, headers, answer.read(), "rate_limited")
        assert nobody_waits(upstream)


# --- two instances


def test_instances_are_restarted_one_after_the_other_and_nobody_notices(
    tmp_path: Path, service_url: str, connection: psycopg.Connection
) -> None:
    set_plan(connection, "rolling", {"color_match": 10**6, "color_search": 10**6}, requests_per_minute=10**6)
    issued = accounts.create_account(connection, "rolling")
    paths = [tmp_path / "1.sock", tmp_path / "2.sock"]
    statuses: list[int] = []
    stop = threading.Event()

    def ask(server: BehindNginx, number: int) -> None:
        made = 0
        while not stop.is_set():
            made += 1
            statuses.append(server.match(issued, f"rolling-{number}-{made}").status)

    def instance(path: Path) -> ExitStack:
        stack = ExitStack()
        stack.enter_context(serving("uvloop", service_url, workers=1, address=f"unix:{path}"))
        return stack

    with ExitStack() as stack:
        running = [stack.enter_context(instance(path)) for path in paths]
        server = stack.enter_context(behind_nginx(*paths))
        clients = stack.enter_context(ThreadPoolExecutor(4))
        asking = [clients.submit(ask, server, number) for number in range(4)]
        try:
            for number, path in enumerate(paths):
                running[number].close()
                running[number] = stack.enter_context(instance(path))
                time.sleep(0.5)
        finally:
            stop.set()
        for client in asking:
            client.result()
    assert len(statuses) > 100
    assert set(statuses) == {200}
    assert show_usage(connection, issued.account_id).usage[0].committed == len(statuses)
