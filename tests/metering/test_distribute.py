"""What `sepu db distribute` sends to a cluster, on a plain Postgres. tests/citus has the cluster."""

import pytest
from psycopg import ClientCursor, Connection

from sepu.admin.distribute import delegated_commands
from sepu.metering.commands import UNAUTHORIZED


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
