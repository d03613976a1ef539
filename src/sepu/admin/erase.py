"""Erases what is known about a customer. Each month's units stay for billing, so the ledger still adds up."""

import time
from dataclasses import dataclass
from datetime import timedelta

import psycopg

from sepu import limits
from sepu.admin.export import export_usage
from sepu.admin.history import forget_names, recording
from sepu.admin.naming import AccountError, find_account
from sepu.admin.prune import prune_results
from sepu.admin.usage import AccountUsage, read_today
from sepu.database.statements import run, value
from sepu.errors import SepuError


@dataclass(frozen=True, slots=True)
class Erased:
    """What was deleted."""

    keys: int
    receipts: int
    results: int


def erase_account(connection: psycopg.Connection, account_id: str) -> Erased:
    """Closes an account for good, and deletes its names, keys, receipts, stored results, events and days of usage.

    Its history loses only the names, its grants and credits only the reasons. It may be stopped and repeated.

    Raises:
        AccountError: no such account.
        SepuError: stored results do not add up to what their counter was charged, or have none.
    """
    account_id = find_account(connection, account_id)
    with connection.transaction():
        with recording(connection, "account.erase", account_id):
            run(connection, "erase_account", account_id=account_id)
        receipts = run(connection, "erase_receipts", account_id=account_id).rowcount
        run(connection, "erase_reasons", account_id=account_id)
        keys = run(connection, "erase_keys", account_id=account_id).rowcount
        forget_names(connection, account_id)
    # A call under way may have read its key already. Afterwards its worker has given it up, and it has ended or waits
    # for a lock.
    time.sleep(limits.database.STATEMENT_SECONDS + limits.database.LOCK_SECONDS)
    results = 0
    for period, meter in run(connection, "list_counters", account_id=account_id).fetchall():
        results += _erase_results(connection, account_id, period, meter)
    with connection.transaction():
        run(connection, "forget_usage", account_id=account_id)
        run(connection, "erase_events", account_id=account_id)
        run(connection, "erase_days", account_id=account_id)
        run(connection, "erase_request_rate", account_id=account_id)
    if left := value(connection, "count_results", account_id=account_id):
        raise SepuError(f"{left} results of account {account_id} are left, which no counter has charged", "audit")
    return Erased(keys, receipts, results)


def last_bill(connection: psycopg.Connection, account_id: str) -> list[AccountUsage]:
    """Returns what an account used this month and the month before, which may not be billed yet.

    Raises:
        AccountError: no such account.
    """
    account_id = find_account(connection, account_id)
    today = read_today(connection)
    months = (today.replace(day=1) - timedelta(days=1), today)
    return [used for month in months for used in export_usage(connection, f"{month:%Y-%m}", account_id)]


def delete_unused_account(connection: psycopg.Connection, account_id: str) -> int:
    """Deletes an account that was never used, with its keys and receipts; returns the number of keys.

    Its history stays, without names.

    Raises:
        AccountError: no such account, or it was used.
    """
    used = AccountError(f"account {account_id!r} was used, so its bills need it; erase it instead", "erase account")
    try:
        with connection.transaction():
            with recording(connection, "account.delete", account_id) as found:
                if not found:
                    raise AccountError(f"there is no account {account_id!r}")
                if not value(connection, "is_unused", account_id=account_id):
                    raise used
                run(connection, "erase_receipts", account_id=account_id)
                keys = run(connection, "erase_keys", account_id=account_id).rowcount
                run(connection, "erase_request_rate", account_id=account_id)
                run(connection, "delete_account", account_id=account_id)
            forget_names(connection, account_id)
    except psycopg.errors.ForeignKeyViolation as error:  # a request was charged meanwhile
        raise used from error
    return keys


def _erase_results(connection: psycopg.Connection, account_id: str, period: str, meter: str) -> int:
    counter = {"account_id": account_id, "period": period, "meter": meter}
    most = limits.retention.RESULTS
    results, deleted = 0, most
    while deleted == most:
        deleted, _ = prune_results(connection, 0, counter, most)
        results += deleted
    return results
