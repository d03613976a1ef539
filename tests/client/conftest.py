"""The same servers as for the contract's table, and each client in turn."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.client.shells import SHELLS, Open, Shell, where
from tests.http.conftest import server
from tests.serving import Server

__all__ = ["server"]

Opened = Callable[..., Shell]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """The name of a client."""
    name: str = request.param
    return name


@pytest.fixture
def open_shell(shell: str) -> Open:
    """Opens the client."""
    return SHELLS[shell]


@pytest.fixture
def at_server(server: Server, shell: str) -> Iterator[Opened]:
    """Opens clients of the running server with a given key, until the test ends."""
    with ExitStack() as stack:

        def opened(api_key: str, **options: Any) -> Shell:
            return stack.enter_context(SHELLS[shell](api_key=api_key, **{**where(server, shell), **options}))

        yield opened
