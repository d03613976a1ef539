"""Records changes: one row for each account, key, plan or event that a command changed, in the command's transaction.

A row never changes, except that an erasure deletes the names in its account's rows.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import psycopg
from psycopg.rows import dict_row

from sepu.admin.operator import operator_name
from sepu.database.statements import run, statement

State = Mapping[str, Any]

NO_ACCOUNT = ""
"""The account of rows that concern no account, such as a plan's."""

REQUESTS_PER_MINUTE = "requestsPerMinute"
"""The abuse limit's name, where other limits have a meter's."""

# By the subject of a command: the statement that locks it, and the one that reads it.
_STATES = {
    "account": ("lock_account_state", "read_account_state"),
    "events": ("lock_account_state", "read_delivery_state"),
    "key": ("lock_account_state", "read_key_state"),
    "plan": ("lock_plan_state", "read_plan_state"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """What a command changed of one account, key, plan or event."""

    at: datetime
    account_id: str | None
    """None for a plan, and a prune."""
    action: str
    """The command: `account.move`, `key.revoke`."""
    subject: str
    """The id of what was changed."""
    operator: str
    """SEPU_OPERATOR, else the name of the user who ran the command."""
    role: str
    """The database role that the command logged in as."""
    before: Mapping[str, Any] | None
    """The state before the change; None if there was none."""
    after: Mapping[str, Any] | None
    """The state after it; None if there is none."""


@contextmanager
def recording(
    connection: psycopg.Connection, action: str, account_id: str = NO_ACCOUNT, subject: str | None = None
) -> Iterator[Mapping[str, State]]:
    """Runs the block in a transaction, and records its changes; yields the states before, by id.

    `action` names the subject: `account.…` the account, `key.…` one or all of its keys, `events.…` an event, `plan.…` a
    plan. No other command changes the subject at the same time. If the block changes nothing, or fails, nothing is
    recorded.
    """
    lock, read = _STATES[action.partition(".")[0]]
    which = {"account_id": account_id, "subject": subject}
    with connection.transaction():
        run(connection, lock, **which)
        before = _read(connection, read, which)
        yield before
        after = _read(connection, read, which)
        for changed in dict.fromkeys([*before, *after]):
            record_change(connection, action, account_id, changed, before.get(changed), after.get(changed))


def record_change(
    connection: psycopg.Connection,
    action: str,
    account_id: str,
    subject: str,
    before: State | None,
    after: State | None,
) -> None:
    """Records what differs between two states of something, if anything does.

    None means that the subject does not exist. Neither state may hold a secret. A customer's free text must be under a
    name that an erasure clears: `name`, `externalId`, `reason`.
    """
    old, new = before or {}, after or {}
    differing = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if differing or (before is None) is not (after is None):
        run(
            connection,
            "record_change",
            account_id=account_id,
            number=time.time_ns(),
            operator=operator_name(),
            action=action,
            subject=subject,
            before=None if before is None else _json({name: old.get(name) for name in differing}),
            after=None if after is None else _json({name: new.get(name) for name in differing}),
        )


def forget_names(connection: psycopg.Connection, account_id: str) -> None:
    """Deletes the free text from an account's rows."""
    run(connection, "forget_names", account_id=account_id)


def list_changes(
    connection: psycopg.Connection,
    *,
    account_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int | None = None,
    skip: int = 0,
) -> list[Change]:
    """Returns all changes, or those of an account and of the plans while it had them, the newest first.

    At most `limit`, after the first `skip`.
    """
    most = None if limit is None else skip + limit
    found = _list(connection, account_id, since=since, until=until, limit=most)
    if account_id is not None:
        had: list[tuple[datetime, str]] = run(connection, "read_plans_had", account_id=account_id).fetchall()
        plans = list({plan_id for _, plan_id in had})
        of_plans = _list(connection, NO_ACCOUNT, plans, since=since, until=until)
        found += [
            change
            for change in of_plans
            if next((plan_id for at, plan_id in had if at <= change.at), None) == change.subject
        ]
        found.sort(key=lambda change: change.at, reverse=True)
    return found[skip:most]


def _list(
    connection: psycopg.Connection,
    account_id: str | None,
    plans: list[str] | None = None,
    *,
    since: datetime | None,
    until: datetime | None,
    limit: int | None = None,
) -> list[Change]:
    times = {"since": since, "until": until}
    rows = run(connection, "list_changes", account_id=account_id, plans=plans, **times, limit=limit)
    return [Change(*row) for row in rows.fetchall()]


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A change of an account's plan, or of a limit of its plan."""

    at: datetime
    meter: str | None
    """None if the plan changed; REQUESTS_PER_MINUTE for the abuse limit."""
    before: str | int
    after: str | int


def read_moves(connection: psycopg.Connection, period: str, account_id: str | None) -> dict[str, list[PlanChange]]:
    """Returns moves to another plan since a UTC month began, by account or for one, oldest first."""
    moves: dict[str, list[PlanChange]] = defaultdict(list)
    for moved, at, before, after in run(connection, "read_moves", period=period, account_id=account_id):
        moves[moved].append(PlanChange(at, None, before, after))
    return moves


def _read(connection: psycopg.Connection, name: str, which: Mapping[str, str | None]) -> dict[str, State]:
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(statement(name), which).fetchall()
    return {row.pop("subject"): {**row.pop("limits", {}), **row} for row in rows}


def _json(state: State) -> str:
    in_utc = {name: at.astimezone(UTC) if isinstance(at, datetime) else at for name, at in state.items()}
    return msgspec.json.encode(in_utc, enc_hook=str).decode()
