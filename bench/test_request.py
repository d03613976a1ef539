"""A whole request: to the application in this process, and over a socket to a real `sepu serve`."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import uvloop
from bench.hot_paths import HEADERS, MATCH_BODY, SEARCH_QUERY, InProcess, request_bytes
from pytest_benchmark.fixture import BenchmarkFixture
from tests.serving import WORKERS, Server, serving, why_not

from bench import metered
from sepu.http.responder import CallbackResponder
from sepu.metering import accounts
from sepu.metering.batcher import Batcher


class Question(NamedTuple):
    """One of the scenarios; `replayed` asks with the same idempotency key again and again."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    replayed: bool = False

    def headers(self, issued: accounts.IssuedKey) -> dict[str, str]:
        key = "bench-again" if self.replayed else metered.new_key()
        return {**HEADERS, "Authorization": f"Bearer {issued.api_key}", "Idempotency-Key": key}


ONE_COLOUR = json.dumps({"colors": [{"r": 200, "g": 60, "b": 35}]}).encode()
QUESTIONS = {
    "match-1": Question("POST", "/v1/match", body=ONE_COLOUR),
    "match-5-top-3": Question("POST", "/v1/match", body=MATCH_BODY),
    "replay": Question("POST", "/v1/match", body=ONE_COLOUR, replayed=True),
    "search": Question("GET", "/v1/search", SEARCH_QUERY),
    "usage": Question("GET", "/v1/usage"),
    "library": Question("GET", "/v1/library"),
}


@pytest.fixture(params=QUESTIONS)
def question(request: pytest.FixtureRequest) -> Question:
    return QUESTIONS[request.param]


@pytest.fixture(scope="module")
def ask_application(service_url: str) -> Iterator[Callable[[Question, accounts.IssuedKey], int]]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        ledger = Batcher(service_url, loop=loop)
        server = InProcess(CallbackResponder(ledger), loop)

        async def answered() -> int:
            while not server.status():
                await asyncio.sleep(0)
            return server.status()

        def ask(question: Question, issued: accounts.IssuedKey) -> int:
            headers = question.headers(issued)
            server.send(request_bytes(question.method, question.path, question.body, question.query, headers))
            return loop.run_until_complete(answered())

        yield ask
        loop.run_until_complete(ledger.close())


def test_in_process(
    benchmark: BenchmarkFixture,
    ask_application: Callable[[Question, accounts.IssuedKey], int],
    issued: accounts.IssuedKey,
    question: Question,
) -> None:
    assert benchmark(ask_application, question, issued) == 200


@pytest.fixture(scope="module", params=WORKERS)
def server(request: pytest.FixtureRequest, service_url: str) -> Iterator[Server]:
    if reason := why_not(request.param):
        pytest.skip(reason)
    with serving(request.param, service_url, workers=1) as running:
        yield running


def test_over_a_socket(
    benchmark: BenchmarkFixture, server: Server, issued: accounts.IssuedKey, question: Question
) -> None:
    """Sends requests on one open connection; the time includes that of the client."""
    target = f"{question.path}?{question.query}" if question.query else question.path

    def ask() -> int:
        headers = question.headers(issued)
        return server.request(question.method, target, headers, question.body or None, keep=True).status

    assert benchmark(ask) == 200
