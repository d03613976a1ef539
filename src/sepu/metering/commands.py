"""The statements that requests send to the ledger, and how their rows are read. No I/O."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, LiteralString, TypeVar

import msgspec

from sepu.database import migrate, statements
from sepu.metering.codec import Row
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

    `usage` is set for `charged`, `replayed` and `quota_exceeded`; `body` is set for the first two.
    """

    outcome: str
    usage: Usage | None = None
    body: bytes | None = None


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


class Command(msgspec.Struct, Generic[T], frozen=True):
    """One statement for the ledger.

    `refused` turns a refusal's code into an answer. `on_duplicate` is the answer to a unique violation: another
    request has just stored this idempotency key. `joined_statement` takes each parameter as an array of values.
    Its rows begin with the call's 1-based position; a call's rows are adjacent.
    """

    statement: LiteralString
    parameters: tuple[Any, ...]
    read: Callable[[Sequence[Row]], T]
    joined_statement: LiteralString | None = None
    refused: Callable[[str], Any] = str
    on_duplicate: T | None = None

    @property
    def account(self) -> str:
        """Returns the caller's account, the first parameter; empty if there is none."""
        account: str = self.parameters[0] if self.parameters else ""
        return account

    @property
    def key_hash(self) -> bytes:
        """Returns the hash of the caller's key, the second parameter."""
        found: bytes = self.parameters[1]
        return found


# Outcomes (the first column of each row) that the batcher acts on.
RATE_LIMITED = "rate_limited"
UNAUTHORIZED = "unauthorized"
_IN_PROGRESS = Metered("request_in_progress")

_ADMIT = statements.statement("admit")
_ADMIT_EACH = statements.statement("admit_each")
_READ_USAGE = statements.statement("read_usage")
_READ_USAGE_EACH = statements.statement("read_usage_each")
_METER_REQUEST = statements.statement("meter_request")
_METER_REQUEST_EACH = statements.statement("meter_request_each")


def admit(credential: Credential) -> Command[str]:
    """Admits a request that charges nothing. The answer is `ok` or the contract's code for the refusal."""
    parameters = (credential.account_id, credential.key_hash)
    return Command(_ADMIT, parameters, _read_value, _ADMIT_EACH)


def read_usage(credential: Credential) -> Command[UsageReport]:
    """Reads the account's usage in the current period: one `Usage` for each meter."""
    parameters = (credential.account_id, credential.key_hash)
    return Command(_READ_USAGE, parameters, _read_usage_report, _READ_USAGE_EACH, UsageReport)


def meter_request(credential: Credential, idempotency_key: str, charge: Charge, request_id: str) -> Command[Metered]:
    """Charges and stores the result, replays a stored one, or refuses, in one transaction. `request_id` is a UUID."""

    def read(rows: Sequence[Row]) -> Metered:
        ((outcome, period, limit, committed, reserved, body),) = rows
        if period is None:
            return Metered(outcome)
        return Metered(outcome, Usage(period, charge.meter, limit, committed, reserved), body)

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
    return Command(_METER_REQUEST, parameters, read, _METER_REQUEST_EACH, Metered, _IN_PROGRESS)


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


PROBE = Command(statements.statement("probe"), (), _read_probed)
