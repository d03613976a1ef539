"""`sepu db`."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from psycopg import Connection

from sepu.admin.distribute import distribute
from sepu.cli.command import example, form_options, group, json_option
from sepu.cli.decorators import REPEATABLE, database_options, prints_change, with_connection
from sepu.cli.output import (
    Form,
    check_output,
    columns,
    echo,
    echo_fields,
    echo_rows,
    members,
    note,
    report_success_if_unprinted,
)
from sepu.database.embedded import embedded_postgres
from sepu.database.migrate import migrate, schema_of_database
from sepu.database.opening import clear_errors, connect
from sepu.database.roles import (
    PURPOSES,
    LockHolder,
    OpenRight,
    Purpose,
    grant,
    lock_holders,
    not_of_purpose,
    read_open_rights,
    read_open_rights_of_nodes,
)
from sepu.database.settings import BrokenSetting, broken_settings


@group()
def db() -> None:
    """Manage the database's schema."""


@db.command("migrate", epilog=example("db migrate"))
@json_option
@database_options
def migrate_database(as_json: bool, database_url: str | None, state_dir: Path) -> None:
    """Apply this release's migrations; applying them again changes nothing."""
    check_output()
    with ExitStack() as stack:
        url = database_url or stack.enter_context(embedded_postgres(state_dir, create=False))
        stack.enter_context(clear_errors())
        applied = migrate(stack.enter_context(connect(url)))
    with report_success_if_unprinted({}, REPEATABLE):
        echo_fields({"applied": applied}, as_json)


@db.command("grant", epilog=example("db grant ada --for support"))
@click.argument("role")
@click.option("--for", "purpose", type=click.Choice(PURPOSES), required=True, help="What the role is for.")
@prints_change()
def grant_role(connection: Connection, role: str, purpose: Purpose) -> dict[str, str]:
    """Let a database role do what one purpose needs, and nothing else.

    Run by the owner of the schema. For programs: `service` is for sepu serve, `events` for sepu events deliver, and
    `read-only` for sepu console. For people, each includes what is before it: `read-only` lists everything that is no
    secret; `support` also sees what a request was charged for; `billing` also grants, credits and exports; `accounts`
    also changes accounts, keys and plans. A role has one purpose: granting another one replaces it.
    """
    grant(connection, role, purpose)
    if left := [right for right in read_open_rights(connection) if right.is_here]:
        note(f"{role} can still do what every role can; as a superuser run in this database:")
        echo(*_script(left), err=True)
    return {"role": role, "purpose": purpose}


@dataclass(frozen=True, slots=True)
class _Finding:
    """Something that breaks a promise, and the statements that mend it, if they are known."""

    role: str
    setting: str
    value: str
    needed: str
    set_by: str | None
    repair: str | None
    node: str | None = None


@db.command("check", epilog=example("db check"))
@click.option("--managed", is_flag=True, help="Nobody here is a superuser: do not fail for what only one can close.")
@form_options
@with_connection
def check_settings(connection: Connection, form: Form | None, managed: bool) -> None:
    """Check that no setting, right or session of Postgres breaks a promise.

    Checks the settings of this role and of each role that serves, what every role may do by default, the limits of the
    roles with a purpose and whether they may do more or less than it needs, and who has held locks for over a minute.
    On Citus, also connects to each other node as each of these roles, looks at its own rights, and compares the clocks.
    Run by the owner of the schema. Names the schema: its last migration's number and a digest of all, which equal
    versions share. Exit status: 0, all is right; 1, it lists what is not, and the statements that mend it.
    """
    left = [*read_open_rights(connection), *not_of_purpose(connection), *read_open_rights_of_nodes(connection)]
    bearable = [right for right in left if managed and right.by_superuser]
    found = [
        *map(_broken_setting, broken_settings(connection)),
        *map(_open_right, (right for right in left if right not in bearable)),
        *map(_lock_holder, lock_holders(connection)),
    ]
    schema = f"schema {schema_of_database(connection)}"
    if found or form:
        echo_rows(
            columns(_Finding),
            map(members, found),
            form or "table",
            lambda row: {name: value for name, value in row.items() if name != "repair"},
        )
    else:
        echo(f"all is right; {schema}")
    if bearable:
        note(f"only a superuser could close: {', '.join(right.what for right in bearable)}")
    if form in {"json", "csv"}:
        note(schema)
    elif found:
        right = [right for right in left if right not in bearable]
        if here := [one for one in right if one.node is None]:
            echo("", "As a superuser, run in this database:", *_script(here))
        for node in sorted({one.node for one in right if one.node is not None}):
            echo("", f"On {node}, run as root: deploy/postgres/close-public.sh {connection.info.user}")
        echo("", schema)
    if found:
        sys.exit(1)


def _broken_setting(broken: BrokenSetting) -> _Finding:
    return _Finding(broken.role, broken.setting, broken.value, broken.needed, broken.set_by, None, broken.node)


def _open_right(right: OpenRight) -> _Finding:
    where = "this database" if right.is_here else "the server"
    repair = "; ".join(right.statements) or f"deploy/postgres/close-public.sh, on {right.node}"
    return _Finding(right.role, right.what, right.value, right.needed, where, repair, right.node)


def _lock_holder(holder: LockHolder) -> _Finding:
    held = f"{holder.locks} since {holder.since}"
    return _Finding(holder.role, "locks", held, "none for so long", f"process {holder.pid}", holder.ending)


def _script(rights: Sequence[OpenRight]) -> list[str]:
    """Returns one transaction: an owner that loses a right before it gets its own could not charge."""
    return ["begin;", *(f"{statement};" for right in rights for statement in right.statements), "commit;"]


@db.command("distribute", epilog=example("db distribute"))
@json_option
@with_connection
def distribute_database(connection: Connection, as_json: bool) -> None:
    """Spread the tables and functions over the workers of a Citus cluster, by account.

    Run on the coordinator by the owner of the schema, after each `sepu db migrate`; repeating it changes nothing. Fails
    unless requests are delegated to every worker.
    """
    done = distribute(connection)
    with report_success_if_unprinted({}, REPEATABLE):
        echo_fields(asdict(done), as_json)
