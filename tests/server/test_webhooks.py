"""Webhooks to endpoints that misbehave."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from standardwebhooks.webhooks import Webhook
from tests.endpoint import Endpoint as Running
from tests.endpoint import endpoint
from tests.serving import free_port

from sepu import limits
from sepu.errors import SepuError
from sepu.server.webhooks import Answer, Endpoint, Message, read_secrets

SECRET = Webhook(bytes(32))


@pytest.fixture
def hooks() -> Iterator[Running]:
    with endpoint() as found:
        yield found


def send(url: str, messages: int = 1) -> list[Answer]:
    sent = [Message(f"message-{number}", b"{}") for number in range(messages)]
    return asyncio.run(Endpoint(url, [SECRET]).send(sent))


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_every_2xx_takes_it(hooks: Running, status: int) -> None:
    hooks.reply = lambda _: (status, {})
    assert send(hooks.url) == [Answer(None)]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(hooks: Running, status: int) -> None:
    hooks.reply = lambda _: (status, {"location": hooks.url})
    assert send(hooks.url) == [Answer(f"HTTP {status}")]
    assert len(hooks.received) == 1


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("30", 30),
        ("0", 0),
        ("-5", 0),
        ("soon", 0),
        ("9" * 400, 0),
        ("Wed, 21 Oct 2037 07:28:00", 0),
    ],
)
def test_retry_after(hooks: Running, asked: str, expected: float) -> None:
    hooks.reply = lambda _: (503, {"retry-after": asked})
    (answer,) = send(hooks.url)
    assert answer == Answer("HTTP 503", expected)


@pytest.mark.parametrize(("hours", "seconds"), [(1, 3600), (-1, 0)])
def test_retry_after_an_instant(hooks: Running, hours: int, seconds: float) -> None:
    asked = format_datetime(datetime.now(UTC) + timedelta(hours=hours), usegmt=True)
    hooks.reply = lambda _: (503, {"retry-after": asked})
    (answer,) = send(hooks.url)
    assert answer.retry_after == pytest.approx(seconds, abs=20)


def test_nobody_listens() -> None:
    assert send(f"http://127.0.0.1:{free_port()}/") == [Answer("not reached: ConnectError")]


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nx: ", b"SSH-2.0-OpenSSH\r\n"])
def test_one_that_drips_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Each step is in time, and all together would last for ever."""
    monkeypatch.setattr(limits, "WEBHOOK_SECONDS", 1.0)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            with server.accept()[0] as client:
                client.sendall(sent)
                while sent and not ended.wait(0.2):
                    try:
                        client.sendall(b"x")
                    except OSError:
                        return
                ended.wait(10)

        dripping = threading.Thread(target=drip)
        dripping.start()
        started = time.monotonic()
        (answer,) = send(f"http://127.0.0.1:{server.getsockname()[1]}/")
        ended.set()
        dripping.join()
    assert answer.error in {"no answer in time", "not reached: ReadTimeout", "not reached: RemoteProtocolError"}
    assert time.monotonic() - started < 3


def test_one_that_hangs_lets_the_others_through(hooks: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WEBHOOK_SECONDS", 2.0)

    def reply(got: object) -> tuple[int, dict[str, str]]:
        if getattr(got, "event_id", "") == "message-3":
            time.sleep(3)
        return 204, {}

    hooks.reply = reply
    answers = send(hooks.url, limits.WEBHOOKS)
    assert [number for number, answer in enumerate(answers) if answer.error] == [3]


@pytest.mark.parametrize("given", [b"", b"\n", b"whsec_", b"c2VjcmV0" * 4, b"whsec_" + b"A" * 20, b"whsec_\xff"])
def test_a_secret_has_its_form(given: bytes) -> None:
    with pytest.raises(SepuError) as refused:
        read_secrets(given)
    assert "c2VjcmV0" not in str(refused.value)


@pytest.mark.parametrize("url", ["", "example.com", "ftp://example.com", "https://", "http://[::1", "/hooks"])
def test_an_address_has_its_form(url: str) -> None:
    with pytest.raises(SepuError, match="is not like https://"):
        Endpoint(url, [SECRET])


def test_a_secret_shows_nowhere() -> None:
    assert "AAAA" not in repr(read_secrets(b"whsec_" + b"A" * 44))
