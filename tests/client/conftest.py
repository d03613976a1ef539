"""The servers of the contract's table, each with both clients."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.client.blocking import CLIENTS, AnyClient, kind, open_client
from tests.harness.serving import Server
from tests.http.conftest import server

__all__ = ["kind", "open_client", "server"]

Opened = Callable[..., AnyClient]


def url_of(server: Server) -> str:
    """The address of a server, as the client takes it."""
    return server.address if server.address.startswith("unix:") else f"http://{server.address}"


@pytest.fixture
def at_server(server: Server, kind: str) -> Iterator[Opened]:
    """Opens clients of the running server with a given key, until the test ends."""
    with ExitStack() as stack:

        def opened(api_key: str, **options: Any) -> AnyClient:
            return stack.enter_context(CLIENTS[kind](api_key=api_key, **{"base_url": url_of(server), **options}))

        yield opened
