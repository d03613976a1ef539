"""The statements of `sepu db distribute`, on a plain Postgres. tests/citus has the cluster."""

from pathlib import Path

import pytest
from psycopg import ClientCursor, Connection, errors

from sepu.admin.distribute import delegated_commands
from sepu.database import statements
from sepu.metering.commands import UNAUTHORIZED

ONLY_ON_A_CLUSTER = Path(statements.__file__).parent / "sql" / "statements" / "distribute.sql"


@pytest.mark.parametrize("name", delegated_commands(""))
def test_a_delegated_command_runs_and_refuses_an_unknown_key(connection: Connection, name: str) -> None:
    command = delegated_commands("probe1")[name]
    for cursor in (connection.cursor(), ClientCursor(connection)):
        answer = command.read(cursor.execute(command.statement, command.parameters).fetchall())
        assert answer == command.refused(UNAUTHORIZED)


def test_each_function_that_is_delegated_has_its_command(connection: Connection) -> None:
    """By the rule of citus.sql."""
    functions = connection.execute(
        "select proname from pg_proc where pronamespace = 'sepu'::regnamespace and prosecdef "
        "and proargnames[1] = 'p_account_id'"
    ).fetchall()
    assert {name for (name,) in functions} == delegated_commands("").keys()


@pytest.mark.parametrize("name", statements.parse([ONLY_ON_A_CLUSTER.read_text("utf-8")]))
def test_a_statement_of_a_cluster_takes_no_parameters_and_lacks_only_citus(connection: Connection, name: str) -> None:
    try:
        statements.run(connection, name)
    except (errors.UndefinedTable, errors.UndefinedFunction) as lacking:
        assert lacking.diag.message_primary is not None
        assert "pg_dist" in lacking.diag.message_primary or "get_shard_id" in lacking.diag.message_primary
