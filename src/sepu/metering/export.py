"""Every account's usage of a month, for billing."""

from collections.abc import Generator

import psycopg

from sepu.errors import SepuError
from sepu.metering import scripts
from sepu.metering.accounts import AccountUsage
from sepu.metering.commands import METERS, Usage

_PAGE = 5000


class ExportError(SepuError):
    """There is nothing to export yet."""


def count_exported(connection: psycopg.Connection, period: str) -> int:
    """How many accounts there were before the UTC month was over.

    Raises:
        ExportError: it has not begun, by the database's clock.
    """
    ((count, current),) = connection.execute(scripts.statement("count_exported"), {"period": period}).fetchall()
    if period > current:
        raise ExportError(f"the month {period} has not begun; it is {current}")
    return int(count)


def export_usage(connection: psycopg.Connection, period: str) -> Generator[AccountUsage]:
    """Those accounts in the order of their ids, in one snapshot, a page at a time."""
    with connection.transaction(), connection.cursor(name="export_usage") as cursor:
        cursor.itersize = _PAGE
        for account_id, status, plan_id, *meters in cursor.execute(
            scripts.statement("export_usage"), {"period": period}
        ):
            usage = (Usage(period, METERS[0], *meters[:3]), Usage(period, METERS[1], *meters[3:]))
            yield AccountUsage(account_id, status, plan_id, usage)
