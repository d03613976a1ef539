"""Each kind of worker behind the nginx that we ship."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy import proxy
from tests.deploy.proxy import Proxied, proxied
from tests.serving import WORKERS, serving
from tests.serving import why_not as why_no_worker


@pytest.fixture(scope="session")
def nginx() -> None:
    """Skips where there is none."""
    if reason := proxy.why_not():
        pytest.skip(reason)


@pytest.fixture(scope="session", params=WORKERS)
def server(request: pytest.FixtureRequest, nginx: None, service_url: str) -> Iterator[Proxied]:  # noqa: ARG001
    """nginx before a running server of each kind in turn."""
    if reason := why_no_worker(request.param):
        pytest.skip(reason)
    with (
        serving(request.param, service_url, unix=True) as service,
        proxied(Path(service.address.removeprefix("unix:")), service=service) as server,
    ):
        yield server
