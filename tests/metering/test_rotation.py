"""Rotating keys beyond the model: refusals, two operators, and secrecy."""

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import LiteralString

import pytest
from joserfc.jwk import RSAKey
from psycopg import Connection, sql
from tests.metering.conftest import Customer, HeldUp

from sepu.admin import receipts
from sepu.admin.keys import IssuedKey, issue_key, list_keys
from sepu.admin.naming import AccountError
from sepu.admin.rotation import rotate_key

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def private() -> RSAKey:
    return receipts.new_private_key()


def expiries(connection: Connection, customer: Customer) -> dict[str, datetime | None]:
    return {key.key_id: key.expires_at for key in list_keys(connection, customer.account_id)}


def state(connection: Connection, customer: Customer) -> tuple[list[tuple[object, ...]], ...]:
    """Everything that a rotation could change."""
    where = (customer.account_id,)
    return (
        connection.execute("select * from sepu.api_key where account_id = %s order by key_id", where).fetchall(),
        connection.execute("select * from sepu.receipt where account_id = %s order by rotation_id", where).fetchall(),
    )


@pytest.mark.parametrize("days", [100, 200, 300])  # from any day, one of these crosses a clock change
def test_the_grace_is_as_long_in_a_zone_with_summer_time(
    connection: Connection, customer: Customer, private: RSAKey, days: int
) -> None:
    connection.execute("set time zone 'America/New_York'")
    made = rotate_key(connection, customer.account_id, private, "2031-03", timedelta(days=days))
    connection.execute("reset time zone")
    assert made.older_keys_expire_at.astimezone(UTC) - made.issued_at.astimezone(UTC) == timedelta(days=days)


def test_one_key_is_replaced_and_its_names_go_to_the_new_one(
    connection: Connection, customer: Customer, private: RSAKey
) -> None:
    shop, app = (issue_key(connection, customer.account_id, None, name, name) for name in ("shop", "app"))
    made = rotate_key(connection, customer.account_id, private, "r" * 128, DAY, replaced=shop.key_id)
    others = {customer.key_id: None, app.key_id: None}
    assert expiries(connection, customer) == {**others, shop.key_id: made.older_keys_expire_at, made.key_id: None}
    names = {key.key_id: (key.name, key.external_id) for key in list_keys(connection, customer.account_id)}
    assert names[shop.key_id] == ("shop", None)
    assert names[made.key_id] == ("shop", "shop")

    before = state(connection, customer)
    again = rotate_key(connection, customer.account_id, private, "r" * 128, timedelta(), replaced=shop.key_id)
    assert again == replace(made, repeated=True)
    for nobodys in ("nonsense", f"{customer.account_id}-bbbbbbbb"):
        with pytest.raises(AccountError, match="no key"):
            rotate_key(connection, customer.account_id, private, "other", DAY, replaced=nobodys)
    assert state(connection, customer) == before
    other = rotate_key(connection, customer.account_id, private, "r" * 128, DAY, replaced=app.key_id)
    assert not other.repeated, "each key has rotations of its own"
    assert expiries(connection, customer)[customer.key_id] is None
    rotate_key(connection, customer.account_id, private, "later", 2 * DAY)
    assert expiries(connection, customer)[shop.key_id] == made.older_keys_expire_at, "no key is lengthened"


def test_what_is_refused_leaves_nothing_behind(
    connection: Connection, customer: Customer, private: RSAKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(connection, customer)
    for rotation_id in ("", "a b", "a\n", "é", "a" * 129):
        with pytest.raises(AccountError, match="a rotation id has"):
            rotate_key(connection, customer.account_id, private, rotation_id, DAY)
    with pytest.raises(AccountError, match="expired already"):
        rotate_key(connection, customer.account_id, private, "2031-03", DAY, datetime(2020, 1, 1, tzinfo=UTC))
    for nobody in ("a" * 16, "nonsense", ""):
        with pytest.raises(AccountError, match="no account"):
            rotate_key(connection, nobody, private, "2031-03", DAY)

    def fails(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(receipts, "seal", fails)
    with pytest.raises(ZeroDivisionError):
        rotate_key(connection, customer.account_id, private, "2031-03", DAY)
    assert state(connection, customer) == before


@pytest.mark.parametrize("ends", ["revoked_at = now()", "expires_at = now()"])
def test_a_receipt_whose_key_has_ended_is_not_given_again(
    connection: Connection, customer: Customer, private: RSAKey, ends: LiteralString
) -> None:
    made = rotate_key(connection, customer.account_id, private, "2031-03", DAY)
    assert rotate_key(connection, customer.account_id, private, "2031-03", DAY).receipt == made.receipt
    connection.execute(f"update sepu.api_key set {ends} where key_id = %s", (made.key_id,))
    with pytest.raises(AccountError, match=f"its key {made.key_id} is revoked or expired"):
        rotate_key(connection, customer.account_id, private, "2031-03", DAY)


def test_two_operators_at_once_make_one_key(
    a: Connection, b: Connection, connection: Connection, customer: Customer, private: RSAKey, held_up: HeldUp
) -> None:
    made = rotate_key(a, customer.account_id, private, "2031-03", DAY)

    def charge_and_commit() -> None:
        connection.execute("set statement_timeout = '20s'")
        assert customer.meter(connection).outcome == "charged"  # its foreign key checks the account
        a.execute("commit")

    again = held_up(lambda: rotate_key(b, customer.account_id, private, "2031-03", DAY), charge_and_commit)
    assert (again.repeated, again.receipt) == (True, made.receipt)
    assert len(expiries(connection, customer)) == 2


def test_a_key_is_in_no_table_no_log_and_no_repr(connection: Connection, issued: IssuedKey, private: RSAKey) -> None:
    made = rotate_key(connection, issued.account_id, private, "2031-03", DAY)
    api_key = receipts.unseal(made.receipt.encode(), private).api_key
    tables = connection.execute("select tablename from pg_tables where schemaname = 'sepu'").fetchall()
    stored = b""
    for (table,) in tables:
        with connection.cursor().copy(sql.SQL("copy sepu.{} to stdout").format(sql.Identifier(table))) as rows:
            stored += b"".join(bytes(part) for part in rows)
    assert made.receipt.encode() in stored
    said = stored + repr(made).encode()
    for key in (issued.api_key, api_key):
        secret = key.split("_")[2].encode()
        for form in (secret, secret.hex().encode(), base64.b64encode(key.encode())):
            assert form not in said
