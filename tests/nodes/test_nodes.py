"""Two service nodes on one database: all guarantees hold across both, and one may die."""

import psycopg
import pytest
from tests.faults.verdict import until_stored
from tests.harness.serving import serving
from tests.nodes.traffic import crowded, kill

from sepu.database.opening import service_url as as_service


@pytest.fixture
def ledger_url(own_url: str) -> str:
    """A database for the nodes alone."""
    return own_url


def test_a_node_dies_and_the_other_goes_on(own_url: str, connection: psycopg.Connection) -> None:
    url = as_service(own_url)
    with serving("uvloop", url) as one, serving("uvloop", url) as other:

        def power_cut() -> None:
            until_stored(own_url, 300)
            kill(one)

        addresses = [one.address, other.address]
        verdict, memory = crowded(connection, addresses, 1500, meanwhile=power_cut, operated=own_url)
        assert verdict.explain() == ""
        assert memory.tally["broken connections"] > 0, "it died under load"
        assert one.process.poll() is not None
        assert other.request("GET", "/readyz").status == 200
        assert len(other.workers()) == 2
