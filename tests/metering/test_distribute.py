"""The statements of `sepu db distribute`, on a plain Postgres. tests/citus has the cluster."""

from pathlib import Path

import pytest
from psycopg import ClientCursor, Connection, errors

from sepu.admin.distribute import _is_delegated, delegated_commands, distribute
from sepu.database import statements
from sepu.metering.commands import UNAUTHORIZED

ONLY_ON_A_CLUSTER = Path(statements.__file__).parent / "sql" / "statements" / "distribute.sql"


@pytest.mark.parametrize("name", delegated_commands(""))
def test_a_delegated_command_runs_and_refuses_an_unknown_key(connection: Connection, name: str) -> None:
    command = delegated_commands("probe1")[name]
    for cursor in (connection.cursor(), ClientCursor(connection)):
        answer = command.read(cursor.execute(command.statement, command.parameters).fetchall())
        assert answer == command.refused(UNAUTHORIZED)


# Citus's tables, and functions that record what is distributed and fail for what already is.
CITUS = """
set local search_path = public;
create table pg_dist_partition (
    logicalrelid regclass primary key, partmethod "char", repmodel "char", colocationid integer);
create table pg_dist_object (
    classid oid, objid oid primary key, distribution_argument_index integer, colocationid integer);
create function create_reference_table(regclass) returns void
    language sql as $$ insert into pg_dist_partition values ($1, 'n', 't', 2) $$;
create function create_distributed_table(regclass, text, colocate_with text) returns void
    language sql as $$ insert into pg_dist_partition values ($1, 'h', 's', 1) $$;
create function create_distributed_function(regprocedure, text default null, colocate_with text default null)
    returns void language sql as $$ insert into pg_dist_object values ('pg_proc'::regclass, $1, length($2) * 0, 1) $$;
create table pg_dist_local_group as select 0 as groupid;
create table pg_dist_node as select * from (values
    (0, true, true, 'primary'), (1, false, true, 'primary'), (1, true, false, 'primary'), (1, true, true, 'secondary')
) node (groupid, isactive, shouldhaveshards, noderole);
"""


def test_a_call_with_a_plan_on_the_coordinator_is_not_delegated() -> None:
    whole: dict[str, object] = {"Custom Plan Provider": "Citus Adaptive"}
    found = [_is_delegated([{"Plan": plan}]) for plan in (whole, whole | {"Plans": [{}]}, {"Node Type": "Result"})]
    assert found == [True, False, False]


def test_all_is_distributed_once_and_keeps_no_plan(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function that is delegated has its command, and keeps no plan."""
    with connection.transaction(force_rollback=True):
        connection.execute(CITUS)
        assert statements.value(connection, "has_workers") is False
        connection.execute("insert into pg_dist_node values (1, true, true, 'primary')")
        assert statements.value(connection, "has_workers") is True
        made = connection.execute(
            "select relname from pg_class "
            "where relnamespace = 'sepu'::regnamespace and relkind = 'r' and relname <> 'probe' "
            "union all select proname from pg_proc where pronamespace = 'sepu'::regnamespace order by 1"
        ).fetchall()
        assert statements.run(connection, "read_undistributed").fetchall() == made
        for _ in range(2):
            connection.execute(statements.distribution())
        assert statements.run(connection, "read_undistributed").fetchall() == []
        with connection.transaction(force_rollback=True):  # it is on one node only
            connection.execute("update pg_dist_partition set repmodel = 's' where logicalrelid = 'sepu.plan'::regclass")
            assert statements.run(connection, "read_undistributed").fetchall() == [("plan",)]
        custom = connection.execute(
            "select proname from pg_proc where 'plan_cache_mode=force_custom_plan' = any (proconfig)"
        ).fetchall()
        connection.execute("update pg_extension set extname = 'citus'")
        monkeypatch.setattr("sepu.admin.distribute.broken_nodes", lambda _: [])
        with pytest.raises(errors.UndefinedTable, match="pg_dist_placement"):  # so the workers cannot be checked
            distribute(connection)
    assert {name for (name,) in custom} == delegated_commands("").keys()


def test_each_of_many_workers_has_a_probe(connection: Connection) -> None:
    with connection.transaction(force_rollback=True):
        connection.execute(CITUS)
        connection.execute("""
            create table pg_dist_placement as select i as shardid, i as groupid from generate_series(1, 64) i;
            create function get_shard_id_for_distribution_column(text, text) returns integer
                language sql as 'select 1 + (hashtext($2) & 63)';
            drop table pg_dist_node;
            create table pg_dist_node as
                select groupid, groupid as nodeid, 'w' as nodename, groupid as nodeport, 'primary' as noderole
                  from pg_dist_placement""")
        assert len(statements.run(connection, "read_probes").fetchall()) == 64


@pytest.mark.parametrize("name", statements.parse([ONLY_ON_A_CLUSTER.read_text("utf-8")]))
def test_a_statement_of_a_cluster_takes_no_parameters_and_lacks_only_citus(connection: Connection, name: str) -> None:
    try:
        statements.run(connection, name)
    except (errors.UndefinedTable, errors.UndefinedFunction) as lacking:
        assert lacking.diag.message_primary is not None
        assert "pg_dist" in lacking.diag.message_primary or "get_shard_id" in lacking.diag.message_primary
