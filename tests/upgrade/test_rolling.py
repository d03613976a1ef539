"""A rolling upgrade in which the signature of what charges changes: both releases serve one database."""

from pathlib import Path

import psycopg
import pytest
from tests.nodes.traffic import crowded
from tests.package import patched
from tests.serving import serving

from sepu.cli.database import service_url as as_service

PATCH = Path(__file__).with_name("changed_signature.patch")


@pytest.mark.parametrize("worker", ["uvloop", "gthread"])
def test_servers_of_both_releases_go_on(
    tmp_path: Path, own_url: str, connection: psycopg.Connection, worker: str
) -> None:
    newer = patched(tmp_path, PATCH)
    url = as_service(own_url)

    def upgrade() -> None:
        newer.run("db", "migrate", url=own_url)

    with serving(worker, url) as old:
        upgraded = crowded(connection, [old.address], 1500, meanwhile=upgrade)
        # What follows is judged by itself.
        connection.execute("truncate sepu.stored_result, sepu.usage, sepu.quota_event, sepu.event_delivery")
        with serving(worker, url, program=newer.program) as new:
            both = crowded(connection, [old.address, new.address], 1500)
            assert old.request("GET", "/readyz").status == 200
            assert all(b'"/v1/match"' in server.log.read_bytes() for server in (old, new))
    for verdict, memory in (upgraded, both):
        assert verdict.findings == []
        assert {what for what in memory.tally if what[0] == "5"} == set(), "not one request failed for the upgrade"
