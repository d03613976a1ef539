"""The same servers as for the contract's table, and each client in turn."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx
import pytest
from tests.client.blocking import CLIENTS, AnyClient, kind, open_client
from tests.http.conftest import server, uvloop
from tests.serving import Server

__all__ = ["kind", "open_client", "server", "uvloop"]

Opened = Callable[..., AnyClient]


def where(server: Server, kind: str) -> dict[str, Any]:
    """The address of a server, and the transport if it listens on a Unix socket."""
    if not server.address.startswith("unix:"):
        return {"base_url": f"http://{server.address}"}
    transport = httpx.HTTPTransport if kind == "sync" else httpx.AsyncHTTPTransport
    return {"base_url": "http://localhost", "transport": partial(transport, uds=server.address[5:])}


@pytest.fixture
def at_server(server: Server, kind: str) -> Iterator[Opened]:
    """Opens clients of the running server with a given key, until the test ends."""
    with ExitStack() as stack:

        def opened(api_key: str, **options: Any) -> AnyClient:
            return stack.enter_context(CLIENTS[kind](api_key=api_key, **{**where(server, kind), **options}))

        yield opened
