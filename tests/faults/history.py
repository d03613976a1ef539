"""Each attempt's request, times and answer, for `tests.faults.consistency` to check."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

from tests.harness.serving import ONE_COLOUR, Response, Server

from sepu.admin.keys import IssuedKey


class Outcome(IntEnum):
    """The outcome of an attempt, by its answer."""

    CHARGED = 0
    REPLAYED = 1
    QUOTA_EXCEEDED = 2
    IN_PROGRESS = 3
    CONFLICT = 4
    RATE_LIMITED = 5
    ADMITTED = 6  # an answered call of usage or library
    READ = 7  # such an answer's state of a meter: kept in addition to the attempt
    REFUSED = 8  # any other refusal, without a charge
    UNKNOWN = 9  # no answer, or an unclear one: it may yet charge, even after the client gave up


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
    """A logical request; `content` is a digest of the input, so that two requests with one key differ.

    A call of usage or library has 0 units, its own name as the meter, and a key that is not sent.
    """

    account_id: str
    key: str
    meter: str
    units: int
    content: int


class Told(NamedTuple):
    """The content of an answer, or that there is none. `body` is a digest, or 0 if nobody looked at it."""

    outcome: Outcome
    meter: str = ""
    period: str = ""
    limit: int = 0
    committed: int = 0
    reserved: int = 0
    remaining: int = 0
    body: int = 0


class Terms(NamedTuple):
    """The limits of a plan."""

    units: Mapping[str, int]  # a month, by meter
    per_minute: int


class Change(NamedTuple):
    """An account's limits until the operator changed them, at an instant between these two."""

    start: float
    end: float
    before: Terms


class Adjustment(NamedTuple):
    """Units that the operator granted or credited, at an instant between these two."""

    start: float
    end: float
    units: int


UNANSWERED = Told(Outcome.UNKNOWN)


def digest(data: bytes) -> int:
    """A digest of 64 bits."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), signed=True)


def told_by(request: Request, answer: Response) -> list[Told]:
    """Reads an answer: its outcome, and for usage the state of each meter.

    A missing number of a meter is -1, which no ledger returns.
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


class Attempt(NamedTuple):
    """One sending of a request: it began after `start`, and `end` is when its answer was read or given up."""

    request: Request
    start: float
    end: float
    told: Told


class History:
    """The attempts of one client process, by its monotonic clock, and the operator's changes meanwhile."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.changes: defaultdict[str, list[Change]] = defaultdict(list)  # of each account, in order
        self.grants: defaultdict[Counter, list[Adjustment]] = defaultdict(list)  # in order, as are the credits
        self.credits: defaultdict[Counter, list[Adjustment]] = defaultdict(list)
        self.forgotten: list[tuple[float, float]] = []  # crashes of Postgres, which then forgot the minute's requests

    def add(self, request: Request, start: float, end: float, *all_told: Told) -> None:
        """Keeps an attempt; from any thread."""
        self.attempts += [Attempt(request, start, end, told) for told in all_told]

    def keep(self, request: Request, ask: Callable[[], Response]) -> Response:
        """Sends the request, and keeps the outcome; from any thread."""
        start, told = time.monotonic(), [UNANSWERED]
        try:
            answer = ask()
            told = told_by(request, answer)
        finally:
            self.add(request, start, time.monotonic(), *told)
        return answer

    def match(self, server: Server, issued: IssuedKey, key: str) -> Response:
        """Matches one colour, and keeps the outcome."""
        request = Request(issued.account_id, key, "color_match", 1, digest(ONE_COLOUR))
        return self.keep(request, lambda: server.match(issued, key))

    def accounts(self) -> list[str]:
        """The accounts of all attempts."""
        return sorted({one.request.account_id for one in self.attempts})
