"""The contract's table on a Citus cluster."""

from collections.abc import Iterator

import psycopg
import pytest
from tests.citus.cluster import Citus
from tests.http.test_contract import World, test_contract

from sepu.metering import accounts

__all__ = ["test_contract"]


@pytest.fixture
def world(cluster: Citus, connection: psycopg.Connection, issued: accounts.IssuedKey) -> Iterator[World]:
    """What it has running runs where requests do; a transaction block on the coordinator is not delegated."""
    made = World(cluster.worker_of(issued.account_id).url, connection, issued)
    yield made
    for session in made.held:
        session.rollback()
        session.close()
