"""Replaces the run's Postgres with a distributed Citus cluster; skips where there is none."""

from collections.abc import Iterator

import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from tests.citus.cluster import Citus, citus
from tests.harness.serving import Server, serving

from sepu.admin.distribute import distribute
from sepu.database.migrate import migrate
from sepu.database.opening import connect
from sepu.database.roles import make_role

NO_BATCHES = ("--no-batches",)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Citus]:
    with citus() as running:
        running.distribute()
        yield running


@pytest.fixture(scope="session")
def database_url(cluster: Citus) -> str:
    return cluster.url


@pytest.fixture(scope="session")
def service_url(cluster: Citus) -> str:
    return make_conninfo(cluster.url, user="sepu_service")


@pytest.fixture(scope="session")
def server(service_url: str) -> Iterator[Server]:
    with serving("uvloop", service_url, options=NO_BATCHES) as running:
        yield running


@pytest.fixture(scope="session")
def other() -> Iterator[Citus]:
    """A cluster whose schemas tests may break."""
    with citus() as running:
        yield running


@pytest.fixture
def spoilt(other: Citus) -> Iterator[Connection]:
    """A connection to that cluster's coordinator, with a new schema that is not distributed yet."""
    with connect(other.url) as opened:
        opened.execute("drop schema if exists sepu cascade")
        # Citus moves tables as a member of their owner's role. That is the superuser here, whose own right is not
        # inherited; on the page it is the database's owner.
        opened.execute("grant connect on database sepu to sepu")
        migrate(opened)
        yield opened


@pytest.fixture
def url(spoilt: Connection, other: Citus) -> str:
    """The address of the other cluster, distributed, for the service's role."""
    make_role(spoilt, "sepu_service", "service")
    distribute(spoilt)
    return make_conninfo(other.url, user="sepu_service")
