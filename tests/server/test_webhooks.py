"""Webhooks to endpoints that misbehave."""

import gc
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook
from tests.client.hostile import Peer, Step, certificate, listening, saying
from tests.endpoint import Endpoint as Running
from tests.endpoint import endpoint
from tests.harness.serving import free_port

from sepu import limits
from sepu.admin.events import EndpointAnswer
from sepu.errors import SepuError
from sepu.server.webhooks import Endpoint, read_secrets

SECRET = Webhook(bytes(32))


@pytest.fixture
def hooks() -> Iterator[Running]:
    with endpoint() as found:
        yield found


def send(url: str, messages: int = 1) -> list[EndpointAnswer]:
    with Endpoint(url, [SECRET]).sending() as sending:
        sent = [sending(f"message-{number}", {}) for number in range(messages)]
        return [answer.result(60) for answer in sent]


@pytest.mark.parametrize("location", ["", "http://xn--a/", "mailto:[", "http://[::1", "//a:999999/"])
def test_every_2xx_takes_it_and_the_location_of_a_redirect_is_not_read(hooks: Running, location: str) -> None:
    statuses = [200, 202, 204, 299, 301, 302, 307, 308]
    hooks.reply = lambda got: (statuses[int(got.event_id[-1])], {"location": location or hooks.url})
    refused = [f"HTTP {status}" if status > 299 else None for status in statuses]
    assert send(hooks.url, len(statuses)) == [EndpointAnswer(error) for error in refused]
    assert len(hooks.received) == len(statuses)


def test_what_is_not_answered_at_the_end_is_given_up(capfd: pytest.CaptureFixture[str]) -> None:
    asked, over = threading.Event(), threading.Event()

    with listening("plain", [lambda _: asked.set(), lambda _: over.wait(30)]) as peer:
        with Endpoint(peer.url, [SECRET]).sending() as sending:
            answer = sending("message", {})
            assert asked.wait(30)
        over.set()
    assert answer.cancelled()
    del answer
    gc.collect()
    assert capfd.readouterr() == ("", "")


def test_no_answer_leaves_anything_to_the_next_message(hooks: Running) -> None:
    two = saying(b"HTTP/1.1 204 \r\nset-cookie: a=b\r\n\r\nHTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n")
    got: list[bytes] = []
    steps: list[Step] = [Peer.request, two, lambda peer: got.append(peer.socket.recv(65536))]
    with listening("plain", steps) as peer, Endpoint(peer.url, [SECRET]).sending() as sending:
        for _ in range(2):
            assert sending("message", {}).result(60) == EndpointAnswer()
    assert got == [b"", b""], "each has a connection of its own"
    with Endpoint(hooks.url, [SECRET]).sending() as sending:
        hooks.reply = lambda _: (204, {"set-cookie": "a=b"})
        for _ in range(2):
            assert sending("message", {}).result(60) == EndpointAnswer()
    assert "cookie" not in hooks.received[1].headers
    assert hooks.received[1].headers["connection"] == "close"


def garbage(peer: Peer) -> None:
    """Sends a TLS record that nobody can decrypt."""
    with socket.socket(fileno=os.dup(peer.socket.fileno())) as raw:
        raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))


def test_tls_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening("TLS", [Peer.tls, Peer.request, garbage]) as peer:
        assert send(peer.url) == [EndpointAnswer("not reached: ConnectError")], "nobody knows its certificate"
        (tmp_path / "certificate").write_text(certificate().pem)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate"))
        assert send(peer.url) == [EndpointAnswer("not reached: SSLError")]
    with listening("TLS", [Peer.some, saying(b"HTTP/1.1 204 \r\n\r\n")]) as peer:
        assert send(peer.url) == [EndpointAnswer("not reached: ConnectError")]


@pytest.mark.parametrize("host", ["nobody.invalid", "a" * 64 + ".invalid", "127.0.0.1:PORT"])
def test_where_nobody_is(host: str) -> None:
    (answer,) = send(f"http://{host.replace('PORT', str(free_port()))}/")
    assert answer.error is not None
    assert answer.error.startswith("not reached: ")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        *(("30", 30), ("9" * 9000, inf)),
        *((other, 0) for other in ("0", "-5", "soon", "1e9", "１２".encode().decode("latin-1"))),
        *((f"Wed, 21 Oct {end}", 0) for end in ("2037 07:28:00", "2037 07:28:00 +99999999999999")),
        *(("Wed, 21 Oct 99999999999 07:28:00 GMT", 0), ("Sat, 01 Jan 0001 00:00:00 GMT", 0)),
    ],
)
def test_retry_after(hooks: Running, asked: str, expected: float) -> None:
    hooks.reply = lambda _: (503, {"retry-after": asked})
    (answer,) = send(hooks.url)
    assert answer == EndpointAnswer("HTTP 503", expected)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/St_Johns"], indirect=True)
@pytest.mark.parametrize(
    "form", ["{:%a, %d %b %Y %H:%M:%S GMT}", "{:%A, %d-%b-%y %H:%M:%S GMT}", "{:%a %b %e %H:%M:%S %Y}"]
)
@pytest.mark.parametrize(("hours", "seconds"), [(1, 3600), (-1, 0)])
def test_retry_after_an_instant(hooks: Running, hours: int, seconds: float, form: str) -> None:
    asked = form.format(datetime.now(UTC) + timedelta(hours=hours))
    hooks.reply = lambda _: (503, {"retry-after": asked})
    (answer,) = send(hooks.url)
    assert answer.retry_after == pytest.approx(seconds, abs=20)


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nx: ", b"SSH-2.0-OpenSSH\r\n"])
def test_one_that_drips_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Each step is in time, but all together would never end."""
    monkeypatch.setattr(limits.webhooks, "ANSWER_SECONDS", 1.0)

    steps: list[Step] = [saying(sent), lambda peer: peer.drip(b"x", 0.1)] if sent else [Peer.silence]
    started = time.monotonic()
    with listening("plain", steps) as peer:
        (answer,) = send(peer.url)
        assert time.monotonic() - started < 20
    assert answer.error in {"no answer in time", "not reached: RemoteProtocolError"}


def test_one_that_hangs_lets_the_others_through(hooks: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.webhooks, "ANSWER_SECONDS", 2.0)

    def reply(got: object) -> tuple[int, dict[str, str]]:
        if getattr(got, "event_id", "") == "message-3":
            time.sleep(3)
        return 204, {}

    hooks.reply = reply
    answers = send(hooks.url, limits.webhooks.CONCURRENT)
    assert [number for number, answer in enumerate(answers) if answer.error] == [3]


@pytest.mark.parametrize(
    "given",
    [
        *(b"", b"\n", b"c2VjcmV0" * 4),
        *(b"whsec_" + text for text in (b"", b"A" * 31 + b"=", b"A" * 87 + b"=", b"A" * 32 + b"-___", b"\xff")),
    ],
)
def test_a_secret_has_its_form(given: bytes) -> None:
    with pytest.raises(SepuError) as refused:
        read_secrets(given)
    assert "c2VjcmV0" not in str(refused.value)


@pytest.mark.parametrize("url", ["", "example.com", "ftp://example.com", "https://", "http://[::1", "/hooks"])
def test_an_address_has_its_form(url: str) -> None:
    with pytest.raises(SepuError, match="is not like https://"):
        Endpoint(url, [SECRET])


def test_a_secret_shows_nowhere() -> None:
    assert "AAAA" not in repr(read_secrets(b"whsec_" + b"A" * 32 + b"\nwhsec_" + b"A" * 86 + b"=="))  # 24, 64 bytes
