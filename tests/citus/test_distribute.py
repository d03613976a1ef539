"""`sepu db distribute` on a Citus cluster: a ledger that has grown, later migrations, and lost delegation."""

import json
import os
import uuid
from contextlib import closing
from typing import Any

import pytest
from psycopg import Connection
from tests.citus.cluster import Citus
from tests.harness.processes import completed
from tests.harness.serving import SEPU
from tests.keys import holder_of

from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.distribute import distribute
from sepu.admin.keys import IssuedKey
from sepu.database import statements
from sepu.database.migrate import migrate
from sepu.errors import SepuError
from sepu.metering.batcher_thread import BatcherThread
from sepu.metering.commands import Charge, meter_request

pytestmark = pytest.mark.slow

METADATA = (
    "select logicalrelid::text, partmethod, colocationid, repmodel from pg_dist_partition order by 1",
    "select objid::regprocedure::text, distribution_argument_index, colocationid from pg_dist_object "
    "where classid = 'pg_proc'::regclass order by 1",
    "select logicalrelid::text, shardid from pg_dist_shard order by 2",
)


@pytest.fixture
def connection(spoilt: Connection) -> Connection:
    return spoilt


def sepu(url: str, *arguments: str) -> Any:
    done = completed([SEPU, *arguments, "--json"], env={**os.environ, "SEPU_DATABASE_URL": url})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def metadata(connection: Connection) -> list[Any]:
    return [connection.execute(query).fetchall() for query in METADATA]


def outcomes(url: str, issued: list[IssuedKey]) -> list[str]:
    holders = [holder_of(each.api_key) for each in issued]
    charge = Charge("color_match", 3, bytes(32), b"{}")
    with closing(BatcherThread(url, batches=False)) as ledger:
        ledger.start()
        return [
            ledger.run(meter_request(holder, "grown-up-1", charge, str(uuid.uuid4()))).outcome for holder in holders
        ]


def test_a_ledger_that_has_grown_goes_on(other: Citus, connection: Connection) -> None:
    issued = [accounts.create_account(connection, "standard") for _ in range(12)]
    assert set(outcomes(other.url, issued)) == {"charged"}

    done = sepu(other.url, "db", "distribute")
    assert {"account", "usage", "stored_result", "request_rate", "meter_request"} <= set(done["distributed"])
    assert len(done["workers"]) == 2
    before = metadata(connection)
    assert sepu(other.url, "db", "distribute") == {"distributed": [], "workers": done["workers"]}
    assert metadata(connection) == before

    assert set(outcomes(other.url, issued)) == {"replayed"}
    assert {other.worker_of(each.account_id) for each in issued} == set(other.workers)
    found = audit(connection)
    assert (found.results, found.differences) == (12, ())
    issued.append(accounts.create_account(connection, "standard"))
    assert outcomes(other.url, issued)[-1] == "charged"
    seeds = connection.execute("select distinct lock_seed from sepu.account").fetchall()
    assert len(seeds) == len(issued), "each account has its own, made before or after"


def test_a_later_migration_runs_on_the_cluster(
    other: Citus, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribute(connection)
    later = statements.Script(
        "0099_later.sql",
        "alter table sepu.usage add column later integer;\n"
        "alter table sepu.usage add constraint usage_later_natural check (later >= 0);\n"
        "create table sepu.later (account_id text primary key references sepu.account (account_id));\n"
        "insert into sepu.plan (plan_id, requests_per_minute) values ('later', 1);\n",
    )
    first = statements.migrations()
    monkeypatch.setattr(statements, "migrations", lambda: (*first, later))
    connection.execute("delete from sepu.migration where name = 'functions.sql'")  # they are pending again
    assert migrate(connection) == [later.name, "functions.sql"]
    assert distribute(connection).distributed == ("later",)
    issued = [accounts.create_account(connection, "standard")]
    assert outcomes(other.url, issued) == ["charged"]


def test_a_table_without_a_known_place_is_refused(connection: Connection) -> None:
    connection.execute("create table sepu.stray (name text primary key)")
    with pytest.raises(SepuError, match="stray"):
        distribute(connection)
    assert connection.execute("select count(*) from pg_dist_partition").fetchone() == (0,)


@pytest.mark.parametrize("spoil", ["a volatile argument", "metadata that is not synchronised"])
def test_a_call_that_is_not_delegated_is_reported(connection: Connection, spoil: str) -> None:
    distribute(connection)
    text = "select stop_metadata_sync_to_node('127.0.0.1', nodeport) from pg_dist_node where groupid <> 0"
    if spoil == "a volatile argument":
        default = "p_now timestamptz default "
        text = statements.functions().text.replace(f"{default}now()", f"{default}clock_timestamp()")
    connection.execute(text.encode())
    try:
        with pytest.raises(SepuError, match="coordinator"):
            distribute(connection)
    finally:
        connection.execute("select start_metadata_sync_to_all_nodes()")


def test_a_function_that_lost_its_account_is_distributed_again(connection: Connection) -> None:
    distribute(connection)
    connection.execute(
        "update pg_dist_object set distribution_argument_index = null where objid = 'sepu.meter_request'::regproc"
    )
    assert distribute(connection).distributed == ("meter_request",)


def test_the_first_error_of_a_node_is_shown(connection: Connection) -> None:
    """The caller is older than what it calls, so a node cannot create it first."""
    connection.execute("set citus.enable_ddl_propagation = off")  # as if they were there before Citus
    create = "create function sepu.{}() returns integer language sql as 'select {}'"
    for name, body in (("called", "1"), ("calling", "sepu.called()")):
        connection.execute(create.format(name, body).encode())
    connection.execute("drop function sepu.called()")
    connection.execute(create.format("called", "1").encode())
    connection.execute("reset citus.enable_ddl_propagation")
    with pytest.raises(SepuError, match=r"function sepu\.called\(\) does not exist"):
        distribute(connection)


def test_no_workers(connection: Connection) -> None:
    connection.execute("drop schema sepu cascade")
    connection.execute(
        "select citus_set_node_property('127.0.0.1', nodeport, 'shouldhaveshards', false) "
        "from pg_dist_node where groupid <> 0"
    )
    try:
        migrate(connection)
        with pytest.raises(SepuError, match="no workers"):
            distribute(connection)
    finally:
        connection.execute(
            "select citus_set_node_property('127.0.0.1', nodeport, 'shouldhaveshards', true) "
            "from pg_dist_node where groupid <> 0"
        )


def test_all_of_it_or_nothing(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "distribution", lambda: "create table sepu.half (account_id text primary key)")
    with pytest.raises(SepuError, match="did not distribute account"):
        distribute(connection)
    assert connection.execute("select to_regclass('sepu.half')").fetchone() == (None,)
