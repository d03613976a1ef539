"""A rolling upgrade that changes tables and the charging function's signature: both releases serve one database."""

import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from psycopg import Connection
from tests.harness.processes import until
from tests.harness.serving import serving
from tests.nodes.traffic import crowded
from tests.package import edited

from sepu import limits
from sepu.database.opening import connect
from sepu.database.opening import service_url as as_service

pytestmark = pytest.mark.slow

WAITS = "select from pg_locks where mode = 'AccessExclusiveLock' and not granted"
EDITS = tomllib.loads(Path(__file__).with_name("changed_signature.toml").read_text("utf-8"))


@pytest.mark.parametrize("worker", ["uvloop", "gthread"])
def test_servers_of_both_releases_go_on(tmp_path: Path, own_url: str, connection: Connection, worker: str) -> None:
    newer = edited(tmp_path, EDITS)
    url = as_service(own_url)

    def upgrade() -> None:
        """Migrates while another session holds a table that the migration must lock."""
        with connect(own_url) as other, ThreadPoolExecutor(1) as threads:
            other.execute("begin")
            other.execute("select from sepu.usage limit 1")
            migrating = threads.submit(newer.run, "db", "migrate", url=own_url)
            until(lambda: other.execute(WAITS).fetchall())
            time.sleep(2 * limits.database.STATEMENT_SECONDS)
            assert not migrating.done()
            other.execute("commit")
            assert "0099_remaining.sql" in migrating.result()

    with serving(worker, url) as old:
        upgraded = crowded(connection, [old.address], 1500, meanwhile=upgrade)
        # What follows is judged separately.
        connection.execute("truncate sepu.stored_result, sepu.usage, sepu.quota_event, sepu.event_delivery")
        with serving(worker, url, program=newer.program) as new:
            both = crowded(connection, [old.address, new.address], 1500)
            assert old.request("GET", "/readyz").status == 200
            assert all(b'"/v1/match"' in server.log.read_bytes() for server in (old, new))
    for verdict, memory in (upgraded, both):
        assert verdict.findings == []
        assert {what for what in memory.tally if what[0] == "5"} == set(), "not one request failed for the upgrade"
