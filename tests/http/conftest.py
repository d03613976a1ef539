"""One server for each kind of worker, over the run's database; and one behind PgBouncer."""

from collections.abc import Iterator

import pytest
from tests import pgbouncer
from tests.serving import WORKERS, Server, serving, why_not

# What the default worker does, `make test` sees; the others are tried by `make test-all`.
OTHERS = [pytest.param(worker, marks=pytest.mark.slow) for worker in (*WORKERS[1:], "pgbouncer")]


@pytest.fixture(scope="session")
def uvloop(service_url: str) -> Iterator[Server]:
    """A running server of the default kind."""
    with serving("uvloop", service_url) as server:
        yield server


@pytest.fixture(scope="session", params=["uvloop", *OTHERS])
def server(request: pytest.FixtureRequest, service_url: str) -> Iterator[Server]:
    """A running server of each kind in turn."""
    if request.param == "uvloop":
        yield request.getfixturevalue("uvloop")
    elif request.param == "pgbouncer":
        if pgbouncer.WHY_NOT:
            pytest.skip(pgbouncer.WHY_NOT)
        with pgbouncer.pgbouncer(service_url) as url, serving("uvloop", url) as server:
            yield server
    else:
        if reason := why_not(request.param):
            pytest.skip(reason)
        with serving(request.param, service_url) as server:
            yield server
