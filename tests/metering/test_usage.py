"""Usage near limits, past limits of plans, and a month's export."""

import calendar
from datetime import UTC, date, datetime, timedelta

import pytest
from psycopg import Connection, Rollback
from tests.metering.conftest import Customer, MakeCustomer, OpenSession

from sepu.admin import accounts, export
from sepu.admin.audit import audit
from sepu.admin.export import check_begun, count_exported, export_usage, why_unfinished
from sepu.admin.naming import AccountError
from sepu.admin.plans import delete_plan, set_plan
from sepu.admin.prune import prune
from sepu.admin.usage import (
    DayAndDayBefore,
    days_of_month,
    nearest_limits,
    read_now,
    show_usage,
    usage_in_month,
    usage_of_two_days,
)
from sepu.database import statements
from sepu.database.connection import snapshot
from sepu.errors import SepuError
from sepu.metering.meters import METERS

pytestmark = pytest.mark.usefixtures("own_ledger")  # these look at all accounts

NOW = datetime.now(UTC)
THIS = f"{NOW:%Y-%m}"
MARCH = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_lost_day_is_a_difference(connection: Connection, customer: Customer) -> None:
    customer.meter(connection, units=3, at=MARCH)
    list(prune(connection, 31))
    for tampered, dated, days in (
        ("update sepu.usage_day set units = units + 1", 3, 4),
        ("update sepu.usage set dated = 4", 4, 4),
        ("delete from sepu.usage_day", 4, None),
    ):
        assert connection.execute(tampered.encode()).rowcount == 1
        (found,) = audit(connection).differences
        assert found.account_id == customer.account_id
        assert (found.committed, found.pruned, found.dated, found.days) == (3, 3, dated, days)


def test_today_and_yesterday_until_this_time(connection: Connection, customer: Customer) -> None:
    day, tick = timedelta(days=1), timedelta(microseconds=1)
    with connection.transaction():
        now = read_now(connection)
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        times = (today - day - tick, today - day, now - day, now - day + tick, today - tick, today, now)
        for number, at in enumerate(times):
            customer.meter(connection, f"key-{number:04}", units=2**number, at=at)
        used = usage_of_two_days(connection)
    assert used["color_match"] == DayAndDayBefore(today=32 + 64, yesterday=2 + 4 + 8 + 16, yesterday_by_now=2 + 4)
    assert used["color_search"] == DayAndDayBefore(0, 0, 0)


def test_a_day_has_24_hours(connection: Connection, customer: Customer) -> None:
    day, tick = MARCH.replace(day=2), timedelta(microseconds=1)
    instants = day - tick, day, day + timedelta(hours=1) - tick, day + timedelta(hours=24) - tick, MARCH.replace(day=3)
    for number, at in enumerate(instants):
        customer.meter(connection, f"key-{number:04}", units=2**number, at=at)
    found = usage_in_month(connection, "2026-03", customer.account_id, day.date()).hours
    used = {"00": 2 + 4, "23": 8}
    assert [(part.name, part.units["color_match"]) for part in found] == [
        (name, used.get(name, 0)) for name in (f"{hour:02}" for hour in range(24))
    ]


def test_accounts_near_a_limit(connection: Connection, make_customer: MakeCustomer) -> None:
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
    assert {each.status for each in found} == {"active"}
    assert [each.account_id for each in nearest_limits(connection, 100, 1)] == [over.account_id]
    assert len(nearest_limits(connection, 0, 10)) == 4


LAST = f"{NOW.replace(day=1) - timedelta(days=1):%Y-%m}"


def created(connection: Connection, customer: Customer, at: str) -> None:
    connection.execute("update sepu.account set created_at = %s where account_id = %s", (at, customer.account_id))


def exported(connection: Connection, period: str) -> list[tuple[str, int, int, int, int]]:
    """Each account's limit and committed units of both meters."""
    found = []
    for account in export_usage(connection, period):
        match, search = account.usage
        assert [(used.period, used.meter) for used in account.usage] == [(period, meter) for meter in METERS]
        assert (match.reserved, search.reserved) == (0, 0)
        found.append((account.account_id, match.limit, match.committed, search.limit, search.committed))
    assert count_exported(connection, period) == len(found)
    return found


def test_all_accounts_export_as_each_alone_also_after_a_plan_is_deleted(
    connection: Connection, make_customer: MakeCustomer
) -> None:
    customer, gold = make_customer(10, 20), make_customer(100, 200)
    created(connection, customer, "2020-01-01T00:00:00Z")
    accounts.move_account(connection, customer.account_id, gold.plan_id)
    delete_plan(connection, customer.plan_id)
    set_plan(connection, customer.plan_id, {"color_match": 1, "color_search": 1}, requests_per_minute=1)
    for period, plan, changes in ((LAST, customer.plan_id, 0), (THIS, gold.plan_id, 1)):
        whole = list(export_usage(connection, period))
        assert whole == [each for found in whole for each in export_usage(connection, period, found.account_id)]
        (own,) = (found for found in whole if found.account_id == customer.account_id)
        assert (own.plan_id, len(own.changes)) == (plan, changes)
        assert [used.limit for used in own.usage] == ([10, 20] if plan == customer.plan_id else [100, 200])


def test_a_month_is_one_of_utc_wherever_the_session_is(connection: Connection, make_customer: MakeCustomer) -> None:
    inside, outside = make_customer(), make_customer()
    created(connection, inside, "2026-02-28T23:59:59.999999Z")
    created(connection, outside, "2026-03-01T00:00:00Z")
    for zone in ("UTC", "Asia/Shanghai", "America/Los_Angeles"):
        connection.execute("select set_config('timezone', %s, false)", (zone,))
        assert [row[0] for row in exported(connection, "2026-02")] == [inside.account_id]
        assert exported(connection, "2026-01") == []
        assert len(exported(connection, "2026-03")) == 2


def test_a_month_or_an_account_that_there_is_not(connection: Connection) -> None:
    with pytest.raises(AccountError, match="there is no account 'nobody'"):
        show_usage(connection, "nobody")
    for period in (f"{NOW + timedelta(days=32):%Y-%m}", "9999-12"):
        with pytest.raises(SepuError, match=f"the month {period} has not begun"):
            check_begun(connection, period)


# As if transactions were prepared, here and in another database, and a node of a Citus cluster did not answer.
PREPARED_AND_SILENT = """
set local allow_system_table_mods = on;
create or replace view pg_catalog.pg_prepared_xacts as
select '1'::xid as transaction, gid, now() as prepared, current_user as owner, database
  from (values ('p-1', current_database()), ('p-2', 'another')) p (gid, database);
update pg_extension set extname = 'citus';
create function run_command_on_all_nodes(command text, out nodeid integer, out success boolean, out result text)
returns setof record language plpgsql as $$ begin
    execute command into result;
    return query values (1, true, result), (2, false, 'could not connect');
end $$
"""


def test_a_month_is_not_over_while_a_transaction_of_it_may_run(
    connection: Connection, session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_DRAIN_SECONDS", 0.0)
    assert why_unfinished(connection, THIS) == f"the month {THIS} is not over"
    assert why_unfinished(connection, LAST) is None
    charging = session()
    with charging.transaction():
        pid = charging.info.backend_pid
        (own,) = export._running(connection, THIS)
        assert f"of process {pid}" in own
        with connection.transaction(force_rollback=True):
            connection.execute(PREPARED_AND_SILENT)
            others = {"p-1 of process none: it is prepared", "those of node 2: it does not answer"}
            assert export._running(connection, THIS) == {own, *others}
        assert why_unfinished(connection, LAST) is None, "it began after that month"
        with connection.transaction():  # an owner that may not see when another's transaction began
            connection.execute("create role sepu_blind; grant create on schema sepu to sepu_blind")
            connection.execute("alter function sepu.unfinished owner to sepu_blind")
            assert f"may have begun in {LAST} are still running: " in str(why_unfinished(connection, LAST))
            raise Rollback
    assert export._running(connection, THIS) == set()


@pytest.mark.parametrize("period", ["2025-02", "2026-01", "2026-04", "2024-02"])
def test_a_month_ends_with_its_last_day(connection: Connection, period: str) -> None:
    text = statements.statement("month_has_ended").replace("now()", "%(now)s::timestamptz")
    days = calendar.monthrange(*map(int, period.split("-")))[1]
    ends = datetime.fromisoformat(f"{period}-01T00:00Z") + timedelta(days=days)
    for now in (ends - timedelta(microseconds=1), ends):
        is_over = connection.execute(text, {"period": period, "now": now}).fetchone()
        assert is_over == (now == ends,)


def test_an_export_waits_for_the_transactions_of_its_month(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [{"of the month"}, {"of the month", "of the next"}, {"of the next"}]
    monkeypatch.setattr(export, "_running", lambda *asked: found.pop(0) if asked == (connection, LAST) else set())
    assert why_unfinished(connection, LAST) is None
    assert found == []
    monkeypatch.setattr(export, "_DRAIN_SECONDS", 0.0)
    for last, named in ((5, "1; 2; 3; 4; 5"), (6, "1; 2; 3; 4; 5; …")):
        found = [{str(number) for number in range(1, last + 1)}]
        why = why_unfinished(connection, LAST)
        assert why == f"transactions that may have begun in {LAST} are still running: {named}"


def test_a_move_at_the_end_of_a_month(connection: Connection, make_customer: MakeCustomer) -> None:
    customer, gold = make_customer(10, 20), make_customer(100, 200)
    created(connection, customer, "2026-01-01T00:00:00Z")
    accounts.move_account(connection, customer.account_id, gold.plan_id)
    end = datetime(2026, 4, 1, tzinfo=UTC)
    for at, plan_id, moves in ((end, customer.plan_id, 0), (end - timedelta(microseconds=1), gold.plan_id, 1)):
        connection.execute("update sepu.change set changed_at = %s where action = 'account.move'", (at,))
        (own,) = export_usage(connection, "2026-03", customer.account_id)
        assert (own.plan_id, len(own.changes)) == (plan_id, moves)


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
    with snapshot(connection):
        for key in ("key-0002", "key-0003"):
            assert [row[2] for row in exported(connection, THIS)] == [1] * 5
            assert customers[0].meter(charging, key, at=NOW).outcome == "charged"


def test_it_fetches_page_by_page(
    connection: Connection, make_customer: MakeCustomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million accounts must not fill the memory: unread rows stay in the server."""
    monkeypatch.setattr(export, "_PAGE", 2)
    for _ in range(5):
        make_customer()
    lines = export_usage(connection, THIS)
    next(lines)
    assert connection.execute("select name from pg_cursors").fetchall() == [("export_usage",)]
    assert connection.execute("fetch all from export_usage").fetchall() != [], "the rest has not been sent"
    lines.close()  # as when the reader of the output ends
    assert connection.execute("select name from pg_cursors").fetchall() == []


def test_months_have_their_days() -> None:
    for month, days in (("2027-01", 31), ("2027-02", 28), ("2028-02", 29), ("2026-11", 30), ("2026-12", 31)):
        assert days_of_month(month) == (date.fromisoformat(f"{month}-01"), date.fromisoformat(f"{month}-{days}"))
