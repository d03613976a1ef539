"""The table of the contract on a Citus cluster."""

import pytest
from psycopg import Connection
from tests.citus.cluster import Citus
from tests.http.contract import Case, World, check_case, every_case
from tests.serving import Server

from sepu.admin.keys import IssuedKey

pytestmark = pytest.mark.slow


@every_case
def test_contract(case: Case, server: Server, cluster: Citus, connection: Connection, issued: IssuedKey) -> None:
    """What a case has running runs where requests do; a transaction block on the coordinator is not delegated."""
    check_case(case, server, World(cluster.worker_of(issued.account_id).url, connection, issued))
