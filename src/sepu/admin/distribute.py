"""Distributes the ledger over a Citus cluster by account, and checks that each request runs on its account's node.

If Citus cannot delegate a call, it silently runs the function on the coordinator: answers stay right, but the workers
idle. So this checks Citus's plan of each call.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from sepu.database import statements
from sepu.database.settings import BrokenSetting, broken_nodes
from sepu.errors import SepuError
from sepu.metering.commands import UNAUTHORIZED, Charge, Command, admit, meter_request, read_usage
from sepu.metering.key_format import Credential


@dataclass(frozen=True, slots=True)
class Distribution:
    """The newly distributed tables, and the workers to which requests are delegated."""

    distributed: tuple[str, ...]
    workers: tuple[str, ...]


def distribute(connection: psycopg.Connection) -> Distribution:
    """Distributes the remaining tables, all or nothing, and checks that calls are delegated to every worker.

    Raises:
        SepuError: this is not Citus, it has no workers, a table has no account, calls are not delegated, or a node does
            not serve a role as it should.
    """
    with connection.transaction():
        statements.run(connection, "lock_migrations")
        if not statements.value(connection, "has_citus"):
            raise SepuError("this database has no Citus; install it, and: create extension citus")
        if not statements.value(connection, "has_workers"):
            raise SepuError("this Citus has no workers for shards; add them with citus_add_node")
        if strays := _names(connection, "read_strays"):
            raise SepuError(f"{', '.join(strays)} cannot be distributed: there is no account_id")
        due = _names(connection, "read_undistributed")
        with _first_error(connection):
            connection.execute(statements.distribution())
        if left := _names(connection, "read_undistributed"):
            raise SepuError(f"Citus did not distribute {', '.join(left)} by account")
    workers, failed = [], None
    try:
        for worker, account_id in statements.run(connection, "read_probes").fetchall():
            _check_delegation(connection, worker, account_id)
            workers.append(worker)
    except psycopg.Error as error:
        failed = error
    if broken := broken_nodes(connection):
        raise SepuError(
            "\n  ".join(["not all nodes can serve; see: sepu db check", *map(_sentence, broken)])
        ) from failed
    if failed is not None:
        raise failed
    return Distribution(tuple(due), tuple(workers))


@contextmanager
def _first_error(connection: psycopg.Connection) -> Iterator[None]:
    """Raises what a node refused first. Citus only warns of it, and then raises that the transaction was aborted."""
    warnings: list[str] = []

    def remember(diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            warnings.append(" ".join(filter(None, (diagnostic.message_primary, diagnostic.context))))

    connection.add_notice_handler(remember)
    try:
        yield
    except psycopg.errors.InFailedSqlTransaction as error:
        if not warnings:
            raise
        raise SepuError(f"Citus could not distribute: {' '.join(warnings[0].split())}") from error
    finally:
        connection.remove_notice_handler(remember)


def _sentence(broken: BrokenSetting) -> str:
    return f"{broken.node or 'this node'}, {broken.role}: {broken.setting} is {broken.value} instead of {broken.needed}"


def delegated_commands(account_id: str) -> dict[str, Command[Any]]:
    """Returns by name each command sent for one account, with a key that does not exist."""
    credential = Credential(account_id, b"")  # no key has such a hash
    charge = Charge("color_match", 1, b"", b"{}")
    return {
        "admit": admit(credential),
        "read_usage": read_usage(credential),
        "meter_request": meter_request(credential, "probe-key", charge, str(uuid.UUID(int=0))),
    }


def _check_delegation(connection: psycopg.Connection, worker: str, account_id: str) -> None:
    with psycopg.ClientCursor(connection) as cursor:  # constants in the text: Citus plans those
        for name, command in delegated_commands(account_id).items():
            plan = cursor.execute("explain (format json) " + command.statement, command.parameters).fetchall()
            if not _is_delegated(plan[0][0]):
                raise SepuError(
                    f"sepu.{name} runs on the coordinator instead of {worker}; "
                    "to see why: set client_min_messages = debug4"
                )
            # No account has this key, so nothing is written, but the function must find all that it calls.
            answer = command.read(cursor.execute(command.statement, command.parameters).fetchall())
            if answer != command.refused(UNAUTHORIZED):
                raise SepuError(f"sepu.{name} on {worker} answered a key that does not exist with {answer}")


def _is_delegated(plan: list[dict[str, Any]]) -> bool:
    """Returns whether the whole call is one task on one worker."""
    root = plan[0]["Plan"]
    return bool(root.get("Custom Plan Provider") == "Citus Adaptive" and not root.get("Plans"))


def _names(connection: psycopg.Connection, name: str) -> list[str]:
    return [found for (found,) in statements.run(connection, name).fetchall()]
