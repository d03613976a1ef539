"""Each kind of server in turn."""

import pytest
from tests.harness.serving import WORKERS, Served, Server

# `make test` runs the default worker; `make test-all` the others too.
OTHERS = [pytest.param(worker, marks=pytest.mark.slow) for worker in (*WORKERS[1:], "pgbouncer")]


@pytest.fixture(scope="session", params=["uvloop", *OTHERS])
def server(request: pytest.FixtureRequest, served: Served) -> Server:
    return served(request.param)
