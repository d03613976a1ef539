"""A month's usage of every account: complete, of one moment, and in little memory."""

from datetime import UTC, datetime, timedelta

import pytest
from psycopg import Connection
from tests.metering.conftest import Customer, MakeCustomer, OpenSession

from sepu.admin import accounts, export
from sepu.admin.export import count_exported, export_usage
from sepu.errors import SepuError
from sepu.metering.meters import METERS

pytestmark = pytest.mark.usefixtures("own_ledger")  # an export takes everybody's usage

NOW = datetime.now(UTC)
THIS = f"{NOW:%Y-%m}"
LAST = f"{NOW.replace(day=1) - timedelta(days=1):%Y-%m}"


def created(connection: Connection, customer: Customer, at: str) -> None:
    connection.execute("update sepu.account set created_at = %s where account_id = %s", (at, customer.account_id))


def exported(connection: Connection, period: str) -> list[tuple[str, int, int, int, int]]:
    """Account, and limit and committed of both meters."""
    found = []
    for account in export_usage(connection, period):
        match, search = account.usage
        assert [(used.period, used.meter) for used in account.usage] == [(period, meter) for meter in METERS]
        assert (match.reserved, search.reserved) == (0, 0)
        found.append((account.account_id, match.limit, match.committed, search.limit, search.committed))
    assert count_exported(connection, period) == len(found)
    return found


def test_every_account_is_there_once_with_its_month(
    connection: Connection, make_customer: MakeCustomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_PAGE", 2)
    busy, idle, searching, suspended, fresh = (make_customer(100 + number, 50) for number in range(5))
    for customer in (busy, idle, searching, suspended):
        created(connection, customer, "2020-01-01T00:00:00Z")
    for key, units in (("key-0001", 5), ("key-0002", 2)):
        busy.meter(connection, key, units=units, at=NOW)
    busy.meter(connection, "key-0003", units=5, at=NOW - timedelta(days=NOW.day))  # of last month
    searching.meter(connection, meter="color_search", at=NOW)
    suspended.meter(connection, units=3, at=NOW)
    accounts.set_status(connection, suspended.account_id, "suspended")

    assert exported(connection, THIS) == sorted(
        [
            (busy.account_id, 100, 7, 50, 0),
            (idle.account_id, 101, 0, 50, 0),
            (searching.account_id, 102, 0, 50, 1),
            (suspended.account_id, 103, 3, 50, 0),
            (fresh.account_id, 104, 0, 50, 0),
        ]
    )
    last = {account_id: committed for account_id, _, committed, _, _ in exported(connection, LAST)}
    assert last == {busy.account_id: 5, idle.account_id: 0, searching.account_id: 0, suspended.account_id: 0}
    found = {account.account_id: account for account in export_usage(connection, THIS)}
    assert found[suspended.account_id].status == "suspended"
    assert found[busy.account_id].plan_id == busy.plan_id


def test_a_month_is_one_of_utc_wherever_the_session_is(connection: Connection, make_customer: MakeCustomer) -> None:
    inside, outside = make_customer(), make_customer()
    created(connection, inside, "2026-02-28T23:59:59.999999Z")
    created(connection, outside, "2026-03-01T00:00:00Z")
    for zone in ("UTC", "Asia/Shanghai", "America/Los_Angeles"):
        connection.execute("select set_config('timezone', %s, false)", (zone,))
        assert [row[0] for row in exported(connection, "2026-02")] == [inside.account_id]
        assert exported(connection, "2026-01") == []
        assert len(exported(connection, "2026-03")) == 2


def test_a_month_that_has_not_begun(connection: Connection) -> None:
    for period in (f"{NOW + timedelta(days=32):%Y-%m}", "9999-12"):
        with pytest.raises(SepuError, match=f"the month {period} has not begun"):
            count_exported(connection, period)


def test_it_is_of_one_moment(
    connection: Connection, session: OpenSession, make_customer: MakeCustomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_PAGE", 1)
    customers = [make_customer() for _ in range(5)]
    lines = export_usage(connection, THIS)
    found = [next(lines)]
    charging = session()
    for customer in customers:
        assert customer.meter(charging, at=NOW).outcome == "charged"
    found += lines
    assert [sum(meter.committed for meter in account.usage) for account in found] == [0] * 5
    assert [row[2] for row in exported(connection, THIS)] == [1] * 5


def test_it_fetches_page_by_page(
    connection: Connection, make_customer: MakeCustomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million accounts must not need memory: what is not asked for stays in the server."""
    monkeypatch.setattr(export, "_PAGE", 2)
    for _ in range(5):
        make_customer()
    lines = export_usage(connection, THIS)
    next(lines)
    assert connection.execute("select name from pg_cursors").fetchall() == [("export_usage",)]
    assert connection.execute("fetch all from export_usage").fetchall() != [], "the rest has not been sent"
    lines.close()  # as the end of whoever reads the output does
    assert connection.execute("select name from pg_cursors").fetchall() == []
