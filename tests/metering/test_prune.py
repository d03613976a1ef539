"""Pruning beyond the model: under traffic, concurrently, and on damaged tables."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import Connection
from tests.metering.conftest import Customer, HeldUp, MakeCustomer

from sepu.admin.audit import Audit, audit
from sepu.admin.prune import PrunedBatch, prune
from sepu.errors import SepuError

pytestmark = pytest.mark.usefixtures("own_ledger")  # a prune looks at all accounts

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def total(batches: Iterable[PrunedBatch]) -> tuple[int, int]:
    """Results and units of all batches."""
    found = list(batches)
    return sum(batch.results for batch in found), sum(batch.units for batch in found)


def keys(connection: Connection, customer: Customer) -> list[str]:
    rows = connection.execute(
        "select idempotency_key from sepu.stored_result where account_id = %s order by 1", (customer.account_id,)
    ).fetchall()
    return [key for (key,) in rows]


def test_a_batch_happens_as_a_whole_or_not_at_all(connection: Connection, make_customer: MakeCustomer) -> None:
    customers = sorted((make_customer() for _ in range(3)), key=lambda customer: customer.account_id)
    for customer in customers:
        customer.meter(connection, units=5, at=NOW - 100 * DAY)
    connection.execute("update sepu.usage set committed = 4 where account_id = %s", (customers[1].account_id,))
    with pytest.raises(
        SepuError, match=f"account {customers[1].account_id} stored of color_match in .* does not add up"
    ):
        total(prune(connection, 90))
    assert [keys(connection, customer) for customer in customers] == [["key-0001"]] * 3
    assert [found.account_id for found in audit(connection).differences] == [customers[1].account_id]


def test_what_no_counter_has_charged_is_not_deleted(connection: Connection, customer: Customer) -> None:
    customer.meter(connection, at=NOW - 100 * DAY)
    connection.execute("delete from sepu.usage")
    assert total(prune(connection, 90)) == (0, 0)
    assert [found.stored for found in audit(connection).differences] == [1]


def test_two_prunes_share_a_counter(
    a: Connection, b: Connection, connection: Connection, customer: Customer, held_up: HeldUp
) -> None:
    for number in range(5):
        customer.meter(connection, f"key-{number:04}", at=NOW - 91 * DAY)
    counter = (customer.account_id, f"{NOW - 91 * DAY:%Y-%m}")
    statement = "select results from sepu.prune_results(%s, %s, 'color_match', 90, 2)"
    assert a.execute(statement, counter).fetchone() == (2,)
    assert held_up(lambda: b.execute(statement, counter).fetchone()) == (2,), "others than the first took"
    assert audit(connection) == Audit(1, 1, 5, ())


def test_a_charge_waits_for_no_prune(a: Connection, connection: Connection, customer: Customer) -> None:
    customer.meter(connection, "old-match", at=NOW - 91 * DAY)
    customer.meter(connection, "new-match", at=NOW)
    row = a.execute(
        "select results from sepu.prune_results(%s, %s, 'color_match', 90, 100)",
        (customer.account_id, f"{NOW - 91 * DAY:%Y-%m}"),
    ).fetchone()
    assert row == (1,)
    connection.execute("set statement_timeout = '20s'")
    assert customer.meter(connection, "new-again", at=NOW).outcome == "charged"
    assert customer.meter(connection, "old-match", at=NOW).outcome == "replayed", "it is still there for others"
    a.execute("rollback")
    assert audit(connection).differences == ()


def test_it_reads_no_table_whole_whatever_the_statistics_say(
    connection: Connection, make_customer: MakeCustomer
) -> None:
    """A plan cached with old statistics would read all results for each counter."""

    def scans() -> int:
        connection.execute("select pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
        ((found,),) = connection.execute("select pg_stat_get_numscans('sepu.stored_result'::regclass)").fetchall()
        return int(found)

    for customer in [make_customer() for _ in range(3)]:
        customer.meter(connection, at=NOW - 100 * DAY)
    before = scans()
    assert total(prune(connection, 90)) == (3, 3)
    assert scans() == before
