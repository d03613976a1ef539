"""Pruning: what is past retention goes, what was charged stays, and traffic does not notice."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import Connection
from tests.metering.conftest import Customer, HeldUp, MakeCustomer, OpenSession

from sepu.admin import prune as pruning
from sepu.admin.audit import Audit, audit
from sepu.admin.prune import PrunedBatch, count_prunable, prune
from sepu.errors import SepuError

pytestmark = pytest.mark.usefixtures("own_ledger")  # a prune takes everybody's results

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)  # far longer than a run of all tests


def total(batches: Iterable[PrunedBatch]) -> tuple[int, int]:
    """Results and units of all batches."""
    found = list(batches)
    return sum(batch.results for batch in found), sum(batch.units for batch in found)


def keys(connection: Connection, customer: Customer) -> list[str]:
    rows = connection.execute(
        "select idempotency_key from sepu.stored_result where account_id = %s order by 1", (customer.account_id,)
    ).fetchall()
    return [key for (key,) in rows]


def test_only_what_is_past_retention_goes(connection: Connection, customer: Customer) -> None:
    for name, age, units in (
        ("ancient", 400 * DAY, 1),
        ("old", 90 * DAY + HOUR, 2),
        ("kept", 90 * DAY - HOUR, 4),
        ("new", HOUR, 8),
    ):
        assert customer.meter(connection, f"{name}-match", units=units, at=NOW - age).outcome == "charged"
        assert customer.meter(connection, f"{name}-search", meter="color_search", at=NOW - age).outcome == "charged"
    before = customer.committed(connection)

    assert total(prune(connection, 90)) == (4, 5)
    assert keys(connection, customer) == ["kept-match", "kept-search", "new-match", "new-search"]
    assert customer.committed(connection) == before, "what was charged stays charged"
    assert audit(connection).differences == ()
    assert total(prune(connection, 90)) == (0, 0)

    assert customer.meter(connection, "old-match", what="blue", at=NOW).outcome == "charged", "a new key, again"
    assert total(prune(connection, 31)) == (2, 5)
    assert keys(connection, customer) == ["new-match", "new-search", "old-match"]
    assert audit(connection).differences == ()


def test_a_day_has_24_hours_wherever_the_session_is(connection: Connection, make_customer: MakeCustomer) -> None:
    """On the way from March to June a clock of Berlin or New York is put forward."""
    june = datetime(2031, 6, 1, 12, tzinfo=UTC)
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        connection.execute("select set_config('timezone', %s, false)", (zone,))
        customer = make_customer()
        customer.meter(connection, "old-match", at=june - 90 * DAY - HOUR / 2)
        customer.meter(connection, "kept-match", at=june - 90 * DAY + HOUR / 2)
        pruned = "select results from sepu.prune_results(%s, '2031-03', 'color_match', 90, 9, %s)"
        assert connection.execute(pruned, (customer.account_id, june)).fetchone() == (1,)
        assert keys(connection, customer) == ["kept-match"]


def test_large_accounts_take_several_batches(
    connection: Connection, make_customer: MakeCustomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_RESULTS", 4)
    monkeypatch.setattr(pruning, "_COUNTERS", 3)
    for customer in [make_customer() for _ in range(4)]:
        for number in range(9):
            customer.meter(connection, f"key-{number:04}", units=2, at=NOW - 100 * DAY)
        customer.meter(connection, "search-0001", meter="color_search", at=NOW - 100 * DAY)
    prunable = count_prunable(connection, 90)
    assert prunable == 40

    batches = prune(connection, 90)
    first = next(batches)
    assert (first.results, first.units, audit(connection).differences) == (4, 8, ())
    batches.close()  # as Ctrl-C does; the next one goes on

    rest = list(prune(connection, 90))
    assert max(batch.results for batch in rest) == 4
    assert sum(batch.results for batch in rest) == 36
    assert first.results + sum(batch.results for batch in rest) == prunable
    assert audit(connection).results == 0
    assert audit(connection).differences == ()


def test_a_batch_happens_as_a_whole_or_not_at_all(connection: Connection, make_customer: MakeCustomer) -> None:
    customers = sorted((make_customer() for _ in range(3)), key=lambda customer: customer.account_id)
    for customer in customers:
        customer.meter(connection, units=5, at=NOW - 100 * DAY)
    connection.execute("update sepu.usage set committed = 4 where account_id = %s", (customers[1].account_id,))
    with pytest.raises(SepuError, match=f"{customers[1].account_id} .* sepu audit"):
        total(prune(connection, 90))
    assert [keys(connection, customer) for customer in customers] == [["key-0001"]] * 3
    assert [found.account_id for found in audit(connection).differences] == [customers[1].account_id]


def test_what_no_counter_has_charged_is_not_deleted(connection: Connection, customer: Customer) -> None:
    customer.meter(connection, at=NOW - 100 * DAY)
    connection.execute("delete from sepu.usage")
    assert total(prune(connection, 90)) == (0, 0)
    assert [found.stored for found in audit(connection).differences] == [1]


def test_two_prunes_share_a_counter(
    session: OpenSession, connection: Connection, customer: Customer, held_up: HeldUp
) -> None:
    for number in range(5):
        customer.meter(connection, f"key-{number:04}", at=NOW - 91 * DAY)
    counter = (customer.account_id, f"{NOW - 91 * DAY:%Y-%m}")
    statement = "select results from sepu.prune_results(%s, %s, 'color_match', 90, 2)"
    first, second = session(), session()
    first.execute("begin")
    assert first.execute(statement, counter).fetchone() == (2,)
    others = held_up(lambda: second.execute(statement, counter).fetchone(), lambda: first.execute("commit"))
    assert others == (2,), "others than the first took"
    assert audit(connection) == Audit(1, 1, 5, ())


def test_a_charge_waits_for_no_prune(session: OpenSession, connection: Connection, customer: Customer) -> None:
    customer.meter(connection, "old-match", at=NOW - 91 * DAY)
    customer.meter(connection, "new-match", at=NOW)
    pruner = session()
    pruner.execute("begin")
    row = pruner.execute(
        "select results from sepu.prune_results(%s, %s, 'color_match', 90, 100)",
        (customer.account_id, f"{NOW - 91 * DAY:%Y-%m}"),
    ).fetchone()
    assert row == (1,)
    connection.execute("set statement_timeout = '20s'")
    assert customer.meter(connection, "new-again", at=NOW).outcome == "charged"
    assert customer.meter(connection, "old-match", at=NOW).outcome == "replayed", "it is still there for others"
    pruner.execute("rollback")
    assert audit(connection).differences == ()


def test_it_reads_no_table_whole_whatever_the_statistics_say(
    connection: Connection, make_customer: MakeCustomer
) -> None:
    """A plan made while they were old would read all results for each counter."""

    def scans() -> int:
        connection.execute("select pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
        ((found,),) = connection.execute("select pg_stat_get_numscans('sepu.stored_result'::regclass)").fetchall()
        return int(found)

    for customer in [make_customer() for _ in range(3)]:
        customer.meter(connection, at=NOW - 100 * DAY)
    before = scans()
    assert total(prune(connection, 90)) == (3, 3)
    assert scans() == before
