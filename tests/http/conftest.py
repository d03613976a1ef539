"""One server for each kind of worker, over the run's database; and one behind PgBouncer."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests import pgbouncer
from tests.serving import WORKERS, Server, serving, why_not


@pytest.fixture(scope="session", params=[*WORKERS, "pgbouncer"])
def server(request: pytest.FixtureRequest, service_url: str) -> Iterator[Server]:
    """A running server of each kind in turn."""
    worker = "uvloop" if request.param == "pgbouncer" else request.param
    if reason := pgbouncer.WHY_NOT if request.param == "pgbouncer" else why_not(worker):
        pytest.skip(reason)
    with ExitStack() as stack:
        url = stack.enter_context(pgbouncer.pgbouncer(service_url)) if worker != request.param else service_url
        yield stack.enter_context(serving(worker, url))
