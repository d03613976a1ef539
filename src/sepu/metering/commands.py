"""The statements that requests send to the ledger, and how their rows are read. No I/O."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, LiteralString, TypeVar

import msgspec

from sepu.database import migrate, statements
from sepu.metering.codec import Row
from sepu.metering.failure import LedgerUnavailable
from sepu.metering.key_format import Credential
from sepu.metering.meters import Usage, usages

T = TypeVar("T")


class Charge(msgspec.Struct, frozen=True):
    """A metered request's charge, and the response to store."""

    meter: str
    units: int
    fingerprint: bytes
    body: bytes


class Metered(msgspec.Struct, frozen=True):
    """The outcome of a metered request: `charged`, `replayed`, or the contract's code for the refusal.

    `usage` is set for `charged`, `replayed` and `quota_exceeded`; `body` and the request's units for the first two.
    """

    outcome: str
    usage: Usage | None = None
    body: bytes | None = None
    units: int = 0


class UsageReport(msgspec.Struct, frozen=True):
    """The outcome is `ok` or the contract's code for the refusal. The other fields are set only for `ok`."""

    outcome: str
    plan_id: str = ""
    usage: tuple[Usage, ...] = ()


class Probed(msgspec.Struct, frozen=True):
    """A probe's findings, including the secret for key tags and any settings that break a guarantee.

    `nodes` are the other nodes of a Citus cluster, as `host:port`.
    """

    has_migrations: bool
    key_secret: bytes
    broken_settings: str | None
    nodes: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Returns whether a charge could be committed durably with this release's migrations."""
        return self.has_migrations and self.broken_settings is None


def _unchanged(outcome: Any) -> Any:  # noqa: ANN401
    return outcome


class Command(msgspec.Struct, Generic[T], eq=False):
    """One call of the ledger, from the endpoint that makes it to its answer.

    `read` turns rows into an outcome, `refusal` a refusal's code; `reply` turns the outcome into the caller's answer.
    The code `on_duplicate` is for a unique violation: another request has just stored this idempotency key.
    `batch_statement` takes each parameter as an array of values. Its rows begin with the command's 1-based position.
    """

    statement: LiteralString
    parameters: tuple[Any, ...]
    read: Callable[[Sequence[Row]], Any]
    credential: Credential = Credential("", b"")
    reply: Callable[[Any], T] = _unchanged
    unavailable: T | None = None
    """The answer if the ledger does not answer; with None, it is `LedgerUnavailable`."""
    batch_statement: LiteralString | None = None
    refusal: Callable[[str], Any] = str
    on_duplicate: str | None = None
    done: Callable[[Any], object] = _unchanged
    """Takes the answer, or an exception instead. Whoever submits the command sets it."""
    latest: float = 0.0
    """When the command fails instead of being sent, or sent again, on the loop's clock."""

    def refused(self, code: str) -> T:
        """Returns the answer to a refusal."""
        return self.reply(self.refusal(code))

    def unanswered(self) -> T | LedgerUnavailable:
        """Returns the answer if the ledger does not answer."""
        return LedgerUnavailable() if self.unavailable is None else self.unavailable


# Outcomes (the first column of each row) that the batcher acts on.
RATE_LIMITED = "rate_limited"
UNAUTHORIZED = "unauthorized"
_IN_PROGRESS = "request_in_progress"

_ADMIT = statements.statement("admit")
_ADMIT_BATCH = statements.statement("admit_batch")
_READ_USAGE = statements.statement("read_usage")
_READ_USAGE_BATCH = statements.statement("read_usage_batch")
_METER_REQUEST = statements.statement("meter_request")
_METER_REQUEST_BATCH = statements.statement("meter_request_batch")
_PROBE = statements.statement("probe")


def admit(credential: Credential, reply: Callable[[str], Any] = _unchanged, unavailable: object = None) -> Command[Any]:
    """Admits a request that charges nothing. The outcome is `ok` or the contract's code for the refusal."""
    parameters = (credential.account_id, credential.key_hash)
    return Command(_ADMIT, parameters, _read_value, credential, reply, unavailable, _ADMIT_BATCH)


def read_usage(
    credential: Credential, reply: Callable[[UsageReport], Any] = _unchanged, unavailable: object = None
) -> Command[Any]:
    """Reads the account's usage in the current period: one `Usage` for each meter."""
    parameters = (credential.account_id, credential.key_hash)
    return Command(
        _READ_USAGE, parameters, _read_usage_report, credential, reply, unavailable, _READ_USAGE_BATCH, UsageReport
    )


def meter_request(
    credential: Credential,
    idempotency_key: str,
    charge: Charge,
    request_id: str,
    reply: Callable[[Metered], Any] = _unchanged,
    unavailable: object = None,
) -> Command[Any]:
    """Charges and stores the result, replays a stored one, or refuses, in one transaction. `request_id` is a UUID."""

    def read(rows: Sequence[Row]) -> Metered:
        ((outcome, period, limit, committed, reserved, body),) = rows
        if period is None:
            return Metered(outcome)
        return Metered(outcome, Usage(period, charge.meter, limit, committed, reserved), body, charge.units)

    parameters = (
        credential.account_id,
        credential.key_hash,
        idempotency_key,
        charge.fingerprint,
        charge.meter,
        charge.units,
        charge.body,
        request_id,
    )
    return Command(
        _METER_REQUEST,
        parameters,
        read,
        credential,
        reply,
        unavailable,
        _METER_REQUEST_BATCH,
        Metered,
        _IN_PROGRESS,
    )


def probe() -> Command[Probed]:
    """Finds out whether a charge could be committed now, and which database this is."""
    return Command(_PROBE, (), _read_probed)


def needed_schema() -> str:
    """Returns the schema that this release needs, in the form of `migrate.schema_of_release`."""
    return migrate.schema_of_release()


def _read_probed(rows: Sequence[Row]) -> Probed:
    ((_, key_secret, broken_settings, nodes),) = rows
    return Probed(migrate.holds_migrations(rows), key_secret, broken_settings, tuple(nodes.split(",")) if nodes else ())


def _read_value(rows: Sequence[Row]) -> Any:  # noqa: ANN401
    ((value,),) = rows
    return value


def _read_usage_report(rows: Sequence[Row]) -> UsageReport:
    outcome, plan_id, period, *_ = rows[0]
    if outcome != "ok":
        return UsageReport(outcome)
    return UsageReport(outcome, plan_id, usages(period, [row[3:] for row in rows]))
