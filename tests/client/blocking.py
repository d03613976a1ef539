"""Both clients with one blocking interface.

Imports nothing of the server, so that an installed client can be tested with it.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol, cast

import pytest

from sepu_client import AsyncClient, Client, Library, MatchResponse, MatchResult, Request, SearchResponse, UsageResponse
from sepu_client.results import MeteredResponse


class AnyClient(Protocol):
    """The interface that tests use."""

    def match(self, colors: Any, *, top: int = 1, idempotency_key: str | None = None) -> MatchResponse: ...
    def match_many(
        self, colors: Any, *, top: int = 1, idempotency_key: str | None = None
    ) -> tuple[MatchResult, ...]: ...
    def search(self, q: str, *, limit: int = 10, idempotency_key: str | None = None) -> SearchResponse: ...
    def library(self) -> Library: ...
    def usage(self) -> UsageResponse: ...


def committed(response: MeteredResponse) -> int:
    """The account's units this month, including those of this response."""
    assert response.usage is not None
    return response.usage.committed


class BlockingClient:
    """An AsyncClient on its own event loop."""

    def __init__(self, client: AsyncClient, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        return lambda *given, **options: self._runner.run(method(*given, **options))


@contextmanager
def sync_client(base_url: str, api_key: str, **options: Any) -> Iterator[AnyClient]:
    with Client(base_url, api_key, **options) as client:
        yield client


@contextmanager
def async_client(base_url: str, api_key: str, **options: Any) -> Iterator[AnyClient]:
    with asyncio.Runner() as runner:
        client = AsyncClient(base_url, api_key, **options)
        yield cast("AnyClient", BlockingClient(client, runner))
        runner.run(client.aclose())


Open = Callable[..., AbstractContextManager[AnyClient]]
CLIENTS: dict[str, Open] = {"sync": sync_client, "async": async_client}


class AwaitedClient:
    """A Client with the interface of an AsyncClient: its methods run in threads."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self.client = Client(*given, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(asyncio.to_thread, getattr(self.client, "close" if name == "aclose" else name))


AWAITED: dict[str, Callable[..., Any]] = {"sync": AwaitedClient, "async": AsyncClient}


def sending(kind: str, send: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does not wait, as the `send` of this kind of client."""

    async def send_async(request: Request, network: object) -> Any:
        return send(request, network)

    return send if kind == "sync" else send_async


@pytest.fixture(params=CLIENTS)
def kind(request: pytest.FixtureRequest) -> str:
    """The client's kind."""
    name: str = request.param
    return name


@pytest.fixture
def open_client(kind: str) -> Open:
    """The function that opens this kind of client."""
    return CLIENTS[kind]
