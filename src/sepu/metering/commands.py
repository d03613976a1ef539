"""What a request asks of the ledger: one statement each, and how its row is read. No I/O."""

from collections.abc import Callable
from typing import Any, Generic, Literal, LiteralString, TypeVar

import msgspec

from sepu.metering import scripts
from sepu.metering.keys import Credential

T = TypeVar("T")

Meter = Literal["color_match", "color_search"]
METERS: tuple[Meter, Meter] = ("color_match", "color_search")


class Charge(msgspec.Struct, frozen=True):
    """What a metered request would charge, and the response it would store."""

    meter: Meter
    units: int
    fingerprint: bytes
    body: bytes


class Usage(msgspec.Struct, frozen=True):
    """One meter of one account in one period."""

    period: str
    meter: Meter
    limit: int
    committed: int
    reserved: int

    @property
    def remaining(self) -> int:
        """Units left; never negative, even after the plan shrank."""
        return max(0, self.limit - self.committed - self.reserved)

    def as_dict(self) -> dict[str, str | int]:
        """The interface's UsageSnapshot."""
        return {
            "period": self.period,
            "meter": self.meter,
            "limit": self.limit,
            "committed": self.committed,
            "reserved": self.reserved,
            "remaining": self.remaining,
        }


class Metered(msgspec.Struct, frozen=True):
    """`charged`, `replayed`, or the contract's code of the refusal.

    `usage` goes with `charged`, `replayed` and `quota_exceeded`; `body` with the first two.
    """

    outcome: str
    usage: Usage | None = None
    body: bytes | None = None


class UsageReport(msgspec.Struct, frozen=True):
    """`ok`, or the contract's code of the refusal. The rest goes with `ok`."""

    outcome: str
    plan_id: str = ""
    usage: tuple[Usage, ...] = ()


class Command(msgspec.Struct, Generic[T], frozen=True):
    """One statement for the ledger.

    `when_limited` is the answer when the account is known to be over its abuse limit, `on_duplicate` the one when a
    unique constraint refuses the row: somebody else just stored it. `joined_statement` does the same for arrays of the
    parameters, and returns rows led by their positions, from 1.
    """

    statement: LiteralString
    parameters: tuple[Any, ...]
    read: Callable[[tuple[Any, ...]], T]
    joined_statement: LiteralString | None = None
    when_limited: T | None = None
    on_duplicate: T | None = None

    @property
    def account(self) -> str:
        """The account that asks: the first parameter of whatever a request calls."""
        account: str = self.parameters[0] if self.parameters else ""
        return account

    @property
    def holder(self) -> tuple[str, bytes]:
        """The account and the hash of its key: the first two parameters of whatever a request calls."""
        account, key_hash, *_ = self.parameters
        return account, key_hash


# The first column of each answer is the outcome; this is the one that the gateway looks at.
RATE_LIMITED = "rate_limited"
_LIMITED = Metered(RATE_LIMITED)
_IN_PROGRESS = Metered("request_in_progress")

_ADMIT = scripts.statement("admit")
_ADMIT_EACH = scripts.statement("admit_each")
_READ_USAGE = scripts.statement("read_usage")
_READ_USAGE_EACH = scripts.statement("read_usage_each")
_METER_REQUEST = scripts.statement("meter_request")
_METER_REQUEST_EACH = scripts.statement("meter_request_each")


def admit(credential: Credential) -> Command[str]:
    """A request that charges nothing: `ok`, or the contract's code of the refusal."""
    parameters = (credential.account_id, credential.key_hash)
    return Command(_ADMIT, parameters, _read_outcome, _ADMIT_EACH, RATE_LIMITED)


def read_usage(credential: Credential) -> Command[UsageReport]:
    """The account's two meters in the current period."""
    parameters = (credential.account_id, credential.key_hash)
    return Command(_READ_USAGE, parameters, _read_usage_report, _READ_USAGE_EACH, UsageReport(RATE_LIMITED))


def meter_request(credential: Credential, idempotency_key: str, charge: Charge) -> Command[Metered]:
    """Charges and stores, replays or refuses, in one transaction."""

    def read(row: tuple[Any, ...]) -> Metered:
        outcome, period, limit, committed, reserved, body = row
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
    )
    return Command(_METER_REQUEST, parameters, read, _METER_REQUEST_EACH, _LIMITED, _IN_PROGRESS)


def _read_outcome(row: tuple[Any, ...]) -> str:
    outcome: str = row[0]
    return outcome


def _read_usage_report(row: tuple[Any, ...]) -> UsageReport:
    outcome, plan_id, period, *meters = row
    if outcome != "ok":
        return UsageReport(outcome)
    usage = (Usage(period, METERS[0], *meters[:3]), Usage(period, METERS[1], *meters[3:]))
    return UsageReport(outcome, plan_id, usage)
