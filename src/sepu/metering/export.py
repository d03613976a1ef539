"""Every account's usage of a month, for billing."""

from collections.abc import Generator
from itertools import groupby

import psycopg

from sepu.errors import SepuError
from sepu.metering import scripts
from sepu.metering.accounts import AccountUsage, account_usage

_PAGE = 5000


def count_exported(connection: psycopg.Connection, period: str) -> int:
    """Counts the accounts that were made before the UTC month was over.

    Raises:
        SepuError: the month has not begun, by the database's clock.
    """
    ((count, current),) = scripts.run(connection, "count_exported", period=period).fetchall()
    if period > current:
        raise SepuError(f"the month {period} has not begun; it is {current}")
    return int(count)


def export_usage(connection: psycopg.Connection, period: str) -> Generator[AccountUsage]:
    """Gives those accounts in the order of their ids, in one snapshot, a page at a time.

    Raises:
        AccountError: a plan has no limit for a meter.
    """
    with connection.transaction(), connection.cursor(name="export_usage") as cursor:
        cursor.itersize = _PAGE
        rows = cursor.execute(scripts.statement("export_usage"), {"period": period})
        for account, meters in groupby(rows, lambda row: row[:5]):
            yield account_usage(account, period, [row[5:] for row in meters])
