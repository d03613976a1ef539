"""What each attempt sent, when, and what it was told: kept compactly, for `tests.faults.consistency` to check."""

from array import array
from collections.abc import Iterable
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

from tests.serving import Response

from sepu.metering.meters import METERS


class Outcome(IntEnum):
    """What an attempt came to, by its answer."""

    CHARGED = 0
    REPLAYED = 1
    QUOTA_EXCEEDED = 2
    IN_PROGRESS = 3
    CONFLICT = 4
    RATE_LIMITED = 5
    REFUSED = 6  # otherwise: it charged nothing
    UNKNOWN = 7  # no answer, or one that does not tell what happened: it may yet charge, even after the client gave up


CODES = {
    "quota_exceeded": Outcome.QUOTA_EXCEEDED,
    "request_in_progress": Outcome.IN_PROGRESS,
    "idempotency_conflict": Outcome.CONFLICT,
    "rate_limited": Outcome.RATE_LIMITED,
}


class Counter(NamedTuple):
    """One meter of an account in a month."""

    account_id: str
    meter: str
    period: str


class Request(NamedTuple):
    """A logical request; `content` stands for the input, so that two with one key can be told apart."""

    account_id: str
    key: str
    meter: str
    units: int
    content: int


class Told(NamedTuple):
    """What an answer says, or that there is none. `body` is a digest, and 0 if nobody looked at it."""

    outcome: Outcome
    meter: str = ""
    period: str = ""
    limit: int = 0
    committed: int = 0
    reserved: int = 0
    remaining: int = 0
    body: int = 0


UNANSWERED = Told(Outcome.UNKNOWN)


def digest(data: bytes) -> int:
    """Sixty-four bits that stand for some bytes."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), signed=True)


def told_by(answer: Response) -> Told:
    """Reads an answer. A usage header that is missing is -1, which no ledger says."""
    headers = answer.headers
    if answer.status == 200:
        outcome = Outcome.REPLAYED if headers.get("idempotency-replayed") == "true" else Outcome.CHARGED
    elif answer.status >= 500:
        return UNANSWERED
    else:
        outcome = CODES.get(answer.error or "", Outcome.REFUSED)
        if outcome != Outcome.QUOTA_EXCEEDED:
            return Told(outcome)
    limit, committed, reserved, remaining = (
        int(headers.get(f"x-usage-{name}", -1)) for name in ("limit", "committed", "reserved", "remaining")
    )
    meter, period = headers.get("x-usage-meter", ""), headers.get("x-usage-period", "")
    return Told(outcome, meter, period, limit, committed, reserved, remaining, digest(answer.body))


class History:
    """The attempts of one client process, by its monotonic clock: a column for each thing that is known of them."""

    def __init__(self) -> None:
        # Each distinct one, and its number.
        self.keys: dict[tuple[str, str], int] = {}
        self.requests: dict[Request, int] = {}
        self.counters: dict[Counter, int] = {}
        self.key_of_request = array("i")
        self.meter_of_request = array("b")
        self.units_of_request = array("i")
        # Of each attempt.
        self.request = array("i")
        self.start = array("d")
        self.end = array("d")
        self.outcome = array("b")
        self.counter = array("i")  # -1: none was told
        self.limit = array("q")
        self.committed = array("q")
        self.reserved = array("q")
        self.remaining = array("q")
        self.body = array("q")

    def __len__(self) -> int:
        return len(self.request)

    def add(self, request: Request, start: float, end: float, told: Told) -> None:
        """Keeps an attempt that began before it was sent, and ended when its answer was read or given up."""
        known = self.requests.setdefault(request, len(self.requests))
        if known == len(self.key_of_request):
            self.key_of_request.append(self.keys.setdefault(request[:2], len(self.keys)))
            self.meter_of_request.append(list(METERS).index(request.meter))
            self.units_of_request.append(request.units)
        counter = -1
        if told.period:
            counter = self.counters.setdefault(Counter(request.account_id, told.meter, told.period), len(self.counters))
        self.request.append(known)
        self.start.append(start)
        self.end.append(end)
        self.outcome.append(told.outcome)
        self.counter.append(counter)
        self.limit.append(told.limit)
        self.committed.append(told.committed)
        self.reserved.append(told.reserved)
        self.remaining.append(told.remaining)
        self.body.append(told.body)

    def accounts(self) -> list[str]:
        return sorted({account_id for account_id, _ in self.keys})

    def table(self, attempts: Iterable[int]) -> str:
        """These attempts, for people: in the order in which they began, by seconds since the first of all."""
        requests, counters, zero = list(self.requests), list(self.counters), min(self.start, default=0)
        rows: list[tuple[str, ...]] = [
            ("attempt", "account", "key", "asked", "began", "ended", "answer", "month", "committed", "left", "limit")
        ]
        for at in sorted(attempts, key=self.start.__getitem__):
            request, outcome = requests[self.request[at]], Outcome(self.outcome[at])
            usage: tuple[str, ...] = ("", "", "", "")
            if self.counter[at] >= 0:
                period = counters[self.counter[at]].period
                usage = (period, str(self.committed[at]), str(self.remaining[at]), str(self.limit[at]))
            asked = f"{request.units} {request.meter} {request.content & 0xFFFF:04x}"
            times = (f"{self.start[at] - zero:.6f}", f"{self.end[at] - zero:.6f}")
            rows.append((str(at), request.account_id, request.key, asked, *times, outcome.name.lower(), *usage))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
