"""Erasing beyond the model: nothing remains in any other table, or of requests under way."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from psycopg import Connection
from tests.metering.conftest import Customer, HeldUp, MakeCustomer

from sepu import limits
from sepu.admin import accounts
from sepu.admin.audit import audit
from sepu.admin.erase import erase_account
from sepu.admin.grants_and_credits import adjust_usage
from sepu.admin.history import list_changes
from sepu.admin.keys import change_key, issue_key
from sepu.admin.prune import prune
from sepu.admin.receipts import new_private_key, public_key
from sepu.admin.rotation import rotate_key

pytestmark = pytest.mark.usefixtures("own_ledger")  # an audit looks at all accounts

NOW = datetime.now(UTC)
KEPT = {"account", "adjustment", "change", "usage"}
Change = Callable[[Connection, str], object]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Skips the waits for calls under way, because there are none, and lists their seconds."""
    skipped: list[float] = []
    monkeypatch.setattr("sepu.admin.erase.time", SimpleNamespace(sleep=skipped.append))  # others sleep too
    return skipped


def rows_of(connection: Connection, account_id: str) -> dict[str, str]:
    """All rows about an account, as text, by table."""
    tables = connection.execute(
        "select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'account_id' "
        "where c.relnamespace = 'sepu'::regnamespace and c.relkind = 'r'"
    ).fetchall()
    found = {}
    for (table,) in tables:
        rows = connection.execute(f"select t::text from sepu.{table} t where account_id = %s".encode(), (account_id,))
        found[table] = "".join(row for (row,) in rows.fetchall())
    return {table: text for table, text in found.items() if text}


def test_nothing_of_the_customer_is_left(
    connection: Connection, make_customer: MakeCustomer, monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    monkeypatch.setattr(limits.retention, "RESULTS", 2)
    customer, other = (make_customer(match_limit=10) for _ in range(2))
    accounts.change_account(connection, customer.account_id, "Silk", "cus_silk")
    change_key(connection, customer.key_id, "Silk shop", "k-silk")
    public = public_key(json.dumps(new_private_key().as_dict(private=False)).encode())
    rotate_key(connection, customer.account_id, public, "silk-ticket", timedelta(days=7))
    accounts.move_account(connection, customer.account_id, other.plan_id)
    adjust_usage(connection, "grant", customer.account_id, "color_match", 500, reason="Ms Silk called")
    for each in (customer, other):
        for number in range(3):
            each.meter(connection, f"silk-old-{number}", units=2, at=NOW - timedelta(days=100), body=b'"silk"')
            each.meter(connection, f"silk-new-{number}", units=3, at=NOW, body=b'"silk"')
    list(prune(connection, 90))
    assert set(rows_of(connection, customer.account_id)) > KEPT
    others = rows_of(connection, other.account_id)

    erased = erase_account(connection, "cus_silk")
    assert (erased.keys, erased.receipts, erased.results) == (2, 1, 3)
    assert waits == [limits.database.STATEMENT_SECONDS + limits.database.LOCK_SECONDS]
    left = rows_of(connection, customer.account_id)
    assert set(left) == KEPT
    for text in ("silk", customer.credential.key_hash.hex(), "k-silk"):
        assert text not in str(left).lower()
    assert rows_of(connection, other.account_id) == others


@pytest.mark.parametrize(
    ("change", "keys"), [(issue_key, 2), (lambda session, whose: accounts.move_account(session, whose, "standard"), 1)]
)
def test_a_change_under_way_is_erased_too_and_recorded_once(
    a: Connection, b: Connection, connection: Connection, customer: Customer, held_up: HeldUp, change: Change, keys: int
) -> None:
    change(a, customer.account_id)
    assert held_up(lambda: erase_account(b, customer.account_id)).keys == keys
    assert "api_key" not in rows_of(connection, customer.account_id)
    assert list_changes(connection, account_id=customer.account_id)[0].before == {"status": "active"}


def test_a_charge_under_way_is_erased_too(
    a: Connection, b: Connection, connection: Connection, customer: Customer, held_up: HeldUp
) -> None:
    customer.meter(connection, "old-0001", at=NOW)
    assert customer.meter(a, "new-0001", units=5, at=NOW).outcome == "charged"
    assert held_up(lambda: erase_account(b, customer.account_id)).results == 2
    assert sum(customer.committed(connection).values()) == 6
    assert audit(connection).differences == ()
    assert audit(connection).results == 0
