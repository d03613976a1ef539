"""Failures from within, on both Falcon adapters: the contract's 500, and no word of what was being handled."""

import logging
from typing import Any, NoReturn

import falcon.testing
import pytest

from sepu.http import asgi, wsgi
from sepu.http.exchange import Sender
from sepu.http.service import Service
from sepu.library.release import load_release
from sepu.metering import keys

SECRET = keys.new_key("a" * 16)


class BrokenLedger:
    """Fails in a way that nobody foresaw, with the worst of messages."""

    def run(self, command: object) -> NoReturn:
        raise RuntimeError(f"{SECRET} {command}")

    def open(self) -> None: ...

    def close(self) -> None: ...


class BrokenAsyncLedger:
    async def run(self, command: object) -> NoReturn:
        raise RuntimeError(f"{SECRET} {command}")

    async def close(self) -> None: ...


@pytest.fixture(params=["asgi", "wsgi"])
def client(request: pytest.FixtureRequest) -> falcon.testing.TestClient:
    service = Service.of(load_release())
    broken: Any = {"asgi": BrokenAsyncLedger, "wsgi": BrokenLedger}[request.param]()
    create_app: Any = {"asgi": asgi.create_app, "wsgi": wsgi.create_app}[request.param]
    return falcon.testing.TestClient(create_app(service, broken, Sender(request_ids=lambda: "the-request-id")))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/library", ""),
        ("GET", "/v1/usage", ""),
        ("GET", "/v1/search?q=hong", ""),
        ("POST", "/v1/match", '{"colors":[{"r":1,"g":2,"b":3}]}'),
    ],
)
def test_an_unforeseen_failure_is_internal_and_keeps_secrets(
    client: falcon.testing.TestClient, caplog: pytest.LogCaptureFixture, method: str, path: str, body: str
) -> None:
    headers = {
        "Authorization": f"Bearer {SECRET}",
        "Idempotency-Key": "abcdefgh",
        "Content-Type": "application/json",
    }
    with caplog.at_level(logging.DEBUG):
        response = client.simulate_request(method, path, headers=headers, body=body)
    assert response.status_code == 500
    assert response.json == {"error": "internal_error", "requestId": "the-request-id"}
    assert response.headers["x-request-id"] == "the-request-id"
    assert response.headers["content-type"] == "application/json"
    assert "the-request-id: RuntimeError" in caplog.text
    assert "in run" in caplog.text  # where it happened
    assert SECRET not in caplog.text
    assert "sepu_" not in response.text
