"""What each attempt sent, when, and what it was told: kept compactly, for `tests.faults.consistency` to check."""

import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from hashlib import blake2b
from threading import Lock
from typing import NamedTuple

from tests.serving import ONE_COLOUR, Response, Server

from sepu.admin.keys import IssuedKey
from sepu.metering.meters import METERS


class Outcome(IntEnum):
    """What an attempt came to, by its answer."""

    CHARGED = 0
    REPLAYED = 1
    QUOTA_EXCEEDED = 2
    IN_PROGRESS = 3
    CONFLICT = 4
    RATE_LIMITED = 5
    ADMITTED = 6  # a call of usage or library, answered
    READ = 7  # what such an answer says of a meter: kept beside the attempt, and none itself
    REFUSED = 8  # otherwise: it charged nothing
    UNKNOWN = 9  # no answer, or one that does not tell what happened: it may yet charge, even after the client gave up


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
    """A logical request; `content` stands for the input, so that two with one key can be told apart.

    A call of usage or library has no unit, its own name for a meter, and a key that is not sent.
    """

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


class Terms(NamedTuple):
    """What a plan allows."""

    units: Mapping[str, int]  # a month, by meter
    per_minute: int


class Change(NamedTuple):
    """What an account was allowed until an instant between these two, when the operator changed it."""

    start: float
    end: float
    before: Terms


class Adjustment(NamedTuple):
    """Units that the operator granted of a counter, or credited, at an instant between these."""

    start: float
    end: float
    units: int


UNANSWERED = Told(Outcome.UNKNOWN)


def digest(data: bytes) -> int:
    """Sixty-four bits that stand for some bytes."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), signed=True)


def told_by(request: Request, answer: Response) -> list[Told]:
    """Reads an answer: what it comes to, and of usage what it says of each meter.

    What is missing of a meter's usage is -1, which no ledger says.
    """
    if answer.status >= 500:
        return [UNANSWERED]
    if answer.status != 200:
        outcome = CODES.get(answer.error or "", Outcome.REFUSED)
    elif request.units == 0:
        read = answer.json.get("usage", ())
        return [Told(Outcome.ADMITTED), *(_usage(Outcome.READ, usage) for usage in read)]
    else:
        is_replay = answer.headers.get("idempotency-replayed") == "true"
        outcome = Outcome.REPLAYED if is_replay else Outcome.CHARGED
    if outcome not in {Outcome.CHARGED, Outcome.REPLAYED, Outcome.QUOTA_EXCEEDED}:
        return [Told(outcome)]
    headers = {name.removeprefix("x-usage-"): value for name, value in answer.headers.items()}
    return [_usage(outcome, headers)._replace(body=digest(answer.body))]


def _usage(outcome: Outcome, usage: Mapping[str, str | int]) -> Told:
    limit, committed, reserved, remaining = (
        int(usage.get(name, -1)) for name in ("limit", "committed", "reserved", "remaining")
    )
    meter, period = str(usage.get("meter", "")), str(usage.get("period", ""))
    return Told(outcome, meter, period, limit, committed, reserved, remaining)


class History:
    """The attempts of one client process, by its monotonic clock: a column for each thing that is known of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        # Each distinct one, and its number.
        self.keys: dict[tuple[str, str], int] = {}
        self.requests: dict[Request, int] = {}
        self.counters: dict[Counter, int] = {}
        self.changes: defaultdict[str, list[Change]] = defaultdict(list)  # of each account, in order
        self.grants: defaultdict[Counter, list[Adjustment]] = defaultdict(list)  # in order, as the credits
        self.credits: defaultdict[Counter, list[Adjustment]] = defaultdict(list)
        self.forgotten: list[tuple[float, float]] = []  # Postgres crashed, and forgot the requests of the minute
        self.key_of_request = array("i")
        self.meter_of_request = array("b")  # -1: usage or library
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

    def add(self, request: Request, start: float, end: float, *all_told: Told) -> None:
        """Keeps an attempt that began before it was sent, and ended when its answer was read or given up."""
        known = self.requests.setdefault(request, len(self.requests))
        if known == len(self.key_of_request):
            self.key_of_request.append(self.keys.setdefault(request[:2], len(self.keys)))
            self.meter_of_request.append(list(METERS).index(request.meter) if request.units else -1)
            self.units_of_request.append(request.units)
        for told in all_told:
            self._add(known, request, start, end, told)

    def _add(self, known: int, request: Request, start: float, end: float, told: Told) -> None:
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

    def keep(self, request: Request, ask: Callable[[], Response]) -> Response:
        """Asks, and keeps what came of it; from any thread."""
        start, told = time.monotonic(), [UNANSWERED]
        try:
            answer = ask()
            told = told_by(request, answer)
        finally:
            end = time.monotonic()
            with self._lock:
                self.add(request, start, end, *told)
        return answer

    def match(self, server: Server, issued: IssuedKey, key: str) -> Response:
        """Matches one colour, and keeps what came of it."""
        request = Request(issued.account_id, key, "color_match", 1, digest(ONE_COLOUR))
        return self.keep(request, lambda: server.match(issued, key))

    def accounts(self) -> list[str]:
        """Those that asked."""
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
            if not request.units:
                asked = f"{request.meter} of {counters[self.counter[at]].meter}" if usage[0] else request.meter
            times = (f"{self.start[at] - zero:.6f}", f"{self.end[at] - zero:.6f}")
            rows.append((str(at), request.account_id, request.key, asked, *times, outcome.name.lower(), *usage))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
