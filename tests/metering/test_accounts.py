import psycopg
import pytest
from psycopg import Connection
from tests.metering.conftest import Customer, HeldUp

from sepu.admin import accounts
from sepu.admin.keys import IssuedKey
from sepu.admin.naming import AccountError, find_account
from sepu.admin.plans import set_plan, show_plan
from sepu.admin.usage import show_usage


def limits(connection: Connection, plan_id: str) -> list[tuple[int, ...]]:
    return connection.execute(
        "select m.units, s.units, requests_per_minute from sepu.plan "
        "join sepu.plan_limit m using (plan_id) join sepu.plan_limit s using (plan_id) "
        "where plan_id = %s and m.meter = 'color_match' and s.meter = 'color_search'",
        (plan_id,),
    ).fetchall()


@pytest.mark.parametrize("plan_id", ["", "Big", "-a", "a b", "a\n", "é", "a" * 65])
def test_set_plan_refuses_a_name(connection: Connection, plan_id: str) -> None:
    with pytest.raises(AccountError, match="plan"):
        set_plan(connection, plan_id, {"color_match": 1, "color_search": 1}, requests_per_minute=1)
    assert limits(connection, plan_id) == []


def test_a_plan_has_no_limit_for_what_is_not_a_meter(connection: Connection) -> None:
    with pytest.raises(TypeError, match="not for color_mtach"):
        set_plan(connection, "standard", {"color_mtach": 5})
    assert "color_mtach" not in dict(connection.execute("select meter, units from sepu.plan_limit").fetchall())


def test_a_plan_without_a_limit_is_named(connection: Connection, customer: Customer) -> None:
    connection.execute("delete from sepu.plan_limit where plan_id = %s and meter = 'color_search'", (customer.plan_id,))
    for shows in (accounts.show_account, show_usage):
        with pytest.raises(AccountError, match=f"{customer.plan_id}.*'color_search'"):
            shows(connection, customer.account_id)
    set_plan(connection, customer.plan_id, {"color_match": 1, "color_search": 1}, requests_per_minute=1)
    assert accounts.show_account(connection, customer.account_id).limits["color_search"] == 1


def test_uncounted_accounts_are_unknown(connection: Connection, a: Connection, customer: Customer) -> None:
    connection.execute("set lock_timeout = '1ms'")
    a.execute("lock table sepu.account")
    assert show_plan(connection, customer.plan_id).accounts is None


@pytest.mark.usefixtures("own_ledger")
def test_oldest_account(connection: Connection) -> None:
    assert accounts.oldest_account(connection) is None
    first, second = (accounts.create_account(connection, "standard").account_id for _ in range(2))
    for account_id, created_at in ((first, "2026-02-01Z"), (second, "2026-01-01Z")):
        connection.execute("update sepu.account set created_at = %s where account_id = %s", (created_at, account_id))
    assert accounts.oldest_account(connection) == second


def test_an_issued_key_shows_no_secret(issued: IssuedKey) -> None:
    assert issued.api_key not in f"{issued!r} {issued}"
    assert issued.account_id in repr(issued)


def test_the_id_of_a_key_finds_its_account(connection: psycopg.Connection) -> None:
    issued = accounts.create_account(connection, "standard")
    assert find_account(connection, issued.key_id) == issued.account_id
    [found] = accounts.list_accounts(connection, **accounts.resolve_search(connection, issued.key_id))
    assert found.account_id == issued.account_id
    with pytest.raises(AccountError, match="there is no account"):  # it has no such key
        find_account(connection, f"{issued.account_id}-aaaaaaaa")
    accounts.create_account(connection, "standard", external_id=issued.key_id)  # an external id may look like a key id
    assert find_account(connection, issued.key_id) == issued.account_id


def test_two_operators_at_once_give_an_external_id_to_one(a: Connection, b: Connection, held_up: HeldUp) -> None:
    made = accounts.create_account(a, "standard", external_id="at-once")
    with pytest.raises(AccountError, match=f"'at-once' is that of account {made.account_id}"):
        held_up(lambda: accounts.create_account(b, "standard", external_id="at-once"))
