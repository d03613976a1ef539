"""Finds an account's charges by request, key or day, in the request log, and charged twice."""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Literal, TypedDict, TypeVar, Unpack

import msgspec
import psycopg
from psycopg import sql

from sepu.database.statements import run, statement, stream, value
from sepu.metering.key_format import account_of, idempotency_key_hash
from sepu.metering.meters import METERS

REQUEST_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
KEY_HASH = re.compile(r"[0-9a-f]{12}", re.ASCII)
_CODE = re.compile(r"[a-z_]{1,64}", re.ASCII)
_POINTER = re.compile(r"(/[a-z0-9]{1,16}){1,4}", re.ASCII)
_UNREADABLE = "unreadable"

T = TypeVar("T")

# Requests that one statement looks up; each statement reads the account's results once.
_LOOKED_UP = 50_000

Outcome = Literal["charged", "replay", "not_charged", "unknown"]
# Reasons, in addition to the contract's error codes.
PRUNED = "pruned"
"""It was charged, or may have been, in a month whose results are gone."""
NOT_STORED = "not_stored"
"""The ledger has no such charge."""
OTHER_ACCOUNT = "other_account"
"""Another account was charged for it."""
FREE = "free"
"""The request costs nothing."""


class Range(TypedDict, total=False):
    """A range of time; a missing end is unbounded."""

    since: datetime | None
    until: datetime | None
    """The first instant after it."""


@dataclass(frozen=True, slots=True)
class StoredCharge:
    """A stored charge. `idempotency_key_hash` is None unless asked for."""

    request_id: str
    created_at: datetime
    key_id: str
    meter: str
    units: int
    period: str
    idempotency_key_hash: str | None


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """Whether a request was charged.

    The fields from `account_id` on describe the charge; without one, key and hash are the log's. `charged_by` is the
    request charged for the same idempotency key, if another. `reason` is a contract error code or one of this module's
    reasons. `time`, `status` and `error_pointer` are the answer's, from the log.
    """

    request_id: str
    outcome: Outcome
    reason: str | None = None
    time: datetime | None = None
    status: int | None = None
    error_pointer: str | None = None
    account_id: str | None = None
    charged_by: str | None = None
    created_at: datetime | None = None
    key_id: str | None = None
    meter: str | None = None
    units: int | None = None
    period: str | None = None
    idempotency_key_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Duplicate(StoredCharge):
    """A charge for the same input as the previous one, shortly after it."""

    previous_request_id: str
    previous_key_id: str
    seconds_after: float


class LoggedRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request's line in the log."""

    time: Annotated[datetime, msgspec.Meta(tz=True)]
    event: Literal["request"]
    request_id: str
    account: str | None
    endpoint: str | None
    status: Annotated[int, msgspec.Meta(ge=100, lt=1000)]
    error: str | None = None
    error_pointer: str | None = None
    replayed: bool = False
    key_id: str | None = None
    idempotency_key_hash: str | None = None


def list_charges(
    connection: psycopg.Connection,
    account_id: str,
    *,
    key_id: str | None = None,
    request_id: str | None = None,
    before: tuple[datetime, str] | None = None,
    limit: int | None = 100,
    with_hashes: bool = False,
    **times: Unpack[Range],
) -> Generator[StoredCharge, None, None]:
    """Returns an account's charges in a range of time that pass all filters, the newest first.

    `before`, a charge's time and request id, keeps only older ones. A request id has the form of a UUID. The console's
    role may not read hashes.
    """
    key = sql.Identifier("idempotency_key") if with_hashes else sql.NULL
    query = sql.SQL(statement("list_charges")).format(idempotency_key=key)
    given = {
        "account_id": account_id,
        "key_id": key_id,
        "since": times.get("since"),
        "until": times.get("until"),
        "request_id": request_id,
        "before": before and before[0],
        "before_id": before and before[1],
        "limit": limit,
    }
    with closing(stream(connection, query, given)) as rows:
        for row in rows:
            yield _charge(account_id, row)


def find_charge(connection: psycopg.Connection, account_id: str, idempotency_key: str) -> StoredCharge | None:
    """Returns the charge of an idempotency key."""
    row = run(connection, "find_charge", account_id=account_id, idempotency_key=idempotency_key).fetchone()
    return None if row is None else _charge(account_id, row)


def find_charges(
    connection: psycopg.Connection, account_id: str, request_ids: Sequence[str], hashes: Sequence[str] = ()
) -> list[StoredCharge]:
    """Returns the charges of requests, and those whose idempotency keys have these hashes."""
    found = run(connection, "find_charges", account_id=account_id, request_ids=list(request_ids), hashes=list(hashes))
    return [_charge(account_id, row) for row in found]


def find_duplicates(
    connection: psycopg.Connection, account_id: str, since: datetime, until: datetime | None, minutes: int
) -> Generator[Duplicate, None, None]:
    """Returns the charges in a range of time for the same input as another one at most `minutes` before."""
    given = {"account_id": account_id, "since": since, "until": until, "minutes": minutes}
    with closing(stream(connection, statement("find_duplicates"), given)) as rows:
        for *charge, previous_id, previous_key_id, gap in rows:
            seconds = round(gap / timedelta(seconds=1), 3)
            yield Duplicate(
                **asdict(_charge(account_id, tuple(charge))),
                previous_request_id=previous_id,
                previous_key_id=previous_key_id,
                seconds_after=seconds,
            )


def charged_account(connection: psycopg.Connection, request_id: str) -> str | None:
    """Returns the account that was charged for a request; None if none was, or it is not the id of a request."""
    if not REQUEST_ID.fullmatch(request_id.lower()):
        return None
    return _charged_accounts(connection, [request_id.lower()]).get(request_id.lower())


def _charged_accounts(connection: psycopg.Connection, request_ids: Sequence[str]) -> dict[str, str]:
    """Returns the accounts that were charged for requests."""
    if not request_ids:
        return {}
    return dict(run(connection, "find_charged_accounts", request_ids=request_ids).fetchall())


def pruned_months(connection: psycopg.Connection, account_id: str | None) -> list[str]:
    """Returns the months with deleted results, of an account or of any."""
    return [period for (period,) in run(connection, "list_pruned", account_id=account_id)]


def are_erased(connection: psycopg.Connection) -> bool:
    """Returns whether any account was erased, and with it the results of its requests."""
    return bool(value(connection, "are_erased"))


def times_of(day: date, days: int = 1) -> Range:
    """Returns the range of one or more UTC days."""
    since = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return {"since": since, "until": since + timedelta(days=days)}


def check_requests(
    connection: psycopg.Connection, account_id: str | None, request_ids: Iterable[str]
) -> Iterator[RequestStatus]:
    """Returns whether an account, or any, was charged for requests, as far as the ledger alone knows."""
    pruned = pruned_months(connection, account_id)
    for some in _in_parts(request_ids):
        charges = {}
        if account_id is not None:
            charges = {charge.request_id: charge for charge in find_charges(connection, account_id, some)}
        charged = _charged_accounts(connection, [request_id for request_id in some if request_id not in charges])
        if account_id is None:
            for charged_id in sorted(set(charged.values())):
                charges |= {charge.request_id: charge for charge in find_charges(connection, charged_id, some)}
        for request_id in some:
            if request_id in charges:
                yield _status(request_id, "charged", None, charges[request_id])
            elif request_id in charged:
                yield RequestStatus(request_id, "not_charged", OTHER_ACCOUNT, account_id=charged[request_id])
            elif pruned:
                yield RequestStatus(request_id, "unknown", PRUNED)
            else:
                yield RequestStatus(request_id, "not_charged", NOT_STORED)


def check_log(
    connection: psycopg.Connection, account_id: str, requests: Iterable[LoggedRequest]
) -> Iterator[RequestStatus]:
    """Returns whether the account's requests of a log were charged, in the log's order."""
    pruned = pruned_months(connection, account_id)
    own = (request for request in requests if request.account == account_id)
    for some in _in_parts(own):
        hashes = {request.idempotency_key_hash for request in some if request.idempotency_key_hash}
        found = find_charges(connection, account_id, [request.request_id for request in some], sorted(hashes))
        by_request = {charge.request_id: charge for charge in found}
        by_key = {charge.idempotency_key_hash: charge for charge in found}
        for request in some:
            charge = by_request.get(request.request_id)
            if charge is not None:
                yield _status(request.request_id, "charged", request.error, charge, request)
            else:
                is_pruned = f"{request.time:%Y-%m}" in pruned
                outcome, reason = _uncharged(request, is_pruned=is_pruned)
                other = by_key.get(request.idempotency_key_hash) if request.idempotency_key_hash else None
                yield _status(request.request_id, outcome, reason, other, request)


def read_log_line(line: bytes) -> LoggedRequest | None:
    """Reads a line of the request log, ignoring any text before its JSON; None for another record.

    Raises:
        ValueError: it is not a line of such a log, or was cut.
    """
    start = line.find(b"{")
    if start < 0:  # such as the log's text form
        raise ValueError("no line of the request log")
    try:
        request = msgspec.json.decode(line[start:], type=LoggedRequest)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("no line of the request log") from error
    if not (REQUEST_ID.fullmatch(request.request_id) and 1 < request.time.year < 9999):  # it must have a time in UTC
        return None
    # A terminal may show these, so they must have the form that the log writes.
    key_hash, key_id = request.idempotency_key_hash, request.key_id
    code, pointer = request.error, request.error_pointer
    return msgspec.structs.replace(
        request,
        error=code and (code if _CODE.fullmatch(code) else _UNREADABLE),
        error_pointer=pointer and (pointer if _POINTER.fullmatch(pointer) else _UNREADABLE),
        key_id=key_id if key_id and account_of(key_id) == request.account else None,
        idempotency_key_hash=key_hash if key_hash and KEY_HASH.fullmatch(key_hash) else None,
    )


def _uncharged(request: LoggedRequest, *, is_pruned: bool) -> tuple[Outcome, str | None]:
    """Says what became of a logged request that has no charge of its own in the ledger."""
    if request.replayed:
        return "replay", None
    if (request.endpoint or "").rpartition("/")[2] not in {meter.operation for meter in METERS.values()}:
        return "not_charged", request.error or FREE
    if request.error is None:  # it was answered, so it was charged
        return ("charged", PRUNED) if is_pruned else ("unknown", NOT_STORED)
    if request.status >= 500 and is_pruned:  # it may still have been charged
        return "unknown", PRUNED
    return "not_charged", request.error


def _status(
    request_id: str,
    outcome: Outcome,
    reason: str | None,
    charge: StoredCharge | None,
    request: LoggedRequest | None = None,
) -> RequestStatus:
    found = RequestStatus(request_id, outcome, reason)
    if request is not None:
        found = replace(
            found,
            time=request.time,
            status=request.status,
            error_pointer=request.error_pointer,
            key_id=request.key_id,
            idempotency_key_hash=request.idempotency_key_hash,
        )
    if charge is None:
        return found
    return replace(
        found,
        account_id=account_of(charge.key_id),
        charged_by=None if charge.request_id == request_id else charge.request_id,
        created_at=charge.created_at,
        key_id=charge.key_id,
        meter=charge.meter,
        units=charge.units,
        period=charge.period,
        idempotency_key_hash=charge.idempotency_key_hash,
    )


def _charge(account_id: str, row: tuple[Any, ...]) -> StoredCharge:
    request_id, created_at, key_id, meter, units, period, key = row
    key_hash = None if key is None else idempotency_key_hash(account_id, key)
    return StoredCharge(request_id, created_at, key_id, meter, units, period, key_hash)


def _in_parts(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, _LOOKED_UP)):
        yield part
