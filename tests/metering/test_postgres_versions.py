"""The ledger on every other installed version of Postgres: its SQL uses nothing that one of them lacks."""

import re
from pathlib import Path

import pytest
from tests.harness.postgres import INSTALLED, Cluster
from tests.harness.proxy import socket_directory
from tests.harness.serving import serving
from tests.nodes.traffic import crowded, on_plan

from sepu.database.migrate import migrate
from sepu.database.opening import connect, service_url


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="no other Postgres is installed (Debian: apt install postgresql)")
@pytest.mark.parametrize("programs", INSTALLED, ids=lambda path: path.parent.name)
def test_requests_of_every_kind(programs: Path) -> None:
    with socket_directory() as directory:
        cluster = Cluster(directory, programs=programs)
        cluster.initialise()
        with cluster.running() as url, connect(url) as connection:
            migrate(connection)
            with serving("uvloop", service_url(url)) as server:
                assert server.match(on_plan(connection), "version-1").status == 200
                verdict, memory = crowded(connection, [server.address], 400, operated=url)
                log = server.log.read_text()
    assert verdict.explain() == ""
    assert memory.tally["200"] > 200
    # On a machine that stalls, a call may wait too long for its turn or a lock (55P03). Postgres refuses no statement.
    assert set(re.findall(r"ledger unavailable: (\w+ \w{5}|\w+: cannot read)", log)) <= {"LockNotAvailable 55P03"}
