"""One server, its later version, and each generated client in turn."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.generators.calling import Client, calling
from tests.generators.toolchains import CLIENTS
from tests.harness.serving import Response, Server
from tests.integrate.faulty import between


def grown(value: Any) -> Any:
    """Returns the value with additions of a later service: a member in each object, and a new mode."""
    if isinstance(value, list):
        return [grown(item) for item in value]
    if not isinstance(value, dict):
        return value
    whole = {name: grown(item) for name, item in value.items()} | {"someday": {"any": [1]}}
    return whole | ({"mode": "someday"} if "mode" in value else {})


def grown_response(response: Response) -> Response:
    body = json.dumps(grown(response.json)).encode()
    return Response(response.status, {**response.headers, "X-Someday": "1"}, body)


@pytest.fixture(scope="session")
def later(uvloop: Server) -> Iterator[str]:
    with between(uvloop.address, keeps=True, changed=grown_response) as found:
        yield found.url


@pytest.fixture(scope="session", params=CLIENTS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with calling(CLIENTS[request.param](tmp_path_factory.mktemp(request.param))) as found:
        yield found
