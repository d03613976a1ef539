"""Each kind of worker behind the nginx that we ship."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.nginx import BehindNginx, behind_nginx
from tests.harness.serving import WORKERS, serving, why_not
from tests.programs import program


@pytest.fixture(scope="session", params=WORKERS)
def server(request: pytest.FixtureRequest, service_url: str) -> Iterator[BehindNginx]:
    """nginx before a running server of each kind in turn."""
    program("nginx", "nginx")
    if reason := why_not(request.param):
        pytest.skip(reason)
    with (
        serving(request.param, service_url, unix=True) as service,
        behind_nginx(Path(service.address.removeprefix("unix:")), service=service) as server,
    ):
        yield server
