"""One server for each kind of worker, over the run's database."""

from collections.abc import Iterator

import pytest
from tests.serving import WORKERS, Server, serving, why_not


@pytest.fixture(scope="session", params=WORKERS)
def server(request: pytest.FixtureRequest, service_url: str) -> Iterator[Server]:
    """A running server of each kind in turn."""
    if reason := why_not(request.param):
        pytest.skip(reason)
    with serving(request.param, service_url) as running:
        yield running
