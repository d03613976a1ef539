"""Usage near limits, what changed of plans, and a month's export."""

from datetime import UTC, datetime, timedelta

import pytest
from psycopg import Connection
from tests.metering.conftest import Customer, MakeCustomer, OpenSession

from sepu.admin import accounts, export
from sepu.admin.audit import audit
from sepu.admin.export import check_begun, count_exported, export_usage
from sepu.admin.history import REQUESTS_PER_MINUTE, PlanChange
from sepu.admin.plans import delete_plan, set_plan
from sepu.admin.prune import prune
from sepu.admin.usage import AccountUsage, nearest_limits
from sepu.errors import SepuError
from sepu.metering.meters import METERS

pytestmark = pytest.mark.usefixtures("own_ledger")  # usage of all accounts takes everybody's

NOW = datetime.now(UTC)
THIS = f"{NOW:%Y-%m}"
MARCH = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_lost_day_is_a_difference(connection: Connection, customer: Customer) -> None:
    customer.meter(connection, units=3, at=MARCH)
    list(prune(connection, 31))
    for tampered, days in (("update sepu.usage_day set units = units + 1", 4), ("delete from sepu.usage_day", None)):
        assert connection.execute(tampered.encode()).rowcount == 1
        (found,) = audit(connection).differences
        assert found.account_id == customer.account_id
        assert (found.committed, found.pruned, found.dated, found.days) == (3, 3, 3, days)


def test_who_is_near_a_limit(connection: Connection, make_customer: MakeCustomer) -> None:
    near, over, at, none, _idle = (make_customer(match_limit=10, search_limit=0) for _ in range(5))
    for customer, units in ((near, 8), (at, 10), (over, 9), (none, 7)):
        customer.meter(connection, units=units, at=NOW)
    set_plan(connection, over.plan_id, {"color_match": 3})
    found = nearest_limits(connection, 80, 10)
    assert [(each.account_id, each.usage[0].committed, each.usage[0].limit) for each in found] == [
        (over.account_id, 9, 3),
        (at.account_id, 10, 10),
        (near.account_id, 8, 10),
    ]
    assert [each.account_id for each in nearest_limits(connection, 100, 1)] == [over.account_id]
    assert len(nearest_limits(connection, 0, 10)) == 4


def limits(found: AccountUsage) -> tuple[int, ...]:
    return tuple(used.limit for used in found.usage)


def test_changes_of_a_plan_are_kept_and_told(connection: Connection, make_customer: MakeCustomer) -> None:
    customer, gold, other = make_customer(10, 20), make_customer(100, 200), make_customer(10, 20)
    old = customer.plan_id
    late = accounts.create_account(connection, old).account_id

    def back(at: str) -> None:
        """Puts what was recorded just now at an earlier instant."""
        for of in ("change set changed_at = %s where changed_at", "plan_allowance set since = %s where since"):
            connection.execute(f"update sepu.{of} > now() - interval '1 hour'".encode(), (at,))

    connection.execute("update sepu.account set created_at = '2026-01-01Z'")
    connection.execute("update sepu.account set created_at = '2026-03-12Z' where account_id = %s", (late,))
    back("2026-01-01Z")

    def change(at: str, limits: dict[str, int], requests_per_minute: int | None = None) -> None:
        set_plan(connection, old, limits, requests_per_minute=requests_per_minute)
        back(at)

    def move(at: str, plan_id: str) -> None:
        accounts.move_account(connection, customer.account_id, plan_id)
        back(at)

    change("2026-03-05T00:00:00Z", {"color_match": 11})
    change("2026-03-05T12:00:00Z", {"color_match": 11, "color_search": 20})  # no change
    move("2026-03-10T00:00:00Z", gold.plan_id)
    move("2026-03-10T12:00:00Z", gold.plan_id)  # nor this
    change("2026-03-15T00:00:00Z", {"color_match": 12})  # of a plan that it has left
    move("2026-04-02T00:00:00Z", old)
    change("2026-04-07T00:00:00Z", {}, requests_per_minute=7)
    change("2026-05-01T00:00:00Z", {"color_search": 25}, requests_per_minute=7)

    def moment(day: str) -> datetime:
        return datetime.fromisoformat(f"2026-{day}T00:00:00Z")

    first = PlanChange(moment("03-05"), "color_match", 10, 11)
    to_gold = PlanChange(moment("03-10"), None, old, gold.plan_id)
    to_old = PlanChange(moment("04-02"), None, gold.plan_id, old)
    slower = PlanChange(moment("04-07"), REQUESTS_PER_MINUTE, 100_000, 7)
    last = PlanChange(moment("05-01"), "color_search", 20, 25)
    periods = ("2026-02", "2026-03", "2026-04", "2026-05")
    told = [export for period in periods for export in export_usage(connection, period, customer.account_id)]
    assert [(found.plan_id, limits(found), found.changes) for found in told] == [
        (old, (10, 20), ()),
        (gold.plan_id, (100, 200), (first, to_gold)),
        (old, (12, 20), (to_old, slower)),
        (old, (12, 25), (last,)),
    ]
    whole = {found.account_id: found for found in export_usage(connection, "2026-03")}
    assert whole[customer.account_id] == told[1]
    assert (whole[other.account_id].changes, limits(whole[other.account_id])) == ((), (10, 20))
    # An account is not told of changes before it was made.
    assert (whole[late].changes, limits(whole[late])) == (
        (PlanChange(moment("03-15"), "color_match", 11, 12),),
        (12, 20),
    )

    # A plan's old limits stay known when it is deleted, and made again with other limits.
    move("2026-05-02T00:00:00Z", gold.plan_id)
    accounts.move_account(connection, late, gold.plan_id)
    delete_plan(connection, old)
    set_plan(connection, old, {"color_match": 1, "color_search": 1}, requests_per_minute=1)
    again = [export for period in periods[:3] for export in export_usage(connection, period, customer.account_id)]
    assert again == told[:3]


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
            check_begun(connection, period)


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
