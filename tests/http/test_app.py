"""Internal failures, with each responder: the contract's 500, without any content of the request."""

import json
import logging
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any, NoReturn

import falcon
import pytest
from falcon.testing import StartResponseMock, create_environ

from sepu.http import request
from sepu.http.app import create_app
from sepu.http.observers import ReplyObservers
from sepu.http.replies import Reply
from sepu.http.responder import SEND, CallbackResponder, Responder, WaitingResponder
from sepu.http.service import Service
from sepu.library.release import load_release
from sepu.metering.callers import Callers
from sepu.metering.key_format import Credential, KeyTags

TAGS = bytes(32)
SECRET = KeyTags(TAGS).new_key("a" * 16)
SERVICE = Service.of(load_release())


class BrokenLedger:
    """Fails in an unforeseen way, with a secret in the message: in the call itself or in its callback."""

    def __init__(self, *, at_once: bool = True) -> None:
        self._at_once = at_once
        self.callers = Callers(time.monotonic, lambda: True)
        self.callers.learn_secret(TAGS)

    def run(self, command: object) -> NoReturn:
        raise RuntimeError(f"{SECRET} {command}")

    def ready(self) -> bool:
        return True

    def submit(self, command: object, done: Callable[[Any], None]) -> None:
        try:
            self.run(command)
        except RuntimeError as error:
            if self._at_once:
                raise
            done(error)

    def probe(self, done: Callable[[bool], None]) -> None:
        done(True)


broken: Any = BrokenLedger


def ask(responder: Responder, method: str, target: str, headers: dict[str, str], body: str = "") -> tuple[int, bytes]:
    """Status and body of the answer, whichever way it is sent."""
    path, _, query = target.partition("?")
    sent: list[tuple[int, bytes]] = []
    environ = create_environ(path, query, method=method, headers=headers, body=body)
    environ[SEND] = lambda reply, request_id: sent.append((reply.status, reply.render(request_id)))
    started = StartResponseMock()
    content = b"".join(create_app(SERVICE, responder)(environ, started))
    if isinstance(responder, WaitingResponder):
        assert started.headers_dict["content-type"] == "application/json"
        assert started.headers_dict["x-request-id"] == "the-request-id"
        sent.append((falcon.http_status_to_code(started.status), content))
    (answer,) = sent
    return answer


@pytest.fixture(autouse=True)
def request_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "new_request_id", lambda: "the-request-id")


@pytest.mark.parametrize(
    "responder",
    [WaitingResponder(broken()), CallbackResponder(broken()), CallbackResponder(broken(at_once=False))],
    ids=["waiting", "at once", "by callback"],
)
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
    responder: Responder, caplog: pytest.LogCaptureFixture, method: str, target: str, body: str
) -> None:
    headers = {"Authorization": f"Bearer {SECRET}", "Idempotency-Key": "abcdefgh", "Content-Type": "application/json"}
    with caplog.at_level(logging.DEBUG):
        status, answer = ask(responder, method, target, headers, body)
    assert status == 500
    assert json.loads(answer) == {"error": "internal_error", "requestId": "the-request-id"}
    assert "the-request-id: RuntimeError" in caplog.text
    assert "in run" in caplog.text  # where it happened
    assert SECRET not in caplog.text
    assert b"sepu_" not in answer


def test_a_key_that_cannot_be_judged_yet_gets_the_error_of_an_outage() -> None:
    ledger = broken()
    ledger.callers = Callers(time.monotonic, lambda: False)
    asked = ("GET", "/v1/library"), ("GET", "/v1/usage"), ("GET", "/v1/search?q=hong"), ("POST", "/v1/match")
    told = [ask(WaitingResponder(ledger), *each, {"Authorization": f"Bearer {SECRET}"}) for each in asked]
    down, uncommitted = (500, "internal_error"), (503, "usage_commit_failed")
    assert [(status, json.loads(body)["error"]) for status, body in told] == [down, down, uncommitted, uncommitted]


@pytest.mark.parametrize("make", [WaitingResponder, CallbackResponder], ids=["waiting", "by callback"])
def test_a_fault_in_making_a_reply_is_logged_with_its_account(make: Callable[..., Responder]) -> None:
    seen: list[tuple[str, int, str | None]] = []

    def observe(request_id: str, reply: Reply, _route: object, credential: Credential | None, *_: object) -> None:
        seen.append((request_id, reply.status, credential.account_id if credential else None))

    headers = {"Authorization": f"Bearer {SECRET}"}
    assert ask(make(broken(at_once=False), ReplyObservers(observe)), "GET", "/v1/usage", headers)[0] == 500
    assert seen == [("the-request-id", 500, "a" * 16)]


FORKS = """
import os
from concurrent.futures import ThreadPoolExecutor
from sepu.http.request import new_request_id

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
    """In a separate process: pytest's has threads and should not fork."""
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=60)
    found = done.stdout.split()
    assert len(set(found)) == len(found) == 14_000
    assert {(uuid.UUID(one).version, str(uuid.UUID(one)) == one) for one in found} == {(4, True)}


def fail(*_: object) -> NoReturn:
    raise KeyError(SECRET)


def test_what_observes_a_request_cannot_break_it(caplog: pytest.LogCaptureFixture) -> None:
    observers = ReplyObservers(fail)
    for responder in (WaitingResponder(broken(), observers), CallbackResponder(broken(), observers)):
        assert ask(responder, "GET", "/healthz", {})[0] == 200
    assert caplog.text.count("not observed: KeyError") == 2
    assert SECRET not in caplog.text
