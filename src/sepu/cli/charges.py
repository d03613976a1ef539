"""`sepu charges`."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import date, datetime, timedelta
from heapq import merge
from itertools import count
from typing import IO, Any

import click
from psycopg import Connection

from sepu.admin import charges as admin
from sepu.admin.charges import Duplicate, LoggedRequest, Range, RequestStatus, StoredCharge
from sepu.admin.usage import days_of_month, read_now
from sepu.cli.command import command, example, form_options, refuse_useless_options
from sepu.cli.decorators import with_connection
from sepu.cli.demo_account import GREETING
from sepu.cli.output import Form, columns, echo_rows, instant, members, month, note
from sepu.cli.times import range_options, utc_day
from sepu.metering.key_format import account_of, idempotency_key_hash

# A line of the request log: longer ones are cut, and one of _NO_LOG_LINE_BYTES is not from a log.
_LOG_LINE_BYTES = 64 * 1024
_NO_LOG_LINE_BYTES = 2**24

_GZIP = b"\x1f\x8b"
_TIMES = ("since", "until", "day", "period")


def _request_id(value: str) -> str:
    if not admin.REQUEST_ID.fullmatch(value.lower()):
        raise click.BadParameter(f"{value!r} is not like 6f1c0d2e-8a4b-4c1d-9e5f-0a1b2c3d4e5f")
    return value.lower()


@command(epilog=example("charges cus_8812 --request 6f1c0d2e-8a4b-4c1d-9e5f-0a1b2c3d4e5f"))
@click.argument("account_id", metavar="[ACCOUNT]", required=False)
@click.option(
    "--request", "request_ids", metavar="ID", multiple=True, type=_request_id, help="Its X-Request-Id; repeatable."
)
@click.option("--idempotency-key", "key", metavar="KEY", help="An Idempotency-Key, or its hash in the request log.")
@click.option("--key", "key_id", metavar="KEY_ID", help="Only charges with the API key of this id.")
@range_options("charges, or requests of a log,")
@click.option("--day", metavar="YYYY-MM-DD", type=utc_day, help="A UTC day, instead of --since and --until.")
@click.option("--month", "period", metavar="YYYY-MM", type=month, help="A UTC month, instead.")
@click.option(
    "--log",
    "log_files",
    metavar="FILE",
    multiple=True,
    help="A request log, plain or gzipped; - reads standard input. Repeatable: one for each node.",
)
@click.option("--duplicates", is_flag=True, help="Charges for the same input under another idempotency key.")
@click.option(
    "--within",
    "minutes",
    metavar="MINUTES",
    type=click.IntRange(1, 44640),
    default=10,
    show_default=True,
    help="Duplicates follow the earlier charge within this time.",
)
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="Maximum rows; 0 for all.")
@form_options
@with_connection
def charges(
    connection: Connection,
    account_id: str | None,
    request_ids: tuple[str, ...],
    key: str | None,
    key_id: str | None,
    since: datetime | None,
    until: datetime | None,
    day: date | None,
    period: str | None,
    log_files: tuple[str, ...],
    duplicates: bool,
    minutes: int,
    limit: int,
    form: Form | None,
) -> None:
    """Show what an account was charged for, the newest first; or whether requests were charged.

    With --request or --log it shows each request: charged, replay, not_charged or unknown, and why; --log with
    --idempotency-key shows those with that key. Several logs are shown as one, in order of time. With --duplicates it
    shows charges that look as if a client asked twice, by default in the last 31 days. Only --request alone needs no
    ACCOUNT.
    """
    form = form or "table"
    times = _range(since, until, day, period)
    if log_files or request_ids:
        used = ("account_id", "request_ids", *(("log_files", "key", *_TIMES) if log_files else ()))
        refuse_useless_options("--log" if log_files else "--request", used=used)
        if len(set(log_files)) < len(log_files):
            raise click.UsageError("--log is given twice with the same file")
        _check(connection, account_id, request_ids, log_files, key, times, form)
        return
    if account_id is None:
        raise click.UsageError("give an ACCOUNT; only --request works without one")
    if duplicates:
        refuse_useless_options("--duplicates", used=("account_id", "duplicates", "minutes", *_TIMES))
        _show_duplicates(connection, account_id, times, minutes, form)
    elif key is not None:
        refuse_useless_options("--idempotency-key", used=("account_id", "key"))
        found = admin.find_charge(connection, account_id, key)
        hashed = [key] if admin.KEY_HASH.fullmatch(key) else []
        if not _show([found] if found else admin.find_charges(connection, account_id, [], hashed), form):
            _note_missing(connection, account_id, "; the requests with this key are in the request log: --log FILE")
    else:
        refuse_useless_options("a list of charges", used=("account_id", "key_id", "limit", *_TIMES))
        if key_id is not None and account_of(key_id) != account_id:
            raise click.BadParameter(f"{key_id!r} is not the id of a key of account {account_id}")
        most = limit or None
        with closing(
            admin.list_charges(connection, account_id, key_id=key_id, **times, limit=most, with_hashes=True)
        ) as found_charges:
            shown = _show(found_charges, form)
        if shown and shown == limit:
            note(f"the newest {limit}; --limit 0 shows all")
        elif not shown:
            _note_missing(connection, account_id)


def _range(since: datetime | None, until: datetime | None, day: date | None, period: str | None) -> Range:
    """Returns the range of time that is given in one of three ways."""
    if sum(given is not None for given in (since or until, day, period)) > 1:
        raise click.UsageError("take --day, --month, or --since and --until")
    if day is not None:
        return admin.times_of(day)
    if period is not None:
        first, last = days_of_month(period)
        return admin.times_of(first, last.day)
    return {"since": since, "until": until}


def _show(found: Iterable[StoredCharge], form: Form) -> int:
    """Prints charges, and returns how many."""
    shown = count()
    rows = (members(charge) for charge, _ in zip(found, shown, strict=False))
    echo_rows(columns(StoredCharge), rows, form, nothing=None)
    return next(shown)


def _note_missing(connection: Connection, account_id: str, more: str = "") -> None:
    note(f"no such charge{more}{_gone(connection, account_id)}")


def _gone(connection: Connection, account_id: str | None) -> str:
    """Says which months' charges are gone, of an account or of any."""
    pruned = admin.pruned_months(connection, account_id)
    of_some = "" if account_id else " of some accounts"
    return f"; charges{of_some} in {', '.join(pruned)} were pruned or erased" if pruned else ""


def _check(
    connection: Connection,
    account_id: str | None,
    request_ids: Sequence[str],
    log_files: Sequence[str],
    key: str | None,
    times: Range,
    form: Form,
) -> None:
    if log_files and account_id is None:
        raise click.UsageError("give an ACCOUNT; --log is compared with what it was charged for")
    missing = dict.fromkeys(request_ids)
    alone = False

    def statuses() -> Iterator[RequestStatus]:
        nonlocal alone
        if log_files and account_id is not None:
            wanted = {*request_ids, *([key, idempotency_key_hash(account_id, key)] if key else [])}
            with ExitStack() as files:
                logs = [_wanted(files.enter_context(_open(name)), wanted, times) for name in log_files]
                in_order = merge(*logs, key=lambda request: request.time)
                for status in admin.check_log(connection, account_id, in_order):
                    missing.pop(status.request_id, None)
                    yield status
        for status in admin.check_requests(connection, account_id, missing):
            alone = alone or status.account_id is None
            yield status

    echo_rows(columns(RequestStatus), map(members, statuses()), form, _in_table)
    if alone:
        whole = "--log FILE" if account_id else "sepu charges ACCOUNT --request … --log FILE"
        more = "nor do the logs show it" if log_files else f"what became of it is in the request log: {whole}"
        erased = "; those of erased accounts are gone" if not account_id and admin.are_erased(connection) else ""
        note(f"the ledger has no charge of a request; {more}{erased}{_gone(connection, account_id)}")


def _in_table(row: Any) -> Any:  # noqa: ANN401
    names = ("requestId", "time", "status", "outcome", "reason", "accountId", "chargedBy", "createdAt", "meter")
    shown = {name: row[name] for name in (*names, "units", "keyId")}
    return {**shown, "reason": " ".join(filter(None, (row["reason"], row["errorPointer"]))) or None}


def _wanted(file: IO[bytes] | gzip.GzipFile, wanted: set[str], times: Range) -> Iterator[LoggedRequest]:
    """Reads a log's requests in a range of time; with `wanted`, only those with these ids or key hashes.

    Says how many lines it could not read, and if other records are all that there is, as in a proxy's log.
    """
    since, until = times["since"], times["until"]
    unreadable = others = requests = 0
    for line in _lines(file):
        try:
            request = admin.read_log_line(line)
        except ValueError:
            unreadable += not line.startswith(GREETING)
            continue
        if request is None:
            others += 1
            continue
        requests += 1
        if wanted and wanted.isdisjoint((request.request_id, request.idempotency_key_hash)):
            continue
        if (since is None or request.time >= since) and (until is None or request.time < until):
            yield request
    if unreadable:
        note(f"lines that are not of a request log in JSON (serve --log-format json), or were cut: {unreadable}")
    if others and not requests:
        note("a log has no request; if it is the proxy's, give that of sepu serve")


def _lines(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """Reads lines; of a line longer than any in a log, only the beginning."""
    try:
        while line := file.readline(_LOG_LINE_BYTES):
            yield line
            size = len(line)
            while not line.endswith(b"\n") and (line := file.readline(_LOG_LINE_BYTES)):
                size += len(line)
                if size > _NO_LOG_LINE_BYTES:
                    raise click.BadParameter(
                        f"this is not a request log: a line has more than {_NO_LOG_LINE_BYTES:,} bytes"
                    )
    except (EOFError, zlib.error, gzip.BadGzipFile):
        note("the compressed log is cut or damaged; everything before that was read")


@contextmanager
def _open(name: str) -> Iterator[IO[bytes] | gzip.GzipFile]:
    try:
        file: Any = sys.stdin.buffer if name == "-" else open(name, "rb")  # noqa: SIM115, PTH123
        file = io.BufferedReader(file)
    except OSError as error:
        raise click.BadParameter(f"{name!r}: {error.strerror}") from error
    with file:
        if file.peek(len(_GZIP))[: len(_GZIP)] != _GZIP:
            yield file
            return
        with gzip.open(file) as unpacked:
            yield unpacked


def _show_duplicates(connection: Connection, account_id: str, times: Range, minutes: int, form: Form) -> None:
    until = times["until"]
    since = times["since"] or (until or read_now(connection)) - timedelta(days=31)
    units: dict[str, int] = {}

    def rows() -> Iterator[dict[str, Any]]:
        for duplicate in found:
            units[duplicate.meter] = units.get(duplicate.meter, 0) + duplicate.units
            yield members(duplicate)

    with closing(admin.find_duplicates(connection, account_id, since, until, minutes)) as found:
        echo_rows(columns(Duplicate), rows(), form, _duplicate_in_table, nothing=None)
    worth = ", ".join(f"{count} of {meter}" for meter, count in sorted(units.items())) or "none"
    note(f"{instant(since)} to {instant(until) or 'now'}: units charged for an input again: {worth}")


def _duplicate_in_table(row: Any) -> Any:  # noqa: ANN401
    names = ("requestId", "previousRequestId", "secondsAfter", "createdAt", "meter", "units", "keyId", "previousKeyId")
    return {name: row[name] for name in names}
