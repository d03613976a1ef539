"""Failures from within, with each responder: the contract's 500, and no word of what was being handled."""

import json
import logging
import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Any, NoReturn

import falcon.testing
import pytest

from sepu.http import app as http_app
from sepu.http.app import create_app
from sepu.http.notifier import ReplyNotifier
from sepu.http.replies import Reply
from sepu.http.responder import SEND, CallbackResponder, WaitingResponder
from sepu.http.service import Service
from sepu.library.release import load_release
from sepu.metering import key_format

SECRET = key_format.new_key("a" * 16)

# Takes method, target, headers and body; returns the status and the body.
Ask = Callable[[str, str, dict[str, str], str], tuple[int, bytes]]


def _ignore(status: str, headers: list[tuple[str, str]], error: object = None) -> Callable[[bytes], object]:  # noqa: ARG001
    return bytes


class BrokenLedger:
    """Fails in a way that nobody foresaw, with the worst of messages."""

    def run(self, command: object) -> NoReturn:
        raise RuntimeError(f"{SECRET} {command}")

    def ready(self) -> bool:
        return True


class BrokenBatcher:
    """The same, at once or in what it calls back with."""

    def __init__(self, *, at_once: bool) -> None:
        self._at_once = at_once

    def is_limited(self, holder: object) -> bool:  # noqa: ARG002
        return False

    def submit(self, command: object, done: Callable[[Any], None]) -> None:
        try:
            BrokenLedger().run(command)
        except RuntimeError as error:
            if self._at_once:
                raise
            done(error)

    def probe(self, done: Callable[[bool], None]) -> None:
        done(True)


@pytest.fixture(params=["waiting", "at once", "by callback"])
def ask(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setattr(http_app, "new_request_id", lambda: "the-request-id")
    service = Service.of(load_release())
    if request.param == "waiting":
        waiting = create_app(service, WaitingResponder(BrokenLedger()))
        client = falcon.testing.TestClient(waiting)

        def wait(method: str, target: str, headers: dict[str, str], body: str) -> tuple[int, bytes]:
            answer = client.simulate_request(method, target, headers=headers, body=body)
            assert answer.headers["x-request-id"] == "the-request-id"
            assert answer.headers["content-type"] == "application/json"
            return answer.status_code, answer.content

        return wait
    ledger = BrokenBatcher(at_once=request.param == "at once")
    app = create_app(service, CallbackResponder(ledger))

    def call(method: str, target: str, headers: dict[str, str], body: str) -> tuple[int, bytes]:
        path, _, query = target.partition("?")
        environ = falcon.testing.create_environ(path, query, method=method, headers=headers, body=body)
        sent: list[tuple[int, bytes]] = []

        def send(reply: Reply, request_id: str) -> None:
            sent.append((reply.status, reply.render(request_id)))

        environ[SEND] = send
        app(environ, _ignore)
        (answer,) = sent
        return answer

    return call


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/v1/library", ""),
        ("GET", "/v1/usage", ""),
        ("GET", "/v1/search?q=hong", ""),
        ("POST", "/v1/match", '{"colors":[{"r":1,"g":2,"b":3}]}'),
    ],
)
def test_an_unforeseen_failure_is_internal_and_keeps_secrets(
    ask: Ask, caplog: pytest.LogCaptureFixture, method: str, target: str, body: str
) -> None:
    headers = {
        "Authorization": f"Bearer {SECRET}",
        "Idempotency-Key": "abcdefgh",
        "Content-Type": "application/json",
    }
    with caplog.at_level(logging.DEBUG):
        status, answer = ask(method, target, headers, body)
    assert status == 500
    assert json.loads(answer) == {"error": "internal_error", "requestId": "the-request-id"}
    assert "the-request-id: RuntimeError" in caplog.text
    assert "in run" in caplog.text  # where it happened
    assert SECRET not in caplog.text
    assert b"sepu_" not in answer


FORKS = """
import os
from concurrent.futures import ThreadPoolExecutor
from sepu.http.responder import new_request_id

def many(_):
    return [new_request_id() for _ in range(2000)]

many(0)  # from now on there are some to be had without asking the kernel
for _ in range(3):
    if not (child := os.fork()):
        os.write(1, "\\n".join(many(0) + [""]).encode())
        os._exit(0)
    os.waitpid(child, 0)
with ThreadPoolExecutor(4) as threads:
    for found in threads.map(many, range(4)):
        print(*found, sep="\\n")
"""


def test_no_two_requests_have_one_id() -> None:
    """In a process of its own, as that of pytest has threads and should not fork."""
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=60)
    found = done.stdout.split()
    assert len(set(found)) == len(found) == 14_000
    assert {(uuid.UUID(one).version, str(uuid.UUID(one)) == one) for one in found} == {(4, True)}


def fail(*_: object) -> NoReturn:
    """Raises the worst of messages."""
    raise KeyError(SECRET)


def test_what_observes_a_request_cannot_break_it(caplog: pytest.LogCaptureFixture) -> None:
    service, notifier, sent = Service.of(load_release()), ReplyNotifier(fail), list[int]()
    waiting = create_app(service, WaitingResponder(BrokenLedger(), notifier))
    assert falcon.testing.TestClient(waiting).simulate_get("/healthz").status_code == 200
    environ = falcon.testing.create_environ("/healthz") | {SEND: lambda reply, _: sent.append(reply.status)}
    create_app(service, CallbackResponder(BrokenBatcher(at_once=True), notifier))(environ, _ignore)
    assert sent == [200]
    assert caplog.text.count("not observed: KeyError") == 2
    assert SECRET not in caplog.text
