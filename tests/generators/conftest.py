"""One server, what later becomes of it, and each generated client in turn."""

from collections.abc import Iterator

import pytest
from tests.generators.calling import Client
from tests.generators.growing_proxy import growing
from tests.generators.toolchains import CLIENTS
from tests.serving import Served, Server


@pytest.fixture(scope="session")
def server(served: Served) -> Server:
    return served("uvloop")


@pytest.fixture(scope="session")
def later(server: Server) -> Iterator[str]:
    """The URL of the service as it may be later."""
    with growing(server.address) as url:
        yield url


@pytest.fixture(scope="session", params=CLIENTS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Generated, compiled and running."""
    with Client.running(CLIENTS[request.param](tmp_path_factory.mktemp(request.param))) as found:
        yield found
