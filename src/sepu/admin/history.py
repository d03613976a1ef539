"""Makes changes and records them: a row for each account, key, plan or event that a command changed.

The functions of the ledger write the rows, in the change's transaction, with the database role that logged in. A row
never changes, except that an erasure deletes the names in its account's rows.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import psycopg

from sepu.admin.operator import operator_name
from sepu.database.statements import run, value

State = Mapping[str, Any]

NO_ACCOUNT = ""
"""The account of rows that concern no account, such as a plan's."""

REQUESTS_PER_MINUTE = "requestsPerMinute"
"""The abuse limit's name, where other limits have a meter's."""


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


@dataclass(frozen=True, slots=True)
class Made:
    """What became of a change: an outcome of `sepu.make_change`, the states before, and who has the external id."""

    outcome: str
    before: Mapping[str, State]
    holder: str | None


def make_change(
    connection: psycopg.Connection,
    action: str,
    account_id: str,
    subject: str | None = None,
    given: Mapping[str, object] | None = None,
) -> Made:
    """Makes a change and records it, in one call; `given` are new values by their names in the history.

    None removes a value; a value that is not given stays. Unless the outcome is `done`, nothing was changed.
    """
    which = {"operator": operator_name(), "action": action, "account_id": account_id, "subject": subject}
    row = run(connection, "make_change", **which, given=_json(given or {})).fetchone()
    assert row is not None  # noqa: S101
    return Made(*row)


@contextmanager
def recording(connection: psycopg.Connection, action: str, account_id: str) -> Iterator[bool]:
    """Runs the block in a transaction, and records what it changes of an account; yields whether there is one.

    For the owner's commands; the others call `make_change`. No other command changes the account at the same time.
    """
    which = {"action": action, "account_id": account_id}
    with connection.transaction():
        run(connection, "lock_account_state", account_id=account_id)
        before = value(connection, "read_states", **which)
        yield bool(before)
        record_changes(connection, action, account_id, before, value(connection, "read_states", **which))


def record_changes(
    connection: psycopg.Connection,
    action: str,
    account_id: str,
    before: Mapping[str, State],
    after: Mapping[str, State],
) -> None:
    """Records what differs between states, by the ids of what they are of. Only the owner may."""
    which = {"operator": operator_name(), "action": action, "account_id": account_id}
    run(connection, "record_changes", **which, before=_json(before), after=_json(after))


def forget_names(connection: psycopg.Connection, account_id: str) -> None:
    """Deletes the free text from an account's rows."""
    run(connection, "forget_names", account_id=account_id)


def list_changes(
    connection: psycopg.Connection,
    *,
    account_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    operator: str | None = None,
    role: str | None = None,
    action: str | None = None,
    limit: int | None = None,
    skip: int = 0,
) -> list[Change]:
    """Returns all changes, or those of an account and of the plans while it had them, the newest first.

    `action` is one, or the first part of several: `key` for `key.issue`, `key.revoke` and the like. At most `limit`,
    after the first `skip`.
    """
    most = None if limit is None else skip + limit
    filters = {"since": since, "until": until, "operator": operator, "role": role, "action": action}
    found = _list(connection, account_id, filters, limit=most)
    if account_id is not None:
        had: list[tuple[datetime, str]] = run(connection, "read_plans_had", account_id=account_id).fetchall()
        plans = list({plan_id for _, plan_id in had})
        of_plans = _list(connection, NO_ACCOUNT, filters, plans)
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
    filters: Mapping[str, object],
    plans: list[str] | None = None,
    *,
    limit: int | None = None,
) -> list[Change]:
    rows = run(connection, "list_changes", account_id=account_id, plans=plans, **filters, limit=limit)
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


def _json(given: Mapping[str, object]) -> str:
    in_utc = {name: at.astimezone(UTC) if isinstance(at, datetime) else at for name, at in given.items()}
    return msgspec.json.encode(in_utc).decode()
