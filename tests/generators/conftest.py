"""One server, what later becomes of it, and each generated client in turn."""

from collections.abc import Iterator

import pytest
from tests.generators.calling import Client
from tests.generators.growing_proxy import growing
from tests.generators.toolchains import CLIENTS
from tests.serving import Server, serving


@pytest.fixture(scope="session")
def server(service_url: str) -> Iterator[Server]:
    with serving("uvloop", service_url) as found:
        yield found


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
